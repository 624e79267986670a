"""The proof behind a convex result: a value and a lower bound from the mechanism and the rules alone.

Nothing here depends on a solver, and no dual feasibility is assumed. Whatever rules k, prices eta (one for each output
and each worst-outcome limit of a smooth term) and prices of the limits a solver returns, they are first moved into the
sets of `leakage.rule_sets`, which costs tightness and never validity; then

    OPT >= sum_x min_y [ cost + sum_j k_j(y) A_j + sum_j eta_j(y) offset_j + price . constraints ](x, y)
           - sum_i price_i bound_i

because <k_j(y), A_j W_y> <= price_j phi_j(y) for k_j(y) in price_j G_j, and <k, A W_y> + eta offset . W_y <= 0
for a worst-outcome limit; min_y is over the support. Rules that have learned nothing, with no prices, are tried beside
them: no release leaks less than one that ignores the data. A limit at the least value of a strictly convex measure has
no finite price; such limits are met by mechanisms with A_j W_y = A_j 1 P(Y=y) alone, where any k_j(y) with
<k_j(y), A_j 1> <= 0 takes the place of rule and price, and that is tried too. The bound is rounded down and the value
up by an a-priori bound on the rounding of the sums, so that the interval holds for the stated numbers.

Everything is computed again here, by formulas of its own: in NumPy float64, and under a trace by the same formulas in
the dtype of the program; those of each set are methods of its class (`columns`, `moved_in`). A symbol without mass
(reference 0, rows of zeros) counts nothing. On the host all arrays, those of the program too, may have a leading axis,
that of a batch, where no set is a user's: one certificate for each, by the same operations.

A mechanism that exceeds a limit within the allowance for rounding may cost less than every one that meets it exactly:
where S and X are nearly independent every mechanism meets a limit of 0 so. The bound is then what holds without limits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import DTypeLike

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.types import Arr, Result, ScalarLike
from jaxpriv.leakage.rule_sets import Role, Term
from jaxpriv.program.convex import ROUNDING, Program

# What every certificate is, and what it makes of prices.


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Certificate:
    """What is proved about one mechanism. `optimum` lies in `[lower_bound, value]` if `violation` is 0.

    Attributes:
        value: the program's objective at the mechanism (an upper bound on the optimum if feasible).
        lower_bound: no feasible mechanism has a smaller objective.
        leakages: for every term of a program the sum over outputs of its column function, in role WORST the largest
            excess relative to the mass of the output; of additive noise and of operators I(S;Y), nats, shape (1,).
        constraint_values: <constraints_r, W>, shape (R,).
        violation: largest excess over a limit, relative to the scale of that limit, or error of a row sum, or negative
            entry, beyond rounding, or entry outside of the support; 0 for a feasible mechanism.
    """

    value: ScalarLike
    lower_bound: ScalarLike
    leakages: Result  # None from `jit`, which returns numbers alone
    constraint_values: Result
    violation: ScalarLike

    __repr__ = summary

    @property
    def gap(self) -> ScalarLike:
        """value - lower_bound >= 0."""
        return self.value - self.lower_bound


def nonnegative(xp: ModuleType, prices: Arr) -> Arr:
    """Any numbers as prices: >= 0, 0 where there is none, and small enough for sums of products to be finite."""
    largest = np.cbrt(np.finfo(prices.dtype).max)
    return xp.where(xp.isfinite(prices), xp.clip(prices, 0.0, largest), 0.0)


def certify_program(program: Program, mechanism: Arr, k: Arr, eta: Arr, price: Arr) -> Certificate:
    """Value and lower bound of `mechanism`, proved by the rules `k` (Y, T) and the prices.

    `leakages` of the certificate holds, for every term, the sum over outputs of phi (roles OBJECTIVE,
    AVERAGE, PEAK) or the largest excess relative to the mass of the output (role WORST).
    """
    traced = program.traced or any(isinstance(part, Tracer) for part in (mechanism, k, eta, price))
    xp = jnp if traced else np
    as_array = lambda part: part if isinstance(part, Tracer) else np.asarray(part, dtype=np.float64)  # noqa: E731
    # Of absurd rules products overflow: then nothing is proved.
    with jax.numpy_rank_promotion("allow"), np.errstate(over="ignore", invalid="ignore"):
        value, leakages, used, violation = _primal(xp, program, as_array(mechanism))
        bound, prior = _dual(xp, program, *(as_array(part) for part in (k, eta, price)))
        crossed = bound - value > ROUNDING[np.dtype(str(value.dtype))] * (1.0 + abs(value))
        bound = xp.where(violation == 0, xp.minimum(xp.where(crossed, prior, bound), value), bound)
    return Certificate(value, bound, leakages, used, violation)


def violation_of(program: Program, mechanism: Arr) -> Arr:
    """The `violation` of the certificate alone: 0 for a mechanism that meets every limit."""
    if program.traced or isinstance(mechanism, Tracer):
        return _primal(jnp, program, mechanism)[3]
    return _primal(np, program, np.asarray(mechanism, dtype=np.float64))[3]


def _unit(array: Arr) -> float:
    return float(np.finfo(str(array.dtype)).eps) / 2


# What a limit may be exceeded by, relative to its scale, whatever the size of the problem: this is what users may rely
# on, and no less than what rounding makes of budgets that were computed in another order. Sums of so many terms that
# rounding exceeds it are repaired by mixing with a mechanism that has slack.
_MOST_EXCESS = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}


def most_excess(dtype: DTypeLike) -> float:
    """By how much a mechanism of this precision may exceed a limit e, relative to 1 + e."""
    return _MOST_EXCESS[np.dtype(dtype)]


def excess_of(leaks: Sequence[ScalarLike], limits: Sequence[tuple[object, ScalarLike]]) -> np.ndarray:
    """By how much measured values exceed their limits, relative to 1 + limit; 0 up to rounding.

    The terms of a limit e on a log-ratio contain e^-e: from 30 nats on that is below their own rounding, and a
    release that excludes a symbol (an infinite ratio) would pass.
    """
    over = np.array([(leak - value) / (1.0 + value) for leak, (_, value) in zip(leaks, limits, strict=True)])
    return np.where(over <= most_excess(np.float64), 0.0, over).max(axis=0, initial=0.0)


def column_values(term: Term, w: Arr) -> Arr:
    """phi of the rows of the term at every output, w = A W (..., T, Y): shape (..., Y)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return term.rule_set.columns(term, w)


def _of_outputs(part: Arr, mechanism: Arr) -> Arr:
    """What numbers of useful symbols (..., X) sum to in every output: (..., Y)."""
    return (part[..., None, :] @ mechanism)[..., 0, :]


# Linear rows without a normalisation are differences of two probabilities, P(x|s) and P(x) say. Where S and X are
# nearly independent they are far below either, and have fewer digits than `most_excess` asks for: this share of P(x) is
# a part of their scale (times half of `most_excess` that is 50 roundings of P(x)).
_OF_DIFFERENCES = 0.01


def _excess(xp: ModuleType, term: Term, mechanism: Arr, mass: Arr) -> tuple[Arr, Arr]:
    """By how much every output exceeds a worst-outcome limit, and the scale of its rounding."""
    w = term.rows @ mechanism
    size = abs(term.rows) @ mechanism
    if term.smooth:
        offset = _of_outputs(term.offset, mechanism)
        # phi is made of w ln(w/r): of ratios down to the rounding of w (2^-53) the logarithm is at most 37. This is
        # the scale that an excess is compared with, and no part of a bound.
        return column_values(term, w) + offset, size.sum(axis=-2) * 40.0 + _of_outputs(abs(term.offset), mechanism)
    if not term.normalised:
        return w.max(axis=-2), size.max(axis=-2) + _OF_DIFFERENCES * _of_outputs(mass, mechanism)
    r = xp.asarray(term.reference)[..., None]
    up, down = r > 0, r < 0
    above, below = xp.where(up, r, 1.0), xp.where(down, r, -1.0)
    lower = xp.where(up, w / above, -np.inf).max(axis=-2)
    upper = xp.where(down, w / below, np.inf)
    tight = upper.argmin(axis=-2)[..., None, :]
    # The scale is that of the two rows that meet: e^eps times smaller than the largest row where eps is large.
    meeting = xp.take_along_axis(size / -below, tight, axis=-2)[..., 0, :]
    scale = xp.where(up, size / above, 0.0).max(axis=-2) + meeting
    return lower - upper.min(axis=-2), scale


def _primal(xp: ModuleType, program: Program, mechanism: Arr) -> tuple[Arr, Arr, Arr, Arr]:
    longest = max((term.rows.shape[-2] for term in program.terms), default=0)
    slop = 4 * (sum(mechanism.shape[-2:]) + longest) * _unit(mechanism)
    # The scales of sums below are up to twice their limits.
    allowed = 0.5 * most_excess(mechanism.dtype)
    entries, every = (-2, -1), mechanism[..., None, :, :]
    used = (program.constraints * every).sum(axis=entries)
    linear = (program.cost * mechanism).sum(axis=entries)
    value = linear + slop * (abs(program.cost) * mechanism).sum(axis=entries)
    excesses, peaks, leakages = [], [], []
    for term in program.terms:
        if term.role is Role.WORST:
            excess, size = _excess(xp, term, mechanism, program.mass)
            largest = (excess / xp.where(size > 0, size, 1.0)).max(axis=-1)
            leakages.append(largest)
            excesses.append(largest - allowed)
            continue
        columns = column_values(term, term.rows @ mechanism)
        total = columns.sum(axis=-1)
        size = abs(columns).sum(axis=-1) + (abs(term.rows) @ mechanism).sum(axis=entries)
        leakages.append(total)
        if term.role is Role.OBJECTIVE:
            value = value + total + slop * size
        elif term.role is Role.PEAK:
            peaks.append(total - term.bound + slop * size)
        else:
            finite, scale = xp.isfinite(total), size + abs(term.bound)
            if term.cap is not None:
                scale = scale + _OF_DIFFERENCES * program.mass.sum(axis=-1)
            # A scale of 0: no rows depend on the release (one useful symbol, say), and the limit is 0. It is met.
            relative = xp.where(finite, (total - term.bound) / xp.where(finite & (scale > 0), scale, 1.0), np.inf)
            excesses.append(relative - allowed)
    scale = abs(program.budgets) + (abs(program.constraints) * every).sum(axis=entries)
    relative = (used - program.budgets) / xp.where(scale > 0, scale, 1.0)
    shared = program.marks > 0
    excesses.append(xp.where(shared, -np.inf, relative - allowed).max(axis=-1, initial=0.0))
    if program.shares:
        peaks.append(xp.where(shared, used - program.budgets + slop * scale, -np.inf).max(axis=-1))
    if peaks:
        value = value + xp.stack(peaks, axis=-1).max(axis=-1)
    excesses += [abs(mechanism.sum(axis=-1) - 1.0).max(axis=-1) - 4 * slop, -mechanism.min(axis=entries)]
    excesses.append(xp.where(program.support, 0.0, mechanism).max(axis=entries))
    leaks = xp.stack(leakages, axis=-1) if leakages else np.zeros((*mechanism.shape[:-2], 0))
    return value, leaks, used, xp.stack(excesses, axis=-1).max(axis=-1)


def _weighted(rules: Arr, numbers: Arr) -> Arr:
    """Sums over rows of rules (..., Y, T) times numbers (..., T): (..., Y)."""
    return (rules @ numbers[..., None])[..., 0]


def into_set(xp: ModuleType, term: Term, k: Arr, price: Arr) -> Arr:
    """k (..., Y, T) moved into price * G; `price` (..., Y), ones in role OBJECTIVE."""
    r, price = xp.asarray(term.reference), price[..., None]
    if not term.smooth:
        k = xp.where(xp.isfinite(k), xp.maximum(k, 0.0), 0.0)
        if term.cap is not None:
            return xp.minimum(k, term.cap[..., None, :] * price)
        if not term.normalised:
            return k
        if term.role is Role.WORST:  # reference . k = 0, shrinking one side
            plus, minus = _weighted(k, xp.maximum(r, 0.0)), _weighted(k, xp.maximum(-r, 0.0))
            least = xp.minimum(plus, minus)
            factor = [xp.where(side > 0, least / xp.where(side > 0, side, 1.0), 0.0) for side in (plus, minus)]
            return k * xp.where(r[..., None, :] > 0, factor[0][..., None], factor[1][..., None])
        return term.rule_set.moved_in(term, k) * price
    held = price > 0
    g = xp.where(held, k / xp.where(held, price, 1.0), 0.0)
    g = xp.where(xp.isfinite(g), g, 0.0)
    return term.rule_set.moved_in(term, g) * price


def _deviations(xp: ModuleType, term: Term, k: Arr, price: Arr) -> Arr:
    """k (..., Y, T) less `price` times the rule about the prior, at right angles to A x of one output
    alone.

    Whatever is taken off, A W_y = A 1 P(Y=y) makes nothing of what is left: no price multiplies an error here.
    """
    whole = term.rows.sum(axis=-1)
    neutral = term.rule_set.gradient(term, whole)[..., None, :]
    left = xp.where(xp.isfinite(k), k, 0.0) - price[..., None] * xp.where(xp.isfinite(neutral), neutral, 0.0)
    along = whole[..., None, :]
    for _ in range(2):
        left = left - (_weighted(left, whole) / (whole * whole).sum(axis=-1, keepdims=True))[..., None] * along
    return left


def _dual(xp: ModuleType, program: Program, k: Arr, eta: Arr, price: Arr) -> tuple[Arr, ScalarLike]:
    """The bound, and the part of it that no limit has to be met for."""
    prior = _prior_bound(xp, program, k.dtype)
    bound = xp.maximum(_claimed(xp, program, k, eta, price, False), prior)
    if any(term.independent for term in program.terms):
        bound = xp.maximum(bound, _claimed(xp, program, k, eta, price, True))
    return bound, prior


def _claimed(xp: ModuleType, program: Program, k: Arr, eta: Arr, price: Arr, independence: bool) -> Arr:
    """What rules and prices prove; with `independence` those of limits that only independent outputs meet are read as
    deviations from the rule about the prior.
    """
    inputs = program.cost.shape[-2]
    limits = program.budgets.shape[-1]
    eta, price = nonnegative(xp, eta), nonnegative(xp, price)
    if program.peaked:
        price = shared_prices(xp, program, price)
    cost = xp.asarray(program.cost, dtype=k.dtype)
    size = abs(cost).max(axis=-1).sum(axis=-1)
    spent = 0.0
    for term, at in zip(program.terms, program.layout, strict=True):
        rules = k[..., at.rows]
        weight = xp.ones(k.shape[:-1], dtype=k.dtype)
        if independence and term.independent:
            weight = weight * price[..., at.limit, None] if term.priced else eta[..., at.worst]
            valid = _deviations(xp, term, rules, weight)
            cost = cost + xp.swapaxes(valid @ term.rows, -1, -2)
            size = size + 2 * (abs(valid) @ abs(term.rows)).max(axis=-2).sum(axis=-1)
            size = size + abs(valid).max(axis=(-2, -1)) * abs(term.rows).sum(axis=-2).max(axis=-1)
            continue
        if term.priced:
            weight = weight * price[..., at.limit, None]
            spent = spent + price[..., at.limit] * term.bound
            size = size + abs(price[..., at.limit] * term.bound)
        elif term.smooth and term.role is Role.WORST:
            weight = eta[..., at.worst]
            cost = cost + term.offset[..., None] * weight[..., None, :]
            size = size + (abs(term.offset)[..., None] * weight[..., None, :]).max(axis=-1).sum(axis=-1)
        valid = into_set(xp, term, rules, weight)
        cost = cost + xp.swapaxes(valid @ term.rows, -1, -2)
        size = size + (abs(valid) @ abs(term.rows)).max(axis=-2).sum(axis=-1)
        # The move into the set is exact to a relative 8 u in every rule, and so is its level.
        if term.smooth:
            size = size + abs(valid).max(axis=(-2, -1)) * abs(term.rows).sum(axis=-2).max(axis=-1)
        elif not term.normalised:  # of a sum over symbols all rows together are differences of P(x)
            held = valid.sum(axis=-1) if term.cap is None else valid.max(axis=-1)
            size = size + 2 * held.max(axis=-1) * program.mass.sum(axis=-1)
    # Both a constraint and its budget are taken above the cheapest output of each row: with a steep price (a budget
    # near the least distortion) two huge numbers would cancel otherwise.
    floors = program.constraints.min(axis=-1, keepdims=True)
    priced = price[..., :limits]
    cost = cost + (priced[..., None, None] * (program.constraints - floors)).sum(axis=-3)
    slack = program.budgets - floors.sum(axis=(-2, -1))
    spent = spent + (priced * slack).sum(axis=-1)
    size = size + (priced * (abs(slack) + abs(floors).sum(axis=(-2, -1)))).sum(axis=-1)
    least = _least(xp, program, cost)
    size = size + abs(least).sum(axis=-1)
    longest = max((term.rows.shape[-2] for term in program.terms), default=0)
    chain = 2 * (longest + inputs) + limits + 16
    bound = least.sum(axis=-1) - spent - chain * _unit(k) * size
    return xp.where(xp.isfinite(bound), bound, -np.inf)


def _least(xp: ModuleType, program: Program, cost: Arr) -> Arr:
    """The least cost of every row on the support, (..., X)."""
    return xp.where(program.support, cost, np.inf).min(axis=-1)


def _prior_bound(xp: ModuleType, program: Program, dtype: DTypeLike) -> ScalarLike:
    """What an adversary who has learned nothing proves: the cheapest outputs, and what the prior leaks by itself.

    A convex phi of degree one has sum_y phi(A W_y) >= phi(A 1). Nothing where the peak is shared with budgets.
    """
    # The columns of a user's function are rounded up.
    if program.shares or any(term.rule_set.users for term in program.terms):
        return -np.inf
    unit = float(np.finfo(dtype).eps) / 2
    least = _least(xp, program, xp.asarray(program.cost, dtype=dtype))
    bound, size = least.sum(axis=-1), abs(least).sum(axis=-1)
    peaks = []
    for term in program.terms:
        if term.role not in (Role.OBJECTIVE, Role.PEAK):
            continue
        prior = term.rows.sum(axis=-1)
        leaked = column_values(term, prior[..., None])[..., 0]
        chain = (prior.shape[-1] + 8) * unit * (abs(leaked) + abs(prior).sum(axis=-1))
        if term.role is Role.OBJECTIVE:
            bound, size = bound + leaked - chain, size + abs(leaked)
        else:
            peaks.append(leaked - term.bound - chain)
    if peaks:
        bound = bound + xp.stack(peaks, axis=-1).max(axis=-1)
    return bound - (least.shape[-1] + 8) * unit * size


def shared_prices(xp: ModuleType, program: Program, price: Arr) -> Arr:
    """Prices, those that share the peak divided by their sum."""
    peaks = np.array([term.role is Role.PEAK for term in program.terms if term.priced], program.marks.dtype)
    marks = xp.concatenate([program.marks, np.broadcast_to(peaks, (*program.marks.shape[:-1], len(peaks)))], axis=-1)
    total = (marks * price).sum(axis=-1, keepdims=True)
    shared = total > 0
    equal = marks / marks.sum(axis=-1, keepdims=True)
    return xp.where(marks > 0, xp.where(shared, price / xp.where(shared, total, 1.0), equal), price)
