"""Prediction across columns: linear models have closed forms, copies help nobody, and shared noise is seen."""

import numpy as np
import pytest
import torch
from torch import nn

from noumena.estimators.across_columns import (
    ColumnPrediction,
    ColumnTask,
    LatentLaw,
    modes,
    predict_columns,
    predicted,
    tied_columns,
)
from noumena.estimators.codec import Codec

LOADINGS = torch.tensor(np.random.default_rng(0).normal(size=(8, 2)))
ROWS = 1500


def rows_of(seed: int, noise: float = 0.5, n: int = ROWS) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    z = torch.tensor(rng.normal(size=(n, 2)))
    return z @ LOADINGS.T + noise * torch.tensor(rng.normal(size=(n, 8))), z


def linear_codec(decoder: torch.Tensor, noise: float = 0.5) -> Codec:
    """The decoder ``z ↦ A z`` with the posterior's mean as its encoder."""
    A = decoder.double()
    to_codes, to_rows = nn.Linear(len(A), A.shape[1], bias=False), nn.Linear(A.shape[1], len(A), bias=False)
    precision = A.T @ A / noise**2 + torch.eye(A.shape[1], dtype=torch.double)
    to_codes.weight.data = torch.linalg.solve(precision, A.T / noise**2)
    to_rows.weight.data = A
    return Codec(to_codes, to_rows, torch.zeros(len(A)), torch.ones(len(A))).double()


def test_a_linear_model_predicts_the_conditional_mean():
    x, _ = rows_of(1)
    law = LatentLaw(torch.zeros(2).double(), torch.eye(2).double(), torch.full((8,), 0.25).double())
    guess = predicted(linear_codec(LOADINGS), x, law, [0, 5])
    covariance = LOADINGS @ LOADINGS.T + 0.25 * torch.eye(8)
    for k, j in enumerate((0, 5)):
        rest = [i for i in range(8) if i != j]
        expected = x[:, rest] @ torch.linalg.solve(covariance[rest][:, rest], covariance[rest, j])
        torch.testing.assert_close(guess[:, k], expected, rtol=1e-3, atol=1e-3)


def test_no_column_sees_itself():
    x, _ = rows_of(2)
    law = LatentLaw(torch.zeros(2).double(), torch.eye(2).double(), torch.full((8,), 0.25).double())
    other = x.clone()
    other[:, 3] = 100.0
    codec = linear_codec(LOADINGS)
    torch.testing.assert_close(predicted(codec, x, law, [3]), predicted(codec, other, law, [3]))


def test_the_mode_of_a_bent_model_is_where_its_gradient_is_zero():
    def decode(z):
        return torch.stack([z[:, 0] + torch.sin(z[:, 1]), z[:, 1] ** 3 / 3 + z[:, 1], z[:, 0] * z[:, 1]], dim=1)

    rng = np.random.default_rng(3)
    x = decode(torch.tensor(rng.normal(size=(50, 2)))) + 0.1 * torch.tensor(rng.normal(size=(50, 3)))
    weight = torch.full((50, 3), 100.0).double()
    law = LatentLaw(torch.zeros(2).double(), torch.eye(2).double(), torch.full((3,), 0.01).double())
    z = modes(decode, x, weight, law, torch.zeros(50, 2).double()).requires_grad_()
    cost = ((x - decode(z)).square() * weight).sum() + z.square().sum()
    (gradient,) = torch.autograd.grad(cost, z)
    assert gradient.abs().median() < 1e-2  # of curvatures of a hundred


def test_the_true_model_is_as_good_as_its_peers_and_one_with_too_few_latents_is_not():
    (train, _), (fresh, _) = rows_of(4), rows_of(5, n=500)
    right = predict_columns(linear_codec(LOADINGS), train, fresh)
    poor = predict_columns(linear_codec(LOADINGS[:, :1]), train, fresh)
    assert right is not None
    assert poor is not None
    assert right.explained
    assert right.shortfall < 0.03
    assert poor.explained is False
    assert poor.shortfall > 0.1


def test_a_latent_that_copies_one_column_reconstructs_more_and_predicts_no_more():
    (train, _), (fresh, _) = rows_of(6), rows_of(7, n=500)
    copied = torch.cat([LOADINGS, torch.eye(8).double()[:, :1]], dim=1)
    right, more = linear_codec(LOADINGS), linear_codec(copied)
    left = [float((fresh - m.decoder(m.code(fresh))).detach().square().mean()) for m in (right, more)]
    assert left[1] < left[0]
    one, two = (predict_columns(m, train, fresh) for m in (right, more))
    assert one is not None
    assert two is not None
    assert two.score <= one.score + 0.005


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_two_columns_share_is_seen_and_independent_noise_is_not(seed):
    fresh, _ = rows_of(10 + seed)
    shared = fresh.clone()
    shared[:, :2] += 0.7 * torch.tensor(np.random.default_rng(seed).normal(size=(ROWS, 1)))
    codec = linear_codec(LOADINGS)
    law = LatentLaw(torch.zeros(2).double(), torch.eye(2).double(), torch.full((8,), 0.25).double())
    pair, excess, clear = tied_columns(codec, shared, law, list(range(8)))
    assert (pair, clear) == ((0, 1), True)
    assert excess > 0.1
    _, excess, clear = tied_columns(codec, fresh, law, list(range(8)))
    assert not clear or abs(excess) < 0.03


def test_columns_that_share_nothing_are_not_explained():
    rng = np.random.default_rng(8)
    train, fresh = (torch.tensor(rng.normal(size=(n, 8))) for n in (1000, 300))
    found = predict_columns(linear_codec(LOADINGS), train, fresh)
    assert found is not None
    assert not found.shares_any
    assert found.explained is False


def test_few_rows_do_not_tell_and_too_few_columns_are_not_asked():
    (train, _), (fresh, _) = rows_of(9), rows_of(10, n=25)
    found = predict_columns(linear_codec(LOADINGS), train, fresh)
    assert found is not None
    assert found.explained is not True
    assert predict_columns(linear_codec(LOADINGS[:2]), train[:, :2], fresh[:, :2]) is None
    assert ColumnTask.of(train, fresh[:5]) is None


def test_a_record_survives_json():
    found = ColumnPrediction((0, 2), (0.5, 0.6), (0.4, 0.7), 0.1, 0.02, 100, 9.0, (0, 2), 0.01, True)
    import json

    assert ColumnPrediction.from_dict(json.loads(json.dumps(found.to_dict()))) == found
