"""Layers: found by name, read by forward hooks that are always removed; hidden states of ``transformers`` models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, nn

from noumena import checks
from noumena.checks import InputError
from noumena.extraction.batches import Batch

LAST = "last_hidden_state"
Reader = Callable[[Batch], Tensor]


@contextmanager
def hooked(model: nn.Module, layer: str | None) -> Iterator[Reader]:
    """Yield a function from a batch to the output of the layer, or of the whole module, in one forward pass."""
    if layer is None:
        yield lambda batch: first_tensor(batch.fed_to(model))
        return
    seen: list[Tensor] = []

    def keep(_module: Any, _inputs: Any, output: Any) -> None:
        seen.append(first_tensor(output).clone())  # a later layer may work in place

    def read(batch: Batch) -> Tensor:
        seen.clear()
        batch.fed_to(model)
        must = f"Layer {layer!r} must be called once in a forward pass."
        checks.require(len(seen) == 1, must, f"{len(seen)} calls" if seen else "no call")
        return seen.pop()

    handle = named_layer(model, layer).register_forward_hook(keep)
    try:
        yield read
    finally:
        handle.remove()


def named_layer(model: nn.Module, name: str) -> nn.Module:
    """The layer of this name.

    >>> named_layer(nn.Sequential(nn.Linear(2, 3), nn.Tanh()), "1")
    Tanh()
    """
    layers = dict(model.named_modules(remove_duplicate=False))
    if name in layers and name:
        return layers[name]
    names = [known for known in layers if known]
    similar = get_close_matches(name, names, n=3, cutoff=0.5) or names[-3:]
    offer = f"similar are {', '.join(similar)}" if similar else "the module has no layers"
    raise InputError(f"layer must be the name of a layer of the module. Got {name!r}; {offer}.")


def first_tensor(output: Any) -> Tensor:
    """The first tensor of a module's output; of named outputs the last hidden state, if there is one.

    >>> first_tensor({"loss": None, "logits": (torch.tensor([1.0]),)})
    tensor([1.])
    """
    tensor = _first(output)
    checks.require(tensor is not None, "The layer must give a tensor.", f"a {type(output).__name__}")
    assert tensor is not None
    must = "The layer must give real numbers with an axis of rows."
    checks.require(tensor.is_floating_point() and tensor.ndim > 0, must, f"{tensor.dtype}, shape {tuple(tensor.shape)}")
    return tensor


def _first(output: Any) -> Tensor | None:
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping):
        output = [output[LAST]] if output.get(LAST) is not None else list(output.values())
    if isinstance(output, tuple | list):
        return next((tensor for entry in output if (tensor := _first(entry)) is not None), None)
    return None


@contextmanager
def evaluation_mode(model: nn.Module, device: str | torch.device | None) -> Iterator[torch.device]:
    """Evaluation mode without gradients, on a device; every module's mode and the device are restored after."""
    modes = [(module, module.training) for module in model.modules()]
    home = _home(model)
    place = home if device is None else _device(device)
    try:
        model.eval()
        if place != home:
            model.to(place)
        with torch.no_grad():
            yield place
    finally:
        for module, mode in modes:
            module.training = mode
        if place != home:
            model.to(home)


def precision(model: nn.Module) -> torch.dtype:
    """The precision of the module's weights."""
    kinds = (weight.dtype for weight in model.parameters() if weight.is_floating_point())
    return next(kinds, torch.get_default_dtype())


def _home(model: nn.Module) -> torch.device:
    tensors = (tensor.device for group in (model.parameters(), model.buffers()) for tensor in group)
    return next(tensors, torch.device("cpu"))


def _device(device: str | torch.device) -> torch.device:
    wanted = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        place = torch.device(wanted if device == "auto" else device)
    except RuntimeError as error:
        raise InputError(f"device must be auto or a torch device. Got {device!r}.") from error
    missing = place.type == "cuda" and not torch.cuda.is_available()
    checks.require(not missing, "device must be present on this machine.", repr(str(device)))
    return place


# ---- models of transformers ----------------------------------------------------------------------------------------


def hidden_state(model: nn.Module, number: int) -> Reader:
    """A function of a batch: hidden state ``number`` of a model of transformers, 0 the embedding and −1 the last."""
    pretrained = _pretrained_class()
    must = "layer must be a name unless the model is one of transformers."
    checks.require(isinstance(model, pretrained), must, f"number {number} for a {type(model).__name__}")

    def read(batch: Batch) -> Tensor:
        """The hidden state of one batch."""
        states = getattr(batch.fed_to(model, output_hidden_states=True, return_dict=True), "hidden_states", None)
        checks.require(bool(states), "layer must be a name where a model has no hidden states.", f"number {number}")
        assert states is not None
        last = len(states) - 1
        must = f"layer must be the number of a hidden state, from 0 to {last}, or negative from the end."
        checks.require(-last - 1 <= number <= last, must, number)
        return first_tensor(states[number])

    return read


def refuse_hidden_patches(model: Any) -> None:
    """Refuse a masked autoencoder that would hide patches at random, which it does in evaluation mode too."""
    share = getattr(getattr(model, "config", None), "mask_ratio", None) or 0.0
    must = "model.config.mask_ratio must be 0 for representations of whole images."
    checks.require(share == 0, must, f"{share:g}, which hides patches at random")


def _pretrained_class() -> type:
    what = "Hidden states by number"
    return checks.package("transformers", "transformers", what, "hub").PreTrainedModel
