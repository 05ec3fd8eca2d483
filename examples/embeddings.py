"""Your own embeddings: read a layer of two networks, ask whether they agree, up to what, and whether ICA has axes."""

import numpy as np
import torch

import noumena as nm

rng = np.random.default_rng(0)
sources = rng.laplace(size=(3000, 4))
x = np.tanh(sources @ rng.normal(size=(4, 12)) / 4).astype(np.float32)


def trained(seed):
    """A network that predicts x from x through a layer of four, as a stand-in for yours."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.ELU(), torch.nn.Linear(32, 4), torch.nn.Linear(4, 12))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    rows = torch.as_tensor(x)
    for _ in range(300):
        optimiser.zero_grad()
        (net(rows) - rows).square().mean().backward()
        optimiser.step()
    return net


runs = {f"seed {seed}": nm.representations(trained(seed), x, layer="2") for seed in range(2)}
found = nm.audit(runs, input=x)
print(found.verdict)
print("\n".join(found.warnings))

z = runs["seed 0"]
for name, codes in (("the layer itself", z), ("its components", nm.ICA().fit_transform(z))):
    print(f"MCC with the sources, {name}: {nm.metrics.mcc(sources, codes).score:.2f}")
