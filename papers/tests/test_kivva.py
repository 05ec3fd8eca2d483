"""Studies of mixture priors: scores checked by hand, settings chosen by the bound alone, tables that compare."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from kivva import likelihood, mnist, pinwheel
from kivva.relu_mixture import experiment
from noumena.checks import InputError
from noumena.mixtures import Mixture
from noumena.nets import MLP
from noumena.studies import rows as tables
from noumena.studies.study import Study

TINY = {"steps": 6, "pretraining": 3}
TURN = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)


def white(columns, rows=800):
    """Columns without any correlation in the sample."""
    z = np.random.default_rng(0).normal(size=(rows, columns))
    return np.linalg.qr(z - z.mean(axis=0)).Q


@pytest.mark.parametrize("study", [likelihood, pinwheel, mnist], ids=lambda s: s.__name__.rsplit(".", 1)[-1])
def test_cells_of_a_study_are_distinct_and_none_compares_as_an_empty_table(study):
    cells = [tuple(cell.items()) for cell in study.cells()]
    assert len(cells) == len(set(cells)) > 0
    assert study.compare([]).splitlines()[0].split()[0] in ("J", "method")


# ---- likelihood --------------------------------------------------------------------------------------------------


def test_rows_of_the_likelihood_say_how_many_parameters_were_checked():
    first, second = likelihood.cell(2, 0)
    assert (first["J"], second["J"]) == (2, 3)
    # w, b and A per hidden unit, one c and one noise; weights, means and spreads per component
    assert [first["parameters"], second["parameters"]] == [3 * 1 + 2 + 3 * 2, 3 * 1 + 2 + 3 * 3]
    assert first["unique"]
    assert first["margin"] > 1e-9
    assert first["distance"] < 1e-3
    lines = experiment(1)[0].minima
    assert first["local minima"] == sum(line.minima for line in lines) - len(lines) > 0
    assert tables.ERROR not in first


def test_unique_minimisers_are_counted_beside_the_published_fifty():
    shared = {"parameters": 11, "distance": 2e-5}
    found = [
        {"J": 2, "unique": True, "margin": 1e-4, "local minima": 1, **shared},
        {"J": 3, "unique": True, "margin": 3e-5, "local minima": 0, **shared},
        {"J": 3, "unique": False, "margin": 0.0, "local minima": 4, **shared},
    ]
    lines = [line.split("  ") for line in likelihood.compare(found).splitlines()]
    cells = [[text.strip() for text in line if text.strip()] for line in lines]
    assert cells[1] == ["2", "–", "1 of 1", "11", "1.0e-04", "2.0e-05", "1"]
    assert cells[2] == ["3", "–", "1 of 2", "22", "0.0e+00", "2.0e-05", "4"]
    assert cells[3] == ["all", "50 of 50", "2 of 3", "33", "0.0e+00", "2.0e-05", "5"]


# ---- pinwheel ----------------------------------------------------------------------------------------------------


def test_clusters_are_named_on_even_rows_and_judged_on_odd_ones():
    labels = np.array([0, 0, 1, 1, 1, 0, 0, 1])
    assert pinwheel.cluster_accuracy(labels + 5, labels) == 1
    assert pinwheel.cluster_accuracy(np.zeros(8, int), np.array([3, 3, 3, 2, 3, 2, 2, 2])) == 0.25
    assert pinwheel.cluster_accuracy(np.arange(8), labels) == 0  # clusters that no even row is in


def test_the_bound_is_the_density_of_the_noise_less_the_divergence():
    error, beta, kl = np.array([0.3, -0.2, 0.1]), 0.07, 1.5
    expected = norm.logpdf(error, scale=np.sqrt(beta / 2)).sum() - kl
    objective = np.array([(error**2).sum() + beta * kl])
    assert pinwheel.evidence(objective, beta, 3) == pytest.approx([expected])


def test_runs_that_differ_by_a_linear_map_are_near_in_all_but_the_strong_sense():
    z = white(2)
    law = Mixture([0.4, 0.6], [[-2, 0], [1, 1]], [np.diag([0.1, 0.3]), np.diag([0.4, 0.2])])
    first = pinwheel.Run(z, law, np.zeros(800, int))
    turned = pinwheel.Run(z @ TURN.T, law.pushed(TURN), np.zeros(800, int))
    found = pinwheel.between(first, turned)
    assert found["distance"] == pytest.approx(0, abs=1e-3)
    assert found["weak"] == pytest.approx(1)
    assert found["strong"] == pytest.approx(np.sqrt(0.5))
    other = pinwheel.Run(z, Mixture([1.0], [[0, 0]], [np.eye(2)]), np.zeros(800, int))
    apart = pinwheel.between(first, other)
    assert apart["normalised"] > 0.1
    assert apart["distance"] != apart["normalised"]


def test_the_observations_are_the_same_in_every_run_and_their_single_scores_are_written_once():
    found = pinwheel.cell("x", None, rows=300, runs=3)
    assert [(r["first"], r["second"]) for r in found] == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    for row in found:
        assert row["distance"] == pytest.approx(0, abs=1e-3)
        assert row["strong"] == pytest.approx(1)
    assert [r["first"] for r in found if "accuracy" in r] == [0, 1, 2]
    assert found[0]["accuracy"] > 0.95
    assert found[0]["truth weak"] > found[0]["truth strong"] > 0.5


@pytest.mark.parametrize("method", ["VaDE", "VAE"])
def test_a_trained_cell_has_a_bound_for_every_run(method):
    found = pinwheel.cell(method, 0.1, rows=200, runs=2, **TINY)
    bounds = [row["elbo"] for row in found]
    assert len(set(bounds)) == 2
    assert max(bounds) < 0
    assert found[0]["strong"] < 1
    assert found[0]["distance"] > 0


def test_the_vae_of_the_pinwheel_is_one_cluster_with_as_many_steps():
    ours, plain = (pinwheel._model(method, 0.1, 4, steps=7, pretraining=5) for method in pinwheel.TRAINED)
    assert (ours.n_clusters, plain.n_clusters) == (3, 1)
    assert (ours.pretraining, plain.pretraining) == (5, 0)
    assert [model.get_params()["training__steps"] for model in (ours, plain)] == [7, 12]
    assert ours.n_models == plain.n_models == 4


def test_independent_components_differ_by_their_seeds_alone():
    (row, _) = pinwheel.cell("ICA", None, rows=300, runs=2)
    assert row["weak"] == pytest.approx(1)
    assert row["elbo"] is None


def test_beta_is_chosen_by_the_bound_and_by_nothing_else():
    shared = {"method": "VaDE", "distance": 0.1, "accuracy": 1.0}
    worse = [{**shared, "beta": 0.1, "elbo": elbo, "strong": 0.99} for elbo in (-1.0, -3.0)]
    better = [{**shared, "beta": 0.01, "elbo": -1.5, "strong": 0.5}, {**shared, "beta": 0.01, "elbo": None}]
    lines = pinwheel.compare(worse + better).splitlines()
    assert "0.113 ± 0.065" in lines[1]
    assert next(line for line in lines if "0.01 *" in line).split()[-1] == "–"
    assert not any("0.1 *" in line for line in lines)
    assert pinwheel.best([], "beta") is None


# ---- mnist -------------------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path):
    """Three shapes of 5 × 5 pixels with noise, in the manner of MNIST."""
    rng = np.random.default_rng(0)
    shapes = rng.random((3, 5, 5)) > 0.5
    parts = {}
    for part, n in (("train", 120), ("test", 60)):
        parts[f"y_{part}"] = np.arange(n, dtype=np.uint8) % 3
        parts[f"x_{part}"] = (180 * shapes[parts[f"y_{part}"]] + rng.integers(75, size=(n, 5, 5))).astype(np.uint8)
    np.savez(tmp_path / "digits.npz", **parts)
    return tmp_path / "digits.npz"


def test_digits_are_flat_shares_of_white(data, monkeypatch):
    train, test = mnist.digits(data)
    assert (train.x.shape, test.x.shape, train.x.dtype) == ((120, 25), (60, 25), np.float32)
    with np.load(data) as file:
        assert train.x[7, 6] == pytest.approx(file["x_train"][7, 1, 1] / 255)
        assert (test.labels == file["y_test"]).all()
    monkeypatch.setenv(mnist.VARIABLE, str(data))
    assert (mnist.digits()[1].x == test.x).all()


def test_without_the_file_the_study_says_so_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv(mnist.VARIABLE, raising=False)
    cells, study = mnist.cells(), Study(mnist, tmp_path)
    sentence = "MNIST must be named by the variable NOUMENA_MNIST. Got nothing."
    assert {mnist.missing(**cell) for cell in cells} == {sentence}
    assert (study.state().missing, study.run().rows()) == (len(cells), [])
    monkeypatch.setenv(mnist.VARIABLE, str(tmp_path / "absent.npz"))
    assert mnist.missing(**cells[0]) == "The file of MNIST must exist. Got absent.npz."
    assert (study.state().missing, study.run().rows()) == (len(cells), [])


def test_what_a_cell_cannot_be_made_of_is_refused(data, tmp_path):
    np.savez(tmp_path / "other.npz", x_train=np.zeros(3))
    for call, sentence in (
        (lambda: mnist.digits(tmp_path / "other.npz"), "The file must hold x_train, y_train, x_test, y_test. Got x_tr"),
        (lambda: mnist.cell("GAN", "ReLU", 1e-3, data=data), "method must be one of"),
        (lambda: mnist.cell("VAE", "tanh", 1e-3, data=data), "activation must be one of"),
        (lambda: pinwheel.cell("VaDE", None), "method must be one of"),
        (lambda: pinwheel.cell("x", 0.1), "method must be one of"),
    ):
        with pytest.raises(InputError, match=sentence):
            call()


def test_a_run_agrees_with_the_others_in_the_mean():
    z = white(4)
    swapped = -2 * z[:, [2, 3, 0, 1]]  # the same latents, each in the other facet
    turned = np.concatenate([z[:, :2] @ TURN, z[:, 2:]], axis=1)
    found = mnist.agreements(np.stack([z, swapped, turned]), 0, facets=True)
    root = np.sqrt(0.5)
    assert found["strong"] == pytest.approx((1 + (2 * root + 2) / 4) / 2)
    assert found["weak"] == pytest.approx(1)
    assert found["strong 1"] == pytest.approx((0 + root) / 2, abs=1e-6)
    assert found["strong 2"] == pytest.approx((0 + 1) / 2, abs=1e-6)
    assert set(mnist.agreements(np.stack([z, turned]), 0, facets=False)) == {"strong", "weak"}


class Told(torch.nn.Module):
    """A model whose first facet knows the label and whose second puts all rows into one cluster."""

    mean = torch.zeros(1)

    def share(self, x):
        first, second = torch.eye(25)[x[:, 0].long()], torch.eye(25)[torch.full((len(x),), 24)]
        return torch.cat([first, second], dim=1)


def test_every_facet_is_judged_by_its_own_clusters():
    labels = np.array([0, 0, 1, 1, 1, 1, 2, 2])
    found = mnist._named_by_facets(Told(), mnist.Digits(20 + labels[:, None].astype(np.float32), labels))
    assert found == {"accuracy 1": 1.0, "accuracy 2": 0.5}


def test_the_vae_is_one_cluster_with_as_many_latents_and_steps():
    settings = {"slope": 0.0, "rate": 1e-3, "device": "cpu"}
    ours, plain = (mnist._model(method, 3, **settings) for method in mnist.METHODS)
    assert ours.facets == ((5, 25), (5, 25))
    assert plain.facets == ((10, 1),)
    steps = [model.get_params()["training__steps"] for model in (ours, plain)]
    assert steps[0] + ours.pretraining == steps[1]
    assert plain.pretraining == 0
    assert ours.encoder == plain.encoder == ours.decoder == MLP(hidden=(512, 512), slope=0.0)
    assert set(mnist.SLOPES.values()) == {0.0, 0.2}
    assert ours.n_models == plain.n_models == 3


@pytest.mark.parametrize("method", ["MFCVAE", "VAE", "PCA"])
def test_a_cell_of_mnist_has_a_row_per_run(method, data):
    trained = method != "PCA"
    changes = {"hidden": (8,), "batch": 32, "device": "cpu", **TINY} if trained else {}
    found = mnist.cell(method, "ReLU" if trained else None, 1e-3 if trained else None, data=data, runs=2, **changes)
    assert [row["run"] for row in found] == [0, 1]
    assert all(0 <= row[name] <= 1 for row in found for name in ("strong", "weak", "accuracy 1"))
    assert ("elbo" in found[0]) == trained
    assert ("accuracy 2" in found[0]) == ("strong 2" in found[0]) == (method == "MFCVAE")
    if trained:
        assert found[0]["elbo"] != found[1]["elbo"]
    else:
        assert found[0]["strong"] == pytest.approx(1, abs=0.02)
        assert found[0]["accuracy 1"] > 0.5


def test_a_study_of_mnist_runs_the_cells_asked_for_once_and_compares(data, tmp_path, monkeypatch):
    monkeypatch.setenv(mnist.VARIABLE, str(data))
    study = Study(mnist, tmp_path)
    assert study.state().missing == 0
    told = []
    study.run(only={"method": "PCA"}, tell=told.append)
    assert [(one.done, one.all, one.failed) for one in told] == [(1, 1, 0)]
    assert len(tables.matching(study.rows(), method="PCA")) == len(study.rows()) == 10
    line = next(line for line in study.compare().splitlines() if line.startswith("PCA"))
    assert "(10)" in line
    study.run(only={"method": "PCA"}, tell=told.append)
    assert len(told) == 1, "what is finished is not computed again"
    monkeypatch.delenv(mnist.VARIABLE)
    assert (study.state().finished, study.state().missing) == (1, 6), "a finished cell lacks nothing"


def test_a_cell_of_mnist_trains_on_the_device_it_is_given(data, tmp_path, monkeypatch):
    monkeypatch.setenv(mnist.VARIABLE, str(data))
    asked = []

    def trained(method, train, test, runs, settings):
        asked.append((method, settings["device"], settings["rate"]))
        return np.stack([test.x, test.x]), [{"elbo": 0.0}, {"elbo": 1.0}]

    monkeypatch.setattr(mnist, "_trained", trained)
    Study(mnist, tmp_path).run(only={"method": "VAE", "activation": "ReLU"}, devices=("cpu",))
    assert asked == [("VAE", "cpu", 1e-3), ("VAE", "cpu", 3e-3)]


def test_mnist_stands_beside_the_published_figures_at_the_rate_of_the_higher_bound():
    shared = {"method": "MFCVAE", "activation": "leaky ReLU", "weak": 0.9}
    found = [
        {**shared, "rate": 1e-3, "elbo": -99.0, "strong": 0.9},
        {**shared, "rate": 3e-3, "elbo": -97.0, "strong": 0.6},
    ]
    line = next(line for line in mnist.compare(found).splitlines() if line.startswith("MFCVAE  leaky"))
    assert line.split()[3:9] == ["0.003", "0.69", "0.600", "(1)", "0.94", "0.900"]
