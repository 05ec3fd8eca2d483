"""``noumena audit``: whether representations are stable from run to run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from noumena.checks import count, require
from noumena.cli.folders import claimed, present
from noumena.cli.options import Columns, Drop, Force, Json, Seed, say


def audit(
    representations: Annotated[
        list[Path], typer.Argument(help="Two or more .npy, .npz, .csv or .parquet files, representations of one batch.")
    ],
    groups: Annotated[
        Path | None, typer.Option(help="Labels, a .csv of one column or a .npy: groups are held out as a whole.")
    ] = None,
    input: Annotated[Path | None, typer.Option(help="Input of the representations, for a linear baseline.")] = None,
    in_sample: Annotated[bool, typer.Option("--in-sample", help="In-sample errors, as published.")] = False,
    folds: Annotated[int, typer.Option(help="Cross-validation folds.")] = 5,
    ica: Annotated[
        bool, typer.Option("--ica/--no-ica", help="Also compare ICA axes, which takes most of the time.")
    ] = True,
    key: Annotated[str | None, typer.Option(help="Which array of files that hold several.")] = None,
    columns: Columns = None,
    drop: Drop = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the numbers and their page.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Say whether representations are stable from run to run, and up to what.

    Example: noumena audit first.npy second.npy --groups molecule.csv --out audits/first

    Example: noumena audit first.csv second.csv --drop id
    """
    count(seed, "--seed", minimum=0)
    require(len(representations) >= 2, "audit must be given two or more files.", len(representations))
    from noumena.audits import audit as audited
    from noumena.audits.folds import read_labels
    from noumena.data.columns import parse_columns
    from noumena.data.tables import read_table, require_key

    require_key(key, *representations, *([] if input is None else [input]))
    wanted: Any = {
        "key": key,
        "columns": parse_columns(columns),
        "drop": parse_columns(drop) or (),
        "chooser": "--drop",
    }

    stems = [path.stem for path in representations]
    names = stems if len(set(stems)) == len(stems) else [f"{path}" for path in representations]
    require(len(set(names)) == len(names), "audit must be given different files.", ", ".join(names))
    tables = {name: read_table(path, **wanted).x for name, path in zip(names, representations, strict=True)}
    x = None if input is None else read_table(input, key=key).x
    labels = None if groups is None else read_labels(groups, rows=len(tables[names[0]]))
    progress = say if sys.stderr.isatty() and not as_json else None
    with claimed(out, force=force):
        result = audited(
            tables,
            input=x,
            groups=labels,
            held_out=not in_sample,
            folds=folds,
            ica=ica,
            random_state=seed,
            progress=progress,
        )
    from noumena.report.audits import audit_page

    present(result, audit_page, out, "audit.json", as_json=as_json)
