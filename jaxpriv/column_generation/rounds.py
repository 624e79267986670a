"""Rounds of column generation: solve the program over the known columns, look for better ones at its prices, repeat."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv.column_generation.master import MasterSolution, best_plan
from jaxpriv.column_generation.objective import Objective
from jaxpriv.column_generation.pool import Pool

# A way to find columns: from a plan and the pool that it is about to (a bound on the least cost, columns). The bound is
# -inf where nothing is proved.
Way: TypeAlias = Callable[[MasterSolution, Pool], tuple[float, Pool]]


@dataclass(frozen=True, eq=False)
class GeneratedColumns:
    """What the rounds ended with: the columns and their weights, the value and the best bound of the least cost.

    `ended` is whether nothing more was found, or the bound was close enough, after so many `rounds`.
    """

    pool: Pool
    plan: MasterSolution
    bound: float
    rounds: int
    ended: bool

    @property
    def used(self) -> tuple[Pool, np.ndarray]:
        """The columns with mass, and their weights."""
        index = np.flatnonzero(self.plan.weights[0] > 0)
        return self.pool.take(index), self.plan.weights[0][index]


def generate_columns(
    pool: Pool,
    objective: Objective,
    ways: Sequence[Way],
    *,
    closed: Callable[[MasterSolution, float], bool],
    worth: Callable[[MasterSolution], float],
    rounds: int,
    clock: Clock,
    report: Callable[[int, float, float], None],
    always: int = 1,
    most: int = 100_000,
) -> GeneratedColumns:
    """Column generation over one block from `pool`, which has to admit a plan.

    Each round tries the `ways` in their order, until one of them has found columns that gain more than `worth`. The
    rounds end where none has, when a plan and the best bound are `closed`, with `rounds` and clock, and before a
    program that the backend fails to solve.

    Args:
        pool: the columns to begin with; the first `always` of them stay, of the others about `most` at most.
        objective: of the program.
        ways: how columns are found; the bounds that they prove hold for the program.
        closed: whether the bound is close enough to the value of a plan.
        worth: what a column has to gain, in units of a - lambda b.
        rounds: most rounds.
        clock: ends the rounds early.
        report: called with the round, the value and the bound of the least cost.
        always: how many.
        most: how many.
    """
    bound, done, plan, solved = -np.inf, 0, None, pool
    while True:
        try:
            plan, solved = best_plan((pool,), objective), pool
        except ArithmeticError:
            if plan is None:
                raise
            return GeneratedColumns(solved, plan, bound, done, False)
        report(done, plan.value, bound)
        if closed(plan, bound):
            return GeneratedColumns(pool, plan, bound, done, True)
        if done >= rounds or clock.expired():
            return GeneratedColumns(pool, plan, bound, done, False)
        done += 1
        needed = plan.weights[0] > 0
        needed[:always] = True
        (prices,), lam = plan.prices, plan.lam
        trimmed = pool.trimmed(objective.sign * pool.reduced(prices, lam), needed, most)
        for way in ways:
            proved, columns = way(plan, pool)
            bound = max(bound, proved)
            larger = trimmed + columns.take(
                np.flatnonzero(objective.sign * columns.reduced(prices, lam) < -worth(plan))
            )
            if len(larger.a) > len(trimmed.a):
                pool = larger
                break
        else:
            return GeneratedColumns(pool, plan, bound, done, True)
