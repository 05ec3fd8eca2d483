"""``noumena fit`` on a stranger's file: what is refused, what is done on request, and that it is said and kept."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_runs import here as here

import noumena as nm

QUICK = ["--latents", "2", "--models", "1", "--steps", "4", "--batch-size", "16"]


@pytest.fixture
def fit(here, tmp_path):
    """``noumena fit`` in this process, into the folder ``run``."""
    return lambda data, *options, quick=QUICK: here("fit", data, "--out", tmp_path / "run", *quick, *options)


def frame(rows: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(rows, 3)), columns=["pulse", "voice", "x 3"])
    table.insert(0, "id", [f"p{k}" for k in range(rows)])
    table["batch"] = ["A", "B"] * (rows // 2)
    table["site"] = 7
    table.loc[[1, 4], "pulse"] = np.nan
    table.loc[9, "voice"] = np.nan
    return table


@pytest.fixture
def messy(tmp_path) -> Path:
    frame().to_csv(tmp_path / "own.csv", index=False)
    return tmp_path / "own.csv"


def refused(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    return line.removeprefix("noumena: ")


def test_every_refusal_says_the_option_that_comes_next(fit, messy, tmp_path):
    asked = []
    for sentence, option in [
        (
            "Column 'id' of own.csv must hold numbers only. Got words, such as 'p0' on line 2; "
            "leave it out with --drop id.",
            ["--drop", "id"],
        ),
        (
            "Column 'batch' of own.csv must hold numbers only. Got words, such as 'A' on line 2; "
            "leave it out with --drop batch.",
            ["--drop", "id,batch"],
        ),
        (
            "own.csv must have no missing cells, or --impute must say what becomes of them (mean, median, drop-rows, "
            "drop-columns). Got 3 missing cells in 2 of 4 columns: 'pulse' (2), 'voice' (1), the first at row 1 of "
            "column 'pulse'.",
            ["--drop", "id,batch", "--impute", "median"],
        ),
        (
            "Every column of own.csv must vary, or --drop-constant must leave out those that do not. Got constant "
            "column 'site'.",
            ["--drop", "id,batch", "--impute", "median", "--drop-constant"],
        ),
    ]:
        assert refused(fit(messy, *asked)) == sentence
        assert not (tmp_path / "run").exists()
        asked = option
    done = fit(messy, *asked)
    assert done.returncode == 0, done.stderr
    told = [
        "Left out 2 of 6 columns as asked: 'id', 'batch'.",
        "Filled 3 missing cells with the median of their column: 'pulse' (2), 'voice' (1).",
        "Left out 1 constant column: 'site'.",
    ]
    assert done.stderr.splitlines()[:3] == told
    kept = json.loads((tmp_path / "run" / "data.json").read_text())
    assert kept == {
        "file": "own.csv", "rows": 40, "columns": 3, "names": ["pulse", "voice", "x 3"], "standardised": True,
        "done": told,
    }  # fmt: skip
    assert nm.load(tmp_path / "run").structure_.observed == ("pulse", "voice", "x 3")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Filled 3 missing cells with the median of their column: &#39;pulse&#39; (2)" in page


def test_columns_are_taken_by_name_and_number_in_the_order_asked_for(fit, messy, tmp_path):
    done = fit(messy, "--columns", "x 3,2", "--impute", "drop-rows", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["observed"] == ["x 3", "voice"]
    kept = json.loads((tmp_path / "run" / "data.json").read_text())
    assert (kept["rows"], kept["names"]) == (39, ["x 3", "voice"])
    assert kept["done"][1] == "Left out 1 of 40 rows for 1 missing cell: 'voice' (1)."


def test_not_standardising_reaches_the_model_and_the_record(fit, tmp_path):
    np.save(tmp_path / "x.npy", 5 + frame()[["x 3"]].to_numpy() @ np.array([[1.0, 2.0]]))
    assert fit(tmp_path / "x.npy", "--no-standardise").returncode == 0
    model = nm.load(tmp_path / "run")
    assert model.standardise is False
    assert bool((model.models_[0].mean == 0).all())
    kept = json.loads((tmp_path / "run" / "data.json").read_text())
    assert (kept["standardised"], kept["names"], kept["done"]) == (False, None, [])


def test_a_name_that_a_shell_would_split_is_quoted_in_the_advice(fit, tmp_path):
    pd.DataFrame({"a": np.arange(20.0), 'b, "c"': ["u", "v"] * 10}).to_csv(tmp_path / "own.csv", index=False)
    said = refused(fit(tmp_path / "own.csv"))
    assert said.endswith("""leave it out with --drop '"b, ""c\"""'.""")
    done = fit(tmp_path / "own.csv", "--drop", '"b, ""c"""', quick=["--latents", "1", "--models", "1", "--steps", "2"])
    assert done.returncode == 0, done.stderr


def test_a_refused_fit_leaves_a_folder_that_can_be_used_again(fit, messy):
    tidy = ["--drop", "id,batch", "--impute", "mean", "--drop-constant"]
    assert "at least as many rows as latents" in refused_last(fit(messy, *tidy, "--latents", "400"))
    assert fit(messy, *tidy).returncode == 0


def refused_last(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 2, done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.slow
def test_the_page_is_rewritten_with_what_was_done_and_a_damaged_record_is_refused(fit, messy, tmp_path, monkeypatch):
    assert fit(messy, "--columns", "1,2", "--impute", "drop-rows").returncode == 0
    run = tmp_path / "run"
    (run / "report.html").unlink()
    again = [sys.executable, "-c", "from noumena.cli import main; main()", "report", str(run)]
    assert subprocess.run(again, capture_output=True).returncode == 0
    assert "Left out 3 of 40 rows for 3 missing cells" in (run / "report.html").read_text()
    (run / "data.json").write_text('{"done": 3}')
    done = subprocess.run(again, capture_output=True, text=True)
    assert refused(done) == f"The data.json of a run must be complete JSON with a list 'done'. Got {run / 'data.json'}."


def test_an_occupied_folder_is_refused_before_the_data_are_read(fit, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    done = fit(tmp_path / "no such file.csv")
    assert done.returncode == 2
    assert "--out must be a new or empty folder" in done.stderr


def test_the_latents_of_every_row_are_written_and_told_of(fit, messy, tmp_path, monkeypatch):
    monkeypatch.setattr("noumena.cli.run_files.CHUNK", 7)
    done = fit(messy, "--columns", "1,2,3", "--impute", "mean")
    assert done.returncode == 0, done.stderr
    run = tmp_path / "run"
    assert done.stdout.endswith(f"the page is {run / 'report.html'}, the latents are {run / 'latents.csv'}\n")
    model, x = nm.load(run), frame()[["pulse", "voice", "x 3"]]
    latents = pd.read_csv(run / "latents.csv")
    assert list(latents.columns) == list(model.get_feature_names_out())
    np.testing.assert_allclose(latents, model.transform(x.fillna(x.mean())), rtol=1e-5, atol=1e-6)


def test_more_rows_than_can_be_written_leave_no_latents(fit, messy, tmp_path, monkeypatch):
    monkeypatch.setattr("noumena.cli.run_files.MOST", 39)
    done = fit(messy, "--columns", "1,2,3", "--impute", "mean")
    assert done.stdout.endswith("report.html\n")
    assert not (tmp_path / "run" / "latents.csv").exists()


def test_force_leaves_nothing_of_the_run_before_but_what_is_not_of_a_run(fit, messy, tmp_path):
    run = tmp_path / "run"
    assert fit(messy, "--columns", "1,2,3", "--impute", "mean").returncode == 0
    for name in ("swaps.png", "traversals.png", "mine.txt"):
        (run / name).write_text("old")
    refused_last(fit(messy, "--force"))
    assert (run / "swaps.png").exists()  # what is refused has written nothing
    x = np.random.default_rng(0).integers(0, 255, (20, 1, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "x.npy", x[:, 0].reshape(20, 64))
    assert fit(tmp_path / "x.npy", "--force").returncode == 0
    assert {p.name for p in run.iterdir()} == {
        "config.json", "weights.safetensors", "history.csv", "structure.csv", "certificate.json", "report.html",
        "data.json", "latents.csv", "mine.txt",
    }  # fmt: skip
    assert "Filled" not in (run / "report.html").read_text()


def test_a_fit_refused_late_leaves_no_folder(fit, messy, tmp_path):
    assert refused_last(fit(messy, "--columns", "3", "--latents", "400"))
    assert not (tmp_path / "run").exists()


def test_options_on_text_reach_the_reader(fit, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{a:.3f};{b:.3f};{c:.3f}".replace(".", ",") for a, b, c in rng.normal(size=(20, 3))]
    (tmp_path / "own.csv").write_text("\n".join(["400;410;420", *lines, "?;-999;1,5"]))
    asked = ["--sep", ";", "--decimal", ",", "--header", "--missing", "?,-999", "--impute", "median"]
    done = fit(tmp_path / "own.csv", *asked)
    assert done.returncode == 0, done.stderr
    kept = json.loads((tmp_path / "run" / "data.json").read_text())
    assert (kept["rows"], kept["names"]) == (21, ["400", "410", "420"])
    assert kept["done"][0] == "Counted 2 cells as missing: '?', '-999'."
    assert refused(fit(tmp_path / "own.csv", "--image", "--no-header", "--force")) == (
        "Options on columns must come without --image. Got --header."
    )


def test_what_is_not_said_is_as_in_vae(fit, tmp_path):
    pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["a", "b", "c"]).to_csv(
        tmp_path / "own.csv", index=False
    )
    done = fit(tmp_path / "own.csv", quick=["--latents", "2", "--steps", "2"])
    assert done.returncode == 0, done.stderr
    found, expected = nm.load(tmp_path / "run"), nm.VAE(2, training=nm.Training(steps=2), random_state=0)
    assert found.get_params() | {"training": None} == expected.get_params() | {"training": None}
    assert repr(found.training) == repr(expected.training)
