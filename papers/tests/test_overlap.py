"""The overlap study: pure cells, a grid, a comparison beside what was published."""

from __future__ import annotations

import pytest

from mechanisms import overlap
from mechanisms.overlap import ABLATION, METHODS, cell, cells, compare
from noumena.checks import InputError
from noumena.studies.rows import matching


def test_a_cell_is_a_tidy_row_and_pure() -> None:
    row = cell(2, 0.25, "ours", 0, tiny=True)
    again = cell(2, 0.25, "ours", 0, tiny=True)
    assert row == again
    assert row["sis_truth"] > 0.85
    assert -1 <= row["sis"] < row["sis_truth"]
    assert row["sis_pca"] < 0.6
    assert 0.5 < row["reconstruction"] < 1


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
    assert len({tuple(c.values()) for c in grid}) == len(grid) == 3 * 4 * (3 * 5 + 3)
    there = {"n_slots": 5, "overlap": 0.75}
    assert {c["method"] for c in matching(grid, **there, seed=4)} == set(METHODS)
    assert {c["method"] for c in matching(grid, **there, seed=2)} == {*METHODS, ABLATION}


def test_the_comparison_shows_means_over_seeds_beside_the_published_words() -> None:
    shared = {"n_slots": 2, "sis_pca": 0.25, "sis_truth": 0.98}
    found = [(0.0, "ours", 0.9), (0.0, "ours", 0.8), (0.5, "contrast 1", 0.4), (0.5, "ours", 0.7)]
    shown = compare(
        [{**shared, "overlap": o, "method": m, "seed": k, "sis": sis} for k, (o, m, sis) in enumerate(found)]
    )
    lines = {tuple(line.split()[:2]): line for line in shown.splitlines()}
    assert "0.850 ± 0.071 (2)" in lines["2", "0%"]
    assert "0.400 (1)" in lines["2", "50%"]
    assert "0.250 (1)" in lines["2", "50%"]
    assert "0.980 (1)" in lines["2", "50%"]
    assert overlap.PUBLISHED in shown


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(InputError, match=r"method must be one of contrast 0\.01, contrast 1, ours"):
        cell(2, 0.0, "magic", 0)
