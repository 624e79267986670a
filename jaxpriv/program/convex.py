"""The one convex program that every problem of `DistortionProblem` is stated as, the candidates for its solution, and
the goal that their gap has to meet.

A measure under one joint is a `Term`: rows A_j, a set of rules with its support function phi_j, and a role
(`leakage.rule_sets`). Over mechanisms W, the columns of which are W_y,

    minimise    <cost, W> + sum_OBJECTIVE sum_y phi_j(A_j W_y) + peak
    subject to  <constraints_r, W> <= budgets_r + marks_r peak              r = 1..R
                sum_y phi_j(A_j W_y) - bound_j <= 0 (AVERAGE) or <= peak (PEAK)
                phi_j(A_j W_y) + offset_j . W_y <= 0 for every y (WORST),  and W row-stochastic.

`cost` and `constraints` carry the mass of the data already: for E d they hold p(x) d(x, y).

The least worst outcome is one program too. Where WORST terms of smooth kinds have a `rate`, they read

    phi_j(A_j W_y) + offset_j . W_y <= peak rate_j . W_y  for every y,

and the peak, the largest ratio of an output, is what is minimised. It multiplies W, so the program is quasi-convex.
Rows of LINEAR terms with a rate read A_j W_y <= peak rate_j W_y, or A_j W_y <= t_y (reference_j + peak rate_j).

Every problem of Calmon-Fawaz's Theorems 1 and 2, Remarks 1, 3 and 4 and Corollary 1 is one of these.
"""

import enum
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._runtime import arrays as xp, lanes
from jaxpriv._runtime.types import Arr, ArrLike, BoolLike, ScalarLike
from jaxpriv._runtime.validation import is_traced
from jaxpriv.leakage.rule_sets import Role, Term

# What rounding makes of a gap of zero, relative to 1 + the value.
ROUNDING = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


class Form(enum.Enum):
    """Where the leakage stands in a program of mutual information."""

    OBJECTIVE = "objective"
    WORST = "worst"
    LIMIT = "limit"


_FORMS = {Role.OBJECTIVE: Form.OBJECTIVE, Role.PEAK: Form.WORST, Role.AVERAGE: Form.LIMIT}


class Layout(NamedTuple):
    """Where a term stands in the stacked arrays; all static."""

    rows: slice
    worst: int | None  # its column of eta
    limit: int | None  # its place among the prices


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Program:
    """One convex program over mechanisms of shape (X, Y). All arrays float, one dtype."""

    terms: tuple[Term, ...]
    mass: Arr  # (X,): P(x), the mean over the joints
    cost: Arr  # (X, Y)
    constraints: Arr  # (R, X, Y); R may be 0
    budgets: Arr  # (R,)
    marks: Arr  # (R,): 1 where the peak is added to the budget
    support: Arr  # (X, Y) bool: where the mechanism may have mass
    feasible_point: Arr  # (X, Y): a mechanism that meets every limit, to repair iterates with
    equal: Arr | None = None  # (R,) bool: constraints that hold with equality, at a price of any sign; None: none
    start: Arr | None = None  # (X, Y): the caller's mechanism to begin with, which may exceed limits; None: none
    shares: bool = field(metadata={"static": True}, default=False)  # whether any of `marks` is 1
    diagonal: bool = field(metadata={"static": True}, default=False)  # one term, whose rows are a diagonal matrix
    # Whether the support leaves out pairs that the problem forbids.
    forbids: bool = field(metadata={"static": True}, default=False)
    # Whether the value of a minimax program is the logarithm of its peak.
    logarithmic: bool = field(metadata={"static": True}, default=False)

    @cached_property
    def traced(self) -> bool:
        """Whether any of its arrays is a tracer, or differs between lanes."""
        return is_traced(self)

    @cached_property
    def xp(self) -> ModuleType:
        """The library that computes with its arrays: `jax.numpy` if one of them is JAX's, otherwise `numpy`."""
        return xp.of(*jax.tree.leaves(self))

    @cached_property
    def layout(self) -> tuple[Layout, ...]:
        """Where every term stands in the stacked rules and prices."""
        layouts: list[Layout] = []
        start, worst, limit = 0, 0, self.budgets.shape[-1]
        for term in self.terms:
            size, of_outputs = term.rows.shape[-2], term.smooth and term.role is Role.WORST
            rows = slice(start, start + size)
            layouts.append(Layout(rows, worst if of_outputs else None, limit if term.priced else None))
            start, worst, limit = start + size, worst + of_outputs, limit + term.priced
        return tuple(layouts)

    @cached_property
    def peaked(self) -> bool:
        """Whether there is a peak to be minimised."""
        return self.shares or any(term.role is Role.PEAK for term in self.terms)

    def at_peak(self, peak: ScalarLike) -> "Program":
        """The limits of a minimax program where its peak is as given."""
        return replace(self, terms=tuple(term.at_peak(peak) for term in self.terms))

    @cached_property
    def minimax(self) -> bool:
        """Whether the peak is the largest ratio of an output."""
        return any(term.rate is not None for term in self.terms)

    def largest_ratio(self, x: Arr) -> ScalarLike:
        """The peak of a minimax program at a mechanism x (Y, X): the largest of its `ratios`."""
        return self.ratios(x).max(keepdims=True).reshape(())  # of NumPy too an array and no scalar

    def ratios(self, x: Arr) -> Arr:
        """(phi + offset . x_y) / rate . x_y of every output, the largest over the limits; -inf of one without mass."""
        tiny, ratios = np.finfo(x.dtype).tiny, []
        for term in self.terms:
            if term.rate is None:
                continue
            w = xp.matmul(x, term.rows.T)
            if term.smooth:
                leak, held = (term.support(w) + x @ term.offset)[:, None], (x @ term.rate)[:, None]
            elif term.normalised:
                rising = term.rate > 0
                leak = xp.where(rising, w / xp.where(rising, term.rate, 1.0), -xp.inf).max(axis=1, keepdims=True)
                held = xp.where(rising, xp.inf, w / xp.where(rising, 1.0, term.reference)).min(axis=1, keepdims=True)
            else:
                leak, held = w, xp.matmul(x, term.rate.T)
            # Nothing is held against nothing where an output has no mass.
            none = -xp.inf if term.smooth else xp.where(leak > tiny, xp.inf, -xp.inf)
            ratios.append(xp.where(held > tiny, leak / xp.maximum(held, tiny), none).max(axis=1))
        return xp.stack(ratios).max(axis=0)

    # -- mutual information -----------------------------------------------------------------------------

    @property
    def form(self) -> Form:
        """Where mutual information stands."""
        return _FORMS[self.terms[0].role]

    @property
    def joints(self) -> Arr:
        """The joints of a program of mutual information, (K, S, X)."""
        return xp.stack([term.rows for term in self.terms])

    @property
    def limit(self) -> Arr:
        """The limit on mutual information in form LIMIT."""
        return self.terms[0].bound

    def stacked(self, scores: Arr, weights: Arr, multipliers: Arr) -> tuple[Arr, Arr]:
        """(k (Y, K S), price) of mutual information, for scores (K, Y, S), weights (K,), multipliers (R,)."""
        k = xp.moveaxis(weights[:, None, None] * scores, 0, 1).reshape(scores.shape[1], -1)
        priced = self.form is not Form.OBJECTIVE
        return k, xp.concatenate([multipliers, weights]) if priced else multipliers


# Axes of every array of a program without lanes.
_AXES = {
    "mass": 1,
    "cost": 2,
    "constraints": 3,
    "budgets": 1,
    "marks": 1,
    "support": 2,
    "feasible_point": 2,
    "start": 2,
}
# Those of a term.
_TERM_AXES = {"rows": 2, "reference": 1, "cap": 1, "offset": 1, "bound": 0, "parameter": 0}


def in_lanes(program: Program) -> Program:
    """A program whose arrays have a leading axis, as one of arrays with lanes; what is equal in all stays plain.

    Of programs that are equal altogether the cost has lanes: a program without any would be taken for a single one.
    """

    def part(array: Arr | None, axes: int) -> Arr | None:
        if array is None or np.ndim(array) == axes:
            return array
        if (array == array[:1]).all():
            return array[0]
        return lanes.with_lanes(array)

    def parts(whole: Program | Term, axes: dict[str, int]) -> dict[str, Arr | None]:
        return {name: part(getattr(whole, name), rank) for name, rank in axes.items()}

    def laid_out(term: Term) -> Term:
        return replace(term, **parts(term, {**_TERM_AXES, "rate": sum(term.rate_axes)}))

    terms = tuple(map(laid_out, program.terms))
    taken = replace(program, terms=terms, **parts(program, _AXES))
    if lanes.count_of(*jax.tree.leaves(taken)) is None:
        return replace(taken, cost=lanes.with_lanes(program.cost))
    return taken


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
        library = xp.of(best.value, self.tol, self.rtol, self.shift)
        size = library.where(library.isfinite(best.value), abs(best.value + self.shift), 0.0)
        tol, rtol = (part if library is np else jnp.asarray(part, size.dtype) for part in (self.tol, self.rtol))
        return best.gap <= library.maximum(tol, rtol * size)

    def proved(self, certificate: Certified) -> BoolLike:
        """Whether a certificate (`value`, `gap`, `violation`) proves that the goal is met.

        A mechanism that exceeds a limit within the allowance for rounding may have a value below the bound: at a high
        price by more than the rounding of the two sums, and then the pair proves nothing.
        """
        rounding = ROUNDING[np.dtype(getattr(certificate.value, "dtype", np.float64))]
        exact = certificate.gap >= -rounding * (1.0 + abs(certificate.value))
        return self.met(certificate) & (certificate.violation == 0) & exact
