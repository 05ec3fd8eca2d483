"""Walks: another process goes through an HDF5 file first, for in a damaged one its library may find no end, or fall
over and take the process with it.

The walker opens every group and dataset, reads every attribute and every word, and counts the pieces of every dataset;
numbers themselves are not read. What it complains of in words is left to whoever reads the file afterwards.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from noumena.checks import InputError, require

PATIENCE = 20.0
"""Seconds that a walk may take, and one more for every ``PACE`` bytes."""
PACE = 2**24
WALKER = """
import sys, h5py

def look(name, item):
    for key in item.attrs:
        item.attrs[key]
    if isinstance(item, h5py.Dataset):
        if item.chunks:
            item.id.get_num_chunks()
        if item.dtype.kind == "O" and item.shape is not None and not item.is_virtual and item.external is None:
            item[()]

with h5py.File(sys.argv[1], "r") as file:
    look("/", file)
    file.visititems(look)
"""


def walk(path: Path) -> None:
    """Refuse an HDF5 file in which its library finds no end, or falls over."""
    must = f"{path.name} must be a complete {path.suffix} file."
    command = [sys.executable, "-I", "-W", "ignore", "-c", WALKER, str(path.absolute())]
    limit = PATIENCE + path.stat().st_size / PACE
    try:
        ended = subprocess.run(command, timeout=limit, capture_output=True, check=False)
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{must} Got one in which its library finds no end.") from error
    require(ended.returncode >= 0, must, "one over which its library falls")
