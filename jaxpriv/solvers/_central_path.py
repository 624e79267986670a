"""Points of the central path: the multipliers of the rows, once the reduced costs without them are known."""

from typing import Any

import numpy as np

from jaxpriv import _arrays as xp


def row_prices(support: Any, h: Any, costs: Any, mu: Any) -> Any:
    """nu with sum_y mu h / (costs - nu) = 1 in every row: Newton on the reciprocal, monotone from below.

    All of shape (Y, X); nu (X,).
    """
    inside = xp.where(support, costs, xp.inf)
    highest = inside.min(axis=0) - mu * h.max(axis=0)

    def unfinished(carry: tuple[Any, Any, Any]) -> Any:
        _, error, count = carry
        return (error > 1e-10) & (count < 80)

    def newton(carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        nu, _, count = carry
        q = xp.where(support, mu * h / (inside - nu), 0.0)
        f = q.sum(axis=0)
        slope = xp.where(support, q / (inside - nu), 0.0).sum(axis=0)
        new = xp.minimum(nu - (f - 1.0) * f / slope, inside.min(axis=0) - mu * h.max(axis=0) * 0.999999)
        return new, abs(f - 1.0).max(), count + 1

    nu, _, _ = xp.while_loop(unfinished, newton, (highest, xp.full((), xp.inf, like=highest), np.array(0)))
    return nu
