"""What tests of kernels for whole solves have in common."""

import pytest

from jaxpriv import InteriorPoint


@pytest.fixture
def kernels_alone(monkeypatch, forgotten):
    """A solve that no kernel makes as a whole fails."""
    monkeypatch.setattr(InteriorPoint, "step", None)


@pytest.fixture
def only_kernels(kernels_alone, no_compiler, enough, worth_compiling):
    """Nothing is compiled, however often it comes, and nothing is iterated on in NumPy."""
    enough(0.0)
    worth_compiling(0.0)
