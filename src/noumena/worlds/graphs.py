"""Random acyclic graphs and the linear structural equation model they carry: ``z_j = Σ_i weights[i, j] · z_i + e_j``.

References
----------
Xu et al. (2026), "Identifiability of Potentially Degenerate Gaussian Mixture Models With Piecewise
Affine Mixing", numerical experiments: Erdős–Rényi graphs ER-k with ``n·k`` edges, weights ±U(0.2, 1), unit noise.

Deviations: ``n`` nodes hold at most ``n(n−1)/2`` edges, so small dense graphs have fewer than ``n·k``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from noumena import checks, seeds
from noumena.deprecated import renamed


@dataclass(frozen=True, eq=False)
class Graph:
    """An acyclic weighted graph.

    Parameters
    ----------
    weights : array of shape (n_nodes, n_nodes)
        ``weights[i, j]`` is the effect of node ``i`` on node ``j``, zero without an edge.

    Examples
    --------
    >>> chain = Graph([[0, 2], [0, 0]])
    >>> chain.order, chain.covariance.tolist()
    ((0, 1), [[1.0, 2.0], [2.0, 5.0]])
    """

    weights: Any

    def __post_init__(self) -> None:
        weights = checks.table(self.weights, "weights").astype(np.float64)
        square = weights.shape[0] == weights.shape[1]
        checks.require(square, "weights must be a square array, node by node.", f"shape {weights.shape}")
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)
        checks.require(len(self.order) == self.n, "The graph must have no cycle.", f"one in {self.n} nodes")

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.weights)

    @property
    def adjacency(self) -> np.ndarray:
        """Which edges there are, ``[from, to]``."""
        return self.weights != 0

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The first topological order of the nodes."""
        waiting, order = self.adjacency.sum(axis=0), []
        for _ in range(self.n):
            ready = np.flatnonzero(waiting == 0)
            if len(ready) == 0:
                break
            order.append(int(ready[0]))
            waiting = waiting - self.adjacency[ready[0]]
            waiting[order] = -1
        return tuple(order)

    @cached_property
    def effects(self) -> np.ndarray:
        """``(I − weights)⁻¹``: row ``i`` is what a unit of noise at node ``i`` adds to every node."""
        return np.linalg.inv(np.eye(self.n) - self.weights)

    @cached_property
    def covariance(self) -> np.ndarray:
        """Covariance of the nodes when every noise has unit variance."""
        return self.effects.T @ self.effects


@renamed(seed="random_state")
def random_graph(n: int, edges_per_node: int, *, random_state: Any = 0) -> Graph:
    """Erdős–Rényi graph ER-k: ``min(n·k, n(n−1)/2)`` edges that respect a random order, with weights ±U(0.2, 1).

    Parameters
    ----------
    n, edges_per_node : int
        Number of nodes, and k.
    random_state : int, Generator or None
        Seed of order, edges and weights.

    Returns
    -------
    Graph

    Examples
    --------
    >>> int(random_graph(10, 2).adjacency.sum()), int(random_graph(3, 2).adjacency.sum())
    (20, 3)
    """
    seed = seeds.seed_of(random_state)
    n, k = checks.count(n, "n"), checks.count(edges_per_node, "edges_per_node", minimum=0)
    rng = seeds.numpy_generator(seed, "graph", n, k)
    order = rng.permutation(n)
    earlier, later = np.triu_indices(n, 1)
    chosen = rng.choice(len(earlier), size=min(n * k, len(earlier)), replace=False)
    weights = np.zeros((n, n))
    sizes = rng.uniform(0.2, 1, size=len(chosen)) * rng.choice([-1.0, 1.0], size=len(chosen))
    weights[order[earlier[chosen]], order[later[chosen]]] = sizes
    return Graph(weights)
