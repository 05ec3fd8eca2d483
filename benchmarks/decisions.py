"""Decisions: what estimators, certificates and metrics answer on fixed cases, as JSON, to be compared between machines.

Run: ``python benchmarks/decisions.py [name ...]``. ``answers`` are words, counts and places and must be equal on every
machine; each of ``numbers`` is ``[value, tolerance]`` and may differ by its tolerance. Of a fit only what a few steps
leave stable is taken down: the answer and the choice among seeds, not the weights. ``make test-machines`` compares.
"""

import json
import os
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

import noumena as nm
from noumena.worlds import family, structured

EXACT, SCORE, LOOSE = 1e-9, 1e-6, 1e-3
"""Tolerances: of closed forms in double precision, of scores, of what an iteration in single precision ends at."""
WORLDS = [(3, 9, 1), (3, 10, 1), (4, 14, 1), (4, 16, 2)]
"""Latents, observations and Occam gap of worlds."""


def words(certificate):
    """The answer of a certificate, the verdict of each latent and the answers of its hypotheses."""
    verdicts = [certificate.verdict(t).answer for t in range(certificate.structure.n_latents)]
    return [certificate.answer, certificate.gap, verdicts, [h.answer for h in certificate.hypotheses]]


def rotated(law, n, d, seed=0):
    """Rows of independent latents, and the same behind a rotation."""
    rng = np.random.default_rng(seed)
    z = getattr(rng, law)(size=(n, d))
    return z, z @ np.linalg.qr(rng.normal(size=(d, d)))[0]


# ---- the cases: each returns its answers and its numbers ------------------------------------------------------------


def structures():
    answers = {}
    for seed in range(20):
        d = 3 + seed % 3
        answers[str(seed)] = words(nm.certify(family("random", d, d + seed % 7, random_state=seed)))
    return answers, {}


def worlds():
    answers = {}
    for seed, (d, dx, gap) in enumerate(WORLDS):
        world = structured(family("random", d, dx, gap=gap, random_state=seed), law="uniform", random_state=seed)
        answers[f"{d}x{dx}"] = words(nm.certify(world))
    return answers, {}


def decoders():
    """Decoders of sparse worlds as plain functions at drawn points; a rotation of two latents is not sparse."""
    answers, numbers = {}, {}
    turn = torch.tensor([[0.6, 0.8], [-0.8, 0.6]], dtype=torch.float64)
    for seed, (d, dx, gap) in enumerate(WORLDS):
        world = structured(family("random", d, dx, gap=gap, random_state=seed), law="uniform", random_state=seed)
        z, B = torch.as_tensor(world.sample(200).z), torch.eye(d, dtype=torch.float64)
        B[:2, :2] = turn
        plain, turned = (nm.certify(g, at=v) for g, v in
                         ((world.decode, z), (lambda v, B=B, g=world.decode: g(v @ B.T), z @ B)))  # fmt: skip
        answers[f"{d}x{dx}"] = [plain.answer, plain.structure.dense.astype(int).tolist()]
        answers[f"{d}x{dx} turned"] = [turned.answer, int(turned.structure.dense.sum())]
        strength = plain.structure.evidence.strength
        numbers[f"{d}x{dx} strength"] = [float(strength.mean()), SCORE]
    return answers, numbers


def fits():
    """Few steps, so that rounding has not grown: the answer and the seed chosen."""
    world = structured(family("random", 3, 10, gap=1, random_state=0), random_state=0)
    x, training = world.sample(1000).x, nm.Training(steps=60, batch_size=128)
    answers, numbers = {}, {}
    for kind in (nm.VAE, nm.Autoencoder):
        extra = {"normalise": True} if kind is nm.Autoencoder else {}
        penalty = 0.05 * nm.DependencySparsity(points=32)
        model = kind(3, n_models=3, penalty=penalty, training=training, random_state=0, **extra).fit(x)
        answers[kind.__name__] = [nm.certify(model).answer, model.best_, model.diverged_.tolist()]
        numbers[kind.__name__] = [float(model.objectives_.min()), 1e-2]
    return answers, numbers


def ica():
    answers, numbers = {}, {}
    for law in ("laplace", "uniform"):
        s, x = rotated(law, 2000, 4)
        model = nm.ICA(n_restarts=3).fit(x)
        found = nm.metrics.mcc(s, model.transform(x))
        answers[law] = [model.converged_, model.rank_, np.asarray(found.permutation).tolist()]
        numbers[law] = [found.score, LOOSE]
    return answers, numbers


def sparse_components():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2000, 4)) * (rng.random((2000, 4)) < 0.4)
    x = z @ rng.normal(size=(4, 6))
    model = nm.SparseComponents().fit(x)
    found = nm.metrics.mcc(z, model.transform(x))
    answers = {"count": model.n_components_, "exact": model.exact_.tolist(),
               "matching": np.asarray(found.permutation).tolist()}  # fmt: skip
    return answers, {"MCC": [found.score, SCORE], "share": [float(model.active_share_.mean()), LOOSE]}


def mixtures():
    from noumena.worlds import Mixture

    answers = {}
    for name, second in {"scaled": np.diag([2.0, 4]), "equal": np.eye(2), "nearly": np.diag([2.0, 2 + 1e-3])}.items():
        for exact in (True, False):
            law = Mixture([0.5, 0.5], [[0, 0], [3, 1]], [np.eye(2), second])
            reading = nm.certify(law, by="mixtures", exact=exact)
            answers[f"{name} {exact}"] = [[h.answer for h in reading.hypotheses], str(reading.ambiguity(0))]
    cross = Mixture([0.5, 0.5], [[1, 0], [0, 2]], [np.diag([1.0, 0]), np.diag([0, 1.0])])
    reading = nm.certify(cross, by="degenerate", exact=True)
    answers["cross"] = [[h.answer for h in reading.hypotheses], str(reading.ambiguity(0))]
    return answers, {}


def audits():
    answers, numbers = {}, {}
    for law in ("laplace", "normal"):
        z, turned = rotated(law, 600, 3)
        found = nm.audit([z, turned], shuffles=1)
        answers[law] = [found.axes.found, list(found.axes.which), list(found.axes.gaussian), list(found.kinds)]
        numbers[law] = [float(np.nanmean(found.errors["affine"])), SCORE]
    z, turned = rotated("uniform", 1000, 2)
    answers["nearness"] = nm.certify([z, turned], by="nearness").strongest.name
    return answers, numbers


def metrics():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 4))
    copies = np.c_[z[:, ::-1], -z[:, 0]] + 0  # the first factor is held twice
    noisy = z @ rng.normal(size=(4, 5)) + 0.3 * rng.normal(size=(600, 5))
    answers, numbers = {}, {}
    for name, z_hat in {"copies": copies, "noisy": noisy}.items():
        matched = nm.metrics.mcc(z, z_hat)
        answers[f"{name} MCC"] = np.asarray(matched.permutation).tolist()
        numbers[f"{name} MCC"] = [matched.score, EXACT]
        for metric in (nm.metrics.mig, nm.metrics.sap):
            found = metric(z, z_hat)
            answers[f"{name} {metric.__name__}"] = found.best.tolist()
            numbers[f"{name} {metric.__name__}"] = [found.score, SCORE]
    return answers, numbers


CASES = {case.__name__: case for case in
         (structures, worlds, decoders, fits, ica, sparse_components, mixtures, audits, metrics)}  # fmt: skip


def machine():
    """What the libraries say they run on."""
    from threadpoolctl import threadpool_info

    cores = sorted({library.get("architecture", "") for library in threadpool_info() if "openblas" in str(library)})
    return {"OpenBLAS": cores, "torch": torch.backends.cpu.get_cpu_capability(), "threads": torch.get_num_threads()}


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(int(os.environ.get("NOUMENA_TEST_THREADS", "1")))
    record = {"machine": machine(), "answers": {}, "numbers": {}}
    for name in sys.argv[1:] or CASES:
        record["answers"][name], record["numbers"][name] = CASES[name]()
    print(json.dumps(record))


if __name__ == "__main__":
    main()
