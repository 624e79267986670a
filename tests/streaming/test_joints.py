"""Joints computed on demand, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.testing import assert_allclose

import jaxpriv as jp
from tests.cases import assert_one_optimum, raised, refused

from .conftest import line

PLACES = jnp.asarray([0.2, 0.4, 0.6, 0.9])


def likelihood(x):
    return jnp.exp(-0.5 * ((x[0] - PLACES) / 0.2) ** 2)


def test_a_computed_joint_is_the_normalised_table():
    operator = jp.joints.from_function(likelihood, line(40))
    table = np.exp(-0.5 * ((line(40) - np.asarray(PLACES)[:, None]) / 0.2) ** 2)
    assert operator.shape == (4, 40)
    assert_allclose(operator.matrix(), table / table.sum(), rtol=1e-14)
    assert_allclose(operator.columns(np.array([4, 4, 0])), operator.matrix()[:, [4, 4, 0]], rtol=1e-15)


def test_a_computed_joint_gives_the_solution_of_its_table():
    operator = jp.joints.from_function(likelihood, line(40))
    distortion = jp.distortion.absolute(line(40))
    table = np.asarray(operator.matrix())
    exact = jp.solve(jp.DistortionProblem(table / table.sum(), distortion, budget=0.05), "interior-point", tol=1e-9)
    for solver, tol in (("interior-point", 1e-9), ("accelerated", 1e-4)):
        one = jp.solve(jp.DistortionProblem(operator, distortion, budget=0.05), solver, tol=tol)
        two = jp.solve(jp.DistortionProblem(table / table.sum(), distortion, budget=0.05), solver, tol=tol)
        assert one.status == two.status == "optimal"
        assert_allclose(one.value, two.value, atol=1e-9)
        assert_one_optimum(one, exact)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x[0], r"^joint: likelihood must return an array of shape \(\|S\|,\), not \(\)"),
        (lambda x: jnp.ones((2, 2)) * x[0], r"not \(2, 2\)"),
        (lambda x: jnp.stack([x[0], x[0] - 0.5]), r"^joint: the likelihood at \[1, 0\] \(axes s, x\) is negative"),
        (lambda x: jnp.stack([x[0], 1 / (x[0] - x[0])]), r"\[1, 0\] .* is not finite"),
        (lambda x: jnp.stack([x[0], jnp.log(x[0] - 0.5)]), r"\[1, 0\] .* is not finite"),
        (lambda x: jnp.zeros(2) * x[0], r"^joint has no finite positive mass"),
        ("nothing", r"^likelihood must be callable"),
    ],
)
def test_a_bad_likelihood_is_named(function, message):
    with refused(message):
        jp.joints.from_function(function, line(10))


def test_bad_features_are_named():
    with refused(r"^features\[1\] is NaN"):
        jp.joints.from_function(likelihood, [0.1, np.nan])


def test_a_joint_table_that_does_not_fit_is_refused(free_memory):
    operator = jp.joints.from_function(likelihood, line(40))
    problem = jp.DistortionProblem(operator, jp.distortion.absolute(line(40)), budget=0.05)
    free_memory(10.0)
    with raised(jp.ResourceError, r"^joint as a table of shape \(4, 40\) needs .*accelerated"):
        _ = problem.joints


def test_the_distortion_must_fit_the_operator():
    operator = jp.joints.from_function(likelihood, line(40))
    with refused(r"^distortion has 39 rows \(axis x\), but the joint has 40"):
        jp.DistortionProblem(operator, jp.distortion.absolute(line(39)), budget=0.05)


def on_a_mesh(table, dtype=np.float64):
    """The table on a mesh of this process's first device, cut along x."""
    mesh = Mesh(np.array(jax.devices()[:1]), ("x",))
    with jax.enable_x64(True):
        return jax.device_put(np.asarray(table, dtype), NamedSharding(mesh, PartitionSpec(None, "x")))


def test_a_sharded_joint_is_its_table_and_divides_rounding_out():
    table = np.asarray(jp.joints.from_function(likelihood, line(40)).matrix())
    for dtype, error in ((np.float64, 1e-15), (np.float32, 1e-7)):
        joint = jp.joints.sharded(on_a_mesh(table, dtype))
        assert joint.shape == (4, 40)
        found = np.asarray(joint.matrix())
        assert found.dtype == np.float64
        assert found.sum() == pytest.approx(1.0, abs=1e-15)
        assert_allclose(found, table, rtol=0, atol=error)
        solution = jp.solve(jp.DistortionProblem(joint, jp.distortion.absolute(line(40)), budget=0.05), rtol=1e-3)
        assert solution.status == "optimal"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: np.eye(2) / 2, "joint must be an array of JAX outside of jit, not ndarray"),
        (lambda: jnp.eye(2) / 2, "joint: its sharding must be a NamedSharding on a mesh of one axis"),
        (
            lambda: on_a_mesh([[1, 2], [3, 4]], np.int32),
            "joint must hold real numbers (s, x), not int32 of shape (2, 2)",
        ),
        (lambda: on_a_mesh([[0.5, 0.1], [0.5, -0.1]]), "joint at [1, 1] (axes s, x) is negative or not finite"),
        (lambda: on_a_mesh([[0.5, np.nan], [0.5, 0.0]]), "joint at [0, 1] (axes s, x) is negative or not finite"),
        (lambda: on_a_mesh([[0.5, 0.1], [0.5, 0.1]]), "joint sums to 1.2, not 1"),
    ],
    ids=["numpy", "one device", "integers", "negative", "nan", "total"],
)
def test_other_arrays_are_no_sharded_joints(made, message):
    with pytest.raises(jp.InputError) as caught:
        jp.joints.sharded(made())
    assert str(caught.value) == message
