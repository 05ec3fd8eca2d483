"""Wide subjects: observations with the same latents are worked out once, decoders are asked at few points, and neither
changes an answer."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import noumena as nm
from noumena import occam, strength, surplus
from noumena.derivatives import jacobian
from noumena.guarantees import Rivals, competitors, diversity, models
from noumena.guarantees.competitors import Competitor, chain, conditions, substitutable, triangle
from noumena.guarantees.witness import dependence
from noumena.structure import Structure


@st.composite
def doubled(draw: st.DrawFn) -> np.ndarray:
    """Supports in which rows come several times, in any order."""
    columns = draw(st.integers(2, 5))
    bits = st.lists(st.booleans(), min_size=columns, max_size=columns)
    distinct = draw(st.lists(bits, min_size=2, max_size=5))
    times = draw(st.lists(st.integers(1, 4), min_size=len(distinct), max_size=len(distinct)))
    rows = np.repeat(np.array(distinct), times, axis=0)
    rows[0, ~rows.any(axis=0)] = True
    return rows[draw(st.permutations(range(len(rows))))]


# ---- references: every observation by itself -------------------------------------------------------------------------


def matched(support: np.ndarray) -> bool:
    """Whether every row can have a latent of its own, by trying all."""
    if len(support) == 0:
        return True
    return any(matched(np.delete(support[1:], j, axis=1)) for j in np.flatnonzero(support[0]))


def chain_row_by_row(S: Structure, first: int) -> tuple[int, ...]:
    rows, met = [first], set(S.of(first))
    while len(rows) < S.n_latents:
        fitting = [k for k in range(S.n_observed) if k not in rows and matched(S.dense[[*rows, k]])]
        if not fitting:
            return ()
        rows.append(min(fitting, key=lambda k: len(set(S.of(k)) - met)))
        met |= set(S.of(rows[-1]))
    return tuple(rows)


def triangle_row_by_row(S: Structure, rows: tuple[int, ...]) -> int:
    """The chain's own dependencies, and of every other row the fewest that solve for its latents."""
    total = sum(len(given) + 1 for given in conditions(S, rows))
    latents = [set(S.of(k)) for k in rows]
    for i in set(range(S.n_observed)) - set(rows):
        mine, sizes = set(S.of(i)), []
        for k in range(len(rows)):
            if len(set().union(*latents[: k + 1])) == k + 1:
                groups = competitors._components(latents[: k + 1])
                touching = [c for c in groups if any(latents[j] & mine for j in c)]
                if mine <= set().union(*(latents[j] for c in touching for j in c)):
                    sizes.append(sum(map(len, touching)))
        total += min(sizes)
    return total


def first_of_each(rivals: Rivals, t: int) -> list[tuple[int, Competitor]]:
    found: dict[int, Competitor] = {}
    for competitor in rivals.of(t):
        for r in competitor.carries:
            found.setdefault(r, competitor)
    return list(found.items())


# ---- grouped and ungrouped answers are the same ----------------------------------------------------------------------


@given(doubled())
@settings(max_examples=60, deadline=None)
def test_kinds_are_the_groups_of_equal_rows(support: np.ndarray) -> None:
    S = Structure(support)
    assert sorted(i for kind in S.kinds for i in kind) == list(range(S.n_observed))
    together = {(i, j) for kind in S.kinds for i in kind for j in kind}
    equal = {(i, j) for i in range(S.n_observed) for j in range(S.n_observed) if (S.dense[i] == S.dense[j]).all()}
    assert together == equal
    assert [kind[0] for kind in S.kinds] == sorted(kind[0] for kind in S.kinds)


@given(doubled())
@settings(max_examples=80, deadline=None)
def test_chains_and_triangles_are_those_of_every_row_by_itself(support: np.ndarray) -> None:
    S = Structure(support)
    for i in range(S.n_observed):
        rows = chain(S, i) if S.of(i) else ()
        assert rows == (chain_row_by_row(S, i) if S.of(i) else ())
        if rows:
            assert triangle(S, rows) == triangle_row_by_row(S, rows)


@given(doubled())
@settings(max_examples=80, deadline=None)
def test_substitutable_rows_cost_what_the_sum_over_their_latents_says(support: np.ndarray) -> None:
    S = Structure(support)
    col = [S.observations_of(t) for t in range(S.n_latents)]
    for t in range(S.n_latents):
        wanted = {}
        for i in col[t]:
            others = set(S.of(i)) - {t}
            change = sum(len(col[t] - col[r]) - 1 for r in others)
            if others and change <= 0:
                wanted[i] = change
        rows, changes = substitutable(S, t)
        assert rows.tolist() == sorted(wanted)
        assert changes.tolist() == [wanted[i] for i in sorted(wanted)]


@given(doubled(), st.booleans(), st.integers(0, 5))
@settings(max_examples=120, deadline=None)
def test_the_simplest_competitors_are_the_first_of_all(support: np.ndarray, independent: bool, odd: int) -> None:
    S = Structure(support)

    def allowed(c: Competitor) -> bool:
        return not c.rows or (c.rows[0] + c.latent) % 6 != odd

    rivals = Rivals(S, independent, allowed=allowed)
    for t in range(S.n_latents):
        assert list(rivals.simplest(t)) == first_of_each(rivals, t)


@given(doubled(), st.booleans(), st.integers(0, 31))
@settings(max_examples=80, deadline=None)
def test_verdicts_pairs_and_queries_are_those_of_all_competitors(
    support: np.ndarray, independent: bool, bits: int
) -> None:
    S = Structure(support)
    certificate = nm.certify(S, independent=independent)
    known = {t: dict(first_of_each(certificate.rivals, t)) for t in range(S.n_latents)}
    listed = []
    for t in range(S.n_latents):
        block = certificate.block_of(t) - {t}
        for r in set(range(S.n_latents)) - {t}:
            assert certificate.competitor(t, r) == known[t].get(r)
            expected = "identified" if r not in block else "not identified" if r in known[t] else "open"
            assert certificate.verdict(t, r).answer == expected
        overall = next((c for c in certificate.rivals.of(t) if not block.isdisjoint(c.carries)), None)
        assert certificate.verdict(t).competitor == (overall if block else None)
        listed += [(S.latent[t], S.latent[r], c.sentence) for r, c in known[t].items() if r in block]
    pairs = certificate.to_dict()["pairs"]
    assert [(p["latent"], p["carries"], p["reason"]) for p in pairs] == listed
    asked = S.latents(*(t for t in range(S.n_latents) if bits >> t & 1))
    unproved = [t for t in asked if not certificate.block_of(t) <= asked.indices]
    rivals = [c for t in unproved for c in certificate.rivals.of(t) if not asked.indices.issuperset(c.carries)]
    answer = certificate.query(asked)
    assert answer.entangled_with.indices == {r for c in rivals for r in c.carries} - asked.indices
    assert answer.competitor == (rivals[0] if rivals else None)


def test_a_verdict_is_the_same_before_and_after_its_pairs_were_listed() -> None:
    S = Structure(np.repeat(np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1]]), 3, axis=0))
    certificate = nm.certify(S)
    before = [certificate.verdict(t) for t in range(3)]
    certificate.to_dict()
    assert [certificate.verdict(t) for t in range(3)] == before


# ---- how much work a wide structure is -------------------------------------------------------------------------------


def test_of_many_rows_with_the_same_latents_one_is_tried() -> None:
    S = Structure(np.ones((300, 5)))
    asked: list[Competitor] = []
    rivals = Rivals(S, allowed=lambda c: asked.append(c) is None)
    assert [r for r, _ in rivals.simplest(0)] == [1, 2, 3, 4]
    assert len(asked) == 4
    asked.clear()
    refused = Rivals(S, independent=True, allowed=lambda c: asked.append(c) is None and c.kind == "triangular")
    assert {c.kind for _, c in refused.simplest(0)} == {"triangular"}
    assert len(asked) == 5  # four rotations, and one triangle that carries all


def test_the_chain_asks_for_a_matching_once_a_step_where_all_rows_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    inner = competitors._independent
    monkeypatch.setattr(competitors, "_independent", lambda S, rows: calls.append(rows) or inner(S, rows))
    assert chain(Structure(np.ones((300, 5))), 7) == (7, 0, 1, 2, 3)
    assert len(calls) == 4


def test_triangles_are_not_searched_among_too_many_kinds_of_rows_and_the_certificate_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    S = Structure(np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]] * 2))
    assert nm.certify(S, independent=True).not_searched == ()
    monkeypatch.setattr(competitors, "MOST_KINDS", 3)
    certificate = nm.certify(S, independent=True)
    (sentence,) = certificate.not_searched
    assert sentence.startswith("triangular competitors, which are searched up to 64 latents and 3 observations")
    assert sentence.endswith("of 3 and 4")
    assert not any(c.kind == "triangular" for c in certificate.competitors)
    assert f"Not searched\n  {sentence}" in str(certificate)
    assert certificate.to_dict()["not_searched"] == [sentence]
    assert nm.certify(S).not_searched == ()


# ---- the gap ---------------------------------------------------------------------------------------------------------


def jacobians_of(n: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    for _ in range(n):
        shape = int(rng.integers(3, 10)), int(rng.integers(2, 5))
        yield rng.choice([-1.0, 0.5, 1.0, 2.0], size=shape) * (rng.random(shape) < 0.6)


def test_exchanges_are_counted_as_if_every_row_were_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = set()
    for J in jacobians_of(60):
        usable = {T: int(((J[:, T] != 0).sum(axis=1) >= 2).sum()) for T in occam._subsets(J.shape[1])}
        total = sum(comb(n, len(T) - 1) for T, n in usable.items())
        for most in (total - 1, total):
            monkeypatch.setattr(occam, "MOST_EXCHANGES", most)
            assert occam._too_many(J != 0) == (total > most)
            outcomes.add(total > most)
    assert outcomes == {True, False}
    monkeypatch.setattr(occam, "MOST_EXCHANGES", 200_000)
    monkeypatch.setattr(occam, "MOST_PRODUCTS", 4 * 4 - 1)
    assert occam.point_gap(np.ones((4, 2))) is None
    monkeypatch.setattr(occam, "MOST_PRODUCTS", 4 * 4)
    assert occam.point_gap(np.ones((4, 2))) is not None


def test_the_gap_of_a_point_does_not_depend_on_how_many_exchanges_are_held_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [occam.point_gap(J) for J in jacobians_of(40)]
    monkeypatch.setattr(occam, "AT_ONCE", 20)
    assert [occam.point_gap(J) for J in jacobians_of(40)] == found


def pure_pair_by_pair(J: np.ndarray) -> int:
    """The bound of ``pure_surplus`` without leaving any pair out."""
    support = J != 0
    weight, d = support.sum(axis=0), J.shape[1]
    pure = support[support.sum(axis=1) == 1].sum(axis=0)
    bounds = []
    for a in range(d):
        for b in range(a):
            ratios = [x / y for x, y in zip(J[:, a], J[:, b], strict=True) if x != 0 and y != 0]
            most = max((ratios.count(v) for v in ratios), default=0)
            bounds.append(int(support[:, [a, b]].any(axis=1).sum()) - most - int(max(weight[a], weight[b])))
    for r in range(d if d > 2 else 0):
        lighter = sorted(int(pure[q]) for q in range(d) if q != r and weight[q] <= weight[r])
        if len(lighter) >= 2:
            bounds.append(sum(lighter[:2]) - int(weight[r] - pure[r]))
    return max(0, min(bounds))


def test_the_bound_at_a_point_is_that_of_all_pairs() -> None:
    rng, seen = np.random.default_rng(1), set()
    for _ in range(200):
        d = int(rng.integers(2, 5))
        alone = np.repeat(np.eye(d), int(rng.integers(0, 5)), axis=0)
        shared = rng.choice([-1.0, 0.5, 1.0, 2.0], size=(3, d)) * (rng.random((3, d)) < 0.6)
        J = np.vstack([alone, shared])
        if (J != 0).any(axis=0).all():
            assert surplus.pure_surplus(J) == pure_pair_by_pair(J)
            seen.add(surplus.pure_surplus(J))
    assert {0, 1, 2} <= seen


def test_the_bound_over_points_is_the_smallest_whatever_their_order() -> None:
    alone = [np.kron(np.eye(3), np.ones((n, 1))) for n in (5, 3, 4, 1)]
    assert [models._bound([J]) for J in alone] == [5, 3, 4, 1]
    assert models._bound(alone[:3]) == models._bound(alone[2::-1]) == 3
    assert models._bound([alone[0], np.ones((4, 3)), alone[1]]) == models._bound([]) == 0


def test_a_surplus_is_the_same_whether_pairs_are_looked_at_first_or_last() -> None:
    rng, seen = np.random.default_rng(2), set()
    for _ in range(200):
        support = rng.random((int(rng.integers(4, 12)), int(rng.integers(2, 5)))) < rng.choice([0.25, 0.5])
        if support.any(axis=0).all():
            bound = surplus.owned_surplus(support)
            short = surplus._pair_without_surplus(surplus._counted(support))
            assert surplus.surplus(support) == (bound if bound or short else int(surplus._matched(support)))
            seen.add((bound > 0, short))
    assert seen == {(True, False), (False, True), (False, False)}


# ---- decoders --------------------------------------------------------------------------------------------------------


class Wide(nn.Module):
    """Smooth observations, each of its own latents; counts the rows it decodes."""

    matrix: Tensor

    def __init__(self, support: np.ndarray):
        super().__init__()
        size = torch.rand(support.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5
        self.register_buffer("matrix", size * torch.as_tensor(support))
        self.rows: list[int] = []

    def __deepcopy__(self, memo: Any) -> Wide:
        return self

    def forward(self, z: Tensor) -> Tensor:
        """Observations of latents."""
        self.rows.append(len(z))
        h = z @ self.matrix.T
        return h + 0.3 * torch.sin(h)


def points(n: int, latents: int) -> Tensor:
    return torch.randn(n, latents, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_gradients_decomposed_together_are_those_of_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diversity, "TOGETHER", 2)
    rng = np.random.default_rng(0)
    support = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 1, 1], [1, 1, 0], [0, 0, 0]])
    J = rng.normal(size=(6, 7, 3)) * support
    J[:, 3, 2] = J[:, 3, 1]
    found = diversity._margins(J, Structure(support))
    for i in range(6):
        singular = np.linalg.svd(J[:, i, support[i] == 1], compute_uv=False)
        assert found[i] == pytest.approx(singular[-1] / singular[0], abs=1e-12)
    assert found[3] < 1e-12
    assert found[6] == np.inf


def test_strengths_taken_a_few_points_at_a_time_are_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, z = Wide(np.ones((30, 4))), points(50, 4)
    whole = strength.relative_strength(decoder, z)
    monkeypatch.setattr(strength, "AT_ONCE", 7 * 30 * 4)
    np.testing.assert_array_equal(strength.relative_strength(decoder, z), whole)
    monkeypatch.setattr(strength, "ENTRIES", 2 * 50 * 30 * 4 - 1)
    decoder.rows.clear()
    np.testing.assert_allclose(strength.relative_strength(decoder, z), whole, rtol=1e-12)
    assert max(decoder.rows[1:]) == 7
    expected = jacobian(decoder, z).abs().mean(dim=0) * z.std(dim=0) / decoder(z).std(dim=0)[:, None]
    np.testing.assert_allclose(whole, expected.numpy(), rtol=1e-12)


def test_a_fitted_model_reads_its_structure_off_as_many_points_as_fit_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.random.default_rng(0).normal(size=(100, 12))
    model: Any = nm.Autoencoder(3, training=nm.Training(steps=2, batch_size=16), random_state=0).fit(x)
    decode, z = model.models_[0].decode, model.points_of(0)
    assert len(z) > 40
    np.testing.assert_array_equal(model.structure_.evidence.strength, strength.relative_strength(decode, z))
    monkeypatch.setattr(strength, "ENTRIES", 40 * 12 * 3 + 5)
    few = strength.relative_strength(decode, z[:40])
    np.testing.assert_array_equal(model.structure_.evidence.strength, few)
    assert len(model.points_of(0)) == len(z)


def test_a_wide_decoder_is_certified_without_trying_observations_and_says_so() -> None:
    support = np.ones((3300, 20), dtype=bool)
    support[:3, :3] = ~np.eye(3, dtype=bool)  # inside no other, and each one row away
    decoder = Wide(support)
    certificate = nm.certify(decoder, at=points(60, 20), threshold=1e-6)
    decoded = sum(decoder.rows)
    assert decoded < 2000
    assert substitutable(certificate.structure, 0)[0].size > 3000
    pairs = certificate.to_dict()["pairs"]
    assert sum(decoder.rows) == decoded  # nothing is decoded to list them
    assert {p["kind"] for p in pairs} == {"shear"}
    assert certificate.verdict(0, 1).answer == "open"
    assert certificate.not_searched == ("observations in the place of a latent: each costs decodings of all 3300",)
    asked = certificate.theorems[1].hypotheses[0]
    assert asked.evidence.startswith("at 30 points ")


def test_of_a_middling_decoder_the_first_observations_of_each_latent_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    support = np.ones((40, 3), dtype=bool)
    support[:3] = ~np.eye(3, dtype=bool)
    tries: list[tuple[Any, Any]] = []
    inner = models.substitution

    def refused(g: Any, latents: Any, rows: Any, known: Any) -> Any:
        tries.append((tuple(latents), tuple(rows)))
        change = inner(g, latents, rows, known)
        return type(change)(change.forward, lambda z_hat: z_hat + 1.0)

    monkeypatch.setattr(models, "substitution", refused)
    monkeypatch.setattr(competitors, "TRIED", 4 * 120 + 7)
    certificate = nm.certify(Wide(support), at=points(60, 3), threshold=1e-6)
    assert certificate.not_searched == (
        "observations in the place of a latent, beyond the first 4 of each latent: each costs decodings of all 40",
    )
    assert certificate.carried_with(0) == {}
    assert tries == [((0,), (i,)) for i in substitutable(certificate.structure, 0)[0][:4]]
    monkeypatch.setattr(competitors, "TRIED", 40 * 120)
    tries.clear()
    everything = nm.certify(Wide(support), at=points(60, 3), threshold=1e-6)
    assert everything.not_searched == ()
    assert everything.carried_with(0) == {}
    assert len(tries) == len(substitutable(everything.structure, 0)[0]) > 30


def test_points_are_fewer_for_wide_decoders_only(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = Wide(np.ones((50, 4)))
    nm.certify(decoder, at=points(60, 4))
    usual = sum(decoder.rows)
    monkeypatch.setattr(models, "ASKED", 8 * 200)
    decoder.rows.clear()
    certificate = nm.certify(decoder, at=points(60, 4))
    assert sum(decoder.rows) < usual
    assert certificate.theorems[1].hypotheses[0].evidence.startswith("at 8 points ")
    monkeypatch.setattr(models, "ASKED", 3 * 200)
    assert nm.certify(decoder, at=points(60, 4)).theorems[1].hypotheses[0].evidence == (
        "3 points cannot span the 4 latents of a row"
    )


@pytest.mark.parametrize("n", [2, 6])
def test_a_handful_of_rows_shows_no_independence(n: int) -> None:
    assert dependence(np.random.default_rng(0).normal(size=(n, 2))) == 1.0
    assert dependence(np.random.default_rng(0).normal(size=(600, 2))) < 0.15
