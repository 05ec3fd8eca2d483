"""``noumena certify``: what can be trusted about the latents of a run or a structure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from noumena.checks import require
from noumena.cli.folders import claim, write_json
from noumena.cli.options import Force, Json


def certify(
    subject: Annotated[Path, typer.Argument(help="A run's folder, or a structure as a CSV of 0 and 1.")],
    independent: Annotated[
        bool, typer.Option("--independent", help="Demand independent latents of both models.")
    ] = False,
    query: Annotated[
        list[str] | None, typer.Option(help='Ask about a set of latents, "(x1 & x2) - x3"; may be repeated.')
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Theorems to read it by: mechanisms, mixtures, degenerate or nearness.")
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Strength above which a run's entry is a dependency.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the certificate and its page.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Say what can be trusted about the latents of a run or a structure, and why.

    Example: noumena certify structure.csv --query "(x1 & x2) - x3"
    """
    from noumena.guarantees import certify as certified

    require(subject.exists(), "The subject must be a run's folder or a structure's file.", f"{subject}")
    chosen: Any = subject
    if subject.is_dir():
        from noumena.estimators import load

        chosen = load(subject)
    else:
        require(threshold is None, "--threshold is for a run; a structure is read as it is.", f"{subject}")
    found = certified(chosen, by=by, threshold=threshold, independent=independent)
    answers = [found.query(text) for text in query or []]
    if out is not None:
        claim(out, force=force, trains=False)
        from noumena.report import Page, write
        from noumena.report.certificates import certificate_chapter

        write_json(found.to_dict(), out / "certificate.json")
        chapter = certificate_chapter(found, queries=dict(zip(query or [], answers, strict=True)))
        lead = f"{getattr(found, 'structure', found.subject)}"
        write(Page(title="What can be trusted", lead=lead, chapters=(chapter,)), out / "report.html")
    if as_json:
        asked = [{"query": text, **a.to_dict()} for text, a in zip(query or [], answers, strict=True)]
        print(json.dumps({"queries": asked} if query else found.to_dict(), indent=1, ensure_ascii=False))
    elif query:
        print("\n".join(f"{text}: {a}" for text, a in zip(query, answers, strict=True)))
    else:
        print(found)
    if out is not None and not as_json:
        print(f"\nThe certificate and its page are in {out}")
