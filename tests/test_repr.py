"""Results print what they are, never the numbers of a table."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import datasets, watchdog
from jaxpriv.funnels.greedy import greedy

JOINT = np.array([[0.3123, 0.1077], [0.0811, 0.4989]])


@pytest.mark.parametrize(
    "make",
    [
        lambda: jp.FunnelProblem(JOINT, disclosure=0.1),
        lambda: jp.solve(jp.FunnelProblem(JOINT, disclosure=0.1)),
        lambda: jp.funnel_frontier(jp.BottleneckProblem(JOINT, disclosure=0.0), disclosures=[0.1, 0.2]),
        lambda: greedy(JOINT, disclosure=0.1),
        lambda: watchdog.watchdog(JOINT, epsilon=0.5),
        lambda: jp.maximum_utility(JOINT.sum(axis=0), (jp.leakage.MaxLift(), 0.2)),
        lambda: jp.gaussian.from_covariances(np.eye(2), np.eye(1), np.array([[0.1], [0.2]])),
        datasets.census_small,
    ],
)
def test_no_table_is_printed(make):
    text = repr(make())
    assert "array(" not in text
    assert "0.3123" not in text
    assert len(text) < 1500


def test_numbers_print_plainly():
    text = repr(jp.solve(jp.DistortionProblem(JOINT, 1 - np.eye(2), budget=0.1)))
    assert "np." not in text
    assert "  code=0," in text
