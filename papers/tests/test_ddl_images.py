"""Tables 1, 6 and 7: cells, codes that are kept, scores of known codes, and the published figures beside ours."""

from functools import partial

import numpy as np
import pytest

import noumena as nm
from ddl import images, table1, table6, table7
from ddl.images import Codes
from noumena.estimators import loop
from noumena.estimators.images import UNet, VectorQuantised
from noumena.studies.engine import Conditions, Task, _computed
from noumena.studies.files import StudyFile
from noumena.studies.study import Study


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(images, "ROOMS", 60)
    monkeypatch.setattr(images, "LEARNED", 20)
    for name in ("STEPS", "FIRST"):
        monkeypatch.setattr(images, name, dict.fromkeys(getattr(images, name), 2))
    for name in ("BATCH", "FIRST_BATCH"):
        monkeypatch.setattr(images, name, dict.fromkeys(getattr(images, name), 8))
    monkeypatch.setattr(images, "LATENTS", dict.fromkeys(images.LATENTS, 3))
    monkeypatch.setattr(images, "STYLES", (4, 4, 4))
    parts = {"unet": UNet(3, 8, (8, 8), heads=1), "autoencoder": VectorQuantised(3, 32, (8, 8), 1, codes=8)}
    monkeypatch.setattr(images, "EncDiff", partial(nm.EncDiff, sampling=2, **parts))


def small(file):
    """A file of sprites of 8 × 8 pixels, a complete grid of 3 × 4 × 5."""
    factors = np.stack(np.unravel_index(np.arange(60), (3, 4, 5)), axis=1)
    pictures = np.zeros((60, 8, 8), dtype=np.uint8)
    for row, (a, b, c) in enumerate(factors):
        pictures[row, : a + 1, : b + 1] = 1
        pictures[row, 7, : c + 1] = 2
    names = np.array(["tall", "wide", "bar"])
    palette = np.array([[0, 0, 0], [255, 0, 0], [0, 0, 255]], dtype=np.uint8)
    np.savez(file, img_idx=pictures, palette=palette, factors=factors, factor_names=names)
    return file


def test_the_split_is_the_same_every_time_and_has_no_image_twice(tmp_path):
    files = {"Sprites": small(tmp_path / "s.npz")}
    one, two = (images.split("Sprites", size=8, files=files) for _ in range(2))
    assert np.array_equal(one.train, two.train)
    assert len(one.train) == 48
    assert len(one.test) == len(one.factors) == 12
    assert len(np.unique(one.factors[:, 0])) > 1  # drawn from all over the grid
    assert len(np.unique(np.concatenate([one.train, one.test]), axis=0)) == 60
    tall = (one.test.reshape(12, 3, 8, 8)[:, 0] > 0).any(axis=2)[:, :7].sum(axis=1) - 1
    assert np.array_equal(tall, one.factors[:, 0])


def test_rooms_have_the_same_factors_at_every_size():
    a, b = (images.drawn("rooms", size=size) for size in (8, 16))
    assert np.array_equal(a.factors, b.factors)
    assert a.pictures(slice(0, 2)).shape == (2, 192)
    assert np.array_equal(b.source.levels(b.order[:1])[0], b.factors[0])


def test_a_perfect_code_scores_one_and_noise_scores_chance():
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(k, size=2000) for k in (4, 5, 3)], axis=1).astype(float)
    perfect = images.scores(factors, factors[:, [2, 0, 1]] * [-1.0, 2.0, 1.0])
    noise = images.scores(factors, rng.normal(size=(2000, 3)))
    assert perfect["FactorVAE score"] == pytest.approx(1.0)
    assert perfect["DCI"] > 0.99
    assert noise["DCI"] < 0.1
    assert abs(noise["FactorVAE score"] - noise["FactorVAE by chance"]) < 0.15
    assert perfect["alive"] == 3
    assert images.scores(factors, np.c_[factors, np.zeros(2000)])["alive"] == 3


@pytest.mark.parametrize("method", images.METHODS)
def test_a_cell_is_trained_once_and_scored_from_what_is_kept(method, tmp_path, monkeypatch):
    how = {"size": 32, "device": "cpu", "folder": tmp_path}
    trained = images.trained("rooms", method, "dependency", 0.5, **how)
    assert trained.codes.shape == (3, 12, 3)
    assert not np.allclose(trained.codes[0], trained.codes[1])
    assert len(trained.facts.get("unexplained", [])) == (0 if method == "DisCo" else 3)
    assert "held-out penalty" in trained.facts
    monkeypatch.setattr(images, "model", None)  # not asked again
    again = images.trained("rooms", method, "dependency", 0.5, **how)
    assert np.array_equal(again.codes, trained.codes)
    assert again.facts == trained.facts
    assert not list(tmp_path.glob("*.part*"))


def test_the_first_stage_is_shared_by_all_biases(tmp_path, monkeypatch):
    trained, update = [], loop._Fit._update
    monkeypatch.setattr(
        loop._Fit, "_update", lambda fit, *given: (trained.append(type(fit.models[0]).__name__), update(fit, *given))[1]
    )
    how = {"size": 32, "device": "cpu", "folder": tmp_path}
    images.trained("rooms", "DisCo", "none", 0.0, **how)
    images.trained("rooms", "DisCo", "latent", 0.1, **how)
    assert trained == ["StyleGAN"] * 2 + ["DisCoObjective"] * 4


@pytest.mark.parametrize(
    ("costs", "chosen"), [((0.1, 0.1, 0.1), 9.0), ((0.2, 0.109, 0.1), 3.0), ((0.2, 0.2, 0.2), 1.0)]
)
def test_a_weight_is_chosen_by_what_it_costs_on_held_out_images(costs, chosen, monkeypatch):
    lost = {0.0: 0.1, **dict(zip((9.0, 3.0, 1.0), costs, strict=True))}
    tried = []

    def trained(data, method, bias, weight, **how):
        tried.append(weight)
        return Codes(
            np.full((3, 2, 2), weight), {"unexplained": [lost[weight] - 0.01, lost[weight], lost[weight] + 0.01]}
        )

    monkeypatch.setattr(images, "trained", trained)
    monkeypatch.setattr(images, "LADDERS", {"FactorVAE": {"latent": (9.0, 3.0, 1.0)}})
    assert images.codes("rooms", "FactorVAE", "latent").codes[0, 0, 0] == chosen
    assert tried == [0.0, *(w for w in (9.0, 3.0, 1.0) if w >= chosen)]
    assert images.codes("rooms", "FactorVAE", "none").codes[0, 0, 0] == 0.0


def test_two_stages_take_the_weight_of_rooms_on_other_data(monkeypatch):
    tried = []

    def trained(data, method, bias, weight, **_):
        tried.append((data, weight))
        lost = 1.0 + (weight == 9.0 and data == "rooms") * 0.2 + (data == "Sprites" and bias != "none") * 0.5
        return Codes(np.zeros((3, 2, 2)), {images.LOST[method]: [lost] * 3, "weight": [weight] * 3})

    monkeypatch.setattr(images, "trained", trained)
    monkeypatch.setattr(images, "LADDERS", {method: {"latent": (9.0, 3.0, 1.0)} for method in images.METHODS})
    for method in ("EncDiff", "DisCo"):
        assert images.codes("Sprites", method, "latent").facts["weight"] == [3.0] * 3
        assert tried == [("Sprites", 0.0), ("rooms", 0.0), ("rooms", 9.0), ("rooms", 3.0), ("Sprites", 3.0)]
        tried.clear()
    images.codes("Sprites", "FactorVAE", "latent")
    assert tried == [("Sprites", weight) for weight in (0.0, 9.0, 3.0, 1.0)]


def test_a_cell_has_a_row_for_every_model(monkeypatch):
    held = images.drawn("rooms").held
    rng = np.random.default_rng(0)
    made = Codes(rng.normal(size=(3, held, 4)), {"training seconds": [9.0], "unexplained": [0.1, 0.2, 0.3]})
    monkeypatch.setattr(images, "codes", lambda *_, **__: made)
    monkeypatch.setattr(images, "scores", lambda factors, code: {"DCI": float(code[0, 0])})
    rows = images.cell("rooms", "FactorVAE", "none")
    assert [row["run"] for row in rows] == [0, 1, 2]
    assert [row["unexplained"] for row in rows] == [0.1, 0.2, 0.3]
    assert [row.get("training seconds") for row in rows] == [9.0, None, None]
    assert rows[2]["DCI"] == made.codes[2, 0, 0]


@pytest.mark.parametrize("method", images.BASELINES)
def test_baselines_need_no_network(method, tmp_path):
    found = images.drawn("Sprites", size=8, files={"Sprites": small(tmp_path / "s.npz")})
    code = images.baseline(method, found)
    assert code.shape == (12, 16 if method == "pixels" else 10)
    assert np.isfinite(code).all()


def test_a_penalty_is_what_its_name_says():
    assert images.penalty("none", 1.0) is None
    kinds = {"latent": nm.LatentSparsity, "OroJaR": nm.OroJaR, "Hessian": nm.HessianPenalty}
    for name, kind in kinds.items():
        ((weight, part),) = images.penalty(name, 2.0).terms
        assert isinstance(part, kind)
        assert weight == 2.0
    ((_, part),) = images.penalty("dependency", 1.0, 7).terms
    assert part.points == 7
    for method in images.METHODS:
        ((_, part),) = images.model(method, "dependency", (3, 64, 64), weight=1.0).penalty.terms
        assert part.points == images.POINTS[method]
    ((_, part),) = images.penalty("dependency", 1.0).terms
    assert (part.surrogate, part.points, part.ramp) == ("l1", images.POINTS["FactorVAE"], 0.0)


def test_every_published_row_has_a_cell():
    asked = table1.cells()
    ours = {(c["method"], c["bias"]) for c in asked}
    assert all((m, b) in ours for figures in table1.PUBLISHED.values() for m, b in figures)
    assert len(asked) == 27 + 9
    assert {(c["bias"], c["size"]) for c in table6.cells() if c["method"] == "FactorVAE"} == set(table6.ARMS)
    assert len(table7.cells()) == 2 * (5 + 3)


def rows_of(study):
    return [
        {**c, "run": k, "FactorVAE score": 0.5 + 0.1 * k, "DCI": 0.3, "unexplained": 0.02, "training seconds": 60.0}
        for c in study.cells()
        for k in range(3)
    ]


@pytest.mark.parametrize("study", [table1, table6, table7], ids=lambda s: s.__name__.rsplit(".", 1)[1])
def test_ours_stand_beside_the_published_figures(study):
    text = study.compare(rows_of(study))
    assert "0.600 ± 0.100 (3)" in text
    published = {table1: "0.871 ± 0.053", table6: "0.723 ± 0.023", table7: "0.321 ± 0.455"}
    assert published[study] in text
    assert all(data in text for data in ("Cars3D", study.DATA if isinstance(study.DATA, str) else study.DATA[0]))


def test_what_has_not_run_is_a_dash_and_hours_are_added_up():
    some = [r for r in rows_of(table1) if r["method"] == "FactorVAE"]
    text = table1.compare(some)
    assert "–" in next(line for line in text.splitlines() if line.startswith("DisCo"))
    assert f"{len(some) * 60 / 3600:.2f} hours" in text


def test_missing_files_are_named_and_what_needs_none_is_run(tmp_path, monkeypatch):
    monkeypatch.delenv("NOUMENA_DSPRITES", raising=False)
    monkeypatch.setattr(images, "codes", lambda *_, **__: Codes(np.zeros((3, 2, 2)), {"unexplained": [0.1]}))
    monkeypatch.setattr(images, "scores", lambda *_: {"DCI": 0.5})
    monkeypatch.setattr(images, "ROOMS", 20)
    one = Study(table1, tmp_path / "results")
    told = "dSprites must be named by the variable NOUMENA_DSPRITES. Got nothing."
    assert table1.missing(data="dSprites", method="FactorVAE") == told
    one.run(only={"method": "FactorVAE", "bias": "none"})
    assert {row["data"] for row in one.rows()} == {"rooms"}
    assert one.state(only={"data": "dSprites"}).missing == 12


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: images.drawn("Cars3D"), "data must be one of rooms, dSprites, Sprites"),
        (lambda: images.model("GAN", "none", (3, 64, 64)), "method must be one of FactorVAE, EncDiff, DisCo"),
        (lambda: images.penalty("L2", 1.0), "penalty must be one of"),
        (lambda: images.named("Sprites", "nowhere.npz"), "The file of Sprites must exist"),
    ],
)
def test_what_is_not_there_is_refused(call, sentence):
    with pytest.raises(nm.InputError, match=sentence):
        call()


def test_a_cell_is_told_where_to_keep_its_codes_and_where_to_train(monkeypatch, tmp_path):
    held = images.drawn("rooms").held
    told = {}

    def codes(*_, **how):
        told.update(how)
        return Codes(np.zeros((1, held, 4)), {})

    monkeypatch.setattr(images, "codes", codes)
    monkeypatch.setattr(images, "scores", lambda factors, code: {})
    task = Task(("c",), "v", ({"data": "rooms", "method": "FactorVAE", "bias": "none"},), StudyFile.at(images.__file__))
    _computed(images.cell, task, Conditions(devices=("cpu",), told=(("folder", tmp_path),)))
    assert (told["folder"], told["device"]) == (tmp_path, "cpu")
