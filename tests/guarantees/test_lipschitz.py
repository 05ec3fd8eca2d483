"""Bi-Lipschitz constants agree with finite differences and brute force; folds are found and rolls are not."""

from itertools import pairwise
from math import inf, sqrt

import numpy as np
import pytest
import torch
from plane_decoders import curved, cylinder, linear, points
from torch import nn

from noumena.checks import InputError
from noumena.guarantees import lipschitz
from noumena.guarantees.lipschitz import (
    architecture_bound,
    bi_lipschitz,
    diameter,
    proportional_term,
)

# ---- L ---------------------------------------------------------------------------------------------------------


def test_l_is_read_off_the_singular_values_of_a_matrix():
    rng = np.random.default_rng(1)
    for _ in range(300):
        A = rng.normal(size=(int(rng.integers(3, 6)), 3))
        found = bi_lipschitz(linear(A), points(2, 3))
        s = np.linalg.svd(A, compute_uv=False)
        assert np.allclose(found.L, max(s[0], 1 / s[-1]) - 1)
        assert np.allclose(found.stretch, (s[-1], s[0]))
        assert np.allclose(found.at_best_scale, sqrt(s[0] / s[-1]) - 1)


def test_near_points_are_stretched_within_l_and_some_by_exactly_l():
    z = points(40, 2)
    found = bi_lipschitz(curved, z)
    v = torch.as_tensor(np.random.default_rng(2).normal(size=(400, 40, 2)))
    v = 1e-6 * v / v.norm(dim=-1, keepdim=True)
    stretch = torch.stack([(curved(z + d) - curved(z)).norm(dim=1) / 1e-6 for d in v]).numpy()
    seen = np.maximum(stretch, 1 / stretch).max(axis=0) - 1
    assert (seen <= found.L + 1e-5).all()
    assert (seen >= 0.98 * found.L).all()
    assert found.largest == found.L.max() > found.median == np.median(found.L)


def test_the_best_scale_is_the_best_of_all_scales():
    z = points(30, 2)
    found = bi_lipschitz(curved, z)
    scales = np.geomspace(0.2, 5, 801)
    largest = [bi_lipschitz(lambda w, c=c: curved(w / c), c * z).largest for c in scales[::40]]
    low, high = found.stretch
    dense = np.maximum(high / scales, scales / low) - 1
    assert min(largest) >= found.at_best_scale - 1e-9
    assert dense.min() == pytest.approx(found.at_best_scale, abs=5e-3)
    assert scales[dense.argmin()] == pytest.approx(found.scale, rel=5e-3)
    assert bi_lipschitz(lambda w: curved(w / found.scale), found.scale * z).largest == pytest.approx(
        found.at_best_scale
    )


def test_random_directions_never_exceed_l_and_come_near_it():
    z = points(60, 2)
    found = bi_lipschitz(curved, z, probes=10)
    assert (found.sampled <= found.L + 1e-12).all()
    many = bi_lipschitz(curved, z, probes=2000)
    assert (many.sampled >= 0.99 * found.L).all()
    assert many.sampled.mean() > found.sampled.mean()
    assert bi_lipschitz(curved, z).sampled is None


def test_the_same_seed_draws_the_same_directions():
    first, again = (bi_lipschitz(curved, points(5, 2), probes=3, random_state=7).sampled for _ in range(2))
    other = bi_lipschitz(curved, points(5, 2), probes=3, random_state=8).sampled
    assert (first == again).all()
    assert (first != other).any()


def test_an_isometry_has_no_excess():
    found = bi_lipschitz(cylinder(0.7), points(50, 2))
    assert found.largest == pytest.approx(0, abs=1e-12)
    assert found.largest >= 0


def test_inactive_directions_are_dropped_and_named():
    A = np.array([[1.0, 0, 0], [0, 2.0, 0], [0, 0, 1e-5], [1, 0, 0]])
    found = bi_lipschitz(linear(A), points(5, 3))
    assert found.inactive.shape == (1, 3)
    assert np.allclose(np.abs(found.inactive[0]), [0, 0, 1])
    assert found.stretch == pytest.approx((sqrt(2), 2))
    assert found.largest == pytest.approx(1)
    assert "1 inactive directions were dropped (mostly z3)" in str(found)
    assert np.allclose(found.active @ found.active.T, np.eye(2))
    assert np.allclose(found.active @ found.inactive.T, 0)


def test_an_oblique_inactive_direction_is_found_too():
    A = np.array([[1.0, 1, 0], [0, 0, 1], [1, 1, 1]])
    found = bi_lipschitz(linear(A), points(5, 3))
    assert np.allclose(np.abs(found.inactive[0]), [sqrt(0.5), sqrt(0.5), 0])


def test_a_faint_direction_counts_when_the_tolerance_says_so():
    A = np.diag([1.0, 1e-5])
    assert len(bi_lipschitz(linear(A), points(5, 2)).inactive) == 1
    kept = bi_lipschitz(linear(A), points(5, 2), tolerance=1e-6)
    assert kept.largest == pytest.approx(1e5 - 1)


def test_the_fainter_a_direction_the_larger_is_l():
    for faint in (0.1, 1e-2, 1e-3, 1e-4, 5e-5):
        found = bi_lipschitz(linear([[1, 0], [0, faint], [0, 0]]), points(200, 2))
        assert found.inactive.shape == (0, 2)
        assert found.largest == pytest.approx(1 / faint - 1)


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_the_unit_of_a_latent_does_not_decide_whether_it_is_active(unit):
    units = torch.tensor([1.0, unit, 1.0], dtype=torch.float64)
    for matrix, inactive in (
        (np.eye(3), np.zeros((0, 3))),
        (np.diag([1.0, 1e-6, 1]), [[0, 1, 0]]),
        (np.diag([1.0, 1, 0]), [[0, 0, 1]]),
        ([[1, 1, 0], [0, 0, 1], [1, 1, 1]], [[1, -unit, 0]] / np.hypot(1, unit)),
    ):
        found = bi_lipschitz(lambda z, A=matrix: linear(A)(z / units), points(200, 3) * units)
        assert np.allclose(np.abs(found.inactive), np.abs(inactive))
        together = np.vstack([found.active, found.inactive])
        assert np.allclose(together @ together.T, np.eye(3))
        assert (np.diff(np.linalg.norm(matrix / units.numpy() @ found.active.T, axis=0)) <= 1e-9 / unit).all()


def test_a_latent_that_does_not_vary_is_judged_in_the_unit_of_the_others():
    for unit in (1e-3, 1e3):
        still = unit * points(50, 2) * torch.tensor([1.0, 0.0]) + 0.1
        assert bi_lipschitz(linear(np.eye(2) / unit), still).active.shape == (2, 2)
        assert bi_lipschitz(linear(np.diag([1.0, 1e-6]) / unit), still).active.shape == (1, 2)
        assert bi_lipschitz(linear(np.eye(2)), still[:1]).active.shape == (2, 2)


def test_a_direction_lost_at_one_point_only_makes_l_infinite_there():
    found = bi_lipschitz(lambda z: z**2, torch.tensor([[0.0, 1.0], [1.0, 0.5]], dtype=torch.float64))
    assert found.L.tolist() == [inf, 1.0]
    assert found.at_best_scale == inf
    assert len(found.inactive) == 0


def test_fewer_outputs_than_latents_always_lose_a_direction():
    found = bi_lipschitz(lambda z: (z**2).sum(dim=1, keepdim=True), points(9, 2))
    assert found.singular.shape == (9, 2)
    assert found.largest == inf


def test_a_module_is_read_in_double_precision_and_left_alone():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Dropout(0.9), nn.Linear(8, 4))
    exact = bi_lipschitz(net, points(20, 2))
    assert net[0].weight.dtype == torch.float32
    assert net.training
    twin = net.double().eval()
    assert np.allclose(exact.L, bi_lipschitz(lambda z: twin(z), points(20, 2)).L, rtol=1e-12)


def test_lists_arrays_and_tensors_are_welcome():
    z = [[0.0, 0.1], [0.3, 0.2]]
    found = [bi_lipschitz(curved, kind).L for kind in (z, np.array(z), torch.tensor(z))]
    assert np.allclose(found[0], found[1])
    assert np.allclose(found[0], found[2])


# ---- what a decoder must be ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decoder", "sentence"),
    [
        (lambda z: np.tanh(z.numpy()), "differentiable torch function"),
        (lambda z: z.detach(), "derivatives that vanish at every point"),
        (lambda z: z.round(), "derivatives that vanish at every point"),
        (lambda z: (z[:, 0] - z[:, 0]).sqrt()[:, None] * z, "must be finite"),
        (lambda z: z.mean(), "must send"),
        (lambda z: z[:1], "must send"),
        (lambda z: z.reshape(7, 2), "differentiable torch function"),
        (lambda z: z @ torch.ones(3, 4, dtype=z.dtype), "differentiable torch function"),
        (lambda z: None, "differentiable torch function"),
        ("decoder", "must be a function"),
    ],
    ids=[
        "numpy",
        "detached",
        "rounded",
        "infinite",
        "scalar",
        "lost rows",
        "one batch size",
        "columns",
        "none",
        "text",
    ],
)
def test_a_decoder_that_cannot_be_read_is_one_sentence(decoder, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        bi_lipschitz(decoder, points(4, 2))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    assert ". Got " in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [({"probes": 0}, "probes"), ({"tolerance": 2.0}, "tolerance"), ({"tolerance": -1.0}, "tolerance")],
)
def test_bad_settings_are_one_sentence(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        bi_lipschitz(curved, points(4, 2), **arguments)


# ---- numbers of Theorem 1 --------------------------------------------------------------------------------------


def test_the_term_is_exact_for_tiny_and_infinite_l():
    assert proportional_term(1e-18, 1.0) == pytest.approx(sqrt(2e-18))
    assert proportional_term(sqrt(2) - 1, 3.0) == pytest.approx(3.0)
    assert proportional_term(inf, 1.0) == inf
    for L, size in ((-0.1, 1.0), (0.1, -1.0)):
        with pytest.raises(InputError, match="must not be negative"):
            proportional_term(L, size)


def test_the_diameter_is_that_of_all_pairs():
    rng = np.random.default_rng(3)
    for _ in range(300):
        z = rng.normal(size=(int(rng.integers(2, 40)), int(rng.integers(1, 5)))) * rng.uniform(0.01, 100)
        z[rng.random(len(z)) < 0.2] = z[0]
        slow = max(np.linalg.norm(a - b) for a in z for b in z)
        assert diameter(z) == pytest.approx(slow)


@pytest.mark.parametrize("shape", ["ball", "sphere", "outliers", "line"])
def test_the_diameter_over_many_blocks_is_exact(shape, monkeypatch):
    monkeypatch.setattr(lipschitz, "BLOCK", 7)
    rng = np.random.default_rng(4)
    z = rng.normal(size=(400, 3))
    z = {
        "ball": z,
        "sphere": z / np.linalg.norm(z, axis=1, keepdims=True),
        "outliers": np.concatenate([0.01 * z, [[9.0, 0, 0]], [[9.1, 0.1, 0]], [[-3.0, 4, 0]]]),
        "line": z[:, :1] * [1.0, 2.0, 3.0] + 50,
    }[shape]
    slow = max(float(np.linalg.norm(z - row, axis=1).max()) for row in z)
    assert diameter(z) == pytest.approx(slow, rel=1e-12)


def test_the_farthest_row_need_not_be_part_of_the_largest_distance(monkeypatch):
    monkeypatch.setattr(lipschitz, "BLOCK", 2)
    rng = np.random.default_rng(5)
    elsewhere = 0
    for _ in range(500):
        z = rng.normal(size=(int(rng.integers(3, 15)), 2))
        z = np.concatenate([z, np.repeat(z[:1] + 0.01 * rng.normal(size=(1, 2)), rng.integers(20), axis=0)])
        distances = np.linalg.norm(z[:, None] - z, axis=2)
        farthest = int(np.linalg.norm(z - z.mean(axis=0), axis=1).argmax())
        elsewhere += distances[farthest].max() < distances.max()
        assert diameter(z) == pytest.approx(distances.max(), rel=1e-12)
    assert elsewhere > 20


def test_one_point_has_no_diameter():
    with pytest.raises(InputError, match="at least 2 rows"):
        diameter([[1.0, 2.0]])


# ---- architectures ---------------------------------------------------------------------------------------------


def orthogonal(widths, leak, seed=0):
    torch.manual_seed(seed)
    layers = []
    for inputs, outputs in pairwise(widths):
        layer = nn.Linear(inputs, outputs, bias=False)
        nn.init.orthogonal_(layer.weight)
        layers += [layer, nn.LeakyReLU(leak)]
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("leak", [0.2, 0.5, 0.9, 1.0, 1.5])
def test_the_architecture_bounds_what_is_measured(leak):
    net = orthogonal([2, 4, 5, 8], leak)
    bound = architecture_bound(net)
    assert bound.value == pytest.approx(max(leak, 1 / leak) ** 2)
    found = bi_lipschitz(net, points(500, 2) * 10)
    assert 1 + found.largest <= bound.value * (1 + 1e-6)
    assert found.stretch[1] / found.stretch[0] <= bound.value * (1 + 1e-6)


def test_nested_sequences_are_one_sequence():
    net = orthogonal([2, 4, 5, 8], 0.5)
    assert architecture_bound(nn.Sequential(net[:2], nn.Identity(), net[2:])).value == pytest.approx(4.0)


def test_parametrised_orthogonal_layers_are_understood():
    torch.manual_seed(0)
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 5))
    assert architecture_bound(nn.Sequential(layer, nn.LeakyReLU(0.5))).value == pytest.approx(2.0)


def scaled(factor):
    net = orthogonal([2, 4], 0.5)
    with torch.no_grad():
        net[0].weight.mul_(factor)
    return net


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (scaled(1.1), "not orthogonal"),
        (orthogonal([4, 2], 0.5), "not orthogonal"),  # rows are orthonormal, a direction is lost
        (nn.Sequential(orthogonal([2, 4], 0.5), nn.LeakyReLU(0.0)), "no smallest stretch"),
        (nn.Sequential(orthogonal([2, 4], 0.5), nn.Tanh()), "Tanh has no known stretch"),
        (nn.ReLU(), "ReLU has no known stretch"),
    ],
    ids=["scaled", "narrowing", "no leak", "tanh", "relu"],
)
def test_without_orthogonal_layers_and_leaks_there_is_a_reason_and_no_bound(net, reason):
    bound = architecture_bound(net)
    assert bound.value is None
    assert reason in bound.reason
