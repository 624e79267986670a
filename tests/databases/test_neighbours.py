"""Relations: what they contain, that they fit the leakage measures, and what is refused."""

import itertools

import numpy as np
import pytest

from jaxpriv import databases as db
from jaxpriv.errors import ResourceError
from tests.cases import assert_refusals, assert_refused, raised


@pytest.mark.parametrize(("sizes", "distance"), [((2, 3), 1), ((2, 2, 2), 2), ((3, 1, 2), 3), ((1,), 1), ((4,), 0)])
def test_hamming_neighbours_are_the_pairs_that_differ_in_few_records(sizes, distance):
    table = list(itertools.product(*map(range, sizes)))
    relation = db.hamming_neighbours(sizes, distance)
    assert relation.dtype == np.bool_
    for (i, x), (j, other) in itertools.product(enumerate(table), repeat=2):
        apart = sum(a != b for a, b in zip(x, other, strict=True))
        assert relation[i, j] == (1 <= apart <= distance)
    assert np.array_equal(db.sequences(sizes), table)
    assert [db.sequence_index(x, sizes) for x in table] == list(range(len(table)))


def test_count_neighbours_are_the_counts_of_neighbouring_sequences():
    sizes, counts = (2,) * 4, db.counts((2,) * 4)
    for k in (1, 2, 4):
        expected = np.zeros((5, 5), dtype=bool)
        pairs = db.hamming_neighbours(sizes, k)
        expected[counts[np.nonzero(pairs)[0]], counts[np.nonzero(pairs)[1]]] = True
        # Different sequences of one count are neighbours too, about which a count says nothing.
        np.fill_diagonal(expected, False)
        assert np.array_equal(db.count_neighbours(4, k), expected)


def test_empty_record_is_one_more_symbol():
    sizes = db.with_empty_record((1, 2))
    assert sizes == (2, 3)
    # Database {record 0} has as neighbours: nobody, and itself with either value of record 1.
    alone = db.sequence_index((0, 2), sizes)
    found = db.sequences(sizes)[db.hamming_neighbours(sizes)[alone]]
    assert sorted(map(tuple, found)) == [(0, 0), (0, 1), (1, 2)]


def test_pairs_are_mirrored_unless_told_otherwise():
    assert db.neighbours_from_pairs([(0, 2)], 3)[2, 0]
    one_way = db.neighbours_from_pairs([(0, 2)], 3, symmetric=False)
    assert one_way[0, 2]
    assert one_way.sum() == 1
    assert_refused(
        r"not symmetric: it holds at \[0, 2\] and not at \[2, 0\]", db.checked_neighbours, one_way, symmetric=True
    )
    assert np.array_equal(db.checked_neighbours([[0, 1], [1, 0]], size=2, symmetric=True), ~np.eye(2, dtype=bool))


def test_bad_relations_are_refused_with_their_position():
    assert_refusals(
        db.hamming_neighbours,
        (r"sizes\[1\]", (2, 0)),
        (r"sizes\[0\]", (True, 2)),
        ("sizes is empty", ()),
        ("sizes must be a sequence", 3),
        ("distance", (2, 2), 3),
        ("distance", (2, 2), -1),
    )
    assert_refused("records", db.count_neighbours, 0)
    assert_refused("distance", db.count_neighbours, 3, 4)
    assert_refusals(
        db.neighbours_from_pairs,
        (r"pairs\[1\]\[1\]", [(0, 1), (1, 3)], 3),
        (r"pairs\[0\]\[0\]", [(-1, 1)], 3),
        (r"pairs\[0\] has 3", [(0, 1, 2)], 3),
        ("pairs must be a sequence", 5, 3),
        (r"pairs\[0\] must be a sequence", [1.5], 3),
        ("size must be a whole number >= 1 and below 2", [(0, 1)], 10**30),
    )
    with raised(ResourceError, "all databases needs"):
        db.neighbours_from_pairs([(0, 1)], 10**7)
    assert_refused("square", db.checked_neighbours, np.ones((2, 3)))
    assert_refused("neighbours is not a rectangular array", db.checked_neighbours, [[True, False], [True]])
    assert_refused("symmetric must be True or False", db.neighbours_from_pairs, [(0, 1)], 2, symmetric=None)
    assert_refused("3 rows", db.checked_neighbours, np.ones((2, 2)), size=3)
    assert_refusals(
        db.checked_neighbours,
        (r"neighbours\[0, 1\]", [[0, 0.5], [1, 0]]),
        (r"neighbours\[1, 0\] is negative", [[0, 1], [-1, 0]]),
    )
    assert_refused(r"records\[1\]", db.sequence_index, (0, 2), (2, 2))
    assert_refused("1 entries", db.sequence_index, (0,), (2, 2))
    assert_refused("records must be a sequence", db.sequence_index, np.array(3), (2,))
    assert db.sequence_index((1, 0, 5), (2, 2**40, 2**40)) == 2**80 + 5
    assert_refused("symbol", db.counts, (2, 1))
