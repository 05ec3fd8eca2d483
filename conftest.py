"""Shapes and types are checked at run time under pytest; one thread, as small tensors want it, or as many as
``NOUMENA_TEST_THREADS`` says."""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

typechecked = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is welcome where a float is

papers = sorted(file.parent.name for file in Path(__file__).parent.glob("papers/*/__init__.py"))
install_import_hook(["noumena", *papers], f"{__name__}.typechecked")

torch.set_num_threads(int(os.environ.get("NOUMENA_TEST_THREADS", "1")))


@pytest.fixture(autouse=True)
def _the_same_numbers_in_every_order() -> None:
    """What a test draws from torch's global stream does not depend on the tests before it."""
    torch.manual_seed(0)
