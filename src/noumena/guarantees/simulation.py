"""A subject whose truth is known: what a certificate asks of a simulated world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from noumena.structure import Structure


@runtime_checkable
class LawOfLatents(Protocol):
    """A distribution of latents, as far as theorems ask."""

    @property
    def name(self) -> str:
        """Such as ``gaussian`` or ``uniform``."""
        ...

    @property
    def independent(self) -> bool:
        """Whether the latents are independent."""
        ...


@runtime_checkable
class Simulation(Protocol):
    """``x = decoder(z) + noise`` with a known structure and law, such as ``noumena.worlds.World``."""

    @property
    def structure(self) -> Structure:
        """Which observation depends on which latent."""
        ...

    @property
    def law(self) -> LawOfLatents:
        """The law of the latents."""
        ...

    @property
    def decoder(self) -> Callable[[Tensor], Tensor]:
        """Observations of latents, without noise."""
        ...

    @property
    def noise(self) -> float:
        """The standard deviation of the noise."""
        ...

    @property
    def facts(self) -> Mapping[str, float]:
        """What was verified when it was built, by name, with the measured margin."""
        ...

    @property
    def n_latents(self) -> int:
        """Number of latents."""
        ...

    @property
    def n_observed(self) -> int:
        """Number of observations."""
        ...

    def latents(self, n: int, *, random_state: Any = 0) -> Tensor:
        """Draw ``n`` latent points; the same seed draws the same."""
        ...

    def jacobian(self, z: Any) -> Any:
        """The Jacobian at each point, (batch, observed, latent)."""
        ...
