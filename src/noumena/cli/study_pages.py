"""Pages of studies: one for each, one index for all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from noumena.report.study_pages import Compared, index_page, study_page
from noumena.studies import claims as verdicts
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import replaced, values
from noumena.studies.study import Study


def write_pages(studies: Sequence[Study], folder: str | Path) -> Path:
    """Write the page of every study and the index into a folder; return the index."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for study in studies:
        file = study.name.replace("/", "-") + ".html"
        replaced(folder / file, page(study))
        state = study.state()
        lines.append(
            {"name": study.name, "paper": study.paper, "title": study.title, "done": state.finished,
             "cells": state.cells, "counts": verdicts.counted(study.claims()), "page": file}
        )  # fmt: skip
    replaced(folder / "index.html", index_page(lines))
    return folder / "index.html"


def page(study: Study) -> str:
    """The page of one study."""
    claims = study.claims()
    lines = [verdicts.line(claim) for claim in claims]
    return study_page(
        study.path, study.title, study.caption, lines, study.figures(), study.compare(), facts(study), compared(claims)
    )  # fmt: skip


def compared(claims: Sequence[StudyClaim]) -> list[Compared]:
    """Ours and the published figures as numbers, of the claims that can be drawn: comparable, run, and finite.

    >>> lost = StudyClaim("Table 2", "MCC", None, (0.5,), 0.02)
    >>> compared([StudyClaim("Table 1", "MCC", 0.8, (0.9, 0.92), 0.02), lost])
    [Compared(metric='MCC', where='Table 1', verdict='better', ours=(0.91, 0.014...), published=(0.8, 0.0))]
    """
    found = []
    for claim in claims:
        if claim.verdict in (verdicts.NOT_COMPARABLE, verdicts.NOT_RUN) or claim.published is None:
            continue
        deviation = float(np.std(claim.ours, ddof=1)) if len(claim.ours) > 1 else 0.0
        ours, published = (float(np.mean(claim.ours)), deviation), (claim.published, claim.spread or 0.0)
        if np.isfinite((*ours, *published)).all():
            found.append(Compared(claim.metric, claim.where, claim.verdict, ours, published))
    return found


def facts(study: Study) -> dict[str, str]:
    """How the rows were computed, in words."""
    rows, state = study.rows(), study.state()
    seconds = values(rows, "cell seconds")
    named = {
        name: sorted({str(row[name]) for row in rows if row.get(name)}) for name in ("hardware", "versions", "code")
    }
    unknown = sum(row.get("code") is None for row in rows)
    return {
        "rows": f"{len(rows)} of {state.finished} cells; {state.cells} are asked for",
        "CPU time": f"{sum(seconds) / 60:.1f} minutes" if seconds else "not recorded",
        "peak memory": f"{np.max(peaks):.0f} MB" if (peaks := values(rows, "peak MB")) else "not recorded",
        "hardware": "; ".join(named["hardware"]) or "not recorded",
        "versions": "; ".join(named["versions"]) or "not recorded",
        "code": "; ".join(named["code"]) + (f"; not recorded for {unknown} rows" if unknown else ""),
    }
