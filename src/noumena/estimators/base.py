"""The estimators' contract: scikit-learn outside, one batched fit of several seeds inside.

``n_models=K`` trains the seeds ``random_state, …, random_state + K − 1`` as one program; each equals the fit of that
seed alone. The model with the lowest held-out objective is the one that ``transform`` uses; truth is never asked.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from noumena import checks, seeds
from noumena.adopt.describe import describe, describe_network
from noumena.adopt.networks import Builder as Builder
from noumena.adopt.networks import build_network, default_torch_state
from noumena.checks import DivergenceError, InputError
from noumena.derivatives.strength import within
from noumena.estimators.across_columns import ROWS, predict_columns
from noumena.estimators.batched import fits_batched
from noumena.estimators.codec import Codec as Codec
from noumena.estimators.codec import Decoder as Decoder
from noumena.estimators.codec import explained
from noumena.estimators.fit_data import FitData, far, split
from noumena.estimators.likelihoods import check_range
from noumena.estimators.loop import Trained, Training, train
from noumena.estimators.parameters import check_parameters, count, instance
from noumena.estimators.polish import polish
from noumena.estimators.refit.search import search_and_refit, searchable
from noumena.estimators.sources import Numbers, Source, numbers_of, source_of, stretches
from noumena.estimators.transformer import Transformer, transactional
from noumena.nets import MLP
from noumena.penalties import Penalty
from noumena.penalties.sparsity import counts_dependencies
from noumena.structure import EXACT, Structure

POINTS = 512
"""Latent points kept after a fit, where the structure and certificates are read off."""
PENALTY = instance(Penalty, "a Penalty such as 0.05 * DependencySparsity()")
TRAINING = instance(Training, "a Training such as Training(steps=1000)")


@dataclass(eq=False, repr=False, kw_only=True)
class Estimator(Transformer):
    """Base of all estimators that are trained by gradient; subclasses say how a model is built.

    Observations may be whatever ``sources.source_of`` takes: a table of numbers, or of bytes, such as flat images,
    which stays in bytes on the device and is seen in units of 255 where it is not standardised; images that are read
    or rendered when they are asked for; a memory map (``np.load(path, mmap_mode="r")``), which stays on disk.

    Parameters
    ----------
    penalty : Penalty, optional
        Bias on the decoder, such as ``0.05 * DependencySparsity()``.
    standardise : bool
        Whether columns get mean 0 and deviation 1 inside the model.
    n_models : int
        Seeds trained side by side, of which the lowest held-out objective is used.
    training : Training, optional
        The loop: steps, rate, device; ``Training()`` where it is not given.
    random_state : int, numpy generator or None
        Seed of the first model; the others have those after it.

    Attributes
    ----------
    n_latents : int
        Number of latents, which most estimators take as their first parameter.
    models_, seeds_, best_ : list, list of int, int
        All models, their seeds, and the index of the one in use.
    objectives_, terms_ : array, dict of arrays
        Held-out objective and its terms, per model.
    explained_ : list of float or None
        R² of the reconstruction of some held-out rows, per model.
    points_ : array (model, batch, latent)
        Every model's latents of the same few training rows.
    structure_, decoder_ : Structure, Decoder
        Which observation depends on which latent, and the map ``z ↦ x``, of the best model.
    history_ : History
        Held-out curves of the fit.
    """

    n_latents: int = field(init=False)
    penalty: Penalty | None = field(default=None, metadata=PENALTY)
    standardise: bool = True
    n_models: int = count(1)
    training: Training | None = field(default=None, metadata=TRAINING)
    random_state: Any = None

    n_features_in_: int = field(init=False)
    refit_ = None
    """How the exactly sparse refit compares with its dense twin; ``None`` where there is none."""
    column_prediction_ = None
    """How well the best model predicts columns of held-out rows from the others; ``None`` where it was not measured."""
    _sparse_refit = False
    """Whether structures are searched: the decoder must be a network of its own."""

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        raise NotImplementedError

    def _size(self, n_observed: int) -> Any:
        """How many latents a model of so many observations has."""
        return self.n_latents

    def _check(self) -> None:
        """Refuse parameters that cannot work; subclasses add what no field can say."""
        check_parameters(self)

    def _source(self, x: Any) -> Source:
        """The rows of a fit; columns may be constant, as margins of images are, unless all are standardised."""
        return source_of(self._flat(x), to_fit=True, standardise=bool(self.standardise))

    def _flat(self, x: Any) -> Any:
        """Observations as flat rows, where they may come in another shape."""
        return x

    def _beside(self, y: Any, rows: int) -> np.ndarray | None:
        """Columns, made of ``y``, that the models see beside the observations; none by default."""
        return None

    # ---- scikit-learn's verbs ----------------------------------------------------------------------------

    @transactional
    @default_torch_state()
    def fit(self, X: Any, y: Any = None):
        """Train ``n_models`` seeds on ``X`` (batch, observed) and keep the best; ``y`` is ignored."""
        training = Training() if self.training is None else self.training
        self._check()
        training.check()
        device = training.torch_device()
        source = self._source(X)
        n_observed = source.width
        training = training.for_columns(n_observed)
        n_latents = checks.count(self._size(n_observed), "n_latents")
        must = "x must have at least as many rows as latents."
        checks.require(len(source) >= n_latents, must, f"{len(source)} rows and {n_latents} latents")
        self._compare_columns(X, n_observed, reset=True)
        seed = seeds.seed_of(self.random_state)
        self.seeds_ = [seed + k for k in range(self.n_models)]
        like = torch.empty(0, device=device, dtype=getattr(torch, training.dtype))
        beside = self._beside(y, len(source))
        rows, *units = split(source, training.held_out, standardise=bool(self.standardise), beside=beside, like=like)
        mean, scale = (torch.as_tensor(unit) for unit in units)
        models = [self._model(s, n_observed, mean, scale) for s in self.seeds_]
        rows = replace(rows, fingerprint=self._fingerprint(rows.data, training, describe_network(models[0])))
        frozen = any(not weight.requires_grad for weight in models[0].parameters())
        must = "polish must be 0 where a builder's weights have requires_grad=False, for its moves change them."
        checks.require(not (frozen and training.polish), must, training.polish)
        models = [model.to(device, getattr(torch, training.dtype)) for model in models]
        if models[0].batched and self._own_builders() and not fits_batched(models, self.seeds_, rows, training):
            training = training.changed(capture=False)
        self._adopt(models, rows, training, self._bound(X, y, training))
        self.refit_ = None
        self.column_prediction_ = None
        if training.refit and not frozen and not self.interrupted_ and self._searches(rows, n_observed, training):
            self._refit(lambda s: self._model(s, n_observed, mean, scale).to(models[0].mean), rows, training)
            if "active" in self.terms_:  # of a structure it is known which latents are in use
                in_use = [len(self.structure_of(k).in_use) for k in range(len(self.models_))]
                self.terms_["active"] = np.array(in_use, dtype=np.float64)
            held_out = rows.held_out[:ROWS]
            self.column_prediction_ = predict_columns(self.models_[self.best_], rows.train_at_once, held_out)
        if device.type != "mps" and far(*units):  # finished models then see rows as the fit did
            for model in self.models_:
                model.double().load_state_dict({"mean": mean, "scale": scale}, strict=False)
        judged = rows.held_out[:POINTS] if "reconstruction" in self.terms_ else None
        self.explained_ = None if judged is None else [explained(model, judged) for model in self.models_]
        return self

    def _own_builders(self) -> bool:
        """Whether networks are built by anything but this library."""
        parameters = self.get_params(deep=False).values()
        return any(callable(v) and not type(v).__module__.startswith("noumena.") for v in parameters)

    def _bound(self, x: Any, y: Any, training: Training) -> float | None:
        """What the loss without its penalty may reach: a tolerance above the best of the same models without it."""
        if training.within is None:
            return None
        checks.require(self.penalty is not None, "within must come with a penalty to minimise.", "none")
        twin: Any = clone(self)
        twin.set_params(penalty=None, training=training.changed(suffix="plain", within=None, polish=0))
        reached = float(np.nanmin(twin.fit(x, y).objectives_))
        if twin.interrupted_:
            raise KeyboardInterrupt
        checks.require(reached > 0, "within must bound a loss that is positive.", f"{reached:.3g} without the penalty")
        return (1 + training.within) * reached

    def _adopt(self, models: list[Codec], rows: FitData, training: Training, bound: float | None) -> None:
        fitted = train(list(models), self.seeds_, rows, training, bound=bound)
        lost = int(fitted.diverged.sum())
        if 2 * lost > len(fitted.diverged):
            raise DivergenceError(
                f"At least half of the seeds must stay finite. Got {lost} of {len(fitted.diverged)} that diverged, "
                "tried again at a third of the rate; lower learning_rate, set clip, or look for columns with outliers."
            )
        fitted = polish(fitted, self.seeds_, rows, training, bound=bound)
        self._take(fitted, rows)
        self.history_ = fitted.history

    def _searches(self, rows: FitData, n_observed: int, training: Training) -> bool:
        """Whether a fit is followed by a search of its structure: where a penalty counts dependencies, the decoder is a
        network of its own, and sizes allow it."""
        plain = self._sparse_refit and getattr(self, "likelihood", None) != "bernoulli"
        return plain and counts_dependencies(self.penalty) and searchable(n_observed, self.n_latents, rows, training)

    def _refit(self, fresh: Callable[[int], Codec], rows: FitData, training: Training) -> None:
        """Exactly sparse models in place of the penalised ones, whose curves stay."""
        sound = np.flatnonzero(~self.diverged_).tolist()
        read_off = {k: self.structure_of(k).dense for k in sound}
        try:
            refitted = search_and_refit(self.models_, fresh, read_off, self.seeds_, rows, training)
        except DivergenceError:
            warnings.warn("The refit diverged; the penalised models are kept.", ConvergenceWarning, stacklevel=4)
            return
        if refitted is None:
            self.interrupted_ = True
            return
        lost = self.diverged_
        self._take(refitted[0], rows)
        self.refit_, self.diverged_ = refitted[1], self.diverged_ | lost

    def _take(self, fitted: Trained, rows: FitData) -> None:
        """Fitted models as those of this estimator, the best by its held-out objective."""
        models: list[Any] = fitted.models
        with torch.no_grad():
            for model in models:
                model.settle(rows.train_at_once)
            points = [model.code(rows.train[:POINTS]) for model in models]
        self.points_ = torch.stack(points).double().cpu().numpy()
        self._n_features_out = self.points_.shape[-1]
        self.models_ = models
        self.objectives_ = fitted.objectives
        self.terms_ = fitted.terms
        self.stopped_at_, self.diverged_, self.interrupted_ = fitted.stopped_at, fitted.diverged, fitted.interrupted
        usable = ~fitted.diverged & np.isfinite(fitted.objectives)
        self.best_ = int(np.argmin(np.where(usable, fitted.objectives, np.inf)))

    def transform(self, X: Any) -> Any:
        """Latents ``ẑ`` of the best model; a torch tensor in gives one out, on its device and in its precision."""
        check_is_fitted(self)
        return self._through(X, "encode", self.best_)

    def inverse_transform(self, X: Any) -> Any:
        """Observations of latents, by the best model's decoder."""
        check_is_fitted(self)
        return self._through(X, "decode", self.best_)

    def transform_all(self, x: Any) -> np.ndarray:
        """Latents of every model, (model, batch, latent)."""
        check_is_fitted(self)
        return np.stack([np.asarray(self._through(x, "encode", k)) for k in range(len(self.models_))])

    @default_torch_state()
    def score(self, X: Any, y: Any = None) -> float:
        """Minus the objective of the best model on ``X``: higher is better, as scikit-learn wants."""
        check_is_fitted(self)
        _, rows, model = self._read(X, self.best_)
        rows = torch.cat([(rows - model.mean) / model.scale] * model.players)  # each sees every row
        check_range(Numbers(rows), getattr(self, "likelihood", "gaussian"))
        draws = model.draws(len(rows), seeds.generator(0, "held-out draws"))
        with torch.no_grad():
            loss, terms = model(rows, {k: v.to(rows) for k, v in draws.items()}, 1.0)
        return -float(loss - terms.get("adversary", 0.0))

    # ---- what the rest of the house reads ----------------------------------------------------------------

    @property
    def decoder_(self) -> Decoder:
        """The best model's decoder ``z ↦ x``, in the units of the data."""
        check_is_fitted(self)
        return Decoder(self.models_[self.best_])

    @property
    def structure_(self) -> Structure:
        """The support of the best decoder's Jacobian at its ``points_``, with its evidence."""
        check_is_fitted(self)
        return self.structure_of(self.best_)

    def structure_of(self, k: int, *, threshold: float | None = None) -> Structure:
        """The structure of the k-th model, read off at its points; without a threshold the widest gap decides, and of
        an exactly sparse refit whatever is not zero.

        Of a wide decoder only the first points are taken, so that points × observed × latents is at most 2²⁴ (68 of 512
        points for 12288 × 20), and its Jacobians are never held together.
        """
        names = getattr(self, "feature_names_in_", None)
        points = self.points_of(k)
        points = points[: within(len(points), self.n_features_in_, points.shape[1])]
        line = EXACT if threshold is None and self.refit_ is not None else threshold
        return Structure.from_decoder(self.models_[k].decode, points, threshold=line, observed=names)

    def points_of(self, k: int) -> Tensor:
        """The k-th model's latents of some training rows, as a tensor beside its weights: all that were kept, however
        wide the decoder."""
        check_is_fitted(self)
        return torch.as_tensor(self.points_[k]).to(self.models_[k].mean)

    # ---- inside ------------------------------------------------------------------------------------------

    def _model(self, seed: int, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        with seeds.global_torch(seed, "initial weights"):
            model = self._build(n_observed, mean.clone(), scale.clone())
        model.fix_frozen()
        return model

    def _fingerprint(self, data: str, training: Training, networks: str) -> str:
        described = {k: describe(v) for k, v in self.get_params(deep=False).items()}
        settings = {k: v for k, v in described.items() if k not in ("training", "random_state")}
        facts = [type(self).__name__, settings, repr(training.consequential()), self.seeds_, data, networks]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def _through(self, x: Any, verb: str, k: int) -> Any:
        """What the k-th model makes of rows, or of latents that it is to ``decode``, in their kind and precision."""
        source = self._latents(x) if verb == "decode" else self._observations(x)
        model = self.models_[k].in_precision(source.dtype)
        with torch.no_grad():
            parts = [
                getattr(model, verb)(source.tensor(part, model.mean))
                for part in stretches(len(source), max(self.n_features_in_, 1))
            ]
        return source.as_given(torch.cat(parts).to(model.mean.dtype))

    def _read(self, x: Any, k: int) -> tuple[Source, Tensor, Codec]:
        """Where checked rows come from, and all of them beside the k-th model, both in the precision of the input."""
        source = self._observations(x)
        model = self.models_[k].in_precision(source.dtype)
        return source, source.tensor(slice(0, len(source)), model.mean), model

    def _observations(self, x: Any) -> Source:
        """Checked rows of as many columns as those of the fit."""
        source = source_of(self._flat(x))
        if source.device is None:
            self._compare_columns(x, source.width, reset=False)
        must = f"x must have {self.n_features_in_} columns."
        checks.require(source.width == self.n_features_in_, must, f"{source.width}")
        return source

    def _latents(self, z: Any) -> Source:
        """Checked latents of as many columns as there are latents."""
        source = numbers_of(z, "z")
        must = f"z must have {self._n_features_out} columns."
        checks.require(source.width == self._n_features_out, must, f"{source.width}")
        return source


def network(builder: Any, role: str, inputs: int, outputs: int) -> nn.Module:
    """The network that a user's builder makes, or the default MLP."""
    return build_network(MLP() if builder is None else builder, role, inputs, outputs)


def need_scale(penalty: Penalty | None, fixed: bool, remedy: str) -> None:
    """Refuse a penalty that an unbounded latent would make vacuous."""
    if penalty is not None and penalty.needs_scale and not fixed:
        raise InputError(
            f"A penalty on dependencies or latents must act on latents of a fixed scale. Got an autoencoder that is "
            f"free to rescale them, which makes the penalty vacuous; {remedy}."
        )
