"""Devices: shared out among the workers of a run on one machine, each worker keeping its own.

A worker holds the lock of a numbered slot for as long as it lives; slots take turns in the list of devices.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

_LEASE: dict[str, Any] = {}
"""What this process was asked for last, the device it took, and the open lock of its slot."""


def leased(devices: tuple[str, ...], run: int) -> str:
    """A device for this process: the first that fewest other workers of the same run on this machine have taken.

    >>> leased(("cpu",), run=0)
    'cpu'
    """
    asked = run, devices
    if _LEASE.get("asked") != asked:  # workers outlive a run
        if "lock" in _LEASE:
            os.close(_LEASE["lock"])
        folder = Path(tempfile.gettempdir(), f"noumena-devices-{os.getuid()}")
        folder.mkdir(mode=0o700, exist_ok=True)
        turn, lock = 0, None
        while lock is None:
            slot = hashlib.sha256(f"{asked} {turn}".encode()).hexdigest()[:16]
            lock, turn = _locked(folder / slot), turn + 1
        _LEASE.update(asked=asked, device=devices[(turn - 1) % len(devices)], lock=lock)
    return _LEASE["device"]


def _locked(slot: Path) -> int | None:
    """The open lock of a slot, which the end of the process gives back; nothing where another process has it."""
    lock = os.open(slot, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
