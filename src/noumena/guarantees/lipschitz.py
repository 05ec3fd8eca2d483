"""How far a decoder is from an isometry: local bi-Lipschitz constants, folds, and the diameter they act on.

A decoder is locally ``(1+L)``-bi-Lipschitz when ``‖z−z'‖/(1+L) ≤ ‖f(z)−f(z')‖ ≤ (1+L)‖z−z'‖`` for near points; at a
point this is read off the singular values of its Jacobian, exactly.

Reference: Nelson et al. (2026), Definition A.5, Theorem 1 and A.7.1.
Deviations: the paper estimates ``L`` from ten random directions, a lower bound (``probes``); here it is exact at each
point. The largest ``L`` over sampled points is still a lower bound of the largest over the support. ``L`` depends on
the unit of the latents: ``z ↦ cz`` divides every singular value by ``c``. The scale with the smallest ``L`` is given in
fields of its own (``scale``, ``at_best_scale``), and two decoders whose singular values lie in one range
``[s_min, s_max]`` are related by a map that stretches by at most ``s_max/s_min = (1 + at_best_scale)²``, whatever the
unit. The paper asks for smooth decoders; kinks (leaky ReLU) are allowed, as its proof only uses the stretch, and folds
are looked for instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from noumena import checks, seeds
from noumena.deprecated import renamed
from noumena.derivatives import jacobian
from noumena.guarantees.decoders import outcome
from noumena.guarantees.hypotheses import Hypothesis

INJECTIVE = "the decoder is injective"
ISOMETRIC = "the decoder is near an isometry"
CONVEX = "the latents have convex support"
LARGEST_RATIO = 2.0
"""Of singular values: beyond it distances between two models' latents may be off by the diameter itself."""
MIDPOINTS = 2000
"""Rows, and pairs of them whose midpoints are looked at."""
RESOLUTION = 0.2
"""Rows further apart than this share of their diameter cannot show a hole."""
TOLERANCE = 2e-5
"""A latent direction is inactive when, over its own spread, it moves the output this much less than the strongest: what
rounding in single precision may add up to. Whatever moves more counts, and makes ``L`` large."""
BLOCK = 512
"""Rows whose distances are computed at once."""
MOST_PAIRED = 400
"""Points whose pairs are compared in the search for folds."""
FOLD = 0.1
"""A pair stretched this much less than any direction is, is a candidate for a fold."""
CANDIDATES, NEWTON_STEPS = 8, 40


@dataclass(frozen=True)
class BiLipschitz:
    """``L`` at each point, from the singular values of the decoder's Jacobian on the active directions."""

    L: Float[np.ndarray, " batch"]
    """At each point the decoder is locally ``(1+L)``-bi-Lipschitz, and for no smaller ``L``; ``inf`` without full
    rank."""
    singular: Float[np.ndarray, "batch active"]
    active: Float[np.ndarray, "active latent"]
    """Orthonormal directions of latent space that move the output, the strongest first."""
    inactive: Float[np.ndarray, "inactive latent"]
    """Orthonormal directions that move it nowhere (over-complete latents); they are left out of ``L``."""
    sampled: Float[np.ndarray, " batch"] | None
    """The paper's estimate of ``L`` from random directions, never above ``L``."""

    @property
    def largest(self) -> float:
        """The largest ``L`` over the points."""
        return float(self.L.max())

    @property
    def median(self) -> float:
        """The median ``L`` over the points."""
        return float(np.median(self.L))

    @property
    def stretch(self) -> tuple[float, float]:
        """The smallest and the largest singular value over all points."""
        return float(self.singular.min()), float(self.singular.max())

    @property
    def scale(self) -> float:
        """The ``c`` for which the latents ``c·z`` have the smallest possible ``largest``."""
        low, high = self.stretch
        return sqrt(low * high)

    @property
    def at_best_scale(self) -> float:
        """``largest`` of the latents ``scale·z``; it does not change with the unit of the latents."""
        low, high = self.stretch
        return sqrt(high / low) - 1 if low > 0 else inf

    def __str__(self) -> str:
        low, high = self.stretch
        text = (
            f"L at {len(self.L)} points: largest {self.largest:.3g}, median {self.median:.3g}; singular values "
            f"{low:.3g} to {high:.3g}; with latents rescaled by {self.scale:.3g} the largest L is "
            f"{self.at_best_scale:.3g}"
        )
        return text if not len(self.inactive) else f"{text}; {inactive_sentence(self)}"


def inactive_sentence(found: BiLipschitz) -> str:
    """Which latents the inactive directions mostly consist of."""
    named = [f"z{int(np.abs(direction).argmax()) + 1}" for direction in found.inactive]
    return f"{len(named)} inactive directions were dropped (mostly {', '.join(sorted(named))})"


def dropped(found: BiLipschitz) -> tuple[str, ...]:
    """What a verdict on the active directions leaves out; nothing where all are active."""
    return (f"{inactive_sentence(found)}; nothing is said of them",) if len(found.inactive) else ()


@renamed(seed="random_state")
def bi_lipschitz(
    decoder: Any, z: Any, *, probes: int | None = None, tolerance: float = TOLERANCE, random_state: Any = 0
) -> BiLipschitz:
    """Local bi-Lipschitz constants of a decoder at latent points; with ``probes=k`` also from k random directions.

    >>> found = bi_lipschitz(lambda z: z * torch.tensor([2.0, 0.25]), [[0.0, 0.0], [1.0, 1.0]])
    >>> found.largest, found.stretch
    (3.0, (0.25, 2.0))
    >>> round(found.at_best_scale, 6), round(found.scale, 6)  # √(2/0.25) − 1 with latents z·√(2·0.25)
    (1.828427, 0.707107)
    """
    seed = seeds.seed_of(random_state)
    probes = None if probes is None else checks.count(probes, "probes")
    J = jacobians(decoder, z)
    tolerance = checks.number(tolerance, "tolerance", minimum=0, maximum=1)
    active, inactive = _directions(np.einsum("bij,bik->jk", J, J) / len(J), _spreads(checks.table(z, "z")), tolerance)
    reduced = J @ active.T
    singular = np.linalg.svd(reduced, compute_uv=False)
    if reduced.shape[1] < reduced.shape[2]:  # fewer outputs than active directions: some direction is always lost
        singular = np.pad(singular, ((0, 0), (0, reduced.shape[2] - reduced.shape[1])))
    sampled = None if probes is None else _sampled(reduced, probes, seed)
    return BiLipschitz(_excess(singular), singular, active, inactive, sampled)


def _spreads(z: np.ndarray) -> Float[np.ndarray, " latent"]:
    """The latents' standard deviations, the largest of them for those that do not vary."""
    spreads = np.where(np.ptp(z, axis=0) > 0, z.astype(np.float64).std(axis=0), 0)
    return np.where(spreads > 0, spreads, spreads.max() or 1)


def _directions(
    moved: Float[np.ndarray, "latent latent"], spreads: Float[np.ndarray, " latent"], tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal active directions, the strongest first, and inactive ones, of the mean ``moved`` of ``JᵀJ``.

    What is inactive is judged with every latent in units of its spread, so that no choice of units drops a latent.
    """
    strength, standard = np.linalg.eigh(spreads[:, None] * moved * spreads)
    still = spreads[:, None] * standard[:, strength <= tolerance**2 * strength[-1]]
    basis = np.linalg.qr(still / np.linalg.norm(still, axis=0), mode="complete")[0]
    inactive, rest = basis[:, : still.shape[1]], basis[:, still.shape[1] :]
    active = rest @ np.linalg.eigh(rest.T @ moved @ rest)[1][:, ::-1]
    return active.T, inactive.T


def _excess(stretches: Float[np.ndarray, "batch stretch"]) -> Float[np.ndarray, " batch"]:
    """``max(s_max, 1/s_min) − 1``, row by row."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.maximum(stretches.max(axis=1), 1 / stretches.min(axis=1)) - 1, 0)


def _sampled(J: Float[np.ndarray, "batch observed active"], probes: int, seed: int) -> Float[np.ndarray, " batch"]:
    """``max_v max(‖Jv‖, 1/‖Jv‖) − 1`` over random unit ``v``, fresh ones at every point (A.7.1)."""
    v = seeds.numpy_generator(seed, "probes of a Jacobian").normal(size=(len(J), J.shape[2], probes))
    return _excess(np.linalg.norm(J @ (v / np.linalg.norm(v, axis=1, keepdims=True)), axis=1))


# ---- derivatives in double precision -------------------------------------------------------------------------------


def jacobians(decoder: Any, z: Any) -> Float[np.ndarray, "batch observed latent"]:
    """Every point's Jacobian; a module is copied in double precision and evaluation mode, never changed."""
    decoder, points = precise(decoder, z)
    J = outcome(lambda: jacobian(decoder, points), tuple(points.shape)).detach().double().cpu().numpy()
    checks.require(bool(np.isfinite(J).all()), "The decoder's Jacobian must be finite.", "NaN or inf entries")
    checks.require(bool(J.any()), "The decoder must be differentiable.", "derivatives that vanish at every point")
    return J


def precise(decoder: Any, z: Any) -> tuple[Callable, Tensor]:
    """A decoder and its points beside each other, both in double precision where the decoder is a module."""
    checks.require(callable(decoder), "The decoder must be a function from latents to observations.", repr(decoder))
    table = checks.table(z, "z")
    if isinstance(decoder, nn.Module):
        twin = deepcopy(decoder).double().eval()
        held = next(iter((*twin.parameters(), *twin.buffers())), None)
        return twin, torch.as_tensor(table, dtype=torch.float64, device=None if held is None else held.device)
    dtype = z.dtype if isinstance(z, Tensor) else torch.get_default_dtype()
    return decoder, torch.as_tensor(table, dtype=dtype, device=z.device if isinstance(z, Tensor) else None)


# ---- folds ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Secant:
    """The pair of points that the decoder brings closest, relative to their distance."""

    stretch: float
    """``‖f(z_i) − f(z_j)‖ / ‖z_i − z_j‖``, the smallest over all pairs (or at the pair that led to a fold)."""
    pair: tuple[int, int]
    n_pairs: int
    fold: Float[np.ndarray, " latent"] | None
    """A second latent point with the output of the pair's first, when one was found: the decoder is not injective."""


def shortest_secant(decoder: Callable, z: Any, found: BiLipschitz) -> Secant:
    """The smallest stretch between two points; near coincidences are followed to exact ones by Newton's method.

    A small stretch alone is no fold: a decoder may roll its latents up without touching itself.
    """
    decoder, points = precise(decoder, z)
    rows = np.linspace(0, len(points) - 1, min(len(points), MOST_PAIRED)).astype(int)
    points = points[rows]
    kept = points.detach().double().cpu().numpy()
    with torch.no_grad():
        outputs = outcome(lambda: decoder(points), tuple(points.shape)).detach().double().cpu().numpy()
    i, j = np.triu_indices(len(kept), k=1)
    active = kept @ found.active.T
    apart = np.linalg.norm(active[i] - active[j], axis=1)
    i, j, apart = i[apart > 0], j[apart > 0], apart[apart > 0]
    checks.require(len(apart) > 0, "The latent points must differ.", "the same point throughout")
    stretch = np.linalg.norm(outputs[i] - outputs[j], axis=1) / apart
    order = np.argsort(stretch, kind="stable")
    close = [k for k in order[:CANDIDATES] if stretch[k] < FOLD * found.stretch[0]]
    for k in close:
        other = _coincidence(decoder, points[i[k]], points[j[k]], (kept.min(axis=0), kept.max(axis=0)))
        if other is not None:
            return Secant(float(stretch[k]), (int(rows[i[k]]), int(rows[j[k]])), len(stretch), other)
    k = order[0]
    return Secant(float(stretch[k]), (int(rows[i[k]]), int(rows[j[k]])), len(stretch), None)


def _coincidence(
    decoder: Callable, here: Tensor, there: Tensor, box: tuple[np.ndarray, np.ndarray]
) -> Float[np.ndarray, " latent"] | None:
    """A point near ``there``, inside the box, with the output of ``here``; ``None`` when there is none."""
    with torch.no_grad():
        target, point = decoder(here[None]), there[None].clone()
        tolerance = 1e3 * torch.finfo(target.dtype).eps * float(target.abs().max() + 1)
        for _ in range(NEWTON_STEPS):
            residual = decoder(point) - target
            if float(residual.norm()) <= tolerance:
                break
            J = jacobian(decoder, point)[0]
            if not bool(J.isfinite().all()):
                return None
            point = point - torch.linalg.pinv(J, rtol=1e-9) @ residual[0]
        reached = float((decoder(point) - target).norm()) <= tolerance
    distinct = float((point[0] - here).norm()) > 0.5 * float((there - here).norm())
    place = point[0].double().cpu().numpy()
    inside = bool(((place >= box[0]) & (place <= box[1])).all())
    return place if reached and distinct and inside else None


# ---- numbers of Theorem 1 ------------------------------------------------------------------------------------------


def proportional_term(L: float, diameter: float) -> float:
    """``√((1+L)² − 1)·Δ``: what the error of Theorem 1 is proportional to; zero for isometries.

    >>> proportional_term(0.25, 4.0)  # √(1.5625 − 1)·4
    3.0
    """
    checks.require(L >= 0, "L must not be negative.", L)
    checks.require(diameter >= 0, "The diameter must not be negative.", diameter)
    return sqrt(L * (2 + L)) * diameter if isfinite(L) else inf


def diameter(z: Any) -> float:
    """The largest distance between two rows, exactly; rows too near the centre to matter are not compared.

    >>> diameter([[0, 0], [3, 0], [3, 4], [1, 1]])
    5.0
    """
    rows = checks.table(z, "z", min_rows=2).astype(np.float64)
    radius = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
    order = np.argsort(-radius, kind="stable")
    rows, radius = rows[order], radius[order] * (1 + 1e-9)
    best = 0.0
    for start in range(0, len(rows), BLOCK):
        if radius[start] + radius[0] < best:
            break
        reach = int(np.searchsorted(-radius, radius[start] - best, side="right"))  # ‖a − b‖ ≤ r_a + r_b
        reach = max(1, min(reach, start + BLOCK))  # later rows meet these in their own blocks
        best = max(best, float(cdist(rows[start : start + BLOCK], rows[:reach]).max()))
    return best


@dataclass(frozen=True)
class ArchitectureBound:
    """A bound on ``1 + L`` that holds everywhere by construction, or the reason why there is none."""

    value: float | None
    reason: str


def architecture_bound(module: nn.Module, *, tolerance: float = 1e-5) -> ArchitectureBound:
    """``α^{-K}`` for orthogonal layers with K leaky ReLUs of leak α between them (Section 4.1).

    >>> net = nn.Sequential(nn.Linear(1, 1), nn.LeakyReLU(0.5), nn.Linear(1, 1), nn.LeakyReLU(0.5))
    >>> _ = [nn.init.ones_(layer.weight) for layer in net[::2]]
    >>> architecture_bound(net).value
    4.0
    """
    bound, activations = 1.0, 0
    for layer in _layers(module):
        if isinstance(layer, nn.LeakyReLU):
            if layer.negative_slope <= 0:
                return ArchitectureBound(None, f"a leak of {layer.negative_slope:g} has no smallest stretch")
            bound, activations = bound * max(layer.negative_slope, 1 / layer.negative_slope), activations + 1
        elif isinstance(layer, nn.Linear):
            W = layer.weight.detach().double()
            error = float((W.mT @ W - torch.eye(W.shape[1], dtype=W.dtype, device=W.device)).abs().max())
            if error > tolerance:
                return ArchitectureBound(None, f"{layer} is not orthogonal: |WᵀW − I| is up to {error:.2g}")
        elif not isinstance(layer, nn.Identity):
            return ArchitectureBound(None, f"{type(layer).__name__} has no known stretch")
    return ArchitectureBound(bound, f"orthogonal layers and {activations} leaky ReLUs")


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """The layers of nested sequences in order; any other container counts as one layer."""
    if not isinstance(module, nn.Sequential):
        yield module
        return
    for part in module:
        yield from _layers(part)


# ---- hypotheses ----------------------------------------------------------------------------------------------------


def injective(secant: Secant, found: BiLipschitz, rows: np.ndarray) -> Hypothesis:
    """Do no two latent points have one output? ``rows`` are the points' numbers in the user's table."""
    i, j = (int(rows[k]) for k in secant.pair)
    if secant.fold is not None:
        place = ", ".join(f"{value:.4g}" for value in secant.fold)
        return Hypothesis(INJECTIVE, "fails", f"point {i} and the latents ({place}) have the same output")
    evidence = f"over {secant.n_pairs} pairs the smallest stretch is {secant.stretch:.3g}, between points {i} and {j}"
    evidence += f"; {inactive_sentence(found)}" if len(found.inactive) else ""
    if secant.stretch < FOLD * found.stretch[0]:
        evidence += f", far below that of any direction ({found.stretch[0]:.3g}): rolled up, or folded"
        return Hypothesis(INJECTIVE, "unknown", evidence)
    return Hypothesis(INJECTIVE, "supported", evidence)


def isometric(found: BiLipschitz, architecture: ArchitectureBound | None, rows: np.ndarray) -> Hypothesis:
    """Is the decoder locally bi-Lipschitz, with a constant for which near-isometries are near isometries?"""
    low, high = found.stretch
    if architecture is not None and architecture.value is not None and architecture.value <= LARGEST_RATIO:
        evidence = f"1 + L ≤ {architecture.value:.3g} everywhere: {architecture.reason}"
        return Hypothesis(ISOMETRIC, "holds", evidence)
    weak, strong = rows[found.singular.min(axis=1).argmin()], rows[found.singular.max(axis=1).argmax()]
    evidence = (
        f"singular values from {low:.3g} (point {weak}) to {high:.3g} (point {strong}) at {len(found.L)} points; L "
        f"is {found.largest:.3g}, and {found.at_best_scale:.3g} at the best scale (wanted at most √2 − 1)"
    )
    return Hypothesis(ISOMETRIC, "supported" if high <= LARGEST_RATIO * low else "fails", evidence)


def convex(z: Float[np.ndarray, "batch latent"], *, sampled: bool, seed: int = 0) -> Hypothesis:
    """Do midpoints of rows lie where rows lie? ``sampled``: rows are drawn from a law, not the latents of some data."""
    z = z[np.linspace(0, len(z) - 1, min(len(z), MIDPOINTS)).astype(int)]
    pairs = seeds.numpy_generator(seed, "midpoints", len(z)).integers(len(z), size=(MIDPOINTS, 2))
    tree = KDTree(z)
    spacing = float(tree.query(z, k=2)[0][:, 1].max())
    away = tree.query(z[pairs].mean(axis=1))[0]
    worst = int(away.argmax())
    i, j = (int(k) for k in pairs[worst])
    evidence = (
        f"midpoints of rows are at most {away[worst]:.3g} from a row (rows {i} and {j}), rows at most {spacing:.3g} "
        f"from the next"
    )
    if away[worst] > 2 * spacing:
        return Hypothesis(CONVEX, "fails", f"{evidence}: there is a hole")
    if not sampled or spacing > RESOLUTION * diameter(z):
        return Hypothesis(CONVEX, "unknown", f"{evidence}; a sample of data cannot show that there is no smaller hole")
    return Hypothesis(CONVEX, "supported", evidence)
