"""Example: a world made with the structure of a certificate, for its competitor to be seen on."""

from __future__ import annotations

from noumena.checks import InputError
from noumena.guarantees import StructureCertificate, certify
from noumena.worlds.structured import structured

MOST_EXAMPLE = 30
"""A bare structure up to this size gets a world."""


def example(certificate: StructureCertificate) -> StructureCertificate:
    """The certificate of a world made with the same structure, where a competitor is known and the world can be made;
    else the one that was given.

    >>> from noumena.structure import Structure
    >>> bare = certify(Structure([[1, 1], [0, 1], [1, 1]]))
    >>> bare.model is None, example(bare).model is None, example(bare).answer
    (True, False, 'not identified')
    """
    S = certificate.structure
    if certificate.answer != "not identified" or max(S.n_observed, S.n_latents) > MOST_EXAMPLE:
        return certificate
    try:
        return certify(structured(S), independent=certificate.rivals.independent)
    except InputError:
        return certificate
