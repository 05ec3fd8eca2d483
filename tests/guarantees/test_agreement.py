"""Agreement: every group is forgiven exactly, noise is what is left, and shuffled rows are chance."""

from math import isnan, sqrt

import numpy as np
import pytest
from scipy.stats import ortho_group

import noumena as nm
from noumena import align
from noumena.checks import InputError
from noumena.guarantees.agreement import (
    AFFINE,
    ICA,
    PERMUTATION,
    RIGID,
    affine_map,
    agree,
    agreements,
    distances,
    efficiency,
    merged,
    moments,
    permutation_map,
    runs_of,
    similarity_map,
)
from noumena.guarantees.components import components, non_gaussian
from noumena.guarantees.unmixing import halves

N, D = 3000, 3
SOURCE = np.random.default_rng(0).laplace(size=(N, D))
ROTATION = ortho_group.rvs(D, random_state=1)
MATRIX = np.random.default_rng(2).normal(size=(D, D))


def pair(z, h):
    return agreements([z, h])[0]


@pytest.mark.parametrize(
    ("related", "forgiven"),
    [
        (-SOURCE[:, [2, 0, 1]] + 5, {PERMUTATION, RIGID, AFFINE, ICA}),
        (SOURCE @ ROTATION + 5, {RIGID, AFFINE, ICA}),
        (3 * SOURCE @ ROTATION + 5, {RIGID, AFFINE, ICA}),
        (SOURCE @ MATRIX + 5, {AFFINE, ICA}),
        (SOURCE**3, set()),
    ],
    ids=["signed permutation", "rigid", "similar", "affine", "curved"],
)
def test_exactly_what_a_group_contains_is_forgiven(related, forgiven):
    found = pair(SOURCE, related)
    assert {kind for kind, error in found.errors.items() if error < 1e-3} == forgiven
    assert all(found.errors[kind] < found.chance[kind] for kind in found.errors)


def test_gaussian_runs_agree_through_the_accidents_of_the_rows_they_share_and_are_refused():
    z, noise = np.random.default_rng(0).normal(size=(2, N, 2))
    run = z @ ortho_group.rvs(2, random_state=1) + 0.01 * noise
    assert pair(z, run).errors[ICA] < 0.01  # stable, although there is nothing to find
    assert non_gaussian((components(z), components(run))).answer == "fails"
    assert pair(z, run + 0.3 * noise).errors[ICA] > pair(z, run + 0.3 * noise).errors[RIGID]


def test_errors_are_means_over_held_out_rows_divided_by_the_largest_distance():
    noise = 0.1 * np.random.default_rng(5).normal(size=SOURCE.shape)
    found = pair(SOURCE, SOURCE + noise)
    fitted, measured = halves(N, 0)
    size = max(float(np.linalg.norm(SOURCE - row, axis=1).max()) for row in SOURCE)
    assert found.diameter == pytest.approx(size)
    transform = align(SOURCE[fitted], (SOURCE + noise)[fitted], up_to="affine").transform
    rows = np.linalg.norm(transform((SOURCE + noise)[measured]) - SOURCE[measured], axis=1) / size
    assert found.errors[AFFINE] == pytest.approx(rows.mean())
    assert found.largest[AFFINE] == pytest.approx(rows.max())


def test_the_signed_permutation_is_that_of_all_rows():
    rng = np.random.default_rng(6)
    for _ in range(6):
        g = rng.laplace(size=(100, 3))
        h = (g + rng.laplace(size=(100, 3))) @ rng.normal(size=(3, 3)) + 3
        found = pair(g, h)
        fitted, measured = halves(100, 0)
        centre_g, centre_h = g[fitted].mean(axis=0), h[fitted].mean(axis=0)
        turn = align(g[fitted] - centre_g, h[fitted] - centre_h, up_to="signed permutation").transform
        rows = np.linalg.norm(turn(h[measured] - centre_h) + centre_g - g[measured], axis=1)
        assert found.errors[PERMUTATION] == pytest.approx(rows.mean() / found.diameter)


def test_a_least_squares_map_that_memorises_is_not_rewarded():
    rng = np.random.default_rng(7)
    g, h = rng.laplace(size=(2, 200, 20))
    found = pair(g, h)
    assert found.errors[AFFINE] > 0.9 * found.chance[AFFINE]
    assert agree([found]).answer == "fails"


def test_chance_is_the_error_of_shuffled_rows():
    found = pair(SOURCE, SOURCE)
    spread = np.linalg.norm(SOURCE - SOURCE.mean(axis=0), axis=1).mean() / found.diameter
    assert found.errors[AFFINE] == pytest.approx(0, abs=1e-9)
    assert found.chance[RIGID] == pytest.approx(spread, rel=0.05)
    assert found.chance[AFFINE] == pytest.approx(spread, rel=0.05)
    assert found.chance[PERMUTATION] == pytest.approx(sqrt(2) * spread, rel=0.1)


def test_every_pair_of_runs_is_compared_once():
    runs = [SOURCE, SOURCE @ ROTATION, SOURCE @ MATRIX]
    found = agreements(runs)
    assert [a.runs for a in found] == [(0, 1), (0, 2), (1, 2)]
    assert found[2].errors == pair(runs[1], runs[2]).errors


def test_runs_of_different_rank_have_as_many_components_to_match_as_the_one_with_fewer():
    flat = np.c_[SOURCE[:, :2], SOURCE[:, 0] + SOURCE[:, 1]]
    found = pair(SOURCE, flat)
    lost = np.abs(SOURCE[:, 2] - SOURCE[:, 2].mean()).mean() / found.diameter
    assert found.errors[ICA] == pytest.approx(lost, rel=0.05)
    assert pair(flat, SOURCE).errors[ICA] < 0.01


def test_runs_of_different_widths_are_compared_in_the_wider_space():
    plane, space = SOURCE[:, :2], SOURCE[:, :2] @ ROTATION[:2] + 5
    for g, h in ((plane, space), (space, plane)):
        m = moments(g, h)
        assert distances(similarity_map(m), g, h).max() < 1e-9
        assert distances(affine_map(m), g, h).max() < 1e-9
    m = moments(SOURCE, -SOURCE[:, [1, 0]])
    assert distances(permutation_map(m), SOURCE, -SOURCE[:, [1, 0]]) == pytest.approx(
        np.abs(SOURCE[:, 2] - SOURCE[:, 2].mean())
    )
    assert distances(permutation_map(m.flipped), -SOURCE[:, [1, 0]], SOURCE) == pytest.approx(
        np.abs(SOURCE[:, 2] - SOURCE[:, 2].mean())
    )


def test_moments_of_parts_are_those_of_all_rows():
    g, h = SOURCE[:500] + 9, SOURCE[:500] @ MATRIX
    whole = moments(g, h)
    parts = merged([moments(g[rows], h[rows]) for rows in (slice(0, 7), slice(7, 300), slice(300, 500))])
    for name in ("n", "mean_g", "mean_h", "gg", "hh", "gh"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name))
    assert whole.gh == pytest.approx(np.cov(g, h, rowvar=False, bias=True)[:3, 3:])


def test_a_redundant_column_does_not_disturb_least_squares():
    redundant = np.c_[SOURCE, SOURCE[:, 0] - SOURCE[:, 1]] * [1e-4, 1, 1e4, 1]
    assert distances(affine_map(moments(SOURCE, redundant)), SOURCE, redundant).max() < 1e-6


def test_efficiency_is_the_share_of_what_a_rigid_map_gains():
    assert efficiency(0.4, 0.2, 0.2) == 1
    assert efficiency(0.4, 0.2, 0.4) == 0
    assert efficiency(0.4, 0.2, 0.3) == pytest.approx(0.5)
    for published, share in (
        ((0.219, 0.150, 0.202), 0.25),
        ((0.218, 0.104, 0.175), 0.38),
        ((0.382, 0.206, 0.312), 0.40),
    ):
        assert efficiency(*published) == pytest.approx(share, abs=0.006)
    assert isnan(efficiency(0.2, 0.2, 0.1))
    assert isnan(efficiency(0.2, 0.199, 0.1))
    assert pair(SOURCE, SOURCE @ ROTATION).efficiency == pytest.approx(1, abs=0.02)


def test_the_words_name_runs_errors_and_chance():
    text = str(pair(SOURCE, SOURCE @ ROTATION))
    for piece in ("runs 1 and 2", "rigid+scale 0.000", "chance", "ICA efficiency 100%"):
        assert piece in text
    assert "nothing to gain" in str(pair(SOURCE, SOURCE))


def test_known_unmixings_give_the_numbers_of_fresh_ones():
    runs = [SOURCE, SOURCE @ MATRIX]
    known = [components(run, seed=3).unmixing for run in runs]
    assert agreements(runs, unmixings=known, seed=3) == agreements(runs, seed=3)


def test_the_same_seed_gives_the_same_numbers():
    assert agreements([SOURCE, SOURCE @ MATRIX]) == agreements([SOURCE, SOURCE @ MATRIX])
    assert agreements([SOURCE, SOURCE**3], seed=1) != agreements([SOURCE, SOURCE**3])


def test_the_worst_pair_decides_whether_runs_agree():
    other = np.random.default_rng(8).laplace(size=SOURCE.shape)
    told = agree(agreements([SOURCE, SOURCE @ MATRIX, other]))
    assert told.answer == "fails"
    assert "and 3 are worst" in told.evidence
    assert agree(agreements([SOURCE, SOURCE @ MATRIX])).answer == "supported"


@pytest.mark.parametrize(("noise", "answer"), [(0.4, "supported"), (1.5, "fails")])
def test_runs_must_be_far_better_than_chance(noise, answer):
    blurred = SOURCE + noise * np.random.default_rng(9).laplace(size=SOURCE.shape)
    found = pair(SOURCE, blurred)
    assert found.errors[AFFINE] < 0.95 * found.chance[AFFINE]
    assert agree([found]).answer == answer


def third_column(size, rng):
    """The third column, of another size than the others, has nothing to do with that of the other run."""
    a = SOURCE * [1, 1, size]
    return a, np.c_[a[:, :2], rng.permutation(a[:, 2])], 2


def last_columns(k, rng):
    """The last of ten equal columns have nothing to do with those of the other run."""
    a, b = rng.laplace(size=(2, N, 10))
    return a, np.c_[a[:, : 10 - k], b[:, 10 - k :]], 10 - k


def huge_rows(share, rng):
    """A few huge rows are equal, the others have nothing in common."""
    a, b = rng.laplace(size=(2, N, D))
    huge = rng.random((N, 1)) < share
    return np.where(huge, 1000 * a, a), np.where(huge, 1000 * a, b), 0


def huge_entries(share, rng):
    """As before, in the third column; the others are equal."""
    a, b, _ = huge_rows(share, rng)
    return np.c_[SOURCE[:, :2], a[:, 2]], np.c_[SOURCE[:, :2], b[:, 2]], 2


def common_mode(size, rng):
    """One direction is shared and large, the others have nothing in common."""
    shared = size * rng.laplace(size=(N, 1))
    return shared + rng.laplace(size=(N, D)), shared + rng.laplace(size=(N, D)), 1


PARTLY = [
    (third_column, 1 / 10), (third_column, 1 / 3), (last_columns, 1), (last_columns, 2),
    (huge_rows, 0.02), (huge_rows, 0.2), (huge_entries, 0.02), (common_mode, 30),
]  # fmt: skip


@pytest.mark.parametrize(("share", "size"), PARTLY)
def test_runs_that_share_some_directions_or_rows_do_not_agree(share, size):
    a, b, shared = share(size, np.random.default_rng(10))
    for runs in ([a, b], [b, a]):
        found = agreements(runs)
        assert [agree(found, kind).answer for kind in (RIGID, AFFINE, ICA)] == ["fails"] * 3
        assert f"{shared} of {a.shape[1]} directions agree" in agree(found).evidence
        assert nm.certify(runs).ambiguity(0) == nm.Ambiguity("any")


def test_components_that_agree_are_counted():
    for share, size in ((third_column, 1 / 10), (last_columns, 2)):
        a, b, shared = share(size, np.random.default_rng(10))
        assert f"{shared} of {a.shape[1]} components agree" in agree(agreements([a, b]), ICA).evidence


@pytest.mark.parametrize("noise", [0.1, 0.2])
@pytest.mark.parametrize("law", ["laplace", "uniform", "exponential", "normal"])
@pytest.mark.parametrize("d", [2, 5])
def test_noise_on_both_runs_leaves_their_agreement(law, noise, d):
    rng = np.random.default_rng(11)
    z = getattr(rng, law)(size=(N, d))
    a, b = (z + noise * z.std() * rng.normal(size=z.shape) for _ in range(2))
    found = agreements([a, 3 * b @ ortho_group.rvs(d, random_state=2) + 5])
    kinds = (RIGID, AFFINE) if law == "normal" else (RIGID, AFFINE, ICA)  # Gaussian rows have no components to agree
    assert [agree(found, kind).answer for kind in kinds] == ["supported"] * len(kinds)


def test_sizes_of_columns_do_not_matter_to_what_is_left_by_an_affine_map():
    a, b = SOURCE, SOURCE @ MATRIX + 0.3 * np.random.default_rng(12).normal(size=SOURCE.shape)
    plain, sized = pair(a, b), pair(a * [1e-4, 1, 1e4] + 7, b)
    assert sized.unexplained[AFFINE] == pytest.approx(plain.unexplained[AFFINE], rel=1e-5)
    assert sized.unexplained_near[AFFINE] == pytest.approx(plain.unexplained_near[AFFINE], rel=1e-5)


def test_a_run_that_lost_a_direction_does_not_agree_with_one_that_has_it():
    flat = np.c_[SOURCE[:, :2], SOURCE[:, 0] + SOURCE[:, 1]]
    for runs in ([SOURCE, flat], [flat, SOURCE]):
        found = agreements(runs)
        assert agree(found).answer == agree(found, ICA).answer == "fails"
        assert "2 of 3 components" in agree(found, ICA).evidence
    assert agree(agreements([flat, 2 * flat])).answer == "supported"


def test_most_rows_the_same_are_no_obstacle():
    rows = SOURCE * (np.random.default_rng(13).random((N, 1)) < 0.3)
    found = agreements([rows, rows @ ROTATION])
    assert [agree(found, kind).answer for kind in (RIGID, AFFINE, ICA)] == ["supported"] * 3


def test_few_rows_show_no_agreement():
    assert agreements([SOURCE[:39], SOURCE[:39]]) == ()
    assert agree(()).answer == "unknown"


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ([SOURCE], "two or more representations. Got 1"),
        ([SOURCE, SOURCE[:-1]], "run 1 and run 2 must share their batch axis"),
        ([SOURCE, SOURCE, SOURCE[:, :2]], "run 1 and run 3 must have equally many columns. Got 3 and 2"),
        ([SOURCE, np.ones_like(SOURCE)], "run 2 must vary in every column"),
        ([SOURCE[:1], SOURCE[:1]], "run 1 must have at least 2 rows"),
        ([SOURCE, np.full_like(SOURCE, np.nan)], "run 2 must be finite"),
    ],
    ids=["one", "rows", "columns", "constant", "one row", "nan"],
)
def test_bad_runs_are_one_sentence(tables, sentence):
    with pytest.raises(InputError, match=sentence):
        runs_of(tables)
