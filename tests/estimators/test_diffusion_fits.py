"""EncDiff is fitted in two stages that go on where they were interrupted; what cannot work is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from small_diffusion import PLAN, TINY, batch, built, drawn, pictures
from torch import Tensor

from noumena import derivatives, seeds
from noumena.checks import InputError
from noumena.estimators.images import enc_diff as diffusion
from noumena.estimators.images.enc_diff import Denoiser, DiffusionObjective, EncDiff
from noumena.estimators.images.unet import UNet
from noumena.estimators.images.vector_autoencoder import VectorObjective
from noumena.estimators.images.vector_quantised import VectorQuantised
from noumena.estimators.loop import Training
from noumena.estimators.save import load, save
from noumena.estimators.state import _PARTS, ESTIMATORS
from noumena.nets.residual import ResidualEncoder
from noumena.penalties import LatentSparsity


@pytest.fixture(scope="module")
def fitted() -> EncDiff:
    return EncDiff(3, n_models=2, **TINY).fit(pictures())


# ---- fitting -----------------------------------------------------------------------------------------------------


def test_scalars_and_pictures_have_their_shapes_and_the_scalars_unit_variance(fitted: EncDiff) -> None:
    x = pictures()
    z = fitted.transform(x)
    assert z.shape == (30, 3)
    assert fitted.inverse_transform(z).shape == x.shape
    assert fitted.transform_all(x).shape == (2, 30, 3)
    assert np.allclose(z.std(axis=0), 1, atol=0.25)
    assert len(fitted.first_objectives_) == 2
    assert fitted.structure_.n_latents == 3
    J = derivatives.jacobian(fitted.decoder_, torch.as_tensor(z[:1]))
    assert J.shape == (1, 256, 3)
    assert float(J.abs().sum()) > 0
    assert np.array_equal(fitted.inverse_transform(z[:1]), fitted.inverse_transform(z[:1]))


def test_the_same_seed_gives_the_same_model_alone_or_among_others(fitted: EncDiff) -> None:
    x = pictures()
    again = clone(fitted).fit(x)
    assert np.array_equal(again.transform_all(x), fitted.transform_all(x))
    assert np.array_equal(again.inverse_transform(again.points_[0]), fitted.inverse_transform(fitted.points_[0]))
    alone = clone(fitted).set_params(n_models=1, random_state=1).fit(x)
    np.testing.assert_allclose(alone.transform_all(x)[0], fitted.transform_all(x)[1], rtol=1e-3, atol=1e-4)
    assert not np.allclose(fitted.transform_all(x)[0], fitted.transform_all(x)[1], atol=1e-2)


def test_the_first_stage_is_fixed_while_the_second_is_trained() -> None:
    x = pictures()
    one, two = (
        EncDiff(3, **(TINY | {"training": PLAN.changed(steps=steps)})).fit(x).models_[0].decoder for steps in (1, 4)
    )
    for name, value in one.autoencoder.state_dict().items():
        assert torch.equal(value, two.autoencoder.state_dict()[name])
    assert torch.equal(one.level, two.level)
    fresh = built().decoder.autoencoder
    assert not torch.equal(fresh.codes, one.autoencoder.codes)
    assert not torch.equal(fresh.encoder[1].weight, one.autoencoder.encoder[1].weight)


def test_bytes_are_taken_in_units_of_255() -> None:
    x = (255 * pictures()).astype(np.uint8)
    model = EncDiff(3, **TINY).fit(x)
    again = EncDiff(3, **TINY).fit((x / 255).astype(np.float32))
    np.testing.assert_allclose(model.transform(x), again.transform((x / 255).astype(np.float32)), atol=1e-4)
    z = model.points_[0]
    np.testing.assert_allclose(model.inverse_transform(z), 255 * again.inverse_transform(z), rtol=1e-3, atol=0.1)


def test_a_fit_comes_back_from_a_file(fitted: EncDiff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ESTIMATORS, "EncDiff", EncDiff)
    for part in (UNet, VectorQuantised, ResidualEncoder):
        monkeypatch.setitem(_PARTS, part.__name__, part)
    save(fitted, tmp_path)
    again: Any = load(tmp_path)
    x = pictures()
    assert np.array_equal(again.transform_all(x), fitted.transform_all(x))
    z = fitted.transform(x)
    assert np.array_equal(again.inverse_transform(z), fitted.inverse_transform(z))
    assert again.unet == TINY["unet"]
    assert again.autoencoder == TINY["autoencoder"]
    assert again.first.steps == 3
    assert again.first_objectives_ == fitted.first_objectives_


def test_both_stages_go_on_where_they_were_interrupted(fitted: EncDiff, tmp_path: Path) -> None:
    x, file = pictures(), tmp_path / "fit"
    calls = {"first": 0, "second": 0}
    plans = {"first": VectorObjective.draws, "second": DiffusionObjective.draws}

    def stopping(stage: str):  # type: ignore[no-untyped-def]
        def draws(self: Any, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
            calls[stage] += 1
            return plans[stage](self, rows, generator)

        return draws

    model = clone(fitted).set_params(training=PLAN.changed(checkpoint=file, checkpoint_seconds=0.0))
    whole = clone(model).fit(x)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fit", "fit.first"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VectorObjective, "draws", stopping("first"))
        patch.setattr(DiffusionObjective, "draws", stopping("second"))
        again = clone(model).fit(x)
    assert calls == {"first": 1, "second": 1}  # nothing but the last reading of each stage
    assert np.array_equal(again.transform_all(x), whole.transform_all(x))
    file.unlink()
    assert np.array_equal(clone(model).fit(x).transform_all(x), fitted.transform_all(x))


def test_an_interrupted_first_stage_ends_the_fit_and_is_taken_up_again(tmp_path: Path) -> None:
    x = pictures()
    model = EncDiff(3, **(TINY | {"training": PLAN.changed(checkpoint=tmp_path / "fit", checkpoint_seconds=0.0)}))
    plain, steps = VectorObjective.forward, []

    def stopped(self: Any, *given: Any) -> Any:
        steps.append(torch.is_grad_enabled())
        if sum(steps) == 3:
            raise KeyboardInterrupt
        return plain(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VectorObjective, "forward", stopped)
        with pytest.warns(UserWarning, match="Stopped by hand"), pytest.raises(KeyboardInterrupt):
            clone(model).fit(x)
    assert (tmp_path / "fit.first").exists()
    assert not (tmp_path / "fit").exists()
    assert np.array_equal(clone(model).fit(x).transform(x), EncDiff(3, **TINY).fit(x).transform(x))


def test_one_first_stage_serves_several_penalties_but_not_other_data(tmp_path: Path) -> None:
    x = pictures()
    shared = TINY | {"first": Training(steps=3, batch_size=8, learning_rate=1e-3, checkpoint=tmp_path / "stage")}
    EncDiff(3, **shared).fit(x)
    steps: list[int] = []
    plain = VectorObjective.forward
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VectorObjective, "forward", lambda self, *given: (steps.append(1), plain(self, *given))[1])
        biased = EncDiff(3, penalty=0.1 * LatentSparsity(), **shared).fit(x)
    assert len(steps) == 1  # the last reading alone
    apart = EncDiff(3, penalty=0.1 * LatentSparsity(), **TINY).fit(x)
    assert np.array_equal(biased.transform(x), apart.transform(x))
    with pytest.raises(InputError, match="checkpoint"):
        EncDiff(3, **shared).fit(pictures(seed=1))


def learnt(steps: int, widths: tuple[int, ...]) -> tuple[EncDiff, np.ndarray, np.ndarray]:
    """A model of small pictures, the pictures it was trained on, and others."""
    x = pictures(200, side=8)
    first, plan = (Training(steps=n, batch_size=32, learning_rate=1e-2) for n in (steps // 2, steps))
    model = EncDiff(
        2, autoencoder=VectorQuantised(1, 8, widths=(8,), blocks=0, depth=1, codes=32),
        encoder=ResidualEncoder(1, 8, widths=(8, 8), blocks=0), unet=UNet(1, 4, widths=widths, heads=2, context=8),
        first=first, training=plan, random_state=0,
    ).fit(x)  # fmt: skip
    return model, x, pictures(200, side=8, seed=5)


def test_scalars_come_to_carry_what_the_pictures_show() -> None:
    model, _, held_out = learnt(100, (8,))
    objective: Any = model.models_[0]
    decoder, x = objective.decoder, torch.as_tensor(held_out)
    noise, t = drawn(objective, 200, seed=3)["noise"], torch.full((200,), 400)
    with torch.no_grad():
        z = objective.code(x)
        noised = decoder.alpha[t, None] * decoder.maps(x) + decoder.sigma[t, None] * noise
        own, others = (
            float((decoder.predicted(noised, t, given) - noise).abs().mean()) for given in (z, z.roll(1, dims=0))
        )
    assert own < 0.8 * others


@pytest.mark.slow
def test_pictures_are_made_again_from_their_scalars() -> None:
    model, x, held_out = learnt(400, (8, 16))
    rebuilt = model.inverse_transform(model.transform(held_out))
    assert ((rebuilt - held_out) ** 2).sum() < 0.4 * ((held_out - x.mean(axis=0)) ** 2).sum()


# ---- the first stage ---------------------------------------------------------------------------------------------


def test_the_first_stage_adds_reconstruction_codebook_and_a_quarter_of_commitment() -> None:
    with seeds.global_torch(0, "init"):
        stage = VectorObjective(TINY["autoencoder"](256, 256))
    x, net = batch(), stage.autoencoder
    loss, terms = stage(x, {}, 1.0)
    h = net.encode(x)
    q, usage = net.quantise(h)
    torch.testing.assert_close(terms["reconstruction"], (net.decode(q) - x).abs().mean())
    torch.testing.assert_close(loss, terms["reconstruction"] + 1.25 * (q - h).square().mean())
    assert float(terms["codes in use"]) == pytest.approx(float(torch.distributions.Categorical(usage).entropy().exp()))
    loss.backward()
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in net.parameters())
    distance = 2 * (q - h).detach().unflatten(1, net.shape) / h.numel()
    summed = torch.zeros_like(net.codes)
    nearest = torch.cdist(h.unflatten(1, net.shape).movedim(1, -1).flatten(0, -2), net.codes).argmin(dim=1)
    summed.index_add_(0, nearest, distance.movedim(1, -1).flatten(0, -2))
    torch.testing.assert_close(net.codes.grad, summed.detach())  # codes are drawn to vectors, by nothing else


def test_the_first_stage_learns_to_rebuild() -> None:
    x = pictures(200)
    plan = Training(steps=80, batch_size=32, learning_rate=2e-2)
    wider = VectorQuantised(1, 16, widths=(8, 8), blocks=0, depth=2, codes=32)
    model = EncDiff(3, **(TINY | {"autoencoder": wider, "first": plan, "training": PLAN.changed(steps=1)})).fit(x)
    net = model.models_[0].decoder.autoencoder  # type: ignore[union-attr]
    error = (net(torch.as_tensor(x)) - torch.as_tensor(x)).abs().mean()
    assert float(error) < 0.6 * float(np.abs(x - x.mean(axis=0)).mean())


# ---- what is refused ---------------------------------------------------------------------------------------------


def test_the_shape_of_square_pictures_is_read_off_the_number_of_columns() -> None:
    with torch.device("meta"):
        for columns, shape in ((12288, (3, 64)), (4096, (1, 64)), (768, (3, 16)), (144, (1, 12)), (48, (3, 4))):
            found = EncDiff()._pictures(columns)
            assert (found.channels, found.size) == shape
            zero = torch.zeros(columns)
            model: Any = EncDiff(2)._model(0, columns, zero, zero)
            assert model.decode(torch.zeros(1, 2)).shape == (1, columns)
    for wrong in (49, 60, 512):
        with pytest.raises(
            InputError, match=f"of sides that 4 divides, or come with an autoencoder. Got rows of {wrong}"
        ):
            EncDiff()._pictures(wrong)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"sampling": 0}, "sampling must be a whole number"),
        ({"sampling": 1001}, "sampling must be 1000 steps at most"),
        ({"autoencoder": UNet()}, "autoencoder must be a VectorQuantised builder"),
        ({"autoencoder": None}, "x must be square pictures of three channels or one"),
        ({"first": 5}, "first must be a Training"),
        ({"first": Training(steps=0)}, "steps must be"),
        ({"training": Training(polish=1)}, "polish must be 0"),
        ({"unet": UNet(3, 16)}, "Inputs and outputs must be the 768 numbers"),
        ({"n_latents": 0}, "n_latents must be"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    x = pictures()[:, :-1] if settings.get("autoencoder", "") is None else pictures()
    with pytest.raises(InputError, match=sentence):
        EncDiff(**{"n_latents": 3, **TINY}).set_params(**settings).fit(x)


def test_without_settings_the_published_ones_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Training] = []
    monkeypatch.setattr(diffusion, "published", lambda: seen.append(PLAN) or PLAN)
    monkeypatch.setattr(diffusion, "first_stage", lambda: seen.append(PLAN) or PLAN)
    EncDiff(3, **(TINY | {"first": None, "training": None})).fit(pictures())
    assert len(seen) == 3  # the first stage's are checked, then used
    assert isinstance(built().decoder, Denoiser)
