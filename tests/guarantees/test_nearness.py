"""Nearness of worlds: all hypotheses give all theorems, and breaking one loses them for that reason."""

import json
from math import sqrt

import numpy as np
import pytest
import torch
from plane_decoders import (
    RUN,
    SQUARE,
    disc,
    drawn,
    flat,
    large_together,
    on_a_line,
    own,
    stretched,
    two_intervals,
    uniform,
    world,
    wrapped,
)

import noumena as nm
from noumena.checks import InputError
from noumena.guarantees.components import GAUSSIAN, INDEPENDENT, RANK, SEPARATED
from noumena.guarantees.lipschitz import CONVEX, INJECTIVE, ISOMETRIC, proportional_term
from noumena.guarantees.nearness import AFTER_ICA, OUTPUTS, RIGID, STRUCTURAL, WHITE, nearness
from noumena.guarantees.nearness_certificate import Bound
from noumena.worlds import World, law

# ---- worlds: every hypothesis of every theorem -------------------------------------------------------------------

THEOREMS = {
    RIGID: (OUTPUTS, INJECTIVE, ISOMETRIC, CONVEX),
    AFTER_ICA: (OUTPUTS, INJECTIVE, ISOMETRIC, CONVEX, RANK, GAUSSIAN, SEPARATED),
    STRUCTURAL: (OUTPUTS, INJECTIVE, ISOMETRIC, CONVEX, RANK, GAUSSIAN, SEPARATED, INDEPENDENT, WHITE),
}
BREAKS = {
    OUTPUTS: lambda: nearness(world(noise=0.1)),
    INJECTIVE: lambda: nearness(world(wrapped)),
    ISOMETRIC: lambda: nearness(world(stretched)),
    CONVEX: lambda: nearness(world(chosen=own(two_intervals))),
    RANK: lambda: nearness(world(), at=drawn(on_a_line)),
    GAUSSIAN: lambda: nearness(world(chosen=law("unit gaussian", 2))),
    SEPARATED: lambda: nearness(world(), at=drawn(disc)),
    INDEPENDENT: lambda: nearness(world(chosen=own(large_together, independent=False))),
    WHITE: lambda: nearness(world(chosen=own(lambda n, g: 2 * uniform(n, g)))),
}
UNKNOWN_WHEN_BROKEN = {OUTPUTS: (OUTPUTS,), GAUSSIAN: (SEPARATED,)}


@pytest.mark.parametrize(
    "chosen", [law("uniform", 2), law("laplace", 2), own(uniform)], ids=["uniform", "laplace", "own"]
)
def test_a_world_built_for_the_theorems_gets_all_three(chosen):
    reading = nearness(world(chosen=chosen))
    assert [t.name for t in reading.theorems] == list(THEOREMS)
    for theorem in reading.theorems:
        assert tuple(h.name for h in theorem.hypotheses) == THEOREMS[theorem.name]
        assert theorem.broken == ()
        assert theorem.open == ()
    assert reading.theorem(RIGID).ambiguity(0) == nm.Ambiguity("rigid")
    assert reading.ambiguity(1) == nm.Ambiguity("signed permutation")
    assert reading.strongest.name == STRUCTURAL
    assert reading.measured == "structural"


@pytest.mark.parametrize("name", BREAKS)
def test_a_world_that_breaks_one_hypothesis_loses_exactly_the_theorems_that_need_it(name):
    reading = BREAKS[name]()
    for theorem in reading.theorems:
        needed = name in THEOREMS[theorem.name]
        assert theorem.broken == ((name,) if needed and name != OUTPUTS else ())
        assert theorem.open == (UNKNOWN_WHEN_BROKEN.get(name, ()) if needed else ())
    if name != OUTPUTS:
        lost = next(t for t in reversed(reading.theorems) if t.broken)
        assert lost.ambiguity(0) == nm.Ambiguity("any")
        assert name in reading.broken
    else:  # noise hides the outputs, and unknown is not yes
        assert reading.strongest is None
        assert reading.headline.startswith(f"Nothing is guaranteed about this world: this was not shown: {OUTPUTS}.")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (INJECTIVE, "have the same output"),
        (ISOMETRIC, "(point "),
        (CONVEX, "(rows "),
        (RANK, "z1, z2 are linear combinations"),
        (GAUSSIAN, "z1, z2 are Gaussian"),
        (SEPARATED, "components 1 and 2"),
        (INDEPENDENT, "z1 and z2"),
        (WHITE, "the second moment of z"),
    ],
)
def test_what_fails_is_named_with_its_indices(name, words):
    told = next(h for h in BREAKS[name]().hypotheses if h.name == name)
    assert told.answer == "fails"
    assert words in told.evidence


def test_what_a_law_says_is_exact_and_what_is_sampled_is_supported():
    named = {h.name: h.answer for h in nearness(world()).hypotheses}
    assert {n for n, answer in named.items() if answer == "holds"} == {OUTPUTS, CONVEX, GAUSSIAN, INDEPENDENT, WHITE}
    mine = {h.name: h.answer for h in nearness(world(chosen=own(uniform))).hypotheses}
    assert {n for n, answer in mine.items() if answer == "holds"} == {OUTPUTS, INDEPENDENT}
    assert all(answer in ("holds", "supported") for answer in (*named.values(), *mine.values()))


@pytest.mark.parametrize("name", ["gaussian", "correlated gaussian", "linear sem"])
def test_gaussian_laws_fail_and_are_convex(name):
    answers = {h.name: h.answer for h in nearness(world(chosen=law(name, 2, random_state=2))).hypotheses}
    assert answers[GAUSSIAN] == "fails"
    assert answers[CONVEX] == "holds"
    assert answers[INDEPENDENT] == ("holds" if name == "gaussian" else "fails")
    assert answers[WHITE] == "fails"


def test_one_gaussian_latent_is_no_rotation():
    line = World(nm.Structure(np.ones((2, 1), dtype=bool)), law("unit gaussian", 1), lambda z: torch.cat([z, z], dim=1))
    reading = nearness(line)
    assert reading.broken == ()
    assert next(h for h in reading.hypotheses if h.name == GAUSSIAN).answer == "holds"


def test_a_shifted_law_with_unit_second_moments_is_not_white_and_the_mean_is_named():
    spread, shift = torch.tensor([1.0, sqrt(0.75)]), torch.tensor([0.0, 0.5])
    told = nearness(world(chosen=own(lambda n, g: uniform(n, g) * spread + shift))).hypotheses
    white = next(h for h in told if h.name == WHITE)
    assert white.answer == "fails"
    assert "the mean of z2 is off by" in white.evidence


def test_a_tight_roll_leaves_injectivity_open():
    reading = nearness(world(lambda z: wrapped(z, radius=0.56)))  # 3.46 long, around 3.52
    assert reading.theorem(RIGID).open == (INJECTIVE,)
    assert reading.theorem(RIGID).broken == ()


# ---- bounds ------------------------------------------------------------------------------------------------------


def test_without_a_constant_there_is_no_bound_and_the_reason_is_given():
    reading = nearness(world())
    assert reading.epsilon is None
    assert reading.epsilon_at_best_scale is None
    assert reading.epsilon_whitened is None
    assert reading.term == pytest.approx(proportional_term(reading.lipschitz.largest, reading.diameter))
    text = str(reading)
    assert f"proportional to {reading.term:.3g} ({reading.term_at_best_scale:.3g} at the best scale" in text
    assert "grow exponentially with the number of latents" in text
    assert "ε = " not in reading.headline


def test_with_a_constant_the_bound_is_theorem_one_and_the_best_scale_is_sharper():
    reading = nearness(world(), constant=0.5)
    L, best = reading.lipschitz.largest, reading.lipschitz.at_best_scale
    assert reading.epsilon.value == pytest.approx(0.5 * reading.diameter * sqrt((1 + L) ** 2 - 1))
    assert reading.epsilon_at_best_scale.value == pytest.approx(0.5 * reading.diameter * sqrt((1 + best) ** 2 - 1))
    assert reading.epsilon_at_best_scale.value < reading.epsilon.value
    assert reading.epsilon.trivial == reading.diameter
    assert f"ε = {reading.epsilon.value:.3g}" in reading.headline
    assert "grow exponentially" not in str(reading)


@pytest.mark.parametrize(("constant", "vacuous"), [(0.5, False), (30.0, True)])
def test_a_bound_that_is_not_below_the_diameter_is_called_vacuous(constant, vacuous):
    reading = nearness(world(lambda z: flat(z) / 2), constant=constant)
    assert reading.epsilon_at_best_scale.vacuous is vacuous
    assert ("at the best scale of the latents" in reading.headline) is True
    after = reading.headline.split("at the best scale of the latents")[1].split(";")[0]
    assert ("vacuous" in after) is vacuous


def test_a_bound_equal_to_the_trivial_one_is_vacuous():
    assert Bound(2.0, 2.0).vacuous
    assert not Bound(1.99, 2.0).vacuous
    assert "vacuous" in str(Bound(2.0, 2.0))
    assert "vacuous" not in str(Bound(1.99, 2.0))


def test_the_whitened_bound_is_that_of_the_lemma():
    reading = nearness(world(chosen=own(lambda n, g: uniform(n, g) * torch.tensor([1.0, 0.5]))), constant=1.0)
    z = world(chosen=own(lambda n, g: uniform(n, g) * torch.tensor([1.0, 0.5]))).latents(10_000).numpy()
    smallest = np.linalg.eigvalsh(np.cov(z, rowvar=False, bias=True))[0]
    radius = np.linalg.norm(z - z.mean(axis=0), axis=1).max()
    factor = smallest**-0.5 + radius**2 * smallest**-1.5
    assert reading.whitening == pytest.approx(factor)
    assert reading.epsilon_whitened.value == pytest.approx(factor * reading.epsilon_at_best_scale.value)
    assert reading.epsilon_whitened.trivial == pytest.approx(reading.diameter / sqrt(smallest))
    assert f"after whitening {reading.epsilon_whitened}" in reading.headline


def test_no_bound_follows_from_a_theorem_that_does_not_apply():
    reading = nearness(world(stretched), constant=0.1)
    assert reading.epsilon is None
    assert "no bound is given, as the theorem does not apply" in reading.headline
    assert reading.term > 0


def test_without_full_rank_there_is_no_whitening():
    assert nearness(world(), at=drawn(on_a_line), constant=1.0).whitening is None
    assert nearness(flat, at=SQUARE[:30], constant=1.0).whitening is None


# ---- words -------------------------------------------------------------------------------------------------------


def test_a_reading_of_a_world_says_that_it_is_structural():
    text = str(nearness(world()))
    assert "Measured: structural nearness, on the true latents" in text
    assert "consistency across runs is not correctness" in text


@pytest.mark.parametrize("subject", ["world", "arrays", "singular"])
def test_a_reading_survives_json(subject):
    reading = {
        "world": lambda: nearness(world(), constant=1.0),
        "arrays": lambda: nearness([RUN, np.c_[RUN[:, 0], 2 * RUN[:, 0] + 1]]),
        "singular": lambda: nearness(lambda z: z**2, at=[[0.0, 1], [1, 0.5], [0.5, 0.2]]),
    }[subject]()
    facts = reading.to_dict()
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["measured"] == reading.measured
    assert len(facts["theorems"]) == len(reading.theorems)
    if subject == "world":
        assert facts["epsilon"] == {"value": reading.epsilon.value, "vacuous": reading.epsilon.vacuous}
        assert facts["L"] == reading.lipschitz.largest


def test_the_same_seed_gives_the_same_reading():
    first, again, other = (nearness(world(chosen=own(uniform)), random_state=seed) for seed in (1, 1, 2))
    assert str(first) == str(again)
    assert first.diameter != other.diameter  # other rows were drawn


# ---- what cannot be read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: nearness([RUN]), "two or more representations"),
        (lambda: nearness(RUN), "must be given a world, a fitted model, a decoder, or two or more arrays"),
        (lambda: nearness("model"), "must be given a world"),
        (lambda: nearness([RUN, RUN[:10]]), "must share their batch axis"),
        (lambda: nearness([RUN, RUN[:, :1]]), "equally many columns"),
        (lambda: nearness([RUN, np.ones_like(RUN)]), "must vary in every column"),
        (lambda: nearness([RUN, RUN], at=RUN), "at must be left out"),
        (lambda: nearness([RUN, RUN], constant=1.0), "must come with a decoder"),
        (lambda: nearness(flat), "at=z"),
        (lambda: nearness(flat, at=SQUARE[:1]), "at least 2 rows"),
        (lambda: nearness(flat, at=SQUARE * torch.tensor([1.0, 0.0])), "must vary in every column"),
        (lambda: nearness(flat, at=SQUARE, constant=-1.0), "constant"),
        (lambda: nearness(flat, at=SQUARE, restarts=1), "restarts"),
        (lambda: nearness(lambda z: z.detach(), at=SQUARE), "must be differentiable"),
        (lambda: nearness(lambda z: z.reshape(7, 2), at=SQUARE), "for any batch"),
        (lambda: nearness(lambda z: z @ torch.ones(3, 3, dtype=z.dtype), at=SQUARE), "differentiable torch function"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)
