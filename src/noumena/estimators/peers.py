"""Peers: how well a column is predicted from the others by what knows nothing of latents, ridge regression and
gradient boosting.

A model of latents that predicts a column from the others as well as they do has explained what the columns share.
"""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Float

MOST_ROWS = 10_000
"""Rows that peers are trained on, at most."""
MOST_OTHERS = 128
"""Other columns that peers see: those which correlate most with the column, on the rows they are trained on."""
PENALTIES = np.logspace(-2, 4, 13)
"""Weights of the ridge, one of which is chosen by leaving rows out."""
TREES = {
    "objective": "regression", "learning_rate": 0.1, "num_leaves": 15, "min_data_in_leaf": 20, "lambda_l2": 1.0,
    "verbosity": -1, "num_threads": 1, "deterministic": True, "force_col_wise": True, "seed": 0,
}  # fmt: skip
ROUNDS = 150
LEAST_ROWS = 100
"""Fewer rows are not for trees."""


def predicted_by_peers(
    seen: Float[np.ndarray, "row column"], fresh: Float[np.ndarray, "new column"], j: int
) -> list[Float[np.ndarray, " new"]]:
    """Column ``j`` of fresh rows as every peer predicts it from the other columns, trained on the rows ``seen``.

    >>> x = np.random.default_rng(0).normal(size=(400, 1)) * np.ones(3)
    >>> [bool(abs(guess - x[300:, 0]).mean() < 0.1) for guess in predicted_by_peers(x[:300], x[300:], 0)]
    [True, True]
    """
    seen = seen[:MOST_ROWS]
    target = seen[:, j]
    others = _most_correlated(seen, j)
    x, new = seen[:, others], fresh[:, others]
    return [_ridge(x, target, new), *([_boosted(x, target, new)] if len(x) >= LEAST_ROWS else [])]


def _most_correlated(seen: Float[np.ndarray, "row column"], j: int) -> np.ndarray:
    """The other columns, or those that correlate most with column ``j``."""
    others = np.delete(np.arange(seen.shape[1]), j)
    if len(others) <= MOST_OTHERS:
        return others
    centred = seen - seen.mean(axis=0)
    spread = np.sqrt(np.square(centred).mean(axis=0)).clip(1e-12)
    size = np.abs(centred[:, j] @ centred / (len(seen) * spread))
    return others[np.argsort(-size[others], kind="stable")[:MOST_OTHERS]]


def _ridge(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    from scipy.linalg import LinAlgWarning
    from sklearn.linear_model import RidgeCV

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)
        return RidgeCV(PENALTIES).fit(x, y).predict(new)


def _boosted(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    import lightgbm

    data = lightgbm.Dataset(x, y, params=TREES, free_raw_data=True)
    return np.asarray(lightgbm.train(TREES, data, ROUNDS).predict(new, num_threads=1))
