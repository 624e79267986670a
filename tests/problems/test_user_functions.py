"""A user's own f or loss as objective and as limit: the built-in optima, weak duality, refusals, honest answers."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.leakage.custom_loss import Announced, Loss
from jaxpriv.leakage.user_divergence import UserCurve
from jaxpriv.program import program_of
from jaxpriv.testing import random_joint
from tests.cases import assert_refused, drawn_joint, thorough, value_of

from .checks import assert_nothing_is_better
from .measured_cases import BUDGET, INF, JOINT, MEASURES, OWN, TWINS, N, log_loss, problem_of

# Losses whose best announcements lie on faces, and functions with kinks: their interval may stay open.
KINKED = ("euros", "max-cubic", "kink", "flat")
ZEROS = random_joint(0, N, N, zeros=0.3)
ZEROS[:, 2], ZEROS[1] = 0.0, 0.0
ZEROS /= ZEROS.sum()
JOINTS = np.stack([JOINT, 0.5 * JOINT + 0.5 * random_joint(11, N, N)])


def built_in(name):
    return MEASURES[name.removesuffix(", proper")]


def agree(mine, other, accuracy):
    """Both are proved, so the optimum lies in both intervals."""
    assert mine.status == other.status == "optimal"
    assert mine.value == pytest.approx(other.value, abs=accuracy)
    assert mine.lower_bound <= other.value + 1e-12
    assert other.lower_bound <= mine.value + 1e-12


# -- the built-in measures, written as a user would ------------------------------------------------

FORMS = ({"budget": BUDGET}, {"multiplier": 0.1}, {"leakage_budget": 0.03})


@pytest.mark.parametrize(
    ("name", "joint", "form"),
    [
        ("hellinger", JOINT, {"multiplier": 0.1}),
        ("gain-brier, proper", JOINT, {"multiplier": 0.1}),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("max-gain-log-loss", JOINT, {"leakage_budget": 0.1}),
                ("hellinger", ZEROS, {"leakage_budget": 0.02}),
                ("chi-squared", JOINTS, {"budget": 0.6}),
            )
        ),
        *thorough(("max-gain-brier", ZEROS, {"leakage_budget": 0.02})),
        *thorough(*((name, JOINT, FORMS[i % 3]) for i, name in enumerate(TWINS) if "log-loss" not in name)),
    ],
)
def test_a_users_function_has_the_optimum_of_the_built_in_it_equals(name, joint, form):
    usual = joint is JOINT
    mine, other = (
        jp.solve(problem_of(measure, joint, **form), tol=1e-7 if usual else 1e-6)
        for measure in (TWINS[name], built_in(name))
    )
    agree(mine, other, 1e-6 if usual else 3e-6)


@pytest.mark.slow
def test_combined_with_other_limits():
    """As objective and as limits beside each other and LDP: the same optimum as with the built-in."""
    answers = []
    for measures in (TWINS, MEASURES):
        limits = [(measures["jensen-shannon"], 0.01), (lk.LocalDifferentialPrivacy(), 0.8)]
        answers.append(jp.solve(problem_of(measures["chi-squared"], leakage_budget=0.1, limits=limits)))
        for measure, value in [(measures["chi-squared"], 0.1), *limits]:
            assert value_of(measure, JOINT, answers[-1].mechanism) <= value + 1e-9
    agree(*answers, 3e-6)


# -- functions that no built-in knows --------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("bounded-domain", {"budget": BUDGET}),
        ("euros", {"budget": BUDGET}),
        ("max-cubic", {"leakage_budget": 0.03}),
        ("kink", {"budget": BUDGET}),
        *thorough(("quartic", {"leakage_budget": 0.03}), ("flat", {"budget": BUDGET})),
    ],
)
def test_no_mechanism_is_better_than_the_bound(name, form):
    """A subgradient is a rule like any other: the interval holds, whether or not it closes."""
    measure, unit = OWN[name], 1e4 if name == "euros" else 1.0
    asked = problem_of(measure, **form)
    most = 8 if name in ("euros", "max-cubic") else None  # more steps would leave their interval open, too
    solution = jp.solve(asked, tol=1e-6 * unit, max_steps=most)
    assert solution.status == ("optimal" if solution.gap <= 1e-6 * unit else "not_certified")
    assert solution.status == "optimal" or name in KINKED, solution.message
    assert 0 <= solution.lower_bound <= solution.value
    leak = value_of(measure, JOINT, solution.mechanism)
    assert solution.leakage == pytest.approx(leak, abs=1e-12 * unit)
    assert leak <= (solution.value + 1e-12 * unit if "budget" in form else form["leakage_budget"] * (1 + 1e-9))
    assert_nothing_is_better(asked, solution, unit)


@pytest.mark.slow
def test_a_frontier_falls():
    asked = problem_of(OWN["inverse"], leakage_budget=1.0)
    curve = jp.frontier(asked, leakage_budgets=[0.01, 0.03, 0.1, 0.3], tol=1e-6)
    value, bound = np.asarray(curve.solutions.value), np.asarray(curve.solutions.lower_bound)
    assert (value - bound <= 1e-6).all()
    assert (bound[1:] <= value[:-1] + 1e-12).all()
    assert value[0] > value[-1] + 1e-3


def test_an_infinite_value_at_zero():
    """Where every useful release excludes a symbol the leakage is infinite, and a limit is still met."""
    joint = np.diag([0.4, 0.3, 0.2, 0.1])
    released = jp.solve(problem_of(OWN["inverse"], joint, leakage_budget=0.5))
    assert released.status == "optimal"
    assert released.mechanism.min() > 0
    assert value_of(OWN["inverse"], joint, released.mechanism) <= 0.5 + 1e-9
    assert value_of(OWN["inverse"], joint, np.eye(N)) == INF


def test_an_f_that_is_finite_on_an_interval_alone():
    """Its conjugate at slopes beyond those that it has is that of the ends; nothing infinite is subtracted."""
    own = lk.UserDivergence(lambda t: jnp.where(abs(t - 1) <= 0.5, (t - 1) ** 2, jnp.inf), np.inf)
    curve = UserCurve(own)
    slopes = np.array([-np.inf, -5.0, -1.0, 0.0, 1.0, 3.0, np.inf])
    best = np.clip(1 + slopes / 2, 0.5, 1.5)
    assert curve.conjugate(slopes)[0] == pytest.approx(slopes * best - (best - 1) ** 2, abs=1e-12)
    found, cut = curve.lines(slopes)
    assert np.isfinite(found).all()
    ratios = np.linspace(0.5, 1.5, 21)[:, None]
    assert (found * ratios - cut <= (ratios - 1) ** 2 + 1e-12).all()
    joint = drawn_joint(0, 3, 4)
    asked = jp.DistortionProblem(joint, 1 - np.eye(4), leakage_budget=0.02, leakage=lk.FInformation(own))
    # In NumPy, as under a time limit: compiled steps warn of nothing.
    solved = jp.solve(asked, time_limit=60, max_steps=40)
    assert solved.lower_bound <= solved.value <= 0.36


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tol"), [("chi-squared", 1e-6), ("gain-brier", 1e-5)])
def test_a_limit_of_zero(name, tol):
    """No slack: the linear program of independence. Announcements are known to 1e-11, times a large price."""
    mine = jp.solve(problem_of(TWINS[name], leakage_budget=0.0), tol=tol)
    other = jp.solve(problem_of(MEASURES["chi-squared"], leakage_budget=0.0))
    assert mine.status == "optimal"
    assert mine.value == pytest.approx(other.value, abs=tol)


# -- honesty ---------------------------------------------------------------------------------------


def test_a_rule_is_the_cost_of_a_distribution_whatever_the_iteration_hands_over():
    """Log-loss: sum_s e^{-C(s, q)} <= 1. An announcement of more than mass one would prove too much."""

    class Handed(Loss):
        handed: float = 0.0

        def announcements(self, g):
            return np.full(g.shape, self.handed)

    loss = Loss.of(lk.CustomLoss(log_loss), np.full(N, 1 / N), np.ones(N, bool))
    parts = {field.name: getattr(loss, field.name) for field in dataclasses.fields(loss)}
    (term,) = program_of(problem_of(lk.MutualInformation(), budget=BUDGET)).terms  # of whatever joint
    for handed in (2.0, 0.0, -1.0, 1e300, math.nan, INF, -INF):
        rules = Announced(Handed(**parts, handed=handed)).moved_in(term, np.zeros((2, N)))
        assert (np.exp(loss.scale * rules).sum(axis=1) <= 1 + 1e-12).all()


def test_the_cost_without_an_output_is_an_interval():
    """Rounded down in a bound; the value takes back what was rounded off."""
    prior = np.array([0.7, 0.2, 0.1, 0.0])
    loss = Loss.of(lk.CustomLoss(lambda q: (1.0 - q) ** 3, steps=3), prior, prior > 0)
    (term,) = program_of(problem_of(lk.MutualInformation(), budget=BUDGET)).terms  # of whatever joint
    exact = float(lk.CustomLoss(lambda q: (1.0 - q) ** 3).least(jnp.asarray(prior))) / loss.scale
    assert loss.without_output <= exact <= loss.without_output + loss.slack
    assert loss.slack > 1e-4
    saved = Announced(loss).columns(term, prior[:3, None])[0]
    assert saved + loss.without_output >= 0


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "at_zero", "message"),
    [
        (lambda t: -((t - 1.0) ** 2), -1.0, "convex"),
        (lambda t: jnp.sin(3 * (t - 1.0)), -1.0, "convex"),
        (lambda t: (t - 1.0) ** 2, 0.5, r"at_zero"),
        (lambda t: (t - 1.0) ** 2 - 9e-7, 1.0 - 9e-7, "-9e-07 at t = 1"),
        (lambda t: jnp.sqrt(t - 0.5) - math.sqrt(0.5), 0.0, "NaN at t"),
        (lambda t: jnp.where(t == 1.0, 0.0, jnp.nan), 0.0, "NaN at t"),
        (lambda t: jnp.where(t < 50, (t - 1.0) ** 2, 49.0**2), 1.0, "convex"),
        (lambda t: -np.log(np.asarray(t)), INF, "not a JAX function"),
        (lambda t: (t - 1.0) ** 2 if t.ndim == 0 or t.max() > 1 else t, 1.0, "not a JAX function"),
        (lambda t: jnp.sum((t - 1.0) ** 2), 1.0, "shape"),
        (lambda t: jnp.zeros(t.shape, int), 0.0, "floating-point"),
    ],
)
def test_an_f_that_is_no_generator(f, at_zero, message):
    measure = lk.FInformation(lk.UserDivergence(f, at_zero))
    assert_refused(rf"^leakage: f .*{message}", jp.solve, problem_of(measure, budget=BUDGET))
    assert_refused(
        rf"^limits\[0\]: f .*{message}",
        jp.solve,
        problem_of(lk.MutualInformation(), budget=BUDGET, limits=[(measure, 0.1)]),
    )


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (lk.CustomLoss(lambda q: -(q**2)), r"loss\[0\] is not convex"),
        (lk.CustomLoss(lambda q: (1 - q) ** 2 - jnp.array([0, 0, 3.0, 0]) * q**2), r"loss\[2\] is not convex"),
        (lk.CustomLoss(lambda q: jnp.sum(q)), "shape"),
        (lk.CustomLoss(lambda q: (q - jnp.arange(N + 1)) ** 2), "loss fails"),
        (lk.CustomLoss(lambda q: -jnp.log(np.asarray(q))), "not a JAX function"),
        (lk.CustomLoss(lambda q: (1 - q[:3]) ** 2), "shape"),
        (lk.CustomLoss(lambda q: jnp.log(q - 0.1)), "finite"),
        (lk.CustomLoss(lambda q: (1 - q) ** 3, proper=True), "proper"),
    ],
)
def test_a_loss_that_is_none(cost, message):
    for measure in (lk.AverageCostGain(cost), lk.MaxCostGain(cost)):
        assert_refused(f"^leakage: .*{message}", jp.solve, problem_of(measure, budget=BUDGET))


def test_a_class_of_ones_own_is_refused_by_name():
    class Mine(lk.AbstractDivergence):
        traits = lk.Traits("dimensionless")

        def __call__(self, t):
            return (t - 1.0) ** 2

    assert_refused("leakage", jp.solve, problem_of(lk.FInformation(Mine()), budget=BUDGET))
    assert_refused(
        r"limits\[0\]",
        jp.solve,
        problem_of(lk.MutualInformation(), budget=BUDGET, limits=[(lk.FInformation(Mine()), 1)]),
    )
