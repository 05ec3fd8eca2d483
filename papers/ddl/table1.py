"""Table 1: FactorVAE, EncDiff and DisCo on images, alone, with latent sparsity and with dependency sparsity.

The published data sets are not here; each of ours is named as what it is (see ``images``).
"""

from __future__ import annotations

from typing import Any

from ddl import images
from ddl.images import BASELINES, DATA, METHODS
from noumena.checks import InputError
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row

BIASES = ("none", "latent", "dependency")
SCORES = ("FactorVAE score", "DCI")
BUDGET = 25.0
"""CPU-minutes to score all cells from kept codes, estimated from those that have run; training them wants a GPU."""
TOLERANCE = 0.03
"""The median of the deviations between seeds that the table prints."""
PUBLISHED_RUNS = 3
STANDS_FOR = {"Shapes3D": "rooms", "Cars3D": "dSprites", "MPI3D": "Sprites"}
"""Our data set in the place of a published one; only rooms have the factors of the one they stand for."""
Figures = tuple[tuple[float, float], tuple[float, float]]
PUBLISHED: dict[str, dict[tuple[str, str], Figures]] = {
    "Shapes3D": {
        ("FactorVAE", "none"): ((0.833, 0.025), (0.484, 0.120)),
        ("FactorVAE", "latent"): ((0.837, 0.069), (0.477, 0.152)),
        ("FactorVAE", "dependency"): ((0.871, 0.053), (0.575, 0.032)),
        ("EncDiff", "none"): ((0.9999, 0.0001), (0.901, 0.050)),
        ("EncDiff", "latent"): ((0.967, 0.042), (0.891, 0.057)),
        ("EncDiff", "dependency"): ((1.0, 0.0), (0.947, 0.005)),
        ("DisCo", "none"): ((0.852, 0.037), (0.710, 0.020)),
        ("DisCo", "latent"): ((0.864, 0.007), (0.707, 0.024)),
        ("DisCo", "dependency"): ((0.868, 0.017), (0.712, 0.018)),
    },
    "Cars3D": {
        ("FactorVAE", "none"): ((0.708, 0.026), (0.135, 0.030)),
        ("FactorVAE", "latent"): ((0.501, 0.434), (0.113, 0.069)),
        ("FactorVAE", "dependency"): ((0.752, 0.040), (0.144, 0.053)),
        ("EncDiff", "none"): ((0.779, 0.060), (0.250, 0.020)),
        ("EncDiff", "latent"): ((0.729, 0.003), (0.241, 0.016)),
        ("EncDiff", "dependency"): ((0.756, 0.041), (0.256, 0.011)),
        ("DisCo", "none"): ((0.727, 0.106), (0.319, 0.031)),
        ("DisCo", "latent"): ((0.761, 0.148), (0.294, 0.023)),
        ("DisCo", "dependency"): ((0.789, 0.029), (0.320, 0.003)),
    },
    "MPI3D": {
        ("FactorVAE", "none"): ((0.599, 0.064), (0.345, 0.047)),
        ("FactorVAE", "latent"): ((0.440, 0.065), (0.325, 0.028)),
        ("FactorVAE", "dependency"): ((0.639, 0.084), (0.384, 0.031)),
        ("EncDiff", "none"): ((0.868, 0.033), (0.676, 0.018)),
        ("EncDiff", "latent"): ((0.879, 0.015), (0.684, 0.020)),
        ("EncDiff", "dependency"): ((0.881, 0.024), (0.667, 0.047)),
        ("DisCo", "none"): ((0.396, 0.023), (0.306, 0.079)),
        ("DisCo", "latent"): ((0.308, 0.031), (0.314, 0.050)),
        ("DisCo", "dependency"): ((0.410, 0.122), (0.324, 0.059)),
    },
}
"""FactorVAE score and DCI, mean and deviation each, by data set, method and bias: the printed table."""


def cells(share: float = 1.0) -> list[Row]:
    """Every method with every bias on every data set, then the baselines."""
    own = [
        {"data": data, "method": method, "bias": bias, "size": 64, "share": share}
        for method in METHODS
        for data in DATA
        for bias in BIASES
    ]
    return own + [
        {"data": data, "method": method, "bias": "none", "size": 64, "share": share}
        for data in DATA
        for method in BASELINES
    ]


cell = images.cell


def tiny() -> list[Row]:
    """None: ten thousand images are scored whatever the share of training, which takes more than a few seconds."""
    return []


def missing(data: str, **_: Any) -> str | None:
    """What a cell lacks: the sentence that names its file, or nothing."""
    try:
        if data in images.FILES:
            images.named(data)
    except InputError as error:
        return str(error)
    return None


def compare(rows: list[Row]) -> str:
    """Ours, data set by data set, and the published table."""
    header = (
        "method",
        "bias",
        *(f"{data}: {score}" for data in DATA for score in SCORES),
        "unexplained, each",
        "weight, each",
    )
    lines = [
        [method, bias, *_figures(rows, method, bias), *_facts(rows, method, bias)]
        for method, bias in [*((m, b) for m in METHODS for b in BIASES), *((m, "none") for m in BASELINES)]
    ]
    beside = [
        [method, bias, *(tables.published(f) for data in PUBLISHED for f in PUBLISHED[data][method, bias])]
        for method in METHODS
        for bias in BIASES
    ]
    published = tables.text_table(("published", "bias", *(f"{d}: {s}" for d in PUBLISHED for s in SCORES)), beside)
    hours = sum(r.get("training seconds") or 0 for r in rows if r["method"] in METHODS) / 3600
    return "\n\n".join([tables.text_table(header, lines), published, f"{hours:.2f} hours of training in all"])


def _figures(rows: list[Row], method: str, bias: str) -> list[str]:
    return [
        tables.spread(tables.matching(rows, data=data, method=method, bias=bias), score)
        for data in DATA
        for score in SCORES
    ]


def _facts(rows: list[Row], method: str, bias: str) -> list[str]:
    """The variance that is not rebuilt and the weight of the bias, data set by data set."""
    each = [tables.matching(rows, data=data, method=method, bias=bias) for data in DATA]
    lost, weight = ([tables.values(group, name) for group in each] for name in ("unexplained", "weight"))
    return [
        ", ".join(f"{sum(some) / len(some):.3f}" if some else "–" for some in lost),
        ", ".join(f"{some[0]:g}" if some and some[0] else "–" for some in weight),
    ]


# ---- beside the paper --------------------------------------------------------------------------------------------


def claims(rows: list[Row]) -> list[StudyClaim]:
    """The 54 printed figures, each beside the same method and bias on other data."""
    return [
        claim(f"Table 1: {method}, {bias}, {theirs}", score, figure,
              tables.matching(rows, data=data, method=method, bias=bias), rows, instead=(data, theirs))
        for method in METHODS
        for bias in BIASES
        for theirs, data in STANDS_FOR.items()
        for score, figure in zip(SCORES, PUBLISHED[theirs][method, bias], strict=True)
    ]  # fmt: skip


def claim(
    where: str, score: str, figure: tuple[float, float], ours: list[Row], rows: list[Row], *, instead: tuple[str, str]
) -> StudyClaim:
    """A published figure beside rows on our data set ``instead`` of theirs, with the best baseline on ours."""
    data, theirs = instead
    return StudyClaim(
        where,
        score,
        figure[0],
        tables.values(ours, score),
        TOLERANCE,
        spread=figure[1],
        runs=PUBLISHED_RUNS,
        baseline=trivial(rows, data, score),
        not_comparable=f"other data, {data} in place of {theirs}",
    )


def trivial(rows: list[Row], data: str, score: str) -> tuple[str, float] | None:
    """The best score on a data set of a readout that learns nothing, and its name.

    >>> trivial([{"data": "rooms", "method": "PCA", "DCI": 0.5}], "rooms", "DCI")
    ('PCA', 0.5)
    """
    found = {m: tables.values(tables.matching(rows, data=data, method=m), score) for m in BASELINES}
    means = [(method, sum(some) / len(some)) for method, some in found.items() if some]
    return max(means, key=lambda one: one[1], default=None)
