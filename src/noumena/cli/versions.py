"""``noumena --version``: the versions a bug report needs; nothing heavy is imported."""

from __future__ import annotations

import platform
import re
from importlib import metadata
from typing import Annotated

import typer

DEVELOPERS = "dev"
"""The extra for development, which a user's report leaves out."""


def versions() -> str:
    """Versions of noumena, of Python, and of every requirement and extra, one to a line."""
    import noumena

    lines = [f"noumena {noumena.__version__}", f"Python {platform.python_version()} on {platform.platform()}"]
    needed = requirements()
    lines += [_installed(name) for name in needed.pop("", ())]
    lines += [f"[{extra}] {', '.join(map(_installed, names))}" for extra, names in needed.items()]
    return "\n".join(lines)


def requirements() -> dict[str, list[str]]:
    """Names of distributions by the extra that asks for them, the core's under the empty name first."""
    try:
        asked = metadata.requires("noumena") or []
    except metadata.PackageNotFoundError:  # run from a folder of sources
        asked = []
    by_extra: dict[str, list[str]] = {"": []}
    for line in asked:
        name, extra = parsed(line)
        by_extra.setdefault(extra, []).append(name)
    by_extra.pop(DEVELOPERS, None)
    return by_extra


def parsed(requirement: str) -> tuple[str, str]:
    """The distribution of a requirement, and its extra.

    >>> parsed("zuko>=1.3; extra == 'flows'"), parsed("scikit-learn>=1.6")
    (('zuko', 'flows'), ('scikit-learn', ''))
    """
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    extra = re.search(r"""extra == ['"]([\w-]+)""", requirement)
    return name, extra[1] if extra else ""


def _installed(name: str) -> str:
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return f"{name} not installed"


def _show(asked: bool) -> bool:
    if asked:
        print(versions())
        raise typer.Exit
    return asked


def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print versions, for a bug report.", callback=_show, is_eager=True)
    ] = False,
) -> None:
    """Learn the hidden variables behind data, and know what about them can be trusted."""
