"""Causal graphs: PC finds known CPDAGs, also behind frozen values; the distance counts differing pairs."""

import itertools
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noumena.checks import InputError
from noumena.metrics import causal_graph, cpdag, graph_distance, mcc
from noumena.metrics.causal import _correlations, _rows_with

COLLIDER = np.array([[0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=bool)
"""Two causes, their effect, and what follows from it: every edge has its direction."""


def draw(adjacency: np.ndarray, rows: int = 5000, seed: int = 0) -> np.ndarray:
    """A linear model with unit noise and effects of 0.8."""
    noise = np.random.default_rng(seed).normal(size=(rows, len(adjacency)))
    return noise @ np.linalg.inv(np.eye(len(adjacency)) - 0.8 * adjacency)


def equivalence_classes(n: int) -> list[list[np.ndarray]]:
    """All directed acyclic graphs of n nodes, grouped by skeleton and colliders."""
    pairs, classes = list(itertools.combinations(range(n), 2)), {}
    for marks in itertools.product(range(3), repeat=len(pairs)):
        a = np.zeros((n, n), dtype=bool)
        for (i, j), mark in zip(pairs, marks, strict=True):
            a[i, j], a[j, i] = mark == 1, mark == 2
        if np.linalg.matrix_power(a.astype(int), n).any():
            continue
        apart = ~(a | a.T)
        colliders = frozenset((i, k, j) for i, j in pairs for k in range(n) if a[i, k] and a[j, k] and apart[i, j])
        classes.setdefault((apart.tobytes(), colliders), []).append(a)
    return list(classes.values())


# ---- distance ----------------------------------------------------------------------------------------------


def test_missing_extra_turned_and_undirected_edges_count_one_each():
    assert graph_distance(COLLIDER, COLLIDER).score == 0
    changed = COLLIDER.copy()
    changed[0, 2] = False  # missing
    changed[0, 3] = True  # extra
    changed[1, 2], changed[2, 1] = False, True  # turned
    changed[3, 2] = True  # no longer directed
    assert graph_distance(COLLIDER, changed).score == 4
    assert graph_distance(changed, COLLIDER).score == 4
    found, back = graph_distance(COLLIDER, changed), graph_distance(changed, COLLIDER)
    assert (found.missing, found.extra, found.turned, found.pairs) == (1, 1, 2, 6)
    assert (back.missing, back.extra, back.turned) == (1, 1, 2)
    assert (int(found), float(found)) == (4, 4.0)
    sparse = graph_distance(COLLIDER, np.zeros((4, 4)))
    assert (sparse.missing, sparse.extra, sparse.turned) == (3, 0, 0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6))
def test_the_distance_is_that_of_a_slow_loop_and_the_same_in_any_common_order(seed, n):
    rng = np.random.default_rng(seed)
    truth, learned = (np.where(np.eye(n), 0, rng.random((n, n)) < 0.4).astype(bool) for _ in range(2))
    found = graph_distance(truth, learned)
    slow = [
        (i, j)
        for i, j in itertools.combinations(range(n), 2)
        if (truth[i, j], truth[j, i]) != (learned[i, j], learned[j, i])
    ]
    assert found.score == len(slow) == found.missing + found.extra + found.turned
    (claim,) = found.claims
    assert claim.range[0] <= found.score <= claim.range[1]
    assert claim.range[0] <= found.chance <= claim.range[1]
    order = rng.permutation(n)
    shuffled = np.zeros_like(learned)
    shuffled[np.ix_(order, order)] = learned
    assert graph_distance(truth, shuffled, permutation=order).score == found.score


def test_the_record_of_a_distance_says_that_less_is_better_and_what_a_random_order_gets():
    found = graph_distance(COLLIDER, COLLIDER, shuffles=400)
    assert (found.claims[0].best, found.ceiling) == (0, 0)
    assert found.forgives is None
    orders = itertools.permutations(range(4))
    every = [graph_distance(COLLIDER, COLLIDER, permutation=order, shuffles=0).score for order in orders]
    assert found.chance == pytest.approx(np.mean(every), abs=0.3)
    assert (
        graph_distance(COLLIDER, COLLIDER, random_state=1).chance
        == graph_distance(COLLIDER, COLLIDER, random_state=1).chance
    )
    assert graph_distance(COLLIDER, COLLIDER, shuffles=0).chance is None
    assert graph_distance(torch.tensor(COLLIDER).int(), COLLIDER).score == 0
    with pytest.raises(InputError, match="shuffles must be a whole number of at least 0"):
        graph_distance(COLLIDER, COLLIDER, shuffles=-1)


def test_a_distance_forgives_the_permutation_that_was_given_and_no_other():
    order = [2, 0, 1]
    chain = np.eye(3, k=1, dtype=bool)
    other = np.zeros_like(chain)
    other[np.ix_(order, order)] = chain
    given, none = graph_distance(chain, other, permutation=order), graph_distance(chain, other)
    assert (given.score, str(given.forgives)) == (0, "permutation")
    assert (none.score, none.forgives) == (2, None)
    assert str(given).endswith("; forgives permutation")
    assert str(none).endswith("; forgives nothing")
    assert none.claims[0].forgives is None
    assert none.to_dict()["forgives"] is None


def test_directed_graphs_of_one_class_differ_until_they_are_cpdags():
    pytest.importorskip("causallearn")
    chain, fork = np.eye(3, k=1, dtype=bool), np.array([[0, 0, 0], [1, 0, 1], [0, 0, 0]], dtype=bool)
    assert graph_distance(chain, fork).score == 1
    assert graph_distance(cpdag(chain), cpdag(fork)).score == 0
    assert "compared as it is" in graph_distance(chain, fork).claims[0].supports


def test_the_learned_graph_is_read_in_the_order_of_the_true_one():
    order = np.array([2, 0, 3, 1])  # learned latent order[i] stands for true latent i
    learned = np.zeros((4, 4), dtype=bool)
    learned[np.ix_(order, order)] = COLLIDER
    assert graph_distance(COLLIDER, learned).score > 0
    assert graph_distance(COLLIDER, learned, permutation=order).score == 0
    z = draw(COLLIDER)
    z_hat = np.empty_like(z)
    z_hat[:, order] = -3 * z
    assert mcc(z, z_hat).permutation.tolist() == order.tolist()


def test_a_latent_without_partner_has_no_edges_and_further_learned_ones_go_unused():
    wide = np.zeros((5, 5), dtype=bool)
    wide[:4, :4] = COLLIDER
    wide[4, 0] = True
    assert graph_distance(COLLIDER, wide, permutation=[0, 1, 2, 3]).score == 0
    assert graph_distance(COLLIDER, COLLIDER, permutation=[0, 1, 2, -1]).score == 1
    assert graph_distance(COLLIDER, COLLIDER, permutation=[0, 1, -1, 3]).score == 3


# ---- graphs ------------------------------------------------------------------------------------------------


def test_without_the_package_one_sentence_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("causallearn")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "causallearn", None)
    with pytest.raises(InputError, match=r"install noumena\[graphs\]"):
        cpdag(COLLIDER)
    with pytest.raises(InputError, match=r"install noumena\[graphs\]"):
        causal_graph(draw(COLLIDER, 50))


def test_the_cpdag_keeps_the_directions_that_all_equivalent_graphs_share():
    pytest.importorskip("causallearn")
    for members in equivalence_classes(3):
        together = np.any(members, axis=0)
        assert all(np.array_equal(cpdag(a), together) for a in members)
    big = [members for members in equivalence_classes(4) if len(members) in (2, 3, 4, 6)]
    assert len(big) > 20
    for members in big[::4]:
        assert np.array_equal(cpdag(members[-1]), np.any(members, axis=0))


def test_pc_finds_the_cpdag_of_a_linear_model_in_silence(capfd):
    pytest.importorskip("causallearn")
    assert np.array_equal(causal_graph(draw(COLLIDER), alpha=0.01), cpdag(COLLIDER))
    chain = np.eye(4, k=1, dtype=bool)
    found = causal_graph(torch.tensor(draw(chain)), alpha=0.01)
    assert np.array_equal(found, chain | chain.T)
    assert found.dtype == bool
    assert capfd.readouterr() == ("", "")


def test_units_and_signs_of_latents_change_nothing():
    pytest.importorskip("causallearn")
    z = draw(COLLIDER, 500)
    scaled = z * np.array([1e8, -1, 1e-8, -3]) + np.array([0, 5, 0, -2])
    assert np.array_equal(causal_graph(z), causal_graph(scaled))


def test_a_stricter_level_leaves_fewer_edges():
    pytest.importorskip("causallearn")
    z = draw(0.05 * np.triu(np.ones((6, 6)), k=1), 300)
    assert causal_graph(z, alpha=1e-6).sum() < causal_graph(z, alpha=0.5).sum()


def frozen(z: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Half of the entries of each row, at random, set to zero; and which were not."""
    active = np.random.default_rng(seed).random(z.shape) < 0.5
    return np.where(active, z, 0), active


def test_frozen_values_blur_the_graph_unless_told_which_are_active():
    pytest.importorskip("causallearn")
    chain = np.eye(6, k=1, dtype=bool)
    z, active = frozen(draw(chain, 20_000))
    truth = chain | chain.T
    assert graph_distance(truth, causal_graph(z, alpha=0.01)).score >= 3
    assert graph_distance(truth, causal_graph(z, alpha=0.01, active=active)).score == 0
    assert (
        graph_distance(truth, causal_graph(np.where(active, z, 7.5), alpha=0.01, active=torch.tensor(active))).score
        == 0
    )


def test_correlations_are_those_of_rows_in_which_both_are_active():
    z, active = frozen(draw(COLLIDER, 400))
    found, rows = _correlations(z, active)
    counts = []
    for i, j in itertools.combinations(range(4), 2):
        both = active[:, i] & active[:, j]
        counts.append(int(both.sum()))
        assert found[i, j] == pytest.approx(np.corrcoef(z[both, i], z[both, j])[0, 1])
    assert rows == min(counts)
    plain, rows = _correlations(z, None)
    np.testing.assert_allclose(plain, np.corrcoef(z.T), atol=1e-12)
    assert rows == 400


def test_stand_in_rows_have_the_correlations_they_were_made_for():
    wanted = np.corrcoef(draw(COLLIDER, 100).T)
    rows = _rows_with(wanted, 50)
    assert rows.shape == (50, 4)
    np.testing.assert_allclose(np.corrcoef(rows.T), wanted, atol=1e-12)


def test_constants_copies_and_few_rows_are_survived():
    pytest.importorskip("causallearn")
    z = draw(COLLIDER)
    found = causal_graph(np.hstack([z, np.full((5000, 1), 0.1)]), alpha=0.01)
    assert np.array_equal(found[:4, :4], cpdag(COLLIDER))
    assert not found[4].any()
    assert not found[:, 4].any()
    doubled = causal_graph(np.hstack([z, z[:, :1]]))
    assert doubled[0, 4]
    assert doubled[4, 0]
    assert causal_graph(np.hstack([z, z @ np.ones((4, 1))])).shape == (5, 5)
    assert not causal_graph(np.zeros((20, 3))).any()
    assert causal_graph(z[:, :1]).tolist() == [[False]]
    assert causal_graph(np.random.default_rng(0).normal(size=(8, 12))).shape == (12, 12)


def test_latents_never_active_together_count_as_uncorrelated():
    z = draw(COLLIDER, 400)
    active = np.eye(4, dtype=bool)[np.arange(400) % 4]
    assert not causal_graph(z, active=active).any()
