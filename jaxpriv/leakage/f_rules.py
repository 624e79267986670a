"""f-information: the f-divergence between the joint of (S, Y) and the product of its marginals, and its rules.

For f convex with f(1) = f'(1) = 0 and reference r, phi(w) = m sum_i r_i f( w_i/(r_i m) ) with m the mass of the output,
the last row. Rules are u_i = f'(ratio) in the rows of the symbols, and at most -sum_i r_i f*(u_i) in the last.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.numerics import expectation, kl_excess, positive, relative_entropy, safe_divide
from jaxpriv._runtime.types import Arr, Column, PrivateMarginal, Scalar, ScalarLike
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import (
    AbstractMeanLeakage,
    AbstractPartLeakage,
    AbstractRuled,
    Traits,
    in_host_arrays,
    parameter,
    posterior_of,
)
from jaxpriv.leakage.population import LowerBounds, Routes, UpperBounds, least
from jaxpriv.leakage.registry import named
from jaxpriv.leakage.rule_sets import ENTROPIC, LINEAR, AbstractRuleSet, Boundary, Rules, Term, View

__all__ = [
    "DIVERGENCES",
    "AbstractDivergence",
    "ChiSquared",
    "EGamma",
    "FInformation",
    "JensenShannon",
    "KullbackLeibler",
    "ReverseKullbackLeibler",
    "SquaredHellinger",
    "TotalVariation",
]


# How far below its end the slopes of a certificate stay, where the conjugate is infinite.
_INSIDE = 1e-12
# The logarithm of a ratio of masses, or of a power of one, that is a float64 with room for sums.
LARGEST_LOGARITHM = 300.0


@dataclass(frozen=True)
class AbstractCurve(ABC):
    """A convex f with f(1) = f'(1) = 0 as programs and proofs need it."""

    users: ClassVar[bool] = False  # a user's function in JAX
    powers: ClassVar[bool] = False  # f' is a power of the ratio where it is far from 0

    @property
    @abstractmethod
    def slopes(self) -> tuple[float, float]:
        """The open interval of the slopes of f."""

    @abstractmethod
    def value(self, t: Arr) -> Arr:
        """f(t), t >= 0: inf where it is infinite."""

    @abstractmethod
    def slope(self, t: Arr) -> Arr:
        """f'(t), t > 0."""

    @abstractmethod
    def conjugate(self, u: Arr) -> tuple[Arr, Arr, Arr]:
        """f*(u), accurate relative to u, which a high price multiplies; f*'(u), the ratio t; and f*''(u)."""

    def conjugate_at(self, t: Arr, u: Arr) -> Arr:
        """f*(u) for u = f'(t)."""
        del t
        return self.conjugate(u)[0]

    def lines(self, u: Arr) -> tuple[Arr, Arr]:
        """(u, c) with f(t) >= u t - c for every t >= 0, u the slopes wanted or the nearest that f has; c >= f*(u)."""
        lowest, highest = self.slopes
        u = xp.clip(u, lowest, highest - _INSIDE)
        return u, self.conjugate(u)[0]


@dataclass(frozen=True)
class FRules(AbstractRuleSet):
    """sum_i r_i f*(g_i) + g_last <= 0, the last row the mass."""

    curve: AbstractCurve
    massed: ClassVar[bool] = True

    @property
    def users(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.curve.users

    @property
    def powers(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.curve.powers

    @property
    def strict(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return not self.curve.users  # a user's f may be straight about 1

    def boundary(self, term: Term, g: Arr, smoothing: ScalarLike) -> Boundary:
        del smoothing
        r = term.reference
        value, slope, curvature = xp.called(self.curve.conjugate, g[:, :-1])
        level = (r[:-1] * value).sum(axis=1) + g[:, -1]
        ones = xp.ones_like(g[:, -1:])
        normal = xp.concatenate([r[:-1] * slope, ones], axis=1)
        bent = xp.concatenate([r[:-1] * curvature, 0.0 * ones], axis=1)
        return Boundary(level, normal, normal.sum(axis=1), bent)

    def gradient(self, term: Term, w: Arr) -> Arr:
        r, seen = term.reference, term.reference > 0
        safe = xp.where(seen, r, 1.0)
        t = xp.where(seen[:-1], w[..., :-1] / (safe[:-1] * w[..., -1:]), 1.0)
        u = xp.called(self.curve.slope, t)
        last = -(r[:-1] * xp.called(self.curve.conjugate_at, t, u)).sum(axis=-1, keepdims=True)
        return xp.concatenate([u, last], axis=-1)

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
        total = (r * xp.called(self.curve.value, xp.maximum(lift, 0.0))).sum(axis=-2)
        # m r f(w/(r m)) tends to w f'(inf) as m falls to 0: a mass that is no sum of the rows may be 0 beside them.
        left = xp.maximum(xp.where(present, 0.0, w[..., :-1, :]), 0.0)
        alone = xp.where(left > 0, xp.where(left > 0, left, 1.0) * self.curve.slopes[1], 0.0).sum(axis=-2)
        return xp.where(present[..., 0, :], mass[..., 0, :] * total, alone)

    def moved_in(self, term: Term, g: Arr) -> Arr:
        u, conjugate = xp.called(self.curve.lines, g[..., :-1])
        last = -(term.reference[..., None, :-1] * conjugate).sum(axis=-1, keepdims=True)
        return xp.concatenate([u, last], axis=-1)


def f_rules(curve: AbstractCurve, view: View) -> Rules:
    """The rules of sum_s p_s |w| f( w_s/(p_s |w|) ): the mass of the output is the last row."""
    return Rules(FRules(curve), xp.concatenate([view.joint, view.mass[None]]), xp.append(view.prior, 1.0))


@dataclass(frozen=True)
class KullbackLeiblerCurve(AbstractCurve):
    """f = t ln t - t + 1, where the mass is no sum of the rows; where it is, `ENTROPIC` is a set of fewer rows."""

    slopes: ClassVar[tuple[float, float]] = (-math.inf, math.inf)

    def value(self, t: Arr) -> Arr:
        return kl_excess(t)

    def slope(self, t: Arr) -> Arr:
        return xp.log(t)

    def conjugate(self, u: Arr) -> tuple[Arr, Arr, Arr]:
        t = xp.exp(u)
        return xp.expm1(u), t, t

    def lines(self, u: Arr) -> tuple[Arr, Arr]:
        return super().lines(xp.minimum(u, LARGEST_LOGARITHM))


@dataclass(frozen=True)
class ChiSquaredCurve(AbstractCurve):
    """f = (t - 1)^2."""

    powers: ClassVar[bool] = True
    slopes: ClassVar[tuple[float, float]] = (-2.0, math.inf)

    def value(self, t: Arr) -> Arr:
        return (t - 1.0) ** 2

    def slope(self, t: Arr) -> Arr:
        return 2.0 * (t - 1.0)

    def conjugate(self, u: Arr) -> tuple[Arr, Arr, Arr]:
        return u + 0.25 * u * u, 1.0 + 0.5 * u, xp.full_like(u, 0.5)


@dataclass(frozen=True)
class ReverseKullbackLeiblerCurve(AbstractCurve):
    """f = -ln t + t - 1."""

    powers: ClassVar[bool] = True
    slopes: ClassVar[tuple[float, float]] = (-math.inf, 1.0)

    def value(self, t: Arr) -> Arr:
        # t g(1/t) with g the Kullback-Leibler generator: keeps its accuracy near t = 1.
        present = positive(t)
        ratio = xp.where(present, t, 1.0)
        return xp.where(present, ratio * kl_excess(1.0 / ratio), xp.inf)

    def slope(self, t: Arr) -> Arr:
        return 1.0 - 1.0 / t

    def conjugate(self, u: Arr) -> tuple[Arr, Arr, Arr]:
        t = 1.0 / (1.0 - u)
        return -xp.log1p(-u), t, t * t


@dataclass(frozen=True)
class HellingerCurve(AbstractCurve):
    """f = (sqrt t - 1)^2."""

    powers: ClassVar[bool] = True
    slopes: ClassVar[tuple[float, float]] = (-math.inf, 1.0)

    def value(self, t: Arr) -> Arr:
        present = positive(t)
        ratio = xp.where(present, t, 1.0)
        # (t-1)/(sqrt t + 1) is sqrt t - 1 without the cancellation at 1; gradient 0 at t = 0.
        return xp.where(present, ((ratio - 1.0) / (xp.sqrt(ratio) + 1.0)) ** 2, 1.0)

    def slope(self, t: Arr) -> Arr:
        return 1.0 - 1.0 / xp.sqrt(t)

    def conjugate(self, u: Arr) -> tuple[Arr, Arr, Arr]:
        s = 1.0 / (1.0 - u)
        return u / (1.0 - u), s * s, 2.0 * s**3


@dataclass(frozen=True)
class JensenShannonCurve(AbstractCurve):
    """f = (t ln t - (1+t) ln((1+t)/2))/2, f' = ln(2t/(1+t))/2."""

    slopes: ClassVar[tuple[float, float]] = (-math.inf, 0.5 * math.log(2.0))

    def value(self, t: Arr) -> Arr:
        # With m = (1+t)/2 both terms are relative-entropy terms: m g(t/m) + m g(1/m), halved.
        middle = 0.5 * (1.0 + t)
        return 0.5 * middle * (kl_excess(t / middle) + kl_excess(1.0 / middle))

    def slope(self, t: Arr) -> Arr:
        return 0.5 * xp.log(2.0 * t / (1.0 + t))

    def conjugate(self, u: Arr) -> tuple[Arr, Arr, Arr]:
        e = xp.exp(2.0 * u)
        t = e / (2.0 - e)
        # ln((1+t)/2)/2 with 1 + t = 2/(2 - e^{2u}).
        return -0.5 * xp.log1p(-xp.expm1(2.0 * u)), t, 2.0 * t * (1.0 + t)


class AbstractDivergence(AbstractRuled):
    """A convex f on [0, inf) with f(1) = 0, applied elementwise; f(0) is the limit and may be inf.

    f is fixed up to a multiple of t - 1, which changes no divergence. The choice here is f >= 0, so
    that sums of terms never cancel.
    """

    @abstractmethod
    def __call__(self, t: Float[Arr, "..."]) -> Float[Arr, "..."]:
        """f(t)."""

    def between(self, q: Column, p: PrivateMarginal) -> Scalar:
        """D_f(q || p) = sum_s p_s f(q_s/p_s) of distributions with q = 0 where p = 0."""
        return expectation(p, self(safe_divide(q, p)))

    def upper_bounds(self, bounds: UpperBounds) -> Routes | None:
        """Bounds in a population: as for a measure."""
        del bounds
        return None

    def perspective(self, r: np.ndarray, q: np.ndarray) -> np.ndarray:
        """q f(r/q) for q > 0."""
        return q * in_host_arrays(self)(r / q)


class _Curved(AbstractDivergence):
    """The divergence of a curve of the library."""

    curve: ClassVar[AbstractCurve]

    def rules(self, view: View) -> Rules | None:
        return f_rules(self.curve, view)

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {"vertices": bounds.f_information(self.perspective)}

    def __call__(self, t: Float[Arr, "..."]) -> Float[Arr, "..."]:
        return self.curve.value(t)


class KullbackLeibler(_Curved):
    """f(t) = t ln t - t + 1: D(P_{SY} || P_S P_Y), which is mutual information."""

    words: ClassVar[str] = "Kullback-Leibler divergence"

    traits: ClassVar[Traits] = Traits("nats", designable=True, least=0.0)

    curve: ClassVar[AbstractCurve] = KullbackLeiblerCurve()

    def rules(self, view: View) -> Rules:
        return Rules(ENTROPIC, view.joint, view.prior)

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return bounds.information

    def lower_bound(self, bounds: LowerBounds) -> float:
        return bounds.information

    def between(self, q: Column, p: PrivateMarginal) -> Scalar:
        return relative_entropy(q, p)


class ReverseKullbackLeibler(_Curved):
    """f(t) = -ln t + t - 1: D(P_S P_Y || P_{SY}), lautum information; f(0) = inf."""

    words: ClassVar[str] = "reverse Kullback-Leibler divergence"

    traits: ClassVar[Traits] = Traits("nats", designable=True, least=0.0)

    curve: ClassVar[AbstractCurve] = ReverseKullbackLeiblerCurve()

    def lower_bound(self, bounds: LowerBounds) -> float:
        return 2 * bounds.variation**2  # Pinsker


class ChiSquared(_Curved):
    """f(t) = (t - 1)^2: Pearson's chi-squared, sum_{s,y} w^2/(p_s |w_y|) - 1."""

    words: ClassVar[str] = "chi-squared divergence"

    traits: ClassVar[Traits] = Traits("dimensionless", designable=True, least=0.0)

    curve: ClassVar[AbstractCurve] = ChiSquaredCurve()

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return bounds.chi_squared

    def lower_bound(self, bounds: LowerBounds) -> float:
        return max(float(np.expm1(bounds.information)), 4 * bounds.variation**2)

    def between(self, q: Column, p: PrivateMarginal) -> Scalar:
        excess = safe_divide(q, p) - 1.0
        return xp.matmul(p * excess, excess)  # the square alone may be no float64


class TotalVariation(AbstractDivergence):
    """f(t) = |t - 1|/2: total variation distance, in [0, 1]."""

    traits: ClassVar[Traits] = Traits("probability", designable=True, linear=True, least=0.0)

    def rules(self, view: View) -> Rules:
        return _excess_rules(1.0, view)

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return bounds.total_variation

    def lower_bound(self, bounds: LowerBounds) -> float:
        return bounds.variation

    def __call__(self, t: Float[Arr, "..."]) -> Float[Arr, "..."]:
        return 0.5 * abs(t - 1.0)


class SquaredHellinger(_Curved):
    """f(t) = (sqrt(t) - 1)^2: squared Hellinger distance sum (sqrt P - sqrt Q)^2, in [0, 2].

    Some authors halve it, so that it is at most 1.
    """

    words: ClassVar[str] = "squared Hellinger distance"

    traits: ClassVar[Traits] = Traits("dimensionless", designable=True, least=0.0)

    curve: ClassVar[AbstractCurve] = HellingerCurve()

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {
            **super().upper_bounds(bounds),
            "total variation": 2 * least(bounds.total_variation),
            "mutual information": bounds.mutual_information,
        }

    def lower_bound(self, bounds: LowerBounds) -> float:
        return 2 * (1 - float(np.sqrt(1 - bounds.variation**2)))


class JensenShannon(_Curved):
    """f(t) = ( t ln t - (1+t) ln((1+t)/2) )/2: the Jensen-Shannon divergence, in [0, ln 2].

    It is (D(P||M) + D(Q||M))/2 with M = (P+Q)/2.
    """

    words: ClassVar[str] = "Jensen-Shannon divergence"

    traits: ClassVar[Traits] = Traits("nats", designable=True, least=0.0)

    curve: ClassVar[AbstractCurve] = JensenShannonCurve()

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {
            **super().upper_bounds(bounds),
            "total variation": np.log(2) * least(bounds.total_variation),
        }

    def lower_bound(self, bounds: LowerBounds) -> float:
        return 0.5 * bounds.variation**2


def _excess_rules(factor: ScalarLike, view: View) -> Rules:
    """sum_s max( w_s - factor p_s |w|, 0 )."""
    rows = view.joint - factor * view.prior[:, None] * view.mass
    return Rules(LINEAR, rows, np.zeros(len(view.prior)), cap=np.ones(len(view.prior)))


class EGamma(AbstractDivergence):
    """f(t) = max(t - gamma, 0), gamma >= 1: the hockey-stick divergence; gamma = 1 is total variation.

    E_gamma = 0 for gamma = e^eps iff max-lift is at most eps. `gamma` is an array, like an order.
    Raises `InputError` for a concrete gamma that is not finite and >= 1.
    """

    words: ClassVar[str] = "E-gamma divergence"

    gamma: Scalar = eqx.field(converter=partial(parameter, name="gamma", low=1.0))

    traits: ClassVar[Traits] = Traits("probability", designable=True, linear=True, least=0.0)

    def rules(self, view: View) -> Rules:
        return _excess_rules(self.gamma, view)

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        gamma = float(self.gamma)
        return {
            "vertices": bounds.f_information(self.perspective),
            "total variation": least(bounds.total_variation),
            "max-lift": np.maximum(1 - gamma * np.exp(-bounds.max_lift), 0.0),
        }

    def __call__(self, t: Float[Arr, "..."]) -> Float[Arr, "..."]:
        return xp.maximum(t - xp.asarray(self.gamma, t), 0.0)


def _divergence(value: object) -> AbstractDivergence:
    if isinstance(value, AbstractDivergence):
        return value
    raise InputError(
        f"divergence must be a divergence of jaxpriv.leakage, such as jaxpriv.leakage.ChiSquared(), not {value!r}"
    )


class FInformation(AbstractPartLeakage, AbstractMeanLeakage):
    """f-information, I_f(S;Y) = D_f(P_{SY} || P_S P_Y) = sum_y |w_y| sum_s p_s f( w_y[s]/(p_s |w_y|) ).

    `divergence` holds f. Infinite iff f(0) = inf and some pair with p_s > 0, |w_y| > 0 has no
    mass; `evaluate` names it. In the unit of the divergence: only those built from logarithms are
    in nats. Raises `InputError` where `divergence` is a name or a class.

    Csiszár 1967; Hsu, Asoodeh and Calmon 2019, eq. (3).
    """

    words: ClassVar[str] = "f-information"

    divergence: AbstractDivergence = eqx.field(converter=_divergence)

    @property
    def part(self) -> AbstractDivergence:
        return self.divergence

    def upper_bounds(self, bounds: UpperBounds) -> Routes | None:
        return self.divergence.upper_bounds(bounds)

    def lower_bound(self, bounds: LowerBounds) -> float | None:
        return self.divergence.lower_bound(bounds)

    def needed(self, symbols: int) -> np.ndarray:
        at_zero = in_host_arrays(self.divergence)(np.zeros(1))
        return np.full((symbols, symbols), bool(np.isinf(at_zero[0])))

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """D_f(w/|w| || p)."""
        return self.divergence.between(posterior_of(w), prior)


_DIVERGENCES: Mapping[str, Callable[[], AbstractDivergence]] = {
    "kl": KullbackLeibler,
    "reverse-kl": ReverseKullbackLeibler,
    "chi-squared": ChiSquared,
    "total-variation": TotalVariation,
    "squared-hellinger": SquaredHellinger,
    "jensen-shannon": JensenShannon,
}
# By the names of the command line.
DIVERGENCES = (*_DIVERGENCES, "e-gamma")


# Kullback-Leibler is mutual information, and has its row.
@named(
    "f-information",
    "average",
    needs=("divergence",),
    takes=("gamma",),
    reported=tuple({"divergence": name} for name in _DIVERGENCES if name != "kl"),
)
def _by_divergence(divergence: str | AbstractDivergence, gamma: ScalarLike | None = None) -> FInformation:
    if isinstance(divergence, str) and divergence == "e-gamma":
        if gamma is None:
            raise InputError("divergence 'e-gamma' needs gamma")
        return FInformation(EGamma(gamma))
    if gamma is not None:
        raise InputError("only divergence 'e-gamma' takes gamma")
    if isinstance(divergence, AbstractDivergence):
        return FInformation(divergence)
    if divergence not in _DIVERGENCES:
        raise InputError(f"unknown divergence; known: {', '.join(DIVERGENCES)}")
    return FInformation(_DIVERGENCES[divergence]())
