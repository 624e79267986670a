"""How the library computes, changed by tests: how much its programs are optimised, and without which kernels.

The suite runs `QUICKLY`, and so do the processes that its tests start for what is not the bits of a release: a line of
Python after which the library compiles its programs with few optimisations, in two thirds of the time.
"""

import contextlib
from collections.abc import Iterator

import pytest

from jaxpriv._runtime import native
from jaxpriv.solvers.interior_point import whole

kernels = pytest.mark.skipif(native.absence() is not None, reason=f"no CPU kernels: {native.absence()}")

QUICKLY = "from jaxpriv._runtime import compilation; compilation._OPTIONS['xla_backend_optimization_level'] = 0\n"


@contextlib.contextmanager
def without_whole_solves() -> Iterator[None]:
    """No kernel solves a problem as a whole: the steps of the method are taken one by one."""
    there, whole.has_kernels = whole.has_kernels, lambda: False
    try:
        yield
    finally:
        whole.has_kernels = there
