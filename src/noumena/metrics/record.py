"""What every metric returns: its scores with range, chance level, ceiling, uncertainty, and what they support.

``chance`` is the mean score of learned latents with shuffled rows, ``ceiling`` the score of the true latents in place
of the learned ones, ``uncertainty`` comes from subsampling (Politis and Romano 1994): the standard deviation of a score
over random halves of the rows, drawn without replacement, is its standard error on all rows (for a mean exactly:
``σ²/m·(1 − m/n) = σ²/n`` for ``m = n/2``). A bootstrap would put copies of one row on both sides of a held-out split.
All three have the shape of the value: a number, or a named tuple of several.
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
    """Standard error and confidence interval of a score.

    Attributes
    ----------
    error : float
        Standard error.
    low, high : float
        Ends of the 95 % interval.
    draws : int
        Number of subsamples.
    """

    error: float
    low: float
    high: float
    draws: int


@dataclass(frozen=True)
class ScoreClaim:
    """What one score is, and what a good value of it supports.

    Attributes
    ----------
    field, title : str
        Its field in the record, and its name in print.
    range : tuple of float
        The least and the largest possible value.
    forgives : Ambiguity or None
        Maps of the learned latents that leave the score unchanged; None: no map.
    supports : str
        The sentence that a good value supports, and what it does not test.
    best : float
        The value of a perfect result.
    """

    field: str
    title: str
    range: tuple[float, float]
    forgives: Any
    supports: str
    best: float = 1.0


@dataclass(frozen=True)
class ScoreNumber:
    """One score of a record.

    Attributes
    ----------
    claim : ScoreClaim
        What it is.
    value, chance, ceiling : float or None
        The score, its chance level and its ceiling.
    uncertainty : Interval or None
        Its confidence interval.
    """

    claim: ScoreClaim
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
class MetricRecord:
    """Base of what the metrics return.

    A record of one score has it in ``score`` and names it by ``TITLE``, ``RANGE``, ``SUPPORTS`` and ``BEST``; one of
    several scores names them by a named tuple, ``PARTS``, and overrides ``claims``.

    Attributes
    ----------
    forgives : Ambiguity
        Maps of the learned latents that leave the score unchanged.
    chance, ceiling, uncertainty : float, Interval, named tuple or None
        Of shuffled rows, of the true latents themselves, and from subsampling; None where not measured.
    """

    PARTS: ClassVar[Any] = None
    TITLE: ClassVar[str] = ""
    RANGE: ClassVar[tuple[float, float]] = (0.0, 1.0)
    SUPPORTS: ClassVar[str] = ""
    BEST: ClassVar[float] = 1.0

    forgives: Ambiguity
    chance: Any = None
    ceiling: Any = None
    uncertainty: Any = None

    @property
    def claims(self) -> tuple[ScoreClaim, ...]:
        """What each score is, in the order of ``PARTS``."""
        if not self.TITLE:
            raise NotImplementedError
        return (ScoreClaim("score", self.TITLE, self.RANGE, self.forgives, self.SUPPORTS, self.BEST),)

    @property
    def value(self) -> Any:
        """The score, or the named tuple of scores."""
        return self.score if self.PARTS is None else self.PARTS(*(getattr(self, name) for name in self.PARTS._fields))  # type: ignore[attr-defined]

    @property
    def numbers(self) -> tuple[ScoreNumber, ...]:
        """Every score with its claim, chance level, ceiling and uncertainty."""
        return tuple(
            ScoreNumber(
                claim,
                float(getattr(self, claim.field)),
                *(_part(beside, claim.field) for beside in (self.chance, self.ceiling, self.uncertainty)),
            )
            for claim in self.claims
        )

    def __float__(self) -> float:
        return float(self.score)  # type: ignore[attr-defined]

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.numbers))}; forgives {self.forgives or 'nothing'}"

    def to_dict(self) -> dict[str, Any]:
        """The record as plain numbers, strings and lists, ready for JSON."""
        content = {field.name: plain(getattr(self, field.name)) for field in fields(self)}
        supports = {number.claim.title: number.claim.supports for number in self.numbers}
        return content | {"range": {c.title: plain(c.range) for c in self.claims}, "supports": supports}


R = TypeVar("R", bound=MetricRecord)
Table = Float[np.ndarray, "batch _"]


def _part(beside: Any, name: str) -> Any:
    return getattr(beside, name, None) if isinstance(beside, tuple) else beside


def plain(value: Any) -> Any:
    """A value made of numbers, strings, lists and dictionaries only; None for what is not finite.

    Examples
    --------
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
    """What a printed record adds about constant columns; nothing where all vary.

    Examples
    --------
    >>> counted_zero((2,), "z"), counted_zero((), "z")
    ('; constant and counted 0: z3', '')
    """
    return f"; constant and counted 0: {checks.listed([f'{letter}{j + 1}' for j in constant])}" if constant else ""


def evaluate(
    measure: Callable[[Table, Table], R],
    z: Table,
    z_hat: Table,
    *,
    shuffles: int = 0,
    ceiling: bool = False,
    subsamples: int = 0,
    seed: int = 0,
) -> R:
    """``measure(z, z_hat)``, with chance level, ceiling and standard errors where asked for.

    Parameters
    ----------
    measure : callable
        From true and learned latents, of any rows, to a record.
    z, z_hat : array of shape (n_samples, n_latents)
        True and learned latents.
    shuffles : int
        Copies of ``z_hat`` with shuffled rows whose mean score is the chance level; 0: not measured.
    ceiling : bool
        Also measure ``z`` in place of ``z_hat``.
    subsamples : int
        Random half-samples of the rows for the standard error, at least 10; 0: not measured.
    seed : int
        Seed of shuffles and subsamples.
    """
    shuffles = checks.count(shuffles, "shuffles", minimum=0)
    subsamples = checks.count(subsamples, "subsamples", minimum=0)
    too_few = 0 < subsamples < FEWEST_DRAWS
    checks.require(not too_few, f"subsamples must be 0 or at least {FEWEST_DRAWS} halves of the rows.", subsamples)
    record, n = measure(z, z_hat), len(z)
    if shuffles:
        rng = seeds.numpy_generator(seed, "shuffled rows")
        levels = [measure(z, z_hat[rng.permutation(n)]).value for _ in range(shuffles)]
        record = replace(record, chance=_like(record, np.asarray(np.mean(levels, axis=0))))
    if ceiling:
        record = replace(record, ceiling=measure(z, z).value)
    if subsamples:
        rng = seeds.numpy_generator(seed, "halves of the rows")
        halves = (np.sort(rng.permutation(n)[: n // 2]) for _ in range(subsamples))
        drawn = np.array([measure(z[half], z_hat[half]).value for half in halves])
        record = replace(record, uncertainty=_intervals(record, drawn))
    return record


def _like(record: MetricRecord, values: np.ndarray) -> Any:
    """Numbers in the shape of a record's value."""
    return float(values) if record.PARTS is None else record.PARTS(*np.asarray(values).tolist())


def _intervals(record: MetricRecord, values: np.ndarray) -> Any:
    """Intervals in the shape of a record's value, inside the range of each number."""
    ranges = {claim.field: claim.range for claim in record.claims}
    names = ("score",) if record.PARTS is None else record.PARTS._fields
    made = []
    for name, draws in zip(names, values.reshape(len(values), len(names)).T, strict=True):
        value, error = float(getattr(record, name)), float(draws.std(ddof=1))
        low, high = np.clip([value - WIDTH * error, value + WIDTH * error], *ranges.get(name, (-np.inf, np.inf)))
        made.append(Interval(error, float(low), float(high), len(values)))
    return made[0] if record.PARTS is None else record.PARTS(*made)
