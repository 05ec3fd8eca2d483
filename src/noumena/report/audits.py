"""Audits: a page about how near several runs' representations are, with matrices and Procrustes pictures."""

from __future__ import annotations

import numpy as np

from noumena.audits import Audit, Overlay
from noumena.audits.record import pair_mean, sentences
from noumena.audits.rule import NONE
from noumena.report import svg
from noumena.report.page import Callout, Cell, Chapter, Page, PageFigure, PageTable

MOST_PAIRS = 60
"""Directed pairs that are listed one by one."""


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
        verdict=Callout(
            "not stable" if audit.group == NONE else "stable, right or wrong", told[0], (*told[1:], *audit.warnings)
        ),
        figures=tuple(_overlay_figure(overlay, k) for k, overlay in enumerate(audit.overlays)),
        tables=(group_table(audit), *_axes_tables(audit), *_input_tables(audit)),
        details="\n".join(audit.notes),
    )


def _pairs_chapter(audit: Audit) -> Chapter:
    figures = [
        PageFigure(
            audit.plot(kind),
            f"Up to {kind}: error of the column's run mapped onto the row's, over the row's diameter; "
            f"{pair_mean(audit.errors[kind]):.3f} on average, {pair_mean(audit.chance[kind]):.3f} by chance. The "
            "darker, the nearer to chance.",
            title=f"Errors up to: {kind}",
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


def group_table(audit: Audit) -> PageTable:
    """Each group's error beside chance, over all pairs."""
    rows = tuple(
        (
            kind,
            pair_mean(audit.errors[kind]),
            float(np.nanmin(audit.errors[kind])),
            float(np.nanmax(audit.errors[kind])),
            pair_mean(audit.spread[kind]),
            pair_mean(audit.chance[kind]),
            float(np.nanmax(audit.largest[kind])),
            pair_mean(audit.r2[kind]),
        )
        for kind in audit.kinds
    )
    header = ("up to", "error", "best pair", "worst pair", "± over folds", "chance", "worst row", "R²")
    strong = frozenset(k for k, kind in enumerate(audit.kinds) if kind == audit.group)
    return PageTable("Errors over the diameter", header, rows, note="Mean over all directed pairs.", strong=strong)


def pair_table(audit: Audit) -> PageTable:
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
    return PageTable(
        "Pairs, the farthest first",
        ("run", "mapped onto", *audit.kinds, "ICA efficiency", "agree up to"),
        rows,
        note=note,
    )


def _axes_tables(audit: Audit) -> tuple[PageTable, ...]:
    axes = audit.axes
    if axes is None:
        return ()
    rows = tuple(zip(audit.names, axes.components, axes.gaussian, axes.restarts, strict=True))
    note = (
        f"{axes.found} of the {axes.components[0]} axes of {audit.names[0]} are found again in every run (fold by "
        f"fold: {', '.join(map(str, axes.counts))})."
    )
    return (PageTable("Can ICA be trusted?", ("run", "components", "Gaussian", "starts agree"), rows, note=note),)


def _input_tables(audit: Audit) -> tuple[PageTable, ...]:
    if audit.trivial is None:
        return ()
    between = audit.errors["affine"], audit.r2["affine"]
    rows = tuple(
        (
            name,
            float(audit.trivial.errors[k]),
            float(audit.trivial.r2[k]),
            pair_mean(between[0][k]),
            pair_mean(between[1][k]),
        )
        for k, name in enumerate(audit.names)
    )
    how = "ridge, chosen inside the fitted rows" if audit.trivial.ridge else "least squares"
    header = ("run", "error from the input", "R²", "error from other runs", "R² ")
    note = f"Affine maps; from the input's {audit.trivial.columns} columns by {how}."
    return (PageTable("What the input explains linearly", header, rows, note=note),)


# ---- figures -------------------------------------------------------------------------------------------------------


def _overlay_figure(overlay: Overlay, k: int) -> PageFigure:
    which = "nearest" if k == 0 else "farthest"
    caption = (
        f"The {which} pair: {overlay.source} moved onto {overlay.target} by the best rigid map with one scale, error "
        f"{overlay.error:.3f} of the diameter. {len(overlay.points)} measured rows in the target's two principal "
        "directions, a line from each row to its image."
    )
    title = f"{overlay.source} rigidly moved onto {overlay.target}"
    return PageFigure(overlay.plot(), caption, title)
