"""Mixture priors without auxiliary information: the hierarchy of theorems, and the steps that use it.

``z`` follows a Gaussian mixture whose component ``u`` is hidden, ``x = f(z)`` with ``f`` piecewise affine. The law of
``z`` is pinned down up to affine maps, with conditionally independent latents up to permutation and scaling, and with
maximal hidden variables ``U = (U_1 … U_k)`` so are ``k``, their sizes and ``P(U)``; an injective continuous ``f`` is
pinned down as well, and with it the latents of every single observation.

Reference: Kivva et al. (2022), Theorem 3.10 and Table 1. Renamed: ``J`` states are components, numbered from 0;
``ne(U_j)`` are ``neighbourhoods``.
Deviations: P1 asks for non-degenerate components. The paper allows degenerate ones, for which the claim is false:
three lines through a point of the plane have a homeomorphism, affine on each line, that is not affine. Those mixtures
are read by ``degenerate_ladder``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components

from noumena import checks
from noumena.ambiguity import Ambiguity
from noumena.guarantees.certificate import Certificate
from noumena.guarantees.fitted import DATA, DATA_ON_AXES, checked_rows, on_rows, weighed
from noumena.guarantees.hypotheses import Hypothesis
from noumena.guarantees.injectivity import read_decoder
from noumena.guarantees.theorem import Theorem
from noumena.mixtures import TOLERANCE, Mixture

FITTED = 0.05
"""Differences, correlations, angles and relative spreads below this are noise in a fitted mixture."""
SMALLEST_VARIANCE = 1e-12
"""Relative variances below this are rounding, however exact the mixture."""
MOST_LATENTS = 12
"""Counting components over all subsets of latents stops here."""

NON_DEGENERATE = "P1 a Gaussian mixture of non-degenerate components"
INDEPENDENT = "P2 the latents are independent in every component"
DISTINCT_RATIOS = "P2 two components have distinct variance ratios"
MAXIMAL = "P3 the hidden variables are maximal"

SOURCE = "Kivva et al. 2022, Theorem 3.10"


def precision(exact: bool, tolerance: float | None) -> float:
    """The tolerance to use: the one given, or the usual one of a known or of a fitted mixture."""
    if tolerance is None:
        return TOLERANCE if exact else FITTED
    return checks.number(tolerance, "tolerance", minimum=0, maximum=1)


def answered(name: str, true: bool, exact: bool, evidence: str) -> Hypothesis:
    """A hypothesis that was measured: ``holds`` on a known mixture, ``supported`` on a fitted one, or ``fails``."""
    return Hypothesis(name, ("holds" if exact else "supported") if true else "fails", evidence)


def named(items: Iterable[Any], what: str = "component") -> str:
    """Components by number or latents by name, the first six.

    >>> named([0, 2]), named([1], "z")
    ('components 0, 2', 'z2')
    """
    found = [int(i) for i in items]
    shown = ", ".join(f"z{i + 1}" if what == "z" else str(i) for i in found[:6])
    shown += f" and {len(found) - 6} more" if len(found) > 6 else ""
    return shown if what == "z" else f"{what}{'s' if len(found) != 1 else ''} {shown}"


def mixture_ladder(
    mixture: Any,
    *,
    decoder: Any = None,
    neighbourhoods: Any = None,
    exact: bool = False,
    tolerance: float | None = None,
    rows: Any = None,
) -> Certificate:
    """Theorem 3.10 read on a mixture of latents and, where given, on a decoder and on the hidden variables.

    ``neighbourhoods`` is a boolean ``(hidden, latent)`` array: which hidden discrete variable moves which latent.
    ``exact`` says that the mixture is known, not fitted; ``tolerance`` is relative to spreads within components. A
    fitted mixture is judged on ``rows`` of latents, and without them nothing is concluded (see ``fitted``).

    >>> law = Mixture([0.5, 0.5], [[0, 0], [3, 1]], [np.eye(2), np.diag([2, 4])])
    >>> reading = mixture_ladder(law, exact=True)
    >>> [h.answer for h in reading.hypotheses], str(reading.ambiguity(0))
    (['holds', 'unknown', 'unknown', 'unknown', 'unknown', 'holds', 'holds', 'unknown'], 'permutation+scaling')
    """
    law = Mixture.of(mixture)
    tolerance = precision(exact, tolerance)
    table = None if exact else checked_rows(rows, law)
    f = read_decoder(decoder, law.n_latents)

    def read(*hypotheses: Hypothesis) -> tuple[Hypothesis, ...]:
        return tuple(weighed(h, exact=exact, rows=table) for h in hypotheses)

    seen = {} if exact else on_rows(law, table)
    P1 = (*read(_non_degenerate(law, exact, tolerance)), *(seen[name] for name in DATA if seen))
    P2 = read(_independent(law, exact, tolerance), _distinct_ratios(law, exact, tolerance))
    P2 = (*P1, *P2, *(seen[name] for name in DATA_ON_AXES if seen))
    P3 = read(_maximal(law, neighbourhoods, exact, tolerance))
    affine, scaling = (Ambiguity(group) for group in ("affine", "permutation+scaling"))
    rungs = (("a", P1, affine, ""), ("b", P2, scaling, ""), ("c", (*P2, *P3), scaling, _STATES))
    theorems = []
    for letter, priors, conclusion, also in rungs:
        weak = (*priors, f.piecewise_affine, f.weakly)
        strong = (*priors, f.piecewise_affine, f.continuous, f.injective)
        conclusions = (conclusion,) * law.n_latents
        theorems.append(Theorem(f"Theorem 3.10({letter}) on the law{also}", SOURCE, weak, conclusions, (*_OTHER, _LAW)))
        name = f"Theorem 3.10({letter}, d) on the law{also} and the decoder"
        theorems.append(Theorem(name, SOURCE, strong, conclusions, _OTHER))
    unseen = (f.piecewise_affine, f.continuous, f.weakly, f.injective) if decoder is None else ()
    assumed = frozenset(h.name for h in unseen)
    return Certificate("mixture prior", tuple(theorems), assumed=assumed, conditional=exact)


_STATES = ", the hidden variables (k, d_j, P(U))"
_OTHER = (
    "the other model is of the same kind: such a mixture through such a decoder, with as many latents",
    "the observations have no noise, or noise of a known law",
)
_LAW = "this is about the law of the latents: those of one observation may not be unique"


# ---- hypotheses ------------------------------------------------------------------------------------------


def variance_tolerance(tolerance: float) -> float:
    """A relative variance that counts as none, when relative spreads below ``tolerance`` do."""
    return max(tolerance**2, SMALLEST_VARIANCE)


def _non_degenerate(law: Mixture, exact: bool, tolerance: float) -> Hypothesis:
    unit = law.standardised()
    ranks = unit.ranks(tolerance=variance_tolerance(tolerance))
    flat = np.flatnonzero(ranks < law.n_latents)
    if len(flat):
        evidence = f"fewer than {law.n_latents} dimensions are filled by {named(flat)}; see degenerate_ladder"
        return Hypothesis(NON_DEGENERATE, "fails", evidence)
    variances = np.linalg.eigvalsh(unit.covariances)
    spread = float(np.sqrt(variances.min() / variances.max()))
    return answered(NON_DEGENERATE, True, exact, f"the smallest spread is {spread:.3g} of the largest")


def _independent(law: Mixture, exact: bool, tolerance: float) -> Hypothesis:
    correlation = np.abs(_correlations(law))
    component, i, j = (int(k) for k in np.unravel_index(correlation.argmax(), correlation.shape))
    largest = float(correlation[component, i, j])
    if largest <= tolerance:
        return answered(INDEPENDENT, True, exact, f"the largest correlation within a component is {largest:.2g}")
    sentence = f"component {component} correlates z{i + 1} and z{j + 1} by {largest:.2g}"
    return Hypothesis(INDEPENDENT, "fails", f"{sentence}; unmix may find latents that are independent")


def _correlations(law: Mixture) -> np.ndarray:
    """Correlations between different latents within each component; zero where there is no variance."""
    spread = np.sqrt(np.diagonal(law.covariances, axis1=1, axis2=2))
    scale = spread[:, :, None] * spread[:, None, :] * (1 - np.eye(law.n_latents))
    return np.divide(law.covariances, scale, out=np.zeros_like(law.covariances), where=scale > 0)


def _distinct_ratios(law: Mixture, exact: bool, tolerance: float) -> Hypothesis:
    variances = np.diagonal(law.covariances, axis1=1, axis2=2)
    moving = np.flatnonzero((variances > 0).all(axis=1))
    if law.n_latents == 1:
        return answered(DISTINCT_RATIOS, True, exact, "one latent has nothing to be told apart from")
    if len(moving) < 2:
        return Hypothesis(DISTINCT_RATIOS, "fails", f"two non-degenerate components are needed, there is {len(moving)}")
    best, pair = max((_separation(variances[a], variances[b]), (int(a), int(b))) for a, b in combinations(moving, 2))
    if best > tolerance:
        sentence = f"{named(pair)}: log ratios are at least {best:.2g} apart (wanted {tolerance:.2g})"
        return answered(DISTINCT_RATIOS, True, exact, sentence)
    a, b = pair
    ratios = np.log(variances[a] / variances[b])
    order = np.argsort(ratios)
    joined = np.flatnonzero(np.diff(ratios[order]) <= tolerance)
    same = sorted({int(order[k + step]) for k in joined for step in (0, 1)})
    evidence = f"even {named(pair)} have ratios within {tolerance:.2g} of each other for {named(same, 'z')}"
    return Hypothesis(DISTINCT_RATIOS, "fails", evidence)


def _separation(first: np.ndarray, second: np.ndarray) -> float:
    """The smallest difference between log ratios of positive numbers; infinite for one ratio."""
    return float(np.diff(np.sort(np.log(first / second))).min(initial=np.inf))


def _maximal(law: Mixture, neighbourhoods: Any, exact: bool, tolerance: float) -> Hypothesis:
    if neighbourhoods is None:
        reason = "no neighbourhoods were given; recover_states reads them off a mixture that satisfies P2"
        return Hypothesis(MAXIMAL, "unknown", reason)
    graph = checks.table(neighbourhoods, "neighbourhoods") > 0
    wanted = f"neighbourhoods must have one column for each of the {law.n_latents} latents."
    checks.require(graph.shape[1] == law.n_latents, wanted, f"shape {graph.shape}")
    nested = _nested(graph)
    if nested is not None:
        evidence = f"all that hidden variable {nested[0]} moves, hidden variable {nested[1]} moves too"
        return Hypothesis(MAXIMAL, "fails", evidence)
    unread = _unreadable(law, tolerance)
    if unread:
        return Hypothesis(MAXIMAL, "unknown", f"no neighbourhood contains another, but states cannot be told: {unread}")
    try:
        found = recover_states(law, tolerance=tolerance)
    except checks.InputError as error:
        return Hypothesis(MAXIMAL, "fails", f"the components contradict the neighbourhoods: {error}")
    if {tuple(row) for row in found.neighbourhoods.tolist()} != {tuple(row) for row in graph.tolist()}:
        says = " and ".join(f"({named(np.flatnonzero(row), 'z')})" for row in found.neighbourhoods) or "none"
        return Hypothesis(MAXIMAL, "fails", f"the counts of components say that the neighbourhoods are {says}")
    sizes = " × ".join(str(size) for size in found.sizes)
    return answered(MAXIMAL, True, exact, f"no neighbourhood contains another, and {sizes} states are told apart")


def _nested(graph: np.ndarray) -> tuple[int, int] | None:
    """The first hidden variable whose neighbourhood lies within another's, and that other."""
    pairs = ((i, j) for i in range(len(graph)) for j in range(len(graph)) if i != j)
    return next(((i, j) for i, j in pairs if bool((graph[i] <= graph[j]).all())), None)


# ---- from affine to permutation and scaling --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LinearUnmixing:
    """``matrix @ z'`` are the latents up to order and scale; ``ratios`` their variance ratios, ``margin`` apart."""

    matrix: np.ndarray
    ratios: np.ndarray
    margin: float


def unmix(covariance_1: Any, covariance_2: Any) -> LinearUnmixing:
    """Undo a linear mixing of independent latents from the covariances of two components.

    ``Σ'_u = A Σ_u Aᵀ`` with diagonal ``Σ_u`` makes the columns of ``A`` the eigenvectors of ``Σ'_1 Σ'_2⁻¹``. They are
    unique when the eigenvalues, the ratios of variances, differ; ``margin`` is their smallest difference in logarithm.

    >>> A = np.array([[2.0, 1.0], [0.0, 1.0]])
    >>> found = unmix(A @ np.diag([1, 9]) @ A.T, A @ A.T)
    >>> found.ratios.round(6).tolist(), np.abs(found.matrix @ A).round(6).tolist()
    ([1.0, 9.0], [[1.0, 0.0], [0.0, 1.0]])
    """
    first, second = (checks.table(c, f"covariance_{u}") for u, c in ((1, covariance_1), (2, covariance_2)))
    shapes = f"shapes {first.shape} and {second.shape}"
    checks.require(first.shape == second.shape, "The two covariances must have one shape.", shapes)
    Mixture([0.5, 0.5], np.zeros((2, len(first))), np.stack([first, second]))  # square, symmetric, not negative
    lowest = min(float(np.linalg.eigvalsh(c)[0] / np.linalg.eigvalsh(c)[-1]) for c in (first, second))
    must = "Both covariances must be non-singular."
    checks.require(lowest > SMALLEST_VARIANCE, must, f"a smallest relative variance of {lowest:.2g}")
    ratios, columns = eigh(first, second)
    return LinearUnmixing(columns.T, ratios, _separation(ratios, np.ones(len(ratios))))


# ---- the hidden variables --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HiddenStates:
    """The hidden variables behind a mixture: ``P(U)`` and the state of every component.

    ``probabilities[u_1, …, u_k]`` is ``P(U = u)``; ``labels[j]`` are the states ``(u_1, …, u_k)`` of component ``j``.
    Variables are in the order of their neighbourhoods; the numbering of a variable's states is arbitrary.
    """

    sizes: tuple[int, ...]
    neighbourhoods: np.ndarray
    probabilities: np.ndarray
    labels: np.ndarray

    @property
    def k(self) -> int:
        """Number of hidden variables."""
        return len(self.sizes)


def recover_states(mixture: Any, *, tolerance: float = 1e-6) -> HiddenStates:
    """``(k, d_1 … d_k, P(U))`` of a mixture of independent latents with maximal hidden variables (Thm 3.10(c)).

    ``K(S)``, the number of distinct components of the latents ``S``, is the product of the sizes of the variables that
    move ``S``. So ``K(all) / K(all \\ S)`` is the product over neighbourhoods within ``S``, and Möbius inversion over
    subsets gives the size of the variable with neighbourhood exactly ``N``. Outside its neighbourhood a variable is not
    seen and, by P3, every other one is: that tells which components differ in this variable only.

    >>> means = [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> found = recover_states(Mixture([0.1, 0.2, 0.3, 0.4], means, [np.eye(2)] * 4))
    >>> found.sizes, found.neighbourhoods.astype(int).tolist(), found.probabilities.round(6).tolist()
    ((2, 2), [[1, 0], [0, 1]], [[0.1, 0.2], [0.3, 0.4]])
    """
    law = Mixture.of(mixture)
    tolerance = checks.number(tolerance, "tolerance", minimum=0, maximum=1)
    unread = _unreadable(law, tolerance)
    checks.require(not unread, "States must be read off few independent, non-degenerate latents.", unread)
    kinds = _kinds(law, tolerance)
    sizes = _sizes(kinds)
    neighbourhoods = sorted(sizes, reverse=True)
    graph = np.array(neighbourhoods, dtype=bool).reshape(len(sizes), law.n_latents)
    nested = _nested(graph)
    if nested is not None:
        inner, outer = (f"({named(np.flatnonzero(graph[v]), 'z')})" for v in nested)
        must = "No hidden variable's neighbourhood must lie within another's (P3)."
        raise checks.InputError(f"{must} Got {inner} within {outer}.")
    labels = _labels(kinds, graph)
    shape = tuple(sizes[n] for n in neighbourhoods)
    grid = tuple(int(s) for s in labels.max(axis=0, initial=-1) + 1) == shape
    grid = grid and len(np.unique(np.column_stack([labels, kinds]), axis=0)) == len(np.unique(labels, axis=0))
    checks.require(grid, "Every combination of hidden states must be one component.", f"{shape} states that are not")
    probabilities = np.zeros(shape)
    for label, weight in zip(labels, law.weights, strict=True):
        probabilities[tuple(label)] += weight
    return HiddenStates(shape, graph, probabilities, labels)


def _unreadable(law: Mixture, tolerance: float) -> str:
    """Why components cannot be compared latent by latent; empty when they can."""
    if law.n_latents > MOST_LATENTS:
        return f"{law.n_latents} latents, more than {MOST_LATENTS}"
    largest = float(np.abs(_correlations(law)).max())
    if largest > max(tolerance, TOLERANCE):
        return f"a correlation of {largest:.2g} within a component"
    flat = np.flatnonzero((np.diagonal(law.covariances, axis1=1, axis2=2) <= 0).any(axis=1))
    return f"{named(flat)} without variance" if len(flat) else ""


def _kinds(law: Mixture, tolerance: float) -> np.ndarray:
    """For each component and latent, which of that latent's distinct Gaussians it is."""
    means = law.standardised().means
    spreads = np.log(np.diagonal(law.covariances, axis1=1, axis2=2)) / 2
    kinds = []
    for mean, spread in zip(means.T, spreads.T, strict=True):
        apart = np.maximum(np.abs(mean[:, None] - mean), np.abs(spread[:, None] - spread))
        kinds.append(connected_components(apart <= tolerance, directed=False)[1])
    return np.stack(kinds, axis=1).astype(int)


def _sizes(kinds: np.ndarray) -> dict[tuple[bool, ...], int]:
    """The size of the hidden variable of every neighbourhood that has one."""
    n = kinds.shape[1]
    everyone = (1 << n) - 1
    members = [np.array([bool(mask >> i & 1) for i in range(n)]) for mask in range(1 << n)]
    count = [len(np.unique(kinds[:, inside], axis=0)) for inside in members]
    size = [Fraction(count[everyone], count[everyone ^ mask]) for mask in range(1 << n)]
    for i in range(n):  # Möbius inversion, one latent at a time
        for mask in range(1 << n):
            if mask >> i & 1:
                size[mask] /= size[mask ^ (1 << i)]
    broken = [mask for mask, value in enumerate(size) if value.denominator != 1]
    where = f"{count[broken[0]]} of ({named(np.flatnonzero(members[broken[0]]), 'z')})" if broken else ""
    must = "Numbers of distinct components must be products of the sizes of hidden variables."
    checks.require(not broken, must, f"{where} in {count[everyone]} components")
    return {tuple(members[mask].tolist()): int(value) for mask, value in enumerate(size) if value > 1}


def _labels(kinds: np.ndarray, graph: np.ndarray) -> np.ndarray:
    """The state of every hidden variable in every component: equal if moves of the other variables join them."""
    outside = [np.unique(kinds[:, ~inside], axis=0, return_inverse=True)[1].ravel() for inside in graph]
    moves = np.array([o[:, None] == o for o in outside]).reshape(len(graph), len(kinds), len(kinds))
    alike = (kinds[:, None] == kinds).all(axis=-1)
    labels = []
    for j in range(len(graph)):
        others = np.delete(moves, j, axis=0).any(axis=0) | alike
        labels.append(connected_components(others, directed=False)[1])
    return np.array(labels, dtype=int).reshape(len(graph), len(kinds)).T
