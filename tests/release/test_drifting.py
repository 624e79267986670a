"""A later table against the records of a design: distances by hand, levels, and what bounds the leakage of it."""

from dataclasses import replace

import numpy as np
import pytest

from jaxpriv.errors import InputError, IntegrityError
from jaxpriv.release import drift, fit
from jaxpriv.statistics.tables import Edges
from tests.cases import raised
from tests.information import information
from tests.release.conftest import COLUMNS, people


@pytest.fixture(scope="module")
def shifted():
    """Records of a later time: nearly all of them in the south."""
    later = people(900, seed=8)
    later["town"][np.random.default_rng(0).random(900) < 0.7] = "south"
    return later


def test_distances_are_those_of_the_shares(fitted, shifted):
    found = drift(fitted.mechanism, fitted.evidence, shifted)
    counts, useful = fitted.evidence.counts.sum(axis=0), fitted.mechanism.useful
    codes = fitted.mechanism.codebook.encode_useful(shifted)
    for place, one in enumerate(found.columns[:2]):
        before = np.array([counts[useful[:, place] == code].sum() for code in range(3)]) / counts.sum()
        now = np.bincount(codes[:, place], minlength=3) / 900
        assert one.variation == pytest.approx(abs(before - now).sum() / 2)
    age, town, together = found.columns
    assert (age.column, town.column, together.column) == ("age", "town", None)
    assert together.variation >= max(age.variation, town.variation)
    assert town.adjusted < 1e-20
    assert all(one.p_value <= one.adjusted <= 1 for one in found.columns)
    assert found.drifted
    assert (found.design, found.records, found.unseen) == (counts.sum(), 900, 0)


def test_what_bounds_the_leakage_of_a_later_table(fitted, shifted):
    """I(X;Y) of the new shares, exact, above I(S;Y) of the new records."""
    found = drift(fitted.mechanism, fitted.evidence, shifted).information
    symbols = fitted.mechanism.symbols(shifted)
    mapping = fitted.mechanism.matrix()
    shares = np.bincount(symbols, minlength=len(mapping)) / 900
    value = information(np.diag(shares) @ mapping)
    assert float(found.lower) - 1e-9 <= value <= float(found.upper) + 1e-9
    assert float(found.upper) - float(found.lower) < 1e-9
    joint = np.array([np.bincount(symbols[shifted["income"] == s], minlength=len(mapping)) for s in ("high", "low")])
    assert information(joint / 900 @ mapping) < float(found.upper)


def test_tables_of_one_population_seldom_differ():
    """Few records for each combination, so that the approximation is not used: 30 tables, level 0.05."""
    one = fit(people(300), **{**COLUMNS, "rules": {}}, target_leakage=3.0, sparse=True, unseen="nearest")
    assert not drift(one.mechanism, one.evidence, people(300)).drifted
    least = []
    for seed in range(30):
        later = people(150, seed=100 + seed)
        inside = np.isin(later["age"], one.mechanism.codebook.rules["age"].values)
        later = {name: values[inside] for name, values in later.items()}
        found = drift(one.mechanism, one.evidence, later)
        assert found.unseen > 0  # each combination that is new to the mapping is a cell of its own
        least.append(min(each.adjusted for each in found.columns))
    assert sum(p < 0.05 for p in least) <= 6  # more has a probability below 0.001


def test_records_without_a_symbol():
    """Their count, and the release that each rule gives them."""
    records = people(600)
    away = (records["age"] >= 60) & (records["town"] == "south")
    near = {name: values[~away] for name, values in records.items()}
    one = fit(near, **{**COLUMNS, "rules": {"age": Edges([18, 40, 60, 80])}}, budget=0.1, split=1.0)
    mechanism, evidence = one.mechanism, one.evidence
    codes = mechanism.codebook.encode_useful(records)
    unknown = mechanism.unknown(codes)
    rules = ("refuse", "nearest", "suppress")
    found = {rule: drift(replace(mechanism, unseen=rule), evidence, records) for rule in rules}
    assert [each.unseen for each in found.values()] == [away.sum()] * 3 == [unknown.sum()] * 3
    assert found["refuse"].information is None
    mapping, size = mechanism.matrix(), len(mechanism.table)
    nearest = np.bincount(mechanism.locate_codes(codes, "nearest"), minlength=size)
    even = np.bincount(mechanism.locate_codes(codes[~unknown]), minlength=size) + unknown.sum() / size
    for rule, weights in (("nearest", nearest), ("suppress", even)):
        value = information(np.diag(weights / 600) @ mapping)
        assert float(found[rule].information.upper) == pytest.approx(value, rel=1e-9)
    # All of the mass without a symbol counts in the total variation, and none is left out.
    shares = evidence.counts.sum(axis=0) / evidence.counts.sum()
    now = np.bincount(mechanism.locate_codes(codes[~unknown]), minlength=size) / 600
    assert found["nearest"].columns[-1].variation == pytest.approx((abs(shares - now).sum() + unknown.mean()) / 2)


def test_what_is_refused(every, table):
    with raised(IntegrityError, "another mechanism"):
        drift(every["budget"].mechanism, every["watchdog"].evidence, table)
    with raised(InputError, "town"):
        drift(every["budget"].mechanism, every["budget"].evidence, {"age": table["age"]})
