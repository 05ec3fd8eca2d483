"""Scorecards: a page of every score with its chance and ceiling, three matrices, and what each number supports."""

from __future__ import annotations

import numpy as np

from noumena import charts
from noumena.metrics.correlation import Correlation
from noumena.metrics.disentanglement import DCI
from noumena.metrics.information import InfoMEC
from noumena.metrics.record import MetricRecord
from noumena.metrics.scorecard import Scorecard
from noumena.report import svg
from noumena.report.page import Callout, Cell, Chapter, Page, PageFigure, PageTable

MOST = 30
"""Rows and columns of a matrix that are drawn."""


def scorecard_page(card: Scorecard) -> Page:
    """The whole page of one scorecard.

    >>> from noumena.metrics import score
    >>> z = np.random.default_rng(0).normal(size=(100, 2))
    >>> page = scorecard_page(score(z, z[:, ::-1], metrics=["mcc", "r2"]))
    >>> page.chapters[0].verdict.kind, [chapter.title for chapter in page.chapters][1]
    ('found', 'Which latent is which')
    """
    sizes = (
        f"{svg.counted(len(card.latents), 'learned latent')} against {svg.counted(len(card.factors), 'true factor')}"
    )
    return Page(
        title="How well were the true latents found?",
        lead=f"{sizes} on {card.rows:,} rows. {card.kinds}.",
        chapters=(_overview(card), *_matrices(card), _support(card)),
        footer="Scores are of these rows and this run. Choosing a model by them is tuning on the true latents.",
    )


def _overview(card: Scorecard) -> Chapter:
    plotted = [number for number in card.numbers if number.claim.best == 1]
    caption = (
        "Each score (dot) between what shuffled rows get (hollow ring: chance) and what the truth itself gets (bar: "
        "ceiling), with its 95 % interval where one was asked for."
    )
    title = f"{svg.counted(len(plotted), 'score')} with chance and ceiling"
    refused = tuple((name, sentence) for name, sentence in card.refused.items())
    table = PageTable("Scores that cannot be had from this input.", ("score", "why"), refused)
    return Chapter(
        title="What was found",
        lead="Scores differ in what they forgive; the least forgiving one that is reached says up to what.",
        verdict=Callout(
            "not found" if card.up_to is None else "found", card.reading, tuple(f"{n}." for n in card.notes)
        ),
        figures=(PageFigure(card.plot(), caption, title),) if plotted else (),
        tables=(_numbers(card), *([table] if refused else [])),
    )


def _numbers(card: Scorecard) -> PageTable:
    rows: list[tuple[Cell, ...]] = []
    for number in card.numbers:
        spread = None if number.uncertainty is None else number.uncertainty.error
        beside = ("–" if level is None else level for level in (spread, number.chance, number.ceiling))
        low, high = number.claim.range
        ends = f"{low:g} to {high:g}".replace("-", "−") if np.isfinite(low) else f"up to {high:g}"
        rows.append((number.claim.title, number.value, *beside, ends, number.claim.forgives.named(card.quantities)))
    header = ("score", "value", "±", "chance", "ceiling", "range", "forgives")
    note = "Chance: learned latents with shuffled rows. Ceiling: the true latents in place of the learned ones."
    return PageTable("Every score beside its level of chance and its ceiling.", header, tuple(rows), note=note)


def _support(card: Scorecard) -> Chapter:
    rows = tuple((number.claim.title, number.value, number.claim.supports) for number in card.numbers)
    return Chapter(
        title="What each number supports",
        lead="A high value supports the sentence beside it, and no more than that.",
        tables=(PageTable("Scores and the sentence each supports.", ("score", "value", "supports"), rows),),
    )


# ---- matrices --------------------------------------------------------------------------------------------


def _matrices(card: Scorecard) -> tuple[Chapter, ...]:
    """Matched correlations, importances and shares of information, as far as they were asked for."""
    order, drawn = np.arange(len(card.latents)), []
    for name in ("mcc", "mcc_spearman"):
        record = card.records.get(name)
        if isinstance(record, Correlation):
            order = _matched_first(record.permutation, len(card.latents)) if not drawn else order
            words = "Ranks correlate" if name == "mcc_spearman" else "Values correlate"
            drawn.append(_drawn(card, record, record.matrix, order, f"{words}, learned latents in the order matched"))
    chapters = [
        Chapter("Which latent is which", "Absolute correlations of factors with latents.", figures=tuple(drawn))
    ]
    dci, infomec = card.records.get("dci"), card.records.get("infomec")
    if isinstance(dci, DCI):
        share = dci.importance.T / np.maximum(dci.importance.sum(axis=0)[:, None], np.finfo(float).tiny)
        caption = "Share of each latent in what trees use to predict a factor"
        figure = _drawn(card, dci, share, order, caption)
        chapters.append(Chapter("Which latent predicts which factor", "Importance in trees.", figures=(figure,)))
    if isinstance(infomec, InfoMEC):
        caption = "Share of a factor's information that one latent alone has"
        figure = _drawn(card, infomec, infomec.matrix, order, caption)
        chapters.append(Chapter("Which latent knows which factor", "Mutual information.", figures=(figure,)))
    return tuple(chapter for chapter in chapters if chapter.figures)


def _matched_first(permutation: np.ndarray, d: int) -> np.ndarray:
    """Learned latents in the order of the true ones they are matched with, then the others."""
    matched = [int(i) for i in permutation if i >= 0]
    return np.array(matched + [i for i in range(d) if i not in set(matched)])


def _drawn(card: Scorecard, record: MetricRecord, matrix: np.ndarray, order: np.ndarray, caption: str) -> PageFigure:
    """A matrix (factor, latent) with the numbers it stands for and the sentences they support."""
    k, d = matrix.shape
    names = card.quantities if len(card.factors) != k else card.factors
    rows, columns = [svg.shorten(name) for name in names[:MOST]], [svg.shorten(card.latents[i]) for i in order[:MOST]]
    cut = "" if max(k, d) <= MOST else f" (the first {MOST} of {k} factors and {d} latents)"
    said = "; ".join(str(number) for number in record.numbers)
    supports = " ".join(number.claim.supports for number in record.numbers)
    return PageFigure(
        charts.correlations(matrix[:MOST, order[:MOST]].clip(0, 1), rows=rows, columns=columns),
        f"{caption}{cut}. {said}. {supports}",
        title=f"Correlations of {len(rows)} rows with {len(columns)} columns",
    )
