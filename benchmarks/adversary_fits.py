"""Families that are fitted first: mixtures and representations, which take a second (``LAWS``), and models of worlds,
which take up to minutes (``FITS``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from adversary_truth import Case, Claim, dressed
from sklearn.mixture import GaussianMixture

import noumena as nm

ROWS = 3000
STEPS = 800
SURE = 0.8
"""A direction with at least this confidence is claimed."""
AXES = ("permutation", "signed permutation", "permutation+scaling", "permutation+scaling+shift", "element-wise")
"""Ambiguities that leave the axes fixed."""
ROUND = ("gaussian", "disc", "ring", "scale mixture")
"""Laws that every rotation leaves as they are: no axis of theirs can be identified."""


def _rng(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, sum(map(ord, name)), 1])


def rotation_invariant(name: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of a law that every rotation leaves as it is."""
    z = rng.normal(size=(n, d))
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    if name == "gaussian":
        return z
    if name == "disc":
        return unit * rng.random((n, 1)) ** (1 / d)
    if name == "ring":
        return unit * (1 + 0.1 * rng.normal(size=(n, 1)))
    if rng.integers(2):  # two scales, or a continuum
        return z * np.where(rng.random((n, 1)) < 0.4, np.exp(rng.uniform(-4.6, -1.6)), 1)
    return z * np.exp(rng.uniform(0.5, 2) * rng.normal(size=(n, 1)))


def rotation(d: int, rng: np.random.Generator) -> np.ndarray:
    """A random rotation."""
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def read(subject: Any, groups: tuple[str, ...], **options: Any) -> Claim:
    """*Identified* where a reading pins the latents down up to one of these groups."""
    found = nm.certify(subject, **options)
    return Claim("identified" if found.ambiguity(0).group in groups else "open", found)


def read_mixture(mixture: Any, rows: np.ndarray) -> Claim:
    """A fitted mixture asked both ways, by itself and at rows that its fit did not see; the stronger claim counts."""
    alone = read(mixture, AXES)
    try:
        return alone if alone.answer == "identified" else read(mixture, AXES, at=rows)
    except nm.InputError:
        return alone


# ---- mixtures and representations ------------------------------------------------------------------------------------


def mixtures(seed: int) -> Case:
    """A diagonal mixture fitted to what has no axes, or to a mixture with other ones: its independence is imposed. One
    of well separated diagonal components is identified."""
    rng = _rng(seed, "mixtures")
    kind = str(rng.choice([*ROUND, "turned mixture", "true mixture", "true mixture"]))
    return diagonal_mixture(kind, seed)


def diagonal_mixture(kind: str, seed: int) -> Case:
    """Three diagonal components fitted to a law."""
    rng = _rng(seed, kind)
    d, n = int(rng.integers(2, 4)), int(rng.integers(500, 3000))

    def claim() -> Claim:
        x = rotation_invariant(kind, n, d, rng) if kind in ROUND else _mixture_rows(n, d, rng)
        x = x @ rotation(d, rng).T if kind == "turned mixture" else x
        model = GaussianMixture(3, covariance_type="diag", random_state=seed % 1000).fit(x[: n // 2])
        return read_mixture(model, x[n // 2 :])

    return Case("mixture", claim, kind == "true mixture", note=f"{kind}, {n}×{d}")


def _mixture_rows(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Three components a good way apart, each with its own variances."""
    spread, labels = np.exp(rng.uniform(-1, 1, (3, d))), rng.integers(3, size=n)
    means = 8 * (np.arange(3)[:, None] - 1) + rng.uniform(-1, 1, (3, d))
    return means[labels] + spread[labels] * rng.normal(size=(n, d))


def sparse_components(seed: int) -> Case:
    """Directions found in rotation-invariant rows, or in a handful of Gaussian ones; of truly sparse latents they are
    right."""
    return sparse_case(str(_rng(seed, "sparse").choice(["scale mixture", "few rows", "sparse"])), seed)


def sparse_case(kind: str, seed: int) -> Case:
    """Components of rows of one kind, turned."""
    rng = _rng(seed, f"sparse {kind}")
    few = kind == "few rows"
    d, n = (
        int(rng.integers(3, 9) if few else rng.integers(2, 5)),
        int(rng.integers(13, 30) if few else rng.integers(500, 3000)),
    )

    def claim() -> Claim:
        z = rng.normal(size=(n, d)) * (rng.random((n, d)) < rng.uniform(0.3, 0.6))
        x = {"sparse": z, "few rows": rng.normal(size=(n, d))}.get(kind)
        x = rotation_invariant(kind, n, d, rng) if x is None else x
        x = x @ rotation(d, rng).T
        model = nm.SparseComponents().fit(x)
        sure = model.confidence_ >= SURE
        mcc = float(nm.metrics.mcc(z, model.transform(x)).score) if kind == "sparse" else None
        return Claim("identified" if (sure.all() if kind == "sparse" else sure.any()) else "open", mcc=mcc)

    return Case("fit", claim, kind == "sparse", note=f"{kind}, {n}×{d}")


def poisson(seed: int) -> Case:
    """Counts have exact zeros and are no Gaussian mixture: the latents found need not be the counts."""
    rng = _rng(seed, "poisson")
    d, n = int(rng.integers(2, 5)), int(rng.integers(1000, 3000))

    def claim() -> Claim:
        z = rng.poisson(rng.uniform(0.4, 2), (n, d)).astype(float)
        x = z @ rng.normal(size=(d, d + 2))
        model = nm.DegenerateMixture(d).fit(x)
        found = read(model, AXES)
        return Claim(found.answer, found.certificate, float(nm.metrics.mcc(z, model.transform(x)).score))

    return Case("fit", claim, None, note=f"{n}×{d}")


def representations(seed: int) -> Case:
    """Unrelated tables share nothing; tables equal up to a rotation are pinned down up to rigid maps, and their axes
    only where their components are not Gaussian and independent."""
    kinds = ["unrelated", "gaussian", "scale mixture", "independent"]
    return representation_case(str(_rng(seed, "representations").choice(kinds)), seed)


def representation_case(kind: str, seed: int) -> Case:
    """Two tables of one kind."""
    rng = _rng(seed, f"representations {kind}")
    d, n = int(rng.integers(2, 6)), int(rng.integers(300, 2000))
    groups = (*AXES, "rigid", "similarity", "affine") if kind == "unrelated" else AXES

    def claim() -> Claim:
        a = rng.laplace(size=(n, d)) if kind == "independent" else rng.normal(size=(n, d))
        a = rotation_invariant(kind, n, d, rng) if kind == "scale mixture" else a
        b = rng.normal(size=(n, d)) if kind == "unrelated" else a @ rotation(d, rng).T
        return read([a, b], groups)

    return Case("representations", claim, kind == "independent", note=f"{kind}, {n}×{d}")


def partly_shared(seed: int) -> Case:
    """Tables that share some directions or some rows only, however large these are, do not pin down their latents;
    noisy tables of the same independent latents do."""
    kinds = ["columns", "rows", "entries", "common mode", "noise"]
    return partly_shared_case(str(_rng(seed, "partly shared").choice(kinds)), seed)


def partly_shared_case(kind: str, seed: int) -> Case:
    """Two tables that share ``columns``, large ``rows`` or a few such ``entries`` of some, a large ``common mode``, or
    everything but ``noise``."""
    rng = _rng(seed, f"partly shared {kind}")
    d, n = int(rng.integers(2, 9)), int(rng.integers(800, 3000))
    size = float(np.exp(rng.uniform(0, 7)))
    some = int(rng.integers(1, d))
    groups = AXES if kind == "noise" else (*AXES, "rigid", "similarity", "affine")

    def claim() -> Claim:
        a, b = rng.laplace(size=(2, n, d))
        if kind == "columns":
            b[:, :some] = a[:, :some]
            a, b = (table * np.where(np.arange(d) < some, size, 1) for table in (a, b))
        elif kind in ("rows", "entries"):
            same = rng.random((n, 1)) < rng.uniform(0.01, 0.3 if kind == "rows" else 0.4 / d)
            shared = np.ones(d) if kind == "rows" else np.arange(d) < some
            mine, its = np.where(same, size * a, a), np.where(same, size * a, b)
            a, b = np.where(shared, mine, a), np.where(shared, its, a)
        elif kind == "common mode":
            mode = size * rng.laplace(size=(n, 1)) * rng.normal(size=d)
            a, b = a + mode, b + mode
        else:
            spread = rng.uniform(0, 0.2) * np.sqrt(2)
            a, b = (a + spread * rng.normal(size=a.shape) for _ in range(2))
        return read([a, b @ rotation(d, rng).T * float(np.exp(rng.normal()))], groups)

    return Case("representations", claim, kind == "noise", note=f"{kind}, {n}×{d}, size {size:.3g}, {some}")


def audits(seed: int) -> Case:
    """Axes of rotation-invariant rows are found again by chance in few dimensions; independent ones by right."""
    return audit_case(str(_rng(seed, "audits").choice([*ROUND, "independent"])), seed)


def audit_case(kind: str, seed: int) -> Case:
    """A table of one kind, and itself turned."""
    rng = _rng(seed, f"audits {kind}")
    d, n = int(rng.integers(2, 4)), int(rng.integers(500, 2000))

    def claim() -> Claim:
        z = rng.laplace(size=(n, d)) if kind == "independent" else rotation_invariant(kind, n, d, rng)
        axes = nm.audit([z, z @ rotation(d, rng).T]).axes
        found = 0 if axes is None else axes.found
        return Claim("identified" if found >= (d if kind == "independent" else 1) else "open")

    return Case("representations", claim, kind == "independent", note=f"{kind}, {n}×{d}")


# ---- fits ------------------------------------------------------------------------------------------------------------


def fit_case(
    rows: Callable[[], tuple[np.ndarray, np.ndarray]],
    d: int,
    seed: int,
    *,
    truth: bool | None,
    n_models: int = 3,
    note: str = "",
) -> Case:
    """A penalised VAE of rows ``(x, z)``; where its truth is open, the MCC decides."""

    def claim() -> Claim:
        x, z = rows()
        penalty = 0.05 * nm.DependencySparsity()
        training = nm.Training(steps=STEPS)
        model = nm.VAE(d, penalty=penalty, n_models=n_models, training=training, random_state=seed).fit(x)
        used = model.structure_.in_use  # the certificate is of these
        found, z_hat = nm.certify(model), model.transform(x)[:, used]
        score = float(nm.metrics.mcc(z, z_hat).score) if len(used) == z.shape[1] else 0.0
        return Claim(found.answer, found, score)

    return Case("fit", claim, truth, note=note)


def fitted_world(
    seed: int, d: int, n: int, gap: int | None, law: str, *, n_models: int = 3, extra: int = 0, start: int | None = None
) -> Case:
    """A fit to a world of the library, with so many latents more than it has, from the seed ``start``."""
    world = nm.worlds.structured(
        nm.worlds.family("random", d, n, gap=gap, random_state=seed), law=law, random_state=seed
    )

    def rows() -> tuple[np.ndarray, np.ndarray]:
        drawn = world.sample(ROWS)
        return drawn.x, drawn.z

    truth = False if n_models == 1 or extra < 0 else True if gap and not extra else None
    note = f"{n}×{d}, gap {gap}, {law}, {n_models} models, {d + extra} latents"
    return fit_case(rows, d + extra, seed if start is None else start, truth=truth, n_models=n_models, note=note)


def some_world(seed: int, name: str, *, gapped: bool = True, **options: Any) -> Case:
    """A fit to a world of random size, gap and law."""
    rng = _rng(seed, name)
    law = str(rng.choice(["gaussian", "unit gaussian", "laplace", "uniform", "correlated gaussian"]))
    for k in range(100):
        d, gap = int(rng.integers(3, 6)), int(rng.integers(1, 4)) if gapped else None
        n = d + int(rng.integers(1, 3)) if gap is None else 3 * d + 2 * gap
        try:
            return fitted_world(seed + 10**7 * k, d, n, gap, law, **options)
        except nm.InputError:  # there may be none of this size and gap
            continue
    raise RuntimeError("no world was found")


def fits(seed: int) -> Case:
    """Worlds with a positive gap: identified, and then right."""
    return some_world(seed, "fits with gap")


def fits_without_gap(seed: int) -> Case:
    """Hardly more observations than latents: a sparser model explains the rows nearly as well."""
    return some_world(seed, "no gap", gapped=False)


def one_seed(seed: int) -> Case:
    """One model of one seed: nothing says that another would find the same."""
    return some_world(seed, "one seed", n_models=1)


def wrong_number(seed: int) -> Case:
    """One latent fewer than there are, or one more, which has to be idle if the others are to be claimed."""
    return some_world(seed, "wrong number", extra=-1 if seed % 2 else 1)


def measured_twice(seed: int) -> Case:
    """Two observations each of a, b and H = a + k·b: three pairs of latents are equally sparse."""
    rng = _rng(seed, "twice")
    k, dependent = (1.2 if seed == 0 else float(rng.uniform(0.6, 1.8))), float(rng.integers(2) * rng.uniform(0.3, 0.7))

    def rows() -> tuple[np.ndarray, np.ndarray]:
        H, b = rng.normal(size=(2, ROWS))
        H = H + dependent * b
        J = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [1, -k], [1, -k]]) * rng.uniform(0.7, 1.3, (6, 1))
        z = np.stack([H, b], axis=1)
        return dressed(J, rng, linear=0)(torch.as_tensor(z)).numpy(), z

    return fit_case(rows, 2, seed, truth=False, note=f"k {k:.2f}, dependence {dependent:.2f}")


def noise(seed: int) -> Case:
    """Independent columns of noise: there is nothing to identify."""
    rng = _rng(seed, "noise")
    n, d = int(rng.integers(6, 16)), int(rng.integers(2, 5))

    def rows() -> tuple[np.ndarray, np.ndarray]:
        return rng.normal(size=(ROWS, n)), rng.normal(size=(ROWS, d))

    return fit_case(rows, d, seed, truth=False, note=f"{n}×{d}")


def vade(seed: int) -> Case:
    """A VaDE fitted to rotation-invariant rows: its components are diagonal whatever the data."""
    rng = _rng(seed, "vade")
    kind = str(rng.choice(ROUND[:3]))

    def claim() -> Claim:
        x = rotation_invariant(kind, 4000, 2, rng) @ rng.normal(size=(2, 4))
        model = nm.VaDE(2, 3, pretraining=200, training=nm.Training(steps=400), random_state=seed).fit(x[:2000])
        return read_mixture(model.mixture_, model.transform(x[2000:]))

    return Case("fit", claim, False, note=kind)


LAWS = {
    "mixtures": mixtures, "sparse components": sparse_components, "representations": representations,
    "partly shared": partly_shared, "audits": audits,
}  # fmt: skip
FITS = {
    "fits with gap": fits, "fits without gap": fits_without_gap, "one seed": one_seed, "wrong number": wrong_number,
    "measured twice": measured_twice, "noise": noise, "vade": vade, "poisson": poisson,
}  # fmt: skip
