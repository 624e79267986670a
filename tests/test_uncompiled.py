"""Small programs run by NumPy: the same answers as compiled, what chooses, and how a solve ends early."""

import signal
import threading
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

import jaxpriv as jp
import jaxpriv.leakage as lk
from jaxpriv import InteriorPoint, PrimalDualHybridGradient
from jaxpriv._runtime import arrays as xp
from jaxpriv.solving import loops
from tests.cases import INTERRUPTED, TIME_LIMIT, CompilerError, distances, drawn_joint, refused, thorough

RNG = np.random.default_rng(31)
JOINT = drawn_joint(RNG, 3, 4)
JOINTS = RNG.dirichlet(np.ones(12), size=2).reshape(2, 3, 4)
TABLE = distances(4)
TOL = 1e-6
SMALLER = JOINT[:2] / JOINT[:2].sum()


def problem(measure=None, joint=JOINT, **form):
    return jp.DistortionProblem(joint, TABLE, leakage=measure or lk.Sibson(2.0), **(form or {"budget": 0.3}))


@pytest.fixture(autouse=True)
def four_seconds(enough):
    """A program is compiled that took longer than four seconds so far."""
    enough(4.0)


@pytest.fixture
def accelerator(monkeypatch):
    """`accelerator()`: from now on the default device of JAX is one."""
    return lambda: monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def _brier(q):
    return ((q[None] - jnp.eye(len(q), dtype=q.dtype)) ** 2).sum(axis=1)


# -- the same answers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        problem(lk.MaxInformation(), leakage_budget=0.1),
        problem(lk.FInformation(lk.UserDivergence(lambda t: (t - 1.0) ** 2, 1.0)), leakage_budget=0.05),
        *thorough(
            problem(lk.MutualInformation(), budget=0.3),
            problem(lk.MutualInformation(), leakage_budget=0.05),
            problem(lk.MutualInformation(), joint=JOINTS, budget=0.4),
            problem(lk.Sibson(0.5), budget=0.3),
            problem(lk.MaximalLeakage(), joint=JOINTS, budget=0.4),
            problem(lk.MutualInformation(), limits=[(lk.Lift(), 0.5)], budget=0.5),
            problem(lk.AverageCostGain(lk.CustomLoss(_brier)), budget=0.3),
        ),
    ],
    ids=lambda asked: type(asked.leakage).__name__,
)
def test_both_tiers_give_the_same_answer_in_the_same_steps(asked, monkeypatch):
    monkeypatch.setenv(loops.SWITCH, "never")
    by_numpy = jp.solve(asked, tol=TOL)
    monkeypatch.setenv(loops.SWITCH, "always")
    compiled = jp.solve(asked, tol=TOL)
    assert (by_numpy.status, compiled.status) == ("optimal", "optimal")
    assert by_numpy.seconds["compile"] == 0.0
    assert abs(by_numpy.value - compiled.value) <= TOL
    assert max(by_numpy.lower_bound, compiled.lower_bound) <= min(by_numpy.value, compiled.value) + 1e-12
    assert abs(by_numpy.steps - compiled.steps) <= 1
    assert type(by_numpy.mechanism) is np.ndarray


def test_jax_arrays_and_single_precision_are_turned_to_numpy_first():
    plain = jp.solve(problem())
    arrays = jp.solve(jp.DistortionProblem(jnp.asarray(JOINT), jnp.asarray(TABLE), leakage=lk.Sibson(2.0), budget=0.3))
    assert arrays.value == plain.value
    assert_array_equal(arrays.mechanism, plain.mechanism)
    rounded = (np.round(JOINT * 2**20) / 2**20).astype(np.float32)
    rounded[0, 0] += 1.0 - rounded.sum(dtype=np.float64)
    single = jp.solve(problem(joint=rounded))
    double = jp.solve(problem(joint=rounded.astype(np.float64)))
    assert single.mechanism.dtype == np.float64
    assert_array_equal(single.mechanism, double.mechanism)


def test_a_second_thread_solves_without_warnings():
    """NumPy's settings for what is not finite belong to a thread, and warnings are errors here."""
    got = []
    thread = threading.Thread(target=lambda: got.append(jp.solve(problem(lk.MaximalLeakage()))))
    thread.start()
    thread.join()
    here = jp.solve(problem(lk.MaximalLeakage()))
    assert got[0].value == here.value
    assert np.geterr() == np.geterr() | {"divide": "warn", "invalid": "warn"}


# -- what chooses ----------------------------------------------------------------------------------


def threads():
    """Of the library that NumPy came with (SciPy has another one)."""
    libraries = [one for one in threadpool_info() if one["user_api"] == "blas" and "numpy" in one["filepath"]]
    return {one["num_threads"] for one in libraries}


def test_linear_algebra_has_one_thread_while_solves_are_inside():
    """The number is the process's: a second solve that ends within the first one does not set it back."""
    with threadpool_limits(2, "blas"):
        before, inside = threads(), []
        if before != {2}:
            pytest.skip("the threads of NumPy's linear algebra cannot be set here")
        second = threading.Thread(target=lambda: jp.solve(problem(budget=0.4)))

        def look(_):
            if not inside:
                second.start()
                second.join()
            inside.append(threads())

        jp.solve(problem(budget=0.3), progress=look)
        assert inside
        assert all(found == {1} for found in inside)
        assert threads() == before


def test_the_environment_chooses(monkeypatch, no_compiler):
    assert jp.solve(problem()).seconds["compile"] == 0.0
    monkeypatch.setenv(loops.SWITCH, "always")
    with pytest.raises(CompilerError):
        jp.solve(problem())
    monkeypatch.setenv(loops.SWITCH, "sometimes")
    with refused(loops.SWITCH) as caught:
        jp.solve(problem())
    assert "sometimes" not in str(caught.value)


def test_what_comes_often_is_compiled(monkeypatch, no_compiler, now):
    now.tick = 0.6 * loops._ENOUGH  # every solve takes this much
    jp.solve(problem(budget=0.3))
    jp.solve(problem(budget=0.4))  # the same program, with other numbers
    with pytest.raises(CompilerError):
        jp.solve(problem(budget=0.5))
    jp.solve(problem(lk.Sibson(3.0), joint=SMALLER, budget=0.3))  # another shape has its own account
    monkeypatch.setenv(loops.SWITCH, "never")
    jp.solve(problem(budget=0.5))


def test_an_executable_that_is_there_is_loaded_sooner(monkeypatch, no_compiler, now):
    """As soon as NumPy has taken about as long as loading takes, which is long before compiling is worth it."""
    now.tick = 0.6 * loops._ENOUGH_KEPT
    for budget in (0.2, 0.3, 0.4):
        jp.solve(problem(budget=budget))
    monkeypatch.setattr(loops, "is_ready", lambda *_: True)
    with pytest.raises(CompilerError):  # in place of loading
        jp.solve(problem(budget=0.5))
    jp.solve(problem(lk.Sibson(3.0), joint=SMALLER, budget=0.3))  # another shape has its own account


class Program(NamedTuple):
    terms: tuple = ()


NO_TERMS = Program()


def test_large_programs_and_other_devices_are_compiled(monkeypatch, accelerator):
    program = NO_TERMS
    assert loops.suits(InteriorPoint(), program, 1e-4)
    assert not loops.suits(InteriorPoint(), program, 1.0)
    monkeypatch.setenv(loops.SWITCH, "never")
    assert loops.suits(InteriorPoint(), program, 1.0)
    assert not loops.suits(PrimalDualHybridGradient(), program, 1e-4)
    monkeypatch.delenv(loops.SWITCH)
    accelerator()
    assert loops.suits(InteriorPoint(), program, 1e-4)
    assert not loops.suits(InteriorPoint(), program, 2 * loops.SMALL)


# -- the end ---------------------------------------------------------------------------------------


def test_the_time_limit_ends_a_solve_between_two_steps(now):
    records = []

    def tick(record):
        now.seconds += 1.0
        records.append(record)

    whole = jp.solve(problem(), "interior-point", max_steps=3)
    early = jp.solve(problem(), "interior-point", time_limit=3.5, progress=tick)
    assert (early.status, early.stopped) == ("best_known", TIME_LIMIT)
    assert [record.step for record in records] == [0, 1, 2, 3]
    assert early.steps == 3
    assert_array_equal(early.mechanism, whole.mechanism)
    assert early.lower_bound == whole.lower_bound
    assert records[-1].value == pytest.approx(early.value, abs=1e-9)


@pytest.mark.parametrize("own", [False, True], ids=["our-handler", "callers-handler"])
def test_an_interrupt_ends_a_solve_with_its_best(own):
    steps = []

    def interrupt(record):
        steps.append(record.step)
        if record.step == 2:
            signal.raise_signal(signal.SIGINT)

    def raising(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, raising if own else signal.default_int_handler)
    try:
        early = jp.solve(problem(), progress=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (early.status, early.stopped, early.steps) == ("best_known", INTERRUPTED, 2)
    assert steps == [0, 1, 2]
    assert early.lower_bound <= jp.solve(problem()).value <= early.value


def test_an_interrupt_inside_of_a_step_leaves_the_state_before_it():
    calls = []

    class Interrupted(InteriorPoint):
        def step(self, program, state):
            calls.append(state)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return super().step(program, state)

    whole = jp.solve(problem(), InteriorPoint(), max_steps=2)
    early = jp.solve(problem(), Interrupted())
    assert (early.status, early.stopped, early.steps) == ("best_known", INTERRUPTED, 2)
    assert_array_equal(early.mechanism, whole.mechanism)


# -- the functions that both are written with ------------------------------------------------------


def test_inverse_roots_keep_their_digits_however_rows_are_scaled():
    """A factor of a matrix whose rows differ by 1e12 is as good, row by row, as that of the matrix without scales."""
    rows = RNG.normal(size=(2, 5, 7))
    g = rows @ rows.swapaxes(1, 2)
    scale = 10.0 ** np.array([0.0, -6.0, 3.0, 6.0, -3.0])
    plain = xp.inverse_root(g)
    scaled = xp.inverse_root(scale[:, None] * g * scale)
    assert_allclose(scaled * scale, plain, rtol=1e-9, atol=0)
    assert (np.triu(scaled, 1) == 0).all()
    assert_allclose(plain, jax.jit(xp.inverse_root)(g), rtol=1e-9, atol=1e-14)
    for factor in (xp.inverse_root, xp.cholesky):  # one without factor takes none from the others
        assert_array_equal(factor(np.stack([np.eye(2), -np.eye(2)])), [np.eye(2), np.full((2, 2), np.nan)])


def test_small_problems_stay_on_the_host_where_the_default_device_is_an_accelerator(enough, accelerator, no_compiler):
    """No program is compiled for it, and the numbers are those of the host, however often the problem comes."""
    known = jp.DistortionProblem(JOINT, TABLE, budget=0.3)
    expected = jp.solve(known).value
    enough(0.0)
    accelerator()
    solution, measured = jp.solve(known), jp.solve(problem())
    many = jp.solve_many([known] * 3)
    assert solution.status == measured.status == "optimal"
    assert solution.value == pytest.approx(expected, abs=1e-12)
    assert [one.status for one in many] == ["optimal"] * 3
