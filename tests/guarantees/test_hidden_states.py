"""The hidden variables behind a mixture are recovered exactly, or refused in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.guarantees.mixtures import MAXIMAL, mixture_ladder, recover_states
from noumena.mixtures import Mixture

MEANS = np.array([[0.0, 0], [0, 3], [3, 0], [3, 3]])
VARIANCES = np.array([[1.0, 1], [1, 4], [2, 1], [2, 4]])


def world(means: np.ndarray = MEANS, first: np.ndarray | None = None) -> Mixture:
    """Two hidden binary variables, each moving one latent; the first covariance may be replaced."""
    covariances = np.stack([np.diag(v) for v in VARIANCES])
    covariances[0] = covariances[0] if first is None else first
    return Mixture([0.1, 0.2, 0.3, 0.4], means, covariances)


@dataclass(frozen=True)
class Hidden:
    """A random world with hidden variables: the mixture, and what was hidden."""

    mixture: Mixture
    graph: np.ndarray
    sizes: tuple[int, ...]
    table: np.ndarray
    states: np.ndarray


def hidden_world(rng: np.random.Generator) -> Hidden:
    """Random maximal neighbourhoods; each latent has its own Gaussian for every state of the variables that move it."""
    k = int(rng.integers(1, 4))
    while True:
        d = int(rng.integers(1, 6))
        graph = rng.random((k, d)) < 0.6
        nested = any(i != j and (graph[i] <= graph[j]).all() for i in range(k) for j in range(k))
        if graph.any(axis=1).all() and not nested:
            break
    sizes = tuple(int(s) for s in rng.integers(2, 4, size=k))
    table = rng.dirichlet(np.ones(prod(sizes))).reshape(sizes)
    states = np.array(list(product(*(range(s) for s in sizes))))[rng.permutation(prod(sizes))]
    means, variances = np.zeros((len(states), d)), np.zeros((len(states), d))
    for t in range(d):
        movers = np.flatnonzero(graph[:, t])
        known: dict[tuple[int, ...], tuple[float, float]] = {}
        for row, state in enumerate(states):
            key = tuple(int(s) for s in state[movers])
            known.setdefault(key, (float(rng.integers(2)), float(np.exp(rng.normal()))))
            means[row, t], variances[row, t] = known[key]
    mixture = Mixture(table[tuple(states.T)], means, [np.diag(v) for v in variances])
    return Hidden(mixture, graph, sizes, table, states)


def test_hidden_variables_are_recovered_exactly() -> None:
    rng = np.random.default_rng(0)
    several = 0
    for _ in range(300):
        truth = hidden_world(rng)
        found = recover_states(truth.mixture)
        order = sorted(range(len(truth.graph)), key=lambda j: tuple(truth.graph[j]), reverse=True)
        assert found.k == len(truth.sizes)
        assert np.array_equal(found.neighbourhoods, truth.graph[order])
        assert found.sizes == tuple(truth.sizes[j] for j in order)
        for j, own in zip(order, found.labels.T, strict=True):  # the same states under other names
            assert len(set(zip(truth.states[:, j], own, strict=True))) == truth.sizes[j]
        assert np.allclose(found.probabilities[tuple(found.labels.T)], truth.mixture.weights)
        assert found.probabilities.sum() == pytest.approx(1)
        several += found.k > 1
    assert several > 150


def test_true_neighbourhoods_are_maximal() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        truth = hidden_world(rng)
        reading = mixture_ladder(truth.mixture, exact=True, neighbourhoods=truth.graph)
        assert next(h.answer for h in reading.hypotheses if h.name == MAXIMAL) == "holds"


def test_repeated_components_share_a_state() -> None:
    doubled = Mixture(
        np.repeat(world().weights, 2) / 2, np.repeat(MEANS, 2, axis=0), np.repeat(world().covariances, 2, axis=0)
    )
    found = recover_states(doubled)
    assert found.sizes == (2, 2)
    assert np.array_equal(found.labels[::2], found.labels[1::2])
    assert np.allclose(found.probabilities, recover_states(world()).probabilities)


def test_repeated_components_of_one_hidden_variable_share_a_state() -> None:
    found = recover_states(Mixture(np.ones(3) / 3, [[0.0], [1], [0]], np.ones((3, 1, 1))))
    assert found.sizes == (2,)
    assert found.labels[0] == found.labels[2] != found.labels[1]
    assert sorted(found.probabilities.tolist()) == pytest.approx([1 / 3, 2 / 3])


def test_one_component_has_no_hidden_variable() -> None:
    found = recover_states(Mixture([1.0], [[0, 0]], [np.eye(2)]))
    assert (found.k, found.sizes, found.probabilities.tolist(), found.labels.shape) == (0, (), 1.0, (1, 0))


def test_components_that_differ_by_noise_need_a_tolerance() -> None:
    rng = np.random.default_rng(1)
    noisy = world(MEANS + rng.normal(scale=1e-3, size=MEANS.shape))
    assert recover_states(noisy, tolerance=0.05).sizes == (2, 2)
    assert recover_states(noisy).sizes == (4,)  # four states that move everything


def components(rows: list[tuple[int, ...]]) -> Mixture:
    return Mixture(np.ones(len(rows)) / len(rows), np.array(rows, dtype=float), [np.eye(len(rows[0]))] * len(rows))


@pytest.mark.parametrize(
    ("mixture", "sentence"),
    [
        (components([(0, 0), (1, 0), (2, 1), (3, 1)]), r"No hidden variable's neighbourhood .* Got \(z1\) within"),
        (components([(0, 0), (0, 1), (1, 0)]), "must be products of the sizes of hidden variables"),
        (components([(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]), "must be products"),
        (world(first=np.diag([1.0, 0])), "Got component 0 without variance"),
        (world(first=np.array([[1, 0.5], [0.5, 1]])), "Got a correlation of 0.5 within a component"),
        (Mixture([0.5, 0.5], np.eye(2, 13), [np.eye(13)] * 2), "Got 13 latents, more than 12"),
    ],
)
def test_components_that_are_no_product_of_states_are_refused(mixture: Mixture, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        recover_states(mixture)


def test_counts_that_fit_without_a_grid_are_refused() -> None:
    """Eight components, four values of each of three latents, told apart by any two: (2, 2, 2) by counts alone."""
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(1500):
        rows = np.stack([rng.permutation(np.repeat(np.arange(4), 2)) for _ in range(3)], axis=1)
        if all(len(np.unique(rows[:, pair], axis=0)) == 8 for pair in ([0, 1], [0, 2], [1, 2])):
            try:
                found = recover_states(components([tuple(int(v) for v in row) for row in rows]))
                assert len(np.unique(found.labels, axis=0)) == 8
            except InputError as error:
                refused += "Every combination of hidden states must be one component" in str(error)
    assert refused > 0
