"""Worlds one can see: rooms, one factor at a time, and balls that stand still now and then, as two small pictures."""

import sys
from pathlib import Path

import numpy as np

from noumena.report import png
from noumena.report.pictures import sheet
from noumena.worlds import Balls, Rooms

out = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
out.mkdir(parents=True, exist_ok=True)

rooms = Rooms(64)
one = np.array([5, 0, 3, 6, 2, 4])  # floor hue, wall hue, object hue, scale, shape, orientation
strips = []
for factor, levels in enumerate(rooms.sizes):
    strip = np.tile(one, (8, 1))
    strip[:, factor] = np.linspace(0, levels - 1, 8).round()
    strips.append(rooms.pictures(np.ravel_multi_index(tuple(strip.T), rooms.sizes)).numpy())
png.save(sheet(np.concatenate(strips), rooms.shape, 8), out / "rooms.png")

balls = Balls(4, images=2000)
still = np.flatnonzero(~balls.masks.reshape(-1, 4, 2).any(axis=2).all(axis=1))[:8]
moving = np.flatnonzero(balls.masks.all(axis=1))[:8]
png.save(sheet(np.asarray(balls.pictures(np.r_[moving, still])), balls.shape, 8), out / "balls.png")
print(f"{len(rooms)} rooms by {', '.join(rooms.names)}")
print(f"{len(balls)} pictures of balls, of which {balls.masks.all(axis=1).mean():.0%} have all four moving")
print(f"The pictures are {out / 'rooms.png'} and {out / 'balls.png'}")
