"""Your own structure: which latents would any sparse model agree on, and where is the counter-example?"""

import noumena as nm

S = nm.Structure(
    [[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1]],
    observed=["pulse", "sweat", "voice", "gait", "grip", "sleep", "mood"],
    latent=["stress", "age", "health"],
)
print("shared by voice and gait:", (S.of("voice") & S.of("gait")).names)
print("in voice and not in pulse:", (S.of("voice") - S.of("pulse")).names)

certificate = nm.certify(S)
print(certificate)
print(certificate.verdict("age", "health"))
