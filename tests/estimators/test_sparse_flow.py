"""Bent layers are exact both ways, and sparsity straightens a bent mixing that an affine unmixing cannot."""

import pickle

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator

import noumena as nm
from noumena.checks import InputError
from noumena.derivatives import jacobian
from noumena.estimators.loop import Training
from noumena.estimators.sparse.flow import (
    BentLayers,
    SparseFlow,
    SpikeSlabFlow,
    bend,
    shared_volume,
    spike_slab_log_density,
    unbend,
)

QUICK = Training(steps=4, batch_size=16)
SHORT = Training(steps=600, batch_size=500, learning_rate=0.02, clip=10.0)
OUTSIDE = "check_do_not_raise_errors_in_init_or_set_params"  # types are checked at run time here


def world(n=4000, slope=0.3, seed=1):
    """Three latents, one of them always zero, and a mixing with one bend; ``slope=1`` is affine."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3)) * ~np.eye(3, dtype=bool)[rng.integers(3, size=n)]
    first, second = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
    h = z @ first
    return z, np.maximum(slope * h, h) @ second + 2.0


def layers(dim=3, depth=2, seed=0):
    """Bent layers away from their start."""
    generator = torch.Generator().manual_seed(seed)
    net = BentLayers(dim, depth)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return net


def checks():
    for estimator, check in estimator_checks_generator(SparseFlow(start=PCA(whiten=True), depth=1, training=QUICK)):
        name = getattr(check, "func", check).__name__
        if name != OUTSIDE:
            yield pytest.param(estimator, check, id=name)


@pytest.fixture(scope="module")
def bent():
    z, x = world()
    return z, x, SparseFlow(depth=3, training=SHORT).fit(x)


class TestFormulas:
    def test_unbend_undoes_bend_and_the_log_slope_is_the_derivative(self):
        t = torch.linspace(-3, 3, 31, dtype=torch.float64)[:, None].requires_grad_()
        c = torch.tensor([-0.9], dtype=torch.float64)
        y, slope = bend(t, c)
        (gradient,) = torch.autograd.grad(y.sum(), t)
        assert torch.allclose(unbend(y, c), t)
        assert torch.allclose(slope.exp(), gradient)

    def test_far_from_the_kink_the_slopes_are_one_minus_and_one_plus_c(self):
        slopes = bend(torch.tensor([[-50.0], [50.0]]), torch.tensor([0.6]))[1].exp()
        assert slopes.flatten().tolist() == pytest.approx([0.4, 1.6], abs=1e-4)

    def test_the_density_is_that_of_a_spike_and_a_slab(self):
        z = torch.tensor([[0.1, 2.0]])
        odds, mean, spread = torch.tensor([0.0, 1.0]), torch.tensor([0.5, 1.0]), torch.tensor([0.2, 2.0])
        p = 1 / (1 + np.exp(-odds.numpy()))
        by_hand = p * norm.pdf(z[0], 0, 0.3) + (1 - p) * norm.pdf(z[0], mean, spread)
        found = spike_slab_log_density(z, 0.3, odds, mean, spread.log())
        assert found.item() == pytest.approx(np.log(by_hand).sum(), rel=1e-5)


class TestBentLayers:
    def test_they_start_as_the_identity(self):
        x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        z, logdet = BentLayers(4, 3)(x)
        assert torch.allclose(z, x)
        assert torch.allclose(logdet, torch.zeros(5, dtype=torch.float64), atol=1e-12)

    def test_inverse_and_log_determinant_are_exact(self):
        net, x = layers(), torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        z, logdet = net(x)
        exact = torch.linalg.slogdet(jacobian(lambda rows: net(rows)[0], x))[1]
        assert torch.allclose(net.inverse(z), x)
        assert torch.allclose(logdet, exact)

    def test_an_affine_map_follows(self):
        net, x = layers(), torch.ones(2, 3, dtype=torch.float64)
        matrix, offset = torch.diag(torch.tensor([2.0, 3.0, -1.0])).double(), torch.ones(3, dtype=torch.float64)
        before = net(x)[0].detach()
        net.follow(matrix, offset)
        assert torch.allclose(net(x)[0], before @ matrix.T + offset)


def test_the_spike_narrows_as_training_proceeds_and_rows_are_blurred_by_its_width():
    model, x = SpikeSlabFlow(2, 1).double(), torch.zeros(3, 2, dtype=torch.float64)
    model.forgiven = 0.0
    blur = {"blur": torch.ones(3, 2, dtype=torch.float64)}
    zero = torch.zeros(2, dtype=torch.float64)
    for progress, width in ((0.0, 0.3), (1.0, 0.01), (0.5, (0.3 * 0.01) ** 0.5)):
        z = torch.full((3, 2), width, dtype=torch.float64)
        by_hand = -spike_slab_log_density(z, width, zero, zero, zero).mean()
        assert model(x, blur, progress)[0].item() == pytest.approx(by_hand.item())


def test_what_dependence_costs_is_given_back_in_part():
    rng = np.random.default_rng(0)
    z = torch.as_tensor(rng.normal(size=(500, 2)) @ [[1.0, 0.6], [0.0, 0.8]])
    by_hand = np.log(np.linalg.det(np.corrcoef(z.numpy().T))) / 2
    assert float(shared_volume(3 * z + 1)) == pytest.approx(by_hand, abs=1e-2)
    assert np.isfinite(float(shared_volume(z[:, [0, 0]])))
    assert float(shared_volume(z[:, [0, 0]])) < by_hand - 2
    model, blur = SpikeSlabFlow(2, 1).double(), {"blur": torch.zeros(500, 2, dtype=torch.float64)}
    kept = model(z, blur, 1.0)[0].item()
    model.forgiven = 0.0
    assert kept - model(z, blur, 1.0)[0].item() == pytest.approx(0.8 * max(float(shared_volume(z)), -0.4))
    copies = z[:, [0, 0]]
    plain = model(copies, blur, 1.0)[0].item()
    model.forgiven = 0.8
    assert model(copies, blur, 1.0)[0].item() - plain == pytest.approx(0.8 * -0.4)  # no more than so much a latent


class TestRecovery:
    def test_a_bent_mixing_is_straightened_where_the_affine_unmixing_fails(self, bent):
        z, x, model = bent
        affine = nm.metrics.mcc(z, model.start_.transform(x)).score
        assert model.bent_
        assert affine < 0.95 < 0.98 < nm.metrics.mcc(z, model.transform(x)).score

    def test_inactive_latents_are_near_zero(self, bent):
        z, x, model = bent
        inactive = nm.metrics.mcc(z == 0, np.abs(model.transform(x)) < 0.1).score
        assert inactive > 0.8 > 0.6 > nm.metrics.mcc(z == 0, np.abs(model.start_.transform(x)) < 0.1).score

    def test_an_affine_mixing_gets_no_bends(self):
        z, x = world(slope=1.0)
        model = SparseFlow(depth=2, training=Training(steps=150, batch_size=500)).fit(x)
        assert not model.bent_
        assert model.affine_objective_ - 0.1 <= model.objectives_.min()
        assert nm.metrics.mcc(z, model.transform(x)).score > 0.999

    def test_latents_lead_back_to_the_observations_and_the_decoder_agrees(self, bent):
        _, x, model = bent
        z_hat = model.transform(x[:50])
        assert np.allclose(model.inverse_transform(z_hat), x[:50])
        assert np.allclose(model.decoder_(torch.as_tensor(z_hat)).numpy(), x[:50])

    def test_a_tensor_in_gives_a_tensor_of_its_precision(self, bent):
        _, x, model = bent
        out = model.transform(torch.as_tensor(x[:5]).float())
        assert isinstance(out, torch.Tensor)
        assert out.dtype == torch.float32
        assert np.allclose(out.numpy(), model.transform(x[:5]), atol=1e-4)

    def test_the_model_with_the_lowest_held_out_objective_is_used(self):
        _, x = world(n=500)
        model = SparseFlow(depth=2, n_models=3, training=QUICK, random_state=4).fit(x)
        assert model.objectives_.shape == (3,)
        assert model.best_ == model.objectives_.argmin()

    def test_the_same_seed_gives_the_same_latents_and_pickling_keeps_them(self):
        _, x = world(n=500)
        one, two = (SparseFlow(depth=2, training=QUICK, random_state=3).fit(x) for _ in range(2))
        assert np.array_equal(one.transform(x), two.transform(x))
        assert np.array_equal(pickle.loads(pickle.dumps(one)).transform(x), one.transform(x))

    @pytest.mark.parametrize(
        "changed", [{"verbose": True}, {"checkpoint_seconds": 5.0}, {"capture": False}], ids=lambda c: next(iter(c))
    )
    def test_a_fit_goes_on_where_only_settings_without_consequence_differ(self, tmp_path, changed):
        kept, (_, x) = QUICK.changed(checkpoint=tmp_path / "state"), world(n=300)
        whole = SparseFlow(depth=1, training=kept, random_state=3).fit(x)
        again = SparseFlow(depth=1, training=kept.changed(**changed), random_state=3).fit(x)
        assert np.array_equal(whole.transform(x), again.transform(x))
        for other in ({"depth": 2}, {"random_state": 4}, {"training": kept.changed(learning_rate=0.1)}):
            with pytest.raises(InputError, match="must belong to the same settings and data"):
                SparseFlow(**{"depth": 1, "training": kept, "random_state": 3, **other}).fit(x)

    def test_a_fit_does_not_go_on_with_other_rows_of_the_same_sum(self, tmp_path):
        kept = QUICK.changed(checkpoint=tmp_path / "state")
        x = np.round(64 * world(n=300)[1]) / 64  # sums of such numbers are exact in any order
        model = SparseFlow(depth=1, start=FunctionTransformer(), training=kept, random_state=3)
        model.fit(x)
        with pytest.raises(InputError, match="must belong to the same settings and data"):
            model.fit(x[::-1])

    def test_fewer_latents_than_columns(self):
        _, x = world(n=500)
        wide = np.concatenate([x, x[:, :1] + x[:, 1:2]], axis=1)
        model = SparseFlow(3, depth=1, training=QUICK).fit(wide)
        assert model.transform(wide).shape == (500, 3)
        assert np.allclose(model.inverse_transform(model.transform(wide)), wide)


class TestContract:
    @pytest.mark.parametrize(("estimator", "check"), list(checks()))
    def test_scikit_learns_own_check_passes(self, estimator, check):
        check(estimator)

    def test_transform_before_fit_is_refused(self):
        for verb in ("transform", "inverse_transform"):
            with pytest.raises(NotFittedError):
                getattr(SparseFlow(), verb)(np.ones((2, 2)))

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"depth": -1}, "depth must be a whole number of at least 0. Got -1."),
            ({"n_models": 0}, "n_models must be a whole number of at least 1. Got 0."),
            ({"n_latents": 0}, "n_latents must be a whole number of at least 1. Got 0."),
            ({"start": "ica"}, "start must be an estimator with fit, .* Got 'ica'."),
        ],
    )
    def test_settings_that_cannot_work_are_refused(self, settings, sentence):
        with pytest.raises(InputError, match=sentence):
            SparseFlow(training=QUICK).set_params(**settings).fit(world(n=100)[1])

    def test_latents_of_the_wrong_number_are_refused(self, bent):
        with pytest.raises(InputError, match=r"z must have 3 columns\. Got 2\."):
            bent[2].inverse_transform(np.ones((4, 2)))
