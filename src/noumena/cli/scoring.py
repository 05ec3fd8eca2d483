"""``noumena score``: learned latents against true ones, by every score of the field."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from noumena.checks import InputError, count
from noumena.cli.folders import claimed, present
from noumena.cli.options import Force, Json, Seed, say


def score(
    true: Annotated[Path, typer.Argument(help="True latents: a .npy, .npz, .csv or .parquet file; may hold strings.")],
    learned: Annotated[Path, typer.Argument(help="Learned latents of the same rows: such a file of numbers.")],
    factors: Annotated[
        str | None, typer.Option(help="Columns of the true latents to take, by name or index, comma-separated.")
    ] = None,
    latents: Annotated[str | None, typer.Option(help="Columns of the learned latents to take.")] = None,
    discrete: Annotated[
        str | None,
        typer.Option(help="Discrete factors among those taken, by name or index, comma-separated; all; none."),
    ] = None,
    metrics: Annotated[str, typer.Option(help="Names of metrics, comma-separated, or all.")] = "all",
    slots: Annotated[str | None, typer.Option(help="Sizes of groups of true latents, comma-separated.")] = None,
    shuffles: Annotated[
        int | None, typer.Option(help="Row shuffles for the chance level; each metric's own number by default.")
    ] = None,
    subsamples: Annotated[int, typer.Option(help="Random half-samples of the rows for standard errors; 0: none.")] = 0,
    bootstrap: Annotated[int | None, typer.Option(hidden=True)] = None,
    ceiling: Annotated[bool, typer.Option("--ceiling/--no-ceiling", help="Also score the truth itself.")] = True,
    rows: Annotated[int, typer.Option(help="Subsample larger tables to so many rows; 0: all.")] = 10_000,
    key: Annotated[str | None, typer.Option(help="Which array of files that hold several.")] = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the numbers and their page.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Score learned latents against true ones; every number with chance, ceiling and what it supports.

    Example: noumena score z.npy z_hat.npy --discrete 0,3 --out scores/first
    """
    count(seed, "--seed", minimum=0)
    count(rows, "--rows", minimum=0)
    if bootstrap is not None:
        say("noumena: --bootstrap is now --subsamples; the old name will go with the next release.")
        subsamples = bootstrap
    from noumena.data.columns import parse_columns
    from noumena.data.tables import read_table, require_key

    require_key(key, true, learned)
    z = read_table(true, key=key, columns=parse_columns(factors), words=True, chooser="--factors")
    z_hat = read_table(learned, key=key, columns=parse_columns(latents), chooser="--latents")
    import pandas as pd

    from noumena.metrics import score as scored

    compared = [t.x if t.names is None else pd.DataFrame(t.x, columns=pd.Index(t.names)) for t in (z, z_hat)]
    wanted: Any = "all" if metrics == "all" else [name.strip() for name in metrics.split(",") if name.strip()]
    with claimed(out, force=force):
        card = scored(
            *compared, metrics=wanted, discrete=_listed(discrete, z.names or ()), slots=_sizes(slots),
            shuffles=shuffles, ceiling=ceiling, subsamples=subsamples, max_rows=rows or None, random_state=seed,
            progress=say if sys.stderr.isatty() and not as_json else None,
        )  # fmt: skip
    from noumena.report.scorecards import scorecard_page

    present(card, scorecard_page, out, "scores.json", as_json=as_json)


def _listed(discrete: str | None, names: tuple[str, ...]) -> Any:
    """None, True, False, or names and numbers of columns; a name goes before a number."""
    if discrete is None or discrete in ("all", "none"):
        return {"all": True, "none": False}.get(discrete or "")
    from noumena.data.columns import parse_columns

    return [
        int(name) if name not in names and str(name).isdecimal() else name for name in parse_columns(discrete) or ()
    ]


def _sizes(slots: str | None) -> tuple[int, ...] | None:
    try:
        return None if slots is None else tuple(int(size) for size in slots.split(","))
    except ValueError as error:
        raise InputError(f"--slots must be whole numbers with commas. Got {slots!r}.") from error
