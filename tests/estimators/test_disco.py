"""DisCo: the contrast, the objective and its penalties are those of slow loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_disco import model, pictures
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from noumena.estimators.images.disco import DisCoObjective, split
from noumena.estimators.images.variations import chosen, contrast, entropy, shifts, variation
from noumena.penalties import DependencySparsity, HessianPenalty, LatentSparsity, OroJaR
from noumena.penalties.penalty import PenaltySum


def objective(**settings: Any) -> DisCoObjective:
    made: Any = model(**settings)._model(0, 16, torch.zeros(16), torch.ones(16)).double()
    made.decoder.fix(0)
    return made


def inputs(of: DisCoObjective, rows: int = 8) -> tuple[Tensor, dict[str, Tensor]]:
    draws = of.draws(rows, torch.Generator().manual_seed(1))
    return torch.as_tensor(pictures(rows)).double(), {k: v.double() for k, v in draws.items()}


def unit(*shape: int, seed: int) -> Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return normalize(drawn.abs(), dim=-1)


# ---- formulas --------------------------------------------------------------------------------------------------


def test_the_contrast_is_that_of_a_slow_loop_with_torchs_cross_entropy() -> None:
    queries, positives, negatives = unit(5, 3, seed=0), unit(5, 3, seed=1), unit(10, 3, seed=2)
    negatives[0] = queries[0]
    losses, flipped = [], 0
    for q in queries:
        for k in positives:
            losses.append(binary_cross_entropy_with_logits((q @ k) / 0.5, torch.tensor(1.0).double()))
        for k in negatives:
            cosine = q @ k
            label = cosine if cosine > 0.95 else torch.tensor(0.0).double()
            flipped += int(cosine > 0.95)
            losses.append(binary_cross_entropy_with_logits(cosine / 0.5, label))
    torch.testing.assert_close(contrast(queries, positives, negatives, temperature=0.5), torch.stack(losses).mean())
    assert 1 <= flipped < 45


def test_labels_of_flipped_negatives_are_constants() -> None:
    queries = torch.tensor([[1.0, 0.0]], requires_grad=True)
    negative = torch.tensor([[0.96, 0.28]])
    contrast(queries, queries[:0].detach(), negative).backward()
    by_hand = (torch.sigmoid(torch.tensor(0.96)) - 0.96) * negative
    torch.testing.assert_close(queries.grad, by_hand)


def test_a_variation_ignores_where_the_representation_begins_and_its_scale() -> None:
    still, moved = unit(4, 3, seed=0), unit(4, 3, seed=1)
    torch.testing.assert_close(variation(still, moved), variation(7 * moved + 2, 7 * still + 2))
    torch.testing.assert_close(variation(still, moved).norm(dim=1), torch.ones(4).double())


def test_a_change_of_one_latent_has_less_entropy_than_one_of_all() -> None:
    one, both = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5**0.5, 0.5**0.5]])
    assert float(entropy(one)) < float(entropy(both))
    p = np.exp([1.0, 0.0]) / np.exp([1.0, 0.0]).sum()
    assert float(entropy(one)) == pytest.approx(-(p * np.log(p)).sum(), rel=1e-5)


def test_shifts_keep_their_sign_and_are_never_small() -> None:
    normal = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    found = shifts(normal, 6.0, 0.5)
    assert torch.equal(found.sign(), normal.sign())
    assert float(found.abs().min()) == 0.5
    far = (6 * normal).abs() > 0.5
    torch.testing.assert_close(found[far], 6 * normal[far])


def test_negatives_take_every_direction_but_that_of_their_group() -> None:
    uniform = torch.rand(200, 16, 4, generator=torch.Generator().manual_seed(0))
    found = chosen(uniform, 5)
    assert bool((found.sum(dim=-1) == 1).all())
    which = found.argmax(dim=-1)
    targets = which[:, :1, :1]
    assert torch.equal(which[..., :2], targets.expand(-1, 16, 2))
    assert not bool((which[..., 2:] == targets).any())
    for target in range(5):
        others = which[targets[:, 0, 0] == target][..., 2:].flatten().bincount(minlength=5)
        assert float(others.float().std()) > 0
        assert bool((others[[k for k in range(5) if k != target]] > 0.15 * others.sum()).all())
    assert torch.equal(torch.unique(targets), torch.arange(5))


# ---- the objective ---------------------------------------------------------------------------------------------


def slow(of: DisCoObjective, draws: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Contrast and entropy of two groups of four rows, pair by pair; negatives are constants."""
    A, G = of.decoder.navigator.weight, of.decoder.generator
    contrasts, entropies = [], []
    for start in (0, 4):
        noise, shift, choice = (draws[k][start : start + 4] for k in ("noise", "shift", "choice"))
        target = int(choice[0, 0] * 3)
        changes: dict[int, list[Tensor]] = {role: [] for role in range(4)}
        for row in range(4):
            for role in range(4):
                d = target if role < 2 else (target + 1 + int(choice[row, role] * 2)) % 3
                w = G.mapping(noise[row, role][None])
                far = shifts(shift[row, role], 6.0, 0.5) * of.decoder.spread
                moved = of.encoder(G.synthesis(w + far * A[:, d])) - of.encoder(G.synthesis(w))
                changes[role].append(moved[0].abs() / moved.norm())
        q, k, one, two = (torch.stack(changes[role]) for role in range(4))
        contrasts.append(contrast(q, k, torch.cat([one, two]).detach()))
        entropies.append(entropy(q))
    return torch.stack(contrasts).mean(), torch.stack(entropies).mean()


def test_the_loss_and_its_gradient_are_those_of_a_slow_loop_over_groups_and_pairs() -> None:
    of = objective()
    x, draws = inputs(of)
    loss, terms = of(x, draws, 1.0)
    told_apart, spread_out = slow(of, draws)
    torch.testing.assert_close(terms["contrast"], told_apart)
    torch.testing.assert_close(terms["entropy"], spread_out)
    torch.testing.assert_close(loss, told_apart + spread_out)
    trained = [of.decoder.navigator.directions, *list(of.encoder.parameters())[:-1]]
    wanted = torch.autograd.grad(told_apart + spread_out, trained)
    for found, by_hand in zip(torch.autograd.grad(loss, trained), wanted, strict=True):
        torch.testing.assert_close(found, by_hand)
        assert bool((by_hand != 0).any())


def test_weights_of_entropy_and_temperature_count() -> None:
    x, draws = inputs(objective())
    loss, terms = objective(entropy=0.25)(x, draws, 1.0)
    torch.testing.assert_close(loss, terms["contrast"] + 0.25 * terms["entropy"])
    colder = objective(temperature=0.1)(x, draws, 1.0)[1]
    torch.testing.assert_close(colder["entropy"], terms["entropy"])
    assert not torch.allclose(colder["contrast"], terms["contrast"])


def test_directions_and_encoder_are_trained_and_the_generator_is_not() -> None:
    of = objective()
    loss, _ = of(*inputs(of), 1.0)
    loss.backward()
    reached = {n for n, p in of.named_parameters() if p.grad is not None and bool((p.grad != 0).any())}
    others = {n for n, _ in of.named_parameters() if "generator" not in n}
    assert reached == others - {"encoder.6.bias"}  # where the representation begins does not count
    assert others < {n for n, _ in of.named_parameters()}


def test_two_models_as_one_program_have_the_losses_of_each() -> None:
    models = [objective(penalty=0.1 * LatentSparsity() + 0.1 * OroJaR()) for _ in range(2)]
    with torch.no_grad():
        models[1].encoder[1].weight.mul_(2)  # type: ignore[index, union-attr, operator]
        models[1].decoder.navigator.directions.add_(0.3)
    x, draws = inputs(models[0])
    parameters, buffers = stack_module_state(models)  # type: ignore[arg-type]
    loss, _ = vmap(lambda p, b: functional_call(models[0], (p, b), (x, draws, 1.0)))(parameters, buffers)
    for k, one in enumerate(models):
        torch.testing.assert_close(loss[k], one(x, draws, 1.0)[0])
    assert not torch.allclose(loss[0], loss[1])


def test_a_batch_shorter_than_a_group_is_a_group_and_rows_beyond_the_last_group_are_left_out() -> None:
    of = objective()
    x, draws = inputs(of, 11)
    cut = {k: v[:8] for k, v in draws.items()}
    torch.testing.assert_close(of(x, draws, 1.0)[0], of(x[:8], cut, 1.0)[0])
    assert torch.isfinite(of(x[:1], {k: v[:1] for k, v in draws.items()}, 1.0)[0])


def test_coordinates_are_those_along_the_directions_and_images_are_made_of_them() -> None:
    of = objective()
    a = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    w = of.decoder.centre + of.decoder.shift(a)
    torch.testing.assert_close(of.decoder.coordinates(w), a, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(of.decode(a), of.decoder.generator.synthesis(w))
    styles = of.decoder.generator.mapping(torch.randn(20_000, 4, dtype=torch.float64))
    torch.testing.assert_close(of.decoder.centre, styles.mean(dim=0).detach(), atol=0.1, rtol=0)
    spread = styles.var(dim=0).mean().sqrt().detach()
    assert float(of.decoder.spread) == pytest.approx(float(spread), rel=0.05)


# ---- penalties -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "term", [DependencySparsity(points=2), OroJaR(), HessianPenalty()], ids=lambda t: type(t).__name__
)
def test_a_penalty_on_the_decoder_acts_along_the_directions(term: Any) -> None:
    of = objective(penalty=0.5 * term)
    x, draws = inputs(of)
    loss, terms = of(x, draws, 1.0)
    A, G = of.decoder.navigator.weight, of.decoder.generator

    def image(a: Tensor) -> Tensor:
        return G.synthesis(of.decoder.centre + of.decoder.spread * a @ A.T)

    a = (G.mapping(draws["noise"][:, 0]) - of.decoder.centre) @ A / of.decoder.spread
    own = {k.removeprefix("0."): v for k, v in draws.items() if k.startswith("0.")}
    torch.testing.assert_close(terms["penalty"], 0.5 * term(image, a, 1.0, own))
    torch.testing.assert_close(loss, terms["contrast"] + terms["entropy"] + terms["penalty"])
    terms["penalty"].backward()
    assert bool((of.decoder.navigator.directions.grad != 0).any())
    assert all(p.grad is None for p in of.encoder.parameters())


def test_latent_sparsity_acts_on_the_representation_of_the_images_whatever_its_scale() -> None:
    of = objective(penalty=2.0 * LatentSparsity())
    x, draws = inputs(of)
    found = of(x, draws, 1.0)[1]["penalty"]
    h = of.encoder(x)
    h = h - h.mean(dim=0)
    torch.testing.assert_close(found, 2 * h.abs().mean() / h.square().mean().sqrt(), atol=1e-6, rtol=1e-5)
    with torch.no_grad():
        for part in (of.encoder[-1].weight, of.encoder[-1].bias):  # type: ignore[index, union-attr]
            part.mul_(10.0)  # type: ignore[operator]
    torch.testing.assert_close(of(x, draws, 1.0)[1]["penalty"], found, atol=1e-5, rtol=1e-4)


def test_a_sum_of_penalties_is_split_by_where_its_terms_act() -> None:
    latent, decoder = split(0.1 * LatentSparsity() + 0.2 * OroJaR() + HessianPenalty())
    assert latent == PenaltySum(((0.1, LatentSparsity()),))
    assert decoder == PenaltySum(((0.2, OroJaR()), (1.0, HessianPenalty())))
    assert split(OroJaR()) == (PenaltySum(()), PenaltySum(((1.0, OroJaR()),)))
    x, draws = inputs(objective(penalty=0.1 * LatentSparsity() + 0.2 * OroJaR()))
    both, one, two = (
        objective(penalty=p)(x, draws, 1.0)[1]["penalty"]
        for p in (0.1 * LatentSparsity() + 0.2 * OroJaR(), 0.1 * LatentSparsity(), 0.2 * OroJaR())
    )
    torch.testing.assert_close(both, one + two)
