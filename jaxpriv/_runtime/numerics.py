"""Elementary functions with a chosen value AND a chosen gradient where the formula is 0 ln 0.

`where(p > 0, p * log(p), 0)` has the right value and a NaN gradient; `xlogy` and `entr` have
infinite ones. Each function below states both. In JAX masses under the smallest normal float count as
zero: XLA flushes subnormals, so their logarithm would be -inf on one device and finite on another.
They take arrays of NumPy, of its batches and of JAX (`arrays`).
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.arrays import of
from jaxpriv._runtime.types import Arr

# The largest power of two in float64.
LARGEST = 2.0**1023


def unit_of(values: np.ndarray, axis: int | tuple[int, ...] | None = None) -> Arr:
    """The power of two next below the largest modulus along `axis` (of all), 1 where all are 0.

    Numbers divided by it are of size one, and not rounded.
    """
    largest = abs(values).max(axis=axis, initial=0.0)
    return np.where(largest > 0, np.ldexp(1.0, np.frexp(largest)[1] - 1), 1.0)


def positive(x: Arr) -> Arr:
    """Whether a mass counts as present: above 0 in NumPy; in JAX not below the smallest normal number of its dtype.

    NaN is not below it, so a NaN is not left out like a missing mass: what is computed from it is NaN.
    """
    return ~(x <= 0) if of(x) is np else ~(x < jnp.finfo(x.dtype).tiny)


def safe_log(x: Arr) -> Arr:
    """ln x where x is a positive mass; 0 with zero gradient where it is not.

    For factors `m * safe_log(x)` with `m = 0` wherever `x = 0`: the product then has the limit as
    its value, and its gradient with respect to `m` is finite (0), the convention of a symbol
    without mass being left out of the sum.
    """
    present = positive(x)
    return xp.where(present, xp.log(xp.where(present, x, 1.0)), 0.0)


def xlogx(x: Arr) -> Arr:
    """x ln x with value 0 and gradient 0 at x = 0 (the one-sided derivative there is -inf)."""
    xp, present = of(x), positive(x)
    safe = xp.where(present, x, 1.0)
    return xp.where(present, safe * xp.log(safe), 0.0)


def safe_divide(x: Arr, y: Arr) -> Arr:
    """x / y where y is a positive mass; 0 with zero gradients where it is not.

    In NumPy, where y may be subnormal, at most `LARGEST`.
    """
    return _differentiable_ratio(x, y) if xp.of(x, y) is jnp else xp.minimum(_ratio(x, y), LARGEST)


def _ratio(x: Arr, y: Arr) -> Arr:
    present = positive(y)
    return xp.where(present, x / xp.where(present, y, 1.0), 0.0)


_differentiable_ratio = jax.custom_jvp(_ratio)


@_differentiable_ratio.defjvp
def _ratio_jvp(primals: tuple[Arr, Arr], tangents: tuple[Arr, Arr]) -> tuple[Arr, Arr]:
    # d(x/y) = (dx - (x/y) dy)/y. The rule -x/y^2 of plain division overflows, and then gives NaN,
    # once y is below the square root of the smallest normal number (1e-154 in float64).
    (x, y), (dx, dy) = primals, tangents
    ratio = safe_divide(x, y)
    return ratio, safe_divide(dx - ratio * dy, y)


# Taylor coefficients, highest order first; with |z| below 1e-2 the first term left out is below
# 1e-17 of the value, and derivatives of the quotients below lose nothing to cancellation.
_SERIES = 1e-2
_EXP_QUOTIENT = tuple(1.0 / math.factorial(k + 1) for k in range(7, -1, -1))  # (e^z - 1)/z
_LOG_QUOTIENT = tuple((-1.0) ** k / (k + 1) for k in range(8, -1, -1))  # ln(1+z)/z
_EXCESS = tuple((-1.0) ** k / ((k + 1) * (k + 2)) for k in range(8, -1, -1))  # ((1+z)ln(1+z) - z)/z^2


# A lift t of which t^2 is a float64.
_LARGEST_LIFT = 1e150


def _horner(coefficients: tuple[float, ...], z: Arr) -> Arr:
    value = coefficients[0] * z + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * z + coefficient
    return value


def _quotient(function: Callable[[Arr], Arr], coefficients: tuple[float, ...], z: Arr) -> Arr:
    near = abs(z) < _SERIES
    away = xp.where(near, 1.0, z)
    return xp.where(near, _horner(coefficients, xp.where(near, z, 0.0)), function(away) / away)


def expm1_quotient(z: Arr) -> Arr:
    """(e^z - 1)/z, and 1 at z = 0; value and derivatives accurate near 0."""
    return _quotient(xp.expm1, _EXP_QUOTIENT, z)


def log1p_quotient(z: Arr) -> Arr:
    """ln(1 + z)/z, and 1 at z = 0; value and derivatives accurate near 0. For z > -1."""
    return _quotient(xp.log1p, _LOG_QUOTIENT, z)


def kl_excess(t: Arr) -> Arr:
    """t ln t - t + 1 >= 0, the term of a relative entropy that is never negative.

    Its sum over a probability vector equals that of t ln t, without the cancellation: a
    divergence of 1e-20 keeps its leading digits. At t = 0 the value is 1 and the gradient is -1
    (that of -t + 1: t ln t is left out), where the one-sided derivative is -inf.
    """
    xp, z = of(t), t - 1.0
    near = abs(z) < _SERIES
    series = xp.where(near, z, 0.0)
    return xp.where(near, series * series * _horner(_EXCESS, series), xlogx(t) - z)


def relative_entropy(q: Arr, p: Arr) -> Arr:
    """D(q || p) = sum_i p_i (t ln t - t + 1), t = q/p, of distributions with q = 0 where p = 0.

    No term is negative, and the gradient in q is exactly ln t. Where p is so small that t ln t is no float64 the term
    is q (ln q - ln p) - q + p.
    """
    lift = safe_divide(q, p)
    plain = p * kl_excess(lift)
    if xp.of(lift) is not np:
        return plain.sum()
    rare = lift > _LARGEST_LIFT
    return xp.where(rare, q * (safe_log(q) - safe_log(p)) - q + p, plain).sum()


def expectation(weights: Arr, values: Arr) -> Arr:
    """sum_i weights[i] values[i] with 0 * inf = 0: infinite only where a positive weight meets an infinite value.

    An infinite result has gradient zero, not NaN: no direction of finite size changes it.
    """
    infinite = xp.isinf(values)
    total = xp.where(infinite, 0.0, weights * xp.where(infinite, 0.0, values)).sum()
    return xp.where((infinite & positive(weights)).any(), xp.inf, total)


def exponential_mean(values: Arr, weights: Arr, rate: Arr) -> Arr:
    """(1/r) ln( sum_i m_i e^{r x_i} / sum_i m_i ) for x = `values`, m = `weights`, r = `rate`.

    One expression covers every r in [-inf, inf]: the mean of x at r = 0, the largest (smallest) x
    with m > 0 at r = inf (-inf), non-decreasing in r. Entries with m = 0 are left out, with zero
    gradient; no mass at all gives 0. `rate` has the dtype of `values`.
    """
    present = positive(weights)
    mass = xp.where(present, weights, 0.0)
    total = mass.sum()
    some = positive(total)
    total = xp.where(some, total, 1.0)
    share = mass / total
    x = xp.where(present, values, 0.0)
    highest = xp.where(present, values, -xp.inf).max()
    lowest = xp.where(present, values, xp.inf).min()
    extreme = xp.where(some, xp.where(rate > 0, highest, lowest), 0.0)

    endless = xp.isinf(rate)
    r = xp.where(endless, 0.0, rate)
    # Where every |r x| is small the excess over 1 is summed, so nothing cancels as r -> 0 ...
    near = abs(r * x).max() < 0.5
    x_near = xp.where(near, x, 0.0)
    mean = (share * x_near * expm1_quotient(r * x_near)).sum()
    near_value = mean * log1p_quotient(xp.where(near, r * mean, 0.0))
    # ... elsewhere the largest term is taken out first, so nothing overflows: its weight may be that of a rare entry.
    reference = xp.constant(extreme)
    used = present & ~near
    normal = share > jnp.finfo(share.dtype).tiny  # of a large total a difference of logarithms loses digits
    log_share = xp.where(
        normal,
        xp.log(xp.where(used & normal, share, 1.0)),
        xp.log(xp.where(used, mass, 1.0)) - xp.log(total),
    )
    term = xp.where(used, r * (x - reference) + log_share, -xp.inf)
    largest = xp.constant(xp.where(near, 0.0, term.max()))
    far_sum = xp.exp(term - largest).sum()
    far_value = reference + (largest + xp.log(xp.where(near, 1.0, far_sum))) / xp.where(near, 1.0, r)
    return xp.where(endless, extreme, xp.where(near, near_value, far_value))
