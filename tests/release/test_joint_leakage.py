"""The leakage of several mechanisms together: computed against brute force, bounded where it is not computed."""

import numpy as np
import pytest

from jaxpriv.release.joint_leakage import joint_leakage
from jaxpriv.verifier.claims import ONE
from tests.information import information


def draw(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
    """(s, x_1 ... x_k, counts, tables) of a few records."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, rng.integers(1, 5))
    records = np.column_stack([rng.integers(0, size, 25) for size in (3, *sizes)])
    tables = []
    for size in sizes:
        table = np.floor(rng.dirichlet(np.full(size, 0.3), size) * ONE * 0.999).astype(np.uint64)
        table[:, 0] += np.uint64(ONE) - table.sum(axis=1)
        tables.append(table)
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
@pytest.mark.parametrize("piece", [1, 7, 2**22])
def test_what_is_computed_is_what_brute_force_gives(seed, piece, monkeypatch):
    monkeypatch.setattr("jaxpriv.release.joint_leakage._PIECE", piece)
    given = draw(seed)
    claim, exact = joint_leakage(*given)
    assert exact
    assert float(claim.upper) - float(claim.lower) < 1e-11
    assert float(claim.lower) - 1e-14 <= by_force(*given) <= float(claim.upper) + 1e-14


@pytest.mark.parametrize("seed", range(12))
def test_the_bound_holds_where_the_table_is_too_large(seed, monkeypatch):
    given = draw(seed)
    value = by_force(*given)
    monkeypatch.setattr("jaxpriv.release.joint_leakage._MOST", 3 * given[3][0].shape[1])
    claim, exact = joint_leakage(*given)
    assert exact == (len(given[3]) == 1 or np.prod([table.shape[1] for table in given[3][1:]]) == 1)
    assert float(claim.lower) - 1e-14 <= value <= float(claim.upper) + 1e-14


def test_the_bound_is_below_that_of_the_records(monkeypatch):
    """Six groups that are hardly ever released as they are: the chain rule says more than I(S;X) does."""
    x = np.random.default_rng(0).integers(0, 2, (25, 6))
    private = x.sum(axis=1) % 2  # no five of them determine it
    noise = np.full((2, 2), ONE // 2, dtype=np.uint64)
    noise[[0, 1], [0, 1]] += np.uint64(ONE // 50)
    noise[[0, 1], [1, 0]] -= np.uint64(ONE // 50)
    given = private, x, np.ones(25, dtype=np.int64), [noise] * 6
    exact = float(joint_leakage(*given)[0].upper)
    monkeypatch.setattr("jaxpriv.release.joint_leakage._MOST", 64)
    claim, computed = joint_leakage(*given)
    assert not computed
    assert exact <= float(claim.upper) < 0.01  # I(S;X) is near ln 2


def test_probabilities_that_would_vanish_are_not_multiplied():
    tiny = np.array([[ONE - 1, 1], [1, ONE - 1]], dtype=np.uint64)
    x = np.tile([[0], [1]], (1, 20))
    claim, exact = joint_leakage(np.array([0, 1]), x, np.array([3, 3]), [tiny] * 20)
    assert not exact
    assert float(claim.upper) == pytest.approx(np.log(2), abs=1e-12)
    assert float(claim.lower) == pytest.approx(np.log(2), abs=1e-9)
