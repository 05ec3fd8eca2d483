"""A sparser equivalent is verified, has fewer dependencies and can be trained; with a positive gap there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import noumena as nm
from noumena.guarantees import Witness
from noumena.guarantees.occam import generic_gap
from noumena.guarantees.sparser import substituted
from noumena.worlds import structured

DENSE = [[1, 1], [1, 1], [1, 1], [0, 1]]
"""Six of seven dependencies suffice: an observation in place of the first latent."""


# ---- the support ---------------------------------------------------------------------------------------------


def test_a_substituted_support_is_that_of_the_changed_jacobian() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        support = rng.random((int(rng.integers(2, 7)), int(rng.integers(2, 5)))) < 0.6
        for i, t in np.argwhere(support).tolist():
            J = np.where(support, rng.normal(size=support.shape), 0)
            change = np.eye(support.shape[1])
            change[t] = J[i]
            np.testing.assert_array_equal(substituted(support, i, t), np.abs(J @ np.linalg.inv(change)) > 1e-9)


def test_substituting_leaves_its_argument_alone() -> None:
    support = np.array(DENSE, dtype=bool)
    substituted(support, 0, 0)
    np.testing.assert_array_equal(support, DENSE)


# ---- worlds --------------------------------------------------------------------------------------------------

HELPED = {
    "one": (DENSE, 0, 6),
    "two": ([[1, 1], [1, 1], [1, 1]], 0, 4),
    "three": ([[1, 1, 0], [1, 1, 1], [1, 1, 1], [0, 1, 1]], 0, 6),
    "of four": ([[1, 1, 1], [1, 1, 1], [1, 1, 1], [0, 1, 1], [1, 1, 0]], 1, None),
}


@pytest.fixture(scope="module", params=HELPED)
def helped(request: pytest.FixtureRequest) -> tuple[nm.Certificate, Witness, int | None]:
    support, seed, fewest = HELPED[request.param]
    certificate = nm.certify(structured(nm.Structure(support), random_state=seed))
    witness = certificate.sparser()
    assert witness is not None
    return certificate, witness, fewest


def test_a_negative_gap_yields_a_verified_equivalent_with_fewer_dependencies(
    helped: tuple[nm.Certificate, Witness, int | None],
) -> None:
    certificate, witness, fewest = helped
    assert certificate.gap is not None
    assert certificate.gap < 0
    found = witness.verify()
    assert found.holds, str(found)
    assert found.dependencies < found.allowed == len(certificate.structure)
    assert found.dependencies == len(certificate.structure) + witness.competitor.change
    assert fewest is None or found.dependencies == fewest


def test_its_latents_are_the_named_observations_and_the_other_latents(
    helped: tuple[nm.Certificate, Witness, int | None],
) -> None:
    certificate, witness, _ = helped
    assert certificate.model is not None
    z = certificate.model.fresh[:50]
    rows, replaced = list(witness.competitor.rows), list(witness.competitor.replaced)
    others = [j for j in range(z.shape[1]) if j not in replaced]
    z_hat = witness.latents(z)
    assert torch.equal(z_hat[:, replaced], certificate.model.decoder(z)[:, rows])
    assert torch.equal(z_hat[:, others], z[:, others])
    S = certificate.structure
    for i, t in zip(rows, replaced, strict=True):
        assert f"{S.observed[i]} in place of {S.latent[t]}" in witness.competitor.sentence
    told = f"{len(S) + witness.competitor.change} dependencies instead of {len(S)}"
    assert witness.competitor.sentence.endswith(told)


def test_the_dependencies_counted_are_those_of_its_jacobian(
    helped: tuple[nm.Certificate, Witness, int | None],
) -> None:
    certificate, witness, _ = helped
    assert certificate.model is not None
    J = nm.jacobian(witness, witness.latents(certificate.model.fresh[:50]).detach())
    assert int((J.abs().amax(dim=0) > 1e-9).sum()) == witness.verify().dependencies


@pytest.mark.parametrize(
    ("support", "seed"),
    [
        ([[0, 1, 0, 1], [1, 0, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]], 7),
        ([[1, 1, 1]] * 4, 0),
        ([[1, 1, 1]] * 3 + [[1, 1, 0]], 3),
    ],
)
def test_where_not_all_substitutions_can_be_undone_some_of_them_are_made(support: list[list[int]], seed: int) -> None:
    witness = nm.certify(structured(nm.Structure(support), random_state=seed)).sparser()
    assert witness is not None
    assert witness.verify().holds


@pytest.mark.parametrize("gap", [0, 1, 2])
def test_with_a_gap_of_zero_or_more_there_is_none(gap: int) -> None:
    family = nm.worlds.family("random", 4, 14, gap=gap, random_state=3)
    found = generic_gap(family.dense)
    assert found is not None
    assert found.value == gap
    assert nm.certify(structured(family, random_state=1)).sparser() is None


def test_an_observation_that_folds_in_every_latent_is_not_used() -> None:
    def folding(z: Tensor) -> Tensor:
        a, b = z.unbind(dim=1)
        return torch.stack([a**2 + b**2, a * b, (a + b) ** 2 + a, b + 0.1 * b**3], dim=1)

    points = torch.randn(2000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    certificate = nm.certify(folding, at=points)
    assert certificate.structure.dense.tolist() == [[1, 1], [1, 1], [1, 1], [0, 1]]
    assert certificate.sparser() is None


def test_beside_one_that_folds_another_observation_is_used() -> None:
    def partly_folding(z: Tensor) -> Tensor:
        a, b = z.unbind(dim=1)
        return torch.stack([a**2 + b**2, a + 0.5 * b + 0.2 * b.tanh(), a - b + 0.3 * a.tanh(), b + 0.1 * b**3], dim=1)

    points = torch.randn(2000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    witness = nm.certify(partly_folding, at=points).sparser()
    assert witness is not None
    assert 0 not in witness.competitor.rows
    assert witness.verify().holds


def test_a_bare_structure_has_no_model_to_make_sparser() -> None:
    assert nm.certify(nm.Structure(DENSE)).sparser() is None


# ---- further training ----------------------------------------------------------------------------------------


class Decoder(nn.Module):
    """``x = M tanh-warped z`` with a warp of its own for every entry, so that no parameter cancels."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.tensor([[1.0, 0.5], [0.6, 1.2], [0.9, -0.4], [0.2, 1.1]]))
        self.warp = nn.Parameter(torch.tensor([[0.3, 0.1], [0.2, 0.3], [0.1, 0.2], [0.3, 0.1]]))

    def forward(self, z: Tensor) -> Tensor:
        return ((z[:, None, :] + self.warp * torch.tanh(z[:, None, :])) * self.matrix).sum(dim=2)


@pytest.fixture
def trained() -> tuple[Decoder, Witness, Tensor]:
    decoder = Decoder()
    points = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    witness = nm.certify(decoder, at=points).sparser()
    assert witness is not None
    return decoder, witness, witness.latents(points.double()).detach()


def test_gradients_reach_every_parameter_of_the_decoder_and_are_right(trained: tuple[Decoder, Witness, Tensor]) -> None:
    _, witness, z_hat = trained
    module = witness.module.requires_grad_(True)
    assert {name: tuple(p.shape) for name, p in module.named_parameters()} == {
        "decoder.matrix": (4, 2),
        "decoder.warp": (4, 2),
    }

    def loss() -> Tensor:
        return module(z_hat[:20]).pow(2).sum()

    loss().backward()
    for parameter in module.parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 0.1
        differences = torch.zeros_like(parameter)
        with torch.no_grad():
            for at in np.ndindex(*parameter.shape):
                parameter[at] += 1e-6
                ahead = loss()
                parameter[at] -= 2e-6
                differences[at] = (ahead - loss()) / 2e-6
                parameter[at] += 1e-6
        torch.testing.assert_close(parameter.grad, differences, rtol=1e-5, atol=1e-5)


def test_training_the_module_moves_it_and_not_the_users_decoder(trained: tuple[Decoder, Witness, Tensor]) -> None:
    decoder, witness, z_hat = trained
    before = [p.detach().clone() for p in decoder.parameters()]
    module = witness.module.requires_grad_(True)
    rows, replaced = list(witness.competitor.rows), list(witness.competitor.replaced)
    rest = [i for i in range(4) if i not in rows]
    target = module(z_hat).detach()
    target[:, rest] += 0.2 * torch.tanh(z_hat[:, :1])
    optimiser = torch.optim.Adam(module.parameters(), lr=5e-3)
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = (module(z_hat) - target).pow(2).mean()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    torch.testing.assert_close(module(z_hat)[:, rows], z_hat[:, replaced])  # still an observation for a latent
    assert all(torch.equal(p, q) for p, q in zip(decoder.parameters(), before, strict=True))
    assert all(p.dtype == torch.float32 and p.requires_grad for p in decoder.parameters())


def test_a_trained_witness_can_be_verified_again(trained: tuple[Decoder, Witness, Tensor]) -> None:
    _, witness, _ = trained
    witness.module.requires_grad_(True)
    assert witness.verify().holds
