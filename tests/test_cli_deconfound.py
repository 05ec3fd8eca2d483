"""The command ``noumena deconfound``: what it writes and says, and every refusal in one sentence with exit code 2."""

import json

import numpy as np
import pandas as pd
import pytest
from command_runs import here as here

QUICK = ["--rotations", "1", "--leaf", "5"]


@pytest.fixture
def noumena(here):
    """The command in this process: exit code, standard output, standard error."""

    def run(*arguments):
        done = here(*arguments)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(120, 3))
    drug = np.where(x[:, 0] > 0, "bortezomib", "DMSO")
    frame = pd.DataFrame(x, columns=["Cells_a", "Cells_b", "Nuclei_a"])
    frame = frame.assign(plate=np.repeat(["P1", "P2", "P3"], 40), drug=drug, tied=np.repeat(["u", "v", "v"], 40))
    frame = frame.assign(Nuclei_still=1.0)
    path = tmp_path_factory.mktemp("data") / "profiles.csv"
    frame.to_csv(path, index=False)
    return path


def test_the_page_and_the_result_are_written_and_told(noumena, data, tmp_path):
    out = tmp_path / "out"
    asked = [data, "--batch", "plate", "--label", "drug", *QUICK]
    code, said, _ = noumena("deconfound", *asked, "--out", out, "--remove-batch")
    assert code == 0
    assert "bortezomib against DMSO, 120 rows in 3 batches, 3 folds" in said
    assert "ICA adds an AUROC of" in said
    assert "Columns left out: tied." in said
    assert "Constant features are left out: Nuclei_still." in said
    assert {p.name for p in out.iterdir()} == {"deconfounding.json", "report.html"}
    kept = json.loads((out / "deconfounding.json").read_text())
    assert kept["scores"][0]["removed"] is not None
    code, _, error = noumena("deconfound", *asked, "--out", out)
    assert code == 2
    assert "use --force to write into it" in error


def test_json_carries_the_whole_result_and_the_options_reach_it(noumena, data):
    code, said, _ = noumena(
        "deconfound", data, "--batch", "plate", "--label", "drug", "--positive", "bortezomib", "--control", "DMSO",
        "--features", "Cells_", "--components", 2, "--folds", 2, "--centre", "--seed", 3, "--json", *QUICK,
    )  # fmt: skip
    assert code == 0
    found = json.loads(said)
    assert found["question"].startswith("bortezomib against DMSO")
    assert [score["features"] for score in found["scores"]] == [2, 2, 2, 2]
    assert len(found["held out"]) == 2
    assert found["settings"]["centre"] is True
    assert found["settings"]["seed"] == 3
    assert found["settings"]["rotations"] == 1
    assert found["settings"]["boosting"]["min_data_in_leaf"] == 5
    assert found["data"] == ["Columns left out: tied", "2 features: Cells_a, Cells_b"]


def test_packed_text_of_another_country_with_coded_holes_gives_what_the_plain_file_gives(noumena, data, tmp_path):
    frame = pd.read_csv(data, float_precision="round_trip")
    wanted = ["--batch", "plate", "--label", "drug", "--json", *QUICK]
    path = tmp_path / "profiles.tsv.gz"
    frame.to_csv(path, index=False, sep=";", decimal=",")
    given = ["--sep", ";", "--decimal", ","]
    plain, packed = (noumena("deconfound", *asked, *wanted)[1] for asked in ([data], [path, *given]))
    assert json.loads(packed) == json.loads(plain)
    frame["Cells_a"] = [str(cell).replace(".", ",") for cell in frame["Cells_a"]]
    frame.loc[[3, 50], "Cells_a"] = ["?", "-999"]
    frame.to_csv(path, index=False, sep=";", decimal=",")
    code, said, error = noumena("deconfound", path, *given, *wanted, "--missing", "?,-999", "--impute", "drop-rows")
    assert (code, error) == (0, "")
    assert "Left out 2 of 120 rows for 2 missing cells: 'Cells_a' (2)" in json.loads(said)["data"]
    code, _, error = noumena("deconfound", path, *given, *wanted, "--missing", "?,-999")
    assert code == 2
    assert "Got 2 in columns 'Cells_a' (2)" in error


def test_help_shows_an_example(noumena):
    code, said, _ = noumena("deconfound", "--help")
    assert code == 0
    assert "Example: noumena deconfound profiles.csv" in said
