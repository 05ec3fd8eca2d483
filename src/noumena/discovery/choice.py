"""Choice: how many latents, and how strong a penalty, by prediction across columns on rows that judge.

Reconstruction rises with every latent that is added; prediction of a column from the others stops rising where the
latents are those that the columns share (bi-cross-validation, Owen and Perry 2009). Taken are the fewest latents, and
then the strongest penalty, that predict as well as the best within one standard error of the difference over rows, or
within a fiftieth of what can be predicted. Fits are short: they are compared with one another only.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning

from noumena import charts, checks
from noumena.checks import DivergenceError
from noumena.estimators import VAE, Training
from noumena.estimators.across_columns import SHORTFALL, ColumnTask
from noumena.penalties import DependencySparsity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WEIGHT = 0.05
"""Weight of dependency sparsity while latents are counted."""
WEIGHTS = (0.2, 0.1, 0.05, 0.02)
"""Weights that are tried, the strongest first."""
STEPS, BATCH, SEEDS, POINTS = 600, 128, 2, 32
"""Of a short fit."""
COARSE = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 26, 32, 40, 50)
PATIENCE, LONGER = 2, 4
"""Numbers of latents in a row that predict no better, after which no more are tried: where the best is about as good as
its peers, and where it is not."""
NEAR = 0.02
"""Share of what can be predicted by which a simpler model may be worse."""
ROWS = 5000
"""Rows that short fits are trained on, at most."""
ROWS_PER_LATENT = 10


@dataclass(frozen=True)
class Setting:
    """A number of latents and a weight, and how well a short fit predicts columns from the others."""

    latents: int
    weight: float
    prediction: float
    """Mean R² over columns of rows that were not trained on,"""
    behind: float
    """by how much that is less than of the best setting,"""
    standard_error: float
    """and the standard error of this over rows."""
    reconstruction: float
    """R² of held-out rows, which rises with every latent."""

    @property
    def near(self) -> bool:
        """Whether it is as good as the best."""
        return self.behind <= max(self.standard_error, NEAR * max(self.prediction + self.behind, 0.0))


@dataclass(frozen=True)
class Choice:
    """A number of latents and a weight that were chosen, with all that was tried."""

    latents: int
    weight: float
    settings: tuple[Setting, ...]
    knee: bool
    """Whether prediction stopped rising before the largest number that was tried."""

    @property
    def sentence(self) -> str:
        """What was chosen and why, in words."""
        tried = sorted({s.latents for s in self.settings})
        if len(tried) < 2:
            return f"{self.latents} latents as asked, penalty {self.weight:g}."
        why = "the fewest that predict columns from the others as well as more do"
        if not self.knee:
            why = "the most that were tried, and prediction still rises"
        return f"{self.latents} latents of {tried[0]} to {tried[-1]} tried, penalty {self.weight:g}: {why}."

    def __str__(self) -> str:
        lines = [self.sentence, "", "latents  penalty  prediction   behind the best  reconstruction"]
        lines += [
            f"{s.latents:7}  {s.weight:7g}  {s.prediction:10.3f}  {s.behind:7.3f} ± {s.standard_error:.3f}  "
            f"{s.reconstruction:14.3f}"
            for s in self.settings
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return asdict(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Prediction across columns and reconstruction over the number of latents."""
        counted = sorted((s for s in self.settings if s.weight == self.settings[0].weight), key=lambda s: s.latents)
        points = {
            "prediction across columns": tuple((s.latents, s.prediction, s.standard_error) for s in counted),
            "reconstruction": tuple((s.latents, s.reconstruction, None) for s in counted),
        }
        lines = tuple(charts.Curve(name, found, baseline=name == "reconstruction") for name, found in points.items())
        return charts.curves(lines, across="latents", up="R²", ax=ax)


class _Trials:
    """Short fits on the same rows, judged by the same others."""

    def __init__(
        self,
        x: Float[np.ndarray, "batch observed"],
        judged: Float[np.ndarray, "row observed"],
        seed: int,
        say: Callable[[str], None],
    ):
        mean, scale = x.mean(axis=0), x.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        self.x, self.seed, self.say = (x[:ROWS] - mean) / scale, seed, say
        task = ColumnTask.of(torch.as_tensor(self.x), torch.as_tensor((judged - mean) / scale))
        checks.require(task is not None, "Columns and rows must be enough to choose a number of latents.", x.shape)
        assert task is not None
        self.task = task
        self.errors: dict[tuple[int, float], np.ndarray] = {}
        self.r2: dict[tuple[int, float], float] = {}

    def prediction(self, latents: int, weight: float) -> float:
        """Mean R² over columns of a short fit, which is made once."""
        if (latents, weight) not in self.errors:
            self.errors[latents, weight], self.r2[latents, weight] = self._tried(latents, weight)
            self.say(f"{latents} latents, penalty {weight:g}: prediction {1 - self.errors[latents, weight].mean():.3f}")
        return 1 - float(self.errors[latents, weight].mean())

    def explains(self, prediction: float) -> bool:
        """Whether that is about as good as the peers."""
        peers = float(np.maximum(1 - self.task.peer.mean(axis=0), 0).mean())
        return prediction >= (1 - SHORTFALL) * peers

    def _tried(self, latents: int, weight: float) -> tuple[np.ndarray, float]:
        training = Training(steps=STEPS, batch_size=BATCH, refit=False)
        penalty = weight * DependencySparsity(points=POINTS) if weight else None
        model = VAE(
            latents, penalty=penalty, n_models=SEEDS, standardise=False, training=training, random_state=self.seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                model.fit(self.x)
            except DivergenceError:
                return np.full_like(self.task.peer, 2.0), 0.0
        assert model.explained_ is not None
        return self.task.errors_of(model.models_[model.best_]), model.explained_[model.best_]

    def settings(self) -> tuple[Setting, ...]:
        """All that was tried beside the best of them."""
        best = min(self.errors, key=lambda key: self.errors[key].mean())
        found = []
        for key, error in self.errors.items():
            apart = (error - self.errors[best]).mean(axis=1)
            spread = float(apart.std() / len(apart) ** 0.5)
            found.append(Setting(*key, 1 - float(error.mean()), float(apart.mean()), spread, self.r2[key]))
        return tuple(found)


def choose(
    x: Float[np.ndarray, "batch observed"],
    judged: Float[np.ndarray, "row observed"],
    *,
    latents: int | Sequence[int] | None = None,
    weight: float | None = None,
    random_state: int = 0,
    say: Callable[[str], None] = lambda sentence: None,
) -> Choice:
    """The fewest latents and the strongest penalty that predict columns of the rows ``judged`` as well as any.

    Parameters
    ----------
    x, judged : array of shape (n_rows, n_observed)
        Rows to train short fits on, and others to judge them by.
    latents : int or sequence of int, optional
        The number of latents, or those to choose from.
    weight : float, optional
        The weight of the penalty, where it is not to be chosen.
    random_state : int
        Seed of the short fits.
    say : callable
        Is told of every short fit.

    Returns
    -------
    Choice
    """
    if isinstance(latents, int) and weight is not None:
        return Choice(latents, weight, (), knee=True)
    trials = _Trials(x, judged, random_state, say)
    counting = WEIGHT if weight is None else weight
    if isinstance(latents, int):
        d, knee = latents, True
    else:
        d, knee = _counted(trials, _candidates(x.shape, latents), counting)
    if weight is None:
        for one in WEIGHTS:
            trials.prediction(d, one)
        near = [s for s in trials.settings() if s.latents == d and s.near]
        weight = max((s.weight for s in near), default=counting)
    return Choice(d, weight, trials.settings(), knee)


def _candidates(shape: tuple[int, ...], latents: Sequence[int] | None) -> list[int]:
    rows, columns = shape
    most = max(1, min(columns - 1, rows // ROWS_PER_LATENT))
    given = COARSE if latents is None else sorted({checks.count(d, "latents") for d in latents})
    return [d for d in given if d <= most] or [most]


def _counted(trials: _Trials, candidates: list[int], weight: float) -> tuple[int, bool]:
    """The fewest latents that predict as well as the best, coarse to fine, and whether more were tried in vain."""
    best, waited = -np.inf, 0
    for d in candidates:
        found = trials.prediction(d, weight)
        waited = 0 if found > best + NEAR * max(found, 0.0) else waited + 1
        best = max(best, found)
        if waited >= (PATIENCE if trials.explains(best) else LONGER):
            break
    fewest = _fewest(trials, weight)
    below = max((d for d in candidates if d < fewest), default=0)
    for d in range(below + 1, fewest):
        trials.prediction(d, weight)
    return _fewest(trials, weight), waited > 0


def _fewest(trials: _Trials, weight: float) -> int:
    return min(s.latents for s in trials.settings() if s.weight == weight and s.near)
