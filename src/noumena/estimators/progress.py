"""Progress of long fits: a bar on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

EVERY = 10.0
"""Seconds between lines."""


@contextmanager
def bar(steps: int, start: int) -> Iterator[Callable[[int, np.ndarray], None]]:
    """Yield a function to call with the step reached and the best objectives of the models that are finite."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console, steps)
        return
    columns = (
        TextColumn("training"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} {task.description}"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("", total=steps, completed=start)

        def advance(step: int, objectives: np.ndarray) -> None:
            progress.update(task, completed=step, description=f"objective {objectives.min(initial=np.inf):.4g}")

        yield advance


class _Lines:
    """Lines for logs, no more often than every ten seconds."""

    def __init__(self, console: Console, steps: int):
        self.console, self.steps, self.begun = console, steps, time.monotonic()
        self.told = self.begun

    def __call__(self, step: int, objectives: np.ndarray) -> None:
        now = time.monotonic()
        if now - self.told < EVERY:
            return
        self.told = now
        reached = objectives.min(initial=np.inf)
        best = f", best objective {reached:.4g}" if np.isfinite(reached) else ""
        self.console.print(
            f"training: step {step} of {self.steps}, {now - self.begun:.0f} s, {len(objectives)} seeds{best}",
            soft_wrap=True,
            highlight=False,
        )
