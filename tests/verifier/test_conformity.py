"""The test of pairs: what it finds beside what honest releases give, at the size of one design."""

import math
import random

import numpy as np
import pytest
from scipy.stats import binom

from jaxpriv.verifier.claims import ONE
from jaxpriv.verifier.releases import conformity, conformity_of_counts, unchanged_evidence

SIZE, RECORDS = 6, 10_000
MATRIX = 0.5 * np.eye(SIZE) + 0.5 / SIZE
ROWS = np.rint(MATRIX * 2**40).astype(np.int64)
ROWS[:, -1] += 2**40 - ROWS.sum(axis=1)
ROWS = [[int(entry) * (ONE // 2**40) for entry in row] for row in ROWS]


def drawn(matrix, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(SIZE, size=RECORDS)
    return x.tolist(), (rng.random(RECORDS)[:, None] > np.cumsum(matrix[x], axis=1)[:, :-1]).sum(axis=1).tolist()


def swapped():
    matrix = MATRIX.copy()
    matrix[[0, 1]] = 0.6 * MATRIX[[0, 1]] + 0.4 * MATRIX[[1, 0]]
    return matrix


@pytest.mark.parametrize(
    ("matrix", "found"),
    [
        (MATRIX, False),
        (0.92 * MATRIX + 0.08 * np.eye(SIZE), True),
        (0.92 * MATRIX + 0.08 / SIZE, True),
        (swapped(), True),
    ],
    ids=["honest", "8 percent as they are", "8 percent merged", "two rows partly swapped"],
)
def test_departures_are_found(matrix, found):
    values = [conformity(ROWS, *drawn(matrix, seed), list(range(SIZE)), tables=199).p_value for seed in range(3)]
    if found:
        assert max(values) <= 0.01
    else:
        assert max(values) > 0.05  # all three below have probability 1e-4


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
