"""How long does a certificate of a large sparse structure take, and how much memory?

    python benchmarks/scale.py

100 000 observations of 10 000 latents, 10 dependencies each: closure, atoms, clauses, certificate and a query, one
thread; seconds on the clock and of the processor, and the process's largest memory.
"""

from __future__ import annotations

import resource
import time

import numpy as np
from scipy import sparse

import noumena as nm
from noumena.guarantees.diversity import clauses

N_OBSERVED, N_LATENTS, PER_ROW = 100_000, 10_000, 10


def main() -> None:
    """Build the structure, then time each part once."""
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(N_OBSERVED), PER_ROW)
    columns = np.concatenate([rng.choice(N_LATENTS, PER_ROW, replace=False) for _ in range(N_OBSERVED)])
    support = sparse.csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(N_OBSERVED, N_LATENTS))
    nm.certify(nm.Structure([[1, 0], [0, 1]]))  # imports are not what is measured
    before = _memory()
    S = nm.Structure(support)
    total = [0.0, 0.0]
    for name, part in {
        "closure": lambda: S.order.nnz,
        "atoms": lambda: len(S.atoms),
        "clauses": lambda: clauses(S).sum(axis=0).tolist(),
        "certificate": lambda: nm.certify(S).headline,
        "query": lambda: nm.certify(S).query("(x1 & x2) | x3").answer,
    }.items():
        clock, processor = time.perf_counter(), time.process_time()
        found = part()
        spent = time.perf_counter() - clock, time.process_time() - processor
        total = [a + b for a, b in zip(total, spent, strict=True)]
        print(f"{name:12} {spent[0]:6.2f} s clock {spent[1]:6.2f} s processor   {found}")
    print(f"{'all':12} {total[0]:6.2f} s clock {total[1]:6.2f} s processor")
    print(f"largest memory {_memory():.2f} GB, of which {before:.2f} GB before the structure was made")


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    main()
