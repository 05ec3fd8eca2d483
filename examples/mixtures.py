"""Your own table: the directions along which it is sparse, the mixture they form, and what that mixture pins down."""

import numpy as np

import noumena as nm

rng = np.random.default_rng(0)
effects = rng.normal(size=(3, 6))  # three dependent causes of six measurements, each at work in some rows only
causes = rng.multivariate_normal([1, 0, -1], [[1, 0.5, 0], [0.5, 1, 0.3], [0, 0.3, 1]], size=3000)
causes *= np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1], [0, 0, 1]])[rng.integers(5, size=3000)]
x = causes @ effects + 5

model = nm.SparseComponents().fit(x)
z_hat = model.transform(x)
print(f"active in {model.active_share_.round(2)} of the rows, confidence {model.confidence_.round(2)}")

found = nm.estimators.mixture_of_masks(z_hat)  # rows with the same zeros are one component
for mask, rows in zip(found.masks, found.counts, strict=True):
    print(f"{rows:5d} rows with active latents {[int(i) for i in np.flatnonzero(mask)]}")

certificate = nm.certify(found.mixture)
print(certificate.headline)
for hypothesis in certificate.hypotheses:
    print(f"  {hypothesis.answer:9s} {hypothesis.name}")

print(
    f"MCC with the causes {nm.metrics.mcc(causes, z_hat).score:.3f}, of x itself {nm.metrics.mcc(causes, x).score:.3f}"
)
