"""The structured pass keeps to its budget of memory, and leaves alone what it cannot take."""

import pytest
import torch
from layered_maps import D_Z, ROWS, around, layered, points, row_by_row
from torch import Tensor, nn

from noumena.checks import InputError
from noumena.derivatives import differentiate, jacobian, tangents, way_of

# ---- memory ----------------------------------------------------------------------------------------------------


def test_the_budget_counts_what_autograd_keeps() -> None:
    kept: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    z = points(50)
    for activation in (nn.LeakyReLU(), nn.Tanh()):
        f = nn.Sequential(nn.Linear(D_Z, 20), activation, nn.Linear(20, 30), activation, nn.Linear(30, 8)).double()
        at = tangents.linearise(f, z)
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            tangents.along(at, z, z.expand(7, -1, -1), 2**30)
        tangent_sized = sum(n for n in kept if n % (7 * 50) == 0)
        at_work = 3 * 30 * 50
        assert 7 * (tangents.live(at.links, 50) - at_work) == tangent_sized
        with torch.no_grad():
            assert tangents.live(at.links, 50) == at_work


@pytest.mark.parametrize("back", [False, True])
def test_tensors_that_the_allocator_would_not_reuse_are_split(back: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    f, z, passes = layered("narrow" if back else "nested"), points(), []
    expected, link = jacobian(f, z), tangents.Link

    def noted(push, pull, *rest):
        counted = [lambda T, carry=carry: (passes.append(len(T)), carry(T))[1] for carry in (push, pull)]
        return link(*counted, *rest)

    monkeypatch.setattr(tangents, "Link", noted)
    monkeypatch.setattr(tangents, "PAGED", (1 if back else 3) * ROWS * 6 * 8)
    torch.testing.assert_close(jacobian(f, z), expected, rtol=1e-12, atol=1e-12)
    assert sorted(passes) == ([1, 1, 1, 1] if back else [1, 1, 3, 3])


def test_chunks_keep_less_for_the_backward_pass() -> None:
    kept: dict[int, int] = {}
    f, z = layered("ConvTranspose2d"), points(20)
    for memory in (1, 2**30):
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, s=sizes: (s.append(t.numel()), t)[1], lambda t: t):
            jacobian(f, z, memory=memory)
        kept[memory] = sum(sizes)
    assert kept[1] < 0.6 * kept[2**30]


# ---- what is left alone ----------------------------------------------------------------------------------------


class Doubled(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


def hooked() -> nn.Module:
    layer = nn.Tanh()
    layer.register_forward_hook(lambda module, given, out: out**2)
    return layer


def patched() -> nn.Module:
    layer = nn.Tanh()
    layer.forward = lambda input: input**3
    return layer


def hooked_sequence() -> nn.Module:
    layers = nn.Sequential(nn.Tanh())
    layers.register_forward_pre_hook(lambda module, given: (given[0] ** 2,))
    return layers


STRANGERS = {
    "Doubled": Doubled(6, 6),
    "Tanh with a hook": hooked(),
    "Tanh with a replaced forward": patched(),
    "Sequential with a hook": hooked_sequence(),
    "LayerNorm": nn.LayerNorm(6),
    "Softmax": nn.Softmax(dim=-1),
    "Flatten": nn.Flatten(0, 0),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_is_left_to_forward_mode_and_named_when_refused(name: str) -> None:
    f, z = around(STRANGERS[name]), points()
    found = differentiate(f, z)
    assert found.way == "forward"
    torch.testing.assert_close(found.J, row_by_row(f, z), rtol=1e-9, atol=1e-12)
    sentence = rf'way="structured" needs .*convolution.* layers\. Got {name}\.'
    with pytest.raises(InputError, match=sentence):
        jacobian(f, z, way="structured")


def test_padding_that_is_not_zeros_is_left_to_forward_mode() -> None:
    for layer in (nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), nn.Conv1d(2, 3, 3, padding="same")):
        f = nn.Sequential(nn.Linear(D_Z, 12), nn.Unflatten(1, (2, 6)), layer, nn.Flatten()).double()
        assert way_of(f, points()) == "forward"
        torch.testing.assert_close(jacobian(f, points()), row_by_row(f, points()))


def test_a_callable_is_no_structured_map() -> None:
    with pytest.raises(InputError, match=r"Got a callable that is no module\."):
        jacobian(torch.tanh, points(), way="structured")


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm1d(6), nn.BatchNorm1d(6, track_running_stats=False).eval(), nn.Dropout(0.5), nn.Dropout2d(0.1)],
)
@pytest.mark.parametrize("way", ["auto", "forward", "structured", "reverse"])
def test_what_mixes_rows_or_is_random_is_refused(layer: nn.Module, way: str) -> None:
    f = nn.Sequential(around(nn.Sequential(layer)))
    name = type(layer).__name__
    sentence = (
        rf"The map must treat rows one by one and the same at every call; use its eval\(\)\. Got {name} in training"
    )
    with pytest.raises(InputError, match=sentence):
        jacobian(f, points(), way=way)


def test_dropout_of_nothing_is_taken_in_training_mode() -> None:
    f, z = around(nn.Dropout(0.0)), points()
    torch.testing.assert_close(jacobian(f, z, way="structured"), row_by_row(f, z))


def test_a_convolution_without_channels_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"Conv1d must be given \(batch, channel, …\) with 1 more axes\. Got shape \(3, 4\)\."
    ):
        jacobian(nn.Conv1d(3, 3, 1).double(), points())
