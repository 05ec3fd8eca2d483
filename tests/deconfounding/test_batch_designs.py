"""A design is read as it is, refused where label and batch cannot be told apart, and its worries are said."""

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.deconfounding.design import association, crossed, design, folds_of, parts


def columns(table):
    """Batch and label columns with the given number of rows for every (batch, label)."""
    batch = [b for b, row in table.items() for label, n in row.items() for _ in range(n)]
    label = [label for row in table.values() for label, n in row.items() for _ in range(n)]
    return np.array(batch, dtype=object), np.array(label, dtype=object)


def made(table, **asked):
    batch, label = columns(table)
    return design(batch, label, rows=len(batch), **asked)


def refusal(table, **asked):
    with pytest.raises(InputError) as error:
        made(table, **asked)
    return str(error.value)


CROSSED = {"B1": {"a": 3, "b": 5}, "B2": {"a": 4, "b": 2}}


def test_rows_of_every_label_and_batch_are_counted():
    found = made(CROSSED)
    assert found.levels == ("a", "b")
    assert found.batches == ("B1", "B2")
    assert found.counts.tolist() == [[3, 4], [5, 2]]
    assert found.scorable == (0, 1)
    assert [c.name for c in found.contrasts] == ["b"]
    assert found.contrasts[0].target.tolist() == [0] * 3 + [1] * 5 + [0] * 4 + [1] * 2


def test_a_label_that_has_its_own_batches_is_refused_with_the_names_of_both():
    text = refusal({"B1": {"wild": 5}, "B2": {"wild": 4}, "B3": {"resistant": 6}})
    assert text.startswith("label and batch must not be confounded")
    assert "resistant only in B3" in text
    assert "wild only in B1, B2" in text


def test_labels_in_separate_groups_of_batches_are_refused_even_when_each_group_is_crossed():
    table = {"B1": {"a": 3, "b": 3}, "B2": {"a": 3, "b": 3}, "B3": {"c": 3, "d": 3}, "B4": {"c": 3, "d": 3}}
    assert "Got a, b only in B1, B2; c, d only in B3, B4." in refusal(table)
    assert made(table, positive="a", control="b").scorable == (0, 1)
    assert "a only in B1, B2" in refusal(table, positive="a", control="c")


def test_labels_connected_through_a_third_are_accepted():
    table = {f"B{k}": {"a": 3, "b": 3} for k in (1, 2)} | {f"B{k}": {"b": 3, "c": 3} for k in (3, 4)}
    found = made(table)
    assert [c.name for c in found.contrasts] == ["a", "b", "c"]
    assert "Label a occurs only in batches B1, B2" in found.notes
    assert any("Cramér's V" in note for note in found.notes)


def test_batches_with_one_class_are_trained_on_and_never_scored():
    found = made({**CROSSED, "B3": {"a": 9}, "B4": {"a": 9, "b": 1}})
    assert found.scorable == (0, 1)
    assert "Batches B3, B4 hold fewer than 2 rows of a class: trained on, never scored" in found.notes
    assert "Label b occurs only in batches B1, B2, B4" in found.notes
    folds = folds_of(found, "each")
    assert [f.test for f in folds] == [(0,), (1,)] or [f.test for f in folds] == [(1,), (0,)]
    assert all({2, 3} <= set(f.train) for f in folds)


def test_a_balanced_design_has_no_notes():
    assert made(CROSSED | {"B2": {"a": 3, "b": 5}}).notes == ()


def test_one_crossed_batch_is_too_few():
    text = refusal({"B1": {"a": 3, "b": 3}, "B2": {"a": 3}})
    assert text == "At least two batches must each hold 2 rows of b and 2 of the others. Got 1, B1."


def test_rows_without_a_label_are_named_by_their_batches():
    found = made({**CROSSED, "B3": {None: 2, "a": 2, "b": 2}, "B4": {"": 1, float("nan"): 1, "a": 3, "b": 3}})
    assert "4 rows have no label, in batches B3 (2), B4 (2); they only help to find the components" in found.notes
    assert int((found.label < 0).sum()) == 4
    assert found.counts.sum() == 24
    assert not found.used[found.label < 0].any()


def test_a_positive_level_leaves_out_what_is_neither_it_nor_its_control():
    table = {"B1": {"a": 3, "b": 3, "c": 2}, "B2": {"a": 3, "b": 3, "c": 2}}
    against = made(table, positive="c", control="a").contrasts[0].target
    assert [int((against == k).sum()) for k in (1, 0, -1)] == [4, 6, 6]
    others = made(table, positive="c").contrasts[0].target
    assert [int((others == k).sum()) for k in (1, 0, -1)] == [4, 12, 0]


@pytest.mark.parametrize(
    ("table", "asked", "words"),
    [
        ({"B1": {"a": 3, "b": 3}}, {}, "There must be at least two batches, to hold some out. Got only B1."),
        ({"B1": {"a": 3}, "B2": {"a": 3}}, {}, "label must have at least two levels. Got a."),
        ({"B1": {None: 3}, "B2": {None: 3}}, {}, "label must have at least two levels. Got none."),
        (CROSSED, {"positive": "c"}, "positive must be a level of label: a, b. Got c."),
        (CROSSED, {"positive": "a", "control": "c"}, "control must be a level of label: a, b. Got c."),
        (CROSSED, {"control": "a"}, "control must stand against a positive level. Got none."),
        (CROSSED, {"positive": "a", "control": "a"}, "positive and control must differ. Got a twice."),
        ({"B1": {"a": 3, "b": 3}, None: {"a": 1}}, {}, "Every row must have a batch. Got none in rows 6."),
    ],
)
def test_designs_that_cannot_answer_are_refused(table, asked, words):
    assert refusal(table, **asked) == words


def test_columns_of_another_length_are_refused():
    with pytest.raises(InputError, match=r"label must be a column .* Got shapes \(3,\) and \(4, …\)"):
        design(["a", "b", "a", "b"], [0, 1, 0], rows=4)
    with pytest.raises(InputError, match="batch must be a column"):
        design(np.zeros((4, 1)), [0, 1, 0, 1], rows=4)


def test_numbers_serve_as_labels_and_batches():
    found = design([1, 1, 1, 1, 2, 2, 2, 2], [0, 0, 1, 1] * 2, rows=8)
    assert found.levels == ("0", "1")
    assert found.batches == ("1", "2")


def test_parts_and_association_of_known_tables():
    assert len(parts(np.ones((3, 4), dtype=int))) == 1
    assert len(parts(np.eye(3, dtype=int))) == 3
    assert association(np.eye(3, dtype=int) * 7) == pytest.approx(1)
    assert association(np.outer([1, 2], [3, 4, 5])) == pytest.approx(0, abs=1e-12)
    assert association(np.array([[10, 0], [5, 5]])) == pytest.approx(np.sqrt(1 / 3))
    assert association(crossed(np.array([0, 0]), np.array([0, 1]), (2, 2))) == 0


# ---- folds -----------------------------------------------------------------------------------------------------------


def many(n):
    return made({f"B{k:02d}": {"a": 5, "b": 2 + k} for k in range(n)})


@pytest.mark.parametrize(("n", "folds", "sizes"), [(10, 5, [2] * 5), (7, 5, [2, 2, 1, 1, 1]), (3, 5, [1] * 3)])
def test_every_batch_is_held_out_once_and_never_trained_on_then(n, folds, sizes):
    found = folds_of(many(n), folds)
    assert sorted((len(f.test) for f in found), reverse=True) == sizes
    assert sorted(b for f in found for b in f.test) == list(range(n))
    assert all(set(f.train) == set(range(n)) - set(f.test) for f in found)


def test_positive_rows_are_dealt_out_about_evenly():
    found = folds_of(many(10), 5)
    assert {sum(2 + b for b in f.test) for f in found} == {13}


def test_each_batch_alone_and_one_batch_alone_are_each_others_reverse():
    each, one = folds_of(many(4), "each"), folds_of(many(4), scheme="one")
    assert sorted(f.test for f in each) == sorted(f.train for f in one)
    assert sorted(f.train for f in each) == sorted(f.test for f in one)


def test_the_overlap_is_that_of_scored_to_trained_rows():
    found = many(2)
    assert folds_of(found, "each")[0].overlap(found) in (7 / 8, 8 / 7)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"folds": 1}, "folds must be a whole number of at least 2"),
        ({"folds": "all"}, "folds must be one of each"),
        ({"scheme": "two"}, "scheme must be one of folds, one"),
    ],
)
def test_unknown_folds_are_refused(asked, words):
    with pytest.raises(InputError, match=words):
        folds_of(many(4), **asked)
