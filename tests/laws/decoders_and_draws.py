"""Small decoders, slow derivatives of them, and penalties under many draws at once."""

import torch
from torch import Tensor, nn
from torch.func import vmap

from noumena.derivatives import Map
from noumena.nets import MLP
from noumena.penalties import Penalty

D_Z, D_X = 4, 5
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-9}


def smooth_decoder(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(D_Z, 6), nn.Tanh(), nn.Linear(6, D_X)).double()


def leaky_decoder(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return MLP(hidden=(6, 6))(D_Z, D_X).double()


def points(rows: int = 4, seed: int = 1, dim: int = D_Z) -> Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(n: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(n, n, generator=rng, dtype=torch.float64))[0]


def slow_jacobian(f: Map, z: Tensor) -> Tensor:
    """Reverse mode, one point at a time."""
    return torch.stack([_plain(torch.autograd.functional.jacobian(lambda one: f(one[None])[0], row)) for row in z])


def slow_hessian(f: Map, z: Tensor) -> Tensor:
    """(batch, observed, latent, latent): reverse mode twice, one point and one observation at a time."""
    observed = f(z[:1]).shape[1]
    each = [
        [_plain(torch.autograd.functional.hessian(lambda one: f(one[None])[0, i], row)) for i in range(observed)]  # noqa: B023
        for row in z
    ]
    return torch.stack([torch.stack(rows) for rows in each])


def _plain(found: object) -> Tensor:
    assert isinstance(found, Tensor)
    return found


def drawn(penalty: Penalty, z: Tensor, seed: int = 0) -> dict[str, Tensor]:
    return penalty.draws(*z.shape, torch.Generator().manual_seed(seed))


def value(penalty: Penalty, f: Map, z: Tensor, progress: float = 1.0) -> float:
    """The penalty under one fixed draw."""
    return float(penalty(f, z, progress, drawn(penalty, z)).detach())


def each_draw(penalty: Penalty, f: Map, point: Tensor, number: int = 10_000) -> Tensor:
    """The penalty at one point (1, latent) under many independent draws."""
    draws = drawn(penalty, point.expand(number, -1), seed=7)
    with torch.no_grad():
        return vmap(lambda d: penalty(f, point, 1.0, {k: v[None] for k, v in d.items()}))(draws)


def agrees_in_the_mean(values: Tensor, expected: float) -> bool:
    """Within three standard errors, and random at all."""
    error = float(values.std()) / len(values) ** 0.5
    return error > 0 and abs(float(values.mean()) - expected) < 3 * error
