"""Infinite costs: a pair is forbidden, in every form, and everything that is said of such a solution is proved."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.optimize import linprog

import jaxpriv as jp
from jaxpriv import leakage
from tests.cases import assert_refused, distances, drawn_joint, raised, refused

from . import checks
from .measured_cases import MEASURES


def drawn(seed, inputs=4, outputs=4, private=3):
    """(joint, costs, forbidden pairs): every row has an output that is allowed."""
    rng = np.random.default_rng(seed)
    joint = drawn_joint(rng, private, inputs)
    forbidden = rng.uniform(size=(inputs, outputs)) < 0.35
    forbidden[np.arange(inputs), rng.integers(outputs, size=inputs)] = False
    return joint, rng.uniform(size=(inputs, outputs)), forbidden


JOINT, COSTS, FORBIDDEN = drawn(2)
TABLE = np.where(FORBIDDEN, np.inf, COSTS)
LEAST = float(JOINT.sum(axis=0) @ TABLE.min(axis=1))


def stated(table=TABLE, **form):
    return jp.DistortionProblem(JOINT, table, **form)


def proved(problem, forbidden=FORBIDDEN):
    """The solution; it is optimal and uses no forbidden pair."""
    solution = checks.proved(problem)
    assert not solution.mechanism[forbidden].any()
    assert np.isfinite(solution.distortion).all()
    return solution


LARGE = itertools.product(
    ["mutual-information", "maximal-leakage", "max-lift", "sibson-2"],
    [{"budget": LEAST + 0.05}, {"budget": LEAST}, {"leakage_budget": 0.35}],
)


@pytest.mark.parametrize(("name", "form"), [*LARGE, ("mutual-information", {"multiplier": 1.0})], ids=str)
def test_it_is_the_limit_of_large_costs(name, form):
    """A cost far above all others puts next to no mass on the pair: at most the budget over it, here 1e-7."""
    solution = proved(stated(leakage=MEASURES[name], **form))
    large = stated(np.where(FORBIDDEN, 1e4, COSTS), leakage=MEASURES[name], **form)
    other = jp.solve(large)
    # The large costs allow what inf forbids: their optimum is no larger, and hardly smaller.
    assert other.lower_bound <= solution.value + 1e-9
    assert solution.lower_bound <= other.value + 1e-5


def test_maximal_leakage_is_that_of_a_linear_program_over_the_allowed_pairs():
    budget = LEAST + 0.05
    costs = JOINT.sum(axis=0)[:, None] * COSTS
    total = checks.least_total("maximal-leakage", [JOINT], ~FORBIDDEN, [(costs, budget)])
    problem = stated(leakage=leakage.MaximalLeakage(), budget=budget)
    assert proved(problem).value == pytest.approx(np.log(total), abs=1e-6)


@pytest.mark.parametrize("limit", [0.01, 0.2, 0.6])
@pytest.mark.parametrize("measure", ["MaxLift", "MinLift", "Lift", "LocalDifferentialPrivacy", "MaxInformation"])
def test_outputs_that_exceed_a_limit_at_the_start_are_brought_within_it(measure, limit):
    """No start on the allowed pairs is independent of S, so that limits on every outcome are exceeded at first."""
    joint = drawn_joint(np.random.default_rng(1), 4, 5)
    steps = distances(5) / 5
    allowed = np.where(steps > 0.5, np.inf, steps)
    asked = jp.DistortionProblem(joint, allowed, leakage=getattr(leakage, measure)(), leakage_budget=limit)
    found = jp.solve(asked, "interior-point")
    assert found.status == "optimal"
    assert jp.certify(asked, found).agrees
    if asked.linear:
        vertex = jp.solve(asked, "linear-program")
        assert max(found.lower_bound, vertex.lower_bound) <= min(found.value, vertex.value)


PAIRS = np.kron(np.eye(2), 1 - np.eye(2)).astype(bool)  # 0 with 1, 2 with 3
EACH = np.diag([0.3, 0.2, 0.3, 0.2])
INF = np.inf


def least_of_pairs(table, eps):
    """The least E d of EACH under ratios of e^eps within the pairs, by a linear program over the allowed entries."""
    outputs, allowed = table.shape[1], np.isfinite(table)
    rows = [np.kron(np.eye(4)[a] - np.exp(eps) * np.eye(4)[b], np.eye(outputs)) for a, b in np.argwhere(PAIRS)]
    sums = np.kron(np.eye(4), np.ones(outputs))
    costs = (np.diag(EACH)[:, None] * np.where(allowed, table, 0.0)).ravel()
    rows = np.concatenate(rows)
    ends = [(0, None if free else 0) for free in allowed.ravel()]
    return linprog(costs, rows, np.zeros(len(rows)), sums, np.ones(4), ends).fun


@pytest.mark.parametrize(
    "measure", [leakage.LocalDifferentialPrivacy(PAIRS), leakage.MetricPrivacy(np.where(PAIRS, 1.0, INF))]
)
@pytest.mark.parametrize(
    "table",
    [
        [[1, INF, INF], [2, INF, INF], [INF, 0, 1], [0, 1, 0]],  # was called infeasible
        [[0, 5, 5], [0, 5, 5], [INF, 0, 1], [0, 1, 0]],  # 2.63 was the best that was found, of .134
    ],
)
def test_an_output_that_one_pair_cannot_have_is_left_to_the_other(table, measure):
    table = np.array(table)
    least = least_of_pairs(table, 1.0)
    within = proved_of(table, leakage=measure, leakage_budget=1.0)
    assert within.value == pytest.approx(least, abs=1e-7)
    proved_of(table, budget=least + 0.05, limits=[(measure, 1.0)])
    with raised(jp.InfeasibleError, "exceeded by at least"):
        proved_of(table, budget=least - 1e-3, limits=[(measure, 1.0)])


def proved_of(table, **form):
    return checks.proved(jp.DistortionProblem(EACH, table, **form))


@pytest.mark.parametrize(
    ("measure", "budget"),
    [
        (leakage.LocalDifferentialPrivacy(), 0.7),
        (leakage.MinLift(), 0.6),
        (leakage.LocalDifferentialPrivacy(PAIRS), 0.55),
    ],
)
def test_outputs_that_a_ratio_excludes_altogether_have_rules_that_prove_it(measure, budget):
    """The gap was .3, beside a linear program: nothing priced the entries that one forbidden pair rules out."""
    table = np.array([[0, 1, 1], [1, 0, 1], [INF, 1, 0], [1, 1, 1.0]])
    proved_of(table, leakage=measure, leakage_budget=1.0)
    proved_of(table, budget=budget, limits=[(measure, 1.0)])


def test_a_budget_that_asks_for_excluded_outputs_is_what_is_refused():
    """That every mechanism leaks without end was said, whatever the budget."""
    table = np.array([[0, 1, 1], [1, 0, 1], [INF, 1, 0], [1, 1, 1.0]])
    problem = jp.DistortionProblem(EACH, table, budget=0.49, leakage=leakage.LocalDifferentialPrivacy())
    with raised(jp.InfeasibleError, "budget 0.49 is below 0.5, the least distortion of any mechanism with a finite"):
        jp.solve(problem)


def test_a_symbol_that_one_joint_does_not_have_excludes_nothing_there():
    """The output 0 is for x = 0 alone, which the second joint does not have; it was ruled out for both."""
    joints = np.array([[[0.2, 0.2, 0.1], [0.1, 0.1, 0.3]], [[0, 0.4, 0], [0, 0, 0.6]]])
    table = np.array([[0, INF, INF], [0, 1, INF], [INF, 1, 1.0]])
    problem = jp.DistortionProblem(joints, table, leakage=leakage.MinLift(), leakage_budget=1.0)
    assert_array_equal(checks.proved(problem).mechanism, np.eye(3)[[0, 1, 1]])


def test_an_infinite_leakage_of_all_allowed_pairs_together_is_not_that_of_every_mechanism():
    """f is infinite above 1.5: output 0 is within it for the second symbol alone, and that was called impossible."""
    joint = np.array([[0.8, 0.6, 0.2], [0.2, 0.4, 0.8]]) * [0.45, 0.05, 0.5]
    divergence = leakage.UserDivergence(lambda t: jnp.where(t <= 1.5, (t - 1) ** 2, jnp.inf), at_zero=1.0)
    measure = leakage.FInformation(divergence)
    table = np.array([[0.5, 0], [0, INF], [INF, 0]])
    assert np.isfinite(measure(joint, np.eye(2)[[1, 0, 1]]))
    for form in ({"budget": 0.3}, {"leakage_budget": 0.05}):
        with raised(jp.NotCertifiedError, "no output excludes a private symbol that another one needs"):
            jp.solve(jp.DistortionProblem(joint, table, leakage=measure, **form))


def test_the_simplex_method_finds_the_mechanism_of_a_budget_without_slack():
    """The first mechanism that met the budget had an infinite leakage, and was taken for all of them."""
    table, limits = np.array([[0, 0, INF], [1, 0, 0]]), [(leakage.LocalDifferentialPrivacy(), 1.0)]
    problem = jp.DistortionProblem(np.eye(2) / 2, table, budget=0.0, leakage=leakage.MaximalLeakage(), limits=limits)
    assert checks.proved(problem, "linear-program").mechanism[:, 1] == pytest.approx(1.0)


def near_a_marginal(*table):
    """Costs of three symbols, of which released ones are near a marginal in relative entropy."""
    form = {"budget": 0.9, "divergence": leakage.KullbackLeibler(), "leakage": leakage.MinLift()}
    return jp.with_marginal(np.diag([0.3, 0.3, 0.4]), np.array(table), [0.2, 0.6, 0.2], within=0.3, **form)


def test_a_released_marginal_that_the_outputs_of_finite_leakage_do_not_have():
    """A measure of all outputs together was asked of two of them, which ended in an error of JAX."""
    with raised(jp.InfeasibleError, "limits and distortion contradict each other"):  # P(1) = 1, of a divergence of .51
        jp.solve(near_a_marginal([0, 1, INF], [INF, 0, 1], [1, 1, 0]))


def test_pairs_of_infinite_leakage_need_no_price():
    """Output 1 shows nothing of the third private symbol. The limit has slack: no price of it excluded the output."""
    joint = np.array([[0.04, 0.06], [0.37, 0.19], [0, 0.34]])
    table = np.array([[INF, 0.14, 0.45], [0.5, INF, 0.04]])
    limit = {"leakage": leakage.FInformation(leakage.ReverseKullbackLeibler()), "leakage_budget": 0.5}
    solution = checks.proved(jp.DistortionProblem(joint, table, **limit))
    assert solution.value == pytest.approx(0.41 * 0.45 + 0.59 * 0.04, abs=1e-12)
    joints = np.array([[[0.01, 0.55, 0, 0.2], [0.02, 0.04, 0.01, 0.17]], [[0, 0, 0.16, 0], [0.04, 0.07, 0.3, 0.43]]])
    table = np.array([[0.74, 0.99, 0.03], [0.37, 0.85, 0.49], [INF, 0.51, 0.28], [INF, 0.88, 0.8]])
    checks.proved(jp.DistortionProblem(joints, table, **{**limit, "leakage_budget": 0.02}))


def test_an_output_that_has_no_symbol_of_one_joint():
    """The first joint has no mass on the one symbol that output 2 is allowed for: NaN after the first step."""
    joints = np.array([[[0, 0.2], [0, 0.3], [0, 0.5]], [[0.45, 0.22], [0, 0.32], [0.01, 0]]])
    table = np.array([[INF, 0.8, 0.02, 0.28], [INF, 0.27, INF, 0.86]])
    form = {"leakage": leakage.FInformation(leakage.ChiSquared()), "limits": [(leakage.MutualInformation(), 0.5)]}
    checks.proved(jp.DistortionProblem(joints, table, budget=0.37, **form), "interior-point")


@pytest.mark.parametrize("solver", ["interior-point", "mirror-descent", "hybrid-gradient"])
def test_rules_of_excluded_private_symbols_are_no_larger_than_proofs_bear(solver):
    """One of -1e14 for the second symbol at output 1 left rounding of the bound: 0 was proved."""
    table = np.array([[0, INF, 0.6], [0.1, 0, 0.5], [0.8, 0.5, 0]])
    form = {"leakage": leakage.FInformation(leakage.SquaredHellinger()), "budget": 0.061}
    checks.proved(jp.DistortionProblem([[0.14, 0.03, 0.74], [0.09, 0, 0]], table, **form), solver)


def test_a_mechanism_within_the_budgets_whose_leakage_is_infinite_is_no_start():
    """Output 2 is of infinite leakage: the search within the budgets came back to it, then NumPy failed."""
    found = checks.proved(near_a_marginal([0, 1, INF], [1, 0, 1], [1, 1, 0]))
    assert found.lower_bound == 0  # a release that ignores the data with P(1) = .7 is within the limit


def test_several_distortions_joints_and_limits():
    both = proved(stated([TABLE, COSTS.T], budget=[LEAST + 0.1, 0.6]))
    assert (both.distortion <= [LEAST + 0.1 + 1e-9, 0.6 + 1e-9]).all()
    joints = np.stack([JOINT, JOINT[::-1]])
    proved(jp.DistortionProblem(joints, TABLE, budget=LEAST + 0.1))
    proved(jp.DistortionProblem(joints, TABLE, leakage_budget=0.3, leakage=leakage.MaximalLeakage()))
    proved(stated(budget=LEAST + 0.1, limits=[(leakage.MaxLift(), 0.5)]))


def test_two_tables_forbid_what_either_forbids():
    one, other = FORBIDDEN.copy(), FORBIDDEN.copy()
    one[:2], other[2:] = False, False
    tables = [np.where(part, np.inf, COSTS) for part in (one, other)]
    parts = proved(stated(tables, budget=[LEAST + 0.05, 9.0]))
    whole = proved(stated(budget=LEAST + 0.05))
    assert parts.value == pytest.approx(whole.value, abs=2e-6)


def test_a_leakage_budget_that_the_allowed_pairs_exceed_is_infeasible():
    """Where each x may be released as itself alone nothing is hidden."""
    table = np.where(np.eye(4, dtype=bool), 0.0, np.inf)
    with raised(jp.InfeasibleError, "released as a symbol that is forbidden") as caught:
        jp.solve(stated(table, leakage_budget=0.01))
    assert 0 < caught.value.proof["bound"] <= 1
    shown = leakage.MutualInformation()(JOINT, np.eye(4))
    solution = proved(stated(table, leakage_budget=shown + 0.01), ~np.eye(4, dtype=bool))
    assert_array_equal(solution.mechanism, np.eye(4))


def test_symbols_without_mass_keep_to_what_they_allow():
    joint = np.insert(JOINT, 2, 0.0, axis=1)
    table = np.insert(TABLE, 2, [np.inf, np.inf, 1.0, np.inf], axis=0)
    solution = proved(jp.DistortionProblem(joint, table, budget=LEAST + 0.05), np.isinf(table))
    assert_array_equal(solution.mechanism[2], [0, 0, 1, 0])


def test_outputs_that_no_symbol_allows_stay_empty():
    table = np.insert(TABLE, 1, np.inf, axis=1)
    solution = proved(stated(table, budget=LEAST + 0.05), np.isinf(table))
    assert not solution.mechanism[:, 1].any()


def test_symbols_that_allow_different_outputs_are_not_one():
    """Two copies of a symbol are put together, unless they differ in what they allow."""
    joint = np.repeat(JOINT, 2, axis=1) / 2
    table = np.repeat(np.where(FORBIDDEN, 0.5, COSTS), 2, axis=0)
    # The stand-in of a forbidden pair is the largest cost of the row: the copies differ in the support alone.
    table[0] = [0.1, 0.2, 0.2, 0.2]
    table[1] = [0.1, 0.2, 0.2, np.inf]
    budget = float(joint.sum(axis=0) @ table.min(axis=1)) + 0.05
    solution = proved(jp.DistortionProblem(joint, table, budget=budget), np.isinf(table))
    large = jp.solve(jp.DistortionProblem(joint, np.where(np.isinf(table), 1e4, table), budget=budget))
    assert large.lower_bound <= solution.value + 1e-9
    assert solution.lower_bound <= large.value + 1e-5  # the copy without a forbidden pair keeps what it may use


def test_a_mechanism_on_a_forbidden_pair_is_no_solution():
    problem = stated([COSTS, TABLE], budget=[0.6, LEAST + 0.05])
    solution = jp.solve(problem)
    everywhere = 1e-15 / 4 + (1 - 1e-15) * solution.mechanism
    found = jp.certify(problem, dataclasses.replace(solution, mechanism=everywhere))
    assert not found.valid
    assert_array_equal(np.isinf(found.distortion), [False, True])


def test_a_row_needs_an_allowed_output():
    assert_refused(
        r"^distortion: row 1 forbids every output",
        jp.DistortionProblem,
        JOINT,
        np.where(np.arange(4)[:, None] == 1, np.inf, COSTS),
        budget=1.0,
    )
    one, other = np.zeros((2, 4, 4))
    one[3, :2], other[3, 2:] = np.inf, np.inf
    assert_refused(
        r"^distortion: row 3 forbids every output", jp.DistortionProblem, JOINT, [one, other], budget=[1.0, 1.0]
    )
    assert_refused(r"^distortion\[0, 0\] is -inf", jp.DistortionProblem, JOINT, np.full((4, 4), -np.inf), budget=1.0)


def test_a_function_that_is_infinite_forbids_too():
    far = jp.distortion.from_function(lambda a, b: jnp.where(a[0] < b[0], jnp.inf, a[0] - b[0]), np.arange(4.0))
    proved(stated(far, budget=0.5), np.triu(np.ones((4, 4), dtype=bool), 1))


def test_batches_and_curves_keep_to_the_allowed_pairs():
    problems = [stated(budget=LEAST + 0.01 * k) for k in range(1, 7)]
    curve = jp.frontier(problems[0], budgets=[float(one.budget[0]) for one in problems])
    for many, one in zip(jp.solve_many(problems), curve.solutions, strict=True):
        assert many.status == one.status == "optimal"
        assert not many.mechanism[FORBIDDEN].any()
        assert not one.mechanism[FORBIDDEN].any()
        assert many.value == pytest.approx(one.value, abs=2e-6)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap])
def test_compiled_code_refuses_what_it_knows(transform):
    at = np.array([0.4, 0.5]) if transform is jax.vmap else np.float64(0.5)
    with refused("outside of jit, vmap and grad"):
        transform(lambda budget: jp.solve(stated(budget=budget)).value)(at)


def test_traced_tables_with_infinite_entries_give_no_mechanism():
    with jax.enable_x64(True):
        tables = jax.jit(lambda table: stated(table, multiplier=1.0).tables())(jnp.asarray(TABLE))
    assert np.isnan(tables).all()


def test_derivatives_in_a_table_with_infinite_entries_are_refused():
    with jax.enable_x64(True), refused("differentiated has infinite entries"):
        jax.grad(lambda table: jp.optimal_value(stated(table, budget=0.5)))(jnp.asarray(TABLE))


def test_what_takes_finite_costs_says_so():
    problem = stated(budget=LEAST + 0.05)
    assert_refused(r"infinite, which forbids the pair; use solver='interior-point'", jp.solve, problem, "accelerated")
    assert_refused("takes finite costs", jp.solve_prior_ball, problem, 0.1)
    assert_refused(r"^distortion\[\d, \d\] is infinite", jp.baselines.exponential, TABLE, 1.0)


@pytest.mark.parametrize("mass", [[0.0, 1.0], [0.25, 0.75]])
def test_forbidden_pairs_where_x_tells_nothing_of_s(mass):
    joint, costs = np.outer([0.1, 0.9], mass), np.array([[0.0, np.inf], [1.0, 0.0]])
    for measure in (leakage.MutualInformation(), leakage.MaximalLeakage(), leakage.MaxLift()):
        problem = jp.DistortionProblem(joint, costs, leakage=measure, leakage_budget=0.03)
        found = jp.solve(problem)
        assert found.status == "optimal"
        assert found.value == pytest.approx(0.0, abs=1e-6)
        assert jp.certify(problem, found).agrees
