"""An autoencoder whose latents come in slots, each of which should move its own observations.

Two biases in turn, neither with a setting that needs the truth. *First* few dependencies, entry by entry: by Type S
the sparsest basis of the Jacobian is aligned with the slots, and which latent sits in which slot does not matter yet.
*Then* latents are regrouped, by exchanges that lower the number of (observation, slot) pairs in use, and the rest of
the fit asks for few of those pairs. Asking for slots from the start is harder: a latent in the wrong slot is a local
minimum that no small step leaves.

Reference: Matthes et al. (2026), Type S and the experiments. Deviations: latents keep mean 0 and variance 1
(``scale="unit"``), for a penalty on derivatives is vacuous where latents may grow; the paper's own recipe is
``SlotAutoencoder(K, penalty=λ * CompositionalContrast(K), first=None, scale="free")`` with networks of three layers.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from itertools import combinations, product
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noumena import checks, seeds
from noumena.derivatives import jacobian
from noumena.estimators.autoencoder import AutoencoderObjective
from noumena.estimators.base import Codec, network
from noumena.estimators.encoder_decoder import EncoderDecoderModel
from noumena.estimators.exchange import remix
from noumena.estimators.fit_data import FitData
from noumena.estimators.loop import Training, train
from noumena.estimators.parameters import must_be, one_of
from noumena.nets import MLP
from noumena.penalties import DependencySparsity, GroupSparsity, Penalty

NET = MLP(hidden=(256,))
FIRST = 0.1 * DependencySparsity(start=1.0, points=16)
WEIGHT = 0.1
"""Of the default penalty, sparsity over slots."""
SHARE = 0.75
"""Of the steps go to the first stage, where there is one."""
POINTS = 64
"""Latent points at which dependencies are counted for regrouping."""
GRAIN = 0.1
"""The ``ε`` of the count of (observation, slot) pairs in regrouping, in units of spread."""
STARTS = 10
"""Random groupings that exchanges start from, besides the present one."""


@dataclass(eq=False, repr=False, kw_only=True)
class SlotAutoencoder(EncoderDecoderModel):
    """Autoencoder with ``n_slots`` slots of ``slot_size`` latents; slot ``k`` is columns ``k·slot_size …`` of ``ẑ``.

    Parameters
    ----------
    n_slots, slot_size : int
        Number of slots, and latents of each.
    penalty : Penalty, "slots" or None, default "slots"
        Bias of the last stage; ``"slots"`` is ``0.1 * GroupSparsity`` over the slots.
    first : Penalty or None
        Bias of the first three quarters of the steps, after which latents are regrouped; ``None`` is a single stage.
    scale : {"unit", "free"}
        Whether latents keep mean 0 and variance 1, or may grow and evade the penalty (as published).
    encoder, decoder : builder, optional
        Called with the numbers of inputs and outputs, such as ``MLP((64,))``.
    standardise, n_models, training, random_state : see ``Estimator``
        As in every ``Estimator``.

    Attributes
    ----------
    models_, best_, objectives_, terms_, explained_, structure_, decoder_, history_ : see ``Estimator``
        As in every ``Estimator``.

    References
    ----------
    Matthes, Han and Shen (2026), *Mechanistic independence: a principle for identifiable disentangled
    representations*, https://arxiv.org/abs/2509.22196.

    Examples
    --------
    >>> SlotAutoencoder(2, 1, first=None).n_latents
    2
    """

    n_slots: int = field(default=2, kw_only=False, metadata=must_be(checks.count))
    slot_size: int = field(default=3, kw_only=False, metadata=must_be(checks.count))
    penalty: Penalty | str | None = "slots"  # pyright: ignore[reportIncompatibleVariableOverride]
    first: Penalty | None = FIRST
    scale: str = one_of("unit", ("unit", "free"))

    @property
    def n_latents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All slots' latents."""
        return checks.count(self.n_slots, "n_slots") * checks.count(self.slot_size, "slot_size")

    def _check(self) -> None:
        super()._check()
        for name, given in (("penalty", self._bias()), ("first", self.first)):
            allowed = given is None or isinstance(given, Penalty)
            checks.require(allowed, f"{name} must be a Penalty such as 0.1 * GroupSparsity(2).", repr(given))

    def _bias(self) -> Any:
        """The penalty of the last stage."""
        if isinstance(self.penalty, str):
            checks.one_of(self.penalty, "penalty", ("slots",))
            return WEIGHT * GroupSparsity(self.n_slots, start=0.03, ramp=0.0, points=16)
        return self.penalty

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        encoder = network(self.encoder or NET, "encoder", n_observed, self.n_latents)
        decoder = network(self.decoder or NET, "decoder", self.n_latents, n_observed)
        objective = AutoencoderObjective(encoder, decoder, mean, scale, n_latents=self.n_latents)
        objective.penalty, objective.normalise = self._bias(), self.scale == "unit"
        return objective

    def _adopt(self, models: list[Codec], rows: FitData, training: Training, bound: float | None) -> None:
        if self.first is not None and self.penalty is not None:
            early = min(ceil(SHARE * training.steps), training.steps - 1)
            self._begin(models, rows, training.changed(suffix="first", steps=early))
            training = training.changed(steps=training.steps - early)
        super()._adopt(models, rows, training, bound)

    def _begin(self, models: list[Codec], rows: FitData, training: Training) -> None:
        """The first stage: train under its penalty, then put every latent into the slot where it belongs."""
        coded: list[Any] = list(models)
        _need_linear_ends(coded[0], self.n_latents)
        if training.steps > 0:
            for model in coded:
                model.penalty = self.first
            train(coded, self.seeds_, rows, training)
        for model, seed in zip(coded, self.seeds_, strict=True):
            _regroup(model, rows.train[: max(POINTS, 4 * self.n_latents)], self.n_slots, seed)
            model.penalty = self._bias()


def _regroup(model: Any, x: Tensor, n_slots: int, seed: int) -> None:
    """Permute a model's latents into the slots that use the fewest observations; what it reconstructs is unchanged."""
    with torch.no_grad():
        h = model.encoder(x)
        z = (h - h.mean(dim=0)) / h.std(dim=0).clamp_min(1e-8) if model.normalise else h
        J = jacobian(model.decoder, z[:POINTS])
    order = regrouped(J.double().cpu().numpy(), n_slots, seed=seed)
    remix(model.encoder, model.decoder, torch.eye(len(order), device=x.device)[:, order])


def _need_linear_ends(model: Any, n_latents: int) -> None:
    """Refuse networks whose latents cannot be permuted, before any work is done."""
    linear = remix(deepcopy(model.encoder), deepcopy(model.decoder), torch.eye(n_latents, device=model.mean.device))
    checks.require(
        linear,
        "To regroup latents, the encoder must end and the decoder begin with a linear layer.",
        "networks that do not; set first=None",
    )
    free = all(weight.requires_grad for weight in model.parameters())
    checks.require(free, "To regroup latents, all weights must have requires_grad=True.", "others; set first=None")


def regrouped(J: np.ndarray, n_slots: int, *, seed: int = 0) -> np.ndarray:
    """An order of the latents of Jacobians (point, observed, latent) whose consecutive equal slots are sparse.

    Latents of different slots are exchanged, the best pair at a time, while that lowers
    ``Σ log(1 + ‖∂x_i/∂z_slot‖ / ε)``; the lowest of several starts wins, the present order where it is as low.

    >>> J = np.array([[[1.0, 0, 2, 0], [3, 0, 1, 0], [0, 1, 0, 1], [0, 4, 0, 1]]])
    >>> regrouped(J, 2)
    array([0, 2, 1, 3])
    """
    squares, d = J**2, J.shape[-1]
    rng = seeds.numpy_generator(seed, "regrouping")
    starts = [np.arange(d), *(rng.permutation(d) for _ in range(STARTS))]
    found = [_exchanged(squares, start.reshape(n_slots, -1)) for start in starts]
    costs = np.array([cost for cost, _ in found])
    first = int(np.argmax(costs <= costs.min() * (1 + 1e-9)))
    slots = np.sort(found[first][1], axis=1)
    return slots[np.argsort(slots[:, 0])].reshape(-1)


def _exchanged(squares: np.ndarray, slots: np.ndarray) -> tuple[float, np.ndarray]:
    """Exchange latents between slots, (slot, latent), until no exchange pays; the cost reached and the slots."""

    def cost(members: np.ndarray) -> float:
        return float(np.log1p(np.sqrt(squares[:, :, members].sum(axis=-1)) / GRAIN).sum())

    slots, costs = slots.copy(), [cost(members) for members in slots]
    while True:
        best = (1e-9 * sum(costs), None)
        for a, b in combinations(range(len(slots)), 2):
            for i, j in product(range(slots.shape[1]), repeat=2):
                mine, theirs = slots[a].copy(), slots[b].copy()
                mine[i], theirs[j] = theirs[j], mine[i]
                gain = costs[a] + costs[b] - cost(mine) - cost(theirs)
                best = (gain, (a, b, mine, theirs)) if gain > best[0] else best
        if best[1] is None:
            return sum(costs), slots
        a, b, slots[best[1][0]], slots[best[1][1]] = best[1]
        costs[a], costs[b] = cost(slots[a]), cost(slots[b])
