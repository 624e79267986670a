"""Funnels of measures of finitely many actions, such as the guessing probability: linear programs over vertices.

And of smooth measures, over the posteriors that the search over boxes finds.
"""

from jaxpriv.funnels.actions.generation import VertexGeneration

__all__ = ["VertexGeneration"]
