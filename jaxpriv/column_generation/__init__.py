"""Linear programs over columns that are too many to list: masters, their pools of columns, prices, and rounds.

A release is a measure over posteriors q with mean p; what it leaks and discloses are averages over it. So the best one
solves a linear program over posteriors, its columns. A bound on the reduced costs of all posteriors, at any prices, is
a bound on the optimum. Finding one, and columns below it, is pricing: by that `funnels` and `extremal` differ.
"""

from jaxpriv.column_generation.master import MasterSolution, best_plan
from jaxpriv.column_generation.objective import MOST, Objective
from jaxpriv.column_generation.pool import Pool, cleaned

__all__ = ["MOST", "MasterSolution", "Objective", "Pool", "best_plan", "cleaned"]
