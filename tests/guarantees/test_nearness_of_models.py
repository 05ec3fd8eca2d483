"""Nearness of decoders, arrays and fitted models: what can be seen of them, and what breaks it."""

import json

import numpy as np
import pytest
import torch
from plane_decoders import (
    FRAME,
    RUN,
    SQUARE,
    TURN,
    disc,
    drawn,
    flat,
    large_together,
    on_a_line,
    stretched,
    two_intervals,
    world,
    wrapped,
)
from torch import nn

import noumena as nm
from noumena.guarantees.agreement import AGREE, AGREE_ONE_BY_ONE, AGREE_RIGIDLY
from noumena.guarantees.components import GAUSSIAN, INDEPENDENT, RANK, SEPARATED
from noumena.guarantees.lipschitz import CONVEX, INJECTIVE, ISOMETRIC
from noumena.guarantees.nearness import AFTER_ICA, EXPLAINED, GENERATION, OUTPUTS, RIGID, STRUCTURAL, nearness

# ---- decoders ----------------------------------------------------------------------------------------------------


def orthogonal_net(leak):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4, bias=False), nn.LeakyReLU(leak), nn.Linear(4, 6, bias=False))
    for layer in net[::2]:
        nn.init.orthogonal_(layer.weight)
    return net


def test_a_bare_decoder_leaves_open_what_it_cannot_show():
    reading = nearness(orthogonal_net(0.7), at=SQUARE)
    assert reading.theorem(RIGID).open == (OUTPUTS, CONVEX)
    assert reading.theorem(AFTER_ICA).open == (OUTPUTS, CONVEX)
    assert reading.theorem(STRUCTURAL).open == (OUTPUTS, CONVEX, EXPLAINED, GENERATION)
    assert reading.broken == ()
    assert reading.measured == "statistical"
    assert reading.strongest.name == AFTER_ICA  # the data were not seen to be reconstructed
    assert (OUTPUTS in reading.rests_on, EXPLAINED in reading.rests_on) == (True, False)
    told = next(h for h in reading.hypotheses if h.name == ISOMETRIC)
    assert told.answer == "holds"  # by construction: 1/0.7
    assert "1.43 everywhere" in told.evidence


def rolled(z):
    """Nearly closed: the ends of the first latent come close, though no two points meet."""
    turn = np.pi * 0.995 * z[:, :1] / 1.7320508
    return torch.cat([torch.cos(turn), torch.sin(turn), z[:, 1:] * np.pi / 1.7320508], dim=1)


def test_a_decoder_that_may_be_rolled_up_leaves_every_theorem_open():
    reading = nearness(rolled, at=SQUARE, constant=1.0)
    assert reading.theorem(RIGID).broken == ()
    assert INJECTIVE in reading.theorem(RIGID).open
    assert reading.strongest is None
    assert reading.ambiguity(0) == nm.Ambiguity("any")
    assert reading.epsilon is None


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


def test_what_was_dropped_is_said_in_the_headline():
    dropped = "1 inactive directions were dropped (mostly z2); nothing is said of them."
    assert dropped in nearness(lambda z: flat(z * torch.tensor([1.0, 0.0])), at=SQUARE).headline
    assert "inactive" not in nearness(flat, at=SQUARE).headline


@pytest.mark.parametrize("faint", [0.1, 1e-3, 1e-4, 5e-5])
def test_a_decoder_with_a_fainter_latent_gets_no_better_verdict(faint):
    reading = nearness(lambda z: flat(z * torch.tensor([1.0, faint])), at=SQUARE)
    assert [t.broken for t in reading.theorems] == [(ISOMETRIC,)] * 3
    assert len(reading.theorem(RIGID).conclusion) == 2
    assert reading.term > reading.diameter / faint / 3


def test_a_latent_in_large_units_that_moves_the_output_is_not_dropped():
    units = torch.tensor([1.0, 1e6])
    reading = nearness(lambda z: flat(z / units), at=SQUARE * units)
    assert reading.lipschitz.inactive.shape == (0, 2)
    assert reading.theorem(RIGID).broken == (ISOMETRIC,)
    assert reading.term > 1e6


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


def test_a_fold_is_told_by_the_row_of_the_users_table_and_the_other_latents():
    told = next(h for h in nearness(wrapped, at=SQUARE).hypotheses if h.name == INJECTIVE)
    row = int(told.evidence.split("point ")[1].split(" ")[0])
    other = [float(v) for v in told.evidence.split("(")[1].split(")")[0].split(",")]
    apart = wrapped(torch.tensor([other], dtype=torch.float64)) - wrapped(SQUARE[row][None])
    assert float(apart.norm()) < 1e-2


# ---- arrays ------------------------------------------------------------------------------------------------------


def test_arrays_of_one_batch_get_the_theorem_about_ica():
    reading = nearness([RUN, RUN @ TURN, 3 * RUN + 1])
    theorem = reading.theorem(AFTER_ICA)
    assert tuple(h.name for h in theorem.hypotheses) == (AGREE, AGREE_ONE_BY_ONE, RANK, GAUSSIAN, SEPARATED)
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
    assert theorem.broken == ((AGREE, AGREE_ONE_BY_ONE) if name == AGREE else (name,))
    assert theorem.open == ((SEPARATED,) if name == GAUSSIAN else ())


def test_a_hole_in_any_run_breaks_the_rigid_theorem():
    holed = drawn(two_intervals, 4000).numpy()
    assert CONVEX in nearness([RUN, holed]).theorem(RIGID).broken
    assert CONVEX in nearness([holed, RUN]).theorem(RIGID).broken
    assert nearness([holed, holed @ TURN]).theorem(RIGID).broken == (CONVEX,)


def test_a_stack_or_tensors_are_runs_too():
    stack = np.stack([RUN, RUN @ TURN])
    told = [nearness(s).agreements for s in (stack, torch.as_tensor(stack), (RUN, torch.as_tensor(RUN @ TURN)))]
    assert told[0][0].errors == pytest.approx(told[1][0].errors)
    assert told[0][0].errors == pytest.approx(told[2][0].errors)


def test_few_rows_leave_the_theorem_open():
    reading = nearness([RUN[:30], RUN[:30] @ TURN])
    assert reading.theorem(AFTER_ICA).open == (AGREE, AGREE_ONE_BY_ONE, RANK, GAUSSIAN, SEPARATED)
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


DECODER = (OUTPUTS, INJECTIVE, ISOMETRIC, CONVEX)
MODEL = (AGREE_RIGIDLY, *DECODER, AGREE_ONE_BY_ONE, RANK, GAUSSIAN, SEPARATED, INDEPENDENT, EXPLAINED, GENERATION)


def test_a_fitted_model_gets_what_can_be_seen(model):
    reading = nearness(model, constant=1.0)
    assert tuple(h.name for h in reading.theorem(STRUCTURAL).hypotheses) == MODEL
    assert reading.theorem(RIGID).open == (CONVEX,)
    assert reading.theorem(STRUCTURAL).open == (CONVEX, GENERATION)
    assert reading.strongest.name == AFTER_ICA  # the true data generation is not seen
    assert reading.epsilon is not None
    assert reading.broken == ()
    assert reading.measured == "statistical"
    assert reading.agreements[0].errors["rigid+scale"] < 1e-6
    assert reading.agreements[0].errors["signed permutation"] > 0.1
    assert reading.lipschitz.largest == pytest.approx(0, abs=1e-5)


def test_runs_whose_latents_disagree_lose_every_theorem_though_their_outputs_agree(model):
    rng = np.random.default_rng(0)
    model.points_ = np.stack([model.points_[0], rng.permutation(model.points_[0])])
    model.models_[1].decoder = model.models_[0].decoder
    for theorem in nearness(model).theorems:
        assert AGREE_RIGIDLY in theorem.broken


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
    reading = nearness(model, constant=1.0)
    assert reading.theorem(RIGID).open == (OUTPUTS, CONVEX)
    assert reading.strongest is None
    assert reading.epsilon is None
    assert "no bound is given, as the theorem is open" in reading.headline


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


def test_a_reading_of_runs_says_that_consistency_is_not_correctness(model):
    for reading in (nearness(model), nearness([RUN, RUN]), nearness(flat, at=SQUARE)):
        assert reading.measured == "statistical"
        assert "Measured: statistical nearness, consistency across runs; consistency is not correctness" in str(reading)


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


def test_a_models_reading_survives_json(model):
    facts = nearness(model).to_dict()
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["agreements"][0]["runs"] == [0, 1]
