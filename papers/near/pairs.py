"""Pairs of models that differ by their seeds: up to what do their representations agree, layer by layer?

Eight independently trained members of the ANI-1x ensemble (atomic environments, held out by molecule), and four runs
each of an autoencoder, a VAE and a self-supervised encoder on dSprites (held out by shape and scale); untrained
networks of the same form beside them, and how much a linear map of the input explains.

Reference: Nelson et al. (2026), Section 4.2, Table 1 and A.7.2. **Deviations**: other models than the published, whose
weights and data are not at hand: its four rows are context, not a target. Errors are held out; the published protocol,
in-sample, stands beside. Both directions of a pair count as one, in the mean.

The files ``h_networks.npz`` and ``h_aev.npz`` of ANI-1x lie, at any depth, in the folder that ``NOUMENA_ANI1X`` names;
``NOUMENA_DSPRITES`` names the file ``dsprites_downsampled.npz``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from averages import averaged, most, printed
from near.encoders import VICReg
from near.pair_data import (
    AUDITED,
    GENERATED,
    MEMBERS,
    SIZE,
    VARIABLES,
    Atoms,
    Shapes,
    ensemble,
    generated_atoms,
    generated_shapes,
    located,
    shapes,
    untrained_network,
)
from near.pair_data import SIZES as SIZES
from noumena import checks, seeds
from noumena.audits import Audit, audit
from noumena.audits.pairs import SAME_ROWS
from noumena.charts import CurveChart
from noumena.checks import InputError
from noumena.estimators import VAE, Autoencoder, Training
from noumena.extraction import representations
from noumena.guarantees.agreement import AFFINE, ICA, PERMUTATION, RIGID, efficiency
from noumena.nets.conv import ConvDecoder, ConvEncoder
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row

KINDS = {"permutation": PERMUTATION, "rigid": RIGID, "affine": AFFINE, "ICA": ICA}
PROTOCOLS = {"held out": True, "in-sample": False}
FOLDS = 3
PARTS = tuple(VARIABLES)

BARELY = 1e-3
"""Inputs that spread less than this share of the widest are no part of the linear baseline: in some molecules alone
they are more than rounding."""
ANI, UNTRAINED = "ANI-1x", "untrained"
HIDDEN = {"hidden 1": "1", "hidden 2": "3", "hidden 3": "5"}
"""The activations by their names in the networks."""

CLASSES = ("AE", "VAE", "VICReg", UNTRAINED)
RUNS, LATENTS, WIDTHS, LAST_HIDDEN = 4, 10, (32, 32, 64), 64
STEPS, BATCH, RATE, BETA = 3000, 256, 1e-3, 0.1

PUBLISHED = {
    "Pythia-160M": (0.219, 0.150, 0.131, 0.202),
    "MAE": (0.197, 0.109, 0.036, 0.145),
    "CheXpert": (0.218, 0.104, 0.048, 0.175),
    "ResNet-18": (0.382, 0.206, 0.175, 0.312),
}
"""Table 1: errors up to a permutation, a rigid map, a linear map, and by ICA."""
PUBLISHED_EFFICIENCY = {"Pythia-160M": 0.25, "MAE": 0.59, "CheXpert": 0.38, "ResNet-18": 0.40}
"""Table 1: the share beside ICA."""
BUDGET = 12.0
"""CPU-minutes of all cells on one core, beside a GPU on which the models of images train."""
TOLERANCE = 0.01
"""Of published figures with three digits, and of shares with two; they have no spread."""
ALL = "all"
Tables = dict[str, np.ndarray]


# ---- cells -------------------------------------------------------------------------------------------------------


def cells(parts: Sequence[str] = PARTS) -> list[Row]:
    """Every layer of ANI-1x and either protocol; every class of models on dSprites."""
    scopes = [f"{layer}, {protocol}" for layer in HIDDEN for protocol in PROTOCOLS]
    found = [("ani", model, scope) for model in (ANI, UNTRAINED) for scope in scopes]
    found += [("dsprites", model, ALL) for model in CLASSES]
    return [{"part": part, "model": model, "scope": scope} for part, model, scope in found if part in parts]


def cell(
    part: str, model: str, scope: str, *, data: str | Path | None = None, device: str = "auto", **changes: Any
) -> list[Row]:
    """One row per pair, layer and protocol."""
    checks.one_of(part, "part", PARTS)
    generated = data == GENERATED
    if part == "ani":
        layer, protocol = checks.one_of(scope, "scope", tuple(c["scope"] for c in cells(("ani",)))).split(", ")
        seen = ([], generated_atoms()) if generated else ensemble(*located(part, data))
        return _of_ensemble(model, layer, protocol, seen, int(changes.get("members", MEMBERS)))
    checks.one_of(model, "model", CLASSES)
    size = changes.pop("size", SIZE)
    audited = changes.pop("audited", AUDITED)
    images = generated_shapes(size) if generated else shapes(located(part, data)[0], size=size, audited=audited)
    return _of_images(model, images, size=size, device=device, **changes)


def _of_ensemble(
    model: str, layer: str, protocol: str, seen: tuple[list[nn.Sequential], Atoms], members: int
) -> list[Row]:
    networks, atoms = seen
    if checks.one_of(model, "model", (ANI, UNTRAINED)) == UNTRAINED:
        networks = [untrained_network(k) for k in range(MEMBERS)]
    runs = {f"member {k}": representations(net, atoms.x, HIDDEN[layer]) for k, net in enumerate(networks[:members])}
    spread = atoms.x.std(axis=0)
    varying = atoms.x[:, spread > BARELY * spread.max()]
    found = _audited(runs, varying, atoms.molecules, held_out=PROTOCOLS[protocol], ica=model == ANI)
    return rows_of(found, layer=layer, protocol=protocol)


def _of_images(model: str, images: Shapes, *, size: int, **settings: Any) -> list[Row]:
    encoders, objective = trained(model, images.train, size=size, **settings)
    found = []
    for layer, name in {"last hidden": str(len(encoders[0]) - 2), "latents": None}.items():
        tables = [representations(encoder, images.x, name) for encoder in encoders]
        runs = {f"run {k}": table if name else table[:, :LATENTS] for k, table in enumerate(tables)}
        for protocol, held_out in PROTOCOLS.items():
            result = _audited(runs, images.x, images.groups, held_out=held_out)
            found += [{**row, "objective": objective} for row in rows_of(result, layer=layer, protocol=protocol)]
    return found


def trained(
    model: str, x: np.ndarray, *, size: int = SIZE, runs: int = RUNS, steps: int = STEPS, batch: int = BATCH,
    device: str = "auto", widths: tuple[int, ...] = WIDTHS,
) -> tuple[list[Any], float | None]:  # fmt: skip
    """The encoders of several runs, whose first outputs are the latents, and their held-out objective in the mean."""
    shared = {"channels": 1, "size": size, "widths": widths, "hidden": LAST_HIDDEN, "slope": 0.2}
    encoder, decoder = ConvEncoder(**shared), ConvDecoder(**shared)
    if model == UNTRAINED:
        return [_untrained(encoder, x.shape[1], k) for k in range(runs)], None
    plan = Training(steps=steps, batch_size=batch, learning_rate=RATE, device=device)
    fitted: dict[str, Any] = {"n_models": runs, "training": plan, "random_state": 0, "encoder": encoder}
    both = {**fitted, "decoder": decoder, "standardise": False}
    if model == "AE":
        estimator = Autoencoder(LATENTS, **both)
    elif model == "VAE":
        estimator = VAE(LATENTS, beta=BETA, **both)
    else:
        estimator = VICReg(LATENTS, **fitted)
    estimator.fit(x)
    return [objective.encoder for objective in estimator.models_], float(np.mean(estimator.objectives_))


def _untrained(builder: ConvEncoder, pixels: int, seed: int) -> nn.Sequential:
    with seeds.global_torch(seed, "untrained network"):
        return builder(pixels, LATENTS)


# ---- rows --------------------------------------------------------------------------------------------------------


def _audited(runs: Tables, x: np.ndarray, groups: np.ndarray, *, held_out: bool, ica: bool = True) -> Audit:
    return audit(runs, input=x, groups=groups if held_out else None, held_out=held_out, folds=FOLDS, ica=ica)


def rows_of(found: Audit, *, layer: str, protocol: str) -> list[Row]:
    """One row per pair of runs, the mean over its two directions; what concerns all runs stands in the first."""
    result = []
    for a, b in combinations(range(len(found.names)), 2):
        both = [found.pair(a, b), found.pair(b, a)]
        row: Row = {"layer": layer, "protocol": protocol, "width": found.shapes[a][1], "first": a, "second": b}
        for name, kind in KINDS.items():
            row[name] = _mean([pair.errors[kind] for pair in both])
            row[f"chance {name}"] = _mean([pair.chance[kind] for pair in both])
            row[f"R2 {name}"] = _mean([pair.r2[kind] for pair in both])
        row["efficiency"] = _efficiency(row, "ICA")
        if all(SAME_ROWS in pair.errors for pair in both):
            row["ICA same rows"] = _mean([pair.errors[SAME_ROWS] for pair in both])
            row["efficiency same rows"] = _efficiency(row, "ICA same rows")
        if found.trivial is not None:
            row |= {"input": _mean(found.trivial.errors[[a, b]]), "R2 input": _mean(found.trivial.r2[[a, b]])}
        result.append({**row, "up to": " / ".join(dict.fromkeys(pair.group for pair in both))})
    if found.axes is not None:
        result[0] |= {"axes": found.axes.found, "restarts agree": min(found.axes.restarts)}
    return result


def _mean(values: Any) -> float | None:
    mean = float(np.mean(values))
    return mean if np.isfinite(mean) else None


def _efficiency(row: Row, kind: str) -> float | None:
    errors = [row[name] for name in ("permutation", "rigid", kind)]
    return None if None in errors else _mean([efficiency(*errors)])


def missing(**row: Any) -> str | None:
    """What a cell lacks to be run: the files of its part, or nothing."""
    if row.get("data") == GENERATED:
        return None
    try:
        located(row["part"], row.get("data"))
    except InputError as error:
        return str(error)
    return None


# ---- comparison --------------------------------------------------------------------------------------------------

COLUMNS = (
    *KINDS, "efficiency", "efficiency same rows", "chance affine", "R2 rigid", "R2 affine", "R2 ICA", "input",
    "R2 input",
)  # fmt: skip
HEADER = ("model", "layer", "protocol", *COLUMNS, "axes", "up to")


def compare(rows: list[Row]) -> str:
    """Mean ± deviation over pairs (their number), by class of model, layer and protocol, beside Table 1."""
    lines = []
    keys = {(r["part"], r["model"], r["layer"], r["protocol"]) for r in tables.matching(rows)}
    for key in sorted(keys, key=lambda k: (k[0], (ANI, *CLASSES).index(k[1]), *k[2:])):
        group = tables.matching(rows, part=key[0], model=key[1], layer=key[2], protocol=key[3])
        verdicts = [str(row["up to"]) for row in group]
        agreed = max(dict.fromkeys(verdicts), key=verdicts.count)
        name = key[1] if key[1] != UNTRAINED else f"{UNTRAINED}, {ANI if key[0] == 'ani' else 'dSprites'}"
        shown = [tables.spread(group, column) for column in COLUMNS]
        axes = group[0].get("axes")
        found_again = "–" if axes is None else f"{axes} of {group[0]['width']}"
        lines.append([name, f"{key[2]} ({group[0]['width']})", key[3], *shown, found_again, agreed])
    for model, (permutation, rigid, affine, ica) in PUBLISHED.items():
        share = efficiency(permutation, rigid, ica)
        figures = [f"{value:.3f}" for value in (permutation, rigid, affine, ica, share)]
        lines.append([f"{model}, published", "–", "in-sample", *figures, *["–"] * (len(COLUMNS) - 3)])
    return f"{tables.text_table(HEADER, lines)}\n{NOTE}"


NOTE = (
    "Errors over the diameter; efficiency is ICA's share of what a rigid map gains over a permutation; held out, the "
    "ICA of two models see disjoint halves of the fitted rows, or the same half (same rows), and are measured on "
    "others; in-sample all see the same rows; chance is that of an affine map between shuffled rows; input is a linear "
    "map of what the models see; axes are components of ICA that are found again in every run on rows it did not see. "
    "Published rows are other models. Agreement is stability, not truth."
)


STANDS = {"MAE": ("AE", "last hidden"), "ResNet-18": (ANI, "hidden 3")}
"""What we have of the kind of a published pair: autoencoders, and networks trained with labels."""
INPUT = "linear map of the input"


def claims(rows: list[Row]) -> list[StudyClaim]:
    """Every figure of Table 1 beside our models of the same kind, in-sample as published; they are other models."""
    return [claim for model in PUBLISHED for claim in _claims(model, tables.matching(rows, protocol="in-sample"))]


def _claims(model: str, rows: list[Row]) -> list[StudyClaim]:
    name, layer = STANDS.get(model, (None, None))
    there = [] if name is None else tables.matching(rows, model=name, layer=layer)
    why = "other models: none of its kind here" if name is None else f"other models: {name} here, {layer}"
    baseline = most({INPUT: tables.values(there, "input")})
    found = [
        StudyClaim(
            f"Table 1: {model}", f"error up to {kind}", figure, tables.values(there, kind), TOLERANCE,
            better="lower", baseline=baseline if kind == "affine" else None, not_comparable=why,
        )
        for kind, figure in zip(KINDS, PUBLISHED[model], strict=True)
    ]  # fmt: skip
    share, ours = PUBLISHED_EFFICIENCY[model], tables.values(there, "efficiency")
    return [
        *found,
        StudyClaim(f"Table 1: {model}", "efficiency of ICA", share, ours, TOLERANCE, not_comparable=why),
    ]


def figures(rows: list[Row]) -> list[CurveChart]:
    """Errors in-sample by what is forgiven: our models, untrained ones, and the published pairs."""
    there = tables.matching(rows, protocol="in-sample")
    shown = [(ANI, "hidden 3"), *((model, "last hidden") for model in CLASSES)]
    curves = []
    for model, layer in shown:
        group = tables.matching(there, model=model, layer=layer)
        found = {kind: tables.values(group, kind) for kind in KINDS}
        curves.append(averaged(f"{model}, {layer}", found, baseline=model == UNTRAINED))
    curves += [printed(model, dict(zip(KINDS, four, strict=True))) for model, four in PUBLISHED.items()]
    return [CurveChart("Pairs of models that differ by their seeds", "up to", "error over the diameter", tuple(curves))]


def tiny() -> list[Row]:
    """Untrained networks of the ensemble's form, and two autoencoders for a moment, on data that need no file."""
    atoms = {"part": "ani", "model": UNTRAINED, "scope": "hidden 3, in-sample", "members": 2}
    training = {"size": 16, "runs": 2, "steps": 2, "batch": 16}
    images = {"part": "dsprites", "model": "AE", "scope": ALL, **training}
    return [{**one, "data": GENERATED} for one in (atoms, images)]
