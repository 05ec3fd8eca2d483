"""What a fitted estimator is, as JSON and tensors, and back: nothing is pickled, and code is never loaded from a file.

An estimator of this library is stored by its name, one of a user by its module and qualified name. Builders, penalties
and estimators among the parameters are stored by their fields; a user's own builder by name only, so that it must be
handed over again. Attributes are stored by what they hold: numbers, text, arrays, a few records and networks of this
library, estimators that are fitted. Networks are built anew and given their weights.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from noumena import checks, nets, penalties, seeds
from noumena.adopt.networks import default_torch_state
from noumena.estimators import images
from noumena.estimators.across_columns import ColumnPrediction
from noumena.estimators.autoencoder import Autoencoder, AutoencoderObjective
from noumena.estimators.base import Codec, Estimator
from noumena.estimators.bio import BioAE
from noumena.estimators.conditional import iVAE
from noumena.estimators.facets import MFCVAE
from noumena.estimators.factor_vae import FactorVAE
from noumena.estimators.flow import Flow
from noumena.estimators.history import History
from noumena.estimators.ica.ica import ICA
from noumena.estimators.images.disco import DisCo
from noumena.estimators.images.enc_diff import EncDiff
from noumena.estimators.images.qlae import QLAE
from noumena.estimators.mixture_vae import VaDE
from noumena.estimators.penalised import Penalised
from noumena.estimators.refit.masked import MaskedDecoder
from noumena.estimators.refit.refit import Refit
from noumena.estimators.slots import SlotAutoencoder
from noumena.estimators.sparse.components import SparseComponents
from noumena.estimators.sparse.degenerate import DegenerateMixture
from noumena.estimators.sparse.flow import BentLayers, SparseFlow, SpikeSlabFlow
from noumena.estimators.sparse.gaussians import DegenerateGaussians
from noumena.estimators.sparse.spikes import Spikes
from noumena.estimators.sparse.stages import Criteria, Identity, StageChoice
from noumena.estimators.tcvae import BetaTCVAE
from noumena.estimators.training import Training
from noumena.estimators.transformer import Transformer
from noumena.estimators.vae import VAE, BetaVAE
from noumena.mixtures import Mixture

Tensors = dict[str, torch.Tensor]
_KEPT = (
    Autoencoder, VAE, BetaVAE, BetaTCVAE, FactorVAE, EncDiff, DisCo, BioAE, QLAE, Flow, SlotAutoencoder, VaDE, MFCVAE,
    iVAE, Penalised, ICA, SparseComponents, SparseFlow, DegenerateMixture, DegenerateGaussians,
)  # fmt: skip
ESTIMATORS: dict[str, Any] = {kind.__name__: kind for kind in _KEPT}
SORTS = (Transformer, DegenerateGaussians, Identity)
"""What an estimator must be derived from to be stored."""
_OFFERED: list[Any] = [getattr(room, name) for room in (nets, penalties, images) for name in room.__all__]
_PARTS: dict[str, Any] = {part.__name__: part for part in _OFFERED if hasattr(part, "__dataclass_fields__")}
_RECORDS: dict[str, Any] = {kind.__name__: kind for kind in (Mixture, History, Spikes, Criteria, StageChoice)}
_NETWORKS: dict[str, Any] = {kind.__name__: kind for kind in (BentLayers, SpikeSlabFlow)}
_COLUMNS = ("n_features_in_", "feature_names_in_", "_sklearn_output_config")
"""Attributes of scikit-learn, which are stored by themselves or not at all."""
_ARRAYS = ("objectives_", "stopped_at_", "diverged_")
_PLAIN = ("seeds_", "best_", "explained_", "interrupted_")
SHOWN = 4
"""Points whose observations are kept, so that networks handed to ``load`` can be compared."""
ALIKE = 1e-3
"""How far, relative to the largest, numbers of the same network may be apart on another machine."""
SHARE = 0.9
"""The share of numbers that must agree: one may be at a threshold, such as between two values of a quantised code."""
COMPLETE = "A run must be complete, and its files of one fit."


# ---- classes -------------------------------------------------------------------------------------------------------


def name_of(kind: type) -> str:
    """A class by its name where it is of this library, else by its module and qualified name.

    >>> name_of(VAE), name_of(type("Mine", (VAE,), {"__module__": "models"}))
    ('VAE', 'models:Mine')
    """
    own = ESTIMATORS.get(kind.__name__) is kind
    return kind.__name__ if own else f"{kind.__module__}:{kind.__qualname__}"


def class_named(name: Any, kinds: Iterable[type], where: str) -> Any:
    """The class of a name, among those that are given, those of this library, and those that can be imported."""
    given = {key: kind for kind in kinds for key in (name_of(kind), kind.__qualname__, kind.__name__)}
    known = {**given, **ESTIMATORS}
    if name in known or not (isinstance(name, str) and ":" in name):
        return known[checks.one_of(name, where, tuple(known))]
    module, _, qualname = name.partition(":")
    short = qualname.rpartition(".")[2]
    kind = given.get(qualname, given.get(short)) or _imported(module, qualname)
    must = f"{where} must be of a class that can be imported, or is given as load(folder, kinds=[{short}])."
    checks.require(isinstance(kind, type) and issubclass(kind, SORTS), must, f"{name}")
    return kind


def _imported(module: str, qualname: str) -> Any:
    """What is called so in a module, or nothing; Python's own modules, of which some act when imported, are left."""
    if module.partition(".")[0] in sys.stdlib_module_names and module not in sys.modules:
        return None
    try:
        found: Any = import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except Exception:  # a module that is not there, or does what it likes while it is imported
        return None
    return found


# ---- parameters ----------------------------------------------------------------------------------------------------


def parameters_of(model: Any) -> dict[str, Any]:
    """A model's parameters as JSON; for a generator of random numbers stands the seed that was drawn from it."""
    given = model.get_params(deep=False)
    if "random_state" in given and not isinstance(given["random_state"], int | np.integer | None):
        given["random_state"] = int(model.seeds_[0]) if hasattr(model, "seeds_") else None
    return {name: _encoded(value) for name, value in given.items()}


def _encoded(value: Any) -> Any:
    if isinstance(value, Training):
        return {"Training": {k: _encoded(v) for k, v in value.get_params(deep=False).items() if k != "checkpoint"}}
    if isinstance(value, SORTS):
        return {name_of(type(value)): parameters_of(value)}
    if _PARTS.get(type(value).__name__) is type(value):
        fields = {f.name: _encoded(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {type(value).__name__: fields}
    if isinstance(value, tuple | list):
        return [_encoded(v) for v in value]
    if value is None or isinstance(value, bool | str | int | float):
        return value
    if isinstance(value, np.number | np.bool_):
        return value.item()
    if isinstance(value, torch.device):
        return str(value)
    return {"yours": getattr(value, "__qualname__", type(value).__qualname__)}


def _decoded(name: str, value: Any, kinds: Iterable[type]) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(name, v, kinds) for v in value)
    if not isinstance(value, dict):
        return "gaussian" if (name, value) == ("likelihood", "normal") else value  # as earlier versions called it
    ((kind, fields),) = value.items()
    must = f"load must be given {name}= again, as it is your own object."
    checks.require(kind != "yours", must, f"only its name, {fields}")
    known: dict[str, Any] = {"Training": Training, **_PARTS}
    if kind in ESTIMATORS or ":" in kind:
        known[kind] = class_named(kind, kinds, f"The stored {name}")
    checks.one_of(kind, f"The stored {name}", tuple(known))
    return known[kind](**{k: _decoded(k if kind == "Training" else name, v, kinds) for k, v in fields.items()})


# ---- attributes ----------------------------------------------------------------------------------------------------


def _kept(value: Any, at: str, tensors: Tensors) -> Any:
    """A value as JSON; arrays go to the tensors, under names that say where they were."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.Tensor) or (isinstance(value, np.ndarray) and value.dtype.kind in "fiub"):
        tensors[at] = torch.as_tensor(value).detach().cpu().clone().contiguous()
        return {"tensor" if isinstance(value, torch.Tensor) else "array": at}
    if isinstance(value, list | tuple):
        entries = [_kept(entry, f"{at}.{k}", tensors) for k, entry in enumerate(value)]
        return entries if isinstance(value, list) else {"tuple": entries}
    if isinstance(value, Mapping):
        return {"dict": {str(k): _kept(v, f"{at}.{k}", tensors) for k, v in value.items()}}
    name = type(value).__name__
    record: Any = value
    if _RECORDS.get(name) is type(record):
        fields = [field.name for field in dataclasses.fields(record)]
        return {name: {field: _kept(getattr(record, field), f"{at}.{field}", tensors) for field in fields}}
    if _NETWORKS.get(name) is type(record):
        return {name: _kept(dict(record.state_dict()), at, tensors)}
    must = "A model to save must hold numbers, arrays and estimators of this library."
    checks.require(isinstance(value, SORTS), must, f"{at}, a {name}; joblib.dump keeps it")
    config, inner = state_of(value)
    if isinstance(value, Estimator):
        config["history"] = _kept(value.history_, "history", inner)
    tensors |= {f"{at}/{name}": tensor for name, tensor in inner.items()}
    return {"estimator": {"at": at, "config": config}}


def _taken(value: Any, tensors: Tensors, kinds: Iterable[type]) -> Any:
    """The value that was kept."""
    if isinstance(value, list):
        return [_taken(entry, tensors, kinds) for entry in value]
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind in ("tensor", "array"):
        return tensors[held] if kind == "tensor" else tensors[held].numpy()
    if kind == "tuple":
        return tuple(_taken(entry, tensors, kinds) for entry in held)
    if kind == "dict":
        return {name: _taken(entry, tensors, kinds) for name, entry in held.items()}
    if kind == "estimator":
        inner = {n.removeprefix(f"{held['at']}/"): t for n, t in tensors.items() if n.startswith(f"{held['at']}/")}
        return restored(held["config"], inner, kinds=kinds)
    if kind in _NETWORKS:
        weights = _taken(held, tensors, kinds)
        depth, dim = next(weight.shape for name, weight in weights.items() if name.endswith("curve"))
        with seeds.global_torch(0, "initial weights"):
            network = _NETWORKS[kind](dim, depth)
        network.load_state_dict(weights, assign=True)
        return network.requires_grad_(False)
    checks.one_of(kind, "The kind of a stored attribute", tuple(_RECORDS))
    return _RECORDS[kind](**{name: _taken(entry, tensors, kinds) for name, entry in held.items()})


# ---- models --------------------------------------------------------------------------------------------------------


def state_of(model: Any) -> tuple[dict[str, Any], Tensors]:
    """A fitted model as JSON and tensors; of one that is trained by gradient, all but its curves."""
    check_is_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    config: dict[str, Any] = {
        "estimator": name_of(type(model)),
        "parameters": parameters_of(model),
        "n_features_in": getattr(model, "n_features_in_", None),
        "feature_names_in": None if names is None else [str(n) for n in names],
    }
    given, tensors = model.get_params(deep=False), {}
    held = {k: v for k, v in vars(model).items() if k not in given and k not in _COLUMNS}
    if not isinstance(model, Estimator):
        return {**config, "attributes": {k: _kept(v, k, tensors) for k, v in held.items()}}, tensors
    config |= {name.removesuffix("_"): held.pop(name, None) for name in _PLAIN}
    config |= {name.removesuffix("_"): held.pop(name).tolist() for name in _ARRAYS}
    config["terms"] = {k: v.tolist() for k, v in held.pop("terms_").items()}
    config["refit"] = None if model.refit_ is None else model.refit_.to_dict()
    columns = model.column_prediction_
    config["column prediction"] = None if columns is None else columns.to_dict()
    tensors = {f"{k}.{n}": v.contiguous().cpu() for k, m in enumerate(model.models_) for n, v in m.state_dict().items()}
    tensors["points"] = torch.as_tensor(held.pop("points_"))
    for elsewhere in ("models_", "refit_", "column_prediction_", "history_", "_n_features_out"):
        held.pop(elsewhere, None)
    shown = [_shown(model, k) for k in range(len(model.models_))]
    tensors |= {name: torch.stack([one[name] for one in shown]).cpu() for name in shown[0]}
    return {**config, "learned": {k: _kept(v, k, tensors) for k, v in held.items()}}, tensors


def restored(
    config: dict[str, Any],
    tensors: Tensors,
    *,
    kinds: Iterable[type] = (),
    parameters: Mapping[str, Any] | None = None,
    where: str = "The estimator",
) -> Any:
    """The model of a state; ``parameters`` replace stored ones."""
    given = dict(parameters or {})
    kind = class_named(config.get("estimator"), kinds, where)
    stored = {k: _decoded(k, v, kinds) for k, v in config["parameters"].items() if k not in given}
    model = kind(**stored, **given)
    if config["n_features_in"] is not None:
        model.n_features_in_ = config["n_features_in"]
    if config["feature_names_in"] is not None:
        model.feature_names_in_ = np.array(config["feature_names_in"], dtype=object)
    for name, value in (config.get("learned") or config.get("attributes") or {}).items():
        setattr(model, name, _taken(value, tensors, kinds))
    if not isinstance(model, Estimator):
        return model
    for name in _PLAIN:
        setattr(model, name, config.get(name.removesuffix("_")))
    for name in _ARRAYS:
        setattr(model, name, np.array(config[name.removesuffix("_")]))
    model.terms_ = {k: np.array(v) for k, v in config["terms"].items()}
    refit = config.get("refit")  # runs of the first version have none
    model.refit_ = None if refit is None else Refit(**refit)
    columns = config.get("column prediction")
    model.column_prediction_ = None if columns is None else ColumnPrediction.from_dict(columns)
    model.points_ = tensors["points"].numpy()
    model._n_features_out = model.points_.shape[-1]
    model.models_ = [_module(model, tensors, k, given) for k in range(len(model.seeds_))]
    if given:
        _compare(model, tensors, given)
    if "history" in config:
        model.history_ = _taken(config["history"], tensors, kinds)
    return model


def _module(model: Estimator, tensors: Tensors, k: int, parameters: dict[str, Any]) -> Codec:
    with default_torch_state():
        blank = torch.zeros(model.n_features_in_)
        module = model._model(model.seeds_[k], model.n_features_in_, blank, torch.ones_like(blank))
    prefix = f"{k}."
    state = {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}
    if "decoder.place" in state:  # exactly sparse
        rows, place = state["decoder.rows"] > 0, state["decoder.place"]
        module.decoder = MaskedDecoder(module.decoder, rows[place].numpy(), len(rows))
        vars(module)["penalty"] = None
    _compare_shapes(module.state_dict(), state, parameters)
    module.to(state["mean"].dtype).load_state_dict(state)
    if isinstance(module, AutoencoderObjective):
        module.settled = True
    module.requires_grad_(False).eval()
    return module


def _compare_shapes(made: dict[str, Any], stored: dict[str, Any], parameters: dict[str, Any]) -> None:
    """Refuse weights that are not those of the networks, in the words of what was given to ``load``, if anything."""
    names = [*made, *(name for name in stored if name not in made)]
    shapes = [(name, *(tuple(s[name].shape) if name in s else None for s in (made, stored))) for name in names]
    name, ours, theirs = next(((n, a, b) for n, a, b in shapes if a != b), ("", None, None))
    found = f"no {name}, which it has" if ours is None else f"a {name} of shape {ours}, and of {theirs or 'none'} there"
    checks.require(not name, _as_saved(parameters, name) if parameters else COMPLETE, found)


def _as_saved(parameters: dict[str, Any], part: str) -> str:
    """What must be given to ``load``: the parameter that a part of a network belongs to, or any."""
    role = part.split(".")[0]
    names = [role] if role in parameters else [n for n in parameters if n not in ("training", "random_state")]
    given = " and ".join(f"{name}=" for name in names or parameters)
    return f"load must be given the {given} that the run was saved with."


def _shown(model: Estimator, k: int) -> Tensors:
    """What the k-th model makes of its first points, and of that again: a later version of a network is told by it."""
    module = model.models_[k]
    with torch.no_grad():
        decoded = module.decode(model.points_of(k)[:SHOWN])
        seen = {} if getattr(model, "encode_u", False) else {"coded": module.encode(decoded)}
    return {"decoded": decoded, **seen}


def _compare(model: Estimator, tensors: Tensors, parameters: dict[str, Any]) -> None:
    """Refuse networks that give other numbers than those of the fit; roundings of another device may differ."""
    for k, module in enumerate(model.models_):
        for name, found in _shown(model, k).items() if "decoded" in tensors else ():
            kept = tensors[name][k].to(found)
            if name == "decoded":  # in units of the networks, so that an offset hides nothing
                found, kept = ((rows - module.mean) / module.scale for rows in (found, kept))
            close = torch.isclose(
                found, kept, rtol=0, atol=ALIKE * float(kept.nan_to_num().abs().max()), equal_nan=True
            )
            must = _as_saved(parameters, {"decoded": "decoder", "coded": "encoder"}[name])
            checks.require(float(close.double().mean()) >= SHARE, must, "one that gives other numbers")


def can_be_saved(model: Any) -> None:
    """Refuse what is no estimator of a sort that can be stored."""
    must = f"A model to save must be one of {', '.join(ESTIMATORS)}, or of a class derived from one."
    fits = isinstance(model, BaseEstimator) and hasattr(model, "fit")
    given = f"{type(model).__name__}, which joblib.dump keeps" if fits else repr(model)
    checks.require(isinstance(model, SORTS), must, given)
