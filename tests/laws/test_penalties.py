"""Penalties are scalars with an algebra, agree with slow references, and their gradients arrive."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from decoders_and_draws import D_Z, agrees_in_the_mean, drawn, each_draw, leaky_decoder, points, smooth_decoder, value
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import ids, refusal
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from noumena.penalties import (
    CompositionalContrast,
    DependencySparsity,
    GroupSparsity,
    HessianPenalty,
    IMAContrast,
    Interaction,
    LatentSparsity,
    OroJaR,
    Penalty,
    PenaltySum,
)
from noumena.penalties.sparsity import dependency_l1, dependency_log

SPARSITY = [
    DependencySparsity(),
    DependencySparsity("l1"),
    DependencySparsity("clipped", scale=2.0),
    DependencySparsity("l0"),
    DependencySparsity(points=2),
    DependencySparsity(columns=2),
    DependencySparsity(rows=2, points=3),
    GroupSparsity(2),
    GroupSparsity((1, 3), "l1"),
    GroupSparsity(2, "clipped", scale=2.0),
    GroupSparsity(2, "l0", rows=3),
]
FIRST_ORDER = [
    *SPARSITY,
    OroJaR(),
    OroJaR(3, None, "mean"),
    OroJaR(None),
    OroJaR(None, None),
    IMAContrast(),
    CompositionalContrast(2),
    CompositionalContrast((1, 3), rows=2),
    0.3 * DependencySparsity("l1") + LatentSparsity(),
    0.1 * OroJaR() + CompositionalContrast(4, rows=2),
]
BY_DIFFERENCES = [HessianPenalty(), HessianPenalty(None, 0.2, "mean"), Interaction(2, step=0.1, pairs=3)]
BY_SECOND_DERIVATIVES = [
    HessianPenalty(3, None),
    HessianPenalty(None, None, "mean"),
    Interaction(2),
    Interaction((1, 3), 3),
    Interaction(2, pairs=2, points=3),
    0.5 * Interaction(4) + DependencySparsity(columns=1),
]
"""Their gradients vanish for piece-wise linear decoders, as the second derivatives do."""
OF_THE_DECODER = FIRST_ORDER + BY_DIFFERENCES + BY_SECOND_DERIVATIVES
EVERY = [LatentSparsity(), *OF_THE_DECODER]


# ---- laws over every penalty ---------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", EVERY, ids=repr)
def test_a_penalty_is_a_non_negative_scalar_of_the_points_kind(penalty: Penalty) -> None:
    found = penalty(smooth_decoder(), points())
    assert found.shape == ()
    assert found.dtype == torch.float64
    assert float(found.detach()) > 0
    assert penalty(smooth_decoder().float(), points().float()).dtype == torch.float32


@pytest.mark.parametrize("penalty", EVERY, ids=repr)
def test_every_penalty_but_the_ima_contrast_needs_a_scale(penalty: Penalty) -> None:
    assert penalty.needs_scale == (not isinstance(penalty, IMAContrast))


@pytest.mark.parametrize("penalty", OF_THE_DECODER, ids=repr)
def test_a_penalty_that_needs_a_scale_fades_when_latents_grow(penalty: Penalty) -> None:
    f, z = smooth_decoder(), points()
    parts = penalty.terms if isinstance(penalty, PenaltySum) else ((1.0, penalty),)
    for _, part in parts:
        if not isinstance(part, LatentSparsity):
            step = 100 * part.step if getattr(part, "step", None) else None
            stretched = replace(part, step=step) if step else part
            faded = value(stretched, lambda y: f(y / 100), 100 * z)
            before = value(part, f, z)
            assert (faded < 0.3 * before) if part.needs_scale else (faded == pytest.approx(before))


@pytest.mark.parametrize("penalty", OF_THE_DECODER, ids=repr)
def test_many_models_at_once_are_one_at_a_time(penalty: Penalty) -> None:
    """As in training: three decoders stacked, each with its own points and draws."""
    fs = [smooth_decoder(seed) for seed in range(3)]
    z = torch.stack([points(seed=seed) for seed in range(3)])
    each = [drawn(penalty, z[k], seed=k) for k in range(3)]
    draws = {name: torch.stack([d[name] for d in each]) for name in each[0]}
    parameters, _ = stack_module_state(fs)

    def one(p: dict[str, Tensor], z: Tensor, d: dict[str, Tensor]) -> Tensor:
        return penalty(lambda y: functional_call(fs[0], p, (y,)), z, 1.0, d)

    together = vmap(one)(parameters, z, draws)
    apart = torch.stack([penalty(f, z[k], 1.0, each[k]) for k, f in enumerate(fs)])
    torch.testing.assert_close(together, apart, rtol=1e-9, atol=1e-12)
    apart.sum().backward()
    for name, stacked in parameters.items():
        (found,) = torch.autograd.grad(together.sum(), stacked, retain_graph=True, allow_unused=True)
        own = [f.get_parameter(name).grad for f in fs]
        if name != "2.bias":
            assert found is not None
            torch.testing.assert_close(found, torch.stack(own), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("penalty", OF_THE_DECODER, ids=repr)
def test_the_order_of_latents_within_a_slot_changes_nothing(penalty: Penalty) -> None:
    """Latents 2 and 3 share a slot wherever there are slots of several; samples and probes move along."""
    order = [0, 1, 3, 2]
    f, z, draws = smooth_decoder(), points(), drawn(penalty, points())
    moved = {k: v[..., order] if v.shape[-1] == D_Z else v for k, v in draws.items()}
    if not any("tuples" in name for name in draws):
        found = penalty(lambda y: f(y[:, order]), z[:, order], 1.0, moved)
        torch.testing.assert_close(found, penalty(f, z, 1.0, draws))


@pytest.mark.parametrize("penalty", EVERY, ids=repr)
def test_draws_have_a_row_per_point_and_follow_their_generator(penalty: Penalty) -> None:
    first, again, other = (drawn(penalty, points(9), seed) for seed in (0, 0, 1))
    for name, numbers in first.items():
        assert len(numbers) == 9
        assert numbers.is_floating_point()
        assert torch.equal(numbers, again[name])
        assert not torch.equal(numbers, other[name])
    assert eval(repr(penalty)) == penalty


@pytest.mark.parametrize(
    ("penalty", "make"),
    [(p, smooth_decoder) for p in OF_THE_DECODER] + [(p, leaky_decoder) for p in FIRST_ORDER + BY_DIFFERENCES],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_gradients_reach_every_weight_of_the_decoder(penalty: Penalty, make: type) -> None:
    f = make()
    penalty(f, points(20), 1.0, drawn(penalty, points(20))).backward()
    weights = [p.grad for name, p in f.named_parameters() if name.endswith("weight")]
    assert weights
    assert all(grad is not None and grad.isfinite().all() and float(grad.abs().amax()) > 0 for grad in weights)


@pytest.mark.parametrize("penalty", OF_THE_DECODER, ids=repr)
def test_gradients_reach_every_hidden_bias_and_never_the_last(penalty: Penalty) -> None:
    """A shift of the observations changes no dependency."""
    f = smooth_decoder()
    penalty(f, points(20), 1.0, drawn(penalty, points(20))).backward()
    assert f[0].bias.grad is not None
    assert float(f[0].bias.grad.abs().amin()) > 0
    assert f[2].bias.grad is None or float(f[2].bias.grad.abs().amax()) < 1e-10 * float(f[0].bias.grad.abs().amax())


@pytest.mark.parametrize("penalty", EVERY, ids=repr)
def test_gradients_reach_the_latents(penalty: Penalty) -> None:
    z = points().requires_grad_()
    penalty(smooth_decoder(), z).backward()
    assert z.grad is not None
    assert float(z.grad.abs().amax()) > 0


@pytest.mark.parametrize("penalty", OF_THE_DECODER, ids=repr)
def test_gradients_are_the_limit_of_differences(penalty: Penalty) -> None:
    f, z = smooth_decoder(), points()
    penalty(f, z, 1.0, drawn(penalty, z)).backward()
    weight = f[0].weight
    assert weight.grad is not None
    for i, j in ((0, 0), (2, 1), (5, 2)):
        ends = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                weight[i, j] += step
                ends.append(value(penalty, f, z))
                weight[i, j] -= step
        assert float(weight.grad[i, j]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)


@pytest.mark.parametrize("penalty", [OroJaR(), OroJaR(None), *BY_DIFFERENCES, IMAContrast()], ids=repr)
def test_differences_and_cosines_keep_their_digits_under_autocast(penalty: Penalty) -> None:
    f, z, draws = smooth_decoder().float(), points().float(), drawn(penalty, points())
    expected = penalty(f, z, 1.0, draws)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = penalty(f, z, 1.0, draws)
    torch.testing.assert_close(found.float(), expected, rtol=0.02, atol=0)


# ---- algebra -------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.floats(0, 10), st.floats(0, 10), st.floats(0, 1))
def test_sums_and_multiples_are_those_of_the_values(a: float, b: float, progress: float) -> None:
    f, z = smooth_decoder(), points()
    A, B, C = DependencySparsity("l1"), LatentSparsity(), DependencySparsity()
    v, w, u = (value(p, f, z, progress) for p in (A, B, C))
    near = pytest.approx
    assert value(a * A, f, z, progress) == near(a * v)
    assert value(A * a, f, z, progress) == near(a * v)
    assert value(A + B, f, z, progress) == near(v + w)
    assert value(a * A + b * B, f, z, progress) == near(a * v + b * w)
    assert value(a * (A + b * B), f, z, progress) == near(a * v + a * b * w)
    assert value((A + B) * a, f, z, progress) == near(a * v + a * w)
    assert value(C + (a * A + B), f, z, progress) == near(u + a * v + w)
    assert value((A + B) + C, f, z, progress) == value(A + (B + C), f, z, progress)


def test_a_sum_keeps_its_terms_flat_and_reads_as_written() -> None:
    A, B = DependencySparsity("l1"), LatentSparsity()
    total = 2.0 * (0.5 * A + B) + A
    assert isinstance(total, PenaltySum)
    assert total.terms == ((1.0, A), (2.0, B), (1.0, A))
    assert repr(0.5 * B + B) == "0.5 * LatentSparsity() + 1 * LatentSparsity()"


def test_a_sum_needs_a_scale_when_one_of_its_terms_does() -> None:
    class Free(Penalty):
        def __call__(
            self, decoder: object, z: Tensor, progress: float = 1.0, draws: dict[str, Tensor] | None = None
        ) -> Tensor:
            return z.sum()

    assert not Free().needs_scale
    assert not (Free() + Free()).needs_scale
    assert (Free() + LatentSparsity()).needs_scale


def test_a_sum_hands_every_term_its_own_draws() -> None:
    f, z = smooth_decoder(), points()
    A, B = OroJaR(), DependencySparsity(columns=1)
    total = 0.1 * A + B + 2 * A
    draws = drawn(total, z)
    assert sorted(draws) == ["0.probes", "1.columns", "2.probes"]
    assert not torch.equal(draws["0.probes"], draws["2.probes"])
    terms = (
        0.1 * A(f, z, 1.0, {"probes": draws["0.probes"]}),
        B(f, z, 1.0, {"columns": draws["1.columns"]}),
        2 * A(f, z, 1.0, {"probes": draws["2.probes"]}),
    )
    torch.testing.assert_close(total(f, z, 1.0, draws), sum(terms))


# ---- dependency sparsity -------------------------------------------------------------------------------------


def test_an_entry_of_size_one_counts_one_and_zero_counts_nothing() -> None:
    J = torch.zeros(2, 3, 4)
    J[:, 0, 0], J[:, 1, 2] = 1.0, -1.0
    assert float(dependency_l1(J)) == pytest.approx(2)
    for scale in (1e-6, 0.03, 1.0):
        assert float(dependency_log(J, scale)) == pytest.approx(2)
    assert float(dependency_l1(0 * J)) == float(dependency_log(0 * J, 0.1)) == 0


def test_log_bends_towards_the_number_of_entries() -> None:
    J = torch.tensor([[[10.0, 0.1, 0.0]]], dtype=torch.float64)
    counts = [float(dependency_log(J, scale)) for scale in (1.0, 1e-3, 1e-12, 1e-100)]
    distances = [abs(count - 2) for count in counts]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.01


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000))
def test_both_surrogates_ignore_order_and_signs_of_latents_and_observations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    J = torch.as_tensor(rng.normal(size=(2, 4, 3)))
    moved = J[:, rng.permutation(4)][:, :, rng.permutation(3)] * torch.as_tensor(rng.choice([-1.0, 1.0], 3))
    assert float(dependency_l1(moved)) == pytest.approx(float(dependency_l1(J)))
    assert float(dependency_log(moved, 0.1)) == pytest.approx(float(dependency_log(J, 0.1)))


def test_mixing_latents_of_a_sparse_decoder_costs() -> None:
    A = torch.zeros(6, 2, dtype=torch.float64)
    A[:3, 0], A[3:, 1] = 1, 1
    turn = torch.tensor([[0.8, -0.6], [0.6, 0.8]], dtype=torch.float64)
    z = torch.randn(5, 2, dtype=torch.float64)
    for penalty in (DependencySparsity(), DependencySparsity("l1")):
        assert float(penalty(lambda z: z @ A.T, z)) < float(penalty(lambda z: z @ turn @ A.T, z)) - 0.5


def test_without_a_ramp_the_penalty_is_full_from_the_start() -> None:
    f, z = smooth_decoder(), points()
    penalty = DependencySparsity(ramp=0.0)
    assert value(penalty, f, z, 0.0) == value(penalty, f, z, 1.0) > 0


def test_outside_a_fit_the_penalty_is_at_full_strength() -> None:
    f, z = smooth_decoder(), points()
    assert float(DependencySparsity()(f, z).detach()) == value(DependencySparsity(), f, z, 1.0)


# ---- latent sparsity -----------------------------------------------------------------------------------------


def test_latent_sparsity_is_the_mean_absolute_latent_and_ignores_the_decoder() -> None:
    z = points()
    expected = np.abs(z.numpy()).mean()
    assert float(LatentSparsity()(None, z)) == pytest.approx(expected)
    assert value(LatentSparsity(), smooth_decoder(), z, 0.0) == pytest.approx(expected)
    assert float(LatentSparsity()(None, 0 * z)) == 0


# ---- samples and points --------------------------------------------------------------------------------------

SAMPLED: list[tuple[Penalty, Penalty]] = [
    (DependencySparsity(columns=1), DependencySparsity()),
    (DependencySparsity("l1", columns=2), DependencySparsity("l1")),
    (DependencySparsity("clipped", columns=3, scale=1.0), DependencySparsity("clipped", scale=1.0)),
    (DependencySparsity("l0", rows=1), DependencySparsity("l0")),
    (DependencySparsity(rows=3), DependencySparsity()),
    (GroupSparsity(2, "l1", rows=2), GroupSparsity(2, "l1")),
    (GroupSparsity((1, 3), rows=1), GroupSparsity((1, 3))),
    (CompositionalContrast((2, 2), rows=2), CompositionalContrast(2)),
    (CompositionalContrast((1, 3), rows=2), CompositionalContrast((1, 3))),
    (HessianPenalty(2, None, "mean"), HessianPenalty(None, None, "mean")),
    (OroJaR(2, None, "mean"), OroJaR(None, None, "mean")),
    (OroJaR(3, None, "mean"), OroJaR(None, None, "mean")),
    (Interaction(2, pairs=1), Interaction(2)),
    (Interaction((1, 3), 3, pairs=2), Interaction((1, 3), 3)),
]


@pytest.mark.parametrize(("sampled", "whole"), SAMPLED, ids=repr)
def test_samples_agree_with_the_whole_over_ten_thousand_draws(sampled: Penalty, whole: Penalty) -> None:
    f, z = smooth_decoder(), points(1)
    assert agrees_in_the_mean(each_draw(sampled, f, z), value(whole, f, z))


@pytest.mark.parametrize("penalty", [p for p in EVERY if hasattr(p, "points")], ids=repr)
def test_points_cap_the_rows_of_the_batch_and_of_the_draws(penalty: Penalty) -> None:
    f, z, capped = smooth_decoder(), points(9), replace(penalty, points=3)
    draws = drawn(capped, z)
    assert all(len(v) == 9 for v in draws.values())
    short = {k: v[:3] for k, v in draws.items()}
    found = float(capped(f, z, 1.0, draws).detach())
    assert found == pytest.approx(float(replace(penalty, points=None)(f, z[:3], 1.0, short).detach()), rel=1e-12)
    assert value(replace(penalty, points=30), f, z) == pytest.approx(value(replace(penalty, points=None), f, z))


def test_without_draws_a_call_makes_its_own() -> None:
    f, z = smooth_decoder(), points(9)
    for sampled in (whole_and_part[0] for whole_and_part in SAMPLED):
        torch.manual_seed(0)
        first, second = float(sampled(f, z).detach()), float(sampled(f, z).detach())
        torch.manual_seed(0)
        assert float(sampled(f, z).detach()) == first != second


# ---- refusals ------------------------------------------------------------------------------------------------

WHOLE = "must be a whole number of at least 1. Got 0."
SURROGATE = "surrogate must be one of log, l1, clipped, l0. Got 'l2'."
REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: DependencySparsity("l2"), SURROGATE),
    (lambda: DependencySparsity(scale=0.0), "scale must be a finite number in [1e-12, inf]. Got 0.0."),
    (lambda: DependencySparsity(start=0.01), "start must be a finite number in [0.03, inf]. Got 0.01."),
    (lambda: DependencySparsity(ramp=1.5), "ramp must be a finite number in [0, 1]. Got 1.5."),
    (lambda: DependencySparsity(points=0), f"points {WHOLE}"),
    (lambda: DependencySparsity(columns=0), f"columns {WHOLE}"),
    (lambda: DependencySparsity(rows=0), f"rows {WHOLE}"),
    (lambda: DependencySparsity(columns=2, rows=3),
     "Either columns or rows of the Jacobian may be sampled, not both. Got columns=2 and rows=3."),
    (lambda: GroupSparsity(0), f"slots {WHOLE}"),
    (lambda: GroupSparsity((2, 0)), f"The size of a slot {WHOLE}"),
    (lambda: GroupSparsity(2, "l2"), SURROGATE),
    (lambda: GroupSparsity(2, points=0), f"points {WHOLE}"),
    (lambda: GroupSparsity(3)(smooth_decoder(), points()), "4 latents must fall into equal slots. Got 3 slots."),
    (lambda: CompositionalContrast(1), "There must be at least 2 slots. Got 1."),
    (lambda: CompositionalContrast((4,)), "There must be at least 2 slots. Got (4,)."),
    (lambda: CompositionalContrast((4, 0)), f"The size of a slot {WHOLE}"),
    (lambda: CompositionalContrast(2, rows=0), f"rows {WHOLE}"),
    (lambda: CompositionalContrast(2, points=0), f"points {WHOLE}"),
    (lambda: CompositionalContrast((1, 2))(smooth_decoder(), points()),
     "The sizes of the slots must add up to 4 latents. Got (1, 2)."),
    (lambda: Interaction(1), "There must be at least 2 slots. Got 1."),
    (lambda: Interaction(2, order=4), "order must be 2 or 3. Got 4."),
    (lambda: Interaction(2, step=0.0), "step must be a finite number in [1e-12, inf]. Got 0.0."),
    (lambda: Interaction(2, pairs=0), f"pairs {WHOLE}"),
    (lambda: Interaction(2, points=0), f"points {WHOLE}"),
    (lambda: Interaction(3)(smooth_decoder(), points()), "4 latents must fall into equal slots. Got 3 slots."),
    (lambda: HessianPenalty(1), "probes must be a whole number of at least 2. Got 1."),
    (lambda: HessianPenalty(None)(lambda y: y**3, points(dim=1)), "Pairs of latents must exist, or probes be given."),
    (lambda: OroJaR(1), "probes must be a whole number of at least 2. Got 1."),
    (lambda: OroJaR(step=0.0), "step must be a finite number in [1e-12, inf]. Got 0.0."),
    (lambda: OroJaR(reduction="sum"), "reduction must be one of max, mean. Got 'sum'."),
    (lambda: IMAContrast(points=0), f"points {WHOLE}"),
    (lambda: IMAContrast()(lambda z: z[:, :3], points()),
     "The IMA contrast must have at least as many observations as latents. Got 3 observations of 4 latents."),
    *((lambda w=w, p=p: w * p, "A penalty's weight must be a finite number in [0, inf]")  # type: ignore[misc]
      for w in (-1.0, -1e-9) for p in (LatentSparsity(), LatentSparsity() + DependencySparsity())),
]  # fmt: skip


@pytest.mark.parametrize(("call", "sentence"), ids(REFUSED))
def test_settings_and_latents_that_do_not_fit_are_refused(call: Callable[[], object], sentence: str) -> None:
    assert sentence in refusal(call)
