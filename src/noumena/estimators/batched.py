"""Whether the models of a fit run as one batched program, ``torch.func.vmap``, or must run side by side."""

from __future__ import annotations

from typing import Any

import torch

from noumena import seeds
from noumena.adopt.modules import call_or_refuse
from noumena.estimators.fit_data import FitData
from noumena.estimators.loop import Training, _Fit

STEP = 8
"""Rows of the one step that is tried."""


def fits_batched(models: list[Any], model_seeds: list[int], rows: FitData, training: Training) -> bool:
    """Whether a step of all models as one program works; where it works only side by side, the models say so."""
    rows = FitData(rows.train[:STEP], rows.held_out[:STEP], "")
    plan = training.changed(checkpoint=None, capture=False)
    try:
        _step(models, model_seeds, rows, plan)
    except RuntimeError:
        for model in models:
            model.batched = False
        must = "Networks and the penalty must run with weights that are handed to them, one model after the other."
        call_or_refuse(lambda: _step(models, model_seeds, rows, plan), must)
        return False
    return True


def _step(models: list[Any], model_seeds: list[int], rows: FitData, plan: Training) -> None:
    fit = _Fit(models, model_seeds, rows, plan)
    draws = [models[0].draws(len(rows.train), seeds.generator(seed, "trial")) for seed in model_seeds]
    drawn = {k: torch.stack([d[k] for d in draws]).to(fit.device, fit.dtype) for k in draws[0]}
    losses, _ = fit._losses(fit.parameters, rows.train.expand(len(models), *rows.train.shape), drawn, 0.5)
    losses.sum().backward()
