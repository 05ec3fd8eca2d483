"""Pairs of models: losses checked by hand, networks as their file has them, rows that repeat the audit, tables."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from near import encoders, pairs
from near.encoders import VICReg, covariance_loss, moved, variance_loss, vicreg, view
from noumena.audits import audit
from noumena.checks import InputError
from noumena.estimators import Training
from noumena.guarantees.agreement import efficiency
from noumena.nets import MLP
from noumena.studies import rows as tables
from noumena.studies.study import Study

TINY = {"size": 16, "widths": (4, 4), "steps": 6, "batch": 16, "runs": 2, "audited": 324, "device": "cpu"}


# ---- self-supervised encoders ------------------------------------------------------------------------------------


def codes(rows=50, columns=4, seed=0):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def test_the_covariance_term_is_that_of_numpy_without_its_diagonal():
    z = codes() @ codes(4, 4, 1)
    C = np.cov(z.numpy().T)
    expected = (C**2).sum() - (np.diag(C) ** 2).sum()
    assert float(covariance_loss(z)) == pytest.approx(expected / 4, rel=1e-4)


def test_white_codes_cost_nothing_and_shrunken_or_mixed_ones_do():
    white = torch.linalg.qr(codes() - codes().mean(dim=0)).Q * 7
    assert float(vicreg(white, white)[0]) == pytest.approx(0, abs=1e-4)
    assert float(variance_loss(0.01 * white)) > 0.9
    assert float(covariance_loss(white @ codes(4, 4, 1))) > 0.1
    loss, terms = vicreg(white, -0.1 * white)
    weights = {"invariance": 25, "variance": 25, "covariance": 1}
    assert float(loss) == pytest.approx(sum(weights[name] * float(term) for name, term in terms.items()))
    assert float(terms["variance"]) == pytest.approx(float(variance_loss(0.1 * white)))


def test_images_move_by_whole_pixels_as_slices_do():
    images = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(0))
    found = moved(images, torch.tensor([[2.0, -1.0], [0.0, 0.0]]))
    torch.testing.assert_close(found[0, 2:, :-1], images[0, :-2, 1:])
    assert found[0, :2].abs().sum() == found[0, :, -1].abs().sum() == 0
    torch.testing.assert_close(found[1], images[1])


def test_a_view_has_a_hole_and_its_own_brightness():
    x = torch.ones(1, 64)
    seen = view(x, torch.tensor([[0.5, 0.5, 0.25, 0.75, 0.5]])).reshape(8, 8)
    assert int((seen == 0).sum()) == 4
    assert seen[1:3, 5:7].sum() == 0
    assert float(seen.max()) == pytest.approx(0.75)
    shifted = view(x, torch.tensor([[1.0, 0.5, 9.0, 9.0, 0.0]])).reshape(8, 8)
    assert shifted[:2].sum() == 0
    assert float(shifted[2:].min()) == pytest.approx(1)


def test_training_lowers_the_loss_and_every_weight_takes_part():
    x = np.random.default_rng(0).random((80, 16)).astype(np.float32)
    plan = Training(steps=60, batch_size=32, learning_rate=3e-3)
    model = VICReg(3, encoder=MLP((8,)), n_models=2, training=plan, random_state=0).fit(x)
    first, last = (np.mean(model.history_.values["objective"][k]) for k in (0, -1))
    assert last < 0.9 * first
    assert model.transform(x).shape == (80, 3)
    objective = model.models_[0].requires_grad_(True)
    draws = objective.draws(80, torch.Generator().manual_seed(0))
    loss, _ = objective(torch.as_tensor(x), draws, 1.0)
    loss.backward()
    still = {name for name, p in objective.named_parameters() if p.grad is None or not p.grad.abs().sum()}
    assert still <= {"expander.2.bias"}  # shifts change nothing


def test_the_two_views_of_an_image_differ_and_follow_from_the_seed():
    objective = encoders.VICRegObjective(nn.Identity(), nn.Identity(), torch.zeros(16), torch.ones(16))
    one, two = (objective.draws(5, torch.Generator().manual_seed(3))["views"] for _ in range(2))
    assert torch.equal(one, two)
    a, b = one.chunk(2, dim=1)
    assert not torch.equal(a, b)
    _, terms = objective(torch.rand(5, 16), {"views": torch.cat([a, a], dim=1)}, 1.0)
    assert float(terms["invariance"]) == 0


def test_an_encoder_alone_has_no_way_back_and_wants_square_images():
    plan = Training(steps=1, batch_size=8)
    model = VICReg(2, encoder=MLP((4,)), training=plan, random_state=0).fit(np.random.default_rng(0).random((20, 9)))
    with pytest.raises(InputError, match="must have a decoder"):
        model.inverse_transform(np.zeros((1, 2)))
    with pytest.raises(InputError, match=r"flat square images. Got 8 columns"):
        VICReg(2, training=plan).fit(np.random.default_rng(0).random((20, 8)))


# ---- data --------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Files in the layout of the real ones: networks of the real form, and squares of two sizes in three shades."""
    rng = np.random.default_rng(0)
    weights = {}
    for k in range(pairs.MEMBERS):
        for j, (inputs, outputs) in enumerate(zip(pairs.SIZES, pairs.SIZES[1:], strict=False)):
            weights[f"ani1x_{k}_w{j}"] = rng.normal(size=(outputs, inputs), scale=inputs**-0.5).astype(np.float32)
            weights[f"ani1x_{k}_b{j}"] = rng.normal(size=outputs).astype(np.float32)
    (tmp_path / "models").mkdir()
    np.savez(tmp_path / "models" / "h_networks.npz", **weights)
    aev = (rng.laplace(size=(600, 5)) @ rng.normal(size=(5, 384))).astype(np.float32)
    aev[:, 7] *= 1e-5
    molecule = np.array([f"molecule {k % 12}" for k in range(600)])
    np.savez(tmp_path / "models" / "h_aev.npz", aev=aev, molecule=molecule)
    levels = np.array(list(product(range(3), range(3), range(1), range(6), range(6))))
    images = np.zeros((len(levels), 16, 16), dtype=np.uint8)
    for image, (shape, scale, _, x, y) in zip(images, levels, strict=True):
        image[y : y + 3 + 2 * scale : shape + 1, x : x + 3 + 2 * scale] = 1
    np.savez(tmp_path / "dsprites_downsampled.npz", imgs=images, latents_classes=levels)
    return tmp_path


def test_networks_are_as_their_file_has_them(folder):
    networks, atoms = pairs.ensemble(*pairs.located("ani", folder))
    with np.load(folder / "models" / "h_networks.npz") as file:
        h = atoms.x.astype(np.float32)
        for j in range(4):
            h = h @ file[f"ani1x_5_w{j}"].T + file[f"ani1x_5_b{j}"]
            if j < 3:
                h = np.where(h > 0, h, 0.1 * np.expm1(np.minimum(h, 0) / 0.1))
    found = networks[5](torch.as_tensor(atoms.x).float()).detach().numpy()
    np.testing.assert_allclose(found, h, rtol=1e-3, atol=1e-4)
    assert len(networks) == 8
    assert [type(networks[0][int(name)]) for name in pairs.HIDDEN.values()] == [nn.CELU] * 3


def test_images_are_compared_by_shape_and_scale(folder):
    images = pairs.shapes(*pairs.located("dsprites", folder), size=16, audited=100)
    assert images.train.shape == (324, 256)
    assert images.x.shape == (100, 256)
    assert set(images.groups) == set(range(9))
    brightness = [images.x[images.groups == 3 * shape].sum(axis=1) for shape in range(3)]
    assert [len(np.unique(b)) for b in brightness] == [1, 1, 1]  # one shape and one scale


def test_files_are_named_by_a_folder_or_by_the_environment(folder, monkeypatch):
    for part in pairs.PARTS:
        monkeypatch.delenv(pairs.VARIABLES[part], raising=False)
        with pytest.raises(InputError, match=f"named by the variable {pairs.VARIABLES[part]}. Got nothing"):
            pairs.located(part)
    monkeypatch.setenv("NOUMENA_DSPRITES", str(folder / "dsprites_downsampled.npz"))
    monkeypatch.setenv("NOUMENA_ANI1X", str(folder / "models"))
    assert [path.name for part in pairs.PARTS for path in pairs.located(part)] == [
        "h_networks.npz", "h_aev.npz", "dsprites_downsampled.npz"
    ]  # fmt: skip
    (folder / "models" / "h_aev.npz").unlink()
    with pytest.raises(InputError, match=r"must hold h_networks.npz and h_aev.npz. Got models with 1"):
        pairs.located("ani")


def test_files_without_the_right_arrays_are_refused(folder):
    weights, inputs = pairs.located("ani", folder)
    np.savez(inputs, aev=np.ones((2, 384)))
    with pytest.raises(InputError, match=r"h_aev.npz must hold aev and molecule. Got aev"):
        pairs.ensemble(weights, inputs)
    np.savez(weights, ani1x_0_w0=np.ones((160, 384)))
    with pytest.raises(InputError, match=r"must hold 8 networks. Got 1 arrays"):
        pairs.ensemble(weights, inputs)


# ---- rows --------------------------------------------------------------------------------------------------------


def test_cells_are_distinct_and_belong_to_the_parts_asked_for():
    cells = [tuple(cell.values()) for cell in pairs.cells()]
    assert len(cells) == len(set(cells)) == 16
    assert {cell["part"] for cell in pairs.cells(["dsprites"])} == {"dsprites"}


def test_a_row_is_a_pair_in_the_mean_of_both_directions():
    rng = np.random.default_rng(0)
    z = rng.laplace(size=(400, 3))
    runs = {"a": z, "b": z @ rng.normal(size=(3, 3)), "c": z + 0.1 * rng.normal(size=z.shape)}
    found = audit(runs, input=z, folds=3)
    rows = pairs.rows_of(found, layer="latents", protocol="held out")
    assert [(row["first"], row["second"]) for row in rows] == [(0, 1), (0, 2), (1, 2)]
    affine, rigid = found.errors["affine"], found.errors["rigid+scale"]
    assert rows[2]["affine"] == pytest.approx((affine[1, 2] + affine[2, 1]) / 2)
    assert rows[1]["rigid"] == pytest.approx((rigid[0, 2] + rigid[2, 0]) / 2)
    assert rows[0]["R2 affine"] == pytest.approx(1)
    assert rows[1]["chance affine"] > 3 * rows[1]["affine"]
    assert rows[0]["input"] == pytest.approx(0, abs=1e-6)
    assert rows[2]["R2 input"] == pytest.approx(found.trivial.r2[1:].mean())
    assert rows[0]["efficiency"] == pytest.approx(efficiency(*(rows[0][k] for k in ("permutation", "rigid", "ICA"))))
    assert rows[0]["up to"] == "affine"
    assert rows[0]["axes"] == found.axes.found
    assert "axes" not in rows[1]
    assert tables.ERROR not in rows[0]


@pytest.mark.parametrize("protocol", pairs.PROTOCOLS)
def test_the_ensemble_is_audited_at_its_layer_and_held_out_by_molecule(folder, monkeypatch, protocol):
    seen = []
    monkeypatch.setattr(pairs, "audit", lambda runs, **how: seen.append((runs, how)) or audit(runs, **how))
    (row,) = pairs.cell("ani", pairs.ANI, f"hidden 2, {protocol}", data=folder, members=2)
    networks, atoms = pairs.ensemble(*pairs.located("ani", folder))
    ((runs, how),) = seen
    expected = networks[1][:4](torch.as_tensor(atoms.x).float()).detach()
    np.testing.assert_allclose(runs["member 1"], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(how["input"], np.delete(atoms.x, 7, axis=1))  # which barely varies
    assert how["held_out"] == (protocol == "held out")
    assert how["ica"]
    assert (how["groups"] is None) if protocol == "in-sample" else (list(how["groups"]) == list(atoms.molecules))
    assert (row["layer"], row["protocol"], row["width"]) == ("hidden 2", protocol, 128)
    assert row["affine"] < row["rigid"] < row["permutation"]
    assert row["ICA"] is None  # too few rows for so many columns


def test_untrained_networks_differ_from_the_ensemble_and_from_each_other(folder):
    (row,) = pairs.cell("ani", pairs.UNTRAINED, "hidden 3, held out", data=folder, members=2)
    (ours,) = pairs.cell("ani", pairs.ANI, "hidden 3, held out", data=folder, members=2)
    assert 0 < row["affine"] != ours["affine"]
    with pytest.raises(InputError, match="scope must be one of"):
        pairs.cell("ani", pairs.ANI, "hidden 4, held out", data=folder)
    with pytest.raises(InputError, match="model must be one of"):
        pairs.cell("dsprites", pairs.ANI, pairs.ALL, data=folder)


@pytest.mark.parametrize("model", pairs.CLASSES)
def test_every_class_of_models_has_rows_of_both_layers_and_protocols(folder, model):
    found = pairs.cell("dsprites", model, pairs.ALL, data=folder, **TINY)
    assert [(row["layer"], row["protocol"]) for row in found] == list(
        product(("last hidden", "latents"), pairs.PROTOCOLS)
    )
    assert {row["width"] for row in found[2:]} == {pairs.LATENTS}
    assert all(0 < row["affine"] < row["chance permutation"] for row in found)
    assert (found[0]["objective"] is None) == (model == pairs.UNTRAINED)
    assert found[2]["axes"] >= 0


def test_the_latents_of_a_vae_are_the_means(folder):
    x = pairs.shapes(*pairs.located("dsprites", folder), size=16).train
    settings = {name: value for name, value in TINY.items() if name != "audited"}
    codes, _ = pairs.trained("VAE", x, **settings)
    again, _ = pairs.trained("VAE", x, **settings)
    assert codes[0](torch.as_tensor(x[:2])).shape == (2, 2 * pairs.LATENTS)
    torch.testing.assert_close(codes[1](torch.as_tensor(x[:2])), again[1](torch.as_tensor(x[:2])))
    assert not torch.allclose(codes[0](torch.as_tensor(x[:2])), codes[1](torch.as_tensor(x[:2])))


# ---- comparison --------------------------------------------------------------------------------------------------


def test_the_table_has_our_pairs_in_the_mean_beside_the_four_published_rows():
    shared = {"part": "ani", "layer": "hidden 3", "protocol": "held out", "width": 96, "up to": "affine"}
    rows = [
        {**shared, "model": "ANI-1x", "affine": 0.1, "axes": 3, "R2 input": 0.5},
        {**shared, "model": "ANI-1x", "affine": 0.3, "up to": "none"},
        {**shared, "model": "ANI-1x", "affine": 0.5, "up to": "none"},
        {**shared, "model": "untrained", "affine": 0.4},
        {**shared, "model": "ANI-1x", "affine": 9.0, "error": "failed"},
    ]
    lines = [[cell for cell in line.split("  ") if cell] for line in pairs.compare(rows).splitlines()]
    ours = [cell.strip() for cell in lines[1]]
    assert ours[:3] == ["ANI-1x", "hidden 3 (96)", "held out"]
    assert ours[5] == "0.300 ± 0.200 (3)"
    assert ours[-2:] == ["3 of 96", "none"]
    assert lines[2][0].strip() == "untrained, ANI-1x"
    shares = [line[7].strip() for line in lines[3:7]]
    assert shares == ["0.246", "0.591", "0.377", "0.398"]  # published as 25, 59, 38 and 40 %
    assert len(lines) == 8


def test_an_empty_study_still_shows_what_was_published():
    assert pairs.compare([]).splitlines()[0].split()[0] == "model"


def test_parts_without_their_files_are_left_out_and_said(folder, tmp_path, monkeypatch):
    for variable in pairs.VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)
    sentences = [pairs.missing(**cell) for cell in pairs.cells()]
    assert set(sentences) == {
        "The files of ani must be named by the variable NOUMENA_ANI1X. Got nothing.",
        "The files of dsprites must be named by the variable NOUMENA_DSPRITES. Got nothing.",
    }
    study = Study(pairs, tmp_path)
    assert (study.state().missing, study.run().rows()) == (len(sentences), [])
    monkeypatch.setenv(pairs.VARIABLES["dsprites"], str(folder))
    assert [pairs.missing(**cell) for cell in pairs.cells(("dsprites",))] == [None] * 4
    assert study.state().missing == len(pairs.cells(("ani",))) == 12


def test_a_study_runs_the_part_whose_files_are_here_once_and_others_take_its_rows(folder, tmp_path, monkeypatch):
    monkeypatch.delenv(pairs.VARIABLES["ani"], raising=False)
    monkeypatch.setenv(pairs.VARIABLES["dsprites"], str(folder))
    monkeypatch.setattr(pairs, "SIZE", 16)
    asked = []

    def of_images(model, images, **settings):
        asked.append((model, len(images.train), settings))
        return [{"layer": "latents", "protocol": "held out", "width": 2, "affine": 0.125, "up to": "affine"}]

    monkeypatch.setattr(pairs, "_of_images", of_images)
    first, told = Study(pairs, tmp_path / "first"), []
    first.run(devices=("cpu",), tell=told.append)
    assert asked == [(model, 324, {"size": 16, "device": "cpu"}) for model in pairs.CLASSES]
    assert [(one.done, one.all, one.failed) for one in told] == [(k, 4, 0) for k in (1, 2, 3, 4)]
    assert [(row["part"], row["model"]) for row in first.rows()] == [("dsprites", model) for model in pairs.CLASSES]
    assert (first.state().finished, first.state().missing) == (4, 12)
    second = Study(pairs, tmp_path / "second")
    assert second.store.merge(first.store.folder) == 4
    first.run(tell=told.append)
    second.run(tell=told.append)
    assert len(asked) == len(told) == 4, "what is finished is not computed again"
    assert second.rows() == first.rows()
    assert first.compare().count("0.125 (1)") == second.compare().count("0.125 (1)") == 4
