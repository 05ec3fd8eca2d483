"""Whatever cannot be used is refused in one sentence about what must hold, by every door alike."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import refused_metrics
import torch
from every_score import SCORES, Z
from scipy import sparse
from sentences import ids, refusal

import noumena as nm
from noumena import metrics as M

# ---- the same bad tables at every door that takes one --------------------------------------------------------------

DOORS: dict[str, Callable[[Any], Any]] = {
    **{f"{name}, true": lambda x, s=score: s.call(x, Z) for name, score in SCORES.items()},
    **{f"{name}, learned": lambda x, s=score: s.call(Z, x) for name, score in SCORES.items()},
    "agreement": lambda x: M.agreement([Z, x]),
    "ICA": lambda x: nm.ICA(2, random_state=0).fit(x),
    "VAE": lambda x: nm.VAE(2, random_state=0, training=nm.Training(steps=1)).fit(x),
    "alignment": lambda x: nm.align(Z, x),
    "causal graph": M.causal_graph,
    "factors": M.factors_of,
    "scorecard, true": lambda x: M.score(x, Z),
    "scorecard, learned": lambda x: M.score(Z, x),
}
HOLE = np.where(Z > 2, np.nan, Z)
TABLES: dict[str, tuple[Any, str]] = {
    "one axis": (Z[:, 0], "must have two axes, (batch, dim). Got shape (240,)"),
    "three axes": (Z[:, :, None], "must have two axes, (batch, dim). Got shape (240, 3, 1)"),
    "no rows": (Z[:0], "rows. Got 0 sample(s)"),
    "no columns": (Z[:, :0], "must have columns. Got 0 feature(s)"),
    "NaN": (HOLE, "must be finite. Got"),
    "inf": (np.where(Z > 2, np.inf, Z), "must be finite. Got 0 NaN and"),
    "complex": (Z * 1j, "must be real. Complex data not supported. Got dtype complex128."),
    "masked": (np.ma.masked_greater(Z, 2), "must have no masked entries. Got"),
    "dates": (np.full(Z.shape, "2020-01-01", dtype="datetime64[D]"), "must hold numbers"),
    "ragged": ([[1.0, 2.0], [3.0]] * 120, "must be a rectangular array of numbers"),
    "a number": (3.0, "must have two axes"),
}
OTHERS: dict[str, tuple[Any, str]] = {
    "sparse": (sparse.csr_array(Z), "must be a dense array. Got a sparse matrix; use"),
    "a sparse tensor": (torch.tensor(Z).to_sparse(), "must be a dense tensor"),
}


@pytest.mark.parametrize("bad", TABLES)
@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_table_is_refused_at_every_door(door: str, bad: str) -> None:
    x, sentence = TABLES[bad]
    assert sentence in refusal(DOORS[door], x)


@pytest.mark.parametrize("bad", OTHERS)
@pytest.mark.parametrize("door", DOORS)
def test_sparse_tables_are_type_errors_at_every_door(door: str, bad: str) -> None:
    x, sentence = OTHERS[bad]
    assert sentence in refusal(DOORS[door], x, kind=TypeError)


@pytest.mark.parametrize("door", [door for door in DOORS if "true" not in door and door != "factors"])
def test_words_are_no_learned_latents(door: str) -> None:
    assert "must hold numbers only" in refusal(DOORS[door], np.full(Z.shape, "two"))
    assert "must hold numbers only" in refusal(DOORS[door], np.full(Z.shape, {}, dtype=object), kind=TypeError)


@pytest.mark.parametrize("name", SCORES)
def test_tables_that_do_not_fit_and_wrong_counts_are_refused_by_every_score(name: str) -> None:
    call, least = SCORES[name].call, SCORES[name].least
    for z, learned in ((Z, Z[1:]), (Z[1:], Z)):
        assert "must share their batch axis. Got shapes" in refusal(call, z, learned)
    assert f"must have at least {least} rows" in refusal(call, Z[: least - 1], Z[: least - 1])
    assert "shuffles must be a whole number of at least 0. Got -1." in refusal(call, Z, Z, shuffles=-1)
    for wrong in (-1, 1, 9):
        assert "subsamples must be" in refusal(call, Z, Z, subsamples=wrong)
    assert "random_state must be a whole number of at least 0" in refusal(call, Z, Z, random_state=-1)


@pytest.mark.parametrize("bad", ["one axis", "no columns", "NaN", "complex", "masked", "dates"])
def test_what_is_no_table_is_refused_by_an_audit(bad: str) -> None:
    assert "must" in refusal(nm.audit, [Z, TABLES[bad][0]], folds=2)


# ---- sentences of single doors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "sentence"), ids(refused_metrics.REFUSED))
def test_what_a_metric_cannot_use_is_refused(call: Callable[[], object], sentence: str) -> None:
    assert sentence in refusal(call)
