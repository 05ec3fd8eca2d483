"""Degenerate mixtures in two stages: the first is used only where it pays, and nothing sees the truth."""

import dataclasses
import re
import warnings

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sparse_rows import ICA, Unbent, affine_world, sparse_latents

from noumena.checks import InputError
from noumena.estimators.sparse.degenerate import DegenerateMixture
from noumena.estimators.sparse.stages import (
    Criteria,
    Identity,
    active,
    choose,
    code_density,
    normality,
)
from noumena.metrics import mcc


def bent_world():
    z, h = affine_world(n=3)
    h = h - 3
    return z, np.where(h > 0, h, 0.3 * h)


# ---- what can be said of a code without the truth --------------------------------------------------------


def density(z):
    return float(code_density(torch.as_tensor(z)))


def test_density_is_blind_to_order_and_scale_and_rises_with_mixing_offsets_and_copies():
    z = sparse_latents()
    plain = density(z)
    assert density(z[:, ::-1] * [-2, 0.1, 30]) == pytest.approx(plain)
    angle = np.deg2rad(20)
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    assert density(z / z.std(axis=0) @ turn) > plain + 0.05
    assert density(z + z.std(axis=0)) > plain + 0.05
    assert density(z[:, [0, 1, 1]]) > plain + 0.5


def test_density_is_near_the_share_of_active_entries_and_higher_for_a_dense_code():
    random = np.random.default_rng(0)
    assert density(random.normal(size=(5000, 3)) * (random.random((5000, 3)) < 0.2)) == pytest.approx(0.2, abs=0.05)
    assert density(random.normal(size=(5000, 3))) == pytest.approx(0.8, abs=0.05)


def test_a_dead_latent_costs_as_a_copy_does():
    z = sparse_latents()
    assert density(z * [1, 1, 0]) > density(z) + 0.5


def test_active_entries_are_beyond_a_share_of_their_latents_size():
    z = sparse_latents()
    assert np.array_equal(active(z, 1e-6), z != 0)
    assert active(z * [1, 1e-3, 1e3], 0.1).mean() == pytest.approx(active(z, 0.1).mean())
    assert active(z, 0.5).mean() < active(z, 0.1).mean()


def test_normality_is_judged_within_components_and_only_where_latents_are_active():
    z = np.zeros((400, 2))
    grid = norm.ppf((np.arange(200) + 0.5) / 200)
    z[:200, 0], z[200:, 1] = 5 + grid, 7 * grid
    assert normality(z, z != 0) == pytest.approx(1)
    assert normality(z, np.ones_like(z, dtype=bool)) < 0.9  # one component with everything in it is not Gaussian
    z[:200, 0] = np.exp(2 * grid)
    by_hand = np.corrcoef(np.sort(z[:200, 0]), grid)[0, 1] ** 2
    assert normality(z, z != 0) == pytest.approx((by_hand + 1) / 2)


def test_small_components_are_not_judged():
    z = sparse_latents(rows=20)
    assert np.isnan(normality(z, np.ones_like(z, dtype=bool)))


# ---- the choice ------------------------------------------------------------------------------------------


GOOD, SPARSER = Criteria(1.0, 0.6, 0.7, 0.9), Criteria(0.96, 0.5, 0.5, 0.95)


def test_the_nonlinear_stage_is_chosen_when_it_rebuilds_and_is_sparser():
    choice = choose(GOOD, SPARSER, margin=0.02)
    assert choice.chosen == "nonlinear"
    assert (choice.identity, choice.nonlinear) == (GOOD, SPARSER)
    for number in ("0.500", "0.02", "0.600", "0.960", "1.000"):
        assert number in choice.reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"explained": 0.94}, "must explain at least 0.95 .* explains 0.940"),
        ({"explained": float("nan")}, "must explain"),
        ({"density": 0.59}, "density 0.580 or less, 0.02 below .* gives 0.590"),
        ({"density": 0.6}, "gives 0.600"),
        ({"density": float("nan")}, "density"),
    ],
)
def test_otherwise_and_in_ties_the_identity_is(changes, words):
    choice = choose(GOOD, dataclasses.replace(SPARSER, **changes), margin=0.02)
    assert choice.chosen == "identity"
    assert re.search(words, choice.reason)


def test_what_must_be_explained_is_relative_to_the_identity():
    assert choose(dataclasses.replace(GOOD, explained=0.9), SPARSER, margin=0.02).chosen == "nonlinear"
    poor = dataclasses.replace(SPARSER, explained=0.86)
    assert choose(dataclasses.replace(GOOD, explained=0.9), poor, margin=0.02).chosen == "nonlinear"


def test_in_an_affine_world_the_identity_is_chosen_and_the_latents_found():
    z, x = affine_world()
    model = DegenerateMixture(solver=ICA, nonlinear=Unbent()).fit(x)
    assert model.choice_.chosen == "identity"
    assert isinstance(model.stage1_, Identity)
    assert mcc(z, model.transform(x)).score > 0.98
    assert model.choice_.identity.explained == pytest.approx(1)
    assert model.choice_.identity == model.criteria_
    assert model.choice_.nonlinear.density > model.criteria_.density


def test_a_nonlinear_stage_that_undoes_the_mixing_is_chosen():
    z, x = bent_world()
    model = DegenerateMixture(solver=ICA, nonlinear=Unbent()).fit(x)
    assert model.choice_.chosen == "nonlinear"
    assert model.criteria_ == model.choice_.nonlinear
    assert mcc(z, model.transform(x)).score > 0.98
    assert model.criteria_.normality > model.choice_.identity.normality
    assert model.criteria_.active < model.choice_.identity.active
    assert np.allclose(model.inverse_transform(model.transform(x)), x)


def test_a_nonlinear_stage_that_cannot_rebuild_or_is_not_sparser_by_the_margin_is_not():
    _, x = bent_world()
    far = DegenerateMixture(solver=ICA, nonlinear=Unbent(wrong=1e3)).fit(x)
    assert far.choice_.chosen == "identity"
    assert "explain" in far.choice_.reason
    strict = DegenerateMixture(solver=ICA, nonlinear=Unbent(), margin=0.9).fit(x)
    assert strict.choice_.chosen == "identity"
    assert "0.9 below" in strict.choice_.reason


class Picky(PCA):
    """A stage 2 that refuses codes whose mean is positive or negative, and warns of the others."""

    def __init__(self, n_components=None, sign=1):
        super().__init__(n_components)
        self.sign = sign

    def fit(self, x, y=None):
        if self.sign * x.mean() > 0:
            raise InputError("x must be sparse. Got nothing of the kind.")
        warnings.warn(f"Seen {np.sign(x.mean()):g}.", stacklevel=2)
        return super().fit(x)


class Negated(TransformerMixin, BaseEstimator):
    """A stage 1 that turns the sign; it comes back in ``part``."""

    def __init__(self, part=1.0):
        self.part = part

    def fit(self, x, y=None):
        return self

    def transform(self, x):
        return -x

    def inverse_transform(self, z):
        return -self.part * z


@pytest.mark.parametrize(("sign", "chosen"), [(1, "nonlinear"), (-1, "identity")])
def test_a_code_that_stage_two_refuses_loses_and_only_warnings_of_the_other_are_heard(sign, chosen):
    _, x = affine_world(rows=300)
    with pytest.warns(UserWarning, match=f"Seen {-sign}") as heard:
        model = DegenerateMixture(solver=Picky(sign=sign), nonlinear=Negated()).fit(np.abs(x))
    assert len(heard) == 1
    assert model.choice_.chosen == chosen
    assert "stage 2 said: x must be sparse. Got nothing of the kind." in model.choice_.reason
    assert (model.choice_.identity is None) == (chosen == "nonlinear")


def test_if_stage_two_refuses_all_codes_or_the_other_cannot_rebuild_its_sentence_is_raised():
    _, x = affine_world(rows=300)
    with pytest.raises(InputError, match="Got nothing of the kind"):
        DegenerateMixture(stage1="identity", solver=Picky()).fit(np.abs(x))
    with pytest.raises(InputError, match="Got nothing of the kind"):
        DegenerateMixture(solver=Picky(), nonlinear=Negated(part=0.0)).fit(np.abs(x))


def test_explained_is_one_minus_the_share_of_variance_lost():
    _, x = affine_world()
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    flat = DegenerateMixture(stage1="identity", solver=PCA(1)).fit(x)
    share = PCA(1).fit(x).explained_variance_ratio_[0]
    assert flat.criteria_.explained == pytest.approx(share, abs=0.03)


def test_rows_that_judge_are_seen_by_neither_stage():
    seen = []

    class Spy(PCA):
        def fit(self, x, y=None):
            seen.append(np.array(x))
            return super().fit(x)

    _, x = affine_world(rows=200)
    x = x * [1, 10, 100]
    model = DegenerateMixture(stage1="identity", solver=Spy(2), held_out=0.25).fit(x)
    kept = seen[0]
    unseen = x[[not (kept == row).all(axis=1).any() for row in x]]
    assert (len(kept), len(unseen)) == (150, 50)
    z = model.transform(unseen)
    assert model.criteria_.density == pytest.approx(density(z))
    assert model.criteria_.active == pytest.approx(active(z, 0.1).mean())
    lost = ((unseen - model.inverse_transform(z)) / kept.std(axis=0)) ** 2
    assert model.criteria_.explained == pytest.approx(1 - lost.mean())


def test_a_stage_that_was_asked_for_is_used_and_said_to_be():
    _, x = affine_world()
    identity = DegenerateMixture(stage1="identity", solver=ICA).fit(x)
    assert identity.choice_.reason == "The identity: it was asked for."
    assert identity.choice_.nonlinear is None
    given = DegenerateMixture(stage1=Unbent(), solver=ICA).fit(x)
    assert given.choice_.reason == "The nonlinear stage 1: it was asked for."
    assert given.choice_.identity is None
    assert isinstance(given.stage1_, Unbent)
