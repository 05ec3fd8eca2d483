"""Wide structures: observations with the same latents are worked out once, which changes no answer."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noumena as nm
from noumena.guarantees import Rivals, competitors, models, occam, surplus
from noumena.guarantees.competitors import Competitor, chain, conditions, substitutable, triangle
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
    generic = np.arange(1.0, 9).reshape(4, 2)  # rows that are proportional count once
    monkeypatch.setattr(occam, "MOST_PRODUCTS", 4 * 4 - 1)
    assert occam.point_gap(generic) is None
    monkeypatch.setattr(occam, "MOST_PRODUCTS", 4 * 4)
    assert occam.point_gap(generic) is not None


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
