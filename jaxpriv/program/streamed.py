"""The least leakage over operators, without a table of size |X| |Y|: the program of the streaming solvers.

Block by block it is the same as a `Program` whose term is the objective.
"""

from typing import Any

import equinox as eqx
import numpy as np

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.data.distortion import AbstractDistortion
from jaxpriv.data.joints import AbstractJoint
from jaxpriv.leakage.rule_sets import Term


def _least_mass(columns: Arr) -> float:
    """The mass of an output below which products with masses of private symbols may leave the normal numbers."""
    return 1e10 * float(np.finfo(columns.dtype).tiny)


class StreamedProgram(eqx.Module):
    """Operators of one joint and its distortions, the prior, a smooth average measure, and either prices or budgets.

    minimise  L(W) + sum_k prices_k E d_k                          (budgets is None)
    minimise  L(W)   subject to  E d_k <= budgets_k,  k = 1..M     (prices is None)

    with L(W) = sum_y phi(B w_y) and w_y(s) = P(S=s, Y=y). The rows of a measure are linear in the joint: A = B J, for a
    matrix B that depends on the prior alone.
    """

    joint: AbstractJoint
    distortions: tuple[AbstractDistortion, ...]
    prior: Arr  # (S,)
    term: Term  # the measure where X has one symbol: its set of rules, reference and parameter
    transfer: Any  # B, (T, S); None: rows are the joint itself
    least: ScalarLike  # (): L of a release that ignores the data
    # Exactly one is None, which tells the form.
    prices: Any  # (M,) or None
    budgets: Any  # (M,) or None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (X, Y) of a mechanism."""
        return self.distortions[0].shape

    def rows(self, columns: Arr) -> Arr:
        """B w_y of an output joint (Y, S): (Y, T)."""
        return columns if self.transfer is None else xp.matmul(columns, self.transfer.T)

    def scores(self, rules: Arr) -> Arr:
        """What rules (Y, T) say about s, B' g_y: (Y, S)."""
        return rules if self.transfer is None else xp.matmul(rules, self.transfer)

    def leakage(self, columns: Arr) -> Arr:
        """L of an output joint (Y, S); outputs without mass add nothing, whose lifts XLA could divide by 0."""
        seen = xp.where(columns.sum(axis=1, keepdims=True) > _least_mass(columns), columns, 0.0)
        return self.term.support(self.rows(seen)).sum()

    def rules(self, columns: Arr, least: float = 0.0) -> Arr:
        """The adversary's best rules about an output joint (Y, S), (Y, T), finite: lifts below `least` count as that.

        An output without mass says nothing: its rule is the one about the prior.
        """
        tiny = np.finfo(columns.dtype).tiny  # times 1e8: a ratio that stays normal when XLA rounds it
        mass = columns.sum(axis=1, keepdims=True)
        present = xp.maximum(columns, xp.maximum(least * mass * self.prior, 1e8 * tiny))
        present = xp.where(mass > _least_mass(columns), present, self.prior)
        return self.term.rule_at(self.rows(present))

    def slack(self, rules: Arr) -> Arr:
        """By how much every score of an output rises, at least, where its rule is moved to the boundary: (Y,)."""
        moved = self.term.rule_set.normalised(self.term, rules, self.term.boundary(rules, 0.0).level)
        return xp.where(self.prior > 0, self.scores(moved - rules), np.inf).min(axis=1)
