"""Disentanglement of images by a plain autoencoder, weight decay and ICA, against methods made for it.

An autoencoder (AE), whose weight decay alone is varied, is read as it is and after ICA of its latents, and stands
beside β-VAE, β-TCVAE, BioAE and QLAE on dSprites, Sprites and rooms (``image_splits``); all have twice as many latents
as there are sources, and three seeds for every setting, trained as one program. InfoMEC is measured on images that no
model was trained on. Trivial baselines: principal components, their ICA, and the images themselves at 4 × 4 pixels.

ICA is fitted as published, *without whitening*, where all latents are kept and only turned (the contrast depends on
their unit: ``ICA`` takes one common to all); and, ours, *with whitening* after those directions are dropped that the
decoder does not heed, by the singular values of its Jacobian.

A setting is chosen twice: *with labels*, as published, by the highest mean InfoM of the three seeds; and *without*, by
the highest agreement of the three seeds (mean correlation after matching). Either way only settings count whose
reconstruction error is at most ``BOUND`` times that of the best setting of the same method.

Reference: Nelson et al. (2026), section 4.3, A.7.3; protocol of Hsu et al. (2023), *Disentanglement via latent
quantization*. **Deviations**: other data (theirs are not here), images of 32 × 32 pixels, minutes instead of hours of
training, networks without normalisation, reconstruction by squared error; the bound on reconstructions is not given
there; the step of training is chosen by the held-out objective and not, as published, by labels. QLAE has no row in
Table 2, and its figures in A.7.3 are lost; it has its own authors' number of values and weights of the quantisation,
and only its weight decay is varied.

The files are named by ``NOUMENA_DSPRITES`` and ``NOUMENA_SPRITES``; rooms are rendered and need none.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from near.image_splits import DATA, ROOMS, SIZE, VARIABLES, Split, named, split
from near.table2_claims import BASELINES, BOUND, PUBLISHED, PUBLISHED_DATA, SCORES, SETTING
from near.table2_claims import BUDGET as BUDGET
from near.table2_claims import TOLERANCE as TOLERANCE
from near.table2_claims import chosen as chosen
from near.table2_claims import claims as claims
from noumena import checks
from noumena.derivatives import jacobian
from noumena.estimators.autoencoder import Autoencoder
from noumena.estimators.base import Estimator
from noumena.estimators.bio import BioAE
from noumena.estimators.ica.ica import ICA
from noumena.estimators.images.qlae import QLAE
from noumena.estimators.loop import Training
from noumena.estimators.tcvae import BetaTCVAE
from noumena.estimators.vae import BetaVAE
from noumena.metrics import agreement
from noumena.metrics.information import infomec
from noumena.nets.conv import ConvDecoder, ConvEncoder
from noumena.studies import rows as tables
from noumena.studies.rows import Row

GRID: dict[str, tuple[tuple[float, float | None], ...]] = {
    "AE": ((0.0, None), (0.1, None), (0.5, None), (2.0, None)),
    "β-VAE": ((0.05, None), (0.2, None), (0.8, None)),
    "β-TCVAE": ((0.2, None), (0.8, None), (3.2, None)),
    "BioAE": ((0.01, 0.0003), (0.03, 0.001), (0.1, 0.003)),
    "QLAE": ((0.1, None), (0.5, None), (2.0, None)),
}
"""Weight decay; β; β with the rest of the KL term at ``KL``; energy and weight; weight decay."""
DECAYED = ("AE", "QLAE")
AE_READOUTS = ("AE + ICA", "AE + whitened ICA")
ORDER = (*GRID, *AE_READOUTS, *BASELINES)
KL, RUNS = 0.05, 3
STEPS, BATCH, RATE = 5000, 128, 1e-3
UNMIXED = 20_000
"""The most training images that ICA is fitted on."""
POINTS, IGNORED = 64, 0.05
"""Images at which Jacobians are taken; a direction that moves images less than this share of the first is dropped."""


# ---- cells ---------------------------------------------------------------------------------------------------------


def cells(data: tuple[str, ...] = DATA, *, size: int = SIZE, steps: int = STEPS) -> list[Row]:
    """Every setting of every method on every data set, the longest cells first, then the baselines."""
    settings = [(method, *setting) for method, grid in GRID.items() for setting in grid]
    settings += [(method, None, None) for method in BASELINES]
    return [
        {"data": name, "method": method, "strength": strength, "second": second, "size": size, "steps": steps}
        for method, strength, second in settings
        for name in data
    ]


def cell(
    data: str, method: str, strength: float | None, second: float | None, *, files: dict[str, Any] | None = None,
    size: int = SIZE, device: str = "auto", n_rooms: int = ROOMS, **changes: Any,
) -> list[Row]:  # fmt: skip
    """One row per readout and seed; a baseline has one row."""
    checks.one_of(method, "method", (*GRID, *BASELINES))
    images = split(data, (files or {}).get(data), size=size, device=device, n_rooms=n_rooms)
    if method in BASELINES:
        return [{"readout": method, "run": 0, **_baseline(method, images, size)}]
    start = time.perf_counter()
    asked = {"strength": strength, "second": second, "size": size, "device": device}
    fitted = model(method, images, **asked, **changes).fit(images.train)
    seconds = time.perf_counter() - start
    found = _read(method, fitted, images)
    for row in found[:1]:
        row |= {"training seconds": round(seconds, 1), "all seconds": round(time.perf_counter() - start, 1)}
    return found


def missing(**row: Any) -> str | None:
    """What a cell lacks to be run: the file of its images, or nothing."""
    try:
        if row["data"] in VARIABLES:
            named(row["data"])
    except checks.InputError as error:
        return str(error)
    return None


def tiny() -> list[Row]:
    """Two autoencoders for a moment, and principal components, on few rooms of 16 × 16 pixels."""
    shared = {"data": "rooms", "second": None, "size": 16, "n_rooms": 120, "steps": 3}
    trained = {"method": "AE", "strength": 0.1, "batch": 32, "runs": 2, "hidden": 8, **shared}
    return [trained, {"method": "PCA", "strength": None, **shared}]


def model(
    method: str, images: Split, *, strength: float | None, second: float | None, size: int = SIZE, steps: int = STEPS,
    batch: int = BATCH, runs: int = RUNS, device: str = "auto", **net: Any,
) -> Estimator:  # fmt: skip
    """The estimator of a setting, with twice as many latents as sources that vary."""
    latents = 2 * int((np.ptp(images.factors, axis=0) > 0).sum())
    shape = {"channels": images.train.shape[1] // size**2, "size": size, **net}
    plan = Training(
        steps=steps, batch_size=batch, learning_rate=RATE, device=device,
        weight_decay=float(strength or 0) if method in DECAYED else 0.0,
    )  # fmt: skip
    parts: dict[str, Any] = {
        "encoder": ConvEncoder(**shape), "decoder": ConvDecoder(**shape), "standardise": False, "n_models": runs,
        "training": plan, "random_state": 0,
    }  # fmt: skip
    if method == "AE":
        return Autoencoder(latents, **parts)
    if method == "QLAE":
        return QLAE(latents, **parts)
    if method == "BioAE":
        return BioAE(latents, energy=float(strength or 0), weight=float(second or 0), **parts)
    if method == "β-VAE":
        return BetaVAE(latents, beta=float(strength or 0), **parts)
    return BetaTCVAE(latents, beta=float(strength or 0), kl=KL, **parts)


def _read(method: str, fitted: Any, images: Split) -> list[Row]:
    """The rows of every readout and seed of a fitted estimator."""
    codes = {method: [*fitted.transform_all(images.test)]}
    beside: dict[str, list[Row]] = {method: [{} for _ in codes[method]]}
    if method == "AE":
        seen = fitted.transform_all(images.train[:UNMIXED])
        pairs = [*zip(seen, codes[method], strict=True)]
        plain, pruned = AE_READOUTS
        found = {
            plain: [unmixed(*pair) for pair in pairs],
            pruned: [
                _pruned(*pair, fitted.models_[k].decoder, fitted.points_of(k)[:POINTS]) for k, pair in enumerate(pairs)
            ],
        }
        codes |= {readout: [code for code, _ in parts] for readout, parts in found.items()}
        beside |= {readout: [row for _, row in parts] for readout, parts in found.items()}
    alone = [
        {"unexplained": unexplained(fitted.models_[k], images.test), "objective": float(fitted.objectives_[k])}
        for k in range(len(codes[method]))
    ]
    return [
        {"readout": readout, "run": k, **scores(images.factors, code), "agreement": agreement(codes[readout]).score,
         **alone[k], **beside[readout][k]}
        for readout in codes
        for k, code in enumerate(codes[readout])
    ]  # fmt: skip


def scores(factors: np.ndarray, code: np.ndarray) -> Row:
    """InfoMEC of a code, its level of chance, and how many latents it has and has in use."""
    found = infomec(factors, code)
    chance = {} if found.chance is None else {f"{n} by chance": v for n, v in zip(SCORES, found.chance, strict=True)}
    measured = zip(SCORES, (found.modularity, found.explicitness, found.compactness), strict=True)
    return {**dict(measured), **chance, "latents": code.shape[1], "active": len(found.active)}


def unexplained(codec: Any, x: np.ndarray) -> float:
    """The share of the images' variance that a codec does not reconstruct."""
    with torch.no_grad():
        rows = torch.as_tensor(x).to(codec.mean)
        missed = (codec.decode(codec.encode(rows)) - rows).square().sum()
        return float(missed / (rows - rows.mean(dim=0)).square().sum())


# ---- independent components ----------------------------------------------------------------------------------------


class Heeded(NamedTuple):
    """Directions of the latents that a decoder heeds, (latent, kept), and the singular value of every direction."""

    directions: np.ndarray
    values: np.ndarray


def heeded(J: Float[Tensor, "batch observed latent"], share: float = IGNORED) -> Heeded:
    """Directions along which a decoder moves its output, in the mean square over points; a direction is dropped whose
    singular value is less than ``share`` of the first; turning the latents turns the directions.

    >>> found = heeded(torch.tensor([[[0.0, 4.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.1]]]))
    >>> found.values.round(2).tolist(), found.directions.shape
    ([4.0, 3.0, 0.1], (3, 2))
    """
    value, vector = torch.linalg.eigh(torch.einsum("boi,boj->ij", J, J).double().cpu() / len(J))
    value, vector = value.clamp_min(0).sqrt().flip(0), vector.flip(1)
    return Heeded(vector[:, value >= share * value[0]].numpy(), value.numpy())


def unmixed(seen: np.ndarray, unseen: np.ndarray, directions: np.ndarray | None = None) -> tuple[np.ndarray, Row]:
    """Independent components of ``unseen`` latents by an ICA of ``seen`` ones: all latents turned, in
    one common unit; or whitened within the directions given."""
    whiten = directions is not None
    turn = directions if whiten else np.eye(seen.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the row says whether it has come to rest
        ica = ICA(whiten=whiten).fit(seen @ turn)
    return np.asarray(ica.transform(unseen @ turn)), {"ICA at rest": ica.converged_, "ICA steps": ica.n_iter_}


def _pruned(seen: np.ndarray, unseen: np.ndarray, decoder: Any, points: Tensor) -> tuple[np.ndarray, Row]:
    """The same, whitened, within the directions that a decoder heeds; how many it does not, and by how much."""
    found = heeded(jacobian(decoder, points))
    kept = found.directions.shape[1]
    code, row = unmixed(seen, unseen, found.directions)
    dropped = {"dropped": len(found.values) - kept, "first dropped": float(found.values[kept:].max(initial=0.0))}
    return code, {**row, **dropped, "first": float(found.values[0]), "least kept": float(found.values[kept - 1])}


def _baseline(method: str, images: Split, size: int) -> Row:
    """A readout that needs no training."""
    if method == "pixels":
        return scores(images.factors, coarse(images.test, size))
    from sklearn.decomposition import PCA

    latents = 2 * int((np.ptp(images.factors, axis=0) > 0).sum())
    pca = PCA(latents, svd_solver="randomized", random_state=0).fit(images.train)
    code = pca.transform(images.test)
    missed = np.square(pca.inverse_transform(code) - images.test).sum()
    row: Row = {"unexplained": float(missed / np.square(images.test - images.test.mean(axis=0)).sum())}
    if method == "PCA":
        return {**scores(images.factors, code), **row}
    turned, how = unmixed(pca.transform(images.train[:UNMIXED]), code, np.eye(latents))
    return {**scores(images.factors, turned), **row, **how}


def coarse(x: np.ndarray, size: int) -> np.ndarray:
    """Flat images as 4 × 4 means over pixels and channels.

    >>> coarse(np.arange(64.0).reshape(1, -1), 8)[0, :4].tolist()
    [4.5, 6.5, 8.5, 10.5]
    """
    return x.reshape(len(x), -1, 4, size // 4, 4, size // 4).mean(axis=(1, 3, 5)).reshape(len(x), 16)


# ---- choosing and comparing ----------------------------------------------------------------------------------------


def compare(rows: list[Row]) -> str:
    """Every readout at the setting chosen with labels and without, on every data set, and the published table."""
    header = ("read from", "with labels:", *SCORES, "without labels:", *SCORES, "agreement", "unexplained", "dropped",
              "InfoM by chance")  # fmt: skip
    parts = []
    for data in DATA:
        there = tables.matching(rows, data=data)
        lines = [_line(readout, tables.matching(there, readout=readout)) for readout in ORDER]
        parts.append(f"{data}\n{tables.text_table(header, lines)}")
    beside = [[readout, *_published(readout)] for readout in (*GRID, AE_READOUTS[0])]
    published = tables.text_table(("published", "mean", *PUBLISHED_DATA[1:]), beside)
    return "\n\n".join([*parts, f"InfoM InfoE InfoC, other data sets, chosen with labels\n{published}", NOTE])


def _line(readout: str, group: list[Row]) -> list[str]:
    """One readout: settings chosen with labels and without, their scores, and what speaks for the second."""
    by_labels, by_agreement = (chosen(group, by) for by in ("InfoM", "agreement"))
    columns = [
        text
        for part in (by_labels, by_agreement)
        for text in (_setting(part), *(tables.spread(part, n) for n in SCORES))
    ]
    beside = ("agreement", "unexplained", "dropped", "InfoM by chance")
    return [readout, *columns, *(tables.spread(by_agreement, name) for name in beside)]


def _published(readout: str) -> list[str]:
    """The three scores of a readout on every data set; dashes where the published table has no such row."""
    figures = PUBLISHED.get(readout)
    return [" ".join(f"{v:.2f}" for v in three) for three in figures] if figures else ["–"] * len(PUBLISHED_DATA)


def _setting(rows: list[Row]) -> str:
    values = [rows[0].get(name) for name in SETTING] if rows else []
    return ", ".join(f"{value:g}" for value in values if value is not None) or "–"


NOTE = (
    "Settings: weight decay of AE and QLAE, β, β, energy and weight of BioAE; only those count that leave at most "
    f"{BOUND:g} times as much variance unexplained as the best setting of the method. Agreement of seeds is stability, "
    "not truth. The last four columns are those of the setting chosen without labels."
)
