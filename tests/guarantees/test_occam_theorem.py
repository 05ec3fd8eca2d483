"""The Occam theorem is satisfied by a world and a decoder built for it, and lost by breaking one hypothesis alone."""

import numpy as np
import pytest
import torch
from linear_decoders import GOOD, Linear, entries

import noumena as nm
from noumena.guarantees import fits, models
from noumena.guarantees.structures import conclude


def _concluded(decoder, points, S, r2):
    read = models._decoder(decoder, points, S, (fits.explained(r2),))
    return conclude(read, independent=False, available=models.available(read.model))


def hand_built(matrix, inner=lambda z: z, facts=None):
    A = torch.as_tensor(matrix, dtype=torch.float64)
    law = nm.worlds.law("unit gaussian", A.shape[1])
    known = {"rank margin": 0.1, "secant margin": 0.2} if facts is None else facts
    return nm.worlds.World(nm.Structure(np.asarray(matrix) != 0), law, lambda z: inner(z) @ A.T, facts=known)


def halved(z):
    return torch.stack([z[:, 0], torch.relu(z[:, 1])], dim=1)


NESTED = np.array([[1.0, 0.7], [0.9, 1.2], [0, 0.8], [0, 1.1]])
INVERTIBLE, GAP = "g is invertible", "the Occam gap is positive"
FULL = "full support and no accidental cancellation"


def occam(certificate):
    return next(t for t in certificate.theorems if t.name == "Occam")


@pytest.mark.parametrize(
    ("world", "broken", "still_open"),
    [
        (hand_built(entries(GOOD)), (), ("the other model is no denser",)),
        (hand_built(NESTED), (GAP,), ("the other model is no denser",)),
        (hand_built(entries(GOOD), halved, facts={}), (FULL, INVERTIBLE), ("the other model is no denser",)),
        (hand_built(entries(GOOD), facts={}), (), ("the other model is no denser",)),
    ],
)
def test_the_occam_theorem_on_a_world_names_exactly_the_hypothesis_that_is_broken(world, broken, still_open):
    found = occam(nm.certify(world))
    assert found.broken == broken
    assert found.open == still_open
    assert found.ambiguity(0) == nm.Ambiguity("any" if broken else "element-wise")


def test_where_no_sampled_point_has_full_support_that_premise_fails():
    def one_at_a_time(z):
        left = (z[:, [0]] > 0).to(z.dtype)
        return torch.cat([left * z[:, :1], (1 - left) * z[:, 1:]], dim=1)

    found = occam(nm.certify(hand_built(entries(GOOD), one_at_a_time)))
    assert FULL in found.broken
    assert FULL not in (*(plain := occam(nm.certify(hand_built(entries(GOOD))))).broken, *plain.open)


def decoder_theorem(matrix, r2=1.0, threshold=None):
    points = torch.randn(400, np.shape(matrix)[1], generator=torch.Generator().manual_seed(0))
    S = nm.Structure.from_decoder(Linear(matrix), points, threshold=threshold)
    return occam(_concluded(Linear(matrix), points, S, r2))


def test_the_occam_theorem_on_a_decoder_names_exactly_the_hypothesis_that_is_broken():
    assert decoder_theorem(entries(GOOD)).broken == ()
    assert decoder_theorem(entries(GOOD)).open == ()
    assert decoder_theorem(entries(GOOD), r2=0.5).broken == ("the data are explained",)
    assert decoder_theorem(np.eye(2)).broken == ("more observations than latents",)
    assert decoder_theorem(NESTED).broken == (GAP,)
    near = entries(GOOD)
    near[0, 1] = 0.08
    assert decoder_theorem(near, threshold=0.1).broken == ("zeros are exact",)


def test_a_latent_out_of_use_also_lies_inside_another_and_all_that_it_breaks_is_named():
    silent = np.c_[entries(GOOD), np.zeros(8)]
    assert set(decoder_theorem(silent).broken) == {GAP, "every latent is in use", FULL, INVERTIBLE}


def test_seeds_that_disagree_are_named_and_nothing_is_certified():
    x = nm.worlds.structured(nm.Structure(GOOD), law="unit gaussian", random_state=1).sample(300).x
    quick = nm.Training(steps=3)
    model = nm.VAE(2, n_models=3, training=quick, random_state=0).fit(x)
    first, second = np.argsort(model.objectives_)[:2]
    model.points_[second] = model.points_[first][:, [1, 0]] * 2 - 1
    assert fits.found_twice(model, np.arange(2)).answer == "supported"
    model.points_[second] = model.points_[first] @ np.array([[1.0, 1.0], [1.0, -1.0]])
    assert fits.found_twice(model, np.arange(2)).answer == "fails"
    assert "the two best seeds agree" in nm.certify(model).broken_premises
    alone = nm.VAE(2, n_models=1, training=quick, random_state=0).fit(x)
    assert fits.found_twice(alone, np.arange(2)).answer == "unknown"
