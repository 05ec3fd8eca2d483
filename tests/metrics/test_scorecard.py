"""One call scores everything, says up to what the truth was found, and refuses in sentences what cannot be had."""

import json

import numpy as np
import pandas as pd
import pytest

from noumena.checks import InputError
from noumena.metrics import mcc, r2, score
from noumena.metrics.scorecard import METRICS, Scorecard

N = 400
Z = np.random.default_rng(0).uniform(-1, 1, size=(N, 3))
ROTATION = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
LADDER = ("mcc", "mcc_spearman", "r2", "kernel_r2")


@pytest.fixture(scope="module")
def card() -> Scorecard:
    return score(Z, -Z[:, [2, 0, 1]], subsamples=0)


def test_every_score_is_there_with_chance_and_ceiling(card: Scorecard) -> None:
    assert tuple(card.records) == METRICS
    assert not card.refused
    for number in card.numbers:
        assert number.value == pytest.approx(number.ceiling, abs=0.05), number.claim.title
        assert number.claim.supports.endswith(".")
        assert number.claim.range[0] - 1e-9 <= number.value <= number.claim.range[1] + 1e-9


def test_scores_are_those_of_the_single_calls(card: Scorecard) -> None:
    direct = mcc(Z, -Z[:, [2, 0, 1]])
    assert card["mcc"].score == pytest.approx(direct.score)
    assert card["mcc"].chance == pytest.approx(direct.chance, abs=1e-6)
    assert card["mcc"].permutation.tolist() == direct.permutation.tolist() == [1, 2, 0]
    assert card["kernel_r2"].score == pytest.approx(r2(Z, -Z[:, [2, 0, 1]], regressor="kernel").score)


@pytest.mark.parametrize(
    ("learned", "group"),
    [
        (-2 * Z[:, ::-1], "permutation+scaling"),
        (np.exp(3 * Z), "element-wise"),
        (Z @ ROTATION, "affine"),
        (np.sinh(2 * Z @ ROTATION) @ ROTATION, "any"),
        (np.random.default_rng(2).normal(size=Z.shape), None),
    ],
)
def test_the_reading_is_the_smallest_group_that_is_reached(learned: np.ndarray, group: str | None) -> None:
    found = score(Z, learned, metrics=LADDER)
    assert (None if found.up_to is None else found.up_to.group) == group
    assert ("no true latent was found" in found.reading) == (group is None)


def test_the_reading_looks_at_every_factor_and_names_those_that_are_missed() -> None:
    bent = np.column_stack([Z[:, :2], np.sign(Z[:, 2]) * np.abs(Z[:, 2]) ** 3])
    found = score(Z, bent, metrics=LADDER)
    assert found["mcc"].score > 0.95 * found["mcc"].ceiling
    assert found.up_to is not None
    assert found.up_to.group == "element-wise"
    lost = score(Z, Z[:, :2], metrics=LADDER)
    assert lost.reading == "On these rows z3 was not found, not even up to a smooth map of all latents."
    assert "z2, z3 were not found, not even up to order and scale" in score(Z, Z[:, :1], metrics=["mcc"]).reading


def test_the_reading_is_about_scores_that_were_asked_for() -> None:
    assert score(Z, Z @ ROTATION, metrics="mcc").up_to is None
    assert "No score was asked for" in score(Z, Z, metrics=["infomec"]).reading


def test_without_a_ceiling_the_reading_measures_against_one() -> None:
    plain = score(Z, Z, metrics="mcc", ceiling=False)
    assert plain["mcc"].ceiling is None
    assert plain.up_to is not None


def test_it_prints_a_line_per_number_and_says_what_it_saw(card: Scorecard) -> None:
    text = str(card)
    lines = text.splitlines()
    assert lines[0] == card.reading
    assert all(any(line.startswith(n.claim.title) for line in lines) for n in card.numbers)
    assert f"{N} rows, 3 factors, 3 learned latents." in text
    assert "Factors (detected by their values): continuous z1, z2, z3." in text


def test_it_becomes_json(card: Scorecard) -> None:
    content = json.loads(json.dumps(card.to_dict(), allow_nan=False))
    assert set(content["scores"]) == set(METRICS)
    assert content["scores"]["mcc"]["permutation"] == [1, 2, 0]
    assert content["reading"] == card.reading


def test_names_come_from_data_frames_and_words_are_factors() -> None:
    shape = np.where(Z[:, 0] > 0, "cube", "ball")
    z = pd.DataFrame({"shape": shape, "size": Z[:, 1]})
    z_hat = pd.DataFrame({"a": Z[:, 1], "b": Z[:, 0]})
    found = score(z, z_hat, metrics=["mcc", "infomec"])
    assert found.factors == ("shape", "size")
    assert found.quantities == ("size",)
    assert found.latents == ("a", "b")
    assert found.reading.startswith("On these rows every true latent that is no name was found up to order and scale")
    assert found["mcc"].per_latent == pytest.approx([1])
    assert found["infomec"].matrix.shape == (2, 2)
    assert any("left out" in note and "shape" in note for note in found.notes)
    assert "discrete shape" in found.kinds


def test_rows_are_thinned_and_it_is_said() -> None:
    found = score(Z, Z, metrics="mcc", max_rows=100)
    assert found.rows == 100
    assert "100 of 400 rows were drawn at random" in found.notes
    assert score(Z, Z, metrics="mcc", max_rows=None).rows == N


def test_what_cannot_be_had_is_refused_under_all_and_raised_when_named() -> None:
    fewer = score(Z, Z[:, :2])
    assert set(fewer.refused) == {"sis"}
    assert "as many learned latents as true ones" in fewer.refused["sis"]
    assert "sis: " in str(fewer)
    with pytest.raises(InputError, match="as many learned latents"):
        score(Z, Z[:, :2], metrics=["sis"])


def test_slots_reach_the_scores_of_groups() -> None:
    found = score(Z, Z, metrics=["sis", "block_r2"], slots=(2, 1))
    assert found["sis"].matrix.shape == (2, 2)
    assert found["block_r2"].matrix.shape == (3, 2)


def test_halves_of_the_rows_give_uncertainties() -> None:
    noisy = Z + 0.3 * np.random.default_rng(3).normal(size=Z.shape)
    found = score(Z, noisy, metrics="mcc", subsamples=20)
    assert 0.001 < found["mcc"].uncertainty.error < 0.05
    assert "±" in str(found)


def test_shuffles_are_passed_on() -> None:
    noise = np.random.default_rng(4).normal(size=Z.shape)
    assert score(Z, noise, metrics="mcc", shuffles=0)["mcc"].chance is None
    assert score(Z, noise, metrics="mcc", shuffles=3)["mcc"].shuffles == 3


def test_what_single_scores_remark_is_said() -> None:
    found = score(Z, Z * np.array([1, 1, 0.01]), metrics=["factor_vae", "infomec"])
    assert "InfoMEC: latents of small range are left out of InfoM and InfoC: ẑ3" in found.notes
    assert any(note.startswith("FactorVAE score: Pruned") and "latents 3" in note for note in found.notes)
    assert ".." not in str(found)
    assert not score(Z, Z, metrics=["infomec"]).notes


def test_progress_names_each_score() -> None:
    said: list[str] = []
    score(Z, Z, metrics=["mcc", "r2"], progress=said.append)
    assert said == ["mcc …", "r2 …"]


def test_an_unknown_score_is_asked_for_in_vain(card: Scorecard) -> None:
    with pytest.raises(InputError, match="must be one of mcc"):
        card["fid"]


def test_factors_that_never_vary_are_left_out_and_said() -> None:
    c = np.c_[Z, np.ones(len(Z))]
    found = score(c, c, metrics=["mcc", "r2"], shuffles=0)
    assert (
        found.reading
        == "On these rows every true latent that varies was found up to order and scale, each by one learned latent."
    )
    assert f"Factors that never vary are left out: z{c.shape[1]}" in found.notes
    assert found["mcc"].score == pytest.approx(1)


def test_names_with_an_underscore_are_names() -> None:
    plates = pd.DataFrame({"plate": ["1_2", "12", "2_1"] * (len(Z) // 3), "b": Z[: len(Z) // 3 * 3, 0]})
    found = score(plates, plates[["b"]], metrics=["mcc"], shuffles=0)
    assert found.quantities == ("b",)
    assert "left out of correlations and R²: plate" in found.notes[0]


def test_names_are_told_from_the_learned_latents_that_hold_them() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 3, N)
    z = pd.DataFrame({"a": Z[:, 0], "b": Z[:, 1], "colour": np.array(["red", "green", "blue"])[codes]})
    perfect = np.column_stack([Z[:, :2], codes])
    found = score(z, perfect)
    assert found["r2_true_to_learned"].per_target == pytest.approx([1, 1, 1])
    assert found["r2_true_to_learned"].ceiling == pytest.approx(1)
    assert sum("column of 0 and 1 for each name" in note for note in found.notes) == 1
    noise = np.column_stack([Z[:, :2], rng.normal(size=N)])
    assert score(z, noise, metrics="r2_true_to_learned")["r2_true_to_learned"].per_target[2] < 0.1
    alone = score(z, perfect, metrics=["r2_true_to_learned"], ceiling=False)
    assert alone["r2_true_to_learned"].ceiling is None
    assert alone.notes == ("R² from true to learned takes a column of 0 and 1 for each name: colour",)
    assert not any("for each name" in note for note in score(z, perfect, metrics=["mcc", "r2"]).notes)


def test_names_change_nothing_where_there_are_none() -> None:
    direct = r2(Z, Z @ ROTATION, direction="true to learned", ceiling=True)
    found = score(Z, Z @ ROTATION, metrics="r2_true_to_learned")["r2_true_to_learned"]
    assert (found.score, found.chance, found.ceiling) == (direct.score, direct.chance, direct.ceiling)


def test_a_scorecard_is_read_like_a_dictionary_of_records(card: Scorecard) -> None:
    assert "mcc" in card
    assert "fid" not in card
    assert list(card) == list(card.records)
    assert len(card) == len(METRICS)
    assert {name: card[name] for name in card} == card.records


def test_names_with_few_rows_each_are_left_out_of_every_regression() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 2))
    learned = z + rng.normal(size=(600, 2))
    who = np.array([f"p{k}" for k in rng.integers(0, 300, 600)])
    plain = score(z, learned, metrics=["r2_true_to_learned"])["r2_true_to_learned"]
    frame = pd.DataFrame({"a": z[:, 0], "b": z[:, 1], "who": who})
    card = score(frame, learned, metrics=["r2_true_to_learned"])
    assert card["r2_true_to_learned"].score == pytest.approx(plain.score)
    assert "It leaves out factors with fewer than 10 rows for a name: who" in card.notes


def test_names_alone_are_inputs_too() -> None:
    rng = np.random.default_rng(0)
    shape = rng.integers(0, 3, 300)
    frame = pd.DataFrame({"shape": np.array(["ball", "cube", "cone"])[shape]})
    card = score(frame, np.c_[shape, rng.normal(size=300)], metrics=["r2_true_to_learned"])
    assert card["r2_true_to_learned"].per_target[0] == pytest.approx(1)
    assert card["r2_true_to_learned"].ceiling is None
