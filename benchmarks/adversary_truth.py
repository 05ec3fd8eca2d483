"""Cases with a known truth: an exchange gap by brute force, decoders that keep it at every point, explicit rivals.

Nothing here is computed by the library that is judged: the gap is found by trying every direction that cancels
rows, and what is not identifiable comes with an equivalent model, whose observations, dependencies and latents are
compared in ``stands``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import inf
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr
from torch import Tensor

import noumena as nm

Map = Callable[[Tensor], Tensor]
Draw = Callable[[int, np.random.Generator], np.ndarray]
CONNECTED, CONTINUOUS = ("connected", "slice"), ("continu", "jump", "hidden", "lipschitz", "differentiable")
INVERTIBLE, FULL, SPREAD = ("invertible", "injective"), ("full support", "vanish"), ("spread", "fill")
"""Words by which a hypothesis that is false by construction is known, whatever its full name."""
SAME, FAINTEST = 1e-5, 1e-6
"""Shares of an observation's spread: within the first two models' observations are the same, as rounding in single
precision allows; entries below the second are no dependencies."""


@dataclass(frozen=True)
class Claim:
    """What was answered; ``mcc`` where the truth of a fit is known only after it."""

    answer: str
    certificate: Any = None
    mcc: float | None = None


@dataclass(frozen=True)
class Rival:
    """An equivalent model: its decoder, and its latents at the same rows."""

    decoder: Map
    latents: Tensor


@dataclass(frozen=True)
class Case:
    """A subject and its truth."""

    subject: str
    claim: Callable[[], Claim]
    identifiable: bool | None
    """``False``: *identified* is false. ``True``: *not identified* is false. ``None``: both may be said."""
    false: tuple[str, ...] = ()
    """Words of hypotheses that are false by construction."""
    rival: Rival | None = None
    decoder: Map | None = None
    points: Tensor | None = None
    note: str = ""


def certified(subject: Any, **options: Any) -> Claim:
    """The answer of ``certify``."""
    found = nm.certify(subject, **options)
    return Claim(found.answer, found)


def decoder_case(decoder: Map, points: Tensor, identifiable: bool | None, **truth: Any) -> Case:
    """A decoder at latent points."""
    return Case("decoder", lambda: certified(decoder, at=points), identifiable, decoder=decoder, points=points, **truth)


def disguised(g: Map, draw: Draw, n: int, change: tuple[Map, Map], view: str, **truth: Any) -> Case:
    """A model that ``change`` (there, and back) turns into an equivalent one: the changed decoder, the first decoder,
    or the world that it is (of independent latents or not), each with the other as its rival."""
    there, back = change
    z = torch.as_tensor(draw(n, np.random.default_rng(n)))
    other, moved = (lambda v: g(back(v))), there(z)
    if view == "changed":
        return decoder_case(other, moved, False, rival=Rival(g, z), **truth)
    if view == "first":
        return decoder_case(g, z, False, rival=Rival(other, moved), **truth)

    def drawn(count: int, generator: torch.Generator) -> Tensor:
        return torch.as_tensor(draw(count, np.random.default_rng(int(torch.randint(2**31, (1,), generator=generator)))))

    law_ = nm.worlds.Law("two", z.shape[1], view == "independent world", drawn)
    world = nm.worlds.World(nm.Structure(dependencies(g, z)), law_, g)
    return Case("world", lambda: certified(world), False, rival=Rival(other, moved), decoder=g, points=z, **truth)


# ---- the truth -------------------------------------------------------------------------------------------------------


def brute_gap(J: np.ndarray) -> tuple[float, np.ndarray]:
    """The cheapest exchange of columns: its cost, and the basis in which the heaviest of its latents is replaced.

    >>> brute_gap(np.array([[1.0, 0], [1, 0], [1, 1], [0, 1], [0, 1]]))[0]
    1
    """
    d = J.shape[1]
    weight, norm = (J != 0).sum(axis=0), np.abs(J).max(axis=1, keepdims=True)
    rows = (J / norm) * np.sign(J[np.arange(len(J)), (J != 0).argmax(axis=1)])[:, None]
    rays = rows[np.unique(np.round(rows, 10), axis=0, return_index=True)[1]]
    pairs = np.array(
        [[1.0 if j == t else 0.7312 if j == r else 0 for j in range(d)] for t, r in combinations(range(d), 2)]
    )
    chosen = np.array(list(combinations(range(len(rays)), d - 1)), dtype=int)
    directions = pairs.reshape(-1, d)
    if len(chosen):
        _, singular, right = np.linalg.svd(rays[chosen])
        directions = np.vstack([directions, right[singular[:, -1] > 1e-8, -1]])
    directions = np.where(np.abs(directions) > 1e-9, directions, 0)
    mixed = directions[(directions != 0).sum(axis=1) >= 2]
    moved = np.abs(mixed @ (J / norm).T) > 1e-9
    costs = moved.sum(axis=1) - np.where(mixed != 0, weight, 0).max(axis=1, initial=0)
    if len(costs) == 0:
        return inf, np.eye(d)
    best = mixed[int(costs.argmin())]
    basis = np.eye(d)
    basis[:, int(np.where(best != 0, weight, -1).argmax())] = best
    return int(costs.min()), basis


@dataclass(frozen=True, eq=False)
class Dressed:
    """``x = φ(J ψ(z))`` with increasing φ of every observation and ψ of every latent: the gap of J at every point.

    ``single`` computes it in single precision inside.
    """

    J: Tensor
    inner: Tensor
    outer: Tensor
    single: bool = False

    def __call__(self, z: Tensor) -> Tensor:
        parts = [t.to(torch.float32 if self.single else z.dtype) for t in (z, self.J, self.inner, self.outer)]
        v, J, inner, outer = parts
        return bent(bent(v, inner) @ J.mT, outer).to(z.dtype)

    def rival(self, z: Tensor, basis: np.ndarray) -> Rival:
        """The model with ``ẑ = B⁻¹ψ(z)``."""
        B = torch.as_tensor(basis)
        other = self.J @ B
        other = torch.where(other.abs() > 1e-7 * (self.J.abs() @ B.abs()), other, 0.0)
        return Rival(Dressed(other, torch.zeros(len(B)), self.outer), bent(z, self.inner) @ torch.linalg.inv(B).mT)


def bent(v: Tensor, a: Tensor) -> Tensor:
    """``v + a·tanh(v)``, increasing for ``a > −1``."""
    return v + a * torch.tanh(v)


def dressed(J: np.ndarray, rng: np.random.Generator, *, linear: float = 0.4, single: bool = False) -> Dressed:
    """A matrix made nonlinear, or left as it is in a share ``linear`` of cases."""
    bends = [np.zeros(k) if rng.random() < linear else rng.uniform(-0.5, 1.5, k) for k in J.shape[::-1]]
    inner, outer = (torch.as_tensor(b, dtype=torch.float64) for b in bends)
    return Dressed(torch.as_tensor(J, dtype=torch.float64), inner, outer, single)


def gapped(rng: np.random.Generator, d: int, least: int = 1) -> np.ndarray:
    """A matrix with generic entries on a random support, with a gap of at least ``least``."""
    while True:
        n = int(rng.integers(2 * d + 1, 5 * d + 2))
        support = rng.random((n, d)) < rng.uniform(0.2, 0.6)
        for j in range(d if rng.random() < 0.5 else 0):  # observations of one latent only
            support[2 * j : 2 * j + 2] = np.arange(d) == j
        J = np.where(support, rng.uniform(0.5, 1.5, (n, d)) * rng.choice([-1, 1], (n, d)), 0)
        J = J[support.any(axis=1)]
        if len(J) > d and np.linalg.matrix_rank(J, tol=0.1) == d and brute_gap(J)[0] >= least:
            return J


def law(rng: np.random.Generator, n: int, d: int) -> Tensor:
    """Latent points of a random law whose density is positive everywhere or on a box."""
    kind = rng.integers(4)
    z = (rng.normal(size=(n, d)), rng.uniform(-1.7, 1.7, (n, d)), rng.laplace(size=(n, d)) / 1.4, None)[kind]
    if z is None:
        z = rng.normal(size=(n, d)) @ (np.eye(d) + np.tril(rng.uniform(-0.6, 0.6, (d, d)), -1)).T
    return torch.as_tensor(z)


def at_column(v: Tensor, t: int, column: Tensor) -> Tensor:
    """Points with one latent replaced."""
    return torch.cat([v[..., :t], column[..., None], v[..., t + 1 :]], dim=-1)


def stream(name: str, seed: int) -> tuple[np.random.Generator, int, int]:
    """A stream of numbers of its own, a number of latents and a number of points."""
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    return rng, int(rng.integers(2, 6)), int(rng.integers(300, 1001))


def dressed_case(J: np.ndarray, rng: np.random.Generator, n: int, *, single: bool = False) -> Case:
    """A dressed matrix, with the cheaper basis as its rival where there is one."""
    gap, basis = brute_gap(J)
    g, z = dressed(J, rng, single=single), law(rng, n, J.shape[1])
    rival = None if gap > 0 else g.rival(z, basis)
    return decoder_case(g, z, gap > 0, rival=rival, note=f"gap {gap}, {len(J)}×{J.shape[1]}")


# ---- rivals ----------------------------------------------------------------------------------------------------------


def dependencies(decoder: Map, z: Tensor) -> np.ndarray:
    """Which entries of the Jacobian are not zero somewhere."""
    few = z[:256]
    J = nm.jacobian(decoder, few).detach()
    share = J.abs().amax(dim=0) * z.std(dim=0) / decoder(few).detach().std(dim=0)[:, None].clamp_min(1e-300)
    return (share > FAINTEST).numpy()


def stands(case: Case) -> str:
    """Empty where the rival is an equivalent model, no denser, with other latents; else what is wrong with it."""
    assert case.rival is not None
    assert case.decoder is not None
    assert case.points is not None
    x, x_hat = (f(z).detach() for f, z in ((case.decoder, case.points), (case.rival.decoder, case.rival.latents)))
    missed = float(((x - x_hat).abs().amax(dim=0) / x.std(dim=0)).max())
    if missed > SAME:
        return f"observations differ by {missed:.1e}"
    mine, other = dependencies(case.decoder, case.points).sum(), dependencies(*vars(case.rival).values()).sum()
    if other > mine:
        return f"{other} dependencies instead of {mine}"
    return "" if differ(case.points.numpy(), case.rival.latents.detach().numpy()) else "the latents are the same"


def differ(z: np.ndarray, z_hat: np.ndarray) -> bool:
    """Whether no order and no monotone maps of single latents make two sets of latents equal."""
    d = z.shape[1]
    ranks = np.abs(np.atleast_2d(spearmanr(z, z_hat)[0]))[:d, d:]
    for t, r in zip(*linear_sum_assignment(-ranks), strict=True):
        steps = np.diff(z_hat[np.argsort(z[:, t]), r]) / np.ptp(z_hat[:, r])
        if min((steps > 1e-9).sum(), (steps < -1e-9).sum()) > 0:
            return True
    return False
