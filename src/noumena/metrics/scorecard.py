"""Scorecard: every score of learned against true latents in one table, each with what it forgives and supports.

Scores differ in what they forgive, so that together they say up to what the true latents were found: the reading is
the smallest group of maps under which every factor's own score comes within 5 % of what the truth itself gets. It is a
reading of these rows, not a theorem.

Whoever chooses a model by such a table has tuned on the true latents; report it on rows and seeds that chose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from noumena import charts, checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.checks import InputError
from noumena.deprecated import renamed
from noumena.metrics.blocks import block_r2
from noumena.metrics.canonical import weak_mcc
from noumena.metrics.correlation import mcc
from noumena.metrics.disentanglement import dci
from noumena.metrics.explicitness import modularity
from noumena.metrics.factor_vae_score import factor_vae_score
from noumena.metrics.factors import PER_NAME, Factors, factors_of
from noumena.metrics.gaps import mig, sap
from noumena.metrics.information import InfoMEC, infomec
from noumena.metrics.record import Number, Record
from noumena.metrics.regression import Regression, r2
from noumena.metrics.slots import sis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS = 10_000
NEAR = 0.95
"""Share of the ceiling from which a score counts as reached."""

OF_QUANTITIES = {
    "mcc": mcc,
    "mcc_spearman": partial(mcc, correlation="spearman"),
    "mcc_held_out": partial(mcc, held_out=True),
    "weak_mcc": weak_mcc,
    "r2": r2,
    "r2_true_to_learned": partial(r2, direction="true to learned"),
    "kernel_r2": partial(r2, regressor="kernel"),
    "sis": sis,
    "block_r2": block_r2,
}
"""Scores that read factors as numbers; factors that are names are left out of them, but for the one below."""
WITH_NAMES = "r2_true_to_learned"
"""Learned latents are its targets, and one that holds a name is rightly told from it alone: names are inputs."""
OF_FACTORS = {
    "dci": dci,
    "infomec": infomec,
    "mig": mig,
    "sap": sap,
    "modularity": modularity,
    "factor_vae": factor_vae_score,
}
"""Scores that treat discrete and continuous factors each in their way."""
METRICS = (*OF_QUANTITIES, *OF_FACTORS)
LADDER = ("mcc", "mcc_spearman", "r2", "kernel_r2")
"""Scores from the least forgiving to the most."""


@dataclass(frozen=True, eq=False)
class Scorecard:
    """Records by name, what was scored, and what could not be (``refused``, a sentence for each).

    ``quantities`` are the factors that correlations and R² are about: those that are not names.
    """

    records: dict[str, Record]
    kinds: str
    factors: tuple[str, ...]
    quantities: tuple[str, ...]
    latents: tuple[str, ...]
    rows: int
    notes: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    still: tuple[str, ...] = ()
    """Factors that never vary, where they are left out."""

    def __getitem__(self, name: str) -> Record:
        checks.require(name in self.records, f"The score must be one of {', '.join(self.records)}.", repr(name))
        return self.records[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.records)

    def __contains__(self, name: object) -> bool:
        return name in self.records

    def __len__(self) -> int:
        return len(self.records)

    @property
    def numbers(self) -> tuple[Number, ...]:
        """All numbers of all records, in their order."""
        return tuple(number for record in self.records.values() for number in record.numbers)

    @property
    def up_to(self) -> Ambiguity | None:
        """The smallest group among those asked for under which every factor is found; None: no group."""
        return next((self.records[name].forgives for name in self._ladder if not self._missed(name)), None)

    @property
    def reading(self) -> str:
        """What the scores say together, in one sentence."""
        if not self._ladder:
            return "No score was asked for that tells up to what the latents were found."
        if self.up_to is not None:
            names = len(self.quantities) + len(self.still) < len(self.factors)
            that = ["is no name"] * names + ["varies"] * bool(self.still)
            every = f"every true latent{' that ' if that else ''}{' and '.join(that)}"
            return f"On these rows {every} was found up to {_WORDS[self.up_to.group]}."
        most = self._ladder[-1]
        missed = self._missed(most)
        which = "no true latent was" if len(missed) == len(self.quantities) else f"{checks.few(missed)} were not"
        which = f"{missed[0]} was not" if len(missed) == 1 < len(self.quantities) else which
        return f"On these rows {which} found, not even up to {_WORDS[self.records[most].forgives.group]}."

    @property
    def _ladder(self) -> list[str]:
        return [name for name in LADDER if name in self.records]

    def _missed(self, name: str) -> list[str]:
        """Factors whose own score is not near the ceiling."""
        record: Any = self.records[name]
        best = 1.0 if record.ceiling is None else record.ceiling
        each = record.per_target if isinstance(record, Regression) else record.per_latent
        return [factor for factor, value in zip(self.quantities, each, strict=True) if not value >= NEAR * best > 0]

    def __str__(self) -> str:
        header = ("score", "value", "±", "chance", "ceiling", "best", "forgives")
        lines = [header, *(_cells(number, self.quantities) for number in self.numbers)]
        wide = [max(len(line[j]) for line in lines) for j in range(len(header))]
        table = "\n".join(_line(line, wide) for line in lines)
        refused = [f"{name}: {sentence}" for name, sentence in self.refused.items()]
        size = f"{self.rows} rows, {len(self.factors)} factors, {len(self.latents)} learned latents."
        said = [f"{note}." for note in self.notes]
        return "\n".join([self.reading, "", table, "", size, f"{self.kinds}.", *said, *refused])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Every score whose best value is 1, as a dot beside chance (a ring), its ceiling (a bar) and its interval.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        Axes

        Examples
        --------
        >>> z = np.random.default_rng(0).normal(size=(100, 2))
        >>> ax = score(z, z, metrics="mcc").plot()
        >>> [text.get_text() for text in ax.texts]
        ['MCC (Pearson)', '1.000']
        """
        drawn = [number for number in self.numbers if number.claim.best == 1]
        levels = [level for n in drawn for level in (max(-1.0, n.value), n.chance) if level is not None]
        rows = [
            charts.LevelRow(
                number.claim.title,
                number.value,
                interval=None if number.uncertainty is None else (number.uncertainty.low, number.uncertainty.high),
                chance=number.chance,
                ceiling=number.ceiling,
                sentence=str(number),
            )
            for number in drawn
        ]
        return charts.levels(rows, limits=(min([0.0, *levels]) - 0.02, 1.02), ax=ax)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, words and lists."""
        return {
            "reading": self.reading,
            "kinds": self.kinds,
            "factors": list(self.factors),
            "latents": list(self.latents),
            "rows": self.rows,
            "notes": list(self.notes),
            "refused": self.refused,
            "scores": {name: record.to_dict() for name, record in self.records.items()},
        }


_WORDS = {
    "permutation+scaling": "order and scale, each by one learned latent",
    "element-wise": "a monotone map of its own, each by one learned latent",
    "affine": "an affine map of all latents",
    "any": "a smooth map of all latents",
}


@renamed(seed="random_state")
def score(
    z: Any,
    z_hat: Any,
    *,
    metrics: Any = "all",
    discrete: Any = None,
    slots: Any = None,
    shuffles: int | None = None,
    ceiling: bool = True,
    bootstrap: int = 0,
    rows: int | None = ROWS,
    random_state: Any = 0,
    progress: Callable[[str], None] | None = None,
) -> Scorecard:
    """Score learned latents ``z_hat`` against true latents ``z``, both (batch, latent), by all metrics or those named.

    ``z`` may be a data frame and may hold names; ``discrete`` says which factors are (detected by default). ``slots``
    are sizes of groups of true latents, for ``sis`` and ``block_r2`` (each latent alone by default). At most ``rows``
    rows are looked at, drawn at random (None: all). ``shuffles`` of the rows give the chance (None: each score has its
    own number), ``ceiling`` scores the truth itself beside, ``bootstrap`` halves of the rows give uncertainties. Under
    ``"all"`` a score that cannot be had is refused in a sentence, not raised. A factor that never varies is left out;
    with ``slots``, which count all latents, each score keeps its own rule for it. A factor that is a name is left out
    of correlations and R², but R² from true to learned takes a column of 0 and 1 for each name.

    >>> z = np.random.default_rng(0).normal(size=(300, 2))
    >>> card = score(z, -z[:, ::-1], metrics=["mcc", "r2"])
    >>> card.reading
    'On these rows every true latent was found up to order and scale, each by one learned latent.'
    >>> card["mcc"].permutation.tolist()
    [1, 0]
    """
    seed = seeds.seed_of(random_state)
    wanted = _wanted(metrics)
    factors = factors_of(z, discrete)
    latents = _names(z_hat)
    z_hat = checks.table(z_hat, "z_hat", min_rows=10)
    checks.same_batch(factors.values, z_hat)
    factors, z_hat, notes = _thinned(factors, z_hat, rows, seed)
    beside: dict[str, Any] = {"ceiling": ceiling, "bootstrap": bootstrap, "random_state": seed}
    beside |= {} if shuffles is None else {"shuffles": checks.count(shuffles, "shuffles", minimum=0)}
    asked = _asked(factors, z_hat, slots, beside)
    notes += _about_names(factors, wanted)
    still = tuple(name for j, name in enumerate(factors.names) if slots is None and j not in factors.varying)
    notes += (f"Factors that never vary are left out: {checks.few(still)}",) if still else ()
    records, refused = {}, {}
    for name in wanted:
        if progress is not None:
            progress(f"{name} …")
        try:
            records[name] = asked[name]()
        except InputError as error:
            if wanted != METRICS:
                raise
            refused[name] = str(error)
    checks.require(bool(records), "Some score must be possible.", "; ".join(refused.values()))
    quantities = tuple(factors.names[j] for j in _measured(factors, slots))
    names = (factors.names, quantities, latents or _numbered(z_hat))
    notes += _remarks(records, names[2])
    return Scorecard(records, str(factors), *names, len(z_hat), notes, refused, still)


def _about_names(factors: Factors, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Which scores leave out the factors that are names, and which takes them in."""
    few = [j for j in factors.nominal if j not in factors.spelled]
    names, taken, rare = (", ".join(factors.names[j] for j in js) for js in (factors.nominal, factors.spelled, few))
    others = any(name in OF_QUANTITIES and name != WITH_NAMES for name in wanted)
    asked = WITH_NAMES in wanted
    said = {
        f"Factors that are names have no order and are left out of correlations and R²: {names}": others and names,
        f"R² from true to learned takes a column of 0 and 1 for each name: {taken}": asked and taken,
        f"It leaves out factors with fewer than {PER_NAME} rows for a name: {rare}": asked and rare,
    }
    return tuple(sentence for sentence, due in said.items() if due)


def _remarks(records: dict[str, Record], latents: tuple[str, ...]) -> tuple[str, ...]:
    """What single scores remark: groups, bins and latents left out."""
    said = [f"FactorVAE score: {note.removesuffix('.')}" for note in getattr(records.get("factor_vae"), "notes", ())]
    infomec = records.get("infomec")
    if isinstance(infomec, InfoMEC) and len(infomec.active) < len(latents):
        inactive = [name for i, name in enumerate(latents) if i not in infomec.active]
        said.append(f"InfoMEC: latents of small range are left out of InfoM and InfoC: {checks.few(inactive)}")
    return tuple(said)


def _wanted(metrics: Any) -> tuple[str, ...]:
    if isinstance(metrics, str) and metrics == "all":
        return METRICS
    names = [metrics] if isinstance(metrics, str) or not isinstance(metrics, Iterable) else list(metrics)
    checks.require(len(names) > 0, "metrics must name a score, or be 'all'.", "none")
    return tuple(dict.fromkeys(checks.one_of(name, "metrics", METRICS) for name in names))


def _names(z_hat: Any) -> tuple[str, ...]:
    columns = getattr(z_hat, "columns", None)
    return () if columns is None else tuple(map(str, columns))


def _numbered(z_hat: np.ndarray) -> tuple[str, ...]:
    return tuple(f"ẑ{i + 1}" for i in range(z_hat.shape[1]))


def _thinned(
    factors: Factors, z_hat: np.ndarray, rows: int | None, seed: int
) -> tuple[Factors, np.ndarray, tuple[str, ...]]:
    most = len(z_hat) if rows is None else checks.count(rows, "rows", minimum=10)
    if len(z_hat) <= most:
        return factors, z_hat, ()
    kept = np.sort(seeds.numpy_generator(seed, "rows of a scorecard").permutation(len(z_hat))[:most])
    return factors.at(kept), z_hat[kept], (f"{most} of {len(z_hat)} rows were drawn at random",)


def _measured(factors: Factors, slots: Any) -> list[int]:
    """The factors that are quantities: no names, and varying ones, unless slots count them all."""
    among = range(len(factors.names)) if slots is not None else factors.varying.tolist()
    return [j for j in among if j not in factors.nominal]


def _asked(factors: Factors, z_hat: np.ndarray, slots: Any, beside: dict[str, Any]) -> dict[str, Callable[[], Record]]:
    """Every score as a call without arguments."""
    measured = _measured(factors, slots)
    z = factors.values[:, measured]

    def of_quantities(metric: Callable[..., Record], **extra: Any) -> Record:
        checks.require(bool(measured), "Some factor must be a quantity that varies.", "none")
        return metric(z, z_hat, **beside | extra)

    def with_names(metric: Callable[..., Record]) -> Record:
        """A score whose inputs are quantities and names; its ceiling tells the quantities alone."""
        inputs = np.hstack([z, factors.indicators])
        must = "Some factor must be a quantity that varies, or have rows enough for each of its names."
        checks.require(inputs.shape[1] > 0, must, "none")
        found = metric(inputs, z_hat, **beside | {"ceiling": False})
        if not beside["ceiling"] or not measured:
            return found
        return replace(found, ceiling=metric(inputs, z, shuffles=0, random_state=beside["random_state"]).value)

    def with_slots(metric: Callable[..., Record], name: str) -> Record:
        checks.require(not factors.nominal, f"{name} must be given numbers.", "factors that are names")
        alike = z.shape[1] == z_hat.shape[1]
        must = "sis must be given as many learned latents as true ones, or be called with learned_slots."
        checks.require(alike or metric is not sis, must, f"{z_hat.shape[1]} and {z.shape[1]}")
        return of_quantities(metric, **{"slots" if metric is sis else "blocks": z.shape[1] if slots is None else slots})

    calls: dict[str, Callable[[], Record]] = {n: partial(of_quantities, metric) for n, metric in OF_QUANTITIES.items()}
    calls |= {name: partial(with_slots, OF_QUANTITIES[name], name) for name in ("sis", "block_r2")}
    calls[WITH_NAMES] = partial(with_names, OF_QUANTITIES[WITH_NAMES])
    return calls | {name: partial(metric, factors, z_hat, **beside) for name, metric in OF_FACTORS.items()}


def _cells(number: Number, quantities: tuple[str, ...]) -> tuple[str, ...]:
    claim = number.claim
    spread = None if number.uncertainty is None else number.uncertainty.error
    levels = (number.value, spread, number.chance, number.ceiling)
    best = f"{claim.best:g}"
    shown = ["–" if level is None else f"{level:.3f}" for level in levels]
    return (claim.title, *shown, best, claim.forgives.named(quantities))


def _line(cells: tuple[str, ...], wide: list[int]) -> str:
    middle = [cell.rjust(width) for cell, width in zip(cells[1:-1], wide[1:-1], strict=True)]
    return "  ".join([cells[0].ljust(wide[0]), *middle, cells[-1]])
