"""Benchmark files that are torn, of another kind or beyond the published grids are refused in one sentence."""

import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from benchmark_files import (
    FALCOR,
    GRID,
    ISAAC,
    SHAPES,
    cars_folder,
    drawn,
    dsprites_file,
    matrix_file,
    norb_folder,
    numbered_folder,
    shapes_file,
    sprites_file,
    two_cars,
)
from scipy.io import savemat
from sentences import refusal

from noumena.data import norb
from noumena.data.benchmarks import (
    Images,
    cars3d,
    dsprites,
    falcor3d,
    isaac3d,
    mpi3d,
    shapes3d,
    smallnorb,
    sprites,
)

# ---- refusals ----------------------------------------------------------------------------------------------------


def test_other_files_are_refused_by_what_they_hold(tmp_path: Path) -> None:
    wrong = dsprites_file(tmp_path / "d.npz")
    text = refusal(lambda: sprites(wrong))
    assert text == ("d.npz must hold img_idx, palette, factors, factor_names. Got imgs, latents_classes, metadata.")
    assert "must hold images." in refusal(lambda: mpi3d(wrong))
    assert "must hold imgs, latents_classes." in refusal(lambda: dsprites(sprites_file(tmp_path / "s.npz")))
    np.save(tmp_path / "one.npy", np.ones(3))
    assert "no named arrays" in refusal(lambda: dsprites(tmp_path / "one.npy"))
    with pytest.importorskip("h5py").File(tmp_path / "x.h5", "w") as file:
        file["images"] = np.ones(3)
    assert refusal(lambda: shapes3d(tmp_path / "x.h5")) == "x.h5 must hold images, labels. Got images."


def test_pickled_images_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", imgs=np.array([{}], dtype=object), latents_classes=GRID)
    assert "plain arrays" in refusal(lambda: dsprites(tmp_path / "p.npz"))


def test_wrong_shapes_and_values_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    flat = dsprites_file(path, images=drawn(len(GRID), 64))
    assert "Images must be bytes with 3 axes. Got shape (48, 64) and dtype uint8" in refusal(lambda: dsprites(flat))
    real = dsprites_file(path, images=np.zeros((len(GRID), 2, 2)))
    assert "Images must be bytes" in refusal(lambda: dsprites(real))
    grey = dsprites_file(path, images=np.full((len(GRID), 2, 2), 7, dtype=np.uint8))
    assert refusal(lambda: dsprites(grey)) == "Pixels must be places 0 to 1 of the palette. Got 7."
    short = dsprites_file(path, classes=GRID[1:])
    assert "The factors of 48 images must be a table of whole numbers. Got shape (47, 5)" in refusal(
        lambda: dsprites(short)
    )
    assert "whole numbers" in refusal(lambda: dsprites(dsprites_file(path, classes=GRID + 0.5)))
    assert "must not be negative. Got -1." in refusal(lambda: dsprites(dsprites_file(path, classes=GRID - 1)))
    assert "There must be 5 factors. Got 4 columns." in refusal(
        lambda: dsprites(dsprites_file(path, classes=GRID[:, 1:]))
    )
    none = dsprites_file(path, images=np.zeros((0, 2, 2), dtype=np.uint8), classes=GRID[:0])
    assert "Images must be bytes" in refusal(lambda: dsprites(none))
    grey = sprites_file(tmp_path / "s.npz", palette=drawn(5))
    assert "A palette must be bytes with 2 axes. Got shape (5,)" in refusal(lambda: sprites(grey))
    words = shapes_file(tmp_path / "x.h5", drawn(3, 2, 2, 3), np.zeros(3))
    assert "labels must be a table of numbers" in refusal(lambda: shapes3d(words))
    holes = shapes_file(tmp_path / "holes.h5", np.zeros((2, 4, 4, 3), np.uint8), np.array([[np.nan] * 6, [0.0] * 6]))
    assert refusal(lambda: shapes3d(holes)) == "labels must be finite. Got 6 entries that are not."
    few = shapes_file(tmp_path / "y.h5", drawn(3, 2, 2, 3), np.zeros((3, 5)))
    assert "There must be 6 factors. Got 5 columns." in refusal(lambda: shapes3d(few))


def test_grids_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", images=drawn(24, 2, 2, 3))
    text = refusal(lambda: mpi3d(tmp_path / "m.npz"))
    assert "6 × 6 × 2 × 3 × 3 × 40 × 40 = 1036800 or 4 × 4 × 2 × 3 × 3 × 40 × 40 = 460800. Got 24 images." in text
    assert "a grid of 7 factors" in refusal(lambda: mpi3d(tmp_path / "m.npz", sizes=(24,)))
    assert "must be a whole number" in refusal(lambda: mpi3d(tmp_path / "m.npz", sizes=(24, 1, 1, 1, 1, 1, 0)))
    np.savez(tmp_path / "n.npz", images=np.uint8(3))
    assert "Got 0 images" in refusal(lambda: mpi3d(tmp_path / "n.npz"))


def test_without_h5py_the_package_to_install_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shapes_file(tmp_path / "x.h5", drawn(len(SHAPES), 2, 2, 3), SHAPES)
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert "must have the package h5py; install noumena[data]" in refusal(lambda: shapes3d(path))


# ---- refusals of every loader ------------------------------------------------------------------------------------


def shapes_set(path: Path) -> Path:
    return shapes_file(path / "3dshapes.h5", drawn(len(SHAPES), 4, 4, 3), SHAPES)


def mpi_set(path: Path) -> Path:
    np.savez(path / "m.npz", images=drawn(24, 4, 4, 3))
    return path / "m.npz"


LOADERS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Images]]] = {
    "dsprites": (lambda path: dsprites_file(path / "d.npz"), dsprites),
    "sprites": (lambda path: sprites_file(path / "s.npz"), sprites),
    "shapes3d": (shapes_set, shapes3d),
    "mpi3d": (mpi_set, lambda path: mpi3d(path, sizes=(2, 1, 2, 1, 1, 3, 2))),
    "cars3d": (two_cars, lambda path: cars3d(path, size=4, part=True)),
    "smallnorb": (norb_folder, lambda path: smallnorb(path, part=True)),
    "falcor3d": (lambda path: numbered_folder(path, drawn(12, 8, 8, 3)), lambda path: falcor3d(path, sizes=FALCOR)),
    "isaac3d": (lambda path: numbered_folder(path, drawn(6, 8, 8, 3)), lambda path: isaac3d(path, sizes=ISAAC)),
}


def files_of(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix in (".mat", ".png"))


@pytest.mark.parametrize("name", LOADERS)
def test_what_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    make, load = LOADERS[name]
    if name == "shapes3d":
        pytest.importorskip("h5py")
    assert len(load(make(tmp_path))) > 0
    assert "must exist. Got gone" in refusal(lambda: load(tmp_path / "gone"))
    wrong = tmp_path if files_of(make(tmp_path))[0] == make(tmp_path) else files_of(make(tmp_path))[0]
    given = f"a folder, {wrong.name}" if wrong.is_dir() else f"a file, {wrong.name}"
    assert f"must exist. Got {given}." in refusal(lambda: load(wrong))


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("kept", [0, 3, 30, 0.3, 0.6, 0.9])
def test_truncated_files_are_refused_by_name(tmp_path: Path, name: str, kept: float) -> None:
    make, load = LOADERS[name]
    path = make(tmp_path)
    torn = files_of(path)[0]
    whole = torn.read_bytes()
    torn.write_bytes(whole[: int(kept * len(whole)) if kept < 1 else int(kept)])
    assert f"{torn.name} must " in refusal(lambda: load(path).pixels)


@pytest.mark.parametrize("name", LOADERS)
def test_files_of_another_kind_are_refused_by_name(tmp_path: Path, name: str) -> None:
    make, load = LOADERS[name]
    path = make(tmp_path)
    noise = files_of(path)[0]
    for content in (bytes(range(256)) * 40, b"PK\x03\x04" + bytes(500), b"\x89HDF\r\n\x1a\n" + bytes(500)):
        noise.write_bytes(content)
        assert f"{noise.name} must " in refusal(lambda: load(path))


def test_wrong_types_of_pixels_are_refused_by_every_loader(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", images=np.zeros((24, 4, 4, 3), np.float32))
    assert "Images must be bytes" in refusal(lambda: LOADERS["mpi3d"][1](tmp_path / "m.npz"))
    wide = sprites_file(tmp_path / "s.npz", img_idx=np.zeros((6, 4, 4), np.int64))
    assert "Images must be bytes" in refusal(lambda: sprites(wide))
    real_ = shapes_file(tmp_path / "x.h5", np.zeros((len(SHAPES), 4, 4, 3)), SHAPES)
    assert "Images must be bytes" in refusal(lambda: shapes3d(real_))
    folder = cars_folder(tmp_path / "cars", {"car_1": np.zeros((8, 8, 3, 24, 4))})
    assert "im in car_1.mat must be bytes of shape (8, 8, 3, 24, 4). Got double" in refusal(
        lambda: cars3d(folder, part=True)
    )
    folder = norb_folder(tmp_path / "norb")
    matrix_file(folder / f"{norb.STEMS[0]}-dat.mat", np.zeros((4, 2, 6, 6), np.float32))
    assert "-dat.mat must be bytes of shape (image, camera, height, width). Got float32" in refusal(
        lambda: smallnorb(folder, part=True)
    )
    from PIL import Image

    folder = numbered_folder(tmp_path / "falcor", drawn(12, 2, 2, 3))
    Image.fromarray(np.zeros((2, 2), np.uint16)).save(folder / "images" / "000000.png")
    text = refusal(lambda: falcor3d(folder, sizes=FALCOR))
    assert text.startswith("Images must be grey or in colour, with eight bits a channel. Got 000000.png of mode I;16")


def test_missing_tables_of_factors_are_refused_by_every_loader(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", imgs=drawn(3, 2, 2, top=2))
    assert refusal(lambda: dsprites(tmp_path / "d.npz")) == "d.npz must hold imgs, latents_classes. Got imgs."
    np.savez(tmp_path / "s.npz", img_idx=drawn(3, 2, 2, top=2), palette=drawn(2, 3))
    assert "s.npz must hold img_idx, palette, factors, factor_names. Got img" in refusal(
        lambda: sprites(tmp_path / "s.npz")
    )
    folder = two_cars(tmp_path / "cars")
    (folder / "list.txt").unlink()
    assert refusal(lambda: cars3d(folder)) == "The folder cars must hold list.txt, the names of the cars. Got none."
    for kind in ("cat", "info"):
        folder = norb_folder(tmp_path / "norb")
        (folder / f"{norb.STEMS[1]}-{kind}.mat").rename(folder / f"{norb.STEMS[1]}-{kind}.mat.gz")
        text = refusal(lambda folder=folder: smallnorb(folder, part=True))
        assert text == (
            "The folder norb must hold the files of SmallNORB. "
            f"Got no {norb.STEMS[1]}-{kind}.mat, but one packed as .gz."
        )


def test_cars_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    folder = two_cars(tmp_path)
    (folder / "list.txt").write_text("car_7_mesh car_7_mesh")
    assert "different names" in refusal(lambda: cars3d(folder, part=True))
    (folder / "list.txt").write_text("car_7_mesh car_9_mesh")
    text = refusal(lambda: cars3d(folder, part=True))
    assert text == "Every car of list.txt must have its file. Got no car_9_mesh.mat."
    (folder / "list.txt").write_text("")
    assert "between 1 and 183" in refusal(lambda: cars3d(folder, part=True))
    (folder / "list.txt").write_text("car_7_mesh.mat car_2_mesh")
    assert len(cars3d(folder, part=True)) == 192
    savemat(folder / "car_2_mesh.mat", {"im": drawn(6, 6, 3, 24, 4)})
    assert "im in car_2_mesh.mat must be bytes of shape (8, 8, 3, 24, 4)" in refusal(lambda: cars3d(folder, part=True))
    savemat(folder / "car_2_mesh.mat", {"mask": drawn(2, 2)})
    assert refusal(lambda: cars3d(folder, part=True)) == "car_2_mesh.mat must hold im. Got mask."
    assert "size must be a whole number" in refusal(lambda: cars3d(two_cars(tmp_path), part=True, size=0))


def test_matrices_of_smallnorb_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    folder = norb_folder(tmp_path)
    images, cat, info = (folder / f"{norb.STEMS[0]}-{kind}.mat" for kind in ("dat", "cat", "info"))

    def said() -> str:
        text = refusal(lambda: smallnorb(folder, part=True))
        norb_folder(tmp_path)
        return text

    assert "must be bytes of shape (24300, 2, 96, 96), unless part=True. Got uint8 of shape (4, 2, 6, 6)" in refusal(
        lambda: smallnorb(folder)
    )
    matrix_file(images, drawn(4, 2, 6, 6), magic=0x1E3D4C52)
    text = said()
    assert "-dat.mat must begin with one of 0x1E3D4C51 (float32)" in text
    assert text.endswith("Got 0x1E3D4C52.")
    images.write_bytes(images.read_bytes() + b"more")
    assert "-dat.mat must have 312 bytes for shape (4, 2, 6, 6). Got 316." in said()
    images.write_bytes(struct.pack("<5i", 0x1E3D4C55, 9, 1, 1, 1))
    assert "must have 1 to 8 axes, none of them empty. Got 9 axes." in said()
    images.write_bytes(struct.pack("<5i", 0x1E3D4C55, 3, 1, 0, 1))
    assert "Got shape (1, 0, 1)." in said()
    matrix_file(images, drawn(4, 2, 7, 7))
    assert "Training and testing images must have one shape. Got [(2, 6, 6), (2, 7, 7)]." in said()
    matrix_file(cat, np.zeros(3, np.int32))
    assert "-cat.mat must be whole numbers of shape (4,). Got int32 of shape (3,)." in said()
    matrix_file(cat, np.zeros(4, np.float32))
    assert "-cat.mat must be whole numbers of shape (4,). Got float32" in said()
    matrix_file(cat, np.full(4, 5, np.int32))
    assert said() == "Levels of category must be below 5. Got 5."
    matrix_file(info, np.zeros((4, 3), np.int32))
    assert "-info.mat must be whole numbers of shape (4, 4)." in said()
    matrix_file(info, np.full((4, 4), 3, np.int32))
    assert "-info.mat must be even. Got [3]." in said()
    for stem in norb.STEMS:
        (folder / f"{stem}-dat.mat").unlink()
    assert "-dat.mat. Got neither half." in refusal(lambda: smallnorb(folder, part=True))


def test_pictures_with_other_numbers_are_refused(tmp_path: Path) -> None:
    folder = numbered_folder(tmp_path, drawn(12, 2, 2, 3))
    assert "Falcor3D must be 233280; part=True takes fewer. Got 12 images." in refusal(lambda: falcor3d(folder))
    assert "Isaac3D must be 737280; part=True takes fewer. Got 12 images." in refusal(lambda: isaac3d(folder))
    assert "must be numbered below 6. Got 6, 7, 8, 9, 10 and 1 more." in refusal(lambda: isaac3d(folder, sizes=ISAAC))
    assert "Falcor3D must have 7 factors. Got 1 sizes." in refusal(lambda: falcor3d(folder, sizes=(12,)))
    assert "must be a whole number" in refusal(lambda: falcor3d(folder, sizes=(12, 1, 1, 1, 1, 1, 0)))
    (folder / "images" / ".hidden.png").write_bytes(b"")
    assert len(falcor3d(folder, sizes=FALCOR)) == 12
    (folder / "images" / "12.png").write_bytes(b"")
    assert "must be numbered, 000000.png and so on. Got 12.png." in refusal(lambda: falcor3d(folder, sizes=FALCOR))
    (tmp_path / "none").mkdir()
    assert "Got 0 images" in refusal(lambda: falcor3d(tmp_path / "none", part=True))


def test_levels_beyond_the_published_grids_are_refused(tmp_path: Path) -> None:
    far = GRID.copy()
    far[0, 2] = 40
    text = refusal(lambda: dsprites(dsprites_file(tmp_path / "d.npz", classes=far)))
    assert text == "Levels of orientation must be below 40. Got 40."
    hues = np.zeros((11, 6))
    hues[:, 1] = np.arange(11)
    many = shapes_file(tmp_path / "x.h5", drawn(11, 2, 2, 3), hues)
    assert refusal(lambda: shapes3d(many)) == "Levels of wall hue must be below 10. Got 10."
