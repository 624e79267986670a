"""Arrays with lanes: every function of `_arrays` on them is that of one lane after another; and batches in NumPy."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv._runtime import arrays as xp, lanes
from jaxpriv.leakage import AbstractMeanLeakage, AverageCostGain, CustomLoss, Traits, by_name, lift_of
from jaxpriv.leakage.f_rules import AbstractCurve, f_rules
from jaxpriv.solvers import Goal
from jaxpriv.solving import kinds, loops
from jaxpriv.testing import random_joint
from tests.cases import MIXED_SIZES, assert_one_optimum, assert_proved, distances, further, raised, random_problem

RNG = np.random.default_rng(5)
LANES = 3
A, B, CUBE = RNG.normal(size=(LANES, 4)), RNG.normal(size=(LANES, 4, 5)), RNG.normal(size=(LANES, 2, 4, 5))
SQUARE = RNG.normal(size=(LANES, 2, 4, 4))
POSITIVE = SQUARE @ np.swapaxes(SQUARE, -1, -2) + np.eye(4)
PLAIN = RNG.normal(size=(4, 5))
INDEX = np.array([2, 0, 2])

# Functions of one lane's a (4,), b (4, 5), cube (2, 4, 5) and definite matrices (2, 4, 4).
_CASES = {
    "broadcast": lambda a, b, c, g: a[:, None] * b + c - PLAIN,
    "comparison": lambda a, b, c, g: ~((b > PLAIN) & (c <= 0.0)) | (a[:, None] != b),
    "powers": lambda a, b, c, g: abs(-b) ** 1.5 / (2.0 - a.min()),
    "sums": lambda a, b, c, g: c.sum() + c.sum(axis=(1, 2)) + b.mean() + c.sum(axis=-1).max(axis=0).sum(dtype=float),
    "extremes": lambda a, b, c, g: c.max(axis=1, keepdims=True) - c.min(axis=2, keepdims=True, initial=0.0),
    "truth": lambda a, b, c, g: xp.where((b > 0).all(axis=0), 1.0, 0.0) + xp.where((c > 0).any(), 2.0, 1.0),
    "places": lambda a, b, c, g: b[b.sum(axis=1).argmin()] + b[a.argmax()] + c.argmin(axis=-1)[1].sum(),
    "indices": lambda a, b, c, g: b[INDEX][:, 1:, None] + c[0, None, 1, :][:, :4, None] + c[1, 2, 3],
    "rows": lambda a, b, c, g: xp.stack([row * 2.0 for row in b] + [PLAIN[0]], axis=1),
    "shapes": lambda a, b, c, g: c.transpose((1, 2, 0)).reshape(4, -1) + c.T.reshape((5, 8)).T.reshape(4, 10),
    "axes": lambda a, b, c, g: xp.swapaxes(c, -1, 0) + xp.moveaxis(c, 0, 2).transpose((1, 0, 2)),
    "joined": lambda a, b, c, g: xp.concatenate([c, PLAIN[None], b[None]], axis=0).sum(axis=0),
    "appended": lambda a, b, c, g: xp.append(xp.append(a, 1.0), b),
    "products": lambda a, b, c, g: (a @ b) + (b.T @ a) + (PLAIN.T @ a) + (a @ PLAIN) + (a @ a),
    "matrices": lambda a, b, c, g: c @ b.T + c @ PLAIN.T + PLAIN @ xp.swapaxes(c, 1, 2),
    "einsum": lambda a, b, c, g: xp.einsum("xab,ab->x", c, b) + xp.einsum("xab,ab->xa", c, PLAIN).sum(axis=1),
    "weighted": lambda a, b, c, g: xp.weigh(a[:2], c) + xp.weigh(np.ones(1), c[:1]) + xp.weigh(a, np.ones((4, 4, 5))),
    "diagonals": lambda a, b, c, g: xp.diag(a) + xp.diagonal(g, axis1=1, axis2=2)[0] + xp.diag(g[1]),
    "made": lambda a, b, c, g: xp.full((4, 5), a.sum(), like=b) + xp.zeros_like(b) + xp.ones((4, 5), b),
    "filled": lambda a, b, c, g: xp.full_like(b, 2.0) * b + xp.full(4, a.max(), like=a)[:, None],
    "repeated": lambda a, b, c, g: xp.broadcast_to(a[None], (2, 4)) + xp.broadcast_to(a.sum(), (2, 1)),
    "clipped": lambda a, b, c, g: xp.clip(b, -0.5, a[:, None] ** 2) + xp.maximum(b, 0.0) + xp.minimum(1.0, b),
    "put": lambda a, b, c, g: xp.put(b, np.s_[:, 1], a) + xp.put(PLAIN, np.s_[2, 1:3], a[:2]) + xp.put(b, 0, 1.0),
    "added": lambda a, b, c, g: xp.add_at(c, np.s_[:, np.arange(4), np.arange(4)], a) + xp.add_at(b, np.s_[1:], 2.0),
    "roots": lambda a, b, c, g: xp.cholesky(g) + xp.inverse_root(g),
    "solved": lambda a, b, c, g: xp.solve(g[0], a) + xp.solve(g[0], b).sum(axis=1) + xp.solve(np.eye(4), a),
    "lower": lambda a, b, c, g: xp.solve_lower(xp.cholesky(g[0]), b) + xp.solve_lower(xp.cholesky(g[0]), b, True),
    "loop": lambda a, b, c, g: xp.while_loop(
        lambda s: (s[0] > 0.1).any() & (s[1] < 9), lambda s: (0.6 * s[0], s[1] + 1), (abs(a), np.array(0))
    )[0],
    "counted": lambda a, b, c, g: xp.fori_loop(0, 3, lambda i, s: s * a.sum() + i, b),
    "branch": lambda a, b, c, g: xp.cond(a.sum() > 0, lambda: b, lambda: PLAIN) + xp.cond(True, lambda: b, lambda: a),
    "each": lambda a, b, c, g: xp.each(lambda one: one.sum(axis=0), c),
    "precision": lambda a, b, c, g: a.astype(np.float32).sum() + xp.asarray(b, a.astype(np.float32)),
}


@pytest.mark.parametrize("name", _CASES)
def test_a_function_on_lanes_is_that_of_one_lane_after_another(name):
    function = _CASES[name]
    arrays = A, B, CUBE, POSITIVE
    found = lanes.spread(function(*map(lanes.with_lanes, arrays)), LANES)
    wanted = np.stack([function(*(array[i] for array in arrays)) for i in range(LANES)])
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_lanes_differ_so_that_no_python_code_may_branch_on_them():
    array = lanes.LaneArray(A)
    with raised(TypeError, "neither true nor false"):
        bool(array.sum() > 0)
    with raised(TypeError, "no plain array"):
        np.asarray(array)
    with pytest.raises(TypeError):  # of NumPy, for what has no meaning here
        np.linalg.svd(array)
    assert len(array) == 4
    assert len(list(array)) == 4


def test_one_singular_lane_does_not_disturb_the_others():
    matrices, sides = np.stack([np.eye(3), np.zeros((3, 3)), 2.0 * np.eye(3)]), np.ones((3, 3))
    found = lanes.spread(xp.solve(lanes.with_lanes(matrices), lanes.with_lanes(sides)), 3)
    assert_array_equal(found[[0, 2]], [[1.0] * 3, [0.5] * 3])
    assert np.isnan(found[1]).all()
    broken = lanes.with_lanes(np.stack([np.eye(3), -np.eye(3)])[:, None])
    assert np.isnan(lanes.spread(xp.cholesky(broken), 2)).all(axis=(1, 2, 3)).tolist() == [False, True]


def test_some_lanes_are_taken_out_of_every_array_of_a_tree():
    kept = lanes.taken({"a": lanes.with_lanes(A), "plain": PLAIN, "none": None}, np.array([True, False, True]))
    assert_array_equal(lanes.spread(kept["a"], 2), A[[0, 2]])
    assert kept["plain"] is PLAIN


# ------------------------------------------------------------------------------ batches


@pytest.fixture
def in_numpy(no_whole_solves, no_compiler, worth_compiling):
    """Batches of any number run in NumPy."""
    worth_compiling(np.inf)


def solved(problems, **options):
    """The results, and how many of them came at a time."""
    done = [0]
    results = jp.solve_many(problems, progress=lambda one: done.append(one.done), **options)
    ended = np.diff(np.maximum.accumulate(done))
    return results, ended[ended > 0].tolist()


def agree(problems, results, tol=1e-6):
    for problem, found in zip(problems, results, strict=True):
        assert found.mechanism.shape == problem.shape
        assert_one_optimum(found, jp.solve(problem, tol=tol))
        assert_proved(problem, found, tol)


def test_mixed_shapes_run_side_by_side_in_numpy_and_agree_with_single_solves(in_numpy):
    problems = [random_problem(seed, MIXED_SIZES[seed % 5], 0.1 + 0.1 * seed) for seed in range(8)]
    results, together = solved(problems, tol=1e-7)
    assert together == [8]
    agree(problems, results, 1e-7)


_FORMS = {
    "multiplier": {"multiplier": 0.3},
    "leakage-budget": {"leakage_budget": 0.05},
    "sibson": {"leakage": by_name("sibson", order=2.0)},
    "sibson-limit": {"leakage": by_name("sibson", order=0.5), "leakage_budget": 0.05},
    "maximal-leakage": {"leakage": by_name("maximal-leakage")},
    "f-information": {"leakage": by_name("f-information", divergence="chi-squared"), "leakage_budget": 0.02},
    "max-information": {"leakage": by_name("max-information"), "leakage_budget": 0.1},
    "ldp": {"leakage": by_name("ldp"), "leakage_budget": 0.4},
    "least-max-information": {"leakage": by_name("max-information")},
    "least-ldp": {"leakage": by_name("ldp")},
    "least-lift": {"leakage": by_name("lift")},
}


@pytest.mark.parametrize("form", further(_FORMS, _FORMS.keys() - {"least-max-information", "least-lift"}))
def test_forms_and_measures_run_in_numpy_too(in_numpy, form):
    problems = [random_problem(seed, (3, 4, 4), **_FORMS[form]) for seed in range(6)]
    results, together = solved(problems)
    assert together == [6]
    agree(problems, results)


def test_a_set_of_joints_runs_in_numpy_too(in_numpy):
    joints = [np.stack([random_joint(2 * i, 3, 4), random_joint(2 * i + 1, 3, 4)]) for i in range(6)]
    problems = [jp.DistortionProblem(one, distances(4), budget=0.6) for one in joints]
    results, together = solved(problems)
    agree(problems, results)
    assert together == [6]


def test_what_a_batch_leaves_is_solved_by_itself(in_numpy):
    problems = [random_problem(seed) for seed in range(7)]
    problems[2] = random_problem(2, budget=-1.0)  # there is no such mechanism
    problems[4] = random_problem(4, budget=0.0)  # a budget without slack
    results, together = solved(problems)
    assert together == [6, 1]
    assert [one.status for one in results] == ["optimal"] * 2 + ["infeasible"] + ["optimal"] * 4
    agree([problems[4]], [results[4]])


def test_problems_that_are_all_the_same_are_a_batch_too(in_numpy):
    problems = [random_problem(1)] * 7
    results, together = solved(problems)
    agree(problems, results)
    assert together == [7]


@pytest.mark.parametrize("name", ["gain-log-loss", "gain-brier", "f-information"])
def test_limits_of_zero_stand_beside_others(in_numpy, name):
    measure = by_name(name, divergence="chi-squared" if name == "f-information" else None)
    budgets = (0.0, 0.02, 0.05, 0.0, 0.1, 0.03)
    problems = [random_problem(seed, leakage=measure, leakage_budget=most) for seed, most in enumerate(budgets)]
    results, together = solved(problems)
    agree(problems, results)
    first, *alone = together
    assert first >= 4  # those that are not zero at least; what the batch leaves is solved one by one
    assert alone == [1] * (6 - first)


class _Squares(AbstractCurve):
    """f(t) = (t - 1)^2 by JAX alone: plain arrays of NumPy become its own, arrays with lanes do not."""

    @property
    def slopes(self):
        return -2.0, math.inf

    def value(self, t):
        return jnp.square(t - 1.0)

    def slope(self, t):
        return 2.0 * (t - 1.0)

    def conjugate(self, u):
        t = jnp.asarray(1.0 + 0.5 * u)
        return t * t - 1.0, t, jnp.full_like(t, 0.5)

    def exact(self, t):
        return (t - 1.0) ** 2

    def lines(self, u):
        u = np.maximum(u, -2.0)
        return u, u + 0.25 * u * u


class _Own(AbstractMeanLeakage):
    traits = Traits("dimensionless", designable=True)

    def outcome(self, w, prior):
        return jnp.sum(prior * jnp.square(lift_of(w, prior) - 1.0))

    def rules(self, view):
        return f_rules(_Squares(), view)


def test_a_measure_of_ones_own_needs_no_functions_for_lanes(in_numpy):
    problems = [random_problem(0, (2, 3, 3), leakage=_Own())] * 6  # each operation is compiled for their shapes once
    results, together = solved(problems)
    for one, problem in zip(results, problems, strict=True):
        assert_proved(problem, one)
    assert together == [1] * 6


def test_functions_of_ones_own_and_limits_have_no_batches_in_numpy(in_numpy):
    def brier(q):
        return ((q[None] - jnp.eye(len(q), dtype=q.dtype)) ** 2).sum(axis=1)

    others = [
        random_problem(0, leakage=AverageCostGain(CustomLoss(brier))),
        random_problem(0, limits=[(by_name("lift"), 0.5)]),
    ]
    found = [kinds.kind_of(problem, "auto", Goal(1e-6)) for problem in (random_problem(0), *others)]
    assert [0 if kind is None else kind.width_uncompiled(100) for kind in found] == [100, 0, 0]


def test_batches_in_numpy_are_about_equally_long_and_fit_into_memory(in_numpy):
    small, large = (kinds.kind_of(random_problem(0, (n,) * 3), "auto", Goal(1e-6)) for n in (8, 32))
    assert small is not None
    assert large is not None
    assert [small.width_uncompiled(count) for count in (1, 5, 6, 512, 513, 1200)] == [0, 0, 6, 512, 257, 400]
    assert large.width_uncompiled(10_000) * large.lane_bytes <= 2**27


def test_a_kind_that_comes_again_and_again_is_compiled(monkeypatch, in_numpy, worth_compiling):
    kind = kinds.kind_of(random_problem(0), "auto", Goal(1e-6))
    assert kind is not None
    jp.solve_many([random_problem(seed) for seed in range(6)])
    assert loops.spent(kind) > 0
    worth_compiling(4.0)
    assert kind.width(6, 0.0) == 0
    assert kind.width(6, 4.0) == kind.lanes  # one program for any number of them
    assert kind.width(2, 4.0) == 0
    assert kind.width(10**6) == kind.lanes
    monkeypatch.setenv(loops.SWITCH, "never")
    assert kind.width(10**6, 4.0) == 0
    monkeypatch.setenv(loops.SWITCH, "always")
    assert kind.width(2) == 2
    assert kind.width_uncompiled(100) == 0
