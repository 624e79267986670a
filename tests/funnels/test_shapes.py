"""Smooth average measures: their shapes bound what they should, and their funnels are certified."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage
from jaxpriv.funnels.pricing.boxes import BoxFunnelPricer, descended
from jaxpriv.funnels.pricing.shapes import Lagrangian, Norm, shape_of
from jaxpriv.program import program_of
from tests.cases import drawn_joint, value_of
from tests.problems.measured_cases import SMOOTH

from .cases import conditional_of, entropy_of, mixtures_at, most_told, proved, source_of

MEASURES = {name: one for name, one in SMOOTH.items() if name not in ("sibson-0.5", "arimoto-3")}
MEASURES |= {"sibson-3": leakage.Sibson(3.0), "arimoto-0.5": leakage.Arimoto(0.5)}


def shape_on(joint, measure):
    """The shape of an average measure, from its term in a problem."""
    distances = np.zeros((joint.shape[1], 2))
    return shape_of(program_of(jp.DistortionProblem(joint, distances, budget=1.0, leakage=measure)).terms[0])


@pytest.mark.parametrize("name", MEASURES)
def test_planes_slopes_and_curvature_bound_the_shape(name):
    joint, rng = drawn_joint(3, 3, 9), np.random.default_rng(3)
    shape = shape_on(joint, MEASURES[name])
    symbols = (joint / joint.sum(axis=0)).T
    one, other = (0.999 * rng.dirichlet(np.full(3, size), 500) + 0.001 / 3 for size in (1.0, 0.3))
    planes = shape.gradient(one)[0]
    np.testing.assert_allclose((planes * one).sum(axis=1), shape.value(one), atol=1e-11)
    assert (shape.value(other) >= (planes * other).sum(axis=1) - 1e-11).all()
    assert (shape.value(other) >= shape.least - 1e-12).all()
    low, high = np.minimum(one, other), np.maximum(one, other)
    least, most = shape.slopes(symbols, low, high)
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        between = one + share * (other - one)
        slopes = shape.gradient(between)[0] @ symbols.T
        rounding = 1e-8 * (1 + np.abs(slopes))
        assert (least <= slopes + rounding).all()
        assert (most >= slopes - rounding).all()
        assert (shape.curvature(between) <= shape.bend(low, high) * (1 + 1e-6)).all()
        # What lies above a plane by no more than it does at `between` may not be cut off.
        z = one * (1 - 1e-9) + 1e-9 / 3
        above = shape.value(between) - (shape.gradient(z)[0] * between).sum(axis=1)
        confined = shape.ball(above, z, low, high)
        assert (confined[0] <= between + 1e-9).all()
        assert (confined[1] >= between - 1e-9).all()


@pytest.mark.parametrize("name", MEASURES)
def test_no_descent_goes_below_the_bound_of_the_search(name):
    for seed in range(3):
        joint, rng = drawn_joint(seed, 3, 7), np.random.default_rng(seed)
        conditional, lam = conditional_of(joint), float(rng.choice([0.1, 0.3, 0.6]))
        shape = shape_on(joint, MEASURES[name])
        prices = shape.value(conditional.T) - 0.5 * lam * rng.random(7)
        found = BoxFunnelPricer(conditional, shape=shape).price(prices, lam, 4)
        starts = np.vstack([rng.dirichlet(np.full(7, size), 100) for size in (0.1, 0.4, 1.0)])
        points = np.vstack([found.posteriors, descended(Lagrangian(shape, conditional.T, prices, lam), starts)])
        values = shape.value(points @ conditional.T) - points @ prices
        values -= lam * (points * np.log(np.where(points > 0, points, 1.0))).sum(axis=1)
        assert found.exact
        assert found.bound <= values.min() + 1e-12
        assert found.bound >= values.min() - 2e-8


@pytest.mark.parametrize("name", ["arimoto-0.5", "hellinger", "gain-brier"])
def test_a_funnel_is_certified_and_no_worse_than_that_of_least_information(name):
    joint, measure = drawn_joint(5, 3, 5), MEASURES[name]
    whole = entropy_of(joint)
    problem = jp.FunnelProblem(joint, leakage=measure, disclosure=0.9 * whole)
    found = proved(problem)
    assert found.disclosure >= 0.9 * whole - 1e-12
    informed = jp.solve(jp.FunnelProblem(joint, disclosure=0.9 * whole))
    assert found.value <= value_of(measure, joint, informed.mechanism) + 1e-6


def test_the_most_disclosed_within_a_budget_is_the_disclosure_of_that_leakage():
    joint, measure = drawn_joint(5, 3, 5), MEASURES["chi-squared"]
    least = jp.solve(jp.FunnelProblem(joint, leakage=measure, disclosure=0.9 * entropy_of(joint)))
    found = proved(jp.FunnelProblem(joint, leakage=measure, leakage_budget=least.value))
    assert found.value == pytest.approx(0.9 * entropy_of(joint), abs=1e-5)


@pytest.mark.parametrize("name", MEASURES)
def test_without_leakage_all_smooth_measures_have_one_optimum(name):
    """The linear program over the posteriors with P(S|y) = P(S), by its vertices."""
    joint = drawn_joint(8, 2, 4)
    found = proved(jp.FunnelProblem(joint, leakage=MEASURES[name], leakage_budget=0.0))
    assert value_of(leakage.MutualInformation(), joint, found.mechanism) < 1e-20
    source, vertices = source_of(joint), mixtures_at(joint[0].sum(), conditional_of(joint)[0])
    assert found.value == pytest.approx(most_told(source, vertices), abs=1e-6)


def test_without_leakage_a_function_of_x_hides_what_the_classes_hide():
    joint = np.array([[0.2, 0.3, 0.0], [0.0, 0.0, 0.5]])
    found = proved(jp.FunnelProblem(joint, leakage=leakage.Arimoto(2.0), leakage_budget=0.0))
    assert found.value == pytest.approx(entropy_of(joint) - np.log(2.0), abs=1e-9)


def test_all_of_x_is_disclosed_by_x_itself_alone():
    joint, measure = drawn_joint(0, 2, 3, 0.15), MEASURES["hellinger"]
    found = proved(jp.FunnelProblem(joint, leakage=measure, disclosure=entropy_of(joint)))
    assert found.value == pytest.approx(value_of(measure, joint, np.eye(3)), abs=1e-6)


@pytest.mark.parametrize("measure", [leakage.FInformation(leakage.KullbackLeibler()), leakage.Sibson(1.0)], ids=str)
def test_mutual_information_under_another_name_has_its_funnel(measure):
    joint = drawn_joint(5, 3, 5)
    joint[2] = 0.5 * joint[1]  # rows in proportion are one row of a relative entropy
    joint /= joint.sum()
    target = 0.9 * entropy_of(joint)
    found = proved(jp.FunnelProblem(joint, disclosure=target, leakage=measure))
    plain = jp.solve(jp.FunnelProblem(joint, disclosure=target))
    assert found.value == pytest.approx(plain.value, abs=2e-6)


def test_a_measure_that_x_leaks_without_limit_is_left_to_the_local_method():
    joint = drawn_joint(7, 2, 4)
    joint[0, 0] = 0.0
    measure = leakage.FInformation(leakage.ReverseKullbackLeibler())
    found = jp.solve(jp.FunnelProblem(joint / joint.sum(), leakage=measure, leakage_budget=0.05), time_limit=1e-9)
    assert found.solver != "vertex-generation"


@pytest.mark.parametrize("form", ["disclosure", "multiplier"])
def test_what_leaks_without_limit_is_left_out_of_the_local_search(form):
    """Of S = X, X itself leaks infinitely much, and so does each symbol alone; inner posteriors do not."""
    source, measure = np.array([0.3, 0.7]), leakage.FInformation(leakage.ReverseKullbackLeibler())
    found = jp.solve(jp.FunnelProblem(np.diag(source), leakage=measure, **{form: 0.4}))
    some = np.geomspace(1e-6, 0.5, 200)
    some = np.concatenate([some, 1.0 - some])
    rows = np.stack(np.meshgrid(some, some), axis=-1).reshape(-1, 2)  # P(first output | x)
    outputs = source * np.stack([rows, 1.0 - rows], axis=1)  # (N, y, x)
    product = source * outputs.sum(axis=2, keepdims=True)
    lifts = np.log(outputs / product)
    disclosed, leaked = (outputs * lifts).sum(axis=(1, 2)), -(product * lifts).sum(axis=(1, 2))
    values = leaked[disclosed >= 0.4] if form == "disclosure" else leaked - 0.4 * disclosed
    assert found.lower_bound <= found.value <= values.min() + 1e-4
    assert np.isfinite(found.value)
    assert form != "disclosure" or found.disclosure >= 0.4


def test_powers_of_a_large_order_do_not_overflow():
    shape, one, all_of = Norm(500.0, np.array([0.1, 0.9])), np.array([[1.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(shape.gradient(one)[0], [[0.1 ** (-499 / 500), 0.0]], atol=1e-12)
    least, most = shape.slopes(np.eye(2), all_of[:1], all_of[1:])
    assert (least >= 0.0).all()
    assert (most <= [[10.0, 1 / 0.9]]).all()
    problem = jp.FunnelProblem(np.diag([0.1, 0.9]), leakage=leakage.Sibson(500.0), multiplier=0.01)
    found = jp.solve(problem, time_limit=0.5)
    assert -0.01 <= found.lower_bound <= found.upper_bound
