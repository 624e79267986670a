"""A pricing rule is a class and a line of `connected_pricer`, as CONTRIBUTING says: solutions and certificates ask it.

The one here takes a binary S, which has a rule of its own, by a search over boxes.
"""

import pytest

import jaxpriv as jp
from jaxpriv.funnels.pricing import AbstractPricer
from jaxpriv.funnels.pricing.boxes import BoxFunnelPricer
from tests.cases import assert_one_optimum, drawn_joint

from .cases import conditional_of, entropy_of, proved


class ByBoxes(AbstractPricer):
    def __init__(self, conditional, asked):
        self.search, self.asked = BoxFunnelPricer(conditional), asked

    def price(self, *given, **further):
        self.asked.append(len(given[0]))
        return self.search.price(*given, **further)


@pytest.mark.parametrize(("joint", "sizes"), [(drawn_joint(1, 2, 6), {6}), (drawn_joint(1, 3, 5), set())])
def test_it_proves_the_funnels_of_its_joints_and_no_others(joint, sizes, pricing_rule):
    problem = jp.FunnelProblem(joint, disclosure=0.95 * entropy_of(joint))
    before, asked = jp.solve(problem), []
    pricing_rule(lambda part, funnel: ByBoxes(conditional_of(part), asked) if funnel and len(part) == 2 else None)
    solution = jp.solve(problem)
    assert set(asked) == sizes
    assert_one_optimum(solution, before)
    asked.clear()
    proved(problem)
    assert set(asked) == sizes
