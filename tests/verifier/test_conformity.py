"""The test of pairs: what it finds beside what honest releases give, at the size of one design."""

import math
import random

import numpy as np
import pytest
from scipy.stats import binom

from jaxpriv.verifier.monte_carlo import (
    chance_of_order,
    conformity,
    conformity_of_counts,
    conformity_of_totals,
    unchanged_evidence,
)
from tests.verifier.conftest import ONE, integers

pytestmark = pytest.mark.usefixtures("same_draws")

SIZE, RECORDS = 6, 10_000
MATRIX = 0.5 * np.eye(SIZE) + 0.5 / SIZE
ROWS = integers(MATRIX).tolist()


def released(matrix, x, rng):
    return (rng.random(len(x))[:, None] > np.cumsum(matrix[x], axis=1)[:, :-1]).sum(axis=1)


def drawn(matrix, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(SIZE, size=RECORDS)
    return x.tolist(), released(matrix, x, rng).tolist()


def swapped():
    matrix = MATRIX.copy()
    matrix[[0, 1]] = 0.6 * MATRIX[[0, 1]] + 0.4 * MATRIX[[1, 0]]
    return matrix


def detectable(matrix, records):
    """The share that is stated for equally many records of each symbol, of which none was released as it is."""
    weights = {x: list(row) for x, row in enumerate(matrix)}
    counts = {x: [records // len(matrix) * (y != x and y == (x + 1) % len(matrix)) for y in weights] for x in weights}
    own = {x: x for x in weights}
    return conformity_of_counts(weights, counts, own, 0, random.Random(0), LEVEL).detectable


def refused(matrix, share, records, released, seeds=200):
    """Of how many releases, with `released` of the records as they are, the test for `share` refuses."""
    totals = np.full(len(matrix), records // len(matrix))
    chances = np.diag(matrix) + released * (1 - np.diag(matrix))
    same = np.random.default_rng(0).binomial(totals, chances, (seeds, len(matrix)))
    logs = [unchanged_evidence(list(zip(totals, row, np.diag(matrix), strict=True)), share) for row in same]
    return sum(log >= -math.log(LEVEL) for log in logs)


LEVEL = 0.001 / 6
MATRICES = {
    "half": MATRIX,
    "two symbols": np.array([[0.6, 0.4], [0.4, 0.6]]),
    "nearly as they are": 0.9 * np.eye(4) + 0.1 / 4,
    "rarely as they are": np.array([[0.02, 0.98], [0.98, 0.02]]),
    "skewed": np.array([[0.99, 0.005, 0.005], [0.3, 0.5, 0.2], [0.1, 0.1, 0.8]]),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("records", [30, 100, 1000, 20_000])
def test_the_share_that_is_stated_is_found_in_nine_of_ten_cases(name, records):
    share = detectable(MATRICES[name], records)
    if share == math.inf:
        assert records <= 100
        return
    assert refused(MATRICES[name], share, records, share) >= binom.isf(1 - 1e-6, 200, 0.9)
    assert refused(MATRICES[name], share, records, 0.0) <= binom.isf(1e-6, 200, LEVEL)


def test_more_records_find_a_smaller_share():
    shares = [detectable(MATRIX, records) for records in (6, 60, 600, 6000, 60_000)]
    assert shares[0] == math.inf
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.05
    assert conformity(ROWS, *drawn(MATRIX, 0), None, tables=99).detectable is None


def test_shares_that_are_more_exact_than_those_of_draws_are_found():
    x = np.repeat(np.arange(SIZE), 1200)
    y = np.concatenate([np.repeat(np.arange(SIZE), np.rint(1200 * row).astype(int)) for row in MATRIX])
    found = conformity(ROWS, x.tolist(), y.tolist(), None, tables=199)
    assert found.regular == 1 / 200
    assert found.p_value > 0.5  # the other test is about departures
    honest = [conformity(ROWS, *drawn(MATRIX, seed), None, tables=99).regular for seed in range(5)]
    assert max(honest) > 0.05  # all five below have probability 3e-7


def skewed(matrix, seed):
    """As `drawn`, with as many records of x as 1, 2, ... times those of the first: totals tell rows apart."""
    rng = np.random.default_rng(seed)
    x = rng.choice(SIZE, RECORDS, p=np.arange(1, SIZE + 1) / (SIZE * (SIZE + 1) / 2))
    return x.tolist(), rng.permutation(released(matrix, x, rng)).tolist()


DEPARTURES = {
    "honest": (conformity, drawn, MATRIX),
    "8 percent as they are": (conformity, drawn, 0.92 * MATRIX + 0.08 * np.eye(SIZE)),
    "8 percent merged": (conformity, drawn, 0.92 * MATRIX + 0.08 / SIZE),
    "two rows partly swapped": (conformity, drawn, swapped()),
    "honest totals": (conformity_of_totals, skewed, MATRIX),
    "totals of records as they are": (conformity_of_totals, skewed, np.eye(SIZE)),
    "totals independent of x": (conformity_of_totals, skewed, np.full((SIZE, SIZE), 1 / SIZE)),
    "totals of 30 percent merged": (conformity_of_totals, skewed, 0.7 * MATRIX + 0.3 / SIZE),
}


@pytest.mark.parametrize("case", DEPARTURES)
def test_departures_are_found(case):
    test, draw, matrix = DEPARTURES[case]
    values = [test(ROWS, *draw(matrix, seed), list(range(SIZE)), tables=199).p_value for seed in range(3)]
    if "honest" in case:
        assert max(values) > 0.05  # all three below have probability 1e-4
    else:
        assert max(values) <= 0.01


def test_the_test_of_totals_has_its_level():
    """Of 200 honest releases of 60 records p <= 0.1 has at most 0.1 of the probability: above 45 by chance 1e-7."""
    rng = np.random.default_rng(5)
    small = 0
    for _ in range(200):
        x = rng.integers(SIZE, size=60)
        y = released(MATRIX, x, rng).tolist()
        small += conformity_of_totals(ROWS, x.tolist(), y, list(range(SIZE)), tables=39).p_value <= 0.1
    assert small <= 45


def test_what_is_released_for_no_record_is_impossible():
    found = conformity_of_totals([[ONE, 0], [ONE // 2, ONE // 2]], [0, 0, 0], [0, 1, 0], None)
    assert (found.p_value, found.impossible) == (0.0, (1,))


def test_rows_in_the_order_of_the_records_are_told_from_a_random_order():
    x, y = drawn(MATRIX, 0)
    assert chance_of_order(ROWS, x, y) < 1e-100
    rng = np.random.default_rng(1)
    bounds = [chance_of_order(ROWS, x, rng.permutation(y).tolist()) for _ in range(50)]
    assert min(bounds) > 1e-3
    assert chance_of_order([[ONE // 2, ONE // 2]], [0, 0, 0], [0, 1, 1]) == 1.0  # nothing depends on the record
