"""A page says how many seeds diverged, whether the fit was interrupted, and shows the seed that it says it shows."""

import json
from copy import copy

import numpy as np
import pytest

import noumena as nm
from noumena.cli.learning import _describe
from noumena.report.chapters import model_chapter, training_chapter
from noumena.report.seeds import seeds_facts, seeds_told

GOOD = [[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]]


@pytest.fixture(scope="module")
def fitted():
    x = nm.worlds.structured(nm.Structure(GOOD), random_state=0).sample(200).x
    return nm.VAE(n_latents=2, n_models=4, training=nm.Training(steps=3, batch_size=50), random_state=0).fit(x)


@pytest.fixture(scope="module")
def certificate(fitted):
    return nm.certify(fitted)


def changed(model, **fields):
    other = copy(model)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


@pytest.fixture
def broken(fitted):
    """Three of four seeds diverged, and one of them has the lowest objective of all."""
    return changed(fitted, diverged_=np.array([True, True, False, True]), objectives_=np.array([1.0, 2, 3, 4]), best_=2)


def test_the_page_says_how_many_seeds_diverged_and_which_is_shown(fitted, broken, certificate):
    shown = fitted.seeds_[2]
    for chapter in (model_chapter(broken, certificate), training_chapter(broken)):
        assert "4 seeds were trained together. 3 of 4 diverged: seeds" in chapter.lead
        assert f"Seed {shown} is shown, whose held-out objective is the lowest of those that did not" in chapter.lead
        (table,) = [t for t in chapter.tables if t.caption == "Seeds"]
        assert [row[1].startswith("diverged by step") for row in table.rows] == [True, True, False, True]
        assert table.strong == {2}


def test_seeds_that_diverged_take_no_part_in_the_agreement(fitted, broken, certificate):
    assert not [t for t in model_chapter(broken, certificate).tables if t.caption.startswith("Stability")]
    two = changed(fitted, diverged_=np.array([True, False, False, True]), best_=1)
    chapter = model_chapter(two, certificate)
    (stability,) = [t for t in chapter.tables if t.caption.startswith("Stability")]
    assert stability.header == ("", *(f"seed {fitted.seeds_[k]}" for k in (1, 2)))
    assert "Seeds that diverged are left out." in chapter.figures[-1].caption


def test_a_fit_without_loss_says_neither(fitted, certificate):
    model = changed(fitted, objectives_=np.array([3.0, 1, 2, 4]), best_=1)
    lead = model_chapter(model, certificate).lead
    assert lead == (
        f"4 seeds were trained together. Seed {fitted.seeds_[1]} is shown, whose held-out objective is the lowest of "
        "all."
    )


def test_a_seed_chosen_otherwise_is_not_said_to_have_the_lowest_objective(fitted):
    model = changed(fitted, objectives_=np.array([3.0, 1, 2, 4]), best_=2)
    assert seeds_told(model).endswith(
        f"Seed {fitted.seeds_[2]} is shown, the one that the estimator uses; the lowest of all is that of seed "
        f"{fitted.seeds_[1]}."
    )
    unknown = changed(fitted, objectives_=np.full(4, np.nan))
    assert "lowest" not in seeds_told(unknown)
    lost = changed(fitted, diverged_=np.array([False, True, False, False]), best_=1)
    assert f"Seed {fitted.seeds_[1]} is shown, which diverged." in seeds_told(lost)


def test_the_page_says_that_the_fit_was_interrupted(fitted, certificate):
    model = changed(fitted, interrupted_=True, stopped_at_=np.array([2, 1, 2, 2]))
    lead = model_chapter(model, certificate).lead
    assert "The fit was interrupted at step 2" in lead
    (table,) = [t for t in model_chapter(model, certificate).tables if t.caption == "Seeds"]
    assert {row[1] for row in table.rows} == {"interrupted at step 2", "interrupted at step 1"}
    assert "interrupted" not in model_chapter(fitted, certificate).lead


def test_one_seed_is_one_seed(fitted):
    one = changed(fitted, seeds_=fitted.seeds_[:1], diverged_=np.array([False]), best_=0)
    assert seeds_told(one) == "One seed was trained."


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_says_the_same(broken, tmp_path, capsys, as_json):
    _describe(broken, tmp_path, None, as_json=as_json)
    said = capsys.readouterr().out
    assert "3 of 4 diverged" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "certificate.json").read_text())["training"] == seeds_facts(broken)
    if as_json:
        assert len(json.loads(said)["training"]["diverged"]) == 3
    else:
        assert said.startswith("4 seeds were trained together. 3 of 4 diverged")
