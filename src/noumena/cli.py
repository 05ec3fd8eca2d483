"""The command ``noumena``. Exit codes: 0 done, 1 the work did not come to its end, 2 the input cannot be used."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
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


@app.command()
def certify(
    subject: Annotated[Path, typer.Argument(help="A run's folder, or a structure as a CSV of 0 and 1.")],
    independent: Annotated[
        bool, typer.Option("--independent", help="Demand independent latents of both models.")
    ] = False,
    query: Annotated[
        list[str] | None, typer.Option(help='Ask about a set of latents, "(x1 & x2) - x3"; may be repeated.')
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
    found = certified(chosen, threshold=threshold, independent=independent)
    answers = [found.query(text) for text in query or []]
    if out is not None:
        _claim(out, force=force, trains=False)
        from noumena.report import Page, write
        from noumena.report.certificates import certificate_chapter

        _write_json(found.to_dict(), out / "certificate.json")
        chapter = certificate_chapter(found, queries=dict(zip(query or [], answers, strict=True)))
        write(Page(title="What can be trusted", lead=f"{found.structure}", chapters=(chapter,)), out / "report.html")
    if as_json:
        asked = [{"query": text, **a.to_dict()} for text, a in zip(query or [], answers, strict=True)]
        print(json.dumps({"queries": asked} if query else found.to_dict(), indent=1, ensure_ascii=False))
    elif query:
        print("\n".join(f"{text}: {a}" for text, a in zip(query, answers, strict=True)))
    else:
        print(found)
    if out is not None and not as_json:
        print(f"\nThe certificate and its page are in {out}")


@app.command()
def deconfound(
    data: Annotated[Path, typer.Argument(help="A .csv, .parquet, .h5ad or .npz file with annotation columns.")],
    batch: Annotated[str, typer.Option(help="Column of the batches, e.g. plates.")],
    label: Annotated[str, typer.Option(help="Column of the labels, e.g. treatments.")],
    positive: Annotated[str | None, typer.Option(help="One label to ask about.")] = None,
    control: Annotated[str | None, typer.Option(help="The label against it; all others by default.")] = None,
    features: Annotated[str | None, typer.Option(help="Names or beginnings of names, with commas.")] = None,
    folds: Annotated[int, typer.Option(help="Parts of the batches, each held out once.")] = 5,
    rotations: Annotated[int, typer.Option(help="Random rotations, and repeats of the other conditions.")] = 5,
    components: Annotated[int | None, typer.Option(help="Principal components; by a rule by default.")] = None,
    remove_batch: Annotated[
        bool, typer.Option("--remove-batch", help="Also score without components that carry batch.")
    ] = False,
    centre: Annotated[bool, typer.Option("--centre", help="Move every batch to mean zero first.")] = False,
    leaf: Annotated[int, typer.Option(help="Least rows in a leaf of the trees.")] = 30,
    jobs: Annotated[int, typer.Option(help="Processes of one thread each.")] = 1,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the result and its page.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Score a label on held-out batches, from base features, PCA, ICA and random rotations.

    Example: noumena deconfound profiles.csv --batch plate --label treatment
    """
    count(seed, "--seed", minimum=0)
    from noumena.worlds.annotated import read_annotated

    chosen = None if features is None else [name.strip() for name in features.split(",") if name.strip()]
    table = read_annotated(data, (batch, label), features=chosen)
    import pandas as pd

    from noumena.deconfounding import deconfound as compared

    frame = pd.DataFrame(table.x, columns=pd.Index(table.names))
    with _claimed(out, force=force):
        found = compared(
            frame, table.annotations[batch], table.annotations[label], positive=positive, control=control,
            folds=folds, rotations=rotations, n_components=components, remove_batch=remove_batch, centre=centre,
            boosting={"min_data_in_leaf": count(leaf, "--leaf")}, random_state=seed, jobs=jobs,
        )  # fmt: skip
    content = {"data": list(table.notes), **found.to_dict()}
    if out is not None:
        from noumena.report import write
        from noumena.report.deconfounding import deconfounding_page

        _write_json(content, out / "deconfounding.json")
        write(deconfounding_page(found, data.name, table.notes), out / "report.html")
    if as_json:
        print(json.dumps(content, ensure_ascii=False, allow_nan=False))
        return
    print("\n".join([str(found), *(f"{note}." for note in table.notes)]))
    if out is not None:
        print(f"\nThe result and its page are in {out}")


@app.command()
def audit(
    representations: Annotated[
        list[Path], typer.Argument(help="Two or more .npy, .npz, .csv or .parquet files, representations of one batch.")
    ],
    groups: Annotated[
        Path | None, typer.Option(help="A .csv of one column or a .npy: whole groups are held out together.")
    ] = None,
    input: Annotated[Path | None, typer.Option(help="The rows that were represented, for what they explain.")] = None,
    in_sample: Annotated[bool, typer.Option("--in-sample", help="Measure on the fitted rows, as published.")] = False,
    folds: Annotated[int, typer.Option(help="Parts of the rows, each held out once.")] = 5,
    ica: Annotated[bool, typer.Option("--ica/--no-ica", help="Ask for ICA's axes too: most of the time.")] = True,
    key: Annotated[str | None, typer.Option(help="Which array of .npz files.")] = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the numbers and their page.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Say whether representations are stable from run to run, and up to what.

    Example: noumena audit first.npy second.npy --groups molecule.csv --out audits/first
    """
    count(seed, "--seed", minimum=0)
    require(len(representations) >= 2, "audit must be given two or more files.", len(representations))
    from noumena.audits import audit as audited
    from noumena.audits.labels import read_labels
    from noumena.worlds.tables import read_table

    stems = [path.stem for path in representations]
    names = stems if len(set(stems)) == len(stems) else [f"{path}" for path in representations]
    require(len(set(names)) == len(names), "audit must be given different files.", ", ".join(names))
    tables = {name: read_table(path, key=key).x for name, path in zip(names, representations, strict=True)}
    x = None if input is None else read_table(input, key=key).x
    labels = None if groups is None else read_labels(groups, rows=len(tables[names[0]]))
    progress = _say if sys.stderr.isatty() and not as_json else None
    with _claimed(out, force=force):
        found = audited(
            tables, input=x, groups=labels, held_out=not in_sample, folds=folds, ica=ica, seed=seed, progress=progress
        )
    if out is not None:
        from noumena.report import write
        from noumena.report.audits import audit_page

        _write_json(found.to_dict(), out / "audit.json")
        write(audit_page(found), out / "report.html")
    print(json.dumps(found.to_dict(), indent=1, ensure_ascii=False) if as_json else found)
    if out is not None and not as_json:
        print(f"\nThe numbers and their page are in {out}")


def _claim(out: Path, *, force: bool, resume: bool = False, trains: bool = True) -> None:
    """Make sure that ``out`` can be written to and that nothing in it is lost unasked; what trains starts over."""
    require(not out.exists() or out.is_dir(), "--out must name a folder.", f"the file {out}")
    occupied = out.is_dir() and any(out.iterdir())
    interrupted = trains and (out / CHECKPOINT).exists()
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
    if trains:
        (out / CHECKPOINT).unlink(missing_ok=True)


@contextmanager
def _claimed(out: Path | None, *, force: bool) -> Iterator[None]:
    """Claim the folder, if one is asked for, before the work; it goes again, still empty, if the input is refused."""
    if out is None:
        yield
        return
    _claim(out, force=force, trains=False)
    try:
        yield
    except InputError:
        if not any(out.iterdir()):
            out.rmdir()
        raise


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
    text = _write_json(certificate.to_dict(), out / "certificate.json")
    chapter = model_chapter(model, certificate)
    lead = "What was learned, and what about it can be trusted. Nothing here has seen true latents."
    page = write(Page(title="Learned latents", lead=lead, chapters=(chapter,)), out / "report.html")
    print(text if as_json else f"{certificate}\n\nThe run is in {out}, the page is {page}")


def _write_json(content: dict[str, Any], path: Path) -> str:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    path.with_suffix(".json.part").write_text(text)
    path.with_suffix(".json.part").replace(path)
    return text


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
