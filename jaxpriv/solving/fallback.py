"""What `auto` does where a method on tables stops far from its goal: the next method, and the best of both."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.types import Arr
from jaxpriv.errors import NotCertifiedError
from jaxpriv.leakage.rule_sets import LINEAR, Role, Term
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.candidate import Duals
from jaxpriv.program.certificates import certify_program
from jaxpriv.program.convex import Program
from jaxpriv.program.solution import Solution, Status
from jaxpriv.solvers import (
    AcceleratedMirrorDescent,
    Candidate,
    InteriorPoint,
    MirrorDescent,
    PrimalDualHybridGradient,
    no_candidate,
)
from jaxpriv.solvers.interior_point.candidate import with_mechanism
from jaxpriv.solvers.linear_program import LinearProgram, vertex_of
from jaxpriv.solving.choice import Request, not_by_products, step_limit
from jaxpriv.solving.least_worst import least_worst_leakage
from jaxpriv.solving.stages import Stages, off_face, solve_dense
from jaxpriv.solving.streamed import Unsuited, solve_streamed
from jaxpriv.solving.streamed_runs import PRODUCTS

# Linear programs over the rules found so far, for programs of smooth measures on which Newton's method stalls.
#
# phi_j(w) is the largest of <g, w> over the rules g of its set. Over finitely many of them it is piecewise linear and
# the program linear; its optimum is below the true one, and its multipliers are mixtures of rules, which prove that.
# Rules about the outputs of its solution are added until value and bound meet. For small tables: the number of rounds
# grows with the number of symbols, while sets with very uneven curvature, such as those of high orders, cost nothing
# more.
#
# Kelley 1960, "The cutting-plane method for solving convex programs".


# Most rounds, and rules of one term; those of no weight for the longest time are left out beyond that.
_ROUNDS, _RULES = 150, 160
# What no output shows of a private symbol counts as this share of what it shows of another.
_LEAST_SHARE = 1e-9
# Rules with entries that agree to so many decimals are one.
_DECIMALS = 12
# The share of the tolerance at which the rounds end: the certificate counts rounding.
_CLOSE = 0.5

Bound = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


@dataclasses.dataclass
class _Pool:
    """Rules of a term, (R, T), and the round in which each last had weight."""

    term: Term
    rules: np.ndarray
    used: np.ndarray

    def add(self, seen: Arr, number: int) -> None:
        """The rules about `seen` (n, T): what outputs show."""
        top = seen.max(axis=1, keepdims=True)
        seen = seen[top[:, 0] > 0] / top[top[:, 0] > 0]
        if not len(seen):
            return
        rules = np.asarray(self.term.rule_set.gradient(self.term, np.maximum(seen, _LEAST_SHARE)), dtype=np.float64)
        self.take(rules, number)

    def take(self, rules: np.ndarray, number: int) -> None:
        """`rules` (n, T), moved into the set."""
        rules = np.asarray(self.term.rule_set.moved_in(self.term, rules), dtype=np.float64)
        rules = rules[np.isfinite(rules).all(axis=1)]
        every = np.concatenate([self.rules, rules])
        _, first = np.unique(np.round(every, _DECIMALS), axis=0, return_index=True)
        remaining = np.sort(first)
        used = np.concatenate([self.used, np.full(len(rules), number)])
        if len(remaining) > _RULES:
            remaining = np.sort(remaining[np.argsort(-used[remaining], kind="stable")[:_RULES]])
        self.rules, self.used = every[remaining], used[remaining]

    def linear(self) -> Term:
        """The term over these rules alone."""
        rows, worst = self.rules @ self.term.rows, self.term.role is Role.WORST
        return dataclasses.replace(
            self.term,
            rows=rows + self.term.offset if worst else rows,
            reference=np.zeros(len(rows)) if worst else np.ones(len(rows)),
            cap=None,
            offset=np.zeros_like(self.term.offset),
            rule_set=LINEAR,
            normalised=not worst,
        )


def cut(
    program: Program, mechanism: np.ndarray, duals: Duals, proved: Bound, tol: float, most: int | None, clock: Clock
) -> tuple[Candidate, int]:
    """(the best mechanism and duals, rounds) from those that are known, to a gap of `tol` of the total; at most `most`
    rounds. `proved`: the bound that rules and prices prove.
    """
    most = _ROUNDS if most is None else min(_ROUNDS, most)
    best = with_mechanism(program, no_candidate(program), mechanism)
    best = best.with_dual(*duals, proved(*duals))
    pools = [_pool(term, mechanism) if term.smooth else None for term in program.terms]
    for number in range(1, most + 1):
        if best.gap <= _CLOSE * tol or clock.expired():
            return best, number - 1
        parts = tuple(t if p is None else p.linear() for t, p in zip(program.terms, pools, strict=True))
        solved = vertex_of(dataclasses.replace(program, terms=parts, diagonal=False), clock.left)
        if solved is None:
            return best, number
        vertex, k, price = solved
        duals_of_rules = _mixed(program, pools, k, price, number)
        best = best.with_dual(*duals_of_rules, proved(*duals_of_rules))
        best = with_mechanism(program, best, vertex)
        # About the vertex itself, and about what lies between it and the best mechanism: rules about a vertex alone,
        # which moves far in the first rounds, come nearer slowly.
        middle = 0.5 * (vertex + np.asarray(best.mechanism))
        best = with_mechanism(program, best, middle)
        for pool in pools:
            if pool is not None:
                pool.add((pool.term.rows @ vertex).T, number)
                pool.add((pool.term.rows @ middle).T, number)
    return best, most


def _pool(term: Term, mechanism: np.ndarray) -> _Pool:
    """The rules about the prior, every useful symbol, and the outputs of a mechanism."""
    pool = _Pool(term, np.zeros((0, len(term.rows))), np.zeros(0))
    pool.add(term.rows.sum(axis=1)[None], 0)
    pool.add(term.rows.T, 0)
    pool.add((term.rows @ mechanism).T, 0)
    return pool


def _mixed(program: Program, pools: list[_Pool | None], k: np.ndarray, price: np.ndarray, number: int) -> Duals:
    """Rules and prices of the program itself from the weights k (Y, R) of the rules in the pools."""
    start, rules, etas = 0, [np.zeros((len(k), 0))], [np.zeros((len(k), 0))]
    for term, pool in zip(program.terms, pools, strict=True):
        size = len(term.rows) if pool is None else len(pool.rules)
        weights = k[:, start : start + size]
        start += size
        if pool is None:
            rules.append(weights)
            continue
        # Weights below this are those of rules that the master problem does not use (its tolerance is 1e-10).
        pool.used = np.where((weights > 1e-9 * weights.max()).any(axis=0), number, pool.used)
        rules.append(weights @ pool.rules)
        if term.role is Role.WORST:
            etas.append(weights.sum(axis=1, keepdims=True))
    return np.concatenate(rules, axis=1), np.concatenate(etas, axis=1), price


# A first-order method is of use where the gap is above this share of the value: it reaches little less.
_LARGE_GAP = 1e-4
# The first method's share of a time limit where there is time for the next one: the first may stall, and the next one
# takes seconds then.
FIRST_SHARE = 0.6
# Processor seconds of a first-order method before its first step (surveys, compiling, certificates), and the passes
# until it is of use.
_BEFORE, _USEFUL = 12.0, 30
# Processor seconds of HiGHS for so many products |S| |X| |Y|, and how they grow: maximal leakage and total variation,
# |S| = 16, 32 to 256 symbols (0.06, 0.27, 2.3, 19 s). Max-lift takes up to six times as long, the interior point takes
# a tenth at the largest size. In a large program HiGHS exceeds its time limit several times.
_HIGHS = 19.0, 2**20, 1.4
# Entries of a mechanism up to which cutting planes take seconds.
_CUTTABLE = 200
# Most steps of mirror descent as a fallback, whose first ones close most of what it can close, and of the hybrid
# gradient: 10,000 iterations.
_FEW_STEPS, _FEW_LOOKS = 2000, 400


def has_next_method(problem: DistortionProblem) -> bool:
    """Whether there is a method to go on with."""
    return problem.of_information or problem.linear or _cuttable(problem) or not_by_products(problem) is None


def first_share(problem: DistortionProblem, clock: Clock) -> float:
    """The first method's share of the time that is left: all of it where the rest is too short for the next one, or
    there is none.
    """
    return FIRST_SHARE if has_next_method(problem) and _seconds(problem) <= (1.0 - FIRST_SHARE) * clock.left else 1.0


def _seconds_of_first_order(problem: DistortionProblem) -> float:
    """The seconds that a first-order method takes until it is of use."""
    return _BEFORE + _USEFUL * math.prod(problem.sizes) / PRODUCTS


def _seconds(problem: DistortionProblem) -> float:
    """What the next method takes at least."""
    of_first_order = _seconds_of_first_order(problem)
    if problem.of_information:
        return of_first_order
    if problem.linear:
        return min(_seconds_of_highs(problem), of_first_order if not_by_products(problem) is None else math.inf)
    return 0.0 if _cuttable(problem) else of_first_order


def _seconds_of_highs(problem: DistortionProblem) -> float:
    """The seconds that HiGHS takes at least for a linear program."""
    seconds, size, power = _HIGHS
    return seconds * (math.prod(problem.sizes) / size) ** power


def _cuttable(problem: DistortionProblem) -> bool:
    """Whether cutting planes take it: one convex program, small."""
    return not problem.form.minimax and math.prod(problem.shape) <= _CUTTABLE


def with_next_method(problem: DistortionProblem, first: Solution, request: Request) -> Solution:
    """`first`; where it is far from the goal the better mechanism, with the better bound, of it and of the next method.

    Next is, of a problem on mutual information, the accelerated method where it streams, otherwise mirror descent; of a
    linear program, HiGHS where it has the time, and then the hybrid gradient; of another small program, linear programs
    over rules, which go on from what `first` has, however near it is, and then the hybrid gradient; of another large
    one, the hybrid gradient. Mechanism and proof are certified together; of HiGHS and the hybrid gradient the result
    with the smaller gap is taken whole.
    """
    clock, goal, missed = request.clock, request.goal, first.code == Status.NOT_CERTIFIED
    stalled = missed and first.gap > _LARGE_GAP * abs(first.value)
    if not has_next_method(problem) or clock.expired():
        return first
    if not (stalled or first.stopped or (missed and not problem.of_information)):
        return first
    name = "accelerated" if problem.streams else "mirror-descent"
    try:
        if not problem.of_information:
            name, further = "hybrid-gradient", stalled or bool(first.stopped)
            if not problem.linear and _cuttable(problem):
                first = _or_by_cutting_planes(problem, first, request)
                further = first.code == Status.NOT_CERTIFIED and first.gap > _LARGE_GAP * abs(first.value)
            elif problem.linear and further and _seconds_of_highs(problem) <= clock.left:
                first = _or_whole(first, Stages(problem, "linear-program", LinearProgram(), goal, 0, clock))
                further = first.code == Status.NOT_CERTIFIED
            if not further or clock.expired() or not_by_products(problem) is not None:
                return first
        if clock.left < _seconds_of_first_order(problem):
            return first
        if not problem.of_information:
            few = min(_FEW_LOOKS, request.max_steps or _FEW_LOOKS)
            return _or_whole(first, Stages(problem, name, PrimalDualHybridGradient(), goal, few, clock))
        if problem.streams:
            alone = dataclasses.replace(request, throw=False)
            second = solve_streamed(problem, name, AcceleratedMirrorDescent(), alone, ())
            second = dataclasses.replace(second, mechanism=second.mechanism.matrix())
        else:
            few = min(_FEW_STEPS, request.max_steps or _FEW_STEPS)
            second = solve_dense(Stages(problem, name, MirrorDescent(), goal, few, clock), False)
    except (Unsuited, NotCertifiedError) as reason:
        return dataclasses.replace(first, notes=(*first.notes, f"auto: {name} not tried, because {reason}"))
    best = first if first.value <= second.value else second
    proof = first if first.lower_bound >= second.lower_bound else second
    steps = int(first.steps + second.steps)
    stages = Stages(problem, f"{first.solver}, {name}", MirrorDescent(), goal, 0, clock, steps)
    return _noted(first, name, stages.combined(np.asarray(best.mechanism), proof), second.seconds)


def _noted(first: Solution, name: str, result: Solution, seconds: dict[str, float] | None = None) -> Solution:
    """`result` with a note on the method that came after `first`, and its `seconds` with those of `first`."""
    note = f"auto: {name} next, {first.solver} ended at a gap of {first.gap:.2e}"
    if first.seconds and seconds:
        result = dataclasses.replace(result, seconds={key: took + seconds[key] for key, took in first.seconds.items()})
    return dataclasses.replace(result, notes=(*first.notes, note))


def _or_by_cutting_planes(problem: DistortionProblem, first: Solution, request: Request) -> Solution:
    """`first`, improved by linear programs over rules."""
    name, method, clock = "cutting-planes", InteriorPoint(), request.clock
    stages = Stages(problem, name, method, request.goal, step_limit(method, None), clock, int(first.steps))
    lowered = stages.with_feasible_point(stages.lower())
    if not lowered.program.terms:  # nothing is limited: what is left is rounding
        return first
    duals = np.asarray(first.scores)[0], np.asarray(first.weights), np.asarray(first.multipliers)
    program, face = lowered.program, lowered.face
    on = program if face is None else face.restricted(program)
    mechanism = np.asarray(first.mechanism)

    def proved(k: np.ndarray, eta: np.ndarray, price: np.ndarray) -> float:
        duals_of_program = (k, eta, price) if face is None else off_face(program, face, mechanism, k, eta, price)[1:]
        return float(certify_program(program, mechanism, *duals_of_program).lower_bound)

    best, rounds = cut(on, mechanism, duals, proved, float(lowered.goal.tol), request.max_steps, clock)
    parts = np.asarray(best.mechanism), np.asarray(best.k), np.asarray(best.eta), np.asarray(best.price)
    if face is not None:
        parts = off_face(program, face, *parts)
    stages.steps += rounds
    answer = stages.certified(lowered, f"{first.solver}, {name}", *parts)
    second = stages.conclude(lowered, answer)
    if answer.violation > 0 or not second.gap < first.gap:
        return _noted(first, name, first)
    return _noted(first, name, second, second.seconds)


def _or_whole(first: Solution, stages: Stages) -> Solution:
    """`first`, or what another method gives where its gap is smaller."""
    second = solve_dense(stages, False, least_worst_leakage if stages.problem.form.minimax else Stages.solved)
    # A value below its bound exceeds a limit.
    best = min(first, second, key=lambda solution: (solution.gap < 0, solution.gap))
    return _noted(first, stages.name, best)
