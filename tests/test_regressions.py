"""Defects that were found by hand, each once."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv.program import program_of
from jaxpriv.program.certificates import certify_program
from jaxpriv.program.lower import measured_program
from jaxpriv.reductions.closed_forms import best_mixture, no_rules
from jaxpriv.solvers.interior_point.candidate import repaired
from jaxpriv.solvers.interior_point.system import rearrange
from tests.cases import distances, drawn_joint, refused
from tests.information import certify

JOINT = drawn_joint(0, 4, 5)
TABLE = distances(5)


def test_a_negative_traced_limit_has_no_mechanism():
    found = jax.jit(lambda e: jp.solve(jp.DistortionProblem(JOINT, TABLE, leakage_budget=e)))(-0.1)
    assert np.isnan(found.mechanism).all()
    assert np.isinf(found.value)
    assert found.status == "not_certified"


@pytest.mark.parametrize("change", [[[-0.5, 0.5]], [[1e-6, 0.0]]])
def test_what_is_no_mechanism_is_a_violation(change):
    program = program_of(jp.DistortionProblem(np.eye(2) / 2, np.zeros((2, 2)), multiplier=1.0))
    mechanism = np.array([[0.2, 0.8], [0.2, 0.8]]) + np.array(change)
    zeros = np.zeros((1, 2, 2))
    assert certify(program, mechanism, zeros, np.ones(1), np.zeros(0)).violation > 0


def test_lists_of_tracers_are_arrays():
    asked = jax.jit(lambda j, b: jp.DistortionProblem([j, j], [TABLE, TABLE], budget=[b, b]).budget)
    assert asked(JOINT, 0.5).shape == (2,)


def test_host_only_functions_say_so():
    noise = jax.jit(lambda b: jp.solve(jp.NoiseProblem(np.eye(3) / 3, [0.0, 1.0, 1.0], budget=b)).value)
    with refused("outside of jit"):
        noise(0.2)
    problem = jp.DistortionProblem(JOINT, TABLE, budget=0.5)
    with refused("outside of jit"):
        jax.jit(lambda b: jp.frontier(problem, budgets=b).targets)(jnp.array([0.1, 0.2]))
    with refused("outside of jit"):
        jax.jit(lambda j: jp.with_private_input(j, TABLE, budget=0.5).joints)(JOINT)


# Of one traced array or number each.
HOST_ONLY = {
    "all_priors_privacy": jp.databases.all_priors_privacy,
    "audit_attributes": lambda a: jp.statistics.audit.audit_attributes(a, np.eye(2)),
    "counting_query": lambda a: jp.databases.counting_query(2, a[0, 0]),
    "dependence_extent": lambda a: jp.databases.dependence_extent(a[0], (2,)),
    "entropy_bounded_mechanism": lambda a: jp.databases.entropy_bounded_mechanism(a, (2,), 0.1, leakage=0.1),
    "geometric_count": lambda a: jp.databases.geometric_count(2, a[0, 0]),
    "group_privacy_bound": lambda a: jp.databases.group_privacy_bound(a[0, 0], 2),
    "independent_prior": jp.databases.independent_prior,
    "uncertain_records_privacy": lambda a: jp.databases.uncertain_records_privacy(a, (2,), 0.1),
}


@pytest.mark.parametrize("name", HOST_ONLY)
def test_functions_of_databases_and_tables_refuse_traced_arguments(name):
    with refused(rf"^{name} runs on the host, outside of jit, vmap and grad"):
        jax.jit(HOST_ONLY[name])(jnp.full((2, 2), 0.5))


@pytest.mark.parametrize("steps", [0, 2.5, np.nan, np.inf, "a", [1], True, 10**30])
@pytest.mark.parametrize("noise", [False, True])
def test_step_limits_are_checked_for_every_problem(steps, noise):
    problem = jp.DistortionProblem(JOINT, TABLE, budget=0.5)
    if noise:
        problem = jp.NoiseProblem(np.eye(3) / 3, [0.0, 1.0, 1.0], budget=0.2)
    with refused(r"^max_steps"):
        jp.solve(problem, max_steps=steps)


def test_bands_of_nothing_and_at_nothing():
    problem = jp.DistortionProblem(JOINT, TABLE, budget=0.5)
    with refused("infeasible"):
        jp.frontier(problem, budgets=[-1.0, -2.0]).band([0.1])
    with refused(r"^at\[0\] is NaN"):
        jp.frontier(problem, budgets=[3.0]).band([np.nan])


def test_counts_whose_sum_overflows():
    assert_array_equal(jp.probability.from_counts([[1e308, 1e308]]), [[0.5, 0.5]])


def test_offsets_beyond_integers():
    with refused(r"^offsets\[2\]"):
        jp.NoiseProblem(np.eye(3) / 3, [0.0, 1.0, 1.0], budget=0.2, offsets=[0, 1, 1e300])


@pytest.mark.parametrize("seed", [0, 1, 2, 11])
def test_leakage_limit_zero_on_joints_whose_masses_differ_by_many_orders(seed):
    """HiGHS's presolve called these infeasible."""
    joint = drawn_joint(seed, 8, 8, 0.02)
    table = distances(8)
    solution = jp.solve(jp.DistortionProblem(joint, table, leakage_budget=0))
    assert 0 <= solution.lower_bound <= solution.value <= (joint.sum(axis=0) @ table).min() + 1e-12
    assert solution.leakage <= 1e-9
    assert solution.status == ("optimal" if solution.gap <= 1e-6 and solution.leakage <= 1e-12 else "not_certified")


def limited_data(joint, measure, limit):
    """What the interior-point method computes with under a limit, the first output as a release that meets it."""
    size = joint.shape[1]
    problem = jp.DistortionProblem(joint, 1.0 - np.eye(size), leakage_budget=limit, leakage=measure)
    constant = np.eye(size)[np.zeros(size, dtype=int)]
    return rearrange(dataclasses.replace(measured_program(problem, ((measure, limit),)), feasible_point=constant))


def test_a_limit_without_any_slack_takes_no_share_of_nothing():
    """Posteriors that are exactly the prior leave a limit of 0 no slack: 0 / 0 is no share."""
    data = limited_data(np.full((2, 2), 0.25), jp.leakage.MaxInformation(), 0.0)
    constant = data.program.feasible_point.T
    assert_array_equal(repaired(data, constant), constant)


def test_what_rounding_exceeds_of_a_limit_without_slack_is_not_mixed_away():
    """A release without slack holds the limit by less than its rounding: a mixture with it would be that release."""
    step = 2.0**-50
    data = limited_data(np.diag([0.5, 0.25, 0.25]), jp.leakage.CorrectGuess(), 0.5 + step / 4)
    x = np.full((3, 3), [[0.5], [0.25], [0.25]])
    x[0, 0] += step  # max_s P(s, y) sums to 0.5 + step / 2
    assert_array_equal(repaired(data, x), x)
    x[0, 0] += 1e-6
    assert_allclose(repaired(data, x), data.program.feasible_point.T, atol=1e-6)


@pytest.mark.parametrize("over", [1e-15, 1e-14, 1e-13])
def test_rounding_beyond_a_tiny_budget_is_repaired(over):
    """The feasible point has no more slack than the budget is large."""
    budget = 1e-6
    problem = jp.DistortionProblem(np.full((2, 2), 0.25), 1.0 - np.eye(2), budget=budget)
    program = measured_program(problem, ())
    program = dataclasses.replace(program, feasible_point=np.eye(2))
    wrong = budget + over
    mechanism = np.array([[1.0 - wrong, wrong], [wrong, 1.0 - wrong]])
    assert certify_program(program, mechanism, *no_rules(program)).violation > 0
    found, certificate, _ = best_mixture(program, lambda _: 0.0, mechanism, *no_rules(program))
    assert certificate.violation == 0
    assert abs(found - mechanism).max() < 2 * over
