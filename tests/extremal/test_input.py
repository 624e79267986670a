"""What is refused, and the ends of the range of eps."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jaxpriv import ResourceError, leakage, maximum_utility
from tests.cases import assert_refused, drawn_joint, raised

LDP, PML = leakage.LocalDifferentialPrivacy(), leakage.MaxLift()
SOURCE = (0.5, 0.3, 0.2)


@pytest.mark.parametrize("eps", [-0.1, float("nan"), -float("inf"), True, "1", None])
def test_eps_is_checked(eps):
    assert_refused(r"limit\[0\]", maximum_utility, SOURCE, (LDP, eps))


@pytest.mark.parametrize("limit", [None, (), LDP, (LDP,), [(LDP, 1.0, 2.0)], (leakage.MutualInformation(), 1.0), 1.0])
def test_limit_is_a_pair_of_pointwise_measure_and_number(limit):
    assert_refused("limit", maximum_utility, SOURCE, limit)


def test_combinations_that_are_not_supported():
    assert_refused(
        "neighbours", maximum_utility, SOURCE, (leakage.LocalDifferentialPrivacy(np.eye(3, dtype=bool)), 1.0)
    )
    assert_refused("together", maximum_utility, SOURCE, [(LDP, 1.0), (PML, 0.5)])


@pytest.mark.parametrize(
    "source", [(0.5, 0.6), (0.5, -0.5, 1.0), (np.nan, 1.0), (), (0.0, 0.0), np.full((2, 2, 2), 0.125), "ab"]
)
def test_source_is_a_distribution(source):
    assert_refused("source_or_joint", maximum_utility, source, (LDP, 1.0))


@pytest.mark.parametrize("tol", [0.0, -1.0, np.nan])
def test_tolerance_is_positive(tol):
    assert_refused("tol", maximum_utility, SOURCE, (LDP, 1.0), tol=tol)


def test_tracers_are_refused():
    assert_refused("host", jax.jit(lambda p: maximum_utility(p, (LDP, 1.0))), np.array(SOURCE))


@pytest.mark.parametrize("measure", [LDP, PML, leakage.Lift(), leakage.MinLift()])
def test_no_leakage_no_utility(measure):
    result = maximum_utility(SOURCE, (measure, 0.0))
    assert (result.value, result.upper_bound, result.status) == (0.0, 0.0, "optimal")
    assert_array_equal(result.mechanism, np.ones((3, 1)))


@pytest.mark.parametrize("measure", [LDP, PML, leakage.Lift(), leakage.MinLift()])
@pytest.mark.parametrize("eps", [float("inf"), 400.0, 100.0])
def test_without_a_limit_everything_is_told(measure, eps):
    entropy = -np.dot(SOURCE, np.log(SOURCE))
    result = maximum_utility(SOURCE, (measure, eps))
    assert result.value == pytest.approx(entropy, abs=1e-12)
    assert result.value <= entropy + 1e-15 <= result.upper_bound + 2e-15
    assert result.leakage[0] <= eps


@pytest.mark.parametrize("measure", [LDP, PML, leakage.Lift()])
def test_tiny_eps(measure):
    for eps in (1e-17, 1e-9, 1e-5):
        result = maximum_utility(SOURCE, (measure, eps))
        assert 0 <= result.value <= result.upper_bound <= eps
        assert result.leakage[0] <= eps
        assert result.status == "optimal"
    assert result.value > 0


def test_one_symbol():
    for measure in (LDP, PML, leakage.Lift()):
        result = maximum_utility([1.0], (measure, 1.0))
        assert (result.value, result.status, result.mechanism.shape) == (0.0, "optimal", (1, 1))
    result = maximum_utility(np.array([[0.5, 0.5]]), (PML, 0.0))  # S is constant: nothing to hide
    assert result.value == pytest.approx(np.log(2))
    result = maximum_utility(np.array([[0.5], [0.5]]), (PML, 0.5))  # X is constant: nothing to tell
    assert result.value == 0.0


@pytest.mark.parametrize("measure", [LDP, PML, leakage.Lift()])
def test_symbols_without_mass(measure):
    whole = maximum_utility([0.5, 0.0, 0.3, 0.2, 0.0], (measure, 1.0))
    core = maximum_utility(SOURCE, (measure, 1.0))
    assert whole.value == pytest.approx(core.value, abs=1e-15)
    assert_allclose(whole.mechanism[[0, 2, 3]], core.mechanism, atol=1e-15)
    assert_allclose(whole.mechanism.sum(axis=1), 1.0, atol=1e-14)
    if measure is LDP:  # which is about all inputs
        assert leakage.ldp_of_channel(whole.mechanism) <= 1.0 + 1e-12


def test_a_joint_that_determines_s_both_ways_is_a_source():
    joint = np.zeros((3, 4))
    joint[[2, 0, 1], [0, 1, 3]] = SOURCE
    result = maximum_utility(joint, (LDP, 1.0))
    assert result.value == pytest.approx(maximum_utility(SOURCE, (LDP, 1.0)).value, abs=1e-14)
    assert result.mechanism.shape[0] == 4


def test_too_many_vertices():
    joint = drawn_joint(0, 10, 40)
    with raised(ResourceError, "bases"):
        maximum_utility(joint, (PML, 0.1))
