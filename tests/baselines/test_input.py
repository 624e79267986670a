"""Baselines: refusals."""

import math

import jax
import numpy as np
import pytest

from jaxpriv import ResourceError, baselines
from tests.cases import assert_refused

from .cases import FAMILIES

# Refusals


SIZED = {
    "randomized_response": lambda size: baselines.randomized_response(size, 1.0),
    "subset_selection": lambda size: baselines.subset_selection(size, 1.0, 1),
    "geometric": lambda size: baselines.geometric(size, 1.0),
    "staircase": lambda size: baselines.staircase(size, 1.0),
    "erasure": lambda size: baselines.erasure(size, 0.5),
    "merging": baselines.merging,
}


@pytest.mark.parametrize("size", [0, -3, 2.0, True, "3", None, math.nan, 2**60, [3]], ids=str)
@pytest.mark.parametrize("name", SIZED)
def test_a_size_is_a_whole_number(name, size):
    assert_refused(r"^size must be a whole number from 1", SIZED[name], size)


@pytest.mark.parametrize("name", SIZED)
def test_any_integer_type_is_a_size(name):
    np.testing.assert_array_equal(SIZED[name](np.int32(3)), SIZED[name](3))


@pytest.mark.parametrize("name", SIZED)
def test_a_table_beyond_the_memory_is_refused(name):
    with pytest.raises(ResourceError, match="the mechanism as a table needs"):
        SIZED[name](2**50)


def test_other_tables_beyond_the_memory_are_refused():
    with pytest.raises(ResourceError, match="the mechanism as a table needs"):
        baselines.subset_selection(3000, 1.0, 1500)  # 10^901 subsets
    with pytest.raises(ResourceError, match="the mechanism as a table needs"):
        baselines.staircase(2, 1.0, 2**50)


@pytest.mark.parametrize("epsilon", [-1e-9, -math.inf, math.nan])
@pytest.mark.parametrize("name", FAMILIES)
def test_epsilon_is_at_least_zero(name, epsilon):
    assert_refused(r"^epsilon must be a number >= 0", FAMILIES[name], epsilon)


@pytest.mark.parametrize("name", FAMILIES)
def test_epsilon_is_one_number_and_not_traced(name):
    assert_refused(r"^epsilon must be a number, not a bool", FAMILIES[name], True)
    assert_refused(r"^epsilon has 1 dimension", FAMILIES[name], [1.0])
    assert_refused(r"^epsilon has dtype", FAMILIES[name], "1")
    assert_refused(r"^epsilon is traced; a baseline is built on the host", jax.jit(FAMILIES[name]), 1.0)


def test_a_bad_argument_is_named():
    assert_refused("^subset must be at most size", baselines.subset_selection, 3, 1.0, 4)
    assert_refused("^subset must be a whole number from 1", baselines.subset_selection, 3, 1.0, 0)
    assert_refused("^sensitivity must be a finite number > 0", baselines.geometric, 3, 1.0, 0.0)
    assert_refused("^sensitivity must be a finite number > 0", baselines.geometric, 3, 1.0, -1.0)
    assert_refused("^sensitivity must be a finite number > 0", baselines.geometric, 3, 1.0, math.inf)
    assert_refused("^sensitivity must be a finite number > 0", baselines.geometric, 3, 1.0, math.nan)
    assert_refused("^sensitivity must be a whole number from 1", baselines.staircase, 3, 1.0, 0)
    assert_refused("^sensitivity must be a whole number from 1", baselines.staircase, 3, 1.0, 1.5)
    assert_refused("^width must be a whole number from 1", baselines.staircase, 3, 1.0, 2, 0)
    assert_refused("^width must be a whole number from 1", baselines.staircase, 3, 1.0, 2, 1.0)
    assert_refused("^width must be at most sensitivity", baselines.staircase, 3, 1.0, 2, 3)
    assert_refused("^sensitivity must be a finite number > 0", baselines.truncated_laplace, [0.0, 1.0], 1.0, 0.0)
    assert_refused(r"^values must increase, but values\[2\] is not", baselines.truncated_laplace, [0.0, 2.0, 2.0], 1.0)
    assert_refused(r"^values must increase, but values\[1\] is not", baselines.truncated_laplace, [1.0, 0.0], 1.0)
    assert_refused(r"^values\[1\] is NaN", baselines.truncated_laplace, [0.0, math.nan], 1.0)
    assert_refused(r"^values\[1\] is infinite", baselines.truncated_laplace, [0.0, math.inf], 1.0)
    assert_refused("^values is empty along axis 0", baselines.truncated_laplace, [], 1.0)
    assert_refused(r"^values has 2 dimension\(s\)", baselines.truncated_laplace, [[0.0]], 1.0)
    assert_refused("^values has dtype", baselines.truncated_laplace, ["a"], 1.0)
    assert_refused("^values spread too far", baselines.truncated_laplace, [-1e308, 1e308], 1.0)
    assert_refused("^values spread too far", baselines.truncated_laplace, [-6e307, 5e307, 6e307], 1.0)
    assert_refused("^values is traced", jax.jit(baselines.truncated_laplace), np.arange(2.0), 1.0)
    assert_refused(r"^distortion\[0, 1\] is NaN", baselines.exponential, [[0.0, math.nan]], 1.0)
    assert_refused(r"^distortion has 1 dimension\(s\)", baselines.exponential, [0.0, 1.0], 1.0)
    assert_refused("^distortion is empty along axis 1", baselines.exponential, [[]], 1.0)
    assert_refused("^distortion spreads too far", baselines.exponential, [[-1e308], [1e308]], 1.0)
    assert_refused("^distortion spreads too far", baselines.exponential, [[-1e308, 1e308]], 1.0)
    assert_refused("^distortion is traced", jax.jit(baselines.exponential), np.eye(2), 1.0)
    assert_refused("^probability must be a finite number >= 0 and <= 1", baselines.erasure, 3, -0.1)
    assert_refused("^probability must be a finite number >= 0 and <= 1", baselines.erasure, 3, 1.1)
    assert_refused("^probability must be a finite number >= 0 and <= 1", baselines.erasure, 3, math.nan)
    assert_refused("^classes is empty along axis 0", baselines.merge, [])
    assert_refused(r"^classes has 0 dimension\(s\)", baselines.merge, 3)
    assert_refused(r"^classes\[1\] is negative", baselines.merge, [0, -1])
    assert_refused(r"^classes\[1\] is not a whole number", baselines.merge, [0, 0.5])
    assert_refused("^classes must be numbered without a gap, but 1 is not used", baselines.merge, [0, 2, 3])
    assert_refused("^classes must be numbered without a gap, but 0 is not used", baselines.merge, [1, 2])
    assert_refused("^classes must be numbered without a gap, but 1 is not used", baselines.merge, [0, 10**12])
    assert_refused(r"^attributes has 1 dimension\(s\)", baselines.dropping, [0, 1], [0])
    assert_refused(r"^attributes\[0, 1\] is not a whole number", baselines.dropping, [[0, 1.5]], [0])
    assert_refused(r"^attributes\[0, 1\] is negative", baselines.dropping, [[0, -1]], [0])
    assert_refused(r"^dropped\[1\] must be the number of a column, from 0 to 1", baselines.dropping, [[0, 1]], [0, 2])
    assert_refused(r"^dropped\[0\] must be the number of a column", baselines.dropping, [[0, 1]], [True])
    assert_refused(r"^dropped\[1\] is the same column", baselines.dropping, [[0, 1]], [1, 1])
