"""Terms of measures: they have the values of the measures, up to which their limits hold."""

import dataclasses

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.leakage import evaluate_all
from jaxpriv.testing import random_joint, random_mechanisms
from tests.cases import NEEDED, thorough, value_of

from .measured_cases import AVERAGE, INF, JOINT, MEASURES, USERS, WORST, N, problem_of


def smaller(joint):
    """A joint (4, 4) without mass at its last s and its last x."""
    table = np.zeros((N, N))
    table[:3, :3] = joint
    return table


def rare(seed, mass):
    """Two private symbols of about this mass, with laws P(x|s) of their own."""
    table = random_joint(seed, N, N)
    table[2:] *= mass
    return table / table.sum()


JOINTS = {
    "dense": JOINT,
    "zeros": random_joint(1, N, N, zeros=0.4),
    "no mass": smaller(random_joint(2, 3, 3, zeros=0.2)),
    "rare": rare(3, 1e-7),
    "very rare": rare(3, 1e-16),
    "independent": np.outer([0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]),
}


def solution_of(measure, joint):
    """In closed form: no limit is met."""
    return jp.solve(problem_of(measure, joint, **{"leakage_budget" if measure.worst_outcome else "budget": 50.0}))


def certified(problem, solution, mechanism, **duals):
    """The certificate of the mechanism, with these rules and prices in the place of the solution's."""
    return jp.certify(problem, dataclasses.replace(solution, mechanism=mechanism, **duals))


class OwnDivergence(lk.AbstractDivergence):
    """A class of the user's own, which no program has (a function of one's own is `UserDivergence`)."""

    traits = lk.Traits("nats")

    def __call__(self, t):
        return (t - 1) ** 2


def test_every_measure_is_supported_but_classes_of_ones_own():
    assert all(measure.designable for measure in MEASURES.values())
    assert {type(m).__name__ for m in MEASURES.values()} >= {
        type(lk.by_name(name, **NEEDED.get(name, {}))).__name__ for name in lk.NAMES
    }
    for own in (
        lk.FInformation(lk.UserDivergence(lambda t: (t - 1) ** 2, 1.0)),
        lk.AverageCostGain(lk.CustomLoss(lambda q: (1 - q) ** 2)),
        lk.MaxCostGain(lk.CustomLoss(lambda q: (1 - q) ** 2)),
    ):
        assert own.designable
    assert not lk.FInformation(OwnDivergence()).designable


# Of the functions of a user, each of which takes a second to compile: infinite and finite at zero, with a domain that
# ends, with a kink, and losses with announcements inside of the simplex and on its faces.
OF_A_USER = [f"user {name}" for name in ("reverse-kl", "hellinger", "bounded-domain", "kink", "gain-log-loss", "cubic")]


@pytest.mark.parametrize("which", [*JOINTS, "of a user", *thorough("all of a user")])
def test_terms_of_an_average_measure_add_up_to_its_value(which):
    joint, measures = JOINTS.get(which, JOINT), AVERAGE
    if which not in JOINTS:
        names = OF_A_USER if which == "of a user" else [name for name, one in USERS.items() if not one.worst_outcome]
        measures = {name: USERS[name] for name in names}
    mechanisms = random_mechanisms(3, 8, N, N)
    expected = [evaluate_all(tuple(measures.values()), joint, mechanism) for mechanism in mechanisms]
    for place, (name, measure) in enumerate(measures.items()):
        problem, solution = problem_of(measure, joint, budget=50.0), solution_of(measure, joint)
        for mechanism, values in zip(mechanisms, expected, strict=True):
            found = certified(problem, solution, mechanism)
            assert found.value == pytest.approx(values[place].value, rel=1e-9, abs=2e-11), name


@pytest.mark.parametrize("which", JOINTS)
def test_terms_of_a_worst_outcome_measure_hold_exactly_up_to_its_value(which):
    joint = JOINTS[which]
    mechanisms = random_mechanisms(4, 8, N, N)
    expected = [evaluate_all(tuple(WORST.values()), joint, mechanism) for mechanism in mechanisms]
    for place, (name, measure) in enumerate(WORST.items()):
        solution = solution_of(measure, joint)

        def holds(mechanism, eps, measure=measure, solution=solution):
            return certified(problem_of(measure, joint, leakage_budget=eps), solution, mechanism).valid

        for mechanism, values in zip(mechanisms, expected, strict=True):
            value = values[place].value
            if value == INF:
                assert not holds(mechanism, 25.0), name
                continue
            assert holds(mechanism, value * (1 + 1e-6) + 1e-10), name
            # Terms are about e^-eps: a part in 10^6 is rounding far beyond 15 nats; `solve` evaluates the measure.
            if 1e-9 < value < 15:
                assert not holds(mechanism, value * (1 - 1e-6)), name


def test_symbols_that_say_the_same_are_merged_and_others_are_not():
    joint = np.array([[0.1, 0.1, 0.0, 0.0], [0.2, 0.2, 0.0, 0.0], [0.0, 0.0, 0.3, 0.0], [0.0, 0.0, 0.0, 0.1]])
    merged = {"kl": 3, "sibson-2": 3, "maximal-leakage": 3, "max-information": 3, "correct-guess": 4, "hellinger": 4}
    for name, rows in merged.items():
        found = jp.solve(problem_of(MEASURES[name], joint, leakage_budget=0.9), "interior-point", max_steps=1)
        assert found.scores.shape == (1, N, rows), name
    twins = np.array([[0.5, 0.5, 0, 0], [1e-17, 0.0, 0, 0], [0.0, 1e-17, 0, 0]])
    problem = problem_of(lk.MaximalLeakage(), twins, budget=9.0)
    for mechanism in random_mechanisms(5, 3, N, N):
        found = certified(problem, jp.solve(problem), mechanism)
        assert found.value == pytest.approx(value_of(problem.leakage, twins, mechanism), rel=1e-12)
