"""Rooms: images rendered per second, 64 × 64 and 128 × 128.

Run: ``python benchmarks/rooms.py [--device cpu] [--images 1024]``. One thread on the CPU; median and range of five.
"""

import argparse
import os
import time

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

from noumena.worlds.rooms import LEVELS, Rooms


def per_second(size, device, images):
    """Images per second of five runs, after one that is not counted."""
    rng = np.random.default_rng(0)
    levels = np.stack([rng.integers(k, size=images) for k in LEVELS], axis=1)
    rooms, found = Rooms(size, device), []
    for _ in range(6):
        start = time.perf_counter()
        rooms.render(levels)
        if device != "cpu":
            torch.cuda.synchronize()
        found.append(images / (time.perf_counter() - start))
    return np.array(found[1:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=1024)
    options = parser.parse_args()
    torch.set_num_threads(1)
    name = "one thread" if options.device == "cpu" else torch.cuda.get_device_name(options.device)
    for size in (64, 128):
        found = per_second(size, options.device, options.images)
        print(f"{name}, {size} × {size}: {np.median(found):.0f} images/s ({found.min():.0f}–{found.max():.0f})")
