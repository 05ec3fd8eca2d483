"""Settings of the synthetic studies of diverse dictionary learning: worlds, methods and recipes, with every constant.

Reference: Zheng et al. (2026), Section 4.1 and Appendix C.1. The paper gives 10 000 samples, d ∈ {3, 4, 5}, ``α = β =
0.05``, leaky-ReLU generators and a VAE; the latents' law, the structures, widths, optimiser, number of steps and kind
of correlation are lost.

Worlds. ``diverse``: d observations of d latents, every latent by some clause of sufficient diversity (Assumption 2),
every observation of two or three latents; ``dense``: everything depends on everything (the paper's *Base*); ``wide``:
4·d observations and a positive Occam gap, the largest of 3, 2, 1 that exists for d ≤ 8, and above that random rows of
2 to 4 latents with Hall's surplus. Each is built with the strongest nonlinearity that can be built (``STRENGTHS``: the
spread of the nonlinear part relative to the linear part). Latents are independent Gaussian with variances U[0.5, 3].

Recipes. ``paper``: α = β = 0.05, L1 in place of L0, a constant weight, one model, no choice. ``ours``: β = 0.01, the
annealed log surrogate for dependency sparsity, restarts ranked by their held-out objective. Within a recipe every
method has the same steps, rows and restarts.

**Deviations** from the paper: Adam follows one cycle in both recipes; the other penalties have the weight of dependency
sparsity, as nothing else is stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import structural_rank

from noumena import checks, seeds
from noumena.charts import Curve
from noumena.checks import InputError
from noumena.estimators import VAE, Training
from noumena.guarantees.diversity import clauses
from noumena.guarantees.surplus import hall_surplus
from noumena.penalties import DependencySparsity, LatentSparsity, Penalty
from noumena.penalties.curvature import HessianPenalty
from noumena.penalties.orthogonality import OroJaR
from noumena.structure import Structure
from noumena.studies import rows as tables
from noumena.studies.rows import Row
from noumena.worlds import World, family, structured

ROWS = 10_000
JUDGED_ROWS = 2000
"""Rows on which codes are compared with the truth."""
LAW = "gaussian"
STRENGTHS = ((1.0, 0.02), (0.7, 0.03), (0.4, 0.05))
"""Strength of the nonlinear part and the margin of full rank asked for, tried in this order."""
OBSERVED_PER_LATENT = 4
GAPS = (3, 2, 1)
EXACT_GAP_UP_TO = 8
FEW_SQUARE, FEW_WIDE = (2, 4), (2, 5)
"""Each observation of a diverse world, and of a wide one above ``EXACT_GAP_UP_TO``, sees so many latents or more, and
fewer than that."""
MOST_DRAWS = 20_000
POINTS = 64
"""Rows of a batch at which the Jacobian is taken."""
TOLERANCE = 0.024
"""The median of the deviations between seeds that Tables 3 to 5 print."""
PUBLISHED_RUNS = 3
"""Seeds behind a published figure; the paper says so of its images and gives no number for these worlds."""
TINY: Row = {"rows": 300, "steps": 2, "n_models": 2}
"""Numbers of a cell that runs in a fraction of a second."""

DEPENDENCY, OROJAR, HESSIAN, LATENT, NONE = "dependency sparsity", "OroJaR", "Hessian Penalty", "latent L1", "none"
METHODS = (DEPENDENCY, OROJAR, HESSIAN, LATENT, NONE)


@dataclass(frozen=True)
class Recipe:
    """How a model is trained and chosen: weights of the KL term and the penalty, budget, restarts."""

    beta: float
    weight: float
    steps: int
    n_models: int
    ranked: bool
    """Whether the objective chooses among the models; otherwise the first is taken."""


RECIPES = {
    "paper": Recipe(beta=0.05, weight=0.05, steps=1800, n_models=2, ranked=False),
    "ours": Recipe(beta=0.01, weight=0.05, steps=1800, n_models=4, ranked=True),
}
"""The second model of ``paper`` serves to measure agreement only."""


def recipe(name: str, **changes: Any) -> Recipe:
    """A recipe by name, with some of its numbers changed where they are not ``None``."""
    checks.one_of(name, "recipe", tuple(RECIPES))
    return replace(RECIPES[name], **{key: value for key, value in changes.items() if value is not None})


# ---- methods -----------------------------------------------------------------------------------------------------


def penalty(method: str, name: str) -> Penalty | None:
    """The bias of a method under a recipe, without its weight."""
    checks.one_of(method, "method", METHODS)
    if method == NONE:
        return None
    if method == DEPENDENCY:
        paper = name == "paper"
        return DependencySparsity("l1", ramp=0.0, points=POINTS) if paper else DependencySparsity(points=POINTS)
    if method == LATENT:
        return LatentSparsity()
    return OroJaR() if method == OROJAR else HessianPenalty()


def estimator(method: str, d: int, name: str, *, refit: bool = False, **changes: Any) -> VAE:
    """The estimator of a method under a recipe: the one place where it is built. ``changes`` are the recipe's
    numbers; the search of structures, which is the library's and not the paper's, is asked for by ``refit``."""
    chosen = recipe(name, **changes)
    bias = penalty(method, name)
    return VAE(
        d,
        penalty=None if bias is None else chosen.weight * bias,
        beta=chosen.beta,
        n_models=chosen.n_models,
        training=Training(steps=chosen.steps, refit=refit),
        random_state=0,
    )


# ---- worlds ------------------------------------------------------------------------------------------------------


def diverse(d: int, seed: int) -> Structure:
    """A random square structure whose latents each satisfy a clause of sufficient diversity; never the dense one.

    >>> clauses(diverse(4, 0)).any(axis=1)
    array([ True,  True,  True,  True])
    """
    rng = seeds.numpy_generator(seed, "diverse", d)
    for _ in range(MOST_DRAWS):
        support = _few(rng, d, d, FEW_SQUARE)
        if structural_rank(csr_array(support)) == d and bool(clauses(Structure(support)).any(axis=1).all()):
            return Structure(support)
    raise InputError(f"A diverse structure of {d} latents must be found in {MOST_DRAWS} draws. Got none.")


def wide(d: int, seed: int) -> Structure:
    """A random structure of ``4·d`` observations with a positive Occam gap.

    >>> wide(3, 0)
    Structure(12 observed × 3 latents, 26 dependencies)
    """
    if d <= EXACT_GAP_UP_TO:
        return _widest_gap(d, seed)
    rng = seeds.numpy_generator(seed, "wide", d)
    for _ in range(MOST_DRAWS):
        support = _few(rng, OBSERVED_PER_LATENT * d, d, FEW_WIDE)
        if hall_surplus(support):
            return Structure(support)
    raise InputError(f"A wide structure must have Hall's surplus. Got none for {d} latents in {MOST_DRAWS} draws.")


def _widest_gap(d: int, seed: int) -> Structure:
    for gap in GAPS:
        try:
            return family("random", d, OBSERVED_PER_LATENT * d, gap=gap, random_state=seed)
        except InputError:
            continue
    raise InputError(f"A wide structure must have a positive Occam gap. Got none for {d} latents.")


def _few(rng: np.random.Generator, d_x: int, d_z: int, few: tuple[int, int]) -> np.ndarray:
    """A random support whose rows have ``few`` latents."""
    order = rng.random((d_x, d_z)).argsort(axis=1)
    return order < rng.integers(*few, size=(d_x, 1))


WORLDS = {"diverse": diverse, "dense": lambda d, seed: family("dense", d), "wide": wide}


def built(structure: Structure, seed: int) -> tuple[World, float]:
    """The world of a structure with the strongest nonlinearity that can be built, and that strength."""
    for strength, margin in STRENGTHS:
        try:
            return structured(structure, law=LAW, strength=strength, margin=margin, random_state=seed), strength
        except InputError:
            continue
    raise InputError(f"A world must be built with one of the strengths {STRENGTHS}. Got none for {structure}.")


def world(kind: str, d: int, seed: int, *, noise: float = 0.0) -> tuple[World, float]:
    """A world of a kind and its strength; ``noise`` is relative to the mean spread of the observations."""
    checks.one_of(kind, "world", tuple(WORLDS))
    truth, strength = built(WORLDS[kind](d, seed), seed)
    scale = float(np.mean(truth.sample(ROWS).x.std(axis=0)))
    return replace(truth, noise=noise * scale), strength


# ---- curves ------------------------------------------------------------------------------------------------------


def curve(name: str, groups: Mapping[float | str, list[Row]], column: str, *, baseline: bool = False) -> Curve:
    """The mean and deviation of a column by condition; conditions without a value are left out.

    >>> curve("ours", {3: [{"mcc": 0.5}, {"mcc": 0.5}], 4: []}, "mcc").points
    ((3, 0.5, 0.0),)
    """
    found = {at: tables.values(group, column) for at, group in groups.items()}
    points = tuple(
        (at, float(np.mean(some)), float(np.std(some, ddof=1)) if len(some) > 1 else None)
        for at, some in found.items()
        if some
    )
    return Curve(name, points, baseline=baseline)


def published_curve(name: str, figures: Mapping[Any, tuple[float, float]]) -> Curve:
    """Published means and deviations by condition."""
    return Curve(name, tuple((at, *figure) for at, figure in figures.items()), published=True)
