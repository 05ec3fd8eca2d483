"""Where a second thread starts to pay: one training-like step at growing sizes with one thread and with all.

Prints time per step and the ratio one thread / all threads (above 1: more threads pay).
``threads.WORTH_A_SECOND_THREAD`` is set from it. Run: ``python benchmarks/threads.py``.
"""

import time
from statistics import median

import torch
from torch import nn


def step(net, x):
    net(x).square().mean().backward()


def milliseconds(net, x, threads, rounds=9):
    torch.set_num_threads(threads)
    step(net, x)
    spent = []
    for _ in range(rounds):
        start = time.perf_counter()
        step(net, x)
        spent.append(1000 * (time.perf_counter() - start))
    return median(spent)


def main():
    available = torch.get_num_threads()
    print(f"{available} threads available")
    for width, batch in ((64, 256), (128, 512), (256, 1024), (512, 2048), (1024, 2048), (1024, 8192)):
        net = nn.Sequential(nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, width))
        x = torch.randn(batch, width)
        work = 6.0 * sum(p.numel() for p in net.parameters()) * batch
        one, many = milliseconds(net, x, 1), milliseconds(net, x, available)
        sizes = f"width {width:4d} batch {batch:4d} work {work:.1e}"
        print(f"{sizes}: one {one:8.2f} ms, all {many:8.2f} ms, {one / many:.2f}×")


if __name__ == "__main__":
    main()
