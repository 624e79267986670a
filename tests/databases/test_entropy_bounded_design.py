"""The best mechanism against bounded knowledge: closed forms, other mechanisms, and the reverse problem."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq, linprog

from jaxpriv import databases as db
from tests.cases import assert_refused
from tests.funnels.cases import h

BIT = 1.0 - np.eye(2)
PARITY = (db.sequences((2, 2)).sum(axis=1) % 2)[:, None] != np.arange(2)


def closed_form(b, limit):
    """One bit: the worst prior is (p, 1 - p) with h(p) = b, and a symmetric channel is best by symmetry."""
    p = brentq(lambda q: h(q) - b, 1e-300, 0.5) if b > 0 else 0.0
    return brentq(lambda f: math.log((1 - f) / (p * (1 - f) + (1 - p) * f)) - limit, 1e-12, 0.5)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("limit", [0.05, 0.3])
def test_one_bit_in_closed_form(share, limit):
    b = share * math.log(2)
    found = db.entropy_bounded_mechanism(BIT, (2,), b, leakage=limit, tol=1e-4)
    assert found.lower_bound <= closed_form(b, limit) + 1e-12
    assert found.distortion >= closed_form(b, limit) - 1e-9
    assert 0 <= found.gap <= 1e-4
    assert found.minimised == "distortion"


@pytest.mark.parametrize(("distortion", "sizes"), [(BIT, (2,)), (PARITY, (2, 2))])
def test_all_priors_leave_randomised_response(distortion, sizes):
    """Without a bound on the knowledge the ratio of two rows is what is limited: an error of 1/(1 + e^L)."""
    found = db.entropy_bounded_mechanism(np.asarray(distortion, float), sizes, 0.0, leakage=0.4)
    assert abs(found.distortion - 1 / (1 + math.exp(0.4))) <= 1e-3
    assert found.lower_bound <= 1 / (1 + math.exp(0.4)) + 1e-12


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_no_mechanism_within_the_limit_is_below_the_bound(share):
    """The leakage of the result is proved by the other function, and random mechanisms with as little are no better."""
    rng = np.random.default_rng(3)
    costs, sizes = rng.random((4, 3)), (2, 2)
    b, prior = share * math.log(4), rng.dirichlet(np.ones(4))
    found = db.entropy_bounded_mechanism(costs, sizes, b, leakage=0.25, prior=prior, tol=5e-3)
    assert found.gap <= 5e-3
    assert abs(found.distortion - prior @ (costs * found.mechanism).sum(axis=1)) <= 1e-12
    assert db.entropy_bounded_privacy(found.mechanism, sizes, b).lower <= 0.25 + 1e-12
    nearest, noise = np.eye(3)[costs.argmin(axis=1)], np.full((4, 3), 1 / 3)
    better = 0
    for other in (nearest, found.mechanism, *rng.dirichlet(np.full(3, 0.5), (6, 4))):
        for weight in (0.05, 0.2, 0.5):
            mixed = weight * other + (1 - weight) * noise
            if db.entropy_bounded_privacy(mixed, sizes, b, tol=1e-3).upper <= 0.25:
                better += 1
                assert prior @ (costs * mixed).sum(axis=1) >= found.lower_bound - 1e-12
    assert better > 0


def test_budgets_of_single_records_against_a_linear_program():
    """Against every prior the rows of two sequences are within the least budget of the records that differ."""
    budgets, sizes = np.array([0.3, 1.1]), (2, 2)
    table = db.sequences(sizes)
    costs = np.array([[1.0, 1.5]]) @ (table[:, None] != table).T.reshape(2, -1)
    costs = costs.reshape(4, 4)
    found = db.entropy_bounded_mechanism(costs, sizes, 0.0, leakage=budgets, tol=1e-2)
    rows = []
    for x, other in np.argwhere(~np.eye(4, dtype=bool)):
        factor = math.exp(budgets[table[x] != table[other]].min())
        for r in range(4):
            row = np.zeros((4, 4))
            row[x, r], row[other, r] = 1.0, -factor
            rows.append(row.ravel())
    least = linprog(
        costs.ravel() / 4, A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=np.kron(np.eye(4), np.ones(4)), b_eq=np.ones(4)
    ).fun
    assert found.lower_bound - 1e-9 <= least <= found.distortion + 1e-9
    assert found.gap <= 1e-2
    np.testing.assert_array_equal(found.leakage, budgets)
    for i, budget in enumerate(budgets):
        assert db.entropy_bounded_privacy(found.mechanism, sizes, 0.0, records=[i]).lower <= budget + 1e-9


def test_the_reverse_problem_returns_the_leakage():
    b = 0.5 * math.log(2)
    least = closed_form(b, 0.2)
    found = db.entropy_bounded_mechanism(BIT, (2,), b, budget=least, tol=1e-3)
    assert found.minimised == "leakage"
    assert found.distortion <= least + 1e-15
    assert found.lower_bound <= 0.2 <= found.leakage
    assert found.gap <= 1e-3


def test_budgets_at_both_ends():
    silent = db.entropy_bounded_mechanism(BIT, (2,), 0.3, budget=0.5)
    assert silent.leakage == silent.lower_bound == 0
    # Whoever knows the other records exactly can rule a symbol out: no leakage is finite.
    exact = db.entropy_bounded_mechanism(np.asarray(PARITY, float), (2, 2), 0.0, budget=0.0, max_rounds=3)
    assert exact.leakage == math.inf
    assert exact.distortion == 0


@pytest.mark.parametrize("scale", [1e-12, 1e9, 1e300])
def test_the_unit_of_the_distortion_scales_the_result(scale):
    one = db.entropy_bounded_mechanism(BIT, (2,), 0.3, leakage=0.1)
    found = db.entropy_bounded_mechanism(BIT * scale, (2,), 0.3, leakage=0.1, tol=1e-3 * scale)
    assert found.gap <= 1e-3 * scale
    assert abs(found.distortion / scale - one.distortion) <= 1e-9
    assert found.lower_bound <= one.distortion * scale
    assert one.lower_bound * scale <= found.distortion


@pytest.mark.parametrize("leakage", [700.0, 1000.0, 1e300])
def test_a_leakage_beyond_every_exponent_limits_nothing(leakage):
    found = db.entropy_bounded_mechanism(BIT, (2,), 0.3, leakage=leakage)
    assert found.distortion == found.lower_bound == 0.0
    np.testing.assert_array_equal(found.mechanism, np.eye(2))


def test_a_record_of_one_symbol_has_nothing_to_hide():
    found = db.entropy_bounded_mechanism([[3.0, 2.0]], (1,), 0.0, leakage=0.1)
    assert found.distortion == 2.0
    assert found.gap <= 1e-12


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"leakage": 0.0}, "leakage must be"),
        ({"leakage": [0.0]}, r"leakage\[0\] must be"),
        ({"leakage": [0.1, 0.1]}, "leakage has 2 entries"),
        ({"leakage": 0.1, "budget": 0.1}, "exactly one"),
        ({}, "exactly one"),
        ({"budget": -1.0}, "budget"),
        ({"leakage": 0.1, "tol": 0.0}, "tol"),
        ({"leakage": 0.1, "max_rounds": 0}, "max_rounds"),
        ({"leakage": 0.1, "entropy": 2.0}, "entropy"),
        ({"leakage": 0.1, "distortion": np.zeros((3, 2))}, "distortion has 3 rows"),
        ({"leakage": 0.1, "distortion": -BIT}, "distortion"),
        ({"leakage": 0.1, "prior": np.ones(2)}, "prior"),
        ({"budget": 0.1, "distortion": BIT + 0.5}, "budget is below 0.5"),
    ],
)
def test_wrong_arguments_are_named(wrong, message):
    given = {"distortion": BIT, "entropy": 0.1, **wrong}
    assert_refused(message, db.entropy_bounded_mechanism, given.pop("distortion"), (2,), given.pop("entropy"), **given)


def test_a_budget_of_the_least_distortion_summed_in_another_order():
    least = 0.1 * np.ones(2)
    found = db.entropy_bounded_mechanism(BIT + 0.1, (2,), 0.3, budget=float(np.nextafter(least.mean(), 0)))
    assert found.distortion == pytest.approx(0.1, abs=1e-14)
