"""Record: what was discovered in a table, in words, numbers and a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from noumena.discovery.choice import Choice
from noumena.discovery.trust import SHOWN_COLUMNS, LatentTrust
from noumena.estimators.across_columns import ColumnPrediction

if TYPE_CHECKING:
    from noumena.estimators import VAE
    from noumena.guarantees import Certificate

NO_DENSER = "given that the world is no denser than this model"


@dataclass(frozen=True, eq=False)
class Discovery:
    """What was found in a table.

    Parameters
    ----------
    columns : tuple of str
        Names of the columns.
    rows : int
        Number of rows, those put aside included.
    choice : Choice, optional
        How many latents there are, and what was tried; ``None`` where columns share nothing.
    prediction : ColumnPrediction, optional
        How well columns of rows that no fit saw are predicted from the others.
    model : VAE, optional
        The fit of all other rows.
    certificate : Certificate, optional
        What is proved of it.
    latents : tuple of LatentTrust
        What is known of every latent in use, from the largest share on.
    """

    columns: tuple[str, ...]
    rows: int
    choice: Choice | None
    prediction: ColumnPrediction | None
    model: VAE | None
    certificate: Certificate | None
    latents: tuple[LatentTrust, ...]

    @property
    def dropped(self) -> int:
        """Latents of the fit that nothing depends on."""
        return 0 if self.choice is None else self.choice.latents - len(self.latents)

    @property
    def headline(self) -> str:
        """One sentence."""
        if self.model is None:
            return "The columns share nothing that could be told from noise: no latents are claimed."
        again = sum(one.is_found_again for one in self.latents)
        pinned = [one.name for one in self.latents if one.is_pinned_down]
        idle = f" ({self.dropped} more are idle and dropped)" if self.dropped else ""
        said = f"pinned down {', '.join(pinned)}, {NO_DENSER}" if pinned else "none is pinned down"
        return f"{len(self.latents)} latents in use{idle}, {again} of them found again on other rows; {said}."

    @property
    def what_next(self) -> tuple[str, ...]:
        """What would settle the rest."""
        if self.model is None:
            return ("Measure columns that depend on the same causes; here each tells of nothing but itself.",)
        assert self.certificate is not None
        lost = [one.name for one in self.latents if not one.is_found_again]
        more = (f"More rows: {', '.join(lost)} differ between halves of these {self.rows}.",) if lost else ()
        short = self.prediction is not None and self.prediction.explained is False
        wider = ("More latents, or a longer fit: what the columns share is not all explained.",) if short else ()
        all_pinned = all(one.is_pinned_down for one in self.latents)
        return (*more, *wider, *(() if all_pinned else self.certificate.what_next))

    def frame(self) -> pd.DataFrame:
        """One row per latent."""
        return pd.DataFrame(
            {
                "share": [one.share for one in self.latents],
                "found again": [one.found_again for one in self.latents],
                "chance": [one.chance for one in self.latents],
                "is found again": [one.is_found_again for one in self.latents],
                "answer": [one.answer for one in self.latents],
                "refits that agree": [f"{one.agreeing} of {one.refits}" for one in self.latents],
                "is pinned down": [one.is_pinned_down for one in self.latents],
                "columns": [", ".join(map(str, one.columns[:SHOWN_COLUMNS])) for one in self.latents],
            },
            index=pd.Index([one.name for one in self.latents], name="latent"),
        )

    def transform(self, x: Any) -> np.ndarray:
        """The latents in use of rows, in the order of ``latents``."""
        if self.model is None:
            return np.empty((len(x), 0))
        names = list(self.model.structure_.latent)
        rows = x if hasattr(x, "columns") else pd.DataFrame(np.asarray(x), columns=pd.Index(self.columns))
        return np.asarray(self.model.transform(rows))[:, [names.index(one.name) for one in self.latents]]

    def __str__(self) -> str:
        lines = [self.headline]
        if self.choice is not None:
            lines.append(self.choice.sentence)
        found = self.prediction
        if found is not None and self.model is not None:
            lines.append(
                f"Columns of rows that no fit saw are predicted from the others with R² {found.score:.2f}, by ridge "
                f"regression and boosting with {np.mean(found.peer):.2f} (shortfall {found.shortfall:.3f} ± "
                f"{found.standard_error:.3f})."
            )
        if self.latents:
            lines += ["", f"{'latent':<8}{'in use':>7}  {'found again':<22}{'pinned down':<26}moves"]
        for one in self.latents:
            again = "no halves" if one.found_again is None else f"{_mark(one.is_found_again)} {one.found_again:.2f}"
            again += "" if one.chance is None else f" (chance {one.chance:.2f})"
            pinned = f"{_mark(one.is_pinned_down)} {one.answer}, {one.agreeing} of {one.refits}"
            moves = ", ".join(map(str, one.columns[:SHOWN_COLUMNS]))
            more = len(one.columns) - SHOWN_COLUMNS
            tail = f" and {more} more" if more > 0 else ""
            lines.append(f"{one.name:<8}{one.share:>7.0%}  {again:<22}{pinned:<26}{moves}{tail}")
        doubtful = [one for one in self.latents if one.answer != "identified"]
        reasons: dict[str, list[str]] = {}
        for one in doubtful:
            reasons.setdefault(one.reason, []).append(one.name)
        lines += ["", *(f"{', '.join(names)}: {reason}." for reason, names in reasons.items())] if doubtful else []
        if self.what_next:
            lines += ["", "What next:", *(f"  {sentence}" for sentence in self.what_next)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "headline": self.headline,
            "columns": list(self.columns),
            "rows": self.rows,
            "choice": None if self.choice is None else self.choice.to_dict(),
            "prediction": None if self.prediction is None else self.prediction.to_dict(),
            "dropped": self.dropped,
            "latents": [one.to_dict() for one in self.latents],
            "what_next": list(self.what_next),
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
        }


def _mark(holds: bool) -> str:
    return "yes" if holds else "no "
