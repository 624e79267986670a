"""The certificate of a program with any measures: `dense` for every set of decision rules.

Whatever rules k, prices eta (one for each output and each worst-outcome limit of a smooth term) and prices
of the limits a solver hands over, they are first moved into the sets of `problems.measured`; then

    OPT >= sum_x min_y [ cost + sum_j k_j(y) A_j + sum_j eta_j(y) offset_j + price . constraints ](x, y)
           - sum_i price_i bound_i

because <k_j(y), A_j W_y> <= price_j phi_j(y) for k_j(y) in price_j G_j, and <k, A W_y> + eta offset . W_y <= 0
for a worst-outcome limit. Everything is computed afresh here, by formulas of its own: in NumPy float64, and under a
trace by the same formulas in the dtype of the program. A symbol without mass (reference 0, rows of zeros) counts
nothing.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._validation import is_traced
from jaxpriv.certificates import user
from jaxpriv.certificates.dense import Certificate, nonnegative
from jaxpriv.problems.measured import Kind, MeasuredProgram, Role, Term

_LOWEST_SCORE = -700.0


def certify_measured(program: MeasuredProgram, mechanism: Any, k: Any, eta: Any, price: Any) -> Certificate:
    """Value and lower bound of `mechanism`, proved by the rules `k` (Y, T) and the prices.

    `leakages` of the certificate holds, for every term, the sum over outputs of phi (roles OBJECTIVE,
    AVERAGE, PEAK) or the largest excess relative to the mass of the output (role WORST).
    """
    xp = jnp if is_traced(program, mechanism, k, eta, price) else np
    as_array = lambda part: part if is_traced(part) else np.asarray(part, dtype=np.float64)  # noqa: E731
    mechanism = as_array(mechanism)
    value, leakages, used, violation = _primal(xp, program, mechanism)
    with np.errstate(over="ignore", invalid="ignore"):  # of absurd rules: then nothing is proved
        bound = _dual(xp, program, *(as_array(part) for part in (k, eta, price)))
    return Certificate(value, bound, leakages, used, violation)


def violation_of(program: MeasuredProgram, mechanism: Any) -> Any:
    """The `violation` of the certificate alone: 0 for a mechanism that meets every limit."""
    if is_traced(program, mechanism):
        return _primal(jnp, program, mechanism)[3]
    return _primal(np, program, np.asarray(mechanism, dtype=np.float64))[3]


def _unit(array: Any) -> float:
    return float(np.finfo(str(array.dtype)).eps) / 2


def column_values(term: Term, w: Any, xp: Any = np) -> Any:
    """phi of what the term sees of every output, w (T, Y): shape (Y,)."""
    r = xp.asarray(term.reference)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        if term.kind is Kind.ENTROPIC:
            w = xp.maximum(w, 0.0)
            mass = w.sum(axis=0)
            # With r = R p, sum p = 1: w ln(w/(p m)) as m p (t ln t - t + 1) >= 0, so that small values keep
            # their digits, and -m ln R apart.
            whole = r.sum()
            product = r / whole * mass
            ratio = xp.where(product > 0, w / xp.where(product > 0, product, 1.0), 0.0)
            terms = xp.where(ratio > 0, ratio * xp.log(xp.where(ratio > 0, ratio, 1.0)), 0.0) - ratio + 1.0
            return (product * terms).sum(axis=0) - mass * _log_of_total(xp, whole)
        if term.kind is Kind.POWER:
            order = term.parameter / (term.parameter - 1.0)
            lift = xp.maximum(w, 0.0) / xp.where(r > 0, r, 1.0)
            top = lift.max(axis=0)
            share = lift / xp.where(top > 0, top, 1.0)
            power = xp.where(share > 0, xp.where(share > 0, share, 1.0) ** order, 0.0)
            inner = (r * power).sum(axis=0)
            inner = xp.where(inner > 0, xp.where(inner > 0, inner, 1.0) ** (1.0 / order), 0.0)
            return (-1.0 if term.negative else 1.0) * top * inner
        if term.kind is Kind.LINEAR:
            if term.cap is not None:
                return (xp.asarray(term.cap)[:, None] * xp.maximum(w, 0.0)).sum(axis=0)
            return (w / r).max(axis=0)
        if term.kind is Kind.LOSS:
            if xp is jnp:
                return -jax.vmap(term.function.least)(xp.maximum(w, 0.0).T)
            return user.most_saved(term.function, w)
        mass = w[-1]
        present = mass > 0
        positive = present & (r[:-1] > 0)
        lift = xp.where(positive, w[:-1] / xp.where(positive, r[:-1] * mass, 1.0), 1.0)
        return xp.where(present, mass * (r[:-1] * _generator(xp, term, xp.maximum(lift, 0.0))).sum(axis=0), 0.0)


def _log_of_total(xp: Any, total: Any) -> Any:
    """The logarithm of the sum of a reference, 0 of one that is 1 up to rounding."""
    return xp.where(abs(total - 1.0) > 1e-12, xp.log(total), 0.0)


def _generator(xp: Any, term: Term, t: Any) -> Any:
    kind = term.kind
    if kind is Kind.GENERATOR:
        return term.function.value(t) if xp is jnp else user.values(term.function, t)
    if kind is Kind.CHI_SQUARED:
        return (t - 1.0) ** 2
    safe = xp.where(t > 0, t, 1.0)
    if kind is Kind.REVERSE_KL:
        return xp.where(t > 0, t - 1.0 - xp.log(safe), np.inf)
    if kind is Kind.HELLINGER:
        return xp.where(t > 0, (xp.sqrt(safe) - 1.0) ** 2, 1.0)
    middle = 0.5 * (1.0 + t)
    return 0.5 * (xp.where(t > 0, t * xp.log(safe / middle), 0.0) - xp.log(middle))


def _excess(xp: Any, term: Term, mechanism: Any) -> tuple[Any, Any]:
    """By how much every output exceeds a worst-outcome limit, and the scale of its rounding."""
    w = term.rows @ mechanism
    size = abs(term.rows) @ mechanism
    if term.smooth:
        own = term.offset @ mechanism
        return column_values(term, w, xp) + own, size.sum(axis=0) * 40.0 + abs(term.offset) @ mechanism
    if not term.normalised:
        return w.max(axis=0), size.max(axis=0)
    r = xp.asarray(term.reference)[:, None]
    up, down = r > 0, r < 0
    above, below = xp.where(up, r, 1.0), xp.where(down, r, -1.0)
    lower = xp.where(up, w / above, -np.inf).max(axis=0)
    upper = xp.where(down, w / below, np.inf)
    tight, outputs = upper.argmin(axis=0), np.arange(mechanism.shape[1])
    # The scale is that of the two rows that meet: e^eps times smaller than the largest row where eps is large.
    scale = xp.where(up, size / above, 0.0).max(axis=0) + (size / -below)[tight, outputs]
    return lower - upper[tight, outputs], scale


def _primal(xp: Any, program: MeasuredProgram, mechanism: Any) -> tuple[Any, Any, Any, Any]:
    slop = 4 * (sum(mechanism.shape) + max((len(term.rows) for term in program.terms), default=0)) * _unit(mechanism)
    used = (program.constraints * mechanism).sum(axis=(1, 2))
    linear = (program.cost * mechanism).sum()
    value = linear + slop * (abs(program.cost) * mechanism).sum()
    excesses, peaks, leakages = [], [], []
    for term in program.terms:
        if term.role is Role.WORST:
            excess, size = _excess(xp, term, mechanism)
            relative = excess / xp.where(size > 0, size, 1.0)
            leakages.append(relative.max())
            excesses.append(relative.max() - 4 * slop)
            continue
        columns = column_values(term, term.rows @ mechanism, xp)
        total, size = columns.sum(), abs(columns).sum() + (abs(term.rows) @ mechanism).sum()
        leakages.append(total)
        if term.role is Role.OBJECTIVE:
            value = value + total + slop * size
        elif term.role is Role.PEAK:
            peaks.append(total - term.bound + slop * size)
        else:
            known = xp.isfinite(total)
            relative = xp.where(known, (total - term.bound) / xp.where(known, size + abs(term.bound), 1.0), np.inf)
            excesses.append(relative - 4 * slop)
    scale = abs(program.budgets) + (abs(program.constraints) * mechanism).sum(axis=(1, 2))
    relative = (used - program.budgets) / xp.where(scale > 0, scale, 1.0)
    shared = program.marks > 0
    excesses.append(xp.where(shared, -np.inf, relative - 4 * slop).max(initial=0.0))
    if program.shares:
        peaks.append(xp.where(shared, used - program.budgets + slop * scale, -np.inf).max())
    if peaks:
        value = value + xp.stack(peaks).max()
    excesses += [abs(mechanism.sum(axis=1) - 1.0).max() - 4 * slop, -mechanism.min()]
    leaks = xp.stack(leakages) if leakages else np.zeros(0)
    return value, leaks, used, xp.stack(excesses).max()


def _into_set(xp: Any, term: Term, k: Any, price: Any) -> Any:
    """k (Y, T) moved into price * G; `price` (Y,), ones in role OBJECTIVE."""
    r = xp.asarray(term.reference)
    if not term.smooth:
        k = xp.where(xp.isfinite(k), xp.maximum(k, 0.0), 0.0)
        if term.cap is not None:
            return xp.minimum(k, term.cap * price[:, None])
        if not term.normalised:
            return k
        if term.role is Role.WORST:  # reference . k = 0, shrinking one side
            plus, minus = k @ xp.maximum(r, 0.0), k @ xp.maximum(-r, 0.0)
            least = xp.minimum(plus, minus)
            factor = [xp.where(side > 0, least / xp.where(side > 0, side, 1.0), 0.0) for side in (plus, minus)]
            return k * xp.where(r > 0, factor[0][:, None], factor[1][:, None])
        total = k @ r
        fallback = xp.where(np.arange(len(r)) == 0, 1.0 / r, 0.0)
        shares = xp.where((total > 0)[:, None], k / xp.where(total > 0, total, 1.0)[:, None], fallback)
        return shares * price[:, None]
    held = price > 0
    g = xp.where(held[:, None], k / xp.where(held, price, 1.0)[:, None], 0.0)
    g = xp.where(xp.isfinite(g), g, 0.0)
    return _rule(xp, term, g) * price[:, None]


def _rule(xp: Any, term: Term, g: Any) -> Any:
    """g (Y, T) moved into the set of a smooth term."""
    r = xp.asarray(term.reference)
    if term.kind is Kind.ENTROPIC:
        seen = r > 0
        g = xp.where(seen, xp.clip(g, _LOWEST_SCORE, -_LOWEST_SCORE), _LOWEST_SCORE)
        g = g - g.max(axis=1, keepdims=True)
        total = r.sum()
        mean = (r * xp.exp(g)).sum(axis=1, keepdims=True) / total
        short = (r * xp.expm1(g)).sum(axis=1, keepdims=True) / total
        level = xp.where(mean > 0.5, xp.log1p(xp.where(mean > 0.5, short, 0.0)), xp.log(mean))
        return xp.where(seen, g - level - _log_of_total(xp, total), 0.0)
    if term.kind is Kind.POWER:
        b = term.parameter
        # Powers of numbers on the side of 1 where they cannot overflow: b < 0 for orders < 1.
        if term.negative:
            y = xp.clip(-g, 1e-150, 1e150)
            y = y / y.min(axis=1, keepdims=True)
        else:
            top = g.max(axis=1, keepdims=True)
            y = xp.where(top > 0, xp.maximum(g, 0.0) / xp.where(top > 0, top, 1.0), 1.0)
        y = y * ((r * y**b).sum(axis=1, keepdims=True)) ** (-1.0 / b)
        return -y if term.negative else y
    if term.kind is Kind.LOSS:
        return user.announced(term.function, g)
    u = g[:, :-1]
    high = 1.0 - 1e-12
    if term.kind is Kind.GENERATOR:
        u, conjugate = user.supporting_lines(term.function, u)
        return _with_level(xp, r, u, conjugate)
    if term.kind is Kind.CHI_SQUARED:
        u = xp.maximum(u, -2.0)
        conjugate = u + 0.25 * u * u
    elif term.kind is Kind.REVERSE_KL:
        u = xp.minimum(u, high)
        conjugate = -xp.log1p(-u)
    elif term.kind is Kind.HELLINGER:
        u = xp.minimum(u, high)
        conjugate = u / (1.0 - u)
    else:
        u = xp.minimum(u, 0.5 * np.log(2.0) - 1e-12)
        # ln((1+t)/2)/2 with 1 + t = 2/(2 - e^{2u}); accurate relative to u, which a high price multiplies.
        conjugate = -0.5 * xp.log1p(-xp.expm1(2.0 * u))
    return _with_level(xp, r, u, conjugate)


def _with_level(xp: Any, r: Any, u: Any, conjugate: Any) -> Any:
    """Slopes u of an f, and in the last column what their conjugates sum to."""
    return xp.concatenate([u, -(r[:-1] * conjugate).sum(axis=1)[:, None]], axis=1)


def _dual(xp: Any, program: MeasuredProgram, k: Any, eta: Any, price: Any) -> Any:
    inputs, outputs = program.cost.shape
    limits = len(program.budgets)
    eta, price = nonnegative(xp, eta), nonnegative(xp, price)
    if program.peaked:
        price = shared_prices(xp, program, price)
    cost = xp.asarray(program.cost, dtype=k.dtype)
    size = abs(cost).max(axis=1).sum()
    spent, start, worst, limit = 0.0, 0, 0, limits
    for term in program.terms:
        own = k[:, start : start + len(term.rows)]
        start += len(term.rows)
        weight = xp.ones(outputs, dtype=k.dtype)
        if term.priced:
            weight = weight * price[limit]
            spent = spent + price[limit] * term.bound
            size = size + abs(price[limit] * term.bound)
            limit += 1
        elif term.smooth and term.role is Role.WORST:
            weight = eta[:, worst]
            worst += 1
            cost = cost + term.offset[:, None] * weight
            size = size + (abs(term.offset)[:, None] * weight).max(axis=1).sum()
        valid = _into_set(xp, term, own, weight)
        cost = cost + (valid @ term.rows).T
        size = size + (abs(valid) @ abs(term.rows)).max(axis=0).sum()
        # The move into the set is exact to a relative 8 u in every rule, and so is its level.
        if term.smooth:
            size = size + (abs(valid).max(axis=1) * abs(term.rows).sum(axis=0).max()).max()
    # As in `dense`: constraints are taken above the cheapest output of every row.
    floors = program.constraints.min(axis=2, keepdims=True)
    cost = cost + (price[:limits, None, None] * (program.constraints - floors)).sum(axis=0)
    slack = program.budgets - floors.sum(axis=(1, 2))
    spent = spent + price[:limits] @ slack
    size = size + price[:limits] @ (abs(slack) + abs(floors).sum(axis=(1, 2)))
    least = cost.min(axis=1)
    size = size + abs(least).sum()
    chain = 2 * (max((len(term.rows) for term in program.terms), default=0) + inputs) + limits + 16
    bound = least.sum() - spent - chain * _unit(k) * size
    return xp.where(xp.isfinite(bound), bound, -np.inf)


def shared_prices(xp: Any, program: MeasuredProgram, price: Any) -> Any:
    """Prices, those that share the peak divided by their sum."""
    peaks = np.array([float(term.role is Role.PEAK) for term in program.terms if term.priced])
    marks = xp.concatenate([program.marks, peaks])
    total = (marks * price).sum()
    known = total > 0
    return xp.where(marks > 0, xp.where(known, price / xp.where(known, total, 1.0), marks / marks.sum()), price)
