"""What a funnel or bottleneck solve returns: a mechanism, and a proved interval that holds the optimum."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxpriv._clock import Stop
from jaxpriv._repr import summary
from jaxpriv.funnels.found import Proof
from jaxpriv.problems.funnel import BottleneckProblem, FunnelProblem
from jaxpriv.solution import AbstractSolution, Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jaxpriv.certificates import Verification


@dataclass(frozen=True, eq=False)
class FunnelSolution(AbstractSolution):
    """A mechanism and how far from the best one it can be, in nats.

    Attributes:
        value: the objective at `mechanism`: the leakage L (or relevance I(S;Y)), I(X;Y), or their combination.
        lower_bound, upper_bound: a proved interval that holds the optimum, rounding included. The end on the
            side of the mechanism is its own value; the other one comes from prices that any reader can check
            (`jaxpriv.funnels.proved_value`), at worst from the elementary bounds.
        code: a `Status`: OPTIMAL (the interval is no wider than the tolerance), STATIONARY (a local method came to
            rest) or BEST_KNOWN.
        mechanism: P(y|x), shape (X, Y), rows sum to one, the target met; symbols without mass release the
            marginal of Y.
        disclosure: I(X;Y) of the mechanism.
        leakage: L(S->Y) of the mechanism.
        posteriors, masses: P(x|y), shape (Y, X), and P(y), shape (Y,).
        multiplier: lambda, the slope of leakage in disclosure at the bound (NaN without a proof by prices).
        prices: (X,) nu, the price of every useful symbol in that proof (NaN without one, and without mass).
        proof: the same with its bound, in the symbols of the problem's core; None without a proof by prices.
        solver: the name of the method.
        steps: its rounds or iterations.
        seconds: time spent compiling and solving.
        notes: what happened on the way, in order.
        stopped: why the solve ended before its goal: 0 it did not, 1 the time limit, 2 an interrupt.
    """

    value: float
    lower_bound: float
    upper_bound: float
    code: Status
    mechanism: np.ndarray
    disclosure: float
    leakage: float
    posteriors: np.ndarray
    masses: np.ndarray
    multiplier: float
    prices: np.ndarray
    proof: Proof | None
    solver: str
    steps: int
    seconds: dict[str, float]
    notes: tuple[str, ...] = ()
    stopped: int = 0

    __repr__ = summary

    @property
    def gap(self) -> float:
        """upper_bound - lower_bound: how far from the optimum the mechanism can be at most."""
        return self.upper_bound - self.lower_bound

    @property
    def status(self) -> str:
        """`optimal`, `best_known` or `stationary`."""
        return self.code.label

    def plot(self, **options: Any) -> "Figure":  # noqa: ANN401 (the options of that function)
        """`jaxpriv.plotting.plot_mapping(self, ...)`: a matplotlib figure of P(y|x)."""
        from jaxpriv.plotting import plot_mapping  # it needs matplotlib

        return plot_mapping(self, **options)

    @property
    def message(self) -> str:
        """What the status means, after why it was stopped if it was."""
        return Stop(self.stopped).message + self.code.message

    def verify(self, problem: FunnelProblem | BottleneckProblem, *, time_limit: float | None = None) -> "Verification":
        """`jaxpriv.certify(problem, self)`: value and target measured again, the bound proved again."""
        from jaxpriv.funnels.release import certify_funnel  # pricing costs the import of SciPy

        return certify_funnel(problem, self, time_limit=time_limit)
