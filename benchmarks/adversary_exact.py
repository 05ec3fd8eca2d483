"""Families of exact subjects: structures, worlds and decoders with points; one short function of a seed each.

Every docstring says the trick and why the subject must not, or may, be certified; those that hide dependencies are in
``adversary_faint``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from adversary_faint import FAINT
from adversary_truth import (
    CONNECTED,
    CONTINUOUS,
    SPREAD,
    Case,
    Claim,
    Rival,
    at_column,
    brute_gap,
    certified,
    decoder_case,
    disguised,
    dressed,
    dressed_case,
    gapped,
    law,
    stream,
)
from torch import Tensor

import noumena as nm

LAWS = ("gaussian", "unit gaussian", "laplace", "uniform", "correlated gaussian")


# ---- nothing hidden: gap by brute force ------------------------------------------------------------------------------


def structures(seed: int) -> Case:
    """Random supports; identifiable where two matrices with generic entries have a positive gap."""
    rng, _, _ = stream("structures", seed)
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
    rng, d, n = stream("matrices", seed)
    while True:
        kinds = rng.integers(1, 3, (int(rng.integers(d, 3 * d)), d)) * (rng.random((1, d)) < 0.9)
        kinds = kinds * (rng.random(kinds.shape) < rng.uniform(0.3, 0.8)) * rng.choice([-1, 1], kinds.shape)
        J = kinds[rng.integers(len(kinds), size=int(rng.integers(d + 1, 22)))].astype(float)
        J = J[J.any(axis=1)]
        if len(J) > d and np.linalg.matrix_rank(J) == d:
            return dressed_case(J, rng, n)


def controls(seed: int) -> Case:
    """Exact zeros, positive gap, points of full support: identified, linear or not, dependent latents or not."""
    rng, d, n = stream("controls", seed)
    return dressed_case(gapped(rng, d), rng, n)


def units(seed: int) -> Case:
    """The same in other units, order and offsets: still identified."""
    rng, d, n = stream("units", seed)
    g, z = dressed(gapped(rng, d), rng), law(rng, n, d)
    a, b = (torch.as_tensor(10.0 ** rng.uniform(-3, 3, k)) for k in (d, len(g.J)))
    order, shift = torch.as_tensor(rng.permutation(d)), torch.as_tensor(rng.normal(size=len(g.J)))
    back = torch.argsort(order)
    return decoder_case(lambda v: b * (g((v / a)[..., back]) + shift), (z[:, order] * a), True)


def element_wise(seed: int) -> Case:
    """Latents bent one by one, smoothly and strongly: still identified."""
    rng, d, n = stream("element-wise", seed)
    g, z = dressed(gapped(rng, d), rng), law(rng, n, d)
    k = torch.as_tensor(rng.uniform(0.3, 1.5, d))
    return decoder_case(lambda v: g(torch.asinh(v) / k), torch.sinh(k * z), True)


def worlds(seed: int) -> Case:
    """Worlds of the library with a gap of one to three: identified."""
    rng, _, _ = stream("worlds", seed)
    d, gap = int(rng.integers(3, 6)), int(rng.integers(1, 4))
    return _world(rng, seed, d, int(rng.integers(3, 5)) * d + gap, gap)


def any_worlds(seed: int) -> Case:
    """Worlds of any gap: what is called not identified must come with a witness that verifies."""
    rng, d, _ = stream("any worlds", seed)
    return _world(rng, seed, d, int(rng.integers(d, 3 * d + 1)), None, independent=bool(rng.integers(2)))


def _world(rng: np.random.Generator, seed: int, d: int, n: int, gap: int | None, **options: Any) -> Case:
    for k in range(100):
        try:
            S = nm.worlds.family("random", d, n, gap=gap, random_state=seed + 10**7 * k)
            strength = float(rng.uniform(0.2, 0.6))
            world = nm.worlds.structured(S, law=str(rng.choice(LAWS)), strength=strength, random_state=seed)
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
    rng, d, n = stream("clusters", seed)
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
    rng, d, n = stream("c-shapes", seed)
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


def cut_spaces(seed: int) -> Case:
    """Pieces that every latent runs across without a gap, or a rare one: a latent is flipped or shifted in each its own
    way. Only sizes at which the layout shows; with fewer points nothing can tell."""
    rng, d, _ = stream("cut spaces", seed)
    kind = ("stripes", "strips", "rare", "slanted")[int(rng.integers(4))]
    d = {"stripes": 2, "strips": 2, "slanted": int(rng.integers(3, 5))}.get(kind, d)
    g, (t, r) = dressed(gapped(rng, d), rng), rng.permutation(d)[:2]
    n = int(rng.integers(1200, 1800) if kind == "stripes" else rng.integers(400, 1001))
    period, gap, few = float(rng.uniform(1.3, 1.6)), float(rng.uniform(1.3, 1.8)), int(rng.integers(14, 21))
    apart, far = float(rng.uniform(12, 14)), float(rng.uniform(20, 40))
    others = (np.arange(d) != t) / np.sqrt(d - 1)
    flips = kind in ("rare", "slanted") and bool(rng.integers(2))

    def draw(count: int, rng: np.random.Generator) -> np.ndarray:
        if kind == "stripes":
            z = rng.uniform(-2, 2, (6 * count, 2))
            return z[z.sum(axis=1) / period % 1 < 0.6][:count]
        if kind == "strips":
            along, across = rng.uniform(-4, 4, count), rng.uniform(0, 1, count) + gap / 2
            across = across * rng.choice([-1, 1], count)
            return np.stack([along + across, along - across], axis=1) / 2
        z = rng.normal(size=(count, d))
        if kind == "slanted":
            return z + apart * others * rng.integers(3, size=(count, 1))
        z[:few, r] += apart
        return z

    def part(v: Tensor) -> Tensor:
        """The number of the piece, by all latents of the first model."""
        if kind == "stripes":
            return torch.floor(v.sum(dim=-1) / period)
        if kind == "strips":
            return (v[..., 0] > v[..., 1]).to(v)
        if kind == "rare":
            return (v[..., r] > apart / 2).to(v)
        return torch.round(v @ torch.as_tensor(others) / apart)

    def there(v: Tensor) -> Tensor:
        moved = torch.where(part(v) == 1, -v[..., t], v[..., t]) if flips else v[..., t] + far * part(v)
        return at_column(v, t, moved)

    def back(v: Tensor) -> Tensor:
        if flips:
            return there(v)
        return at_column(v, t, v[..., t] - far * torch.round(v[..., t] / far))

    view = str(rng.choice(["changed", "first", "world"]))
    return disguised(g, draw, n, (there, back), view, false=CONNECTED, note=f"{kind}, {view}")


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
    rng, d, n = stream("hidden", seed)
    g, z, (t, r) = dressed(gapped(rng, d), rng), law(rng, n, d), rng.permutation(d)[:2]
    name, size = str(rng.choice(names)), float(rng.uniform(0.4, 2))

    def moved(v: Tensor, way: float) -> Tensor:
        if name == "sign":
            return at_column(v, t, v[..., t] * torch.where(v[..., r] > 0, 1.0, -1.0))
        return at_column(v, t, v[..., t] + way * size * JUMPS[name](v[..., r]))

    rival = Rival(g, z)
    return decoder_case(lambda v: g(moved(v, -1.0)), moved(z, 1.0), False, false=CONTINUOUS, rival=rival, note=name)


# ---- too little to go by ---------------------------------------------------------------------------------------------


def few_points(seed: int) -> Case:
    """Two points, a line, a curve or a surface: no open set of latents was seen, so derivatives across it say
    nothing about data."""
    rng, d, n = stream("points", seed)
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


ERRORS = (
    ZeroDivisionError,
    KeyError,
    AssertionError,
    IndexError,
    TypeError,
    OverflowError,
    RecursionError,
    LookupError,
)


def hostile(seed: int) -> Case:
    """A decoder that raises, at once or beyond some points: refused in one sentence, never a traceback."""
    rng, d, n = stream("hostile", seed)
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
    rng, d, _ = stream("index", seed)
    S, t = nm.Structure(gapped(rng, d) != 0), float(rng.integers(0, d)) + float(rng.uniform(-0.9, 0.9))

    def claim() -> Claim:
        nm.certify(S).verdict(t)
        return Claim("identified")

    return Case("structure", claim, False, note=f"verdict({t:.2f})")


EXACT = {
    "structures": structures, "matrices": matrices, "controls": controls, "units": units,
    "element-wise": element_wise, "worlds": worlds, "any worlds": any_worlds, "clusters": clusters,
    "c-shapes": c_shapes, "cut spaces": cut_spaces, "jumps": jumps, "detached": detached, **FAINT,
    "few points": few_points, "hostile": hostile, "no index": no_index,
}  # fmt: skip
"""Generators by name, each a function of a seed."""
