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


CUBES = [{"S": n, "X": n, "Y": n} for n in (10**4, 10**5)]


@pytest.mark.parametrize(
    ("sizes", "columns", "exponent"),
    [
        # Many private symbols: matrices of the order of the useful ones. Few: S^2 X from their factors.
        ((10**5, 10**6), {"X": 10**4, "Y": 7}, 1),
        ((10, 20), {"X": 10**4, "Y": 10**6}, 1),
        ((5000, 6000), {"X": 10**4, "Y": 10**6}, 1.6),
    ],
)
def test_predictions_follow_the_operation_count_of_a_step(sizes, columns, exponent):
    shapes = [{"S": size, **columns} for size in sizes]
    assert growth.predicted("seconds per step", "interior-point", shapes, "S") == pytest.approx(exponent, abs=0.1)


@pytest.mark.parametrize(
    ("solver", "steps", "memory", "diagonal"),
    [("interior-point", 4, 3, (3, 2)), ("mirror-descent", 3, 2, (3, 2)), ("clarabel", None, None, (None, None))],
)
def test_exponents_of_cubes(solver, steps, memory, diagonal):
    for wanted, more in (((steps, memory), {}), (diagonal, {"diagonal": True})):
        found = [growth.predicted(what, solver, CUBES, "n", **more) for what in ("seconds per step", "peak memory")]
        assert found == pytest.approx(wanted, abs=1e-3)
    assert growth.predicted("seconds", solver, CUBES, "n") is None
