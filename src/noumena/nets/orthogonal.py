"""Networks of orthogonal layers: every weight has orthonormal columns (or rows), whatever a training step does to it.

A weight is the product of as many Householder reflections as it has columns, applied to the first axes. The product is
computed at once, ``I − V T Vᵀ`` with a triangular ``T`` (the compact WY form): two products and one triangular solve,
and one step towards the nearest orthonormal columns, for digits cancel where reflections are along nearly one
direction. It is exact to rounding for any parameters, differentiable, and runs inside ``torch.func.vmap``.

Reference: Nelson et al. (2026), Section 4.1 and A.7.1; Likhosherstov et al. (2021), *CWY parametrization: a solution
for parallelized optimization of orthogonal and Stiefel matrices*. **Deviations**: the paper does not say how its layers
are kept orthogonal. Torch's own ``parametrizations.orthogonal`` uses the same reflections for weights that are not
square, one after the other and with zeros above the diagonal of ``V``; here all entries are free. A square weight keeps
the determinant it starts with, as under every continuous parametrisation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks


def frame(V: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """Orthonormal columns: the first ones of ``H₁ ⋯ Hₙ``, ``Hⱼ`` the reflection along ``V``'s j-th column.

    The length of a column of ``V`` is of no consequence; none may be zero, and no more columns than rows.

    >>> frame(torch.tensor([[3.0], [3.0]]))  # the reflection along (1, 1) sends (1, 0) to (0, -1)
    tensor([[ 0.],
            [-1.]])
    """
    rows, columns = V.shape
    gram = V.mT @ V
    inverse = gram.triu(1) + torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1)) / 2  # T⁻¹ of I − V T Vᵀ
    axes = torch.eye(rows, columns, dtype=V.dtype, device=V.device)
    Q = axes - V @ torch.linalg.solve_triangular(inverse, V[:columns].mT, upper=True)
    return 1.5 * Q - 0.5 * Q @ (Q.mT @ Q)  # Newton's step squares what rounding left


class OrthogonalLinear(nn.Linear):
    """A linear layer without bias: an isometry into more outputs, or the transpose of one into fewer.

    It starts anywhere among such layers with equal chance (Haar), from torch's global stream.
    """

    signs: Tensor
    bias: None

    def __init__(self, in_features: int, out_features: int):
        nn.Module.__init__(self)
        self.in_features, self.out_features = in_features, out_features
        self.register_parameter("bias", None)
        rows, columns = max(in_features, out_features), min(in_features, out_features)
        reflected, _ = torch.geqrf(torch.randn(rows, columns, dtype=torch.float64))
        signs = torch.where(reflected.diagonal() < 0, -1.0, 1.0)  # R with a positive diagonal makes Q uniform
        directions = reflected.tril(-1) + torch.eye(rows, columns, dtype=torch.float64)
        self.directions = nn.Parameter(directions.to(torch.get_default_dtype()))
        self.register_buffer("signs", signs.to(torch.get_default_dtype()))

    @property
    def weight(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The weight ``(outputs, inputs)``, computed anew at every call."""
        columns = frame(self.directions) * self.signs
        return columns if self.out_features >= self.in_features else columns.mT


@dataclass(frozen=True)
class Orthogonal:
    """A builder: orthogonal layers without bias and leaky ReLUs of slope ``slope`` between them.

    A network that never narrows, as a decoder, is locally bi-Lipschitz: its Jacobian has singular values in
    ``[slope^K, 1]`` with K activations. With slope 1 the network is linear (and, never narrowing, an isometry).

    >>> z = torch.tensor([[3.0, 4.0]])
    >>> round(float(Orthogonal(hidden=(8,), slope=1.0)(2, 9)(z).detach().norm()), 4)
    5.0
    """

    hidden: tuple[int, ...] = (256, 64)
    slope: float = 0.2

    def __post_init__(self) -> None:
        checks.number(self.slope, "slope", minimum=0, maximum=1)
        for width in self.hidden:
            checks.count(width, "A hidden width")
        object.__setattr__(self, "hidden", tuple(self.hidden))

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        layers: list[nn.Module] = []
        width = inputs
        for following in self.hidden:
            layers += [OrthogonalLinear(width, following), nn.LeakyReLU(self.slope)]
            width = following
        return nn.Sequential(*layers, OrthogonalLinear(width, outputs))
