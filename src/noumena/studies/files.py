"""Files of studies: any Python file with ``cells``, ``cell`` and ``compare``, where it lies and what it is called."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

from noumena.checks import InputError, require

NEEDED = ("cells", "cell", "compare")
PAPERS = "papers"
"""The folder that is looked into where none is named."""


@dataclass(frozen=True)
class StudyFile:
    """A Python file as a module: ``module`` is its name from its topmost package on, ``root`` the folder above that.

    Workers in other processes and on other machines are told these two names, so a file must lie at the same path
    everywhere.
    """

    root: str
    module: str

    @classmethod
    def at(cls, path: str | Path) -> StudyFile:
        """The module that a file is: all folders above it that have an ``__init__.py`` are its packages."""
        path = Path(path)
        python = path.is_file() and path.suffix == ".py" and "." not in path.stem
        require(python, "A study must be a Python file, or a folder of such.", path)
        path = path.resolve()
        root = path.parent
        while (root / "__init__.py").exists():
            root = root.parent
        return cls(str(root), ".".join(path.relative_to(root).with_suffix("").parts))

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.root, *self.module.split(".")).with_suffix(".py")

    def load(self) -> ModuleType:
        """Import it, with its root on the path."""
        if self.root not in sys.path:
            sys.path.insert(0, self.root)
        found = import_module(self.module)
        if Path(found.__file__ or "").resolve() != self.path:
            must = "A study's file must have a name that no other module has."
            raise InputError(f"{must} Got {self.path}, and {self.module} is {found.__file__}.")
        return found


def study_files(*given: str | Path) -> list[Path]:
    """These files, and the studies in these folders; those in the folder ``papers`` where nothing is given."""
    if not given:
        require(Path(PAPERS).is_dir(), f"Studies must be named as files, or lie in a folder {PAPERS}.", "neither")
    found = []
    for path in map(Path, given or (PAPERS,)):
        inside = list(_studies_in(path)) if path.is_dir() else [path]
        require(bool(inside), f"Some Python file of a folder of studies must define {', '.join(NEEDED)}.", path)
        found += inside
    return found


def _studies_in(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder).parts
        if not any(part.startswith((".", "_", "test_")) for part in inside) and set(NEEDED) <= _top_level(path):
            yield path


def _top_level(path: Path) -> set[str]:
    """Names that a file defines or imports at its top."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError) as error:
        raise InputError(f"Every file of a folder of studies must be Python. Got {path}: {error}.") from error
    stored = {one.id for node in body if isinstance(node, ast.Assign) for one in ast.walk(node) if _stored(one)}
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    imported = {alias.asname or alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}
    return stored | defined | imported


def _stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
