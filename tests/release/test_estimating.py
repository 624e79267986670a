"""`estimate_counts`: unbiased where the design determines a count, and within its stated error elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from jaxpriv.release import advise, estimate_counts, fit
from tests.cases import refused, thorough
from tests.verifier.conftest import integers

from .conftest import COLUMNS

pytestmark = pytest.mark.usefixtures("same_draws")


def true_counts(mechanism, table):
    """The classes of every useful column, counted in the original table."""
    codes = mechanism.codebook.encode_useful(table)
    names = mechanism.codebook.useful
    return {
        name: np.bincount(codes[:, place], minlength=len(mechanism.codebook.rules[name].labels))
        for place, name in enumerate(names)
    }


def with_matrix(mechanism, matrix):
    return replace(mechanism, table=integers(matrix))


def test_the_errors_of_many_releases_are_those_stated(table, fitted):
    """A mechanism of full rank: no bias, and standardised errors of mean 0 and deviation 1."""
    size = len(fitted.mechanism.table)
    mechanism = with_matrix(fitted.mechanism, 0.7 * np.eye(size) + 0.3 / size)
    truth, errors = true_counts(mechanism, table), []
    for _ in range(60):
        found = estimate_counts(mechanism, mechanism.apply(table))
        for name, one in found.items():
            assert one.bias.max() < 1e-6 * len(table["age"])
            assert one.count.sum() == pytest.approx(len(table["age"]), rel=1e-9)
            errors.append((one.count - truth[name]) / one.standard_error)
    errors = np.concatenate(errors)
    assert abs(errors.mean()) < 0.2
    assert 0.85 < errors.std() < 1.15


@pytest.mark.parametrize("place", [2, *thorough(5)])
def test_an_optimal_design_states_what_it_cannot_determine(table, place):
    found = advise(table, **COLUMNS)
    mechanism = fit(table, **found.arguments, budget=found.designs[place].budget).mechanism
    truth, inside, total = true_counts(mechanism, table), 0, 0
    for _ in range(80):
        for name, one in estimate_counts(mechanism, mechanism.apply(table)).items():
            inside += int((abs(one.count - truth[name]) <= one.bias + 3 * one.standard_error).sum())
            total += len(one.count)
    assert inside >= 0.98 * total


def test_ranges_hold_and_are_those_of_tables_that_agree(table, fitted):
    """Symbols are merged in pairs, and one in ten records says nothing; and a release that says nothing at all."""
    size, records = len(fitted.mechanism.table), len(table["age"])
    matrix = np.zeros((size, size))
    matrix[np.arange(size), np.arange(size) // 2] = 0.9
    matrix[:, -1] += 0.1
    mechanism = with_matrix(fitted.mechanism, matrix)
    truth, inside, total = true_counts(mechanism, table), 0, 0
    for _ in range(20):
        for name, one in estimate_counts(mechanism, mechanism.apply(table)).items():
            held = (one.low <= truth[name]) & (truth[name] <= one.high)
            inside, total = inside + int(held.sum()), total + len(held)
            assert (one.low >= 0).all()
            assert (one.high <= records).all()
            assert (one.high - one.low < 0.75 * records).all()
            assert (abs(one.count - truth[name]) <= one.bias + 5 * one.standard_error).all()
    assert inside >= 0.95 * total
    hidden = with_matrix(fitted.mechanism, np.eye(size)[np.zeros(size, dtype=int)])
    for one in estimate_counts(hidden, hidden.apply(table)).values():
        np.testing.assert_allclose([one.low, one.high], [[0.0] * len(one.low), [records] * len(one.low)], atol=1e-6)


def test_the_range_of_a_class_of_one_record_holds_where_that_record_was_moved(table, fitted):
    """It has no record left then, and no other symbol is moved."""
    codes = fitted.mechanism.codebook.encode_useful(table)
    chosen = (codes == fitted.mechanism.useful[0]).all(axis=1)
    few = np.sort(np.append(np.flatnonzero(codes[:, 0] != codes[chosen][0, 0]), np.flatnonzero(chosen)[0]))
    table = {name: np.asarray(column)[few] for name, column in table.items()}
    matrix = np.eye(len(fitted.mechanism.table))
    other = int(np.flatnonzero(fitted.mechanism.useful[:, 0] != codes[chosen][0, 0])[0])
    matrix[0, [0, other]] = 0.5
    mechanism, moved = with_matrix(fitted.mechanism, matrix), 0
    for _ in range(20):
        one = estimate_counts(mechanism, mechanism.apply(table))["age"]
        place = codes[chosen][0, 0]
        assert one.low[place] <= 1 <= one.high[place]
        moved += one.count[place] < 0.5
    assert 0 < moved < 20


def test_the_estimate_is_nearer_than_the_released_count(table):
    """Four of ten records are released as one symbol: its class is counted far too often."""
    mechanism = fit(table, **COLUMNS, budget=0.15).mechanism
    size = len(mechanism.table)
    matrix = 0.6 * np.eye(size)
    matrix[:, 0] += 0.4
    mechanism = with_matrix(mechanism, matrix)
    truth = true_counts(mechanism, table)
    errors = {name: [] for name in truth}
    for _ in range(20):
        released = mechanism.apply(table)
        counted = _labels_counted(mechanism, released)
        for name, one in estimate_counts(mechanism, released).items():
            errors[name].append([abs(given - truth[name]).max() for given in (one.count, counted[name])])
    for both in errors.values():
        estimated, counted = np.mean(both, axis=0)
        assert estimated < 0.15 * counted


def _labels_counted(mechanism, released):
    return {
        name: np.array([(released[name] == label).sum() for label in labels])
        for name, labels in zip(mechanism.released_columns, mechanism.released_labels, strict=True)
    }


def test_a_table_as_it_is_has_no_error(table, fitted):
    mechanism = with_matrix(fitted.mechanism, np.eye(len(fitted.mechanism.table)))
    truth = true_counts(mechanism, table)
    for name, one in estimate_counts(mechanism, mechanism.apply(table)).items():
        np.testing.assert_allclose(one.count, truth[name], atol=1e-6)
        assert one.standard_error.max() < 1
        assert one.bias.max() < 1e-6


def test_numbered_symbols_of_a_funnel(table, every):
    mechanism = every["disclosure"].mechanism
    truth = true_counts(mechanism, table)
    for name, one in estimate_counts(mechanism, mechanism.apply(table)).items():
        assert (abs(one.count - truth[name]) <= one.bias + 4 * one.standard_error + 1e-6).all()


def test_what_was_not_released_is_refused(fitted):
    with refused("town"):
        estimate_counts(fitted.mechanism, {"age": np.array(["x"], dtype=object)})
    with refused("row 0"):
        estimate_counts(
            fitted.mechanism, {"age": np.array(["nobody"], dtype=object), "town": np.array(["north"], dtype=object)}
        )
