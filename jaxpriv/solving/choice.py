"""The choice of the solver: the one that is named or given, or that of `auto` by structure, size and free memory."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
from jax.core import Tracer

from jaxpriv._runtime import resources
from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.compilation import accelerator, target_platform
from jaxpriv._runtime.native import absence
from jaxpriv._runtime.resources import MERGE, STREAM, need_memory
from jaxpriv._runtime.types import Arr
from jaxpriv._runtime.validation import is_traced, mechanism_array, scalar
from jaxpriv.data.distortion import Matrix
from jaxpriv.data.joints import AbstractJoint, Sharded
from jaxpriv.errors import InputError
from jaxpriv.leakage import MutualInformation
from jaxpriv.leakage.evaluation import table_of
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.solution import DOUBLE_TOLERANCE, SINGLE_TOLERANCE
from jaxpriv.solvers import (
    AbstractSolver,
    AcceleratedMirrorDescent,
    AugmentedLagrangian,
    BlahutArimoto,
    Goal,
    InteriorPoint,
    MirrorDescent,
    PrimalDualHybridGradient,
    TwoGrid,
)
from jaxpriv.solvers._newton_system import inputs_are_cheaper
from jaxpriv.solvers.linear_program import LinearProgram
from jaxpriv.solvers.mirror_descent import AbstractMirrorDescent
from jaxpriv.solvers.two_grid import grid_of

if TYPE_CHECKING:
    from jaxpriv.funnels import AbstractFunnelSolver

Solver: TypeAlias = AbstractSolver | TwoGrid | LinearProgram


@dataclass(frozen=True)
class Request:
    """How a problem is to be solved: the arguments of `solve` beside the problem and the device."""

    clock: Clock
    goal: Goal
    solver: "str | Solver | AbstractFunnelSolver" = "auto"
    max_steps: int | None = None
    throw: bool = True
    start: object = None
    checkpoint: str | os.PathLike[str] | None = None


# Solvers by the names of the command line.
SOLVERS: Mapping[str, Solver] = {
    "interior-point": InteriorPoint(),
    "mirror-descent": MirrorDescent(),
    "blahut-arimoto": BlahutArimoto(),
    "accelerated": AcceleratedMirrorDescent(),
    "two-grid": TwoGrid(),
    "linear-program": LinearProgram(),
    "hybrid-gradient": PrimalDualHybridGradient(),
    "augmented-lagrangian": AugmentedLagrangian(),
}

# All names of the command line.
SOLVER_NAMES = ("auto", *SOLVERS)

# Solvers that work block by block.
STREAMING = (AcceleratedMirrorDescent, TwoGrid)
# Solvers that take a smooth average in float32 inside of a trace.
SINGLE = (AbstractMirrorDescent, PrimalDualHybridGradient, AcceleratedMirrorDescent)
# Solvers of the saddle point of tables.
BY_PRODUCTS = (PrimalDualHybridGradient, AugmentedLagrangian)
# Solvers that find the least worst outcome by one distance to the budgets after another.
BY_DISTANCES = (LinearProgram, *BY_PRODUCTS)

# The interior-point method holds this many sets of systems: with the CPU kernels the factors alone, without them the
# matrices of the systems and their products too. Beside them it holds at most so many arrays of |Y| (|X| + rows)
# numbers: points, right-hand sides and moves. All are bounds of what XLA reserves for a step, as measured at 128
# to 4096 symbols with kernels, and at 128 and 256 without; derivatives of optima, of 64 to 256 private and 128 and 256
# other symbols, take no more: the kernels factor there too.
_KERNEL_SETS, _PORTABLE_SETS, _STEP_ARRAYS = 1, 3.25, 48
# `auto` gives it this share of the free memory at most.
_AUTO_SHARE = 0.5
# Mirror descent holds about this many arrays of |X| |Y| numbers.
_TABLE_ARRAYS = 12
# The hybrid gradient holds about this many arrays of |Y| (|X| + rows) numbers: 19 at 256 symbols, 4 or 64 private ones.
_HYBRID_ARRAYS = 20
# The augmented Lagrangian method of smooth averages holds this many matrices of rows for every output: the curvature,
# the factor, its parts, and what is added up to them.
_FACTOR_ARRAYS = 6
# The streaming solvers hold about this many arrays of |Y| |S| numbers.
_SCORE_ARRAYS = 16
# Relative accuracy that streaming solvers reach quickly, and the operations of a Newton step that make
# them the better choice for it (about a second of one core).
_LOOSE, _LARGE_STEP = 1e-3, 2e10
# Inside of a trace a problem of a smooth average with at most so many pairs (x, y), at a tolerance not below this one,
# is for the hybrid gradient: its program compiles in half the time of the interior point's, and a solve takes longer.
# `python -m benchmarks.traces --solvers` measures both: 3,000 solves of 16 symbols take as long as was saved, and 460
# solves of 32 symbols. Where the measure is the limit a solve takes .6 to 2.4 times as long, up to the second number of
# pairs, and the interior point may stall at rare symbols.
_TRACED_PAIRS, _TRACED_LIMIT_PAIRS, _TRACED_TOLERANCE = 256, 32**2, 1e-8
# A smooth average of one joint, with budgets alone and at most so many pairs (x, y), takes an eighth less time with
# fewer correctors and mirror steps: nine measures at 8, 16 and 32 symbols. Mutual information has a kernel. Steps that
# go nearer to the boundary and may leave a wider neighbourhood are 5 to 7 % fewer: eight measures, 480 random problems
# of 8 symbols, 320 of 16 and 96 of 32.
_QUICK, _QUICK_PAIRS = InteriorPoint(correctors=1, warm_steps=25, boundary=0.98, neighbourhood=0.005), 1024
# Entries of a mechanism up to which the simplex method takes less time than NumPy's steps on a linear program: measured
# for maximal leakage, the correct guess and total variation, 0.3 to 0.7 of the time at 12 and 16 symbols, 0.5 to 1.1
# at 20, 1.0 to 1.4 at 24 and 1.5 to 3 at 32.
_BY_VERTICES = 22**2
# The loops count in 32 bits where x64 is off.
_MOST_STEPS = 2**31 - 1


def pick_solver(solver: object, problem: DistortionProblem, goal: Goal) -> tuple[str, Solver, tuple[str, ...]]:
    """(name, solver, notes) meant by a name, by `auto`, or by a solver object; refused if it does not take the problem,
    or cannot fit into memory.
    """
    _check_measures(problem)
    notes, newton = (), newton_bytes(problem)
    if isinstance(solver, Solver):
        name, chosen = type(solver).__name__, solver
    elif isinstance(solver, str) and solver in SOLVER_NAMES:
        name, notes = _choose(problem, goal, newton) if solver == "auto" else (solver, ())
        chosen = _QUICK if name == "interior-point" and _is_quick(problem) else SOLVERS[name]
    else:
        if isinstance(solver, type) and issubclass(solver, Solver):
            raise InputError(f"solver must be a name or an object: {solver.__name__}(), not the class")
        raise InputError(f"solver {solver!r} is unknown; known: {', '.join(SOLVER_NAMES)}")
    single = isinstance(chosen, SINGLE) and _one_average(problem)
    if isinstance(chosen, AugmentedLagrangian) or not (problem.of_information or single):
        check_double(problem)
    if (taken := getattr(chosen, "measures", "information")) in ("linear", "separate"):
        averages = taken == "separate" and problem.streams and problem.leakage.smooth
        if not (problem.linear or averages):
            too = ", and smooth averages of one joint with budgets or multipliers," if taken == "separate" else ""
            raise InputError(
                f"solver {name!r} takes linear programs{too} only; a measure of this problem is not piecewise linear: "
                f"{_instead(problem)}"
            )
    elif taken == "information" and not problem.of_information:
        raise InputError(
            f"solver {name!r} takes mutual information without further limits only; {_instead(problem)}; "
            "mirror-descent takes other smooth averages too"
        )
    elif taken in ("smooth", "average") and (reason := _not_taken(problem, taken == "average")) is not None:
        raise InputError(f"solver: {name} {reason}; {_instead(problem)}")
    if isinstance(chosen, STREAMING) and not problem.streams:
        raise InputError(f"solver: {name} takes one joint with budgets or multipliers; use 'interior-point'")
    if (reason := getattr(chosen, "untraceable", None)) is not None and is_traced(problem):
        raise InputError(
            f"solver: {name} runs outside of jit, vmap and grad only, because {reason}; {_instead(problem)} there"
        )
    if isinstance(chosen, BY_PRODUCTS) and (reason := not_by_products(problem)) is not None:
        raise InputError(f"solver: {name} {reason}; use 'interior-point'")
    _check_memory(name, chosen, problem, newton)
    return name, chosen, notes


def _instead(problem: DistortionProblem) -> str:
    """Which solvers take any measure, and this problem."""
    return "use 'interior-point'" + (" or 'hybrid-gradient'" if not_by_products(problem) is None else "")


def _is_quick(problem: DistortionProblem) -> bool:
    """Whether `_QUICK` takes less time than the interior point as it is by default."""
    measure = problem.leakage
    if isinstance(measure, MutualInformation) or problem.limits or measure.worst_outcome or not measure.smooth:
        return False
    joints, _, inputs, outputs = problem.sizes
    return joints == 1 and not problem.form.limits_leakage and inputs * outputs <= _QUICK_PAIRS


def _not_taken(problem: DistortionProblem, ties: bool) -> str | None:
    """Why a solver of averages, with `ties` of decision rules or without, does not take the problem, if that is so."""
    for form, measure in problem.measures:
        if measure.worst_outcome or not (measure.smooth or (ties and measure.linear)):
            kind = "decision rules are in closed form" if ties else "decision rules have no ties"
            return f"takes averages whose {kind} (`{form}` is {measure.label})"
    if problem.sizes[0] > 1 and (problem.form.limits_leakage or problem.limits):
        return "takes a set of joints with a budget and no further limits"
    return None


def not_by_products(problem: DistortionProblem) -> str | None:
    """Why the iterations of `BY_PRODUCTS` are not defined, or do not converge, if that is so."""
    if is_traced(problem) and problem.form.minimax:
        return "finds the least leakage in the worst outcome outside of jit, vmap and grad only"
    return None


def pick_for_start(problem: DistortionProblem, request: Request) -> tuple[str, Solver, tuple[str, ...], Arr | None]:
    """`pick_solver`, and the caller's mechanism to begin with as an array (X, Y), or None.

    It is refused if it is none for the problem, or the solver cannot begin with one.
    """
    name, chosen, notes = pick_solver(request.solver, problem, request.goal)
    if request.start is None:
        return name, chosen, notes, None
    if notes and isinstance(chosen, STREAMING):  # notes: it was `auto` that chose
        name, chosen = table_solver(problem)
    if not getattr(chosen, "takes_start", False):
        able = ", ".join(f"'{other}'" for other, its in SOLVERS.items() if getattr(its, "takes_start", False))
        raise InputError(f"start: {name} has none; these have: {able}")
    if problem.form.minimax:
        raise InputError(
            f"start: {name} has none for the least leakage in the worst outcome within budgets; leave it out"
        )
    inputs, outputs = problem.shape
    mechanism = mechanism_array(table_of(request.start), "start", inputs=inputs)
    if mechanism.shape[1] != outputs:
        raise InputError(
            f"start has {mechanism.shape[1]} columns (axis y), but the problem has {outputs} released symbols"
        )
    if is_traced(mechanism) and not is_traced(problem):
        raise InputError("start is traced, and the problem is not: give it as an array of the host")
    return name, chosen, notes, mechanism


def _check_measures(problem: DistortionProblem) -> None:
    private = problem.sizes[1]
    for form, measure in problem.measures:
        if not measure.designable:
            raise InputError(f"{form}: {measure.instead}")
        if measure.untraceable is not None and is_traced(problem):
            raise InputError(f"{form}: {measure.untraceable}")
        measure.check(form, private)
    if problem.form.minimax and problem.leakage.unbudgeted is not None:
        raise InputError(f"leakage: {problem.leakage.unbudgeted}")
    if problem.form.prices_distortion:
        if problem.leakage.worst_outcome:
            raise InputError("multiplier: a worst-outcome measure takes `budget` or `leakage_budget`")
        if not problem.leakage.scale_for(private).proportional:
            raise InputError("multiplier: the logarithm of an average is not convex; use `budget` or `leakage_budget`")


def _check_memory(name: str, chosen: Solver, problem: DistortionProblem, newton: float) -> None:
    """Refuse a solver that would need more memory than there is; `newton`: what the interior-point method would."""
    if isinstance(chosen, LinearProgram) or (isinstance(chosen, InteriorPoint) and _fits(newton)):
        return
    groups, private, inputs, outputs = problem.sizes
    if isinstance(chosen, STREAMING) and not is_traced(problem):
        held = problem.data.held if isinstance(problem.data, Sharded) else inputs
        tables = sum(isinstance(distortion, Matrix) for distortion in problem.distortions)  # whole on every device
        need = (_SCORE_ARRAYS * outputs + held) * private + tables * inputs * outputs
        other = f"{MERGE}: the adversary's rule alone is this large"
    elif isinstance(chosen, InteriorPoint):
        need = newton / 8.0
        by_blocks = problem.streams and problem.leakage.smooth
        smaller = "accelerated" if by_blocks else "mirror-descent" if problem.of_information else "hybrid-gradient"
        other = MERGE if smaller == "hybrid-gradient" and not_by_products(problem) else f"use solver='{smaller}'"
    elif isinstance(chosen, BY_PRODUCTS):
        need, other = _HYBRID_ARRAYS * outputs * (inputs + problem.rows), MERGE
        if isinstance(chosen, AugmentedLagrangian) and not problem.linear:
            need = need + _FACTOR_ARRAYS * outputs * problem.rows**2
    else:
        need, other = _TABLE_ARRAYS * groups * inputs * outputs, STREAM if problem.streams else MERGE
    if not _fits(8.0 * need):
        need_memory(8.0 * need, f"{name} for |S|={private}, |X|={inputs}, |Y|={outputs}", other, accelerator())


def _other_than_double(problem: DistortionProblem) -> list[str]:
    """The precisions of tracers that are not float64."""
    traced = [leaf for leaf in jax.tree.leaves(problem) if is_traced(leaf)]
    return sorted({str(leaf.dtype) for leaf in traced if leaf.dtype != jnp.float64})


def check_double(problem: DistortionProblem) -> None:
    """Refuse tracers of another precision than float64."""
    if kinds := _other_than_double(problem):
        raise InputError(
            f"problem holds {', '.join(kinds)}; derivatives of optima, other measures than smooth averages, other "
            "methods for these than those of first order, and further limits need float64 inside of jit and vmap: set "
            "jax_enable_x64, or call inside `with jax.enable_x64(True)`"
        )


def _one_average(problem: DistortionProblem) -> bool:
    """Whether it is one smooth average of one joint, without further limits."""
    measure = problem.leakage
    return measure.smooth and not measure.worst_outcome and not problem.limits and problem.sizes[0] == 1


def _behind_symbols(joint: Arr) -> bool:
    """Whether X = f(S): the rows of an entropic measure are then one for each x, and depend on nothing else."""
    return bool(((joint > 0).sum(axis=1) <= 1).all() and (joint.sum(axis=0) > 0).all())


def _diagonal(problem: DistortionProblem) -> bool:
    """Whether there is one measure of one joint of X = f(S): reduced, a diagonal matrix (`Program.diagonal`)."""
    if is_traced(problem) or isinstance(problem.data, AbstractJoint) or problem.limits or not problem.leakage.entropic:
        return False
    return len(problem.data) == 1 and _behind_symbols(problem.data[0])


def _fits(size: float, share: float = 1.0) -> bool:
    """Whether so many bytes are at most this share of the free memory where programs run."""
    return size <= resources.ALWAYS or resources.fits(size, share, accelerator())


def fits_for_newton(problem: DistortionProblem) -> bool:
    """Whether the interior-point method has the memory that it would hold."""
    return _fits(newton_bytes(problem))


def newton_bytes(problem: DistortionProblem) -> float:
    """What the interior-point method would hold: the factors of the smaller of its two systems, by the rows of every
    measure under every joint, and arrays of the size of a mechanism or a decision rule. Of a small problem it is more
    than that, and still less than there always is.
    """
    (_, private, inputs, outputs), rows = problem.sizes, problem.rows
    others = 8.0 * _STEP_ARRAYS * outputs * (inputs + rows)
    most = 8.0 * _PORTABLE_SETS * outputs * (inputs + rows) ** 2 + others  # of any of the systems
    if most <= resources.ALWAYS:
        return most
    if _diagonal(problem):
        return 8.0 * _TABLE_ARRAYS * outputs * max(inputs, private)
    by_inputs = not problem.linear and inputs_are_cheaper(rows, inputs)
    factors = 8.0 * outputs * (inputs**2 if by_inputs else rows**2)
    products = 0.0 if by_inputs else 8.0 * outputs * rows * inputs
    portable = _PORTABLE_SETS * (factors + products) + others
    # Asking for the kernels loads them, which takes longer than a small solve.
    if _fits(portable, _AUTO_SHARE) or target_platform() != "cpu" or absence() is not None:
        return portable
    return _KERNEL_SETS * factors + others


def _choose(problem: DistortionProblem, goal: Goal, newton: float) -> tuple[str, tuple[str, ...]]:
    """The name of the method that `auto` takes, with notes; `newton`: the bytes that the interior point would hold."""
    fits = _fits(newton, _AUTO_SHARE)
    if not problem.of_information:
        wanted = not fits or _by_first_order(problem, goal)
        return ("hybrid-gradient" if wanted and not_by_products(problem) is None else "interior-point"), ()
    quick = not isinstance(goal.rtol, Tracer) and goal.rtol >= _LOOSE and _operations(problem) >= _LARGE_STEP
    if (quick or not fits) and problem.streams and not is_traced(problem):
        try:
            grid = grid_of(problem.distortions)
        except InputError as reason:
            return "accelerated", (f"auto: accelerated, because {reason}",)
        how = "numbered" if grid.numbered else "ordered"
        return "two-grid", (f"auto: two-grid first, because the symbols are {how}",)
    return ("interior-point" if fits else "mirror-descent"), ()


def _operations(problem: DistortionProblem) -> float:
    """About those of a Newton step on mutual information."""
    groups, private, inputs, outputs = problem.sizes
    work = 2.0 * outputs * inputs**2
    return work if _diagonal(problem) else work * groups * private * (1.0 + private / inputs)


def _by_first_order(problem: DistortionProblem, goal: Goal) -> bool:
    """Whether it is traced and one smooth average: in float32, or of those whose hybrid gradient compiles sooner than
    many interior points run.
    """
    if not is_traced(problem) or not _one_average(problem):
        return False
    if _other_than_double(problem):
        return True
    if is_traced(goal) or goal.tol < _TRACED_TOLERANCE:
        return False
    most = _TRACED_LIMIT_PAIRS if problem.form.limits_leakage else _TRACED_PAIRS
    return math.prod(problem.shape) <= most


def by_vertices(problem: DistortionProblem, request: Request) -> bool:
    """Whether `auto` lets the simplex method take the place of NumPy's steps on a linear program."""
    return request.start is None and not request.clock.reports and math.prod(problem.shape) <= _BY_VERTICES


def table_solver(problem: DistortionProblem) -> tuple[str, AbstractSolver]:
    """The solver on tables that fits into memory."""
    if fits_for_newton(problem):
        return "interior-point", InteriorPoint()
    return "mirror-descent", MirrorDescent()


def default_tolerance(problem: object) -> float:
    """The gap that counts as `optimal` where the caller names none: what the precision of the certificate allows."""
    traced = [leaf for leaf in jax.tree.leaves(problem) if isinstance(leaf, Tracer)]
    return SINGLE_TOLERANCE if any(leaf.dtype == jnp.float32 for leaf in traced) else DOUBLE_TOLERANCE


def step_limit(solver: Solver | None, max_steps: int | None) -> int:
    """`max_steps`, or the default of the kind of solver (None: that of additive noise)."""
    if max_steps is None:
        return 1000 if solver is None else 200 if isinstance(solver, InteriorPoint) else 20000
    if is_traced(max_steps):
        return max_steps
    number = 0.0 if isinstance(max_steps, bool) else scalar(max_steps, "max_steps", infinite=True)
    if not 1 <= number <= _MOST_STEPS or number != round(number):
        raise InputError("max_steps must be an integer >= 1")
    return int(number)
