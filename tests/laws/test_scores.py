"""Laws over every score: what it forgives, its chance, ceiling and uncertainty, and what may be handed to it."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from every_score import LEARNED, MOVES, NOISE, SCORES, Score, Z

from noumena.metrics import factors_of
from noumena.metrics.record import Interval, MetricRecord

every = pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
CLASSES = np.array([[0, 1, 2, 3, 4, 5, 6, 7, 8, 8], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]]).T * 1.0

LEVELS = np.random.default_rng(1).integers(0, 4, size=Z.shape) * 1.0


def values(found: MetricRecord) -> np.ndarray:
    return np.atleast_1d(np.asarray(found.value, dtype=float))


# ---- what is forgiven --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "move"), [(n, m) for n, s in SCORES.items() for m in s.forgives])
def test_what_a_score_forgives_changes_nothing(name: str, move: str) -> None:
    score = SCORES[name]
    plain, moved = score.call(Z, LEARNED, shuffles=0), score.call(Z, MOVES[move](LEARNED), shuffles=0)
    np.testing.assert_allclose(values(moved), values(plain), atol=score.near)


@pytest.mark.parametrize(("name", "move"), [(n, m) for n, s in SCORES.items() for m in s.punishes])
def test_what_a_score_does_not_forgive_costs_it_a_tenth_or_more(name: str, move: str) -> None:
    call = SCORES[name].call
    assert values(call(Z, MOVES[move](Z), shuffles=0))[0] < values(call(Z, Z, shuffles=0))[0] - 0.1


# ---- levels ------------------------------------------------------------------------------------------------------


@every
def test_the_truth_reaches_its_ceiling_and_noise_its_chance(score: Score) -> None:
    exact, nothing = score.call(Z, Z, ceiling=True), score.call(Z, NOISE, shuffles=3)
    np.testing.assert_allclose(values(exact), np.atleast_1d(exact.ceiling), atol=score.near + 0.05)
    k = score.judged
    assert values(exact)[k] > 0.8
    assert values(exact)[k] > np.atleast_1d(exact.chance)[k] + 0.1
    assert values(nothing)[k] == pytest.approx(np.atleast_1d(nothing.chance)[k], abs=0.2)


@every
def test_levels_are_measured_on_request_alone_and_leave_the_score_as_it_is(score: Score) -> None:
    bare, full = score.call(Z, LEARNED, shuffles=0), score.call(Z, LEARNED, shuffles=2, ceiling=True, subsamples=10)
    assert (bare.chance, bare.ceiling, bare.uncertainty) == (None, None, None)
    np.testing.assert_allclose(values(full), values(bare), atol=1e-9)
    np.testing.assert_allclose(np.atleast_1d(full.ceiling), values(score.call(Z, Z, shuffles=0)), atol=0.05)
    intervals = [full.uncertainty] if isinstance(full.uncertainty, Interval) else full.uncertainty
    for value, interval in zip(values(full), intervals, strict=True):
        assert interval.draws == 10
        assert 0 <= interval.error < 0.3
        assert interval.low <= value <= interval.high


@every
def test_the_seed_decides_all_that_is_drawn(score: Score) -> None:
    settings: dict[str, Any] = {"shuffles": 1, "subsamples": 10}
    one, same, other = (score.call(Z, LEARNED, random_state=seed, **settings) for seed in (1, 1, 2))
    assert one.to_dict() == same.to_dict()
    assert one.chance != other.chance
    assert one.uncertainty != other.uncertainty
    assert score.seeded or one.value == other.value


@pytest.mark.parametrize("name", [name for name, score in SCORES.items() if score.cap])
def test_rows_are_capped_and_drawn_by_the_seed(name: str) -> None:
    score = SCORES[name]
    share = 5 if name == "sis" else 1  # of which a fifth is judged
    first, again, other = (score.call(Z, LEARNED, random_state=s, shuffles=0, **{score.cap: 100}) for s in (1, 1, 2))
    assert first.rows == 100 // share
    assert score.call(Z, LEARNED, shuffles=0).rows == len(Z) // share
    assert first.value == again.value != other.value


@pytest.mark.parametrize("name", [name for name, score in SCORES.items() if score.spares])
def test_large_tables_take_fewer_shuffles_and_one_at_least(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = SCORES[name].call
    assert call(Z, LEARNED).shuffles in (5, 20)
    assert call(Z, LEARNED, shuffles=3).shuffles == 3
    monkeypatch.setattr("noumena.metrics.correlation.MOST_PRODUCTS", 1)
    assert [call(Z, LEARNED, shuffles=n).shuffles for n in (20, 0)] == [1, 0]


@every
@pytest.mark.parametrize("unit", [1e300, 1e-300, 1e9], ids=["huge", "tiny", "large"])
def test_units_of_true_and_learned_latents_do_not_matter(score: Score, unit: float) -> None:
    units, told = np.array([unit, 1.0, 1 / unit]), {"discrete": True} if score.discrete else {}
    for z, settings in ((Z, {}), (LEVELS, told)):
        plain, far = score.call(z, LEARNED, **settings), score.call(z * unit, LEARNED * units, **settings)
        np.testing.assert_allclose(values(far), values(plain), atol=max(score.near, 1e-6))
        json.dumps(far.to_dict(), allow_nan=False)


@pytest.mark.parametrize("name", [name for name in SCORES if name not in ("dci", "votes")])
def test_chance_is_the_mean_score_of_shuffled_rows(name: str) -> None:
    call, z, learned = SCORES[name].call, Z[:80], LEARNED[:80]
    rng = np.random.default_rng(0)
    drawn = np.array([values(call(z, learned[rng.permutation(80)], shuffles=0)) for _ in range(12)])
    chance = np.atleast_1d(call(z, learned, shuffles=12).chance)
    error = drawn.std(axis=0, ddof=1) * np.sqrt(2 / 12)
    np.testing.assert_array_less(np.abs(chance - drawn.mean(axis=0)), 5 * error + 1e-9)


FRESH = np.random.default_rng(7).normal(size=(24, 400, 6))


@pytest.mark.parametrize("name", ["mcc", "mcc by ranks", "weak mcc", "r2", "block r2", "block r2 of blocks"])
def test_the_standard_error_is_about_the_spread_over_fresh_samples(name: str) -> None:
    call = SCORES[name].call
    pairs = [(t[:, :3], t[:, :3] + t[:, 3:]) for t in FRESH]
    spread = np.std([values(call(*pair, shuffles=0)) for pair in pairs], axis=0, ddof=1)
    found = [call(*pair, shuffles=0, subsamples=20).uncertainty for pair in pairs[:5]]
    errors = np.mean([[i.error for i in ([f] if isinstance(f, Interval) else f)] for f in found], axis=0)
    assert ((errors > 0.4 * spread) & (errors < 2.5 * spread)).all()


# ---- records -----------------------------------------------------------------------------------------------------


@every
def test_a_record_says_what_each_of_its_numbers_is_and_becomes_json(score: Score) -> None:
    found = score.call(Z, LEARNED, ceiling=True, shuffles=1, subsamples=10)
    assert len(found.numbers) == len(score.says)
    for number, (title, within, forgives, word) in zip(found.numbers, score.says, strict=True):
        claim = number.claim
        assert (claim.title, claim.range, str(claim.forgives)) == (title, within, forgives)
        assert word in claim.supports
        assert claim.supports.endswith(".")
        assert within[0] <= number.value <= within[1]
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert list(content["supports"]) == [title for title, *_ in score.says]
    assert content["forgives"] == str(found.forgives)
    assert str(found).startswith(f"{score.says[0][0]} {values(found)[0]:.2f} ± ")
    assert f"; forgives {found.forgives}" in str(found)


# ---- what may be handed to it --------------------------------------------------------------------------------------


@every
def test_tensors_frames_lists_and_known_factors_score_as_arrays(score: Score) -> None:
    plain = score.call(Z, LEARNED)
    for z, learned in (
        (torch.tensor(Z), torch.tensor(LEARNED)),
        (pd.DataFrame(Z, columns=list("abc")), pd.DataFrame(LEARNED, columns=list("uvw"))),
        (Z.tolist(), np.asfortranarray(LEARNED)),
        (factors_of(Z), LEARNED.astype(object)),
    ):
        found = score.call(z, learned)
        np.testing.assert_allclose(values(found), values(plain), atol=1e-9)
        np.testing.assert_allclose(np.atleast_1d(found.chance), np.atleast_1d(plain.chance), atol=1e-9)
    single = score.call(torch.tensor(Z).float(), LEARNED.astype(np.float32))
    np.testing.assert_allclose(values(single), values(plain), atol=0.02)


@every
def test_constant_learned_latents_know_nothing(score: Score) -> None:
    none = score.call(Z, np.tile([7.0, 0.1, 3.0], (len(Z), 1)))
    np.testing.assert_allclose(values(none), 0, atol=0.1)
    np.testing.assert_allclose(np.atleast_1d(none.chance), 0, atol=0.1)
    if score.dead:
        plain = score.call(Z, LEARNED, shuffles=0)
        beside = score.call(Z, np.c_[LEARNED, np.full(len(Z), 0.1), np.zeros(len(Z))], shuffles=0)
        np.testing.assert_allclose(values(beside), values(plain), atol=score.near)


@pytest.mark.parametrize("name", [name for name, score in SCORES.items() if score.still])
def test_a_constant_true_latent_is_left_out_or_counts_zero_and_it_is_said(name: str) -> None:
    score = SCORES[name]
    plain, dead = (score.call(z, LEARNED, shuffles=0) for z in (Z, np.c_[Z, np.full(len(Z), 7.0)]))
    share = 1 if score.still == "left out" else 3 / 4
    np.testing.assert_allclose(values(dead), share * values(plain), atol=score.near)
    if score.still == "counts 0":
        assert str(dead).endswith("; constant and counted 0: z4")
    assert "constant" not in str(plain)


@every
def test_the_fewest_rows_are_defined(score: Score) -> None:
    told: dict[str, Any] = {"discrete": True} if score.discrete else {}
    z = CLASSES if score.discrete else Z[: score.least, :2]
    for learned in (LEARNED[: len(z), :2], np.ones((len(z), 2)), LEARNED[: len(z), :1]):
        if score.says[0][0] not in ("SIS", "Block R²", "FactorVAE score"):
            found = score.call(z, learned, ceiling=True, **told)
            assert np.isfinite([*values(found), *np.atleast_1d(found.chance), *np.atleast_1d(found.ceiling)]).all()
            assert all(n.claim.range[0] <= n.value <= n.claim.range[1] for n in found.numbers)
