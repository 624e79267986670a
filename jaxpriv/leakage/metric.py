"""Log-ratios with limits of their own for every symbol, or pair of symbols: max-lift by symbol, and metric privacy.

Each is the least multiple of given scales within which all log-ratios are: a limit of 1 asks for the scales themselves.
"""

from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr
from jaxpriv._runtime.validation import finite, is_traced, real_array
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import Traits, same_symbols
from jaxpriv.leakage.pointwise import (
    AbstractPointwiseLeakage,
    HostColumn,
    LogLift,
    Pair,
    Scores,
    Support,
    pair_attained,
    pair_rows,
    pair_score,
)
from jaxpriv.leakage.population import Routes, UpperBounds
from jaxpriv.leakage.rule_sets import Rules, View

__all__ = ["MetricPrivacy", "SymbolMaxLift"]


class _Scaled(AbstractPointwiseLeakage):
    """The largest quotient of a log-ratio and its scale."""

    scales: eqx.AbstractVar[Arr]

    traits: ClassVar[Traits] = Traits("nats", designable=True, linear=True, least=0.0)

    @property
    def untraceable(self) -> str | None:
        return "its scales are traced, and decide on its rows; pass a NumPy array" if is_traced(self.scales) else None

    @property
    def unbudgeted(self) -> str:
        return (
            f"the least multiple of the scales of {type(self).__name__} within a budget is no convex program; use "
            "leakage_budget, which minimises the distortion"
        )

    def rules_at_peak(self, view: View) -> Rules | None:
        raise InputError(self.unbudgeted)


def _checked_scales(value: object) -> Arr:
    array = finite(real_array(value, "scales", ndim=1), "scales")
    if not is_traced(array) and not np.all(np.asarray(array) > 0):
        raise InputError("scales must be positive")
    return array


class SymbolMaxLift(_Scaled):
    """max_{s,y} ln( P(s|y)/p_s ) / c_s: max-lift with a scale c_s > 0, `scales` (s,), for each private symbol.

    At most v if and only if P(s|y) <= e^(v c_s) p_s for every s and y: with the limits eps_s as scales the limit is 1.
    All scales 1 give `MaxLift`. Raises `InputError` for scales that are not positive and finite, or of another number
    of symbols than the joint's.
    """

    words: ClassVar[str] = "max-lift in units of each symbol's scale"

    scales: Float[Arr, " s"] = eqx.field(converter=_checked_scales)

    by_symbol: ClassVar = {"scales": (0,)}

    def ratios(self, given: Arr, view: View) -> tuple[Arr, Arr, Arr | float]:
        return given, view.mass[None, :], self.scales[:, None]

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {"intervals": bounds.max_lift / np.min(self.scales)}

    def score(self, log_lift: LogLift, support: Support) -> Scores:
        same_symbols("scales", self.scales, 0, log_lift.shape[-1])
        return xp.where(support, log_lift / self._row(log_lift), -np.inf).max(axis=-1)

    def attained(self, log_lift: HostColumn) -> Pair:
        return int(np.nanargmax(log_lift / np.asarray(self.scales))), None

    def _row(self, like: Arr) -> Arr:
        return xp.broadcast_to(xp.asarray(self.scales, like), like.shape)


def _distances(value: object) -> Arr:
    array = real_array(value, "scales", ndim=2)
    if is_traced(array):
        return array
    table = np.asarray(array)
    if table.shape[0] != table.shape[1] or not np.all((table > 0) | np.eye(*table.shape, dtype=bool)):
        raise InputError("scales must be a square (s, s) table, positive off the diagonal")
    return array


class MetricPrivacy(_Scaled):
    """max over y and s != s' of ln( P(y|s)/P(y|s') ) / d(s, s'): the eps of metric privacy (d_X-privacy).

    `scales[s, s']` is d, (s, s), positive off the diagonal, which has no effect; inf where a pair is not compared. It
    need be no metric, nor symmetric: with the log-ratios that are allowed, eps(s, s'), as scales the limit is 1. All
    scales 1 give `LocalDifferentialPrivacy`. Infinite if P(y|s) = 0 < P(y|s') of a pair that is compared; pairs with
    both 0 are skipped. Raises `InputError` for other scales, or of another number of symbols than the joint's.

    Chatzikokolakis, Andres, Bordenabe and Palamidessi 2013.
    """

    words: ClassVar[str] = "metric privacy"

    scales: Float[Arr, "s s"] = eqx.field(converter=_distances)

    by_symbol: ClassVar = {"scales": (0, 1)}

    def row_count(self, symbols: int) -> int:
        return symbols * (symbols - 1)

    def needed(self, symbols: int) -> np.ndarray:
        del symbols
        return self._pairs

    @property
    def _pairs(self) -> np.ndarray:
        """Which pairs are compared, (s, s)."""
        return np.isfinite(np.asarray(self.scales)) & ~np.eye(len(self.scales), dtype=bool)

    @property
    def _compared_scales(self) -> np.ndarray:
        """The scales, 1 of pairs that are not compared."""
        return np.where(self._pairs, np.asarray(self.scales), 1.0)

    def ratios(self, given: Arr, view: View) -> tuple[Arr, Arr, Arr | float]:
        pairs = np.argwhere(self._pairs)
        return *pair_rows(given, view, pairs), np.asarray(self.scales)[*pairs.T][:, None]

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {"intervals": bounds.ldp(self._pairs) / np.where(self._pairs, self.scales, np.inf).min()}

    def score(self, log_lift: LogLift, support: Support) -> Scores:
        same_symbols("scales", self.scales, 0, log_lift.shape[-1])
        return pair_score(log_lift, support, self._pairs, self._compared_scales.astype(log_lift.dtype))

    def attained(self, log_lift: HostColumn) -> Pair:
        return pair_attained(log_lift, self._pairs, self._compared_scales)
