"""The convex program that solvers and certificates see: mutual information, average form.

For joints J_k (k = 1..K), a mechanism W and the average leakage F_k(W) = I(S;Y) under J_k:

    OBJECTIVE  minimise  F_1(W) + <cost, W>                       (K = 1)
    WORST      minimise  max_k F_k(W) + <cost, W>
    LIMIT      minimise  <cost, W>   subject to  F_1(W) <= limit  (K = 1)

    subject to <constraints_r, W> <= budgets_r,  r = 1..R,  and W row-stochastic.

`cost` and `constraints` carry the mass of the data already: for E d they hold p(x) d(x, y).
Every problem of Calmon-Fawaz's Theorem 1, its Remarks 1 and 3 and Corollary 1 is one of these.
"""

import enum
from dataclasses import dataclass, field
from typing import Any

import jax


class Form(enum.Enum):
    """Where the leakage stands in the program."""

    OBJECTIVE = "objective"
    WORST = "worst"
    LIMIT = "limit"


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Program:
    """One convex program over mechanisms of shape (X, Y). All arrays float, one dtype."""

    joints: Any  # (K, S, X)
    cost: Any  # (X, Y)
    constraints: Any  # (R, X, Y); R may be 0
    budgets: Any  # (R,)
    limit: Any  # (): the leakage limit of form LIMIT, otherwise 0
    support: Any  # (X, Y) bool: where the mechanism may have mass
    anchor: Any  # (X, Y): a mechanism that meets every limit, to repair iterates with
    form: Form = field(metadata={"static": True})
    diagonal: bool = field(metadata={"static": True}, default=False)  # one joint, a diagonal matrix: S = X

    @property
    def priors(self) -> Any:
        """P_k(s), shape (K, S)."""
        return self.joints.sum(axis=2)

    @property
    def masses(self) -> Any:
        """P_k(x), shape (K, X)."""
        return self.joints.sum(axis=1)


def repair(xp: Any, program: Program, mechanism: Any, leakage: Any) -> Any:
    """The least mixture of `mechanism` with the anchor that meets every limit.

    Budgets are linear, so the mixing weight is exact for them; leakage is convex and zero at the
    anchor of form LIMIT, so mixing with weight 1 - limit/leakage suffices there.
    """
    used = (program.constraints * mechanism).sum(axis=(1, 2))
    anchored = (program.constraints * program.anchor).sum(axis=(1, 2))
    over = used > program.budgets
    room = xp.where(over & (used > anchored), used - anchored, 1.0)
    share = xp.where(over, xp.clip((used - program.budgets) / room, 0.0, 1.0), 0.0).max(initial=0.0)
    if program.form is Form.LIMIT:
        above = leakage > program.limit
        # A traced limit may be negative: no mixture meets it, and a weight above 1 would leave the simplex.
        share = xp.where(above, xp.clip(1.0 - program.limit / xp.where(above, leakage, 1.0), 0.0, 1.0), share)
    return (1.0 - share) * mechanism + share * program.anchor
