"""Orthogonality: the columns of the decoder's Jacobian should stand at right angles.

References: Wei et al. (2021), orthogonal Jacobian regularization (OroJaR); Gresele et al. (2021), independent mechanism
analysis (the IMA contrast).

**OroJaR.** The quantity is ``2 Σ_{a≠b} (JᵀJ)_ab²``: for fair signs ``v`` and a symmetric ``A`` the variance of ``vᵀAv``
is ``2 Σ_{a≠b} A_ab²``, and ``vᵀ(JᵀJ)v = ‖Jv‖²``. Published: two probes per point, ``Jv`` by the forward difference
``(f(z + εv) − f(z))/ε`` with ``ε = 0.1``, squared norm over observations, unbiased variance over the probes, maximum
over the batch. The paper writes the sum without the factor 2; the estimator has it, and so have all forms here.
**IMA.** ``Σ_j log‖J_j‖ − ½ logdet JᵀJ ≥ 0`` (Hadamard) is computed as ``−½ logdet`` of the columns' cosines.

Deviations: OroJaR can take exact derivatives (``step=None``), all latents in place of probes (``probes=None``) and the
mean over the batch, whose estimate is unbiased while that of a maximum is not. The cosines of IMA are shrunk by
``16·eps`` towards orthogonality, so that parallel columns cost a large but finite amount; a column that vanishes has
no direction and counts as orthogonal to the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from noumena import checks
from noumena.adopt.modules import check_decoder
from noumena.derivatives import Map, jacobian
from noumena.penalties.penalty import Draws, Penalty
from noumena.penalties.sketches import Probing, slopes


def off_diagonal(A: Float[Tensor, "*batch latent latent"]) -> Float[Tensor, "*batch latent latent"]:
    """The matrix with its diagonal set to zero.

    >>> off_diagonal(torch.ones(2, 2))
    tensor([[0., 1.],
            [1., 0.]])
    """
    return A * (1 - torch.eye(A.shape[-1], dtype=A.dtype, device=A.device))


def orojar(J: Float[Tensor, "batch observed latent"]) -> Float[Tensor, " batch"]:
    """Each point's ``2 Σ_{a≠b} (JᵀJ)_ab²``; zero iff the columns are orthogonal, ignores their order and signs.

    >>> orojar(torch.tensor([[[1.0, 2.0], [0.0, 5.0]]]))
    tensor([16.])
    """
    return 2 * off_diagonal(J.mT @ J).square().sum(dim=(-2, -1))


def orojar_of_probes(slopes: Float[Tensor, "batch observed probe"]) -> Float[Tensor, " batch"]:
    """Each point's unbiased variance of ``‖Jv‖²`` over probes, which estimates ``orojar`` where the signs are fair.

    >>> orojar_of_probes(torch.tensor([[[3.0, -1.0], [5.0, -5.0]]]))
    tensor([32.])
    """
    return slopes.square().sum(dim=-2).var(dim=-1)


def ima_contrast(J: Float[Tensor, "batch observed latent"]) -> Float[Tensor, ""]:
    """Mean over points of ``Σ_j log‖J_j‖ − ½ logdet JᵀJ``; zero iff columns are orthogonal, ignores their lengths.

    >>> ima_contrast(torch.tensor([[[3.0, 1.0], [4.0, 0.0]]]))  # cosine 3/5: -½ log(1 - 9/25)
    tensor(0.2231)
    """
    J = J.to(torch.promote_types(J.dtype, torch.float32))
    with torch.autocast(J.device.type, enabled=False):
        size = J.detach().abs().amax(dim=-2, keepdim=True)  # so that no square overflows; the contrast ignores lengths
        J = J / torch.where(size >= torch.finfo(J.dtype).tiny, size, 1)
        gram = J.mT @ J
    lengths = gram.diagonal(dim1=-2, dim2=-1)
    unit = torch.where(lengths > 0, lengths, 1).rsqrt()
    cosines = (1 - 16 * torch.finfo(J.dtype).eps) * off_diagonal(gram * unit[..., None] * unit[..., None, :])
    return -torch.linalg.slogdet(cosines + torch.eye(J.shape[-1], dtype=J.dtype, device=J.device)).logabsdet.mean() / 2


@dataclass(frozen=True)
class OroJaR(Probing):
    """Orthogonal Jacobian regularization: latents should move the observations in orthogonal directions.

    Parameters: ``probes`` random signs per point, ``None`` for every latent direction; ``step`` of the forward
    differences, ``None`` for exact derivatives; ``reduction`` over the batch, ``"max"`` (published) or ``"mean"``.
    ``OroJaR(None, None, "mean")`` is exact. Zero iff the Jacobian's columns are orthogonal; ignores the order and the
    signs of latents and rotations of observations; shrinks with growing latents, so their scale must be fixed.

    >>> OroJaR(None, None)(lambda z: z @ torch.tensor([[1.0, 0.0], [2.0, 5.0]]), torch.zeros(4, 2))
    tensor(16.)
    """

    def __call__(self, decoder: Map, z: Tensor, progress: float = 1.0, draws: Draws | None = None) -> Tensor:
        """The penalty at points ``z``."""
        decoder, z = check_decoder(decoder, z)
        if self.probes is not None:
            v = self.drawn(z, draws)["probes"]
            return self.reduced(orojar_of_probes(slopes(decoder, z, v, self.step)))
        if self.step is None:
            return self.reduced(orojar(jacobian(decoder, z)))
        axes = torch.eye(z.shape[1], dtype=z.dtype, device=z.device).expand(len(z), -1, -1)
        return self.reduced(orojar(slopes(decoder, z, axes, self.step)))


@dataclass(frozen=True)
class IMAContrast(Penalty):
    """Independent mechanism analysis: orthogonal columns of the Jacobian, whatever their lengths.

    Zero iff the columns are orthogonal; ignores order, signs and scales of latents (also element-wise maps of them)
    and rotations of observations, so that no scale must be fixed. Needs at least as many observations as latents.

    >>> IMAContrast()(lambda z: z @ torch.tensor([[1.0, 1.0], [-9.0, 9.0]]), torch.zeros(4, 2)) < 1e-6
    tensor(True)
    """

    points: int | None = None

    def __post_init__(self) -> None:
        if self.points is not None:
            checks.count(self.points, "points")

    def __call__(self, decoder: Map, z: Tensor, progress: float = 1.0, draws: Draws | None = None) -> Tensor:
        """The contrast at points ``z``."""
        decoder, z = check_decoder(decoder, z)
        J = jacobian(decoder, z[: self.points])
        observed, latents = J.shape[-2:]
        must = "The IMA contrast must have at least as many observations as latents."
        checks.require(observed >= latents, must, f"{observed} observations of {latents} latents")
        return ima_contrast(J)
