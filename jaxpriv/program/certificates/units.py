"""From the certificate of a convex program to that of the problem, in the unit of its measure."""

from collections.abc import Callable

import numpy as np

from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.leakage import AbstractLeakage, exact_values
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.certify import certify_program
from jaxpriv.program.lower import (
    ProblemStack,
    worst_program,
)

# The largest limit that is proved out of reach is found to this, relative to 1 + limit; how far beside a root the next
# limit is tried, as a share of that.
_BISECTION, _BESIDE = 1e-10, 0.4
# A claim that rounding alone refutes is proved when it is this share lower.
_NEXT = 1e-9


def largest(problem: DistortionProblem, measures: tuple[AbstractLeakage, ...], mechanism: np.ndarray) -> list[float]:
    """The largest value of every measure over the joints."""
    by_measure = zip(*(exact_values(measures, joint, mechanism) for joint in problem.joints), strict=True)
    return [float(np.max(values)) for values in by_measure]


def least_limit(problem: DistortionProblem, k: Arr, eta: Arr, price: Arr, claimed: float, high: float) -> float:
    """A limit e <= high of a worst-outcome measure that no mechanism within the budgets meets: `claimed` where the
    given rules prove that one, and about as much more (or less) as they prove; at least 0.

    The certified least distance to the budgets is positive at e, and the mechanisms that meet a smaller limit are
    among those that meet e: so no mechanism within the budgets has a value below e.
    """
    return float(least_limits(problem, k, eta, price, claimed, high, whole=False))


def least_limits(
    problem: DistortionProblem | ProblemStack,
    k: Arr,
    eta: Arr,
    price: Arr,
    claimed: ScalarLike,
    high: ScalarLike,
    whole: bool,
) -> np.ndarray:
    """The same of every problem of a stack, or of one. `whole`: of what program the rules are."""

    def distance(e: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        if isinstance(problem, ProblemStack):
            program, duals = worst_program(problem[lanes], e), (part[lanes] for part in (k, eta, price))
        else:
            program, duals = worst_program(problem, float(e[0]), whole), (k, eta, price)
        anything = np.full(program.cost.shape, 1.0 / program.cost.shape[-1])
        return np.atleast_1d(certify_program(program, anything, *duals).lower_bound)

    return _largest_proved(distance, np.atleast_1d(claimed), np.atleast_1d(high)).reshape(np.shape(high))


def _largest_proved(
    distance: Callable[[np.ndarray, np.ndarray], np.ndarray], claimed: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """The limits (N,) of `least_limit`. `distance(e, lanes)`: what the rules of so many lanes prove at the limits e.

    What fixed rules prove falls with the limit, and limits are proved where it is positive. Its root is looked for by
    the secant through the last two limits that were tried, kept inside the interval that holds it and moved to the side
    that did not move last; where two of them do not halve the interval, the next is its middle.
    """
    low, high, shape = np.zeros(claimed.shape), high.copy(), claimed.shape
    before, last = (np.full(shape, np.nan), np.full(shape, np.nan)), (np.full(shape, np.nan), np.full(shape, np.nan))

    def ask(e: np.ndarray, which: np.ndarray) -> None:
        nonlocal before, last
        lanes = np.flatnonzero(which)
        if len(lanes):
            distances = np.zeros(shape)
            distances[lanes] = distance(e[lanes], lanes)
            before = tuple(np.where(which, new, old) for new, old in zip(last, before, strict=True))
            last = tuple(np.where(which, new, old) for new, old in zip((e, distances), last, strict=True))
            proved = which & (distances > 0)
            low[proved], high[which & ~proved] = e[proved], e[which & ~proved]

    stated = (claimed > 0) & (claimed <= high)
    ask(claimed, stated)
    # Claims are right up to rounding as a rule: the other end is then next to it.
    step = _BISECTION * (1.0 + claimed)
    beside = np.where(low > 0, claimed + step, claimed - np.minimum(step, _NEXT * claimed))
    ask(beside, stated & (beside > 0) & (beside < high))
    first, second = np.full(shape, np.inf), np.full(shape, np.inf)  # the widths of the interval before the last two
    while (wide := np.isfinite(high) & (high - low > _BISECTION * (1.0 + high))).any():
        width = high - low
        rise = last[1] - before[1]
        usable = np.isfinite(rise) & (rise != 0)
        root = last[0] - np.where(usable, last[1], 0.0) * (last[0] - before[0]) / np.where(usable, rise, 1.0)
        root = root + np.where(last[1] > 0, _BESIDE, -_BESIDE) * _BISECTION * (1.0 + high)
        inside = usable & (root > low) & (root < high) & (width <= 0.5 * first)
        first, second = second, np.where(wide, width, second)
        ask(np.where(inside, root, 0.5 * (low + high)), wide)
    return low
