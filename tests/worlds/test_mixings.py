"""Layered mixings: the formula they promise, their exact inverse, and what a reader of networks sees."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from noumena.derivatives import jacobian
from noumena.guarantees.injectivity import read_decoder
from noumena.worlds import Layers, layered
from noumena.worlds.mixings import orthogonal, plane_rotations

GRID = torch.linspace(-40, 40, 4001, dtype=torch.float64)


def normal(rows: int, n: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def matrices(mixing: Layers) -> list[Tensor]:
    """The orthogonal matrices, without the factors of the activations."""
    found = [layer.weight for layer in mixing if isinstance(layer, nn.Linear)]
    return [W / W.square().sum(dim=1, keepdim=True).sqrt() for W in found]


def slow(mixing: Layers, z: Tensor, activation) -> Tensor:
    h = z
    for level, Q in enumerate(matrices(mixing)):
        h = h @ Q.T
        if level < len(matrices(mixing)) - 1:
            h = activation(h, mixing.slopes[level] if mixing.slopes else 0.0)
    return h


ACTIVATIONS = {
    "piecewise affine": lambda h, a: torch.maximum(a * h, h),
    "smooth": lambda h, a: min(a, 1) * h + abs(1 - a) * torch.logaddexp(h, torch.zeros_like(h)),
    "sigmoid": lambda h, a: 1 / (1 + (-h).exp()),
    "affine": lambda h, a: h,
}


@pytest.mark.parametrize(
    ("kind", "slope"),
    [(kind, slope) for kind in ("piecewise affine", "smooth") for slope in (None, 0.2, 1.7)]
    + [("sigmoid", None), ("affine", None)],
)
def test_a_mixing_computes_its_formula_with_orthogonal_matrices(kind: str, slope: float | None) -> None:
    mixing, z = layered(4, 5, kind=kind, slope=slope, random_state=3), 3 * normal(50, 4)
    for Q in matrices(mixing):
        assert torch.allclose(Q @ Q.T, torch.eye(4, dtype=torch.float64))
    assert len(matrices(mixing)) == 5
    assert torch.allclose(mixing(z), slow(mixing, z, ACTIVATIONS[kind]))
    if slope is not None:
        assert mixing.slopes == (slope,) * 4


@pytest.mark.parametrize(
    ("kind", "slope", "layers", "tolerance"),
    [
        ("piecewise affine", None, 20, 1e-12),
        ("piecewise affine", 0.2, 10, 1e-8),
        ("piecewise affine", 3.0, 5, 1e-12),
        ("smooth", None, 10, 1e-11),
        ("smooth", 0.2, 5, 1e-10),
        ("smooth", 3.0, 5, 1e-10),
        ("sigmoid", None, 3, 1e-9),
        ("affine", None, 10, 1e-12),
    ],
)
def test_the_inverse_is_exact(kind: str, slope: float | None, layers: int, tolerance: float) -> None:
    mixing, z = layered(5, layers, kind=kind, slope=slope, random_state=1), normal(200, 5)
    assert float((mixing.inverse(mixing(z)) - z).abs().max()) < tolerance


@pytest.mark.parametrize("a", [0.2, 1.0, 1.5])
def test_the_smooth_activation_increases_has_the_slopes_of_the_kinked_one_far_out_and_inverts_everywhere(a) -> None:
    smooth = layered(1, 2, kind="smooth", slope=a)[1]
    values = smooth(GRID)
    slopes = values.diff() / GRID.diff()
    assert float(slopes.min()) == pytest.approx(min(a, 1), abs=1e-6)
    assert float(slopes.max()) == pytest.approx(max(a, 1), abs=1e-6)
    assert bool((slopes.diff() >= -1e-9).all())  # convex, as max(a h, h) is
    assert torch.allclose(smooth.inverse(values), GRID)


def test_slopes_are_drawn_per_layer_and_the_seed_decides() -> None:
    drawn = layered(3, 400, random_state=0).slopes
    assert len(drawn) == 399
    assert 0.5 < min(drawn) < 0.52
    assert 1.48 < max(drawn) < 1.5
    assert (
        layered(3, 4, random_state=5).slopes
        == layered(3, 4, random_state=5).slopes
        != layered(3, 4, random_state=6).slopes
    )
    first, second = matrices(layered(3, 4, slope=0.2, random_state=5)), matrices(layered(3, 4, random_state=5))
    assert all(torch.allclose(a, b) for a, b in zip(first, second, strict=True))
    assert layered(3, 4, kind="sigmoid").slopes == layered(3, 4, kind="affine").slopes == ()


def test_a_reader_of_networks_finds_a_piecewise_affine_mixing_injective() -> None:
    reading = read_decoder(layered(4, 10), 4)
    answers = [reading.piecewise_affine, reading.continuous, reading.injective]
    assert [h.answer for h in answers] == ["holds"] * 3
    assert read_decoder(layered(4, 3, kind="sigmoid"), 4).piecewise_affine.answer == "fails"
    assert read_decoder(layered(4, 3, kind="sigmoid"), 4).injective.answer == "holds"
    assert read_decoder(layered(4, 3, kind="smooth"), 4).piecewise_affine.answer == "unknown"


def test_a_harder_slope_bends_more() -> None:
    """Singular values of the Jacobian lie between the products of the smallest and of the largest slopes."""
    z = normal(100, 5)
    spreads = []
    for slope in (0.9, 0.2):
        values = torch.linalg.svdvals(jacobian(layered(5, 4, slope=slope, random_state=2), z))
        assert float(values.min()) >= slope**3 - 1e-9
        assert float(values.max()) <= 1 + 1e-9
        spreads.append(float((values.max(dim=1).values / values.min(dim=1).values).mean()))
    assert spreads[1] > 3 * spreads[0]
    steep = torch.linalg.svdvals(jacobian(layered(5, 4, slope=1.5, random_state=2), z))
    assert float(steep.min()) >= 1 - 1e-9
    assert 1.1 < float(steep.max()) <= 1.5**3 + 1e-9


def test_a_mixing_is_fixed_and_moves_between_types() -> None:
    mixing = layered(3, 3)
    assert not any(p.requires_grad for p in mixing.parameters())
    single = layered(3, 3).float()
    assert torch.allclose(single(normal(5, 3).float()).double(), mixing(normal(5, 3)), atol=1e-5)
    again = layered(3, 3, random_state=9)
    again.load_state_dict(mixing.state_dict())
    assert np.array_equal(again[0].weight.numpy(), mixing[0].weight.numpy())


def test_plane_rotations_are_the_product_of_all_planes_in_order() -> None:
    def plane(i: int, j: int) -> np.ndarray:
        turn = np.eye(3)
        turn[[i, i, j, j], [i, j, i, j]] = [0.8, -0.6, 0.6, 0.8]
        return turn

    angle = float(np.degrees(np.arctan2(0.6, 0.8)))
    assert plane_rotations(3, angle) == pytest.approx(plane(0, 1) @ plane(0, 2) @ plane(1, 2))


def test_orthogonal_matrices_are_drawn_without_a_preference_for_signs() -> None:
    rng = np.random.default_rng(0)
    drawn = np.stack([orthogonal(3, rng) for _ in range(500)])
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.15)
    np.testing.assert_allclose((drawn**2).mean(axis=0), 1 / 3, atol=0.08)
