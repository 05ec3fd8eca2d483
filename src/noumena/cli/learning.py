"""``noumena demo``, ``fit`` and ``report``: learn latents, and describe what was learned."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noumena.checks import InputError, count, number, one_of, require
from noumena.cli.folders import CHECKPOINT, claim, claimed, free, write_json
from noumena.cli.options import (
    Columns,
    Decimal,
    Device,
    Drop,
    Force,
    Impute,
    Json,
    Missing,
    Seed,
    Sep,
    print_table,
    require_device,
    say,
)
from noumena.cli.run_files import FACTS, LATENTS, remove_run_files, write_latents

if TYPE_CHECKING:
    from noumena.estimators import Estimator
    from noumena.report.pictures import Shape

KINDS = {"vae": "VAE", "beta-vae": "BetaVAE", "autoencoder": "Autoencoder"}
DATA = (
    "A .npy, .npz, .csv, .tsv (or .gz of these two), .parquet, .h5, .hdf5, .zarr or .h5ad file, rows are samples; with "
    "--image a .npy or .npz file of bytes, (image, channel, height, width) or channels last, or a folder of pictures."
)
LEAST = 4
"""Rows that something can be learned from: some are held out, and a structure is read off at two of the others."""
IMAGES = {"batch_size": 64, "learning_rate": 1e-3}
"""Of convolutional networks, where nothing else is said; of tables the defaults of ``Training`` hold."""
POINTS = {False: 64, True: 8}
"""Rows of a batch at which dependencies are penalised, of a table and of images."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the table.")] = Path("demo-report"),
    seed: Seed = 0,
    steps: Annotated[int, typer.Option(help="Training steps.")] = 3000,
    device: Device = "cpu",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Two worlds, one bias, one page (about four minutes).

    Example: noumena demo --out demo-report
    """
    count(steps, "--steps")
    count(seed, "--seed", minimum=0)
    require_device(device)
    claim(out, force=force)
    from noumena.demo import tell
    from noumena.report import write
    from noumena.report.stories import demo_page

    stories = tell(seed, steps=steps, device=device, progress=say)
    page = write(demo_page(stories), out / "report.html")
    rows = [story.row for story in stories]
    (out / "table.json").write_text(json.dumps(rows, indent=1))
    if as_json:
        print(json.dumps(rows))
        return
    print_table(rows)
    for story in stories:
        print(f"\nWorld {story.setting.name}. {story.certificate.headline}")
        print(f"  {story.certificate.verdict(0).reason}.")
    print(f"\nThe page is {page}")


def fit(
    data: Annotated[Path, typer.Argument(help=DATA)],
    out: Annotated[Path, typer.Option(help="Folder for the run.")],
    latents: Annotated[int, typer.Option(help="Number of latents.")],
    estimator: Annotated[str, typer.Option(help="vae, beta-vae or autoencoder.")] = "vae",
    image: Annotated[bool, typer.Option("--image", help="Images: convolutional networks, pixels in [0, 1].")] = False,
    sparsity: Annotated[float, typer.Option(help="Weight of the dependency sparsity, such as 0.05.")] = 0.0,
    models: Annotated[int | None, typer.Option(help="Seeds trained side by side, such as 8; as in VAE(), 1.")] = None,
    steps: Annotated[int | None, typer.Option(help="Training steps; as in Training(), 3000.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows per step; 256, or 64 with --image.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak; 0.01, or 0.001 with --image.")] = None,
    clip: Annotated[float | None, typer.Option(help="Largest gradient norm.")] = None,
    key: Annotated[str | None, typer.Option(help="Which array of a file that holds several.")] = None,
    columns: Columns = None,
    drop: Drop = None,
    impute: Impute = None,
    drop_constant: Annotated[bool, typer.Option("--drop-constant", help="Leave out columns that never vary.")] = False,
    missing: Missing = None,
    header: Annotated[bool | None, typer.Option(help="Whether text begins with names; found out by default.")] = None,
    sep: Sep = None,
    decimal: Decimal = None,
    standardise: Annotated[bool, typer.Option(help="Columns get mean 0 and deviation 1 inside a model.")] = True,
    seed: Seed = 0,
    device: Device = "cpu",
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 30.0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn latents from a table or from images, and write a run with a page: certified, and of images with pictures.

    What is not said is as in VAE() and Training(). Certificates need a bias: --sparsity 0.05, and seeds to agree.

    Example: noumena fit data.csv --latents 5 --sparsity 0.05 --models 8 --out runs/first

    Example: noumena fit data.csv --drop id,batch --impute median --drop-constant --latents 5 --out runs/second

    Example: noumena fit pictures/ --image --latents 10 --out runs/seen
    """
    one_of(estimator, "--estimator", tuple(KINDS))
    if models is not None:
        count(models, "--models")
    count(latents, "--latents")
    count(seed, "--seed", minimum=0)
    number(sparsity, "--sparsity", minimum=0)
    free(out, force=force, resume=resume)
    treated = {"columns": columns, "drop": drop, "impute": impute, "drop_constant": drop_constant, "missing": missing,
               "header": header, "sep": sep, "decimal": decimal}  # fmt: skip
    given = _images(data, key, treated) if image else _table(data, key, treated, standardise=standardise)
    require_device(device)
    with claimed(out, force=force, resume=resume, trains=True):
        import noumena as nm

        said = {"steps": steps, "batch_size": batch_size, "learning_rate": learning_rate, "clip": clip}
        chosen: dict[str, Any] = IMAGES if image else {}
        chosen = chosen | {name: value for name, value in said.items() if value is not None}
        kept = {"checkpoint": out / CHECKPOINT, "checkpoint_seconds": checkpoint_seconds}
        training = nm.Training(device=device, verbose=not as_json and sys.stderr.isatty(), **kept, **chosen)
        kind, settings = _kind(estimator, sparsity, points=POINTS[image])
        settings |= given.settings | ({} if models is None else {"n_models": models})
        model = kind(latents, training=training, random_state=seed, **settings)
        _finish(model.fit(given.rows), out, given, as_json=as_json)


def report(
    run: Annotated[Path, typer.Argument(help="A folder written by noumena fit, or saved from Python.")],
    shape: Annotated[
        str | None,
        typer.Option(help="Channels, height and width of the pictures, 3,64,64; known of the library's own networks."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Rewrite the page of a saved run: certified again, and of images what every latent does to the picture.

    Example: noumena report runs/first

    Example: noumena report runs/seen --shape 3,64,64
    """
    given = None if shape is None else _shape(shape)
    from noumena.estimators import load
    from noumena.report.pictures import shape_of

    model = load(run)
    _describe(model, run, given or shape_of(model), as_json=as_json)


def _kind(estimator: str, sparsity: float, *, points: int) -> tuple[Any, dict[str, Any]]:
    """An estimator's class, and its penalty; an autoencoder with one keeps its latents at a fixed scale."""
    import noumena as nm

    if sparsity == 0:
        return getattr(nm, KINDS[estimator]), {}
    extra = {"normalise": True} if estimator == "autoencoder" else {}
    return getattr(nm, KINDS[estimator]), {"penalty": sparsity * nm.DependencySparsity(points=points), **extra}


@dataclass(frozen=True)
class _Given:
    """Rows for a fit, the parameters of a model of them, what a run keeps of them, and the shape of a picture."""

    rows: Any
    settings: dict[str, Any]
    facts: dict[str, Any]
    shape: Shape | None = None


def _table(data: Path, key: str | None, treated: dict[str, Any], *, standardise: bool) -> _Given:
    """A table as it was asked for; what was done to it is said at once, and kept."""
    folder = data.is_dir() and data.suffix.lower() != ".zarr"
    require(not folder, "Data must be a file, or a folder of pictures with --image.", f"the folder {data}")
    from noumena.data.columns import parse_columns
    from noumena.data.tables import read_prepared

    lists = {name: parse_columns(treated[name]) for name in ("columns", "drop", "missing")}
    chosen = {name: value for name, value in {**treated, **lists}.items() if value is not None}
    table = read_prepared(data, key=key, **chosen)
    require(len(table.x) >= LEAST, f"{data.name} must have at least {LEAST} rows to learn from.", len(table.x))
    for sentence in table.done:
        say(sentence)
    size = {"rows": table.x.shape[0], "columns": table.x.shape[1], "names": table.names and list(table.names)}
    facts = {"file": data.name, **size, "standardised": standardise, "done": list(table.done)}
    if table.names is None:
        return _Given(table.x, {"standardise": standardise}, facts)
    import pandas as pd

    return _Given(pd.DataFrame(table.x, columns=pd.Index(table.names)), {"standardise": standardise}, facts)


def _images(data: Path, key: str | None, treated: dict[str, Any]) -> _Given:
    """Images as flat rows, for convolutional networks."""
    usual = {"drop_constant": False}
    asked = [f"--{name.replace('_', '-')}" for name, value in treated.items() if value is not usual.get(name)]
    require(not asked, "Options on columns must come without --image.", ", ".join(asked))
    from noumena.cli.images import conv_nets, read_images, reading_notes

    rows, shape = read_images(data, key=key)
    settings = {**conv_nets(shape), "standardise": False}
    require(len(rows) >= LEAST, f"{data.name} must have at least {LEAST} pictures to learn from.", len(rows))
    done = reading_notes(data, len(rows), shape)
    for sentence in done:
        say(sentence)
    size = dict(zip(("channels", "height", "width"), shape, strict=True))
    return _Given(rows, settings, {"file": data.name, "pictures": len(rows), **size, "done": done}, shape)


def _shape(text: str) -> Shape:
    from noumena.report.pictures import checked_shape

    sizes = text.split(",")
    must = "--shape must be channels, height and width, such as 3,64,64."
    require(len(sizes) == 3 and all(s.strip().isdecimal() for s in sizes), must, text)
    return checked_shape([int(s) for s in sizes])


def _finish(model: Estimator, out: Path, given: _Given, *, as_json: bool) -> None:
    from noumena.estimators import save

    save(model, out, force=True)  # the folder is claimed already
    remove_run_files(out)
    write_json(given.facts, out / FACTS)
    write_latents(model, given.rows, out)
    _describe(model, out, given.shape, as_json=as_json)
    if model.interrupted_:
        say(f"The best models so far are in {out}; --resume continues from the last checkpoint")
        raise typer.Exit(1)
    for checkpoint in out.glob(f"{CHECKPOINT}*"):
        checkpoint.unlink()


def _describe(model: Estimator, out: Path, shape: Shape | None, *, as_json: bool) -> None:
    """Write what a run is told by, its certificate and its pictures, and the page; say what they say."""
    from noumena.report import Page, write

    chapters, text, words = _certified(model, out) if shape is None else _seen(model, out, shape)
    lead = "What was learned, and what about it can be trusted. Nothing here has seen true latents."
    lead = " ".join([lead, *_done(out / FACTS)])
    page = write(Page(title="Learned latents", lead=lead, chapters=chapters), out / "report.html")
    written = f", the latents are {out / LATENTS}" if (out / LATENTS).is_file() else ""
    print(text if as_json else f"{words}\n\nThe run is in {out}, the page is {page}{written}")


def _done(path: Path) -> list[str]:
    """What was done to the data of a run, in sentences; nothing where the run keeps no word of it."""
    if not path.is_file():
        return []
    try:
        done = json.loads(path.read_text())["done"]
        return [str(sentence) for sentence in done]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"The {FACTS} of a run must be complete JSON with a list 'done'. Got {path}.") from error


def _certified(model: Estimator, out: Path) -> tuple[tuple[Any, ...], str, str]:
    """The chapter of a model with its certificate, which is written down, and the certificate as JSON and in words."""
    from noumena.guarantees import certify
    from noumena.report.chapters import model_chapter
    from noumena.report.seeds import seeds_facts, seeds_told

    certificate = certify(model)
    text = write_json(certificate.to_dict() | {"training": seeds_facts(model)}, out / "certificate.json")
    return (model_chapter(model, certificate),), text, f"{seeds_told(model)}\n\n{certificate}"


def _seen(model: Estimator, out: Path, shape: Shape) -> tuple[tuple[Any, ...], str, str]:
    """The chapters of a model of pictures, which are written down too, and what its latents do and what is certified of
    them as JSON and in words."""
    from noumena.estimators import EncDiff
    from noumena.report.albums import album, album_chapter, save_album
    from noumena.report.chapters import UNCERTIFIED, training_chapter
    from noumena.report.seeds import seeds_facts, seeds_told

    found = album(model, shape)
    files = save_album(found, out)
    facts = {**found.to_dict(), "pictures": [file.name for file in files], "certificate": None}
    facts["training"] = seeds_facts(model)
    lines = [f"  {name}: {100 * moved:.1f} %" for name, moved in facts["moves"].items()]
    if isinstance(model, EncDiff):
        chapters, trusted = (training_chapter(model),), f"{seeds_told(model)}\n\n{UNCERTIFIED}"
    else:
        chapters, text, trusted = _certified(model, out)
        facts["certificate"] = {k: v for k, v in json.loads(text).items() if k not in ("observed", "support")}
    words = "\n".join(["How much each latent moves the picture, of full light:", *lines, "", trusted])
    return (album_chapter(found), *chapters), json.dumps(facts, indent=1, ensure_ascii=False), words
