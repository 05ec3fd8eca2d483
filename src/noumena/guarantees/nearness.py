"""Nearness: up to which ambiguity, and within which ε, are representations the same from run to run, or the truth?

*Statistical* nearness compares optima with each other, *structural* nearness with the true latents. The second implies
the first, never the other way round: consistency across runs is not correctness, and a reading says which it measured.

Reference: Nelson et al. (2026). Theorem 1: identified outputs, a decoder that is injective and locally
(1+L)-bi-Lipschitz, and convex latents give a rigid map within ``ε = c_D·Δ·√((1+L)² − 1)``. Theorem 2: whitening and ICA
turn it into a signed permutation, ``ε' = Kε + K'ε²``. Theorem 3: with such a data generation, independent non-Gaussian
white factors and perfect reconstruction, both hold against the true latents.

Deviations: Theorem 1 approximates a near-isometry whose distances are off by ``((1+L)² − 1)·Δ``, which its lemma allows
up to Δ: a premise of its own here, read at the best scale of the latents (``lipschitz``). Known ``c_D`` grow
exponentially with the number D of latents, so a bound is given only with the user's ``constant``; K and K' are not
known. Runs must agree, for Theorem 1 up to a rigid map with one scale. Δ is the sample's diameter and ε is about the
sampled region. "Non-Gaussian" allows one Gaussian component, as ICA does. Theorem 2 on arrays starts from their
measured agreement up to an affine map, as no decoder is seen. Only what a subject cannot show is assumed, and printed:
where a decoder is seen, a premise that stays unknown leaves the theorem open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.estimators import Estimator
from noumena.guarantees import components as ica
from noumena.guarantees import lipschitz
from noumena.guarantees.agreement import ICA as ICA_MAP
from noumena.guarantees.agreement import RIGID as RIGID_MAP
from noumena.guarantees.agreement import Agreement, agree, agreements, runs_of
from noumena.guarantees.components import GAUSSIAN, INDEPENDENT, Components
from noumena.guarantees.hypotheses import Hypothesis
from noumena.guarantees.lipschitz import CONVEX, INJECTIVE, ISOMETRIC, BiLipschitz
from noumena.guarantees.nearness_certificate import Nearness
from noumena.guarantees.simulation import Simulation
from noumena.guarantees.theorem import Theorem

SOURCE = "Nelson et al. 2026, Theorem"
RIGID, AFTER_ICA, STRUCTURAL = "rigid nearness", "nearness after ICA", "structural nearness"
OUTPUTS = "the outputs are identified"
WHITE = "the factors are white"
EXPLAINED = "the data are reconstructed"
GENERATION = "the data generation is near an isometry, of white factors"

POINTS, ROWS = 256, 10_000
"""Points where Jacobians are taken, and rows drawn from a world."""
SHARE = 0.05
"""Of the variance: runs that differ by less have the same outputs, and errors below it leave the data explained."""
UNSHOWN = frozenset((CONVEX,))
"""What no sample can show: that there is no hole smaller than the distances of its rows;"""
UNSHOWN_ALONE = UNSHOWN | {OUTPUTS}
"""what a decoder alone cannot show either: that other models of the same data have its outputs;"""
UNSEEN = UNSHOWN_ALONE | {INJECTIVE, ISOMETRIC}
"""and what rows of representations cannot show: it is about decoders."""
GAUSSIAN_LAWS = ("gaussian", "unit gaussian", "correlated gaussian", "linear sem")
FULL_SUPPORT, WHITE_LAWS = (*GAUSSIAN_LAWS, "laplace"), ("unit gaussian", "laplace", "uniform")
CLEAR = 5.0
"""Factors are not white when an entry of their covariance is this many standard errors off, twice."""


# ---- one door ------------------------------------------------------------------------------------------------------


@renamed(seed="random_state")
def nearness(
    subject: Any, *, at: Any = None, constant: float | None = None, restarts: int = 5, random_state: Any = 0
) -> Nearness:
    """How near a world, a fitted model, a decoder ``at`` latent points, or several runs' arrays come to identification.

    ``constant`` is the user's ``c_D`` of Theorem 1, without which no bound is given; ``restarts`` of ICA.

    >>> z = np.random.default_rng(0).uniform(-1, 1, size=(2000, 2))
    >>> rotated = z @ np.array([[0.6, 0.8], [-0.8, 0.6]])
    >>> reading = nearness([z, rotated])
    >>> reading.measured, reading.strongest.name, round(reading.agreements[0].errors["rigid+scale"], 6)
    ('statistical', 'nearness after ICA', 0.0)
    """
    seed = seeds.seed_of(random_state)
    constant = None if constant is None else checks.number(constant, "constant", minimum=0)
    settings: dict[str, Any] = {"restarts": checks.count(restarts, "restarts", minimum=2), "seed": seed}
    if isinstance(subject, Simulation):
        z = subject.latents(ROWS, random_state=seed) if at is None else at
        return _world(subject, _read(subject.decoder, z, settings), constant)
    if isinstance(subject, Estimator):
        z = subject.points_of(subject.best_) if at is None else at
        return _model(subject, _read(subject.decoder_, z, settings), constant, settings)
    if isinstance(subject, list | tuple) or getattr(subject, "ndim", 0) == 3:
        checks.require(at is None, "at must be left out for arrays, which have no decoder.", "points")
        checks.require(constant is None, "constant must come with a decoder, whose L it multiplies.", "arrays")
        return _arrays(runs_of(list(subject)), settings)
    checks.require(
        callable(subject),
        "nearness must be given a world, a fitted model, a decoder, or two or more arrays of one batch.",
        f"a {type(subject).__name__}",
    )
    checks.require(at is not None, "nearness(decoder) must be given latent points, at=z.", "at=None")
    outputs = Hypothesis(OUTPUTS, "unknown", "a bare decoder says nothing about other models of the same data")
    explained = Hypothesis(EXPLAINED, "unknown", "no reconstruction error is known for a bare decoder")
    return _fitted("decoder", _read(subject, at, settings), outputs, explained, constant, ())


@dataclass(frozen=True)
class _Decoded:
    """A decoder and its latents: inactive directions are dropped, premises about the decoder are answered."""

    z: np.ndarray
    lipschitz: BiLipschitz
    components: Components | None
    injective: Hypothesis
    isometric: Hypothesis
    convex: Hypothesis


def _read(decoder: Callable, at: Any, settings: dict[str, Any]) -> _Decoded:
    table = checks.table(at, "at", min_rows=2, varying=True).astype(np.float64)
    rows = np.linspace(0, len(table) - 1, min(len(table), POINTS)).astype(int)
    points = at[torch.as_tensor(rows)] if isinstance(at, Tensor) else table[rows]
    found = lipschitz.bi_lipschitz(decoder, points)
    secant = lipschitz.shortest_secant(decoder, points, found)
    architecture = lipschitz.architecture_bound(decoder) if isinstance(decoder, nn.Module) else None
    z = table @ found.active.T if len(found.inactive) else table
    return _Decoded(
        z,
        found,
        ica.components(z, **settings),
        lipschitz.injective(secant, found, rows),
        lipschitz.isometric(found, architecture, rows),
        lipschitz.convex(z, sampled=False, seed=settings["seed"]),
    )


def _theorems(
    latents: int,
    rigid: tuple[Hypothesis, ...],
    after_ica: tuple[Hypothesis, ...],
    structural: tuple[Hypothesis, ...],
    rests_on: tuple[str, ...],
) -> tuple[Theorem, ...]:
    """Theorems 1 and 2, and Theorem 3 where something is known of the data generation."""
    limits = (*rests_on, "ε is about the sampled region and the stretch at sampled points")
    constants = (*limits, "K and K' of ε' = Kε + K'ε² are finite, and not known")
    signed = (Ambiguity("signed permutation"),) * latents
    theorems = (
        Theorem(RIGID, f"{SOURCE} 1", rigid, (Ambiguity("rigid"),) * latents, limits),
        Theorem(AFTER_ICA, f"{SOURCE} 2", after_ica, signed, constants),
    )
    if not structural:
        return theorems
    rich = (*constants, "the model is rich enough to contain the true decoder")
    return (*theorems, Theorem(STRUCTURAL, f"{SOURCE} 3", (*after_ica, *structural), signed, rich))


def _others(found: BiLipschitz) -> tuple[str, ...]:
    stretch = "{:.3g} to {:.3g}".format(*found.stretch)
    return (f"the other decoder also stretches by {stretch}, or is (1+L)-bi-Lipschitz", *lipschitz.dropped(found))


# ---- worlds --------------------------------------------------------------------------------------------------------


def _world(world: Simulation, read: _Decoded, constant: float | None) -> Nearness:
    exact = "the observations are the decoder's output, without noise"
    noisy = f"noise of standard deviation {world.noise:g} hides the decoder's output"
    outputs = Hypothesis(OUTPUTS, "holds", exact) if world.noise == 0 else Hypothesis(OUTPUTS, "unknown", noisy)
    gaussian = _gaussian(world, read)
    found = (read.components,)
    rigid = (outputs, read.injective, read.isometric, _convex(world, read))
    after_ica = (*rigid, ica.full_rank(found), gaussian, ica.separated(found, gaussian))
    structural = (_independent(world, read), _white(world, read.z))
    rests_on = (*_others(read.lipschitz), "the model reconstructs the observations perfectly")
    theorems = _theorems(read.z.shape[1], rigid, after_ica, structural, rests_on)
    size = lipschitz.diameter(read.z)
    return Nearness("world", theorems, "structural", size, read.lipschitz, found, (), constant, assumed=frozenset())


def _convex(world: Simulation, read: _Decoded) -> Hypothesis:
    if world.law.name in FULL_SUPPORT:
        return Hypothesis(CONVEX, "holds", f"the law {world.law.name!r} has density everywhere")
    if world.law.name == "uniform":
        return Hypothesis(CONVEX, "holds", "the law 'uniform' fills a box")
    return lipschitz.convex(read.z, sampled=True)


def _gaussian(world: Simulation, read: _Decoded) -> Hypothesis:
    if world.law.name in GAUSSIAN_LAWS and world.n_latents > 1:
        names = ", ".join(f"z{j + 1}" for j in range(world.n_latents))
        return Hypothesis(GAUSSIAN, "fails", f"{names} are Gaussian under the law {world.law.name!r}")
    if world.law.name in ("laplace", "uniform"):
        return Hypothesis(GAUSSIAN, "holds", f"no component of the law {world.law.name!r} is")
    return ica.non_gaussian((read.components,))


def _independent(world: Simulation, read: _Decoded) -> Hypothesis:
    if world.law.independent:
        return Hypothesis(INDEPENDENT, "holds", f"the law {world.law.name!r} has independent components")
    found = ica.dependence(read.z)
    i, j = divmod(int(found.argmax()), len(found))
    evidence = (
        f"not under the law {world.law.name!r}; most between z{i + 1} and z{j + 1}: correlation {found.max():.3f}"
    )
    return Hypothesis(INDEPENDENT, "fails", evidence)


def _white(world: Simulation, z: np.ndarray) -> Hypothesis:
    """Zero mean and unit covariance: known of a law, or within sampling error."""
    if world.law.name in WHITE_LAWS:
        return Hypothesis(WHITE, "holds", f"the law {world.law.name!r} has mean 0 and unit covariance")
    second = z.T @ z / len(z)
    moments = np.vstack([z.mean(axis=0), second - np.eye(z.shape[1])])
    spread = np.vstack([z.var(axis=0), (z**2).T @ z**2 / len(z) - second**2])
    errors = np.sqrt(np.maximum(spread, 1e-12)) * CLEAR / sqrt(len(z))
    i, j = divmod(int((np.abs(moments) / errors).argmax()), z.shape[1])
    what = f"the mean of z{j + 1}" if i == 0 else f"the second moment of z{i} and z{j + 1}"
    off, error = float(abs(moments[i, j])), float(errors[i, j])
    answer = "supported" if off <= error else "fails" if off > 2 * error else "unknown"
    return Hypothesis(WHITE, answer, f"{what} is off by {off:.3g}, sampling error {error:.3g} on {len(z)} rows")


# ---- models --------------------------------------------------------------------------------------------------------


def _fitted(
    subject: str,
    read: _Decoded,
    outputs: Hypothesis,
    explained: Hypothesis,
    constant: float | None,
    found: tuple[Agreement, ...],
) -> Nearness:
    components = (read.components,)
    gaussian = ica.non_gaussian(components)
    runs = (agree(found, RIGID_MAP),) if found else ()
    rigid = (*runs, outputs, read.injective, read.isometric, read.convex)
    one_by_one = (agree(found, ICA_MAP),) if found else ()
    after_ica = (*rigid, *one_by_one, ica.full_rank(components), gaussian, ica.separated(components, gaussian))
    generation = Hypothesis(GENERATION, "unknown", "the true decoder is not seen")
    structural = (ica.independent(components), explained, generation)
    theorems = _theorems(read.z.shape[1], rigid, after_ica, structural, _others(read.lipschitz))
    size = lipschitz.diameter(read.z)
    assumed = UNSHOWN if subject == "model" else UNSHOWN_ALONE
    near = read.lipschitz, components, found, constant
    return Nearness(subject, theorems, "statistical", size, *near, assumed=assumed)


def _model(model: Estimator, read: _Decoded, constant: float | None, settings: dict[str, Any]) -> Nearness:
    error = float(model.terms_["reconstruction"][model.best_]) / model.n_features_in_
    explained = Hypothesis(EXPLAINED, "unknown", "the error has no scale without standardised observations")
    if model.standardise:
        answer = "supported" if error <= SHARE else "fails"
        explained = Hypothesis(EXPLAINED, answer, f"held-out error {error:.3f} of the variance (wanted {SHARE:g})")
    runs = [k for k in range(len(model.models_)) if not model.diverged_[k]]
    found = agreements(runs_of([model.points_[k] for k in runs]), **settings) if len(runs) > 1 else ()
    return _fitted("model", read, _outputs(model, runs, explained), explained, constant, found)


def _outputs(model: Estimator, runs: list[int], explained: Hypothesis) -> Hypothesis:
    """Runs that decode the same rows to the same outputs; one run whose outputs are the data themselves."""
    if len(runs) < 2:
        if explained.answer == "supported":
            return Hypothesis(OUTPUTS, "supported", f"they are nearly the data: {explained.evidence}")
        return Hypothesis(OUTPUTS, "unknown", "one run, whose outputs are not the data; fit several (n_models)")
    with torch.no_grad():
        decoded = [model.models_[k].decode(model.points_of(k)).double().cpu().numpy() for k in runs]
    apart = {
        (runs[a], runs[b]): float(((decoded[a] - decoded[b]) ** 2).mean() / decoded[a].var(axis=0).mean())
        for a in range(len(runs))
        for b in range(a)
    }
    (i, j), worst = max(apart.items(), key=lambda item: item[1])
    evidence = f"runs {i + 1} and {j + 1} differ most, by {worst:.3f} of their variance (wanted {SHARE:g})"
    return Hypothesis(OUTPUTS, "supported" if worst <= SHARE else "fails", evidence)


def _arrays(runs: list[np.ndarray], settings: dict[str, Any]) -> Nearness:
    components = tuple(ica.components(run, **settings) for run in runs)
    found = agreements(runs, unmixings=[c.unmixing for c in components if c is not None], **settings)
    gaussian = ica.non_gaussian(components)
    support = [lipschitz.convex(run, sampled=False, seed=settings["seed"]) for run in runs]
    unseen = tuple(Hypothesis(name, "unknown", "no decoder was seen") for name in (OUTPUTS, INJECTIVE, ISOMETRIC))
    rigid = (agree(found, RIGID_MAP), *unseen, next((h for h in support if h.answer == "fails"), support[0]))
    agreeing = (agree(found), agree(found, ICA_MAP))
    after_ica = (*agreeing, ica.full_rank(components), gaussian, ica.separated(components, gaussian))
    theorems = _theorems(runs[0].shape[1], rigid, after_ica, (), ("the runs are optima of one loss on one data set",))
    size = lipschitz.diameter(runs[0])
    return Nearness("set of arrays", theorems, "statistical", size, None, components, found, None, assumed=UNSEEN)
