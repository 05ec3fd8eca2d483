"""Curvature: latents should not interact in the decoder.

References: Peebles et al. (2020), the Hessian Penalty; Matthes et al. (2026), Type H_n (all cross-block n-th
derivatives vanish).

**Hessian Penalty.** The quantity is ``2 Σ_{a≠b} H_ab²`` for each observation, the variance of ``vᵀHv`` over fair signs
``v``. Published: two probes per point, ``vᵀHv`` by ``(f(z + εv) − 2f(z) + f(z − εv))/ε²`` with ``ε = 0.1``, unbiased
variance over the probes, maximum over observations and batch.
**Interaction of order n.** ``Σ (∂ⁿf_i/∂z_a…∂z_c)²`` over observations and all ordered index tuples that do not lie in
one slot: squares and not absolute values, for then rotations within a slot change nothing. With slots of one latent
and ``n = 2`` it is half the Hessian Penalty's quantity, summed over observations.

Deviations: derivatives may be exact (``step=None``), all pairs may stand in place of probes (``probes=None``), and the
mean in place of the maximum, whose estimate is not unbiased. Finite differences see the kinks of leaky-ReLU decoders,
whose exact second derivatives are zero almost everywhere: there an exact form is zero, and so is its gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from math import factorial, prod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from noumena import checks
from noumena.adopt.modules import check_answer, check_decoder
from noumena.derivatives import Map, mixed_derivatives, mixed_differences
from noumena.penalties.compositionality import Slots, slots_given
from noumena.penalties.penalty import Draws, Penalty
from noumena.penalties.sketches import Probing, bends, by_strata, mixed, precise


def hessian_penalty(cross: Float[Tensor, "batch observed pair"]) -> Float[Tensor, "batch observed"]:
    """Each observation's ``2 Σ_{a≠b} H_ab²`` from its derivatives ``H_ab``, ``a < b``; zero iff none interact.

    >>> hessian_penalty(torch.tensor([[[1.0, 2.0, 0.0]]]))
    tensor([[20.]])
    """
    return 4 * cross.square().sum(dim=-1)


def hessian_penalty_of_probes(bends: Float[Tensor, "batch observed probe"]) -> Float[Tensor, "batch observed"]:
    """Each observation's unbiased variance of ``vᵀHv`` over probes, which estimates ``hessian_penalty``.

    >>> hessian_penalty_of_probes(torch.tensor([[[3.0, -1.0]]]))
    tensor([[8.]])
    """
    return bends.var(dim=-1)


def interaction(
    derivatives: Float[Tensor, "batch observed tuple"], weights: Float[Tensor, "#batch tuple"]
) -> Float[Tensor, ""]:
    """Mean over points of the weighted sum of squared cross derivatives; zero iff all of them are.

    >>> float(interaction(torch.tensor([[[1.0, -2.0]]]), torch.tensor([[3.0, 6.0]])))
    27.0
    """
    return (derivatives.square().sum(dim=-2) * weights).sum(dim=-1).mean()


@cache
def cross_tuples(sizes: tuple[int, ...], order: int) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Sorted index tuples that do not lie in one slot, and in how many orders each can be written.

    >>> cross_tuples((1, 1), 3)
    (((0, 0, 1), (0, 1, 1)), (3, 3))
    """
    slot_of = [k for k, size in enumerate(sizes) for _ in range(size)]
    every = combinations_with_replacement(range(len(slot_of)), order)
    crossing = tuple(t for t in every if len({slot_of[j] for j in t}) > 1)
    orders = tuple(factorial(order) // prod(factorial(t.count(j)) for j in set(t)) for t in crossing)
    return crossing, orders


def _mixed(decoder: Map, z: Tensor, indices: Int[Tensor, "m order"], step: float | None) -> Tensor:
    if step is None:
        try:
            return mixed_derivatives(decoder, z, indices)
        except RuntimeError:
            check_answer(decoder(z[:1]), z[:1])  # a picture, perhaps
            raise
    return mixed_differences(*precise(decoder, z), indices, step=step)


@dataclass(frozen=True)
class HessianPenalty(Probing):
    """The Hessian Penalty: no two latents should interact in any observation.

    Parameters: ``probes`` random signs per point, ``None`` for every pair of latents; ``step`` of the differences,
    ``None`` for exact derivatives; ``reduction`` over observations and batch, ``"max"`` (published) or ``"mean"``.
    ``HessianPenalty(None, None, "mean")`` is exact. Zero iff the decoder is a sum of functions of single latents;
    ignores the order and the signs of latents; shrinks with growing latents, so their scale must be fixed.

    >>> HessianPenalty(None, None)(lambda z: z[:, :1] * z[:, 1:], torch.zeros(4, 2))
    tensor(4.)
    """

    def __call__(self, decoder: Map, z: Tensor, progress: float = 1.0, draws: Draws | None = None) -> Tensor:
        """The penalty at points ``z``."""
        decoder, z = check_decoder(decoder, z)
        if self.probes is not None:
            v = self.drawn(z, draws)["probes"]
            return self.reduced(hessian_penalty_of_probes(bends(decoder, z, v, self.step)))
        n = z.shape[1]
        checks.require(n > 1, "Pairs of latents must exist, or probes be given.", f"{n} latent")
        pairs = torch.triu_indices(n, n, offset=1).T
        return self.reduced(hessian_penalty(_mixed(decoder, z, pairs, self.step)))


@dataclass(frozen=True)
class Interaction(Penalty):
    """No interaction of slots: squared n-th derivatives whose indices do not lie in one slot.

    Parameters: ``slots``, their number (equal, consecutive) or their sizes; ``order`` of the derivatives, 2 or 3;
    ``step`` of alternating forward differences (leaky-ReLU decoders need one), ``None`` for exact derivatives;
    ``pairs`` random index tuples per point, an unbiased estimate, ``None`` for all. ``points`` caps the rows of a
    batch looked at. Zero iff the decoder is additive over slots (order 2), or additive up to products of two latents
    (order 3); ignores the order of slots and rotations within them (without a step); shrinks with growing latents.

    >>> Interaction(2)(lambda z: 3 * z[:, :1] * z[:, 1:], torch.zeros(4, 2))
    tensor(18.)
    """

    slots: Slots
    order: int = 2
    step: float | None = None
    pairs: int | None = None
    points: int | None = None

    needs_scale = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", slots_given(self.slots, least=2))
        checks.require(self.order in (2, 3), "order must be 2 or 3.", repr(self.order))
        if self.step is not None:
            checks.number(self.step, "step", minimum=1e-12)
        for name in ("pairs", "points"):
            if getattr(self, name) is not None:
                checks.count(getattr(self, name), name)

    def draws(self, rows: int, n_latents: int, generator: torch.Generator) -> Draws:
        """Uniform numbers that choose index tuples, where they are sampled."""
        return {} if self.pairs is None else {"tuples": torch.rand(rows, self.pairs, generator=generator)}

    def __call__(self, decoder: Map, z: Tensor, progress: float = 1.0, draws: Draws | None = None) -> Tensor:
        """The penalty at points ``z``."""
        decoder, z = check_decoder(decoder, z)
        z, sizes = z[: self.points], checks.slots(self.slots, z.shape[1])
        tuples, orders = (torch.tensor(t) for t in cross_tuples(sizes, self.order))
        weights = orders.to(z)[None]
        if self.pairs is None or self.pairs >= len(tuples):
            return interaction(_mixed(decoder, z, tuples, self.step), weights)
        which = by_strata(self.drawn(z.float(), draws)["tuples"][: len(z)], len(tuples))
        axes = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)[tuples.to(z.device)[which]]
        found = mixed(decoder, z, axes, self.step)
        return interaction(found, weights[0][which] * (len(tuples) / self.pairs))
