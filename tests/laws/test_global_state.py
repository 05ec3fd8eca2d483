"""What a call leaves behind: nothing of its caller's is changed, and no stream or setting of the process."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from every_score import LEARNED, SCORES, Z
from torch import nn

import noumena as nm
from noumena import seeds
from noumena import worlds as W
from noumena.estimators.base import Estimator

DECODER = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 5)).double()
POINTS = torch.tensor(Z[:20])
QUICK: dict[str, Any] = {"training": nm.Training(steps=3, batch_size=16), "random_state": 0}
STRUCTURE = nm.Structure([[1, 0], [1, 1], [0, 1]])
CALLS: dict[str, Callable[[], object]] = {
    **{
        f"score: {name}": lambda s=score: s.call(Z, LEARNED, shuffles=1, subsamples=10)
        for name, score in SCORES.items()
    },
    "score: all": lambda: nm.metrics.score(Z, LEARNED, metrics=["mcc", "r2", "sis"], shuffles=1),
    "world: structured": lambda: W.structured(STRUCTURE, random_state=1).sample(9),
    "world: degenerate": lambda: W.degenerate(4, layers=2, random_state=1).sample(9),
    "world: random graph": lambda: W.random_graph(4, 1, random_state=1),
    "fit: ICA": lambda: nm.ICA(2, random_state=0).fit(Z).transform(Z),
    "fit: VAE": lambda: nm.VAE(2, n_models=2, **QUICK).fit(Z).transform(Z),
    "fit: FactorVAE": lambda: nm.FactorVAE(2, **QUICK).fit(Z).transform(Z),
    "fit: with a penalty": lambda: nm.VAE(2, penalty=0.1 * nm.DependencySparsity(), **QUICK).fit(Z),
    "penalty: sampled": lambda: nm.OroJaR()(DECODER, POINTS),
    "penalty: exact": lambda: nm.DependencySparsity()(DECODER, POINTS),
    "derivatives": lambda: nm.derivatives.jacobian(DECODER, POINTS),
    "certify: a structure": lambda: nm.certify(STRUCTURE),
    "certify: a decoder": lambda: nm.certify(DECODER, at=POINTS),
    "audit": lambda: nm.audit([Z, LEARNED], folds=2),
}


def state() -> list[Any]:
    """The streams and settings of this process."""
    kind, words, *rest = np.random.get_state()  # noqa: NPY002
    settings = [torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype(), np.geterr()]
    return [kind, np.asarray(words).tolist(), *rest, *settings, torch.are_deterministic_algorithms_enabled()]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_changes_nothing_of_its_caller_and_nothing_of_the_process(name: str) -> None:
    assert not Z.flags.writeable  # what writes into them fails
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    weights, before, points = copy.deepcopy(DECODER.state_dict()), state(), POINTS.clone()
    stream = torch.get_rng_state()
    CALLS[name]()
    assert state() == before
    assert torch.equal(torch.get_rng_state(), stream) or name == "penalty: sampled"  # draws of one's own loop
    assert torch.equal(POINTS, points)
    assert POINTS.grad is None
    for key, value in DECODER.state_dict().items():
        assert torch.equal(value, weights[key])
    assert all(p.grad is None and p.requires_grad for p in DECODER.parameters())
    assert DECODER.training


@pytest.mark.parametrize("kind", [nm.VAE, nm.Autoencoder, nm.FactorVAE])
def test_rows_that_are_held_out_are_not_trained_on(kind: type[Estimator]) -> None:
    training = nm.Training(steps=3, batch_size=16, held_out=0.3)
    order = torch.randperm(len(Z), generator=seeds.generator(0, "held-out rows", len(Z))).numpy()

    def weights(row: int) -> torch.Tensor:
        """Those that are fitted when one row is another."""
        x = np.where(np.arange(len(Z))[:, None] == row, Z + 3, Z)
        return next(kind(2, training=training, random_state=0).fit(x).models_[0].decoder.parameters())

    plain = weights(-1)
    assert all(torch.equal(weights(row), plain) for row in (order[0], order[71]))
    assert not torch.equal(weights(order[72]), plain)
