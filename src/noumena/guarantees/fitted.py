"""Fitted mixtures: what rows say about a mixture that was estimated.

A fit has the form it was asked for: covariances that were fitted diagonal are diagonal whatever the data, and as many
components come out as were wanted. So a fitted mixture says nothing by itself. Rows do: mixtures of the same size are
fitted to each half of them and measured on the other, against one Gaussian, full covariances, twice as many components
and turned axes. Differences are paired over rows. What must be seen has to be seen by ``CLEAR`` standard errors; what
would speak against the mixture, by ``AGAINST``.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from noumena import checks
from noumena.guarantees.hypotheses import Hypothesis
from noumena.guarantees.unmixing import halves
from noumena.mixtures import Mixture

SEVERAL = "held-out rows need more than one component"
FOLLOWED = "held-out rows follow such a mixture"
FOUND_AGAIN = "the components are found again on other rows"
UNCORRELATED = "held-out rows need no correlations within components"
AXES = "held-out rows prefer these axes to turned ones"
DATA = (SEVERAL, FOLLOWED, FOUND_AGAIN)
"""What rows are asked about any mixture;"""
DATA_ON_AXES = (UNCORRELATED, AXES)
"""and about one whose latents are independent within components."""

CLEAR, AGAINST = 4.0, 2.0
"""Standard errors: of what must be seen, and of what speaks against."""
SAME = 0.7
"""Adjusted Rand index of two halves' components from which they are the same ones."""
LEAST_ROWS, ROWS_PER_NUMBER = 100, 4
"""Fewer rows than this in all, or per parameter of a mixture, show nothing."""
MOST_ROWS = 4000
"""Rows that are looked at, evenly chosen."""
FLOOR = 1e-4
"""Under the variances of standardised rows, in refits."""
SLACK = 0.05
"""How much worse than its refit a mixture may be, in deviations of the log-densities."""
STARTS, TURNING_STEPS = 3, 60
ANGLES = (np.pi / 8, np.pi / 4)
"""By which two axes are turned into each other."""

Rows = Float[np.ndarray, "batch latent"]


def weighed(hypothesis: Hypothesis, *, exact: bool, rows: Rows | None) -> Hypothesis:
    """A premise read off a fitted mixture's numbers: without rows these may be those of the fit, and not of data."""
    if exact or rows is not None or hypothesis.answer != "supported":
        return hypothesis
    return Hypothesis(hypothesis.name, "unknown", f"{hypothesis.evidence}; so the fit says, and no rows were given")


def checked_rows(rows: Any, law: Mixture) -> Rows | None:
    """Rows of latents to judge a mixture on, evenly chosen if many; ``None`` where none are given."""
    if rows is None:
        return None
    table = checks.table(rows, "rows", min_rows=2, varying=True).astype(np.float64)
    must = f"rows must have one column for each of the {law.n_latents} latents of the mixture."
    checks.require(table.shape[1] == law.n_latents, must, f"shape {table.shape}")
    return table[:: max(1, len(table) // MOST_ROWS)]


# ---- what rows say -----------------------------------------------------------------------------------------------


def on_rows(law: Mixture, rows: Rows | None) -> dict[str, Hypothesis]:
    """The premises that rows decide, by name; ``unknown`` without rows, or with too few."""
    names = (*DATA, *DATA_ON_AXES)
    if rows is None:
        return {
            name: Hypothesis(name, "unknown", "no rows were given; pass rows the fit did not see") for name in names
        }
    k, d = law.n_components, law.n_latents
    needed = max(LEAST_ROWS, 2 * ROWS_PER_NUMBER * k * (1 + 2 * d))
    if len(rows) < needed:
        said = f"{len(rows)} rows are too few to tell (wanted {needed})"
        return {name: Hypothesis(name, "unknown", said) for name in names}
    judge = _Judge.of(law, rows)
    return {h.name: h for h in (judge.several(), judge.followed(), judge.again(), judge.uncorrelated(), judge.axes())}


@dataclass(frozen=True, eq=False)
class _Judge:
    """Two halves of standardised rows, and the diagonal and the full mixture fitted to each."""

    law: Mixture
    """The mixture that is judged, in the units of the rows."""
    parts: tuple[Float[np.ndarray, "half latent"], Float[np.ndarray, "other latent"]]
    """The halves; of an odd number of rows one has a row more."""
    diagonal: tuple[Any, Any]
    full: tuple[Any, Any]

    @classmethod
    def of(cls, law: Mixture, rows: Rows) -> _Judge:
        """The judge of a mixture by rows, which are standardised, halved, and fitted half by half."""
        mean, spread = rows.mean(axis=0), rows.std(axis=0)
        unit = (rows - mean) / spread
        first, second = (unit[part] for part in halves(len(rows), 0))
        both, k = (first, second), law.n_components
        diagonal, full = ((_fit(first, k, kind), _fit(second, k, kind)) for kind in ("diag", "full"))
        return cls(law.pushed(np.diag(1 / spread), -mean / spread), both, diagonal, full)

    @property
    def independent(self) -> bool:
        """Whether the mixture that is judged has diagonal covariances."""
        off = self.law.covariances * (1 - np.eye(self.law.n_latents))
        return bool(np.abs(off).max() < 0.05 * np.abs(self.law.covariances).max())

    @property
    def kind(self) -> str:
        """Of the covariances of the mixture that is judged."""
        return "diag" if self.independent else "full"

    @property
    def fits(self) -> tuple[Any, Any]:
        """The mixtures of its kind, fitted to the halves."""
        return self.diagonal if self.independent else self.full

    def held_out(self, fits: tuple[Any, Any]) -> np.ndarray:
        """Every row's log-density under the fit to the other half."""
        return np.concatenate([fits[0].score_samples(self.parts[1]), fits[1].score_samples(self.parts[0])])

    def refitted(self, k: int, kind: str) -> np.ndarray:
        """The same for mixtures of another size."""
        return self.held_out((_fit(self.parts[0], k, kind), _fit(self.parts[1], k, kind)))

    def several(self) -> Hypothesis:
        """Against one Gaussian."""
        if self.law.n_components == 1:
            return Hypothesis(SEVERAL, "supported", "there is one component, and no more are claimed")
        gain = self.held_out(self.fits) - self.refitted(1, "full")
        return _seen(SEVERAL, gain, "over one Gaussian")

    def followed(self) -> Hypothesis:
        """Against more components, and the mixture itself against its refits."""
        base, k = self.held_out(self.fits), self.law.n_components
        given = np.concatenate([density(self.law, part) for part in (self.parts[1], self.parts[0])])
        rivals = {
            f"{2 * k} components": self.refitted(2 * k, self.kind),
            "a refit": base - SLACK * base.std(),
        }
        gains = {name: rival - (given if name == "a refit" else base) for name, rival in rivals.items()}
        return _not_seen(FOLLOWED, gains)

    def again(self) -> Hypothesis:
        """Whether the halves' components part the rows alike."""
        whole = np.concatenate(self.parts)
        index = float(adjusted_rand_score(*(fit.predict(whole) for fit in self.fits)))
        if self.law.n_components == 1:
            index = 1.0
        evidence = f"components of the two halves part the rows with an adjusted Rand index of {index:.2f}"
        return Hypothesis(FOUND_AGAIN, "supported" if index >= SAME else "fails", f"{evidence} (wanted {SAME:g})")

    def uncorrelated(self) -> Hypothesis:
        """Against full covariances."""
        gains = {"full covariances": self.held_out(self.full) - self.held_out(self.diagonal)}
        return _not_seen(UNCORRELATED, gains)

    def axes(self) -> Hypothesis:
        """Against every two axes turned into each other, in units of the spreads within components."""
        d = self.law.n_latents
        if d == 1:
            return Hypothesis(AXES, "supported", "there is one axis")
        base = self.held_out(self.diagonal)
        tried = {
            (i, j): min((base - self._turned(i, j, angle) for angle in ANGLES), key=gain_in_errors)
            for i, j in combinations(range(d), 2)
        }
        (i, j), gain = min(tried.items(), key=lambda item: gain_in_errors(item[1]))
        return _seen(AXES, gain, f"over z{i + 1} and z{j + 1} turned into each other")

    def _turned(self, i: int, j: int, angle: float) -> np.ndarray:
        """Every row's log-density under diagonal mixtures along turned axes, fitted to the other half."""
        found = []
        for fit, own, other in zip(self.diagonal, self.parts, self.parts[::-1], strict=True):
            T = _turn(np.sqrt(fit.weights_ @ fit.covariances_), i, j, angle)
            variances = np.einsum("ab,kb,ab->ka", T, fit.covariances_, T)
            start = {"weights_init": fit.weights_, "means_init": fit.means_ @ T.T, "precisions_init": 1 / variances}
            model = _em(own @ T.T, len(variances), "diag", max_iter=TURNING_STEPS, **start)
            found.append(model.score_samples(other @ T.T))
        return np.concatenate(found)


def _turn(spread: np.ndarray, i: int, j: int, angle: float) -> np.ndarray:
    """A rotation in the plane of two latents, in units of their spreads: it keeps volumes."""
    R = np.eye(len(spread))
    R[[i, j], [i, j]] = np.cos(angle)
    R[i, j], R[j, i] = -np.sin(angle), np.sin(angle)
    return spread[:, None] * R / spread


def _fit(rows: Rows, k: int, kind: str) -> Any:
    return _em(rows, k, kind, n_init=STARTS)


def _em(rows: Rows, k: int, kind: str, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a fit that still moves is a fit
        model: Any = GaussianMixture(k, covariance_type=kind, reg_covar=FLOOR, random_state=0, **settings)
        return model.fit(rows)


def density(law: Mixture, rows: Rows) -> Float[np.ndarray, " batch"]:
    """Log-density of rows under a mixture whose variances are no smaller than ``FLOOR``."""
    from scipy.special import logsumexp
    from scipy.stats import multivariate_normal

    floor = FLOOR * np.eye(law.n_latents)
    columns = [
        np.log(weight) + multivariate_normal(mean, covariance + floor).logpdf(rows)
        for weight, mean, covariance in zip(law.weights, law.means, law.covariances, strict=True)
    ]
    return np.asarray(logsumexp(np.stack(columns), axis=0))


def held_out_gain(rows: Rows, k: int, rival: int) -> Float[np.ndarray, " batch"]:
    """What ``rival`` full components explain better than ``k`` do, row by row, each fitted to the other half."""
    first, second = (rows[part] for part in halves(len(rows), 0))
    gains = [
        _fit(a, rival, "full").score_samples(b) - _fit(a, k, "full").score_samples(b)
        for a, b in ((first, second), (second, first))
    ]
    return np.concatenate(gains)


def gain_in_errors(gain: np.ndarray) -> float:
    """A mean gain in standard errors."""
    return float(gain.mean() / (gain.std() / sqrt(len(gain)) + 1e-12))


def _seen(name: str, gain: np.ndarray, over: str) -> Hypothesis:
    """What must be seen: a gain on held-out rows."""
    errors = gain_in_errors(gain)
    evidence = f"they gain {gain.mean():.3g} nats per row {over}, {errors:.1f} standard errors (wanted {CLEAR:g})"
    answer = "supported" if errors >= CLEAR else "fails" if gain.mean() <= 0 else "unknown"
    return Hypothesis(name, answer, evidence)


def _not_seen(name: str, gains: dict[str, np.ndarray]) -> Hypothesis:
    """What must not be seen: that something else explains held-out rows better."""
    rival, gain = max(gains.items(), key=lambda item: gain_in_errors(item[1]))
    errors = gain_in_errors(gain)
    evidence = f"{rival} gains {gain.mean():.3g} nats per row, {errors:.1f} standard errors (at most {AGAINST:g})"
    return Hypothesis(name, "supported" if errors <= AGAINST else "fails", evidence)
