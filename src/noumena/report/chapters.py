"""Chapters of a page: what a fitted model learned, and what its certificate says."""

from __future__ import annotations

import numpy as np

from noumena.estimators import Estimator
from noumena.guarantees import Certificate
from noumena.metrics import agreement
from noumena.report import plots
from noumena.report.page import Chapter, Figure, Table, Verdict


def model_chapter(model: Estimator, certificate: Certificate) -> Chapter:
    """One fitted model: its structure, its certificate, its training over seeds; no truth needed."""
    S = certificate.structure
    together = agreement(model.points_)
    figures = [structure_figure(certificate), graph_figure(certificate), curves_figure(model)]
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
        title=f"{type(model).__name__} with {model.n_latents} latents on {S.n_observed} observations",
        lead=f"{len(model.seeds_)} seeds trained as one program; the one with the lowest held-out objective is shown.",
        verdict=verdict_of(certificate),
        figures=tuple(figures),
        tables=(latents_table(certificate), hypotheses_table(certificate), seeds_table(model)),
        details=str(certificate),
    )


def verdict_of(certificate: Certificate) -> Verdict:
    """The certificate's conclusion as a callout."""
    S = certificate.structure
    reasons = {v.reason: None for v in (certificate.verdict(t) for t in range(S.n_latents))}
    rests = f"This rests on: {'; '.join(certificate.rests_on)}."
    return Verdict(certificate.answer, certificate.headline, (*(f"{_capital(r)}." for r in list(reasons)[:4]), rests))


def structure_figure(certificate: Certificate) -> Figure:
    """The learned structure alone."""
    S = certificate.structure
    strength = None if S.evidence is None else S.evidence.strength
    svg = plots.structure_heatmap(None, S.dense, observed=S.observed, latent=S.latent, strength=strength)
    return Figure(svg, "Learned structure: which observation depends on which latent, darker is stronger.")


def graph_figure(certificate: Certificate) -> Figure:
    """The structure as a bipartite graph, latents coloured by verdict."""
    S = certificate.structure
    answers = [certificate.verdict(t).answer for t in range(S.n_latents)]
    svg = plots.bipartite(S.dense, observed=S.observed, latent=S.latent, verdicts=answers)
    return Figure(svg, "The same as a graph. Hover a latent to see its observations; its colour is its verdict.")


def curves_figure(model: Estimator) -> Figure:
    """Held-out objective of all seeds over training."""
    values = np.array(model.history_.values["objective"])
    svg = plots.curves(np.array(model.history_.steps), values, best=model.best_, y_label="held-out objective")
    return Figure(svg, "Held-out objective of every seed over training; the bold one is used.")


def latents_table(certificate: Certificate) -> Table:
    """Per latent: verdict, ambiguity, the paper's closure."""
    S = certificate.structure
    rows = tuple(
        (
            S.latent[t],
            certificate.verdict(t).answer,
            str(certificate.ambiguity(t)),
            ", ".join(S.closure(t).names),
            len(S.observations_of(t)),
        )
        for t in range(S.n_latents)
    )
    return Table(
        "What is pinned down",
        ("latent", "verdict", "known up to", "closure", "observations"),
        rows,
        note="The closure is the paper's reading of the structure: the latents that act wherever this one acts. It "
        "says what may be entangled if the other model has the same structure, which is assumed there and not checked.",
    )


def hypotheses_table(certificate: Certificate) -> Table:
    """Every hypothesis with its answer and evidence."""
    rows = tuple((h.name, h.answer, h.evidence) for h in certificate.hypotheses)
    return Table("Hypotheses and evidence", ("hypothesis", "answer", "evidence"), rows)


def seeds_table(model: Estimator) -> Table:
    """Final held-out terms of every seed."""
    names = tuple(model.terms_)
    rows = tuple(
        (str(seed), float(model.objectives_[k]), *(float(model.terms_[n][k]) for n in names))
        for k, seed in enumerate(model.seeds_)
    )
    return Table("Seeds", ("seed", "objective", *names), rows, strong=frozenset({model.best_}))


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
