"""Rooms: a coloured object in a coloured room, seen from an angle, rendered from its factors.

Six factors, as in 3D Shapes: hues of floor, wall and object, the object's scale and shape, and the camera's angle.
Rays
are cast through every pixel, four per pixel, against the floor, the walls and the object; a lamp casts a soft shadow.
All images of a batch are rendered together, on any device.

References
----------
Burgess and Kim (2018), 3D Shapes, whose grid of factors this has.

Deviations: own geometry, colours and light; results on these images are not results on 3D Shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, prod, radians
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from noumena import checks, seeds
from noumena.checks import InputError
from noumena.deprecated import renamed
from noumena.worlds.world import Sample

NAMES = ("floor hue", "wall hue", "object hue", "scale", "shape", "orientation")
LEVELS = (10, 10, 10, 8, 4, 15)
SHAPES = ("cube", "cylinder", "sphere", "capsule")
SCALE, SHAPE, ORIENTATION = 3, 4, 5
WALL = 3.4
"""Half the width of the room."""
RADII = (0.45, 0.8)
"""Radii of the smallest and the largest object."""
WIDEST = radians(30)
"""The largest camera angle to either side."""
EYE, TARGET, OPENING = (3.1, 1.75), 0.62, 0.72
"""Distance and height of the camera, height that it looks at, and tangent of half its field of view."""
LAMP = (1.3, -1.6, 4.2)
AMBIENT, PENUMBRA, DARKEST = 0.42, 0.22, 0.62
OVERSAMPLING = 2
FAR = 1e9
PIECE = {"cpu": 4, "cuda": 2048}
"""Images of 64 × 64 rendered at a time."""

Plane = Float[Tensor, "batch #ray"]
"""A number for every ray, or one for all rays of an image."""
Vectors = tuple[Plane, Plane, Plane]


@dataclass(frozen=True)
class Rooms:
    """Images of rooms, rendered from levels, or continuous values, of six factors.

    Parameters
    ----------
    size : int
        Side of an image in pixels.
    device : str
        Where images are rendered.

    Examples
    --------
    >>> rooms = Rooms(16)
    >>> rooms.render([[0, 3, 6, 7, 2, 7]]).shape, len(rooms)
    (torch.Size([1, 3, 16, 16]), 480000)
    """

    size: int = 64
    device: str = "cpu"

    def __post_init__(self) -> None:
        checks.count(self.size, "size", minimum=4)

    names = NAMES
    sizes = LEVELS

    def __len__(self) -> int:
        """Images of the whole grid."""
        return prod(LEVELS)

    def levels(self, index: Any) -> Int[np.ndarray, "batch factor"]:
        """Levels of the factors of images of the grid by their number, the last factor the fastest."""
        return np.stack(np.unravel_index(image_numbers(index, len(self)), LEVELS), axis=1)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        return 3, self.size, self.size

    def pictures(self, index: Any) -> UInt8[Tensor, "batch pixel"]:
        """Images of the grid by their number as flat uint8 rows."""
        return self.render(self.levels(index)).flatten(1)

    def render(self, levels: Any) -> UInt8[Tensor, "batch 3 size size"]:
        """Images of levels of the grid, integers (batch, factor)."""
        table = checks.table(levels, "levels")
        integral = table.shape[1] == len(LEVELS) and bool((table == table.round()).all())
        checks.require(integral, f"levels must be whole numbers of {len(LEVELS)} factors.", f"shape {table.shape}")
        inside = bool(((table >= 0) & (table < np.array(LEVELS))).all())
        checks.require(inside, f"levels must be below {LEVELS}.", f"{table.max(axis=0).astype(int).tolist()}")
        places = table / np.array([10, 10, 10, 7, 1, 14])  # hues go round, the others have two ends
        return self._rendered(places)

    def render_values(self, values: Any) -> UInt8[Tensor, "batch 3 size size"]:
        """Images of continuous factors in [0, 1], (batch, factor); the shape is an integer."""
        table = checks.table(values, "values")
        checks.require(
            table.shape[1] == len(LEVELS), f"values must be of {len(LEVELS)} factors.", f"shape {table.shape}"
        )
        others = np.delete(table, SHAPE, axis=1)
        checks.require(bool(((others >= 0) & (others <= 1)).all()), "values must lie in [0, 1].", "others")
        shapes = bool(np.isin(table[:, SHAPE], range(len(SHAPES))).all())
        checks.require(shapes, f"Shapes must be whole numbers below {len(SHAPES)}.", "others")
        return self._rendered(table)

    @renamed(seed="random_state")
    def sample(self, n: int, *, random_state: Any = 0, continuous: bool = False) -> Sample:
        """Rows of pixels in [0, 1] with their factors: levels of the grid, or values of continuous factors."""
        seed = seeds.seed_of(random_state)
        n = checks.count(n, "n")
        rng = seeds.numpy_generator(seed, "rooms")
        if continuous:
            z = rng.uniform(size=(n, len(LEVELS)))
            z[:, SHAPE] = rng.integers(len(SHAPES), size=n)
            pixels = self.render_values(z)
        else:
            z = np.stack([rng.integers(levels, size=n) for levels in LEVELS], axis=1).astype(np.float64)
            pixels = self.render(z)
        return Sample(x=(pixels.flatten(1).float() / 255).cpu().numpy(), z=z)

    def _rendered(self, places: np.ndarray) -> Tensor:
        """Pieces of one shape each, put back in order."""
        check_device(self.device)
        out = torch.empty(len(places), 3, self.size, self.size, dtype=torch.uint8, device=self.device)
        values = torch.as_tensor(places, dtype=torch.float32, device=self.device)
        most = max(1, PIECE.get(torch.device(self.device).type, 64) * 4096 // self.size**2)
        for shape in range(len(SHAPES)):
            chosen = np.flatnonzero(places[:, SHAPE] == shape)
            for start in range(0, len(chosen), most):
                rows = torch.as_tensor(chosen[start : start + most], device=self.device)
                out[rows] = _picture(values[rows], shape, self.size)
        return out


def check_device(name: str) -> None:
    """Refuse a device that this machine does not have."""
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device must be a torch device of this machine. Got {name!r}.") from error


def image_numbers(index: Any, count: int) -> Int[np.ndarray, " batch"]:
    """Numbers of images as an array, refused unless they are integers below ``count``."""
    numbers = np.asarray(index)
    integers = numbers.ndim == 1 and numbers.dtype.kind in "iu"
    inside = integers and bool(((numbers >= 0) & (numbers < count)).all())
    shown = f"{numbers.dtype} {numbers.shape}"
    checks.require(inside, f"Images must be numbered from 0 to {count - 1}.", shown)
    return numbers


def _picture(places: Tensor, shape: int, size: int) -> Tensor:
    """Images of one shape: the nearest of floor, walls and object along every ray, in its colour and light."""
    radius = (RADII[0] + (RADII[1] - RADII[0]) * places[:, SCALE])[:, None]
    eye, ray = _camera((2 * places[:, ORIENTATION] - 1) * WIDEST, size * OVERSAMPLING)
    room, on_floor, inward = _room(eye, ray)
    thing, normal = _HITS[shape](eye, ray, radius)
    hit = thing < room
    t = torch.where(hit, thing, room)
    point = (eye[0] + t * ray[0], eye[1] + t * ray[1], eye[2] + t * ray[2])
    normal = _chosen(hit, normal, inward)
    light = _light(point, normal, hit, radius, shape)
    hues = [_colour(places[:, k]) for k in range(3)]
    channels = [
        torch.where(hit, hues[2][c][:, None], torch.where(on_floor, hues[0][c][:, None], hues[1][c][:, None])) * light
        for c in range(3)
    ]
    fine = torch.stack(channels, dim=1).unflatten(2, (size * OVERSAMPLING, size * OVERSAMPLING))
    mean = torch.nn.functional.avg_pool2d(fine, OVERSAMPLING)
    return (mean.clamp(0, 1) * 255).round().to(torch.uint8)


def _camera(angle: Tensor, pixels: int) -> tuple[Vectors, Vectors]:
    """Where the eye is, (batch, 1), and the direction of every ray, (batch, ray), not of unit length."""
    away, high = EYE
    line = (torch.arange(pixels, device=angle.device, dtype=angle.dtype) + 0.5) / pixels * 2 - 1
    up, right = (-line * OPENING).repeat_interleave(pixels)[None], (line * OPENING).repeat(pixels)[None]
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    length = (away**2 + (high - TARGET) ** 2) ** 0.5
    flat, fall = away / length, (TARGET - high) / length
    forward = -fall * up + flat  # along the ground: looking down tilts the upward direction forward
    ray = (-forward * cos - right * sin, -forward * sin + right * cos, (fall + flat * up).expand(len(angle), -1))
    return (away * cos, away * sin, torch.full_like(cos, high)), ray


def _room(eye: Vectors, ray: Vectors) -> tuple[Plane, Tensor, Vectors]:
    """Distance to floor or wall, whether it is the floor, and the normal into the room."""
    floor = torch.where(ray[2] < 0, -eye[2] / ray[2], FAR)
    walls = [
        (torch.where(r > 0, WALL, -WALL) - e) / torch.where(r.abs() > 1e-9, r, 1e-9)
        for e, r in zip(eye[:2], ray, strict=False)
    ]
    wall = torch.minimum(*walls)
    on_floor, across = floor < wall, walls[0] < walls[1]
    zero = torch.zeros_like(wall)
    x = torch.where(on_floor | ~across, zero, -ray[0].sign())
    y = torch.where(on_floor | across, zero, -ray[1].sign())
    return torch.minimum(floor, wall), on_floor, (x, y, on_floor.to(wall.dtype))


def _light(point: Vectors, normal: Vectors, hit: Tensor, radius: Tensor, shape: int) -> Plane:
    """Ambient light and diffuse light of the lamp, less the soft shadow of the object on floor and walls."""
    to = [lamp - p for lamp, p in zip(LAMP, point, strict=True)]
    length = (to[0] ** 2 + to[1] ** 2 + to[2] ** 2).sqrt()
    facing = (sum(n * a for n, a in zip(normal, to, strict=True)) / length).clamp(min=0)
    wide, low, high = (c * radius for c in _BODIES[shape])
    s = (-(point[0] * to[0] + point[1] * to[1]) / (to[0] ** 2 + to[1] ** 2 + 1e-9)).clamp(0, 1)
    nearest = [p + s * a for p, a in zip(point, to, strict=True)]
    above = torch.relu(low - nearest[2]) + torch.relu(nearest[2] - high)
    gap = (nearest[0] ** 2 + nearest[1] ** 2 + above**2).sqrt() - wide
    dark = torch.where(hit, 0, (0.5 - gap / PENUMBRA).clamp(0, 1))
    dark = dark * dark * (3 - 2 * dark)
    return AMBIENT + (1 - AMBIENT) * facing * (1 - DARKEST * dark) + 0.12


def _colour(hue: Tensor) -> list[Tensor]:
    """Red, green and blue of a hue in [0, 1), the same at 0 and 1."""
    turns = [(hue * 2 * pi + shift).cos() * 0.5 + 0.5 for shift in (0.0, -2 * pi / 3, 2 * pi / 3)]
    return [0.12 + 0.83 * part for part in turns]


# ---- objects: distance along the ray, beyond everything where it misses, and the normal ------------------------


def _cube(eye: Vectors, ray: Vectors, radius: Tensor) -> tuple[Plane, Vectors]:
    half = 0.82 * radius
    low, high = (-half, -half, torch.zeros_like(half)), (half, half, 2 * half)
    enters, leaves = [], []
    for e, r, a, b in zip(eye, ray, low, high, strict=True):
        inverse = 1 / torch.where(r.abs() > 1e-9, r, 1e-9)
        one, two = (a - e) * inverse, (b - e) * inverse
        enters.append(torch.minimum(one, two))
        leaves.append(torch.maximum(one, two))
    first = torch.maximum(torch.maximum(enters[0], enters[1]), enters[2])
    last = torch.minimum(torch.minimum(leaves[0], leaves[1]), leaves[2])
    t = torch.where((first < last) & (first > 0), first, FAR)
    normal = tuple(torch.where(part == first, -r.sign(), 0) for part, r in zip(enters, ray, strict=True))
    return t, normal  # type: ignore[return-value]


def _ball(eye: Vectors, ray: Vectors, radius: Tensor, height: Tensor) -> tuple[Plane, Vectors]:
    """A ball around a point of the axis at a height."""
    from_centre = (eye[0], eye[1], eye[2] - height)
    a = ray[0] ** 2 + ray[1] ** 2 + ray[2] ** 2
    b = sum(o * r for o, r in zip(from_centre, ray, strict=True))
    c = sum(o * o for o in from_centre) - radius**2
    inside = b * b - a * c
    t = torch.where(inside > 0, (-b - inside.clamp(min=0).sqrt()) / a, FAR)
    t = torch.where(t > 0, t, FAR)
    return t, tuple((o + t * r) / radius for o, r in zip(from_centre, ray, strict=True))  # type: ignore[return-value]


def _sphere(eye: Vectors, ray: Vectors, radius: Tensor) -> tuple[Plane, Vectors]:
    return _ball(eye, ray, radius, radius)


def _tube(eye: Vectors, ray: Vectors, radius: Tensor, low: Tensor, high: Tensor) -> tuple[Plane, Vectors]:
    """The side of an upright cylinder between two heights."""
    a = ray[0] ** 2 + ray[1] ** 2
    b = eye[0] * ray[0] + eye[1] * ray[1]
    inside = b * b - a * (eye[0] ** 2 + eye[1] ** 2 - radius**2)
    t = torch.where(inside > 0, (-b - inside.clamp(min=0).sqrt()) / a, FAR)
    z = eye[2] + t * ray[2]
    t = torch.where((t > 0) & (z >= low) & (z <= high), t, FAR)
    return t, ((eye[0] + t * ray[0]) / radius, (eye[1] + t * ray[1]) / radius, torch.zeros_like(t))


def _cylinder(eye: Vectors, ray: Vectors, radius: Tensor) -> tuple[Plane, Vectors]:
    wide, high = 0.85 * radius, 1.7 * radius
    side, normal = _tube(eye, ray, wide, torch.zeros_like(high), high)
    lid = (high - eye[2]) / torch.where(ray[2] < -1e-9, ray[2], -1e-9)
    x, y = eye[0] + lid * ray[0], eye[1] + lid * ray[1]
    lid = torch.where((x * x + y * y <= wide**2) & (lid > 0) & (ray[2] < 0), lid, FAR)
    return _nearest((side, normal), (lid, (torch.zeros_like(lid), torch.zeros_like(lid), torch.ones_like(lid))))


def _capsule(eye: Vectors, ray: Vectors, radius: Tensor) -> tuple[Plane, Vectors]:
    wide, low, high = (c * radius for c in _BODIES[3])
    ends = _nearest(_ball(eye, ray, wide, low), _ball(eye, ray, wide, high))
    return _nearest(_tube(eye, ray, wide, low, high), ends)


def _nearest(one: tuple[Plane, Vectors], two: tuple[Plane, Vectors]) -> tuple[Plane, Vectors]:
    return torch.minimum(one[0], two[0]), _chosen(one[0] < two[0], one[1], two[1])


def _chosen(first: Tensor, one: Vectors, two: Vectors) -> Vectors:
    return torch.where(first, one[0], two[0]), torch.where(first, one[1], two[1]), torch.where(first, one[2], two[2])


_HITS = (_cube, _cylinder, _sphere, _capsule)
_BODIES = ((0.9, 0.2, 1.4), (0.85, 0.1, 1.6), (0.9, 0.9, 1.1), (0.62, 0.62, 1.75))
"""Of each shape, in radii: half its width, and between which heights of its axis it is that wide."""
