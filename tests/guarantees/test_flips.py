"""Flips: entries near the threshold, nearest first, and what the conclusion would be without or with each."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import noumena as nm
from noumena.guarantees import flips as module
from noumena.guarantees.flips import Flip, flips
from noumena.guarantees.occam import generic_gap
from noumena.guarantees.surplus import surplus
from noumena.structure import Evidence, Structure

LINE = 0.1


def read_off(strength: np.ndarray) -> Structure:
    """A structure as it is read off a decoder with these strengths."""
    return Structure(strength > LINE, evidence=Evidence(strength, LINE))


def gap_of(support: np.ndarray) -> int:
    gap = generic_gap(support)
    assert gap is not None
    return gap.value


def random_strengths(n: int) -> list[np.ndarray]:
    """Strengths of which about a third lie near the line."""
    rng = np.random.default_rng(0)
    found = []
    while len(found) < n:
        shape = int(rng.integers(4, 9)), int(rng.integers(2, 5))
        strength = np.exp(rng.choice([-1.0, 0.0, 1.0], size=shape) + rng.uniform(-0.45, 0.45, size=shape)) * LINE
        if (strength > LINE).any(axis=0).all():
            found.append(strength)
    return found


def test_exactly_the_entries_near_the_threshold_are_tried_the_nearest_first() -> None:
    for strength in random_strengths(40):
        S = read_off(strength)
        distance = np.abs(np.log(strength / LINE))
        near = sorted(
            (float(distance[i, j]), S.observed[i], S.latent[j]) for i, j in np.argwhere(distance < np.log(1.5))
        )
        assert [(f.observed, f.latent) for f in flips(S)] == [(x, z) for _, x, z in near[: module.MOST_FLIPS]]


def test_the_gap_after_a_flip_is_that_of_the_flipped_support_and_matters_when_its_sign_changes() -> None:
    seen = set()
    for strength in random_strengths(40):
        S = read_off(strength)
        for flip in flips(S):
            i, j = S.observed.index(flip.observed), S.latent.index(flip.latent)
            other = S.dense.copy()
            other[i, j] ^= True
            assert flip.strength == strength[i, j]
            assert flip.threshold == LINE
            assert flip.present == bool(S.dense[i, j])
            assert flip.before == gap_of(S.dense)
            assert flip.exact
            if not other[:, j].any():
                assert (flip.after, flip.matters) == (None, True)
                continue
            assert flip.after == gap_of(other)
            assert flip.matters == (np.sign(gap_of(other)) != np.sign(gap_of(S.dense)))
            seen.add((int(np.sign(flip.before)), int(np.sign(flip.after))))
    assert {(1, 0), (0, 1), (0, -1), (-1, 0), (1, 1), (0, 0), (-1, -1)} <= seen


@pytest.mark.parametrize(
    ("before", "after", "matters"),
    [
        (1, 0, True),
        (0, 1, True),
        (0, -1, True),
        (-1, 0, True),
        (1, -1, True),
        (1, 2, False),
        (-1, -2, False),
        (0, 0, False),
    ],
)
def test_what_matters_is_whether_the_gap_is_positive_zero_or_negative(before: int, after: int, matters: bool) -> None:
    assert Flip("x1", "z1", 0.1, 0.1, True, before, after, True).matters == matters


def test_trying_leaves_the_structure_alone() -> None:
    S = read_off(random_strengths(1)[0])
    before = S.dense.copy()
    flips(S)
    np.testing.assert_array_equal(S.dense, before)


def test_a_latent_that_would_lose_its_only_entry_is_said_to_touch_nothing() -> None:
    strength = np.array([[0.9, 0.0], [0.9, 0.0], [0.9, 0.12]])
    (flip,) = flips(read_off(strength))
    assert (flip.observed, flip.latent, flip.present, flip.after, flip.matters) == ("x3", "z2", True, None, True)
    assert str(flip).startswith("x3–z2 is read as a dependency (strength 0.120, threshold 0.100); ")
    assert str(flip).endswith("read the other way, nothing would depend on z2")


def test_a_flip_says_both_gaps_and_whether_the_conclusion_changes() -> None:
    strength = np.array([[0.9, 0.0]] * 2 + [[0.9, 0.9]] + [[0.0, 0.9], [0.09, 0.9]])
    (flip,) = flips(read_off(strength))
    assert not flip.present
    assert str(flip) == (
        "x5–z1 is read as none (strength 0.090, threshold 0.100); the support's gap would be 0 instead of 1, and the "
        "conclusion would change"
    )
    harmless = np.array([[0.9, 0.0]] * 4 + [[0.9, 0.9]] + [[0.0, 0.9]] * 3 + [[0.09, 0.9]])
    (flip,) = flips(read_off(harmless))
    assert str(flip).endswith("the support's gap would be 2 instead of 3")


def test_beyond_the_size_of_enumeration_a_gap_is_shown_positive_or_not() -> None:
    support = np.kron(np.eye(9), np.ones((2, 1)))
    strength = np.where(support > 0, 0.9, 0.0)
    strength[0, 0], strength[5, 4] = 0.11, 0.095
    lost, won = flips(read_off(strength))[::-1]
    assert (lost.before, lost.after, lost.exact, lost.matters) == (1, 0, False, True)
    assert (won.before, won.after, won.matters) == (
        1,
        int(surplus(read_off(strength).dense | (strength > 0.09)) > 0),
        True,
    )
    assert "the support's gap would no longer be shown to be positive, and the conclusion would change" in str(lost)


def test_beyond_the_size_of_enumeration_one_row_less_to_spare_changes_nothing() -> None:
    strength = np.where(np.kron(np.eye(9), np.ones((3, 1))) > 0, 0.9, 0.0)
    strength[0, 0] = 0.11
    (flip,) = flips(read_off(strength))
    assert surplus(read_off(strength).support) == 2
    assert (flip.before, flip.after, flip.matters) == (1, 1, False)


def test_only_the_nearest_entries_of_many_are_tried() -> None:
    strength = np.linspace(1.01, 1.4, 80).reshape(40, 2) * LINE
    found = flips(read_off(strength))
    assert len(found) == module.MOST_FLIPS
    assert [f.strength for f in found] == strength.ravel()[: module.MOST_FLIPS].tolist()


def test_without_evidence_or_without_doubt_there_are_none() -> None:
    assert flips(Structure([[1, 0], [1, 1]])) == ()
    assert flips(read_off(np.array([[0.9, 0.0], [0.9, 0.9]]))) == ()


def test_a_certificate_of_a_decoder_lists_its_flips() -> None:
    matrix = torch.tensor([[1.0, 0.0]] * 3 + [[1.0, 0.11]] + [[0.0, 1.0]] * 3, dtype=torch.float64)
    points = torch.randn(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    certificate = nm.certify(lambda z: z @ matrix.T, at=points, threshold=0.1)
    (flip,) = certificate.flips
    assert (flip.observed, flip.latent, flip.present) == ("x4", "z2", True)
    assert f"Entries near the threshold\n  {flip}" in str(certificate)
    assert json.loads(json.dumps(certificate.to_dict()))["flips"] == [str(flip)]
