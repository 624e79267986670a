"""Prices of the bottleneck from its self-consistent equations.

A best bottleneck uses few atoms (at most |S| + 1), so the linear program leaves the prices of |X| rows nearly free
and plain column generation crawls. At a stationary point they are not free. For outputs of mass m_k and posterior r_k
of S

    Z_x = sum_k m_k E_x(r_k),     E_x(r) = exp( -D(T_x || r)/lambda ),     P(k|x) = m_k E_x(r_k)/Z_x

(Tishby, Pereira and Bialek 1999, eq 28), and stationarity of every atom gives the one price vector

    nu_x = D(T_x || P_S) + lambda ln Z_x       of a - lambda b.

Any (m, r) gives prices, and any prices a bound; at a global optimum the bound is met.

With the best P(k|x) in it, I(S;Y) - lambda I(X;Y) = I(S;X) + lambda sum_x p_x ln Z_x at a stationary point, and

    F(mu) = sum_x p_x ln of the integral of E_x(r) mu(dr)

is concave in the measure mu over distributions r: for fixed lambda the bottleneck is a convex program, that of the
likeliest mixing measure (Lindsay 1983). mu is optimal where g(r) = sum_x p_x E_x(r)/Z_x <= 1 for all r, and the
prices of any mu are above the line by at most lambda ln max g. For binary S, r is one number, and that program is
solved: maxima of g join the support, Newton's method with a search along its step finds the masses (Wang 2007).
"""

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv.funnels.atoms.parts import Part
from jaxpriv.funnels.atoms.stationary import EMPTY
from jaxpriv.funnels.pricing._base import softmax
from jaxpriv.funnels.pricing.binary_bottleneck import angles

# Iterations from one start, times the patience.
_MASS_STEPS = 400
# They stop earlier where no mass moves by more than this: 900 units of rounding, 1.1e-16, of a mass of one.
_SETTLED = 1e-13
# Stands for 0 in a logarithm: what it is the weight of is 0 in float64 all the same.
_TINY = 1e-300
# Steps of the convex program at most, and of the points and masses together after each.
_NEWTON, _TOGETHER = 40, 4
# Steps towards a maximum of g, halvings of a Newton step of the masses, and the share of its predicted gain that is
# enough.
_TO_MAXIMUM, _HALVINGS, _PROMISED = 8, 12, 0.1
# Symbols with Z_x below this share of p_x get so much of the measure to begin with.
_FAR = 0.01
# Points nearer than this share of the width of E_x are one; up to the other they are where that is better.
_ONE, _PAIR = 1e-5, 0.7


def convex(part: Part) -> bool:
    """Whether the prices of a block come from a convex program that is solved."""
    return len(part.block.prior) <= 2


def bottleneck_prices(
    part: Part,
    atoms: np.ndarray,
    weights: np.ndarray,
    lam: float,
    close: float,
    patience: int = 1,
    clock: Clock = ENDLESS,
) -> tuple[np.ndarray, np.ndarray]:
    """(prices (X_a,) of a - lambda b, better atoms (K', X_a)) of a block from `atoms` (K, X_a) with `weights` (K,).

    By iteration of the self-consistent equations. With up to two private symbols it begins at the solution of the
    convex program, which ends where its prices are `close` nats above the line, and has nothing to add to it.
    """
    block, conditional = part.block, part.block.conditional
    if convex(part):
        mass, seen = _likeliest(part, atoms, weights, lam, close, clock)
    else:
        mass, seen = weights / weights.sum(), atoms @ conditional.T
    negative_entropy = (conditional * np.log(np.maximum(conditional, _TINY))).sum(axis=0)  # -H(T_x)
    apart = negative_entropy - np.log(block.prior) @ conditional  # D(T_x || P_S)
    steps = 0 if convex(part) else _MASS_STEPS * patience
    while True:
        cross = np.log(np.maximum(seen, _TINY)) @ conditional  # (K, X): sum_s T_sx ln r_ks
        logs, share = softmax((np.log(np.maximum(mass, _TINY))[:, None] - (negative_entropy - cross) / lam).T)
        joint = share.T * block.source
        following = joint.sum(axis=1)
        used = following > EMPTY
        moved = float(np.abs(following - mass).max())
        joint, mass = joint[used], following[used]
        if steps == 0 or moved <= _SETTLED or clock.expired():
            return apart + lam * logs, joint / mass[:, None]
        seen, steps = joint @ conditional.T / mass[:, None], steps - 1


def _likeliest(
    part: Part, atoms: np.ndarray, weights: np.ndarray, lam: float, close: float, clock: Clock
) -> tuple[np.ndarray, np.ndarray]:
    """(masses (K,), posteriors r (K, S)) of the likeliest mixing measure of a block of one or two private symbols."""
    block = part.block
    if len(block.prior) == 1 or len(block.source) == 1:
        return np.ones(1), block.prior[None]
    line = _BinaryMixture(block.conditional, block.source, lam)
    shown = np.maximum(atoms @ block.conditional.T, _TINY)
    odds, mass = line.begun(np.log(shown[:, 1]) - np.log(shown[:, 0]), weights / weights.sum())
    value = line.value(odds, mass)
    for _ in range(_NEWTON):
        fresh, excess = line.maxima(odds, mass)
        if lam * excess <= close or clock.expired():
            break
        before = value
        odds, mass, value = line.stepped(np.concatenate([odds, fresh]), np.append(mass, np.zeros(len(fresh))), value)
        if not value > before:
            break
        # Two points about one maximum are worse than their mean, unless they belong to two maxima.
        for near in (_PAIR, _ONE):
            fewer = line.gathered(odds, mass, near)
            reached = line.value(*fewer)
            if reached >= value or near == _ONE:
                break
        odds, mass, value = line.moved(*fewer, reached)
    return mass, np.exp(-np.logaddexp(0.0, np.stack([odds, -odds], axis=1)))


class _BinaryMixture:
    """F and g of two private symbols over the log-odds s of r: -D(T_x || r) = t_x s - ln(1 + e^s) + h(t_x)."""

    def __init__(self, conditional: np.ndarray, source: np.ndarray, lam: float):
        self._one, self._source, self._lam = conditional[1], source, lam
        logs = np.log(np.maximum(conditional, _TINY))
        self._own = logs[1] - logs[0]
        self._known = (conditional * logs).sum(axis=0)
        self._points = angles(conditional[1], conditional[0], lam)
        self._table = self._exponent(self._points)

    def _exponent(self, odds: np.ndarray) -> np.ndarray:
        """ln E, shape (X, K)."""
        return (self._one[:, None] * odds - np.logaddexp(0.0, odds) - self._known[:, None]) / self._lam

    def _log_mean(self, odds: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """ln Z, shape (X,)."""
        return softmax(self._exponent(odds) + np.log(np.maximum(mass, _TINY)))[0]

    def value(self, odds: np.ndarray, mass: np.ndarray) -> float:
        """F."""
        return float(self._source @ self._log_mean(odds, mass))

    def begun(self, odds: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The measure with some mass at symbols far from it: Z_x >= p_x at the optimum, since g <= 1 at r = T_x."""
        far = self._log_mean(odds, mass) < np.log(_FAR * self._source)
        extra = _FAR * self._source[far]
        mass = np.concatenate([(1.0 - extra.sum()) * mass, extra])
        return self.gathered(np.concatenate([odds, self._own[far]]), mass, _ONE)

    def gathered(self, odds: np.ndarray, mass: np.ndarray, near: float) -> tuple[np.ndarray, np.ndarray]:
        """The measure without empty points, and with points nearer than `near` widths of E_x in one."""
        used = mass > EMPTY
        odds = np.clip(odds[used], self._points[0], self._points[-1])
        order = np.argsort(odds, kind="stable")
        odds, mass = odds[order], mass[used][order]
        apart = np.diff(2.0 * np.arctan(np.exp(0.5 * odds)))
        group = np.append(0, np.cumsum(apart > near * np.sqrt(self._lam)))
        total = np.bincount(group, mass)
        return np.bincount(group, mass * odds) / total, total / total.sum()

    def maxima(self, odds: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, float]:
        """(local maxima of g where it is above 1 (n,), the greatest ln g)."""
        ratio, points = np.log(self._source) - self._log_mean(odds, mass), self._points
        height = softmax(ratio + self._table.T)[0]
        padded = np.concatenate([[-np.inf], height, [-np.inf]])
        peaks = np.flatnonzero((height >= padded[:-2]) & (height >= padded[2:]))
        low, high = points[np.maximum(peaks - 1, 0)], points[np.minimum(peaks + 1, len(points) - 1)]
        at = points[peaks]
        for _ in range(_TO_MAXIMUM):
            weights = softmax(ratio + self._exponent(at).T)[1]
            mean = weights @ self._one
            r, complement = np.exp(-np.logaddexp(0.0, -at)), np.exp(-np.logaddexp(0.0, at))
            slope = mean - r
            curve = ((self._one - mean[:, None]) ** 2 * weights).sum(axis=1) / self._lam - r * complement
            low, high = np.where(slope > 0, at, low), np.where(slope < 0, at, high)
            newton = at - slope / np.where(curve < 0, curve, -1.0)
            inside = (curve < 0) & (newton >= low) & (newton <= high)
            at = np.where(inside, newton, 0.5 * (low + high))
        height = softmax(ratio + self._exponent(at).T)[0]
        return at[height > 0], float(height.max())

    def stepped(self, odds: np.ndarray, mass: np.ndarray, value: float) -> tuple[np.ndarray, np.ndarray, float]:
        """(log-odds, masses, F) after a step of Newton's method over the masses of given points, all >= 0.

        With A = E/Z the quadratic model of -F at `mass` is sum_x p_x ( (A m)_x - 2 )^2/2 and a constant; over m >= 0 of
        sum 1 it is a problem of nonnegative least squares (Dax 1990).
        """
        from scipy.optimize import nnls

        ratio = np.exp(self._exponent(odds) - self._log_mean(odds, mass)[:, None])
        heft = np.sqrt(self._source)[:, None]
        system = np.vstack([heft * (ratio - 2.0), np.ones(len(mass))])
        try:
            wanted = nnls(system, np.append(np.zeros(len(ratio)), 1.0))[0]
        except RuntimeError:  # out of iterations: nothing is gained
            return odds, mass, value
        move = wanted / wanted.sum() - mass
        predicted = max(float(self._source @ (ratio @ move)), 0.0)
        for halved in range(_HALVINGS):
            share = 0.5**halved
            trial = mass + share * move
            reached = self.value(odds, trial)
            if reached >= value + _PROMISED * share * predicted:
                return odds, trial, reached
        return odds, mass, value

    def moved(self, odds: np.ndarray, mass: np.ndarray, value: float) -> tuple[np.ndarray, np.ndarray, float]:
        """(log-odds, masses, F) after steps of Newton's method over both, as long as F rises."""
        count = len(mass)
        for _ in range(_TOGETHER):
            r, complement = np.exp(-np.logaddexp(0.0, -odds)), np.exp(-np.logaddexp(0.0, odds))
            ratio = np.exp(self._exponent(odds) - self._log_mean(odds, mass)[:, None])
            tilt = (self._one[:, None] - r) / self._lam
            weighted = self._source[:, None] * ratio
            each = (weighted * tilt).sum(axis=0)
            change = np.hstack([ratio, ratio * tilt * mass])
            matrix = -(change * self._source[:, None]).T @ change
            cross = np.arange(count), count + np.arange(count)
            matrix[cross] += each
            matrix[cross[::-1]] += each
            matrix[cross[1], cross[1]] += mass * (weighted * (tilt**2 - r * complement / self._lam)).sum(axis=0)
            slope = np.append(weighted.sum(axis=0), mass * each)
            rim = np.append(np.ones(count), np.zeros(count))
            system = np.block([[matrix, rim[:, None]], [rim, np.zeros((1, 1))]])
            try:
                step = np.linalg.solve(system, np.append(-slope, 0.0))[:-1]
            except np.linalg.LinAlgError:  # a point without effect
                break
            moved = np.clip(odds + step[count:], self._points[0], self._points[-1]), mass + step[:count]
            if not moved[1].min() > 0:
                break
            reached = self.value(*moved)
            if not reached > value:
                break
            (odds, mass), value = moved, reached
        return odds, mass, value
