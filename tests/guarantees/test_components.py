"""Components: constants agree with quadrature, errors with simulation, answers with laws whose truth is known."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from component_samples import draw

from noumena.checks import InputError
from noumena.guarantees import components as module
from noumena.guarantees.components import (
    GAUSSIAN,
    INDEPENDENT,
    RANK,
    SEPARATED,
    SPREAD_OF_A_GAUSSIAN,
    components,
    curvature,
    dependence,
    full_rank,
    independent,
    non_gaussian,
    non_gaussianity,
    separated,
)
from noumena.guarantees.unmixing import (
    LOG_COSH_OF_A_GAUSSIAN,
    halves,
    log_cosh,
)

N = 4000


def quadrature(f):
    x, w = np.polynomial.hermite_e.hermegauss(150)
    return float((w * f(x)).sum() / w.sum())


def answers(z, **settings):
    found = (components(z, **settings),)
    gaussian = non_gaussian(found)
    told = (full_rank(found), gaussian, separated(found, gaussian), independent(found))
    return {h.name: h.answer for h in told}


# ---- formulas --------------------------------------------------------------------------------------------------


def test_the_constants_of_a_gaussian_are_those_of_quadrature():
    assert pytest.approx(quadrature(log_cosh), abs=1e-7) == LOG_COSH_OF_A_GAUSSIAN

    def t(x):
        return x * np.tanh(x) - (1 - np.tanh(x) ** 2)

    assert quadrature(t) == pytest.approx(0, abs=1e-9)
    slope = quadrature(lambda x: t(x) * (x**2 - 1)) / 2  # what standardising takes out
    spread = sqrt(quadrature(lambda x: (t(x) - slope * (x**2 - 1)) ** 2))
    assert pytest.approx(spread, abs=1e-6) == SPREAD_OF_A_GAUSSIAN


def test_standard_errors_are_those_of_simulated_gaussians():
    rng = np.random.default_rng(0)
    a = non_gaussianity(3 * rng.normal(size=(400, 3000)) + 5)
    assert a.std() * sqrt(400) == pytest.approx(SPREAD_OF_A_GAUSSIAN, rel=0.05)
    assert abs(a.mean()) < 0.003


def test_heavy_tails_are_negative_and_boxes_positive():
    assert non_gaussianity(draw("laplace", 100_000))[0] == pytest.approx(-0.148, abs=0.01)
    assert non_gaussianity(draw("uniform", 100_000))[0] == pytest.approx(0.126, abs=0.01)


def test_correlations_of_independent_columns_stay_below_their_error():
    rng = np.random.default_rng(1)
    n, beyond, sizes = 300, 0, []
    for _ in range(1500):
        s = np.c_[rng.standard_cauchy(n), rng.exponential(size=n), rng.normal(size=n)]
        found = dependence(s)
        sizes.append(found[0, 1])
        assert (found == found.T).all()
        assert (np.diag(found) == 0).all()
        beyond += found.max() > 3.89 / sqrt(n)  # 10⁻³ over 24 one-sided tests
    assert beyond <= 8
    assert 0.7 < np.median(sizes) * sqrt(n) < 2.0


@pytest.mark.parametrize(
    "make",
    [
        lambda x, e: x + 0.3 * e,
        lambda x, e: np.abs(x) + 0.1 * e,
        lambda x, e: e * np.abs(x),
    ],
    ids=["rises", "rises with the distance", "spreads with the distance"],
)
def test_every_kind_of_dependence_is_seen(make):
    rng = np.random.default_rng(2)
    x, e = rng.normal(size=(2, 2000))
    assert dependence(np.c_[x, make(x, e)])[0, 1] > 0.3
    assert dependence(np.c_[make(x, e), x])[0, 1] > 0.3


@pytest.mark.parametrize("law", ["laplace", "uniform", "mixed", "one gaussian", "gaussian"])
def test_the_curvature_of_independent_components_is_the_sum_of_their_non_gaussianity(law):
    s = draw(law, 200_000)
    a = np.abs(non_gaussianity(s))
    assert curvature(s)[0, 1] == pytest.approx(a.sum(), abs=0.015)


@pytest.mark.parametrize("law", ["laplace", "uniform", "common scale"])
def test_the_curvature_is_the_second_derivative_of_the_contrast(law):
    s = draw(law, 20_000)
    s = (s - s.mean(axis=0)) / s.std(axis=0)
    side = np.sign(log_cosh(s).mean() - LOG_COSH_OF_A_GAUSSIAN)

    def contrast(angle):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        return side * log_cosh(s @ turn.T).mean(axis=0).sum()

    h = 1e-3
    second = (contrast(h) - 2 * contrast(0) + contrast(-h)) / h**2
    assert curvature(s)[0, 1] == pytest.approx(-second, abs=1e-4)


def test_on_a_disc_every_rotation_is_as_good():
    assert curvature(draw("disc", 200_000))[0, 1] == pytest.approx(0, abs=0.01)


def test_the_jackknife_is_the_spread_over_samples():
    rng = np.random.default_rng(3)
    samples = [rng.laplace(size=(1000, 2)) for _ in range(150)]
    spread = np.std([curvature(s)[0, 1] for s in samples])
    told = np.median([module._jackknife(s)[0, 1] for s in samples])
    assert told == pytest.approx(spread, rel=0.3)


# ---- answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["laplace", "uniform", "mixed", "one gaussian"])
@pytest.mark.parametrize("d", [2, 4])
def test_independent_non_gaussian_components_get_everything(law, d):
    z = draw(law, d=d) @ np.random.default_rng(7).normal(size=(d, d))
    assert set(answers(z).values()) == {"supported"}


def test_gaussians_are_told_with_their_numbers_and_not_asked_for_separation():
    found = (components(draw("gaussian")),)
    told = non_gaussian(found)
    assert told.answer == "fails"
    assert "component 1" in told.evidence
    assert "component 2" in told.evidence
    other = separated(found, told)
    assert (other.answer, "not asked" in other.evidence) == ("unknown", True)


def test_most_gaussian_samples_are_called_gaussian_and_none_is_called_non_gaussian():
    told = [non_gaussian((components(draw("gaussian", seed=seed)),)).answer for seed in range(20)]
    assert "supported" not in told
    assert told.count("fails") >= 17


def test_a_disc_breaks_separation_and_independence():
    told = answers(draw("disc", n=12_000))
    assert told == {RANK: "supported", GAUSSIAN: "supported", SEPARATED: "fails", INDEPENDENT: "fails"}


@pytest.mark.parametrize("d", [2, 3])
def test_no_sample_of_a_disc_has_separated_optima(d):
    told = [answers(draw("disc", n=8000, d=d, seed=seed))[SEPARATED] for seed in range(15)]
    assert "supported" not in told
    assert told.count("fails") >= 10


def test_a_common_scale_breaks_independence_only():
    told = answers(draw("common scale", n=12_000, d=3))
    assert told == {RANK: "supported", GAUSSIAN: "supported", SEPARATED: "supported", INDEPENDENT: "fails"}


def test_independent_components_are_hardly_ever_called_dependent():
    told = [answers(draw("laplace", n=1500, d=3, seed=seed))[INDEPENDENT] for seed in range(30)]
    assert "fails" not in told
    assert told.count("supported") >= 27


def test_columns_that_are_combinations_of_others_are_named():
    z = draw("uniform", d=3)
    z = np.c_[z, z[:, 0] - 2 * z[:, 2]]
    found = (components(z),)
    told = full_rank(found)
    assert told.answer == "fails"
    assert told.evidence == "z1, z3, z4 are linear combinations of one another"
    rest = answers(z)
    assert [rest[name] for name in (GAUSSIAN, SEPARATED, INDEPENDENT)] == ["supported"] * 3


def test_a_tiny_unit_is_no_missing_rank():
    told = full_rank((components(draw("uniform") * [1.0, 1e-8]),))
    assert told.answer == "supported"
    assert "λ = 9" in told.evidence or "λ = 1" in told.evidence


def test_the_smallest_eigenvalue_and_the_radius_are_those_of_all_rows():
    z = draw("laplace", d=3) @ np.diag([1.0, 2, 3]) + 5
    found = components(z)
    assert np.allclose(found.eigenvalues, np.linalg.eigvalsh(np.cov(z, rowvar=False, bias=True))[::-1])
    assert found.radius == pytest.approx(max(np.linalg.norm(row - z.mean(axis=0)) for row in z))


def test_few_rows_leave_everything_unknown():
    assert components(draw("laplace", n=39)) is None
    assert components(draw("laplace", n=59, d=6)) is None
    for found in ((None,), (components(draw("uniform")), None)):
        gaussian = non_gaussian(found)
        told = (full_rank(found), gaussian, separated(found, gaussian), independent(found))
        assert {h.answer for h in told} == {"unknown"}
        assert all("fewer than 10 rows per latent" in h.evidence for h in told)


def test_some_rows_leave_what_they_cannot_show_unknown():
    told = answers(draw("laplace", n=60))
    assert [told[name] for name in (RANK, GAUSSIAN, SEPARATED, INDEPENDENT)] == ["supported", *["unknown"] * 3]


def test_one_component_is_always_separated_and_independent():
    found = (components(draw("gaussian", d=1)),)
    gaussian = non_gaussian(found)
    assert gaussian.answer == "holds"
    assert separated(found, gaussian).answer == "supported"
    assert independent(found).answer == "supported"


@pytest.mark.parametrize("worst", [0, 1])
def test_the_worst_run_decides_and_is_named(worst):
    good, bad = components(draw("uniform", d=3)), components(draw("disc", n=12_000, d=3))
    runs = (bad, good) if worst == 0 else (good, bad)
    gaussian = non_gaussian(runs)
    for told in (separated(runs, gaussian), independent(runs)):
        assert told.answer == "fails"
        assert f"(run {worst + 1}, the worst)" in told.evidence
    flat = components(np.c_[draw("uniform"), draw("uniform")[:, 0]])
    told = full_rank((flat, good) if worst == 0 else (good, flat))
    assert (told.answer, f"(run {worst + 1}, the worst)" in told.evidence) == ("fails", True)
    normal = components(draw("gaussian", d=3))
    told = non_gaussian((normal, good) if worst == 0 else (good, normal))
    assert (told.answer, f"(run {worst + 1}, the worst)" in told.evidence) == ("fails", True)


def doctored(**changes):
    """Components of a sound sample, with parts of their unmixing replaced."""
    found = components(draw("uniform"))
    return (replace(found, unmixing=replace(found.unmixing, **changes)),)


@pytest.mark.parametrize(
    ("changes", "answer", "words"),
    [
        ({"agreement": 0.91}, "supported", "0.910 or more"),
        ({"agreement": 0.5, "tie": True}, "fails", "other components are as good"),
        ({"agreement": 0.5, "tie": False}, "unknown", "poorer optima"),
        ({"converged": False}, "unknown", "did not come to rest"),
    ],
)
def test_other_starts_must_end_in_the_same_components(changes, answer, words):
    found = doctored(**changes)
    told = separated(found, non_gaussian(found))
    assert told.answer == answer
    assert words in told.evidence


@pytest.mark.parametrize(
    ("curved", "answer"), [(0.2, "supported"), (0.029, "fails"), (-0.2, "fails"), (0.05, "supported")]
)
def test_the_contrast_must_be_sharp_between_every_two_components(curved, answer):
    found = components(draw("uniform", d=3))
    falls, error = found.curvature.copy(), np.full((3, 3), 0.01)
    falls[0, 2] = falls[2, 0] = curved
    told = separated((replace(found, curvature=falls, curvature_error=error),), non_gaussian((found,)))
    assert told.answer == answer
    assert answer == "supported" or "components 1 and 3" in told.evidence


@pytest.mark.parametrize(
    ("size", "n", "answer"),
    [(0.9, 1000, "supported"), (1.5, 1000, "unknown"), (2.1, 1000, "fails"), (0.5, 100, "unknown")],
)
def test_dependence_is_judged_by_its_sampling_error(size, n, answer):
    found = replace(components(draw("uniform")), n_rows=n)
    matrix = size * found.sampling_error * (1 - np.eye(2))
    told = independent((replace(found, dependence=matrix),))
    assert told.answer == answer
    assert "components 1 and 2" in told.evidence


@pytest.mark.parametrize(
    ("a", "answer"),
    [
        ((0.1, 0.1, 0.1), "supported"),
        ((0.0, 0.1, -0.1), "supported"),
        ((0.0, 0.0, 0.1), "fails"),
        ((0.0, 0.025, 0.1), "unknown"),
        ((0.0, -0.033, 0.1), "supported"),
    ],
)
def test_all_but_one_component_must_be_far_from_gaussian(a, answer):
    found = replace(components(draw("uniform", d=3)), non_gaussianity=np.array(a), n_rows=2000)
    assert found.standard_error == pytest.approx(0.0079, abs=1e-4)
    assert non_gaussian((found,)).answer == answer


def test_components_are_measured_on_rows_they_were_not_fitted_on():
    """On pure noise in many dimensions, fitted rows look non-Gaussian; held-out rows do not."""
    z = np.random.default_rng(8).normal(size=(300, 20))
    found = components(z)
    fitted = z[halves(300, 0)[0]]
    in_sample = np.abs(non_gaussianity(found.unmixing(fitted))).mean()
    assert in_sample > 1.5 * np.abs(found.non_gaussianity).mean()
    assert found.n_rows == 150


@pytest.mark.parametrize(
    ("z", "sentence"),
    [
        (np.ones((50, 2)), "must vary"),
        (np.ones((1, 2)), "at least 2 rows"),
        (np.full((50, 2), np.nan), "must be finite"),
    ],
)
def test_bad_tables_are_one_sentence(z, sentence):
    with pytest.raises(InputError, match=sentence):
        components(z)


def test_there_must_be_two_starts_to_compare():
    with pytest.raises(InputError, match="restarts"):
        components(draw("uniform"), restarts=1)


def test_components_of_two_values_are_far_from_gaussian():
    z = np.random.default_rng(9).choice([-1.0, 1.0], size=(2000, 3))
    told = answers(z @ np.random.default_rng(10).normal(size=(3, 3)))
    assert set(told.values()) == {"supported"}
