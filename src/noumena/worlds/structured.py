"""Structured worlds: ``x_i = a_i·z + strength · MLP_i(z_{I_i})``, each observation a function of its own latents.

Each ``MLP_i`` has one hidden leaky-ReLU(0.2) layer. Linear weights are U(0.7, 1.3) on the whole support, three in ten
of
them negative: with evenly random signs the columns are nearly orthogonal and principal components already solve the
world, with one sign for all a square world is nearly singular.

References
----------
Zheng et al. (2026), "Diverse Dictionary Learning", Section 5 (synthetic data).

Deviations: the paper has d_x = d_z; here d_x ≥ d_z. The decoder is verified when built, on ``PROBES`` latent points:
the
support is exact, the Jacobian has full column rank with a margin, no pair of points is folded together, the
determinant
keeps one sign when square, each row's gradients span its support (sufficient nonlinearity) and every dependency has a
least share of its observation's spread. Rows that fail are drawn again, and so is a whole world without full rank.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from noumena import checks, seeds
from noumena.checks import InputError
from noumena.deprecated import renamed
from noumena.derivatives.strength import shares
from noumena.structure import Structure
from noumena.worlds.laws import Law, law_of
from noumena.worlds.world import World

HIDDEN = 16
SLOPE = 0.2
NEGATIVE = 0.3
PROBES = 2000
SECANT_MARGIN = 0.1
SPAN_MARGIN = 0.01
LEAST_SHARE = 0.15
"""Least ``mean |∂x_i/∂z_j| · sd(z_j) / sd(x_i)`` of a dependency."""
MOST_DRAWS = 500


class RowNetworks(nn.Module):
    """All rows' networks side by side, their first layer masked to each row's support."""

    linear: Tensor
    inner: Tensor
    offset: Tensor
    outer: Tensor

    def __init__(self, support: Tensor, generator: torch.Generator):
        super().__init__()
        d_x, d_z = support.shape
        mask = support.to(torch.float64)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        size = 0.7 + 0.6 * torch.rand(d_x, d_z, generator=generator, dtype=torch.float64)
        negative = torch.rand(d_x, d_z, generator=generator, dtype=torch.float64) < NEGATIVE
        self.register_buffer("linear", mask * size * torch.where(negative, -1.0, 1.0))
        self.register_buffer("inner", mask[:, None, :] * normal(d_x, HIDDEN, d_z))
        self.register_buffer("offset", normal(d_x, HIDDEN))
        self.register_buffer("outer", normal(d_x, HIDDEN))

    def parts(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The linear and the nonlinear part of every observation."""
        hidden = torch.einsum("...l,xhl->...xh", z, self.inner) + self.offset
        return z @ self.linear.mT, (F.leaky_relu(hidden, SLOPE) * self.outer).sum(dim=-1)

    def jacobian(self, z: Tensor) -> Tensor:
        """The Jacobian at each point in closed form, (batch, observed, latent)."""
        hidden = torch.einsum("...l,xhl->...xh", z, self.inner) + self.offset
        slopes = self.outer * (SLOPE + (1 - SLOPE) * (hidden > 0).to(hidden))
        return self.linear + torch.einsum("...xh,xhl->...xl", slopes, self.inner)

    def balance(self, z: Tensor, strength: float) -> None:
        """Scale the nonlinear part to ``strength`` times the linear part's spread, row by row."""
        linear, curved = self.parts(z)
        self.outer *= (strength * linear.std(dim=0) / curved.std(dim=0))[:, None]

    def take(self, other: RowNetworks, rows: Tensor) -> None:
        """Replace some rows by another's."""
        for mine, theirs in zip(self.buffers(), other.buffers(), strict=True):
            mine[rows] = theirs[rows]

    def forward(self, z: Tensor) -> Tensor:
        """Noise-free observations."""
        linear, curved = self.parts(z.to(self.linear.dtype))
        return (linear + curved).to(z.dtype)


@renamed(seed="random_state")
def structured(
    structure: Structure,
    *,
    law: str | Law = "gaussian",
    strength: float = 0.5,
    noise: float = 0.0,
    margin: float = 0.02,
    random_state: Any = 0,
) -> World:
    """A world with exactly the given structure, verified when built.

    Parameters
    ----------
    structure : Structure or array of bool of shape (n_observed, n_latents)
        Which observation depends on which latent.
    law : str or Law
        Law of the latents.
    strength : float
        Spread of each observation's nonlinear part relative to its linear part.
    noise : float
        Standard deviation of the observation noise.
    margin : float
        Least ratio of the smallest to the largest singular value of the Jacobian, at every probe.
    random_state : int, Generator or None
        Seed of the world.

    Returns
    -------
    World

    Examples
    --------
    >>> world = structured(Structure([[1, 0], [1, 1], [0, 1]]), random_state=1)
    >>> world.sample(5).x.shape
    (5, 3)
    """
    seed = seeds.seed_of(random_state)
    structure = structure if isinstance(structure, Structure) else Structure(structure)
    checks.require(
        structure.n_observed >= structure.n_latents,
        "A world must have at least as many observations as latents.",
        f"{structure}",
    )
    checks.require(
        bool(structure.dense.any(axis=1).all()), "Every observation of a world must depend on a latent.", "an empty row"
    )
    checks.number(strength, "strength", minimum=0)
    checks.number(noise, "noise", minimum=0)
    checks.number(margin, "margin", minimum=0, maximum=1)
    latents = law_of(law, structure.n_latents, random_state=seed)
    z = latents.draw(PROBES, seeds.generator(seed, "probes"))
    support = torch.as_tensor(structure.dense)
    decoder, worthy = None, torch.zeros(len(support), dtype=torch.bool)
    for draw in range(MOST_DRAWS):
        fresh = RowNetworks(support, seeds.generator(seed, "decoder", draw)).requires_grad_(False)
        fresh.balance(z, strength)
        decoder = fresh if decoder is None or worthy.all() else decoder
        decoder.take(fresh, ~worthy)
        J = decoder.jacobian(z)
        worthy = _worthy(J, z, decoder(z), support, strength)
        if not worthy.all():
            continue
        facts = _facts(J, support) | {"secant margin": secants(decoder, z)}
        unfolded = facts["orientation kept"] and facts["secant margin"] > SECANT_MARGIN
        if unfolded and facts["rank margin"] > margin:
            return World(structure, latents, decoder, noise=noise, seed=seed, facts=facts)
    raise InputError(
        f"A world must be injective with a margin, have gradients that span each row and no faint "
        f"dependency. Got none in {MOST_DRAWS} draws for {structure} with strength {strength}; lower the strength."
    )


def _worthy(J: Tensor, z: Tensor, x: Tensor, support: Tensor, strength: float) -> Tensor:
    """Which rows have no faint dependency and gradients that span their support."""
    clear = torch.where(support, shares(J, z, x), torch.inf).amin(dim=1) > LEAST_SHARE
    spans = torch.tensor([_span(J[:, i, support[i]]) > SPAN_MARGIN for i in range(len(support))])
    return clear & spans if strength > 0 else clear


def _facts(J: Tensor, support: Tensor) -> dict[str, float]:
    assert bool(((J.abs().amax(dim=0) > 0) == support).all()), "the decoder's support must be the structure"
    singular = torch.linalg.svdvals(J)
    square = support.shape[0] == support.shape[1]
    orientation = torch.linalg.det(J).sign() if square else torch.ones(1)
    return {
        "rank margin": float((singular[:, -1] / singular[:, 0]).min()),
        "orientation kept": float((orientation == orientation[0]).all()),
        "span margin": min(_span(J[:, i, support[i]]) for i in range(len(support))),
    }


def secants(decoder: nn.Module, z: Tensor, size: int = 1) -> float:
    """Smallest over largest stretch ``‖g(z) − g(z')‖ / ‖z − z'‖`` over pairs of points: 0 where g folds.

    Pairs differ in one slot of ``size`` latents or in all; a fold at a kink of the networks shows here and not in any
    Jacobian.
    """
    others = z.roll(1, dims=0)
    stretches = []
    for which in [*(slice(j, j + size) for j in range(0, z.shape[1], size)), slice(None)]:
        moved = z.clone()
        moved[:, which] = others[:, which]
        stretches.append((decoder(moved) - decoder(z)).norm(dim=1) / (moved - z).norm(dim=1))
    return float(torch.cat(stretches).min() / torch.cat(stretches).max())


def _span(gradients: Tensor) -> float:
    """Smallest over largest singular value of a row's sampled gradients: 0 when they do not span its support."""
    singular = torch.linalg.svdvals(gradients)
    return float(singular[-1] / singular[0])
