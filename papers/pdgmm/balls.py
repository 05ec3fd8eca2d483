"""Tables 13 to 16: places of balls from pictures, ball by ball, and coordinate by coordinate where these freeze alone.

Methods; none sees a place, and whatever is chosen is chosen by held-out pictures or by sparsity alone.

- ``places``, ours: an autoencoder of pictures whose code is a linear map of places of maps
  (``SpatialSoftmaxEncoder``), then ``SparseComponents``. Of several seeds the one is used that rebuilds held-out
  pictures best.
- ``features``, the published way: the convolutional autoencoder of Table 12 to 128 features; an autoencoder of the
  features to two latents a ball and ``SparseComponents`` (``DegenerateMixture``, several seeds of its first stage).
- ``pca``, ``ica``: principal components of the features, as many as latents, and their ICA.
- ``pixels``: ``SparseComponents`` of principal components of the pixels.

Scores, on pictures that no method has seen: ``ball 1``, ``ball 2``, …, each by two latents of its own
(``ball_scores``). ``r2``: the same from all latents. ``mcc``: Pearson, with every coordinate; without meaning where the
two coordinates of a ball freeze together. The published tables call their R² MCC.

Networks want a GPU, and readouts processor cores: what the former make is kept in a folder, and read by whoever comes
later.

Reference: Xu et al. (2026), D.10, D.11 and Table 2. **Deviations**: ``places`` are ours, with the bias that things are
somewhere; in ``features`` the networks have fewer steps at larger rates, pixels no sigmoid, and stage 2 is not the
published constrained problem. 20 000 pictures are rendered once, for the paper does not say how many it has; three
seeds, each a world of its own. Balls are numbered from behind.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, FastICA
from sklearn.pipeline import make_pipeline

from noumena import checks
from noumena.checks import DivergenceError, InputError
from noumena.estimators.autoencoder import Autoencoder
from noumena.estimators.loop import Training
from noumena.estimators.sparse.components import SparseComponents
from noumena.estimators.sparse.degenerate import DegenerateMixture
from noumena.nets import MLP
from noumena.nets.pooled import PooledDecoder, PooledEncoder, SpatialSoftmaxDecoder, SpatialSoftmaxEncoder
from noumena.studies import rows as tables
from noumena.studies.rows import Row
from noumena.worlds.balls import Balls
from pdgmm import ball_claims
from pdgmm.ball_scores import scores

WORLDS = ((2, "ball"), (4, "ball"), (6, "ball"), (2, "coordinate"))
SEEDS = (0, 1, 2)
ARMS = ("places", "features", "pca", "ica", "pixels")
STUDY = "pdgmm.balls"
DEAD = 0.01
"""Features that vary less than this share of the most varying one are dropped."""
PUBLISHED, TABLE16, TOLERANCE = ball_claims.PUBLISHED, ball_claims.TABLE16, ball_claims.TOLERANCE
claims, figures = ball_claims.claims, ball_claims.figures
BUDGET = 40.0
"""CPU-minutes of all cells beside a GPU, on which the networks train in seconds; six balls are a guess."""


@dataclass(frozen=True)
class Plan:
    """How large everything is: pictures, networks, training; the defaults are for a GPU."""

    size: int = 64
    images: int = 20_000
    judged: int = 5_000
    steps: int = 3_000
    place_steps: int = 1_000
    batch: int = 128
    features: int = 128
    widths: tuple[int, ...] = (32, 64, 64, 128)
    place_widths: tuple[int, ...] = (32, 32)
    maps: int = 32
    place_models: int = 3
    stage1_models: int = 6
    stage1_steps: int = 3_000
    stage1_hidden: tuple[int, ...] = (64, 64)
    restarts: int = 4
    pixel_rows: int = 4_000
    device: str = "auto"

    def training(self, **settings: Any) -> Training:
        """How networks of pictures are trained."""
        same = {"batch_size": self.batch, "clip": 10.0, "device": self.device}
        precision = "bfloat16" if self.on.startswith("cuda") else "full"
        return Training(**{**same, "steps": self.steps, "precision": precision, **settings})

    @property
    def on(self) -> str:
        """The device that is meant."""
        return str(Training(device=self.device).torch_device())


SMALL = Plan(
    size=16, images=400, judged=200, steps=6, place_steps=6, batch=16, features=24, widths=(4, 6), place_widths=(4,),
    maps=4, place_models=2, stage1_models=2, stage1_steps=20, stage1_hidden=(8,), restarts=1, pixel_rows=200,
    device="cpu",
)  # fmt: skip
"""Everything runs, nothing is learned."""


# ---- methods -------------------------------------------------------------------------------------------------------


def features_model(plan: Plan, seed: int) -> Autoencoder:
    """The convolutional autoencoder of Table 12."""
    net = {"channels": 3, "size": plan.size, "widths": plan.widths}
    return Autoencoder(
        plan.features,
        encoder=PooledEncoder(**net),
        decoder=PooledDecoder(**net),
        standardise=False,
        training=plan.training(learning_rate=2e-3),
        random_state=seed,
    )


def places_model(plan: Plan, n_latents: int, seed: int) -> Autoencoder:
    """The autoencoder of places; its code has mean 0 and variance 1."""
    net = {"channels": 3, "size": plan.size, "widths": plan.place_widths, "maps": plan.maps}
    return Autoencoder(
        n_latents,
        normalise=True,
        encoder=SpatialSoftmaxEncoder(**net),
        decoder=SpatialSoftmaxDecoder(**net),
        standardise=False,
        n_models=plan.place_models,
        training=plan.training(learning_rate=1e-2, steps=plan.place_steps, precision="full"),  # places need digits
        random_state=seed,
    )


def two_stages(plan: Plan, n_latents: int, seed: int) -> DegenerateMixture:
    """An autoencoder of features with a standardised code, and the sparse basis of the code."""
    net = MLP(hidden=plan.stage1_hidden)
    training = Training(steps=plan.stage1_steps, batch_size=256, learning_rate=3e-3, device=plan.device)
    first = Autoencoder(n_latents, normalise=True, encoder=net, decoder=net, training=training)
    solver = SparseComponents(n_latents, n_restarts=plan.restarts)
    return DegenerateMixture(n_latents, stage1=first, solver=solver, n_models=plan.stage1_models, random_state=seed)


def readouts(plan: Plan, n_latents: int, seed: int) -> dict[str, tuple[str, Any]]:
    """Every method: what it reads, and the estimator that makes the code of it."""
    sparse = partial(SparseComponents, n_latents, n_restarts=plan.restarts, random_state=seed)
    ica = FastICA(n_latents, whiten="unit-variance", random_state=seed)
    return {
        "places": ("places", sparse()),
        "features": ("features", two_stages(plan, n_latents, seed)),
        "pca": ("features", PCA(n_latents, random_state=0)),
        "ica": ("features", make_pipeline(PCA(n_latents, random_state=0), ica)),
        "pixels": ("pixels", sparse()),
    }


@dataclass(frozen=True, eq=False)
class Codes:
    """What a model makes of the pictures to learn from and of those to be judged on."""

    learn: np.ndarray
    judge: np.ndarray
    facts: Row


Read = dict[str, Codes | str]
"""Codes by what made them, or the sentence by which it was refused."""


def trained(model: Autoencoder, learn: np.ndarray, judge: np.ndarray) -> Codes:
    """An autoencoder fitted to pictures as bytes, its codes, and how much of held-out pictures it explains."""
    start = time.perf_counter()
    model.fit(learn)
    seconds = time.perf_counter() - start
    spread = float(_pixels(judge).var(axis=0).sum())
    facts = {"explained": 1 - float(model.terms_["reconstruction"][model.best_]) / spread}
    return Codes(model.transform(learn), model.transform(judge), {**facts, "training seconds": round(seconds, 1)})


def varying(codes: Codes, n_latents: int) -> Codes:
    """Features that vary by more than a hundredth of the most varying one: others are dead units."""
    spread = codes.learn.std(axis=0)
    alive = spread > DEAD * spread.max()
    enough = int(alive.sum()) >= n_latents
    checks.require(enough, f"At least {n_latents} features must vary.", int(alive.sum()))
    return Codes(codes.learn[:, alive], codes.judge[:, alive], {**codes.facts, "alive": int(alive.sum())})


def principal(plan: Plan, n_latents: int, learn: np.ndarray, judge: np.ndarray) -> Codes:
    """Principal components of pixels, found in some of the pictures."""
    fitted = PCA(n_latents, svd_solver="randomized", random_state=0).fit(_pixels(learn[: plan.pixel_rows]))
    codes = np.concatenate([fitted.transform(_pixels(part)) for part in np.array_split(learn, 10)])
    return Codes(codes, fitted.transform(_pixels(judge)), {"explained": float(fitted.explained_variance_ratio_.sum())})


def _pixels(pictures: np.ndarray) -> np.ndarray:
    return pictures.astype(np.float32) / 255


# ---- cells ---------------------------------------------------------------------------------------------------------


def cells(seeds: tuple[int, ...] = SEEDS) -> list[Row]:
    """A cell for every world and seed; the seed is that of the world and of the first model."""
    return [{"balls": n, "freeze": freeze, "seed": seed} for n, freeze in WORLDS for seed in seeds]


def tiny() -> list[Row]:
    """Two balls of either kind; everything runs, nothing is learned."""
    return [{"balls": 2, "freeze": freeze, "seed": 0, "small": True} for freeze in ("ball", "coordinate")]


def cell(
    balls: int, freeze: str, seed: int, *, small: bool = False, plan: Plan | None = None, device: str = "auto",
    folder: str | Path | None = None,
) -> list[Row]:  # fmt: skip
    """One row per method; in ``folder`` trained codes, and places and codes of judged pictures, are kept."""
    plan = plan or (SMALL if small else Plan(device=device))
    folder = None if folder is None else Path(folder)
    world, n_latents = world_of(balls, freeze, seed, plan), 2 * balls
    pictures = world.pictures(np.arange(len(world))).cpu().numpy()
    read = networks(world, plan, folder, pictures)
    read["pixels"] = _tried(lambda: principal(plan, n_latents, pictures[: plan.images], pictures[plan.images :]))
    rows: list[Row] = []
    kept: dict[str, Any] = {"z": world.z[plan.images :], "masks": world.masks[plan.images :]}
    for arm, (source, model) in readouts(plan, n_latents, seed).items():
        row, code = _read(read[source], model, kept["z"])
        rows.append({"method": arm, **row})
        kept |= {} if code is None else {arm: code}
    if folder is not None:
        np.savez_compressed(folder / f"{balls}-{freeze}-{seed}.npz", **kept)
    return rows


def world_of(balls: int, freeze: str, seed: int, plan: Plan) -> Balls:
    """The pictures of a cell, those to learn from first."""
    return Balls(balls, plan.size, plan.images + plan.judged, freeze, seed, plan.on)


def networks(world: Balls, plan: Plan, folder: Path | None, pictures: np.ndarray | None = None) -> Read:
    """What both networks make of a world's pictures; read from the folder where it is there, else left in it."""
    steps = f"{plan.place_steps}-{plan.steps}"
    name = f"networks-{world.n_balls}-{world.freeze}-{world.seed}-{plan.size}-{plan.images}-{steps}.npz"
    file = None if folder is None else folder / name
    if file is not None and file.exists():
        return _kept(file)
    all_of = world.pictures(np.arange(len(world))).cpu().numpy() if pictures is None else pictures
    parts, n_latents = (all_of[: plan.images], all_of[plan.images :]), 2 * world.n_balls
    found: Read = {
        "places": _tried(lambda: trained(places_model(plan, n_latents, world.seed), *parts)),
        "features": _tried(lambda: varying(trained(features_model(plan, world.seed), *parts), n_latents)),
    }
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, **_arrays(found))  # pyright: ignore[reportArgumentType]
    return found


def _arrays(read: Read) -> dict[str, Any]:
    """Codes, or what was refused, as arrays of a file."""
    out: dict[str, Any] = {}
    for name, codes in read.items():
        if isinstance(codes, str):
            out[f"{name}/refused"] = codes
        else:
            out |= {f"{name}/learn": codes.learn, f"{name}/judge": codes.judge}
            out |= {f"{name}/facts/{fact}": value for fact, value in codes.facts.items()}
    return out


def _kept(file: Path) -> Read:
    """What ``_arrays`` was given."""
    with np.load(file, allow_pickle=False) as kept:
        there = dict(kept)
    out: Read = {}
    for name in dict.fromkeys(key.split("/")[0] for key in there):
        facts = {k.split("/")[2]: v.item() for k, v in there.items() if k.startswith(f"{name}/facts/")}
        refused = there.get(f"{name}/refused")
        codes = Codes(there[f"{name}/learn"], there[f"{name}/judge"], facts) if refused is None else refused.item()
        out[name] = codes
    return out


def _tried(make: Callable[[], Codes]) -> Codes | str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # models that diverge are not used
            return make()
    except (InputError, DivergenceError) as error:
        return str(error)


def _read(codes: Codes | str, model: Any, z: np.ndarray) -> tuple[Row, np.ndarray | None]:
    """The row of one readout and its code; a refusal is a row too."""
    if isinstance(codes, str):
        return {"refused": codes}, None
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ICA that does not converge, components that are not sparse: scored as is
            code = np.asarray(model.fit(codes.learn).transform(codes.judge), dtype=float)
    except (InputError, DivergenceError) as error:
        return {"refused": str(error), **codes.facts}, None
    seconds = round(time.perf_counter() - start, 1)
    share = getattr(model, "active_share_", None)
    told = {"active share": None if share is None else float(np.mean(share))}
    return {**scores(z, code), "refused": None, **codes.facts, "readout seconds": seconds, **told}, code


# ---- tables --------------------------------------------------------------------------------------------------------


def compare(rows: list[Row]) -> str:
    """A table per world, methods below the published figures; then the matrix of coordinates frozen one by one."""
    parts = []
    for n, freeze in WORLDS:
        here = tables.matching(rows, balls=n, freeze=freeze)
        printed = PUBLISHED.get((n, freeze), ())
        mean = f"{np.mean([f[0] for f in printed]):.3f}" if printed else "–"
        balls = [tables.published(f) for f in printed] or ["–"] * n
        lines = [["published", *balls, mean, "–", "–", "–"]]
        lines += [_line(arm, n, tables.matching(here, method=arm)) for arm in ARMS]
        header = ["method", *(f"ball {k}" for k in range(1, n + 1)), "mean", "all latents", "MCC", "pictures explained"]
        title = f"{n} balls, each {freeze} frozen by itself in a tenth of the pictures: R² of places"
        parts.append(f"{title}\n{tables.text_table(header, lines)}")
    return "\n\n".join([*parts, *_matrices(rows)])


def _line(arm: str, n: int, rows: list[Row]) -> list[str]:
    names = [*(f"ball {k}" for k in range(1, n + 1)), "mean", "r2", "mcc", "explained"]
    refused = sum(row.get("refused") is not None for row in rows)
    return [arm + (f" ({refused} refused)" if refused else ""), *(tables.spread(rows, name) for name in names)]


def _matrices(rows: list[Row]) -> list[str]:
    """Squared correlations of every coordinate with the latents of its ball and of the others, as in Table 16."""
    here = tables.matching(rows, balls=2, freeze="coordinate", method="places")
    texts = [("published, latents as they came", "; ".join(" ".join(f"{v:.2f}" for v in row) for row in TABLE16))]
    texts += [(f"places, seed {row['seed']}", row["matrix"]) for row in here if row.get("matrix")]
    heading = "R² between x1, y1, x2, y2 (down) and latents (across), "
    return [heading + name + "\n" + matrix.replace("; ", "\n") for name, matrix in texts]
