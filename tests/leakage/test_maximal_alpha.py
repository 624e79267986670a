"""Maximal alpha-leakage: the largest over priors, its ends, its gradient, what bounds it, and what is refused."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog, minimize

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.statistics.audit import leakage_bounds
from jaxpriv.statistics.confidence import population
from jaxpriv.testing import random_joint
from tests.cases import assert_refused, distances, drawn_joint, thorough, value_of

JOINT = random_joint(0, 4, 5)
MECHANISM = np.random.default_rng(1).dirichlet(np.full(6, 0.4), 5)
ORDERS = (1.001, 1.5, 2.0, 10.0, 1e4)


def value(order, joint=JOINT, mechanism=MECHANISM):
    return value_of(lk.MaximalAlphaLeakage(order), joint, mechanism)


def channel_of(joint, mechanism):
    return joint / joint.sum(axis=1, keepdims=True) @ mechanism


@eqx.filter_jit
def largest(measure, rows):
    """The largest prior, and by how much its value may be too small."""
    return measure.largest_prior(rows, np.ones(4, bool)), measure.shortfall(rows)


def under(prior, order):
    """Sibson's information of the same channel for another prior."""
    joint = np.diag(prior)
    return value_of(lk.Sibson(order), joint, channel_of(JOINT, MECHANISM))


def test_it_is_mutual_information_at_order_one_and_maximal_leakage_at_infinity():
    assert value(1.0) == pytest.approx(value_of(lk.MutualInformation(), JOINT, MECHANISM), rel=1e-12)
    assert value(math.inf) == pytest.approx(value_of(lk.MaximalLeakage(), JOINT, MECHANISM), rel=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_no_prior_has_more_and_one_has_as_much(order):
    """Weak duality on both sides: any law Q of Y gives max_s D_a(P(.|s) || Q), which no prior exceeds."""
    found = value(order)
    for prior in np.random.default_rng(2).dirichlet(np.full(4, 0.5), 20):
        assert under(prior, order) <= found + 1e-9
    rows = channel_of(JOINT, MECHANISM)
    measure = lk.MaximalAlphaLeakage(order)
    with jax.enable_x64(True):
        prior, shortfall = map(np.asarray, largest(measure, rows))
    assert shortfall <= 1e-9
    mean = ((prior[:, None] * (rows / rows.max(axis=0)) ** order).sum(axis=0)) ** (1 / order) * rows.max(axis=0)
    law = mean / mean.sum()
    divergences = np.log(((rows / law) ** (order - 1) * rows).sum(axis=1)) / (order - 1) if order < 100 else None
    if divergences is not None:
        assert divergences.max() == pytest.approx(found, abs=1e-6)
    assert value_of(lk.Arimoto(order), JOINT, MECHANISM) <= found + 1e-9
    assert found <= value_of(lk.MaximalLeakage(), JOINT, MECHANISM) + 1e-12


def test_it_rises_with_the_order_and_falls_under_post_processing():
    values = [value(order) for order in (*ORDERS, math.inf)]
    assert all(low <= high + 1e-10 for low, high in itertools.pairwise(values))
    merged = np.column_stack([MECHANISM[:, :2].sum(axis=1), MECHANISM[:, 2:]])
    assert value(2.0, mechanism=merged) <= value(2.0) + 1e-10


def test_the_binary_symmetric_channel_is_worst_for_a_uniform_prior():
    flips = np.array([[0.9, 0.1], [0.1, 0.9]])
    order = 3.0
    closed = math.log(2) + math.log(0.9**order + 0.1**order) / (order - 1)
    assert value(order, np.diag([0.3, 0.7]), flips) == pytest.approx(closed, abs=1e-10)
    # Symbols without mass are no priors: only one is left.
    assert value(order, np.diag([1.0, 0.0]), flips) == pytest.approx(0.0, abs=1e-10)


def test_the_gradient_is_that_of_the_envelope():
    direction = np.random.default_rng(3).normal(size=MECHANISM.shape)
    direction -= direction.mean(axis=1, keepdims=True)
    step = 1e-3 * MECHANISM.min()
    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(lambda w: lk.MaximalAlphaLeakage(2.0)(JOINT, w)))(MECHANISM)
    difference = (
        value(2.0, mechanism=MECHANISM + step * direction) - value(2.0, mechanism=MECHANISM - step * direction)
    ) / (2 * step)
    assert float((np.asarray(slope) * direction).sum()) == pytest.approx(difference, rel=1e-4)


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
def test_an_audit_bounds_it(order):
    counts = np.random.default_rng(4).multinomial(20_000, JOINT.ravel()).reshape(JOINT.shape)
    (bound,) = leakage_bounds(population(counts, 0.05), MECHANISM, [lk.MaximalAlphaLeakage(order)])
    assert bound is not None
    assert value(order) <= bound.upper[0, 0] <= bound.cap[0]


def test_orders_between_the_ends_are_no_objective():
    table = distances(5)
    assert_refused(
        r"leakage: maximal alpha-leakage of order 2 .* MaximalLeakage\(\)",
        jp.solve,
        jp.DistortionProblem(JOINT, table, budget=0.3, leakage=lk.MaximalAlphaLeakage(2.0)),
    )
    assert_refused(
        r"limits\[0\]: maximal alpha-leakage",
        jp.solve,
        jp.DistortionProblem(JOINT, table, budget=0.3, limits=[(lk.MaximalAlphaLeakage(2.0), 0.1)]),
    )
    for order in (0.5, math.nan):
        assert_refused("order", lk.MaximalAlphaLeakage, order)


# Maximal (alpha, beta)-leakage.

SYMMETRIC = np.array([[0.9, 0.1], [0.1, 0.9]])
ROWS = np.array([[0.95, 0.04, 0.01], [0.2, 0.7, 0.1], [0.05, 0.15, 0.8]])


def against(order, beta, rows):
    return value_of(lk.MaximalAlphaLeakage(order, beta), np.eye(len(rows)) / len(rows), rows)


def on_a_grid(order, beta, rows, grid):
    """The definition, at the best of some priors."""
    norms = (grid @ rows**order) ** (beta / order)
    totals = norms @ (rows ** (1 - beta)).T
    return order / ((order - 1) * beta) * math.log(totals.max())


def test_beta_ends_at_what_exists():
    prior = np.eye(3) / 3
    renyi = max(math.log((r**2 / q).sum()) for r in ROWS for q in ROWS)
    assert against(2.0, 2.0, ROWS) == pytest.approx(renyi, rel=1e-12)
    assert against(math.inf, 1.0, ROWS) == pytest.approx(value_of(lk.MaximalLeakage(), prior, ROWS), rel=1e-12)
    local = value_of(lk.LocalDifferentialPrivacy(), prior, ROWS)
    assert against(math.inf, math.inf, ROWS) == pytest.approx(local, rel=1e-12)
    assert against(2.0, 1.0, ROWS) == pytest.approx(lk.capacity(ROWS, 2.0).value, rel=1e-10)


@pytest.mark.parametrize(("order", "beta"), [(2.0, 1.5), *thorough((2.0, 3.0), (5.0, 2.0))])
def test_no_prior_and_no_symbol_has_more_at_beta(order, beta):
    measure, found = lk.MaximalAlphaLeakage(order, beta), against(order, beta, SYMMETRIC)
    share = np.linspace(0, 1, 20_001)
    best = on_a_grid(order, beta, SYMMETRIC, np.column_stack([share, 1 - share]))
    assert best <= found + 1e-12
    assert found == pytest.approx(best, abs=1e-7)
    with jax.enable_x64(True):
        assert float(eqx.filter_jit(type(measure).shortfall)(measure, SYMMETRIC)) <= 1e-9
    priors = np.random.default_rng(7).dirichlet(np.ones(3), 500)
    assert on_a_grid(order, beta, ROWS, priors) <= against(order, beta, ROWS) + 1e-12


def test_beta_where_an_output_excludes_a_symbol_and_what_is_refused():
    assert against(2.0, 1.5, np.array([[0.5, 0.5], [1.0, 0.0]])) == math.inf
    assert against(2.0, 1.5, np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])) == pytest.approx(0.0, abs=1e-12)
    for order, beta in ((2.0, 0.5), (2.0, math.nan), (1.0, 2.0)):
        assert_refused("beta", lk.MaximalAlphaLeakage, order, beta)
    table = distances(5)
    assert_refused(
        r"of order inf and beta 2 .* LocalDifferentialPrivacy",
        jp.solve,
        jp.DistortionProblem(JOINT, table, budget=0.3, leakage=lk.MaximalAlphaLeakage(math.inf, 2.0)),
    )


# As a limit.


@pytest.mark.parametrize(
    ("order", "beta", "leakage"),
    [
        (2.0, 1.0, 0.49469624),
        (2.0, 2.0, math.log(0.81 / 0.1 + 0.01 / 0.9)),
        (2.0, 3.0, 2.85940372),
        (math.inf, 1.0, 0.58778666),
        (math.inf, math.inf, math.log(9)),
    ],
)
def test_a_bit_is_flipped_with_the_probability_of_the_limit(order, beta, leakage):
    """The symmetric channel that flips .1 has this leakage; the mean of a channel and its mirror image has no more."""
    half, measure = np.array([0.5, 0.5]), lk.MaximalAlphaLeakage(order, beta)
    solution = jp.solve(jp.with_maximal_alpha(half, 1 - np.eye(2), measure, leakage, leakage_budget=math.inf))
    assert solution.status == "optimal"
    assert solution.value == pytest.approx(0.1, abs=2e-6)
    assert solution.lower_bound <= 0.1 + 1e-8


def least_by_cuts(joint, table, value_and_slope, limit):
    """The least E d under a convex limit on P(y|s) (S, Y), by linear programs with one more tangent at each answer."""
    given, (inputs, outputs) = joint / joint.sum(axis=1, keepdims=True), table.shape
    rows, most = [np.zeros(table.size)], [0.0]
    sums = np.kron(np.eye(inputs), np.ones(outputs))
    for _ in range(300):
        cost = (joint.sum(axis=0)[:, None] * table).ravel()
        exact = {"primal_feasibility_tolerance": 1e-10}
        found = linprog(cost, np.array(rows), most, sums, np.ones(inputs), bounds=(1e-7, 1), options=exact)
        channel = given @ found.x.reshape(table.shape)
        value, slope = value_and_slope(channel)
        if value <= limit * (1 + 1e-8):
            return found.fun
        rows.append((given.T @ slope).ravel())
        most.append(limit - value + (slope * channel).sum())
    raise AssertionError


def of_prior(channel):
    """max over priors of sum_y ( sum_s p_s P(y|s)^2 )^(1/2), its slope: the envelope theorem."""
    total = lambda p: -np.sqrt(p @ channel**2).sum()  # noqa: E731
    options = {"ftol": 1e-15, "maxiter": 500}
    equal = {"type": "eq", "fun": lambda p: p.sum() - 1}
    found = minimize(total, np.full(3, 1 / 3), bounds=[(0, 1)] * 3, constraints=equal, options=options, method="SLSQP")
    return -found.fun, found.x[:, None] * channel / np.sqrt(found.x @ channel**2)


def of_pair(channel):
    """The largest sum_y P(y|s)^2/P(y|s') and its slope."""
    totals = (channel[:, None] ** 2 / channel).sum(axis=2)
    s, t = np.unravel_index(totals.argmax(), totals.shape)
    slope = np.zeros_like(channel)
    slope[s] = 2 * channel[s] / channel[t]
    slope[t] -= (channel[s] / channel[t]) ** 2
    return totals[s, t], slope


@pytest.mark.parametrize(("beta", "of", "limit"), [(1.0, of_prior, math.exp(0.025)), (2.0, of_pair, math.exp(0.05))])
def test_the_least_distortion_is_that_of_linear_programs(beta, of, limit):
    joint = drawn_joint(0, 3, 4)
    table, measure = 1 - np.eye(4), lk.MaximalAlphaLeakage(2.0, beta)
    problem = jp.with_maximal_alpha(joint, table, measure, 0.05, leakage_budget=math.inf)
    solution = jp.solve(problem)
    least = least_by_cuts(joint, table, of, limit)
    assert solution.status == "optimal"
    assert solution.lower_bound <= least + 1e-7
    assert solution.value == pytest.approx(least, abs=3e-6)
    assert solution.verify(problem).valid
    assert value_of(measure, joint, solution.mechanism[:4]) <= 0.05 + 1e-9


def test_an_output_that_excludes_one_symbol_alone_has_an_infinite_divergence():
    rows = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    found = [value_of(lk.RenyiDivergence(s, t, 2.0), np.eye(3) / 3, rows) for s, t in ((0, 1), (0, 2), (1, 0))]
    assert found == [math.inf, pytest.approx(math.log(0.25 / 0.2 + 0.25 / 0.3)), pytest.approx(math.log(2.0))]
    table = np.where(rows > 0, 0.0, np.inf)  # y = 1 and y = 2 are never released for x = 1
    problem = jp.DistortionProblem(
        np.eye(3) / 3, [table, 1 - np.eye(3)], budget=[0.0, 2.0], limits=[(lk.RenyiDivergence(0, 1, 2.0), 0.5)]
    )
    assert jp.solve(problem).mechanism[0, 0] == pytest.approx(1.0)


def test_a_divergence_without_slack_makes_two_symbols_alike_and_no_others():
    """The bound was 0; a symbol without mass divided by it. Symbols 0 and 1 share an output."""
    joint = np.diag([0.25, 0.25, 0.5, 0.0])[:, :3]
    form = {"leakage_budget": 0.0, "leakage": lk.RenyiDivergence(0, 1, 2.0)}
    problem = jp.DistortionProblem(joint, 1 - np.eye(3), **form)
    for solution in (jp.solve(problem), *jp.frontier(problem, leakage_budgets=[0.0]).solutions):
        assert solution.status == "optimal"
        assert solution.value == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize("order", [1.000001, 2.0, 1000.0])
def test_a_divergence_of_any_order_is_that_of_randomised_response(order):
    """Powers of the ratio of order 1000 are no float64; near order 1 nothing of the size 1/(b-1) is left to cancel."""
    share = math.e / (1.0 + math.e)
    logs = [order * math.log(p) + (1.0 - order) * math.log(1.0 - p) for p in (share, 1.0 - share)]
    exact = (logs[0] + math.log1p(math.exp(logs[1] - logs[0]))) / (order - 1.0)
    if order < 1.1:  # relative entropy, and half of the variance of the log-ratio
        exact = 2.0 * share - 1.0 + 0.5 * (order - 1.0) * (1.0 - (2.0 * share - 1.0) ** 2)
    rows = np.array([[share, 1.0 - share, 0.0], [1.0 - share, share, 0.0]])
    assert value_of(lk.RenyiDivergence(0, 1, order), np.eye(2) / 2, rows) == pytest.approx(exact, rel=1e-12)
    with jax.enable_x64(True):
        slopes = jax.jit(jax.grad(lk.RenyiDivergence(0, 1, order), argnums=1))(jnp.eye(2) / 2, rows)
    assert np.isfinite(slopes).all()


def test_arguments_that_are_no_symbol_no_relation_and_no_unit_are_refused():
    assert_refused("other", lk.RenyiDivergence, 0, -1, 2.0)
    for measure in (lk.RenyiDivergence(0, 2, 2.0), lk.RenyiDivergence(2, None, 2.0), lk.HockeyStick(2, 1.0)):
        assert_refused("symbol 2 has no mass", lk.evaluate, measure, np.diag([0.5, 0.5, 0.0]), np.eye(3))
    assert_refused("neighbours is not a rectangular", lk.LocalDifferentialPrivacy, [[1, 2], [3]])
    assert_refused("units", lk.capacity, np.eye(2), units=np.eye(2))


def test_what_is_no_limit_is_refused():
    bit, wrong, order_2 = np.array([0.3, 0.7]), 1 - np.eye(2), lk.MaximalAlphaLeakage(2.0)
    for measure, message in ((lk.MaximalAlphaLeakage(3.0, 2.0), "order 3 and beta 2"), (lk.MaxLift(), "must be a")):
        assert_refused(message, jp.with_maximal_alpha, bit, wrong, measure, 0.1, budget=0.1)
    assert_refused(
        "one joint", jp.with_maximal_alpha, np.stack([JOINT, JOINT]), np.ones((5, 5)), order_2, 0.1, budget=1.0
    )
    assert_refused(
        "outside of jit", jax.jit(lambda e: jp.with_maximal_alpha(bit, wrong, order_2, e, budget=1.0).joints), 0.1
    )
    for other in (lk.RenyiDivergence(0, 3, 2.0), lk.RenyiDivergence(2, 0, 2.0)):
        assert_refused(
            "has no mass",
            jp.solve,
            jp.DistortionProblem(np.diag([0.5, 0.5, 0.0]), 1 - np.eye(3), budget=1.0, limits=[(other, 0.1)]),
        )
