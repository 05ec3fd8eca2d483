"""Audits: a page about how near several runs' representations are, with matrices and Procrustes pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from noumena.audits import Audit, Overlay
from noumena.audits.rule import NONE
from noumena.audits.words import mean, sentences
from noumena.checks import require
from noumena.report import svg
from noumena.report.heatmaps import named_matrix
from noumena.report.page import Cell, Chapter, Figure, Page, Table, Verdict
from noumena.report.svg import Grid, Scale, element, text

MOST_PAIRS = 60
"""Directed pairs that are listed one by one."""
SIDE = 320.0


def audit_page(audit: Audit) -> Page:
    """The whole page of an audit.

    >>> from noumena.audits import audit
    >>> z = np.random.default_rng(0).normal(size=(60, 2))
    >>> audit_page(audit([z, 2 * z], ica=False)).chapters[0].verdict.headline[:30]
    'Stable up to rigid motions wit'
    """
    rows, runs = audit.shapes[0][0], len(audit.names)
    how = f"held out over {audit.folds} folds" if audit.held_out else "in-sample"
    return Page(
        title="Are these representations stable?",
        lead=f"{runs} representations of the same {rows} rows: {svg.listed(audit.names)}. Errors are {how}.",
        chapters=(_verdict_chapter(audit), _pairs_chapter(audit)),
        footer="Consistency across runs is not correctness.",
    )


def _verdict_chapter(audit: Audit) -> Chapter:
    told = sentences(audit)
    return Chapter(
        title="Verdict",
        lead="What the runs share, up to which maps, beside what chance and the input give.",
        verdict=Verdict(
            "not stable" if audit.group == NONE else "stable, right or wrong", told[0], (*told[1:], *audit.warnings)
        ),
        figures=tuple(_overlay_figure(overlay, k) for k, overlay in enumerate(audit.overlays)),
        tables=(group_table(audit), *_axes_tables(audit), *_input_tables(audit)),
        details="\n".join(audit.notes),
    )


def _pairs_chapter(audit: Audit) -> Chapter:
    figures = [
        Figure(
            error_matrix(audit.errors[kind], audit.chance[kind], names=audit.names, title=f"Errors up to: {kind}"),
            f"Up to {kind}: error of the column's run mapped onto the row's, over the row's diameter; "
            f"{mean(audit.errors[kind]):.3f} on average, {mean(audit.chance[kind]):.3f} by chance. The darker, the "
            "nearer to chance.",
        )
        for kind in audit.kinds
    ]
    return Chapter(
        title="Every pair",
        lead="Both directions of every pair.",
        figures=tuple(figures),
        tables=(pair_table(audit),),
        details=str(audit),
    )


# ---- tables --------------------------------------------------------------------------------------------------------


def group_table(audit: Audit) -> Table:
    """Each group's error beside chance, over all pairs."""
    rows = tuple(
        (
            kind,
            mean(audit.errors[kind]),
            float(np.nanmin(audit.errors[kind])),
            float(np.nanmax(audit.errors[kind])),
            mean(audit.spread[kind]),
            mean(audit.chance[kind]),
            float(np.nanmax(audit.largest[kind])),
            mean(audit.r2[kind]),
        )
        for kind in audit.kinds
    )
    header = ("up to", "error", "best pair", "worst pair", "± over folds", "chance", "worst row", "R²")
    strong = frozenset(k for k, kind in enumerate(audit.kinds) if kind == audit.group)
    return Table("Errors over the diameter", header, rows, note="Mean over all directed pairs.", strong=strong)


def pair_table(audit: Audit) -> Table:
    """Errors and efficiency, pair by pair; of many pairs those with the largest rigid errors."""
    shown = sorted(audit.pairs, key=lambda pair: -pair.errors["rigid+scale"])[:MOST_PAIRS]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            pair.source,
            pair.target,
            *(pair.errors.get(kind, float("nan")) for kind in audit.kinds),
            pair.efficiency,
            pair.group,
        )
        for pair in shown
    )
    left = len(audit.pairs) - len(shown)
    note = "Efficiency: (permutation − ICA)/(permutation − rigid); a dash where a rigid map gains nothing."
    note += f" {left} nearer pairs are left out." if left else ""
    return Table(
        "Pairs, the farthest first",
        ("run", "mapped onto", *audit.kinds, "ICA efficiency", "agree up to"),
        rows,
        note=note,
    )


def _axes_tables(audit: Audit) -> tuple[Table, ...]:
    axes = audit.axes
    if axes is None:
        return ()
    rows = tuple(zip(audit.names, axes.components, axes.gaussian, axes.restarts, strict=True))
    note = (
        f"{axes.found} of the {axes.components[0]} axes of {audit.names[0]} are found again in every run (fold by "
        f"fold: {', '.join(map(str, axes.counts))})."
    )
    return (Table("Can ICA be trusted?", ("run", "components", "Gaussian", "starts agree"), rows, note=note),)


def _input_tables(audit: Audit) -> tuple[Table, ...]:
    if audit.trivial is None:
        return ()
    between = audit.errors["affine"], audit.r2["affine"]
    rows = tuple(
        (
            name,
            float(audit.trivial.errors[k]),
            float(audit.trivial.r2[k]),
            mean(between[0][k]),
            mean(between[1][k]),
        )
        for k, name in enumerate(audit.names)
    )
    how = "ridge, chosen inside the fitted rows" if audit.trivial.ridge else "least squares"
    header = ("run", "error from the input", "R²", "error from other runs", "R² ")
    note = f"Affine maps; from the input's {audit.trivial.columns} columns by {how}."
    return (Table("What the input explains linearly", header, rows, note=note),)


# ---- figures -------------------------------------------------------------------------------------------------------


def error_matrix(values: ArrayLike, chance: ArrayLike, *, names: Sequence[str], title: str) -> str:
    """A heat map of errors (target, source), shaded by their share of chance, with the numbers in the cells.

    >>> nan = float("nan")
    >>> figure = error_matrix([[nan, 0.031], [0.2, nan]], [[nan, 0.2], [0.2, nan]], names=["a", "b"], title="Errors")
    >>> ">.031</text>" in figure
    True
    """
    values, chance = named_matrix(values, "values", names, names), named_matrix(chance, "chance", names, names)
    side = min(52.0, max(10.0, 420 / len(names)))
    top = 24 if svg.labels_fit(names, side, 12) else svg.label_room(names)
    grid = Grid(names, names, svg.label_room(names), top + 4, side, min(side, 44))
    cells = "".join(_cell(grid, (i, j), float(values[i, j]), float(chance[i, j])) for i, j in np.ndindex(*values.shape))
    return svg.document(grid.right + 10, grid.bottom + 8, title, grid.row_labels() + grid.column_labels() + cells)


def _cell(grid: Grid, at: tuple[int, int], value: float, chance: float) -> str:
    if not np.isfinite(value):
        return element("rect", **grid.cell(*at), fill=svg.TILE)
    share = float(np.clip(value / chance, 0, 1)) if chance > 0 else 0.0
    told = svg.hint(f"{grid.columns[at[1]]} onto {grid.rows[at[0]]}: {value:.4f}, chance {chance:.4f}")
    shape = element("rect", told, **grid.cell(*at), fill=svg.HEAT, fill_opacity=0.06 + 0.94 * share)
    if grid.wide < 24:
        return shape
    x, y = grid.center(*at)
    size = min(13, 0.36 * grid.wide)
    number = f"{value:.3f}".removeprefix("0")
    return shape + text(x, y + 0.35 * size, number, size=size, fill=svg.INK, text_anchor="middle")


def procrustes(overlay: Overlay) -> str:
    """A target's rows as rings, the source's, rigidly moved onto them, as dots, with a line from row to row.

    >>> plane = np.array([[0.0, 0], [1, 0], [0, 1]])
    >>> procrustes(Overlay("a", "b", 0.01, plane, plane + 0.1)).count('class="gap"')
    1
    """
    both = np.vstack([overlay.points, overlay.moved])
    require(bool(np.isfinite(both).all()), "Points must be finite to be drawn.", "NaN or inf")
    x, y = _even(both)
    rings, dots = ((x(p[:, 0]), y(p[:, 1])) for p in (overlay.points, overlay.moved))
    lines = "".join(
        f"M{svg.number(a)} {svg.number(b)}L{svg.number(c)} {svg.number(d)}"
        for a, b, c, d in zip(*rings, *dots, strict=True)
    )
    drawn = [
        element("rect", x=28, y=12, width=SIDE, height=SIDE, rx=3, fill=svg.TILE, fill_opacity=0.6),
        element("path", class_="gap", d=lines, stroke=svg.SOFT, stroke_width=0.8, fill="none"),
        element("path", class_="target", d=svg.specks(*rings), stroke=svg.ACCENT, stroke_width=4.6, **_ROUND),
        element("path", class_="source", d=svg.specks(*dots), stroke=svg.RAMP[2], stroke_width=2.6, **_ROUND),
        text(28, SIDE + 28, "first principal direction →"),
        text(20, SIDE + 12, "second →", turn=-90),
    ]
    words, height = svg.legend(
        [
            (element("circle", r=2.5, fill=svg.ACCENT), svg.shorten(overlay.target, 24)),
            (element("circle", r=1.6, fill=svg.RAMP[2]), f"{svg.shorten(overlay.source, 24)}, moved"),
        ],
        28,
        SIDE + 38,
        SIDE,
    )
    title = f"{overlay.source} rigidly moved onto {overlay.target}"
    return svg.document(SIDE + 40, SIDE + 42 + height, title, "".join(drawn) + words)


_ROUND = {"stroke_linecap": "round", "fill": "none"}


def _even(points: np.ndarray) -> tuple[Scale, Scale]:
    """Scales of the same unit on both axes, that hold all points."""
    middle = (points.max(axis=0) + points.min(axis=0)) / 2
    reach = 0.54 * float(np.ptp(points, axis=0).max()) or 1.0
    x = Scale(middle[0] - reach, middle[0] + reach, 28, 28 + SIDE)
    return x, Scale(middle[1] - reach, middle[1] + reach, 12 + SIDE, 12)


def _overlay_figure(overlay: Overlay, k: int) -> Figure:
    which = "nearest" if k == 0 else "farthest"
    caption = (
        f"The {which} pair: {overlay.source} moved onto {overlay.target} by the best rigid map with one scale, error "
        f"{overlay.error:.3f} of the diameter. {len(overlay.points)} measured rows in the target's two principal "
        "directions, a line from each row to its image."
    )
    return Figure(procrustes(overlay), caption)
