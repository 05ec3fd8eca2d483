"""Cell Painting: does a label generalise to plates never seen, and do the axes of ICA help it to?

Two public data sets. ``hct116``: wells of bortezomib-resistant and wild-type clones, raw features with strong plate
effects; seven plates of one design, and all twelve plates, where plates differ in magnification and one holds wild type
only. ``cpjump1``: five plates of overexpressed genes, features already normalised within plates. Every plate is held
out once. Wells of the other labels help to find the components, which no label chooses.

Reference: Nelson et al. (2026), section 4.4, tables 3, 4 and 7. **Deviations**: the paper's RxRx3-core and OpenPhenom
embeddings are not public files of this study: its figures stand beside ours as context, of other data, other features
and far more rows. Its sizes of the top features are unknown; here 10 and 50. Protocol ``ours`` is the default of
``deconfound``; ``centred`` moves every plate to mean zero first; ``published`` finds all components of unscaled
features on all rows; ``one`` trains on one plate at a time; ``few`` keeps 30 components.

The folder of ``hct116_bortezomib_raw.npz`` and ``cpjump1_orf_a549_5plates.npz`` is named by ``NOUMENA_CELLPAINTING``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from averages import averaged, most, printed
from noumena import checks, seeds
from noumena.charts import CurveChart
from noumena.deconfounding import Deconfounding, deconfound
from noumena.deconfounding.boosting import auroc
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row

VARIABLE = "NOUMENA_CELLPAINTING"
GENERATED = "generated"
"""In place of the folder: a few wells of numbers, to try the study on."""
FILES = {"hct116": "hct116_bortezomib_raw.npz", "cpjump1": "cpjump1_orf_a549_5plates.npz"}
QUESTIONS = {
    "clone, DMSO": ("hct116", "resistant", "WT"),
    "clone, bortezomib": ("hct116", "resistant", "WT"),
    "drug": ("hct116", "bortezomib", "DMSO"),
    "clone, all plates": ("hct116", "resistant", "WT"),
    "treated": ("cpjump1", "trt", "negcon"),
    "compounds": ("cpjump1", "poscon_cp", "negcon"),
    "strong genes": ("cpjump1", "poscon_orf", "negcon"),
}
"""The data set, the positive label and its control."""
GENES = ("ABL1", "ADA", "ADH1C", "ADORA2A")
"""Single genes against the negative controls: the first by name with two wells on every plate; few wells, so noisy."""
PROTOCOLS: dict[str, dict[str, Any]] = {
    "ours": {},
    "centred": {"centre": True},
    "published": {"transductive": True, "standardise": False, "n_components": "all"},
    "one": {"scheme": "one"},
    "few": {"n_components": 30},
}
ROTATIONS, TOP = 3, (10, 50)
PUBLISHED = {
    "CYP11B1": (0.663, 0.692, 0.709, 0.678), "EIF3H": (0.682, 0.724, 0.749, 0.725), "HCK": (0.670, 0.693, 0.711, 0.668),
    "MTOR": (0.663, 0.690, 0.705, 0.679), "PLK1": (0.803, 0.811, 0.815, 0.792), "SRC": (0.660, 0.694, 0.706, 0.676),
}  # fmt: skip
"""Mean AUROC of base, PCA, ICA and random rotations (table 3)."""
PUBLISHED_SPARSITY = {
    "CYP11B1": (0.184, 0.204, 0.237, 0.188), "EIF3H": (0.192, 0.224, 0.268, 0.214), "HCK": (0.156, 0.208, 0.241, 0.166),
    "MTOR": (0.166, 0.201, 0.233, 0.186), "PLK1": (0.251, 0.307, 0.305, 0.262), "SRC": (0.170, 0.214, 0.240, 0.184),
}  # fmt: skip
"""Hoyer sparsity of the same (table 3)."""
PUBLISHED_CONCENTRATION = (0.163, 0.332, 0.386, 0.287)
"""Of the same (table 4)."""
PUBLISHED_SENSITIVITY = {"second size": (0.134, 0.307, 0.372), "third size": (0.133, 0.314, 0.334)}
"""Concentration of base, PCA and ICA with other sizes of the top features, which are lost; the first is table 4's
(table 7)."""
CONDITIONS = {"base": "base", "pca": "PCA", "ica": "PCA + ICA", "random": "PCA + random"}
BUDGET = 8.0
"""CPU-minutes of all cells on one core."""
TOLERANCE = 0.01
"""Of published figures with three digits, whose standard errors are lost."""


class Wells(NamedTuple):
    """Features, and the plate, position and label of every well; no label where a well takes no part."""

    x: np.ndarray
    plate: np.ndarray
    well: np.ndarray
    label: np.ndarray


def folder(data: str | Path | None = None) -> Path:
    """The folder ``data``, or the one that the environment names, with both files in it."""
    given = data if data is not None else os.environ.get(VARIABLE)
    checks.require(given is not None, f"Cell Painting must be named by the variable {VARIABLE}.", "nothing")
    path = Path(str(given))
    missing = [name for name in FILES.values() if not (path / name).is_file()]
    checks.require(not missing, f"The folder must hold {' and '.join(FILES.values())}.", f"no {', '.join(missing)}")
    return path


def wells(question: str, data: str | Path | None = None) -> Wells:
    """The wells of one question; those of the same plates without a part in it have an empty label."""
    if data == GENERATED:
        return _generated(question)
    name = QUESTIONS[question][0] if question in QUESTIONS else "cpjump1"
    with np.load(folder(data) / FILES[name], allow_pickle=False) as file:
        columns = {key: file[key] for key in file.files if key != "features"}
    if name == "hct116":
        return _clones(question, columns)
    controls = columns["control_type"]
    if question in QUESTIONS:
        label = np.where(columns["pert_type"] == "trt", "trt", controls)
    else:
        label = np.where(columns["gene"] == question, question, np.where(controls == "negcon", "negcon", ""))
    return Wells(columns["X"], columns["plate"], columns["well"], label)


def _generated(question: str, *, plates: int = 3, size: int = 24, features: int = 6) -> Wells:
    """Wells of three plates, half of them positive, with an effect in the first feature."""
    rng = seeds.numpy_generator(0, "wells in place of files")
    plate, well = np.repeat(np.arange(plates), size), np.tile(np.arange(size), plates)
    positive, control = names_of(question)
    label = np.where(rng.permuted(np.tile(np.arange(size) % 2, (plates, 1)), axis=1).ravel() == 1, positive, control)
    x = rng.normal(size=(len(label), features))
    x[:, 0] += 3 * (label == positive)
    return Wells(x, plate, well, label)


def names_of(question: str) -> tuple[str, str]:
    """The positive label of a question and its control; that of a gene is its name.

    >>> names_of("drug"), names_of("TP53")
    (('bortezomib', 'DMSO'), ('TP53', 'negcon'))
    """
    _, positive, control = QUESTIONS.get(question, ("cpjump1", question, "negcon"))
    return positive, control


def _clones(question: str, columns: dict[str, np.ndarray]) -> Wells:
    drug, kind, alike = columns["treatment"], columns["clone_type"], np.char.startswith(columns["batch"], "2019_11")
    label = {
        "clone, DMSO": np.where(drug == "DMSO", kind, ""),
        "clone, bortezomib": np.where(drug == "bortezomib", kind, ""),
        "drug": drug,
        "clone, all plates": np.where(drug != "bortezomib", kind, ""),
    }[question]
    kept = alike if question != "clone, all plates" else np.ones(len(alike), dtype=bool)
    return Wells(*(column[kept] for column in (columns["X"], columns["plate"], columns["well"], label)))


def missing(**row: Any) -> str | None:
    """What a cell lacks to be run: the files, or nothing."""
    if row.get("data") == GENERATED:
        return None
    try:
        folder(row.get("data"))
    except checks.InputError as error:
        return str(error)
    return None


def cells() -> list[Row]:
    """Every question with our protocol, the others where they say more, and single genes."""
    plain = [{"question": q, "protocol": "ours"} for q in QUESTIONS]
    centred = [{"question": q, "protocol": "centred"} for q in ("clone, DMSO", "clone, all plates")]
    other = [{"question": "treated", "protocol": p} for p in ("published", "one", "few")]
    return [*plain, *centred, *other, *({"question": g, "protocol": "ours"} for g in GENES)]


def cell(question: str, protocol: str, *, data: str | Path | None = None, **changes: Any) -> list[Row]:
    """One row per condition: its scores and what it adds to the others."""
    checks.one_of(protocol, "protocol", tuple(PROTOCOLS))
    table = wells(question, data)
    positive, control = names_of(question)
    settings = {"rotations": ROTATIONS, "top": TOP, "remove_batch": protocol != "one", **PROTOCOLS[protocol], **changes}
    found = deconfound(
        table.x, table.plate, table.label, positive=positive, control=control, folds="each", random_state=0, **settings
    )
    positions = position_score(table, positive, control)
    return [{**_row(found, k), "position": positions if k == 0 else None} for k in range(len(found.scores))]


def position_score(table: Wells, positive: str, control: str) -> float:
    """The AUROC within plates of nothing but a well's position: how often it was positive on the other plates.

    1 when every plate has the same layout: then held-out plates do not tell a label from the place it was put.
    """
    used = np.isin(table.label, (positive, control))
    plate, well, y = table.plate[used], table.well[used], (table.label[used] == positive).astype(int)
    found = []
    for p in np.unique(plate):
        own = plate == p
        known = [y[~own & (well == w)] for w in well[own]]
        guess = np.array([part.mean() if len(part) else 0.5 for part in known])
        if 0 < y[own].sum() < own.sum():
            found.append(auroc(y[own], guess))
    return float(np.mean(found))


def _row(found: Deconfounding, k: int) -> Row:
    score = found.scores[k]
    row: Row = {
        "condition": score.condition, "folds": len(found.held_out), "wells": int(found.design.used.sum()),
        "auroc": score.auroc.mean, "se": score.auroc.se, "low": score.auroc.low, "high": score.auroc.high,
        "spread": score.spread, "pooled": score.pooled, "linear": score.linear, "hoyer": score.hoyer.mean,
        "hoyer se": score.hoyer.se, "features": score.features,
        **{f"concentration {n}": value for n, value in score.concentration.items()},
    }  # fmt: skip
    for d in found.differences:
        if d.condition == score.condition:
            row |= {
                f"over {d.over}": d.auroc.mean,
                f"over {d.over} low": d.auroc.low,
                f"over {d.over} high": d.auroc.high,
            }
    if score.gain is not None and score.without is not None:
        row |= {"removed": score.removed, "auroc without": score.without.mean}
        row |= {"gain": score.gain.mean, "gain low": score.gain.low, "gain high": score.gain.high}
    own = [c for c in found.carriers if c.condition == score.condition]
    row |= {"carry batch": len(own[0].of_batch), "carry label": len(own[0].of_signal)} if own else {}
    return {name: None if isinstance(v, float) and not np.isfinite(v) else v for name, v in row.items()}


# ---- beside the published figures ------------------------------------------------------------------------------------

HEADER = ("question", "protocol", "condition", "AUROC", "over repeats", "logistic", "position", "Hoyer", "top 10",
          "ICA over PCA", "ICA over random", "removed", "gain of removal")  # fmt: skip


def compare(rows: list[Row]) -> str:
    """Every question and condition, single genes in the mean, and the published figures of other data."""
    lines = [_line(row) for row in rows if row.get("condition") and row["question"] in QUESTIONS]
    single = [row for row in rows if row.get("condition") and row["question"] not in QUESTIONS]
    for condition in ("base", "pca", "ica", "random"):
        own = tables.matching(single, condition=condition)
        if own:
            columns = ("auroc", "spread", "linear", "position", "hoyer", "concentration 10", "over pca", "over random",
                       "removed", "gain")  # fmt: skip
            lines.append([f"{len(own)} single genes", "ours", condition, *(tables.spread(own, c) for c in columns)])
    context = [(f"RxRx3-core, {gene}", *(f"{value:.3f}" for value in four)) for gene, four in PUBLISHED.items()]
    context.append(("RxRx3-core, concentration", *(f"{value:.3f}" for value in PUBLISHED_CONCENTRATION)))
    header = ("published, other data", "base", "PCA", "PCA + ICA", "PCA + random")
    return f"{tables.text_table(HEADER, lines)}\n\n{tables.text_table(header, context)}\n{NOTE}"


def _line(row: Row) -> list[str]:
    ica = row["condition"] == "ica"
    removed = row.get("removed")
    return [
        row["question"], row["protocol"], row["condition"], _interval(row, "auroc", "low", "high"),
        _number(row.get("spread")), _number(row.get("linear")), _number(row.get("position")), _number(row.get("hoyer")),
        _number(row.get("concentration 10")),
        *(_interval(row, f"over {o}", f"over {o} low", f"over {o} high") if ica else "" for o in ("pca", "random")),
        "–" if removed is None else f"{removed:.1f}", _interval(row, "gain", "gain low", "gain high"),
    ]  # fmt: skip


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _interval(row: Row, mean: str, low: str, high: str) -> str:
    if row.get(mean) is None:
        return "–"
    return f"{row[mean]:.3f} [{_number(row.get(low))}, {_number(row.get(high))}]"


NOTE = (
    "Intervals are over plates held out, widened for training plates they share. The logistic regression cannot see "
    "rotations: its score of PCA is that of ICA and random rotations. Position: what a well's place alone scores, from "
    "the other plates; where it is 1 a label cannot be told from its place. Clones recur on every plate of one design."
)


OTHER_DATA = "other data: RxRx3-core and OpenPhenom there, single genes of CPJUMP1 here"


def claims(rows: list[Row]) -> list[StudyClaim]:
    """Every figure of tables 3, 4 and 7 beside our single genes, which are of other data, by condition."""
    found = [
        _claim(rows, f"Table 3: {gene}", column, metric, condition, figure)
        for column, metric, table in (("auroc", "AUROC", PUBLISHED), ("hoyer", "Hoyer sparsity", PUBLISHED_SPARSITY))
        for gene, figures in table.items()
        for condition, figure in zip(CONDITIONS, figures, strict=True)
    ]
    sizes = {"Table 4": PUBLISHED_CONCENTRATION, **{f"Table 7: {k}": v for k, v in PUBLISHED_SENSITIVITY.items()}}
    return found + [
        _claim(rows, where, f"concentration {TOP[where != 'Table 4']}", "concentration", condition, figure)
        for where, figures in sizes.items()
        for condition, figure in zip(CONDITIONS, figures, strict=False)
    ]


def _claim(rows: list[Row], where: str, column: str, metric: str, condition: str, figure: float) -> StudyClaim:
    """A figure beside that of every single gene; the place of a well is a baseline of its AUROC."""
    there = _single(rows)
    baseline = most({"place of the well": tables.values(there, "position")}) if column == "auroc" else None
    ours = tables.values(tables.matching(there, condition=condition), column)
    where = f"{where}, {CONDITIONS[condition]}" if ":" in where else f"{where}: {CONDITIONS[condition]}"
    return StudyClaim(where, metric, figure, ours, TOLERANCE, baseline=baseline, not_comparable=OTHER_DATA)


def _single(rows: list[Row]) -> list[Row]:
    return [row for row in tables.matching(rows, protocol="ours") if row["question"] not in QUESTIONS]


def figures(rows: list[Row]) -> list[CurveChart]:
    """AUROC and sparsity by condition: our single genes and the published ones, of other data."""
    return [
        _figure(rows, "auroc", "AUROC on plates held out", PUBLISHED),
        _figure(rows, "hoyer", "Hoyer sparsity of splits", PUBLISHED_SPARSITY),
    ]


def _figure(rows: list[Row], column: str, up: str, table: dict[str, tuple[float, ...]]) -> CurveChart:
    there = _single(rows)
    ours = {name: tables.values(tables.matching(there, condition=c), column) for c, name in CONDITIONS.items()}
    curves = [averaged("single genes", ours)]
    curves += [printed(gene, dict(zip(CONDITIONS.values(), four, strict=True))) for gene, four in table.items()]
    return CurveChart(f"{up}: our genes, and the published ones", "condition", up, tuple(curves))


def tiny() -> list[Row]:
    """Two questions on wells that need no file."""
    shared = {"data": GENERATED, "rotations": 1, "n_components": 3}
    return [{"question": question, "protocol": "ours", **shared} for question in ("treated", "a gene")]
