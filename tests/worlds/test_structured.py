"""A structured world has exactly its structure, its facts are true, and no simple method solves it already."""

import sys

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from noumena.checks import InputError
from noumena.derivatives import jacobian
from noumena.metrics import mcc
from noumena.structure import Structure
from noumena.worlds import World, family, law, structured
from noumena.worlds.laws import NAMES
from noumena.worlds.structured import LEAST_SHARE, PROBES, SECANT_MARGIN, SPAN_MARGIN

MARGIN = 0.02  # the default

STRUCTURES = {
    "one latent": Structure([[1], [1]]),
    "pair": Structure([[1, 0], [1, 1], [0, 1]]),
    "banded": family("banded", 4, width=2),
    "triangular": family("triangular", 3, 5),
    "random": family("random", 4, 12, gap=1),
    "permutation": Structure(np.eye(3)),
}


@pytest.fixture(scope="module", params=STRUCTURES)
def world(request: pytest.FixtureRequest) -> World:
    return structured(STRUCTURES[request.param], random_state=1)


def finite_differences(world: World, z: np.ndarray, step: float = 1e-6) -> np.ndarray:
    columns = []
    for j in range(z.shape[1]):
        move = np.zeros_like(z)
        move[:, j] = step
        columns.append((world.decode(z + move) - world.decode(z - move)) / (2 * step))
    return np.stack(columns, axis=-1)


# ---- every world ---------------------------------------------------------------------------------------------


def test_moving_a_latent_moves_exactly_its_observations(world: World) -> None:
    z = world.sample(200, random_state=5).z
    moves = np.zeros(world.structure.dense.shape, dtype=bool)
    for j in range(world.n_latents):
        moved = z.copy()
        moved[:, j] += 1.0
        moves[:, j] = (world.decode(moved) != world.decode(z)).any(axis=0)
    np.testing.assert_array_equal(moves, world.structure.dense)


def test_the_jacobian_is_the_limit_of_differences(world: World) -> None:
    z = world.sample(100, random_state=6).z
    J = world.jacobian(z)
    assert J.shape == (100, world.n_observed, world.n_latents)
    np.testing.assert_allclose(J, finite_differences(world, z), atol=1e-6)
    np.testing.assert_array_equal((J != 0).any(axis=0), world.structure.dense)


def test_the_facts_hold_at_fresh_points(world: World) -> None:
    assert world.facts["rank margin"] > MARGIN
    assert world.facts["orientation kept"] == 1
    assert world.facts["span margin"] > SPAN_MARGIN
    J = world.jacobian(world.sample(PROBES, random_state=7).z)
    margins = [s[-1] / s[0] for s in np.linalg.svd(J, compute_uv=False)]
    assert min(margins) > MARGIN / 2
    assert min(margins) == pytest.approx(world.facts["rank margin"], rel=0.3)
    if world.n_observed == world.n_latents:
        assert len(set(np.sign(np.linalg.det(J)))) == 1
    spans = []
    for i, row in enumerate(world.structure.dense):
        singular = np.linalg.svd(J[:, i, row], compute_uv=False)
        spans.append(singular[-1] / singular[0])
    assert min(spans) == pytest.approx(world.facts["span margin"], rel=0.3)


def test_no_two_points_are_folded_together(world: World) -> None:
    assert world.facts["secant margin"] > SECANT_MARGIN
    z, other = world.sample(PROBES, random_state=9).z, world.sample(PROBES, random_state=10).z
    stretches = []
    for moving in [*np.eye(world.n_latents), np.ones(world.n_latents)]:
        moved = np.where(moving > 0, other, z)
        far = np.linalg.norm(moved - z, axis=1)
        stretches.append(np.linalg.norm(world.decode(moved) - world.decode(z), axis=1) / far)
    found = np.min(stretches) / np.max(stretches)
    assert found > MARGIN / 2
    assert found == pytest.approx(world.facts["secant margin"], rel=0.5)


def test_no_dependency_is_too_faint_to_see(world: World) -> None:
    drawn = world.sample(4000, random_state=8)
    share = np.abs(world.jacobian(drawn.z)).mean(axis=0) * drawn.z.std(axis=0) / drawn.x.std(axis=0)[:, None]
    assert share[world.structure.dense].min() > 0.9 * LEAST_SHARE
    assert share[~world.structure.dense].max(initial=0) == 0


# ---- seeds, laws, strength, noise ----------------------------------------------------------------------------


def test_the_seed_draws_the_decoder_too() -> None:
    a, b = (
        structured(STRUCTURES["pair"], strength=0.0, random_state=seed).jacobian(np.zeros((1, 2))) for seed in (3, 4)
    )
    assert not np.isclose(a, b)[:, STRUCTURES["pair"].dense].any()


@pytest.mark.parametrize("name", NAMES)
def test_every_law_makes_a_world(name: str) -> None:
    world = structured(STRUCTURES["pair"], law=name)
    assert world.law.name == name
    assert world.sample(3).z.shape == (3, 2)


def test_a_law_of_ones_own_is_used_as_it_is() -> None:
    chosen = law("uniform", 2, random_state=9)
    assert structured(STRUCTURES["pair"], law=chosen).law is chosen
    with pytest.raises(InputError, match=r"The law must have 2 latents\. Got 3\."):
        structured(STRUCTURES["pair"], law=law("uniform", 3))


def curvature(world: World) -> np.ndarray:
    """Each observation's spread around its best affine fit, relative to the fit's."""
    drawn = world.sample(4000)
    design = np.c_[drawn.z, np.ones(4000)]
    fitted = design @ np.linalg.lstsq(design, drawn.x, rcond=None)[0]
    return (drawn.x - fitted).std(axis=0) / fitted.std(axis=0)


def test_a_world_without_strength_is_affine_and_any_other_bends() -> None:
    S = STRUCTURES["triangular"]
    np.testing.assert_allclose(curvature(structured(S, strength=0.0)), 0, atol=1e-12)
    assert (curvature(structured(S, strength=0.3)) > 0.01).all()
    assert structured(S, strength=0.0).facts["span margin"] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("strength", [0.5, 1.0])
def test_the_nonlinear_part_has_strength_times_the_spread_of_the_linear_part(strength: float) -> None:
    world = structured(STRUCTURES["triangular"], strength=strength)
    linear, curved = world.decoder.parts(world.latents(PROBES))  # pyright: ignore[reportFunctionMemberAccess]
    np.testing.assert_allclose(curved.std(dim=0) / linear.std(dim=0), strength, rtol=0.15)


def test_linear_weights_are_of_one_size_and_mostly_of_one_sign() -> None:
    S = STRUCTURES["random"]
    J = np.concatenate(
        [structured(S, strength=0.0, random_state=s).jacobian(np.zeros((1, 4)))[0][S.dense] for s in range(20)]
    )
    assert ((np.abs(J) > 0.7) & (np.abs(J) < 1.3)).all()
    assert (J < 0).mean() == pytest.approx(0.3, abs=0.06)


def test_noise_has_the_standard_deviation_it_was_given_and_nothing_to_do_with_the_latents() -> None:
    S = STRUCTURES["banded"]
    noisy = structured(S, noise=0.5).sample(20_000, random_state=3)
    noise = noisy.x - structured(S).decode(noisy.z)
    np.testing.assert_allclose(noise.std(axis=0), 0.5, rtol=0.03)
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.02)
    together = np.corrcoef(np.c_[noise, noisy.z], rowvar=False)
    assert np.abs(together[~np.eye(8, dtype=bool)]).max() < 0.04
    np.testing.assert_array_equal(noisy.x, structured(S, noise=0.5).sample(20_000, random_state=3).x)


# ---- nothing simple solves it --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_neither_observations_nor_principal_components_already_are_the_latents(seed: int) -> None:
    drawn = structured(family("random", 5, 20, gap=1, random_state=seed), random_state=seed).sample(3000)
    assert mcc(drawn.z, drawn.x).score < 0.95
    assert mcc(drawn.z, PCA(5).fit_transform(drawn.x)).score < 0.95
    assert mcc(drawn.z, drawn.z).score > 0.999


# ---- refusals ------------------------------------------------------------------------------------------------


def test_too_strong_a_nonlinearity_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["noumena.worlds.structured"], "MOST_DRAWS", 10)
    with pytest.raises(InputError) as error:
        structured(family("banded", 5, width=4), strength=8.0)
    text = str(error.value)
    assert text.startswith("A world must ")
    assert text.endswith("lower the strength.")
    assert "Got none in 10 draws for Structure(5 observed × 5 latents, 20 dependencies) with strength 8.0;" in text
    assert "\n" not in text


def test_the_closed_form_jacobian_is_the_one_by_differentiation() -> None:
    world = structured(Structure([[1, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1]]), strength=1.0, random_state=4)
    z = world.latents(50)
    assert torch.allclose(world.decoder.jacobian(z), jacobian(world.decoder, z), rtol=1e-12, atol=1e-12)
