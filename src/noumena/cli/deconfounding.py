"""``noumena deconfound``: a label scored on held-out batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noumena.checks import count
from noumena.cli.folders import claimed, write_json
from noumena.cli.options import Decimal, Force, Impute, Json, Missing, Seed, Sep

if TYPE_CHECKING:
    from noumena.deconfounding import Deconfounding

DATA = "A .csv or .tsv (or .gz of these), .parquet, .h5ad or .npz file with annotation columns."


def deconfound(
    data: Annotated[Path, typer.Argument(help=DATA)],
    batch: Annotated[str, typer.Option(help="Column of the batches, e.g. plates.")],
    label: Annotated[str, typer.Option(help="Column of the labels, e.g. treatments.")],
    positive: Annotated[str | None, typer.Option(help="One label to ask about.")] = None,
    control: Annotated[str | None, typer.Option(help="The label against it; all others by default.")] = None,
    features: Annotated[str | None, typer.Option(help="Feature columns: names or prefixes, comma-separated.")] = None,
    impute: Impute = None,
    missing: Missing = None,
    sep: Sep = None,
    decimal: Decimal = None,
    folds: Annotated[int, typer.Option(help="Cross-validation folds of whole batches.")] = 5,
    rotations: Annotated[int, typer.Option(help="Random rotations, and repeats of the other conditions.")] = 5,
    components: Annotated[
        int | None, typer.Option(help="Number of principal components; 99 % of the variance by default.")
    ] = None,
    remove_batch: Annotated[
        bool, typer.Option("--remove-batch", help="Also score without components that carry batch.")
    ] = False,
    centre: Annotated[bool, typer.Option("--centre", help="Centre every batch first.")] = False,
    leaf: Annotated[int, typer.Option(help="min_data_in_leaf of LightGBM.")] = 30,
    jobs: Annotated[int, typer.Option(help="Processes of one thread each.")] = 1,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the result and its page.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Score a label on held-out batches, from base features, PCA, ICA and random rotations.

    Example: noumena deconfound profiles.csv --batch plate --label treatment

    Example: noumena deconfound profiles.csv.gz --batch plate --label treatment --missing "?,-999" --impute median
    """
    count(seed, "--seed", minimum=0)
    from noumena.data.annotated import read_annotated
    from noumena.data.columns import parse_columns, require_finite

    chosen: Any = {"features": parse_columns(features), "missing": parse_columns(missing) or ()}
    table = read_annotated(data, (batch, label), **chosen, impute=impute, sep=sep, decimal=decimal or ".")
    require_finite(table.x, table.names, data.name)
    import pandas as pd

    from noumena.deconfounding import deconfound as compared

    frame = pd.DataFrame(table.x, columns=pd.Index(table.names))
    with claimed(out, force=force):
        result = compared(
            frame, table.annotations[batch], table.annotations[label], positive=positive, control=control,
            folds=folds, rotations=rotations, n_components=components, remove_batch=remove_batch, centre=centre,
            boosting={"min_data_in_leaf": count(leaf, "--leaf")}, random_state=seed, jobs=jobs,
        )  # fmt: skip
    _write_and_print(result, table.notes, data.name, out, as_json=as_json)


def _write_and_print(
    result: Deconfounding, notes: tuple[str, ...], file: str, out: Path | None, *, as_json: bool
) -> None:
    """Write the result and its page, where there is a folder for them, and print it."""
    content = {"data": list(notes), **result.to_dict()}
    if out is not None:
        from noumena.report import write
        from noumena.report.deconfounding import deconfounding_page

        write_json(content, out / "deconfounding.json")
        write(deconfounding_page(result, file, notes), out / "report.html")
    if as_json:
        print(json.dumps(content, ensure_ascii=False, allow_nan=False))
        return
    print("\n".join([str(result), *(f"{note}." for note in notes)]))
    if out is not None:
        print(f"\nThe result and its page are in {out}")
