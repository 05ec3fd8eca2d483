"""Chapters of a page: what a fitted model learned, over its seeds."""

from __future__ import annotations

from noumena import charts
from noumena.estimators import Estimator
from noumena.guarantees import StructureCertificate
from noumena.metrics import ModelAgreement, agreement
from noumena.report.certificates import certificate_figures, certificate_tables, structure_figure, verdict_of
from noumena.report.explorer import explorer
from noumena.report.page import Chapter, PageFigure, PageTable
from noumena.report.seeds import ending, ran, seeds_told

MOST_DRAWN = 500
"""Observations of a learned structure that is drawn entry by entry."""
UNCERTIFIED = (
    "No certificate is read off a decoder that samples: every derivative costs a whole sampling. Nothing here says "
    "that a latent is identified; certify(model) takes its time."
)


def model_chapter(model: Estimator, certificate: StructureCertificate) -> Chapter:
    """One fitted model: its structure, its certificate, its training over seeds; no truth needed.

    A structure of too many observations to be drawn entry by entry is counted by its sets of latents.
    """
    drawn = (structure_figure(certificate),) if certificate.structure.n_observed <= MOST_DRAWN else ()
    together = _together(model)
    return Chapter(
        title=_title(model),
        lead=seeds_told(model),
        verdict=verdict_of(certificate),
        figures=(*drawn, *certificate_figures(certificate), *training_figures(model, together)),
        tables=(*certificate_tables(certificate), *training_tables(model, together)),
        details=str(certificate),
        explorer=explorer(certificate),
    )


def training_chapter(model: Estimator) -> Chapter:
    """One fitted model without a certificate: its training over seeds alone."""
    lead = f"{seeds_told(model)} {UNCERTIFIED}"
    together = _together(model)
    return Chapter(
        _title(model), lead, figures=training_figures(model, together), tables=training_tables(model, together)
    )


def _title(model: Estimator) -> str:
    observed = f"{model.n_features_in_} observations"
    return f"{type(model).__name__} with {model.points_.shape[-1]} latents on {observed}"


def _together(model: Estimator) -> ModelAgreement | None:
    """Whether the seeds that did not diverge find the same latents; nothing of fewer than two."""
    compared = ran(model)
    return agreement(model.points_[compared]) if len(compared) > 1 else None


def training_figures(model: Estimator, together: ModelAgreement | None) -> tuple[PageFigure, ...]:
    """Training over seeds and, of several, whether they find the same latents."""
    if together is None:
        return (curves_figure(model),)
    labels = _seeds(model)
    agreed = PageFigure(
        charts.correlations(together.matrix, rows=labels, columns=labels),
        f"Do the seeds find the same latents? MCC of every pair of models, {together.score:.3f} on average. "
        f"Agreement is consistency, not correctness.{' Seeds that diverged are left out.' * any(model.diverged_)}",
        title=f"Correlations of {len(labels)} rows with {len(labels)} columns",
    )
    return curves_figure(model), agreed


def training_tables(model: Estimator, together: ModelAgreement | None) -> tuple[PageTable, ...]:
    """Every seed and, of several, the stability matrix in numbers."""
    if together is None:
        return (seeds_table(model),)
    labels = _seeds(model)
    rows = tuple((label, *map(float, row)) for label, row in zip(labels, together.matrix, strict=True))
    return seeds_table(model), PageTable("Stability: MCC of every pair of seeds", ("", *labels), rows)


def _seeds(model: Estimator) -> list[str]:
    """Names of the seeds that are compared."""
    return [f"seed {model.seeds_[k]}" for k in ran(model)]


def curves_figure(model: Estimator) -> PageFigure:
    """Held-out objective of all seeds over training."""
    told = "Held-out objective of every seed over training; the bold one is used."
    return PageFigure(model.history_.plot(best=model.best_), told, "Training curves")


def seeds_table(model: Estimator) -> PageTable:
    """How the training of every seed ended, and its final held-out terms."""
    names = tuple(model.terms_)
    rows = tuple(
        (str(seed), ending(model, k), float(model.objectives_[k]), *(float(model.terms_[n][k]) for n in names))
        for k, seed in enumerate(model.seeds_)
    )
    header = ("seed", "training ended", "objective", *names)
    note = "Of a seed that diverged: objective and terms of the weights kept from before." * any(model.diverged_)
    return PageTable("Seeds", header, rows, note=note, strong=frozenset({model.best_}))
