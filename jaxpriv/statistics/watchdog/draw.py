"""The best draw R_Y for the withheld symbols: the watchdog of least leakage, by one convex program.

With R_Y on X_eps^c every draw leaks the same: an output y there has P(s, y) = R_Y(y) P(s, X_eps^c), and a measure that
is homogeneous in P(., y) adds up to that of one output. (A worst outcome has the same posterior in all of them.) A draw
that may also be a released symbol mixes it with withheld ones, which lowers the leakage of every measure: with y kept
for y in X_eps, and R_Y for the withheld symbols together, the leakage is convex in R_Y. This is the problem of a
mechanism for the joint whose withheld symbols are one, and where a released symbol must mean itself.
"""

from dataclasses import dataclass

import numpy as np

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.types import Joint
from jaxpriv._runtime.validation import on_host, scalar
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractLeakage
from jaxpriv.problems import DistortionProblem
from jaxpriv.program.solution import Solution
from jaxpriv.solving.solve import solve
from jaxpriv.statistics.watchdog.scoring import host_joint, log_lift_of, scores_of


@dataclass(frozen=True, eq=False)
class BestDraw:
    """The draw, the watchdog that it makes, and the proof that no other draw leaks less.

    Attributes:
        draw: R_Y `(x,)`; what it gives to withheld symbols is spread evenly over them.
        mechanism: P(y|x) `(x, x)`.
        solution: of the convex program, with `value` (the leakage of `mechanism`), `lower_bound` (of any draw), `gap`
            and `status`; in it the withheld symbols are the last one.
    """

    draw: np.ndarray
    mechanism: np.ndarray
    solution: Solution

    __repr__ = summary


def best_draw(
    joint: Joint, epsilon: float, leakage: AbstractLeakage | None = None, *, outside: float = 1.0, tol: float = 1e-6
) -> BestDraw:
    """The R_Y of least leakage for the symbols that the watchdog of a threshold withholds, certified.

        minimise L(S->Y)   over R_Y   with P(y|x) = 1{y = x} on X_eps, R_Y(y) on its complement, R_Y(X_eps) <= outside

    Args:
        joint: P(s, x) `(s, x)`.
        epsilon: x with max_s |i(s,x)| <= epsilon is released as it is, >= 0.
        leakage: L, any measure that a `DistortionProblem` takes; mutual information by default.
        outside: the largest probability, in [0, 1], that a withheld symbol is shown as a released one. At 0 this is
            eq. (9) of Hsu, Asoodeh and Calmon 2019, whose draws are all equally good (`CompleteMerging`).
        tol: as for `jaxpriv.solve`.

    Raises `InputError` for a bad argument, by name, and where no symbol with mass is withheld.
    """
    on_host(epsilon, outside, tol)
    joint = host_joint(joint)
    released = scores_of(log_lift_of(joint)) <= scalar(epsilon, "epsilon", low=0.0)
    share = scalar(outside, "outside", low=0.0, high=1.0)
    withheld = joint[:, ~released].sum(axis=1)
    if not withheld.sum() > 0:
        raise InputError("epsilon is above all scores: no symbol with mass is withheld")
    inside = np.flatnonzero(released)
    count = len(inside)
    costs = np.where(np.eye(count + 1, dtype=bool), 0.0, np.inf)
    costs[-1, :-1] = 1.0
    problem = DistortionProblem(
        np.column_stack([joint[:, inside], withheld]), costs, budget=share * float(withheld.sum()), leakage=leakage
    )
    solution = solve(problem, tol=tol)
    row = np.asarray(solution.mechanism)[-1]
    draw = np.where(released, 0.0, row[-1] / (~released).sum())
    draw[inside] = row[:-1]
    return BestDraw(draw, np.where(released[:, None], np.eye(len(draw)), draw), solution)
