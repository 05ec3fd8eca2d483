"""A run on disk is of one fit, or refused; what cannot be kept is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from torch import nn

import noumena as nm
from noumena.checks import InputError

X = np.random.default_rng(0).normal(size=(40, 3))


def fitted(seed: int):
    return nm.VAE(2, training=nm.Training(steps=3), n_models=1, random_state=seed).fit(X)


@pytest.mark.parametrize("name", ["weights.safetensors", "history.csv"])
def test_files_of_two_fits_are_not_taken_for_one(tmp_path: Path, name: str) -> None:
    for seed in (0, 1):
        nm.save(fitted(seed), tmp_path / f"{seed}")
    (tmp_path / "0" / name).write_bytes((tmp_path / "1" / name).read_bytes())
    with pytest.raises(InputError, match=f"files of one fit. Got another {name} than .* was saved with"):
        nm.load(tmp_path / "0")


def test_a_failed_save_leaves_the_run_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nm.save(fitted(0), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("noumena.structure.Structure.to_csv", full)
    with pytest.raises(OSError, match="No space left"):
        nm.save(fitted(1), tmp_path, force=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_run_of_the_first_version_without_digests_is_read(tmp_path: Path) -> None:
    model = fitted(0)
    nm.save(model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["files"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert np.array_equal(nm.load(tmp_path).transform(X), model.transform(X))


def test_an_edited_structure_does_not_keep_a_run_from_being_read(tmp_path: Path) -> None:
    nm.save(fitted(0), tmp_path)
    (tmp_path / "structure.csv").write_text("mine")
    assert nm.load(tmp_path).n_features_in_ == 3


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_a_builder_whose_layers_look_at_the_whole_batch_is_refused(role: str) -> None:
    def build(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(inputs, 4), nn.BatchNorm1d(4), nn.Linear(4, outputs))

    with pytest.raises(InputError, match=rf"Layers of the {role} must treat rows one by one; .* Got BatchNorm1d\."):
        nm.VAE(2, **{role: build}, training=nm.Training(steps=2)).fit(X)


@pytest.mark.parametrize("renamed", [1, 2, 3])
def test_a_writer_that_dies_while_it_changes_names_is_finished_by_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renamed: int
) -> None:
    old, new = fitted(0), fitted(1)
    nm.save(old, tmp_path)
    replace, done = Path.replace, []

    def dies(self: Path, target: Path) -> Path:
        done.append(target)
        if len(done) > renamed:
            raise SystemExit
        return replace(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", dies)
        patched.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(SystemExit):
            nm.save(new, tmp_path, force=True)
    assert np.array_equal(nm.load(tmp_path).transform(X), new.transform(X))
    assert not list(tmp_path.glob("*.part"))


def test_what_a_writer_began_but_never_renamed_is_left_alone(tmp_path: Path) -> None:
    old = fitted(0)
    nm.save(old, tmp_path)
    nm.save(fitted(1), tmp_path / "other")
    for name in ("weights.safetensors", "history.csv", "structure.csv", "config.json"):
        (tmp_path / f"{name}.7.part").write_bytes((tmp_path / "other" / name).read_bytes())
    assert np.array_equal(nm.load(tmp_path).transform(X), old.transform(X))
