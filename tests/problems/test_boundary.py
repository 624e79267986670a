"""Budgets at, next to and beyond the ends; alphabets of one symbol; masses next to nothing."""

import itertools
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv.data.probability import mutual_information
from jaxpriv.program import program_of
from jaxpriv.testing import known_problems
from tests.cases import drawn_joint, raised

from .checks import accepted, least_total, proved
from .measured_cases import DISTORTION as TABLE, MEASURES, USERS

# Two outputs cost the same for every symbol: the cheapest releases are not unique.
TIES = TABLE // 2


def stated(joint, table=TABLE, **form):
    return jp.DistortionProblem(joint, table, **form)


@pytest.mark.parametrize("known", known_problems(), ids=lambda known: known.name)
def test_known_optima(known):
    solution = jp.solve(known.problem)
    assert solution.status == "optimal"
    assert known.agrees(solution)
    assert solution.value == pytest.approx(known.upper, abs=1e-6)


def test_least_distortion_without_ties_is_the_identity(joint_of):
    joint = joint_of(1)
    solution = proved(stated(joint, budget=0.0))
    assert_array_equal(solution.mechanism, np.eye(4))
    assert solution.value == pytest.approx(float(mutual_information(joint)), abs=1e-12)
    assert solution.distortion == 0


@pytest.mark.parametrize("shift", [0.0, 0.3, -7.0])
def test_least_distortion_with_ties_uses_them(joint_of, shift):
    """D = Dmin exactly, where no multiplier is attained; a shifted distortion puts Dmin away from 0."""
    joint = joint_of(1)
    least = (joint.sum(axis=0) * (TIES + shift).min(axis=1)).sum()
    solution = proved(stated(joint, TIES + shift, budget=least))
    assert solution.distortion[0] == pytest.approx(least, abs=1e-12)
    # Anything on the face of cheapest outputs is feasible, and the best of them leaks least.
    face = TIES.min(axis=1, keepdims=True) == TIES
    optimum = least_total("mutual-information", [joint], face)
    assert solution.lower_bound - 1e-9 <= optimum <= solution.value + 1e-9
    assert solution.value < float(mutual_information(joint)) - 1e-3


@pytest.mark.parametrize("above", [1e-13, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("table", [TABLE, TIES], ids=["no ties", "ties"])
def test_slightly_above_the_least_distortion(joint_of, table, above):
    joint = joint_of(1)
    at_least = jp.solve(stated(joint, table, budget=0.0))
    solution = proved(stated(joint, table, budget=above))
    assert solution.distortion[0] <= above * (1 + 1e-9)
    assert solution.lower_bound <= at_least.value
    # The optimal value is continuous: entropy-like, within D ln(1/D) terms.
    assert at_least.lower_bound - solution.value <= 30 * above * (1 + np.log(1 / above))


def test_a_budget_that_a_constant_meets_leaks_nothing(joint_of):
    joint = joint_of(2)
    idle = (joint.sum(axis=0)[:, None] * TABLE).sum(axis=0)
    for budget in (idle.min(), idle.min() + 1e-12, 10.0, 1e300):
        problem = stated(joint, budget=budget)
        solution = accepted(problem, jp.solve(problem), 1e-14)
        assert solution.leakage <= 1e-15
        assert np.ptp(solution.mechanism, axis=0).max() <= 1e-15
        assert solution.multipliers == 0
    below = proved(stated(joint, budget=idle.min() - 1e-4))
    assert 0 < below.leakage < 1e-4


def check_proof(error, problem):
    """The numbers of an infeasibility proof, verified from the problem alone."""
    proof = error.proof
    weights = np.array(proof["multipliers"])
    assert np.all(weights >= 0)
    program = program_of(problem)
    bound = np.einsum("r,rxy->xy", weights, program.constraints).min(axis=1).sum()
    allowed = weights @ program.budgets
    assert bound == pytest.approx(proof["bound"], rel=1e-12)
    assert allowed == pytest.approx(proof["allowed"], rel=1e-12)
    assert allowed < bound


@pytest.mark.parametrize("measure", [jp.leakage.MaxLift(), jp.leakage.LocalDifferentialPrivacy()], ids=str)
def test_a_budget_that_a_constant_meets_up_to_rounding_leaks_nothing(measure):
    """The least limit of full rank jumps there from 0: the order of the sum that a budget is may not decide on it."""
    joint = drawn_joint(1, 5, 4)
    budget = (joint.sum(axis=0) @ TABLE).min()
    for near in (budget, np.nextafter(budget, 0.0), np.nextafter(budget, 9.0)):
        solution = jp.solve(stated(joint, budget=near, leakage=measure))
        assert (solution.status, solution.value) == ("optimal", 0.0)
    assert jp.solve(stated(joint, budget=budget - 1e-6, leakage=measure)).value > 0.01


def test_infeasible_budgets_come_with_a_proof(joint_of):
    joint = joint_of(2)
    far = 1 - np.eye(4)[::-1]  # cheap only at the other end of the alphabet
    cases = [
        stated(joint, budget=-1e-6),
        stated(joint, TABLE + 1, budget=0.999),
        stated(joint, [TABLE, far], budget=[0.05, 0.05]),  # each alone is possible
        jp.DistortionProblem(np.stack([joint, joint_of(3)]), TABLE + 1, budget=0.5),
    ]
    for problem in cases:
        said = r"^budget(: no mechanism meets all 2| \S+ is below \S+, the least distortion)"
        with raised(jp.InfeasibleError, said) as caught:
            jp.solve(problem)
        check_proof(caught.value, problem)
        quiet = jp.solve(problem, throw=False)
        assert quiet.status == "infeasible"
        assert quiet.value == quiet.lower_bound == np.inf
        assert np.isnan(quiet.mechanism).all()
        assert quiet.mechanism.shape == (4, 4)
    for budget in (0.05, 5.0):  # the contradiction is in the pair: either budget alone can be met
        assert jp.solve(stated(joint, [TABLE, far], budget=[budget, 5.05 - budget])).status == "optimal"


def test_two_budgets_that_just_touch(joint_of):
    """The pair of budgets that the least weighted distortion attains: feasible, with nothing to spare."""
    joint = joint_of(2)
    far = 1 - np.eye(4)[::-1]
    mass = joint.sum(axis=0)[:, None]
    mechanism = np.eye(4)[(TABLE + 2 * far).argmin(axis=1)]
    budgets = [(mass * table * mechanism).sum() for table in (TABLE, far)]
    solution = proved(stated(joint, [TABLE, far], budget=budgets))
    assert np.all(solution.distortion <= np.array(budgets) + 1e-12)
    with pytest.raises(jp.InfeasibleError):
        jp.solve(stated(joint, [TABLE, far], budget=np.array(budgets) - 1e-6))


def test_no_leakage_at_all_is_a_linear_program(joint_of):
    for seed in range(3):
        joint = joint_of(seed)
        solution = proved(stated(joint, leakage_budget=0.0))
        assert solution.leakage <= 1e-15
        w = joint @ solution.mechanism
        assert_allclose(w, np.outer(joint.sum(axis=1), w.sum(axis=0)), atol=1e-13)
        # Never worse than the best constant, which leaks nothing either.
        assert solution.value <= (joint.sum(axis=0)[:, None] * TABLE).sum(axis=0).min() + 1e-12


def test_leakage_budgets_of_any_size(joint_of):
    """Scores far outside their set stalled one in ten of these at gaps of 1e-6 to 1e-2 (`dual_tolerance`)."""
    for seed in range(4):
        for limit in 10.0 ** np.array([-12, -10, -9, -8, -7, -6, -4, -2]):
            proved(stated(joint_of(seed), leakage_budget=limit))


def test_leakage_budgets_beyond_the_ends(joint_of):
    joint = joint_of(1)
    for limit in (float(mutual_information(joint)) * (1 + 1e-12), 1.0, 1e300):
        solution = proved(stated(joint, leakage_budget=limit))
        assert_array_equal(solution.mechanism, np.eye(4))
        assert solution.value <= 1e-15
    with raised(jp.InfeasibleError, r"^leakage_budget .* is below 0") as caught:
        jp.solve(stated(joint, leakage_budget=-1e-9))
    assert caught.value.proof["allowed"] < caught.value.proof["bound"] == 0


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("mutual-information", "multiplier"),
        *itertools.product(
            ("mutual-information", "sibson-2", "maximal-leakage", "max-information", "ldp"),
            ("budget", "leakage_budget"),
        ),
        ("user inverse", "budget"),
        ("user max-cubic", "budget"),
    ],
)
@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 1, 4), (3, 4, 1), (1, 1, 1)], ids=str)
def test_alphabets_of_one_symbol(shape, name, form):
    """One private symbol, one useful symbol or one release: nothing to leak, and the cheapest release is free."""
    private, useful, released = shape
    joint = drawn_joint(0, private, useful)
    table = np.abs(np.subtract.outer(np.arange(useful), 0.5 * np.arange(released)))
    least = joint.sum(axis=0) @ table.min(axis=1)
    target, optimum = {"budget": (least + 0.01, 0.0), "multiplier": (2.0, 2 * least), "leakage_budget": (0.1, least)}[
        form
    ]
    solution = proved(stated(joint, table, leakage=(MEASURES | USERS)[name], **{form: target}))
    assert solution.value == pytest.approx(optimum, abs=1e-6)
    assert solution.leakage <= (1e-12 if form == "budget" else 1e-6)


def test_masses_next_to_nothing(joint_of, same):
    """Rows and columns of 1e-300 and subnormal masses: numbers, and those of the joint without them."""
    joint = joint_of(4)
    clean = jp.solve(stated(joint, budget=0.4))
    for tiny in (1e-300, 5e-324):
        dusty = np.vstack([joint, np.full((1, 4), tiny)])
        dusty = np.hstack([dusty, np.full((4, 1), tiny)])
        table = np.vstack([TABLE, TABLE[:1]])
        solution = proved(jp.DistortionProblem(dusty, table, budget=0.4))
        same(clean, solution, slack=1e-10)
        assert np.isfinite(solution.mechanism).all()


def test_zero_mass_symbols_do_not_enter_the_feasibility(joint_of):
    """A useful symbol that never occurs may cost anything: it neither spends nor forbids."""
    joint = np.hstack([joint_of(1), np.zeros((3, 1))])
    table = np.vstack([TABLE, np.full((1, 4), 1e6)])
    solution = proved(stated(joint, table, budget=0.4))
    assert solution.distortion[0] <= 0.4 + 1e-12


def test_a_budget_of_next_to_no_slack_is_not_called_infeasible():
    """Half of the budget of 5e-20 releases a quarter of the rare symbol as the common one, half of it 2.5e-20 of the
    common one as the rare one: both outputs have a lift of 1/4. The scale of the budget rounds to 1e-16.
    """
    problem = jp.DistortionProblem(
        np.diag([1.0, 1e-19]), jp.distortion.hamming(2), budget=5e-20, leakage=jp.leakage.MinLift()
    )
    solution = jp.solve(problem)
    assert solution.status == "not_certified"
    assert solution.lower_bound <= np.log(4)


def test_the_limit_that_a_refusal_names_is_met():
    """To as many digits as it is shown it was below the least one, and was refused with the same number."""
    joint = np.full((3, 3), 0.1) + np.diag([1 / 30] * 3)
    measure = jp.leakage.by_name("correct-guess")  # at least 1/3
    table = 1.0 - np.eye(3)
    with raised(
        jp.InfeasibleError, r"^leakage_budget 0.333333 on CorrectGuess is below \S+, .* leakage_budget="
    ) as caught:
        jp.solve(stated(joint / joint.sum(), table, leakage=measure, leakage_budget=0.333333))
    named = re.search(r"write leakage_budget=(\S+) or more", str(caught.value))
    met = jp.solve(stated(joint / joint.sum(), table, leakage=measure, leakage_budget=float(named.group(1))))
    assert met.status == "optimal"
