"""The bounds of an audit on a population from which those of a measure are computed.

`estimation.audit` computes them from counts, with confidence, for R populations and M mechanisms. A measure that can be
audited combines them (`AbstractLeakage.upper_bounds`, `lower_bound`). Arrays are of shape (R, M) unless stated;
mappings hold several bounds by the name of their argument, each valid by itself.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from jaxpriv._runtime.types import Arr

Routes: TypeAlias = Mapping[str, np.ndarray]


@runtime_checkable
class UpperBounds(Protocol):
    """Upper bounds that hold together."""

    private: int  # |S|

    @property
    def information(self) -> Routes:
        """I(S;Y)."""
        ...

    @property
    def mutual_information(self) -> np.ndarray:
        """The least of `information`."""
        ...

    @property
    def posterior_entropy(self) -> Routes:
        """max_y H(S) - H(S|Y=y)."""
        ...

    @property
    def relative_entropy(self) -> Routes:
        """max_y D(P_{S|Y=y} || P_S)."""
        ...

    @property
    def correct_guess(self) -> Routes:
        """P_c(S|Y)."""
        ...

    @property
    def min_entropy(self) -> Routes:
        """ln( P_c / max p )."""
        ...

    @property
    def maximal_leakage(self) -> np.ndarray:
        """ln sum_y max_s P(y|s)."""
        ...

    @property
    def total_variation(self) -> Routes: ...

    @property
    def chi_squared(self) -> Routes: ...

    @property
    def max_lift(self) -> np.ndarray:
        """max ln( P(y|s)/P(y) )."""
        ...

    @property
    def min_lift(self) -> np.ndarray:
        """max ln( P(y)/P(y|s) )."""
        ...

    @property
    def guess_gain(self) -> tuple[Routes, Routes]:
        """The zero-one gain, on average and in the worst outcome."""
        ...

    @property
    def quadratic_gain(self) -> tuple[Routes, Routes]:
        """The Brier gain, on average and in the worst outcome."""
        ...

    def sibson_of(self, order: float) -> Routes:
        """Sibson's information of an order."""
        ...

    def arimoto(self, order: float) -> Routes:
        """Arimoto's information of an order."""
        ...

    def capacity(self, order: float) -> Routes:
        """Sibson's information of an order for ANY prior on the support of P_S."""
        ...

    def ldp(self, neighbours: Arr | None) -> np.ndarray:
        """max ln( P(y|s)/P(y|s') ) over the pairs of a relation (None: all)."""
        ...

    def f_information(self, perspective: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """f-information, `perspective(r, q)` = q f(r/q) >= 0."""
        ...


@runtime_checkable
class LowerBounds(Protocol):
    """Lower bounds that hold together, of one mechanism."""

    information: float  # I(S;Y)
    guess: float  # P_c(S|Y)
    gain: float  # P_c - max p
    min_entropy: float  # ln( P_c / max p )
    maximal: float  # maximal leakage
    variation: float  # total variation
    max_lift: float
    min_lift: float
    ldp: float


def least(routes: Routes) -> np.ndarray:
    """The least of several bounds."""
    return np.minimum.reduce(list(routes.values()))
