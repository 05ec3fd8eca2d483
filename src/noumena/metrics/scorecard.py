"""Scorecard: every score of learned against true latents in one table, each with what it forgives and supports.

Scores differ in what they forgive; together they say up to what the true latents were found: the smallest group of
maps
under which every factor's own score comes within 5 % of what the truth itself gets. This describes the given rows and
proves nothing; and who selects a model by such a table has tuned on the true latents.
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
from noumena.metrics.factors import ROWS_PER_CATEGORY, FactorTable, factors_of
from noumena.metrics.gaps import mig, sap
from noumena.metrics.information import InfoMEC, infomec
from noumena.metrics.record import MetricRecord, ScoreNumber
from noumena.metrics.regression import Regression, r2
from noumena.metrics.slots import sis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS = 10_000
NEAR = 0.95
"""Share of the ceiling from which a score counts as reached."""

NUMERIC_METRICS = {
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
"""Scores that read factors as numbers; nominal factors are left out of them, but for the one below."""
ONE_HOT_METRIC = "r2_true_to_learned"
"""Its inputs are the factors, nominal ones as one-hot columns."""
FACTOR_METRICS = {
    "dci": dci,
    "infomec": infomec,
    "mig": mig,
    "sap": sap,
    "modularity": modularity,
    "factor_vae": factor_vae_score,
}
"""Scores that treat discrete and continuous factors each in their way."""
METRICS = (*NUMERIC_METRICS, *FACTOR_METRICS)
LADDER = ("mcc", "mcc_spearman", "r2", "kernel_r2")
"""Scores from the least forgiving to the most."""


@dataclass(frozen=True, eq=False)
class Scorecard:
    """All scores of learned against true latents.

    Attributes
    ----------
    records : dict of str to MetricRecord
        The scores by name; ``card["mcc"]`` is one of them.
    kinds : str
        Which factors were discrete.
    factors, quantities, latents : tuple of str
        Names of the factors, of the numeric ones that correlations and R² are about, and of the learned latents.
    rows : int
        Rows looked at.
    notes : tuple of str
        What was left out, and why.
    refused : dict of str to str
        Scores that could not be computed, and why.
    still : tuple of str
        Constant factors that were left out.
    """

    records: dict[str, MetricRecord]
    kinds: str
    factors: tuple[str, ...]
    quantities: tuple[str, ...]
    latents: tuple[str, ...]
    rows: int
    notes: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    still: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> MetricRecord:
        checks.require(name in self.records, f"The score must be one of {', '.join(self.records)}.", repr(name))
        return self.records[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.records)

    def __contains__(self, name: object) -> bool:
        return name in self.records

    def __len__(self) -> int:
        return len(self.records)

    @property
    def numbers(self) -> tuple[ScoreNumber, ...]:
        """All numbers of all records, in their order."""
        return tuple(number for record in self.records.values() for number in record.numbers)

    @property
    def up_to(self) -> Ambiguity | None:
        """The smallest group of maps among those asked for under which every factor is found; None: none."""
        return next((self.records[name].forgives for name in self._ladder if not self._missed(name)), None)

    @property
    def reading(self) -> str:
        """Up to what the true latents were found, in one sentence."""
        if not self._ladder:
            return "No score was asked for that tells up to what the latents were found."
        if self.up_to is not None:
            names = len(self.quantities) + len(self.still) < len(self.factors)
            that = ["is no name"] * names + ["varies"] * bool(self.still)
            every = f"every true latent{' that ' if that else ''}{' and '.join(that)}"
            return f"On these rows {every} was found up to {_WORDS[self.up_to.group]}."
        most = self._ladder[-1]
        missed = self._missed(most)
        which = "no true latent was" if len(missed) == len(self.quantities) else f"{checks.listed(missed)} were not"
        which = f"{missed[0]} was not" if len(missed) == 1 < len(self.quantities) else which
        return f"On these rows {which} found, not even up to {_WORDS[self.records[most].forgives.group]}."

    @property
    def _ladder(self) -> list[str]:
        return [name for name in LADDER if name in self.records]

    def _missed(self, name: str) -> list[str]:
        """Factors whose own score is below ``NEAR`` of the ceiling."""
        record: Any = self.records[name]
        best = 1.0 if record.ceiling is None else record.ceiling
        scores = record.per_target if isinstance(record, Regression) else record.per_latent
        return [factor for factor, value in zip(self.quantities, scores, strict=True) if not value >= NEAR * best > 0]

    def __str__(self) -> str:
        header = ("score", "value", "±", "chance", "ceiling", "best", "forgives")
        lines = [header, *(_cells(number, self.quantities) for number in self.numbers)]
        wide = [max(len(line[j]) for line in lines) for j in range(len(header))]
        table = "\n".join(_line(line, wide) for line in lines)
        refused = [f"{name}: {sentence}" for name, sentence in self.refused.items()]
        size = f"{self.rows} rows, {len(self.factors)} factors, {len(self.latents)} learned latents."
        notes = [f"{note}." for note in self.notes]
        return "\n".join([self.reading, "", table, "", size, f"{self.kinds}.", *notes, *refused])

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
        """The scorecard as plain numbers, strings and lists, ready for JSON."""
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


@renamed(seed="random_state", bootstrap="subsamples", rows="max_rows")
def score(
    z: Any,
    z_hat: Any,
    *,
    metrics: Any = "all",
    discrete: Any = None,
    slots: Any = None,
    shuffles: int | None = None,
    ceiling: bool = True,
    subsamples: int = 0,
    max_rows: int | None = ROWS,
    random_state: Any = 0,
    progress: Callable[[str], None] | None = None,
) -> Scorecard:
    """Score learned latents ``z_hat`` against true latents ``z``, by all metrics or those named.

    Constant factors are left out, unless ``slots`` count them. Nominal factors are left out of correlations and R²,
    but R²
    from true to learned takes one-hot columns of them.

    Parameters
    ----------
    z : array, DataFrame or FactorTable of shape (n_samples, n_factors)
        True latents; columns of strings are nominal factors.
    z_hat : array or DataFrame of shape (n_samples, n_latents)
        Learned latents of the same rows.
    metrics : "all", str or list of str
        Names among ``noumena.metrics.scorecard.METRICS``; under "all" what cannot be scored is noted, not raised.
    discrete : bool, list of bool, list of int or list of str, optional
        Which factors are discrete; detected by default.
    slots : int or sequence of int, optional
        Groups of true latents, for ``sis`` and ``block_r2``; each latent alone by default.
    shuffles : int, optional
        Row shuffles for the chance levels; each score's own number by default.
    ceiling : bool
        Also score the truth itself.
    subsamples : int
        Half-samples for the standard errors; 0: not measured.
    max_rows : int, optional
        Larger tables are subsampled to so many rows; None: all.
    random_state : int, Generator or None
        Seed of everything random.
    progress : callable, optional
        Is given the name of every score before it is computed.

    Returns
    -------
    Scorecard

    Examples
    --------
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
    factors, z_hat, notes = _thinned(factors, z_hat, max_rows, seed)
    options: dict[str, Any] = {"ceiling": ceiling, "subsamples": subsamples, "random_state": seed}
    options |= {} if shuffles is None else {"shuffles": checks.count(shuffles, "shuffles", minimum=0)}
    calls = _asked(factors, z_hat, slots, options)
    notes += _about_names(factors, wanted)
    still = tuple(name for j, name in enumerate(factors.names) if slots is None and j not in factors.varying)
    notes += (f"Factors that never vary are left out: {checks.listed(still)}",) if still else ()
    records, refused = {}, {}
    for name in wanted:
        if progress is not None:
            progress(f"{name} …")
        try:
            records[name] = calls[name]()
        except InputError as error:
            if wanted != METRICS:
                raise
            refused[name] = str(error)
    checks.require(bool(records), "Some score must be possible.", "; ".join(refused.values()))
    quantities = tuple(factors.names[j] for j in _measured(factors, slots))
    names = (factors.names, quantities, latents or _numbered(z_hat))
    notes += _remarks(records, names[2])
    return Scorecard(records, str(factors), *names, len(z_hat), notes, refused, still)


def _about_names(factors: FactorTable, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Which scores leave out the factors that are names, and which takes them in."""
    sparse = [j for j in factors.nominal if j not in factors.one_hot]
    names, taken, rare = (", ".join(factors.names[j] for j in js) for js in (factors.nominal, factors.one_hot, sparse))
    others = any(name in NUMERIC_METRICS and name != ONE_HOT_METRIC for name in wanted)
    asked = ONE_HOT_METRIC in wanted
    notes = {
        f"Factors that are names have no order and are left out of correlations and R²: {names}": others and names,
        f"R² from true to learned takes a column of 0 and 1 for each name: {taken}": asked and taken,
        f"It leaves out factors with fewer than {ROWS_PER_CATEGORY} rows for a name: {rare}": asked and rare,
    }
    return tuple(sentence for sentence, due in notes.items() if due)


def _remarks(records: dict[str, MetricRecord], latents: tuple[str, ...]) -> tuple[str, ...]:
    """What single scores remark: groups, bins and latents left out."""
    notes = [f"FactorVAE score: {note.removesuffix('.')}" for note in getattr(records.get("factor_vae"), "notes", ())]
    infomec = records.get("infomec")
    if isinstance(infomec, InfoMEC) and len(infomec.active) < len(latents):
        inactive = [name for i, name in enumerate(latents) if i not in infomec.active]
        notes.append(f"InfoMEC: latents of small range are left out of InfoM and InfoC: {checks.listed(inactive)}")
    return tuple(notes)


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
    factors: FactorTable, z_hat: np.ndarray, max_rows: int | None, seed: int
) -> tuple[FactorTable, np.ndarray, tuple[str, ...]]:
    most = len(z_hat) if max_rows is None else checks.count(max_rows, "max_rows", minimum=10)
    if len(z_hat) <= most:
        return factors, z_hat, ()
    kept_rows = np.sort(seeds.numpy_generator(seed, "rows of a scorecard").permutation(len(z_hat))[:most])
    return factors.at(kept_rows), z_hat[kept_rows], (f"{most} of {len(z_hat)} rows were drawn at random",)


def _measured(factors: FactorTable, slots: Any) -> list[int]:
    """The factors that are quantities: no names, and varying ones, unless slots count them all."""
    among = range(len(factors.names)) if slots is not None else factors.varying.tolist()
    return [j for j in among if j not in factors.nominal]


def _asked(
    factors: FactorTable, z_hat: np.ndarray, slots: Any, options: dict[str, Any]
) -> dict[str, Callable[[], MetricRecord]]:
    """Every score as a call without arguments."""
    measured = _measured(factors, slots)
    z = factors.values[:, measured]

    def of_quantities(metric: Callable[..., MetricRecord], **extra: Any) -> MetricRecord:
        checks.require(bool(measured), "Some factor must be a quantity that varies.", "none")
        return metric(z, z_hat, **options | extra)

    def with_names(metric: Callable[..., MetricRecord]) -> MetricRecord:
        """A score whose inputs are quantities and names; its ceiling tells the quantities alone."""
        inputs = np.hstack([z, factors.indicators])
        must = "Some factor must be a quantity that varies, or have rows enough for each of its names."
        checks.require(inputs.shape[1] > 0, must, "none")
        record = metric(inputs, z_hat, **options | {"ceiling": False})
        if not options["ceiling"] or not measured:
            return record
        return replace(record, ceiling=metric(inputs, z, shuffles=0, random_state=options["random_state"]).value)

    def with_slots(metric: Callable[..., MetricRecord], name: str) -> MetricRecord:
        checks.require(not factors.nominal, f"{name} must be given numbers.", "factors that are names")
        alike = z.shape[1] == z_hat.shape[1]
        must = "sis must be given as many learned latents as true ones, or be called with learned_slots."
        checks.require(alike or metric is not sis, must, f"{z_hat.shape[1]} and {z.shape[1]}")
        return of_quantities(metric, **{"slots" if metric is sis else "blocks": z.shape[1] if slots is None else slots})

    calls: dict[str, Callable[[], MetricRecord]] = {
        n: partial(of_quantities, metric) for n, metric in NUMERIC_METRICS.items()
    }
    calls |= {name: partial(with_slots, NUMERIC_METRICS[name], name) for name in ("sis", "block_r2")}
    calls[ONE_HOT_METRIC] = partial(with_names, NUMERIC_METRICS[ONE_HOT_METRIC])
    return calls | {name: partial(metric, factors, z_hat, **options) for name, metric in FACTOR_METRICS.items()}


def _cells(number: ScoreNumber, quantities: tuple[str, ...]) -> tuple[str, ...]:
    claim = number.claim
    spread = None if number.uncertainty is None else number.uncertainty.error
    levels = (number.value, spread, number.chance, number.ceiling)
    best = f"{claim.best:g}"
    shown = ["–" if level is None else f"{level:.3f}" for level in levels]
    return (claim.title, *shown, best, claim.forgives.named(quantities))


def _line(cells: tuple[str, ...], wide: list[int]) -> str:
    middle = [cell.rjust(width) for cell, width in zip(cells[1:-1], wide[1:-1], strict=True)]
    return "  ".join([cells[0].ljust(wide[0]), *middle, cells[-1]])
