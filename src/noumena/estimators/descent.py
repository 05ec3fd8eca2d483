"""How the parameters of K models are moved: Adam on their losses, or a descent under a bound with multipliers.

Parameters of different models never meet, so the gradient of a sum of losses trains each model alone.

*Under a bound* nothing is weighted by hand: the penalty is minimised subject to ``fidelity ≤ bound``, where fidelity is
all of the loss but the penalty (for a VAE reconstruction and KL) and the bound lies a tolerance above what the same
models reach without the penalty. Each model has a Lagrange multiplier, moved by gradient ascent; the constrained
optimisation package ``cooper`` keeps them. Multipliers begin where the loss is the plain sum.

*Opponents* are trained by the same loss. What must not train a network calls it ``frozen``; what must not train its
input takes it detached; and the opponent's own loss is the term ``adversary``, which counts for gradients but not when
models are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from noumena.checks import InputError

State = dict[str, Tensor]
Losses = tuple[Tensor, dict[str, Tensor]]
DUAL_RATE = 0.01
"""By which share of its first value a multiplier grows in a step at twice the bound."""


@dataclass(frozen=True)
class Pace:
    """How fast some parameters move: a factor on the learning rate, and Adam's two memories."""

    rate: float = 1.0
    betas: tuple[float, float] = (0.9, 0.999)


def frozen(module: nn.Module, *inputs: Tensor) -> Any:
    """What a module says of its inputs, its own parameters fixed: gradients reach the inputs alone."""
    fixed = {name: value.detach() for name, value in module.named_parameters()}
    return functional_call(module, fixed, inputs)


class Descent:
    """Adam on every model's loss, with decoupled weight decay; parameters of some name may have a pace of their own."""

    def __init__(
        self,
        parameters: State,
        *,
        learning_rate: float,
        clip: float | None,
        weight_decay: float = 0.0,
        paces: Mapping[str, Pace] | None = None,
    ):
        self.parameters, self.learning_rate = parameters, learning_rate
        groups = _groups(parameters, paces or {})
        on_gpu = next(iter(parameters.values())).is_cuda  # there a rate is a tensor, so that a recorded step sees it
        for group in groups:
            group["lr"] = torch.tensor(learning_rate, device="cuda") if on_gpu else learning_rate
        self.optimizer = torch.optim.AdamW(groups, weight_decay=weight_decay, fused=True, capturable=on_gpu)
        if clip is not None:
            self.optimizer.register_step_pre_hook(lambda *_: clip_each(parameters, clip))

    def move(self, losses: Callable[[], Losses], factor: float) -> Tensor:
        """One step at ``factor`` times the learning rate; returns every model's loss before it."""
        self.set_rate(factor)
        return self.step(losses)

    def set_rate(self, factor: float) -> None:
        """The learning rate of the next step, as a share of its peak."""
        for group in self.optimizer.param_groups:
            rate = self.learning_rate * factor * group["pace"]
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def step(self, losses: Callable[[], Losses]) -> Tensor:
        """One step at the rate that is set."""
        self.optimizer.zero_grad(set_to_none=True)
        loss, _ = losses()
        loss.sum().backward()
        self.optimizer.step()
        return loss.detach()

    def judge(self, loss: Tensor, terms: dict[str, Tensor]) -> Tensor:
        """What models are compared by, per model; lower is better."""
        return loss

    def state(self) -> State:
        """Everything needed to go on later, as tensors by name."""
        adam = {n: self.optimizer.state[p] for n, p in self.parameters.items() if p in self.optimizer.state}
        return {f"adam.{n}.{key}": value for n, moments in adam.items() for key, value in moments.items()}

    def restore(self, kept: State) -> None:
        """Go on from a kept state."""
        for name, parameter in self.parameters.items():
            if f"adam.{name}.step" in kept:
                moments = {key: kept[f"adam.{name}.{key}"] for key in ("step", "exp_avg", "exp_avg_sq")}
                self.optimizer.state[parameter] = {k: v.to(parameter.device) for k, v in moments.items()}


class BoundedDescent(Descent):
    """The least penalty among models whose fidelity stays within a bound."""

    def __init__(self, parameters: State, *, bound: float, **how: Any):
        super().__init__(parameters, **how)
        cooper = cooper_package()
        self.bound = bound
        first = next(iter(parameters.values()))
        start = torch.full((len(first),), bound, device=first.device, dtype=first.dtype)
        self.multiplier = cooper.multipliers.DenseMultiplier(init=start)
        self.problem = _problem(cooper, self.multiplier)
        dual = torch.optim.SGD(self.multiplier.parameters(), lr=DUAL_RATE * bound, maximize=True)
        self.pair = cooper.optim.SimultaneousOptimizer(self.problem, self.optimizer, dual)

    def step(self, losses: Callable[[], Losses]) -> Tensor:
        """One step of parameters and multipliers at the rate that is set."""

        def state() -> tuple[Tensor, Tensor, Tensor]:
            loss, terms = losses()
            return loss.detach(), terms["penalty"], (loss - terms["penalty"]) / self.bound - 1

        return self.pair.roll({"measure": state}).cmp_state.misc["losses"]

    def judge(self, loss: Tensor, terms: dict[str, Tensor]) -> Tensor:
        """The penalty, raised in proportion to how far the bound is exceeded."""
        excess = ((loss - terms["penalty"]) / self.bound - 1).clamp_min(0)
        return terms["penalty"] * (1 + excess) + self.bound * excess

    def state(self) -> State:
        """Adam's moments and the multipliers."""
        return super().state() | {"multiplier": self.multiplier.weight.detach()}

    def restore(self, kept: State) -> None:
        """Go on from a kept state."""
        super().restore(kept)
        with torch.no_grad():
            self.multiplier.weight.copy_(kept["multiplier"])


def cooper_package() -> Any:
    """The package of constrained optimisation; one sentence names the extra where it is missing."""
    try:
        import cooper
    except ImportError as error:
        raise InputError(
            "Training under a bound must have the package cooper-optim. Got none; pip install 'noumena[constrained]'."
        ) from error
    return cooper


def _problem(cooper: Any, multiplier: Any) -> Any:
    """``min penalty  s.t.  fidelity / bound − 1 ≤ 0`` for every model, in cooper's words."""

    class LeastPenalty(cooper.ConstrainedMinimizationProblem):
        def __init__(self) -> None:
            super().__init__()
            self.constraint = cooper.Constraint(constraint_type=cooper.ConstraintType.INEQUALITY, multiplier=multiplier)

        def compute_cmp_state(self, measure: Callable[[], tuple[Tensor, Tensor, Tensor]]) -> Any:
            losses, penalty, violation = measure()
            seen = violation.detach().clamp(-1, 1)  # early in a fit a model is far off: multipliers wait
            constraint = cooper.ConstraintState(violation=violation, strict_violation=seen)
            return cooper.CMPState(penalty.sum(), {self.constraint: constraint}, misc={"losses": losses})

    return LeastPenalty()


def _groups(parameters: State, paces: Mapping[str, Pace]) -> list[dict[str, Any]]:
    """Parameters by pace: those whose name begins with a prefix of ``paces``, and all others."""
    members: dict[str, list[Tensor]] = {"": [], **{prefix: [] for prefix in paces}}
    for name, value in parameters.items():
        members[next((prefix for prefix in paces if name.startswith(prefix)), "")].append(value)
    of = {"": Pace(), **paces}
    return [
        {"params": values, "betas": of[prefix].betas, "pace": of[prefix].rate}
        for prefix, values in members.items()
        if values
    ]


def clip_each(parameters: State, largest: float) -> None:
    """Scale each model's gradient to a norm of at most ``largest``."""
    gradients = [p.grad for p in parameters.values() if p.grad is not None]
    squares = torch.stack([g.square().flatten(1).sum(dim=1) for g in gradients]).sum(dim=0)
    factor = (largest / squares.sqrt().clamp_min(1e-12)).clamp_max(1.0)
    for g in gradients:
        g.mul_(factor.reshape(-1, *[1] * (g.ndim - 1)))
