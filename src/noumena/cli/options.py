"""Options that several commands share, and how commands print."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from noumena.checks import InputError

Seed = Annotated[int, typer.Option(help="Random seed.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
Force = Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty.")]
Impute = Annotated[str | None, typer.Option(help="Missing values: mean, median, drop-rows, drop-columns.")]
Missing = Annotated[str | None, typer.Option(help='Codes for missing values, comma-separated: "?,-999".')]
Sep = Annotated[str | None, typer.Option(help="Column separator of text: one character, or tab.")]
Decimal = Annotated[str | None, typer.Option(help="Decimal point of text: a comma.")]
Columns = Annotated[str | None, typer.Option(help="Columns to take, by name or index, comma-separated.")]
Drop = Annotated[str | None, typer.Option(help="Columns to leave out, by name or index, comma-separated.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def require_device(device: str) -> None:
    """Refuse a device on which torch cannot hold a number here."""
    if device in ("cpu", "auto"):
        return
    import torch

    try:
        torch.zeros(1, device=device).item()
    except Exception as error:  # what torch raises depends on the device and on how it was built
        must = "--device must be cpu, cuda or auto, or another that torch can use on this machine."
        raise InputError(f"{must} Got {device!r:.40}.") from error


def say(sentence: str) -> None:
    """Print to standard error, unbuffered."""
    print(sentence, file=sys.stderr, flush=True)


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print rows of the same keys as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for name in rows[0]:
        table.add_column(name, justify="left" if name.endswith(" is") else "right")
    for row in rows:
        table.add_row(*(f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()))
    Console(width=None if sys.stdout.isatty() else 160).print(table)
