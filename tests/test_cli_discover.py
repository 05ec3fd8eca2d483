"""``noumena discover``: what it writes, and that wrong input is one sentence before anything is written."""

import json

import numpy as np
import pandas as pd
import pytest
from command_runs import assert_refused, here, noumena  # noqa: F401

import noumena as nm

FEW = ["--latents", "2", "--sparsity", "0.05", "--models", "2", "--steps", "30"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(240, 2))
    x = np.c_[z[:, 0], z.sum(axis=1), z[:, 1], z[:, 0] - z[:, 1]] + 0.3 * rng.normal(size=(240, 4))
    frame = pd.DataFrame(x, columns=pd.Index(["pulse", "voice", "gait", "sleep"]))
    frame.insert(0, "who", [f"p{i}" for i in range(240)])
    frame["ill"] = np.where(z[:, 0] > 0, "yes", "no")
    out = tmp_path_factory.mktemp("tables")
    frame.to_csv(out / "x.csv", index=False)
    frame.to_parquet(out / "x.parquet")
    frame[["pulse", "voice", "gait", "sleep"]].sample(frac=1, random_state=0).head(60).to_csv(
        out / "few.csv", index=False
    )
    pd.DataFrame(rng.normal(size=(400, 5))).to_csv(out / "noise.csv", index=False)
    return out


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "first"
    done = noumena("discover", folder / "x.csv", "--names", "who", "--beside", "ill", "--out", out, *FEW)
    assert done.returncode == 0, done.stderr
    return out, done


def test_a_run_holds_latents_by_the_names_of_rows_numbers_and_a_page(run, folder):
    out, done = run
    latents = pd.read_csv(out / "latents.csv", index_col="who")
    assert latents.index.tolist() == [f"p{i}" for i in range(240)]
    told = json.loads((out / "discovery.json").read_text())
    assert [one["name"] for one in told["latents"]] == list(latents.columns)
    assert told["beside"][0].startswith("ill = ")
    assert "found again" in done.stdout
    assert "Latents beside labels" in (out / "report.html").read_text()
    x = pd.read_csv(folder / "x.csv")[["pulse", "voice", "gait", "sleep"]]
    z = pd.DataFrame(nm.load(out).transform(x), columns=pd.Index(["z1", "z2"]))[latents.columns]
    np.testing.assert_allclose(z.to_numpy(), latents.to_numpy(), atol=1e-5)


def test_a_run_is_certified_and_rewritten_by_the_other_commands(run, here):  # noqa: F811
    assert here("certify", run[0]).returncode == 0


def test_of_noise_no_latents_are_claimed(folder, tmp_path, here):  # noqa: F811
    done = here("discover", folder / "noise.csv", "--out", tmp_path / "run", "--json", *FEW)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["latents"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["few.csv"], "100 rows or more"),
        (["x.csv"], "Got column who"),
        (["x.csv", "--names", "whom"], "must name columns of x.csv"),
        (["x.csv", "--names", "who", "--drop", "ill", "--latents", "many"], "--latents must be"),
        (["x.csv", "--names", "who", "--drop", "ill", "--latents", "5..2"], "--latents must be"),
        (["x.csv", "--names", "who", "--drop", "ill", "--sparsity", "much"], "--sparsity must be"),
        (["x.csv", "--names", "who", "--drop", "ill", "--sparsity", "-1"], "--sparsity must be"),
        (["none.csv"], "none.csv"),
        (["x.csv", "--resume"], "--resume needs"),
    ],
)
def test_wrong_input_is_one_sentence_and_nothing_is_written(folder, tmp_path, arguments, said, here):  # noqa: F811
    file, *options = arguments
    sentence = assert_refused(here("discover", folder / file, "--out", tmp_path / "run", *options))
    assert said in sentence or "numbers" in sentence
    assert not (tmp_path / "run").exists()
