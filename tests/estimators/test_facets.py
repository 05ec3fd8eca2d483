"""MFCVAE: two ways of clustering the same rows land in two facets, and the fade-in does what it says."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import noumena as nm
from noumena.estimators.facets import gates
from noumena.estimators.mixture_prior import kl_to_components

QUICK = nm.Training(steps=4, batch_size=16)
TINY = nm.MLP(hidden=(16,))


def two_ways(n=1200, seed=0):
    """Rows that fall into three clusters by two latents and, independently, into two by a third."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(3, size=n), rng.integers(2, size=n)
    corners = 3 * np.stack([np.cos(2 * np.pi * a / 3), np.sin(2 * np.pi * a / 3)], axis=1)
    z = np.c_[corners + 0.4 * rng.normal(size=(n, 2)), 2.0 * b - 1 + 0.3 * rng.normal(size=n)]
    h = z @ np.linalg.qr(rng.normal(size=(3, 3)))[0].T
    return np.where(h > 0, h, 0.5 * h) @ rng.normal(size=(3, 6)), np.c_[a, b]


def test_facets_are_switched_on_one_after_the_other():
    assert gates(0.0, 3, 0.5) == [1.0, 0.0, 0.0]
    assert gates(0.125, 3, 0.5) == [1.0, 0.5, 0.0]
    assert gates(0.25, 3, 0.5) == [1.0, 1.0, 0.0]
    assert gates(0.5, 3, 0.5) == gates(1.0, 3, 0.5) == gates(0.0, 3, 0.0) == [1.0, 1.0, 1.0]
    assert gates(0.0, 1, 0.5) == [1.0]


def test_each_way_of_clustering_is_found_in_a_facet_of_its_own():
    x, u = two_ways(seed=1)
    training, net = nm.Training(steps=400, batch_size=128), nm.MLP(hidden=(64,))
    model = nm.MFCVAE(((2, 3), (1, 2)), pretraining=300, encoder=net, decoder=net, training=training, random_state=0)
    model.fit(x)
    found = model.predict(x)
    assert found.shape == (1200, 2)
    agreement = np.array([[adjusted_rand_score(u[:, i], found[:, j]) for j in range(2)] for i in range(2)])
    assert (np.diag(agreement) > 0.9).all()
    assert np.abs(agreement[[0, 1], [1, 0]]).max() < 0.1
    assert [m.n_components for m in model.mixtures_] == [3, 2]
    assert [m.n_latents for m in model.mixtures_] == [2, 1]
    assert np.allclose(model.mixtures_[1].weights, 0.5, atol=0.05)


@pytest.fixture(scope="module")
def quick():
    model = nm.MFCVAE(((2, 3), (1, 2)), fade=0.5, pretraining=3, n_models=2, encoder=TINY, decoder=TINY,
                      training=QUICK, random_state=0)  # fmt: skip
    return model.fit(two_ways(80)[0])


def test_a_facet_that_is_off_is_neither_seen_nor_paid_for(quick):
    model = quick._model(5, 6, torch.zeros(6), torch.ones(6))
    x = torch.as_tensor(two_ways(30)[0], dtype=torch.float32)
    draws = model.draws(30, torch.Generator().manual_seed(0))
    before = [float(model(x, draws, progress)[0].detach()) for progress in (0.0, 1.0)]
    with torch.no_grad():
        model.decoder[0].weight[:, 2] += 3.0
        model.priors[1].means += torch.tensor([[1.0], [-1.0]])
    after = [float(model(x, draws, progress)[0].detach()) for progress in (0.0, 1.0)]
    assert after[0] == pytest.approx(before[0], rel=1e-6)
    assert after[1] != pytest.approx(before[1], rel=1e-3)


def test_the_kl_term_is_the_closed_form_of_the_best_responsibilities(quick):
    model = quick.models_[0]
    x = torch.as_tensor(two_ways(30)[0], dtype=torch.float32)
    draws = model.draws(30, torch.Generator().manual_seed(0))
    mean, log_variance = model.posterior(x)
    wanted = 0.0
    for prior, facet in zip(model.priors, (slice(0, 2), slice(2, 3)), strict=True):
        law = prior()
        kl = kl_to_components(mean[:, facet], log_variance[:, facet], law)
        wanted -= float((law.log_weights - kl).logsumexp(dim=1).mean())
    assert float(model(x, draws, 1.0)[1]["kl"]) == pytest.approx(wanted, rel=1e-5)
    half = float(model(x, draws, 0.25)[1]["kl"])
    first = -float((model.priors[0]().log_weights - kl_to_components(mean[:, :2], log_variance[:, :2],
                                                                     model.priors[0]())).logsumexp(dim=1).mean())  # fmt: skip  # noqa: E501
    assert half == pytest.approx((first + wanted) / 2, rel=1e-5)


def test_responsibilities_come_one_array_per_facet(quick):
    x = two_ways(80)[0]
    shares = quick.responsibilities(x)
    assert [s.shape for s in shares] == [(80, 3), (80, 2)]
    assert all(np.allclose(s.sum(axis=1), 1) for s in shares)
    assert np.array_equal(quick.predict(x)[:, 0], shares[0].argmax(axis=1))
    assert quick.transform(x).shape == (80, 3)
    assert quick.n_latents == 3


def test_it_comes_back_from_a_file(quick, tmp_path):
    x = two_ways(80)[0]
    nm.save(quick, tmp_path)
    again = nm.load(tmp_path)
    assert again.facets == ((2, 3), (1, 2))
    assert np.array_equal(again.predict(x), quick.predict(x))
    assert np.array_equal(again.mixtures_of(1)[0].means, quick.mixtures_of(1)[0].means)


def test_k_seeds_in_one_program_equal_k_separate_fits():
    x = two_ways(150)[0]
    training = nm.Training(steps=8, batch_size=32, dtype="float64")
    model = nm.MFCVAE(((2, 3), (1, 2)), pretraining=8, encoder=TINY, decoder=TINY, training=training)
    together = clone(model).set_params(n_models=2, random_state=7).fit(x)
    for k, seed in enumerate(together.seeds_):
        alone = clone(model).set_params(random_state=seed).fit(x)
        assert np.allclose(alone.transform(x), together.transform_all(x)[k], atol=1e-7)
        assert np.allclose(alone.mixtures_[1].means, together.mixtures_of(k)[1].means, atol=1e-7)


def test_images_of_zeros_and_ones_may_have_pixels_that_never_change():
    rng = np.random.default_rng(0)
    x = np.c_[rng.uniform(size=(60, 4)) < 0.4, np.zeros((60, 2))].astype(np.float32)
    model = nm.MFCVAE(((1, 2), (1, 2)), likelihood="bernoulli", standardise=False, pretraining=2, training=QUICK,
                      random_state=0).fit(x)  # fmt: skip
    again = model.inverse_transform(model.transform(x))
    assert again.shape == (60, 6)
    assert (again > 0).all()
    assert (again < 1).all()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"facets": ()}, "facets must be pairs"),
        ({"facets": 3}, "facets must be pairs"),
        ({"facets": ((1, 2), (3,))}, "facets must be pairs"),
        ({"facets": ((0, 2),)}, "The latents of a facet must be a whole number"),
        ({"facets": ((1, 2.5),)}, "The clusters of a facet must be a whole number"),
        ({"fade": 2}, "fade must be a finite number"),
    ],
)
def test_bad_input_is_one_sentence(settings, sentence):
    with pytest.raises(nm.InputError, match=sentence) as caught:
        nm.MFCVAE().set_params(**settings).fit(two_ways(50)[0])
    assert "\n" not in str(caught.value)
