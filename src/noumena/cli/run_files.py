"""Files of a run beside its model: facts on its data, latents of every row, certificate, images, page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noumena.estimators import Estimator

FACTS = "data.json"
"""Facts on the data of a run: the file's name, its size, names of columns, and what was done to them."""
LATENTS = "latents.csv"
"""The latents of every row, in the order of the rows that were learned from."""
BESIDE = (FACTS, LATENTS, "certificate.json", "discovery.json", "traversals.png", "swaps.png", "report.html")
"""Files of a run that a model is not loaded from; which of them there are depends on the data."""
MOST = 1_000_000
"""Rows beyond which latents are not written."""
CHUNK = 4096
"""Rows that are transformed together."""


def remove_run_files(out: Path) -> None:
    """Remove what an earlier run wrote beside its model."""
    for name in BESIDE:
        (out / name).unlink(missing_ok=True)


def write_latents(model: Estimator, rows: Any, out: Path) -> None:
    """A line of latents for every row, under a temporary name that is changed when all are there."""
    import numpy as np

    if len(rows) > MOST:
        return
    part = out / f"{LATENTS}.part"
    with part.open("w") as file:
        file.write(",".join(map(str, model.get_feature_names_out())) + "\n")
        for start in range(0, len(rows), CHUNK):
            batch = _batch(rows, start, min(start + CHUNK, len(rows)))
            np.savetxt(file, np.asarray(model.transform(batch)), fmt="%.9g", delimiter=",")
    part.replace(out / LATENTS)


def _batch(rows: Any, start: int, stop: int) -> Any:
    """Rows of a frame, an array or a folder's images."""
    if hasattr(rows, "iloc"):
        return rows.iloc[start:stop]
    return rows.pictures(range(start, stop)) if hasattr(rows, "pictures") else rows[start:stop]
