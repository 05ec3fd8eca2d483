"""Fitted models on disk: ``config.json``, ``weights.safetensors``, ``history.csv``, ``structure.csv``. Nothing is
pickled.

Builders and penalties of this library are written by their fields. A user's own builder is written by name only and
must be handed to ``load`` again, for code is never loaded from a file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from sklearn.utils.validation import check_is_fitted

from noumena import checks, nets, penalties
from noumena.adopt.networks import default_torch_state
from noumena.checks import InputError
from noumena.estimators import images
from noumena.estimators.autoencoder import Autoencoder, AutoencoderObjective
from noumena.estimators.base import Codec, Estimator
from noumena.estimators.bio import BioAE
from noumena.estimators.conditional import iVAE
from noumena.estimators.facets import MFCVAE
from noumena.estimators.factor_vae import FactorVAE
from noumena.estimators.flow import Flow
from noumena.estimators.history import History
from noumena.estimators.images.disco import DisCo
from noumena.estimators.images.enc_diff import EncDiff
from noumena.estimators.images.qlae import QLAE
from noumena.estimators.loop import Training
from noumena.estimators.mixture_vae import VaDE
from noumena.estimators.penalised import Penalised
from noumena.estimators.refit.masked import MaskedDecoder
from noumena.estimators.refit.refit import Refit
from noumena.estimators.slots import SlotAutoencoder
from noumena.estimators.tcvae import BetaTCVAE
from noumena.estimators.vae import VAE, BetaVAE

_KEPT = (
    Autoencoder,
    VAE,
    BetaVAE,
    BetaTCVAE,
    FactorVAE,
    EncDiff,
    DisCo,
    BioAE,
    QLAE,
    Flow,
    SlotAutoencoder,
    VaDE,
    MFCVAE,
    iVAE,
    Penalised,
)
ESTIMATORS = {c.__name__: c for c in _KEPT}
_READ = ("weights.safetensors", "history.csv")
"""Files that ``load`` reads beside ``config.json``, which knows what they must hold."""
SHOWN = 4
"""Points whose observations are kept, so that networks handed to ``load`` can be compared."""
ALIKE = 1e-3
"""How far, relative to the largest, numbers of the same network may be apart on another machine."""
SHARE = 0.9
"""The share of numbers that must agree: one may be at a threshold, such as between two values of a quantised code."""
_OFFERED: list[Any] = [getattr(room, name) for room in (nets, penalties, images) for name in room.__all__]
_PARTS: dict[str, Any] = {part.__name__: part for part in _OFFERED if hasattr(part, "__dataclass_fields__")}


def save(model: Any, folder: str | Path, *, force: bool = False) -> None:
    """Write a fitted model into a folder: all files under temporary names, which are changed when all are complete.

    ``config.json`` comes last and knows what weights and curves must hold, so that files of two fits are never taken
    for one. A folder that holds a run already is refused unless ``force=True``.
    """
    kept = type(model) in _KEPT
    must = f"A model to save must be one of {', '.join(ESTIMATORS)}."
    checks.require(kept, must, f"{type(model).__name__}, which joblib.dump keeps" if _fits(model) else repr(model))
    check_is_fitted(model)
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(
            f"The folder of a run must be one, or a name that is free. Got the file {error.filename}."
        ) from error
    free = force or not (folder / "config.json").exists()
    checks.require(free, "The folder must not hold a run already; choose another or set force=True.", f"{folder}")
    names = getattr(model, "feature_names_in_", None)
    config = {
        "estimator": type(model).__name__,
        "parameters": {k: _encode(v) for k, v in _repeatable(model).items()},
        "n_features_in": model.n_features_in_,
        "feature_names_in": None if names is None else [str(n) for n in names],
        "seeds": model.seeds_,
        "best": model.best_,
        "objectives": model.objectives_.tolist(),
        "explained": getattr(model, "explained_", None),
        "terms": {k: v.tolist() for k, v in model.terms_.items()},
        "stopped_at": model.stopped_at_.tolist(),
        "diverged": model.diverged_.tolist(),
        "interrupted": model.interrupted_,
        "refit": None if model.refit_ is None else model.refit_.to_dict(),
        "learned": {name: _encode(getattr(model, name)) for name in model._learned},
    }
    tensors = {f"{k}.{n}": v.contiguous().cpu() for k, m in enumerate(model.models_) for n, v in m.state_dict().items()}
    tensors["points"] = torch.as_tensor(model.points_)
    given = [_gives(model, k) for k in range(len(model.models_))]
    tensors |= {name: torch.stack([one[name] for one in given]).cpu() for name in given[0]}
    _together(
        folder,
        {
            "weights.safetensors": lambda path: save_file(tensors, path),
            "history.csv": lambda path: model.history_.frame().to_csv(path, index=False),
            "structure.csv": model.structure_.to_csv,
        },
        config,
    )


def load(folder: str | Path, **parameters: Any) -> Estimator:
    """Read a fitted model from a folder; ``parameters`` replace stored ones (needed for your own builders).

    Networks that do not give what those of the fit gave are refused.
    """
    folder = Path(folder)
    _complete(folder)
    config = _read_config(folder)
    try:
        return _loaded(folder, config, parameters)
    except InputError:
        raise
    except Exception as error:  # what is damaged may make any of its readers raise anything
        first = next(iter(str(error).splitlines()), "") or "no reason"
        what = f"{folder}, where {type(error).__name__} says {first.rstrip('.')}"
        raise InputError(f"A run must be complete, and its files of one fit. Got {what}.") from error


def _loaded(folder: Path, config: dict[str, Any], parameters: dict[str, Any]) -> Estimator:
    kind = checks.one_of(config.get("estimator"), f"The estimator in {folder}", tuple(ESTIMATORS))
    stored = {k: v for k, v in config["parameters"].items() if k not in parameters}
    model: Estimator = ESTIMATORS[kind](**{k: _decode(k, v) for k, v in stored.items()}, **parameters)
    try:
        tensors = load_file(folder / "weights.safetensors")
    except (OSError, SafetensorError) as error:
        raise InputError(f"A run must have complete weights. Got {folder / 'weights.safetensors'}.") from error
    for name in _READ if "files" in config else ():  # runs of the first version have none
        must = "A run must be complete, and its files of one fit."
        same = _digest(folder / name) == config["files"][name]
        checks.require(same, must, f"another {name} than {folder} was saved with")
    model.n_features_in_ = config["n_features_in"]
    if config["feature_names_in"] is not None:
        model.feature_names_in_ = np.array(config["feature_names_in"], dtype=object)  # type: ignore[attr-defined]
    model.seeds_, model.best_ = config["seeds"], config["best"]
    model.objectives_ = np.array(config["objectives"])
    model.explained_ = config.get("explained")
    model.terms_ = {k: np.array(v) for k, v in config["terms"].items()}
    model.stopped_at_, model.diverged_ = np.array(config["stopped_at"]), np.array(config["diverged"])
    model.interrupted_ = config["interrupted"]
    refit = config.get("refit")  # runs of the first version have none
    model.refit_ = None if refit is None else Refit(**refit)
    for name in model._learned:
        setattr(model, name, config["learned"][name])
    model.points_ = tensors["points"].numpy()
    model._n_features_out = model.points_.shape[-1]
    model.models_ = [_module(model, tensors, k, parameters) for k in range(len(model.seeds_))]
    if parameters:
        _compare(model, tensors, parameters)
    model.history_ = _history(folder / "history.csv")
    return model


def _module(model: Estimator, tensors: dict[str, torch.Tensor], k: int, parameters: dict[str, Any]) -> Codec:
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
    whole = "A run must be complete, and its files of one fit."
    checks.require(not name, _as_saved(parameters, name) if parameters else whole, found)


def _as_saved(parameters: dict[str, Any], part: str) -> str:
    """What must be given to ``load``: the parameter that a part of a network belongs to, or any."""
    role = part.split(".")[0]
    names = [role] if role in parameters else [n for n in parameters if n not in ("training", "random_state")]
    given = " and ".join(f"{name}=" for name in names or parameters)
    return f"load must be given the {given} that the run was saved with."


def _gives(model: Estimator, k: int) -> dict[str, torch.Tensor]:
    """What the k-th model makes of its first points, and of that again: a later version of a network is told by it."""
    module = model.models_[k]
    with torch.no_grad():
        decoded = module.decode(model.points_of(k)[:SHOWN])
        seen = {} if getattr(model, "encode_u", False) else {"coded": module.encode(decoded)}
    return {"decoded": decoded, **seen}


def _compare(model: Estimator, tensors: dict[str, torch.Tensor], parameters: dict[str, Any]) -> None:
    """Refuse networks that give other numbers than those of the fit; roundings of another device may differ."""
    for k, module in enumerate(model.models_):
        for name, found in _gives(model, k).items() if "decoded" in tensors else ():
            kept = tensors[name][k].to(found)
            if name == "decoded":  # in units of the networks, so that an offset hides nothing
                found, kept = ((rows - module.mean) / module.scale for rows in (found, kept))
            close = torch.isclose(
                found, kept, rtol=0, atol=ALIKE * float(kept.nan_to_num().abs().max()), equal_nan=True
            )
            must = _as_saved(parameters, {"decoded": "decoder", "coded": "encoder"}[name])
            checks.require(float(close.double().mean()) >= SHARE, must, "one that gives other numbers")


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    checks.require(path.is_file(), "A run must be a folder with a config.json.", f"{folder}")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"A run's config.json must be complete JSON. Got {path}.") from error
    checks.require(isinstance(found, dict), "A run's config.json must hold names and values.", f"{path}")
    return found


def _history(path: Path) -> History:
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)  # whose own numbers may crash on damaged digits
    frame = frame.assign(
        step=[int(cell) for cell in frame["step"]],
        model=[int(cell) for cell in frame["model"]],
        value=[float(cell or "nan") for cell in frame["value"]],
    )
    wide = frame.pivot_table(index=["term", "step"], columns="model", values="value", dropna=False)
    history = History(steps=sorted(int(s) for s in frame["step"].unique()))
    for term in frame["term"].unique():
        history.values[term] = list(wide.loc[term].to_numpy())
    return history


def _repeatable(model: Any) -> dict[str, Any]:
    """A model's parameters; for a generator of random numbers stands the seed that the fit has drawn from it."""
    given = model.get_params(deep=False)
    drawn = not isinstance(given["random_state"], int | np.integer | None)
    return given | ({"random_state": int(model.seeds_[0])} if drawn else {})


def _encode(value: Any) -> Any:
    if isinstance(value, Training):
        return {"Training": {k: _encode(v) for k, v in value.get_params(deep=False).items() if k != "checkpoint"}}
    if type(value).__name__ in _PARTS and dataclasses.is_dataclass(value):
        fields = {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {type(value).__name__: fields}
    if isinstance(value, tuple | list):
        return [_encode(v) for v in value]
    if value is None or isinstance(value, bool | str | int | float):
        return value
    if isinstance(value, np.number | np.bool_):
        return value.item()
    if isinstance(value, torch.device):
        return str(value)
    return {"yours": getattr(value, "__qualname__", type(value).__qualname__)}


def _decode(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(name, v) for v in value)
    if not isinstance(value, dict):
        return value
    ((kind, fields),) = value.items()
    checks.require(
        kind != "yours",
        f"load must be given {name}= again, as it is your own object.",
        f"only its name, {fields}",
    )
    if kind == "Training":
        return Training(**{k: _decode(k, v) for k, v in fields.items()})
    checks.one_of(kind, f"The stored {name}", tuple(_PARTS))
    return _PARTS[kind](**{k: _decode(name, v) for k, v in fields.items()})


def _fits(model: Any) -> bool:
    return hasattr(model, "fit") and hasattr(model, "get_params")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process of this library changes names in the folder meanwhile; where files have no locks, it may."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _complete(folder: Path) -> None:
    """Finish what a writer began that died while it changed names: the rest of its files lies there, complete."""
    for begun in sorted(folder.glob("config.json.*.part")):
        part = begun.name.removeprefix("config.json.")
        with suppress(OSError, ValueError, KeyError, TypeError), _alone(folder):
            there = {name: _first(folder / f"{name}.{part}", folder / name) for name in _READ}
            changed = any(path == folder / name for name, path in there.items())
            wanted = json.loads(begun.read_text(encoding="utf-8"))["files"]
            if changed and all(_digest(path) == wanted[name] for name, path in there.items()):
                for name in (*_READ, "structure.csv", "config.json"):
                    _first(folder / f"{name}.{part}", folder / name).replace(folder / name)


def _first(*paths: Path) -> Path:
    return next((path for path in paths if path.exists()), paths[-1])


def _together(folder: Path, files: dict[str, Any], config: dict[str, Any]) -> None:
    """Write files under names that no other process has, then rename them all: a failure leaves the old ones, and no
    piece."""
    part = f"{os.getpid()}.part"
    names = [*files, "config.json"]
    try:
        for name, write in files.items():
            write(folder / f"{name}.{part}")
        digests = {name: _digest(folder / f"{name}.{part}") for name in _READ}
        (folder / f"config.json.{part}").write_text(json.dumps({**config, "files": digests}, indent=1))
        with _alone(folder):
            for name in names:
                (folder / f"{name}.{part}").replace(folder / name)
    finally:
        for name in names:
            (folder / f"{name}.{part}").unlink(missing_ok=True)
