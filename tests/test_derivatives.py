"""Derivatives of optima: against central differences, closed forms, scaling laws, and each other."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv.testing import random_joint
from tests.cases import refused, thorough

# One shape for the whole file: the search is compiled once for each form, whatever the numbers.
TOL = 1e-10  # of the derivatives
TIGHT = 1e-12  # of the solves whose differences are taken
STEP = 5e-4
RNG = default_rng(5)
JOINTS = np.stack([random_joint(RNG, 4, 6), random_joint(RNG, 4, 6)])
TABLES = RNG.uniform(0.2, 1.0, (2, 6, 6)) * (1.0 - np.eye(6))

# The arrays (joint, distortions, target) of a problem of each form.
ARRAYS = {
    "budget": (JOINTS[0], TABLES, np.array([0.12, 0.2])),
    "multiplier": (JOINTS[0], TABLES, np.array([0.1, 0.15])),
    "leakage_budget": (JOINTS[0], TABLES[0], np.array(0.05)),
    "worst": (JOINTS, TABLES[:1], np.array([0.12])),
}


def build(form, joint, table, target):
    return jp.DistortionProblem(joint, table, **{"budget" if form == "worst" else form: target})


def value_of(form):
    return lambda *parts: jp.optimal_value(build(form, *parts), tol=TOL)


@functools.cache
def reverse(form):
    """Arrays -> (the optimal value, its gradient in them)."""
    return jax.jit(jax.value_and_grad(value_of(form), argnums=(0, 1, 2)))


@functools.cache
def twice(form):
    """(arrays, a direction) -> the gradient of the optimal value, and its derivative along the direction."""
    return jax.jit(lambda parts, direction: jax.jvp(jax.grad(value_of(form), argnums=(0, 1, 2)), parts, direction))


def mechanism_of(form):
    return lambda *parts: jp.optimal_mechanism(build(form, *parts), tol=TOL)


def directions(form, seed=0):
    """A random direction in each array in turn, and in all at once; the joint's keeps its total and its zeros."""
    rng = default_rng(seed)
    parts = ARRAYS[form]
    full = [rng.normal(size=np.shape(part)) for part in parts]
    full[0] = full[0] * parts[0]
    full[0] = full[0] - parts[0] * full[0].sum(axis=(-2, -1), keepdims=True)
    full[2] = np.abs(parts[2]) * full[2]
    for k in range(3):
        yield tuple(part if i == k else 0.0 * part for i, part in enumerate(full))
    yield tuple(full)


@functools.cache
def pulled_back(form):
    """(arrays, a cotangent of the optimal mechanism) -> cotangents of the arrays."""
    return jax.jit(lambda parts, cotangent: jax.vjp(mechanism_of(form), *parts)[1](cotangent))


NAMES = ("value", "lower_bound", "gap", "mechanism", "leakage", "distortion", "multipliers")


@functools.cache
def moves_of(form):
    """A direction -> all that a solution holds, and how it moves, at given arrays: one compiled program for a form."""

    def of(*parts):
        solution = jp.solve(build(form, *parts), tol=TIGHT)
        return {name: getattr(solution, name) for name in NAMES}

    return jax.jit(lambda parts, direction: jax.jvp(of, parts, direction))


def at(form, name=None):
    """What the solution holds, as a function of the problem's arrays; by the same program."""

    def function(*parts):
        held, _ = moves_of(form)(tuple(map(jnp.asarray, parts)), tuple(map(jnp.zeros_like, parts)))
        return held if name is None else held[name]

    return function


def difference(function, parts, direction, step=STEP):
    """The derivative along a direction from four points: an error of order step^4."""

    def at(k):
        moved = (jnp.asarray(part + k * step * change) for part, change in zip(parts, direction, strict=True))
        return np.asarray(function(*moved))

    return (8.0 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12.0 * step)


# The slopes of the other forms, of several measures: problems/test_slopes.py and problems/test_traced.py.
@pytest.fixture(
    scope="module",
    params=[
        "budget",
        *thorough("leakage_budget", "multiplier", "worst"),
    ],
)
def solved(request):
    """(form, arrays, gradient of the value) of each form."""
    form = request.param
    parts = ARRAYS[form]
    return form, parts, reverse(form)(*parts)[1]


def test_the_gradient_of_the_value_is_the_central_difference(solved):
    form, parts, gradient = solved
    for direction in directions(form):
        slope = sum(np.sum(g * change) for g, change in zip(gradient, direction, strict=True))
        assert_allclose(slope, difference(at(form, "value"), parts, direction), rtol=1e-6)


def test_a_solution_has_the_derivatives_of_the_optimum(solved):
    """Of all that a solution holds, by the chain rule: the mechanism and the prices by differences of their own."""
    form, parts, gradient = solved
    for direction in directions(form):
        _, moved = moves_of(form)(parts, direction)
        slope = sum(np.sum(one * change) for one, change in zip(gradient, direction, strict=True))
        assert_allclose(moved["value"], slope, rtol=1e-7)
        assert_allclose(moved["lower_bound"], slope, rtol=1e-7)
        assert abs(moved["gap"]) <= 1e-9 * abs(slope)
        expected = difference(at(form, "mechanism"), parts, direction)
        scale = np.abs(expected).max()
        assert scale > 1e-3
        assert_allclose(moved["mechanism"] / scale, expected / scale, atol=3e-6)
        assert_allclose(np.sum(moved["mechanism"], axis=1), 0.0, atol=1e-12 * scale)
    for name in ("leakage", "distortion", "multipliers"):
        expected = difference(at(form, name), parts, direction)
        assert_allclose(moved[name], expected, atol=1e-4 * np.abs(expected).max(initial=1.0))


@pytest.mark.parametrize("form", ["budget", *thorough("leakage_budget")])
def test_forward_and_reverse_mode_agree_on_the_mechanism(form):
    parts = ARRAYS[form]
    direction = list(directions(form, seed=1))[-1]
    cotangent = jnp.asarray(default_rng(2).normal(size=(6, 6)))
    change = moves_of(form)(parts, direction)[1]["mechanism"]
    back = pulled_back(form)(parts, cotangent)
    paired = sum(np.sum(b * c) for b, c in zip(back, direction, strict=True))
    assert_allclose(np.sum(change * cotangent), paired, rtol=1e-7)


def test_sensitivity_of_any_solution_is_the_gradient(solved):
    form, parts, (joint, distortion, level) = solved
    problem = build(form, *parts)
    found = jp.sensitivity(problem, jp.solve(problem, tol=TOL))
    name = "budget" if form == "worst" else form
    given = {key: getattr(found, key) for key in ("budget", "multiplier", "leakage_budget")}
    assert [key for key, part in given.items() if part is not None] == [name]
    near = {"rtol": 1e-6, "atol": 1e-7}
    assert_allclose(found.joint.reshape(joint.shape), joint, **near)
    assert_allclose(found.distortion.reshape(distortion.shape), distortion, **near)
    assert_allclose(given[name], level, **near)
    assert_allclose((found.joint * problem.joints).sum(axis=(1, 2)), 0.0, atol=1e-12)
    assert_allclose((joint * parts[0]).sum(axis=(-2, -1)), 0.0, atol=1e-12)


def test_a_sensitivity_hardly_depends_on_the_solver():
    parts = ARRAYS["multiplier"]
    problem = build("multiplier", *parts)
    exact = jp.sensitivity(problem, jp.solve(problem, tol=TOL))
    rough_solution = jp.solve(problem, "mirror-descent", tol=1e-5)
    rough = jp.sensitivity(problem, rough_solution)
    error = np.sqrt(rough_solution.gap)
    assert_allclose(rough.joint, exact.joint, atol=10 * error)
    assert_allclose(rough.distortion, exact.distortion, atol=error)
    # The value is concave in the multipliers: every solution gives a line above it, up to its gap.
    for change in (0.5, 2.0):
        moved = jp.solve(build("multiplier", *parts[:2], change * parts[2]), tol=1e-9)
        line = rough_solution.value + rough.multiplier @ ((change - 1) * parts[2])
        assert moved.value <= line + 1e-9


def binary(budget):
    """A fair bit under Hamming distortion, in the shape of this file: idle symbols, dear outputs, an idle budget."""
    joint, tables = np.zeros((4, 6)), np.zeros((2, 6, 6))
    joint[0, 0] = joint[1, 1] = 0.5
    tables[0] = 2.0
    tables[0, :2, :2] = 1.0 - np.eye(2)
    return joint, tables, np.array([budget, 1.0])


@pytest.mark.parametrize("budget", [0.05, 0.11, 0.3])
def test_binary_rate_distortion(budget):
    """R(D) = ln 2 - h(D), R'(D) = -ln((1-D)/D); flipping with probability D is optimal, so dW/dD is known too."""
    parts = binary(budget)
    value, (_, _, slope) = reverse("budget")(*parts)
    entropy = -budget * np.log(budget) - (1 - budget) * np.log1p(-budget)
    assert_allclose(value, np.log(2) - entropy, atol=1e-9)
    assert_allclose(slope, [-np.log((1 - budget) / budget), 0.0], rtol=1e-8, atol=1e-9)
    direction = (*map(np.zeros_like, parts[:2]), np.array([1.0, 0.0]))
    _, moved = moves_of("budget")(parts, direction)
    assert_allclose(moved["mechanism"][:2, :2], 1 - 2 * np.eye(2), atol=1e-7)
    curved = twice("budget")(parts, direction)[1][2][0]
    assert_allclose(curved, 1 / budget + 1 / (1 - budget), rtol=1e-6)


def test_second_derivatives_are_differences_of_gradients():
    form = "budget"
    parts = ARRAYS[form]
    direction = list(directions(form, seed=3))[-1]
    _, curved = twice(form)(parts, direction)
    for k, part in enumerate(curved):
        expected = difference(lambda *p, k=k: reverse(form)(*p)[1][k], parts, direction)
        assert_allclose(part, expected, atol=1e-5 * np.abs(expected).max())


def test_second_derivatives_are_refused_for_other_solvers():
    joint, tables, level = ARRAYS["multiplier"]
    value = lambda b: jp.optimal_value(build("multiplier", joint, tables, b), solver="mirror-descent", tol=1e-3)  # noqa: E731
    with refused("second derivatives"):
        jax.make_jaxpr(jax.hessian(value))(level)


def test_zeros_of_the_joint():
    """Directions that keep the zeros have the central difference; the other entries are finite."""
    joint, tables, level = ARRAYS["budget"]
    sparse = joint * (default_rng(0).random(joint.shape) < 0.7)
    sparse[3], sparse[:, 5] = 0.0, 0.0  # symbols without mass too
    sparse /= sparse.sum()
    _, (gradient, by_table, _) = reverse("budget")(sparse, tables, level)
    assert np.all(np.isfinite(gradient))
    assert_array_equal(by_table[:, 5], 0.0)
    problem = build("budget", sparse, tables, level)
    solved = jp.solve(build("budget", joint, tables, level), tol=TOL)  # of it only mechanism and prices matter
    held = {name: np.asarray(at("budget", name)(sparse, tables, level)) for name in ("mechanism", "multipliers")}
    found = jp.sensitivity(problem, dataclasses.replace(solved, **held))
    assert np.all(np.isfinite(found.joint))
    kept = sparse > 0
    assert_allclose(found.joint[0][kept], gradient[kept], atol=1e-7)
    change = sparse * default_rng(1).normal(size=sparse.shape)
    parts, direction = (sparse, tables, level), (change, np.zeros_like(tables), np.zeros_like(level))
    expected = difference(at("budget", "value"), parts, direction)
    assert_allclose(np.sum(gradient * change), expected, rtol=1e-6)
    expected = difference(at("budget", "mechanism"), parts, direction)[:5]
    moved = moves_of("budget")(parts, direction)[1]["mechanism"]
    assert np.all(np.isfinite(moved))
    assert_allclose(moved[:5], expected, atol=3e-6 * np.abs(expected).max())


def test_a_budget_with_slack_has_no_slope():
    """And no move of the mechanism: many are optimal."""
    joint, tables, _ = ARRAYS["budget"]
    parts = joint, tables, np.array([2.0, 2.0])
    value, (_, _, slope) = reverse("budget")(*parts)
    assert_allclose(value, 0.0, atol=1e-9)
    assert_allclose(slope, 0.0, atol=1e-9)
    moved = moves_of("budget")(parts, list(directions("budget"))[2])[1]
    assert_allclose(moved["value"], 0.0, atol=1e-9)
    assert all(np.isnan(moved[name]).all() for name in ("mechanism", "leakage", "distortion"))
    problem = jp.DistortionProblem(joint, tables, budget=[2.0, 2.0])
    found = jp.sensitivity(problem, jp.solve(problem))
    assert_array_equal(found.budget, 0.0)
    assert_allclose(found.joint, 0.0, atol=1e-12)


def test_what_is_not_certified_is_not_a_number():
    joint, tables, level = ARRAYS["budget"]
    impossible = -level
    slopes = jax.value_and_grad(value_of("budget"), argnums=(0, 1, 2))
    assert all(np.all(np.isnan(part)) for part in jax.tree.leaves(reverse("budget")(joint, tables, impossible)))
    moved = pulled_back("budget")((joint, tables, impossible), jnp.ones((6, 6)))
    assert all(np.all(np.isnan(part)) for part in moved)
    _, moved = moves_of("budget")((joint, tables, impossible), list(directions("budget"))[2])
    assert all(np.isnan(moved[name]).all() for name in ("value", "mechanism"))
    with refused("no derivative here"):
        slopes(joint, tables, impossible)
    with pytest.raises(jp.InfeasibleError):
        jp.optimal_value(build("budget", joint, tables, impossible))
    with pytest.raises(jp.NotCertifiedError, match="gap"):
        jp.optimal_mechanism(build("budget", joint, tables, level), max_steps=2)


def test_other_solvers_have_the_slope_of_the_value_and_the_moves_of_the_mechanism(free_memory):
    parts = joint, tables, level = ARRAYS["budget"]
    direction = list(directions("budget"))[2]
    of = lambda b: jp.solve(build("budget", joint, tables, b), "mirror-descent", tol=1e-6)  # noqa: E731
    move = jax.jit(lambda b, change: jax.jvp(of, (b,), (change,))[1])(level, direction[2])
    _, moved = moves_of("budget")(parts, direction)
    assert_allclose(move.value, moved["value"], atol=1e-3)
    assert_allclose(move.mechanism, moved["mechanism"], atol=2e-3 * np.abs(moved["mechanism"]).max())
    free_memory(20e3)  # of which mirror descent needs less
    assert np.isnan(jax.jit(jax.grad(lambda b: of(b).mechanism[0, 0]))(level)).all()


def test_how_a_mechanism_moves_has_no_derivative():
    """Not a wrong one either: the end of the central path moves, too, by what is not computed."""
    joint, tables, level = ARRAYS["multiplier"]
    twice = jax.jit(jax.jacfwd(jax.jacfwd(lambda t: mechanism_of("multiplier")(joint, tables, t * level)[0])))
    assert np.isnan(twice(1.0)).all()


def test_outside_of_transformations_it_is_a_certified_solve(solved):
    form, parts, _ = solved
    problem = build(form, *parts)
    solution = jp.solve(problem, tol=TOL)
    assert jp.optimal_value(problem, tol=TOL) == solution.value
    assert_array_equal(jp.optimal_mechanism(problem, tol=TOL), solution.mechanism)
    assert_allclose(at(form, "value")(*parts), solution.value, atol=2 * TOL)
    assert_allclose(at(form, "mechanism")(*parts), solution.mechanism, atol=1e-6)


def test_an_unnormalised_joint_is_divided_by_its_total():
    joint, tables, level = ARRAYS["budget"]
    slope = lambda joint: reverse("budget")(joint, tables, level)[1][0]  # noqa: E731
    assert_allclose(2.0 * slope(2.0 * joint), slope(joint), atol=1e-10)


def test_single_precision_and_wrong_arguments_are_refused_by_name():
    joint, tables, level = ARRAYS["budget"]
    problem = jp.DistortionProblem(joint, tables, budget=level)
    with refused("float64"):
        jax.grad(lambda b: jp.optimal_value(jp.DistortionProblem(joint, tables, budget=b)))(jnp.float32([0.1, 0.2]))
    with jax.enable_x64(False):  # the host path and sensitivity do not depend on the caller's setting
        assert jp.optimal_value(problem, tol=1e-6) == jp.solve(problem, tol=1e-6).value
        assert jp.sensitivity(problem, jp.solve(problem)).joint.dtype == np.float64
    solution = jp.solve(problem)
    batch = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), solution)
    infeasible = jp.solve(jp.DistortionProblem(joint, tables, budget=-level), throw=False)
    other = jp.DistortionProblem(joint[:, :5] / joint[:, :5].sum(), tables[:, :5], budget=level)
    for match, wrong in {
        "tol": lambda: jp.optimal_value(problem, tol=0.0),
        "plain number": lambda: jax.jit(lambda t: jp.optimal_value(problem, tol=t))(1e-3),
        "batch": lambda: jp.sensitivity(problem, batch),
        "infeasible": lambda: jp.sensitivity(problem, infeasible),
        "shape": lambda: jp.sensitivity(other, solution),
        "outside of jit": lambda: jax.jit(lambda b: jp.sensitivity(build("budget", joint, tables, b), solution))(level),
    }.items():
        with refused(match):
            wrong()
