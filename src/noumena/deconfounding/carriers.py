"""Which components vary with the batch, and which with the label within batches, by partial η².

Chance is what shuffled factors explain. A component carries a factor where its partial η² is above what the largest of
all components reaches in 95 of 100 shuffles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from noumena import charts, checks, seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHUFFLES, SURE = 100, 0.95


@dataclass(frozen=True)
class Carriers:
    """Partial η² of the components of one condition.

    Attributes
    ----------
    condition : str
        The condition, such as ``"ica"``.
    batch, batch_within_label, label_within_batch : array of shape (n_components,)
        η² of batch, of batch within labels, and of label within batches.
    chance, threshold : (float, float)
        For the last two, the mean of shuffled factors, and the 95 % point of their largest component.
    """

    condition: str
    batch: np.ndarray
    batch_within_label: np.ndarray
    label_within_batch: np.ndarray
    chance: tuple[float, float]
    threshold: tuple[float, float]

    @property
    def of_batch(self) -> tuple[int, ...]:
        """Components, counted from 0, that vary with the batch among rows of one label."""
        return tuple(np.flatnonzero(self.batch_within_label > self.threshold[0]).tolist())

    @property
    def of_signal(self) -> tuple[int, ...]:
        """Components, counted from 0, that vary with the label within batches."""
        return tuple(np.flatnonzero(self.label_within_batch > self.threshold[1]).tolist())

    def named(self, components: tuple[int, ...], share: np.ndarray, most: int = 8) -> str:
        """Components by decreasing share, counted from 1."""
        ordered = sorted(components, key=lambda k: -share[k])
        return checks.listed([f"{k + 1} ({share[k]:.2f})" for k in ordered], most) or "none"

    def __str__(self) -> str:
        d, both = len(self.batch), set(self.of_batch) & set(self.of_signal)
        return (
            f"Of {d} {self.condition} components {len(self.of_batch)} carry batch: "
            f"{self.named(self.of_batch, self.batch_within_label)}; {len(self.of_signal)} carry the label: "
            f"{self.named(self.of_signal, self.label_within_batch)}; {len(both)} carry both"
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Shares of batch and of label in every component, ordered by that of batch, with a dot where above chance.

        >>> one = Carriers("pca", np.ones(2), np.array([0.1, 0.9]), np.array([0.5, 0.0]), (0.0, 0.0), (0.2, 0.2))
        >>> ax = one.plot()
        >>> [tick.get_text() for tick in ax.get_xticklabels()], sum(line.get_gid() == "dot" for line in ax.lines)
        (['2', '1'], 2)
        """
        order = np.argsort(-self.batch_within_label, kind="stable")
        shares = np.stack([self.batch_within_label, self.label_within_batch])[:, order]
        rows = ("batch", "label")

        def sentence(i: int, j: int) -> str:
            limit = self.threshold[i]
            return f"{self.condition} {order[j] + 1}, {rows[i]}: {shares[i, j]:.3f} (by chance below {limit:.3f})"

        return charts.heatmap(
            shares,
            rows=rows,
            columns=[str(k + 1) for k in order],
            dots=shares > np.array(self.threshold)[:, None],
            written=lambda share: "",
            sentence=sentence,
            side=min(30.0, 440 / len(order)),
            ax=ax,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "condition": self.condition,
            "batch": self.batch.tolist(),
            "batch within label": self.batch_within_label.tolist(),
            "label within batch": self.label_within_batch.tolist(),
            "chance": list(self.chance),
            "threshold": list(self.threshold),
            "carry batch": [k + 1 for k in self.of_batch],
            "carry label": [k + 1 for k in self.of_signal],
        }


def explained(
    z: Float[np.ndarray, "row component"],
    factor: Int[np.ndarray, " row"],
    control: Int[np.ndarray, " row"] | None = None,
) -> Float[np.ndarray, " component"]:
    """Partial η²: the share of each component's variance, left by ``control``, that ``factor`` explains; in [0, 1].

    0 where the levels of ``factor`` have equal means, 1 where they tell the component; invariant to shift and scale.

    >>> explained(np.array([[0.0, 0], [0, 2], [4, 0], [4, 2]]), np.array([0, 0, 1, 1])).round(6).tolist()
    [1.0, 0.0]
    """
    base = _indicators(np.zeros(len(z), dtype=int) if control is None else control)
    base /= np.sqrt(base.sum(axis=0))
    left, extra = (t - base @ (base.T @ t) for t in (z, _indicators(factor)))
    directions, sizes, _ = np.linalg.svd(extra, full_matrices=False)
    span = directions[:, sizes > 1e-9 * max(1.0, float(sizes[0]))]
    total = (left**2).sum(axis=0)
    return np.clip(((span.T @ left) ** 2).sum(axis=0) / np.where(total > 0, total, 1.0), 0, 1)


def shuffled(
    z: Float[np.ndarray, "row component"], factor: Int[np.ndarray, " row"],
    control: Int[np.ndarray, " row"] | None = None, *, seed: int = 0, shuffles: int = SHUFFLES,
) -> tuple[float, float]:  # fmt: skip
    """The mean share of factors shuffled within the levels of ``control``, and the 95 % point of the largest one."""
    draw = seeds.numpy_generator(seed, "shuffles")
    groups = np.zeros(len(z), dtype=int) if control is None else control
    shares = []
    for _ in range(shuffles):
        mixed = factor.copy()
        for level in np.unique(groups):
            rows = np.flatnonzero(groups == level)
            mixed[rows] = factor[draw.permutation(rows)]
        shares.append(explained(z, mixed, control))
    return float(np.mean(shares)), float(np.quantile(np.max(shares, axis=1), SURE))


def carriers(
    condition: str, z: Float[np.ndarray, "row component"], batch: Int[np.ndarray, " row"],
    label: Int[np.ndarray, " row"], *, seed: int = 0,
) -> Carriers:  # fmt: skip
    """Shares of batch and label in every component of one view, beside those of shuffled ones."""
    by_batch, by_label = shuffled(z, batch, label, seed=seed), shuffled(z, label, batch, seed=seed)
    return Carriers(
        condition, explained(z, batch), explained(z, batch, label), explained(z, label, batch),
        (by_batch[0], by_label[0]), (by_batch[1], by_label[1]),
    )  # fmt: skip


def beyond_chance(
    z: Float[np.ndarray, "row component"], batch: Int[np.ndarray, " row"]
) -> Float[np.ndarray, " component"]:
    """The share of batch in each component, set so that 0 is expected by chance and 1 is all; no label takes part.

    This is η² with the chance (B − 1)/(n − 1) of B batches among n rows taken off, known as ε².

    >>> beyond_chance(np.array([[0.0], [0.0], [4.0], [4.0]]), np.array([0, 0, 1, 1])).round(6).tolist()
    [1.0]
    """
    chance = (len(np.unique(batch)) - 1) / (len(z) - 1)
    return (explained(z, batch) - chance) / (1 - chance)


def _indicators(codes: np.ndarray) -> np.ndarray:
    return (codes[:, None] == np.unique(codes)).astype(np.float64)
