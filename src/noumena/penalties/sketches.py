"""Sketches: uniform numbers and signs become samples and probes of a decoder's derivatives.

Random numbers come as ``draws``, one row per point, made before anybody knows how many observations there are: columns
are drawn without replacement, and rows and index tuples by strata, ``index_i = ⌊(i + u_i)·n/k⌋``, which visits each of
the ``n`` items ``k/n`` times in the mean, whatever ``n`` and ``k``, and each once when ``k = n``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import vmap

from noumena import checks
from noumena.adopt.modules import check_answer
from noumena.derivatives import Map, columns, directional, jacobian, rows
from noumena.penalties.penalty import Draws, Penalty


def without_replacement(uniform: Float[Tensor, "batch n"], k: int) -> Int[Tensor, "batch k"]:
    """Each row's ``k`` different indices below ``n``, every set equally likely.

    >>> without_replacement(torch.tensor([[0.9, 0.1, 0.5]]), 2)
    tensor([[1, 2]])
    """
    return uniform.argsort(dim=-1)[..., :k]


def by_strata(uniform: Float[Tensor, "batch k"], n: int) -> Int[Tensor, "batch k"]:
    """Each row's ``k`` indices below ``n``, one from each ``k``-th part of them.

    >>> by_strata(torch.tensor([[0.0, 0.99]]), 10)
    tensor([[0, 9]])
    """
    k = uniform.shape[-1]
    begin = torch.arange(k, device=uniform.device) * n
    within = (begin % k) / k + uniform * (n / k)
    return (begin // k + within.long()).clamp(max=n - 1)


def some_columns(
    decoder: Map, z: Float[Tensor, "batch latent"], uniform: Float[Tensor, "batch latent"], k: int
) -> tuple[Float[Tensor, "batch observed some"], float]:
    """``k`` columns of each point's Jacobian, and how many each stands for."""
    n = z.shape[1]
    if k >= n:
        return jacobian(decoder, z), 1.0
    return columns(decoder, z, without_replacement(uniform, k)), n / k


def some_rows(
    decoder: Map, z: Float[Tensor, "batch latent"], uniform: Float[Tensor, "batch k"]
) -> tuple[Float[Tensor, "batch some latent"], float]:
    """``k`` rows of each point's Jacobian, and how many each stands for."""
    n, k = check_answer(decoder(z[:1]), z[:1]).shape[-1], uniform.shape[-1]
    if k >= n:
        return jacobian(decoder, z), 1.0
    return rows(decoder, z, by_strata(uniform, n)), n / k


def slopes(
    decoder: Map, z: Float[Tensor, "batch latent"], v: Float[Tensor, "batch probe latent"], step: float | None
) -> Float[Tensor, "batch observed probe"]:
    """First derivatives along probes: forward differences of a step, or exact without one.

    >>> slopes(lambda z: z**2, torch.ones(1, 1), torch.ones(1, 1, 1), 0.5)
    tensor([[[2.5000]]])
    """
    if step is None:
        return directional(decoder, z, v)
    x = _at(decoder, z, torch.cat([torch.zeros_like(v[:, :1]), step * v], dim=1))
    return (x[..., 1:] - x[..., :1]) / step


def bends(
    decoder: Map, z: Float[Tensor, "batch latent"], v: Float[Tensor, "batch probe latent"], step: float | None
) -> Float[Tensor, "batch observed probe"]:
    """Second derivatives along probes: central differences of a step, or exact without one.

    >>> bends(lambda z: z**2, torch.ones(1, 1), torch.ones(1, 1, 1), 0.5)
    tensor([[[2.]]])
    """
    if step is None:
        return mixed(decoder, z, torch.stack([v, v], dim=2), None)
    x = _at(decoder, z, torch.cat([torch.zeros_like(v[:, :1]), step * v, -step * v], dim=1))
    ahead, behind = x[..., 1:].chunk(2, dim=-1)
    return (ahead - 2 * x[..., :1] + behind) / step**2


def mixed(
    decoder: Map, z: Float[Tensor, "batch latent"], v: Float[Tensor, "batch probe order latent"], step: float | None
) -> Float[Tensor, "batch observed probe"]:
    """Mixed derivatives along each point's own tuples of directions: alternating forward differences, or exact.

    >>> axes = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    >>> mixed(lambda z: z[:, :1] * z[:, 1:] ** 2, torch.tensor([[2.0, 3.0]]), axes, None)
    tensor([[[6.]]])
    """
    if step is None:
        return vmap(lambda directions: _nested(decoder, z, directions), in_dims=1, out_dims=-1)(v)
    subsets = torch.cartesian_prod(*[torch.arange(2, device=z.device)] * v.shape[2]).to(z.dtype)
    moves = step * torch.einsum("so,bpol->bpsl", subsets, v)
    x = _at(decoder, z, moves.flatten(1, 2)).unflatten(-1, moves.shape[1:3])
    return (x * (1 - 2 * subsets).prod(dim=-1)).sum(dim=-1) / (-step) ** v.shape[2]


def _nested(decoder: Map, z: Tensor, directions: Tensor) -> Tensor:
    """The derivative along one tuple of directions (batch, order, latent), by forward mode in forward mode."""
    if directions.shape[1] == 0:
        return decoder(z)
    inner, outer = directions[:, :-1], directions[:, -1:]
    return directional(lambda y: _nested(decoder, y, inner), z, outer)[..., 0]


def precise(decoder: Map, z: Tensor) -> tuple[Map, Tensor]:
    """The decoder outside autocast and the points in single precision at least: differences lose digits."""
    kind = z.device.type
    if not torch.is_autocast_enabled(kind):
        return decoder, z

    def outside(y: Tensor) -> Tensor:
        with torch.autocast(kind, enabled=False):
            return decoder(y)

    return outside, z.to(torch.promote_types(z.dtype, torch.float32))


def _at(decoder: Map, z: Tensor, moves: Tensor) -> Tensor:
    """The decoder's values beside each point, in one pass, as (batch, observed, move)."""
    batch, number, _ = moves.shape
    f, z = precise(decoder, z)
    places = (z[:, None] + moves).flatten(0, 1)
    x = check_answer(f(places), places)
    return x.unflatten(0, (batch, number)).movedim(1, -1)


@dataclass(frozen=True)
class Probing(Penalty):
    """What penalties that probe a decoder with random signs share: ``probes``, ``step``, ``reduction``."""

    probes: int | None = 2
    step: float | None = 0.1
    reduction: str = "max"

    needs_scale = True

    def __post_init__(self) -> None:
        if self.probes is not None:
            checks.count(self.probes, "probes", minimum=2)
        if self.step is not None:
            checks.number(self.step, "step", minimum=1e-12)
        checks.one_of(self.reduction, "reduction", ("max", "mean"))

    def draws(self, rows: int, n_latents: int, generator: torch.Generator) -> Draws:
        """Independent fair signs, where there are probes."""
        if self.probes is None:
            return {}
        return {"probes": 2.0 * torch.randint(0, 2, (rows, self.probes, n_latents), generator=generator) - 1}

    def reduced(self, values: Tensor) -> Tensor:
        """The largest value, or the mean."""
        return values.amax() if self.reduction == "max" else values.mean()
