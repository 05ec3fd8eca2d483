"""Pictures of what an image model has learned: traversals, swaps, interpolations and maps of its derivatives.

All functions are pure and take any model with ``transform`` and ``inverse_transform`` of flat rows and a picture's
``shape`` (channels, height, width); ``jacobian_maps`` needs its ``decoder_`` too. Pictures come out as bytes.

The unit of a pixel: ``top`` is the value of full light, 255 or 1. Without it the model is asked: 255 where its mean or
scale of observations exceeds 1, as after training on bytes, and 1 otherwise. Decoded values are cut at 0 and ``top``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from noumena import checks
from noumena.derivatives import columns as jacobian_columns

RANGE = 0.01, 0.99
"""Quantiles of a latent between which it is moved."""
ROWS = 8
"""Rows from which latents are moved to measure how much they move the picture."""
DEAD = 1 / 255
"""A latent that moves the picture by less than this share of full light, one level of a byte, is dead."""
CHUNK = 256
"""Latents decoded at a time."""
POINTS = 16
"""Points at which derivatives are taken at a time."""
STRAY = 16
"""Decoded values beyond this many times full light are in another unit."""
MARGIN = 2
SHADES = ((255, 255, 255), (110, 162, 214), (31, 90, 148), (16, 28, 54))
"""Colours of a map from nothing to the largest, those of the house's heat maps."""

Shape = tuple[int, int, int]
"""Channels, height and width."""


@dataclass(frozen=True)
class Latents:
    """A model seen from its latents: the rows given to it are latents already, such as a run's ``points_``."""

    model: Any

    def transform(self, x: Any) -> Any:
        """The latents themselves."""
        return x

    def inverse_transform(self, z: Any) -> Any:
        """Observations of latents."""
        return self.model.inverse_transform(z)


@dataclass(frozen=True)
class Traversals:
    """A strip of pictures for every latent, those first that move the picture most."""

    latents: tuple[int, ...]
    values: Float[np.ndarray, "latent step"]
    """What the latent was set to."""
    images: UInt8[np.ndarray, "latent step channel height width"]
    moves: Float[np.ndarray, " latent"]
    """Root mean square, over pixels, channels and rows, of a pixel's spread along the strip, as a share of full
    light."""
    start: Float[np.ndarray, " every_latent"]
    """Latents of the row that the strips start from."""

    @property
    def names(self) -> tuple[str, ...]:
        """``z1, z2, …`` in the order of the strips."""
        return latent_names(self.latents)

    @property
    def alive(self) -> int:
        """How many latents move the picture; they come first."""
        return int((self.moves >= DEAD).sum())

    @property
    def dead(self) -> tuple[str, ...]:
        """Names of the latents that do not."""
        return self.names[self.alive :]


@dataclass(frozen=True)
class Swaps:
    """Sources, targets, and the sources with one latent of their targets: a row of pictures each."""

    latents: tuple[int, ...]
    images: UInt8[np.ndarray, "row pair channel height width"]

    @property
    def names(self) -> tuple[str, ...]:
        """What every row shows."""
        return "source", "target", *latent_names(self.latents)


def latent_names(latents: Sequence[int]) -> tuple[str, ...]:
    """Names by the latents' numbers, counted from one.

    >>> latent_names([0, 4])
    ('z1', 'z5')
    """
    return tuple(f"z{j + 1}" for j in latents)


# ---- latents moved -------------------------------------------------------------------------------------------------


def traversals(
    model: Any,
    x: Any,
    shape: Shape,
    latents: Sequence[int] | None = None,
    steps: int = 9,
    *,
    span: str | float = "quantiles",
    top: float | None = None,
) -> Traversals:
    """One latent at a time moved in equal steps through its range over ``x``, the others kept.

    The range is between the 1 % and 99 % quantiles of the latent's codes, or from ``−span`` to ``span``. Strips start
    from the row nearest to the median; how much a latent moves the picture is measured from some more rows too.
    """
    z = _codes(model, x)
    chosen = _chosen(latents, z.shape[1])
    checks.count(steps, "steps", minimum=2)
    values = np.stack([_range(z[:, j], span, steps) for j in chosen])
    starts = z[_starts(z)]
    strips, moves = [], []
    for j, places in zip(chosen, values, strict=True):
        moved = np.repeat(starts[:, None], steps, axis=1)
        moved[:, :, j] = places
        seen = _decoded(model, moved, shape, top)
        strips.append(seen[0])
        moves.append(float(np.sqrt((seen / 255).var(axis=1).mean())))
    order = np.argsort([-m for m in moves], kind="stable")
    ranked = tuple(chosen[k] for k in order)
    return Traversals(ranked, values[order], np.stack(strips)[order], np.array(moves)[order], starts[0])


def swaps(
    model: Any,
    source: Any,
    target: Any,
    shape: Shape,
    latents: Sequence[int] | None = None,
    *,
    top: float | None = None,
) -> Swaps:
    """Decoded sources and targets, row by row of the two tables, and for every latent the source with that one latent
    taken from the target."""
    z, other = _codes(model, source), _codes(model, target)
    checks.require(z.shape == other.shape, "source and target must have one shape.", f"{z.shape} and {other.shape}")
    chosen = _chosen(latents, z.shape[1])
    rows = [z, other]
    for j in chosen:
        mixed = z.copy()
        mixed[:, j] = other[:, j]
        rows.append(mixed)
    return Swaps(chosen, _decoded(model, np.stack(rows), shape, top))


def interpolations(
    model: Any, a: Any, b: Any, shape: Shape, steps: int = 9, *, top: float | None = None
) -> UInt8[np.ndarray, "pair step channel height width"]:
    """Straight lines between the latents of the rows of ``a`` and of ``b``, both ends included."""
    start, end = _codes(model, a), _codes(model, b)
    checks.require(start.shape == end.shape, "a and b must have one shape.", f"{start.shape} and {end.shape}")
    share = np.linspace(0, 1, checks.count(steps, "steps", minimum=2))[None, :, None]
    return _decoded(model, (1 - share) * start[:, None] + share * end[:, None], shape, top)


def jacobian_maps(model: Any, points: Any, shape: Shape) -> Float[np.ndarray, "latent height width"]:
    """``|∂x/∂z_j|`` at every pixel, its channels by their Euclidean norm, in the mean over ``points`` (batch, latent);
    zero where no point's pixel depends on the latent. In units of observations per latent."""
    channels, height, width = checked_shape(shape)
    decoder: Any = getattr(model, "decoder_", None)
    checks.require(callable(decoder), "The model must have a decoder_.", type(model).__name__)
    z = torch.as_tensor(checks.table(points, "points"), dtype=torch.float32)
    if isinstance(decoder, torch.nn.Module):
        z = next((z.to(p) for p in decoder.parameters()), z)
    every = torch.arange(z.shape[1], device=z.device)
    total = z.new_zeros(z.shape[1], height, width)
    for some in z.split(POINTS):
        J = jacobian_columns(decoder, some, every.expand(len(some), -1)).detach()
        _fitting(J.shape[1], shape)
        total += J.unflatten(1, (channels, height, width)).norm(dim=1).sum(dim=0).movedim(-1, 0)
    return (total / len(z)).double().cpu().numpy()


def _codes(model: Any, x: Any) -> np.ndarray:
    z = model.transform(x)
    return checks.table(z.detach() if isinstance(z, Tensor) else z, "The latents").astype(np.float64)


def _chosen(latents: Sequence[int] | None, n: int) -> tuple[int, ...]:
    chosen = tuple(range(n)) if latents is None else tuple(int(j) for j in latents)
    fits = 0 < len(set(chosen)) == len(chosen) and all(0 <= j < n for j in chosen)
    checks.require(fits, f"latents must be different numbers from 0 to {n - 1}.", f"{list(chosen)}")
    return chosen


def _range(codes: np.ndarray, span: str | float, steps: int) -> np.ndarray:
    if isinstance(span, str):
        checks.one_of(span, "span, unless it is a number,", ("quantiles",))
        low, high = np.quantile(codes, RANGE)
        return np.linspace(low, high, steps)
    reach = checks.number(span, "span", minimum=0)
    return np.linspace(-reach, reach, steps)


def _starts(z: np.ndarray) -> np.ndarray:
    """The row nearest to the median, every latent in its own spread, and a few evenly spaced others."""
    spread = z.std(axis=0)
    far = np.square((z - np.median(z, axis=0)) / np.where(spread > 0, spread, 1)).sum(axis=1)
    first = int(far.argmin())
    others = [k for k in np.linspace(0, len(z) - 1, min(ROWS, len(z))).astype(int) if k != first]
    return np.array([first, *others[: ROWS - 1]])


def _decoded(model: Any, z: np.ndarray, shape: Shape, top: float | None) -> np.ndarray:
    """Pictures (…, channel, height, width) of latents (…, latent)."""
    flat = z.reshape(-1, z.shape[-1]).astype(np.float32)
    rows = [np.asarray(model.inverse_transform(flat[k : k + CHUNK])) for k in range(0, len(flat), CHUNK)]
    return pixels(np.concatenate(rows), shape, top=top_of(model) if top is None else top).reshape(*z.shape[:-1], *shape)


# ---- units and shapes ----------------------------------------------------------------------------------------------


def top_of(model: Any) -> float:
    """The value of full light in the units of a fitted model's data: 255 or 1, by its mean and scale."""
    codec = getattr(getattr(model, "model", model), "models_", [None])[0]
    if codec is None:
        return 1.0
    return 255.0 if max(float(codec.mean.max()), float(codec.scale.max())) > 1 else 1.0


def shape_of(model: Any) -> Shape | None:
    """The shape of a fitted model's pictures, told by a builder among its parameters; ``None`` where none tells."""
    for part in model.get_params(deep=False).values():
        channels, size = getattr(part, "channels", None), getattr(part, "size", None)
        if isinstance(channels, int) and isinstance(size, int) and channels * size**2 == model.n_features_in_:
            return channels, size, size
    return None


def checked_shape(shape: Any) -> Shape:
    """Channels, one or three, height and width."""
    sizes: tuple[Any, ...] = tuple(shape) if isinstance(shape, Sequence) else ()
    must = "A picture's shape must be its channels (1 or 3), height and width."
    whole = len(sizes) == 3 and all(isinstance(s, int | np.integer) and s > 0 for s in sizes) and sizes[0] in (1, 3)
    checks.require(whole, must, f"{shape}")
    return int(sizes[0]), int(sizes[1]), int(sizes[2])


def _fitting(found: int, shape: Shape) -> None:
    given = f"{found} observations"
    checks.require(found == prod(shape), f"Pictures of shape {shape} must have {prod(shape)} pixels.", given)


def pixels(x: Any, shape: Shape, *, top: float = 1.0) -> UInt8[np.ndarray, "batch channel height width"]:
    """Pictures in bytes of flat rows in which ``top`` is full light; what is darker than 0 or lighter is cut.

    >>> pixels([[0.0, 0.5, 1.0, 7.0]], (1, 2, 2)).tolist()
    [[[[0, 128], [255, 255]]]]
    """
    shape = checked_shape(shape)
    array = checks.table(x, "Pictures")
    _fitting(array.shape[1], shape)
    reach = float(np.abs(array).max())
    must = f"Pictures must be in the unit of top={top:g}, their full light."
    checks.require(top > 0 and reach <= STRAY * top, must, f"values up to {reach:g}")
    return (array / top * 255).round().clip(0, 255).astype(np.uint8).reshape(-1, *shape)


# ---- sheets --------------------------------------------------------------------------------------------------------


def sheet(images: UInt8[np.ndarray, "*many"], shape: Shape, columns: int, *, margin: int = MARGIN) -> np.ndarray:
    """One picture of many, row by row with thin white margins between them: (height, width), with colours (…, 3).

    >>> sheet(np.array([1, 2, 3], dtype=np.uint8), (1, 1, 1), 2, margin=1)
    array([[  1, 255,   2],
           [255, 255, 255],
           [  3, 255, 255]], dtype=uint8)
    """
    channels, height, width = checked_shape(shape)
    each = np.asarray(images).reshape(-1, channels, height, width)
    across = checks.count(columns, "columns")
    down = -(-len(each) // across)
    tall, wide = height + margin, width + margin
    out = np.full((down * tall - margin, across * wide - margin, channels), 255, dtype=np.uint8)
    for k, image in enumerate(each):
        row, column = divmod(k, across)
        out[row * tall : row * tall + height, column * wide : column * wide + width] = np.moveaxis(image, 0, -1)
    return out[:, :, 0] if channels == 1 else out


def shrunk(images: UInt8[np.ndarray, "*many height width"], block: int) -> UInt8[np.ndarray, "*many lower narrower"]:
    """Pictures with every ``block`` × ``block`` pixels averaged; a rest at the far sides is left out.

    >>> shrunk(np.array([[0, 10], [20, 30]], dtype=np.uint8), 2)
    array([[15]], dtype=uint8)
    """
    *many, height, width = images.shape
    kept = images[..., : height // block * block, : width // block * block]
    parts = kept.reshape(*many, height // block, block, width // block, block)
    return parts.mean(axis=(-3, -1)).round().astype(np.uint8)


def coloured(maps: Float[np.ndarray, "latent height width"]) -> UInt8[np.ndarray, "latent 3 height width"]:
    """Maps of what is not negative in the house's shades, each from zero to its own largest entry.

    >>> coloured(np.array([[[0.0, 2.0]]]))[0, :, 0].T.tolist()
    [[255, 255, 255], [16, 28, 54]]
    """
    most = maps.max(axis=(1, 2), keepdims=True)
    share = maps / np.where(most > 0, most, 1)
    stops = np.linspace(0, 1, len(SHADES))
    channels = [np.interp(share, stops, shade) for shade in np.array(SHADES, dtype=float).T]
    return np.stack(channels, axis=1).round().astype(np.uint8)
