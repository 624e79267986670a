"""The f-divergence of the released marginal from a target, as a measure that a problem can limit.

D_f(P_Y || q) = sum_y q_y f( P_Y(y)/q_y ) is a f-information with one private symbol: P_Y(y) stands in the place of the
joint mass w_s(y), and q_y in that of the product p_s |w_y|. Rules are about rows of the mechanism, and q is none. So
the useful symbols are followed by one for each released symbol, of no probability, which can be released as that one
alone: the row q of these is q_y in output y, whatever the mechanism is.
"""

from typing import ClassVar

import numpy as np
from jaxtyping import Float

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr, Column, OutputJoint, PrivateMarginal, Scalar
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import AbstractMeanLeakage, AbstractPartLeakage, Traits
from jaxpriv.leakage.f_rules import AbstractDivergence, KullbackLeiblerCurve, f_rules
from jaxpriv.leakage.rule_sets import ENTROPIC, Rules, View

__all__ = ["ReleasedMarginal"]


class ReleasedMarginal(AbstractPartLeakage, AbstractMeanLeakage):
    """D_f(P_Y || q) of the released marginal, `divergence` f and `target` q > 0, (y,): a limit of `with_marginal`.

    The last useful symbols, as many as released ones, have no probability, and the mechanism releases each as its own
    released symbol. It is a measure of no private symbol, and is 0 only where P_Y = q.
    """

    words: ClassVar[str] = "P(y) in a ball"

    divergence: AbstractDivergence
    target: Float[Arr, " y"]

    @property
    def part(self) -> AbstractDivergence:
        return self.divergence

    @property
    def traits(self) -> Traits:
        traits = self.divergence.traits
        return Traits(
            traits.unit, traits.designable, traits.linear, least=0.0, own_rules=traits.own_rules, of_inputs=True
        )

    @property
    def in_numpy(self) -> bool:
        return False

    def rules(self, view: View) -> Rules | None:
        released = np.pad(self.target, (len(view.mass) - len(self.target), 0))
        alone = View(view.mass[None], np.ones(1), released)
        rules = self.divergence.rules(alone)
        # Its own set takes the mass of an output for the sum of its rows.
        return f_rules(KullbackLeiblerCurve(), alone) if rules is not None and rules.rule_set is ENTROPIC else rules

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        raise InputError("the divergence of the released marginal is that of all outputs together, and of none alone")

    def value_of(self, outputs: OutputJoint, prior: PrivateMarginal) -> Scalar:
        outputs, _ = self._arguments(outputs, prior)
        return self.divergence.between(outputs.sum(axis=0), xp.asarray(self.target, outputs))
