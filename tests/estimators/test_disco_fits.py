"""DisCo: a generator is fitted first, then its directions; interrupted work is resumed, bad settings are refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from small_disco import FIRST, SECOND, model, pictures
from torch import Tensor

from noumena import seeds
from noumena.checks import InputError
from noumena.estimators.images import disco as directions
from noumena.estimators.images.disco import DisCo, DisCoObjective, styled
from noumena.estimators.images.style_gan import StyleGAN
from noumena.estimators.images.style_networks import StyleDiscriminator, StyleGenerator
from noumena.estimators.save import load, save
from noumena.estimators.state import _PARTS, ESTIMATORS
from noumena.estimators.training import Training
from noumena.penalties import DependencySparsity, HessianPenalty, LatentSparsity, OroJaR

# ---- the estimator ---------------------------------------------------------------------------------------------


def weights(fitted: DisCo, k: int = 0) -> dict[str, Tensor]:
    return {n: v for n, v in fitted.models_[k].state_dict().items() if "generator" in n}


@pytest.mark.parametrize(
    "penalty",
    [0.1 * LatentSparsity(), 0.1 * DependencySparsity(points=2), 0.1 * OroJaR(), 0.1 * HessianPenalty()],
    ids=lambda p: type(p.terms[0][1]).__name__,
)
def test_it_fits_under_every_penalty_on_the_same_generators(penalty: Any) -> None:
    x = pictures()
    fitted, plain = model(penalty=penalty, n_models=2).fit(x), model(n_models=2).fit(x)
    assert fitted.transform_all(x).shape == (2, 40, 3)
    assert fitted.inverse_transform(fitted.transform(x)).shape == x.shape
    assert bool((fitted.terms_["penalty"] > 0).all())
    np.testing.assert_allclose(
        fitted.objectives_, fitted.terms_["contrast"] + fitted.terms_["entropy"] + fitted.terms_["penalty"], rtol=1e-5
    )
    assert not np.allclose(fitted.transform(x), plain.transform(x))
    for k in range(2):
        for name, value in weights(plain, k).items():
            assert torch.equal(value, weights(fitted, k)[name]), name


def test_directions_stay_orthonormal_and_move_while_the_generator_stays() -> None:
    x = pictures()
    shorter, longer = model().fit(x), model(training=SECOND.changed(steps=12)).fit(x)
    short, long = (m.models_[0].decoder.navigator.weight for m in (shorter, longer))
    torch.testing.assert_close(long.mT @ long, torch.eye(3), atol=1e-5, rtol=0)
    assert float((short - long).abs().max()) > 1e-3
    for name, value in weights(shorter).items():
        assert torch.equal(value, weights(longer)[name]), name


def test_the_first_stage_trains_the_generator_and_leaves_its_curves() -> None:
    x = pictures()
    one, more = model().fit(x), model(generator_training=FIRST.changed(steps=6)).fit(x)
    assert more.generator_steps_ == [1, 2, 3, 4, 5, 6]
    assert np.shape(more.generator_losses_) == np.shape(more.discriminator_losses_) == (6, 1)
    before, after = (weights(m)["decoder.generator.synthesis.constant"] for m in (one, more))
    assert not torch.allclose(before, after)
    assert not np.allclose(one.sample(3), more.sample(3))


def test_the_same_seed_gives_the_same_model_and_seeds_do_not_meet() -> None:
    x = pictures()
    a, b, both = model().fit(x), clone(model()).fit(x), model(n_models=2).fit(x)
    assert np.array_equal(a.transform(x), b.transform(x))
    assert np.array_equal(a.sample(2), b.sample(2))
    np.testing.assert_allclose(both.transform_all(x)[0], a.transform(x), rtol=1e-3, atol=1e-4)
    assert not np.allclose(model(random_state=5).fit(x).transform(x), a.transform(x))


def test_a_fitted_model_is_saved_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ESTIMATORS, "DisCo", DisCo)
    for part in (StyleGenerator, StyleDiscriminator):
        monkeypatch.setitem(_PARTS, part.__name__, part)
    x = pictures()
    fitted = model(penalty=0.1 * OroJaR(), n_models=2).fit(x)
    save(fitted, tmp_path / "run")
    again: Any = load(tmp_path / "run")
    assert np.array_equal(fitted.transform_all(x), again.transform_all(x))
    assert np.array_equal(fitted.inverse_transform(np.ones((2, 3))), again.inverse_transform(np.ones((2, 3))))
    assert np.array_equal(fitted.sample(3), again.sample(3))
    assert again.structure_ == fitted.structure_
    assert again.generator_losses_ == fitted.generator_losses_
    assert again.get_params()["generator_training__steps"] == 2


def test_the_structure_is_read_at_coordinates_of_styles_along_the_directions() -> None:
    fitted = model().fit(pictures())
    points = fitted.points_of(0)
    assert points.shape == (directions.POINTS, 3)
    assert 0.2 < float(points.std()) < 5
    assert fitted.structure_.support.shape == (16, 3)


def test_bytes_are_seen_in_units_of_255_and_come_out_in_their_own() -> None:
    x = (255 * pictures()).astype(np.uint8)
    fitted = model().fit(x)
    of: Any = fitted.models_[0]
    assert float(of.scale[0]) == 255
    seen = of.encoder(torch.as_tensor(x[:3] / 255.0, dtype=torch.float32)).numpy()
    np.testing.assert_allclose(fitted.transform(x[:3]), seen, rtol=1e-4, atol=1e-5)
    noise = torch.randn(2, 4, generator=seeds.generator(7, "samples"))
    np.testing.assert_allclose(fitted.sample(2, random_state=7), 255 * of.decoder.generator(noise).numpy(), rtol=1e-5)


def test_without_builders_images_tell_their_shape() -> None:
    generator, judge = styled(StyleGenerator, 3 * 16**2), styled(StyleDiscriminator, 3 * 16**2)
    assert (generator.channels, generator.size, generator.side) == (3, 16, 4)
    assert judge.widths == generator.widths[::-1]
    assert styled(StyleGenerator, 4096).widths == (256, 256, 128, 64, 32)
    fitted: Any = DisCo(3)._model(0, 3 * 16**2, torch.zeros(768), torch.ones(768))
    assert fitted.code(torch.zeros(1, 768)).shape == (1, 3)
    for side in (4, 8):
        small: Any = DisCo(3)._model(0, side**2, torch.zeros(side**2), torch.ones(side**2))
        assert small.code(torch.zeros(1, side**2)).shape == (1, 3)
    for wrong in (100, 6, 3 * 20**2):
        with pytest.raises(InputError, match=f"images must be square, .* Got {wrong} numbers"):
            styled(StyleGenerator, wrong)


# ---- leaving and coming back -----------------------------------------------------------------------------------


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the generators' objective is asked for."""
    calls, plain = [0], StyleGAN.forward

    def forward(self: StyleGAN, *given: Any) -> Any:
        calls[0] += 1
        return plain(self, *given)

    monkeypatch.setattr(StyleGAN, "forward", forward)
    return calls


def test_work_that_was_interrupted_in_either_stage_is_resumed_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, whole = pictures(), model().fit(pictures())
    settings = SECOND.changed(checkpoint=tmp_path / "kept", checkpoint_seconds=0)
    for kind, stop in ((StyleGAN, 3), (DisCoObjective, 4)):
        calls, plain = [0], kind.forward

        def forward(self: Any, *given: Any, calls: Any = calls, plain: Any = plain, stop: int = stop) -> Any:
            calls[0] += 1
            if calls[0] == stop:
                raise KeyboardInterrupt
            return plain(self, *given)

        with monkeypatch.context() as patch:
            patch.setattr(kind, "forward", forward)
            with pytest.warns(UserWarning, match="Stopped by hand at step"), suppress(KeyboardInterrupt):
                model(training=settings).fit(x)
        assert calls[0] >= stop
    assert {path.name for path in tmp_path.iterdir()} >= {"kept", "kept.generator"}
    calls = counted(monkeypatch)
    resumed = model(training=settings).fit(x)
    assert np.array_equal(resumed.transform(x), whole.transform(x))
    assert np.array_equal(resumed.sample(2), whole.sample(2))
    assert calls == [1]  # the generators were only looked at once more


def test_generators_with_a_checkpoint_of_their_own_serve_other_penalties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, kept = pictures(), FIRST.changed(checkpoint=tmp_path / "generators")
    first = model(generator_training=kept).fit(x)
    calls = counted(monkeypatch)
    second = model(generator_training=kept, penalty=0.1 * OroJaR(), n_latents=2, shift=3.0).fit(x)
    assert calls == [1]
    assert np.array_equal(first.sample(2), second.sample(2))
    with pytest.raises(InputError, match="checkpoint"):
        model(generator_training=kept, r1=9.0).fit(x)


# ---- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"n_latents": 1}, "n_latents must be a whole number of at least 2"),
        ({"n_latents": 6}, r"styles must be at least as many as the latents\. Got 5 and 6 latents\."),
        ({"noise": 0}, "noise must be a whole number of at least 1"),
        ({"queries": 0}, "queries must be a whole number of at least 1"),
        ({"r1": -1.0}, "r1 must be a finite number"),
        ({"shift": -1.0}, "shift must be a finite number"),
        ({"least": -1.0}, "least must be a finite number"),
        ({"entropy": -1.0}, "entropy must be a finite number"),
        ({"temperature": 0.0}, "temperature must be a finite number"),
        ({"generator_training": Training(steps=0)}, "steps must be a whole number"),
        ({"training": Training(polish=1)}, r"polish must be 0, for its moves mix latents with directions\. Got 1\."),
    ],
)
def test_a_setting_that_cannot_work_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        model(**wrong).fit(pictures())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("generator_training", r"generator_training must be a Training\. Got 3\."),
        ("generator", r"generator must be a StyleGenerator\. Got 3\."),
    ],
)
def test_a_part_of_another_kind_is_refused(name: str, sentence: str) -> None:
    wrong = model()
    setattr(wrong, name, 3)
    with pytest.raises(InputError, match=sentence):
        wrong.fit(pictures())


def test_constants_are_those_published() -> None:
    published = {"n_latents": 64, "queries": 32, "shift": 6.0, "least": 0.5, "entropy": 1.0, "temperature": 1.0}
    assert published.items() <= DisCo().get_params().items()
    assert directions.SAME == 0.95
    assert directions.ROLES == 4
