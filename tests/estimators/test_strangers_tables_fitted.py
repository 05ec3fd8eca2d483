"""What scikit-learn's users do: odd tables are refused or fitted as they are, and nothing is half done."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.exceptions import NotFittedError
from sklearn.utils.metadata_routing import get_routing_for_object

import noumena as nm
from noumena.checks import InputError

X = np.random.default_rng(0).normal(size=(120, 4))
SPARSE = X * (np.random.default_rng(1).random(X.shape) < 0.5)
QUICK = nm.Training(steps=4, batch_size=16)


def vae(**settings: Any) -> nm.VAE:
    return nm.VAE(2, **({"training": QUICK, "random_state": 0} | settings))


def conditional(**settings: Any) -> nm.iVAE:
    return nm.iVAE(2, **({"training": QUICK, "random_state": 0} | settings))


# ---- labels beside the rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "u",
    [
        pd.Series(pd.to_datetime(["2020", "2021"] * 60)),
        np.array([b"a", b"b"] * 60),
        np.array([1j, 2j] * 60),
        np.array(["2020", "2021"] * 60, dtype="datetime64[D]"),
    ],
)
def test_labels_that_are_neither_numbers_nor_names_are_refused(u: Any) -> None:
    with pytest.raises(InputError, match=r"^Labels u must be finite numbers or names. Got dtype .*; turn them into te"):
        conditional().fit(X, u)
    assert conditional().fit(X, np.asarray(u).astype(str)).labels_ is not None


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_a_missing_label_is_no_label(missing: Any) -> None:
    with pytest.raises(InputError, match=r"^Labels u must be finite numbers or names. Got a missing or infinite entry"):
        conditional().fit(X, np.array(["a", missing] * 60, dtype=object))


def test_the_score_of_a_conditional_model_depends_on_its_labels() -> None:
    u = np.array(["a", "b"] * 60)
    model = conditional().fit(X, u)
    assert model.score(X, u) != model.score(X, u[::-1])


# ---- every row counts -----------------------------------------------------------------------------------------


def test_the_score_of_a_factor_vae_sees_every_row() -> None:
    model = nm.FactorVAE(2, discriminator=nm.MLP((16,)), training=QUICK, random_state=0).fit(X)
    spoilt = X.copy()
    spoilt[60:] *= 50
    assert model.score(spoilt) < model.score(X) - 100
    assert model.score(spoilt[::-1]) < model.score(X) - 100


# ---- tables ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["transform", "score", "inverse_transform"])
def test_tensors_are_checked_as_arrays_are(verb: str) -> None:
    call = getattr(vae().fit(X), verb)
    width = 2 if verb == "inverse_transform" else 4
    with pytest.raises(InputError, match=r"must be finite. Got 1 NaN and 0 inf entries, the first at row 1, column 1"):
        call(torch.zeros(3, width).index_put((torch.tensor(1), torch.tensor(1)), torch.tensor(torch.nan)))
    with pytest.raises(InputError, match="must be real"):
        call(torch.zeros(3, width, dtype=torch.complex64))
    with pytest.raises(TypeError, match=r"must be a dense tensor. Got a sparse one"):
        call(torch.zeros(3, width).to_sparse())


def test_sparse_tensors_are_no_tables_to_fit() -> None:
    with pytest.raises(TypeError, match=r"x must be a dense tensor. Got a sparse one; use x.to_dense\(\)\."):
        vae().fit(torch.as_tensor(X).to_sparse())


@pytest.mark.parametrize("kind", ["Date", "Datetime", "Duration", "Time"])
def test_dates_of_a_polars_frame_are_no_numbers(kind: str) -> None:
    polars = pytest.importorskip("polars")
    dates = polars.Series("when", np.arange(120)).cast(getattr(polars, kind))
    with pytest.raises(InputError, match=rf"^x must hold numbers only. Got column 'when' of {kind}"):
        vae().fit(polars.DataFrame({"a": X[:, 0], "when": dates}))


def test_a_missing_number_of_pandas_is_found_where_it_is() -> None:
    frame = pd.DataFrame(X).astype("Float64")
    frame.iloc[7, 2] = pd.NA
    with pytest.raises(InputError, match=r"^x must be finite. Got 1 NaN and 0 inf entries, the first at row 7, column"):
        vae().fit(frame)


@pytest.mark.parametrize(("unit", "said"), [(1e-200, r"\d.*e-200"), (1e200, r"\d.*e\+200")])
def test_columns_whose_squares_float64_cannot_hold_are_refused_by_their_spread(unit: float, said: str) -> None:
    with pytest.raises(
        InputError, match=rf"^Columns of x must have a spread between .* Got column 0 with .* of {said}"
    ):
        vae().fit(X * unit)


@pytest.mark.parametrize("estimator", [nm.ICA(2), nm.SparseComponents()])
def test_tables_that_run_backwards_are_read_as_they_are(estimator: Any) -> None:
    backwards = pd.DataFrame(SPARSE).iloc[::-1]
    plain = estimator.fit(np.ascontiguousarray(backwards.to_numpy())).transform(SPARSE)
    found = estimator.fit(backwards.to_numpy()).transform(SPARSE[::-1])[::-1]
    np.testing.assert_allclose(found, plain, atol=1e-9)


def test_a_decoder_is_certified_at_points_that_run_backwards() -> None:
    decoder = torch.nn.Linear(3, 5)
    assert nm.certify(decoder, at=X[::-1, :3]).structure == nm.certify(decoder, at=X[:, :3]).structure


# ---- scikit-learn ---------------------------------------------------------------------------------------------


def test_a_refused_fit_leaves_the_former_one() -> None:
    model = vae(training=nm.Training(steps=4)).fit(X)
    before = model.transform(X)
    with pytest.raises(InputError):
        model.set_params(training__within=0.1).fit(np.c_[X, X**2])  # within needs a penalty
    assert np.array_equal(model.transform(X), before)
    named = conditional().fit(X, np.array(["a", "b"] * 60))
    with pytest.raises(InputError):
        named.fit(X, np.arange(120).astype(str))
    assert named.labels_ == ["a", "b"]


def test_other_kinds_of_output_change_no_fit_and_no_score() -> None:
    flow = nm.SparseFlow(depth=1, training=nm.Training(steps=3))
    plain, score = flow.fit(SPARSE).transform(SPARSE), nm.SparseComponents().fit(SPARSE).score(SPARSE)
    with sklearn.config_context(transform_output="pandas"):
        framed = flow.fit(SPARSE).transform(SPARSE)
        components = nm.SparseComponents().fit(SPARSE)
        assert components.score(SPARSE) == score
        assert components.active(SPARSE).dtype == bool
    assert isinstance(framed, pd.DataFrame)
    assert np.array_equal(framed.to_numpy(), plain)


@pytest.mark.parametrize("verb", ["score", "active", "transform"])
def test_what_is_not_fitted_says_so(verb: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(nm.SparseComponents(), verb)(SPARSE)


@pytest.mark.parametrize("estimator", [vae(), conditional(), nm.ICA(), nm.SparseComponents()])
def test_rows_are_given_by_the_name_of_scikit_learn_and_are_no_metadata(estimator: Any) -> None:
    asked = get_routing_for_object(estimator)
    for verb in ("fit", "transform", "inverse_transform", "score"):
        assert set(getattr(asked, verb).requests) <= {"u"}
    fitted = estimator.fit(X=SPARSE, y=np.arange(120) % 2)
    assert fitted.inverse_transform(X=fitted.transform(X=SPARSE)).shape == SPARSE.shape


# ---- files ----------------------------------------------------------------------------------------------------


def test_settings_of_other_kinds_come_back_from_a_file(tmp_path: Path) -> None:
    training = QUICK.changed(device=torch.device("cpu"))
    model = vae(training=training, random_state=np.random.RandomState(3)).fit(X)
    model.set_params(standardise=np.bool_(True))
    nm.save(model, tmp_path)
    again = nm.load(tmp_path)
    assert (again.training.device, again.standardise) == ("cpu", True)
    assert np.array_equal(again.fit(X).transform(X), model.transform(X))


def test_an_estimator_of_the_users_own_is_read_again_where_its_class_is_given(tmp_path: Path) -> None:
    class Mine(nm.VAE):
        pass

    model = Mine(2, training=QUICK).fit(X)
    nm.save(model, tmp_path / "run")
    with pytest.raises(InputError, match=r"is given as load\(folder, kinds=\[Mine\]\)"):
        nm.load(tmp_path / "run")
    again = nm.load(tmp_path / "run", kinds=[Mine])
    assert isinstance(again, Mine)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
