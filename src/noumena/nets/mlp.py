"""Multi-layer perceptrons with leaky-ReLU activations."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from noumena import checks

NARROWEST, NARROW = 64, 80
"""The least default width, and the columns up to which a table is narrow."""


@dataclass(frozen=True)
class MLP:
    """Builder of a multi-layer perceptron: ``MLP(hidden=(64, 64))(inputs, outputs)``.

    Parameters
    ----------
    hidden : tuple of int, optional
        Hidden widths; by default two of twice the wider end, between 64 and 160, and less again (``narrowing``) where
        that end has more than 80.
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
        for following in _widths(max(inputs, outputs)) if self.hidden is None else self.hidden:
            layers += [nn.Linear(width, following), nn.LeakyReLU(self.slope)]
            width = following
        return nn.Sequential(*layers, nn.Linear(width, outputs))


def _widths(wider: int) -> tuple[int, int]:
    """The default hidden widths of a network by its wider end.

    >>> _widths(20), _widths(50), _widths(80), _widths(200), _widths(20_000)
    ((64, 64), (100, 100), (160, 160), (101, 101), (64, 64))
    """
    width = max(NARROWEST, min(2 * wider, round(2 * NARROW * narrowing(wider))))
    return width, width


def narrowing(columns: int) -> float:
    """What is left of width, rate and steps for a table of so many columns, of those for a narrow one.

    >>> narrowing(80), narrowing(320)
    (1.0, 0.5)
    """
    return min(1.0, (NARROW / columns) ** 0.5)
