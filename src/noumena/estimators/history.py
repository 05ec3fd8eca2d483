"""Training curves of many models."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd


@dataclass
class History:
    """Training curves: at each look, every term for every model."""

    steps: list[int] = field(default_factory=list)
    values: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def add(self, step: int, terms: dict[str, np.ndarray]) -> None:
        """Append one look."""
        self.steps.append(step)
        for name, value in terms.items():
            self.values.setdefault(name, []).append(value)

    def frame(self) -> pd.DataFrame:
        """A tidy table: step, model, term, value."""
        pieces = [
            pd.DataFrame({"step": step, "model": np.arange(len(row)), "term": name, "value": row})
            for name, rows in self.values.items()
            for step, row in zip(self.steps, rows, strict=True)
        ]
        return (
            pd.concat(pieces, ignore_index=True)
            if pieces
            else pd.DataFrame({"step": [], "model": [], "term": [], "value": []})
        )
