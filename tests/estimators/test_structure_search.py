"""Structures by search: exact, judged by rows that were not trained on, off where the plain fit is asked for."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import noumena as nm
from noumena.checks import DivergenceError
from noumena.estimators import base as estimator
from noumena.estimators.fit_data import FitData
from noumena.estimators.loop import train
from noumena.estimators.refit import search as structure_search
from noumena.estimators.refit.directions import Directions, sparse_directions
from noumena.estimators.refit.masked import MaskedDecoder, masked, plain
from noumena.estimators.refit.refit import ErrorDifference, Refit, restarted
from noumena.estimators.refit.search import (
    Search,
    SearchState,
    faintest,
    flipped,
    missing,
    row_errors,
    squared_errors,
    wanted,
)

PLAN = nm.Training(steps=400)


def world_of(d_z: int, d_x: int, gap: int, seed: int, law: str):
    structure = nm.worlds.family("random", d_z, d_x, gap=gap, random_state=seed)
    return structure, nm.worlds.structured(structure, law=law, random_state=seed).sample(1500)


@pytest.fixture(scope="module")
def fitted():
    structure, sample = world_of(3, 10, 1, 5, "uniform")
    bias = 0.05 * nm.DependencySparsity()
    plain = nm.VAE(3, penalty=bias, n_models=2, training=PLAN.changed(refit=False), random_state=0).fit(sample.x)
    model = nm.VAE(3, penalty=bias, n_models=2, training=PLAN, random_state=0).fit(sample.x)
    return structure, sample, plain, model


def test_the_search_finds_the_structure_that_the_threshold_misses(fitted):
    structure, sample, plain, model = fitted
    assert structure.match(model.structure_).hamming == 0
    assert structure.match(plain.structure_).hamming > 0
    assert nm.metrics.mcc(sample.z, model.transform(sample.x)).score > 0.99
    assert nm.metrics.mcc(sample.z, plain.transform(sample.x)).score < 0.97


def test_structure_transform_and_decoder_are_those_of_the_refit(fitted):
    _, sample, _, model = fitted
    assert all(isinstance(m.decoder, MaskedDecoder) for m in model.models_)
    z = torch.as_tensor(model.transform(sample.x[:64].astype(np.float32)))
    J = nm.derivatives.jacobian(model.decoder_, z).abs().amax(dim=0)
    assert ((J != 0).numpy() == model.structure_.dense).all()
    assert model.explained_[model.best_] > 0.99


def test_the_refit_explains_held_out_rows_better_than_its_dense_twin(fitted):
    model = fitted[3]
    assert model.refit_.beats_twin
    assert model.refit_.error < model.refit_.twin
    assert model.refit_.dependencies == len(model.structure_)
    assert not Refit(3, 2.0, 1.0, 1.0, 0.1, 100).beats_twin


def test_dependencies_that_its_residuals_want_do_not_help_a_right_structure(fitted):
    assert fitted[3].refit_.lacks_none is True
    assert Refit(3, 1.0, 2.0, -1.0, 0.1, 100, gain=-0.5, gain_error=0.1).lacks_none is False
    assert Refit(3, 1.0, 2.0, -1.0, 0.1, 100, gain=np.nan, gain_error=0.1).lacks_none is False
    assert Refit(3, 1.0, 2.0, -1.0, 0.1, 100).lacks_none is None


def test_a_plain_fit_has_no_refit(fitted):
    plain = fitted[2]
    assert plain.refit_ is None
    assert not any(isinstance(m.decoder, MaskedDecoder) for m in plain.models_)


@pytest.mark.parametrize("penalty", [None, 0.1 * nm.LatentSparsity(), 0.0 * nm.DependencySparsity()], ids=str)
def test_only_a_penalty_that_counts_dependencies_asks_for_a_search(penalty, fitted):
    x = fitted[1].x[:200]
    model = nm.VAE(2, penalty=penalty, training=nm.Training(steps=5), random_state=0).fit(x)
    assert model.refit_ is None


def test_a_table_on_disk_is_searched_like_one_in_memory(fitted, tmp_path):
    """Workers of joblib are handed large arrays as memory maps."""
    _, sample, _, model = fitted
    np.save(tmp_path / "x.npy", sample.x)
    bias = 0.05 * nm.DependencySparsity()
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    again = nm.VAE(3, penalty=bias, n_models=2, training=PLAN, random_state=0).fit(mapped)
    assert again.refit_ is not None
    assert (again.structure_.dense == model.structure_.dense).all()


def test_a_refit_is_saved_and_loaded(fitted, tmp_path):
    _, sample, _, model = fitted
    nm.save(model, tmp_path / "run")
    again = nm.load(tmp_path / "run")
    assert again.refit_ == model.refit_
    assert (again.structure_.dense == model.structure_.dense).all()
    np.testing.assert_array_equal(again.transform(sample.x), model.transform(sample.x))


def test_the_same_seed_finds_the_same_latents_again(fitted):
    _, sample, _, model = fitted
    bias = 0.05 * nm.DependencySparsity()
    again = nm.VAE(3, penalty=bias, n_models=2, training=PLAN, random_state=0).fit(sample.x)
    np.testing.assert_array_equal(again.transform(sample.x), model.transform(sample.x))


def test_residuals_name_the_dependency_that_is_missing_and_the_faintest_comes_first(fitted):
    _, sample, _, model = fitted
    best = plain(model.models_[model.best_])
    x = torch.as_tensor((sample.x - best.mean.numpy()) / best.scale.numpy()).to(best.mean)
    support = model.structure_.dense.astype(bool)
    z = model.models_[model.best_].code(x[:256]).detach()
    strength = nm.Structure.from_decoder(model.models_[model.best_].decoder, z).evidence.strength
    whole = masked([best], [support])[0]
    order = faintest(SearchState(whole, support, np.ones((3, 10))), x)
    assert [strength[place] for place in order] == sorted(strength[place] for place in order)
    place = order[-1]
    lacking = flipped(support, [place])
    state = SearchState(masked([best], [lacking])[0], lacking, np.ones((3, 10)))
    assert missing(state, FitData(x[:1000], x[1000:], ""))[0] == place


def standardised(sample, model):
    x = (sample.x - model.mean.numpy()) / model.scale.numpy()
    return FitData(*torch.as_tensor(x).to(model.mean).split([1200, 300]), "")


def test_a_structure_that_lacks_a_dependency_is_seen_by_what_its_residuals_want(fitted):
    _, sample, _, model = fitted
    best = model.models_[model.best_]
    rows, support = standardised(sample, best), model.structure_.dense.astype(bool)
    strong = faintest(SearchState(best, support, np.ones((3, 10))), rows.train)[-1]
    lacking = flipped(support, [strong])
    sparse = train(masked([plain(best)], [lacking]), [0], rows, PLAN.changed(steps=100))
    state = SearchState(sparse.models[0], lacking, squared_errors(sparse.models[0], rows.held_out))
    wider = wanted(state, rows)
    assert wider[strong]
    more = train(masked([plain(best)], [wider]), [0], rows, PLAN.changed(steps=100))
    assert ErrorDifference.of(row_errors(more.models[0], rows.held_out), state.errors.sum(axis=1)).below_zero


def test_growing_and_thinning_out_mends_a_structure_with_several_wrong_places_of_one_latent(fitted):
    _, sample, _, model = fitted
    best = model.models_[model.best_]
    rows, support = standardised(sample, best), model.structure_.dense.astype(bool)
    order = faintest(SearchState(best, support, np.ones((3, 10))), rows.train)
    t = order[-1][1]
    lost = [place for place in order if place[1] == t][-2:]
    extra = [(int(i), t) for i in np.flatnonzero(~support[:, t])[:1]]
    wrong = flipped(support, [*lost, *extra])
    search = Search([plain(m) for m in model.models_], rows, PLAN)
    state = search._tried([(plain(best), wrong)], 2)[0]
    settled = search._grown(state)
    assert settled is not None
    assert settled.score < state.score
    assert settled.errors.mean() < state.errors.mean()
    assert settled.support[tuple(np.transpose(lost))].any()


def test_where_the_refit_diverges_the_penalised_models_are_kept(fitted, monkeypatch):
    def diverges(*_):
        raise DivergenceError("all models diverged")

    monkeypatch.setattr(estimator, "search_and_refit", diverges)
    model = nm.VAE(2, penalty=0.05 * nm.DependencySparsity(), training=nm.Training(steps=50), random_state=0)
    with pytest.warns(ConvergenceWarning, match="The refit diverged; the penalised models are kept"):
        model.fit(fitted[1].x[:200])
    assert model.refit_ is None
    assert model.transform(fitted[1].x[:3]).shape == (3, 2)


def test_a_search_that_is_stopped_by_hand_leaves_the_penalised_models_and_says_so(fitted, monkeypatch):
    monkeypatch.setattr(estimator, "search_and_refit", lambda *_: None)
    model = nm.VAE(2, penalty=0.05 * nm.DependencySparsity(), training=nm.Training(steps=50), random_state=0)
    model.fit(fitted[1].x[:200])
    assert model.interrupted_
    assert model.refit_ is None


def test_refit_is_yes_or_no(fitted):
    with pytest.raises(nm.InputError, match=r"refit must be True or False\. Got 3"):
        nm.VAE(2, training=nm.Training().set_params(refit=3)).fit(fitted[1].x)


def test_where_no_structure_explains_the_rows_the_dense_twins_are_kept(fitted, monkeypatch):
    monkeypatch.setattr(structure_search, "HOPELESS", -np.inf)
    plan = nm.Training(steps=60)
    model = nm.VAE(3, penalty=0.05 * nm.DependencySparsity(), n_models=2, training=plan, random_state=0)
    model.fit(fitted[1].x)
    assert model.refit_.error == pytest.approx(model.refit_.twin, rel=1e-5)
    assert len(model.structure_) == model.refit_.dependencies == 30
    assert nm.certify(model).answer != "identified"


def test_where_the_lightest_directions_are_wrong_others_are_exchanged_for_them(fitted, monkeypatch):
    """A first look that misses a column of the world leads to a structure that its twin beats; more starts mend it."""
    structure, sample, _, _ = fitted
    looks = []

    def short_sighted(Q, **options):
        looks.append(options)
        found = sparse_directions(Q, **options)
        if len(looks) > 1:
            return found
        column = found.supports[found.basis()[0]]
        others = (found.supports != column).any(axis=1)
        return Directions(found.moves[others], found.vectors[torch.as_tensor(others)], found.faint)

    monkeypatch.setattr(structure_search, "sparse_directions", short_sighted)
    monkeypatch.setattr(structure_search, "TURNS", 0)
    bias = 0.05 * nm.DependencySparsity()
    model = nm.VAE(3, penalty=bias, n_models=2, training=PLAN, random_state=0).fit(sample.x)
    assert [sorted(options) for options in looks] == [["faint"], ["faint", "starts"]]
    assert structure.match(model.structure_).hamming == 0


def test_a_model_in_a_local_minimum_begins_again_and_one_as_good_as_the_best_is_kept(fitted):
    """Whether it is kept depends on its errors and never on whether seeds agree."""
    _, sample, _, model = fitted
    support = model.structure_.dense.astype(bool)
    best = model.models_[model.best_]
    x = torch.as_tensor((sample.x - best.mean.numpy()) / best.scale.numpy()).to(best.mean)
    rows = FitData(x[:1200], x[1200:], "")
    bare = plain(best)
    turned = plain(best)
    structure_search.remix(turned.encoder, turned.decoder, torch.diag(torch.tensor([-1.0, 1.0, 1.0])))
    lost = plain(best)
    torch.nn.init.zeros_(next(lost.encoder.parameters()))
    models = masked([bare, turned, lost], [support] * 3)
    sparse = train(models, [0, 1, 2], rows, nm.Training(steps=1, learning_rate=1e-6))
    before = [row_errors(m, rows.held_out).mean() for m in sparse.models]
    assert before[2] > 10 * before[0]
    after = restarted(
        sparse, lambda seed: plain(bare), [10, 11, 12], support, rows, PLAN.changed(steps=20, learning_rate=1e-4), 1
    )
    assert after.models[:2] == sparse.models[:2]
    assert row_errors(after.models[2], rows.held_out).mean() < 2 * before[0]
    assert after.objectives[2] < sparse.objectives[2]
    assert (after.objectives[:2] == sparse.objectives[:2]).all()
