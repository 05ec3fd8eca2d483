"""The study of Cell Painting: its questions, its baselines, and one small cell on files of the same layout."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from near import deconfound as study
from noumena.checks import InputError
from noumena.studies import rows as tables
from noumena.studies.study import Study

RESULTS = Path(__file__).parents[2] / "results"
QUICK = {"boosting": {"min_data_in_leaf": 5}, "rotations": 1, "top": (1,), "n_components": 3}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both files with few wells and features; the genes' wells lie at the same places on every plate."""
    draw = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("cellpainting")
    plate, well = np.repeat([f"P{k}" for k in range(4)], 24), np.tile([f"A{k:02d}" for k in range(24)], 4)
    kind, drug = np.tile(["WT", "resistant"], 48), np.tile(np.repeat(["DMSO", "bortezomib"], 12), 4)
    x = draw.normal(size=(96, 6)).astype(np.float32)
    batch = np.where(plate == "P0", "2019_02_15", "2019_11_11")
    extra = {"clone_type": kind, "treatment": drug, "batch": batch, "clone": kind, "dose_nM": np.zeros(96)}
    np.savez(folder / study.FILES["hct116"], X=x, plate=plate, well=well, features=np.arange(6).astype(str), **extra)
    control = np.tile(np.repeat(["negcon", "poscon_cp", "poscon_orf", ""], 6), 4)
    gene = np.where(control == "", np.tile(["GENE1", "GENE2"], 48), "")
    pert = np.where(control == "", "trt", "control")
    extra = {"control_type": control, "gene": gene, "pert_type": pert}
    np.savez(folder / study.FILES["cpjump1"], X=x, plate=plate, well=well, features=np.arange(6).astype(str), **extra)
    return folder


def test_questions_choose_their_wells_and_leave_the_others_without_a_label(files: Path) -> None:
    alike = study.wells("clone, DMSO", files)
    assert set(alike.plate) == {"P1", "P2", "P3"}
    assert [int((alike.label == name).sum()) for name in ("WT", "resistant", "")] == [18, 18, 36]
    assert set(study.wells("clone, all plates", files).plate) == {"P0", "P1", "P2", "P3"}
    assert set(study.wells("drug", files).label) == {"DMSO", "bortezomib"}
    assert int((study.wells("treated", files).label == "trt").sum()) == 24
    single = study.wells("GENE1", files)
    assert [int((single.label == name).sum()) for name in ("GENE1", "negcon", "")] == [12, 24, 60]


def test_a_layout_that_repeats_is_worth_everything_and_a_shuffled_one_nothing(files: Path) -> None:
    table = study.wells("treated", files)
    assert study.position_score(table, "trt", "negcon") == 1
    assert study.position_score(table._replace(well=np.arange(96).astype(str)), "trt", "negcon") == 0.5


def test_cells_ask_every_question_and_every_protocol_and_four_genes_without_any_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(study.VARIABLE, raising=False)
    cells = study.cells()
    assert {cell["question"] for cell in cells} == {*study.QUESTIONS, "ABL1", "ADA", "ADH1C", "ADORA2A"}
    assert {cell["protocol"] for cell in cells} == set(study.PROTOCOLS)
    assert len({tuple(cell.values()) for cell in cells}) == len(cells) == 16


def test_the_committed_rows_are_those_of_all_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(study.VARIABLE, raising=False)
    state = Study(study, RESULTS).state()
    assert (state.cells, state.finished, state.failed, state.missing) == (16, 16, 0, 0)


def test_a_cell_has_one_row_per_condition_and_is_compared_beside_the_published_figures(files: Path) -> None:
    rows = [
        {"question": "treated", "protocol": "ours", **r} for r in study.cell("treated", "ours", data=files, **QUICK)
    ]
    rows += [{"question": "GENE1", "protocol": "ours", **r} for r in study.cell("GENE1", "ours", data=files, **QUICK)]
    assert [row["condition"] for row in rows[:4]] == ["base", "pca", "ica", "random"]
    ica = rows[2]
    assert ica["over pca"] == pytest.approx(ica["auroc"] - rows[1]["auroc"])
    assert ica["over pca low"] <= ica["over pca"] <= ica["over pca high"]
    assert rows[0]["position"] == 1
    assert tables.ERROR not in ica
    text = study.compare(rows)
    assert "RxRx3-core, PLK1           0.803  0.811  0.815      0.792" in text
    assert "1 single genes" in text
    assert f"{ica['auroc']:.3f} [" in text


def test_protocols_reach_the_comparison(files: Path) -> None:
    one = study.cell("treated", "one", data=files, conditions=("base",), **QUICK)
    assert one[0]["folds"] == 4
    assert "removed" not in one[0]
    with pytest.raises(InputError, match="protocol must be one of ours, centred, published, one, few"):
        study.cell("treated", "other", data=files)


def test_without_the_files_the_study_says_so_and_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(study.VARIABLE, raising=False)
    sentences = {study.missing(**cell) for cell in study.cells()}
    assert sentences == {"Cell Painting must be named by the variable NOUMENA_CELLPAINTING. Got nothing."}
    one = Study(study, tmp_path)
    assert (one.state().missing, one.run().rows()) == (16, [])
    with pytest.raises(InputError, match=r"The folder must hold hct116_bortezomib_raw\.npz and"):
        study.folder(tmp_path)
    monkeypatch.setenv(study.VARIABLE, str(tmp_path))
    assert str(study.missing(**study.cells()[0])).startswith("The folder must hold hct116_bortezomib_raw.npz and")


def test_a_study_runs_a_question_on_the_files_that_the_environment_names_once(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(study.VARIABLE, str(files))
    quick = {"rotations": 1, "n_components": 3}
    monkeypatch.setattr(
        study, "cells", lambda: [{"question": q, "protocol": "ours", **quick} for q in ("treated", "GENE1")]
    )
    one, told = Study(study, tmp_path), []
    one.run(only={"question": "treated"}, tell=told.append)
    assert [row["condition"] for row in one.rows()] == ["base", "pca", "ica", "random"]
    one.run(tell=told.append)
    one.run(tell=told.append)
    assert [(p.done, p.all, p.failed) for p in told] == [(1, 1, 0), (1, 1, 0)], "each question once"
    assert "1 single genes" in one.compare()
    assert (one.state().finished, one.state().missing) == (2, 0)


@pytest.mark.skipif(study.VARIABLE not in os.environ, reason=f"{study.VARIABLE} does not name the Cell Painting folder")
def test_the_real_files_hold_the_questions() -> None:
    for question, (_, positive, control) in study.QUESTIONS.items():
        table = study.wells(question)
        assert {positive, control} <= set(table.label)
        assert np.isfinite(table.x).all()
    assert study.position_score(study.wells("treated"), "trt", "negcon") == 1
    with np.load(study.folder() / study.FILES["cpjump1"], allow_pickle=False) as file:
        gene, plate, treated = file["gene"], file["plate"], file["pert_type"] == "trt"
    wells = {g: [int(((gene == g) & (plate == p)).sum()) for p in np.unique(plate)] for g in np.unique(gene[treated])}
    assert tuple(str(g) for g in sorted(wells) if min(wells[g]) >= 2)[:4] == study.GENES
