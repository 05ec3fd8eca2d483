"""The command: what it writes, what it says when input is wrong, and that nothing is lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import noumena as nm
from noumena.cli import main

QUICK = ["--models", "2", "--steps", "20"]


def noumena(*arguments, **options):
    command = [sys.executable, "-c", "from noumena.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 2))
    x = np.c_[z[:, 0], z.sum(axis=1), z[:, 1], z[:, 0] - z[:, 1]] + 0.05 * rng.normal(size=(300, 4))
    folder = tmp_path_factory.mktemp("data")
    frame = pd.DataFrame(x, columns=["pulse", "voice", "gait", "sleep"])
    frame.to_csv(folder / "x.csv", index=False)
    frame.to_parquet(folder / "x.parquet")
    np.save(folder / "x.npy", x)
    np.savez(folder / "x.npz", x=x)
    return folder


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "first"
    done = noumena("fit", table / "x.csv", "--latents", 2, "--out", out, *QUICK)
    assert done.returncode == 0, done.stderr
    return out


def test_help_names_every_verb_and_does_not_import_torch():
    shown = noumena("--help")
    assert shown.returncode == 0
    assert all(verb in shown.stdout for verb in ("demo", "fit", "report"))
    code = "import sys, noumena, noumena.cli; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize("verb", ["demo", "fit", "report"])
def test_every_verb_shows_an_example(verb):
    assert "Example: noumena" in noumena(verb, "--help").stdout


def test_fit_writes_a_complete_run(run):
    names = {p.name for p in run.iterdir()}
    assert names == {
        "config.json",
        "weights.safetensors",
        "history.csv",
        "structure.csv",
        "certificate.json",
        "data.json",
        "report.html",
    }
    model = nm.load(run)
    assert model.structure_.observed == ("pulse", "voice", "gait", "sleep")
    page = (run / "report.html").read_text()
    assert "voice" in page
    assert json.loads((run / "certificate.json").read_text())["observed"][1] == "voice"


@pytest.mark.parametrize("ending", ["npy", "npz", "parquet"])
def test_fit_reads_other_formats_and_speaks_json(table, tmp_path, ending):
    done = noumena("fit", table / f"x.{ending}", "--latents", 2, "--out", tmp_path / "run", "--json", *QUICK)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["latents"]) == 2


@pytest.mark.parametrize("estimator", ["beta-vae", "autoencoder"])
def test_fit_takes_every_estimator(table, tmp_path, estimator):
    done = noumena("fit", table / "x.npy", "--latents", 2, "--estimator", estimator, "--out", tmp_path / "r", *QUICK)
    assert done.returncode == 0, done.stderr


def test_report_rewrites_the_page(run):
    (run / "report.html").unlink()
    done = noumena("report", run)
    assert done.returncode == 0
    assert (run / "report.html").stat().st_size > 10_000
    assert "Certificate of a decoder" in done.stdout


def snapshot(folder: Path) -> dict:
    return {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_an_existing_run_is_not_overwritten_without_force(table, run):
    before = snapshot(run)
    done = noumena("fit", table / "x.csv", "--latents", 2, "--out", run, *QUICK)
    assert done.returncode == 2
    assert "new or empty folder" in done.stderr
    assert snapshot(run) == before


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def bad_files(folder: Path, table: Path) -> dict[str, Path]:
    good = np.load(table / "x.npy")
    broken = {"nan": np.nan, "inf": np.inf}
    for name, value in broken.items():
        spoilt = good.copy()
        spoilt[3, 1] = value
        np.save(folder / f"{name}.npy", spoilt)
    np.save(folder / "vector.npy", good[:, 0])
    np.save(folder / "cube.npy", good[None])
    np.save(folder / "empty.npy", np.zeros((0, 3)))
    np.save(folder / "few.npy", good[:1])
    np.save(folder / "constant.npy", np.c_[good, np.ones(len(good))])
    np.save(folder / "object.npy", np.array([[1, "a"], [None, 2]], dtype=object), allow_pickle=True)
    write(folder / "ragged.csv", "a,b\n1,2\n3\n4,5\n")
    write(folder / "words.csv", "a,b\n1,2\n3,four\n")
    write(folder / "truncated.npz", (table / "x.npz").read_bytes()[:600])
    write(folder / "truncated.parquet", (table / "x.parquet").read_bytes()[:200])
    write(folder / "notes.txt", "1,2\n")
    return {p.name: p for p in folder.iterdir()} | {"missing.npy": folder / "missing.npy", "a folder": folder}


BAD_FILES = [
    "nan.npy", "inf.npy", "vector.npy", "cube.npy", "empty.npy", "few.npy", "constant.npy", "object.npy", "ragged.csv",
    "words.csv", "truncated.npz", "truncated.parquet", "notes.txt", "missing.npy", "a folder",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_one_sentence_and_exit_code_2(name, table, tmp_path):
    files = bad_files(tmp_path, table)
    done = noumena("fit", files[name], "--latents", 2, "--out", tmp_path / "run", *QUICK)
    assert_refused(done)
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--latents", "0"],
        ["--latents", "400"],
        ["--latents", "2", "--estimator", "oracle"],
        ["--latents", "2", "--models", "0"],
        ["--latents", "2", "--steps", "0"],
        ["--latents", "2", "--sparsity", "-1"],
        ["--latents", "2", "--learning-rate", "nan"],
        ["--latents", "2", "--device", "abacus"],
        ["--latents", "2", "--seed", "-1"],
        ["--latents", "2", "--resume"],
    ],
    ids=" ".join,
)
def test_a_bad_option_is_one_sentence_and_exit_code_2(arguments, table, tmp_path):
    assert_refused(noumena("fit", table / "x.npy", "--out", tmp_path / "run", *arguments))
    assert not (tmp_path / "run" / "config.json").exists()


def test_a_word_where_a_number_belongs_is_exit_code_2(table, tmp_path):
    done = noumena("fit", table / "x.npy", "--out", tmp_path / "run", "--latents", "many")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_file_in_the_place_of_the_folder_is_refused(table, tmp_path):
    taken = write(tmp_path / "taken", "mine")
    assert_refused(noumena("fit", table / "x.npy", "--latents", 2, "--out", taken, *QUICK))
    assert_refused(noumena("fit", table / "x.npy", "--latents", 2, "--out", taken / "below", *QUICK))
    assert taken.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/self").exists(), reason="needs a folder nobody can write to")
def test_an_unwritable_folder_is_refused(table):
    assert_refused(noumena("fit", table / "x.npy", "--latents", 2, "--out", "/proc/self/run", *QUICK))


def test_a_folder_that_is_no_run_is_refused_by_report(tmp_path):
    assert_refused(noumena("report", tmp_path))
    write(tmp_path / "config.json", "{")
    assert_refused(noumena("report", tmp_path))


def test_the_demo_keeps_what_is_in_its_folder(tmp_path):
    write(tmp_path / "mine.txt", "mine")
    assert_refused(noumena("demo", "--out", tmp_path))
    assert (tmp_path / "mine.txt").read_text() == "mine"


def assert_refused(done):
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("noumena: ")
    assert lines[0].endswith(".")


def test_divergence_is_exit_code_1_with_advice_and_a_checkpoint(table, tmp_path):
    out = tmp_path / "run"
    done = noumena("fit", table / "x.npy", "--latents", 2, "--out", out, "--learning-rate", 1e18, *QUICK)
    assert done.returncode == 1
    assert "lower learning_rate" in done.stderr
    assert "Traceback" not in done.stderr
    assert (out / "checkpoint.safetensors").exists()


def test_a_fit_killed_three_times_resumes_to_the_same_objective(table, tmp_path):
    arguments = ["--latents", 2, "--models", 2, "--steps", 900, "--batch-size", 64, "--checkpoint-seconds", 0.05]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert noumena("fit", table / "x.npy", "--out", whole, *arguments).returncode == 0
    checkpoint, kills = broken / "checkpoint.safetensors", 0
    for pause in (0.2, 0.4, 0.1):
        resume = ["--resume"] if checkpoint.exists() else []
        command = [
            sys.executable,
            "-c",
            "from noumena.cli import main; main()",
            "fit",
            table / "x.npy",
            "--out",
            broken,
        ]
        process = subprocess.Popen([str(c) for c in [*command, *arguments, *resume]], stderr=subprocess.DEVNULL)
        stamp = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None and not (checkpoint.exists() and checkpoint.stat().st_mtime_ns > stamp):
            time.sleep(0.02)
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills == 3
    assert noumena("fit", table / "x.npy", "--out", broken, *arguments, "--resume").returncode == 0
    objectives = [json.loads((run / "config.json").read_text())["objectives"] for run in (whole, broken)]
    assert objectives[0] == objectives[1]
    assert not checkpoint.exists()


def test_ctrl_c_saves_the_best_so_far_and_says_how_to_go_on(table, tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-c", "from noumena.cli import main; main()", "fit", table / "x.npy", "--out", out]
    options = ["--latents", 2, "--models", 2, "--steps", 100_000, "--checkpoint-seconds", 0.2]
    process = subprocess.Popen(
        [str(c) for c in [*command, *options]],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a test in the background inherits deaf ears
    )
    while process.poll() is None and not (out / "checkpoint.safetensors").exists():
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "--resume" in said
    assert all(line.startswith(("noumena: ", "The best models")) for line in said.strip().splitlines())
    assert "Traceback" not in said
    assert nm.load(out).interrupted_
    assert (out / "checkpoint.safetensors").exists()


def test_a_small_demo_tells_both_stories(tmp_path):
    done = noumena("demo", "--out", tmp_path / "demo", "--steps", 30)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "demo" / "table.json").read_text())
    assert [row["world"] for row in rows] == ["A", "B"]
    assert rows[0]["world is"] == "identified"
    assert rows[1]["world is"] == rows[1]["fit is"] == "not identified"
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("<svg") >= 10
    assert "World B" in page


# ---- certify -------------------------------------------------------------------------------------------------

NESTED = ",age,mood\npulse,1,1\nvoice,0,1\ngait,0,1\nsleep,0,1\n"
GOOD = ",z1,z2\n" + "".join(f"x{i},{row}\n" for i, row in enumerate(["1,0"] * 3 + ["1,1"] * 2 + ["0,1"] * 3, 1))


@pytest.fixture(scope="module")
def structures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("structures")
    contents = {
        "nested": NESTED,
        "good": GOOD,
        "twins": ",z1,z2\nx1,1,1\nx2,1,1\nx3,1,1\n",
        "empty column": ",z1,z2\nx1,1,0\nx2,1,0\n",
        "latents twice": ",z1,z1\nx1,1,0\nx2,1,1\n",
        "observations twice": ",z1,z2\nx1,1,0\nx1,1,1\n",
        "words": ",z1,z2\nx1,1,yes\n",
        "header": ",z1,z2\n",
        "binary": b"\xff\xfe\x00\x01",
        "endless": ',z1\nx1,1\n"' + "y" * 200_000 + "\n",
        "two lines": ',z1\n"x\n1",2\n',
    }
    return {name: write(folder / f"{name}.csv", content) for name, content in contents.items()}


@pytest.fixture
def here(monkeypatch, capsys):
    """The command in this process, where what it imports is there already."""

    def run_here(*arguments):
        monkeypatch.setattr(sys, "argv", ["noumena", *map(str, arguments)])
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        with pytest.raises(SystemExit) as done:
            main()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, done.value.code or 0, said.out, said.err)

    return run_here


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
    done = here("certify", run, "--json", "--out", tmp_path / "out", "--threshold", "0.2")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts == json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert (facts["subject"], facts["observed"]) == ("decoder", ["pulse", "voice", "gait", "sleep"])
    clear = next(h for h in facts["hypotheses"] if h["name"] == "the structure is read off clearly")
    assert clear["evidence"].startswith("threshold 0.200")
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


BAD_STRUCTURES = [
    "empty column", "latents twice", "observations twice", "words", "header", "binary", "endless", "two lines",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_STRUCTURES)
def test_a_bad_structure_is_one_sentence_and_exit_code_2(name, structures, tmp_path, here):
    done = here("certify", structures[name], "--out", tmp_path / "out")
    assert_refused(done)
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


def test_what_is_no_subject_is_refused_by_certify(tmp_path, here):
    missing = here("certify", tmp_path / "missing.csv")
    assert_refused(missing)
    assert "The subject must be a run's folder or a structure's file. Got " in missing.stderr
    assert "missing.csv" in missing.stderr
    assert_refused(here("certify", tmp_path))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--query", "pulse", "--query", "pulse & breath"], "Got 'breath' at character 9"),
        (["--query", "(pulse & voice"], "the end where ')' was expected at character 15"),
        (["--query", ""], "the end where a name was expected at character 1"),
        (["--threshold", "0.1"], "--threshold is for a run"),
    ],
    ids=["unknown name", "no parenthesis", "empty query", "threshold"],
)
def test_a_bad_option_of_certify_is_one_sentence_and_exit_code_2(options, words, structures, tmp_path, here):
    done = here("certify", structures["nested"], "--out", tmp_path / "out", *options)
    assert_refused(done)
    assert words in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


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
