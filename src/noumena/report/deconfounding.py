"""Deconfounding: the page of scores on held-out batches, of the components behind them, and of the design."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noumena.deconfounding.carriers import Carriers
from noumena.deconfounding.result import NAMES, Deconfounding
from noumena.report.page import Cell, Chapter, Page, PageFigure, PageTable

_MOST_COLUMNS = 10


def deconfounding_page(found: Deconfounding, name: str, data: Sequence[str] = ()) -> Page:
    """The whole page of one data set."""
    drawn = [PageFigure(c.plot(), _told(c), f"What {c.condition} components carry") for c in found.carriers]
    carried = Chapter(
        title="What the components carry",
        lead="Components found without labels on all rows; labels and batches are only laid beside them.",
        figures=tuple(drawn),
        tables=tuple(_carrier_table(c) for c in found.carriers),
    )
    scored = Chapter(
        title="Scores on held-out batches",
        lead=found.headline,
        figures=(PageFigure(found.plot(), _CAPTION, "AUROC of every condition on held-out batches"),),
        tables=(_scores(found), _differences(found)),
        details="\n".join(f"{note}." for note in (*data, *found.notes)),
    )
    design = Chapter(
        title="Design",
        lead=" ".join(f"{note}." for note in found.design.notes) or "Every label occurs in every batch.",
        tables=(_design(found),),
    )
    return Page(
        title=f"Deconfounding {name}",
        lead=f"{found.question}. What is scored was never trained on: whole batches are held out.",
        chapters=(scored, carried, design) if drawn else (scored, design),
    )


_CAPTION = (
    "AUROC on held-out batches in the mean over folds, with 95 % intervals widened for folds that share training rows. "
    "Hollow dots: one standard deviation of random rotations, or of the trees' seeds, to either side. "
    "The dashed line is chance."
)


def _told(found: Carriers) -> str:
    return (
        f"Share of each {found.condition} component's variance that batch explains within labels, and that the label "
        f"explains within batches. A dot: more than any component reaches in 95 of 100 shuffles. {found}."
    )


def _scores(found: Deconfounding) -> PageTable:
    sizes = sorted({k for score in found.scores for k in score.concentration})
    removal = any(score.gain is not None for score in found.scores)
    header = (
        "condition",
        "AUROC",
        "s.e.",
        "95 % from",
        "to",
        "over repeats",
        "pooled",
        "logistic",
        "Hoyer",
        "features",
    )
    header += tuple(f"top {k}" for k in sizes) + (("removed", "AUROC without", "gain") if removal else ())
    rows = []
    for s in found.scores:
        row: tuple[Cell, ...] = (
            NAMES[s.condition], s.auroc.mean, s.auroc.se, s.auroc.low, s.auroc.high, s.spread, s.pooled,
            "–" if s.linear is None else s.linear, s.hoyer.mean, s.features,
        )  # fmt: skip
        row += tuple(s.concentration.get(k, "–") for k in sizes)
        if s.gain is not None and s.without is not None and s.removed is not None:
            row += (s.removed, s.without.mean, f"{s.gain}")
        rows.append(row)
    note = (
        "A logistic regression cannot see rotations of white components: its score of PCA holds for ICA and random "
        "rotations. Top k: how much more, relatively, the k features most split on score than all others."
    )
    return PageTable("Scores", header, tuple(rows), note=note)


def _differences(found: Deconfounding) -> PageTable:
    rows = tuple(
        (f"{NAMES[d.condition]} − {NAMES[d.over]}", d.auroc.mean, d.auroc.se, d.auroc.low, d.auroc.high,
         "yes" if d.auroc.significant else "no")
        for d in found.differences
    )  # fmt: skip
    return PageTable("Differences, fold by fold", ("of AUROC", "mean", "s.e.", "95 % from", "to", "significant"), rows)


def _carrier_table(found: Carriers) -> PageTable:
    shares = (found.batch_within_label, found.label_within_batch)
    rows = tuple(
        (what, len(own), found.named(own, share), limit, chance)
        for what, own, share, limit, chance in zip(
            ("batch", "label"), (found.of_batch, found.of_signal), shares, found.threshold, found.chance, strict=True
        )
    )
    header = ("carries", "components", "largest shares", "above", "chance")
    return PageTable(f"Components of {NAMES[found.condition]}", header, rows)


def _design(found: Deconfounding) -> PageTable:
    """Rows of every label in every batch; of many labels only the most frequent ones."""
    design, counts = found.design, found.design.counts
    order = np.argsort(-counts.sum(axis=1), kind="stable")[:_MOST_COLUMNS]
    held = {name: str(k + 1) for k, names in enumerate(found.held_out) for name in names}
    rows = tuple(
        (name, held.get(name, "–"), *(int(counts[k, b]) for k in order)) for b, name in enumerate(design.batches)
    )
    hidden = len(design.levels) - len(order)
    note = f"{hidden} less frequent labels are not shown." if hidden else ""
    header = ("batch", "held out in fold", *(design.levels[k] for k in order))
    return PageTable("Rows of every label in every batch", header, rows, note=note)
