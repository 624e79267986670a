"""What a solver of somebody's own returns is checked before it is a solution."""

import dataclasses

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.funnels import AbstractFunnelSolver, PosteriorMeasure
from tests.cases import value_of

JOINT = np.array([[0.2, 0.15, 0.05], [0.1, 0.2, 0.3]])


@dataclasses.dataclass(frozen=True)
class Scaled(AbstractFunnelSolver):
    """X itself, with masses that sum to a factor."""

    factor: float

    def find(self, problem, goal):
        del goal
        return PosteriorMeasure(self.factor * np.eye(3), problem.core.sum(axis=0))


def test_posteriors_that_do_not_sum_to_one_are_no_solution():
    funnel = jp.FunnelProblem(JOINT, disclosure=0.5)
    whole = value_of(jp.leakage.MutualInformation(), JOINT, np.eye(3))
    assert jp.solve(funnel, solver=Scaled(1.0)).value == pytest.approx(whole, rel=0.9)
    for factor in (np.nan, 1 + 1e-4):
        with pytest.raises(ArithmeticError):
            jp.solve(funnel, solver=Scaled(factor))
