"""MCC agrees with a slow loop over scipy, forgives what it says it forgives, and is defined at the edges."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import pearsonr, rankdata, spearmanr

from noumena import seeds
from noumena.metrics import correlation, mcc
from noumena.metrics.correlation import unit_columns, unit_ranks

modest = settings(max_examples=40, deadline=None)
KINDS = ("pearson", "spearman")
VALUES = (-2.5, -0.0, 0.0, 1e-300, 1.0, 1.0 + 1e-15, 7.0, 1e300)


@st.composite
def tables(draw: st.DrawFn, *, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """True and learned latents, related in part; with ties on request."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, d, d_hat = draw(st.integers(5, 40)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    z = rng.normal(size=(n, d))
    z_hat = z @ rng.normal(size=(d, d_hat)) + rng.normal(size=(n, d_hat))
    return (z.round(), z_hat.round()) if ties else (z, z_hat)


def slow_matrix(z: np.ndarray, z_hat: np.ndarray, kind: str) -> np.ndarray:
    correlate = {"pearson": pearsonr, "spearman": spearmanr}[kind]

    def one(a: np.ndarray, b: np.ndarray) -> float:
        return 0.0 if np.ptp(a) == 0 or np.ptp(b) == 0 else abs(float(correlate(a, b).statistic))

    return np.array([[one(a, b) for b in z_hat.T] for a in z.T])


def slow_score(matrix: np.ndarray) -> float:
    d, d_hat = matrix.shape
    if d <= d_hat:
        return max(np.mean([matrix[j, k] for j, k in enumerate(p)]) for p in permutations(range(d_hat), d))
    return max(sum(matrix[j, k] for k, j in enumerate(p)) / d for p in permutations(range(d), d_hat))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ties", [False, True])
@modest
@given(data=st.data())
def test_the_score_is_that_of_a_slow_loop(kind: str, ties: bool, data: st.DataObject) -> None:
    z, z_hat = data.draw(tables(ties=ties))
    found = mcc(z, z_hat, correlation=kind)
    expected = slow_matrix(z, z_hat, kind)
    np.testing.assert_allclose(found.matrix, expected, atol=1e-9)
    assert found.score == pytest.approx(slow_score(expected))
    assert 0 <= found.score <= 1
    assert found.score == pytest.approx(found.per_latent.mean())
    matched = [(j, k) for j, k in enumerate(found.permutation) if k >= 0]
    assert len({k for _, k in matched}) == len(matched) == min(expected.shape)
    for j, k in enumerate(found.permutation):
        assert found.per_latent[j] == pytest.approx(expected[j, k] if k >= 0 else 0, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_scores_about_chance_and_chance_falls_with_the_rows(kind: str) -> None:
    rng = np.random.default_rng(0)
    few, many = (mcc(rng.normal(size=(n, 3)), rng.normal(size=(n, 3)), correlation=kind) for n in (20, 20_000))
    assert few.score == pytest.approx(few.chance, abs=0.15)
    assert few.chance > 0.15
    assert many.score < 0.03
    assert many.chance < 0.03


def test_missing_latents_count_zero_and_further_ones_go_unused() -> None:
    z = np.random.default_rng(0).normal(size=(100, 4))
    fewer = mcc(z, z[:, [3, 1]])
    assert fewer.score == pytest.approx(0.5)
    assert fewer.permutation.tolist() == [-1, 1, -1, 0]
    np.testing.assert_allclose(fewer.per_latent, [0, 1, 0, 1])
    assert mcc(z[:, [3, 1]], z).score == pytest.approx(1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9 / 3])
def test_a_constant_column_correlates_with_nothing(kind: str, constant: float) -> None:
    z = np.random.default_rng(0).normal(size=(37, 2))
    stuck = np.c_[z[:, 0], np.full(37, constant)]
    assert mcc(z, stuck, correlation=kind).score == pytest.approx(0.5)
    assert mcc(stuck, z, correlation=kind).score == pytest.approx(0.5)
    both = mcc(stuck[:, 1:], stuck[:, 1:], correlation=kind)
    assert (both.score, both.chance) == (0, 0)


# ---- few rows, held-out rows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_null_of_few_rows_and_many_latents_is_far_from_zero_unless_held_out(kind: str) -> None:
    rng = np.random.default_rng(0)
    z, z_hat = rng.normal(size=(2, 50, 20))
    plain, fair = (mcc(z, z_hat, correlation=kind, held_out=held_out, shuffles=100) for held_out in (False, True))
    assert plain.chance == pytest.approx(0.28, abs=0.01)
    assert plain.score == pytest.approx(plain.chance, abs=0.03)
    assert fair.chance == pytest.approx(0, abs=0.015)
    assert abs(fair.score) < 0.15


def test_held_out_rows_score_what_the_other_half_chose() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(41, 3))
    z_hat = z @ rng.normal(size=(3, 5)) + 2 * rng.normal(size=(41, 5))
    found = mcc(z, z_hat, held_out=True, random_state=4)
    chosen, judged = np.array_split(seeds.numpy_generator(4, "halves of mcc").permutation(41), 2)
    signed = [np.corrcoef(z[rows], z_hat[rows], rowvar=False)[:3, 3:] for rows in (chosen, judged)]
    best = max(permutations(range(5), 3), key=lambda p: sum(abs(signed[0][j, k]) for j, k in enumerate(p)))
    expected = [np.sign(signed[0][j, k]) * signed[1][j, k] for j, k in enumerate(best)]
    np.testing.assert_allclose(found.per_latent, expected, atol=1e-12)
    assert found.permutation.tolist() == list(best)
    assert found.score == pytest.approx(np.mean(expected))
    np.testing.assert_allclose(found.matrix, np.sign(signed[0]) * signed[1], atol=1e-12)
    assert (found.rows, found.held_out, mcc(z, z_hat).rows) == (20, True, 41)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sign_that_turns_between_the_halves_scores_minus_one_held_out(kind: str) -> None:
    z = np.random.default_rng(0).normal(size=(40, 2))
    first = np.array_split(seeds.numpy_generator(0, "halves of mcc").permutation(40), 2)[0]
    turned = -z
    turned[first] *= -1
    found = mcc(z, turned, correlation=kind, held_out=True)
    assert found.score == pytest.approx(-1)
    assert found.claims[0].range == (-1, 1)
    assert mcc(z, -z, correlation=kind, held_out=True).score == pytest.approx(1)


# ---- known answers -------------------------------------------------------------------------------------------


def test_a_bent_copy_scores_less_by_values_than_by_ranks() -> None:
    rng = np.random.default_rng(0)
    z, perm = rng.normal(size=(4000, 4)), [2, 0, 3, 1]
    z_hat = 2 * np.tanh(z[:, perm]) + 0.1 * rng.normal(size=z.shape)
    pearson, spearman = mcc(z, z_hat), mcc(z, z_hat, correlation="spearman")
    assert pearson.score == pytest.approx(np.mean([pearsonr(z[:, p], z_hat[:, k])[0] for k, p in enumerate(perm)]))
    assert spearman.score == pytest.approx(np.mean([spearmanr(z[:, p], z_hat[:, k])[0] for k, p in enumerate(perm)]))
    assert pearson.score < 0.97 < 0.99 < spearman.score < 1
    assert pearson.permutation.tolist() == spearman.permutation.tolist() == [1, 3, 0, 2]


def test_rotation_duplicates_and_dead_latents_have_known_answers() -> None:
    z = np.random.default_rng(0).normal(size=(20_000, 2))
    turned = z @ np.array([[1.0, 1], [-1, 1]])
    assert mcc(z, turned, shuffles=0).score == pytest.approx(np.sqrt(0.5), abs=0.01)
    copied = mcc(z, z[:, [0, 0]], shuffles=0)
    assert copied.score == pytest.approx((1 + abs(np.corrcoef(z.T)[0, 1])) / 2)
    dead = mcc(z, np.c_[z[:, 0], np.full(20_000, 7.0)], shuffles=0)
    assert dead.per_latent.round(6).tolist() == [1, 0]


@modest
@given(arrays(np.float64, st.tuples(st.integers(2, 12), st.just(3)), elements=st.sampled_from(VALUES)))
def test_unit_ranks_are_scipys_with_ties(columns: np.ndarray) -> None:
    np.testing.assert_allclose(unit_ranks(columns), unit_columns(rankdata(columns, axis=0)), atol=1e-12)


def test_ranks_of_many_columns_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = np.random.default_rng(0).normal(size=(30, 7))
    whole = unit_ranks(columns)
    monkeypatch.setattr(correlation, "COLUMNS", 3)
    np.testing.assert_array_equal(unit_ranks(columns), whole)
    np.testing.assert_allclose(whole, unit_columns(rankdata(columns, axis=0)), atol=1e-12)


# ---- what stands beside --------------------------------------------------------------------------------------


def test_chance_is_that_of_the_drawn_orders_in_pieces_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    z, z_hat = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    draw = seeds.numpy_generator(5, "chance of mcc")
    expected = np.mean([mcc(z, z_hat[draw.permutation(40)], shuffles=0).score for _ in range(6)])
    for piece in (7, 40, 1000):
        monkeypatch.setattr(correlation, "PIECE", piece)
        assert mcc(z, z_hat, shuffles=6, random_state=5).chance == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("held_out", [False, True])
def test_the_ceiling_is_one_less_the_share_of_dead_true_latents(held_out: bool) -> None:
    z = np.random.default_rng(0).normal(size=(100, 3))
    stuck = np.c_[z, np.ones(100)]
    assert mcc(z, 0 * z, ceiling=True, held_out=held_out).ceiling == pytest.approx(1)
    assert mcc(stuck, z, ceiling=True, held_out=held_out).ceiling == pytest.approx(0.75)
    assert mcc(z, z).ceiling is None


@pytest.mark.parametrize("held_out", [False, True])
def test_a_true_latent_that_never_varies_counts_zero_and_it_is_printed(held_out):
    z = np.random.default_rng(0).normal(size=(60, 2))
    found = mcc(np.column_stack([z, np.ones(60)]), z, held_out=held_out)
    assert found.score == pytest.approx(2 / 3)
    assert found.constant == (2,)
    assert str(found).endswith("; forgives permutation+scaling; constant and counted 0: z3")
    plain = mcc(z, z, held_out=held_out)
    assert plain.constant == ()
    assert str(plain).endswith("; forgives permutation+scaling")
    assert mcc(z, np.ones((60, 2)), held_out=held_out).constant == ()


@pytest.mark.parametrize("seed", range(20))
def test_of_equal_latents_the_first_is_matched_whatever_rounding_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 7))
    z = rng.normal(size=(int(rng.integers(50, 700)), d))
    assert mcc(z, np.c_[z, -z, z], shuffles=0).permutation.tolist() == list(range(d))
