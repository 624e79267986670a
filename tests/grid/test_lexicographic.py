"""Both steps of a lexicographic problem, against linear programs with tangents, on the structures of the grid."""

import numpy as np
import pytest

import jaxpriv as jp
from tests.cases import assert_certified, distances, drawn_joint

from .measures import MEASURES
from .optimum import Limit, Question, least

RNG = np.random.default_rng(3)
COSTS = distances(4, 3)
DENSE = drawn_joint(RNG, 3, 4)
ZEROS = np.array([[0.2, 0.1, 0.0, 0.1], [0.0, 0.1, 0.3, 0.2]])
STRUCTURES = {"dense": DENSE, "zeros": ZEROS, "rank-one": np.outer([0.25, 0.75], [0.125, 0.125, 0.25, 0.5])}
NAMES = ("mutual-information", "maximal-leakage", "min-entropy", "chi-squared", "max-lift", "lift", "ldp", "sibson-2")


@pytest.mark.parametrize("tolerance", [0.01, 1e-4, 0.0])
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", NAMES)
def test_both_bounds_are_below_the_optima_and_the_mechanism_attains_them(name, structure, tolerance):
    reference, joint = MEASURES[name], STRUCTURES[structure]
    costs = joint.sum(axis=0)[:, None] * COSTS
    budget = costs.min(axis=1).sum() + 0.3
    problem = jp.DistortionProblem(joint, COSTS, leakage=reference.asked(joint.sum(axis=1)), budget=budget)
    both = jp.LexicographicProblem(problem, tolerance=tolerance)
    solution = jp.solve(both)
    assert solution.status == "optimal"
    assert_certified(both, solution)
    everywhere, first = np.ones(COSTS.shape, dtype=bool), solution.least_leakage
    assert reference.of(joint, solution.mechanism) <= first.value + tolerance + 1e-9
    assert solution.leakage <= first.value + tolerance + 1e-11
    assert solution.value <= first.distortion[0] + 1e-12  # no worse than the mechanism of the first step

    def distortion_at(leakage: float) -> float:
        limit = Limit(reference, joint, leakage if reference.worst else reference.inner(leakage))
        return least(Question(costs, [], [limit], everywhere))[0]

    if reference.worst:  # the budget is met at the value, and at no limit below the bound
        assert distortion_at(first.value + 1e-9) <= budget + 1e-7
        assert first.lower_bound <= 1e-6 or distortion_at(first.lower_bound - 1e-6) > budget
    else:
        question = Question(np.zeros(COSTS.shape), [(costs, budget)], [Limit(reference, joint, None)], everywhere)
        optimum = reference.outer(least(question)[0])
        assert first.lower_bound - 1e-7 <= optimum <= first.value + 1e-8
    optimum = distortion_at(first.value + tolerance)
    assert solution.lower_bound - 1e-7 <= optimum <= solution.value + 1e-8
