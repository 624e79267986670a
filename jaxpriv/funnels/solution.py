"""What a funnel solver is, what it returns, and what a solve returns: a mechanism and an interval for the optimum.

A solver works on the symbols of `problem.core` only and guarantees nothing: `funnels.release` rebuilds the mechanism,
measures it again, makes it meet its target, and checks every proof.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import jax
import numpy as np
from jaxtyping import PyTree

from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.module import summary
from jaxpriv._runtime.module.shown import nearest, numbers, sizes, tally, width
from jaxpriv._runtime.types import Result
from jaxpriv._runtime.validation import is_traced
from jaxpriv.problems.funnel import FunnelOrBottleneck
from jaxpriv.program.solution import AbstractSolution, status_of
from jaxpriv.verifier.logarithms import lower

if TYPE_CHECKING:
    from jaxpriv.program.certificates import Verification


# A leakage of less than this is zero, rounded: it is of the order of (relative error of a posterior)^2.
NOTHING = 1e-20


def measuring_error(symbols: int, outputs: int, value: float) -> float:
    """What rounding may change of a measure that is evaluated at a mechanism of so many symbols and outputs."""
    return 64.0 * float(np.finfo(np.float64).eps) * (symbols + outputs) * (1.0 + abs(value))


@dataclass(frozen=True)
class FunnelGoal:
    """When to stop: a proved gap of at most `tol` nats, `max_steps` rounds (None: the solver's own limit), or when the
    clock ends it. `start`: where to begin, a mechanism (X', Y) of the problem's core; None: the solver's own choice.
    """

    tol: float = 1e-6
    max_steps: int | None = None
    clock: Clock = field(default_factory=Clock)
    start: np.ndarray | None = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Proof:
    """Prices that prove a bound on every release. With psi(q) = -H(Tq) + lambda H(q), T = P(S|X) of the core,

        funnel:      psi(q) - nu.q >= bound for every distribution q over X
        bottleneck:  psi(q) - nu.q <= bound for every distribution q over X.

    For leakage to an adversary of finitely many actions, outer( sum_y P(y) phi(q_y) + shift ) with q_y the posterior
    after y, psi(q) = phi(q) + lambda H(q): for a correct guess phi(q) = max_s (Tq)_s.

    Attributes:
        prices: nu, shape (X',).
        multiplier: lambda >= 0.
        bound: rounding included.
    """

    prices: np.ndarray
    multiplier: float
    bound: float


@dataclass(frozen=True, eq=False)
class PosteriorMeasure:
    """A measure over posteriors, in the core's symbols.

    Attributes:
        posteriors: q_k, shape (K, X').
        masses: m_k, shape (K,); sum_k m_k q_k = P_X.
        proof: prices, or None.
        steps: rounds or iterations.
        stationary: whether a local method came to rest.
        notes: what happened on the way.
        compiling: seconds spent compiling.
        bound: a bound on the optimum proved by other means than prices (a lower bound where the problem minimises).
    """

    posteriors: np.ndarray
    masses: np.ndarray
    proof: Proof | None = None
    steps: int = 0
    stationary: bool = False
    notes: tuple[str, ...] = ()
    compiling: float = 0.0
    bound: float | None = None


class AbstractFunnelSolver(ABC):
    """Hyper-parameters, and a way to find a release. Subclasses are final frozen dataclasses."""

    takes_start: ClassVar[bool] = False  # whether `find` begins with the `start` of a goal that has one
    proves: ClassVar[bool] = False  # whether it goes on until the interval is proved to the tolerance

    @abstractmethod
    def find(self, problem: FunnelOrBottleneck, goal: FunnelGoal) -> PosteriorMeasure:
        """A release for `problem`; raises InputError where the solver does not take such problems."""


def measure_of(mechanism: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(posteriors (Y, X), masses (Y,)) of a mechanism (X, Y) under P_X = `source`, for outputs with mass."""
    joint = (source[:, None] * mechanism).T
    masses = joint.sum(axis=1)
    used = masses > 0
    return joint[used] / masses[used, None], masses[used]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class FunnelSolution(AbstractSolution):
    """A mechanism and how far from the best one it can be, in nats.

    One instance, or a batch along a leading axis from `vmap`. In a trace numbers are nearest values.

    Attributes:
        value: the objective at `mechanism`: the leakage L (or relevance I(S;Y)), I(X;Y), or their combination.
        lower_bound, upper_bound: a proved interval that holds the optimum, rounding included. The end on the
            side of the mechanism is its own value; the other one comes from prices that any reader can check
            (`jaxpriv.funnels.proved_value`), at worst from the elementary bounds.
        code: a `Status` (in a trace its integer, so that it batches): OPTIMAL (the interval is no wider than the
            tolerance), STATIONARY (a local method came to rest) or BEST_KNOWN.
        mechanism: P(y|x), shape (X, Y), rows sum to one, the target met; symbols without mass release the
            marginal of Y.
        disclosure: I(X;Y) of the mechanism.
        leakage: L(S->Y) of the mechanism.
        posteriors, masses: P(x|y), shape (Y, X), and P(y), shape (Y,).
        multiplier: lambda, the slope of leakage in disclosure at the bound, of measures with a logarithm that of the
            sum inside it (NaN without a proof by prices).
        prices: (X,) nu, the price of every useful symbol in that proof (NaN without one, and without mass).
        proof: the same with its bound, in the symbols of the problem's core; None without a proof by prices.
        solver: the name of the method.
        steps: its rounds or iterations.
        seconds: time spent compiling and solving (host results only).
        notes: what happened on the way, in order.
        stopped: why the solve ended before its goal: 0 it did not, 1 the time limit, 2 an interrupt.
        units: of value and leakage, in words, as in a `Solution`.
    """

    # With an axis more in a batch.
    value: Result
    lower_bound: Result
    upper_bound: Result
    code: Result
    mechanism: Result
    disclosure: Result
    leakage: Result
    posteriors: Result
    masses: Result
    multiplier: Result
    prices: Result
    proof: Proof | None
    solver: str = field(metadata={"static": True})
    steps: Result
    seconds: dict[str, float] | None = field(metadata={"static": True})
    notes: tuple[str, ...] = field(metadata={"static": True}, default=())
    stopped: Result = 0
    units: tuple[str, str] = field(metadata={"static": True}, default=("", ""))

    __repr__ = summary

    def _shown(self) -> dict[str, str]:
        optimum, leakage = (f" {words}".rstrip() for words in self.units)
        # Rounded for a reader who relies on little leakage and much disclosure.
        return {
            "status": numbers(self.code) if is_traced(self.code) else tally(self.status),
            "optimum": f"{numbers(self.lower_bound, lower)} to {numbers(self.upper_bound)}{optimum}",
            "gap": numbers(self.gap, width) + optimum,
            "leakage": numbers(self.leakage) + leakage,
            "I(X;Y)": f"{numbers(self.disclosure, lower)} nats",
            "mechanism": sizes(X=self.mechanism.shape[-2], Y=self.mechanism.shape[-1]),
            "solver": self.solver,
            "steps": numbers(self.steps, nearest),
        }

    @property
    def gap(self) -> Result:
        """upper_bound - lower_bound: how far from the optimum the mechanism can be at most."""
        return self.upper_bound - self.lower_bound

    @property
    def status(self) -> PyTree:
        """`optimal`, `best_known` or `stationary`; for a batch an array of them."""
        return status_of(self.code)

    def __getitem__(self, index: int | slice) -> "FunnelSolution":
        """One result (or a slice) of a batch."""
        return jax.tree.map(lambda leaf: leaf[index] if np.ndim(leaf) else leaf, self)

    def verify(self, problem: FunnelOrBottleneck, *, time_limit: float | None = None) -> "Verification":
        """`jaxpriv.certify(problem, self)`: value and target measured again, the bound proved again."""
        from jaxpriv.funnels.verification import certify_funnel

        return certify_funnel(problem, self, time_limit=time_limit)
