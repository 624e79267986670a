"""Every number of an audit is a number: no NaN, nothing below 0, no bound below the value on the frequencies."""

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from numpy.testing import assert_allclose

from jaxpriv.statistics.audit import audit_mechanism, audit_pairs, leakage_bounds
from jaxpriv.statistics.audit.bounds import others
from jaxpriv.statistics.confidence import DivergenceBall, population
from tests.statistics.conftest import PRIVATE, RELEASED, USEFUL

KINDS = ("equal rows", "almost equal rows", "deterministic", "sharp", "tiny entries", "dense")


def mechanism_of(kind, rng):
    rows = rng.dirichlet(np.ones(RELEASED), USEFUL)
    match kind:
        case "equal rows":
            return np.tile(rows[0], (USEFUL, 1))
        case "almost equal rows":
            rows = rows[0] * (1 + 1e-9 * rng.random(rows.shape))
        case "deterministic":
            rows = np.eye(RELEASED)[rng.integers(RELEASED, size=USEFUL)]
        case "sharp":
            rows = rng.dirichlet(np.full(RELEASED, 0.05), USEFUL)
        case "tiny entries":
            rows = rows * (rng.random(rows.shape) < 0.5) + 1e-300
    return rows / rows.sum(axis=1, keepdims=True)


def numbers(record, path=""):
    if isinstance(record, (float, np.floating)):
        yield path, float(record)
    elif dataclasses.is_dataclass(record):
        for field in dataclasses.fields(record):
            yield from numbers(getattr(record, field.name), f"{path}.{field.name}")
    elif isinstance(record, (tuple, list)):
        for part in record:
            yield from numbers(part, path)


def check(audit):
    nothing = [path for path, value in numbers(audit) if np.isnan(value)]
    assert not nothing
    for row in audit.rows:
        for bound in (row.upper, row.cap):
            assert bound is None or bound >= max(row.fitted or 0.0, row.lower or 0.0), row


@pytest.mark.slow
@given(
    st.sampled_from(KINDS),
    st.integers(0, 10**6),
    st.sampled_from([1.0, 30.0, 1e4, 1e8]),
    st.booleans(),
    st.sampled_from([0.01, 0.95, 0.999999]),
    st.sampled_from(["counts", "joint", "pairs"]),
)
@example("equal rows", 0, 30.0, False, 0.95, "counts")
@example("equal rows", 3, 30.0, True, 0.95, "counts")
@example("equal rows", 3, 30.0, False, 0.95, "joint")
def test_an_audit_has_no_nan_and_no_bound_below_the_fitted_value(kind, seed, size, held_out, confidence, form):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(size * rng.random((PRIVATE, USEFUL)) * (rng.random((PRIVATE, USEFUL)) < 0.6))
    counts[0, 0] += 2
    mechanism = mechanism_of(kind, rng)
    match form:
        case "counts":
            audit = audit_mechanism(mechanism, counts=counts, held_out=held_out, confidence=confidence, bootstrap=0)
            assert audit.utility.fitted >= audit.utility.lower >= 0
        case "joint":
            audit = audit_mechanism(mechanism, joint=counts / counts.sum())
        case "pairs":
            audit = audit_pairs(counts, permutations=9, confidence=confidence, bootstrap=0)
    check(audit)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("private", [1, 2, 3])
def test_the_bounds_themselves_reach_the_values_up_to_rounding(kind, private, measures, truth):
    """`audit_mechanism` raises a bound to the fitted value: here without that, also for a single private symbol."""
    rng = np.random.default_rng(private)
    for repeat in range(2):
        counts = rng.poisson(20.0 * rng.random((private, USEFUL))) + np.eye(private, USEFUL, dtype=int)
        mechanism = mechanism_of(kind, rng)
        bounds = leakage_bounds(population(counts, 0.05, held_out=repeat == 1), mechanism, measures)
        filled = np.concatenate([counts, np.zeros((PRIVATE - private, USEFUL))]) / counts.sum()
        for bound, value, measure in zip(bounds, truth(filled, mechanism), measures, strict=True):
            for side in (bound.upper[0, 0], bound.cap[0]):
                assert side >= value * (1 - 1e-12) - 1e-14, (measure, repeat)


def test_the_escort_prior_of_a_rare_symbol_is_not_rounded_to_a_likely_one():
    """The other symbols of a distribution are summed themselves: 1 + 1e-20 - 1 is 0, which made a rare one certain."""
    values = np.array([[1.0, 1e-20, 3e-20]])
    assert_allclose(others(values, 1), [[4e-20, 1.0, 1.0]], rtol=1e-15)
    stack = np.random.default_rng(0).random((2, 4, 3, 5))
    assert_allclose(others(stack, 2), stack.sum(axis=2, keepdims=True) - stack, rtol=1e-13)


def test_tiny_weights_do_not_overflow_in_a_divergence_ball():
    centre = np.array([[0.5, 0.3, 0.2]])
    ball = DivergenceBall(centre, np.array([0.1]), np.ones((1, 3), bool))
    weights = np.array([[1.0, 0.5, 0.0], [-1.0, 0.0, 0.25]])
    for scale in (1e-300, 1e-200, 1e200):
        assert_allclose(ball.upper(scale * weights), scale * ball.upper(weights), rtol=1e-12)
