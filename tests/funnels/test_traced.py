"""Funnels and bottlenecks with a multiplier inside of jit, vmap and grad, against certified results of the host."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from tests.cases import assert_refused, drawn_joint

from .cases import released

# Of this joint and these prices no descent of a whole mechanism comes nearer to the optimum than 1e-5 at .5.
JOINT, PRICES = drawn_joint(1, 4, 10), np.array([0.3, 0.5, 1.0])


@jax.jit
def moving(joint, prices, *changes):
    """The solution for each price, and how its value and its disclosure move."""

    def each(joint, price):
        found = jp.solve(jp.FunnelProblem(joint, multiplier=price))
        return (found.value, found.disclosure), found

    def moved(price, change):
        _, slopes, found = jax.jvp(each, (joint, price), (changes[0], change), has_aux=True)
        return found, *slopes

    return jax.vmap(moved)(prices, changes[1])


def funnels(joint, prices):
    return jax.device_get(moving(joint, prices, np.zeros_like(joint), np.zeros_like(prices))[0])


def test_a_batch_is_as_good_as_the_certified_optima_and_never_better():
    found = funnels(JOINT, PRICES)
    for k, price in enumerate(PRICES):
        best, one = jp.solve(jp.FunnelProblem(JOINT, multiplier=price)), found[k]
        assert best.lower_bound - 1e-12 <= one.value <= best.value + 1e-6
        assert one.lower_bound <= best.lower_bound + 1e-12
        assert one.upper_bound == one.value
        disclosed, leaked = released(JOINT, one.mechanism)
        assert one.value == pytest.approx(leaked - price * disclosed, abs=1e-13)
        assert (one.disclosure, one.leakage) == (pytest.approx(disclosed, abs=1e-13), pytest.approx(leaked, abs=1e-13))
        assert_allclose(one.mechanism.sum(axis=1), 1.0, rtol=1e-14)
        assert_allclose(one.masses @ one.posteriors, JOINT.sum(axis=0), atol=1e-14)
        assert one.status in (("optimal",) if price == 1.0 else ("stationary", "best_known"))
    assert "1 optimal" in str(found)
    assert_refused(r"a batch has none; take one result of it, solution\[i\]", getattr, found, "message")


def test_the_value_has_the_slope_of_the_optimum_and_other_results_have_none():
    price, step = PRICES[1], 1e-3
    change = step * (np.full_like(JOINT, 1 / JOINT.size) - JOINT)

    _, slopes, unknown = moving(JOINT, np.full(3, price), change, np.array([0.0, 1.0, 0.0]))
    assert np.isnan(unknown).all()
    alone = jax.jit(lambda price: jp.solve(jp.FunnelProblem(JOINT, multiplier=price)).value)(price)
    assert alone == pytest.approx(float(funnels(JOINT, PRICES).value[1]), abs=1e-7)  # a batch is what its parts are
    low, _, high = funnels(JOINT, price + step * np.array([-1.0, 0.0, 1.0])).value
    assert slopes[1] - slopes[0] == pytest.approx((high - low) / (2 * step), rel=1e-3)
    low, high = (funnels(JOINT + way * change, PRICES).value[1] for way in (-1, 1))
    assert slopes[0] == pytest.approx((high - low) / 2, rel=1e-2)


def test_symbols_without_mass_and_data_that_is_none():
    joint = JOINT.copy()
    joint[:, 2] = 0.0
    joint[1] = 0.0
    joint /= joint.sum()
    found, best = funnels(joint, PRICES)[0], jp.solve(jp.FunnelProblem(joint, multiplier=PRICES[0]))
    assert best.lower_bound - 1e-12 <= found.value <= best.value + 1e-6
    assert_allclose(found.mechanism[2], found.masses, atol=1e-14)
    refused = funnels(JOINT, -PRICES)
    assert np.isnan(refused.value).all()
    assert set(refused.status) == {"not_certified"}
    assert np.isnan(funnels(JOINT - 0.2 * (JOINT.min() == JOINT), PRICES).value).all()


@pytest.mark.parametrize(
    ("kind", "target", "options", "said"),
    [
        (jp.FunnelProblem, {"disclosure": 0.1}, {}, "^disclosure: outside of jit"),
        (jp.BottleneckProblem, {"relevance": 0.1}, {}, "^relevance: outside of jit"),
        (jp.FunnelProblem, {"multiplier": 0.1}, {"solver": "column-generation"}, "^solver: column-generation runs"),
        (jp.FunnelProblem, {"multiplier": 0.1}, {"solver": "bottleneck-iteration"}, "use difference-of-convex"),
        (jp.BottleneckProblem, {"beta": 9.0}, {"solver": "difference-of-convex"}, "use bottleneck-iteration"),
        (jp.FunnelProblem, {"multiplier": 0.1}, {"time_limit": 1.0}, "^time_limit and progress: outside of jit"),
        (jp.FunnelProblem, {"multiplier": 0.1}, {"start": np.eye(4)}, "^start has 4 rows"),
        (jp.FunnelProblem, {"multiplier": 0.1}, {"rtol": 0.1}, "not rtol"),
    ],
)
def test_what_runs_on_the_host_only_is_refused_by_name(kind, target, options, said):
    assert_refused(said, jax.jit(lambda joint: jp.solve(kind(joint, **target), **options).value), JOINT)


@pytest.mark.parametrize(("kind", "form"), [(jp.FunnelProblem, "disclosure"), (jp.BottleneckProblem, "relevance")])
def test_a_traced_target_is_refused(kind, form):
    assert_refused(
        f"^{form}: outside of jit", jax.jit(lambda target: jp.solve(kind(JOINT, **{form: target})).value), 0.1
    )


def test_a_traced_frontier_is_refused():
    assert_refused(
        "funnel_frontier runs outside of jit",
        jax.jit(lambda joint: jp.funnel_frontier(jp.FunnelProblem(joint, multiplier=0.1), multipliers=[0.1])),
        JOINT,
    )


def test_what_is_computed_of_a_problem_is_no_part_of_its_tree():
    joint = drawn_joint(0, 3, 4)
    read, other = (jp.FunnelProblem(joint, multiplier=0.3) for _ in range(2))
    assert read.reduction is read.reduction
    assert jax.tree.structure(read) == jax.tree.structure(other)
