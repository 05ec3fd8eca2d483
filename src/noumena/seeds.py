"""Random generators from a seed and a purpose, e.g. ``generator(7, "shuffle", epoch)``.

Streams are independent of the order in which work happens, so that an interrupted fit resumes to the same result and a
batched fit equals separate ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from noumena import checks

LARGEST = 2**31 - 1


def seed_of(random_state: Any) -> int:
    """A plain integer seed from what scikit-learn calls ``random_state``.

    ``None`` draws one from the operating system; a numpy generator is advanced by one draw.

    >>> seed_of(5)
    5
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0] % LARGEST)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(LARGEST))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(LARGEST))
    return checks.count(random_state, "random_state", minimum=0)


def _entropy(seed: Any, purpose: tuple[Any, ...]) -> int:
    """Entropy of a seed and a purpose, of integers of any type and strings; different ones give different numbers.

    >>> _entropy(np.int64(3), ("noise", np.int64(1))) == _entropy(3, ("noise", 1))
    True
    """
    words = tuple(str(word) if isinstance(word, str) else checks.count(word, "seed", minimum=0) for word in purpose)
    address = checks.count(seed, "seed", minimum=0), words
    return int.from_bytes(hashlib.blake2b(repr(address).encode(), digest_size=16).digest())


def generator(seed: Any, *purpose: Any, device: str | torch.device = "cpu") -> torch.Generator:
    """A torch generator for one purpose of one seed.

    Parameters
    ----------
    seed : int
        At least 0.
    purpose : int or str
        What the stream is for.
    device : str or torch.device
        Where it draws.

    Examples
    --------
    >>> a, b = generator(0, "noise", 3), generator(0, "noise", 3)
    >>> bool((torch.rand(2, generator=a) == torch.rand(2, generator=b)).all())
    True
    """
    state = np.random.SeedSequence(_entropy(seed, purpose)).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(state >> np.uint64(1)))


def numpy_generator(seed: Any, *purpose: Any) -> np.random.Generator:
    """A numpy generator for one purpose of one seed."""
    return np.random.default_rng(_entropy(seed, purpose))


@contextmanager
def global_torch(seed: Any, *purpose: Any) -> Iterator[None]:
    """Seed torch's global generator for a block (networks initialise from it), and restore it after."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(generator(seed, *purpose).initial_seed())
        yield
