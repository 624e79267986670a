"""`solve`: the certified solution of one problem."""

import dataclasses
import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, overload

import jax
import numpy as np
from jax.sharding import Sharding

from jaxpriv._runtime.clock import ProgressLike, clock_of
from jaxpriv._runtime.compilation import Placement, device_errors, named_mesh, own_settings
from jaxpriv._runtime.types import ScalarLike
from jaxpriv._runtime.validation import is_traced, scalar
from jaxpriv.errors import InputError
from jaxpriv.problems.distortion import DistortionProblem, NoiseProblem
from jaxpriv.problems.funnel import BottleneckProblem, FunnelProblem
from jaxpriv.problems.lexicographic import LexicographicProblem
from jaxpriv.program.solution import Solution, Status
from jaxpriv.solvers import Goal
from jaxpriv.solving.choice import (
    STREAMING,
    Request,
    Solver,
    by_vertices,
    default_tolerance,
    pick_for_start,
    pick_solver,
    step_limit,
    table_solver,
)
from jaxpriv.solving.fallback import first_share, with_next_method
from jaxpriv.solving.least_worst import least_worst_leakage
from jaxpriv.solving.loops import ONE_THREAD
from jaxpriv.solving.stages import Stages, solve_dense
from jaxpriv.solving.streamed import Unsuited, solve_streamed
from jaxpriv.solving.traced import solve_traced

# What only funnels or only noise need is imported where it is used: a third of the time that the other imports take.
if TYPE_CHECKING:
    from jaxpriv.funnels import AbstractFunnelSolver, FunnelSolution


@overload
def solve(
    problem: DistortionProblem | NoiseProblem | LexicographicProblem,
    solver: str | Solver = "auto",
    *,
    tol: ScalarLike | None = None,
    rtol: ScalarLike = 0.0,
    max_steps: int | None = None,
    start: object = None,
    throw: bool = True,
    time_limit: float | None = None,
    progress: ProgressLike = None,
    checkpoint: str | os.PathLike[str] | None = None,
    device: jax.Device | Sharding | None = None,
) -> Solution: ...


@overload
def solve(
    problem: FunnelProblem | BottleneckProblem,
    solver: "str | AbstractFunnelSolver" = "auto",
    *,
    tol: ScalarLike | None = None,
    rtol: ScalarLike = 0.0,
    max_steps: int | None = None,
    start: object = None,
    throw: bool = True,
    time_limit: float | None = None,
    progress: ProgressLike = None,
    checkpoint: str | os.PathLike[str] | None = None,
    device: jax.Device | Sharding | None = None,
) -> "FunnelSolution": ...


def solve(
    problem: DistortionProblem | NoiseProblem | LexicographicProblem | FunnelProblem | BottleneckProblem,
    solver: "str | Solver | AbstractFunnelSolver" = "auto",
    *,
    tol: ScalarLike | None = None,
    rtol: ScalarLike = 0.0,
    max_steps: int | None = None,
    start: object = None,
    throw: bool = True,
    time_limit: float | None = None,
    progress: ProgressLike = None,
    checkpoint: str | os.PathLike[str] | None = None,
    device: jax.Device | Sharding | None = None,
) -> "Solution | FunnelSolution":
    """Solve `problem` to a certified gap of at most `tol`, or of at most `rtol` times the value.

    Outside of jit everything runs in float64 (whatever the caller's `jax_enable_x64`, which is left alone), the data is
    validated and reduced first, and the certificate is computed from the original data; the result holds NumPy arrays.
    Inside jit or vmap the same iteration runs on the problem as it is, in the precision of its arrays, and the
    certificate is computed there with the same formulas; with several limits or joints the iteration needs x64 there.
    So do other measures and further limits, which are taken there too (but a function f or loss of one's own); a limit
    without slack then leaves the interval open. There it is differentiable, too, with respect to joint, distortions and
    limits, in any composition of `grad`, `jvp`, `jit` and `vmap` and in float64: value and bound have the slope of the
    optimal value by the envelope theorem, whatever the solver, and the mechanism and what depends on it move by the
    implicit function theorem (`jaxpriv.solving.derivatives`): another solver's mechanism as the interior-point method,
    begun at it, says, and NaN where that one's systems do not fit into memory. Their error is of the order of `tol`:
    take one of 1e-9. Where the optimum is not certified they are NaN, and outside of `jit` an error. `sensitivity` has
    the slopes for a result that is there already.

    `auto` takes the interior-point method where its factors fit into memory. Inside of jit, vmap and grad the hybrid
    gradient, which compiles in half the time, takes one smooth average other than mutual information with a budget or
    a multiplier and no further limits, where |X| |Y| <= 256 and tol >= 1e-8. Where all measures are piecewise linear,
    up to 22 symbols, the simplex method is quicker until steps are compiled, and is taken. For larger alphabets (and
    where rtol >= 1e-3 makes it the quicker way) it tries the two-grid method on ordered symbols, then the
    accelerated streaming method, then the interior-point method if that fits after all; it goes on to the next when
    the certified gap stops falling, returns the best, and lists in `notes` what it did. So it does where the
    interior-point method ends at a gap above 1e-4 of the value: next is the accelerated method (mirror descent for
    a set of joints or a leakage budget; the simplex method and then the hybrid gradient, where all measures are
    piecewise linear; cutting planes for other measures and up to 200 entries of the mechanism, wherever the tolerance
    is missed; the hybrid gradient for larger ones), and the better mechanism is returned with the better bound of
    both; of a time limit the first method has 0.6 where the rest is long enough for the next one, and all of it
    otherwise.
    The streaming solvers take one joint, in budget or multiplier form, with costs d >= 0; their
    mechanism is an operator (`jaxpriv.channel`), float64 like their certificate.

    A `LexicographicProblem` is two problems, one after the other, within one time limit: value, bound and gap are those
    of the least distortion, and `least_leakage` is the solution of the first.

    A funnel or bottleneck problem gives a `FunnelSolution`: `auto` is column generation over posteriors, which proves
    its value (bottlenecks: of joints with a structure that has exact pricing), also for smooth average measures,
    column generation over vertices for leakage to an adversary of finitely many actions (a guess), and the least limit
    on every posterior for lift, max-lift and LDP, which prove it, too; the other names are in `jaxpriv.funnels.solve`.
    Inside of jit and vmap one with a `multiplier` is solved by local steps from many starts (`difference-of-convex`,
    `bottleneck-iteration`): the best mechanism found, and a bound that needs no search. There the value has the slope
    of the Lagrangian at that mechanism, and other results have none (NaN).

    A time limit, or Ctrl-C, ends the work at the end of the portion of steps at hand (about a fifth of a second) and
    gives the best mechanism so far with its certified interval, at worst one that meets the limits and the bound that
    leakage >= 0 gives: `status` is `best_known` and `message` has the reason. There is no time limit by default. What
    cannot be interrupted: compiling, one step, a linear program of HiGHS, the final certificate. Nothing is compiled,
    and no step begun, that is not expected to end by the limit or within a second of it: NumPy takes the steps of the
    interior-point method instead, as long as they are short enough. A second Ctrl-C raises KeyboardInterrupt, and so
    does the first one where the solve is a single short call. Python's default handler of SIGINT is replaced meanwhile,
    in the main thread only; a handler of your own is left in place, and the KeyboardInterrupt that it raises does the
    same.

    Args:
        problem: the problem.
        solver: `auto`, `interior-point`, `hybrid-gradient` (any measure, by products alone),
            `linear-program` (piecewise linear measures, by HiGHS), `augmented-lagrangian` (these, and smooth averages
            of one joint with budgets or multipliers),
            `mirror-descent` (smooth averages), `blahut-arimoto` (mutual information), `accelerated`, `two-grid` (one
            joint, smooth averages or any, block by block), or a solver object (a
            `NoiseProblem` has one method of its own: `auto`).
        tol: the largest certified gap that counts as `optimal`; by default 1e-6, and 1e-4 for float32 inside of jit and
            vmap, where rounding alone leaves more than 1e-6. In units of the objective (nats;
            for the leakage-budget form, units of the distortion, but where the largest max_y d - min_y d of a row is
            below 1, at most max(tol, 1e-6) of it: any mechanism would meet an absolute tolerance on tiny costs).
        rtol: the same relative to the value; the larger of the two allowances holds.
        max_steps: most iterations; by default 200 for the interior-point method, 20000 otherwise.
        start: a mechanism to begin with, P(y|x) of shape (X, Y) (of a funnel any number of outputs), or what holds one
            (`Solution`, `FunnelSolution`, `Mechanism`): that of a similar problem, say. It may exceed limits, and may
            have zeros. Fewer steps lead from a mechanism near the optimum to the tolerance; value and bound are
            certified as ever. Methods that begin elsewhere by construction (`linear-program`, `accelerated`,
            `two-grid`, `greedy`, the least leakage in the worst outcome) refuse it; `auto` takes one that does not.
        throw: raise `InfeasibleError` if no mechanism exists (otherwise its status says so).
        time_limit: seconds after which the best mechanism so far is returned; 0 gives one that needs no iteration.
            Outside of jit and vmap only, as progress.
        progress: True (lines on stderr), or a function that is called with a `jaxpriv.Progress` after every portion of
            steps; a `jaxpriv.History` keeps these records and that of the certified result. With two grids it reports
            the coarse problem. When `accelerated` goes over from float32 to float64 its best numbers are computed
            again, and may get worse by the rounding of float32 (about 1e-6 of them).
        checkpoint: a file for the state of a streaming solve (`accelerated`, `two-grid`; others refuse the argument).
            It is written whole or not at all, every 10 seconds at most and for at most 5 % of the time, and when a
            time limit or Ctrl-C ends the solve. The same call in another process, after whatever ended this one, goes
            on from it: `max_steps`, `time_limit` and devices may differ, problem, solver and tolerances may not.
            Certificates are computed again from the problem. The file has 6 |Y| |S| numbers (and 2 |Y| |S| for each
            complete run), which say as much about the joint as the mechanism does. It is removed once the result is
            `optimal`, and kept otherwise. A failure to write during the solve is a note, not an error. Of the processes
            that share a mesh the first has the file; the path of the others is not used.
        device: where programs are compiled for and run, outside of jit and vmap: a `jax.Device`, or a
            `jax.sharding.Sharding` whose devices share the blocks of a streaming solve (others use one device). By
            default that of the problem's own arrays, where its operators hold arrays of JAX that were put somewhere,
            then JAX's. The memory that a method needs is compared with that of the device. Tables are arrays of the
            host, and so are the result and its certificate.

    Raises:
        InputError: an argument is wrong, by name.
        InfeasibleError: with the numbers that prove it.
        ResourceError: the chosen solver would need more memory than there is, or the device failed; the folder of
            the checkpoint cannot be written.
        IntegrityError: the checkpoint is damaged; like one of another problem (`InputError`) it is left as it is.

    Example:
        >>> import jaxpriv as jp
        >>> joint = jp.probability.from_counts([[3, 1], [1, 3]])
        >>> solution = jp.solve(jp.DistortionProblem(joint, jp.distortion.hamming([0, 1]), budget=0.2))
        >>> print(solution.status, f"{solution.value:.5f} nats, gap at most 1e-6: {solution.gap <= 1e-6}")
        optimal 0.04570 nats, gap at most 1e-6: True
    """
    clock = clock_of(time_limit, progress)
    tol = default_tolerance(problem) if tol is None else tol
    goal = Goal(scalar(tol, "tol", low=0.0, open_low=True), scalar(rtol, "rtol", low=0.0))
    if device is not None and is_traced(problem, goal):
        raise InputError("device: outside of jit and vmap only; inside, the function that is compiled has a place")
    place = Placement.of(device, problem)
    if device is not None and place.mesh is not None and not isinstance(problem, DistortionProblem):
        raise InputError("device: several devices share the blocks of a streamed DistortionProblem, nothing else")
    with clock, place.here():
        solution = solve_within(place.moved(problem), Request(clock, goal, solver, max_steps, throw, start, checkpoint))
        if clock.every is not None:  # a history
            ends = solution.lower_bound, getattr(solution, "upper_bound", solution.value)
            bound = max(ends, key=lambda end: abs(end - solution.value))
            used = getattr(solution, "distortion", None)
            clock.report(
                solution.solver, solution.steps, solution.value, bound, distortion=used, mechanism=solution.mechanism
            )
        return solution


@overload
def solve_within(problem: DistortionProblem | NoiseProblem | LexicographicProblem, request: Request) -> Solution: ...
@overload
def solve_within(problem: object, request: Request) -> "Solution | FunnelSolution": ...
def solve_within(problem: object, request: Request) -> "Solution | FunnelSolution":
    """`solve` as a part of other work, which has a clock of its own."""
    goal, traced = request.goal, is_traced(problem, request.goal)
    if traced and request.clock.watched:
        raise InputError("time_limit and progress: outside of jit and vmap only, where there is a clock")
    if request.checkpoint is not None and not isinstance(problem, DistortionProblem):
        raise InputError(
            "checkpoint: one problem with a distortion has one, solved by 'accelerated' or 'two-grid'; no other has"
        )
    if isinstance(problem, NoiseProblem):
        return _noise(problem, request)
    if isinstance(problem, (FunnelProblem, BottleneckProblem)):
        return _funnel(problem, request)
    if isinstance(problem, LexicographicProblem):
        return _lexicographic(problem, request)
    if not isinstance(problem, DistortionProblem):
        classes = "DistortionProblem, NoiseProblem, LexicographicProblem, FunnelProblem or BottleneckProblem"
        several = "; solve_many takes a list of problems" if isinstance(problem, (list, tuple)) else ""
        raise InputError(f"problem must be a {classes}, not {type(problem).__name__}{several}")
    name, chosen, notes, start = pick_for_start(problem, request)
    limit, streaming = step_limit(chosen, request.max_steps), isinstance(chosen, STREAMING)
    if request.checkpoint is not None and (traced or not streaming):
        where = "inside of jit and vmap there is none: solve outside" if traced else f"{name} writes none"
        raise InputError(f"checkpoint: {where}; choose `solver` 'accelerated' or 'two-grid'")
    if named_mesh() is not None and not streaming:
        raise InputError(
            f"device: {name} runs on one device; several share the work of 'accelerated', 'two-grid' and solve_many"
        )
    if traced:
        with jax.numpy_rank_promotion("allow"):
            return solve_traced(problem, name, chosen, goal, limit, start)
    with own_settings(), device_errors():
        if isinstance(chosen, STREAMING):
            try:
                return solve_streamed(problem, name, chosen, request, notes)
            except Unsuited as reason:
                if not notes or request.checkpoint is not None:
                    raise
                name, chosen = table_solver(problem)
                limit, notes = step_limit(chosen, request.max_steps), (*notes, f"auto: {name}, because {reason}")
        automatic, clock, share = request.solver == "auto" and not notes, request.clock, nullcontext()
        if automatic and clock.left < np.inf:
            share = clock.share(first_share(problem, clock))
        vertices = automatic and problem.linear and by_vertices(problem, request)
        stages = Stages(problem, name, chosen, goal, limit, clock, start=start, vertices=vertices)
        with share:
            solution = solve_dense(
                stages, request.throw, least_worst_leakage if problem.form.minimax else Stages.solved
            )
        if automatic and solution.code != Status.OPTIMAL:
            return with_next_method(problem, solution, request)
        return dataclasses.replace(solution, notes=notes) if notes else solution


def _lexicographic(problem: LexicographicProblem, request: Request) -> Solution:
    """The least leakage, then the least distortion; the mechanism of the first step where the second finds no better.

    The limit of the second step is above the least leakage itself, not only above its lower bound: so the bound on the
    distortion holds for every mechanism within the tolerance.
    """
    if is_traced(problem, request.goal):
        raise InputError(
            "problem: a LexicographicProblem is solved outside of jit and vmap only; inside, solve with a budget, then "
            "with its value and the tolerance as leakage_budget"
        )
    # Refuse before the first step what the second refuses.
    pick_solver(request.solver, problem.least_distortion(np.inf), request.goal)
    first = solve_within(problem.least_leakage, request)
    if not np.isfinite(first.value):  # none exists, or none was found, and nothing is proved about distortions
        bound = np.inf if first.code == Status.INFEASIBLE else -np.inf
        return dataclasses.replace(first, lower_bound=np.float64(bound), least_leakage=first)
    second_request = dataclasses.replace(request, throw=True, start=None)
    # What rounding makes of a leakage that is known to be 0 is part of the limit, as it is of what `certify` measures.
    least = max(first.value, first.leakage)
    second = solve_within(problem.least_distortion(least), second_request)
    if not second.value <= first.distortion[0]:
        reached = first.distortion[0]
        second = dataclasses.replace(
            second,
            value=reached,
            lower_bound=min(second.lower_bound, reached),
            mechanism=first.mechanism,
            leakage=first.leakage,
            distortion=first.distortion,
        )
    code = second.code if first.code == Status.OPTIMAL else first.code
    return dataclasses.replace(second, code=code, least_leakage=first)


def _noise(problem: NoiseProblem, request: Request) -> Solution:
    from jaxpriv.solvers.noise import solve_noise

    if request.start is not None:
        raise InputError("start: additive noise has none")
    if request.solver != "auto":
        raise InputError(f"solver: additive noise has one method, 'auto'; {request.solver!r} was given")
    if is_traced(problem, request.goal):
        raise InputError("problem: additive noise is solved outside of jit and vmap only")
    with ONE_THREAD:
        return solve_noise(problem, request.goal, step_limit(None, request.max_steps), request.throw, request.clock)


def _funnel(problem: FunnelProblem | BottleneckProblem, request: Request) -> "FunnelSolution":
    from jaxpriv.funnels import FunnelGoal
    from jaxpriv.funnels.solve import solve_funnel

    tol, rtol = request.goal.tol, request.goal.rtol
    if is_traced(request.goal) or rtol != 0:
        raise InputError("funnels take tol and max_steps (host numbers), not rtol")
    limit = None if request.max_steps is None else step_limit(None, request.max_steps)
    if is_traced(problem, request.start):
        from jaxpriv.solving.traced_funnel import solve_traced_funnel

        with jax.numpy_rank_promotion("allow"):
            return solve_traced_funnel(problem, request.solver, FunnelGoal(float(tol), limit), request.start)
    with own_settings(), device_errors():
        return solve_funnel(problem, request.solver, FunnelGoal(float(tol), limit, request.clock), request.start)
