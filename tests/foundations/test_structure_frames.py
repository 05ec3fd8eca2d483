"""A data frame is a structure with its own names, as the same table in a file is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import noumena as nm
from noumena.checks import InputError
from noumena.structure import Structure

SUPPORT = [[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]]
LATENT = ("stress", "age")
OBSERVED = ("g1", "g2", "g3", "g4", "g5")
NAMED = Structure(SUPPORT, observed=OBSERVED, latent=LATENT)


def in_pandas(columns: Any = LATENT, index: Any = None, support: Any = SUPPORT) -> pd.DataFrame:
    return pd.DataFrame(support, columns=pd.Index(columns), index=index)


def in_polars(frame: pd.DataFrame) -> Any:
    polars = pytest.importorskip("polars")
    return polars.DataFrame({str(name): frame[name].tolist() for name in frame.columns})


either = pytest.mark.parametrize("kind", [lambda frame: frame, in_polars], ids=["pandas", "polars"])
Kind = Callable[[pd.DataFrame], Any]


def test_a_frame_of_pandas_keeps_its_names_in_structures_and_certificates() -> None:
    frame = in_pandas(index=list(OBSERVED))
    assert Structure(frame) == NAMED
    assert nm.certify(frame).structure == NAMED
    assert nm.certify(frame).query("g1 & g3").latents.names == ("stress",)


@either
def test_a_frame_without_names_of_observations_counts_them(kind: Kind) -> None:
    assert Structure(kind(in_pandas())) == Structure(SUPPORT, latent=LATENT)
    assert nm.certify(kind(in_pandas())).query("x1").latents.names == ("stress",)


def test_a_frame_whose_columns_and_rows_are_only_counted_has_the_usual_names() -> None:
    assert Structure(pd.DataFrame(SUPPORT)) == Structure(SUPPORT)
    assert Structure(pd.DataFrame(SUPPORT, index=np.arange(5))) == Structure(SUPPORT)


@either
@pytest.mark.parametrize("header", ["sensor", "index", "Unnamed: 0"])
def test_a_first_column_of_words_is_the_names_of_observations(kind: Kind, header: str) -> None:
    frame: Any = in_pandas()
    frame.insert(0, header, list(OBSERVED))
    assert Structure(kind(frame)) == NAMED


@either
@pytest.mark.parametrize("header", ["", "Observed", "index"])
def test_a_first_column_is_names_under_the_headers_that_a_file_has_there(kind: Kind, header: str) -> None:
    frame: Any = in_pandas()
    frame.insert(0, header, [10, 20, 30, 40, 50])
    expected = Structure(SUPPORT, observed=["10", "20", "30", "40", "50"], latent=LATENT)
    assert Structure(kind(frame)) == expected
    assert Structure(kind(frame.astype({"age": float, "stress": bool}))) == expected


@pytest.mark.parametrize(
    ("columns", "index"),
    [(LATENT, list(OBSERVED)), ((3, 7), (10, 20, 30, 40, 50)), (("a b", "it's"), ("x1", "0", "1", "z-1", "2.5"))],
)
def test_a_frame_is_the_structure_of_its_file(tmp_path: Path, columns: Any, index: Any) -> None:
    frame = in_pandas(columns, list(index))
    frame.to_csv(tmp_path / "s.csv")
    assert Structure(frame) == Structure.from_csv(tmp_path / "s.csv")


def test_names_that_are_given_go_before_those_of_a_frame() -> None:
    frame = in_pandas(index=list(OBSERVED))
    assert Structure(frame, latent=["a", "b"]).latent == ("a", "b")
    assert Structure(frame, latent=["a", "b"]).observed == OBSERVED
    assert Structure(frame, observed="vwxyz").observed == tuple("vwxyz")
    assert Structure(frame, observed="vwxyz").latent == LATENT


@either
def test_columns_of_numbers_beside_columns_of_truth_are_one_structure(kind: Kind) -> None:
    frame = in_pandas().astype({"stress": bool, "age": float})
    assert Structure(kind(frame)) == Structure(SUPPORT, latent=LATENT)


def test_a_frame_that_is_no_structure_is_refused() -> None:
    for frame, sentence in (
        (in_pandas(("age", "age")), "Names of latent variables must differ. Got age twice."),
        (in_pandas(index=list("abacd")), "Names of observed variables must differ. Got a twice."),
        (in_pandas(support=[["1", "0"], ["0", "1"]]), "A structure must be a matrix of 0 and 1. Got dtype "),
        (in_pandas(support=[["a", "b"], ["c", "d"]]), "A structure must be a matrix of 0 and 1. Got dtype "),
        (in_pandas(support=[[0.3, 0], [0, 0.3]]), "A structure must hold only 0 and 1. Got other values."),
        (in_pandas(support=[[0, 0], [0, 1]]), "Every latent must touch at least one observation. Got none for stress."),
        (in_pandas(support=np.zeros((0, 2))), "A structure must not be empty. Got shape (0, 2)."),
        (pd.DataFrame(index=pd.Index([1, 2])), "A structure must not be empty. Got shape (2, 0)."),
        (pd.DataFrame({"sensor": ["a", "b"]}), "A structure must not be empty. Got shape (2, 0)."),
    ):
        with pytest.raises(InputError) as error:
            Structure(frame)
        assert sentence in str(error.value)
