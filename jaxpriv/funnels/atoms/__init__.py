"""The linear program over posteriors: column generation with proved bounds."""

from jaxpriv.funnels.atoms.column_generation import ColumnGeneration

__all__ = ["ColumnGeneration"]
