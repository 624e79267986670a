"""The best posterior for given prices: one file for each structure of the joint distribution."""

from jaxpriv.funnels.pricing._base import AbstractPricer, Priced

__all__ = ["AbstractPricer", "Priced"]
