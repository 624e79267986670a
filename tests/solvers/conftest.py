"""What tests of kernels for whole solves have in common."""

import pytest

from jaxpriv import InteriorPoint
from jaxpriv.solving import loops


@pytest.fixture
def kernels_alone(monkeypatch, forgotten):
    """A solve that no kernel makes as a whole fails."""
    monkeypatch.setattr(InteriorPoint, "step", None)


@pytest.fixture
def only_kernels(monkeypatch, kernels_alone, no_compiler, worth_compiling):
    """Nothing is compiled, however often it comes, and nothing is iterated on in NumPy."""
    monkeypatch.setattr(loops, "_ENOUGH", 0.0)
    worth_compiling(0.0)
