"""The demo: one bias, two worlds, and a certificate that tells them apart before anyone looks at the truth.

World A has 20 observations of 5 latents and a positive Occam gap: sparsity recovers latents and structure. World B has
5
observations, the setting of the literature: every seed finds the same latents, and they are wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.decomposition import PCA, FastICA
from sklearn.exceptions import ConvergenceWarning

from noumena.ambiguity import align
from noumena.estimators import VAE, Training
from noumena.guarantees import StructureCertificate, certify
from noumena.metrics import agreement, mcc, structure_distance
from noumena.metrics.correlation import Correlation
from noumena.penalties import DependencySparsity
from noumena.worlds import Sample, World, family, structured

N_LATENTS = 5
N_ROWS = 10_000
N_MODELS = 8
BIAS = 0.05 * DependencySparsity(points=64)
JUDGED_ROWS = 2000
"""Rows on which models are compared with each other and with the truth."""


@dataclass(frozen=True)
class DemoWorld:
    """A world of the demo: its name, size, Occam gap, nonlinearity and conditioning."""

    name: str
    title: str
    n_observed: int
    gap: int
    strength: float
    margin: float

    def world(self, seed: int) -> World:
        """The world of this setting for a seed."""
        structure = family("random", N_LATENTS, self.n_observed, gap=self.gap, random_state=seed)
        return structured(structure, strength=self.strength, margin=self.margin, random_state=seed)


SETTINGS = (
    DemoWorld("A", "20 observations of 5 latents", n_observed=20, gap=3, strength=1.0, margin=0.02),
    DemoWorld(
        "B", "5 observations of 5 latents, as in the literature", n_observed=5, gap=-3, strength=0.4, margin=0.08
    ),
)


@dataclass(frozen=True)
class Story:
    """What happened in one world: the truth, the fits with and without the bias, the certificate, the scores."""

    setting: DemoWorld
    world: World
    sample: Sample
    biased: VAE
    plain: VAE
    certificate: StructureCertificate
    """Of the fitted model with the bias; it never sees the truth."""
    truth: StructureCertificate
    agreement: float
    scores: dict[str, np.ndarray]
    """MCC of every seed with and without the bias, and of the baselines."""
    structure_f1: float

    @cached_property
    def judged(self) -> tuple[np.ndarray, np.ndarray]:
        """True latents, and those of the chosen seed with the bias, of the rows on which models are judged."""
        return self.sample.z[:JUDGED_ROWS], self.biased.transform(self.sample.x[:JUDGED_ROWS])

    @cached_property
    def correlation(self) -> Correlation:
        """Of the judged latents."""
        return mcc(*self.judged)

    @cached_property
    def aligned(self) -> np.ndarray:
        """The judged learned latents, each in the place of the true one it stands for."""
        return align(*self.judged).aligned

    @cached_property
    def columns(self) -> np.ndarray:
        """For each true latent, the column of the learned structure that matches it."""
        return structure_distance(self.world.structure, self.biased.structure_).permutation

    @property
    def row(self) -> dict[str, Any]:
        """The story as one row of the demo's table; models are chosen by their objective."""
        return {
            "world": self.setting.name,
            "gap": self.truth.gap,
            "world is": self.truth.answer,
            "fit is": self.certificate.answer,
            "agreement": self.agreement,
            "MCC": float(self.scores["with bias"][self.biased.best_]),
            "no bias": float(self.scores["without bias"][self.plain.best_]),
            "x": float(self.scores["x itself"][0]),
            "PCA": float(self.scores["PCA"][0]),
            "ICA": float(self.scores["linear ICA"][0]),
            "F1": self.structure_f1,
        }


def tell(
    seed: int = 0,
    *,
    steps: int = 3000,
    device: str = "cpu",
    n_jobs: int = 2,
    progress: Callable[[str], None] = lambda sentence: None,
) -> list[Story]:
    """Build both worlds, fit each with and without the bias (8 seeds in one batch), certify, then compare with the
    truth."""
    worlds = [setting.world(seed) for setting in SETTINGS]
    samples = [world.sample(N_ROWS) for world in worlds]
    jobs = [(w, biased) for w in range(len(worlds)) for biased in (True, False)]
    training = Training(steps=steps, device=device)
    fits: dict[tuple[int, bool], VAE] = {}
    running: Any = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
        delayed(_fit)(w, biased, samples[w].x, training) for w, biased in jobs
    )
    for w, biased, model in running:
        fits[w, biased] = model
        word = "with" if biased else "without"
        progress(f"world {SETTINGS[w].name}: {N_MODELS} seeds {word} the bias are fitted")
    return [_story(SETTINGS[w], worlds[w], samples[w], fits[w, True], fits[w, False]) for w in range(len(worlds))]


def _fit(w: int, biased: bool, x: np.ndarray, training: Training) -> tuple[int, bool, VAE]:
    penalty = BIAS if biased else None
    model = VAE(N_LATENTS, penalty=penalty, n_models=N_MODELS, training=training, random_state=0)
    return w, biased, model.fit(x)


def _story(setting: DemoWorld, world: World, sample: Sample, biased: VAE, plain: VAE) -> Story:
    certificate = certify(biased)
    z, x = sample.z[:JUDGED_ROWS], sample.x[:JUDGED_ROWS]
    latents = biased.transform_all(x)
    scores = {
        "with bias": np.array([mcc(z, z_hat).score for z_hat in latents]),
        "without bias": np.array([mcc(z, z_hat).score for z_hat in plain.transform_all(x)]),
        **{name: np.array([mcc(z, code).score]) for name, code in _baselines(sample.x).items()},
    }
    distance = structure_distance(world.structure, biased.structure_)
    return Story(
        setting,
        world,
        sample,
        biased,
        plain,
        certificate,
        certify(world),
        agreement(latents).score,
        scores,
        distance.score,
    )


def _baselines(x: np.ndarray) -> dict[str, np.ndarray]:
    """Codes that need no learning: the observations, their principal components, linear ICA."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Gaussian data: ICA has nothing to find, and shows it
        ica = FastICA(N_LATENTS, whiten="unit-variance", random_state=0).fit_transform(x)
    codes = {"x itself": x, "PCA": PCA(N_LATENTS, random_state=0).fit_transform(x), "linear ICA": ica}
    return {name: code[:JUDGED_ROWS] for name, code in codes.items()}
