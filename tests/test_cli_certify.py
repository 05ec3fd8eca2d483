"""The command certifies structures and runs, answers queries, and refuses bad files in one sentence."""

import json
import shutil
import subprocess
import sys

import pytest
from command_runs import assert_refused, noumena, snapshot, write
from command_runs import here as here
from command_runs import run as run
from command_runs import table as table

import noumena as nm

NESTED = ",age,mood\npulse,1,1\nvoice,0,1\ngait,0,1\nsleep,0,1\n"
GOOD = ",z1,z2\n" + "".join(f"x{i},{row}\n" for i, row in enumerate(["1,0"] * 3 + ["1,1"] * 2 + ["0,1"] * 3, 1))


@pytest.fixture(scope="module")
def structures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("structures")
    contents = {
        "nested": NESTED,
        "good": GOOD,
        "twins": ",z1,z2\nx1,1,1\nx2,1,1\nx3,1,1\n",
    }
    return {name: write(folder / f"{name}.csv", content) for name, content in contents.items()}


def test_certify_says_what_can_be_trusted_about_a_structure(structures):
    done = noumena("certify", structures["nested"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n") == str(nm.certify(structures["nested"]))
    assert "age: not identified" in done.stdout
    assert done.stderr == ""
    assert "Identified up to order" in noumena("certify", structures["good"]).stdout


def test_certify_speaks_json(structures):
    done = noumena("certify", structures["nested"], "--json")
    assert json.loads(done.stdout) == nm.certify(structures["nested"]).to_dict()


def test_certify_demands_independence_when_asked(structures, here):
    free, independent = (
        json.loads(here("certify", structures["twins"], "--json", *options).stdout)
        for options in ([], ["--independent"])
    )
    assert free["pairs"][0]["kind"] == "shear"
    assert independent == nm.certify(structures["twins"], independent=True).to_dict()
    assert independent["pairs"][0]["kind"] == "rotation"


def test_certify_reads_a_structure_by_the_theorems_asked_for(structures, tmp_path, here):
    found = nm.certify(structures["good"], by="mechanisms")
    asked = ("certify", structures["good"], "--by", "mechanisms")
    assert here(*asked).stdout.rstrip("\n") == str(found)
    assert json.loads(here(*asked, "--json", "--out", tmp_path / "page").stdout) == found.to_dict()
    page = (tmp_path / "page" / "report.html").read_text()
    assert found.headline in page
    assert "What is pinned down" in page
    assert_refused(here("certify", structures["good"], "--by", "faith"))
    assert_refused(here(*asked, "--query", "x1"))


def test_certify_answers_every_query_in_order(structures, here):
    queries = ["pulse - voice", "pulse | voice", "pulse - pulse"]
    options = [word for text in queries for word in ("--query", text)]
    certificate = nm.certify(structures["nested"])
    done = here("certify", structures["nested"], *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{text}: {certificate.query(text)}" for text in queries]
    answered = json.loads(here("certify", structures["nested"], "--json", *options).stdout)
    assert answered == {"queries": [{"query": text, **certificate.query(text).to_dict()} for text in queries]}
    assert [a["answer"] for a in answered["queries"]] == ["not identified", "block-identified", "empty"]


def test_certify_writes_a_page_and_a_certificate_and_overwrites_nothing_unasked(structures, tmp_path, here):
    out = tmp_path / "deep" / "out"
    done = here("certify", structures["nested"], "--out", out, "--query", "pulse - voice")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"The certificate and its page are in {out}\n")
    assert sorted(p.name for p in out.iterdir()) == ["certificate.json", "report.html"]
    assert json.loads((out / "certificate.json").read_text()) == nm.certify(structures["nested"]).to_dict()
    page = (out / "report.html").read_text()
    assert all(words in page for words in ("What can be trusted", "pulse - voice", "Hypotheses and evidence", "<svg"))

    before = snapshot(out)
    assert_refused(here("certify", structures["good"], "--out", out))
    assert snapshot(out) == before
    done = here("certify", structures["good"], "--out", out, "--force", "--json")
    assert json.loads(done.stdout) == json.loads((out / "certificate.json").read_text())
    assert json.loads(done.stdout)["answer"] == "identified"
    assert "What can be trusted" in (out / "report.html").read_text()


def test_certify_reads_a_run(run, tmp_path, here):
    before = snapshot(run)
    done = here("certify", run, "--json", "--out", tmp_path / "out", "--threshold", "0.99")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts == json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert (facts["subject"], facts["observed"]) == ("decoder", ["pulse", "voice", "gait", "sleep"])
    zeros = next(h for h in facts["hypotheses"] if h["name"] == "zeros are exact")
    assert "below the threshold 0.990" in zeros["evidence"]
    assert snapshot(run) == before
    told = here("certify", run, "--query", "voice & gait")
    assert told.stdout.startswith("voice & gait: {")


def test_certify_keeps_the_checkpoint_of_an_interrupted_run(run, tmp_path, here):
    interrupted = tmp_path / "run"
    shutil.copytree(run, interrupted)
    write(interrupted / "checkpoint.safetensors", "half of a run")
    refused = here("certify", interrupted, "--out", interrupted)
    assert_refused(refused)
    assert "--resume" not in refused.stderr  # fit's option
    assert here("certify", interrupted, "--out", interrupted, "--force").returncode == 0
    assert (interrupted / "checkpoint.safetensors").read_text() == "half of a run"


@pytest.mark.parametrize("threshold", ["-1", "nan"])
def test_a_threshold_must_be_a_positive_number(run, threshold, here):
    assert_refused(here("certify", run, "--threshold", threshold))


@pytest.mark.parametrize("options", [[], ["--json", "--independent"], ["--query", "pulse - voice"]], ids=" ".join)
def test_a_structure_is_certified_without_torch(structures, options):
    code = "import sys, noumena.cli as c\ntry: c.main()\nfinally: print('torch' in sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", code, "certify", structures["nested"], *options]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "False\n")
    assert done.stdout != ""


def test_certify_shows_an_example():
    assert "Example: noumena certify" in noumena("certify", "--help").stdout
    assert "certify" in noumena("--help").stdout
