"""The best posterior for given prices: one file for each structure of the joint distribution."""

from jaxpriv.funnels.pricing._base import AbstractPricer, Priced
from jaxpriv.funnels.pricing.components import Component, blocks_of, whole_block
from jaxpriv.funnels.pricing.exact import connected_pricer, exact_pricer

__all__ = ["AbstractPricer", "Component", "Priced", "blocks_of", "connected_pricer", "exact_pricer", "whole_block"]
