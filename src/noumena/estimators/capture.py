"""A training step as a CUDA graph: recorded once, then replayed on new inputs.

Small networks leave a GPU waiting for launches; a recorded step has one. Inputs are copied to the places that the
recording reads, and everything else, weights and optimiser, is changed in place by it. The first steps run as usual,
for libraries prepare themselves in them. A step that cannot be recorded goes on as usual, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

State = dict[str, Tensor]
WARM = 3
"""Steps before the recording."""


class Recorded:
    """A step ``inputs ↦ losses`` on a GPU, recorded after a few calls; shapes of inputs must not change."""

    def __init__(self, step: Callable[[State], Tensor]):
        self.step = step
        self.calls = 0
        self.inputs: State = {}
        self.losses: Tensor | None = None
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream = torch.cuda.Stream()

    def __call__(self, inputs: State) -> Tensor:
        """Do a step."""
        self.calls += 1
        if self.calls == WARM + 1:
            self._record(inputs)
        if self.graph is None or self.losses is None:
            return self._aside(inputs)
        for name, value in inputs.items():
            self.inputs[name].copy_(value)
        self.graph.replay()
        return self.losses

    def _aside(self, inputs: State) -> Tensor:
        """A step as usual, on the stream of the recording."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            losses = self.step(inputs)
        torch.cuda.current_stream().wait_stream(self.stream)
        return losses

    def _record(self, inputs: State) -> None:
        self.inputs = {name: value.clone() for name, value in inputs.items()}
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                self.losses = self.step(self.inputs)
        except RuntimeError as error:
            first = str(error).splitlines()[0]
            warnings.warn(f"The training step runs unrecorded, as it cannot be recorded: {first}", stacklevel=2)
        else:
            self.graph = graph


@contextmanager
def tuned(*, mixed: bool) -> Iterator[None]:
    """On a GPU, kernels chosen by trial, as shapes are fixed, and in mixed precision also short products of full
    numbers; the caller's settings come back after it. A run is then not repeated to the last bit."""
    before = torch.backends.cudnn.benchmark, torch.get_float32_matmul_precision()
    torch.backends.cudnn.benchmark = True
    if mixed:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before[0]
        torch.set_float32_matmul_precision(before[1])


def unstacked(state: State, n: int) -> list[State]:
    """Stacked tensors as those of every model; without any, as many empty states.

    >>> unstacked({"w": torch.tensor([1.0, 2.0])}, 2)
    [{'w': tensor(1.)}, {'w': tensor(2.)}]
    """
    parts = {name: value.unbind(0) for name, value in state.items()}
    return [{name: values[k] for name, values in parts.items()} for k in range(n)]


def side_by_side(one: Callable[..., Any], inputs: Sequence[tuple[Any, ...]], device: torch.device) -> list[Any]:
    """What ``one`` gives for all inputs; on a GPU on a stream for each, so that small kernels of several run at once.

    >>> side_by_side(lambda a, b: a + b, [(1, 2), (3, 4)], torch.device("cpu"))
    [3, 7]
    """
    if device.type != "cuda" or len(inputs) == 1:
        return [one(*values) for values in inputs]
    here, streams, results = torch.cuda.current_stream(), [torch.cuda.Stream() for _ in inputs], []
    for stream, values in zip(streams, inputs, strict=True):
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            results.append(one(*values))
    for stream in streams:
        here.wait_stream(stream)
    return results
