"""The rules of f-divergences: slopes of f, and what their conjugates sum to.

For f convex with f(1) = f'(1) = 0 and reference r, phi(w) = m sum_i r_i f( w_i/(r_i m) ) with m the mass of the
output, the last row. Rules are u_i = f'(ratio) in the rows of the symbols, and at most -sum_i r_i f*(u_i) in the last.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv._types import Arr, ScalarLike
from jaxpriv.leakage.rule_sets import AbstractRuleSet, Boundary, Rules, Term, View

# How far below its end the slopes of a certificate stay, where the conjugate is infinite.
_INSIDE = 1e-12


@dataclass(frozen=True)
class AbstractCurve(ABC):
    """A convex f with f(1) = f'(1) = 0 as programs and proofs need it. The first four are a solver's."""

    users: ClassVar[bool] = False  # a user's function in JAX

    @property
    @abstractmethod
    def slopes(self) -> tuple[float, float]:
        """The open interval of the slopes of f."""

    @abstractmethod
    def value(self, t: Arr) -> Arr:
        """f(t), t >= 0."""

    @abstractmethod
    def slope(self, t: Arr) -> Arr:
        """f'(t), t > 0."""

    @abstractmethod
    def conjugate(self, u: Arr) -> tuple[Arr, Arr, Arr]:
        """f*(u), f*'(u) (the ratio t) and f*''(u)."""

    def conjugate_at(self, t: Arr, u: Arr) -> Arr:
        """f*(u) for u = f'(t)."""
        del t
        return self.conjugate(u)[0]

    def exact(self, t: Arr) -> Arr:
        """f(t), t >= 0, for a certificate: inf where it is infinite. `value`, where that is so at 0 too."""
        return self.value(t)

    @abstractmethod
    def lines(self, u: Arr) -> tuple[Arr, Arr]:
        """(u, c) with f(t) >= u t - c for every t >= 0, u the slopes wanted or the nearest that f has; c >= f*(u)."""


@dataclass(frozen=True)
class FRules(AbstractRuleSet):
    """sum_i r_i f*(g_i) + g_last <= 0, the last row the mass."""

    curve: AbstractCurve
    massed: ClassVar[bool] = True

    @property
    def users(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.curve.users

    @property
    def strict(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return not self.curve.users  # a user's f may be straight about 1

    def boundary(self, term: Term, g: Arr, smoothing: ScalarLike) -> Boundary:
        del smoothing
        r = term.reference
        value, slope, curvature = xp.called(self.curve.conjugate, g[:, :-1])
        level = (r[:-1] * value).sum(axis=1) + g[:, -1]
        one = xp.ones_like(g[:, -1:])
        normal = xp.concatenate([r[:-1] * slope, one], axis=1)
        bent = xp.concatenate([r[:-1] * curvature, 0.0 * one], axis=1)
        return Boundary(level, normal, normal.sum(axis=1), bent)

    def gradient(self, term: Term, w: Arr) -> Arr:
        r, seen = term.reference, term.reference > 0
        safe = xp.where(seen, r, 1.0)
        t = xp.where(seen[:-1], w[..., :-1] / (safe[:-1] * w[..., -1:]), 1.0)
        u = xp.called(self.curve.slope, t)
        last = -(r[:-1] * xp.called(self.curve.conjugate_at, t, u)).sum(axis=-1, keepdims=True)
        return xp.concatenate([u, last], axis=-1)

    def support(self, term: Term, w: Arr) -> Arr:
        r, tiny = term.reference, np.finfo(w.dtype).tiny
        # An output without mass has no lift (0/0), and adds nothing.
        mass = xp.where(w[:, -1:] > tiny, w[:, -1:], 1.0)
        positive = (w[:, -1:] > tiny) & (r[:-1] > 0)
        lift = xp.where(positive, w[:, :-1] / xp.where(positive, r[:-1] * mass, 1.0), 1.0)
        return mass[:, 0] * (r[:-1] * xp.called(self.curve.value, lift)).sum(axis=1)

    def normalised(self, term: Term, g: Arr, level: Arr) -> Arr:
        del term
        return xp.add_at(g, np.s_[:, -1], -level)

    def domain(self, term: Term) -> tuple[float, float]:
        del term
        return self.curve.slopes

    def columns(self, term: Term, w: Arr) -> Arr:
        r, mass = term.reference[..., :-1, None], w[..., -1:, :]
        present = mass > 0
        positive = present & (r > 0)
        lift = xp.where(positive, w[..., :-1, :] / xp.where(positive, r * mass, 1.0), 1.0)
        total = (r * xp.called(self.curve.exact, xp.maximum(lift, 0.0))).sum(axis=-2)
        return xp.where(present[..., 0, :], mass[..., 0, :] * total, 0.0)

    def moved_in(self, term: Term, g: Arr) -> Arr:
        u, conjugate = xp.called(self.curve.lines, g[..., :-1])
        last = -(term.reference[..., None, :-1] * conjugate).sum(axis=-1, keepdims=True)
        return xp.concatenate([u, last], axis=-1)


def f_rules(curve: AbstractCurve, view: View) -> Rules:
    """The rules of sum_s p_s |w| f( w_s/(p_s |w|) )."""
    return Rules(FRules(curve), *with_mass(view.joint, view.prior, view.mass))


def with_mass(rows: Arr, reference: Arr, mass: Arr) -> tuple[Arr, Arr]:
    """(rows, reference) with the mass of the output as the last row."""
    return xp.concatenate([rows, mass[None]]), xp.append(reference, 1.0)


@dataclass(frozen=True)
class ChiSquaredCurve(AbstractCurve):
    """f = (t - 1)^2."""

    @property
    def slopes(self) -> tuple[float, float]:
        return -2.0, math.inf

    def value(self, t: Arr) -> Arr:
        return (t - 1.0) ** 2

    def slope(self, t: Arr) -> Arr:
        return 2.0 * (t - 1.0)

    def conjugate(self, u: Arr) -> tuple[Arr, Arr, Arr]:
        t = 1.0 + 0.5 * u
        return t * t - 1.0, t, xp.full_like(u, 0.5)

    def lines(self, u: Arr) -> tuple[Arr, Arr]:
        u = xp.maximum(u, -2.0)
        return u, u + 0.25 * u * u


@dataclass(frozen=True)
class ReverseKullbackLeiblerCurve(AbstractCurve):
    """f = -ln t + t - 1."""

    @property
    def slopes(self) -> tuple[float, float]:
        return -math.inf, 1.0

    def value(self, t: Arr) -> Arr:
        return t - 1.0 - xp.log(t)

    def slope(self, t: Arr) -> Arr:
        return 1.0 - 1.0 / t

    def conjugate(self, u: Arr) -> tuple[Arr, Arr, Arr]:
        t = 1.0 / (1.0 - u)
        return xp.log(t), t, t * t

    def exact(self, t: Arr) -> Arr:
        return xp.where(t > 0, t - 1.0 - xp.log(xp.where(t > 0, t, 1.0)), np.inf)

    def lines(self, u: Arr) -> tuple[Arr, Arr]:
        u = xp.minimum(u, 1.0 - _INSIDE)
        return u, -xp.log1p(-u)


@dataclass(frozen=True)
class HellingerCurve(AbstractCurve):
    """f = (sqrt t - 1)^2."""

    @property
    def slopes(self) -> tuple[float, float]:
        return -math.inf, 1.0

    def value(self, t: Arr) -> Arr:
        return (xp.sqrt(t) - 1.0) ** 2

    def slope(self, t: Arr) -> Arr:
        return 1.0 - 1.0 / xp.sqrt(t)

    def conjugate(self, u: Arr) -> tuple[Arr, Arr, Arr]:
        s = 1.0 / (1.0 - u)
        return u * s, s * s, 2.0 * s**3

    def exact(self, t: Arr) -> Arr:
        return xp.where(t > 0, (xp.sqrt(xp.where(t > 0, t, 1.0)) - 1.0) ** 2, 1.0)

    def lines(self, u: Arr) -> tuple[Arr, Arr]:
        u = xp.minimum(u, 1.0 - _INSIDE)
        return u, u / (1.0 - u)


@dataclass(frozen=True)
class JensenShannonCurve(AbstractCurve):
    """f = (t ln t - (1+t) ln((1+t)/2))/2, f' = ln(2t/(1+t))/2."""

    @property
    def slopes(self) -> tuple[float, float]:
        return -math.inf, 0.5 * math.log(2.0)

    def value(self, t: Arr) -> Arr:
        m = 0.5 * (1.0 + t)
        return 0.5 * (xp.where(t > 0, t * xp.log(xp.where(t > 0, t, 1.0) / m), 0.0) - xp.log(m))

    def slope(self, t: Arr) -> Arr:
        return 0.5 * xp.log(2.0 * t / (1.0 + t))

    def conjugate(self, u: Arr) -> tuple[Arr, Arr, Arr]:
        e = xp.exp(2.0 * u)
        t = e / (2.0 - e)
        return 0.5 * xp.log(0.5 * (1.0 + t)), t, 2.0 * t * (1.0 + t)

    def lines(self, u: Arr) -> tuple[Arr, Arr]:
        u = xp.minimum(u, 0.5 * np.log(2.0) - _INSIDE)
        # ln((1+t)/2)/2 with 1 + t = 2/(2 - e^{2u}); accurate relative to u, which a high price multiplies.
        return u, -0.5 * xp.log1p(-xp.expm1(2.0 * u))
