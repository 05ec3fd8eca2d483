"""Training: everything about the loop, nothing about the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from sklearn.base import BaseEstimator

from noumena import checks
from noumena.checks import InputError
from noumena.estimators.parameters import TINY, check_parameters, count, number, one_of, switch
from noumena.nets.mlp import narrowing

STEPS, FEWEST_STEPS, RATE = 3000, 800, 1e-2


@dataclass(eq=False, repr=False, kw_only=True)
class Training(BaseEstimator):
    """How to train: everything about the loop, nothing about the model.

    Parameters
    ----------
    steps : int, optional
        Steps of Adam; 3000 of narrow tables, and fewer of wide ones (``for_columns``).
    batch_size : int
        Rows of a step.
    learning_rate : float, optional
        Peak of the rate; 0.01 of narrow tables, and less of wide ones.
    clip : float, optional
        Largest norm of a model's gradient.
    weight_decay : float
        Share of the rate by which all weights shrink at every step.
    within : float, optional
        Minimise the penalty while the loss stays within this share of what the same models reach without it.
    polish : int
        Rounds of exchange moves after the fit.
    refit : bool
        Whether a fit whose penalty counts dependencies is trained again under its structure, exactly sparse.
    patience : int, optional
        Looks (of 30) without a better held-out objective after which a model stops.
    held_out : float
        Share of the rows that is never trained on.
    device : str or torch.device
        Device to train on, or ``"auto"``.
    dtype : {"float32", "float64"}
        Precision of weights.
    precision : {"full", "bfloat16"}
        Precision of the forward pass on a GPU; a CPU always takes the full one.
    average : float, optional
        Memory of an exponential moving average of the weights, which is then what is looked at and kept.
    schedule : {"cycle", "constant"}
        Course of the learning rate.
    capture : bool
        Whether steps on a GPU are recorded as a CUDA graph and replayed; changes speed and no result.
    checkpoint : path, optional
        File that is written meanwhile, and resumed from where it exists.
    checkpoint_seconds : float
        Seconds between checkpoints.
    verbose : bool
        Whether progress is shown.

    Examples
    --------
    >>> Training(steps=1000, device="auto")
    Training(device='auto', steps=1000)
    """

    __no_type_check__ = True  # values are checked by ``check``, as scikit-learn wants, never by ``__init__``

    steps: int = count(None)
    batch_size: int = count(256)
    learning_rate: float = number(None, minimum=TINY)
    clip: float | None = number(None, minimum=TINY)
    weight_decay: float = number(0.0, minimum=0)
    within: float | None = number(None, minimum=0)
    polish: int = count(0, minimum=0)
    refit: bool = switch(True)
    patience: int | None = count(None)
    held_out: float = number(0.1, minimum=0, maximum=0.9)
    device: str | torch.device = "cpu"
    dtype: str = one_of("float32", ("float32", "float64"))
    precision: str = one_of("full", ("full", "bfloat16"))
    average: float | None = number(None, minimum=0, maximum=1 - 1e-9)
    schedule: str = one_of("cycle", ("cycle", "constant"))
    capture: bool = True
    checkpoint: str | Path | None = None
    checkpoint_seconds: float = number(30.0, minimum=0)
    verbose: bool = False

    def check(self) -> None:
        """Refuse settings that cannot work."""
        check_parameters(self)
        both = self.precision == "bfloat16" and self.dtype == "float64"
        checks.require(not both, "precision must be full in double precision.", "bfloat16 and float64")

    def for_columns(self, columns: int) -> Training:
        """The same with a number of steps and a rate, where none is given, that suit so many columns: gradients of wide
        tables are sums over many columns, and large rates diverge there.

        >>> [(t.steps, t.learning_rate) for t in map(Training().for_columns, (20, 320, 20_000))]
        [(3000, 0.01), (1500, 0.005), (800, 0.0006324555320336759)]
        """
        share = narrowing(columns)
        steps = max(FEWEST_STEPS, round(STEPS * share)) if self.steps is None else self.steps
        rate = RATE * share if self.learning_rate is None else self.learning_rate
        return self.changed(steps=steps, learning_rate=rate)

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
