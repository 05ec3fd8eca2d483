"""Guard for HDF5 files: a damaged one can hang or crash the HDF5 library, so another process traverses it first.

It opens every group and dataset, reads every attribute and every string, and counts the chunks of every dataset;
numbers are not read. Errors that it raises are left to whoever reads the file afterwards.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from noumena.checks import InputError, require

TIMEOUT = 20.0
"""Seconds for a file, and one more for every ``BYTES_PER_SECOND`` bytes."""
BYTES_PER_SECOND = 2**24
PROBE = """
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


def check_hdf5(path: Path) -> None:
    """Refuse a file that hangs or crashes the HDF5 library."""
    must = f"{path.name} must be a complete {path.suffix} file."
    command = [sys.executable, "-I", "-W", "ignore", "-c", PROBE, str(path.absolute())]
    limit = TIMEOUT + path.stat().st_size / BYTES_PER_SECOND
    try:
        ended = subprocess.run(command, timeout=limit, capture_output=True, check=False)
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{must} Got one that HDF5 could not read: it hung.") from error
    require(ended.returncode >= 0, must, "one that HDF5 could not read: it crashed")
