"""A penalty in someone else's training: what Lightning then does is what the sum of the two losses would do."""

import copy
import pickle
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from noumena.checks import InputError
from noumena.integrations import PenaltyCallback
from noumena.integrations import lightning as room
from noumena.integrations.lightning import penalised
from noumena.penalties import DependencySparsity, IMAContrast, LatentSparsity, Penalty

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
ROWS = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
PENALTY = 0.5 * DependencySparsity("l1", ramp=0)


class Watched(Penalty):
    """Remembers what it was called with."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, decoder: Any, z: Tensor, progress: float = 1.0, draws: Any = None) -> Tensor:
        self.seen.append((progress, z.detach().clone(), decoder(z).shape))
        return decoder(z).square().mean()


def lightning_module(package: Any, **parts: Any) -> Any:
    class Theirs(package.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.encoder = parts.get("encoder", nn.Linear(4, 2))
            self.decoder = parts.get("decoder", nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4)))
            self.gives = parts.get("gives", lambda loss: loss)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            (x,) = batch
            return self.gives((self.decoder(self.encoder(x)) - x).square().mean())

        def decode(self, z: Tensor) -> Tensor:
            return self.decoder(z)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Theirs()


def trained(package: Any, module: Any, callback: Any, *, size: int = 16, **settings: Any) -> Any:
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = package.Trainer(
        **quiet,
        accelerator="cpu",
        devices=1,
        callbacks=callback if isinstance(callback, list) else [callback],
        **({"max_epochs": 1} | settings),
    )
    rows = torch.utils.data.TensorDataset(ROWS)
    trainer.fit(module, torch.utils.data.DataLoader(rows, batch_size=size))
    return trainer


@pytest.fixture(scope="module")
def pl() -> Any:
    return pytest.importorskip("lightning.pytorch", reason="the package lightning is not installed")


def by_hand(module: Any, penalty: Penalty, batches: list[Tensor]) -> list[Tensor]:
    """The weights after one step on the mean of loss and penalty over batches, without Lightning."""
    twin = copy.deepcopy(module)
    losses = []
    for x in batches:
        z = twin.encoder(x)
        centre, spread = z.mean(dim=0), (z.var(dim=0, correction=0) + 1e-8).sqrt()
        J = torch.stack([torch.autograd.functional.jacobian(twin.decoder, row, create_graph=True) for row in z])
        size = 0.5 * (J * spread).abs().sum(dim=(1, 2)).mean()
        assert torch.allclose(
            penalty(lambda v, s=spread, c=centre: twin.decoder(v * s + c), (z - centre) / spread), size
        )
        losses.append((twin.decoder(z) - x).square().mean() + size)
    torch.stack(losses).mean().backward()
    return [p.detach() - 0.1 * p.grad for p in twin.parameters()]


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_a_step_with_the_callback_is_a_step_on_loss_plus_penalty(name: str) -> None:
    package = pytest.importorskip(name, reason=f"{name} is not installed")
    module = lightning_module(package)
    before = [p.detach().clone() for p in module.parameters()]
    wanted = by_hand(module, PENALTY, [ROWS])
    callback = PenaltyCallback(PENALTY, decoder="decoder")
    assert isinstance(callback, package.Callback)
    trainer = trained(package, module, callback)
    assert all(torch.allclose(p, w, atol=1e-6) for p, w in zip(module.parameters(), wanted, strict=True))
    assert not any(torch.equal(p, b) for p, b in zip(module.parameters(), before, strict=True))
    assert float(trainer.callback_metrics["penalty"]) > 0


def test_accumulated_batches_share_the_penalty(pl: Any) -> None:
    module = lightning_module(pl)
    wanted = by_hand(module, PENALTY, [ROWS[:8], ROWS[8:]])
    trained(pl, module, PenaltyCallback(PENALTY), size=8, accumulate_grad_batches=2)
    assert all(torch.allclose(p, w, atol=1e-6) for p, w in zip(module.parameters(), wanted, strict=True))


@pytest.mark.parametrize("form", ["the decoder's input", "a layer", "a function", "a method"])
def test_latents_come_from_where_they_are_said_to(pl: Any, form: str) -> None:
    module = lightning_module(pl)
    z = module.encoder(ROWS).detach()
    watched = Watched()
    callback = {
        "the decoder's input": lambda: PenaltyCallback(watched),
        "a layer": lambda: PenaltyCallback(watched, "decoder", "encoder"),
        "a function": lambda: PenaltyCallback(watched, "decoder", lambda m, batch: m.encoder(batch[0])),
        "a method": lambda: PenaltyCallback(watched, "decode", lambda m, batch: m.encoder(batch[0])),
    }[form]()
    trained(pl, module, callback)
    ((_, seen, shape),) = watched.seen
    assert torch.equal(seen, z)
    assert shape == (16, 4)


def test_the_penalty_is_annealed_over_the_steps_of_the_trainer_or_those_given(pl: Any) -> None:
    for steps, progress in ((None, [0.0, 0.25, 0.5, 0.75]), (2, [0.0, 0.5, 1.0, 1.0])):
        watched = Watched()
        trained(pl, lightning_module(pl), PenaltyCallback(watched, steps=steps, name=None), size=8, max_epochs=2)
        assert [seen[0] for seen in watched.seen] == progress
    with pytest.raises(InputError, match="steps must be given"):
        trained(pl, lightning_module(pl), PenaltyCallback(Watched()), max_epochs=-1)


def test_a_step_may_return_a_mapping_or_nothing(pl: Any) -> None:
    watched = Watched()
    module = lightning_module(pl, gives=lambda loss: {"loss": loss, "kept": 3})
    wanted = by_hand(module, PENALTY, [ROWS])
    trained(pl, module, PenaltyCallback(PENALTY))
    assert all(torch.allclose(p, w, atol=1e-6) for p, w in zip(module.parameters(), wanted, strict=True))
    module = lightning_module(pl, gives=lambda loss: None)
    before = module.decoder[0].weight.detach().clone()
    trained(pl, module, PenaltyCallback(watched))
    assert watched.seen == []
    assert torch.equal(module.decoder[0].weight, before)


def test_the_plain_training_step_comes_back_after_a_fit_and_after_an_error(pl: Any) -> None:
    def broken(loss: Tensor) -> Tensor:
        raise KeyError("theirs")

    module = lightning_module(pl)
    trained(pl, module, PenaltyCallback(PENALTY))
    assert "training_step" not in module.__dict__
    module = lightning_module(pl, gives=broken)
    with pytest.raises(KeyError, match="theirs"):
        trained(pl, module, PenaltyCallback(PENALTY))
    assert "training_step" not in module.__dict__
    assert not module.decoder._forward_pre_hooks
    module = lightning_module(pl)
    module.training_step = own = module.training_step  # as torch.compile leaves it
    trained(pl, module, PenaltyCallback(PENALTY))
    assert module.__dict__["training_step"] is own


def test_two_callbacks_add_both_penalties_and_are_taken_off_in_any_order(pl: Any) -> None:
    module, alone = lightning_module(pl), lightning_module(pl)
    wanted = by_hand(alone, PENALTY, [ROWS])
    halves = [PenaltyCallback(0.5 * PENALTY, name="first"), PenaltyCallback(0.5 * PENALTY, name="second")]
    trainer = trained(pl, module, halves)
    assert all(torch.allclose(p, w, atol=1e-6) for p, w in zip(module.parameters(), wanted, strict=True))
    assert torch.equal(trainer.callback_metrics["first"], trainer.callback_metrics["second"])
    assert "training_step" not in module.__dict__
    own = module.training_step = module.training_step
    for order in ((0, 1), (1, 0)):
        for callback in halves:
            callback.on_train_start(trainer, module)
        assert module.training_step is not own
        for k in order:
            halves[k].on_train_end(trainer, module)
        assert module.__dict__["training_step"] is own


def test_two_callbacks_of_one_name_log_the_sum_of_their_penalties(pl: Any) -> None:
    whole = trained(pl, lightning_module(pl), PenaltyCallback(PENALTY)).callback_metrics["penalty"]
    halves = [PenaltyCallback(0.25 * PENALTY), PenaltyCallback(0.75 * PENALTY)]
    found = trained(pl, lightning_module(pl), halves).callback_metrics["penalty"]
    assert found.item() == pytest.approx(whole.item(), rel=1e-5)


def test_a_step_that_others_wrapped_meanwhile_stays_theirs(pl: Any) -> None:
    module, callback = lightning_module(pl), PenaltyCallback(PENALTY, steps=3)
    trainer = trained(pl, module, callback)
    callback.on_train_start(trainer, module)
    ours = module.training_step
    module.training_step = theirs = lambda *args: ours(*args)
    callback.on_train_end(trainer, module)
    assert module.training_step is theirs
    assert torch.equal(theirs((ROWS,), 0), (module.decoder(module.encoder(ROWS)) - ROWS).square().mean())


@pytest.mark.parametrize("form", ["a module", "a method"])
def test_a_decoder_of_two_results_is_one_sentence(pl: Any, form: str) -> None:
    class Gaussian(nn.Linear):
        def forward(self, z: Tensor) -> Any:
            return super().forward(z), 1.0

    module = lightning_module(pl, decoder=Gaussian(2, 4))
    module.training_step = lambda batch, batch_idx: (module.decoder(module.encoder(batch[0]))[0] - 1).square().mean()
    named = ("decoder",) if form == "a module" else ("decode", lambda m, batch: m.encoder(batch[0]))
    with pytest.raises(InputError) as error:
        trained(pl, module, PenaltyCallback(PENALTY, *named))
    assert str(error.value) == "The decoder must return one tensor; pick it, as by decoder(z)[0]. Got a tuple."


def test_dropout_and_batch_normalisation_are_settled_for_the_penalty_alone(pl: Any) -> None:
    decoder = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 4))
    module = lightning_module(pl, decoder=decoder)
    trained(pl, module, PenaltyCallback(PENALTY), size=8)
    assert all(layer.training for layer in decoder)
    assert int(decoder[1].num_batches_tracked) == 2  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"decoder": "decodr"}, "decoder must be the name of a part of Theirs. Got 'decodr'."),
        ({"latents": "encodr"}, "latents must be the name of a part of Theirs. Got 'encodr'."),
        ({"latents": "decode"}, "latents must name a layer. Got 'decode'."),
        ({"decoder": "decode"}, "latents must be given where the decoder is no torch module. Got a method."),
        (
            {"latents": lambda m, batch: [1]},
            "Latents must be a table, (batch, latent), of two rows or more. Got a list.",
        ),
    ],
)
def test_what_the_module_does_not_have_is_refused(pl: Any, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        trained(pl, lightning_module(pl), PenaltyCallback(PENALTY, **settings))
    assert str(error.value) == sentence


def test_manual_optimisation_and_a_decoder_that_is_not_called_are_refused(pl: Any) -> None:
    module = lightning_module(pl)
    module.automatic_optimization = False
    with pytest.raises(InputError, match="must come with automatic optimisation"):
        trained(pl, module, PenaltyCallback(PENALTY))
    module = lightning_module(pl)
    module.spare = nn.Linear(2, 4)
    with pytest.raises(InputError, match="must call the layer that latents come from"):
        trained(pl, module, PenaltyCallback(PENALTY, "spare"))


def test_a_decoder_of_two_arguments_is_refused_unless_latents_are_named(pl: Any) -> None:
    class Conditional(nn.Linear):
        def forward(self, z: Tensor, condition: Any = None) -> Tensor:
            return super().forward(z)

    module = lightning_module(pl, decoder=Conditional(2, 4))
    module.gives = lambda loss: loss + 0 * module.decoder(torch.ones(1, 2), None).sum()
    with pytest.raises(InputError, match="must be called with latents alone"):
        trained(pl, module, PenaltyCallback(PENALTY))
    trained(pl, module, PenaltyCallback(PENALTY, latents="encoder"))


def test_a_callback_is_copied_and_pickled_with_its_settings(pl: Any) -> None:
    callback = PenaltyCallback(PENALTY, "model.decoder", "encoder", steps=7, name=None)
    for twin in (copy.deepcopy(callback), pickle.loads(pickle.dumps(callback))):
        assert isinstance(twin, pl.Callback)
        kept = (twin.penalty, twin.decoder, twin.latents, twin.steps, twin.name)
        assert kept == (PENALTY, "model.decoder", "encoder", 7, None)


# ---- without Lightning -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("l1",), "penalty must be a Penalty such as 0.05 * DependencySparsity(). Got 'l1'."),
        ((PENALTY, nn.Identity()), "decoder must be the name of the module's decoder. Got Identity()."),
        (
            (PENALTY, "decoder", 3),
            "latents must be None, the name of a layer or a function (module, batch) ↦ z. Got 3.",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(
    arguments: tuple[Any, ...], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_callbacks", lambda: ())
    with pytest.raises(InputError) as error:
        PenaltyCallback(*arguments)
    assert str(error.value) == sentence


def test_without_lightning_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "PACKAGES", ("no_such_lightning.pytorch",))
    with pytest.raises(InputError, match="pip install lightning"):
        PenaltyCallback(PENALTY)


def test_neither_package_is_imported_with_the_room() -> None:
    program = "import sys, noumena.integrations; print([n for n in sys.modules if 'lightning' in n.split('.')[0]])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "[]", done.stderr


def test_both_packages_at_once_make_one_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = type("Callback", (), {}), type("Callback", (), {})
    for name, base in (("one_lightning", first), ("other_lightning", second)):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(Callback=base))  # pyright: ignore[reportArgumentType]
    monkeypatch.setattr(room, "PACKAGES", ("one_lightning", "other_lightning"))
    callback = PenaltyCallback(PENALTY)
    assert isinstance(callback, first)
    assert isinstance(callback, second)
    assert isinstance(callback, PenaltyCallback)


def test_latents_cannot_escape_a_penalty_by_growing() -> None:
    torch.manual_seed(0)
    decoder, z = nn.Linear(2, 5, bias=False), torch.randn(32, 2)
    value = penalised(DependencySparsity("l1"), decoder, z)
    with torch.no_grad():
        decoder.weight.div_(100)
    assert penalised(DependencySparsity("l1"), decoder, 100 * z).item() == pytest.approx(value.item(), rel=1e-4)
    assert penalised(LatentSparsity(), decoder, 100 * z).item() == pytest.approx(
        penalised(LatentSparsity(), decoder, z).item(), rel=1e-4
    )


def test_a_penalty_without_need_of_a_scale_is_called_as_it_is() -> None:
    torch.manual_seed(0)
    decoder, z = nn.Sequential(nn.Linear(2, 6), nn.Unflatten(1, (2, 3))), torch.randn(8, 2)
    assert not IMAContrast().needs_scale
    assert penalised(IMAContrast(), decoder, z).item() == pytest.approx(IMAContrast()(decoder[0], z).item())


def test_a_penalty_leaves_the_random_numbers_of_a_training_alone() -> None:
    decoder, z = nn.Linear(2, 6), torch.randn(8, 2)
    state = torch.get_rng_state()
    penalised(DependencySparsity("l1"), decoder, z)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("z", [torch.ones(1, 2), torch.ones(3), "z"])
def test_latents_that_are_no_table_are_refused(z: Any) -> None:
    with pytest.raises(InputError, match="Latents must be a table"):
        penalised(PENALTY, nn.Linear(2, 6), z)
