"""Limits: how long a cell may run and how much memory its process may hold, and how much it did hold.

A thread watches. At a limit the cell is interrupted by ``LimitError``, which its row then carries. Where it does not
react within ``GRACE`` seconds, being deep inside a library, a worker process ends itself; the engine finds out, tries
the cell once more by itself, and records that its process died.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread, get_ident
from typing import Any

GRACE = 10.0
LOOK = 0.05
"""Seconds between two looks, at first; later every half second."""
WAKE = 0.02
"""Seconds after which a wait for the watching thread looks up."""
DIED = 77
"""Exit code of a process that ended itself."""
PAGE = os.sysconf("SC_PAGE_SIZE")


class LimitError(BaseException):
    """A cell was stopped: it ran too long or held too much memory.

    No ``Exception``: it may arrive in any line, and code that takes every exception for its own (a type checker's, a
    try of a stranger's class) would swallow it or call it something else.
    """


@dataclass
class Usage:
    """The most memory that the process held in the meantime."""

    peak_mb: float = 0.0


@dataclass(frozen=True)
class Limits:
    """At most so many seconds of wall time and so many megabytes of resident memory for a cell; none by default."""

    seconds: float | None = None
    megabytes: float | None = None

    def broken(self, elapsed: float, held: float) -> str | None:
        """What is exceeded, in words.

        >>> Limits(seconds=2).broken(3.0, 100), Limits(megabytes=500).broken(3.0, 100)
        ('The cell ran for more than 2 s.', None)
        """
        if self.seconds is not None and elapsed > self.seconds:
            return f"The cell ran for more than {self.seconds:g} s."
        if self.megabytes is not None and held > self.megabytes:
            return f"The process held more than {self.megabytes:g} MB."
        return None


@contextmanager
def watched(limits: Limits, *, may_exit: bool = False) -> Iterator[Usage]:
    """Run a block under limits; with ``may_exit`` the process ends where the block cannot be interrupted."""
    usage, over, lost, cell = Usage(resident_mb()), Event(), Event(), get_ident()
    watch = Thread(target=_watch, args=(limits, usage, over, lost, cell, may_exit), daemon=True)
    _forget_peak()
    whole, late, before = False, None, sys.unraisablehook
    sys.unraisablehook = _told_of(lost, before)
    try:
        watch.start()
        yield usage
        whole = True
    finally:
        while True:  # the one interruption may arrive in any of these steps too
            try:
                _end(watch, over)
                break
            except LimitError as error:
                late = error
        sys.unraisablehook = before
        usage.peak_mb = max(usage.peak_mb, _peak_mb())
        if whole and late is not None:
            raise late


def _end(watch: Thread, over: Event) -> None:
    """End the watching, and wait for it with open eyes: while one sleeps an interruption stays undelivered, and as long
    as it does, a traced thread (a debugger's, a coverage's) stands still in Python 3.11."""
    over.set()
    while watch.is_alive():
        watch.join(WAKE)


def _told_of(lost: Event, otherwise: Any) -> Any:
    """A hook for errors that nobody can be given: an interruption that arrived in a clean-up of Python's own, where it
    ends nothing, is lost."""

    def hook(unraisable: Any) -> None:
        """Take note of ours, and leave others to whoever took them before."""
        if isinstance(unraisable.exc_value, LimitError):
            lost.set()
        else:
            otherwise(unraisable)

    return hook


def _watch(limits: Limits, usage: Usage, over: Event, lost: Event, cell: int, may_exit: bool) -> None:
    start, told, wait, arrived, reason = time.monotonic(), None, LOOK, Event(), None
    while not over.wait(wait):
        elapsed, held = time.monotonic() - start, resident_mb()
        usage.peak_mb = max(usage.peak_mb, held)
        reason = reason or limits.broken(elapsed, held)
        if reason is not None and (told is None or lost.is_set()):
            lost.clear()
            arrived.clear()
            told = elapsed if told is None else told
            _interrupt(cell, reason, arrived)
        elif told is not None and may_exit and elapsed - told > GRACE and not arrived.is_set():
            os._exit(DIED)
        wait = LOOK if elapsed < 10 * LOOK else 10 * LOOK


def _interrupt(thread: int, why: str, arrived: Event) -> None:
    """Raise ``LimitError`` in another thread, at its next step of Python, and learn when it is there."""

    def begin(error: LimitError) -> None:
        """Made where it is raised."""
        arrived.set()
        LimitError.__init__(error, why)

    kind = type("LimitError", (LimitError,), {"__init__": begin})
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


def resident_mb() -> float:
    """Memory that this process holds now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6
    except OSError:  # not a Linux machine
        return 0.0


def _forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _peak_mb() -> float:
    """The kernel's own mark since it was last forgotten."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1.024e-3 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)
