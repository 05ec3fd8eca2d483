"""How the parameters of K models are moved: Adam on their losses, or a descent under a bound with multipliers.

Parameters of different models never meet, so the gradient of a sum of losses trains each model alone.

*Under a bound* nothing is weighted by hand: the penalty is minimised subject to ``fidelity ≤ bound``, where fidelity is
all of the loss but the penalty (for a VAE reconstruction and KL) and the bound lies a tolerance above what the same
models reach without the penalty. Each model has a Lagrange multiplier, moved by gradient ascent; the constrained
optimisation package ``cooper`` keeps them. Multipliers begin where the loss is the plain sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from noumena.checks import InputError

State = dict[str, Tensor]
Losses = tuple[Tensor, dict[str, Tensor]]
DUAL_RATE = 0.01
"""By which share of its first value a multiplier grows in a step at twice the bound."""


class Descent:
    """Adam on every model's loss, with decoupled weight decay."""

    def __init__(self, parameters: State, *, learning_rate: float, clip: float | None, weight_decay: float = 0.0):
        self.parameters, self.learning_rate = parameters, learning_rate
        self.optimizer = torch.optim.AdamW(parameters.values(), lr=learning_rate, weight_decay=weight_decay, fused=True)
        if clip is not None:
            self.optimizer.register_step_pre_hook(lambda *_: clip_each(parameters, clip))

    def move(self, losses: Callable[[], Losses], factor: float) -> Tensor:
        """One step at ``factor`` times the learning rate; returns every model's loss before it."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * factor
        return self._step(losses)

    def _step(self, losses: Callable[[], Losses]) -> Tensor:
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
                self.optimizer.state[parameter] = {
                    key: value if key == "step" else value.to(parameter.device) for key, value in moments.items()
                }


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

    def _step(self, losses: Callable[[], Losses]) -> Tensor:
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


def clip_each(parameters: State, largest: float) -> None:
    """Scale each model's gradient to a norm of at most ``largest``."""
    gradients = [p.grad for p in parameters.values() if p.grad is not None]
    squares = torch.stack([g.square().flatten(1).sum(dim=1) for g in gradients]).sum(dim=0)
    factor = (largest / squares.sqrt().clamp_min(1e-12)).clamp_max(1.0)
    for g in gradients:
        g.mul_(factor.reshape(-1, *[1] * (g.ndim - 1)))
