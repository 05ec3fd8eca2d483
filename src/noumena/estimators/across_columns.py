"""Prediction across columns: does a model predict each column from the others as well as a black box?

With ``x = g(z) + ε`` and noise that is independent from column to column, what the columns share is ``g(z)``. For a
column ``j`` the latents are found from the *other* columns,

    ``ẑ = argmin Σ_{i≠j} (x_i − g_i(z))²/σ_i² + (z − c)ᵀ P (z − c)``,

by damped Gauss-Newton steps on all rows at once, and ``g_j(ẑ)`` is the prediction; ``c`` and ``P`` are the mean and
precision of the codes of the training rows, ``σ_i²`` the variance that the model leaves of column ``i`` there. Beside
it stands the better of the ``peers``. Reconstruction rises with every superfluous latent; this does not, since a latent
that copies one column helps no other. It is bi-cross-validation (Owen and Perry, 2009) for a nonlinear model.

The same modes, of all columns, tell whether the noise is independent: if it is, what is left over of two columns
correlates only by as much as finding ``z`` from both makes it, which is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import norm
from torch import Tensor

from noumena import seeds
from noumena.derivatives import differentiate
from noumena.estimators.peers import predicted_by_peers
from noumena.estimators.refit.masked import MaskedDecoder

COLUMNS = 24
"""Columns that are left out in turn, evenly drawn where there are more."""
ROWS, SEEN = 500, 10_000
"""Rows on which they are predicted, and rows that laws and peers are learned from, at most."""
WIDE, FEW_COLUMNS, FEW_ROWS, NUMBERS = 2000, 8, 50, 2**22
"""Columns from which on fewer are left out; and of wide tables so many rows that no more than ``NUMBERS`` numbers are
looked at in all, or ``FEW_ROWS``."""
LEAST_COLUMNS, LEAST_ROWS = 3, 20
"""Fewer columns share nothing that could be told from noise; fewer rows tell nothing."""
STEPS = 25
SETTLED = 1e-3
"""Length of a step, in spreads of the latents, below which a mode is found."""
DAMPING, EASED, TIGHTENED = 1e-2, 1 / 3, 4.0
LEAST_NOISE = 1e-4
"""Share of a column's variance that is taken for noise at least."""
AT_ONCE = 2**22
"""Entries of Jacobians that are held at once."""
SHORTFALL = 0.03
"""Share of what peers predict that a model may miss."""
UNCLEAR = 0.1
"""A shortfall is known where two standard errors are no more than this."""
CLEAR = 4.0
"""Standard errors by which peers must predict something: the better of two is taken for every column."""
TIED = 0.03
"""What is left over of two columns, in variances of these, may have so much in common beyond what a fit makes of it."""
CHANCE = 0.01
"""Probability that pairs of independent noise look tied, all pairs together."""


@dataclass(frozen=True)
class ColumnPrediction:
    """How well columns of rows that were not trained on are predicted from the others, as R² by column."""

    columns: tuple[int, ...]
    model: tuple[float, ...]
    peer: tuple[float, ...]
    shortfall: float
    """``Σ_j (peer_j − model_j)₊ / Σ_j peer_j₊``."""
    standard_error: float
    """Over rows."""
    rows: int
    shared: float
    """Standard errors by which peers predict anything at all."""
    tied: tuple[int, int] = (0, 0)
    """The two columns whose left-overs have most in common beyond what a fit makes of it,"""
    excess: float = 0.0
    """and how much that is, in variances of the columns."""
    clear: bool = False
    """Whether it is more than chance would make of all pairs."""

    @property
    def score(self) -> float:
        """Mean R² of the model over columns."""
        return float(np.mean(self.model))

    @property
    def shares_any(self) -> bool:
        """Whether peers predict anything, by ``CLEAR`` standard errors."""
        return self.shared > CLEAR

    @property
    def explained(self) -> bool | None:
        """Whether the model has what the columns share; ``None`` where the rows are too few to tell."""
        if not self.shares_any:
            return False
        near = self.shortfall <= max(SHORTFALL, 2 * self.standard_error)
        return None if near and 2 * self.standard_error > UNCLEAR else near

    @property
    def independent(self) -> bool:
        """Whether nothing speaks against noise that is independent from column to column."""
        return not (self.clear and abs(self.excess) > TIED)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> ColumnPrediction:
        """What ``to_dict`` gave, also by way of JSON."""
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in kept.items()}
        return cls(**values)


@dataclass(frozen=True)
class LatentLaw:
    """What is known of latents before a row is seen, and of the noise, all of it from training rows."""

    centre: Float[Tensor, " latent"]
    precision: Float[Tensor, "latent latent"]
    noise: Float[Tensor, " observed"]
    """Variance that a model leaves of every column."""

    @classmethod
    def of(cls, z: Float[Tensor, "batch latent"], left: Float[Tensor, "batch observed"]) -> LatentLaw:
        """The law of the codes of training rows and of what is left of these."""
        d, n_observed = z.shape[1], left.shape[1]
        free = n_observed / max(n_observed - d, 1)
        covariance = torch.atleast_2d(torch.cov(z.T)) + 1e-9 * torch.eye(d, dtype=z.dtype)
        return cls(z.mean(dim=0), torch.linalg.pinv(covariance, hermitian=True), left.square().mean(dim=0) * free)


def modes(
    decode: Callable[[Tensor], Tensor],
    x: Float[Tensor, "batch observed"],
    weight: Float[Tensor, "batch observed"],
    law: LatentLaw,
    start: Float[Tensor, "batch latent"],
) -> Float[Tensor, "batch latent"]:
    """Latents of least ``Σ_i weight_i (x_i − g_i(z))² + (z − c)ᵀ P (z − c)``, from ``start``, all rows at once.

    >>> law = LatentLaw(torch.zeros(1), torch.eye(1), torch.ones(2))
    >>> x = torch.tensor([[2.0, 4.0]])
    >>> modes(lambda z: z * torch.ones(2), x, torch.tensor([[1.0, 0.0]]), law, torch.zeros(1, 1))
    tensor([[1.0000]])
    """
    z, damping = start.clone(), torch.full((len(x),), DAMPING, dtype=x.dtype)
    unit = law.precision.diagonal().clamp_min(1e-12).rsqrt()
    cost, g, H = _linearised(decode, z, x, weight, law)
    moving = torch.arange(len(x))
    for _ in range(STEPS):
        damped = H + damping[moving, None, None] * torch.diag_embed(H.diagonal(dim1=1, dim2=2))
        step = torch.linalg.solve_ex(damped, g).result  # of a singular one no number, which is no step
        there = _linearised(decode, z[moving] + step, x[moving], weight[moving], law)
        good = there.cost < cost
        z[moving] += torch.where(good[:, None], step, 0.0)
        cost, g, H = (
            torch.where(good.view(-1, *[1] * (a.ndim - 1)), b, a) for a, b in zip((cost, g, H), there, strict=True)
        )
        damping[moving] *= torch.where(good, EASED, TIGHTENED)
        far = (step / unit).abs().amax(dim=1) > SETTLED
        moving, cost, g, H = moving[far], cost[far], g[far], H[far]
        if not len(moving):
            break
    return z


class _Quadratic(NamedTuple):
    """The cost of latents, half its descent direction, and the curvature of Gauss and Newton."""

    cost: Tensor
    g: Tensor
    H: Tensor


def _linearised(decode: Callable[[Tensor], Tensor], z: Tensor, x: Tensor, weight: Tensor, law: LatentLaw) -> _Quadratic:
    value, J = (part.detach() for part in _values_and_jacobian(decode, z))
    error, away = x - value, z - law.centre
    g = torch.einsum("bil,bi->bl", J, weight * error) - away @ law.precision
    return _Quadratic(_cost(value, z, x, weight, law), g, torch.einsum("bil,bi,bik->blk", J, weight, J) + law.precision)


def _values_and_jacobian(decode: Callable[[Tensor], Tensor], z: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(decode, MaskedDecoder):
        return decode.linearised(z)
    at = differentiate(decode, z)
    return at.x, at.J


def predicted(
    model: Any, x: Float[Tensor, "batch observed"], law: LatentLaw, columns: list[int]
) -> Float[Tensor, "batch column"]:
    """Every one of these columns of standardised rows, predicted by a model from the other columns."""
    weight = (1 / law.noise.clamp_min(LEAST_NOISE)).expand_as(x)
    found, at_once = [], max(1, AT_ONCE // (x.numel() * len(law.centre)))
    for some in (columns[k : k + at_once] for k in range(0, len(columns), at_once)):
        without, seen = x.repeat(len(some), 1, 1), weight.repeat(len(some), 1, 1)
        for k, j in enumerate(some):
            without[k, :, j], seen[k, :, j] = 0.0, 0.0  # its mean, and no weight: nothing of the column is seen
        guess = model.decoder(_best_modes(model, without.flatten(0, 1), seen.flatten(0, 1), law)).detach()
        found += [part[:, j] for part, j in zip(guess.split(len(x)), some, strict=True)]
    return torch.stack(found, dim=1)


def _best_modes(model: Any, x: Tensor, weight: Tensor, law: LatentLaw) -> Tensor:
    """Modes from what the encoder makes of the rows or from the middle of the latents, whichever is nearer to one."""
    parts = []
    size = max(1, AT_ONCE // (x.shape[1] * len(law.centre)))
    for rows, w in zip(x.split(size), weight.expand_as(x).split(size), strict=True):
        starts = model.code(rows).detach().nan_to_num(), law.centre.expand(len(rows), -1)
        costs = [_cost(model.decoder(z).detach(), z, rows, w, law) for z in starts]
        start = torch.where((costs[0] <= costs[1])[:, None], *starts)
        parts.append(modes(model.decoder, rows, w, law, start))
    return torch.cat(parts)


def _cost(value: Tensor, z: Tensor, x: Tensor, weight: Tensor, law: LatentLaw) -> Tensor:
    away = z - law.centre
    prior = torch.einsum("bl,lk,bk->b", away, law.precision, away)
    return (((x - value).square() * weight).sum(dim=1) + prior).nan_to_num(nan=torch.inf)


def tied_columns(
    model: Any, x: Float[Tensor, "batch observed"], law: LatentLaw, columns: list[int]
) -> tuple[tuple[int, int], float, bool]:
    """The two columns whose left-overs have most in common beyond what finding the latents makes of it, how much in
    variances of the columns, and whether that is clear.

    With independent noise of variances ``Σ`` and ``S = J P⁻¹ Jᵀ + Σ``, what is left has the covariance ``Σ S⁻¹ Σ``.
    """
    noise = law.noise.clamp_min(LEAST_NOISE)
    z = _best_modes(model, x, 1 / noise, law)
    left = (x - model.decoder(z)).detach()[:, columns]
    expected = torch.zeros(len(columns), len(columns), dtype=x.dtype)
    for part in z.split(max(1, AT_ONCE // (x.shape[1] * z.shape[1]))):
        J = _values_and_jacobian(model.decoder, part)[1].detach() / noise[:, None]  # W J
        inverse = torch.linalg.inv_ex(torch.einsum("bil,i,bik->blk", J, noise, J) + law.precision).inverse
        K = J[:, columns]
        expected -= torch.einsum("bil,blk,bjk->ij", K, inverse, K)
    expected = expected / len(z) + torch.diag(1 / noise[columns])
    unit = expected.diagonal().clamp_min(1e-12).rsqrt()
    products = left[:, :, None] * left[:, None, :]
    found, error = products.mean(dim=0), products.std(dim=0) / len(left) ** 0.5
    size = found.diagonal().sqrt()
    excess = (found - expected * unit[:, None] * unit * size[:, None] * size).triu(1)
    i, j = divmod(int(excess.abs().argmax()), len(columns))
    pairs = len(columns) * (len(columns) - 1) / 2
    clear = bool(excess[i, j].abs() > norm.isf(CHANCE / 2 / pairs) * error[i, j])
    return (columns[i], columns[j]), float(excess[i, j]), clear


@dataclass(frozen=True, eq=False)
class ColumnTask:
    """Columns to predict from the others, of rows that no fit has seen, and how well peers do it.

    Several models may be asked the same; all rows are standardised.
    """

    seen: Float[Tensor, "row observed"]
    new: Float[Tensor, "new observed"]
    columns: list[int]

    @cached_property
    def spread(self) -> Float[np.ndarray, " column"]:
        """Variance of every column of the new rows."""
        return self.new.numpy()[:, self.columns].var(axis=0).clip(1e-12)

    @cached_property
    def peer(self) -> Float[np.ndarray, "new column"]:
        """Squared errors of the better peer of each column, in variances of the column."""
        x, y, best = self.seen.numpy(), self.new.numpy(), []
        for j, spread in zip(self.columns, self.spread, strict=True):
            tried = [np.square(y[:, j] - guess) / spread for guess in predicted_by_peers(x, y, j)]
            best.append(min(tried, key=np.mean))
        return np.stack(best, axis=1)

    @cached_property
    def plain(self) -> Float[np.ndarray, "new column"]:
        """The same of the mean of the rows seen."""
        return np.square(self.new.numpy() - self.seen.numpy().mean(axis=0))[:, self.columns] / self.spread

    @classmethod
    def of(cls, train: Float[Tensor, "row observed"], fresh: Float[Tensor, "new observed"]) -> ColumnTask | None:
        """The task of rows to learn from and fresh ones; ``None`` where columns or rows are too few to tell."""
        if train.shape[1] < LEAST_COLUMNS or len(fresh) < LEAST_ROWS:
            return None
        seen, new = train[:SEEN].double().cpu(), fresh[:ROWS].double().cpu()
        varying = np.flatnonzero(((seen.std(dim=0) > 0) & (new.std(dim=0) > 0)).numpy())
        most = COLUMNS if train.shape[1] < WIDE else FEW_COLUMNS
        drawn = seeds.numpy_generator(0, "columns left out", len(varying)).permutation(varying)[:most]
        columns = sorted(drawn.tolist())
        new = new[: max(FEW_ROWS, NUMBERS // (max(len(columns), 1) * train.shape[1]))]
        return cls(seen, new, columns) if columns else None

    def errors(self, codec: Any, law: LatentLaw) -> Float[np.ndarray, "new column"]:
        """Squared errors of a codec in double precision, in variances of the column."""
        guess = predicted(codec, self.new, law, self.columns).numpy()
        return np.square(self.new.numpy()[:, self.columns] - guess) / self.spread

    def compared_with(self, error: Float[np.ndarray, "new column"]) -> ColumnPrediction:
        """Errors of any prediction of the columns, beside those of the peers."""
        return compared(error, self.peer, self.plain, self.columns)

    def errors_of(self, model: Any) -> Float[np.ndarray, "new column"]:
        """Squared errors of a codec, in variances of the column, which may be compared with those of others."""
        return self.errors(*self._prepared(model))

    def asked(self, model: Any) -> tuple[ColumnPrediction, Float[np.ndarray, "new column"]]:
        """How well a codec does it, and its errors."""
        codec, law = self._prepared(model)
        error = self.errors(codec, law)
        found = self.compared_with(error)
        tied, excess, clear = tied_columns(codec, self.new, law, self.columns)
        return replace(found, tied=tied, excess=excess, clear=clear), error

    def _prepared(self, model: Any) -> tuple[Any, LatentLaw]:
        codec = deepcopy(model).cpu().double()
        with torch.no_grad():
            z = codec.code(self.seen)
            return codec, LatentLaw.of(z, self.seen - codec.decoder(z))


def compared(
    error: Float[np.ndarray, "new column"],
    peer: Float[np.ndarray, "new column"],
    plain: Float[np.ndarray, "new column"],
    columns: list[int],
) -> ColumnPrediction:
    """Errors of a model beside those of its peers and of a constant.

    >>> half, none, one = np.full((4, 1), 0.5), np.zeros((4, 1)), np.ones((4, 1))
    >>> compared(half, none, one, [0]).shortfall, compared(none, half, one, [0]).shortfall
    (0.5, 0.0)
    """
    n, own, best = len(error), 1 - error.mean(axis=0), 1 - peer.mean(axis=0)
    total = max(float(np.maximum(best, 0).sum()), 1e-12)
    short = np.maximum(best, 0) > own
    missed = np.maximum(best, 0)[short].sum() - own[short].sum()
    spread = (error - np.where(best > 0, peer, 1.0))[:, short].sum(axis=1).std() / total
    gain = (plain - peer).sum(axis=1)
    shared = gain.mean() / max(gain.std() / n**0.5, 1e-12)
    return ColumnPrediction(
        tuple(columns), tuple(own.tolist()), tuple(best.tolist()), float(missed / total), float(spread / n**0.5), n,
        float(shared),
    )  # fmt: skip


def predict_columns(
    model: Any, train: Float[Tensor, "row observed"], fresh: Float[Tensor, "new observed"]
) -> ColumnPrediction | None:
    """How well a codec predicts columns of fresh standardised rows from the others, beside its peers; ``None`` where
    columns or rows are too few to tell."""
    task = ColumnTask.of(train, fresh)
    return None if task is None else task.asked(model)[0]
