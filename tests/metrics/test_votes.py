"""The FactorVAE score agrees with a slow loop after the public protocol, and its answers to known cases are right."""

import sys
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noumena.metrics.factor_vae_score import factor_vae_score, least_variable
from noumena.metrics.factors import factors_of

modest = settings(max_examples=25, deadline=None)
LEVELS = (4, 3, 5)
GRID = np.array(list(product(*map(range, LEVELS))), dtype=float)
ROTATION = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
SMALL = {"votes": (1500, 800), "shuffles": 0}


def unit(z: np.ndarray) -> np.ndarray:
    return (z - z.mean(axis=0)) / z.std(axis=0)


def samples(kind: str, n: int = 2000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    discrete, continuous = rng.integers(0, [3, 6, 10, 8], size=(n, 4)).astype(float), rng.normal(size=(n, 4))
    return {"discrete": discrete, "continuous": continuous, "mixed": np.c_[discrete[:, :2], continuous[:, 2:]]}[kind]


def public_votes(latents: np.ndarray, number: int, rng: np.random.Generator, spread: np.ndarray) -> np.ndarray:
    """Votes on the complete grid, one at a time: draw all factors, fix one at its first value, look at the latents."""
    counts = np.zeros((len(LEVELS), latents.shape[1]))
    for _ in range(number):
        factor = rng.integers(len(LEVELS))
        factors = np.stack([rng.integers(level, size=64) for level in LEVELS], axis=1)
        factors[:, factor] = factors[0, factor]
        local = np.var(latents[np.ravel_multi_index(tuple(factors.T), LEVELS)], axis=0, ddof=1)
        counts[factor, np.argmin(local / spread)] += 1
    return counts


def public_score(latents: np.ndarray, number: int, seed: int = 0) -> float:
    rng, spread = np.random.default_rng(seed), latents.var(axis=0)  # that of infinitely many draws from the grid
    names = public_votes(latents, number, rng, spread).argmax(axis=0)
    test = public_votes(latents, number, rng, spread)
    return float(test[names, np.arange(len(names))].sum() / test.sum())


def representations() -> dict[str, np.ndarray]:
    rng, z = np.random.default_rng(1), unit(GRID)
    return {
        "rotation": z @ ROTATION,
        "mixed": z @ rng.normal(size=(3, 5)),
        "noise": rng.normal(size=(60, 4)),
        "noisy": z + rng.normal(size=(60, 3)),
        "fewer": z[:, :1] + 0.3 * z[:, 1:2],
        "bent": np.c_[np.exp(2 * z[:, 0]) + z[:, 1], z[:, 1] * z[:, 2], z[:, 2] ** 2],
    }


@pytest.mark.parametrize("name", representations())
def test_the_score_is_that_of_a_slow_loop_after_the_public_protocol(name: str) -> None:
    latents = representations()[name]
    found = factor_vae_score(GRID, latents, discrete=True, min_group=2, votes=(10_000, 20_000), shuffles=0)
    expected = public_score(latents, 2500)
    error = np.sqrt(max(expected * (1 - expected), 0.01) / 2500)
    assert found.score == pytest.approx(expected, abs=4 * error)
    assert found.notes[0].startswith("Complete factor grid")


def slow_sample_score(z: np.ndarray, latents: np.ndarray, number: int, seed: int) -> float:
    """The protocol on a plain sample: the value of a random row, then rows with that value."""
    rng, tables = np.random.default_rng(seed), np.zeros((2, z.shape[1], latents.shape[1]))
    for table in tables:
        for _ in range(number):
            j = rng.integers(z.shape[1])
            same = np.flatnonzero(z[:, j] == z[rng.integers(len(z)), j])
            local = latents[rng.choice(same, 64)].var(axis=0, ddof=1)
            table[j, np.argmin(local / latents.var(axis=0, ddof=1))] += 1
    names = tables[0].argmax(axis=0)
    return float(tables[1][names, np.arange(len(names))].sum() / number)


def test_the_score_of_a_sample_of_dependent_factors_is_that_of_a_slow_loop() -> None:
    rng = np.random.default_rng(0)
    first = rng.choice(4, size=600, p=[0.5, 0.3, 0.1, 0.1])
    z = np.c_[first, (first + rng.integers(0, 3, 600)) // 2, rng.integers(0, 2, 600)].astype(float)
    latents = unit(z) @ np.random.default_rng(5).normal(size=(3, 4)) + 0.5 * rng.normal(size=(600, 4))
    found = factor_vae_score(z, latents, discrete=True, min_group=2, votes=(10_000, 20_000), shuffles=0)
    expected = slow_sample_score(z, latents, 2500, 0)
    assert 0.4 < found.score < 0.95
    assert found.score == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 2500))


@modest
@given(seed=st.integers(0, 1000), size=st.integers(2, 9), latents=st.integers(1, 5))
def test_the_stillest_latent_has_the_smallest_variance(seed: int, size: int, latents: int) -> None:
    rng = np.random.default_rng(seed)
    table, rows = rng.normal(size=(30, latents)) + 1e7, rng.integers(30, size=(40, size))
    expected = [int(np.argmin(table[batch].var(axis=0))) for batch in rows]
    assert least_variable(table, rows).tolist() == expected


def test_votes_in_pieces_are_the_votes_of_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table, rows = rng.normal(size=(50, 3)), rng.integers(50, size=(101, 8))
    whole = least_variable(table, rows)
    for chunk in (1, 8 * 3 * 7):
        monkeypatch.setattr(sys.modules["noumena.metrics.factor_vae_score"], "CHUNK", chunk)
        np.testing.assert_array_equal(least_variable(table, rows), whole)


def test_the_first_of_equally_still_latents_gets_the_vote() -> None:
    table = np.tile(np.array([[0.3], [0.1], [0.1], [0.1]]), (1, 3)) * [1, 1 / 3, 7]
    table[1, 0] = 9
    assert least_variable(table, np.array([[1, 2, 3], [2, 3, 3]])).tolist() == [1, 0]


@pytest.mark.parametrize("kind", ["discrete", "continuous", "mixed"])
def test_known_answers(kind: str) -> None:
    z, rng = samples(kind), np.random.default_rng(1)
    scores = {
        name: factor_vae_score(z, z_hat, **SMALL).score
        for name, z_hat in {
            "identity": z,
            "permutation and sign flip": -3 * z[:, [2, 0, 3, 1]],
            "monotone": 2 * np.tanh(unit(z)),
            "rotation": unit(z) @ np.kron(np.eye(2), [[1, 1], [-1, 1]]),
            "duplicated": np.c_[z, 2 * z],
            "dead": np.c_[np.ones(2000), z, np.full(2000, 0.1)],
            "noise": rng.normal(size=(2000, 4)),
            "fewer": z[:, :2],
            "more": np.c_[rng.normal(size=(2000, 3)), z],
        }.items()
    }
    for name in ("identity", "permutation and sign flip", "duplicated", "dead", "more"):
        assert scores[name] == pytest.approx(1, abs=0.005), name
    assert scores["monotone"] > 0.95
    assert scores["rotation"] == pytest.approx(0.5, abs=0.17)  # pairs of factors share two latents each
    assert scores["noise"] == pytest.approx(0.25, abs=0.06)
    assert scores["fewer"] == pytest.approx(0.5, abs=0.06)  # the other half of the votes names a wrong factor


def test_a_rotation_by_half_a_right_angle_makes_two_factors_indistinguishable() -> None:
    z = np.repeat(np.array(list(product(range(6), range(6)))), 20, axis=0)
    found = factor_vae_score(z, unit(z) @ np.array([[1, 1], [-1, 1]]), **SMALL)
    assert found.score == pytest.approx(0.5, abs=0.06)


def test_the_table_of_votes_tells_the_names_and_the_training_accuracy() -> None:
    z = samples("discrete")
    z_hat = np.c_[np.ones(2000), unit(z)[:, [3, 1]] + 0.5, unit(z)[:, 0] + unit(z)[:, 2]]
    found = factor_vae_score(z, z_hat, votes=(900, 400), shuffles=0)
    assert found.active.tolist() == [1, 2, 3]
    assert found.factors.tolist() == [0, 1, 2, 3]
    assert found.votes.shape == (3, 4)
    assert found.votes.sum() == 900
    assert found.named.tolist() == found.votes.argmax(axis=1).tolist()
    assert found.named[:2].tolist() == [3, 1]
    assert found.train_accuracy == pytest.approx(found.votes.max(axis=1).sum() / 900)
    assert found.score == pytest.approx(found.train_accuracy, abs=0.1)
    assert found.score != found.train_accuracy
    assert found.rows == 2000


def test_a_latent_without_training_votes_names_nothing() -> None:
    z = samples("discrete", 400)
    found = factor_vae_score(z, z, votes=(1, 300), shuffles=0)
    assert sorted(found.named.tolist())[:3] == [-1, -1, -1]
    assert found.train_accuracy == 1
    assert found.score == pytest.approx(0.25, abs=0.1)


def test_maps_of_one_latent_each_are_forgiven_only_in_part() -> None:
    z = samples("continuous")
    assert factor_vae_score(z, np.exp(5 * z), **SMALL).score < 0.95
    discrete = samples("discrete")
    assert factor_vae_score(discrete, np.exp(discrete), **SMALL).score == 1


def test_small_latents_are_pruned_in_their_own_unit_and_said() -> None:
    z = samples("discrete")
    shrunk = unit(z) * [1, 1, 0.049, 0.051]
    found = factor_vae_score(z, shrunk, **SMALL)
    assert found.active.tolist() == [0, 1, 3]
    assert found.score == pytest.approx(0.75, abs=0.05)
    assert "Pruned, as their standard deviation is below 0.05 in their own unit: latents 3." in found.notes
    assert factor_vae_score(z, shrunk, prune=0, **SMALL).score == 1
    assert not any("Pruned" in note for note in factor_vae_score(z, z, **SMALL).notes)


@pytest.mark.parametrize("prune", [0, 0.05])
def test_without_active_latents_the_score_is_zero(prune: float) -> None:
    z = samples("discrete", 300)
    found = factor_vae_score(z, np.full((300, 2), 0.1), prune=prune, votes=(50, 50), ceiling=True)
    assert (found.score, found.train_accuracy, found.chance, found.ceiling) == (0, 0, 0, 1)
    assert found.votes.shape == (0, 4)
    assert found.named.shape == found.active.shape == (0,)
    assert "No latent is active: the score is 0 by definition." in found.notes


def test_with_one_factor_every_vote_is_right_and_said() -> None:
    z = np.random.default_rng(0).integers(0, 3, size=(300, 1))
    found = factor_vae_score(z, np.random.default_rng(1).normal(size=(300, 2)), votes=(50, 50))
    assert (found.score, found.chance) == (1, 1)
    assert "Only one factor can be fixed: every vote is right, and the score is 1 by definition." in found.notes


def test_single_class_factors_are_left_out_and_said() -> None:
    z = np.insert(samples("discrete"), 1, 7.0, axis=1)
    found = factor_vae_score(z, z[:, [4, 3, 2, 0]], **SMALL)
    assert found.factors.tolist() == [0, 2, 3, 4]
    assert found.named.tolist() == [4, 3, 2, 0]
    assert found.score == 1
    assert "Left out, as they have one value: z2." in found.notes


def test_missing_combinations_lower_the_ceiling_where_factors_are_one() -> None:
    z = samples("discrete", 1000)[:, :3]
    z[:, 1] = z[:, 0]
    found = factor_vae_score(z, z, ceiling=True, **SMALL)
    assert found.ceiling == found.score == pytest.approx(2 / 3, abs=0.05)  # the first of two equal latents is voted for
    assert any(note.endswith("the other factors are drawn as they occur beside the fixed one.") for note in found.notes)
    some = samples("discrete", 1000)
    found = factor_vae_score(some[some[:, 0] != some[:, 1]], some[some[:, 0] != some[:, 1]], **SMALL)
    assert found.score == 1
    assert "are missing" in found.notes[0] or "have only" in found.notes[0]


def test_groups_smaller_than_the_batch_are_said() -> None:
    z = samples("discrete", 300)[:, :2]
    small = f"Groups of {np.bincount(z[:, 1].astype(int)).min()} rows or more give batches of 64: rows repeat"
    assert any(note.startswith(small) for note in factor_vae_score(z, z, votes=(20, 20), shuffles=0).notes)
    few = factor_vae_score(z, z, votes=(20, 20), batch_size=16, shuffles=0)
    assert not any("rows repeat" in note for note in few.notes)


def test_chance_is_one_in_k_with_many_rows_and_more_with_few() -> None:
    many, few = samples("discrete", 10_000), samples("discrete", 80)
    assert factor_vae_score(many, many, votes=(2000, 2000), shuffles=3).chance == pytest.approx(0.25, abs=0.03)
    assert factor_vae_score(few, few, votes=(2000, 2000), shuffles=5, min_group=2).chance > 0.3


def test_the_ceiling_is_the_score_of_the_truth_in_any_unit() -> None:
    z = samples("mixed", 600)
    noise = np.random.default_rng(0).normal(size=(600, 2))
    found = factor_vae_score(1e-3 * z, noise, discrete=[0, 1], ceiling=True, votes=(400, 300))
    truth = factor_vae_score(1e-3 * z, unit(z), discrete=[0, 1], votes=(400, 300))
    assert found.ceiling == truth.score > 0.99
    assert found.score < 0.5


def test_the_standard_error_is_the_spread_over_fresh_samples() -> None:
    mixing = np.random.default_rng(2).normal(size=(4, 4))

    def found(seed: int, **options: Any) -> Any:
        z = samples("discrete", 400, seed)
        noise = np.random.default_rng(seed + 1000).normal(size=z.shape)
        return factor_vae_score(z, unit(z) @ mixing + noise, votes=(600, 600), shuffles=0, random_state=seed, **options)

    spread = np.std([found(seed).score for seed in range(40)], ddof=1)
    errors = [found(seed, subsamples=12).uncertainty.error for seed in range(4)]
    assert 0.6 < np.mean(errors) / spread < 1.7
    interval = found(0, subsamples=12).uncertainty
    assert interval.draws == 12
    assert interval.low <= found(0).score <= interval.high


def test_halves_keep_kinds_bins_and_groups() -> None:
    rng = np.random.default_rng(0)
    z = np.c_[rng.integers(0, 8, 160), rng.normal(size=160)]  # 20 rows for a value: halves have ten
    found = factor_vae_score(z, z, votes=(200, 200), shuffles=0, subsamples=10)
    assert found.uncertainty.error < 0.02


def test_training_and_test_votes_are_different_draws() -> None:
    z = samples("discrete", 500)
    found = factor_vae_score(z, np.random.default_rng(0).normal(size=(500, 4)), votes=(1000, 1000), shuffles=0)
    assert found.score != found.train_accuracy


def test_tensors_names_and_factors_score_like_arrays() -> None:
    z = samples("discrete", 400)
    z_hat = (unit(z) @ np.random.default_rng(0).normal(size=(4, 4))).astype(np.float32)
    named = np.array([["red", "green", "blue"][int(v)] for v in z[:, 0]])[:, None]
    wide = factor_vae_score(z, z_hat.astype(np.float64), votes=(300, 300))
    for given_z in (torch.as_tensor(z), factors_of(z), z.astype(int)):
        assert factor_vae_score(given_z, torch.as_tensor(z_hat), votes=(300, 300)).to_dict() == wide.to_dict()
    words = np.concatenate([named.astype(object), z[:, 1:].astype(object)], axis=1)
    order = np.array([2, 1, 0])[z[:, 0].astype(int)]
    coded = factor_vae_score(np.c_[order, z[:, 1:]], z_hat, votes=(300, 300), shuffles=0)
    assert factor_vae_score(words, z_hat, votes=(300, 300), shuffles=0).score == coded.score
    assert wide.kinds == "Factors (detected by their values): discrete z1, z2, z3, z4"


def test_kinds_change_what_is_fixed_and_are_said() -> None:
    z = samples("discrete")
    declared = factor_vae_score(z, z, discrete=False, votes=(50, 50), shuffles=0)
    assert declared.kinds == "Factors (declared): continuous z1, z2, z3, z4"
    assert declared.notes[0].startswith("Cut into up to")
    fewer = factor_vae_score(z, z, discrete=False, bins=2, votes=(50, 50), shuffles=0)
    assert fewer.notes != declared.notes
