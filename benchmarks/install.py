"""Installing: seconds and size on disk of a clean environment, without extras and with all of them.

Run: ``python benchmarks/install.py [--keep FOLDER] > results/benchmarks/install.txt``. A wheel and an sdist are built
from this folder; the wheel goes into a new virtual environment through ``constraints.txt``, once alone and once with
every extra but ``dev``. Packages come from where pip is told to look: seconds hold what it downloads or unpacks.
Each environment then answers ``noumena --version``, without the folder of sources in reach, and certifies a structure
from a file, which imports torch; with the extras it also reads an ``.h5ad`` file and an ``.h5`` file.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
STRUCTURE = "observed,z1,z2,z3\nx1,1,1,0\nx2,1,0,1\nx3,0,1,1\n"
FILES = """
import anndata, h5py, numpy as np
x = np.arange(12.0).reshape(6, 2)
anndata.AnnData(x, obs={"plate": list("aabbcc"), "drug": list("ububub")}).write_h5ad("own.h5ad")
with h5py.File("own.h5", "w") as file:
    file["x"] = x
from noumena.data.annotated import read_annotated
from noumena.data.tables import read_table
print(f"an .h5ad file and an .h5 file read: {read_annotated('own.h5ad', ('plate', 'drug')).x.shape}", end=" ")
print(read_table("own.h5").x.shape)
"""


def called(*command, cwd):
    """Standard output of a command that must succeed, and its seconds."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    begin = time.perf_counter()
    done = subprocess.run([*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout, time.perf_counter() - begin


def environment(folder):
    """A new virtual environment, and its folder of programs."""
    venv.create(folder, with_pip=True, clear=True)
    return folder / "bin"


def size(folder):
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def built(folder):
    """The wheel and the sdist of this folder."""
    pip = environment(folder / "builder") / "pip"
    called(pip, "install", "-c", ROOT / "constraints.txt", "hatchling", cwd=folder)
    _, seconds = called(pip.parent / "python", "-m", "hatchling", "build", "-d", folder / "dist", cwd=ROOT)
    (wheel,), (sdist,) = (sorted((folder / "dist").glob(ending)) for ending in ("*.whl", "*.tar.gz"))
    sizes = ", ".join(f"{path.name} {path.stat().st_size / 2**20:.2f} MiB" for path in (wheel, sdist))
    print(f"built in {seconds:.1f} s: {sizes}", flush=True)
    return wheel


def extras(wheel):
    """Every extra of a wheel but that of developers."""
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        found = HeaderParser().parsestr(archive.read(name).decode()).get_all("Provides-Extra", [])
    return [extra for extra in found if extra != "dev"]


def installed(wheel, chosen, folder):
    """Install into a clean environment, say what it took, and use it."""
    bin = environment(folder)
    before = size(folder)
    wanted = f"{wheel}[{','.join(chosen)}]" if chosen else f"{wheel}"
    _, seconds = called(bin / "pip", "install", "-c", ROOT / "constraints.txt", wanted, cwd=folder)
    freeze, _ = called(bin / "pip", "freeze", cwd=folder)
    title = f"extras {', '.join(chosen)}" if chosen else "no extras"
    packages = len(freeze.splitlines())
    print(
        f"\n{title}: {seconds:.0f} s, {(size(folder) - before) / 2**20:.0f} MiB, {packages} distributions", flush=True
    )
    called(bin / "pip", "check", cwd=folder)
    shown, took = called(bin / "noumena", "--version", cwd=folder)
    print(f"noumena --version in {took:.2f} s:\n{shown}", end="")
    (folder / "structure.csv").write_text(STRUCTURE)
    shown, took = called(bin / "noumena", "certify", "structure.csv", "--query", "x1 & x2", cwd=folder)
    print(f"noumena certify in {took:.2f} s: {shown}", end="")
    if chosen:
        print(called(bin / "python", "-c", FILES, cwd=folder)[0], end="", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="Leave the environments in this folder.")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if keep is None else keep.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        wheel = built(folder)
        installed(wheel, [], folder / "plain")
        installed(wheel, extras(wheel), folder / "full")


if __name__ == "__main__":
    main()
