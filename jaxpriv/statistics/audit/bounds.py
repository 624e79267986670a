"""Upper bounds from intervals of P(y|s), P(y) and P(s): the pieces that every leakage measure is bounded by.

All hold on ONE event, that `Population` is right: with its confidence for all measures together and, unless the
intervals were of the held-out kind, for all mechanisms. Without any counts the intervals are what the rows of
the mechanism allow, and the same formulas give caps that need no data.

Write r = P(y|s), q = P(y), p = P(s), each in its interval, q >= p r.

* Averages over s, sum_s p_s B_s with B_s bounded as below: the largest value over the set of P_S.
* Convex functions of one row, sum_y f_y(r_y) over { low <= r <= high, sum r = 1 }: each f_y lies below its chord,
  and a linear function over such a box is maximal where the free mass goes to the steepest chords. This gives
  sup_r D(r||Q) and, for Sibson's order, sup_r sum_y r^a Q^(1-a) (inf for a < 1) for ANY output distribution Q:

      I(S;Y) <= sum_s p_s D(P(.|s)||Q),      I_a^Sibson <= 1/(a-1) ln sum_s p_s sum_y P(y|s)^a Q(y)^(1-a),

  so bounds are of second order in the widths where little leaks. Replacing P(.|s) by the rows of W (both sides are
  convex or concave in it) gives a linear functional of P_X, and without data the capacity of W.
* f-divergences, sum_s p_s sum_y q f(r/q) with f >= 0: q f(r/q) is jointly convex, hence maximal at a vertex of the
  polygon { r, q in their intervals, q >= p_low r }.
* ln sum_y max_s high(s,y) for maximal leakage, or the fitted values and a total variation for each s; it bounds
  Sibson's and Arimoto's information of every order and g-leakage. Also chi-squared <= e^L - 1 and TV <= e^L - 1, as
  sum_sy P(s|y) P(y|s) and sum_y max_s P(y|s) are at most e^L.
* The gain of any concave uncertainty U >= 0 (entropy, 1 - max p, 1 - |p|^2) in the worst outcome: posteriors
  q_s >= e^-m p_s, m the min-lift, are mixtures e^-m p + (1 - e^-m) u, so U(p) - U(q) <= (1 - e^-m) U(p).
* Arimoto's order a is Sibson's for the prior proportional to p^a, whose entries have intervals as well.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.special import rel_entr, xlogy

from jaxpriv._runtime.types import Arr
from jaxpriv.leakage.population import Routes, least
from jaxpriv.statistics.audit._information import capacity_output, entropy, entropy_change, negative_entropy
from jaxpriv.statistics.confidence import AbstractConfidenceSet, Box, Population, seen_through
from jaxpriv.statistics.confidence.sets import ROUND, Interval, chord_sum

# Powers beyond this are left out; quotients beyond it had a zero below.
_HUGE = 1e250


class SampleUpperBounds:
    """What R populations and M mechanisms allow, as pieces that the bounds on measures share (`routes`)."""

    def __init__(self, population: Population, mechanisms: np.ndarray):
        self.population, self.outputs, self.mechanisms = population, seen_through(population, mechanisms), mechanisms
        *self.batch, self.private, self.released = self.outputs.given_low.shape

    # Shapes: (R, M) unless stated.

    @cached_property
    def joint(self) -> np.ndarray:
        """The fitted P(s, y), (R, M, S, Y)."""
        return np.einsum("rsx,mxy->rmsy", self.population.joint, self.mechanisms)

    @cached_property
    def prior(self) -> np.ndarray:
        """The fitted P_S, (R, S)."""
        return self.population.joint.sum(axis=2)

    @cached_property
    def occurring(self) -> np.ndarray:
        """Outputs that a mechanism can release at all, (1, M, Y)."""
        return (self.outputs.most > 0)[None]

    def expected(self, values: np.ndarray, prior: AbstractConfidenceSet | None = None) -> np.ndarray:
        """The largest sum_s p_s values_s over the set of P_S (or another one) for values (R, ..., S), inf included."""
        chosen = self.outputs.private if prior is None else prior
        infinite = np.isinf(values)
        finite = np.where(infinite, 0.0, values).reshape(len(values), -1, self.private)
        return np.where(infinite.any(axis=-1), np.inf, chosen.upper(finite).reshape(values.shape[:-1]))

    @cached_property
    def maximal_leakage(self) -> np.ndarray:
        total = np.minimum(self.outputs.given_high.max(axis=2).sum(axis=-1), self._by_variation())
        total = np.minimum(total, self.outputs.most.sum(axis=-1)) * (1 + ROUND)
        return np.log(np.clip(total, 1.0, min(self.private, self.released)))

    def _by_variation(self) -> np.ndarray:
        """sum_y max_s P(y|s), (R, M), where the outputs of many events together cost no more than one.

        Those y whose largest P(y|s) is that of s are an event of P(.|s): its probability exceeds the fitted one by
        at most v_s, the total variation of P(x|s) times the contraction of W, which is at most
        1 - sum_y min_x W[x, y]. For the s with the smallest v_s, any number of them, that is used; for the others
        the intervals.
        """
        distance = self.population.given.variation.reshape(-1, self.private)
        contraction = 1 - self.outputs.least.sum(axis=-1)  # (M,)
        order = np.argsort(distance, axis=1)
        cost = np.cumsum(np.take_along_axis(distance, order, axis=1), axis=1)
        fitted = np.einsum("rsx,mxy->rmsy", self.population.conditional, self.mechanisms)
        fitted, high = (
            np.take_along_axis(part, order[:, None, :, None], axis=2) for part in (fitted, self.outputs.given_high)
        )
        first = np.maximum.accumulate(fitted, axis=2)
        rest = np.maximum.accumulate(high[:, :, ::-1], axis=2)[:, :, ::-1]
        rest = np.concatenate([rest[:, :, 1:], np.zeros_like(rest[:, :, :1])], axis=2)
        return (np.maximum(first, rest).sum(axis=-1) + contraction[None, :, None] * cost[:, None, :]).min(axis=-1)

    @cached_property
    def lift_interval(self) -> Interval:
        """P(y|s)/P(y), least and most, (R, M, S, Y); outputs that never occur have 1."""
        outputs = self.outputs
        floor = np.maximum(outputs.low[:, :, None, :], outputs.private_low[:, None, :, None] * outputs.given_high)
        with np.errstate(divide="ignore", invalid="ignore"):
            most = np.where(outputs.given_high > 0, outputs.given_high / floor, 0.0)
            least = np.where(outputs.given_low > 0, outputs.given_low / outputs.high[:, :, None, :], 0.0)
        occurring = self.occurring[:, :, None, :]
        return np.where(occurring, least, 1.0), np.where(occurring, most, 1.0)

    @cached_property
    def min_lift(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.maximum(-np.log(self.lift_interval[0]).min(axis=(2, 3)), 0.0)

    @cached_property
    def max_lift(self) -> np.ndarray:
        return np.log(np.maximum(self.lift_interval[1].max(axis=(2, 3)), 1.0))

    @cached_property
    def likeliest(self) -> Interval:
        """max_s p_s, least and most, (R, 1)."""
        least = np.maximum(self.outputs.private_low.max(axis=1), 1 / self.private)
        return least[:, None], self.outputs.private_high.max(axis=1)[:, None]

    @cached_property
    def private_entropy(self) -> np.ndarray:
        """The largest H(S), (R, 1)."""
        fitted = entropy(self.prior)
        return np.minimum(
            fitted + entropy_change(self.population.private_distance, self.private), np.log(self.private)
        )[:, None]

    @cached_property
    def posterior(self) -> Interval:
        """P(s|y), least and most, (R, M, Y, S)."""
        outputs = self.outputs
        low = outputs.private_low[:, None, :, None] * outputs.given_low
        high = outputs.private_high[:, None, :, None] * outputs.given_high
        least_lift, most_lift = self.lift_interval
        least, most = _shares(low, high, 2)
        most = np.minimum(np.minimum(most, outputs.private_high[:, None, :, None] * most_lift) + ROUND, 1.0)
        least = np.maximum(least, outputs.private_low[:, None, :, None] * least_lift) - ROUND
        return np.moveaxis(np.maximum(least, 0.0), 2, 3), np.moveaxis(most, 2, 3)

    @cached_property
    def centres(self) -> list[np.ndarray]:
        """Output distributions Q to measure from, (R, M, Y), positive where an output can occur."""
        outputs = self.outputs
        middle = _normalised(outputs.low + outputs.high)
        wide = _normalised(outputs.given_high.max(axis=2))
        hardest = np.broadcast_to(capacity_output(self.mechanisms)[None], middle.shape)
        return [_normalised(centre + 1e-9 * middle) for centre in (middle, wide, hardest)]

    def own_centre(self, order: float, prior: np.ndarray) -> np.ndarray:
        """Sibson's own Q, proportional to (sum_s p_s P(y|s)^a)^(1/a), at a prior (R, S): (R, M, Y)."""
        middle = 0.5 * (self.outputs.given_low + self.outputs.given_high)
        largest = np.maximum(middle.max(axis=2, keepdims=True), np.finfo(float).tiny)
        mean = (prior[:, None, :, None] * (middle / largest) ** order).sum(axis=2)
        return _normalised(largest[:, :, 0] * mean ** (1 / order) + 1e-9 * self.centres[0])

    def sibson(self, order: float, prior: AbstractConfidenceSet, fitted: np.ndarray, *, own_prior: bool) -> Routes:
        """Sibson's information of `order` for the priors in a set around `fitted` (R, S).

        `own_prior`: the set is about the prior of the population itself, not about another one.
        """
        routes = {"maximal leakage": self.maximal_leakage}
        if np.isinf(order):
            return routes
        outputs, rows = self.outputs, self.mechanisms[None]
        low, high = outputs.given_low, outputs.given_high
        best, linear = np.full(self.batch, np.inf), np.full(self.batch, np.inf)
        for centre in (self.own_centre(order, fitted), *self.centres):
            function = _order_term(order, centre[:, :, None, :])
            at_rows = function(rows)
            if not np.abs(at_rows).max() < _HUGE:  # P(y|s) <= max_x W(y|x)
                continue  # a power that overflows bounds nothing
            value = self.expected(chord_sum(low, high, function), prior)
            best = np.minimum(best, _information_of_order(order, value))
            # (R, M, X), rounded outwards like `chord_sum`: where nothing leaks the sum is all rounding, of either sign,
            # and its square root bounds the total variation.
            of_rows = at_rows.sum(axis=-1) + ROUND * (1 + np.abs(at_rows).max(axis=-1))
            value = self.population.useful.upper(of_rows) if own_prior else self.population.useful.top(of_rows)
            linear = np.minimum(linear, _information_of_order(order, value))
        routes |= {"divergence from a centre": best, "leakage of X": linear}
        if order > 1:
            total = self.expected_power(order, prior)
            routes["largest rows"] = order / (order - 1) * np.log(np.maximum(total, 1.0))
        if order < 1:
            information = self.sibson(1.0, prior, fitted, own_prior=own_prior)
            routes["mutual information"] = np.minimum.reduce(list(information.values()))
        return routes

    def expected_power(self, order: float, prior: AbstractConfidenceSet) -> np.ndarray:
        """sum_y ( sup_p sum_s p_s high^a )^(1/a)."""
        high = np.moveaxis(self.outputs.given_high, 2, 3)  # (R, M, Y, S)
        largest = np.maximum(high.max(axis=-1), np.finfo(float).tiny)  # taken out: powers of it may underflow
        sums = self.expected((high / largest[..., None]) ** order, prior)
        return (largest * np.maximum(sums, 0.0) ** (1 / order)).sum(axis=-1) * (1 + ROUND)

    def escort(self, order: float) -> Box:
        """The set of priors proportional to p^a."""
        largest = self.outputs.private_high.max(axis=1, keepdims=True)
        low, high = (self.outputs.private_low / largest) ** order, (self.outputs.private_high / largest) ** order
        least, most = _shares(low, high, 1)
        possible = np.ones(low.shape, bool)
        return Box(np.maximum(least - ROUND, 0.0), np.minimum(most + ROUND, 1.0), possible)

    @cached_property
    def information(self) -> Routes:
        """Routes to mutual information."""
        return {
            **self.sibson(1.0, self.outputs.private, self.prior, own_prior=True),
            "entropy": np.broadcast_to(self.private_entropy, self.batch),
        }

    @cached_property
    def mutual_information(self) -> np.ndarray:
        return least(self.information)

    @cached_property
    def correct_guess(self) -> Routes:
        outputs = self.outputs
        fitted = self.joint.max(axis=2).sum(axis=-1)
        cells = (outputs.private_high[:, None, :, None] * outputs.given_high).max(axis=2).sum(axis=-1)
        routes = {
            "total variation": fitted + self.population.distance[:, None] + ROUND,
            "largest rows": cells * (1 + ROUND),
            "maximal leakage": self.likeliest[1] * np.exp(self.maximal_leakage),
        }
        return {name: np.minimum(value, 1.0) for name, value in routes.items()}

    @cached_property
    def total_variation(self) -> Routes:
        return {
            "vertices": self.f_information(lambda r, q: 0.5 * np.abs(r - q)),
            "maximal leakage": np.expm1(self.maximal_leakage),
            "mutual information": np.sqrt(0.5 * self.mutual_information),
            "range": np.full(self.batch, 1 - 1 / min(self.private, self.released)),
        }

    def f_information(self, perspective: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """sum_s p_s sum_y of the largest `perspective(r, q)` = q f(r/q) at the vertices."""
        return self.expected(self.vertices(perspective).sum(axis=-1))

    def vertices(self, perspective: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        outputs = self.outputs
        r_low, r_high = outputs.given_low, outputs.given_high
        q_low = np.broadcast_to(outputs.low[:, :, None, :], r_low.shape)
        q_high = np.broadcast_to(outputs.high[:, :, None, :], r_low.shape)
        share = outputs.private_low[:, None, :, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            corner = np.clip(np.where(share > 0, q_low / share, np.inf), r_low, r_high)
        points = [
            (r_low, q_high),
            (r_high, q_high),
            *((r, np.maximum(q_low, share * r)) for r in (r_low, corner, r_high)),
        ]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            worst = np.maximum.reduce([perspective(r, np.maximum(q, np.finfo(float).tiny)) for r, q in points])
        worst = np.where(worst > _HUGE, np.inf, worst)
        return np.where(self.occurring[:, :, None, :], worst, 0.0)

    @cached_property
    def chi_squared(self) -> Routes:
        return {
            "vertices": self.f_information(lambda r, q: (r - q) ** 2 / q),
            "maximal leakage": np.expm1(self.maximal_leakage),
        }

    @cached_property
    def kept_uncertainty(self) -> np.ndarray:
        """e^-m, m the min-lift: an outcome leaves at least this share of any concave uncertainty."""
        return np.exp(-self.min_lift)

    # What measures are bounded by: see `leakage.population`.

    def sibson_of(self, order: float) -> Routes:
        if order == 1:
            return self.information
        return self.sibson(order, self.outputs.private, self.prior, own_prior=True)

    def arimoto(self, order: float) -> Routes:
        """Sibson's information of that order for the priors proportional to p^a."""
        if order == 1:
            return self.information
        if np.isinf(order):
            return self.min_entropy
        powers = (self.prior / self.prior.max(axis=1, keepdims=True)) ** order
        return self.sibson(order, self.escort(order), powers / powers.sum(axis=-1, keepdims=True), own_prior=False)

    def capacity(self, order: float) -> Routes:
        """Sibson's information of that order for any prior: the set of all of them, around the uniform one."""
        low = np.zeros_like(self.outputs.private_low)
        every = Box(low, np.ones_like(low), np.ones(low.shape, bool))
        return self.sibson(order, every, np.full(low.shape, 1 / self.private), own_prior=False)

    @cached_property
    def min_entropy(self) -> Routes:
        return {
            "correct guess": np.log(least(self.correct_guess) / self.likeliest[0]),
            "maximal leakage": self.maximal_leakage,
        }

    def ldp(self, neighbours: Arr | None) -> np.ndarray:
        """max over y and pairs s != s' of ln( high(s,y)/low(s',y) )."""
        low, high = self.outputs.given_low, self.outputs.given_high
        worst = np.ones((*self.batch, self.released))
        asked = np.full((self.private, self.private), True) if neighbours is None else np.asarray(neighbours)
        asked = asked & ~np.eye(self.private, dtype=bool)
        for s in np.flatnonzero(asked.any(axis=1)):
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = high[:, :, s] / low[:, :, asked[s]].min(axis=2)
            worst = np.maximum(worst, np.where(high[:, :, s] > 0, ratio, 0.0))
        return np.log(np.where(self.occurring, worst, 1.0).max(axis=-1))

    @cached_property
    def posterior_entropy(self) -> Routes:
        largest = chord_sum(*self.posterior, negative_entropy)
        left = np.maximum(np.where(self.occurring, -largest, np.inf).min(axis=-1), 0.0)
        return {
            "posterior entropy": self.private_entropy - left,
            "min-lift": (1 - self.kept_uncertainty) * self.private_entropy,
        }

    @cached_property
    def relative_entropy(self) -> Routes:
        # p (t ln t - t + 1) for the lift t: convex in t, so maximal at an end of its interval.
        terms = np.maximum(*(xlogy(t, t / np.e) + 1 for t in self.lift_interval))
        by_output = self.expected(np.moveaxis(terms, 2, 3))  # (R, M, Y)
        low, high = self.posterior
        prior = self.outputs.private_low[:, None, None, :]
        cross = -xlogy(high, np.maximum(prior, 1e-300)).sum(axis=-1)
        negative = chord_sum(low, high, negative_entropy)
        by_posterior = np.where(((high > 0) & (prior <= 0)).any(axis=-1), np.inf, cross + negative)
        return {
            "lift of every symbol": np.where(self.occurring, by_output, 0.0).max(axis=-1),
            "posterior entropy": np.where(self.occurring, by_posterior, 0.0).max(axis=-1),
            "max-lift": self.max_lift,
        }

    @cached_property
    def guess_gain(self) -> tuple[Routes, Routes]:
        likeliest_low, likeliest_high = self.likeliest
        by_min_lift = (1 - self.kept_uncertainty) * (1 - likeliest_low)
        largest = np.where(self.occurring, self.posterior[1].max(axis=-1), 0.0).max(axis=-1)
        average = {
            "correct guess": least(self.correct_guess) - likeliest_low,
            "maximal leakage": likeliest_high * np.expm1(self.maximal_leakage),
            "total variation": least(self.total_variation),
            "min-lift": by_min_lift,
        }
        worst = {
            "posterior": largest - likeliest_low,
            "max-lift": 1 - np.exp(-self.max_lift),  # P(s|y) - p_s = P(s|y)(1 - 1/lift)
            "min-lift": by_min_lift,
        }
        return average, worst

    @cached_property
    def quadratic_gain(self) -> tuple[Routes, Routes]:
        uncertainty = self.kept_uncertainty
        # sum_y q |P(.|y) - p|^2 = sum_s p_s^2 sum_y (r - q)^2/q.
        rows = self.vertices(lambda r, q: (r - q) ** 2 / q).sum(axis=-1)
        most = self.outputs.private_high[:, None, :]
        average = {
            "vertices": self.expected(np.where(most > 0, most * rows, 0.0)),
            "chi-squared": self.likeliest[1] * least(self.chi_squared),
            "min-lift": (1 - uncertainty) * (1 - 1 / self.private),
        }
        squares = np.where(self.occurring, chord_sum(*self.posterior, np.square), 0.0).max(axis=-1)
        # |p| >= |p^| - |p - p^|, and the 2-norm of a vector of total zero is at most its 1-norm over sqrt 2.
        fitted = np.linalg.norm(self.prior, axis=1)
        norm = np.maximum(fitted - np.sqrt(2) * self.population.private_distance, np.sqrt(1 / self.private))
        before = norm[:, None] ** 2
        worst = {"posterior": np.minimum(squares, 1.0) - before, "min-lift": (1 - uncertainty) * (1 - before)}
        return average, worst


def _normalised(values: np.ndarray) -> np.ndarray:
    return values / values.sum(axis=-1, keepdims=True)


def _shares(low: np.ndarray, high: np.ndarray, axis: int) -> Interval:
    """The least and the largest share of each entry in the sum along an axis, for entries in [low, high]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.where(high > 0, high / (high + others(low, axis)), 0.0)
        return np.where(low > 0, low / (low + others(high, axis)), 0.0), most


def others(values: np.ndarray, axis: int) -> np.ndarray:
    """The sum of all other entries along an axis; the total less the entry would lose small ones beside a large one."""
    values = np.moveaxis(values, axis, -1)
    zero = np.zeros_like(values[..., :1])
    before = np.concatenate([zero, np.cumsum(values[..., :-1], axis=-1)], axis=-1)
    after = np.concatenate([np.cumsum(values[..., :0:-1], axis=-1)[..., ::-1], zero], axis=-1)
    return np.moveaxis(before + after, -1, axis)


def _order_term(order: float, centre: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The convex function of one entry: r ln(r/Q) (order 1), r^a Q^(1-a), or minus it for a < 1."""
    positive = np.where(centre > 0, centre, 1.0)  # entries with Q = 0 never occur: r = 0

    def term(r: np.ndarray) -> np.ndarray:
        r = np.where(centre > 0, r, 0.0)
        if order == 1:
            return rel_entr(r, positive)
        with np.errstate(over="ignore"):
            return positive * (r / positive) ** order * (1.0 if order > 1 else -1.0)

    return term


def _information_of_order(order: float, value: np.ndarray) -> np.ndarray:
    """The information from the largest sum of `_order_term`."""
    if order == 1:
        return np.maximum(value, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        if order > 1:
            return np.log(np.maximum(value, 1.0)) / (order - 1)
        return np.where(value < 0, np.log(np.minimum(-value, 1.0)) / (order - 1), np.inf)
