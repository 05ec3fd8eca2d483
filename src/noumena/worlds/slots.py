"""Overlapping worlds: slots of latents that each drive a window of observations, windows of neighbours overlapping.

Slot ``k`` drives the ``per_slot`` observations from ``k·s`` on, ``s = per_slot − o``, where ``o`` is the overlap in
observations; contributions are added, so ``d_x = per_slot + (K − 1)·s``. Up to an overlap of one half an observation
depends on at most two slots; above it on up to ``⌈per_slot / s⌉``, four at 75 %. A slot's block is ``B · leaky(A z +
b)``
with leaky-ReLU(0.2), ``A`` of orthonormal columns and ``B`` orthogonal with its rows rescaled: invertible by
construction. Contributions have unit spread.

References
----------
Matthes et al. (2026), "Mechanistic Independence: A Principle for Identifiable Disentangled Representations",
experiments.

Deviations: the paper says "invertible MLP, Jacobian with specified support" and no more; widths, biases and the chain
of windows are ours. A sum of invertible blocks need not be invertible, so the decoder is verified when built, on
``PROBES`` latent points: the support is exact, the Jacobian has full column rank with a margin, no pair of points is
folded together, and every slot has a least share in each of its observations. Blocks are drawn again until this holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from noumena import checks, seeds
from noumena.checks import InputError
from noumena.deprecated import renamed
from noumena.derivatives import jacobian
from noumena.derivatives.strength import shares
from noumena.structure import Structure
from noumena.worlds.laws import Law, law_of
from noumena.worlds.structured import secants
from noumena.worlds.world import World

SLOPE = 0.2
PROBES = 1000
RANK_MARGIN = 0.05
SECANT_MARGIN = 0.1
LEAST_SHARE = 0.15
"""A slot's ``(Σ_j (mean |∂x_i/∂z_j| · sd(z_j))²)^½ / sd(x_i)`` is at least this in each of its observations."""
MOST_OVERLAP = 0.9
MOST_DRAWS = 200


@dataclass(frozen=True)
class SlotWorld(World):
    """A world whose latents come in slots.

    Attributes
    ----------
    slots : tuple of int
        Sizes of the consecutive slots; the others are those of ``World``.
    """

    slots: tuple[int, ...] = ()


class SlotBlocks(nn.Module):
    """All slots' blocks, each added into its window of observations."""

    inner: Tensor
    offset: Tensor
    outer: Tensor

    def __init__(self, windows: np.ndarray, slot_size: int, generator: torch.Generator):
        super().__init__()
        n_slots, per_slot = windows.shape
        self.windows = torch.as_tensor(windows)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.register_buffer("inner", torch.linalg.qr(normal(n_slots, per_slot, slot_size)).Q * sqrt(per_slot))
        self.register_buffer("offset", normal(n_slots, per_slot))
        self.register_buffer("outer", torch.linalg.qr(normal(n_slots, per_slot, per_slot)).Q)

    def contributions(self, z: Tensor) -> Tensor:
        """What every slot adds to its window, (batch, slot, per_slot)."""
        n_slots, _, slot_size = self.inner.shape
        hidden = torch.einsum("...kl,kpl->...kp", z.unflatten(-1, (n_slots, slot_size)), self.inner) + self.offset
        return torch.einsum("...kp,kqp->...kq", F.leaky_relu(hidden, SLOPE), self.outer)

    def balance(self, z: Tensor) -> None:
        """Scale every contribution to unit spread."""
        self.outer /= self.contributions(z).std(dim=0)[..., None]

    def forward(self, z: Tensor) -> Tensor:
        """Noise-free observations."""
        added = self.contributions(z.to(self.inner.dtype)).flatten(-2)
        place = F.one_hot(self.windows.flatten().to(z.device)).to(added)
        return (added @ place).to(z.dtype)


@renamed(seed="random_state")
def overlapping(
    n_slots: int,
    *,
    slot_size: int = 3,
    per_slot: int = 20,
    overlap: float = 0.0,
    law: str | Law = "unit gaussian",
    noise: float = 0.0,
    random_state: Any = 0,
) -> SlotWorld:
    """A world of equal slots whose neighbours share observations, verified when built.

    Parameters
    ----------
    n_slots, slot_size, per_slot : int
        Number of slots, latents per slot, and observations per slot.
    overlap : float
        Share of a slot's observations that it shares with its neighbour, at most 0.9.
    law : str or Law
        Law of the latents.
    noise : float
        Standard deviation of the observation noise.
    random_state : int, Generator or None
        Seed of the world.

    Returns
    -------
    SlotWorld

    Examples
    --------
    >>> world = overlapping(2, overlap=0.25)
    >>> world.slots, world.n_observed
    ((3, 3), 35)
    """
    seed = seeds.seed_of(random_state)
    n_slots, slot_size = checks.count(n_slots, "n_slots"), checks.count(slot_size, "slot_size")
    per_slot = checks.count(per_slot, "per_slot", minimum=slot_size)
    checks.number(overlap, "overlap", minimum=0, maximum=MOST_OVERLAP)
    checks.number(noise, "noise", minimum=0)
    chosen = law_of(law, n_slots * slot_size, random_state=seed)
    windows = _windows(n_slots, per_slot, round(overlap * per_slot))
    support = np.zeros((windows.max() + 1, n_slots * slot_size), dtype=bool)
    for k, window in enumerate(windows):
        support[window, k * slot_size : (k + 1) * slot_size] = True
    checks.require(
        support.shape[0] >= support.shape[1],
        "A world must have at least as many observations as latents.",
        f"{support.shape[0]} and {support.shape[1]}; lower the overlap",
    )
    z = chosen.draw(PROBES, seeds.generator(seed, "probes"))
    for draw in range(MOST_DRAWS):
        decoder = SlotBlocks(windows, slot_size, seeds.generator(seed, "blocks", draw)).requires_grad_(False)
        decoder.balance(z)
        facts = _facts(decoder, z, support, slot_size)
        if _sound(facts):
            slots = (slot_size,) * n_slots
            return SlotWorld(Structure(support), chosen, decoder, noise=noise, seed=seed, facts=facts, slots=slots)
    raise InputError(
        f"A world must be injective with a margin and let every slot be heard. Got none in {MOST_DRAWS} draws for "
        f"{n_slots} slots with overlap {overlap}; lower the overlap."
    )


def _windows(n_slots: int, per_slot: int, shared: int) -> np.ndarray:
    """Indices of the observations of every slot, (slot, per_slot)."""
    checks.require(
        shared < per_slot, "Every slot must have an observation of its own.", f"{shared} of {per_slot} shared"
    )
    return np.arange(n_slots)[:, None] * (per_slot - shared) + np.arange(per_slot)[None, :]


def _sound(facts: dict[str, float]) -> bool:
    unfolded = facts["rank margin"] > RANK_MARGIN and facts["secant margin"] > SECANT_MARGIN
    return bool(facts["support exact"]) and unfolded and facts["least share"] > LEAST_SHARE


def _facts(decoder: SlotBlocks, z: Tensor, support: np.ndarray, slot_size: int) -> dict[str, float]:
    J = jacobian(decoder, z)
    seen = (J.abs().amax(dim=0) > 0).numpy()
    singular = torch.linalg.svdvals(J)
    heard = shares(J, z, decoder(z)).unflatten(1, (-1, slot_size)).norm(dim=-1).numpy()
    return {
        "support exact": float((seen == support).all()),
        "rank margin": float((singular[:, -1] / singular[:, 0]).min()),
        "secant margin": secants(decoder, z, slot_size),
        "least share": float(heard[support[:, ::slot_size]].min()),
    }
