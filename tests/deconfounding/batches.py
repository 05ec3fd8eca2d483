"""Rows in batches, made so that the answer is known."""

from typing import NamedTuple

import numpy as np

from noumena.seeds import numpy_generator

QUICK = {"min_data_in_leaf": 10, "rounds": 25, "reg_alpha": 0.5, "min_gain_to_split": 0.0, "learning_rate": 0.2}
"""Settings for so few rows."""


class Batches(NamedTuple):
    x: np.ndarray
    batch: np.ndarray
    label: np.ndarray
    sources: np.ndarray


def batches(n_batches: int = 5, per: int = 60, d: int = 5, *, shift: float = 0.0, signal: bool = True) -> Batches:
    """Mixed uniform sources; the label is whether the first is far from 0, so only its own axis tells it in two cuts.

    The last source is moved by ``shift`` standard deviations from batch to batch.
    """
    draw = numpy_generator(3, "batches")
    n = n_batches * per
    batch = np.repeat(np.arange(n_batches), per)
    sources = draw.uniform(-1, 1, size=(n, d)) * np.sqrt(3)
    far = np.abs(sources[:, 0]) > np.sqrt(3) / 2
    label = np.where(far if signal else draw.permutation(far), "treated", "control")
    sources[:, -1] += shift * draw.permutation(n_batches)[batch]
    mixing = np.linalg.qr(draw.normal(size=(d, d)))[0] * np.linspace(0.5, 2, d)
    return Batches(sources @ mixing.T + 3.0, np.array([f"B{b}" for b in batch]), label, sources)
