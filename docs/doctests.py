"""Examples of docstrings that stand without a heading get one, so that the API reference shows them as code."""

import re
from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Puts ``Examples`` above the first doctest of a docstring that has no such section."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every object that is read."""
        told = obj.docstring
        if told is not None and not re.search(r"^Examples\n-+$", told.value, re.MULTILINE):
            told.value = re.sub(r"\n\n(?=>>> )", "\n\nExamples\n--------\n", told.value, count=1)
