"""Many problems at once: those of one kind share batches, each certified on its own afterwards; others one by one.

A batch is one compiled program or NumPy. The program is `solve` itself under vmap, on problems padded to a bucket
(`buckets`). It does not use the presolve that a single solve begins with, so a few problems (budgets without slack,
tables near rank one) end there without a proof. Its results are candidates: the certificate of each is computed on the
host from the original problem, and what does not meet the goal there is left to a solve of its own.

Compiling takes seconds, so problems of a kind that are fewer than that is worth are iterated on by NumPy, all of them
in every operation (`lanes.py`): the same steps of the same program, from a first start only. Small problems of the
least mutual information, and of the least worst log-ratios, are stated so too, and then solved by a kernel, whatever
their number.
"""

import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec, Sharding
from jaxtyping import Array

from jaxpriv._runtime.clock import ProgressLike, clock_of
from jaxpriv._runtime.compilation import Placement, compiled, own_settings
from jaxpriv._runtime.lanes import spread, with_lanes
from jaxpriv._runtime.validation import is_traced, scalar
from jaxpriv.errors import InfeasibleError, InputError, JaxprivError
from jaxpriv.problems.distortion import DistortionProblem, NoiseProblem
from jaxpriv.problems.funnel import BottleneckProblem, FunnelProblem
from jaxpriv.program.certificates.verification import StackProof, certify, certify_stack
from jaxpriv.program.convex import in_lanes
from jaxpriv.program.lower import (
    ProblemStack,
    least_worst_program,
    measured_program,
    of_distance,
    own_limit,
    scale_and_shift,
    worst_program,
)
from jaxpriv.program.solution import Solution, Status, no_solution
from jaxpriv.reductions.buckets import Lanes, restored
from jaxpriv.reductions.closed_forms import cheapest_release, independent_release
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import Goal, InteriorPoint
from jaxpriv.solving.choice import Request, pick_for_start, step_limit
from jaxpriv.solving.kinds import STEPS_OF_LANES, WORTH_COMPILING, Kind, Kinds, merged_kinds
from jaxpriv.solving.loops import counted_at_the_end, iterate_lanes, report_points, spend, spent
from jaxpriv.solving.solve import solve, solve_within
from jaxpriv.solving.stages import inner_goal, own_goal, units_of

if TYPE_CHECKING:
    from jaxpriv.funnels import AbstractFunnelSolver, FunnelSolution
    from jaxpriv.solving.choice import Solver


# Limits up to this are met by independent outputs alone, whose certificates are computed one by one.
_NOTHING = 1e-12
# The status and the stop reason of lanes that need nothing more, as arrays of theirs have them.
_OPTIMAL, _COMPLETE = np.int32(Status.OPTIMAL), np.int32(0)


def solve_together(
    batches: Iterable[Sequence[DistortionProblem]],
    kind: Kind,
    goal: Goal,
    max_steps: int | None,
    width: int,
    mesh: Mesh | None = None,
) -> Iterator[list[Solution | None]]:
    """The certified solutions of every batch of up to `width` problems of one kind, None where one is left to a solve
    of its own: where the goal is not proved, and where the device refused the batch. `width` 0: batches in NumPy, of
    any number. `mesh`: devices that share the lanes of every batch.

    The device computes a batch while the one before it is certified. The seconds of a solution are its share of those
    that its batch added.
    """
    ahead: _Running | None = None
    begun = time.perf_counter()
    for problems in batches:
        running = _Running.of(problems, kind, goal, max_steps, width, mesh)
        if ahead is not None:
            yield ahead.certified(begun)
            begun = time.perf_counter()
        ahead = running
    if ahead is not None:
        yield ahead.certified(begun)


@dataclasses.dataclass(frozen=True, eq=False)
class _Running:
    """A batch that the device computes."""

    problems: Sequence[DistortionProblem]
    kind: Kind
    goal: Goal
    candidates: Solution | None  # None: the device refused it
    compiling: float

    @staticmethod
    def of(
        problems: Sequence[DistortionProblem],
        kind: Kind,
        goal: Goal,
        max_steps: int | None,
        width: int,
        mesh: Mesh | None,
    ) -> "_Running":
        limit = min(step_limit(kind.solver, max_steps), STEPS_OF_LANES)
        if not width:
            began = time.thread_time()
            candidates = _uncompiled(problems, kind, goal, limit)
            spend(kind, time.thread_time() - began)
            return _Running(problems, kind, goal, candidates, 0.0)
        lanes = Lanes.of([*problems, *[problems[-1]] * (width - len(problems))], kind.bucket)
        numbers = np.asarray(goal.tol, np.float64), np.asarray(goal.rtol, np.float64)
        try:
            with own_settings():
                spend(kind, WORTH_COMPILING)  # its program is at hand from now on
                function = _solve_all if mesh is None else _SharedOut(mesh)
                run, compiling = compiled(function, kind.solver, lanes, *numbers, np.asarray(limit))
                return _Running(problems, kind, goal, run(), compiling)
        except jax.errors.JaxRuntimeError:
            return _Running(problems, kind, goal, None, 0.0)

    def certified(self, begun: float) -> list[Solution | None]:
        """What was found, with the numbers that it proves for each problem itself; None where these miss the goal."""
        results: list[Solution | None] = [None] * len(self.problems)
        try:
            candidates = None if self.candidates is None else jax.tree.map(np.asarray, self.candidates)
        except jax.errors.JaxRuntimeError:
            candidates = None
        if candidates is None:
            return results
        alike: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for i in np.flatnonzero(candidates.code[: len(results)] == Status.OPTIMAL).tolist():
            alike[self.problems[i].sizes].append(i)
        proved = [(places, *self._proved(places, candidates)) for places in alike.values()]
        spent = max(time.perf_counter() - begun - self.compiling, 0.0)
        seconds = {"compile": self.compiling / len(results), "solve": spent / len(results)}
        for places, met, proof, parts in proved:
            for j in np.flatnonzero(met).tolist():
                results[places[j]] = Solution(
                    value=proof.value[j],
                    lower_bound=proof.lower_bound[j],
                    leakage=proof.leakage[j],
                    distortion=proof.distortion[j],
                    code=_OPTIMAL,
                    solver=self.kind.name,
                    seconds=seconds,
                    stopped=_COMPLETE,
                    units=units_of(self.problems[places[j]]),
                    **{name: part[j] for name, part in parts.items()},
                )
        return results

    def _proved(self, places: list[int], candidates: Solution) -> tuple[np.ndarray, StackProof, dict[str, np.ndarray]]:
        """(which meet the goal, what they prove, the arrays that prove it) of lanes whose problems have equal sizes, by
        the certificates of the problems themselves.
        """
        problems, kind = [self.problems[i] for i in places], self.kind
        stack = ProblemStack.of(problems) if kind.stacks else None
        if stack is not None and stack.form.limits_leakage and (stack.form.target <= _NOTHING).any():
            stack = None
        joints = np.stack([problem.joints for problem in problems]) if stack is None else stack.joints
        taken = jax.tree.map(lambda leaf: leaf[places], candidates)
        outputs, given = problems[0].shape[1], (taken.mechanism, taken.scores, taken.weights)
        mechanism, scores, weights = restored(joints, outputs, kind.bucket, *given)
        parts = {"mechanism": mechanism, "scores": scores, "weights": weights, "multipliers": taken.multipliers}
        if stack is not None:
            proof = certify_stack(stack, mechanism, scores[:, 0], weights, taken.multipliers, taken.lower_bound)
        else:
            padded = dataclasses.replace(taken, **parts)
            proof = StackProof.of([certify(problem, padded[j]) for j, problem in enumerate(problems)])
        goal = self.goal
        if problems[0].form.limits_leakage:
            goal = dataclasses.replace(goal, tol=np.array([own_goal(problem, goal).tol for problem in problems]))
        return np.asarray(goal.proved(proof)), proof, parts | {"steps": taken.steps.astype(np.int32)}


def _uncompiled(problems: Sequence[DistortionProblem], kind: Kind, goal: Goal, limit: int) -> Solution:
    """Candidates by NumPy, with a leading axis; what they prove is not among them."""
    stack = Lanes.of(problems, kind.bucket).stack()
    if stack.form.limits_leakage:
        goal = dataclasses.replace(
            goal, tol=with_lanes(np.array([own_goal(problem, goal).tol for problem in problems]))
        )
    if not stack.form.minimax:
        scale, shift = scale_and_shift(stack)
        goal = inner_goal(goal, scale, with_lanes(shift) if np.ndim(shift) else shift, stack)
    program = in_lanes(least_worst_program(stack) if stack.form.minimax else measured_program(stack, own_limit(stack)))
    start = cheapest_release if len(program.budgets) and not program.shares else independent_release
    program = dataclasses.replace(program, feasible_point=start(program))
    reduced = Reduced.of(program, goal)
    best, steps = iterate_lanes(kind.solver, reduced.program, reduced.goal, limit)
    count, unknown = len(problems), np.full(len(problems), np.nan)
    best = jax.tree.map(with_lanes, best)
    mechanism, *duals = reduced.expanded(best)
    claimed = unknown
    if stack.form.minimax:
        high, low = (reduced.limit(distance) for distance in (best.value, best.bound))
        claimed = np.maximum(spread(low, count), 0.0)
        duals = of_distance(program, in_lanes(worst_program(stack, claimed)), with_lanes(claimed), high, *duals)
    mechanism, k, eta, price = (spread(part, count) for part in (mechanism, *duals))
    return Solution(
        value=unknown,
        lower_bound=claimed,
        mechanism=mechanism,
        leakage=unknown,
        distortion=np.full((count, len(problems[0].distortions)), np.nan),
        scores=k[:, None],
        weights=eta,
        multipliers=price,
        code=np.full(count, int(Status.OPTIMAL)),
        steps=steps,
        stopped=np.zeros(count, dtype=np.int32),
    )


def _solve_all(solver: InteriorPoint, lanes: Lanes, tol: Array, rtol: Array, limit: int) -> Solution:
    def solved_lane(lane: Lanes) -> Solution:
        return solve(lane.problem(), solver, tol=tol, rtol=rtol, max_steps=limit)

    return jax.vmap(solved_lane)(lanes)


@dataclasses.dataclass(frozen=True)
class _SharedOut:
    """`_solve_all` for as many lanes on every device of a mesh; each device ends with its own."""

    mesh: Mesh

    def __call__(self, solver: InteriorPoint, lanes: Lanes, tol: Array, rtol: Array, limit: int) -> Solution:
        on_device, shares, same = partial(_solve_all, solver), PartitionSpec("x"), PartitionSpec()
        # Unchecked: JAX's check does not cover the results of a kernel.
        run = jax.shard_map(
            on_device, mesh=self.mesh, in_specs=(shares, same, same, same), out_specs=shares, check_vma=False
        )
        return run(lanes, tol, rtol, limit)


_KNOWN = (DistortionProblem, NoiseProblem, FunnelProblem, BottleneckProblem)


def solve_many(
    problems: Iterable[DistortionProblem | NoiseProblem | FunnelProblem | BottleneckProblem],
    solver: "str | Solver | AbstractFunnelSolver" = "auto",
    *,
    tol: float = 1e-6,
    rtol: float = 0.0,
    max_steps: int | None = None,
    start: Iterable[object] | None = None,
    throw: bool = False,
    time_limit: float | None = None,
    progress: ProgressLike = None,
    device: jax.Device | Sharding | None = None,
) -> "list[Solution | FunnelSolution]":
    """Solve every problem as `solve` does, to its own certificate; results in the order given.

    Problems of one kind (form, measures, numbers of joints and distortions, sizes rounded up to a common bucket) run
    side by side: those of mutual information, of the least worst log-ratios (LDP, lifts) or of the least maximum
    information, of up to about 64 symbols by a kernel, others by NumPy, which begins at once, or in one compiled
    program where there are enough of them to be worth compiling one, from some thousand of 8 symbols on, in one call or
    in several. (Further limits and
    functions of one's own have no batches in NumPy.) All others are solved one by one, and so is every problem that its
    batch leaves without a proof; small ones that begin in NumPy stay there until the call ends, so that nothing is
    compiled for the last few. The certificate of each is computed from that problem alone, in float64.

    One problem does not disturb the others: where there is no mechanism its result is `infeasible`; where its solve
    raises, its result holds no mechanism (NaN), the interval from -inf to inf, the status `not_certified` and the
    error in `notes`. The `seconds` of a result are its share of those of its batch.

    Args:
        problems: any that `solve` takes; those of funnels and of noise are solved one by one.
        solver, tol, rtol, max_steps: as for `solve`, for all problems.
        start: for every problem what `solve` takes as `start`, or None; a problem that has one is solved by itself.
        throw: raise where a problem is infeasible or cannot be solved, with its position.
        time_limit: seconds for all problems together; one that was not reached has the status `best_known`. The limit,
            like Ctrl-C, ends the work after the batch at hand, which can take some seconds, and its certificates.
        progress: as for `solve`; the record's `done` and `total` count the problems, its numbers are those with the
            largest gap of what was just done.
        device: as for `solve`, by default that of the arrays of the first problem; the devices of a sharding share the
            problems of every batch, compiled whatever their number, and what is solved by itself runs on the first.

    Raises:
        InputError: an argument is wrong, or a problem is, as `problems[i]`; nothing was computed.
    """
    if not isinstance(problems, Iterable):
        raise InputError(f"problems must be a list, not {type(problems).__name__}; `solve` takes one problem")
    asked = list(problems)
    if is_traced(asked, tol, rtol):
        raise InputError("solve_many runs outside of jit and vmap only; inside, vmap `solve` over arrays")
    starts: list[object] = [None] * len(asked) if start is None else list(start)
    if len(starts) != len(asked):
        raise InputError(f"start has {len(starts)} entries for {len(asked)} problems")
    place, clock = Placement.of(device, asked[:1]), clock_of(time_limit, progress)
    goal = Goal(scalar(tol, "tol", low=0.0, open_low=True), scalar(rtol, "rtol", low=0.0))
    step_limit(None, max_steps)
    with place.of_one().here():
        request = Request(clock, goal, solver, max_steps, throw)
        return _solved([place.moved(problem) for problem in asked], starts, place.mesh, request)


def _solved(
    asked: list[Any], starts: list[object], mesh: Mesh | None, request: Request
) -> "list[Solution | FunnelSolution]":
    """`solve_many` where programs run on JAX's default device, and those of batches on the mesh, if there is one."""
    goal, kind_of_problem = request.goal, Kinds(request.solver, request.goal)
    requests = [dataclasses.replace(request, start=start) for start in starts]
    alike: dict[int, tuple[Kind | None, list[int]]] = {}  # by object: the hash of a kind goes through all parameters
    for i, problem in enumerate(asked):
        if not isinstance(problem, _KNOWN):
            allowed = ", ".join(kind.__name__ for kind in _KNOWN)
            raise InputError(f"problems[{i}] must be one of {allowed}, not {type(problem).__name__}")
        try:
            kind = kind_of_problem.of(problem)
            if starts[i] is not None:
                kind = None
                if isinstance(problem, DistortionProblem):
                    pick_for_start(problem, requests[i])
        except JaxprivError as error:
            raise _at(i, error) from error
        alike.setdefault(id(kind), (kind, []))[1].append(i)
    kinds: defaultdict[Kind, list[int]] = defaultdict(list)
    others: list[int] = []
    for kind, places in alike.values():
        (others if kind is None else kinds[kind]).extend(places)
    results: dict[int, Any] = {}
    with request.clock as clock:

        def take(solutions: dict[int, Any]) -> None:
            results.update(solutions)
            certified = [solution for solution in solutions.values() if isinstance(solution, Solution)]
            report_points(clock, certified[0].solver if certified else "", certified, len(results), len(asked))

        together: dict[Kind | None, list[int]] = {**merged_kinds(kinds), None: others}
        for kind, places in together.items():
            width = 0 if kind is None else kind.width(len(places), spent(kind), mesh)
            size = width if kind is None or width else kind.width_uncompiled(len(places))
            if kind is not None and size:
                # One pass certifies those of a batch that have equal sizes.
                places = sorted(places, key=lambda i: asked[i].sizes)
                batches = [places[start : start + size] for start in range(0, len(places), size)]
                begun = ([asked[i] for i in batch] for batch in batches if not clock.expired())
                solved = solve_together(begun, kind, goal, request.max_steps, width, mesh)
                for batch, solutions in zip(batches, solved, strict=False):
                    take({i: solution for i, solution in zip(batch, solutions, strict=True) if solution is not None})
            # What is too small for a batch takes at most a few seconds in NumPy: about what compiling takes.
            small = kind is not None and not width and kind.small
            with counted_at_the_end() if small else nullcontext():
                for i in [i for i in places if i not in results]:
                    take({i: _alone(i, asked[i], requests[i])})
    return [results[i] for i in range(len(asked))]


def _alone(i: int, problem: object, request: Request) -> "Solution | FunnelSolution":
    """The result of one problem by itself."""
    if request.throw or not isinstance(problem, DistortionProblem):
        try:
            return solve_within(problem, request)
        except JaxprivError as error:
            raise _at(i, error) from error
    return solve_or_say_why(problem, request)


def solve_or_say_why(problem: DistortionProblem, request: Request) -> Solution:
    """The solution of a problem, or one with the reason for none: no mechanism, and an interval without ends."""
    try:
        return solve_within(problem, dataclasses.replace(request, throw=False))
    except JaxprivError as error:
        why = f"{type(error).__name__}: {error}"
    except Exception as error:  # the text of a foreign error may hold data values
        why = f"{type(error).__name__} while solving"
    groups, private, _, _ = problem.sizes
    nothing = no_solution(problem.shape, groups * private, 0, 0, len(problem.distortions))
    code = np.int32(Status.NOT_CERTIFIED)
    return dataclasses.replace(nothing, lower_bound=np.float64(-np.inf), code=code, notes=(why,))


def _at(i: int, error: JaxprivError) -> JaxprivError:
    """The same error with the position of its problem."""
    message = f"problems[{i}]: {error}"
    if isinstance(error, InfeasibleError):
        return InfeasibleError(message, error.proof)
    return type(error)(message)
