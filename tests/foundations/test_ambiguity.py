"""Alignment removes exactly the maps of its group, larger groups leave less, and the groups are ordered."""

from collections.abc import Callable
from itertools import pairwise, permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group
from sklearn.linear_model import LinearRegression

from noumena.ambiguity import GROUPS, Ambiguity, align, kernel_map
from noumena.checks import InputError

modest = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 10_000)
LINEAR = ("permutation", "signed permutation", "permutation+scaling", "rigid", "similarity", "affine")
CHAINS = (
    ("permutation", "signed permutation", "permutation+scaling", "affine"),
    ("permutation", "signed permutation", "rigid", "similarity", "affine"),
)
Map = Callable[[np.ndarray], np.ndarray]

ALIGNABLE = [g for g in GROUPS if g not in ("affine within components", "any")]


def latents(rng: np.random.Generator, n: int = 60, d: int = 3) -> np.ndarray:
    return rng.gamma(2.0, size=(n, d)) * rng.uniform(0.5, 2, d) + rng.normal(size=d)


def orthogonal(rng: np.random.Generator, d: int) -> np.ndarray:
    return ortho_group.rvs(d, random_state=rng) if d > 1 else np.array([[1.0]])


def member(group: str, rng: np.random.Generator, d: int = 3) -> Map:
    """A random map of the group."""
    order, signs = rng.permutation(d), rng.choice([-1.0, 1.0], d)
    scale, shift = signs * rng.uniform(0.3, 3, d), rng.normal(size=d)
    Q, c, A = orthogonal(rng, d), rng.uniform(0.3, 3), rng.normal(size=(d, d)) + 2 * np.eye(d)
    return {
        "permutation": lambda z: z[:, order],
        "signed permutation": lambda z: z[:, order] * signs,
        "permutation+scaling": lambda z: z[:, order] * scale + shift,
        "rigid": lambda z: z @ Q + shift,
        "similarity": lambda z: c * z @ Q + shift,
        "affine": lambda z: z @ A + shift,
    }[group]


# ---- the order of groups -------------------------------------------------------------------------------------


def test_the_groups_are_ordered_as_two_chains() -> None:
    chains = (
        ("permutation", "signed permutation", "permutation+scaling", "element-wise", "block-wise", "any"),
        ("permutation", "signed permutation", "rigid", "similarity", "affine", "affine within components", "any"),
        ("permutation+scaling", "affine", "affine within components"),
    )
    below = {(g, g) for g in GROUPS} | {(a, b) for chain in chains for i, a in enumerate(chain) for b in chain[i + 1 :]}
    for a, b in product(GROUPS, repeat=2):
        assert (Ambiguity(a) <= Ambiguity(b)) == ((a, b) in below), (a, b)


def test_finer_blocks_are_the_smaller_ambiguity() -> None:
    fine = Ambiguity("block-wise", ((0,), (1,), (2,)))
    coarse = Ambiguity("block-wise", ((0, 1), (2,)))
    other = Ambiguity("block-wise", ((0,), (1, 2)))
    assert fine <= coarse
    assert not coarse <= fine
    assert not coarse <= other
    assert not other <= coarse
    assert coarse <= coarse
    assert Ambiguity("element-wise") <= coarse <= Ambiguity("any")


def test_an_ambiguity_reads_as_a_phrase() -> None:
    assert str(Ambiguity("affine")) == "affine"
    assert str(Ambiguity("block-wise", ((0, 2), (1,)))) == "block-wise {z1 z3 | z2}"


def test_an_unknown_group_is_refused() -> None:
    with pytest.raises(InputError, match=r"An ambiguity's group must be one of permutation, .*\. Got 'projective'\."):
        Ambiguity("projective")


# ---- invariance ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", LINEAR)
@modest
@given(seed=seeds, d=st.integers(1, 5))
def test_no_error_is_left_under_any_map_of_the_group(group: str, seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    z = latents(rng, d=d)
    moved = member(group, rng, d)(z)
    found = align(z, moved, up_to=group)
    assert found.error < 1e-6
    assert found.score == pytest.approx(1)
    assert found.up_to == Ambiguity(group)
    np.testing.assert_allclose(found.aligned, z, atol=1e-6)
    if found.permutation is not None:
        assert found.error == pytest.approx(0, abs=1e-6)
        assert sorted(found.permutation) == list(range(d))


@pytest.mark.parametrize(("group", "larger"), [(a, b) for chain in CHAINS for a, b in pairwise(chain)])
def test_a_map_of_the_next_larger_group_is_not_removed(group: str, larger: str) -> None:
    rng = np.random.default_rng(0)
    z = latents(rng, n=300)
    moved = z * [1, -1, 1] if larger == "signed permutation" else member(larger, rng)(z)
    assert align(z, moved, up_to=group).error > 0.05
    assert align(z, moved, up_to=larger).error < 1e-6


@pytest.mark.parametrize("chain", CHAINS)
@modest
@given(seed=seeds, noise=st.floats(0, 2))
def test_a_larger_group_never_leaves_more(chain: tuple[str, ...], seed: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    z = latents(rng)
    z_hat = member(rng.choice(LINEAR), rng)(z) + noise * rng.normal(size=z.shape)
    errors = [align(z, z_hat, up_to=group).error for group in chain]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(errors))


@pytest.mark.parametrize("group", LINEAR)
@modest
@given(seed=seeds)
def test_what_is_left_does_not_depend_on_which_member_came_before(group: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = latents(rng)
    z_hat = z @ rng.normal(size=(3, 3)) + 0.3 * rng.normal(size=z.shape)
    moved = member(group, rng)(z_hat)
    assert align(z, moved, up_to=group).error == pytest.approx(align(z, z_hat, up_to=group).error, abs=1e-6)


# ---- references ----------------------------------------------------------------------------------------------


def relative_error(z: np.ndarray, aligned: np.ndarray) -> float:
    return float(np.sqrt(((z - aligned) ** 2).sum() / ((z - z.mean(axis=0)) ** 2).sum()))


def cloud(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = latents(rng, n=20) * 10 ** rng.uniform(-1, 1, 3)
    return z, z[:, rng.permutation(3)] * rng.choice([-1.0, 1.0], 3) + rng.normal(size=z.shape) + rng.normal(size=3)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_permutation_is_the_best_of_all(seed: int) -> None:
    z, z_hat = cloud(seed)
    orders = list(permutations(range(3)))
    plain = min(relative_error(z, z_hat[:, order]) for order in orders)
    assert align(z, z_hat, up_to="permutation").error == pytest.approx(plain)
    signs = list(product([-1, 1], repeat=3))
    signed = min(relative_error(z, z_hat[:, order] * np.array(s)) for order in orders for s in signs)
    assert align(z, z_hat, up_to="signed permutation").error == pytest.approx(signed)

    def best_lines(order: tuple[int, ...]) -> np.ndarray:
        lines = [np.polyfit(z_hat[:, k], z[:, j], 1) for j, k in enumerate(order)]
        return np.stack([np.polyval(line, z_hat[:, k]) for line, k in zip(lines, order, strict=True)], axis=1)

    scaled = min(relative_error(z, best_lines(order)) for order in orders)
    assert align(z, z_hat, up_to="permutation+scaling").error == pytest.approx(scaled)


@pytest.mark.parametrize("seed", range(4))
def test_no_small_rotation_improves_on_the_rigid_alignment(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z, z_hat = cloud(seed)
    rigid, similar = align(z, z_hat, up_to="rigid"), align(z, z_hat, up_to="similarity")
    centred = z_hat - z_hat.mean(axis=0)
    Q = np.linalg.lstsq(centred, rigid.aligned - z.mean(axis=0), rcond=None)[0]
    np.testing.assert_allclose(Q @ Q.T, np.eye(3), atol=1e-8)
    scale = np.sqrt(((similar.aligned - similar.aligned.mean(axis=0)) ** 2).sum() / (centred**2).sum())
    for _ in range(200):
        turn = np.linalg.qr(np.eye(3) + 0.2 * rng.normal(size=(3, 3)))[0]
        assert relative_error(z, centred @ Q @ turn + z.mean(axis=0)) >= rigid.error - 1e-9
        other = scale * rng.uniform(0.9, 1.1)
        assert relative_error(z, other * centred @ Q + z.mean(axis=0)) >= similar.error - 1e-9


@pytest.mark.parametrize("d_hat", [1, 3, 5])
def test_the_affine_alignment_is_linear_regression(d_hat: int) -> None:
    rng = np.random.default_rng(0)
    z = latents(rng, n=50)
    z_hat = z @ rng.normal(size=(3, d_hat)) + rng.normal(size=(50, d_hat))
    expected = LinearRegression().fit(z_hat, z).predict(z_hat)
    found = align(z, z_hat, up_to="affine")
    np.testing.assert_allclose(found.aligned, expected)
    assert found.error == pytest.approx(relative_error(z, expected))
    assert found.score == pytest.approx(1 - relative_error(z, expected) ** 2)


# ---- known answers -------------------------------------------------------------------------------------------


def test_the_error_is_the_distance_over_the_spread() -> None:
    z = np.array([[1.0, 1], [-1, 1], [1, -1], [-1, -1]])
    found = align(z, 0.5 * z, up_to="permutation")
    assert found.error == pytest.approx(0.5)
    assert found.score == pytest.approx(0.75)


def test_the_units_of_learned_latents_do_not_choose_their_partners() -> None:
    z = np.random.default_rng(0).normal(size=(500, 2))
    z_hat = np.c_[100 * (z[:, 0] + 0.9 * z[:, 1]), z[:, 0] + 0.1 * z[:, 1]]
    permutation = align(z, z_hat, up_to="permutation+scaling").permutation
    assert permutation is not None
    assert permutation.tolist() == [1, 0]


def test_the_permutation_says_which_learned_latent_is_which() -> None:
    z = latents(np.random.default_rng(0))
    for group in ("permutation", "signed permutation", "permutation+scaling", "element-wise"):
        permutation = align(z, z[:, [2, 0, 1]], up_to=group).permutation
        assert permutation is not None
        assert permutation.tolist() == [1, 2, 0]
    assert align(z, z, up_to="rigid").permutation is None


@pytest.mark.parametrize("group", ALIGNABLE)
def test_the_transform_maps_further_rows_as_it_mapped_these(group: str) -> None:
    rng = np.random.default_rng(0)
    z = latents(rng)
    z_hat = z[:, [1, 2, 0]] * 2 + 0.1 * rng.normal(size=z.shape)
    found = align(z, z_hat, up_to=group)
    assert found.aligned.shape == z.shape
    np.testing.assert_allclose(found.transform(z_hat), found.aligned)
    np.testing.assert_allclose(found.transform(z_hat[5:9]), found.aligned[5:9], atol=1e-9)


@pytest.mark.parametrize("group", ALIGNABLE)
def test_tensors_and_single_precision_align_alike(group: str) -> None:
    rng = np.random.default_rng(0)
    z = latents(rng).astype(np.float32)
    z_hat = z[:, [1, 2, 0]] + rng.normal(size=z.shape).astype(np.float32)
    expected = align(z.astype(np.float64), z_hat.astype(np.float64), up_to=group).error
    assert align(torch.as_tensor(z), torch.as_tensor(z_hat), up_to=group).error == pytest.approx(expected)


def test_a_missing_latent_costs_its_own_variance_and_a_further_one_nothing() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 3))
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    fewer = align(z, 2 * z[:, [2, 0]] - 1, up_to="permutation+scaling")
    assert fewer.score == pytest.approx(2 / 3)
    assert fewer.permutation is not None
    assert fewer.permutation.tolist() == [1, -1, 0]
    more = align(z, np.c_[rng.normal(size=500), z], up_to="permutation+scaling")
    assert more.score == pytest.approx(1)
    assert more.permutation is not None
    assert more.permutation.tolist() == [1, 2, 3]


@pytest.mark.parametrize("group", ["permutation+scaling", "affine"])
def test_unrelated_latents_explain_about_nothing(group: str) -> None:
    rng = np.random.default_rng(0)
    found = align(rng.normal(size=(5000, 2)), rng.normal(size=(5000, 2)), up_to=group)
    assert 0 <= found.score < 0.01


@pytest.mark.parametrize("group", LINEAR)
def test_a_constant_learned_latent_explains_nothing(group: str) -> None:
    z = np.random.default_rng(0).normal(size=(50, 2))
    z_hat = np.c_[np.full(50, 0.1), z[:, 0]]
    found = align(z, z_hat, up_to=group)
    assert np.isfinite(found.aligned).all()
    alone = z[:, 0].var() / z.var(axis=0).sum()
    assert found.score == pytest.approx(alone, abs=0.05)


# ---- element-wise and block-wise -----------------------------------------------------------------------------


def test_element_wise_alignment_removes_monotone_maps_of_each_latent() -> None:
    z = np.random.default_rng(0).uniform(-1, 1, size=(600, 3))
    moved = np.c_[np.exp(2 * z[:, 2]), z[:, 0] ** 3 + z[:, 0], -np.tanh(2 * z[:, 1])]
    found = align(z, moved, up_to="element-wise")
    assert found.error < 0.1
    assert found.permutation is not None
    assert found.permutation.tolist() == [1, 2, 0]
    assert align(z, moved, up_to="permutation+scaling").error > 2 * found.error


@pytest.mark.parametrize("n", [30, 300, 2100])
@pytest.mark.parametrize("group", ["element-wise", "block-wise"])
def test_latents_align_with_themselves_in_other_units_without_error(group: str, n: int) -> None:
    rng = np.random.default_rng(0)
    for z in (rng.normal(size=(n, 3)), rng.laplace(size=(n, 3)) ** 3):
        assert align(z, 5 - 2 * z[:, [2, 0, 1]], up_to=group).error < 1e-9


@pytest.mark.parametrize("noise", [0, 0.5, 2])
@pytest.mark.parametrize("n", [25, 100, 2100])
def test_functions_of_latents_and_of_blocks_leave_no_more_than_lines_do(n: int, noise: float) -> None:
    rng = np.random.default_rng(n)
    chain = "permutation+scaling", "element-wise", Ambiguity("block-wise", ((2, 0), (1,)))
    for z in (rng.normal(size=(n, 3)), rng.laplace(size=(n, 3)) ** 3 * [1, 5, 9]):
        z_hat = np.arcsinh(z[:, [1, 2, 0]]) + noise * rng.normal(size=z.shape) + 0.3 * z
        errors = [align(z, z_hat, up_to=group).error for group in chain]
        assert all(later <= earlier + 1e-9 for earlier, later in pairwise(errors)), errors


@pytest.mark.parametrize("bend", [np.exp, lambda z: z**3, lambda z: np.tanh(2 * z)], ids=["exp", "cube", "tanh"])
def test_element_wise_alignment_undoes_bends_with_long_tails_on_further_rows_too(bend: Map) -> None:
    z = np.random.default_rng(0).laplace(size=(2000, 2))
    bent = bend(z)
    found = align(z[:1000], bent[:1000], up_to="element-wise")
    assert found.error < 0.12
    assert relative_error(z[1000:], found.transform(bent[1000:])) < 0.25


def test_block_wise_alignment_removes_mixing_inside_blocks_and_nothing_more() -> None:
    z = np.random.default_rng(0).uniform(-1, 1, size=(800, 3))
    radius, angle = 1 + 0.3 * z[:, 0], 2 * z[:, 2]
    moved = np.c_[z[:, 1] ** 3 + z[:, 1], radius * np.cos(angle) + z[:, 0], radius * np.sin(angle)]
    inside = align(z, moved, up_to=Ambiguity("block-wise", ((0, 2), (1,))))
    across = align(z, moved, up_to=Ambiguity("block-wise", ((0, 1), (2,))))
    apart = align(z, moved, up_to="element-wise")
    assert inside.error < 0.13
    assert across.error > 3 * inside.error
    assert apart.error > 3 * inside.error
    assert inside.permutation is not None
    assert inside.permutation.tolist() == [1, 0, 2]
    assert align(z, moved, up_to="block-wise").error < 0.15


def test_the_columns_of_a_block_go_to_the_block_that_any_of_its_latents_resembles() -> None:
    z = np.random.default_rng(0).normal(size=(300, 4))
    z[:, [1, 2]] += z[:, [0]]
    found = align(z, z[:, [2, 0, 3, 1]], up_to=Ambiguity("block-wise", ((0, 3), (1, 2))))
    assert found.permutation is not None
    assert found.permutation.tolist() == [1, 0, 3, 2]
    assert found.error < 0.2


def test_a_block_without_partners_is_its_mean() -> None:
    z = np.random.default_rng(0).normal(size=(200, 2))
    found = align(z, z[:, [1]], up_to="element-wise")
    np.testing.assert_allclose(found.aligned[:, 0], z[:, 0].mean())
    assert found.permutation is not None
    assert found.permutation.tolist() == [-1, 0]


def test_blocks_must_partition_the_latents() -> None:
    z = np.random.default_rng(0).normal(size=(20, 3))
    for blocks in (((0, 1),), ((0, 1), (1, 2)), ((0, 1), (2, 3))):
        with pytest.raises(InputError, match="Blocks must partition the 3 latents"):
            align(z, z, up_to=Ambiguity("block-wise", blocks))


def test_a_kernel_map_learns_a_smooth_function_whatever_its_units() -> None:
    rng = np.random.default_rng(0)
    source = rng.uniform(-2, 2, size=(3000, 1))
    function = kernel_map(1e4 * source[:2500] + 7, np.c_[np.sin(2 * source[:2500]), 1e-3 * source[:2500] ** 2])
    new, expected = source[2500:], np.c_[np.sin(2 * source[2500:]), 1e-3 * source[2500:] ** 2]
    residual = np.abs(function(1e4 * new + 7) - expected) / expected.std(axis=0)
    assert residual.mean() < 0.02


# ---- refusals ------------------------------------------------------------------------------------------------


def test_nothing_is_left_to_measure_up_to_any_map() -> None:
    with pytest.raises(InputError, match="align must have something left to measure"):
        align(np.eye(3), np.eye(3), up_to="any")


def test_components_are_aligned_one_at_a_time() -> None:
    with pytest.raises(InputError, match="one component at a time"):
        align(np.eye(3), np.eye(3), up_to="affine within components")


@pytest.mark.parametrize("group", ["permutation", "signed permutation", "rigid", "similarity"])
def test_isometries_need_equally_many_columns(group: str) -> None:
    with pytest.raises(InputError) as error:
        align(np.ones((4, 3)), np.ones((4, 2)), up_to=group)
    assert str(error.value) == f"z and z_hat must have equally many columns to align up to {group}. Got 3 and 2."


def test_tables_must_share_their_rows_and_have_two() -> None:
    with pytest.raises(InputError, match=r"z and z_hat must share their batch axis\. Got shapes \(4, 1\) and \(5, 1\)"):
        align(np.ones((4, 1)), np.ones((5, 1)))
    with pytest.raises(InputError, match="z_hat must have at least 2 rows"):
        align(np.ones((2, 1)), np.ones((1, 1)))
    with pytest.raises(InputError, match="z must be finite"):
        align(np.array([[np.nan], [1.0]]), np.ones((2, 1)))
