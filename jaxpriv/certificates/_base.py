"""What every certificate is, and what it makes of prices."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import numpy as np

from jaxpriv._repr import summary
from jaxpriv._types import Arr, ScalarLike


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Certificate:
    """What is proved about one mechanism. `optimum` lies in `[lower_bound, value]` if `violation` is 0.

    Attributes:
        value: the program's objective at the mechanism (an upper bound on the optimum if feasible).
        lower_bound: no feasible mechanism has a smaller objective.
        leakages: for every term of a program the sum over outputs of its column function, in role WORST the largest
            excess relative to the mass of the output; of additive noise and of operators I(S;Y), nats, shape (1,).
        constraint_values: <constraints_r, W>, shape (R,).
        violation: largest excess over a limit, relative to the scale of that limit, or error of a row sum, or negative
            entry, beyond rounding; 0 for a feasible mechanism.
    """

    value: ScalarLike
    lower_bound: ScalarLike
    leakages: Any
    constraint_values: Any
    violation: ScalarLike

    __repr__ = summary

    @property
    def gap(self) -> ScalarLike:
        """value - lower_bound >= 0."""
        return self.value - self.lower_bound


def nonnegative(xp: ModuleType, prices: Arr) -> Arr:
    """Any numbers as prices: >= 0, 0 where there is none, and small enough for sums of products to be finite."""
    largest = np.cbrt(np.finfo(prices.dtype).max)
    return xp.where(xp.isfinite(prices), xp.clip(prices, 0.0, largest), 0.0)
