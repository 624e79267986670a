"""What quasi-identifiers say about a private attribute: counted, bounded for a population, beside the optimum."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from jaxpriv.statistics.audit import audit_attributes
from tests.cases import drawn_joint, refused
from tests.information import information

ATTRIBUTES = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1], [2, 1, 0]])


def counted(counts, columns):
    """(certain, guess) of the records one by one."""
    seen = defaultdict(Counter)
    for (s, x), times in np.ndenumerate(counts):
        seen[tuple(ATTRIBUTES[x, list(columns)])][s] += int(times)
    n = counts.sum()
    alone = [one.total() for one in seen.values() if sum(times > 0 for times in one.values()) == 1]
    return sum(alone) / n, sum(max(one.values()) for one in seen.values()) / n


def drawn(seed, n=400):
    rng = np.random.default_rng(seed)
    truth = drawn_joint(rng, 3, 5, 0.4)
    return truth, rng.multinomial(n, truth.ravel()).reshape(3, 5)


@pytest.mark.parametrize("seed", range(3))
def test_against_counting(seed):
    counts = drawn(seed, 30)[1]
    found = audit_attributes(counts, ATTRIBUTES)
    assert [row.columns for row in found.rows] == [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    for row in found.rows:
        assert (row.certain, row.guess) == pytest.approx(counted(counts, row.columns))
        assert row.certain <= row.guess <= row.upper
        assert row.lower <= row.upper
        assert row.optimum is row.least is None
    assert [row.columns for row in audit_attributes(counts, ATTRIBUTES, most=1).rows] == [(), (0,), (1,), (2,)]


def test_the_bounds_cover():
    """All bounds of a side hold together in 95 % of samples at least: 100 miss at most 14 times (probability .9998)."""
    missed = np.zeros(2, dtype=int)
    for seed in range(100):
        truth, counts = drawn(seed)
        rows = audit_attributes(counts, ATTRIBUTES, seed=seed).rows
        guesses = [counted(truth * 2**60, row.columns)[1] for row in rows]
        missed += [
            any(row.lower > true + 1e-9 for row, true in zip(rows, guesses, strict=True)),
            any(row.upper < true - 1e-9 for row, true in zip(rows, guesses, strict=True)),
        ]
    assert max(missed) <= 14


def test_the_optimum():
    """No release that discloses as much is guessed from with less; of all columns together x itself is the only one."""
    counts = drawn(1)[1]
    rows = audit_attributes(counts, ATTRIBUTES, optimum=10).rows
    joint = counts / counts.sum()
    mass = joint.sum(axis=0)
    assert rows[0].least == rows[0].guess == pytest.approx(joint.sum(axis=1).max())
    assert rows[-1].least == rows[-1].guess == pytest.approx(joint.max(axis=0).sum())
    rng = np.random.default_rng(0)
    mechanisms = [rng.dirichlet(np.full(4, share), 5) for share in (0.02, 0.05, 0.1) for _ in range(300)]
    disclosed = [information(mass[:, None] * one) for one in mechanisms]
    guesses = [(joint @ one).max(axis=0).sum() for one in mechanisms]
    compared = 0
    for row in rows[1:-1]:
        assert row.least <= row.optimum + 1e-12
        assert row.optimum - row.least < 1e-5
        assert row.optimum <= row.guess
        enough = [guess for guess, much in zip(guesses, disclosed, strict=True) if much >= row.disclosure]
        compared += len(enough)
        assert all(guess >= row.least for guess in enough)
    assert compared > 50


def test_bad_input():
    counts = drawn(0)[1]
    with refused("attributes must hold whole numbers, a row for each of the 5 symbols x"):
        audit_attributes(counts, ATTRIBUTES[:4])
    with refused("counts has fewer than two records"):
        audit_attributes(np.zeros((2, 5), int), ATTRIBUTES)
    with refused("most: more than 4096 sets of 13 columns"):
        audit_attributes(counts, np.zeros((5, 13)))
