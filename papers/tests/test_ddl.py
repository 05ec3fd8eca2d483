"""Studies of diverse dictionary learning: worlds hold what they promise, cells run, tables compare."""

import numpy as np
import pytest
import torch

from ddl import fig4, fig5, grouped, settings, table3, table4, table5, wide
from noumena.checks import InputError
from noumena.derivatives import jacobian
from noumena.guarantees.diversity import clauses, overclaimed
from noumena.guarantees.occam import generic_gap
from noumena.guarantees.surplus import hall_surplus
from noumena.penalties import DependencySparsity
from noumena.structure import Structure

TINY = {"steps": 6, "n_models": 2, "rows": 600}
STUDIES = (fig4, fig5, table3, table4, table5, wide)


@pytest.fixture(scope="module")
def tiny_rows():
    """Rows of one diverse and one dense world, as Table 3 has them."""
    return [{**parameters, **row} for parameters in table3.cells()[:2] for row in table3.cell(**parameters, **TINY)]


# ---- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [3, 4, 5])
@pytest.mark.parametrize("seed", range(4))
def test_diverse_structures_are_square_diverse_and_not_given_away(d, seed):
    S = settings.diverse(d, seed)
    assert S.n_observed == S.n_latents == d
    assert clauses(S).any(axis=1).all()
    assert set(S.dense.sum(axis=1)) <= {2, 3}
    assert len(S) < d * d


def test_structures_differ_from_seed_to_seed():
    assert len({settings.diverse(5, seed).dense.tobytes() for seed in range(5)}) > 1


@pytest.mark.parametrize("d", [3, 4])
def test_wide_structures_have_a_positive_gap(d):
    S = settings.wide(d, 1)
    assert S.n_observed == 4 * d
    gap = generic_gap(S.dense)
    assert gap is not None
    assert gap.value >= 1


def test_large_wide_structures_have_halls_surplus_and_short_rows():
    S = settings.wide(12, 0)
    assert S.n_observed == 48
    assert hall_surplus(S.dense)
    assert set(S.dense.sum(axis=1)) <= {2, 3, 4}


def test_noise_is_relative_to_the_spread_of_the_observations():
    clean, _ = settings.world("diverse", 3, 1)
    noisy, _ = settings.world("diverse", 3, 1, noise=0.1)
    difference = noisy.sample(4000).x - clean.sample(4000).x
    assert clean.noise == 0
    assert difference.std() == pytest.approx(0.1 * clean.sample(4000).x.std(axis=0).mean(), rel=0.05)


def test_the_papers_recipe_is_l1_with_a_constant_weight():
    model = settings.estimator(settings.DEPENDENCY, 3, "paper")
    ((weight, bias),) = model.penalty.terms
    assert (model.beta, weight) == (0.05, 0.05)
    assert isinstance(bias, DependencySparsity)
    z = torch.ones(2, 3)
    assert float(bias(lambda z: 2 * z, z, 0.0)) == float(bias(lambda z: 2 * z, z, 1.0)) == 6.0


@pytest.mark.parametrize("name", settings.RECIPES)
def test_all_methods_of_a_recipe_have_the_same_budget(name):
    models = [settings.estimator(method, 4, name) for method in settings.METHODS]
    assert len({(m.n_models, m.training.steps, m.training.batch_size, m.beta) for m in models}) == 1
    weights = {w for m in models if m.penalty is not None for w, _ in m.penalty.terms}
    assert weights == {settings.RECIPES[name].weight}
    assert len({repr(m.penalty) for m in models}) == len(models)


def test_a_recipe_changes_only_what_is_given():
    changed = settings.recipe("ours", steps=7, weight=None)
    assert (changed.steps, changed.weight) == (7, settings.RECIPES["ours"].weight)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: settings.recipe("theirs"), "recipe must be one of"),
        (lambda: settings.penalty("magic", "ours"), "method must be one of"),
        (lambda: settings.world("flat", 3, 0), "world must be one of"),
        (lambda: grouped.structure("flat", 3, 0), "kind must be one of"),
        (lambda: grouped.groups(9), "d must be one of"),
        (lambda: fig4.Supported(Structure([[1, 1], [0, 1]]))(2, 3), "The decoder must map 2 latents to 2 observations"),
    ],
)
def test_what_cannot_be_built_is_refused_in_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()


# ---- grouped worlds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["square", "apart", "inclusion"])
@pytest.mark.parametrize("d", [3, 4, 5])
def test_latents_of_a_grouped_structure_are_where_their_group_says(kind, d):
    S, g = grouped.structure(kind, d, 0), grouped.groups(d)
    half = (S.n_observed + 1) // 2
    K, V = S.of(*range(half)), S.of(*range(half, S.n_observed))
    assert set(K & V) == set(g.shared)
    assert set(K - V) == set(g.only_k)
    assert set(V - K) == set(g.only_v)


@pytest.mark.parametrize("d", [3, 4, 5])
def test_one_pair_is_nested_in_inclusion_worlds_and_none_where_columns_are_apart(d):
    g = grouped.groups(d)
    assert overclaimed(grouped.structure("inclusion", d, 1)) == ((g.t, g.r),)
    apart = grouped.structure("apart", d, 1)
    assert overclaimed(apart) == ()
    gap = generic_gap(apart.dense)
    assert gap is not None
    assert gap.value >= 1


def test_square_grouped_structures_are_diverse():
    S = grouped.structure("square", 4, 2)
    assert S.n_observed == 4
    assert clauses(S).any(axis=1).all()
    assert (S.dense.sum(axis=1) >= 2).all()


def test_ce1_is_the_counter_example_of_the_theory():
    truth = grouped.world("CE1", 2, "unit gaussian", 0)
    z = torch.tensor([[3.0, 1.0]], dtype=torch.float64)  # r = 3, t = 1
    assert truth.decoder(z).tolist() == [[1 + 3 + 9, 3]]
    J = jacobian(truth.decoder, truth.latents(50))
    assert ((J.abs().amax(dim=0) > 0).numpy() == truth.structure.dense).all()
    assert overclaimed(truth.structure) == ((1, 0),)


def test_equicorrelated_latents_have_one_correlation():
    z = grouped.latents("equicorrelated", 3, 0).draw(20_000, torch.Generator().manual_seed(0)).numpy()
    expected = np.full((3, 3), grouped.RHO) + (1 - grouped.RHO) * np.eye(3)
    assert np.cov(z.T) == pytest.approx(expected, abs=0.03)
    assert not grouped.latents("equicorrelated", 3, 0).independent


# ---- what mixes --------------------------------------------------------------------------------------------------


def correlated(n=1500, rho=0.6, seed=0):
    rng = np.random.default_rng(seed)
    r, own = rng.normal(size=(2, n))
    return np.stack([r, rho * r + (1 - rho**2) ** 0.5 * own], axis=1)  # r, t


def test_a_shear_that_makes_latents_independent_leaks_the_squared_correlation():
    z = correlated()
    sheared = np.stack([z[:, 0], z[:, 1] - 0.6 * z[:, 0]], axis=1)
    into_t, into_r = fig4.mixing(z, sheared, (1,), (0,)), fig4.mixing(z, sheared, (0,), (1,))
    assert into_t["leak"] == pytest.approx(0.36, abs=0.06)
    assert into_t["r2"] == pytest.approx(0, abs=0.05)
    assert into_t["floor"] == pytest.approx(0.36, abs=0.08)
    assert into_r["leak"] == pytest.approx(0, abs=0.02)


def test_nothing_leaks_from_a_dependent_latent_by_an_element_wise_map():
    z = correlated()
    bent = np.stack([z[:, 0], np.tanh(z[:, 1])], axis=1)
    mixed = fig4.mixing(z, bent, (1,), (0,))
    assert mixed["leak"] == pytest.approx(0, abs=0.02)
    assert mixed["r2"] > 0.2


def test_a_leak_is_expected_only_where_columns_are_nested():
    z = correlated()
    assert fig4.leak_expected(z, Structure([[1, 1], [1, 0]]), 1, 0) == pytest.approx(0.36, abs=0.05)
    assert fig4.leak_expected(z, Structure([[0, 1], [1, 0]]), 1, 0) == 0
    assert fig4.leak_expected(z, Structure([[1, 1], [1, 0]]), 0, 1) == 0


def test_a_decoder_of_known_support_has_that_support():
    S = Structure([[1, 1, 0], [0, 1, 1], [1, 0, 0]])
    decoder = fig4.Supported(S)(3, 3)
    J = jacobian(decoder, torch.randn(40, 3, generator=torch.Generator().manual_seed(0)))
    assert ((J.abs().amax(dim=0) > 0).numpy() == S.dense).all()


# ---- cells and tables --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("study", STUDIES, ids=lambda s: s.__name__.rsplit(".", 1)[-1])
def test_cells_of_a_study_are_distinct(study):
    cells = [tuple(sorted(c.items())) for c in study.cells()]
    assert len(cells) == len(set(cells)) > 0


def test_a_cell_of_table_3_has_every_method_and_what_it_is_beside(tiny_rows):
    diverse = [r for r in tiny_rows if r["world"] == "diverse"]
    assert [(r["recipe"], r["method"]) for r in diverse] == [
        (n, m) for n in ("paper", "ours") for m in settings.METHODS
    ]
    assert [(r["recipe"], r["method"]) for r in tiny_rows if r["world"] == "dense"] == [
        ("paper", settings.DEPENDENCY),
        ("ours", settings.DEPENDENCY),
    ]
    for row in tiny_rows:
        assert row["certificate"] == "not identified"
        assert row["competitor"] is not None
        assert row["gap"] < 0
        for name in ("mcc", "spearman", "agreement", "f1", *table3.TRIVIAL):
            assert 0 < row[name] <= 1
    assert len({row["x"] for row in diverse}) == 1
    assert len({row["mcc"] for row in diverse}) == len(diverse)


def test_later_seeds_are_trained_with_our_recipe_alone():
    found = table3.cell("diverse", 3, 7, methods=(settings.NONE,), **TINY)
    assert [r["recipe"] for r in found] == ["ours"]


def test_the_papers_recipe_takes_the_first_model_and_ours_the_best():
    truth, _ = settings.world("diverse", 3, 1)
    sample = truth.sample(600)
    model = settings.estimator(settings.NONE, 3, "ours", steps=30, n_models=2).fit(sample.x)
    first, second = (float(t) for t in model.terms_["reconstruction"])
    model.best_ = 1
    assert table3.scores(truth, sample, model, ranked=False)["r2"] == pytest.approx(1 - first / 3)
    assert table3.scores(truth, sample, model, ranked=True)["r2"] == pytest.approx(1 - second / 3)


def test_table_3_stands_beside_the_published_figures(tiny_rows):
    text = table3.compare(tiny_rows)
    line = next(line for line in text.splitlines() if line.startswith("3") and "OroJaR" in line)
    assert "0.729 ± 0.028" in line
    mcc = next(r["mcc"] for r in tiny_rows if r["method"] == settings.OROJAR and r["recipe"] == "ours")
    assert f"{mcc:.3f} (1)" in line
    assert "not identified" in text


def test_fig_5_reads_the_cells_of_table_3(tiny_rows):
    assert fig5.cells() == table3.cells()
    lines = fig5.compare(tiny_rows).splitlines()
    assert [line.split()[:4] for line in lines[1:3]] == [["3", "diverse", "0.826", "±"], ["3", "dense", "0.381", "±"]]
    x = next(r["x"] for r in tiny_rows if r["world"] == "dense")
    assert lines[2].endswith(f"{x:.3f} (1)")


def test_table_4_adds_noise_to_the_cells_of_table_3(tiny_rows):
    added = [c for c in table4.cells() if c not in table3.cells()]
    assert len(table4.cells()) == len(table3.cells()) + len(added)
    assert {(c["world"], c["noise"]) for c in added} == {("diverse", table4.NOISE)}
    noisy = [{**added[0], **row} for row in table4.cell(**added[0], **TINY)]
    assert {r["method"] for r in noisy} == {settings.DEPENDENCY}
    line = next(t for t in table4.compare(tiny_rows + noisy).splitlines() if t.startswith("3  diverse  0.1"))
    assert "0.821 ± 0.009" in line
    ours = next(r["mcc"] for r in noisy if r["recipe"] == "ours")
    assert f"{ours:.3f} (1)" in line


def test_table_5_sweeps_the_weight():
    cell = table5.cells()[0]
    found = [{**cell, **row} for row in table5.cell(**cell, weights=(0.0, 0.05), **TINY)]
    assert [r["weight"] for r in found] == [0.0, 0.05]
    assert found[0]["mcc"] != found[1]["mcc"]
    line = next(t for t in table5.compare(found).splitlines() if t.startswith("3  0.05"))
    assert "0.826 ± 0.009" in line
    assert f"{found[1]['mcc']:.3f} (1)" in line
    assert set(table5.WEIGHTS) == set(table5.PUBLISHED)


def test_a_wide_cell_is_identified_by_its_certificate():
    found = [{"d": 3, **row} for row in wide.cell("wide", 3, 0, **TINY)]
    assert {r["certificate"] for r in found} == {"identified"}
    assert {r["competitor"] for r in found} == {None}
    assert [r["method"] for r in found] == list(settings.METHODS)
    assert wide.methods(10) == (settings.DEPENDENCY, settings.NONE)
    assert f"{found[0]['mcc']:.3f} (1)" in wide.compare(found)


def test_a_cell_of_fig_4_measures_every_block_that_exists():
    found = fig4.cell("CE1", 2, "unit gaussian", 0, **TINY)
    assert {r["method"] for r in found} == {settings.DEPENDENCY, fig4.KNOWN_STRUCTURE, settings.NONE}
    known = {r["measure"]: r for r in found if r["method"] == fig4.KNOWN_STRUCTURE}
    assert set(known) == {"Int", "SymDiff", "Ref", "t from r", "r from t"}
    assert known["Int"]["r2"] == known["r from t"]["r2"]
    assert known["t from r"]["expected leak"] == pytest.approx(0, abs=0.03)
    assert all(r["inclusion"] for r in found)


def test_fig_4_tells_dependent_latents_from_independent_ones():
    found = []
    for law in ("unit gaussian", "equicorrelated"):
        rows = fig4.cell("inclusion", 3, law, 0, **TINY)
        found += [{"world": "inclusion", "d": 3, "law": law, "seed": 0, **row} for row in rows]
    assert {r["measure"] for r in found} == set(fig4.MEASURES)
    assert {r["method"] for r in found if r["law"] == "equicorrelated"} == {settings.DEPENDENCY, fig4.KNOWN_STRUCTURE}
    expected = {r["law"]: r["expected leak"] for r in found if r["measure"] == "t from r"}
    assert expected["equicorrelated"] == pytest.approx(grouped.RHO**2, abs=0.15)
    assert expected["unit gaussian"] < 0.05
    text = fig4.compare(found)
    lines = [t.split() for t in text.splitlines()]
    assert sum(t[:2] == ["equicorrelated", "inclusion"] for t in lines) == 8
    assert sum(t[:1] == ["inclusion"] for t in lines) == 3
