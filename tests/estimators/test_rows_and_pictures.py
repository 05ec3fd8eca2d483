"""Rows of bytes and pictures that are made when asked for give the fit that plain numbers give."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import noumena as nm
from noumena.estimators import sources
from noumena.estimators.fit_data import FitData, Standardised, split
from noumena.estimators.sources import Bytes, ImageRows, source_of
from noumena.worlds.rooms import Rooms

QUICK = nm.Training(steps=6, batch_size=16)
PIXELS = np.random.default_rng(0).integers(0, 256, size=(60, 12), dtype=np.uint8)


@dataclass
class Album:
    """Pictures that are read when asked for; remembers what was."""

    stored: np.ndarray
    asked: int = 0

    @property
    def shape(self):
        return 3, 2, 2

    def __len__(self):
        return len(self.stored)

    def __str__(self):
        return "an album"

    def pictures(self, index):
        self.asked += len(index)
        return self.stored[index]


def vae(**settings):
    return nm.VAE(2, standardise=False, training=QUICK, random_state=0, **settings)


def test_bytes_pictures_and_numbers_give_the_same_model():
    numbers = vae().fit(PIXELS / np.float32(255))
    stored = vae().fit(PIXELS)
    lazy = vae().fit(Album(PIXELS))
    assert np.allclose(numbers.transform(PIXELS / np.float32(255)), stored.transform(PIXELS), atol=1e-5)
    assert np.allclose(lazy.transform(PIXELS), stored.transform(PIXELS), atol=1e-6)
    assert np.array_equal(lazy.transform(Album(PIXELS)), lazy.transform(PIXELS))


def test_what_is_decoded_is_in_the_units_of_the_data():
    x = np.repeat(np.random.default_rng(0).integers(0, 256, size=(400, 1), dtype=np.uint8), 3, axis=1)
    fitted = nm.VAE(1, beta=1e-3, standardise=False, random_state=0, training=nm.Training(steps=500)).fit(x)
    again = fitted.inverse_transform(fitted.transform(x))
    assert np.abs(again - x).mean() < 10


def test_bytes_may_be_standardised_as_numbers_are():
    a = nm.VAE(2, training=QUICK, random_state=0).fit(PIXELS)
    b = nm.VAE(2, training=QUICK, random_state=0).fit(PIXELS.astype(np.float32))
    assert np.allclose(a.models_[0].mean, b.models_[0].mean, atol=1e-3)
    assert np.allclose(a.models_[0].scale, b.models_[0].scale, rtol=1e-4)
    assert np.allclose(a.transform(PIXELS), b.transform(PIXELS.astype(np.float32)), atol=1e-3)


def test_bytes_stay_bytes_until_they_are_asked_for():
    rows = split(source_of(PIXELS), 0.5, standardise=False, beside=None, like=torch.zeros(0))[0].train
    assert rows.source.rows.dtype == torch.uint8
    rows = Standardised(source_of(PIXELS), torch.zeros(12), torch.full((12,), 255.0), torch.zeros(0))
    index = torch.tensor([[1, 5], [7, 0]])
    assert torch.allclose(rows[index], torch.as_tensor(PIXELS / np.float32(255))[index])
    assert rows[:3].shape == (3, 12)


def test_pictures_are_asked_for_batch_by_batch():
    album = Album(PIXELS)
    backwards = np.arange(60)[::-1].copy()
    rows = Standardised(ImageRows(album), torch.zeros(12), torch.ones(12), torch.zeros(0), backwards)
    batches = rows[torch.tensor([[0, 1], [2, 59]])]
    assert album.asked == 4
    assert torch.equal(batches[1, 1], torch.as_tensor(PIXELS[0]).float())
    assert len(rows[:5]) == 5


def test_bytes_that_may_not_be_written_to_are_read():
    still = PIXELS.copy()
    still.flags.writeable = False
    fitted = vae().fit(still)
    assert np.array_equal(fitted.transform(still), fitted.transform(PIXELS))
    assert fitted.transform(torch.as_tensor(PIXELS)).dtype == torch.float32


def test_only_so_many_rows_of_pictures_are_made_at_once(monkeypatch):
    monkeypatch.setattr(sources, "AT_ONCE", 12 * 7)
    rows = Standardised(Bytes(PIXELS), torch.zeros(12), torch.ones(12), torch.zeros(0))
    assert FitData(rows, rows, "").train_at_once.shape == (7, 12)
    numbers = torch.zeros(60, 12)
    assert FitData(numbers, numbers, "").train_at_once is numbers
    fitted = vae().fit(PIXELS)
    whole = fitted.transform(PIXELS)
    monkeypatch.setattr(sources, "AT_ONCE", 10**6)
    assert np.allclose(whole, fitted.transform(PIXELS), atol=1e-6)


def test_a_killed_fit_on_pictures_resumes_and_other_pictures_are_refused(tmp_path):
    training = nm.Training(steps=6, batch_size=16, checkpoint=tmp_path / "state")
    vae().set_params(training=training).fit(Album(PIXELS))
    vae().set_params(training=training).fit(Album(PIXELS))
    other = PIXELS.copy()
    other[0] += 1
    with pytest.raises(nm.InputError, match="another fit's"):
        vae().set_params(training=training).fit(Album(other))


def test_rooms_are_rendered_while_a_model_is_trained():
    rooms = Rooms(4)
    assert isinstance(source_of(rooms), ImageRows)
    assert torch.equal(rooms.pictures(np.array([5, 3]))[1], rooms.render(rooms.levels([3])).flatten(1)[0])

    @dataclass
    class Few(Album):
        @property
        def shape(self):
            return rooms.shape

        def pictures(self, index):
            return rooms.pictures(self.stored[index])

    fitted = nm.Autoencoder(2, standardise=False, training=nm.Training(steps=2, batch_size=4), random_state=0)
    fitted.fit(Few(np.arange(0, 480000, 24000)))
    assert fitted.n_features_in_ == 48


@pytest.mark.parametrize(
    ("x", "settings", "sentence"),
    [
        (Album(PIXELS[:, :11]), {}, "Pictures must be two rows or more of 12 bytes"),
        (Album(PIXELS.astype(np.float32)), {}, "Pictures must be two rows or more of 12 bytes"),
        (Album(PIXELS[:1]), {}, "Pictures must be two rows or more of 12 bytes"),
        (Album(PIXELS), {"standardise": True}, "Pictures must come with standardise=False"),
        (PIXELS * np.uint8(0), {"standardise": True}, "x must vary in every column"),
    ],
    ids=["narrow", "numbers", "one", "standardised", "constant"],
)
def test_pictures_that_cannot_be_used_are_refused(x, settings, sentence):
    with pytest.raises(nm.InputError, match=sentence):
        vae().set_params(**settings).fit(x)


def test_rows_that_run_backwards_are_those_turned_round():
    fitted = vae().fit(PIXELS)
    assert np.array_equal(fitted.transform(PIXELS[::-1]), fitted.transform(PIXELS)[::-1])
    assert np.array_equal(
        vae().fit(PIXELS[:, ::-1]).transform(PIXELS[:, ::-1]),
        vae().fit(PIXELS[:, ::-1].copy()).transform(PIXELS[:, ::-1].copy()),
    )


def test_no_rows_of_bytes_are_refused_as_no_rows_of_numbers_are():
    fitted = vae().fit(PIXELS)
    for nothing in (PIXELS[:0], PIXELS[:0].astype(np.float32)):
        with pytest.raises(nm.InputError, match="x must have at least 1 rows"):
            fitted.transform(nothing)


def test_pictures_may_come_in_arrays_that_cannot_be_written_to():
    class Locked(Album):
        def pictures(self, index):
            found = super().pictures(index)
            found.flags.writeable = False
            return found

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lazy = vae().fit(Locked(PIXELS))
    assert np.array_equal(lazy.transform(PIXELS), vae().fit(Album(PIXELS)).transform(PIXELS))


def test_pictures_of_another_shape_are_refused_by_a_fitted_model():
    fitted = vae().fit(PIXELS)
    with pytest.raises(ValueError, match="12 features"):
        fitted.transform(PIXELS[:, :6])
