"""Fallbacks: the same derivatives where a map's kernels have no forward mode, or ``torch.func`` cannot take the map.

Fused kernels (attention, recurrent layers) are replaced by the elementary operations that they stand for, which have
derivatives of every order; what then still has no forward mode is taken by reverse mode, and what ``torch.func`` cannot
take at all by autograd, one backward pass per observation. Nothing is tried while the first way works.

Forward mode through torch's layer and instance norms has wrong derivatives itself (their means and variances count as
constants there), so penalties and mixed derivatives would be wrong: it is always given those norms step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._C._functorch import peek_interpreter_stack
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from noumena import checks
from noumena.checks import InputError

Result = TypeVar("Result")

SAME = "The map must treat rows one by one and the same at every call; use its eval()."


class StepByStep(TorchFunctionMode):
    """Layer and instance norms by elementary operations, for a block."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Torch's function, or the one that stands for it."""
        called: Any = NORMS.get(func, func)
        return called(*args, **(kwargs or {}))


def stepwise(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The same map on a copy of its points, with norms whose forward mode can be differentiated.

    >>> stepwise(lambda z: F.layer_norm(z, (2,)))(torch.tensor([[1.0, 3.0]]))
    tensor([[-1.0000,  1.0000]])
    """

    def called(z: Tensor) -> Tensor:
        with StepByStep():
            return f(z.clone())

    return called


def _layer_norm(
    x: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any, **options: Any
) -> Tensor:
    y = _normalised(x, tuple(range(-len(normalized_shape), 0)), eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _instance_norm(
    x: Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *rest: Any,
    **options: Any,
) -> Tensor:
    if not use_input_stats:
        return F.instance_norm(x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
    y, channels = _normalised(x, tuple(range(2, x.ndim)), eps), (-1, *[1] * (x.ndim - 2))
    y = y if weight is None else y * weight.reshape(channels)
    return y if bias is None else y + bias.reshape(channels)


def _normalised(x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    centred = x - x.mean(dim=axes, keepdim=True)
    return centred * (centred.square().mean(dim=axes, keepdim=True) + eps).rsqrt()


NORMS: dict[Any, Callable[..., Tensor]] = {
    F.layer_norm: _layer_norm,
    torch.layer_norm: _layer_norm,
    F.instance_norm: _instance_norm,
    torch.instance_norm: _instance_norm,
}


def first(*ways: Callable[[], Result]) -> Result:
    """The result of the first way that works, all but the first tried with elementary kernels; the first way's error
    where none does.

    >>> first(lambda: 1)
    1
    """
    try:
        return ways[0]()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        checks.require("randomness" not in str(error), SAME, "random numbers, as of functional dropout or noise")
        with elementary():
            for way in ways:
                try:
                    return way()
                except RuntimeError as again:
                    _require_no_reentrance(again)
        raise


def _require_no_reentrance(error: RuntimeError) -> None:
    if "use_reentrant" in str(error):
        raise InputError(
            "The map must have derivatives of parts; call checkpoint with use_reentrant=False. Got checkpoint with "
            "use_reentrant=True."
        ) from error


@contextmanager
def elementary() -> Iterator[None]:
    """Elementary operations in place of fused kernels, for a block.

    >>> with elementary():
    ...     print(torch._C._get_mkldnn_enabled())
    False
    """
    switches = (
        (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
        (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),
        (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    )
    before = [asked() for asked, _ in switches]
    with sdpa_kernel(SDPBackend.MATH):
        try:
            for _, switch in switches:
                switch(False)
            yield
        finally:
            for (_, switch), was in zip(switches, before, strict=True):
                switch(was)


def by_autograd(f: Callable[[Tensor], Tensor], z: Tensor) -> tuple[Tensor, Tensor]:
    """Values and Jacobians by one backward pass per observation; a map that leaves autograd is an error.

    >>> by_autograd(lambda z: z**2, torch.tensor([[1.0, 2.0]]))[1]
    tensor([[[2., 0.],
             [0., 4.]]])
    """
    if peek_interpreter_stack() is not None:
        raise RuntimeError("autograd cannot be used inside of torch.func")
    wanted = torch.is_grad_enabled() and (z.requires_grad or _requires_grad(f, z))
    with torch.enable_grad():
        y = z.view_as(z) if z.requires_grad else z.detach().requires_grad_()
        x = f(y.clone())
        back = [_slope(x[:, i], y, graph=wanted) for i in range(x.shape[1])]
    J = torch.stack(back, dim=1)
    return (x, J) if wanted else (x.detach(), J.detach())


def _requires_grad(f: Callable[[Tensor], Tensor], z: Tensor) -> bool:
    """Whether a map has parameters that want gradients."""
    return f(z.detach().clone()).requires_grad


def _slope(x: Tensor, z: Tensor, *, graph: bool) -> Tensor:
    return torch.autograd.grad(x.sum(), z, retain_graph=True, create_graph=graph)[0]
