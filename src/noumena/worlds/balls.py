"""Balls: images of coloured discs whose positions are the latents; each ball is frozen in some of the images.

A white square, discs of radius 0.1 with smooth edges, later balls in front of earlier ones. A ball's position is
normal
around a mean of its own, truncated at the margins; with probability 0.1 the ball is frozen at that mean. So the
positions are a degenerate mixture, with one component for each set of balls that move.

References
----------
Xu et al. (2026), "Identifiability of Potentially Degenerate Gaussian Mixture Models With Piecewise
Affine Mixing", D.10, and D.11 for coordinates that freeze one by one. Of its assumptions 3.6 holds: all components
share the point of the means, and the axes. 3.8b holds with ``freeze="coordinate"``; with ``freeze="ball"`` the two
coordinates of a ball are never active one without the other, so that it holds for pairs only. 3.4 fails: components
with as many moving balls are equally far from where they meet. Components are Gaussian but for their truncated tails,
and images are injective unless a ball covers another, but not piecewise affine in positions.

Deviations: discs are drawn by their distance to pixel centres and not by PyGame; colours are our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from noumena import checks, seeds
from noumena.checks import InputError
from noumena.deprecated import renamed
from noumena.worlds.rooms import check_device, image_numbers
from noumena.worlds.world import Sample

RADIUS, SPREAD, APART = 0.1, 0.1, 0.2
"""Radius of a disc, standard deviation of a coordinate around its mean, and least distance of two means."""
MEANS, MARGINS = (0.3, 0.7), (0.05, 0.95)
"""Ranges of the means and of the coordinates."""
FROZEN = 0.1
"""Probability that a ball, or a coordinate, is frozen."""
MOST = 6
FREEZES = ("ball", "coordinate")
COLOURS = (
    (230, 25, 75), (60, 180, 75), (0, 90, 220), (245, 130, 48), (145, 30, 180), (20, 200, 220),
    (240, 50, 230), (128, 128, 0), (0, 110, 110), (110, 60, 20), (250, 210, 30), (30, 30, 30),
)  # fmt: skip
"""Red, green and blue of twelve balls, of which at most six are used."""
WHITE = 255
STARTS, TRIES = 100, 500
"""Restarts of the search for means, and points drawn in each."""
PIECE = {"cpu": 32, "cuda": 4096}
"""Images of 64 × 64 rendered at a time."""


@dataclass(frozen=True)
class Balls:
    """Images of coloured balls, rendered when they are indexed; image ``i`` depends on the seed and ``i`` only.

    Parameters
    ----------
    n_balls, size, images : int
        Number of balls, side of an image in pixels, and number of images.
    freeze : {"ball", "coordinate"}
        What is frozen: a whole ball, or each coordinate by itself.
    seed : int
        Seed of everything random.
    device : str
        Where images are rendered.
    frozen : float
        Probability that a ball, or a coordinate, is frozen.
    colours : int
        Index of the first ball's colour.

    Examples
    --------
    >>> balls = Balls(2, 16, images=100)
    >>> balls.names, balls.z.shape, balls.pictures(np.array([7, 8])).shape
    (('x0', 'y0', 'x1', 'y1'), (100, 4), torch.Size([2, 768]))
    """

    n_balls: int = 2
    size: int = 64
    images: int = 20_000
    freeze: str = "ball"
    seed: int = 0
    device: str = "cpu"
    frozen: float = FROZEN
    colours: int = 0

    def __post_init__(self) -> None:
        within = checks.count(self.n_balls, "n_balls") <= MOST
        checks.require(within, f"n_balls must be at most {MOST}, for whom there is room.", self.n_balls)
        checks.count(self.size, "size", minimum=4)
        checks.count(self.images, "images")
        checks.one_of(self.freeze, "freeze", FREEZES)
        checks.count(self.seed, "seed", minimum=0)
        checks.number(self.frozen, "frozen", minimum=0, maximum=1)
        checks.count(self.colours, "colours", minimum=0)

    def __len__(self) -> int:
        """Images there are."""
        return self.images

    @property
    def names(self) -> tuple[str, ...]:
        """Of the latents: the coordinates of each ball, from left and from above."""
        return tuple(f"{axis}{ball}" for ball in range(self.n_balls) for axis in "xy")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of an image: channels, height, width."""
        return 3, self.size, self.size

    @cached_property
    def means(self) -> Float[np.ndarray, " latent"]:
        """Where each ball is frozen; means of different balls are more than 0.2 apart."""
        return separated(self.n_balls, APART, random_state=self.seed).ravel()

    @property
    def z(self) -> Float[np.ndarray, "image latent"]:
        """The latents of all images, by their number: coordinates of the balls, between 0 and 1."""
        return self._table[0]

    @property
    def positions(self) -> Float[np.ndarray, "image latent"]:
        """Alias of ``z``."""
        return self.z

    @property
    def masks(self) -> Bool[np.ndarray, "image latent"]:
        """Which coordinates move; the others are exactly at their means."""
        return self._table[1]

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        return self._drawn(self.images, "images")

    def pictures(self, index: Any) -> UInt8[Tensor, "batch pixel"]:
        """Images by their number as flat uint8 rows, on the device of this world."""
        return self._rendered(self.z[image_numbers(index, self.images)]).flatten(1)

    def render(self, positions: Any) -> UInt8[Tensor, "batch 3 size size"]:
        """Images of balls at any positions, (batch, 2 · n_balls)."""
        table, n = checks.table(positions, "positions"), 2 * self.n_balls
        checks.require(table.shape[1] == n, f"positions must have {n} columns.", table.shape[1])
        return self._rendered(table)

    @renamed(seed="random_state")
    def sample(self, n: int, *, random_state: Any = 0) -> Sample:
        """New rows of pixels in [0, 1], none of them among the images, with the coordinates behind them."""
        seed = seeds.seed_of(random_state)
        z, _ = self._drawn(checks.count(n, "n"), "sample", checks.count(seed, "seed", minimum=0))
        return Sample(x=(self._rendered(z).flatten(1).float() / WHITE).cpu().numpy(), z=z)

    def _drawn(self, rows: int, *purpose: str | int) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates and masks; a row depends on its number and not on how many there are."""
        places, freezing = (seeds.numpy_generator(self.seed, "balls", what, *purpose) for what in ("places", "masks"))
        z = _cut_normal(places.random((rows, 2 * self.n_balls)), self.means)
        moving = freezing.random((rows, 2 * self.n_balls)) >= self.frozen
        masks = moving if self.freeze == "coordinate" else np.repeat(moving[:, ::2], 2, axis=1)
        return np.where(masks, z, self.means), masks

    def _rendered(self, positions: np.ndarray) -> Tensor:
        check_device(self.device)
        coordinates = torch.as_tensor(positions, dtype=torch.float32, device=self.device)
        places = coordinates.unflatten(1, (self.n_balls, 2))
        chosen = [COLOURS[(self.colours + k) % len(COLOURS)] for k in range(self.n_balls)]
        colours = places.new_tensor([*chosen, (WHITE,) * 3])
        out = torch.empty(len(places), 3, self.size**2, dtype=torch.uint8, device=self.device)
        most = max(1, PIECE.get(torch.device(self.device).type, 64) * 4096 // self.size**2)
        for start in range(0, len(places), most):
            shares = coverage(places[start : start + most], self.size)
            out[start : start + most] = (colours.T @ shares).round().to(torch.uint8)
        return out.unflatten(2, (self.size, self.size))


def separated(n: int, apart: float, *, random_state: Any = 0) -> Float[np.ndarray, "n 2"]:
    """Points drawn evenly from the square of means, one after the other, any two more than ``apart`` apart.

    A point too near to an earlier one is drawn again; where no more fits, all are.

    >>> a, b = separated(2, 0.2)
    >>> bool(np.hypot(*(a - b)) > 0.2)
    True
    """
    seed = seeds.seed_of(random_state)
    for start in range(STARTS):
        rng = seeds.numpy_generator(seed, "balls", "means", start)
        points = np.empty((0, 2))
        for point in rng.uniform(*MEANS, size=(TRIES, 2)):
            if bool((np.hypot(*(points - point).T) > apart).all()):
                points = np.vstack([points, point])
            if len(points) == n:
                return points
    raise InputError(
        f"{n} means in [{MEANS[0]}, {MEANS[1]}]² must have room to be more than {apart:g} apart. "
        f"Got none in {STARTS} starts."
    )


def _cut_normal(u: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Normal values around means, cut off at the margins, of evenly spread ``u`` in [0, 1)."""
    from scipy.special import ndtr, ndtri

    low, high = (ndtr((end - means) / SPREAD) for end in MARGINS)
    return np.clip(means + SPREAD * ndtri(low + u * (high - low)), *MARGINS)


def coverage(
    places: Float[Tensor, "batch ball 2"], size: int, radius: float = RADIUS
) -> Float[Tensor, "batch layer pixel"]:
    """The share of every pixel that shows each ball, later balls in front of earlier ones, and as the last layer the
    ground.

    Shares sum to one. A disc's edge is one pixel wide: half of a pixel is covered whose centre is on the circle.

    Examples
    --------
    >>> coverage(torch.tensor([[[0.5, 0.5], [0.5, 0.5]]]), 3, radius=1 / 3)[0, :, 3:6]
    tensor([[0.2500, 0.0000, 0.2500],
            [0.5000, 1.0000, 0.5000],
            [0.2500, 0.0000, 0.2500]])
    """
    line = (torch.arange(size, device=places.device, dtype=places.dtype) + 0.5) / size
    across, down = ((line - places[..., axis, None]).square() for axis in (0, 1))
    gap = (down[..., :, None] + across[..., None, :]).flatten(2).sqrt()
    discs = ((radius - gap) * size + 0.5).clamp(0, 1)
    shares, seen = [], torch.ones_like(discs[:, 0])
    for ball in range(places.shape[1] - 1, -1, -1):
        shares.append(seen * discs[:, ball])
        seen = seen * (1 - discs[:, ball])
    return torch.stack([*shares[::-1], seen], dim=1)
