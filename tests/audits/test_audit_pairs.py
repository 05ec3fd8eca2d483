"""What pairs rest on: folds of whole groups, ridges chosen inside, diameters, and chance."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from noumena.audits import pairs
from noumena.audits.folds import folds_of, split
from noumena.audits.pairs import alignment_errors, compare, largest_distance, side_of
from noumena.audits.ridge import STRENGTHS, best_strength, careful_map
from noumena.guarantees.agreement import AFFINE, RIGID, affine_map, distances, merged, moments
from noumena.guarantees.lipschitz import diameter

RNG = np.random.default_rng(0)


def test_every_row_is_measured_once_and_never_fitted_in_its_own_fold():
    folds, _ = folds_of(103, folds=4, groups=None, held_out=True, seed=0)
    assert sorted(folds.order) == list(range(103))
    assert len(folds) == 4
    for k in range(4):
        fitted = np.concatenate([folds.order[folds.part(p)] for p in folds.fitted(k)])
        assert set(fitted) == set(range(103)) - set(folds.order[folds.part(k)])
        assert len(folds.order[folds.part(k)]) in (25, 26)


def test_whole_groups_stay_together_in_folds_and_halves():
    groups = RNG.integers(0, 30, size=400)
    folds, _ = folds_of(400, folds=5, groups=groups, held_out=True, seed=0)
    ordered = groups[folds.order]
    parts = [set(ordered[folds.part(p)]) for p in range(5)]
    assert sum(map(len, parts)) == len(set(groups))
    assert max(len(ordered[folds.part(p)]) for p in range(5)) < 1.3 * 80
    for k in range(5):
        first, second = folds.halves(k, 0)
        assert not set(ordered[first]) & set(ordered[second])
        assert not (set(ordered[first]) | set(ordered[second])) & parts[k]
        assert len(first) + len(second) == 400 - len(ordered[folds.part(k)])


def test_halves_of_one_group_are_halves_of_its_rows():
    folds, _ = folds_of(40, folds=2, groups=np.arange(40) % 2, held_out=True, seed=0)
    first, second = folds.halves(0, 0)
    assert len(first) == len(second) == 10
    assert not set(first) & set(second)


def test_in_sample_all_rows_are_fitted_and_measured():
    folds, _ = folds_of(40, folds=5, groups=None, held_out=False, seed=0)
    assert len(folds) == 1
    assert folds.fitted(0) == (0,)
    assert (folds.halves(0, 0)[0] == folds.halves(0, 0)[1]).all()


def test_folds_depend_on_the_seed_only():
    first, again, other = (split(50, 3, None, seed=seed, purpose="folds") for seed in (0, 0, 1))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert any((a != b).any() for a, b in zip(first, other, strict=True) if len(a) == len(b))


def test_a_ridge_is_that_of_scikit_learn():
    h, g = RNG.normal(size=(60, 8)) * np.arange(1, 9), RNG.normal(size=(60, 3))
    m = moments(g, h)
    strength = 0.3
    found = affine_map(m, ridge=strength)
    wanted = Ridge(alpha=60 * strength * np.trace(m.hh) / 8).fit(h, g)
    assert found(h) == pytest.approx(wanted.predict(h))
    assert affine_map(m)(h) == pytest.approx(Ridge(alpha=0).fit(h, g).predict(h))


def test_the_strength_of_a_ridge_has_the_smallest_error_on_parts_left_out():
    h = RNG.normal(size=(90, 40))
    g = h[:, :2] + 0.5 * RNG.normal(size=(90, 2))
    rows = [slice(0, 20), slice(20, 55), slice(55, 90)]
    parts = [moments(g[r], h[r]) for r in rows]
    losses = np.zeros(len(STRENGTHS))
    for j, left_out in enumerate(rows):
        fitted = merged([part for p, part in enumerate(parts) if p != j])
        for s, strength in enumerate(STRENGTHS):
            losses[s] += (distances(affine_map(fitted, ridge=strength), g[left_out], h[left_out]) ** 2).sum()
    assert best_strength(parts) == STRENGTHS[losses.argmin()]
    assert 1e-8 < best_strength(parts) < 100
    held_back, plain = careful_map(parts), affine_map(merged(parts))
    assert np.linalg.norm(held_back.matrix) < np.linalg.norm(plain.matrix)
    many = [moments(np.tile(g[:, :2], (10, 1)), np.tile(h[:, :2], (10, 1)))]
    assert (careful_map(many).matrix == affine_map(many[0]).matrix).all()


def test_the_diameter_of_many_rows_is_nearly_the_exact_one_and_never_more(monkeypatch):
    z = RNG.normal(size=(3000, 6))
    exact = diameter(z)
    assert largest_distance(z) == exact
    monkeypatch.setattr(pairs, "EXACT", 100)
    for outermost in (2, 200):
        monkeypatch.setattr(pairs, "OUTERMOST", outermost)
        assert 0.95 * exact < largest_distance(z) <= exact * (1 + 1e-12)


def test_chance_is_the_error_of_shuffled_rows_over_several_shuffles():
    z = RNG.laplace(size=(400, 3))
    pair = alignment_errors(z, z, ica=False)
    spread = np.linalg.norm(z - z.mean(axis=0), axis=1).mean() / diameter(z)
    assert pair.errors[RIGID] < 1e-9
    assert pair.chance[RIGID] == pytest.approx(spread, rel=0.05)
    assert pair.chance[AFFINE] == pytest.approx(spread, rel=0.05)
    assert alignment_errors(z, z, ica=False, shuffles=1).chance != pair.chance


def test_both_directions_of_a_pair_are_those_of_the_pair_turned_round():
    g, h = RNG.normal(size=(2, 300, 3))
    h = g @ RNG.normal(size=(3, 3)) + 0.3 * h
    folds, _ = folds_of(300, folds=3, groups=None, held_out=True, seed=0)
    a, b = side_of("a", g, folds, size=diameter(g)), side_of("b", h, folds, size=diameter(h))
    there, back = compare(a, b, folds, shuffles=1, seed=0)
    turned = compare(b, a, folds, shuffles=1, seed=0)
    for one, other in ((there, turned[1]), (back, turned[0])):
        for kind in one.errors:
            assert one.by_fold[kind] == pytest.approx(other.by_fold[kind], nan_ok=True)
        assert one.r2 == pytest.approx(other.r2, nan_ok=True)


def test_folds_are_measured_one_by_one():
    g = RNG.normal(size=(90, 2))
    h = g + 0.2 * RNG.normal(size=(90, 2))
    folds, _ = folds_of(90, folds=3, groups=None, held_out=True, seed=4)
    pair = alignment_errors(g, h, folds=3, seed=4, ica=False)
    for k in range(3):
        fitted = np.concatenate([folds.order[folds.part(p)] for p in folds.fitted(k)])
        measured = folds.order[folds.part(k)]
        away = distances(affine_map(moments(g[fitted], h[fitted])), g[measured], h[measured])
        assert pair.by_fold[AFFINE][k] == pytest.approx(away.mean() / diameter(g))
