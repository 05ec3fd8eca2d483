"""Results draw themselves: scores, an audit and training curves side by side in one figure of matplotlib."""

import sys
from pathlib import Path

from matplotlib.figure import Figure

import noumena as nm

out = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
out.mkdir(parents=True, exist_ok=True)

world = nm.worlds.structured(nm.Structure([[1, 0], [1, 1], [0, 1], [1, 1]]), random_state=0)
sample = world.sample(500)
model = nm.VAE(n_latents=2, n_models=3, training=nm.Training(steps=60), random_state=0).fit(sample.x)
runs = {f"seed {seed}": z for seed, z in zip(model.seeds_, model.transform_all(sample.x), strict=True)}

figure = Figure(figsize=(13, 4), layout="constrained")
left, middle, right = figure.subplots(1, 3)
model.history_.plot(best=model.best_, ax=left)
nm.score(sample.z, model.transform(sample.x), metrics=["mcc", "r2"]).plot(ax=middle)
audit = nm.audit(runs, ica=False)
audit.plot("affine", ax=right)
for ax, title in ((left, "training"), (middle, "scores"), (right, "errors between seeds")):
    ax.set_title(title)
figure.savefig(out / "charts.png", dpi=80)

print("scores:", *(text.get_text() for text in middle.texts))
print("training:", len(left.lines), "models,", left.get_xlabel(), "up to", model.history_.steps[-1])
print("audit:", len(audit.pairs), "pairs of", ", ".join(audit.names))
print(f"The figure is {out / 'charts.png'}")
