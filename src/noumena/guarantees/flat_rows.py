"""Rows of a fitted mixture with flat components: are they Gaussian on their supports, and are the axes found again?

Every row goes to its likeliest component; in the coordinates of that component's support, rows of a mixture are
standard normal. Atoms (counts, categories) and any other shape are seen by a mixture of more components that explains
held-out rows better. Sparse axes are sought anew in each half of the rows: they must be those of the code.
"""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from scipy.stats import multivariate_normal

from noumena import checks
from noumena.estimators.sparse.components import SparseComponents
from noumena.guarantees.fitted import AGAINST, LEAST_ROWS, Rows, gain_in_errors, held_out_gain
from noumena.guarantees.hypotheses import Hypothesis
from noumena.guarantees.unmixing import halves
from noumena.mixtures import Mixture

GAUSSIAN = "held-out rows are Gaussian on the supports"
AXES_AGAIN = "the sparse axes are found again on other rows"
PER_COMPONENT = 60
"""Rows of a component below which its shape is not judged."""
REPEATED = 0.02
"""Share of rows that repeat another one from which values are discrete."""
BINS = 3
"""Components that must not explain the rows of one component better than one does."""
SAME = 0.9
"""Absolute cosine from which two directions are the same."""
LEAST_GAIN = 0.01
"""Nats per row that a better explanation must gain: rounding and snapping cost less."""


def on_flat_rows(law: Mixture, rows: Rows | None, tolerance: float) -> tuple[Hypothesis, Hypothesis]:
    """Both premises; ``unknown`` without rows, or with too few."""
    names = (GAUSSIAN, AXES_AGAIN)
    if rows is None or len(rows) < LEAST_ROWS:
        said = "no rows were given; pass rows the fit did not see" if rows is None else f"{len(rows)} rows are too few"
        first, second = (Hypothesis(name, "unknown", said) for name in names)
        return first, second
    return _gaussian(law, rows, tolerance), _again(rows)


def _gaussian(law: Mixture, rows: Rows, tolerance: float) -> Hypothesis:
    """Against several Gaussians in place of one, component by component on its support."""
    worst, judged = (0.0, 0.0, 0), 0
    for j, y in enumerate(on_supports(law, rows, tolerance)):
        if len(y) < PER_COMPONENT or y.shape[1] == 0:
            continue
        judged += len(y)
        repeated = 1 - len(np.unique(y.round(6), axis=0)) / len(y)
        if repeated > REPEATED:
            said = f"{repeated:.0%} of the rows of component {j} repeat another one: their values are discrete"
            return Hypothesis(GAUSSIAN, "fails", said)
        gain = held_out_gain(y, 1, BINS)
        if gain.mean() > LEAST_GAIN:
            worst = max(worst, (gain_in_errors(gain), float(gain.mean()), j))
    if judged < len(rows) / 2:
        return Hypothesis(
            GAUSSIAN, "unknown", f"components of {PER_COMPONENT} rows or more hold {judged} of {len(rows)}"
        )
    errors, gained, j = worst
    evidence = (
        f"{BINS} Gaussians in place of component {j} gain {gained:.3g} nats per row, {errors:.1f} standard errors"
    )
    level = AGAINST + np.log10(law.n_components)  # the worst of several
    return Hypothesis(GAUSSIAN, "supported" if errors <= level else "fails", f"{evidence} (at most {level:.1f})")


def on_supports(law: Mixture, rows: Rows, tolerance: float) -> list[Float[np.ndarray, "part rank"]]:
    """The rows of each component in the coordinates of its support, of unit variance under the mixture."""
    unit = np.maximum(rows.std(axis=0), 1e-12)
    scaled, table = law.pushed(np.diag(1 / unit)), rows / unit
    floor = (tolerance / 2) ** 2 * np.eye(law.n_latents)
    parts = zip(scaled.weights, scaled.means, scaled.covariances, strict=True)
    joint = np.stack([np.log(w) + multivariate_normal(m, S + floor).logpdf(table) for w, m, S in parts])
    label, found = joint.argmax(axis=0), []
    for j, support in enumerate(scaled.supports(tolerance=tolerance**2)):
        y = (table[label == j] - scaled.means[j]) @ support.basis
        spread = np.sqrt(np.diag(support.basis.T @ scaled.covariances[j] @ support.basis))
        found.append(y / np.maximum(spread, 1e-12))
    return found


def _again(rows: Rows) -> Hypothesis:
    """Sparse directions of each half, matched to the axes by their absolute cosines, in units of the latents."""
    unit = rows / np.maximum(rows.std(axis=0), 1e-12)
    cosines = []
    for part in halves(len(rows), 0):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                W = SparseComponents(rows.shape[1], refind=False).fit(unit[part]).components_
        except checks.InputError as error:
            return Hypothesis(AXES_AGAIN, "unknown", f"in half of the rows nothing was found: {error}")
        size = np.abs(W) / np.linalg.norm(W, axis=1, keepdims=True)
        cosines.append(size[linear_sum_assignment(-size)].min())
    worst = float(min(cosines))
    evidence = f"those sought in each half of {len(rows)} rows have cosines of {worst:.3f} or more with the axes"
    return Hypothesis(AXES_AGAIN, "supported" if worst >= SAME else "fails", f"{evidence} (wanted {SAME:g})")
