"""The same seed and purpose give the same stream, and any other gives another."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from noumena import seeds
from noumena.checks import InputError


def draws(*address: Any, n: int = 4) -> tuple[float, ...]:
    return tuple(torch.rand(n, generator=seeds.generator(*address)).tolist())


def numpy_draws(*address: Any, n: int = 4) -> tuple[float, ...]:
    return tuple(seeds.numpy_generator(*address).random(n).tolist())


@pytest.mark.parametrize("state", [0, 5, np.int64(5), 2**31 - 1])
def test_a_whole_number_is_its_own_seed(state: Any) -> None:
    assert seeds.seed_of(state) == state
    assert type(seeds.seed_of(state)) is int


@pytest.mark.parametrize("state", [-1, 1.0, True, "7", [3]])
def test_what_is_no_seed_is_refused(state: Any) -> None:
    with pytest.raises(InputError, match="random_state must be a whole number of at least 0"):
        seeds.seed_of(state)


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_a_numpy_generator_gives_a_seed_and_moves_on(make: Any) -> None:
    one, same = make(3), make(3)
    first, second = seeds.seed_of(one), seeds.seed_of(one)
    assert type(first) is int
    assert first != second
    assert (first, second) == (seeds.seed_of(same), seeds.seed_of(same))
    assert 0 <= first < seeds.LARGEST


def test_no_seed_means_a_new_one_each_time() -> None:
    drawn = {seeds.seed_of(None) for _ in range(20)}
    assert len(drawn) == 20
    assert all(0 <= seed < seeds.LARGEST for seed in drawn)


@pytest.mark.parametrize("stream", [draws, numpy_draws])
def test_a_stream_is_addressed_by_seed_and_purpose(stream: Any) -> None:
    addresses = [
        (seed, name, *more)
        for seed, name, more in product(range(5), ("noise", "shuffle", "law"), ((1,), (2,), ("a", 1), (1, "a")))
    ]
    streams = {address: stream(*address) for address in addresses}
    assert all(stream(*address) == first for address, first in streams.items())
    assert len(set(streams.values())) == len(addresses)


def test_a_stream_does_not_depend_on_what_was_drawn_before() -> None:
    expected = draws(1, "noise", 7)
    draws(1, "noise", 6, n=100)
    torch.rand(3)
    assert draws(1, "noise", 7) == expected


def test_neighbouring_streams_are_uncorrelated() -> None:
    streams = np.array([draws(0, "noise", epoch, n=2000) for epoch in range(1, 21)])
    correlations = np.corrcoef(streams)[np.triu_indices(20, 1)]
    assert np.abs(correlations).max() < 0.1


def test_a_block_with_a_global_seed_repeats_and_leaves_the_callers_stream_alone() -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    with seeds.global_torch(5, "init"):
        first = torch.nn.Linear(3, 2).weight.detach().clone()
    assert torch.equal(torch.rand(3), expected)
    with seeds.global_torch(5, "init"):
        again = torch.nn.Linear(3, 2).weight.detach().clone()
    with seeds.global_torch(5, "other"):
        other = torch.nn.Linear(3, 2).weight.detach().clone()
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_callers_stream_comes_back_after_an_error_too() -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    with pytest.raises(TypeError), seeds.global_torch(5, "init"):
        torch.nn.Linear(3, "two")
    assert torch.equal(torch.rand(3), expected)


def test_streams_of_plain_numbers_are_those_they_have_always_been() -> None:
    assert seeds.numpy_generator(3, "latents", 7).integers(10**6, size=3).tolist() == [676641, 563595, 986066]
    assert seeds.generator(3, "latents", 7).initial_seed() == 5205610942663196410


@pytest.mark.parametrize("stream", [draws, numpy_draws])
@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint32])
def test_one_number_is_one_stream_whatever_its_type(stream: Any, kind: Any) -> None:
    assert stream(kind(3), "noise", kind(7)) == stream(3, "noise", 7)
    assert stream(3, np.str_("noise"), 7) == stream(3, "noise", 7)


@pytest.mark.parametrize("stream", [draws, numpy_draws])
@pytest.mark.parametrize("wrong", [3.0, np.float64(3), -1, np.int64(-1), True, np.True_, None, torch.tensor(3), (3,)])
def test_a_stream_of_anything_but_a_whole_number_is_refused(stream: Any, wrong: Any) -> None:
    sentence = r"^seed must be a whole number of at least 0\. Got [^\n]*\.$"
    with pytest.raises(InputError, match=sentence):
        stream(wrong, "noise")
    with pytest.raises(InputError, match=sentence):
        stream(3, "noise", wrong)


def test_text_is_a_purpose_and_no_seed() -> None:
    with pytest.raises(InputError, match=r"^seed must be a whole number of at least 0\. Got '3'\.$"):
        seeds.numpy_generator("3")
