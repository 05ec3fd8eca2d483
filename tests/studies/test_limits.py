"""Limits of a cell: time and memory end it, and nothing of that reaches what comes after."""

import gc
import mmap
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import pytest

from noumena.studies import limits
from noumena.studies.limits import DIED, LimitError, Limits, resident_mb, watched


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks so often that tests are short."""
    monkeypatch.setattr(limits, "LOOK", 0.002)


def busy(seconds: float) -> float:
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        pass
    return time.monotonic() - start


def fresh(size: int) -> mmap.mmap:
    """Pages from the kernel, each written to; a heap with freed memory would give that, and nothing would grow."""
    pages = mmap.mmap(-1, size)
    for start in range(0, size, 1_000_000):
        pages[start : start + 1_000_000] = b"1" * len(pages[start : start + 1_000_000])
    return pages


def hoard(size: int) -> int:
    with fresh(size) as held:
        busy(30)
        return len(held)


@pytest.fixture
def heap_with_room() -> Iterator[None]:
    """A heap with 300 MB given back to it and not to the kernel, as after many other tests."""
    gc.collect()
    small = [bytes(1000) for _ in range(300_000)]
    last = bytes(1000)
    del small
    yield
    assert len(last) == 1000  # held until here, since the end of the heap would be given back


def test_a_block_that_runs_too_long_is_interrupted(watchful):
    start = time.monotonic()
    with pytest.raises(LimitError, match=r"^The cell ran for more than 0\.05 s\.$"), watched(Limits(seconds=0.05)):
        busy(30)
    assert time.monotonic() - start < 20
    assert busy(0.05) >= 0.05, "the next block must not be interrupted"


def test_a_block_that_holds_too_much_is_interrupted(watchful, heap_with_room):
    with (
        pytest.raises(LimitError, match=r"^The process held more than \d+ MB\.$"),
        watched(Limits(megabytes=round(resident_mb()) + 60)) as usage,
    ):
        hoard(120_000_000)
    assert usage.peak_mb > resident_mb() + 50


def test_within_its_limits_a_block_runs_to_its_end(watchful):
    with watched(Limits(seconds=60, megabytes=resident_mb() + 1000)) as usage:
        busy(0.02)
    assert usage.peak_mb >= resident_mb() - 50


def test_the_peak_is_that_of_the_block_even_where_it_is_short(heap_with_room):
    with watched(Limits()) as before:
        pass
    with watched(Limits()) as usage:
        fresh(150_000_000).close()
    with watched(Limits()) as after:
        pass
    assert 130 < usage.peak_mb - before.peak_mb < 200
    assert after.peak_mb < usage.peak_mb - 100, "a peak of before must be forgotten"


def test_an_error_of_the_block_is_its_own(watchful):
    with pytest.raises(ValueError, match="mine"), watched(Limits(seconds=60)):
        raise ValueError("mine")


def test_an_interruption_never_arrives_after_the_block(watchful):
    """Blocks that end in the very moment in which they are to be stopped."""
    stopped = finished = 0
    for k in range(150):
        try:
            with watched(Limits(seconds=0.006)):
                busy(0.005 + 0.00005 * k)
            finished += 1
        except LimitError:
            stopped += 1
        busy(0.001)  # here it would arrive
    assert stopped + finished == 150
    assert stopped > 0
    assert finished > 0


class Lingering:
    """Its end takes a while, and what is raised there goes nowhere."""

    def __del__(self) -> None:
        busy(0.2)


def linger() -> None:
    Lingering()
    busy(5)


def test_an_interruption_that_arrives_where_it_is_lost_is_sent_again(watchful):
    hook = sys.unraisablehook
    with pytest.raises(LimitError), watched(Limits(seconds=0.05)):
        linger()
    assert sys.unraisablehook is hook


def test_errors_of_others_that_go_nowhere_are_told_as_before(watchful, monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(unraisable.exc_value))

    class Broken:
        def __del__(self) -> None:
            raise ValueError("mine")

    with watched(Limits(seconds=60)):
        Broken()
    assert [str(error) for error in told] == ["mine"]


def possessive() -> None:
    try:
        busy(5)
    except Exception as error:
        raise TypeError("taken for something else") from error


def test_code_that_takes_every_exception_for_its_own_does_not_take_the_interruption(watchful):
    with pytest.raises(LimitError), watched(Limits(seconds=0.05)):
        possessive()


TRACED = """
    import sys, threading, time
    from noumena.studies import limits
    limits.LOOK = 0.002

    def traced(frame, event, arg):
        return traced

    def busy(seconds):
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            pass

    threading.settrace(traced)
    sys.settrace(traced)
    stopped = 0
    for k in range(200):
        try:
            with limits.watched(limits.Limits(seconds=0.006)):
                busy(0.005 + 0.00003 * k)
        except limits.LimitError:
            stopped += 1
    sys.settrace(None)
    print(stopped > 0, sum(thread.is_alive() for thread in threading.enumerate()))
"""


def test_under_a_tracer_no_block_hangs_and_no_watching_thread_stays():
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(TRACED)], capture_output=True, text=True, timeout=100)
    assert (ended.stdout, ended.stderr) == ("True 1\n", "")


STUCK = """
    import sys, time
    from noumena.studies import limits
    limits.GRACE, limits.LOOK = 0.2, 0.01
    with limits.watched(limits.Limits(seconds=0.1), may_exit=sys.argv[1] == "guest"):
        try:
            time.sleep(float(sys.argv[2]))  # no step of Python
        finally:
            print("awake", flush=True)
"""


@pytest.mark.parametrize(("who", "sleep", "code", "said"), [("guest", 60, DIED, ""), ("driver", 1, 1, "awake\n")])
def test_a_process_that_cannot_be_interrupted_ends_itself_unless_it_is_the_one_that_asked(who, sleep, code, said):
    asked = [sys.executable, "-c", textwrap.dedent(STUCK), who, str(sleep)]
    ended = subprocess.run(asked, capture_output=True, text=True, timeout=100)
    assert (ended.returncode, ended.stdout) == (code, said)
    assert ("LimitError" in ended.stderr) == (who == "driver")


def test_limits_are_said_in_words():
    assert Limits().broken(1e9, 1e9) is None
    assert Limits(seconds=2, megabytes=5).broken(3, 6) == "The cell ran for more than 2 s."
    assert Limits(seconds=2, megabytes=5).broken(1, 6) == "The process held more than 5 MB."
    assert Limits(seconds=2, megabytes=5).broken(2, 5) is None
