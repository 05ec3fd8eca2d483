"""A generative adversarial network, as one objective: a generator of images from noise against a discriminator.

The loss is the sum of both players' losses, each of which moves one of them: the generator's
``softplus(−D(G(z)))`` sees the discriminator fixed, the discriminator's ``softplus(D(G(z))) + softplus(−D(x)) +
r1/2·‖∇D(x)‖²`` (the term ``adversary``) sees images detached. Held-out losses of a game do not tell a better generator
from a worse one, so the last weights are kept, as their moving average where the training has one.

It is the first stage of ``DisCo`` and no estimator of its own: a generator has no latents of given images, hence no
``transform``.

Reference: Karras et al. (2020), *Analyzing and improving the image quality of StyleGAN*; Mescheder et al. (2018),
*Which training methods for GANs do actually converge?* (R1). **Deviations**: both networks move in the same step, on
the same noise; the gradient penalty is taken at every step on a quarter of the rows, in place of all rows at every 16th
step; it is in units of pixels in [0, 1], where a slope is twice that between −1 and 1 (``r1 = 1`` is their ``γ = 4``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from noumena import checks, seeds
from noumena.estimators.descent import Pace, frozen
from noumena.estimators.loop import Objective

BETAS = (0.0, 0.99)
"""Adam's memories, of both players."""
SLOW = 0.01
"""The pace of the network that makes styles of noise."""
SHARE = 4
"""The gradient penalty is taken at one row in so many."""


def squared_slope(f: Callable[[Tensor], Tensor], x: Float[Tensor, "batch observed"]) -> Float[Tensor, ""]:
    """``‖∂ Σ f / ∂x‖²`` of every row, in the mean over rows (R1); zero iff ``f`` is flat at all of them, unchanged when
    a constant is added to ``f``.

    >>> squared_slope(lambda x: x[:, :1] * x[:, 1:], torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor(13.)
    """
    slope = torch.func.grad(lambda y: f(y).sum())(x)
    return slope.square().sum(dim=-1).mean()


def wins(logits: Tensor) -> Float[Tensor, ""]:
    """The mean of ``−log σ(logit)``: what a player pays for images whose logits it wants high.

    >>> wins(torch.zeros(2, 1))
    tensor(0.6931)
    """
    return softplus(-logits.to(torch.promote_types(logits.dtype, torch.float32))).mean()


class StyleGAN(Objective):
    """Generator and discriminator with both their losses; ``generator`` has the parts ``mapping`` and ``synthesis``."""

    judged = False
    batched = False
    paces = {  # noqa: RUF012
        "generator.mapping": Pace(rate=SLOW, betas=BETAS),
        "generator": Pace(betas=BETAS),
        "discriminator": Pace(betas=BETAS),
    }

    def __init__(self, generator: nn.Module, discriminator: nn.Module, *, noise: int, r1: float):
        super().__init__()
        self.generator, self.discriminator = generator, discriminator
        self.noise, self.r1 = noise, r1

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Standard normal noise, of which images are made."""
        return {"noise": torch.randn(rows, self.noise, generator=generator)}

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The sum of both losses, and the terms, on a batch of images in the units that the networks see."""
        made = self.generator(draws["noise"])
        looked_at = x[: -(-len(x) // SHARE)]
        slope = squared_slope(self.discriminator, looked_at)
        terms = {
            "generator": wins(frozen(self.discriminator, made)),
            "slope": slope,
            "adversary": wins(-self.discriminator(made.detach())) + wins(self.discriminator(x)) + self.r1 / 2 * slope,
        }
        return terms["generator"] + terms["adversary"], terms

    def sample(self, n: int, *, random_state: Any = 0) -> Tensor:
        """Images of fresh noise, in the units that the networks see."""
        return sampled(self.generator, self.noise, n, seeds.seed_of(random_state))


def sampled(generator: nn.Module, noise: int, n: int, seed: int) -> Tensor:
    """Images that a generator makes of fresh noise, in the units that networks see."""
    z = torch.randn(checks.count(n, "n"), noise, generator=seeds.generator(seed, "samples"), dtype=torch.float32)
    with torch.no_grad():
        return generator(z.to(next(generator.parameters())))
