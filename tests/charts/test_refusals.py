"""What cannot be drawn is refused in one sentence, and nothing is imported or kept that a chart does not need."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from noumena import charts
from noumena.checks import InputError

Z = np.random.default_rng(0).normal(size=(9, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: charts.correlations([[1.5]], rows=["a"], columns=["b"]), r"lie in \[0, 1\]\. Got 0 to 1\.5"),
        (lambda: charts.correlations([[0.5]], rows=["a", "b"], columns=["b"]), "values must have shape"),
        (lambda: charts.heatmap([[1.0]], rows=["a", "b"], columns=["a", "b"]), "values must have shape"),
        (lambda: charts.heatmap([[1.0]], rows="a", columns="b", shares=[1.0]), "shares must have shape"),
        (lambda: charts.structure([[2]], observed=["x"], latent=["z"]), "only 0 and 1"),
        (lambda: charts.structure([[1]], observed=["x"], latent=["z"], answers=["maybe"]), "answer must be one of"),
        (lambda: charts.structure([[1]], observed=["x"], latent=["z"], answers=[]), "one answer per latent"),
        (lambda: charts.structure([[1]], observed="x", latent="z", strength=[1.0]), "strength must have shape"),
        (lambda: charts.history([0, 1], [[1.0]], best=0), "history needs steps"),
        (lambda: charts.history([0], [[1.0]], best=1), "best must be below 1"),
        (lambda: charts.levels([]), "at least one row"),
        (lambda: charts.levels([charts.LevelRow("a", 1.0)], ax="a"), "ax must be axes of matplotlib. Got str"),
        (lambda: charts.strips({}), "at least one group"),
        (lambda: charts.strips({"a": [1]}, lo=1, hi=1), "lo must be below hi"),
        (lambda: charts.strips({"a": [1]}, marked={"b": 1}), "marked name must be a group"),
        (lambda: charts.pairs(np.ones((3, 2)), np.ones((3, 1)), names=["a", "b"]), "share one shape"),
        (lambda: charts.pairs(np.ones((3, 2)), np.ones((3, 2)), names=["a"]), "must be 2 names"),
        (lambda: charts.pairs(np.ones((3, 1)), np.ones((3, 1)), names=["a"], most=0), "most must be"),
        (lambda: charts.overlay(Z, Z[:5], target="a", source="b"), r"share one shape \(batch, 2\)"),
        (lambda: charts.overlay(Z, Z * np.nan, target="a", source="b"), "must be finite to be drawn"),
        (lambda: charts.competitor(Z[:, :1], Z, Z, names="ab"), r"z must have two columns.* Got shape \(9, 1\)\."),
        (lambda: charts.competitor(Z, np.ones((9, 3)), Z, names="ab"), "z_hat must have two columns"),
        (lambda: charts.competitor(Z, Z, Z[0], names="ab"), "x must have two axes"),
        (lambda: charts.competitor(Z, Z[:5], Z, names="ab"), "z and z_hat must share their batch axis"),
        (lambda: charts.competitor(Z, Z, Z[:5], names="ab"), "z and x must share their batch axis"),
        (lambda: charts.competitor(Z * np.nan, Z, Z, names="ab"), "z must be finite"),
        (lambda: charts.competitor(Z, Z, Z, names=["a"]), r"There must be two names of latents\. Got 1\."),
        (lambda: charts.competitor(Z, Z, Z, names="ab", x_names=["x"]), "There must be two names of observations"),
        (lambda: charts.over_gaps([1, 2], [0.5], y_label="y"), r"must share one shape \(n,\)\. Got shapes \(2,\) and"),
        (lambda: charts.over_gaps([[1]], [[0.5]], y_label="y"), "must share one shape"),
        (lambda: charts.over_gaps([], [], y_label="y"), "must share one shape"),
        (lambda: charts.over_gaps([1, 0.5], [0, 1], y_label="y"), r"Every gap must be a whole number\. Got 0\.5\."),
        (lambda: charts.over_gaps([None], [0], y_label="y"), r"Every gap must be a whole number\. Got nan\."),
        (lambda: charts.over_gaps([1], [1.2], y_label="y"), r"Scores must lie in \[0, 1\]\. Got 1\.2 to 1\.2\."),
        (lambda: charts.over_gaps([1], [-0.2], y_label="y"), r"Scores must lie in \[0, 1\]"),
        (lambda: charts.over_gaps([1], [np.nan], y_label="y"), r"Scores must lie in \[0, 1\]\. Got NaN\."),
        (lambda: charts.over_gaps([1], [1], y_label="y", groups=["a", "b"]), "There must be 1 groups, one per point"),
        (lambda: charts.over_gaps([1] * 5, [1] * 5, y_label="y", groups="abcde"), "at most 4 groups"),
        (lambda: charts.images(np.zeros((1, 2, 4, 4), np.uint8), 1), "one or three channels"),
        (lambda: charts.images(np.zeros((1, 1, 4, 4), np.uint8), 0), "one or more a row"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(call: Callable, message: str):
    with pytest.raises(InputError, match=message):
        call()


def test_matplotlib_is_imported_when_something_is_drawn_and_without_its_global_figures():
    code = (
        "import sys, noumena.charts, noumena.metrics, noumena.audits, noumena.estimators.history, noumena.cli\n"
        "assert 'matplotlib' not in sys.modules\n"
        "noumena.charts.strips({'a': [0.5]})\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_drawing_leaves_the_users_settings_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    charts.strips({"a": [0.5]})
    assert dict(matplotlib.rcParams) == before
