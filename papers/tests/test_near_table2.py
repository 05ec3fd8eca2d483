"""Disentanglement by autoencoder and ICA: what the cells measure and how settings are chosen."""

from __future__ import annotations

import os
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from near import image_splits
from near import table2 as study
from near.image_splits import Split
from noumena.checks import InputError
from noumena.metrics import mcc
from noumena.nets.conv import ConvDecoder, ConvEncoder
from noumena.studies.study import Study
from noumena.worlds.rooms import Rooms

TINY = {"steps": 3, "batch": 32, "runs": 2, "device": "cpu", "widths": (4, 4), "hidden": 8}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """White squares by side and place, and coloured ones, in the manner of dSprites and Sprites."""
    folder = tmp_path_factory.mktemp("images")
    levels = np.array(list(product(range(1), range(3), range(1), range(8), range(8))))
    images = np.zeros((len(levels), 16, 16), dtype=np.uint8)
    for image, (_, side, _, x, y) in zip(images, levels, strict=True):
        image[y : y + 4 + 2 * side, x : x + 4 + 2 * side] = 1
    np.savez(folder / "white.npz", imgs=images, latents_classes=levels)
    palette = np.array([[0, 0, 0], [255, 90, 0]], dtype=np.uint8)
    names = np.array([f"factor {k}" for k in range(5)])
    np.savez(folder / "coloured.npz", img_idx=images, palette=palette, factors=levels, factor_names=names)
    return {"dSprites": folder / "white.npz", "Sprites": folder / "coloured.npz"}


def laplace(rows, columns, seed=0):
    return np.random.default_rng(seed).laplace(size=(rows, columns))


# ---- data --------------------------------------------------------------------------------------------------------


def test_a_fifth_of_the_images_is_held_out_the_same_every_time(files, monkeypatch):
    first = study.split("dSprites", files["dSprites"], size=16)
    assert [len(part) for part in first] == [154, 38, 38]
    everything = {row.tobytes() for part in (first.train, first.test) for row in part}
    assert len(everything) == 192, "no image is on both sides"
    side = np.sqrt(first.test.sum(axis=1)).round()
    assert (side == 4 + 2 * first.factors[:, 1]).all(), "factors stay with their images"
    monkeypatch.setenv("NOUMENA_DSPRITES", str(files["dSprites"]))
    assert np.array_equal(study.split("dSprites", size=16).test, first.test)
    assert study.split("Sprites", files["Sprites"], size=8).train.shape == (154, 3 * 64)


def test_rooms_are_a_fixed_part_of_the_grid_rendered_from_its_factors():
    first = study.split("rooms", size=8, n_rooms=50)
    assert [len(part) for part in first] == [40, 10, 10]
    assert np.array_equal((255 * first.test).round(), Rooms(8).render(first.factors).flatten(1))
    assert first.test.max() <= 1
    again = study.split("rooms", size=8, n_rooms=50)
    assert np.array_equal(again.train, first.train)
    assert not {row.tobytes() for row in first.test} & {row.tobytes() for row in first.train}
    assert len(np.unique(image_splits.rooms(4, "cpu", 3000)[1], axis=0)) == 3000, "no room is drawn twice"


def test_a_cell_of_the_grid_draws_forty_thousand_rooms_and_another_as_many_as_it_says(monkeypatch):
    asked = []

    def rooms(*given):
        asked.append(given)
        return np.random.default_rng(0).random((60, 3 * 16**2)), np.arange(420).reshape(60, 7) % 2

    monkeypatch.setattr(image_splits, "rooms", rooms)
    cell = next(cell for cell in study.cells(("rooms",)) if cell["method"] == "pixels")
    study.cell(**{**cell, "size": 16}, device="cpu")
    study.cell(**{**cell, "size": 16}, device="cpu", n_rooms=7)
    assert asked == [(16, "cpu", 40_000), (16, "cpu", 7)]


def test_without_files_the_study_says_so_and_runs_only_rooms(tmp_path, monkeypatch):
    monkeypatch.delenv("NOUMENA_DSPRITES", raising=False)
    monkeypatch.setenv("NOUMENA_SPRITES", str(tmp_path / "absent.npz"))
    assert {cell["data"]: study.missing(**cell) for cell in study.cells()} == {
        "dSprites": "dSprites must be named by the variable NOUMENA_DSPRITES. Got nothing.",
        "Sprites": "The file of Sprites must exist. Got absent.npz.",
        "rooms": None,
    }
    one = Study(study, tmp_path)
    assert one.state().missing == len(study.cells(("dSprites", "Sprites"))) == 38
    for data in study.VARIABLES:
        assert one.run(only={"data": data}).rows() == []
    assert [task.parameters[0]["data"] for task in one.tasks()] == ["rooms"] * 19


def test_what_a_cell_cannot_be_made_of_is_refused(files):
    with pytest.raises(InputError, match="method must be one of AE"):
        study.cell("dSprites", "GAN", 0.1, None, files=files)
    with pytest.raises(InputError, match="data must be one of dSprites, Sprites, rooms"):
        study.cell("Shapes3D", "AE", 0.1, None, files=files)


@pytest.mark.skipif("NOUMENA_DSPRITES" not in os.environ, reason="NOUMENA_DSPRITES names no file of dSprites")
def test_the_real_dsprites_have_five_sources():
    images = study.split("dSprites")
    assert images.train.shape[1] == 32 * 32
    assert (np.ptp(images.factors, axis=0) > 0).sum() == 5
    assert len(images.test) == min(10_000, round(0.25 * len(images.train)))


# ---- cells -------------------------------------------------------------------------------------------------------


def test_cells_are_distinct_and_alternate_between_the_data_sets():
    cells = study.cells()
    assert len({tuple(cell.values()) for cell in cells}) == len(cells) == 3 * (4 + 3 + 3 + 3 + 3 + 3)
    assert [cell["data"] for cell in cells[:6]] == ["dSprites", "Sprites", "rooms"] * 2
    assert study.cells(("Sprites",), size=64, steps=7)[0] == {
        "data": "Sprites", "method": "AE", "strength": 0.0, "second": None, "size": 64, "steps": 7,
    }  # fmt: skip


def test_every_method_has_twice_as_many_latents_as_sources_and_one_kind_of_setting():
    images = Split(np.zeros((9, 3 * 16 * 16)), np.zeros((2, 768)), np.array([[0, 1, 5], [1, 1, 2]]))
    asked = {"AE": (0.5, None), "β-VAE": (0.4, None), "β-TCVAE": (1.6, None), "BioAE": (0.1, 0.01),
             "QLAE": (0.3, None)}  # fmt: skip
    found = {m: study.model(m, images, strength=a, second=b, size=16) for m, (a, b) in asked.items()}
    for model in found.values():
        assert (model.n_latents, model.n_models, model.standardise) == (4, 3, False)
        assert model.encoder == ConvEncoder(3, 16)
        assert model.decoder == ConvDecoder(3, 16)
    decays = {m: model.training.weight_decay for m, model in found.items()}
    assert decays == {"AE": 0.5, "β-VAE": 0.0, "β-TCVAE": 0.0, "BioAE": 0.0, "QLAE": 0.3}
    assert found["β-VAE"].beta == 0.4
    assert (found["β-TCVAE"].beta, found["β-TCVAE"].kl) == (1.6, study.KL)
    assert (found["BioAE"].energy, found["BioAE"].weight) == (0.1, 0.01)
    assert (found["QLAE"].n_values, found["QLAE"].quantise, found["QLAE"].commit) == (10, 0.01, 0.01), "as published"


def test_a_cell_of_the_autoencoder_has_a_row_for_every_readout_and_seed(files):
    found = study.cell("dSprites", "AE", 0.1, None, files=files, size=16, **TINY)
    assert [(row["readout"], row["run"]) for row in found] == [
        (readout, run) for readout in ("AE", "AE + ICA", "AE + whitened ICA") for run in (0, 1)
    ]
    assert all(0 <= row[name] <= 1 for row in found for name in (*study.SCORES, "agreement"))
    assert all(row["latents"] == 6 for row in found[:4])
    assert all(row["latents"] == 6 - row["dropped"] for row in found[4:])
    assert found[0]["unexplained"] == found[2]["unexplained"] != found[1]["unexplained"]
    assert found[0]["agreement"] == found[1]["agreement"] != found[2]["agreement"]
    assert found[0]["training seconds"] <= found[0]["all seconds"]
    assert "training seconds" not in found[1]


@pytest.mark.parametrize(("method", "second"), [("β-TCVAE", None), ("BioAE", 0.01), ("QLAE", None)])
def test_a_cell_of_another_method_is_read_as_it_is(method, second, files):
    found = study.cell("Sprites", method, 0.1, second, files=files, size=16, **TINY)
    assert [(row["readout"], row["run"]) for row in found] == [(method, 0), (method, 1)]
    assert found[0]["unexplained"] > 0
    assert found[0]["objective"] != found[1]["objective"]


def test_a_cell_of_rooms_needs_no_file_and_has_twelve_latents():
    row = study.cell("rooms", "QLAE", 0.1, None, size=8, n_rooms=200, **TINY)[0]
    assert (row["readout"], row["latents"]) == ("QLAE", 12)
    assert row["unexplained"] > 0


def test_baselines_have_one_row_and_components_explain_more_than_nothing(files):
    found = {m: study.cell("dSprites", m, None, None, files=files, size=16, steps=9) for m in study.BASELINES}
    assert all(len(rows) == 1 for rows in found.values())
    assert found["pixels"][0]["latents"] == 16
    assert found["PCA"][0]["latents"] == found["PCA + ICA"][0]["latents"] == 6
    assert 0 < found["PCA"][0]["unexplained"] == found["PCA + ICA"][0]["unexplained"] < 0.7
    assert found["PCA"][0]["InfoM"] != found["PCA + ICA"][0]["InfoM"]


def test_scores_of_the_sources_themselves_are_one_and_chance_stands_beside():
    factors = np.stack(np.divmod(np.arange(400) % 16, 4), axis=1)
    found = study.scores(factors, -2.0 * factors[:, ::-1])
    assert [found[name] for name in study.SCORES] == pytest.approx([1, 1, 1], abs=1e-3)
    assert (found["latents"], found["active"]) == (2, 2)
    assert found["InfoE by chance"] < 0.1


class Fixed(nn.Module):
    """A codec that decodes everything as told."""

    mean = torch.zeros(1)

    def __init__(self, decode):
        super().__init__()
        self.decode, self.encode = decode, lambda x: x


def test_unexplained_is_nothing_for_a_perfect_codec_and_all_for_the_mean():
    x = np.random.default_rng(0).random((30, 4)).astype(np.float32) + 5
    assert study.unexplained(Fixed(lambda z: z), x) == 0
    assert study.unexplained(Fixed(lambda z: z.mean(dim=0).expand(len(z), -1)), x) == pytest.approx(1)


def test_coarse_images_are_means_over_blocks_and_channels():
    image = np.zeros((1, 2, 8, 8))
    image[0, 0, 2:4, 4:6] = 1.0
    expected = np.zeros((4, 4))
    expected[1, 2] = 0.5
    assert np.array_equal(study.coarse(image.reshape(1, -1), 8).reshape(4, 4), expected)


# ---- independent components --------------------------------------------------------------------------------------


def test_directions_that_the_decoder_does_not_heed_are_dropped_however_latents_are_turned():
    generator = torch.Generator().manual_seed(0)
    J = torch.randn(20, 7, 4, generator=generator, dtype=torch.float64) * torch.tensor([3.0, 1.0, 0.02, 0.0])
    turn = torch.linalg.qr(torch.randn(4, 4, generator=generator, dtype=torch.float64)).Q
    plain, turned = study.heeded(J), study.heeded(J @ turn)
    assert plain.directions.shape == turned.directions.shape == (4, 2)
    np.testing.assert_allclose(plain.values, turned.values, atol=1e-6)
    np.testing.assert_allclose(
        plain.directions @ plain.directions.T,
        turn.numpy() @ turned.directions @ turned.directions.T @ turn.numpy().T,
        atol=1e-6,
    )
    assert study.heeded(J, share=1e-4).directions.shape == (4, 3)
    expected = np.linalg.svd(J.flatten(0, 1).numpy() / np.sqrt(20), compute_uv=False)
    np.testing.assert_allclose(plain.values, expected, atol=1e-6)


def test_components_of_unseen_rows_are_the_sources_whitened_within_the_directions_given():
    sources, fresh = laplace(3000, 2), laplace(500, 2, seed=1)
    mixing = np.array([[1.0, 0.5], [0.0, 0.1]])
    noise = 50 * np.random.default_rng(2).normal(size=(3500, 1))  # a latent that the decoder does not heed
    seen, unseen = np.c_[sources @ mixing, noise[:3000]], np.c_[fresh @ mixing, noise[3000:]]
    code, row = study.unmixed(seen, unseen, np.eye(3)[:, :2])
    assert code.shape == (500, 2)
    assert mcc(fresh, code).score > 0.99
    assert row["ICA at rest"]
    assert row["ICA steps"] > 0


def test_without_whitening_latents_are_turned_in_any_unit_and_no_more():
    sources, fresh = laplace(3000, 2), laplace(500, 2, seed=1)
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    small, large = (study.unmixed(unit * sources @ turn, unit * fresh @ turn)[0] for unit in (0.001, 1000.0))
    assert mcc(fresh, small).score > 0.99
    np.testing.assert_allclose(np.abs(small), np.abs(large), rtol=1e-3, atol=1e-4)
    lengths = [np.linalg.norm(rows - rows.mean(axis=0), axis=1) for rows in (small, fresh)]
    assert np.corrcoef(*lengths)[0, 1] > 0.999, "distances stay in proportion"


# ---- choosing and comparing --------------------------------------------------------------------------------------


def rows_of(readout, strength, scores, agreement, unexplained, **more):
    return [
        {"data": "dSprites", "method": readout, "readout": readout, "strength": strength, "second": None, "run": k,
         "InfoM": score, "InfoE": 0.5, "InfoC": 0.25, "agreement": agreement, "unexplained": unexplained, **more}
        for k, score in enumerate(scores)
    ]  # fmt: skip


ROWS = [
    *rows_of("AE + ICA", 0.1, (0.6, 0.8), 0.7, 0.10),
    *rows_of("AE + ICA", 0.5, (0.5, 0.5), 0.9, 0.19),
    *rows_of("AE + ICA", 2.0, (0.99, 0.99), 0.99, 0.21),
]


def test_settings_are_chosen_with_labels_or_by_agreement_among_those_that_reconstruct():
    assert {row["strength"] for row in study.chosen(ROWS, "InfoM")} == {0.1}
    assert {row["strength"] for row in study.chosen(ROWS, "agreement")} == {0.5}
    assert study.chosen(rows_of("PCA", None, (0.3,), None, 0.4), "agreement")[0]["InfoM"] == 0.3
    assert study.chosen([], "InfoM") == []


def test_the_mean_over_seeds_decides_and_not_the_luckiest_seed():
    lucky = [*rows_of("AE", 0.1, (0.9, 0.1), 0.5, 0.1), *rows_of("AE", 0.5, (0.6, 0.6), 0.5, 0.1)]
    assert {row["strength"] for row in study.chosen(lucky, "InfoM")} == {0.5}


def test_both_choices_stand_side_by_side_above_the_published_table():
    text = study.compare(ROWS)
    line = next(line for line in text.splitlines() if line.startswith("AE + ICA")).split("  ")
    cells = [part.strip() for part in line if part.strip()]
    assert cells[1:3] == ["0.1", "0.700 ± 0.141 (2)"]
    assert cells[5:7] == ["0.5", "0.500 ± 0.000 (2)"]
    assert cells[9:11] == ["0.900 ± 0.000 (2)", "0.190 ± 0.000 (2)"]
    assert "0.65 0.83 0.40  0.79 0.99 0.52  0.44 0.66 0.31  0.71 0.83 0.33  0.64 0.82 0.43" in text
    assert "QLAE       –               –  " in text, "the published table has no row of it"
    rows = {line.split("  ")[0] for line in study.compare([]).split("rooms\n")[1].splitlines()}
    assert {*study.ORDER} <= rows, "what has not been run is shown as missing"
    assert "– " in study.compare([])


def test_a_study_runs_cells_on_the_files_that_are_here_writes_rows_and_resumes(files, tmp_path, monkeypatch):
    monkeypatch.setenv("NOUMENA_DSPRITES", str(files["dSprites"]))
    monkeypatch.delenv("NOUMENA_SPRITES", raising=False)
    asked = {"strength": None, "second": None, "size": 16, "steps": 9}
    cells = [{"data": d, "method": m, **asked} for m in ("PCA", "pixels") for d in ("dSprites", "Sprites")]
    monkeypatch.setattr(study, "cells", lambda: cells)
    one, told = Study(study, tmp_path), []
    first = one.run(devices=("cpu",), tell=told.append).rows()
    assert [(row["data"], row["readout"], row["size"]) for row in first] == [
        ("dSprites", "PCA", 16), ("dSprites", "pixels", 16),
    ]  # fmt: skip
    assert [(p.done, p.all, p.failed) for p in told] == [(1, 2, 0), (2, 2, 0)]
    assert (one.state().finished, one.state().missing) == (2, 2)
    monkeypatch.setattr(study, "split", lambda *_, **__: pytest.fail("a cell that is there ran again"))
    assert one.run(tell=told.append).rows() == first
    assert len(told) == 2
    assert f"{first[0]['InfoM']:.3f} (1)" in one.compare()
