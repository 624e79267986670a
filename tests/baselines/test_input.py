"""Baselines: refusals."""

import math

import jax
import numpy as np
import pytest

from jaxpriv import ResourceError, baselines
from tests.cases import assert_refusals, assert_refused, raised

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
    assert_refused(r"^size must be a whole number >= 1", SIZED[name], size)


@pytest.mark.parametrize("name", SIZED)
def test_any_integer_type_is_a_size(name):
    np.testing.assert_array_equal(SIZED[name](np.int32(3)), SIZED[name](3))


@pytest.mark.parametrize("name", SIZED)
def test_a_table_beyond_the_memory_is_refused(name):
    with raised(ResourceError, "the mechanism as a table needs"):
        SIZED[name](2**50)


def test_other_tables_beyond_the_memory_are_refused():
    with raised(ResourceError, "the mechanism as a table needs"):
        baselines.subset_selection(3000, 1.0, 1500)  # 10^901 subsets
    with raised(ResourceError, "the mechanism as a table needs"):
        baselines.staircase(2, 1.0, 2**50)


@pytest.mark.parametrize("epsilon", [-1e-9, -math.inf, math.nan])
@pytest.mark.parametrize("name", FAMILIES)
def test_epsilon_is_at_least_zero(name, epsilon):
    assert_refused(r"^epsilon must be a number >= 0", FAMILIES[name], epsilon)


@pytest.mark.parametrize("name", FAMILIES)
def test_epsilon_is_one_number_and_not_traced(name):
    assert_refusals(
        FAMILIES[name],
        (r"^epsilon must be a number, not a bool", True),
        (r"^epsilon has 1 dimension", [1.0]),
        (r"^epsilon has dtype", "1"),
    )
    assert_refused(r"^epsilon is traced; a baseline is built on the host", jax.jit(FAMILIES[name]), 1.0)


def test_a_bad_argument_is_named():
    assert_refused("^subset must be a whole number >= 1 and <= 3", baselines.subset_selection, 3, 1.0, 4)
    assert_refused("^subset must be a whole number >= 1", baselines.subset_selection, 3, 1.0, 0)
    assert_refusals(
        baselines.geometric,
        ("^sensitivity must be a finite number > 0", 3, 1.0, 0.0),
        ("^sensitivity must be a finite number > 0", 3, 1.0, math.inf),
    )
    assert_refusals(
        baselines.staircase,
        ("^sensitivity must be a whole number >= 1", 3, 1.0, 0),
        ("^width must be a whole number >= 1", 3, 1.0, 2, 0),
        ("^width must be a whole number >= 1 and <= 2", 3, 1.0, 2, 3),
    )
    assert_refusals(
        baselines.truncated_laplace,
        ("^sensitivity must be a finite number > 0", [0.0, 1.0], 1.0, 0.0),
        (r"^values must increase, but values\[2\] is not", [0.0, 2.0, 2.0], 1.0),
        (r"^values\[1\] is NaN", [0.0, math.nan], 1.0),
        (r"^values has 2 dimension\(s\)", [[0.0]], 1.0),
        ("^values spread too far", [-1e308, 1e308], 1.0),
        ("^values spread too far", [-6e307, 5e307, 6e307], 1.0),
    )
    assert_refused("^values is traced", jax.jit(baselines.truncated_laplace), np.arange(2.0), 1.0)
    assert_refusals(
        baselines.exponential,
        (r"^distortion\[0, 1\] is NaN", [[0.0, math.nan]], 1.0),
        (r"^distortion has 1 dimension\(s\)", [0.0, 1.0], 1.0),
        ("^distortion spreads too far", [[-1e308], [1e308]], 1.0),
        ("^distortion spreads too far", [[-1e308, 1e308]], 1.0),
    )
    assert_refused("^distortion is traced", jax.jit(baselines.exponential), np.eye(2), 1.0)
    assert_refusals(
        baselines.erasure,
        ("^probability must be a finite number >= 0 and <= 1", 3, -0.1),
        ("^probability must be a finite number >= 0 and <= 1", 3, 1.1),
    )
    assert_refusals(
        baselines.merge,
        (r"^classes has 0 dimension\(s\)", 3),
        (r"^classes\[1\] is negative", [0, -1]),
        (r"^classes\[1\] is not a whole number", [0, 0.5]),
        ("^classes must be numbered without a gap, but 1 is not used", [0, 2, 3]),
        ("^classes must be numbered without a gap, but 1 is not used", [0, 10**12]),
    )
    assert_refusals(
        baselines.dropping,
        (r"^attributes has 1 dimension\(s\)", [0, 1], [0]),
        (r"^attributes\[0, 1\] is not a whole number", [[0, 1.5]], [0]),
        (r"^attributes\[0, 1\] is negative", [[0, -1]], [0]),
        (r"^dropped\[1\] must be a whole number >= 0 and <= 1", [[0, 1]], [0, 2]),
        (r"^dropped\[0\] must be a whole number", [[0, 1]], [True]),
        (r"^dropped\[1\] is the same column", [[0, 1]], [1, 1]),
        ("^dropped must be a sequence", [[0, 1]], 5),
    )
    assert_refused(r"^hidden\[0\] must be a whole number", baselines.hiding, [[0], [1]], [1, 1], [2], np.eye(2))
