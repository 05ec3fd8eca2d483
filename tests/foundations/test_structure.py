"""The set algebra of a support agrees with plain sets, its files round-trip, and structures are compared."""

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from noumena.checks import InputError
from noumena.structure import LatentSet, Structure

modest = settings(max_examples=60, deadline=None)


@st.composite
def supports(draw: st.DrawFn, most_rows: int = 7, most_columns: int = 6) -> np.ndarray:
    """Boolean matrices whose columns are never empty."""
    rows, columns = draw(st.integers(1, most_rows)), draw(st.integers(1, most_columns))
    column = st.integers(1, 2**rows - 1)
    bits = draw(st.lists(column, min_size=columns, max_size=columns))
    return np.array([[bool(b >> i & 1) for b in bits] for i in range(rows)])


def columns_of(support: np.ndarray) -> list[set[int]]:
    return [{i for i in range(len(support)) if support[i, j]} for j in range(support.shape[1])]


# ---- set algebra ---------------------------------------------------------------------------------------------


@modest
@given(supports(), st.data())
def test_queries_are_the_same_as_with_plain_sets(support: np.ndarray, data: st.DataObject) -> None:
    S = Structure(support)
    group = st.lists(st.integers(0, len(support) - 1), max_size=3)
    K, L = data.draw(group), data.draw(group)
    plain = [{j for i in rows for j in range(support.shape[1]) if support[i, j]} for rows in (K, L)]
    a, b = S.of(*K), S.of(*(S.observed[i] for i in L))
    assert set(a) == plain[0]
    assert set(a & b) == plain[0] & plain[1]
    assert set(a | b) == plain[0] | plain[1]
    assert set(a - b) == plain[0] - plain[1]
    assert set(a ^ b) == plain[0] ^ plain[1]
    assert set(~a) == set(range(support.shape[1])) - plain[0]
    assert list(a) == sorted(plain[0])
    assert len(a) == len(plain[0])
    assert a.names == tuple(S.latent[j] for j in sorted(plain[0]))


@modest
@given(supports(), st.data())
def test_sets_of_latents_form_a_boolean_algebra(support: np.ndarray, data: st.DataObject) -> None:
    S = Structure(support)
    some = st.sets(st.integers(0, S.n_latents - 1))
    a, b, c = (S.latents(*data.draw(some)) for _ in range(3))
    assert ~(a & b) == ~a | ~b
    assert ~~a == a
    assert a & (b | c) == (a & b) | (a & c)
    assert a - b == a & ~b
    assert a ^ b == (a | b) - (a & b)


@modest
@given(supports())
def test_order_closure_and_atoms_are_inclusion_of_columns(support: np.ndarray) -> None:
    S, columns = Structure(support), columns_of(support)
    d = len(columns)
    included = np.array([[columns[t] <= columns[r] for r in range(d)] for t in range(d)])
    np.testing.assert_array_equal(S.order.toarray(), included)
    for t in range(d):
        assert set(S.closure(t)) == {r for r in range(d) if included[t, r]}
        assert S.closure(S.latent[t]) == S.closure(t)
    equal = {frozenset(r for r in range(d) if columns[r] == columns[t]) for t in range(d)}
    assert {frozenset(atom) for atom in S.atoms} == equal
    assert len(S.atoms) == len(equal)


@modest
@given(supports())
def test_sizes_weights_and_columns_are_counted(support: np.ndarray) -> None:
    S = Structure(support)
    assert (S.n_observed, S.n_latents) == support.shape
    assert len(S) == support.sum()
    np.testing.assert_array_equal(S.weights, support.sum(axis=0))
    np.testing.assert_array_equal(S.dense, support)
    assert [S.observations_of(j) for j in range(S.n_latents)] == columns_of(support)


def test_membership_is_by_name_or_index() -> None:
    chosen = Structure([[1, 1, 0]] * 2 + [[0, 0, 1]], latent=["age", "mood", "sex"]).of("x1")
    assert "age" in chosen
    assert 1 in chosen
    assert "sex" not in chosen
    assert 2 not in chosen
    assert repr(chosen) == "LatentSet(age, mood)"


def test_sets_of_different_structures_do_not_mix() -> None:
    a, b = Structure([[1, 1]]), Structure([[1, 1]], latent=["a", "b"])
    for mixed in (LatentSet.__and__, LatentSet.__or__, LatentSet.__sub__, LatentSet.__xor__):
        with pytest.raises(InputError, match=r"must come from one structure\. Got LatentSet\(z1, z2\) and LatentSet"):
            mixed(a.of(0), b.of(0))


# ---- doors ---------------------------------------------------------------------------------------------------


SUPPORT = np.array([[1, 0, 1], [1, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)


@pytest.mark.parametrize(
    "given_as",
    [
        SUPPORT.tolist(),
        SUPPORT.astype(int),
        SUPPORT.astype(np.float32),
        torch.as_tensor(SUPPORT),
        sparse.csr_array(SUPPORT),
        sparse.csc_matrix(SUPPORT.astype(float)),
        sparse.coo_array(SUPPORT.astype(int)),
    ],
)
def test_a_structure_is_the_same_from_every_kind_of_matrix(given_as: Any) -> None:
    assert Structure(given_as) == Structure(SUPPORT)
    np.testing.assert_array_equal(Structure(given_as).weights, [2, 1, 2])


def test_stored_zeros_of_a_sparse_matrix_are_no_dependencies_and_the_matrix_is_left_alone() -> None:
    stored = sparse.csr_array((np.array([1, 0, 1]), np.array([1, 0, 0]), np.array([0, 2, 3])), shape=(2, 2))
    S = Structure(stored)
    np.testing.assert_array_equal(S.dense, [[0, 1], [1, 0]])
    assert len(S) == 2
    np.testing.assert_array_equal(S.weights, [1, 1])
    np.testing.assert_array_equal(stored.indices, [1, 0, 0])
    assert stored.nnz == 3


def test_equal_structures_have_equal_entries_and_names() -> None:
    S = Structure(SUPPORT)
    assert Structure(~SUPPORT[:3]) != S
    flipped = SUPPORT.copy()
    flipped[3, 1] = True
    assert Structure(flipped) != S
    assert Structure(SUPPORT, latent="abc") != S
    assert Structure(SUPPORT, observed="abcd") != S
    assert S != "a structure"
    assert repr(S) == "Structure(4 observed × 3 latents, 5 dependencies)"


@pytest.mark.parametrize(
    ("support", "sentence"),
    [
        ([["a"]], r"must be a matrix of 0 and 1\. Got dtype"),
        ([1, 0], r"must be a matrix \(observed, latent\)\. Got shape \(2,\)"),
        ([[[1]]], r"must be a matrix \(observed, latent\)\. Got shape \(1, 1, 1\)"),
        ([[1, 2]], "must hold only 0 and 1"),
        ([[1.0, np.nan]], "must hold only 0 and 1"),
        (np.ones((2, 0)), r"must not be empty\. Got shape \(2, 0\)"),
        (np.ones((0, 2)), r"must not be empty\. Got shape \(0, 2\)"),
        ([[1, 0, 1, 0]], r"Every latent must touch at least one observation\. Got none for z2, z4\."),
    ],
)
def test_what_is_no_structure_is_refused(support: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Structure(support)


def test_names_must_be_as_many_as_variables_and_differ() -> None:
    with pytest.raises(InputError, match=r"There must be 3 names of latent variables\. Got 2\."):
        Structure(SUPPORT, latent=["a", "b"])
    with pytest.raises(InputError, match=r"Names of observed variables must differ\. Got a, b twice\."):
        Structure(SUPPORT, observed=["a", "b", "a", "b"])


def test_an_unknown_variable_is_refused_by_name_and_by_index() -> None:
    S = Structure(SUPPORT)
    with pytest.raises(InputError, match=r"A latent must be one of the structure's names\. Got 'z9'\."):
        S.closure("z9")
    with pytest.raises(InputError, match=r"An observation must be one of the structure's names\. Got 'z1'\."):
        S.of("z1")
    for index in (3, -1):
        with pytest.raises(InputError, match=rf"A latent index must be below 3\. Got {index}\."):
            S.observations_of(index)
    with pytest.raises(InputError, match=r"observation index must be below 4\. Got 4\."):
        S.of(4)
    assert (S.index("z3"), S.index(2)) == (2, 2)


@modest
@given(support=supports())
def test_a_structure_survives_its_file(tmp_path_factory: pytest.TempPathFactory, support: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("structures") / "structure.csv"
    latent = [f"factor, {j}" for j in range(support.shape[1])]
    S = Structure(support, latent=latent)
    S.to_csv(path)
    assert Structure.from_csv(str(path)) == S


def test_a_structure_file_may_have_blank_lines_and_spaces(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(",age,mood\n\npulse, 1,0\nvoice,1 , 1\n\n")
    S = Structure.from_csv(tmp_path / "s.csv")
    assert Structure([[1, 0], [1, 1]], observed=["pulse", "voice"], latent=["age", "mood"]) == S


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "needs a header and one row. Got 0 rows"),
        (b",z1\n", "needs a header and one row. Got 1 rows"),
        (b",z1,z2\nx1,1\n", "must have a name and 2 entries 0 or 1. Got line 2: x1,1."),
        (b",z1\nx1,1\nx2,2\n", "must have a name and 1 entries 0 or 1. Got line 3: x2,2."),
        (b",z1\nx1,\n", "must have a name and 1 entries 0 or 1. Got line 2: x1,."),
        (b",z1\nx1,0\n", "Every latent must touch at least one observation."),
        (b",z1,z1\nx1,1,1\n", "Names of latent variables must differ."),
        (b"\xff\xfe\xfa,\n", "The structure file must be text in UTF-8."),
        (b";z1;z2\nx1;1;0\n", "must be separated by commas. Got ';' in the first line."),
        (b"\tz1\nx1\t1\n", "must be separated by commas. Got a tab in the first line."),
        (b"a,b,c\n1,0,1\n0,1,1\n", "must begin with a column of names of observations. Got only 0 and 1 under 'a'."),
        (b"1,0,1\n0,1,1\n", "must begin with a column of names of observations. Got only 0 and 1 under '1'."),
        (b"pulse,1,0\nvoice,1,1\n", "must begin with a line of names of latents. Got 'pulse,1,0'."),
    ],
)
def test_a_bad_structure_file_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "s.csv").write_bytes(content)
    with pytest.raises(InputError) as error:
        Structure.from_csv(tmp_path / "s.csv")
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("content", "observed", "latent"),
    [
        ("observed,age,mood\npulse,1,0\nvoice,1,1\n", ("pulse", "voice"), ("age", "mood")),
        ("sensor,age,mood\n0,1,0\nvoice,1,1\n", ("0", "voice"), ("age", "mood")),
        (",0,1\n0,1,0\n1,1,1\n", ("0", "1"), ("0", "1")),
        ("Observed,0,1\n0,1.0,0.0\n1,True,TRUE\n", ("0", "1"), ("0", "1")),
        ("\ufeff,age,mood\npulse,1,False\nvoice,1,1\n", ("pulse", "voice"), ("age", "mood")),
    ],
)
def test_names_and_entries_of_a_structure_file_are_read_as_others_write_them(
    tmp_path: Path, content: str, observed: tuple[str, ...], latent: tuple[str, ...]
) -> None:
    (tmp_path / "s.csv").write_text(content, encoding="utf-8")
    S = Structure.from_csv(tmp_path / "s.csv")
    assert Structure([[1, 0], [1, 1]], observed=observed, latent=latent) == S


def test_a_missing_structure_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"The structure file must exist\. Got .*nowhere\.csv\."):
        Structure.from_csv(tmp_path / "nowhere.csv")


# ---- comparison ----------------------------------------------------------------------------------------------


def fewest_differences(ours: np.ndarray, theirs: np.ndarray) -> int:
    """The slow reference: every injective matching of columns, unmatched columns count in full."""
    width = max(ours.shape[1], theirs.shape[1])
    a, b = (np.pad(m, ((0, 0), (0, width - m.shape[1]))) for m in (ours, theirs))
    return min(int((a != b[:, list(order)]).sum()) for order in permutations(range(width)))


@modest
@given(st.integers(1, 5).flatmap(lambda rows: st.tuples(*[supports(rows, 4)] * 2)))
def test_matching_finds_the_fewest_differences(pair: tuple[np.ndarray, np.ndarray]) -> None:
    rows = min(len(pair[0]), len(pair[1]))
    ours, theirs = (p[:rows] for p in pair)
    ours, theirs = ours[:, ours.any(axis=0)], theirs[:, theirs.any(axis=0)]
    if 0 in (ours.shape[1], theirs.shape[1]):
        return
    found = Structure(ours).match(Structure(theirs))
    assert found.hamming == fewest_differences(ours, theirs)
    assert found.missing - found.extra == ours.sum() - theirs.sum()
    hits = ours.sum() - found.missing
    precision, recall = hits / theirs.sum(), hits / ours.sum()
    expected = 2 * precision * recall / (precision + recall) if hits else 0.0
    assert found.f1 == pytest.approx(expected)
    matched = [(j, k) for j, k in enumerate(found.permutation) if k >= 0]
    assert len(matched) == min(ours.shape[1], theirs.shape[1])
    assert len({k for _, k in matched}) == len(matched)
    assert hits == sum(int((ours[:, j] & theirs[:, k]).sum()) for j, k in matched)


@modest
@given(supports(), st.randoms(use_true_random=False))
def test_a_structure_matches_itself_in_any_order(support: np.ndarray, random: Any) -> None:
    order = list(range(support.shape[1]))
    random.shuffle(order)
    found = Structure(support).match(Structure(support[:, order]))
    assert (found.missing, found.extra, found.f1) == (0, 0, 1.0)
    np.testing.assert_array_equal(support[:, order][:, found.permutation], support)


def test_missing_and_extra_are_told_apart() -> None:
    truth = Structure([[1, 0], [1, 1], [0, 1]])
    fewer, more = Structure([[1, 0], [1, 0], [0, 1]]), Structure([[1, 0], [1, 1], [1, 1]])
    assert (truth.match(fewer).missing, truth.match(fewer).extra) == (1, 0)
    assert (truth.match(more).missing, truth.match(more).extra) == (0, 1)
    alone = truth.match(Structure([[1], [1], [0]]))
    assert (alone.missing, alone.extra, alone.permutation.tolist()) == (2, 0, [0, -1])


def test_structures_of_different_observations_do_not_match() -> None:
    with pytest.raises(InputError, match=r"must have the same observations\. Got 1 and 2 rows\."):
        Structure([[1]]).match(Structure([[1], [1]]))


# ---- genus and differentia -----------------------------------------------------------------------------------


def plain_latents(support: np.ndarray, rows: list[int]) -> set[int]:
    return {j for i in rows for j in range(support.shape[1]) if support[i, j]}


@modest
@given(supports(), st.data())
def test_a_genus_is_what_groups_share_and_a_differentia_what_one_has_alone(
    support: np.ndarray, data: st.DataObject
) -> None:
    S = Structure(support)
    group = st.lists(st.integers(0, len(support) - 1), max_size=3)
    groups = data.draw(st.lists(group, min_size=1, max_size=4))
    plain = [plain_latents(support, rows) for rows in groups]
    assert set(S.genus(*groups)) == set.intersection(*plain)
    assert set(S.differentia(*groups)) == plain[0].difference(*plain[1:])
    named = [[S.observed[i] for i in rows] for rows in groups]
    assert S.genus(*named) == S.genus(*groups)
    assert S.differentia(*named) == S.differentia(*groups)


def test_a_genus_and_a_differentia_of_one_group_are_its_latents() -> None:
    S = Structure(SUPPORT, latent=["age", "mood", "sex"])
    assert S.genus(["x1", "x2"]) == S.differentia(["x1", "x2"]) == S.of("x1", "x2")
    assert S.genus(["x1"], ["x2"]).names == ("age",)
    assert S.differentia(["x1"], ["x2"]).names == ("sex",)
    assert S.differentia(["x1"], ["x2"], ["x3"]).names == ()
    assert S.genus(["x1"], ["x4"]).names == ()


def test_a_genus_of_nothing_and_of_unknown_observations_is_refused() -> None:
    S = Structure(SUPPORT)
    with pytest.raises(InputError, match=r"A genus must be of one group of observations or more\. Got none\."):
        S.genus()
    with pytest.raises(InputError, match=r"must be one of the structure's names\. Got 'x9'\."):
        S.genus(["x1"], ["x9"])
    with pytest.raises(InputError, match=r"must be one of the structure's names\. Got 'x9'\."):
        S.differentia(["x1"], ["x9"])


def test_a_name_is_one_observation_and_not_a_group_of_letters() -> None:
    S = Structure(SUPPORT, observed=["ab", "a", "b", "c"])
    for asked in (S.genus, S.differentia):
        with pytest.raises(InputError, match="group"):
            asked("ab", "b")


@modest
@given(supports())
def test_shared_counts_the_observations_of_every_pair_that_has_any(support: np.ndarray) -> None:
    S, columns = Structure(support), columns_of(support)
    expected = [[len(a & b) for b in columns] for a in columns]
    np.testing.assert_array_equal(S.shared.toarray(), expected)
    assert S.shared.nnz == np.count_nonzero(expected)
    assert S.shared is S.shared
