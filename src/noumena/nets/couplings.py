"""Coupling networks: invertible maps ``x ↦ u`` with exact inverse and log-determinant.

Coordinates are split in two parts, which take turns: a block changes one part element by element, conditioned on the
other; after both have changed, a fixed random permutation mixes the coordinates. ``VolumePreserving`` demands that the
log-scales of each change add up to zero, so that ``|det| = 1`` everywhere.

References
----------
Sorrenson et al. (2020), "Disentanglement by nonlinear ICA with general incompressible-flow networks (GIN)", for the
volume-preserving blocks and the soft clamp; Durkan et al. (2019), "Neural spline flows", for the rational-quadratic
splines (zuko's).

Deviations: a block of GIN changes both parts, i.e. is two of ours; the log-scales are centred, where the paper sets
the
last to minus the sum of the others, which the clamp then does not bound; the sub-networks' last layers start at a
tenth
of their usual size, so that a network starts near a permutation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks
from noumena.nets.mlp import MLP

START = 0.1
"""Factor on the initial weights of the sub-networks' last layers."""


def soft_clamp(s: Float[Tensor, "*shape"], clamp: float) -> Float[Tensor, "*shape"]:
    """``clamp · 2/π · atan(s / clamp)``: odd, increasing, zero only at zero, within ``±clamp``.

    >>> soft_clamp(torch.tensor([0.0, 2.0, -2.0]), 2.0)
    tensor([ 0.,  1., -1.])
    """
    return (s * (1 / clamp)).atan() * (clamp * 2 / torch.pi)  # a division would cost forward mode five products


def centred(s: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Log-scales that add up to zero, i.e. keep volume; zero iff all are equal, blind to a common shift.

    >>> centred(torch.tensor([1.0, 3.0]))
    tensor([-1.,  1.])
    """
    return s - s.mean(dim=-1, keepdim=True)


class Affine(nn.Module):
    """Affine coupling ``y = x · exp(s) + t``, ``s`` and ``t`` from the other part; ``balanced`` keeps volume."""

    def __init__(self, condition: int, changed: int, *, hidden: tuple[int, ...], clamp: float, balanced: bool):
        super().__init__()
        self.changed, self.clamp, self.balanced = changed, clamp, balanced
        scales = 0 if balanced and changed == 1 else changed  # one number that must be zero needs no network
        self.net = _near_zero(MLP(hidden), condition, changed + scales)

    def _read(self, condition: Tensor) -> tuple[Tensor, Tensor]:
        out = self.net(condition)
        shift, raw = out[..., : self.changed], out[..., self.changed :]
        if raw.shape[-1] == 0:
            return torch.zeros_like(shift), shift
        s = soft_clamp(raw, self.clamp)
        return (centred(s) if self.balanced else s), shift

    def forward(self, x: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        """The changed part and the log-determinant."""
        s, t = self._read(condition)
        return x * s.exp() + t, s.sum(dim=-1)

    def inverse(self, y: Tensor, condition: Tensor) -> Tensor:
        """The part as it was."""
        s, t = self._read(condition)
        return (y - t) * (-s).exp()


class Spline(nn.Module):
    """A monotone rational-quadratic spline on ``±bound``, the identity outside; its knots depend on the other part."""

    def __init__(self, condition: int, changed: int, *, hidden: tuple[int, ...], bins: int, bound: float):
        super().__init__()
        self.sizes, self.bound = (bins, bins, bins - 1), bound
        self.net = _near_zero(MLP(hidden), condition, changed * sum(self.sizes))
        _splines()  # a missing package is said when the network is built

    def _read(self, condition: Tensor) -> Any:
        raw = self.net(condition).unflatten(-1, (-1, sum(self.sizes)))
        return _splines()(*raw.split(self.sizes, dim=-1), bound=self.bound)

    def forward(self, x: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        """The changed part and the log-determinant."""
        y, log_derivatives = self._read(condition).call_and_ladj(x)
        return y, log_derivatives.sum(dim=-1)

    def inverse(self, y: Tensor, condition: Tensor) -> Tensor:
        """The part as it was."""
        return self._read(condition).inv(y)


class CouplingNetwork(nn.Module):
    """Couplings of two parts in turn; ``forward(x) = (u, log|det ∂u/∂x|)`` and ``inverse(u) = x``."""

    order: Tensor
    back: Tensor

    def __init__(self, blocks: list[nn.Module], dim: int):
        super().__init__()
        self.cut = dim // 2
        self.blocks = nn.ModuleList(blocks)
        order = torch.stack([torch.randperm(dim) for _ in range((len(blocks) + 1) // 2)])
        self.register_buffer("order", order)
        self.register_buffer("back", order.argsort(dim=-1))

    def forward(self, x: Float[Tensor, "batch dim"]) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, " batch"]]:
        """The image of every row and its log-determinant."""
        total = torch.zeros_like(x[..., 0])
        a, b = self._parts(x)
        for k, change in enumerate(self.blocks):
            if k % 2 == 0:
                a, b = self._parts(torch.cat([a, b], dim=-1)[..., self.order[k // 2]])
                b, logdet = change(b, a)
            else:
                a, logdet = change(a, b)
            total = total + logdet
        return torch.cat([a, b], dim=-1), total

    def inverse(self, u: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        """The rows whose image is ``u``."""
        a, b = self._parts(u)
        for k in reversed(range(len(self.blocks))):
            undo: Any = self.blocks[k].inverse
            if k % 2 == 0:
                b = undo(b, a)
                a, b = self._parts(torch.cat([a, b], dim=-1)[..., self.back[k // 2]])
            else:
                a = undo(a, b)
        return torch.cat([a, b], dim=-1)

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[..., : self.cut], x[..., self.cut :]


@dataclass(frozen=True)
class VolumePreserving:
    """Builder of volume-preserving coupling networks, after GIN.

    With two dimensions each part is one number, whose scale must then be 1: only shears are left.

    Parameters
    ----------
    blocks : int
        Number of couplings.
    hidden : tuple of int
        Hidden widths of every sub-network.
    clamp : float
        Bound of the log-scales before they are centred.

    Examples
    --------
    >>> u, logdet = VolumePreserving(blocks=2)(5, 5)(torch.ones(3, 5))
    >>> u.shape, bool(logdet.abs().max() < 1e-5)
    (torch.Size([3, 5]), True)
    """

    blocks: int = 8
    hidden: tuple[int, ...] = (64, 64)
    clamp: float = 2.0

    def __post_init__(self) -> None:
        _check(self.blocks, self.hidden, self.clamp)
        object.__setattr__(self, "hidden", tuple(self.hidden))

    def __call__(self, inputs: int, outputs: int) -> CouplingNetwork:
        """The network, initialised from torch's global stream."""
        return _build(Affine, self.blocks, (inputs, outputs), hidden=self.hidden, clamp=self.clamp, balanced=True)


@dataclass(frozen=True)
class Coupling:
    """Builder of general coupling networks.

    Parameters
    ----------
    blocks : int
        Number of couplings.
    hidden : tuple of int
        Hidden widths of every sub-network.
    transform : {"affine", "spline"}
        Affine couplings, or monotone rational-quadratic splines (the extra ``noumena[flows]``).
    clamp : float
        Bound of the log-scales of affine couplings.
    bins, bound : int and float
        Pieces of a spline, on ``±bound``.

    Examples
    --------
    >>> net = Coupling(blocks=2)(3, 3)
    >>> x = torch.ones(4, 3)
    >>> bool(torch.allclose(net.inverse(net(x)[0]), x, atol=1e-5))
    True
    """

    blocks: int = 8
    hidden: tuple[int, ...] = (64, 64)
    transform: str = "affine"
    clamp: float = 2.0
    bins: int = 8
    bound: float = 5.0

    def __post_init__(self) -> None:
        _check(self.blocks, self.hidden, self.clamp)
        checks.one_of(self.transform, "transform", ("affine", "spline"))
        checks.count(self.bins, "bins", minimum=2)
        checks.number(self.bound, "bound", minimum=1e-6)
        object.__setattr__(self, "hidden", tuple(self.hidden))

    def __call__(self, inputs: int, outputs: int) -> CouplingNetwork:
        """The network, initialised from torch's global stream."""
        size = (inputs, outputs)
        if self.transform == "affine":
            return _build(Affine, self.blocks, size, hidden=self.hidden, clamp=self.clamp, balanced=False)
        return _build(Spline, self.blocks, size, hidden=self.hidden, bins=self.bins, bound=self.bound)


def _build(kind: Any, blocks: int, size: tuple[int, int], **settings: Any) -> CouplingNetwork:
    dim, outputs = size
    checks.require(dim == outputs, "A coupling network must have as many outputs as inputs.", f"{dim} and {outputs}")
    checks.require(dim >= 2, "A coupling network must have two dimensions or more.", f"{dim} feature(s)")
    a = dim // 2
    parts = [(a, dim - a), (dim - a, a)]
    return CouplingNetwork([kind(*parts[k % 2], **settings) for k in range(blocks)], dim)


def _check(blocks: Any, hidden: tuple[int, ...], clamp: Any) -> None:
    checks.count(blocks, "blocks", minimum=2)
    MLP(hidden)
    checks.number(clamp, "clamp", minimum=1e-6)


def _near_zero(builder: MLP, inputs: int, outputs: int) -> nn.Sequential:
    net = builder(inputs, outputs)
    with torch.no_grad():
        for parameter in net[-1].parameters():
            parameter.mul_(START)
    return net


def _splines() -> Any:
    return checks.package("zuko.transforms", "zuko", "A spline coupling", "flows").MonotonicRQSTransform
