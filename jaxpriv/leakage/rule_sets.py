"""The adversary's sets of decision rules, and the terms of a convex program that are made of them.

Every measure is the support function of a set G of decision rules, phi(w) = sup { <g, w> : g in G } (see `_base`).
A measure lowers itself to `Rules`: a set, the rows A of shape (T, X) for which A W[:, y] is the argument of phi for
output y, and the reference r that the set is relative to,

    G = { g : h(g) <= 0 }                                      smooth sets, h convex
    G = { k : 0 <= k <= cap, reference . k = 1 }               `Linear`

`program.lower` makes `Term`s of them, one for each joint, in one of four roles: with W_y = W[:, y] and
phi(y) = sup { <g, A W_y> : g in G },

    OBJECTIVE  + sum_y phi(y) in the objective
    AVERAGE    sum_y phi(y) <= bound
    PEAK       sum_y phi(y) <= peak, and the peak is minimised (a set of joints)
    WORST      phi(y) + offset . W_y <= 0 for every y: smooth sets;
               for LINEAR terms: some t_y with A W_y <= t_y reference (A W_y <= 0 if reference = 0)

A set is one class: what a solver needs of it (`boundary`, `gradient`, `normalised`, `domain`) stands beside what a
certificate needs (`columns`, `moved_in`); solvers read phi off the certificate's `columns` too. A certificate relies on
nothing that a solver computed. All run on NumPy and on JAX arrays. A symbol without mass has reference 0 and a row of
zeros.
"""

import enum
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.arrays import of
from jaxpriv._runtime.lanes import LaneArray
from jaxpriv._runtime.numerics import kl_excess
from jaxpriv._runtime.types import Arr, ScalarLike

# Rows whose entries agree to this many binary-scaled decimals, each relative to itself, are one row (the
# certificate is computed on the merged rows). Not to so many decimals of 1: rare symbols have small rows.
_DECIMALS = 14
# Rules of at most this size are small: 1 + sum r (e^g - 1) is then between 1/2 and 2, where its logarithm is accurate.
_SMALL_RULE = 0.5
# A score below this carries no weight in float64 (e^-700) and would only poison a bound.
_LOWEST_SCORE = -700.0
# Up to this order of their roots, rules themselves move on a line: steps of Sibson's information of order 3 are a tenth
# fewer so, those of order 4 and spiky joints a third more.
_PLAIN = 2.5
# Of rules that are counted from another one of the size of 1 less than this is rounding. Ratios of outputs below the
# second, relative to the largest, are not needed for a gap of 1e-6. Choices.
_DIGITS, _LEAST_RATIO = 1e-13, 1e-6
# A private symbol that no kept symbol shows takes e^-40 of the set.
UNSEEN = -40.0


# -- what a measure is given, what it returns, and the term that is made of it ------------------------


@dataclass(frozen=True, eq=False)
class View:
    """One joint as a measure lowers itself: P(s, x) of the private symbols with mass, its sums, and a limit.

    For a measure that `stacks` all may have a leading axis, that of a batch.

    The arrays may be tracers. Shapes must not depend on their values then, so every symbol keeps its rows (`whole`):
    one without mass has a row of zeros and `prior` 0.
    """

    joint: Arr  # (S, X)
    prior: Arr  # (S,)
    mass: Arr  # (X,)
    limit: ScalarLike = 0.0  # of a worst-outcome measure: its largest value
    whole: bool = False  # no row may be left out or merged

    def limit_by(self, axes: int) -> ScalarLike:
        """The limit, to be multiplied by arrays that have so many axes beside that of a batch."""
        return self.limit if np.ndim(self.limit) == 0 else np.asarray(self.limit)[(..., *(None,) * axes)]

    @property
    def ones(self) -> Arr:
        """1 for every symbol with mass, 0 for the others."""
        return (self.prior > 0).astype(self.prior.dtype)

    def distinct(self, rows: Arr) -> Arr:
        """The numbers of the first of rows that are equal up to rounding; of all of them where the view is whole."""
        if self.whole:
            return np.arange(len(rows))
        return np.unique(classes(rows), return_index=True)[1]


class Role(enum.Enum):
    """Where a term stands in the program."""

    OBJECTIVE = "objective"
    AVERAGE = "average"
    PEAK = "peak"
    WORST = "worst"


class Boundary(NamedTuple):
    """The value and the derivatives at g of a function h, whose zeros are the boundary of a smooth set of rules.

    Arrays are of shape (Y, T), `level` and `size` (Y,).
    """

    level: Arr
    normal: Arr  # dh/dg
    size: Arr  # the sum of the normal
    curvature: Arr  # the Hessian, up to multiples of normal normal': its diagonal, or (Y, T, T) of a coupled set
    normal_drift: Arr | None = None  # d normal / d smoothing, of a coupled set alone
    level_drift: Arr | None = None  # d level / d smoothing, of a coupled set alone


@dataclass(frozen=True, eq=False)
class Rules:
    """A measure as a set of rules: what `AbstractLeakage.rules` returns."""

    rule_set: "AbstractRuleSet"
    rows: Arr  # (T, X)
    reference: Arr  # (T,): r of a smooth set, the normalisation of LINEAR (zeros: none)
    cap: Arr | None = None  # (T,) or None: LINEAR only
    parameter: ScalarLike = 0.0  # (): a number that the set depends on and that is no constant of a compiled program
    offset: Arr | None = None  # (X,) or None: of a worst-outcome limit, phi(y) + offset . W_y <= 0
    rate: Arr | None = None  # as `Term.rate`, of the least worst outcome


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Term:
    """One measure under one joint. All arrays float, one dtype."""

    rows: Arr  # (T, X)
    reference: Arr  # (T,): r of a smooth set, the normalisation of LINEAR (zeros: none)
    cap: Arr | None  # (T,) or None: LINEAR only
    offset: Arr  # (X,): -eps P(x) in role WORST, otherwise 0
    bound: Any  # (): of role AVERAGE; PEAK: sum_y phi(y) - bound <= peak; otherwise 0
    parameter: ScalarLike  # (): of the set, otherwise 0
    rule_set: "AbstractRuleSet" = field(metadata={"static": True})
    role: Role = field(metadata={"static": True})
    normalised: bool = field(metadata={"static": True})  # whether t_y exists (LINEAR with a reference)
    # Whether it is a limit that only mechanisms meet under which S and Y are independent.
    independent: bool = field(metadata={"static": True}, default=False)
    # Role WORST, what a unit of the peak allows: of a smooth set (X,), times W_y; of LINEAR rows (T, X), times W_y, and
    # where these are normalised (T,), times t_y. None: the limit does not depend on a peak.
    rate: Arr | None = None
    # The rule that rules are counted from, (T,), None: zero. The set of a smooth term is then { g : g + centre in G }.
    centre: Arr | None = None

    @cached_property
    def smooth(self) -> bool:
        return self.rule_set.smooth

    @cached_property
    def massed(self) -> bool:
        """Whether the last row is the mass of the output."""
        return self.rule_set.massed

    @cached_property
    def root(self) -> ScalarLike:
        """Steps move the roots of this order of the rules on a line; 1: the rules."""
        return self.rule_set.root(self)

    @cached_property
    def by_roots(self) -> bool:
        root = self.root.lanes if isinstance(self.root, LaneArray) else self.root
        return isinstance(root, Tracer) or bool(np.any(root != 1.0))

    def whole(self, g: Arr) -> Arr:
        """Rules g (..., T) of a smooth term as the formulas of its set take them."""
        return g if self.centre is None else g + self.centre

    def boundary(self, g: Arr, smoothing: ScalarLike) -> "Boundary":
        """The set of a smooth term at rules g, (Y, T), counted from the centre; one that may have kinks so smooth as
        `smoothing`.
        """
        return self.rule_set.boundary(self, self.whole(g), smoothing)

    def rule_at(self, w: Arr) -> Arr:
        """The natural rule of a smooth term at w > 0, counted from the centre: the gradient of phi, (T,) or (Y, T)."""
        rule = self.rule_set.gradient(self, w)
        return rule if self.centre is None else rule - self.centre

    def prior_rule(self) -> Arr:
        """A best rule about an output without information, (T,)."""
        return self.rule_at(self.rows.sum(axis=1))

    def support(self, w: Arr) -> Arr:
        """phi of every output from its rows A W, w (Y, T), less what the centre claims: (Y,). Of linear rows that limit
        every output by how much they exceed the limit.
        """
        if self.role is Role.WORST and not self.smooth:
            return _violation(self, w)
        phi = self.rule_set.columns(self, w.T)
        return phi if self.centre is None else phi - w @ self.centre

    @property
    def rate_axes(self) -> tuple[bool, bool]:
        """Whether the rate, where there is one, has an axis of rows, and one of useful symbols."""
        return not self.smooth, self.smooth or not self.normalised

    def offset_at(self, peak: ScalarLike) -> Arr:
        """The offset of a smooth worst-outcome limit where the peak is as given."""
        return self.offset if self.rate is None else self.offset - peak * self.rate

    def at_peak(self, peak: ScalarLike) -> "Term":
        """The limit where the peak is as given."""
        if self.rate is None:
            return self
        if self.smooth:
            return replace(self, offset=self.offset_at(peak), rate=None)
        if self.normalised:
            return replace(self, reference=self.reference + peak * self.rate, rate=None)
        return replace(self, rows=self.rows - peak * self.rate, rate=None)

    @cached_property
    def priced(self) -> bool:
        """Whether one price for all outputs multiplies the set (a limit on the sum over the outputs)."""
        return self.role in (Role.AVERAGE, Role.PEAK)


# -- the sets ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AbstractRuleSet(ABC):
    """A set G; terms are compiled with it, so two that are equal are one to a compiled program."""

    smooth: ClassVar[bool] = True  # { h <= 0 } with a curved boundary
    massed: ClassVar[bool] = False  # the last row is the mass of the output; its rule is free
    coupled: ClassVar[bool] = False  # the Hessian of h is not diagonal; h comes from a user's function
    users: ClassVar[bool] = False  # a user's function in JAX, with constants of its own precision
    additive: ClassVar[bool] = False  # rows in proportion to each other and to their references are one: they add up
    proportional: ClassVar[bool] = False  # rules change by shares of themselves, and keep their sign
    powers: ClassVar[bool] = False  # rules far from 0 are powers of ratios: their changes are shares of themselves
    strict: ClassVar[bool] = False  # the sum over the outputs is least only where S and Y are independent
    smoothness: ClassVar[float] = math.inf  # of the sum over the outputs relative to the entropy of the rows, a bound

    # What a solver needs, beside `columns`.

    @abstractmethod
    def boundary(self, term: Term, g: Arr, smoothing: ScalarLike) -> Boundary:
        """h at rules g (Y, T); that of a coupled set, which may have kinks, so smooth as `smoothing`."""

    @abstractmethod
    def gradient(self, term: Term, w: Arr) -> Arr:
        """The gradient of phi at w > 0, (T,) or (Y, T). A row without reference gets a rule that adds nothing."""

    @abstractmethod
    def normalised(self, term: Term, g: Arr, level: Arr) -> Arr:
        """Rules g (Y, T) at a level h (Y,), moved into the set."""

    def domain(self, term: Term) -> tuple[float, float]:
        """The open interval of the coordinates of rules (the last one of a massed set is free)."""
        del term
        return -math.inf, math.inf

    def root(self, term: Term) -> ScalarLike:
        """The order of the roots of positive rules in which a step is a line, at least 1."""
        del term
        return 1.0

    def merged(self, rows: Arr, reference: Arr, cap: Arr | None) -> tuple[Arr, Arr, Arr | None]:
        """(rows, reference, cap) with rows of equal ratios added up.

        The function of a smooth set is a sum over symbols of r f(w/r), so equal ratios add up; the mass is its own row.
        """
        count = len(rows) - self.massed
        sizes = rows[:count].sum(axis=1)
        numbers = classes(np.column_stack([rows[:count] / sizes[:, None], sizes / reference[:count]]))
        gather = _gather(numbers)
        return (
            np.vstack([gather @ rows[:count], rows[count:]]),
            np.append(gather @ reference[:count], reference[count:]),
            cap,
        )

    def unseen(self, reference: Arr) -> Arr:
        """Rules for symbols that are left out of the iteration, (T,): they use almost nothing of the set."""
        return np.zeros(len(reference))

    # What a certificate needs: of sets without a user's function for leading axes of the term's arrays too, a batch.

    @abstractmethod
    def columns(self, term: Term, w: Arr) -> Arr:
        """phi of the rows A W of every output, w (..., T, Y): (..., Y). Of a user's function rounded up."""

    @abstractmethod
    def moved_in(self, term: Term, g: Arr) -> Arr:
        """Any finite g (..., Y, T) moved into the set."""


@dataclass(frozen=True)
class Entropic(AbstractRuleSet):
    """sum_i r_i e^{g_i} <= 1: relative entropy to r, phi(w) = sum_i w_i ln( w_i/(r_i |w|) )."""

    additive: ClassVar[bool] = True
    strict: ClassVar[bool] = True
    smoothness: ClassVar[float] = 1.0

    def boundary(self, term: Term, g: Arr, smoothing: ScalarLike) -> Boundary:
        del smoothing
        xp, seen = of(g, term.reference), term.reference > 0
        tilted = xp.where(seen, g + xp.log(xp.where(seen, term.reference, 1.0)), -np.inf)
        top = tilted.max(axis=1, keepdims=True)
        e = xp.exp(tilted - top)
        total = e.sum(axis=1, keepdims=True)
        # Of small rules ln sum r e^g as ln sum r + ln(1 + sum r (e^g - 1)/sum r), so that it keeps its digits.
        small = abs(g).max(axis=1, keepdims=True) < _SMALL_RULE
        whole = term.reference.sum(axis=-1, keepdims=True)
        gain = (term.reference * xp.expm1(xp.where(small & seen, g, 0.0))).sum(axis=1, keepdims=True) / whole
        level = xp.where(small, _log_of_total(xp, whole) + xp.log1p(gain), top + xp.log(total))
        return Boundary(level[:, 0], e / total, xp.ones(total.shape[0], total.dtype), e / total)

    def gradient(self, term: Term, w: Arr) -> Arr:
        xp, seen = of(w, term.reference), term.reference > 0
        safe = xp.where(seen, term.reference, 1.0)
        return xp.log(xp.where(seen, w / (safe * w.sum(axis=-1, keepdims=True)), 1.0))

    def normalised(self, term: Term, g: Arr, level: Arr) -> Arr:
        del term
        return g - level[:, None]

    def merged(self, rows: Arr, reference: Arr, cap: Arr | None) -> tuple[Arr, Arr, Arr | None]:
        """For an entropic set proportional rows c_i v are one, v sum c_i, of another reference:
        sum_i c_i w ln(c_i w/r_i) = C w ln(C w/r) with C = sum c_i and ln r = ln C + sum_i (c_i/C) ln(r_i/c_i).

        This is C-F Corollary 1 and 2: a private S behind X = f(S) enters through H(S|X=x) alone.
        """
        sizes = rows.sum(axis=1)
        numbers = classes(rows / sizes[:, None])
        if numbers.max() + 1 < len(rows):
            gather = _gather(numbers)
            total = gather @ sizes
            mean = gather @ (sizes * (np.log(reference) - np.log(sizes)))
            rows, reference = gather @ rows, total * np.exp(mean / total)
        return super().merged(rows, reference, cap)

    def unseen(self, reference: Arr) -> Arr:
        seen = reference > 0
        return np.where(seen, UNSEEN - np.log(np.where(seen, reference, 1.0)), 0.0)

    def columns(self, term: Term, w: Arr) -> Arr:
        xp, r = of(w, term.reference), term.reference[..., None]
        w = xp.maximum(w, 0.0)
        mass = w.sum(axis=-2, keepdims=True)
        # With r = R p, sum p = 1: w ln(w/(p m)) as m p (t ln t - t + 1) >= 0, which keeps its digits near t = 1, and
        # -m ln R apart.
        whole = r.sum(axis=-2, keepdims=True)
        product = r / whole * mass
        terms = kl_excess(xp.where(product > 0, w / xp.where(product > 0, product, 1.0), 0.0))
        return (product * terms).sum(axis=-2) - (mass * _log_of_total(xp, whole))[..., 0, :]

    def moved_in(self, term: Term, g: Arr) -> Arr:
        return entropic_rules(term.reference, g)


def entropic_rules(reference: Arr, g: Arr) -> Arr:
    """Any finite g (..., Y, T), moved into { g : sum_i r_i e^{g_i} <= 1 } with r = `reference` (..., T)."""
    xp, r = of(g, reference), reference[..., None, :]
    seen = r > 0
    g = xp.where(seen, xp.minimum(xp.maximum(g, _LOWEST_SCORE), -_LOWEST_SCORE), _LOWEST_SCORE)
    g = g - g.max(axis=-1, keepdims=True)
    total = r.sum(axis=-1, keepdims=True)
    mean = (r * xp.exp(g)).sum(axis=-1, keepdims=True) / total
    short = (r * xp.expm1(g)).sum(axis=-1, keepdims=True) / total
    level = xp.where(mean > 0.5, xp.log1p(xp.where(mean > 0.5, short, 0.0)), xp.log(mean))
    return xp.where(seen, g - level - _log_of_total(xp, total), 0.0)


def _log_of_total(xp: ModuleType, total: Arr) -> Arr:
    """The logarithm of the sum of a reference, 0 of one that is 1 up to rounding (1e-12: of thousands of masses)."""
    rounding = max(1e-12, 16.0 * float(np.finfo(total.dtype).eps))  # in float32 2e-6: of tens
    return xp.where(abs(total - 1.0) > rounding, xp.log(total), 0.0)


@dataclass(frozen=True)
class Power(AbstractRuleSet):
    """sum_i r_i |g_i|^b <= 1, b the parameter of the term: Renyi's measures of order a, 1/a + 1/b = 1.

    phi(w) = +-(sum_i r_i^{1-a} w_i^a)^{1/a}; `negative` for a < 1: rules g < 0, and minus.
    """

    negative: bool = False
    proportional: ClassVar[bool] = True
    strict: ClassVar[bool] = True

    def boundary(self, term: Term, g: Arr, smoothing: ScalarLike) -> Boundary:
        del smoothing
        b = term.parameter
        y = -g if self.negative else g
        size = abs(b)
        power = term.reference * y ** (b - 1.0)
        return Boundary(((power * y).sum(axis=1) - 1.0) / size, power, power.sum(axis=1), abs(b - 1.0) * power / y)

    def gradient(self, term: Term, w: Arr) -> Arr:
        r, seen = term.reference, term.reference > 0
        top = xp.where(seen, w, 0.0).max(axis=-1, keepdims=True)  # a factor is none: powers of less may vanish
        y = xp.where(seen, w / top / xp.where(seen, r, 1.0), 1.0) ** (1.0 / (term.parameter - 1.0))
        y = y * (r * y**term.parameter).sum(axis=-1, keepdims=True) ** (-1.0 / term.parameter)
        return -y if self.negative else y

    def normalised(self, term: Term, g: Arr, level: Arr) -> Arr:
        # sum r y^b = 1 + b level; y scaled to the boundary
        total = 1.0 + abs(term.parameter) * level
        return g + term.whole(g) * xp.expm1(-xp.log(total) / term.parameter)[:, None]

    def domain(self, term: Term) -> tuple[float, float]:
        del term
        return (-math.inf, 0.0) if self.negative else (0.0, math.inf)

    def root(self, term: Term) -> ScalarLike:
        """1/(b-1) = a-1: the normal of the boundary, r g^{b-1}, is linear in that root of g, and g falls as that power
        of what w falls by. 1 where rules counted from another one have the digits of all that steps go through:
        (w/r)^{a-1} relative to the largest, where outputs have ratios w/r between those of the columns.
        """
        if self.negative:
            return 1.0
        order, seen = 1.0 / (term.parameter - 1.0), term.reference[:, None] > 0
        lift = term.rows / xp.where(seen, term.reference[:, None], 1.0)
        most = xp.where(seen, lift, 0.0).max(axis=0)
        least = (xp.where(seen & (most > 0), lift, xp.inf) / xp.where(most > 0, most, 1.0)).min()
        far = xp.maximum(least, _LEAST_RATIO) ** order < _DIGITS
        return xp.where(far & (order > _PLAIN), order, 1.0)

    def unseen(self, reference: Arr) -> Arr:
        return np.full(len(reference), -1e3 if self.negative else 0.0)

    def columns(self, term: Term, w: Arr) -> Arr:
        r = term.reference[..., None]
        b = xp.asarray(term.parameter, w)[..., None]
        order = b / (b - 1.0)
        lift = xp.maximum(w, 0.0) / xp.where(r > 0, r, 1.0)
        top = lift.max(axis=-2)
        share = lift / xp.where(top > 0, top, 1.0)[..., None, :]
        power = xp.where(share > 0, xp.where(share > 0, share, 1.0) ** order[..., None], 0.0)
        inner = (r * power).sum(axis=-2)
        inner = xp.where(inner > 0, xp.where(inner > 0, inner, 1.0) ** (1.0 / order), 0.0)
        return (-1.0 if self.negative else 1.0) * top * inner

    def moved_in(self, term: Term, g: Arr) -> Arr:
        r, b = term.reference[..., None, :], xp.of(term.parameter).asarray(term.parameter)[..., None, None]
        seen = r > 0
        # Powers of numbers on the side of 1 where they cannot overflow: b < 0 for orders < 1.
        if self.negative:
            least = float(np.finfo(g.dtype).tiny) ** 0.5  # the ratio of the ends does not overflow
            y = xp.where(seen, xp.clip(-g, least, 1.0 / least), 1.0 / least)
            y = y / y.min(axis=-1, keepdims=True)
        else:
            g = xp.where(seen, g, 0.0)
            top = g.max(axis=-1, keepdims=True)
            y = xp.where(top > 0, xp.maximum(g, 0.0) / xp.where(top > 0, top, 1.0), 1.0)
        y = y * ((r * y**b).sum(axis=-1, keepdims=True)) ** (-1.0 / b)
        return xp.where(seen, -y if self.negative else y, 0.0)


@dataclass(frozen=True)
class Linear(AbstractRuleSet):
    """0 <= k <= cap, reference . k = 1: phi is the largest of w/reference, or sum cap max(w, 0) where there is a cap.

    Where all references are 0 there is no normalisation: rows that must not be positive. A solver has equations of its
    own for these sets: they have no boundary that bends.
    """

    smooth: ClassVar[bool] = False

    def boundary(self, term: Term, g: Arr, smoothing: ScalarLike) -> Boundary:
        raise NotImplementedError

    def gradient(self, term: Term, w: Arr) -> Arr:
        """A best rule about one output w (T,), or each of (Y, T)."""
        if term.cap is not None:
            return xp.where(w > 0, term.cap, 0.0)
        safe = xp.where(term.reference > 0, term.reference, 1.0)
        most = xp.where(term.reference > 0, w / safe, -xp.inf).argmax(axis=-1)[..., None]
        return xp.where(np.arange(w.shape[-1]) == most, 1.0 / safe, 0.0)

    def normalised(self, term: Term, g: Arr, level: Arr) -> Arr:
        raise NotImplementedError

    def merged(self, rows: Arr, reference: Arr, cap: Arr | None) -> tuple[Arr, Arr, Arr | None]:
        """Equal rows once, unless each has a cap of its own."""
        if cap is not None:
            return rows, reference, cap
        # Only the ratio to the reference counts, so rare symbols are compared by their own P(x|s).
        size = np.where(reference != 0, abs(reference), 1.0)[:, None]
        _, first = np.unique(classes(np.column_stack([rows / size, np.sign(reference)])), return_index=True)
        return rows[first], reference[first], None

    def softened(self, term: Term, w: Arr, temperature: ScalarLike) -> Arr:
        """A smooth function in place of phi of the rows w (T,) of one output, in JAX: the largest <k, w> plus the
        temperature times the entropy of the shares reference . k, of capped rows with caps times that of k/cap and
        1 - k/cap. It exceeds phi by at most the temperature times ln T, of capped rows times the sum of caps and ln 2.
        """
        if term.cap is not None:
            return temperature * term.cap @ jax.nn.softplus(w / temperature)
        return temperature * jax.nn.logsumexp(w / term.reference / temperature)

    def columns(self, term: Term, w: Arr) -> Arr:
        if term.cap is not None:
            return (term.cap[..., None] * xp.maximum(w, 0.0)).sum(axis=-2)
        return (w / term.reference[..., None]).max(axis=-2)

    def moved_in(self, term: Term, g: Arr) -> Arr:
        if term.cap is not None:
            return xp.clip(g, 0.0, term.cap[..., None, :])
        r = term.reference[..., None, :]
        g = xp.where(r > 0, xp.maximum(g, 0.0), 0.0)
        total, whole = (r * g).sum(axis=-1, keepdims=True), r.sum(axis=-1, keepdims=True)
        even = xp.where(r > 0, 1.0 / xp.where(whole > 0, whole, 1.0), 0.0)
        return xp.where(total > 0, g / xp.where(total > 0, total, 1.0), even)


def _violation(term: Term, w: Arr) -> Arr:
    """By how much no t has w <= t reference, 0 or less if one has: (Y,)."""
    r = term.reference
    if not term.normalised:
        return w.max(axis=1)
    lower = xp.where(r > 0, w / xp.where(r > 0, r, 1.0), -xp.inf).max(axis=1)  # t >= w/r
    upper = xp.where(r < 0, w / xp.where(r < 0, r, 1.0), xp.inf).min(axis=1)  # t <= w/r
    return lower - upper


ENTROPIC, LINEAR = Entropic(), Linear()


# -- rows that are equal -----------------------------------------------------------------------------


def classes(keys: Arr) -> np.ndarray:
    """Class numbers of rows that are equal to rounding, in order of first appearance."""
    first = np.sort(_rounded(keys[:, 0]))
    if (first[1:] != first[:-1]).all():  # mostly: then so do the rows
        return np.arange(len(keys))
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in _rounded(keys)])


def _rounded(numbers: Arr) -> np.ndarray:
    mantissa, exponent = np.frexp(numbers)
    return np.ascontiguousarray(np.ldexp(np.round(mantissa, _DECIMALS), exponent) + 0.0)


def _gather(numbers: np.ndarray) -> np.ndarray:
    """The matrix that adds up the rows of every class."""
    gather = np.zeros((numbers.max() + 1, len(numbers)))
    gather[numbers, np.arange(len(numbers))] = 1.0
    return gather
