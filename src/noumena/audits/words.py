"""Words: an audit's verdict and warnings, as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from noumena.audits.pairs import SAME_ROWS
from noumena.audits.rule import LADDER, NONE, beats_twin, reference
from noumena.guarantees.agreement import AFFINE, BETTER_THAN_CHANCE, ICA, PERMUTATION, RIGID, efficiency
from noumena.guarantees.unmixing import SAME

if TYPE_CHECKING:
    from noumena.audits.record import Audit

CONSISTENCY = (
    "Consistency across runs is not correctness: this measures statistical, not structural identifiability, and runs "
    "that agree may all be wrong in the same way."
)
PLURAL = {PERMUTATION: "signed permutations", RIGID: "rigid motions with one scale", AFFINE: "affine maps"}
LITTLE = 0.1
"""Of what a rigid map gains: ICA that gains less does next to nothing."""


def mean(matrix: np.ndarray) -> float:
    """The mean over all pairs."""
    return float(np.nanmean(matrix))


def either(numbers: Sequence[int]) -> str:
    """A number, or the range of several.

    >>> either([3]), either([2, 5, 9])
    ('3', '2 to 9')
    """
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def sentences(audit: Audit) -> list[str]:
    """The verdict: up to what the runs agree, what ICA does, and whether the input explains it."""
    return [*_agreement(audit), *_ica(audit), *_input(audit)]


def _agreement(audit: Audit) -> list[str]:
    errors, how = {kind: mean(audit.errors[kind]) for kind in LADDER}, "held-out " * audit.held_out
    chance = float(np.mean([reference(pair.chance) for pair in audit.pairs]))
    if audit.group == NONE:
        agreeing = sum(pair.group != NONE for pair in audit.pairs)
        told = (
            f"Not stable up to any affine map: {how}affine error {errors[AFFINE]:.3f} of the diameter (chance "
            f"{chance:.3f}), rigid {errors[RIGID]:.3f}."
        )
        return [told, f"{agreeing} of {len(audit.pairs)} directed pairs agree."] if agreeing else [told]
    others = ", ".join(f"{kind} {errors[kind]:.3f}" for kind in LADDER if kind != audit.group)
    told = (
        f"Stable up to {PLURAL[audit.group]}: {how}error {errors[audit.group]:.3f} of the diameter (chance "
        f"{chance:.3f}), {others}."
    )
    smaller = sum(pair.group != audit.group for pair in audit.pairs)
    more = [f"{smaller} of {len(audit.pairs)} directed pairs agree up to a smaller group."] if smaller else []
    if len(audit.names) > 2:
        worst = max(audit.pairs, key=lambda pair: pair.errors[audit.group])
        more.append(f"Worst: {worst.source} onto {worst.target}, {worst.errors[audit.group]:.3f}.")
    return [told, *more]


def overall_efficiency(audit: Audit, kind: str = ICA) -> float:
    """ICA's share of the rigid map's gain, from errors averaged over pairs; NaN where there is no gain or no ICA."""
    if kind not in audit.errors:
        return float("nan")
    both = np.isfinite(audit.errors[kind])
    return efficiency(*(mean(audit.errors[name][both]) for name in (PERMUTATION, RIGID, kind)))


def _ica(audit: Audit) -> list[str]:
    if ICA not in audit.errors or audit.group == NONE:
        return []
    share, same = overall_efficiency(audit), overall_efficiency(audit, SAME_ROWS)
    told = []
    if isnan(share):
        told.append("A rigid map gains nothing over a signed permutation, so that ICA has nothing to find.")
    else:
        shared = f" ({same:.0%} where both runs' ICA see the same rows)" if not isnan(same) else ""
        little = ", worse than a signed permutation" if share < 0 else ", next to nothing" if share < LITTLE else ""
        told.append(f"ICA does {share:.0%} of what the best rigid map does{shared}{little}.")
    if audit.axes is not None:
        rows = ", by ICA on other rows" * audit.held_out
        told.append(f"{audit.axes.found} of {audit.axes.components[0]} axes are found again in every run{rows}.")
    return told


def _input(audit: Audit) -> list[str]:
    """Whether the runs predict one another better than the input predicts them."""
    if audit.trivial is None:
        return []
    between, r2 = mean(audit.errors[AFFINE]), mean(audit.r2[AFFINE])
    numbers = (
        f"error {mean(audit.trivial.errors):.3f}, R² {mean(audit.trivial.r2):.3f}; from run to run {between:.3f}, "
        f"{r2:.3f}"
    )
    stable = audit.group != NONE
    if linear_images(audit):
        same = "The agreement between runs is no better than what the input explains linearly"
        verb = f"{same} ({numbers}): they are" if stable else f"Without agreeing ({numbers}), the runs are"
        return [f"{verb} (nearly) linear images of the input."]
    if stable:
        return [f"A linear map of the input explains less than the runs do of each other ({numbers})."]
    return [f"A linear map of the input does not explain the runs either ({numbers})."]


def linear_images(audit: Audit) -> bool:
    """Whether the input predicts every run, far better than chance and as well as other runs do."""
    if audit.trivial is None:
        return False
    for name, found in zip(audit.names, audit.trivial.by_fold, strict=True):
        own = [pair for pair in audit.pairs if pair.target == name]
        c = float(np.mean([reference(pair.chance) for pair in own]))
        lost = found - np.mean([pair.by_fold[AFFINE] for pair in own], axis=0)
        if found.mean() >= BETTER_THAN_CHANCE * c or not beats_twin(lost, c):
            return False
    return True


def warnings(audit: Audit) -> tuple[str, ...]:
    """What the numbers do not show."""
    told = [CONSISTENCY]
    if not audit.held_out:
        told.append("Errors are in-sample: maps were measured on the rows they were fitted on.")
    axes = audit.axes
    if axes is None:
        return tuple(told)
    gaussian, of = max(zip(axes.gaussian, axes.components, strict=True), key=lambda pair: pair[0] / pair[1])
    if gaussian > 1:
        told.append(
            f"{gaussian} of {of} components of a run cannot be told from Gaussian ones, between which ICA has no axes "
            "to find."
        )
    if min(axes.restarts) < SAME:
        told.append(
            f"Other starts of ICA end in other components (correlation {min(axes.restarts):.2f}): some of its axes are "
            "a matter of the start."
        )
    if not axes.converged:
        told.append("ICA did not come to rest in every fit.")
    return tuple(told)
