"""A flow of pictures finds where a spot is, under every penalty, and refuses as many latents as pixels."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

import noumena as nm
from noumena.estimators.flow import Flow
from noumena.nets.couplings import VolumePreserving

QUICK = nm.Training(steps=3, batch_size=16)
TINY = VolumePreserving(blocks=2, hidden=(4,))


SKETCHED = [
    0.1 * nm.LatentSparsity(),
    0.1 * nm.DependencySparsity(points=4),
    0.1 * nm.DependencySparsity(rows=8, points=8),
    0.1 * nm.DependencySparsity(columns=2, points=8),
    0.1 * nm.OroJaR(),
    0.1 * nm.HessianPenalty(),
]


def spots(n=40, side=8):
    """Where a soft spot is, and the flat picture of it in bytes; one pixel is always off."""
    place = np.random.default_rng(0).uniform(0.2, 0.8, size=(n, 2))
    across, down = np.exp(-0.5 * ((np.linspace(0, 1, side) - place.T[:, :, None]) / 0.15) ** 2)
    x = (255 * across[:, :, None] * down[:, None]).round().astype(np.uint8).reshape(n, -1)
    x[:, 0] = 0
    return place, x


@pytest.mark.parametrize("penalty", SKETCHED, ids=lambda p: repr(p)[6:])
@pytest.mark.parametrize("side", [8, 28])
def test_flat_pictures_are_fitted_with_every_penalty(penalty, side):
    _, x = spots(side=side)
    plan = nm.Training(steps=2, batch_size=8)
    model = Flow(3, penalty=penalty, coupling=TINY, standardise=False, n_models=2, training=plan, random_state=0).fit(x)
    assert np.isfinite(model.objectives_).all()
    assert (model.terms_["penalty"] > 0).all()
    assert model.inverse_transform(model.transform(x)).shape == x.shape


def test_bytes_are_seen_as_shares_of_255_and_their_density_is_that_of_bytes():
    _, x = spots()
    shares = (x / 255.0).astype(np.float32)
    of_bytes, of_shares = (Flow(2, coupling=TINY, standardise=False, training=QUICK, random_state=0).fit(d)
                           for d in (x, shares))  # fmt: skip
    assert np.allclose(of_bytes.transform(x), of_shares.transform(shares), atol=1e-5)
    assert np.allclose(of_bytes.log_prob(x), of_shares.log_prob(shares) - 64 * np.log(255), atol=1e-2)


def test_where_a_spot_is_comes_out_of_its_pixels():
    place, x = spots(600)
    plan = nm.Training(steps=100, batch_size=64, learning_rate=2e-2)
    model = Flow(2, coupling=VolumePreserving(4, (32,)), standardise=False, training=plan, random_state=0).fit(x)
    assert model.terms_["reconstruction"][0] < 0.2 * (x / 255.0).var(axis=0).sum()
    line = np.c_[model.transform(x), np.ones(600)]
    left = place - line @ np.linalg.lstsq(line, place, rcond=None)[0]
    assert (left.var(axis=0) < 0.1 * place.var(axis=0)).all()


def test_a_flow_follows_principal_components_in_a_pipeline():
    _, x = spots(200)
    pipeline = make_pipeline(PCA(4), Flow(coupling=TINY, penalty=0.1 * nm.DependencySparsity(), training=QUICK,
                                          random_state=0))  # fmt: skip
    z = pipeline.fit_transform(x / 255.0)
    assert z.shape == (200, 4)
    lost = pipeline.inverse_transform(z) - pipeline[0].inverse_transform(pipeline[0].transform(x / 255.0))
    assert np.abs(lost).max() < 1e-5  # the flow itself loses nothing


def test_pictures_with_as_many_latents_as_pixels_are_refused_for_they_fill_no_volume():
    class Asked:
        shape = (1, 8, 8)

        def __len__(self):
            return 80

        def pictures(self, index):
            return spots(80)[1][index]

    for x in (spots(80)[1], Asked()):
        for n_latents in (None, 64):
            with pytest.raises(nm.InputError, match=r"than their 64 pixels, which fill no volume\. Got 64\."):
                Flow(n_latents, coupling=TINY, standardise=False, training=QUICK).fit(x)
    varied = spots(80)[1][:, 20:23]
    assert Flow(coupling=TINY, training=QUICK, random_state=0).fit(varied).transform(varied).shape == (80, 3)
