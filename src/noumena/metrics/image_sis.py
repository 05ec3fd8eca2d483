"""Image SIS: does each learned slot know one object of its image, and no other, where slots have no fixed order?

Slots are exchangeable from image to image, so one readout serves all of them: kernel ridge regression (RBF, γ = 1/d,
α = 1, standardised; Nyström with at most 300 landmarks) from a slot to all latents of an object. Slots are matched to
objects image by image at the readout's least error (Hungarian), and readout and matching are fitted in alternation. A
second readout is fitted in the same way to slots *other* than an object's own. On held-out images ``own`` and
``other``
are what the two tell of every latent, pooled over objects: R² of a continuous one, balanced accuracy of a discrete one
scaled from chance to 1; below 0 counts 0. The score is ``Σ (own − other)`` over latents, divided by the same of the
truth, the objects themselves as slots in random order (and mean slots where more were learned): smoothing, dependent
objects and matching by error affect the truth and the learned slots alike.

References
----------
Brady et al. (2023), "Provably Learning Object-Centric Representations", and its public code.

Deviations: readouts are kernel ridges, as in ``sis``, not networks of five layers trained by matched gradient steps:
the same result for the same seed. Alternation starts from the readout of a uniform matching, undone for its shrinkage,
and from linear readouts of random matchings; the least error is kept. Public code uses of the truth only what other
slots tell of an object, ``r``: ``(own − r)/(1 − r) − clip((other − r)/(1 − r))``; here the difference is divided by
that of the truth. Public code overwrites the share of discrete latents by that of continuous ones, so that discrete
latents count 0; here every latent counts as much as the truth tells of it. Discrete latents: balanced accuracy of the
class most above its frequency, not accuracy. Slots may be more than objects (background) or fewer; an object without a
slot is predicted by the mean. Absent objects are named by ``present``, not by a value of their latents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.factors import FactorTable, factors_of
from noumena.metrics.preprocessing import HELD_OUT, in_range, slices
from noumena.metrics.record import MetricRecord, evaluate

MOST_IMAGES = 1000
LANDMARKS = 300
RANDOM_STARTS, MOST_TURNS = 3, 10
LEAST_CEILING = 0.05
"""Where the truth itself gets less, objects cannot be told apart, and the score is 0."""
FORBIDDEN = 1e9

Slots = Float[np.ndarray, "image slot _"]
Objects = Float[np.ndarray, "image object _"]
Allowed = Bool[np.ndarray, "image slot object"]
Matching = Int[np.ndarray, "image object"]


@dataclass(frozen=True, kw_only=True)
class ImageSlotIdentifiability(MetricRecord):
    """Result of ``image_sis``.

    Attributes
    ----------
    score : float
        ``raw / raw_ceiling``, in [−1, 1].
    raw, raw_ceiling : float
        Mean of ``own − other`` of the learned slots, and of the truth.
    own, other : array of shape (n_latents,)
        What an object's slot and another slot tell of every latent.
    matching : array of shape (n_images, n_objects)
        The slot of every object; −1: none.
    images, rows, held_out, kinds
        Images looked at, how many were scored on, and which latents were discrete.
    """

    TITLE: ClassVar[str] = "Image SIS"
    RANGE: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    SUPPORTS: ClassVar[str] = (
        "In every image each object has a slot of its own that tells its latents as well "
        "as they can be told, and no other slot's; what happens inside a slot is not judged."
    )

    score: float
    raw: float
    raw_ceiling: float
    own: np.ndarray
    other: np.ndarray
    matching: np.ndarray
    images: np.ndarray
    rows: int
    held_out: bool
    kinds: str


@renamed(seed="random_state", bootstrap="subsamples", most_images="max_rows")
def image_sis(
    objects: Any,
    slots: Any,
    *,
    discrete: Any = None,
    present: Any = None,
    held_out: bool = True,
    max_rows: int = MOST_IMAGES,
    shuffles: int = 1,
    subsamples: int = 0,
    random_state: Any = 0,
) -> ImageSlotIdentifiability:
    """Slot identifiability score of the slots of images against their true objects.

    The score of the truth is always measured, as it is divided by. A constant latent of objects adds nothing.

    Parameters
    ----------
    objects : array of shape (n_images, n_objects, n_latents)
        Latents of the true objects.
    slots : array of shape (n_images, n_slots, n_features)
        Learned slots of the same images.
    discrete : bool, list of bool, list of int or list of str, optional
        Which latents of an object are discrete; detected by default.
    present : array of bool of shape (n_images, n_objects), optional
        Which objects an image has; all by default.
    held_out : bool
        Score on a fifth of the images that the readouts were not fitted on.
    max_rows : int
        More images are subsampled to so many.
    shuffles, subsamples : int
        Shuffles of the images for the chance level and half-samples for the standard error; 0: not measured.
    random_state : int, Generator or None
        Seed of images, readouts, shuffles and subsamples.

    Returns
    -------
    ImageSlotIdentifiability

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(200, 2, 2))
    >>> z_hat = np.where(np.arange(200)[:, None, None] % 2 == 0, z[:, ::-1], z) ** 3  # every other image swapped
    >>> image_sis(z, z_hat).matching[:2].tolist()
    [[1, 0], [0, 1]]
    """
    seed = seeds.seed_of(random_state)
    objects, slots = _cube(objects, "objects"), _finite(_cube(slots, "slots"), "slots")
    there = _present(present, objects.shape[:2])
    objects = _finite(objects if there.all() else np.where(there[:, :, None], objects, 0), "objects")
    checks.same_batch(objects, slots, ("objects", "slots"))
    n, k, d = objects.shape
    objects, slots = (in_range(a.reshape(-1, a.shape[2])).reshape(a.shape) for a in (objects, slots))
    factors = factors_of(objects[there], discrete)
    coded, layout = _coded(objects, there, factors)
    most = checks.count(max_rows, "max_rows", minimum=10)

    def readouts(a: Objects, b: Slots) -> tuple[float, dict[str, Any]]:
        fields = _readouts(a, b, layout, most=most, held_out=held_out, seed=seed)
        return float((fields["own"] - fields["other"]).mean()), fields

    def measure(a: np.ndarray, b: np.ndarray) -> ImageSlotIdentifiability:
        a, b = a.reshape(len(a), k, -1), b.reshape(len(b), *slots.shape[1:])
        ceiling = best if len(a) == n else readouts(a, _true_slots(a, b.shape[1], seed))[0]
        raw, fields = readouts(a, b)
        known = ceiling > LEAST_CEILING
        return ImageSlotIdentifiability(
            score=float(np.clip(raw / ceiling, -1, 1)) if known else 0.0,
            raw=raw,
            raw_ceiling=ceiling,
            held_out=held_out,
            kinds=str(factors),
            forgives=Ambiguity("block-wise", blocks),
            ceiling=float(known),
            **fields,
        )

    best, _ = readouts(coded, _true_slots(coded, slots.shape[1], seed))
    blocks = tuple(tuple(range(j * d, j * d + d)) for j in range(k))
    flat = coded.reshape(n, -1), slots.reshape(n, -1)
    return evaluate(measure, *flat, shuffles=shuffles, subsamples=subsamples, seed=seed)


# ---- scores of readouts -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Layout:
    """The columns of every latent of an object, one for each class of a discrete one."""

    parts: tuple[slice, ...]
    discrete: tuple[bool, ...]

    def scales(self, rows: np.ndarray) -> np.ndarray:
        """The spread of every latent, for each of its columns; 1 for a constant."""
        spreads = [float(rows[:, part].var(axis=0).sum()) ** 0.5 * bool(np.ptp(rows[:, part])) for part in self.parts]
        widths = [part.stop - part.start for part in self.parts]
        return np.repeat([spread or 1.0 for spread in spreads], widths)

    def scores(self, rows: np.ndarray, guesses: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        """R² or scaled balanced accuracy of every latent; below 0 counts 0."""
        kinds = zip(self.parts, self.discrete, strict=True)
        return np.array(
            [
                _classified(rows[:, part], guesses[:, part], frequencies[part])
                if discrete
                else _explained(rows[:, part], guesses[:, part])
                for part, discrete in kinds
            ]
        ).clip(min=0)


def _readouts(
    objects: Objects, slots: Slots, layout: _Layout, *, most: int, held_out: bool, seed: int
) -> dict[str, Any]:
    """Scores of both readouts, fitted on some images and scored on others; objects with NaN are absent."""
    seen = np.flatnonzero((~np.isnan(objects[:, :, 0])).any(axis=1))
    order = seeds.numpy_generator(seed, "images of image sis").permutation(seen)[:most]
    images, held = np.sort(order), order[: max(2, round(HELD_OUT * len(order)))]
    judge = np.isin(images, held) if held_out else np.ones(len(images), dtype=bool)
    fit = ~judge if held_out else judge
    objects, slots = objects[images], slots[images]
    there = ~np.isnan(objects[:, :, 0])
    rows = objects[fit][there[fit]]
    mean, scale = rows.mean(axis=0), layout.scales(rows)
    targets = np.where(there[:, :, None], (objects - mean) / scale, 0.0)
    rng = seeds.numpy_generator(seed, "readouts of image sis")
    readout = _Readout(*_features(slots, fit, rng), targets, fit, rng)
    allowed = np.broadcast_to(there[:, None], (len(images), slots.shape[1], there.shape[1]))
    own, matching = readout.settled(allowed)
    other, _ = readout.settled(allowed & (matching[:, None] != np.arange(slots.shape[1])[:, None]))
    rows, guesses = objects[judge][there[judge]], [(g * scale + mean)[judge][there[judge]] for g in (own, other)]
    scores = [layout.scores(rows, guess, mean) for guess in guesses]
    return {
        "own": scores[0], "other": scores[1], "matching": matching, "images": images, "rows": int(judge.sum()),
    }  # fmt: skip


def _explained(y: np.ndarray, guess: np.ndarray) -> float:
    """R² of one latent; 0 for a constant."""
    return 1 - float(((y - guess) ** 2).sum() / ((y - y.mean()) ** 2).sum()) if np.ptp(y) > 0 else 0.0


def _classified(y: np.ndarray, guess: np.ndarray, frequencies: np.ndarray) -> float:
    """Balanced accuracy of the class most above its frequency, from 0 for guesses to 1; 0 for a single class."""
    known = frequencies > 0
    named = np.where(known, guess / np.where(known, frequencies, 1), -np.inf).argmax(axis=1)
    there, right = y.any(axis=0), y[np.arange(len(y)), named]
    classes = int(there.sum())
    recall = (y * right[:, None]).sum(axis=0)[there] / y.sum(axis=0)[there]
    return float(recall.mean() - 1 / classes) / (1 - 1 / classes) if classes > 1 else 0.0


# ---- one readout for all slots ----------------------------------------------------------------------------


class _Readout:
    """A ridge regression from any slot to its object's latents, fitted in alternation with the matching."""

    def __init__(
        self, smooth: Slots, linear: Slots, targets: Objects, fit: np.ndarray, random: np.random.Generator
    ) -> None:
        self.smooth, self.linear, self.targets, self.fit, self.random = smooth, linear, targets, fit, random

    def settled(self, allowed: Allowed) -> tuple[Objects, Matching]:
        """The best readout's guess for every object, 0 without a slot, and the slots it is read from."""
        smooth, linear, targets, here = (
            self.smooth[self.fit],
            self.linear[self.fit],
            self.targets[self.fit],
            allowed[self.fit],
        )
        starts = [_uniform(smooth, targets, here)]
        for _ in range(RANDOM_STARTS):
            drawn = _matched(self.random.random(here.shape), here)
            starts.append(_alternated(linear, targets, here, drawn)[0])
        ends = [_alternated(smooth, targets, here, start) for start in starts]
        _, weights, _ = min(ends, key=lambda end: end[2])
        guesses = self.smooth @ weights
        matching = _matched(_errors(guesses, self.targets), allowed)
        read = np.take_along_axis(guesses, np.maximum(matching, 0)[:, :, None], axis=1)
        return np.where(matching[:, :, None] >= 0, read, 0.0), matching


def _alternated(
    features: Slots, targets: Objects, allowed: Allowed, matching: Matching
) -> tuple[Matching, np.ndarray, float]:
    """Readout and matching in alternation until the matching is stable; matching, weights, error."""
    weights, error = np.zeros((features.shape[2], targets.shape[2])), float("inf")
    for _ in range(MOST_TURNS):
        image, k = np.nonzero(matching >= 0)
        weights = _ridge(features[image, matching[image, k]], targets[image, k])
        errors = _errors(features @ weights, targets)
        before, matching = matching, _matched(errors, allowed)
        image, k = np.nonzero(matching >= 0)
        error = float(errors[image, matching[image, k], k].sum())
        if np.array_equal(before, matching):
            break
    return matching, weights, error


def _uniform(features: Slots, targets: Objects, allowed: Allowed) -> Matching:
    """The matching by the readout of a slot's mean object, enlarged by the number of objects in that mean."""
    counts = allowed.sum(axis=2)
    means = allowed @ targets / np.maximum(counts, 1)[:, :, None]
    used = counts > 0
    guesses = features @ _ridge(features[used], means[used])
    return _matched(_errors(counts[:, :, None] * guesses, targets), allowed)


def _ridge(features: Float[np.ndarray, "row feature"], targets: Float[np.ndarray, "row column"]) -> np.ndarray:
    """Weights of least squares with α = 1."""
    from scipy.linalg import solve

    gram = features.T @ features + np.eye(features.shape[1])
    return solve(gram, features.T @ targets, assume_a="pos")


def _errors(guesses: Slots, targets: Objects) -> Float[np.ndarray, "image slot object"]:
    """Squared distances of every guess to every object of its image."""
    cross = guesses @ targets.transpose(0, 2, 1)
    return (guesses**2).sum(axis=2)[:, :, None] + (targets**2).sum(axis=2)[:, None] - 2 * cross


def _matched(errors: Float[np.ndarray, "image slot object"], allowed: Allowed) -> Matching:
    """The slot of every object at the least error of an image, among those allowed; −1: none."""
    from scipy.optimize import linear_sum_assignment

    costs = np.where(allowed, errors, FORBIDDEN)
    matching = np.full((len(errors), errors.shape[2]), -1)
    for image, cost in enumerate(costs):
        slot, k = linear_sum_assignment(cost)
        matching[image, k] = np.where(cost[slot, k] < FORBIDDEN, slot, -1)
    return matching


def _features(slots: Slots, fit: np.ndarray, rng: np.random.Generator) -> tuple[Slots, Slots]:
    """Nyström features of the kernel of standardised slots, and the slots themselves with a constant."""
    pooled = slots[fit].reshape(-1, slots.shape[2])
    varies = np.ptp(pooled, axis=0) > 0
    x = np.where(varies, (slots - pooled.mean(axis=0)) / np.where(varies, pooled.std(axis=0), 1), 0.0)
    landmarks = x[fit].reshape(len(pooled), -1)[np.sort(rng.permutation(len(pooled))[:LANDMARKS])]
    sizes, vectors = np.linalg.eigh(_kernel(landmarks, landmarks))
    positive = sizes > 1e-10 * sizes[-1]
    flat = _kernel(x.reshape(-1, x.shape[2]), landmarks) @ (vectors[:, positive] / np.sqrt(sizes[positive]))
    return flat.reshape(*x.shape[:2], -1), np.concatenate([x, np.ones((*x.shape[:2], 1))], axis=2)


def _kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    from scipy.spatial.distance import cdist

    return np.exp(-cdist(x, y, "sqeuclidean") / x.shape[1])


# ---- input ------------------------------------------------------------------------------------------------


def _cube(x: Any, name: str) -> np.ndarray:
    """An array of three axes."""
    try:
        array = x.detach().cpu().double().numpy() if hasattr(x, "detach") else np.asarray(x)
    except ValueError as error:
        raise checks.InputError(
            f"{name} must be a rectangular array of numbers. Got rows of unequal length."
        ) from error
    must = f"{name} must have three axes, (image, {name[:-1]}, dim)."
    checks.require(array.ndim == 3, must, f"shape {array.shape}")
    return array


def _finite(cube: np.ndarray, name: str) -> np.ndarray:
    flat = cube.reshape(len(cube), cube.shape[1] * cube.shape[2])
    return checks.table(flat, name, min_rows=10).astype(np.float64).reshape(cube.shape)


def _present(present: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Which objects an image has; all by default."""
    if present is None:
        return np.ones(shape, dtype=bool)
    there = np.asarray(present.detach().cpu() if hasattr(present, "detach") else present)
    must, shown = f"present must be boolean, of the shape {shape} of objects.", f"{there.dtype} of shape {there.shape}"
    checks.require(there.dtype == bool and there.shape == shape, must, shown)
    seen = int(there.any(axis=1).sum())
    checks.require(seen >= 10, "present must name an object in at least 10 images.", f"{seen}")
    return there


def _coded(objects: Objects, there: np.ndarray, factors: FactorTable) -> tuple[Objects, _Layout]:
    """Objects with one-hot columns for discrete latents, NaN where absent; and the columns of every latent."""
    blocks = []
    for j, discrete in enumerate(factors.discrete):
        values = objects[:, :, j]
        levels = np.unique(values[there])
        blocks.append((values[:, :, None] == levels).astype(np.float64) if discrete else values[:, :, None])
    parts = slices(tuple(block.shape[2] for block in blocks))
    coded = np.where(there[:, :, None], np.concatenate(blocks, axis=2), np.nan)
    return coded, _Layout(tuple(parts), factors.discrete)


def _true_slots(objects: Objects, n_slots: int, seed: int) -> Slots:
    """The objects themselves as slots, in another order in every image; absent and further ones are the mean."""
    there = ~np.isnan(objects[:, :, 0])
    mean = objects[there].mean(axis=0)
    further = np.broadcast_to(mean, (len(objects), max(0, n_slots - there.shape[1]), len(mean)))
    filled = np.concatenate([np.where(there[:, :, None], objects, mean), further], axis=1)
    order = seeds.numpy_generator(seed, "order of true slots").random(filled.shape[:2]).argsort(axis=1)
    return np.take_along_axis(filled, order[:, :, None], axis=1)
