"""Polishing: exchange moves, then a short training, kept where the held-out objective is lower.

Every model moves from where it is and none is copied: seeds that agree afterwards have still found it twice.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noumena.derivatives import jacobian
from noumena.estimators.exchange import change, remix
from noumena.estimators.fit_data import FitData
from noumena.estimators.history import History
from noumena.estimators.loop import Trained, Training, train

POINTS = 64
"""Rows at which Jacobians are taken."""
SHARE = 3
"""A round takes one part in this many of the steps of the fit."""
START = 0.5
"""Progress of the annealed penalty at which a round begins."""


def polish(fitted: Trained, model_seeds: list[int], rows: FitData, plan: Training, *, bound: float | None) -> Trained:
    """``plan.polish`` rounds of exchange moves on all models; none after a fit that was stopped by hand."""
    for k in range(plan.polish):
        if fitted.interrupted:
            break
        fitted = _round(fitted, model_seeds, rows, _short(plan, k), bound, k)
    return fitted


def _short(plan: Training, k: int) -> Training:
    """The settings of a round: fewer steps, half the rate, a checkpoint of its own."""
    steps, rate = max(1, plan.steps // SHARE), plan.learning_rate / 2
    return plan.changed(suffix=f"polish{k}", steps=steps, learning_rate=rate, polish=0)


def _round(
    fitted: Trained, model_seeds: list[int], rows: FitData, plan: Training, bound: float | None, turn: int
) -> Trained:
    models: list[Any] = list(fitted.models)
    before = [deepcopy(m.state_dict()) for m in models]
    for model in models:
        B = move(model, rows.train[:POINTS], skip=turn)
        if B is not None:
            remix(model.encoder, model.decoder, B)
    again = train(models, model_seeds, rows, plan, start=START, bound=bound)
    return _better(fitted, again, before)


def move(model: Any, x: Tensor, *, skip: int) -> Tensor | None:
    """The change of a model's latents that its exchanges ask for, in the units of its latents."""
    with torch.no_grad():
        z = model.code(x)
        spread = z.std(dim=0).clamp_min(torch.finfo(z.dtype).tiny)
        J = jacobian(model.decoder, z).detach()
    B = change((J * spread).double(), skip)
    return None if B is None else spread.double()[:, None] * B / spread.double()


def _better(first: Trained, second: Trained, before: list[dict[str, Tensor]]) -> Trained:
    """Model by model the one with the lower objective; the weights of the first where it stays."""
    won = (second.objectives < first.objectives) & ~second.diverged | (first.diverged & ~second.diverged)
    for model, kept, stays in zip(first.models, before, ~won, strict=True):
        if stays:
            model.load_state_dict(kept)
    end = first.history.steps[-1]
    curves = History([*first.history.steps, *[end + s for s in second.history.steps]])
    curves.values = {name: values + second.history.values[name] for name, values in first.history.values.items()}
    return replace(
        first,
        objectives=np.where(won, second.objectives, first.objectives),
        terms={name: np.where(won, second.terms[name], value) for name, value in first.terms.items()},
        history=curves,
        diverged=first.diverged & ~won,
        interrupted=first.interrupted or second.interrupted,
    )
