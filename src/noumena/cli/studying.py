"""``noumena study``: your own or published tables: list, run, compare, merge, rows, pages, write."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noumena.checks import InputError, count, number, require
from noumena.cli.options import Force, Json, say

if TYPE_CHECKING:
    from noumena.studies.study import Progress, Study

study = typer.Typer(
    help="A study is a Python file: run anywhere, resumed after any failure, compared under a stated tolerance.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Results = Annotated[Path, typer.Option("--results", help="Folder of results.")]
One = Annotated[str, typer.Argument(metavar="FILE", help="A study: a Python file.")]
Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILE]...", help="Studies: Python files or folders of such; the folder papers by default."),
]
EVERY = 10.0
"""Seconds between two lines about a run that nobody watches."""


@study.command("list")
def list_studies(files: Files = None, results: Results = Path("results"), as_json: Json = False) -> None:
    """Every study with its cells, how many are finished, and its budget.

    Example: noumena study list papers
    """
    lines = []
    for one in _studies(files, results):
        state = one.state()
        lines.append(
            {
                "study": one.name, "cells": state.cells, "finished": state.finished, "failed": state.failed,
                "cannot run here": state.missing, "CPU minutes": getattr(one.module, "BUDGET", None),
                "title": one.title,
            }
        )  # fmt: skip
    _shown(lines, as_json)


@study.command("run")
def run_study(
    files: Annotated[list[str], typer.Argument(help="Studies: Python files or folders of such.")],
    cells: Annotated[str | None, typer.Option(help="Only cells with these values: d=3,seed=0.")] = None,
    tiny: Annotated[bool, typer.Option("--tiny", help="The miniature: a few cells of a few seconds.")] = False,
    engine: Annotated[str, typer.Option(help="local, dask or ray.")] = "local",
    workers: Annotated[int, typer.Option(help="Processes of one thread each.")] = 1,
    address: Annotated[str | None, typer.Option(help="Address of a Dask or Ray cluster.")] = None,
    devices: Annotated[str | None, typer.Option(help="Devices for workers, with commas: cuda:0,cuda:1.")] = None,
    seconds: Annotated[float | None, typer.Option(help="The longest that a cell may run.")] = None,
    megabytes: Annotated[float | None, typer.Option(help="The most memory that a cell's process may hold.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Also compute cells that are finished.")] = False,
    results: Results = Path("results"),
) -> None:
    """Compute the cells that are missing or failed, then compare; stop and run again at any time.

    Example: noumena study run my_study.py --workers 2
    """
    count(workers, "--workers")
    from noumena.studies.limits import Limits

    only = _chosen(cells)
    limits = Limits(_positive(seconds, "--seconds"), _positive(megabytes, "--megabytes"))
    settings: dict[str, Any] = {"workers": workers, "address": address, "limits": limits, "again": again}
    settings["devices"] = tuple(d.strip() for d in devices.split(",") if d.strip()) if devices else ()
    failed = 0
    for one in _studies(files, results):
        try:
            one.run(engine, tell=_teller(one), tiny=tiny, only=only, **settings)
        except KeyboardInterrupt:
            say(f"noumena: {one.name} was stopped; finished cells are kept, the same command goes on.")
            raise typer.Exit(1) from None
        state = one.state(tiny=tiny, only=only)
        failed += state.failed
        print(one.compare(tiny=tiny))
        print(_summary(one, state))
    if failed:
        raise typer.Exit(1)


@study.command("compare")
def compare_studies(
    files: Files = None,
    commit: Annotated[bool, typer.Option("--commit", help="Hold these verdicts from now on.")] = False,
    results: Results = Path("results"),
    as_json: Json = False,
) -> None:
    """Every published figure beside ours with a verdict; exit code 1 when a committed claim is broken.

    Example: noumena study compare papers/ddl/table3.py
    """
    from noumena.studies import claims as verdicts

    found, own, broken, lines = [], [], [], []
    for one in _kept(files, results):
        claims = one.claims()
        (found if one.published else own).extend(claims)
        broken += [f"{one.name}: {sentence}" for sentence in one.broken()]
        lines += [{"study": one.name, **verdicts.line(claim)} for claim in claims]
        if commit and claims:
            one.store.folder.mkdir(parents=True, exist_ok=True)
            verdicts.commit(claims, one.committed)
        if not as_json:
            print(f"{one.name}: {one.title}\n{verdicts.claims_table(claims)}\n")
    counts = verdicts.counted(found)
    if as_json:
        _shown(lines, as_json)
    else:
        print(f"{len(found)} published figures: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()) + ".")
        if own:
            held = verdicts.counted(own)[verdicts.REPRODUCED]
            print(f"{len(own)} expectations of our own, of which {held} hold.")
    for sentence in broken:
        say(f"noumena: broken: {sentence}")
    if broken and not commit:
        raise typer.Exit(1)


@study.command("merge")
def merge_study(
    file: One,
    folder: Annotated[Path, typer.Argument(help="The study's folder of results from elsewhere.")],
    results: Results = Path("results"),
) -> None:
    """Take finished cells of another machine.

    Example: noumena study merge my_study.py elsewhere/results/my_study
    """
    one = _one(_studies([file], results))
    if not (folder / "rows.csv").exists() and not (folder / "journal").exists():
        raise InputError(f"A folder of results must have rows.csv or a journal. Got {folder}.")
    print(f"{one.store.merge(folder)} cells taken; {one.state().finished} of {one.state().cells} are finished.")


@study.command("rows")
def tidy_rows(
    file: One,
    out: Annotated[Path | None, typer.Option(help="A .csv file; printed by default.")] = None,
    tiny: Annotated[bool, typer.Option("--tiny", help="The rows of the miniature instead.")] = False,
    force: Force = False,
    results: Results = Path("results"),
) -> None:
    """One line for every single value: study, cell, seed, metric, value, and how it was computed.

    Example: noumena study rows my_study.py --out values.csv
    """
    from noumena.studies.rows import as_csv, replaced
    from noumena.studies.study import TIDY

    one = _one(_kept([file], results))
    found = one.tidy(tiny=tiny)
    text = as_csv(found, TIDY)
    if out is None:
        sys.stdout.write(text)
    elif out.exists() and not force:
        raise InputError(f"--out must be a new file, or --force be given. Got {out}.")
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        replaced(out, text)
    if not found:
        which = f"of the miniature in {results}" if tiny else f"in {results}; --tiny lists those of the miniature"
        say(f"noumena: {one.name} has no finished cells {which}.")


@study.command("pages")
def study_pages(
    files: Files = None,
    out: Annotated[Path, typer.Option(help="Folder for the pages.")] = Path("study-pages"),
    force: Force = False,
    results: Results = Path("results"),
) -> None:
    """A page per study with figures and verdicts, and one index: the whole mission at a glance.

    Example: noumena study pages --out study-pages
    """
    from noumena.cli.folders import claimed
    from noumena.cli.study_pages import write_pages

    chosen = _kept(files, results)
    with claimed(out, force=force):
        print(f"Open {write_pages(chosen, out)}.")


@study.command("write")
def write_documents(
    documents: Annotated[list[Path], typer.Argument(help="Markdown pages that quote studies.")],
    studies: Annotated[
        list[str] | None, typer.Option("--studies", help="A file or a folder of studies; papers by default.")
    ] = None,
    results: Results = Path("results"),
) -> None:
    """Bring the tables that Markdown pages quote up to today's rows.

    Example: noumena study write README.md docs/studies.md
    """
    from noumena.studies.documents import refreshed
    from noumena.studies.rows import replaced

    chosen = _kept(studies, results)
    for document in documents:
        if not document.is_file():
            raise InputError(f"A document must be a file. Got {document}.")
        before = document.read_text(encoding="utf-8")
        after = refreshed(before, chosen)
        if after != before:
            replaced(document, after)
        print(f"{document}: {'changed' if after != before else 'as the rows say'}")


def _studies(files: list[str] | None, results: Path) -> list[Study]:
    from noumena.studies import Study, study_files

    return [Study(path, results) for path in study_files(*map(_by_its_file, files or ()))]


def _one(found: list[Study]) -> Study:
    require(len(found) == 1, "The command takes one study at a time.", f"{len(found)} of them")
    return found[0]


def _by_its_file(name: str) -> str:
    """A study of the folder ``papers`` by its old name, for one release."""
    file = Path("papers", f"{name}.py")
    if Path(name).exists() or not file.is_file():
        return name
    say(f"noumena: {name} is now {file}; the old name will go with the next release.")
    return str(file)


def _kept(files: list[str] | None, results: Path) -> list[Study]:
    """Studies whose rows are read, from a folder that is there."""
    _must_be_there(results)
    return _studies(files, results)


def _must_be_there(results: Path) -> None:
    """A folder whose name was mistyped would read as a study that was never run."""
    require(results.is_dir(), "--results must be a folder of results, as study run makes it.", results)


def _positive(value: float | None, name: str) -> float | None:
    return None if value is None else number(value, name, minimum=0.0)


def _chosen(cells: str | None) -> dict[str, str]:
    """``d=3,seed=0`` as names and values."""
    pairs = [part.split("=", 1) for part in (cells or "").split(",") if part.strip()]
    if any(len(pair) != 2 or not pair[0].strip() for pair in pairs):
        raise InputError(f"--cells must be names and values with commas, such as d=3,seed=0. Got {cells!r}.")
    return {name.strip(): value.strip() for name, value in pairs}


def _teller(one: Study) -> Any:
    """A sentence now and then: how many cells are done, and how long the rest will take."""
    last = [0.0]

    def tell(progress: Progress) -> None:
        """One line now and then, and the last."""
        now = time.monotonic()
        if now - last[0] < (1.0 if sys.stderr.isatty() else EVERY) and progress.done < progress.all:
            return
        last[0] = now
        left = "" if not progress.left else f", about {_duration(progress.left)} left"
        failed = f", {progress.failed} failed" if progress.failed else ""
        say(f"{one.name}: {progress.done} of {progress.all} cells{failed}{left}")

    return tell


def _duration(seconds: float) -> str:
    """In the largest fitting unit.

    >>> [_duration(s) for s in (12.3, 125, 7300)]
    ['12 s', '2 min', '2.0 h']
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _summary(one: Study, state: Any) -> str:
    parts = [f"{state.finished} of {state.cells} cells finished"]
    parts += [f"{state.failed} failed"] if state.failed else []
    parts += [f"{state.missing} cannot run here"] if state.missing else []
    return f"{one.name}: {', '.join(parts)}; rows in {one.store.path}."


def _shown(lines: list[dict[str, Any]], as_json: bool) -> None:
    import json

    from noumena.studies.rows import text_table

    if as_json:
        print(json.dumps(lines, ensure_ascii=False, indent=1))
    else:
        words = [["–" if value is None else str(value) for value in line.values()] for line in lines]
        print(text_table(list(lines[0]), words))
