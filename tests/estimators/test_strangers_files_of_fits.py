"""Checkpoints, files and the caller's settings of torch: other builders are told apart, and nothing else changes."""

import json
import os
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import noumena as nm
from noumena.adopt.describe import describe
from noumena.checks import InputError
from noumena.estimators.penalised import fit_penalised
from noumena.penalties import Penalty

X = np.random.default_rng(0).normal(size=(300, 6)).astype("f")
QUICK = nm.Training(steps=6, batch_size=64)


def vae(**settings: Any) -> nm.VAE:
    return nm.VAE(2, **({"training": QUICK, "random_state": 0} | settings))


def refused(call: Any, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)


# ---- checkpoints -------------------------------------------------------------------------------------------


def sized(width: int, layer: Any) -> Any:
    return lambda i, o: nn.Sequential(nn.Linear(i, width), layer(), nn.Linear(width, o))


@pytest.mark.parametrize("other", [sized(8, nn.ReLU), sized(9, nn.Tanh)])
def test_a_checkpoint_of_another_builder_is_refused(other: Any, tmp_path: Path) -> None:
    kept = nm.Training(steps=6, batch_size=64, checkpoint=tmp_path / "c")
    vae(decoder=sized(8, nn.Tanh), training=kept).fit(X)
    vae(decoder=sized(8, nn.Tanh), training=kept).fit(X)
    refused(lambda: vae(decoder=other, training=kept).fit(X), "must belong to the same settings and data")


def test_a_checkpoint_of_other_frozen_weights_is_refused(tmp_path: Path) -> None:
    kept = nm.Training(steps=6, batch_size=64, checkpoint=tmp_path / "c")
    nets = [nn.Linear(2, 6).requires_grad_(False) for _ in range(2)]
    for net in (nets[0], nets[0]):
        vae(decoder=lambda i, o, net=net: net, training=kept).fit(X)
    other = vae(decoder=lambda i, o, net=nets[1]: net, training=kept)
    refused(lambda: other.fit(X), "must belong to the same settings and data")


class Doubled(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


class Other:
    class Doubled(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return 3 * super().forward(input)


Other.Doubled.__qualname__ = Doubled.__qualname__


def test_a_checkpoint_of_layers_that_look_alike_and_do_otherwise_is_refused(tmp_path: Path) -> None:
    def of(kind: Any) -> nm.VAE:
        return vae(decoder=lambda i, o: kind(i, o), training=kept)

    kept = nm.Training(steps=6, batch_size=64, checkpoint=tmp_path / "c")
    for _ in range(2):
        of(Doubled).fit(X)
    refused(lambda: of(Other.Doubled).fit(X), "must belong to the same settings and data")


KILLED = """
    import sys, functools
    import numpy as np, noumena as nm
    from torch import nn

    class Scaled:
        def __init__(self, weight):
            self.weight = weight
        def __call__(self, pair, x):
            return self.weight * (pair.decode(pair.encode(x)) - x).square().sum(dim=1).mean()

    def loss(pair, x, *, weight=1.0, kind="mean"):
        assert kind in {"mean", "sum", "none", "other"}
        return weight * (pair.decode(pair.encode(x)) - x).square().sum(dim=1).mean()

    how = {"partial": functools.partial(loss, weight=1.0), "object": Scaled(1.0), "function": loss}[sys.argv[1]]
    X = np.random.default_rng(0).normal(size=(60, 3))
    plan = nm.Training(steps=3, batch_size=16, checkpoint=sys.argv[2])
    import torch; torch.manual_seed(0)
    nm.fit_penalised((nn.Linear(3, 2), nn.Linear(2, 3)), X, penalty=None, loss=how, training=plan, random_state=0)
"""


@pytest.mark.parametrize("how", ["partial", "object", "function"])
def test_another_process_resumes_with_the_same_loss(how: str, tmp_path: Path) -> None:
    for seed in ("1", "2"):
        command = [sys.executable, "-c", textwrap.dedent(KILLED), how, str(tmp_path / "c")]
        settings = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr


def weighted(weight: Any) -> Any:
    def loss(pair: Any, x: Tensor, *, w: Any = weight) -> Tensor:
        return torch.as_tensor(w).sum() * (pair.decode(pair.encode(x)) - x).square().mean()

    return loss


@pytest.mark.parametrize("hold", [float, lambda w: [w], lambda w: (w,), lambda w: torch.tensor(w), lambda w: {"w": w}])
def test_losses_are_told_apart_by_whatever_they_hold(hold: Any) -> None:
    class Own:
        def __init__(self, weight: float):
            self.weight = hold(weight)

        def loss(self, pair: Any, x: Tensor) -> Tensor:
            return x.sum()

    for made in (lambda w: weighted(hold(w)), lambda w: Own(w).loss, lambda w: partial(weighted, hold(w))):
        assert describe(made(1.0)) == describe(made(1.0)) != describe(made(9.0))
    assert "0x" not in describe(Own(1.0).loss)


def test_a_checkpoint_of_another_loss_is_refused(tmp_path: Path) -> None:
    def fitted(loss: Any) -> Any:
        torch.manual_seed(0)
        pair = (nn.Linear(6, 2), nn.Linear(2, 6))
        plan = nm.Training(steps=6, batch_size=64, checkpoint=tmp_path / "c")
        return fit_penalised(pair, X, penalty=None, loss=loss, training=plan, random_state=0)

    def error(weight: float) -> Any:
        return lambda pair, x: weight * (pair.decode(pair.encode(x)) - x).square().sum(dim=1).mean()

    fitted(error(1.0))
    fitted(error(1.0))
    refused(lambda: fitted(error(2.0)), "must belong to the same settings and data")
    refused(lambda: fitted(lambda pair, x: pair.encode(x).square().mean()), "must belong to the same settings")


# ---- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_a_run_loaded_with_another_builder_is_refused(role: str, tmp_path: Path) -> None:
    model = vae(**{role: sized(8, nn.Tanh)}).fit(X)
    nm.save(model, tmp_path)
    assert np.array_equal(nm.load(tmp_path, **{role: sized(8, nn.Tanh)}).transform(X), model.transform(X))
    must = rf"load must be given the {role}= that the run was saved with\."
    refused(lambda: nm.load(tmp_path, **{role: sized(8, nn.ReLU)}), must + " Got one that gives other numbers")
    refused(lambda: nm.load(tmp_path, **{role: sized(9, nn.Tanh)}), must + rf" Got a {role}.0.weight of shape \(9, .\)")
    refused(lambda: nm.load(tmp_path, **{role: nn.Linear}), must + rf" Got no {role}.0.weight|Got a {role}.weight")


def test_a_run_without_what_its_decoder_gave_is_read(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    model = vae(decoder=nn.Linear).fit(X)
    nm.save(model, tmp_path)
    tensors = load_file(tmp_path / "weights.safetensors")
    assert {"decoded", "coded"} < tensors.keys()
    save_file({k: v for k, v in tensors.items() if k not in ("decoded", "coded")}, tmp_path / "weights.safetensors")
    config = json.loads((tmp_path / "config.json").read_text())
    del config["files"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert np.array_equal(nm.load(tmp_path, decoder=nn.Linear).transform(X), model.transform(X))


class Mine(Penalty):
    def forward(self, decoder: Any, z: Tensor, progress: float, draws: Any = None) -> Tensor:
        return z.square().mean()

    __call__ = forward


def test_a_penalty_of_ones_own_is_asked_for_by_its_name(tmp_path: Path) -> None:
    penalty = 0.1 * Mine()
    model = vae(penalty=penalty).fit(X)
    nm.save(model, tmp_path)
    refused(lambda: nm.load(tmp_path), r"load must be given penalty= again")
    assert np.array_equal(nm.load(tmp_path, penalty=penalty).transform(X), model.transform(X))


def test_a_file_where_a_run_should_go_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    for place in (tmp_path / "run", tmp_path / "run" / "deeper"):
        refused(lambda place=place: nm.save(vae().fit(X), place), r"The folder of a run must be one.* Got .*run")
    assert (tmp_path / "run").read_text() == "mine"


def test_another_run_is_overwritten_only_by_force(tmp_path: Path) -> None:
    first, second = vae().fit(X), vae(random_state=1).fit(X)
    (tmp_path / "notes.txt").write_text("mine")
    nm.save(first, tmp_path)
    refused(lambda: nm.save(second, tmp_path), r"must not hold a run already; choose another or set force=True\. Got")
    assert np.array_equal(nm.load(tmp_path).transform(X), first.transform(X))
    nm.save(second, tmp_path, force=True)
    assert np.array_equal(nm.load(tmp_path).transform(X), second.transform(X))


# ---- the caller's settings of torch ------------------------------------------------------------------------


def test_the_callers_default_precision_changes_no_number(tmp_path: Path) -> None:
    penalty = 0.05 * nm.DependencySparsity(rows=2)
    expected = vae(penalty=penalty).fit(X)
    nm.save(expected, tmp_path)
    torch.set_default_dtype(torch.float64)
    try:
        found, loaded = vae(penalty=penalty).fit(X), nm.load(tmp_path)
        assert torch.get_default_dtype() == torch.float64
        assert np.array_equal(found.transform(X), expected.transform(X))
        assert np.array_equal(loaded.transform(X), expected.transform(X))
        assert found.score(X) == loaded.score(X)
        scored = found.score(X)
    finally:
        torch.set_default_dtype(torch.float32)
    assert scored == expected.score(X)


def test_the_callers_default_device_changes_no_number() -> None:
    expected = vae().fit(X)
    torch.set_default_device("meta")
    try:
        found = vae().fit(X)
    finally:
        torch.set_default_device(None)
    assert np.array_equal(found.transform(X), expected.transform(X))


def test_samples_do_not_depend_on_the_callers_default_precision() -> None:
    model = nm.Flow(training=QUICK, random_state=0).fit(X)
    expected = model.sample(5)
    torch.set_default_dtype(torch.float64)
    try:
        assert np.array_equal(model.sample(5), expected)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_fit_learns_where_the_caller_has_gradients_off(mode: Any) -> None:
    expected = vae().fit(X)
    pair = (nn.Linear(6, 2), nn.Linear(2, 6))
    mine = fit_penalised(pair, X, penalty=None, training=QUICK, random_state=0)
    with mode():
        found = vae().fit(X)
        theirs = fit_penalised(pair, X, penalty=None, training=QUICK, random_state=0)
        assert not torch.is_grad_enabled()
        assert np.array_equal(found.transform(X), expected.transform(X))
        assert np.array_equal(theirs.transform(X), mine.transform(X))
