"""What moved from ``worlds`` to ``data`` keeps its old name for one release."""

import pytest

import noumena as nm


@pytest.mark.parametrize("name", nm.data.__all__)
def test_the_old_name_works_and_says_the_new_one(name):
    with pytest.warns(DeprecationWarning, match=rf"noumena.worlds.{name} is now noumena.data.{name};"):
        assert getattr(nm.worlds, name) is getattr(nm.data, name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'read_nothing'"):
        nm.worlds.read_nothing  # noqa: B018
