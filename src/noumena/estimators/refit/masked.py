"""Exactly sparse decoders: every output of a network that sees only its own latents.

For a structure ``S`` and any decoder ``G``, ``g_i(z) = G(z ⊙ S_i)_i``. A latent that ``S_i`` leaves out does not reach
output ``i`` at all, so zeros of the Jacobian are exact by construction and not a matter of a threshold. Outputs with
the same latents share a pass through the network. A model under a structure is trained on without its penalty: the
structure does what the penalty was for.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from noumena.derivatives import differentiate

Support = Bool[np.ndarray, "observed latent"]
FLOOR = 0.05
"""Of a standardised observation's error: what a short training leaves differs by chance, and must not count."""


class MaskedDecoder(nn.Module):
    """A decoder whose output ``i`` is computed from the latents in row ``i`` of a support, the others at zero.

    >>> dense = nn.Linear(2, 2, bias=False)
    >>> dense.weight.data = torch.ones(2, 2)
    >>> MaskedDecoder(dense, np.array([[True, False], [True, True]]))(torch.tensor([[3.0, 4.0]])).tolist()
    [[3.0, 7.0]]
    """

    rows: Tensor
    place: Tensor

    def __init__(self, decoder: nn.Module, support: Support, kinds: int | None = None):
        """``kinds`` is the number of distinct rows that are kept room for, so that several models make one batch."""
        super().__init__()
        self.decoder = decoder
        rows, place = np.unique(np.asarray(support, dtype=bool), axis=0, return_inverse=True)
        rows = np.concatenate([rows, np.repeat(rows[:1], max(0, (kinds or 0) - len(rows)), axis=0)])
        like = next((p for p in decoder.parameters() if p.is_floating_point()), torch.empty(0))
        self.register_buffer("rows", torch.as_tensor(rows).to(like))
        self.register_buffer("place", torch.as_tensor(place.reshape(-1), device=like.device))

    @property
    def support(self) -> Support:
        """Which latents every output sees."""
        return (self.rows[self.place] > 0).cpu().numpy()

    def forward(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch observed"]:
        """Observations of latents."""
        seen = z[:, None, :] * self.rows
        x = self.decoder(seen.flatten(0, 1)).unflatten(0, (z.shape[0], self.rows.shape[0]))
        return torch.take_along_dim(x, self.place[None, None, :], dim=1)[:, 0]

    def linearised(self, z: Float[Tensor, "batch latent"]) -> tuple[Tensor, Tensor]:
        """Observations and their Jacobian: that of the network at every kind of masked latents, of which each output
        keeps its own."""
        seen = z[:, None, :] * self.rows
        at = differentiate(self.decoder, seen.flatten(0, 1))
        outputs = torch.arange(len(self.place))
        x, J = (part.unflatten(0, seen.shape[:2])[:, self.place, outputs] for part in (at.x, at.J))
        return x, J * self.rows[self.place]


def masked(models: list[Any], supports: list[Support]) -> list[Any]:
    """Copies of models, each with its decoder under a support and without a penalty, of one shape."""
    kinds = max(len(np.unique(support, axis=0)) for support in supports)
    copies = [plain(model) for model in models]
    for copy, support in zip(copies, supports, strict=True):
        copy.decoder = MaskedDecoder(copy.decoder, support, kinds)
    return copies


def plain(model: Any) -> Any:
    """A copy of a model without a structure and without a penalty."""
    copy = deepcopy(model).requires_grad_(True).eval()
    copy.penalty = None
    if isinstance(copy.decoder, MaskedDecoder):
        copy.decoder = copy.decoder.decoder
    return copy


@torch.no_grad()
def squared_errors(model: Any, x: Float[Tensor, "batch observed"]) -> Float[np.ndarray, "batch observed"]:
    """Squared errors of standardised rows' reconstructions, without noise."""
    x = x.to(model.mean)
    return (model.decoder(model.code(x)) - x).square().double().cpu().numpy()


def row_errors(model: Any, x: Float[Tensor, "batch observed"]) -> Float[np.ndarray, " batch"]:
    """The same of every row, summed over observations."""
    return squared_errors(model, x).sum(axis=1)


def misfit(errors: Float[np.ndarray, "batch observed"]) -> float:
    """``Σ_i log(e_i + FLOOR)`` over observations, ``e_i`` the mean error of one: beside noise, which no structure takes
    away, what a dependency explains counts as much as without noise; infinite where an error is no number.

    >>> bool(np.isclose(misfit(np.full((3, 2), 1 - FLOOR)), 0))
    True
    """
    found = float(np.log(errors.mean(axis=0) + FLOOR).sum())
    return found if np.isfinite(found) else np.inf
