"""Wide decoders are asked at few points, which changes no answer, and the certificate says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import noumena as nm
from noumena.derivatives import jacobian, strength
from noumena.guarantees import competitors, diversity, models
from noumena.guarantees.competitors import substitutable
from noumena.guarantees.witness import dependence
from noumena.structure import Structure


class Wide(nn.Module):
    """Smooth observations, each of its own latents; counts the rows it decodes."""

    matrix: Tensor

    def __init__(self, support: np.ndarray):
        super().__init__()
        size = torch.rand(support.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5
        self.register_buffer("matrix", size * torch.as_tensor(support))
        self.rows: list[int] = []

    def __deepcopy__(self, memo: Any) -> Wide:
        return self

    def forward(self, z: Tensor) -> Tensor:
        """Observations of latents."""
        self.rows.append(len(z))
        h = z @ self.matrix.T
        return h + 0.3 * torch.sin(h)


def points(n: int, latents: int) -> Tensor:
    return torch.randn(n, latents, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_gradients_decomposed_together_are_those_of_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diversity, "TOGETHER", 2)
    rng = np.random.default_rng(0)
    support = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 1, 1], [1, 1, 0], [0, 0, 0]])
    J = rng.normal(size=(6, 7, 3)) * support
    J[:, 3, 2] = J[:, 3, 1]
    found = diversity._margins(J, Structure(support))
    for i in range(6):
        singular = np.linalg.svd(J[:, i, support[i] == 1], compute_uv=False)
        assert found[i] == pytest.approx(singular[-1] / singular[0], abs=1e-12)
    assert found[3] < 1e-12
    assert found[6] == np.inf


def test_strengths_taken_a_few_points_at_a_time_are_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, z = Wide(np.ones((30, 4))), points(50, 4)
    whole = strength.relative_strength(decoder, z)
    monkeypatch.setattr(strength, "AT_ONCE", 7 * 30 * 4)
    np.testing.assert_array_equal(strength.relative_strength(decoder, z), whole)
    monkeypatch.setattr(strength, "ENTRIES", 2 * 50 * 30 * 4 - 1)
    decoder.rows.clear()
    np.testing.assert_allclose(strength.relative_strength(decoder, z), whole, rtol=1e-12)
    assert max(decoder.rows[1:]) == 7
    expected = jacobian(decoder, z).abs().mean(dim=0) * z.std(dim=0) / decoder(z).std(dim=0)[:, None]
    np.testing.assert_allclose(whole, expected.numpy(), rtol=1e-12)


def test_a_fitted_model_reads_its_structure_off_as_many_points_as_fit_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.random.default_rng(0).normal(size=(100, 12))
    model: Any = nm.Autoencoder(3, training=nm.Training(steps=2, batch_size=16), random_state=0).fit(x)
    decode, z = model.models_[0].decode, model.points_of(0)
    assert len(z) > 40
    np.testing.assert_array_equal(model.structure_.evidence.strength, strength.relative_strength(decode, z))
    monkeypatch.setattr(strength, "ENTRIES", 40 * 12 * 3 + 5)
    few = strength.relative_strength(decode, z[:40])
    np.testing.assert_array_equal(model.structure_.evidence.strength, few)
    assert len(model.points_of(0)) == len(z)


def test_a_wide_decoder_is_certified_without_trying_observations_and_says_so() -> None:
    support = np.ones((3300, 20), dtype=bool)
    support[:3, :3] = ~np.eye(3, dtype=bool)  # inside no other, and each one row away
    decoder = Wide(support)
    certificate = nm.certify(decoder, at=points(60, 20), threshold=1e-6)
    decoded = sum(decoder.rows)
    assert decoded < 2000
    assert substitutable(certificate.structure, 0)[0].size > 3000
    pairs = certificate.to_dict()["pairs"]
    assert sum(decoder.rows) < 40_000  # those that are listed are verified, at few points
    assert {p["kind"] for p in pairs} == {"shear"}
    assert certificate.verdict(0, 1).answer == "open"
    assert certificate.not_searched == ("observations in the place of a latent: each costs decodings of all 3300",)
    asked = certificate.theorems[1].hypotheses[0]
    assert asked.evidence.startswith("at 30 points ")


def test_of_a_middling_decoder_the_first_observations_of_each_latent_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    support = np.ones((40, 3), dtype=bool)
    support[:3] = ~np.eye(3, dtype=bool)
    tries: list[tuple[Any, Any]] = []
    inner = models.substitution

    def refused(g: Any, latents: Any, rows: Any, known: Any) -> Any:
        tries.append((tuple(latents), tuple(rows)))
        change = inner(g, latents, rows, known)
        return type(change)(change.forward, lambda z_hat: z_hat + 1.0)

    monkeypatch.setattr(models, "substitution", refused)
    monkeypatch.setattr(competitors, "TRIED", 4 * 120 + 7)
    certificate = nm.certify(Wide(support), at=points(60, 3), threshold=1e-6)
    assert certificate.not_searched == (
        "observations in the place of a latent, beyond the first 4 of each latent: each costs decodings of all 40",
    )
    assert certificate.carried_with(0) == {}
    assert tries == [((0,), (i,)) for i in substitutable(certificate.structure, 0)[0][:4]]
    monkeypatch.setattr(competitors, "TRIED", 40 * 120)
    tries.clear()
    everything = nm.certify(Wide(support), at=points(60, 3), threshold=1e-6)
    assert everything.not_searched == ()
    assert everything.carried_with(0) == {}
    assert len(tries) == len(substitutable(everything.structure, 0)[0]) > 30


def test_points_are_fewer_for_wide_decoders_only(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = Wide(np.ones((50, 4)))
    nm.certify(decoder, at=points(60, 4))
    usual = sum(decoder.rows)
    monkeypatch.setattr(models, "ASKED", 8 * 200)
    decoder.rows.clear()
    certificate = nm.certify(decoder, at=points(60, 4))
    assert sum(decoder.rows) < usual
    assert certificate.theorems[1].hypotheses[0].evidence.startswith("at 8 points ")
    monkeypatch.setattr(models, "ASKED", 3 * 200)
    assert nm.certify(decoder, at=points(60, 4)).theorems[1].hypotheses[0].evidence == (
        "3 points cannot span the 4 latents of a row"
    )


@pytest.mark.parametrize("n", [2, 6])
def test_a_handful_of_rows_shows_no_independence(n: int) -> None:
    assert dependence(np.random.default_rng(0).normal(size=(n, 2))) == 1.0
    assert dependence(np.random.default_rng(0).normal(size=(600, 2))) < 0.15
