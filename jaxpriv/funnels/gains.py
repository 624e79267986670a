"""Average measures: an adversary picks the best of finitely many actions after each output, or of a smooth set of them.

Such a measure is outer( sum_y P(y) phi(q_y) + shift ), q_y the posterior of X after y, with

    phi(q) = max_a C_a.q              one action out of all   (guessing probability: C = P(S|X), a = the guess)
    phi(q) = sum_a max(C_a.q, 0)      each on its own         (total variation: C_s = P(s|X) - P(s))

C a table (A, X). With the best action a0 of the prior and b(q) = D(q || P_X) the funnel is the linear program over
posteriors of the costs  a(q) = phi(q) - C_a0.q >= 0,  a(P_X) = 0 (the second kind: a = phi).

An elementary bound. Let u be the most that knowing x is worth to an adversary who acts as is best for x':
u = max_{x,x'} [ phi(e_x) - g_x'.C_x ], g_x' the best action at x'. Acting as is best for the likeliest symbol loses
nothing where it is right, so the worth of X itself after y is

    sum_x q_x phi(e_x) - phi(q) <= u (1 - max_x q_x) <= u H(q)/(2 ln 2)         (Hellman and Raviv 1970)

and its mean gives  sum_y P(y) phi(q_y) >= sum_x p_x phi(e_x) - u ( H(X) - I(X;Y) )/(2 ln 2).

A smooth measure (`pricing.shapes`) is at least that of the actions whose gains are tangent planes of phi: of those at
every symbol and at the prior for the elementary bound. Proofs by prices are of phi itself.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from jaxpriv.funnels.pricing.shapes import AbstractShape, Entropy, Separable, shape_of
from jaxpriv.leakage import AbstractAverageLeakage, MutualInformation
from jaxpriv.leakage._base import Scale
from jaxpriv.leakage.rule_sets import Role, Term
from jaxpriv.problems.funnel import FunnelOrBottleneck, FunnelProblem
from jaxpriv.program.lower import shift_of, terms_of

_EPS = float(np.finfo(np.float64).eps)
# What the logarithm of a scale, its inverse and the shift may add, in rounding errors of their size.
_OUTER = 8.0
# H(q)/(2 ln 2) >= 1 - max q.
SLOPE = 1.0 / (2.0 * math.log(2.0))

# What the tangent planes at the symbols are taken inside of the simplex: phi may be infinitely steep at its end.
_INSIDE = 1e-6

Interval = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Curved:
    """phi(q) = size ( shape of Tq - tilt.Tq ), T = `conditional` (S, X) with columns of sum 1, tilt (S,)."""

    shape: AbstractShape
    conditional: np.ndarray
    size: float
    tilt: np.ndarray

    def value(self, posteriors: np.ndarray) -> np.ndarray:
        """phi of the rows of `posteriors`."""
        return self.at(posteriors @ self.conditional.T)

    def at(self, r: np.ndarray) -> np.ndarray:
        """phi where Tq is a row of `r`."""
        return self.size * (self.shape.value(r) - r @ self.tilt)

    def planes(self, posteriors: np.ndarray) -> np.ndarray:
        """C of the tangent planes C.q of phi at the rows of `posteriors`, (K, X)."""
        return self.slopes(posteriors @ self.conditional.T) @ self.conditional

    def slopes(self, r: np.ndarray) -> np.ndarray:
        """G of the tangent planes G.Tq of phi where Tq is a row of `r`, (K, S)."""
        return self.size * (self.shape.gradient(r)[0] - self.tilt)


@dataclass(frozen=True, eq=False)
class Gains:
    """An average measure of one joint distribution.

    Attributes:
        rows: P_X(x) C[a, x], shape (A, X); a column of zeros where x has no mass.
        mass: P_X, shape (X,).
        single: whether one action is chosen; otherwise each action is taken where it gains.
        scale, shift: value = scale.outer( sum_y P(y) phi(q_y) + shift ).
        curved: phi of a smooth measure, of which the rows are some tangent planes.
    """

    rows: np.ndarray
    mass: np.ndarray
    single: bool
    scale: Scale
    shift: float
    curved: Curved | None = None

    def table(self, useful: np.ndarray) -> np.ndarray:
        """C of the symbols `useful`, which have mass, shape (A, X')."""
        return self.rows[:, useful] / self.mass[useful]

    def total(self, mechanism: np.ndarray) -> Interval:
        """sum_y P(y) phi(q_y) of P(y|x), with what rounding may change."""
        worth, size = self.rows @ mechanism, np.abs(self.rows) @ mechanism
        value = float(best(worth.T, self.single).sum())
        # Each entry is a sum of X products, and the whole one of Y numbers.
        error = _EPS * (sum(mechanism.shape) + 8) * float((size.max(axis=0) if self.single else size.sum(axis=0)).sum())
        return value - error, value, value + error

    def outer(self, total: float) -> float:
        """The value from the sum."""
        return float(self.scale.outer(total + self.shift))

    def inner(self, value: float) -> float:
        """The sum at which the value is `value`."""
        return float(self.scale.inner(value)) - self.shift

    def value(self, mechanism: np.ndarray) -> Interval:
        """The measure of P(y|x), at least 0, with what rounding may change."""
        low, nearest, high = self.total(mechanism)
        ends = self.below(low), 2 * self.outer(high) - self.below(high)
        return max(0.0, ends[0]), max(0.0, self.outer(nearest)), max(0.0, ends[1])

    def below(self, total: float) -> float:
        """`outer`, rounded down."""
        value = self.outer(total)
        return value - _OUTER * _EPS * (1.0 + abs(self.shift) + abs(value))

    def above(self, value: float) -> float:
        """`inner`, rounded up."""
        total = self.inner(value)
        return total + _OUTER * _EPS * (1.0 + abs(self.shift) + (1.0 + abs(value)) * abs(total + self.shift))

    @property
    def strict(self) -> bool:
        """Whether a smooth measure is known to be least where S and Y are independent, and nowhere else."""
        shape = None if self.curved is None else self.curved.shape
        return shape is not None and not (isinstance(shape, Separable) and shape.curve.users)

    @property
    def largest(self) -> float:
        """At least |C_a.q| of every q, of actions that are taken each on its own in all."""
        return float(np.abs(self.table(np.flatnonzero(self.mass > 0))).sum(axis=0).max())

    @property
    def rate(self) -> float:
        """The slope of the value in the sum where the value is a multiple of it; NaN for a logarithm."""
        return float(self.scale.outer(1.0)) if self.scale.proportional else math.nan


def best(worth: np.ndarray, single: bool) -> np.ndarray:
    """phi of every row of C q, `worth` (N, A)."""
    return worth.max(axis=1) if single else np.maximum(worth, 0.0).sum(axis=1)


def gains_of(problem: FunnelOrBottleneck) -> Gains | None:
    """The measure of `problem` as a table of actions or a smooth shape; None of I(S;Y) itself, of a loss or an
    average of a user's own, and where X itself leaks without limit.
    """
    measure, joint = problem.leakage, problem.joint
    if isinstance(measure, MutualInformation) or not (
        isinstance(measure, AbstractAverageLeakage) and measure.designable
    ):
        return None
    (term,) = terms_of(measure, joint, Role.OBJECTIVE)
    if not measure.linear:
        return _smooth(measure, joint, term)
    single = term.cap is None
    factor = 1.0 / np.asarray(term.reference) if single else np.asarray(term.cap)
    rows = _useful_rows(np.asarray(term.rows, dtype=np.float64) * factor[:, None], single)
    return Gains(rows, joint.sum(axis=0), single, measure.scale_for(len(joint)), float(shift_of(measure, joint)))


def curved_of(term: Term, mass: np.ndarray) -> Curved | None:
    """phi of the rules of a smooth measure, `mass` (X,) its P_X; None of other rules, and of rows whose sums are no
    multiple of P_X: their columns are no conditional distributions.
    """
    shape = shape_of(term)
    if shape is None:
        return None
    rows = np.asarray(term.rows, dtype=np.float64)
    rows = rows[:-1] if term.massed else rows
    total = rows.sum(axis=0)
    size = float(total.sum() / mass.sum())
    if (abs(total - size * mass) > 1e-9 * size * mass.max()).any():
        return None
    tilt = np.log(np.asarray(term.reference)) if isinstance(shape, Entropy) else np.zeros(len(rows))
    return Curved(shape, rows / np.where(total > 0, total, 1.0), size, tilt)


def _smooth(measure: AbstractAverageLeakage, joint: np.ndarray, term: Term) -> Gains | None:
    mass = joint.sum(axis=0)
    curved = curved_of(term, mass)
    if curved is None or not np.isfinite(curved.value(np.eye(len(mass))[mass > 0])).all():
        return None  # or a symbol alone leaks without limit
    source = mass / mass.sum()
    planes = curved.planes(np.vstack([(1 - _INSIDE) * np.eye(len(mass)) + _INSIDE * source, source]))
    return Gains(planes * mass, mass, True, measure.scale_for(len(joint)), float(shift_of(measure, joint)), curved)


def _useful_rows(rows: np.ndarray, single: bool) -> np.ndarray:
    """Without actions that never gain more than another one (each on its own: than nothing), but one of them."""
    if not single:
        used = (rows > 0).any(axis=1)
        return rows[used] if used.any() else rows[:1]
    useful = np.ones(len(rows), dtype=bool)
    for number, row in enumerate(rows):
        others = useful.copy()
        others[number] = False
        useful[number] = not (rows[others] >= row).all(axis=1).any()
    return rows[useful]


@dataclass(frozen=True, eq=False)
class Worth:
    """The costs of posteriors of the core: a(q) of the linear program, counted in units of u.

    Attributes:
        table: C less its row a0, shape (A, X'), divided by u.
        single: as in `Gains`.
        unit: u, at least a little above 0; of a smooth measure the largest cost of a symbol.
        first: C_a0, what was taken off, shape (X',): of a smooth measure the tangent plane at the prior.
        base: C_a0.p, the sum of a constant Y.
        curved: phi of a smooth measure, which has no table.
    """

    table: np.ndarray
    single: bool
    unit: float
    first: np.ndarray
    base: float
    curved: Curved | None = None

    def cost(self, posteriors: np.ndarray) -> np.ndarray:
        """a(q)/u of the rows of `posteriors`."""
        if self.curved is None:
            return best(posteriors @ self.table.T, self.single)
        return np.maximum(self.curved.value(posteriors) - posteriors @ self.first, 0.0) / self.unit


def worth_of(gains: Gains, useful: np.ndarray, source: np.ndarray) -> Worth:
    """The costs of posteriors of the symbols `useful`, of masses `source`."""
    if gains.curved is not None:
        curved = replace(gains.curved, conditional=gains.curved.conditional[:, useful])
        first = curved.planes(source[None])[0]
        unit = max(float((curved.value(np.eye(len(useful))) - first).max()), 1e-300)
        return Worth(np.empty((0, len(useful))), True, unit, first, float(first @ source), curved)
    table, size = gains.table(useful), len(useful)
    first = table[int(np.argmax(table @ source))] if gains.single else np.zeros(size)
    unit = largest_worth(table, gains.single)
    return Worth((table - (first if gains.single else 0.0)) / unit, gains.single, unit, first, float(first @ source))


def largest_worth(table: np.ndarray, single: bool) -> float:
    """u of C, rounded up; of a measure that no symbol changes 1e-300."""
    chosen = np.eye(len(table))[table.argmax(axis=0)] if single else (table > 0).T.astype(float)
    lost = best(table.T, single) - chosen @ table  # (x', x)
    rounding = 4 * _EPS * (len(table) + 2) * float(np.abs(table).max())
    return max(float(lost.max()) + rounding, 1e-300)


def elementary(gains: Gains, problem: FunnelProblem, entropy: float) -> float:
    """The end of the interval that holds the optimum of a funnel without prices, rounded outwards.

    `entropy` is an upper bound on H(X). A constant Y gives the other line of the bound.
    """
    size, target = gains.rows.shape[1], problem.target
    seen = np.flatnonzero(gains.mass > 0)
    slope = SLOPE * (1 + 8 * _EPS) * largest_worth(gains.table(seen), gains.single)
    least, most = gains.total(np.ones((size, 1)))[0], gains.total(np.eye(size))[0]

    def outwards(value: float) -> float:
        return value - _OUTER * _EPS * (1.0 + abs(gains.shift) + abs(value) + slope * entropy)

    if problem.form == "disclosure":
        return max(0.0, outwards(gains.outer(max(least, most - slope * (entropy - target)))))
    if problem.limits_leakage:
        return min(entropy, entropy - outwards(most - gains.inner(target)) / slope)
    # max(least, most - slope (H - I)) is convex in I; a logarithm of it is at least its value at one end.
    ends = [0.0, entropy] if most <= least else [0.0, min(entropy, max(0.0, entropy - (most - least) / slope)), entropy]
    if not gains.scale.proportional:
        return outwards(gains.outer(least)) - target * entropy
    levels = [gains.outer(max(least, most - slope * (entropy - end))) - target * end for end in ends]
    return outwards(min(levels)) - 4 * _EPS * target * entropy
