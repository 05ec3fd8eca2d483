"""Metrics: what is left between learned and true latents once an ambiguity is forgiven.

Each returns a frozen record: the score, or several by name, its parts, the matching, the ambiguity it forgives, its
range, its level of chance, its ceiling, its uncertainty on request, and the sentence it supports. ``score`` gives all
in one table.
"""

from noumena.deprecated import moved
from noumena.metrics.blocks import BlockRegression, block_r2
from noumena.metrics.canonical import CanonicalCorrelation, weak_mcc
from noumena.metrics.causal import GraphDistance, causal_graph, cpdag, graph_distance
from noumena.metrics.correlation import Correlation, mcc
from noumena.metrics.disentanglement import DCI, dci
from noumena.metrics.explicitness import Modularity, modularity
from noumena.metrics.factor_vae_score import FactorVAEScore, factor_vae_score
from noumena.metrics.factors import FactorTable, factors_of
from noumena.metrics.fixed import FixedFactors, fixed_factors
from noumena.metrics.gaps import MutualInformationGap, SeparatedAttributePredictability, mig, sap
from noumena.metrics.graphs import StructureDistance, structure_distance
from noumena.metrics.image_sis import ImageSlotIdentifiability, image_sis
from noumena.metrics.importance import Concentration, Sparsity, concentration, hoyer
from noumena.metrics.information import InfoMEC, infomec
from noumena.metrics.mixings import AmariDistance, amari_distance
from noumena.metrics.mixtures import AffineDistance, affine_distance
from noumena.metrics.neighbours import information_matrix, mutual_information
from noumena.metrics.record import Interval, MetricRecord, ScoreClaim, ScoreNumber
from noumena.metrics.regression import Regression, r2
from noumena.metrics.scorecard import Scorecard, score
from noumena.metrics.slots import SlotIdentifiability, sis
from noumena.metrics.stability import ModelAgreement, agreement

__all__ = [
    "DCI",
    "AffineDistance",
    "AmariDistance",
    "BlockRegression",
    "CanonicalCorrelation",
    "Concentration",
    "Correlation",
    "FactorTable",
    "FactorVAEScore",
    "FixedFactors",
    "GraphDistance",
    "ImageSlotIdentifiability",
    "InfoMEC",
    "Interval",
    "MetricRecord",
    "ModelAgreement",
    "Modularity",
    "MutualInformationGap",
    "Regression",
    "ScoreClaim",
    "ScoreNumber",
    "Scorecard",
    "SeparatedAttributePredictability",
    "SlotIdentifiability",
    "Sparsity",
    "StructureDistance",
    "affine_distance",
    "agreement",
    "amari_distance",
    "block_r2",
    "causal_graph",
    "concentration",
    "cpdag",
    "dci",
    "factor_vae_score",
    "factors_of",
    "fixed_factors",
    "graph_distance",
    "hoyer",
    "image_sis",
    "infomec",
    "information_matrix",
    "mcc",
    "mig",
    "modularity",
    "mutual_information",
    "r2",
    "sap",
    "score",
    "sis",
    "structure_distance",
    "weak_mcc",
]

__getattr__ = moved(
    "noumena.metrics",
    {
        "Agreement": "noumena.metrics.ModelAgreement",
        "Claim": "noumena.metrics.ScoreClaim",
        "Factors": "noumena.metrics.FactorTable",
        "Number": "noumena.metrics.ScoreNumber",
        "Record": "noumena.metrics.MetricRecord",
        "alignment_errors": "noumena.audits.alignment_errors",
        "ica_efficiency": "noumena.guarantees.agreement.efficiency",
        "bi_lipschitz": "noumena.guarantees.lipschitz.bi_lipschitz",
    },
)
