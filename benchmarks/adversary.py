"""The adversary: subjects with a known truth, made to be certified wrongly, and the share of them that are.

    python benchmarks/adversary.py --start 1000000 --count 1000            exact subjects, so many of every family
    python benchmarks/adversary.py --families fits --count 20 --seconds 3600

A *false identified* has an explicit rival (same observations, no more dependencies, other latents), or is a fit whose
latents have an MCC below ``RIGHT`` with the truth. A *false not identified* is one of a subject with a positive gap by
brute force, or one whose own witness fails ``verify()``. A *false holds* is a hypothesis called ``holds`` or
``supported`` that is false by construction. *Crash* is any exception but ``InputError``. *Power* is the share called
identified among identifiable subjects.

Seeds below 10 000 are for development; figures to be shown come from fresh ones, 1 000 000 and above.
Rows are appended to ``results/adversary/rows.csv``; a case that has a row there is not run again.
"""

from __future__ import annotations

import argparse
import csv
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch
from adversary_exact import EXACT
from adversary_fits import FITS, LAWS
from adversary_pinned import PINNED, PINNED_FITS
from adversary_truth import Case, Claim, stands
from scipy.stats import beta

from noumena.checks import InputError

RIGHT = 0.95
WITNESSES = 6
"""Pairs of one subject whose witnesses are verified."""
HANG = 600
OUT = Path(__file__).resolve().parents[1] / "results" / "adversary" / "rows.csv"
GROUPS: dict[str, dict[str, Callable[[int], Case]]] = {
    "exact": EXACT,
    "laws": LAWS,
    "fits": FITS,
    "pinned": {"pinned": lambda seed: PINNED[seed]()},
    "pinned fits": {"pinned fits": lambda seed: PINNED_FITS[seed]()},
}
FAMILIES = {name: generator for group in GROUPS.values() for name, generator in group.items()}
FIXED = {"pinned": len(PINNED), "pinned fits": len(PINNED_FITS)}
"""Families of named cases, whose seeds are their numbers."""


@dataclass(frozen=True)
class Row:
    """One judged case."""

    family: str
    seed: int
    subject: str
    answer: str
    false_identified: int = 0
    false_not: int = 0
    false_holds: int = 0
    crash: int = 0
    identifiable: str = ""
    seconds: float = 0.0
    detail: str = ""


HEAD = (
    f"{'family':18}{'cases':>7}{'false identified':>18}{'below':>10}{'false not':>13}{'false holds':>13}{'crash':>13}"
    f"{'power':>11}{'seconds':>9}"
)


# ---- one case --------------------------------------------------------------------------------------------------------


def judge(family: str, seed: int) -> Row:
    """Make a case, have it certified, and compare the answer with the truth."""
    start = time.perf_counter()
    try:
        case = FAMILIES[family](seed)
    except Exception as error:  # the adversary's own failure, which says nothing of the library
        return Row(family, seed, "none", "not made", detail=f"{type(error).__name__}: {error}"[:200])
    try:
        with _in_time():
            found = _judged(case)
    except InputError as error:
        found = {"answer": "refused", "detail": str(error)}
    except Exception as error:  # whatever escapes is counted
        found = {"answer": "crash", "crash": 1, "detail": f"{type(error).__name__}: {error}"}
    detail = " ".join(f"{case.note}; {found.pop('detail', '')}".split())[:200]
    truth = "" if case.identifiable is None else str(int(case.identifiable))
    seconds = round(time.perf_counter() - start, 3)
    return Row(family, seed, case.subject, **found, identifiable=truth, seconds=seconds, detail=detail)


@contextmanager
def _in_time() -> Iterator[None]:
    """A case that hangs is a crash; signals reach the main thread only."""

    def hang(*_: Any) -> None:
        raise TimeoutError(f"more than {HANG} s")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(HANG)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _judged(case: Case) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        claim = case.claim()
        wrong, said = _wrongly_identified(case, claim)
        failed = list(_failed_witnesses(claim))
        held = list(_false_hypotheses(case, claim))
    denied = claim.answer == "not identified" and case.identifiable is True
    return {
        "answer": claim.answer,
        "false_identified": int(wrong),
        "false_not": int(denied or bool(failed)),
        "false_holds": int(bool(held)),
        "detail": "; ".join([said, *failed, *(f"called {h}" for h in held)]),
    }


def _wrongly_identified(case: Case, claim: Claim) -> tuple[bool, str]:
    """Whether *identified* is false; a rival is compared with the subject before it is believed."""
    said = "" if claim.mcc is None else f"MCC {claim.mcc:.3f}"
    if claim.answer != "identified":
        return False, said
    if claim.mcc is not None and claim.mcc < RIGHT:
        return True, said
    if case.identifiable is not False:
        return False, said
    problem = stands(case) if case.rival is not None else ""
    return (False, f"no rival: {problem}") if problem else (True, said)


def _failed_witnesses(claim: Claim) -> Iterator[str]:
    """Pairs called not identified whose own witness does not verify."""
    found = claim.certificate
    if claim.answer != "not identified" or getattr(found, "model", None) is None:
        return
    pairs = [(pair["latent"], pair["carries"], pair["kind"]) for pair in found.to_dict()["pairs"]]
    for t, r, kind in pairs[:: max(1, len(pairs) // WITNESSES)][:WITNESSES]:
        if found.verdict(t, r).answer == "not identified":
            verified = found.witness(t, r).verify()
            if not verified.holds:
                yield f"{kind} {t}, {r} {verified}"


def _false_hypotheses(case: Case, claim: Claim) -> Iterator[str]:
    for h in getattr(claim.certificate, "hypotheses", ()):
        if h.answer in ("holds", "supported") and any(word in h.name.lower() for word in case.false):
            yield f"{h.answer}: {h.name}"


# ---- many ------------------------------------------------------------------------------------------------------------


def jobs(families: list[str], start: int, count: int) -> Iterator[tuple[str, int]]:
    """All families in turn, so that a run that is cut short has some of each."""
    for k in range(count):
        for family in families:
            if family not in FIXED:
                yield family, start + k
            elif k < FIXED[family]:
                yield family, k


def run(todo: Iterator[tuple[str, int]], *, workers: int, seconds: float) -> Iterator[Row]:
    """Judge cases in other processes until the time is up, in the order in which they end."""
    end = time.monotonic() + seconds
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        pending: set[Future[Row]] = set()
        while True:
            while len(pending) < 2 * workers and time.monotonic() < end and (job := next(todo, None)):
                pending.add(pool.submit(judge, *job))
            if not pending:
                return
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)


def read(path: Path) -> list[Row]:
    """Rows of earlier runs."""
    if not path.exists():
        return []
    kinds = {"seed": int, "false_identified": int, "false_not": int, "false_holds": int, "crash": int, "seconds": float}
    with path.open(newline="") as file:
        return [Row(**{k: kinds.get(k, str)(v) for k, v in row.items()}) for row in csv.DictReader(file)]


def append(path: Path, row: Row) -> None:
    """One more row of a file that is complete after every row."""
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(row)), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(asdict(row))


# ---- what is said ----------------------------------------------------------------------------------------------------


def upper(failures: int, cases: int) -> float:
    """Clopper and Pearson's upper bound on a share, 95 % one-sided.

    >>> round(upper(0, 300), 4)
    0.0099
    """
    return 1.0 if failures >= cases else float(beta.ppf(0.95, failures + 1, cases - failures))


def summary(rows: list[Row]) -> str:
    """False claims by family with their bounds, and power."""
    lines = [HEAD]
    groups = {name: [row for row in rows if row.family == name] for name in FAMILIES}
    groups["exact, all"] = [row for row in rows if row.family in EXACT]
    for name, some in groups.items():
        if some:
            wrong = sum(row.false_identified for row in some)
            rest = (sum(getattr(row, key) for row in some) for key in ("false_not", "false_holds", "crash"))
            numbers = "".join(f"{number:13}" for number in rest)
            time_ = median(row.seconds for row in some)
            lines.append(
                f"{name:18}{len(some):7}{wrong:18}{upper(wrong, len(some)):10.4f}{numbers}{power(some):>11}{time_:9.2f}"
            )
    return "\n".join(lines)


def power(rows: list[Row]) -> str:
    """Of identifiable subjects, how many are called identified and are right."""
    able = [row for row in rows if row.identifiable == "1"]
    right = sum(row.answer == "identified" and not row.false_identified for row in able)
    return f"{right}/{len(able)}" if able else "–"


def chosen(names: list[str]) -> list[str]:
    """Families by their own names or by those of groups."""
    unknown = [name for name in names if name not in GROUPS and name not in FAMILIES]
    if unknown:
        raise SystemExit(f"No such family: {', '.join(unknown)}. There are {', '.join([*GROUPS, *FAMILIES])}.")
    return list(dict.fromkeys(family for name in names for family in GROUPS.get(name, {name: None})))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--families", nargs="*", default=["pinned", "exact"], help="families or groups of them")
    options.add_argument("--start", type=int, default=0, help="the first seed; fresh ones are 1 000 000 and above")
    options.add_argument("--count", type=int, default=50, help="cases of every family")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--seconds", type=float, default=float("inf"), help="no case is begun after so long")
    options.add_argument("--out", type=Path, default=OUT)
    given = options.parse_args()
    families = chosen(given.families)
    rows = read(given.out)
    known = {(row.family, row.seed) for row in rows}
    todo = [job for job in jobs(families, given.start, given.count) if job not in known]
    begun = told = time.monotonic()
    for k, row in enumerate(run(iter(todo), workers=given.workers, seconds=given.seconds), start=1):
        append(given.out, row)
        rows.append(row)
        if row.false_identified:
            print(f"  false identified: {row.family} {row.seed} ({row.subject}) {row.detail}", flush=True)
        if time.monotonic() - told > 10:
            told = time.monotonic()
            print(f"{k} of {len(todo)} cases, {(told - begun) / 60:.1f} minutes", flush=True)
    print(summary(rows))


if __name__ == "__main__":
    main()
