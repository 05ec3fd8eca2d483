"""Pages of a discovery: every latent with its answers, how their number was chosen, and the fit behind it."""

from __future__ import annotations

from collections.abc import Sequence

from noumena.discovery import Discovery, LabelBeside
from noumena.discovery.trust import SHOWN_COLUMNS
from noumena.report.chapters import model_chapter
from noumena.report.page import Callout, Chapter, Page, PageFigure, PageTable


def discovery_page(found: Discovery, labels: Sequence[LabelBeside] = (), notes: Sequence[str] = ()) -> Page:
    """What was found in a table, as a page."""
    chapters = [trust_chapter(found, labels)]
    if found.model is not None and found.certificate is not None:
        chapters.append(model_chapter(found.model, found.certificate))  # pyright: ignore[reportArgumentType]
    lead = "Latents of a table, and what about them can be trusted. Nothing here has seen true latents."
    return Page(title="Discovered latents", lead=" ".join([lead, *notes]), chapters=tuple(chapters))


def trust_chapter(found: Discovery, labels: Sequence[LabelBeside] = ()) -> Chapter:
    """The answers for every latent, and how many there are."""
    pinned = sum(one.is_pinned_down for one in found.latents)
    kind = "identified" if found.latents and pinned == len(found.latents) else "open" if found.latents else "not found"
    tables = (_trust_table(found),) if found.latents else ()
    if labels:
        tables = (*tables, _labels_table(labels))
    figures = ()
    if found.choice is not None and found.choice.settings:
        tables = (*tables, _choice_table(found))
        caption = f"{found.choice.sentence} Prediction is of columns of other rows from the other columns."
        figures = (PageFigure(found.choice.plot(), caption, title="Prediction over the number of latents"),)
    return Chapter(
        title=f"{len(found.latents)} latents of {len(found.columns)} columns and {found.rows} rows",
        lead=found.headline,
        verdict=Callout(kind, found.headline, found.what_next[:4]),
        figures=figures,
        tables=tables,
        details=str(found),
    )


def _trust_table(found: Discovery) -> PageTable:
    rows = []
    for one in found.latents:
        again = "no halves" if one.found_again is None else f"{_mark(one.is_found_again)} {one.found_again:.2f}"
        chance = "" if one.chance is None else f"{one.chance:.2f}"
        pinned = f"{_mark(one.is_pinned_down)} {one.answer}, {one.agreeing} of {one.refits}"
        moves = ", ".join(map(str, one.columns[:SHOWN_COLUMNS]))
        rows.append((one.name, f"{one.share:.0%}", again, chance, pinned, moves))
    return PageTable(
        "Every latent in use",
        ("latent", "in use", "found again", "chance", "pinned down", "moves"),
        tuple(rows),
        "In use: share of what the model explains that is lost without it. Found again: rank correlation with the "
        "latent that stands for it in refits on two disjoint halves, on rows that neither saw; chance is what random "
        "bases of the same latents reach. Pinned down: the certificate's answer and the refits that agree, given that "
        "the world is no denser than this model. Moves: columns by the share of their spread, with sign.",
    )


def _choice_table(found: Discovery) -> PageTable:
    assert found.choice is not None
    rows = tuple(
        (s.latents, f"{s.weight:g}", s.prediction, f"{s.behind:.3f} ± {s.standard_error:.3f}", s.reconstruction)
        for s in found.choice.settings
    )
    header = ("latents", "penalty", "prediction across columns", "behind the best", "reconstruction")
    return PageTable("How many latents, and how strong a penalty", header, rows)


def _labels_table(labels: Sequence[LabelBeside]) -> PageTable:
    rows = tuple((one.label, one.value or "–", one.latent, one.measure, one.score, one.chance) for one in labels)
    note = "Labels were not seen by any fit. Chance: what the best latent reaches 95 times of 100 with rows shuffled."
    return PageTable("Latents beside labels", ("label", "value", "latent", "measure", "score", "chance"), rows, note)


def _mark(holds: bool) -> str:
    return "✓" if holds else "✕"
