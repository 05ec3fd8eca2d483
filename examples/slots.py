"""Slots of latents that share observations: recovered by sparsity over slots, scored by the SIS."""

import torch

import noumena as nm

torch.set_num_threads(1)
world = nm.worlds.overlapping(2, overlap=0.25, random_state=0)  # 2 slots of 3 latents, 5 of 20 observations shared
train, fresh = world.sample(6000), world.sample(1500, random_state=1)

training = nm.Training(steps=700, batch_size=64)
model = nm.SlotAutoencoder(n_slots=2, slot_size=3, n_models=2, training=training, random_state=0).fit(train.x)
plain = nm.SlotAutoencoder(2, 3, penalty=None, n_models=2, training=training, random_state=0).fit(train.x)

print(f"reconstruction R² {1 - model.terms_['reconstruction'][model.best_] / world.n_observed:.3f}")
for name, code in (("ours", model.transform(fresh.x)), ("no bias", plain.transform(fresh.x)), ("the truth", fresh.z)):
    print(f"SIS {nm.metrics.sis(fresh.z, code, slots=2).score:.3f}  {name}")
