"""The order of Blackwell: garblings, closed forms of erasure and symmetric channels, and gains that separate."""

import numpy as np
import pytest

from jaxpriv import leakage as lk
from jaxpriv.testing import random_joint
from tests.cases import assert_refused, value_of


def symmetric(flip):
    return np.array([[1 - flip, flip], [flip, 1 - flip]])


def erasure(lost):
    return np.array([[1 - lost, 0.0, lost], [0.0, 1 - lost, lost]])


def test_a_garbling_is_safer_by_every_measure():
    joint = random_joint(2, 3, 4)
    second = np.random.default_rng(1).dirichlet(np.ones(5), 4)
    first = second @ np.random.default_rng(2).dirichlet(np.ones(3), 5)
    found = lk.blackwell_order(joint, first, second)
    assert found.safer == "first"
    assert joint @ second @ found.first.matrix == pytest.approx(joint @ first, abs=1e-9)
    assert found.first.advantage <= 1e-12
    assert lk.blackwell_order(joint, second, first).safer == "second"
    assert lk.blackwell_order(joint, second, second[:, ::-1]).safer == "equivalent"
    gains = lk.GainLeakage(found.second.gains)
    assert value_of(gains, joint, second) > value_of(gains, joint, first)


@pytest.mark.parametrize(("flip", "safer"), [(0.21, "first"), (0.2, "first"), (0.19, "incomparable")])
def test_a_symmetric_channel_is_an_erasure_channel_garbled_if_it_flips_half_as_often(flip, safer):
    prior = np.diag([0.4, 0.6])
    found = lk.blackwell_order(prior, symmetric(flip), erasure(0.4))
    assert found.safer == safer
    for part, more, less in [
        (found.first, symmetric(flip), erasure(0.4)),
        (found.second, erasure(0.4), symmetric(flip)),
    ]:
        apart = (part.gains @ prior @ more).max(axis=0).sum() - (part.gains @ prior @ less).max(axis=0).sum()
        assert apart == pytest.approx(part.advantage, abs=1e-15)
        assert 0.0 <= part.gains.min() <= part.gains.max() <= 1.0
        assert (apart > 1e-9) == (part.distance > 1e-8)


def test_the_wrong_mechanism_is_named():
    assert_refused("second has 1 dim", lk.blackwell_order, np.eye(2) / 2, np.eye(2), [1.0, 0.0])
