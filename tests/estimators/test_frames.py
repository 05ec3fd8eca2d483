"""Frames in and names out of every kind of estimator; pipelines and searches over our objectives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import noumena as nm

COLUMNS = ("pulse", "voice", "x 3", "gait")
TINY = nm.Training(steps=5, batch_size=32)
MIXING = np.array([[1.0, 2, 0, 1], [0, 1, 3, 1], [1, 0, 1, 0]])
KINDS = {
    "vae": nm.VAE(2, training=TINY, random_state=0),
    "ica": nm.ICA(3, random_state=0),
    "sparsecomponents": nm.SparseComponents(3, random_state=0),
}
LIBRARIES = ["pandas", "polars"]


def data(rows: int = 400, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, 3)) * (rng.random((rows, 3)) < 0.4)
    return z @ MIXING


def frame(library: str, x: np.ndarray, columns: tuple[str, ...] = COLUMNS) -> Any:
    if library == "polars":
        return pytest.importorskip("polars").DataFrame(x, schema=list(columns))
    return pd.DataFrame(x, columns=list(columns), index=np.arange(len(x)) + 7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", LIBRARIES)
class TestEveryKind:
    def test_a_frame_gives_the_fit_of_its_numbers_and_its_names_are_kept(self, kind: str, library: str) -> None:
        x = data()
        table = frame(library, x)
        named, plain = clone(KINDS[kind]).fit(table), clone(KINDS[kind]).fit(x)
        assert tuple(named.feature_names_in_) == COLUMNS
        assert not hasattr(plain, "feature_names_in_")
        np.testing.assert_allclose(named.transform(table), plain.transform(x), atol=1e-9)

    def test_latents_have_names_and_come_as_the_frame_asked_for(self, kind: str, library: str) -> None:
        table = frame(library, data())
        model = clone(KINDS[kind]).fit(table)
        plain = model.transform(table)
        assert isinstance(plain, np.ndarray)
        names = [f"{kind}{k}" for k in range(plain.shape[1])]
        assert model.get_feature_names_out().tolist() == names
        found = model.set_output(transform=library).transform(table)
        assert type(found) is type(table)
        assert list(found.columns) == names
        np.testing.assert_array_equal(found.to_numpy(), plain)
        if library == "pandas":
            assert found.index.equals(table.index)

    def test_columns_of_another_name_order_or_number_are_refused(self, kind: str, library: str) -> None:
        x = data()
        model = clone(KINDS[kind]).fit(frame(library, x))
        for columns, words in [
            (("voice", "pulse", "x 3", "gait"), "must be in the same order"),
            (("pulse", "voice", "x 3", "sleep"), "unseen at fit time:\n- sleep"),
        ]:
            with pytest.raises(ValueError, match=words):
                model.transform(frame(library, x, columns))
        with pytest.raises(ValueError, match="yet now missing:\n- gait"):
            model.transform(frame(library, x[:, :3], COLUMNS[:3]))


@pytest.mark.parametrize("library", LIBRARIES)
def test_missing_cells_and_words_of_a_frame_are_refused(library: str) -> None:
    x = data(20)
    x[3, 1] = np.nan
    for model in KINDS.values():
        with pytest.raises(nm.InputError, match=r"must be finite. Got 1 NaN and 0 inf entries, the first at row 3"):
            clone(model).fit(frame(library, x))
        words = frame(library, np.full((20, 4), "cube", dtype=object))
        with pytest.raises((nm.InputError, TypeError), match="must hold numbers"):
            clone(model).fit(words)


def test_names_of_columns_reach_structures_queries_and_saved_runs(tmp_path) -> None:
    table = frame("pandas", data())
    model = nm.VAE(2, training=TINY, random_state=0).fit(table)
    assert model.structure_.observed == COLUMNS
    certificate = nm.certify(model)
    assert tuple(certificate.to_dict()["observed"]) == COLUMNS
    assert certificate.query("pulse | voice").to_dict() == certificate.query("voice | pulse").to_dict()
    nm.save(model, tmp_path)
    again = nm.load(tmp_path)
    assert again.structure_.observed == COLUMNS
    with pytest.raises(ValueError, match="must be in the same order"):
        again.transform(table[list(COLUMNS[::-1])])


def test_names_pass_through_a_pipeline_to_the_structure_and_out_again() -> None:
    table = frame("pandas", data())
    pipeline = make_pipeline(StandardScaler(), clone(KINDS["vae"])).set_output(transform="pandas")
    latents = pipeline.fit_transform(table)
    assert list(latents.columns) == pipeline.get_feature_names_out().tolist() == ["vae0", "vae1"]
    assert pipeline[-1].structure_.observed == COLUMNS
    assert pipeline.score(table) == pipeline[-1].score(pipeline[0].transform(table))


def test_a_search_over_latents_and_penalties_ranks_by_the_held_out_objective() -> None:
    table = frame("pandas", data(90))
    penalties = [None, 10.0 * nm.DependencySparsity()]
    grid = {"n_latents": [1, 2], "penalty": penalties}
    search = GridSearchCV(nm.VAE(training=TINY, random_state=0), grid, cv=2).fit(table)
    assert len(search.cv_results_["params"]) == 4
    by_hand = []
    for chosen in search.cv_results_["params"]:
        halves = [np.arange(45), np.arange(45, 90)]
        scores = [
            nm.VAE(training=TINY, random_state=0, **chosen).fit(table.iloc[fitted]).score(table.iloc[held])
            for held, fitted in (halves, halves[::-1])
        ]
        by_hand.append(np.mean(scores))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand, rtol=1e-5)
    assert search.best_params_ == search.cv_results_["params"][int(np.argmax(by_hand))]
    assert search.best_params_["penalty"] is None  # the objective has the penalty in it
    assert search.best_estimator_.structure_.observed == COLUMNS


def test_parameters_inside_a_pipeline_are_searched_by_a_score_of_ones_own() -> None:
    def rebuilt(model: Pipeline, x: Any, y: Any = None) -> float:
        return -float(np.mean((model.inverse_transform(model.transform(x)) - x) ** 2))

    pipeline = Pipeline([("scale", StandardScaler()), ("ica", nm.ICA(random_state=0))])
    search = GridSearchCV(pipeline, {"ica__n_latents": [1, 2, 3]}, scoring=rebuilt, cv=2).fit(data())
    assert search.best_params_ == {"ica__n_latents": 3}  # three latents made the data
    assert search.best_score_ == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("kind", ["vae", "sparsecomponents"])
def test_cross_validation_needs_no_score_of_ones_own(kind: str) -> None:
    found = cross_val_score(clone(KINDS[kind]), data(), cv=2)
    assert found.shape == (2,)
    assert np.isfinite(found).all()
    half = clone(KINDS[kind]).fit(data()[200:])
    assert found[0] == pytest.approx(half.score(data()[:200]), rel=1e-5)


@pytest.mark.parametrize("names", [["a", "a", "b"], ["a", 1, "b"]])
def test_columns_that_cannot_be_told_apart_are_refused_in_one_sentence(names: list) -> None:
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=pd.Index(names, dtype=object))
    for model in (nm.VAE(1, training=nm.Training(steps=2)), nm.ICA(1)):
        with pytest.raises(nm.InputError, match=r"^The (columns|names of the columns) of x must"):
            model.fit(x)
