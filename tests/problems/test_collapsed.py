"""A database behind a query (Calmon-Fawaz Corollaries 1 and 2): the elementary states are never listed."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.leakage import MaxInformation
from jaxpriv.solving.choice import newton_bytes
from tests.cases import assert_refused, value_of

from .checks import proved

RECORDS, CHANCE = 4, 0.3
LIMIT = 0.5
COUNTS = np.arange(RECORDS + 1.0)
# Through the count alone: its law, and H(S | X=x) = ln C(n, x); and the joint of all 2^n databases and their counts.
QUERY = jp.databases.counting_query(RECORDS, CHANCE)
COLLAPSED, MEASURE = np.diag(QUERY.prior), MaxInformation(QUERY.hidden)
ONES = jp.databases.counts((2,) * RECORDS)
LISTED = (ONES[:, None] == COUNTS) * CHANCE**COUNTS * (1 - CHANCE) ** (RECORDS - COUNTS)


def stated(joint, leakage, distortion=None, **form):
    distortion = jp.distortion.absolute(COUNTS) if distortion is None else distortion
    return jp.DistortionProblem(joint, distortion, leakage=leakage, **{"leakage_budget": LIMIT, **form})


def test_optimum_is_that_of_the_listed_databases():
    small, large = proved(stated(COLLAPSED, MEASURE)), proved(stated(LISTED, MaxInformation()))
    assert small.value >= large.lower_bound - 1e-12
    assert large.value >= small.lower_bound - 1e-12
    assert value_of(MaxInformation(), LISTED, small.mechanism) <= LIMIT + 1e-10


def test_symbols_of_next_to_no_mass_are_certified_all_the_same():
    joint = np.diag(np.append(QUERY.prior * (1 - 1e-15), 1e-15))
    distortion = jp.distortion.absolute(np.arange(RECORDS + 2.0), COUNTS)
    found = proved(stated(joint, MaxInformation(np.append(QUERY.hidden, 0.0)), distortion))
    assert found.value == pytest.approx(jp.solve(stated(COLLAPSED, MEASURE)).value, abs=2e-6)


def test_hidden_entropies_of_another_size():
    assert_refused("hidden", jp.solve, stated(COLLAPSED, MaxInformation([0.0, 1.0, 2.0])))
    assert_refused("hidden", MaxInformation, [0.0, np.nan])


def test_ten_thousand_records_need_no_dense_factors():
    """What the interior-point method would hold decides whether it may run: here a few tables."""
    inner = jp.databases.counting_query(10_000, 0.5).clamped(5000 - 8 * 50, 5000 + 8 * 50)  # eight standard deviations
    counts = np.arange(inner.prior.size)
    whole = np.diag(inner.prior), MaxInformation(inner.hidden), jp.distortion.absolute(counts, counts)
    assert newton_bytes(stated(*whole)) < 2**28
    assert newton_bytes(stated(*whole, limits=[(jp.leakage.Lift(), 1.0)])) > 2**32
