"""Decoders that cannot be undone, that fall silent in places, or whose points come sorted or in other units."""

import numpy as np
import pytest
import torch

import noumena as nm
from noumena.guarantees.collisions import invertible_at

Z = torch.randn(500, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
INVERTIBLE, FULL = "g is invertible", "full support and no accidental cancellation"


def squares(z):
    a, b = z[:, 0] ** 2, z[:, 1] ** 2
    return torch.stack([a, a**2, a + b, b, b**2], dim=1)


def folded(z):
    a, b = z.abs().unbind(dim=1)
    return torch.stack([a, 2 * a, 3 * a, a + b, b, 2 * b, 3 * b], dim=1)


def periodic(z):
    a, b = z.unbind(dim=1)
    return torch.stack([torch.sin(20 * a), torch.cos(20 * a), a * 0 + b, b**3], dim=1)


def cubes(z):
    a, b = z.unbind(dim=1)
    return torch.stack([a, a**3, 2 * a + b**3, b, b**3 + b**2], dim=1)


def hypothesis(certificate, name):
    return next(h for h in certificate.hypotheses if h.name == name)


@pytest.mark.parametrize("decoder", [squares, folded, periodic])
def test_a_decoder_that_maps_two_points_to_the_same_observations_is_found_out(decoder):
    found = invertible_at(decoder, Z)
    assert found.answer == "fails"
    assert "spreads apart have the same observations" in found.evidence
    certificate = nm.certify(decoder, at=Z)
    assert certificate.answer != "identified"
    assert INVERTIBLE in certificate.broken_premises


def test_the_points_that_collide_need_not_be_among_the_given_ones():
    some = Z[(Z[:, 0] > 0) | (Z[:, 1] > 0)]
    found = invertible_at(squares, some)
    assert found.answer == "fails"


@pytest.mark.parametrize("decoder", [cubes, lambda z: z @ torch.tensor([[1.0, 1, 0], [0, 1e-5, 1e-5]]).double()])
def test_a_decoder_that_can_be_undone_is_left_in_peace_even_with_a_faint_latent(decoder):
    assert invertible_at(decoder, Z).answer == "supported"


def test_units_do_not_decide_whether_a_decoder_can_be_undone():
    units = torch.tensor([1.0, 1e9], dtype=torch.float64)
    assert invertible_at(lambda z: cubes(z / units), Z * units).answer == "supported"
    assert invertible_at(lambda z: squares(z / units), Z * units).answer == "fails"


def test_a_latent_that_does_not_vary_in_the_points_has_a_unit_all_the_same():
    still = torch.cat([Z[:, :1], torch.ones(len(Z), 1, dtype=torch.float64)], dim=1)
    wide = lambda z: torch.cat([cubes(z), z[:, :1] ** 5, z[:, :1] * z[:, 1:]], dim=1)  # noqa: E731
    assert invertible_at(wide, still).answer == "supported"


def test_fewer_observations_than_latents_cannot_be_undone():
    assert invertible_at(lambda z: z.sum(dim=1, keepdim=True), Z).answer == "fails"
    assert "1 observations vary" in invertible_at(lambda z: torch.cat([z[:, :1], 0 * z], dim=1), Z).evidence


def kinked(z):
    """Both latents are silent in a half of the plane; it can be undone all the same."""
    a, b = z.unbind(dim=1)
    p, q = torch.relu(a), torch.relu(b)
    return torch.stack([p, p**2 + p, a + b, a - b, q, q**2 + q], dim=1)


def test_a_support_that_vanishes_in_a_region_certifies_nothing():
    """A competitor with as many dependencies: ẑ1 = z1·exp(1.5·sin(4·z2)) where both latents are negative."""
    certificate = nm.certify(kinked, at=Z)
    assert hypothesis(certificate, FULL).answer == "fails"
    assert certificate.answer != "identified"
    assert hypothesis(certificate, INVERTIBLE).answer == "supported"


def test_a_small_region_without_full_support_is_seen_too():
    def late(z):
        a, b = z.unbind(dim=1)
        p = torch.relu(b + 1.5) ** 3
        return torch.stack([a, torch.sinh(a), a + b + 0.3 * torch.tanh(a * b), p, 2 * p + torch.sinh(p)], dim=1)

    found = hypothesis(nm.certify(late, at=Z), FULL)
    assert found.answer == "fails"
    assert "x4–z2" in found.evidence


def test_an_entry_that_vanishes_at_a_point_and_not_around_it_breaks_nothing():
    line = torch.linspace(-1, 1, 11, dtype=torch.float64)
    grid = torch.cartesian_prod(line, line)  # cubes and squares have no slope at zero
    certificate = nm.certify(cubes, at=grid)
    assert hypothesis(certificate, FULL).answer == hypothesis(certificate, INVERTIBLE).answer == "supported"
    assert hypothesis(certificate, "slices of the latents are connected").answer == "fails"  # eleven values of each
    sampled = torch.cat([grid[60:61], Z])
    assert nm.certify(cubes, at=sampled).answer == "identified"


def one_sided(z):
    """Where z1 is positive three observations see the same mixture of both latents."""
    a, b = z.unbind(dim=1)
    n = torch.relu(-a) ** 3
    return torch.stack([a, torch.sinh(a), a + b, 2 * (a + b) + n, 3 * (a + b) - 2 * n, b, torch.sinh(b)], dim=1)


def test_the_order_of_points_decides_nothing():
    order = Z[:, 0].argsort()
    found = [nm.certify(one_sided, at=z) for z in (Z, Z[order], Z[order.flip(0)])]
    assert [c.gap for c in found] == [-1, -1, -1]
    assert {c.answer for c in found} == {"open"}


@pytest.mark.parametrize("unit", [1e-7, 1.0, 1e7])
def test_the_unit_of_a_latent_decides_nothing(unit):
    draw = np.random.default_rng(4)
    J = torch.tensor(np.array([[1, 0], [0, 1], [1, 1]]) * draw.uniform(0.5, 1.5, size=(3, 2)))
    units = torch.tensor([1.0, unit], dtype=torch.float64)
    certificate = nm.certify(lambda z: (z / units) @ J.T, at=Z * units, threshold=1e-3)
    assert (certificate.gap, certificate.answer) == (0, "not identified")


def test_one_latent_of_a_model_that_explains_nothing_is_open():
    noise = np.random.default_rng(0).normal(size=(300, 6))
    training = nm.Training(steps=20, batch_size=64)
    model = nm.VAE(1, n_models=2, training=training, random_state=0).fit(noise)
    certificate = nm.certify(model)
    assert "the data are explained" in certificate.broken_premises
    assert certificate.answer == certificate.verdict(0).answer == "open"
    assert (str(certificate.ambiguity(0)), certificate.known_up_to(0)) == ("any", "any")
    assert "pinned down: none" in certificate.headline
    assert (
        hypothesis(certificate, "the Occam gap is positive").evidence == "there is no other latent to exchange z1 with"
    )
    assert nm.certify(nm.Structure([[1], [1]])).answer == "identified"


def test_no_theorem_speaks_where_latents_outnumber_what_can_tell_them_apart():
    pairs = nm.Structure([[1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 1, 0], [0, 1, 0, 1, 0, 1], [0, 0, 1, 0, 1, 1]])
    certificate = nm.certify(pairs)
    assert all("every latent has an observation of its own" in t.broken for t in certificate.theorems[1:])
    plain = nm.certify(nm.Structure([[1, 0], [1, 1], [0, 1]]))
    assert not any(t.broken for t in plain.theorems[1:])


def test_a_threshold_above_every_strength_reads_nothing_off():
    certificate = nm.certify(cubes, at=Z, threshold=50.0)
    assert hypothesis(certificate, "zeros are exact").answer == "fails"
    assert all(theorem.broken for theorem in certificate.theorems)


def test_a_mixture_that_was_fitted_is_never_called_exact():
    near = np.stack([np.eye(2), np.diag([1.01, 1.02])])
    means = [[0, 0], [3, 3]]
    exact, fitted = (nm.worlds.Mixture([0.5, 0.5], means, near, fitted=fitted) for fitted in (False, True))
    assert "holds" in {h.answer for h in nm.certify(exact).hypotheses}
    assert "holds" not in {h.answer for h in nm.certify(fitted).hypotheses if h.name.startswith(("P1", "P2"))}
    codes = np.random.default_rng(0).normal(size=(200, 2)) * (np.random.default_rng(1).random((200, 2)) > 0.4)
    sparse = nm.estimators.mixture_of_masks(codes)
    assert sparse.mixture.fitted
    assert sparse.mixture.standardised().fitted
    assert str(nm.certify(sparse)) == str(nm.certify(sparse.mixture))
    assert "wanted 1e-09" not in str(nm.certify(sparse))


def test_observations_that_saturate_or_have_long_tails_can_be_undone_all_the_same():
    def tails(z):
        a, b = torch.exp(4 * z[:, 0]), z[:, 1]
        return torch.stack([a, 2 * a, b, b**3 + b], dim=1)

    for decoder in (tails, lambda z: torch.tanh(5 * z), lambda z: torch.exp(4 * z)):
        assert invertible_at(decoder, Z).answer == "supported"
    assert nm.certify(tails, at=Z).answer == "identified"


def test_a_decoder_that_computes_in_single_precision_is_judged_by_its_own_rounding():
    def single(decoder):
        return lambda z: decoder(z.float())

    assert hypothesis(nm.certify(single(periodic), at=Z), INVERTIBLE).answer == "fails"
    assert hypothesis(nm.certify(single(cubes), at=Z), INVERTIBLE).answer == "supported"


def test_a_decoder_is_not_asked_outside_the_range_of_its_points():
    def roots(z):
        a, b = z[:, 0].sqrt(), torch.relu(z[:, 1] - 0.5)
        return torch.stack([a, b, 2 * b + a], dim=1)

    z = torch.rand(2000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z[:, 0] = z[:, 0] ** 6
    assert nm.certify(roots, at=z).answer != "identified"


def test_a_query_about_all_latents_is_open_where_nothing_is_proved():
    certificate = nm.certify(squares, at=Z)
    assert certificate.query("x3").answer == "open"
    assert "g is invertible" in certificate.query("x3").reason
    assert nm.certify(cubes, at=Z).query("x3").answer == "block-identified"
