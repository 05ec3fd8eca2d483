"""Each family of structures has its shape, and a random one the gap it was asked for."""

from itertools import permutations

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.guarantees.occam import generic_gap
from noumena.guarantees.surplus import hall_surplus
from noumena.worlds import families, family

SHAPES = [(1, 1), (2, 2), (3, 3), (3, 7), (5, 20)]


def support(name: str, d_z: int, d_x: int, **settings: int) -> np.ndarray:
    found = family(name, d_z, d_x, **settings).dense
    assert found.shape == (d_x, d_z)
    return found


@pytest.mark.parametrize(("d_z", "d_x"), SHAPES)
def test_dense_depends_on_everything(d_z: int, d_x: int) -> None:
    assert support("dense", d_z, d_x).all()


@pytest.mark.parametrize(("d_z", "d_x"), SHAPES[1:])
@pytest.mark.parametrize("width", [1, 2])
def test_banded_observations_see_neighbours_in_turn(d_z: int, d_x: int, width: int) -> None:
    found = support("banded", d_z, d_x, width=width)
    for i in range(d_x):
        assert set(np.flatnonzero(found[i])) == {(i + k) % d_z for k in range(width)}


@pytest.mark.parametrize(("d_z", "d_x"), SHAPES[1:])
def test_lack_one_observations_miss_one_latent_each_in_turn(d_z: int, d_x: int) -> None:
    found = support("lack-one", d_z, d_x)
    assert (found.sum(axis=1) == d_z - 1).all()
    missed = (~found).argmax(axis=1)
    assert sorted(missed[:d_z]) == list(range(d_z))
    np.testing.assert_array_equal(missed, np.resize(missed[:d_z], d_x))


@pytest.mark.parametrize(("d_z", "d_x"), SHAPES)
def test_triangular_observations_see_the_first_latents(d_z: int, d_x: int) -> None:
    found = support("triangular", d_z, d_x)
    for i in range(d_x):
        assert found[i].tolist() == [j <= i % d_z for j in range(d_z)]


def test_as_many_observations_as_latents_is_the_default() -> None:
    for name in families.NAMES:
        assert family(name, 4).dense.shape == (4, 4)


@pytest.mark.parametrize(
    ("d_z", "d_x", "gap"), [(3, 12, 1), (4, 16, 2), (5, 20, 1), (5, 8, -2), (4, 4, -2), (5, 20, 0)]
)
def test_a_random_structure_has_the_gap_it_was_asked_for(d_z: int, d_x: int, gap: int) -> None:
    for seed in range(3):
        found = generic_gap(support("random", d_z, d_x, gap=gap, random_state=seed))
        assert found is not None
        assert found.value == gap


@pytest.mark.parametrize(("d_z", "d_x"), [(1, 3), (2, 2), (3, 3), (4, 6), (5, 20)])
def test_random_observations_give_nothing_away_and_columns_can_be_independent(d_z: int, d_x: int) -> None:
    rng = np.random.default_rng(0)
    for seed in range(10):
        found = support("random", d_z, d_x, random_state=seed)
        assert (found.sum(axis=1) >= min(2, d_z)).all()
        assert np.linalg.matrix_rank(found * rng.normal(size=found.shape)) == d_z


def test_columns_can_be_independent_when_every_latent_has_a_row_of_its_own() -> None:
    rng = np.random.default_rng(0)
    answers = set()
    for _ in range(200):
        found = rng.random((4, 3)) < 0.6
        found[found.sum(axis=1) < 2] = [True, True, False]
        covered = any(all(found[i, j] for j, i in enumerate(rows)) for rows in permutations(range(4), 3))
        assert families._usable(found) == covered
        answers.add(covered)
    assert answers == {True, False}


def test_a_seed_fixes_the_random_structure() -> None:
    assert family("random", 4, 9, random_state=3) == family("random", 4, 9, random_state=3)
    drawn = [family("random", 4, 9, random_state=seed).dense.tobytes() for seed in range(6)]
    assert len(set(drawn)) == 6


def test_above_eight_latents_a_gap_of_one_is_at_least_one() -> None:
    found = support("random", 9, 60, gap=1)
    assert hall_surplus(found)
    with pytest.raises(InputError, match=r"Above 8 latents only gap=1 \(at least one\) can be asked for\. Got 2\."):
        family("random", 9, 60, gap=2)


def test_a_gap_that_cannot_be_had_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "MOST_DRAWS", 200)
    with pytest.raises(InputError) as error:
        family("random", 3, 3, gap=2)
    assert "A random structure of 3 × 3 with Occam gap 2 must exist" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_given_density_is_the_share_of_dependencies_and_no_row_sees_fewer_than_two_latents() -> None:
    sparse, denser = (family("random", 20, 80, gap=1, density=share, random_state=3).dense for share in (0.12, 0.4))
    assert 0.12 < sparse.mean() < 0.19
    assert 0.36 < denser.mean() < 0.45
    assert sparse.sum(axis=1).min() == 2
