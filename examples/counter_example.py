"""Where latents are not pinned down: ask about a set of them, and call the counter-example."""

import noumena as nm

S = nm.Structure(
    [[1, 1, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 1]],
    observed=["pulse", "breath", "voice", "gait", "grip", "reach"],
    latent=["calm", "age", "strength"],
)
world = nm.worlds.structured(S, law="unit gaussian", random_state=0)
certificate = nm.certify(world)
print(certificate.headline)

answer = certificate.query("pulse - voice")  # what moves the pulse and not the voice
print(f"{answer.latents} is {answer.answer}, entangled with {answer.entangled_with}")

witness = certificate.witness("calm", "age")  # an equivalent model with other latents
sample = world.sample(5)
z_hat = witness.latents(sample.z)
print(f"same observations: {abs(witness.decode(z_hat) - sample.x).max():.0e}")
print(f"other latents: {abs(z_hat - sample.z).max():.2f}")
print(witness.verify())
