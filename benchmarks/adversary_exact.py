"""Families of exact subjects: structures, worlds and decoders with points; one short function of a seed each.

Every docstring says the trick and why the subject must not, or may, be certified.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from adversary_truth import (
    CONNECTED,
    CONTINUOUS,
    FULL,
    INVERTIBLE,
    SPREAD,
    Case,
    Claim,
    Dressed,
    Rival,
    at_column,
    brute_gap,
    certified,
    decoder_case,
    disguised,
    dressed,
    gapped,
    law,
)
from torch import Tensor

import noumena as nm

LAWS = ("gaussian", "unit gaussian", "laplace", "uniform", "correlated gaussian")


def _start(name: str, seed: int) -> tuple[np.random.Generator, int, int]:
    """A stream of numbers of its own, a number of latents and a number of points."""
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    return rng, int(rng.integers(2, 6)), int(rng.integers(300, 1001))


# ---- nothing hidden: gap by brute force ------------------------------------------------------------------------------


def structures(seed: int) -> Case:
    """Random supports; identifiable where two matrices with generic entries have a positive gap."""
    rng, _, _ = _start("structures", seed)
    d = int(rng.integers(2, 7))
    support = np.zeros((1, d), dtype=bool)
    while not (support.any(axis=0).all() and support.any(axis=1).all()):
        support = rng.random((int(rng.integers(d, 16)), d)) < rng.uniform(0.2, 0.8)
        support[: 2 * d] = np.vstack([np.eye(d)] * 2)[: len(support)] if rng.integers(2) else support[: 2 * d]
    gaps = [brute_gap(np.where(support, rng.normal(size=support.shape), 0))[0] for _ in range(2)]
    full = np.linalg.matrix_rank(np.where(support, rng.normal(size=support.shape), 0)) == d
    truth = None if min(gaps) != max(gaps) or not full else gaps[0] > 0
    return Case("structure", lambda: certified(nm.Structure(support)), truth, note=f"gap {gaps[0]}")


def matrices(seed: int) -> Case:
    """Whole numbers and few kinds of rows, bent or not: rows cancel together where generic ones would not."""
    rng, d, n = _start("matrices", seed)
    while True:
        kinds = rng.integers(1, 3, (int(rng.integers(d, 3 * d)), d)) * (rng.random((1, d)) < 0.9)
        kinds = kinds * (rng.random(kinds.shape) < rng.uniform(0.3, 0.8)) * rng.choice([-1, 1], kinds.shape)
        J = kinds[rng.integers(len(kinds), size=int(rng.integers(d + 1, 22)))].astype(float)
        J = J[J.any(axis=1)]
        if len(J) > d and np.linalg.matrix_rank(J) == d:
            return _exact(J, rng, n)


def _exact(J: np.ndarray, rng: np.random.Generator, n: int, *, single: bool = False) -> Case:
    """A dressed matrix, with the cheaper basis as its rival where there is one."""
    gap, basis = brute_gap(J)
    g, z = dressed(J, rng, single=single), law(rng, n, J.shape[1])
    rival = None if gap > 0 else g.rival(z, basis)
    return decoder_case(g, z, gap > 0, rival=rival, note=f"gap {gap}, {len(J)}×{J.shape[1]}")


def controls(seed: int) -> Case:
    """Exact zeros, positive gap, points of full support: identified, linear or not, dependent latents or not."""
    rng, d, n = _start("controls", seed)
    return _exact(gapped(rng, d), rng, n)


def units(seed: int) -> Case:
    """The same in other units, order and offsets: still identified."""
    rng, d, n = _start("units", seed)
    g, z = dressed(gapped(rng, d), rng), law(rng, n, d)
    a, b = (torch.as_tensor(10.0 ** rng.uniform(-3, 3, k)) for k in (d, len(g.J)))
    order, shift = torch.as_tensor(rng.permutation(d)), torch.as_tensor(rng.normal(size=len(g.J)))
    back = torch.argsort(order)
    return decoder_case(lambda v: b * (g((v / a)[..., back]) + shift), (z[:, order] * a), True)


def element_wise(seed: int) -> Case:
    """Latents bent one by one, smoothly and strongly: still identified."""
    rng, d, n = _start("element-wise", seed)
    g, z = dressed(gapped(rng, d), rng), law(rng, n, d)
    k = torch.as_tensor(rng.uniform(0.3, 1.5, d))
    return decoder_case(lambda v: g(torch.asinh(v) / k), torch.sinh(k * z), True)


def worlds(seed: int) -> Case:
    """Worlds of the library with a gap of one to three: identified."""
    rng, _, _ = _start("worlds", seed)
    d, gap = int(rng.integers(3, 6)), int(rng.integers(1, 4))
    return _world(rng, seed, d, int(rng.integers(3, 5)) * d + gap, gap)


def any_worlds(seed: int) -> Case:
    """Worlds of any gap: what is called not identified must come with a witness that verifies."""
    rng, d, _ = _start("any worlds", seed)
    return _world(rng, seed, d, int(rng.integers(d, 3 * d + 1)), None, independent=bool(rng.integers(2)))


def _world(rng: np.random.Generator, seed: int, d: int, n: int, gap: int | None, **options: Any) -> Case:
    for k in range(100):
        try:
            S = nm.worlds.family("random", d, n, gap=gap, seed=seed + 10**7 * k)
            strength = float(rng.uniform(0.2, 0.6))
            world = nm.worlds.structured(S, law=str(rng.choice(LAWS)), strength=strength, seed=seed)
            break
        except nm.InputError:  # there may be none of this size and gap
            gap, n = (None if gap is None else max(1, gap - 1)), n + 1
    else:
        raise RuntimeError("no world was found")
    gaps = [brute_gap(J)[0] for J in world.jacobian(world.latents(3)).numpy()]
    truth = None if min(gaps) <= 0 < max(gaps) else gaps[0] > 0
    if options.get("independent"):
        truth = truth or None  # fewer models compete
    return Case("world", lambda: certified(world, **options), truth, note=f"gap {min(gaps)}, {n}×{d}, {options}")


# ---- more than one part ----------------------------------------------------------------------------------------------


def clusters(seed: int) -> Case:
    """Two to four separate clusters, a latent flipped or shifted in each its own way: same x, as sparse."""
    rng, d, n = _start("clusters", seed)
    g, (t, r, *others) = dressed(gapped(rng, d), rng), rng.permutation(d)
    across, slanted = np.eye(d)[r], d > 2 and bool(rng.integers(2))
    across += np.eye(d)[others[0]] * rng.uniform(0.3, 1) if slanted else 0
    parts, apart = int(rng.integers(2, 5)), float(rng.uniform(4.5, 7))
    flipped = bool(rng.integers(2))
    a = torch.as_tensor([1.0, -1.0, 1.0, -1.0] if flipped else [1.0] * 4)
    b = torch.as_tensor(np.zeros(4) if flipped and rng.integers(2) else rng.uniform(-1.5, 1.5, 4))
    u = torch.as_tensor(across)

    def draw(count: int, rng: np.random.Generator) -> np.ndarray:
        labels = rng.integers(parts, size=(count, 1))
        return rng.uniform(-1, 1, (count, d)) + labels * apart * across / (across @ across)

    def part(v: Tensor) -> Tensor:
        return torch.round(v @ u / apart).long().clamp(0, parts - 1)

    def there(v: Tensor) -> Tensor:
        return at_column(v, t, v[..., t] * a[part(v)] + b[part(v)])

    def back(v: Tensor) -> Tensor:
        return at_column(v, t, (v[..., t] - b[part(v)]) * a[part(v)])

    view = str(rng.choice(["changed", "first", "world" if slanted else "independent world"]))
    return disguised(g, draw, n, (there, back), view, false=CONNECTED, note=f"{parts} clusters, {view}")


def c_shapes(seed: int) -> Case:
    """A connected C: a latent is stretched in one arm and not in the other, smoothly; same x, as sparse."""
    rng, d, n = _start("c-shapes", seed)
    g, (t, r) = dressed(gapped(rng, d), rng), rng.permutation(d)[:2]
    c, slot = float(rng.uniform(1, 4)), float(rng.uniform(0.4, 0.8))

    def draw(count: int, rng: np.random.Generator) -> np.ndarray:
        z = rng.uniform(-2, 2, (3 * count, d))
        return z[(np.abs(z[:, r]) > slot) | (z[:, t] < -1)][:count]

    def there(v: Tensor) -> Tensor:
        arm = torch.relu(v[..., t] + 1)
        return at_column(v, t, v[..., t] + (v[..., r] > 0) * c * arm**2)

    def back(v: Tensor) -> Tensor:
        arm = torch.relu(v[..., t] + 1)
        stretched = v[..., t] - arm + (torch.sqrt(1 + 4 * c * arm) - 1) / (2 * c)
        return at_column(v, t, torch.where(v[..., r] > 0, stretched, v[..., t]))

    view = str(rng.choice(["changed", "first", "world"]))
    return disguised(g, draw, n, (there, back), view, false=CONNECTED, note=view)


# ---- derivatives that do not tell ------------------------------------------------------------------------------------


def cantor(v: Tensor, digits: int = 30) -> Tensor:
    """Cantor's function of the fractional part: it climbs, and its derivative is zero almost everywhere."""
    rest, value, open_ = v - torch.floor(v), torch.floor(v), torch.ones_like(v)
    for k in range(1, digits):
        digit = torch.floor(3 * rest)
        value = value + open_ * torch.where(digit >= 1, 0.5**k, 0.0)
        open_, rest = open_ * (digit != 1), 3 * rest - digit
    return value


JUMPS: dict[str, Callable[[Tensor], Tensor]] = {
    "round": lambda v: torch.round(2 * v),
    "floor": lambda v: torch.floor(1.5 * v),
    "step": lambda v: 2.0 * (v > 0.3),
    "trunc": lambda v: torch.trunc(3 * v),
    "cantor": cantor,
    "detach": lambda v: 1.5 * v.detach(),
    "detached curve": lambda v: 2 * torch.tanh(v.detach()) + v.detach() ** 2 / 2,
}


def jumps(seed: int) -> Case:
    """A latent moved by a jump of another: the Jacobian is that of the smooth model, the latents are not."""
    return _hidden(seed, [name for name in JUMPS if "detach" not in name] + ["sign"])


def detached(seed: int) -> Case:
    """A dependence that autograd does not see: the decoder has more dependencies than its Jacobian shows."""
    return _hidden(seed, ["detach", "detached curve"])


def _hidden(seed: int, names: list[str]) -> Case:
    rng, d, n = _start("hidden", seed)
    g, z, (t, r) = dressed(gapped(rng, d), rng), law(rng, n, d), rng.permutation(d)[:2]
    name, size = str(rng.choice(names)), float(rng.uniform(0.4, 2))

    def moved(v: Tensor, way: float) -> Tensor:
        if name == "sign":
            return at_column(v, t, v[..., t] * torch.where(v[..., r] > 0, 1.0, -1.0))
        return at_column(v, t, v[..., t] + way * size * JUMPS[name](v[..., r]))

    rival = Rival(g, z)
    return decoder_case(lambda v: g(moved(v, -1.0)), moved(z, 1.0), False, false=CONTINUOUS, rival=rival, note=name)


# ---- what a threshold or rounding hides ------------------------------------------------------------------------------


def faint(seed: int) -> Case:
    """A latent that acts faintly on many rows is mixed away by entries too faint to count; the honest model is as
    sparse as the mixed one looks, and sparser than it is."""
    rng, _, n = _start("faint", seed)
    return faint_case(int(rng.integers(3, 14)), float(np.exp(rng.uniform(np.log(0.01), np.log(0.2)))), rng, n)


def faint_case(d: int, strength: float, rng: np.random.Generator, n: int) -> Case:
    """``d − 1`` clear latents with rows of their own and rows shared with the last, faint one."""
    own, shared = int(rng.integers(3, 6)), int(rng.integers(4, 8))
    W = np.zeros(((d - 1) * (own + shared), d))
    for k in range(d - 1):
        W[k * (own + shared) : (k + 1) * (own + shared), k] = rng.uniform(0.8, 1.2)
        W[k * (own + shared) + own : (k + 1) * (own + shared), -1] = strength * rng.uniform(0.9, 1.1, shared)
    B = np.eye(d)
    B[-1, :-1] = -rng.uniform(0.4, 0.9, d - 1)
    return mixed_case(W, B, torch.as_tensor(rng.normal(size=(n, d))), f"{d} latents, {strength:.3f}")


def mixed_case(W: np.ndarray, B: np.ndarray, z: Tensor, note: str = "") -> Case:
    """The linear model ``x = W z`` with latents ``B⁻¹z``; its rival is ``W`` itself."""
    M, inverse, honest = torch.as_tensor(W @ B), torch.as_tensor(np.linalg.inv(B)), torch.as_tensor(W)
    rival = Rival(lambda v: v @ honest.mT, z)
    return decoder_case(lambda v: v @ M.mT, z @ inverse.mT, False, rival=rival, note=note)


def parallel(seed: int) -> Case:
    """Many rows of one sum of two latents among many generic ones: the sum saves, and exchanges are too many to try."""
    rng, _, n = _start("parallel", seed)
    own, generic = int(rng.integers(4, 61)), int(rng.integers(3, 120))
    return parallel_case(own, own + generic + int(rng.integers(1, 120)), generic, rng, n)


def parallel_case(own: int, sums: int, generic: int, rng: np.random.Generator, n: int) -> Case:
    """Three latents: rows of each, rows of the first two in one proportion, generic rows of the other two pairs."""
    k, rows = float(rng.uniform(0.5, 2)), []
    rows += [np.eye(3)[j] for j in range(3) for _ in range(own)]
    rows += [np.array([1, k, 0]) * scale for scale in rng.uniform(0.5, 1.5, sums)]
    rows += [np.where(np.arange(3) != j, rng.uniform(0.5, 1.5, 3), 0) for j in (0, 1) for _ in range(generic)]
    g, z = dressed(np.array(rows), rng, linear=0.7), law(rng, n, 3)
    basis = np.array([[1.0, -k, 0], [0, 1, 0], [0, 0, 1]])
    return decoder_case(g, z, False, rival=g.rival(z, basis), note=f"{len(rows)} rows")


def repeated(seed: int) -> Case:
    """A mixture of two latents measured as often as they are: (a, b), (H, b) and (a, H) are equally sparse."""
    rng, _, n = _start("repeated", seed)
    return _exact(_repeated(rng), rng, n)


def _repeated(rng: np.random.Generator) -> np.ndarray:
    times, more = int(rng.integers(2, 5)), int(rng.integers(0, 3))
    k = float(rng.uniform(0.4, 2) * rng.choice([-1, 1]))
    J = np.zeros((times * 3 + 3 * more, 2 + more))
    for row in range(3 * times):
        J[row, :2] = ((1, 0), (0, 1), (1, k))[row % 3]
    for row in range(3 * more):
        J[3 * times + row, 2 + row % more] = 1
    return J * rng.uniform(0.5, 1.5, (len(J), 1))


def single_precision(seed: int) -> Case:
    """An exact tie inside a decoder that computes in single precision, where nothing cancels to the last digit."""
    rng, _, n = _start("single", seed)
    case = _exact(_repeated(rng), rng, n)
    assert isinstance(case.decoder, Dressed)
    assert case.points is not None
    single = Dressed(case.decoder.J, case.decoder.inner, case.decoder.outer, single=True)
    return decoder_case(single, case.points, False, rival=case.rival, note="float32")


def near_ties(seed: int) -> Case:
    """A tie broken by a billionth: the rival reproduces the observations to rounding. Broken by more than a thousandth
    it is an exact gap, of which anything but *not identified* may be said."""
    rng, _, n = _start("near ties", seed)
    J = _repeated(rng)
    gap, basis = brute_gap(J)
    rounding = bool(rng.integers(2))
    off = 10.0 ** (rng.uniform(-14, -9) if rounding else rng.uniform(-3, -1))
    g, z = dressed(J, rng), law(rng, n, J.shape[1])
    near = Dressed(g.J * (1 + off * torch.as_tensor(rng.normal(size=J.shape))), g.inner, g.outer)
    if rounding:
        return decoder_case(near, z, False, rival=g.rival(z, basis), note=f"off by {off:.0e}, gap {gap}")
    return decoder_case(near, z, True if brute_gap(near.J.numpy())[0] > 0 else None, note=f"off by {off:.0e}")


def dead(seed: int) -> Case:
    """Rows of a latent that stop moving on a small share of points, flat (ReLU) or nearly (steep softplus): there the
    latent is remapped by another one at no cost."""
    rng, _, n = _start("dead", seed)
    steep = float(rng.choice([np.inf, np.inf, 40, 100, 400]))
    share = float(np.exp(rng.uniform(np.log(0.002), np.log(0.1))))
    return dead_case(share, steep, rng, max(n, int(10 / share)))


def dead_case(share: float, steep: float, rng: np.random.Generator, n: int) -> Case:
    """Own rows of two latents, those of the first flat beyond a quantile of it, and rows of both."""
    own, both = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    J = np.zeros((2 * own + both, 2))
    J[:own, 0], J[own : 2 * own, 1], J[2 * own :] = 1, 1, rng.uniform(0.5, 1.5, (both, 2))
    J *= rng.uniform(0.5, 1.5, (len(J), 1))
    A, z, c = torch.as_tensor(J), law(rng, n, 2), float(rng.uniform(0.5, 2))
    start = float(torch.quantile(z[:, 0], 1 - share))
    knee = start - (0.0 if np.isinf(steep) else 22 / steep)

    def g(v: Tensor) -> Tensor:
        over = v[..., 0] - knee
        flat = v[..., 0] - (torch.relu(over) if np.isinf(steep) else torch.nn.functional.softplus(over, beta=steep, threshold=1e9))
        return torch.cat([flat[..., None] * A[:own, 0], v @ A[own:].mT], dim=-1)

    def stretch(v: Tensor, way: float) -> Tensor:
        beyond = torch.relu(v[..., 0] - start)
        return at_column(v, 0, v[..., 0] + beyond * ((1 + c * (1 + torch.tanh(v[..., 1]))) ** way - 1))

    rival = Rival(lambda v: g(stretch(v, -1.0)), stretch(z, 1.0))
    return decoder_case(g, z, False, false=FULL, rival=rival, note=f"{share:.3f} of points, slope {steep:.0f}")


def folds(seed: int) -> Case:
    """A latent seen only through its square or sine: its sign, or its period, may be another latent's."""
    rng, d, n = _start("folds", seed)
    g, z, (t, r) = dressed(gapped(rng, d), rng), law(rng, n, d), rng.permutation(d)[:2]
    period = float(rng.uniform(1, 3))
    if rng.integers(2):
        f, other = (lambda v: g(at_column(v, t, v[..., t] ** 2))), z[:, t] * torch.sign(z[:, r])
    else:
        f = lambda v: g(at_column(v, t, 2 * torch.sin(2 * np.pi * v[..., t] / period)))  # noqa: E731
        other = z[:, t] + period * torch.round(2 * z[:, r])
    return decoder_case(f, z, False, false=INVERTIBLE, rival=Rival(f, at_column(z, t, other)))


# ---- too little to go by ---------------------------------------------------------------------------------------------


def few_points(seed: int) -> Case:
    """Two points, a line, a curve or a surface: no open set of latents was seen, so derivatives across it say
    nothing about data."""
    rng, d, n = _start("points", seed)
    g, z, kind = dressed(gapped(rng, d), rng), law(rng, n, d).numpy(), int(rng.integers(5))
    s = rng.uniform(-2, 2, (n, 1))
    at = (
        z[:2],
        z[:d],
        z[:1] + s * rng.normal(size=(1, d)),
        np.sin(s * rng.uniform(0.5, 2, (1, d)) + rng.uniform(0, 3, (1, d))) + s * rng.normal(size=(1, d)),
        np.hstack([z[:, :-1], np.tanh(z[:, :-1] @ rng.normal(size=(d - 1, 1)))]),
    )[kind]
    note = ("two points", "as many points as latents", "a line", "a curve", "a surface")[kind]
    return decoder_case(g, torch.as_tensor(at), False, false=SPREAD, note=note)


ERRORS = (ZeroDivisionError, KeyError, AssertionError, IndexError, TypeError, OverflowError, RecursionError, LookupError)


def hostile(seed: int) -> Case:
    """A decoder that raises, at once or beyond some points: refused in one sentence, never a traceback."""
    rng, d, n = _start("hostile", seed)
    g, z, error = dressed(gapped(rng, d), rng), law(rng, n, d), ERRORS[int(rng.integers(len(ERRORS)))]
    calls = int(rng.choice([0, 0, 1, 3]))

    def decoder(v: Tensor) -> Tensor:
        nonlocal calls
        calls -= 1
        if calls < 0:
            raise error("no")
        return g(v)

    return decoder_case(decoder, z, None, note=f"{error.__name__} after {calls} calls")


def no_index(seed: int) -> Case:
    """A number between two latents names none: a verdict on it must be refused."""
    rng, d, _ = _start("index", seed)
    S, t = nm.Structure(gapped(rng, d) != 0), float(rng.integers(0, d)) + float(rng.uniform(-0.9, 0.9))

    def claim() -> Claim:
        nm.certify(S).verdict(t)
        return Claim("identified")

    return Case("structure", claim, False, note=f"verdict({t:.2f})")


EXACT = {
    "structures": structures, "matrices": matrices, "controls": controls, "units": units,
    "element-wise": element_wise, "worlds": worlds, "any worlds": any_worlds, "clusters": clusters,
    "c-shapes": c_shapes, "jumps": jumps, "detached": detached, "faint": faint, "parallel": parallel,
    "repeated": repeated, "single precision": single_precision, "near ties": near_ties, "dead": dead, "folds": folds,
    "few points": few_points, "hostile": hostile, "no index": no_index,
}  # fmt: skip
"""Generators by name, each a function of a seed."""
