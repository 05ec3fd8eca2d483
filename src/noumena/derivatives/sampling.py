"""Parts of a Jacobian at the cost of those parts: directional derivatives, chosen columns, chosen rows.

Each row of a batch has its own probes or choice. Unbiased estimates follow: ``E‖J v‖² = ‖J‖²`` for probes of mean 0 and
identity covariance, and a sum over all columns (rows) is the mean over ``k`` uniformly chosen ones times their number.
Layered maps are taken by the structured pass, all others by forward mode (directions, columns) or reverse mode (rows);
a map whose kernels allow neither has its whole Jacobian computed (``noumena.derivatives.fallbacks``).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from noumena import checks
from noumena.derivatives import tangents
from noumena.derivatives.fallbacks import first
from noumena.derivatives.jacobians import Map, by_row, jacobian, linearised, pulling, pushed


def directional(
    f: Map, z: Float[Tensor, "batch latent"], v: Float[Tensor, "batch probe latent"], *, memory: int = 2**30
) -> Float[Tensor, "batch observed probe"]:
    """Every row's derivatives ``J_b v_bk`` along its own probes, one pass per probe; linear in ``v``.

    >>> directional(lambda z: z**2, torch.tensor([[1.0, 2.0]]), torch.tensor([[[1.0, 1.0]]]))
    tensor([[[2.],
             [4.]]])
    """
    by_row(f, z)
    fits = v.ndim == 3 and v.shape[1] > 0 and v[:, 0].shape == z.shape
    must = "v must have axes (batch, probe, latent) that fit z, and at least one probe."
    checks.require(fits, must, f"shapes {tuple(v.shape)} for {tuple(z.shape)}")
    probes = v.movedim(1, 0)
    if tangents.obstacle(f) is None:
        return tangents.along(linearised(f, z), z, probes, memory).movedim(0, -1)
    return first(
        lambda: pushed(f, z, probes, memory)[1].movedim(0, -1),
        lambda: jacobian(f, z, memory=memory) @ v.to(z.dtype).mT,
    )


def columns(
    f: Map, z: Float[Tensor, "batch latent"], which: Int[Tensor, "batch k"], *, memory: int = 2**30
) -> Float[Tensor, "batch observed k"]:
    """Every row's own choice of Jacobian columns (latents), one pass per column.

    >>> columns(lambda z: z**2, torch.tensor([[1.0, 2.0]]), torch.tensor([[1]]))
    tensor([[[0.],
             [4.]]])
    """
    return directional(f, z, _units(which, z, z.shape[-1]), memory=memory)


def rows(
    f: Map, z: Float[Tensor, "batch latent"], which: Int[Tensor, "batch k"], *, memory: int = 2**30
) -> Float[Tensor, "batch k latent"]:
    """Every row's own choice of Jacobian rows (observations), one pass back per row.

    >>> rows(lambda z: z**2, torch.tensor([[1.0, 2.0]]), torch.tensor([[1]]))
    tensor([[[0., 4.]]])
    """
    by_row(f, z)
    if tangents.obstacle(f) is None:
        at = linearised(f, z)
        return tangents.against(at, z, _units(which, at.x, at.x.shape[1]).movedim(1, 0), memory).movedim(0, 1)

    def back() -> Tensor:
        x, pull = pulling(f, z, memory)
        return pull(_units(which, x, x.shape[1]).movedim(1, 0)).movedim(0, 1)

    def chosen() -> Tensor:
        J = jacobian(f, z, memory=memory)
        return _units(which, J, J.shape[1]) @ J

    return first(back, chosen)


def _units(which: Tensor, like: Tensor, n: int) -> Tensor:
    """Unit vectors (batch, k, n) with a one where the choice says."""
    fits = which.ndim == 2 and len(which) == len(like) and which.shape[1] > 0
    must = "which must have axes (batch, k), a choice for every row of z."
    checks.require(fits, must, f"shape {tuple(which.shape)} for {len(like)} rows")
    return (which[..., None] == torch.arange(n, device=which.device)).to(like)
