"""Seeds of a fit: which one a page shows and why, which diverged, whether the fit was interrupted."""

from __future__ import annotations

from typing import Any

import numpy as np

from noumena.estimators import Estimator


def ran(model: Estimator) -> list[int]:
    """The indices of the seeds that did not diverge."""
    return np.flatnonzero(~np.asarray(model.diverged_, dtype=bool)).tolist()


def lowest(model: Estimator) -> int | None:
    """The index of the seed with the lowest held-out objective among those that did not diverge; None where no
    objective is finite."""
    lost = np.asarray(model.diverged_, dtype=bool) | ~np.isfinite(model.objectives_)
    return None if lost.all() else int(np.argmin(np.where(lost, np.inf, model.objectives_)))


def seeds_told(model: Estimator) -> str:
    """How many seeds were trained, how many of them diverged, which is shown and why, and whether the fit was
    interrupted, in sentences."""
    n, lost = len(model.seeds_), [k for k in range(len(model.seeds_)) if model.diverged_[k]]
    told = ["One seed was trained." if n == 1 else f"{n} seeds were trained together."]
    if lost:
        named = ", ".join(str(model.seeds_[k]) for k in lost)
        told.append(f"{len(lost)} of {n} diverged: seed{'s' * (len(lost) > 1)} {named}.")
    if n > 1:
        told.append(_shown(model, lost))
    if model.interrupted_:
        step = int(np.max(model.stopped_at_))
        told.append(
            f"The fit was interrupted at step {step}: what is shown is the best until then, not a finished fit."
        )
    return " ".join(told)


def _shown(model: Estimator, lost: list[int]) -> str:
    """Which seed is shown; that its objective is the lowest is said where it is."""
    shown, first = model.best_, lowest(model)
    seed = model.seeds_[shown]
    if shown in lost:
        return f"Seed {seed} is shown, which diverged."
    others = "those that did not diverge" if lost else "all"
    if shown == first:
        return f"Seed {seed} is shown, whose held-out objective is the lowest of {others}."
    beside = "" if first is None else f"; the lowest of {others} is that of seed {model.seeds_[first]}"
    return f"Seed {seed} is shown, the one that the estimator uses{beside}."


def seeds_facts(model: Estimator) -> dict[str, Any]:
    """The same as plain data: ``seeds``, ``shown``, ``diverged`` (seeds, not places) and ``interrupted``."""
    lost = [int(model.seeds_[k]) for k in range(len(model.seeds_)) if model.diverged_[k]]
    return {
        "seeds": [int(seed) for seed in model.seeds_],
        "shown": int(model.seeds_[model.best_]),
        "diverged": lost,
        "interrupted": bool(model.interrupted_),
    }


def ending(model: Estimator, k: int) -> str:
    """How the training of the k-th seed ended: by divergence, by an interruption, or at its last step."""
    step = int(model.stopped_at_[k])
    if model.diverged_[k]:
        return f"diverged by step {step}"
    return f"interrupted at step {step}" if model.interrupted_ else f"step {step}"
