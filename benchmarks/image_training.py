"""A FactorVAE step on 64 × 64 pictures: the library's loop against a plain PyTorch loop of the same networks.

The plain loop is what one writes first: a DataLoader over bytes in memory, two Adam optimisers, two backward passes, a
loss printed every step. Contestants alternate in one process; the median and range of rounds are shown, as
milliseconds for a step of one model and as a ratio to the plain loop, with the memory each round asked for and the
GPU's utilisation as its driver reports it.

    python benchmarks/image_training.py --device cuda
"""

from __future__ import annotations

import argparse
import subprocess
import threading
import time
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from noumena import DependencySparsity, FactorVAE, HessianPenalty, OroJaR, Training
from noumena.estimators import loop
from noumena.estimators.capture import tuned
from noumena.estimators.fit_data import FitData, Standardised
from noumena.estimators.sources import Bytes
from noumena.nets import ConvDecoder, ConvEncoder
from noumena.worlds.rooms import Rooms

LATENTS, HALF, GAMMA = 10, 64, 10.0


class Plain:
    """The loop that one writes first."""

    models = 1

    def __init__(self, x: np.ndarray, size: int, device: str):
        model: Any = estimator(size, device)._model(0, x.shape[1], torch.zeros(x.shape[1]), torch.ones(x.shape[1]))
        self.net = model.to(device)
        self.device = device
        coder = [*self.net.encoder.parameters(), *self.net.decoder.parameters()]
        self.first = torch.optim.Adam(coder, 1e-4)
        self.second = torch.optim.Adam(self.net.discriminator.parameters(), 1e-4, betas=(0.5, 0.9))
        data = torch.utils.data.TensorDataset(torch.as_tensor(x))
        self.loader = torch.utils.data.DataLoader(data, batch_size=2 * HALF, shuffle=True, drop_last=True)
        self.rows = iter(self.loader)

    def step(self) -> None:
        try:
            (x,) = next(self.rows)
        except StopIteration:
            self.rows = iter(self.loader)
            (x,) = next(self.rows)
        x = x.to(self.device).float() / 255
        mean, log_variance = self.net.encoder(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        logits = self.net.decoder[0](z[:HALF])
        reconstruction = F.binary_cross_entropy_with_logits(logits, x[:HALF], reduction="sum") / HALF
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1)[:HALF].mean()
        judged = self.net.discriminator(z[:HALF])
        loss = reconstruction + kl + GAMMA * (judged[:, 0] - judged[:, 1]).mean()
        self.first.zero_grad()
        loss.backward(retain_graph=True)
        self.first.step()
        apart = torch.stack([column[torch.randperm(HALF, device=x.device)] for column in z[HALF:].detach().T], dim=1)
        together, other = self.net.discriminator(z[:HALF].detach()), self.net.discriminator(apart)
        label = torch.zeros(HALF, dtype=torch.long, device=x.device)
        adversary = 0.5 * (F.cross_entropy(together, label) + F.cross_entropy(other, label + 1))
        self.second.zero_grad()
        adversary.backward()
        self.second.step()
        float(loss)


class Ours:
    """The library's loop, driven step by step."""

    def __init__(self, x: np.ndarray, size: int, device: str, models: int = 1, penalty: Any = None, **plan: Any):
        self.models = models
        given = estimator(size, device, models=models, penalty=penalty, **plan)
        given.seeds_ = list(range(models))
        width = x.shape[1]
        mean, scale = torch.zeros(width, device=device), torch.full((width,), 255.0, device=device)
        nets: list[nn.Module] = [given._model(k, width, mean.cpu(), scale.cpu()).to(device) for k in given.seeds_]
        rows = Standardised(Bytes(torch.as_tensor(x, device=device)), mean, scale, like=mean)
        self.fit = loop._Fit(nets, given.seeds_, FitData(rows, rows, ""), given.training)
        self.batches = self.fit._batches()

    def step(self) -> None:
        with tuned(mixed=self.fit.plan.precision == "bfloat16"):
            self.fit._update(*next(self.batches))
        self.fit.step += 1


def estimator(size: int, device: str, *, models: int = 1, penalty: Any = None, **plan: Any) -> FactorVAE:
    nets = {"channels": 3, "size": size, "widths": (32, 32, 64, 64)}
    training = Training(**{"steps": 10**6, "batch_size": 2 * HALF, "learning_rate": 1e-4, "device": device, **plan})
    return FactorVAE(
        LATENTS, gamma=GAMMA, likelihood="bernoulli", penalty=penalty, encoder=ConvEncoder(**nets),
        decoder=ConvDecoder(**nets), standardise=False, n_models=models, training=training, random_state=0,
    )  # fmt: skip


def contestants(x: np.ndarray, size: int, device: str) -> dict[str, Any]:
    def bias(**where: Any) -> Any:
        return 0.1 * DependencySparsity("l1", ramp=0.0, **where)

    fast = {"precision": "bfloat16"}
    return {
        "plain loop": Plain(x, size, device),
        "ours, full precision, not recorded": Ours(x, size, device, capture=False),
        "ours, full precision": Ours(x, size, device),
        "ours": Ours(x, size, device, **fast),
        "ours, 3 seeds in one program": Ours(x, size, device, 3, **fast),
        "3 seeds, dependency sparsity at 4 points": Ours(x, size, device, 3, bias(points=4), **fast),
        "3 seeds, at 16 points": Ours(x, size, device, 3, bias(points=16), **fast),
        "3 seeds, at all points, 2 columns": Ours(x, size, device, 3, bias(columns=2), **fast),
        "3 seeds, exact": Ours(x, size, device, 3, bias(), **fast),
        "3 seeds, OroJaR": Ours(x, size, device, 3, 1e-4 * OroJaR(), **fast),
        "3 seeds, Hessian penalty": Ours(x, size, device, 3, 0.03 * HessianPenalty(), **fast),
    }


class Watched:
    """The GPU's utilisation while a block runs, asked of its driver every tenth of a second."""

    def __init__(self, on: bool):
        self.on, self.seen = on, []

    def __enter__(self) -> Watched:
        self.going = self.on
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while self.going:
            asked = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
            self.seen.append(float(subprocess.run(asked, capture_output=True, text=True, check=False).stdout or "nan"))
            time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self.going = False
        self.thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--pictures", type=int, default=8000)
    options = parser.parse_args()
    cuda = options.device.startswith("cuda")
    if not cuda:
        torch.set_num_threads(1)
    rooms = Rooms(options.size, options.device)
    chosen = np.random.default_rng(0).choice(len(rooms), options.pictures, replace=False)
    x = rooms.pictures(chosen).cpu().numpy()
    found = contestants(x, options.size, options.device)
    times: dict[str, list[float]] = {name: [] for name in found}
    memory, used = dict.fromkeys(found, 0.0), dict.fromkeys(found, float("nan"))
    for turn in range(options.rounds + 1):
        for name, contestant in found.items():
            if cuda:
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
            with Watched(cuda) as watched:
                start = time.perf_counter()
                for _ in range(options.steps):
                    contestant.step()
                if cuda:
                    torch.cuda.synchronize()
                seconds = time.perf_counter() - start
            if turn:  # the first round is for warming up
                times[name].append(1e3 * seconds / options.steps / contestant.models)
                memory[name] = torch.cuda.max_memory_allocated() / 2**30 if cuda else float("nan")
                used[name] = float(np.nanmax([used[name], *watched.seen[1:]])) if cuda else float("nan")
    plain = np.median(times["plain loop"])
    print(torch.cuda.get_device_name() if cuda else "one thread", f"torch {torch.__version__}, {2 * HALF} rows a step")
    print("contestant, ms per step and model (range), plain/this, GPU memory of all, utilisation")
    for name, each in times.items():
        middle = np.median(each)
        shown = f"{middle:8.2f} ({min(each):.2f}–{max(each):.2f})  {plain / middle:6.1f}×"
        print(f"{name:42s} {shown}  {memory[name]:5.1f} GiB  {used[name]:4.0f} %")


if __name__ == "__main__":
    main()
