"""Children: tasks in processes that are killed, or that find the disk full, for ``faults.py``."""

import os
import random
import resource
import signal
import time
from typing import Any

Counts = tuple[int, int]
"""Tries, and how many survived."""


def in_a_child(task: Any) -> int:
    """Start a task in a child process, which ends with 0, or 3 for an error that was raised."""
    child = os.fork()
    if child:
        return child
    code = 3
    try:
        task()
        code = 0
    finally:
        os._exit(code)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed(task: Any, seconds: float) -> None:
    """Run a task for ever in a child process and kill it after so long."""

    def forever() -> None:
        while True:
            task()

    child = in_a_child(forever)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    ended(child)


def full_disk(task: Any, size: int) -> int:
    """Run a task in a child process whose files may not grow beyond a size, as on a disk that is full."""

    def run() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        task()

    return ended(in_a_child(run))


def cut(whole: bytes, rng: random.Random) -> bytes:
    """The beginning of a file, up to a place by chance."""
    return whole[: rng.randrange(len(whole))]
