"""One prior: the ladder of Proposition 2, groups, and agreement with the leakage measures."""

import itertools

import numpy as np
import pytest
from hypothesis import given

import jaxpriv.leakage as lk
from jaxpriv import databases as db
from tests.cases import assert_refused, value_of

from .conftest import mechanisms, random_mechanism


def some_prior(rng, total, zeros):
    prior = rng.dirichlet(np.full(total, 0.7))
    if zeros and total > 1:
        prior[rng.integers(total)] = 0.0
    return prior / prior.sum()


@given(mechanisms(zeros=True))
def test_ladder_is_in_order_and_below_the_guarantees(case):
    mechanism, sizes, rng = case
    prior = some_prior(rng, len(mechanism), zeros=True)
    steps = db.ladder(mechanism, prior, sizes)
    order = (steps.inferential, steps.information, steps.relative_entropy, steps.mutual_information)
    for stronger, weaker in itertools.pairwise(order):
        assert np.all(stronger.per_record >= weaker.per_record - 1e-12)
    two_sided = db.information_privacy(mechanism, prior, sizes, two_sided=True)
    one_sided = db.information_privacy(mechanism, prior, sizes)
    np.testing.assert_array_equal(one_sided.per_record, steps.information.per_record)
    assert np.all(one_sided.per_record <= two_sided.per_record + 1e-12)
    assert np.all(two_sided.per_record <= steps.inferential.per_record + 1e-12)
    assert np.all(steps.inferential.per_record <= 2 * two_sided.per_record + 1e-12)
    assert steps.inferential.value <= db.all_priors_privacy(mechanism).value + 1e-12


@given(mechanisms(zeros=True))
def test_groups_know_more(case):
    mechanism, sizes, rng = case
    prior = some_prior(rng, len(mechanism), zeros=False)
    single = db.information_privacy(mechanism, prior, sizes).per_record
    values = [db.group_information(mechanism, prior, sizes, range(k + 1)) for k in range(len(sizes))]
    assert values[0] == pytest.approx(single[0], abs=1e-12)
    for small, large in itertools.pairwise(values):
        assert small <= large + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_leakage_measures(seed):
    """Every measure of `jaxpriv.leakage` is a measure of a record, through the joint of record and output."""
    sizes, rng = (2, 3), np.random.default_rng(seed)
    mechanism, prior = random_mechanism(seed, 6, 3), rng.dirichlet(np.ones(6))
    steps = db.ladder(mechanism, prior, sizes)
    joint = db.record_joint(mechanism, prior, sizes, 1)
    assert joint.shape == (3, 3)
    for measure, value in (
        (lk.InferentialPrivacy(), steps.inferential),
        (lk.MaxLift(), steps.information),
        (lk.RelativeEntropyPrivacy(), steps.relative_entropy),
        (lk.MutualInformation(), steps.mutual_information),
        (lk.Lift(), db.information_privacy(mechanism, prior, sizes, two_sided=True)),
    ):
        found = value_of(measure, joint, np.eye(3))
        assert value.per_record[1] == pytest.approx(found, abs=1e-12)


def test_joint_of_a_group_keeps_the_order_of_its_records():
    sizes, rng = (2, 3, 2), np.random.default_rng(5)
    mechanism, prior = random_mechanism(5, 12, 2), rng.dirichlet(np.ones(12))
    joint = db.record_joint(mechanism, prior, sizes, (2, 0)).reshape(2, 2, 2)
    for a, b, r in itertools.product(range(2), repeat=3):
        expected = sum(
            prior[x] * mechanism[x, r] for x, row in enumerate(db.sequences(sizes)) if row[2] == a and row[0] == b
        )
        assert joint[a, b, r] == pytest.approx(expected, abs=1e-15)


@given(mechanisms(zeros=True))
def test_post_processing_never_helps_the_adversary(case):
    """Proposition 3, for every measure of the ladder and every guarantee."""
    mechanism, sizes, rng = case
    prior = some_prior(rng, len(mechanism), zeros=True)
    processed = mechanism @ rng.dirichlet(np.full(3, 0.5), mechanism.shape[1])
    processed /= processed.sum(axis=1, keepdims=True)
    before, after = db.ladder(mechanism, prior, sizes), db.ladder(processed, prior, sizes)
    for name in ("inferential", "information", "relative_entropy", "mutual_information"):
        assert np.all(getattr(after, name).per_record <= getattr(before, name).per_record + 1e-12)
    assert db.all_priors_privacy(processed).value <= db.all_priors_privacy(mechanism).value + 1e-12
    for k in range(1, len(sizes) + 1):
        one, two = (db.dependent_records_privacy(m, sizes, k).per_record for m in (processed, mechanism))
        assert np.all(one <= two + 1e-12)


@pytest.mark.parametrize(
    ("prior", "sizes", "records", "message"),
    [
        ([0.5, 0.5], (2, 2), 0, "2 entries"),
        ([0.5, 0.5, 0.5, 0.5], (2, 2), 0, "sums to 2"),
        ([0.5, 0.6, -0.1, 0.0], (2, 2), 0, r"prior\[2\] is negative"),
        ([0.5, np.nan, 0.5, 0.0], (2, 2), 0, r"prior\[1\] is NaN"),
        ([0.25] * 4, (2, 2), 2, r"records\[0\]"),
        ([0.25] * 4, (2, 2), (0, 0), "none twice"),
        ([0.25] * 4, (2, 2), (), "at least one"),
        ([0.25] * 4, (2, 2), np.array(2), r"records\[0\]"),
        ([0.25] * 4, (2, 2), None, "records must be a sequence"),
        ([0.25] * 4, (2, 3), 0, "4 rows"),
    ],
)
def test_bad_input(prior, sizes, records, message):
    assert_refused(message, db.record_joint, random_mechanism(0, 4, 2), prior, sizes, records)
    assert_refused("two_sided", db.information_privacy, np.eye(4), np.full(4, 0.25), (2, 2), two_sided="False")
