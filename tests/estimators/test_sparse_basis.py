"""The search for the sparsest basis: its gradient, its descent, its two views of the data."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from noumena.estimators.sparse.basis import (
    BasisObjective,
    anneal,
    centred,
    descend,
    neighbour_differences,
    rotations,
)


def unit(bases):
    W = bases[..., :-1] / bases[..., :-1].norm(dim=-1, keepdim=True)
    return torch.cat([W, bases[..., -1:]], dim=-1)


def sparse_rows(n=4, rows=3000, seed=0, at=0.0):
    rng = np.random.default_rng(seed)
    z = np.where(rng.random((rows, n)) < 0.5, rng.normal(size=(rows, n)), at)
    x = z @ rng.normal(size=(n, n))
    x = x - x.mean(axis=0)
    values, axes = np.linalg.eigh(x.T @ x / rows)
    return torch.as_tensor(x @ axes / np.sqrt(values)), z


@pytest.fixture
def problem():
    generator = torch.Generator().manual_seed(1)
    rows = torch.cat([torch.randn(50, 3, generator=generator), torch.ones(50, 1)], dim=1).double()
    return rows, unit(torch.randn(2, 3, 4, generator=generator).double())


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_the_analytic_gradient_is_that_of_automatic_differentiation(problem, scale):
    rows, bases = problem
    free = bases.clone().requires_grad_()
    y = torch.einsum("nc,rkc->nrk", rows, free)
    W = free[..., :-1]
    expected = (1 + (y / scale).square()).log().mean(0).sum(-1) - torch.linalg.slogdet(W).logabsdet
    expected.sum().backward()
    value, slope = BasisObjective(rows, scale)(bases)
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(slope, free.grad)


def test_every_restart_descends_as_if_it_were_alone(problem):
    rows, bases = problem
    together, values, steps = descend(BasisObjective(rows, 0.5), bases, iterations=15, enough=0.0)
    alone = [descend(BasisObjective(rows, 0.5), b[None], iterations=15, enough=0.0)[0][0] for b in bases]
    torch.testing.assert_close(together, torch.stack(alone))
    assert steps == 15
    assert (values < BasisObjective(rows, 0.5)(bases)[0]).all()


def test_descent_ends_where_the_gradient_along_the_sphere_vanishes(problem):
    rows, bases = problem
    ended, _, steps = descend(BasisObjective(rows, 1.0), bases, iterations=300, enough=0.0)
    assert steps == 300, "nothing falls by less than nothing"
    W = ended[..., :-1]
    torch.testing.assert_close(W.norm(dim=-1), torch.ones(2, 3).double())
    slope = BasisObjective(rows, 1.0)(ended)[1]
    along = (slope[..., :-1] * W).sum(-1, keepdim=True) * W
    assert torch.cat([slope[..., :-1] - along, slope[..., -1:]], dim=-1).abs().max() < 1e-4


def test_annealing_finds_the_axes_of_sparse_rows_that_independent_components_only_come_near():
    rows, z = sparse_rows()
    start = rotations(
        rows, torch.linalg.qr(torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(0)).double()).Q
    )
    bases = torch.cat([start, start.new_zeros(1, 4, 1)], dim=-1)
    found, steps = anneal(
        torch.cat([rows, torch.ones(len(rows), 1)], dim=1), bases, (1.0, 0.1, 0.01), iterations=100, offsets=True
    )

    def error(W):
        correlation = np.abs(np.corrcoef(z.T, (rows @ W.T).numpy().T)[:4, 4:])
        return 1 - correlation.max(axis=1).min()

    assert 1 < steps <= 100
    assert error(found[-1][0, :, :-1]) < 1e-5 < 1e-4 < error(start[0])


def test_offsets_are_moved_to_where_projections_are_densest():
    generator = torch.Generator().manual_seed(0)
    values = torch.cat([torch.full((60,), 2.0), torch.randn(40, generator=generator)])[:, None]
    rows = torch.cat([values, torch.ones(100, 1)], dim=1)
    moved = centred(rows, torch.tensor([[[1.0, 0.0]]]), 0.1)
    assert moved[0, 0].tolist() == pytest.approx([1.0, -2.0], abs=0.01)
    settled = rows.clone()
    settled[60:, 0] = 0.0
    assert centred(settled, torch.tensor([[[1.0, -2.0]]]), 0.1)[0, 0, 1] == -2.0


def test_annealing_centres_projections_before_it_descends():
    generator = torch.Generator().manual_seed(0)
    values = torch.cat([torch.full((600,), 3.0), torch.randn(400, generator=generator)])[:, None].double()
    rows = torch.cat([values, torch.ones(1000, 1)], dim=1)
    far, near = (
        anneal(rows, torch.tensor([[[1.0, 0.0]]]).double(), (0.01,), iterations=1, offsets=offsets)[0][0][0, 0, 1]
        for offsets in (False, True)
    )
    assert abs(near + 3) < 0.05 < abs(far + 3)


def test_differences_are_to_the_nearest_other_row():
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(3)).double()
    distances = cdist(x, x)
    np.fill_diagonal(distances, np.inf)
    torch.testing.assert_close(neighbour_differences(x, most=40), x - x[distances.argmin(axis=1)])
    assert len(neighbour_differences(x, most=10)) == 10


def test_independent_components_separate_independent_columns():
    generator = torch.Generator().manual_seed(0)
    s = torch.rand(4000, 3, generator=generator).double().sub(0.5).mul(12**0.5)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=generator).double()).Q
    W = rotations(s @ turn.T, torch.eye(3).double()[None])[0]
    assert ((W @ turn).abs().max(dim=1).values > 0.99).all()
