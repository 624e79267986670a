"""Restarted primal-dual hybrid gradient with Bregman steps: one method for every convex measure, limit and budget.

A program (`program.convex`) is a saddle point between the mechanism W and the adversary, who has rules k_y = price g_y,
g_y in the sets G of the measures, and a price of every limit,

    min over W  max over g_y in G, prices >= 0   <cost, W> + sum_y <k_y, A W_y> + prices . (use(W) - bounds).

An iteration takes a proximal step on either side, each in the geometry of its set and in closed form, with the output
masses m_y = (p W)_y, a part of them shared equally, relative to the rows and columns of A:

    W+        mirror step on   cost + A' k,  length tau, relative to sum_x c_x KL(W_x || .), within the budgets
    w~        = A W+ + (2/rho - 1) (A W+ - A W)
    smooth    v+_y = max(sigma w~_y, 0) + m_y v_y / |v_y|,    g+ = gradient of phi at v+
    shares    q+_y ~ q_y exp( sigma w~_y / (r m_y) ),         g+ = q+ / r
    box       g+_y = clip( g_y + sigma w~_y / (m_y a), 0, cap )   (cone: cap = inf)
    prices    multiplied by exp( sigma (use - bound) ), those that share the peak, by what is above their mean,
              normalised

The smooth step is the exact maximiser of <g, w~> - (m/sigma) D(g_old -> g), D the divergence of the conjugate:
gradients of phi maximise <w + m v, g> over G, so that the new rule is that of a mixture of the output joint and the old
one. c_x is how far input x can move rules: p_x where the rows are a joint, max_t A_tx / r_t of shares, and sum_t |A_tx|
of boxes, whose rows have the weights a_t = sum_x |A_tx|; rare symbols move too slowly without these weights. The step
lengths are tau = eta / omega and sigma = eta omega. A step is taken if eta times the coupling of both moves is at most
rho times the divergences, and eta follows that ratio. In Euclidean geometry that is the relaxed method, which converges
for rho < 2: both sides go rho times as far as the steps of rho = 1 lead. Point and average since the last restart are
certified every `inner` iterations; the better one is where a restart begins, once its gap has fallen far enough, and
omega moves towards the ratio of the divergences of both sides. That ratio misleads where the gap has long not fallen: a
mechanism near a vertex hardly moves, and its steps would become shorter still. A restart then takes the inverse of
omega, and the entries of the mechanism stay above a hundredth of the gap, or above 1e-6, so that they can grow again
soon.

Linear programs in which rules have a common price (a limit on a sum, several joints), rules of an output add up to 0,
or budgets share the peak are iterated on by `first_order_lp`, which needs fewer passes there.

No rate is proved here: max(., 0) makes the smooth step inexact where w~ has negative entries, and the output masses
change during a run. What is claimed is the certificate of the points.
Sources: Chambolle and Pock 2011, 2016 (Bregman distances); Pock and Chambolle 2011 (weights of rows and columns);
Condat 2013 (relaxation); Applegate et al. 2021 (PDLP: lengths of steps, restarts).
"""

import dataclasses
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import COUNT, SHARE, check_fields
from jaxpriv.leakage.rule_sets import Role, Term
from jaxpriv.program.convex import Candidate, Program
from jaxpriv.solvers._base import AbstractSolver, Measures, check_single, meet_budgets, normalised
from jaxpriv.solvers.first_order_lp import HalpernState, RestartedHalpern
from jaxpriv.solvers.interior_point.candidate import best_prices, dual_bound, no_candidate, objective, repaired
from jaxpriv.solvers.interior_point.mirror_start import first_mechanism
from jaxpriv.solvers.interior_point.system import Data, least_shares, rearrange, row_prices

# Masses and shares below this count as 0. It is a normal number of float32 too.
_TINY = 1e-30
# Logarithms of shares are cut here below their largest: what has less comes back by later steps.
_LOWEST_SHARE = -69.0
# An entry of the mechanism is at least this share of the gap at the last restart, the second where the gap has long not
# fallen, and at most `_HIGHEST`. Of the shares 1e-6 and 1e-3 the first needs fewer passes: 432 random instances.
_ENTRY, _STUCK_ENTRY, _HIGHEST = 1e-6, 1e-2, 1e-6
# Looks without the gap falling by a tenth after which it has long not fallen. Of 60, 150, 200 and 300 the one that
# leaves the fewest of 6,000 random instances; some leave a vertex by themselves after 200.
_STUCK = 200
# The share of the output masses that all outputs share equally: of .02, .05, .2 and .5 the one with the fewest passes.
_MIXED = 0.05
# rho of the relaxation. 1.8 takes 5 % fewer passes of mutual information at 24 joints of 16 symbols, 18 % fewer of
# total variation, as many of maximal leakage, but points may move away from the saddle point: maximal leakage of a
# random joint of 24 x 48 symbols stays at a gap of .09. 1.9 takes twice as many passes of it at 16, and 1 a third more.
_RELAXED = 1.5
# The first weight of the mechanism's side: of .1, .2, .3, .5 and 1 the one with the fewest passes.
_FIRST_WEIGHT = 0.3
# The weight of a symbol of X is at least this share of its probability. A choice; 1e-1 is as good.
_LEAST_WEIGHT = 1e-2
# The step lengths stay between these. A choice.
_SHORTEST, _LONGEST = 1e-6, 1e6
# The weight of the mechanism's side stays between these. A choice.
_LIGHTEST, _HEAVIEST = 1e-6, 1e6
# An inverse of that weight stays between these. A choice.
_LIGHTEST_INVERSE, _HEAVIEST_INVERSE = 1e-3, 1e3
# The most that a price is multiplied by in an iteration: e.
_PRICE_MOVE = 1.0
# Of a restart without a fall of the gap: so many looks at least, and at most; after the latter though the gap rose.
# Where it had to be no larger there too, one of 250 random limits on max-lift stayed open, and 250 of maximal leakage
# took 6 % more steps.
_FEWEST_LOOKS, _MOST_LOOKS = 4, 64
# Coupling below this is rounding: any length is allowed.
_NO_COUPLING = 1e-15
# The least weight of a row of rules, relative to the largest.
_LEAST_RULE = 1e-9
# What the logarithm of a price that shares the peak moves by, for an excess of the whole span of its measure or budget.
# Of 1, 10, 30, 100, 300 and 1000 the middle ones need the fewest passes: sets of two and three random joints.
_PEAK_RATE = 30.0
# The share of its first price by which the price of a limit moves at least. Of 0, .01, .1 and 1 the first takes
# hundreds of looks where a limit does not bind, and the last two take more where one alone does.
_IDLE = 0.01
# The least slack of a limit that its price is measured by.
_LEAST_SLACK = 1e-6


class DualPoint(NamedTuple):
    """The adversary's side."""

    v: Arr  # (Y, T) what rules are made of: a joint of mass 1 (smooth sets), shares, the rules themselves (others)
    g: Arr  # (Y, T) the rules of v
    price: Arr  # (B,) of the budgets, then of the limits on sums
    eta: Arr  # (Y, W) of the worst-outcome limits of smooth terms


class MirrorPoint(NamedTuple):
    """The mechanism."""

    logs: Arr  # (X, Y)
    x: Arr  # (X, Y)
    ax: Arr  # (Y, T)


class Geometry(NamedTuple):
    """What the divergences of both sides are weighed by."""

    inputs: Arr  # (X,) c, of the rows of the mechanism
    rules: Arr  # (T,) a, of the rows of rules, one where their set is no box
    rates: Arr  # (B,) `_rates`
    prices: Arr  # (B,) the first ones


class Sums(NamedTuple):
    """Sums of both sides over the steps since a restart, by the lengths of the steps."""

    x: Arr  # (X, Y)
    v: Arr  # (Y, T), by the prices of the rules too
    price: Arr  # (B,)
    eta: Arr  # (Y, W)
    lengths: Arr


class Cycle(NamedTuple):
    """The iterations since a restart: both sides, where they began, their sums."""

    primal: MirrorPoint
    dual: DualPoint
    first_logs: Arr  # (X, Y) of the mechanism at the restart
    first_dual: DualPoint
    sums: Sums
    omega: Arr
    since: Arr  # looks since the restart
    gap: Arr  # at the restart


class HybridState(eqx.Module):
    """The present cycle, and the control of the steps."""

    cycle: Cycle
    geometry: Geometry
    eta: Arr
    looks: Arr  # steps, each of which ends with a look at the gap
    stale: Arr  # looks since the gap last fell by a tenth
    last_gap: Arr
    mark: Arr  # the gap when it last fell by a tenth
    best: Candidate


State: TypeAlias = HybridState | HalpernState


class PrimalDualHybridGradient(AbstractSolver):
    """Restarted primal-dual hybrid gradient with Bregman steps, for any measures.

    A step is `inner` iterations and a look at the gap. An iteration costs two products with the rows of the measures,
    4 T |X| |Y| operations, and up to `dual_steps` exponentials of every entry.

    Args:
        inner: iterations in one step.
        sufficient: a restart when the gap has fallen to this fraction of that at the last one.
        necessary: a restart when it has fallen to this fraction and rises.
        artificial: a restart after this fraction of all iterations.
        gain: share of the way to the balanced weight, on a logarithmic scale, that a restart goes.
        dual_steps: most evaluations of the prices of the budgets in an iteration, one exponential of every entry each.
        patience: steps without the gap falling by a tenth after which it ends.
        single: iterations in float32 (the certificate is in float64): True, alone; None, until those get no further,
            then float64 from their mechanism. `solve` outside of jit alone has them.
    """

    inner: int = eqx.field(static=True, default=25)
    sufficient: float = eqx.field(static=True, default=0.2)
    necessary: float = eqx.field(static=True, default=0.8)
    artificial: float = eqx.field(static=True, default=0.36)
    gain: float = eqx.field(static=True, default=0.5)
    dual_steps: int = eqx.field(static=True, default=3)
    patience: int = eqx.field(static=True, default=1000)
    single: bool | None = eqx.field(static=True, default=False)  # pyright: ignore[reportIncompatibleVariableOverride]
    attempts: ClassVar[int] = 1
    takes_start: ClassVar[bool] = True
    measures: ClassVar[Measures] = "convex"

    def __check_init__(self) -> None:
        check_fields(self, COUNT, "inner", "dual_steps", "patience")
        check_single(self)
        check_fields(self, SHARE, "sufficient", "necessary", "artificial", "gain")

    @property
    def _of_linear(self) -> RestartedHalpern:
        return RestartedHalpern(self.sufficient, self.necessary, self.artificial, self.gain, self.inner)

    def blank(self, program: Program) -> Candidate:
        return no_candidate(program)

    def init(self, program: Program, attempt: ScalarLike, best: Candidate) -> State:
        """The uniform mechanism, or one near the caller's, and the rules of what it releases."""
        if _for_halpern(program):
            return self._of_linear.init(program, attempt, best)
        data = rearrange(program, dense=True)
        primal, geometry = _from(data, first_mechanism(data).T), _geometry(data)
        unit, number = jnp.ones((), primal.x.dtype), jnp.array(0)
        far = jnp.inf * unit
        cycle = _begun(primal, _first_dual(data, primal, geometry.prices), _FIRST_WEIGHT * unit, far)
        return HybridState(cycle, geometry, eta=unit, looks=number, stale=number, last_gap=far, mark=far, best=best)

    def step(self, program: Program, state: State) -> State:
        """`inner` iterations; certify point and average; restart where their gap says so."""
        if isinstance(state, HalpernState):
            return self._of_linear.step(program, state)
        return self._bregman_step(rearrange(program, dense=True), state)

    def moved(self, program: Program, first: State, last: State) -> State:
        """Both sides as they were, at the point or the average, whichever has the smaller gap here. Weights and cycles
        begin anew.
        """
        if isinstance(first, HalpernState):
            assert isinstance(last, HalpernState)  # of a program of the same kind
            return self._of_linear.moved(program, first, last)
        assert isinstance(last, HybridState)
        data = rearrange(program, dense=True)
        points = _points(data, last.cycle)
        _, value, *_, bound = jax.vmap(lambda point: _certified(data, *point))(points)
        nearest = jnp.argmin(jnp.where(jnp.isfinite(value - bound), value - bound, jnp.inf))
        x, dual = jax.tree.map(lambda part: part[nearest], points)
        cycle = _begun(_from(data, x), dual, first.cycle.omega, first.cycle.gap)
        return dataclasses.replace(first, cycle=cycle, eta=last.eta)

    def _bregman_step(self, data: Data, state: HybridState) -> HybridState:
        done = state.looks * self.inner
        least = _least_entry(state.cycle.gap, state.stale)
        step = lambda i, carry: self._iteration(data, state.geometry, least, done + i, *carry)  # noqa: E731
        cycle, eta = lax.fori_loop(0, self.inner, step, (state.cycle, state.eta))
        points = _points(data, cycle)
        x, value, k, price, bound = jax.vmap(lambda point: _certified(data, *point))(points)
        finite = jnp.isfinite(value) & jnp.isfinite(bound)
        value, bound = jnp.where(finite, value, jnp.inf), jnp.where(finite, bound, -jnp.inf)
        gaps = value - bound
        # Of the two, by number: the better value, the better bound, the smaller gap.
        at, to, nearest = (
            jnp.asarray(second, int) for second in (value[1] < value[0], bound[1] > bound[0], gaps[1] < gaps[0])
        )
        best = state.best.with_primal(x[at], value[at]).with_dual(k[to], points[1].eta[to], price[to], bound[to])
        gap, looks, since = gaps[nearest], state.looks + 1, cycle.since + 1
        fell = (gap <= self.sufficient * cycle.gap) | (
            (gap <= self.necessary * cycle.gap) & (gap > state.last_gap) & (since > 1)
        )
        long = (
            (since.astype(gap.dtype) >= self.artificial * looks.astype(gap.dtype))
            & (since >= _FEWEST_LOOKS)
            & (gap <= cycle.gap)
        )

        def restarted() -> Cycle:
            x, dual = jax.tree.map(lambda part: part[nearest], points)
            primal = _from(data, x, _least_entry(gap, state.stale))
            omega = self._balanced(data, state.geometry, cycle, primal, dual)
            inverse = jnp.clip(1.0 / omega, _LIGHTEST_INVERSE, _HEAVIEST_INVERSE)
            return _begun(primal, dual, jnp.where(state.stale > _STUCK, inverse, omega), gap)

        def gone_on() -> Cycle:
            return cycle._replace(since=since, gap=jnp.where(jnp.isinf(cycle.gap), gap, cycle.gap))

        # One of both is computed, and nothing is chosen entry by entry: that takes half as long to compile.
        improved = best.gap < 0.9 * state.mark
        return HybridState(
            lax.cond(fell | long | (since >= _MOST_LOOKS), restarted, gone_on),
            state.geometry,
            eta=eta,
            looks=looks,
            stale=jnp.where(improved, 0, state.stale + 1),
            last_gap=gap,
            mark=jnp.where(improved, best.gap, state.mark),
            best=best,
        )

    def terminate(self, program: Program, state: State) -> Arr:
        """After `patience` steps without progress, where numbers have left their range, or move by rounding alone."""
        if isinstance(state, HalpernState):
            return self._of_linear.terminate(program, state)
        return (state.stale >= self.patience) | ((state.looks > 0) & ~jnp.isfinite(state.last_gap))

    def _iteration(
        self, data: Data, geometry: Geometry, least: Arr, number: Arr, cycle: Cycle, eta: Arr
    ) -> tuple[Cycle, Arr]:
        """Iteration number `number` (0, 1, ...) of all."""
        primal, dual, omega = cycle.primal, cycle.dual, cycle.omega
        tau, sigma = eta / omega, eta * omega
        k = _rules(data, dual)
        tilt = tau * _inverse(geometry.inputs)[:, None]
        new, budget_prices = self._primal_step(data, primal, _costs(data, k, dual), dual.price, tilt, least)
        masses = _masses(data, new.x)
        ahead = jax.tree.map(lambda part, old: part + (2.0 / _RELAXED - 1.0) * (part - old), new, primal)
        after = _dual_step(data, dual, ahead, sigma, masses, geometry)
        after = after._replace(price=jnp.concatenate([budget_prices, after.price[len(budget_prices) :]]))
        scales = _scales(data, after)
        coupled = _coupling(data, scales * after.g - k, dual, after, new, primal)
        moved = omega * _divergence(data, new, primal.logs, geometry)
        moved = moved + _dual_divergence(data, dual, after, masses * scales, masses, geometry) / omega
        limit = _RELAXED * moved / jnp.maximum(coupled, _TINY)
        limit = jnp.where((coupled > _NO_COUPLING) & (moved > 0), limit, jnp.inf)
        n = (number + 2).astype(eta.dtype)
        # The exponents are those of PDLP (Applegate et al. 2021). Growth by 1/n takes a tenth fewer passes, but lengths
        # that were once short stay short: three of 200 random instances of reverse KL stall.
        longer = jnp.minimum((1.0 - n**-0.3) * limit, (1.0 + n**-0.6) * eta)

        def taken() -> Cycle:
            moved_by = Sums(new.x, scales * after.v, after.price, after.eta, jnp.ones_like(eta))
            sums = jax.tree.map(lambda total, part: total + eta * part, cycle.sums, moved_by)
            return cycle._replace(primal=new, dual=after, sums=sums)

        return lax.cond(eta <= limit, taken, lambda: cycle), jnp.clip(longer, _SHORTEST, _LONGEST)

    def _primal_step(
        self, data: Data, primal: MirrorPoint, costs: Arr, price: Arr, tilt: Arr, least: Arr
    ) -> tuple[MirrorPoint, Arr]:
        """The mirror step within the budgets that do not share the peak, and the prices of these."""
        program = data.program
        base = jnp.where(program.support, primal.logs - tilt * costs, -jnp.inf)
        prices = price[: _within_step(data)]
        if len(prices):
            logs, x, prices = meet_budgets(program.constraints, program.budgets, base, tilt, prices, self.dual_steps)
        else:
            logs, x = normalised(base)
        return MirrorPoint(jnp.maximum(logs, jnp.log(least)), x, _seen(data, x)), prices

    def _balanced(self, data: Data, geometry: Geometry, cycle: Cycle, primal: MirrorPoint, dual: DualPoint) -> Arr:
        """omega, moved towards the ratio of the divergences of dual and primal since the restart."""
        masses = _masses(data, primal.x)
        way = _divergence(data, primal, cycle.first_logs, geometry)
        weights = masses * _scales(data, dual)
        dual_way = _dual_divergence(data, cycle.first_dual, dual, weights, masses, geometry)
        wanted = 0.5 * (jnp.log(jnp.maximum(dual_way, 1e-20)) - jnp.log(jnp.maximum(way, 1e-20)))
        omega = jnp.exp(self.gain * wanted + (1.0 - self.gain) * jnp.log(cycle.omega))
        return jnp.clip(omega, _LIGHTEST, _HEAVIEST)


def _for_halpern(program: Program) -> bool:
    """Whether `first_order_lp` takes the program, and needs fewer passes."""
    priced = program.shares or any(term.priced or _kind(term) == "balanced" for term in program.terms)
    return priced and not any(term.smooth for term in program.terms)


def _inverse(mass: Arr) -> Arr:
    """1/c(x), 0 for a symbol without mass: its row does not move."""
    massed = mass > np.finfo(mass.dtype).tiny
    return jnp.where(massed, 1.0 / jnp.where(massed, mass, 1.0), 0.0)


def _seen(data: Data, x: Arr) -> Arr:
    """A W, (Y, T)."""
    return jnp.matmul(x.T, data.a.T)


def _from(data: Data, x: Arr, least: ScalarLike = _TINY) -> MirrorPoint:
    """The mechanism (X, Y), rows that sum to one, with logarithms that let every entry of the support come back."""
    return MirrorPoint(jnp.log(jnp.maximum(x, least)), x, _seen(data, x))


def _least_entry(gap: Arr, stale: Arr) -> Arr:
    """What an entry of the mechanism does not fall below."""
    return jnp.clip(jnp.where(stale > _STUCK, _STUCK_ENTRY, _ENTRY) * gap, _TINY, _HIGHEST)


def _begun(primal: MirrorPoint, dual: DualPoint, omega: Arr, gap: Arr) -> Cycle:
    """The cycle before its first iteration."""
    each = Sums(primal.x, dual.v, dual.price, dual.eta, gap)
    return Cycle(primal, dual, primal.logs, dual, jax.tree.map(jnp.zeros_like, each), omega, jnp.array(0), gap)


def _masses(data: Data, x: Arr) -> Arr:
    """m (Y, 1): P(y), a part of it shared equally: an output without mass keeps a weight."""
    share = data.program.mass / data.program.mass.sum()
    return ((1.0 - _MIXED) * (share @ x) + _MIXED / x.shape[1])[:, None]


def _kind(term: Term) -> Literal["smooth", "shares", "balanced", "box"]:
    """The set of a term: smooth; reference . k = 1; reference . k = 0 (a worst-outcome limit); bounds alone."""
    if term.smooth:
        return "smooth"
    if term.normalised:
        return "balanced" if term.role is Role.WORST else "shares"
    return "box"


def _size(term: Term, v: Arr) -> Arr:
    """|v_y| (Y, 1): the mass of the output."""
    return jnp.maximum(v[..., -1:] if term.massed else v.sum(axis=-1, keepdims=True), _TINY)


def _with_rules(data: Data, v: Arr, price: Arr, eta: Arr) -> DualPoint:
    """The side of the adversary that v, prices of limits and prices of outputs make."""
    g = [_rule(term, v[:, place.rows]) for term, place in zip(data.terms, data.layout, strict=True)]
    return DualPoint(v, jnp.concatenate(g, axis=1), price, eta)


def _rule(term: Term, v: Arr) -> Arr:
    """The rule g (Y, T) that v is the coordinate of."""
    match _kind(term):
        case "smooth":
            least = jnp.maximum(_size(term, v) * least_shares(term, 0.0), _TINY)
            return term.rule_at(jnp.maximum(v, least))
        case "shares":
            r = term.reference
            return jnp.where(r > 0, v / jnp.where(r > 0, r, 1.0), 0.0)
        case _:
            return v


def _scales(data: Data, dual: DualPoint) -> Arr:
    """What the rules of every row are multiplied by, (Y, T)."""
    return row_prices(data, dual.price, dual.eta)


def _rules(data: Data, dual: DualPoint) -> Arr:
    """k (Y, T)."""
    return _scales(data, dual) * dual.g


def _mean(data: Data, cycle: Cycle) -> tuple[Arr, DualPoint]:
    """The average since the restart, by the lengths of the steps; of rules by their prices too."""
    sums, dual = cycle.sums, cycle.dual
    some = sums.lengths > 0  # none, where every step since the restart was refused: then the point itself
    now = Sums(cycle.primal.x, _scales(data, dual) * dual.v, dual.price, dual.eta, sums.lengths)
    mean = jax.tree.map(
        lambda total, current: jnp.where(some, total / jnp.where(some, sums.lengths, 1.0), current), sums, now
    )
    scales, parts = row_prices(data, mean.price, mean.eta), []
    for term, place in zip(data.terms, data.layout, strict=True):
        v, scale = mean.v[:, place.rows], scales[:, place.rows]
        if _kind(term) in ("smooth", "shares"):
            scale = _size(term, v)
        parts.append(jnp.where(scale > _TINY, v / jnp.maximum(scale, _TINY), dual.v[:, place.rows]))
    return mean.x, _with_rules(data, jnp.concatenate(parts, axis=1), mean.price, mean.eta)


def _points(data: Data, cycle: Cycle) -> tuple[Arr, DualPoint]:
    """The last point and the average, along a leading axis."""
    return jax.tree.map(lambda *both: jnp.stack(both), (cycle.primal.x, cycle.dual), _mean(data, cycle))


def _costs(data: Data, k: Arr, dual: DualPoint) -> Arr:
    """What the mechanism pays (X, Y), but the prices of budgets that are met inside of the step."""
    program = data.program
    total = program.cost + jnp.matmul(k, data.a).T
    for term, place in zip(data.terms, data.layout, strict=True):
        if place.worst is not None:
            total = total + term.offset[:, None] * dual.eta[:, place.worst]
    if program.shares:
        total = total + jnp.tensordot(dual.price[: program.budgets.shape[0]], program.constraints, 1)
    return total


def _first_dual(data: Data, primal: MirrorPoint, price: Arr) -> DualPoint:
    """The rules about the first mechanism, equal shares, half of each cap, and prices."""
    parts = []
    outputs = primal.x.shape[1]
    dtype = primal.x.dtype
    for term, place in zip(data.terms, data.layout, strict=True):
        w = primal.ax[:, place.rows]
        match _kind(term):
            case "smooth":
                parts.append(w / _size(term, w))
            case "shares":
                seen = (term.reference > 0).astype(dtype)
                parts.append(jnp.broadcast_to(seen / seen.sum(), w.shape))
            case _:
                cap = jnp.zeros_like(term.reference) if term.cap is None else term.cap
                cap = jnp.where(jnp.isfinite(cap), cap, 0.0)
                parts.append(jnp.broadcast_to(0.5 * cap, w.shape))
    worst = sum(place.worst is not None for place in data.layout)
    return _with_rules(data, jnp.concatenate(parts, axis=1), price, jnp.zeros((outputs, worst), dtype))


def _within_step(data: Data) -> int:
    """How many budgets, the first ones, are met inside of the mirror step: all, or none where they share the peak."""
    return 0 if data.program.shares else data.program.budgets.shape[0]


def _uses(data: Data, g: list[Arr], ahead: MirrorPoint) -> Arr:
    """(B,) use - bound of every limit on a sum."""
    program = data.program
    used = (program.constraints * ahead.x).sum(axis=(1, 2)) - program.budgets
    sums = [
        (rule * ahead.ax[:, place.rows]).sum() - term.bound
        for rule, term, place in zip(g, data.terms, data.layout, strict=True)
        if term.priced
    ]
    return jnp.concatenate([used, jnp.stack(sums)]) if sums else used


def _dual_step(
    data: Data, dual: DualPoint, ahead: MirrorPoint, sigma: Arr, masses: Arr, geometry: Geometry
) -> DualPoint:
    """The proximal step of the adversary about `ahead`, whose entries may be negative; not the prices of budgets."""
    parts, rules, eta = [], [], dual.eta
    for term, place in zip(data.terms, data.layout, strict=True):
        v, w = dual.v[:, place.rows], ahead.ax[:, place.rows]
        match _kind(term):
            case "smooth":
                new = jnp.maximum(sigma * w, 0.0) + masses * v
                new = new / _size(term, new)
                new = jnp.where(term.reference > 0, new, v)
            case "shares":
                seen = term.reference > 0
                lift = jnp.where(seen, w / jnp.where(seen, term.reference, 1.0), 0.0)
                z = jnp.where(seen, jnp.log(jnp.maximum(v, _TINY)) + sigma * lift / masses, -jnp.inf)
                e = jnp.where(seen, jnp.exp(jnp.maximum(z - z.max(axis=1, keepdims=True), _LOWEST_SHARE)), 0.0)
                new = e / e.sum(axis=1, keepdims=True)
            case "balanced":
                new = _balanced_prices(term.reference, v + sigma * w / masses)
            case _:
                cap = jnp.inf if term.cap is None else term.cap
                new = jnp.clip(v + sigma * w / (masses * geometry.rules[place.rows]), 0.0, cap)
        parts.append(new)
        rules.append(_rule(term, new))
        if place.worst is not None:
            excess = (rules[-1] * w).sum(axis=1) + term.offset @ ahead.x
            eta = (
                jnp.asarray(eta)
                .at[:, place.worst]
                .set(jnp.maximum(dual.eta[:, place.worst] + sigma * excess / masses[:, 0], 0.0))
            )
    price = dual.price
    if data.marks.shape[0]:
        excess = _uses(data, rules, ahead)
        peak = jnp.where(data.marks > 0, dual.price * excess, 0.0).sum()  # the mean of those that share it
        excess = jnp.where(data.marks > 0, excess - peak, excess)
        move = sigma * _moved_by(data, geometry, dual.price) * excess
        price = dual.price * jnp.exp(jnp.clip(move, -_PRICE_MOVE, _PRICE_MOVE))
        shared = jnp.where(data.marks > 0, price, 0.0).sum()
        price = jnp.where(data.marks > 0, price / jnp.maximum(shared, _TINY), price)
    return DualPoint(jnp.concatenate(parts, axis=1), jnp.concatenate(rules, axis=1), price, eta)


def _geometry(data: Data) -> Geometry:
    """The weights of both sides, by what the rows of the measures can move."""
    mass = data.program.mass
    inputs, rules = [], []
    for term in data.terms:
        sizes, kind = abs(term.rows), _kind(term)
        lift = sizes / jnp.where(term.reference > 0, term.reference, jnp.inf)[:, None]
        reach = mass if kind == "smooth" else lift.max(axis=0) if kind == "shares" else sizes.sum(axis=0)
        inputs.append(reach / jnp.maximum(reach.sum(), _TINY))
        of_rules = sizes.sum(axis=1)
        of_rules = jnp.maximum(of_rules / jnp.maximum(of_rules.max(), _TINY), _LEAST_RULE)
        rules.append(of_rules if kind == "box" else jnp.ones_like(of_rules))
    shared = jnp.maximum(sum(inputs) / len(inputs), _LEAST_WEIGHT * mass) if inputs else mass
    weights = jnp.where(mass > np.finfo(mass.dtype).tiny, shared, 0.0)
    rates = _rates(data)
    rules = jnp.concatenate(rules) if rules else mass[:0]
    return Geometry(weights, rules, rates, _first_prices(data, rates))


def _span(term: Term) -> Arr:
    """What X itself leaks above a release without leakage, 1 where that is infinite."""
    span = term.support(term.rows.T).sum() - term.support(term.rows.sum(axis=1)[None]).sum()
    return jnp.where(jnp.isfinite(span), jnp.maximum(span, _LEAST_SLACK), 1.0)


def _rates(data: Data) -> Arr:
    """What a unit of sigma and of excess moves the logarithms of prices by, (B,): of those that share the peak by their
    spans, of other limits one over the slack that a release without leakage has.
    """
    widths = (data.c.max(axis=1) - data.c.min(axis=1)).sum(axis=1)
    rates: list[Arr] = [_PEAK_RATE / jnp.maximum(widths, _LEAST_SLACK)]
    for term in data.terms:
        if term.role is Role.AVERAGE:
            slack = term.bound - term.support(term.rows.sum(axis=1)[None]).sum()
            rates.append(1.0 / jnp.maximum(slack, _LEAST_SLACK)[None])
        elif term.priced:
            rates.append(_PEAK_RATE / _span(term)[None])
    return jnp.concatenate(rates)


def _first_prices(data: Data, rates: Arr) -> Arr:
    """Equal shares of the peak, and of limits the mean slope of the objective between its least and that of an
    independent release.
    """
    program, marks = data.program, data.marks
    price = jnp.where(marks > 0, marks / jnp.maximum(marks.sum(), 1.0), 0.0)
    cost = program.cost + jnp.tensordot(price[: len(program.budgets)], program.constraints, 1)
    span = (cost.mean(axis=1) - jnp.where(program.support, cost, jnp.inf).min(axis=1)).sum()
    span = span + sum(_span(term) for term in data.terms if term.role in (Role.OBJECTIVE, Role.PEAK))
    limits = (np.arange(len(price)) >= len(program.budgets)) & (marks == 0)
    return jnp.where(limits, jnp.maximum(span, _TINY) * rates, price)


def _moved_by(data: Data, geometry: Geometry, price: Arr) -> Arr:
    """What a unit of excess moves the logarithms of prices by: those of limits by as much as they are, and by a share
    of the first ones at least, so that the price of a limit that does not bind falls exponentially.
    """
    return jnp.where(data.marks > 0, 1.0, jnp.maximum(price, _IDLE * geometry.prices)) * geometry.rates


def _balanced_prices(reference: Arr, k: Arr) -> Arr:
    """The nearest k >= 0 with reference . k = 0 to every row (Y, T): max(k - nu reference, 0), by bisection in nu."""
    size = jnp.maximum((reference * reference).max(), _TINY)
    reach = (abs(k) / jnp.maximum(abs(reference), jnp.sqrt(size) * 1e-6)).max(axis=1, keepdims=True)

    def halve(_: ScalarLike, ends: tuple[Arr, Arr]) -> tuple[Arr, Arr]:
        low, high = ends
        middle = 0.5 * (low + high)
        over = (reference * jnp.maximum(k - middle * reference, 0.0)).sum(axis=1, keepdims=True) > 0
        return jnp.where(over, middle, low), jnp.where(over, high, middle)

    low, high = lax.fori_loop(0, 50, halve, (-reach, reach))
    return jnp.maximum(k - 0.5 * (low + high) * reference, 0.0)


def _divergence(data: Data, new: MirrorPoint, old_logs: Arr, geometry: Geometry) -> Arr:
    """sum_x c_x KL(new_x || old_x)."""
    change = jnp.where(data.program.support, new.logs - old_logs, 0.0)
    return (geometry.inputs[:, None] * new.x * change).sum()


def _relative(new: Arr, old: Arr) -> Arr:
    """The terms of a relative entropy of positive numbers."""
    return new * (jnp.log(jnp.maximum(new, _TINY)) - jnp.log(jnp.maximum(old, _TINY))) - new + old


def _dual_divergence(data: Data, old: DualPoint, new: DualPoint, weights: Arr, masses: Arr, geometry: Geometry) -> Arr:
    """How far the adversary has moved, in the geometry of every set; `weights`: masses times prices, (Y, T)."""
    total = jnp.zeros((), old.v.dtype)
    for term, place in zip(data.terms, data.layout, strict=True):
        v0, v1 = old.v[:, place.rows], new.v[:, place.rows]
        match _kind(term):
            case "smooth":
                change = v0 * (old.g - new.g)[:, place.rows]
            case "shares":
                change = _relative(v1, v0)
            case _:
                change = 0.5 * geometry.rules[place.rows] * (v1 - v0) ** 2
        total = total + (weights[:, place.rows] * change).sum()
    total = total + 0.5 * (masses * (new.eta - old.eta) ** 2).sum()
    if data.marks.shape[0]:
        outside = slice(_within_step(data), None)
        rate = jnp.maximum(_moved_by(data, geometry, old.price), _TINY)
        total = total + (_relative(new.price, old.price) / rate)[outside].sum()
    return total


def _coupling(data: Data, dk: Arr, old: DualPoint, new: DualPoint, primal: MirrorPoint, before: MirrorPoint) -> Arr:
    """The size of the bilinear term between both moves; `dk` is that of the rules times prices."""
    dx = primal.x - before.x
    total = (dk * (primal.ax - before.ax)).sum()
    for term, place in zip(data.terms, data.layout, strict=True):
        if place.worst is not None:
            total = total + ((new.eta - old.eta)[:, place.worst] * (term.offset @ dx)).sum()
    if data.program.shares:
        count = data.program.budgets.shape[0]
        total = total + (new.price - old.price)[:count] @ (data.program.constraints * dx).sum(axis=(1, 2))
    return abs(total)


def _prices(data: Data, dual: DualPoint) -> Arr:
    """Prices >= 0, those that share the peak with a sum of one."""
    price = jnp.maximum(dual.price, 0.0)
    if data.program.peaked:
        price = price / jnp.maximum(jnp.where(data.marks > 0, price, 0.0).sum(), _TINY)
    return price


def _certified(data: Data, x: Arr, dual: DualPoint) -> tuple[Arr, Arr, Arr, Arr, Arr]:
    """(the mechanism mixed until it meets the limits, value, rules times prices, the best prices for them, bound)."""
    feasible, price = repaired(data, x.T), _prices(data, dual)
    value, k = objective(data, feasible), _rules(data, dual._replace(price=price))
    price = best_prices(data, k, dual.eta, price)
    return feasible.T, jnp.asarray(value), k, price, jnp.asarray(dual_bound(data, k, dual.eta, price))
