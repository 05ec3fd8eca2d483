"""Changes of latents: every inverse undoes its forward map, and so do their derivatives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import Tensor
from torch.func import jvp

import noumena as nm
from noumena.derivatives import jacobian
from noumena.guarantees import changes
from noumena.guarantees.changes import Change, Conditional, Scalar, normal_score, standardised
from noumena.guarantees.competitors import conditions
from noumena.guarantees.witness import dependence
from noumena.worlds import structured


def draw(n: int, d: int, seed: int) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def g(z: Tensor) -> Tensor:
    """Four smooth observations of three latents; rows 0, 1, 2 determine them, row 2 falls with the third."""
    a, b, c = z.unbind(dim=1)
    first = a + 0.3 * a.sin() + 0.5 * b
    second = b**3 / 3 + b + 0.4 * c.tanh() + 0.2 * a
    return torch.stack([first, second, 0.3 * a * b.tanh() - (c / 2).sinh(), a + b + c], dim=1)


KNOWN, FRESH = draw(3000, 3, seed=0), draw(100, 3, seed=1)
SHEAR = changes.shear(0, 2, size=0.7, width=1.3)
SPREAD = [standardised(KNOWN[:, 0]), standardised(KNOWN[:, 1])]
SCORES = [normal_score(KNOWN[:, 0]), normal_score(KNOWN[:, 1])]

CHANGES: dict[str, Callable[[], Change]] = {
    "shear": lambda: SHEAR,
    "rotation by one angle": lambda: changes.rotation(0, 1, SPREAD, lambda z: torch.full_like(z[:, 2], 0.8)),
    "rotation by a latent": lambda: changes.rotation(1, 0, SPREAD, lambda z: z[:, 2].tanh()),
    "rotation of scores": lambda: changes.rotation(0, 1, SCORES, lambda z: z[:, 2].tanh()),
    "one observation": lambda: changes.substitution(g, [1], [1], KNOWN),
    "a falling observation": lambda: changes.substitution(g, [2], [2], KNOWN),
    "two observations": lambda: changes.substitution(g, [0, 1], [0, 1], KNOWN),
    "two in another order": lambda: changes.substitution(g, [2, 0], [3, 0], KNOWN),
    "all observations": lambda: changes.substitution(g, [2, 0, 1], [2, 0, 1], KNOWN),
    "triangular": lambda: changes.triangular(g, [1, 0, 2], [[], [0], [0, 1]], KNOWN),
}


@pytest.fixture(scope="module", params=CHANGES)
def change(request: pytest.FixtureRequest) -> Change:
    return CHANGES[request.param]()


def test_an_inverse_undoes_its_change_on_fresh_points(change: Change) -> None:
    z_hat = change.forward(FRESH)
    assert (z_hat - FRESH).abs().max() > 0.1
    torch.testing.assert_close(change.inverse(z_hat), FRESH, rtol=0, atol=1e-9)
    torch.testing.assert_close(change.forward(change.inverse(z_hat)), z_hat, rtol=0, atol=1e-9)


def test_the_jacobian_of_an_inverse_is_the_inverse_of_the_jacobian(change: Change) -> None:
    z = FRESH[:40]
    there = jacobian(change.forward, z).detach().numpy()
    back = jacobian(change.inverse, change.forward(z).detach()).detach().numpy()
    np.testing.assert_allclose(back, np.linalg.inv(there), rtol=0, atol=1e-6)


def test_reverse_mode_gives_the_same_derivatives_as_forward_mode(change: Change) -> None:
    z_hat = change.forward(FRESH[:5]).detach().requires_grad_()
    row = torch.autograd.grad(change.inverse(z_hat)[:, 0].sum(), z_hat)[0]
    np.testing.assert_allclose(row, jacobian(change.inverse, z_hat.detach())[:, 0].detach(), rtol=0, atol=1e-6)


def test_a_point_is_undone_alone_as_in_a_batch(change: Change) -> None:
    z_hat = change.forward(FRESH)
    torch.testing.assert_close(change.inverse(z_hat[7:8]), change.inverse(z_hat)[7:8], rtol=0, atol=1e-9)


# ---- shears and rotations ------------------------------------------------------------------------------------


def test_a_shear_adds_a_wave_of_one_latent_to_another_and_leaves_the_rest() -> None:
    moved = SHEAR.forward(FRESH)
    torch.testing.assert_close(moved[:, 0], FRESH[:, 0] + 0.7 * torch.sin(FRESH[:, 2] / 1.3))
    assert torch.equal(moved[:, 1:], FRESH[:, 1:])


@pytest.mark.parametrize("angle", [lambda z: torch.full_like(z[:, 2], np.pi / 4), lambda z: z[:, 2].tanh()])
def test_a_rotation_keeps_the_law_of_independent_gaussians(angle: Callable[[Tensor], Tensor]) -> None:
    scale, centre = torch.tensor([2.0, 0.5, 1.0]), torch.tensor([1.0, -3.0, 0.0])
    known, fresh = draw(20_000, 3, seed=2) * scale + centre, draw(20_000, 3, seed=3) * scale + centre
    change = changes.rotation(0, 1, [standardised(known[:, 0]), standardised(known[:, 1])], angle)
    turned = change.forward(fresh).detach().numpy()
    assert dependence(turned) < 0.03
    np.testing.assert_allclose(np.corrcoef(turned.T), np.eye(3), atol=0.03)
    assert max(kstest(turned[:, k], "norm").statistic for k in (0, 1)) < 0.02
    assert np.array_equal(turned[:, 2], fresh[:, 2])
    moved = jacobian(change.forward, fresh[:50])[:, :2, :2].abs().mean(dim=0)
    assert (moved * scale[:2] > 0.1).all()


def test_a_rotation_of_scores_keeps_latents_independent_that_are_not_gaussian() -> None:
    known, fresh = (nm.worlds.law("laplace", 3).draw(4000, torch.Generator().manual_seed(k)) for k in (4, 5))
    scores = [normal_score(known[:, 0]), normal_score(known[:, 1])]
    turned = changes.rotation(0, 1, scores, lambda z: z[:, 2].tanh()).forward(fresh).detach().numpy()
    assert max(kstest(turned[:, k], "norm").statistic for k in (0, 1)) < 0.06
    assert dependence(turned) < 0.08
    straight = changes.rotation(
        0, 1, [standardised(known[:, 0]), standardised(known[:, 1])], lambda z: 0.8 + 0 * z[:, 2]
    )
    assert dependence(straight.forward(fresh).detach().numpy()) > 0.15  # without scores a rotation does entangle


# ---- substitutions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("latents", "rows"), [([1], [1]), ([2, 0], [3, 0]), ([0, 1, 2], [1, 2, 0])])
def test_a_substitution_puts_observations_in_the_place_of_latents(latents: list[int], rows: list[int]) -> None:
    moved = changes.substitution(g, latents, rows, KNOWN).forward(FRESH)
    others = [j for j in range(3) if j not in latents]
    assert torch.equal(moved[:, latents], g(FRESH)[:, rows])
    assert torch.equal(moved[:, others], FRESH[:, others])


@pytest.mark.parametrize("spread", [3.0, 6.0])
def test_one_observation_is_undone_far_outside_the_known_points(spread: float) -> None:
    far = spread * FRESH
    for t, i in ((0, 0), (1, 1), (2, 2), (2, 3)):
        change = changes.substitution(g, [t], [i], KNOWN)
        torch.testing.assert_close(change.inverse(change.forward(far)), far, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize(
    ("box", "known"), [(1.5, 1.0), (1.0, 0.97)], ids=["close to the turn", "beyond the known points"]
)
def test_a_substitution_is_undone_where_latents_lie_though_the_observation_turns_beyond(
    box: float, known: float
) -> None:
    def turning(z: Tensor) -> Tensor:
        return torch.stack([torch.sin(z[:, 0]) + 0.1 * z[:, 1], z[:, 1]], dim=1)

    uniform = box * (2 * torch.rand(2000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 1)
    change, fresh = changes.substitution(turning, [0], [0], known * uniform[:1000]), 0.98 * uniform[1000:]
    torch.testing.assert_close(change.inverse(change.forward(fresh)), fresh, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("latents", "rows"), [([1], [1]), ([0, 2], [0, 3])])
def test_an_inverse_carries_derivatives_to_the_parameters_of_its_map(latents: list[int], rows: list[int]) -> None:
    def inverse(weight: Tensor) -> Tensor:
        change = changes.substitution(lambda z: g(weight * z), latents, rows, KNOWN)
        return change.inverse(z_hat).pow(2).sum()

    weight = torch.tensor([1.0, 0.8, 1.2], dtype=torch.float64)
    z_hat = changes.substitution(lambda z: g(weight * z), latents, rows, KNOWN).forward(FRESH[:20])
    leaf = weight.clone().requires_grad_()
    inverse(leaf).backward()
    steps = 1e-6 * torch.eye(3, dtype=torch.float64)
    differences = [(inverse(weight + step) - inverse(weight - step)) / 2e-6 for step in steps]
    assert leaf.grad is not None
    np.testing.assert_allclose(leaf.grad, torch.stack(differences), rtol=1e-6, atol=1e-6)


# ---- one-dimensional distribution functions ------------------------------------------------------------------

SKEWED = (0.5 * draw(2000, 1, seed=6)[:, 0]).exp()


@pytest.mark.parametrize("scalar", [standardised(SKEWED), normal_score(SKEWED)], ids=["standardised", "normal score"])
def test_a_scalar_rises_and_its_root_undoes_it_far_into_both_tails(scalar: Scalar) -> None:
    values = SKEWED.mean() + SKEWED.std() * torch.linspace(-25, 25, 301, dtype=torch.float64)
    scores = scalar.value(values)
    assert (scores.diff() > 0).all()
    assert torch.isfinite(scores).all()
    torch.testing.assert_close(scalar.root(scores), values, rtol=0, atol=1e-9)


def test_a_standardised_sample_has_mean_zero_and_spread_one() -> None:
    scores = standardised(SKEWED).value(SKEWED)
    torch.testing.assert_close(torch.stack([scores.mean(), scores.std()]), torch.tensor([0.0, 1.0]).double())


def test_scores_of_a_fresh_sample_are_standard_normal() -> None:
    fresh = (0.5 * draw(4000, 1, seed=7)[:, 0]).exp()
    assert kstest(normal_score(SKEWED).value(fresh).numpy(), "norm").statistic < 0.05
    assert kstest(standardised(SKEWED).value(fresh).numpy(), "norm").statistic > 0.08


def curved(n: int, seed: int) -> Tensor:
    """A second variable whose mean and spread both depend on the first."""
    given, noise = draw(n, 2, seed).unbind(dim=1)
    return torch.stack([given, given**2 + (0.5 + 0.3 * given.tanh()) * noise], dim=1)


def test_conditional_scores_rise_and_their_root_undoes_them_far_into_both_tails() -> None:
    conditional = Conditional(curved(2000, seed=8))
    x = torch.linspace(-8, 8, 101, dtype=torch.float64)
    for given in (-4.0, -1.0, 0.0, 2.0, 4.0):
        first = torch.full((101, 1), given, dtype=torch.float64)
        near = x + given**2
        scores = conditional.value(near, first)
        assert (scores.diff() > 0).all()
        torch.testing.assert_close(conditional.root(scores, first), near, rtol=0, atol=1e-9)


def test_conditional_scores_of_a_fresh_sample_are_normal_and_free_of_what_is_given() -> None:
    known, fresh = curved(2000, seed=8), curved(4000, seed=9)
    scores = Conditional(known).value(fresh[:, 1], fresh[:, :1]).numpy()
    assert kstest(scores, "norm").statistic < 0.05
    assert dependence(np.stack([fresh[:, 0], scores], axis=1)) < 0.08
    assert dependence(fresh.numpy()) > 0.4


def test_a_root_carries_derivatives_to_its_score_and_to_what_is_given() -> None:
    conditional = Conditional(curved(1000, seed=8))
    score, given = torch.linspace(-3, 3, 13, dtype=torch.float64), draw(13, 1, seed=10)
    ones, step = torch.ones_like(score), 1e-5
    _, along = jvp(lambda s: conditional.root(s, given), (score,), (ones,))
    ahead, behind = conditional.root(score + step, given), conditional.root(score - step, given)
    np.testing.assert_allclose(along, (ahead - behind) / (2 * step), rtol=1e-5)
    _, across = jvp(lambda v: conditional.root(score, v), (given,), (torch.ones_like(given),))
    ahead, behind = conditional.root(score, given + step), conditional.root(score, given - step)
    np.testing.assert_allclose(across, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-6)


# ---- triangular ----------------------------------------------------------------------------------------------

ROWS = (3, 1, 2)


@pytest.fixture(scope="module")
def world() -> nm.worlds.World:
    return structured(
        nm.Structure([[1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 1, 1], [0, 0, 1]]), law="laplace", random_state=0
    )


def test_triangular_latents_are_nearly_standard_normal_and_nearly_independent(world: nm.worlds.World) -> None:
    given = conditions(world.structure, ROWS)
    change = changes.triangular(world.decoder, ROWS, given, world.latents(4000, random_state=1))
    fresh = world.latents(3000, random_state=2)
    found = change.forward(fresh).detach().numpy()
    assert max(kstest(found[:, k], "norm").statistic for k in range(3)) < 0.06
    assert dependence(found) < 0.08
    assert dependence(world.decoder(fresh)[:, list(ROWS)].numpy()) > 0.3
    torch.testing.assert_close(change.inverse(change.forward(fresh[:50])), fresh[:50], rtol=0, atol=1e-9)


def test_a_triangular_latent_depends_on_its_own_observation_and_the_given_ones_alone() -> None:
    change = changes.triangular(g, [1, 0, 2], [[], [0], []], KNOWN)
    z = FRESH[:20]
    there, observed = jacobian(change.forward, z).detach(), jacobian(g, z)[:, [1, 0, 2]].detach()
    depends = torch.linalg.solve(observed.mT, there.mT).mT.abs().amax(dim=0) > 1e-8
    assert depends.tolist() == [[True, False, False], [True, True, False], [False, False, True]]
