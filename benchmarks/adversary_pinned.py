"""Named cases, each of which was once answered wrongly, exactly as it was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from adversary_exact import any_worlds
from adversary_faint import dead_case, faint_case, mixed_case, near_ties, parallel_case
from adversary_fits import (
    audit_case,
    diagonal_mixture,
    fitted_world,
    measured_twice,
    poisson,
    representation_case,
    sparse_case,
    vade,
)
from adversary_truth import (
    CONNECTED,
    CONTINUOUS,
    INVERTIBLE,
    SPREAD,
    Case,
    Claim,
    Dressed,
    Rival,
    at_column,
    brute_gap,
    certified,
    decoder_case,
    disguised,
)
from torch import Tensor

import noumena as nm

TEN = np.array([[1.0, 0], [1, 0], [1.3, 0], [1, 1], [1, 0.5], [0, 1], [0, 1], [0, 1.2]])
"""Two latents, ten dependencies, gap 2."""
ZERO = torch.zeros(1, dtype=torch.float64)
PLAIN = Dressed(torch.as_tensor(TEN), ZERO, ZERO + 0.3)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _normal(n: int = 1000, d: int = 2) -> Tensor:
    return torch.as_tensor(_rng().normal(size=(n, d)))


def _flip(v: Tensor) -> Tensor:
    return at_column(v, 0, v[..., 0] * torch.where(v[..., 1] > 0, 1.0, -1.0))


def two_clusters(view: str) -> Case:
    """z2 pushed away from 0, z1 flipped by the sign of z2."""

    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        z = rng.normal(size=(n, 2))
        return z + np.array([0, 2]) * np.sign(z[:, [1]])

    return disguised(PLAIN, draw, 1000, (_flip, _flip), view, false=CONNECTED, note=f"two clusters, {view}")


def c_shape(view: str) -> Case:
    """A C with z1 stretched in its upper arm."""

    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        z = rng.uniform(-2, 2, (3 * n, 2))
        return z[(np.abs(z[:, 1]) > 0.5) | (z[:, 0] < -1)][:n]

    def stretch(v: Tensor, factor: float) -> Tensor:
        arm = torch.relu(v[..., 0] + 1)
        return at_column(v, 0, v[..., 0] + (v[..., 1] > 0) * (factor - 1) * arm)

    change = (lambda v: stretch(v, 4.0)), (lambda v: stretch(v, 0.25))
    return disguised(PLAIN, draw, 1000, change, view, false=CONNECTED, note=f"C-shape, {view}")


def jump(name: str) -> Case:
    """z1 + round(2 z2), z1·sign(z2), and z2 added behind autograd's back."""
    moves: dict[str, Callable[[Tensor, float], Tensor]] = {
        "round": lambda v, way: at_column(v, 0, v[..., 0] + way * torch.round(2 * v[..., 1])),
        "flip": lambda v, way: _flip(v),
        "detach": lambda v, way: at_column(v, 0, v[..., 0] - way * v[..., 1:].detach().sum(dim=-1)),
    }
    z, move = _normal(), moves[name]
    other = partial(_after, PLAIN, move)
    return decoder_case(other, move(z, 1.0), False, rival=Rival(PLAIN, z), false=CONTINUOUS, note=name)


def _after(g: Callable[[Tensor], Tensor], move: Callable[[Tensor, float], Tensor], v: Tensor) -> Tensor:
    return g(move(v, -1.0))


def faint_entries() -> Case:
    """Twenty rows, three latents, the third at .12: gap 3 and 32 dependencies, and so has W z."""
    W = np.zeros((20, 3))
    W[:4, 0] = W[4:8, 1] = W[8:14, 0] = W[14:, 1] = 1
    W[8:, 2] = 0.12 + 0.0001 * np.arange(12)
    B = np.array([[1, 0, 0], [0, 1, 0], [-0.5, -0.5, 1]])
    return mixed_case(W, B, _normal(1000, 3), "faint entries, 3 latents")


def tie_in_single_precision() -> Case:
    """m = a + .3 sin a + b + .3 tanh b; observations a, a + .2a³, b, b + .3 tanh b, m, m + .1m³, in float32."""

    def g(v: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        a, b = v[..., 0].to(dtype), v[..., 1].to(dtype)
        m = a + 0.3 * torch.sin(a) + b + 0.3 * torch.tanh(b)
        return torch.stack([a, a + 0.2 * a**3, b, b + 0.3 * torch.tanh(b), m, m + 0.1 * m**3], dim=-1).to(v.dtype)

    z = _normal(300)
    m = g(z, torch.float64)[:, 4]

    def by_mixture(v: Tensor) -> Tensor:
        """The same from (m, b), with a solved for by Newton's method."""
        rest = v[..., 0] - v[..., 1] - 0.3 * torch.tanh(v[..., 1])
        a = rest.detach()
        for _ in range(60):
            a = a - (a + 0.3 * torch.sin(a) - rest) / (1 + 0.3 * torch.cos(a))
        return g(torch.stack([a, v[..., 1]], dim=-1), torch.float64)[..., [0, 1, 2, 3]]

    rival = Rival(lambda v: torch.cat([by_mixture(v), v[..., :1], v[..., :1] + 0.1 * v[..., :1] ** 3], dim=-1),
                  torch.stack([m, z[:, 1]], dim=-1))  # fmt: skip
    return decoder_case(g, z, False, rival=rival, note="float32")


def points(name: str) -> Case:
    """Two points, a line, a curve."""
    s = torch.linspace(-2, 2, 500, dtype=torch.float64)[:, None]
    at = {
        "two points": _normal(2),
        "line": s * torch.tensor([[1.0, 0.7]]),
        "curve": torch.cat([s, torch.sin(2 * s)], 1),
    }
    return decoder_case(PLAIN, at[name].double(), False, false=SPREAD, note=name)


def raising(error: type[Exception]) -> Case:
    """A decoder that raises."""

    def decoder(v: Tensor) -> Tensor:
        raise error("no")

    return decoder_case(decoder, _normal(), None, note=error.__name__)


def between_latents() -> Case:
    """``verdict(1.5)``."""

    def claim() -> Claim:
        certified(nm.Structure(TEN != 0)).certificate.verdict(1.5)
        return Claim("identified")

    return Case("structure", claim, False, note="verdict(1.5)")


def _bent(A: np.ndarray) -> Callable[[Tensor], Tensor]:
    """``h + .2 tanh h`` of ``h = A v``."""
    M = torch.as_tensor(A, dtype=torch.float64)
    return lambda v: v @ M.mT + 0.2 * torch.tanh(v @ M.mT)


def _exchanged(A: np.ndarray, B: np.ndarray, note: str) -> Case:
    """Rows ``A`` that a change ``B`` of the basis makes sparser."""
    z, other = _normal(600, len(B)), A @ B
    other[np.abs(other) < 1e-12 * np.abs(A).max(axis=1, keepdims=True)] = 0
    rival = Rival(_bent(other), z @ torch.as_tensor(np.linalg.inv(B)).mT)
    return decoder_case(_bent(A), z, False, rival=rival, note=note)


def nearly_parallel(eps: float) -> Case:
    """Twenty rows that (1, 1, −2) cancels, all within ``eps`` of (1, 1, 1)."""
    own = np.repeat(np.eye(3), 4, axis=0)
    shared = np.ones(3) + eps * np.linspace(-1, 1, 20)[:, None] * np.array([1.0, -1, 0])
    B = np.stack([[1.0, 1, -2], [0, 1, 0], [0, 0, 1]], axis=1)
    return _exchanged(np.concatenate([own, shared]), B, f"shared rows {eps:g} apart")


def one_large_unit() -> Case:
    """One observation of one latent in units of 1e-10, beside eight of z1 + z2."""
    shared = np.linspace(0.5, 1.5, 8)[:, None] * np.ones(2)
    A = np.concatenate([[[1.0, 0]] * 3, [[0, 1]] * 3, [[0, 1e10]], shared])
    return _exchanged(A, np.array([[1.0, 0], [-1, 1]]), "one large unit")


def behind_one_row(size: float) -> Case:
    """Rows of z1 see z2 too, which one row of that size makes small beside their deviations."""
    z = _normal()
    z[0, 0] = size
    M = torch.tensor([[1.0, 3], [0, 1]], dtype=torch.float64)
    return decoder_case(lambda v: PLAIN(v @ M.mT), z, False, rival=Rival(PLAIN, z @ M.mT), note=f"a row of {size:g}")


def ramp() -> Case:
    """z1 moved along with z2, but only between two neighbouring values of it."""
    z = _normal(300)
    values = z[:, 1].sort().values
    inside = torch.nonzero(values[:-1].abs() < 1.2)[:, 0]
    k = int(inside[values.diff()[inside].argmax()])
    low, high = 0.9 * values[k] + 0.1 * values[k + 1], 0.1 * values[k] + 0.9 * values[k + 1]

    def moved(v: Tensor, way: float) -> Tensor:
        return at_column(v, 0, v[..., 0] + way * 4 * ((v[..., 1] - low) / (high - low)).clamp(0, 1))

    return decoder_case(lambda v: PLAIN(moved(v, -1.0)), moved(z, 1.0), False, rival=Rival(PLAIN, z), note="ramp")


def rough_fold(size: float) -> Case:
    """A fold at z1 = 0 behind noise of that size, which depends on z and which derivatives do not see."""

    def g(v: Tensor) -> Tensor:
        y = PLAIN(at_column(v, 0, v[..., 0] ** 2))
        return y + size * torch.sin(1e7 * y).detach()

    z = _normal()
    rival = Rival(g, _flip(z))
    return decoder_case(g, z, False, rival=rival, false=INVERTIBLE, note=f"fold behind {size:g}")


def late(calls: int) -> Case:
    """A decoder that raises after so many calls."""
    done = [0]

    def decoder(v: Tensor) -> Tensor:
        done[0] += 1
        if done[0] > calls:
            raise ValueError("too often")
        return PLAIN(v)

    return decoder_case(decoder, _normal(), None, note=f"raises at call {calls + 1}")


def replaced(what: str) -> Case:
    """A world whose decoder was replaced by one that folds, or whose law by two clusters under an old name."""
    world = nm.worlds.structured(nm.Structure(TEN != 0), random_state=0)
    decoder = world.decoder

    def folded(v: Tensor) -> Tensor:
        return decoder(at_column(v, 0, v[..., 0].abs() + v[..., 0] ** 2))

    def clusters(n: int, generator: torch.Generator) -> Tensor:
        z = torch.randn(n, 2, generator=generator, dtype=torch.float64)
        return at_column(z, 1, z[:, 1] + 8 * torch.randint(0, 2, (n,), generator=generator))

    if what == "decoder":
        z = world.latents(1000)
        other, rival, false = replace(world, decoder=folded), Rival(folded, _flip(z)), INVERTIBLE
        return Case("world", lambda: certified(other), False, rival=rival, decoder=folded, points=z, false=false)
    other = replace(world, law=nm.worlds.Law("gaussian", 2, False, clusters))
    z = other.latents(1000)

    def flipped(v: Tensor) -> Tensor:
        return at_column(v, 0, v[..., 0] * torch.where(v[..., 1] > 4, -1.0, 1.0))

    rival = Rival(lambda v: decoder(flipped(v)), flipped(z))
    return Case("world", lambda: certified(other), False, rival=rival, decoder=decoder, points=z, false=CONNECTED)


PINNED: tuple[Callable[[], Case], ...] = (
    *(partial(two_clusters, view) for view in ("independent world", "changed", "first")),
    *(partial(c_shape, view) for view in ("world", "changed", "first")),
    *(partial(jump, name) for name in ("round", "flip", "detach")),
    faint_entries,
    lambda: faint_case(13, 0.05, _rng(), 1000),
    lambda: parallel_case(60, 320, 150, _rng(), 500),
    tie_in_single_precision,
    *(partial(points, name) for name in ("two points", "line", "curve")),
    lambda: dead_case(0.1, 40, _rng(), 1000),
    lambda: dead_case(0.015, np.inf, _rng(), 3000),
    *(partial(raising, error) for error in (ZeroDivisionError, KeyError, AssertionError)),
    between_latents,
    *(partial(diagonal_mixture, "gaussian", seed) for seed in range(3)),
    *(partial(sparse_case, "scale mixture", seed) for seed in (1, 2)),
    lambda: sparse_case("few rows", 2),
    lambda: representation_case("unrelated", 0),
    *(partial(audit_case, "scale mixture", seed) for seed in (1, 2)),
    *(partial(audit_case, "ring", seed) for seed in (0, 2)),
    lambda: any_worlds(2),
    *(partial(nearly_parallel, eps) for eps in (1e-7, 3e-7)),
    one_large_unit,
    *(partial(behind_one_row, size) for size in (3e8, 1e9)),
    ramp,
    *(partial(rough_fold, size) for size in (1e-7, 1e-5)),
    *(partial(late, calls) for calls in (7, 13)),
    *(partial(replaced, what) for what in ("decoder", "law")),
    partial(near_ties, 2_000_348),
)
"""Exact ones, in the order of their discovery."""

PINNED_FITS: tuple[Callable[[], Case], ...] = (
    *(partial(fitted_world, 1071, 5, 15, 2, "unit gaussian", start=start) for start in (0, 2)),
    *(partial(fitted_world, 1065, 4, 9, 1, "uniform", start=start) for start in (0, 1)),
    lambda: fitted_world(3012, 3, 4, None, "laplace"),
    lambda: fitted_world(3036, 4, 5, None, "uniform"),
    *(partial(fitted_world, seed, 4, 10, 1, "gaussian", n_models=1) for seed in (1062, 1069)),
    lambda: measured_twice(0),
    lambda: measured_twice(1),
    *(partial(vade, seed) for seed in (0, 1, 2)),
    lambda: poisson(8),
)
"""Fits."""

assert brute_gap(TEN)[0] > 0
