"""Is a decoder piecewise affine, continuous and injective? Read off its architecture and its weights.

A network is cut into blocks ``σ(W h + b)``. A block with a strictly increasing ``σ`` (leaky ReLU) is injective iff
``W`` has full column rank. A ReLU block is injective iff at every input the rows that are active, ``W_i h + b_i ≥ 0``,
span the inputs. *Proof:* if two inputs have one image, every row that is active in their midpoint is constant between
them, so these rows miss a direction; and a short step in a missed direction changes nothing. Active sets only grow
towards the border of a cell of the arrangement ``W_i h + b_i = 0``, so its open cells suffice, and a cell whose first
active rows span need not be cut further.

A block whose ``W`` has a rank below the number of latents loses a dimension everywhere, so not even F2 holds. One ReLU
block between injective ones, fed by the whole space, is observably injective (F3) as soon as ``W`` has full column
rank: some cell keeps every dimension, and what the others collapse has fewer.

Reference: Kivva et al. (2022), Definition 3.2 and (F1).
Deviations: ranks are those of columns of equal length, so that the latents' units do not decide; a cell that collapses
but is thinner than ``TOLERANCE``, for how far away it lies, is answered ``unknown``, and so is a network that narrows,
or has several ReLU blocks, which may be injective without any of this showing it.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import linprog
from torch import nn

from noumena import checks, seeds
from noumena.estimators.base import Codec, Decoder
from noumena.guarantees.hypotheses import Hypothesis

PIECEWISE_AFFINE = "F1 the decoder is piecewise affine"
CONTINUOUS = "the decoder is continuous"
WEAKLY = "F2 the decoder is weakly injective"
OBSERVABLY = "F3 the decoder is observably injective"
INJECTIVE = "F4 the decoder is injective"

TOLERANCE = 1e-6
"""Singular values smaller than this, relative to the largest, count as none; cells this thin are not decided."""
ROUNDING = 1e-12
"""Rows, columns and cells smaller than this, relative to the others, come from rounding."""
MOST_CELLS = 1000
"""Linear programs solved for one ReLU block before giving up."""
MOST_ENTRIES = 1_000_000
"""Entries of the largest matrix that a run of affine layers is written out as."""

_KINDS: dict[str, tuple[type[nn.Module], ...]] = {
    "affine": (
        *(nn.Linear, nn.Identity, nn.Flatten, nn.Unflatten, nn.Upsample, nn.PixelShuffle),
        *(nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
        *(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    ),
    "affine once trained": (
        *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d),
        *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
    ),
    "rectifier": (nn.ReLU, nn.LeakyReLU, nn.PReLU),
    "kinked": (nn.ReLU6, nn.Hardtanh, nn.Hardsigmoid, nn.Softshrink, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d),
    "jumping": (nn.Threshold, nn.Hardshrink),
    "increasing": (nn.Tanh, nn.Sigmoid, nn.Softplus, nn.ELU, nn.CELU, nn.SELU, nn.LogSigmoid, nn.Softsign),
    "curved": (
        *(nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.Tanhshrink, nn.Softmax),
        *(nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
    ),
}


@dataclass(frozen=True)
class DecoderReading:
    """What a decoder's architecture and weights say about the hypotheses on ``f``."""

    piecewise_affine: Hypothesis
    continuous: Hypothesis
    weakly: Hypothesis
    observably: Hypothesis
    injective: Hypothesis


def read_decoder(decoder: Any, n_latents: int) -> DecoderReading:
    """F1 to F4 and continuity of a network ``z ↦ x``; ``unknown`` for what shows no architecture.

    >>> net = nn.Sequential(nn.Linear(1, 2), nn.LeakyReLU(0.2), nn.Linear(2, 3))
    >>> read_decoder(net, 1).piecewise_affine.answer, read_decoder(torch.exp, 1).piecewise_affine.answer
    ('holds', 'unknown')
    """
    if not isinstance(decoder, nn.Module):
        given = "no decoder was given" if decoder is None else "a plain function shows no architecture"
        unknown = (Hypothesis(name, "unknown", given) for name in (PIECEWISE_AFFINE, CONTINUOUS))
        return DecoderReading(*unknown, *_injective("unknown", "unknown", given))
    layers = _layers(decoder)
    kinds = [_kind(layer) for layer in layers]
    named = {kind: type(layer).__name__ for layer, kind in zip(layers, kinds, strict=True)}
    hidden = _hidden(named)
    curved, jumping = named.get("curved") or named.get("increasing"), named.get("jumping")
    affine = _answer(PIECEWISE_AFFINE, hidden, f"{curved} is not piecewise affine" if curved else "")
    continuous = _answer(CONTINUOUS, hidden, f"{jumping} jumps" if jumping else "")
    if hidden:
        return DecoderReading(affine, continuous, *_injective("unknown", "unknown", hidden))
    return DecoderReading(affine, continuous, *_injectivity(_blocks(layers, kinds, n_latents), n_latents))


def _answer(name: str, hidden: str, against: str) -> Hypothesis:
    if against:
        return Hypothesis(name, "fails", against)
    return Hypothesis(name, "unknown", hidden) if hidden else Hypothesis(name, "holds", "every layer is")


# ---- architecture ----------------------------------------------------------------------------------------


def _layers(module: nn.Module) -> list[nn.Module]:
    """The layers in the order they are applied; what cannot be opened stays one layer."""
    if isinstance(module, Decoder) and type(module.codec).decode is Codec.decode:
        return _layers(module.codec.decoder)  # followed by a change of units
    if isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward:
        return [layer for child in module for layer in _layers(child)]
    return [module]


def _kind(layer: nn.Module) -> str:
    """What a layer computes; a subclass with its own ``forward``, or a hook, may compute anything."""
    known = (kind for kind, classes in _KINDS.items() if any(type(layer).forward is c.forward for c in classes))
    kind = "opaque" if layer._forward_hooks or layer._forward_pre_hooks else next(known, "opaque")
    if kind == "affine once trained":
        fixed = not layer.training and getattr(layer, "running_mean", 0) is not None
        return "affine" if fixed else "random"
    if isinstance(layer, nn.Threshold) and kind == "jumping":
        return "jumping" if layer.threshold != layer.value else "kinked"
    return kind


def _hidden(named: dict[str, str]) -> str:
    """Why a network cannot be read; empty when it can."""
    if "opaque" in named:
        return f"what {named['opaque']} computes is not known here"
    return f"{named['random']} is in training mode; call .eval() first" if "random" in named else ""


@dataclass(frozen=True, eq=False)
class Block:
    """``σ(W h + b)``; ``slopes`` are those of a rectifier below zero, ``W`` is ``None`` when it is too large."""

    name: str
    W: np.ndarray | None
    b: np.ndarray
    kind: str
    slopes: np.ndarray

    @property
    def increasing(self) -> bool:
        """Whether the activation is strictly increasing."""
        return self.kind in ("affine", "increasing") or (self.kind == "rectifier" and bool((self.slopes > 0).all()))

    @property
    def rectified(self) -> bool:
        """Whether the activation is a ReLU, in some units at least."""
        return self.kind == "rectifier" and bool((self.slopes >= 0).all()) and not self.increasing

    @property
    def onto(self) -> bool:
        """Whether the block, if injective, also reaches every point."""
        square = self.W is not None and self.W.shape[0] == self.W.shape[1]
        return square and self.increasing and self.kind != "increasing"


def _blocks(layers: list[nn.Module], kinds: list[str], n_latents: int) -> list[Block]:
    """Runs of affine layers, written out as matrices, each with the activation that follows it."""
    blocks: list[Block] = []
    run: list[nn.Module] = []
    shape: tuple[int, ...] = (n_latents,)
    for layer, kind in zip((deepcopy(m).double().cpu() for m in layers), kinds, strict=True):
        if kind == "affine":
            run.append(layer)
            continue
        W, b, shape = _matrix(run, shape)
        blocks.append(Block(f"block {len(blocks) + 1}", W, b, kind, _slopes(layer, shape)))
        run, shape = [], tuple(_apply([layer], torch.zeros(1, *shape, dtype=torch.float64)).shape[1:])
    if run or not blocks:
        W, b, _ = _matrix(run, shape)
        blocks.append(Block(f"block {len(blocks) + 1}", W, b, "affine", np.ones(len(b))))
    return blocks


def _apply(run: list[nn.Module], h: torch.Tensor) -> torch.Tensor:
    """A batch through some layers."""
    with torch.no_grad():
        for layer in run:
            h = layer(h)
    return h


def _matrix(run: list[nn.Module], shape: tuple[int, ...]) -> tuple[np.ndarray | None, np.ndarray, tuple[int, ...]]:
    """``W``, ``b`` and the output's shape of affine layers; ``W`` is ``None`` when it would be too large."""
    size = int(np.prod(shape))
    try:
        offset = _apply(run, torch.zeros(1, *shape, dtype=torch.float64))
    except (RuntimeError, ValueError) as error:
        wanted = f"The decoder must take a batch of the mixture's latents, shape (batch, {size})."
        raise checks.InputError(f"{wanted} Got a network that refuses it.") from error
    out = tuple(offset.shape[1:])
    b = offset.flatten().numpy()
    if size * len(b) > MOST_ENTRIES:
        return None, b, out
    images = _apply(run, torch.eye(size, dtype=torch.float64).reshape(size, *shape)) - offset
    return images.reshape(size, -1).numpy().T, b, out


def _slopes(layer: nn.Module, shape: tuple[int, ...]) -> np.ndarray:
    """An activation's slope below zero for every unit; one where it is no rectifier."""
    slope = torch.ones(1)
    if isinstance(layer, nn.ReLU):
        slope = torch.zeros(1)
    elif isinstance(layer, nn.LeakyReLU):
        slope = torch.tensor([layer.negative_slope])
    elif isinstance(layer, nn.PReLU):
        slope = layer.weight.detach()
    return np.broadcast_to(slope.double().numpy().reshape(-1, *[1] * (len(shape) - 1)), shape).ravel()


# ---- injectivity -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rectified:
    """Whether ``h ↦ ReLU(W h + b)`` is injective and, if not, an input where it collapses.

    ``None`` stands for given up: with an input in a cell too thin to be sure of, or without one for too many cells.
    """

    injective: bool | None
    collapsed: np.ndarray | None
    programs: int


def rectified(W: np.ndarray, b: np.ndarray, *, leaky: np.ndarray | None = None) -> Rectified:
    """Search the cells of a ReLU layer for one whose active rows do not span; ``leaky`` rows are always active.

    >>> rectified(np.array([[1.0], [-1.0]]), np.zeros(2)).injective
    True
    >>> rectified(np.array([[1.0]]), np.zeros(1)).collapsed < 0
    array([ True])
    """
    columns = _lengths(W, b)
    W = W / columns
    n, norms = W.shape[1], np.linalg.norm(W, axis=1)
    real = norms > ROUNDING * norms.max(initial=0)
    U, c = W[real] / norms[real, None], b[real] / norms[real]
    open_ = leaky[real] if leaky is not None else np.zeros(len(U), dtype=bool)
    always, U, c = U[open_], U[~open_], c[~open_]
    unit = float(np.abs(c).max(initial=0)) or 1.0
    c, unit = c / unit, unit / columns
    for point in _far_away(U, c):
        if not _spans(np.vstack([always, U[U @ point + c >= 0]])):
            return Rectified(False, point * unit, 0)
    programs, thin, cells = 0, None, [(np.zeros(0), np.zeros(n))]
    while cells:
        signs, point = cells.pop()
        i = len(signs)
        if _spans(np.vstack([always, U[:i][signs > 0]])):
            continue
        if i == len(U):
            if (signs * _relative(U, c, point) > TOLERANCE).all():
                return Rectified(False, point * unit, programs)
            thin = point * unit
            continue
        for sign in (1.0, -1.0):
            inside: np.ndarray | None = point
            if sign * _relative(U[i], c[i], point) <= TOLERANCE:
                programs += 1
                inside = _inside(U[: i + 1], c[: i + 1], np.append(signs, sign))
            if inside is not None:
                cells.append((np.append(signs, sign), inside))
        if programs > MOST_CELLS:
            return Rectified(None, None, programs)
    return Rectified(True if thin is None else None, thin, programs)


def _lengths(W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The columns' lengths, which depend on the inputs' units; 1 for those that are zero up to rounding."""
    lengths = np.linalg.norm(W, axis=0)
    largest = max(lengths.max(initial=0), np.abs(b).max(initial=0))
    return np.where(lengths > ROUNDING * largest, lengths, 1.0)


def _relative(U: np.ndarray, c: Any, point: np.ndarray) -> Any:
    """``U h + c`` relative to the size of what is added up: how surely a point lies on its side of each hyperplane."""
    size = np.abs(U) @ np.abs(point) + np.abs(c)
    return (U @ point + c) / np.where(size > 0, size, 1)


def _spans(rows: np.ndarray) -> bool:
    return bool(np.linalg.matrix_rank(rows, tol=TOLERANCE) == rows.shape[1]) if len(rows) else False


def _far_away(U: np.ndarray, c: np.ndarray) -> np.ndarray:
    """A few points beyond every hyperplane, in opposite pairs: fewer than 2n rows always fail at one of a pair."""
    u = seeds.numpy_generator(0, "far away").normal(size=(8, U.shape[1]))
    slack = np.abs(U @ u.T).min(axis=0, initial=1)
    u = u[slack > TOLERANCE] * (1 + np.abs(c).max(initial=0)) * 2 / slack[slack > TOLERANCE, None]
    return np.concatenate([u, -u])


def _inside(U: np.ndarray, c: np.ndarray, signs: np.ndarray) -> np.ndarray | None:
    """A point well inside the cell ``signs · (U h + c) > 0``; ``None`` when the cell is empty.

    Where the cell looks neither empty nor open, it is looked at again from nearby, down to rounding: a kink far away
    makes all others look like one.
    """
    n = U.shape[1]
    constraints = np.column_stack([-signs[:, None] * U, np.ones(len(U))])
    bounds = [(None, None)] * n + [(None, 1.0)]
    point, unit, finest = np.zeros(n), 1.0, max(ROUNDING, np.abs(c[c != 0]).min(initial=1))
    while unit > ROUNDING * finest:
        margins = np.minimum(signs * (U @ point + c) / unit, 1 / ROUNDING)  # further away is as good
        found = linprog(np.append(np.zeros(n), -1.0), A_ub=constraints, b_ub=margins, bounds=bounds, method="highs")
        if not found.success:
            return point  # not shown to be empty; whether it is inside is looked at in the end
        point = point + unit * found.x[:n]
        if abs(found.x[n]) > TOLERANCE:
            return point if (signs * _relative(U, c, point) > ROUNDING).all() else None
        unit *= TOLERANCE
    return None


@dataclass(frozen=True)
class _Verdict:
    """A block's rank, whether it is injective, and the sentence that says so."""

    rank: int
    injective: bool | None
    sentence: str


def _judge(block: Block) -> _Verdict:
    if block.W is None:
        return _Verdict(len(block.b), None, f"{block.name} is too large to write out")
    values = np.linalg.svd(block.W, compute_uv=False)
    even = np.linalg.svd(block.W / _lengths(block.W, block.b), compute_uv=False)
    rank, columns = int((even > TOLERANCE * even.max(initial=0)).sum()), block.W.shape[1]
    if rank < columns:
        return _Verdict(rank, False, f"{block.name} has rank {rank} for {columns} inputs")
    sentence = f"{block.name} has full column rank, singular values {values.min():.3g} to {values.max():.3g}"
    if block.increasing:
        return _Verdict(rank, True, sentence)
    if not block.rectified:
        return _Verdict(rank, None, f"{block.name} has an activation that is not increasing")
    found = rectified(block.W, block.b, leaky=block.slopes > 0)
    if found.collapsed is not None:
        where = "at" if found.injective is False else "in a cell too thin to be sure of, at"
        sentence = f"the active rows of {block.name} do not span {where} its input {_few(found.collapsed)}"
        return _Verdict(rank, found.injective, sentence)
    if found.injective is None:
        return _Verdict(rank, None, f"{block.name} has too many ReLU cells to enumerate")
    return _Verdict(rank, True, f"{sentence}, and the active rows of every ReLU cell span")


def _injectivity(blocks: list[Block], n_latents: int) -> list[Hypothesis]:
    """F2, F3 and F4 of a chain of blocks."""
    verdicts = [_judge(block) for block in blocks]
    lost = [v.sentence for v in verdicts if v.rank < n_latents]
    if lost:
        return _injective("fails", "fails", f"{lost[0]}, fewer than the {n_latents} latents")
    weak = [k for k, v in enumerate(verdicts) if not v.injective]
    if not weak:
        return _injective("holds", "holds", "; ".join(v.sentence for v in verdicts))
    k = weak[0]
    whole = all(block.onto for block in blocks[:k])
    injective = "fails" if whole and verdicts[k].injective is False else "unknown"
    alone = whole and len(weak) == 1 and blocks[k].rectified and blocks[k].W is not None
    reason = "; it is the only such block and of full column rank, so almost every image has one source"
    return _injective("holds" if alone else "unknown", injective, verdicts[k].sentence + (reason if alone else ""))


def _injective(observably: str, injective: str, evidence: str) -> list[Hypothesis]:
    """F2 and F3 with one answer, F4 with another."""
    answers = ((WEAKLY, observably), (OBSERVABLY, observably), (INJECTIVE, injective))
    return [Hypothesis(name, answer, evidence) for name, answer in answers]


def _few(point: np.ndarray) -> str:
    shown = ", ".join(f"{v:.2g}" for v in point[:4])
    return f"({shown}{', …' if len(point) > 4 else ''})"
