"""Images through the command: fitted, described by images and a certificate, and refused in one sentence."""

import json
from pathlib import Path

import command_runs
import numpy as np
import pytest
from command_runs import here as here

import noumena as nm
from noumena.cli.images import channels_first, conv_nets, read_images
from noumena.estimators.images import UNet, VectorQuantised
from noumena.nets import ConvDecoder, ConvEncoder, ResidualEncoder

QUICK = ["--steps", "4", "--batch-size", "16", "--latents", "2"]
FILES = {"config.json", "weights.safetensors", "history.csv", "structure.csv"}
PICTURES = {"report.html", "traversals.png", "swaps.png", "certificate.json"}


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """A square of light that moves to the right and one that grows lighter, (image, channel, height, width)."""
    rng = np.random.default_rng(0)
    out = np.zeros((60, 3, 8, 8), dtype=np.uint8)
    for image, place, light in zip(out, rng.integers(0, 5, 60), rng.integers(60, 256, 60), strict=True):
        image[:, 1:4, place : place + 3] = 255
        image[0, 5:, :] = light
    return out


@pytest.fixture(scope="module")
def saved(images, tmp_path_factory) -> Path:
    """A tiny model saved from Python."""
    nets = {
        name: kind(3, 8, widths=(4,), hidden=8) for name, kind in (("encoder", ConvEncoder), ("decoder", ConvDecoder))
    }
    training = nm.Training(steps=6, batch_size=16)
    model = nm.VAE(3, **nets, standardise=False, n_models=2, training=training, random_state=0)
    out = tmp_path_factory.mktemp("runs") / "tiny"
    nm.save(model.fit(images.reshape(60, -1)), out)
    return out


def assert_refused(done, words: str) -> None:
    assert words in command_runs.assert_refused(done)


def test_report_shows_the_pictures_and_the_certificate_of_a_run_without_its_data(saved, here):
    done = here("report", saved)
    assert done.returncode == 0, done.stderr
    assert {p.name for p in saved.iterdir()} == FILES | PICTURES
    assert "How much each latent moves the picture" in done.stdout
    assert "Certificate of a decoder: Structure(192 observed × 3 latents" in done.stdout
    page = (saved / "report.html").read_text()
    assert "What the latents do to the picture" in page
    assert "Decoded from latents of training rows" in page
    assert "Which latents observations depend on" in page
    assert nm.certify(nm.load(saved)).headline in page
    assert "Do the seeds find the same latents?" in page
    assert len(page) < 400_000


def test_report_speaks_json_of_pictures_and_of_what_is_certified(saved, here):
    facts = json.loads(here("report", saved, "--json").stdout)
    assert facts["shape"] == [3, 8, 8]
    assert facts["pictures"] == ["traversals.png", "swaps.png"]
    moves = list(facts["moves"].values())
    assert set(facts["moves"]) == {"z1", "z2", "z3"}
    assert moves == sorted(moves, reverse=True)
    kept = json.loads((saved / "certificate.json").read_text())
    assert (len(kept["observed"]), len(kept["support"])) == (192, 192)
    assert facts["certificate"] == {k: v for k, v in kept.items() if k not in ("observed", "support")}
    assert facts["certificate"]["answer"] == nm.certify(nm.load(saved)).answer


def test_the_page_of_a_certified_run_counts_pixels_and_does_not_list_them(saved, here, tmp_path):
    done = here("certify", saved, "--out", tmp_path / "told")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "told" / "report.html").read_text()
    S = nm.load(saved).structure_
    assert f"192 have {len(S.kinds)} sets" in page
    assert sum(f">{name}<" in page for name in S.observed) < 40


def test_a_decoder_that_samples_is_shown_by_its_pictures_and_a_sentence(tmp_path, here):
    plan = nm.Training(steps=2, batch_size=8)
    model = nm.EncDiff(
        2,
        autoencoder=VectorQuantised(1, 8, widths=(4,), blocks=1, depth=2, codes=4),
        encoder=ResidualEncoder(1, 8, widths=(4,), blocks=1),
        unet=UNet(2, 4, widths=(4,), heads=2, context=4),
        first=plan,
        sampling=1,
        training=plan,
        random_state=0,
    )
    rows = np.random.default_rng(0).random((16, 64), dtype=np.float32)
    nm.save(model.fit(rows), tmp_path / "run")
    done = here("report", tmp_path / "run", "--shape", "1,8,8")
    assert done.returncode == 0, done.stderr
    assert "No certificate is read off a decoder that samples" in done.stdout
    assert not (tmp_path / "run" / "certificate.json").exists()
    page = (tmp_path / "run" / "report.html").read_text()
    assert "No certificate is read off a decoder that samples" in page
    assert "EncDiff with 2 latents on 64 observations" in page


def test_a_given_shape_comes_before_that_of_the_networks(saved, here):
    assert json.loads(here("report", saved, "--shape", "1,12,16", "--json").stdout)["shape"] == [1, 12, 16]


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("3,64", "--shape must be channels, height and width, such as 3,64,64. Got 3,64"),
        ("a,8,8", "--shape must be channels, height and width"),
        ("2,8,12", "channels (1 or 3), height and width. Got [2, 8, 12]"),
        ("3,4,4", "must have 48 pixels. Got 192 observations"),
    ],
)
def test_a_wrong_shape_is_one_sentence_and_exit_code_2(saved, here, shape, words):
    assert_refused(here("report", saved, "--shape", shape), words)


def test_fit_takes_bytes_and_keeps_them_as_pixels(images, tmp_path, here):
    np.save(tmp_path / "x.npy", images)
    done = here("fit", tmp_path / "x.npy", "--image", *QUICK, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert {p.name for p in (tmp_path / "run").iterdir()} == FILES | PICTURES | {"data.json", "latents.csv"}
    said = "Read 60 pictures in colour of 8 × 8 pixels."
    assert done.stderr.splitlines()[0] == said
    kept = json.loads((tmp_path / "run" / "data.json").read_text())
    assert kept == {"file": "x.npy", "pictures": 60, "channels": 3, "height": 8, "width": 8, "done": [said]}
    assert said in (tmp_path / "run" / "report.html").read_text()
    assert len((tmp_path / "run" / "latents.csv").read_text().splitlines()) == 61
    model = nm.load(tmp_path / "run")
    assert model.decoder == ConvDecoder(3, 8, (32,))
    assert len(model.seeds_) == 1
    assert set(model.models_[0].scale.tolist()) == {255.0}
    assert model.transform(images.reshape(60, -1)).shape == (60, 2)


def test_fit_takes_a_folder_of_pictures_and_channels_last(images, tmp_path, here):
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "pictures").mkdir()
    for k, one in enumerate(images[:12]):
        image.fromarray(np.moveaxis(one, 0, -1)).save(tmp_path / "pictures" / f"{k:03}.png")
    np.savez(tmp_path / "x.npz", x=np.moveaxis(images[:12], 1, -1), y=np.zeros(3))
    rows, shape = read_images(tmp_path / "pictures")
    again, same = read_images(tmp_path / "x.npz", key="x")
    assert shape == same == (3, 8, 8)
    np.testing.assert_array_equal(rows, images[:12].reshape(12, -1))
    np.testing.assert_array_equal(again, rows)
    done = here("fit", tmp_path / "pictures", "--image", *QUICK, "--out", tmp_path / "run", "--json", "--sparsity", "0")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["shape"] == [3, 8, 8]


def test_further_frames_of_moving_pictures_are_said_to_be_left_out(tmp_path, here, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr("noumena.cli.images.IN_MEMORY", 0)
    rng = np.random.default_rng(0)
    (tmp_path / "pictures").mkdir()
    for k in range(6):
        first, *others = (image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)) for _ in range(3))
        ending, more = (".tif", {"save_all": True, "append_images": others}) if k < 2 else (".png", {})
        first.save(tmp_path / "pictures" / f"{k}{ending}", **more)
    done = here("fit", tmp_path / "pictures", "--image", *QUICK, "--sparsity", 0, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[:2] == [
        "Read 6 grey pictures of 8 × 8 pixels.",
        "Left out all but the first frame of 2 files: 0.tif, 1.tif.",
    ]
    assert len((tmp_path / "run" / "latents.csv").read_text().splitlines()) == 7


def test_pictures_of_several_sizes_are_refused_with_a_way_out(tmp_path, here):
    image = pytest.importorskip("PIL.Image")
    for k, side in enumerate((8, 12)):
        image.fromarray(np.zeros((side, side), np.uint8)).save(tmp_path / f"{k}.png")
    assert_refused(
        here("fit", tmp_path, "--image", *QUICK, "--out", tmp_path / "run"),
        "Images must all be 8 × 8 pixels like 0.png. Got 12 × 12 in 1.png; resize them first, or give a size.",
    )


def test_numbers_between_0_and_1_and_grey_images_are_taken_too(images):
    found = channels_first(images[:, 0] / 255)
    assert (found.shape, found.dtype) == ((60, 1, 8, 8), np.float32)
    np.testing.assert_allclose(found[:, 0] * 255, images[:, 0], atol=1e-4)


def test_a_folder_too_large_to_hold_is_read_when_asked_for(images, tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    for k, one in enumerate(images[:3]):
        image.fromarray(np.moveaxis(one, 0, -1)).save(tmp_path / f"{k:03}.png")
    monkeypatch.setattr("noumena.cli.images.IN_MEMORY", 3 * 192 - 1)
    source, shape = read_images(tmp_path)
    assert shape == (3, 8, 8)
    assert not isinstance(source, np.ndarray)
    np.testing.assert_array_equal(np.asarray(source.pictures(np.array([2]))), images[2].reshape(1, -1))


@pytest.mark.parametrize(("side", "count"), [(8, 1), (16, 2), (64, 4), (128, 5), (28, 2), (6, 1)])
def test_networks_halve_the_picture_to_a_side_of_four_or_an_odd_one(side, count):
    nets = conv_nets((3, side, side))
    assert len(nets["decoder"].widths) == len(nets["encoder"].widths) == count
    assert nets["encoder"].widths == (32, 32, 64, 64, 64)[:count]


def test_the_help_shows_how_images_are_fitted_and_reported(here):
    assert "--image --latents 10" in here("fit", "--help").stdout
    assert "--shape 3,64,64" in here("report", "--help").stdout
