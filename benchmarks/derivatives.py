"""Exact Jacobians against the counted limit, against ``vmap`` peers, and sketched on an image decoder.

A step is forward + penalty + backward to every parameter. Contestants alternate in one process, on one thread; medians
over rounds, with the range; CPU time on the CPU, so that a busy machine disturbs less. A contestant that takes more
than five seconds a step runs three rounds only. The counted limit of an exact Jacobian is ``1 + d_z`` plain steps. Peak
memory of the image decoder is that of a process of its own on the CPU, and of torch's allocator on a GPU.
Run: ``python benchmarks/derivatives.py [--device cuda] [--rounds 9] [--only limit|contrast|image]``.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacfwd, jacrev, vmap

from noumena.derivatives import columns, differentiate, jacobian
from noumena.penalties.compositionality import compositional_contrast, slot_norms

Step = Callable[[], Tensor]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="cpu")
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--only", choices=("limit", "contrast", "image"))
    options.add_argument("--peak", choices=tuple(IMAGE_STEPS), help="print the peak memory of one image step, in MB")
    given = options.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if given.peak:
        print(peak(given.peak, given.device))
        return
    for name, benchmark in (("limit", limit), ("contrast", contrast), ("image", image)):
        if given.only in (None, name):
            benchmark(given.device, given.rounds)


# ---- timing ----------------------------------------------------------------------------------------------------


def race(contestants: dict[str, Step], f: nn.Module, device: str, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of every round, the contestants taking turns; one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, step in contestants.items():
            if turn > 3 and min(times[name]) > 5000:
                continue
            f.zero_grad(set_to_none=True)
            start = now(device)
            step().backward()
            times[name] += [1000 * (now(device) - start)] if turn else []
    return times


def now(device: str) -> float:
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def show(name: str, times: list[float], note: str = "") -> None:
    print(f"  {name:<28}{median(times):9.2f} ms  [{min(times):.2f}, {max(times):.2f}]   {note}", flush=True)


def ratio(slow: list[float], fast: list[float]) -> str:
    return f"{median(slow) / median(fast):.2f}"


# ---- the peers -------------------------------------------------------------------------------------------------


def mlp(sizes: list[int], activation: nn.Module, device: str) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation]
    return nn.Sequential(*layers[:-1]).to(device)


def peer(transform: Callable, f: nn.Module) -> Callable[[Tensor], Tensor]:
    """``vmap(jacrev)`` or ``vmap(jacfwd)``, the parameters as an argument that autograd sees."""

    def one(parameters: dict[str, Tensor], row: Tensor) -> Tensor:
        return functional_call(f, parameters, (row[None],))[0]

    return lambda z: vmap(transform(one, argnums=1), (None, 0))(dict(f.named_parameters()), z)


# ---- 1 · against the counted limit -------------------------------------------------------------------------------


def limit(device: str, rounds: int) -> None:
    print(f"\nExact Jacobian, L1 penalty, against the counted limit of 1 + d_z plain steps ({device})")
    for d_z, d_x, width, batch in ((10, 64, 256, 512), (32, 784, 512, 256)):
        for activation in (nn.LeakyReLU(0.2), nn.ELU()):
            f = mlp([d_z, width, width, d_x], activation, device)
            z = torch.randn(batch, d_z, device=device)
            times = race(limit_steps(f, z), f, device, rounds)
            counted = [(1 + d_z) * t for t in times["plain"]]
            print(f" d_z {d_z}, d_x {d_x}, width {width}, batch {batch}, {type(activation).__name__}")
            show("plain step", times["plain"])
            show("counted limit", counted)
            for name in list(times)[1:]:
                show(name, times[name], f"{ratio(times[name], counted)} × the limit")


def limit_steps(f: nn.Module, z: Tensor) -> dict[str, Step]:
    def exact(way: str) -> Step:
        def step() -> Tensor:
            found = differentiate(f, z, way=way)
            return found.x.abs().mean() + found.J.abs().mean()

        return step

    return {
        "plain": lambda: f(z).abs().mean(),
        "structured": exact("structured"),
        "forward": exact("forward"),
        "vmap(jacrev)": lambda: f(z).abs().mean() + peer(jacrev, f)(z).abs().mean(),
        "vmap(jacfwd)": lambda: f(z).abs().mean() + peer(jacfwd, f)(z).abs().mean(),
    }


# ---- 2 · the compositional contrast --------------------------------------------------------------------------------


def closed_contrast(J: Tensor, slots: int) -> Tensor:
    return compositional_contrast(slot_norms(J, (J.shape[-1] // slots,) * slots))


def looped_contrast(J: Tensor, slots: int) -> Tensor:
    """The same by a loop over pairs of slots and torch's norm, as in the public code."""
    parts = J.unflatten(-1, (slots, -1))
    total = J.new_zeros(len(J), J.shape[1])
    for i, j in combinations(range(slots), 2):
        total = total + parts[:, :, i].norm(dim=-1) * parts[:, :, j].norm(dim=-1)
    return total.sum(-1).mean()


def contrast(device: str, rounds: int) -> None:
    print(f"\nCompositional contrast, slots of 3, 20 observations per slot, 3 hidden layers of 80, ELU ({device})")
    for slots in (3, 5, 10):
        for batch in (64, 512):
            f = mlp([3 * slots, 80, 80, 80, 20 * slots], nn.ELU(), device)
            z = torch.randn(batch, 3 * slots, device=device)
            times = race(contrast_steps(f, z, slots), f, device, rounds)
            print(f" {slots} slots, batch {batch}")
            for name, own in times.items():
                show(name, own, f"{ratio(own, times['ours'])} × ours")


def contrast_steps(f: nn.Module, z: Tensor, slots: int) -> dict[str, Step]:
    return {
        "ours": lambda: closed_contrast(jacobian(f, z), slots),
        "vmap(jacrev)": lambda: closed_contrast(peer(jacrev, f)(z), slots),
        "vmap(jacfwd)": lambda: closed_contrast(peer(jacfwd, f)(z), slots),
        "vmap(jacrev), loop over pairs": lambda: looped_contrast(peer(jacrev, f)(z), slots),
        "vmap(jacfwd), loop over pairs": lambda: looped_contrast(peer(jacfwd, f)(z), slots),
    }


# ---- 3 · an image decoder ------------------------------------------------------------------------------------------

LATENTS, IMAGES, DRAWN = 10, 64, 2


def image_decoder(device: str) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(LATENTS, 1024), nn.LeakyReLU(0.2), nn.Unflatten(1, (64, 4, 4))]
    for inputs, outputs in ((64, 64), (64, 32), (32, 32), (32, 3)):
        layers += [nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1], nn.Flatten()).to(device)


def plain_step(f: nn.Module, z: Tensor) -> Tensor:
    return f(z).abs().sum(-1).mean()


def exact_step(f: nn.Module, z: Tensor) -> Tensor:
    return jacobian(f, z).abs().sum((1, 2)).mean()


def sketched_step(f: nn.Module, z: Tensor) -> Tensor:
    which = torch.rand(z.shape, device=z.device).argsort(dim=1)[:, :DRAWN]
    return columns(f, z, which).abs().sum((1, 2)).mean() * LATENTS / DRAWN


def forward_step(f: nn.Module, z: Tensor) -> Tensor:
    return jacobian(f, z, way="forward").abs().sum((1, 2)).mean()


IMAGE_STEPS = {"plain": plain_step, "exact": exact_step, "sketched": sketched_step, "forward": forward_step}


def image(device: str, rounds: int) -> None:
    print(f"\nImage decoder 64×64×3, {LATENTS} latents, batch {IMAGES} ({device})")
    f = image_decoder(device)
    z = torch.randn(IMAGES, LATENTS, device=device)
    steps = {name: (lambda step=step: step(f, z)) for name, step in IMAGE_STEPS.items()}
    times = race(steps, f, device, rounds)
    for name, own in times.items():
        command = [sys.executable, __file__, "--device", device, "--peak", name]
        memory = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        show(name, own, f"{ratio(own, times['plain'])} × a plain step, peak {memory} MB")
    with torch.no_grad():
        exact = float(exact_step(f, z))
        draws = torch.stack([sketched_step(f, z) for _ in range(50)])
    error, bias = float(draws.std()) / exact, float(draws.mean()) / exact - 1
    print(
        f"  sketched with {DRAWN} columns a row: relative error {error:.4f} a draw, mean off by {bias:+.4f} (50 draws)"
    )


def peak(name: str, device: str) -> int:
    f = image_decoder(device)
    z = torch.randn(IMAGES, LATENTS, device=device)
    for _ in range(2):
        IMAGE_STEPS[name](f, z).backward()
    if device == "cpu":
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) // 1024
    return torch.cuda.max_memory_allocated() // 2**20


if __name__ == "__main__":
    main()
