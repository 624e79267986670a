"""Guarantees without a prior, against definitions by enumeration and against priors."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given

import jaxpriv.leakage as lk
from jaxpriv import databases as db
from tests.cases import assert_refusals, assert_refused

from .conftest import mechanisms, random_mechanism


def log_ratio(upper: float, lower: float) -> float:
    """ln(upper/lower); nothing is asked of an output that `upper` excludes."""
    if upper == 0:
        return -np.inf
    return np.inf if lower == 0 else np.log(upper) - np.log(lower)


def by_enumeration(mechanism, sizes, pairs) -> float:
    table = db.sequences(sizes)
    values = [
        log_ratio(mechanism[i, r], mechanism[j, r])
        for i, j in itertools.permutations(range(len(table)), 2)
        if pairs(table[i], table[j])
        for r in range(mechanism.shape[1])
    ]
    return max([0.0, *values])


@given(mechanisms(zeros=True))
def test_dependent_records_are_hamming_balls(case):
    mechanism, sizes, _ = case
    for k in range(1, len(sizes) + 1):
        found = db.dependent_records_privacy(mechanism, sizes, k)
        for i in range(len(sizes)):
            expected = by_enumeration(
                mechanism, sizes, lambda x, y, i=i, k=k: x[i] != y[i] and np.count_nonzero(x != y) <= k
            )
            assert found.per_record[i] == pytest.approx(expected, abs=1e-12)
        relation = db.differential_privacy(mechanism, db.hamming_neighbours(sizes, k))
        assert found.value == pytest.approx(relation.value, abs=1e-12)
        assert found.value == found.per_record[found.record]
    assert found.value == pytest.approx(db.all_priors_privacy(mechanism).value, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_agrees_with_the_leakage_measures_and_its_witness(seed):
    rng = np.random.default_rng(seed)
    mechanism = random_mechanism(seed, 6, 3, zeros=seed % 2 == 1)
    relation = rng.random((6, 6)) < 0.4
    found = db.differential_privacy(mechanism, relation)
    assert found.value == pytest.approx(float(lk.ldp_of_channel(mechanism, relation)), abs=1e-12)
    everything = db.all_priors_privacy(mechanism)
    assert everything.value == pytest.approx(float(lk.ldp_of_channel(mechanism)), abs=1e-12)
    for result in (found, everything):
        if result.value > 0:
            place = result.witness
            ratio = log_ratio(mechanism[place.raised, place.output], mechanism[place.lowered, place.output])
            assert ratio == pytest.approx(result.value, abs=1e-12)


@given(mechanisms())
def test_group_privacy_bounds_what_dependence_costs(case):
    mechanism, sizes, _ = case
    one = db.dependent_records_privacy(mechanism, sizes).value
    values = [db.dependent_records_privacy(mechanism, sizes, k).value for k in range(1, len(sizes) + 1)]
    assert values == sorted(values)
    for k, value in enumerate(values, start=1):
        assert value <= db.group_privacy_bound(one, k) + 1e-12


def test_zeros_and_single_symbols():
    # An output that both exclude asks for nothing.
    both = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
    assert db.all_priors_privacy(both).value == 0.0
    # The database with one value only; no pair at all.
    assert db.dependent_records_privacy([[0.3, 0.7]], (1, 1)).value == 0.0
    alone = db.differential_privacy([[0.3, 0.7]], [[True]])
    assert alone.value == 0.0
    assert alone.witness is None
    # Subnormal masses are masses.
    tiny = np.array([[1.0, 5e-324], [1.0, 5e-322]])
    assert db.all_priors_privacy(tiny).value == pytest.approx(np.log(5e-322) - np.log(5e-324))


def test_bad_input():
    m = random_mechanism(0, 3, 2)
    assert_refusals(
        db.dependent_records_privacy,
        ("3 rows", m, (2, 2)),
        ("dependent", m, (3,), 0),
        ("dependent", m, (3,), 2),
    )
    assert_refused("2 databases", db.differential_privacy, m, np.ones((2, 2)))
    assert_refused("sums to 2", db.differential_privacy, m * 2, np.ones((3, 3)))
    assert_refused("NaN", db.all_priors_privacy, m * np.nan)
    assert_refusals(
        db.group_privacy_bound,
        ("eps", -0.1, 2),
        ("eps", np.nan, 2),
        ("records", 0.1, 0),
    )
    assert_refused(r"marginals\[0\]", db.independent_prior, [[0.5, 0.4]])
    assert_refused("marginals must be a sequence", db.independent_prior, 5)


@pytest.mark.parametrize("eps", [1e-4, 0.05, 0.7, 3.0])
def test_the_information_of_a_private_release_is_at_most_in_proportion_to_the_records(eps):
    """Below n eps; above exact leakages, and attained by staircase mechanisms of one record with many symbols."""
    for records in (1, 2, 8, 100):
        bound = db.information_bound(eps, records)
        assert bound <= records * eps
        for spacing in {1, records // 2 or 1, records}:
            if records % spacing == 0:
                assert db.sparse_count_leakage(records, spacing, eps) <= bound
    k = eps / -math.expm1(-eps)
    share = (k - 1) / math.expm1(eps)
    lifts = np.where(np.arange(1000) < round(1000 * share), math.exp(eps), 1.0)
    posterior = lifts / lifts.sum()
    assert posterior @ np.log(1000 * posterior) == pytest.approx(db.information_bound(eps, 1), rel=1e-3)
