"""The one convex program that every problem of `DistortionProblem` is stated as, whatever its measures.

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
A `StreamedProgram` states the least leakage over operators, without a table of size |X| |Y|; block by block it is the
same as form OBJECTIVE.

Every problem of Calmon-Fawaz's Theorems 1 and 2, Remarks 1, 3 and 4 and Corollary 1 is one of these.
"""

import enum
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from jaxpriv._runtime import arrays as xp, lanes
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import is_traced
from jaxpriv.data.distortion import AbstractDistortion
from jaxpriv.data.joints import AbstractJoint
from jaxpriv.leakage.rule_sets import Role, Term

# Newton steps that put a mechanism onto equations: they converge quadratically.
_CORRECTIONS = 5
# What equations may be missed by afterwards, relative to their size: the rounding of sums of some thousand terms.
_MET = 1e-12


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


def onto_equations(program: Program, mechanism: Arr) -> Arr:
    """A mechanism near `mechanism` that meets the constraints in `program.equal`, NaN if none was found.

    Entries move in proportion to themselves, W (1 + sum_r t_r c_r) with c_r above its mean in every row under W:
    Newton's method in t, whose every step squares what is left.
    """
    assert program.equal is not None
    mine = program.equal[:, None, None]
    c = xp.where(mine, program.constraints, 0.0)
    for _ in range(_CORRECTIONS):
        missing = xp.where(program.equal, program.budgets - (c * mechanism).sum(axis=(1, 2)), 0.0)
        above = c - (c * mechanism).sum(axis=2, keepdims=True)
        gram = xp.einsum("rxy,sxy->rs", above * mechanism, above)
        gram = xp.where(xp.isfinite(gram), gram, 0.0)  # NumPy's decomposition raises an error of its own
        steps = (xp.of(gram).linalg.pinv(gram) * missing).sum(axis=1)
        mechanism = xp.maximum(mechanism * (1.0 + (steps[:, None, None] * above).sum(axis=0)), 0.0)
        mechanism = mechanism / mechanism.sum(axis=1, keepdims=True)
    missing = xp.where(program.equal, program.budgets - (c * mechanism).sum(axis=(1, 2)), 0.0)
    met = abs(missing) <= _MET * (abs(program.budgets) + (abs(c) * mechanism).sum(axis=(1, 2)))
    return xp.where(met.all(), mechanism, np.nan)


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


def _least_mass(columns: Arr) -> float:
    """The mass of an output below which products with masses of private symbols may leave the normal numbers."""
    return 1e10 * float(np.finfo(columns.dtype).tiny)


class StreamedProgram(eqx.Module):
    """Operators of one joint and its distortions, the prior, a smooth average measure, and either prices or budgets.

    minimise  L(W) + sum_k prices_k E d_k                          (budgets is None)
    minimise  L(W)   subject to  E d_k <= budgets_k,  k = 1..M     (prices is None)

    with L(W) = sum_y phi(B w_y) and w_y(s) = P(S=s, Y=y). The rows of a measure are linear in the joint: A = B J, for a
    matrix B that depends on the prior alone.
    """

    joint: AbstractJoint
    distortions: tuple[AbstractDistortion, ...]
    prior: Arr  # (S,)
    term: Term  # the measure where X has one symbol: its set of rules, reference and parameter
    transfer: Any  # B, (T, S); None: rows are the joint itself
    least: ScalarLike  # (): L of a release that ignores the data
    # Exactly one is None, which tells the form.
    prices: Any  # (M,) or None
    budgets: Any  # (M,) or None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (X, Y) of a mechanism."""
        return self.distortions[0].shape

    def rows(self, columns: Arr) -> Arr:
        """B w_y of an output joint (Y, S): (Y, T)."""
        return columns if self.transfer is None else xp.matmul(columns, self.transfer.T)

    def scores(self, rules: Arr) -> Arr:
        """What rules (Y, T) say about s, B' g_y: (Y, S)."""
        return rules if self.transfer is None else xp.matmul(rules, self.transfer)

    def leakage(self, columns: Arr) -> Arr:
        """L of an output joint (Y, S); outputs without mass add nothing, whose lifts XLA could divide by 0."""
        seen = xp.where(columns.sum(axis=1, keepdims=True) > _least_mass(columns), columns, 0.0)
        return self.term.rule_set.columns(self.term, self.rows(seen).T).sum()

    def rules(self, columns: Arr, least: float = 0.0) -> Arr:
        """The adversary's best rules about an output joint (Y, S), (Y, T), finite: lifts below `least` count as that.

        An output without mass says nothing: its rule is the one about the prior.
        """
        tiny = np.finfo(columns.dtype).tiny  # times 1e8: a ratio that stays normal when XLA rounds it
        mass = columns.sum(axis=1, keepdims=True)
        present = xp.maximum(columns, xp.maximum(least * mass * self.prior, 1e8 * tiny))
        present = xp.where(mass > _least_mass(columns), present, self.prior)
        return self.term.rule_set.gradient(self.term, self.rows(present))

    def slack(self, rules: Arr) -> Arr:
        """By how much every score of an output rises, at least, where its rule is moved to the boundary: (Y,)."""
        term, rule_set = self.term, self.term.rule_set
        moved = rule_set.normalised(term, rules, rule_set.boundary(term, rules, 0.0).level)
        return xp.where(self.prior > 0, self.scores(moved - rules), np.inf).min(axis=1)
