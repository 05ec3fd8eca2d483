"""Causal graph of the latents by the PC algorithm, and the structural Hamming distance of two graphs.

A CPDAG stands for all directed acyclic graphs with the same conditional independences. As a boolean array, ``a[i, j]``
alone is the edge ``i → j``; ``a[i, j]`` and ``a[j, i]`` together are an undirected one.

PC tests partial correlations (Fisher z) through the package causal-learn, the extra ``graphs``. Correlations are
computed here: a constant latent correlates with nothing, and singular correlation matrices get a trace of noise. With
``active`` each correlation comes from the rows in which both latents are active, so that frozen values do not count.

References
----------
Xu et al. (2026), "Identifiability of Potentially Degenerate Gaussian Mixture Models With Piecewise
Affine Mixing", section D.9; the distance is that of the R package pcalg (Kalisch et al. 2012), which is used there.
Its
chance level is the mean distance of the learned graph with its nodes in random order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.record import MetricRecord, ScoreClaim

SMALLEST_EIGENVALUE = 1e-6
"""Of the correlations handed to the tests: what is flatter is lifted to this."""
FEWEST_ROWS = 8
SHUFFLES = 20

Edges = Bool[np.ndarray, "n n"]


@dataclass(frozen=True, kw_only=True)
class GraphDistance(MetricRecord):
    """Result of ``graph_distance``.

    Attributes
    ----------
    score : int
        Structural Hamming distance: pairs of nodes whose edge differs; 0 is best.
    missing, extra, turned : int
        Pairs whose edge is missing, extra, or has another direction.
    pairs : int
        Number of all pairs.
    forgives : Ambiguity or None
        The permutation where one was given; None: no map.
    """

    forgives: Any
    score: int
    missing: int
    extra: int
    turned: int
    pairs: int

    @property
    def claims(self) -> tuple[ScoreClaim, ...]:
        """The distance, for which less is better."""
        supports = (
            "0 says that the graph has the right edges and, where independences tell them, the right directions; "
            "directions that no independence tells stay open in a CPDAG, a graph that is none is compared as it is, "
            "and values of latents are not judged."
        )
        return (ScoreClaim("score", "SHD", (0.0, float(self.pairs)), self.forgives, supports, best=0.0),)

    def __int__(self) -> int:
        return self.score


def causal_graph(z: Any, *, alpha: float = 0.05, active: Any = None) -> Edges:
    """CPDAG of latents by the PC algorithm with Fisher-z tests.

    Parameters
    ----------
    z : array of shape (n_samples, n_latents)
        The latents.
    alpha : float
        Level of the tests.
    active : array of bool, same shape, optional
        Where latents are active; pairs never active together count as uncorrelated.

    Returns
    -------
    array of bool of shape (n_latents, n_latents)
    """
    z = checks.table(z, "z", min_rows=FEWEST_ROWS)
    alpha = checks.number(alpha, "alpha", minimum=0, maximum=1)
    correlations, rows = _correlations(z, None if active is None else _mask(active, z.shape))
    n = z.shape[1]
    if n == 1 or np.allclose(correlations, np.eye(n), atol=0):
        return np.zeros((n, n), dtype=bool)
    pc = _package("search.ConstraintBased.PC").pc
    result = pc(_rows_with(correlations, max(rows, n + 4)), alpha, "fisherz", show_progress=False)
    return _boolean(result.G.graph)


def cpdag(adjacency: Any) -> Edges:
    """CPDAG of a directed acyclic graph.

    Parameters
    ----------
    adjacency : array of shape (n_nodes, n_nodes)
        ``adjacency[i, j]`` is the edge ``i → j``.

    Returns
    -------
    array of bool of shape (n_nodes, n_nodes)

    Examples
    --------
    A chain keeps no direction, a collider keeps both:

    >>> cpdag([[0, 1, 0], [0, 0, 1], [0, 0, 0]]).astype(int).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> cpdag([[0, 1, 0], [0, 0, 0], [0, 1, 0]]).astype(int).tolist()
    [[0, 1, 0], [0, 0, 0], [0, 1, 0]]
    """
    edges = _square(adjacency, "adjacency")
    checks.require(_acyclic(edges), "adjacency must have no cycle.", f"one among {len(edges)} nodes")
    names = [_package("graph.GraphNode").GraphNode(f"z{i + 1}") for i in range(len(edges))]
    dag = _package("graph.Dag").Dag(names)
    for i, j in np.argwhere(edges):
        dag.add_directed_edge(names[i], names[j])
    return _boolean(_package("utils.DAG2CPDAG").dag2cpdag(dag).graph)


@renamed(seed="random_state")
def graph_distance(
    truth: Any, learned: Any, *, permutation: Any = None, shuffles: int = SHUFFLES, random_state: Any = 0
) -> GraphDistance:
    """Structural Hamming distance of two graphs: pairs of nodes whose edge is missing, extra or has another direction.

    Every such pair counts 1, also one that is directed here and undirected there (pcalg's convention). Graphs are
    compared
    as they are: for directed acyclic graphs up to equivalence compare their ``cpdag``.

    Parameters
    ----------
    truth, learned : array of shape (n_nodes, n_nodes)
        The two graphs.
    permutation : array of shape (n_nodes,), optional
        The learned node of every true one, as in ``mcc(…).permutation``; −1: none. By default nodes are compared by
        index.
    shuffles : int
        Random orders of the learned nodes for the chance level; 0: not measured.
    random_state : int, Generator or None
        Seed of the orders.

    Returns
    -------
    GraphDistance

    Examples
    --------
    >>> int(graph_distance([[0, 1], [0, 0]], [[0, 1], [1, 0]]))
    1
    >>> int(graph_distance([[0, 1], [0, 0]], [[0, 0], [1, 0]], permutation=[1, 0]))
    0
    >>> chain, fork = [[0, 1, 0], [0, 0, 1], [0, 0, 0]], [[0, 0, 0], [1, 0, 1], [0, 0, 0]]
    >>> int(graph_distance(chain, fork)), int(graph_distance(cpdag(chain), cpdag(fork)))
    (1, 0)
    """
    seed = seeds.seed_of(random_state)
    truth, learned = _square(truth, "truth"), _square(learned, "learned")
    if permutation is not None:
        learned = _permuted(learned, permutation)
    n = len(truth)
    checks.require(n == len(learned), "truth and learned must have as many nodes.", f"{n} and {len(learned)}")
    shuffles, rng = checks.count(shuffles, "shuffles", minimum=0), seeds.numpy_generator(seed, "shuffled nodes")
    orders = (rng.permutation(n) for _ in range(shuffles))
    levels = [sum(_differences(truth, learned[np.ix_(order, order)])) for order in orders]
    missing, extra, turned = _differences(truth, learned)
    return GraphDistance(
        score=missing + extra + turned,
        missing=missing,
        extra=extra,
        turned=turned,
        pairs=n * (n - 1) // 2,
        forgives=None if permutation is None else Ambiguity("permutation"),
        chance=float(np.mean(levels)) if levels else None,
        ceiling=0.0,
    )


def _differences(truth: Edges, learned: Edges) -> tuple[int, int, int]:
    """Pairs whose edge is missing, extra, or in both with other directions."""
    differs, in_truth, in_learned = (np.triu(a | a.T, k=1) for a in (truth != learned, truth, learned))
    counts = (differs & in_truth & ~in_learned, differs & in_learned & ~in_truth, differs & in_truth & in_learned)
    return tuple(int(pairs.sum()) for pairs in counts)  # type: ignore[return-value]


# ---- correlations ----------------------------------------------------------------------------------------


def _correlations(z: np.ndarray, active: np.ndarray | None) -> tuple[np.ndarray, int]:
    """A positive definite correlation matrix, and the number of rows behind each entry."""
    z = z.astype(np.float64)
    seen = np.ones(z.shape) if active is None else active.astype(np.float64)
    rows = seen.T @ seen
    z = np.where(seen > 0, (z - _mean(z, seen)) / _spread(z, seen), 0)
    shared = np.where(rows > 0, rows, 1)
    means, squares = z.T @ seen / shared, (z**2).T @ seen / shared  # [i, j]: of latent i where j is active too
    variances = squares - means**2
    moves = variances > SMALLEST_EIGENVALUE**2
    both = moves & moves.T & (rows >= FEWEST_ROWS)
    matrix = np.where(both, z.T @ z / shared - means * means.T, 0)
    matrix /= np.sqrt(np.where(both, variances * variances.T, 1))
    np.fill_diagonal(matrix, 1)
    judged = rows[both & ~np.eye(len(rows), dtype=bool)]
    return _lifted(matrix), int(judged.min(initial=len(z)))


def _mean(z: np.ndarray, seen: np.ndarray) -> np.ndarray:
    return (z * seen).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)


def _spread(z: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Standard deviation where seen; infinite for a constant, whatever its rounding error."""
    spread = np.sqrt(_mean((z - _mean(z, seen)) ** 2, seen))
    size = np.abs(z * seen).max(axis=0)
    return np.where(spread > 1e-12 * size, spread, np.inf)


def _lifted(matrix: np.ndarray) -> np.ndarray:
    """The same correlations, or the nearest that are clearly positive definite."""
    values, vectors = np.linalg.eigh(matrix)
    if values[0] >= SMALLEST_EIGENVALUE:
        return matrix
    lifted = (vectors * np.maximum(values, SMALLEST_EIGENVALUE)) @ vectors.T
    scale = np.sqrt(np.diag(lifted))
    return lifted / np.outer(scale, scale)


def _rows_with(correlations: np.ndarray, rows: int) -> np.ndarray:
    """Rows with exactly these sample correlations, which are sufficient for Fisher-z tests."""
    noise = seeds.numpy_generator(0, "rows with given correlations").standard_normal((rows, len(correlations)))
    white = np.linalg.qr(noise - noise.mean(axis=0))[0]
    return white @ np.linalg.cholesky(correlations).T


# ---- graphs ----------------------------------------------------------------------------------------------


def _package(module: str) -> Any:
    return checks.package(f"causallearn.{module}", "causal-learn", "Causal graphs", "graphs")


def _boolean(marks: np.ndarray) -> np.ndarray:
    """causal-learn has −1 at the tail and 1 at the head of an edge; two heads, a conflict, are read as undirected."""
    return np.asarray((marks == -1) & (marks.T != 0) | (marks == 1) & (marks.T == 1))


def _mask(active: Any, shape: tuple[int, ...]) -> np.ndarray:
    mask = np.asarray(active.detach().cpu() if hasattr(active, "detach") else active)
    fits = mask.dtype == bool and mask.shape == shape
    checks.require(fits, f"active must be boolean, of the shape {shape} of z.", f"{mask.dtype} of shape {mask.shape}")
    return mask


def _square(graph: Any, name: str) -> np.ndarray:
    edges = checks.table(graph, name) != 0
    fits = edges.shape[0] == edges.shape[1] and not np.diag(edges).any()
    checks.require(fits, f"{name} must be a square array without loops.", f"shape {edges.shape}")
    return edges


def _acyclic(edges: np.ndarray) -> bool:
    from scipy.sparse.csgraph import connected_components

    return connected_components(edges, connection="strong")[0] == len(edges)


def _permuted(graph: np.ndarray, permutation: Any) -> np.ndarray:
    """A graph in another order; a node without a counterpart has no edges."""
    order = np.asarray(permutation)
    integral = order.ndim == 1 and order.dtype.kind in "iu"
    used = order[order >= 0].tolist() if integral else []
    known = integral and len(set(used)) == len(used) and bool(((order >= -1) & (order < len(graph))).all())
    checks.require(
        known, f"permutation must name different nodes among 0 to {len(graph) - 1}, or −1.", f"{permutation}"
    )
    matched = np.outer(order >= 0, order >= 0)
    return graph[np.ix_(order, order)] & matched
