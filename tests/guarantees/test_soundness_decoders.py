"""Soundness: decoders and worlds that were once called identified and are not, and what must stay so beside them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import noumena as nm
from noumena.guarantees import Hypothesis
from noumena.worlds import Law, World, law

W2 = torch.tensor([[1.0, 0], [0.7, 0], [1.3, 0], [0.9, 0.6], [0.5, -1.1], [0, 1.2], [0, 0.8], [0, -1.0]]).double()


def drawn(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def linear(z: Tensor) -> Tensor:
    return z @ W2.to(z).T


def curved(z: Tensor) -> Tensor:
    return linear(z + 0.3 * z.sin())


def flip(z: Tensor) -> Tensor:
    """The first latent with the sign of the second."""
    return torch.stack([z[:, 0] * z[:, 1].sign(), z[:, 1]], dim=1)


def clusters(n: int, generator: torch.Generator) -> Tensor:
    z = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    return z + torch.tensor([0.0, 2.0]) * z[:, 1:].sign()


def c_shape(n: int, generator: torch.Generator) -> Tensor:
    """Connected, but most of its slices along the first latent are two pieces."""
    z = torch.rand(4 * n, 2, generator=generator, dtype=torch.float64) * 4 - 2
    return z[(z[:, 0] < -1.2) | (z[:, 1].abs() > 1)][:n]


def answer_of(certificate: nm.Certificate, name: str) -> str:
    return next(h.answer for h in certificate.hypotheses if name in h.name)


# ---- clusters and other supports -----------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [clusters, c_shape], ids=["clusters", "c shape"])
@pytest.mark.parametrize("n", [500, 2000])
def test_latents_in_pieces_are_not_identified_across_them(draw, n):
    world = World(nm.Structure(W2.numpy() != 0), Law("own", 2, False, draw), linear)
    z = draw(n, torch.Generator().manual_seed(1))
    for certificate in (nm.certify(world), nm.certify(linear, at=z), nm.certify(lambda v: linear(flip(v)), at=flip(z))):
        assert certificate.answer == "open"
        assert answer_of(certificate, "connected") == "fails"
    for certificate in (nm.certify(world), nm.certify(linear, at=z)):
        assert "element-wise within each connected part" in certificate.headline
        assert certificate.known_up_to(0) == "element-wise within each connected part"


def test_a_law_of_a_few_values_is_in_pieces():
    z = torch.randint(0, 5, (2000, 2), generator=torch.Generator().manual_seed(0)).double()
    certificate = nm.certify(linear, at=z)
    assert certificate.answer == "open"
    assert answer_of(certificate, "connected") == "fails"


@pytest.mark.parametrize(
    "name", ["gaussian", "unit gaussian", "laplace", "uniform", "correlated gaussian", "linear sem"]
)
def test_connected_laws_are_certified_as_worlds_and_as_decoders(name):
    S = nm.worlds.family("random", 4, 14, gap=2, random_state=3)
    world = nm.worlds.structured(S, law=name, random_state=3)
    assert nm.certify(world).answer == "identified"
    certificate = nm.certify(world.decoder, at=world.latents(800, random_state=5))
    assert certificate.answer == "identified", str(certificate)


def test_a_heavy_tailed_law_is_connected():
    z = torch.distributions.StudentT(2.5).sample((1500, 2)).double()
    assert answer_of(nm.certify(linear, at=z), "connected") == "supported"


def test_a_world_of_somebodys_own_law_is_tested_at_its_samples():
    own = Law("own", 2, True, lambda n, g: torch.rand(n, 2, generator=g, dtype=torch.float64))
    certificate = nm.certify(World(nm.Structure(W2.numpy() != 0), own, linear))
    assert answer_of(certificate, "connected") == "supported"
    assert certificate.answer == "identified"


# ---- jumps ---------------------------------------------------------------------------------------------------


def rounded(v: Tensor) -> Tensor:
    z = torch.stack([v[:, 0] - (2 * v[:, 1]).round(), v[:, 1]], dim=1)
    return linear(z)


def hidden(v: Tensor) -> Tensor:
    """The rows of the first latent depend on the second, which no derivative shows."""
    return linear(torch.stack([v[:, 0] + v[:, 1].detach(), v[:, 1]], dim=1))


JUMPS = {"rounded": rounded, "flipped": lambda v: linear(flip(v)), "hidden": hidden}


@pytest.mark.parametrize("name", list(JUMPS))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_jumps_and_hidden_dependence_are_seen(name, dtype):
    certificate = nm.certify(JUMPS[name], at=drawn(1000, 2).to(dtype))
    assert certificate.answer == "open"
    assert answer_of(certificate, "continuous") == "fails"


@pytest.mark.parametrize(
    "bend",
    [
        nn.ReLU(),
        nn.LeakyReLU(0.1),
        lambda z: (20 * z).tanh(),
        lambda z: nn.functional.softplus(z, beta=40.0),
        torch.sin,
        lambda z: (200 * z).tanh() / 5,
    ],
)
def test_kinks_and_steep_slopes_are_no_jumps(bend):
    certificate = nm.certify(lambda z: linear(z + 0.5 * bend(z)), at=drawn(500, 2))
    assert answer_of(certificate, "continuous") == "supported"


# ---- faint entries -------------------------------------------------------------------------------------------


def faint_case() -> tuple[Tensor, Tensor, Tensor]:
    W = torch.zeros(20, 3, dtype=torch.float64)
    W[:4, 0] = W[4:8, 1] = W[8:14, 0] = W[14:, 1] = 1
    W[8:, 2] = 0.12 + 0.0001 * torch.arange(12)
    B = torch.tensor([[1.0, 0, 0], [0, 1, 0], [-0.5, -0.5, 1]]).double()
    z = drawn(1000, 3)
    return W, B, z @ torch.linalg.inv(B).T


def test_faint_entries_are_entries():
    W, B, at = faint_case()
    for threshold in (None, 0.1):
        certificate = nm.certify(lambda v: v @ (W @ B).T, at=at, threshold=threshold)
        assert certificate.answer == "open"
        assert answer_of(certificate, "zeros are exact") == "fails"


def test_exact_zeros_are_zeros_in_both_precisions():
    for dtype in (torch.float64, torch.float32):
        certificate = nm.certify(curved, at=drawn(500, 2).to(dtype))
        assert certificate.answer == "identified", str(certificate)


# ---- exchanges -----------------------------------------------------------------------------------------------


def many_rows() -> Tensor:
    rng = np.random.default_rng(0)
    A = np.zeros((800, 3))
    A[:60, 0] = A[60:120, 1] = A[120:180, 2] = 1
    A[180:500, :2] = 1
    A[500:650, ::2], A[650:, 1:] = rng.uniform(0.5, 1.5, (150, 2)), rng.uniform(0.5, 1.5, (150, 2))
    return torch.as_tensor(A)


def test_equal_rows_cancel_together_however_many_rows_there_are():
    A = many_rows()
    certificate = nm.certify(lambda z: z @ A.T, at=drawn(500, 3))
    assert certificate.answer != "identified"
    assert certificate.gap is not None
    assert certificate.gap < 0


def tie(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    a, b = a.to(dtype), b.to(dtype)
    m = a + 0.3 * a.sin() + b + 0.3 * b.tanh()
    return torch.stack([a, a + 0.2 * a**3, b, b + 0.3 * b.tanh(), m, m + 0.1 * m**3], dim=1)


@pytest.mark.parametrize("inside", [torch.float32, torch.float64])
def test_a_tie_is_seen_in_single_precision_too(inside):
    certificate = nm.certify(lambda z: tie(z[:, 0], z[:, 1], inside).double(), at=drawn(500, 2))
    assert certificate.answer != "identified"
    assert certificate.gap == 0


# ---- what vanishes -------------------------------------------------------------------------------------------


def test_a_steep_softplus_leaves_regions_without_a_dependency():
    steep = nn.Softplus(beta=40)
    certificate = nm.certify(lambda z: torch.cat([linear(z), steep(z[:, :1] + 1)], dim=1), at=drawn(1000, 2))
    assert certificate.answer == "open"
    assert answer_of(certificate, "full support") == "fails"


def test_an_entry_that_vanishes_on_one_point_in_a_hundred_vanishes():
    late = nn.ReLU()
    z = drawn(2000, 2)
    share = float((z[:, 0] > 2.3).double().mean())
    assert 0.001 < share < 0.02
    certificate = nm.certify(lambda v: torch.cat([linear(v), late(2.3 - v[:, :1])], dim=1), at=z)
    assert certificate.answer == "open"
    assert answer_of(certificate, "full support") == "fails"


# ---- points --------------------------------------------------------------------------------------------------


def degenerate_points() -> dict[str, Tensor]:
    t = drawn(500, 1)[:, 0]
    return {
        "two": drawn(2, 2),
        "line": torch.stack([t, 2 * t], dim=1),
        "curve": torch.stack([t, t.sin() * 2], dim=1),
        "circle": torch.stack([(3 * t).cos(), (3 * t).sin()], dim=1),
        "copies": drawn(5, 2).repeat(100, 1),
        "few": drawn(15, 2),
    }


@pytest.mark.parametrize("name", list(degenerate_points()))
def test_points_that_do_not_fill_the_space_certify_nothing(name):
    certificate = nm.certify(linear, at=degenerate_points()[name])
    assert certificate.answer == "open"


def test_a_surface_in_space_certifies_nothing():
    support = nm.worlds.family("random", 3, 12, gap=1, random_state=1).dense
    W = torch.as_tensor(support * np.random.default_rng(0).uniform(0.5, 1.5, size=(12, 3)))
    z = drawn(1500, 2)
    surface = torch.stack([z[:, 0], z[:, 1], (2 * z[:, 0]).sin() + z[:, 1] ** 2], dim=1)
    certificate = nm.certify(lambda v: v @ W.T, at=surface)
    assert certificate.answer == "open"
    assert answer_of(certificate, "points spread") == "fails"
    assert nm.certify(lambda v: v @ W.T, at=drawn(1500, 3)).answer == "identified"


# ---- unknown is not yes --------------------------------------------------------------------------------------


def test_what_is_identified_rests_on_what_holds_and_on_what_no_data_can_show():
    for certificate in (
        nm.certify(linear, at=drawn(500, 2)),
        nm.certify(World(nm.Structure(W2.numpy() != 0), law("gaussian", 2), linear)),
    ):
        assert certificate.answer == "identified"
        unknown = {h.name for h in certificate.hypotheses if h.answer not in ("holds", "supported")}
        assert unknown <= {"the other model is no denser", "the data are explained"}


def test_a_certificate_with_another_unknown_is_open_and_names_it():
    S = nm.Structure(W2.numpy() != 0)
    sound = nm.certify(S)
    assert sound.answer == "identified"
    assert any("continuous" in sentence for sentence in sound.rests_on)
    assert any("connected" in sentence for sentence in sound.rests_on)
    doubt = Hypothesis("the moon is round", "unknown", "nobody looked")
    occam, *others = sound.theorems
    doubtful = replace(sound, theorems=(replace(occam, hypotheses=(*occam.hypotheses, doubt)), *others))
    assert doubtful.answer == "open"
    assert "the moon is round" in doubtful.headline


# ---- witnesses -----------------------------------------------------------------------------------------------


def test_not_identified_comes_with_a_witness_that_verifies():
    for seed in range(6):
        world = nm.worlds.structured(nm.worlds.family("random", 3, 5, random_state=seed), random_state=seed)
        certificate = nm.certify(world)
        for t in range(3):
            for r in range(3):
                if t != r and certificate.verdict(t, r).answer == "not identified":
                    assert certificate.witness(t, r).verify().holds


# ---- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyError, AssertionError, OverflowError, StopIteration])
def test_whatever_a_decoder_raises_becomes_one_sentence(error):
    def broken(z: Tensor) -> Tensor:
        raise error("no")

    with pytest.raises(nm.InputError) as told:
        nm.certify(broken, at=drawn(500, 2))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("index", [1.5, 1.0, True, None, (0,), np.float64(1.0)])
def test_a_latent_is_asked_for_by_name_or_by_a_whole_number(index):
    with pytest.raises(nm.InputError) as told:
        nm.certify(nm.Structure(W2.numpy() != 0)).verdict(index)
    assert "\n" not in str(told.value)
    assert nm.certify(nm.Structure(W2.numpy() != 0)).verdict(np.int64(1)).answer == "identified"


# ---- invariance ----------------------------------------------------------------------------------------------


def test_answers_do_not_depend_on_order_or_units():
    z, order = drawn(600, 2), torch.randperm(600, generator=torch.Generator().manual_seed(3))
    units = torch.tensor([1e4, 1e-3], dtype=torch.float64)
    scale = torch.logspace(-4, 4, 8).double()
    for decoder in (curved, hidden, rounded):
        base = nm.certify(decoder, at=z)
        others = (
            nm.certify(decoder, at=z[order]),
            nm.certify(lambda v, f=decoder: f(v / units), at=z * units),
            nm.certify(lambda v, f=decoder: scale * f(v), at=z),
        )
        for other in others:
            assert [(h.name, h.answer) for h in other.hypotheses] == [(h.name, h.answer) for h in base.hypotheses]
            assert other.answer == base.answer
