"""The test of pairs: what it finds beside what honest releases give, at the size of one design."""

import numpy as np
import pytest

from jaxpriv.verifier.claims import ONE
from jaxpriv.verifier.releases import chance_of_order, conformity, conformity_of_totals

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


def test_the_share_that_is_found_is_stated():
    """A share a of identities: (z_1 + z_2)/sqrt(n J), J = sum_x (1/W_xx - 1)/X; more records, a smaller share."""
    stated = conformity(ROWS, *drawn(MATRIX, 0), list(range(SIZE)), tables=99).detectable
    information = RECORDS * (1 / MATRIX[0, 0] - 1)
    assert stated == pytest.approx((3.5401 + 1.2816) / np.sqrt(information), rel=1e-3)
    assert conformity(ROWS, *drawn(MATRIX, 0), None, tables=99).detectable is None


def skewed(matrix, seed):
    """As `drawn`, with as many records of x as 1, 2, ... times those of the first: totals tell rows apart."""
    rng = np.random.default_rng(seed)
    x = rng.choice(SIZE, RECORDS, p=np.arange(1, SIZE + 1) / (SIZE * (SIZE + 1) / 2))
    y = (rng.random(RECORDS)[:, None] > np.cumsum(matrix[x], axis=1)[:, :-1]).sum(axis=1)
    return x.tolist(), rng.permutation(y).tolist()


@pytest.mark.parametrize(
    ("matrix", "found"),
    [(MATRIX, False), (np.eye(SIZE), True), (np.full((SIZE, SIZE), 1 / SIZE), True), (0.7 * MATRIX + 0.3 / SIZE, True)],
    ids=["honest", "released as they are", "independent of x", "30 percent merged"],
)
def test_departures_are_found_in_totals(matrix, found):
    own = list(range(SIZE))
    values = [conformity_of_totals(ROWS, *skewed(matrix, seed), own, tables=199).p_value for seed in range(3)]
    if found:
        assert max(values) <= 0.01
    else:
        assert max(values) > 0.05  # all three below have probability 1e-4


def test_the_test_of_totals_has_its_level():
    """Of 200 honest releases of 60 records p <= 0.1 has at most 0.1 of the probability: above 45 by chance 1e-7."""
    rng = np.random.default_rng(5)
    small = 0
    for _ in range(200):
        x = rng.integers(SIZE, size=60)
        y = (rng.random(60)[:, None] > np.cumsum(MATRIX[x], axis=1)[:, :-1]).sum(axis=1)
        small += conformity_of_totals(ROWS, x.tolist(), y.tolist(), list(range(SIZE)), tables=39).p_value <= 0.1
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
