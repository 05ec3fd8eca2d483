"""Chapters of a page: what a fitted model learned, over its seeds."""

from __future__ import annotations

import numpy as np

from noumena.estimators import Estimator
from noumena.guarantees import Certificate
from noumena.metrics import agreement
from noumena.report import plots
from noumena.report.certificates import certificate_figures, certificate_tables, structure_figure, verdict_of
from noumena.report.page import Chapter, Figure, Table


def model_chapter(model: Estimator, certificate: Certificate) -> Chapter:
    """One fitted model: its structure, its certificate, its training over seeds; no truth needed."""
    S = certificate.structure
    together = agreement(model.points_)
    figures = [structure_figure(certificate), *certificate_figures(certificate), curves_figure(model)]
    if len(model.seeds_) > 1:
        labels = [f"seed {s}" for s in model.seeds_]
        figures.append(
            Figure(
                plots.correlation_matrix(together.matrix, rows=labels, columns=labels),
                f"Do the seeds find the same latents? MCC of every pair of models, {together.score:.3f} on average. "
                "Agreement is consistency, not correctness.",
            )
        )
    return Chapter(
        title=f"{type(model).__name__} with {S.n_latents} latents on {S.n_observed} observations",
        lead=f"{len(model.seeds_)} seeds trained as one program; the one with the lowest held-out objective is shown.",
        verdict=verdict_of(certificate),
        figures=tuple(figures),
        tables=(*certificate_tables(certificate), seeds_table(model)),
        details=str(certificate),
    )


def curves_figure(model: Estimator) -> Figure:
    """Held-out objective of all seeds over training."""
    values = np.array(model.history_.values["objective"])
    svg = plots.curves(np.array(model.history_.steps), values, best=model.best_, y_label="held-out objective")
    return Figure(svg, "Held-out objective of every seed over training; the bold one is used.")


def seeds_table(model: Estimator) -> Table:
    """Final held-out terms of every seed."""
    names = tuple(model.terms_)
    rows = tuple(
        (str(seed), float(model.objectives_[k]), *(float(model.terms_[n][k]) for n in names))
        for k, seed in enumerate(model.seeds_)
    )
    return Table("Seeds", ("seed", "objective", *names), rows, strong=frozenset({model.best_}))
