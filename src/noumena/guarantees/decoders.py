"""Decoders of users: what goes wrong inside one becomes one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from noumena.checks import InputError

Result = TypeVar("Result")


def outcome(call: Callable[[], Result], shape: tuple[int, ...]) -> Result:
    """The result of a call to a user's decoder, or of its derivatives, at latents of a shape.

    >>> outcome(lambda: 1 + 1, (5, 2))
    2
    """
    try:
        return call()
    except InputError:
        raise
    except Exception as error:  # whatever a stranger's decoder raises
        words = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            "A decoder must be a differentiable torch function from (batch, latent) to (batch, observed), for any "
            f"batch. Got the error: {words}, for latents of shape {shape}."
        ) from error
