"""The published constrained problem: the right steps, the right problem, and nothing that sees the truth."""

import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator
from torch import nn

from noumena import seeds
from noumena.checks import DivergenceError, InputError
from noumena.estimators.sparse.lagrangian import ConstrainedComponents, InnerAutoencoder, LinearChain, _batches
from noumena.metrics import mcc

QUICK = ConstrainedComponents(steps=3, batch_size=64, layers=(2,))


def sparse_rows(n=3, rows=2000, seed=0):
    """Latents of which one is active at a time, and an orthogonal image of them."""
    random = np.random.default_rng(seed)
    z = random.normal(size=(rows, n)) * (np.arange(n) == random.integers(n, size=rows)[:, None])
    return z, 2 * z @ np.linalg.qr(random.normal(size=(n, n)))[0] + 1


# ---- the parts -------------------------------------------------------------------------------------------


def test_a_chain_is_its_layers_in_turn_in_value_and_in_gradients():
    torch.manual_seed(0)
    chain = LinearChain((3, 8, 5, 2)).double()
    layers = nn.Sequential(*[nn.Linear(a, b, bias=False) for a, b in ((3, 8), (8, 5), (5, 2))]).double()
    for layer, weight in zip(layers, chain.weights, strict=True):
        layer.weight.data = weight.data.clone()
    x = torch.randn(7, 3, dtype=torch.float64)
    out, expected = x @ chain.matrix().T, layers(x)
    assert torch.allclose(out, expected)
    out.square().sum().backward()
    expected.square().sum().backward()
    for layer, weight in zip(layers, chain.weights, strict=True):
        assert torch.allclose(weight.grad, layer.weight.grad)


def test_the_code_of_a_batch_has_the_spread_of_the_gain_around_the_shift():
    torch.manual_seed(0)
    inner = InnerAutoencoder(4, 3, (2,), gain=True).double()
    inner.gain.data, inner.shift.data = torch.tensor([1.0, 2, 3]).double(), torch.tensor([0.0, 1, -1]).double()
    h, x_hat = inner(5 + 100 * torch.randn(500, 4).double())
    assert torch.allclose(h.std(dim=0, correction=0), inner.gain, rtol=1e-3)
    assert torch.allclose(h.mean(dim=0), inner.shift, atol=1e-9)
    assert x_hat.shape == (500, 4)


def test_the_published_layers_are_seven_each_way():
    shapes = [tuple(w.shape) for w in InnerAutoencoder(2, 2, ConstrainedComponents().layers, gain=True).encoder.weights]
    assert shapes == [(20, 2), (100, 20), (100, 100), (100, 100), (100, 100), (20, 100), (2, 20)]


def reference(x, steps, size, rate, dual_rate, level):
    """Extra-gradient Adam on the Lagrangian, one bias-free layer each way, written out."""
    rows = torch.as_tensor((x - x.mean(axis=0)) / x.std(axis=0))
    with seeds.global_torch(0, "initial weights"):
        A, D = (nn.Linear(2, 2, bias=False).weight.detach().double() for _ in range(2))
    n = len(A)
    now = [A, D, torch.zeros(n).double(), torch.ones(n).double(), torch.zeros(n).double(), torch.zeros(1).double()]
    first, second, count = [0.0] * 6, [0.0] * 6, 0

    def moves(at, x):
        nonlocal first, second, count
        at = [p.clone().requires_grad_() for p in at]
        A, D, d, gain, shift, multiplier = at
        h = x @ A.T
        h = gain * (h - h.mean(dim=0)) / (h.var(dim=0, correction=0) + 1e-5).sqrt() + shift
        loss = (h @ D.T + d - x).square().mean() + multiplier * (h.abs().mean() - level)
        gradients = torch.autograd.grad(loss.sum(), at)
        count += 1
        first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients, strict=True)]
        second = [0.999 * v + 0.001 * g**2 for v, g in zip(second, gradients, strict=True)]
        scale = (1 - 0.999**count) ** 0.5 / (1 - 0.9**count)
        rates = [-rate] * 5 + [dual_rate]
        return [r * scale * m / (v.sqrt() + 1e-8) for r, m, v in zip(rates, first, second, strict=True)]

    for batch in _batches(rows, size, steps, 0):
        ahead = [p + move for p, move in zip(now, moves(now, batch), strict=True)]
        ahead[-1] = ahead[-1].clamp_min(0)
        now = [p + move for p, move in zip(now, moves(ahead, batch), strict=True)]
        now[-1] = now[-1].clamp_min(0)
    return now, rows


def test_the_steps_are_those_of_extra_gradient_adam_on_the_lagrangian():
    _, x = sparse_rows(2, 300)
    now, unit = reference(x, 5, 100, 0.02, 0.01, 0.3)
    A, D, d, gain, shift, multiplier = now
    model = ConstrainedComponents(
        steps=5, batch_size=100, learning_rate=0.02, dual_learning_rate=0.01, layers=(), sparsity=0.3
    ).fit(x)
    h = unit @ A.T
    h = gain * (h - h.mean(dim=0)) / (h.var(dim=0, correction=0) + 1e-5).sqrt() + shift
    assert np.allclose(model.transform(x), h.numpy(), atol=1e-4)
    rebuilt = (h @ D.T + d).numpy() * x.std(axis=0) + x.mean(axis=0)
    assert np.allclose(model.inverse_transform(h.numpy()), rebuilt, atol=1e-4)
    assert model.multiplier_ == pytest.approx(float(multiplier), rel=1e-4)


# ---- the problem -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gain", [True, False])
def test_sparse_latents_are_found_without_their_truth(gain):
    z, x = sparse_rows()
    model = ConstrainedComponents(
        steps=300, learning_rate=0.02, dual_learning_rate=1e-3, layers=(4,), gain=gain, random_state=1
    ).fit(x)
    assert mcc(z, model.transform(x)).score > 0.98
    assert np.allclose(model.inverse_transform(model.transform(x)), x, atol=0.2)


def test_a_bound_that_does_not_bind_keeps_the_multiplier_at_zero():
    _, x = sparse_rows()
    model = ConstrainedComponents(steps=40, learning_rate=0.01, layers=(), sparsity=2.0).fit(x)
    assert model.multiplier_ == 0


def test_at_unit_variance_the_bound_is_never_met_and_the_multiplier_grows():
    _, x = sparse_rows()
    model = ConstrainedComponents(steps=50, dual_learning_rate=0.01, learning_rate=0.01, layers=(), gain=False).fit(x)
    assert model.multiplier_ == pytest.approx(0.5, rel=0.05)  # Adam takes a whole dual step each time
    assert model.history_.values["density"][-1] > 0.1
    assert np.allclose(model.transform(x).std(axis=0), 1, atol=1e-2)


def test_the_learned_gain_shrinks_the_code_towards_the_bound():
    _, x = sparse_rows()
    slack = ConstrainedComponents(steps=300, learning_rate=0.01, dual_learning_rate=0.01, layers=()).fit(x)
    assert slack.transform(x).std(axis=0).max() < 0.5


def test_curves_are_kept():
    _, x = sparse_rows()
    history = clone(QUICK).fit(x).history_
    assert history.steps == [1, 2, 3]
    assert set(history.values) == {"reconstruction", "density", "multiplier"}


# ---- the contract ----------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_components_and_another_seed_others():
    _, x = sparse_rows()
    fit = [clone(QUICK).set_params(random_state=s).fit(x).components_ for s in (0, 0, 1)]
    assert np.array_equal(fit[0], fit[1])
    assert not np.allclose(fit[0], fit[2])


def test_rows_are_drawn_in_a_new_order_each_epoch():
    rows = torch.arange(10)[:, None]
    drawn = [b.flatten().tolist() for b in _batches(rows, 5, 4, 0)]
    assert sorted(drawn[0] + drawn[1]) == sorted(drawn[2] + drawn[3]) == list(range(10))
    assert drawn[0] != drawn[2]


def test_the_callers_random_stream_is_left_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    clone(QUICK).fit(sparse_rows()[1])
    assert torch.equal(before, torch.get_rng_state())


def test_the_callback_measures_every_step_and_changes_nothing():
    _, x = sparse_rows()
    seen = []
    watched = clone(QUICK).set_params(callback=lambda step, transform: seen.append((step, transform(x)))).fit(x)
    assert [step for step, _ in seen] == [1, 2, 3]
    assert np.allclose(seen[-1][1], watched.transform(x), atol=1e-5)
    assert not np.allclose(seen[0][1], seen[-1][1], atol=1e-5)
    assert np.array_equal(watched.components_, clone(QUICK).fit(x).components_)


def test_more_and_fewer_components_than_columns_are_possible():
    _, x = sparse_rows()
    for n in (2, 5):
        model = clone(QUICK).set_params(n_components=n).fit(x)
        assert model.transform(x).shape == (2000, n)
        assert model.inverse_transform(model.transform(x)).shape == x.shape


def test_kind_precision_and_names_follow_the_input():
    _, x = sparse_rows()
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    model = clone(QUICK).fit(frame)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.get_feature_names_out()[0] == "constrainedcomponents0"
    assert model.transform(frame.astype(np.float32)).dtype == np.float32
    model = clone(QUICK).fit(x)
    tensor = model.transform(torch.as_tensor(x, dtype=torch.float32))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.float32
    assert np.allclose(tensor.numpy(), model.transform(x), atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_components": 0}, "n_components must be a whole number"),
        ({"steps": 0}, "steps must be"),
        ({"batch_size": 1}, "batch_size must be"),
        ({"sparsity": -1.0}, "sparsity must be"),
        ({"learning_rate": 0.0}, "learning_rate must be"),
        ({"dual_learning_rate": 0.0}, "dual_learning_rate must be"),
        ({"layers": (0,)}, "A width in layers must be"),
        ({"device": "abacus"}, "device must be"),
    ],
)
def test_bad_settings_are_one_sentence(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        clone(QUICK).set_params(**settings).fit(sparse_rows()[1])


def test_bad_rows_are_one_sentence():
    _, x = sparse_rows()
    with pytest.raises(InputError, match="vary in every column"):
        clone(QUICK).fit(np.c_[x, np.ones(len(x))])
    with pytest.raises(InputError, match="z must have 3 columns"):
        clone(QUICK).fit(x).inverse_transform(x[:, :2])


def test_a_fit_that_leaves_the_finite_numbers_says_so():
    with pytest.raises(DivergenceError, match="lower learning_rate"):
        clone(QUICK).set_params(learning_rate=1e30, steps=20).fit(sparse_rows()[1])


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cooper", None)
    with pytest.raises(InputError, match="cooper-optim"):
        clone(QUICK).fit(sparse_rows()[1])


OUTSIDE = "check_do_not_raise_errors_in_init_or_set_params"  # types are checked at run time here
CHECKS = [(e, c) for e, c in estimator_checks_generator(QUICK) if getattr(c, "func", c).__name__ != OUTSIDE]


@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=lambda v: getattr(getattr(v, "func", v), "__name__", ""))
def test_scikit_learns_own_check_passes(estimator, check):
    check(estimator)  # raises an AssertionError when the contract is broken
