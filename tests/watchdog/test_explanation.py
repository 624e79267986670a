"""Why symbols are withheld: by which private symbol, what would be released without it, and how many records it
takes."""

import math

import numpy as np
import pytest

from jaxpriv.statistics.watchdog import scores
from jaxpriv.statistics.watchdog.causes import explain
from jaxpriv.statistics.watchdog.exact import watchdog
from tests.cases import drawn_joint, refused


def rare() -> np.ndarray:
    """Independent classes, and one private class with a single record."""
    counts = np.outer([300, 200, 100], [1, 2, 3, 4])
    return np.concatenate([counts, [[0, 0, 1, 0]]])


def test_one_record_withholds_everything_and_is_named():
    counts = rare()
    found = watchdog(counts / counts.sum(), epsilon=0.5)
    assert not found.released.any()
    (cause,) = explain(found, counts=counts)
    assert (cause.private, cause.symbols, cause.excluded, cause.records) == (3, 4, 3, 1)
    assert cause.mass == pytest.approx(1)
    assert cause.share_without == pytest.approx(1)
    share = 1 / counts.sum()
    assert cause.records_needed == math.ceil(math.log(20) / share * math.exp(0.5))
    # That many records: a cell as empty as epsilon allows is seen with the confidence.
    assert (1 - share * math.exp(-0.5)) ** cause.records_needed <= 0.05 + 1e-9


def test_causes_are_those_of_the_scores():
    rng = np.random.default_rng(3)
    for _ in range(20):
        joint = drawn_joint(rng, 3, 8, 0.4)
        joint[0, 2] = 0
        joint /= joint.sum()
        found = watchdog(joint, epsilon=0.4)
        causes = explain(found)
        withheld = ~found.released
        assert sum(cause.symbols for cause in causes) == withheld.sum()
        assert sum(cause.mass for cause in causes) == pytest.approx(joint[:, withheld].sum())
        assert [cause.mass for cause in causes] == sorted((cause.mass for cause in causes), reverse=True)
        prior = joint.sum(axis=1)
        for cause in causes:
            assert cause.records is None
            with np.errstate(divide="ignore"):
                lift = np.abs(np.log(joint / joint.sum(axis=0) / prior[:, None]))
            others = np.delete(lift, cause.private, axis=0).max(axis=0)
            assert cause.share_without == pytest.approx(joint[:, others <= 0.4].sum())
        assert (scores(joint)[withheld] > 0.4).all()


def test_nothing_withheld_has_no_cause():
    joint = rare() / rare().sum()
    assert explain(watchdog(joint, epsilon=np.inf)) == ()
    independent = np.outer([0.5, 0.5], [0.25, 0.75])
    assert explain(watchdog(independent, epsilon=0.1)) == ()


def test_bad_input():
    found = watchdog(rare() / rare().sum(), epsilon=0.5)
    with refused("counts has shape"):
        explain(found, counts=rare()[:2])
    for confidence in (0.0, 1.0, float("nan")):
        with refused("confidence"):
            explain(found, confidence=confidence)


def test_with_a_target_the_others_are_designed_again():
    """A target that nothing meets gives epsilon 0, by which nothing would be released without s either."""
    counts = rare()
    joint = counts / counts.sum()
    found = watchdog(joint, target_leakage=0.3)
    assert found.epsilon == 0
    assert not found.released.any()
    (cause,) = explain(found, counts=counts, target_leakage=0.3)
    rest = counts[:3] / counts[:3].sum()
    again = watchdog(rest, target_leakage=0.3)
    assert cause.share_without == pytest.approx(joint[:, again.released].sum())
    assert cause.share_without == pytest.approx(1)
    assert cause.records_needed == math.ceil(math.log(20) * counts.sum() * math.exp(0.3))
    assert "private symbol 3 (from 0), which has 1 record; 3 of them in none" in cause.sentence


def test_a_second_private_symbol_alone_is_no_secret():
    joint = np.array([[0.5, 0.3], [0.0, 0.2]])
    (cause, *_) = explain(watchdog(joint, target_leakage=0.1), target_leakage=0.1)
    assert cause.share_without == pytest.approx(1)
    assert ", which has" not in cause.sentence


def test_where_the_others_withhold_the_same_no_merge_is_advised():
    joint = np.array([[0.3, 0.02, 0.02], [0.02, 0.3, 0.02], [0.02, 0.02, 0.28]])
    causes = explain(watchdog(joint, epsilon=0.1))
    assert causes
    assert all(
        cause.share_without == 0 and cause.sentence.endswith("the others withhold the same.") for cause in causes
    )


def test_of_two_private_symbols_none_can_be_merged():
    """Merged into the other one nothing private would be left: the sentence does not say that this helps."""
    found = watchdog(np.array([[0.4, 0.1], [0.1, 0.4]]), target_leakage=0.1)
    causes = explain(found, target_leakage=0.1)
    assert [cause.others for cause in causes] == [1] * len(causes)
    assert causes
    assert all("merge" not in cause.sentence for cause in causes)
    assert all("A larger limit is needed" in cause.sentence for cause in causes)
