"""Sparse directions of tangent spaces: the columns of a structure, whatever the latents of the model are."""

import numpy as np
import pytest
import torch

import noumena as nm
from noumena.estimators.refit.directions import Directions, soft_count, sparse_directions

WORLDS = [(3, 10, 1, 5), (4, 14, 1, 6), (4, 16, 2, 11)]


def tangent_spaces(d_z: int, d_x: int, gap: int, seed: int, noise: float = 0.0):
    structure = nm.worlds.family("random", d_z, d_x, gap=gap, random_state=seed)
    world = nm.worlds.structured(structure, random_state=seed)
    sample = world.sample(192)
    J = torch.as_tensor(world.jacobian(sample.z)) / torch.as_tensor(sample.x.std(axis=0))[:, None]
    generator = torch.Generator().manual_seed(seed)
    J = J + noise * torch.randn(J.shape, generator=generator, dtype=J.dtype)
    mixed = torch.randn(192, d_z, d_z, generator=generator, dtype=J.dtype)
    return structure, torch.linalg.qr(J @ mixed)[0]


@pytest.mark.parametrize("noise", [0.0, 0.005])
@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_the_lightest_directions_are_the_columns_of_a_world_with_a_positive_gap(world, noise):
    """The latents are mixed at random and differently at every point: no model's own latents enter."""
    structure, Q = tangent_spaces(*world, noise=noise)
    found = sparse_directions(Q)
    basis = found.basis()
    assert len(basis) == structure.n_latents
    columns = {column.tobytes() for column in structure.dense.T.astype(bool)}
    assert {column.tobytes() for column in found.supports[basis]} == columns


def test_a_dense_world_has_no_lighter_directions_than_cancelling_makes():
    _, Q = tangent_spaces(3, 10, 1, 5)
    dense = torch.linalg.qr(torch.randn(192, 10, 3, generator=torch.Generator().manual_seed(1), dtype=Q.dtype))[0]
    found = sparse_directions(dense)
    assert found.supports.sum(axis=1).min() == 10 - 2  # d − 1 rows can always be made to vanish


def test_directions_come_lightest_first_and_have_length_one():
    _, Q = tangent_spaces(3, 10, 1, 5)
    found = sparse_directions(Q)
    assert (np.diff(found.weights) >= 0).all()
    torch.testing.assert_close(found.vectors.norm(dim=2), torch.ones(found.vectors.shape[:2], dtype=Q.dtype))


def test_a_basis_never_has_two_directions_that_are_one():
    vector = torch.zeros(3, 8, 4, dtype=torch.float64)
    vector[0, :, 0], vector[1, :, 0], vector[2, :, 1] = 1.0, -1.0, 1.0
    moves = np.array([[1.0, 0, 0, 0], [1.0, 0, 0, 0], [0, 1.0, 0, 0]])
    assert Directions(moves, vector).basis() == [0, 2]
    np.testing.assert_allclose(soft_count(moves), 1.0)


def test_swaps_exchange_one_direction_and_come_cheapest_first():
    _, Q = tangent_spaces(4, 14, 1, 6)
    found = sparse_directions(Q)
    basis = found.basis()
    bases = found.swaps(basis, 10)
    assert len(bases) == 10
    assert all(len(set(basis) - set(other)) == 1 for other in bases)
    weights = [found.weights[other].sum() for other in bases]
    assert (np.diff(weights) > -1e-9).all()
    for other in bases:
        together = torch.linalg.svdvals(found.vectors[other].movedim(0, -1))[:, -1]
        assert float(together.median()) > 0.2


def test_more_starts_find_directions_that_few_miss():
    structure, Q = tangent_spaces(4, 16, 2, 11)
    columns = {column.tobytes() for column in structure.dense.T.astype(bool)}
    few, many = ({c.tobytes() for c in sparse_directions(Q, starts=n).supports} & columns for n in (2, 2000))
    assert len(few) < len(many) == 4
