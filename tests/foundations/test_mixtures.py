"""Gaussian mixtures: what they draw is what they say, degenerate components included."""

from itertools import combinations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, ortho_group
from sklearn.mixture import GaussianMixture

from noumena.checks import InputError
from noumena.mixtures import Mixture, Support, common_basis


def random_mixture(seed: int, *, k: int = 3, d: int = 4, ranks: tuple[int, ...] | None = None) -> Mixture:
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(d, r)) for r in (ranks or (d,) * k)]
    return Mixture(rng.dirichlet(np.ones(k)), rng.normal(size=(k, d)), np.stack([F @ F.T for F in factors]))


def log_density(mixture: Mixture, z: np.ndarray) -> np.ndarray:
    parts = zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    return logsumexp([np.log(w) + multivariate_normal(m, c).logpdf(z) for w, m, c in parts], axis=0)


MEANS, ROUND = [[0.0, 0], [1, 1]], [np.eye(2)] * 2


@pytest.mark.parametrize(
    ("weights", "means", "covariances", "sentence"),
    [
        ([0.5, 0.6], MEANS, ROUND, "weights must sum to one. Got a sum of 1.1."),
        ([1.5, -0.5], MEANS, ROUND, "weights must be positive. Got -0.5."),
        ([1.0, 0.0], MEANS, ROUND, "weights must be positive. Got 0."),
        ([1.0], MEANS, ROUND, r"weights must have the shape \(2,\), as the means say. Got shape \(1,\)."),
        ([0.5, np.nan], MEANS, ROUND, "weights must be finite"),
        ([0.5, 0.5], [0.0, 1.0], ROUND, "means must have two axes"),
        ([], np.zeros((0, 2)), np.zeros((0, 2, 2)), "means must have at least 1 rows"),
        ([0.5, 0.5], MEANS, [np.eye(3)] * 2, r"covariances must have the shape \(2, 2, 2\)"),
        ([0.5, 0.5], MEANS, [np.eye(2), np.eye(3)], "covariances must have the shape .* Got shape of unequal rows"),
        ([0.5, 0.5], MEANS, [np.eye(2), [[1, 0.5], [0, 1]]], "must be symmetric. Got component 1 that is not."),
        ([0.5, 0.5], MEANS, [[[1, 2], [2, 1]], np.eye(2)], "a negative eigenvalue. Got -1 in component 0."),
        ([0.5, 0.5], MEANS, [[[0, 1e-3], [1e-3, 1]], np.eye(2)], "a negative eigenvalue"),
    ],
)
def test_a_mixture_that_is_none_is_refused_in_one_sentence(weights, means, covariances, sentence) -> None:
    with pytest.raises(InputError, match=sentence):
        Mixture(weights, means, covariances)


def test_rounding_is_forgiven_and_the_parameters_cannot_be_changed() -> None:
    covariance = np.array([[1.0, 0.5], [0.5 + 1e-12, 0.25 - 1e-12]])
    mixture = Mixture([0.5, 0.5 + 1e-9], MEANS, [covariance, np.eye(2)])
    assert mixture.weights.sum() == pytest.approx(1, abs=1e-15)
    assert np.array_equal(mixture.covariances[0], mixture.covariances[0].T)
    with pytest.raises(ValueError, match="read-only"):
        mixture.means[0, 0] = 3
    assert repr(mixture) == "Mixture(2 components in 2 dimensions)"


def test_samples_have_the_moments_of_their_components() -> None:
    mixture = random_mixture(0, ranks=(4, 2, 0))
    z, u = mixture.sample(60_000, random_state=3)
    assert np.allclose(np.bincount(u) / len(u), mixture.weights, atol=0.01)
    for j in range(3):
        assert np.allclose(z[u == j].mean(axis=0), mixture.means[j], atol=0.1)
        assert np.allclose(np.cov(z[u == j].T), mixture.covariances[j], atol=0.3)
    assert np.allclose(z.mean(axis=0), mixture.mean, atol=0.05)
    assert np.allclose(np.cov(z.T), mixture.covariance, atol=0.1)


def test_the_same_seed_draws_the_same_points_and_another_seed_others() -> None:
    mixture = random_mixture(1)
    z, u = mixture.sample(50, random_state=1)
    again, u_again = mixture.sample(50, random_state=1)
    assert np.array_equal(z, again)
    assert np.array_equal(u, u_again)
    assert not np.array_equal(z, mixture.sample(50, random_state=2)[0])
    with pytest.raises(InputError, match="n must be a whole number"):
        mixture.sample(0)


def test_a_latent_without_variance_is_exactly_its_mean_and_a_tilted_component_stays_on_its_support() -> None:
    rng = np.random.default_rng(2)
    F = np.zeros((3, 2))
    F[:2] = rng.normal(size=(2, 2))
    tilted = rng.normal(size=(3, 1))
    mixture = Mixture([0.5, 0.5], [[1, 2, 0], [0, 0, 1]], [F @ F.T, tilted @ tilted.T])
    z, u = mixture.sample(500)
    assert (z[u == 0, 2] == 0).all()
    support = mixture.supports()[1]
    assert np.abs(support.beside((z[u == 1] - support.point).T)).max() < 1e-12


def test_masked_latents_are_exactly_zero_whatever_the_others_do() -> None:
    rng = np.random.default_rng(3)
    for seed in range(30):
        n = int(rng.integers(2, 12))
        mask = rng.random(n) < 0.5
        F = rng.normal(size=(n, n)) * mask[:, None]
        z, _ = Mixture([1.0], np.zeros((1, n)), [F @ F.T]).sample(5, random_state=seed)
        assert np.array_equal(z != 0, np.tile(mask, (5, 1)))


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_a_fitted_gaussian_mixture_keeps_its_density(kind: str) -> None:
    z, _ = random_mixture(3, d=3).sample(400)
    fitted = GaussianMixture(2, covariance_type=kind, random_state=0).fit(z)
    mixture = Mixture.of(fitted)
    assert np.allclose(log_density(mixture, z), fitted.score_samples(z))
    assert Mixture.of(mixture) is mixture


def test_what_is_no_mixture_is_refused() -> None:
    with pytest.raises(InputError, match=r"a Mixture or a fitted GaussianMixture\. Got a ndarray\."):
        Mixture.of(np.eye(2))
    with pytest.raises(InputError, match="Got a GaussianMixture"):
        Mixture.of(GaussianMixture(2))


def test_an_affine_image_is_the_law_of_the_mapped_points() -> None:
    mixture, rng = random_mixture(4), np.random.default_rng(4)
    A, b = rng.normal(size=(2, 4)), rng.normal(size=2)
    pushed = mixture.pushed(A, b)
    for j in range(3):
        assert np.allclose(pushed.means[j], A @ mixture.means[j] + b)
        assert np.allclose(pushed.covariances[j], A @ mixture.covariances[j] @ A.T)
    assert np.array_equal(pushed.weights, mixture.weights)
    z, _ = mixture.sample(20)
    square = rng.normal(size=(4, 4))
    jacobian = np.linalg.slogdet(square)[1]
    back = mixture.pushed(square)
    assert np.allclose(log_density(back, z @ square.T) + jacobian, log_density(mixture, z))
    with pytest.raises(InputError, match="A must have 4 columns"):
        mixture.pushed(np.eye(3))
    with pytest.raises(InputError, match="b must have 4 entries"):
        mixture.pushed(np.eye(4), np.zeros(3))


def test_a_marginal_is_an_image_by_a_selection() -> None:
    mixture = random_mixture(5)
    marginal, pushed = mixture.marginal([2, 0]), mixture.pushed(np.eye(4)[[2, 0]])
    assert np.allclose(marginal.means, pushed.means)
    assert np.allclose(marginal.covariances, pushed.covariances)
    for wrong in ([], [0, 0], [4], [-1]):
        with pytest.raises(InputError, match="indices must be distinct latents among 0 to 3"):
            mixture.marginal(wrong)


def test_ranks_and_supports_are_those_the_components_were_built_with() -> None:
    for seed in range(20):
        mixture = random_mixture(seed, k=4, d=4, ranks=(0, 1, 3, 4))
        assert mixture.ranks().tolist() == [0, 1, 3, 4]
        for support, covariance in zip(mixture.supports(), mixture.covariances, strict=True):
            assert np.allclose(support.basis.T @ support.basis, np.eye(support.rank))
            assert np.abs(support.beside(covariance)).max() < 1e-9
    nearly = Mixture([1.0], [[0, 0]], [np.diag([1, 1e-4])])
    assert nearly.ranks().tolist() == [2]
    assert nearly.ranks(tolerance=1e-3).tolist() == [1]
    assert nearly.pushed(1e-6 * np.eye(2)).ranks().tolist() == [2]
    small = Mixture([0.5, 0.5], [[0, 0], [0, 0]], [np.eye(2), 1e-12 * np.eye(2)])
    assert small.ranks().tolist() == [2, 0]  # relative to the whole mixture


def test_units_do_not_change_the_standardised_mixture() -> None:
    mixture = random_mixture(6)
    units = np.diag([1e-3, 1.0, 50.0, 1e6])
    assert np.allclose(mixture.pushed(units).standardised().covariances, mixture.standardised().covariances)
    spread = mixture.standardised().weights @ np.diagonal(mixture.standardised().covariances, axis1=1, axis2=2)
    assert np.allclose(spread, 1)
    still = Mixture([0.5, 0.5], [[0, 5, 2], [0, 5, 4]], [np.zeros((3, 3))] * 2).standardised()
    assert np.allclose(still.means, [[0, 1, 2], [0, 1, 4]])


def test_equal_components_are_merged_without_changing_the_law() -> None:
    mixture = random_mixture(7, k=2, d=2)
    k = [0, 1, 0, 0]
    repeated = Mixture([0.1, 0.4, 0.2, 0.3], mixture.means[k], mixture.covariances[k])
    assert repeated.distinct() == (0, 1, 0, 0)
    reduced = repeated.reduced()
    assert reduced.weights.tolist() == pytest.approx([0.6, 0.4])
    z, _ = mixture.sample(30)
    assert np.allclose(log_density(reduced, z), log_density(repeated, z))
    wider = Mixture([0.5, 0.5], [[0, 0], [0, 0]], [np.eye(2), np.diag([1, 1.1])])
    assert wider.distinct() == (0, 1)
    assert wider.distinct(tolerance=0.2) == (0, 0)
    moved = Mixture([0.5, 0.5], [[0, 0], [0.1, 0]], [np.eye(2)] * 2)
    assert moved.distinct() == (0, 1)
    assert moved.distinct(tolerance=0.2) == (0, 0)


# ---- supports --------------------------------------------------------------------------------------------


def subspace(rng: np.random.Generator, basis: np.ndarray, chosen: tuple[int, ...], point: np.ndarray) -> Support:
    """The span of some columns of a basis, in random coordinates, through a point."""
    mixed = basis[:, list(chosen)] @ rng.normal(size=(len(chosen), len(chosen)))
    return Support(point + mixed @ rng.normal(size=len(chosen)), np.linalg.svd(mixed, full_matrices=False)[0])


def test_subspaces_of_one_basis_meet_as_their_index_sets_do() -> None:
    rng = np.random.default_rng(8)
    for _ in range(200):
        d = int(rng.integers(1, 6))
        basis, point = rng.normal(size=(d, d)), rng.normal(size=d)
        first, second = (tuple(int(i) for i in np.flatnonzero(rng.random(d) < 0.6)) for _ in range(2))
        A, B = subspace(rng, basis, first, point), subspace(rng, basis, second, point)
        meeting = A.meet(B)
        assert meeting is not None
        expected = subspace(rng, basis, tuple(sorted(set(first) & set(second))), point)
        assert meeting.rank == expected.rank
        assert meeting.contains(expected, tolerance=1e-6)
        assert expected.contains(meeting, tolerance=1e-6)
        assert A.contains(B, tolerance=1e-6) == (set(second) <= set(first))
        assert A.contains(Support(A.point, B.basis), tolerance=1e-6) == (set(second) <= set(first))
        if len(set(first) | set(second)) < d:  # move one of them out of the joint span
            outside = sorted(set(range(d)) - set(first) - set(second))[0]
            assert Support(A.point + basis[:, outside], A.basis).meet(B) is None


def test_a_parallel_line_is_neither_met_nor_contained() -> None:
    line = Support(np.zeros(2), np.array([[1.0], [0.0]]))
    beside = Support(np.array([0.0, 1e-3]), line.basis)
    assert line.meet(beside) is None
    assert not line.contains(beside)
    assert line.contains(beside, tolerance=0.01)
    meeting = line.meet(beside, tolerance=0.01)
    assert meeting is not None
    assert meeting.rank == 1


def is_a_basis_of_all(columns: np.ndarray, spans: list[np.ndarray]) -> bool:
    """Independent columns, as many of which lie in each span as it has dimensions."""
    found = [np.abs(Support(np.zeros(len(columns)), span).beside(columns)).max(axis=0) < 1e-6 for span in spans]
    enough = all(inside.sum() == span.shape[1] for inside, span in zip(found, spans, strict=True))
    return enough and bool(np.linalg.svd(columns, compute_uv=False).min() > 1e-6)


def test_spans_of_parts_of_one_basis_have_a_common_basis() -> None:
    rng = np.random.default_rng(9)
    for _ in range(100):
        d, k = int(rng.integers(1, 6)), int(rng.integers(1, 8))
        basis = rng.normal(size=(d, d))
        chosen = [tuple(int(i) for i in np.flatnonzero(rng.random(d) < 0.5)) for _ in range(k)]
        spans = [subspace(rng, basis, c, np.zeros(d)).basis for c in chosen]
        columns = common_basis(spans, tolerance=1e-7)
        assert columns is not None
        assert columns.shape == (d, d)
        assert is_a_basis_of_all(columns, spans)


def rank(*bases: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(np.column_stack(bases), tol=1e-9)) if bases else 0


def test_three_spans_have_a_common_basis_exactly_when_they_are_distributive() -> None:
    """For three subspaces that is dim(A+B+C) = Σ dim − Σ dim of pairs' intersections + dim of the intersection."""
    rng, answers = np.random.default_rng(10), []
    for _ in range(300):
        d = int(rng.integers(2, 5))
        spans = []
        for _ in range(3):
            raw = rng.integers(-1, 2, size=(d, int(rng.integers(1, d + 1)))).astype(float)
            left, values, _ = np.linalg.svd(raw)
            spans.append(left[:, : int((values > 1e-9).sum())])
        pairs = sum(rank(a) + rank(b) - rank(a, b) for a, b in combinations(spans, 2))
        A, B, C = (Support(np.zeros(d), s) for s in spans)
        meeting = A.meet(B)
        assert meeting is not None
        triple = meeting.meet(C)
        assert triple is not None
        distributive = rank(*spans) == sum(rank(s) for s in spans) - pairs + triple.rank
        columns = common_basis(spans)
        assert (columns is not None) == distributive
        if columns is not None:
            assert is_a_basis_of_all(columns, spans)
        answers.append(distributive)
    assert 30 < sum(answers) < 270


def test_a_span_too_many_destroys_the_common_basis() -> None:
    """Four planes of ℝ³ in general position: any three share a basis, the four do not; so for lines in a plane."""
    normals = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    planes = [np.linalg.svd(normal[None])[2][1:].T for normal in normals]
    assert all(common_basis(list(three)) is not None for three in combinations(planes, 3))
    assert common_basis(planes) is None
    hyperplanes = [np.delete(np.eye(8), i, axis=1) for i in range(8)]  # 255 intersections, eight blocks
    columns = common_basis(hyperplanes)
    assert columns is not None
    assert is_a_basis_of_all(columns, hyperplanes)


def test_a_rotated_mixture_has_rotated_supports() -> None:
    rotation = ortho_group(4, seed=0).rvs()
    mixture = random_mixture(11, ranks=(1, 2, 3))
    for support, turned in zip(mixture.supports(), mixture.pushed(rotation).supports(), strict=True):
        image = Support(rotation @ support.point, rotation @ support.basis)
        assert image.contains(turned)
        assert turned.contains(image)
