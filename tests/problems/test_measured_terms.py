"""Terms of measures: they have the values of the measures, and no rule proves more than a mechanism attains."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxpriv import leakage as lk
from jaxpriv.leakage import evaluate, evaluate_all
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.program.certify import certify_program, column_values
from jaxpriv.program.convex import Program
from jaxpriv.program.lower import shift_of, terms_of
from jaxpriv.testing import random_joint, random_mechanisms
from tests.cases import NEEDED

from .measured_cases import AVERAGE, DISTORTION, INF, JOINT, MEASURES, USERS, WORST, N


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


def program_of(terms, joint, *, cost=None, constraints=None, budgets=None):
    shape = (joint.shape[1], N)
    rows = np.zeros((0, *shape)) if constraints is None else constraints
    return Program(
        terms=tuple(terms),
        mass=joint.sum(axis=0),
        cost=np.zeros(shape) if cost is None else cost,
        constraints=rows,
        budgets=np.zeros(len(rows)) if budgets is None else budgets,
        marks=np.zeros(len(rows)),
        support=np.ones(shape, dtype=bool),
        feasible_point=np.zeros(shape),
    )


# -- terms have the values of measures -------------------------------------------------------------


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


@pytest.mark.parametrize("which", [*JOINTS, "of a user"])
def test_terms_of_an_average_measure_add_up_to_its_value(which):
    joint, measures = JOINTS.get(which, JOINT), AVERAGE
    if which not in JOINTS:
        measures = {name: one for name, one in USERS.items() if not one.worst_outcome}
    for mechanism in random_mechanisms(3, 8, N, N):
        values = evaluate_all(tuple(measures.values()), joint, mechanism)
        for (name, measure), found in zip(measures.items(), values, strict=True):
            (term,) = terms_of(measure, joint, Role.OBJECTIVE)
            total = column_values(term, term.rows @ mechanism).sum() + shift_of(measure, joint)
            assert measure.scale_for(N).outer(total) == pytest.approx(found.value, rel=1e-9, abs=2e-11), name
            if found.value < INF:  # the same number as a limit: the bound is where the sum stands
                (limit,) = terms_of(measure, joint, Role.AVERAGE, found.value)
                assert float(limit.bound) == pytest.approx(total - shift_of(measure, joint), rel=1e-9, abs=2e-11), name


def holds(measure, joint, mechanism, eps):
    terms = terms_of(measure, joint, Role.WORST, eps)
    rows = sum(len(term.rows) for term in terms)
    proof = certify_program(
        program_of(terms, joint), mechanism, np.zeros((N, rows)), np.zeros((N, len(terms))), np.zeros(0)
    )
    return proof.violation == 0


@pytest.mark.parametrize("which", JOINTS)
def test_terms_of_a_worst_outcome_measure_hold_exactly_up_to_its_value(which):
    joint = JOINTS[which]
    for mechanism in random_mechanisms(4, 8, N, N):
        values = evaluate_all(tuple(WORST.values()), joint, mechanism)
        for (name, measure), found in zip(WORST.items(), values, strict=True):
            if found.value == INF:
                assert not holds(measure, joint, mechanism, 25.0), name
                continue
            assert holds(measure, joint, mechanism, found.value * (1 + 1e-6) + 1e-10), name
            # Terms are about e^-eps: a part in 10^6 is rounding far beyond 15 nats; `solve` evaluates the measure.
            if 1e-9 < found.value < 15:
                assert not holds(measure, joint, mechanism, found.value * (1 - 1e-6)), name


def test_symbols_that_say_the_same_are_merged_and_others_are_not():
    joint = np.array([[0.1, 0.1, 0.0, 0.0], [0.2, 0.2, 0.0, 0.0], [0.0, 0.0, 0.3, 0.0], [0.0, 0.0, 0.0, 0.1]])
    merged = {"kl": 3, "sibson-2": 3, "maximal-leakage": 3, "max-information": 3, "correct-guess": 4, "hellinger": 4}
    for name, rows in merged.items():
        (term,) = terms_of(MEASURES[name], joint, Role.WORST if name in WORST else Role.OBJECTIVE, 0.1)
        assert len(term.rows) == rows, name
    twins = np.array([[0.5, 0.5], [1e-17, 0.0], [0.0, 1e-17]])
    (term,) = terms_of(lk.MaximalLeakage(), twins, Role.OBJECTIVE)
    assert len(term.rows) == 3


# -- weak duality: no rule and no price proves too much --------------------------------------------

WILD = st.one_of(
    st.floats(-3, 3), st.sampled_from([0.0, 1e-300, 1e300, -1e300, 50.0, -50.0, math.nan, INF, -INF])
)  # fmt: skip
DUAL_CASES = [
    *((name, Role.OBJECTIVE) for name in ("kl", "sibson-0.5", "sibson-2", "maximal-leakage", "chi-squared",
                                          "reverse-kl", "hellinger", "jensen-shannon", "total-variation",
                                          "gain-losses")),
    *((name, Role.AVERAGE) for name in ("kl", "arimoto-0.3", "arimoto-3", "sibson-inf", "chi-squared", "reverse-kl",
                                        "hellinger", "jensen-shannon", "e-gamma", "gain-brier")),
    *((name, Role.WORST) for name in ("max-information", "relative-entropy", "max-gain-brier", "max-gain-zero-one",
                                      "lift", "ldp", "ldp-chain")),
    *((f"user {name}", role) for name in ("hellinger", "reverse-kl", "quartic", "bounded-domain", "gain-brier", "cubic")
      for role in (Role.OBJECTIVE, Role.AVERAGE)),
    *((f"user {name}", Role.WORST) for name in ("max-gain-brier", "max-cubic")),
]  # fmt: skip


def _instance(name, role, seed):
    """A program, and a mechanism that meets its limits exactly."""
    measure, slack = (MEASURES | USERS)[name], 1e-9 if name in USERS else 1e-12
    joint = random_joint(seed, N, N)
    mechanism = random_mechanisms(seed, 4, N, N)[seed % 2]
    mechanism = 0.9 * mechanism + 0.1 / N
    eps = 0.0 if role is Role.OBJECTIVE else evaluate(measure, joint, mechanism).value * (1 + 1e-9) + slack
    terms = terms_of(measure, joint, role, eps)
    weighted = joint.sum(axis=0)[:, None] * DISTORTION
    budgets = np.array([(weighted * mechanism).sum() * (1 + 1e-12)])
    return program_of(terms, joint, cost=weighted, constraints=weighted[None], budgets=budgets), mechanism


@pytest.mark.parametrize(("name", "role"), DUAL_CASES)
@given(data=st.data())
def test_no_rule_proves_more_than_a_feasible_mechanism(name, role, data):
    program, mechanism = _instance(name, role, data.draw(st.integers(0, 7)))
    rows = sum(len(term.rows) for term in program.terms)
    wild = data.draw(st.lists(WILD, min_size=N * rows, max_size=N * rows))
    prices = data.draw(st.lists(WILD, min_size=N + 2, max_size=N + 2))
    eta = np.array(prices[:N])[:, None]
    limits = 1 + sum(term.priced for term in program.terms)
    proof = certify_program(program, mechanism, np.array(wild).reshape(N, rows), eta, np.array(prices[N:][:limits]))
    assert proof.violation == 0
    assert not proof.lower_bound > proof.value
    assert not math.isnan(proof.lower_bound)
