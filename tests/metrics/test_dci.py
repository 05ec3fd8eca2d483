"""DCI agrees with the published formulas, forgives what it says it forgives, and is defined at the edges."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from noumena.metrics.disentanglement import DCI, completeness, dci, disentanglement, informed, purity

modest = settings(max_examples=40, deadline=None)


def normal(n: int = 300, d: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def plain(z: Any, z_hat: Any, **options: Any) -> DCI:
    return dci(z, z_hat, **({"shuffles": 0} | options))


@st.composite
def importances(draw: st.DrawFn) -> np.ndarray:
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    R = rng.exponential(size=(draw(st.integers(2, 6)), draw(st.integers(2, 6))))
    return R * (rng.uniform(size=R.shape) < 0.7)


def published(R: np.ndarray) -> tuple[float, float]:
    """Disentanglement and completeness by loops, with the small number that the public code adds."""
    if R.sum() == 0:
        return 0.0, 0.0
    by_latent = [(1 - entropy(row + 1e-11, base=len(row))) * row.sum() / R.sum() for row in R]
    by_factor = [(1 - entropy(column + 1e-11, base=len(column))) * column.sum() / R.sum() for column in R.T]
    return float(sum(by_latent)), float(sum(by_factor))


@modest
@given(R=importances())
def test_the_formulas_are_the_published_ones(R: np.ndarray) -> None:
    assert (disentanglement(R), completeness(R)) == pytest.approx(published(R), abs=1e-7)
    assert 0 <= disentanglement(R) <= 1
    assert disentanglement(R.T) == pytest.approx(completeness(R))


@modest
@given(R=importances(), seed=st.integers(0, 100), scale=st.floats(0.01, 100))
def test_order_and_scale_of_importances_do_not_matter(R: np.ndarray, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    moved = scale * R[rng.permutation(len(R))][:, rng.permutation(R.shape[1])]
    assert disentanglement(moved) == pytest.approx(disentanglement(R))
    assert completeness(moved) == pytest.approx(completeness(R))
    assert disentanglement(np.vstack([R, R, 0 * R])) == pytest.approx(disentanglement(R))


def test_rows_of_zeros_weigh_nothing_and_nothing_at_all_scores_zero() -> None:
    assert disentanglement(np.zeros((3, 2))) == completeness(np.zeros((3, 2))) == 0
    assert purity(np.array([[0.0, 0], [1, 0], [1, 1]])).tolist() == [0, 1, 0]
    assert disentanglement(np.array([[0.0, 0], [1, 0], [0, 3]])) == 1
    assert disentanglement(np.array([[1.0, 0], [3, 3]])) == pytest.approx(1 / 7)
    assert disentanglement(np.zeros((3, 0))) == completeness(np.zeros((3, 0))) == 0
    assert disentanglement(np.array([[0.2], [0.8]])) == 1
    assert completeness(np.array([[0.2, 0.8]])) == 1


def test_right_answers_and_explained_variance_are_what_is_known() -> None:
    values = np.array([1.0, 2, 3, 3])
    assert informed(values, values, discrete=True) == informed(values, values, discrete=False) == 1
    assert informed(values, values + 0.1, discrete=True) == 0
    assert informed(values, np.full(4, values.mean()), discrete=False) == pytest.approx(0)
    assert informed(values, -10 * values, discrete=False) == 0
    assert informed(np.full(4, 0.1), np.full(4, 0.1), discrete=False) == 0
    assert informed(1e200 * values, 1e200 * values, discrete=False) == 1


@pytest.mark.parametrize("trees", ["fast", "reference"])
def test_permutations_signs_and_bent_latents_score_one(trees: str) -> None:
    z = normal(200)
    for z_hat in (z, -2 * z[:, ::-1], np.exp(z), z**3):
        found = plain(z, z_hat, trees=trees)
        assert min(found.disentanglement, found.completeness, found.informativeness) > 0.95
    np.testing.assert_allclose(plain(z, -z[:, ::-1], trees=trees).importance, [[0, 1], [1, 0]], atol=0.01)


def test_rotated_latents_are_informative_and_neither_disentangled_nor_complete() -> None:
    z = normal(500)
    found = plain(z, z @ np.array([[1.0, 1], [-1, 1]]))
    assert max(found.disentanglement, found.completeness) < 0.05
    assert found.informativeness > 0.85


def test_noise_knows_nothing() -> None:
    z, levels = normal(800, 3), np.random.default_rng(2).integers(0, 4, (800, 1))
    found = plain(np.c_[z, levels], normal(800, 3, seed=1))
    assert max(found.disentanglement, found.completeness) < 0.08
    assert found.per_factor_informativeness[:3].max() < 0.05
    assert found.per_factor_informativeness[3] == pytest.approx(0.25, abs=0.1)


def test_duplicated_latents_stay_disentangled_and_are_incomplete() -> None:
    z = np.c_[normal(300, 1), np.random.default_rng(1).integers(0, 3, 300)]
    found = plain(z, np.c_[z, z])
    assert found.disentanglement > 0.98
    assert found.completeness == pytest.approx(0.5, abs=0.03)
    assert found.weights == pytest.approx(0.25, abs=0.06)


def test_merged_factors_are_complete_and_entangled() -> None:
    level = np.random.default_rng(0).integers(0, 4, 400)
    z = np.stack([level // 2, level % 2], axis=1)
    found = plain(z, np.c_[level, normal(400, 1)])
    assert found.completeness == pytest.approx(1)
    assert found.disentanglement < 0.01
    assert found.informativeness == 1


def test_fewer_and_more_latents_than_factors() -> None:
    z = normal(400, 3)
    fewer = plain(z, z[:, :1])
    assert fewer.completeness == 1  # one latent leaves nothing to confuse
    assert fewer.disentanglement < 0.2
    assert fewer.informativeness == pytest.approx(1 / 3, abs=0.02)
    more = plain(z[:, :2], np.c_[normal(400, 3, seed=5), z[:, :2]])
    assert min(more.disentanglement, more.completeness) > 0.97
    assert more.weights[:3].max() < 0.01
    alone = plain(z[:, :1], z)
    assert alone.disentanglement == pytest.approx(1)  # one factor leaves nothing to confuse
    assert alone.completeness > 0.97


def test_dead_latents_have_no_importance() -> None:
    z = normal(200)
    found = plain(z, np.c_[np.full(200, 0.1), z])
    assert not found.importance[0].any()
    assert (found.per_latent[0], found.weights[0]) == (0, 0)
    assert found.disentanglement > 0.97


def test_constant_factors_are_left_out_and_said() -> None:
    z = normal(200)
    stuck = plain(np.c_[z[:, :1], np.full(200, 3.0), z[:, 1:]], z)
    alone = plain(z, z)
    assert stuck.value == alone.value
    assert stuck.importance.shape == (2, 3)
    assert not stuck.importance[:, 1].any()
    assert stuck.varying.tolist() == [0, 2]
    assert stuck.kinds.endswith("; constant and left out z2")
    assert "left out" not in alone.kinds
    nothing = plain(np.ones((20, 2)), normal(20))
    assert nothing.value == (0, 0, 0)
    assert nothing.error == 1


def test_classes_seen_once_are_taken() -> None:
    z = np.r_[np.zeros(30), np.ones(30), np.arange(2, 8)][:, None]
    for trees in ("fast", "reference"):
        found = plain(z, z, discrete=True, trees=trees)
        assert found.informativeness > 0.7
        assert found.disentanglement == found.completeness == 1
    single = np.r_[np.zeros(59), 1.0][:, None]
    assert plain(single, normal(60, 1), discrete=True).informativeness > 0.9


def test_names_are_classes_and_kinds_are_declared_or_detected() -> None:
    level = np.random.default_rng(0).integers(0, 3, 120)
    names = np.array(["ball", "cone", "cube"])[level][:, None]
    found = plain(names, level[:, None])
    assert found.value == (1, 1, 1)
    assert found.kinds == "Factors (detected by their values): discrete z1"
    numbers = plain(level[:, None], level[:, None], discrete=False)
    assert numbers.kinds == "Factors (declared): continuous z1"
    assert 0.99 < numbers.informativeness < 1


def test_fast_and_reference_trees_agree() -> None:
    rng = np.random.default_rng(0)
    z = np.c_[normal(900, 1), rng.integers(0, 3, (900, 2))]
    s = (z - z.mean(axis=0)) / z.std(axis=0)
    entangled = np.tanh(s @ rng.normal(size=(3, 8))) @ rng.normal(size=(8, 4)) + 0.1 * rng.normal(size=(900, 4))
    for z_hat in (entangled, np.c_[s, s + 0.1 * rng.normal(size=s.shape)]):
        fast, slow = plain(z, z_hat), plain(z, z_hat, trees="reference")
        assert fast.value == pytest.approx(slow.value, abs=0.02)
        assert (fast.trees, slow.trees) == ("fast", "reference")


def test_scores_are_those_of_the_parts() -> None:
    z = normal(200, 3)
    found = plain(z, z @ normal(3, 4, seed=1), held_out=True)
    np.testing.assert_allclose(found.importance.sum(axis=0), 1)
    assert found.disentanglement == pytest.approx(found.weights @ found.per_latent) == disentanglement(found.importance)
    assert found.completeness == pytest.approx(found.per_factor.mean()) == completeness(found.importance)
    assert found.informativeness == pytest.approx(found.per_factor_informativeness.mean())
    assert found.error == pytest.approx(1 - found.informativeness)
    assert (found.rows, found.held_out) == (40, True)


def test_in_sample_noise_looks_informative_and_held_out_noise_does_not() -> None:
    z, z_hat = normal(100), normal(100, 3, seed=1)
    inside = plain(z, z_hat, held_out=False)
    assert inside.informativeness > 0.5
    assert inside.rows == 100
    assert plain(z, z_hat).informativeness < 0.1


def test_halves_of_the_rows_keep_the_kinds_and_the_factors() -> None:
    rare = np.zeros(60)
    rare[:3] = 1
    levels = np.repeat(np.arange(30.0), 2)
    found = plain(np.c_[rare, levels], np.c_[rare, levels], discrete=True, subsamples=10)
    assert found.uncertainty.completeness.error >= 0  # some half has one value of the rare factor, or no level twice
    assert found.disentanglement > 0.5
