"""A database behind a query (Calmon-Fawaz Corollaries 1 and 2): the elementary states are never listed."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln

import jaxpriv as jp
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.program import program_of
from jaxpriv.program.certificates import certify_program
from jaxpriv.program.lower import measured_program, terms_of
from jaxpriv.reductions import reduction
from jaxpriv.solvers import Goal
from jaxpriv.solving.choice import newton_bytes

RECORDS, CHANCE = 4, 0.3
LIMIT = 0.5


def listed():
    """The joint of all 2^n databases and their counts."""
    databases = list(itertools.product((0, 1), repeat=RECORDS))
    joint = np.zeros((len(databases), RECORDS + 1))
    for s, records in enumerate(databases):
        ones = sum(records)
        joint[s, ones] = CHANCE**ones * (1 - CHANCE) ** (RECORDS - ones)
    return joint


def collapsed():
    """The same through the count alone: its law, and H(S | X=x) = ln C(n, x)."""
    counts = np.arange(RECORDS + 1)
    hidden = gammaln(RECORDS + 1) - gammaln(counts + 1) - gammaln(RECORDS - counts + 1)
    return np.diag(listed().sum(axis=0)), jp.leakage.MaxInformation(hidden)


DISTORTION = jp.distortion.absolute(np.arange(RECORDS + 1.0))


def test_leakage_of_the_elementary_states():
    joint, measure = collapsed()
    mechanism = np.random.default_rng(3).dirichlet(np.ones(4), size=RECORDS + 1)
    whole = jp.leakage.evaluate(jp.leakage.MaxInformation(), listed(), mechanism).value
    assert jp.leakage.evaluate(measure, joint, mechanism).value == pytest.approx(whole, abs=1e-13)


def test_optimum_is_that_of_the_listed_databases():
    joint, measure = collapsed()
    small = jp.solve(jp.DistortionProblem(joint, DISTORTION, leakage=measure, leakage_budget=LIMIT))
    whole = jp.DistortionProblem(listed(), DISTORTION, leakage=jp.leakage.MaxInformation(), leakage_budget=LIMIT)
    large = jp.solve(whole)
    assert small.status == large.status == "optimal"
    assert small.value >= large.lower_bound - 1e-12
    assert large.value >= small.lower_bound - 1e-12
    assert jp.leakage.evaluate(jp.leakage.MaxInformation(), listed(), small.mechanism).value <= LIMIT + 1e-10
    # The rows of 16 databases are 5 rows of the program, found without being told.
    (term,) = terms_of(jp.leakage.MaxInformation(), listed(), Role.WORST, LIMIT)
    assert term.rows.shape == (RECORDS + 1, RECORDS + 1)


def test_corollary_2():
    """The leakage is a constant plus max_y D(P_{X|Y=y} || zeta), zeta proportional to e^{H(S|X=x)}."""
    joint, measure = collapsed()
    query = jp.databases.counting_query(RECORDS, CHANCE)
    mechanism = np.random.default_rng(0).dirichlet(np.ones(3), size=RECORDS + 1)
    assert jp.leakage.evaluate(measure, joint, mechanism).value == pytest.approx(
        query.max_information(mechanism), abs=1e-12
    )


@pytest.mark.thorough  # the value alone: above
def test_diagonal_programs_are_solved_as_dense_ones_are(monkeypatch):
    """The arrow-shaped factor and the dense one are the same algebra."""
    monkeypatch.setenv("JAXPRIV_COMPILE", "always")  # with the kernels, whose dense factors keep more digits
    joint, measure = collapsed()
    problem = jp.DistortionProblem(joint, DISTORTION, leakage=measure, leakage_budget=LIMIT)
    assert reduction.Reduced.of(program_of(problem), Goal(1.0)).program.diagonal
    arrow = jp.solve(problem)
    monkeypatch.setattr(reduction, "_diagonal", lambda _: False)
    dense = jp.solve(problem)
    assert arrow.steps == dense.steps
    np.testing.assert_allclose(arrow.mechanism, dense.mechanism, atol=1e-6)
    assert arrow.value == pytest.approx(dense.value, abs=1e-9)


def test_symbols_of_next_to_no_mass_are_certified_all_the_same():
    joint, measure = collapsed()
    mass = np.append(np.diag(joint) * (1 - 1e-15), 1e-15)
    hidden = np.append(measure.hidden, 0.0)
    distortion = jp.distortion.absolute(np.arange(RECORDS + 2.0), np.arange(RECORDS + 1.0))
    rare = jp.leakage.MaxInformation(hidden)
    found = jp.solve(jp.DistortionProblem(np.diag(mass), distortion, leakage=rare, leakage_budget=LIMIT))
    without = jp.solve(jp.DistortionProblem(joint, DISTORTION, leakage=measure, leakage_budget=LIMIT))
    assert found.status == "optimal"
    assert found.value == pytest.approx(without.value, abs=2e-6)
    assert jp.leakage.evaluate(rare, np.diag(mass), found.mechanism).value <= LIMIT + 1e-9
    np.testing.assert_allclose(found.mechanism.sum(axis=1), 1, atol=1e-12)


def test_hidden_entropies_of_another_size():
    problem = jp.DistortionProblem(
        np.diag([0.5, 0.5]), 1 - np.eye(2), leakage=jp.leakage.MaxInformation([0.0, 1.0, 2.0]), leakage_budget=0.1
    )
    with pytest.raises(jp.InputError, match="hidden"):
        jp.solve(problem)
    with pytest.raises(jp.InputError, match="hidden"):
        jp.leakage.MaxInformation([0.0, np.nan])


def test_the_certificate_does_not_trust_the_reduction():
    """Rules that are pushed off their set only loosen the bound."""
    joint, measure = collapsed()
    problem = jp.DistortionProblem(joint, DISTORTION, leakage=measure, leakage_budget=LIMIT)
    program = measured_program(problem, ((measure, LIMIT),))
    solution = jp.solve(problem)
    k, eta, price = solution.scores[0], solution.weights, solution.multipliers
    exact = certify_program(program, solution.mechanism, k, eta, price).lower_bound
    rng = np.random.default_rng(1)
    for size in (1e-3, 1.0, 1e3):
        worse = certify_program(program, solution.mechanism, k + size * rng.normal(size=k.shape), eta, price)
        assert worse.lower_bound <= solution.value
    assert exact == pytest.approx(solution.lower_bound, abs=1e-12)


def test_ten_thousand_records_need_no_dense_factors():
    """What the interior-point method would hold decides whether it may run: here a few tables."""
    query = jp.databases.counting_query(10_000, 0.5)
    sd = 50
    inner = query.clamped(5000 - 8 * sd, 5000 + 8 * sd)
    counts = np.arange(inner.prior.size)
    measure = jp.leakage.MaxInformation(inner.hidden)
    problem = jp.DistortionProblem(
        np.diag(inner.prior), jp.distortion.absolute(counts, counts), leakage=measure, leakage_budget=1.0
    )
    assert newton_bytes(problem) < 2**28
    limited = jp.DistortionProblem(
        np.diag(inner.prior),
        jp.distortion.absolute(counts, counts),
        leakage=measure,
        leakage_budget=1.0,
        limits=[(jp.leakage.Lift(), 1.0)],
    )
    assert newton_bytes(limited) > 2**32
