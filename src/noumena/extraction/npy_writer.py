"""Growing tables: rows gathered in memory, or appended to an ``.npy`` file that is renamed when complete.

Beside the unfinished file lies a small one with what is done: its rows, a fingerprint of the model and the settings,
and one of the batches read so far. An extraction with the same fingerprints resumes where it stopped.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from noumena import checks
from noumena.extraction.batches import Batch


class MemoryWriter:
    """A table in memory."""

    def __init__(self, dtype: str):
        self.dtype, self.blocks = dtype, []
        self.rows, self.batches = 0, 0

    def add(self, block: np.ndarray, batch: Batch) -> None:
        """Take the next rows."""
        _same_width(block, self.blocks[0].shape[1] if self.blocks else None)
        self.blocks.append(block)
        self.rows, self.batches = self.rows + len(block), self.batches + 1

    def complete(self) -> np.ndarray:
        """All rows."""
        checks.require(bool(self.blocks), "data must hold a row.", "no batch")
        return np.concatenate(self.blocks)

    def close(self) -> None:
        """Nothing is open."""


class NpyWriter:
    """A table in a file, which bears a temporary name until it is complete."""

    def __init__(self, path: str | Path, dtype: str, fingerprint: str):
        self.path, self.dtype, self.fingerprint = Path(path), np.dtype(dtype), fingerprint
        checks.require(self.path.suffix == ".npy", "out must be the name of an .npy file.", f"{self.path.name}")
        checks.require(self.path.parent.is_dir(), "The folder of out must exist.", f"{self.path.parent}")
        self._refuse_existing()
        self.part = self.path.with_name(self.path.name + ".part")
        self.notes = self.path.with_name(self.path.name + ".part.json")
        self.rows, self.batches = 0, 0
        self.width: int | None = None
        self.digest = hashlib.blake2b(fingerprint.encode())
        self.file: Any = None

    def resume(self, batches: Iterable[Batch]) -> bool:
        """Skip the batches that an earlier run has finished; false, with a warning, if it read others."""
        notes = _read_notes(self.notes)
        if not notes or not self.part.exists():
            return False
        for batch in islice(batches, int(notes["batches"])):
            update(self.digest, batch)
            self.batches += 1
        alike = self.digest.hexdigest() == notes["digest"] and self.batches == notes["batches"]
        if not alike or notes["dtype"] != self.dtype.str:
            self.anew()
            return False
        self.rows, self.width = int(notes["rows"]), int(notes["width"])
        self._open("r+b", self.rows)
        return True

    def anew(self) -> None:
        """Discard what an earlier run has left, with a warning, if there is anything."""
        if self.notes.exists():
            what = f"The unfinished {self.part.name} is of another model, setting or order of batches"
            warnings.warn(f"{what}; the extraction starts anew.", UserWarning, stacklevel=4)
            self.notes.unlink()
        self.batches, self.digest = 0, hashlib.blake2b(self.fingerprint.encode())

    def add(self, block: np.ndarray, batch: Batch) -> None:
        """Append the rows of a batch, then note that they are there."""
        _same_width(block, self.width)
        if self.width is None:
            self.width = int(block.shape[1])
            self._open("w+b", 0)
        self.file.write(np.ascontiguousarray(block, dtype=self.dtype).tobytes())
        self.file.flush()
        update(self.digest, batch)
        self.rows, self.batches = self.rows + len(block), self.batches + 1
        facts = {"rows": self.rows, "width": self.width, "batches": self.batches, "dtype": self.dtype.str}
        _replace(self.notes, json.dumps({**facts, "digest": self.digest.hexdigest()}))

    def complete(self) -> np.ndarray:
        """Write the number of rows, rename the file, and map it into memory."""
        checks.require(self.file is not None, "data must hold a row.", "no batch")
        self.file.seek(0)
        self.file.write(self._header(self.rows))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.close()
        self._refuse_existing()
        self.part.rename(self.path)
        self.notes.unlink()
        return np.load(self.path, mmap_mode="r", allow_pickle=False)

    def close(self) -> None:
        """Close the file; an unfinished one is kept for the next run."""
        if self.file is not None:
            self.file.close()

    def _open(self, mode: str, rows: int) -> None:
        """Open the unfinished file behind its last finished row."""
        self.file = self.part.open(mode)
        header = self._header(0)
        self.file.write(header)
        self.file.seek(len(header) + rows * (self.width or 0) * self.dtype.itemsize)
        self.file.truncate()

    def _header(self, rows: int) -> bytes:
        """The header of so many rows; numpy leaves room in it for the first axis to grow."""
        text = io.BytesIO()
        shape = {"descr": self.dtype.str, "fortran_order": False, "shape": (rows, self.width)}
        np.lib.format.write_array_header_1_0(text, shape)
        return text.getvalue()

    def _refuse_existing(self) -> None:
        checks.require(not self.path.exists(), "out must not exist yet.", f"{self.path.name}, which does")


def fingerprint(model: nn.Module, *settings: object) -> str:
    """A digest of a module's weights, its description and the settings."""
    digest = hashlib.blake2b(repr((model, getattr(model, "config", None), settings)).encode())
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        _update(digest, name, tensor)
    return digest.hexdigest()


def update(digest: Any, batch: Batch) -> None:
    """Let a digest see a batch."""
    for name, entry in [*enumerate(batch.placed), *sorted(batch.named.items())]:
        _update(digest, str(name), entry)


def _update(digest: Any, name: str, entry: Any) -> None:
    if not isinstance(entry, Tensor):
        digest.update(f"{name} {entry!r}".encode())
        return
    digest.update(f"{name} {entry.dtype} {tuple(entry.shape)}".encode())
    digest.update(entry.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def _same_width(block: np.ndarray, width: int | None) -> None:
    must = "Every batch must give equally many columns; pool the tokens."
    checks.require(width in (None, block.shape[1]), must, f"{width} and {block.shape[1]}")


def _read_notes(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text)
    temporary.replace(path)
