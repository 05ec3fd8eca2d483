"""Mixture priors: what they state is what the readers of mixtures find, and counterexamples really are some."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from noumena.guarantees.degenerate import COMMON_BASIS, GENERIC, degenerate_ladder
from noumena.guarantees.mixtures import (
    DISTINCT_RATIOS,
    INDEPENDENT,
    MAXIMAL,
    NON_DEGENERATE,
    mixture_ladder,
    recover_states,
)
from noumena.worlds import (
    Mixture,
    MixtureWorld,
    equal_distances,
    hidden_variables,
    mixed,
    non_degenerate,
    random_graph,
    swapped_halves,
    three_lines,
)
from noumena.worlds.mixings import plane_rotations
from noumena.worlds.priors import Fan


def law_of(world: MixtureWorld) -> Mixture:
    assert world.mixture is not None
    return world.mixture


def not_affine(z: np.ndarray, image: np.ndarray) -> float:
    """The largest miss of the best affine map."""
    plus = np.column_stack([z, np.ones(len(z))])
    return float(np.abs(plus @ np.linalg.lstsq(plus, image, rcond=None)[0] - image).max())


# ---- mixtures behind layers --------------------------------------------------------------------------------


def test_a_given_mixture_is_drawn_and_decoded() -> None:
    law = Mixture([0.2, 0.8], [[3, 0], [-1, 2]], [np.eye(2), [[2, 1], [1, 1]]])
    world = mixed(law, layers=4, slope=0.3, random_state=5)
    drawn = world.sample(20_000, random_state=1)
    assert world.mixture is law
    assert drawn.x == pytest.approx(world.decode(drawn.z))
    assert world.decoder.inverse(torch.as_tensor(drawn.x)).numpy() == pytest.approx(drawn.z)
    assert drawn.u.mean() == pytest.approx(0.8, abs=0.02)
    assert drawn.z[drawn.u == 1].mean(axis=0) == pytest.approx([-1, 2], abs=0.05)
    assert np.cov(drawn.z[drawn.u == 1].T) == pytest.approx(law.covariances[1], abs=0.1)
    assert (
        world.sample(5, random_state=3).x == mixed(law, layers=4, slope=0.3, random_state=5).sample(5, random_state=3).x
    ).all()
    assert np.abs(world.sample(5, random_state=3).x - world.sample(5, random_state=4).x).max() > 0.1
    assert (
        np.abs(world.sample(5, random_state=3).z - mixed(law, random_state=6).sample(5, random_state=3).z).max() > 0.1
    )
    assert (world.n_latents, world.n_observed) == (2, 2)
    assert world.jacobian(drawn.z[:4]).shape == (4, 2, 2)
    assert world.facts["independent within components"] is False
    assert world.facts["components"] == 2
    flat = mixed(Mixture([1.0], [[0, 0]], [np.diag([1, 0])]), layers=1, mixing="sigmoid").facts
    assert (flat["non-degenerate"], flat["piecewise affine"]) == (False, False)


@pytest.mark.parametrize("edges", [0, 1])
def test_non_degenerate_worlds_satisfy_p1_and_without_edges_p2(edges: int) -> None:
    world = non_degenerate(4, edges=edges, layers=3, random_state=2)
    reading = mixture_ladder(world.mixture, decoder=world.decoder, exact=True)
    answers = {h.name: h.answer for h in reading.hypotheses}
    assert answers[NON_DEGENERATE] == "holds"
    assert answers[INDEPENDENT] == ("holds" if edges == 0 else "fails")
    assert answers[DISTINCT_RATIOS] == "holds"
    assert world.facts["independent within components"] is (edges == 0)
    assert world.facts["edges"] == 4 * edges
    assert law_of(world).n_components == 8
    assert law_of(non_degenerate(4, components=3)).n_components == 3


def test_components_of_one_graph_differ_in_noise_only_and_their_means_have_the_spread() -> None:
    law = law_of(non_degenerate(6, edges=2, components=400, spread=3.0, random_state=1))
    unit = law_of(non_degenerate(6, edges=2, components=400, spread=0.0, random_state=1))
    assert (unit.means == 0).all()
    inverse = np.linalg.inv(law.covariances[0])
    other = np.linalg.inv(law.covariances[1])
    assert ((np.abs(inverse) < 1e-9) == (np.abs(other) < 1e-9)).all()  # one sparsity of the precisions
    graph = random_graph(6, 2, random_state=1)
    residual = np.eye(6) - graph.weights
    noise = residual.T @ law.covariances[7] @ residual
    assert noise == pytest.approx(np.diag(np.diag(noise)), abs=1e-9)
    assert ((np.diag(noise) >= 0.25) & (np.diag(noise) <= 2)).all()
    assert law.means.std(axis=0) / np.sqrt(np.diag(graph.covariance)) == pytest.approx(np.full(6, 3.0), rel=0.15)


def test_a_rotation_mixes_independent_latents_and_changes_nothing_else() -> None:
    straight, turned = (non_degenerate(3, edges=0, angle=angle, layers=2, random_state=4) for angle in (0.0, 20.0))
    assert turned.facts["independent within components"] is False
    R = plane_rotations(3, 20.0)
    assert law_of(turned).means == pytest.approx(law_of(straight).means @ R.T)
    assert law_of(turned).covariances == pytest.approx(R @ law_of(straight).covariances @ R.T)
    assert turned.decode(np.eye(3)) == pytest.approx(straight.decode(np.eye(3)))


# ---- hidden variables --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "sizes"),
    [
        ([[1, 1, 0], [0, 1, 1]], (2, 3)),
        ([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]], (3, 2, 2)),
        ([[1, 1, 1]], (4,)),
    ],
)
def test_the_hidden_variables_are_recovered_from_the_mixture(graph: list[list[int]], sizes: tuple[int, ...]) -> None:
    world = hidden_variables(graph, sizes=sizes, layers=2, random_state=3)
    found = recover_states(world.mixture)
    assert found.k == len(sizes)
    order = sorted(range(len(graph)), key=lambda j: tuple(graph[j]), reverse=True)
    assert found.neighbourhoods.astype(int).tolist() == [graph[j] for j in order]
    assert found.sizes == tuple(sizes[j] for j in order)
    chances = world.facts["probabilities"]
    states = np.stack(np.unravel_index(np.arange(chances.size), sizes), axis=1)
    for component, state in enumerate(states):
        assert found.probabilities[tuple(found.labels[component])] == pytest.approx(chances[tuple(state)])
    answers = {h.name: h.answer for h in mixture_ladder(world.mixture, neighbourhoods=graph, exact=True).hypotheses}
    assert answers[MAXIMAL] == answers[INDEPENDENT] == answers[DISTINCT_RATIOS] == "holds"
    assert world.facts["maximal"]


def test_given_probabilities_are_kept_and_a_latent_moves_only_with_its_neighbours() -> None:
    chances = np.array([[0.1, 0.2, 0.1], [0.3, 0.1, 0.2]])
    world = hidden_variables([[1, 0, 0], [0, 1, 0]], sizes=(2, 3), probabilities=chances, layers=1)
    law = law_of(world)
    assert law.weights == pytest.approx(chances.ravel())
    u, v = np.unravel_index(np.arange(6), (2, 3))
    for states, latent, number in ((u, 0, 2), (v, 1, 3)):
        pairs = {(int(s), m) for s, m in zip(states, law.means[:, latent], strict=True)}
        assert len(pairs) == len({m for _, m in pairs}) == number
    assert len(np.unique(law.means[:, 2])) == 1
    assert np.bincount(world.sample(50_000).u) / 50_000 == pytest.approx(chances.ravel(), abs=0.01)


def test_nested_neighbourhoods_are_not_maximal_and_are_named() -> None:
    world = hidden_variables([[1, 1, 0], [0, 1, 0]])
    assert world.facts["maximal"] is False
    assert world.facts["nested"] == [(1, 0)]
    answers = {
        h.name: h.answer
        for h in mixture_ladder(world.mixture, neighbourhoods=world.facts["neighbourhoods"], exact=True).hypotheses
    }
    assert answers[MAXIMAL] == "fails"


# ---- counterexamples ---------------------------------------------------------------------------------------


def test_a_fan_is_linear_in_each_sector_continuous_and_inverts() -> None:
    rays = torch.tensor([[1.0, 0], [1, 2], [-1, 1], [-1, -3], [2, -1]], dtype=torch.float64)
    images = torch.tensor([[2.0, 0], [1, 1], [-3, 1], [-1, -1], [0, -2]], dtype=torch.float64)
    fan = Fan(rays, images)
    assert torch.allclose(fan(rays), images)
    a, b = torch.rand(2, 50, 1, dtype=torch.float64)
    for k in range(5):
        j = (k + 1) % 5
        assert torch.allclose(fan(a * rays[k] + b * rays[j]), a * images[k] + b * images[j])
    z = torch.randn(300, 2, dtype=torch.float64)
    assert torch.allclose(fan.inverse()(fan(z)), z)
    assert torch.equal(fan(torch.zeros(1, 2, dtype=torch.float64)), torch.zeros(1, 2, dtype=torch.float64))


@pytest.mark.parametrize("stretch", [2.0, 0.3])
def test_three_lines_have_a_competitor_that_is_affine_on_each_and_not_affine(stretch: float) -> None:
    example = three_lines(stretch=stretch)
    drawn = example.world.sample(2000)
    z_hat = example.map(torch.as_tensor(drawn.z))
    assert example.competitor.decode(z_hat.numpy()) == pytest.approx(drawn.x)  # the same observations
    law = law_of(example.competitor)
    for j in range(3):
        own, image = drawn.z[drawn.u == j], z_hat.numpy()[drawn.u == j]
        assert not_affine(own, image) < 1e-9  # so the law is again a degenerate mixture
        direction = law.means[j] / np.linalg.norm(law.means[j])
        assert np.abs(image - np.outer(image @ direction, direction)).max() < 1e-9
        size = float(np.sqrt(np.trace(law.covariances[j])))
        assert kstest((image @ direction - np.linalg.norm(law.means[j])) / size, "norm").pvalue > 1e-3
    assert not_affine(drawn.z, z_hat.numpy()) > 0.1
    plane = torch.randn(500, 2, dtype=torch.float64)
    assert torch.allclose(example.competitor.decoder(example.map(plane)), plane)  # a homeomorphism of the plane
    answers = {h.name: h.answer for h in degenerate_ladder(example.world.mixture, exact=True).hypotheses}
    assert answers[COMMON_BASIS] == "fails"
    assert answers[GENERIC] == "holds"


@pytest.mark.parametrize("distance", [1.0, 0.0])
def test_swapped_halves_have_one_law_the_same_observations_and_no_component_in_common(distance: float) -> None:
    example = swapped_halves(distance=distance)
    drawn = example.world.sample(4000)
    z_hat = example.map(torch.as_tensor(drawn.z)).numpy()
    assert example.competitor.decode(z_hat) == pytest.approx(drawn.x)
    assert (example.world.n_observed, example.competitor.n_observed) == (3, 3)
    axis = np.abs(z_hat).argmax(axis=1)
    for j in range(2):
        assert np.abs(z_hat[axis == j, 1 - j]).max() == 0
        assert kstest(z_hat[axis == j, j] - distance, "norm").pvalue > 1e-3  # the same component again
        assert not_affine(drawn.z[drawn.u == j], z_hat[drawn.u == j]) > 0.1  # not affine within any
    answers = {h.name: h.answer for h in degenerate_ladder(example.world.mixture, exact=True).hypotheses}
    assert answers[GENERIC] == "fails"
    assert answers[COMMON_BASIS] == "holds"


def test_the_surface_of_swapped_halves_never_meets_itself() -> None:
    """Points of the surface in the direction of an edge of the octahedron come from one sector of the plane."""
    decoder = swapped_halves().competitor.decoder
    angle = torch.linspace(0, 2 * np.pi, 1201, dtype=torch.float64)[:-1]
    curve = decoder(torch.stack([angle.cos(), angle.sin()], dim=1))
    curve = curve / curve.norm(dim=1, keepdim=True)
    near = torch.cdist(curve, curve)
    steps = (torch.arange(1200)[:, None] - torch.arange(1200)).abs()
    apart = torch.minimum(steps, 1200 - steps)
    assert float(near[apart > 150].min()) > 0.5
    assert float(near[(apart > 0) & (apart <= 150)].min()) > 1e-3


@pytest.mark.parametrize("n", [2, 5, 10])
def test_equal_distances_break_genericity_and_nothing_else(n: int) -> None:
    world = equal_distances(n, layers=2, random_state=1)
    reading = degenerate_ladder(world.mixture, decoder=world.decoder, exact=True)
    assert set(reading.broken) == {GENERIC}
    unequal = law_of(world)
    moved = Mixture(unequal.weights, unequal.means * np.arange(1, n + 1)[:, None], unequal.covariances)
    assert degenerate_ladder(moved, decoder=world.decoder, exact=True).broken == ()
    assert world.facts["generic"] is False
