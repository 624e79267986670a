"""Where a distribution can be, given counts of it: with a stated probability, for every sample size.

`sets`: balls and boxes around the frequencies, their radii, and linear functionals over them; intervals of single
probabilities, and of means of functions that were fixed beforehand. `population`: all of these for a table
of (S, X), and for the output of a mechanism.
"""

from jaxpriv.estimation.confidence.population import Outputs, Population, distribution_set, population, seen_through
from jaxpriv.estimation.confidence.sets import (
    AbstractConfidenceSet,
    Box,
    DivergenceBall,
    Intersection,
    L1Ball,
    bernstein_interval,
    chernoff_interval,
    clopper_pearson,
    divergence_quantile,
    divergence_radius,
    divergence_tail,
    empirical_radius,
    l1_radius,
    mcdiarmid_radius,
    mean_interval,
    weissman_radius,
)

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
