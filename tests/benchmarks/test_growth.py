"""Exponents of growth: exact laws come out exactly, and the fit says what it rests on."""

import numpy as np
import pytest

from benchmarks import growth

SIZES = (16, 32, 64, 128)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 3.0, 4.0])
def test_a_power_law_returns_its_exponent(exponent):
    law = growth.fit(SIZES, [3e-7 * size**exponent for size in SIZES])
    assert law.exponent == pytest.approx(exponent, rel=1e-12)
    assert law.error == pytest.approx(0, abs=1e-6)


def test_the_error_is_that_of_least_squares():
    noise = np.array([0.1, -0.2, 0.1])
    law = growth.fit(SIZES[1:], np.exp(2 * np.log(SIZES[1:]) + noise))
    x = np.log(SIZES[1:])
    design = np.stack([x, np.ones(3)], axis=1)
    _, squares, *_ = np.linalg.lstsq(design, 2 * x + noise)
    assert law.error == pytest.approx(np.sqrt(squares[0] * np.linalg.inv(design.T @ design)[0, 0]))


def test_predictions_follow_the_operation_count_of_a_step():
    # Many private symbols: matrices of the order of the useful ones. Few: S^2 X from their factors.
    many = [{"S": size, "X": 10**4, "Y": 7} for size in (10**5, 10**6)]
    assert growth.predicted("seconds per step", "interior-point", many, "S") == pytest.approx(1, abs=0.05)
    few = [{"S": size, "X": 10**4, "Y": 10**6} for size in (10, 20)]
    assert growth.predicted("seconds per step", "interior-point", few, "S") == pytest.approx(1, abs=0.05)
    between = [{"S": size, "X": 10**4, "Y": 10**6} for size in (5000, 6000)]
    assert growth.predicted("seconds per step", "interior-point", between, "S") == pytest.approx(1.6, abs=0.1)
    cubes = [{"S": n, "X": n, "Y": n} for n in (10**4, 10**5)]
    assert growth.predicted("seconds per step", "interior-point", cubes, "n") == pytest.approx(4, abs=1e-3)
    assert growth.predicted("seconds per step", "interior-point", cubes, "n", diagonal=True) == pytest.approx(3)
    assert growth.predicted("peak memory", "interior-point", cubes, "n", diagonal=True) == pytest.approx(2)
    assert growth.predicted("seconds per step", "mirror-descent", cubes, "n") == pytest.approx(3)
    assert growth.predicted("seconds per step", "mirror-descent", cubes, "n", diagonal=True) == pytest.approx(3)
    assert growth.predicted("peak memory", "interior-point", cubes, "n") == pytest.approx(3)
    assert growth.predicted("peak memory", "mirror-descent", cubes, "n") == pytest.approx(2)
    assert growth.predicted("seconds per step", "clarabel", cubes, "n") is None
    assert growth.predicted("seconds", "interior-point", cubes, "n") is None
