"""Versions: the tests of the core with the oldest and the newest packages that ``pyproject.toml`` allows.

Run: ``python benchmarks/versions.py [oldest] [newest] [--keep FOLDER] [--out results/benchmarks/versions.txt]``.
The oldest environment has exactly the lower bounds of the dependencies, the newest has what pip finds today; packages
that they need in turn are today's in both.
Deprecations do not fail there, for nobody can mend those of last year's packages. Torch for this platform may bring
several gigabytes of libraries for a GPU.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("flows", "constrained", "dask")
"""Extras that tests of the core want."""
TOOLS = ("pytest>=8.3", "beartype>=0.19", "hypothesis>=6.100")
TESTS = ("foundations", "metrics", "penalties", "nets", "guarantees", "estimators", "audits")
SHOWN = ("torch", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "lightgbm", "jaxtyping", "typer")


def requirements(which):
    """What pip is asked for: lower bounds as exact versions, or names alone.

    >>> requirements("oldest")[0].startswith("torch==")
    True
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + [name for extra in EXTRAS for name in project["optional-dependencies"][extra]]
    return [name.replace(">=", "==") if which == "oldest" else re.split("[><=]", name)[0] for name in asked]


def environment(which, folder):
    """The Python of a new environment with those packages, this folder's sources and what tests need."""
    venv.create(folder / which, with_pip=True, clear=True)
    python = folder / which / "bin" / "python"
    tools = [re.split("[><=]", tool)[0] for tool in TOOLS] if which == "newest" else TOOLS
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *requirements(which), *tools], check=True)
    return python


def versions(python):
    code = "from importlib.metadata import version; import sys; print(*(f'{n} {version(n)}' for n in sys.argv[1:]))"
    return subprocess.run([python, "-c", code, *SHOWN], check=True, capture_output=True, text=True).stdout.strip()


def tested(python):
    """The last line of the tests, and whether all passed."""
    quiet = ["-p", "no:cacheprovider", "-o", "filterwarnings=default", "-o", "addopts="]
    call = [python, "-m", "pytest", "-m", "not slow", *quiet]
    files = [str(ROOT / "tests" / name) for name in TESTS]
    settings = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*call, *files], cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
    print("\n".join(line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), flush=True)
    return done.stdout.strip().splitlines()[-1], done.returncode == 0


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("which", nargs="*", default=["oldest", "newest"])
    options.add_argument("--keep", type=Path)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    lines, well = [], True
    with tempfile.TemporaryDirectory() as folder:
        for which in given.which:
            python = environment(which, given.keep or Path(folder))
            told, passed = tested(python)
            well &= passed
            lines += [f"{which}: {versions(python)}", f"  {told}"]
            print("\n".join(lines[-2:]), flush=True)
    if given.out:
        given.out.write_text("\n".join([*lines, ""]))
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
