"""The least worst-outcome leakage as one program: the search's answer, on faces, under limits, for sets of joints."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.program import program_of
from jaxpriv.solvers import Goal, InteriorPoint, PrimalDualHybridGradient, begin_again
from tests.cases import drawn_joint, raised, thorough, value_of
from tests.grid.cells import Cell, data_of, problem_of

from .checks import accepted, proved
from .measured_cases import MEASURES as BUILT_IN

MEASURES = {name: BUILT_IN[name] for name in (
    "max-information", "relative-entropy", "max-gain-log-loss", "max-gain-brier", "max-gain-zero-one", "max-lift",
    "min-lift", "lift", "ldp",
)}  # fmt: skip
MEASURES |= {
    "hidden": lk.MaxInformation([0.1, -0.2, 0.05]),
    "neighbours": lk.LocalDifferentialPrivacy(np.eye(3, k=1, dtype=bool)),
}
HAMMING = jp.distortion.hamming(4)


def drawn(seed, count=1):
    joints = np.random.default_rng(seed).dirichlet(np.ones(12), count).reshape(count, 3, 4)
    return joints if count > 1 else joints[0]


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("budget", [0.05, *thorough(0.3)])
def test_the_search_and_the_one_program_prove_one_value(name, budget):
    """Other solvers than the interior point take one distance after another."""
    problem = jp.DistortionProblem(drawn(3), HAMMING, budget=budget, leakage=MEASURES[name])
    by_distances = "linear-program" if MEASURES[name].linear else "hybrid-gradient"
    one, search = proved(problem, tol=1e-8), proved(problem, by_distances)
    assert max(one.lower_bound, search.lower_bound) <= min(one.value, search.value) + 1e-12


@pytest.mark.parametrize(("name", "most"), [("ldp", 25), *thorough(("max-information", 50))])
def test_each_limit_begins_where_the_one_before_ended(name, most):
    """The steps of all limits together: 29 and 82 where each began at the uniform mechanism, 17 and 35 so."""
    problem = jp.DistortionProblem(drawn(3), HAMMING, budget=0.3, leakage=MEASURES[name])
    assert proved(problem, "hybrid-gradient", tol=1e-7).steps <= most


def test_a_state_without_numbers_is_not_gone_on_from():
    problem = jp.DistortionProblem(drawn(3), HAMMING, leakage_budget=0.3, leakage=lk.MaxLift())
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        program = dataclasses.replace(program_of(problem), feasible_point=np.full((4, 4), 0.25))
        program, solver = jax.tree.map(jnp.asarray, program), PrimalDualHybridGradient()
        first = solver.init(program, jnp.array(0), solver.blank(program))
        near = dataclasses.replace(first, eta=0.5 * first.eta)
        broken = dataclasses.replace(first, eta=jnp.nan * first.eta)
        states = [begin_again(solver, program, state).state for state in (near, broken)]
    assert [float(state.eta) for state in states] == [0.5, 1.0]


def test_several_joints_and_a_further_limit_on_a_rare_output():
    """Every joint has outputs of its own to limit; so has the further measure, whose limit is no peak."""
    joints, other = drawn(4, 2), lk.RelativeEntropyPrivacy()

    def most(measure, solution):
        return max(value_of(measure, joint, solution.mechanism) for joint in joints)

    free = proved(jp.DistortionProblem(joints, HAMMING, budget=0.2, leakage=lk.MaxInformation()), tol=1e-8)
    assert most(lk.MaxInformation(), free) == pytest.approx(float(free.value), abs=1e-12)
    limits = [(other, 0.97 * most(other, free))]
    form = {"budget": 0.2, "leakage": lk.MaxInformation(), "limits": limits}
    bound = proved(jp.DistortionProblem(joints, HAMMING, **form), tol=1e-8)
    assert most(other, bound) <= limits[0][1] * (1 + 1e-9)
    assert free.lower_bound <= bound.value


def test_linear_limits_beside_it():
    joint, form = drawn(5), {"budget": 0.2, "leakage": lk.RelativeEntropyPrivacy()}
    free = jp.solve(jp.DistortionProblem(joint, HAMMING, **form))
    held = 0.95 * value_of(lk.MaxLift(), joint, free.mechanism)
    solution = proved(jp.DistortionProblem(joint, HAMMING, limits=[(lk.MaxLift(), held)], **form))
    assert value_of(lk.MaxLift(), joint, solution.mechanism) <= held * (1 + 1e-9)
    assert solution.value >= free.lower_bound


@pytest.mark.parametrize("seed", [1, 4])
def test_a_tight_budget_is_met_to_a_small_tolerance(seed):
    """From an infeasible start it diverged."""
    table = np.random.default_rng(seed).uniform(0.2, 1.0, (4, 4)) * (1.0 - np.eye(4))
    problem = jp.DistortionProblem(drawn_joint(5, 3, 4), table, budget=0.03, leakage=lk.MaxInformation())
    assert proved(problem, tol=1e-9).steps <= 40


# With S = X uniform on n symbols and a Hamming budget D: sum_y P(y|y) = n (1 - D) for the best mechanism. Summed over
# y, P(y|y) <= T P(y) gives T >= n (1 - D), P(y) <= T P(y|x) over x != y gives T >= (n - 1)/(n D), and
# P(y|y) <= T P(y|x) gives T >= (n - 1)(1 - D)/D. Randomised response attains all three.
SYMMETRIC = {
    "max-lift": (lk.MaxLift(), lambda n, d: n * (1 - d)),
    "lift": (lk.Lift(), lambda n, d: max(n * (1 - d), (n - 1) / (n * d))),
    "ldp": (lk.LocalDifferentialPrivacy(), lambda n, d: (n - 1) * (1 - d) / d),
    "neighbours": (lk.LocalDifferentialPrivacy(np.ones((4, 4), bool)), lambda n, d: (n - 1) * (1 - d) / d),
}


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("budget", [0.04, 0.5])
@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_least_log_ratios_of_randomised_response(name, budget, tol):
    measure, ratio = SYMMETRIC[name]
    solution = proved(jp.DistortionProblem(np.eye(4) / 4, HAMMING, budget=budget, leakage=measure), tol=tol)
    assert solution.lower_bound - 1e-12 <= np.log(ratio(4, budget)) <= solution.value + 1e-9


@pytest.mark.parametrize("name", SYMMETRIC)
def test_log_ratios_need_no_search(name):
    """A search took forty steps."""
    for seed, budget in enumerate([0.02, 0.1, 0.2, 0.3]):
        joint = drawn_joint(seed, 4, 4)
        solution = proved(jp.DistortionProblem(joint, HAMMING, budget=budget, leakage=SYMMETRIC[name][0]))
        assert 0 <= solution.steps <= 20


@pytest.mark.parametrize("name", ["ldp", *thorough("max-lift", "lift")])
def test_a_batch_proves_least_log_ratios(name, monkeypatch):
    """Random joints in one compiled program; one by one they need none."""
    joints = np.random.default_rng(11).dirichlet(np.ones(16), 4).reshape(4, 4, 4)
    random = [jp.DistortionProblem(one, HAMMING, budget=0.1, leakage=SYMMETRIC[name][0]) for one in joints]
    with monkeypatch.context() as compiled:
        compiled.setenv("JAXPRIV_COMPILE", "always")
        found = jp.solve_many(random)
    for problem, solution in zip(random, found, strict=True):
        accepted(problem, solution)
        alone = jp.solve(problem, tol=1e-8)
        assert alone.lower_bound <= solution.value + 1e-9
        assert solution.lower_bound <= alone.value + 1e-9


TIGHT = {
    "a private symbol without mass": (
        [[0.0, 0.0, 0.2878, 0.1702], [0.1809, 0.1308, 0.0, 0.2303], [0.0, 0.0, 0.0, 0.0]],
        0.01,
    ),
    "rare pairs": (
        [[0.34, 0.1, 6e-4, 6e-4], [5e-5, 1e-3, 0.125, 8e-4], [0.317, 0.11, 2e-5, 9e-7]],
        0.1,
    ),
}


@pytest.mark.parametrize("case", TIGHT)
@pytest.mark.parametrize("name", ["lift", "ldp", "max-information"])
def test_candidates_without_rare_outputs_keep_to_the_budget(name, case):
    """The feasible point is X itself: moved to the outputs that are left it may cost more than the budget."""
    joint, budget = np.array(TIGHT[case][0]), TIGHT[case][1]
    joint = joint / joint.sum()
    problem = jp.DistortionProblem(joint, HAMMING, budget=budget, leakage=MEASURES[name])
    program = dataclasses.replace(program_of(problem), feasible_point=np.eye(4))
    solver, goal = InteriorPoint(), Goal(1e-6, 0.0)
    state = solver.init(program, 0, solver.blank(program))
    for _ in range(60):
        mechanism = np.asarray(state.best.mechanism)
        assert 1.0 - joint.sum(axis=0) @ np.diag(mechanism) <= budget + 1e-12
        if goal.met(state.best):
            break
        with np.errstate(all="ignore"):
            state = solver.step(program, state)
    assert goal.met(state.best)
    known, mechanism = jp.solve(problem), np.asarray(state.best.mechanism)
    leak = float(value_of(MEASURES[name], joint, mechanism))
    assert known.lower_bound - 1e-9 <= leak <= known.value + 1e-5


@pytest.mark.parametrize("form", ["budget", "leakage_budget"])
@pytest.mark.parametrize("name", ["min-lift", "lift", "ldp"])
def test_a_private_symbol_that_only_a_useful_one_of_next_to_no_mass_shows(name, form):
    """It has a lift of its own, however rare it is: what is released for that useful symbol counts."""

    def of_mass(mass):
        joint = np.array([[0.3, 0.2, 0.0], [0.1, 0.4, 0.0], [0.0, 0.0, mass]])
        named = {form: 0.15, "leakage": MEASURES[name]}
        return proved(jp.DistortionProblem(joint / joint.sum(), jp.distortion.hamming(3), **named))

    rare = of_mass(1e-20)
    assert rare.value > 0.1
    assert rare.value == pytest.approx(of_mass(1e-8).value, abs=2e-6)


@pytest.mark.parametrize("measure", [lk.MaxInformation(), lk.RelativeEntropyPrivacy()], ids=repr)
def test_budgets_that_one_mechanism_alone_meets(measure):
    """An iterate that was not finite was moved onto the budgets, where NumPy's decomposition raised its own error."""
    rng = np.random.default_rng(0)
    joint, mechanism = drawn_joint(rng, 2, 2), rng.dirichlet(np.full(2, 0.3), size=2) + 1e-3
    mechanism /= mechanism.sum(axis=1, keepdims=True)
    tables = np.array([[[2.0, 2], [2, 3]], [[2, 0], [2, 2]], [[1, 2], [1, 0]]])
    budgets = (joint.sum(axis=0)[:, None] * mechanism * tables).sum(axis=(1, 2))
    solution = proved(jp.DistortionProblem(joint, tables, budget=budgets, leakage=measure))
    assert solution.value == pytest.approx(value_of(measure, joint, mechanism), abs=2e-6)


def test_a_budget_below_the_least_distortion_is_named_in_its_own_unit():
    """It was named as a share of the range of the distortion: 0.5625, below 0.625."""
    joint, table = np.diag([0.3, 0.2, 0.3, 0.2]), np.array([[1.0, 2, 3], [2, 1, 3], [1, 1, 3], [4, 2, 1]])
    for tables, budget, message in (
        (table, 0.9, "^budget 0.9 is below 1, the least distortion of any mechanism$"),
        ([table, 10 * table], [2.0, 9.0], "is at least 10, and the budgets allow 9$"),
    ):
        with raised(jp.InfeasibleError, message) as error:
            jp.solve(jp.DistortionProblem(joint, tables, budget=budget, leakage=lk.MaxLift()))
    assert error.value.proof["multipliers"] == [0.0, 1.0]


def test_a_face_on_which_nothing_finite_is_known_yet():
    """The limit after the first ones was infinite, and the program at that one has fewer rows: NumPy raised."""
    cell = Cell("linear-program", "transport", "limits", "ldp", "erasure", "inside", "float32")
    data = data_of(cell.form, cell.also, cell.measure, cell.structure, cell.level, rounded=True)
    proved(problem_of(cell, data), solver="linear-program")
