"""The integer table and the draws from it: exact for small tables, chi-squared for large ones, and able to fail."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2

from jaxpriv.errors import EntropyError, IntegrityError
from jaxpriv.leakage import MaxLift
from jaxpriv.release import table as tables
from jaxpriv.release.table import quantise, within_distortion, within_limit, without_rare
from tests.cases import raised, value_of
from tests.verifier.conftest import ONE, counted

SHIFT = np.uint64(62)


def mapping(seed: int, shape: tuple[int, int] = (4, 5)) -> np.ndarray:
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(shape[1], 0.3), shape[0])
    table[0, 1] = 0.0
    return table / table.sum(axis=1, keepdims=True)


@given(st.integers(0, 10**6), st.sampled_from([16, 32, 62]), st.booleans())
def test_rows_are_exact_and_near_the_mechanism(seed, resolution, support):
    w = mapping(seed)
    table = quantise(w, resolution=resolution, support=support)
    assert all(sum(row) == ONE for row in table.tolist())
    assert (table[w == 0] == 0).all()
    assert (table % np.uint64(2 ** (62 - resolution)) == 0).all()
    if support:
        assert ((table > 0) == (w > 0)).all()
    assert_allclose(table / ONE, w, rtol=0, atol=w.shape[1] * 2.0**-resolution + 1e-15)


@given(st.integers(0, 10**6))
def test_rounding_never_spends_more_than_the_budget(seed):
    rng = np.random.default_rng(seed)
    w, costs = mapping(seed, (5, 5)), rng.random((5, 5))
    counts = rng.integers(0, 30, (2, 5))
    counts[:, 0] += 1
    mass = counts.sum(axis=0) / counts.sum()
    budget = float((mass[:, None] * w * costs).sum()) * (1 - 1e-9)  # a little less than it has
    table = within_distortion(quantise(w, resolution=32, costs=costs), counts, costs, budget)
    used = sum(
        Fraction(int(n)) * Fraction(int(t)) * Fraction(float(d))
        for n, row, cost in zip(counts.sum(axis=0), table, costs, strict=True)
        for t, d in zip(row, cost, strict=True)
    ) / (int(counts.sum()) * ONE)
    assert used <= Fraction(budget)
    assert ((table > 0) <= (w > 0)).all()
    assert all(sum(row) == ONE for row in table.tolist())
    assert_allclose(table / ONE, w, rtol=0, atol=1e-6)


@pytest.mark.parametrize("measure", ["mutual-information", "maximal-leakage", "min-entropy", "lift"])
def test_rounding_never_leaks_more_than_the_limit(measure):
    counts = np.random.default_rng(0).integers(1, 50, (3, 4))
    table = quantise(mapping(1) * 0.9 + 0.02, resolution=40)
    limit = float(counted(counts, table).leakage(measure).lower) * (1 - 1e-10)

    def leaked(one):
        return Fraction(counted(counts, one).leakage(measure).upper)

    mixed = within_limit(table, leaked, limit)
    assert leaked(mixed) <= Fraction(limit)
    assert all(sum(row) == ONE for row in mixed.tolist())


@pytest.mark.parametrize("bits", [8, 10, 13])
def test_every_number_of_a_small_table_draws_what_the_table_says(bits):
    """All 2^bits leading bits, with the lowest and the highest continuation of each."""
    table = quantise(mapping(bits), resolution=bits)
    sums = tables.cumulative(table)
    leading = np.arange(2**bits, dtype=np.uint64) << (SHIFT - np.uint64(bits))
    for x, row in enumerate(table):
        for numbers in (leading, leading + (np.uint64(1) << (SHIFT - np.uint64(bits))) - np.uint64(1)):
            drawn = tables.locate(sums, np.full(2**bits, x), numbers)
            counts = np.bincount(drawn, minlength=len(row)).astype(np.uint64)
            assert_array_equal(counts << (SHIFT - np.uint64(bits)), row)


def test_records_in_any_order_draw_their_own_row():
    table = np.zeros((3, 3), dtype=np.uint64)
    table[[0, 1, 2], [2, 0, 1]] = ONE
    index = np.random.default_rng(0).integers(0, 3, 1000)
    assert_array_equal(tables.draw(tables.cumulative(table), index), np.array([2, 0, 1])[index])


def test_frequencies_of_the_systems_randomness():
    w = np.array([[0.5, 0.3, 0.2], [0.01, 0.98, 0.01]])
    table = quantise(w, resolution=62)
    index = np.repeat([0, 1], 200_000)
    drawn = tables.draw(tables.cumulative(table), index)
    seen = np.stack([np.bincount(drawn[index == x], minlength=3) for x in (0, 1)])
    distance = ((seen - 200_000 * w) ** 2 / (200_000 * w)).sum()
    assert chi2.sf(distance, 4) > 1e-6
    # The same test is able to fail: a table 1 % off is another one.
    off = 200_000 * np.array([[0.51, 0.29, 0.2], [0.01, 0.98, 0.01]])
    assert chi2.sf(((seen - off) ** 2 / off).sum(), 4) < 1e-6


def test_uniform_numbers_have_all_values_and_no_bias():
    seen = np.bincount(tables.uniform(5, 50_000), minlength=5)
    assert len(seen) == 5
    assert chi2.sf(((seen - 10_000) ** 2 / 10_000).sum(), 4) > 1e-6
    assert (tables.uniform(1, 7) == 0).all()


@pytest.mark.parametrize("entry", [1, 2**62])
def test_a_table_that_does_not_sum_to_one_is_refused(entry):
    table = quantise(mapping(0), resolution=32)
    table[2, 3] += np.uint64(entry)
    with raised(IntegrityError, "2\\^62"):
        tables.cumulative(table)


def test_the_self_test_passes_and_can_fail(monkeypatch, random_bytes):
    table, rows = quantise(mapping(4), resolution=32), np.arange(4)
    tables.self_test(table, rows)
    generator = np.random.default_rng(0)

    def biased(count: int) -> bytes:
        """The upper half of the numbers comes in 52 % of the cases."""
        numbers = generator.integers(0, 2**63, count // 8, dtype=np.uint64)
        return (numbers | (np.uint64(2**63) * (generator.random(count // 8) < 0.52))).astype("<u8").tobytes()

    random_bytes(biased)
    with raised(EntropyError, "self-test"):
        tables.self_test(table, rows)
    monkeypatch.setattr(tables, "locate", lambda sums, index, numbers: np.zeros(len(index), dtype=np.int64))
    with raised(IntegrityError, "self-test"):
        tables.self_test(table, rows)


def test_an_output_that_is_rarer_than_the_resolution_is_merged():
    """Rounded, its ratios are others and it becomes the worst outcome; merged, no ratio grows."""
    counts = np.array([[40, 10, 20, 5], [10, 30, 5, 20]])
    mass, costs = counts.sum(axis=0) / counts.sum(), 1.0 - np.eye(4)
    w = np.array([[0.7, 0.3, 0, 0], [0.2, 0.8, 0, 0], [0, 0.5, 0, 0.5], [0, 0.5, 0, 0.5]])
    w = (1 - 1e-9) * w
    w[:, 2] = [3e-10, 1e-9, 4e-10, 1e-9]
    w /= w.sum(axis=1, keepdims=True)
    merged = without_rare(w, mass, costs, 1e-6)
    assert_allclose(merged.sum(axis=1), 1.0)
    assert not merged[:, 2].any()
    # Into the output where that costs the least: x = 1 has the largest share of it.
    assert_array_equal(merged[:, 1], w[:, 1] + w[:, 2])
    assert_array_equal(without_rare(w, mass, costs, 1e-12), w)
    rough, better = (quantise(table, resolution=32, support=True) for table in (w, merged))
    values = [float(counted(counts, one).leakage("max-lift").upper) for one in (rough, better)]
    assert values[1] == pytest.approx(float(value_of(MaxLift(), counts / counts.sum(), merged)), abs=1e-8)
    assert values[1] <= values[0]
