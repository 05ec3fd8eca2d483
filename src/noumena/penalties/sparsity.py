"""Sparsity of dependencies (of the decoder's Jacobian), of whole slots of them, and of latents.

Reference: Zheng et al. (2026), Section 4: ``R = mean_b Σ_ij |∂x_i/∂z_j (z_b)|``, L1 in place of L0; over slots the
group lasso, ``|∂x_i/∂z_j|`` replaced by ``‖∂x_i/∂z_slot‖``.
Deviations: a sharper surrogate is the default. ``log`` counts an entry as ``log(1 + |J|/ε) / log(1 + 1/ε)``, which is
1 at ``|J| = 1`` and bends towards L0 as ``ε → 0``; weight and ``ε`` are annealed over the first part of a fit.
``clipped`` counts ``min(|J|/ε, 1)``: L1 below ``ε``, no pull at all above. ``l0`` counts ``J²/(J² + ε²)``: smooth, and
its pull above ``ε`` fades as ``ε²/|J|³``, where that of ``1 − exp(−J²/2ε²)`` vanishes within a few ``ε`` and leaves an
entry to itself as soon as the annealing has passed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from noumena import checks
from noumena.adopt.modules import check_decoder, check_points
from noumena.derivatives import Map, jacobian
from noumena.penalties.compositionality import Slots, slot_norms, slots_given
from noumena.penalties.penalty import Draws, Penalty, PenaltySum
from noumena.penalties.sketches import some_columns, some_rows


def dependency_l1(J: Float[Tensor, "batch observed latent"]) -> Float[Tensor, ""]:
    """Mean over points of the sum of absolute Jacobian entries; zero iff the decoder is constant there.

    >>> float(dependency_l1(torch.tensor([[[1.0, -2.0], [0.0, 0.5]]])))
    3.5
    """
    return J.abs().sum(dim=(-2, -1)).mean()


def ramped(progress: float | Tensor, ramp: float) -> Any:
    """How far a rise over the first ``ramp`` of a fit has come: 0 at its start, 1 from there on.

    >>> ramped(0.2, 0.8), ramped(torch.tensor(0.9), 0.8), ramped(0.0, 0.0)
    (0.25, tensor(1.), 1.0)
    """
    if isinstance(progress, Tensor):
        return (progress / ramp).clamp(max=1) if ramp > 0 else torch.ones_like(progress)
    return 1.0 if progress >= ramp else progress / ramp


def dependency_log(J: Float[Tensor, "batch observed latent"], scale: float | Tensor) -> Float[Tensor, ""]:
    """Mean over points of ``Σ log(1 + |J|/ε) / log(1 + 1/ε)``; an entry of size 1 counts 1, zero counts 0.

    >>> float(dependency_log(torch.eye(3)[None], 0.1).round(decimals=4))
    3.0
    """
    unit = (1 / scale).log1p() if isinstance(scale, Tensor) else log1p(1 / scale)
    return (J.abs() / scale).log1p().sum(dim=(-2, -1)).mean() / unit


def dependency_clipped(J: Float[Tensor, "batch observed latent"], scale: float | Tensor) -> Float[Tensor, ""]:
    """Mean over points of ``Σ min(|J|/ε, 1)``; an entry above ``ε`` counts 1 and is not pulled, zero counts 0.

    >>> float(dependency_clipped(torch.tensor([[[5.0, -0.25, 0.0]]]), 0.5))
    1.5
    """
    return (J.abs() / scale).clamp(max=1).sum(dim=(-2, -1)).mean()


def dependency_l0(J: Float[Tensor, "batch observed latent"], scale: float | Tensor) -> Float[Tensor, ""]:
    """Mean over points of ``Σ J²/(J² + ε²)``; an entry of size ``ε`` counts ½, a large one 1, zero counts 0.

    >>> float(dependency_l0(torch.tensor([[[3e9, -1.0, 0.0]]]), 1.0))
    1.5
    """
    squares = J.square()
    return (squares / (squares + scale**2)).sum(dim=(-2, -1)).mean()


class CountsDependencies(Penalty):
    """Counts entries by an annealed surrogate: what sparsity of dependencies and of slots share.

    Over the first ``ramp`` of a fit the weight rises from 0 to 1 and the surrogate's ``ε`` falls geometrically from
    ``start`` to ``scale``.
    """

    surrogate: str
    scale: float
    start: float
    ramp: float
    rows: int | None
    points: int | None

    needs_scale = True

    def __post_init__(self) -> None:
        checks.one_of(self.surrogate, "surrogate", ("log", "l1", "clipped", "l0"))
        checks.number(self.scale, "scale", minimum=1e-12)
        checks.number(self.start, "start", minimum=self.scale)
        checks.number(self.ramp, "ramp", minimum=0, maximum=1)
        for name, size in (("points", self.points), ("rows", self.rows)):
            if size is not None:
                checks.count(size, name)

    def draws(self, rows: int, n_latents: int, generator: torch.Generator) -> Draws:
        """Uniform numbers that choose observations, where they are sampled."""
        return {} if self.rows is None else {"rows": torch.rand(rows, self.rows, generator=generator)}

    def _jacobian(self, decoder: Map, z: Tensor, draws: Draws | None) -> tuple[Tensor, float]:
        """The Jacobian or the sampled part of it, and how many entries each one stands for."""
        if self.rows is None:
            return jacobian(decoder, z), 1.0
        return some_rows(decoder, z, self.drawn(z.float(), draws)["rows"][: len(z)])

    def _counted(self, entries: Float[Tensor, "batch observed latent"], progress: float) -> Tensor:
        """The surrogate of the entries at this point of a fit."""
        fraction = ramped(progress, self.ramp)
        if self.surrogate == "l1":
            return fraction * dependency_l1(entries)
        count = {"log": dependency_log, "clipped": dependency_clipped, "l0": dependency_l0}[self.surrogate]
        return fraction * count(entries, self.start * (self.scale / self.start) ** fraction)


@dataclass(frozen=True)
class DependencySparsity(CountsDependencies):
    """Few dependencies: the decoder's Jacobian should have few non-zero entries.

    Parameters: ``surrogate`` is ``"log"``, ``"l1"``, ``"clipped"`` or ``"l0"``. Over the first ``ramp`` of a fit the
    weight rises from 0 to 1 and the surrogate's ``ε`` falls geometrically from ``start`` to ``scale``. ``points`` caps
    how many rows of a batch the Jacobian is taken at (the mean over rows stays unbiased); ``columns`` and ``rows``
    take that many random latents or observations per point (unbiased too; one of them); ``None`` takes all.

    >>> DependencySparsity("l1")(lambda z: 2 * z, torch.zeros(4, 3))
    tensor(6.)
    """

    surrogate: str = "log"
    scale: float = 0.03
    start: float = 10.0
    ramp: float = 0.8
    points: int | None = None
    columns: int | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns is not None:
            checks.count(self.columns, "columns")
        both = self.columns is not None and self.rows is not None
        given = f"columns={self.columns} and rows={self.rows}"
        checks.require(not both, "Either columns or rows of the Jacobian may be sampled, not both.", given)

    def draws(self, rows: int, n_latents: int, generator: torch.Generator) -> Draws:
        """Uniform numbers that choose latents or observations, where they are sampled."""
        if self.columns is None:
            return super().draws(rows, n_latents, generator)
        return {"columns": torch.rand(rows, n_latents, generator=generator)}

    def __call__(self, decoder: Map, z: Tensor, progress: float = 1.0, draws: Draws | None = None) -> Tensor:
        """The penalty at points ``z``."""
        decoder, z = check_decoder(decoder, z)
        z = z[: self.points]
        if self.columns is None:
            J, weight = self._jacobian(decoder, z, draws)
        else:
            uniform = self.drawn(z.float(), draws)["columns"][: len(z)]
            J, weight = some_columns(decoder, z, uniform, self.columns)
        return weight * self._counted(J, progress)


def counts_dependencies(penalty: Penalty | None) -> bool:
    """Whether a penalty asks for few dependencies, by itself or as a term of a sum.

    >>> counts_dependencies(0.05 * DependencySparsity()), counts_dependencies(0.0 * DependencySparsity())
    (True, False)
    """
    if isinstance(penalty, PenaltySum):
        return any(weight > 0 and counts_dependencies(term) for weight, term in penalty.terms)
    return isinstance(penalty, DependencySparsity)


@dataclass(frozen=True)
class GroupSparsity(CountsDependencies):
    """Few dependencies on whole slots: the sum of a surrogate of ``‖∂f_i/∂z_slot‖`` over observations and slots.

    Parameters: ``slots``, their number (equal, consecutive) or their sizes; the others as in ``DependencySparsity``
    (``"l1"`` is the group lasso). Zero iff the decoder is constant there; ignores the order of slots and rotations
    within them.

    >>> GroupSparsity((2, 1), "l1")(lambda z: z.sum(1, keepdim=True) * torch.tensor([3.0, 4.0]), torch.zeros(4, 3))
    tensor(16.8995)
    """

    slots: Slots
    surrogate: str = "log"
    scale: float = 0.03
    start: float = 10.0
    ramp: float = 0.8
    points: int | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "slots", slots_given(self.slots))

    def __call__(self, decoder: Map, z: Tensor, progress: float = 1.0, draws: Draws | None = None) -> Tensor:
        """The penalty at points ``z``."""
        decoder, z = check_decoder(decoder, z)
        z = z[: self.points]
        J, weight = self._jacobian(decoder, z, draws)
        return weight * self._counted(slot_norms(J, checks.slots(self.slots, z.shape[1])), progress)


@dataclass(frozen=True)
class LatentSparsity(Penalty):
    """Small latents: the mean of ``|ẑ|``; the baseline that acts on codes and not on dependencies.

    >>> LatentSparsity()(None, torch.tensor([[1.0, -3.0]]))
    tensor(2.)
    """

    needs_scale = True

    def __call__(self, decoder: Map | None, z: Tensor, progress: float = 1.0, draws: Draws | None = None) -> Tensor:
        """The mean absolute latent; the decoder is not looked at."""
        return check_points(z).abs().mean()
