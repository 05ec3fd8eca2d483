"""What a refusal sounds like: one sentence about what must hold and what was given."""

from collections.abc import Callable
from typing import Any

import pytest

from noumena.checks import InputError


def refusal(call: Callable[..., object], *given: Any, kind: type[Exception] = InputError, **settings: Any) -> str:
    """The sentence in which a call is refused."""
    with pytest.raises(kind) as error:
        call(*given, **settings)
    said = str(error.value)
    assert said.strip()
    assert "\n" not in said
    return said


def ids(rows: list[tuple[Callable[[], object], str]]) -> list[Any]:
    """Rows of calls and sentences as parameters, each with the beginning of its sentence as a name."""
    return [pytest.param(*row, id=row[-1][:40]) for row in rows]
