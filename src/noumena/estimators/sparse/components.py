"""SparseComponents: latents that are often exactly inactive, unmixed from affine observations by that alone.

``x = A z + c`` where every row of ``z`` has some latents at a fixed value. The directions along which the data are
sparse are the rows of the unmixing: no independence, no Gaussianity, no labels. The search is that of ``sparse_basis``
from several deterministic starts, on the rows and on differences of neighbours; of all solutions the one with the
highest likelihood of independent spikes and slabs is kept, and snapped onto exact zeros where the data have them. How
sure it is, is how surely it is found again in each half of the rows (``refinding``).

Reference: Xu et al. (2026), Theorem 3.9, for affine ``f``. Renamed: ``ẑ = Wx + b``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from noumena import checks, seeds, threads
from noumena.deprecated import renamed_parameters
from noumena.estimators.parameters import check_parameters, count, one_of
from noumena.estimators.sparse.basis import SCALES, anneal, neighbour_differences, rotations
from noumena.estimators.sparse.refinding import Refound, halves, refound
from noumena.estimators.sparse.spikes import Spikes, fit_spikes, needed_gain
from noumena.estimators.training import Training
from noumena.estimators.transformer import Transformer, as_given, transactional

FLAT = 1e-10
"""Eigenvalues of the covariance below this, relative to the largest, are rounding."""
GAP, UNEVEN = 30.0, 1.2
"""A floor of noise lies below all other eigenvalues by the first, and is as flat as noise is, up to the second."""
JUDGED = 4000
"""Rows on which solutions are compared."""
PAIRS = 10_000
"""Differences of neighbours, at most."""
NARROW, EXACT = 0.02, 1e-7
"""Spikes narrower than the first are snapped; a zero is exact below the second; both in deviations of the latent."""
MOSTLY = 0.9
"""Share of a spike that must turn out exact for a component to be snapped."""
VIEWS = ("both", "rows", "differences")
HELD = 20
"""Rows per direction that a snapped component rests on."""


@renamed_parameters(n_components="n_latents")
@dataclass(eq=False, repr=False, kw_only=True)
class SparseComponents(Transformer):
    """Affine unmixing by sparsity: ``transform(x)`` is zero where a latent is inactive.

    Parameters
    ----------
    n_latents : int, optional
        Number of components; the rank of the data, above a flat floor of noise if there is one, by default.
    n_restarts : int, default 2
        Starts that are descended in one batch.
    offset : bool, default True
        Whether inactive latents may sit anywhere; ``False`` says that they sit at zero in ``x`` itself.
    view : {"both", "rows", "differences"}
        Whether rows, differences of neighbours or both are searched.
    max_iter : int, default 100
        Most steps of a descent.
    refind : bool, default True
        Whether components are sought again in halves of the rows, which gives ``confidence_``.
    device : str, default "cpu"
        Where the search runs.
    random_state : int, numpy generator or None
        Seed of the starts.

    Attributes
    ----------
    components_, intercept_ : arrays (component, observed), (component,)
        ``ẑ = x @ components_.T + intercept_``, latents of unit deviation, sparsest first.
    mixing_, mean_, n_components_ : arrays, int
        The way back, and the number of components.
    active_share_, gains_, exact_ : arrays (component,)
        Share of active rows, nats per row over a Gaussian, and whether a latent is exactly zero when inactive.
    agreement_, confidence_ : arrays (component,)
        Agreement with other restarts, and how surely a component is found again on other rows (0 by chance).
    chosen_, objective_, restart_objectives_, n_iter_ : str, float, array, int
        Where the solution came from, its objective (higher is better), those of all, and the most steps of a descent.

    References
    ----------
    Xu et al. (2026), *Identifiability of potentially degenerate Gaussian mixture models with
    piecewise affine mixing*, Theorem 3.9, https://arxiv.org/abs/2604.13218.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(2000, 3)) * (rng.random((2000, 3)) < 0.5)
    >>> model = SparseComponents().fit(z @ [[1.0, 2, 0], [0, 1, 3], [1, 0, 1]])
    >>> model.exact_.tolist(), (model.transform(z @ [[1.0, 2, 0], [0, 1, 3], [1, 0, 1]]) == 0).sum() == (z == 0).sum()
    ([True, True, True], np.True_)
    """

    n_latents: int | None = field(default=None, kw_only=False)
    n_restarts: int = count(2)
    offset: bool = True
    view: str = one_of("both", VIEWS)
    max_iter: int = count(100)
    refind: bool = True
    device: str | torch.device = "cpu"
    random_state: Any = 0

    n_features_in_: int = field(init=False)

    # ---- scikit-learn's verbs ----------------------------------------------------------------------------

    @transactional
    def fit(self, X: Any, y: Any = None):
        """Find the sparse directions of ``X`` (batch, observed); ``y`` is ignored."""
        array = checks.table(X, "x", min_rows=2)
        check_parameters(self)
        device = Training(device=self.device).torch_device()
        self._compare_columns(X, array.shape[1], reset=True)
        white = _whiten(array, self.n_latents, centre=bool(self.offset))
        self.n_components_ = self._n_features_out = white.directions.shape[1]
        with threads.for_work(4.0 * len(array) * self.n_components_**2 * self.n_restarts):
            rows = torch.as_tensor((array - white.mean) @ white.directions, device=device)
            parts = halves(rows) if self.refind else None
            bases = None if parts is None else tuple(self._basis(part) for part in parts)
            solutions = self._solutions(rows.float())
            self._adopt(white, rows, solutions, None if parts is None or bases is None else (parts, bases))
        return self

    def transform(self, X: Any) -> Any:
        """Latents ``ẑ``; those of exactly sparse components are exactly zero when inactive."""
        return self._latents(X)

    def _latents(self, x: Any) -> Any:
        """What ``transform`` gives, in the kind of ``x`` whatever output is asked for."""
        check_is_fitted(self)
        array = checks.table(x, "x")
        self._compare_columns(x, array.shape[1], reset=False)
        z = array.astype(np.float64) @ self.components_.T + self.intercept_
        return as_given(x, array, np.where(self.exact_ & (np.abs(z) < EXACT), 0.0, z))

    def inverse_transform(self, X: Any) -> Any:
        """Observations of latents; exact up to what lies outside the subspace of the components."""
        check_is_fitted(self)
        array = checks.table(X, "z")
        matches = array.shape[1] == self.n_components_
        checks.require(matches, f"z must have {self.n_components_} columns.", f"{array.shape[1]}")
        x = (array - self.intercept_ - self.mean_ @ self.components_.T) @ self.mixing_.T + self.mean_
        return as_given(X, array, x)

    def active(self, x: Any) -> np.ndarray:
        """Which latents of which rows are active: those that more likely belong to the slab than to the spike."""
        z = torch.as_tensor(self._latents(x)).double().cpu()
        return self._spikes.inactive(z).numpy() < 0.5

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of rows, within the subspace of the components, if latents were independent."""
        z = torch.as_tensor(self._latents(X)).double().cpu()
        density = self._spikes.log_density(z).sum(dim=1).mean()
        return float(density) - np.linalg.slogdet(self.mixing_.T @ self.mixing_).logabsdet / 2

    # ---- the search --------------------------------------------------------------------------------------

    def _solutions(self, rows: Tensor) -> list[tuple[str, Tensor]]:
        """Bases of every start after every scale, with the words for where they came from."""
        starts = self._starts(rows)
        ones = rows.new_ones(len(rows), 1)
        views = [_View("rows", rows, ones if self.offset else 0 * ones, SCALES)]
        if self.view != "rows" and len(rows) > 2 * rows.shape[1]:
            pairs = neighbour_differences(rows, most=PAIRS).double()
            deviations, axes = torch.linalg.eigh(pairs.T @ pairs / len(pairs))
            if bool(deviations[0] > FLAT * deviations[-1]):
                back = axes / deviations.sqrt()
                view = _View(
                    "differences of neighbours", (pairs @ back).float(), 0 * ones[: len(pairs)], SCALES[:3], back
                )
                views = [view] if self.view == "differences" else [*views, view]
        found, self.n_iter_ = [], 0
        for view in views:
            W = rotations(view.rows, starts)
            bases = torch.cat([W, W.new_zeros(*W.shape[:2], 1)], dim=-1)
            extended = torch.cat([view.rows, view.last], dim=1)
            path, steps = anneal(extended, bases, view.scales, iterations=self.max_iter, offsets=bool(view.last.any()))
            self.n_iter_ = max(self.n_iter_, steps)
            for scale, solution in zip(view.scales[1:], path[1:], strict=True):  # the first only leads to the others
                W = solution[..., :-1].double()
                W = W if view.back is None else W @ view.back.T
                found.append((f"{view.name} at scale {scale:g}", W / W.norm(dim=-1, keepdim=True)))
        return found

    def _starts(self, rows: Tensor) -> Tensor:
        r, seed = rows.shape[1], seeds.seed_of(self.random_state)
        drawn = [
            torch.linalg.qr(torch.randn(r, r, generator=seeds.generator(seed, "sparse start", k))).Q
            for k in range(self.n_restarts)
        ]
        return torch.stack(drawn).to(rows)

    def _basis(self, rows: Tensor) -> Tensor:
        """The likeliest solution of some rows."""
        solutions = self._solutions(rows.float())
        _, stage, restart = _likeliest(rows, solutions)
        return solutions[stage][1][restart]

    def _adopt(
        self, white: _White, rows: Tensor, solutions: list[tuple[str, Tensor]], again: tuple[Any, Any] | None
    ) -> None:
        """Keep the likeliest solution, snap it, and say how sure it is; ``again`` are halves and their bases."""
        values, stage, restart = _likeliest(rows, solutions)
        origin, bases = solutions[stage]
        W, exact, places = _snapped(rows, bases[restart])
        spikes = fit_spikes(_some(rows) @ W.T)
        found = None if again is None else refound(W, *again)
        self._refuse(spikes, rows, found)
        order = spikes.gain.argsort(descending=True)
        W, exact, spikes = W[order], exact[order], spikes.chosen(order)
        found = None if found is None else Refound(found.score[order], found.preferred[order])
        places = torch.where(exact, places[order], spikes.place) if self.offset else torch.zeros_like(places)
        self.components_ = (W @ torch.as_tensor(white.directions, device=W.device).T).cpu().numpy()
        self.mixing_ = white.back @ np.linalg.inv(W.cpu().numpy())
        self.mean_ = white.mean
        self.intercept_ = -white.mean @ self.components_.T - places.cpu().numpy()
        self.exact_ = exact.cpu().numpy()
        self.agreement_ = _agreement(W, torch.cat([b for name, b in solutions if name == origin]), restart)
        self.chosen_ = f"{origin}, start {restart} of {self.n_restarts}"
        self.objective_ = float(values[stage, restart])
        self.restart_objectives_ = values.max(axis=0)
        self._report(spikes, _some(rows) @ W.T, places, found)

    def _report(self, spikes: Spikes, y: Tensor, places: Tensor, found: Refound | None) -> None:
        self.active_share_ = (1 - spikes.share).cpu().numpy()
        self.gains_ = spikes.gain.cpu().numpy()
        sparse = spikes.sparse(y.shape[1]).cpu().numpy()
        again = np.zeros(len(sparse)) if found is None else (found.score * found.preferred).cpu().numpy()
        certain = spikes.certainty(y).cpu().numpy() * self.agreement_ * again
        self.confidence_ = np.where(sparse, certain, 0.0) if self.refind else np.full(len(sparse), np.nan)
        self._spikes = spikes.moved(-places)
        few = "were not looked for on other rows, of which there are too few," if found is None else ""
        few = few or "are not found again on other rows"
        kinds = {"are not sparse": ~sparse, few: sparse & (again == 0)} if self.refind else {"are not sparse": ~sparse}
        for why, which in kinds.items():
            if which.any():
                warnings.warn(
                    f"{int(which.sum())} of {len(sparse)} components {why} and have confidence 0: numbers "
                    f"{', '.join(map(str, np.flatnonzero(which)[:5]))}.",
                    stacklevel=4,
                )

    def _refuse(self, spikes: Spikes, rows: Tensor, found: Refound | None) -> None:
        """Say that nothing is sparse, or that other rows prefer none of it, instead of inventing directions."""
        needed = needed_gain(spikes.rows, rows.shape[1])
        best, sparse = float(spikes.gain.max()), spikes.sparse(rows.shape[1])
        if not bool(sparse.any()):
            raise checks.InputError(
                f"x must be sparse along some direction. Got data with no sparse direction found (the best gains "
                f"{best:.2g} nats per row over a Gaussian; {needed:.2g} and a narrow spike are needed)."
            )
        if found is not None and not bool((sparse & found.preferred).any()):
            raise checks.InputError(
                "x must be sparse along some direction. Got data with no sparse direction found in one half of the "
                "rows that the other half prefers to random ones: they may have heavy tails, but no axes."
            )


@dataclass(frozen=True)
class _View:
    """What is searched for a sparse basis, its last column (1 for offsets), and the way back to white rows."""

    name: str
    rows: Tensor
    last: Tensor
    scales: Sequence[float]
    back: Tensor | None = None


@dataclass(frozen=True)
class _White:
    """What makes rows white, ``(x − mean) @ directions``, and what undoes it."""

    mean: np.ndarray
    directions: np.ndarray
    back: np.ndarray


def _whiten(x: np.ndarray, n_latents: int | None, *, centre: bool) -> _White:
    x = x.astype(np.float64)
    spread = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 0)
    checks.require(bool((spread > 0).any()), "x must vary.", "columns that are all constant")
    mean = x.mean(axis=0) if centre else np.zeros(x.shape[1])
    unit = np.where(spread > 0, spread, 1)
    scaled = np.where(spread > 0, (x - mean) / unit, 0)
    eigenvalues, axes = np.linalg.eigh(scaled.T @ scaled / len(x))
    eigenvalues, axes = eigenvalues[::-1], axes[:, ::-1]
    rank = int((eigenvalues > FLAT * eigenvalues[0]).sum())
    wanted = rank if n_latents is None else checks.count(n_latents, "n_latents")
    if n_latents is None:
        own = np.linalg.svd((x - mean) / np.sqrt(len(x)), compute_uv=False) ** 2  # noise may be flat in its own units
        wanted = min(_above_noise(values[:rank], len(x)) for values in (eigenvalues, own))
    given = f"{len(x)} rows of rank {rank} for {wanted} components"
    enough = wanted <= rank and wanted < len(x) - 1
    checks.require(enough, "x must have more rows, and at least as many independent columns, as components.", given)
    deviations = np.sqrt(eigenvalues[:wanted])
    return _White(mean, axes[:, :wanted] / deviations / unit[:, None], axes[:, :wanted] * deviations * unit[:, None])


def _above_noise(eigenvalues: np.ndarray, rows: int) -> int:
    """How many (falling) eigenvalues stand above a floor as flat as that of even noise; all when there is none.

    Sample eigenvalues of ``m`` directions of noise spread by ``((1 + √(m/rows)) / (1 − √(m/rows)))²``.

    >>> [_above_noise(np.array([9.0, 4, 2, 0.01, last]), 10_000) for last in (0.0098, 0.005)]
    [3, 5]
    """
    for kept in range(1, len(eigenvalues) - 1):
        floor = eigenvalues[kept:]
        ratio = min(np.sqrt(len(floor) / rows), 0.9)
        flat = UNEVEN * ((1 + ratio) / (1 - ratio)) ** 2
        if eigenvalues[kept - 1] > GAP * floor[0] and floor[0] < flat * floor[-1]:
            return kept
    return len(eigenvalues)


def _some(rows: Tensor) -> Tensor:
    """Evenly chosen rows, enough to compare solutions on."""
    return rows[:: max(1, len(rows) // JUDGED)]


def _likeliest(rows: Tensor, solutions: list[tuple[str, Tensor]]) -> tuple[np.ndarray, int, int]:
    """The likelihoods of all solutions, and where the highest is: its stage and its restart."""
    judged = _some(rows).float()
    values = np.array([[_likelihood(judged, W.float()) for W in bases] for _, bases in solutions])
    stage, restart = (int(i) for i in np.unravel_index(int(values.argmax()), values.shape))
    return values, stage, restart


def _likelihood(rows: Tensor, W: Tensor) -> float:
    """Log-likelihood of rows under independent spikes and slabs, per row, above that of a white Gaussian."""
    return float(fit_spikes(rows @ W.T, iterations=20).gain.sum() + torch.linalg.slogdet(W).logabsdet)


def _snapped(rows: Tensor, W: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Components refitted to the hyperplanes of their inactive rows, which of them are exact, and where they lie."""
    spikes = fit_spikes(_some(rows) @ W.T)
    refined, exact, places = W.clone(), torch.zeros_like(spikes.place, dtype=torch.bool), spikes.place.clone()
    for i in torch.nonzero(spikes.width < NARROW).flatten().tolist():
        w, place = _hyperplane(rows, W[i], spikes.place[i], 3 * spikes.width[i])
        zero = ((rows @ w - place).abs() < EXACT).double().mean()
        if bool(zero > MOSTLY * spikes.share[i]):
            refined[i], exact[i], places[i] = w, True, place
    if bool(torch.linalg.matrix_rank(refined) < len(W)):
        return W, torch.zeros_like(exact), spikes.place
    return refined, exact, places


def _hyperplane(rows: Tensor, w: Tensor, place: Tensor, within: Tensor) -> tuple[Tensor, Tensor]:
    """The hyperplane ``w·x = place`` fitted to the rows near it, which are chosen ever nearer."""
    for _ in range(4):
        near = rows[(rows @ w - place).abs() <= within]
        if len(near) <= rows.shape[1] + 1:
            break
        inside = near[:: max(1, len(near) // (HELD * (rows.shape[1] + 1)))]
        centre = inside.mean(dim=0)
        w = torch.linalg.eigh((inside - centre).T @ (inside - centre)).eigenvectors[:, 0]
        place = centre @ w
        within = (5 * (near @ w - place).abs().median()).clamp_min(1e-12)
    return w, place


def _agreement(W: Tensor, others: Tensor, restart: int) -> np.ndarray:
    """For each component the mean over other restarts of its largest correlation with theirs; 1 without any."""
    rest = [k for k in range(len(others)) if k != restart]
    if not rest:
        return np.ones(len(W))
    return (others[rest] @ W.T).abs().amax(dim=1).mean(dim=0).clamp(max=1).cpu().numpy()
