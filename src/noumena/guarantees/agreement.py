"""Agreement: how near the representations of two runs are after the best map of each group, on held-out rows.

Errors are ``mean_i‖T h_i − g_i‖/Δ`` with Δ the diameter of the ``g_i``. ``T`` is a signed permutation (Hungarian),
rigid with one scale (Procrustes), affine (least squares), or that of ICA: both runs are whitened and unmixed by
themselves, their components matched by a signed permutation and led back to the first run's representations.

Reference: statistical and structural near-identifiability (paper 004), Section 4.2 and A.7.2. Deviations: fitted on
one half of the rows and measured on the other (the paper's errors are in-sample); every map is between centred
representations; shuffled rows say what chance is. Runs are fitted on the same rows and share their accidents: ICA can
make even Gaussian runs agree, which is why non-Gaussian components are a premise and not a matter of agreement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isnan, nan

import numpy as np
from jaxtyping import Float

from noumena import checks, seeds
from noumena.ambiguity import align
from noumena.guarantees.components import enough, too_few
from noumena.guarantees.lipschitz import diameter
from noumena.guarantees.theorem import Hypothesis
from noumena.guarantees.unmixing import Unmixing, halves, unmix

AGREE = "the runs agree up to an affine map"
BETTER_THAN_CHANCE = 0.5
"""Runs agree when their error is below this share of what shuffled rows give."""
LEAST_GAIN = 0.01
"""A rigid map gains something over a signed permutation when it removes this share of the error."""
PERMUTATION, RIGID, AFFINE, ICA = "signed permutation", "rigid+scale", "affine", "ICA"

Table = Float[np.ndarray, "batch latent"]
Maps = dict[str, Callable[[Table], Table]]


@dataclass(frozen=True)
class Agreement:
    """Held-out errors of the second run's representations mapped onto the first's, over the first's diameter."""

    runs: tuple[int, int]
    diameter: float
    errors: dict[str, float]
    """By group: ``signed permutation``, ``rigid+scale``, ``affine``, ``ICA``."""
    largest: dict[str, float]
    """The same for the worst row: near-identifiability (Definition 1) is about that one."""
    chance: dict[str, float]
    """``errors`` when the rows of one run are shuffled."""

    @property
    def efficiency(self) -> float:
        """ICA's share of what a rigid map gains over a signed permutation."""
        return efficiency(self.errors[PERMUTATION], self.errors[RIGID], self.errors[ICA])

    def __str__(self) -> str:
        shown = ", ".join(f"{kind} {error:.3f} (chance {self.chance[kind]:.3f})" for kind, error in self.errors.items())
        gain = "nothing to gain" if isnan(self.efficiency) else f"ICA efficiency {self.efficiency:.0%}"
        return f"runs {self.runs[0] + 1} and {self.runs[1] + 1}: {shown}; {gain}"


def efficiency(permutation: float, rigid: float, ica: float) -> float:
    """``(e_perm − e_ICA)/(e_perm − e_rigid)``: 1 when ICA does what a rigid map does, 0 when it does nothing, above 1
    when runs are related by no rigid map; NaN when a rigid map gains nothing.

    >>> round(efficiency(0.197, 0.109, 0.145), 2)  # a row of the paper's Table 1
    0.59
    """
    gain = permutation - rigid
    return (permutation - ica) / gain if gain > LEAST_GAIN * permutation else nan


def agreements(
    runs: Sequence[Table], *, unmixings: Sequence[Unmixing] = (), restarts: int = 5, seed: int = 0
) -> tuple[Agreement, ...]:
    """The agreement of every pair of runs, tables of the same rows and equally many columns; none if rows are few.

    ``unmixings`` of the runs' fitted halves, where they are known already, save fitting them again.
    """
    if not enough(runs[0]):
        return ()
    fitted, measured = halves(len(runs[0]), seed)
    unmixings = unmixings or [unmix(run[fitted], restarts=restarts, seed=seed) for run in runs]
    shuffled = seeds.numpy_generator(seed, "chance of agreement").permutation(len(runs[0]))
    found = []
    for a, b in combinations(range(len(runs)), 2):
        g, size = runs[a], diameter(runs[a])

        def held_out(h: Table, a: int = a, b: int = b, g: Table = g, size: float = size) -> dict[str, np.ndarray]:
            maps = _maps(g[fitted], h[fitted], unmixings[a], unmixings[b])
            return {kind: np.linalg.norm(T(h[measured]) - g[measured], axis=1) / size for kind, T in maps.items()}

        rows, by_chance = held_out(runs[b]), held_out(runs[b][shuffled])
        found.append(
            Agreement(
                (a, b),
                size,
                {kind: float(error.mean()) for kind, error in rows.items()},
                {kind: float(error.max()) for kind, error in rows.items()},
                {kind: float(error.mean()) for kind, error in by_chance.items()},
            )
        )
    return tuple(found)


def _maps(g: Table, h: Table, unmix_g: Unmixing, unmix_h: Unmixing) -> Maps:
    """The best map of each group from ``h`` to ``g``."""
    mean_g, mean_h = g.mean(axis=0), h.mean(axis=0)
    turn = _signed_permutation(g - mean_g, h - mean_h)
    maps: Maps = {
        PERMUTATION: lambda new: turn(new - mean_h) + mean_g,
        RIGID: align(g, h, up_to="similarity").transform,
        AFFINE: align(g, h, up_to="affine").transform,
    }
    s_g, s_h = unmix_g(g), unmix_h(h)
    if s_g.shape == s_h.shape:
        match = _signed_permutation(s_g, s_h)
        maps[ICA] = lambda new: unmix_g.restore(match(unmix_h(new)))
    else:  # runs of different rank have no components to match
        maps[ICA] = lambda new: np.full((len(new), g.shape[1]), np.nan)
    return maps


def _signed_permutation(g: Table, h: Table) -> Callable[[Table], Table]:
    """The best signed permutation; it depends on inner products only, so a QR decomposition stands for many rows."""
    R = np.asarray(np.linalg.qr(np.hstack([g, h]), mode="r"))
    return align(R[:, : g.shape[1]], R[:, g.shape[1] :], up_to="signed permutation").transform


def agree(found: Sequence[Agreement]) -> Hypothesis:
    """Is every pair of runs the same up to an affine map, far better than by chance?"""
    if not found:
        return too_few(AGREE)
    worst = max(found, key=lambda a: a.errors[AFFINE] / a.chance[AFFINE])
    error, chance = worst.errors[AFFINE], worst.chance[AFFINE]
    evidence = (
        f"runs {worst.runs[0] + 1} and {worst.runs[1] + 1} are worst: held-out error {error:.3f} of Δ (rigid+scale "
        f"{worst.errors[RIGID]:.3f}), {error / chance:.0%} of the {chance:.3f} of shuffled rows (wanted "
        f"{BETTER_THAN_CHANCE:.0%})"
    )
    return Hypothesis(AGREE, "supported" if error < BETTER_THAN_CHANCE * chance else "fails", evidence)


def runs_of(tables: Sequence) -> list[Table]:
    """Checked representations of the same rows by two runs or more."""
    checks.require(len(tables) >= 2, "nearness must be given two or more representations.", f"{len(tables)}")
    runs = [checks.table(t, f"run {k + 1}", min_rows=2, varying=True).astype(float) for k, t in enumerate(tables)]
    for k, run in enumerate(runs[1:], start=2):
        checks.same_batch(runs[0], run, ("run 1", f"run {k}"))
        checks.require(
            run.shape[1] == runs[0].shape[1],
            f"run 1 and run {k} must have equally many columns.",
            f"{runs[0].shape[1]} and {run.shape[1]}",
        )
    return runs
