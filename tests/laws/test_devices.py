"""The same answers on every device and in either precision: what is fitted on a GPU is read, asked and certified on a
CPU. Where there is no GPU the matrix has one row."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import noumena as nm

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
MATRIX = np.array([[1.0, 0], [0.8, 0], [1, 1], [0, 1], [0, 0.7], [0.5, 0]])
Z = np.random.default_rng(0).normal(size=(400, 2)) ** 3
X = np.tanh(Z @ MATRIX.T) + 0.01 * np.random.default_rng(1).normal(size=(400, 6))
FAMILIES: dict[str, Any] = {
    "VAE": nm.VAE,
    "BetaVAE": nm.BetaVAE,
    "BetaTCVAE": nm.BetaTCVAE,
    "FactorVAE": nm.FactorVAE,
    "Autoencoder": nm.Autoencoder,
    "BioAE": nm.BioAE,
    "QLAE": nm.QLAE,
    "Flow": nm.Flow,
}
PENALTIES: dict[str, Any] = {
    "dependency": nm.DependencySparsity(),
    "latent": nm.LatentSparsity(),
    "orthogonal": nm.OroJaR(),
    "hessian": nm.HessianPenalty(),
}


def fitted(family: str, device: str, dtype: str) -> Any:
    training = nm.Training(steps=8, batch_size=64, learning_rate=1e-3, device=device, dtype=dtype)
    return FAMILIES[family](2, training=training, n_models=2, random_state=0).fit(X)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_run_of_any_device_and_precision_is_read_on_a_cpu(
    family: str, dtype: str, device: str, tmp_path: Path
) -> None:
    model = fitted(family, device, dtype)
    nm.save(model, tmp_path / "run")
    again = nm.load(tmp_path / "run")
    assert next(again.models_[0].parameters()).device.type == "cpu"
    np.testing.assert_allclose(again.transform(X), model.transform(X), rtol=1e-3, atol=1e-4)
    reference = fitted(family, "cpu", "float64")
    assert np.isfinite(model.objectives_).all()
    np.testing.assert_allclose(model.objectives_, reference.objectives_, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("device", DEVICES)
def test_a_certificate_does_not_depend_on_where_the_decoder_lies(device: str) -> None:
    decoder = nn.Linear(2, 6).double()
    decoder.weight.data = torch.as_tensor(MATRIX)
    z = torch.as_tensor(Z)
    here, there = nm.certify(decoder, at=z), nm.certify(decoder.to(device), at=z.to(device))
    assert there.headline == here.headline
    assert there.structure == here.structure


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("device", DEVICES)
def test_a_penalty_and_its_gradient_are_the_same_everywhere(name: str, dtype: torch.dtype, device: str) -> None:
    torch.manual_seed(0)
    decoder = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 6)).double()
    z = torch.randn(32, 2, dtype=torch.float64)

    def asked(where: str, kind: torch.dtype) -> tuple[float, np.ndarray]:
        decoder.to(where, kind).zero_grad()
        torch.manual_seed(1)
        value = PENALTIES[name](decoder, z.to(where, kind))
        if value.requires_grad:
            value.backward()
        slope = decoder[2].weight.grad
        return float(value.detach()), np.zeros(1) if slope is None else slope.double().cpu().numpy()

    value, slope = asked("cpu", torch.float64)
    found, moved = asked(device, dtype)
    if name == "hessian" and device != "cpu":  # draws its own directions there
        pytest.skip("directions are drawn by the device")
    assert found == pytest.approx(value, rel=1e-3)
    np.testing.assert_allclose(moved, slope, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_are_answered_where_they_lie(device: str) -> None:
    x = torch.as_tensor(X, dtype=torch.float32, device=device)
    for model in (nm.VAE(2, training=nm.Training(steps=3), random_state=0), nm.ICA(2, random_state=0)):
        found = model.fit(x).transform(x)
        assert found.device.type == device
        assert found.dtype == torch.float32
        plain = np.asarray(model.transform(x.cpu().numpy()))
        np.testing.assert_allclose(found.cpu().numpy(), plain, rtol=1e-3, atol=1e-3)
    z, z_hat = torch.as_tensor(Z, device=device), torch.as_tensor(Z[:, ::-1].copy(), device=device)
    assert nm.metrics.mcc(z, z_hat).score == pytest.approx(1.0)
