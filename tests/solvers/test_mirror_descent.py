"""Mirror descent: unit steps with S = X are the Blahut-Arimoto iteration; never uphill; every smooth average."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv import BlahutArimoto, MirrorDescent, leakage as lk
from jaxpriv.program import program_of
from jaxpriv.solvers import no_candidate
from jaxpriv.testing import random_joint
from tests.cases import assert_one_optimum, distances, drawn_joint, further, refused, spent

TABLE = distances(4)


@functools.cache
def step_of(solver):
    """Compiled once for all programs of one shape."""
    return jax.jit(lambda program, state: solver.step(program, state))


def value_of(problem, mechanism):
    (joint,) = problem.joints
    price = 0.0 if problem.multiplier is None else problem.multiplier[0]
    return lk.evaluate(problem.leakage, joint, mechanism).value + price * spent(joint, TABLE, mechanism)


@pytest.fixture(scope="module")
def iterates():
    """(solver, problem, count) -> the first mechanisms of the iteration, and their values."""

    def run(solver, problem, count):
        program = jax.tree.map(lambda a: jax.numpy.asarray(a), program_of(problem))
        with jax.numpy_rank_promotion("allow"):
            step = step_of(solver)
            state = solver.init(program, 0, no_candidate(program))
            mechanisms = [np.exp(state.log_mechanism)]
            for _ in range(count):
                state = step(program, state)
                mechanisms.append(np.exp(state.log_mechanism))
            return mechanisms, np.array([value_of(problem, w) for w in mechanisms]), state

    return run


def blahut_arimoto(source, table, price, count):
    """Blahut 1972: q(y) <- sum_x p(x) W(y|x), W(y|x) proportional to q(y) exp(-price d(x, y)); from a uniform W."""
    w = np.full(table.shape, 1 / table.shape[1])
    for _ in range(count):
        yield w
        tilted = (source @ w) * np.exp(-price * table)
        w = tilted / tilted.sum(axis=1, keepdims=True)
    yield w


@pytest.mark.parametrize("price", [0.3, 2.0, 9.0])
def test_unit_steps_are_blahut_arimoto_iterate_for_iterate(iterates, price):
    source = np.array([0.5, 0.25, 0.15, 0.1])
    problem = jp.rate_distortion(source, TABLE, multiplier=price)
    found, _, _ = iterates(BlahutArimoto(), problem, 30)
    for ours, textbook in zip(found, blahut_arimoto(source, TABLE, price, 30), strict=True):
        assert_allclose(ours, textbook, rtol=1e-11, atol=1e-14)
    assert np.abs(found[-1] - found[0]).max() > 0.05  # it went somewhere


# I + 2 d of the laws (.4, .3, .2, .1) and |x - y|: `shannon.max_entropy_given_same_loss` of qif 1.6.0 with a relative
# change of 1e-14, and `blahut_arimoto` of dit 2.3, which ends at a relative change of 1e-5; the row of x = 0 by qif.
QIF, DIT = 1.0802194858562655, 1.080219487821302
QIF_ROW = [0.8990789737534692, 0.09232239758066145, 0.008164982335944645, 0.0004336463299247354]


def test_blahut_arimoto_ends_where_qif_and_dit_do():
    problem = jp.rate_distortion([0.4, 0.3, 0.2, 0.1], TABLE, multiplier=2.0)
    solution = jp.solve(problem, solver="blahut-arimoto", tol=1e-11)
    assert solution.status == "optimal"
    assert_allclose(solution.value, QIF, rtol=0, atol=1e-11)
    assert solution.lower_bound <= QIF <= DIT <= solution.value + 3e-9
    assert_allclose(solution.mechanism[0], QIF_ROW, rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", [BlahutArimoto(), MirrorDescent()], ids=["unit", "adaptive"])
@pytest.mark.parametrize("form", [{"multiplier": 1.5}, {"budget": 0.3}], ids=str)
def test_the_objective_never_increases(iterates, solver, form):
    for seed in range(3):
        problem = jp.DistortionProblem(random_joint(seed, 3, 4, zeros=0.3), TABLE, **form)
        mechanisms, values, state = iterates(solver, problem, 60)
        # The uniform start need not meet the budget; from the first step on every iterate does.
        assert np.diff(values[1:]).max() <= 1e-12
        assert values[-1] < values[1]
        if "budget" in form:
            used = [spent(problem.joints[0], TABLE, w) for w in mechanisms[1:]]
            assert max(used) <= 0.3 + 1e-9
        # What is improved as proved lies on both sides of what was found.
        assert state.best.bound <= state.best.value + 1e-12
        assert state.best.value <= values[1:].min() + 1e-9


# Measures of sets of rules with the relative smoothness that the module states, by their lifts t.
SMOOTHNESS = {
    "chi-squared": (lk.FInformation(lk.ChiSquared()), lambda t: 2.0 * t.max()),
    "Jensen-Shannon": (lk.FInformation(lk.JensenShannon()), lambda t: 0.5),
    "Hellinger": (lk.FInformation(lk.SquaredHellinger()), lambda t: 0.5 / np.sqrt(t.min())),
}
# The tolerance, and the problem: every smooth set of rules, every form, a set of joints.
PROBLEMS = {
    "Sibson 2": (1e-4, {"budget": 0.3, "leakage": lk.Sibson(2.0)}),
    "Arimoto 1/2": (1e-4, {"budget": 0.3, "leakage": lk.Arimoto(0.5)}),
    "Brier": (1e-4, {"budget": 0.3, "leakage": lk.AverageCostGain(lk.BrierLoss())}),
    **{name: (1e-4, {"leakage_budget": 0.03, "leakage": measure}) for name, (measure, _) in SMOOTHNESS.items()},
    "budget": (1e-3, {"budget": 0.3, "limits": ((lk.Sibson(2.0), 0.3),)}),
    "multiplier": (1e-3, {"multiplier": 1.5}),
    "leakage budget": (1e-3, {"leakage_budget": 0.05}),
    "joints": (1e-3, {"budget": 0.3}),
}


# Of three sets of f-information under a limit one is always compiled.
@pytest.mark.parametrize("name", further(PROBLEMS, PROBLEMS.keys() - {"Arimoto 1/2", "chi-squared", "Jensen-Shannon"}))
def test_every_smooth_average_and_form_comes_to_the_certified_optimum(name):
    tol, form = PROBLEMS[name]
    joint = np.stack([random_joint(seed, 3, 4) for seed in (1, 2)]) if name == "joints" else random_joint(1, 3, 4)
    problem = jp.DistortionProblem(joint, TABLE, **form)
    found = jp.solve(problem, "mirror-descent", tol=tol)
    assert found.status == "optimal"
    assert_one_optimum(found, jp.solve(problem, tol=1e-9), 1e-9)


@pytest.mark.parametrize("name", SMOOTHNESS)
def test_steps_of_the_relative_smoothness_never_increase_the_objective(iterates, name):
    measure, smoothness = SMOOTHNESS[name]
    joint = random_joint(2, 3, 4)
    lifts = joint / (joint.sum(axis=1, keepdims=True) * joint.sum(axis=0))
    problem = jp.DistortionProblem(joint, TABLE, multiplier=0.05, leakage=measure)
    _, values, _ = iterates(MirrorDescent(1.0 / smoothness(lifts)), problem, 60)
    assert np.diff(values).max() <= 1e-12
    assert values[-1] < values[0] - 1e-4


def test_a_schedule_is_asked_for_the_length_of_each_step(iterates):
    problem = jp.DistortionProblem(random_joint(1, 3, 4), TABLE, multiplier=1.5)
    scheduled, _, state = iterates(MirrorDescent(lambda count: 1.0 / (1.0 + count.astype(float))), problem, 3)
    assert state.total_length == pytest.approx(1 + 1 / 2 + 1 / 3)
    first, _, _ = iterates(MirrorDescent(1.0), problem, 1)
    assert_allclose(scheduled[1], first[1], rtol=1e-14)
    for nothing in (None, "a", np.nan, -1.0, np.ones(2)):
        with refused(r"^MirrorDescent: step\(n\)"):
            iterates(MirrorDescent(lambda _, length=nothing: length), problem, 1)


@pytest.mark.parametrize("step", [0.0, -1.0, np.inf, np.nan, True, "fast", None], ids=str)
def test_steps_without_a_length_are_refused(step):
    with refused("step"):
        MirrorDescent(step)


def test_the_old_argument_names_its_successor():
    for adaptive, successor in ((True, "MirrorDescent"), (False, "BlahutArimoto")):
        with pytest.warns(DeprecationWarning, match=successor):
            solver = MirrorDescent(adaptive=adaptive)
        assert solver.rule == ("adaptive" if adaptive else 1.0)


def test_measures_without_a_gradient_are_refused_with_what_takes_them():
    for measure in (lk.MaximalLeakage(), lk.MaxLift(), lk.AverageCostGain(lk.CustomLoss(lambda q: -jnp.log(q)))):
        problem = jp.DistortionProblem(random_joint(1, 3, 4), TABLE, leakage_budget=0.1, leakage=measure)
        with refused(r"solver: mirror-descent takes averages .*use 'interior-point' or 'hybrid-gradient'$"):
            jp.solve(problem, "mirror-descent")


def test_a_limit_on_leakage_in_float32_warns_of_nothing():
    """What an infinite value counts as was 1e300, and overflowed."""
    joint = jnp.asarray(random_joint(1, 3, 4), np.float32)
    limited = jax.jit(lambda joint: jp.solve(jp.DistortionProblem(joint, TABLE, leakage_budget=0.05), BlahutArimoto()))
    solution = limited(joint)
    assert solution.mechanism.dtype == np.float32
    assert 0.0 < solution.lower_bound <= solution.value


def test_longer_steps_pay():
    """Adaptive steps need fewer iterations than unit steps for the same certified gap."""
    problem = jp.DistortionProblem(random_joint(1, 3, 4), TABLE, budget=0.3)
    long, unit = (jp.solve(problem, name, tol=1e-4) for name in ("mirror-descent", "blahut-arimoto"))
    assert long.status == unit.status == "optimal"
    assert long.steps < unit.steps


# -- budgets ---------------------------------------------------------------------------------------

STALLING = jp.DistortionProblem(drawn_joint(0, 3, 4), TABLE, budget=0.2)


UNROLLED = BlahutArimoto(unrolled=3000)


def line(budget):
    joint = drawn_joint(0, 2, 4)
    return jp.DistortionProblem(joint, distances(4), budget=budget)


def moves_as_differences(moved):
    high, low = (jp.solve(line(0.5 + way), tol=1e-11).mechanism for way in (1e-4, -1e-4))
    differences = (high - low) / 2e-4
    assert_allclose(moved, differences, atol=1e-3 * np.abs(differences).max())


def test_unrolled_steps_move_as_the_optimal_mechanism():
    program, found = jax.tree.map(jax.numpy.asarray, program_of(line(0.5))), jp.solve(line(0.5), tol=1e-9)

    def after(budgets):
        return UNROLLED.after(dataclasses.replace(program, budgets=budgets), found.mechanism, found.multipliers)

    with jax.numpy_rank_promotion("allow"):
        moves_as_differences(jax.jit(jax.jacrev(after))(program.budgets)[..., 0])


@pytest.mark.thorough
def test_a_solve_has_the_derivative_of_its_unrolled_steps():
    moves_as_differences(jax.jit(jax.jacrev(lambda budget: jp.solve(line(budget), UNROLLED, tol=1e-8).mechanism))(0.5))


@pytest.mark.parametrize("budget", [0.15, 0.16, 0.2])
def test_budgets_do_not_stall(budget):
    """The stall: a step that missed its budget left a mechanism that no later step changed."""
    slow = jp.solve(jp.DistortionProblem(STALLING.joints[0], TABLE, budget=budget), "mirror-descent", tol=1e-4)
    assert slow.status == "optimal"
    assert slow.steps < 400


def test_batches_of_budgets_are_finite_and_certified():
    def solved(joint, budget):
        return jp.solve(jp.DistortionProblem(joint, TABLE, budget=budget), "mirror-descent", tol=1e-4, max_steps=3000)

    absent = STALLING.joints[0] * np.array([1.0, 1.0, 0.0, 1.0])  # without mass there is nothing to tilt
    budgets = np.array([0.0, 1e-9, 0.05, 0.13, 0.15, 0.16, 0.2, 0.3, 2.0])
    with jax.numpy_rank_promotion("allow"):
        found = jax.jit(jax.vmap(jax.vmap(solved, (None, 0)), (0, None)))(
            np.stack([STALLING.joints[0], absent / absent.sum()]), budgets
        )
    assert np.isfinite(found.mechanism).all()
    assert np.isfinite(found.value).all()
    assert (np.asarray(found.value - found.lower_bound) <= 1e-4).all()


@pytest.mark.parametrize("seed", range(4))
def test_no_other_price_of_the_budget_proves_more(seed):
    """Prices of a step belong to its mechanism; those of a bound are the best ones for its rules."""
    rng = np.random.default_rng([6, seed])
    joint, costs = drawn_joint(rng, 4, 6, 0.5), rng.random((6, 6))
    np.fill_diagonal(costs, 0.0)
    problem = jp.DistortionProblem(joint, costs, budget=0.3 * (joint.sum(axis=0) @ costs).min())
    found = jp.solve(problem, "mirror-descent", max_steps=20, tol=1e-14)
    for share in np.linspace(0.2, 3.0, 57):
        other = jp.certify(problem, dataclasses.replace(found, multipliers=share * found.multipliers))
        assert other.lower_bound <= found.lower_bound + 0.01 * found.gap
