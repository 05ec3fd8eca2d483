"""Record: a number is reported with its range, its level of chance, its ceiling, its uncertainty, and what it supports.

Every metric returns a frozen record. What the number forgives is an ``Ambiguity``; what it supports is a sentence.
``chance`` is the value for learned latents with shuffled rows, which know nothing; ``ceiling`` is the value for the
true latents in place of the learned ones; ``uncertainty`` comes from halves of the rows. All three have the shape of
the value: a number, or a tuple with the names of several.

Uncertainty. Rows are drawn *without* replacement, half of them at a time. The spread of a score over such halves is the
standard error of the score on all rows (for a mean exactly: ``σ²/m·(1 − m/n) = σ²/n`` for ``m = n/2``). Draws with
replacement would put copies of one row on both sides of a held-out split, and neighbours at distance zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Float

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity

FEWEST_DRAWS = 10
WIDTH = 1.96
"""Standard errors from the value to the ends of its 95 % interval."""


@dataclass(frozen=True)
class Interval:
    """A value's standard error, its 95 % interval and the halves of the rows that it comes from."""

    error: float
    low: float
    high: float
    draws: int


@dataclass(frozen=True)
class Claim:
    """What one number of a record is: its field, title, range and best value, and what it forgives and supports."""

    field: str
    title: str
    range: tuple[float, float]
    forgives: Any
    """An ``Ambiguity``, or None: nothing."""
    supports: str
    best: float = 1.0


@dataclass(frozen=True)
class Number:
    """One number of a record with all that is known about it."""

    claim: Claim
    value: float
    chance: float | None = None
    ceiling: float | None = None
    uncertainty: Interval | None = None

    def __str__(self) -> str:
        spread = "" if self.uncertainty is None else f" ± {self.uncertainty.error:.2f}"
        beside = [("chance", self.chance), ("ceiling", self.ceiling)]
        known = ", ".join(f"{name} {level:.2f}" for name, level in beside if level is not None)
        return f"{self.claim.title} {self.value:.2f}{spread}" + (f" ({known})" if known else "")


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a metric found; its fields are the parts, ``numbers`` what can be quoted.

    A record of one number has it in ``score``; one of several names them by a tuple class, ``PARTS``.
    """

    PARTS: ClassVar[Any] = None

    forgives: Ambiguity
    chance: Any = None
    ceiling: Any = None
    uncertainty: Any = None

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What each number is, in the order of ``PARTS``."""
        raise NotImplementedError

    @property
    def value(self) -> Any:
        """The score, or the tuple of scores."""
        return self.score if self.PARTS is None else self.PARTS(*(getattr(self, name) for name in self.PARTS._fields))  # type: ignore[attr-defined]

    @property
    def numbers(self) -> tuple[Number, ...]:
        """Every number with its claim, chance, ceiling and uncertainty."""
        return tuple(
            Number(
                claim,
                float(getattr(self, claim.field)),
                *(_part(beside, claim.field) for beside in (self.chance, self.ceiling, self.uncertainty)),
            )
            for claim in self.claims
        )

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.numbers))}; forgives {self.forgives or 'nothing'}"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, words and lists."""
        content = {field.name: plain(getattr(self, field.name)) for field in fields(self)}
        said = {number.claim.title: number.claim.supports for number in self.numbers}
        return content | {"range": {c.title: plain(c.range) for c in self.claims}, "supports": said}


R = TypeVar("R", bound=Record)
Table = Float[np.ndarray, "batch _"]


def _part(beside: Any, name: str) -> Any:
    return getattr(beside, name, None) if isinstance(beside, tuple) else beside


def plain(value: Any) -> Any:
    """A value of numbers, words, lists and dictionaries only; None for what is not finite.

    >>> plain({"a": np.array([1, 2]), "up to": Ambiguity("affine"), "n": np.float64(0.5)})
    {'a': [1, 2], 'up to': 'affine', 'n': 0.5}
    """
    if isinstance(value, Interval):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Ambiguity):
        return str(value)
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, tuple) and (names := getattr(value, "_fields", ())):
        return {name: plain(part) for name, part in zip(names, value, strict=True)}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def counted_zero(constant: tuple[int, ...], letter: str) -> str:
    """What a printed record adds about columns that never vary; nothing where all do.

    >>> counted_zero((2,), "z"), counted_zero((), "z")
    ('; constant and counted 0: z3', '')
    """
    return f"; constant and counted 0: {checks.few([f'{letter}{j + 1}' for j in constant])}" if constant else ""


def surrounded(
    measure: Callable[[Table, Table], R],
    z: Table,
    z_hat: Table,
    *,
    shuffles: int = 0,
    ceiling: bool = False,
    bootstrap: int = 0,
    seed: int = 0,
) -> R:
    """``measure(z, z_hat)`` with what was asked for beside it; ``measure`` itself must take any rows.

    ``shuffles`` copies of ``z_hat`` with shuffled rows give the chance, ``bootstrap`` halves of the rows the
    uncertainty, and ``z`` in place of ``z_hat`` the ceiling; 0 and False: not measured.
    """
    shuffles, bootstrap = checks.count(shuffles, "shuffles", minimum=0), checks.count(bootstrap, "bootstrap", minimum=0)
    few = 0 < bootstrap < FEWEST_DRAWS
    checks.require(not few, f"bootstrap must be 0 or at least {FEWEST_DRAWS} halves of the rows.", bootstrap)
    found, n = measure(z, z_hat), len(z)
    if shuffles:
        rng = seeds.numpy_generator(seed, "shuffled rows")
        levels = [measure(z, z_hat[rng.permutation(n)]).value for _ in range(shuffles)]
        found = replace(found, chance=_like(found, np.asarray(np.mean(levels, axis=0))))
    if ceiling:
        found = replace(found, ceiling=measure(z, z).value)
    if bootstrap:
        rng = seeds.numpy_generator(seed, "halves of the rows")
        halves = (np.sort(rng.permutation(n)[: n // 2]) for _ in range(bootstrap))
        drawn = np.array([measure(z[half], z_hat[half]).value for half in halves])
        found = replace(found, uncertainty=_intervals(found, drawn))
    return found


def _like(found: Record, values: np.ndarray) -> Any:
    """Numbers in the shape of a record's value."""
    return float(values) if found.PARTS is None else found.PARTS(*np.asarray(values).tolist())


def _intervals(found: Record, drawn: np.ndarray) -> Any:
    """Intervals in the shape of a record's value, inside the range of each number."""
    ranges = {claim.field: claim.range for claim in found.claims}
    names = ("score",) if found.PARTS is None else found.PARTS._fields
    made = []
    for name, draws in zip(names, drawn.reshape(len(drawn), len(names)).T, strict=True):
        value, error = float(getattr(found, name)), float(draws.std(ddof=1))
        low, high = np.clip([value - WIDTH * error, value + WIDTH * error], *ranges.get(name, (-np.inf, np.inf)))
        made.append(Interval(error, float(low), float(high), len(drawn)))
    return made[0] if found.PARTS is None else found.PARTS(*made)
