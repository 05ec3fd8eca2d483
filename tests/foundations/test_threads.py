"""Small work gets one thread, large work all of them, and the caller's setting comes back."""

from collections.abc import Iterator

import pytest
import torch

from noumena import threads

SMALL, LARGE = threads.WORTH_A_SECOND_THREAD / 2, threads.WORTH_A_SECOND_THREAD * 2


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("available", [1, 2, 64])
def test_threads_are_handed_out_all_or_one(available: int) -> None:
    assert threads.wanted(SMALL, available) == 1
    assert threads.wanted(0.0, available) == 1
    assert threads.wanted(LARGE, available) == available
    assert threads.wanted(threads.WORTH_A_SECOND_THREAD, available) == available


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("work", "expected"), [(SMALL, 1), (LARGE, 2)])
def test_a_block_runs_with_the_threads_its_work_deserves(work: float, expected: int) -> None:
    with threads.for_work(work) as chosen:
        assert chosen == expected
        assert torch.get_num_threads() == expected
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_large_work_inside_small_work_does_not_take_threads_back() -> None:
    with threads.for_work(SMALL), threads.for_work(LARGE) as inner:
        assert inner == 1
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_the_callers_threads_come_back_after_an_error_and_after_meddling() -> None:
    with pytest.raises(KeyError), threads.for_work(SMALL):
        raise KeyError
    assert torch.get_num_threads() == 2
    with threads.for_work(LARGE):
        torch.set_num_threads(1)
    assert torch.get_num_threads() == 2
