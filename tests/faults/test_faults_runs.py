"""Kills, full disks, damaged files and two writers lose nothing: a share of benchmarks/faults.py."""

from __future__ import annotations

import sys
from pathlib import Path

import children
import numpy as np
import pytest

import faults
from noumena.checks import InputError
from noumena.estimators.checkpoint import Checkpoint

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and limits the size of files")


@pytest.mark.slow
@pytest.mark.parametrize("name", faults.FAULTS)
@pytest.mark.filterwarnings("ignore")
def test_nothing_is_lost_by(name: str) -> None:
    assert faults.tried(name, 3) == (3, 3)


def test_a_child_that_raises_is_told_from_one_that_does_not() -> None:
    assert children.ended(children.in_a_child(lambda: None)) == 0
    assert children.full_disk(lambda: Path("/dev/null").write_text("much"), 10) == 0
    assert children.full_disk(lambda: Path("/tmp").joinpath("missing", "x").write_text(""), 10) == 3


def test_a_run_of_other_numbers_is_not_taken_for_the_same(tmp_path: Path) -> None:
    one, two = faults.fitted(0), faults.fitted(1)
    assert not np.array_equal(one.transform(faults.X), two.transform(faults.X))
    faults.nm.save(one, tmp_path)
    assert faults.read_as(tmp_path, [two, one])
    assert not faults.read_as(tmp_path, [two])
    assert not faults.read_as(tmp_path / "none", [one])


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00" * 100, b"PK\x03\x04"])
def test_a_checkpoint_of_something_else_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"^A checkpoint must be a complete safetensors file. Got [^\n]*\.$"):
        Checkpoint.load(path, "f")


@pytest.mark.parametrize("content", ["[]", "3", "{}", "{", "null", "[" * 100_000, '{"estimator": "VAE"}'])
def test_a_config_of_something_else_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(InputError, match=r"^[^\n]* Got [^\n]*\.$"):
        faults.nm.load(tmp_path)
