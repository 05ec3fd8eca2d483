"""Gradient-boosted trees with the published settings: their scores and the features they split on.

References
----------
Nelson et al. (2026), "Statistical and structural identifiability in representation learning", appendix A.7.4, table 6.

Deviations: the number of rounds is not published, 100 is LightGBM's own; one thread and a fixed order, so that the
same
input gives the same trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from noumena import checks

PUBLISHED = {
    "is_unbalance": True,
    "learning_rate": 0.05,
    "num_leaves": 31,
    "feature_fraction": 0.6,
    "reg_alpha": 5.0,
    "reg_lambda": 1.0,
    "min_gain_to_split": 0.8,
    "min_data_in_leaf": 30,
}
ROUNDS = 100
FREE = (*PUBLISHED, "rounds", "max_depth", "max_bin")


@dataclass(frozen=True)
class Trees:
    """Scores of the new rows, and how often and with what gain each feature was split on."""

    scores: np.ndarray
    splits: np.ndarray
    gains: np.ndarray

    @property
    def order(self) -> np.ndarray:
        """Features from the most to the least split on, ties by their gain."""
        return np.lexsort((-self.gains, -self.splits))


def settings_of(changes: Mapping[str, Any] | None) -> dict[str, Any]:
    """The published settings with some of them changed.

    >>> settings_of({"min_data_in_leaf": 5})["min_data_in_leaf"], settings_of(None)["num_leaves"]
    (5, 31)
    """
    unknown = sorted(set(changes or {}) - set(FREE))
    checks.require(not unknown, f"boosting must change only {', '.join(FREE)}.", ", ".join(map(str, unknown)))
    return {**PUBLISHED, "rounds": ROUNDS, **(changes or {})}


def boosted(
    x: Float[np.ndarray, "row feature"], y: Int[np.ndarray, " row"], fresh: Float[np.ndarray, "new feature"],
    *, settings: Mapping[str, Any], seed: int,
) -> Trees:  # fmt: skip
    """Trees trained on ``x`` and classes ``y``, and their scores of new rows."""
    import lightgbm

    fixed = {
        "objective": "binary", "verbosity": -1, "num_threads": 1, "deterministic": True, "force_col_wise": True,
        "seed": seed, "feature_pre_filter": False,
    }  # fmt: skip
    chosen = {name: value for name, value in settings.items() if name != "rounds"}
    try:
        data = lightgbm.Dataset(x, y, params={**fixed, **chosen}, free_raw_data=True)
        model = lightgbm.train({**fixed, **chosen}, data, int(settings["rounds"]))
    except lightgbm.basic.LightGBMError as error:
        raise checks.InputError(f"boosting must hold settings that LightGBM takes. Got: {error}.") from error
    splits, gains = (model.feature_importance(kind) for kind in ("split", "gain"))
    return Trees(np.asarray(model.predict(fresh, num_threads=1)), splits.astype(int), gains.astype(np.float64))


def linear(
    x: Float[np.ndarray, "row feature"], y: Int[np.ndarray, " row"], fresh: Float[np.ndarray, "new feature"]
) -> Float[np.ndarray, " new"]:
    """Scores of a logistic regression on standardised features: the same for every rotation of white ones."""
    from sklearn.linear_model import LogisticRegression

    mean, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-12)
    model = LogisticRegression(class_weight="balanced", max_iter=5000).fit((x - mean) / scale, y)
    return model.decision_function((fresh - mean) / scale)


def auroc(y: Int[np.ndarray, " row"], scores: Float[np.ndarray, " row"]) -> float:
    """Area under the receiver operating characteristic: 0.5 when all score alike, invariant to increasing maps.

    >>> auroc(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.3, 0.9]))
    0.75
    """
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(y, scores))


def within_batches(
    y: Int[np.ndarray, " row"], scores: Float[np.ndarray, " row"], batch: Int[np.ndarray, " row"]
) -> float:
    """Mean AUROC within batches that hold both classes: 0.5 when scores only tell batches apart; NaN without any.

    >>> y, batch = np.array([0, 1, 0, 1, 1]), np.array([0, 0, 1, 1, 1])
    >>> within_batches(y, np.array([0.0, 0.0, 1.0, 1.0, 1.0]), batch)
    0.5
    """
    areas = []
    for b in np.unique(batch):
        rows = batch == b
        if 0 < y[rows].sum() < rows.sum():
            areas.append(auroc(y[rows], scores[rows]))
    return float(np.mean(areas)) if areas else float("nan")
