"""The leakage of several mechanisms together: computed against brute force, bounded where it is not computed."""

import numpy as np
import pytest
from scipy.stats import binom

from jaxpriv.release.joint_leakage import joint_leakage
from tests.information import information
from tests.verifier.conftest import ONE, integers


def draw(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
    """(s, x_1 ... x_k, counts, tables) of a few records."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, rng.integers(1, 5))
    records = np.column_stack([rng.integers(0, size, 25) for size in (3, *sizes)])
    tables = [integers(rng.dirichlet(np.full(size, 0.3), size)) for size in sizes]
    return records[:, 0], records[:, 1:], rng.integers(1, 9, len(records)), tables


def by_force(private, symbols, counts, tables) -> float:
    """The joint tensor of S and all outputs, record by record."""
    joint = np.zeros((3, *(table.shape[1] for table in tables)))
    for s, x, count in zip(private, symbols, counts, strict=True):
        record = np.array(count / counts.sum())
        for g, table in enumerate(tables):
            record = np.multiply.outer(record, table[x[g]] / ONE)
        joint[s] += record
    return information(joint.reshape(3, -1))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_computed_is_what_brute_force_gives(seed):
    given = draw(seed)
    claim, exact = joint_leakage(*given)
    assert exact
    assert float(claim.upper) - float(claim.lower) < 1e-11
    assert float(claim.lower) - 1e-14 <= by_force(*given) <= float(claim.upper) + 1e-14


def test_a_large_table_is_computed_in_pieces(monkeypatch):
    """Ten bits with errors, and a symbol of 64: of the bits only the number of ones tells about S."""
    monkeypatch.setattr("jaxpriv.release.joint_leakage._PIECE", 2**12)
    flips, last = [[0.6, 0.4], [0.4, 0.6]], np.random.default_rng(0).dirichlet(np.ones(64), 2)
    tables = [integers(one) for one in [*[flips] * 10, last]]
    claim, exact = joint_leakage(np.array([0, 1]), np.tile([[0], [1]], (1, 11)), np.array([3, 5]), tables)
    ones = np.stack([binom.pmf(np.arange(11), 10, share) for share in (0.4, 0.6)])
    joint = np.array([3, 5])[:, None, None] / 8 * ones[:, :, None] * last[:, None]
    assert exact
    assert float(claim.lower) - 1e-12 <= information(joint.reshape(2, -1)) <= float(claim.upper) + 1e-12
    assert float(claim.upper) - float(claim.lower) < 1e-9


def beyond(private, symbols, counts, tables):
    """Fifteen groups more that tell nothing, with probabilities whose product float64 does not hold."""
    dull = np.zeros((len(symbols), 15), dtype=int)
    more = [np.array([[ONE - 1, 1]], dtype=np.uint64)] * 15
    return private, np.hstack([symbols[:, :1], dull, symbols[:, 1:]]), counts, [tables[0], *more, *tables[1:]]


@pytest.mark.parametrize("seed", range(4, 9))
def test_the_bound_holds_where_the_table_is_not_computed(seed):
    given = draw(seed)
    claim, exact = joint_leakage(*beyond(*given))
    assert not exact
    assert float(claim.lower) - 1e-14 <= by_force(*given) <= float(claim.upper) + 1e-14


def test_the_bound_is_below_that_of_the_records():
    """Six groups that are hardly ever released as they are: the chain rule says more than I(S;X) does."""
    x = np.random.default_rng(0).integers(0, 2, (25, 6))
    private = x.sum(axis=1) % 2  # no five of them determine it
    given = private, x, np.ones(25, dtype=np.int64), [integers([[0.52, 0.48], [0.48, 0.52]])] * 6
    claim, computed = joint_leakage(*beyond(*given))
    assert not computed
    assert float(joint_leakage(*given)[0].upper) <= float(claim.upper) < 0.01  # I(S;X) is near ln 2


def test_probabilities_that_would_vanish_are_not_multiplied():
    tiny = np.array([[ONE - 1, 1], [1, ONE - 1]], dtype=np.uint64)
    x = np.tile([[0], [1]], (1, 20))
    claim, exact = joint_leakage(np.array([0, 1]), x, np.array([3, 3]), [tiny] * 20)
    assert not exact
    assert float(claim.upper) == pytest.approx(np.log(2), abs=1e-12)
    assert float(claim.lower) == pytest.approx(np.log(2), abs=1e-9)
