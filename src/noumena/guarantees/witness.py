"""Witness: an explicit equivalent model with other latents, and the check that it is one.

A competitor says in words how latents could differ; a witness is that model: ``decode(ẑ)`` gives the observations,
``latents(z)`` its latents, ``inverse(ẑ)`` the way back. ``verify`` computes three things on fresh points: the
observations are the same, the dependencies are no more, and a latent is a mixture of two of the original ones (so that
no order and no element-wise map makes the two models equal). Where independence is demanded, also how dependent its
latents are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks
from noumena.adopt.modules import AdoptedDecoder
from noumena.derivatives import Map, jacobian
from noumena.derivatives.strength import relative_strength, shares, within
from noumena.guarantees import changes
from noumena.guarantees.changes import Change
from noumena.guarantees.competitors import Competitor, conditions
from noumena.structure import Structure

SHEARS = (0.5, 0.25, 0.1, 0.03)
"""Sizes of a shear in standard deviations; the largest that adds no dependency is used."""
LEAST_MIXING = 0.01
MOST_DEPENDENCE = 0.15
EXACT = 1e-6
"""Above this share of an observation's spread an entry of an exact model's Jacobian is a dependency."""
CHECKED = 128
ENTRIES = 2**20
"""Entries of Jacobians that a witness is checked by."""
JUDGED = 2048
BINS = 6


@dataclass(frozen=True)
class Model:
    """What a witness competes with: a decoder, points of its latents, and how its structure was read off."""

    decoder: Map
    points: Tensor
    """Latent points, double precision; the first half is for building, the second for verifying."""
    structure: Structure
    threshold: float = EXACT
    gaussian: bool = False
    """Whether every latent is known to be Gaussian."""

    @property
    def known(self) -> Tensor:
        """Points a witness may be built from."""
        return self.points[: len(self.points) // 2]

    @property
    def fresh(self) -> Tensor:
        """Points a witness is verified on."""
        return self.points[len(self.points) // 2 :]


@dataclass(frozen=True)
class Verification:
    """What was measured when a witness was checked."""

    observations: float
    """Largest difference between the two models' observations, in standard deviations."""
    dependencies: int
    allowed: int
    mixing: float
    """How much the latent that is asked for moves the new one, or the second strongest if that is less, as a share of
    its spread."""
    dependence: float
    """Cramér's V of the most dependent pair of new latents, corrected for chance."""
    independent: bool
    tolerance: float

    @property
    def holds(self) -> bool:
        """Same observations, no more dependencies, different latents; and independent ones where demanded."""
        equivalent = self.observations <= self.tolerance and self.dependencies <= self.allowed
        apart = self.mixing >= LEAST_MIXING
        return equivalent and apart and (not self.independent or self.dependence <= MOST_DEPENDENCE)

    def __str__(self) -> str:
        law = f", dependence between latents {self.dependence:.3f}" if self.independent else ""
        return (
            f"{'verified' if self.holds else 'not verified'}: observations differ by {self.observations:.1e} of their "
            f"spread, {self.dependencies} dependencies (allowed {self.allowed}), mixing {self.mixing:.2f}{law}"
        )


@dataclass(frozen=True)
class Witness:
    """An equivalent model; calling it decodes."""

    competitor: Competitor
    model: Model
    change: Change
    carries: int | None = None
    """The latent that is asked for, of those that the competitor carries; any where none is."""

    def latents(self, z: Any) -> Any:
        """The witness's latents at the original latents ``z``; numpy in, numpy out, a tensor in its precision."""
        return self._through(self.change.forward, z)

    def inverse(self, z_hat: Any) -> Any:
        """The original latents at the witness's latents; numpy in, numpy out."""
        return self._through(self.change.inverse, z_hat)

    def decode(self, z_hat: Any) -> Any:
        """The observations at the witness's latents; numpy in, numpy out."""
        return self._through(lambda v: self.model.decoder(self.change.inverse(v)), z_hat)

    def _through(self, function: Map, z: Any) -> Any:
        """A function of points, computed in double precision."""
        given = z if isinstance(z, Tensor) else torch.as_tensor(checks.table(z, "z"))
        d = self.model.points.shape[1]
        fits = given.ndim == 2 and given.shape[1] == d
        checks.require(fits, f"Points must be (batch, latent) with {d} latents.", f"shape {tuple(given.shape)}")
        found = function(given.to(self.model.points))
        if not isinstance(z, Tensor):
            return found.detach().cpu().numpy()
        return found.to(given) if given.is_floating_point() else found

    def __call__(self, z_hat: Any) -> Any:
        """Same as ``decode``: a witness is a decoder."""
        return self.decode(z_hat)

    @cached_property
    def module(self) -> nn.Module:
        """The witness as a module for further training; the decoder's parameters are its parameters."""
        return _Composed(self)

    def verify(self, z: Any = None, *, tolerance: float = 1e-6) -> Verification:
        """Measure, at latent points ``z`` (by default fresh ones), whether this is an equivalent model with other
        latents."""
        checks.number(tolerance, "tolerance", minimum=0)
        points = (
            self.model.fresh if z is None else torch.as_tensor(checks.table(z, "z", min_rows=2)).to(self.model.points)
        )
        few = points[: self._checked]
        x, z_hat = self.model.decoder(few), self.change.forward(few)
        missed = ((self.decode(z_hat) - x).abs().amax(dim=0) / x.std(dim=0)).max()
        strength = relative_strength(self.decode, z_hat)
        moves = self.moves(few)
        second = float(moves.sort(descending=True).values[1]) if len(moves) > 1 else 0.0
        return Verification(
            observations=float(missed.detach()),
            dependencies=int((strength > self.model.threshold).sum()),
            allowed=len(self.model.structure),
            mixing=second if self.carries is None else min(second, float(moves[self.carries])),
            dependence=dependence(self.change.forward(points[:JUDGED]).detach().cpu().numpy()),
            independent=self.competitor.kind in ("rotation", "triangular"),
            tolerance=tolerance,
        )

    @property
    def _checked(self) -> int:
        """Points at which Jacobians are compared, fewer of a wide decoder."""
        return within(CHECKED, self.model.structure.n_observed, self.model.structure.n_latents, entries=ENTRIES)

    def moves(self, z: Float[Tensor, "point latent"]) -> Float[Tensor, " latent"]:
        """How much each latent moves the one that takes the place of the competitor's, as a share of its spread."""
        moved = shares(jacobian(self.change.forward, z), z, self.change.forward(z))
        return moved[self.competitor.latent].detach()

    def __str__(self) -> str:
        return f"Witness ({self.competitor.kind}): {self.competitor.sentence}"


class _Composed(nn.Module):
    def __init__(self, witness: Witness):
        super().__init__()
        self.witness = witness
        decoder = witness.model.decoder
        while isinstance(decoder, AdoptedDecoder):
            decoder = decoder.decoder
        self.decoder = decoder if isinstance(decoder, nn.Module) else nn.Identity()

    def forward(self, z_hat: Tensor) -> Tensor:
        return self.witness.decode(z_hat)


def build(competitor: Competitor, model: Model, carries: int | None = None) -> Witness:
    """The witness of a competitor on a model, for one of the latents that it carries."""
    if competitor.kind == "shear":
        return _largest_shear(competitor, model)
    return Witness(competitor, model, _CHANGES[competitor.kind](competitor, model), carries)


def mixed(competitor: Competitor, model: Model) -> tuple[int, ...]:
    """The latents that the witness of a competitor carries, if it verifies; none where it does not."""
    try:
        witness = build(competitor, model)
        if not witness.verify().holds:
            return ()
        moves = witness.moves(model.fresh[: witness._checked])
    except RuntimeError:  # an equation without a solution: there is no such model
        return ()
    return tuple(r for r in competitor.carries if float(moves[r]) >= LEAST_MIXING)


def _largest_shear(competitor: Competitor, model: Model) -> Witness:
    t, r = competitor.latent, competitor.carries[0]
    spread = model.known.std(dim=0)
    witnesses = (
        Witness(competitor, model, changes.shear(t, r, size=float(s * spread[t]), width=float(spread[r])))
        for s in SHEARS
    )
    *others, last = witnesses
    return next((w for w in (*others, last) if w.verify().holds), last)


def _substitution(competitor: Competitor, model: Model) -> Change:
    return changes.substitution(model.decoder, [competitor.latent], competitor.rows, model.known)


def _observations(competitor: Competitor, model: Model) -> Change:
    d = model.structure.n_latents
    rows = competitor.rows or tuple(range(d))
    return changes.substitution(model.decoder, range(d), rows, model.known)


def _triangular(competitor: Competitor, model: Model) -> Change:
    """Its first latent is a function of one observation; it is moved to the place of the latent it stands for."""
    given = conditions(model.structure, competitor.rows)
    inner = changes.triangular(model.decoder, competitor.rows, given, model.known)
    order = list(range(model.structure.n_latents))
    order[0], order[competitor.latent] = order[competitor.latent], order[0]
    return Change(lambda z: inner.forward(z)[:, order], lambda z_hat: inner.inverse(z_hat[:, order]))


def _rotation(competitor: Competitor, model: Model) -> Change:
    S, t, r = model.structure, competitor.latent, competitor.carries[0]
    block = [j for j in S.closure(t) if t in S.closure(j)]
    partner = r if r in block else next(j for j in block if j != t)
    z = model.known
    score = changes.standardised if model.gaussian else changes.normal_score
    width = z[:, r].std()

    def angle(z: Tensor) -> Tensor:
        return torch.full_like(z[:, r], np.pi / 4) if r in block else torch.tanh(z[:, r] / width)

    return changes.rotation(t, partner, (score(z[:, t]), score(z[:, partner])), angle)


_CHANGES: dict[str, Callable[[Competitor, Model], Change]] = {
    "substitution": _substitution,
    "observations": _observations,
    "triangular": _triangular,
    "rotation": _rotation,
}


def dependence(z: np.ndarray) -> float:
    """How dependent the most dependent pair of columns is: Cramér's V of equally filled bins, corrected for chance.

    Zero for independent columns (up to sampling), one for columns that are functions of each other, and one where there
    are too few rows to fill the bins.

    >>> v = np.linspace(0, 1, 600)
    >>> round(dependence(np.stack([v, v], axis=1)), 3)
    1.0
    """
    return most_dependent(z)[0]


def most_dependent(z: np.ndarray) -> tuple[float, float]:
    """``dependence`` of columns, and how likely independent ones are to have a pair like the least likely of those that
    are more dependent than is allowed, at most.

    Equal values share a bin, and empty bins count for nothing:

    >>> coins = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 50)
    >>> most_dependent(coins)
    (0.0, 1.0)
    """
    from scipy.stats import chi2, rankdata

    n, d = z.shape
    if n <= BINS:
        return 1.0, 1.0
    bins = ((rankdata(z, axis=0) - 1) * BINS // n).astype(int)
    worst, chance = 0.0, 1.0
    for a in range(d):
        for b in range(a):
            table = np.bincount(bins[:, a] * BINS + bins[:, b], minlength=BINS**2).reshape(BINS, BINS)
            table = table[table.any(axis=1)][:, table.any(axis=0)]
            rows, columns = table.shape
            freedom = (rows - 1) * (columns - 1)
            if freedom == 0:
                continue
            expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / n
            statistic = float(((table - expected) ** 2 / expected).sum())
            fewest = min(k - (k - 1) ** 2 / (n - 1) for k in (rows, columns))
            value = float(np.sqrt(max(0.0, statistic / n - freedom / (n - 1)) / (fewest - 1)))
            worst = max(worst, value)
            if value > MOST_DEPENDENCE:
                chance = min(chance, d * (d - 1) / 2 * float(chi2.sf(statistic, freedom)))
    return min(1.0, worst), chance
