"""The Renyi divergence between what two private symbols release, and the law of Y nearest to all of them.

exp((b - 1) D_b(P || Q)) = sum_y P(y)^b Q(y)^{1-b} is jointly convex in P and Q: a sum over the outputs of q f(p/q), the
rows p and q both linear in the mechanism. So is a limit on the largest over s of D_b(P_{Y|s} || Q) for a law Q that may
be chosen, the row of a useful symbol that no data have. The least of these over Q is the capacity of order b.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.numerics import expm1_quotient, kl_excess, positive, safe_log
from jaxpriv._runtime.types import Arr, Column, OutputJoint, PrivateMarginal, Scalar
from jaxpriv._runtime.validation import scalar, whole
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import AbstractExponentialMeanLeakage, AbstractLeakage, Scale, Traits, lift_of
from jaxpriv.leakage.f_rules import LARGEST_LOGARITHM, AbstractCurve, f_rules
from jaxpriv.leakage.pointwise import LocalDifferentialPrivacy
from jaxpriv.leakage.renyi import MaximalAlphaLeakage
from jaxpriv.leakage.rule_sets import Rules, View

__all__ = ["RenyiDivergence"]


@dataclass(frozen=True)
class PowerCurve(AbstractCurve):
    """f = (t^b - b t + b - 1)/(b (b - 1)), b > 1: f''(1) = 1."""

    order: float

    @property
    def slopes(self) -> tuple[float, float]:
        return -1.0 / (self.order - 1.0), math.inf

    def value(self, t: Arr) -> Arr:
        b, log_t = self.order, safe_log(t)
        near = positive(t) & (abs((b - 1.0) * log_t) < 0.5)
        # f = t ln t (e^z - 1)/z - t + 1, z = (b-1) ln t, over b: no difference of numbers of the size 1/(b-1).
        log_t = xp.where(near, log_t, 0.0)
        curved = kl_excess(t) + t * log_t * (expm1_quotient((b - 1.0) * log_t) - 1.0)
        return xp.where(near, curved / b, (t**b - 1.0 - b * (t - 1.0)) / (b * (b - 1.0)))

    def slope(self, t: Arr) -> Arr:
        return (t ** (self.order - 1.0) - 1.0) / (self.order - 1.0)

    def conjugate(self, u: Arr) -> tuple[Arr, Arr, Arr]:
        b = self.order
        log_t = xp.log1p(self._inside(u)) / (b - 1.0)
        return xp.expm1(b * log_t) / b, xp.exp(log_t), xp.exp((2.0 - b) * log_t)

    def lines(self, u: Arr) -> tuple[Arr, Arr]:
        b = self.order
        u = xp.clip(u, self.slopes[0], math.expm1(LARGEST_LOGARITHM * (b - 1.0) / b) / (b - 1.0))
        return u, xp.expm1(b * xp.log1p(self._inside(u)) / (b - 1.0)) / b

    def _inside(self, u: Arr) -> Arr:
        """(b - 1) u above the end of the slopes, where t is 0: f* rises with u."""
        return xp.maximum((self.order - 1.0) * u, -1.0 + np.finfo(u.dtype).eps)


def _other(value: int | None) -> int | None:
    return None if value is None else whole(value, "other", low=0)


class RenyiDivergence(AbstractExponentialMeanLeakage):
    """D_b(P_{Y|s} || P_{Y|s'}) = 1/(b-1) ln sum_y P(y|s)^b P(y|s')^{1-b} of two private symbols, b = `order` > 1, nats.

    Limits on all pairs are local Renyi differential privacy. Infinite where an output excludes s' and not s. With
    `other` None it limits D_b(P_{Y|s} || Q), Q the row of the last useful symbol, which has no probability; its value
    is then the largest over s for the best Q, `MaximalAlphaLeakage(order)`. Raises `InputError` for symbols without
    mass, and an order that is not a finite number above 1.
    """

    words: ClassVar[str] = "Renyi divergence of two symbols"

    symbol: int = eqx.field(static=True, converter=partial(whole, name="symbol", low=0))
    other: int | None = eqx.field(static=True, converter=_other)
    order: float = eqx.field(static=True, converter=partial(scalar, name="order", low=1.0, open_low=True))

    traits: ClassVar[Traits] = Traits("nats", designable=True, least=0.0, of_inputs=True)

    @property
    def in_numpy(self) -> bool:
        return self.other is not None

    @property
    def about(self) -> tuple[int, ...]:
        return (self.symbol,) if self.other is None else (self.symbol, self.other)

    def among(self, prior: PrivateMarginal, seen: np.ndarray) -> "RenyiDivergence":
        del prior
        self.need_mass(seen)
        other = None if self.other is None else int(seen[: self.other].sum())
        return RenyiDivergence(int(seen[: self.symbol].sum()), other, self.order)

    def needed(self, symbols: int) -> np.ndarray:
        needed = np.zeros((symbols, symbols), dtype=bool)
        needed[self.symbol, self.other] = True
        return needed

    @property
    def rate(self) -> float:
        return self.order - 1.0

    def scale_for(self, symbols: int) -> Scale:
        del symbols
        b = self.order
        return Scale(
            lambda total: xp.log1p(b * (b - 1.0) * total) / (b - 1.0),
            lambda value: xp.expm1((b - 1.0) * value) / (b * (b - 1.0)),
            lambda value: xp.exp((b - 1.0) * value) / b,
        )

    def rules(self, view: View) -> Rules:
        law = np.eye(view.joint.shape[1])[-1]
        if self.other is not None:
            law = view.joint[self.other] / view.prior[self.other]
        first = view.joint[self.symbol, None] / view.prior[self.symbol]
        return f_rules(PowerCurve(self.order), View(first, np.ones(1), law))

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """1/(b-1) ln( 1 + b (b-1) q f(p/q) / P(y) ), p = P(y|s), q = P(y|s'): in logarithms where (p/q)^b overflows."""
        b, given = self.order, lift_of(w, prior)
        p, q = given[self.symbol], given[self.other]
        seen, log_ratio = positive(q), safe_log(p) - safe_log(q)
        large = seen & positive(p) & (b * log_ratio > 0.5 * math.log(float(np.finfo(w.dtype).max)))
        ratio = xp.where(seen & ~large, p, 1.0) / xp.where(seen & ~large, q, 1.0)
        plain = xp.log1p(b * (b - 1.0) * q * PowerCurve(b).value(ratio))
        # t^b - b t + b - 1 is t^b (1 - b t^(1-b)) there, up to less than a rounding.
        log_ratio = xp.where(large, log_ratio, 1.0 + 2.0 * math.log(b) / (b - 1.0))
        term = b * log_ratio + safe_log(q) + xp.log1p(-b * xp.exp((1.0 - b) * log_ratio))
        value = xp.where(large, xp.maximum(term, 0.0) + xp.log1p(xp.exp(-abs(term))), plain) / (b - 1.0)
        return xp.where(seen, value, xp.where(positive(p), xp.inf, 0.0))

    def combine(self, outcomes: Float[Arr, " y"], masses: Float[Arr, " y"]) -> Scalar:
        infinite = xp.isinf(outcomes)
        mean = super().combine(xp.where(infinite, 0.0, outcomes), masses)
        return xp.where((infinite & positive(masses)).any(), xp.inf, mean)

    def value_of(self, outputs: OutputJoint, prior: PrivateMarginal) -> Scalar:
        if self.other is None:
            return MaximalAlphaLeakage(self.order).value_of(outputs, prior)
        return super().value_of(outputs, prior)


def maximal_alpha_limits(
    measure: MaximalAlphaLeakage, limit: float, symbols: list[int]
) -> "list[tuple[AbstractLeakage, float]]":
    """Limits that together say measure <= limit, on each of the private symbols or on each pair of them."""
    if not isinstance(measure, MaximalAlphaLeakage):
        raise InputError("measure must be a MaximalAlphaLeakage, such as MaximalAlphaLeakage(2.0)")
    a, b = float(np.asarray(measure.order)), measure.beta
    if measure.designable:
        return [(measure, limit)]
    if b == 1.0:
        return [(RenyiDivergence(s, None, a), limit) for s in symbols]
    if math.isinf(b):
        return [(LocalDifferentialPrivacy(), limit * (1.0 - 1.0 / a))]
    if b < a:
        raise InputError(
            f"measure has order {a:g} and beta {b:g}: a limit takes beta 1, or a beta that is at least the "
            "order (the leakage of beta = order is at least as large)"
        )
    each = limit * (1.0 - 1.0 / a) * b / (b - 1.0)
    return [(RenyiDivergence(s, t, b), each) for s in symbols for t in symbols if s != t]
