"""The command ``noumena``. Exit codes: 0 done, 1 the work did not come to its end, 2 the input cannot be used."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noumena.checks import DivergenceError, InputError, count, number, one_of, require

if TYPE_CHECKING:
    from noumena.estimators import Estimator

app = typer.Typer(
    name="noumena",
    help="Learn the hidden variables behind data, and know what about them can be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help is drawn in half the time
)

KINDS = {"vae": "VAE", "beta-vae": "BetaVAE", "autoencoder": "Autoencoder"}
CHECKPOINT = "checkpoint.safetensors"

Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
Force = Annotated[bool, typer.Option("--force", help="Write into a folder that already holds something.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the table.")] = Path("demo-report"),
    seed: Seed = 0,
    steps: Annotated[int, typer.Option(help="Training steps.")] = 3000,
    device: Device = "cpu",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Two worlds, one bias, one page (about two minutes).

    Example: noumena demo --out demo-report
    """
    count(steps, "--steps")
    count(seed, "--seed", minimum=0)
    _claim(out, force=force)
    from noumena.demo import tell
    from noumena.report import write
    from noumena.report.stories import demo_page

    stories = tell(seed, steps=steps, device=device, progress=_say)
    page = write(demo_page(stories), out / "report.html")
    rows = [story.row for story in stories]
    (out / "table.json").write_text(json.dumps(rows, indent=1))
    if as_json:
        print(json.dumps(rows))
        return
    _print_table(rows)
    for story in stories:
        print(f"\nWorld {story.setting.name}. {story.certificate.headline}")
        print(f"  {story.certificate.verdict(0).reason}.")
    print(f"\nThe page is {page}")


@app.command()
def fit(
    data: Annotated[Path, typer.Argument(help="A .npy, .npz, .csv or .parquet file, rows are samples.")],
    out: Annotated[Path, typer.Option(help="Folder for the run.")],
    latents: Annotated[int, typer.Option(help="Number of latents.")],
    estimator: Annotated[str, typer.Option(help="vae, beta-vae or autoencoder.")] = "vae",
    sparsity: Annotated[float, typer.Option(help="Weight of the dependency sparsity; 0 for none.")] = 0.05,
    models: Annotated[int, typer.Option(help="Seeds trained in one program.")] = 8,
    steps: Annotated[int, typer.Option(help="Training steps.")] = 3000,
    batch_size: Annotated[int, typer.Option(help="Rows per step.")] = 256,
    learning_rate: Annotated[float, typer.Option(help="Peak learning rate.")] = 1e-2,
    clip: Annotated[float | None, typer.Option(help="Largest gradient norm.")] = None,
    key: Annotated[str | None, typer.Option(help="Which array of an .npz file.")] = None,
    seed: Seed = 0,
    device: Device = "cpu",
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 30.0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn latents from a table, certify them, and write a run with a page.

    Example: noumena fit data.csv --latents 5 --out runs/first
    """
    one_of(estimator, "--estimator", tuple(KINDS))
    count(latents, "--latents")
    count(models, "--models")
    count(seed, "--seed", minimum=0)
    number(sparsity, "--sparsity", minimum=0)
    from noumena.worlds.tables import read_table

    table = read_table(data, key=key)
    _claim(out, force=force, resume=resume)
    import pandas as pd

    import noumena as nm

    training = nm.Training(
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        clip=clip,
        device=device,
        checkpoint=out / CHECKPOINT,
        checkpoint_seconds=checkpoint_seconds,
        verbose=not as_json and sys.stderr.isatty(),
    )
    penalty = sparsity * nm.DependencySparsity(points=64) if sparsity > 0 else None
    extra: dict[str, Any] = {"normalise": penalty is not None} if estimator == "autoencoder" else {}
    kind = getattr(nm, KINDS[estimator])
    model = kind(latents, penalty=penalty, n_models=models, training=training, random_state=seed, **extra)
    model.fit(table.x if table.names is None else pd.DataFrame(table.x, columns=pd.Index(table.names)))
    _finish(model, out, as_json=as_json)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A folder written by noumena fit.")],
    as_json: Json = False,
) -> None:
    """Certify a saved run again and rewrite its page.

    Example: noumena report runs/first
    """
    from noumena.estimators import load

    _describe(load(run), run, as_json=as_json)


def _claim(out: Path, *, force: bool, resume: bool = False) -> None:
    """Make sure that ``out`` can be written to and that nothing in it is lost unasked."""
    require(not out.exists() or out.is_dir(), "--out must name a folder.", f"the file {out}")
    occupied = out.is_dir() and any(out.iterdir())
    interrupted = (out / CHECKPOINT).exists()
    if resume:
        require(interrupted, "--resume needs the folder of an interrupted run.", f"{out} without a checkpoint")
        return
    hint = (
        "; use --resume to continue it, or --force to start over" if interrupted else "; use --force to write into it"
    )
    require(force or not occupied, "--out must be a new or empty folder.", f"{out}, which is not{hint}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"--out must be a folder that can be written to. Got {out} ({error.strerror}).") from error
    (out / CHECKPOINT).unlink(missing_ok=True)


def _finish(model: Estimator, out: Path, *, as_json: bool) -> None:
    from noumena.estimators import save

    save(model, out)
    _describe(model, out, as_json=as_json)
    if model.interrupted_:
        _say(f"The best models so far are in {out}; --resume continues from the last checkpoint")
        raise typer.Exit(1)
    (out / CHECKPOINT).unlink(missing_ok=True)


def _describe(model: Estimator, out: Path, *, as_json: bool) -> None:
    """Write the certificate and the page of a run, and say what they say."""
    from noumena.guarantees import certify
    from noumena.report import Page, write
    from noumena.report.chapters import model_chapter

    certificate = certify(model)
    text = json.dumps(certificate.to_dict(), indent=1, ensure_ascii=False)
    (out / "certificate.json.part").write_text(text)
    (out / "certificate.json.part").replace(out / "certificate.json")
    chapter = model_chapter(model, certificate)
    lead = "What was learned, and what about it can be trusted. Nothing here has seen true latents."
    page = write(Page(title="Learned latents", lead=lead, chapters=(chapter,)), out / "report.html")
    print(text if as_json else f"{certificate}\n\nThe run is in {out}, the page is {page}")


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for name in rows[0]:
        table.add_column(name, justify="left" if name.endswith(" is") else "right")
    for row in rows:
        table.add_row(*(f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def main() -> None:
    """Run the command; a user's mistake is one sentence on standard error and exit code 2."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.showwarning = lambda message, *_, **__: _say(f"noumena: {message}")
    try:
        app()
    except InputError as error:
        _say(f"noumena: {error}")
        sys.exit(2)
    except DivergenceError as error:
        _say(f"noumena: {error}")
        sys.exit(1)
