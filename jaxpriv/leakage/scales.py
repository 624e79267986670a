"""How the value of a measure and the total of its convex program are functions of each other."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp

from jaxpriv._types import ScalarLike
from jaxpriv._validation import is_traced

# A limit of so many nats is none to any float64: e^-200 of the largest cost is far below its rounding, and the
# exponentials of higher ones would overflow.
MOST_NATS = 200.0


@dataclass(frozen=True)
class Scale:
    """value = outer(total), total = inner(value), both increasing; total is the sum over outputs and terms.
    `slope(value)` is the derivative of `inner`.
    """

    outer: Callable[[ScalarLike], ScalarLike]
    inner: Callable[[ScalarLike], ScalarLike]
    slope: Callable[[ScalarLike], ScalarLike]

    @property
    def proportional(self) -> bool:
        """Whether the value is a multiple of the total (no logarithm)."""
        return bool(self.inner(2.0) == 2.0 * self.inner(1.0))


def _itself(number: ScalarLike) -> ScalarLike:
    return number if is_traced(number) else float(number)


PLAIN = Scale(_itself, _itself, lambda _: 1.0)


def in_units(size: float) -> Scale:
    """Of a total that is counted in units of `size`."""
    return Scale(lambda total: size * total, lambda value: value / size, lambda _: 1.0 / size)


def logarithmic(rate: float) -> Scale:
    """value = ln(|total|)/rate, with totals of the sign of the rate: what `AbstractExponentialMeanLeakage` reports."""
    sign = math.copysign(1.0, rate)
    return Scale(
        lambda total: _log(sign * total) / rate,
        lambda value: sign * _exp(rate * value),
        lambda value: sign * rate * _exp(rate * value),
    )


def _exp(nats: ScalarLike) -> ScalarLike:
    return jnp.exp(jnp.minimum(nats, MOST_NATS)) if is_traced(nats) else math.exp(min(nats, MOST_NATS))


def _log(total: ScalarLike) -> ScalarLike:
    return jnp.log(jnp.maximum(total, 1e-300)) if is_traced(total) else math.log(max(total, 1e-300))
