"""Exact likelihood of a one-dimensional latent through one ReLU layer, and where it is smallest.

``z`` follows a Gaussian mixture and ``x = A·relu(w z + b) + c`` plus Gaussian noise. The kinks ``−b_i/w_i`` cut the
line of latents into pieces on which ``x`` is affine in ``z``, so that the density of ``x`` is a sum, over pieces and
components, of a Gaussian density times a difference of normal distribution functions. Nothing is approximated.

By Gibbs' inequality the expected negative log-likelihood under the truth is smallest at the truth, by exactly the
Kullback–Leibler divergence. What identifiability adds is that it is smallest *only* there: along every parameter the
excess must be positive away from the truth, and ``unique_minimiser`` reports by how much.

Reference: Kivva et al. (2022), section 4, "Maximum likelihood", and Figure 1. Renamed: ``λ_j, μ_j, σ_j`` are ``weights,
means, spreads``; the network's ``β`` are ``w, b, A, c``.
Deviations: the observations carry noise, without which a flat piece of the network has no density; expectations are
integrals over ``x``, not sample means; the kinks of the random networks are drawn among the latents, and no component
lies almost wholly where the network is flat: what no observation shows is identified only beyond any precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import count
from math import log, pi, sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from noumena import checks, seeds
from noumena.deprecated import renamed

FAR = 1e30
"""Stands for infinity among standardised limits: its gradients are finite."""
NARROW = 1e-4
"""Below this width, times one plus the distance from the centre, an interval's probability is density times width."""
REACH = 9.0
"""Standard deviations beyond which a Gaussian carries nothing that double precision sees."""
STEPS_PER_NOISE = 2.0
"""Nodes per standard deviation of the noise: the trapezoid rule is then exact to rounding on smooth densities."""
GRID, ZOOM, ROUNDS = 48, 12, 2
NOTHING = 1e-9
"""An expected log-likelihood ratio below this is the error of the integral."""
SEEN = 0.1
SHIFT, FACTOR = 3.0, 4.0
"""How far from the truth a parameter is followed: by addition, or in ratio for spreads, odds of weights and noise."""


@dataclass(frozen=True, eq=False)
class ReluMixture:
    """A mixture of a one-dimensional latent and the ReLU layer that it is seen through; tensors of one dtype.

    >>> one = ReluMixture.of(w=[1], b=[0], A=[[2]], c=[1], weights=[1], means=[0], spreads=[1], noise=0.1)
    >>> one.decode(torch.tensor([-1.0, 3.0], dtype=torch.float64)).tolist()
    [[1.0], [7.0]]
    """

    w: Float[Tensor, " hidden"]
    b: Float[Tensor, " hidden"]
    A: Float[Tensor, "observed hidden"]
    c: Float[Tensor, " observed"]
    weights: Float[Tensor, " component"]
    means: Float[Tensor, " component"]
    spreads: Float[Tensor, " component"]
    noise: Float[Tensor, ""]

    @classmethod
    def of(cls, **parameters: Any) -> ReluMixture:
        """A model from numbers, in double precision, checked."""
        given = {name: torch.as_tensor(value, dtype=torch.float64) for name, value in parameters.items()}
        names = {field.name for field in fields(cls)}
        checks.require(set(given) == names, f"A model must have {', '.join(sorted(names))}.", ", ".join(sorted(given)))
        shapes = {name: tuple(value.shape) for name, value in given.items()}
        hidden, observed, component = shapes["w"], shapes["c"], shapes["weights"]
        fits = shapes["b"] == hidden and shapes["A"] == (*observed, *hidden)
        checks.require(fits, "w, b and A must agree on the hidden units, A and c on the observed.", f"shapes {shapes}")
        fits = shapes["means"] == shapes["spreads"] == component
        checks.require(fits, "weights, means and spreads must have one entry per component.", f"shapes {shapes}")
        least = min(float(given[name].min()) for name in ("weights", "spreads", "noise"))
        checks.require(least > 0, "weights, spreads and noise must be positive.", f"{least:g}")
        total = float(given["weights"].sum())
        checks.require(abs(total - 1) < 1e-9, "weights must sum to one.", f"a sum of {total:g}")
        return cls(**given)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def decode(self, z: Float[Tensor, " batch"]) -> Float[Tensor, "batch observed"]:
        """The observations without noise."""
        return (z[:, None] * self.w + self.b).relu() @ self.A.T + self.c

    @renamed(seed="random_state")
    def sample(self, n: int, *, random_state: Any = 0) -> Float[Tensor, "batch observed"]:
        """``n`` noisy observations."""
        seed = seeds.seed_of(random_state)
        random = seeds.numpy_generator(seed, "relu mixture")
        u = random.choice(len(self.weights), size=n, p=self.weights.numpy(force=True))
        z = self.means[u] + self.spreads[u] * torch.as_tensor(random.standard_normal(n)).to(self.means)
        return self.decode(z) + self.noise * torch.as_tensor(random.standard_normal((n, len(self.c)))).to(z)

    @cached_property
    def population(self) -> tuple[Float[Tensor, "node 1"], Float[Tensor, " node"]]:
        """Nodes over everything one-dimensional observations reach, and the probability that each stands for."""
        checks.require(len(self.c) == 1, "Integrals over x must have one observed dimension.", f"{len(self.c)}")
        reach = REACH * self.spreads
        ends = torch.cat([self.means - reach, self.means + reach])
        kinks = _kinks(self.w, self.b)
        seen = self.decode(torch.cat([ends, kinks.clamp(ends.min(), ends.max())]))  # extremes lie at ends or kinks
        low, high = float(seen.min() - REACH * self.noise), float(seen.max() + REACH * self.noise)
        steps = 2 + int((high - low) / float(self.noise) * STEPS_PER_NOISE)
        nodes = torch.linspace(low, high, steps, dtype=self.w.dtype, device=self.w.device)[:, None]
        mass = log_density(nodes, self).exp() * (high - low) / (steps - 1)
        seen = mass > 1e-18  # the rest adds nothing
        return nodes[seen], mass[seen]


# ---- the density -----------------------------------------------------------------------------------------


def log_density(x: Float[Tensor, "batch observed"], model: ReluMixture) -> Float[Tensor, " batch"]:
    """Exact ``log p(x)``; unchanged when hidden units or components change places, differentiable in all parameters.

    Without a hidden unit at work, ``x`` is the noise around ``c``: at ``x = c`` its density is ``1/√(2π)``.

    >>> still = ReluMixture.of(w=[0], b=[-1], A=[[5]], c=[1], weights=[1], means=[0], spreads=[1], noise=1)
    >>> round(float(log_density(torch.ones(1, 1).double(), still).exp()), 6)
    0.398942
    """
    kinks = _kinks(model.w, model.b).sort().values
    slopes, offsets = _pieces(kinks, model)  # (piece, observed)
    variance, prior = model.noise**2, model.spreads**2
    r = x[:, None, None, :] - offsets[:, None] - slopes[:, None] * model.means[:, None]  # batch, piece, component
    size = (slopes**2).sum(dim=-1)[:, None]
    gain = prior / (variance + prior * size)
    shift = gain * (r * slopes[:, None]).sum(dim=-1)  # of the latent's mean, once x is known
    misfit = ((r - slopes[:, None] * shift[..., None]) ** 2).sum(dim=-1) / variance + shift**2 / prior
    scale = x.shape[1] * (variance.log() + log(2 * pi)) + (prior / (variance * gain)).log()
    far = kinks.new_full((1,), FAR)
    centre, spread = model.means + shift, (variance * gain).sqrt()
    lower, upper = ((ends[:, None] - centre) / spread for ends in (torch.cat([-far, kinks]), torch.cat([kinks, far])))
    return (model.weights.log() - (misfit + scale) / 2 + _log_between(lower, upper)).logsumexp(dim=(1, 2))


def _kinks(w: Tensor, b: Tensor) -> Tensor:
    """Where each unit switches; a unit that never does gets a harmless cut at 0."""
    moves = w != 0
    return torch.where(moves, -b / torch.where(moves, w, 1), 0)


def _pieces(kinks: Tensor, model: ReluMixture) -> tuple[Tensor, Tensor]:
    """Slope and offset of the layer on each piece between sorted kinks."""
    inside = torch.cat([kinks[:1] - 1, (kinks[1:] + kinks[:-1]) / 2, kinks[-1:] + 1])
    active = (inside[:, None] * model.w + model.b > 0).to(model.w)
    return (active * model.w) @ model.A.T, (active * model.b) @ model.A.T + model.c


def _log_between(lower: Tensor, upper: Tensor) -> Tensor:
    """Log of the standard normal probability of an interval, to relative precision in either tail; −∞ when empty."""
    right = lower > 0
    a, b = torch.where(right, -upper, lower), torch.where(right, -lower, upper)  # the lower end in the left tail
    width, middle = b - a, (a + b) / 2
    narrow = width * (1 + middle.abs()) < NARROW
    thin = torch.where(width > 0, width, 1).log() - middle**2 / 2 - log(2 * pi) / 2
    thin = torch.where(width > 0, thin, -torch.inf)
    a = torch.where(narrow, b - 1, a)  # keeps the unused branch finite
    top = _log_normal(b)
    wide = top + (-torch.expm1(_log_normal(a) - top)).log()
    return torch.where(narrow, thin, wide)


def _log_normal(x: Tensor) -> Tensor:
    """Log of the standard normal distribution function, as ``torch.special.log_ndtr``, which ``vmap`` cannot batch."""
    left, right = -x.clamp(max=0) / sqrt(2), x.clamp(min=0) / sqrt(2)
    return torch.where(x < 0, (torch.special.erfcx(left) / 2).log() - left**2, torch.log1p(-torch.erfc(right) / 2))


# ---- where it is smallest --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Minimum:
    """The expected negative log-likelihood along one parameter: where it is smallest, and how clearly."""

    name: str
    index: tuple[int, ...]
    truth: float
    found: float
    """The global minimiser."""
    margin: float
    """The least excess over the truth's value, one step of the grid or more away from it."""
    minima: int
    """Local minima along the line that are deeper than the error of the integral, the truth's included."""
    unique: bool


@dataclass(frozen=True)
class ModelMinima:
    """One model of the experiment: its components, and the minimum along each of its parameters."""

    model: int
    components: int
    hidden: int
    minima: tuple[Minimum, ...]

    @property
    def unique(self) -> bool:
        """Whether the truth is the only global minimiser along every parameter."""
        return all(minimum.unique for minimum in self.minima)

    @property
    def margin(self) -> float:
        """The smallest margin among the parameters."""
        return min(minimum.margin for minimum in self.minima)

    @property
    def error(self) -> float:
        """The largest distance of a minimiser from the truth."""
        return max(abs(minimum.found - minimum.truth) for minimum in self.minima)


def profile(model: ReluMixture, name: str, index: Sequence[int], values: Any) -> Float[Tensor, " value"]:
    """The expected negative log-likelihood under ``model`` as one parameter takes other ``values``.

    A weight's rivals share what it leaves, in their old proportions. Subtract the value at the truth to get the
    Kullback–Leibler divergence of the changed model.

    >>> one = ReluMixture.of(w=[1], b=[9], A=[[1]], c=[-9], weights=[1], means=[0], spreads=[0.6], noise=0.8)
    >>> losses = profile(one, "means", [0], [0.0, 1.0])  # x is N(0, 1): moving its mean by 1 costs 1/2
    >>> round(float(losses[1] - losses[0]), 6)
    0.5
    """
    where = _place(model, name, index)
    nodes, mass = model.population
    values = torch.as_tensor(values, dtype=nodes.dtype, device=nodes.device)
    old = getattr(model, name)
    hit = torch.zeros_like(old, dtype=torch.bool)
    hit[where] = True
    changed = values.reshape(-1, *(1,) * old.ndim)
    rest = old * (1 - changed) / (1 - old[where]) if name == "weights" else old
    moved = torch.where(hit, changed, rest)
    logs = torch.func.vmap(lambda parameter: log_density(nodes, replace(model, **{name: parameter})))(moved)
    return -(logs * mass).sum(dim=1)


def unique_minimiser(model: ReluMixture, name: str, index: Sequence[int]) -> Minimum:
    """Whether the truth is the only global minimiser of the expected negative log-likelihood along one parameter.

    A grid that misses the truth finds every local minimum, finer grids refine it. ``unique`` when the lowest is the
    truth and everything at least one step away is higher by more than the error of the integral.
    """
    where = _place(model, name, index)
    truth = float(getattr(model, name)[where])
    to, back = _coordinates(name)
    reach = SHIFT if to is _same else log(FACTOR)
    step = 2 * reach / (GRID - 1)
    line = to(truth) + np.linspace(-reach, reach, GRID)

    def excess(at: np.ndarray) -> np.ndarray:
        values = torch.as_tensor(back(np.append(at, to(truth))))
        losses = profile(model, name, index, values).numpy(force=True)
        return losses[:-1] - losses[-1]

    heights = excess(line)
    padded = np.pad(heights, 1, constant_values=np.inf)
    bottoms = line[np.minimum(padded[:-2], padded[2:]) > heights + NOTHING]  # plateaus are judged by the grid alone
    lowest, found = _refined(excess, bottoms if len(bottoms) else line[[heights.argmin()]], step)
    away = np.array([to(truth) - step, to(truth) + step])
    places, known = np.concatenate([found, line, away]), np.concatenate([lowest, heights, excess(away)])
    margin = float(known[np.abs(places - to(truth)) > 0.99 * step].min())
    best = float(found[lowest.argmin()])
    unique = margin > NOTHING and bool(abs(best - to(truth)) < step / 10)
    return Minimum(name, tuple(where), truth, float(back(best)), margin, len(found), unique)


def _refined(excess: Any, bottoms: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Heights and places of local minima, on ever finer grids around them, ended by a parabola."""
    places = bottoms
    for _ in range(ROUNDS):
        offsets = np.linspace(-step, step, ZOOM)
        grid = places[:, None] + offsets
        heights = excess(grid.ravel()).reshape(grid.shape)
        best = heights.argmin(axis=1)
        places = grid[np.arange(len(grid)), best]
        step = 2 * step / (ZOOM - 1)
    inner = best.clip(1, ZOOM - 2)
    before, here, after = (heights[np.arange(len(grid)), inner + k] for k in (-1, 0, 1))
    bend = before - 2 * here + after
    curved = (bend > 0) & (inner == best)
    places = places + np.where(curved, step / 2 * (before - after) / np.where(curved, bend, 1), 0)
    return excess(places), places


def _same(value: Any) -> Any:
    return value


def _odds(value: Any) -> Any:
    return np.log(value) - np.log1p(-value)


def _share(value: Any) -> Any:
    return 1 / (1 + np.exp(-value))


def _coordinates(name: str) -> tuple[Any, Any]:
    """The unbounded coordinate in which a parameter is followed, and the way back."""
    if name == "weights":
        return _odds, _share
    return (np.log, np.exp) if name in ("spreads", "noise") else (_same, _same)


def _place(model: ReluMixture, name: str, index: Sequence[int]) -> tuple[int, ...]:
    checks.one_of(name, "name", tuple(model.parameters))
    shape, where = getattr(model, name).shape, tuple(int(i) for i in index)
    inside = len(where) == len(shape) and all(0 <= i < n for i, n in zip(where, shape, strict=False))
    checks.require(inside, f"index must name an entry of {name}, of shape {tuple(shape)}.", f"{where}")
    several = name != "weights" or len(model.weights) > 1
    checks.require(several, "A weight must have another to share with.", "one component")
    return where


# ---- fifty models ----------------------------------------------------------------------------------------


@renamed(seed="random_state")
def random_model(components: int, hidden: int, *, random_state: Any = 0) -> ReluMixture:
    """A random mixture through a random ReLU layer with one output; every kink lies among the latents.

    At least a tenth of every component lies where the layer is not flat.
    """
    seed = seeds.seed_of(random_state)
    components, hidden = checks.count(components, "components"), checks.count(hidden, "hidden")
    drawn = (_drawn(components, hidden, seeds.numpy_generator(seed, "relu mixture", i)) for i in count())
    return next(model for model in drawn if bool((_seen(model) > SEEN).all()))


def _seen(model: ReluMixture) -> Float[Tensor, " component"]:
    """Share of each component on pieces that are not flat."""
    kinks = _kinks(model.w, model.b).sort().values
    far = kinks.new_full((1,), FAR)
    below = torch.cat([-far, kinks, far])[:, None].sub(model.means).div(model.spreads)
    shares = torch.special.ndtr(below).diff(dim=0)
    sloped = (_pieces(kinks, model)[0] != 0).any(dim=1)
    return shares[sloped].sum(dim=0)


def _drawn(components: int, hidden: int, random: np.random.Generator) -> ReluMixture:
    def away_from_zero(*shape: int) -> np.ndarray:
        return random.uniform(0.5, 2, shape) * random.choice([-1, 1], shape)

    weights = random.dirichlet(np.full(components, 5.0))
    means, spreads = random.uniform(-3, 3, components), random.uniform(0.3, 1, components)
    u = random.choice(components, size=hidden, p=weights)
    w = away_from_zero(hidden)
    kinks = random.normal(means[u], spreads[u])
    mixture = {"weights": weights, "means": means, "spreads": spreads}
    layer = {"w": w, "b": -w * kinks, "A": away_from_zero(1, hidden), "c": random.normal(size=1)}
    return ReluMixture.of(**layer, **mixture, noise=random.uniform(0.1, 0.3))


@renamed(seed="random_state")
def experiment(models: int = 50, *, random_state: Any = 0) -> tuple[ModelMinima, ...]:
    """Random models with two and three components in turn, and the minimum along each of their parameters."""
    seed = seeds.seed_of(random_state)
    found = []
    for m in range(checks.count(models, "models")):
        components, hidden = 2 + m % 2, 1 + (m // 2) % 3
        model = random_model(
            components, hidden, random_state=seeds.seed_of(seeds.numpy_generator(seed, "experiment", m))
        )
        places = [(name, index) for name, value in model.parameters.items() for index in np.ndindex(tuple(value.shape))]
        minima = tuple(unique_minimiser(model, name, index) for name, index in places)
        found.append(ModelMinima(m, components, hidden, minima))
    return tuple(found)
