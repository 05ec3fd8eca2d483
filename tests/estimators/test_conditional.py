"""iVAE: it obeys the estimators' contract, takes labels or tables beside x, and recovers what the VAE does not."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator
from torch.distributions import Independent, Normal, kl_divergence

import noumena as nm
from noumena.estimators.conditional import kl_between_normals
from noumena.estimators.fit_data import split
from noumena.estimators.sources import source_of

QUICK = nm.Training(steps=4, batch_size=16)
TINY = nm.MLP(hidden=(16,))
OUTSIDE = "check_do_not_raise_errors_in_init_or_set_params"  # run apart, with the other estimators


def quick(**settings):
    return nm.iVAE(2, encoder=TINY, decoder=TINY, training=QUICK, random_state=0, **settings)


def segments(n=60, k=3, d=2, seed=0):
    """Independent latents whose variances change with the segment, bent into twice as many observations."""
    rng = np.random.default_rng(seed)
    u = rng.integers(k, size=n)
    z = np.exp(rng.uniform(np.log(0.1), np.log(2), size=(k, d)))[u] * rng.normal(size=(n, d))
    h = z @ np.linalg.qr(rng.normal(size=(d, d)))[0].T
    return np.where(h > 0, h, 0.5 * h) @ rng.normal(size=(d, 2 * d)), z, u


def contract():
    for estimator, check in estimator_checks_generator(quick()):
        name = getattr(check, "func", check).__name__
        if name != OUTSIDE:
            yield pytest.param(estimator, check, id=name)


@pytest.mark.parametrize(("estimator", "check"), list(contract()))
def test_scikit_learns_own_check_passes(estimator, check):
    check(estimator)  # raises an AssertionError when the contract is broken


def test_the_divergence_between_normals_is_torchs_own():
    torch.manual_seed(0)
    m, v, mu, w = torch.randn(4, 5, 3).double()
    q, p = (Independent(Normal(a, (b / 2).exp()), 1) for a, b in ((m, v), (mu, w)))
    torch.testing.assert_close(kl_between_normals(m, v, mu, w), kl_divergence(q, p))


def test_it_recovers_nonstationary_latents_that_the_vae_mixes():
    x, z, u = segments(2000, k=10, d=3, seed=1)
    training = nm.Training(steps=400, batch_size=128)
    told = nm.iVAE(3, beta=0.1, n_models=2, training=training, random_state=0).fit(x, u)
    untold = nm.VAE(3, beta=0.1, n_models=2, training=training, random_state=0).fit(x)
    score = nm.metrics.mcc(z, told.transform(x)).score
    assert score > 0.93
    assert score > nm.metrics.mcc(z, untold.transform(x)).score + 0.08
    assert told.objectives_.max() < untold.objectives_.min()
    shuffled = np.random.default_rng(0).permutation(u)
    assert told.score(x, u) > told.score(x, shuffled)


def test_with_one_label_and_the_prior_of_the_vae_it_has_the_vaes_objective():
    x, _, _ = segments()
    model = quick().fit(x, np.zeros(60, dtype=int)).models_[0]
    with torch.no_grad():
        model.prior[0].weight.zero_()
        model.prior[0].bias.zero_()
    vae = nm.VAE(2, encoder=TINY, decoder=TINY, training=QUICK, random_state=0).fit(x).models_[0]
    vae.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("prior")})
    rows = torch.as_tensor(x, dtype=torch.float32)
    draws = vae.draws(60, torch.Generator().manual_seed(0))
    found = model(torch.cat([rows, torch.ones(60, 1)], dim=1), draws, 1.0)[0]
    torch.testing.assert_close(found, vae(rows, draws, 1.0)[0])


@pytest.mark.parametrize("encode_u", [False, True])
@pytest.mark.parametrize("kind", ["numbers", "names", "table"])
def test_every_kind_of_u_trains_and_comes_back_from_a_file_and_a_pickle(encode_u, kind, tmp_path):
    x, _, labels = segments()
    u = {"numbers": labels, "names": np.array(["a", "b", "c"])[labels], "table": np.c_[labels, labels**2 + 5.0]}[kind]
    model = quick(encode_u=encode_u, n_models=2).fit(x, u)
    beside = u if encode_u else None
    z = model.transform(x, beside)
    nm.save(model, tmp_path)
    for again in (nm.load(tmp_path), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.transform(x, beside), z)
        assert again.score(x, u) == model.score(x, u)
        assert again.labels_ == model.labels_
        assert again.auxiliary_ == model.auxiliary_
    assert model.n_features_in_ == 4
    assert z.shape == (60, 2)
    assert np.array_equal(model.transform_all(x, beside)[model.best_], z)
    assert np.array_equal(clone(model).fit_transform(x, u), z)
    assert model.inverse_transform(z).shape == x.shape
    assert model.points_.shape == (2, 54, 2)
    names = {"numbers": [0, 1, 2], "names": ["a", "b", "c"], "table": None}[kind]
    assert model.labels_ == names


def test_the_published_encoder_uses_u_and_the_default_one_does_not_need_it():
    x, _, u = segments()
    published = quick(encode_u=True).fit(x, u)
    assert not np.allclose(published.transform(x, u), published.transform(x, (u + 1) % 3))
    with pytest.raises(nm.InputError, match="u must come with x"):
        published.transform(x)
    plain = quick().fit(x, u)
    assert np.array_equal(plain.transform(x), plain.transform(x, u))
    tensor = published.transform(torch.as_tensor(x), torch.as_tensor(u))
    assert isinstance(tensor, torch.Tensor)
    assert np.allclose(tensor.numpy(), published.transform(x, u))


def test_the_split_keeps_every_row_with_its_own_u():
    x, _, u = segments()
    x[:, 0] = 10 * u  # a column that says which
    model = quick(standardise=False)
    model._check()
    model.seeds_ = [0]
    beside = model._beside(u, 60)
    rows = split(source_of(x), 0.1, standardise=False, beside=beside, like=torch.zeros(0))[0]
    for part in (rows.train, rows.held_out):
        assert torch.equal(part[:, 4:].argmax(dim=1), (part[:, 0] / 10).long())
        assert torch.equal(part[:, 4:].sum(dim=1), torch.ones(len(part)))


def test_a_table_is_standardised_as_in_fit():
    x, _, u = segments()
    table = np.c_[u, 100.0 + 7 * u**2]
    model = quick().fit(x, table)
    columns = model._columns(table)
    assert np.allclose(columns.mean(axis=0), 0)
    assert np.allclose(columns.std(axis=0), 1)
    assert np.allclose(model._columns(table[:7]), columns[:7])


def test_k_seeds_in_one_program_equal_k_separate_fits():
    x, _, u = segments()
    training = nm.Training(steps=8, batch_size=32, dtype="float64")
    together = quick(n_models=3).set_params(training=training, random_state=7).fit(x, u)
    for k, seed in enumerate(together.seeds_):
        alone = quick().set_params(training=training, random_state=seed).fit(x, u)
        assert np.allclose(alone.transform(x), together.transform_all(x)[k], atol=1e-9)


def test_gradients_reach_every_parameter():
    x, _, u = segments()
    fitted = quick(encode_u=True).fit(x, u)
    fresh = fitted._model(5, 4, torch.zeros(4), torch.ones(4))
    rows = torch.as_tensor(np.c_[x, fitted._columns(u)], dtype=torch.float32)
    fresh(rows, fresh.draws(60, torch.Generator().manual_seed(0)), 1.0)[0].backward()
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in fresh.parameters())


def test_a_checkpoint_knows_the_labels_it_belongs_to(tmp_path):
    x, _, u = segments()
    model = quick().set_params(training=nm.Training(steps=4, batch_size=16, checkpoint=tmp_path / "fit"))
    clone(model).fit(x, u)
    with pytest.raises(nm.InputError, match="checkpoint"):
        clone(model).fit(x, (u + 1) % 3)


def test_pipelines_and_names_of_columns_work():
    x, _, u = segments()
    frame = pd.DataFrame(x, columns=list("abcd"))
    model = quick().fit(frame, pd.Series(np.array(["one", "two", "three"])[u]))
    assert model.structure_.observed == ("a", "b", "c", "d")
    assert model.labels_ == ["one", "three", "two"]
    assert list(model.set_output(transform="pandas").transform(frame).columns) == ["ivae0", "ivae1"]
    assert make_pipeline(StandardScaler(), quick(encode_u=True)).fit_transform(x, u).shape == (60, 2)
    with pytest.raises(NotFittedError):
        quick().transform(x)


U = segments()[2]


@pytest.mark.parametrize(
    ("u", "settings", "sentence"),
    [
        (None, {}, "u must come with x here"),
        (U[:50], {}, "u must have 60 rows"),
        (np.arange(60) / 7, {}, "must hold labels that repeat"),
        (np.where(U == 0, np.nan, 1.0), {}, "must be finite numbers or names"),
        (np.zeros((60, 1, 1)), {}, "a vector of labels or a table"),
        (np.ones((60, 2)), {}, "u must vary in every column"),
        (np.c_[U, np.where(U == 0, np.inf, 1.0)], {}, "u must be finite"),
        (U, {"beta": -1}, "beta must be"),
        (U, {"penalty": nm.DependencySparsity()}, "vacuous; use VAE or VaDE"),
    ],
)
def test_bad_input_is_one_sentence(u, settings, sentence):
    with pytest.raises(nm.InputError, match=sentence) as caught:
        quick(**settings).fit(segments()[0], u)
    assert "\n" not in str(caught.value)


def test_a_later_u_must_be_like_that_of_the_fit():
    x, _, u = segments()
    labelled, other = quick().fit(x, u), quick().fit(x, np.c_[u, u**2])
    with pytest.raises(nm.InputError, match=r"labels that fit has seen, \[0, 1, 2\]. Got \[7\]"):
        labelled.score(x, np.where(u == 0, 7, u))
    with pytest.raises(nm.InputError, match="u must be a vector of labels, as in fit"):
        labelled.score(x, np.c_[u, u])
    with pytest.raises(nm.InputError, match="u must be a table of 2 columns"):
        other.score(x, u)
