"""Many targets of one funnel or bottleneck in one call, and the band in which the whole curve lies.

The funnel curve PF(R) is convex and the bottleneck curve IB(R) concave (append a switch to Y), both through (0, 0)
and (H(X), I(S;X)). So a finite number of points certifies all of it: between points that are reached the chord is
reached, and the prices of every point give a line L = c + lambda R that no release crosses anywhere.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.clock import Clock, ProgressLike, Stop, clock_of
from jaxpriv._runtime.compilation import own_settings
from jaxpriv._runtime.divergences import information_interval
from jaxpriv._runtime.validation import finite, is_traced, real_array, scalar
from jaxpriv.errors import InputError
from jaxpriv.funnels import (
    AbstractFunnelSolver,
    FunnelGoal,
    FunnelSolution,
    proved_line,
    proved_value,
)
from jaxpriv.funnels.actions import VertexGeneration
from jaxpriv.funnels.atoms import ColumnGeneration
from jaxpriv.funnels.bounds import lower_hull
from jaxpriv.funnels.solution import Proof
from jaxpriv.funnels.solve import pick_funnel_solver, solve_with
from jaxpriv.leakage import MutualInformation
from jaxpriv.problems.funnel import BottleneckProblem, FunnelOrBottleneck, FunnelProblem, whole_entropy
from jaxpriv.program.frontiers import AbstractFrontier, need_memory_of_points
from jaxpriv.program.solution import Status

# Of the time that is left, what one target may take before all others have been visited.
_FOR_ONE = 0.5


@dataclass(frozen=True, eq=False)
class FunnelFrontier(AbstractFrontier):
    """One solution for each target, in the order given.

    Attributes:
        problem: the funnel or bottleneck problem whose target was varied.
        form: which target: `disclosure`, `leakage_budget`, `relevance` or `multiplier`.
        targets: shape (B,).
        solutions: one `FunnelSolution` each.
    """

    problem: FunnelOrBottleneck
    form: str
    targets: np.ndarray
    solutions: tuple[FunnelSolution, ...]

    spent: ClassVar[str] = "disclosure"

    def __repr__(self) -> str:
        worst = float(np.max(self.gap)) if self.solutions else 0.0
        return f"FunnelFrontier({self.form}, {len(self)} points, largest gap {worst:.3g})"

    def __len__(self) -> int:
        return len(self.solutions)

    def __getitem__(self, index: int) -> FunnelSolution:
        return self.solutions[index]

    def _column(self, name: str) -> np.ndarray:
        return np.array([getattr(solution, name) for solution in self.solutions])

    @property
    def disclosure(self) -> np.ndarray:
        """I(X;Y) of every solution, (B,)."""
        return self._column("disclosure")

    def band(self, disclosures: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): bounds on I(S;Y) along the whole curve, at `disclosures` (nats), both proved.

        Raises InputError for a disclosure outside of [0, H(X)], and for measures other than mutual information.
        """
        if not isinstance(self.problem.leakage, MutualInformation):
            raise InputError("problem: the band is that of I(S;Y) against I(X;Y)")
        joint = self.problem.joint
        most = whole_entropy(joint)
        at = finite(np.atleast_1d(real_array(disclosures, "disclosures", ndim=(0, 1))), "disclosures")
        if not ((at >= 0).all() and (at <= most * (1 + 1e-12)).all()):
            raise InputError("disclosures must lie in [0, H(X)]")
        at = np.minimum(at, most)
        funnel = isinstance(self.problem, FunnelProblem)
        low, _, high = information_interval(joint, np.eye(joint.shape[1]))
        disclosed = np.array([0.0, most, *(s.disclosure for s in self.solutions)])
        leaked = np.array([0.0, high if funnel else low, *(s.leakage for s in self.solutions)])
        chain = lower_hull(disclosed, leaked if funnel else -leaked)
        # Disclosure and leakage of a solution are nearest values: moved to the safe side by 4,500 times the rounding of
        # float64, more than that of sums of as many terms.
        outward = 1e-12 * (1.0 + high)
        reached = np.interp(at, disclosed[chain], leaked[chain]) + (outward if funnel else -outward)
        lines = [(0.0, 0.0), (low - most - outward, 1.0)] if funnel else [(0.0, 1.0), (high, 0.0)]
        for solution in self.solutions:
            proof = solution.proof
            if proof is not None:
                lines.append((proved_line(self.problem, proof), proof.multiplier))
        bases, slopes = np.array(lines).T
        never = bases[:, None] + slopes[:, None] * at
        if funnel:
            return np.maximum(never.max(axis=0), 0.0), reached
        return np.maximum(reached, 0.0), never.min(axis=0)


def funnel_frontier(
    problem: FunnelOrBottleneck,
    *,
    disclosures: ArrayLike | None = None,
    leakage_budgets: ArrayLike | None = None,
    relevances: ArrayLike | None = None,
    multipliers: ArrayLike | None = None,
    solver: str | AbstractFunnelSolver = "auto",
    tol: float = 1e-6,
    max_steps: int | None = None,
    time_limit: float | None = None,
    progress: ProgressLike = None,
) -> FunnelFrontier:
    """Solve `problem` at many targets; its own target is replaced.

    Column generation keeps its atoms from one target to the next (they are visited in order, whatever the order
    given). A pair of calls, one with a `FunnelProblem` and one with a `BottleneckProblem`, gives both envelopes:
    everything between them can be reached, nothing outside of them can.

    A time limit or Ctrl-C works as in `solve`. Column generation spends at most half of what is left of a limit on one
    target, and goes on with those that were not done after the last one. All targets are returned: one that was not
    reached has the status `best_known`, the best release of the atoms that are known (local methods: X itself from time
    to time), and the best bound that the prices of any other target prove for it.

    Args:
        problem: supplies the joint and the measure.
        disclosures, leakage_budgets, relevances, multipliers: exactly one of them, shape (B,), nats;
            leakage_budgets for funnels and relevances for bottlenecks only.
        solver, tol, max_steps: as for `solve`.
        time_limit: seconds for the whole sweep, as for `solve`.
        progress: as for `solve`; the record's `done` and `total` count the targets.

    Raises:
        InputError: an argument is wrong, by name.
        InfeasibleError: a target out of reach.
    """
    sweeps = {
        "disclosure": disclosures,
        "leakage_budget": leakage_budgets,
        "relevance": relevances,
        "multiplier": multipliers,
    }
    with clock_of(time_limit, progress) as clock:
        goal = FunnelGoal(scalar(tol, "tol", low=0.0, open_low=True), max_steps, clock)
        return funnel_frontier_within(problem, sweeps, solver, goal)


def funnel_frontier_within(
    problem: object, sweeps: Mapping[str, ArrayLike | None], solver: str | AbstractFunnelSolver, goal: FunnelGoal
) -> FunnelFrontier:
    """`funnel_frontier` as a part of other work, which has the clock of `goal`; `sweeps` are targets by their form."""
    clock = goal.clock
    if not isinstance(problem, (FunnelProblem, BottleneckProblem)):
        raise InputError(f"problem must be a FunnelProblem or a BottleneckProblem, not {type(problem).__name__}")
    given = [name for name, values in sweeps.items() if values is not None]
    fields = {field.name for field in dataclasses.fields(problem) if field.init}
    if len(given) != 1 or given[0] not in fields:
        names = ", ".join(f"{name}s" for name in sweeps if name in fields)
        raise InputError(f"give exactly one of {names}")
    form = given[0]
    if is_traced(problem, sweeps[form], goal.tol):
        raise InputError("funnel_frontier runs outside of jit and vmap only")
    targets = finite(real_array(sweeps[form], f"{form}s", ndim=1), f"{form}s")
    need_memory_of_points(len(targets), problem.joint.shape[1])
    name, method = pick_funnel_solver(solver, problem)
    points = [_replaced(problem, form, float(target)) for target in targets]
    keeps = isinstance(method, (ColumnGeneration, VertexGeneration))
    find = method.prepare(problem) if keeps else method.find
    solutions: dict[int, FunnelSolution] = {}
    postponed: list[int] = []
    with own_settings():
        for done, k in enumerate(np.argsort(-targets, kind="stable").tolist(), start=1):
            with clock.quiet(), clock.share(_FOR_ONE if keeps else 1.0):
                solution = solutions[k] = solve_with(points[k], name, find, goal, keeps)
                if keeps and clock.stop is Stop.TIME_LIMIT:
                    postponed.append(k)
            _report(clock, name, solution, done, len(points))
        for number, k in enumerate(postponed):
            if clock.expired():
                break
            with clock.quiet(), clock.share(1.0 / (len(postponed) - number)):
                solution = solve_with(points[k], name, find, goal, keeps)
            if solution.gap < solutions[k].gap:
                solutions[k] = solution
            _report(clock, name, solution, len(points), len(points))
        proofs = [solution.proof for solution in solutions.values() if solution.proof is not None]
        for k, solution in solutions.items():
            if solution.code is not Status.OPTIMAL:
                solutions[k] = _with_proofs(points[k], solution, proofs, goal.tol)
    return FunnelFrontier(problem, form, targets, tuple(solutions[k] for k in range(len(points))))


def _report(clock: Clock, name: str, solution: FunnelSolution, done: int, total: int) -> None:
    ends = solution.lower_bound, solution.upper_bound
    clock.report(
        name, solution.steps, solution.value, max(ends, key=lambda end: abs(end - solution.value)), done, total
    )


def _with_proofs(
    problem: FunnelOrBottleneck, solution: FunnelSolution, proofs: list[Proof], tol: float
) -> FunnelSolution:
    """`solution` with the best bound that the prices of other targets of the same joint prove for its own."""
    if not proofs:
        return solution
    least = solution.value == solution.upper_bound  # what is known is an upper end: the value is minimised
    bounds = [proved_value(problem, proof) for proof in proofs]
    best = int(np.argmax(bounds) if least else np.argmin(bounds))
    bound = min(bounds[best], solution.value) if least else max(bounds[best], solution.value)
    if not (bound > solution.lower_bound if least else bound < solution.upper_bound):
        return solution
    low, high = (bound, solution.upper_bound) if least else (solution.lower_bound, bound)
    proof, prices = proofs[best], solution.prices.copy()
    prices[problem.useful] = proof.prices
    code = Status.OPTIMAL if high - low <= tol else solution.code
    return dataclasses.replace(
        solution, lower_bound=low, upper_bound=high, code=code, proof=proof, multiplier=proof.multiplier, prices=prices
    )


def _replaced(problem: FunnelOrBottleneck, form: str, target: float) -> FunnelOrBottleneck:
    if isinstance(problem, FunnelProblem):
        return FunnelProblem(problem.joint, leakage=problem.leakage, **{form: target})
    return BottleneckProblem(problem.joint, **{form: target})
