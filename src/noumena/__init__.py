"""noumena: learn the hidden variables behind data, and know what about them can be trusted.

Names are imported when first used, so that ``import noumena`` and the command's ``--help`` stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from noumena.deprecated import moved

if TYPE_CHECKING:
    from noumena import data, guarantees, integrations, metrics, nets, penalties, studies, worlds
    from noumena.ambiguity import Alignment, Ambiguity, align
    from noumena.audits import Audit, audit
    from noumena.checks import DivergenceError, InputError
    from noumena.deconfounding import Deconfounding, deconfound
    from noumena.derivatives import differentiate, jacobian
    from noumena.discovery import Discovery, discover
    from noumena.estimators import (
        ICA,
        MFCVAE,
        QLAE,
        VAE,
        Autoencoder,
        BetaTCVAE,
        BetaVAE,
        BioAE,
        DegenerateGaussians,
        DegenerateMixture,
        DisCo,
        EncDiff,
        FactorVAE,
        Flow,
        SlotAutoencoder,
        SparseComponents,
        SparseFlow,
        Training,
        VaDE,
        fit_penalised,
        iVAE,
        load,
        save,
    )
    from noumena.extraction import representations
    from noumena.guarantees import Certificate, Witness, certify
    from noumena.metrics import Scorecard, score
    from noumena.nets import MLP
    from noumena.penalties import (
        CompositionalContrast,
        DependencySparsity,
        GroupSparsity,
        HessianPenalty,
        IMAContrast,
        Interaction,
        LatentSparsity,
        OroJaR,
        Penalty,
    )
    from noumena.structure import LatentSet, Structure

__version__ = "0.1.0"

_HOMES = {
    "ambiguity": "Alignment Ambiguity align",
    "checks": "DivergenceError InputError",
    "audits": "Audit audit",
    "deconfounding": "Deconfounding deconfound",
    "discovery": "Discovery discover",
    "extraction": "representations",
    "derivatives": "differentiate jacobian",
    "estimators": "Autoencoder BetaVAE BioAE ICA BetaTCVAE DisCo EncDiff FactorVAE Flow MFCVAE QLAE "
    "SlotAutoencoder Training SparseComponents DegenerateMixture DegenerateGaussians SparseFlow VAE "
    "VaDE fit_penalised iVAE load save",
    "guarantees": "Certificate Witness certify",
    "metrics": "Scorecard score",
    "nets": "MLP",
    "penalties": "CompositionalContrast DependencySparsity GroupSparsity HessianPenalty IMAContrast Interaction "
    "LatentSparsity OroJaR Penalty",
    "structure": "LatentSet Structure",
}
_ROOM_OF = {name: room for room, names in _HOMES.items() for name in names.split()}
_ROOMS = ("data", "guarantees", "integrations", "metrics", "nets", "penalties", "studies", "worlds")

__all__ = [
    "ICA",
    "MFCVAE",
    "MLP",
    "QLAE",
    "VAE",
    "Alignment",
    "Ambiguity",
    "Audit",
    "Autoencoder",
    "BetaTCVAE",
    "BetaVAE",
    "BioAE",
    "Certificate",
    "CompositionalContrast",
    "Deconfounding",
    "DegenerateGaussians",
    "DegenerateMixture",
    "DependencySparsity",
    "DisCo",
    "Discovery",
    "DivergenceError",
    "EncDiff",
    "FactorVAE",
    "Flow",
    "GroupSparsity",
    "HessianPenalty",
    "IMAContrast",
    "InputError",
    "Interaction",
    "LatentSet",
    "LatentSparsity",
    "OroJaR",
    "Penalty",
    "Scorecard",
    "SlotAutoencoder",
    "SparseComponents",
    "SparseFlow",
    "Structure",
    "Training",
    "VaDE",
    "Witness",
    "align",
    "audit",
    "certify",
    "data",
    "deconfound",
    "differentiate",
    "discover",
    "fit_penalised",
    "guarantees",
    "iVAE",
    "integrations",
    "jacobian",
    "load",
    "metrics",
    "nets",
    "penalties",
    "representations",
    "save",
    "score",
    "studies",
    "worlds",
]


_old = moved(
    "noumena",
    {
        "Reading": "noumena.guarantees.Certificate",
        "degenerate_ladder": "noumena.guarantees.degenerate.degenerate_ladder",
        "mechanisms": "noumena.guarantees.mechanisms.mechanisms",
        "mixture_ladder": "noumena.guarantees.mixtures.mixture_ladder",
        "nearness": "noumena.guarantees.nearness.nearness",
    },
    {
        "degenerate_ladder": "noumena.certify(mixture, by='degenerate')",
        "mechanisms": "noumena.certify(subject, by='mechanisms')",
        "mixture_ladder": "noumena.certify(mixture, by='mixtures')",
        "nearness": "noumena.certify(subject, by='nearness')",
    },
)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"noumena.{name}")
    if name in _ROOM_OF:
        return getattr(import_module(f"noumena.{_ROOM_OF[name]}"), name)
    return _old(name)


def __dir__() -> list[str]:
    return sorted(__all__)
