"""ICA: independent components of a linear mixture, on a processor, a GPU, a disk or a cluster.

Rows are whitened in double precision (in single precision the smallest eigenvalue of an ill-conditioned mixing turns
negative and everything becomes NaN), then rotated until their components are as far from Gaussian as can be
(``rotation``). At most one component may be Gaussian; order and signs are never identified.

Reference: Hyvärinen (1999), "Fast and robust fixed-point algorithms for independent component analysis"; Nelson et al.
(2026), Theorem 2, for why one would.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from noumena import checks, seeds, threads
from noumena.deprecated import renamed_parameters
from noumena.estimators.ica.contrasts import ContrastFunction, contrast_called
from noumena.estimators.ica.moments import RowMoments, TableMoments
from noumena.estimators.ica.rotation import Rotated, matched, rotate
from noumena.estimators.parameters import check_parameters, count, number, one_of, switch
from noumena.estimators.training import Training
from noumena.estimators.transformer import Transformer, as_given, transactional

FLAT = 1e-10
"""Eigenvalues of the correlation matrix below this, relative to the largest, are rounding."""
BLOCK = 2**22
"""Entries that are transformed at a time."""


@renamed_parameters(n_components="n_latents")
@dataclass(eq=False, repr=False, kw_only=True)
class ICA(Transformer):
    """Unmix ``x = A s + c`` with independent ``s``: symmetric FastICA, with scikit-learn's attributes.

    A fit is at rest when no component turns by more than ``tol = 1 − |cos|`` in a step over all rows. A tensor is
    unmixed where it lies unless ``device`` says otherwise; memory-mapped arrays, names of ``.npy`` files and Dask
    arrays are read in blocks and never held.

    Parameters
    ----------
    n_latents : int, optional
        Number of components, the rank of the data by default; fewer are sought in the leading principal subspace.
    contrast : {"logcosh", "exp", "cube"}
        Measure of how far a component is from Gaussian.
    whiten : bool, default True
        Whether rows are whitened; ``False`` finds sources of about equal variance only.
    n_restarts : int, default 1
        Random starts, run as one batch, of which the best is kept.
    max_iter, tol : int, float
        Most steps, and the change at which a fit is at rest.
    device : str, optional
        Where rows are unmixed.
    dtype : {"float32", "float64"}
        Precision of the steps.
    random_state : int, numpy generator or None
        Seed of the starts.

    Attributes
    ----------
    components_, mean_ : arrays (component, observed), (observed,)
        ``s = (x − mean_) @ components_.T`` with unit variances.
    mixing_, whitening_, rank_ : arrays, int
        The way back, what makes rows white, the rank of the data.
    non_gaussianity_ : array (component,)
        Contrast of each component, by which they are ordered.
    objective_, restart_objectives_, restart_agreement_ : float, array, float
        Sum of squared contrasts, that of every restart, and the smallest correlation of components among restarts.
    converged_, change_, n_iter_, passes_ : bool, float, int, int
        Whether a fit came to rest, the change of the last step, steps, and passes over all rows.

    References
    ----------
    Hyvärinen (1999), *Fast and robust fixed-point algorithms for independent component analysis*,
    https://doi.org/10.1109/72.761722.

    Examples
    --------
    >>> import numpy as np
    >>> s = np.array([[a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)])  # all four corners
    >>> np.abs(ICA().fit_transform(s @ [[2.0, 0.0], [1.0, 1.0]])).round(3).tolist()
    [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """

    n_latents: int | None = field(default=None, kw_only=False)
    contrast: str = "logcosh"
    whiten: bool = switch(True)
    n_restarts: int = count(1)
    max_iter: int = count(500)
    tol: float = number(1e-4, minimum=0)
    device: str | None = None
    dtype: str = one_of("float32", ("float32", "float64"))
    random_state: Any = 0

    n_features_in_: int = field(init=False)

    # ---- scikit-learn's verbs ----------------------------------------------------------------------------

    @transactional
    def fit(self, X: Any, y: Any = None):
        """Find the components of ``X`` (batch, observed); ``y`` is ignored."""
        contrast, seed = self._checked(), seeds.seed_of(self.random_state)
        data = self._data(X, seed)
        self._compare_columns(X, data.n_features, reset=True)
        with threads.for_work(4.0 * data.n_rows * data.n_features**2 * self.n_restarts):
            whites = self._whitened(data)
            starts = torch.stack([_start(whites[0].size, seed, k) for k in range(self.n_restarts)])
            found = self._rotated(data, starts, contrast)
            self._adopt(whites[0], found, data.value(found.W, contrast) - contrast.gaussian)
        return self

    def fit_many(self, tables: Sequence[Any]) -> Sequence[ICA]:
        """Fit several tables of one shape as one batch; each result is that of the table alone."""
        contrast, seed = self._checked(), seeds.seed_of(self.random_state)
        checks.require(len(tables) > 0, "There must be a table to unmix.", "none")
        parts = [self._tensor(x, f"table {k + 1}") for k, x in enumerate(tables)]
        shapes = sorted({tuple(part.shape) for part in parts})
        checks.require(len(shapes) == 1, "Tables fitted as one batch must share their shape.", f"shapes {shapes}")
        data = TableMoments(torch.stack(parts), dtype=getattr(torch, self.dtype), seed=seed)
        with threads.for_work(4.0 * data.n_rows * data.n_features**2 * len(parts)):
            whites = self._whitened(data)
            restarts = []
            for k in range(self.n_restarts):
                starts = _start(whites[0].size, seed, k).expand(len(parts), -1, -1)
                found = self._rotated(data, starts, contrast)
                restarts.append((found, data.value(found.W, contrast) - contrast.gaussian))
        models = [type(self)(**self.get_params()) for _ in parts]
        for i, model in enumerate(models):
            model.n_features_in_ = data.n_features
            model._adopt(whites[i], _joined([f for f, _ in restarts], i), torch.stack([v[i] for _, v in restarts]))
        return models

    def transform(self, X: Any) -> Any:
        """Components ``s``; a tensor in gives one out where it lies, a Dask array a lazy one."""
        check_is_fitted(self)
        from noumena.estimators.ica.streams import is_stream, project

        if is_stream(X):
            return project(X, self.mean_, self.components_)
        if isinstance(X, Tensor) and X.device.type != "cpu":
            checks.tensor(X)
            matches = X.shape[1] == self.n_features_in_
            checks.require(matches, f"x must have {self.n_features_in_} columns.", f"{X.shape[1]}")
            return self._project(X)
        array = checks.table(X, "x")
        self._compare_columns(X, array.shape[1], reset=False)
        return as_given(X, array, self._project(torch.as_tensor(array)).numpy())

    def inverse_transform(self, X: Any) -> Any:
        """Observations of components; exact up to what lies outside their subspace."""
        check_is_fitted(self)
        array = checks.table(X, "s")
        matches = array.shape[1] == len(self.components_)
        checks.require(matches, f"s must have {len(self.components_)} columns.", f"{array.shape[1]}")
        return as_given(X, array, array @ self.mixing_.T + self.mean_)

    # ---- inside ------------------------------------------------------------------------------------------

    def _checked(self) -> ContrastFunction:
        check_parameters(self)
        return contrast_called(self.contrast)

    def _data(self, x: Any, seed: int) -> RowMoments:
        from noumena.estimators.ica.streams import is_stream, stream

        if is_stream(x):
            return stream(x, seed=seed)
        return TableMoments(self._tensor(x, "x")[None], dtype=getattr(torch, self.dtype), seed=seed)

    def _tensor(self, x: Any, name: str) -> Tensor:
        """Checked rows on the device where they are to be unmixed."""
        if isinstance(x, Tensor) and x.device.type != "cpu":
            checks.require(x.ndim == 2, f"{name} must have two axes, (batch, dim).", f"shape {tuple(x.shape)}")
            bad = torch.nonzero(~x.isfinite().all(dim=1)).flatten()
            given = f"{len(bad)} rows that are not, the first row {int(bad[0])}" if len(bad) else ""
            checks.require(len(bad) == 0, f"{name} must be finite.", given)
            rows = x
        else:
            rows = torch.as_tensor(checks.table(x, name, min_rows=2))
        return rows if self.device is None else rows.to(Training(device=self.device).torch_device())

    def _whitened(self, data: RowMoments) -> list[_Whitening]:
        """Whiten; all tables of a batch must agree on the number of components."""
        mean, covariance = (part.reshape(-1, *part.shape[-n:]) for n, part in enumerate(data.mean_and_covariance(), 1))
        how = {"whiten": bool(self.whiten), "n_latents": self.n_latents, "rows": data.n_rows}
        whites = [_whiten(m, c, **how) for m, c in zip(mean.cpu(), covariance.cpu(), strict=True)]
        sizes = [white.size for white in whites]
        checks.require(len(set(sizes)) == 1, "Tables fitted as one batch must have one rank.", f"ranks {sizes}")
        data.prepare(mean, torch.stack([white.forth for white in whites]))
        return whites

    def _rotated(self, data: RowMoments, starts: Tensor, contrast: ContrastFunction) -> Rotated:
        device = data.white.device if isinstance(data, TableMoments) else "cpu"
        starts = starts.to(device=device, dtype=getattr(torch, self.dtype))
        return rotate(data, starts, contrast, tol=self.tol, max_iter=self.max_iter)

    def _adopt(self, white: _Whitening, found: Rotated, gains: Tensor) -> None:
        """Keep the restart with the largest contrast, its most non-Gaussian component first."""
        gains = gains.double().cpu()
        objectives = gains.square().sum(dim=1)
        best = int(objectives.argmax())
        order = gains[best].abs().argsort(descending=True, stable=True)
        rotations = found.W.double().cpu()
        W = rotations[best][order]
        mixing = white.back @ W.T
        strongest = mixing.gather(0, mixing.abs().argmax(dim=0, keepdim=True))
        side = torch.where(strongest[0] < 0, -1.0, 1.0).double()
        self.mean_, self.whitening_ = white.mean.numpy(), white.forth.numpy()
        self.components_ = (side[:, None] * (W @ white.forth)).numpy()
        self.mixing_ = (mixing * side).numpy()
        self._n_features_out, self.rank_ = white.size, white.rank
        self.non_gaussianity_ = gains[best][order].abs().numpy()
        self.objective_, self.restart_objectives_ = float(objectives[best]), objectives.numpy()
        self.restart_agreement_ = min((matched((W @ other.T).numpy()) for other in rotations), default=1.0)
        self.converged_, self.change_ = bool(found.converged[best]), float(found.change[best])
        self.n_iter_, self.passes_ = int(found.steps[best]), found.passes
        if not self.converged_:
            warnings.warn(
                f"ICA has not come to rest in {self.n_iter_} steps: a component still turns by {self.change_:.2g} "
                f"(tol {self.tol:g}). Raise max_iter or tol, or ask for fewer components.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _project(self, x: Tensor) -> Tensor:
        mean, back = (torch.as_tensor(a, device=x.device) for a in (self.mean_, self.components_.T))
        blocks = x.split(max(1, BLOCK // x.shape[1]))
        return torch.cat([((block.double() - mean) @ back).to(x) for block in blocks])


@dataclass(frozen=True)
class _Whitening:
    """What makes rows white, ``(x − mean) @ forth.T``, what undoes it, and the rank of the data."""

    mean: Tensor
    forth: Tensor
    back: Tensor
    rank: int

    @property
    def size(self) -> int:
        return len(self.forth)


def _whiten(mean: Tensor, covariance: Tensor, *, whiten: bool, n_latents: int | None, rows: int) -> _Whitening:
    """From mean and covariance in double precision; rank is judged with every column in its own units."""
    spread = covariance.diagonal().clamp_min(0).sqrt()
    checks.require(bool((spread > 0).any()), "x must vary.", "columns that are all constant")
    unit = torch.where(spread > 0, spread, 1.0)
    value, vector = torch.linalg.eigh(covariance / unit / unit[:, None])
    rank = int((value > FLAT * value[-1]).sum())
    if not whiten:
        wanted = len(mean) if n_latents is None else checks.count(n_latents, "n_latents")
        checks.require(wanted == len(mean), "n_latents must be left out without whitening.", f"{wanted}")
        scale, identity = covariance.diagonal().mean().sqrt(), torch.eye(wanted).to(covariance)
        return _Whitening(mean, identity / scale, identity * scale, rank)
    wanted = rank if n_latents is None else checks.count(n_latents, "n_latents")
    checks.require(wanted <= rank, f"n_latents must be at most the rank of x, {rank}.", f"{wanted}")
    checks.require(
        wanted < rows - 1, "x must have more rows than components, or n_latents must say how many to look for.",
        f"{rows} rows for {wanted} components",
    )  # fmt: skip
    if wanted < rank:  # the leading principal directions, in the units of the data
        unit = torch.ones_like(unit)
        value, vector = torch.linalg.eigh(covariance)
    value, vector = value[-wanted:].flip(0), vector[:, -wanted:].flip(1)
    return _Whitening(mean, (vector / value.sqrt()).T / unit, unit[:, None] * vector * value.sqrt(), rank)


def _start(size: int, seed: int, restart: int) -> Tensor:
    """A random rotation."""
    return torch.linalg.qr(torch.randn(size, size, generator=seeds.generator(seed, "start of ICA", restart)).double()).Q


def _joined(restarts: Sequence[Rotated], i: int) -> Rotated:
    """The i-th model of several fits as the restarts of one."""
    W, steps, change, converged = (
        torch.stack([getattr(r, name)[i] for r in restarts]) for name in ("W", "steps", "change", "converged")
    )
    return Rotated(W, steps, change, converged, sum(r.passes for r in restarts))
