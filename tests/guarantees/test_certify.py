"""Certificates: a world built to satisfy the theorem gets it, and breaking one hypothesis loses it for that reason."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_decoders import GOOD, Linear, entries

import noumena as nm
from noumena.guarantees import Hypothesis, Rivals, StructureCertificate, Theorem
from noumena.guarantees.occam import Gap, generic_gap


def supports(most_rows=9, most_columns=4):
    def build(shape):
        rows, columns = shape
        cells = st.lists(st.booleans(), min_size=rows * columns, max_size=rows * columns)
        return cells.map(lambda bits: np.array(bits).reshape(rows, columns))

    shapes = st.tuples(st.integers(2, most_rows), st.integers(2, most_columns))
    return shapes.flatmap(build).filter(lambda s: bool(s.any(axis=0).all()))


# ---- structures ----------------------------------------------------------------------------------------------


def test_a_positive_gap_identifies_every_latent():
    certificate = nm.certify(nm.Structure(GOOD))
    assert certificate.gap == 2
    assert certificate.answer == "identified"
    assert certificate.ambiguity("z1") == nm.Ambiguity("element-wise")
    assert certificate.blocks() == ((0,), (1,))
    assert certificate.competitors == ()


def test_a_nested_column_is_not_identified_and_the_shear_is_named():
    certificate = nm.certify(nm.Structure([[1, 1], [0, 1], [0, 1], [0, 1]]))
    verdict = certificate.verdict("z1", "z2")
    assert verdict.answer == "not identified"
    assert (verdict.competitor.kind, verdict.competitor.carries) == ("shear", (1,))
    assert certificate.verdict("z2", "z1").answer == "open"
    assert certificate.answer == "not identified"
    assert certificate.ambiguity("z1") == nm.Ambiguity("block-wise", ((0, 1),))


def test_a_substitution_is_named_with_the_observation_and_the_saving():
    support = np.array([[1, 1], [1, 0], [0, 1]], dtype=bool)
    found = [c for c in Rivals(nm.Structure(support)) if c.kind == "substitution"]
    assert {(c.latent, c.rows[0], c.change) for c in found} == {(0, 0, 0), (1, 0, 0)}


def test_with_as_many_observations_as_latents_the_observations_compete():
    rivals = [c for c in Rivals(nm.worlds.family("dense", 3)) if c.kind == "observations"]
    assert [(c.latent, c.carries, c.change) for c in rivals] == [(0, (1, 2), -6), (1, (0, 2), -6), (2, (0, 1), -6)]
    assert not any(c.kind == "observations" for c in Rivals(nm.worlds.family("dense", 3, 4)))


def test_the_observations_carry_only_what_every_observation_that_can_stand_for_a_latent_carries():
    assert not any(c.kind == "observations" for c in Rivals(nm.worlds.family("lack-one", 4)))


def test_with_a_negative_gap_nothing_is_proved_not_even_far_away():
    nested = np.array([[1, 1], [0, 1], [0, 1]], dtype=bool)
    S = nm.Structure(np.block([[nested, np.zeros((3, 2), bool)], [np.zeros((8, 2), bool), GOOD]]))
    certificate = nm.certify(S)
    assert certificate.gap == -1
    assert certificate.verdict("z3", "z1").answer == "open"


@pytest.mark.parametrize("name", ["dense", "banded", "lack-one", "triangular"])
def test_no_family_with_as_many_observations_as_latents_is_identified(name):
    certificate = nm.certify(nm.worlds.family(name, 4))
    assert certificate.answer == "not identified"
    assert certificate.gap <= 0


def test_a_permutation_is_identified_even_when_square():
    certificate = nm.certify(nm.Structure(np.eye(3, dtype=bool)[[2, 0, 1]]))
    assert certificate.answer == "identified"


def test_a_gap_of_zero_still_separates_blocks():
    pair = np.array([[1, 1], [1, 1], [1, 0], [0, 1]], dtype=bool)  # differ by one row each way: cost 0
    support = np.block([[pair, np.zeros((4, 2), bool)], [np.zeros((8, 2), bool), GOOD]])
    certificate = nm.certify(nm.Structure(support))
    assert certificate.gap == 0
    assert certificate.blocks() == ((0, 1), (2,), (3,))
    assert certificate.verdict("z3").answer == "identified"
    assert certificate.verdict("z1", "z3").answer == "identified"
    assert certificate.verdict("z1", "z2").answer != "identified"


def test_beyond_eight_latents_the_polynomial_test_speaks():
    pairs = [(i, j) for i in range(9) for j in range(9) if i != j]
    support = np.zeros((len(pairs), 9), dtype=bool)
    for row, (i, j) in enumerate(pairs):
        support[row, [i, j]] = True
    certificate = nm.certify(nm.Structure(support))
    assert certificate.gap is None
    assert certificate.answer == "identified"
    assert certificate.bound >= 1
    assert f"at least {certificate.bound}" in certificate.headline


def test_a_single_latent_is_identified():
    assert nm.certify(nm.Structure([[1], [1]])).answer == "identified"


@given(supports())
@settings(max_examples=300, deadline=None)
def test_identified_and_competitor_never_meet(support):
    S = nm.Structure(support)
    certificate = nm.certify(S)
    for rival in Rivals(S):
        for r in rival.carries:
            assert certificate.verdict(rival.latent, r).answer == "not identified"
            assert rival.change <= 0


@given(supports(most_rows=4, most_columns=3).filter(lambda s: bool(s.any(axis=1).all())))
@settings(max_examples=100, deadline=None)
def test_the_change_of_a_substitution_is_what_rebuilding_the_support_gives(support):
    S = nm.Structure(support)
    for rival in (c for c in Rivals(S) if c.kind == "substitution"):
        i, t = rival.rows[0], rival.latent
        rebuilt = support.copy()
        for k in np.flatnonzero(support[:, t]):
            rebuilt[k] |= support[i]
        rebuilt[i] = False
        rebuilt[i, t] = True
        assert rebuilt.sum() - support.sum() == rival.change


def test_a_shear_gives_the_same_data_with_the_same_support():
    world = nm.worlds.structured(nm.Structure([[1, 1], [0, 1], [0, 1], [1, 1]]), random_state=0)
    rival = next(c for c in Rivals(world.structure) if c.kind == "shear")
    t, r = rival.latent, rival.carries[0]
    z = world.latents(50)
    shifted = z.clone()
    shifted[:, t] = z[:, t] + torch.sin(z[:, r])

    def other(z_hat):
        back = z_hat.clone()
        back[:, t] = z_hat[:, t] - torch.sin(z_hat[:, r])
        return world.decoder(back)

    assert torch.allclose(other(shifted), world.decoder(z))
    support = (nm.jacobian(other, shifted).abs().amax(dim=0) > 0).numpy()
    assert np.array_equal(support, world.structure.dense)


def test_a_structure_can_be_given_as_an_array_or_a_file(tmp_path):
    nm.Structure(GOOD).to_csv(tmp_path / "s.csv")
    assert nm.certify(tmp_path / "s.csv").to_dict() == nm.certify(GOOD).to_dict()


def test_the_words_name_the_gap_the_closure_the_hypotheses_and_what_it_rests_on():
    text = str(nm.certify(nm.Structure([[1, 1], [0, 1], [0, 1], [0, 1]])))
    for piece in ("Occam gap", "closure {z1, z2}", "generic entries", "Rests on", "no more dependencies"):
        assert piece in text


def test_a_certificate_survives_json():
    facts = nm.certify(nm.Structure(GOOD)).to_dict()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["latents"][0]["answer"] == "identified"


def test_verdicts_agree_between_pairs_and_latents():
    for seed in range(20):
        support = np.random.default_rng(seed).random((7, 3)) < 0.5
        if not support.any(axis=0).all():
            continue
        certificate = nm.certify(nm.Structure(support))
        for t in range(3):
            answers = {certificate.verdict(t, r).answer for r in range(3) if r != t}
            worst = next(a for a in ("not identified", "open", "identified") if a in answers)
            assert certificate.verdict(t).answer == worst


def test_an_unknown_latent_is_one_sentence():
    with pytest.raises(nm.InputError, match="must be one of the structure's names"):
        nm.certify(nm.Structure(GOOD)).verdict("z9")


# ---- worlds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [1, 2])
def test_a_world_gets_at_its_points_the_gap_its_support_promises(gap):
    world = nm.worlds.structured(nm.worlds.family("random", 4, 14, gap=gap, random_state=3), random_state=3)
    certificate = nm.certify(world)
    assert certificate.gap == gap
    assert certificate.answer == "identified"
    assert any(h.answer == "supported" and "sampled points" in h.evidence for h in certificate.hypotheses)


def test_equal_shared_entries_lose_the_gap_that_generic_ones_have():
    law = nm.worlds.law("unit gaussian", 2)
    matrix = torch.tensor([[1.0, 0], [1, 0], [1, 1], [1, 1], [0, 1], [0, 1]], dtype=torch.float64)
    facts = {"rank margin": 1.0, "secant margin": 1.0}
    world = nm.worlds.World(nm.Structure(matrix.numpy() != 0), law, lambda z: z @ matrix.T, facts=facts)
    assert generic_gap(world.structure.dense).value == 1
    assert nm.certify(world).gap == 0
    assert nm.certify(world).answer != "identified"


# ---- fitted decoders -----------------------------------------------------------------------------------------


POINTS = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))


def test_a_users_decoder_is_certified_at_points():
    certificate = nm.certify(Linear(entries(GOOD)), at=POINTS)
    assert certificate.subject == "decoder"
    assert certificate.answer == "identified"
    assert np.array_equal(certificate.structure.dense, GOOD)
    assert "these latents" in certificate.headline


def test_certifying_leaves_the_users_module_alone():
    decoder = Linear(entries(GOOD))
    nm.certify(decoder, at=POINTS)
    assert decoder.matrix.dtype == torch.float32


def test_a_decoder_needs_points():
    with pytest.raises(nm.InputError, match="at=z"):
        nm.certify(Linear(entries(GOOD)))


def test_a_square_fit_is_never_called_identified_however_sparse():
    certificate = nm.certify(Linear(np.eye(2)), at=POINTS)
    assert certificate.answer == "open"
    failing = [h.name for h in certificate.hypotheses if h.answer == "fails"]
    assert "more observations than latents" in failing
    ring = nm.certify(Linear([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), at=torch.randn(64, 3, dtype=torch.float64))
    assert "observations" in {competitor.kind for competitor in ring.rivals.of(0)}
    assert all(ring.witness(0, r).verify().holds for r in (1, 2))


def test_the_observations_compete_for_what_they_carry_and_nothing_else():
    points = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    certificate = nm.certify(Linear([[1, 1, 0], [0, 1, 0], [0, 0, 1]]), at=points)
    assert {(t, r): certificate.verdict(t, r).answer for t in range(3) for r in range(3) if t != r} == {
        (0, 1): "not identified",
        (0, 2): "open",
        (1, 0): "not identified",
        (1, 2): "open",
        (2, 0): "open",
        (2, 1): "open",
    }
    assert certificate.witness("z1", "z2").verify().holds
    assert certificate.query("x3").answer == "open"
    with pytest.raises(nm.InputError, match="a pair with a known competitor"):
        certificate.witness("z3", "z1")


def test_entries_near_the_threshold_are_named():
    matrix = entries(GOOD)
    matrix[0, 1] = 0.08
    certificate = nm.certify(Linear(matrix), at=POINTS, threshold=0.1)
    zeros = next(h for h in certificate.hypotheses if h.name == "zeros are exact")
    assert zeros.answer == "fails"
    assert "x1–z2" in zeros.evidence


def test_a_latent_that_nothing_depends_on_is_named_and_nothing_is_certified():
    matrix = np.c_[entries(GOOD), np.zeros(8)]
    points = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    certificate = nm.certify(Linear(matrix), at=points)
    use = next(h for h in certificate.hypotheses if h.name == "every latent is in use")
    assert (use.answer, "z3" in use.evidence) == ("fails", True)
    assert certificate.answer != "identified"
    used = next(h for h in nm.certify(Linear(entries(GOOD)), at=POINTS).hypotheses if h.name == use.name)
    assert used.answer == "supported"


def test_data_that_are_not_explained_are_not_certified():
    world = nm.worlds.structured(nm.Structure(GOOD), law="unit gaussian", random_state=1)
    x = world.sample(300).x
    model = nm.VAE(2, penalty=0.05 * nm.DependencySparsity(), training=nm.Training(steps=3), random_state=0).fit(x)
    certificate = nm.certify(model)
    assert certificate.answer != "identified"
    explained = next(h for h in certificate.hypotheses if h.name == "the data are explained")
    assert explained.answer == "fails"


def bare(S: nm.Structure, gap: Gap | None, *hypotheses: Hypothesis) -> StructureCertificate:
    occam = Theorem("Occam", "nowhere", hypotheses, (nm.Ambiguity("element-wise"),) * S.n_latents)
    return StructureCertificate("structure", (occam,), structure=S, occam=gap, bound=0, rivals=Rivals(S))


def test_a_failing_premise_also_takes_back_the_blocks_of_a_gap_of_zero():
    pair = np.array([[1, 1], [1, 1], [1, 0], [0, 1]], dtype=bool)
    S = nm.Structure(np.block([[pair, np.zeros((4, 2), bool)], [np.zeros((8, 2), bool), GOOD]]))
    gap = generic_gap(S.dense)
    sound, broken = bare(S, gap), bare(S, gap, Hypothesis("explained", "fails", "no"))
    assert sound.verdict("z3", "z1").answer == "identified"
    assert broken.verdict("z3", "z1").answer == "open"
    assert "explained" in broken.headline


def test_a_plain_function_around_a_single_precision_network_can_be_certified():
    net = Linear(entries(GOOD))
    certificate = nm.certify(lambda z: 2 * net(z), at=POINTS.numpy())
    assert certificate.answer == "identified"


def test_a_world_built_by_hand_is_searched_for_points_with_the_same_observations():
    matrix = torch.as_tensor(entries(GOOD))
    world = nm.worlds.World(nm.Structure(GOOD), nm.worlds.law("unit gaussian", 2), lambda z: z @ matrix.T)
    answers = {h.name: h.answer for h in nm.certify(world).hypotheses}
    assert answers["g is invertible"] == "supported"
    assert nm.certify(world).answer == "identified"


@pytest.mark.parametrize("value", [-1, 0, 1])
def test_only_what_is_proved_is_called_identified(value):
    S = nm.Structure(GOOD)
    gap = Gap(value, (0, 1), ((0, 1),) if value <= 0 else ())
    certificate = bare(S, gap)
    assert certificate.verdict(0, 1).answer == "open"


@pytest.mark.parametrize(("latents", "observed"), [(3, 256), (5, 256), (2, 100), (2, 30), (3, 40)])
def test_a_dense_decoder_is_never_called_identified_for_the_entries_that_happen_to_be_faint(latents, observed):
    for seed in range(6):
        torch.manual_seed(seed)
        dense, z = torch.nn.Linear(latents, observed), torch.randn(256, latents)
        certificate = nm.certify(dense, at=z)
        assert certificate.answer != "identified"
        zeros = next(h for h in certificate.hypotheses if h.name == "zeros are exact")
        faint = bool((~certificate.structure.dense).any())
        assert zeros.answer == ("fails" if faint else "supported")


def test_a_wide_dense_decoder_is_not_said_to_leave_latents_out_of_use():
    torch.manual_seed(0)
    dense = torch.nn.Sequential(torch.nn.Linear(60, 128), torch.nn.ELU(), torch.nn.Linear(128, 150))
    certificate = nm.certify(dense, at=torch.randn(128, 60))
    assert "zeros are exact" in certificate.broken_premises
    assert "every latent is in use" not in certificate.broken_premises


def test_an_entry_below_the_threshold_that_is_not_zero_leaves_it_open():
    near = entries(GOOD)
    near[0, 1] = 0.09
    certificate = nm.certify(Linear(near), at=POINTS, threshold=0.1)
    assert certificate.answer == "open"
    assert "zeros are exact" in certificate.headline
    assert nm.certify(Linear(entries(GOOD)), at=POINTS).answer == "identified"


@pytest.mark.parametrize("asked", [5, None, ["x", "1"], {"x1"}, np.array([0, 1]), b"x1"])
def test_a_query_that_is_neither_text_nor_a_set_of_latents_is_one_sentence(asked: object):
    with pytest.raises(nm.InputError, match="must be text or a set of latents") as error:
        nm.certify(nm.Structure(GOOD)).query(asked)
    assert str(error.value) == f"A query must be text or a set of latents. Got {asked!r}."
    with pytest.raises(nm.InputError, match=r"Got array\(\[\[1\., 0\.\], \[0\., 1\.\]\]\)\."):
        nm.certify(nm.Structure(GOOD)).query(np.eye(2))
