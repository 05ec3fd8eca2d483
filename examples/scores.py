"""Your own latents against known factors: every score with its chance and ceiling, and up to what they were found."""

import numpy as np
import pandas as pd

import noumena as nm

rng = np.random.default_rng(0)
n = 1000
factors = pd.DataFrame(
    {
        "shape": rng.choice(["ball", "cube", "cone"], n),  # a name: no order
        "size": rng.integers(5, size=n),  # five values
        "angle": rng.uniform(-1, 1, n),  # any value
    }
)
codes = factors["shape"].map({"ball": 0.0, "cube": 1.0, "cone": 2.0})
learned = np.column_stack([factors["angle"] ** 3, codes, -factors["size"], rng.normal(size=n)])

card = nm.score(factors, learned, metrics=["mcc", "mcc_spearman", "dci", "infomec", "mig", "factor_vae"])
print(card)
print()
for number in card["mcc"].numbers + card["infomec"].numbers:
    print(f"{number}: {number.claim.supports}")

mixed = learned @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
print()
print("The same latents, rotated:")
print(nm.score(factors, mixed, metrics=["mcc", "r2", "dci"]))
