"""Training: everything about the loop, nothing about the model."""

from __future__ import annotations

from pathlib import Path

import torch
from sklearn.base import BaseEstimator

from noumena import checks
from noumena.checks import InputError


class Training(BaseEstimator):
    """How to train: everything about the loop, nothing about the model.

    Parameters: ``steps`` of ``batch_size`` rows with Adam at a peak ``learning_rate`` (one cycle). ``clip`` caps each
    model's gradient norm; ``weight_decay`` shrinks all weights by that share of the rate at every step. With ``within``
    the penalty is not weighted but minimised, while the rest of the loss stays within that share of what the same
    models reach without it. ``polish`` rounds of exchange moves follow the fit. With ``refit``, a fit whose penalty
    counts dependencies is followed by a search of its structure and by training under it, exactly sparse and without
    the penalty; ``refit=False`` leaves the penalised models as they are. A share ``held_out`` of the rows is
    never trained on; with ``patience``, a model stops when its held-out objective has not improved for that many of
    the 30 looks. ``checkpoint`` names a file that is written every ``checkpoint_seconds`` and resumed from when it
    exists. ``device`` is a torch device or ``"auto"``; ``dtype`` is ``"float32"`` or ``"float64"``.

    For networks of images: ``precision="bfloat16"`` runs the forward pass in mixed precision on a GPU, with weights in
    ``dtype`` (a processor, many of which have no such arithmetic, goes on in full); with ``average`` an exponential
    moving average of the weights, of that memory, is what is looked at and kept; ``schedule="constant"`` leaves out the
    cycle of the learning rate; ``capture`` records a step on a GPU once, as a CUDA graph, and replays it, which changes
    speed and not results.
    """

    def __init__(
        self,
        *,
        steps: int = 3000,
        batch_size: int = 256,
        learning_rate: float = 1e-2,
        clip: float | None = None,
        weight_decay: float = 0.0,
        within: float | None = None,
        polish: int = 0,
        refit: bool = True,
        patience: int | None = None,
        held_out: float = 0.1,
        device: str | torch.device = "cpu",
        dtype: str = "float32",
        precision: str = "full",
        average: float | None = None,
        schedule: str = "cycle",
        capture: bool = True,
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 30.0,
        verbose: bool = False,
    ):
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.clip = clip
        self.weight_decay = weight_decay
        self.within = within
        self.polish = polish
        self.refit = refit
        self.patience = patience
        self.held_out = held_out
        self.device = device
        self.dtype = dtype
        self.precision = precision
        self.average = average
        self.schedule = schedule
        self.capture = capture
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.verbose = verbose

    def check(self) -> None:
        """Refuse settings that cannot work."""
        checks.count(self.steps, "steps")
        checks.count(self.batch_size, "batch_size")
        checks.number(self.learning_rate, "learning_rate", minimum=1e-12)
        if self.clip is not None:
            checks.number(self.clip, "clip", minimum=1e-12)
        checks.number(self.weight_decay, "weight_decay", minimum=0)
        if self.within is not None:
            checks.number(self.within, "within", minimum=0)
        checks.count(self.polish, "polish", minimum=0)
        checks.require(isinstance(self.refit, bool), "refit must be True or False.", repr(self.refit))
        if self.patience is not None:
            checks.count(self.patience, "patience")
        checks.number(self.held_out, "held_out", minimum=0.0, maximum=0.9)
        checks.one_of(self.dtype, "dtype", ("float32", "float64"))
        checks.one_of(self.precision, "precision", ("full", "bfloat16"))
        both = self.precision == "bfloat16" and self.dtype == "float64"
        checks.require(not both, "precision must be full in double precision.", "bfloat16 and float64")
        if self.average is not None:
            checks.number(self.average, "average", minimum=0, maximum=1 - 1e-9)
        checks.one_of(self.schedule, "schedule", ("cycle", "constant"))
        checks.number(self.checkpoint_seconds, "checkpoint_seconds", minimum=0)

    def torch_device(self) -> torch.device:
        """The device to train on."""
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            device = torch.device(self.device)
        except RuntimeError as error:
            raise InputError(f"device must be auto or a torch device. Got {self.device!r}.") from error
        missing = device.type == "cuda" and not torch.cuda.is_available()
        checks.require(not missing, "device must be present on this machine.", f"{self.device!r}")
        return device

    def changed(self, *, suffix: str = "", **settings: object) -> Training:
        """The same with other settings; a suffix gives the checkpoint of a part of a fit a name of its own."""
        kept = self.checkpoint
        aside = kept if kept is None or not suffix else Path(kept).with_name(f"{Path(kept).name}.{suffix}")
        return Training(**{**self.get_params(deep=False), "checkpoint": aside, **settings})

    def consequential(self) -> dict[str, object]:
        """The settings that change the result; the rest may differ when a fit is resumed."""
        inert = ("device", "capture", "checkpoint", "checkpoint_seconds", "verbose")
        return {k: v for k, v in self.get_params(deep=False).items() if k not in inert}
