"""Funnels and bottlenecks with a multiplier inside of jit, vmap and grad, against certified results of the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.funnels.local import BottleneckIteration, DifferenceOfConvex
from jaxpriv.funnels.local_steps import channel, descend

from .cases import information, random_joint

FEW = DifferenceOfConvex(starts=8, max_steps=300)
JOINT, PRICES = random_joint(0, 3, 5), np.array([0.1, 0.3, 0.6, 1.0])


@jax.jit
def funnels(joint, prices):
    return jax.vmap(lambda price: jp.solve(jp.FunnelProblem(joint, multiplier=price), FEW))(prices)


@jax.jit
def value(joint, price):
    return jp.solve(jp.FunnelProblem(joint, multiplier=price), FEW).value


def test_a_batch_of_prices_is_as_good_as_the_certified_optima_and_never_better():
    found = funnels(JOINT, PRICES)
    for k, price in enumerate(PRICES):
        best, one = jp.solve(jp.FunnelProblem(JOINT, multiplier=price)), found[k]
        assert best.lower_bound - 1e-12 <= one.value <= best.value + 1e-6
        assert one.lower_bound <= best.lower_bound + 1e-12
        assert one.upper_bound == one.value
        told, leaked = information(np.diag(JOINT.sum(axis=0)) @ one.mechanism), information(JOINT @ one.mechanism)
        assert one.value == pytest.approx(leaked - price * told, abs=1e-13)
        assert (one.disclosure, one.leakage) == (pytest.approx(told, abs=1e-13), pytest.approx(leaked, abs=1e-13))
        np.testing.assert_allclose(one.mechanism.sum(axis=1), 1.0, atol=1e-14)
        np.testing.assert_allclose(one.masses @ one.posteriors, JOINT.sum(axis=0), atol=1e-14)
        assert one.status == ("optimal" if price == 1.0 else "stationary")
    assert "1 optimal" in str(found)


def test_a_batch_is_what_its_parts_are():
    found = funnels(JOINT, PRICES)
    np.testing.assert_allclose([value(JOINT, price) for price in PRICES], found.value, atol=1e-8)


def test_the_value_has_the_slope_of_the_optimum_and_other_results_have_none():
    price, change = 0.3, 1e-4 * (random_joint(1, 3, 5) - JOINT)

    @jax.jit
    def slopes(joint, price):
        told = jax.grad(lambda price: jp.solve(jp.FunnelProblem(joint, multiplier=price), FEW).disclosure)
        return jax.grad(value, argnums=(0, 1))(joint, price), told(price)

    (in_joint, in_price), unknown = slopes(JOINT, price)
    assert in_price == pytest.approx((value(JOINT, price + 1e-4) - value(JOINT, price - 1e-4)) / 2e-4, rel=1e-4)
    moved = (value(JOINT + change, price) - value(JOINT - change, price)) / 2
    assert (in_joint * change).sum() == pytest.approx(moved, rel=1e-3)
    assert np.isnan(unknown)


def test_sharing_the_outputs_of_the_best_starts_reaches_what_no_start_reaches():
    joint, price = np.random.default_rng(1).dirichlet(np.ones(40)).reshape(4, 10), 0.5
    few = DifferenceOfConvex(max_steps=300)
    problem = jp.FunnelProblem(joint, multiplier=price)
    best = jp.solve(problem)
    together = jax.jit(lambda joint: jp.solve(jp.FunnelProblem(joint, multiplier=price), few))(joint)
    assert best.lower_bound - 1e-12 <= together.value <= best.value + 1e-6
    alone = jp.solve(problem, DifferenceOfConvex(max_steps=300, rounds=1))
    assert alone.value > best.value + 1e-5


def test_bottlenecks_and_single_precision():
    few = BottleneckIteration(starts=8, max_steps=1000)
    run = jax.jit(jax.vmap(lambda beta: jp.solve(jp.BottleneckProblem(jnp.asarray(JOINT), beta=beta), few)))
    found = run(np.array([3.0, 10.0]))
    for k, beta in enumerate((3.0, 10.0)):
        best = jp.solve(jp.BottleneckProblem(JOINT, beta=beta))
        assert best.value - 1e-6 <= found.value[k] <= best.upper_bound + 1e-12
        assert best.upper_bound <= found.upper_bound[k] + 1e-12
    with jax.enable_x64(False):
        single = funnels(np.float32(JOINT), np.float32(PRICES[1:2]))
    assert single.value.dtype == single.mechanism.dtype == np.float32
    assert single.value[0] == pytest.approx(float(funnels(JOINT, PRICES).value[1]), abs=1e-4)


def test_symbols_without_mass_and_data_that_is_none():
    wide = np.insert(np.insert(JOINT, 2, 0.0, axis=1), 1, 0.0, axis=0)
    found = funnels(wide, PRICES)
    np.testing.assert_allclose(found.value, funnels(JOINT, PRICES).value, atol=1e-5)
    np.testing.assert_allclose(found.mechanism[:, 2], found.masses, atol=1e-14)
    assert np.isnan(value(JOINT, -0.1))
    assert np.isnan(value(JOINT - 0.2 * (JOINT == JOINT.min()), 0.1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "measure", [jp.leakage.MutualInformation(), jp.leakage.FInformation(jp.leakage.ChiSquared()), jp.leakage.Sibson(2.0)]
)
def test_descents_never_raise_the_lagrangian(measure, dtype):
    logs = np.log(np.random.default_rng(0).dirichlet(np.ones(6), size=(8, 5)) + 1e-9).astype(dtype)
    given, prices = channel(JOINT.astype(dtype)), np.linspace(0.05, 0.9, 8).astype(dtype)
    values = [
        np.asarray(descend(given, measure, prices, logs, np.asarray(1e-12), np.asarray(most), whole=True).value)
        for most in (0, 1, 2, 4, 8, 16, 64, 256)
    ]
    assert (np.diff(values, axis=0) <= 300 * np.finfo(dtype).eps).all()
    assert (values[-1] < values[0]).all()


def test_what_runs_on_the_host_only_is_refused_by_name():
    def solved(**options):
        asked = {name: options.pop(name) for name in ("disclosure", "relevance") if name in options} or {
            "multiplier": 0.1
        }
        kind = jp.BottleneckProblem if "relevance" in asked or options.pop("bottleneck", False) else jp.FunnelProblem
        jax.jit(lambda joint: jp.solve(kind(joint, **asked), **options).value)(JOINT)

    for options, said in (
        ({"disclosure": 0.1}, "^disclosure: outside of jit"),
        ({"relevance": 0.1}, "^relevance: outside of jit"),
        ({"solver": "column-generation"}, "^solver: column-generation runs outside of jit"),
        ({"solver": "bottleneck-iteration"}, "use difference-of-convex for a funnel"),
        ({"bottleneck": True, "solver": "difference-of-convex"}, "use bottleneck-iteration"),
        ({"time_limit": 1.0}, "^time_limit and progress: outside of jit"),
        ({"start": np.eye(4)}, "^start has 4 rows"),
        ({"rtol": 0.1}, "not rtol"),
    ):
        with pytest.raises(jp.InputError, match=said):
            solved(**options)
    with pytest.raises(jp.InputError, match="funnel_frontier runs outside of jit"):
        jax.jit(lambda joint: jp.funnel_frontier(jp.FunnelProblem(joint, multiplier=0.1), multipliers=[0.1]))(JOINT)
