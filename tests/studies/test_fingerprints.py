"""Fingerprints of code: a change is seen by exactly the cells that run it."""

import ast
import importlib
import itertools
import re
import textwrap
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from noumena.studies import fingerprints
from noumena.studies.fingerprints import code_version, parts

NUMBERS = itertools.count()
PACKAGE = {
    "__init__.py": """
        from PKG import sub
        from PKG.sub import handed_on
        """,
    "sub.py": '''
        """Functions that others use."""

        SCALE = 2
        TABLE = {}
        TABLE["a"] = 1

        def handed_on(x):
            return x + 100

        def chained(x):
            return x * SCALE

        def by_name(x):
            return x - 1

        def inside(x):
            return x - 2

        def unrelated(x):
            return x

        def with_default(x, power=3):
            """Text."""
            return x**power
        ''',
    "kinds.py": """
        from dataclasses import dataclass

        class Base:
            def shared(self):
                return 1

        @dataclass
        class Kind(Base):
            size: int = 4

            def own(self):
                return 2

        def wrapping(function):
            def wrapped(*args):
                return function(*args) + 10
            return wrapped

        @wrapping
        def decorated(x):
            return x
        """,
    "whole.py": """
        from PKG.sub import by_name

        def one(x):
            return 1
        """,
    "loops.py": """
        from PKG import loops_back

        def even(n):
            return n == 0 or loops_back.odd(n - 1)
        """,
    "loops_back.py": """
        from PKG import loops

        def odd(n):
            return n != 0 and loops.even(n - 1)
        """,
    "guarded.py": """
        try:
            from PKG.sub import unrelated as tried
        except ImportError:
            tried = None

        def guarded(x):
            return tried(x)
        """,
    "settings.py": """
        def used(x):
            return x + 7
        """,
    "study.py": """
        from __future__ import annotations

        import PKG
        import PKG.kinds
        from PKG import guarded, loops, settings, sub, whole
        from PKG import handed_on as renamed

        CONSTANT: int = 5
        LEFT, RIGHT = 1, 2
        settings.X = 3

        def constant(x):
            return x + CONSTANT

        def left(x):
            return x + LEFT

        def chained(x: int) -> int:
            y: int = sub.chained(x)  # a comment
            return y

        def through_package(x):
            return PKG.sub.chained(x)

        def reexported(x):
            return renamed(x)

        def reexported_by_package(x):
            return PKG.handed_on(x)

        def inside(x):
            from PKG.sub import inside as found
            return found(x)

        def by_string(x, name="by_name"):
            return getattr(whole, name)(x)

        def default(x):
            return sub.with_default(x)

        def method(x):
            return PKG.kinds.Kind().own() + x

        def decorated(x):
            return PKG.kinds.decorated(x)

        def recursive(n):
            return 1 if n == 0 else n * recursive(n - 1)

        def cyclic(n):
            return loops.even(n)

        def set_from_outside(x):
            return settings.used(x)

        def conditional(x):
            return guarded.guarded(x)

        def table(x):
            return sub.TABLE["a"]

        nameless = lambda x: sub.chained(x)

        def made(scale):
            def cell(x):
                return sub.chained(x) * scale
            return cell

        def bare_wrapper(function):
            def wrapped(x):
                return function(x)
            return wrapped

        @bare_wrapper
        def wrapped_cell(x):
            return x + sub.SCALE
        """,
}
CELLS = [
    *("constant", "left", "chained", "through_package", "reexported", "reexported_by_package", "inside", "by_string"),
    *("default", "method", "decorated", "recursive", "cyclic", "set_from_outside", "conditional", "table"),
    *("nameless", "wrapped_cell"),
]


@pytest.fixture
def versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The version of every cell of a new copy of the package, one statement of which was replaced."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def read(file: str = "study.py", old: str = "", new: str = "", name: str | None = None) -> dict[str, str]:
        package = f"pkg{next(NUMBERS)}"
        (tmp_path / package).mkdir()
        for path, text in PACKAGE.items():
            text = textwrap.dedent(text)
            if path == file:
                assert old in text
                text = text.replace(old, new)
            (tmp_path / package / path).write_text(text.replace("PKG", package))
        importlib.invalidate_caches()
        study = import_module(f"{package}.study")
        made = {cell: getattr(study, cell) for cell in CELLS} | {"closure": study.made(2)}
        return {cell: version(function, package) for cell, function in made.items()}

    return read


def version(function, package: str) -> str:
    """As ``code_version``, for packages whose name does not matter."""
    found = {name.replace(package, "PKG"): text for name, text in parts(function).items()}
    return repr(sorted(found.items()))


@pytest.fixture
def same_names(monkeypatch: pytest.MonkeyPatch):
    """The package's own name stands in its syntax trees; it is taken out."""
    dumped = fingerprints._dumped

    def without(node):
        return re.sub(r"pkg\d+", "PKG", dumped(node))

    monkeypatch.setattr(fingerprints, "_dumped", without)


CHAINED = {"chained", "through_package", "nameless", "closure"}
SUB = {*CHAINED, "reexported", "reexported_by_package", "inside", "by_string", "default", "conditional", "table"}


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("sub.py", "x * SCALE", "x / SCALE", CHAINED),
        ("sub.py", "SCALE = 2", "SCALE = 3", CHAINED | {"wrapped_cell"}),
        ("study.py", "CONSTANT: int = 5", "CONSTANT: int = 6", {"constant"}),
        ("study.py", "LEFT, RIGHT = 1, 2", "LEFT, RIGHT = 1, 3", {"left"}),
        ("sub.py", "power=3", "power=4", {"default"}),
        ("sub.py", "x + 100", "x + 101", {"reexported", "reexported_by_package"}),
        ("sub.py", "x - 2", "x - 3", {"inside"}),
        ("sub.py", "x - 1", "x - 9", {"by_string"}),
        ("whole.py", "return 1", "return 2", {"by_string"}),
        ("kinds.py", "return 1", "return 3", {"method"}),
        ("kinds.py", "return 2", "return 3", {"method"}),
        ("kinds.py", "size: int = 4", "size: int = 5", {"method"}),
        ("kinds.py", "class Kind(Base)", "class Kind", {"method"}),
        ("kinds.py", "+ 10", "+ 11", {"decorated"}),
        ("kinds.py", "@wrapping\n", "", {"decorated"}),
        ("study.py", "n * recursive", "2 * n * recursive", {"recursive"}),
        ("loops_back.py", "n != 0", "n > 0", {"cyclic"}),
        ("settings.py", "x + 7", "x + 8", {"set_from_outside"}),
        ("sub.py", "def unrelated(x):\n    return x", "def unrelated(x):\n    return 2 * x", {"conditional"}),
        ("study.py", "sub.chained(x) * scale", "sub.chained(x) + scale", {"closure"}),
        ("study.py", "lambda x: sub", "lambda x: 2 * sub", {"nameless"}),
        ("study.py", "x + sub.SCALE", "x - sub.SCALE", {"wrapped_cell"}),
        ("study.py", "return function(x)", "return -function(x)", {"wrapped_cell"}),
    ],
)
def test_a_change_is_seen_by_exactly_the_cells_that_run_it(versions, same_names, file, old, new, changed):
    before, after = versions(), versions(file, old, new)
    assert {cell for cell in before if before[cell] != after[cell]} == changed


def test_a_statement_that_fills_a_table_counts_for_the_whole_file(versions, same_names):
    before, after = versions(), versions("sub.py", '["a"] = 1', '["a"] = 2')
    assert {cell for cell in before if before[cell] != after[cell]} == SUB | {"wrapped_cell"}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("sub.py", '"""Functions that others use."""', '"""Other words."""'),
        ("sub.py", '    """Text."""\n', ""),
        ("study.py", "  # a comment", ""),
        ("study.py", "x: int) -> int", "x: float) -> float"),
        ("study.py", "y: int =", "y: float ="),
        ("study.py", "CONSTANT: int", "CONSTANT: float"),
        ("sub.py", "\n\n", "\n\n\n\n"),
        ("sub.py", "x**power", "(x ** power)"),
        ("sub.py", "def unrelated", "def more(x):\n    return 1\n\ndef unrelated"),
        ("study.py", "def constant", "def more(x):\n    return 1\n\ndef constant"),
        ("study.py", "from __future__", "if __name__ == '__main__':\n    print(1)\n\nfrom __future__"),
    ],
    ids=lambda text: text.strip()[:20],
)
def test_words_layout_annotations_and_what_is_not_used_change_nothing(versions, same_names, file, old, new):
    if "__future__" in old:  # it must stay first
        old, new = "CONSTANT: int", "if __name__ == '__main__':\n    print(1)\n\nCONSTANT: int"
    assert versions(file, old, new) == versions()


def test_a_function_that_stands_in_no_file_has_the_same_version_in_every_process(monkeypatch):
    """Sets of constants have another order in every process."""
    made = {"__name__": "nowhere"}
    exec("def cell(x):\n    return x in {'a', 'b'}", made)
    code = made["cell"].__code__
    (members,) = [c for c in code.co_consts if isinstance(c, frozenset)]

    class Turned(frozenset):
        def __iter__(self):
            return iter(sorted(members, reverse=True))

        def __repr__(self):
            return "another order"

    other = code.replace(co_consts=tuple(Turned(c) if c is members else c for c in code.co_consts))
    assert fingerprints._bytecode(other) == fingerprints._bytecode(code)
    before = code_version(made["cell"])
    exec("def cell(x):\n    return x in {'a', 'c'}", made)
    assert code_version(made["cell"]) != before


def test_an_empty_field_of_a_syntax_tree_does_not_count():
    """Later versions of Python have more of them."""
    tree = ast.parse("def cell(x):\n    return x").body[0]
    before = fingerprints._dumped(tree)
    tree._fields = (*tree._fields, "type_params")
    tree.type_params = []
    assert fingerprints._dumped(tree) == before
    tree.type_params = [ast.Name("T")]
    assert fingerprints._dumped(tree) != before


def test_a_partial_function_counts_with_what_it_was_given():
    given = [code_version(partial(textwrap.fill, width=width)) for width in (3, 3, 4)]
    assert given[0] == given[1] != given[2]


def test_a_closure_counts_with_what_it_holds():
    def made(scale):
        return lambda x: x * scale

    assert code_version(made(1)) == code_version(made(1)) != code_version(made(2))


def test_several_functions_count_together():
    assert code_version(parts, code_version) == code_version(code_version, parts)
    assert code_version(parts, code_version) != code_version(Path.exists)


def test_a_study_follows_its_estimator_and_not_the_engine_that_runs_it():
    followed = parts(import_module("noumena.studies.scores.known").cell)
    assert any(name.startswith("noumena.metrics") for name in followed)
    assert not [name for name in followed if name.startswith(("noumena.studies.engine", "noumena.checks", "torch"))]
