"""Seen: a competitor as points, two latents of either model and the data that both observe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from noumena.guarantees.structure_certificate import StructureCertificate

MOST_SEEN = 2**15
"""Entries, observed × latents, of a decoder whose competitor is built to be seen."""
SEEN = 400
"""Points of a competitor."""


@dataclass(frozen=True, eq=False)
class SeenCompetitor:
    """Latents of two models with the same data: the one in question and the one that it may carry."""

    kind: str
    sentence: str
    check: str
    """What ``Witness.verify`` says of the data."""
    names: tuple[str, str]
    x_names: tuple[str, str]
    z: Float[np.ndarray, "point 2"]
    z_hat: Float[np.ndarray, "point 2"]
    x: Float[np.ndarray, "point 2"]


def seen(certificate: StructureCertificate, latents: Iterable[int] | None = None) -> SeenCompetitor | None:
    """The first competitor, among those for some latents or all, whose data are verified to be the same; none of a bare
    structure, which has no decoder."""
    S, model = certificate.structure, certificate.model
    if model is None or S.n_observed * S.n_latents > MOST_SEEN:
        return None
    for t in range(S.n_latents) if latents is None else latents:
        rival = certificate.verdict(t).competitor
        if rival is None or (rival.kind == "observations" and len(S) == S.n_observed):
            continue
        r = rival.carries[0]
        witness = certificate.witness(t, r)
        checked = witness.verify()
        if not checked.holds:
            continue
        z = model.fresh[:SEEN]
        z_hat, x = witness.latents(z), witness.model.decoder(z)
        both = sorted(S.observations_of(t) | S.observations_of(r))
        i, j = both[0], both[min(1, len(both) - 1)]
        return SeenCompetitor(
            kind=rival.kind,
            sentence=rival.sentence,
            check=str(checked),
            names=(S.latent[t], S.latent[r]),
            x_names=(S.observed[i], S.observed[j]),
            z=z[:, [t, r]].detach().numpy(),
            z_hat=z_hat[:, [t, r]].detach().numpy(),
            x=x[:, [i, j]].detach().numpy(),
        )
    return None
