"""The overlap study: pure cells, rows that accumulate and resume, a comparison beside what was published."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from noumena.checks import InputError
from noumena.studies.mechanisms import overlap
from noumena.studies.mechanisms.overlap import ABLATION, KEY, METHODS, cell, cells, compare, run


def test_a_cell_is_a_tidy_row_and_pure() -> None:
    row = cell(2, 0.25, "ours", 0, tiny=True)
    again = cell(2, 0.25, "ours", 0, tiny=True)
    assert {k: v for k, v in row.items() if k != "seconds"} == {k: v for k, v in again.items() if k != "seconds"}
    assert (row["study"], row["n_slots"], row["overlap"], row["seed"]) == ("mechanisms/overlap", 2, 0.25, 0)
    assert row["sis_truth"] > 0.85
    assert -1 <= row["sis"] < row["sis_truth"]
    assert row["sis_pca"] < 0.6
    assert 0.5 < row["reconstruction"] < 1
    assert row["seconds"] > 0


def test_methods_differ_as_they_say() -> None:
    world = overlap.overlapping(2, overlap=0.25)
    ours, weak, strong, ours_but = (
        overlap._model(world, m, 0, False).get_params() for m in ("ours", METHODS[0], METHODS[1], ABLATION)
    )
    assert weak["scale"] == strong["scale"] == "free"
    assert weak["encoder"].hidden == (80, 80, 80)
    assert weak["training__learning_rate"] == 1e-3
    assert weak["penalty"].terms[0][0] == pytest.approx(0.01 * 35)
    assert strong["penalty"].terms[0][0] == pytest.approx(35)
    assert ours_but["penalty"] == weak["penalty"]
    for name in ("n_models", "training__steps", "training__batch_size", "random_state"):
        assert ours[name] == weak[name] == strong[name] == ours_but[name]
    for name in ("scale", "encoder", "training__learning_rate"):
        assert ours[name] == ours_but[name]


def test_the_grid_has_every_method_at_every_world() -> None:
    grid = cells()
    assert len(set(grid)) == len(grid) == 3 * 4 * 3 * 5 + 4 * 5
    assert {m for n, o, m, s in grid if (n, o, s) == (5, 0.75, 4)} == set(METHODS)


def test_rows_are_appended_and_a_finished_cell_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fake(n_slots: int, overlap: float, method: str, seed: int, *, tiny: bool) -> dict:
        calls.append((n_slots, overlap, method, seed))
        return {**dict(zip(KEY, calls[-1], strict=True)), "sis": 0.5, "sis_pca": 0.1, "sis_truth": 1.0, "seconds": 60.0}

    monkeypatch.setattr(overlap, "cell", fake)
    grid = [(2, 0.25, "ours", 0), (2, 0.25, "contrast 1", 0), (3, 0.0, "ours", 1)]
    out = tmp_path / "rows.csv"
    assert len(run(1, out, grid=grid[:1])) == 1
    rows = run(1, out, grid=grid)
    assert len(rows) == 3
    assert calls == grid
    assert len(run(1, out, grid=grid)) == len(calls) == 3


def test_the_comparison_shows_means_over_seeds_beside_the_published_words() -> None:
    rows = pd.DataFrame(
        [
            {
                "n_slots": 2,
                "overlap": o,
                "method": m,
                "seed": s,
                "sis": sis,
                "sis_pca": 0.25,
                "sis_truth": 0.98,
                "seconds": 30,
            }
            for o, m, s, sis in [(0.0, "ours", 0, 0.9), (0.0, "ours", 1, 0.8), (0.5, "contrast 1", 0, 0.4)]
        ]
    )
    shown = compare(rows)
    assert "0.850 ± 0.050" in shown
    assert "0.400 ± 0.000" in shown
    assert "0.250" in shown
    assert "0.980" in shown
    assert "3 cells, 1.5 minutes" in shown
    assert overlap.PUBLISHED in shown


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(InputError, match=r"method must be one of contrast 0\.01, contrast 1, ours"):
        cell(2, 0.0, "magic", 0)
