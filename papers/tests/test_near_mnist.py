"""Pairs of autoencoders on MNIST: each figure of a pair is what it says, and their relation is fitted as it says."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from scipy.stats import linregress, ortho_group, spearmanr

from kivva.mnist import VARIABLE
from near import mnist
from noumena.ambiguity import align
from noumena.checks import InputError
from noumena.guarantees.lipschitz import BiLipschitz, diameter
from noumena.guarantees.unmixing import halves
from noumena.nets.orthogonal import Orthogonal
from noumena.studies import rows as tables
from noumena.studies.study import Study

TINY = {"device": "cpu", "hidden": (12, 8), "latents": 3, "batch": 128}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Images of 4 × 4 pixels that are sums of a few patterns of unequal strength, labelled 0 and 1."""
    rng = np.random.default_rng(0)
    patterns = np.linalg.qr(rng.normal(size=(16, 6))).Q.T
    parts = {}
    for part, n in (("train", 600), ("test", 300)):
        x = rng.normal(size=(n, 6)) * np.array([6.0, 5.0, 4.0, 1.0, 1.0, 1.0]) @ patterns
        parts[f"y_{part}"] = np.arange(n, dtype=np.uint8) % 2
        parts[f"x_{part}"] = (255 * np.clip(0.5 + x / 20, 0, 1)).astype(np.uint8).reshape(n, 4, 4)
    path = tmp_path_factory.mktemp("mnist") / "digits.npz"
    np.savez(path, **parts)
    return path


def pair(**changes):
    """A row of a pair, with figures of no importance where none are given."""
    named = ("rigid", *mnist.SHOWN, "rigid+scale in-sample", "term sampled max", "L max", "L median")
    base = dict.fromkeys(named, 0.5) | {"digit": "all", "leak": 0.4, "steps": mnist.STEPS["all"], "pair": 0}
    base |= {"reconstruction a": 0.03, "reconstruction b": 0.03, "pca": 0.03, "late gain": 0.0, "diameter": 2.0}
    return base | changes


# ---- cells -------------------------------------------------------------------------------------------------------


def test_there_are_sixty_pairs_on_all_digits_and_one_hundred_and_eighty_on_one_each():
    cells = mnist.cells()
    assert len({tuple(cell.items()) for cell in cells}) == len(cells)
    full = [cell for cell in cells if cell["digit"] == "all" and cell["steps"] == mnist.STEPS["all"]]
    each = [cell for cell in cells if cell["digit"] != "all"]
    assert len(full) * mnist.PAIRS["all"] == 60
    assert len(each) * mnist.PAIRS["each"] == 180
    assert {cell["leak"] for cell in full} == {cell["leak"] for cell in each} == set(mnist.LEAKS)
    assert {cell["steps"] for cell in cells if cell["digit"] == "all"} == {3000, 750, 1}


@pytest.fixture(scope="module")
def linear(data):
    """Two pairs of linear autoencoders, trained to the end."""
    return mnist.cell("all", 1.0, 200, data=data, pairs=2, rate=0.1, **TINY)


def test_linear_autoencoders_are_principal_components_up_to_a_rotation(linear):
    assert [row["pair"] for row in linear] == [0, 1]
    for row in linear:
        assert row["reconstruction a"] == pytest.approx(row["pca"], rel=0.03)
        assert row["rigid"] < 0.01 < 0.05 < row["chance"]
        assert row["rigid in-sample"] < 0.01
        assert row["term max"] == row["term sampled"] == 0
        assert 0 <= row["late gain"] < 0.2


def test_bent_decoders_have_terms_within_the_bound_of_their_leak(data):
    (row,) = mnist.cell("all", 0.5, 60, data=data, pairs=1, rate=1e-2, **TINY)
    most = 0.5**-2 - 1
    assert 0.05 < row["L median"] <= row["L max"] <= most + 1e-6
    assert 0 < row["term sampled"] < row["term"] < row["term max"] <= mnist.bending(np.array([most + 1e-6]))[0]
    assert row["term sampled max"] <= row["term max"]
    assert row["rigid+scale"] < row["chance"]


def test_a_digit_is_trained_and_measured_on_its_own_rows(data, monkeypatch):
    seen = []
    monkeypatch.setattr(mnist, "principal_error", lambda x, fresh, d, device: seen.append((len(x), len(fresh))) or 0.1)
    found = mnist.cell(1, 0.0, 1, data=data, **TINY)
    assert seen == [(300, 150)]
    assert len(found) == mnist.PAIRS["each"]
    assert min(row["rigid"] for row in found) > 0.01  # two seeds, hardly trained
    assert len({row[f"reconstruction {name}"] for row in found for name in "ab"}) == 2 * len(found)
    assert tables.ERROR not in found[0]


def test_what_a_cell_cannot_be_made_of_is_refused(data):
    with pytest.raises(InputError, match=r"digit must be 'all' or one of the file's labels\. Got 7\."):
        mnist.cell(7, 1.0, 1, data=data, **TINY)
    with pytest.raises(InputError, match="pairs must be a whole number of at least 1"):
        mnist.cell("all", 1.0, 1, data=data, pairs=0, **TINY)
    with pytest.raises(InputError, match=r"The test rows must be enough to fit ICA on one half\. Got 20 rows\."):
        mnist.aligned(np.ones((20, 3)), np.ones((20, 3)))


def test_autoencoders_mirror_their_layers_and_leaks_have_seeds_of_their_own():
    model = mnist._model(0.4, 5, 6)
    assert model.encoder == Orthogonal((256, 64), 0.4)
    assert model.decoder == Orthogonal((64, 256), 0.4)
    assert (model.n_latents, model.n_models, model.standardise, model.training.clip) == (10, 6, False, 784.0)
    first = [mnist._model(leak, 5, 20).random_state for leak in mnist.LEAKS]
    assert min(np.diff(first)) >= 20


# ---- one pair ----------------------------------------------------------------------------------------------------


def test_errors_of_a_pair_are_held_out_shares_of_the_diameter():
    rng = np.random.default_rng(0)
    g = rng.laplace(size=(400, 3))
    turned = g @ ortho_group.rvs(3, random_state=0) + 5
    exact = mnist.aligned(g, turned)
    for name in ("rigid", "rigid+scale", "affine", "rigid in-sample", "rigid+scale in-sample"):
        assert exact[name] < 1e-9
    assert exact["signed permutation"] > 0.02
    assert exact["ICA"] < exact["signed permutation"]
    h = 2 * turned + rng.normal(size=g.shape)
    found = mnist.aligned(g, h)
    fitted, measured = halves(400, 0)
    moved = align(g[fitted], h[fitted], up_to="rigid").transform(h[measured])
    expected = np.linalg.norm(moved - g[measured], axis=1).mean() / diameter(g)
    assert found["rigid"] == pytest.approx(expected)
    assert found["rigid in-sample"] != found["rigid"] > 1.5 * found["rigid+scale"] > 0
    assert found["rigid+scale in-sample"] == pytest.approx(
        np.linalg.norm(align(g, h, up_to="similarity").aligned - g, axis=1).mean() / diameter(g)
    )
    assert found["affine"] <= found["rigid+scale"] * 1.05
    assert found["diameter"] == diameter(g)
    assert found["chance"] > found["rigid+scale"]


class Halving(torch.nn.Module):
    """An autoencoder that returns half of what it is given."""

    mean = torch.zeros(1)
    decoder = torch.nn.Linear(2, 2, bias=False)

    def encode(self, x):
        return x

    def decode(self, z):
        return z / 2


def test_one_autoencoder_is_judged_on_every_row_and_its_decoder_at_a_thousand(monkeypatch):
    asked = {}

    def constants(decoder, z, **how):
        asked.update(how, decoder=decoder, rows=len(z))
        L = np.array([0.25, 1e12, 1e-15])
        return BiLipschitz(L, L[:, None], np.eye(1), np.empty((0, 1)), L)

    monkeypatch.setattr(mnist, "bi_lipschitz", constants)
    x = np.full((1500, 2), 2.0, dtype=np.float32)
    found = mnist._alone(Halving(), x, x)
    assert found["reconstruction"] == 1.0
    assert found["L"].tolist() == found["sampled"].tolist() == [0.25, np.inf, 0]
    assert asked == {"decoder": Halving.decoder, "rows": 1000, "probes": 10, "tolerance": 0}


def test_the_terms_of_a_pair_are_over_the_points_of_both():
    one = {"reconstruction": 1.0, "L": np.array([0.0, 0.25]), "sampled": np.array([0.0, 0.0])}
    two = {"reconstruction": 2.0, "L": np.array([0.25, 0.25]), "sampled": np.array([0.25, 0.0])}
    assert mnist._together([one, two]) == {
        "reconstruction a": 1.0,
        "reconstruction b": 2.0,
        "L median": 0.25,
        "L max": 0.25,
        "term": pytest.approx(0.75 * 3 / 4),
        "term max": pytest.approx(0.75),
        "term sampled": pytest.approx(0.75 / 4),
        "term sampled max": pytest.approx(0.75),
    }


def test_the_linear_optimum_is_fitted_on_the_training_rows():
    rng = np.random.default_rng(0)
    x, fresh = (rng.normal(size=(n, 5)).astype(np.float32) * [5, 4, 3, 2, 1] + 1 for n in (500, 50))
    axes = np.linalg.svd(x, full_matrices=False).Vh[:2]
    expected = np.mean((fresh - fresh @ axes.T @ axes) ** 2)
    assert mnist.principal_error(x, fresh, 2, device=torch.device("cpu")) == pytest.approx(expected, rel=1e-5)


# ---- over pairs --------------------------------------------------------------------------------------------------


def test_the_filter_removes_pairs_of_which_either_is_worse_than_the_reference():
    reference = [pair(leak=1.0, **{"reconstruction a": k, "reconstruction b": k}) for k in range(1, 11)]
    most = np.percentile(np.repeat(np.arange(1, 11), 2), 95)
    others = [
        pair(**{"reconstruction a": a, "reconstruction b": b})
        for a, b in ((most, most), (most + 0.1, 1.0), (1.0, most + 0.1))
    ]
    left = mnist.kept([*reference, *others])
    assert others[0] in left
    assert others[1] not in left
    assert others[2] not in left
    assert mnist.kept(others) == []


def test_a_proportional_error_has_its_constant_no_offset_and_full_rank_correlation():
    found = mnist.relation([pair(term=t, rigid=0.03 * t, diameter=2 + t) for t in (0.1, 0.5, 1.0, 2.0)])
    assert found.constant == pytest.approx(0.03)
    assert found.constant_in_units == pytest.approx(0.03)
    np.testing.assert_allclose(found.intercept, 0, atol=1e-12)
    np.testing.assert_allclose(found.rank, 1)
    assert found.within == pytest.approx(1)
    assert str(found).startswith("rank correlation 1.000 [1.000, 1.000]; error = 0.0300·term; a line leaves ")


def test_the_relation_is_that_of_independent_formulas():
    rng = np.random.default_rng(0)
    t = rng.random(40)
    e = 0.2 + 0.1 * t + 0.03 * rng.normal(size=40)
    sizes = rng.random(40) + 1
    rows = [pair(term=a, rigid=b, diameter=s) for a, b, s in zip(t, e, sizes, strict=True)]
    found = mnist.relation(rows)
    rank, low, high = found.rank
    assert rank == pytest.approx(spearmanr(t, e).statistic)
    assert low < rank < high < 1
    rng = np.random.default_rng(1)
    again = [spearmanr(t[k], e[k]).statistic for k in rng.integers(40, size=(300, 40))]
    np.testing.assert_allclose([low, high], np.quantile(again, [0.025, 0.975]), atol=0.1)
    assert found.intercept[0] == pytest.approx(linregress(t, e).intercept)
    assert found.intercept[1] < 0.2 < found.intercept[2]
    assert found.constant == pytest.approx(np.linalg.lstsq(t[:, None], e, rcond=None)[0][0])
    assert found.constant_in_units == pytest.approx(np.linalg.lstsq((t * sizes)[:, None], e * sizes, rcond=None)[0][0])
    assert found.constant != found.constant_in_units


def test_infinite_terms_count_for_ranks_and_not_for_fits():
    rows = [pair(term=t, rigid=e) for t, e in ((1.0, 0.1), (2.0, 0.2), (np.inf, 0.05))]
    found = mnist.relation(rows)
    assert (found.pairs, found.infinite) == (3, 1)
    assert found.rank[0] == pytest.approx(-0.5)
    assert found.constant == pytest.approx(0.1)
    assert mnist.relation([]).pairs == 0
    assert np.isnan(mnist.relation([pair(term=0.0)]).constant)


def test_what_the_leak_alone_explains_is_told_from_what_is_left_within_leaks():
    rows = [pair(leak=leak, term=10 * leak - k, rigid=leak + k / 10) for leak in (0.2, 0.6) for k in (0.0, 0.5, 1.0)]
    rows.append(pair(leak=1.0, term=1e-8, rigid=0.0))
    found = mnist.relation(rows)
    assert found.within == pytest.approx(-1)
    assert found.rank[0] > 0.4


# ---- in words ----------------------------------------------------------------------------------------------------


def test_the_comparison_counts_the_filtered_pairs_of_either_kind_beside_the_published():
    losses = {"reconstruction a": 0.02, "reconstruction b": 0.02}
    rows = [pair(leak=leak, pair=k) for leak in (0.4, 1.0) for k in range(3)]
    rows += [pair(pair=9, **{"reconstruction b": 0.5}), pair(steps=1, rigid=0.9), {"digit": "all", "error": "lost"}]
    rows += [pair(digit=3, leak=leak, steps=mnist.STEPS["each"], **losses) for leak in (0.0, 1.0)]
    text = mnist.compare(rows)
    assert "Pairs on all digits: filter removes 1 of 7 pairs (published: 11 of 60)" in text
    assert "Pairs on one digit each: filter removes 0 of 2 pairs (published: 5 of 180)" in text
    lines = text.splitlines()
    (of_leak,) = [line for line in lines[:10] if line.startswith("0.4 ") and "|" not in line]
    assert of_leak.endswith("3 of 4")
    lengths = next(k for k, line in enumerate(lines) if "1000·loss, 1 steps" in line)
    assert lines[lengths + 3].split()[:5] == ["0.4", "30.000", "(1)", "0.900", "(1)"]
    assert mnist.compare([]).startswith("Pairs on all digits: filter removes 0 of 0")


def test_the_picture_puts_errors_and_the_fitted_curve_on_one_axis():
    rows = [pair(leak=0.0, term=2.0, rigid=0.2), pair(leak=0.2, term=1.0, rigid=0.1), pair(leak=1.0, term=0.0, rigid=0)]
    rows.append(pair(leak=0.0, term=np.inf, rigid=0.2))
    lines = mnist.picture(rows).splitlines()
    assert lines[0] == "error (o) and 0.1000·term (+) from 0 to 0.200"
    assert lines[1:] == [f"0.0 |{' ' * 48}o", f"0.2 |{' ' * 24}o", "1.0 |o"]
    rows[1]["rigid"] = 0.0
    assert mnist.picture(rows).splitlines()[2].index("+") > mnist.picture(rows).splitlines()[2].index("o")


def test_without_the_file_the_study_says_so_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    cells, study = mnist.cells(), Study(mnist, tmp_path)
    assert {mnist.missing(**cell) for cell in cells} == {
        "MNIST must be named by the variable NOUMENA_MNIST. Got nothing."
    }
    assert (study.state().missing, study.run().rows()) == (len(cells), [])


def test_a_study_writes_its_rows_and_resumes(data, tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "cells", lambda: [{"digit": 1, "leak": leak, "steps": 1} for leak in (0.2, 1.0)])
    monkeypatch.setenv(VARIABLE, str(data))
    told = []
    written = Study(mnist, tmp_path).run(only={"leak": 0.2}, devices=("cpu",), tell=told.append).rows()
    assert len(tables.matching(written, digit=1, leak=0.2, steps=1)) == len(written) == mnist.PAIRS["each"]
    study = Study(mnist, tmp_path).run(devices=("cpu",), tell=told.append)
    assert [(one.done, one.all, one.failed) for one in told] == [(1, 1, 0), (1, 1, 0)], "each leak once"
    assert study.rows()[: len(written)] == written
    assert len(study.rows()) == 2 * len(written)
    assert all(np.isfinite(row["rigid"]) and row.get(tables.ERROR) is None for row in study.rows())
    table = (tmp_path / "near" / "mnist" / "rows.csv").read_bytes()
    study.run(tell=told.append)
    assert len(told) == 2, "what is finished is not computed again"
    assert (tmp_path / "near" / "mnist" / "rows.csv").read_bytes() == table
    assert (study.state().finished, study.state().missing) == (2, 0)


def test_a_cell_trains_on_the_device_it_is_given(data, monkeypatch):
    class Told(Exception):
        pass

    def model(leak, steps, runs, *, device, **changes):
        raise Told(device)

    monkeypatch.setattr(mnist, "_model", model)
    with pytest.raises(Told, match="cuda:3"):
        mnist.cell(1, 0.2, 1, data=data, device="cuda:3")


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no file of MNIST")
def test_a_pair_on_real_ones_comes_near_principal_components():
    (row,) = mnist.cell(1, 1.0, 60, pairs=1, rate=1e-2, **TINY)
    assert row["pca"] < row["reconstruction a"] < 1.3 * row["pca"]
    assert row["rigid"] < row["chance"]
