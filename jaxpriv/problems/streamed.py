"""The least-leakage program over operators: one joint, no table of size |X| |Y|.

    minimise  I(S;Y) + sum_k prices_k E d_k                          (budgets is None)
    minimise  I(S;Y)   subject to  E d_k <= budgets_k,  k = 1..M     (prices is None)

Block by block the same as `program.Program` in form OBJECTIVE.
"""

from typing import Any

import equinox as eqx

from jaxpriv._types import Arr
from jaxpriv.distortion import AbstractDistortion
from jaxpriv.joints import AbstractJoint


class StreamedProgram(eqx.Module):
    """Operators, the prior, and either prices or budgets of the distortions."""

    joint: AbstractJoint
    distortions: tuple[AbstractDistortion, ...]
    prior: Arr  # (S,)
    prices: Any  # (M,) or None
    budgets: Any  # (M,) or None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (X, Y) of a mechanism."""
        return self.distortions[0].shape
