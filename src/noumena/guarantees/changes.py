"""Changes of latents: invertible maps ``z ↦ ẑ`` with their inverses, from which witnesses are made.

Every inverse is exact up to rounding: where no formula exists the equation is solved without derivatives, and one
Newton step, which a solution does not feel, carries first derivatives with respect to ``ẑ`` and to the parameters of
the maps involved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import jvp

from noumena.derivatives import Map, columns, jacobian

WIDTHS = 40.0
"""Quantiles are bracketed this many standard deviations around the mean."""
HALVINGS = 36
WIDENINGS = 6
NEWTON_STEPS = 40
MOST_REFERENCES = 4096
KERNELS = 1024
"""Sample points of a smoothed distribution function."""
BUMPS = 200
BUMP_WIDTH = 1.0
RIDGES = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
TAIL = 1e-3
"""Weight of the logistic tails, which keep a distribution function increasing where no sample point lies."""


@dataclass(frozen=True)
class Change:
    """An invertible map of latents.

    >>> double = Change(lambda z: 2 * z, lambda z_hat: z_hat / 2)
    >>> double.inverse(double.forward(torch.tensor([[3.0]])))
    tensor([[3.]])
    """

    forward: Map
    inverse: Map


def shear(t: int, r: int, *, size: float, width: float) -> Change:
    """``ẑ_t = z_t + size · sin(z_r / width)``, all other latents as they are.

    >>> z = torch.tensor([[1.0, 0.5]])
    >>> shear(0, 1, size=2.0, width=1.0).forward(z)
    tensor([[1.9589, 0.5000]])
    """

    def moved(z: Tensor, sign: float) -> Tensor:
        return _put(z, [t], (z[:, t] + sign * size * torch.sin(z[:, r] / width))[:, None])

    return Change(lambda z: moved(z, 1.0), lambda z_hat: moved(z_hat, -1.0))


def rotation(a: int, b: int, normal: Sequence[Scalar], angle: Callable[[Tensor], Tensor]) -> Change:
    """Latents ``a`` and ``b``, each made standard normal, rotated by an angle that may depend on the others."""

    def turned(pair: Tensor, theta: Tensor) -> Tensor:
        cos, sin = torch.cos(theta), torch.sin(theta)
        return torch.stack([cos * pair[:, 0] - sin * pair[:, 1], sin * pair[:, 0] + cos * pair[:, 1]], dim=1)

    def forward(z: Tensor) -> Tensor:
        pair = torch.stack([normal[0].value(z[:, a]), normal[1].value(z[:, b])], dim=1)
        return _put(z, [a, b], turned(pair, angle(z)))

    def inverse(z_hat: Tensor) -> Tensor:
        """The latents of these competing ones, with their derivatives."""
        pair = turned(z_hat[:, [a, b]], -angle(z_hat))
        return _put(z_hat, [a, b], torch.stack([normal[0].root(pair[:, 0]), normal[1].root(pair[:, 1])], dim=1))

    return Change(forward, inverse)


def substitution(g: Map, latents: Sequence[int], rows: Sequence[int], points: Tensor) -> Change:
    """``ẑ_Q = g_R(z)``: observations ``rows`` in place of ``latents``; ``points`` show where latents lie."""
    Q, R = list(latents), list(rows)

    def forward(z: Tensor) -> Tensor:
        return _put(z, Q, g(z)[:, R])

    references = points[:MOST_REFERENCES].detach()
    images = forward(references).detach() if len(Q) > 1 else references

    def inverse(z_hat: Tensor) -> Tensor:
        """Newton's method, and one more step that derivatives go through."""
        fixed = z_hat.detach()
        start = _bisected(g, Q[0], R[0], fixed, references) if len(Q) == 1 else _nearest(fixed, images, references)
        solved = _newton(g, Q, R, fixed, _put(fixed, Q, start[:, Q]))
        slope = _slope(g, Q, solved)[:, R].detach()
        here = _put(z_hat, Q, solved[:, Q])
        step = torch.linalg.solve(slope, (g(here)[:, R] - z_hat[:, Q])[:, :, None])[:, :, 0]
        return _put(here, Q, here[:, Q] - step)

    return Change(forward, inverse)


def _bisected(g: Map, t: int, i: int, z_hat: Tensor, references: Tensor) -> Tensor:
    """The root of ``g_i(…, z_t, …) = ẑ_t`` in ``z_t``, for a ``g_i`` monotone in it where latents lie; beyond, the
    bracket grows only as far as it must."""

    def at(value: Tensor) -> Tensor:
        return g(_put(z_hat, [t], value[:, None]))[:, i]

    lowest, highest = float(references[:, t].min()), float(references[:, t].max())
    low, high = torch.full_like(z_hat[:, t], lowest), torch.full_like(z_hat[:, t], highest)
    rising = at(high) > at(low)
    for k in range(WIDENINGS):
        step = (highest - lowest) * 2.0**k / 10
        low = torch.where((at(low) > z_hat[:, t]) == rising, low - step, low)
        high = torch.where((at(high) < z_hat[:, t]) == rising, high + step, high)
    for _ in range(HALVINGS):
        mid = (low + high) / 2
        below = (at(mid) < z_hat[:, t]) == rising
        low, high = torch.where(below, mid, low), torch.where(below, high, mid)
    return _put(z_hat, [t], ((low + high) / 2)[:, None])


def _nearest(z_hat: Tensor, images: Tensor, references: Tensor) -> Tensor:
    return references[torch.cdist(z_hat / images.std(0), images / images.std(0)).argmin(dim=1)]


def _newton(g: Map, Q: list[int], R: list[int], z_hat: Tensor, z: Tensor) -> Tensor:
    """Newton's method for ``g_R(z) = ẑ_Q`` in ``z_Q``, each row with its own halved step until the error falls."""
    target = z_hat[:, Q]

    def error(z: Tensor) -> Tensor:
        return (g(z)[:, R] - target).abs().amax(dim=1)

    best = error(z)
    for _ in range(NEWTON_STEPS):
        slope, missing = (torch.nan_to_num(v, 0.0, 0.0, 0.0) for v in (_slope(g, Q, z)[:, R], g(z)[:, R] - target))
        step = torch.linalg.lstsq(slope, missing[:, :, None]).solution[:, :, 0]
        before = best
        for halving in range(6):
            trial = _put(z, Q, z[:, Q] - step * 0.5**halving)
            missed = error(trial)
            better = missed < best
            z, best = torch.where(better[:, None], trial, z), torch.where(better, missed, best)
            step = torch.where(better[:, None], 0.0, step)
        if bool((best == before).all()):
            break
    return z.detach()


def _slope(g: Map, Q: list[int], z: Tensor) -> Tensor:
    """``∂g/∂z_Q``, (batch, observed, latent), at the cost of these columns."""
    if len(Q) == z.shape[1]:
        return jacobian(g, z)[:, :, Q]
    return columns(g, z, torch.tensor(Q, device=z.device).expand(len(z), -1))


# ---- one-dimensional distribution functions -----------------------------------------------------------------


@dataclass(frozen=True)
class Scalar:
    """An increasing function of one variable, and its root."""

    value: Callable[[Tensor], Tensor]
    root: Callable[[Tensor], Tensor]


def standardised(values: Tensor) -> Scalar:
    """The affine map to mean 0 and standard deviation 1.

    >>> float(standardised(torch.tensor([1.0, 3.0, 5.0])).value(torch.tensor(5.0)))
    1.0
    """
    mean, spread = values.mean(), values.std()
    return Scalar(lambda v: (v - mean) / spread, lambda u: u * spread + mean)


def normal_score(values: Tensor) -> Scalar:
    """``Φ⁻¹(F(v))`` with ``F`` a smooth distribution function of a sample: what makes a variable standard normal."""
    smooth = Conditional(values[:, None].detach())
    nothing = values.new_zeros(1, 0)

    def given(v: Tensor) -> Tensor:
        return nothing.expand(len(v), 0)

    return Scalar(lambda v: smooth.value(v, given(v)), lambda u: smooth.root(u, given(u)))


class Conditional:
    """Normal scores ``Φ⁻¹(F(x_k | x_1 … x_{k−1}))`` from a sample, strictly increasing in ``x_k``.

    A smooth fit of ``x_k`` to the given ones is taken off (linear plus bumps, ridge chosen by cross-validation); what
    is left has a kernel-smoothed distribution function with kernel weights on the given ones and logistic tails.
    """

    def __init__(self, sample: Tensor):
        sample = sample[:KERNELS]
        n, k = sample.shape
        given, last = sample[:, :-1], sample[:, -1]
        self.centre, self.scale = (given.mean(0), given.std(0)) if k > 1 else (last.new_zeros(0), last.new_ones(0))
        self.given = (given - self.centre) / self.scale
        design = self._features(self.given)
        self.slope = _ridge(design, last)
        self.rest = last - design @ self.slope
        self.spread = self.rest.std()
        self.given_width = 1.06 * n ** (-1 / (k + 3))
        self.width = 0.53 * self.spread * n ** (-1 / 5)

    def value(self, x: Tensor, given: Tensor) -> Tensor:
        """The normal score of ``x`` given the earlier ones."""
        expected, weight = self._given(given)
        return self._score(x - expected, weight)

    def root(self, score: Tensor, given: Tensor) -> Tensor:
        """The ``x`` with this normal score given the earlier ones."""
        fixed = score.detach()
        expected, weight = (v.detach() for v in self._given(given.detach()))
        low, high = torch.full_like(fixed, -WIDTHS) * self.spread, torch.full_like(fixed, WIDTHS) * self.spread
        for _ in range(HALVINGS):
            mid = (low + high) / 2
            below = self._score(mid, weight) < fixed
            low, high = torch.where(below, mid, low), torch.where(below, high, mid)
        rest = ((low + high) / 2).detach()
        slope = jvp(lambda v: self._score(v, weight), (rest,), (torch.ones_like(rest),))[1]
        x = rest + expected
        return x - (self.value(x, given) - score) / slope.detach()

    def _given(self, given: Tensor) -> tuple[Tensor, Tensor]:
        """The linear fit and the weight of every sample point, given the earlier ones."""
        placed = (given - self.centre) / self.scale
        weight = torch.softmax(-0.5 * _squares(placed, self.given) / self.given_width**2, dim=1)
        return self._features(placed) @ self.slope, weight

    def _features(self, placed: Tensor) -> Tensor:
        """A constant, the given ones, and bumps around some sample points."""
        constant = placed.new_ones(len(placed), 1)
        if placed.shape[1] == 0:
            return constant
        bumps = torch.exp(-0.5 * _squares(placed, self.given[:BUMPS]) / BUMP_WIDTH**2)
        return torch.cat([constant, placed, bumps], dim=1)

    def _score(self, rest: Tensor, weight: Tensor) -> Tensor:
        standing = (rest[:, None] - self.rest[None, :]) / self.width
        far = 2 * rest / self.spread
        below = (1 - TAIL) * (weight * torch.special.ndtr(standing)).sum(dim=1) + TAIL * torch.sigmoid(far)
        above = (1 - TAIL) * (weight * torch.special.ndtr(-standing)).sum(dim=1) + TAIL * torch.sigmoid(-far)
        low, high = torch.special.ndtri(below.clamp_max(0.5)), -torch.special.ndtri(above.clamp_max(0.5))
        return torch.where(below < above, low, high)


def _squares(a: Tensor, b: Tensor) -> Tensor:
    return ((a[:, None, :] - b[None, :, :]) ** 2).sum(dim=2)


def _ridge(design: Tensor, target: Tensor) -> Tensor:
    """Least squares with the ridge of the smallest generalised cross-validation error."""
    U, s, V = torch.linalg.svd(design, full_matrices=False)
    projected, n = U.T @ target, len(target)
    left = (target**2).sum() - (projected**2).sum()
    best = (torch.inf, torch.zeros_like(s))
    for ridge in RIDGES:
        shrink = s**2 / (s**2 + ridge * s[0] ** 2)
        error = left + (((1 - shrink) * projected) ** 2).sum()
        best = min(best, (float(error / (1 - shrink.sum() / n) ** 2), shrink), key=lambda found: found[0])
    return V.T @ (best[1] * projected / s.clamp_min(torch.finfo(s.dtype).tiny))


def triangular(g: Map, rows: Sequence[int], given: Sequence[Sequence[int]], points: Tensor) -> Change:
    """``ẑ_k = Φ⁻¹(F(x_k | x_given))`` over the observations ``rows``, each given those earlier ones, by position, that
    it depends on: independent standard normals, as far as the sample of ``points`` tells."""
    R, before = list(rows), [list(earlier) for earlier in given]
    invert = substitution(g, range(points.shape[1]), R, points)
    sample = g(points[:KERNELS]).detach()[:, R]
    steps = [Conditional(sample[:, [*earlier, k]]) for k, earlier in enumerate(before)]

    def forward(z: Tensor) -> Tensor:
        x = g(z)[:, R]
        return torch.stack([step.value(x[:, k], x[:, before[k]]) for k, step in enumerate(steps)], dim=1)

    def inverse(z_hat: Tensor) -> Tensor:
        x = z_hat[:, :0]
        for k, step in enumerate(steps):
            x = torch.cat([x, step.root(z_hat[:, k], x[:, before[k]])[:, None]], dim=1)
        return invert.inverse(x)

    return Change(forward, inverse)


def _put(z: Tensor, columns: list[int], values: Tensor) -> Tensor:
    """A copy of ``z`` with some columns replaced; works inside function transforms."""
    place = {j: k for k, j in enumerate(columns)}
    return torch.stack([values[:, place[j]] if j in place else z[:, j] for j in range(z.shape[1])], dim=1)
