"""The sets of decision rules: their boundary, its normals and curvature, and their support function."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv.problems.loss import CENTRED
from jaxpriv.problems.measured import Kind, Role, Term
from jaxpriv.solvers.conic.conjugate import conjugate


class Boundary(NamedTuple):
    """h at g: {h = 0} is the boundary of a smooth set. All of shape (Y, T) but level and size (Y,)."""

    level: Any
    normal: Any  # dh/dg
    size: Any  # the sum of the normal
    curvature: Any  # the Hessian, up to multiples of normal normal': its diagonal, or (Y, T, T) for LOSS
    normal_drift: Any = None  # d normal / d smoothing, LOSS alone
    level_drift: Any = None  # d level / d smoothing, LOSS alone


def boundary(term: Term, g: Any, smoothing: Any = CENTRED) -> Boundary:
    """The set of a smooth term at rules g, (Y, T); that of a LOSS, which may have kinks, so smooth as `smoothing`."""
    r, g = term.reference, term.whole(g)
    if term.kind is Kind.ENTROPIC:
        seen = r > 0
        tilted = xp.where(seen, g + xp.log(xp.where(seen, r, 1.0)), -xp.inf)
        top = tilted.max(axis=1, keepdims=True)
        e = xp.exp(tilted - top)
        total = e.sum(axis=1, keepdims=True)
        return Boundary((top + xp.log(total))[:, 0], e / total, xp.ones_like(total[:, 0]), e / total)
    if term.kind is Kind.POWER:
        b = term.parameter
        y = -g if term.negative else g
        size = abs(b)
        power = r * y ** (b - 1.0)
        return Boundary(((power * y).sum(axis=1) - 1.0) / size, power, power.sum(axis=1), abs(b - 1.0) * power / y)
    if term.kind is Kind.LOSS:
        spread = jnp.broadcast_to(jnp.asarray(smoothing, g.dtype), g.shape[:1])
        found = term.function.answers(g, spread)
        v = found.posterior
        bent = found.response + v[:, :, None] * v[:, None, :]
        return Boundary(found.level, v, v.sum(axis=1), bent, found.posterior_drift, found.level_drift)
    value, slope, curvature = _conjugate(term, g[:, :-1])
    level = (r[:-1] * value).sum(axis=1) + g[:, -1]
    one = xp.ones_like(g[:, -1:])
    normal = xp.concatenate([r[:-1] * slope, one], axis=1)
    return Boundary(
        level,
        normal,
        normal.sum(axis=1),
        xp.concatenate([r[:-1] * curvature, 0.0 * one], axis=1),
    )


def _conjugate(term: Term, u: Any) -> tuple[Any, Any, Any]:
    """f*(u), f*'(u) (the lift) and f*''(u)."""
    kind = term.kind
    if kind is Kind.GENERATOR:
        return conjugate(term.function, u)
    if kind is Kind.CHI_SQUARED:
        t = 1.0 + 0.5 * u
        return t * t - 1.0, t, xp.full_like(u, 0.5)
    if kind is Kind.REVERSE_KL:  # f = -ln t + t - 1
        t = 1.0 / (1.0 - u)
        return xp.log(t), t, t * t
    if kind is Kind.HELLINGER:  # f = (sqrt t - 1)^2
        s = 1.0 / (1.0 - u)
        return u * s, s * s, 2.0 * s**3
    # Jensen-Shannon, f = (t ln t - (1+t) ln((1+t)/2))/2, f' = ln(2t/(1+t))/2
    e = xp.exp(2.0 * u)
    t = e / (2.0 - e)
    return 0.5 * xp.log(0.5 * (1.0 + t)), t, 2.0 * t * (1.0 + t)


def domain(term: Term) -> tuple[float, float]:
    """The open interval of the coordinates of `whole` rules of a smooth term (the last one of f kinds is free)."""
    if term.kind is Kind.POWER:
        return (-math.inf, 0.0) if term.negative else (0.0, math.inf)
    if term.kind is Kind.GENERATOR:
        return term.function.lowest, term.function.highest
    highest = {Kind.REVERSE_KL: 1.0, Kind.HELLINGER: 1.0, Kind.JENSEN_SHANNON: 0.5 * math.log(2.0)}
    lowest = {Kind.CHI_SQUARED: -2.0}
    return lowest.get(term.kind, -math.inf), highest.get(term.kind, math.inf)


def rule_at(term: Term, w: Any) -> Any:
    """The natural rule of a smooth term where it sees w > 0: the gradient of phi. (T,), or (Y, T) for every output."""
    rule = _gradient(term, w)
    return rule if term.centre is None else rule - term.centre


def prior_rule(term: Term) -> Any:
    """A best rule about an output that tells nothing, (T,)."""
    prior = term.rows.sum(axis=1)
    if term.smooth:
        return rule_at(term, prior)
    if term.cap is not None:
        return xp.where(prior > 0, term.cap, 0.0)
    safe = xp.where(term.reference > 0, term.reference, 1.0)
    best = np.arange(len(prior)) == xp.where(term.reference > 0, prior / safe, -xp.inf).argmax()
    return xp.where(best, 1.0 / safe, 0.0)


def _gradient(term: Term, w: Any) -> Any:
    """A row without reference, of a symbol without mass, gets the rule of an average one: it counts nothing."""
    r, seen = term.reference, term.reference > 0
    safe = xp.where(seen, r, 1.0)
    if term.kind is Kind.ENTROPIC:
        ratio = xp.where(seen, w / (safe * w.sum(axis=-1, keepdims=True)), 1.0)
        return xp.log(ratio)
    if term.kind is Kind.POWER:
        y = xp.where(seen, w / safe, 1.0) ** (1.0 / (term.parameter - 1.0))
        y = y * (r * y**term.parameter).sum(axis=-1, keepdims=True) ** (-1.0 / term.parameter)
        return -y if term.negative else y
    if term.kind is Kind.LOSS:
        return -(term.function.answered(w) if w.ndim == 1 else xp.each(term.function.answered, w))
    t = xp.where(seen[:-1], w[..., :-1] / (safe[:-1] * w[..., -1:]), 1.0)
    u = _slope(term, t)
    conjugated = u * t - _generator(term, t) if term.kind is Kind.GENERATOR else _conjugate(term, u)[0]
    return xp.concatenate([u, -(r[:-1] * conjugated).sum(axis=-1, keepdims=True)], axis=-1)


def _slope(term: Term, t: Any) -> Any:
    """f'(t)."""
    kind = term.kind
    if kind is Kind.GENERATOR:
        return term.function.slope(t)
    if kind is Kind.CHI_SQUARED:
        return 2.0 * (t - 1.0)
    if kind is Kind.REVERSE_KL:
        return 1.0 - 1.0 / t
    if kind is Kind.HELLINGER:
        return 1.0 - 1.0 / xp.sqrt(t)
    return 0.5 * xp.log(2.0 * t / (1.0 + t))


def normalised(term: Term, g: Any, level: Any) -> Any:
    """Rules moved into the set: (Y, T) -> (Y, T)."""
    if term.kind in (Kind.ENTROPIC, Kind.LOSS):
        return g - level[:, None]
    if term.kind is Kind.POWER:
        # sum r y^b = 1 + b level; y scaled to the boundary
        total = 1.0 + abs(term.parameter) * level
        return g + term.whole(g) * xp.expm1(-xp.log(total) / term.parameter)[:, None]
    return xp.add_at(g, np.s_[:, -1], -level)


def support(term: Term, w: Any) -> Any:
    """phi of every output from what the term sees of it, w (Y, T), less what `centre` claims: shape (Y,)."""
    phi = _support(term, w)
    return phi if term.centre is None else phi - w @ term.centre


def _support(term: Term, w: Any) -> Any:
    r, tiny = term.reference, np.finfo(w.dtype).tiny
    if term.kind is Kind.ENTROPIC:
        mass = w.sum(axis=1, keepdims=True)
        ratio = xp.maximum(w, tiny) / (xp.where(r > 0, r, 1.0) * xp.maximum(mass, tiny))
        return xp.where(w > tiny, w * xp.log(ratio), 0.0).sum(axis=1)
    if term.kind is Kind.POWER:
        # 1/a + 1/b = 1 with a the order: phi = +-(sum r^(1-a) w^a)^(1/a)
        a = term.parameter / (term.parameter - 1.0)
        lift = xp.maximum(w, 0.0) / xp.where(r > 0, r, 1.0)
        top = xp.maximum(lift.max(axis=1, keepdims=True), tiny)
        inner = (r * xp.where(lift > 0, lift / top, 0.0) ** a).sum(axis=1) ** (1.0 / a)
        return (-1.0 if term.negative else 1.0) * top[:, 0] * inner
    if term.kind is Kind.LINEAR:
        if term.cap is not None:
            return (term.cap * xp.maximum(w, 0.0)).sum(axis=1)
        return (w / xp.where(r > 0, r, 1.0)).max(axis=1) if term.role is not Role.WORST else _violation(term, w)
    if term.kind is Kind.LOSS:
        return -term.function.leasts(xp.maximum(w, 0.0))
    # An output without mass has no lift (0/0), and adds nothing.
    mass = xp.where(w[:, -1:] > tiny, w[:, -1:], 1.0)
    positive = (w[:, -1:] > tiny) & (r[:-1] > 0)
    lift = xp.where(positive, w[:, :-1] / xp.where(positive, r[:-1] * mass, 1.0), 1.0)
    return mass[:, 0] * (r[:-1] * _generator(term, lift)).sum(axis=1)


def _violation(term: Term, w: Any) -> Any:
    """By how much no t has w <= t reference, 0 or less if one has: (Y,)."""
    r = term.reference
    if not term.normalised:
        return w.max(axis=1)
    lower = xp.where(r > 0, w / xp.where(r > 0, r, 1.0), -xp.inf).max(axis=1)  # t >= w/r
    upper = xp.where(r < 0, w / xp.where(r < 0, r, 1.0), xp.inf).min(axis=1)  # t <= w/r
    return lower - upper


def _generator(term: Term, t: Any) -> Any:
    """f(t)."""
    kind = term.kind
    if kind is Kind.GENERATOR:
        return term.function.value(t)
    if kind is Kind.CHI_SQUARED:
        return (t - 1.0) ** 2
    if kind is Kind.REVERSE_KL:
        return t - 1.0 - xp.log(t)
    if kind is Kind.HELLINGER:
        return (xp.sqrt(t) - 1.0) ** 2
    m = 0.5 * (1.0 + t)
    return 0.5 * (xp.where(t > 0, t * xp.log(xp.where(t > 0, t, 1.0) / m), 0.0) - xp.log(m))
