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
from typing import Any, TypeAlias

import jax
import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv.leakage.rule_sets import ENTROPIC, Role, Term
from jaxpriv.problems.measured import MeasuredProgram

# Newton steps that put a mechanism onto equations, and what they may be missed by afterwards, relative to their size.
_CORRECTIONS = 5
_MET = 1e-12


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
    equal: Any = None  # (R,) bool: constraints that hold with equality, at a price of any sign; None: there are none

    @property
    def priors(self) -> Any:
        """P_k(s), shape (K, S)."""
        return self.joints.sum(axis=2)

    @property
    def masses(self) -> Any:
        """P_k(x), shape (K, X)."""
        return self.joints.sum(axis=1)

    def lowered(self) -> MeasuredProgram:
        """The same program with one relative entropy for each joint as its terms."""
        like = self.cost
        return MeasuredProgram(
            terms=tuple(
                Term(
                    rows=joint,
                    reference=joint.sum(axis=1),
                    cap=None,
                    offset=xp.zeros_like(joint[0]),
                    bound=self.limit if self.form is Form.LIMIT else xp.zeros((), like=like),
                    parameter=xp.zeros((), like=like),
                    rule_set=ENTROPIC,
                    role=_ROLES[self.form],
                    normalised=False,
                )
                for joint in (self.joints[k] for k in range(self.joints.shape[0]))
            ),
            mass=self.masses.mean(axis=0),
            cost=self.cost,
            constraints=self.constraints,
            budgets=self.budgets,
            marks=xp.zeros_like(self.budgets),
            support=self.support,
            anchor=self.anchor,
            equal=self.equal,
            diagonal=self.diagonal,
        )

    def stacked(self, scores: Any, weights: Any, multipliers: Any) -> tuple[Any, Any]:
        """(k (Y, K S), price) of the lowered program for scores (K, Y, S), weights (K,), multipliers (R,)."""
        k = xp.moveaxis(weights[:, None, None] * scores, 0, 1).reshape(scores.shape[1], -1)
        priced = self.form is not Form.OBJECTIVE
        return k, xp.concatenate([multipliers, weights]) if priced else multipliers

    def unstacked(self, k: Any, price: Any) -> tuple[Any, Any, Any]:
        """(scores, weights, multipliers) from the rules times prices and the prices of the lowered program.

        A joint of price 0 has scores 0: they prove nothing and cost nothing.
        """
        groups, count = self.joints.shape[0], self.budgets.shape[0]
        weights = xp.ones(groups, like=k) if self.form is Form.OBJECTIVE else price[count:]
        held = weights > 0
        scores = xp.moveaxis(k.reshape(k.shape[0], groups, -1), 1, 0)
        scores = xp.where(held[:, None, None], scores / xp.where(held, weights, 1.0)[:, None, None], 0.0)
        return scores, weights, price[:count]


AnyProgram: TypeAlias = Program | MeasuredProgram


def lowered(program: AnyProgram) -> MeasuredProgram:
    """The program in terms of measures, which it may be already."""
    return program.lowered() if isinstance(program, Program) else program


_ROLES = {Form.OBJECTIVE: Role.OBJECTIVE, Form.WORST: Role.PEAK, Form.LIMIT: Role.AVERAGE}


def onto_equations(program: Any, mechanism: Any) -> Any:
    """A mechanism near `mechanism` that meets the constraints in `program.equal`, NaN if none was found.

    Entries move in proportion to themselves, W (1 + sum_r t_r c_r) with c_r above its mean in every row under W:
    Newton's method in t, whose every step squares what is left.
    """
    mine = program.equal[:, None, None]
    c = xp.where(mine, program.constraints, 0.0)
    for _ in range(_CORRECTIONS):
        missing = xp.where(program.equal, program.budgets - (c * mechanism).sum(axis=(1, 2)), 0.0)
        above = c - (c * mechanism).sum(axis=2, keepdims=True)
        gram = xp.einsum("rxy,sxy->rs", above * mechanism, above)
        steps = (xp.of(gram).linalg.pinv(gram) * missing).sum(axis=1)
        mechanism = xp.maximum(mechanism * (1.0 + (steps[:, None, None] * above).sum(axis=0)), 0.0)
        mechanism = mechanism / mechanism.sum(axis=1, keepdims=True)
    missing = xp.where(program.equal, program.budgets - (c * mechanism).sum(axis=(1, 2)), 0.0)
    met = abs(missing) <= _MET * (abs(program.budgets) + (abs(c) * mechanism).sum(axis=(1, 2)))
    return xp.where(met.all(), mechanism, np.nan)


def repair(program: Program, mechanism: Any, leakage: Any) -> Any:
    """The least mixture of `mechanism` with the anchor that meets every limit.

    Budgets are linear, so the mixing weight is exact for them; leakage is convex and zero at the
    anchor of form LIMIT, so mixing with weight 1 - limit/leakage suffices there. Equations are met first.
    """
    if program.equal is not None:
        mechanism = onto_equations(program, mechanism)
    used = (program.constraints * mechanism).sum(axis=(1, 2))
    anchored = (program.constraints * program.anchor).sum(axis=(1, 2))
    over = used > program.budgets
    if program.equal is not None:
        over = over & ~program.equal
    room = xp.where(over & (used > anchored), used - anchored, 1.0)
    share = xp.where(over, xp.clip((used - program.budgets) / room, 0.0, 1.0), 0.0).max(initial=0.0)
    if program.form is Form.LIMIT:
        above = leakage > program.limit
        # A traced limit may be negative: no mixture meets it, and a weight above 1 would leave the simplex.
        share = xp.where(above, xp.clip(1.0 - program.limit / xp.where(above, leakage, 1.0), 0.0, 1.0), share)
    return (1.0 - share) * mechanism + share * program.anchor
