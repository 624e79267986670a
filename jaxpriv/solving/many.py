"""Many problems at once: those of one kind share batches of one compiled program, the others are solved one by one."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Mesh, Sharding

from jaxpriv._clock import Clock, ProgressLike, clock_of
from jaxpriv._compile import Placement
from jaxpriv._validation import is_traced, scalar
from jaxpriv.errors import InfeasibleError, InputError, JaxprivError
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.funnel import BottleneckProblem, FunnelProblem
from jaxpriv.problems.noise import NoiseProblem
from jaxpriv.solution import Solution, Status, no_solution
from jaxpriv.solvers import Goal
from jaxpriv.solving.batches import solve_together
from jaxpriv.solving.choice import step_limit
from jaxpriv.solving.kinds import Kind, Kinds, in_order, joined
from jaxpriv.solving.loops import counted_at_the_end, report_points, spent
from jaxpriv.solving.solve import solve_within

if TYPE_CHECKING:
    from jaxpriv.funnels import AbstractFunnelSolver, FunnelSolution
    from jaxpriv.solving.choice import Solver

_KNOWN = (DistortionProblem, NoiseProblem, FunnelProblem, BottleneckProblem)


def solve_many(
    problems: Iterable[Any],
    solver: "str | Solver | AbstractFunnelSolver" = "auto",
    *,
    tol: float = 1e-6,
    rtol: float = 0.0,
    max_steps: int | None = None,
    throw: bool = False,
    time_limit: float | None = None,
    progress: ProgressLike = None,
    device: jax.Device | Sharding | None = None,
) -> "list[Solution | FunnelSolution]":
    """Solve every problem as `solve` does, to its own certificate; results in the order given.

    Problems of one kind (form, measures, numbers of joints and distortions, sizes rounded up to a common bucket) run
    side by side: those of the least mutual information, or of the least worst log-ratios (LDP, lifts), of up to about
    64 symbols by a kernel, others by NumPy, which begins at once, or in one compiled program where there are enough of
    them to be worth compiling one, from some thousand of 8 symbols on, in one call or in several. (Further limits and
    functions of one's own have no batches in NumPy.) All others are solved one by one, and so is every problem that its
    batch leaves without a proof; small ones that begin in NumPy stay there until the call ends, so that nothing is
    compiled for the last few. The certificate of each is computed from that problem alone, in float64.

    One problem does not disturb the others: where there is no mechanism its result is `infeasible`; where its solve
    raises, its result holds no mechanism (NaN), the interval from -inf to inf, the status `not_certified` and the
    error in `notes`. The `seconds` of a result are its share of those of its batch.

    Args:
        problems: any that `solve` takes; those of funnels and of noise are solved one by one.
        solver, tol, rtol, max_steps: as for `solve`, for all problems.
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
    asked = list(problems)
    if is_traced(asked, tol, rtol):
        raise InputError("solve_many runs outside of jit and vmap only; inside, vmap `solve` over arrays")
    place = Placement.of(device, asked[:1])
    with place.of_one().here():
        asked = [place.moved(problem) for problem in asked]
        return _solved(asked, place.mesh, solver, tol, rtol, max_steps, throw, time_limit, progress)


def _solved(
    asked: list[Any],
    mesh: Mesh | None,
    solver: "str | Solver | AbstractFunnelSolver",
    tol: float,
    rtol: float,
    max_steps: int | None,
    throw: bool,
    time_limit: float | None,
    progress: ProgressLike,
) -> "list[Solution | FunnelSolution]":
    """`solve_many` where programs run on JAX's default device, and those of batches on the mesh, if there is one."""
    goal = Goal(scalar(tol, "tol", low=0.0, open_low=True), scalar(rtol, "rtol", low=0.0))
    step_limit(None, max_steps)
    known = Kinds(solver, goal)
    alike: dict[int, tuple[Kind | None, list[int]]] = {}  # by object: the hash of a kind goes through all parameters
    for i, problem in enumerate(asked):
        if not isinstance(problem, _KNOWN):
            allowed = ", ".join(kind.__name__ for kind in _KNOWN)
            raise InputError(f"problems[{i}] must be one of {allowed}, not {type(problem).__name__}")
        try:
            kind = known.of(problem)
        except JaxprivError as error:
            raise _at(i, error) from error
        alike.setdefault(id(kind), (kind, []))[1].append(i)
    kinds: defaultdict[Kind | None, list[int]] = defaultdict(list)
    for kind, places in alike.values():
        kinds[kind] += places
    results: list[Any] = [None] * len(asked)
    done = 0
    with clock_of(time_limit, progress) as clock:

        def take(places: list[int], found: list[Any]) -> None:
            nonlocal done
            for i, one in zip(places, found, strict=True):
                results[i] = one
            done += len(found)
            certified = [one for one in found if isinstance(one, Solution)]
            report_points(clock, certified[0].solver if certified else "", certified, done, len(asked))

        for kind, places in _together(kinds).items():
            width = 0 if kind is None else kind.width(len(places), spent(kind), mesh)
            size = width if kind is None or width else kind.width_uncompiled(len(places))
            alone = places
            if kind is not None and size:
                ordered = in_order(asked, places, wait=width > 0 or not kind.by_kernel)
                batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
                begun = ([asked[i] for i in batch] for batch in batches if not clock.expired())
                alone = []
                reached = 0
                solved = solve_together(begun, kind, goal, max_steps, width, mesh)
                for batch, found in zip(batches, solved, strict=False):
                    reached += len(batch)
                    alone += [i for i, one in zip(batch, found, strict=True) if one is None]
                    proved = [(i, one) for i, one in zip(batch, found, strict=True) if one is not None]
                    take([i for i, _ in proved], [one for _, one in proved])
                alone += ordered[reached:]
            # What is too small for a batch takes at most a few seconds in NumPy: about what compiling takes.
            small = kind is not None and not width and kind.small
            with counted_at_the_end() if small else nullcontext():
                for i in alone:
                    take([i], [_alone(i, asked[i], solver, goal, max_steps, throw, clock)])
    return results


def _together(kinds: Mapping[Kind | None, list[int]]) -> dict[Kind | None, list[int]]:
    """The positions by the kind in whose bucket they are computed."""
    target = joined({kind: len(places) for kind, places in kinds.items() if kind is not None})
    together: defaultdict[Kind | None, list[int]] = defaultdict(list)
    for kind, places in kinds.items():
        together[None if kind is None else target[kind]] += places
    return together


def _alone(
    i: int,
    problem: object,
    solver: "str | Solver | AbstractFunnelSolver",
    goal: Goal,
    max_steps: int | None,
    throw: bool,
    clock: Clock,
) -> "Solution | FunnelSolution":
    """The result of one problem by itself."""
    if throw or not isinstance(problem, DistortionProblem):
        try:
            return solve_within(clock, problem, solver, goal, max_steps, throw)
        except JaxprivError as error:
            raise _at(i, error) from error
    return solve_or_say_why(clock, problem, solver, goal, max_steps)


def solve_or_say_why(
    clock: Clock,
    problem: DistortionProblem,
    solver: "str | Solver | AbstractFunnelSolver",
    goal: Goal,
    max_steps: int | None,
) -> Solution:
    """The solution of a problem, or one with the reason for none: no mechanism, and an interval without ends."""
    try:
        return solve_within(clock, problem, solver, goal, max_steps, False)
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
