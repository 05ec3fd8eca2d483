"""Your own decoder: penalise it, read its structure, certify it. Any callable z ↦ x will do."""

import torch

import noumena as nm

torch.manual_seed(0)
torch.set_num_threads(1)
decoder = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.LeakyReLU(0.2), torch.nn.Linear(32, 8))
z = torch.randn(256, 2)

penalty = 0.1 * nm.DependencySparsity() + 0.01 * nm.LatentSparsity()
value = penalty(decoder, z)
value.backward()
print(f"penalty {value.item():.3f}, gradient on {sum(p.grad is not None for p in decoder.parameters())} tensors")

certificate = nm.certify(decoder, at=z)
print(certificate.structure)
print(certificate.headline)
