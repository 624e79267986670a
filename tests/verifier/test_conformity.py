"""The test of pairs: what it finds beside what honest releases give, at the size of one design."""

import numpy as np
import pytest

from jaxpriv.verifier.claims import ONE
from jaxpriv.verifier.releases import conformity

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
