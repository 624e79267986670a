"""`auto` goes on to the next method where the first one stops far from its goal, and returns the best of both."""

from contextlib import contextmanager

import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv._runtime.clock import Clock, Stop
from jaxpriv._runtime.compilation import own_settings
from jaxpriv.solvers import Goal
from jaxpriv.solving.choice import Request
from jaxpriv.solving.fallback import with_next_method
from jaxpriv.solving.solve import solve_within
from jaxpriv.testing import random_joint
from tests.cases import (
    assert_certified,
    assert_one_optimum,
    assert_proved,
    budget_at,
    distances,
    drawn_joint,
    further,
    thorough,
)

JOINT = drawn_joint(17, 3, 4)
TABLE = distances(4)


@pytest.mark.parametrize("form", [{"budget": 0.3}, *thorough({"multiplier": 0.2})])
def test_the_better_mechanism_comes_with_the_better_bound(form):
    problem, second = jp.DistortionProblem(JOINT, TABLE, **form), "accelerated"
    parts = [jp.solve(problem, name, max_steps=2) for name in ("interior-point", second)]
    assert {part.status for part in parts} == {"not_certified"}
    both = jp.solve(problem, max_steps=2)
    assert both.solver == f"interior-point, {second}"
    assert both.value <= min(part.value for part in parts) + 1e-12
    assert both.lower_bound >= max(part.lower_bound for part in parts) - 1e-12
    assert isinstance(both.mechanism, np.ndarray)
    assert both.notes[-1].startswith(f"auto: {second} next, interior-point ended at a gap of ")
    assert_certified(problem, both)


# Rules of high orders are high powers of posterior ratios: Newton's method ends at gaps of 1e-2 to 4e-1 there. The
# mean of S alone counts in the third loss, so that no announcement is the only best one.
UNEVEN = {
    "sibson-20": lk.Sibson(20.0),
    "sibson-100": lk.Sibson(100.0),
    "arimoto-20": lk.Arimoto(20.0),
    "squared error": lk.AverageCostGain(lk.CustomLoss(lambda q: jnp.square(jnp.arange(3.0) - jnp.arange(3.0) @ q))),
}


@pytest.mark.parametrize("name", further(UNEVEN, UNEVEN.keys() - {"sibson-20", "arimoto-20"}))
def test_cutting_planes_prove_what_newtons_method_does_not(name):
    problem = jp.DistortionProblem(JOINT, TABLE, budget=0.3, leakage=UNEVEN[name])
    found = jp.solve(problem)
    assert_proved(problem, found)


def test_the_hybrid_gradient_proves_what_newtons_method_does_not_on_larger_tables():
    place = (np.arange(16) + 0.5) / 16
    joint = np.exp(-0.5 * ((place - np.array([[0.2], [0.5], [0.7]])) / 0.2) ** 2) + 1e-3
    problem = jp.DistortionProblem(
        joint / joint.sum(), abs(place[:, None] - place), budget=0.05, leakage=lk.Sibson(100.0)
    )
    assert jp.solve(problem, "interior-point").status == "not_certified"
    found = jp.solve(problem)
    assert found.solver == "hybrid-gradient"
    assert_proved(problem, found)


@pytest.mark.parametrize("several", [False, True])
def test_cutting_planes_go_on_where_budgets_have_no_slack(several):
    """The least distortion, with ties; under two budgets the least second one among the mechanisms that have it."""
    rng = np.random.default_rng(502)
    joint, table, other = drawn_joint(rng, 4, 6), *rng.integers(0, 3, (2, 6, 6)).astype(float)
    mass, least = joint.sum(axis=0), table.min(axis=1, keepdims=True)
    tables, budgets = [table], [mass @ least[:, 0]]
    if several:
        tables, budgets = [*tables, other], [*budgets, mass @ np.where(table == least, other, np.inf).min(axis=1)]
    problem = jp.DistortionProblem(joint, tables, budget=budgets, leakage=lk.Sibson(100.0))
    assert jp.solve(problem, "interior-point").gap > 1e-5
    found = jp.solve(problem)
    assert_proved(problem, found)


def test_cutting_planes_go_on_where_a_linear_limit_has_no_slack():
    """A log-ratio of 0 in every outcome has no interior, and mutual information in the objective is not linear."""
    rng = np.random.default_rng(3)
    joint, table = drawn_joint(rng, 3, 4), rng.integers(0, 3, (4, 5)).astype(float)
    problem = jp.DistortionProblem(joint, table, multiplier=50.0, limits=[(lk.MaxLift(), 0.0)])
    found = jp.solve(problem)
    private = jp.solve(jp.DistortionProblem(joint, 50.0 * table, leakage_budget=0.0))
    assert found.status == "optimal"
    assert found.value == pytest.approx(private.value, abs=1e-6)
    assert found.leakage <= 1e-12
    assert_certified(problem, found)


STATED = {
    "budget": {"budget": 0.3, "leakage": lk.Sibson(2.0)},
    "multiplier": {"multiplier": 0.2, "leakage": lk.FInformation(lk.ChiSquared())},
    "leakage budget": {"leakage_budget": 0.02, "leakage": lk.FInformation(lk.SquaredHellinger())},
    "worst outcome": {"leakage_budget": 0.05, "leakage": lk.MaxInformation()},
    "below order one": {"leakage_budget": 0.02, "leakage": lk.Arimoto(0.5)},
    "smooth and linear": {"budget": 0.4, "leakage": lk.Sibson(2.0), "limits": [(lk.MaxLift(), 1.0)]},
    "several joints": {"budget": 0.4, "leakage": lk.Arimoto(2.0)},
}


@pytest.mark.parametrize("name", STATED)
def test_cutting_planes_agree_with_newtons_method(name):
    joint = JOINT
    if name == "several joints":
        joint = np.stack([JOINT, drawn_joint(18, 3, 4)])
    problem = jp.DistortionProblem(joint, TABLE, **STATED[name])
    stated = jp.solve(problem, "interior-point")
    first = jp.solve(problem, "interior-point", max_steps=6 if "limits" in STATED[name] else 1, tol=1e-12)
    assert first.status == "not_certified"
    found = with_next_method(problem, first, Request(Clock(), Goal(1e-6)))
    assert found.status == "optimal"
    assert found.solver == "interior-point, cutting-planes"
    assert_one_optimum(found, stated, 1e-12)
    assert_certified(problem, found)


@pytest.mark.parametrize(("seconds", "solver"), [(0.8, "interior-point"), (None, "linear-program")])
def test_highs_is_next_where_it_has_the_time(seconds, solver):
    """It takes at least 1.03 s for 8 x 128 symbols, and would not end in time."""
    problem = jp.DistortionProblem(
        drawn_joint(3, 8, 128), distances(128), budget=0.3, leakage=lk.FInformation(lk.TotalVariation())
    )
    first = jp.solve(problem, "interior-point", max_steps=5)
    assert first.gap > 1e-3
    found = with_next_method(problem, first, Request(Clock(seconds), Goal(1e-6)))
    assert (found.solver, found.status) == (solver, "not_certified" if seconds else "optimal")


def test_the_hybrid_gradient_is_not_begun_in_the_time_that_highs_left(monkeypatch):
    """HiGHS has the time for 3 x 4 symbols, and may fail: 5 seconds are too few until the hybrid gradient is of use."""
    problem = jp.DistortionProblem(JOINT, TABLE, budget=0.3, leakage=lk.MaxLift())
    first = jp.solve(problem, "interior-point", max_steps=2)
    begun = []
    monkeypatch.setattr("jaxpriv.solving.fallback._or_whole", lambda first, stages: begun.append(stages.name) or first)
    assert with_next_method(problem, first, Request(Clock(5.0), Goal(1e-6))) is first
    assert begun == ["linear-program"]


def test_no_message_advises_the_method_that_ended():
    problem = jp.DistortionProblem(JOINT, TABLE, budget=0.3)
    assert "interior-point" not in jp.solve(problem, max_steps=2).message
    assert "interior-point" in jp.solve(problem, "accelerated", max_steps=2).message


def test_a_method_that_was_asked_for_by_name_stays_alone():
    problem = jp.DistortionProblem(JOINT, TABLE, budget=0.3)
    assert jp.solve(problem, "interior-point", max_steps=2).solver == "interior-point"


def test_a_share_of_the_time_leaves_the_rest(now):
    clock = Clock(10.0)
    with clock.share(0.6):
        now.seconds = 5.9
        assert not clock.expired()
        now.seconds = 6.1
        assert clock.expired()
        assert clock.left == 0.0
    assert clock.stop is Stop.NONE
    assert not clock.expired()
    with clock.share(0.5):
        now.seconds = 10.5
        assert clock.expired()
    assert clock.stop is Stop.TIME_LIMIT


class FirstShareIsOver(Clock):
    """A time limit whose first share ends at once."""

    @contextmanager
    def share(self, part):
        assert 0 < part < 1
        self.stop = Stop.TIME_LIMIT
        try:
            yield self
        finally:
            self.stop = Stop.NONE


def test_the_first_method_leaves_time_for_the_next_one():
    problem = jp.DistortionProblem(JOINT, TABLE, budget=0.3)
    solution = solve_within(problem, Request(FirstShareIsOver(1e6), Goal(1e-6)))
    assert solution.solver == "none, accelerated"
    assert int(solution.stopped) == 0
    assert solution.value == pytest.approx(jp.solve(problem).value, abs=1e-4)
    alone = solve_within(problem, Request(FirstShareIsOver(1e6), Goal(1e-6), "interior-point"))
    assert alone.solver == "interior-point"


@pytest.mark.parametrize(
    ("measure", "seed", "share"),
    [(lk.MaximalLeakage(), 8, 0.01), (lk.MaxInformation(), 20, 0.5)],
    ids=["maximal-leakage", "max-information"],
)
def test_outputs_that_exclude_symbols_stop_no_measure(measure, seed, share):
    """The interior-point method ends here at gaps of 0.7 and 0.2 nats: the simplex method and the search go on."""
    joint, table = random_joint(seed, 4, 6, zeros=0.5, concentration=0.1), distances(6)
    budget = budget_at(joint, table, share)
    solution = jp.solve(jp.DistortionProblem(joint, table, budget=budget, leakage=measure))
    assert solution.status == "optimal"


def test_a_mechanism_outside_its_limit_never_takes_the_place_of_one_inside():
    """No leakage about a private symbol of mass 4e-13: the linear program over rules meets that to its tolerance only,
    and a value below the bound is no smaller gap."""
    joint = np.array([[0.083, 0.2, 0.268], [0.219, 0.098, 0.132], [2.4e-13, 3e-14, 1.6e-13]])
    for divergence in ("jensen-shannon", "chi-squared"):
        measure = lk.by_name("f-information", divergence=divergence)
        problem = jp.DistortionProblem(joint / joint.sum(), 1.0 - np.eye(3), leakage_budget=0.0, leakage=measure)
        found = jp.solve(problem)
        assert found.leakage <= 1e-15
        assert found.lower_bound <= found.value
        assert jp.certify(problem, found).violation <= 0


def test_a_limit_without_end_leaves_cutting_planes_nothing_to_cut():
    measure = lk.by_name("gain-brier")
    problem = jp.DistortionProblem([[0.66, 0.34]], [[6e11], [4.9e11]], leakage_budget=np.inf, leakage=measure)
    found = jp.solve(problem)  # 1e-6 of 5e11 is below its rounding
    assert found.status == "not_certified"
    assert found.gap <= 1e-14 * found.value


@pytest.mark.parametrize(("seed", "last"), [(4, "hybrid-gradient"), (17, "cutting-planes")])
def test_a_small_program_of_rare_symbols_goes_on_until_it_is_proved(seed, last):
    """A few of Newton's steps leave a gap above 1e-3; HiGHS gives symbols of masses below its tolerance no row."""
    measure = lk.FInformation(lk.ChiSquared())
    joint = drawn_joint(seed, 3, 4, 0.05) + 1e-13
    joint /= joint.sum()
    limit = 0.3 * float(measure(joint, np.eye(4)))
    problem = jp.DistortionProblem(joint, 1.0 - np.eye(4), leakage_budget=limit, leakage=measure)
    assert jp.solve(problem, tol=1e-7).solver == "interior-point"  # which needs no other method
    first = jp.solve(problem, "interior-point", tol=1e-7, max_steps=3)
    with own_settings():
        found = with_next_method(problem, first, Request(Clock(), Goal(1e-7)))
    assert_proved(problem, found)
    assert f"{last} next" in found.notes[-1]
    assert jp.solve(problem, tol=1e-7, max_steps=1).lower_bound <= found.value + 1e-12


@pytest.mark.parametrize("seed", [1, *thorough(0, 4, 7, 9, 10, 11)])
def test_a_linear_program_near_independence_goes_on_to_the_hybrid_gradient(seed):
    """Its limits of 6e-10 are less than what HiGHS leaves of them."""
    rng = np.random.default_rng(seed)
    joint = np.outer(rng.random(4), rng.random(12)) * (1 + 1e-5 * rng.standard_normal((4, 12)) / 4)
    costs = rng.random((12, 12))
    problem = jp.DistortionProblem(
        joint / joint.sum(), costs, leakage_budget=6e-10, leakage=lk.LocalDifferentialPrivacy()
    )
    found = jp.solve(problem)
    assert_proved(problem, found)
    assert any("hybrid-gradient next" in note for note in found.notes)
