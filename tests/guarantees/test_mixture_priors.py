"""Mixture priors: every hypothesis is what decides, and the constructive steps recover what the theorems promise."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture
from torch import nn

from noumena.checks import InputError
from noumena.guarantees import Certificate
from noumena.guarantees.injectivity import CONTINUOUS, INJECTIVE, PIECEWISE_AFFINE, WEAKLY
from noumena.guarantees.mixtures import (
    DISTINCT_RATIOS,
    INDEPENDENT,
    MAXIMAL,
    NON_DEGENERATE,
    mixture_ladder,
    unmix,
)
from noumena.guarantees.subjects import certify
from noumena.mixtures import Mixture


def linear(rows: list[list[float]]) -> nn.Linear:
    layer = nn.Linear(len(rows[0]), len(rows))
    layer.load_state_dict({"weight": torch.tensor(rows), "bias": torch.zeros(len(rows))})
    return layer


TALL = [[1.0, 2.0], [0.0, 1.0], [1.0, 0.0]]
LEAKY = nn.Sequential(linear(TALL), nn.LeakyReLU(0.2))
CURVED = nn.Sequential(linear(TALL), nn.Tanh())
COLLAPSING = nn.Sequential(linear(TALL), nn.ReLU())
JUMPING = nn.Sequential(linear(TALL), nn.Hardshrink())
LOSING = nn.Sequential(linear([[1.0, 1.0], [2.0, 2.0]]))

MEANS = np.array([[0.0, 0], [0, 3], [3, 0], [3, 3]])
VARIANCES = np.array([[1.0, 1], [1, 4], [2, 1], [2, 4]])


def world(**changes: Any) -> Mixture:
    """Two hidden binary variables, each moving one latent; some covariances replaced."""
    covariances = np.stack([np.diag(v) for v in VARIANCES])
    for j, covariance in changes.get("covariances", {}).items():
        covariances[j] = covariance
    return Mixture(changes.get("weights", [0.1, 0.2, 0.3, 0.4]), changes.get("means", MEANS), covariances)


ALIKE = [np.diag([s, s]) for s in (1.0, 2.0, 3.0, 5.0)]
GOOD = {"decoder": LEAKY, "neighbourhoods": np.eye(2)}
A, A_D, B, B_D, C, C_D = range(6)
WEAK, STRONG, WITH_P2, WITH_P3 = (A, B, C), (A_D, B_D, C_D), (B, B_D, C, C_D), (C, C_D)
EVERYONE = range(6)

BROKEN = [
    (NON_DEGENERATE, world(covariances={3: np.diag([2.0, 0])}), {}, EVERYONE),
    (PIECEWISE_AFFINE, world(), {"decoder": CURVED}, EVERYONE),
    (WEAKLY, world(), {"decoder": LOSING}, WEAK),
    (INJECTIVE, world(), {"decoder": COLLAPSING}, STRONG),
    (CONTINUOUS, world(), {"decoder": JUMPING}, STRONG),
    (INDEPENDENT, world(covariances={3: [[2.0, 0.5], [0.5, 4]]}), {}, WITH_P2),
    (DISTINCT_RATIOS, world(covariances=dict(enumerate(ALIKE))), {"neighbourhoods": None}, WITH_P2),
    (MAXIMAL, world(), {"neighbourhoods": [[1, 0], [1, 1]]}, WITH_P3),
]


def test_a_world_that_satisfies_everything_gets_every_theorem() -> None:
    reading = mixture_ladder(world(), exact=True, **GOOD)
    assert [t.answer for t in reading.theorems] == ["holds"] * 6
    assert [str(t.ambiguity(1)) for t in reading.theorems] == ["affine"] * 2 + ["permutation+scaling"] * 4
    strongest = reading.strongest
    assert strongest is not None
    assert strongest is reading.theorems[C_D]
    assert "(k, d_j, P(U)) and the decoder" in strongest.name
    assert all(len(t.conclusion) == 2 for t in reading.theorems)
    assert "one observation may not be unique" in " ".join(reading.theorems[C].rests_on)
    assert "one observation may not be unique" not in " ".join(reading.theorems[C_D].rests_on)
    json.dumps(reading.to_dict())


@pytest.mark.parametrize(("name", "mixture", "changes", "needed_by"), BROKEN, ids=[b[0] for b in BROKEN])
def test_breaking_one_hypothesis_loses_exactly_the_theorems_that_need_it(name, mixture, changes, needed_by) -> None:
    reading = mixture_ladder(mixture, exact=True, **{**GOOD, **changes})
    for rung, theorem in enumerate(reading.theorems):
        lost = (INJECTIVE,) if name == WEAKLY and rung in STRONG else ()  # F4 implies F2
        assert theorem.broken == ((name,) if rung in needed_by else lost), theorem.name
        assert (str(theorem.ambiguity(0)) == "any") == bool(theorem.broken)


@pytest.mark.parametrize(
    ("changes", "open_"),
    [
        ({"decoder": None}, (PIECEWISE_AFFINE, CONTINUOUS, INJECTIVE)),
        ({"decoder": torch.exp}, (PIECEWISE_AFFINE, CONTINUOUS, INJECTIVE)),
        ({"neighbourhoods": None}, (MAXIMAL,)),
    ],
)
def test_what_is_not_given_is_open(changes: dict[str, Any], open_: tuple[str, ...]) -> None:
    reading = mixture_ladder(world(), exact=True, **{**GOOD, **changes})
    assert reading.broken == ()
    assert reading.theorems[C_D].open == open_
    assert str(reading.ambiguity(0)) == "permutation+scaling"


def evidence(reading: Certificate, name: str) -> str:
    return next(h.evidence for h in reading.hypotheses if h.name == name)


def test_failures_name_components_and_latents() -> None:
    flat = mixture_ladder(world(covariances={1: np.zeros((2, 2)), 3: np.diag([2.0, 0])}), exact=True)
    assert (
        evidence(flat, NON_DEGENERATE) == "fewer than 2 dimensions are filled by components 1, 3; see degenerate_ladder"
    )
    tied = mixture_ladder(world(covariances={2: [[2, 0.5], [0.5, 1]]}), exact=True)
    assert "component 2 correlates z1 and z2 by 0.35" in evidence(tied, INDEPENDENT)
    three = Mixture([0.5, 0.5], np.eye(2, 3), [np.diag([1.0, 1, 2]), np.diag([3.0, 3, 2])])
    same = evidence(mixture_ladder(three, exact=True), DISTINCT_RATIOS)
    assert same == "even components 0, 1 have ratios within 1e-09 of each other for z1, z2"
    one = mixture_ladder(Mixture([1.0], [[0, 0]], [np.eye(2)]), exact=True)
    assert evidence(one, DISTINCT_RATIOS) == "two non-degenerate components are needed, there is 1"
    nested = mixture_ladder(world(), exact=True, neighbourhoods=[[1, 1], [1, 0]])
    assert evidence(nested, MAXIMAL) == "all that hidden variable 1 moves, hidden variable 0 moves too"


def test_the_best_two_components_are_named_with_their_margin() -> None:
    variances = [[1, 1, 1], [2, 2.5, 4], [2, 4, 16]]
    mixture = Mixture(np.ones(3) / 3, np.eye(3), [np.diag(v) for v in np.array(variances, dtype=float)])
    reading = mixture_ladder(mixture, exact=True)
    assert evidence(reading, DISTINCT_RATIOS).startswith("components 0, 2: log ratios are at least 0.69 apart")
    assert DISTINCT_RATIOS not in mixture_ladder(mixture, exact=True, tolerance=0.69).broken
    assert DISTINCT_RATIOS in mixture_ladder(mixture, exact=True, tolerance=0.7).broken


def test_one_latent_has_nothing_to_be_told_apart_from() -> None:
    reading = mixture_ladder(Mixture([1.0], [[0.0]], [[[2.0]]]), exact=True)
    assert reading.broken == ()


def test_a_fitted_mixture_supports_with_numbers_what_a_known_one_shows() -> None:
    z, _ = world().sample(4000, random_state=1)
    start = {"weights_init": [0.25] * 4, "means_init": MEANS, "random_state": 0}
    fitted = GaussianMixture(4, covariance_type="diag", **start).fit(z)
    reading = mixture_ladder(fitted, decoder=LEAKY, rows=z)
    answers = {h.name: h.answer for h in reading.hypotheses}
    assert [answers[name] for name in (NON_DEGENERATE, INDEPENDENT, DISTINCT_RATIOS)] == ["supported"] * 3
    assert answers[PIECEWISE_AFFINE] == "holds"
    assert "wanted 0.05" in evidence(reading, DISTINCT_RATIOS)
    full = GaussianMixture(4, covariance_type="full", **start).fit(z)
    assert mixture_ladder(full, tolerance=1e-4).broken == (INDEPENDENT,)
    assert mixture_ladder(full, tolerance=0.2).broken == ()


def test_small_spreads_are_spreads_down_to_the_tolerance() -> None:
    law = Mixture([0.5, 0.5], np.eye(2), [np.diag([1.0, 1]), np.diag([1.0, 0.01])])  # a tenth of the spread
    assert NON_DEGENERATE not in mixture_ladder(law).broken
    assert "the smallest spread is 0.1" in evidence(mixture_ladder(law), NON_DEGENERATE)
    assert NON_DEGENERATE in mixture_ladder(law, tolerance=0.2).broken


def test_units_of_the_latents_do_not_matter() -> None:
    units = np.diag([1e-6, 1e5])
    for exact in (True, False):
        plain = mixture_ladder(world(), exact=exact, **GOOD).to_dict()
        assert mixture_ladder(world().pushed(units), exact=exact, **GOOD).to_dict() == plain


@pytest.mark.parametrize("unit", [1e-9, 1e-7, 0.01, 0.1, 1.0, 10.0, 1e7])
def test_units_of_the_latents_do_not_choose_the_theorem(unit: float) -> None:
    law = Mixture([0.5, 0.5], [[0, 0], [5, 1]], [np.diag([1, 1]), np.diag([4, 0.25])])
    flat = Mixture([0.5, 0.5], [[0, 0], [5, 1]], [np.diag([1, 1]), np.diag([4, 0])])
    assert certify(law.pushed(np.diag([1, unit]))).subject == "mixture prior"
    assert certify(flat.pushed(np.diag([1, unit]))).subject == "degenerate mixture"
    z, _ = law.sample(3000, random_state=0)
    settings = {"covariance_type": "diag", "reg_covar": 1e-12 * unit**2, "random_state": 0}
    start = {"weights_init": law.weights, "means_init": law.means * [1, unit]}
    start |= {"precisions_init": [[1, 1 / unit**2], [0.25, 4 / unit**2]]}
    reading = certify(GaussianMixture(2, **settings, **start).fit(z * [1, unit]))
    assert reading.subject == "mixture prior"
    assert NON_DEGENERATE not in reading.broken


def test_the_paper_s_degenerate_case_is_false_three_lines_have_a_map_that_is_affine_on_each_only() -> None:
    """A piecewise linear homeomorphism of the plane stretches one of three lines and keeps the other two."""
    lines = np.array([[1.0, 0], [1, 1], [0, 1]])
    mixture = Mixture(np.ones(3) / 3, lines * [[1.0], [2], [3]], lines[:, :, None] * lines[:, None, :])
    rays = np.concatenate([lines, -lines])
    images = rays * np.array([1, 2, 1, 1, 2, 1])[:, None]

    def stretched(z: np.ndarray) -> np.ndarray:
        for k in range(6):
            cone, image = rays[[k, (k + 1) % 6]], images[[k, (k + 1) % 6]]
            inside = np.linalg.solve(cone.T, z)
            if (inside >= -1e-12).all():
                return inside @ image
        raise AssertionError("the cones cover the plane")

    turns = [np.linalg.det(cones[[k, (k + 1) % 6]]) for cones in (rays, images) for k in range(6)]
    assert min(turns) > 0  # both fans go round once: the map is a homeomorphism
    z, u = mixture.sample(300)
    moved = np.stack([stretched(point) for point in z])
    for j, factor in enumerate((1, 2, 1)):
        assert np.allclose(moved[u == j], factor * z[u == j])  # Gaussian again, affine on the line
    affine = np.column_stack([z, np.ones(len(z))])
    assert np.abs(affine @ np.linalg.lstsq(affine, moved, rcond=None)[0] - moved).max() > 0.1
    assert mixture_ladder(mixture, exact=True, decoder=LEAKY).theorems[A].broken == (NON_DEGENERATE,)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tolerance": -1}, "tolerance must be a finite number"),
        ({"tolerance": np.nan}, "tolerance must be a finite number"),
        ({"neighbourhoods": np.eye(3)}, "one column for each of the 2 latents"),
        ({"neighbourhoods": [1, 1]}, "neighbourhoods must have two axes"),
        ({"decoder": nn.Linear(3, 4)}, "must take a batch of the mixture's latents"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        mixture_ladder(world(), **changes)
    with pytest.raises(InputError, match="A mixture must be a Mixture or a fitted GaussianMixture"):
        mixture_ladder(np.eye(2))


# ---- P3 from the components ------------------------------------------------------------------------------


def test_neighbourhoods_that_the_components_contradict_fail() -> None:
    joint = mixture_ladder(world(), exact=True, neighbourhoods=[[1, 1]])
    assert evidence(joint, MAXIMAL) == "the counts of components say that the neighbourhoods are (z1) and (z2)"
    means = [[0, 0], [0, 1], [1, 0]]
    odd = Mixture(np.ones(3) / 3, means, [np.eye(2)] * 3)
    contradicted = mixture_ladder(odd, exact=True, neighbourhoods=np.eye(2))
    assert "contradict" in evidence(contradicted, MAXIMAL)
    assert MAXIMAL in contradicted.broken


def test_maximality_is_open_where_components_cannot_be_compared() -> None:
    flat = mixture_ladder(world(covariances={3: np.diag([2.0, 0])}), exact=True, **GOOD)
    tied = mixture_ladder(world(covariances={3: [[2.0, 0.5], [0.5, 4]]}), exact=True, **GOOD)
    many = Mixture([0.5, 0.5], np.eye(2, 13), [np.eye(13)] * 2)
    wide = mixture_ladder(many, exact=True, neighbourhoods=np.ones((1, 13)))
    for reading, reason in ((flat, "component 3 without variance"), (tied, "a correlation"), (wide, "13 latents")):
        assert MAXIMAL in reading.theorems[C].open
        assert reason in evidence(reading, MAXIMAL)


# ---- unmixing --------------------------------------------------------------------------------------------


def test_unmixing_finds_the_latents_up_to_order_and_scale() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        d = int(rng.integers(1, 6))
        mixing = rng.normal(size=(d, d)) + 2 * np.eye(d)
        ratios = np.exp(rng.permutation(d) + rng.uniform(0, 0.5, size=d))
        base = rng.uniform(0.5, 2, size=d)
        found = unmix(mixing @ np.diag(base * ratios) @ mixing.T, mixing @ np.diag(base) @ mixing.T)
        assert np.allclose(found.ratios, np.sort(ratios))
        gaps = [abs(np.log(a / b)) for a, b in combinations(ratios, 2)]
        assert found.margin == pytest.approx(min(gaps, default=np.inf))
        both = np.abs(found.matrix @ mixing)
        both /= both.max(axis=1, keepdims=True)
        assert np.allclose(both, np.eye(d)[np.argsort(ratios)], atol=1e-6)


def test_a_mixture_unmixed_by_two_components_is_independent_again() -> None:
    mixing = np.array([[2.0, 1], [1, 3]])
    mixed = world().pushed(mixing, [1, 2])
    assert mixture_ladder(mixed, exact=True).broken == (INDEPENDENT,)
    found = unmix(mixed.covariances[0], mixed.covariances[3])
    assert mixture_ladder(mixed.pushed(found.matrix), exact=True).broken == ()


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (np.eye(2), np.eye(3), "must have one shape"),
        (np.diag([1.0, 0]), np.eye(2), "must be non-singular. Got a smallest relative variance of 0."),
        (np.eye(2), np.diag([1.0, 0]), "must be non-singular"),
        ([[1, 2], [0, 1]], np.eye(2), "must be symmetric"),
        (np.diag([1.0, -1]), np.eye(2), "negative eigenvalue"),
        (np.ones((2, 3)), np.ones((2, 3)), "must have the shape"),
    ],
)
def test_covariances_that_cannot_be_unmixed_are_refused(first: Any, second: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        unmix(first, second)
