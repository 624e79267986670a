"""The convex program of any leakage measures: objective, average limits and worst-outcome limits.

Its terms, their sets of rules and their roles are those of `leakage.rule_sets`:

    minimise <cost, W> + objective terms + peak  subject to  <constraints_r, W> <= budgets_r + marks_r peak.

The least worst outcome is one program too. Where WORST terms of smooth kinds have a `rate`, they read

    phi(y) + offset . W_y <= peak rate . W_y  for every y,

and the peak, the largest ratio of an output, is what is minimised. It multiplies W, so the program is quasi-convex.
"""

from dataclasses import dataclass, field, replace
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

    def at_peak(self, peak: Any) -> "MeasuredProgram":
        """The limits of a minimax program where its peak is as given."""
        terms = [replace(term, offset=term.offset_at(peak), rate=None) for term in self.terms]
        return replace(self, terms=tuple(terms))

    @property
    def minimax(self) -> bool:
        """Whether the peak is the largest ratio of an output."""
        return any(term.rate is not None for term in self.terms)
