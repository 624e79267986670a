"""The certificate of a program with any measures: `dense` for every set of decision rules.

Whatever rules k, prices eta (one for each output and each worst-outcome limit of a smooth term) and prices
of the limits a solver hands over, they are first moved into the sets of `problems.measured`; then

    OPT >= sum_x min_y [ cost + sum_j k_j(y) A_j + sum_j eta_j(y) offset_j + price . constraints ](x, y)
           - sum_i price_i bound_i

because <k_j(y), A_j W_y> <= price_j phi_j(y) for k_j(y) in price_j G_j, and <k, A W_y> + eta offset . W_y <= 0
for a worst-outcome limit. Everything is computed afresh here, in NumPy float64, by formulas of its own.
"""

from typing import Any

import numpy as np

from jaxpriv.certificates import user
from jaxpriv.certificates.dense import Certificate, nonnegative
from jaxpriv.problems.measured import Kind, MeasuredProgram, Role, Term

_UNIT = float(np.finfo(np.float64).eps) / 2
_LOWEST_SCORE = -700.0


def certify_measured(program: MeasuredProgram, mechanism: Any, k: Any, eta: Any, price: Any) -> Certificate:
    """Value and lower bound of `mechanism`, proved by the rules `k` (Y, T) and the prices.

    `leakages` of the certificate holds, for every term, the sum over outputs of phi (roles OBJECTIVE,
    AVERAGE, PEAK) or the largest excess relative to the mass of the output (role WORST).
    """
    mechanism = np.asarray(mechanism, dtype=np.float64)
    value, leakages, used, violation = _primal(program, mechanism)
    with np.errstate(over="ignore", invalid="ignore"):  # of absurd rules: then nothing is proved
        bound = _dual(program, *(np.asarray(part, dtype=np.float64) for part in (k, eta, price)))
    return Certificate(value, bound, leakages, used, violation)


def violation_of(program: MeasuredProgram, mechanism: Any) -> float:
    """The `violation` of the certificate alone: 0 for a mechanism that meets every limit."""
    return _primal(program, np.asarray(mechanism, dtype=np.float64))[3]


def column_values(term: Term, w: np.ndarray) -> np.ndarray:
    """phi of what the term sees of every output, w (T, Y): shape (Y,)."""
    r = np.asarray(term.reference)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        if term.kind is Kind.ENTROPIC:
            w = np.maximum(w, 0.0)
            mass = w.sum(axis=0)
            # With r = R p, sum p = 1: w ln(w/(p m)) as m p (t ln t - t + 1) >= 0, so that small values keep
            # their digits, and -m ln R apart.
            whole = r.sum()
            product = r / whole * mass
            ratio = np.where(product > 0, w / np.where(product > 0, product, 1.0), 0.0)
            terms = np.where(ratio > 0, ratio * np.log(np.where(ratio > 0, ratio, 1.0)), 0.0) - ratio + 1.0
            return (product * terms).sum(axis=0) - mass * (np.log(whole) if abs(whole - 1.0) > 1e-12 else 0.0)
        if term.kind is Kind.POWER:
            order = float(term.parameter / (term.parameter - 1.0))
            lift = np.maximum(w, 0.0) / r
            top = lift.max(axis=0)
            inner = (r * (lift / np.where(top > 0, top, 1.0)) ** order).sum(axis=0) ** (1.0 / order)
            return (-1.0 if term.negative else 1.0) * top * inner
        if term.kind is Kind.LINEAR:
            if term.cap is not None:
                return (np.asarray(term.cap)[:, None] * np.maximum(w, 0.0)).sum(axis=0)
            return (w / r).max(axis=0)
        if term.kind is Kind.LOSS:
            return user.most_saved(term.function, w)
        mass = w[-1]
        present = mass > 0
        lift = np.where(present, w[:-1] / (r[:-1] * np.where(present, mass, 1.0)), 1.0)
        return np.where(present, mass * (r[:-1] * _generator(term, np.maximum(lift, 0.0))).sum(axis=0), 0.0)


def _generator(term: Term, t: np.ndarray) -> np.ndarray:
    kind = term.kind
    if kind is Kind.GENERATOR:
        return user.values(term.function, t)
    if kind is Kind.CHI_SQUARED:
        return (t - 1.0) ** 2
    if kind is Kind.REVERSE_KL:
        return np.where(t > 0, t - 1.0 - np.log(np.where(t > 0, t, 1.0)), np.inf)
    if kind is Kind.HELLINGER:
        return (np.sqrt(t) - 1.0) ** 2
    middle = 0.5 * (1.0 + t)
    return 0.5 * (np.where(t > 0, t * np.log(np.where(t > 0, t, 1.0) / middle), 0.0) - np.log(middle))


def _excess(term: Term, mechanism: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By how much every output exceeds a worst-outcome limit, and the scale of its rounding."""
    w = term.rows @ mechanism
    size = abs(term.rows) @ mechanism
    if term.smooth:
        own = np.asarray(term.offset) @ mechanism
        return column_values(term, w) + own, size.sum(axis=0) * 40.0 + abs(np.asarray(term.offset)) @ mechanism
    if not term.normalised:
        return w.max(axis=0), size.max(axis=0)
    r = np.asarray(term.reference)
    up, down = r > 0, r < 0
    lower = (w[up] / r[up, None]).max(axis=0)
    upper = w[down] / r[down, None]
    tight, outputs = upper.argmin(axis=0), np.arange(mechanism.shape[1])
    # The scale is that of the two rows that meet: e^eps times smaller than the largest row where eps is large.
    scale = (size[up] / r[up, None]).max(axis=0) + (size[down] / -r[down, None])[tight, outputs]
    return lower - upper[tight, outputs], scale


def _primal(program: MeasuredProgram, mechanism: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, float]:
    slop = 4 * (sum(mechanism.shape) + max((len(term.rows) for term in program.terms), default=0)) * _UNIT
    used = (program.constraints * mechanism).sum(axis=(1, 2))
    linear = (program.cost * mechanism).sum()
    value = linear + slop * (abs(program.cost) * mechanism).sum()
    violation, peaks, leakages = 0.0, [], []
    for term in program.terms:
        if term.role is Role.WORST:
            excess, size = _excess(term, mechanism)
            relative = excess / np.where(size > 0, size, 1.0)
            leakages.append(relative.max())
            violation = max(violation, float(relative.max()) - 4 * slop)
            continue
        columns = column_values(term, term.rows @ mechanism)
        total, size = columns.sum(), abs(columns).sum() + (abs(term.rows) @ mechanism).sum()
        leakages.append(total)
        if term.role is Role.OBJECTIVE:
            value += total + slop * size
        elif term.role is Role.PEAK:
            peaks.append(total - float(term.bound) + slop * size)
        else:
            relative = (total - float(term.bound)) / (size + abs(float(term.bound))) if np.isfinite(total) else np.inf
            violation = max(violation, float(relative) - 4 * slop)
    scale = abs(program.budgets) + (abs(program.constraints) * mechanism).sum(axis=(1, 2))
    relative = (used - program.budgets) / np.where(scale > 0, scale, 1.0)
    shared = program.marks > 0
    violation = max(violation, float((relative[~shared] - 4 * slop).max(initial=0.0)))
    peaks.extend((used - program.budgets + slop * scale)[shared])
    if peaks:
        value += max(peaks)
    outside = max(abs(mechanism.sum(axis=1) - 1.0).max() - 4 * slop, -float(mechanism.min()))
    return float(value), np.array(leakages), used, max(violation, float(outside), 0.0)


def _into_set(term: Term, k: np.ndarray, price: np.ndarray) -> np.ndarray:
    """k (Y, T) moved into price * G; `price` (Y,), ones in role OBJECTIVE."""
    r = np.asarray(term.reference)
    if not term.smooth:
        k = np.where(np.isfinite(k), np.maximum(k, 0.0), 0.0)
        if term.cap is not None:
            return np.minimum(k, np.asarray(term.cap) * price[:, None])
        if not term.normalised:
            return k
        if term.role is Role.WORST:  # reference . k = 0, shrinking one side
            plus, minus = k @ np.maximum(r, 0.0), k @ np.maximum(-r, 0.0)
            least = np.minimum(plus, minus)
            factor = [np.where(side > 0, least / np.where(side > 0, side, 1.0), 0.0) for side in (plus, minus)]
            return k * np.where(r > 0, factor[0][:, None], factor[1][:, None])
        total = k @ r
        fallback = np.zeros_like(r)
        fallback[0] = 1.0 / r[0]
        return np.where((total > 0)[:, None], k / np.where(total > 0, total, 1.0)[:, None], fallback) * price[:, None]
    held = price > 0
    g = np.where(held[:, None], k / np.where(held, price, 1.0)[:, None], 0.0)
    g = np.where(np.isfinite(g), g, 0.0)
    return _rule(term, g) * price[:, None]


def _rule(term: Term, g: np.ndarray) -> np.ndarray:
    """g (Y, T) moved into the set of a smooth term."""
    r = np.asarray(term.reference)
    if term.kind is Kind.ENTROPIC:
        g = np.clip(g, _LOWEST_SCORE, -_LOWEST_SCORE)
        g = g - g.max(axis=1, keepdims=True)
        total = r.sum()
        mean = (r * np.exp(g)).sum(axis=1, keepdims=True) / total
        short = (r * np.expm1(g)).sum(axis=1, keepdims=True) / total
        level = np.where(mean > 0.5, np.log1p(np.where(mean > 0.5, short, 0.0)), np.log(mean))
        return g - level - (np.log(total) if abs(total - 1.0) > 1e-12 else 0.0)
    if term.kind is Kind.POWER:
        b = float(term.parameter)
        # Powers of numbers on the side of 1 where they cannot overflow: b < 0 for orders < 1.
        if term.negative:
            y = np.clip(-g, 1e-150, 1e150)
            y = y / y.min(axis=1, keepdims=True)
        else:
            top = g.max(axis=1, keepdims=True)
            y = np.where(top > 0, np.maximum(g, 0.0) / np.where(top > 0, top, 1.0), 1.0)
        y = y * ((r * y**b).sum(axis=1, keepdims=True)) ** (-1.0 / b)
        return -y if term.negative else y
    if term.kind is Kind.LOSS:
        return user.announced(term.function, g)
    u = g[:, :-1]
    high = 1.0 - 1e-12
    if term.kind is Kind.GENERATOR:
        u, conjugate = user.supporting_lines(term.function, u)
        return np.column_stack([u, -(r[:-1] * conjugate).sum(axis=1)])
    if term.kind is Kind.CHI_SQUARED:
        u = np.maximum(u, -2.0)
        conjugate = u + 0.25 * u * u
    elif term.kind is Kind.REVERSE_KL:
        u = np.minimum(u, high)
        conjugate = -np.log1p(-u)
    elif term.kind is Kind.HELLINGER:
        u = np.minimum(u, high)
        conjugate = u / (1.0 - u)
    else:
        u = np.minimum(u, 0.5 * np.log(2.0) - 1e-12)
        # ln((1+t)/2)/2 with 1 + t = 2/(2 - e^{2u}); accurate relative to u, which a high price multiplies.
        conjugate = -0.5 * np.log1p(-np.expm1(2.0 * u))
    level = (r[:-1] * conjugate).sum(axis=1)
    return np.column_stack([u, -level])


def _dual(program: MeasuredProgram, k: np.ndarray, eta: np.ndarray, price: np.ndarray) -> float:
    inputs, outputs = program.cost.shape
    limits = len(program.budgets)
    eta, price = nonnegative(np, eta), nonnegative(np, price)
    marks = np.concatenate(
        [np.asarray(program.marks), [float(term.role is Role.PEAK) for term in program.terms if term.priced]]
    )
    if program.peaked:
        total = (marks * price).sum()
        even = marks / marks.sum()
        price = np.where(marks > 0, price / total if total > 0 else even, price)
    cost = np.array(program.cost, dtype=np.float64)
    size = abs(cost).max(axis=1).sum()
    spent, start, worst, limit = 0.0, 0, 0, limits
    for term in program.terms:
        own = k[:, start : start + len(term.rows)]
        start += len(term.rows)
        weight = np.ones(outputs)
        if term.priced:
            weight = np.full(outputs, price[limit])
            spent += price[limit] * float(term.bound)
            size += abs(price[limit] * float(term.bound))
            limit += 1
        elif term.smooth and term.role is Role.WORST:
            weight = eta[:, worst]
            worst += 1
            cost += np.outer(term.offset, weight)
            size += (abs(np.asarray(term.offset))[:, None] * weight).max(axis=1).sum()
        valid = _into_set(term, own, weight)
        cost += (valid @ term.rows).T
        size += (abs(valid) @ abs(term.rows)).max(axis=0).sum()
        # The move into the set is exact to a relative 8 u in every rule, and so is its level.
        size += float((abs(valid).max(axis=1) * abs(term.rows).sum(axis=0).max()).max()) if term.smooth else 0.0
    # As in `dense`: constraints are taken above the cheapest output of every row.
    floors = program.constraints.min(axis=2, keepdims=True)
    cost += (price[:limits, None, None] * (program.constraints - floors)).sum(axis=0)
    slack = program.budgets - floors.sum(axis=(1, 2))
    spent += float(price[:limits] @ slack)
    size += float(price[:limits] @ (abs(slack) + abs(floors).sum(axis=(1, 2))))
    least = cost.min(axis=1)
    size += abs(least).sum()
    chain = 2 * (max((len(term.rows) for term in program.terms), default=0) + inputs) + limits + 16
    bound = float(least.sum() - spent - chain * _UNIT * size)
    return bound if np.isfinite(bound) else -np.inf
