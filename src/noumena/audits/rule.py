"""The smallest group of maps up to which representations agree.

Groups are nested, signed permutation ⊂ rigid+scale ⊂ affine, all with shifts. With ``c`` the smallest chance error of
the three, two representations agree up to a group when its error

1. is below half of ``c``, and
2. exceeds the smallest error of the three by no more than ``c/10``, or two standard deviations of that difference over
   the folds beyond it.

The smallest group of which both are true is named, or none. The second condition keeps a rough rigid fit from being
called rigid where an affine map is far better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from noumena.ambiguity import Ambiguity
from noumena.guarantees.agreement import AFFINE, BETTER_THAN_CHANCE, PERMUTATION, RIGID

CLOSE = 0.1
"""Share of the chance error within which two errors are equally good."""
NONE = "none"
LADDER = (PERMUTATION, RIGID, AFFINE)
AMBIGUITIES = {
    PERMUTATION: Ambiguity("signed permutation"),
    RIGID: Ambiguity("similarity"),
    AFFINE: Ambiguity("affine"),
    NONE: Ambiguity("any"),
}


def reference(chance: Mapping[str, float]) -> float:
    """The smallest chance error of the groups: what an uninformative map attains.

    >>> reference({"signed permutation": 0.3, "rigid+scale": 0.2, "affine": 0.21})
    0.2
    """
    return min(chance[kind] for kind in LADDER)


def smallest_group(by_fold: Mapping[str, Sequence[float]], chance: Mapping[str, float]) -> str:
    """The smallest group up to which representations agree, from each group's errors fold by fold.

    >>> chance = {"signed permutation": 0.28, "rigid+scale": 0.2, "affine": 0.2}
    >>> smallest_group({"signed permutation": [0.09], "rigid+scale": [0.03], "affine": [0.02]}, chance)
    'rigid+scale'
    """
    c = reference(chance)
    errors = {kind: np.asarray(by_fold[kind], dtype=float) for kind in LADDER}
    best = min(LADDER, key=lambda kind: float(errors[kind].mean()))
    for kind in LADDER:
        lost = errors[kind] - errors[best]
        if errors[kind].mean() < BETTER_THAN_CHANCE * c and equally_good(lost, c):
            return kind
    return NONE


def equally_good(lost: np.ndarray, c: float) -> bool:
    """Whether errors that are larger by ``lost``, fold by fold, are as good, where chance is ``c``."""
    return bool(lost.mean() <= CLOSE * c + 2 * lost.std())
