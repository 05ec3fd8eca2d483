"""Scores are those of the model that is in use, whatever the rows, and so is the share that is explained."""

from typing import Any

import numpy as np
import pytest

import noumena as nm

DRAW = np.random.default_rng(0)
Z = DRAW.normal(size=(300, 2))
X = np.tanh(Z @ DRAW.normal(size=(2, 5))) + 0.05 * DRAW.normal(size=(300, 5))
TRAINING = nm.Training(steps=60, batch_size=64)


def by_hand(model: Any, rows: np.ndarray) -> float:
    """Minus the error of the way to latents and back, in the spreads of the fit."""
    missed = (model.inverse_transform(model.transform(rows)) - rows) / model.models_[0].scale.numpy()
    return -float(np.square(missed).sum(axis=1).mean())


@pytest.mark.parametrize("model", [nm.Autoencoder(2, normalise=True), nm.SlotAutoencoder(2, 1, penalty=None)])
def test_latents_of_unit_spread_are_scored_in_the_units_of_the_fit(model: Any, tmp_path: Any) -> None:
    model = model.set_params(training=TRAINING, random_state=0).fit(X)
    nm.save(model, tmp_path / "run")
    loaded = nm.load(tmp_path / "run")
    for rows in (X, X[:20], X[:1], X[Z[:, 0] > 0]):
        assert model.score(rows) == pytest.approx(by_hand(model, rows), rel=1e-3)
        assert loaded.score(rows) == pytest.approx(model.score(rows))


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_what_is_explained_does_not_depend_on_how_far_rows_are_from_zero(offset: float) -> None:
    model = nm.VAE(2, training=TRAINING, random_state=0).fit(X + offset)
    rebuilt = model.inverse_transform(model.transform(X + offset)) - offset
    spread = X.std(axis=0)
    share = 1 - np.square((rebuilt - X) / spread).sum() / np.square((X - X.mean(axis=0)) / spread).sum()
    assert model.explained_[0] == pytest.approx(share, abs=0.02)
