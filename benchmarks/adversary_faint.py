"""Families of decoders whose dependencies are not what they seem: too faint, too many, tied, flat or folded.

Every docstring says the trick and why the subject must not be certified.
"""

from __future__ import annotations

import numpy as np
import torch
from adversary_truth import (
    FULL,
    INVERTIBLE,
    Case,
    Dressed,
    Rival,
    at_column,
    brute_gap,
    decoder_case,
    dressed,
    dressed_case,
    gapped,
    law,
    stream,
)
from torch import Tensor
from torch.nn.functional import softplus


def faint(seed: int) -> Case:
    """A latent that acts faintly on many rows is mixed away by entries too faint to count; the honest model is as
    sparse as the mixed one looks, and sparser than it is."""
    rng, _, n = stream("faint", seed)
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
    rng, _, n = stream("parallel", seed)
    own, generic = int(rng.integers(4, 61)), int(rng.integers(3, 161))
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
    rng, _, n = stream("repeated", seed)
    return dressed_case(_repeated(rng), rng, n)


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
    rng, _, n = stream("single", seed)
    case = dressed_case(_repeated(rng), rng, n)
    assert isinstance(case.decoder, Dressed)
    assert case.points is not None
    single = Dressed(case.decoder.J, case.decoder.inner, case.decoder.outer, single=True)
    return decoder_case(single, case.points, False, rival=case.rival, note="float32")


def near_ties(seed: int) -> Case:
    """A tie broken by less than a millionth, below which an entry counts as zero: so does what the rival leaves of one.
    Broken by more than a thousandth it is an exact gap, of which anything but *not identified* may be said."""
    rng, _, n = stream("near ties", seed)
    J = _repeated(rng)
    gap, basis = brute_gap(J)
    rounding = bool(rng.integers(2))
    off = 10.0 ** (rng.uniform(-14, -8) if rounding else rng.uniform(-3, -1))
    g, z = dressed(J, rng), law(rng, n, J.shape[1])
    near = Dressed(g.J * (1 + off * torch.as_tensor(rng.normal(size=J.shape))), g.inner, g.outer)
    if rounding:
        return decoder_case(near, z, False, rival=g.rival(z, basis), note=f"off by {off:.0e}, gap {gap}")
    return decoder_case(near, z, True if brute_gap(near.J.numpy())[0] > 0 else None, note=f"off by {off:.0e}")


def dead(seed: int) -> Case:
    """Rows of a latent that stop moving on a small share of points, flat (ReLU) or nearly (steep softplus): there the
    latent is remapped by another one at no cost."""
    rng, _, n = stream("dead", seed)
    steep = float(rng.choice([np.inf, np.inf, 40, 100, 400]))
    share = float(np.exp(rng.uniform(np.log(0.004), np.log(0.1))))
    return dead_case(share, steep, rng, max(n, int(30 / share)))


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
        left = knee - v[..., 0]
        flat = knee - (torch.relu(left) if np.isinf(steep) else softplus(left, beta=steep, threshold=1e9))
        return torch.cat([flat[..., None] * A[:own, 0], v @ A[own:].mT], dim=-1)

    def stretch(v: Tensor, way: float) -> Tensor:
        beyond = torch.relu(v[..., 0] - start)
        return at_column(v, 0, v[..., 0] + beyond * ((1 + c * (1 + torch.tanh(v[..., 1]))) ** way - 1))

    rival = Rival(lambda v: g(stretch(v, -1.0)), stretch(z, 1.0))
    return decoder_case(g, z, False, false=FULL, rival=rival, note=f"{share:.3f} of points, slope {steep:.0f}")


def folds(seed: int) -> Case:
    """A latent seen only through its square or sine: its sign, or its period, may be another latent's."""
    rng, d, n = stream("folds", seed)
    g, z, (t, r) = dressed(gapped(rng, d), rng), law(rng, n, d), rng.permutation(d)[:2]
    period = float(rng.uniform(1, 3))
    if rng.integers(2):
        f, other = (lambda v: g(at_column(v, t, v[..., t] ** 2))), z[:, t] * torch.sign(z[:, r])
    else:
        f = lambda v: g(at_column(v, t, 2 * torch.sin(2 * np.pi * v[..., t] / period)))  # noqa: E731
        other = z[:, t] + period * torch.round(2 * z[:, r])
    return decoder_case(f, z, False, false=INVERTIBLE, rival=Rival(f, at_column(z, t, other)))


FAINT = {
    "faint": faint, "parallel": parallel, "repeated": repeated, "single precision": single_precision,
    "near ties": near_ties, "dead": dead, "folds": folds,
}  # fmt: skip
