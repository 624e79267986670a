"""Whole solves by the kernels, against the steps of the method that they stand for: on arrays and inside of traces."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv import InteriorPoint
from jaxpriv.solvers.interior_point import whole
from jaxpriv.testing import random_joint
from tests.cases import CompilerError, assert_one_optimum, assert_proved, distances, spent
from tests.compiling import kernels
from tests.solvers.kernel_cases import (
    INFORMATION,
    LIMITED,
    MEASURES,
    RATIOS,
    SIZES,
    WORST,
    Stepped,
    assert_same_run,
    both,
    compare,
    degenerate,
    each,
    limited,
    problem_of,
)

pytestmark = kernels
alone = pytest.mark.usefixtures("kernels_alone")

OF_EACH_KIND = ["ldp", "lift", "max-information", LIMITED]
STEPS = distances(4)


@alone
@pytest.mark.parametrize("name", OF_EACH_KIND)
@pytest.mark.parametrize("size", SIZES)
def test_a_solve_is_that_of_the_method(size, name):
    compare(problem_of(name, 1, SIZES[size]))


@each
@alone
@pytest.mark.parametrize(
    ("sizes", "budgets", "forbidden"),
    [
        *((sizes, 1, 0.0) for sizes in (*SIZES.values(), (31, 33, 35))),
        ((6, 6, 6), 0, 0.0),
        ((6, 5, 7), 2, 0.0),
        ((4, 9, 9), 3, 0.0),
        ((6, 8, 10), 1, 0.3),
    ],
    ids=str,
)
def test_a_solve_of_mutual_information_is_that_of_the_method(sizes, budgets, forbidden):
    for seed in range(3):
        compare(problem_of(INFORMATION, seed, sizes, budgets, forbidden=forbidden))


@each
@alone
@pytest.mark.parametrize("name", WORST)
def test_every_measure_is_solved_by_every_instruction_set(name):
    compare(problem_of(name, 5, (5, 6, 9)))


@each
@alone
@pytest.mark.parametrize("limit", [1e-9, 1e-4, 0.3])
def test_every_limit_is_met_by_every_instruction_set(limit):
    compare(limited(5, (5, 6, 9), limit))


@pytest.mark.parametrize("name", ["ldp", "max-lift", "max-information", "relative-entropy", "hidden", LIMITED])
@pytest.mark.parametrize("kind", ["zero-mass", "diagonal", "equal-rows", "zeros", "rare"])
def test_degenerate_joints_are_solved_as_by_the_method(kind, name, request):
    if (kind, name) != ("diagonal", "ldp"):  # that the simplex method repairs
        request.getfixturevalue("kernels_alone")
    compare(problem_of(name, 2, (5, 5, 6), joint=degenerate(kind)))


@each
@alone
@pytest.mark.parametrize(
    ("name", "options", "tolerance"),
    [
        *((name, {}, 1e-9) for name in (*OF_EACH_KIND, "relative-entropy")),
        # Mirror steps are in float32 in the method: without them every number is as exact as rounding allows.
        (INFORMATION, {"warm_steps": 0}, 1e-10),
        (INFORMATION, {"warm_steps": 3}, 1e-4),
    ],
)
def test_every_step_is_that_of_the_method(name, options, tolerance):
    """Looser tolerances end a search of the least worst outcome earlier, which goes on after too few steps."""
    problem = problem_of(name, 7, (6, 7, 8), 1 if name == INFORMATION else 2)
    ends = [{"tol": tol} for tol in (10.0, 0.3, 1e-3)]
    if not problem.form.minimax:
        ends = [{"tol": 1e-12, "max_steps": steps} for steps in (1, 2, 4)]
    runs = [both(problem, **end, **options) for end in ends]
    for found, wanted in runs:
        assert_same_run(found, wanted, tolerance)
    assert len({found.steps for found, _ in runs}) == len(ends)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {"boundary": 0.01}) for name in ("max-information", LIMITED)),
        (INFORMATION, {"boundary": 0.05, "warm_steps": 0}),
    ],
)
def test_later_starts_are_those_of_the_method(name, options):
    """Steps of a small part of the way stall after six: each start is further inside than the one before."""
    found, wanted = both(problem_of(name, 1, (4, 5, 6)), 1e-9, **options)
    assert_same_run(found, wanted, 1e-9)


def test_more_budgets_than_a_kernel_has_room_for_are_left_to_the_method():
    assert_same_run(*both(problem_of(INFORMATION, 0, (3, 4, 4), 15)), 0.0)


@alone
def test_lanes_have_their_own_numbers_or_share_them():
    """A batch of more than one part: with a joint and a table of its own each, or with those of all."""
    first = problem_of(LIMITED, 3, (4, 5, 6))
    table = first.distortions[0]
    for problems in (
        [jp.DistortionProblem(first.data, table, leakage_budget=limit) for limit in np.logspace(-6, -1, 10)],
        [problem_of(LIMITED, seed, (4, 5, 6)) for seed in range(10)],
    ):
        found, wanted = (jp.solve_many(problems, kind()) for kind in (InteriorPoint, Stepped))
        assert len({one.steps for one in wanted}) > 1
        for one, other in zip(found, wanted, strict=True):
            assert_same_run(one, other, 1e-9)


@pytest.mark.usefixtures("only_kernels")
@pytest.mark.parametrize(
    "name", ["ldp", "max-lift", "max-information", "relative-entropy", LIMITED, INFORMATION, "multiplier"]
)
def test_batches_and_single_solves_compile_nothing(name):
    """Alphabets of several sizes are padded to one, and every result is certified on its own problem."""
    sizes = [(4, 6, 5), (5, 7, 8), (3, 3, 3), (2, 4, 4 if name in RATIOS else 1)]
    problems = []
    for seed in range(24):
        if name == LIMITED:
            problems.append(limited(seed, sizes[seed % 4], 10.0 ** -(seed % 5)))
        elif name == "multiplier":
            asked = problem_of(INFORMATION, seed, sizes[seed % 4])
            problems.append(jp.DistortionProblem(asked.data, asked.distortions[0], multiplier=0.3))
        else:
            problems.append(problem_of(name, seed, sizes[seed % 4]))
    for problem, found in zip(problems, jp.solve_many(problems), strict=True):
        assert_proved(problem, found)
        assert found.seconds["compile"] == 0.0
    assert [jp.solve(problem).status for problem in problems[:4]] == ["optimal"] * 4
    if name == INFORMATION:
        assert (jp.frontier(problems[0], budgets=[0.95, 1.0] * problems[0].budget).status == "optimal").all()
    if name == "multiplier":
        assert (jp.frontier(problems[0], multipliers=[0.2, 0.4]).status == "optimal").all()


@pytest.mark.parametrize("name", ["max-information", INFORMATION])
def test_what_is_watched_takes_its_steps_one_by_one(name):
    """Reports and clocks end a solve between two steps, which a whole solve has not."""
    lines = []
    found = jp.solve(problem_of(name, 3, (4, 4, 4)), progress=lines.append)
    assert [line.step for line in lines] == list(range(found.steps + 1))


@pytest.mark.parametrize("name", ["ldp", "max-information", INFORMATION])
def test_limits_and_a_wish_to_compile_are_left_to_compiled_code(name, only_kernels, monkeypatch):
    small = problem_of(name, 0, (8, 8, 8))
    form = {"budget": 0.3} if name == INFORMATION else {"leakage_budget": 0.5}
    limits = [(jp.leakage.Sibson(2.0), 0.1)] if name == INFORMATION else ()
    other = jp.DistortionProblem(small.data, small.distortions[0], leakage=small.leakage, limits=limits, **form)
    assert jp.solve_many([small] * 8)[0].status == "optimal"
    assert jp.solve_many([problem_of(name, 0, (4, 4, 96))])[0].status == "optimal"  # in a bucket of its own
    with pytest.raises(CompilerError):
        jp.solve_many([other] * 8)
    monkeypatch.setenv("JAXPRIV_COMPILE", "always")
    with pytest.raises(CompilerError):
        jp.solve_many([small] * 8)


def test_few_rows_and_many_inputs_are_left_to_systems_of_the_rows(monkeypatch):
    """Kernels solve systems of the inputs: 597 inputs of two private symbols took them 25 times as long."""

    def refused(*_):
        raise AssertionError("a kernel")

    monkeypatch.setattr(whole, "solved", refused)
    problem = jp.DistortionProblem(random_joint(0, 2, 210), jp.distortion.hamming(210), budget=0.2)
    assert_proved(problem, jp.solve(problem))
    with pytest.raises(AssertionError, match="a kernel"):
        jp.solve(problem_of(INFORMATION, 0, (2, 30, 30)))


# -- inside of a trace -----------------------------------------------------------------------------


FORMS = {
    "least_ratios": {"leakage": MEASURES["ldp"], "budget": np.linspace(0.2, 0.5, 9)},
    "worst_information": {"leakage": MEASURES["max-information"], "budget": np.linspace(0.2, 0.5, 9)},
    "limited_information": {"leakage_budget": np.logspace(-3, -1, 9)},
    "information": {"budget": np.linspace(0.2, 0.5, 9)},
    "information without budgets": {"multiplier": np.linspace(0.2, 0.5, 9)},
}


@pytest.mark.parametrize("name", FORMS)
def test_jit_and_vmap_have_it(name):
    """With a symbol of S and one of X that have no mass."""
    target = list(FORMS[name])[-1]

    def problem(joint, level):
        return jp.DistortionProblem(joint, STEPS, **{**FORMS[name], target: level})

    levels = FORMS[name][target]
    joints = np.stack([random_joint(seed, 3, 4) for seed in range(len(levels))])
    joints[0, -1], joints[0, :, -1] = 0.0, 0.0
    joints[0] /= joints[0].sum()
    traced = jax.jit(jax.vmap(lambda joint, level: jp.solve(problem(joint, level))))
    assert f"jaxpriv_{name.split()[0]}" in traced.lower(joints, levels).as_text()
    found = traced(joints, levels)
    if name == "information":
        assert traced(joints[:0], levels[:0]).value.shape == (0,)
    for i, (joint, level) in enumerate(zip(joints, levels, strict=True)):
        host = jp.solve(problem(joint, float(level)))
        assert found.status[i] == host.status == "optimal"
        assert_one_optimum(found[i], host, 1e-12)


def test_a_batch_of_batches_has_the_results_of_its_members():
    """More than one part of a batch, with goals of their own."""
    joints = np.stack([random_joint(seed, 4, 5) for seed in range(22)]).reshape(2, 11, 4, 5)

    def one(joint, budget, tol):
        return jp.solve(jp.DistortionProblem(joint, distances(5), budget=budget), tol=tol)

    budgets, tols = np.linspace(0.2, 0.6, 11), np.array([1e-5, 1e-8])
    together = jax.jit(jax.vmap(jax.vmap(one, in_axes=(0, 0, None)), in_axes=(0, None, 0)))(joints, budgets, tols)
    assert (together.code == jp.Status.OPTIMAL.value).all()
    assert (together.gap <= tols[:, None]).all()
    for i, j in [(0, 0), (0, 10), (1, 4)]:
        host = one(joints[i, j], float(budgets[j]), 1e-9)
        assert together.lower_bound[i, j] <= host.value + 1e-12
        assert host.lower_bound <= together.value[i, j] + 1e-12


@pytest.mark.parametrize(
    ("name", "at", "apart"), [("max-information", 0.2, 1e-3), ("ldp", 0.2, 1e-3), (LIMITED, 0.02, 1e-4)]
)
def test_derivatives_follow_from_its_last_point(name, at, apart):
    """The optimal mechanism stays at its limit, and the slope of the value is that of values beside it."""
    joint, hamming = random_joint(5, 3, 4), 1.0 - np.eye(4)

    def problem(level):
        if name == LIMITED:
            return jp.DistortionProblem(joint, hamming, leakage_budget=level)
        return jp.DistortionProblem(joint, hamming, budget=level, leakage=MEASURES[name])

    moves = jax.jit(jax.jacfwd(lambda level: (jp.optimal_value(problem(level)), jp.optimal_mechanism(problem(level)))))
    value, mechanism = moves(at)
    beside = [jp.solve(problem(at + sign * apart), tol=1e-10).value for sign in (1.0, -1.0)]
    assert value == pytest.approx((beside[0] - beside[1]) / (2.0 * apart), rel=1e-4)
    assert_allclose(mechanism.sum(axis=1), 0.0, atol=1e-9)
    if name != LIMITED:
        assert spent(joint, hamming, mechanism) == pytest.approx(1.0, abs=1e-6)
