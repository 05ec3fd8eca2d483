"""The one training loop: K seeds of one objective as one batched program.

An ``Objective`` is a module whose ``forward(x, draws, progress)`` returns a loss and its named terms. K of them, one
per seed, are stacked; ``torch.func.vmap`` runs their forward passes as one and autograd differentiates the sum.
Adam and clipping act per model, so the K results equal K separate fits within float tolerance.

Randomness is addressed, not streamed: rows of step ``s`` and the objective's own draws depend on (seed, s) only, so a
fit that was interrupted continues as if nothing had happened.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from noumena import checks, seeds, threads
from noumena.checks import DivergenceError
from noumena.estimators.capture import Recorded, side_by_side, tuned, unstacked
from noumena.estimators.checkpoint import Checkpoint
from noumena.estimators.descent import BoundedDescent, Descent, Pace, State
from noumena.estimators.fit_data import FitData
from noumena.estimators.history import History
from noumena.estimators.training import Training

BLOCK = 32
"""Steps whose random draws are made together."""
LOOKS = 30
"""How often in a fit the held-out objective is read."""
HELD_OUT_LOOK = 512
"""Rows of the held-out part used at a look."""
HELD_OUT_MOST = 4096
"""Rows of the held-out part used for the final reading: a Jacobian at every row of a large table would not fit."""


GENTLER = 1 / 3
"""Share of the rate at which models that diverged are trained again, once."""
EXPLODED = 1e6
"""Multiple of the first loss at which a model has diverged, though its loss is a number."""
COLLAPSE_AFTER = 10
"""Looks after which lost latents are reported; before that they come and go."""


class Objective(nn.Module):
    """What is minimised: a module that turns a batch into a loss and its named terms.

    Parameters whose name is one of ``fixed``, or begins with one that ends in a dot, are not trained, as those of an
    earlier stage (``requires_grad`` says nothing: it is off in every trained model). Those that begin with a key of
    ``paces`` move at a pace of their own. Where the loss on held-out rows does not say how good a model is, as in a
    game of two networks, ``judged`` is false and the last model is kept instead of the best one. Where ``batched`` is
    false, models of one program run side by side and not as one: a GPU's kernels for wide convolutions of several
    models at once are slow, and some layers have none. The rows of a batch are divided among ``players``.
    """

    fixed: tuple[str, ...] = ()
    paces: Mapping[str, Pace] = {}
    judged = True
    batched = True
    players = 1

    def stays(self, name: str) -> bool:
        """Whether the parameter of that name is not trained."""
        return name in self.fixed or name.startswith(tuple(prefix for prefix in self.fixed if prefix.endswith(".")))

    def fix_frozen(self) -> None:
        """Weights that are built with ``requires_grad=False`` are not trained."""
        frozen = tuple(name for name, weight in self.named_parameters() if not weight.requires_grad)
        self.fixed = (*self.fixed, *frozen)
        free = any(weight.requires_grad for weight in self.parameters())
        checks.require(free, "Networks must have weights to train.", "none with requires_grad=True")

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Random numbers the loss needs for ``rows`` rows, each with a leading axis of rows."""
        return {}

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss on a batch and its terms, unweighted; a term ``active`` counts the latents in use, and a term
        ``adversary`` is a part of the loss that trains an opponent and says nothing of the model.

        ``progress`` is a tensor of no axes where a step is recorded on a GPU."""
        raise NotImplementedError


@dataclass(frozen=True)
class Trained:
    """What a fit leaves: the models at their best look, their held-out objectives, the curves."""

    models: list[Objective]
    objectives: np.ndarray
    terms: dict[str, np.ndarray]
    history: History
    stopped_at: np.ndarray
    diverged: np.ndarray
    interrupted: bool


def train(
    models: list[Objective],
    model_seeds: list[int],
    rows: FitData,
    training: Training,
    *,
    start: float = 0.0,
    bound: float | None = None,
) -> Trained:
    """Train one model per seed; judge them all on the same held-out rows.

    ``start`` is the progress at which annealed penalties begin; with a ``bound`` the penalty is minimised while the
    rest of the loss stays below it.
    """
    training = training.for_columns(rows.width)
    weights = sum(p.numel() for p in models[0].parameters())
    work = 6.0 * weights * training.batch_size * len(models)
    with threads.for_work(work), tuned(mixed=training.precision == "bfloat16"):
        first = _Fit(models, model_seeds, rows, training, start, bound).run()
        lost = np.flatnonzero(first.diverged)
        if not len(lost) or first.interrupted:
            return _told(first, training)
        gentler = training.changed(suffix="gentler", learning_rate=training.learning_rate * GENTLER)
        starts = [models[k] for k in lost]  # those of models that diverged are as they were before training
        again = _Fit(starts, [model_seeds[k] for k in lost], rows, gentler, start, bound).run()
    return _told(_merged(first, again, lost), training)


def _merged(first: Trained, again: Trained, lost: np.ndarray) -> Trained:
    """What a fit leaves once the models that diverged were trained again."""
    models, objectives, stopped_at, diverged = (
        list(first.models), first.objectives.copy(), first.stopped_at.copy(), first.diverged.copy()
    )  # fmt: skip
    terms = {name: values.copy() for name, values in first.terms.items()}
    for n, k in enumerate(lost):
        models[k], objectives[k], stopped_at[k] = again.models[n], again.objectives[n], again.stopped_at[n]
        diverged[k] = again.diverged[n]
        for name, values in again.terms.items():
            terms[name][k] = values[n]
    history = first.history.with_models(lost, again.history)
    return Trained(models, objectives, terms, history, stopped_at, diverged, again.interrupted)


def _told(trained: Trained, training: Training) -> Trained:
    """The same, once it was said how many models are lost; a fit that lost all of them is none."""
    lost = int(trained.diverged.sum())
    if not lost:
        return trained
    first = int(trained.stopped_at[trained.diverged].min())
    said = (
        f"Training must stay finite. Got a loss that is not, or that exploded, by step {first}, in {lost} of "
        f"{len(trained.diverged)} models, tried again at a third of the rate; lower learning_rate (now "
        f"{training.learning_rate:g}) or set clip (now {training.clip})."
    )
    if trained.diverged.all():
        raise DivergenceError(said)
    warnings.warn(said, ConvergenceWarning, stacklevel=5)
    return trained


class _Fit:
    """One fit in progress: stacked parameters, optimiser, curves."""

    def __init__(
        self,
        models: list[Objective],
        model_seeds: list[int],
        rows: FitData,
        plan: Training,
        start: float = 0.0,
        bound: float | None = None,
    ):
        self.start = start
        plan = plan.for_columns(rows.width)
        self.plan, self.x, self.held_out, self.seeds = plan, rows.train, rows.held_out, model_seeds
        self.most_held_out = HELD_OUT_LOOK if rows.in_bytes else HELD_OUT_MOST
        self.fingerprint = rows.fingerprint
        self.checkpoint = None if plan.checkpoint is None else Path(plan.checkpoint)
        self.models = models
        self.skeleton = deepcopy(self.models[0]).to("meta")
        parameters, self.buffers = stack_module_state(self.models)  # type: ignore[arg-type]
        still = {name for name in parameters if models[0].stays(name)}
        self.buffers |= {k: v.detach() for k, v in parameters.items() if k in still}
        self.parameters: State = {k: v.detach().requires_grad_() for k, v in parameters.items() if k not in still}
        first = next(iter(self.parameters.values()))
        self.device, self.dtype = first.device, first.dtype
        how = {"learning_rate": plan.learning_rate, "clip": plan.clip, "weight_decay": plan.weight_decay}
        how |= {"paces": models[0].paces}
        self.descent = (
            Descent(self.parameters, **how) if bound is None else BoundedDescent(self.parameters, bound=bound, **how)
        )
        K = len(model_seeds)
        self.recorded = Recorded(self._step) if plan.capture and first.is_cuda and bound is None else None
        self.averaged: State = (
            {} if plan.average is None else {k: v.detach().clone() for k, v in self.parameters.items()}
        )
        self.best: State = {k: v.detach().clone() for k, v in self.parameters.items()}
        self.best_objective = np.full(K, np.inf)
        self.waited = np.zeros(K, dtype=int)
        self.stopped_at = np.full(K, plan.steps)
        self.diverged = np.zeros(K, dtype=bool)
        self.history = History()
        self.collapsed = False
        self.first_loss: np.ndarray | None = None
        self.step = 0

    # ---- the loop ----------------------------------------------------------------------------------------

    def run(self) -> Trained:
        """Train from the last checkpoint, or from the start, to the end."""
        self._restore()
        interrupted = False
        saved = -math.inf
        look_every = max(1, self.plan.steps // LOOKS)
        try:
            with _progress(self.plan, self.step) as advance:
                for x, draws in self._batches():
                    loss = self._update(x, draws)
                    self.step += 1
                    if self.device.type == "cpu":  # elsewhere reading a number would stop the queue
                        self._watch(loss)
                    if self.step % look_every == 0 or self.step == self.plan.steps:
                        self._look(loss)
                    advance(self.step, self.best_objective[~self.diverged])
                    if self._all_done():
                        break
                    if self.checkpoint and time.monotonic() - saved > self.plan.checkpoint_seconds:
                        self._save()
                        saved = time.monotonic()
        except KeyboardInterrupt:
            interrupted = True
            warnings.warn(
                f"Stopped by hand at step {self.step} of {self.plan.steps}; the best models so far are kept.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return self._finish(interrupted)

    def _batches(self) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """The rows and draws of every step still to do; functions of (seed, step) alone."""
        n, B = len(self.x), min(self.plan.batch_size, len(self.x))
        per_epoch = max(1, n // B)
        order, draws, epoch, block = None, {}, -1, -1
        while self.step < self.plan.steps:
            if self.step // per_epoch != epoch or order is None:
                epoch = self.step // per_epoch
                order = torch.stack([torch.randperm(n, generator=g) for g in self._generators("rows", epoch)])
                order = order.to(self.device)
            if self.step // BLOCK != block:
                block = self.step // BLOCK
                by_seed = [self.models[0].draws(BLOCK * B, g) for g in self._generators("draws", block)]
                draws = {k: torch.stack([d[k] for d in by_seed]).to(self.device, self.dtype) for k in by_seed[0]}
            place, turn = self.step % per_epoch, self.step % BLOCK
            rows = order[:, place * B : (place + 1) * B]
            yield self.x[rows], {k: v[:, turn * B : (turn + 1) * B] for k, v in draws.items()}

    def _generators(self, purpose: str, index: int) -> list[torch.Generator]:
        return [seeds.generator(s, purpose, index) for s in self.seeds]

    def _update(self, x: Tensor, draws: dict[str, Tensor]) -> Tensor:
        done = self.step / self.plan.steps
        progress = self.start + (1 - self.start) * done
        self.descent.set_rate(one_cycle(done) if self.plan.schedule == "cycle" else 1.0)
        if self.recorded is None:
            loss = self.descent.step(lambda: self._losses(self.parameters, x, draws, progress))
        else:
            there = torch.full((), progress, device=self.device, dtype=self.dtype)
            loss = self.recorded({"x": x, "progress": there, **{f"draw {k}": v for k, v in draws.items()}})
        if self.plan.average is not None:  # a young average forgets faster
            share = 1 - min(self.plan.average, (1 + self.step) / (10 + self.step))
            torch._foreach_lerp_([*self.averaged.values()], [p.detach() for p in self.parameters.values()], share)
        return loss

    def _step(self, inputs: State) -> Tensor:
        """A step on inputs that all are tensors, as a recording wants it."""
        draws = {k.removeprefix("draw "): v for k, v in inputs.items() if k.startswith("draw ")}
        progress: Any = inputs["progress"]
        return self.descent.step(lambda: self._losses(self.parameters, inputs["x"], draws, progress))

    def _losses(
        self, parameters: State, x: Tensor, draws: dict[str, Tensor], progress: float, *, shared: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        def one(p: State, b: State, rows: Tensor, d: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            return functional_call(self.skeleton, (p, b), (rows, d, progress))

        data_axis = None if shared else 0
        mixed = self.plan.precision == "bfloat16" and self.device.type != "cpu"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=mixed):
            if self.models[0].batched:
                return vmap(one, in_dims=(0, 0, data_axis, data_axis))(parameters, self.buffers, x, draws)
            states = [unstacked(state, len(self.models)) for state in (parameters, self.buffers)]
            data = [[x] * len(self.models), [draws] * len(self.models)] if shared else [x, unstacked(draws, len(x))]
            results = side_by_side(one, [*zip(*states, *data, strict=True)], self.device)
        losses, terms = zip(*results, strict=True)
        return torch.stack(losses), {name: torch.stack([t[name] for t in terms]) for name in terms[0]}

    # ---- looking and deciding ----------------------------------------------------------------------------

    def _read(self, parameters: State, rows: Tensor) -> dict[str, np.ndarray]:
        """Held-out loss and terms of every model, with the full penalty and the same draws for all."""
        draws = self.models[0].draws(len(rows), seeds.generator(0, "held-out draws"))
        draws = {k: v.to(rows) for k, v in draws.items()}
        with torch.no_grad():
            loss, terms = self._losses(parameters, rows, draws, 1.0, shared=True)
            loss = self.descent.judge(loss - terms.get("adversary", 0.0), terms)
        return {k: v.double().cpu().numpy() for k, v in {"objective": loss, **terms}.items()}

    def _look(self, loss: Tensor) -> None:
        self._watch(loss)
        terms = self._read(self.averaged or self.parameters, self.held_out[:HELD_OUT_LOOK])
        objective, training = terms["objective"], loss.double().cpu().numpy()
        self.history.add(self.step, {**terms, "training loss": training})
        self._diagnose()
        self._lose(~np.isfinite(objective))
        running = ~self._stopped() & ~self.diverged
        better = running & ((objective < self.best_objective) | (not self.models[0].judged))
        self.best_objective[better] = objective[better]
        self._keep(better)
        self.waited = np.where(better, 0, self.waited + 1)
        if self.plan.patience is not None:
            self.stopped_at[running & (self.waited >= self.plan.patience)] = self.step

    def _watch(self, loss: Tensor) -> None:
        """Stop models whose training loss is no number any more or has exploded."""
        now = loss.double().cpu().numpy()
        if self.first_loss is None:
            self.first_loss = 1 + np.abs(now)
        self._lose(~(now <= EXPLODED * self.first_loss))

    def _lose(self, lost: np.ndarray) -> None:
        lost = lost & ~self._stopped()
        self.diverged |= lost
        self.stopped_at[lost] = self.step

    def _diagnose(self) -> None:
        """Say early, and once, that every model has lost latents which it had in use."""
        active = np.array(self.history.values.get("active", []))
        if self.collapsed or len(active) < COLLAPSE_AFTER:
            return
        most = active.max(axis=0).clip(min=1)
        if (active[-2:] < most).all():
            self.collapsed = True
            warnings.warn(
                f"By step {self.step} of {self.plan.steps} every model has lost latents: {int(active[-1].max())} in "
                "use at most. Lower the penalty's weight or beta, or ask for fewer latents.",
                ConvergenceWarning,
                stacklevel=6,
            )

    def _keep(self, better: np.ndarray) -> None:
        chosen = torch.as_tensor(np.flatnonzero(better), device=self.device)
        for name, value in self.best.items():
            value[chosen] = (self.averaged or self.parameters)[name].detach()[chosen]

    def _stopped(self) -> np.ndarray:
        return self.stopped_at < self.plan.steps

    def _all_done(self) -> bool:
        return bool((self._stopped() | self.diverged).all())

    def _finish(self, interrupted: bool) -> Trained:
        if self.checkpoint and not interrupted:
            self._save()
        never_read = ~np.isfinite(self.best_objective)
        self._keep(never_read & ~self.diverged)
        terms = self._read(self.best, self.held_out[: self.most_held_out])
        if not self.history.steps:  # interrupted before the first look
            self.history.add(self.step, {**terms, "training loss": terms["objective"]})
        for k in np.flatnonzero(~self.diverged):
            self.models[k].load_state_dict({n: v[k] for n, v in self.best.items()}, strict=False)
        for model in self.models:
            model.requires_grad_(False).eval()
        return Trained(
            self.models,
            terms.pop("objective"),
            terms,
            self.history,
            np.minimum(self.stopped_at, self.step),
            self.diverged,
            interrupted,
        )

    # ---- leaving and coming back -------------------------------------------------------------------------

    def _save(self) -> None:
        assert self.checkpoint is not None
        sound = torch.stack([p.detach().isfinite().flatten(1).all(dim=1) for p in self.parameters.values()])
        if not bool(sound.all(dim=0).any()):
            return  # every model has left the finite numbers: the last good checkpoint stays
        Checkpoint(
            step=self.step,
            fingerprint=self.fingerprint,
            tensors={
                **{f"now.{n}": p.detach() for n, p in self.parameters.items()},
                **{f"best.{n}": p for n, p in self.best.items()},
                **{f"averaged.{n}": p for n, p in self.averaged.items()},
                **self.descent.state(),
                "best_objective": torch.as_tensor(self.best_objective),
                "waited": torch.as_tensor(self.waited),
                "stopped_at": torch.as_tensor(self.stopped_at),
                "diverged": torch.as_tensor(self.diverged),
                "first_loss": torch.as_tensor(self.first_loss),
                "history.steps": torch.as_tensor(self.history.steps),
                **{f"history.{n}": torch.as_tensor(np.array(v)) for n, v in self.history.values.items()},
            },
        ).save(self.checkpoint)

    def _restore(self) -> None:
        if self.checkpoint is None or not self.checkpoint.exists():
            return
        saved = Checkpoint.load(self.checkpoint, self.fingerprint)
        self.step = saved.step
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(saved.tensors[f"now.{name}"])
                self.best[name].copy_(saved.tensors[f"best.{name}"])
                if self.averaged:
                    self.averaged[name].copy_(saved.tensors[f"averaged.{name}"])
        self.descent.restore(saved.tensors)
        self.best_objective = saved.tensors["best_objective"].numpy()
        self.waited = saved.tensors["waited"].numpy()
        self.stopped_at = saved.tensors["stopped_at"].numpy()
        self.diverged = saved.tensors["diverged"].numpy()
        self.first_loss = saved.tensors["first_loss"].numpy()
        self.history.steps = saved.tensors["history.steps"].tolist()
        for key, value in saved.tensors.items():
            if key.startswith("history.") and key != "history.steps":
                self.history.values[key.removeprefix("history.")] = list(value.numpy())


def one_cycle(progress: float) -> float:
    """Learning-rate factor: cosine up from 1/25 over the first 30 %, cosine down to almost 0 after.

    >>> round(one_cycle(0.0), 2), one_cycle(0.3), round(one_cycle(1.0), 4)
    (0.04, 1.0, 0.0)
    """
    rise, low, end = 0.3, 1 / 25, 1e-5
    if progress < rise:
        return low + (1 - low) * (1 - math.cos(math.pi * progress / rise)) / 2
    return end + (1 - end) * (1 + math.cos(math.pi * (progress - rise) / (1 - rise))) / 2


def _progress(plan: Training, start: int):  # type: ignore[no-untyped-def]
    """A progress bar, or nothing."""
    if not plan.verbose:
        return nullcontext(lambda step, objectives: None)
    from noumena.estimators.progress import bar

    return bar(plan.steps, start)
