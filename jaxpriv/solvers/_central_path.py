"""Points of the central path: the multipliers of the rows, once the reduced costs without them are known."""

import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv._types import Arr, BoolLike, ScalarLike


def row_prices(support: Arr, h: Arr, costs: Arr, mu: ScalarLike) -> Arr:
    """nu with sum_y mu h / (costs - nu) = 1 in every row: Newton on the reciprocal, monotone from below.

    All of shape (Y, X); nu (X,).
    """
    inside = xp.where(support, costs, xp.inf)
    highest = inside.min(axis=0) - mu * h.max(axis=0)

    def unfinished(carry: tuple[Arr, ScalarLike, ScalarLike]) -> BoolLike:
        _, error, count = carry
        return (error > 1e-10) & (count < 80)

    def newton(carry: tuple[Arr, ScalarLike, ScalarLike]) -> tuple[Arr, ScalarLike, ScalarLike]:
        nu, _, count = carry
        q = xp.where(support, mu * h / (inside - nu), 0.0)
        f = q.sum(axis=0)
        slope = xp.where(support, q / (inside - nu), 0.0).sum(axis=0)
        new = xp.minimum(nu - (f - 1.0) * f / slope, inside.min(axis=0) - mu * h.max(axis=0) * 0.999999)
        return new, abs(f - 1.0).max(), count + 1

    nu, _, _ = xp.while_loop(unfinished, newton, (highest, xp.full((), xp.inf, like=highest), np.array(0)))
    return nu
