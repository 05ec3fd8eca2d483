"""Potentially degenerate Gaussian mixtures behind a piecewise affine mixing, in two stages.

Stage 1 undoes the mixing up to an affine map; stage 2 finds the affine map under which most latents are most often
zero. The latents then live on subspaces spanned by axes, one per component of the mixture, and ``mixture_`` describes
them: ``noumena.degenerate_ladder(model.mixture_)`` reads the theorems off it.

Reference: Xu et al. (2026), Section 4 and Appendix C.

Deviations: by default stage 2 is ``SparseComponents``; ``solver="paper"`` is the published constrained problem. By
default the nonlinear stage 1 is a ``SparseFlow``, which straightens the code by its sparsity, and is used only where
it pays (``choice_``): it must rebuild held-out rows about as well as the identity does and give a sparser code. The
published hyper-parameters were chosen and training was stopped by the true latents; here they choose nothing. A code in
which stage 2 finds nothing sparse loses to the other one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from noumena import checks, seeds
from noumena.checks import DivergenceError, InputError
from noumena.estimators.parameters import check_parameters, count, must_be, number
from noumena.estimators.sparse.components import SparseComponents
from noumena.estimators.sparse.flow import SparseFlow, usual_training
from noumena.estimators.sparse.gaussians import mixture_of_masks
from noumena.estimators.sparse.lagrangian import ConstrainedComponents
from noumena.estimators.sparse.stages import (
    ENOUGH,
    Criteria,
    Identity,
    StageChoice,
    active,
    affordable_stage1,
    choose,
    code_density,
    fit_seeds,
    normality,
)
from noumena.estimators.transformer import Transformer, as_given, transactional

POINTS = 4000
"""Rows whose latents are kept, those that no stage has seen first."""
STAGES = ("auto", "identity", "flow", "autoencoder")
SOLVERS = ("sparse", "paper")


class ChainedDecoder(nn.Module):
    """``z ↦ x``: the affine map of stage 2 back to the code, then stage 1's decoder."""

    mixing: Tensor
    offset: Tensor

    def __init__(self, mixing: Tensor, offset: Tensor, decoder: nn.Module):
        super().__init__()
        self.decoder = decoder
        self.register_buffer("mixing", mixing)
        self.register_buffer("offset", offset)

    def forward(self, z: Tensor) -> Tensor:
        """Observations of latents, in the precision of the latents."""
        return self.decoder(z @ self.mixing.T.to(z) + self.offset.to(z))

    def layers(self) -> nn.Sequential:
        """The same as a chain of layers, for those who read architectures."""
        observed, latents = self.mixing.shape
        affine = nn.Linear(latents, observed, dtype=self.mixing.dtype)
        with torch.no_grad():
            affine.weight.copy_(self.mixing)
            affine.bias.copy_(self.offset)
        return nn.Sequential(affine, self.decoder)


class Refused(InputError):
    """Stage 2 found nothing sparse in any code of a stage 1."""


class _Chain:
    """A fitted stage 1 with the stage 2 that was fitted to its code, and what held-out rows say of them."""

    def __init__(self, stage1: Any, solver: Any, kept: np.ndarray):
        fresh: Any = clone(solver)
        with warnings.catch_warnings(record=True) as self.warned:  # they matter only if this chain is used
            warnings.simplefilter("always")
            self.stage1, self.stage2 = stage1, fresh.fit(np.asarray(stage1.transform(kept)))

    def encode(self, x: Any) -> np.ndarray:
        return np.asarray(self.stage2.transform(np.asarray(self.stage1.transform(x))), dtype=float)

    def decode(self, z: np.ndarray) -> np.ndarray:
        return np.asarray(self.stage1.inverse_transform(self.stage2.inverse_transform(z)))

    def criteria(self, x: np.ndarray, scale: np.ndarray, threshold: float) -> Criteria:
        """Judge on rows that neither stage has seen; ``scale`` is the spread of the rows it has."""
        z = self.encode(x)
        found = mixture_of_masks(z, threshold=threshold)
        back = hasattr(self.stage1, "inverse_transform")
        lost = ((x - self.decode(z)) / scale) ** 2 if back else np.array(np.nan)
        density = float(code_density(torch.as_tensor(z)))
        share = float(active(z, threshold).mean())
        return Criteria(1 - float(lost.mean()), density, share, normality(z, found.masks[found.labels]))


@dataclass(eq=False, repr=False, kw_only=True)
class DegenerateMixture(Transformer):
    """Latents that are sparse after an affine map of a code: two stages, the first only where it pays.

    Parameters
    ----------
    n_latents : int, optional
        Number of latents; as many as columns by default.
    stage1 : {"auto", "identity", "flow", "autoencoder"} or estimator
        First stage; ``"auto"`` compares the identity with ``nonlinear`` and takes the identity unless it is beaten.
    nonlinear : estimator, optional
        Rival of the identity, a ``SparseFlow`` by default; ``published_stage1(n)`` is the paper's.
    solver : {"sparse", "paper"} or estimator
        Affine second stage with ``fit``, ``transform`` and ``inverse_transform``.
    n_models : int, default 1
        Seeds of the first stage, of which the lowest held-out density is used.
    margin : float, default 0.02
        By how much the density must fall for a nonlinear first stage.
    threshold : float, default 0.1
        Share of its latent's root mean square below which an entry counts as zero.
    held_out : float, default 0.1
        Share of rows that both stages never see and that judge them.
    device : str, default "cpu"
        Where stages that are not given are fitted.
    random_state : int, numpy generator or None
        Seed of the first model; the others have those after it.

    Attributes
    ----------
    stage1_, stage2_, choice_ : estimators, StageChoice
        What is used, and why, with the criteria of both.
    criteria_, densities_ : Criteria, array
        Of what is used, and held-out densities of all seeds.
    mixture_, masks_ : Mixture, array (component, latent)
        Law of the latents, and which latents are active in each of its components.
    points_, decoder_ : array (batch, latent), ChainedDecoder
        Latents of some rows, on which ``certify`` judges the mixture, and the map back.

    References
    ----------
    Xu et al. (2026), *Identifiability of potentially degenerate Gaussian mixture models with
    piecewise affine mixing*, https://arxiv.org/abs/2604.13218.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(500, 2)) * (rng.random((500, 2)) < 0.5)
    >>> DegenerateMixture(stage1="identity").fit(z @ [[1.0, 2], [3, 1]]).masks_.shape[1]
    2
    """

    n_latents: int | None = field(default=None, kw_only=False, metadata=must_be(checks.count))
    stage1: Any = "auto"
    nonlinear: Any = None
    solver: Any = "sparse"
    n_models: int = count(1)
    margin: float = number(0.02, minimum=0)
    threshold: float = number(0.1, minimum=0, maximum=1)
    held_out: float = number(0.1, minimum=0.01, maximum=0.9)
    device: str = "cpu"
    random_state: Any = 0

    @transactional
    def fit(self, X: Any, y: Any = None):
        """Fit stage 1, or choose it, then stage 2, on ``X`` (batch, observed); ``y`` is ignored."""
        array = self._checked(X)
        seed = seeds.seed_of(self.random_state)
        kept, held_out = self._split(array)
        tried: dict[str, tuple[_Chain, Criteria, np.ndarray]] = {}
        refused: dict[str, Refused] = {}
        for name, stage1 in self._candidates(array.shape[1]):
            try:
                tried[name] = self._best(stage1, kept, held_out, seed)
            except Refused as error:
                refused[name] = error
        self.choice_ = self._decide({name: criteria for name, (_, criteria, _) in tried.items()}, refused)
        chain, self.criteria_, self.densities_ = tried[self.choice_.chosen]
        for said in chain.warned:
            warnings.warn(said.message, stacklevel=2)
        self.stage1_, self.stage2_ = chain.stage1, chain.stage2
        z = chain.encode(kept)
        self._n_features_out = z.shape[1]
        self.points_ = np.concatenate([chain.encode(held_out), z])[:POINTS]
        found = mixture_of_masks(z, threshold=self.threshold)
        self.mixture_, self.masks_ = found.mixture, found.masks
        return self

    def transform(self, X: Any) -> Any:
        """Latents ``ẑ``; a torch tensor in gives one out."""
        check_is_fitted(self)
        array = checks.table(X, "x")
        self._compare_columns(X, array.shape[1], reset=False)
        return as_given(X, array, self.stage2_.transform(np.asarray(self.stage1_.transform(array))))

    def inverse_transform(self, X: Any) -> Any:
        """Observations of latents, back through both stages."""
        check_is_fitted(self)
        array, n = checks.table(X, "z"), self._n_features_out
        checks.require(array.shape[1] == n, f"z must have {n} columns.", f"{array.shape[1]}")
        self._must_go_back("inverse_transform")
        return as_given(X, array, self.stage1_.inverse_transform(np.asarray(self.stage2_.inverse_transform(array))))

    @property
    def decoder_(self) -> ChainedDecoder:
        """The chain ``z ↦ x`` as a torch module, in the units of the data."""
        check_is_fitted(self)
        self._must_go_back("decoder_")
        offset = np.asarray(self.stage2_.inverse_transform(np.zeros((1, self._n_features_out))))
        images = np.asarray(self.stage2_.inverse_transform(np.eye(self._n_features_out))) - offset
        return ChainedDecoder(torch.as_tensor(images.T.copy()), torch.as_tensor(offset[0]), self.stage1_.decoder_)

    # ---- inside ------------------------------------------------------------------------------------------

    def _checked(self, x: Any) -> np.ndarray:
        check_parameters(self)
        array = checks.table(x, "x", min_rows=4, varying=True)
        self._compare_columns(x, array.shape[1], reset=True)
        return array

    def _split(self, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows to fit and rows to judge; the split depends on the number of rows only, so all seeds share it."""
        n = len(array)
        order = seeds.numpy_generator(0, "held-out rows", n).permutation(n)
        n_held_out = min(n - 2, max(2, round(self.held_out * n)))
        return array[order[n_held_out:]], array[order[:n_held_out]]

    def _candidates(self, n_observed: int) -> list[tuple[str, Any]]:
        """The stages 1 to try, by the names they are chosen under."""
        given = self.stage1
        if not isinstance(given, str):
            return [("nonlinear", _estimator(given, "stage1", STAGES, ("fit", "transform")))]
        checks.one_of(given, "stage1", STAGES)
        rival: Any = SparseFlow(self.n_latents, training=usual_training(device=self.device))
        if given == "autoencoder":
            rival = affordable_stage1(self.n_latents or n_observed, device=self.device)
        elif self.nonlinear is not None and given == "auto":
            rival = _estimator(self.nonlinear, "nonlinear", (), ("fit", "transform", "inverse_transform"))
        named = [("identity", Identity()), ("nonlinear", rival)]
        return [pair for pair in named if given == "auto" or (pair[0] == "identity") == (given == "identity")]

    def _best(
        self, stage1: Any, kept: np.ndarray, held_out: np.ndarray, seed: int
    ) -> tuple[_Chain, Criteria, np.ndarray]:
        """The chain, over seeds of stage 1, whose held-out density is the lowest; its criteria, and all densities."""
        solver, chains, refusal = self._solver(seed), [], None
        for fitted in fit_seeds(stage1, kept, self.n_models, seed):
            try:
                chains.append(_Chain(fitted, solver, kept))
            except InputError as error:
                refusal = error
        if refusal is not None and not chains:
            raise Refused(str(refusal)) from refusal
        if not chains:
            raise DivergenceError("Every seed of stage 1 left the finite numbers; lower its learning_rate.")
        scale = kept.std(axis=0, dtype=float)
        scale = np.where(scale > 0, scale, 1)
        judged = [chain.criteria(held_out, scale, self.threshold) for chain in chains]
        densities = np.array([c.density for c in judged])
        k = int(densities.argmin())
        return chains[k], judged[k], densities

    def _solver(self, seed: int) -> Any:
        if not isinstance(self.solver, str):
            return _estimator(self.solver, "solver", SOLVERS, ("fit", "transform", "inverse_transform"))
        kind = SparseComponents if checks.one_of(self.solver, "solver", SOLVERS) == "sparse" else ConstrainedComponents
        return kind(self.n_latents, device=self.device, random_state=seed)

    def _decide(self, judged: dict[str, Criteria], refused: dict[str, Refused]) -> StageChoice:
        if len(judged) == 2:
            return choose(judged["identity"], judged["nonlinear"], margin=self.margin)
        if not judged or ("identity" in refused and not judged["nonlinear"].explained >= ENOUGH):
            raise next(iter(refused.values()))
        (name,) = judged
        title = "The identity" if name == "identity" else "The nonlinear stage 1"
        said = [f"of the other's code stage 2 said: {error}" for error in refused.values()]
        return StageChoice(
            name, f"{title}: {(said or ['it was asked for.'])[0]}", judged.get("identity"), judged.get("nonlinear")
        )

    def _must_go_back(self, way: str) -> None:
        kind = type(self.stage1_).__name__
        checks.require(hasattr(self.stage1_, way), f"stage1 must have {way} to come back to observations.", f"a {kind}")


def _estimator(given: Any, name: str, words: tuple[str, ...], verbs: tuple[str, ...]) -> Any:
    """An estimator that can do what is needed, and be cloned."""
    able = all(callable(getattr(given, verb, None)) for verb in (*verbs, "get_params"))
    allowed = f"one of {', '.join(words)} or an estimator" if words else "an estimator"
    checks.require(able, f"{name} must be {allowed} with {', '.join(verbs)} and get_params.", repr(given))
    return given
