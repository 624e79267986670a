"""Bad operators, forms and devices: a clear error that names what is wrong, before any solving."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv.data.distortion import Pairwise
from jaxpriv.data.joints import Stored
from jaxpriv.funnels.actions import VertexGeneration
from jaxpriv.funnels.greedy import Greedy, GreedyBottleneck
from jaxpriv.funnels.local import Alternating
from tests.cases import assert_one_optimum, raised, refused, thorough

from .conftest import line, smooth_joint, smooth_problem

JOINT = smooth_joint(12, 3)


def custom(function):
    return jp.distortion.from_function(function, np.arange(12.0), np.arange(12.0))


class Lying(Pairwise):
    """Blocks that are not of the shape that it declares."""

    def rows(self, index):
        return super().rows(index)[:, :-1]


class Inconsistent(Pairwise):
    """Tiles of another table than the rows."""

    def tile(self, index, start, width):
        return 3 * super().tile(index, start, width)


class Signed(jp.distortion.AbstractRule):
    def __call__(self, x, y):
        return (x - y).sum(-1)


class Unreal(jp.distortion.AbstractRule):
    def __call__(self, x, y):
        return (1 + 5j) * abs(x - y).sum(-1)


HONEST = jp.distortion.absolute(line(12))


def like(kind, rule=HONEST.rule):
    return kind(HONEST.x_features, HONEST.y_features, rule)


@pytest.mark.parametrize(
    ("distortion", "message"),
    [
        (
            lambda: custom(lambda a, b: jnp.where((a[0] == 5) & (b[0] == 7), jnp.nan, 1.0)),
            r"^distortion\[0\] at \[5, 7\] \(axes x, y\) is not finite",
        ),
        (
            lambda: custom(lambda a, b: 1.0 / abs(a[0] - b[0])),
            r"^distortion\[0\] at \[0, 0\] .* is infinite, which forbids",
        ),
        (
            lambda: custom(lambda a, b: a[0] - b[0]),
            r"^distortion\[0\] at \[0, 1\] \(axes x, y\) is negative \(add a constant",
        ),
        (lambda: -np.eye(12), r"^distortion\[0\] at \[0, 0\] .* is negative"),
        (lambda: jp.distortion.squared(1e200 * line(12)), r"^distortion\[0\] at .* is not finite"),
        (
            lambda: like(Lying),
            r"^distortion\[0\] computes blocks of shape \(2, 11\) for \(2, 12\), but declares \(12, 12\)",
        ),
        (lambda: like(Pairwise, Signed()), r"^distortion\[0\] at \[0, 1\] \(axes x, y\) is negative \(add a constant"),
        (
            lambda: like(Inconsistent),
            r"^distortion\[0\]: its tiles and its rows give different costs for the same symbols",
        ),
        (lambda: like(Pairwise, Unreal()), r"^distortion\[0\] computes blocks of complex128; real numbers are needed"),
    ],
)
@pytest.mark.parametrize("form", [{"budget": 0.1}, *thorough({"multiplier": 1.0})], ids=str)
@pytest.mark.filterwarnings("ignore:overflow")
def test_bad_costs_are_named(distortion, message, form):
    with refused(message):
        jp.solve(jp.DistortionProblem(JOINT, distortion(), **form), "accelerated")


@pytest.mark.parametrize("bad", [np.nan, -0.1])
def test_a_joint_operator_that_goes_wrong_is_named(bad):
    table = JOINT.copy()
    table[1, 4] = bad
    problem = jp.DistortionProblem(Stored(table), HONEST, multiplier=1.0)
    with refused(r"^joint at \[1, 4\] \(axes s, x\) is negative or not finite"):
        jp.solve(problem, "accelerated")


@pytest.mark.parametrize("solver", ["accelerated", "two-grid"])
def test_forms_that_do_not_stream_are_refused(solver):
    d = HONEST
    for problem in (
        jp.DistortionProblem(JOINT, d, leakage_budget=0.1),
        jp.DistortionProblem(np.stack([JOINT, JOINT[::-1]]), d, budget=0.1),
    ):
        with refused(f"^solver: {solver} takes one joint with budgets or multipliers; use 'interior-point'$"):
            jp.solve(problem, solver)


def test_a_joint_operator_must_have_total_one():
    problem = jp.DistortionProblem(Stored(2 * JOINT), HONEST, budget=0.1)
    with refused(r"^joint sums to 2, not 1"):
        jp.solve(problem, "accelerated")


def test_progress_must_be_callable():
    with refused(r"^progress must be True .* or callable"):
        jp.solve(jp.DistortionProblem(JOINT, HONEST, budget=0.1), progress=3)


@pytest.mark.parametrize("scale", [1e100, *thorough(1e-30, 1e-8, 1e8)])
def test_the_units_of_the_costs_do_not_matter(scale):
    one = jp.solve(smooth_problem(40, 4, budget=0.1), "accelerated", tol=1e-5)
    scaled = jp.DistortionProblem(smooth_joint(40, 4), jp.distortion.absolute(scale * line(40)), budget=0.1 * scale)
    two = jp.solve(scaled, "accelerated", tol=1e-5)
    assert one.status == two.status == "optimal"
    assert_one_optimum(two, one)


def test_a_budget_just_above_the_least_is_no_catastrophe():
    """Prices diverge there in float32: float64 restarts, and the nearest release is always a candidate."""
    rng = np.random.default_rng(1)
    joint = np.full((4, 11), 1e-12)
    joint[rng.integers(0, 4, 11), np.arange(11)] += rng.dirichlet(np.ones(11))
    joint /= joint.sum()
    d = jp.distortion.hamming(rng.permutation(np.arange(11.0)), rng.permutation(np.arange(11.0))[:6])
    table, mass = d.matrix(), joint.sum(axis=0)
    least = mass @ table.min(axis=1)
    budget = least + 1e-6 * ((mass @ table).min() - least)
    solution = jp.solve(jp.DistortionProblem(joint, d, budget=budget), "accelerated", tol=1e-5)
    exact = jp.solve(jp.DistortionProblem(joint, d, budget=budget), "interior-point", tol=1e-7)
    assert solution.value <= np.log(4)
    assert_one_optimum(solution, exact)


def test_budgets_that_no_single_release_meets_are_refused():
    problem = jp.DistortionProblem(JOINT, [np.eye(12), 1 - np.eye(12)], budget=[0.5, 0.5])
    with refused(r"^budget: releasing the nearest symbol does not meet all budgets"):
        jp.solve(problem, "accelerated")


def test_two_grid_runs_outside_of_jit_and_streaming_solvers_solve_no_sweep():
    d = HONEST
    with refused("^solver: two-grid runs outside of jit, vmap and grad only, because the gaps that it proves decide"):
        jax.jit(lambda b: jp.solve(jp.DistortionProblem(JOINT, d, budget=b), "two-grid").value)(0.1)
    for solver in ("accelerated", "two-grid"):
        with refused(f"^solver: {solver} solves one point at a time"):
            jp.frontier(jp.DistortionProblem(JOINT, d, budget=0.1), budgets=[0.1, 0.2], solver=solver)


@pytest.mark.parametrize("rtol", [-1.0, np.nan, np.inf, "x"])
def test_a_bad_relative_tolerance_is_named(rtol):
    with refused(r"^rtol "):
        jp.solve(jp.DistortionProblem(JOINT, HONEST, budget=0.1), rtol=rtol)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory", "^the device ran out of memory"),
        ("UNIMPLEMENTED: F64 is not supported", "^the device does not compute in float64"),
        ("INTERNAL: gone", "^the device failed"),
    ],
)
def test_a_failing_device_is_an_error_of_ours(text, message):
    for solver in (jp.AcceleratedMirrorDescent, jp.InteriorPoint, jp.MirrorDescent):

        class Failing(solver):
            def init(self, *_):
                raise jax.errors.JaxRuntimeError(text)

        with raised(jp.ResourceError, message):
            jp.solve(jp.DistortionProblem(JOINT, HONEST, budget=0.1), Failing())


def test_single_precision_keeps_what_a_rule_sees():
    """Differences from the middle of the range; symbols that only have to differ keep differing."""
    far = 1e9 + np.arange(4.0)
    exact = jp.distortion.absolute(far).matrix()
    assert_array_equal(jp.distortion.absolute(far).as_dtype(np.dtype(np.float32)).matrix(), exact)
    codes = jp.distortion.hamming(2.0**40 + np.arange(4.0))
    assert_array_equal(codes.as_dtype(np.dtype(np.float32)).matrix(), 1 - np.eye(4))
    assert eqx.tree_equal(custom(lambda a, b: a[0]).as_dtype(np.dtype(np.float32)).x_features, np.arange(12.0)[:, None])


@pytest.mark.parametrize("solver", ["accelerated", "two-grid", "interior-point", "auto"])
@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.where(np.arange(36).reshape(3, 12) == 5, -0.1, JOINT), r"^joint(\[0, 5\]| at \[0, 5\] .*) is negative"),
        (
            np.where(np.arange(36).reshape(3, 12) == 5, np.nan, JOINT),
            r"^joint(\[0, 5\]| at \[0, 5\] ).* (is NaN|not fin)",
        ),
        (2 * JOINT, "^joint sums to 2, not 1"),
        (JOINT * (1 + 1e-6), "^joint sums to 1.000001, not 1"),
    ],
    ids=["negative", "nan", "double", "nearly"],
)
def test_a_stored_joint_is_looked_at_by_every_solver(solver, table, message):
    with refused(message):
        jp.solve(jp.DistortionProblem(Stored(table), HONEST, multiplier=1.0), solver)


@pytest.mark.parametrize("solver", ["accelerated", "two-grid", "interior-point"])
def test_a_stored_joint_in_single_precision(solver):
    table, distortion = np.full((4, 40), 1 / 128, np.float32), jp.distortion.absolute(line(40))
    table[:2, :32] = 1 / 256
    problem = jp.DistortionProblem(Stored(table), distortion, budget=0.05)
    wanted = jp.solve(jp.DistortionProblem(table, distortion, budget=0.05), "interior-point")
    solution = jp.solve(problem, solver, tol=1e-4)
    assert solution.status == "optimal"
    assert_allclose(solution.value, wanted.value, atol=2e-4)


class Narrow(Stored):
    """Single precision whatever is asked."""

    def as_dtype(self, dtype):
        return self


class Short(Stored):
    """Columns without the last private symbol."""

    def columns(self, index):
        return self.values[:-1, index]

    def as_dtype(self, dtype):
        return self


def test_a_joint_operator_has_the_shape_and_the_precision_that_it_says():
    with refused(r"^joint: a stored table has two axes \(s, x\), not shape \(1, 3, 12\)"):
        Stored(JOINT[None])
    d = HONEST
    with refused(r"^joint computes columns of float32 after as_dtype\(float64\)"):
        jp.solve(jp.DistortionProblem(Narrow(JOINT.astype(np.float32)), d, budget=0.1), "accelerated")
    for solver in ("accelerated", "interior-point"):
        with refused(r"^joint computes columns of shape \(2, .*but declares \(3, 12\)"):
            jp.solve(jp.DistortionProblem(Short(JOINT / JOINT[:-1].sum()), d, budget=0.1), solver)


class InTheMiddle(Pairwise):
    """Tiles of dearer symbols than the rows, but only where no sample is taken."""

    def tile(self, index, start, width):
        honest = super().tile(index, start, width)
        return jnp.where(((index > 0) & (index < 11))[:, None], 3 * honest + 1, honest)


def test_a_bound_above_the_value_is_an_error():
    with refused(r"^joint or distortion: their blocks contradict each other"):
        jp.solve(jp.DistortionProblem(JOINT, like(InTheMiddle), multiplier=1.0), "accelerated", rtol=1e-2)


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
@pytest.mark.parametrize(
    ("solver", "names"),
    [
        (jp.AcceleratedMirrorDescent, ["patience", "single"]),
        (jp.AugmentedLagrangian, ["newtons", "patience"]),
        (jp.BlahutArimoto, ["dual_steps", "unrolled"]),
        (jp.MirrorDescent, ["dual_steps", "step", "unrolled"]),
        (jp.PrimalDualHybridGradient, [field.name for field in dataclasses.fields(jp.PrimalDualHybridGradient)]),
        (jp.InteriorPoint, [field.name for field in dataclasses.fields(jp.InteriorPoint)]),
        (jp.TwoGrid, ["cells", "most_cells", "refine"]),
        (VertexGeneration, ["budget"]),
        (Greedy, ["ratio"]),
        (GreedyBottleneck, ["points"]),
        (Alternating, ["starts", "outputs", "max_steps", "seed"]),
    ],
)
def test_solvers_check_their_own_arguments(solver, names):
    for name, value in itertools.product(names, [-5, np.nan, "a", np.array([1])]):
        with refused(f"^{solver.__name__}: {name} (must be|has dtype)"):
            solver(**{name: value})


def test_a_mesh_of_other_axes_is_refused():
    with refused("^TwoGrid: mesh must be"):
        jp.TwoGrid(mesh=jax.sharding.Mesh(np.array(jax.devices()[:1]), ("y",)))


@pytest.mark.parametrize(
    "solver", [jp.InteriorPoint(), jp.MirrorDescent(), jp.AcceleratedMirrorDescent(), jp.TwoGrid()]
)
def test_solver_objects_are_refused_like_names_where_memory_is_short(free_memory, solver):
    problem = jp.DistortionProblem(JOINT, HONEST, budget=0.1)
    free_memory(10.0)
    with raised(jp.ResourceError, rf"^{type(solver).__name__} for \|S\|=3, \|X\|=12, \|Y\|=12 needs"):
        jp.solve(problem, solver)


def test_nobody_is_sent_to_a_solver_that_refuses_him(free_memory):
    problem = jp.DistortionProblem(Stored(JOINT), HONEST, leakage_budget=0.1)
    free_memory(10.0)
    for solver in ("auto", "mirror-descent"):
        with raised(jp.ResourceError, "merge symbols first"):
            jp.solve(problem, solver)
