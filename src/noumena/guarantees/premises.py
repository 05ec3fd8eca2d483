"""Premises: what is asked of a world or a decoder before a theorem speaks, each with its evidence."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from noumena.guarantees.collisions import invertible_at
from noumena.guarantees.hypotheses import IN_USE, INDEPENDENT, INVERTIBLE, ZEROS, Hypothesis
from noumena.guarantees.simulation import Simulation
from noumena.guarantees.witness import MOST_DEPENDENCE, most_dependent
from noumena.structure import Structure

FEWEST = 100
LEVEL = 0.01
"""How seldom independent latents may be called dependent."""
PROBES = 256
SEARCHED = 1024
"""Latent points of a world among which two with the same observations are searched."""
POSITIVE_EVERYWHERE = ("gaussian", "unit gaussian", "laplace", "correlated gaussian", "linear sem")


def invertible(world: Simulation, resolution: float = 1e-9) -> Hypothesis:
    """Whether the world's decoder can be undone, at its samples, and from what was checked when it was built: its
    decoder may have been replaced since."""
    z = world.latents(PROBES)
    if world.n_observed == world.n_latents and len(set(torch.linalg.det(world.jacobian(z)).sign().tolist())) > 1:
        return Hypothesis(INVERTIBLE, "fails", "the determinant of the Jacobian changes its sign: g folds")
    found = invertible_at(world.decoder, world.latents(SEARCHED), resolution=resolution)
    rank, secant = world.facts.get("rank margin"), world.facts.get("secant margin")
    if found.answer != "fails" and rank is not None and secant is not None:
        evidence = (
            f"on samples, smallest/largest singular value of the Jacobian ≥ {rank:.3f} and smallest/largest stretch "
            f"between points ≥ {secant:.3f}"
        )
        return Hypothesis(INVERTIBLE, "supported", evidence)
    return found


def density(world: Simulation) -> Hypothesis:
    """Whether the latents' density is positive everywhere."""
    name = "the density of the latents is positive everywhere"
    if world.law.name in POSITIVE_EVERYWHERE:
        return Hypothesis(name, "holds", f"the law is {world.law.name}")
    if world.law.name == "uniform":
        return Hypothesis(name, "fails", "the law is uniform on a box")
    return Hypothesis(name, "unknown", f"nothing is known of the law {world.law.name!r}")


def independent_law(world: Simulation) -> Hypothesis:
    """Independence as the world's law has it."""
    if world.law.independent:
        return Hypothesis(INDEPENDENT, "holds", f"the law is {world.law.name}, independent")
    return Hypothesis(INDEPENDENT, "fails", f"the law is {world.law.name}, dependent")


def independent_points(points: Tensor) -> Hypothesis:
    """Independence as latent points show it, pair by pair."""
    if points.shape[1] == 1:
        return Hypothesis(INDEPENDENT, "holds", "there is one latent")
    if len(points) < FEWEST:
        return Hypothesis(INDEPENDENT, "unknown", f"{len(points)} points are too few to tell (wanted {FEWEST})")
    value, chance = most_dependent(points.detach().cpu().numpy())
    sentence = (
        f"Cramér's V of the most dependent pair is {value:.3f} at {len(points)} points (wanted {MOST_DEPENDENCE})"
    )
    if value <= MOST_DEPENDENCE:
        return Hypothesis(INDEPENDENT, "supported", sentence)
    if chance > LEVEL:
        return Hypothesis(INDEPENDENT, "unknown", f"{sentence}, which chance alone may make of so few")
    return Hypothesis(INDEPENDENT, "fails", sentence)


def exact_zeros(largest: np.ndarray, S: Structure, tolerance: float, *, known: bool = False) -> Hypothesis:
    """Whether what counts as no dependency is none: counting those above a threshold counts what no theorem speaks of.

    ``largest`` holds the most that each latent moves each observation, over points; ``tolerance`` is what rounding may
    leave of a zero.
    """
    most = largest if S.evidence is None else np.maximum(largest, np.nan_to_num(S.evidence.strength))
    faint = (most > tolerance) & ~S.dense
    if not faint.any():
        count = int((~S.dense).sum())
        return Hypothesis(ZEROS, "holds" if known else "supported", f"{count} entries are below {tolerance:.0e}")
    cells = np.argwhere(faint)[np.argsort(most[faint], kind="stable")[:6]]
    shown = ", ".join(f"{S.observed[i]}–{S.latent[j]} ({most[i, j]:.2g})" for i, j in cells)
    line = "" if S.evidence is None else f" below the threshold {S.evidence.threshold:.3f}"
    sentence = f"{int(faint.sum())} entries{line} are faint and not zero, the faintest: {shown}"
    return Hypothesis(ZEROS, "fails", sentence)


def all_in_use(S: Structure) -> Hypothesis:
    """Whether every latent of a fitted model moves an observation."""
    evidence = S.evidence
    assert evidence is not None
    strongest = evidence.strength.max(axis=0)
    silent = [S.latent[j] for j in np.flatnonzero(strongest <= evidence.threshold)]
    if silent and not evidence.parts:
        return Hypothesis(IN_USE, "unknown", f"the threshold parts nothing, and {', '.join(silent[:6])} lie below it")
    if silent:
        return Hypothesis(IN_USE, "fails", f"nothing depends on {', '.join(silent)}; fit fewer latents")
    return Hypothesis(IN_USE, "supported", f"the faintest moves an observation by {strongest.min():.2f} of its spread")


def more_observations(S: Structure) -> Hypothesis:
    """Whether there are more observations than latents."""
    name = "more observations than latents"
    if S.n_observed > S.n_latents:
        return Hypothesis(name, "holds", f"{S.n_observed} and {S.n_latents}")
    return Hypothesis(
        name,
        "fails",
        f"{S.n_observed} and {S.n_latents}: ẑ = x is as sparse as a model can be, whatever the world",
    )
