"""What a decoder's layers say: piecewise affine, continuous, injective, and how that is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from noumena.checks import InputError
from noumena.estimators.base import Codec, Decoder
from noumena.guarantees import injectivity
from noumena.guarantees.injectivity import read_decoder, rectified
from noumena.nets.mlp import MLP


def linear(rows: list[list[float]], bias: list[float] | None = None) -> nn.Linear:
    weight = torch.tensor(rows, dtype=torch.float64)
    layer = nn.Linear(weight.shape[1], weight.shape[0]).double()
    layer.load_state_dict({"weight": weight, "bias": torch.tensor(bias or [0.0] * len(rows), dtype=torch.float64)})
    return layer


TALL, TURN, NARROW, FLAT = [[1, 2], [0, 1], [1, 0]], [[0, 1], [-1, 0]], [[1, 1]], [[1, 2], [2, 4]]
FOLD = [[1, 0], [-1, 0], [0, 1], [0, -1]]


def net(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers).eval()


def answers(decoder: object, n_latents: int = 2) -> dict[str, str]:
    reading = read_decoder(decoder, n_latents)
    shown = {"F1": reading.piecewise_affine, "continuous": reading.continuous, "F2": reading.weakly}
    return {name: h.answer for name, h in {**shown, "F3": reading.observably, "F4": reading.injective}.items()}


def every(answer: str, **other: str) -> dict[str, str]:
    return {name: other.get(name, answer) for name in ("F1", "continuous", "F2", "F3", "F4")}


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = linear(TALL)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return torch.exp(self.inner(z))


class SecretlyCurved(nn.ReLU):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.sin(input)


def hooked() -> nn.Linear:
    layer = linear(TALL)
    layer.register_forward_hook(lambda module, inputs, output: output**2)
    return layer


def prelu(*slopes: float) -> nn.PReLU:
    layer = nn.PReLU(len(slopes)).double()
    layer.load_state_dict({"weight": torch.tensor(slopes, dtype=torch.float64)})
    return layer


def batch_norm(scale: list[float], **options: bool) -> nn.BatchNorm1d:
    layer = nn.BatchNorm1d(len(scale), **options).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(scale))
    return layer


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: net(linear(TALL)), every("holds")),
        (lambda: net(), every("holds")),
        (lambda: linear(TALL), every("holds")),
        (lambda: net(linear(TURN), nn.LeakyReLU(0.2), linear(TALL), nn.LeakyReLU(0.2)), every("holds")),
        (lambda: net(net(linear(TURN), nn.Identity()), net(nn.Dropout(0.5), linear(TALL))), every("holds")),
        (lambda: net(linear(TALL), prelu(0.1, 0.2, 3.0), linear([[1, 0, 0], [0, 1, 0], [0, 0, 1]])), every("holds")),
        (lambda: net(batch_norm([1.0, 2.0]), linear(TALL)), every("holds")),
        (lambda: net(linear(FOLD), nn.ReLU()), every("holds")),
        (lambda: net(linear(FOLD), nn.LeakyReLU(0.0)), every("holds")),
        # curved
        (lambda: net(linear(TALL), nn.Tanh()), every("holds", F1="fails")),
        (lambda: net(linear(TALL), nn.GELU()), every("unknown", F1="fails", continuous="holds")),
        (lambda: net(linear(TALL), nn.LayerNorm(3)), every("unknown", F1="fails", continuous="holds")),
        # not continuous, not increasing
        (lambda: net(linear(TALL), nn.Hardshrink()), every("unknown", F1="holds", continuous="fails")),
        (lambda: net(linear(TALL), nn.Threshold(0.0, 1.0)), every("unknown", F1="holds", continuous="fails")),
        (lambda: net(linear(TALL), nn.Threshold(1.0, 1.0)), every("unknown", F1="holds", continuous="holds")),
        (lambda: net(linear(TALL), nn.ReLU6()), every("unknown", F1="holds", continuous="holds")),
        (lambda: net(linear(TALL), nn.LeakyReLU(-1.0)), every("unknown", F1="holds", continuous="holds")),
        # a dimension is lost, at the first layer or later
        (lambda: net(linear(FLAT), nn.LeakyReLU(0.2)), every("fails", F1="holds", continuous="holds")),
        (lambda: net(linear(TALL), nn.ReLU(), linear([[1, 1, 1]])), every("fails", F1="holds", continuous="holds")),
        (lambda: net(batch_norm([1.0, 0.0]), linear(TALL)), every("fails", F1="holds", continuous="holds")),
        # one ReLU block collapses cells: almost everywhere injective
        (lambda: net(linear(TALL), nn.ReLU()), every("holds", F4="fails")),
        (lambda: net(linear(TURN), nn.LeakyReLU(0.3), linear(TALL), nn.ReLU()), every("holds", F4="fails")),
        # what its predecessors reach is not everything: not decided
        (
            lambda: net(linear(TURN), nn.Tanh(), linear(TALL), nn.ReLU()),
            every("unknown", F1="fails", continuous="holds"),
        ),
        (
            lambda: net(linear(FOLD), nn.ReLU(), linear([[1, 0, 1, 0], [0, 1, 0, 1]])),
            every("unknown", F1="holds", continuous="holds"),
        ),
        (
            lambda: net(linear(TURN), nn.ReLU(), linear(TURN), nn.ReLU()),
            every("unknown", F1="holds", continuous="holds", F4="fails"),
        ),
        # the architecture does not show
        (lambda: Wrapped(), every("unknown")),
        (lambda: net(linear(TALL), SecretlyCurved()), every("unknown")),
        (lambda: net(hooked()), every("unknown")),
        (lambda: net(hooked(), nn.Tanh()), every("unknown", F1="fails")),
        (lambda: net(batch_norm([1.0, 1.0]), linear(TALL)).train(), every("unknown")),
        (lambda: net(batch_norm([1.0, 1.0], track_running_stats=False), linear(TALL)), every("unknown")),
        (lambda: net(nn.Dropout(0.1), linear(TALL)).train(), every("unknown")),
        (lambda: torch.exp, every("unknown")),
        (lambda: None, every("unknown")),
    ],
)
def test_a_decoder_is_read_layer_by_layer(build: Callable[[], object], expected: dict[str, str]) -> None:
    assert answers(build()) == expected


def test_a_decoder_of_other_latents_is_refused() -> None:
    with pytest.raises(InputError, match=r"must take a batch of the mixture's latents, shape \(batch, 3\)"):
        read_decoder(net(linear(TALL)), 3)


def test_evidence_names_the_layer_that_decides() -> None:
    assert "Tanh is not piecewise affine" in read_decoder(net(linear(TALL), nn.Tanh()), 2).piecewise_affine.evidence
    assert "Hardshrink jumps" in read_decoder(net(nn.Hardshrink()), 2).continuous.evidence
    lost = read_decoder(net(linear(TALL), nn.ReLU(), linear([[1, 1, 1]])), 2).weakly.evidence
    assert lost == "block 2 has rank 1 for 3 inputs, fewer than the 2 latents"
    leaky = read_decoder(net(linear(TURN), nn.LeakyReLU(0.2), linear([[3, 0], [0, 5]])), 2).injective.evidence
    assert "block 1 has full column rank, singular values 1 to 1" in leaky
    assert "block 2 has full column rank, singular values 3 to 5" in leaky
    assert "BatchNorm1d is in training mode" in read_decoder(batch_norm([1.0, 1.0]), 2).injective.evidence
    assert "Wrapped" in read_decoder(Wrapped(), 2).injective.evidence


@pytest.mark.parametrize("unit", [1e-10, 1e-7, 1e-3, 1e3, 1e7, 1e10])
def test_the_unit_of_a_latent_does_not_decide_whether_a_decoder_is_injective(unit: float) -> None:
    def scaled(rows: list) -> nn.Linear:
        return linear([[a, b * unit] for a, b in rows])

    for rows in (TURN, TALL):
        assert answers(net(scaled(rows), nn.LeakyReLU(0.2))) == every("holds")
    assert answers(net(scaled(FLAT), nn.LeakyReLU(0.2))) == every("fails", F1="holds", continuous="holds")
    assert answers(net(scaled(FOLD), nn.ReLU())) == every("holds")
    assert answers(net(scaled(TALL), nn.ReLU())) == every("holds", F4="fails")


def test_a_column_that_cancels_up_to_rounding_is_no_latent_in_large_units() -> None:
    lost = net(linear([[1, 0.1], [0, 0.2], [0, 0.3]]), linear([[1, 1, -1], [1, 2, -5 / 3]]))  # 0.1 + 0.2 − 0.3 ≠ 0
    assert answers(lost)["F4"] == "fails"


def test_our_own_networks_and_fitted_decoders_are_recognised() -> None:
    torch.manual_seed(0)
    built = MLP(hidden=(4, 6), slope=0.2)(2, 8)
    assert answers(built) == every("holds")
    decoder = Decoder(Codec(nn.Identity(), built, torch.zeros(8), torch.ones(8)))
    assert answers(decoder) == every("holds")
    narrowing = MLP(hidden=(6, 4), slope=0.2)(2, 8)
    assert answers(narrowing) == every("unknown", F1="holds", continuous="holds")


def test_a_codec_with_its_own_decoding_is_not_opened() -> None:
    class Squared(Codec):
        def decode(self, z: torch.Tensor) -> torch.Tensor:
            return self.decoder(z) ** 2

    decoder = Decoder(Squared(nn.Identity(), linear(TALL), torch.zeros(3), torch.ones(3)))
    assert answers(decoder) == every("unknown")


def test_convolutions_are_written_out() -> None:
    torch.manual_seed(1)
    image = [nn.Linear(2, 8), nn.Unflatten(1, (2, 2, 2)), nn.LeakyReLU(0.1), nn.ConvTranspose2d(2, 3, 2, stride=2)]
    assert answers(net(*image, nn.Flatten())) == every("holds")
    with torch.no_grad():
        image[-1].weight[1] = 0  # the second channel is lost, the latents may not be
    assert answers(net(*image, nn.Flatten())) == every("unknown", F1="holds", continuous="holds")
    with torch.no_grad():
        image[-1].weight[:] = 0
    assert answers(net(*image)) == every("fails", F1="holds", continuous="holds")


def test_a_network_too_large_to_write_out_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injectivity, "MOST_ENTRIES", 5)
    assert answers(net(linear(TALL))) == every("unknown", F1="holds", continuous="holds")
    assert "too large" in read_decoder(net(linear(TALL)), 2).injective.evidence


def test_a_decoder_is_not_changed_by_reading_it() -> None:
    decoder = MLP(hidden=(3,))(2, 4)
    before = {name: value.clone() for name, value in decoder.state_dict().items()}
    read_decoder(decoder, 2)
    assert all(p.dtype == torch.float32 for p in decoder.parameters())
    assert all(torch.equal(value, before[name]) for name, value in decoder.state_dict().items())


# ---- one ReLU layer --------------------------------------------------------------------------------------


def spans_at(W: np.ndarray, b: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The slow reference: does the set of active rows span, at each point."""
    active = points @ W.T + b >= 0
    return np.array([np.linalg.matrix_rank(W[row]) == W.shape[1] if row.any() else False for row in active])


def test_the_search_of_a_relu_layer_agrees_with_sampling() -> None:
    rng, found = np.random.default_rng(0), []
    for _ in range(120):
        n = int(rng.integers(1, 4))
        W = rng.integers(-2, 3, size=(int(rng.integers(1, 5 * n + 1)), n)).astype(float)
        b = rng.integers(-2, 3, size=len(W)) * float(rng.integers(0, 2))
        points = np.vstack([rng.normal(size=(300, n)) * scale for scale in (0.3, 1, 5, 100)])
        result = rectified(W, b)
        found.append(result.injective)
        if result.injective:
            assert spans_at(W, b, points).all()
        else:
            assert result.collapsed is not None
            assert not spans_at(W, b, result.collapsed[None])[0]
            active = W[W @ result.collapsed + b >= -1e-9]
            direction = np.linalg.svd(active)[2][-1] if len(active) else np.eye(n)[0]
            image = [np.maximum(W @ (result.collapsed + t * direction) + b, 0) for t in (0, 1e-4, -1e-4)]
            assert np.allclose(image[0], image[1], atol=1e-9)
            assert np.allclose(image[0], image[2], atol=1e-9)
    assert 20 < sum(bool(f) for f in found) < 100


@pytest.mark.parametrize(
    ("W", "b", "injective"),
    [
        ([[1], [-1]], [0, 0], True),
        ([[1], [-1]], [1, -0.5], True),  # a row with a negative bias helps far away
        ([[1], [-1]], [-1, -1], False),  # nothing is active between −1 and 1
        ([[1], [-1]], [-1e-3, -1e-3], False),  # a small cell, but of the size of the biases
        ([[1], [1]], [0, 5], False),
        ([[0], [1], [-1]], [1, 0, 0], True),
        (FOLD, [0, 0, 0, 0], True),
        ([*FOLD[:3], [0, 0]], [0, 0, 0, 1], False),
        ([[1, 0], [-1, 0], [0, 1], [-1, -1]], [0, 0, 0, 0], False),
    ],
)
def test_small_relu_layers_are_decided_by_hand(W: list, b: list, injective: bool) -> None:
    assert rectified(np.array(W, dtype=float), np.array(b, dtype=float)).injective is injective


@pytest.mark.parametrize("dead", [0.0, 1e-20, 1e-11, 1e-8, 1e-7, 1e-6, 1e-5, 1e-3])
def test_a_nearly_dead_unit_does_not_hide_where_a_relu_network_is_constant(dead: float) -> None:
    """Nothing is active between −1 and 1, wherever the kink of the third unit lies."""
    decoder = net(linear([[1], [-1], [dead]], [-1, -1, -1]), nn.ReLU(), linear(np.eye(3).tolist()))
    with torch.no_grad():
        outputs = decoder(torch.tensor([[-0.5], [0.5]], dtype=torch.float64))
    assert torch.equal(outputs[0], outputs[1])
    assert answers(decoder, 1) == every("holds", F4="fails")
    many = rectified(np.array([[1.0], [-1], *[[dead]] * 9]), -np.ones(11))
    assert many.injective is False
    assert many.collapsed is not None
    assert abs(many.collapsed[0]) < 1


def test_a_cell_beside_a_far_kink_is_seen_where_it_is_as_wide_as_its_own_kinks() -> None:
    """Inside |h| < 1 only the third row is active, and it does not move with the second input."""
    W, b = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1], [1e-9, 0]]), np.array([-1.0, -1, -1, -1, 1])
    result = rectified(W, b)
    assert result.injective is False
    assert result.collapsed is not None
    assert not spans_at(W, b, result.collapsed[None])[0]


@pytest.mark.parametrize("thin", [1e-7, 1e-9, 1e-11])
def test_a_cell_as_thin_as_rounding_is_not_decided(thin: float) -> None:
    """Nothing is active between 1 and 1 + thin: two kinks meant to be one, or a true gap."""
    result = rectified(np.array([[-1.0], [1.0]]), np.array([1.0, -1 - thin]))
    assert result.injective is None
    assert result.collapsed is not None
    decoder = net(linear([[-1], [1]], [1, -1 - thin]), nn.ReLU())
    told = read_decoder(decoder, 1).injective
    assert told.answer == "unknown"
    assert told.evidence.startswith("the active rows of block 1 do not span in a cell too thin to be sure of, at its")
    assert rectified(np.array([[-1.0], [1.0]]), np.array([1.0, -1 + thin])).injective is True
    assert rectified(np.array([[-1.0], [1.0]]), np.array([1.0, -1 - 1e-4])).injective is False


def test_only_a_bounded_cell_collapses() -> None:
    """Six half planes that leave out a hexagon around the origin: far away rows are active, inside none."""
    angles = 2 * np.pi * np.arange(6) / 6
    W = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    result = rectified(W, -np.ones(6))
    assert result.injective is False
    assert result.collapsed is not None
    assert np.linalg.norm(result.collapsed) < 10
    assert rectified(W, np.ones(6)).injective is True


def test_leaky_rows_are_always_active() -> None:
    W = np.array(FOLD[:3], dtype=float)
    assert rectified(W, np.zeros(3)).injective is False
    assert rectified(W, np.zeros(3), leaky=np.array([False, False, True])).injective is True
    assert answers(net(linear(FOLD[:3]), prelu(0.0, 0.0, 0.5))) == every("holds")
    assert answers(net(linear(FOLD[:3]), prelu(0.0, 0.0, 0.0))) == every("holds", F4="fails")


def test_the_search_gives_up_rather_than_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injectivity, "MOST_CELLS", 3)
    W = np.random.default_rng(0).normal(size=(40, 3))
    result = rectified(W, np.zeros(40))
    assert result.injective is None
    assert result.collapsed is None
    torch.manual_seed(0)
    wide = net(nn.Linear(3, 40), nn.ReLU())
    assert answers(wide, 3) == every("holds", F4="unknown")


def test_a_wide_random_relu_layer_is_injective() -> None:
    W = np.random.default_rng(0).normal(size=(40, 3))
    assert rectified(W, np.zeros(40)).injective is True
