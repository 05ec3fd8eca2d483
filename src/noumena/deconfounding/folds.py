"""Folds: whole batches are held out, those that can be scored; the others are only ever trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noumena import checks, seeds
from noumena.deconfounding.design import Design

SCHEMES = ("folds", "one")


@dataclass(frozen=True)
class Fold:
    """Codes of the batches to train on and of those to score."""

    index: int
    train: tuple[int, ...]
    test: tuple[int, ...]

    def overlap(self, design: Design) -> float:
        """Scored rows per training row, by which the spread over folds that share training rows is too small."""
        rows = np.bincount(design.batch[design.used], minlength=len(design.batches))
        return float(rows[list(self.test)].sum() / rows[list(self.train)].sum())


def folds_of(design: Design, folds: int | str = 5, *, scheme: str = "folds", seed: int = 0) -> tuple[Fold, ...]:
    """Batches in ``folds`` parts with about equally many positive rows, or each alone; one part is held out at a time.

    With fewer batches than folds each is held out alone. The scheme ``one`` trains on one batch and scores the others.
    """
    checks.one_of(scheme, "scheme", SCHEMES)
    scorable = list(design.scorable)
    if scheme == "one":
        return tuple(Fold(k, (b,), tuple(c for c in scorable if c != b)) for k, b in enumerate(scorable))
    if isinstance(folds, str):
        checks.one_of(folds, "folds", ("each",))
        number = len(scorable)
    else:
        number = min(checks.count(folds, "folds", minimum=2), len(scorable))
    held = _stratified(design, number, seed)
    everything = range(len(design.batches))
    return tuple(Fold(k, tuple(b for b in everything if b not in part), tuple(part)) for k, part in enumerate(held))


def _stratified(design: Design, number: int, seed: int) -> list[list[int]]:
    """Batches dealt out from the one with most positive rows, each to a part with fewest batches, then positives."""
    asked = design.contrasts[0].target == 1 if len(design.contrasts) == 1 else design.used
    weight = np.bincount(design.batch[asked], minlength=len(design.batches))
    shuffled = seeds.numpy_generator(seed, "folds").permutation(np.array(design.scorable))
    parts: list[list[int]] = [[] for _ in range(number)]
    for b in sorted(shuffled.tolist(), key=lambda b: -weight[b]):
        chosen = min(range(number), key=lambda k: (len(parts[k]), sum(weight[c] for c in parts[k]), k))
        parts[chosen].append(b)
    return [sorted(part) for part in parts]
