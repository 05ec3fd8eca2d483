"""Integrations: the penalties inside training loops that belong to others; no framework is imported until asked for."""

from noumena.integrations.lightning import PenaltyCallback

__all__ = ["PenaltyCallback"]
