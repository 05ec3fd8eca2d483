"""Eight seeds in one program: do they agree, and is agreement enough?"""

import torch

import noumena as nm

torch.set_num_threads(1)
world = nm.worlds.structured(nm.worlds.family("lack-one", 3), random_state=2)  # as many observations as latents
sample = world.sample(2000)
training = nm.Training(steps=600, batch_size=128)
model = nm.VAE(3, penalty=0.05 * nm.DependencySparsity(), n_models=8, training=training, random_state=0).fit(sample.x)

print(f"agreement between seeds {nm.metrics.agreement(model.transform_all(sample.x)).score:.2f}")
print(f"MCC with the truth      {nm.metrics.mcc(sample.z, model.transform(sample.x)).score:.2f}")
print(f"MCC of x itself         {nm.metrics.mcc(sample.z, sample.x).score:.2f}")
print(nm.certify(model).headline)
