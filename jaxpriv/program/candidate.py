"""What an iteration comes to, a mechanism and a dual object, and when their gap is small enough."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.arrays import of
from jaxpriv._runtime.types import Arr, ArrLike, BoolLike, ScalarLike

# What rounding makes of a gap of zero, relative to 1 + the value.
ROUNDING = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


class Gapped(Protocol):
    """What a goal is compared with: a value, and how far it may be from the optimum."""

    @property
    def value(self) -> ArrLike: ...
    @property
    def gap(self) -> ArrLike: ...


class Certified(Gapped, Protocol):
    """A value and a gap recomputed by a certificate, and by how much the limits are exceeded."""

    @property
    def violation(self) -> ArrLike: ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Candidate:
    """The best mechanism and the best dual object so far, with the solver's own view of their gap.

    The gap here only steers the loop. What a user gets is computed again by `certificates`.
    """

    mechanism: Arr  # (X, Y), meets every limit
    value: ScalarLike
    k: Arr  # (Y, T) the adversary's rules times their prices, the rows of all terms stacked
    eta: Arr  # (Y, W) prices of the worst-outcome limits of smooth terms
    price: Arr  # (B,) of the budgets, then of the limits on sums
    bound: ScalarLike

    @property
    def gap(self) -> ScalarLike:
        return self.value - self.bound

    def with_primal(self, mechanism: Arr, value: ScalarLike) -> "Candidate":
        """The better of the two mechanisms."""
        other = Candidate(mechanism, value, self.k, self.eta, self.price, self.bound)
        return xp.chosen(value < self.value, other, self)

    def with_dual(self, k: Arr, eta: Arr, price: Arr, bound: ScalarLike) -> "Candidate":
        """The better of the two dual objects."""
        return xp.chosen(bound > self.bound, Candidate(self.mechanism, self.value, k, eta, price, bound), self)


# (k, eta, price): the adversary's rules times their prices (Y, T), the prices of worst-outcome limits of smooth terms
# (Y, W), those of the budgets and the limits on sums (B,).
Duals: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class CertifiedCandidate:
    """A mechanism and its dual objects for a `Program`, with the certified pair of totals."""

    mechanism: np.ndarray
    duals: Duals
    value: float
    bound: float
    violation: float
    solver: str

    @property
    def gap(self) -> float:
        return self.value - self.bound


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Goal:
    """When a gap is small enough: at most `tol`, or at most `rtol` times the value.

    `shift` is what a reduced program's value lacks to the original one's.
    """

    tol: ScalarLike
    rtol: ScalarLike = 0.0
    shift: ScalarLike = 0.0

    def met(self, best: Gapped) -> BoolLike:
        xp = of(best.value, self.tol, self.rtol, self.shift)
        size = xp.where(xp.isfinite(best.value), abs(best.value + self.shift), 0.0)
        tol, rtol = (part if xp is np else jnp.asarray(part, size.dtype) for part in (self.tol, self.rtol))
        return best.gap <= xp.maximum(tol, rtol * size)

    def proved(self, certificate: Certified) -> BoolLike:
        """Whether a certificate (`value`, `gap`, `violation`) proves that the goal is met.

        A mechanism that exceeds a limit within the allowance for rounding may have a value below the bound: at a high
        price by more than the rounding of the two sums, and then the pair proves nothing.
        """
        rounding = ROUNDING[np.dtype(getattr(certificate.value, "dtype", np.float64))]
        exact = certificate.gap >= -rounding * (1.0 + abs(certificate.value))
        return self.met(certificate) & (certificate.violation == 0) & exact
