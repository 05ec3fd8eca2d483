"""A progress bar for long fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def bar(steps: int, start: int) -> Iterator[Callable[[int, np.ndarray], None]]:
    """Yield a function to call with the step reached and each model's best objective."""
    columns = (
        TextColumn("training"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} {task.description}"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=steps, completed=start)

        def advance(step: int, best: np.ndarray) -> None:
            progress.update(task, completed=step, description=f"objective {best.min():.4g}")

        yield advance
