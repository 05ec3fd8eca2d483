"""What moved from ``worlds`` to ``data`` keeps its old name for one release."""

import importlib

import numpy as np
import pytest

import noumena as nm

RENAMED = {"AnnotatedTable": "Annotated", "DataTable": "Table", "PreparedTable": "Prepared"}


@pytest.mark.parametrize("name", nm.data.__all__)
def test_the_old_name_works_and_says_the_new_one(name):
    old = RENAMED.get(name, name)
    with pytest.warns(DeprecationWarning, match=rf"noumena.worlds.{old} is now noumena.data.{name};"):
        assert getattr(nm.worlds, old) is getattr(nm.data, name)


OLD = {
    "audits": {"Pair": "PairComparison"},
    "data": {old: new for new, old in RENAMED.items()},
    "metrics": {
        "Agreement": "ModelAgreement", "Claim": "ScoreClaim", "Factors": "FactorTable", "Number": "ScoreNumber",
        "Record": "MetricRecord",
    },
    "nets": {"PlaceDecoder": "SpatialSoftmaxDecoder", "PlaceEncoder": "SpatialSoftmaxEncoder"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("room", "old", "new"), [(room, *names) for room, pairs in OLD.items() for names in pairs.items()]
)
def test_a_renamed_class_keeps_its_old_name_for_one_release(room, old, new):
    module = importlib.import_module(f"noumena.{room}")
    with pytest.warns(DeprecationWarning, match=rf"noumena.{room}.{old} is now noumena.{room}.{new};"):
        assert getattr(module, old) is getattr(module, new)


def test_bootstrap_is_subsamples():
    z = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.warns(DeprecationWarning, match="bootstrap=…"):
        old = nm.metrics.mcc(z, z, bootstrap=10)
    assert old.uncertainty == nm.metrics.mcc(z, z, subsamples=10).uncertainty


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'read_nothing'"):
        nm.worlds.read_nothing  # noqa: B018
