"""Annotated files come back as features and annotations, what is left out is said, and bad files are refused."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sentences

from noumena.data.annotated import read_annotated

X = np.random.default_rng(0).normal(size=(12, 3))
PLATE = np.array([f"00{k}" for k in np.repeat([1, 2, 3], 4)])
DRUG = np.tile(["DMSO", "bortezomib"], 6)
NAMES = ("Cells_Area", "Cells_Texture", "Nuclei_Area")
WANTED = ("plate", "drug")


def frame() -> pd.DataFrame:
    data = pd.DataFrame(X, columns=NAMES)
    return data.assign(plate=PLATE, drug=DRUG, well=[f"A{k}" for k in range(12)], Metadata_Site=range(12))


def write(path: Path) -> Path:
    if path.suffix == ".csv":
        frame().to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame().to_parquet(path)
    elif path.suffix == ".npz":
        np.savez(path, X=X, features=np.array(NAMES), plate=PLATE, drug=DRUG)
    else:
        anndata = pytest.importorskip("anndata")
        obs = pd.DataFrame({"plate": PLATE, "drug": DRUG}, index=[str(k) for k in range(12)])
        anndata.AnnData(X=X, obs=obs, var=pd.DataFrame(index=list(NAMES))).write_h5ad(path)
    return path


def refusal(path: Path, annotations: tuple[str, ...] = WANTED, **asked: Any) -> str:
    return sentences.refusal(read_annotated, path, annotations, **asked)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz", ".h5ad"])
def test_features_names_and_annotations_survive_their_file(tmp_path: Path, ending: str) -> None:
    table = read_annotated(str(write(tmp_path / f"data{ending}")), WANTED)
    np.testing.assert_allclose(table.x, X, rtol=1e-12)
    assert table.names == NAMES
    assert table.annotations["plate"].tolist() == PLATE.tolist()
    assert table.annotations["drug"].tolist() == DRUG.tolist()
    assert "3 features: Cells_Area, Cells_Texture, Nuclei_Area" in table.notes


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_words_and_metadata_are_left_out_and_said(tmp_path: Path, ending: str) -> None:
    notes = read_annotated(write(tmp_path / f"data{ending}"), WANTED).notes
    assert "Columns left out: well, Metadata_Site" in notes


def test_features_are_chosen_by_name_or_by_their_beginning(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv")
    assert read_annotated(path, WANTED, features=["Cells_"]).names == NAMES[:2]
    assert read_annotated(path, WANTED, features=["Nuclei_Area", "Cells_T"]).names == NAMES[1:]
    np.testing.assert_allclose(read_annotated(path, WANTED, features=["Nuclei"]).x, X[:, 2:])
    for given in (["Nucleoli"], ["Cells_", "Nucleoli"], ["Nuclei", "well"]):
        assert refusal(path, features=given) == (
            f"Every name of --features must be, or begin, a numeric column of data.csv. Got {given[-1]!r} where there "
            f"are {', '.join(NAMES)}."
        )


def test_numbers_that_may_be_names_are_pointed_out(tmp_path: Path) -> None:
    data = pd.concat([frame()] * 3).assign(dose=np.tile([0, 70], 18), cells=np.arange(36))
    data.to_csv(tmp_path / "data.csv", index=False)
    notes = read_annotated(tmp_path / "data.csv", WANTED).notes
    assert "Columns of a few whole numbers are taken as features: dose; --features chooses" in notes


def test_missing_numbers_and_labels_are_left_as_they_are(tmp_path: Path) -> None:
    data = frame()
    data.loc[2, "Cells_Area"] = np.nan
    data.loc[3, "drug"] = None
    for ending in (".csv", ".parquet"):
        path = tmp_path / f"data{ending}"
        _ = data.to_csv(path, index=False) if ending == ".csv" else data.to_parquet(path)
        table = read_annotated(path, WANTED)
        assert np.isnan(table.x[2, 0])
        assert pd.isna(table.annotations["drug"][3])


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz", ".h5ad"])
def test_codes_for_missing_numbers_are_treated_as_asked_for(tmp_path: Path, ending: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(globals(), "X", np.where(np.arange(36).reshape(12, 3) == 3, -999.0, X))  # row 1, first column
    path = write(tmp_path / f"data{ending}")
    holes = read_annotated(path, WANTED, missing=["-999"])
    assert np.argwhere(np.isnan(holes.x)).tolist() == [[1, 0]]
    assert "Counted 1 cell as missing: '-999'" in holes.notes
    rest = np.delete(X, 1, axis=0)
    fewer = read_annotated(path, WANTED, missing=["-999"], impute="drop-rows")
    np.testing.assert_allclose(fewer.x, rest)
    assert fewer.annotations["drug"].tolist() == np.delete(DRUG, 1).tolist()
    median = read_annotated(path, WANTED, missing=["-999"], impute="median")
    assert median.x[1, 0] == pytest.approx(np.median(rest[:, 0]))
    assert median.annotations["plate"].tolist() == PLATE.tolist()
    narrower = read_annotated(path, WANTED, missing=["-999"], impute="drop-columns")
    assert narrower.names == NAMES[1:]
    np.testing.assert_allclose(narrower.x, X[:, 1:])


def test_a_column_without_numbers_is_refused_by_the_option_that_takes_columns(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(globals(), "X", np.where(np.arange(3) == 1, np.nan, X))
    empty = f"Got none in column {NAMES[1]!r}; take others with --features."
    assert refusal(write(tmp_path / "data.csv"), impute="mean").endswith(empty)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".tsv.gz"])
def test_text_may_be_packed_and_parted_by_tabs(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    frame().to_csv(path, index=False, sep="\t" if "tsv" in ending else ",")
    np.testing.assert_allclose(read_annotated(path, WANTED).x, X, rtol=1e-12)


def test_options_of_text_are_refused_for_what_is_none(tmp_path: Path) -> None:
    path = write(tmp_path / "data.parquet")
    assert refusal(path, sep=";") == "--sep and --decimal must come with a .csv or .tsv file. Got data.parquet."
    assert "--impute must be one of mean" in refusal(path, impute="zero")


def test_a_sparse_matrix_becomes_dense(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    from scipy.sparse import csr_matrix

    obs = pd.DataFrame({"plate": PLATE, "drug": DRUG}, index=[str(k) for k in range(12)])
    sparse = np.where(X > 0, X, 0)
    anndata.AnnData(X=csr_matrix(sparse), obs=obs).write_h5ad(tmp_path / "data.h5ad")
    np.testing.assert_allclose(read_annotated(tmp_path / "data.h5ad", WANTED).x, sparse)


def test_without_anndata_the_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data.h5ad").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "anndata", None)
    assert "install noumena[bio]" in refusal(tmp_path / "data.h5ad")


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz", ".h5ad"])
def test_a_missing_annotation_is_named_beside_those_there_are(tmp_path: Path, ending: str) -> None:
    text = refusal(write(tmp_path / f"data{ending}"), ("plate", "treatment"))
    assert "must hold the annotation treatment. Got " in text
    assert "drug" in text


def test_arrays_of_another_length_are_no_annotations(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", X=X, plate=PLATE[:5], drug=DRUG)
    assert refusal(tmp_path / "data.npz") == "data.npz, of 12 rows, must hold the annotation plate. Got drug."


def test_other_files_are_refused_in_a_sentence(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.csv") == f"The data file must exist. Got {tmp_path / 'none.csv'}."
    (tmp_path / "folder.csv").mkdir()
    assert "The data must be a file" in refusal(tmp_path / "folder.csv")
    (tmp_path / "data.txt").write_text("a")
    assert "must be one of .csv, .tsv, .csv.gz, .tsv.gz, .parquet, .h5ad, .npz" in refusal(tmp_path / "data.txt")
    np.savez(tmp_path / "data.npz", Y=X, plate=PLATE)
    assert "data.npz must hold an array X. Got arrays Y, plate." in refusal(tmp_path / "data.npz")
    np.savez(tmp_path / "data.npz", X=PLATE, plate=PLATE)
    assert "X in data.npz must hold numbers with two axes" in refusal(tmp_path / "data.npz")
    frame()[["plate", "drug", "well"]].to_parquet(tmp_path / "data.parquet")
    assert "data.parquet must have numeric columns beside its annotations. Got none." in refusal(
        tmp_path / "data.parquet"
    )
    np.save(tmp_path / "plain.npy", X)
    (tmp_path / "plain.npy").rename(tmp_path / "plain.npz")
    assert "plain.npz must be an archive of arrays" in refusal(tmp_path / "plain.npz")


# ---- text by the rules of tables --------------------------------------------------------------------------------


def text(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["plate,drug,a,b", *lines, ""]))
    return path


def test_lines_of_other_lengths_are_refused_and_never_shifted(tmp_path: Path) -> None:
    path = text(tmp_path / "data.csv", "P1,x,1,2,", "P2,y,3,4,")
    assert refusal(path) == "Every line of data.csv must have 4 cells. Got 5 on line 2."


def test_codes_are_stripped_and_touch_no_label(tmp_path: Path) -> None:
    path = text(tmp_path / "data.csv", "0,None,1, ?", "0,0,0,2", "1,NA,3,4")
    table = read_annotated(path, WANTED, missing=["?", "0"])
    assert table.annotations["plate"].tolist() == ["0", "0", "1"]
    assert table.annotations["drug"].tolist() == ["None", "0", None]
    assert np.isnan(table.x).tolist() == [[False, True], [True, False], [False, False]]
    assert "Counted 2 cells as missing: '?', '0'" in table.notes


def test_a_column_of_numbers_with_a_few_words_is_not_silently_left_out(tmp_path: Path) -> None:
    lines = [f"P{k % 3},x,{k},{'oops' if k == 5 else k}" for k in range(30)]
    assert refusal(text(tmp_path / "data.csv", *lines)) == (
        "Column 'b' of data.csv must hold numbers only, or words only. Got 1 cells such as 'oops' among numbers; count "
        "it as missing with --missing, or choose columns with --features."
    )
    assert read_annotated(tmp_path / "data.csv", WANTED, features=["a"]).names == ("a",)
    assert read_annotated(tmp_path / "data.csv", ("plate", "b")).names == ("a",)
    assert read_annotated(tmp_path / "data.csv", WANTED, missing=["oops"], impute="drop-rows").x.shape == (29, 2)


@pytest.mark.parametrize("ending", [".parquet", ".h5ad", ".npz"])
def test_codes_are_found_in_single_precision(tmp_path: Path, ending: str, monkeypatch: Any) -> None:
    coded = np.where(np.arange(36).reshape(12, 3) == 3, -99.9, X).astype(np.float32)
    monkeypatch.setitem(globals(), "X", coded)
    table = read_annotated(write(tmp_path / f"data{ending}"), WANTED, missing=["-99.9"], impute="mean")
    assert table.x[1, 0] == pytest.approx(np.delete(coded[:, 0], 1).mean())
    assert "Counted 1 cell as missing: '-99.9'" in table.notes


def test_infinite_cells_are_told_of_before_missing_ones_are_filled(tmp_path: Path) -> None:
    path = text(tmp_path / "data.csv", "P1,x,inf,1", "P1,y,,2", "P2,x,3,4")
    assert "must hold finite numbers. Got 1 infinite cell in columns 'a' (1)" in refusal(path, impute="mean")


def test_a_name_that_is_a_column_is_that_column_alone(tmp_path: Path) -> None:
    data = pd.DataFrame({"plate": PLATE, "drug": DRUG, "x1": X[:, 0], "x10": X[:, 1], "y1": X[:, 2]})
    data.to_csv(tmp_path / "data.csv", index=False)
    assert read_annotated(tmp_path / "data.csv", WANTED, features=["x1"]).names == ("x1",)
    assert read_annotated(tmp_path / "data.csv", WANTED, features=["x"]).names == ("x1", "x10")
    data.assign(x10=[*X[1:, 1].astype(str), "oops"]).to_csv(tmp_path / "data.csv", index=False)
    assert read_annotated(tmp_path / "data.csv", WANTED, features=["x1"]).names == ("x1",)
