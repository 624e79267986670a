"""What tests of kernels for whole solves have in common."""

import pytest

from jaxpriv._runtime import compilation
from jaxpriv.solving import loops


@pytest.fixture
def library_settings(monkeypatch):
    """The settings of a solve, in a process that has solved nothing before."""
    monkeypatch.delenv(loops.SWITCH, raising=False)
    monkeypatch.setattr(loops, "_SPENT", type(loops._SPENT)())
    with compilation.own_settings():
        yield
