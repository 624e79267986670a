"""Any measure inside jit, vmap and grad: values and slopes of optima, what is certified of them, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.solvers import Goal
from jaxpriv.solving.choice import pick_solver
from tests.cases import distances, drawn_joint, further

CHI_SQUARED = lk.FInformation(lk.ChiSquared())


@pytest.fixture(autouse=True)
def _ranks():
    """What `solve` and `optimal_value` allow for themselves."""
    with jax.numpy_rank_promotion("allow"):
        yield


RNG = np.random.default_rng(5)
SMALL = drawn_joint(RNG, 3, 4)
TABLE = RNG.uniform(0.2, 1.0, (4, 4)) * (1.0 - np.eye(4))
WIDE = np.insert(np.pad(SMALL, ((0, 1), (0, 0))), 1, 0.0, axis=0)
FORMS = {
    "sibson-0.5": ("budget", lk.Sibson(0.5), (), (0.1, 0.2)),
    "ldp": ("leakage_budget", lk.LocalDifferentialPrivacy(), (), (0.3, 0.6)),
    "chi-squared": ("leakage_budget", CHI_SQUARED, (), (0.02, 0.05)),
    "chi-squared and limits": ("budget", CHI_SQUARED, ((lk.Sibson(2.0), 0.15), (lk.MaxLift(), 0.8)), (0.2, 0.25)),
    "total variation": ("multiplier", lk.FInformation(lk.TotalVariation()), (), (0.3, 0.5)),
    "max-information": ("leakage_budget", lk.MaxInformation(), (), (0.1, 0.2)),
    "least ldp": ("budget", lk.LocalDifferentialPrivacy(), (), (0.1, 0.2)),
    "least max-information": ("budget", lk.MaxInformation(), ((lk.MaximalLeakage(), 0.6),), (0.1, 0.2)),
}
# A limit on an average. On a worst outcome: `test_a_compiled_solution_is_certified_on_the_host`; the least average:
# `test_slopes.py`.
ALWAYS = ("chi-squared",)


def test_a_tolerance_may_be_traced_alone():
    problem = jp.DistortionProblem(SMALL, TABLE, leakage_budget=0.1)
    with jax.enable_x64(True):
        jax.eval_shape(lambda tol: jp.solve(problem, tol=tol), 1e-6)


def problem_of(which, joint, table, level):
    form, measure, limits, _ = FORMS[which]
    return jp.DistortionProblem(joint, table, leakage=measure, limits=limits, **{form: level})


@pytest.mark.slow
def test_the_leakage_of_a_trace_and_its_slope_are_those_of_the_measure():
    def leakages(price):
        problem = jp.DistortionProblem(SMALL, TABLE, leakage=CHI_SQUARED, multiplier=price)
        found = jp.solve(problem, "interior-point", tol=1e-9)
        return found.leakage, CHI_SQUARED(jnp.asarray(SMALL), found.mechanism)

    with jax.enable_x64(True):
        values, slopes = jax.jit(lambda at: jax.jvp(leakages, (at,), (1.0,)))(0.1)
    assert_allclose(*values, rtol=1e-12)
    assert_allclose(*slopes, rtol=1e-12)
    assert slopes[1] > 0


@pytest.mark.parametrize("which", further(FORMS, ALWAYS))
def test_values_and_slopes_of_a_batch_are_those_of_the_host(which):
    """One compiled program for two levels and one that no mechanism meets, symbols without mass and all."""
    rng = np.random.default_rng(6)
    accuracy = 1e-9 if which.startswith("least") else 1e-10
    move = rng.normal(size=SMALL.shape) * SMALL
    move -= SMALL * move.sum()
    tilt = rng.normal(size=TABLE.shape) * TABLE

    def padded(joint):
        return jnp.insert(jnp.pad(joint, ((0, 1), (0, 0))), 1, 0.0, axis=0)

    def value(step, level):
        return jp.optimal_value(
            problem_of(which, padded(SMALL + step[0] * move), TABLE + step[1] * tilt, level + step[2])
        )

    def host(step, level):
        problem = problem_of(which, SMALL + step[0] * move, TABLE + step[1] * tilt, level + step[2])
        return jp.solve(problem, tol=accuracy)

    def expected(axis, level):
        """By certified differences; of a search, whose ends they would magnify, by the host's sensitivity."""
        if which.startswith("least"):
            problem = problem_of(which, SMALL, TABLE, level)
            found = jp.sensitivity(problem, jp.solve(problem, tol=accuracy))
            return axis @ [(found.joint[0] * move).sum(), (found.distortion[0] * tilt).sum(), found.budget[0]]
        ends = [host(sign * 1e-4 * axis, level) for sign in (1.0, -1.0)]
        middles = [0.5 * (end.value + end.lower_bound) for end in ends]
        return (middles[0] - middles[1]) / 2e-4

    levels = FORMS[which][3]
    batch = jnp.array([*levels, -0.5])
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(value), in_axes=(None, 0)))(jnp.zeros(3), batch)
    if FORMS[which][0] != "multiplier":
        assert np.isnan(values[2])
        assert np.isnan(slopes[2]).all()
    for i, level in enumerate(levels):
        exact = host(np.zeros(3), level)
        assert exact.status == "optimal"
        assert exact.lower_bound - 1e-9 <= values[i] <= exact.value + 1e-9
        for axis in np.eye(3):
            assert slopes[i] @ axis == pytest.approx(expected(axis, level), rel=2e-5, abs=1e-6)


def test_the_least_worst_outcome_within_two_budgets_is_that_of_the_host():
    """With two budgets a mechanism that meets both is searched for first; NaN where none exists."""
    steps = distances(4)

    def stated(budgets):
        return jp.DistortionProblem(SMALL, (TABLE, steps), budget=budgets, leakage=lk.MaxLift())

    compiled = jax.jit(lambda budgets: jp.optimal_value(stated(budgets)))
    for budgets in ([0.1, 0.3], [0.2, 0.15]):
        value, host = compiled(jnp.array(budgets)), jp.solve(stated(np.array(budgets)))
        assert host.lower_bound - 1e-8 <= value <= host.value + 1e-8
    assert np.isnan(compiled(jnp.array([0.2, -0.1])))


@pytest.mark.parametrize("measure", [lk.MutualInformation(), lk.MaxLift()])
def test_budgets_without_slack_beside_a_given_marginal_are_met_to_rounding(measure):
    """No mechanism was found that meets them: all numbers were NaN."""
    costs = [1.0 - np.eye(4), distances(4)]
    swapped = np.eye(4)[[0, 2, 1, 3]]  # of the first distortion the least, of the marginal the only one
    spent = [(SMALL.sum(axis=0)[:, None] * table[:, [0, 2, 1, 3]] * swapped).sum() for table in costs]
    marginal = SMALL.sum(axis=0) @ swapped

    def stated(budgets):
        tables = [table[:, [0, 2, 1, 3]] for table in costs]
        return jp.with_marginal(SMALL, tables, marginal, budget=budgets, leakage=measure)

    solution = jax.jit(lambda budgets: jp.solve(stated(budgets)))(np.array(spent))
    host = jp.solve(stated(np.array(spent)))
    assert solution.status == "optimal"
    assert_allclose(solution.mechanism, swapped, rtol=0, atol=1e-12)
    assert solution.value == pytest.approx(host.value, abs=1e-9)
    assert solution.lower_bound <= host.value


@pytest.mark.parametrize("measure", [lk.MaxInformation(), lk.Lift()])
def test_a_least_worst_outcome_of_nothing_has_no_slope(measure):
    """A budget that a constant release meets: the value is 0 up to rounding, here 0 and 1.1e-16."""
    first = [0.09769956896170623, 0.1602389168483248, 0.31336413470490376]
    joint = np.transpose([first, [0.0, 0.0, 0.42869737948508514]])
    table = np.array([[0.411, 0.52, 0.377], [0.484, 0.675, 0.793]])

    def least(joint, table, budget):
        return jp.optimal_value(jp.DistortionProblem(joint, table, budget=budget, leakage=measure))

    value, slopes = jax.jit(jax.value_and_grad(least, argnums=(0, 1, 2)))(joint, table, 0.45)
    assert 0 <= value <= 1e-15
    assert not any(np.any(slope) for slope in slopes)


def test_a_compiled_solution_is_certified_on_the_host():
    """Also where it has rows that the host would leave out; its numbers are those of the host."""
    solved = jax.jit(lambda joint, level: jp.solve(problem_of("ldp", joint, TABLE, level)))
    for level in (0.3, 0.0):
        problem = problem_of("ldp", WIDE, TABLE, level)
        solution, host = jax.device_get(solved(WIDE, level)), jp.solve(problem)
        proof = jp.certify(problem, solution)
        assert proof.valid
        assert proof.agrees, proof.message
        assert solution.lower_bound <= host.value
        assert solution.value >= host.lower_bound
        if level > 0:
            assert solution.status == "optimal"
            found, expected = (jp.sensitivity(problem, one) for one in (solution, host))
            assert_allclose(found.leakage_budget, expected.leakage_budget, rtol=1e-3)
            assert_allclose(found.distortion, expected.distortion, atol=1e-3)


# -- refusals --------------------------------------------------------------------------------------


def refused(function, *args):
    """The message of the refusal, at the time of tracing."""
    with pytest.raises(jp.InputError) as info:
        jax.make_jaxpr(function)(*args)
    return str(info.value)


def test_what_a_trace_cannot_take_is_refused_with_what_to_do():
    def with_measure(make, **solver):
        return lambda part, b: jp.solve(jp.DistortionProblem(SMALL, TABLE, budget=b, leakage=make(part)), **solver)

    assert "one call for each order" in refused(with_measure(lk.Sibson), 2.0, 0.2)
    pairs = np.ones((3, 3), dtype=bool)
    assert "NumPy array" in refused(with_measure(lk.LocalDifferentialPrivacy), pairs, 0.2)
    own = lk.FInformation(lk.UserDivergence(lambda t: (t - 1.0) ** 2, 1.0))
    assert "sensitivity(problem, solution)" in refused(with_measure(lambda _: own), 1.0, 0.2)
    ldp = lk.LocalDifferentialPrivacy()
    for solver in ("linear-program", "hybrid-gradient"):  # in the form of the least worst outcome
        assert "use 'interior-point'" in refused(with_measure(lambda _: ldp, solver=solver), 1.0, 0.2)
    for call in (jp.solve, jp.optimal_value):
        single = lambda b, call=call: call(problem_of("ldp", SMALL, TABLE, b))  # noqa: E731
        assert "enable_x64" in refused(single, jnp.float32(0.3))


@pytest.mark.parametrize("which", ["ldp", "least ldp"])
def test_second_derivatives_that_do_not_exist_are_refused(which):
    for value in (jp.optimal_value, lambda problem: jp.solve(problem).value):
        twice = jax.grad(jax.grad(lambda b, value=value: value(problem_of(which, SMALL, TABLE, b))))
        assert "second order" in refused(twice, 0.3)


# What `auto` takes inside of a trace.
CHOICES = {
    "hybrid-gradient": (
        ({"budget": 0.2, "leakage": lk.Sibson(2.0)}, 16, 1e-6),
        ({"multiplier": 0.2, "leakage": CHI_SQUARED}, 8, 1e-8),
        ({"leakage_budget": 0.2, "leakage": lk.Sibson(2.0)}, 32, 1e-6),
    ),
    "interior-point": (
        ({"budget": 0.2, "leakage": lk.Sibson(2.0)}, 17, 1e-6),
        ({"budget": 0.2, "leakage": lk.Sibson(2.0)}, 8, 1e-9),
        ({"leakage_budget": 0.2, "leakage": lk.Sibson(2.0)}, 33, 1e-6),
        ({"budget": 0.2, "leakage": lk.Sibson(2.0), "limits": ((lk.MaxLift(), 0.5),)}, 8, 1e-6),
        ({"budget": 0.2, "leakage": lk.MutualInformation()}, 8, 1e-6),
        ({"budget": 0.2, "leakage": lk.MaximalLeakage()}, 8, 1e-6),
        ({"leakage_budget": 0.2, "leakage": lk.MaxInformation()}, 8, 1e-6),
    ),
}


def test_a_limit_on_rare_symbols_is_certified():
    """The interior point leaves 5 of them with gaps of up to 9e-3."""
    joints = np.random.default_rng(3).dirichlet(np.full(15, 0.06), 32).reshape(-1, 3, 5) + 1e-15
    joints /= joints.sum(axis=(1, 2), keepdims=True)
    limits = 0.5 * np.array([float(CHI_SQUARED(joint, np.eye(5))) for joint in joints])

    def solved(joint, limit):
        problem = jp.DistortionProblem(joint, 1.0 - np.eye(5), leakage=CHI_SQUARED, leakage_budget=limit)
        found = jp.solve(problem, tol=1e-6)
        return found.value, found.lower_bound

    values, bounds = jax.jit(jax.vmap(solved))(joints, limits)
    assert (values - bounds <= 1e-6).all()
    for joint, limit, value, bound in zip(joints[:8], limits[:8], values[:8], bounds[:8], strict=True):
        host = jp.solve(jp.DistortionProblem(joint, 1.0 - np.eye(5), leakage=CHI_SQUARED, leakage_budget=limit))
        assert bound <= host.value + 1e-12
        assert host.lower_bound <= value + 1e-12


@pytest.mark.parametrize("name", CHOICES)
def test_auto_takes_what_compiles_sooner_for_few_symbols_of_smooth_averages(name):
    for given, symbols, tol in CHOICES[name]:
        joint, costs = np.full((2, symbols), 0.5 / symbols), 1.0 - np.eye(symbols)

        def chosen(joint, given=given, costs=costs, tol=tol):
            problem = jp.DistortionProblem(joint, costs, **given)
            assert pick_solver("auto", problem, Goal(tol))[0] == name
            return joint

        jax.eval_shape(chosen, joint)
        assert pick_solver("auto", jp.DistortionProblem(joint, costs, **given), Goal(tol))[0] == "interior-point"


def test_several_budgets_that_the_cheapest_release_misses():
    """The release that is cheapest by the sum of two budgets misses one of them; others have slack in both."""
    joint = np.array([[6, 1, 126, 48], [1, 1, 117, 634], [39, 1, 6, 20]]) / 1000
    other = np.array(
        [[0.26, 0.3, 0.81, 0.09], [0.6, 0.73, 0.19, 0.06], [0.27, 0.66, 0.56, 0.15], [0.43, 0.67, 0.42, 0.63]]
    )
    costs = [distances(4), other]

    def solved(budgets):
        found = jp.solve(jp.DistortionProblem(joint, costs, budget=budgets), throw=False)
        return found.value, found.lower_bound

    budgets = np.array([0.02, 0.62])
    value, bound = jax.jit(solved)(budgets)
    host = jp.solve(jp.DistortionProblem(joint, costs, budget=budgets))
    assert 0 <= value - bound <= 1e-6
    assert bound <= host.value + 1e-12
    assert host.lower_bound <= value + 1e-12
