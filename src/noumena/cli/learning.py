"""``noumena demo``, ``fit`` and ``report``: learn latents, and describe what was learned."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noumena.checks import count, number, one_of
from noumena.cli.folders import CHECKPOINT, claim, write_json
from noumena.cli.verbs import Device, Force, Json, Seed, print_table, say

if TYPE_CHECKING:
    from noumena.estimators import Estimator

KINDS = {"vae": "VAE", "beta-vae": "BetaVAE", "autoencoder": "Autoencoder"}


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
    claim(out, force=force, resume=resume)
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


def report(
    run: Annotated[Path, typer.Argument(help="A folder written by noumena fit.")],
    as_json: Json = False,
) -> None:
    """Certify a saved run again and rewrite its page.

    Example: noumena report runs/first
    """
    from noumena.estimators import load

    _describe(load(run), run, as_json=as_json)


def _finish(model: Estimator, out: Path, *, as_json: bool) -> None:
    from noumena.estimators import save

    save(model, out)
    _describe(model, out, as_json=as_json)
    if model.interrupted_:
        say(f"The best models so far are in {out}; --resume continues from the last checkpoint")
        raise typer.Exit(1)
    (out / CHECKPOINT).unlink(missing_ok=True)


def _describe(model: Estimator, out: Path, *, as_json: bool) -> None:
    """Write the certificate and the page of a run, and say what they say."""
    from noumena.guarantees import certify
    from noumena.report import Page, write
    from noumena.report.chapters import model_chapter

    certificate = certify(model)
    text = write_json(certificate.to_dict(), out / "certificate.json")
    chapter = model_chapter(model, certificate)
    lead = "What was learned, and what about it can be trusted. Nothing here has seen true latents."
    page = write(Page(title="Learned latents", lead=lead, chapters=(chapter,)), out / "report.html")
    print(text if as_json else f"{certificate}\n\nThe run is in {out}, the page is {page}")
