"""VaDE: its formulas agree with independent references, it finds clusters unseen; with one cluster it is the VAE."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from torch.distributions import Bernoulli, Categorical, Independent, MixtureSameFamily, Normal, kl_divergence

import noumena as nm
from noumena.estimators.likelihoods import misfit, output
from noumena.estimators.mixture_prior import (
    FLOOR,
    MixtureParameters,
    MixturePrior,
    best_log_responsibilities,
    kl_to_components,
    kl_to_mixture,
    log_responsibilities,
)

QUICK = nm.Training(steps=5, batch_size=16)
TINY = nm.MLP(hidden=(16,))


def some_law(k=3, d=2, seed=0):
    g = torch.Generator().manual_seed(seed)
    return MixtureParameters(
        torch.randn(k, generator=g).double().log_softmax(dim=0),
        2 * torch.randn(k, d, generator=g).double(),
        torch.randn(k, d, generator=g).double(),
    )


def as_distribution(law):
    parts = Independent(Normal(law.means, (law.log_variances / 2).exp()), 1)
    return MixtureSameFamily(Categorical(logits=law.log_weights), parts)


def posteriors(rows=4, d=2, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, d, generator=g).double(), torch.randn(rows, d, generator=g).double() - 1


def clusters(n=900, seed=0):
    """Three clusters of two latents behind a bent map to the plane, and which is whose."""
    rng = np.random.default_rng(seed)
    u = rng.integers(3, size=n)
    z = np.array([[0, 0], [4, 1], [1, 5]])[u] + rng.normal(size=(n, 2)) * np.array([[1, 0.4], [0.5, 1], [0.7, 0.4]])[u]
    h = z @ np.array([[0.8, -0.6], [0.6, 0.8]])
    return np.where(h > 0, h, 0.5 * h), u


def binary(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.uniform(size=(n, 5)) < np.array([[0.9, 0.8, 0.1, 0.2, 0.0], [0.1, 0.3, 0.9, 0.7, 0.0]])[rng.integers(2, size=n)]) * 1.0  # fmt: skip  # noqa: E501


# ---- formulas --------------------------------------------------------------------------------------------


def test_the_divergence_to_every_component_is_torchs_own():
    law, (mean, log_variance) = some_law(), posteriors()
    q = Independent(Normal(mean[:, None], (log_variance / 2).exp()[:, None]), 1)
    p = Independent(Normal(law.means, (law.log_variances / 2).exp()), 1)
    torch.testing.assert_close(kl_to_components(mean, log_variance, law), kl_divergence(q, p))


def test_responsibilities_are_bayes_rule():
    law, z = some_law(), posteriors(6)[0]
    densities = [
        multivariate_normal(m.numpy(), np.diag(np.exp(v.numpy()))).pdf(z.numpy())
        for m, v in zip(law.means, law.log_variances, strict=True)
    ]
    joint = law.log_weights.exp().numpy() * np.stack(densities, axis=1)
    assert np.allclose(log_responsibilities(z, law).exp().numpy(), joint / joint.sum(axis=1, keepdims=True))


def test_the_divergence_with_responsibilities_agrees_with_monte_carlo():
    law, (mean, log_variance) = some_law(), posteriors(1)
    shares = torch.tensor([[0.2, 0.5, 0.3]]).double()
    torch.manual_seed(0)
    n = 200_000
    q = Independent(Normal(mean[0], (log_variance[0] / 2).exp()), 1)
    z, c = q.sample((n,)), Categorical(probs=shares[0]).sample((n,))
    p = Independent(Normal(law.means[c], (law.log_variances[c] / 2).exp()), 1)
    each = q.log_prob(z) + shares[0, c].log() - law.log_weights[c] - p.log_prob(z)
    exact = kl_to_mixture(kl_to_components(mean, log_variance, law), shares.log(), law)
    assert abs(float(exact) - float(each.mean())) < 4 * float(each.std()) / n**0.5


def test_it_is_an_upper_bound_of_the_divergence_to_the_mixture_and_least_at_the_best_shares():
    law, (mean, log_variance) = some_law(), posteriors(1)
    kl = kl_to_components(mean, log_variance, law)
    best = best_log_responsibilities(kl, law)
    least = float(kl_to_mixture(kl, best, law))
    assert least == pytest.approx(-float((law.log_weights - kl).logsumexp(dim=1)), abs=1e-12)
    torch.manual_seed(0)
    for _ in range(20):
        other = (best + 0.3 * torch.randn_like(best)).log_softmax(dim=1)
        assert float(kl_to_mixture(kl, other, law)) > least
    q = Independent(Normal(mean[0], (log_variance[0] / 2).exp()), 1)
    z = q.sample((100_000,))
    each = q.log_prob(z) - as_distribution(law).log_prob(z)
    assert float(each.mean()) < least + 4 * float(each.std()) / 1e5**0.5
    apart = MixtureParameters(
        law.log_weights, law.means * 1000, law.log_variances
    )  # where components do not overlap: equality
    z = apart.means[:1]
    there = kl_to_components(z, log_variance, apart)
    q = Independent(Normal(z[0], (log_variance[0] / 2).exp()), 1)
    drawn = q.sample((100_000,))
    each = q.log_prob(drawn) - as_distribution(apart).log_prob(drawn)
    wanted = float(kl_to_mixture(there, best_log_responsibilities(there, apart), apart))
    assert abs(float(each.mean()) - wanted) < 4 * float(each.std()) / 1e5**0.5


# ---- the prior -------------------------------------------------------------------------------------------


def test_a_prior_has_mean_zero_and_variance_one_and_no_cluster_is_a_point():
    torch.manual_seed(0)
    prior = MixturePrior(2, 4).double()
    with torch.no_grad():
        prior.logits.copy_(torch.randn(4))
        prior.means.mul_(7).add_(3)
        prior.log_variances.copy_(torch.randn(4, 2))
        prior.log_variances[1] = -60.0
    law = prior.mixture()
    assert np.allclose(law.mean, 0, atol=1e-12)
    assert np.allclose(np.diag(law.covariance), 1, atol=1e-12)
    variances = np.diagonal(law.covariances, axis1=1, axis2=2)
    assert np.allclose(variances[1], FLOOR)
    assert (variances[[0, 2, 3]] > FLOOR).all()


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_a_prior_starts_at_scikit_learns_mixture_of_the_codes(seed):
    x, _ = clusters()
    codes = (x - x.mean(axis=0)) / x.std(axis=0)
    prior = MixturePrior(2, 3).double()
    prior.start(codes, seed)
    reference = GaussianMixture(3, covariance_type="diag", n_init=10, random_state=0, tol=1e-6).fit(codes)
    wanted = np.argsort(reference.means_[:, 0])  # whatever the seed, in the order of the first latent
    assert np.allclose(prior.mixture().weights, reference.weights_[wanted], atol=0.01)
    assert np.allclose(prior.mixture().means, reference.means_[wanted], atol=0.02)
    variances = np.diagonal(prior.mixture().covariances, axis1=1, axis2=2)
    assert np.allclose(variances, reference.covariances_[wanted], atol=0.02)


# ---- the estimator ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [None, 0.1 * nm.DependencySparsity()])
def test_with_one_cluster_and_no_pretraining_it_is_the_vae(penalty):
    x, _ = clusters(100)
    training = nm.Training(steps=15, batch_size=32)
    model = nm.VaDE(2, 1, pretraining=0, penalty=penalty, training=training, random_state=3).fit(x)
    vae = nm.VAE(2, penalty=penalty, training=training, random_state=3).fit(x)
    assert np.allclose(model.transform(x), vae.transform(x), atol=1e-4)
    assert model.objectives_ == pytest.approx(vae.objectives_, rel=1e-4)
    assert np.array_equal(model.mixture_.means, np.zeros((1, 2)))
    assert np.allclose(model.mixture_.covariances, np.eye(2))


@pytest.fixture(scope="module")
def fitted():
    x, u = clusters()
    training = nm.Training(steps=200, batch_size=128)
    return nm.VaDE(2, 3, pretraining=150, n_models=2, training=training, random_state=0).fit(x), x, u


def test_clusters_are_found_without_labels(fitted):
    model, x, u = fitted
    assert model.predict(x).shape == u.shape
    assert adjusted_rand_score(u, model.predict(x)) > 0.9
    assert np.allclose(sorted(model.mixture_.weights), sorted(np.bincount(u) / len(u)), atol=0.05)


def test_responsibilities_are_shares_of_the_rows_and_near_bayes_rule_at_the_codes(fitted):
    model, x, _ = fitted
    shares, law, z = model.responsibilities(x), model.mixture_, model.transform(x)
    assert np.allclose(shares.sum(axis=1), 1)
    joint = np.stack([w * multivariate_normal(m, S).pdf(z) for w, m, S in
                      zip(law.weights, law.means, law.covariances, strict=True)], axis=1)  # fmt: skip
    assert (joint.argmax(axis=1) == model.predict(x)).mean() > 0.98
    tensor = model.responsibilities(torch.as_tensor(x))
    assert isinstance(tensor, torch.Tensor)
    assert np.allclose(tensor.numpy(), shares)


def test_its_evidence_bound_is_above_the_vaes_on_clustered_data(fitted):
    model, x, _ = fitted
    vae = nm.VAE(2, n_models=2, training=nm.Training(steps=350, batch_size=128), random_state=0).fit(x)
    assert model.objectives_.max() < vae.objectives_.min()  # minus the bound, in the same units
    assert model.score(x) > vae.score(x)


def test_codes_follow_the_mixture(fitted):
    model, x, _ = fitted
    assert np.allclose(model.transform(x).mean(axis=0), 0, atol=0.15)
    assert np.allclose(model.transform(x).std(axis=0), 1, atol=0.15)


def test_the_mixture_can_be_certified_with_its_decoder(fitted):
    model, _, _ = fitted
    reading = nm.certify(model.mixture_, by="mixtures", decoder=model.decoder_, at=model.points_[model.best_])
    answers = {h.name: h.answer for h in reading.hypotheses}
    assert answers["P1 a Gaussian mixture of non-degenerate components"] == "supported"
    assert answers["P2 the latents are independent in every component"] == "supported"
    assert answers["F1 the decoder is piecewise affine"] == "holds"
    assert nm.certify(model.mixture_of(1)).hypotheses


def test_a_fitted_mixture_comes_back_from_a_file(fitted, tmp_path):
    model, x, _ = fitted
    nm.save(model, tmp_path)
    again = nm.load(tmp_path)
    assert np.array_equal(again.predict(x), model.predict(x))
    for k in range(2):
        assert np.array_equal(again.mixture_of(k).means, model.mixture_of(k).means)
        assert np.array_equal(again.mixture_of(k).covariances, model.mixture_of(k).covariances)
    assert not np.allclose(model.mixture_of(0).means, model.mixture_of(1).means)


def test_k_seeds_in_one_program_equal_k_separate_fits():
    x, _ = clusters(200)
    training = nm.Training(steps=15, batch_size=32, dtype="float64")
    model = nm.VaDE(2, 3, pretraining=15, encoder=TINY, decoder=TINY, training=training)
    together = clone(model).set_params(n_models=2, random_state=7).fit(x)
    for k, seed in enumerate(together.seeds_):
        alone = clone(model).set_params(random_state=seed).fit(x)
        assert np.allclose(alone.transform(x), together.transform_all(x)[k], atol=1e-7)
        assert np.allclose(alone.mixture_.means, together.mixture_of(k).means, atol=1e-7)
        assert alone.objectives_[0] == pytest.approx(together.objectives_[k], rel=1e-7)


def test_pretraining_leaves_unit_codes_and_a_mixture_of_them():
    x, _ = clusters(300)
    model = nm.VaDE(2, 3, pretraining=100, random_state=0, training=nm.Training(steps=1, learning_rate=1e-9)).fit(x)
    z = model.points_[0]
    assert np.allclose(z.mean(axis=0), 0, atol=1e-3)
    assert np.allclose(z.std(axis=0), 1, atol=1e-3)
    reference = GaussianMixture(3, covariance_type="diag", n_init=10, random_state=0).fit(z)
    found = multivariate_normal  # the likelihood of the codes under the prior is that of a fit to them
    law = model.mixture_
    density = sum(w * found(m, S).pdf(z) for w, m, S in zip(law.weights, law.means, law.covariances, strict=True))
    assert np.log(density).mean() == pytest.approx(reference.score(z), abs=0.02)


def test_a_finished_fit_is_resumed_from_its_checkpoints(tmp_path):
    x, _ = clusters(100)
    training = nm.Training(steps=10, batch_size=16, checkpoint=tmp_path / "fit")
    model = nm.VaDE(2, 2, pretraining=10, encoder=TINY, decoder=TINY, training=training, random_state=0)
    first = clone(model).fit(x).transform(x)
    assert {p.name for p in tmp_path.iterdir()} == {"fit", "fit.pretraining"}
    assert np.array_equal(clone(model).fit(x).transform(x), first)


def test_stopping_by_hand_before_there_is_a_mixture_stops(monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    model = nm.VaDE(2, 2, pretraining=5, encoder=TINY, decoder=TINY, training=QUICK, random_state=0)
    monkeypatch.setattr("noumena.estimators.loop._Fit._update", stopped)
    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="Stopped by hand"):
        model.fit(clusters(60)[0])


def test_a_bernoulli_likelihood_is_torchs_own_and_decodes_to_probabilities():
    x = binary()
    model = nm.VaDE(2, 2, likelihood="bernoulli", standardise=False, pretraining=3, training=QUICK, random_state=0)
    model.fit(x)
    z = torch.as_tensor(model.points_[0][:20]).float()
    probabilities = model.decoder_(z)
    assert float(probabilities.min()) > 0
    assert float(probabilities.max()) < 1
    rows = torch.as_tensor(x[:20]).float()
    wanted = -Bernoulli(probs=probabilities).log_prob(rows).sum(dim=1)
    logits = output(model.models_[0].decoder, z, "bernoulli")
    torch.testing.assert_close(misfit(logits, rows, "bernoulli"), wanted, rtol=1e-4, atol=1e-4)
    assert model.models_[0].beta == 1.0
    assert model.inverse_transform(model.transform(x)).shape == x.shape
    read = nm.certify(model.mixture_, by="mixtures", decoder=model.decoder_)
    affine = next(h for h in read.hypotheses if "F1" in h.name)
    assert affine.answer == "fails"


def test_a_penalty_acts_after_pretraining():
    x, _ = clusters(60)
    model = nm.VaDE(2, 2, penalty=nm.DependencySparsity(), pretraining=3, n_models=2, training=QUICK, random_state=0)
    assert np.isfinite(model.fit(x).terms_["penalty"]).all()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_clusters": 0}, "n_clusters must be a whole number"),
        ({"n_latents": 0}, "n_latents must be a whole number"),
        ({"pretraining": -1}, "pretraining must be a whole number"),
        ({"beta": -1}, "beta must be"),
        ({"likelihood": "poisson"}, "likelihood must be one of gaussian, bernoulli"),
        ({"likelihood": "bernoulli"}, "must see the observations as they are"),
        ({"likelihood": "bernoulli", "standardise": False}, r"must see x in \[0, 1\]"),
        ({"training": nm.Training(polish=1)}, "polish must be 0"),
        ({"n_clusters": 50, "training": QUICK}, "at least as many rows as clusters. Got 45 rows"),
    ],
)
def test_bad_input_is_one_sentence(settings, sentence):
    with pytest.raises(nm.InputError, match=sentence) as caught:
        nm.VaDE().set_params(**settings).fit(clusters(50)[0])
    assert "\n" not in str(caught.value)
