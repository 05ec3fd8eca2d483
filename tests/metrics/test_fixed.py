"""Batches hold one value of one factor, drawn as the public code draws them, and what could not be fixed is said."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noumena.checks import InputError
from noumena.metrics.factors import FactorTable
from noumena.metrics.fixed import FixedFactors, fixed_factors

modest = settings(max_examples=30, deadline=None)


def grid(*levels: int, times: int = 1) -> np.ndarray:
    return np.repeat(np.array(list(product(*map(range, levels))), dtype=float), times, axis=0)


def kinds(values: np.ndarray, *discrete: bool) -> FactorTable:
    return FactorTable(values, discrete, tuple(f"z{j + 1}" for j in range(values.shape[1])))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@modest
@given(seed=st.integers(0, 1000), n=st.integers(60, 200))
def test_a_batch_holds_one_value_of_its_factor(seed: int, n: int) -> None:
    z = np.c_[rng(seed).integers(0, [2, 9], size=(n, 2)), rng(seed).normal(size=n)]
    fixed = fixed_factors(kinds(z, True, True, False), bins=4, min_group=5)
    factor, rows = fixed.draw(50, 8, rng())
    assert rows.shape == (50, 8)
    low, high = rows.min(), rows.max()
    assert 0 <= low <= high < n
    for j, batch in zip(factor, rows, strict=True):
        if fixed.used[j] < 2:
            (value,) = set(z[batch, fixed.used[j]])
            assert np.count_nonzero(z[:, fixed.used[j]] == value) >= 5
        else:
            edges = np.quantile(z[:, 2], [0.25, 0.5, 0.75])
            assert len(set(np.searchsorted(edges, z[batch, 2], side="right"))) == 1


def test_factors_are_uniform_and_values_are_those_of_a_random_row() -> None:
    z = np.c_[np.repeat([0, 1, 2], [20, 60, 120]), np.tile([0, 1], 100)].astype(float)
    factor, rows = fixed_factors(kinds(z, True, True)).draw(20_000, 4, rng())
    assert np.mean(factor == 0) == pytest.approx(0.5, abs=0.015)
    values = z[rows[factor == 0, 0], 0]
    shares = [np.mean(values == v) for v in range(3)]
    np.testing.assert_allclose(shares, [0.1, 0.3, 0.6], atol=0.02)


def test_rows_of_a_group_are_drawn_equally_often_and_with_replacement() -> None:
    z = grid(3, 4, 5)
    fixed = fixed_factors(kinds(z, True, True, True), min_group=2)
    factor, rows = fixed.draw(9000, 12, rng())
    fixes = factor == 1
    others = np.bincount((5 * z[rows[fixes], 0] + z[rows[fixes], 2]).astype(int).ravel(), minlength=15)
    np.testing.assert_allclose(others / others.sum(), 1 / 15, atol=0.004)
    repeats = np.mean([len(set(batch)) < 12 for batch in rows])
    assert repeats > 0.9  # 12 draws of 12 to 20 rows


def test_draws_from_a_group_shrink_all_variances_by_one_factor() -> None:
    z = np.repeat([0.0, 1.0], [16, 24])[:, None]
    latents = rng().normal(size=(40, 3)) * [1, 5, 0.2]
    fixed = fixed_factors(kinds(z, True))
    _, rows = fixed.draw(20_000, 64, rng())
    first = rows[rows[:, 0] < 16]
    drawn = latents[first].var(axis=1, ddof=1).mean(axis=0)
    np.testing.assert_allclose(drawn / latents[:16].var(axis=0, ddof=1), 15 / 16, atol=0.01)
    assert fixed.smallest == 16


def test_equal_generators_draw_equal_batches() -> None:
    fixed = fixed_factors(kinds(rng().normal(size=(200, 3)), False, False, False))
    for one, two in zip(fixed.draw(30, 5, rng(1)), fixed.draw(30, 5, rng(1)), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(fixed.draw(30, 5, rng(1))[1], fixed.draw(30, 5, rng(2))[1])


@pytest.mark.parametrize(
    ("values", "complete", "said"),
    [
        (grid(3, 2, 4, times=2), True, "Complete factor grid: every combination of values occurs 2 times."),
        (grid(3, 2, 4), True, "Complete factor grid: every combination of values occurs 1 time."),
        (grid(3, 2, 4, times=2)[2:], False, "1 of 24 combinations of values are missing: the other"),
        (grid(3, 2, 4, times=2)[1:], False, "Combinations of values occur 1 to 2 times: the other"),
        (grid(3, 2, 4)[1:], False, "24 combinations of values have only 23 rows: the other"),
    ],
)
def test_complete_grids_are_recognised_and_others_are_told(values: np.ndarray, complete: bool, said: str) -> None:
    fixed = fixed_factors(kinds(rng().permutation(values), True, True, True), min_group=4)
    assert fixed.complete is complete
    assert fixed.notes[0].startswith(said)
    assert said in str(fixed)


def test_a_continuous_factor_has_no_grid() -> None:
    assert not fixed_factors(kinds(grid(3, 2, 4), True, True, False), min_group=2).complete


@pytest.mark.parametrize(("n", "bins"), [(100, 2), (640, 10), (10_000, 20)])
def test_bins_hold_64_rows_where_there_are_enough(n: int, bins: int) -> None:
    fixed = fixed_factors(kinds(rng().normal(size=(n, 2)), False, False))
    sizes = np.bincount(fixed.groups[:, 0])
    assert len(sizes) == bins
    assert sizes.max() - sizes.min() <= 1
    assert fixed.notes[0].startswith(f"Cut into up to {bins} quantile bins of about {n // bins} rows")
    assert "z1, z2" in fixed.notes[0]


@modest
@given(seed=st.integers(0, 1000), bins=st.integers(2, 7))
def test_bins_are_intervals_that_never_part_equal_values(seed: int, bins: int) -> None:
    column = rng(seed).integers(0, 12, size=80).astype(float)
    groups = fixed_factors(kinds(column[:, None], False), bins=bins, min_group=2).groups[:, 0]
    order = np.argsort(column, kind="stable")
    kept = groups[order][groups[order] >= 0]
    assert (np.diff(kept) >= 0).all()
    assert all(len(set(groups[column == value])) == 1 for value in set(column))


@pytest.mark.parametrize("bins", [2, 5])
def test_a_value_that_fills_a_bin_gets_one_of_its_own(bins: int) -> None:
    column = np.r_[np.zeros(120), rng().uniform(0.1, 1, 80)]
    groups = fixed_factors(kinds(column[:, None], False), bins=bins).groups[:, 0]
    assert len(set(groups[:120])) == 1
    assert groups[0] not in groups[120:]


def test_small_groups_are_never_fixed_and_said() -> None:
    z = np.c_[np.repeat([0, 1, 2, 3], [40, 40, 15, 5]), np.tile([0, 1], 50)].astype(float)
    fixed = fixed_factors(kinds(z, True, True))
    factor, rows = fixed.draw(2000, 3, rng())
    assert set(z[rows[factor == 0], 0].ravel()) == {0, 1}
    assert fixed.notes[-1] == "Never fixed, as they occur in fewer than 16 rows: 2 of 4 values of z1."
    assert fixed.groups[:, 0].tolist() == [0] * 40 + [1] * 40 + [-1] * 20
    assert 3 in fixed_factors(kinds(z, True, True), min_group=5).groups[:, 0]


def test_factors_that_cannot_be_fixed_are_left_out_and_said() -> None:
    z = np.c_[np.arange(60) // 2, np.ones(60), np.arange(60) % 3].astype(float)
    fixed = fixed_factors(kinds(z, True, True, True))
    assert (fixed.used, fixed.names) == ((2,), ("z3",))
    assert fixed.groups.shape == (60, 1)
    assert "Left out, as they have one value: z2." in fixed.notes
    assert "Left out, as no value occurs in 16 rows: z1." in fixed.notes
    factor, _ = fixed.draw(20, 4, rng())
    assert set(factor.tolist()) == {0}


def test_fewer_rows_can_be_drawn_from_by_the_same_groups() -> None:
    z = np.c_[np.repeat([0, 1], [38, 2]), np.tile([0, 1], 20)].astype(float)
    fixed = fixed_factors(kinds(z, True, True), min_group=2)
    part = FixedFactors(fixed.groups[:39], fixed.used, fixed.names)  # the last value keeps one row
    factor, rows = part.draw(500, 4, rng())
    assert set(z[rows[factor == 0], 0].ravel()) == {0}
    gone = FixedFactors(fixed.groups[38:][:, :1] * 0 - 1 + np.eye(2, 1, dtype=int), (0,), ("z1",))
    with pytest.raises(InputError, match=r"must have a value that occurs in 2 rows to be fixed\. Got none\."):
        gone.draw(1, 2, rng())


def test_a_factor_without_groups_is_never_drawn() -> None:
    groups = np.c_[np.full(6, -1), [0, 0, 0, 1, 1, 1]]
    factor, rows = FixedFactors(groups, (0, 1), ("a", "b")).draw(50, 3, rng())
    assert set(factor.tolist()) == {1}
    assert all(len(set(groups[batch, 1])) == 1 for batch in rows)
