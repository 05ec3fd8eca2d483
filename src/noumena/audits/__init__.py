"""Audits: take any representations of the same rows and learn whether they are stable, and up to what."""

from noumena.audits.audit import audit
from noumena.audits.axes import Axes
from noumena.audits.pairs import PairComparison, alignment_errors
from noumena.audits.record import Audit, Overlay
from noumena.audits.trivial import Trivial
from noumena.deprecated import moved

__all__ = ["Audit", "Axes", "Overlay", "PairComparison", "Trivial", "alignment_errors", "audit"]

__getattr__ = moved("noumena.audits", {"Pair": "noumena.audits.PairComparison"})
