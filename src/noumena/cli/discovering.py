"""``noumena discover``: from a table to latents, with what can be trusted about each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from noumena.checks import InputError, count, number, require
from noumena.cli.folders import CHECKPOINT, claimed, write_json
from noumena.cli.options import Columns, Decimal, Drop, Force, Impute, Json, Missing, Seed, Sep, require_device, say
from noumena.cli.run_files import FACTS, LATENTS, remove_run_files

DISCOVERY = "discovery.json"
BY_TEXT = (".csv", ".tsv", ".gz", ".parquet")


def discover(
    data: Annotated[Path, typer.Argument(help="A table, rows are samples: .csv, .tsv, .parquet, .npy, .h5ad, .zarr …")],
    out: Annotated[Path, typer.Option(help="Folder for the run.")],
    latents: Annotated[str, typer.Option(help="Their number, a range such as 2..8, or auto.")] = "auto",
    sparsity: Annotated[str, typer.Option(help="Weight of the dependency sparsity, or auto.")] = "auto",
    models: Annotated[int, typer.Option(help="Seeds of the fit of all rows.")] = 3,
    steps: Annotated[int | None, typer.Option(help="Training steps; fewer of wide tables by default.")] = None,
    names: Annotated[str | None, typer.Option(help="Column with the names of rows, which is not learned from.")] = None,
    beside: Annotated[str | None, typer.Option(help="Label columns, told beside latents and not learned from.")] = None,
    key: Annotated[str | None, typer.Option(help="Which array of a file that holds several.")] = None,
    columns: Columns = None,
    drop: Drop = None,
    impute: Impute = None,
    drop_constant: Annotated[bool, typer.Option("--drop-constant", help="Leave out columns that never vary.")] = False,
    missing: Missing = None,
    sep: Sep = None,
    decimal: Decimal = None,
    seed: Seed = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Discover latents: how many there are, which are in use, found again on other rows, and pinned down.

    Example: noumena discover table.csv --out runs/first

    Example: noumena discover cells.csv --names barcode --beside cell_type,phase --latents 2..12 --out runs/cells
    """
    count(models, "--models")
    count(seed, "--seed", minimum=0)
    wanted, weight = _latents(latents), _weight(sparsity)
    require_device(device)
    labels = _listed(beside)
    aside = [*labels, *([] if names is None else [names])]
    texts = _texts(data, aside, sep)
    from noumena.data.columns import parse_columns
    from noumena.data.tables import read_prepared

    treated = {"columns": parse_columns(columns), "missing": parse_columns(missing), "impute": impute}
    treated |= {"drop": [*(parse_columns(drop) or ()), *aside], "drop_constant": drop_constant, "sep": sep}
    chosen: dict[str, Any] = {k: v for k, v in {**treated, "decimal": decimal}.items() if v is not None}
    table = read_prepared(data, key=key, **chosen)
    for sentence in table.done:
        say(sentence)
    kept = len(next(iter(texts.values()))) if texts else len(table.x)
    must = "--names and --beside need all rows; impute missing values without dropping rows."
    require(kept == len(table.x), must, f"{len(table.x)} of {kept} rows")
    with claimed(out, force=force, resume=resume, trains=True):
        import numpy as np
        import pandas as pd

        from noumena.discovery import beside as told_beside
        from noumena.discovery import discover as discovered
        from noumena.estimators import Training, save
        from noumena.report import write
        from noumena.report.discoveries import discovery_page

        own: dict[str, Any] = {} if steps is None else {"steps": steps}
        training = Training(device=device, checkpoint=out / CHECKPOINT, verbose=not as_json, **own)
        x = np.asarray(table.x)
        rows = x if table.names is None else pd.DataFrame(x, columns=pd.Index(table.names))
        settings = {"latents": wanted, "weight": weight, "n_models": models, "random_state": seed}
        try:
            found = discovered(rows, training=training, say=say, **settings)
        except KeyboardInterrupt:
            say(f"Stopped by hand; --resume continues from the last checkpoint in {out}")
            raise typer.Exit(1) from None
        remove_run_files(out)
        z = found.transform(rows)
        compared = [told_beside(z, [one.name for one in found.latents], name, texts[name]) for name in labels if z.size]
        if found.model is not None:
            save(found.model, out, force=True)
        facts = {"file": data.name, "rows": len(x), "columns": x.shape[1], "names": list(found.columns)}
        write_json(facts | {"done": list(table.done)}, out / FACTS)
        index = pd.Index(texts[names] if names else range(len(x)), name=names or "row")
        frame = pd.DataFrame(z, columns=pd.Index([one.name for one in found.latents]), index=index)
        frame.to_csv(out / LATENTS, float_format="%.9g")
        content = found.to_dict() | {"beside": [str(one) for one in compared]}
        write_json(content, out / DISCOVERY)
        page = write(discovery_page(found, compared, table.done), out / "report.html")
        for checkpoint in out.glob(f"{CHECKPOINT}*"):
            checkpoint.unlink()
    if as_json:
        print(json.dumps(content, indent=1, ensure_ascii=False))
        return
    print(found)
    if compared:
        print("\nBeside labels that no fit saw:", *(f"  {one}" for one in compared), sep="\n")
    print(f"\nThe run is in {out}, the page is {page}, the latents are {out / LATENTS}")


def _latents(text: str) -> Any:
    """A number, a range, or auto.

    >>> _latents("4"), _latents("2..5"), _latents("auto")
    (4, (2, 3, 4, 5), 'auto')
    """
    if text == "auto":
        return text
    first, dots, last = text.partition("..")
    must = "--latents must be auto, a number such as 4, or a range such as 2..8."
    require(first.isdecimal() and (last.isdecimal() if dots else True), must, text)
    if not dots:
        return count(int(first), "--latents")
    require(1 <= int(first) <= int(last), must, text)
    return tuple(range(int(first), int(last) + 1))


def _weight(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        value = float(text)
    except ValueError as error:
        raise InputError(f"--sparsity must be auto or a number such as 0.05. Got {text!r:.40}.") from error
    return number(value, "--sparsity", minimum=0)


def _listed(text: str | None) -> list[str]:
    return [] if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _texts(data: Path, columns: list[str], sep: str | None) -> dict[str, Any]:
    """Columns of names or labels as they stand in the file."""
    if not columns:
        return {}
    require(data.suffix.lower() in BY_TEXT, "--names and --beside need a text table or .parquet.", data.name)
    require(data.is_file(), "Data must be a file.", data.name)
    import pandas as pd

    try:
        if data.suffix.lower() == ".parquet":
            frame = pd.read_parquet(data, columns=columns)
        else:
            tabs = ".tsv" in data.name.lower() or sep == "tab"
            frame = pd.read_csv(
                data, sep="\t" if tabs else sep or ",", usecols=lambda name: name in columns, dtype=object
            )
    except (ValueError, KeyError, OSError) as error:
        raise InputError(f"--names and --beside must name columns of {data.name}. Got {', '.join(columns)}.") from error
    absent = [name for name in columns if name not in frame]
    require(not absent, f"--names and --beside must name columns of {data.name}.", ", ".join(absent))
    return {name: frame[name].to_numpy() for name in columns}
