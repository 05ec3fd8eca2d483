"""Fuzzing: mutated files and queries at every door; what is not read must be refused in one sentence, and soon.

Run: ``python benchmarks/fuzz.py [--inputs 1000000] [--seed 0] [--only query] [--out results/benchmarks/fuzz.txt]``.
Inputs are valid files and queries with bytes flipped, cut, doubled, swapped, joined with other files or replaced, and
random bytes; each is a function of the seed and its number. Every batch is a process of its own, whose peak of memory
is told; files lie in memory, and every input has a limit of time. A finding is a crash, a hang, an exception that is
not an ``InputError``, or a message that is not one line ending with a full stop.
"""

import argparse
import faulthandler
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_doors import DOORS, Target, target

from noumena.checks import InputError

SECONDS = 10
"""Most for one input, on a busy machine."""
SHARES = {
    "query": 0.72, "structure": 0.08, "rows": 0.04, "verdicts": 0.04, "journal": 0.02, "csv": 0.04, "npy": 0.02,
    "npz": 0.008, "labels": 0.01, "images": 0.008, "archive": 0.008, "annotated csv": 0.002, "annotated npz": 0.002,
}  # fmt: skip
"""Of all inputs; the targets that are not named have ``FEW`` each, as each of their inputs takes milliseconds."""
FEW = 400


class Hang(BaseException):
    """An input took too long; no handler of exceptions may swallow it."""


# ---- mutations -----------------------------------------------------------------------------------------------------

WORDS = (
    b"\x00", b"\xff" * 4, b"\n", b"\r", b",", b'"', b"'", b"-1", b"1e999", b"nan", b"9" * 400, b"\xef\xbb\xbf", b"\t",
    b"{}", b"[]", b"null", b"true", b"(", b")", b"../", b"\x93NUMPY", b"PK\x03\x04", b"O", b"<f8", b"|O", b"{", b"}",
    b"\xe2\x80\xa8", b"\x80", b"1_0", b"0x10", b"1" * 5000,
)  # fmt: skip


def mutated(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """A file with one to four changes."""
    if rng.random() < 0.01:
        return rng.randbytes(rng.randrange(200))
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        size = len(changed)
        at, end = sorted((rng.randrange(size + 1), min(size, rng.randrange(size + 1) + rng.randrange(8))))
        kind = rng.randrange(8)
        if kind == 0 and size:
            changed[rng.randrange(size)] ^= 1 << rng.randrange(8)
        elif kind == 1 and size:
            changed[rng.randrange(size)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            del changed[at : min(end, at + rng.choice((1, 8, size)))]
        elif kind == 3:
            changed[at:at] = changed[at : at + rng.choice((1, 20, 200))]
        elif kind == 4:
            changed[at:at] = rng.choice(WORDS)
        elif kind == 5:
            changed[at : at + rng.choice((1, 2, 4, 8))] = rng.choice(WORDS)
        elif kind == 6:
            del changed[at:]
        else:
            other = rng.choice(others)
            changed[at:] = other[rng.randrange(len(other) + 1) :]
    return bytes(changed)


NAMES = (
    "x1",
    "x2",
    "heart rate",
    "a-b",
    "it's",
    'say "hi"',
    "(n)",
    "~m",
    "größe",
    "z1",
    "z9",
    "",
    " ",
    "x1 | x2",
    "\n",
)
SIGNS = ("&", "|", "-", "^", "~", "(", ")", " ", "  ", "\t", "'", '"', "\\", "\x00", "\u2028", "𝔵", "+", "x", "1", "*")


def query(rng: random.Random, names: tuple[str, ...]) -> str:
    """A query that is well formed, or was until it was changed, or never was."""
    kind = rng.random()
    if kind < 0.3:
        return "".join(rng.choice((*names, *SIGNS)) for _ in range(rng.randrange(12)))
    if kind < 0.33:
        deep = rng.randrange(130)
        return rng.choice(("(", "~", "~(", "((")) * deep + rng.choice(names) + ")" * rng.choice((deep, 2 * deep, 3))
    if kind < 0.36:
        return "".join(chr(rng.choice((rng.randrange(128), rng.randrange(0xD800)))) for _ in range(rng.randrange(30)))
    text = _formed(rng, names, rng.randrange(4))
    if kind < 0.65 or not text:
        return text
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(("", rng.choice(SIGNS), rng.choice(names))) + text[at + rng.randrange(3) :]


def _formed(rng: random.Random, names: tuple[str, ...], depth: int) -> str:
    if depth == 0:
        name = rng.choice(names)
        return rng.choice((name, name, f'"{name}"', f"'{name}'"))
    left, right = _formed(rng, names, depth - 1), _formed(rng, names, rng.randrange(depth))
    shape = rng.choice(("({}){}({})", "{}{}{}", "({}{}{})", "~{} {} ~{}", "~({} {} {})"))
    return shape.format(left, rng.choice("&|-^"), right)


# ---- a batch -------------------------------------------------------------------------------------------------------


def attempt(task: Any) -> str | None:
    """Nothing where an input is read or refused as it should be, or what went wrong instead."""
    try:
        task()
    except InputError as error:
        text = str(error)
        return (
            None if text.endswith(".") and "\n" not in text and "\r" not in text else f"not one sentence: {text!r:.200}"
        )
    except Hang:
        return f"hang of more than {SECONDS} s"
    except RecursionError:
        return "RecursionError"
    except Exception as error:  # any other is a finding
        frame = traceback.extract_tb(error.__traceback__)[-1]
        ours = [f for f in traceback.extract_tb(error.__traceback__) if "noumena" in f.filename]
        place = (
            f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
            if ours
            else f"{Path(frame.filename).name}:{frame.lineno}"
        )
        return f"{type(error).__name__} at {place}"
    return None


def batch(name: str, seed: int, count: int) -> list[tuple[str, str]]:
    """Findings among so many inputs of a door, each with its input."""
    rng = random.Random(f"{name} {seed}")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        task = _asking(rng) if name == "query" else _reading(target(name), Path(folder), rng)
        found = []
        for _ in range(count):
            run, given = task()
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            if name not in SHARES:  # libraries that may hang where Python's signals do not reach
                faulthandler.dump_traceback_later(2 * SECONDS, exit=True)
            try:
                problem = attempt(run)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                faulthandler.cancel_dump_traceback_later()
            if problem:
                found.append((problem, f"{given!r:.2000}"))
    return found


def _asking(rng: random.Random) -> Any:
    from noumena.guarantees.queries import parse
    from noumena.structure import Structure

    named = NAMES[:10]
    odd = Structure(np.eye(len(NAMES), dtype=bool), observed=NAMES, latent=[f"z{k}" for k in range(len(NAMES))])
    plain = Structure(np.tri(9, dtype=bool))

    def task() -> tuple[Any, str]:
        structure = odd if rng.random() < 0.5 else plain
        text = query(rng, NAMES if structure is odd else (*plain.observed[:4], *plain.latent[:2], *named[:4]))
        return lambda: parse(text, structure), text

    return task


def _reading(door: Target, folder: Path, rng: random.Random) -> Any:
    path = folder / door.name
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, content in (door.around or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    def task() -> tuple[Any, bytes]:
        content = mutated(rng.choice(door.seeds), door.seeds, rng)
        path.write_bytes(content)
        return lambda: door.read(path), content

    return task


def limited() -> None:
    """This process stops an input that takes too long."""

    def stop(*_: Any) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


# ---- all of them ---------------------------------------------------------------------------------------------------


def in_a_process(name: str, seed: int, count: int) -> tuple[list[tuple[str, str]], int]:
    """Findings of a batch in a process of its own, where a crash is one too, and its peak of memory in MB."""
    call = [sys.executable, "-W", "ignore", __file__, "--batch", name, "--seed", str(seed), "--inputs", str(count)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        place = next((line.strip() for line in done.stderr.splitlines() if "File" in line), "no traceback")
        why = "a hang" if "Timeout" in done.stderr else f"a crash, {done.returncode}"
        return [(f"{why} in {place[-120:]}", f"batch {seed}; its later inputs were not tried")], 0
    told = json.loads(done.stdout.splitlines()[-1])
    return [tuple(pair) for pair in told["found"]], told["peak"]


def numbers(inputs: int, only: list[str]) -> dict[str, int]:
    """How many inputs every door is given."""
    names = [name for name in ("query", *DOORS) if not only or name in only]
    return {name: max(1, int(inputs * SHARES[name])) if name in SHARES else min(FEW, inputs) for name in names}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--inputs", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", nargs="*", default=[])
    options.add_argument("--batch")
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    if given.batch:
        warnings.simplefilter("ignore")
        limited()
        found = batch(given.batch, given.seed, given.inputs)
        print(json.dumps({"found": found, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))
        return
    lines = [f"{'target':18}  {'inputs':>9}  {'findings':>8}  {'seconds':>7}  {'peak MB':>7}"]
    print(lines[0], flush=True)
    total, problems = 0, Counter()
    for name, count in numbers(given.inputs, given.only).items():
        start = time.perf_counter()
        found, peak = in_a_process(name, given.seed, count)
        total += count
        lines.append(f"{name:18}  {count:9}  {len(found):8}  {time.perf_counter() - start:7.0f}  {peak:7}")
        print(lines[-1], flush=True)
        for problem, text in found:
            if problems[name, problem] < 1:
                print(f"    {problem}\n      {text[:300]}", flush=True)
            problems[name, problem] += 1
    lines.append(f"{'all':18}  {total:9}  {sum(problems.values()):8}")
    print(lines[-1])
    if given.out:
        given.out.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
