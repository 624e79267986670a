"""Where a distribution can be, given counts of it: with a stated probability, for every sample size.

`radii` and `sets`: balls and boxes around the frequencies and the linear functionals over them. `binomial` and
`means`: single probabilities, and means of functions that were fixed beforehand. `population`: all of
it for a table of (S, X), and what follows for the output of a mechanism.
"""

from jaxpriv.estimation.confidence.binomial import clopper_pearson
from jaxpriv.estimation.confidence.means import bernstein_interval, chernoff_interval, mean_interval
from jaxpriv.estimation.confidence.population import Outputs, Population, distribution_set, population, seen_through
from jaxpriv.estimation.confidence.radii import (
    divergence_quantile,
    divergence_radius,
    divergence_tail,
    empirical_radius,
    l1_radius,
    mcdiarmid_radius,
    weissman_radius,
)
from jaxpriv.estimation.confidence.sets import AbstractConfidenceSet, Box, DivergenceBall, Intersection, L1Ball

__all__ = [
    "AbstractConfidenceSet",
    "Box",
    "DivergenceBall",
    "Intersection",
    "L1Ball",
    "Outputs",
    "Population",
    "bernstein_interval",
    "chernoff_interval",
    "clopper_pearson",
    "distribution_set",
    "divergence_quantile",
    "divergence_radius",
    "divergence_tail",
    "empirical_radius",
    "l1_radius",
    "mcdiarmid_radius",
    "mean_interval",
    "population",
    "seen_through",
    "weissman_radius",
]
