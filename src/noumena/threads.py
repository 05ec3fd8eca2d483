"""Number of torch threads for a job.

On small machines a second OpenMP thread makes small tensors slower: every operation ends in a spinning barrier. One
thread is the rule; all threads are used only when a single step does more arithmetic than ``WORTH_A_SECOND_THREAD``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

WORTH_A_SECOND_THREAD = 5e9
"""Floating-point operations per step; see ``benchmarks/threads.py`` for the measurement."""


def wanted(work: float, available: int) -> int:
    """Threads for a step of ``work`` floating-point operations.

    >>> wanted(1e6, available=8), wanted(1e12, available=8)
    (1, 8)
    """
    return available if work >= WORTH_A_SECOND_THREAD else 1


@contextmanager
def for_work(work: float) -> Iterator[int]:
    """Run a block with the right number of torch threads, and restore the caller's setting after."""
    before = torch.get_num_threads()
    chosen = wanted(work, before)
    if chosen != before:
        torch.set_num_threads(chosen)
    try:
        yield chosen
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)
