"""The interior-point method for programs with any leakage measures."""

from jaxpriv.solvers.conic.method import ConicInteriorPoint

__all__ = ["ConicInteriorPoint"]
