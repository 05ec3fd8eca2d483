"""Nearness: a subject that satisfies a theorem gets it, and breaking one hypothesis loses it for that reason."""

import json
from math import pi, sqrt

import numpy as np
import pytest
import torch
from torch import nn

import noumena as nm
from noumena.checks import InputError
from noumena.guarantees.agreement import AGREE
from noumena.guarantees.components import GAUSSIAN, INDEPENDENT, RANK, SEPARATED
from noumena.guarantees.lipschitz import CONVEX, INJECTIVE, ISOMETRIC, proportional_term
from noumena.guarantees.nearness import (
    AFTER_ICA,
    EXPLAINED,
    GENERATION,
    OUTPUTS,
    RIGID,
    STRUCTURAL,
    WHITE,
    Bound,
    nearness,
)
from noumena.worlds import Law, World, law

EDGE = sqrt(3)
FRAME = torch.tensor([[np.cos(k * pi / 6), np.sin(k * pi / 6)] for k in range(6)]) / sqrt(3)  # orthonormal columns


def flat(z):
    """Nearly an isometry of the plane into six dimensions."""
    return 2 * (z + 0.05 * z.sin()) @ FRAME.to(z).T


def stretched(z):
    return z @ torch.diag(torch.tensor([1.0, 2.5])).to(z) @ FRAME.to(z).T


def wrapped(z, radius=0.45):
    """An isometry that goes around once and a bit."""
    angle = z[:, 0] / radius
    return torch.stack([radius * angle.cos(), radius * angle.sin(), z[:, 1]], dim=1)


def uniform(n, g):
    return EDGE * (2 * torch.rand(n, 2, generator=g, dtype=torch.float64) - 1)


def two_intervals(n, g):
    """The first latent avoids the middle; both are white and independent."""
    z = torch.rand(n, 2, generator=g, dtype=torch.float64)
    sign = torch.sign(torch.rand(n, generator=g, dtype=torch.float64) - 0.5)
    return torch.stack([sign * (0.8 + z[:, 0]) / 1.3317, EDGE * (2 * z[:, 1] - 1)], dim=1)


def large_together(n, g):
    """Uniform marginals on a square, uncorrelated, but latents are large or small together."""
    z = uniform(8 * n, g)
    size = 2 * z.abs() / EDGE - 1
    kept = 2 * torch.rand(8 * n, generator=g, dtype=torch.float64) < 1 + 0.9 * size[:, 0] * size[:, 1]
    return z[kept][:n]


def disc(n, g):
    z = torch.randn(n, 2, generator=g, dtype=torch.float64)
    return 2 * z / z.norm(dim=1, keepdim=True) * torch.rand(n, 1, generator=g, dtype=torch.float64).sqrt()


def drawn(draw, n=10_000, seed=0):
    return draw(n, torch.Generator().manual_seed(seed))


def on_a_line(n, g):
    return uniform(n, g)[:, [0, 0]]


def world(decoder=flat, chosen=None, noise=0.0):
    observed = decoder(torch.zeros(1, 2, dtype=torch.float64)).shape[1]
    chosen = law("uniform", 2) if chosen is None else chosen
    return World(nm.Structure(np.ones((observed, 2), dtype=bool)), chosen, decoder, noise=noise)


def own(draw, independent=True):
    return Law("own", 2, independent, draw)


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
    answers = {h.name: h.answer for h in nearness(world(chosen=law(name, 2, seed=2))).hypotheses}
    assert answers[GAUSSIAN] == "fails"
    assert answers[CONVEX] == "holds"
    assert answers[INDEPENDENT] == ("holds" if name == "gaussian" else "fails")
    assert answers[WHITE] == "fails"


def test_one_gaussian_latent_is_no_rotation():
    line = World(nm.Structure(np.ones((2, 1), dtype=bool)), law("unit gaussian", 1), lambda z: torch.cat([z, z], dim=1))
    reading = nearness(line)
    assert reading.broken == ()
    assert next(h for h in reading.hypotheses if h.name == GAUSSIAN).answer == "holds"


def test_a_shifted_law_is_not_white_and_the_mean_is_named():
    told = nearness(world(chosen=own(lambda n, g: uniform(n, g) + torch.tensor([0.0, 1.0])))).hypotheses
    white = next(h for h in told if h.name == WHITE)
    assert white.answer == "fails"
    assert "z2" in white.evidence


def test_a_tight_roll_leaves_injectivity_open():
    reading = nearness(world(lambda z: wrapped(z, radius=0.56)))  # 3.46 long, around 3.52
    assert reading.theorem(RIGID).open == (INJECTIVE,)
    assert reading.theorem(RIGID).broken == ()


# ---- decoders ----------------------------------------------------------------------------------------------------


def orthogonal_net(leak):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4, bias=False), nn.LeakyReLU(leak), nn.Linear(4, 6, bias=False))
    for layer in net[::2]:
        nn.init.orthogonal_(layer.weight)
    return net


SQUARE = drawn(uniform, 4000)


def test_a_bare_decoder_leaves_open_what_it_cannot_show():
    reading = nearness(orthogonal_net(0.7), at=SQUARE)
    assert reading.theorem(RIGID).open == (OUTPUTS, CONVEX)
    assert reading.theorem(AFTER_ICA).open == (OUTPUTS, CONVEX)
    assert reading.theorem(STRUCTURAL).open == (OUTPUTS, CONVEX, EXPLAINED, GENERATION)
    assert reading.broken == ()
    assert reading.measured == "statistical"
    told = next(h for h in reading.hypotheses if h.name == ISOMETRIC)
    assert told.answer == "holds"  # by construction: 1/0.7
    assert "1.43 everywhere" in told.evidence


@pytest.mark.parametrize(
    ("decoder", "at", "name", "theorem"),
    [
        (wrapped, SQUARE, INJECTIVE, RIGID),
        (stretched, SQUARE, ISOMETRIC, RIGID),
        (orthogonal_net(0.1), SQUARE, ISOMETRIC, RIGID),
        (flat, drawn(two_intervals), CONVEX, RIGID),
        (flat, drawn(on_a_line), RANK, AFTER_ICA),
        (flat, torch.as_tensor(np.random.default_rng(0).normal(size=(4000, 2))), GAUSSIAN, AFTER_ICA),
        (flat, drawn(disc), SEPARATED, AFTER_ICA),
        (flat, drawn(large_together), INDEPENDENT, STRUCTURAL),
    ],
    ids=["fold", "stretch", "leak", "hole", "line", "gaussian", "disc", "large together"],
)
def test_a_decoder_that_breaks_one_hypothesis_loses_the_first_theorem_that_needs_it(decoder, at, name, theorem):
    reading = nearness(decoder, at=at)
    assert reading.theorem(theorem).broken == (name,)
    names = [t.name for t in reading.theorems]
    for earlier in names[: names.index(theorem)]:
        assert reading.theorem(earlier).broken == ()


def test_inactive_latents_are_dropped_and_nothing_is_said_of_them():
    z = np.c_[SQUARE.numpy(), np.random.default_rng(1).normal(size=(4000, 2))]
    reading = nearness(lambda z: flat(z[:, :2]), at=torch.as_tensor(z))
    assert reading.broken == ()
    assert len(reading.theorem(RIGID).conclusion) == 2
    assert reading.lipschitz.inactive.shape == (2, 4)
    assert any("2 inactive directions were dropped (mostly z3, z4); nothing is said" in s for s in reading.rests_on)
    assert reading.diameter == pytest.approx(nearness(flat, at=SQUARE).diameter)
    assert not any("inactive" in s for s in nearness(flat, at=SQUARE).rests_on)


def test_rows_in_the_words_are_rows_of_the_users_table():
    z = SQUARE.clone()
    z[3000] = torch.tensor([8.0, 8.0])

    def bumpy(z):
        return flat(z) * (1 + 5 * torch.sigmoid(20 * (z[:, :1] - 5)))

    spots = np.linspace(0, 3999, 256).astype(int)
    z[int(spots[200])] = torch.tensor([9.0, 0.0])
    told = next(h for h in nearness(bumpy, at=z).hypotheses if h.name == ISOMETRIC)
    assert told.answer == "fails"
    assert f"(point {spots[200]})" in told.evidence


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


# ---- arrays ------------------------------------------------------------------------------------------------------

TURN = np.array([[0.6, 0.8], [-0.8, 0.6]])
RUN = SQUARE.numpy()


def test_arrays_of_one_batch_get_the_theorem_about_ica():
    reading = nearness([RUN, RUN @ TURN, 3 * RUN + 1])
    theorem = reading.theorem(AFTER_ICA)
    assert tuple(h.name for h in theorem.hypotheses) == (AGREE, RANK, GAUSSIAN, SEPARATED)
    assert theorem.broken == theorem.open == ()
    assert reading.theorem(RIGID).open == (OUTPUTS, INJECTIVE, ISOMETRIC, CONVEX)
    assert [t.name for t in reading.theorems] == [RIGID, AFTER_ICA]  # nothing structural can be seen
    assert len(reading.agreements) == 3
    assert reading.term is None
    assert "No ε can be bounded: no decoder was seen" in reading.headline


@pytest.mark.parametrize(
    ("runs", "name"),
    [
        ([RUN, np.random.default_rng(0).permutation(RUN)], AGREE),
        ([np.c_[RUN, RUN.sum(axis=1)], np.c_[RUN, RUN.sum(axis=1)] + 1], RANK),
        ([np.random.default_rng(0).normal(size=(4000, 2))] * 2, GAUSSIAN),
        ([drawn(disc).numpy(), drawn(disc).numpy() @ TURN], SEPARATED),
    ],
    ids=["other rows", "plane", "gaussian", "disc"],
)
def test_arrays_that_break_one_hypothesis_lose_the_theorem_for_that_reason(runs, name):
    theorem = nearness(runs).theorem(AFTER_ICA)
    assert theorem.broken == (name,)
    assert theorem.open == ((SEPARATED,) if name == GAUSSIAN else ())


def test_a_hole_in_any_run_breaks_the_rigid_theorem():
    holed = drawn(two_intervals, 4000).numpy()
    assert nearness([RUN, holed]).theorem(RIGID).broken == (CONVEX,)
    assert nearness([holed, RUN]).theorem(RIGID).broken == (CONVEX,)


def test_a_stack_or_tensors_are_runs_too():
    stack = np.stack([RUN, RUN @ TURN])
    told = [nearness(s).agreements for s in (stack, torch.as_tensor(stack), (RUN, torch.as_tensor(RUN @ TURN)))]
    assert told[0][0].errors == pytest.approx(told[1][0].errors)
    assert told[0][0].errors == pytest.approx(told[2][0].errors)


def test_few_rows_leave_the_theorem_open():
    reading = nearness([RUN[:30], RUN[:30] @ TURN])
    assert reading.theorem(AFTER_ICA).open == (AGREE, RANK, GAUSSIAN, SEPARATED)
    assert reading.agreements == ()
    assert str(reading)


# ---- fitted models -----------------------------------------------------------------------------------------------


def line_net(inputs, outputs):
    return nn.Linear(inputs, outputs)


@pytest.fixture
def model():
    """Two autoencoders solved by hand: the decoder of the world up to a rotation."""
    rows = world(lambda z: z @ FRAME.double().T).sample(3000)
    fitted = nm.Autoencoder(
        2, encoder=line_net, decoder=line_net, n_models=2, training=nm.Training(steps=1), random_state=0
    ).fit(rows.x)
    scale = fitted.models_[0].scale
    for k, turn in enumerate((np.eye(2), TURN)):
        exact = torch.as_tensor(FRAME.double().numpy() @ turn) / scale[:, None]
        with torch.no_grad():
            fitted.models_[k].decoder.weight.copy_(exact)
            fitted.models_[k].decoder.bias.copy_(-fitted.models_[k].mean / scale)
    fitted.points_ = np.stack([rows.z, rows.z @ TURN])
    fitted.terms_["reconstruction"] = np.full(2, 0.01)
    fitted.best_ = 0
    return fitted


MODEL = (OUTPUTS, INJECTIVE, ISOMETRIC, CONVEX, RANK, GAUSSIAN, SEPARATED, INDEPENDENT, EXPLAINED, GENERATION)


def test_a_fitted_model_gets_what_can_be_seen(model):
    reading = nearness(model, constant=1.0)
    assert tuple(h.name for h in reading.theorem(STRUCTURAL).hypotheses) == MODEL
    assert reading.theorem(RIGID).open == (CONVEX,)
    assert reading.theorem(STRUCTURAL).open == (CONVEX, GENERATION)
    assert reading.broken == ()
    assert reading.measured == "statistical"
    assert reading.agreements[0].errors["rigid+scale"] < 1e-6
    assert reading.agreements[0].errors["signed permutation"] > 0.1
    assert reading.lipschitz.largest == pytest.approx(0, abs=1e-5)


def spoil(decoder, factor):
    with torch.no_grad():
        decoder.weight.mul_(factor)


def test_runs_with_other_outputs_break_the_first_hypothesis(model):
    spoil(model.models_[1].decoder, 2.0)
    reading = nearness(model)
    for theorem in reading.theorems:
        assert theorem.broken == (OUTPUTS,)
    told = next(h for h in reading.hypotheses if h.name == OUTPUTS)
    assert "runs 2 and 1" in told.evidence


def test_a_diverged_run_is_left_out(model):
    spoil(model.models_[1].decoder, 2.0)
    model.diverged_ = np.array([False, True])
    reading = nearness(model)
    assert reading.broken == ()
    assert reading.agreements == ()


def test_data_that_are_not_reconstructed_break_the_structural_theorem_only(model):
    model.terms_["reconstruction"] = np.array([0.5, 0.5]) * 6
    reading = nearness(model)
    assert [t.broken for t in reading.theorems] == [(), (), (EXPLAINED,)]
    told = next(h for h in reading.hypotheses if h.name == EXPLAINED)
    assert "0.500 of the variance" in told.evidence


def test_one_run_is_identified_when_its_outputs_are_the_data(model):
    model.diverged_ = np.array([False, True])
    told = {h.name: h.answer for h in nearness(model).hypotheses}
    assert told[OUTPUTS] == "supported"
    model.terms_["reconstruction"] = np.array([3.0, 3.0])
    assert nearness(model).theorem(RIGID).open == (OUTPUTS, CONVEX)


def test_without_standardised_observations_the_error_has_no_scale(model):
    model.standardise = False
    assert EXPLAINED in nearness(model).theorem(STRUCTURAL).open


@pytest.mark.parametrize(
    ("draw", "name", "theorem"),
    [
        (two_intervals, CONVEX, RIGID),
        (on_a_line, RANK, AFTER_ICA),
        (lambda n, g: torch.randn(n, 2, generator=g), GAUSSIAN, AFTER_ICA),
        (disc, SEPARATED, AFTER_ICA),
        (large_together, INDEPENDENT, STRUCTURAL),
    ],
    ids=["hole", "line", "gaussian", "disc", "large together"],
)
def test_latents_of_a_model_that_break_one_hypothesis_break_the_theorem_for_it(model, draw, name, theorem):
    assert nearness(model, at=drawn(draw)).theorem(theorem).broken == (name,)


def test_a_model_far_from_an_isometry_is_told(model):
    with torch.no_grad():
        for codec in model.models_:
            codec.decoder.weight.copy_(codec.decoder.weight @ torch.diag(torch.tensor([1.0, 3.0])))
    model.points_ = np.stack([model.points_[0], model.points_[0]])
    model.models_[1] = model.models_[0]
    reading = nearness(model)
    assert [t.broken for t in reading.theorems] == [(ISOMETRIC,)] * 3


def test_a_trained_autoencoder_is_read():
    rows = world().sample(600)
    fitted = nm.Autoencoder(2, n_models=2, training=nm.Training(steps=150), random_state=0).fit(rows.x)
    reading = nearness(fitted)
    assert reading.subject == "model"
    assert len(reading.agreements) == 1
    assert reading.agreements[0].errors["affine"] < 0.5 * reading.agreements[0].chance["affine"]


# ---- words -------------------------------------------------------------------------------------------------------


def test_a_reading_says_which_of_the_two_was_measured(model):
    structural, statistical = str(nearness(world())), str(nearness(model))
    assert "Measured: structural nearness, on the true latents" in structural
    assert "Measured: statistical nearness, consistency across runs" in statistical
    assert "Measured: statistical nearness" in str(nearness([RUN, RUN]))
    for text in (structural, statistical):
        assert "consistency" in text
        assert "is not correctness" in text


def test_the_words_hold_every_number(model):
    text = str(nearness(model))
    for piece in (
        "Numbers",
        "Δ = ",
        "L at 256 points",
        "whitening enlarges",
        "Held-out errors over Δ",
        "ICA efficiency",
    ):
        assert piece in text


@pytest.mark.parametrize("subject", ["world", "model", "arrays", "singular"])
def test_a_reading_survives_json(subject, model):
    reading = {
        "world": lambda: nearness(world(), constant=1.0),
        "model": lambda: nearness(model),
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
    first, again, other = (nearness(world(chosen=own(uniform)), seed=seed) for seed in (1, 1, 2))
    assert str(first) == str(again)
    assert str(first) != str(other)


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
