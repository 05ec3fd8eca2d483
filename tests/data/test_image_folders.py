"""Folders of images: every image with its factors, in the order of names; what does not fit is named."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sentences import refusal

from noumena.data import image_files
from noumena.data.folders import folder

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def saved(path: Path, pixels: np.ndarray) -> np.ndarray:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


@pytest.fixture
def three(tmp_path: Path) -> Path:
    for name in ("b.png", "a.bmp", "c.PNG"):
        saved(tmp_path / "pics" / name, drawn(4, 6, 3))
    return tmp_path / "pics"


def table(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# ---- images ----------------------------------------------------------------------------------------------------


def test_pictures_come_back_in_the_order_of_their_names(tmp_path: Path) -> None:
    expected = {name: saved(tmp_path / name, drawn(4, 6, 3)) for name in ("x/2.png", "10.bmp", "x/1.png", "9.png")}
    saved(tmp_path / ".hidden.png", drawn(1, 1, 3))
    saved(tmp_path / ".thumbs" / "t.png", drawn(1, 1, 3))
    (tmp_path / "notes.txt").write_text("no picture")
    found = folder(tmp_path)
    assert (len(found), found.shape) == (4, (3, 4, 6))
    np.testing.assert_array_equal(found.pixels, [expected[name].transpose(2, 0, 1) for name in sorted(expected)])
    np.testing.assert_array_equal(found.pictures([3, 0]).reshape(2, 3, 4, 6), found.pixels[[3, 0]])
    assert str(found).endswith("read file by file")
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.pictures([2]), found.pictures([2]))


def test_pictures_are_grey_only_if_all_are(tmp_path: Path) -> None:
    grey = saved(tmp_path / "a.png", drawn(3, 3))
    assert folder(tmp_path).shape == (1, 3, 3)
    np.testing.assert_array_equal(folder(tmp_path).pixels[0, 0], grey)
    Image.fromarray(drawn(3, 3) > 100).save(tmp_path / "b.png")
    assert folder(tmp_path).shape == (1, 3, 3)
    assert set(np.unique(folder(tmp_path).pixels[1])) == {0, 255}
    coloured = saved(tmp_path / "c.png", drawn(3, 3, 4))
    found = folder(tmp_path)
    np.testing.assert_array_equal(found.pixels[0], np.stack([grey] * 3))
    np.testing.assert_array_equal(found.pixels[2], coloured[:, :, :3].transpose(2, 0, 1))  # transparency is dropped


def test_pictures_with_a_palette_come_back_in_its_colours(tmp_path: Path) -> None:
    places = drawn(3, 3) % 4
    colours = drawn(4, 3)
    image = Image.fromarray(places)
    image.putpalette(colours.tobytes())
    image.save(tmp_path / "a.png", transparency=bytes([0, 255, 9, 8]))
    np.testing.assert_array_equal(folder(tmp_path).pixels[0], colours[places].transpose(2, 0, 1))


def test_pictures_of_many_sizes_are_stretched_to_one(tmp_path: Path) -> None:
    first, second = saved(tmp_path / "a.png", drawn(4, 6, 3)), saved(tmp_path / "b.png", drawn(5, 5, 3))
    text = refusal(lambda: folder(tmp_path))
    assert text == "Images must all be 4 × 6 pixels like a.png. Got 5 × 5 in b.png; resize them first, or give a size."
    found = folder(tmp_path, size=(3, 5))
    assert found.shape == (3, 3, 5)
    expected = np.asarray(Image.fromarray(second).resize((5, 3), Image.Resampling.LANCZOS))
    np.testing.assert_array_equal(found.pixels[1], expected.transpose(2, 0, 1))
    np.testing.assert_array_equal(folder(tmp_path, size=(4, 6)).pixels[0], first.transpose(2, 0, 1))
    assert folder(tmp_path, size=2).shape == (3, 2, 2)


def test_opening_reads_headers_and_one_picture_only(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    reader = image_files.ImageFiles._picture
    monkeypatch.setattr(
        image_files.ImageFiles, "_picture", lambda self, place: read.append(place) or reader(self, place)
    )
    found = folder(three)
    assert set(read) == {0}
    read.clear()
    found.pictures([2])
    assert read == [2]


# ---- factors -----------------------------------------------------------------------------------------------------


def test_sub_folders_are_the_factor_if_there_are_several(tmp_path: Path) -> None:
    saved(tmp_path / "dog" / "1.png", drawn(2, 2))
    saved(tmp_path / "dog" / "2.png", drawn(2, 2))
    lone = folder(tmp_path)
    assert (lone.names, lone.factors.shape, lone.levels) == ((), (2, 0), ())
    saved(tmp_path / "cat" / "3.png", drawn(2, 2))
    found = folder(tmp_path)
    assert (found.names, found.levels, found.sizes) == (("folder",), (("cat", "dog"),), (2,))
    assert found.factors.tolist() == [[0], [1], [1]]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_factors_come_from_a_table_in_any_order(three: Path, tmp_path: Path, kind: str) -> None:
    frame = pd.DataFrame(
        {"colour": ["red", "blue", "red"], "file": ["c.PNG", "a.bmp", "b.png"], "angle": [10.5, -3.0, 200.0]}
    )
    path = tmp_path / f"factors.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    found = folder(three, path)
    assert found.names == ("colour", "angle")
    assert found.factors.dtype == np.int64
    assert found.factors.tolist() == [[0, 0], [1, 2], [1, 1]]
    assert found.levels == (("blue", "red"), ("-3", "10.5", "200"))


def test_numbers_are_ranked_as_numbers(three: Path, tmp_path: Path) -> None:
    found = folder(three, table(tmp_path / "t.csv", "file,n\na.bmp,10\nb.png,9\nc.PNG,100\n"))
    assert found.factors[:, 0].tolist() == [1, 0, 2]


def test_names_in_a_table_may_have_their_sub_folders_or_not(tmp_path: Path) -> None:
    saved(tmp_path / "x" / "1.png", drawn(2, 2))
    saved(tmp_path / "y" / "2.png", drawn(2, 2))
    short = table(tmp_path / "s.csv", "file,level\n2.png,5\n1.png,7\n")
    assert folder(tmp_path, short).factors.tolist() == [[1], [0]]
    saved(tmp_path / "y" / "1.png", drawn(2, 2))
    long = table(tmp_path / "l.csv", "file,level\ny/1.png,5\nx/1.png,7\ny/2.png,5\n")
    assert folder(tmp_path, long).factors.tolist() == [[1], [0], [0]]
    unclear = table(tmp_path / "u.csv", "file,level\ny/2.png,5\n1.png,7\n1.png,7\n")
    assert "must be of an image in the folder. Got 1.png, 1.png." in refusal(lambda: folder(tmp_path, unclear))


# ---- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("file,n\na.bmp,1\nb.png,2\n", "Every image must have a row in t.csv. Got none for c.PNG."),
        ("file,n\na.bmp,1\nb.png,2\nb.png,3\nc.PNG,3\n", "Every image must have one row in t.csv. Got b.png twice."),
        (
            "file,n\na.bmp,1\nb.png,2\nc.PNG,3\nd.png,3\n",
            "Every row of t.csv must be of an image in the folder. Got d.png.",
        ),
        ("who,n\nx,1\ny,2\nz,3\n", "t.csv must have a column of names of the images. Got columns who, n."),
        ("who,n\n4,1\n5,2\n6,3\n", "t.csv must have a column of names of the images. Got columns who, n."),
        ("file\na.bmp\nb.png\nc.PNG\n", "t.csv must have a factor beside the names of the images. Got columns file."),
        ("a.bmp,1\nb.png,2\nc.PNG,3\n", "The columns of t.csv must have names. Got no header."),
        ("file,n,n\na.bmp,1,1\nb.png,2,1\nc.PNG,3,1\n", "The columns of t.csv must have different names."),
        ("file,n\na.bmp,\nb.png,2\nc.PNG,3\n", "Every cell of t.csv must be filled. Got an empty one on line 2."),
        ("file,n\na.bmp,1,2\n", "Every line of t.csv must have 2 cells. Got 3 on line 2."),
        ("", "t.csv must be a complete .csv file of numbers. Got no rows."),
    ],
)
def test_tables_that_do_not_fit_are_refused(three: Path, tmp_path: Path, text: str, sentence: str) -> None:
    assert refusal(lambda: folder(three, table(tmp_path / "t.csv", text))).startswith(sentence)


def test_other_tables_are_refused(three: Path, tmp_path: Path) -> None:
    assert "The data file must exist." in refusal(lambda: folder(three, tmp_path / "gone.csv"))
    other = table(tmp_path / "t.txt", "file,n")
    assert "must be .csv or .parquet, here t.txt. Got .txt." in refusal(lambda: folder(three, other))
    holes = pd.DataFrame({"file": ["a.bmp", "b.png", "c.PNG"], "hue": ["x", None, "y"]})
    holes.to_parquet(tmp_path / "t.parquet")
    text = refusal(lambda: folder(three, tmp_path / "t.parquet"))
    assert text == "Every cell of hue in t.parquet must be filled. Got 1 empty."
    (tmp_path / "t.parquet").write_bytes(b"torn")
    assert "t.parquet must be a complete .parquet file" in refusal(lambda: folder(three, tmp_path / "t.parquet"))


def test_folders_without_pictures_are_refused(tmp_path: Path) -> None:
    assert refusal(lambda: folder(tmp_path / "gone")) == "The folder of images must exist. Got gone."
    (tmp_path / "empty").mkdir()
    text = refusal(lambda: folder(tmp_path / "empty"))
    assert text.startswith("A folder must hold images (.png, .jpg,")
    assert text.endswith("Got none in empty.")


def test_unreadable_pictures_are_named(three: Path) -> None:
    whole = (three / "c.PNG").read_bytes()
    (three / "c.PNG").write_bytes(b"no picture")
    assert refusal(lambda: folder(three)).startswith("c.PNG must be a complete image. Got: cannot identify")
    (three / "c.PNG").write_bytes(b"")
    assert refusal(lambda: folder(three, size=2)).startswith("c.PNG must be a complete image.")
    (three / "c.PNG").write_bytes(whole[: len(whole) - 40])
    found = folder(three)  # its header is there
    assert found.pictures([0, 1]).shape == (2, 72)
    assert refusal(lambda: found.pictures([2])).startswith("c.PNG must be a complete image.")
    (three / "c.PNG").unlink()
    assert "c.PNG must be a complete image." in refusal(lambda: found.pictures([2]))


def test_a_picture_that_changed_its_shape_is_refused_when_it_is_read(three: Path) -> None:
    found = folder(three)
    saved(three / "b.png", drawn(5, 5, 3))
    text = refusal(lambda: found.pictures([1]))
    assert text == "Images must all be 4 × 6 pixels, or size must be given. Got 5 × 5 in b.png."


def test_pictures_of_more_than_eight_bits_are_refused(tmp_path: Path) -> None:
    saved(tmp_path / "deep.png", drawn(3, 3).astype(np.uint16))
    assert "eight bits a channel. Got deep.png of mode I;16." in refusal(lambda: folder(tmp_path))


def test_sizes_that_are_none_are_refused(three: Path) -> None:
    assert "size must be a whole number" in refusal(lambda: folder(three, size=0))
    assert "size must be a whole number" in refusal(lambda: folder(three, size=(3, -1)))
    text = refusal(lambda: folder(three, size=(1, 2, 3)))
    assert text == "size must be one whole number, or a height and a width. Got (1, 2, 3)."


def test_without_pillow_the_package_to_install_is_named(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    text = refusal(lambda: folder(three))
    assert text == "Images must have the package Pillow; install noumena[data]. Got an ImportError."
