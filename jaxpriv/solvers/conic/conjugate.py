"""The conjugate of a user's f, by inverting its slope: f*(u) = u t - f(t) where f'(t) = u.

Nothing here is relied on: the certificate takes a slope of f at a ratio of its own.
"""

from typing import Any

import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv.problems.generator import HIGHEST, LOWEST, Generator

_MOST_HALVINGS = 120
# The least curvature: a quartic has none at 1, where every search starts.
_FLATTEST = 1e-6


def conjugate(f: Generator, u: Any) -> tuple[Any, Any, Any]:
    """f*(u), f*'(u) (the ratio t) and f*''(u), elementwise."""
    t = ratio_at(f, u)
    _, curvature = f.slope_and_curvature(t)
    return u * t - f.value(t), t, 1.0 / xp.maximum(curvature, _FLATTEST)


def ratio_at(f: Generator, u: Any) -> Any:
    """The t with f'(t) = u, in [LOWEST, HIGHEST].

    Newton's method in ln t inside a bracket, halved where Newton's step leaves it or does not halve the last one.
    """

    def go_on(state: tuple[Any, ...]) -> Any:
        _, _, _, last, count = state
        return (abs(last) > 0).any() & (count < _MOST_HALVINGS)

    def narrow(state: tuple[Any, ...]) -> tuple[Any, ...]:
        z, low, high, last, count = state
        t = xp.exp(z)
        slope, curvature = f.slope_and_curvature(t)
        below = slope < u
        low, high = xp.where(below, z, low), xp.where(below, high, z)
        newton = (u - slope) / (t * curvature)
        fits = (z + newton > low) & (z + newton < high) & (abs(newton) < 0.5 * abs(last))
        step = xp.where(fits, newton, 0.5 * (low + high) - z)
        least = np.finfo(z.dtype).eps * (1.0 + abs(z))
        done = (last == 0) | (slope == u) | (abs(newton) <= least) | (high - low <= least)
        step = xp.where(done, 0.0, step)
        return z + step, low, high, step, count + 1

    nothing = xp.zeros_like(u)
    low, high = nothing + xp.log(LOWEST), nothing + xp.log(HIGHEST)
    start = (nothing, low, high, high - low, np.array(0))
    return xp.exp(xp.while_loop(go_on, narrow, start)[0])
