"""Deconfounding: the page of scores on held-out batches, of the components behind them, and of the design."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noumena.deconfounding.carriers import Carriers
from noumena.deconfounding.result import NAMES, Deconfounding, Estimate
from noumena.report import svg
from noumena.report.page import Cell, Chapter, Figure, Page, Table
from noumena.report.svg import Grid, Scale, element, text

_WIDE, _TALL, _MOST_COLUMNS = 520, 34, 10


def deconfounding_page(found: Deconfounding, name: str, data: Sequence[str] = ()) -> Page:
    """The whole page of one data set."""
    drawn = [Figure(strip(c), _told(c)) for c in found.carriers]
    carried = Chapter(
        title="What the components carry",
        lead="Components found without labels on all rows; labels and batches are only laid beside them.",
        figures=tuple(drawn),
        tables=tuple(_carrier_table(c) for c in found.carriers),
    )
    scored = Chapter(
        title="Scores on held-out batches",
        lead=found.headline,
        figures=(Figure(intervals([(s.condition, s.auroc, s.spread) for s in found.scores]), _CAPTION),),
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


def intervals(groups: Sequence[tuple[str, Estimate, float]]) -> str:
    """One line per condition: a dot at the mean, its interval, and two rings at one deviation over repeats.

    >>> intervals([("pca", Estimate(0.7, 0.02, 0.6, 0.8), 0.01)]).count('class="interval"')
    1
    """
    values = [0.5, *(v for _, found, _ in groups for v in (found.mean, found.low, found.high) if np.isfinite(v))]
    x = svg.around(np.array(values), 92, 500)
    bottom = 30 + _TALL * len(groups)
    drawn = [text(12, 18, "AUROC", size=13, fill=svg.INK, font_weight="600")]
    for tick in x.ticks():
        drawn.append(element("line", x1=x(tick), x2=x(tick), y1=30, y2=bottom, stroke=svg.LINE))
        drawn.append(text(x(tick), bottom + 18, svg.tick_label(tick), text_anchor="middle"))
    dashed = {"stroke": svg.SOFT, "stroke_dasharray": "4 4"}
    drawn.append(element("line", class_="chance", x1=x(0.5), x2=x(0.5), y1=30, y2=bottom, **dashed))
    drawn += [_interval(x, 30 + _TALL * (k + 0.5), *group) for k, group in enumerate(groups)]
    return svg.document(_WIDE, bottom + 28, "AUROC of every condition on held-out batches", "".join(drawn))


def _interval(x: Scale, y: float, name: str, found: Estimate, spread: float) -> str:
    label = text(12, y + 4, name, fill=svg.INK)
    if not np.isfinite(found.mean):
        return label + text(x.start + 8, y + 4, "not scored")
    told = svg.hint(f"{name}: {found}")
    ends = {"x1": x(max(found.low, x.lo)), "x2": x(min(found.high, x.hi)), "y1": y, "y2": y}
    bar = element("line", told, class_="interval", **ends, stroke=svg.ACCENT, stroke_width=3, stroke_opacity=0.5)
    rings = "".join(
        element("circle", class_="spread", cx=x(found.mean + side * spread), cy=y, r=3, fill="none", stroke=svg.ACCENT)
        for side in (-1, 1)
        if spread > 0
    )
    dot = element("circle", told, class_="mean", cx=x(found.mean), cy=y, r=5, fill=svg.ACCENT)
    return label + bar + rings + dot + text(x(found.mean), y - 9, f"{found.mean:.3f}", size=11, text_anchor="middle")


def strip(found: Carriers) -> str:
    """Shares of batch and of label in every component, ordered by that of batch; marked where above chance.

    >>> one = Carriers("pca", np.ones(2), np.array([0.1, 0.9]), np.array([0.5, 0.0]), (0.0, 0.0), (0.2, 0.2))
    >>> strip(one).count('class="carries"')
    2
    """
    order = np.argsort(-found.batch_within_label, kind="stable")
    names = [str(k + 1) for k in order]
    rows = ("batch", "label")
    grid = Grid(rows, names, 64, 40, min(30.0, (_WIDE - 74) / len(names)), 30)
    cells = []
    for i, (share, limit) in enumerate(
        zip((found.batch_within_label, found.label_within_batch), found.threshold, strict=True)
    ):
        for j, k in enumerate(order):
            told = svg.hint(f"{found.condition} {k + 1}, {rows[i]}: {share[k]:.3f} (by chance below {limit:.3f})")
            look = {"fill": svg.HEAT, "fill_opacity": 0.06 + 0.94 * float(share[k])}
            cells.append(element("rect", told, **grid.cell(i, j), **look))
            if share[k] > limit:
                at = grid.center(i, j)
                cells.append(
                    element("circle", class_="carries", cx=at[0], cy=at[1], r=min(3, grid.wide / 4), fill=svg.INK)
                )
    title = f"What {found.condition} components carry"
    content = grid.column_labels() + grid.row_labels() + "".join(cells)
    return svg.document(_WIDE, grid.bottom + 12, title, content)


def _told(found: Carriers) -> str:
    return (
        f"Share of each {found.condition} component's variance that batch explains within labels, and that the label "
        f"explains within batches. A dot: more than any component reaches in 95 of 100 shuffles. {found}."
    )


def _scores(found: Deconfounding) -> Table:
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
    return Table("Scores", header, tuple(rows), note=note)


def _differences(found: Deconfounding) -> Table:
    rows = tuple(
        (f"{NAMES[d.condition]} − {NAMES[d.over]}", d.auroc.mean, d.auroc.se, d.auroc.low, d.auroc.high,
         "yes" if d.auroc.told else "no")
        for d in found.differences
    )  # fmt: skip
    return Table("Differences, fold by fold", ("of AUROC", "mean", "s.e.", "95 % from", "to", "told from zero"), rows)


def _carrier_table(found: Carriers) -> Table:
    shares = (found.batch_within_label, found.label_within_batch)
    rows = tuple(
        (what, len(own), found.named(own, share), limit, chance)
        for what, own, share, limit, chance in zip(
            ("batch", "label"), (found.of_batch, found.of_signal), shares, found.threshold, found.chance, strict=True
        )
    )
    header = ("carries", "components", "largest shares", "above", "chance")
    return Table(f"Components of {NAMES[found.condition]}", header, rows)


def _design(found: Deconfounding) -> Table:
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
    return Table("Rows of every label in every batch", header, rows, note=note)
