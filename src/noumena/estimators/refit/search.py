"""The structure of a fitted model by search: the exactly sparse refit that explains rows it was not trained on best.

1. *Twins*: the models of a fit are trained on without the penalty and without a structure.
2. *Proposals*: the lightest directions of the twins' tangent spaces (``sparse_directions``), and what a threshold reads
   off every model of the penalised fit.
3. Each proposal is refitted under its structure (``masked``) on part of the rows and judged by the rest. A structure is
   as good as ``Σ_i log(e_i + FLOOR) + PRICE · dependencies`` is low, ``e_i`` the error of an observation: one that
   misses a dependency raises that of its observation much, one that has one too many changes all by a few percent.
   Where none explains them about as well as the dense twin there are more starts, and directions are exchanged.
4. *Flips*: dependencies whose absence shows in the residuals are added, the faintest are dropped, while that pays; at
   last several are added at once and the faintest dropped again.
5. *Refit*: a model for every seed is trained under that structure on all rows to train on, one from where the search
   ended and the others from their first weights; the twins go on as long, and so does a model with a few dependencies
   more, those which the residuals want most. They are compared on held-out rows (``refit``), which took no part in the
   search.

Nothing here sees more than the rows. What the comparisons say are premises of the model's certificate.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from noumena import seeds
from noumena.derivatives import jacobian
from noumena.derivatives.strength import relative_strength
from noumena.estimators.exchange import remix
from noumena.estimators.fit_data import FitData
from noumena.estimators.loop import Trained, train
from noumena.estimators.refit.directions import FAINT, MANY_STARTS, POINTS, Directions, sparse_directions, tangents
from noumena.estimators.refit.masked import Support, masked, misfit, plain, row_errors, squared_errors
from noumena.estimators.refit.refit import (
    FAR,
    HELD_OUT,
    NOISY,
    RESTARTS,
    ErrorDifference,
    Refit,
    compared,
    held_out,
    restarted,
)
from noumena.estimators.training import Training

MOST_OBSERVED, MOST_LATENTS = 128, 16
"""Sizes up to which structures are searched: a refit decodes every row once for each kind of observation."""
FEWEST_ROWS, MOST_ROWS = 100, 50_000
"""Rows below which structures are not searched, and those that are taken into memory of a table that is not."""
FEWEST_STEPS = 50
"""Steps of a fit below which it has no structure to speak of."""
MOST_STEPS = 1500
"""Steps of twins and refits, or those of the fit if they are fewer."""
SHORT, SHORTER = 5, 8
"""A proposal is tried for one part in ``SHORT`` of these steps, a flip for one in ``SHORTER``."""
RATE = 5e-3
"""Peak learning rate of twins and refits, or that of the fit if it is lower."""
BATCH = 128
"""Rows of a batch while structures are compared."""
PRICE = 0.02
"""What a dependency must be worth; equally good refits differ by less."""
CHANCE = 0.02
"""Scores of equally good structures differ by about this."""
JUDGED = 0.2
"""Share of the rows to train on that structures are judged by."""
FAINTER = (0.13, 0.18)
"""What else counts as zero in tangent spaces that are estimated from noisy rows."""
EXPLAINED = 0.25
"""Share of the variance below which twins have no tangent spaces to speak of."""
FLIPS, TURNS = 6, 4
"""Dependencies that are tried in a turn, of either kind, and turns at most."""
GROWTHS = 2
"""How often a structure is widened and thinned out again."""
FEATURES, RIDGE = 96, 1e-3
"""Random features by which residuals are searched for what is missing, and their ridge."""
SWAPS, SWAP_TURNS = 12, 4
"""Exchanges of one direction that are tried in a turn, and turns at most."""
PROMISING = 0.4
"""Misfit above the dense twin's up to which a structure may be right after short training."""
STRENGTH_AT = 256
HOPELESS = 2.5
"""Where the refit's misfit is so far above its twin's no structure was found, and the twins are kept as they are."""


@dataclass(frozen=True, eq=False)
class SearchState:
    """A structure in progress: the model refitted under it, and the errors of the rows that judge it."""

    model: Any
    support: Support
    errors: Float[np.ndarray, "batch observed"]

    @property
    def score(self) -> float:
        """``Σ_i log(e_i + FLOOR) + PRICE · dependencies``."""
        return misfit(self.errors) + PRICE * float(self.support.sum())


def searchable(n_observed: int, n_latents: int, rows: FitData, plan: Training) -> bool:
    """Whether data are of a kind and size whose structure is searched, after a fit of some length."""
    small = n_latents <= n_observed <= MOST_OBSERVED and 2 <= n_latents <= MOST_LATENTS
    return small and len(rows.train) >= FEWEST_ROWS and plan.steps >= FEWEST_STEPS


def in_memory(rows: FitData) -> FitData:
    """The rows as they are, or the first of those, in random order, that are on disk or in bytes."""
    if isinstance(rows.train, Tensor):
        return rows
    return replace(rows, train=rows.train[:MOST_ROWS], held_out=rows.held_out[:MOST_ROWS])


def search_and_refit(
    models: list[Any],
    fresh: Callable[[int], Any],
    read_off: dict[int, Support],
    model_seeds: list[int],
    rows: FitData,
    plan: Training,
) -> tuple[Trained, Refit] | None:
    """The refits of a fit's ``models`` and the comparison with their twins; ``None`` where it was stopped by hand.

    ``fresh`` makes the model of a seed before training; ``read_off`` has the structures that a threshold reads off
    those models that did not diverge.
    """
    rows = in_memory(rows)
    steps, rate = min(plan.steps, MOST_STEPS), min(plan.learning_rate, RATE)
    plan = plan.changed(steps=steps, learning_rate=rate, within=None, polish=0, patience=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of proposals that are dropped
        twins = train([plain(model) for model in models], model_seeds, rows, plan.changed(suffix="twins"))
        if twins.interrupted:
            return None
        sound = [twin for twin, lost in zip(twins.models, twins.diverged, strict=True) if not lost]
        thresholded = [(models[k], usable(support)) for k, support in read_off.items()]
        state = Search(sound, rows, plan).run(thresholded)
    if state is None:
        return None
    S = state.support
    starts = [state.model, *(fresh(seed) for seed in model_seeds[1:])]
    sparse = train(masked(starts, [S] * len(starts)), model_seeds, rows, plan.changed(suffix="refit"))
    wider = train(masked([state.model], [wanted(state, rows)]), model_seeds[:1], rows, plan.changed(suffix="wider"))
    gain = ErrorDifference.of(row_errors(wider.models[0], held_out(rows)), row_errors(sparse.models[0], held_out(rows)))
    for turn in range(1, RESTARTS + 1):
        sparse = restarted(sparse, fresh, [seed + turn * FAR for seed in model_seeds], S, rows, plan, turn)
    twins = train([plain(twin) for twin in twins.models], model_seeds, rows, plan.changed(suffix="twins2"))
    if any(trained.interrupted for trained in (sparse, wider, twins)):
        return None
    refit = compared(sparse, twins, S, rows, gain)
    lowest = [min(misfit(squared_errors(m, held_out(rows))) for m in found.models) for found in (sparse, twins)]
    if lowest[0] <= lowest[1] + HOPELESS:
        return sparse, refit
    dense = np.ones_like(S)
    full = replace(twins, models=[model.eval() for model in masked(twins.models, [dense] * len(twins.models))])
    return full, compared(full, twins, dense, rows, ErrorDifference(0.0, 0.0))


class Search:
    """One search in progress, from the twins of a fit; part of the rows to train on judges."""

    def __init__(self, twins: list[Any], rows: FitData, plan: Training):
        judged = max(1, round(JUDGED * len(rows.train)))
        self.rows = replace(rows, train=rows.train[judged:], held_out=rows.train[:judged])
        self.plan = plan.changed(checkpoint=None, verbose=False, batch_size=BATCH)
        self.stopped = False
        judges, x = self.rows.held_out, self.rows.train[:POINTS]
        errors = [row_errors(twin, judges).mean() for twin in twins]
        best = twins[int(np.argmin(errors))]
        explained = min(errors) <= (1 - EXPLAINED) * float(judges.var(dim=0).sum())
        self.tangents = tangents(twins, x) if explained else None
        noisy = min(errors) > NOISY * float(judges.var(dim=0).sum())
        self.faints = (FAINT, *(FAINTER if noisy else ()))
        self.d = best.code(x[:2]).shape[1]
        self.whole: tuple[Any, Support] = (best, np.ones((rows.train.shape[1], self.d), dtype=bool))

    def run(self, thresholded: list[tuple[Any, Support]]) -> SearchState | None:
        """The best structure among proposals and their flips; ``None`` where it was stopped by hand."""
        whole, *states = self._tried([self.whole, *self._from_tangents(), *thresholded], SHORT)
        state = simplest(states)
        if not promising(state, whole) and not self.stopped:
            state = self._swapped(state, whole)
        state = self._settled(state)
        for _ in range(GROWTHS):
            better = None if self.stopped else self._grown(state)
            if better is None:
                break
            state = better
        return None if self.stopped else state

    def _settled(self, state: SearchState) -> SearchState:
        """The structure when no flip pays any more."""
        for turn in range(TURNS):
            better = None if self.stopped else self._turn(state, turn)
            if better is None:
                break
            state = better
        return state

    def _grown(self, state: SearchState) -> SearchState | None:
        """The structure by way of one with what its residuals want most: where several dependencies of one latent are
        in wrong places no single flip pays; ``None`` where nothing is missing."""
        wider = wanted(state, self.rows)
        stay, grown = self._tried([(state.model, state.support), (state.model, wider)], SHORT)
        if self.stopped or not ErrorDifference.of(grown.errors.sum(axis=1), stay.errors.sum(axis=1)).below_zero:
            return None
        settled = self._settled(grown)
        return None if self.stopped or settled.score >= stay.score else settled

    def _from_tangents(self) -> list[tuple[Any, Support]]:
        """The lightest directions of the tangent spaces, as a structure of the best twin."""
        proposals = []
        if self.tangents is None:
            return proposals
        for faint in self.faints:
            found = sparse_directions(self.tangents, faint=faint)
            basis = found.basis()
            proposals += [self._along(found, basis)] if len(basis) == self.d else []
        return proposals

    def _swapped(self, state: SearchState, whole: SearchState) -> SearchState:
        """The structure after exchanges of directions that pay, among those of more starts."""
        if self.tangents is None:
            return state
        found = sparse_directions(self.tangents, starts=MANY_STARTS, faint=self.faints[len(self.faints) // 2])
        basis = found.basis()
        for _ in range(SWAP_TURNS if len(basis) == self.d else 0):
            bases = [basis, *found.swaps(basis, SWAPS)]
            tried = self._tried([self._along(found, each) for each in bases], SHORT)
            best = simplest([state, *tried])
            if best is state or self.stopped:
                break
            state, basis = best, next(b for b, one in zip(bases, tried, strict=True) if one is best)
            if promising(state, whole):
                break
        return state

    def _along(self, found: Directions, basis: list[int]) -> tuple[Any, Support]:
        """The best twin with latents along these directions, and their structure."""
        model = remixed(self.whole[0], found, basis, self.rows.train[:POINTS])
        return model, usable(found.supports[basis].T)

    def _tried(self, proposals: list[tuple[Any, Support]], share: int) -> list[SearchState]:
        """Every proposal refitted for a part of the steps, on the same batches."""
        models = masked([model for model, _ in proposals], [support for _, support in proposals])
        fitted = train(models, [0] * len(models), self.rows, self.plan.changed(steps=max(1, self.plan.steps // share)))
        self.stopped |= fitted.interrupted
        return [
            SearchState(model, support, squared_errors(model, self.rows.held_out))
            for model, (_, support) in zip(fitted.models, proposals, strict=True)
        ]

    def _turn(self, state: SearchState, turn: int) -> SearchState | None:
        """The structure after the flips that pay; ``None`` where none does."""
        flips = [*missing(state, self.rows, seed=turn)[:FLIPS], *faintest(state, self.rows.train)[:FLIPS]]
        stay, *moved = self._flipped(state, [[], *([flip] for flip in flips)], SHORTER)
        gains = np.array([stay.score - found.score for found in moved])
        good = [flips[k] for k in np.argsort(-gains) if gains[k] > 0]
        if not good or self.stopped:
            return None
        sets = [[], *(good[:n] for n in sorted({1, (len(good) + 1) // 2, len(good)}))]
        again = self._flipped(state, sets, SHORT)
        best = simplest(again)
        return None if best is again[0] else best

    def _flipped(self, state: SearchState, sets: list[list[tuple[int, int]]], share: int) -> list[SearchState]:
        """The structure after each set of flips, refitted from where it is."""
        return self._tried([(state.model, flipped(state.support, places)) for places in sets], share)


def promising(state: SearchState, whole: SearchState) -> bool:
    """Whether a structure explains the rows about as well as none, after training as long."""
    return misfit(state.errors) <= misfit(whole.errors) + PROMISING


def simplest(states: list[SearchState]) -> SearchState:
    """The sparsest of the structures that are as good as the best, but for what chance makes of equal ones."""
    best = min(state.score for state in states)
    equal = [state for state in states if state.score <= best + CHANCE]
    return min(equal or states, key=lambda state: (int(state.support.sum()), state.score))


def flipped(support: Support, places: list[tuple[int, int]]) -> Support:
    """The support with some entries changed.

    >>> flipped(np.array([[True, False]]), [(0, 1)])
    array([[ True,  True]])
    """
    after = support.copy()
    for place in places:
        after[place] = ~after[place]
    return after


def usable(support: Support) -> Support:
    """The support where an observation that seems to depend on no latent may depend on all.

    >>> usable(np.array([[True, False], [False, False]]))
    array([[ True, False],
           [ True,  True]])
    """
    return support | ~support.any(axis=1, keepdims=True)


def wanted(state: SearchState, rows: FitData) -> Support:
    """The support with the dependencies that the residuals of its refit want most."""
    return flipped(state.support, missing(state, rows)[:FLIPS])


def faintest(state: SearchState, x: Float[Tensor, "batch observed"]) -> list[tuple[int, int]]:
    """Dependencies from the faintest on, of observations that have others: a latent may lose its last."""
    with torch.no_grad():
        z = state.model.code(x[:STRENGTH_AT])
    strength = relative_strength(state.model.decoder, z)
    S = state.support
    places = [(i, j) for i, j in np.argwhere(S).tolist() if S[i].sum() > 1]
    return sorted(places, key=lambda place: strength[place])


def missing(state: SearchState, rows: FitData, *, seed: int = 0) -> list[tuple[int, int]]:
    """Absent dependencies from the most wanted on: those with which random features of an observation's latents explain
    most of what its refit leaves over, on rows that they were not fitted to."""
    model = state.model
    with torch.no_grad():
        parts = [(model.code(x), x - model.decoder(model.code(x))) for x in (rows.train[:HELD_OUT], held_out(rows))]
    (z, left), (z_new, left_new) = [(z.double().cpu(), e.double().cpu()) for z, e in parts]
    centre, spread = z.mean(dim=0), z.std(dim=0).clamp_min(1e-12)
    z, z_new = (z - centre) / spread, (z_new - centre) / spread
    generator = seeds.generator(seed, "features of residuals")
    weight = torch.randn(FEATURES, z.shape[1], generator=generator, dtype=z.dtype)
    offset = torch.randn(FEATURES, generator=generator, dtype=z.dtype)
    gains = {}
    for i, j in np.argwhere(~state.support).tolist():
        seen = torch.as_tensor(state.support[i] | (np.arange(z.shape[1]) == j)).to(z)
        phi, phi_new = (torch.relu((v * seen) @ weight.T + offset) for v in (z, z_new))
        gram = phi.T @ phi / len(phi) + RIDGE * torch.eye(FEATURES, dtype=z.dtype)
        found = torch.linalg.solve(gram, phi.T @ left[:, i] / len(phi))
        after = left_new[:, i] - phi_new @ found
        gains[i, j] = float(left_new[:, i].square().mean() - after.square().mean())
    return sorted((place for place in gains if gains[place] > 0), key=lambda place: -gains[place])


def remixed(model: Any, found: Directions, basis: list[int], x: Float[Tensor, "batch observed"]) -> Any:
    """A copy of a model whose latents go along these directions, as far as a linear change of latents can."""
    copy = plain(model)
    with torch.no_grad():
        z = copy.code(x)
    J = jacobian(copy.decoder, z).detach().double().cpu()
    c = torch.linalg.lstsq(J, found.vectors[basis].movedim(0, -1)).solution  # (point, latent, direction)
    c = c / c.norm(dim=1, keepdim=True).clamp_min(1e-12)
    axes = torch.linalg.eigh(torch.einsum("pak,pbk->kab", c, c) / len(c))[1][:, :, -1]  # signs differ between points
    B = axes.T
    spread = (z.double().cpu() @ torch.linalg.inv(B).T).std(dim=0)  # of the new latents, which get unit spread
    remix(copy.encoder, copy.decoder, (B * spread).to(z.device))
    return copy
