"""Laws over every builder of networks: where its weights come from, that several run as one, and that all can learn."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from sentences import ids, refusal
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from noumena import nets as N
from noumena import seeds
from noumena.estimators.images.attention import Concepts
from noumena.estimators.images.style_networks import StyleDiscriminator, StyleGenerator
from noumena.estimators.images.unet import UNet
from noumena.estimators.images.vector_quantised import VectorQuantised
from noumena.nets.additive import Additive
from noumena.nets.conv import ConvDecoder, ConvEncoder
from noumena.nets.couplings import Coupling, VolumePreserving
from noumena.nets.orthogonal import Orthogonal
from noumena.nets.pooled import PooledDecoder, PooledEncoder, SpatialSoftmaxDecoder, SpatialSoftmaxEncoder
from noumena.nets.residual import ResidualEncoder

SMALL: dict[str, Any] = {"channels": 2, "size": 8, "widths": (3, 4)}
PIXELS = 2 * 8 * 8
BUILDERS: dict[str, tuple[Any, Any, int, int]] = {
    "mlp": (N.MLP((5, 4)), N.MLP((5,)), 6, 7),
    "orthogonal": (Orthogonal((5, 4)), Orthogonal((5,)), 6, 2),
    "additive": (Additive((2, 4), (5, 4)), Additive(2, (5, 4)), 6, 7),
    "convolutional encoder": (ConvEncoder(**SMALL, hidden=5), ConvEncoder(**SMALL, hidden=6), PIXELS, 6),
    "convolutional decoder": (ConvDecoder(**SMALL, hidden=5), ConvDecoder(**SMALL, hidden=6), 6, PIXELS),
    "pooled encoder": (PooledEncoder(**SMALL), PooledEncoder(2, 8, (3, 5)), PIXELS, 4),
    "pooled decoder": (PooledDecoder(**SMALL), PooledDecoder(2, 8, (3, 5)), 4, PIXELS),
    "place encoder": (SpatialSoftmaxEncoder(**SMALL, maps=5), SpatialSoftmaxEncoder(**SMALL, maps=6), PIXELS, 4),
    "place decoder": (SpatialSoftmaxDecoder(**SMALL, maps=5), SpatialSoftmaxDecoder(**SMALL, maps=6), 4, PIXELS),
    "residual encoder": (ResidualEncoder(2, 8, (3, 4), blocks=1), ResidualEncoder(2, 8, (3, 4), blocks=2), PIXELS, 5),
    "volume-preserving": (VolumePreserving(5, (8,)), VolumePreserving(4, (8,)), 3, 3),
    "affine couplings": (Coupling(4, (8,)), Coupling(4, (9,)), 3, 3),
    "spline couplings": (Coupling(4, (8,), "spline", bins=5, bound=3.0), Coupling(4, (8,), "spline"), 3, 3),
    "style generator": (StyleGenerator(2, 8, (6, 5, 4), style=7, depth=2), StyleGenerator(2, 8, (6, 5, 4)), 3, PIXELS),
    "style discriminator": (StyleDiscriminator(2, 8, (4, 5, 6)), StyleDiscriminator(2, 8, (4, 5, 7)), PIXELS, 1),
    "vector-quantised": (
        VectorQuantised(2, 8, (3, 4), blocks=1, depth=2, codes=6), VectorQuantised(2, 8, (3, 4), codes=7), PIXELS,
        PIXELS
    ),
    "u-net": (UNet(2, 8, (4, 8), heads=2, context=3, near=1), UNet(2, 8, (4, 8)), PIXELS, PIXELS),
}  # fmt: skip
every = pytest.mark.parametrize("name", BUILDERS)


def rows(columns: int, n: int = 16, seed: int = 1) -> Tensor:
    return torch.randn(n, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(name: str, seed: int = 0) -> nn.Module:
    builder, _, inputs, outputs = BUILDERS[name]
    with seeds.global_torch(seed, "init"):
        return builder(inputs, outputs).double()


def given(name: str, seed: int = 1) -> tuple[Tensor, ...]:
    """Rows, and what a network that denoises is told beside them."""
    x = rows(BUILDERS[name][2], seed=seed)
    return (x, 300.0 * torch.arange(16).to(x), rows(15, seed=2).unflatten(1, (5, 3))) if name == "u-net" else (x,)


def first(out: Any) -> Tensor:
    """What comes out, without a log-determinant beside it."""
    return out[0] if isinstance(out, tuple) else out


@every
def test_rows_of_one_width_become_rows_of_another_and_single_precision_stays_single(name: str) -> None:
    out = first(made(name).float()(*(part.float() for part in given(name))))
    assert out.shape == (16, BUILDERS[name][3])
    assert out.dtype == torch.float32
    assert bool(out.isfinite().all())


@every
def test_gradients_reach_every_parameter(name: str) -> None:
    net = made(name)
    out = net(*given(name))
    loss = (first(out) * rows(BUILDERS[name][3], seed=5)).sum() + first(out).pow(3).sum()
    (loss + (out[1].sum() if isinstance(out, tuple) else 0.0)).backward()
    straight_past = ["codes"] if name == "vector-quantised" else []
    assert [n for n, p in net.named_parameters() if p.grad is None or not bool((p.grad != 0).any())] == straight_past


@every
def test_several_networks_run_as_one_program_with_the_values_and_gradients_of_each(name: str) -> None:
    nets = [made(name, seed) for seed in range(3)]
    parameters, buffers = stack_module_state(nets)  # type: ignore[arg-type]
    x = given(name)
    together = vmap(lambda p, b: first(functional_call(nets[0], (p, b), x)))(parameters, buffers)
    together.square().sum().backward()
    for k, net in enumerate(nets):
        torch.testing.assert_close(together[k], first(net(*x)))
        first(net(*x)).square().sum().backward()
        for place, p in net.named_parameters():
            if p.grad is not None:
                torch.testing.assert_close(parameters[place].grad[k], p.grad, rtol=1e-5, atol=1e-9)
    assert not torch.allclose(together[0], together[1])


@every
def test_networks_come_from_the_global_stream_and_each_call_makes_a_new_one(name: str) -> None:
    builder, _, inputs, outputs = BUILDERS[name]
    one, same, other = (made(name, seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)
    with seeds.global_torch(0, "init"):
        first_made, second_made = (next(iter(builder(inputs, outputs).parameters())) for _ in range(2))
    assert first_made is not second_made


@every
def test_a_network_comes_back_from_its_state_and_from_a_pickle(name: str) -> None:
    net, other, x = made(name), made(name, 1), given(name)
    expected = first(net(*x))
    other.load_state_dict(net.state_dict())
    assert torch.equal(first(other(*x)), expected)
    assert torch.equal(first(pickle.loads(pickle.dumps(net))(*x)), expected)


@every
def test_builders_are_values(name: str) -> None:
    builder, other, *_ = BUILDERS[name]
    assert replace(builder) == builder != other
    assert len({builder, replace(builder), other}) == 2
    assert repr(builder).startswith(f"{type(builder).__name__}(")
    assert pickle.loads(pickle.dumps(builder)) == builder


# ---- refusals ------------------------------------------------------------------------------------------------------

WHOLE = "must be a whole number of at least 1. Got 0."
REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: N.MLP(hidden=(4, 0)), f"A hidden width {WHOLE}"),
    (lambda: N.MLP(slope=-0.1), "slope must be a finite number in [0, inf]. Got -0.1."),
    (lambda: Orthogonal(hidden=(4, 0)), f"A hidden width {WHOLE}"),
    (lambda: Orthogonal(slope=-0.1), "slope must be a finite number in [0, 1]. Got -0.1."),
    (lambda: Orthogonal(slope=1.5), "slope must be a finite number in [0, 1]. Got 1.5."),
    (lambda: Additive(0), f"slots {WHOLE}"),
    (lambda: Additive(2, hidden=(4, 0)), f"A hidden width {WHOLE}"),
    (lambda: Additive(2, slope=-0.1), "slope must be a finite number in [0, inf]. Got -0.1."),
    (lambda: Additive(4)(6, 2), "6 latents must fall into equal slots. Got 4 slots."),
    (lambda: Additive((1, 2))(6, 2), "The sizes of the slots must add up to 6 latents. Got (1, 2)."),
    (lambda: ConvEncoder(0), f"channels {WHOLE}"),
    (lambda: ConvEncoder(1, 40), "size must be a multiple of 16 for 4 convolutions that halve it. Got 40."),
    (lambda: ConvDecoder(widths=()), "widths must name a layer. Got none."),
    (lambda: ConvDecoder(widths=(4, 0)), f"A layer's width {WHOLE}"),
    (lambda: ConvDecoder(hidden=0), f"hidden {WHOLE}"),
    (lambda: ConvDecoder(slope=-1.0), "slope must be a finite number in [0, inf]. Got -1.0."),
    (lambda: ConvEncoder(3, 32)(1024, 5), "The inputs must be the 3072 pixels of 3 channels of 32 × 32. Got 1024."),
    (lambda: ConvDecoder(1, 16)(5, 9), "The outputs must be the 256 pixels of 1 channels of 16 × 16. Got 9."),
    (lambda: ConvEncoder(1, 16)(256, 0), f"outputs {WHOLE}"),
    (lambda: ConvDecoder(1, 16)(0, 256), f"inputs {WHOLE}"),
    (lambda: PooledEncoder(2, 14, (3, 4)), "size must be a multiple of 4 for 2 poolings that halve it. Got 14"),
    (lambda: PooledDecoder(2, 12, ()), "widths must name a layer. Got none"),
    (lambda: PooledDecoder(2, 12, (3, 0)), "A layer's width must be a whole number"),
    (lambda: PooledEncoder(0, 12, (3, 4)), f"channels {WHOLE}"),
    (lambda: SpatialSoftmaxEncoder(2, 12, (3, 4), halvings=3), "halvings must be at most the number of widths. Got 3"),
    (lambda: SpatialSoftmaxEncoder(2, 10, (3, 4), halvings=2), "size must be a multiple of 4 for 2 poolings"),
    (lambda: SpatialSoftmaxDecoder(2, 12, (3, 4), maps=0), f"maps {WHOLE}"),
    *((lambda b=b: b(**SMALL)(127, 4), "The inputs must be the 128 pixels of 2 channels of 8 × 8. Got 127")
      for b in (PooledEncoder, SpatialSoftmaxEncoder)),
    *((lambda b=b: b(**SMALL)(4, 127), "The outputs must be the 128 pixels")
      for b in (PooledDecoder, SpatialSoftmaxDecoder)),
    *((lambda b=b: b(**SMALL)(128, 0), f"outputs {WHOLE}") for b in (PooledEncoder, SpatialSoftmaxEncoder)),
    *((lambda b=b: b(**SMALL)(0, 128), f"inputs {WHOLE}") for b in (PooledDecoder, SpatialSoftmaxDecoder)),
    (lambda: ResidualEncoder(blocks=-1), "blocks must be"),
    (lambda: ResidualEncoder(size=9), "size must be a multiple"),
    (lambda: ResidualEncoder(1, 8, (4, 4))(60, 2), "inputs must be the 64 pixels"),
    (lambda: VolumePreserving(blocks=1), "blocks must be a whole number of at least 2"),
    (lambda: VolumePreserving(clamp=0), "clamp must be"),
    (lambda: VolumePreserving()(1, 1), "two dimensions or more. Got 1"),
    (lambda: Coupling(hidden=(0,)), "A hidden width must be"),
    (lambda: Coupling(transform="linear"), "transform must be one of affine, spline"),
    (lambda: Coupling(bins=1), "bins must be"),
    (lambda: Coupling(bound=0), "bound must be"),
    (lambda: Coupling()(3, 2), "as many outputs as inputs. Got 3 and 2"),
    (lambda: StyleGenerator(1, 6, widths=(2, 2, 2)), "size must be a multiple of 4 for 3 levels. Got 6."),
    (lambda: StyleDiscriminator(1, 8, widths=()), "widths must name a level. Got none."),
    (lambda: BUILDERS["style generator"][0](3, 100),
     "The outputs must be the 128 pixels of 2 channels of 8 × 8. Got 100."),
    (lambda: BUILDERS["style generator"][0](0, PIXELS), f"inputs {WHOLE}"),
    (lambda: BUILDERS["style discriminator"][0](100, 1),
     "The inputs must be the 128 pixels of 2 channels of 8 × 8. Got 100."),
    (lambda: BUILDERS["style discriminator"][0](PIXELS, 2), "A discriminator must have 1 output. Got 2."),
    *((lambda wrong=wrong: StyleGenerator(**{"size": 64, **wrong}), WHOLE)  # type: ignore[arg-type]
      for wrong in ({"style": 0}, {"depth": 0}, {"channels": 0}, {"widths": (0,)}, {"size": 0})),
    (lambda: VectorQuantised(codes=0), "codes must be"),
    (lambda: VectorQuantised(depth=0), "depth must be"),
    (lambda: VectorQuantised(blocks=-1), "blocks must be"),
    (lambda: VectorQuantised(size=6), "size must be a multiple of 4"),
    (lambda: BUILDERS["vector-quantised"][0](64, 128), "inputs must be the 128 pixels"),
    (lambda: BUILDERS["vector-quantised"][0](128, 64), "outputs must be the 128 pixels"),
    (lambda: UNet(size=10), "size must be a multiple of 4"),
    (lambda: UNet(widths=()), "widths must name a side"),
    (lambda: UNet(widths=(6, 8), heads=4), "fall into 4 heads"),
    (lambda: UNet(widths=(3,), heads=1), "must be even"),
    (lambda: UNet(near=-1), "near must be"),
    (lambda: UNet(blocks=0), "blocks must be"),
    (lambda: UNet(2, 8)(128, 127), "Inputs and outputs must be the 128 numbers"),
    (lambda: Concepts(0, 4), "n_latents must be"),
    (lambda: Concepts(2, 0), "The width of a token must be"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "sentence"), ids(REFUSED))
def test_what_cannot_be_built_is_refused(call: Callable[[], object], sentence: str) -> None:
    assert sentence in refusal(call)
