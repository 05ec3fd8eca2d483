"""The walk of a newcomer: how many files a call goes through, and how often it goes from one file to another.

    python benchmarks/walk.py

A file counts when one of its functions runs; a hop is a call from one file of the library to another, and the frame
between may be torch's or numpy's. A small world is sampled, fitted, transformed, certified, scored and put on a page.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import noumena as nm

HOME = str(Path(nm.__file__).parent)


class Walk:
    """Files touched and hops between them, while it is open."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.hops = 0
        self.stack: list[str | None] = []

    def note(self, frame: Any, event: str, _: Any) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            own = file if file.startswith(HOME) and not frame.f_code.co_name.startswith("<") else None
            last = next((f for f in reversed(self.stack) if f), None)
            self.stack.append(own)
            if own:
                self.files.add(own)
                self.hops += last is not None and last != own
        elif event == "return" and self.stack:
            self.stack.pop()

    def __enter__(self) -> Walk:
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def walked(name: str, call: Callable[[], Any]) -> Any:
    """Run a step and print how far it went."""
    with Walk() as walk:
        found = call()
    print(f"{name:12}{len(walk.files):5} files{walk.hops:7} hops")
    return found


def main() -> None:
    from noumena.report import Page, write
    from noumena.report.certificates import certificate_chapter

    torch.set_num_threads(1)
    S = nm.Structure([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])
    sample = walked("sample", lambda: nm.worlds.structured(S).sample(500))
    training = nm.Training(steps=5, refit=False)
    model = nm.VAE(2, penalty=0.05 * nm.DependencySparsity(), training=training, random_state=0)
    walked("fit", lambda: model.fit(sample.x))
    z_hat = walked("transform", lambda: model.transform(sample.x))
    certificate = walked("certify", lambda: nm.certify(model))
    walked("score", lambda: nm.score(sample.z, z_hat, metrics=("mcc",)))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        walked("page", lambda: write(Page(title="walk", lead="", chapters=(certificate_chapter(certificate),)), page))


if __name__ == "__main__":
    main()
