"""A certificate on a page: its verdict, the order of the latents, its hypotheses, and a competitor one can see."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from noumena import charts
from noumena.guarantees import Answer, Certificate, StructureCertificate
from noumena.guarantees.certificate import listed
from noumena.guarantees.diversity import clauses
from noumena.guarantees.seen import seen
from noumena.report import plots
from noumena.report.explorer import explorer
from noumena.report.hasse import hasse, upset
from noumena.report.page import Callout, Chapter, PageFigure, PageTable
from noumena.structure import Structure
from noumena.worlds.example import example

MOST_ROWS = 60
"""Latents and observations that are drawn or listed one by one."""
MOST_KINDS = 12
"""Sets of latents by which the observations of a wide structure are counted."""


def certificate_chapter(certificate: Certificate, *, queries: Mapping[str, Answer] | None = None) -> Chapter:
    """A certificate alone; one of a structure or of what has a decoder with its pictures."""
    if not isinstance(certificate, StructureCertificate):
        return Chapter(
            title=f"Certificate of a {certificate.subject}",
            lead=f"{len(certificate.latents)} latents.",
            verdict=verdict_of(certificate),
            tables=(verdicts_table(certificate), hypotheses_table(certificate), theorems_table(certificate)),
            details=str(certificate),
        )
    figures = certificate_figures(certificate)
    if fits(certificate):
        figures = (structure_figure(certificate), *figures)
    asked = (queries_table(queries),) if queries else ()
    return Chapter(
        title=f"Certificate of a {certificate.subject}",
        lead=f"{certificate.structure.n_observed} observations of {certificate.structure.n_latents} latents.",
        verdict=verdict_of(certificate),
        figures=figures,
        tables=(*asked, *certificate_tables(certificate)),
        details=str(certificate),
        explorer=explorer(certificate),
    )


def certificate_figures(certificate: StructureCertificate) -> tuple[PageFigure, ...]:
    """The structure as a graph, the order of its latents, its atoms, and a competitor where there is one."""
    graph = (graph_figure(certificate),) if fits(certificate) else ()
    rival = witness_figure(certificate)
    drawn = (order_figure(certificate), atoms_figure(certificate))
    return (*graph, *drawn, *(() if rival is None else (rival,)))


def certificate_tables(certificate: StructureCertificate) -> tuple[PageTable, ...]:
    """Verdicts, hypotheses, the conditions of Zheng et al. (2026), and what entries near the threshold would change."""
    flips = (flips_table(certificate),) if certificate.flips else ()
    return (
        latents_table(certificate),
        *(() if fits(certificate) else (kinds_table(certificate),)),
        hypotheses_table(certificate),
        theorems_table(certificate),
        paper_table(certificate),
        *flips,
    )


def fits(certificate: StructureCertificate) -> bool:
    """Whether a structure is small enough to be drawn entry by entry."""
    return max(certificate.structure.n_observed, certificate.structure.n_latents) <= MOST_ROWS


def shown(certificate: Certificate) -> list[int]:
    """The latents that are listed one by one: all, or of many the first that are not identified."""
    everyone = list(range(len(certificate.latents)))
    if len(everyone) <= MOST_ROWS:
        return everyone
    doubtful = [t for t in everyone if certificate.verdict(t).answer != "identified"]
    return (doubtful or everyone)[:MOST_ROWS]


def verdict_of(certificate: Certificate) -> Callout:
    """The certificate's conclusion as a callout."""
    reasons = {v.reason: None for v in (certificate.verdict(t) for t in shown(certificate))}
    rests = f"This rests on: {'; '.join(certificate.rests_on)}."
    untried = certificate.not_searched if isinstance(certificate, StructureCertificate) else ()
    left = (f"Not searched: {'; '.join(untried)}.",) if untried else ()
    why = (f"{_capital(r)}." for r in list(reasons)[:4])
    return Callout(certificate.answer, certificate.headline, (*why, rests, *left))


def structure_figure(certificate: StructureCertificate) -> PageFigure:
    """The learned structure alone."""
    S = certificate.structure
    strength = None if S.evidence is None else S.evidence.strength
    svg = plots.structure_heatmap(None, S.dense, observed=S.observed, latent=S.latent, strength=strength)
    return PageFigure(svg, "Learned structure: which observation depends on which latent, darker is stronger.")


def graph_figure(certificate: StructureCertificate) -> PageFigure:
    """The structure as a bipartite graph, latents coloured by verdict."""
    S = certificate.structure
    answers = [certificate.verdict(t).answer for t in range(S.n_latents)]
    svg = plots.bipartite(S.dense, observed=S.observed, latent=S.latent, verdicts=answers)
    return PageFigure(svg, "The same as a graph. Hover a latent to see its observations; its colour is its verdict.")


def order_figure(certificate: StructureCertificate) -> PageFigure:
    """The closure order as a Hasse diagram, coloured by verdict."""
    S = certificate.structure
    answers = [certificate.verdict(t).answer for t in range(S.n_latents)]
    return PageFigure(
        hasse(S, verdicts=answers),
        "The order of the latents: a line leads up to a latent that acts wherever the lower one acts. Even under "
        "Assumption 1 of Zheng et al. (2026) the lower one may carry the upper one, never the other way round.",
    )


def atoms_figure(certificate: StructureCertificate) -> PageFigure:
    """The atoms of the observations' latent sets as an UpSet plot."""
    return PageFigure(
        upset(certificate.structure),
        "The atoms: latents that act on exactly the same observations (dots) cannot be told apart by any set query.",
    )


def witness_figure(certificate: StructureCertificate) -> PageFigure | None:
    """Two latent spaces and one data cloud, for the first pair with a witness that verifies; ``None`` without one."""
    bare = certificate.model is None
    found = seen(example(certificate) if bare else certificate, shown(certificate))
    if found is None:
        return None
    on = " It is drawn on a world made with this structure." if bare else ""
    return PageFigure(
        charts.competitor(found.z, found.z_hat, found.x, names=found.names, x_names=found.x_names),
        f"A competitor one can see ({found.kind}): {found.sentence}. {_capital(found.check)}.{on}",
        title=f"Two models with different latents {', '.join(found.names)} and the same data",
    )


def latents_table(certificate: StructureCertificate) -> PageTable:
    """Per latent: verdict, ambiguity, the closure of Zheng et al. (2026)."""
    S = certificate.structure
    rows = tuple(
        (
            S.latent[t],
            certificate.verdict(t).answer,
            certificate.known_up_to(t),
            listed(S.closure(t).names),
            len(S.observations_of(t)),
        )
        for t in shown(certificate)
    )
    return PageTable(
        "What is pinned down",
        ("latent", "verdict", "known up to", "closure", "observations"),
        rows,
        note="The closure is how Zheng et al. (2026) read the structure: the latents that act wherever this one acts. "
        "It says what may be entangled if the other model has the same structure, which is assumed there and not "
        "checked.",
    )


def verdicts_table(certificate: Certificate) -> PageTable:
    """Per latent: verdict, reason, ambiguity."""
    rows = []
    for t in shown(certificate):
        verdict = certificate.verdict(t)
        rows.append((certificate.latents[t], verdict.answer, certificate.known_up_to(t), verdict.reason))
    return PageTable("What is pinned down", ("latent", "verdict", "known up to", "why"), tuple(rows))


def kinds_table(certificate: StructureCertificate) -> PageTable:
    """How many observations depend on which latents, the most frequent sets first, where there are too many to draw."""
    S = certificate.structure
    often = sorted(S.kinds, key=lambda rows: (-len(rows), rows))[:MOST_KINDS]
    rows = tuple((len(rows), _set(S, S.latents_of(rows[0])), _some(S, rows)) for rows in often)
    rest = S.n_observed - sum(len(rows) for rows in often)
    more = f" {len(S.kinds) - len(often)} further sets have {rest} observations together." if rest else ""
    note = f"Observations with the same latents count as one here: {S.n_observed} have {len(S.kinds)} sets.{more}"
    return PageTable("Which latents observations depend on", ("observations", "latents", "such as"), rows, note=note)


def _set(S: Structure, latents: list[int]) -> str:
    """Some latents by name, or all but a few."""
    without = [S.latent[t] for t in sorted(set(range(S.n_latents)) - set(latents))]
    if len(latents) > len(without):
        return "all" if not without else f"all but {listed(without)}"
    return listed([S.latent[t] for t in latents]) or "none"


def _some(S: Structure, rows: tuple[int, ...]) -> str:
    return listed([S.observed[i] for i in rows[:3]]) + ("" if len(rows) <= 3 else ", …")


def hypotheses_table(certificate: Certificate) -> PageTable:
    """Every hypothesis with its answer and evidence."""
    rows = tuple((h.name, h.answer, h.evidence) for h in certificate.hypotheses)
    return PageTable("Hypotheses and evidence", ("hypothesis", "answer", "evidence"), rows)


def theorems_table(certificate: Certificate) -> PageTable:
    """Every theorem read on the subject, with its answer and sentence."""
    rows = tuple((t.name, t.source, t.answer, t.sentence) for t in certificate.theorems)
    return PageTable("Theorems", ("theorem", "source", "weakest hypothesis", "reading"), rows)


def paper_table(certificate: StructureCertificate) -> PageTable:
    """The clauses of Zheng et al. (2026) beside what is certified."""
    S = certificate.structure
    met = clauses(S)
    rows = tuple(
        (
            S.latent[t],
            ", ".join(str(k + 1) for k in np.flatnonzero(met[t])) or "none",
            "yes" if met[t].any() else "no",
            "yes" if met[t, 2] else f"up to {listed(S.closure(t).names)}",
            certificate.verdict(t).answer,
        )
        for t in shown(certificate)
    )
    return PageTable(
        "The condition of Zheng et al. (2026) and what is certified",
        ("latent", "clauses met", "Theorem 3's condition", "proved under Assumption 1", "certified"),
        rows,
        note="Clauses 1 and 2 of sufficient diversity do not identify a latent even under their Assumption 1: a "
        "latent inside another's reach can be sheared by it. Clause 3 does. Certified needs no assumption about the "
        "other model but that it has no more dependencies.",
    )


def flips_table(certificate: StructureCertificate) -> PageTable:
    """What every entry near the threshold would change."""
    rows = tuple(
        (
            f"{f.observed}–{f.latent}",
            f.strength,
            "yes" if f.present else "no",
            f.before,
            "–" if f.after is None else f.after,
            "yes" if f.matters else "no",
        )
        for f in certificate.flips
    )
    return PageTable(
        "Entries near the threshold",
        ("entry", "strength", "read as a dependency", "gap now", "gap if flipped", "conclusion changes"),
        rows,
        note="Gaps of the support with generic entries.",
    )


def queries_table(queries: Mapping[str, Answer]) -> PageTable:
    """Every query with its answer."""
    rows = tuple((text, listed(a.latents.names) or "none", a.answer, a.reason, a.paper) for text, a in queries.items())
    return PageTable("Queries", ("query", "latents", "answer", "why", "the reading of Zheng et al. (2026)"), rows)


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
