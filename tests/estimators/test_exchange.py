"""Exchange moves undo a mixing of two latents, in the Jacobian and in the networks."""

from copy import deepcopy
from math import pi

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn

import noumena as nm
from noumena.estimators import loop
from noumena.estimators.exchange import ANGLES, change, count, exchanges, pair_moves, remix
from noumena.estimators.fit_data import FitData
from noumena.estimators.history import History
from noumena.estimators.polish import _better
from noumena.nets import MLP

BIAS = 0.05 * nm.DependencySparsity(points=32)


def sparse_jacobians(points=40, d_x=12, d_z=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    support = torch.zeros(d_x, d_z)
    for i in range(d_x):
        support[i, [i % d_z, (i + 1) % d_z]] = 1
    return support * (0.5 + torch.rand(points, d_x, d_z, generator=generator, dtype=torch.float64))


def mixed(J, r, t, mix):
    B = torch.eye(J.shape[-1], dtype=J.dtype)
    B[[r, r, t, t], [r, t, r, t]] = torch.as_tensor(mix, dtype=J.dtype).flatten()
    return J @ torch.linalg.inv(B)


def dependencies(J):
    return int((J.abs().amax(dim=0) > 1e-9).sum())


def test_the_count_is_a_slow_loops_count():
    J = sparse_jacobians(points=3)
    slow = sum(np.log1p(abs(float(e)) / 0.03) for e in J[:, :, 1].flatten()) / 3 / np.log1p(1 / 0.03)
    assert float(count(J[:, :, 1])) == pytest.approx(slow, rel=1e-12)


def test_moves_are_invertible_and_rotations_come_first():
    moves = pair_moves()
    assert float(torch.linalg.det(moves).abs().min()) > 0.4
    rotations = moves[: len(ANGLES)]
    assert torch.allclose(rotations @ rotations.mT, torch.eye(2, dtype=torch.float64).expand(len(ANGLES), 2, 2))


def test_shears_keep_the_spread_of_independent_latents():
    for move in pair_moves():
        inverse = torch.linalg.inv(move.T)  # latents move by the inverse
        assert torch.allclose(inverse.square().sum(dim=1), torch.ones(2, dtype=torch.float64))


def test_a_rotated_pair_is_turned_back():
    J = sparse_jacobians()
    angle = pi / 4
    turned = mixed(J, 0, 2, [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    assert dependencies(turned) > dependencies(J)
    B = change(turned)
    assert dependencies(torch.where((turned @ B).abs() < 1e-6, 0, turned @ B)) == dependencies(J)


def test_the_cheapest_exchange_names_the_mixed_pair():
    turned = mixed(sparse_jacobians(), 1, 3, [[np.sqrt(0.75), 0.5], [-0.5, np.sqrt(0.75)]])
    cost, r, t, _ = exchanges(turned)[0]
    assert (r, t) == (1, 3)
    assert cost < -1


def test_at_a_minimum_the_cheapest_way_out_is_taken_in_turn():
    J = sparse_jacobians()
    assert exchanges(J)[0][0] > 0
    first, second = change(J, skip=0), change(J, skip=1)
    assert not torch.equal(first, torch.eye(4, dtype=J.dtype))
    assert not torch.equal(first, second)


def test_a_single_latent_has_nothing_to_exchange():
    assert change(torch.ones(5, 3, 1)) is None


# ---- in the networks -----------------------------------------------------------------------------------------


def test_remixing_changes_latents_and_no_reconstruction():
    torch.manual_seed(0)
    encoder, decoder = MLP()(5, 6).double(), MLP()(3, 5).double()
    old = deepcopy(encoder), deepcopy(decoder)
    B = torch.tensor([[1.0, 0.5, 0], [0, 1, 0], [0.2, 0, 2]], dtype=torch.float64)
    assert remix(encoder, decoder, B)
    x = torch.randn(7, 5, dtype=torch.float64)
    before, after = old[0](x)[:, :3], encoder(x)[:, :3]
    assert torch.allclose(after @ B.T, before)
    assert torch.allclose(decoder(after), old[1](before))


def test_remixing_carries_log_variances_of_rescaled_latents():
    torch.manual_seed(0)
    encoder, decoder = MLP()(5, 4).double(), MLP()(2, 5).double()
    before = encoder(torch.ones(1, 5, dtype=torch.float64))[0, 2:]
    remix(encoder, decoder, torch.tensor([[0.0, 2], [3, 0]], dtype=torch.float64))  # z = (2 w₂, 3 w₁)
    after = encoder(torch.ones(1, 5, dtype=torch.float64))[0, 2:]
    assert torch.allclose(after, before[[1, 0]] - 2 * torch.tensor([3.0, 2.0], dtype=torch.float64).log())


class Wrapped(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)


def test_networks_that_do_not_begin_with_a_linear_layer_are_left_alone():
    decoder = nn.Sequential(nn.Tanh(), nn.Linear(2, 5))
    for odd in (decoder, Wrapped(MLP()(2, 5)), nn.Sequential(nn.Linear(2, 5, bias=False))):
        before = deepcopy(odd.state_dict())
        assert not remix(MLP()(5, 2), odd, torch.eye(2))
        assert all(torch.equal(before[k], v) for k, v in odd.state_dict().items())


def data(n=800, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    A = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1.0]])
    return np.tanh(z @ A.T) + 0.5 * z @ A.T


def test_polishing_never_loses_and_goes_on_with_the_curves():
    settings = {"penalty": BIAS, "n_models": 3, "random_state": 0}
    plain = nm.VAE(3, training=nm.Training(steps=120, batch_size=128), **settings).fit(data())
    polished = nm.VAE(3, training=nm.Training(steps=120, batch_size=128, polish=2), **settings).fit(data())
    assert (polished.objectives_ <= plain.objectives_).all()
    assert polished.objectives_.min() < plain.objectives_.min() - 1e-3
    assert max(polished.history_.steps) == 120 + 2 * 40
    x = data()
    assert polished.score(x) > plain.score(x)


def test_an_interrupted_polish_resumes_to_the_same_models(tmp_path):
    def fit(path):
        training = nm.Training(steps=30, batch_size=64, polish=1, checkpoint=path, checkpoint_seconds=0.0)
        return nm.VAE(3, penalty=BIAS, n_models=2, random_state=0, training=training).fit(data())

    first = fit(tmp_path / "fit.safetensors")
    assert (tmp_path / "fit.safetensors.polish0").exists()
    (tmp_path / "fit.safetensors.polish0").unlink()  # killed between the fit and its polish
    assert np.array_equal(fit(tmp_path / "fit.safetensors").objectives_, first.objectives_)


def test_a_fit_stopped_by_hand_is_not_polished(monkeypatch):
    update, steps = loop._Fit._update, []

    def stop(fit, *batch):
        steps.append(fit.step)
        if len(steps) == 20:
            raise KeyboardInterrupt
        return update(fit, *batch)

    monkeypatch.setattr(loop._Fit, "_update", stop)
    training = nm.Training(steps=30, batch_size=64, polish=2)
    with pytest.warns(ConvergenceWarning, match="Stopped by hand at step 19"):
        model = nm.VAE(3, penalty=BIAS, random_state=0, training=training).fit(data())
    assert model.interrupted_
    assert len(steps) == 20


def test_a_move_that_costs_a_little_is_made_once_and_not_again():
    generator = torch.Generator().manual_seed(26)
    support = torch.where(torch.rand(1, 8, 3, generator=generator) < 0.75, 1.0, 0.0).double()
    J = support * (0.5 + torch.rand(30, 8, 3, generator=generator, dtype=torch.float64))
    cost = exchanges(J)[0][0]
    assert 0 < cost < 0.5
    moved = J @ change(J)
    assert float(count(moved.movedim(-1, 0)).sum() - count(J.movedim(-1, 0)).sum()) == pytest.approx(cost)


def test_a_model_that_polishing_made_worse_gets_its_weights_back():
    class One(loop.Objective):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(1))

    models = [One(), One()]
    before = [deepcopy(m.state_dict()) for m in models]
    after = [{k: v + 1 for k, v in state.items()} for state in before]
    for model, state in zip(models, after, strict=True):
        model.load_state_dict(state)
    curves = History([1], {"objective": [np.ones(2)]})

    def trained(objectives):
        no = np.zeros(2, dtype=bool)
        return loop.Trained(models, np.array(objectives), {"kl": np.array(objectives)}, curves, np.ones(2), no, False)

    kept = _better(trained([2.0, 2.0]), trained([1.0, 3.0]), before)
    assert kept.objectives.tolist() == kept.terms["kl"].tolist() == [1.0, 2.0]
    assert torch.equal(models[0].weight, after[0]["weight"])
    assert torch.equal(models[1].weight, before[1]["weight"])
    assert kept.history.steps == [1, 2]


def test_a_round_begins_where_annealing_is_half_done_and_ends_where_it_is_over():
    seen = []

    class Notes(loop.Objective):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(1))

        def forward(self, x, draws, progress):
            seen.append(progress)
            return self.w.square().sum() + 0 * x.sum(), {}

    rows = FitData(torch.zeros(8, 1), torch.zeros(8, 1), "notes")
    loop.train([Notes()], [0], rows, nm.Training(steps=40, batch_size=8), start=0.5)
    trained = [p for p in seen if p < 1]  # held-out looks are taken at 1
    assert trained == pytest.approx([0.5 + 0.5 * k / 40 for k in range(40)])


def test_polished_seeds_stay_apart_so_that_their_agreement_is_evidence():
    settings = {"penalty": BIAS, "random_state": 3}
    training = nm.Training(steps=40, batch_size=64, dtype="float64", polish=1, refit=False)
    alone = nm.VAE(3, training=training, **settings).fit(data())
    among = nm.VAE(3, training=training, n_models=3, **settings | {"random_state": 1}).fit(data())
    assert among.seeds_[2] == alone.seeds_[0]
    assert among.objectives_[2] == pytest.approx(alone.objectives_[0], rel=1e-9)
    assert not np.allclose(among.points_[2], among.points_[1])
