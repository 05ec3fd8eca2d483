"""Networks of orthogonal layers: every weight has orthonormal columns (or rows), whatever a training step does to it.

A weight is a product of as many Householder reflections as it has columns. The product is computed at once,
``I − V T Vᵀ`` with a triangular ``T`` (the compact WY form), and polished by one Newton step. It is exact to rounding
for any parameters, differentiable, and runs inside ``torch.func.vmap``.

References
----------
Nelson et al. (2026), "Statistical and structural identifiability in representation learning", Section 4.1 and A.7.1;
Likhosherstov et al. (2021), "CWY parametrization: a solution for parallelized optimization of orthogonal and Stiefel
matrices".

Deviations: Nelson et al. do not say how layers are kept orthogonal. ``torch.nn.utils.parametrizations.orthogonal``
uses
the same reflections for weights that are not square, one after the other and with zeros above the diagonal of ``V``;
here all entries are free. A square weight keeps the determinant it starts with, as under every continuous
parametrisation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks


def householder_columns(V: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """The first columns of ``H₁ ⋯ Hₙ``, ``Hⱼ`` the Householder reflection along ``V``'s j-th column.

    Invariant to the length of a column of ``V``; none may be zero, and no more columns than rows.

    >>> householder_columns(torch.tensor([[3.0], [3.0]]))  # the reflection along (1, 1) sends (1, 0) to (0, -1)
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
    """A linear layer without bias with orthonormal columns (rows, where it narrows), initialised uniformly (Haar)."""

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
        columns = householder_columns(self.directions) * self.signs
        return columns if self.out_features >= self.in_features else columns.mT


@dataclass(frozen=True)
class Orthogonal:
    """Builder of a network of orthogonal layers without bias, and leaky ReLUs between them.

    A network that never narrows, as a decoder, is locally bi-Lipschitz: its Jacobian has singular values in
    ``[slope^K, 1]`` with K activations. With slope 1 the network is linear.

    Parameters
    ----------
    hidden : tuple of int
        Hidden widths.
    slope : float
        Negative slope of the leaky ReLUs, at most 1.

    Examples
    --------
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
