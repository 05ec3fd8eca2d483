"""Random graphs: as many edges as said, no cycle, and the covariance their linear model really has."""

import numpy as np
import pytest

from noumena.worlds import random_graph


@pytest.mark.parametrize(("n", "k", "edges"), [(1, 3, 0), (5, 0, 0), (5, 1, 5), (5, 3, 10), (10, 2, 20), (40, 3, 120)])
def test_a_graph_has_k_edges_per_node_as_far_as_there_is_room(n: int, k: int, edges: int) -> None:
    for seed in range(3):
        graph = random_graph(n, k, random_state=seed)
        assert graph.n == n
        assert int(graph.adjacency.sum()) == edges
        sizes = np.abs(graph.weights[graph.adjacency])
        assert ((sizes >= 0.2) & (sizes <= 1)).all()


def test_weights_have_both_signs_and_orders_differ_between_seeds() -> None:
    graphs = [random_graph(12, 2, random_state=seed) for seed in range(4)]
    assert {float(s) for g in graphs for s in np.sign(g.weights[g.adjacency])} == {-1.0, 1.0}
    assert len({g.order for g in graphs}) == 4
    assert any(np.tril(g.weights).any() for g in graphs)
    assert any(np.triu(g.weights).any() for g in graphs)
    assert np.array_equal(random_graph(12, 2, random_state=3).weights, graphs[3].weights)


def test_every_cause_comes_before_its_effects() -> None:
    graph = random_graph(15, 3, random_state=1)
    place = np.argsort(graph.order)
    assert sorted(graph.order) == list(range(15))
    assert all(place[i] < place[j] for i, j in np.argwhere(graph.adjacency))


def test_the_covariance_is_that_of_a_slow_simulation_along_the_order() -> None:
    graph = random_graph(4, 1, random_state=2)
    rng = np.random.default_rng(0)
    z = np.zeros((200_000, 4))
    for j in graph.order:
        z[:, j] = z @ graph.weights[:, j] + rng.normal(size=len(z))
    assert graph.covariance == pytest.approx(np.cov(z.T), abs=0.05)
    noise = rng.normal(size=(7, 4))
    nodes = noise @ graph.effects
    assert nodes == pytest.approx(nodes @ graph.weights + noise)
