"""Imports point up the floor plan: a room imports only rooms that stand before it, at the top of a file, inside a
function, or by a string.

Aside are imports for type checkers alone, and the old names that ``deprecated.moved`` keeps for one release.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "noumena"
FOUNDATIONS = {
    "checks", "deprecated", "seeds", "threads", "adopt", "derivatives", "structure", "ambiguity", "mixtures", "charts"
}  # fmt: skip
MAY_IMPORT = {
    "checks": set(),
    "deprecated": set(),
    "threads": set(),
    "seeds": {"checks"},
    "ambiguity": {"checks"},
    "mixtures": {"checks", "deprecated", "seeds"},
    "derivatives": {"checks"},
    "adopt": {"checks", "derivatives"},
    "structure": {"checks", "adopt", "derivatives"},
    "charts": {"checks"},
    "penalties": FOUNDATIONS,
    "nets": FOUNDATIONS,
    "estimators": FOUNDATIONS | {"nets", "penalties"},
    "guarantees": FOUNDATIONS | {"estimators"},
    "discovery": FOUNDATIONS | {"penalties", "estimators", "guarantees"},
    "worlds": FOUNDATIONS | {"guarantees"},
    "data": FOUNDATIONS | {"worlds"},
    "metrics": FOUNDATIONS,
    "audits": FOUNDATIONS | {"worlds", "estimators", "guarantees", "metrics"},
    "extraction": FOUNDATIONS,
    "deconfounding": FOUNDATIONS | {"estimators", "metrics"},
    "demo": FOUNDATIONS | {"worlds", "penalties", "estimators", "guarantees", "metrics"},
}
MAY_IMPORT["report"] = set(MAY_IMPORT) - {"data", "nets", "extraction"}
MAY_IMPORT["studies"] = FOUNDATIONS
MAY_IMPORT["integrations"] = FOUNDATIONS | {"penalties"}
MAY_IMPORT["cli"] = set(MAY_IMPORT)
WHOLE = "the whole house"
"""Every row names rooms of rows above it."""
ANY = "any room"
BEGINNINGS = ("f'noumena.{", "'noumena.' +", "'noumena.' %")
"""Of names of modules that are put together."""


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All that runs: without docstrings, imports for type checkers and tables of old names."""
    for child in ast.iter_child_nodes(node):
        docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        typing = isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        old_names = isinstance(child, ast.Assign) and ast.unparse(child.value).startswith("moved(")
        if isinstance(child, ast.If) and typing:
            for branch in child.orelse:
                yield from statements(ast.Module([branch], []))
        elif not docstring and not old_names:
            yield child
            yield from statements(child)


def rooms_imported(code: str) -> set[str]:
    rooms, texts, begun = set(), [], False
    for node in statements(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module == "noumena":
            rooms |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("noumena."):
            rooms.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.level > 0:
            rooms.add("a relative import")
        elif isinstance(node, ast.Import):
            rooms |= {a.name.split(".")[1] for a in node.names if a.name.startswith("noumena.")}
            rooms |= {WHOLE for a in node.names if a.name == "noumena"}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
        begun |= isinstance(node, ast.JoinedStr | ast.BinOp) and ast.unparse(node).startswith(BEGINNINGS)
    rooms |= {room for text in texts for room in re.findall(r"(?:^|\b(?:from|import) )noumena\.(\w+)", text)}
    if begun:
        named = {text.split(".")[0] for text in texts} & set(MAY_IMPORT)
        rooms |= named or {ANY}
    return rooms


def violations(room: str, code: str) -> set[str]:
    return rooms_imported(code) - MAY_IMPORT[room] - {room} - ({WHOLE} if room == "cli" else set())


FILES = sorted(p for p in SOURCE.rglob("*.py") if room_of(p) != "__init__")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_file_imports_only_rooms_above_it(path):
    room = room_of(path)
    assert violations(room, path.read_text()) == set()


@pytest.mark.parametrize(
    ("room", "code", "caught"),
    [
        ("penalties", "from noumena.estimators import VAE", {"estimators"}),
        ("worlds", "import noumena.metrics", {"metrics"}),
        ("structure", "from noumena import guarantees, checks", {"guarantees"}),
        ("nets", "def f():\n    import noumena", {WHOLE}),
        ("metrics", "from .correlation import mcc", {"a relative import"}),
        ("metrics", "def f():\n    from noumena.audits.pairs import alignment_errors", {"audits"}),
        ("nets", 'certify = import_module("noumena.guarantees").certify', {"guarantees"}),
        ("data", 'load = partial(bring, "noumena.estimators.save")', {"estimators"}),
        ("metrics", 'H = {"a": "audits.pairs"}\ndef f(n):\n    return import_module(f"noumena.{H[n]}")', {"audits"}),
        ("nets", 'ROOMS = ("metrics", "checks")\nimport_module("noumena." + ROOMS[0])', {"metrics"}),
        ("nets", 'def f(name):\n    return import_module(f"noumena.{name}")', {ANY}),
        ("data", 'run([python, "-c", "import sys; from noumena.metrics import mcc"])', {"metrics"}),
        ("nets", "if not TYPE_CHECKING:\n    import noumena.report", {"report"}),
        ("nets", "if TYPE_CHECKING:\n    pass\nelse:\n    import noumena.report", {"report"}),
        ("nets", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from noumena.report import page", set()),
        ("worlds", '__getattr__ = moved("noumena.worlds", {"Table": "noumena.data.Table"})', set()),
        ("nets", 'def f():\n    """As in ``noumena.metrics``; from noumena.metrics import mcc."""', set()),
    ],
)
def test_a_planted_violation_is_found(room, code, caught):
    assert violations(room, code) == caught


def test_the_table_is_a_floor_plan():
    rooms = list(MAY_IMPORT)
    assert all(allowed <= set(rooms[: rooms.index(room)]) for room, allowed in MAY_IMPORT.items())


def test_every_room_has_its_row_in_the_table():
    assert {room_of(p) for p in FILES} <= set(MAY_IMPORT)


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_imported(code: str, known: set[str]) -> set[str]:
    named = set()
    for node in statements(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            named |= {full if full in known else node.module for full in inner}
        elif isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
    return named & known


def in_circles(imports: dict[str, set[str]]) -> set[str]:
    """Modules that import themselves in the end: what is left when modules whose imports are all settled are."""
    left = dict(imports)
    while settled := {name for name, needed in left.items() if not needed & left.keys()}:
        left = {name: needed for name, needed in left.items() if name not in settled}
    while unused := left.keys() - set().union(*left.values()) if left else set():
        left = {name: needed for name, needed in left.items() if name not in unused}
    return set(left)


def test_no_module_imports_itself_through_others_not_even_inside_a_function():
    files = {module_of(p): p.read_text() for p in SOURCE.rglob("*.py")}
    imports = {name: modules_imported(code, set(files)) - {name} for name, code in files.items()}
    assert in_circles(imports) == set()
    assert in_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"b", "c"}
