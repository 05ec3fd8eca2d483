"""A seed in, generators out: the only place randomness is born.

Every stream is addressed by a seed and the *purpose* it serves, e.g. ``generator(7, "shuffle", epoch)``.
Streams are therefore independent of the order in which work happens, which is what makes an
interrupted fit resume to the same result and a batched fit equal separate ones.
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
    """One number per address; different addresses give different numbers, whatever their lengths.

    A whole number is the same address whatever its type; a purpose may also be text.

    >>> _entropy(np.int64(3), ("noise", np.int64(1))) == _entropy(3, ("noise", 1))
    True
    """
    words = tuple(str(word) if isinstance(word, str) else checks.count(word, "seed", minimum=0) for word in purpose)
    address = checks.count(seed, "seed", minimum=0), words
    return int.from_bytes(hashlib.blake2b(repr(address).encode(), digest_size=16).digest())


def generator(seed: Any, *purpose: Any, device: str | torch.device = "cpu") -> torch.Generator:
    """A torch generator for one purpose of one seed, both whole numbers of at least 0; a purpose may also be text.

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
    """Seed torch's global stream for a block (networks initialise from it); the caller's stream comes back after."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(generator(seed, *purpose).initial_seed())
        yield
