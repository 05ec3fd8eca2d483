"""The command in another process, a table in every format, and a run fitted to it."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

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


@pytest.fixture
def here(monkeypatch, capsys):
    """The command in this process, where what it imports is there already."""

    def run(*arguments):
        from noumena.cli import main

        monkeypatch.setattr(sys, "argv", ["noumena", *map(str, arguments)])
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        with pytest.raises(SystemExit) as done:
            main()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, done.value.code or 0, said.out, said.err)

    return run


def snapshot(folder: Path) -> dict:
    return {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def assert_refused(done):
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("noumena: ")
    assert lines[0].endswith(".")
    return lines[0].removeprefix("noumena: ")
