"""Sparse latents behind a mixing that bends: an affine sparse unmixing, refined by an invertible piecewise affine map.

Model: ``ẑ = h(A·x + a)`` with ``A·x + a`` an affine sparse code and ``h`` a stack of square linear layers with bends
``t ↦ t + c·(√(t² + τ²) − τ)`` between them: slopes ``1 − c`` and ``1 + c`` on the two sides of a kink that is rounded
at the size ``τ``. That is the class of mixings the theory speaks of, read backwards; inverse and log-determinant are
exact. At the start ``h`` is the identity: random rotations, all ``c = 0``, and the last layer undoes the rotations.

Objective (minimised), in nats per row: ``−Σ_i log p(ẑ_i) − log|det ∂h|``, where ``p`` mixes a spike ``N(0, ε²)`` with a
normal slab whose weight, mean and spread are learned per latent. Rows are blurred by noise of the size ``ε``, for rows
on subspaces have no density: without it ``h`` may stretch the directions in which there is nothing. ``ε`` falls
from 0.3 to 0.01. After a first part at the widest spike, and at the end, the code is affinely unmixed once more: by
then it is closer to an affine image of the latents than ``x`` was. Once from its rows and once from differences of
neighbours, and each is trained on; the held-out objective decides.

The law's independence pulls dependent latents off their axes. As the spike narrows, most of what dependence costs is
therefore given back: ``+ 0.8 · ½ log det corr(ẑ)``, with which a linear change of latents alters the law's marginals
at almost no price but that of the zeros. What is given back is bounded: a map that bends hard could otherwise make all
latents alike from afar, by a few far rows, and keep its volume nearby.

Sparsity alone does not forbid ``ẑ_i = z_i · exp(g(z))``, which has the same zeros. The normal slab does: within a
component the latents must stay Gaussian, which is why ``ẑ`` comes out affine in ``z`` and not merely as sparse.

*Whether the bends pay* is asked of held-out rows: the same fit without bends has ``affine_objective_``, and where the
bent one is not lower by a tenth of a nat per row the affine code is used (``bent_``). Truth is never asked.

Reference: Xu et al. (2026), Theorems 3.5 to 3.9. Deviations: the estimator is ours throughout. The paper's stage 1 is
an autoencoder that knows nothing of sparsity, followed by an affine stage 2; here sparsity itself straightens the code.
Layers need not be orthogonal, kinks have offsets and slopes of their own.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import dataclass, field
from math import log, pi
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from noumena import checks, seeds
from noumena.adopt.describe import describe
from noumena.deprecated import moved_device
from noumena.estimators.fit_data import FitData
from noumena.estimators.loop import Objective, Trained, Training, train
from noumena.estimators.parameters import check_parameters, count, instance, must_be
from noumena.estimators.sources import Numbers
from noumena.estimators.sparse.components import SparseComponents
from noumena.estimators.sparse.spikes import fit_spikes
from noumena.estimators.transformer import Transformer, as_given, transactional

ROUNDING = 0.1
"""Size ``τ`` at which a kink is rounded, for inputs of unit spread: it gives log-slopes a gradient."""
WIDEST, NARROWEST = 0.3, 0.01
"""The spike's width ``ε`` at the start and at the end, for latents of about unit spread while active."""
FIRST_PART = 4
"""One part in this many of the steps is done at the widest spike, before the code is unmixed once more."""
BRANCHES = ("rows", "differences")
"""The views from which the code is unmixed; each is trained on, and the held-out objective decides."""
FEWER = 3
"""The rival without bends, which has few parameters, gets one part in this many of the steps."""
FORGIVEN, MOST_FORGIVEN = 0.8, 0.2
"""Share of the dependence between latents that costs nothing while the spike narrows, up to so many nats a latent."""
MARGIN = 0.1
"""By how many nats per held-out row the bends must pay."""


# ---- formulas ------------------------------------------------------------------------------------------------


def bend(
    t: Float[Tensor, "*batch dim"], c: Float[Tensor, "*any dim"], rounding: float = ROUNDING
) -> tuple[Float[Tensor, "*batch dim"], Float[Tensor, "*batch dim"]]:
    """``t + c·(√(t² + τ²) − τ)`` and the log of its slope; zero at zero, increasing for ``|c| < 1``, a line at 0.

    >>> bend(torch.tensor([3.0, -3.0]), torch.tensor([0.5, 0.5]), rounding=4.0)[0]
    tensor([ 3.5000, -2.5000])
    """
    r = (t.square() + rounding**2).sqrt()
    return t + c * (r - rounding), (c * t / r).log1p()


def unbend(
    y: Float[Tensor, "*batch dim"], c: Float[Tensor, "*any dim"], rounding: float = ROUNDING
) -> Float[Tensor, "*batch dim"]:
    """What ``bend`` takes to ``y``.

    >>> unbend(torch.tensor([3.5, -2.5]), torch.tensor([0.5, 0.5]), rounding=4.0)
    tensor([ 3., -3.])
    """
    w, rest = y + c * rounding, 1 - c.square()
    return (w - c * (w.square() + rounding**2 * rest).sqrt()) / rest


def spike_slab_log_density(
    z: Float[Tensor, "batch latent"],
    width: float,
    log_odds: Float[Tensor, " latent"],
    mean: Float[Tensor, " latent"],
    log_spread: Float[Tensor, " latent"],
) -> Float[Tensor, " batch"]:
    """``Σ log(p·N(z; 0, width²) + (1 − p)·N(z; mean, spread²))``, ``log_odds`` those of the spike.

    >>> none, one = torch.zeros(1), torch.ones(1)
    >>> spike_slab_log_density(one[None], 0.5, none, none, none).exp()  # half of 0.108 and of 0.242
    tensor([0.1750])
    """
    spike = logsigmoid(log_odds) - (z / width).square() / 2 - log(width)
    slab = logsigmoid(-log_odds) - ((z - mean) * (-log_spread).exp()).square() / 2 - log_spread
    return (torch.logaddexp(spike, slab) - log(2 * pi) / 2).sum(dim=-1)


def shared_volume(z: Float[Tensor, "batch latent"]) -> Float[Tensor, ""]:
    """``½ log det corr(z)``: what correlated latents lose in volume; 0 when uncorrelated, blind to shifts and scales.

    Correlations are shrunk by a thousandth, so that copies, or fewer rows than latents, keep it finite.

    >>> round(float(shared_volume(torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1]]))), 6)
    0.0
    """
    centred = z - z.mean(dim=0)
    unit = centred / (centred.square().mean(dim=0) + 1e-12).sqrt()
    own = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    return torch.linalg.slogdet(torch.lerp(unit.T @ unit / len(z), own, 1e-3))[1] / 2


# ---- the model -----------------------------------------------------------------------------------------------


class BentLayers(nn.Module):
    """Linear layers with bends between them: ``forward(x) = (z, log|det ∂z/∂x|)``, ``inverse(z) = x``."""

    def __init__(self, dim: int, depth: int):
        super().__init__()
        turns = torch.linalg.qr(torch.randn(depth, dim, dim, dtype=torch.float64))[0]
        back = torch.eye(dim, dtype=torch.float64)
        for turn in turns:
            back = back @ turn.T
        self.linear = nn.Parameter(torch.cat([turns, back[None]]))
        self.offset = nn.Parameter(torch.zeros(depth + 1, dim, dtype=torch.float64))
        self.curve = nn.Parameter(torch.zeros(depth, dim, dtype=torch.float64))

    def forward(self, x: Float[Tensor, "batch dim"]) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, " batch"]]:
        """The image of every row and its log-determinant."""
        logdet = torch.linalg.slogdet(self.linear)[1].sum()
        for A, a, c in zip(self.linear[:-1], self.offset[:-1], self.curve.tanh(), strict=True):
            x, slopes = bend(x @ A.T + a, c)
            logdet = logdet + slopes.sum(dim=-1)
        return x @ self.linear[-1].T + self.offset[-1], logdet.expand(x.shape[:1])

    def inverse(self, z: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        """The rows as they were."""
        x = torch.linalg.solve(self.linear[-1], (z - self.offset[-1]).T).T
        for k in reversed(range(len(self.curve))):
            x = torch.linalg.solve(self.linear[k], (unbend(x, self.curve[k].tanh()) - self.offset[k]).T).T
        return x

    def follow(self, matrix: Tensor, offset: Tensor) -> None:
        """Put an affine map behind the last layer."""
        with torch.no_grad():
            self.offset[-1] = matrix @ self.offset[-1] + offset
            self.linear[-1] = matrix @ self.linear[-1]


class SpikeSlabFlow(Objective):
    """``−log p(x)`` in nats per blurred row, with independent spikes and slabs behind bent layers."""

    def __init__(self, dim: int, depth: int):
        super().__init__()
        self.layers = BentLayers(dim, depth)
        self.widths, self.forgiven = (WIDEST, NARROWEST), FORGIVEN
        self.log_odds, self.mean, self.log_spread = (nn.Parameter(torch.zeros(dim)) for _ in range(3))

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """The blur of every row."""
        return {"blur": torch.randn(rows, len(self.mean), generator=generator)}

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss on affine codes; the spike narrows geometrically as training proceeds."""
        first, last = self.widths
        width = first * (last / first) ** progress
        z, logdet = self.layers(x + width * draws["blur"])
        density = spike_slab_log_density(z, width, self.log_odds, self.mean, self.log_spread)
        dependence = shared_volume(z).clamp_min(-MOST_FORGIVEN * z.shape[1])
        loss = self.forgiven * dependence - (density + logdet).mean()
        return loss, {"share of zeros": self.log_odds.sigmoid().mean()}

    def believe(self, code: Float[Tensor, "batch latent"]) -> None:
        """Take the law of the latents from a code."""
        spikes = fit_spikes(code)
        with torch.no_grad():
            self.log_odds.copy_(spikes.share.logit())
            self.mean.copy_(spikes.slab_mean)
            self.log_spread.copy_(spikes.slab_width.log())


class FlowDecoder(nn.Module):
    """``z ↦ x``: back through the bent layers, then through the affine start."""

    mixing: Tensor
    origin: Tensor

    def __init__(self, layers: BentLayers, mixing: Tensor, origin: Tensor):
        super().__init__()
        self.layers = layers
        self.register_buffer("mixing", mixing)
        self.register_buffer("origin", origin)

    def forward(self, z: Tensor) -> Tensor:
        """Observations of latents, in the precision of the latents."""
        return self.layers.inverse(z.to(self.mixing)).matmul(self.mixing.T).add(self.origin).to(z.dtype)


def usual_training(*, device: str | torch.device = "cpu") -> Training:
    """How a ``SparseFlow`` is trained where nothing else is said."""
    return Training(steps=2400, batch_size=2000, learning_rate=0.015, clip=10.0, device=device)


# ---- the estimator -------------------------------------------------------------------------------------------


@moved_device(usual_training)
@dataclass(eq=False, repr=False, kw_only=True)
class SparseFlow(Transformer):
    """Latents that are often zero, behind a mixing that need not be affine.

    Parameters
    ----------
    n_latents : int, optional
        Number of latents; as many as columns by default.
    depth : int, default 6
        How many bends; 0 is an affine fit.
    start : estimator, optional
        Affine unmixing that comes first, ``SparseComponents`` by default.
    n_models : int, default 1
        Seeds trained side by side, of which the lowest held-out objective is used.
    training : Training, optional
        The loop: steps, rate, device; ``usual_training()`` where it is not given.
    random_state : int, numpy generator or None
        Seed of the first model; the others have those after it.

    Attributes
    ----------
    start_, layers_, scale_ : estimator, BentLayers, array
        The affine unmixing, and the map from its code, divided by ``scale_``, to the latents.
    models_, best_, objectives_ : list, int, array
        All models, the one in use, and their held-out objectives.
    affine_objective_, bent_ : float, bool
        The objective without bends, and whether bends are used.
    history_, decoder_ : History, FlowDecoder
        Held-out curves, and the map ``z ↦ x``.

    References
    ----------
    Xu et al. (2026), *Identifiability of potentially degenerate Gaussian mixture models with
    piecewise affine mixing*, https://arxiv.org/abs/2604.13218.

    Examples
    --------
    >>> import noumena as nm
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(300, 2)) * (rng.random((300, 2)) < 0.5)
    >>> model = nm.SparseFlow(depth=1, training=nm.Training(steps=5, batch_size=64)).fit(z @ [[1.0, 2], [3, 1]])
    >>> model.transform(z @ [[1.0, 2], [3, 1]]).shape
    (300, 2)
    """

    n_latents: int | None = field(default=None, kw_only=False, metadata=must_be(checks.count))
    depth: int = count(6, minimum=0)
    start: Any = None
    n_models: int = count(1)
    training: Training | None = field(default=None, metadata=instance(Training, "a Training"))
    random_state: Any = 0

    @transactional
    def fit(self, X: Any, y: Any = None):
        """Unmix ``X`` (batch, observed) affinely, then bend the code until it is sparse; ``y`` is ignored."""
        plan = self._plan()
        array = self._checked(X)
        plan = plan.for_columns(array.shape[1])
        seed = seeds.seed_of(self.random_state)
        solver = self._solver(seed, plan)
        self.start_: Any = clone(solver).fit(array)  # type: ignore[union-attr]
        model_seeds = [seed + k for k in range(self.n_models)]
        rows = self._rows(array, plan, model_seeds)
        flat = self._flatten(rows, plan, seed)
        bent = self._bend(rows, plan, solver, model_seeds) if self.depth else flat
        self._adopt(bent, flat, rows, solver)
        return self

    def transform(self, X: Any) -> Any:
        """Latents ``ẑ``, zero where a latent is inactive; a torch tensor in gives one out."""
        check_is_fitted(self)
        array = checks.table(X, "x")
        self._compare_columns(X, array.shape[1], reset=False)
        codes = torch.as_tensor(np.asarray(self.start_.transform(array)) / self.scale_)
        with torch.no_grad():
            z = self.layers_(codes.to(torch.float64))[0].numpy()
        return as_given(X, array, z)

    def inverse_transform(self, X: Any) -> Any:
        """Observations of latents: exact where there are as many latents as columns."""
        check_is_fitted(self)
        array, n = checks.table(X, "z"), self._n_features_out
        checks.require(array.shape[1] == n, f"z must have {n} columns.", f"{array.shape[1]}")
        with torch.no_grad():
            codes = self.layers_.inverse(torch.as_tensor(array, dtype=torch.float64)).numpy()
        return as_given(X, array, np.asarray(self.start_.inverse_transform(codes * self.scale_)))

    @property
    def decoder_(self) -> FlowDecoder:
        """The map ``z ↦ x`` as a torch module, in the units of the data."""
        check_is_fitted(self)
        origin, mixing = _affine(self.start_.inverse_transform, self._n_features_out)
        return FlowDecoder(self.layers_, mixing * torch.as_tensor(self.scale_), origin)

    # ---- inside ----------------------------------------------------------------------------------------------

    def _plan(self) -> Training:
        check_parameters(self)
        plan = usual_training() if self.training is None else self.training
        plan.check()
        return plan

    def _checked(self, x: Any) -> np.ndarray:
        array = checks.table(x, "x", min_rows=4, varying=True)
        self._compare_columns(x, array.shape[1], reset=True)
        return array

    def _solver(self, seed: int, plan: Training) -> Any:
        if self.start is None:
            return SparseComponents(self.n_latents, refind=False, device=plan.device, random_state=seed)
        verbs = ("fit", "transform", "inverse_transform", "get_params")
        able = all(callable(getattr(self.start, verb, None)) for verb in verbs)
        checks.require(able, f"start must be an estimator with {', '.join(verbs)}.", repr(self.start))
        return self.start

    def _rows(self, array: np.ndarray, plan: Training, model_seeds: list[int]) -> FitData:
        """Affine codes with slabs of unit spread; the split depends on the number of rows only."""
        codes = np.asarray(self.start_.transform(array), dtype=float)
        self._n_features_out = codes.shape[1]
        self.scale_ = _spread(codes)
        order = torch.randperm(len(codes), generator=seeds.generator(0, "held-out rows", len(codes)))
        rows = torch.as_tensor(codes / self.scale_, dtype=getattr(torch, plan.dtype))[order].to(plan.torch_device())
        n = min(len(rows) - 2, round(plan.held_out * len(rows)))
        facts = (type(self), self.n_latents, self.depth, describe(self.start), model_seeds, plan.consequential())
        return FitData(rows[n:], rows[:n] if n else rows, "", Numbers(codes).digest()).marked(*facts)

    def _flatten(self, rows: FitData, plan: Training, seed: int) -> Trained:
        """The rival: the affine code under the same law."""
        steps = max(1, plan.steps // FEWER)
        return train([_model(seed, rows, depth=0)], [seed], rows, plan.changed(suffix="affine", steps=steps))

    def _bend(self, rows: FitData, plan: Training, solver: Any, model_seeds: list[int]) -> Trained:
        """Train at the widest spike, unmix the code once more, train while the spike narrows."""
        models: list[Any] = [_model(s, rows, depth=self.depth) for s in model_seeds]
        first = max(1, plan.steps // FIRST_PART)
        for model in models:
            model.widths, model.forgiven = (WIDEST, WIDEST), 0.0
        train(models, model_seeds, rows, plan.changed(suffix="wide", steps=first))
        solvers: list[Any] = _views(solver) if self.start is None else [solver]
        models = [_unmixed(model, rows.train, clone(s)) for s in solvers for model in models]
        return train(models, model_seeds * len(solvers), rows, plan.changed(steps=max(1, plan.steps - first)))

    def _adopt(self, bent: Trained, flat: Trained, rows: FitData, solver: Any) -> None:
        n, self.history_ = self.n_models if self.depth else 1, bent.history
        reached = np.where(bent.diverged, np.inf, bent.objectives).reshape(-1, n)  # of every branch of every seed
        taken = reached.argmin(axis=0)
        self.objectives_ = reached.min(axis=0)
        self.models_ = [bent.models[b * n + k] for k, b in enumerate(taken)]
        self.affine_objective_ = float(flat.objectives[0])
        self.best_ = int(self.objectives_.argmin())
        self.bent_ = bool(self.objectives_[self.best_] < self.affine_objective_ - MARGIN)
        identity = _model(0, rows, depth=0)
        chosen = _unmixed(self.models_[self.best_], rows.train, clone(solver)) if self.bent_ else identity
        self.layers_ = chosen.layers.double().cpu().requires_grad_(False)


def _views(solver: Any) -> list[Any]:
    """The solver once for every view of the code."""
    return [clone(solver).set_params(view=view) for view in BRANCHES]  # type: ignore[union-attr]


def _model(seed: int, rows: FitData, *, depth: int) -> SpikeSlabFlow:
    with seeds.global_torch(seed, "initial weights"):
        model = SpikeSlabFlow(rows.train.shape[1], depth).to(rows.train)
    model.believe(rows.train)
    return model


def _unmixed(model: Any, x: Tensor, solver: Any) -> SpikeSlabFlow:
    """A copy of a model with the affine sparse unmixing of its code behind it; as it was where nothing is sparse."""
    changed = deepcopy(model).requires_grad_(True).train()
    changed.widths, changed.forgiven = (WIDEST, NARROWEST), FORGIVEN
    with torch.no_grad():
        code = model.layers(x)[0].double().cpu().numpy()
    sizes = {"n_latents", "n_components"} & solver.get_params(deep=False).keys()  # as others call it
    solver.set_params(**dict.fromkeys(sizes, code.shape[1]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is not sparse was said of the rows already
            spread = _spread(solver.fit(code).transform(code))
    except checks.InputError:
        return changed
    origin, matrix = _affine(lambda z: solver.transform(z) / spread, code.shape[1])
    changed.layers.follow(matrix.to(x), origin.to(x))
    with torch.no_grad():
        changed.believe(changed.layers(x)[0])
    return changed


def _spread(codes: np.ndarray) -> np.ndarray:
    """The spread of every latent while it is active, wherever its mean then lies."""
    return fit_spikes(torch.as_tensor(codes)).slab_width.numpy()


def _affine(f: Any, dim: int) -> tuple[Tensor, Tensor]:
    """Where an affine map of rows takes the origin, and its matrix."""
    images = torch.as_tensor(np.asarray(f(np.concatenate([np.zeros((1, dim)), np.eye(dim)])), dtype=float))
    return images[0], (images[1:] - images[0]).T.contiguous()
