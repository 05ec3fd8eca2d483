"""The exact likelihood agrees with quadrature, and the truth is its only minimiser along every parameter."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import norm

from kivva.relu_mixture import (
    ReluMixture,
    _log_between,
    _log_normal,
    experiment,
    log_density,
    profile,
    random_model,
    unique_minimiser,
)
from noumena.checks import InputError


def model(observed: int = 1, hidden: int = 4, noise: float = 0.5, seed: int = 0) -> ReluMixture:
    rng = np.random.default_rng(seed)
    layer = {"w": rng.normal(size=hidden), "b": rng.normal(size=hidden), "A": rng.normal(size=(observed, hidden))}
    mixture = {"weights": [0.3, 0.7], "means": [-1, 1.5], "spreads": [0.5, 1.2]}
    return ReluMixture.of(**layer, c=rng.normal(size=observed), **mixture, noise=noise)


def by_quadrature(x: np.ndarray, m: ReluMixture) -> float:
    """The integral over the latent, piece by piece."""

    def joint(z: float) -> float:
        mean = m.decode(torch.tensor([z], dtype=torch.float64))[0].numpy()
        prior = sum(w * norm.pdf(z, mu, s) for w, mu, s in zip(m.weights, m.means, m.spreads, strict=True))
        return float(prior * norm.pdf(x, mean, float(m.noise)).prod())

    cuts = sorted({-10.0, *(-m.b / m.w).clamp(-10, 11).tolist(), 11.0})
    return float(np.log(sum(quad(joint, a, b)[0] for a, b in pairwise(cuts))))


@pytest.mark.parametrize("observed", [1, 3])
def test_the_density_is_that_of_a_numerical_integral_over_the_latent(observed):
    m = model(observed)
    x = m.sample(4, random_state=1)
    expected = [by_quadrature(row, m) for row in x.numpy()]
    np.testing.assert_allclose(log_density(x, m).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_density_integrates_to_one_and_its_sample_mean_is_that_of_draws(seed):
    m = random_model(3, 3, random_state=seed)
    nodes, mass = m.population
    assert float(mass.sum()) == pytest.approx(1, abs=1e-10)
    x = m.sample(40_000, random_state=seed)
    assert float((nodes[:, 0] * mass).sum()) == pytest.approx(float(x.mean()), abs=5 * float(x.std()) / 200)
    assert float((nodes[:, 0] ** 2 * mass).sum()) == pytest.approx(float((x**2).mean()), rel=0.05)


def test_a_finer_grid_leaves_the_integral_as_it_was(monkeypatch):
    m = random_model(3, 3, random_state=5)
    coarse = profile(m, "w", (0,), [0.3, 1.0])
    monkeypatch.setattr("kivva.relu_mixture.STEPS_PER_NOISE", 8.0)
    fine = profile(replace(m), "w", (0,), [0.3, 1.0])
    torch.testing.assert_close(coarse, fine, atol=1e-9, rtol=0)


def test_gradients_are_those_of_finite_differences_for_every_parameter():
    m = model(2, 3)
    x = m.sample(3, random_state=2)
    names = tuple(m.parameters)

    def loss(*values: torch.Tensor) -> torch.Tensor:
        return log_density(x, ReluMixture(**dict(zip(names, values, strict=True)))).sum()

    assert torch.autograd.gradcheck(loss, [value.clone().requires_grad_() for value in m.parameters.values()])


def test_order_of_units_and_components_is_forgiven():
    m = model(2)
    x, units, parts = m.sample(5), [2, 0, 3, 1], [1, 0]
    turned = replace(m, w=m.w[units], b=m.b[units], A=m.A[:, units])
    turned = replace(turned, **{k: getattr(m, k)[parts] for k in ("weights", "means", "spreads")})
    torch.testing.assert_close(log_density(x, turned), log_density(x, m))


def test_a_unit_that_never_switches_and_one_that_switches_where_another_does_are_harmless():
    m = model(1, 2)
    x = m.sample(5)
    zero = torch.zeros(1, dtype=torch.float64)
    still = replace(m, w=torch.cat([m.w, zero]), b=torch.cat([m.b, zero + 0.5]), A=torch.cat([m.A, zero[None]], dim=1))
    torch.testing.assert_close(log_density(x, still), log_density(x, m))
    half = replace(m, w=m.w.repeat(2), b=m.b.repeat(2), A=m.A.repeat(1, 2) / 2)
    torch.testing.assert_close(log_density(x, half), log_density(x, m))
    w = half.w.clone().requires_grad_()
    (slope,) = torch.autograd.grad(log_density(x, replace(half, w=w)).sum(), w)
    assert bool(slope.isfinite().all())


def test_observations_far_away_have_a_finite_density_and_gradient():
    m = model()
    x = torch.tensor([[1e4], [-1e4]], dtype=torch.float64, requires_grad=True)
    logs = log_density(x, m)
    assert bool((logs < -1e4).all())
    assert bool(logs.isfinite().all())
    (slope,) = torch.autograd.grad(logs.sum(), x)
    assert bool(slope.isfinite().all())


def test_the_log_of_a_normal_probability_is_exact_in_both_tails():
    x = torch.linspace(-40, 40, 401, dtype=torch.float64)
    np.testing.assert_allclose(_log_normal(x).numpy(), log_ndtr(x.numpy()), rtol=1e-12, atol=1e-300)
    lower = torch.tensor([-30.0, -1, 0, 5, 30, 1, 1, -1e30, 2], dtype=torch.float64)
    upper = torch.tensor([-29.0, 2, 1e30, 6, 31, 1 + 1e-9, 1, 1e30, 2.00005], dtype=torch.float64)
    near = norm.logpdf(1.0) + np.log(1e-9)
    expected = [norm.logcdf(-29), np.log(norm.cdf(2) - norm.cdf(-1)), np.log(0.5), np.log(norm.sf(5) - norm.sf(6))]
    expected += [norm.logsf(30), near, -np.inf, 0.0, norm.logpdf(2.000025) + np.log(5e-5)]
    np.testing.assert_allclose(_log_between(lower, upper).numpy(), expected, rtol=1e-6)


def test_the_truth_is_the_only_minimiser_of_every_parameter_of_random_models():
    rows = experiment(4, random_state=0)
    assert [(row.components, row.hidden) for row in rows] == [(2, 1), (3, 1), (2, 2), (3, 2)]
    assert all(row.unique for row in rows)
    assert min(row.margin for row in rows) > 1e-6
    assert max(row.error for row in rows) < 1e-3
    assert [len(row.minima) for row in rows] == [11, 14, 14, 17]  # every weight, bias, share, mean, spread, the noise
    assert max(m.minima for row in rows for m in row.minima) > 1  # not because the lines were convex


def test_a_parameter_that_leaves_no_trace_is_not_called_unique():
    blind = ReluMixture.of(
        w=[1, 1], b=[0, -50], A=[[1, 1]], c=[0], weights=[0.5, 0.5], means=[1, 3], spreads=[0.5, 0.7], noise=0.2
    )
    assert unique_minimiser(blind, "w", [0]).unique
    found = unique_minimiser(blind, "A", [0, 1])
    assert not found.unique
    assert found.margin < 1e-9


@pytest.mark.parametrize("slope", [1.0, 1 + 1e-5])
def test_a_mirrored_rival_is_found_even_if_it_is_a_trace_worse(slope):
    mirror = ReluMixture.of(
        w=[1, -1], b=[0, 0], A=[[1, slope]], c=[0], weights=[0.5, 0.5], means=[1.2, 0], spreads=[0.5, 0.5], noise=0.2
    )
    found = unique_minimiser(mirror, "means", [0])  # x = |z| cannot tell a mean of 1.2 from one of −1.2
    assert not found.unique
    assert found.minima == 2
    assert found.margin == pytest.approx(0, abs=1e-6)


def test_the_profile_is_the_divergence_and_shares_a_weight_among_its_rivals():
    m = random_model(3, 2, random_state=1)
    truth, moved = profile(m, "weights", [0], [float(m.weights[0]), 0.7])
    others = m.weights[1:] / m.weights[1:].sum() * 0.3
    other = replace(m, weights=torch.cat([torch.tensor([0.7], dtype=torch.float64), others]))
    nodes, mass = m.population
    divergence = (mass * (log_density(nodes, m) - log_density(nodes, other))).sum()
    assert float(moved - truth) == pytest.approx(float(divergence), abs=1e-10)
    assert float(divergence) > 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"b": [0, 1]}, "w, b and A must agree on the hidden units"),
        ({"means": [0, 1]}, "weights, means and spreads must have one entry per component"),
        ({"slope": 1.0}, "A model must have A, b, c, means, noise, spreads, w, weights."),
        ({"spreads": [0]}, "weights, spreads and noise must be positive"),
        ({"weights": [0.5]}, "weights must sum to one. Got a sum of 0.5"),
    ],
)
def test_a_model_that_does_not_fit_together_is_refused(change, sentence):
    good = {"w": [1], "b": [0], "A": [[2]], "c": [1], "weights": [1], "means": [0], "spreads": [1], "noise": 0.1}
    with pytest.raises(InputError, match=sentence):
        ReluMixture.of(**good | change)


def test_a_wrong_parameter_is_refused():
    m = model()
    with pytest.raises(InputError, match="name must be one of"):
        profile(m, "beta", [0], [1.0])
    with pytest.raises(InputError, match="index must name an entry of A"):
        profile(m, "A", [0], [1.0])
    with pytest.raises(InputError, match="one observed dimension"):
        profile(model(2), "w", [0], [1.0])
    alone = replace(m, weights=torch.ones(1).double(), means=m.means[:1], spreads=m.spreads[:1])
    with pytest.raises(InputError, match="A weight must have another"):
        profile(alone, "weights", [0], [0.5])
