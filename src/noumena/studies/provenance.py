"""Provenance: which code, packages and hardware a cell was computed with."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from noumena.studies.rows import Row

PACKAGES = ("noumena", "torch", "numpy", "scipy", "scikit-learn")


def commit_of(path: str | Path) -> str:
    """The short commit of the repository that a file lies in, ``+`` when code there has changed; empty without git."""
    folder = Path(path).parent
    commit = _git(folder, "rev-parse", "--short", "HEAD").strip()
    changed = commit and _git(folder, "status", "--porcelain", "--", ":(top)*.py")
    return commit and f"g{commit}{'+' * bool(changed)}"  # with a letter it never reads as a number in a table


def _git(folder: Path, *arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):  # no git, no repository, or one without commits
        return ""


@cache
def machine() -> Row:
    """The hardware and the versions that a cell was computed with."""
    import torch

    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    packages = " ".join(f"{name} {_version(name)}" for name in PACKAGES)
    return {
        "hardware": f"{_processor()}, {os.cpu_count()} cores{gpu}",
        "versions": f"python {platform.python_version()} {packages}",
    }


def _version(name: str) -> str:
    """A package's version; this one may run from its folder of sources, without being installed."""
    try:
        return version(name).split("+")[0]
    except PackageNotFoundError:
        return "from sources"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.machine()
