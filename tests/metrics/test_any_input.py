"""No score minds the unit of a column, and what cannot be scored is refused in one sentence, by every score alike."""

import numpy as np
import pandas as pd
import pytest

from noumena.checks import InputError
from noumena.metrics import (
    amari_distance,
    concentration,
    dci,
    factors_of,
    fixed_factors,
    hoyer,
    image_sis,
    information_matrix,
    mig,
    r2,
    score,
)

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(80, 3))
MIXED = Z @ RNG.normal(size=(3, 3)) + 0.1 * RNG.normal(size=(80, 3))
CLASSES = RNG.integers(0, 4, size=(80, 3)).astype(float)


def test_a_small_spread_around_a_large_mean_is_read() -> None:
    assert r2(Z, Z * np.array([1e9, 1, 1e-9])).score == pytest.approx(1)
    assert r2(Z, Z + np.array([1e6, 0, 0])).score == pytest.approx(1)
    assert score(Z, Z * np.array([1e9, 1, 1e-9]), metrics=["r2"]).up_to is not None


def test_images_in_any_unit_score_the_same() -> None:
    objects = RNG.normal(size=(60, 2, 2))
    assert image_sis(objects * 2.0**900, objects * 2.0**-900).score == pytest.approx(image_sis(objects, objects).score)


def test_amari_and_hoyer_and_concentration_stay_in_range() -> None:
    assert amari_distance(np.eye(2) * 1e300, np.eye(2) * 1e300).score == 0
    assert amari_distance(np.eye(2) * 1e-300, np.eye(2) * 1e-300).score == 0
    assert hoyer(np.array([1e308, 1e308])).score == pytest.approx(0, abs=1e-12)
    assert hoyer([1, 0]).score == 1
    with pytest.raises(InputError, match="must be finite"):
        concentration(1e308, 1e-308)
    with pytest.raises(InputError, match="w must"):
        hoyer(["a", "b"])
    with pytest.raises(InputError, match="w must be finite"):
        hoyer(np.array([np.nan, 1]))


def test_classes_of_any_value_are_classes_for_the_reference_trees() -> None:
    by_number = dci(CLASSES, MIXED, discrete=True, trees="reference", shuffles=0)
    by_half = dci(CLASSES * 0.5, MIXED, discrete=True, trees="reference", shuffles=0)
    assert by_half.value == by_number.value


def test_public_parts_check_their_input() -> None:
    with pytest.raises(InputError, match="finite"):
        information_matrix(np.full((20, 1), np.nan), Z[:20], (False,))
    with pytest.raises(InputError, match="one kind each"):
        information_matrix(Z, MIXED, (True,))
    assert fixed_factors(CLASSES).names == ("z1", "z2", "z3")


def test_metrics_may_be_an_array_of_names() -> None:
    assert tuple(score(Z, Z, metrics=np.array(["mcc", "r2"])).records) == ("mcc", "r2")


def test_discrete_factors_are_named_without_mistake() -> None:
    twice = pd.DataFrame(CLASSES, columns=["a", "a", "b"])
    with pytest.raises(InputError, match="names of columns"):
        factors_of(twice, ["a"])
    assert factors_of(twice, ["b"]).discrete == (False, False, True)
    renumbered = pd.DataFrame(CLASSES, columns=[1, 2, 0])
    with pytest.raises(InputError, match="names of columns"):
        factors_of(renumbered, [1])
    assert factors_of(renumbered, ["1"]).discrete == (True, False, False)
    assert factors_of(pd.DataFrame(CLASSES), [1]).discrete == (False, True, False)
    assert factors_of(CLASSES, []).discrete == (False, False, False)
    assert factors_of(CLASSES, {0, 2}).discrete == (True, False, True)
    assert factors_of(CLASSES, np.array([True, False, True])).discrete == (True, False, True)
    assert factors_of(CLASSES, np.bool_(True)).discrete == (True, True, True)
    assert factors_of(CLASSES, np.int64(1)).discrete == (False, True, False)
    with pytest.raises(InputError, match="names of columns") as error:
        factors_of(CLASSES, pd.Series(["q", "r"]))
    assert "\n" not in str(error.value)


def test_names_must_repeat_and_not_be_missing() -> None:
    with pytest.raises(InputError, match="must repeat"):
        mig(pd.DataFrame({"id": [f"row {k}" for k in range(80)], "x": Z[:, 0]}), MIXED)
    missing = pd.DataFrame({"i": pd.array([1, None] * 40, dtype="Int64"), "x": Z[:, 0]})
    with pytest.raises(InputError, match="must not be missing"):
        mig(missing, MIXED)
