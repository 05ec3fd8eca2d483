"""EncDiff: scalars become tokens, tokens steer a latent diffusion model, and its loss trains the encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from noumena import derivatives, seeds
from noumena.checks import InputError
from noumena.estimators import diffusion, runs
from noumena.estimators.diffusion import STEPS, Denoiser, DiffusionObjective, EncDiff, ddim, levels, trailing
from noumena.estimators.training import Training
from noumena.estimators.vector_autoencoder import VectorObjective
from noumena.nets.residual import ResidualEncoder
from noumena.nets.unet import UNet
from noumena.nets.vector_quantised import VectorQuantised
from noumena.penalties import DependencySparsity, HessianPenalty, Interaction, LatentSparsity, OroJaR

PLAN = Training(steps=3, batch_size=8, learning_rate=1e-3, average=0.5)
TINY: dict[str, Any] = {
    "autoencoder": VectorQuantised(1, 16, widths=(4, 4), blocks=1, depth=2, codes=8),
    "encoder": ResidualEncoder(1, 16, widths=(4, 4), blocks=1),
    "unet": UNet(2, 4, widths=(4, 8), heads=2, context=4),
    "first": Training(steps=3, batch_size=8, learning_rate=1e-3),
    "sampling": 3,
    "training": PLAN,
    "random_state": 0,
}


def pictures(rows: int = 30, side: int = 16, seed: int = 0) -> np.ndarray:
    """Grey pictures of two factors: how bright the left and the upper part are."""
    u = np.random.default_rng(seed).random((rows, 2))
    x = np.zeros((rows, side, side))
    x[:, :, : side // 2] += u[:, 0, None, None]
    x[:, : side // 2] += u[:, 1, None, None]
    return (x / 2).reshape(rows, -1).astype(np.float32)


def built(model: EncDiff | None = None, seed: int = 0, n_observed: int = 256) -> DiffusionObjective:
    model = EncDiff(3, **TINY) if model is None else model
    objective: Any = model._model(seed, n_observed, torch.zeros(n_observed), torch.ones(n_observed))
    return objective


def drawn(objective: DiffusionObjective, rows: int, seed: int = 0) -> dict[str, Tensor]:
    return objective.draws(rows, torch.Generator().manual_seed(seed))


def batch(rows: int = 6) -> Tensor:
    return torch.as_tensor(pictures(rows))


@pytest.fixture(scope="module")
def fitted() -> EncDiff:
    return EncDiff(3, n_models=2, **TINY).fit(pictures())


# ---- noise -------------------------------------------------------------------------------------------------------


def test_the_levels_of_noise_are_those_of_a_slow_loop() -> None:
    alpha, sigma = levels(STEPS)
    signal = 1.0
    for t in range(STEPS):
        root = 0.0015**0.5 + (0.0155**0.5 - 0.0015**0.5) * t / (STEPS - 1)
        signal *= 1 - root**2
        if t in (0, 1, 500, STEPS - 1):
            assert float(alpha[t]) == pytest.approx(signal**0.5, rel=1e-5)
            assert float(sigma[t]) == pytest.approx((1 - signal) ** 0.5, rel=1e-5)


def test_noise_added_step_by_step_has_the_share_that_the_levels_say() -> None:
    alpha, sigma = (v.double() for v in levels(STEPS))
    ratio = (alpha[1:] / alpha[:-1]).square()  # 1 − β of every later step
    variance = sigma[0].square()
    for kept in ratio:
        variance = kept * variance + (1 - kept)
    assert float(variance) == pytest.approx(float(sigma[-1].square()), rel=1e-5)


def test_sampling_with_the_true_noise_recovers_the_maps_exactly() -> None:
    alpha, sigma = (v.double() for v in levels(STEPS))
    h, noise = torch.randn(2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).unbind()
    seen = []

    def predict(noisy: Tensor, t: int) -> Tensor:
        torch.testing.assert_close(noisy, alpha[t] * h + sigma[t] * noise)  # it stays on the way of the true noise
        seen.append(t)
        return noise

    for steps in (1, 7):
        times = trailing(steps, STEPS)
        start = alpha[times[0]] * h + sigma[times[0]] * noise
        torch.testing.assert_close(ddim(predict, start, times, alpha, sigma), h)
    assert seen == [999, *trailing(7, STEPS)]


def test_times_fall_evenly_from_the_noisiest() -> None:
    assert trailing(STEPS, STEPS) == list(range(STEPS))[::-1]
    gaps = np.diff(trailing(7, STEPS))
    assert set(gaps) <= {-143, -142}


def test_the_decoder_gives_what_the_predicted_noise_leaves() -> None:
    objective = built()
    decoder, target = objective.decoder, torch.randn(5, 32, generator=torch.Generator().manual_seed(1))

    class Knowing(torch.nn.Module):
        def forward(self, h: Tensor, t: Tensor, tokens: Tensor) -> Tensor:
            at = t.long()[:, None]
            return (h - decoder.alpha[at] * target) / decoder.sigma[at]

    decoder.unet = Knowing()
    decoder.level.fill_(0.5)
    decoder.unit.fill_(2.0)
    objective.scale.fill_(3.0)
    objective.mean.fill_(7.0)
    expected = 3 * decoder.autoencoder.decode(2 * target + 0.5) + 7
    torch.testing.assert_close(objective.decode(torch.zeros(5, 3)), expected, rtol=1e-3, atol=1e-3)


def test_sampled_maps_stay_between_the_ends_of_the_training_maps() -> None:
    objective, x = built(), batch()
    decoder = objective.decoder
    decoder.settle(x)
    decoder.unet.out[-1].weight.data.mul_(1e4)  # pyright: ignore[reportIndexIssue]
    seen: list[Tensor] = []
    plain = decoder.autoencoder.decode
    decoder.autoencoder.decode = lambda h: (seen.append(h), plain(h))[1]  # type: ignore[method-assign]
    objective.decode(torch.randn(5, 3, generator=torch.Generator().manual_seed(0)))
    maps = decoder.autoencoder.encode(x).unflatten(1, (2, -1)).movedim(1, 0).flatten(1)
    found = seen[0].unflatten(1, (2, -1)).movedim(1, 0).flatten(1)
    torch.testing.assert_close(found.amin(dim=1), maps.amin(dim=1))
    torch.testing.assert_close(found.amax(dim=1), maps.amax(dim=1))


def test_a_hardly_trained_model_decodes_to_values_that_can_be_shown() -> None:
    x = (255 * pictures()).astype(np.uint8)
    for seed in range(3):
        model = EncDiff(3, **{**TINY, "random_state": seed}).fit(x)
        assert np.abs(model.inverse_transform(model.transform(x))).max() < 4 * 255


# ---- the objective -----------------------------------------------------------------------------------------------


def by_hand(objective: DiffusionObjective, x: Tensor, draws: dict[str, Tensor], z: Tensor) -> Tensor:
    """The loss, row by row, from single calls."""
    decoder, found = objective.decoder, []
    for i in range(len(x)):
        t = int(draws["time"][i] * STEPS)
        h = (decoder.autoencoder.encode(x[i : i + 1]) - decoder.level) / decoder.unit
        noised = decoder.alpha[t] * h + decoder.sigma[t] * draws["noise"][i]
        tokens = decoder.concepts(z[i : i + 1])
        predicted = decoder.unet(noised, torch.tensor([float(t)]), tokens)
        found.append((predicted - draws["noise"][i]).abs().sum())
    return torch.stack(found).mean()


def test_the_loss_is_that_of_a_slow_loop() -> None:
    objective, x = built(), batch()
    objective.decoder.settle(x)
    draws = drawn(objective, 6)
    h = objective.encoder(x)
    z = (h - h.mean(dim=0)) / h.std(dim=0, correction=0)
    loss, terms = objective(x, draws, 1.0)
    torch.testing.assert_close(loss, by_hand(objective, x, draws, z), rtol=1e-4, atol=1e-4)
    assert torch.equal(terms["noise error"], loss)
    objective.normalise = False
    torch.testing.assert_close(objective(x, draws, 1.0)[0], by_hand(objective, x, draws, h), rtol=1e-4, atol=1e-4)


def test_times_reach_every_level_and_no_other() -> None:
    objective, x = built(), batch(2)
    for u, t in ((0.0, 0), (1.0, STEPS - 1)):
        draws = {"noise": torch.ones(2, 32), "time": torch.full((2,), u)}
        seen = []
        objective.decoder.predicted = lambda h, at, z, seen=seen: (seen.append(at.tolist()), h)[1]  # type: ignore[method-assign]
        objective(x, draws, 1.0)
        assert seen == [[t, t]]


def test_gradients_reach_every_trained_parameter_and_none_that_is_fixed() -> None:
    objective = built()
    loss, _ = objective(batch(), drawn(objective, 6), 1.0)
    loss.backward()
    for name, p in objective.named_parameters():
        fixed = name.startswith("decoder.autoencoder.")
        assert p.requires_grad != fixed, name
        assert (p.grad is None) if fixed else bool((p.grad != 0).any()), name


def test_several_models_in_one_program_equal_each_alone() -> None:
    models = [built(EncDiff(3, **(TINY | {"penalty": 0.1 * DependencySparsity(points=2)})), k) for k in range(2)]
    x, draws = batch(), drawn(models[0], 6)
    parameters, buffers = stack_module_state(models)  # type: ignore[arg-type]
    found, terms = vmap(lambda p, b: functional_call(models[0], (p, b), (x, draws, 1.0)))(parameters, buffers)
    for k, model in enumerate(models):
        loss, own = model(x, draws, 1.0)
        torch.testing.assert_close(found[k], loss, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(terms["penalty"][k], own["penalty"], rtol=1e-4, atol=1e-6)


def test_maps_have_mean_zero_and_variance_one_in_every_channel() -> None:
    objective, x = built(), batch(20)
    objective.decoder.settle(x)
    maps = objective.decoder.maps(x).unflatten(1, (2, 4, 4))
    torch.testing.assert_close(maps.mean(dim=(0, 2, 3)), torch.zeros(2), atol=1e-4, rtol=0)
    torch.testing.assert_close(maps.std(dim=(0, 2, 3), correction=0), torch.ones(2), atol=1e-3, rtol=0)


# ---- the penalty -------------------------------------------------------------------------------------------------


def test_the_penalty_sees_the_jacobian_of_what_one_step_of_denoising_says() -> None:
    objective, x = built(), batch().double()
    objective.double().decoder.settle(x)
    objective.penalty = DependencySparsity("l1", points=2)
    draws = {k: v.double() for k, v in drawn(objective, 6).items()}
    _, terms = objective(x, draws, 1.0)
    h = objective.encoder(x)
    z = (h - h.mean(dim=0)) / h.std(dim=0, correction=0)
    decoder, step, total = objective.decoder, 1e-5, 0.0
    for i in range(2):
        t = int(draws["time"][i] * STEPS)
        noised = decoder.alpha[t] * decoder.maps(x)[i] + decoder.sigma[t] * draws["noise"][i]

        def clean(y: Tensor, t: int = t, noised: Tensor = noised) -> Tensor:
            tokens = decoder.concepts(y[None])
            predicted = decoder.unet(noised[None], torch.tensor([float(t)], dtype=torch.float64), tokens)[0]
            return (noised - decoder.sigma[t] * predicted) / decoder.alpha[t]

        for j in range(3):
            move = step * torch.eye(3, dtype=torch.float64)[j]
            with torch.no_grad():
                total += float(((clean(z[i] + move) - clean(z[i] - move)) / (2 * step)).abs().sum())
    assert float(terms["penalty"].detach()) == pytest.approx(total / 2, rel=1e-4)


@pytest.mark.parametrize("penalty", [OroJaR(probes=3), Interaction(3, step=0.1, pairs=2, points=2)], ids=repr)
def test_points_beside_one_another_are_denoised_at_the_place_of_their_row(penalty: Any) -> None:
    objective, x = built(), batch()
    objective.penalty = penalty
    seen: list[tuple[Tensor, Tensor]] = []
    plain = objective.decoder.denoised
    objective.decoder.denoised = lambda h, t, z: (seen.append((h, z)), plain(h, t, z))[1]  # type: ignore[method-assign]
    objective(x, drawn(objective, 6), 1.0)
    h, z = max(seen, key=lambda found: len(found[0]))
    rows = diffusion.points(penalty, 6)
    each = len(z) // rows
    assert each > 1
    for i in range(rows):
        block = slice(i * each, (i + 1) * each)
        assert bool((h[block] == h[block][0]).all())
        assert float((z[block] - z[block][0]).detach().abs().max()) < 0.31  # moves of a step about one point
    assert len(h.unique(dim=0)) == rows


def test_every_term_of_a_sum_is_denoised_at_the_places_of_its_own_rows() -> None:
    few, all_rows = Interaction(3, step=0.1, pairs=2, points=2), DependencySparsity("l1")
    objective, x = built(), batch()
    objective.penalty = 0.5 * few + 2 * all_rows
    draws = drawn(objective, 6)
    own = {name.removeprefix("0."): value for name, value in draws.items() if name.startswith("0.")}
    assert own
    together = float(objective(x, draws, 1.0)[1]["penalty"].detach())
    alone = []
    for term in (few, all_rows):
        objective.penalty = term
        alone.append(float(objective(x, draws | own, 1.0)[1]["penalty"].detach()))
    assert together == pytest.approx(0.5 * alone[0] + 2 * alone[1], rel=1e-5)


@pytest.mark.parametrize(
    "penalty",
    [LatentSparsity(), DependencySparsity(points=2), OroJaR(), HessianPenalty()],
    ids=lambda p: type(p).__name__,
)
def test_every_penalty_is_trained_with(penalty: Any) -> None:
    model = EncDiff(3, penalty=0.1 * penalty, n_models=2, **TINY).fit(pictures())
    torch.testing.assert_close(model.objectives_, model.terms_["noise error"] + model.terms_["penalty"])
    assert (model.terms_["penalty"] > 0).all()


def test_a_penalty_needs_scalars_of_a_fixed_scale() -> None:
    with pytest.raises(InputError, match="vacuous; set normalise=True"):
        EncDiff(3, penalty=LatentSparsity(), normalise=False, **TINY).fit(pictures())


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
    monkeypatch.setitem(runs.ESTIMATORS, "EncDiff", EncDiff)
    for part in (UNet, VectorQuantised, ResidualEncoder):
        monkeypatch.setitem(runs._PARTS, part.__name__, part)
    runs.save(fitted, tmp_path)
    again: Any = runs.load(tmp_path)
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
