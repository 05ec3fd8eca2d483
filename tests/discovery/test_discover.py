"""Discovery: what is claimed of tables with a known truth, and that nothing is claimed where there is nothing."""

import json

import numpy as np
import pandas as pd
import pytest

import noumena as nm
from noumena.checks import InputError
from noumena.discovery import beside, choose
from noumena.discovery.discover import parts_of
from noumena.discovery.trust import chance, matched, moved, shares

STRUCTURE = nm.Structure([[1, 0], [1, 0], [1, 0], [1, 1], [1, 1], [0, 1], [0, 1], [0, 1]])


@pytest.fixture(scope="module")
def sample():
    return nm.worlds.structured(STRUCTURE, law="unit gaussian", noise=0.2, random_state=0).sample(1200)


@pytest.fixture(scope="module")
def found(sample):
    table = pd.DataFrame(sample.x, columns=pd.Index(list("abcdefgh")))
    return nm.discover(table, latents=(1, 2, 3), weight=0.05, n_models=2, training=nm.Training(steps=250))


def test_a_simple_world_is_discovered_with_the_right_number_of_latents(found, sample):
    assert found.choice.latents == len(found.latents) == 2
    assert all(one.is_found_again for one in found.latents)
    assert nm.metrics.mcc(sample.z, found.transform(sample.x)).score > 0.97
    assert sum(one.share for one in found.latents) == pytest.approx(1, abs=0.2)


def test_what_is_pinned_down_is_identified_by_the_certificate_and_by_most_refits(found):
    for one in found.latents:
        if one.is_pinned_down:
            assert found.certificate.verdict(one.name).answer == "identified"
            assert 2 * one.agreeing > one.refits
    assert any(one.is_pinned_down for one in found.latents) == ("pinned down z" in found.headline)


def test_a_record_is_words_numbers_and_a_table(found):
    told = json.loads(json.dumps(found.to_dict()))
    assert [one["name"] for one in told["latents"]] == list(found.frame().index)
    assert {column["name"] for one in told["latents"] for column in one["columns"]} == set("abcdefgh")
    assert "found again" in str(found)
    assert found.choice.plot() is not None
    assert [s.latents for s in found.choice.settings] == [1, 2, 3]


def test_its_page_says_what_the_record_says(found, tmp_path):
    from noumena.report import write
    from noumena.report.discoveries import discovery_page

    page = write(discovery_page(found), tmp_path / "page.html").read_text()
    assert all(f"{one.share:.0%}" in page for one in found.latents)
    assert "Every latent in use" in page


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_no_latent(seed):
    rng = np.random.default_rng(seed)
    found = nm.discover(rng.normal(size=(600, 8)))
    assert found.latents == ()
    assert "share nothing" in found.headline
    assert found.transform(rng.normal(size=(4, 8))).shape == (4, 0)


def test_shuffled_columns_are_noise(sample):
    rng = np.random.default_rng(1)
    assert nm.discover(np.stack([rng.permutation(column) for column in sample.x.T], axis=1)).latents == ()


def test_equal_rows_are_never_in_two_parts():
    table = np.random.default_rng(0).integers(0, 12, size=(400, 2)).astype(float)
    rest, halves, aside = parts_of(table, 3)
    parts = [{tuple(row) for row in table[part]} for part in (*halves, aside)]
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]
    assert sorted(np.concatenate([*halves, aside])) == list(range(400))
    assert sorted(rest) == sorted(np.concatenate(halves))


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.random.default_rng(0).normal(size=(60, 5)), "100 rows or more"),
        (np.random.default_rng(0).normal(size=(400, 2)), "3 columns or more"),
        (np.repeat(np.random.default_rng(0).normal(size=(20, 4)), 20, axis=0), "rows or more that differ"),
        (np.full((400, 4), np.nan), "finite"),
        (np.ones((400, 4)), "rows or more that differ"),
    ],
)
def test_a_table_that_tells_nothing_is_refused_in_one_sentence(x, said):
    with pytest.raises(InputError, match=said):
        nm.discover(x)


def test_the_number_of_latents_of_a_linear_world_is_chosen():
    rng = np.random.default_rng(5)
    x = rng.laplace(size=(1200, 3)) @ rng.normal(size=(3, 12)) + 0.5 * rng.normal(size=(1200, 12))
    found = choose(x[200:], x[:200], latents=(1, 2, 3, 4, 5), weight=0.0)
    assert found.latents == 3
    assert found.knee
    two = next(s for s in found.settings if s.latents == 2)
    assert two.behind > 2 * two.standard_error


def test_a_latent_with_no_effect_has_no_share_and_moves_nothing():
    import torch

    z = torch.randn(500, 2, generator=torch.Generator().manual_seed(0))

    def decode(z):
        return z[:, :1] * torch.tensor([1.0, -2.0])

    np.testing.assert_allclose(shares(decode, z), [1, 0], atol=0.1)
    first, second = moved(decode, z, ["a", "b"])
    assert ([c.sign for c in first], second) == (["+", "−"], ()) or [c.sign for c in first] == ["−", "+"]


def test_latents_are_matched_one_for_one_and_chance_is_less():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(400, 4))
    place, score = matched(z, -np.exp(z[:, [2, 0, 3, 1]]))
    assert place.tolist() == [1, 3, 0, 2]
    assert score.min() > 0.99
    assert 0.6 < chance(z) < 0.95
    assert chance(z[:, :1]) < 0.2


def test_a_label_is_told_only_by_a_latent_that_knows_it():
    rng = np.random.default_rng(4)
    z = rng.normal(size=(300, 3))
    label = np.where(z[:, 1] + 0.1 * rng.normal(size=300) > 0, "ill", "well")
    told = beside(z, ["z1", "z2", "z3"], "health", label)
    assert (told.latent, told.measure) == ("z2", "AUROC")
    assert told.score > 0.9 > told.chance
    none = beside(z, ["z1", "z2", "z3"], "coin", rng.permutation(label))
    assert none.score < none.chance + 0.1
