"""`jaxpriv.simplex.minimise`: known optima, bounds, prices, derivatives, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import logsumexp

import jaxpriv as jp
from jaxpriv.simplex import minimise
from tests.cases import raised, refused

RNG = np.random.default_rng(3)
UNIFORM = np.full(4, 0.25)
TARGET = np.array([0.3, 0.9, -0.2, 0.4])
COSTS = np.arange(4.0)[None]


def squares(x, target=TARGET):
    return 0.5 * jnp.sum((x - target) ** 2)


def assert_optimal(found, optimum):
    assert found.status == "optimal"
    assert found.lower_bound <= optimum * (1 + 1e-12) + 1e-12
    assert found.value == pytest.approx(optimum, rel=2e-6, abs=2e-6)
    assert found.gap <= 1e-6 * max(1.0, abs(optimum))


def h(p):
    return -p * np.log(p) - (1 - p) * np.log(1 - p)


def lost_information(p, channel):
    out = p @ channel
    return out @ jnp.log(out) - (p @ jax.scipy.special.xlogy(channel, channel)).sum()


@pytest.mark.parametrize(
    ("channel", "capacity"),
    [
        ([[0.89, 0.11], [0.11, 0.89]], np.log(2) - h(0.11)),
        ([[0.7, 0.0, 0.3], [0.0, 0.7, 0.3]], 0.7 * np.log(2)),
        ([[1.0, 0.0], [0.3, 0.7]], np.log(1 + 0.7 * 0.3 ** (0.3 / 0.7))),
    ],
    ids=["symmetric", "erasure", "Z"],
)
def test_the_capacity_of_a_channel(channel, capacity):
    assert_optimal(minimise(lost_information, [0.2, 0.8], args=(np.array(channel),)), -capacity)


def test_least_squares_over_several_simplices_within_a_limit():
    a, target = RNG.normal(size=(9, 12)), RNG.normal(size=9)
    costs = RNG.uniform(size=(2, 3, 4))
    limits = np.array([1.0, 1.4])
    found = minimise(
        lambda x: squares(a @ x.ravel(), target), np.full((3, 4), 0.25), constraints=(costs, limits), tol=1e-9
    )
    reference = minimize(
        lambda x: 0.5 * ((a @ x - target) ** 2).sum(),
        np.full(12, 0.25),
        jac=lambda x: a.T @ (a @ x - target),
        bounds=[(0, 1)] * 12,
        constraints=[
            {"type": "eq", "fun": lambda x: x.reshape(3, 4).sum(1) - 1},
            {"type": "ineq", "fun": lambda x: limits - costs.reshape(2, -1) @ x},
        ],
        options={"ftol": 1e-15, "maxiter": 500},
    )
    assert found.status == "optimal"
    assert found.gap <= 1e-9
    assert found.value == pytest.approx(reference.fun, rel=1e-7)
    assert (np.tensordot(costs, found.x, 2) <= limits + 1e-12).all()
    assert found.prices.max() > 1e-2


def project(v):
    """The nearest distribution, by sorting."""
    ordered = np.sort(v)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(v) + 1)
    return np.maximum(v - excess[ordered > excess][-1], 0)


def test_projections_as_by_sorting_and_a_batch_as_one_by_one():
    points = RNG.normal(size=(6, 9))

    def projection(v):
        return minimise(squares, jnp.full(9, 1 / 9), args=(v,), tol=1e-9)

    batch = jax.vmap(projection)(jnp.asarray(points))
    assert (batch.status == "optimal").all()
    assert_allclose(batch.x, [project(v) for v in points], atol=1e-4)
    alone = projection(points[2])
    assert batch.steps[2] == alone.steps
    assert_allclose(batch.x[2], alone.x, atol=1e-12)
    assert str(batch).startswith("Minimum\n  status       6 optimal\n")


def test_the_price_of_a_return_is_the_slope_of_the_least_variance():
    factors = RNG.normal(size=(30, 8))
    covariance, mean = factors.T @ factors / 30, np.linspace(0.0, 0.14, 8)

    def variance(x):
        return x @ covariance @ x

    def least(wanted):
        return minimise(variance, np.full(8, 1 / 8), constraints=(-mean[None], [-wanted]), tol=1e-10)

    found = least(0.1)
    assert mean @ np.asarray(found.x) >= 0.1 - 1e-12
    slope = (least(0.1001).value - least(0.0999).value) / 2e-4
    assert found.prices[0] == pytest.approx(float(slope), rel=1e-3)


@pytest.mark.parametrize(
    ("a", "b", "optimum", "priced"),
    [
        (COSTS, [100.0], 0.08, [False]),
        (COSTS, [0.4], 0.27, [True]),
        (COSTS, [0.0], 0.75, [True]),  # no slack: all mass on the first
        (1e6 * COSTS, [0.4e6], 0.27, [True]),
        (np.concatenate([COSTS, -COSTS]), [0.4, -0.4], 0.27, [True, None]),  # an equation
        (0.0 * COSTS, [0.0], 0.08, [False]),
    ],
)
def test_constraints_that_bind_and_that_do_not(a, b, optimum, priced):
    found = minimise(squares, UNIFORM, constraints=(a, b))
    assert_optimal(found, optimum)
    assert all(wanted is None or (price > 1e-9) == wanted for price, wanted in zip(found.prices, priced, strict=True))


def test_constraints_that_contradict_each_other():
    a, b = np.concatenate([COSTS, -COSTS]), [1.0, -1.5]
    with raised(jp.InfeasibleError, r"constraints\[1\]\[0\] and constraints\[1\]\[1\] cannot") as error:
        minimise(squares, UNIFORM, constraints=(a, b))
    prices = error.value.proof["multipliers"]
    assert (prices >= 0).all()
    assert (prices @ a).min() == pytest.approx(error.value.proof["bound"], rel=1e-6, abs=1e-6 * prices.max())
    assert error.value.proof["bound"] > error.value.proof["allowed"]
    batch = jax.vmap(lambda b: minimise(squares, UNIFORM, constraints=(COSTS, b)))(jnp.array([[-0.1], [0.4]]))
    assert batch.status.tolist() == ["infeasible", "optimal"]
    assert np.isinf([batch.value[0], batch.lower_bound[0]]).all()
    assert np.isnan(batch.x[0]).all()


def negative_entropy(x, costs):
    return (x * (jnp.log(x) + costs)).sum()


@pytest.mark.parametrize("cost", [0.0, 2.3e-2, 1e6])
def test_a_constraint_that_cannot_hold_by_itself_is_refused_at_once(cost):
    """A slope of one outcome has no price to find: sixty attempts ended without a mechanism, and without a proof."""
    a = np.full((1, 2), cost)
    with raised(jp.InfeasibleError, r"constraints\[1\]\[0\] cannot hold") as error:
        minimise(negative_entropy, np.full(2, 0.5), args=(0.0,), constraints=(a, [cost * (1 - 1e-9) - 1e-12]))
    assert error.value.proof["bound"] > error.value.proof["allowed"]


def scaled_square(x, scale):
    return scale * (x @ x)


@pytest.mark.parametrize(
    ("scale", "limit", "optimum"), [(1.0, 0.2, 0.36), (1e-40, 0.0, 0.5e-40), (1e40, 0.2, 0.36e40), (0.0, 0.2, 0.0)]
)
def test_a_start_where_the_slope_says_nothing_of_the_size_of_f(scale, limit, optimum):
    """No point within the limit was found where all slopes at the start were equal: sixty steps were too long."""
    given = {"args": (scale,), "constraints": ([[1.0, 0.0, 0.0]], [limit]), "rtol": 1e-6}
    found = minimise(scaled_square, np.full(3, 1 / 3), **given)
    assert found.status == "optimal"
    assert found.value == pytest.approx(optimum, rel=2e-6, abs=0.0)


@jax.custom_jvp
def wrongly_derived(x):
    return squares(x)


wrongly_derived.defjvps(lambda move, _, x: -((x - TARGET) * move).sum())


@pytest.mark.parametrize(
    "f",
    [lambda x: -x @ x, lambda x: jnp.cos(9.0 * x[0]) + x[1] ** 2, wrongly_derived, lambda x: 1e-3 * wrongly_derived(x)],
)
def test_a_tangent_above_f_is_said(f):
    """The value was below the lower bound, and called optimal."""
    init = np.array([0.1, 0.3, 0.2, 0.4])
    with refused("f is below a tangent: it is not convex, its gradient is wrong"):
        minimise(f, init)
    found = jax.jit(lambda init: minimise(f, init))(init)
    assert (found.status, found.lower_bound) == ("not_certified", -np.inf)


def test_a_convex_function_that_loses_digits_is_refused_for_what_they_are_worth_alone():
    """Its rounding of 2e-6 was called a lack of convexity."""
    offset = lambda x: (1e10 + squares(x)) - 1e10  # noqa: E731
    with refused("or its rounding is above tol"):
        minimise(offset, UNIFORM)
    assert minimise(offset, UNIFORM, tol=1e-4).status == "optimal"
    assert minimise(lambda x: 1e10 + squares(x), UNIFORM).status == "optimal"


@pytest.mark.parametrize("costs", [[0.0, 1.0, 30.0, 200.0], [0.0, 0.0, 0.0, 0.0]])
def test_slopes_that_are_infinite_at_zero_and_a_start_with_zeros(costs):
    found = minimise(negative_entropy, np.array([0, 0, 0, 1]), args=(np.array(costs),))
    assert_optimal(found, -logsumexp(-np.array(costs)))


def test_a_tree_of_vectors_of_several_lengths():
    tree = {"p": jnp.full(3, 1 / 3), "w": [jnp.full((2, 1, 4), 0.25), jnp.ones((2, 1))]}
    target = jax.tree.map(lambda leaf: RNG.normal(size=leaf.shape), tree)
    costs = jax.tree.map(lambda leaf: RNG.uniform(size=(1, *leaf.shape)), tree)

    def loss(x):
        return sum(jax.tree.leaves(jax.tree.map(squares, x, target)))

    def used(x):
        return float(sum(jax.tree.leaves(jax.tree.map(lambda a, x: (a[0] * np.asarray(x)).sum(), costs, x))))

    free = minimise(loss, tree, constraints=(costs, [100.0]), tol=1e-9)
    nearest = jax.tree.map(lambda v: np.apply_along_axis(project, -1, v), target)
    assert_optimal(free, float(loss(nearest)))
    assert jax.tree.structure(free.x) == jax.tree.structure(tree)
    jax.tree.map(lambda x, v: assert_allclose(x, v, atol=1e-3), free.x, nearest)
    found = minimise(loss, tree, constraints=(costs, [used(free.x) - 0.1]), tol=1e-9)
    assert used(found.x) == pytest.approx(used(free.x) - 0.1)
    assert found.lower_bound > free.value


def test_a_single_outcome():
    found = minimise(lambda x: jnp.sum(x**2), np.ones((3, 1)))
    assert_optimal(found, 3.0)
    assert found.steps == 1


# ------------------------------------------------------------------------------------------------ derivatives

MATRIX = jnp.asarray(RNG.normal(size=(9, 8)))
DATA = (
    jnp.asarray(RNG.normal(size=9)) * 2,
    jnp.asarray(RNG.uniform(size=(1, 2, 4))),
    jnp.array([0.75]),
)


def residual(x, data):
    return squares(MATRIX.astype(x.dtype) @ x.ravel(), data)


def best(data, a, b, tol=1e-13):
    start = jnp.full((2, 4), 0.25, data.dtype)
    return minimise(residual, start, args=(data,), constraints=(a, b), tol=tol, rtol=tol, max_steps=2000)


def value_and_point(*data):
    found = best(*data)
    return found.value, found.x, found.prices


def test_derivatives_of_the_optimum_are_its_differences():
    found, forward = jax.linearize(value_and_point, *DATA)
    assert found[2].min() > 0.1
    assert 3 < (found[1] > 1e-6).sum() < 8
    reverse = jax.linear_transpose(forward, *DATA)
    for _ in range(3):
        along = tuple(jnp.asarray(RNG.normal(size=one.shape)) for one in DATA)
        slopes, step = forward(*along), 1e-5
        ahead, back = (
            value_and_point(*(one + sign * step * by for one, by in zip(DATA, along, strict=True))) for sign in (1, -1)
        )
        for slope, up, down in zip(slopes, ahead, back, strict=True):
            expected = (up - down) / (2 * step)
            assert_allclose(slope, expected, atol=1e-4 * abs(expected).max())
        weights = tuple(jnp.asarray(RNG.normal(size=one.shape)) for one in found)
        pulled = sum((one * by).sum() for one, by in zip(reverse(weights), along, strict=True))
        assert pulled == pytest.approx(float(sum((one * by).sum() for one, by in zip(slopes, weights, strict=True))))


def test_second_derivatives_of_the_value():
    slope = jax.grad(lambda b: best(*DATA[:2], b).value)
    second = jax.jacfwd(slope)(DATA[2])[0, 0]
    expected = (slope(DATA[2] + 1e-4) - slope(DATA[2] - 1e-4))[0] / 2e-4
    assert second == pytest.approx(float(expected), rel=1e-4)
    assert second > 1


def test_what_f_closes_over_has_derivatives():
    def value(data):
        return minimise(lambda x: residual(x, data), jnp.full((2, 4), 0.25), tol=1e-12).value

    found = minimise(residual, jnp.full((2, 4), 0.25), args=(DATA[0],), tol=1e-12)
    expected = DATA[0] - MATRIX @ found.x.ravel()
    assert_allclose(jax.grad(value)(DATA[0]), expected, atol=1e-5)
    assert_allclose(jax.jit(jax.grad(value))(DATA[0]), expected, atol=1e-5)


def test_the_derivative_of_a_large_optimum_is_nan_and_that_of_its_value_is_not():
    target = jnp.asarray(RNG.normal(size=(2, 1000)))

    def at(scale):
        return minimise(squares, jnp.full((2, 1000), 1e-3), args=(scale * target,), tol=1e-4)

    slope = jax.grad(lambda scale: at(scale).value)(1.0)
    found = at(1.0).x
    assert slope == pytest.approx(float(((target - found) * target).sum()), rel=1e-6)
    assert np.isnan(jax.grad(lambda scale: at(scale).x[0, 0])(1.0))


def test_derivatives_of_an_optimum_that_is_not_unique_are_nan():
    """Rounding of a singular matrix was returned: 1e15 and more."""
    same = MATRIX.at[:, 1].set(MATRIX[:, 0])

    def loss(x, data):
        return squares(same @ x, data)

    def at(data):
        return minimise(loss, np.full(8, 0.125), args=(data,), tol=1e-12)

    assert np.isnan(jax.jacfwd(lambda data: at(data).x)(DATA[0])).all()
    assert np.isnan(jax.grad(lambda data: at(data).x[0])(DATA[0])).all()
    assert_allclose(jax.grad(lambda data: at(data).value)(DATA[0]), DATA[0] - same @ at(DATA[0]).x, atol=1e-5)


# ------------------------------------------------------------------------------------------------ float32, arguments


@pytest.mark.parametrize("tol", [None, 0.0])
def test_float32_stays_float32_and_its_bounds_hold(tol):
    found = best(*(one.astype(np.float32) for one in DATA), tol=tol)
    optimum = float(best(*DATA).value)
    assert {one.dtype for one in (found.x, found.value, found.lower_bound, found.prices)} == {np.dtype(np.float32)}
    assert found.lower_bound <= optimum
    assert found.value - optimum <= (1e-4 if tol is None else 1e-5) * max(1.0, optimum)
    assert found.gap <= (1e-4 if tol is None else 5e-5) * max(1.0, optimum)
    assert found.status == ("optimal" if tol is None else "not_certified")


def test_progress_is_recorded_and_the_result_is_the_same():
    history = jp.History(every=4)
    found = minimise(squares, UNIFORM, progress=history)
    assert history.records[-1].step == found.steps
    assert history.records[-1].gap == found.gap
    assert (np.diff(history["value"]) <= 0).all()
    assert (np.diff(history["bound"]) >= 0).all()
    assert minimise(squares, UNIFORM).steps == found.steps
    with refused("progress is for calls outside of jit"):
        jax.jit(lambda x: minimise(squares, x, progress=True))(UNIFORM)


def test_too_few_steps_leave_a_bound():
    found = minimise(squares, UNIFORM, max_steps=3)
    assert found.status == "not_certified"
    assert found.lower_bound <= 0.08 <= found.value
    assert (found.steps, found.gap > 1e-6) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"init": [0.5, np.nan, 0.5, 0.0]}, r"init\[1\] is NaN"),
        ({"init": {"w": np.array([[0.5, 0.5], [1.5, -0.5]])}}, r"init\['w'\]\[1, 1\] is negative"),
        ({"init": np.array([[0.5, 0.5], [0.5, 0.6]])}, r"init\[1\] does not sum to 1"),
        ({"init": [0.5, 0.6]}, "init does not sum to 1"),
        ({"init": np.zeros((0, 3))}, "init is empty along axis 0"),
        ({"init": 1.0}, "init is a number"),
        ({"init": [[0.5, 0.5], [1.0]]}, "init is not a rectangular array of numbers"),
        ({"constraints": ([[1.0], [1.0, 2.0]], [1.0])}, r"constraints\[0\] is not a rectangular array of numbers"),
        ({"init": ()}, "init holds no array"),
        ({"f": 3}, "f must be a function"),
        ({"f": lambda x: x}, "f must return one real number"),
        ({"f": lambda x: jnp.nan * x.sum()}, "f or its gradient is not finite near init"),
        ({"args": TARGET}, "args must be a tuple"),
        ({"constraints": COSTS}, "constraints must be a pair"),
        ({"constraints": (COSTS[0], [1.0])}, r"constraints\[0\] has shape \(4,\), not \(1, 4\)"),
        ({"constraints": ({"p": COSTS}, [1.0])}, r"constraints\[0\] must be a tree of the form of init"),
        ({"constraints": (COSTS * [np.nan, 1.0, 1.0, 1.0], [1.0])}, r"constraints\[0\]\[0, 0\] is NaN"),
        ({"constraints": (COSTS, [np.inf])}, r"constraints\[1\]\[0\] is infinite"),
        ({"tol": -1.0}, "tol must be"),
        ({"max_steps": 0}, "max_steps must be"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with refused(message):
        minimise(**{"f": squares, "init": UNIFORM} | arguments)


def test_a_start_of_whole_numbers_is_taken_in_the_usual_precision():
    found = minimise(lambda x: ((x - jnp.array([0.5, 0.3, 0.2])) ** 2).sum(), jnp.array([1, 0, 0]))
    assert found.x.dtype == jnp.zeros(0).dtype
    assert_allclose(found.x, [0.5, 0.3, 0.2], atol=2e-2)
