"""Problems too large for tables: survey, iterate block by block, certify in float64, fall back and say so."""

import dataclasses
import math
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jaxpriv._runtime.types import Arr
from jaxpriv._runtime.validation import SUM_TOLERANCE
from jaxpriv.data.channel import AbstractChannel, Deterministic, Gibbs, Mixture, push
from jaxpriv.data.distortion import AbstractDistortion, Pairwise, check_blocks
from jaxpriv.data.joints import AbstractJoint, in_double
from jaxpriv.data.streaming import Survey, all_devices, check_place, marginal, of_first, survey
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.leakage._base import Scale
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.certificates import Certificate, certify_streamed
from jaxpriv.program.lower import streamed_program, terms_of
from jaxpriv.program.solution import Solution, Status, no_solution, within_limits
from jaxpriv.program.streamed import StreamedProgram
from jaxpriv.reductions.closed_forms import BOUNDARY
from jaxpriv.solvers import AcceleratedMirrorDescent, Goal, InteriorPoint, TwoGrid
from jaxpriv.solvers.accelerated import StreamedCandidate
from jaxpriv.solvers.two_grid import Coarse, coarsen, sum_costs
from jaxpriv.solving.choice import Request, fits_for_newton, step_limit
from jaxpriv.solving.stages import Stages, solve_dense, units_of
from jaxpriv.solving.streamed_runs import MARGIN, Task, checkpoint_of, iterate

# The share of the allowed gap that the coarse problem may use.
_COARSE_SHARE = 0.3
# A gap that falls by less than this from one grid to the next has stopped falling.
_STILL_FALLING = 0.75
# Pairs (x, y) above which a coarse grid is solved first.
_LARGE_PASS = 2**25
# Cells of a coarse problem on tables: the interior-point method takes half a minute at 256.
_MOST_ON_TABLES = 256
# A price of distortion beyond which products would leave the range of float64.
_HIGHEST_PRICE = 1e100


class Unsuited(InputError):
    """The problem is in order, but the streaming solvers do not take it."""


class StreamedResult(NamedTuple):
    """A mechanism with its proof."""

    mechanism: AbstractChannel
    rules: np.ndarray  # (Y, T)
    multipliers: np.ndarray  # (M,)
    certificate: Certificate
    steps: int
    solver: str


def solve_streamed(
    problem: DistortionProblem,
    name: str,
    solver: AcceleratedMirrorDescent | TwoGrid,
    request: Request,
    notes: tuple[str, ...],
) -> Solution:
    """Solve block by block; with `notes` (the choice was `auto`'s) fall back from one method to the next."""
    goal, mesh = request.goal, solver.mesh if solver.mesh is not None else all_devices()
    task = Task(goal, step_limit(solver, request.max_steps), mesh, list(notes), request.clock)
    try:
        (program, task.scale, task.shift), surveyed = _ready(problem, mesh)
    except InfeasibleError:
        if request.throw:
            raise
        _, private, _, _ = problem.sizes
        return no_solution(problem.shape, private, 0, len(problem.distortions), len(problem.distortions))
    if request.checkpoint is not None:
        task.checkpoint = checkpoint_of(request.checkpoint, program, solver, goal, mesh)
    result = _closed_form(task, program, surveyed)
    if result is None and (task.expired(mesh) or not task.allows("first", program, mesh)):
        result = _nearest(task, program, surveyed, np.zeros(len(program.distortions)))._replace(solver="none")
    if result is None and isinstance(solver, TwoGrid):
        result = _two_grid(task, program, surveyed, solver, problem)
    if result is None or (notes and isinstance(solver, TwoGrid) and task.goes_on(result.certificate)):
        on_all = solver if isinstance(solver, AcceleratedMirrorDescent) else AcceleratedMirrorDescent()
        on_all = dataclasses.replace(on_all, mesh=mesh)
        if result is not None:
            task.said.append(f"auto: accelerated next, two-grid ended at a gap of {result.certificate.gap:.2e}")
            task.show(float(result.certificate.value), float(result.certificate.lower_bound))
        result = _better(result, _accelerated(task, program, surveyed, on_all))
    _check_order(result.certificate)
    if notes and task.left > 0 and task.goes_on(result.certificate) and fits_for_newton(problem):
        task.said.append(f"auto: interior-point last, accelerated ended at a gap of {result.certificate.gap:.2e}")
        stages = Stages(problem, "interior-point", InteriorPoint(), goal, min(200, task.left), task.clock)
        dense = solve_dense(stages, request.throw)
        if dense.gap < result.certificate.gap:
            if task.checkpoint is not None and dense.status == "optimal":
                task.checkpoint.remove()
            return dataclasses.replace(dense, notes=tuple(task.said))
    return dataclasses.replace(_solution(program, result, task), units=units_of(problem))


def _check_order(certificate: Certificate) -> None:
    """A bound above the value is no rounding: both are rounded to the safe side."""
    value, bound = certificate.value, certificate.lower_bound
    # 1e-9: more than the rounding of 10^6 terms in any order, and far below what contradicting blocks make.
    if bound > value + 1e-9 * abs(value):
        raise InputError(
            f"joint or distortion: their blocks contradict each other (a lower bound of {bound:.6g} is above the value "
            f"{value:.6g} of a mechanism); rows, tiles and pairs must be of one table"
        )


def _solution(program: StreamedProgram, result: StreamedResult, task: Task) -> Solution:
    certificate, stop = result.certificate, task.clock.stop
    proved = task.goal.proved(certificate)
    if proved and task.checkpoint is not None:
        task.checkpoint.remove()
    code = Status.OPTIMAL if proved else Status.BEST_KNOWN if stop else Status.NOT_CERTIFIED
    solution = Solution(
        value=np.float64(certificate.value),
        lower_bound=np.float64(certificate.lower_bound),
        mechanism=result.mechanism,
        leakage=np.float64(certificate.leakages[0]),
        distortion=np.asarray(certificate.constraint_values),
        scores=result.rules[None],
        weights=np.zeros((program.shape[1], 0)),
        multipliers=result.multipliers if program.prices is None else np.zeros(0),
        code=np.int32(code),
        steps=np.int32(result.steps),
        solver=result.solver,
        seconds=task.seconds(),
        notes=tuple(task.said),
        stopped=np.int32(stop),
    )
    return within_limits(solution, certificate.violation)


def _better(first: StreamedResult | None, second: StreamedResult) -> StreamedResult:
    """The better mechanism with the better proof of the two."""
    if first is None:
        return second
    a, b = first.certificate, second.certificate
    primal, dual = (first if a.value <= b.value else second), (first if a.lower_bound >= b.lower_bound else second)
    joined = dataclasses.replace(primal.certificate, lower_bound=dual.certificate.lower_bound)
    return StreamedResult(
        primal.mechanism,
        dual.rules,
        dual.multipliers,
        joined,
        first.steps + second.steps,
        f"{first.solver}, {second.solver}",
    )


# ------------------------------------------------------------------------------- preparation

_survey = jax.jit(survey, static_argnames=("sound", "mesh"))
_marginal = jax.jit(marginal, static_argnames="mesh")


def _look(joint: AbstractJoint, distortions: tuple[AbstractDistortion, ...], budgets: Arr, mesh: Mesh | None) -> Survey:
    """A survey; of the joint alone where there is no budget to meet and the costs are sound by themselves."""
    count, sound = len(distortions), all(d.known for d in distortions)
    if budgets is not None or not sound:
        # What is near is measured in units of the budgets.
        scales = np.ones(count) if budgets is None else np.where(np.asarray(budgets) > 0, budgets, 1.0)
        return jax.device_get(_survey(joint, distortions, scales, sound=sound, mesh=mesh))
    (inputs, outputs), none = distortions[0].shape, np.zeros(count)
    prior, faults = jax.device_get(_marginal(joint, mesh=mesh))
    columns, constant = np.zeros((outputs, len(prior))), np.zeros((count, outputs))
    return Survey(prior, np.zeros(inputs, int), faults, columns, none, np.zeros(count, int), none, constant)


def _ready(problem: DistortionProblem, mesh: Mesh | None) -> tuple[tuple[StreamedProgram, Scale, float], Survey]:
    """The program with its reading, and what one pass over all its blocks computes; refuses what cannot be solved."""
    joint, distortions = problem.operators()
    check_place(joint, mesh)
    joint = in_double(joint)
    for k, d in enumerate(distortions):
        check_blocks(d, f"distortion[{k}]")
    surveyed = _look(joint, distortions, problem.budget, mesh)
    _check_faults(surveyed, joint, distortions)
    if abs(float(surveyed.prior.sum()) - 1) > SUM_TOLERANCE:
        raise InputError(f"joint sums to {float(surveyed.prior.sum()):.12g}, not 1")
    stated = streamed_program(problem, joint, distortions, surveyed.prior)
    budgets = stated[0].budgets
    if budgets is not None:
        short = budgets < surveyed.least * (1 - BOUNDARY)
        if short.any():
            k = int(np.argmax(short))
            weights = np.eye(len(budgets))[k]
            raise InfeasibleError(
                f"budget[{k}] {float(budgets[k]):.12g} is below {float(surveyed.least[k]):.12g}, the least distortion "
                "of any mechanism",
                {"bound": float(surveyed.least[k]), "allowed": float(budgets[k]), "multipliers": weights.tolist()},
            )
        if not (surveyed.at_feasible_point <= budgets * (1 + BOUNDARY)).all():
            raise Unsuited(
                "budget: releasing the nearest symbol does not meet all budgets at once; use multipliers, or "
                "solver='interior-point'"
            )
        if ((budgets <= surveyed.least * (1 + BOUNDARY)) & (surveyed.ties > 0)).any():
            raise Unsuited(
                "budget: it leaves a choice between cheapest symbols and nothing else; use solver='interior-point'"
            )
    return stated, surveyed


def _check_faults(surveyed: Survey, joint: AbstractJoint, distortions: tuple[AbstractDistortion, ...]) -> None:
    bad = np.flatnonzero(surveyed.faults)
    if len(bad) == 0:
        return
    x = int(bad[0])
    for k, d in enumerate(distortions):
        row = np.asarray(d.rows(np.array([x])))[0]
        forbidden = (row == np.inf) & (not (isinstance(d, Pairwise) and d.standard))  # ours overflow
        for wrong, kind, error in (
            (forbidden, "infinite, which forbids the pair; use solver='interior-point'", Unsuited),
            (~np.isfinite(row), "not finite", InputError),
            (row < 0, "negative (add a constant to all costs)", Unsuited),
        ):
            if wrong.any():
                raise error(f"distortion[{k}] at [{x}, {int(np.argmax(wrong))}] (axes x, y) is {kind}")
    column = np.asarray(joint.columns(np.array([x])))[:, 0]
    s = int(np.argmax(~(np.isfinite(column) & (column >= 0))))
    raise InputError(f"joint at [{s}, {x}] (axes s, x) is negative or not finite")


def _closed_form(task: Task, program: StreamedProgram, surveyed: Survey) -> StreamedResult | None:
    """Budgets that one constant release meets need no leakage; budgets without slack leave one mechanism."""
    if program.budgets is None:
        return None
    inputs, outputs = program.shape
    nothing, idle = np.zeros((outputs, len(program.term.reference))), np.zeros(len(program.budgets))
    free = (surveyed.constant <= program.budgets[:, None]).all(axis=0)
    if free.any():
        best = int(np.where(free, surveyed.constant.sum(axis=0), np.inf).argmin())
        constant = Deterministic(np.full(inputs, best), outputs)
        return _certified(task, program, constant, nothing, idle, "closed-form")
    full = program.budgets <= surveyed.least * (1 + BOUNDARY)
    if not full.any():
        return None  # (that each x has ONE cheapest output then was checked before)
    nearest = Deterministic(surveyed.nearest, outputs)
    rules = _excluding(program, surveyed)
    span = np.maximum(surveyed.constant.max(axis=1) - surveyed.least, 1.0 / _HIGHEST_PRICE)
    # The price of a budget without slack has no upper end: raise it until the bound no longer grows.
    first = np.where(full, np.minimum(1.0 / span, _HIGHEST_PRICE), 0.0)
    result = _certified(task, program, nearest, rules, first, "closed-form")
    for power in range(2, 40, 2):  # to 2^38 = 3e11 times the first price: a choice
        trial = _certified(task, program, nearest, rules, 2.0**power * first, "closed-form")
        if 0 < trial.certificate.lower_bound <= result.certificate.lower_bound:
            break
        result = trial
    return result


# --------------------------------------------------------------------------------- iteration


def _certified(
    task: Task, program: StreamedProgram, mechanism: AbstractChannel, rules: Arr, multipliers: Arr, solver: str
) -> StreamedResult:
    rules, multipliers = np.asarray(rules), np.asarray(multipliers)
    certificate_of_total = certify_streamed(program, mechanism, rules, multipliers, task.mesh)
    (leaked,) = certificate_of_total.leakages
    certificate = dataclasses.replace(
        certificate_of_total,
        value=task.value(certificate_of_total.value),
        lower_bound=task.value(certificate_of_total.lower_bound),
        leakages=np.array([max(task.value(leaked), 0.0)]),
    )
    return StreamedResult(mechanism, rules, multipliers, certificate, 0, solver)


def _accelerated(
    task: Task, program: StreamedProgram, surveyed: Survey, solver: AcceleratedMirrorDescent
) -> StreamedResult:
    def certified(best: StreamedCandidate) -> StreamedResult:
        channel = _repaired(program, surveyed, _gibbs(program, best), solver.mesh)
        return _certified(task, program, channel, best.rule, best.multipliers, "accelerated")

    candidates, used = iterate(
        task, "all symbols", program, surveyed, solver, task.goal, lambda best: certified(best).certificate
    )
    result = None
    for best in candidates:
        result = _better(result, certified(best))
        if not task.goes_on(result.certificate):
            break
    assert result is not None  # there always is a candidate
    # Float32 claimed to be at the goal, and is not.
    claimed = solver.single is None and len(candidates) == 1 and task.left > 0
    if claimed and task.goes_on(result.certificate) and task.allows("float64", program, solver.mesh):
        task.said.append("accelerated: float64 passes, because the certificate of what float32 found misses the goal")
        exact = dataclasses.replace(solver, single=False)
        candidates, more = iterate(task, "all symbols, float64", program, surveyed, exact, task.goal)
        result, used = _better(result, certified(candidates[0])), used + more
    if task.goes_on(result.certificate):
        result = _better(result, _nearest(task, program, surveyed, result.multipliers))
    return result._replace(steps=used, solver="accelerated")


def _nearest(task: Task, program: StreamedProgram, surveyed: Survey, multipliers: np.ndarray) -> StreamedResult:
    """The release of the nearest symbol and its adversary: the answer at a high price, and near the least budget."""
    if program.prices is not None:  # nearest outputs are computed only where there is a budget
        scales = np.divide(1.0, program.prices, out=np.full(len(program.prices), np.inf), where=program.prices > 0)
        surveyed = jax.device_get(_survey(program.joint, program.distortions, scales, sound=True, mesh=task.mesh))
    mechanism = Deterministic(surveyed.nearest, program.shape[1])
    return _certified(task, program, mechanism, _excluding(program, surveyed), multipliers, "accelerated")


def _excluding(program: StreamedProgram, surveyed: Survey) -> np.ndarray:
    """The adversary's rules after the nearest release; a symbol that an output excludes has a finite price."""
    # e^-50 = 2e-22 is below the rounding of a probability; any rules give a bound that holds.
    return np.asarray(program.rules(np.asarray(surveyed.columns), math.exp(-50.0)))


def _gibbs(program: StreamedProgram, best: StreamedCandidate) -> Gibbs:
    scores, prices = program.scores(np.asarray(best.gibbs)), np.asarray(best.prices)
    return Gibbs(program.joint, program.distortions, program.prior, scores, prices)


def _repaired(
    program: StreamedProgram, surveyed: Survey, channel: AbstractChannel, mesh: Mesh | None
) -> AbstractChannel:
    """The least mixture with the nearest release that meets the budgets."""
    if program.budgets is None:
        return channel
    used = np.asarray(push(channel, program.joint, program.distortions, mesh).distortions)
    over = used - program.budgets
    if not (over > 0).any():
        return channel
    drop = np.where(over > 0, np.maximum(used - surveyed.at_feasible_point, np.finfo(float).tiny), 1.0)
    share = float(np.clip(np.where(over > 0, over / drop, 0.0), 0.0, 1.0).max())
    return Mixture(
        channel, Deterministic(surveyed.nearest, program.shape[1]), np.asarray(min(1.0, share * (1 + 1e-12)))
    )


# ---------------------------------------------------------------------------------- two grids


def _two_grid(
    task: Task, program: StreamedProgram, surveyed: Survey, solver: TwoGrid, problem: DistortionProblem
) -> StreamedResult:
    """Finer and finer cells until the gap on the symbols themselves is small enough or stops falling.

    A full pass over the symbols is expensive, so a gap is tried on a grid between first: cells of its own that
    are several times finer than those of the coarse problem.
    """
    goal, mesh, said = task.goal, task.mesh, task.said
    symbols = program.shape[0]
    on_cells = AcceleratedMirrorDescent(single=False)
    inner = Goal(_COARSE_SHARE * goal.tol, _COARSE_SHARE * goal.rtol)
    best, steps, last, cells = None, 0, np.inf, min(solver.cells, symbols)
    most = solver.most_cells if program.term.smooth else min(solver.most_cells, _MOST_ON_TABLES)
    while True:
        width = 2 ** int(np.ceil(np.log2(symbols / cells)))
        coarse = coarsen(program, width, mesh)
        seen = _look(coarse.program.joint, coarse.program.distortions, program.budgets, None)
        left = task.left
        name = f"{len(coarse.x.centres)} cells"
        if program.term.smooth:
            (solved, *_), used = iterate(task, name, coarse.program, seen, on_cells, inner)  # every process by itself
            parts = _gibbs(coarse.program, solved).matrix(), solved.rule, solved.multipliers, np.asarray(used)
        else:
            parts = _on_tables(task, problem, program, coarse, inner)
        moves, rules, multipliers, used = of_first(mesh, parts)
        task.left = left - int(used)
        steps += int(used)

        def read(
            on: StreamedProgram,
            seen: Survey,
            by: Coarse,
            moves: Arr = moves,
            rules: Arr = rules,
            multipliers: Arr = multipliers,
        ) -> StreamedResult:
            mechanism = _repaired(on, seen, by.lift(moves), mesh)
            return _certified(task, on, mechanism, by.rule(np.asarray(rules)), multipliers, "two-grid")

        stop = cells >= min(most, symbols) or task.left <= 0 or task.expired(mesh)
        large = program.shape[0] * program.shape[1] > _LARGE_PASS and not task.expired(mesh)
        between = max(1, width // solver.refine) if large else 1
        promising = between == 1
        if between > 1:
            middle = coarsen(program, between, mesh).program
            seen = _look(middle.joint, middle.distortions, program.budgets, mesh)
            tried = read(middle, seen, coarsen(middle, width // between, None)).certificate
            said.append(f"two-grid: {len(coarse.x.centres)} cells, gap {tried.gap:.2e} seen on {middle.shape[0]}")
            stop = stop or tried.gap >= _STILL_FALLING * last or task.expired(mesh)
            # The full grid adds a little to the gap seen on a smaller one.
            promising = Goal(MARGIN * goal.tol, MARGIN * goal.rtol).met(tried)
            last = min(last, tried.gap)
        if promising or stop:
            result = read(program, surveyed, coarse)
            gap = result.certificate.gap
            said.append(f"two-grid: {len(coarse.x.centres)} cells, certified gap {gap:.2e}")
            best = result if best is None else _better(best, result)
            if stop or goal.met(result.certificate) or (between == 1 and gap >= _STILL_FALLING * last):
                return best._replace(steps=steps, solver="two-grid")
            last = min(last, gap)
        cells = min(2 * cells, symbols)


def _on_tables(
    task: Task, problem: DistortionProblem, program: StreamedProgram, coarse: Coarse, goal: Goal
) -> tuple[Arr, Arr, Arr, Arr]:
    """(mechanism, rules, prices, steps) on cells, by the interior-point method.

    The mechanism is the best one that releases middle symbols, at their mean costs. Its rules would be of an adversary
    to whom no x is nearer to the middle of its cell than on average: the rules are those of costs between middles.
    """
    table = np.asarray(coarse.program.joint.matrix())
    costs = sum_costs(program.joint, program.distortions, coarse.x.cell, coarse.middles, table.shape[1], task.mesh)
    costs = np.asarray(costs) / np.maximum(table.sum(axis=0), np.finfo(float).tiny)[:, None]
    target = {problem.form.name: problem.form.target, "leakage": problem.leakage}
    solutions = []
    for distortion in (coarse.program.distortions, costs):
        small = DistortionProblem(table, distortion, **target)
        with task.clock.quiet():
            limit = min(200, task.left)
            stages = Stages(small, "interior-point", InteriorPoint(), goal, limit, task.clock)
            solution = solve_dense(stages, False)
        solutions.append(solution)
    # Budgets below the mean costs: the nearest symbol is mixed in until they are met.
    moves = [solution.mechanism for solution in solutions if solution.status != "infeasible"]
    moves = moves or [np.eye(costs.shape[2])[costs[0].argmin(axis=1)]]
    # Rows that are equal, or of symbols without mass, are left out there.
    few, all_rows = (terms_of(problem.leakage, table, Role.OBJECTIVE, whole=whole)[0].rows for whole in (False, True))
    rules = np.zeros((costs.shape[2], len(all_rows)))
    rules[:, abs(few[:, None] - all_rows).sum(axis=2).argmin(axis=1)] = solutions[0].scores[0]
    return np.asarray(moves[-1]), rules, solutions[0].multipliers, np.asarray(solutions[0].steps + solutions[1].steps)
