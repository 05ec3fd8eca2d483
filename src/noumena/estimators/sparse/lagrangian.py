"""Sparse components by the published constrained problem: the reference beside ``SparseComponents``.

``h = γ·norm(A x) + β`` with ``A`` a product of linear layers, ``x̂ = D h + d`` with ``D`` another, ``norm`` the batch
norm; minimise ``mean (x̂ − x)²`` subject to ``mean |h| ≤ sparsity`` through a Lagrangian, with extra-gradient Adam on
both sides. The package ``cooper`` keeps the multiplier and takes the steps.

The layers are multiplied out before they meet the rows: function and gradients are those of the layers in turn, but
a step costs as much as its weights and not as much as its weights times its rows.

Reference: Xu et al. (2026), eq. (5), Appendix C and Table 2. Renamed: the level ``ε`` is ``sparsity``.

On the bound: at unit variance ``mean |h| ≤ 0.01`` asks for latents that are active once in ten thousand rows. No data
obey, and the multiplier grows without end. It is the learned gain ``γ`` of the batch norm that can shrink the code
until the bound holds; with ``gain=False`` it cannot, and the sparsest code of unit variance is sought with ever more
weight.

On copies: nothing in the problem keeps two latents apart but the reconstruction, and a decoder with large weights
rebuilds from near copies too. Which latent a component goes to is settled early; two that go to one approach each other
as the multiplier grows, and the fit ends worse than it was. ``det corr(h)`` shows it.

Deviations: there is no stop on the true latents. Rows are those given, drawn in a new order each epoch, and not fresh
ones; columns are standardised first (the published codes leave a batch norm, so nothing changes for them). Biases
inside a chain of linear layers are left out: the batch norm cancels the encoder's, and one at the end stands for the
decoder's. After the fit the batch norm takes its statistics from all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from noumena import checks, seeds, threads
from noumena.checks import DivergenceError
from noumena.estimators.descent import cooper_package
from noumena.estimators.history import History
from noumena.estimators.training import Training
from noumena.estimators.transformer import Transformer, as_given, transactional

LAYERS = (10, 50, 50, 50, 50, 10)
"""Widths of the published hidden layers, in multiples of the number of components: seven layers with the last."""
LOOKS = 100
"""How often in a fit the curves are read."""
SMALLEST_VARIANCE = 1e-5
"""Added to variances before dividing, as torch's batch norm does."""


def excess_density(h: Float[Tensor, "batch latent"], level: float) -> Float[Tensor, ""]:
    """How far the mean absolute code exceeds ``level``: the constraint, met at 0 and below; blind to signs.

    >>> excess_density(torch.tensor([[1.0, 0.0], [0.0, -2.0]]), 0.5)
    tensor(0.2500)
    """
    return h.abs().mean() - level  # eq. (5)


class LinearChain(nn.Module):
    """Linear layers in turn, without biases: one matrix, in many weights."""

    def __init__(self, sizes: tuple[int, ...]):
        super().__init__()
        self.weights = nn.ParameterList([nn.Linear(a, b, bias=False).weight for a, b in pairwise(sizes)])

    def matrix(self) -> Tensor:
        """The product of the layers, (outputs, inputs), multiplied in the cheapest order."""
        last_first = list(self.weights)[::-1]
        return last_first[0] if len(last_first) == 1 else torch.linalg.multi_dot(last_first)


class InnerAutoencoder(nn.Module):
    """The affine autoencoder of the code: a chain of linear layers each way, a batch norm between them."""

    def __init__(self, n_features: int, n_components: int, layers: tuple[int, ...], *, gain: bool):
        super().__init__()
        hidden = tuple(width * n_components for width in layers)
        self.encoder = LinearChain((n_features, *hidden, n_components))
        self.decoder = LinearChain((n_components, *hidden, n_features))
        self.bias = nn.Parameter(torch.zeros(n_features))
        self.gain = nn.Parameter(torch.ones(n_components), requires_grad=gain)
        self.shift = nn.Parameter(torch.zeros(n_components), requires_grad=gain)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Code and reconstruction of a batch, by its own statistics."""
        C, c = self.affine(x)
        h = x @ C.T + c
        return h, h @ self.decoder.matrix().T + self.bias

    def affine(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The encoder as ``h = C x + c``, normalised over the rows given."""
        A = self.encoder.matrix()
        h = x @ A.T
        scale = self.gain / (h.var(dim=0, correction=0) + SMALLEST_VARIANCE).sqrt()
        return scale[:, None] * A, self.shift - scale * h.mean(dim=0)


class ConstrainedComponents(Transformer):
    """Affine sparse components by the published Lagrangian: ``steps`` of extra-gradient Adam, none of them cheap.

    Parameters: ``n_components``, as many as columns if ``None``; ``sparsity``, the bound on the mean absolute code;
    ``steps`` of ``batch_size`` rows at ``learning_rate``, the multiplier at ``dual_learning_rate``; ``layers``, hidden
    widths in multiples of ``n_components``; ``gain``, whether the batch norm learns a gain and a shift;
    ``callback(step, transform)`` is told after every step, for measuring only: nothing it returns is used;
    ``device``; ``random_state``.

    After ``fit``: ``ẑ = (x − mean_) @ components_.T + intercept_``, ``x̂ = ẑ @ mixing_.T + offset_``, ``multiplier_``,
    ``history_`` with the terms ``reconstruction``, ``density`` (the mean absolute code) and ``multiplier``.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        sparsity: float = 0.01,
        steps: int = 80_000,
        batch_size: int = 6144,
        learning_rate: float = 1e-4,
        dual_learning_rate: float = 5e-5,
        layers: tuple[int, ...] = LAYERS,
        gain: bool = True,
        callback: Callable[..., Any] | None = None,
        device: str = "cpu",
        random_state: Any = 0,
    ):
        self.n_components = n_components
        self.sparsity = sparsity
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.dual_learning_rate = dual_learning_rate
        self.layers = layers
        self.gain = gain
        self.callback = callback
        self.device = device
        self.random_state = random_state

    @transactional
    def fit(self, X: Any, y: Any = None):
        """Solve the constrained problem on ``X`` (batch, observed); ``y`` is ignored."""
        layers, device = self._checked()
        array = checks.table(X, "x", min_rows=2, varying=True)
        self._compare_columns(X, array.shape[1], reset=True)
        n = array.shape[1] if self.n_components is None else checks.count(self.n_components, "n_components")
        seed = seeds.seed_of(self.random_state)
        self.mean_, self._scale = array.mean(axis=0, dtype=float), array.std(axis=0, dtype=float)
        rows = torch.as_tensor((array - self.mean_) / self._scale, dtype=torch.float32, device=device)
        with seeds.global_torch(seed, "initial weights"):
            inner = InnerAutoencoder(array.shape[1], n, layers, gain=self.gain).to(device)
        with threads.for_work(6.0 * min(self.batch_size, len(rows)) * n * array.shape[1]):
            self._solve(inner, rows, seed)
        self._keep(inner, rows)
        return self

    def transform(self, X: Any) -> Any:
        """The sparse code; a torch tensor in gives one out."""
        check_is_fitted(self)
        array = checks.table(X, "x")
        self._compare_columns(X, array.shape[1], reset=False)
        return as_given(X, array, (array - self.mean_) @ self.components_.T + self.intercept_)

    def inverse_transform(self, X: Any) -> Any:
        """Observations of codes, by the learned decoder."""
        check_is_fitted(self)
        array, n = checks.table(X, "z"), len(self.components_)
        checks.require(array.shape[1] == n, f"z must have {n} columns.", f"{array.shape[1]}")
        return as_given(X, array, array @ self.mixing_.T + self.offset_)

    # ---- inside ------------------------------------------------------------------------------------------

    def _checked(self) -> tuple[tuple[int, ...], torch.device]:
        checks.count(self.steps, "steps")
        checks.count(self.batch_size, "batch_size", minimum=2)
        checks.number(self.sparsity, "sparsity", minimum=0)
        checks.number(self.learning_rate, "learning_rate", minimum=1e-12)
        checks.number(self.dual_learning_rate, "dual_learning_rate", minimum=1e-12)
        layers = tuple(checks.count(width, "A width in layers") for width in self.layers)
        return layers, Training(device=self.device).torch_device()

    def _solve(self, inner: InnerAutoencoder, rows: Tensor, seed: int) -> None:
        problem, pair = _lagrangian(inner, self.sparsity, self.learning_rate, self.dual_learning_rate)
        self.history_, self.multiplier_ = History(), 0.0
        look_every = max(1, self.steps // LOOKS)
        for step, batch in enumerate(_batches(rows, self.batch_size, self.steps, seed), start=1):
            state = pair.roll({"x": batch}).cmp_state
            if step % look_every == 0 or step == self.steps:
                self.multiplier_ = float(problem.constraint.multiplier.weight.detach())
                self._look(step, float(state.loss.detach()), float(state.misc["density"]))
            if self.callback is not None:
                self.callback(step, _measured(inner, rows, self.mean_, self._scale))

    def _look(self, step: int, reconstruction: float, density: float) -> None:
        if not np.isfinite(reconstruction):
            raise DivergenceError(
                f"The constrained fit left the finite numbers by step {step}; lower learning_rate "
                f"(now {self.learning_rate:g})."
            )
        terms = {"reconstruction": reconstruction, "density": density, "multiplier": self.multiplier_}
        self.history_.add(step, {name: np.array([value]) for name, value in terms.items()})

    def _keep(self, inner: InnerAutoencoder, rows: Tensor) -> None:
        """Fold the layers and the standardisation into one affine map each way."""
        with torch.no_grad():
            C, c = inner.affine(rows)
            D, d = inner.decoder.matrix().detach(), inner.bias.detach()
        self.components_ = C.double().cpu().numpy() / self._scale
        self.intercept_ = c.double().cpu().numpy()
        self.mixing_ = D.double().cpu().numpy() * self._scale[:, None]
        self.offset_ = d.double().cpu().numpy() * self._scale + self.mean_
        self.n_iter_ = self.steps
        self._n_features_out = len(self.components_)


def _lagrangian(inner: InnerAutoencoder, level: float, learning_rate: float, dual_learning_rate: float) -> Any:
    """``min mean (x̂ − x)²  s.t.  mean |h| ≤ level`` in cooper's words, and the extra-gradient steps for both sides."""
    cooper = cooper_package()
    weight = inner.bias
    multiplier = cooper.multipliers.DenseMultiplier(num_constraints=1, device=weight.device, dtype=weight.dtype)

    class SparseReconstruction(cooper.ConstrainedMinimizationProblem):
        def __init__(self) -> None:
            super().__init__()
            self.constraint = cooper.Constraint(constraint_type=cooper.ConstraintType.INEQUALITY, multiplier=multiplier)

        def compute_cmp_state(self, x: Tensor) -> Any:
            h, x_hat = inner(x)
            excess = excess_density(h, level)
            constraint = cooper.ConstraintState(violation=excess[None])
            misc = {"density": excess.detach() + level}
            return cooper.CMPState((x_hat - x).square().mean(), {self.constraint: constraint}, misc=misc)

    problem = SparseReconstruction()
    primal = cooper.optim.ExtraAdam([p for p in inner.parameters() if p.requires_grad], lr=learning_rate)
    dual = cooper.optim.ExtraAdam(multiplier.parameters(), lr=dual_learning_rate, maximize=True)
    return problem, cooper.optim.ExtrapolationConstrainedOptimizer(problem, primal, dual)


def _batches(rows: Tensor, batch_size: int, steps: int, seed: int) -> Iterator[Tensor]:
    """The rows of every step: a new order each epoch, functions of the seed and the step alone."""
    size = min(batch_size, len(rows))
    per_epoch = max(1, len(rows) // size)
    order = None
    for step in range(steps):
        epoch, place = divmod(step, per_epoch)
        if place == 0 or order is None:
            order = torch.randperm(len(rows), generator=seeds.generator(seed, "rows", epoch)).to(rows.device)
        yield rows[order[place * size : (place + 1) * size]]


def _measured(inner: InnerAutoencoder, rows: Tensor, mean: np.ndarray, scale: np.ndarray) -> Callable[[Any], Any]:
    """The present encoder, as a function that is evaluated only when it is called."""

    def transform(x: Any) -> np.ndarray:
        with torch.no_grad():
            C, c = inner.affine(rows)
        return (checks.table(x, "x") - mean) / scale @ C.double().cpu().numpy().T + c.double().cpu().numpy()

    return transform
