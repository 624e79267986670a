"""What a funnel solver is, and what it returns.

A solver works on the symbols of `problem.core` only and promises nothing: the front door rebuilds the mechanism,
measures it afresh, makes it meet its target, and checks every proof.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from jaxpriv._clock import Clock
from jaxpriv.problems.funnel import BottleneckProblem, FunnelProblem

# A leakage of less than this is zero, rounded: it is of the order of (relative error of a posterior)^2.
NOTHING = 1e-20


@dataclass(frozen=True)
class FunnelGoal:
    """When to stop: a proved gap of at most `tol` nats, `max_steps` rounds (None: the solver's own limit), or when the
    clock says so.
    """

    tol: float = 1e-6
    max_steps: int | None = None
    clock: Clock = field(default_factory=Clock)


@dataclass(frozen=True, eq=False)
class Proof:
    """Prices that prove a bound on every release. With psi(q) = -H(Tq) + lambda H(q), T = P(S|X) of the core,

        funnel:      psi(q) - nu.q >= bound for every distribution q over X
        bottleneck:  psi(q) - nu.q <= bound for every distribution q over X.

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

    @abstractmethod
    def find(self, problem: FunnelProblem | BottleneckProblem, goal: FunnelGoal) -> PosteriorMeasure:
        """A release for `problem`; raises InputError where the solver does not take such problems."""


def measure_of(mechanism: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(posteriors (Y, X), masses (Y,)) of a mechanism (X, Y) under P_X = `source`, for outputs with mass."""
    joint = (source[:, None] * mechanism).T
    masses = joint.sum(axis=1)
    used = masses > 0
    return joint[used] / masses[used, None], masses[used]
