"""Diversity: the paper's conditions by subset search and without it, what follows from them, and what does not."""

from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pytest
import torch

import noumena as nm
from noumena.guarantees.diversity import claims, clauses, closure_of, overclaimed
from noumena.worlds import World, law

CLOSURE = "Closure under Assumption 1"
BOTH = f"{CLOSURE}, with independence"
PAPER = "Sufficient diversity (paper's condition)"


def structures(n, seed, *, most_rows=6, most_columns=6):
    rng = np.random.default_rng(seed)
    while n:
        shape = int(rng.integers(1, most_rows + 1)), int(rng.integers(1, most_columns + 1))
        support = rng.random(shape) < rng.uniform(0.2, 0.9)
        if support.any(axis=0).all():
            n -= 1
            yield nm.Structure(support)


def groups(n):
    return chain.from_iterable(combinations(range(n), size) for size in range(1, n + 1))


# ---- clauses -----------------------------------------------------------------------------------------------------


def clauses_by_search(S):
    """The three clauses of sufficient diversity as they are written, over every group A of observations."""
    d = S.n_latents
    rows = [set(S.of(k)) for k in range(S.n_observed)]
    everything = set(range(d))
    found = np.zeros((d, 3), dtype=bool)
    for A in groups(S.n_observed):
        covers = set().union(*(rows[k] for k in A)) == everything
        shared = set.intersection(*(rows[k] for k in A))
        if len(shared) == 1:
            found[min(shared), 2] = True
        for k in A if covers else ():
            others = [rows[j] for j in A if j != k]
            own = rows[k] - set().union(*others)
            if len(own) == 1:
                found[min(own), 0] = True
            missing = (set.intersection(*others) if others else everything) - rows[k]
            if len(missing) == 1:
                found[min(missing), 1] = True
    return found


def test_the_clause_checks_agree_with_subset_search():
    seen = np.zeros((2, 3), dtype=int)
    for S in structures(1200, 0):
        expected = clauses_by_search(S)
        np.testing.assert_array_equal(clauses(S), expected, err_msg=str(S.dense.astype(int)))
        seen += np.stack([expected.sum(axis=0), (~expected).sum(axis=0)])
    assert (seen > 100).all()


def conditions_by_search(S, i, j):
    """Definition 5 and Proposition 1 as they are written, over every pair of groups."""
    found = set()
    sets = {frozenset().union(*(frozenset(S.of(k)) for k in K)) for K in groups(S.n_observed)}
    for K in sets:
        for V in sets:
            both, either = K & V, K ^ V
            found |= {"Definition 5 (i)", "Proposition 1 (iii)"} if i in both and j in either else set()
            found |= {"Definition 5 (ii)"} if i in either and j in both else set()
            found |= {"Definition 5 (iii)"} if i in K - V and j in V - K else set()
            found |= {"Proposition 1 (i)"} if i in K and j in V - K else set()
            found |= {"Proposition 1 (ii)"} if i in K - V and j in V else set()
    return tuple(sorted(found))


def test_the_papers_conditions_agree_with_a_search_over_groups():
    for S in structures(120, 1, most_rows=4, most_columns=4):
        for i in range(S.n_latents):
            for j in range(S.n_latents):
                if i != j:
                    assert claims(S, i, j) == conditions_by_search(S, i, j)


def test_the_paper_claims_every_pair_of_atoms_and_assumption_1_only_those_outside_the_closure():
    for S in structures(200, 2):
        atom = {t: k for k, group in enumerate(S.atoms) for t in group}
        over = set(overclaimed(S))
        for t in range(S.n_latents):
            for r in range(S.n_latents):
                if t != r:
                    assert bool(claims(S, t, r)) == (atom[t] != atom[r])
                    assert ((t, r) in over) == (bool(claims(S, t, r)) and r in S.closure(t))


# ---- closure ---------------------------------------------------------------------------------------------------------


def test_the_closure_is_a_preorder_and_closed_sets_are_closed_under_union_and_intersection():
    for S in structures(300, 3):
        for t in range(S.n_latents):
            cl = S.closure(t)
            assert t in cl
            assert closure_of(cl, S) == cl
            for r in cl:
                assert S.closure(r).indices <= cl.indices
        one, other = (closure_of(S.latents(t), S) for t in (0, S.n_latents - 1))
        assert closure_of(one | other, S) == one | other
        assert closure_of(one & other, S) == one & other


def test_intersections_of_observations_are_closed_and_differences_need_not_be():
    S = nm.Structure([[1, 1], [0, 1]])
    assert closure_of(S.of("x1") & S.of("x2"), S) == S.latents("z2")
    assert closure_of(S.of("x1") - S.of("x2"), S) == S.latents("z1", "z2")
    for T in structures(100, 4):
        shared = T.genus([0], [T.n_observed - 1])
        assert closure_of(shared, T) == shared


# ---- theorems: a world that satisfies each, and one that breaks one hypothesis only -------------------------------


def world(**changes):
    """Three latents, none inside another, rows curved enough, an invertible decoder, a positive density."""
    S = nm.Structure([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    mask = torch.as_tensor(S.dense, dtype=torch.float64)
    A = mask * torch.tensor([[1.0, 0.8, 1.2], [0.9, 1.1, -0.7], [1.3, 0.7, 1.0]]).double().repeat(2, 1)
    made = World(S, law("unit gaussian", 3), lambda z: z @ A.T + 0.3 * torch.sin(2 * z @ A.T + z**2 @ mask.T))
    return replace(made, facts={"rank margin": 0.1, "secant margin": 0.2}, **changes)


def theorem(certificate, name):
    return next(t for t in certificate.theorems if t.name == name)


def linear(z):
    mask = torch.as_tensor(world().structure.dense, dtype=torch.float64)
    return z @ (mask * torch.tensor([[1.0, 0.8, 1.2], [0.9, 1.1, -0.7], [1.3, 0.7, 1.0]]).double().repeat(2, 1)).T


NESTED = nm.Structure([[1, 1], [1, 1], [0, 1], [0, 1]])


def nested_world():
    mask = torch.as_tensor(NESTED.dense, dtype=torch.float64)
    A = mask * torch.tensor([[1.0, 0.8], [-0.9, 1.1], [1.0, 1.3], [1.0, -0.7]]).double()
    made = World(NESTED, law("unit gaussian", 2), lambda z: z @ A.T + 0.3 * torch.sin(2 * z @ A.T + z**2 @ mask.T))
    return replace(made, facts={"rank margin": 0.1, "secant margin": 0.2})


def twin_world():
    """Two latents with equal columns: no clause of sufficient diversity holds for either."""
    A = torch.tensor([[1.0, 0.8], [-0.9, 1.1], [1.0, 1.3]]).double()
    S = nm.Structure(np.ones((3, 2), dtype=bool))
    made = World(S, law("unit gaussian", 2), lambda z: z @ A.T + 0.3 * torch.sin(2 * z @ A.T + z**2 @ A.abs().T))
    return replace(made, facts={"rank margin": 0.1, "secant margin": 0.2})


@pytest.mark.parametrize("name", [CLOSURE, BOTH, PAPER])
def test_a_world_that_satisfies_a_theorem_gets_it(name):
    found = theorem(nm.certify(world(), independent=True), name)
    assert found.broken == ()
    assert set(found.open) == {
        "the other model is no denser",
        "the other model's rows see what this one's gradients reach (Assumption 1)",
    }
    assert all(found.ambiguity(t) == nm.Ambiguity("element-wise") for t in range(3))


@pytest.mark.parametrize(
    ("name", "subject", "broken"),
    [
        *((n, world(decoder=linear), "sufficient nonlinearity") for n in (CLOSURE, BOTH, PAPER)),
        *(
            (n, world(law=law("uniform", 3)), "the density of the latents is positive everywhere")
            for n in (CLOSURE, BOTH, PAPER)
        ),
        (BOTH, world(law=law("correlated gaussian", 3)), "the latents are independent"),
        (PAPER, nested_world(), "no column lies strictly inside another (missing from the paper)"),
        (PAPER, twin_world(), "every latent meets a clause of sufficient diversity"),
    ],
)
def test_breaking_one_hypothesis_loses_the_theorem_for_that_reason(name, subject, broken):
    found = theorem(nm.certify(subject, independent=True), name)
    assert found.broken == (broken,)
    assert found.ambiguity(0) == nm.Ambiguity("any")
    assert broken in found.sentence


def test_a_decoder_that_folds_breaks_invertibility_alone():
    square = nm.Structure([[1, 1], [1, 1]])
    fine = World(square, law("unit gaussian", 2), lambda z: torch.stack([z[:, 0] + z[:, 1], z[:, 1] - z[:, 0]], dim=1))

    def turned(z):
        return torch.stack([z[:, 0] + z[:, 1] ** 2, z[:, 1] - z[:, 0] ** 2], dim=1)

    found = theorem(nm.certify(replace(fine, decoder=turned)), CLOSURE)
    assert found.broken == ("g is invertible",)
    assert "g is invertible" not in theorem(nm.certify(fine), CLOSURE).open


def test_a_law_nobody_knows_leaves_the_density_open():
    unknown = replace(law("unit gaussian", 3), name="my own")
    found = theorem(nm.certify(world(law=unknown)), CLOSURE)
    assert "the density of the latents is positive everywhere" in found.open


def test_a_bare_structure_leaves_everything_but_the_structure_open():
    certificate = nm.certify(world().structure, independent=True)
    assert "sufficient nonlinearity" in theorem(certificate, CLOSURE).open
    assert "the latents are independent" in theorem(certificate, BOTH).open
    assert theorem(certificate, PAPER).broken == ()


def test_dependent_points_of_a_decoder_break_independence():
    z = torch.randn(800, 2, generator=torch.Generator().manual_seed(0))
    A = torch.tensor([[1.0, 0.8], [0.0, 1.2], [0.7, 0.0]])
    apart = nm.certify(lambda v: v @ A.T, at=z, independent=True)
    mixed = nm.certify(lambda v: v @ A.T, at=z @ torch.tensor([[1.0, 1.0], [0.0, 1.0]]), independent=True)
    assert "the latents are independent" not in theorem(apart, BOTH).broken
    assert "the latents are independent" in theorem(mixed, BOTH).broken


# ---- queries on a certificate ----------------------------------------------------------------------------------------


def test_a_query_says_which_latents_and_what_they_are_entangled_with():
    S = nm.Structure([[1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1]])
    answer = nm.certify(S).query("x1 - x2")
    assert answer.latents.names == ("z1",)
    assert answer.answer == "not identified"
    assert "z2" in answer.entangled_with.names
    assert answer.under_assumption_1.names == ("z1", "z2")
    assert "z2 may be mixed in" in answer.paper
    assert answer.competitor is not None
    assert answer.to_dict()["latents"] == ["z1"]


def test_a_query_on_an_identified_structure_is_block_identified():
    S = nm.Structure([[1, 0]] * 3 + [[1, 1]] * 2 + [[0, 1]] * 3)
    certificate = nm.certify(S)
    assert certificate.query("x1 & x4").answer == "block-identified"
    assert certificate.query(S.of("x1")) == certificate.query("x1")
    assert certificate.query("x1 - x4").answer == "empty"
    assert "follows" in certificate.query("x1").paper


def test_a_union_of_blocks_is_identified_though_its_parts_are_open():
    pair = np.array([[1, 1], [1, 1], [1, 0], [0, 1]], dtype=bool)
    good = np.array([[1, 0]] * 3 + [[1, 1]] * 2 + [[0, 1]] * 3, dtype=bool)
    S = nm.Structure(np.block([[pair, np.zeros((4, 2), bool)], [np.zeros((8, 2), bool), good]]))
    certificate = nm.certify(S)
    assert certificate.gap == 0
    assert certificate.query(S.latents("z1", "z2")).answer == "block-identified"
    assert certificate.query(S.latents("z1")).answer != "block-identified"
    assert certificate.query(S.latents("z3")).answer == "block-identified"


def test_a_query_about_another_structure_is_one_sentence():
    other = nm.Structure([[1, 1, 1]], latent=["a", "b", "c"])
    with pytest.raises(nm.InputError, match="this structure's latents"):
        nm.certify(nm.Structure([[1, 1, 1]])).query(other.of(0))
