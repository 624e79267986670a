"""Programs of linear terms: the mechanism and the prices go their own ways, which takes fewer steps to the optimum."""

import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.testing import random_joint
from tests.cases import distances

N = 20
DISTORTION = distances(N) / N
# Most steps of six joints together: 86, 64 and 93 with two lengths, 93, 75 and 102 with one for both.
MOST = {
    "maximal leakage": (lk.MaximalLeakage(), 89),
    "correct guess": (lk.CorrectGuess(), 69),
    "total variation": (lk.FInformation(lk.TotalVariation()), 97),
}


@pytest.mark.parametrize("name", MOST)
def test_few_steps_to_the_value_of_the_simplex_method(name, monkeypatch):
    monkeypatch.setenv("JAXPRIV_COMPILE", "never")
    measure, most = MOST[name]
    steps = 0
    for seed in range(6):
        problem = jp.DistortionProblem(random_joint(seed, N, N), DISTORTION, budget=0.1, leakage=measure)
        found, exact = (jp.solve(problem, solver=name) for name in ("interior-point", "linear-program"))
        assert found.status == exact.status == "optimal"
        assert abs(found.value - exact.value) <= found.gap + exact.gap
        assert found.lower_bound <= exact.value + 1e-12
        steps += int(found.steps)
    assert steps <= most, steps
