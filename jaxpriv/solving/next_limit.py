"""The rule by which the search for the least worst-outcome limit goes on, on the host and under a trace."""

import jax.numpy as jnp
import numpy as np

from jaxpriv._types import ScalarLike
from jaxpriv._validation import is_traced

# Probes of the search over limits: a secant needs about ten, bisection from 1 to 1e-9 thirty.
MOST_PROBES = 60


def next_limit(
    low: ScalarLike, high: ScalarLike, f_low: ScalarLike, f_high: ScalarLike, last: ScalarLike, tol: ScalarLike
) -> ScalarLike:
    """The next limit to try inside (low, high), where the distance falls from f_low > 0 to f_high <= 0.

    The root of the secant, moved a little to the side that did not move last, so that both ends close in.
    """
    xp = jnp if is_traced(low, high, f_low, f_high, last, tol) else np
    bounded = xp.isfinite(high)
    width = xp.where(bounded, high, low) - low
    fall = f_low - f_high
    known = xp.isfinite(fall) & (fall != 0.0)
    root = low + width * xp.where(known, f_low, 0.0) / xp.where(known, fall, 1.0)
    root = root + xp.where(last < 0, 0.3, -0.3) * tol
    root = xp.minimum(xp.maximum(root, low + 0.02 * width), high - 0.02 * width)
    return xp.where(bounded, xp.where(known, root, low + 0.5 * width), 4.0 * xp.maximum(low, 0.25))
