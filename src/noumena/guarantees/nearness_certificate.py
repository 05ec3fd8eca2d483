"""A certificate of nearness: Theorems 1 to 3 of Nelson et al. (2026) on one subject, and how near it comes.

It identifies no latent exactly. Beside what every certificate says, it knows the error that Theorem 1 is proportional
to, its bound where the user gives the constant, what whitening makes of it, and the errors measured between runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any

from noumena.guarantees import lipschitz
from noumena.guarantees.agreement import Agreement
from noumena.guarantees.certificate import Certificate
from noumena.guarantees.components import Components
from noumena.guarantees.lipschitz import BiLipschitz, proportional_term
from noumena.guarantees.unmixing import SINGULAR, whitening_factor


@dataclass(frozen=True)
class Bound:
    """A guaranteed error, beside the one that some rigid map has whatever the hypotheses (in root mean square)."""

    value: float
    trivial: float

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing."""
        return self.value >= self.trivial

    def __str__(self) -> str:
        if self.vacuous:
            return f"{self.value:.3g}, which is vacuous: not below the trivial bound {self.trivial:.3g}"
        return f"{self.value:.3g} (the trivial bound is {self.trivial:.3g})"


@dataclass(frozen=True)
class Nearness(Certificate):
    """Theorems 1 to 3 read on one subject, with the numbers behind them."""

    measured: str
    """``statistical`` (consistency across runs) or ``structural`` (against the true latents)."""
    diameter: float
    lipschitz: BiLipschitz | None
    components: tuple[Components | None, ...]
    agreements: tuple[Agreement, ...]
    constant: float | None

    def block_of(self, t: int) -> frozenset[int]:
        """All latents: near is not apart."""
        return frozenset(range(len(self.latents)))

    @property
    def why_open(self) -> str:
        """Why no latent is identified."""
        if self.strongest is None:
            return super().why_open
        return f"{self.strongest.name} pins it down within an error, not exactly"

    @property
    def term(self) -> float | None:
        """``√((1+L)² − 1)·Δ`` in the latents' own scale."""
        return None if self.lipschitz is None else proportional_term(self.lipschitz.largest, self.diameter)

    @property
    def term_at_best_scale(self) -> float | None:
        """The same for latents rescaled to the smallest ``L``, in the original unit: never larger."""
        return None if self.lipschitz is None else proportional_term(self.lipschitz.at_best_scale, self.diameter)

    @property
    def _rigid(self) -> bool:
        """Whether Theorem 1 concludes."""
        return not self.theorems[0].broken and not self.missing(self.theorems[0])

    def _bound(self, term: float | None) -> Bound | None:
        if term is None or self.constant is None or not self._rigid:
            return None
        return Bound(self.constant * term, self.diameter)

    @property
    def epsilon(self) -> Bound | None:
        """Theorem 1's bound in the latents' own scale; only with a ``constant``, and where the theorem concludes."""
        return self._bound(self.term)

    @property
    def epsilon_at_best_scale(self) -> Bound | None:
        """Theorem 1's bound for decoders that stretch within the same range as this one: never larger."""
        return self._bound(self.term_at_best_scale)

    @property
    def whitening(self) -> float | None:
        """``λ^{-1/2} + M²·λ^{-3/2}`` (Lemma A.5) of the first run; ``None`` without full rank or with few rows."""
        first = self.components[0]
        if first is None or first.smallest_correlation <= SINGULAR:
            return None
        return whitening_factor(float(first.eigenvalues[-1]), first.radius)

    @property
    def epsilon_whitened(self) -> Bound | None:
        """What is left of the bound after whitening, beside the trivial ``Δ·λ^{-1/2}``."""
        bound, first = self.epsilon_at_best_scale, self.components[0]
        if bound is None or self.whitening is None or first is None:
            return None
        return Bound(self.whitening * bound.value, self.diameter / sqrt(first.eigenvalues[-1]))

    @property
    def headline(self) -> str:
        """The conclusion, how near, and which of the two kinds of nearness it is about."""
        structural = "structural nearness, on the true latents; consistency across runs"
        statistical = "statistical nearness, consistency across runs; consistency"
        which = structural if self.measured == "structural" else statistical
        dropped = "" if self.lipschitz is None else "".join(f" {d}." for d in lipschitz.dropped(self.lipschitz))
        return f"{super().headline}{dropped} {self._how_near} Measured: {which} is not correctness."

    @property
    def _how_near(self) -> str:
        if self.lipschitz is None:
            return "No ε can be bounded: no decoder was seen."
        if self.epsilon is not None:
            scaled = f"at the best scale of the latents {self.epsilon_at_best_scale}"
            white = "" if self.epsilon_whitened is None else f"; after whitening {self.epsilon_whitened}"
            return f"Near means within ε = {self.epsilon}; {scaled}{white}."
        known = "the constants c known to be valid grow exponentially with the number of latents"
        return (
            f"The error is proportional to {self.term:.3g} ({self.term_at_best_scale:.3g} at the best scale of the "
            f"latents) where Δ = {self.diameter:.3g}; no bound is given, as "
            f"{known if self._rigid else self._why_not}."
        )

    @property
    def _why_not(self) -> str:
        return "the theorem does not apply" if self.theorems[0].broken else "the theorem is open"

    def __str__(self) -> str:
        lines = [super().__str__(), "", "Numbers", f"  Δ = {self.diameter:.4g}, the largest distance of two rows"]
        lines += [] if self.lipschitz is None else [f"  {self.lipschitz}"]
        if self.whitening is not None:
            lines += [f"  whitening enlarges distances at most {self.whitening:.4g} times"]
        if self.agreements:
            lines += ["", "Held-out errors over Δ", *(f"  {agreement}" for agreement in self.agreements)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists, numbers and strings, ready for JSON; what is not finite is ``None``."""
        numbers = {"diameter": self.diameter, "term": self.term, "term at best scale": self.term_at_best_scale}
        if self.lipschitz is not None:
            numbers |= {"L": self.lipschitz.largest, "L at best scale": self.lipschitz.at_best_scale}
        bounds = {"epsilon": self.epsilon, "epsilon at best scale": self.epsilon_at_best_scale}
        bounds["epsilon whitened"] = self.epsilon_whitened
        return {
            **super().to_dict(),
            "measured": self.measured,
            **_plain(numbers),
            **{k: b and {**_plain({"value": b.value}), "vacuous": b.vacuous} for k, b in bounds.items()},
            "agreements": [
                _plain({"runs": list(a.runs), **a.errors, "efficiency": a.efficiency}) for a in self.agreements
            ],
        }


def _plain(numbers: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in numbers.items()}
