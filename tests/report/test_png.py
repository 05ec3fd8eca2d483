"""A PNG says exactly the bytes it was given."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from noumena.checks import InputError
from noumena.report import png


def decoded(content: bytes) -> np.ndarray:
    image = Image.open(io.BytesIO(content))
    return np.asarray(image.convert("RGB") if image.mode == "P" else image)


def gradient(height: int, width: int) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    return np.stack([3 * x + y, 5 * y, x * y], axis=2).astype(np.uint8)


RNG = np.random.default_rng(0)
PICTURES = {
    "grey noise": RNG.integers(0, 256, (7, 5), dtype=np.uint8),
    "colour noise": RNG.integers(0, 256, (6, 9, 3), dtype=np.uint8),
    "gradient": gradient(19, 23),
    "few colours": gradient(19, 23) // 100 * 100,
    "one pixel": np.array([[[1, 2, 3]]], dtype=np.uint8),
    "one row": RNG.integers(0, 256, (1, 40), dtype=np.uint8),
    "turned": np.asfortranarray(gradient(8, 8)[::-1]),
}


@pytest.mark.parametrize("name", list(PICTURES))
def test_a_picture_comes_back_byte_for_byte(name: str):
    np.testing.assert_array_equal(decoded(png.encode(PICTURES[name])), PICTURES[name])


def test_few_colours_are_written_with_a_palette_and_many_without():
    assert b"PLTE" in png.encode(PICTURES["few colours"])
    assert b"PLTE" not in png.encode(PICTURES["gradient"])


def test_smooth_pictures_are_much_smaller_than_their_pixels():
    smooth = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
    assert len(png.encode(np.stack([smooth, smooth[::-1], smooth.T // 2], axis=2))) < 64 * 64 * 3 / 8


def test_an_address_holds_the_file():
    head, body = png.data_uri(PICTURES["gradient"]).split(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(body, validate=True) == png.encode(PICTURES["gradient"])


def test_saving_leaves_one_file_and_a_failed_one_keeps_the_old(tmp_path: Path, monkeypatch):
    path = png.save(PICTURES["gradient"], tmp_path / "a.png")
    np.testing.assert_array_equal(decoded(path.read_bytes()), PICTURES["gradient"])
    assert list(tmp_path.iterdir()) == [path]

    def refuse(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        png.save(PICTURES["one pixel"], path)
    np.testing.assert_array_equal(decoded(path.read_bytes()), PICTURES["gradient"])
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "wrong",
    [np.zeros((2, 2)), np.zeros((2, 2, 2), dtype=np.uint8), np.zeros(4, dtype=np.uint8), np.zeros((0, 2), np.uint8)],
    ids=["floats", "two channels", "flat", "empty"],
)
def test_what_is_no_picture_is_refused(wrong: np.ndarray):
    with pytest.raises(InputError, match=r"A PNG must be of bytes with axes .* Got dtype"):
        png.encode(wrong)
