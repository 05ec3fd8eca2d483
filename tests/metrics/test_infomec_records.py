"""InfoMEC says how it was measured, what it forgives and how sure it is; it is defined at the edges."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from infomec_samples import factors, noise, triple
from sklearn.linear_model import LinearRegression

from noumena.checks import InputError
from noumena.metrics.information import SETTINGS, exclusiveness, infomec

# ---- the record --------------------------------------------------------------------------------------------------


def test_both_public_settings_have_a_name_and_can_be_overridden() -> None:
    z = factors(400)
    z_hat = np.c_[z / np.ptp(z, axis=0) + 0.1 * noise(400, 3), 0.03 * noise(400, seed=2)]
    assert {name: tuple(found) for name, found in SETTINGS.items()} == {"standalone": (10, 20), "training": (3, 8)}
    default = infomec(z, z_hat, shuffles=0)
    standalone, training = (infomec(z, z_hat, setting=name, shuffles=0) for name in ("standalone", "training"))
    told = {"standalone": (10, 20), "training": (3, 8)}
    for name, found, active in (("standalone", standalone, 4), ("training", training, 3)):
        k, share = told[name]
        same = infomec(z, z_hat, neighbours=k, prune=share, shuffles=0)
        np.testing.assert_array_equal(found.matrix, same.matrix)
        assert (found.neighbours, found.prune, len(found.active)) == (k, share, active)
    assert triple(default).tolist() == triple(standalone).tolist() != triple(training).tolist()
    fewer = infomec(z, z_hat, setting="training", prune=20, shuffles=0)
    assert (fewer.neighbours, fewer.prune, len(fewer.active)) == (3, 20, 4)
    more = infomec(z, z_hat, setting="training", neighbours=10, shuffles=0)
    assert (more.neighbours, more.prune, len(more.active)) == (10, 8, 3)


def test_the_ceiling_is_the_score_of_the_truth_in_units_of_its_ranges() -> None:
    z = factors(600) * [1.0, 100.0, 0.01]  # ranges that would prune each other
    rough = infomec(z, noise(600, 3), ceiling=True, shuffles=0)
    assert rough.ceiling is not None
    np.testing.assert_allclose(rough.ceiling, 1, atol=0.05)
    assert rough.ceiling == infomec(z, z / np.ptp(z, axis=0), shuffles=0).value
    dependent = np.c_[z[:, 0], np.where(noise(600) > 0, z[:, 0], z[:, 1] / 100)]
    shared = infomec(dependent, noise(600, 2), ceiling=True, shuffles=0).ceiling
    assert 0.3 < shared.modularity < 0.95  # dependent sources know each other
    assert infomec(z, z).ceiling is None


def test_uncertainty_covers_another_draw_of_the_rows_and_shrinks_with_them() -> None:
    def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        z = factors(n, seed=seed)
        return z, z + 1.5 * noise(n, 3, seed=seed + 50)

    few, many = (infomec(*rows(n, 0), shuffles=0, subsamples=12).uncertainty for n in (200, 1600))
    again = infomec(*rows(200, 0), shuffles=0, subsamples=12).uncertainty
    assert few == again
    assert few.explicitness.draws == 12
    fresh = np.std([infomec(*rows(200, s), shuffles=0).explicitness for s in range(1, 13)])
    assert fresh / 3 < few.explicitness.error < 3 * fresh
    assert many.explicitness.error < 0.7 * few.explicitness.error
    assert 0 <= few.modularity.low < few.modularity.high <= 1
    with pytest.raises(InputError, match="subsamples must be 0 or at least 10"):
        infomec(*rows(100, 0), subsamples=3)


def test_kinds_are_decided_once_and_said() -> None:
    z = np.c_[np.repeat(np.arange(20), 2), noise(40), np.ones(40)]  # a half of the rows meets most values once
    found = infomec(z, z[:, :2], subsamples=10)
    assert found.kinds == "Factors (detected by their values): discrete z1, z3; continuous z2; constant and left out z3"
    assert np.isfinite([part.error for part in found.uncertainty]).all()
    told = infomec(z, z[:, :2], discrete=[0], shuffles=0)
    assert told.kinds == "Factors (declared): discrete z1; continuous z2, z3; constant and left out z3"
    assert told.sources.tolist() == [0, 1]
    once = np.r_[np.zeros(38), 1, 2][:, None]
    rare = infomec(once, noise(40, 2), subsamples=12, shuffles=0)  # constant in a quarter of the halves
    assert all(0 <= part.low <= part.high <= 1 for part in rare.uncertainty)
    many = infomec(
        np.arange(60)[:, None] // 2, noise(60, 1), max_rows=10, random_state=1, shuffles=0
    )  # values met once only
    assert np.isfinite(many.matrix).all()


def test_names_as_factors_are_classes() -> None:
    z = factors(300)
    words = np.array(["ball", "cube", "cone"])[z[:, :1]]
    named = infomec(np.c_[words, z[:, 1:].astype(str)], z, shuffles=0)
    np.testing.assert_allclose(triple(named), triple(infomec(z, z, shuffles=0)), atol=1e-6)


def test_bent_latents_keep_modularity_and_compactness_and_lose_explicitness() -> None:
    z = noise(1500, 3, seed=4)
    bent = np.c_[np.sign(z[:, 0]) * z[:, 0] ** 2, np.exp(z[:, 1]), z[:, 2] ** 3]
    plain, found = infomec(z, z, shuffles=0), infomec(z, bent, shuffles=0)
    assert found.modularity == pytest.approx(plain.modularity, abs=0.05)
    assert found.compactness == pytest.approx(plain.compactness, abs=0.05)
    assert found.explicitness < 0.85 < 0.999 < plain.explicitness


# ---- edges -------------------------------------------------------------------------------------------------------


def test_latents_of_small_range_are_pruned() -> None:
    z = factors(400)
    z_hat = np.c_[z / np.ptp(z, axis=0), noise(400)]
    z_hat[:, 3] *= 0.1 / np.ptp(z_hat[:, 3])
    assert infomec(z, z_hat, shuffles=0).active.tolist() == [0, 1, 2, 3]
    assert infomec(z, z_hat, prune=8, shuffles=0).active.tolist() == [0, 1, 2]
    z_hat[:, 3] *= 0.4
    pruned = infomec(z, z_hat, shuffles=0)
    assert pruned.active.tolist() == [0, 1, 2]
    assert pruned.compactness == pytest.approx(1, abs=0.05)
    assert pruned.matrix.shape == (3, 4)
    assert infomec(z, z_hat, prune=np.inf, shuffles=0).active.tolist() == [0, 1, 2, 3]
    # pruned latents still take part in what a linear predictor reads
    small = infomec(z, np.c_[100.0 * z[:, :1], z[:, 1:]], prune=20, shuffles=0)
    assert small.active.tolist() == [0]
    assert small.explicitness == pytest.approx(1, abs=0.03)


def test_constant_latents_are_inactive_and_know_nothing() -> None:
    z = factors(300)
    found = infomec(z, np.c_[z, np.full(300, 7.0)], prune=np.inf)
    assert found.active.tolist() == [0, 1, 2]
    assert found.matrix[:, 3].tolist() == [0, 0, 0]
    none = infomec(z, np.ones((300, 2)))
    assert (triple(none) == 0).all()
    assert none.active.size == none.per_latent.size == 0
    assert none.chance == (0, 0, 0)
    assert infomec(z, np.ones((300, 2)), published=True).explicitness == pytest.approx(0, abs=0.01)


def test_one_source_or_one_latent_leaves_nothing_to_confuse() -> None:
    z = factors(400)
    one = infomec(z[:, :1], z, shuffles=0)
    assert one.modularity == pytest.approx(np.mean(one.matrix[0] > 0))
    assert one.per_latent[0] == 1
    alone = infomec(z, z[:, 2:], shuffles=0)
    assert alone.per_source_compactness[2] == 1
    assert alone.per_latent == pytest.approx(1, abs=0.05)
    assert exclusiveness(np.array([[0.3], [0.0]])).tolist() == [1, 0]


def test_more_sources_than_latents_count_against_explicitness() -> None:
    z = factors()
    found = infomec(z, z[:, :2], shuffles=0)
    assert found.matrix.shape == (3, 2)
    assert found.modularity == pytest.approx(1, abs=0.03)
    np.testing.assert_allclose(found.per_source, [1, 1, 0], atol=0.02)


def test_constant_sources_are_left_out() -> None:
    z = factors(400)
    plain, dead = infomec(z, z, shuffles=0), infomec(np.c_[z, np.ones(400)], z, shuffles=0)
    np.testing.assert_allclose(triple(dead), triple(plain))
    assert dead.sources.tolist() == [0, 1, 2]
    assert dead.matrix[3].tolist() == [0, 0, 0]


def test_continuous_sources_get_shares_of_variance() -> None:
    z = noise(600, 3, seed=4)
    exact = infomec(z, z @ np.diag([1, -2, 3]), shuffles=0)
    np.testing.assert_allclose(triple(exact), [1, 1, 1], atol=0.1)
    np.testing.assert_allclose(exact.matrix.diagonal(), 1, atol=0.01)
    z_hat = z + noise(600, 3, seed=5)
    noisy = infomec(z, z_hat, held_out=False, shuffles=0)
    np.testing.assert_allclose(noisy.matrix.diagonal(), 0.5, atol=0.1)  # their squared correlation
    fitted = [LinearRegression().fit(z_hat, source).score(z_hat, source) for source in z.T]
    np.testing.assert_allclose(noisy.per_source, fitted)
    assert infomec(z, noise(600, 3, seed=6), shuffles=0).explicitness == pytest.approx(0, abs=0.02)


def test_kinds_of_sources_are_guessed_or_told() -> None:
    z = np.c_[factors(300)[:, 0], noise(300)]
    z_hat = z + 0.3 * noise(300, 2, seed=2)
    guessed = infomec(z, z_hat, shuffles=0)
    told = infomec(z, z_hat, discrete=(True, False), shuffles=0)
    np.testing.assert_array_equal(guessed.matrix, told.matrix)
    both = infomec(z, z_hat, discrete=np.array([False, False]), shuffles=0)
    assert both.per_source[0] != told.per_source[0]
    np.testing.assert_array_equal(both.matrix[1], told.matrix[1])
    whole = infomec(np.arange(40.0)[:, None] // 2, noise(40, 1), shuffles=0).matrix  # two rows a value: classes
    np.testing.assert_array_equal(whole, infomec(np.arange(40.0)[:, None] // 2, noise(40, 1), discrete=True).matrix)
    far = infomec(np.arange(40.0)[:, None], noise(40, 1), shuffles=0).matrix
    np.testing.assert_array_equal(far, infomec(np.arange(40.0)[:, None], noise(40, 1), discrete=False).matrix)


def test_ten_rows_and_classes_met_once_are_defined() -> None:
    z = np.array([[0, 0, 0, 1, 1, 1, 2, 2, 3, 4], [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]]).T
    found = infomec(z, z + 0.01 * noise(10, 2))
    assert np.isfinite(triple(found)).all()
    assert np.isfinite(found.matrix).all()
    almost = np.zeros((10, 1), dtype=int)
    almost[3] = 1  # for some split one class only is met
    scores = [infomec(almost, noise(10, 1), random_state=s, shuffles=0).explicitness for s in range(12)]
    assert 0 in scores
    assert np.isfinite(scores).all()


def test_rows_are_capped_and_seeded() -> None:
    z = factors(400)
    z_hat = z + noise(400, 3)
    assert infomec(z, z_hat, max_rows=100, shuffles=0).rows == 100
    first, again, other = (infomec(z, z_hat, max_rows=100, random_state=s) for s in (1, 1, 2))
    assert triple(first).tolist() == triple(again).tolist()
    assert first.chance == again.chance
    assert triple(first).tolist() != triple(other).tolist()
    same = infomec(torch.as_tensor(z), torch.as_tensor(z_hat), shuffles=0)
    np.testing.assert_array_equal(triple(same), triple(infomec(z, z_hat, shuffles=0)))
    assert infomec(z, z_hat, shuffles=0).chance is None
    levels = [infomec(z, z_hat, shuffles=s).chance for s in (1, 2, 3)]
    assert all(a != b for a, b in pairwise(levels))


def test_the_result_speaks_and_becomes_plain_data() -> None:
    z = factors(300)
    found = infomec(z, np.c_[z, np.ones(300)])
    assert found.chance is not None
    assert str(found).startswith(f"InfoM {found.modularity:.2f} (chance {found.chance.modularity:.2f}), InfoE ")
    assert "3 of 4 latents active, 3 sources, 300 rows, InfoE held-out; forgives permutation+scaling" in str(found)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["matrix"] == found.matrix.tolist()
    assert plain["active"] == [0, 1, 2]
    assert plain["chance"]["compactness"] == found.chance.compactness
    quiet = infomec(z, z, held_out=False, shuffles=0)
    assert "chance" not in str(quiet)
    assert "in-sample" in str(quiet)
    assert quiet.to_dict()["chance"] is None
