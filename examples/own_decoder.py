"""Your own decoder: penalise it, read its structure, certify it. Any callable z ↦ x will do, convolutions too."""

import torch
from torch import nn

import noumena as nm

torch.manual_seed(0)
torch.set_num_threads(1)
decoder = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 8))
z = torch.randn(256, 2)

penalty = 0.1 * nm.DependencySparsity() + 0.01 * nm.LatentSparsity()
value = penalty(decoder, z)
value.backward()
print(f"penalty {value.item():.3f}, gradient on {sum(p.grad is not None for p in decoder.parameters())} tensors")

certificate = nm.certify(decoder, at=z)
print(certificate.structure)
print(certificate.headline)

pictures = nn.Sequential(nn.Linear(2, 8), nn.Unflatten(1, (8, 1, 1)), nn.ConvTranspose2d(8, 1, 4), nn.Flatten())
print("pictures:", nm.certify(pictures, at=z).headline)
try:
    nm.certify(nn.Sequential(decoder, nn.Dropout(0.5)), at=z)
except nm.InputError as error:
    print("refused:", error)
