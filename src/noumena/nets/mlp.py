"""Multi-layer perceptrons with leaky-ReLU activations."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from noumena import checks


@dataclass(frozen=True)
class MLP:
    """Builder of a multi-layer perceptron: ``MLP(hidden=(64, 64))(inputs, outputs)``.

    Parameters
    ----------
    hidden : tuple of int, optional
        Hidden widths; by default two of twice the wider end, between 64 and 512.
    slope : float
        Negative slope of the leaky ReLUs.

    Examples
    --------
    >>> [tuple(p.shape) for p in MLP(hidden=(8,))(3, 2).parameters()]
    [(8, 3), (8,), (2, 8), (2,)]
    """

    hidden: tuple[int, ...] | None = None
    slope: float = 0.2

    def __post_init__(self) -> None:
        checks.number(self.slope, "slope", minimum=0)
        if self.hidden is not None:
            for width in self.hidden:
                checks.count(width, "A hidden width")
            object.__setattr__(self, "hidden", tuple(self.hidden))

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        layers: list[nn.Module] = []
        width = inputs
        for following in (min(512, max(64, 2 * max(inputs, outputs))),) * 2 if self.hidden is None else self.hidden:
            layers += [nn.Linear(width, following), nn.LeakyReLU(self.slope)]
            width = following
        return nn.Sequential(*layers, nn.Linear(width, outputs))
