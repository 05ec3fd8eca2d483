"""Trust: what is known of one latent of a fit, in the order in which it is asked.

In use: the share of what the model explains that is lost without it, and the columns it moves. Found again: how well
refits on two disjoint halves of the rows, with other seeds, have it too, on rows that neither saw, beside random bases
of the same latents. Pinned down: the certificate's verdict, and the share of refits whose certificate says the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from noumena import seeds
from noumena.derivatives.strength import jacobians, within

AGAIN = 0.9
"""Rank correlation from which on a latent counts as found again,"""
CHANCE_LEVEL = 0.75
"""where it is more than so many random bases of the same latents reach."""
BASES = 200
SHUFFLES = 100
SHOWN_COLUMNS = 5
FAINT = 0.05
"""Columns of which a latent moves less than this are not listed."""


@dataclass(frozen=True)
class MovedColumn:
    """A column that a latent moves: by how much of its spread, and in which direction on average."""

    name: str
    strength: float
    sign: str
    """``+`` or ``−``, or ``±`` where it depends on the rows."""

    def __str__(self) -> str:
        return f"{self.sign}{self.name} {self.strength:.2f}"


@dataclass(frozen=True)
class LatentTrust:
    """What is known of one latent."""

    name: str
    share: float
    """Of the variance that the model explains: what is lost when the latent is shuffled among rows, halved."""
    columns: tuple[MovedColumn, ...]
    """Those it moves, the strongest first."""
    found_again: float | None
    """The lowest rank correlation with the latent that stands for it in either half and between them; ``None`` where
    there were no halves."""
    chance: float | None
    """What three in four random bases of the same latents stay below."""
    answer: str
    """The certificate's: identified, open or not identified."""
    agreeing: int
    refits: int
    """Refits whose certificate gives that answer for this latent, of so many."""
    reason: str

    @property
    def is_found_again(self) -> bool:
        """Whether refits on other rows have it."""
        return self.found_again is not None and self.chance is not None and self.found_again >= max(AGAIN, self.chance)

    @property
    def is_pinned_down(self) -> bool:
        """Whether it is found again, and the certificate of the fit and of most refits calls it identified."""
        return self.answer == "identified" and self.is_found_again and 2 * self.agreeing > self.refits

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with both marks."""
        return asdict(self) | {"is_found_again": self.is_found_again, "is_pinned_down": self.is_pinned_down}


def shares(decode: Any, z: Float[torch.Tensor, "batch latent"], *, seed: int = 0) -> Float[np.ndarray, " latent"]:
    """Of every latent, the share of the variance of a decoder's observations that is lost when it is shuffled among
    rows, all columns in units of their spread; of latents that add up, the shares add up to 1.

    >>> z = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0))
    >>> shares(lambda z: z @ torch.tensor([[2.0, 0.0], [0.0, 1.0]]), z).round(1)
    array([0.5, 0.5])
    """
    generator = seeds.generator(seed, "shuffled latents")
    with torch.no_grad():
        x = decode(z)
        scale = x.std(dim=0).clamp_min(torch.finfo(x.dtype).tiny)
        total = ((x - x.mean(dim=0)) / scale).square().mean()
        lost = []
        for j in range(z.shape[1]):
            other = z.clone()
            other[:, j] = z[torch.randperm(len(z), generator=generator), j]
            lost.append(float(((x - decode(other)) / scale).square().mean() / 2 / total))
    return np.array(lost)


def moved(decode: Any, z: Float[torch.Tensor, "batch latent"], names: list[str]) -> list[tuple[MovedColumn, ...]]:
    """Of every latent, the columns that it moves, the strongest first."""
    few = z[: within(len(z), len(names), z.shape[1])]
    J = torch.cat(list(jacobians(decode, few, len(names)))).double().cpu()
    with torch.no_grad():
        unit = z.std(dim=0).double().cpu() / decode(z).std(dim=0).clamp_min(1e-12).double().cpu()[:, None]
    size, mean = (J.abs().mean(dim=0) * unit).numpy(), (J.mean(dim=0) * unit).numpy()
    found = []
    for j in range(size.shape[1]):
        order = [i for i in np.argsort(-size[:, j]) if size[i, j] > FAINT]
        signs = ["±" if abs(mean[i, j]) < size[i, j] / 2 else "+" if mean[i, j] > 0 else "−" for i in order]
        found.append(tuple(MovedColumn(names[i], float(size[i, j]), s) for i, s in zip(order, signs, strict=True)))
    return found


def rank_correlations(
    z: Float[np.ndarray, "batch latent"], other: Float[np.ndarray, "batch found"]
) -> Float[np.ndarray, "latent found"]:
    """``|ρ|`` of Spearman between the latents of two models.

    >>> z = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0], [3.0, 2.0]])
    >>> rank_correlations(z, -np.exp(z)).diagonal()
    array([1., 1.])
    """
    ranks = [rankdata(v, axis=0) for v in (z, other)]
    units = [(r - r.mean(axis=0)) / (r.std(axis=0) * len(r) ** 0.5).clip(1e-12) for r in ranks]
    return np.abs(units[0].T @ units[1]).clip(0, 1).round(12)


def matched(
    z: Float[np.ndarray, "batch latent"], other: Float[np.ndarray, "batch found"]
) -> tuple[Int[np.ndarray, " latent"], Float[np.ndarray, " latent"]]:
    """The latent of another model that stands for each, one for one, and their correlation; −1 and 0 without one."""
    r = rank_correlations(z, other)
    rows, columns = linear_sum_assignment(-r)
    place, score = np.full(len(r), -1), np.zeros(len(r))
    place[rows], score[rows] = columns, r[rows, columns]
    return place, score


def chance(z: Float[np.ndarray, "batch latent"], *, seed: int = 0) -> float:
    """The correlation that a latent reaches with a random basis of the same latents, in three of four cases less; of
    one latent, with its own values in another order."""
    rng = seeds.numpy_generator(seed, "random bases")
    d = z.shape[1]
    white = (z - z.mean(axis=0)) @ _whitening(z)
    found = []
    for _ in range(BASES if d > 1 else SHUFFLES):
        if d == 1:
            found.append(rank_correlations(z, rng.permutation(z)).ravel())
            continue
        Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
        found.append(matched(white, white @ Q)[1])
    return float(np.quantile(np.concatenate(found), CHANCE_LEVEL))


def _whitening(z: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(z.T)))
    return vectors / np.sqrt(values.clip(1e-12)) @ vectors.T
