"""The convex program of any leakage measures: objective, average limits and worst-outcome limits.

Its terms, their sets of rules and their roles are those of `leakage.rule_sets`:

    minimise <cost, W> + objective terms + peak  subject to  <constraints_r, W> <= budgets_r + marks_r peak.
"""

from dataclasses import dataclass, field
from typing import Any

import jax

from jaxpriv.leakage.rule_sets import Role, Term


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class MeasuredProgram:
    """One convex program over mechanisms of shape (X, Y)."""

    terms: tuple[Term, ...]
    mass: Any  # (X,): P(x), for the scale of the central path
    cost: Any  # (X, Y)
    constraints: Any  # (R, X, Y)
    budgets: Any  # (R,)
    marks: Any  # (R,): 1 where the peak is added to the budget
    support: Any  # (X, Y) bool
    anchor: Any  # (X, Y): meets every limit
    equal: Any = None  # (R,) bool: constraints that hold with equality, at a price of any sign; None: there are none
    shares: bool = field(metadata={"static": True}, default=False)  # whether any of `marks` is 1
    diagonal: bool = field(metadata={"static": True}, default=False)  # one term, whose rows are a diagonal matrix

    @property
    def peaked(self) -> bool:
        """Whether there is a peak to be minimised."""
        return self.shares or any(term.role is Role.PEAK for term in self.terms)
