"""The front door: a problem in, a certified solution out."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._validation import is_traced, scalar
from jaxpriv.certificates import average_leakage, certify, certify_noise
from jaxpriv.errors import InfeasibleError, InputError, ResourceError
from jaxpriv.problems import feasibility
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.noise import NoiseProblem, max_entropy_noise
from jaxpriv.problems.program import Form, Program, repair
from jaxpriv.problems.reduction import Reduction, reduce
from jaxpriv.solution import Solution, Status
from jaxpriv.solvers import AbstractSolver, InteriorPoint, MirrorDescent, iterate
from jaxpriv.solvers.additive_noise import NoiseData, newton_path
from jaxpriv.solvers.perfect_privacy import perfect_privacy

# Solvers by the names of the command line.
SOLVERS: Mapping[str, AbstractSolver] = {
    "interior-point": InteriorPoint(),
    "mirror-descent": MirrorDescent(adaptive=True),
    "blahut-arimoto": MirrorDescent(adaptive=False),
}

# The interior-point method holds about this many arrays of |Y| K|S| |X| numbers.
_FACTOR_ARRAYS = 6
# Its share of the free memory beyond which `auto` turns to mirror descent.
_AUTO_SHARE = 0.5
# The device's view of the gap and the certificate differ by rounding; stop a little below.
MARGIN = 0.8
# Leakage limits below this are close to none at all: repair towards the best mechanism that leaks nothing.
_TINY_LIMIT = 1e-6
# The loops count in 32 bits where x64 is off.
_MOST_STEPS = 2**31 - 1


def solve(
    problem: DistortionProblem | NoiseProblem,
    solver: str | AbstractSolver = "auto",
    *,
    tol: Any = 1e-6,
    max_steps: Any = None,
    throw: bool = True,
) -> Solution:
    """Solve `problem` to a certified gap of at most `tol`.

    Outside of jit everything runs in float64 (whatever the caller's `jax_enable_x64`, which is left
    alone), the data is validated and reduced first, and the certificate is computed on the host
    from the original data; the result holds NumPy arrays. Inside jit or vmap the same iteration runs
    on the problem as it is, in the precision of its arrays, and the certificate is computed there
    with the same formulas; with several limits or joints the iteration needs x64 there. Reverse-mode
    derivatives do not pass through the loop: use `optimal_value` and `optimal_mechanism`, or
    `sensitivity` on the result.

    Args:
        problem: what is asked.
        solver: `auto`, `interior-point`, `mirror-descent`, `blahut-arimoto`, or a solver object
            (a `NoiseProblem` has one method of its own: `auto`).
        tol: the largest certified gap that counts as `optimal`, in units of the objective (nats;
            for the leakage-budget form, units of the distortion).
        max_steps: most iterations; by default 200 for the interior-point method, 20000 otherwise.
        throw: raise `InfeasibleError` if no mechanism exists (otherwise its status says so).

    Raises:
        InputError: an argument is wrong, by name.
        InfeasibleError: with the numbers that prove it.
        ResourceError: the chosen solver would need more memory than there is.
    """
    tol = scalar(tol, "tol", low=0.0, open_low=True)
    if isinstance(problem, NoiseProblem):
        if solver != "auto":
            raise InputError(f"solver: additive noise has one method, 'auto'; {solver!r} was given")
        if is_traced(problem, tol):
            raise InputError("problem: additive noise is solved outside of jit and vmap only")
        with own_settings():
            return _solve_noise(problem, tol, step_limit(None, max_steps), throw)
    if not isinstance(problem, DistortionProblem):
        raise InputError(f"problem must be a DistortionProblem or a NoiseProblem, not {type(problem).__name__}")
    if is_traced(problem, tol):
        with jax.numpy_rank_promotion("allow"):
            return _solve_traced(problem, solver, tol, max_steps)
    with own_settings():
        return _solve_host(problem, solver, tol, max_steps, throw)


@contextmanager
def own_settings() -> Iterator[None]:
    """Float64 and NumPy's broadcasting rules for our own work; the caller's JAX settings are put back."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        yield


def pick_solver(solver: str | AbstractSolver, program: Program) -> tuple[str, AbstractSolver]:
    """The solver meant by a name, by `auto`, or by itself; refused if it cannot fit into memory."""
    if isinstance(solver, AbstractSolver):
        return type(solver).__name__, solver
    if not isinstance(solver, str) or (solver not in SOLVERS and solver != "auto"):
        raise InputError(f"solver {solver!r} is unknown; known: auto, {', '.join(SOLVERS)}")
    groups, private, inputs = program.joints.shape
    outputs = program.cost.shape[1]
    need = _FACTOR_ARRAYS * 8 * groups * private * inputs * outputs
    free = _free_memory()
    if solver == "auto":
        solver = "interior-point" if need <= _AUTO_SHARE * free else "mirror-descent"
    elif solver == "interior-point" and need > free:
        raise ResourceError(
            f"interior-point would need about {need / 2**30:.1f} GiB for |S|={private}, |X|={inputs}, |Y|={outputs} "
            f"and {free / 2**30:.1f} GiB are free; use solver='mirror-descent'"
        )
    return solver, SOLVERS[solver]


def _free_memory() -> float:
    """Free physical memory in bytes; infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return float("inf")


def step_limit(solver: AbstractSolver | None, max_steps: Any) -> Any:
    """`max_steps`, or the default of the kind of solver (None: that of additive noise)."""
    if max_steps is None:
        return 1000 if solver is None else 200 if isinstance(solver, InteriorPoint) else 20000
    if is_traced(max_steps):
        return max_steps
    number = 0.0 if isinstance(max_steps, bool) else scalar(max_steps, "max_steps", infinite=True)
    if not 1 <= number <= _MOST_STEPS or number != round(number):
        raise InputError("max_steps must be an integer >= 1")
    return int(number)


# ------------------------------------------------------------------------------------ host


@dataclass(frozen=True)
class Answer:
    """A mechanism and a dual object, in the terms of the original program."""

    mechanism: Any
    scores: Any
    weights: Any
    multipliers: Any
    steps: int = 0
    solver: str = "closed-form"


@dataclass(frozen=True)
class Prepared:
    """A host program: answered in closed form, or reduced and ready to be iterated on."""

    program: Program  # original, with its anchor
    answer: Answer | None
    reduction: Reduction | None
    escape: np.ndarray | None  # weights of the budgets that leave no room, if they do

    @property
    def batches(self) -> bool:
        """Whether it can be iterated together with the other points of its sweep."""
        return self.answer is None and self.escape is None

    @property
    def reduced(self) -> Program:
        """The program to iterate on."""
        assert self.reduction is not None
        return self.reduction.program


def prepare(program: Program, neighbour: Prepared | None = None) -> Prepared:
    """Decide what needs no iteration, find the anchor, restrict to the face of a budget without room.

    `neighbour` is the same problem at another point of a sweep, whose reduction serves again.
    Raises InfeasibleError.
    """
    if program.form is Form.LIMIT and not program.limit >= 0:
        raise InfeasibleError(
            f"leakage_budget {float(program.limit):.6g} is negative, and leakage is never below 0",
            {"bound": 0.0, "allowed": float(program.limit), "multipliers": []},
        )
    room = feasibility.check(program)
    if not room.feasible:
        raise InfeasibleError(
            f"budget: no mechanism meets it. The least weighted distortion is {room.bound!r}, "
            f"the budgets allow {room.allowed!r} (weights {np.round(room.weights, 6).tolist()})",
            {"bound": room.bound, "allowed": room.allowed, "multipliers": room.weights.tolist()},
        )
    independent = feasibility.independent(program)
    anchor = room.mechanism
    if program.form is Form.LIMIT:
        tiny = 0 < program.limit < _TINY_LIMIT
        anchor = perfect_privacy(program)[0] if tiny else independent
    program = eqx.tree_at(lambda p: p.anchor, program, anchor)
    answer = _closed_form(program, independent)
    if answer is not None:
        return Prepared(program, answer, None, None)
    inner, escape = program, None
    if room.boundary and len(program.budgets):
        inner, escape = _face(program, room.weights), room.weights
    return Prepared(program, None, reduce(inner, None if neighbour is None else neighbour.reduction), escape)


def _closed_form(program: Program, independent: Any | None) -> Answer | None:
    groups, private, _ = program.joints.shape
    outputs = program.cost.shape[1]
    nothing = np.zeros((groups, outputs, private))
    idle = np.zeros(len(program.budgets))
    if program.form is Form.LIMIT:
        cheapest = feasibility.cheapest(program.cost)
        if average_leakage(np, program.joints[0], cheapest) <= program.limit:
            return Answer(cheapest, nothing, np.zeros(1), idle)
        if program.limit == 0:
            return Answer(*perfect_privacy(program), idle, solver="linear-program")
        return None
    if not np.any(program.cost) and independent is not None:
        return Answer(independent, nothing, np.full(groups, 1.0 / groups), idle)
    return None


def _face(program: Program, weights: np.ndarray) -> Program:
    """The face on which budgets without room hold: only the cheapest outputs of every row.

    With one constraint it then holds by itself and is dropped (its price comes back in `_leave_face`).
    """
    combined = (weights[:, None, None] * program.constraints).sum(axis=0)
    excess = combined - combined.min(axis=1, keepdims=True)
    support = excess <= feasibility.BOUNDARY * abs(combined).max()
    if len(program.budgets) == 1:
        none = program.constraints[:0]
        return eqx.tree_at(
            lambda p: (p.support, p.constraints, p.budgets), program, (support, none, program.budgets[:0])
        )
    return eqx.tree_at(lambda p: p.support, program, support)


def _leave_face(program: Program, escape: np.ndarray, answer: Answer) -> Answer:
    """Raise the multipliers along `escape` until no output outside the face is the cheapest one."""
    multipliers = answer.multipliers if len(answer.multipliers) else np.zeros(len(program.budgets))
    gain = sum(w * (g @ j).T for w, g, j in zip(answer.weights, answer.scores, program.joints, strict=True))
    total = program.cost + gain + (multipliers[:, None, None] * program.constraints).sum(axis=0)
    combined = (escape[:, None, None] * program.constraints).sum(axis=0)
    excess = combined - combined.min(axis=1, keepdims=True)
    inside = excess <= feasibility.BOUNDARY * abs(combined).max()
    least = np.where(inside, total, np.inf).min(axis=1, keepdims=True)
    short = np.where(inside, 0.0, (least - total) / np.where(inside, 1.0, excess))
    raised = multipliers + max(short.max(), 0.0) * (1 + 1e-9) * escape
    return Answer(answer.mechanism, answer.scores, answer.weights, raised, answer.steps, answer.solver)


def expand(prepared: Prepared, best: Any, steps: int, name: str) -> Answer:
    """A solver's candidate for the reduced program as an answer to the original one."""
    reduction = prepared.reduction
    assert reduction is not None
    mechanism = np.asarray(best.mechanism, dtype=np.float64)
    mechanism = np.maximum(mechanism, 0.0)
    mechanism = mechanism / mechanism.sum(axis=1, keepdims=True)
    masses = reduction.program.joints.sum(axis=(0, 1))
    program = prepared.program
    mechanism = reduction.mechanism(mechanism, masses)
    if program.form is Form.LIMIT:
        leakage = average_leakage(np, program.joints[0], mechanism)
    else:
        leakage = 0.0
    mechanism = repair(np, program, mechanism, leakage)
    if program.form is Form.LIMIT and (program.cost * (program.anchor - mechanism)).sum() < 0:
        mechanism = program.anchor
    answer = Answer(
        mechanism,
        reduction.scores(np.asarray(best.scores)),
        reduction.weights(np.asarray(best.weights)),
        reduction.multipliers(np.asarray(best.multipliers)),
        steps,
        name,
    )
    return answer if prepared.escape is None else _leave_face(program, prepared.escape, answer)


def finish(problem: DistortionProblem, program: Program, answer: Answer, tol: float, seconds: Any) -> Solution:
    """Certify an answer on the original program and call it what it is."""
    certificate = certify(program, answer.mechanism, answer.scores, answer.weights, answer.multipliers)
    proved = certificate.gap <= tol and certificate.violation == 0
    code = Status.OPTIMAL if proved else Status.NOT_CERTIFIED
    return Solution(
        value=np.float64(certificate.value),
        lower_bound=np.float64(certificate.lower_bound),
        mechanism=answer.mechanism,
        leakage=np.float64(certificate.leakages.max()),
        distortion=distortion_of(np, problem, answer.mechanism),
        scores=answer.scores,
        weights=answer.weights,
        multipliers=answer.multipliers,
        code=np.int32(code),
        steps=np.int32(answer.steps),
        solver=answer.solver,
        seconds=seconds,
    )


def distortion_of(xp: Any, problem: DistortionProblem, mechanism: Any) -> Any:
    """E d_k(X,Y) for every distortion, the largest over the joints, shape (M,)."""
    tables = problem.tables()
    return xp.einsum("kx,mxy,xy->mk", problem.joints.sum(axis=1), tables, mechanism).max(axis=1)


def infeasible(problem: DistortionProblem, program: Program) -> Solution:
    """A solution that says that there is none: infinite value and bound."""
    groups, private, _ = program.joints.shape
    return _no_solution(problem.shape, groups, private, len(program.budgets), len(problem.distortions))


def _no_solution(shape: tuple[int, int], groups: int, private: int, limits: int, distortions: int) -> Solution:
    return Solution(
        value=np.float64(np.inf),
        lower_bound=np.float64(np.inf),
        mechanism=np.full(shape, np.nan),
        leakage=np.float64(np.nan),
        distortion=np.full(distortions, np.nan),
        scores=np.zeros((groups, shape[1], private)),
        weights=np.zeros(groups),
        multipliers=np.zeros(limits),
        code=np.int32(Status.INFEASIBLE),
        steps=np.int32(0),
        solver="none",
        seconds={"compile": 0.0, "solve": 0.0},
    )


def _solve_host(
    problem: DistortionProblem, solver: str | AbstractSolver, tol: float, max_steps: Any, throw: bool
) -> Solution:
    begun = time.perf_counter()
    program = problem.program()
    name, chosen = pick_solver(solver, program)
    limit = step_limit(chosen, max_steps)
    try:
        prepared = prepare(program)
    except InfeasibleError:
        if throw:
            raise
        return infeasible(problem, program)
    answer, compiling = solve_prepared(prepared, name, chosen, tol, limit)
    seconds = {"compile": compiling, "solve": time.perf_counter() - begun - compiling}
    return finish(problem, prepared.program, answer, tol, seconds)


def solve_prepared(
    prepared: Prepared, name: str, solver: AbstractSolver, tol: float, limit: int
) -> tuple[Answer, float]:
    """Iterate, unless there is an answer already; also the seconds spent compiling."""
    if prepared.answer is not None:
        return prepared.answer, 0.0
    tolerance = np.asarray(inner_tolerance(prepared, tol))
    run, compiling = compiled(iterate, solver, prepared.reduced, tolerance, np.asarray(limit))
    result = jax.device_get(run())
    return expand(prepared, result.best, int(result.steps), name), compiling


def inner_tolerance(prepared: Prepared, tol: float) -> float:
    """The gap at which the iteration stops, in units of the reduced objective."""
    assert prepared.reduction is not None
    return MARGIN * tol / prepared.reduction.cost_scale


# Executables by function, structure and shapes: a changed budget is a changed array, never a key.
_EXECUTABLES: dict[Any, Any] = {}


def compiled(function: Any, *args: Any) -> tuple[Any, float]:
    """`function(*args)` compiled ahead of time: a thunk that runs it, and the seconds compiling took (0 if known)."""
    leaves, structure = jax.tree.flatten(args)
    key = (function, structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves), jax.default_backend())
    seconds = 0.0
    if key not in _EXECUTABLES:
        begun = time.perf_counter()
        _EXECUTABLES[key] = jax.jit(function).lower(*args).compile()
        seconds = time.perf_counter() - begun
    return partial(_EXECUTABLES[key], *args), seconds


# ----------------------------------------------------------------------------------- noise


def _solve_noise(problem: NoiseProblem, tol: float, max_steps: int, throw: bool) -> Solution:
    begun = time.perf_counter()
    cost, budget = problem.distortion, problem.budget
    least = float(cost.min())
    if budget < least:
        if throw:
            max_entropy_noise(cost, budget)  # raises, with the proof
        return _no_solution((problem.joint.shape[1], problem.outputs), 1, problem.joint.shape[0], 1, 1)
    span = float(np.ptp(cost)) or 1.0
    tight = budget - least <= feasibility.BOUNDARY * span
    allowed = np.flatnonzero(cost - least <= feasibility.BOUNDARY * span) if tight else np.arange(len(cost))
    seen = problem.joint.sum(axis=1) > 0
    scaled = np.zeros(len(allowed)) if tight else (cost[allowed] - least) / span
    room = 1.0 if tight else (budget - least) / span
    # Strictly inside: half of the budget goes to an even blend, the rest to the cheapest symbols.
    blend = 0.5 * min(1.0, room / max(float(scaled.mean()), np.finfo(float).tiny))
    start = blend / len(allowed) + (1.0 - blend) * (scaled == 0) / (scaled == 0).sum()
    data = NoiseData(
        problem.columns()[:, seen][:, :, allowed], problem.joint.sum(axis=1)[seen], scaled, np.asarray(room)
    )
    last = 0.5 * tol / (len(allowed) + 1)
    run, compiling = compiled(newton_path, data, start, np.asarray(last), np.asarray(max_steps))
    theta, found, price, steps = jax.device_get(run())

    noise = np.zeros(len(cost))
    noise[allowed] = theta / theta.sum()
    scores = np.zeros((1, problem.outputs, problem.joint.shape[0]))
    scores[0][:, seen] = found
    price = 0.0 if tight else float(price) / span
    if tight:  # the price at which no dearer symbol is worth taking
        gain = np.einsum("ysz,ys->z", problem.columns(), scores[0])
        dearer = cost - least > feasibility.BOUNDARY * span
        short = (gain[allowed].min() - gain[dearer]) / (cost[dearer] - least)
        price = float(max(short.max(initial=0.0), 0.0)) * (1 + 1e-9)
    certificate = certify_noise(problem, noise, scores, price)
    proved = certificate.gap <= tol and certificate.violation == 0
    return Solution(
        value=np.float64(certificate.value),
        lower_bound=np.float64(certificate.lower_bound),
        mechanism=problem.mechanism(noise),
        leakage=np.float64(certificate.leakages[0]),
        distortion=certificate.constraint_values,
        scores=scores,
        weights=np.ones(1),
        multipliers=np.array([price]),
        code=np.int32(Status.OPTIMAL if proved else Status.NOT_CERTIFIED),
        steps=np.int32(steps),
        solver="barrier-newton",
        seconds={"compile": compiling, "solve": time.perf_counter() - begun - compiling},
    )


# ---------------------------------------------------------------------------------- traced


def traced_program(problem: DistortionProblem) -> Program:
    """The program of a problem that holds tracers, with its anchor."""
    # NumPy float64 beside tracers, with x64 off, would warn wherever its dtype is asked for.
    program = jax.tree.map(jnp.asarray, problem.program())
    outputs = program.cost.shape[1]
    if program.form is Form.LIMIT:
        best = program.cost.sum(axis=0).argmin()
        anchor = jnp.broadcast_to(jax.nn.one_hot(best, outputs, dtype=program.cost.dtype), program.cost.shape)
    else:
        anchor = jax.nn.one_hot(program.constraints.sum(axis=0).argmin(axis=1), outputs, dtype=program.cost.dtype)
    return eqx.tree_at(lambda p: p.anchor, program, anchor)


def _solve_traced(problem: DistortionProblem, solver: str | AbstractSolver, tol: Any, max_steps: Any) -> Solution:
    program = traced_program(problem)
    name, chosen = pick_solver("interior-point" if solver == "auto" else solver, program)
    run = iterate(chosen, program, MARGIN * tol, step_limit(chosen, max_steps))
    best = run.best
    certificate = certify(program, best.mechanism, best.scores, best.weights, best.multipliers)
    proved = (certificate.gap <= tol) & (certificate.violation == 0)
    return Solution(
        value=certificate.value,
        lower_bound=certificate.lower_bound,
        mechanism=best.mechanism,
        leakage=certificate.leakages.max(),
        distortion=distortion_of(jnp, problem, best.mechanism),
        scores=best.scores,
        weights=best.weights,
        multipliers=best.multipliers,
        code=jnp.where(proved, Status.OPTIMAL.value, Status.NOT_CERTIFIED.value),
        steps=run.steps,
        solver=name,
    )
