"""The least distortion under a limit on a leakage envelope, with a proved lower bound.

Some thresholds t_s prove that a mechanism is within the limit (`jaxpriv.leakage.envelope`); for given ones the least
distortion is a linear program. For thresholds in a box [l, h] it is bounded by one in W, t, u and v_s(y) = t_s P(y):

    minimise E d   subject to   l_s P(y) <= v_s(y) <= h_s P(y),   sum_y v_s(y) = t_s,
                                u_s(y) >= P(y|s) - v_s(y),   sum_y u_s(y) <= delta (e^eps - t_s) + r_s ,

r_s >= 0 at a price so high that it is 0 where that can be: every box then has a solution, and a dual that bounds it.
Boxes are split at the threshold of the symbol whose envelope the solution exceeds most; the solution's own best
thresholds, as a box of one point, give mechanisms within the limit.
"""

import functools
import heapq
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from jaxpriv._runtime.clock import Clock, ProgressLike, clock_of
from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import host_only, scalar, whole
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.leakage import AbstractLeakage, exact_values
from jaxpriv.leakage.envelope import mass_of
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.solution import SearchResult

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Shares of an independent release, the least of which brings the measured envelope within the limit.
_MIXTURES = (0.0, *(10.0**power for power in range(-14, 0)))
# The price of exceeding a limit on an excess, relative to the range of E d.
_PRICE = 1e3
# How far a split stays from the ends of a box, relative to its width.
_INSIDE = 0.1
# The most boxes of thresholds that are bounded: a linear program each.
MOST_BOXES = 1000
_EPS = float(np.finfo(np.float64).eps)
# By how much a relative envelope may exceed the limit, and an envelope a limit of 0, and count as rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class EnvelopeDesign(SearchResult):
    """A mechanism within a limit on a leakage envelope, and what every such mechanism costs at least.

    Attributes:
        value: E d of `mechanism`.
        lower_bound: a proved lower bound on E d of every mechanism within the limit.
        mechanism: P(y|x), shape (X, Y).
        leakage: its envelope at delta, nats, at most the limit.
        thresholds: (S,) with which `LeakageEnvelope.limits` states a problem that allows this mechanism.
        status: `optimal` if value - lower_bound <= tol, else `best_known`.
        boxes: linear programs of boxes that were solved.
        stopped: why it ended before its goal: 0 it did not, 1 the time limit, 2 an interrupt.
    """

    value: float
    lower_bound: float
    mechanism: np.ndarray
    leakage: float
    thresholds: np.ndarray
    status: Literal["optimal", "best_known"]
    boxes: int
    stopped: int = 0

    __repr__ = summary

    @property
    def gap(self) -> float:
        """value - lower_bound: what could be gained at most."""
        return self.value - self.lower_bound


@host_only
def envelope_design(
    problem: DistortionProblem,
    *,
    tol: float = 1e-6,
    max_boxes: int = MOST_BOXES,
    time_limit: float | None = None,
    progress: ProgressLike = None,
) -> EnvelopeDesign:
    """The least E d(X,Y) with eps(delta) <= e, certified: branch and bound over one threshold for each private symbol.

        problem = DistortionProblem(joint, d, leakage=leakage.LeakageEnvelope(delta), leakage_budget=e)

    Runs on the host in float64. At delta = 0 the limit is that of `MaxLift`, and the first linear program is exact.

    Args:
        problem: one stored joint, one distortion without forbidden pairs, a finite limit on a `LeakageEnvelope`, no
            further limits.
        tol: the largest value - lower_bound that counts as `optimal`, in the unit of the distortion.
        max_boxes: most boxes of thresholds to bound; the result is valid whenever it stops.
        time_limit, progress: as for `solve`.

    Raises `InputError` for another problem.
    """
    tol = scalar(tol, "tol", low=0.0, open_low=True)
    max_boxes = whole(max_boxes, "max_boxes", low=1)
    with clock_of(time_limit, progress) as clock:
        return design_within(problem, tol, max_boxes, clock)


def design_within(problem: DistortionProblem, tol: float, max_boxes: int, clock: Clock) -> EnvelopeDesign:
    """`envelope_design` with a clock that is held by the caller."""
    if not isinstance(problem, DistortionProblem):
        raise InputError(f"problem must be a DistortionProblem, not {type(problem).__name__}")
    measure, form = problem.leakage, problem.form
    limited = form.limits_leakage and not problem.limits and problem.sizes[0] == 1 and np.isfinite(form.target)
    delta = mass_of(measure)
    if not limited:
        raise InputError("problem must have one joint and a finite leakage_budget, and no further limits")
    tables, support = problem.costs()
    if form.target < 0:
        raise InfeasibleError(
            f"leakage_budget {float(form.target):.9g} is below 0, which is what a release that ignores the data leaks: "
            "write leakage_budget=0 or more",
            {"bound": 0.0, "allowed": float(form.target), "multipliers": []},
        )
    if not support.all():
        raise InputError("problem: the distortion forbids pairs, which envelope_design does not take")
    joint = np.asarray(problem.joints[0], np.float64)
    seen = joint.sum(axis=1) > 0
    # No lift is above 1/P(s), and no mean of lifts over the mass delta above 1/delta: higher limits are none.
    unlimited = 1.0 - np.log(max(delta, joint[seen].sum(axis=1).min()))
    eps = min(float(form.target), unlimited)
    program = _ThresholdPrograms(joint[seen], joint.sum(axis=0)[:, None] * tables[0], delta, eps)
    design = _search(program, measure, tol, max_boxes, clock)
    thresholds = np.ones(len(joint))
    thresholds[seen] = design.thresholds
    return EnvelopeDesign(**{**vars(design), "thresholds": thresholds})


@dataclass(frozen=True, eq=False)
class _ThresholdPrograms:
    """The linear programs of boxes of thresholds."""

    joint: np.ndarray  # (S, X), every symbol with mass
    cost: np.ndarray  # (X, Y), weighted by P(x)
    delta: float
    eps: float

    @property
    def given(self) -> np.ndarray:
        """P(x|s)."""
        return self.joint / self.joint.sum(axis=1, keepdims=True)

    @functools.cached_property
    def rows(self) -> "tuple[csr_array, csr_array, csr_array]":
        """Inequalities without the ends of a box, what is multiplied by those, and equations."""
        from scipy.sparse import block_array, csr_array, eye_array, kron, vstack

        private, (inputs, outputs) = len(self.joint), self.cost.shape
        eye, cells, each = eye_array(outputs), eye_array(private * outputs), eye_array(private)
        ones, mass = np.ones((1, outputs)), self.joint.sum(axis=0)
        sums = kron(each, ones)
        above = block_array(
            [
                [kron(self.given, eye), -cells, -cells, None, None],
                [None, cells, None, None, None],
                [None, -cells, None, None, None],
                [None, None, sums, self.delta * each, -each],
            ]
        )
        moving = vstack(
            [
                csr_array((private * outputs, inputs * outputs)),
                kron(np.outer(np.repeat([-1.0, 1.0], private), mass), eye),
                csr_array((private, inputs * outputs)),
            ],
            format="csr",
        )
        moving.resize(above.shape)
        sums_to = block_array(
            [
                [kron(eye_array(inputs), ones), None, None, None, None],
                [None, sums, csr_array((private, private * outputs)), -each, csr_array((private, private))],
            ]
        )
        return csr_array(above), csr_array(moving), csr_array(sums_to)

    def solved(self, low: np.ndarray, high: np.ndarray) -> tuple[float, np.ndarray]:
        """(a lower bound on E d, the mechanism of the relaxation) for thresholds in [low, high].

        By weak duality for whatever the solver returns as duals: every variable has a finite range.
        """
        from scipy.optimize import linprog  # costs a third of a second: imported where needed
        from scipy.sparse import diags_array

        private, (inputs, outputs) = len(self.joint), self.cost.shape
        top = np.exp(self.eps)
        above, moving, sums_to = self.rows
        ends = np.repeat(np.concatenate([np.zeros(private), high, low]), outputs)
        above = above + diags_array(np.append(ends, np.zeros(private))) @ moving
        right = np.append(np.zeros(3 * private * outputs), np.full(private, self.delta * top))
        sides = np.append(np.ones(inputs), np.zeros(private))
        size = inputs * outputs + 2 * private * (outputs + 1)
        least, most, objective = np.zeros(size), np.ones(size), np.zeros(size)
        free = slice(inputs * outputs, inputs * outputs + private * outputs)
        most[free] = np.repeat(high, outputs)
        thresholds = slice(-2 * private, -private)
        least[thresholds], most[thresholds] = low, high
        objective[: inputs * outputs] = self.cost.ravel()
        objective[-private:] = _PRICE * np.ptp(self.cost, axis=1).sum()
        result = linprog(objective, above, right, sums_to, sides, np.column_stack([least, most]), method="highs")
        if result.status != 0:  # bounded and feasible by construction, so this is a failure of the backend
            raise ArithmeticError(f"the linear program of a box failed: {result.message}")
        y, z = np.minimum(result.ineqlin.marginals, 0.0), result.eqlin.marginals
        reduced = objective - above.T @ y - sums_to.T @ z
        bound = y @ right + z @ sides + np.minimum(reduced * least, reduced * most).sum()
        # A sum of k terms errs by less than k units of rounding of their sizes.
        sizes = (objective + abs(above).T @ abs(y) + abs(sums_to).T @ abs(z)) @ most + abs(y) @ right + abs(z) @ sides
        bound -= len(objective) * _EPS * float(sizes)
        mechanism = np.maximum(result.x[: inputs * outputs].reshape(inputs, outputs), 0.0)
        return float(bound), mechanism / mechanism.sum(axis=1, keepdims=True)

    def envelopes(self, mechanism: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(eps_s(delta), the best threshold) of every symbol: (S,), (S,)."""
        masses = self.joint.sum(axis=0) @ mechanism
        used = masses > 0
        masses, lifts = masses[used], self.given @ mechanism[:, used] / masses[used]
        order = np.argsort(-lifts, axis=1)
        mass, lifts = masses[order], np.take_along_axis(lifts, order, axis=1)
        before = np.cumsum(mass, axis=1) - mass
        at = (before <= self.delta).sum(axis=1, keepdims=True) - 1
        threshold = np.take_along_axis(lifts, at, axis=1)[:, 0]
        if self.delta == 0.0:
            return np.log(lifts[:, 0]), np.full(len(lifts), np.exp(self.eps))
        taken = np.clip(self.delta - before, 0.0, mass)
        return np.log((taken * lifts).sum(axis=1) / taken.sum(axis=1)), np.minimum(threshold, np.exp(self.eps))


def _search(
    program: _ThresholdPrograms, measure: AbstractLeakage, tol: float, max_boxes: int, clock: Clock
) -> EnvelopeDesign:
    top, private = np.exp(program.eps), len(program.joint)
    blind = np.zeros_like(program.cost)
    blind[:, np.argmin(program.cost.sum(axis=0))] = 1.0

    best, thresholds = blind, np.ones(private)

    def improve(mechanism: np.ndarray) -> None:
        """The linear programs of a mechanism's best thresholds, of its solution's, and so on while they are better."""
        nonlocal best, thresholds
        while True:
            best_thresholds = program.envelopes(mechanism)[1]
            solution = program.solved(best_thresholds, best_thresholds)
            if (program.cost * solution[1]).sum() >= (program.cost * best).sum() - 0.01 * tol:
                return
            # Outputs whose mass is rounding have any lift. All lifts come nearer to one towards an independent release.
            source = program.joint.sum(axis=0)
            used = np.where(source @ solution[1] > _ROUNDING, solution[1], 0.0)
            independent = source @ used / (source @ used).sum()
            used += np.maximum(1.0 - used.sum(axis=1, keepdims=True), 0.0) * independent
            mixed = [(1.0 - share) * used + share * independent for share in _MIXTURES]
            limit = max(program.eps, _ROUNDING)
            met = [trial for trial in mixed if exact_values((measure,), program.joint, trial)[0] <= limit]
            if not met or (program.cost * met[0]).sum() >= (program.cost * best).sum():
                return
            best, thresholds, mechanism = met[0], best_thresholds, met[0]

    improve(best)
    count = itertools.count()
    # No mechanism costs less than the cheapest outputs, but for the rounding of that sum.
    cheapest = program.cost.min(axis=1)
    least = float(cheapest.sum() - cheapest.size * _EPS * abs(cheapest).sum())
    waiting = [(least, next(count), np.zeros(private), np.full(private, top))]
    proved, boxes = np.inf, 0  # the least bound of boxes that are not split any more
    while waiting and boxes < max_boxes and not clock.expired():
        if waiting[0][0] >= (program.cost * best).sum() - tol:
            break
        parent, _, low, high = heapq.heappop(waiting)
        boxes += 1
        solution = program.solved(low, high)
        bound, mechanism = max(solution[0], parent), solution[1]
        improve(mechanism)
        values, best_thresholds = program.envelopes(mechanism)
        worst = int(np.argmax(np.where(high > low, values, -np.inf)))
        if values.max() <= program.eps + _ROUNDING or high[worst] - low[worst] <= _ROUNDING * top:
            proved = min(proved, bound)
            continue
        width = high[worst] - low[worst]
        split = np.clip(best_thresholds[worst], low[worst] + _INSIDE * width, high[worst] - _INSIDE * width)
        at = np.arange(private) == worst
        heapq.heappush(waiting, (bound, next(count), low, np.where(at, split, high)))
        heapq.heappush(waiting, (bound, next(count), np.where(at, split, low), high))
    value = float((program.cost * best).sum())
    lower = min([value, proved, *(box[0] for box in waiting)])
    (leakage,) = exact_values((measure,), program.joint, best)
    status = "optimal" if value - lower <= tol else "best_known"
    return EnvelopeDesign(value, lower, best, leakage, thresholds, status, boxes, int(clock.stop))
