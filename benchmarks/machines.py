"""Machines: the numeric tests, and what is decided, under several instruction sets and numbers of threads.

Run: ``python benchmarks/machines.py [SETTING ...] [--rooms metrics,audits] [--decisions] [--resume]``, or
``make test-machines MACHINES="Nehalem-default-1 Zen-avx2-2"``. A setting is the kernels of OpenBLAS (numpy, scipy), the
vector instructions of torch, and the threads of both. By default a selection in which every value occurs; ``all`` for
all 24, of which each takes about ten minutes on one core. What this processor cannot run is skipped, and said. One
process at a time; results are kept in ``.machines/`` and ``--resume`` goes on where sources have not changed.

Decisions (``decisions.py``) must be equal under all settings, numbers within their stated tolerances.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".machines"
CORES = {"Nehalem": {"sse4_2"}, "Haswell": {"avx2", "fma"}, "Zen": {"avx2", "fma"}, "SkylakeX": {"avx512f", "avx512vl"}}
VECTORS = {"default": set(), "avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512dq", "avx512bw", "avx512vl"}}
"""Flags of a processor that the kernels and the instructions need."""
THREADS = ("1", "2")
ALL = ["-".join(setting) for setting in product(CORES, VECTORS, THREADS)]
USUAL = ["SkylakeX-avx512-1", "Haswell-avx2-1", "Nehalem-default-1", "Zen-avx2-2"]
ROOMS = ("metrics", "foundations", "penalties", "nets", "worlds", "deconfounding", "audits", "guarantees", "estimators",
         "test_representations.py", "laws/test_number_types.py")  # fmt: skip
"""Rooms and files of the tests that compute; pages, commands and studies do not depend on the processor."""


def flags():
    """What this processor can do; nothing where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set())


def missing(setting, has):
    """Flags that a setting needs and this processor lacks."""
    cores, vectors, _ = setting.split("-")
    return sorted((CORES[cores] | VECTORS[vectors]) - has)


def environment(setting):
    """The variables of a setting."""
    cores, vectors, threads = setting.split("-")
    return {
        "OPENBLAS_CORETYPE": cores,
        "ATEN_CPU_CAPABILITY": vectors,
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "NOUMENA_TEST_THREADS": threads,
    }


def sources(rooms):
    """A digest of the code, of the tests and of the rooms asked for."""
    whole = hashlib.sha256(" ".join(rooms).encode())
    for folder in ("src", "tests", "benchmarks"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            whole.update(file.read_bytes())
    return whole.hexdigest()


def started(setting, *arguments):
    """A Python process under a setting, waited for."""
    call = [sys.executable, *map(str, arguments)]
    return subprocess.run(call, cwd=ROOT, env=os.environ | environment(setting), capture_output=True, text=True)


def tested(setting, rooms):
    """How many tests pass and fail under a setting, which, and the seconds."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        options = ["-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider", "--tb=no", f"--junitxml={report}"]
        done = started(setting, *options, *(ROOT / "tests" / room for room in rooms))
        if not report.exists():
            return {
                "passed": 0,
                "failing": [f"pytest ended with {done.returncode}: {done.stdout[-500:]}"],
                "seconds": 0,
            }
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    bad = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = sum(c.find("skipped") is not None for c in cases)
    failing = [f"{c.get('classname')}::{c.get('name')}" for c in bad]
    return {
        "passed": len(cases) - len(bad) - skipped,
        "failing": failing,
        "seconds": round(time.perf_counter() - begin),
    }


def decided(setting):
    """The record of decisions under a setting; an error is a decision too."""
    done = started(setting, ROOT / "benchmarks" / "decisions.py")
    if done.returncode:
        return {"machine": {}, "answers": {"error": done.stderr.strip().splitlines()[-1:]}, "numbers": {}}
    return json.loads(done.stdout)


def leaves(tree, path=""):
    """The entries of nested dictionaries by their path.

    >>> dict(leaves({"a": {"b": 1}, "c": [2]}))
    {'a/b': 1, 'c': [2]}
    """
    if not isinstance(tree, dict):
        yield path, tree
        return
    for name, value in tree.items():
        yield from leaves(value, f"{path}/{name}" if path else name)


def differences(first, other):
    """Where two records of decisions differ: answers that are not equal, numbers apart by more than the tolerance.

    >>> differences({"answers": {"a": 1}, "numbers": {"n": [1.0, 0.1]}}, {"answers": {"a": 2}, "numbers": {"n": [1.05, 0.1]}})
    ['a: 1 and 2']
    """  # noqa: E501
    said, again = dict(leaves(first["answers"])), dict(leaves(other["answers"]))
    apart = [f"{k}: {said.get(k)} and {again.get(k)}" for k in sorted({*said, *again}) if said.get(k) != again.get(k)]
    one, two = dict(leaves(first["numbers"])), dict(leaves(other["numbers"]))
    for name in sorted({*one, *two}):
        (value, tolerance), (beside, _) = one.get(name, (float("nan"), 0)), two.get(name, (float("nan"), 0))
        if not abs(value - beside) <= tolerance:
            apart.append(f"{name}: {value!r} and {beside!r}, more than {tolerance:g} apart")
    return apart


def measured(setting, rooms, digest, *, resume, decisions_only):
    """The result of a setting, kept on disk; a kept one of the same sources where that is asked for."""
    file = KEPT / f"{setting}.json"
    if resume and file.exists():
        kept = json.loads(file.read_text())
        if kept["sources"] == digest and (decisions_only or kept["tests"]):
            return kept
    result = {"sources": digest, "decisions": decided(setting), "tests": None}
    result["tests"] = None if decisions_only else tested(setting, rooms)
    KEPT.mkdir(exist_ok=True)
    file.write_text(json.dumps(result, indent=1))
    return result


def told(setting, result, apart):
    """One row of the table, and below it what fails and what is decided otherwise."""
    tests = result["tests"]
    counts = (
        f"{tests['passed']:>7} {len(tests['failing']):>7} {tests['seconds']:>8}"
        if tests
        else f"{'–':>7} {'–':>7} {'–':>8}"
    )
    where = result["decisions"]["machine"]
    note = f"  (OpenBLAS {'/'.join(where.get('OpenBLAS', []))}, torch {where.get('torch')})"
    rows = [f"{setting:<20} {counts} {len(apart):>9}{note}"]
    rows += [f"    failed: {name}" for name in (tests["failing"] if tests else [])]
    return "\n".join(rows + [f"    differs: {line}" for line in apart])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("settings", nargs="*", default=USUAL)
    options.add_argument("--rooms", default=",".join(ROOMS))
    options.add_argument("--decisions", action="store_true", help="only compare decisions, run no tests")
    options.add_argument("--resume", action="store_true")
    given = options.parse_args()
    asked = ALL if given.settings == ["all"] else given.settings
    if strange := [setting for setting in asked if setting not in ALL]:
        options.error(f"settings must be among {', '.join(ALL)}. Got {', '.join(strange)}.")
    rooms, has, first, well = given.rooms.split(","), flags(), None, True
    digest = sources(rooms)
    print(f"{'setting':<20} {'passed':>7} {'failed':>7} {'seconds':>8} {'otherwise':>9}", flush=True)
    for setting in asked:
        if lacking := missing(setting, has):
            print(f"{setting:<20} skipped: this processor has no {', '.join(lacking)}", flush=True)
            continue
        result = measured(setting, rooms, digest, resume=given.resume, decisions_only=given.decisions)
        first = first or result["decisions"]
        apart = differences(first, result["decisions"])
        apart += result["decisions"]["answers"].get("error", [])
        well &= not apart and not (result["tests"] and result["tests"]["failing"])
        print(told(setting, result, apart), flush=True)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
