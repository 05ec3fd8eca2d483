"""The audit names the smallest group up to which runs agree, beside chance, the input and what ICA can do."""

import json
from math import isnan

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from scipy.stats import ortho_group

from noumena import align
from noumena.audits import alignment_errors, audit
from noumena.audits.record import CONSISTENCY, overall_efficiency
from noumena.checks import InputError
from noumena.guarantees.agreement import AFFINE, ICA, PERMUTATION, RIGID, efficiency
from noumena.guarantees.lipschitz import diameter

N, D = 1500, 5
RNG = np.random.default_rng(0)
SOURCE = RNG.laplace(size=(N, D)) * [1, 2, 3, 4, 5]
TURNS = [ortho_group.rvs(D, random_state=k) for k in range(3)]
MATRIX = RNG.normal(size=(D, D))
NOISE = RNG.laplace(size=(N, D)) * 3
QUICK = {"ica": False, "shuffles": 1}


@pytest.mark.parametrize(
    ("other", "group", "zero"),
    [
        (-SOURCE[:, [2, 0, 1, 4, 3]] + 5, PERMUTATION, {PERMUTATION, RIGID, AFFINE}),
        (3 * SOURCE @ TURNS[0] + 5, RIGID, {RIGID, AFFINE}),
        (SOURCE @ MATRIX + 5, AFFINE, {AFFINE}),
        (NOISE, "none", set()),
    ],
    ids=["signed permutation", "rigid", "affine", "noise"],
)
def test_the_smallest_group_up_to_which_runs_agree_is_named(other, group, zero):
    found = audit([SOURCE, other], **QUICK)
    assert found.group == group
    assert {kind for kind in (PERMUTATION, RIGID, AFFINE) if np.nanmax(found.errors[kind]) < 1e-6} == zero
    assert {kind for kind in (PERMUTATION, RIGID, AFFINE) if np.nanmin(found.r2[kind]) > 1 - 1e-9} == zero
    word = {"none": "Not stable up to any affine map", RIGID: "Stable up to rigid motions with one scale"}
    assert found.verdict.startswith(word.get(group, f"Stable up to {group}"))
    assert CONSISTENCY in found.warnings


def test_the_conclusion_is_an_ambiguity_that_align_removes():
    other = SOURCE @ TURNS[0]
    found = audit([SOURCE, other], **QUICK)
    assert align(SOURCE, other, up_to=found.up_to).error < 1e-9
    assert audit([SOURCE, NOISE], **QUICK).up_to.group == "any"


def test_independent_runs_are_as_far_apart_as_chance():
    found = audit([SOURCE, NOISE], **QUICK)
    for kind in (RIGID, AFFINE):
        assert np.nanmean(found.errors[kind]) == pytest.approx(np.nanmean(found.chance[kind]), rel=0.05)
        assert abs(np.nanmean(found.r2[kind])) < 0.02


def test_every_error_is_in_the_targets_space_over_the_targets_diameter():
    other = SOURCE @ TURNS[0] + NOISE * [0.1, 0.2, 0.1, 0.3, 0.1]
    found = audit([SOURCE, 7 * other], held_out=False, **QUICK)
    for a, b, target, source in ((0, 1, SOURCE, other), (1, 0, other, SOURCE)):
        for kind, up_to in ((RIGID, "similarity"), (AFFINE, "affine")):
            moved = align(target, source, up_to=up_to).aligned
            rows = np.linalg.norm(moved - target, axis=1) / diameter(target)
            assert found.errors[kind][a, b] == pytest.approx(rows.mean(), rel=1e-6)
            assert found.largest[kind][a, b] == pytest.approx(rows.max(), rel=1e-6)
            r2 = 1 - ((moved - target) ** 2).sum() / ((target - target.mean(axis=0)) ** 2).sum()
            assert found.r2[kind][a, b] == pytest.approx(r2, rel=1e-6)
    assert np.isnan(np.diag(found.errors[RIGID])).all()
    assert found.errors[AFFINE][0, 1] != pytest.approx(found.errors[AFFINE][1, 0], rel=1e-3)
    assert "in-sample" in str(found)


def test_held_out_errors_come_from_rows_that_were_not_fitted():
    rng = np.random.default_rng(1)
    g, h = rng.normal(size=(2, 300, 20))
    inside, outside = (audit([g, h], held_out=held_out, **QUICK) for held_out in (False, True))
    assert np.nanmean(inside.r2[AFFINE]) > 0.04
    assert np.nanmean(outside.r2[AFFINE]) < 0
    assert np.nanmean(outside.spread[AFFINE]) > 0
    assert np.nanmax(inside.spread[AFFINE]) == 0


def test_a_leak_through_groups_is_closed_by_naming_them():
    rng = np.random.default_rng(2)
    molecule = np.repeat(np.arange(24), 25)
    g, h = (rng.normal(size=(24, 30))[molecule] + 0.05 * rng.normal(size=(600, 30)) for _ in range(2))
    leaky, honest = audit([g, h], **QUICK), audit([g, h], groups=molecule.astype(str), **QUICK)
    assert np.nanmin(leaky.r2[AFFINE]) > 0.95
    assert leaky.group == AFFINE
    assert np.nanmax(honest.r2[AFFINE]) < 0.1
    assert honest.group == "none"


def test_ica_finds_the_axes_of_laplace_sources_whatever_the_rotation():
    s = np.random.default_rng(3).laplace(size=(4000, D))
    found = audit([s @ turn for turn in TURNS[:2]], folds=2, shuffles=1)
    assert overall_efficiency(found) > 0.85
    assert np.nanmin(found.efficiency) > 0.85
    assert found.axes.found == D
    assert found.axes.which == tuple(range(D))
    assert max(found.axes.gaussian) == 0
    assert "5 of 5 axes are found again in every run" in found.verdict
    assert len(found.warnings) == 1
    stable = found.axes.unmixing(s @ TURNS[0])
    assert np.abs(np.corrcoef(stable, s, rowvar=False)[:D, D:]).max(axis=1).min() > 0.97


def test_ica_has_nothing_to_find_in_gaussian_rows_and_says_so():
    z = np.random.default_rng(4).normal(size=(1200, 12))
    found = audit([z @ ortho_group.rvs(12, random_state=k) for k in range(2)], folds=2, shuffles=1)
    assert found.group == RIGID
    assert overall_efficiency(found) < 0.2
    assert found.axes.found <= 1
    assert min(found.axes.gaussian) > 8
    assert any("cannot be told from Gaussian" in warning for warning in found.warnings)


def test_axes_must_be_found_in_every_run_and_are_named():
    s = np.random.default_rng(5).laplace(size=(3000, 4))
    other = s.copy()
    other[:, 2] = np.random.default_rng(6).laplace(size=3000)
    found = audit([s, s @ ortho_group.rvs(4, random_state=0), other], folds=2, shuffles=1)
    assert found.axes.found == 3
    lost = set(range(4)) - set(found.axes.which)
    axes = found.axes.unmixing(s)
    assert lost == {int(np.abs(np.corrcoef(axes.T, s[:, 2])[4, :4]).argmax())}


def test_runs_that_are_linear_images_of_the_input_are_told():
    x = np.random.default_rng(7).normal(size=(800, 6))
    linear = audit([x @ RNG.normal(size=(6, 6)) for _ in range(2)], input=x, **QUICK)
    assert "explains linearly" in linear.verdict
    assert "they are (nearly) linear images of the input" in linear.verdict
    assert linear.trivial.r2.min() > 1 - 1e-9
    assert linear.trivial.errors.max() < 1e-6
    curved = audit([np.sin(3 * x), -np.sin(3 * x)], input=x, **QUICK)
    assert "linear images" not in curved.verdict
    assert "explains less than the runs do of each other" in curved.verdict
    assert curved.trivial.r2.max() < 0.1
    parts = audit([x[:, :3], x[:, 3:]], input=x, **QUICK)
    assert parts.group == "none"
    assert "Without agreeing" in parts.verdict
    assert "the runs are (nearly) linear images of the input" in parts.verdict
    assert "does not explain the runs either" in audit([SOURCE, NOISE], input=RNG.normal(size=(N, D)), **QUICK).verdict


def test_a_wide_input_is_held_back_by_a_ridge_chosen_inside_the_fitted_rows():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(200, 300))
    z = x[:, :10] @ rng.normal(size=(10, 3)) + 0.1 * rng.normal(size=(200, 3))
    found = audit([z, z @ TURNS[0][:3, :3]], input=x, **QUICK)
    noise = audit([z, z @ TURNS[0][:3, :3]], input=rng.normal(size=(200, 300)), **QUICK)
    assert found.trivial.ridge
    assert found.trivial.r2.min() > 0.2
    assert noise.trivial.r2.max() < 0.05
    assert noise.trivial.r2.min() > -0.3


def test_a_column_of_the_input_that_hardly_varies_does_no_harm():
    x = np.c_[SOURCE, np.where(np.arange(N) == 3, 1e-30, 0)].astype(np.float32)
    found = audit([SOURCE, SOURCE], input=x, **QUICK)
    assert found.trivial.r2.min() > 0.999


def test_columns_of_the_input_that_vary_in_one_group_only_do_not_explode():
    group = np.arange(N) % 5
    rare = np.where(group == 2, SOURCE[:, 0], 0) + 1e-7 * np.random.default_rng(11).normal(size=N)
    found = audit([SOURCE, SOURCE], input=np.c_[SOURCE[:, 1:], rare], groups=group, **QUICK)
    assert 0.5 < found.trivial.r2.min() < 1


def test_an_input_of_very_many_columns_is_reduced_and_said_so():
    x = np.random.default_rng(9).normal(size=(60, 1100))
    found = audit([x[:, :2], x[:, :2]], input=x, **QUICK)
    assert any("1100 columns reduced to their 59 leading directions" in note for note in found.notes)


def test_affine_maps_of_few_rows_are_held_back_and_said_so():
    rng = np.random.default_rng(10)
    g = rng.normal(size=(100, 80))
    found = audit([g, g + 0.05 * rng.normal(size=(100, 80))], **QUICK)
    assert np.nanmin(found.r2[AFFINE]) > 0.3
    assert any("regularised by a ridge: 80 fitted rows for 80 columns" in note for note in found.notes)


def test_ica_of_few_rows_is_not_judged_and_said_so():
    found = audit([SOURCE[:80], SOURCE[:80] @ TURNS[0]], shuffles=1)
    assert ICA not in found.errors
    assert found.axes is None
    assert np.isnan(found.efficiency).all()
    assert any("run 1: ICA is not judged" in note for note in found.notes)


def test_different_widths_are_compared_in_the_wider_space():
    plane = SOURCE[:, :2] @ np.eye(2, 3) @ ortho_group.rvs(3, random_state=1)
    found = audit([SOURCE[:, :2], plane], folds=2, shuffles=1)
    assert np.nanmax(found.errors[RIGID]) < 1e-6  # a plane lies rigidly in space
    assert np.nanmax(found.errors[AFFINE]) < 1e-6
    assert found.shapes == ((N, 2), (N, 3))
    assert found.axes.components == (2, 2)
    wider = audit([SOURCE[:, :2], SOURCE[:, :3]], **QUICK)
    lost = np.abs(SOURCE[:, 2] - SOURCE[:, 2].mean()).mean() / diameter(SOURCE[:, :2])
    assert wider.errors[PERMUTATION][0, 1] == pytest.approx(lost, rel=0.02)


def test_the_first_sentence_counts_pairs_and_names_the_worst():
    found = audit({"a": SOURCE, "b": -SOURCE, "c": SOURCE @ TURNS[0]}, **QUICK)
    assert found.group == RIGID
    assert "2 of 6 directed pairs agree up to a smaller group." in found.verdict
    assert "Worst: " in found.verdict
    mixed = audit({"a": SOURCE, "b": -SOURCE, "c": NOISE}, **QUICK)
    assert mixed.group == "none"
    assert "2 of 6 directed pairs agree." in mixed.verdict


def test_a_pair_is_found_by_name_or_number():
    found = audit({"a": SOURCE, "b": SOURCE @ TURNS[0], "c": NOISE}, **QUICK)
    assert found.pair("a", "b") is found.pair(0, 1)
    assert found.pair(1, 2).source == "c"
    assert found.pair("b", "c").errors[RIGID] == found.errors[RIGID][1, 2]
    assert found.pair("b", "a").group == RIGID
    assert found.nearest.group == RIGID
    assert "c" in (found.farthest.source, found.farthest.target)
    for wrong, sentence in (((0, 0), "two runs. Got a twice"), (("a", "x"), "must be one of a, b, c"), ((0, 3), "be")):
        with pytest.raises(InputError, match=sentence):
            found.pair(*wrong)


def test_one_pair_alone_is_what_the_audit_says_of_it():
    other = SOURCE @ TURNS[0] + 0.3 * NOISE
    found, alone = audit([SOURCE, other], folds=2), alignment_errors(SOURCE, other, folds=2)
    assert alone == found.pair(0, 1)
    assert "run 2 onto run 1" in str(alone)


def test_the_record_survives_json():
    found = audit([SOURCE, SOURCE @ TURNS[0]], folds=2, input=SOURCE, shuffles=1)
    stored = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert stored["up_to"] == RIGID
    assert stored["errors"][RIGID][0][0] is None
    assert stored["errors"][RIGID][0][1] == pytest.approx(0, abs=1e-9)
    assert stored["axes"]["components"] == [D, D]
    assert stored["trivial"]["r2"] == pytest.approx([1, 1], abs=1e-4)
    assert stored["verdict"] == found.verdict
    assert len(stored["pairs"]) == 2
    for piece in ("Audit of 2 representations", found.verdict, "rigid+scale", CONSISTENCY):
        assert piece in str(found)


def test_the_same_seed_gives_the_same_numbers():
    other = SOURCE @ TURNS[0] + 0.3 * NOISE
    first, again, another = (audit([SOURCE, other], folds=2, random_state=seed) for seed in (0, 0, 1))
    assert first.to_dict() == again.to_dict()
    assert first.errors[RIGID][0, 1] != another.errors[RIGID][0, 1]


@pytest.mark.parametrize(
    ("errors", "published"),
    [
        ((0.219, 0.150, 0.202), 0.25),
        ((0.197, 0.109, 0.145), 0.59),
        ((0.218, 0.104, 0.175), 0.38),
        ((0.382, 0.206, 0.312), 0.40),
    ],
)
def test_the_efficiency_of_the_published_table_is_reproduced(errors, published):
    assert round(efficiency(*errors), 2) == published


def test_the_efficiency_is_that_of_the_errors():
    found = audit([SOURCE, SOURCE @ TURNS[0] + 0.1 * NOISE], folds=2, shuffles=1)
    e = {kind: found.errors[kind][0, 1] for kind in (PERMUTATION, RIGID, ICA)}
    assert found.efficiency[0, 1] == pytest.approx((e[PERMUTATION] - e[ICA]) / (e[PERMUTATION] - e[RIGID]))
    same = audit([SOURCE, SOURCE], folds=2, shuffles=1)
    assert isnan(same.efficiency[0, 1])
    assert "ICA has nothing to find" in same.verdict


def test_numbers_may_come_from_numpy_torch_pandas_or_a_stack():
    other = SOURCE @ TURNS[0]
    wanted = audit([SOURCE, other], **QUICK).errors[PERMUTATION]
    for kinds in (
        [torch.as_tensor(SOURCE), pd.DataFrame(other)],
        {"a": torch.tensor(SOURCE, requires_grad=True), "b": other},
        np.stack([SOURCE, other]),
    ):
        assert audit(kinds, **QUICK).errors[PERMUTATION] == pytest.approx(wanted, nan_ok=True)
    single = audit([SOURCE.astype(np.float32), torch.as_tensor(other).float()], **QUICK)
    assert single.errors[PERMUTATION] == pytest.approx(wanted, nan_ok=True, rel=1e-4)
    assert np.nanmax(single.errors[RIGID]) < 1e-5
    half = audit([torch.as_tensor(SOURCE).bfloat16(), other], **QUICK)
    assert np.nanmax(half.errors[RIGID]) < 0.01


def test_constant_columns_are_left_out_and_named():
    wide = np.c_[SOURCE[:, :2], np.full(N, 3.0), SOURCE[:, 2:]]
    found = audit({"a": wide, "b": SOURCE}, **QUICK)
    assert found.notes == ("a: 1 constant of 6 columns left out (2).",)
    assert found.group == PERMUTATION
    assert found.notes[0] in str(found)


def broken(rows):
    table = SOURCE.copy()
    table[rows, 1] = np.nan
    return table


@pytest.mark.parametrize(
    ("given", "settings", "sentence"),
    [
        ([SOURCE], {}, "two or more representations. Got 1"),
        (SOURCE, {}, "two or more representations. Got 1"),
        ({"a": SOURCE, "b": SOURCE[:-1]}, {}, "same rows, but a has 1500. Got 1499 in b"),
        (
            {"a": SOURCE, "b": broken([4, 17])},
            {},
            r"Every row of b must be finite. Got 2 with NaN or inf \(rows 4, 17\)",
        ),
        ([broken(range(9)), SOURCE], {}, r"Got 9 with NaN or inf \(rows 0, 1, 2, 3, 4 and 4 more\)"),
        ([SOURCE, np.ones_like(SOURCE)], {}, "run 2 must vary. Got constant columns only"),
        ([SOURCE, SOURCE[:, 0]], {}, "run 2 must have two axes"),
        ([SOURCE, [[1.0, 2.0], [3.0]]], {}, "run 2 must be a rectangular array of numbers"),
        ([SOURCE, csr_array(SOURCE)], {}, "run 2 must be a dense array. Got a sparse matrix"),
        ([SOURCE, torch.as_tensor(SOURCE).to_sparse()], {}, "run 2 must be a dense tensor. Got a sparse one"),
        ([SOURCE, np.full((N, 2), "word")], {}, "run 2 must hold numbers only"),
        ([SOURCE[:10], SOURCE[:10]], {}, "at least 20 rows to be compared. Got 10"),
        ([SOURCE, SOURCE], {"groups": np.arange(N - 1)}, "one label per row. Got 1499 labels for 1500 rows"),
        ([SOURCE, SOURCE], {"groups": ["all"] * N}, "two groups or more. Got all throughout"),
        ([SOURCE, SOURCE], {"groups": np.ones((N, 2))}, "one label per row. Got shape"),
        ([SOURCE, SOURCE], {"groups": [None, *range(N - 1)]}, "Every row must have a group. Got 1 without"),
        ([SOURCE, SOURCE], {"folds": 1}, "folds must be a whole number of at least 2"),
        ([SOURCE[:20], SOURCE[:20]], {"folds": 11}, "Every fold must have two rows or more"),
        ([SOURCE, SOURCE], {"shuffles": 0}, "shuffles must be a whole number of at least 1"),
        ([SOURCE, SOURCE], {"restarts": 1, "ica": True}, "restarts must be a whole number of at least 2"),
        ([SOURCE, SOURCE], {"input": SOURCE[:-1]}, "input must have the 1500 rows of the representations. Got 1499"),
        (
            [SOURCE, SOURCE],
            {"input": broken([3])},
            r"Every row of input must be finite. Got 1 with NaN or inf \(rows 3\)",
        ),
        ([SOURCE, SOURCE], {"data": SOURCE}, "data must come with models; for arrays use input="),
        ([NOISE[:30].T @ NOISE[:30] @ np.ones((5, 40)) + np.arange(5)[:, None]] * 2, {}, "at least 20 rows"),
        ([np.eye(20), np.eye(20)], {"held_out": False}, "In-sample errors must come from more than 21 rows"),
        ([SOURCE[:30], SOURCE[:30]], {"held_out": False, "input": np.eye(30)}, "the input must have more than 31 rows"),
        ([np.eye(20), np.eye(20)], {"folds": 2}, "folds must be 3 or more where there are fewer than 10 rows per"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_one_sentence(given, settings, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        audit(given, **{**QUICK, **settings})
    assert "\n" not in str(caught.value)


def test_fewer_groups_than_folds_are_one_fold_each():
    found = audit([SOURCE, SOURCE], groups=np.arange(N) % 3, **QUICK)
    assert found.folds == 3
    assert found.notes == ("There are 3 groups, so 3 folds in place of 5.",)
