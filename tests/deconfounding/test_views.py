"""White components are white where they were found, rotations keep them so, and ICA finds the axes."""

import numpy as np
import pytest
from batches import batches

from noumena.checks import InputError
from noumena.deconfounding.conditions import centred, components_kept, rotation, unmixed, whitening

X = batches().x


def test_components_are_white_on_the_rows_they_were_found_on_and_affine_elsewhere():
    found = whitening(X[:200], n_components="all")
    white = found(X)
    np.testing.assert_allclose(np.cov(white[:200].T), np.eye(5), atol=1e-10)
    np.testing.assert_allclose(white[:200].mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(found(0.3 * X[:5] + 0.7 * X[5:10]), 0.3 * white[:5] + 0.7 * white[5:10], atol=1e-9)
    assert not np.allclose(np.cov(white[200:].T), np.eye(5), atol=1e-3)


def test_standardised_components_forget_the_scale_of_features_and_others_do_not():
    scaled = X * np.array([1e4, 1, 1e-3, 5, 1])
    same = [np.abs(whitening(t, n_components=2)(t)) for t in (X, scaled)]
    np.testing.assert_allclose(same[0], same[1], atol=1e-8)
    other = [np.abs(whitening(t, n_components=2, standardise=False)(t)) for t in (X, scaled)]
    assert not np.allclose(other[0], other[1], atol=0.1)


def test_components_agree_with_those_of_scikit_learn():
    from sklearn.decomposition import PCA

    ours = whitening(X, n_components=3, standardise=False)(X)
    theirs = PCA(3, whiten=True, svd_solver="full").fit_transform(X)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-8)


def test_constant_features_are_left_out():
    found = whitening(np.c_[X, np.full(len(X), 2.0)], n_components="all")
    assert found.kept.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match=r"X must vary in some feature\. Got constant features only\."):
        whitening(np.ones((5, 2)))


def test_more_features_than_rows_keep_at_most_the_rank():
    wide = np.random.default_rng(0).normal(size=(12, 40))
    assert whitening(wide, n_components="all").matrix.shape == (40, 11)
    asked = whitening(wide, n_components=30)
    assert asked.matrix.shape == (40, 11)
    assert asked.reason == "the rank; 30 were asked for"
    assert whitening(wide).matrix.shape == (40, 2)
    assert whitening(wide).reason.startswith("one for 5 rows")


@pytest.mark.parametrize(
    ("asked", "rows", "kept", "words"),
    [
        (None, 1000, 3, "99 % of the variance"),
        (None, 10, 2, "one for 5 rows, 90% of the variance"),
        (0.85, 1000, 2, "85 % of the variance"),
        (1.0, 1000, 4, "100 % of the variance"),
        ("all", 10, 4, "all, to the rank"),
        (2, 10, 2, "as asked"),
    ],
)
def test_the_rule_for_the_number_of_components_sees_variances_and_rows_alone(asked, rows, kept, words):
    assert components_kept(np.array([8.0, 1.0, 0.95, 0.05]), rows, asked) == (kept, words)


def test_random_rotations_are_orthogonal_different_and_repeatable():
    first = rotation(6, 0, 1, 2)
    np.testing.assert_allclose(first @ first.T, np.eye(6), atol=1e-12)
    np.testing.assert_array_equal(first, rotation(6, 0, 1, 2))
    assert np.abs(first - rotation(6, 0, 1, 3)).max() > 0.1
    assert np.abs(first - rotation(6, 1, 1, 2)).max() > 0.1


def test_ica_rotates_white_components_onto_the_sources():
    made = batches(per=200)
    fitted = np.arange(600)
    white = whitening(made.x[fitted], n_components="all")(made.x)
    found, converged = unmixed(white, fitted, 0)
    assert converged
    turned = np.linalg.lstsq(white, found, rcond=None)[0]
    np.testing.assert_allclose(turned.T @ turned, np.eye(5), atol=3e-3)
    matched = np.abs(np.corrcoef(found.T, made.sources.T)[:5, 5:])
    assert matched.max(axis=0).min() > 0.97
    rotated = np.abs(np.corrcoef((white @ rotation(5, 0)).T, made.sources.T)[:5, 5:])
    assert rotated.max(axis=0).min() < 0.9


def test_a_single_component_has_no_rotation():
    white = np.arange(6.0)[:, None]
    found, converged = unmixed(white, np.arange(6), 0)
    assert converged
    np.testing.assert_array_equal(found, white)


def test_centring_leaves_every_batch_with_mean_zero_and_its_own_shape():
    batch = np.repeat([0, 2], [3, 4])
    x = np.random.default_rng(0).normal(size=(7, 2)) + 5.0 * batch[:, None]
    moved = centred(x, batch)
    for b in (0, 2):
        np.testing.assert_allclose(moved[batch == b].mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(np.cov(moved[batch == b].T), np.cov(x[batch == b].T))
