"""What a solve returns: value, bound and gap, what they are worth, and the objects that prove them."""

import enum
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import PyTree

from jaxpriv._runtime.clock import Stop
from jaxpriv._runtime.module import Shown, summary
from jaxpriv._runtime.module.latex import mapping_table
from jaxpriv._runtime.module.shown import nearest, numbers, sizes, tally, width
from jaxpriv._runtime.types import Arr, Result, ScalarLike
from jaxpriv._runtime.validation import is_traced, mechanism_array
from jaxpriv.data.channel import AbstractChannel
from jaxpriv.errors import InputError
from jaxpriv.leakage.evaluation import table_of
from jaxpriv.verifier.logarithms import lower

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jaxpriv.program.certificates.verification import Verification

if TYPE_CHECKING:  # as for `Result`
    _Mechanism: TypeAlias = Any
else:
    _Mechanism: TypeAlias = Result | AbstractChannel

# The default tolerances where the certificate is computed in float32, whose rounding is 6e-8 of every term of a sum,
# and in float64 (a choice: six digits of a leakage of one nat).
SINGLE_TOLERANCE, DOUBLE_TOLERANCE = 1e-4, 1e-6


class Status(enum.IntEnum):
    """What a result is worth. `message` states what happened, the usual cause, and what to change."""

    OPTIMAL = 0
    NOT_CERTIFIED = 1
    INFEASIBLE = 2
    BEST_KNOWN = 3
    STATIONARY = 4

    @property
    def label(self) -> str:
        """The name used in JSON: `optimal`, `not_certified`, `infeasible`, `best_known`, `stationary`."""
        return self.name.lower()

    @property
    def message(self) -> str:
        return _MESSAGES[self]


_FIRST_ORDER = "a first-order solver asked for a small tolerance (use solver='interior-point'), "
_MESSAGES = {
    Status.OPTIMAL: "The certified gap is within the tolerance.",
    Status.NOT_CERTIFIED: (
        "The bound is valid, but the interval [lower_bound, value] is wider than the tolerance. Usual "
        "causes: too few steps (raise max_steps), "
        f"{_FIRST_ORDER}"
        "or a tolerance below float64 resolution (a minimal distortion has the unit of the distortion, and a "
        "multiplier scales the value: with large costs or multipliers ask for rtol). Where the mechanism is NaN "
        "none was found that meets every limit, and the value is infinite: limits or budgets may contradict each "
        "other, or leave no slack in a compiled function."
    ),
    Status.INFEASIBLE: (
        "No mechanism meets the limits, or none of those that do has a finite leakage; see the numbers in the error's "
        "`proof`."
    ),
    Status.BEST_KNOWN: (
        "The mechanism is the best one found, and the optimum is proved to lie between its value and the bound, "
        "which are further apart than the tolerance. Usual causes: a time limit or an interrupt (go on with a larger "
        "time_limit), and for funnels no exact pricing for a joint of this shape (many private symbols), or too few "
        "rounds (raise max_steps)."
    ),
    Status.STATIONARY: (
        "A local method came to rest here; other mechanisms may be better, by at most the gap. Use "
        "solver='column-generation', which searches globally."
    ),
}


def status_of(code: Arr) -> PyTree:
    """The label of a `Status`, or an array of them."""
    if np.ndim(code) == 0:
        return Status(int(code)).label
    codes = np.asarray(code)
    return np.array([Status(int(c)).label for c in codes.ravel()]).reshape(codes.shape)


class SearchResult:
    """What a search on the host returns: numbers that hold whenever it ended."""

    status: Any  # the label of a `Status`
    stopped: int

    @property
    def message(self) -> str:
        """What the status means, after why it was stopped if it was."""
        return Stop(self.stopped).message + Status[self.status.upper()].message


class AbstractSolution(Shown):
    """What a solve returns and `jaxpriv.certify` checks again."""

    code: Result
    stopped: Result

    @property
    def message(self) -> str:
        """What the status of a single result means, after why it was stopped if it was. Raises `InputError` for a
        batch.
        """
        if np.ndim(self.code):
            raise InputError("message: a batch has none; take one result of it, solution[i]")
        return Stop(int(np.asarray(self.stopped))).message + self._meaning()

    def _meaning(self) -> str:
        return Status(int(np.asarray(self.code))).message

    @abstractmethod
    def verify(self, problem: object, *, time_limit: float | None = None) -> "Verification":
        """`jaxpriv.certify(problem, self)`: everything recomputed from the problem, the mechanism and the duals."""

    def to_latex(self, digits: int = 3) -> str:
        """P(y|x) as a `tabular` environment in the style of booktabs: a row for each x, a column for each y.

        A probability is rounded to the nearest; 0 is written where it is 0. Raises `InputError` for a batch, and for
        `digits` outside of 1 to 15.
        """
        table = np.asarray(mechanism_array(table_of(self)))
        inputs, outputs = ([str(k) for k in range(size)] for size in table.shape)
        return mapping_table(table, inputs, outputs, digits)

    def plot(self, **options: Any) -> "Figure":  # noqa: ANN401 (the options of that function)
        """`jaxpriv.plotting.plot_mapping(self, ...)`: a matplotlib figure of P(y|x)."""
        from jaxpriv.plotting import plot_mapping  # it needs matplotlib

        return plot_mapping(self, **options)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Solution(AbstractSolution):
    """A mechanism, its value, and a lower bound on every feasible mechanism's value.

    One instance, or a batch along a leading axis (a frontier). The objective is the leakage in
    nats (budget form), leakage + sum_k l_k E d_k (multiplier form), or E d (leakage-budget form); with
    a measure other than mutual information in that measure's unit.

    Attributes:
        value: the objective at `mechanism`, rounded up: an upper bound on the optimum.
        lower_bound: a proved lower bound on the optimum, from `scores`, `weights`, `multipliers` alone.
        mechanism: P(y|x), shape (X, Y), rows sum to one, every limit met: an array, or a
            `jaxpriv.channel` operator where the solver streams (`rows`, `sample`, `matrix`).
        leakage: the problem's measure at the mechanism, mutual information in nats by default (the largest over a set
            of joints).
        distortion: E d_k, shape (M,) (the largest over a set of joints).
        scores: the adversary's rules times their prices, shape (1, Y, T) for the T rows of all terms of the program
            (`program.program_of`, program/certify.py). Of mutual information in the objective these are
            ln P(s|y)/P(s) at the optimum, joint by joint for every private symbol; other measures have rows for symbols
            of positive mass that do not follow from each other (from inside of jit and vmap, and where the solver
            streams: for all).
        weights: the prices of smooth worst-outcome limits at every output, shape (Y, W); W is 0 where there is none.
        multipliers: the prices of the budgets, one for each joint and distortion, then those of limits on averages,
            then (of a set of joints) the weights of the joints, which sum to one. With mutual information each price is
            minus the slope of the optimal value. All are in units of the convex program (of a sum over the outputs
            where the measure is a logarithm of one, of distances to the budgets where the leakage in the worst outcome
            is minimised): they prove the bound; `jaxpriv.sensitivity(problem, solution)` has the slopes of every form
            and measure.
        code: a `Status` (as an integer, so that it batches).
        steps: iterations used.
        solver: the name of the solver that found the mechanism, or of both that found mechanism and bound.
        seconds: time spent compiling and solving (host results only).
        notes: what `auto` and the solvers for large alphabets did on the way, in order.
        stopped: why the solve ended before its goal: 0 it did not, 1 the time limit, 2 an interrupt (as an integer,
            so that it batches). The status is then `best_known`, unless what was there met the tolerance.
        units: what the numbers of value and leakage mean, in words, for print: their units and the name of the measure.
        least_leakage: of a `LexicographicProblem` the solution of its first step; None elsewhere. All else is of the
            second, whose objective is E d, but the status: it is that of the first step where that is not `optimal`.
    """

    # With an axis more in a batch.
    value: Result
    lower_bound: Result
    mechanism: _Mechanism
    leakage: Result
    distortion: Result
    scores: Result
    weights: Result
    multipliers: Result
    code: Result
    steps: Result
    solver: str = field(metadata={"static": True}, default="")
    seconds: dict[str, float] | None = field(metadata={"static": True}, default=None)
    notes: tuple[str, ...] = field(metadata={"static": True}, default=())
    stopped: Result = 0
    units: tuple[str, str] = field(metadata={"static": True}, default=("", ""))
    least_leakage: "Solution | None" = None

    def __repr__(self) -> str:
        """Status, value and gap, then what the arrays are: what they hold may be private, and is too long to read."""
        if is_traced(self) or np.ndim(self.value):
            return summary(self)
        head = f"{self.status}, value={float(self.value):.9g}, gap={float(self.gap):.3g}"
        return summary(self).replace("Solution(", f"Solution({head},", 1)

    def _shown(self) -> dict[str, str]:
        value, leakage = (f" {words}".rstrip() for words in self.units)
        return {
            "status": numbers(self.code) if is_traced(self.code) else tally(self.status),
            "value": numbers(self.value) + value,
            "lower bound": numbers(self.lower_bound, lower) + value,
            "gap": numbers(self.gap, width) + value,
            "leakage": numbers(self.leakage) + leakage,
            "distortion": f"{numbers(self.distortion, nearest)} (E d(X,Y))",
            "mechanism": sizes(X=self.mechanism.shape[-2], Y=self.mechanism.shape[-1]),
            "solver": self.solver,
            "steps": numbers(self.steps, nearest),
        }

    @property
    def gap(self) -> Arr:
        """value - lower_bound: how far from the optimum the mechanism can be at most."""
        # An infeasible instance has value = bound = inf.
        if isinstance(self.value, float):
            return np.asarray(self.value - (self.lower_bound if np.isfinite(self.value) else 0.0))[()]
        xp = jnp if is_traced(self) else np
        return self.value - xp.where(xp.isfinite(self.value), self.lower_bound, 0.0)

    @property
    def status(self) -> PyTree:
        """`optimal`, `not_certified`, `best_known` or `infeasible`; for a batch an array of them.

        It is a text: inside of jit, vmap and grad `code` takes its place.
        """
        return status_of(self.code)

    def _meaning(self) -> str:
        text = super()._meaning()
        if "interior-point" in self.solver:  # no advice to use the method that ended here
            text = text.replace(_FIRST_ORDER, "")
        if np.asarray(self.value).dtype == np.float32:
            text += (
                f" Computed in float32, where the default tolerance is {SINGLE_TOLERANCE:g}; "
                "certify(problem, solution) computes value and bound again in float64."
            )
        return text

    def verify(self, problem: object, *, time_limit: float | None = None) -> "Verification":
        """`jaxpriv.certify(problem, self)`: everything recomputed from the problem, the mechanism and the duals."""
        from jaxpriv.program.certificates.verification import certify_solution  # it reads solutions itself

        return certify_solution(problem, self)

    def __getitem__(self, index: int | slice) -> "Solution":
        """One result (or a slice) of a batch."""
        return jax.tree.map(lambda leaf: leaf[index] if np.ndim(leaf) else leaf, self)


def within_limits(solution: Solution, violation: ScalarLike) -> Solution:
    """The solution, which every pipeline ends with: a mechanism that exceeds a limit is none (NaN), and has no value.

    `violation`: by how much, beyond what is allowed (`program.certify.most_excess`); 0 for a mechanism that meets all.
    The bound does not depend on the mechanism, and stays.
    """
    met = (violation <= 0) & (solution.value == solution.value)  # of NaN neither is true
    if not isinstance(met, Tracer):
        if met:
            return solution
        absent = np.broadcast_to(np.float64(np.nan), solution.mechanism.shape)
        xp = np
    else:
        absent, xp = jnp.nan, jnp
    lost = xp.logical_not(met)
    return replace(
        solution,
        value=xp.where(lost, np.inf, solution.value)[()],
        mechanism=absent if xp is np else xp.where(lost, absent, solution.mechanism),
        leakage=xp.where(lost, np.nan, solution.leakage)[()],
        distortion=xp.where(lost, np.nan, solution.distortion),
        code=xp.where(lost, np.int32(Status.NOT_CERTIFIED), solution.code)[()],
    )


def no_solution(shape: tuple[int, int], rows: int, worst: int, prices: int, distortions: int) -> Solution:
    """The solution of a problem that has none, infinite value and bound, with duals of the program's shapes."""
    return Solution(
        value=np.float64(np.inf),
        lower_bound=np.float64(np.inf),
        mechanism=np.full(shape, np.nan),
        leakage=np.float64(np.nan),
        distortion=np.full(distortions, np.nan),
        scores=np.zeros((1, shape[1], rows)),
        weights=np.zeros((shape[1], worst)),
        multipliers=np.zeros(prices),
        code=np.int32(Status.INFEASIBLE),
        steps=np.int32(0),
        solver="none",
        seconds={"compile": 0.0, "solve": 0.0},
    )
