"""Fingerprints: a short digest of the code that a function runs, so that a changed function is run again.

Beginning at the function, every definition of its own package that it names is followed: functions, classes with all
their methods, constants, and what these name in turn, through imports at the top of a file or inside a function. The
digest is that of their syntax trees without docstrings, comments, layout and annotations, but for fields of classes:
rewording or formatting changes nothing. What can only refuse (``NEUTRAL``) is not followed, since it changes no number.

A module that is used as a value (``getattr(module, name)``) counts as a whole. Not seen: code chosen by a string
(``import_module(name)``), and other packages, whose versions stand in the rows.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

HOME = "noumena"
NEUTRAL = ("noumena.checks", "noumena.threads")
"""Modules whose sentences and thread counts change no number."""
DIGITS = 15
PLAIN = (bool, int, float, str, bytes, tuple, list, dict, type(None))
"""Kinds of values whose text says what they are."""


class Source(NamedTuple):
    """The top level of a module: definitions by name, imported names, and statements that define nothing."""

    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, tuple[str, str | None]]
    loose: list[ast.stmt]


class Place(NamedTuple):
    """A definition in a module; the module as a whole where ``name`` is empty."""

    module: str
    name: str


def code_version(*functions: Callable[..., Any]) -> str:
    """The digest of everything that these functions run in their own packages.

    >>> code_version(code_version) == code_version(code_version), len(code_version(code_version))
    (True, 16)
    """
    found = {name: text for function in functions for name, text in parts(function).items()}
    whole = "\n".join(f"{name} {found[name]}" for name in sorted(found))
    return "v" + _digest(whole)  # no digest reads as a number in a table


def parts(function: Callable[..., Any]) -> dict[str, str]:
    """Every definition that a function reaches, by its full name, with the digest of its syntax tree."""
    texts: dict[str, str] = {}
    found: dict[Place, str] = {}
    todo = _begun(function, texts)
    while todo:
        place = todo.pop()
        if place in found or place.module in NEUTRAL:
            continue
        found[place], named = _definition(place)
        todo += named
    return texts | {f"{place.module}.{place.name}": text for place, text in found.items()}


def _begun(function: Any, texts: dict[str, str]) -> list[Place]:
    """Where a function is defined; what it was given beside its text (a partial, a closure) goes to ``texts``."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    if isinstance(function, partial):
        given: tuple[Any, ...] = (*function.args, *sorted(function.keywords.items()))
        return _given(given, texts) + _begun(function.func, texts)
    module, full = function.__module__, function.__qualname__
    given = tuple(cell.cell_contents for cell in function.__closure__ or ())
    if "<" in full:  # a function in a function, or without a name: what it has by default was computed
        given += (*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items()))
    name = full.split(".")[0]
    name = name if name in _source(module).definitions else _at(module, function.__code__.co_firstlineno)
    if name is None:
        texts[f"{module}.{full} {len(texts)}"] = _digest(_bytecode(function.__code__))
    return _given(given, texts) + ([] if name is None else [Place(module, name)])


def _given(values: tuple[Any, ...], texts: dict[str, str]) -> list[Place]:
    plain = [repr(value) for value in values if isinstance(value, PLAIN)]
    if plain:
        texts[f"given {len(texts)}"] = _digest("\n".join(plain))
    return [place for value in values if isinstance(value, FunctionType | partial) for place in _begun(value, texts)]


def _at(module: str, line: int) -> str | None:
    """The name of the definition at a line of a file."""
    spans = ((name, node) for name, nodes in _source(module).definitions.items() for node in nodes)
    return next((name for name, node in spans if node.lineno <= line <= (node.end_lineno or node.lineno)), None)


def _bytecode(code: CodeType) -> str:
    """Of a function that stands in no file; sets in a fixed order."""
    inner = [_bytecode(c) if isinstance(c, CodeType) else _fixed(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {inner} {code.co_names}"


def _fixed(value: Any) -> str:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


# ---- one definition --------------------------------------------------------------------------------------------------


@cache
def _definition(place: Place) -> tuple[str, list[Place]]:
    """The digest of a definition and the places that it names."""
    source = _source(place.module)
    nodes = source.definitions[place.name] if place.name else [n for d in source.definitions.values() for n in d]
    nodes = [*nodes, *source.loose]
    named = [p for n in nodes for p in _named(n, place.module)]
    passed_on = () if place.name else source.imports
    named += [p for name in passed_on for p in _resolved(place.module, [name], {}) if p.module != place.module]
    return _digest("\n".join(_dumped(node) for node in nodes)), named


def _dumped(node: Any) -> str:
    """A syntax tree as a text that does not depend on the version of Python: fields that are empty are left out."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if value is not None and value != [])
        return f"{type(node).__name__}({', '.join(f'{name}={_dumped(value)}' for name, value in fields)})"
    return f"[{', '.join(map(_dumped, node))}]" if isinstance(node, list) else repr(node)


def _named(node: ast.AST, module: str) -> Iterator[Place]:
    """Places that a syntax tree names: by a bare name, by ``module.name``, or by an import of its own."""
    inner = {alias: target for one in ast.walk(node) for alias, target in _imported(one, module)}
    chained = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute):
            names = _chain(one)
            if names and id(one) not in chained:
                chained |= {id(part) for part in ast.walk(one)}
                yield from _resolved(module, names, inner)
        elif isinstance(one, ast.Name) and id(one) not in chained:
            yield from _resolved(module, [one.id], inner)


def _chain(node: ast.Attribute) -> list[str]:
    """``a.b.c`` as a list of names; empty where it does not begin with a name."""
    names: list[str] = []
    value: ast.expr = node
    while isinstance(value, ast.Attribute):
        names, value = [value.attr, *names], value.value
    return [value.id, *names] if isinstance(value, ast.Name) else []


def _resolved(module: str, names: list[str], inner: dict[str, tuple[str, str | None]]) -> Iterator[Place]:
    """The place that ``a.b.c`` is, seen from a module; nothing for local names and other packages."""
    source = _source(module)
    first, rest = names[0], names[1:]
    if first in inner or (first in source.imports and first not in source.definitions):
        target, name = inner.get(first) or source.imports[first]
        yield from _attribute(target, ([] if name is None else [name]) + rest)
    elif first in source.definitions:
        yield Place(module, first)


def _attribute(module: str, names: list[str]) -> Iterator[Place]:
    """Where a name lives that was imported from a module, through packages that only pass it on."""
    if not _own(module.split(".")[0]):
        return
    if not names:
        yield Place(module, "")
    elif names[0] in _source(module).definitions:
        yield Place(module, names[0])
    elif _source(module).imports.get(names[0], (module, None))[0] != module:
        yield from _resolved(module, names, {})
    elif _file(f"{module}.{names[0]}") is not None:
        yield from _attribute(f"{module}.{names[0]}", names[1:])
    else:  # a name that a package hands out when asked
        owner = getattr(getattr(import_module(module), names[0], None), "__module__", module)
        if owner != module:
            yield from _attribute(owner, names)


@cache
def _own(package: str) -> bool:
    """Whether a package is neither installed by others nor part of Python."""
    path = str(_file(package) or "")
    return package == HOME or bool(path and "-packages" not in path and not path.startswith(get_path("stdlib")))


# ---- one file --------------------------------------------------------------------------------------------------------


@cache
def _source(module: str) -> Source:
    path = _file(module)
    tree = ast.parse("" if path is None else path.read_text(encoding="utf-8"))
    found = Source({}, {}, [])
    for node in tree.body:
        imported = list(_imported(node, module))
        names = _defined(node)
        if imported:
            found.imports.update(imported)
        elif names:
            for name in names:
                found.definitions.setdefault(name, []).append(_plain(node))
        elif not _silent(node):  # it may define and import, under conditions
            found.loose.append(_plain(node))
            found.imports.update(one for part in ast.walk(node) for one in _imported(part, module))
    return found


@cache
def _file(module: str) -> Path | None:
    """The file of a module, or nothing where it has none or does not exist."""
    known = getattr(sys.modules.get(module), "__file__", None)
    if known is None:
        try:
            spec = find_spec(module)
        except (ImportError, ValueError, AttributeError):
            return None
        known = None if spec is None else spec.origin
    return Path(known) if known is not None and known.endswith(".py") else None


def _imported(node: ast.AST, module: str) -> Iterator[tuple[str, tuple[str, str | None]]]:
    if isinstance(node, ast.ImportFrom):
        own = module.split(".")
        package = _file(module) is not None and str(_file(module)).endswith("__init__.py")
        above = own[: len(own) - node.level + package] if node.level else []
        target = ".".join([*above, *([node.module] if node.module else [])])
        yield from ((alias.asname or alias.name, (target, alias.name)) for alias in node.names)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            first = alias.name.split(".")[0]
            yield (alias.asname, (alias.name, None)) if alias.asname else (first, (first, None))


def _defined(node: ast.stmt) -> list[str]:
    """Names that a statement at the top of a file defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    parts = [one for target in targets for one in ast.walk(target)]
    inside = any(isinstance(one, ast.Attribute | ast.Subscript) for one in parts)  # of something else: it is loose
    return [] if inside else [one.id for one in parts if isinstance(one, ast.Name)]


def _silent(node: ast.stmt) -> bool:
    """Statements that change nothing: texts, and what runs for type checkers or as a command only."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.If) and any(
        isinstance(part, ast.Name) and part.id in ("TYPE_CHECKING", "__name__") for part in ast.walk(node.test)
    )


def _plain(node: ast.stmt) -> ast.stmt:
    """A statement without docstrings and without annotations, but for those in classes, which may define fields."""
    fields = {id(part) for one in ast.walk(node) if isinstance(one, ast.ClassDef) for part in one.body}
    for one in ast.walk(node):
        if isinstance(one, ast.AnnAssign) and id(one) not in fields:
            one.annotation = ast.Constant(None)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            one.returns = None
            given = one.args
            ends = [end for end in (given.vararg, given.kwarg) if end is not None]
            for argument in [*given.posonlyargs, *given.args, *given.kwonlyargs, *ends]:
                argument.annotation = None
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            one.body = [part for part in one.body if not _silent(part)] or [ast.Pass()]
    return node
