"""Latent points show independence or its absence, and chance is not taken for dependence."""

import numpy as np
import pytest
import torch
from torch import nn

import noumena as nm
from noumena.guarantees.premises import independent_points
from noumena.guarantees.witness import most_dependent


@pytest.mark.parametrize(("n", "d"), [(100, 3), (100, 10), (200, 20), (400, 20)])
def test_independent_latents_are_never_called_dependent_for_being_many(n, d):
    draws = (np.random.default_rng(seed).normal(size=(n, d)) for seed in range(20))
    assert "fails" not in [independent_points(torch.tensor(z)).answer for z in draws]


def test_dependent_latents_are_called_so():
    draw = np.random.default_rng(0)
    first = draw.normal(size=(400, 1))
    z = np.c_[first, first + 0.8 * draw.normal(size=(400, 1))]
    assert independent_points(torch.tensor(z)).answer == "fails"


def test_columns_beside_them_do_not_hide_a_dependence():
    draw = np.random.default_rng(0)
    coins, first = draw.integers(0, 2, (120, 2)).astype(float), draw.normal(size=120)
    second = 0.6 * first + 0.8 * draw.normal(size=120)
    assert independent_points(torch.tensor(np.c_[first, second])).answer == "fails"
    assert independent_points(torch.tensor(np.c_[coins, first, second])).answer == "fails"


def test_values_that_repeat_share_a_bin():
    draw = np.random.default_rng(0)
    coins = draw.integers(0, 2, (2000, 2)).astype(float)
    often_off = draw.normal(size=(4000, 2)) * (draw.random((4000, 2)) > 0.5)
    assert most_dependent(coins)[0] < 0.06
    assert most_dependent(often_off)[0] < 0.06
    assert most_dependent(np.c_[coins[:, 0], coins[:, 0]])[0] == pytest.approx(1, abs=1e-3)


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(7, 2), nn.Linear(2, 7)


def test_a_model_of_noise_is_not_certified_though_nothing_was_standardised(tmp_path):
    x = torch.randn(400, 7, generator=torch.Generator().manual_seed(0))
    penalty, training = 0.05 * nm.DependencySparsity(), nm.Training(steps=50, batch_size=64)
    model = nm.fit_penalised(Pair(), x, penalty=penalty, training=training, random_state=0)
    certificate = nm.certify(model)
    told = next(h for h in certificate.hypotheses if h.name == "the data are explained")
    assert told.answer == "fails"
    assert certificate.answer != "identified"
    assert f"{model.explained_[0]:.3f}" in told.evidence
    held_out_like = x.numpy()
    rebuilt = model.inverse_transform(model.transform(held_out_like))
    share = 1 - ((held_out_like - rebuilt) ** 2).sum() / ((held_out_like - held_out_like.mean(0)) ** 2).sum()
    assert model.explained_[0] == pytest.approx(share, abs=0.15)
    nm.save(model, tmp_path / "run")
    assert nm.load(tmp_path / "run", module=Pair()).explained_ == model.explained_
