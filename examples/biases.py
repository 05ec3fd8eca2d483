"""Biases on your own image decoder: how its Jacobian is taken, every penalty exact, and one by sampling."""

import torch
from torch import nn

import noumena as nm

torch.manual_seed(0)
torch.set_num_threads(1)
decoder = nn.Sequential(
    nn.Linear(6, 256), nn.ELU(), nn.Unflatten(1, (16, 4, 4)),
    nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ELU(), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Flatten(),
)  # fmt: skip
z = torch.randn(32, 6)

found = nm.differentiate(decoder, z)
print(f"Jacobian {tuple(found.J.shape)}, {found.way}; the observations come with it: {tuple(found.x.shape)}")

for penalty in (
    nm.DependencySparsity("l1"),
    nm.GroupSparsity(slots=3),
    nm.CompositionalContrast(slots=3),
    nm.IMAContrast(),
    nm.OroJaR(reduction="mean"),
    nm.HessianPenalty(reduction="mean"),
):
    print(f"{penalty(decoder, z).item():12.4g}  {type(penalty).__name__}")

exact, sampled = nm.DependencySparsity("l1"), nm.DependencySparsity("l1", columns=2)
draws = torch.stack([sampled(decoder, z) for _ in range(20)])
print(f"two of six columns a row: {draws.mean():.4g} ± {draws.std():.2g} in place of {exact(decoder, z):.4g}")

loss = found.x.square().mean() + 1e-3 * exact(decoder, z)
loss.backward()
print("gradients reach", sum(p.grad is not None for p in decoder.parameters()), "tensors")
