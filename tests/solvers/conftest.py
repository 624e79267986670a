"""What tests of kernels for whole solves have in common."""

import pytest

from jaxpriv import InteriorPoint
from jaxpriv.solving import loops


@pytest.fixture
def only_kernels(monkeypatch, no_compiler, worth_compiling):
    """Nothing is compiled, however often it comes, and nothing is iterated on in NumPy."""
    monkeypatch.setattr(InteriorPoint, "step", None)
    monkeypatch.setattr(loops, "_ENOUGH", 0.0)
    worth_compiling(0.0)
