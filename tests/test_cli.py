"""The command: what it writes, what it says when input is wrong, and that nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_runs import QUICK, assert_refused, noumena, snapshot, write
from command_runs import run as run
from command_runs import table as table

import noumena as nm


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
        "latents.csv",
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


def test_an_existing_run_is_not_overwritten_without_force(table, run):
    before = snapshot(run)
    done = noumena("fit", table / "x.csv", "--latents", 2, "--out", run, *QUICK)
    assert done.returncode == 2
    assert "new or empty folder" in done.stderr
    assert snapshot(run) == before


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
    assert "The fit was interrupted at step" in (out / "report.html").read_text()
    assert json.loads((out / "certificate.json").read_text())["training"]["interrupted"]
    assert (out / "checkpoint.safetensors").exists()


def test_a_small_demo_tells_both_stories(tmp_path):
    done = noumena("demo", "--out", tmp_path / "demo", "--steps", 50)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "demo" / "table.json").read_text())
    assert [row["world"] for row in rows] == ["A", "B"]
    assert rows[0]["world is"] == "identified"
    assert rows[1]["world is"] == "not identified"
    assert rows[1]["fit is"] == "open"  # few dependencies are no evidence with as many observations as latents
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("<svg") >= 10
    assert "World B" in page
