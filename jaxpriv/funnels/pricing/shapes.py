"""The convex functions of the posterior of S whose mean is an average measure, as the search over boxes needs them.

A measure is outer( sum_y P(y) phi(r_y) + shift ), r_y the posterior of S after y, phi convex. Extended to all w >= 0
with degree 1, Phi(w) = |w| phi(w/|w|), phi has the tangent planes phi(r) >= G(z).r, G the gradient of Phi at z. At a
minimiser q of value m of phi(Tq) + lambda H(q) - nu.q every symbol of its support has

    lambda ln q_x = T_x.G(Tq) - nu_x - m.

    Entropy     phi = sum_s r_s ln r_s                     G_s = ln r_s
    Separable   phi = sum_s p_s f(u_s), u_s = r_s/p_s      G_s = f'(u_s) + sum_s p_s ( f(u_s) - u_s f'(u_s) )
    Norm        phi = +-N, N = ( sum_s p_s u_s^a )^{1/a}   G_s = +-u_s^{a-1} N^{1-a}      (minus for a < 1)

Of a divergence T_x.G = sum_s [ T_sx f'(u_s) + p_s ( f(u_s) - u_s f'(u_s) ) ], and the term of s rises in r_s up to
T_sx and falls from there, because its slope is f''(u_s) (T_sx - r_s)/p_s: bounds on every r_s bound it by its values at
the ends of the interval, and at T_sx.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from jaxpriv.funnels.pricing._base import xlogx
from jaxpriv.leakage.f_rules import AbstractCurve, FRules
from jaxpriv.leakage.rule_sets import Entropic, Power, Term

Two: TypeAlias = tuple[np.ndarray, np.ndarray]

# Ratios are taken at least at this: any point has a tangent plane, and the logarithm and all slopes are finite there.
_LEAST = 1e-12
_TINY = float(np.finfo(np.float64).tiny)
# Ends of intervals are moved outwards by this share: a slope at a kink may be that of either side.
_BEYOND = 1e-9
# Halvings of an interval of r.
_HALVED = 20


class AbstractShape(ABC):
    """phi of posteriors r (..., S)."""

    @abstractmethod
    def value(self, r: np.ndarray) -> np.ndarray:
        """phi(r), (...)."""

    @abstractmethod
    def gradient(self, r: np.ndarray) -> Two:
        """(G at `r` (N, S), what the numbers that it is a sum of are at most (N,))."""

    @abstractmethod
    def curvature(self, r: np.ndarray) -> np.ndarray:
        """(..., S): the Hessian of phi is at most the diagonal matrix of it."""

    @abstractmethod
    def bend(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """At least the curvature of every r between `low` and `high`, which are shaped alike."""

    @abstractmethod
    def slopes(self, symbols: np.ndarray, low: np.ndarray, high: np.ndarray) -> Two:
        """(least, most) (N, X): bounds on T_x.G(r) for T' = `symbols` (X, S) and r between `low` and `high` (N, S)."""

    @property
    @abstractmethod
    def least(self) -> float:
        """phi(r) is at least this for every r."""

    def ball(self, margin: np.ndarray, z: np.ndarray, low: np.ndarray, high: np.ndarray) -> Two:
        """(low, high) (N, S) of the r at which phi is above its tangent plane at `z` by no more than `margin` (N,)."""
        del margin, z
        return low, high


class Lagrangian(NamedTuple):
    """f(q) = phi(Tq) + lambda H(q) - nu.q of posteriors q of X."""

    shape: AbstractShape  # phi
    symbols: np.ndarray  # T' = P(S|X), shape (X, S), C-contiguous
    prices: np.ndarray  # nu, shape (X,)
    lam: float  # lambda >= 0

    def at(self, q: np.ndarray) -> np.ndarray:
        """f of the rows of q, (N,)."""
        return self.shape.value(q @ self.symbols) - self.lam * xlogx(q).sum(axis=1) - q @ self.prices


def _divergence(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a ln(a/b) + (1-a) ln((1-a)/(1-b))"""
    rest = 1.0 - a
    return xlogx(a) - a * np.log(b) + np.where(rest > 0, rest * np.log(np.where(rest > 0, rest, 1.0) / (1.0 - b)), 0.0)


def _confined(
    above: Callable[[np.ndarray], np.ndarray], margin: np.ndarray, z: np.ndarray, able: np.ndarray, ends: Two
) -> Two:
    """The parts of the intervals `ends` (N, S) in which `above`, convex with its minimum 0 at z, is at most `margin`.

    Only coordinates that are `able` are confined.
    """
    radius = np.broadcast_to((margin * (1 + 1e-9) + 1e-12)[:, None], z.shape)
    confined = []
    for end, side in zip(ends, (z > ends[0], z < ends[1]), strict=True):
        outer, inner = np.where(able, end, 0.0), z
        todo = able & side & (above(outer) > radius)
        for _ in range(_HALVED):
            middle = 0.5 * (outer + inner)
            beyond = above(middle) > radius
            outer, inner = np.where(beyond, middle, outer), np.where(beyond, inner, middle)
        confined.append(np.where(todo, outer, end))
    return confined[0], confined[1]


# Coordinates of z further than this from 1 are used by the divergence test: a test that is left out is valid, too.
DISTANT = 1e-2


@dataclass(frozen=True)
class Entropy(AbstractShape):
    """sum_s r_s ln r_s: mutual information. The kernel of `_runtime/native/boxes.c` is for this one."""

    private: int

    def value(self, r: np.ndarray) -> np.ndarray:
        return xlogx(r).sum(axis=-1)

    def gradient(self, r: np.ndarray) -> Two:
        logs = np.log(r) - np.log(r.sum(axis=-1, keepdims=True))
        return logs, np.abs(logs).max(axis=-1)

    def curvature(self, r: np.ndarray) -> np.ndarray:
        return np.where(r > 0, 1.0 / np.where(r > 0, r, 1.0), 0.0)

    def bend(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return 1.0 / low

    def slopes(self, symbols: np.ndarray, low: np.ndarray, high: np.ndarray) -> Two:
        unknown = ((symbols > 0)[None] & (low == 0)[:, None]).any(axis=2)
        least, most = (np.log(np.maximum(end, _TINY)) @ symbols.T for end in (low, high))
        return np.where(unknown, -np.inf, least), most

    @property
    def least(self) -> float:
        return -float(np.log(self.private))

    def ball(self, margin: np.ndarray, z: np.ndarray, low: np.ndarray, high: np.ndarray) -> Two:
        able = (z > 1e-11) & (z < 1 - DISTANT)
        z = np.where(able, z, 0.5)
        return _confined(lambda r: _divergence(r, z), margin, z, able, (low, high))


@dataclass(frozen=True, eq=False)
class Separable(AbstractShape):
    """sum_s p_s f(r_s/p_s), p = `reference` (S,), f = `curve` >= 0 with f(1) = 0."""

    curve: AbstractCurve
    reference: np.ndarray

    def _ratio(self, r: np.ndarray) -> np.ndarray:
        return np.maximum(r, _LEAST) / self.reference

    def _parts(self, u: np.ndarray) -> Two:
        """(f'(u), p ( f(u) - u f'(u) )), (..., S)."""
        slope = np.asarray(self.curve.slope(u))
        return slope, self.reference * (self.curve.value(u) - u * slope)

    def value(self, r: np.ndarray) -> np.ndarray:
        return (self.reference * self.curve.value(r / self.reference)).sum(axis=-1)

    def gradient(self, r: np.ndarray) -> Two:
        slope, rest = self._parts(self._ratio(r / r.sum(axis=-1, keepdims=True)))
        size = np.abs(slope).max(axis=-1) + np.abs(rest).sum(axis=-1)
        return slope + rest.sum(axis=-1, keepdims=True), size

    def curvature(self, r: np.ndarray) -> np.ndarray:
        return np.asarray(1.0 / (self.curve.conjugate(self.curve.slope(self._ratio(r)))[2] * self.reference))

    def bend(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        # f'' falls for every curve of the library; nothing is known of that of a user.
        known = (low > _LEAST) & (not self.curve.users)
        return np.where(known, self.curvature(np.where(known, low, self.reference)) * (1 + 1e-9), np.inf)

    def slopes(self, symbols: np.ndarray, low: np.ndarray, high: np.ndarray) -> Two:
        positive, ends = low > _LEAST, []
        for end in (np.where(positive, low, self.reference) * (1 - _BEYOND), high * (1 + _BEYOND)):
            slope, rest = self._parts(self._ratio(end))
            ends.append(symbols * slope[:, None] + rest[:, None])
        steepest = -np.inf if self.curve.users else self.curve.slopes[0]  # the slope at 0
        zero = symbols * steepest + self.reference * self.curve.value(np.zeros(1)) if np.isfinite(steepest) else -np.inf
        first = np.where(positive[:, None], ends[0], zero)
        top, falls = self.reference * self.curve.value(symbols / self.reference), symbols <= low[:, None]
        most = np.where(symbols >= high[:, None], ends[1], np.where(positive[:, None] & falls, first, top))
        return np.minimum(first, ends[1]).sum(axis=2), most.sum(axis=2)

    @property
    def least(self) -> float:
        return 0.0

    def ball(self, margin: np.ndarray, z: np.ndarray, low: np.ndarray, high: np.ndarray) -> Two:
        # The terms of the difference are >= 0, so each one is no larger than all.
        able = z > 1e-9
        z = np.where(able, z, self.reference)
        at, slope = self._ratio(z), self.curve.slope(self._ratio(z))
        base = self.curve.value(at)

        def above(r: np.ndarray) -> np.ndarray:
            u = self._ratio(r)
            return self.reference * (self.curve.value(u) - base - slope * (u - at))

        return _confined(above, margin, z, able, (low, high))


@dataclass(frozen=True, eq=False)
class Norm(AbstractShape):
    """+-( sum_s p_s (r_s/p_s)^a )^{1/a}, p = `reference` (S,), a = `order`; minus for a < 1."""

    order: float
    reference: np.ndarray

    @property
    def _sign(self) -> float:
        return 1.0 if self.order > 1 else -1.0

    def _size(self, r: np.ndarray) -> np.ndarray:
        """N, (...)."""
        u = r / self.reference
        top = np.maximum(u.max(axis=-1), _TINY)
        return top * (self.reference * (u / top[..., None]) ** self.order).sum(axis=-1) ** (1.0 / self.order)

    def _power(self, r: np.ndarray, size: np.ndarray, extra: float = 1.0) -> np.ndarray:
        """(u/N)^{a - extra}, (..., S), N = `size`; neither power alone, which may overflow."""
        with np.errstate(divide="ignore"):  # an infinite ratio has the power 0
            ratio = np.maximum(r, _LEAST) / self.reference / size
        if self.order > 1:  # N >= p_s^{1/a} u_s
            ratio = np.minimum(ratio, (1 + _BEYOND) * self.reference ** (-1.0 / self.order))
        return ratio ** (self.order - extra)

    def value(self, r: np.ndarray) -> np.ndarray:
        return self._sign * self._size(r)

    def gradient(self, r: np.ndarray) -> Two:
        r = np.maximum(r, _LEAST)
        slope = self._sign * self._power(r, self._size(r)[..., None])
        return slope, np.abs(slope).max(axis=-1)

    def curvature(self, r: np.ndarray) -> np.ndarray:
        r = np.maximum(r, _LEAST)
        size = self._size(r)[..., None]
        return abs(self.order - 1.0) * self._power(r, size, 2.0) / (size * self.reference)

    def _sizes(self, low: np.ndarray, high: np.ndarray) -> Two:
        """(N least, N most) (..., 1) of r with sum 1 between `low` and `high`."""
        plain = float(self.reference.sum() ** (1.0 / self.order - 1.0))  # of r proportional to p
        least, most = self._size(low), self._size(high)
        least, most = (np.maximum(least, plain), most) if self.order > 1 else (least, np.minimum(most, plain))
        return least[..., None] * (1 - _BEYOND), most[..., None] * (1 + _BEYOND)

    def bend(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        sizes = self._sizes(low, high)
        size = sizes[0 if self.order > 1 else 1]
        end = low if self.order < 2 else high
        curvature = abs(self.order - 1.0) * self._power(end, size, 2.0) / (size * self.reference)
        return np.where((end > _LEAST) | (self.order >= 2), curvature, np.inf)

    def slopes(self, symbols: np.ndarray, low: np.ndarray, high: np.ndarray) -> Two:
        less, more = self._sizes(low, high)
        if self.order > 1:
            small = (low / self.reference / more) ** (self.order - 1.0)
            return small @ symbols.T, self._power(high, less) @ symbols.T
        unknown = ((symbols > 0)[None] & (low <= _LEAST)[:, None]).any(axis=2)
        least = -self._power(low, more) @ symbols.T
        most = -self._power(high, less) @ symbols.T
        return np.where(unknown, -np.inf, least), most

    @property
    def least(self) -> float:
        return 0.0 if self.order > 1 else -float(self.reference.sum() ** (1.0 / self.order - 1.0)) * (1 + _BEYOND)


def shape_of(term: Term) -> AbstractShape | None:
    """The shape of a smooth term whose rows add up to the mass of the output, of a relative entropy without its
    reference; None of other sets.
    """
    if isinstance(term.rule_set, Entropic):
        return Entropy(len(term.reference))
    if isinstance(term.rule_set, FRules):
        return Separable(term.rule_set.curve, np.asarray(term.reference, dtype=np.float64)[:-1])
    if isinstance(term.rule_set, Power):
        order = float(term.parameter) / (float(term.parameter) - 1.0)
        return Norm(order, np.asarray(term.reference, dtype=np.float64))
    return None
