"""Funnels of measures of finitely many actions, such as the guessing probability: linear programs over vertices."""

from jaxpriv.funnels.actions.generation import VertexGeneration

__all__ = ["VertexGeneration"]
