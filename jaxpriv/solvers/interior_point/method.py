"""Primal-dual interior point with dual scaling, for any leakage measures as objective and as limits.

The rules of the adversary are variables of their own. Eliminating them through the posteriors would turn an O(1)
error in the DIRECTION of a column of vanishing mass into an O(1) error of the bound; as independent dual variables
they make Z exactly linear in the products of rules and prices, and the Hessian is scaled by the dual's own columns.
See `system` for the equations. A Newton step costs |Y| (T |X|^2 + min(T^2 |X| + T^3, |X|^3)) + |X|^3 for T stacked
rows; where they are diagonal (S = X), |Y| |X|^2 + |X|^3. Everything is batched over outputs and nothing branches on
data, so the same program runs under jit and vmap on any device.

The central path is X Z = mu h with h = (mass + 1/|X|)/2: with h = mass alone, symbols x of tiny mass leave the
neighbourhood. Mehrotra's predictor and Gondzio's correctors choose the step.
Sources: Mehrotra 1992; Gondzio 1996; Calmon and Fawaz 2012, Theorem 2, for the worst-outcome program; primal-dual
scaling of the sets: own derivation.

Every number below changes steps and time only: the certificate is computed again from whatever mechanism and rules are
found, in float64. Where no derivation is given a number is a choice.
"""

from operator import is_
from typing import ClassVar, NamedTuple, TypeAlias

import equinox as eqx
import numpy as np

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr, ArrLike, BoolLike, ScalarLike
from jaxpriv._runtime.validation import COUNT, COUNT_OR_ZERO, POSITIVE, SHARE, check_fields
from jaxpriv.leakage.rule_sets import ENTROPIC, Boundary, Role
from jaxpriv.program.convex import Candidate, Program
from jaxpriv.solvers._base import AbstractSolver, Measures
from jaxpriv.solvers.interior_point.candidate import improved, no_candidate
from jaxpriv.solvers.interior_point.newton import (
    Sides,
    centring,
    directions,
    factorise,
    followed,
    no_sides,
    plus,
    predictor,
    price_move,
    with_prices,
    with_responses,
)
from jaxpriv.solvers.interior_point.start import first_point
from jaxpriv.solvers.interior_point.system import (
    Data,
    Edges,
    Point,
    Residual,
    edges_of,
    measure_use,
    rearrange,
    reduced_costs,
    residuals,
    row_prices,
    rules,
    smoothing_of,
    use_rates,
)

# A step that leaves the neighbourhood is shortened by this factor until it does not, so many times at most: to 0.85^29
# = 0.9 % of its length, below which it ends the attempt as a short one does.
_BACK, _MOST_BACK = 0.85, 30
# A step of less than this length is short: its corrector aims at the centre (sigma = 1) instead, and after so many
# short ones in a row, or after this step and one of less than `_STUCK`, the attempt ends.
_SHORT, _MOST_SHORT, _LATE, _STUCK = 0.1, 6, 30, 0.02
# Mehrotra's centring weight sigma = (1 - reach)^p; he takes the cube of the ratio of the products after and before the
# predictor, at most the share 1 - reach that it leaves. The power 5 is a choice; sigma stays within these limits, so
# that the products fall a thousandfold at most in a step.
_POWER, _LEAST_SIGMA, _MOST_SIGMA = 5, 1e-3, 0.9
# Gondzio (1996, section 3): a corrector aims at a step this much longer, moves products into [0.1, 10] times their aim,
# and takes none down by more than ten times the aim.
_FURTHER, _INSIDE = 0.3, 10.0
# A corrector is kept where it lowers the mean product by 2 % or lengthens the step by 10 % (choices; it costs a solve,
# no factorisation).
_LESS, _LONGER = 0.98, 1.1
# The neighbourhood of a step is that of the solver, or this share of the smallest ratio at its start: from a point
# outside of it no step would be allowed otherwise.
_OF_START = 0.9
# Rules outside of their sets must come nearer to them by this share of the step: a full Newton step on linear equations
# takes them all the way.
_NEARER = 0.5
# A price is at least this share of its present value where rules are rules of prices after a step: rules are quotients
# by prices, which a step may take beyond 0. A reduced cost that rounding made negative becomes this share of what the
# central path asks for.
_LEAST_RATIO = 1e-3
# What rules outside the set of a user's loss may be worth: its boundary turns within what it is smoothed by, which
# falls with the products, so that its rules are always as far outside as the products say.
_DUAL_TOLERANCE_OF_LOSSES = 0.5
# The same where no limit has a price that may grow: the prices of objectives are one, or share one.
_DUAL_TOLERANCE_OF_OBJECTIVES = 0.3
# Rules of relative entropies, log-ratios, may change by this many times as much: a shorter step alternates between two
# prices where outputs exclude symbols.
_OF_LOGARITHMS = 2.0


class InteriorState(NamedTuple):
    """A point, its history of step lengths, and the best candidate."""

    point: Point
    residual: Residual
    count: Arr
    short: Arr
    best: Candidate
    length: ScalarLike  # of the last step, the longer one of two


class InteriorPoint(AbstractSolver):
    """Primal-dual interior-point method with dual scaling, for any measures.

    Args:
        warm_steps: mirror steps before the first attempt, for programs that have some (see `mirror`); twice as many
            under a limit in every outcome, whose prices start far from the solution.
        correctors: most Gondzio correctors in one step.
        long_enough: steps of this length are not corrected any more.
        boundary: fraction of the way to the boundary that a step may go.
        neighbourhood: smallest allowed ratio of a complementarity product to the mean.
        dual_tolerance: what rules outside their sets may be worth under limits, as a share of the complementarity
            products.
        score_change: largest change of a rule in one step.
    """

    warm_steps: int = eqx.field(static=True, default=50)
    correctors: int = eqx.field(static=True, default=3)
    long_enough: float = eqx.field(static=True, default=0.9)
    boundary: float = eqx.field(static=True, default=0.95)
    neighbourhood: float = eqx.field(static=True, default=0.02)
    dual_tolerance: float = eqx.field(static=True, default=0.03)
    score_change: float = eqx.field(static=True, default=1.5)
    attempts: int = eqx.field(static=True, default=3)
    takes_start: ClassVar[bool] = True
    measures: ClassVar[Measures] = "convex"

    def __check_init__(self) -> None:
        check_fields(self, COUNT, "attempts")
        check_fields(self, COUNT_OR_ZERO, "warm_steps", "correctors")
        check_fields(self, SHARE, "long_enough", "boundary", "neighbourhood")
        check_fields(self, POSITIVE, "dual_tolerance", "score_change")

    def uncompiled(self, program: Program) -> bool:
        del program
        return True

    def blank(self, program: Program) -> Candidate:
        return no_candidate(program)

    def init(self, program: Program, attempt: ScalarLike, best: Candidate) -> InteriorState:
        """A first point, and what it is worth."""
        data = rearrange(program)
        point = first_point(data, attempt, self.warm_steps)
        residual = residuals(data, point)
        best = improved(data, point, residual.rules, residual.edges, best)
        nothing = xp.zeros((), like=point.x)
        return InteriorState(point, residual, np.array(0), np.array(0), best, nothing)

    def step(self, program: Program, state: InteriorState) -> InteriorState:
        """Factor, predict, correct, move; then certify."""
        data = rearrange(program)
        point, length = _advance(self, data, state.point, state.residual)
        residual = residuals(data, point)
        best = improved(data, point, residual.rules, residual.edges, state.best)
        short = xp.where(length < _SHORT, state.short + 1, 0)
        return InteriorState(point, residual, state.count + 1, short, best, length)

    def terminate(self, program: Program, state: InteriorState) -> Arr:
        """After short steps, or where numbers have left their range."""
        del program
        point, stuck = state.point, (state.count > _LATE) & (state.length < _STUCK)
        size = point.x.sum() + point.z.sum() + point.k.sum() + point.price.sum() + state.residual.mu
        return ~xp.isfinite(size) | (state.short >= _MOST_SHORT) | stuck


# A rule whose root moves falls to no less than e to minus this in one step. A choice: of 10, 15, 20 and no bound.
_FURTHEST = 15.0
# The lengths of a step in the mechanism and what depends on it, and in the variables of the adversary, the prices and
# the reduced costs.
Lengths: TypeAlias = tuple[ScalarLike, ScalarLike]
_DUAL = tuple(name in {"z", "k", "eta", "nu", "price"} for name in Point._fields)


def _after(data: Data, point: Point, r: Residual, move: Point, lengths: Lengths) -> Point:
    """The point a step further. The two lengths differ in linear programs alone.

    Z has a term that is bilinear in the peak of a minimax program and its prices. Where the price of a shared peak
    falls, its rules g move on a line, not k = price g: at a price near zero a small k would move them far outside.
    Rules whose roots move on a line end where these come to.
    """
    a, dual = lengths
    # Parts that a program does not have are empty.
    parts = zip(point, move, _DUAL, strict=True)
    after = Point(*(p + (dual if other else a) * m if p.size else p for p, m, other in parts))
    if data.program.minimax:
        after = after._replace(z=after.z - a * a * move.peak * data.fall(move.k, move.eta))
    if any(term.rule_set.proportional and term.by_roots for term in data.terms):
        bent = _by_roots(data, r, after)
        after = after._replace(k=after.k + bent, z=after.z + data.rmatvec(bent))
    if not data.shared.any():
        return after
    at = np.minimum(data.priced, point.price.shape[0] - 1)
    price, change = point.price[at], move.price[at]
    bent = a * a * xp.minimum(change, 0.0) / price * (move.k - point.k * (change / price))
    bent = xp.where(data.shared, bent, 0.0)
    return after._replace(k=after.k + bent, z=after.z + data.rmatvec(bent))


def _by_roots(data: Data, r: Residual, after: Point) -> Arr:
    """What the rules times prices (Y, T) of a step are to be increased by where the roots of rules move on a line."""
    prices, parts = row_prices(data, after.price, after.eta), []
    for term, place in zip(data.terms, data.layout, strict=True):
        term_rules = r.rules[:, place.rows]
        if not term.by_roots:
            parts.append(xp.zeros_like(term_rules))
            continue
        price = prices[:, place.rows]
        # A price beyond its range is of a trial: its rules are not used.
        share = (after.k[:, place.rows] / xp.where(price > 0, price, 1.0) - term_rules) / term.whole(term_rules)
        root = xp.maximum(1.0 + share / term.root, np.finfo(term_rules.dtype).eps)
        parts.append(xp.where(price > 0, price * term.whole(term_rules) * (root**term.root - 1.0 - share), 0.0))
    return xp.concatenate(parts, axis=1)


def _products(data: Data, after: Point, prices: Arr) -> tuple[Arr, Arr, tuple[Arr, ...]]:
    """(smallest product relative to its weight, mean product, all products) at a point, `prices` its `row_prices`."""
    xz, worst, pair = after.x * after.z, after.eta * after.sigma, after.slack * after.price
    total = data.on_support(xz, 0.0).sum() + worst.sum() + pair.sum()
    least = data.on_support(xz / data.on_support(data.h, 1.0), xp.inf).min()
    for products in (worst, data.open(pair, xp.inf)):
        if products.size:
            least = xp.minimum(least, products.min())
    ks = rv = xp.zeros_like(after.s)
    if data.any_linear:
        ks = after.k * after.s
        rv = data.cap_slack(after.k, prices) * after.v
        total = total + (data.linear * ks + data.capped * rv).sum()
        least = xp.minimum(least, xp.where(data.linear > 0, ks / data.row_weight, xp.inf).min())
        least = xp.minimum(least, xp.where(data.capped > 0, rv / data.row_weight, xp.inf).min())
    return least, total / data.pairs, (xz, ks, rv, worst, pair)


def _fall(v: Arr, dv: Arr) -> ScalarLike:
    """The inverse of the largest step that keeps v + a dv >= 0, where there is one."""
    return (-dv / v).max()


def _rule_steps(solver: InteriorPoint, data: Data, g: Arr) -> tuple[Arr, Arr]:
    """How far the rules may rise and fall in one step, (Y, T) each; one array where that is equally far."""
    up, down = [], []
    for term, place in zip(data.terms, data.layout, strict=True):
        whole_rules = term.whole(g[:, place.rows])
        if not term.smooth:
            up.append(xp.full_like(whole_rules, xp.inf))
            down.append(up[-1])
            continue
        lowest, highest = term.rule_set.domain(term)
        most = solver.score_change * (_OF_LOGARITHMS if term.rule_set is ENTROPIC else 1.0)
        least = 0.0 if term.rule_set.proportional else 1.0
        share = abs(whole_rules) if term.rule_set.proportional or term.rule_set.powers else xp.ones_like(whole_rules)
        size = most * term.root * xp.maximum(share, least)
        # The mass, the last row, holds the normalisation: free.
        if lowest == -xp.inf and highest == xp.inf and not term.massed:
            up.append(size)
            down.append(size)
            continue
        free = np.zeros(whole_rules.shape[1], bool)
        if term.massed:
            free[-1] = True
        rise = xp.minimum(size, highest - whole_rules) if highest < xp.inf else size
        fall = xp.minimum(size, (whole_rules - lowest) * xp.minimum(term.root, _FURTHEST)) if lowest > -xp.inf else size
        up.append(xp.where(free, xp.inf, rise))
        down.append(xp.where(free, xp.inf, fall))
    rise = xp.concatenate(up, axis=1)
    return rise, rise if all(map(is_, up, down)) else xp.concatenate(down, axis=1)


def _to_boundary(data: Data, point: Point, r: Residual, origin: "_Origin", move: Point) -> Lengths:
    """The largest lengths, at most one, that leave every product and every rule in its range.

    Where all terms are linear and no peak multiplies prices, the equations of the mechanism and those of the prices
    have no variable in common, so that each may go as far as its own variables allow; elsewhere both go equally far.
    """
    # The inverses of the lengths.
    step, dual = (
        _fall(data.on_support(point.x, 1.0), data.on_support(move.x, 0.0)),
        _fall(point.z, data.on_support(move.z, 0.0)),
    )
    moved_prices = row_prices(data, point.price + move.price, point.eta + move.eta) - r.prices
    if data.any_linear:
        linear, capped = data.linear > 0, data.capped > 0
        dual = xp.maximum(dual, _fall(xp.where(linear, point.k, 1.0), xp.where(linear, move.k, 0.0)))
        step = xp.maximum(step, _fall(xp.where(linear, point.s, 1.0), xp.where(linear, move.s, 0.0)))
        step = xp.maximum(step, _fall(xp.where(capped, point.v, 1.0), xp.where(capped, move.v, 0.0)))
        d_slack = xp.where(capped, xp.where(capped, data.cap, 0.0) * moved_prices - move.k, 0.0)
        dual = xp.maximum(dual, _fall(data.cap_slack(point.k, r.prices), d_slack))
    if point.eta.size:
        step, dual = xp.maximum(step, _fall(point.sigma, move.sigma)), xp.maximum(dual, _fall(point.eta, move.eta))
    if point.price.size:
        step = xp.maximum(step, _fall(data.open(point.slack, 1.0), move.slack))
        dual = xp.maximum(dual, _fall(data.open(point.price, 1.0), data.open(move.price, 0.0)))
    if not data.program.minimax and not any(term.smooth for term in data.terms):
        return 1.0 / xp.maximum(step, 1.0), 1.0 / xp.maximum(dual, 1.0)
    # g changes by a u/(price + a dprice), u = dk - g dprice: at most `up`, at least -`down`.
    g = r.rules
    up, down = origin.rise, origin.fall
    u = move.k - g * moved_prices
    if data.shared.any():  # at a falling price they move on a line
        moved_prices = xp.where(data.shared, xp.maximum(moved_prices, 0.0), moved_prices)
    smooth = data.linear == 0

    def longest(which: Arr, size: Arr, most: Arr) -> Arr:
        """The inverse of the step that changes a rule by `most`."""
        used = (size - xp.where(xp.isinf(most), 0.0, most) * moved_prices) / (most * r.prices)
        return xp.where(smooth & which, used, 0.0).max(initial=0.0)

    if up is down:
        worst = longest(u != 0, abs(u), up)
    else:
        worst = xp.maximum(longest(u > 0, u, up), longest(u < 0, -u, down))
    step = 1.0 / xp.maximum(xp.maximum(step, dual), xp.maximum(worst, 1.0))
    return step, step


def _infeasibility(data: Data, point: Point, prices: Arr, edges: Edges) -> tuple[Arr, Arr]:
    """(price, t |level|) of every output and smooth term, (Y, J): what rules outside their sets claim.

    The certificate takes the sum of the products back.
    """
    price, claim = [], []
    for j, (term, place) in enumerate(zip(data.terms, data.layout, strict=True)):
        if term.smooth:
            edge = edges[j]
            t = data.scale(j, point.x, edge)
            price.append(prices[:, place.rows.start])
            claim.append(t * abs(edge.level))
    if not claim:
        nothing = xp.zeros((point.x.shape[0], 0), like=point.x)
        return nothing, nothing
    return xp.stack(price, axis=1), xp.stack(claim, axis=1)


class _Origin(NamedTuple):
    """Where a step begins: how near it may come to the boundary, what its rules claim outside their sets, and how far
    they may rise and fall.
    """

    share: ScalarLike
    claim: Arr  # (Y, J)
    rise: Arr  # (Y, T)
    fall: Arr  # (Y, T); `rise` itself where they are equal


def _origin(solver: InteriorPoint, data: Data, point: Point, r: Residual) -> _Origin:
    least, mean, _ = _products(data, point, r.prices)
    _, claim = _infeasibility(data, point, r.prices, r.edges)
    share = xp.minimum(solver.neighbourhood, _OF_START * least / mean)
    return _Origin(share, claim, *_rule_steps(solver, data, r.rules))


def _dual_tolerance(solver: InteriorPoint, data: Data) -> float | None:
    """The share that `held` allows; None where it need not be asked.

    For a relative entropy at a price of one, or of a share of one, the products measure the curvature of its set.
    """
    if data.coupled:
        return _DUAL_TOLERANCE_OF_LOSSES
    limited = any(term.smooth and term.role in (Role.AVERAGE, Role.WORST) for term in data.terms)
    if not limited and all(term.rule_set is ENTROPIC or not term.smooth for term in data.terms):
        return None
    return solver.dual_tolerance if limited else max(solver.dual_tolerance, _DUAL_TOLERANCE_OF_OBJECTIVES)


def _into_neighbourhood(
    solver: InteriorPoint, data: Data, point: Point, r: Residual, origin: _Origin, move: Point
) -> tuple[Lengths, Arr]:
    """(lengths, mean product after it): back from the boundary until every product is a fair share of the mean.

    The products depend neither on the curvature of the sets nor on how high its price is: where a limit is tiny a
    change of 1e-2 in a rule, harmless elsewhere, is worth more than all products. So the rules must also stay in their
    sets up to a share of the products, or come nearer to them.
    """

    dual_tolerance = _dual_tolerance(solver, data)

    def held(a: ScalarLike, after: Point, prices: Arr, mean: ScalarLike) -> BoolLike:
        if dual_tolerance is None:
            return True
        # At the prices after the step: a price that doubles, as that of a small limit does at first, would hide
        # that its rules come nearer.
        price, claim = _infeasibility(data, after, prices, edges_of(data, rules(data, after.k, prices), prices, mean))
        allowed = xp.maximum(dual_tolerance * data.pairs * mean, (1.0 - _NEARER * a) * (price * origin.claim).sum())
        return (price * claim).sum() <= allowed

    def outside(carry: tuple[Lengths, Arr, Arr, Arr]) -> BoolLike:
        _, _, good, count = carry
        return ~good & (count < _MOST_BACK)

    def shorten(carry: tuple[Lengths, Arr, Arr, Arr]) -> tuple[Lengths, Arr, Arr, Arr]:
        a, dual = (xp.where(carry[-1] == 0, length, length * _BACK) for length in carry[0])
        after = _after(data, point, r, move, (a, dual))
        prices = row_prices(data, after.price, after.eta)
        least, mean, _ = _products(data, after, prices)
        good = (mean > 0) & (least >= origin.share * mean) & held(a, after, prices, mean)
        return (a, dual), mean, good, carry[-1] + 1

    a, dual = (solver.boundary * length for length in _to_boundary(data, point, r, origin, move))
    lengths, mean, _, _ = xp.while_loop(outside, shorten, ((a, dual), r.mu, np.array(False), np.array(0)))
    return lengths, mean


def _advance(solver: InteriorPoint, data: Data, point: Point, r: Residual) -> tuple[Point, ScalarLike]:
    """One predictor-corrector step."""
    data = data.at(point.peak)
    f = factorise(data, point, r)
    asked = Sides(*map(xp.stack, zip(predictor(data, point, r), centring(data, point, r), strict=True)))
    response, both = with_responses(data, point, r, f, asked)
    both = with_prices(data, point, r, both, response, asked)
    predict, centre = (Point(*(leaf[i] for leaf in both)) for i in range(2))
    along = None
    if data.program.minimax and response is not None:
        predict, centre, along = followed(data, point, r, predict, centre, response)
    origin = _origin(solver, data, point, r)
    reach = xp.minimum(*_to_boundary(data, point, r, origin, predict))
    sigma = xp.clip((1.0 - reach) ** _POWER, _LEAST_SIGMA, _MOST_SIGMA)
    move = plus(predict, centre, sigma * r.mu)
    length, mean = _into_neighbourhood(solver, data, point, r, origin, move)

    def centred(_: tuple[Point, Lengths, ScalarLike, ScalarLike]) -> tuple[Point, Lengths, Arr, Arr]:
        careful = plus(predict, centre, r.mu)
        return careful, *_into_neighbourhood(solver, data, point, r, origin, careful), xp.ones_like(sigma)

    move, length, mean, sigma = xp.where_needed(xp.maximum(*length) < _SHORT, centred, (move, length, mean, sigma))

    def improving(carry: tuple[Point, Lengths, ScalarLike, ScalarLike, BoolLike]) -> BoolLike:
        _, length, _, count, better = carry
        return better & (count < solver.correctors) & (xp.minimum(*length) < solver.long_enough)

    def correct(
        carry: tuple[Point, Lengths, ScalarLike, ScalarLike, BoolLike],
    ) -> tuple[Point, Lengths, ScalarLike, ScalarLike, BoolLike]:
        move, length, mean, count, _ = carry
        sides = Sides(*(leaf[None] for leaf in _corrections(data, point, r, move, length, sigma)))
        correction = with_prices(data, point, r, directions(data, point, r, f, sides), response, sides)
        correction = Point(*(leaf[0] for leaf in correction))
        if along is not None:
            correction = plus(correction, along, -correction.peak)
        trial = plus(move, correction, 1.0)
        trial_length, trial_mean = _into_neighbourhood(solver, data, point, r, origin, trial)
        better = (trial_mean < _LESS * mean) | (xp.minimum(*trial_length) > _LONGER * xp.minimum(*length))
        move, length, mean = xp.chosen(better, (trial, trial_length, trial_mean), (move, length, mean))
        return move, length, mean, count + 1, better

    start = (move, length, mean, np.array(0), np.array(True))
    move, length, _, _, _ = xp.while_loop(improving, correct, start)
    return _moved(data, point, r, move, length), xp.maximum(*length)


def _corrections(data: Data, point: Point, r: Residual, move: Point, lengths: Lengths, sigma: ScalarLike) -> Sides:
    """Gondzio's corrector: what the linear model misses at a somewhat longer step."""
    a, dual = (xp.minimum(1.0, length + _FURTHER) for length in lengths)
    after = _after(data, point, r, move, (a, dual))
    _, _, (xz, ks, rv, worst, pair) = _products(data, after, row_prices(data, after.price, after.eta))
    goal = ((1.0 - a) + a * sigma) * r.mu

    def towards(product: Arr, aim: ArrLike) -> Arr:
        if not product.size:
            return product
        return xp.maximum(xp.clip(product, aim / _INSIDE, _INSIDE * aim) - product, -_INSIDE * aim)

    sides = no_sides(point, r)
    # A step beyond the boundary has no rules: correct the products only, there.
    usable = (data.open(after.price, 1.0) > 0).all() & (after.eta > 0).all()
    ahead = ((1.0 - a) + a * sigma) * r.mu
    least = (xp.maximum(new, _LEAST_RATIO * old) for new, old in ((after.price, point.price), (after.eta, point.eta)))
    g = rules(data, after.k, row_prices(data, *least))
    edges = edges_of(data, g, r.prices, ahead)
    gone = -a * (1.0 - sigma)  # the change of the smoothing, as a share of it
    link, level = xp.zeros_like(sides.link), xp.zeros_like(sides.level)
    for n, j in enumerate(data.normed):
        term, place = data.terms[j], data.layout[j]
        if not term.smooth:
            continue
        at = place.rows
        lowest, highest = term.rule_set.domain(term)
        whole_rules = term.whole(g[:, at])
        if term.massed:
            whole_rules = whole_rules[:, :-1]
        if term.massed or term.rule_set.proportional:
            usable = usable & (whole_rules < highest).all() & (whole_rules > lowest).all()
        edge, new = r.edges[j], edges[j]
        t, t_new = data.scale(j, point.x, edge), data.scale(j, after.x, new)
        price = r.prices[:, at]
        kappa = move.k[:, at] - r.rules[:, at] * price_move(data, move, j)
        linear = t[:, None] * (edge.normal + a * _bent(edge, kappa / price))
        expected = edge.level + a * (edge.normal * kappa).sum(axis=1) / price[:, 0]
        if edge.normal_drift is not None and edge.level_drift is not None:
            spread = gone * smoothing_of(price[:, 0], r.mu)
            linear = linear + (t * spread)[:, None] * edge.normal_drift
            expected = expected + spread * edge.level_drift
        link = xp.put(link, np.s_[:, at], linear - t_new[:, None] * new.normal)
        level = xp.put(level, np.s_[:, n], -price[:, 0] * t * (new.level - expected))
    missing, limits = sides.limits, sides.worst
    if point.eta.size or any(term.priced for term in data.terms):  # the use of a budget is linear
        sums, limits = measure_use(data, after.x, after.t, after.v, g, edges, after.peak)
        rate = use_rates(data, point, r, Point(*(leaf[None] for leaf in move)))[0]
        missing = r.use + a * rate - sums
    if data.program.minimax:
        sides = sides._replace(balance=-a * a * data.share(move, move))
        second = -a * a * move.peak
        if data.any_linear:
            link = xp.add_at(link, np.s_[:, : data.rows], second * data.held(move.x, move.t)[:, : data.rows])
        if data.turns is not None:
            level = level + second * data.turned(move.k)
    if limits.shape[1]:
        rate = xp.einsum("ywx,yx->yw", r.extra, move.x)
        if data.program.minimax:
            rate = rate - move.peak * xp.matmul(point.x, data.rates.T)
        link = xp.put(link, np.s_[:, data.rows :], limits - r.excess - a * rate)
    keep = lambda value: xp.where(usable & xp.isfinite(value), value, 0.0)  # noqa: E731
    if data.any_linear:
        aim = xp.broadcast_to(goal * data.row_weight, ks.shape)
        ks = data.linear * towards(ks, aim)
        rv = xp.where(data.capped > 0, towards(rv, aim), 0.0)
    return sides._replace(
        xz=data.on_support(towards(xz, goal * data.h), 0.0),
        ks=ks,
        rv=rv,
        link=keep(link),
        level=keep(level),
        pair=data.open(towards(pair, goal), 0.0),
        worst=towards(worst, goal),
        limits=keep(missing),
    )


def _bent(edge: Boundary, dg: Arr) -> Arr:
    """The Hessian of h along dg."""
    if edge.curvature.ndim == dg.ndim:
        return edge.curvature * dg
    return xp.einsum("yij,yj->yi", edge.curvature, dg)


def _moved(data: Data, point: Point, r: Residual, move: Point, lengths: Lengths) -> Point:
    new = _after(data, point, r, move, lengths)
    x = data.on_support(new.x, 0.0)
    x = x / x.sum(axis=0)
    if data.program.minimax:  # its reduced costs are homogeneous in all prices: their scale is free
        share = data.share(new, new._replace(x=x))
        scaled = (part / share for part in (new.k, new.eta, new.nu, new.price))
        new = new._replace(**dict(zip(("k", "eta", "nu", "price"), scaled, strict=True)))
    z = reduced_costs(data, new.k, new.eta, new.nu, new.price, new.peak)
    floor = _LEAST_RATIO * r.mu * data.h / data.on_support(x, 1.0)
    z = data.on_support(xp.where(z > 0, z, floor), 1.0)
    return new._replace(x=x, z=z)
