"""A checkpoint: the state of an interrupted fit in one safetensors file, written atomically."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from noumena import checks
from noumena.checks import InputError


@dataclass(frozen=True)
class Checkpoint:
    """Step reached, tensors, and the fingerprint of the settings and data they belong to."""

    step: int
    fingerprint: str
    tensors: dict[str, Tensor]

    def save(self, path: Path) -> None:
        """Write to a temporary name, then rename: a kill leaves the old file or the new one, never half of one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
        metadata = {"noumena": json.dumps({"step": self.step, "fingerprint": self.fingerprint})}
        try:
            save_file({k: v.contiguous().cpu() for k, v in self.tensors.items()}, temporary, metadata)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path, fingerprint: str) -> Checkpoint:
        """Read a checkpoint; one that belongs to other settings or data is refused."""
        try:
            with safe_open(path, framework="pt") as file:
                facts = json.loads((file.metadata() or {}).get("noumena", "{}"))
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
                step = int(facts.get("step", -1))
        except (OSError, SafetensorError, ValueError, TypeError, AttributeError) as error:
            raise InputError(f"A checkpoint must be a complete safetensors file. Got {path}.") from error
        checks.require(
            facts.get("fingerprint") == fingerprint,
            f"The checkpoint {path} must belong to the same settings and data.",
            "another fit's; remove it or choose another name",
        )
        return cls(step, fingerprint, tensors)
