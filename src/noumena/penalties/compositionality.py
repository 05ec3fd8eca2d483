"""Compositionality: each observation should listen to one slot of latents at a time.

Reference: Brady et al. (2023), *Provably learning object-centric representations*, the compositional contrast
``C = mean_b Σ_n Σ_{i<j} ‖∂f_n/∂z_i‖ ‖∂f_n/∂z_j‖``; Matthes et al. (2026) use it as their bias. With slot norms ``a_i``
the inner sum is ``½((Σ_i a_i)² − Σ_i a_i²)``; it is computed as ``½ Σ_i a_i (Σ_j a_j − a_i)``.
Deviations: observations may be sampled (unbiased). Norms are ``√(Σ J² + tiny) − √tiny``, tiny the least normal number:
the same to all digits, exactly zero where the derivatives are, and there with gradient zero (and several times faster
than torch's own norm over a short axis).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from noumena import checks
from noumena.adopt.modules import check_decoder
from noumena.derivatives import Map, jacobian
from noumena.penalties.penalty import Draws, Penalty
from noumena.penalties.sketches import some_rows

Slots = int | tuple[int, ...]


def slot_norms(
    J: Float[Tensor, "batch observed latent"], sizes: tuple[int, ...]
) -> Float[Tensor, "batch observed slot"]:
    """How strongly each observation listens to each slot, ``‖∂f_i/∂z_slot‖``; ignores rotations within a slot.

    >>> slot_norms(torch.tensor([[[3.0, 4.0, -2.0]]]), (2, 1))
    tensor([[[5., 2.]]])
    """
    squares = J.to(torch.promote_types(J.dtype, torch.float32)).movedim(-1, 0).square()
    if len(set(sizes)) == 1:
        sums = squares.unflatten(0, (len(sizes), sizes[0])).sum(dim=1)
    else:
        sums = torch.stack([part.sum(dim=0) for part in squares.split(sizes)])
    least = torch.finfo(squares.dtype).tiny  # a power of four: its root is exact
    return ((sums + least).sqrt() - least**0.5).movedim(0, -1)


def compositional_contrast(norms: Float[Tensor, "batch observed slot"]) -> Float[Tensor, ""]:
    """Mean over points of summed products of two slots' norms; zero iff each observation listens to at most one slot.

    >>> float(compositional_contrast(torch.tensor([[[1.0, 2.0, 3.0]]])))
    11.0
    """
    others = norms.sum(dim=-1, keepdim=True) - norms
    return (norms * others).sum(dim=(-2, -1)).mean() / 2


def slots_given(slots: Any, *, least: int = 1) -> Slots:
    """Slots as a penalty keeps them, their number or a tuple of their sizes; ``least`` when fewer mean nothing."""
    sizes = isinstance(slots, tuple | list)
    number = len(slots) if sizes else checks.count(slots, "slots")
    checks.require(number >= least, f"There must be at least {least} slots.", f"{slots!r}")
    return tuple(checks.count(size, "The size of a slot") for size in slots) if sizes else number


@dataclass(frozen=True)
class CompositionalContrast(Penalty):
    """One slot at a time: no observation should listen to two slots at one point.

    Parameters: ``slots``, their number (equal, consecutive) or their sizes. ``rows`` takes that many random
    observations per point, an unbiased estimate; ``None`` takes all. ``points`` caps the rows of a batch looked at.
    Zero iff every observation depends on at most one slot at each point; ignores the order of slots, their signs and
    rotations within them; shrinks with growing latents, so their scale must be fixed.

    >>> f = lambda z: torch.stack([z[:, 0] + 2 * z[:, 1], z[:, 1]], dim=1)
    >>> CompositionalContrast(2)(f, torch.zeros(4, 2))
    tensor(2.)
    """

    slots: Slots
    rows: int | None = None
    points: int | None = None

    needs_scale = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", slots_given(self.slots, least=2))
        for name in ("rows", "points"):
            if getattr(self, name) is not None:
                checks.count(getattr(self, name), name)

    def draws(self, rows: int, n_latents: int, generator: torch.Generator) -> Draws:
        """Uniform numbers that choose observations, where they are sampled."""
        return {} if self.rows is None else {"rows": torch.rand(rows, self.rows, generator=generator)}

    def __call__(self, decoder: Map, z: Tensor, progress: float = 1.0, draws: Draws | None = None) -> Tensor:
        """The contrast at points ``z``."""
        decoder, z = check_decoder(decoder, z)
        z, sizes = z[: self.points], checks.slots(self.slots, z.shape[1])
        if self.rows is None:
            return compositional_contrast(slot_norms(jacobian(decoder, z), sizes))
        J, weight = some_rows(decoder, z, self.drawn(z.float(), draws)["rows"][: len(z)])
        return weight * compositional_contrast(slot_norms(J, sizes))
