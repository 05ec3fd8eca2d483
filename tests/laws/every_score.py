"""The scores of learned latents against true ones: how each is called, what it forgives, and what its record says."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from noumena import metrics as M

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(240, 3))
LEARNED = Z @ (np.eye(3) + 0.4 * RNG.normal(size=(3, 3))) + 0.5 * RNG.normal(size=Z.shape)
NOISE = RNG.normal(size=Z.shape)
for table in (Z, LEARNED, NOISE):
    table.flags.writeable = False
TURN = np.linalg.qr(RNG.normal(size=(3, 3)))[0]

MOVES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "order": lambda h: h[:, [2, 0, 1]],
    "sign": lambda h: h * [-1, 1, -1],
    "scale": lambda h: h * [9, 0.3, 2] + [1, -4, 0.5],
    "monotone": lambda h: np.exp(h * [2, 3, 1]),
    "rotation": lambda h: h @ TURN,
}
EACH = ("order", "sign", "scale")


@dataclass(frozen=True)
class Score:
    """``forgives`` moves of the learned latents that change nothing, up to ``near``; ``punishes`` those of the truth
    that cost a tenth or more. ``says`` title, range, ambiguity and a word of the sentence of every number. ``least``
    rows; ``judged`` the number that chance leaves low; ``dead`` whether constant learned latents change nothing;
    ``still`` what becomes of a constant true one; ``cap`` bounds the rows looked at; ``spares`` whether
    large tables take fewer shuffles."""

    call: Callable[..., Any]
    says: tuple[tuple[str, tuple[float, float], str, str], ...]
    forgives: tuple[str, ...] = EACH
    punishes: tuple[str, ...] = ("rotation",)
    near: float = 1e-6
    least: int = 10
    dead: bool = True
    still: str = "left out"
    seeded: bool = True
    judged: int = 0
    cap: str = ""
    spares: bool = False
    discrete: bool = False


UNIT = (0.0, 1.0)
BELOW = (-np.inf, 1.0)
BY_ORDER, BY_AXIS = "permutation+scaling", "element-wise"


def votes(z: Any, h: Any, **how: Any) -> Any:
    return M.factor_vae_score(z, h, **({"prune": 0.0, "votes": (300, 200), "shuffles": 1} | how))


def in_slots(z: Any, h: Any, **how: Any) -> Any:
    return M.sis(z, h, slots=3, **how)


def of_infomec(z: Any, h: Any, **how: Any) -> Any:
    return M.infomec(z, h, prune=np.inf, **how)


def spearman(z: Any, h: Any, **how: Any) -> Any:
    return M.mcc(z, h, correlation="spearman", **how)


def held_out(z: Any, h: Any, **how: Any) -> Any:
    return M.mcc(z, h, held_out=True, **how)


def kernel(z: Any, h: Any, **how: Any) -> Any:
    return M.r2(z, h, regressor="kernel", **how)


def back(z: Any, h: Any, **how: Any) -> Any:
    return M.r2(z, h, direction="true to learned", **how)


def block(z: Any, h: Any, **how: Any) -> Any:
    return M.block_r2(z, h, (2, 1), **how)


def blocks(z: Any, h: Any, **how: Any) -> Any:
    return M.block_r2(z, h, (2, 1), learned_blocks=(2, 1), **how)


def by_bins(z: Any, h: Any, **how: Any) -> Any:
    return M.mig(z, h, estimator="bins", **how)


def modular_by_bins(z: Any, h: Any, **how: Any) -> Any:
    return M.modularity(z, h, estimator="bins", **how)


BLOCK = (("Block R²", BELOW, BY_ORDER, "block"), ("Block R², other blocks", BELOW, BY_ORDER, "block"))
SCORES: dict[str, Score] = {
    "mcc": Score(
        M.mcc, (("MCC (Pearson)", UNIT, BY_ORDER, "linear"),),
        punishes=("rotation", "monotone"), least=3, still="counts 0", seeded=False, spares=True,
    ),
    "mcc held out": Score(
        held_out, (("MCC (Pearson, held out)", (-1.0, 1.0), BY_ORDER, "linear"),),
        punishes=("rotation", "monotone"), least=6, still="counts 0", spares=True,
    ),
    "mcc by ranks": Score(
        spearman, (("MCC (Spearman)", UNIT, BY_AXIS, "rises or falls"),),
        forgives=(*EACH, "monotone"), least=3, still="counts 0", seeded=False, spares=True,
    ),
    "weak mcc": Score(
        M.weak_mcc, (("MCC (weak)", UNIT, "affine", "linear map"),),
        forgives=(*EACH, "rotation"), punishes=("monotone",), least=8, spares=True,
    ),
    "r2": Score(
        M.r2, (("R² (linear, learned to true)", BELOW, "affine", "affine"),),
        forgives=(*EACH, "rotation"), punishes=("monotone",), still="counts 0", spares=True,
    ),
    "r2 by kernels": Score(
        kernel, (("R² (kernel, learned to true)", BELOW, "any",
        "smooth"),), punishes=(), dead=False, still="counts 0", spares=True
    ),
    "r2 back": Score(
        back, (("R² (linear, true to learned)", BELOW, "affine",
        "hold"),), punishes=("monotone",), dead=False, still="", spares=True,
    ),
    "block r2": Score(block, BLOCK, dead=False, still="", spares=True),
    "block r2 of blocks": Score(blocks, BLOCK, forgives=("sign", "scale"), dead=False, still="", spares=True),
    "sis": Score(
        in_slots, (("SIS", (-1.0, 1.0), "block-wise {z1 | z2 | z3}",
        "inside a slot is not judged"),), dead=False, still="", cap="max_rows"
    ),
    "dci": Score(
        M.dci,
        (("DCI disentanglement", UNIT, BY_AXIS, "is not tested"), ("DCI completeness", UNIT, BY_AXIS, "is not tested"),
         ("DCI informativeness", UNIT, "any", "is not tested")),
        forgives=(*EACH, "monotone"), near=0.03, dead=False, discrete=True,
    ),
    "mig": Score(
        M.mig, (("MIG", UNIT, BY_AXIS, "factor"),), near=1e-8, seeded=False, discrete=True, cap="max_rows"
    ),
    "mig by bins": Score(
        by_bins, (("MIG", UNIT, BY_ORDER, "factor"),), punishes=("rotation",
        "monotone"), near=1e-8, seeded=False, discrete=True, cap="max_rows"
    ),
    "sap": Score(
        M.sap, (("SAP", UNIT, BY_ORDER, "factor"),), punishes=("rotation",
        "monotone"), near=1e-8, discrete=True, cap="max_rows"
    ),
    "modularity": Score(
        M.modularity, (("Modularity", UNIT, BY_AXIS, "factor"), ("Explicitness", UNIT, "affine", "factor")),
        near=0.01, judged=1, discrete=True, cap="max_rows",
    ),
    "modularity by bins": Score(
        modular_by_bins, (("Modularity", UNIT, BY_ORDER, "factor"), ("Explicitness", UNIT, "affine", "factor")),
        near=0.01, judged=1, discrete=True, cap="max_rows",
    ),
    "infomec": Score(
        of_infomec,
        (("InfoM", UNIT, BY_AXIS, "one source only"), ("InfoE", UNIT, "affine", "linear"), ("InfoC", UNIT, BY_AXIS,
         "source")),
        judged=1, discrete=True, cap="max_rows",
    ),
    "votes": Score(
        votes, (("FactorVAE score", UNIT, BY_ORDER, "Each factor has a latent"),), near=1e-9, discrete=True
    ),
}  # fmt: skip
