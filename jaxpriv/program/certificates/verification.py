"""Whether the numbers of a solution are true: all recomputed from the problem's data, the mechanism and the rules.

Of a `Solution` only `mechanism`, `scores`, `weights` and `multipliers` enter the computation. Its stored numbers are
compared with the results afterwards and never used (the lower bound of the least worst-outcome leakage is a limit
that is tried first; it counts if the rules prove it). Funnels and bottlenecks are in `funnels/release.py`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import numpy as np

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import SUM_TOLERANCE, is_traced
from jaxpriv.data.channel import AbstractChannel
from jaxpriv.data.joints import in_double
from jaxpriv.data.streaming import marginal
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractPointwiseLeakage
from jaxpriv.leakage.evaluation import log_ratios
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.problems.distortion import DistortionProblem, NoiseProblem
from jaxpriv.problems.lexicographic import LexicographicProblem
from jaxpriv.program.certificates.noise import certify_noise
from jaxpriv.program.certificates.streamed import certify_streamed
from jaxpriv.program.certificates.units import largest, least_limits
from jaxpriv.program.certify import Certificate, certify_program, column_values, excess_of, violation_of
from jaxpriv.program.lower import (
    ProblemStack,
    as_budgets,
    average_leakage,
    distance_program,
    interval_of,
    limits_of,
    measured_program,
    own_limit,
    proved_program,
    scale_and_shift,
    streamed_program,
    terms_of,
)
from jaxpriv.program.solution import AbstractSolution, Solution, Status
from jaxpriv.verifier.logarithms import lower, upper

# What two computations of one number in a precision may differ by, relative to 1 + the number.
_AGREEMENT = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}
_UNIT = float(np.finfo(np.float64).eps)
_marginal = jax.jit(marginal, static_argnames="mesh")


@dataclass(frozen=True, eq=False)
class Verification:
    """What the mechanism and the duals of a solution prove, in float64, in the unit of the objective.

    Attributes:
        value: the objective at the mechanism, rounded up where it is minimised, down where it is maximised.
        lower_bound, upper_bound: no mechanism that meets the limits has an objective below the first (minimised: a
            bound, rounded down, and the value) or above the second (maximised: the value and a bound, rounded up).
        violation: the largest excess over a limit, relative to its scale, beyond rounding: 0 for a feasible mechanism.
        leakage: the problem's measure at the mechanism (the largest over a set of joints).
        distortion: E d_k, shape (M,) (the largest over a set of joints); empty for funnels and bottlenecks.
        differences: names of stored numbers that are not the recomputed ones, each with both.
        disclosure: I(X;Y) of a funnel or bottleneck, None elsewhere.
    """

    value: float
    lower_bound: float
    upper_bound: float
    violation: float
    leakage: float
    distortion: np.ndarray
    differences: tuple[str, ...]
    disclosure: float | None = None

    __repr__ = summary

    @property
    def gap(self) -> float:
        """upper_bound - lower_bound: how far from the optimum the mechanism can be at most, if it is feasible."""
        return self.upper_bound - self.lower_bound

    @property
    def valid(self) -> bool:
        """Whether [lower_bound, upper_bound] holds the optimum: the mechanism meets all limits, the value is finite."""
        return bool(self.violation == 0 and self.lower_bound <= self.upper_bound and np.isfinite(self.value))

    @property
    def _bound(self) -> float:
        """The end of the interval that is not the value."""
        return self.lower_bound if self.value == self.upper_bound else self.upper_bound

    @property
    def agrees(self) -> bool:
        """Whether every stored number is the recomputed one, to rounding."""
        return not self.differences

    @property
    def message(self) -> str:
        """What was found, in a sentence or two."""
        if self.valid:
            verdict = (
                f"The optimum lies in [{lower(self.lower_bound, 9)}, {upper(self.upper_bound, 9)}]: the gap is at most "
                f"{upper(self.gap, 3)}."
            )
        elif self.violation != 0:
            verdict = f"The mechanism does not meet the problem's limits (violation {self.violation:.3g}): no interval."
        else:
            verdict = f"No interval: the value is {self.value:.9g} and the bound that is proved {self._bound:.9g}."
        if self.agrees:
            return f"{verdict} The stored numbers agree."
        return f"{verdict} Stored numbers that differ: {'; '.join(self.differences)}."


def certify(problem: object, solution: object, *, time_limit: float | None = None) -> Verification:
    """Recompute value, bound, gap and violation of a solution; the same as `solution.verify(problem)`.

    From the problem's own data and from the mechanism, the rules (`scores`) and the prices (`weights`, `multipliers`)
    of the solution alone, in NumPy float64 on the host (an operator block by block). The stored value, bound, leakage
    and distortion are compared with the results afterwards and never used. Whatever the rules and prices are, the
    bound is valid: they are moved into the sets in which they prove something first.

    Takes a `DistortionProblem` in every form, with every measure, limits, several distortions, a private input, a set
    of joints, tables or operators, a `LexicographicProblem` (with the solution of its first step) and a `NoiseProblem`;
    a `FunnelProblem` and a `BottleneckProblem` with a
    `FunnelSolution`. There the bound follows from `prices` and `multiplier`, at which the best posterior is searched
    for again: one search, where the solve made many. The bound without any leakage comes from the linear program over
    the vertices of a fibre, solved again. Where a solution holds no prices the bound is the elementary one.

    Args:
        problem: what was solved.
        solution: what `solve` returned for it.
        time_limit: seconds for the search of a funnel or bottleneck, by default none; a search that it ends proves a
            weaker bound. Other certificates take no notice of it.

    Returns:
        A `Verification`: `valid` (the interval holds the optimum), `agrees` (so do the stored numbers), `message`.

    Raises:
        InputError: a batch (take `solution[i]` and the problem at that point), an infeasible result, a mechanism or
            duals of other shapes than the problem's, tracers, a problem or solution of another kind.

    Example:
        >>> import jaxpriv as jp
        >>> problem = jp.rate_distortion([0.5, 0.5], jp.distortion.hamming([0, 1]), budget=0.1)
        >>> found = jp.certify(problem, jp.solve(problem))
        >>> print(found.valid, found.agrees, f"{found.value:.6f}")  # ln 2 - h(0.1)
        True True 0.368064
    """
    if not isinstance(solution, AbstractSolution):
        raise InputError(
            f"solution must be a Solution or a FunnelSolution, which solve returns, not {type(solution).__name__}; "
            "of a frontier take one of its points"
        )
    return solution.verify(problem, time_limit=time_limit)


def certify_solution(problem: object, solution: Solution) -> Verification:
    """`certify` of a convex problem, or of two in an order."""
    if isinstance(problem, LexicographicProblem):
        return _of_both_steps(problem, solution)
    if not isinstance(problem, (DistortionProblem, NoiseProblem)):
        raise InputError(
            f"problem must be the DistortionProblem, LexicographicProblem or NoiseProblem of this solution, not "
            f"{type(problem).__name__}"
        )
    if is_traced(problem, solution):
        raise InputError("certify runs outside of jit, vmap and grad; pass what a compiled function returned to it")
    if np.ndim(solution.value) != 0:
        raise InputError("solution is a batch; certify one of its elements, solution[i], with the problem at its point")
    if int(np.asarray(solution.code)) == Status.INFEASIBLE:
        raise InputError(
            "the status of the solution is `infeasible`, and it holds no mechanism; the numbers that prove it are in "
            "the `proof` of the InfeasibleError that solve(problem) raises"
        )
    shape = (problem.joint.shape[1], problem.outputs) if isinstance(problem, NoiseProblem) else problem.shape
    if tuple(np.shape(solution.mechanism)) != shape:
        raise InputError(f"solution.mechanism has shape {tuple(np.shape(solution.mechanism))}, the problem {shape}")
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        if isinstance(problem, NoiseProblem):
            numbers = _of_noise(problem, solution)
        elif isinstance(solution.mechanism, AbstractChannel):
            numbers = _of_operators(problem, solution)
        else:
            numbers = _of_tables(problem, solution)
    value, bound, violation, leakage, distortion = numbers
    stored = {
        "value": (solution.value, value),
        "lower_bound": (solution.lower_bound, bound),
        "leakage": (solution.leakage, leakage),
        **{f"distortion[{k}]": (used, distortion[k]) for k, used in enumerate(np.ravel(solution.distortion))},
    }
    differences = differing(stored)
    return Verification(
        float(value), float(bound), float(value), float(violation), float(leakage), np.asarray(distortion), differences
    )


def _of_both_steps(problem: LexicographicProblem, solution: Solution) -> Verification:
    """The least distortion; its bound needs a mechanism within the budget that leaks what the first step claims."""
    first = solution.least_leakage
    if first is None:
        raise InputError("solution.least_leakage is None: solve the LexicographicProblem itself")
    least = certify_solution(problem.least_leakage, first)
    proof = certify_solution(problem.least_distortion(least.value), solution)
    differences = (*(f"least_leakage.{difference}" for difference in least.differences), *proof.differences)
    return dataclasses.replace(proof, violation=max(proof.violation, least.violation), differences=differences)


def differing(stored: Mapping[str, tuple[ScalarLike, float]], coarser: float = 1.0) -> tuple[str, ...]:
    """Names of the numbers, each (stored, recomputed), that are not the same, with both.

    `coarser`: how many times what two computations usually differ by is allowed here.
    """

    def differ(said: ScalarLike, now: float) -> bool:
        allowed = coarser * _AGREEMENT.get(np.asarray(said).dtype, _AGREEMENT[np.dtype(np.float32)]) * (1.0 + abs(now))
        return not (abs(float(said) - now) <= allowed or float(said) == now)  # equal infinities

    return tuple(f"{name} {float(said):.9g} for {now:.9g}" for name, (said, now) in stored.items() if differ(said, now))


def _fitting(name: str, array: Arr, shape: tuple[int, ...]) -> np.ndarray:
    """A dual object of the shape that the certificate of the problem needs."""
    numbers = np.asarray(array, dtype=np.float64)
    if numbers.shape != shape:
        raise InputError(f"solution.{name} has shape {numbers.shape}; the certificate of this problem needs {shape}")
    return numbers


# Value, lower bound, violation, leakage and mean distortions of a solution.
_Numbers: TypeAlias = tuple[Any, Any, Any, Any, np.ndarray]


def _of_tables(problem: DistortionProblem, solution: Solution) -> _Numbers:
    program, whole = proved_program(problem, solution.scores, 0.0)
    mechanism = np.asarray(solution.mechanism, dtype=np.float64)
    rows = sum(len(term.rows) for term in program.terms)
    worst = sum(term.smooth and term.role is Role.WORST for term in program.terms)
    prices = len(program.budgets) + sum(term.priced for term in program.terms)
    k = _fitting("scores", solution.scores, (1, problem.shape[1], rows))[0]
    eta = _fitting("weights", solution.weights, (problem.shape[1], worst))
    price = _fitting("multipliers", solution.multipliers, (prices,))
    if not _stochastic(mechanism):  # no measure has a value there
        nothing = np.full(len(problem.distortions), np.nan)
        return np.nan, -np.inf, np.inf, np.nan, nothing
    limits = [(measure, value) for measure, value in limits_of(problem) if not np.isinf(value)]
    leak, *leaks = largest(problem, (problem.leakage, *(measure for measure, _ in limits)), mechanism)
    certificate = None if problem.form.minimax else certify_program(program, mechanism, k, eta, price)
    claimed = float(solution.lower_bound)
    proved = _interval(problem, certificate, mechanism, (k, eta, price), claimed, leak, excess_of(leaks, limits), whole)
    return *proved, leak, _distortion(problem, mechanism)


def _interval(
    problem: DistortionProblem | ProblemStack,
    certificate: Certificate | None,
    mechanism: np.ndarray,
    duals: tuple[np.ndarray, np.ndarray, np.ndarray],
    claimed: ScalarLike,
    leak: ScalarLike,
    over: ScalarLike,
    whole: bool,
) -> tuple[Any, Any, Any]:
    """(value, lower bound, violation) in the unit of the problem. `found`: the certificate of its program, None of the
    least limit on a worst outcome; `over`: by how much measured values exceed their limits.
    """
    if certificate is None:
        further = () if isinstance(problem, ProblemStack) else limits_of(problem)
        within = violation_of(as_budgets(distance_program(problem, further)), mechanism)
        return leak, least_limits(problem, *duals, claimed, leak, whole), np.maximum(within, over)
    value, bound = interval_of(problem, *scale_and_shift(problem), certificate.value, certificate.lower_bound)
    return value, bound, np.maximum(certificate.violation, over)


def _of_operators(problem: DistortionProblem, solution: Solution) -> _Numbers:
    if not problem.streams:
        raise InputError("solution.mechanism is an operator, which belongs to one joint with budgets or multipliers")
    joint, distortions = problem.operators()
    joint = in_double(joint)
    prior, faults = jax.device_get(_marginal(joint, mesh=None))
    if faults.any():
        raise InputError(f"joint: its column x = {int(np.argmax(faults != 0))} is negative or not finite")
    program, scale, shift = streamed_program(problem, joint, distortions, prior)
    rules = _fitting("scores", solution.scores, (1, problem.shape[1], len(program.term.reference)))
    rates = _fitting("multipliers", solution.multipliers, (0,) if problem.budget is None else (len(distortions),))
    certificate = certify_streamed(program, solution.mechanism, rules[0], rates)
    value, bound, leakage = (
        scale.outer(total + shift) for total in (certificate.value, certificate.lower_bound, *certificate.leakages)
    )
    return value, bound, certificate.violation, max(leakage, 0.0), np.asarray(certificate.constraint_values)


def _of_noise(problem: NoiseProblem, solution: Solution) -> _Numbers:
    mechanism = np.asarray(solution.mechanism, dtype=np.float64)
    noise = problem.noise(mechanism)
    scores = _fitting("scores", solution.scores, (1, problem.outputs, problem.joint.shape[0]))
    certificate = certify_noise(problem, noise, scores, _fitting("multipliers", solution.multipliers, (1,))[0])
    # One law in every row, and a distribution.
    outside = max(abs(mechanism - problem.mechanism(noise)).max(), abs(noise.sum() - 1.0), -noise.min())
    violation = max(certificate.violation, 0.0 if outside <= len(noise) * _UNIT else float(outside))
    return certificate.value, certificate.lower_bound, violation, certificate.leakages[0], certificate.constraint_values


@dataclass(frozen=True, eq=False)
class StackProof:
    """What mechanisms and duals prove about a stack of problems, each number as in `Verification`."""

    value: np.ndarray  # (N,)
    lower_bound: np.ndarray  # (N,)
    violation: np.ndarray  # (N,)
    leakage: np.ndarray  # (N,)
    distortion: np.ndarray  # (N, M)

    @staticmethod
    def of(proofs: Sequence[Verification]) -> "StackProof":
        """Proofs computed one by one."""
        numbers = np.array([(proof.value, proof.lower_bound, proof.violation, proof.leakage) for proof in proofs])
        value, bound, violation, leakage = numbers.T
        return StackProof(value, bound, violation, leakage, np.stack([proof.distortion for proof in proofs]))

    @property
    def gap(self) -> np.ndarray:
        """value - lower_bound."""
        return self.value - self.lower_bound


def certify_stack(
    stack: ProblemStack,
    mechanism: np.ndarray,
    k: np.ndarray,
    eta: np.ndarray,
    price: np.ndarray,
    claimed: np.ndarray | None = None,
) -> StackProof:
    """The certificates of `certify`, each computed from its own problem, by one pass over arrays with a leading axis.

    `k` (N, Y, T) and `eta` (N, Y, W) are rules and prices for all rows of the programs, those of symbols without mass
    included. `claimed` (N,): the lower bounds of the least worst outcome that are tried first. Where `mechanism`
    (N, X, Y) holds no mechanism the violation is infinite.
    """
    met = _stochastic(mechanism)
    if not met.all():  # anything that has a value
        mechanism = np.where(met[:, None, None], mechanism, 1.0 / mechanism.shape[-1])
    limits, certificate = own_limit(stack), None
    if not stack.form.minimax:
        certificate = certify_program(measured_program(stack, limits), mechanism, k, eta, price)
    if stack.leakage.worst_outcome:
        leak = _worst_values(stack, mechanism)
    else:  # the largest over the joints
        assert certificate is not None  # a least limit is one of a worst-outcome measure
        leak = np.asarray(average_leakage(stack, certificate.leakages))
    claimed = np.zeros(leak.shape) if claimed is None else claimed
    over = excess_of([leak] * len(limits), limits)
    value, bound, violation = _interval(stack, certificate, mechanism, (k, eta, price), claimed, leak, over, True)
    return StackProof(value, bound, np.where(met, violation, np.inf), leak, _distortion(stack, mechanism))


def _worst_values(stack: ProblemStack, mechanism: np.ndarray) -> np.ndarray:
    """A worst-outcome measure, the largest over the joints: (N,)."""
    measure, each = stack.leakage, np.moveaxis(stack.joints, 1, 0)
    if isinstance(measure, AbstractPointwiseLeakage):
        return np.max([log_ratios(measure, joints, mechanism) for joints in each], axis=0)
    values = []
    for joints in each:  # the offset of a limit is affine in it: the limits of outputs at which they are met
        (none,), (unit,) = (
            terms_of(measure, joints, Role.WORST, np.full(len(joints), limit), True) for limit in (0.0, 1.0)
        )
        mass = ((none.offset - unit.offset)[:, None, :] @ mechanism)[:, 0]
        held = column_values(none, none.rows @ mechanism) + (none.offset[:, None, :] @ mechanism)[:, 0]
        values.append(np.where(mass > 0, held / np.where(mass > 0, mass, 1.0), 0.0).max(axis=-1))
    return np.maximum(np.max(values, axis=0), 0.0)


def _stochastic(mechanism: np.ndarray) -> np.ndarray:
    """Whether the rows of (..., X, Y) are distributions, up to rounding: of NaN no comparison is true."""
    # Sums of 1 to the tolerance at which a mechanism is refused (`_validation.sum_tolerance` of float64).
    met = (mechanism >= 0).all(axis=(-2, -1)) & (abs(mechanism.sum(axis=-1) - 1) <= SUM_TOLERANCE).all(axis=-1)
    return np.asarray(met)


def _distortion(problem: DistortionProblem | ProblemStack, mechanism: np.ndarray) -> np.ndarray:
    """E d_k, the largest over the joints; inf where a pair that d_k forbids has mass."""
    tables, support = problem.costs()
    each = (tables * mechanism[..., None, :, :]).sum(axis=-1)  # (M, X)
    largest = np.asarray((each @ np.swapaxes(problem.joints.sum(axis=-2), -1, -2)).max(axis=-1))
    if isinstance(problem, ProblemStack) or support.all():
        return largest
    used = problem.joints.any(axis=(0, 1))[:, None] & (mechanism > 0)
    return np.where([(used & np.isinf(entries)).any() for entries in problem.entries()], np.inf, largest)
