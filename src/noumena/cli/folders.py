"""Output folders, claimed before the work so that nothing is overwritten or lost unasked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from noumena.checks import InputError, require

CHECKPOINT = "checkpoint.safetensors"


def free(out: Path, *, force: bool, resume: bool = False, trains: bool = True) -> None:
    """Refuse a folder that is not empty, unless forced or resumed."""
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


def claim(out: Path, *, force: bool, resume: bool = False, trains: bool = True) -> None:
    """Create ``out``, or refuse it if it is not writable or not empty; old checkpoints are removed."""
    free(out, force=force, resume=resume, trains=trains)
    if resume:
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"--out must be a folder that can be written to. Got {out} ({error.strerror}).") from error
    if trains:
        for checkpoint in out.glob(f"{CHECKPOINT}*"):
            checkpoint.unlink()


@contextmanager
def claimed(out: Path | None, *, force: bool, resume: bool = False, trains: bool = False) -> Iterator[None]:
    """Claim the folder, if one is asked for, before the work, and remove it again if the input is refused."""
    if out is None:
        yield
        return
    claim(out, force=force, resume=resume, trains=trains)
    try:
        yield
    except InputError:
        for checkpoint in out.glob(f"{CHECKPOINT}*") if trains and not resume else ():
            checkpoint.unlink()
        if not any(out.iterdir()):
            out.rmdir()
        raise


def write_json(content: dict[str, Any], path: Path) -> str:
    """Under a temporary name, then renamed; returns the text."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    path.with_suffix(".json.part").write_text(text)
    path.with_suffix(".json.part").replace(path)
    return text


def present(result: Any, page: Callable[[Any], Any], out: Path | None, name: str, *, as_json: bool) -> None:
    """Print a result as text or as JSON, and write its numbers and its page where a folder was asked for."""
    if out is not None:
        from noumena.report import write

        write_json(result.to_dict(), out / name)
        write(page(result), out / "report.html")
    print(json.dumps(result.to_dict(), indent=1, ensure_ascii=False) if as_json else result)
    if out is not None and not as_json:
        print(f"\nThe numbers and their page are in {out}")
