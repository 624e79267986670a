"""What a certificate of a measured program says about the problem that it states: in the measure's own unit."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxpriv._types import Arr, ScalarLike
from jaxpriv._validation import is_traced
from jaxpriv.certificates.tables import certify_program
from jaxpriv.leakage import AbstractLeakage, exact_values
from jaxpriv.leakage.scales import Scale
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.stack import ProblemStack
from jaxpriv.problems.statement import least_value, worst_program

# What a measure may exceed its limit by, relative to 1 + limit: rounding of the measure.
_ROUNDING = 1e-10
# The largest limit that is proved out of reach is found to this, relative to 1 + limit.
_BISECTION = 1e-10
# A claim that rounding alone refutes is proved when it is this share lower.
_NEXT = 1e-9


def interval_of(
    problem: DistortionProblem | ProblemStack, scale: Scale, shift: ScalarLike, value: ScalarLike, bound: ScalarLike
) -> tuple[Any, Any]:
    """(value, lower bound) in the unit of the problem, from those of its program's total (`statement.reading`)."""
    value, bound = scale.outer(value + shift), scale.outer(bound + shift)
    if problem.budget is not None:  # no release leaks less than one that ignores the data
        least = least_value(problem, problem.leakage) * (1 - 1e-12)
        if is_traced(bound, least):
            return value, jnp.maximum(bound, least)
        bound = np.maximum(bound, least) if np.ndim(bound) else max(bound, least)
    return value, bound


def largest(problem: DistortionProblem, measures: tuple[AbstractLeakage, ...], mechanism: np.ndarray) -> list[float]:
    """The largest value of every measure over the joints."""
    found = zip(*(exact_values(measures, joint, mechanism) for joint in problem.joints), strict=True)
    return [float(np.max(values)) for values in found]


def excess_of(leaks: Sequence[float], limits: Sequence[tuple[AbstractLeakage, float]]) -> float:
    """By how much measured values exceed their limits, relative to 1 + limit; 0 up to rounding.

    The terms of a limit e on a log-ratio contain e^-e: from 30 nats on that is below their own rounding, and a
    release that excludes a symbol (an infinite ratio) would pass.
    """
    over = [(leak - value) / (1.0 + value) for leak, (_, value) in zip(leaks, limits, strict=True)]
    return max((one for one in over if not one <= _ROUNDING), default=0.0)


def least_limit(
    problem: DistortionProblem, k: Arr, eta: Arr, price: Arr, claimed: float, high: float, whole: bool = False
) -> float:
    """A limit e <= high of a worst-outcome measure that no mechanism within the budgets meets: `claimed` where the
    given rules prove that one, and by bisection about as much more (or less) as they prove; at least 0.

    The certified least distance to the budgets is positive at e, and the mechanisms that meet a smaller limit are
    among those that meet e: so no mechanism within the budgets has a value below e. `whole`: of what program the rules
    are.
    """
    anything = np.full(problem.shape, 1.0 / problem.shape[1])

    def proves(e: float) -> bool:
        return bool(certify_program(worst_program(problem, e, whole), anything, k, eta, price).lower_bound > 0)

    low, step = 0.0, _BISECTION * (1.0 + claimed)
    if 0 < claimed <= high:
        low, high = (claimed, high) if proves(claimed) else (0.0, claimed)
        # Claims are right up to rounding as a rule: the other end is then next to it.
        beside = claimed + step if low > 0 else claimed - min(step, _NEXT * claimed)
        if 0 < beside < high:
            low, high = (beside, high) if proves(beside) else (low, beside)
    while math.isfinite(high) and high - low > _BISECTION * (1.0 + high):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if proves(middle) else (low, middle)
    return low
