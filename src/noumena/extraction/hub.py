"""Models of the package transformers: ordinary modules, whose hidden states also have numbers."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from noumena import checks
from noumena.checks import InputError
from noumena.extraction.batches import Batch
from noumena.extraction.layers import Reader, first_tensor


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
    try:
        from transformers import PreTrainedModel
    except ImportError as error:
        must = "Hidden states by number must have the package transformers; install noumena[hub]."
        raise InputError(f"{must} Got an ImportError.") from error
    return PreTrainedModel
