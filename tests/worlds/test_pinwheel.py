"""The pinwheel: the published construction, and latents that follow the stated mixture."""

import numpy as np
import pytest

from noumena.worlds import pinwheel


def original(features: np.ndarray, labels: np.ndarray, clusters: int, rate: float) -> np.ndarray:
    """The published construction, row vectors times rotations, of points before they are turned."""
    angles = np.linspace(0, 2 * np.pi, clusters, endpoint=False)[labels] + rate * np.exp(features[:, 0])
    turns = np.stack([np.cos(angles), -np.sin(angles), np.sin(angles), np.cos(angles)]).T.reshape(-1, 2, 2)
    return 10 * np.einsum("ti,tij->tj", features, turns)


@pytest.mark.parametrize(("clusters", "rate"), [(3, 0.25), (5, 0.4), (2, 0.0)])
def test_observations_are_those_of_the_published_construction(clusters: int, rate: float) -> None:
    drawn = pinwheel(clusters, rate=rate).sample(500, random_state=2)
    angles = 2 * np.pi * drawn.u / clusters
    c, s = np.cos(angles), np.sin(angles)
    features = np.stack([c * drawn.z[:, 0] - s * drawn.z[:, 1], s * drawn.z[:, 0] + c * drawn.z[:, 1]], axis=1)
    assert drawn.x == pytest.approx(original(features, drawn.u, clusters, rate))
    assert features.mean(axis=0) == pytest.approx([1, 0], abs=0.1)


def test_latents_follow_the_mixture_it_states() -> None:
    world = pinwheel(4, radial=0.5, tangential=0.1)
    drawn, law = world.sample(40_000), world.mixture
    assert law.n_components == 4
    for j in range(4):
        z = drawn.z[drawn.u == j]
        assert len(z) == 10_000
        assert z.mean(axis=0) == pytest.approx(law.means[j], abs=0.02)
        assert np.cov(z.T) == pytest.approx(law.covariances[j], abs=0.01)
    assert np.linalg.norm(law.means, axis=1) == pytest.approx(np.ones(4))
    assert np.linalg.eigvalsh(law.covariances[1]) == pytest.approx([0.01, 0.25])


def test_without_a_rate_nothing_bends_and_with_one_it_does() -> None:
    straight, bent = pinwheel(rate=0.0).sample(100), pinwheel().sample(100)
    assert straight.x == pytest.approx(10 * straight.z)
    assert (straight.z == bent.z).all()
    assert np.linalg.norm(bent.x, axis=1) == pytest.approx(10 * np.linalg.norm(bent.z, axis=1))
    assert np.abs(bent.x - straight.x).max() > 5


def test_seeds_decide_and_sizes_are_equal() -> None:
    world = pinwheel(random_state=1)
    assert (world.sample(10, random_state=3).x == pinwheel(random_state=1).sample(10, random_state=3).x).all()
    assert np.abs(world.sample(10, random_state=3).x - world.sample(10, random_state=4).x).max() > 0.1
    assert (
        np.abs(world.sample(10, random_state=3).x - pinwheel(random_state=2).sample(10, random_state=3).x).max() > 0.1
    )
    assert sorted(np.bincount(world.sample(11).u)) == [3, 4, 4]
    assert (world.n_latents, world.n_observed) == (2, 2)
