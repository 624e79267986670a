"""A user's own f or loss as objective and as limit: the built-in optima, weak duality, refusals, honest answers."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.leakage import evaluate
from jaxpriv.leakage.custom_loss import Announced, Loss, answer
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.leakage.user_divergence import UserCurve
from jaxpriv.program.certify import certify_program, column_values
from jaxpriv.program.convex import Program
from jaxpriv.program.lower import measured_program, shift_of, terms_of
from jaxpriv.testing import random_joint, random_mechanisms
from tests.cases import thorough

INF = math.inf
N = 4
DISTORTION = abs(np.subtract.outer(np.arange(float(N)), np.arange(float(N))))
JOINT = 0.5 * np.diag([0.4, 0.3, 0.2, 0.1]) + 0.5 * random_joint(7, N, N)
BUDGET = 0.35


def user_f(f, at_zero):
    return lk.FInformation(lk.UserDivergence(f, at_zero))


def divergence_of(measure):
    assert isinstance(measure.divergence, lk.UserDivergence)
    return measure.divergence


def log_loss(q):
    return -jnp.log(q)


def brier_loss(q):
    return jnp.sum(q * q) + 1.0 - 2.0 * q


# The user's own f, none of them with f'(1) = 0, and the built-in it equals.
TWINS = {
    "kl": (user_f(lambda t: t * jnp.log(t), 0.0), lk.FInformation(lk.KullbackLeibler())),
    "chi-squared": (user_f(lambda t: t * t - 1.0, -1.0), lk.FInformation(lk.ChiSquared())),
    "reverse-kl": (user_f(lambda t: -jnp.log(t), INF), lk.FInformation(lk.ReverseKullbackLeibler())),
    "hellinger": (user_f(lambda t: 2.0 - 2.0 * jnp.sqrt(t), 2.0), lk.FInformation(lk.SquaredHellinger())),
    "jensen-shannon": (
        user_f(lambda t: 0.5 * (t * jnp.log(t) - (1 + t) * jnp.log(0.5 * (1 + t))), 0.5 * math.log(2)),
        lk.FInformation(lk.JensenShannon()),
    ),
    "log-loss": (lk.AverageCostGain(lk.CustomLoss(log_loss)), lk.AverageCostGain(lk.LogLoss())),
    "brier": (lk.AverageCostGain(lk.CustomLoss(brier_loss)), lk.AverageCostGain(lk.BrierLoss())),
    "brier-proper": (lk.AverageCostGain(lk.CustomLoss(brier_loss, proper=True)), lk.AverageCostGain(lk.BrierLoss())),
}
WORST_TWINS = {
    "max-log-loss": (lk.MaxCostGain(lk.CustomLoss(log_loss, proper=True)), lk.MaxCostGain(lk.LogLoss())),
    "max-brier": (lk.MaxCostGain(lk.CustomLoss(brier_loss)), lk.MaxCostGain(lk.BrierLoss())),
}
# No built-in equals these: a quartic has no curvature at 1, these losses are not proper, and their best
# announcements lie on faces of the simplex.
OWN = {
    "quartic": user_f(lambda t: (t - 1.0) ** 4, 1.0),
    "inverse": user_f(lambda t: 1.0 / t - 1.0, INF),
    "le-cam": user_f(lambda t: (t - 1.0) ** 2 / (t + 1.0), 1.0),
    "bounded-domain": user_f(
        lambda t: jnp.where(t < 3.0, -jnp.log(jnp.where(t < 3.0, 3.0 - t, 1.0)), INF) + math.log(2.0),
        math.log(2.0 / 3.0),
    ),
    "cubic": lk.AverageCostGain(lk.CustomLoss(lambda q: (1.0 - q) ** 3)),
    "euros": lk.AverageCostGain(lk.CustomLoss(lambda q: 1e4 * jnp.arange(1.0, N + 1) * (1.0 - q) ** 2)),
}
# Losses whose best announcements lie on faces: a set with kinks, whose interval may stay open.
KINKED = ("cubic", "euros", "max-cubic")
OWN_WORST = {"max-cubic": lk.MaxCostGain(lk.CustomLoss(lambda q: (1.0 - q) ** 3))}


def problem(measure, joint=JOINT, **form):
    return jp.DistortionProblem(joint, DISTORTION, leakage=measure, **form)


@functools.cache
def solved(name, which, form, value):
    pair = (TWINS | WORST_TWINS)[name]
    return jp.solve(problem(pair[which], **{form: value}), tol=1e-7)


def agree(mine, built_in, accuracy=1e-6):
    """Both are proved, so the optimum lies in both intervals."""
    assert mine.status == built_in.status == "optimal"
    assert mine.value == pytest.approx(built_in.value, abs=accuracy)
    assert mine.lower_bound <= built_in.value + 1e-12
    assert built_in.lower_bound <= mine.value + 1e-12


# -- the built-in measures, written as a user would ------------------------------------------------

FORMS = [("budget", BUDGET), ("multiplier", 0.1), ("leakage_budget", 0.03)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "form", "value"), [(n, *f) for n, f in zip(TWINS, itertools.cycle(FORMS)) if n != "log-loss"]
)
def test_a_users_function_has_the_optimum_of_the_built_in_it_equals(name, form, value):
    agree(solved(name, 0, form, value), solved(name, 1, form, value))


def test_one_f_and_one_loss_have_the_built_in_optimum():
    """The quick part of the test above."""
    for name in ("hellinger", "brier-proper"):
        agree(solved(name, 0, "multiplier", 0.1), solved(name, 1, "multiplier", 0.1))


@pytest.mark.slow
def test_a_users_loss_in_the_worst_outcome():
    agree(*(solved("max-log-loss", which, "leakage_budget", 0.1) for which in (0, 1)))


@pytest.mark.slow
def test_a_joint_with_zeros():
    """Symbols of no mass among them: the same optimum as the built-in."""
    joint = random_joint(0, N, N, zeros=0.3)
    joint[:, 2] = 0.0
    joint[1] = 0.0
    joint /= joint.sum()
    for mine, built_in in (TWINS["hellinger"], WORST_TWINS["max-brier"]):
        form = {"leakage_budget": 0.02}
        agree(jp.solve(problem(mine, joint, **form)), jp.solve(problem(built_in, joint, **form)), 3e-6)


@pytest.mark.slow
def test_combined_with_other_limits():
    """As objective and as limits beside each other and LDP: the same optimum as with the built-in."""
    answers = []
    for which in (0, 1):
        limits = [(TWINS["jensen-shannon"][which], 0.01), (lk.LocalDifferentialPrivacy(), 0.8)]
        answers.append(jp.solve(problem(TWINS["chi-squared"][which], leakage_budget=0.1, limits=limits)))
        for measure, value in [(TWINS["chi-squared"][which], 0.1), *limits]:
            assert evaluate(measure, JOINT, answers[-1].mechanism).value <= value + 1e-9
    agree(answers[0], answers[1], 3e-6)


@pytest.mark.slow
def test_a_set_of_joints():
    joints = np.stack([JOINT, 0.5 * JOINT + 0.5 * random_joint(11, N, N)])
    mine, built_in = (jp.solve(problem(measure, joints, budget=0.6)) for measure in TWINS["chi-squared"])
    agree(mine, built_in, 3e-6)


# -- functions that no built-in knows --------------------------------------------------------------


def around(mechanism):
    """600 mechanisms, at random and close to one."""
    rng = np.random.default_rng(0)
    other = random_mechanisms(1, 600, N, N)
    other[::3] = 0.5 * other[::3] + 0.5 * np.eye(N)
    share = np.where(rng.random(600) < 0.2, 1.0, 10.0 ** rng.uniform(-5, 0, 600))[:, None, None]
    return (1 - share) * mechanism + share * other


def cost_of(mechanism):
    return np.einsum("sx,xy,...xy->...", JOINT, DISTORTION, mechanism)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bounded-domain", "euros"])
def test_no_mechanism_within_the_budget_leaks_less(name):
    unit = 1e4 if name == "euros" else 1.0
    most = 8 if name in KINKED else None  # more steps would leave their interval open, too
    solution = jp.solve(problem(OWN[name], budget=BUDGET), tol=1e-6 * unit, max_steps=most)
    assert solution.status == "optimal" or (name in KINKED and solution.gap > 1e-6 * unit), solution.message
    assert solution.leakage == pytest.approx(evaluate(OWN[name], JOINT, solution.mechanism).value, abs=1e-12 * unit)
    assert solution.leakage <= solution.value + 1e-9 * unit
    mechanisms = around(solution.mechanism)
    share = np.minimum(1, BUDGET / cost_of(mechanisms))[:, None, None]
    mechanisms = share * mechanisms + (1 - share) * np.eye(N)
    leaks = np.asarray(jax.jit(jax.vmap(lambda w: OWN[name](JOINT, w)))(mechanisms))
    assert leaks.min() >= solution.lower_bound - 1e-12 * unit


@pytest.mark.slow
@pytest.mark.parametrize("name", [*thorough("quartic"), "max-cubic"])
def test_no_mechanism_within_the_limit_is_cheaper(name):
    measure = (OWN | OWN_WORST)[name]
    limit = 0.03
    solution = jp.solve(problem(measure, leakage_budget=limit), tol=1e-6, max_steps=8 if name in KINKED else None)
    assert solution.status == "optimal" or (name in KINKED and solution.gap > 1e-6), solution.message
    assert evaluate(measure, JOINT, solution.mechanism).value <= limit * (1 + 1e-9)
    mechanisms = around(solution.mechanism)
    leaks = np.asarray(jax.jit(jax.vmap(lambda w: measure(JOINT, w)))(mechanisms))
    assert (leaks <= limit).sum() > 20
    assert cost_of(mechanisms)[leaks <= limit].min() >= solution.lower_bound - 1e-12


@pytest.mark.slow
def test_a_frontier_falls():
    curve = jp.frontier(problem(OWN["inverse"], leakage_budget=1.0), leakage_budgets=[0.01, 0.03, 0.1, 0.3], tol=1e-6)
    value, bound = np.asarray(curve.solutions.value), np.asarray(curve.solutions.lower_bound)
    assert (value - bound <= 1e-6).all()
    assert (bound[1:] <= value[:-1] + 1e-12).all()
    assert value[0] > value[-1] + 1e-3


def test_alphabets_of_one_symbol():
    for measure in (OWN["inverse"], OWN_WORST["max-cubic"]):
        one_private = jp.DistortionProblem(JOINT.sum(axis=0)[None], DISTORTION, leakage=measure, budget=0.1)
        one_useful = jp.DistortionProblem(JOINT.sum(axis=1)[:, None], np.ones((1, N)), leakage=measure, budget=2)
        one_released = jp.DistortionProblem(JOINT, DISTORTION[:, :1], leakage=measure, budget=5)
        for small in (one_private, one_useful, one_released):
            solution = jp.solve(small)
            assert solution.status == "optimal"
            assert solution.leakage == pytest.approx(0, abs=1e-9)


def test_an_infinite_value_at_zero():
    """Where every useful release excludes a symbol the leakage is infinite, and a limit is still met."""
    joint = np.diag([0.4, 0.3, 0.2, 0.1])
    released = jp.solve(problem(OWN["inverse"], joint, leakage_budget=0.5))
    assert released.status == "optimal"
    assert released.mechanism.min() > 0
    assert evaluate(OWN["inverse"], joint, released.mechanism).value <= 0.5 + 1e-9
    assert evaluate(OWN["inverse"], joint, np.eye(N)).value == INF


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tol"), [("chi-squared", 1e-6), ("brier", 1e-5)])
def test_a_limit_of_zero(name, tol):
    """No slack: the linear program of independence. Announcements are known to 1e-11, times a large price."""
    mine = jp.solve(problem(TWINS[name][0], leakage_budget=0.0), tol=tol)
    built_in = jp.solve(problem(lk.FInformation(lk.ChiSquared()), leakage_budget=0.0))
    assert mine.status == "optimal"
    assert mine.value == pytest.approx(built_in.value, abs=tol)


def test_limits_below_none_are_infeasible():
    for measure in (OWN["inverse"], OWN["cubic"]):
        with pytest.raises(InfeasibleError, match="below"):
            jp.solve(problem(measure, leakage_budget=-0.1))


# -- honesty ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "f",
    [
        lambda t: 0.5 * jnp.abs(t - 1.0),
        *thorough(lambda t: jnp.maximum(jnp.abs(t - 1.0) - 0.2, 0.0)),
    ],
    ids=["kink", "flat"],
)
def test_an_f_with_kinks_is_never_claimed_to_be_solved(f):
    """A subgradient is a rule like any other: the interval holds, whether or not it closes."""
    measure = user_f(f, float(f(0.0)))
    solution = jp.solve(problem(measure, budget=BUDGET))
    assert solution.status == ("optimal" if solution.gap <= 1e-6 else "not_certified")
    assert 0 <= solution.lower_bound <= solution.value
    assert solution.value >= evaluate(measure, JOINT, solution.mechanism).value - 1e-12
    mechanisms = around(solution.mechanism)
    share = np.minimum(1, BUDGET / cost_of(mechanisms))[:, None, None]
    leaks = jax.vmap(lambda w: measure(JOINT, w))(share * mechanisms + (1 - share) * np.eye(N))
    assert np.asarray(leaks).min() >= solution.lower_bound - 1e-12


def test_too_few_steps_are_not_certified():
    solution = jp.solve(problem(OWN["le-cam"], multiplier=0.1), max_steps=2)
    assert solution.status == "not_certified"
    assert solution.lower_bound < solution.value


WILD = st.one_of(
    st.floats(-3, 3), st.sampled_from([0.0, 1e-300, 1e300, -1e300, 50.0, -50.0, math.nan, INF, -INF])
)  # fmt: skip


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("name", ["hellinger", "reverse-kl", "quartic", "bounded-domain", "brier", "cubic"])
@settings(max_examples=8)
@given(data=st.data())
def test_no_rule_proves_more_than_a_feasible_mechanism(name, role, data):
    measure = TWINS[name][0] if name in TWINS else OWN[name]
    if role is Role.PEAK or (role is Role.WORST and not isinstance(measure, lk.AverageCostGain)):
        return
    if role is Role.WORST:
        measure = lk.MaxCostGain(measure.cost)
    joint = random_joint(data.draw(st.integers(0, 7)), N, N)
    mechanism = 0.5 * random_mechanisms(1, 1, N, N)[0] + 0.5 / N
    eps = 0.0 if role is Role.OBJECTIVE else evaluate(measure, joint, mechanism).value * (1 + 1e-9) + 1e-9
    terms = terms_of(measure, joint, role, eps)
    weighted = joint.sum(axis=0)[:, None] * DISTORTION
    program = Program(
        terms=terms,
        mass=joint.sum(axis=0),
        cost=weighted,
        constraints=weighted[None],
        budgets=np.array([(weighted * mechanism).sum() * (1 + 1e-12)]),
        marks=np.zeros(1),
        support=np.ones((N, N), dtype=bool),
        feasible_point=np.zeros((N, N)),
    )
    rows = len(terms[0].rows)
    k = np.array(data.draw(st.lists(WILD, min_size=N * rows, max_size=N * rows))).reshape(N, rows)
    prices = np.array(data.draw(st.lists(WILD, min_size=N + 2, max_size=N + 2)))
    proof = certify_program(program, mechanism, k, prices[:N, None], prices[N:][: 1 + terms[0].priced])
    assert proof.violation == 0
    assert not proof.lower_bound > proof.value
    assert not math.isnan(proof.lower_bound)


@pytest.mark.slow
def test_the_certificate_takes_any_rules_near_those_of_the_solver():
    """Handed the solver's rules it computes the bound of the solution; other rules prove no more than the value."""
    solution = jp.solve(problem(OWN["le-cam"], leakage_budget=0.03))
    program = measured_program(problem(OWN["le-cam"], leakage_budget=0.03), ((OWN["le-cam"], 0.03),))
    parts = (solution.scores[0], solution.weights, solution.multipliers)
    again = certify_program(program, solution.mechanism, *parts)
    assert again.lower_bound == pytest.approx(solution.lower_bound, abs=1e-12)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0, 100.0):
        for _ in range(10):
            k, eta, price = (part * (1 + size * rng.normal(size=part.shape)) for part in parts)
            assert certify_program(program, solution.mechanism, k, eta, price).lower_bound <= solution.value


# -- terms and conjugates --------------------------------------------------------------------------


def test_terms_say_what_the_measures_say():
    for mechanism in random_mechanisms(3, 5, N, N):
        for name, measure in ({name: pair[0] for name, pair in TWINS.items()} | OWN).items():
            (term,) = terms_of(measure, JOINT, Role.OBJECTIVE)
            total = column_values(term, term.rows @ mechanism).sum() + shift_of(measure, JOINT)
            found = evaluate(measure, JOINT, mechanism).value
            assert measure.scale_for(N).outer(total) == pytest.approx(found, rel=1e-9, abs=1e-11), name


def test_conjugates_of_a_users_f_are_those_of_its_closed_form():
    u = np.linspace(-0.9, 0.4, 47)
    with_closed_form = {
        "chi-squared": lambda u: (u + u * u / 4, 1 + u / 2, 0.5 + 0 * u),
        "reverse-kl": lambda u: (-np.log1p(-u), 1 / (1 - u), 1 / (1 - u) ** 2),
        "kl": lambda u: (np.expm1(u), np.exp(u), np.exp(u)),
    }
    for name, closed in with_closed_form.items():
        f = UserCurve.of(divergence_of(TWINS[name][0]))
        wanted = closed(u * f.size)
        value, ratio, curvature = f.conjugate(jnp.asarray(u))
        np.testing.assert_allclose(value * f.size, wanted[0], atol=1e-13)
        np.testing.assert_allclose(ratio, wanted[1], rtol=1e-12)
        np.testing.assert_allclose(curvature / f.size, wanted[2], rtol=1e-10)
        slopes, levels = f.lines(u)
        np.testing.assert_allclose(slopes, u, atol=1e-14)
        np.testing.assert_allclose(levels * f.size, wanted[0], atol=1e-13)
        assert (levels >= value - 1e-15).all()


def test_supporting_lines_lie_below_f():
    t = np.concatenate([[0.0], np.geomspace(1e-12, 1e6, 300)])
    wanted = np.concatenate([np.linspace(-20, 20, 41), [1e300, -1e300]])
    for name, measure in OWN.items():
        if isinstance(measure, lk.FInformation):
            f = UserCurve.of(divergence_of(measure))
            slopes, levels = f.lines(wanted)
            assert np.isfinite(slopes).all(), name
            lines = slopes[:, None] * t
            assert (lines - levels[:, None] <= f.exact(t) + 1e-12 * (1 + abs(lines) + abs(levels[:, None]))).all()


def test_the_answer_to_scores_is_the_announcement_that_gave_them():
    rng = np.random.default_rng(3)
    prior = np.array([0.3, 0.1, 0.0, 0.4, 0.2])
    for cost in (lk.CustomLoss(log_loss, proper=True), lk.CustomLoss(lambda q: jnp.sum(q * q) + 1 - (2 - 0.2 * q) * q)):
        loss = Loss.of(cost, prior, prior > 0)
        w = jnp.asarray(rng.dirichlet(np.ones(4)))
        answered = jax.jit(lambda g, loss=loss: answer(loss, g))
        rules = 0.3 - loss.answered(w)
        found = answered(rules)
        assert found.level == pytest.approx(0.3, abs=1e-9)
        np.testing.assert_allclose(found.posterior, w, atol=1e-6)
        steps = [(answered(rules + h).posterior - answered(rules - h).posterior) / 2e-5 for h in 1e-5 * np.eye(4)]
        np.testing.assert_allclose(found.response, np.stack(steps), atol=1e-4)


def test_a_rule_is_the_cost_of_a_distribution_whatever_the_iteration_hands_over(monkeypatch):
    """Log-loss: sum_s e^{-C(s, q)} <= 1. An announcement of more than mass one would prove too much."""
    loss = Loss.of(lk.CustomLoss(log_loss), np.full(N, 1 / N), np.ones(N, bool))
    (term,) = terms_of(lk.MutualInformation(), JOINT, Role.OBJECTIVE)  # of whatever joint
    for handed in (2.0, 0.0, -1.0, 1e300, math.nan, INF, -INF):
        monkeypatch.setattr(Loss, "announcements", lambda self, g, handed=handed: np.full(g.shape, handed))
        rules = Announced(loss).moved_in(term, np.zeros((2, N)))
        assert (np.exp(loss.scale * rules).sum(axis=1) <= 1 + 1e-12).all()


def test_the_cost_without_an_output_is_an_interval():
    """Rounded down in a bound; the value takes back what was rounded off."""
    prior = np.array([0.7, 0.2, 0.1, 0.0])
    loss = Loss.of(lk.CustomLoss(lambda q: (1.0 - q) ** 3, steps=3), prior, prior > 0)
    (term,) = terms_of(lk.MutualInformation(), JOINT, Role.OBJECTIVE)  # of whatever joint
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
    measure = user_f(f, at_zero)
    with pytest.raises(InputError, match=rf"^leakage: f .*{message}"):
        jp.solve(problem(measure, budget=BUDGET))
    with pytest.raises(InputError, match=rf"^limits\[0\]: f .*{message}"):
        jp.solve(problem(lk.MutualInformation(), budget=BUDGET, limits=[(measure, 0.1)]))


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
        with pytest.raises(InputError, match=f"^leakage: .*{message}"):
            jp.solve(problem(measure, budget=BUDGET))


def test_a_class_of_ones_own_is_refused_by_name():
    class Mine(lk.AbstractDivergence):
        traits = lk.Traits("dimensionless")

        def __call__(self, t):
            return (t - 1.0) ** 2

    with pytest.raises(InputError, match="leakage"):
        jp.solve(problem(lk.FInformation(Mine()), budget=BUDGET))
    with pytest.raises(InputError, match=r"limits\[0\]"):
        jp.solve(problem(lk.MutualInformation(), budget=BUDGET, limits=[(lk.FInformation(Mine()), 1)]))
