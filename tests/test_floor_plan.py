"""Data flows down, imports point up: each room may import only the rooms listed for it."""

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "noumena"
FOLDERS = ("src", "tests", "benchmarks", "examples")
FOUNDATIONS = {
    "checks",
    "deprecated",
    "seeds",
    "mixtures",
    "threads",
    "derivatives",
    "evidence",
    "strength",
    "structure",
    "ambiguity",
}
MAY_IMPORT = {
    "checks": set(),
    "deprecated": set(),
    "threads": set(),
    "seeds": {"checks"},
    "mixtures": {"checks", "seeds"},
    "derivatives": {"checks"},
    "ambiguity": {"checks"},
    "evidence": set(),
    "strength": {"checks", "derivatives"},
    "structure": {"checks", "evidence", "strength"},
    "worlds": FOUNDATIONS | {"guarantees"},
    "data": FOUNDATIONS | {"worlds"},
    "nets": FOUNDATIONS,
    "penalties": FOUNDATIONS,
    "metrics": FOUNDATIONS,
    "estimators": FOUNDATIONS | {"nets", "penalties"},
    "extraction": FOUNDATIONS,
    "integrations": FOUNDATIONS | {"penalties"},
    "guarantees": FOUNDATIONS | {"estimators"},
    "audits": FOUNDATIONS | {"worlds", "estimators", "guarantees", "metrics"},
    "deconfounding": FOUNDATIONS | {"estimators", "metrics"},
    "studies": FOUNDATIONS
    | {
        "worlds",
        "data",
        "nets",
        "penalties",
        "estimators",
        "guarantees",
        "metrics",
        "extraction",
        "audits",
        "deconfounding",
    }
    | {"report"},
    "demo": FOUNDATIONS | {"worlds", "penalties", "estimators", "guarantees", "metrics"},
    "report": FOUNDATIONS | {"worlds", "estimators", "guarantees", "metrics", "audits", "deconfounding", "demo"},
}
EVERYTHING = {"__init__", "cli"}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def rooms_imported(code: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module == "noumena":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("noumena."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.level > 0:
            found.add("a relative import")
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("noumena.")}
            found |= {"the whole house" for a in node.names if a.name == "noumena"}
    return found


def violations(room: str, code: str) -> set[str]:
    return rooms_imported(code) - MAY_IMPORT[room] - {room}


FILES = sorted(p for p in SOURCE.rglob("*.py") if room_of(p) not in EVERYTHING)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_file_imports_only_rooms_above_it(path):
    assert violations(room_of(path), path.read_text()) == set()


@pytest.mark.parametrize(
    ("room", "code", "caught"),
    [
        ("penalties", "from noumena.estimators import VAE", {"estimators"}),
        ("worlds", "import noumena.metrics", {"metrics"}),
        ("structure", "from noumena import guarantees, checks", {"guarantees"}),
        ("nets", "def f():\n    import noumena", {"the whole house"}),
        ("metrics", "from .correlation import mcc", {"a relative import"}),
    ],
)
def test_a_planted_violation_is_found(room, code, caught):
    assert violations(room, code) == caught


def test_every_room_has_its_row_in_the_table():
    assert {room_of(p) for p in FILES} == set(MAY_IMPORT)


def python_files() -> list[Path]:
    """Those that git knows; where there is no repository, all that are there."""
    if shutil.which("git"):
        asked = ["git", "ls-files", "-z", "--", *(f"{folder}/*.py" for folder in FOLDERS)]
        told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
        if told.returncode == 0 and told.stdout:
            return [path for name in told.stdout.rstrip("\0").split("\0") if (path := ROOT / name).exists()]
    return [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


def test_no_file_is_longer_than_six_hundred_lines():
    files = python_files()
    assert {"src", "tests"} <= {path.relative_to(ROOT).parts[0] for path in files} <= set(FOLDERS)
    assert {str(p.relative_to(ROOT)): n for p in files if (n := p.read_text().count("\n")) > 600} == {}
