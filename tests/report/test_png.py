"""A PNG says, to a decoder that was not made from the encoder, exactly the bytes it was given."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.report import png


def decoded(content: bytes) -> np.ndarray:
    """A slow decoder by the specification, checksums included."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = [], 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        name, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length]) == (zlib.crc32(name + body),)
        chunks.append((name, body))
        at += 12 + length
    names = [name for name, _ in chunks]
    assert names[0] == b"IHDR"
    assert names[-1] == b"IEND"
    parts = dict(chunks)
    width, height, depth, kind, *rest = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert (depth, rest) == (8, [0, 0, 0])
    step = {0: 1, 2: 3, 3: 1}[kind]
    raw = zlib.decompress(parts[b"IDAT"])
    assert len(raw) == height * (1 + width * step)
    rows: list[list[int]] = []
    for y in range(height):
        line = raw[y * (1 + width * step) :][: 1 + width * step]
        row: list[int] = []
        for x, byte in enumerate(line[1:]):
            a = row[x - step] if x >= step else 0
            b = rows[-1][x] if rows else 0
            c = rows[-1][x - step] if rows and x >= step else 0
            nearest = min((a, b, c), key=lambda v: (abs(a + b - c - v), (a, b, c).index(v)))
            row.append((byte + [0, a, b, (a + b) // 2, nearest][line[0]]) % 256)
        rows.append(row)
    pixels = np.array(rows, dtype=np.uint8)
    if kind == 3:
        return np.frombuffer(parts[b"PLTE"], dtype=np.uint8).reshape(-1, 3)[pixels]
    return pixels if kind == 0 else pixels.reshape(height, width, 3)


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


@pytest.mark.parametrize("name", list(PICTURES))
def test_pillow_reads_the_same(name: str):
    image = pytest.importorskip("PIL.Image")
    found = image.open(io.BytesIO(png.encode(PICTURES[name])))
    mode = "L" if PICTURES[name].ndim == 2 else "RGB"
    np.testing.assert_array_equal(np.asarray(found.convert(mode)), PICTURES[name])


def test_few_colours_are_written_with_a_palette_and_many_without():
    assert b"PLTE" in png.encode(PICTURES["few colours"])
    assert b"PLTE" not in png.encode(PICTURES["gradient"])


def test_all_five_filters_are_used_where_they_pay():
    noise, line = RNG.integers(0, 256, 64), np.arange(64)
    rows = np.array([noise, noise + 1, 3 * line, 3 * line + 1], dtype=np.uint8)
    assert png.filtered(rows, 1)[:, 0].tolist()[1:3] == [2, 1]
    many = np.concatenate([png.filtered(RNG.integers(0, 40, (40, 8), dtype=np.uint8), 1) for _ in range(3)])
    assert set(many[:, 0].tolist()) == {0, 1, 2, 3, 4}


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
