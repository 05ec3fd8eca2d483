"""A record's chance, ceiling and intervals are what they say, and everything in it can be written down."""

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noumena.ambiguity import Ambiguity
from noumena.metrics.record import Interval, MetricRecord, ScoreClaim, ScoreNumber, evaluate, plain

AFFINE = Ambiguity("affine")


@dataclass(frozen=True, kw_only=True, eq=False)
class One(MetricRecord):
    """A record of one number."""

    score: float
    range: tuple[float, float] = (-1.0, 1.0)
    parts: np.ndarray | None = None

    @property
    def claims(self) -> tuple[ScoreClaim, ...]:
        return (ScoreClaim("score", "one", self.range, self.forgives, "Supports one."),)


class Pair(NamedTuple):
    """Two numbers."""

    mean: Any
    spread: Any


@dataclass(frozen=True, kw_only=True, eq=False)
class Two(MetricRecord):
    """A record of two numbers."""

    PARTS: ClassVar[Any] = Pair

    mean: float
    spread: float

    @property
    def claims(self) -> tuple[ScoreClaim, ...]:
        return (
            ScoreClaim("mean", "mean", (-1.0, 1.0), self.forgives, "Supports a mean."),
            ScoreClaim("spread", "spread", (0.0, 9.0), self.forgives, "Supports a spread.", best=0.0),
        )


def correlation(z: np.ndarray, z_hat: np.ndarray) -> One:
    return One(score=float(np.corrcoef(z[:, 0], z_hat[:, 0])[0, 1]), forgives=AFFINE)


def mean(z: np.ndarray, z_hat: np.ndarray) -> One:
    return One(score=float(z_hat.mean()), forgives=AFFINE, range=(-np.inf, np.inf))


def moments(z: np.ndarray, z_hat: np.ndarray) -> Two:
    return Two(mean=float((z * z_hat).mean()), spread=float((z * z_hat).std()), forgives=AFFINE)


def tables(n: int, seed: int = 0, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 1))
    return z, z + noise * rng.normal(size=(n, 1))


def test_nothing_is_measured_that_was_not_asked_for() -> None:
    calls = []

    def counted(z: np.ndarray, z_hat: np.ndarray) -> One:
        calls.append(len(z))
        return correlation(z, z_hat)

    found = evaluate(counted, *tables(40))
    assert (found.chance, found.ceiling, found.uncertainty) == (None, None, None)
    assert calls == [40]
    evaluate(counted, *tables(40), shuffles=2, ceiling=True, subsamples=10)
    assert calls == [40] * 5 + [20] * 10


def test_chance_is_the_mean_over_shuffled_rows_of_the_learned_latents() -> None:
    z, z_hat = tables(30, noise=0.0)

    def squared(z: np.ndarray, z_hat: np.ndarray) -> One:
        return One(score=correlation(z, z_hat).score ** 2, forgives=AFFINE)

    found = evaluate(squared, z, z_hat, shuffles=400)
    assert found.score == pytest.approx(1)
    assert found.chance == pytest.approx(1 / 29, abs=0.01)  # of a permuted column: 1 / (n − 1) exactly on average


def test_shuffling_moves_whole_rows() -> None:
    z, z_hat = tables(50)
    pairs = np.c_[z_hat, 2 * z_hat]

    def together(z: np.ndarray, z_hat: np.ndarray) -> One:
        return One(score=float(np.allclose(z_hat[:, 1], 2 * z_hat[:, 0])), forgives=AFFINE)

    assert evaluate(together, z, pairs, shuffles=3).chance == 1


def test_the_ceiling_is_the_value_for_the_truth() -> None:
    z, z_hat = tables(50)
    found = evaluate(correlation, z, z_hat, ceiling=True)
    assert found.ceiling == pytest.approx(1)
    assert found.score < 0.9


def test_the_standard_error_of_a_mean_is_the_textbook_one() -> None:
    z, z_hat = tables(200)
    error = evaluate(mean, z, z_hat, subsamples=2000).uncertainty.error
    assert error == pytest.approx(z_hat.std(ddof=1) / np.sqrt(200), rel=0.06)


@pytest.mark.parametrize(("measure", "n"), [(correlation, 150), (mean, 151)])
def test_the_standard_error_is_the_spread_over_fresh_samples(measure: Callable[..., One], n: int) -> None:
    fresh = np.std([measure(*tables(n, seed)).score for seed in range(600)], ddof=1)
    errors = [evaluate(measure, *tables(n, seed), subsamples=50).uncertainty.error for seed in range(20)]
    assert np.mean(errors) == pytest.approx(fresh, rel=0.12)


def test_nineteen_of_twenty_intervals_hold_the_value_of_many_rows() -> None:
    truth = 1 / np.sqrt(2)
    found = [evaluate(correlation, *tables(100, seed), subsamples=40).uncertainty for seed in range(200)]
    held = np.mean([interval.low <= truth <= interval.high for interval in found])
    assert 0.88 <= held <= 0.99


def test_intervals_are_centred_on_the_value_and_stay_in_the_range() -> None:
    z, z_hat = tables(100)
    found = evaluate(correlation, z, z_hat, subsamples=30)
    interval = found.uncertainty
    assert interval.draws == 30
    assert interval.high - found.score == pytest.approx(1.96 * interval.error)
    assert found.score - interval.low == pytest.approx(1.96 * interval.error)
    close = evaluate(correlation, *tables(12, noise=0.3), subsamples=30).uncertainty
    assert close.high == 1
    assert close.low < 1 - close.error


def test_halves_are_rows_of_both_tables_without_repeats() -> None:
    z = np.arange(21.0)[:, None]
    seen, scores = [], iter([0.0, *range(10)])

    def look(z: np.ndarray, z_hat: np.ndarray) -> One:
        np.testing.assert_array_equal(z, z_hat)
        assert len(np.unique(z)) == len(z)
        seen.append(tuple(z[:, 0]))
        return One(score=float(next(scores)), forgives=AFFINE)

    found = evaluate(look, z, z.copy(), subsamples=10)
    assert found.uncertainty.error == pytest.approx(np.sqrt(82.5 / 9))  # the spread of 0, …, 9
    assert len(set(seen[1:])) == 10
    assert {len(half) for half in seen[1:]} == {10}


def test_several_numbers_each_have_their_own_levels() -> None:
    z, z_hat = tables(300)
    found = evaluate(moments, z, z_hat, shuffles=50, ceiling=True, subsamples=40)
    assert found.value == Pair(found.mean, found.spread)
    assert isinstance(found.chance, Pair)
    assert found.chance.mean == pytest.approx(0, abs=0.1)
    assert found.ceiling == Pair(float((z * z).mean()), float((z * z).std()))
    assert found.uncertainty.mean.error == pytest.approx((z * z_hat).std() / np.sqrt(300), rel=0.3)
    first, second = found.numbers
    assert (first.value, first.chance, first.ceiling) == (found.mean, found.chance.mean, found.ceiling.mean)
    assert (second.value, second.uncertainty) == (found.spread, found.uncertainty.spread)
    assert second.claim.best == 0
    assert first.uncertainty is not None
    assert first.uncertainty.high <= 1  # the range of the mean, not of the spread


def test_a_record_prints_its_numbers_with_what_is_known() -> None:
    levels = {"chance": 0.25, "ceiling": 0.9, "uncertainty": Interval(0.03, 0.4, 0.6, 10)}
    assert str(One(score=0.5, forgives=AFFINE, **levels)) == (
        "one 0.50 ± 0.03 (chance 0.25, ceiling 0.90); forgives affine"
    )
    assert str(One(score=0.5, forgives=AFFINE)) == "one 0.50; forgives affine"
    assert str(One(score=0.5, forgives=AFFINE, chance=0.0)) == "one 0.50 (chance 0.00); forgives affine"
    two = Two(mean=0.5, spread=2.0, forgives=AFFINE, chance=Pair(0.0, 1.0))
    assert str(two) == "mean 0.50 (chance 0.00), spread 2.00 (chance 1.00); forgives affine"
    assert str(ScoreNumber(two.claims[0], 0.5)) == "mean 0.50"


def test_a_record_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        One(score=0.5, forgives=AFFINE).score = 1.0  # type: ignore[misc]


def test_a_record_must_say_what_its_numbers_are() -> None:
    with pytest.raises(NotImplementedError):
        _ = MetricRecord(forgives=AFFINE).numbers


def test_a_dictionary_of_a_record_can_be_written_as_json() -> None:
    z, z_hat = tables(40)
    found = evaluate(
        lambda z, z_hat: One(score=correlation(z, z_hat).score, forgives=AFFINE, parts=np.eye(2)),
        z,
        z_hat,
        shuffles=2,
        ceiling=True,
        subsamples=10,
    )
    content = json.loads(json.dumps(found.to_dict()))
    assert content["score"] == found.score
    assert content["parts"] == [[1.0, 0.0], [0.0, 1.0]]
    assert content["forgives"] == "affine"
    assert content["uncertainty"]["error"] == found.uncertainty.error
    assert content["range"] == {"one": [-1.0, 1.0]}
    assert content["supports"] == {"one": "Supports one."}
    two = json.loads(json.dumps(evaluate(moments, z, z_hat, shuffles=1, subsamples=10).to_dict()))
    assert set(two["chance"]) == {"mean", "spread"}
    assert set(two["uncertainty"]["spread"]) == {"error", "low", "high", "draws"}
    assert list(two["supports"].values()) == ["Supports a mean.", "Supports a spread."]


nested = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 5),
        st.sampled_from(["", "word"]),
        st.sampled_from([np.float64(0.5), np.int64(3), np.bool_(True), np.arange(3), np.ones((2, 2)), AFFINE, {1, 2}]),
        st.just(Pair(np.float32(1), (2, np.array(["a"])))),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([1, "a", "b"]), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(value=nested)
def test_whatever_is_plain_can_be_written_and_is_plain_again(value: Any) -> None:
    found = plain(value)
    assert json.loads(json.dumps(found)) == found
    assert plain(found) == found


def test_the_seed_decides_shuffles_and_halves() -> None:
    z, z_hat = tables(60)
    one, same, other = (evaluate(correlation, z, z_hat, shuffles=3, subsamples=10, seed=s) for s in (1, 1, 2))
    assert one.to_dict() == same.to_dict()
    assert one.chance != other.chance
    assert one.uncertainty != other.uncertainty
    assert one.score == other.score
