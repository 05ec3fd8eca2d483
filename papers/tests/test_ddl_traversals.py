"""Pictures of models with few dependencies: what their lines say is what is seen, and files are small."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
import torch

from ddl import greys as files
from ddl import images
from ddl import traversals as study
from ddl.traversals import Data
from noumena.checks import InputError
from noumena.estimators.factor_vae import FactorVAE
from noumena.estimators.images.enc_diff import EncDiff
from noumena.estimators.images.unet import UNet
from noumena.estimators.images.vector_quantised import VectorQuantised
from noumena.estimators.loop import Training
from noumena.nets.residual import ResidualEncoder
from noumena.report import png

KINDS = ("traversals", "swaps", "interpolations", "maps")

# ---- grey pictures -----------------------------------------------------------------------------------------------


def written(path, array, axes=None):
    head = bytes((0, 0, 8, array.ndim if axes is None else axes)) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(head + array.tobytes()))


def drawn(count, seed):
    """Bars of several widths, places and classes."""
    rng = np.random.default_rng(seed)
    x = np.zeros((count, 28, 28), dtype=np.uint8)
    for image, (left, width) in zip(x, rng.integers(2, 12, size=(count, 2)), strict=True):
        image[8:20, left : left + width] = rng.integers(60, 255)
    return x, np.arange(count, dtype=np.uint8) % 10


@pytest.fixture
def fashion(tmp_path, monkeypatch):
    """The four files of Fashion-MNIST, in small; nothing is named by the environment."""
    for variable in files.VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)
    for part, (count, seed) in {"train": (200, 0), "t10k": (60, 1)}.items():
        x, y = drawn(count, seed)
        written(tmp_path / f"{part}-images-idx3-ubyte.gz", x)
        written(tmp_path / f"{part}-labels-idx1-ubyte.gz", y)
    return tmp_path / "train-images-idx3-ubyte.gz"


def test_footwear_is_taken_out_of_the_four_files_and_stays_with_its_classes(fashion, monkeypatch):
    found = files.greys(fashion)
    assert (found.name, found.train.shape, found.test.shape) == ("footwear", (60, 784), (18, 784))
    assert found.train.dtype == np.uint8
    assert found.classes.tolist() == [5, 7, 9] * 6
    x, y = drawn(60, 1)
    assert np.array_equal(found.test, x[np.isin(y, (5, 7, 9))].reshape(18, -1))
    monkeypatch.setenv("NOUMENA_FASHION", str(fashion.with_name("t10k-labels-idx1-ubyte.gz")))
    assert np.array_equal(files.greys().train, found.train), "any of the four files names all"


def test_an_archive_of_digits_is_taken_where_there_is_no_fashion_and_all_digits_with_it(tmp_path, fashion, monkeypatch):
    (x, y), (x_test, y_test) = drawn(50, 0), drawn(20, 1)
    np.savez(tmp_path / "digits.npz", x_train=x, y_train=y, x_test=x_test, y_test=y_test)
    found = files.greys(mnist=tmp_path / "digits.npz")
    assert (found.name, len(found.train), len(found.test)) == ("MNIST", 50, 20)
    monkeypatch.setenv("NOUMENA_MNIST", str(tmp_path / "digits.npz"))
    assert np.array_equal(files.greys().test, x_test.reshape(20, -1))
    assert files.greys(fashion).name == "footwear", "Fashion-MNIST goes first"
    assert len(files.greys(tmp_path / "digits.npz").train) == 15, "Fashion-MNIST may be an archive, too"


def test_files_that_are_not_what_they_should_be_are_refused(fashion, tmp_path):
    with pytest.raises(InputError, match=r"--mnist or the variable NOUMENA_FASHION or NOUMENA_MNIST. Got none"):
        files.greys()
    with pytest.raises(InputError, match=r"The file of Fashion-MNIST must exist. Got absent\.gz"):
        files.greys(tmp_path / "absent.gz")
    np.savez(tmp_path / "other.npz", pixels=np.zeros(3))
    with pytest.raises(InputError, match=r"must hold x_train, y_train, x_test, y_test. Got pixels"):
        files.greys(mnist=tmp_path / "other.npz")
    labels = tmp_path / "t10k-labels-idx1-ubyte.gz"
    content = labels.read_bytes()
    written(labels, np.zeros(59, dtype=np.uint8))
    with pytest.raises(InputError, match=r"28 × 28 bytes with a label each. Got uint8 \(60, 28, 28\) and labels \(59"):
        files.greys(fashion)
    written(labels, np.zeros(60, dtype=np.uint8), axes=2)
    with pytest.raises(InputError, match="must be an IDX file of bytes with 1 axes"):
        files.greys(fashion)
    labels.write_bytes(gzip.compress(gzip.decompress(content)[:-5]))
    with pytest.raises(InputError, match=r"must hold the 60 bytes that it announces. Got 55"):
        files.greys(fashion)
    labels.write_bytes(content[:-9])
    with pytest.raises(InputError, match=r"t10k-labels-idx1-ubyte.gz must be a whole gzip file"):
        files.greys(fashion)
    labels.unlink()
    with pytest.raises(InputError, match=r"must lie in one folder. Got no t10k-labels"):
        files.greys(fashion)


def test_measures_of_a_picture_follow_its_width_height_and_lean_and_not_its_light_or_place():
    x = np.zeros((4, 28, 28), dtype=np.uint8)
    x[0, 10:14, 6:22] = x[1, 6:22, 10:14] = 200
    x[2] = np.roll(x[0] // 4, (3, -4), axis=(0, 1))
    for row in range(6, 22):
        x[3, row, row : row + 2] = 200
    light, width, height, lean = files.measures(x.reshape(4, -1)).T
    assert light[0] == pytest.approx(64 * 200 / 255 / 784) == pytest.approx(4 * light[2])
    assert width[0] == pytest.approx(np.std(np.arange(16))) == pytest.approx(height[1])
    assert width[2] == pytest.approx(width[0])
    assert lean == pytest.approx([0, 0, 0, 1])
    assert np.isfinite(files.measures(np.zeros((1, 784), dtype=np.uint8))).all()


# ---- numbers -----------------------------------------------------------------------------------------------------


def test_shares_explained_are_those_of_a_regression_on_indicators():
    rng = np.random.default_rng(0)
    levels = np.column_stack([rng.integers(3, size=200), 10 * rng.integers(5, size=200)])
    z = np.column_stack([np.cos(levels[:, 0]) + 0.3 * rng.normal(size=200), rng.normal(size=200), np.full(200, 2.0)])
    found = study.explained(z, levels)
    for k, column in enumerate(levels.T):
        design = (column[:, None] == np.unique(column)).astype(float)
        rest = z[:, :2] - design @ np.linalg.lstsq(design, z[:, :2], rcond=None)[0]
        np.testing.assert_allclose(found[:2, k], 1 - rest.var(axis=0) / z[:, :2].var(axis=0), atol=1e-12)
    assert found[2].tolist() == [0, 0], "a dead latent is explained by nothing"
    assert found[0, 0] > 0.7 > 0.1 > found[1].max()


def test_a_dead_move_has_no_share_and_a_still_line_no_detour():
    assert study.alone(np.zeros((3, 2)), 0) == 0
    still = np.full((2, 4, 1, 2, 2), 9, dtype=np.uint8)
    assert study.detour(still) == 1
    still[1] = np.array([0, 20, 40, 60], dtype=np.uint8)[:, None, None, None]
    assert study.detour(still) == pytest.approx(1), "lines that go nowhere do not count"


def test_files_are_made_to_fit_by_fewer_shades_and_only_as_few_as_needed():
    sheet = np.random.default_rng(0).integers(0, 256, size=(60, 60, 3), dtype=np.uint8)
    whole = len(png.encode(sheet))
    assert np.array_equal(study.slim(sheet, whole), sheet)
    small = study.slim(sheet, whole - 1)
    assert len(np.unique(small)) == 129
    assert np.abs(small.astype(int) - sheet).max() == 1
    assert len(png.encode(study.slim(sheet, 7 * whole // 10))) <= 7 * whole // 10


# ---- models and pictures -----------------------------------------------------------------------------------------


class Squares:
    """A model whose three latents are the light of three quarters of a picture; the second one drags the third."""

    best_ = 0

    def __init__(self, drag=0.0):
        self.drag = drag
        self.models_ = [self]
        self.mean, self.scale = torch.zeros(1), torch.full((1,), 255.0)

    def encode(self, x):
        return (x[:, :3] / 255).float()

    def decode(self, z):
        third = z[:, 2] + self.drag * z[:, 1]
        return 255 * torch.stack([z[:, 0], z[:, 1], third, torch.zeros_like(third)], dim=1)

    decoder_ = property(lambda self: self.decode)

    def transform(self, x):
        return self.encode(torch.as_tensor(x)).numpy()

    def inverse_transform(self, z):
        return self.decode(torch.as_tensor(z)).numpy()


def squares(rows=120):
    levels = np.random.default_rng(0).integers(0, (3, 5, 2), size=(rows, 3))
    x = np.zeros((rows, 4), dtype=np.uint8)
    x[:, :3] = levels * (30, 30, 30)
    return Data("squares", x, x, levels, ("first", "second", "third"), (1, 2, 2))


def test_lines_say_which_factor_a_latent_follows_what_a_swap_moves_and_where_pixels_move():
    strips, swaps, lines, maps = study.gallery(Squares(), squares(), "Squares")
    assert strips.name == "squares-traversals.png"
    assert strips.line.startswith("traversals: z2 second 1.00, then "), "what moves the picture most goes first"
    assert "z1 first 1.00" in strips.line
    assert "z3 third 1.00" in strips.line
    assert "3 of 3 latents move the picture; 0.000 of the variance is not rebuilt." in strips.line
    assert strips.sheet.shape == (3 * 4 - 2, study.FRAMES * 4 - 2)
    assert swaps.line.endswith("encoded again: z2 1.00, z1 1.00, z3 1.00.")
    assert swaps.sheet.shape == (5 * 4 - 2, study.FRAMES * 4 - 2)
    assert lines.line == "interpolations: the way is 1.00 times the straight one."
    assert maps.line.endswith("pixels: z2 0.250, z1 0.250, z3 0.250.")
    assert maps.sheet.shape == (2, 3 * 4 - 2, 3), "maps are coloured"
    dark = [maps.sheet[:, k : k + 2].sum(axis=2).argmin() for k in (0, 4, 8)]
    assert dark == [1, 0, 2], "a map's dark pixel is its latent's"


def test_a_latent_that_drags_another_is_found_out_by_the_swap_and_not_by_its_name():
    strips, swaps, _, maps = study.gallery(Squares(drag=1.0), squares(), "Squares")
    assert "z2 second 1.00" in strips.line
    _, second, third = squares().levels.var(axis=0)
    assert f"z2 {third / (second + third):.2f}" in swaps.line, "each in its own spread"
    assert "z1 1.00" in swaps.line
    assert "z2 0.250" in maps.line, "half of two equal pixels is one"


def test_a_diffusion_model_is_shown_however_little_it_was_trained():
    x, classes = drawn(40, 0)
    x = np.ascontiguousarray(x[:, 4:20, 2:18]).reshape(40, -1)
    model = EncDiff(
        3, autoencoder=VectorQuantised(1, 16, widths=(4, 4), blocks=1, depth=2, codes=8), sampling=2, random_state=0,
        encoder=ResidualEncoder(1, 16, widths=(4, 4), blocks=1), unet=UNet(2, 4, widths=(4, 8), heads=2, context=4),
        first=Training(steps=2, batch_size=8), training=Training(steps=2, batch_size=8, average=0.9),
    ).fit(x)  # fmt: skip
    levels = np.column_stack([classes, classes // 2]).astype(np.int64)
    found = study.gallery(model, Data("bars", x, x, levels, ("class", "half"), (1, 16, 16)), "bars")
    assert [picture.name for picture in found] == [f"bars-{kind}.png" for kind in KINDS]
    assert all(picture.sheet.dtype == np.uint8 for picture in found)
    far = study.Bounded(Squares()).inverse_transform(np.array([[9.0, -9.0, 0.5]], dtype=np.float32))
    assert far.tolist() == [[255, 0, 127.5, 0]], "the light has two ends"


def test_models_have_dependency_sparsity_and_the_share_of_their_steps():
    flow = study.flow(share=0.01, device="cpu")
    assert (flow.training.steps, flow.n_latents, flow.standardise) == (60, study.LATENTS, False)
    assert "DependencySparsity" in repr(flow.penalty)
    with pytest.raises(InputError, match="model must be one of Flow, FactorVAE, EncDiff"):
        study.fitted("GAN", squares())


@pytest.mark.parametrize(("method", "kind"), [("FactorVAE", FactorVAE), ("EncDiff", EncDiff)])
def test_models_of_rooms_are_those_of_table_1(method, kind, monkeypatch):
    asked = []
    monkeypatch.setattr(kind, "fit", lambda self, x: asked.append((self, x)))
    data = squares()._replace(shape=(3, 16, 16))
    found = study.fitted(method, data, share=0.001, device="cpu")
    assert asked[0][0] is found
    assert asked[0][1] is data.train
    assert isinstance(found, kind)
    assert (found.n_models, found.training.steps) == (1, max(1, round(0.001 * images.STEPS[method])))
    assert "DependencySparsity" in repr(found.penalty)


def test_the_command_writes_small_pictures_with_a_line_each_and_reads_kept_models(
    fashion, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(images, "ROOMS", 60)
    monkeypatch.setattr(study, "HIDDEN", (8,))
    monkeypatch.setattr(study, "BLOCKS", 2)
    study.rooms.cache_clear()
    out, kept = tmp_path / "out", tmp_path / "kept"
    arguments = ["--models", "Flow", "FactorVAE", "--fashion", str(fashion), "--size", "16", "--share", "0.0005",
                 "--device", "cpu", "--kept", str(kept), "--out", str(out)]  # fmt: skip
    study.main(arguments)
    study.rooms.cache_clear()
    said = capsys.readouterr().out
    titles = ("footwear-flow", "rooms-factorvae")
    assert {p.name for p in out.glob("*.png")} == {f"{title}-{kind}.png" for title in titles for kind in KINDS}
    assert all(p.stat().st_size <= 60_000 for p in out.iterdir())
    for title in titles:
        lines = (out / f"{title}.txt").read_text()
        assert lines in said
        assert [line.split(" ")[0] for line in lines.splitlines()] == [f"{title}-{kind}.png" for kind in KINDS]
    assert "orientation" in said or "hue" in said or "scale" in said or "shape" in said
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    monkeypatch.setattr(study.Flow, "fit", lambda *_: pytest.fail("a model that is there was trained again"))
    study.main([*arguments[:2], *arguments[3:]])
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before


def test_without_files_the_flow_is_skipped_in_a_sentence(tmp_path, monkeypatch, capsys):
    for variable in files.VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)
    study.main(["--models", "Flow", "--out", str(tmp_path)])
    assert capsys.readouterr().out.startswith("Skipped Flow. Pictures must be named by --fashion, --mnist")
    assert not list(tmp_path.iterdir())
