"""Time limits, interrupts and progress: the best so far, with an interval that holds, wherever a solve ends."""

import signal
import threading

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv._runtime import compilation
from jaxpriv._runtime.clock import Clock
from jaxpriv.solving import loops
from tests.cases import (
    INTERRUPTED,
    TIME_LIMIT,
    CompilerError,
    assert_certified,
    budget_at,
    distances,
    drawn_joint,
    refused,
    spent,
    value_of,
)
from tests.compiling import kernels
from tests.information import information

RNG = np.random.default_rng(17)
JOINT = drawn_joint(RNG, 3, 4)
TABLE = distances(4)
BUDGET = 0.3
SLOW = {"solver": "mirror-descent", "tol": 1e-300}  # a goal that is never met; compiles in a second


def problem(**form):
    return jp.DistortionProblem(JOINT, TABLE, **(form or {"budget": BUDGET}))


def leaked(mechanism):
    return information(JOINT @ mechanism)


def paid(mechanism):
    return spent(JOINT, TABLE, mechanism)


def is_mechanism(table):
    return bool((table >= 0).all()) and np.allclose(table.sum(axis=1), 1.0, atol=1e-12)


def interrupting(at=1):
    """A progress function that interrupts at its call number `at`."""
    records = []

    def note(record):
        records.append(record)
        if len(records) == at:
            raise KeyboardInterrupt

    return note, records


# -- the clock -------------------------------------------------------------------------------------


def test_the_first_interrupt_is_noted_and_the_second_raised():
    before = signal.getsignal(signal.SIGINT)

    def twice():
        with Clock() as clock:
            signal.raise_signal(signal.SIGINT)
            assert clock.expired()
            signal.raise_signal(signal.SIGINT)
            raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert signal.getsignal(signal.SIGINT) is before
    with Clock() as clock:
        signal.raise_signal(signal.SIGINT)
        assert clock.expired()
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_that_nothing_took_notice_of_is_raised():
    with pytest.raises(KeyboardInterrupt), Clock():
        signal.raise_signal(signal.SIGINT)


@kernels
def test_the_interrupt_that_a_handler_of_the_caller_raises_within_a_kernel_is_raised(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(loops.whole, "solved", interrupted)
    with pytest.raises(KeyboardInterrupt):
        jp.solve(problem())


def test_a_handler_of_the_caller_stays():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        own = signal.getsignal(signal.SIGINT)
        with Clock() as clock:
            assert signal.getsignal(signal.SIGINT) is own
            signal.raise_signal(signal.SIGINT)
            assert not clock.expired()
        assert heard == [1]
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_no_handler_is_set_outside_of_the_main_thread():
    found = []

    def run():
        with Clock():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT)]


@pytest.mark.parametrize("limit", [-1.0, float("nan"), "5", True, [1.0]])
def test_a_wrong_time_limit_is_refused(limit):
    with refused(r"^time_limit "):
        jp.solve(problem(), time_limit=limit)
    with refused(r"^time_limit "):
        jp.frontier(problem(), budgets=[0.1], time_limit=limit)
    with refused(r"^time_limit "):
        jp.funnel_frontier(jp.FunnelProblem(JOINT, disclosure=0.1), disclosures=[0.1], time_limit=limit)
    with refused(r"^time_limit "):
        jp.maximum_utility(JOINT.sum(axis=0), (lk.MaxLift(), 0.5), time_limit=limit)
    with refused(r"^time_limit "):
        jp.solve_prior_ball(problem(), 0.1, time_limit=limit)


def test_there_is_no_clock_inside_of_jit():
    def value(budget, **arguments):
        return jp.solve(jp.DistortionProblem(JOINT, TABLE, budget=budget), "mirror-descent", **arguments).value

    for arguments in ({"time_limit": 1.0}, {"progress": True}):
        with refused(r"^time_limit and progress: outside of jit"):
            jax.jit(lambda budget, given=arguments: value(budget, **given))(0.1)
    with refused(r"^time_limit must be a number of the host"):
        jax.jit(lambda limit: value(0.1, time_limit=limit))(1.0)


# -- a limit of zero -------------------------------------------------------------------------------

SIBSON = lk.Sibson(2.0)
TWO = np.stack([JOINT, JOINT[::-1]])


@pytest.mark.parametrize(
    ("asked", "solver"),
    [
        (problem(), "auto"),
        (problem(), "mirror-descent"),
        (problem(), "accelerated"),
        (problem(), "two-grid"),
        (problem(multiplier=0.2), "auto"),
        (problem(multiplier=0.2), "accelerated"),
        (problem(leakage_budget=0.01), "auto"),
        (jp.DistortionProblem(TWO, TABLE, budget=BUDGET), "auto"),
        (problem(budget=BUDGET, leakage=SIBSON), "auto"),
        (problem(leakage_budget=0.05, leakage=SIBSON), "auto"),
        (problem(budget=BUDGET, leakage=lk.MaxLift()), "auto"),
        (problem(budget=BUDGET, leakage=lk.MaximalLeakage()), "linear-program"),
        (problem(budget=BUDGET, leakage=SIBSON, limits=[(lk.MutualInformation(), 0.1)]), "auto"),
        (jp.NoiseProblem(JOINT, [0.0, 1.0, 2.0, 3.0], budget=0.4), "auto"),
    ],
)
def test_without_any_time_there_is_a_mechanism_and_an_interval(asked, solver):
    solution = jp.solve(asked, solver, time_limit=0)
    assert solution.status == "best_known"
    assert solution.stopped == TIME_LIMIT
    assert solution.message.startswith("Stopped by the time limit")
    assert solution.steps == 0
    assert np.isfinite(solution.value)
    assert -1e-12 <= solution.lower_bound <= solution.value
    mechanism = np.asarray(solution.mechanism)
    assert is_mechanism(mechanism)
    assert_certified(asked, solution)
    if not isinstance(asked, jp.DistortionProblem):
        return
    if asked.budget is not None:
        assert paid(mechanism) <= BUDGET + 1e-12
        assert all(value_of(measure, JOINT, mechanism) <= limit + 1e-12 for measure, limit in asked.limits)
        if asked.of_information and len(asked.joints) == 1:
            assert solution.value == pytest.approx(leaked(mechanism), abs=1e-12)
    if asked.leakage_budget is not None:
        assert value_of(asked.leakage, JOINT, mechanism) <= asked.leakage_budget + 1e-12
        assert solution.value == pytest.approx(paid(mechanism), abs=1e-12)


@pytest.mark.parametrize(
    "asked",
    [
        jp.FunnelProblem(JOINT, disclosure=0.7),
        jp.FunnelProblem(JOINT, leakage_budget=0.01),
        jp.FunnelProblem(JOINT, multiplier=0.2),
        jp.BottleneckProblem(JOINT, disclosure=0.3),
        jp.BottleneckProblem(JOINT, relevance=0.02),
    ],
)
def test_funnels_without_any_time(asked):
    best = jp.solve(asked)
    for solver in ("auto", "greedy") if asked.form == "disclosure" and asked.minimises_leakage else ("auto",):
        quick = jp.solve(asked, solver, time_limit=0)
        assert quick.status == "best_known"
        assert quick.message.startswith("Stopped by the time limit")
        assert is_mechanism(quick.mechanism)
        assert quick.lower_bound - 1e-12 <= best.value <= quick.upper_bound + 1e-12
        assert quick.leakage == pytest.approx(leaked(quick.mechanism), abs=1e-12)
        if asked.form == "disclosure" and asked.minimises_leakage:
            assert quick.disclosure >= 0.7 - 1e-12


def test_a_utility_and_a_ball_without_any_time():
    source = JOINT.sum(axis=0)
    for limit in ((lk.MaxLift(), 0.5), (lk.LocalDifferentialPrivacy(), 0.7)):
        for data in (source, JOINT):
            best = jp.maximum_utility(data, limit)
            quick = jp.maximum_utility(data, limit, time_limit=0)
            assert quick.value <= best.value + 1e-12
            assert best.upper_bound <= quick.upper_bound + 1e-12
            assert quick.leakage[0] <= limit[1] + 1e-12
            assert quick.stopped == TIME_LIMIT
            assert quick.status == "best_known"
    ball = jp.solve_prior_ball(problem(), 0.2, time_limit=0)
    assert (ball.status, ball.rounds, ball.lower_bound) == ("best_known", 0, 0.0)
    assert ball.message.startswith("Stopped by the time limit")
    assert leaked(ball.mechanism) <= ball.value
    assert paid(ball.mechanism) <= BUDGET + 1e-12


# -- on the way ------------------------------------------------------------------------------------


def test_an_interrupted_solve_returns_its_best_and_portions_change_nothing():
    note, records = interrupting()
    early = jp.solve(problem(), progress=note, **SLOW)
    assert early.status == "best_known"
    assert early.stopped == INTERRUPTED
    assert early.message.startswith("Stopped by an interrupt")
    assert early.steps == records[-1].step
    assert paid(early.mechanism) <= BUDGET + 1e-12
    whole = jp.solve(problem(), max_steps=int(early.steps), **SLOW)
    assert (whole.status, whole.stopped) == ("not_certified", 0)
    np.testing.assert_allclose(early.mechanism, whole.mechanism, rtol=0, atol=1e-12)
    assert early.lower_bound == pytest.approx(whole.lower_bound, abs=1e-12)
    record = records[-1]
    assert record.solver == "mirror-descent"
    assert record.value == pytest.approx(early.value, abs=1e-9)
    assert record.bound == pytest.approx(early.lower_bound, abs=1e-9)
    assert record.seconds > 0


@kernels
@pytest.mark.parametrize("ended_by", ["time limit", "interrupt"])
def test_a_call_of_long_steps_ends_between_two_of_them(ended_by, monkeypatch):
    monkeypatch.setattr(loops, "_PORTION", 0.0)  # every step is a long one
    calls = []

    def compiled(function, *args, donated=None):
        assert donated is None
        calls.append(function)
        if len(calls) == 2 and ended_by == "interrupt":
            threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
        return compilation.compiled(function, *args)

    monkeypatch.setattr(loops, "compiled", compiled)
    limit = 0.5 if ended_by == "time limit" else 1e6
    found = jp.solve(problem(), time_limit=limit, max_steps=10**8, **SLOW)
    assert ended_by in found.message
    assert calls == [loops.begin, loops.resume]
    assert 0 < found.steps < 10**8
    assert is_mechanism(found.mechanism)
    assert found.lower_bound <= leaked(found.mechanism)


def test_another_limit_compiles_nothing():
    jp.solve(problem(), time_limit=1e3, max_steps=20, **SLOW)
    again = jp.solve(problem(), time_limit=2e3, max_steps=30, progress=lambda record: None, **SLOW)
    assert again.seconds["compile"] == 0


def test_lines_of_progress_go_to_stderr(capsys):
    jp.solve(problem(), progress=True, max_steps=10, **SLOW)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("jaxpriv: mirror-descent: step 10, value ")


def test_a_frontier_that_is_interrupted_proves_the_points_that_it_did_not_reach():
    idle = budget_at(JOINT, TABLE, 1.0)  # a constant meets this budget
    budgets = idle * np.r_[np.linspace(0.05, 0.3, 8), 0.4, 0.5, 1.2]
    options = {"budgets": budgets, "solver": "mirror-descent", "tol": 1e-6}
    whole = jp.frontier(problem(), **options)

    def note(record):
        if record.done == 9:  # one that needs no iteration, and the first batch
            raise KeyboardInterrupt

    early = jp.frontier(problem(), progress=note, **options)
    assert set(early.solutions.status[:8]) == {"optimal"}
    assert early.solutions.status[-1] == "optimal"
    assert list(early.solutions.stopped) == [0] * 8 + [2, 2, 0]
    trivial = jp.frontier(problem(), time_limit=0, **options)
    for k in (8, 9):
        one = early.solutions[k]
        assert one.status == "best_known"
        assert is_mechanism(one.mechanism)
        assert paid(one.mechanism) <= budgets[k] + 1e-12
        assert one.value == pytest.approx(leaked(one.mechanism), abs=1e-12)
        assert one.lower_bound <= whole.solutions.value[k]
        assert whole.solutions.lower_bound[k] <= one.value
        assert one.gap < 0.5 * trivial.solutions.gap[k]
        assert one.value <= early.solutions.value[7] + 1e-12  # a larger budget does no worse
        assert_certified(problem(budget=budgets[k]), one)


def test_points_of_a_worst_outcome_that_were_not_reached_have_what_other_budgets_prove():
    asked = problem(leakage=lk.MaxLift(), budget=BUDGET)
    budgets = budget_at(JOINT, TABLE, 1.0) * np.array([0.1, 0.3, 0.2, 0.15, 0.35])
    whole = jp.frontier(asked, budgets=budgets)

    def note(record):
        if record.done == 2:
            raise KeyboardInterrupt

    early = jp.frontier(asked, budgets=budgets, progress=note)
    assert list(early.status) == ["optimal"] * 2 + ["best_known"] * 3
    for k in (2, 3, 4):
        one = early.solutions[k]
        # Rules for a smaller budget prove something within a larger one, and more than they did within a smaller one.
        assert (early.lower_bound[1] if k < 4 else 0.01) < one.lower_bound <= whole.value[k]
        assert whole.lower_bound[k] <= one.value <= early.value[0]
        assert paid(one.mechanism) <= budgets[k] + 1e-12
        proof = jp.certify(problem(leakage=lk.MaxLift(), budget=budgets[k]), one)
        assert proof.valid
        assert one.lower_bound == pytest.approx(proof.lower_bound, abs=1e-9)


def test_curves_of_other_measures_carry_the_intervals_of_their_neighbours():
    asked = jp.DistortionProblem(JOINT, TABLE, budget=0.1, leakage=lk.MaximalLeakage())
    budgets = np.linspace(0.1, 0.4, 4)
    whole = jp.frontier(asked, budgets=budgets, solver="linear-program")
    none = jp.frontier(asked, budgets=budgets, solver="linear-program", time_limit=0)
    assert set(none.solutions.status) == {"best_known"}
    assert (none.solutions.lower_bound <= whole.solutions.value + 1e-9).all()
    assert (none.solutions.value >= whole.solutions.lower_bound - 1e-9).all()
    assert (np.diff(none.solutions.value) <= 1e-12).all()
    assert all(none.solutions[k].verify(problem(budget=b, leakage=asked.leakage)).valid for k, b in enumerate(budgets))


def test_a_funnel_frontier_that_is_interrupted_proves_the_rest_by_the_prices_that_it_has():
    targets = np.linspace(0.2, 1.2, 6)
    asked = jp.FunnelProblem(JOINT, disclosure=0.0)
    whole = jp.funnel_frontier(asked, disclosures=targets)
    note, _ = interrupting(3)
    early = jp.funnel_frontier(asked, disclosures=targets, progress=note)
    assert (early.status == "optimal").sum() >= 3
    assert (early.lower_bound <= whole.value + 1e-12).all()
    assert (early.value >= whole.lower_bound - 1e-12).all()
    assert (early.disclosure >= targets - 1e-9).all()
    stopped = [k for k, one in enumerate(early.solutions) if one.status != "optimal"]
    for k in stopped:
        one = early[k]
        assert one.message.startswith("Stopped by an interrupt")
        elementary = jp.solve(jp.FunnelProblem(JOINT, disclosure=targets[k]), "greedy", time_limit=0)
        assert one.lower_bound >= elementary.lower_bound
        assert one.value <= elementary.value + 1e-12


def test_local_funnel_methods_end_between_rounds():
    asked = jp.FunnelProblem(JOINT, disclosure=0.7)
    note, records = interrupting()
    early = jp.solve(asked, "difference-of-convex", progress=note)
    assert len(records) == 1
    assert early.disclosure >= 0.7 - 1e-9
    assert early.leakage == pytest.approx(leaked(early.mechanism), abs=1e-12)
    assert early.stopped == INTERRUPTED


# -- what cannot be interrupted --------------------------------------------------------------------


@pytest.fixture
def no_time_to_compile(monkeypatch, no_compiler, no_programs):
    """No time limit is long enough for the compiler, and no program is known; the result lists the seconds."""
    asked = []
    monkeypatch.setattr(Clock, "allows", lambda clock, seconds, program: asked.append(seconds) or np.isinf(clock.left))
    return asked


@pytest.fixture
def large(monkeypatch):
    """Every program is so large that it is compiled where there is time."""
    for name in ("SMALL", "_MEDIUM", "_AT_ONCE", "WHOLE"):
        monkeypatch.setattr(loops, name, 0.0)


MEASURED = {"information": problem(), "sibson": problem(budget=0.3, leakage=lk.Sibson(2.0))}


@pytest.mark.parametrize("asked", MEASURED.values(), ids=MEASURED)
def test_numpy_takes_the_steps_where_there_is_no_time_to_compile(asked, no_time_to_compile, large):
    with pytest.raises(CompilerError):
        jp.solve(asked)
    found = jp.solve(asked, time_limit=1e3)
    assert found.status == "optimal"
    assert found.steps > 0
    curve = jp.frontier(asked, budgets=[0.2, 0.3], time_limit=1e3)
    assert (curve.status == "optimal").all()
    assert len(no_time_to_compile) == 3
    # NumPy can do it too: the compiler would need to leave most of the time to the steps.
    assert min(no_time_to_compile) > 2 * loops._COMPILING


@pytest.mark.parametrize("solver", ["mirror-descent", "blahut-arimoto", "accelerated"])
def test_nothing_is_compiled_that_ends_after_the_limit(solver, no_time_to_compile, monkeypatch):
    monkeypatch.setenv(loops.SWITCH, "always")
    found = jp.solve(problem(), solver, time_limit=1e3)
    assert no_time_to_compile
    assert (found.status, found.stopped) == ("best_known", TIME_LIMIT)
    assert "time limit" in found.message
    mechanism = np.asarray(found.mechanism)
    assert is_mechanism(mechanism)
    assert paid(mechanism) <= BUDGET + 1e-12
    monkeypatch.delenv(loops.SWITCH)
    assert found.lower_bound <= jp.solve(problem()).value
