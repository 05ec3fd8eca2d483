"""Your own encoder and decoder: train them with a penalty, in the library's loop, and certify what they found."""

import torch
from torch import nn

import noumena as nm

torch.manual_seed(0)
torch.set_num_threads(1)
truth = nm.Structure([[1, 0], [1, 0], [1, 0], [1, 1], [0, 1], [0, 1], [0, 1]])
sample = nm.worlds.structured(truth, random_state=0).sample(600)


class Mine(nn.Module):
    """Any module with encode and decode; a pair (encoder, decoder) would do as well."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(7, 32), nn.ELU(), nn.Linear(32, 2))
        self.outer = nn.Sequential(nn.Linear(2, 32), nn.ELU(), nn.Linear(32, 7))

    def encode(self, x):
        return self.inner(x)

    def decode(self, z):
        return self.outer(z)


mine = Mine()
training = nm.Training(steps=300, batch_size=128)
for name, penalty in (("without a penalty", None), ("with a penalty", 0.05 * nm.DependencySparsity())):
    model = nm.fit_penalised(mine, sample.x, penalty=penalty, standardise=True, training=training, random_state=0)
    score = nm.metrics.mcc(sample.z, model.transform(sample.x)).score
    print(f"{name}: {model.structure_}, MCC with the truth {score:.2f}")

print(nm.certify(model).headline)
print(f"your module is as it was: {not torch.equal(mine.outer[0].weight, model.models_[0].own.module.outer[0].weight)}")
