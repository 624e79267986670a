"""A second release of the same records: brute force, closed forms, and what fewer receivers have."""

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.leakage import MutualInformation
from tests.cases import assert_refused, drawn_joint, value_of
from tests.funnels.cases import information
from tests.grid.measures import MEASURES
from tests.grid.optimum import Limit, Question, least

from .checks import proved

FLIP = np.array([[0.9, 0.1], [0.1, 0.9]])
BIT = np.eye(2) / 2


def drawn(seed, private=3, useful=4, known=3, released=3):
    """(joint, P(z|x), d): one symbol x has a z that it never gives."""
    rng = np.random.default_rng(seed)
    joint = drawn_joint(rng, private, useful)
    earlier = rng.dirichlet(np.ones(known), useful)
    earlier[0] = [0.0, 0.7, 0.3]
    return joint, earlier, rng.uniform(size=(useful, released))


def test_two_looks_at_a_bit():
    """A binary symmetric channel of .1 once and twice: .5310 and .7421 bits; a copy of the first costs nothing."""
    problem = jp.sequential_release(BIT, FLIP, 1 - np.eye(2), budget=0.1)
    twice = np.zeros((2, 2, 2, 2))
    twice[:, [0, 1], [0, 1]] = FLIP[:, None]
    of_both = value_of(MutualInformation(), problem.joints[0], twice.reshape(4, 4))
    assert of_both == pytest.approx(0.742085859 * np.log(2), abs=1e-9)
    found = jp.solve(problem)
    assert found.status == "optimal"
    assert found.value == pytest.approx(0.531004406 * np.log(2), abs=2e-6)


@pytest.mark.parametrize("budget", [0.02, 0.05, 0.08])
def test_brute_force(budget):
    """By symmetry two probabilities decide, of an error where z is right and where it is wrong."""
    wrong = np.linspace(0, 1, 20001)
    right = (budget - 0.1 * wrong) / 0.9
    wrong, right = wrong[right >= 0], right[right >= 0]
    # P(y=0, z=x=0), and so on: pairs (z, y) of x = 0; those of x = 1 are their complements.
    pairs = np.stack([0.9 * (1 - right), 0.9 * right, 0.1 * (1 - wrong), 0.1 * wrong])
    mean = 0.5 * (pairs + pairs[::-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(pairs > 0, pairs * np.log(pairs / mean), 0.0).sum(axis=0)
    found = jp.solve(jp.sequential_release(BIT, FLIP, 1 - np.eye(2), budget=budget))
    assert found.lower_bound <= each.min() + 1e-12
    assert found.value == pytest.approx(each.min(), abs=1e-6)


@pytest.mark.parametrize("name", ["mutual-information", "maximal-leakage", "max-lift"])
def test_no_mechanism_leaks_less(name):
    """At a limit below the bound linear programs of their own find no mechanism within the budget, at the value one."""
    joint, earlier, d = drawn(1)
    reference = MEASURES[name]
    measure = reference.asked(joint.sum(axis=1))
    found = proved(jp.sequential_release(joint, earlier, d, budget=0.3, leakage=measure))
    w = np.asarray(found.mechanism).reshape(4, 3, 3, 3)
    together = joint[:, :, None, None] * earlier[:, :, None] * w.sum(axis=2)
    value = value_of(measure, together.sum(axis=1).reshape(3, -1), np.eye(9))
    assert found.value == pytest.approx(value, abs=1e-9)
    pairs = (joint[:, :, None] * earlier).reshape(3, 12)  # of x and z, released as pairs of the same z and a y
    same_z = np.kron(np.tile(np.eye(3), (4, 1)), np.ones(3)) > 0
    assert not np.asarray(found.mechanism)[~same_z].any()
    costs = pairs.sum(axis=0)[:, None] * np.tile(np.repeat(d, 3, axis=0), 3)

    def least_distortion(leakage):
        limit = Limit(reference, pairs, leakage if reference.worst else reference.inner(leakage))
        return least(Question(costs, [], [limit], same_z))[0]

    assert least_distortion(found.value + 1e-9) <= 0.3 + 1e-7
    assert least_distortion(found.lower_bound - 1e-6) > 0.3


def test_fewer_receivers_learn_less():
    """The coalition of all bounds each; of those who may collude alone, the least is no more than with all."""
    joint, first, d = drawn(2)
    second = drawn(3)[1]
    both = np.einsum("xa,xb->xab", first, second).reshape(4, -1)
    of_all = jp.solve(jp.sequential_release(joint, both, d, budget=0.25))
    of_first = jp.solve(jp.sequential_release(joint, first, d, budget=0.25))
    assert of_first.lower_bound <= of_all.value
    given = np.asarray(of_all.mechanism).reshape(4, 9, 9, 3).sum(axis=2).reshape(4, 3, 3, 3)
    view = np.einsum("sx,xa,xb,xaby->saby", joint, first, second, given)
    assert information(view.reshape(3, -1)) == pytest.approx(of_all.value, abs=1e-9)
    parts = [information(view.sum(axis=axes).reshape(3, -1)) for axes in (1, 2, (1, 2))]
    assert max(parts) <= of_all.value
    assert parts[1] >= of_first.lower_bound - 1e-9  # coalition of the first and the new one
    # The next release begins with what all have.
    after = np.einsum("xz,xzo->xo", both, np.asarray(of_all.mechanism).reshape(4, 9, -1))
    assert information(joint @ after) == pytest.approx(of_all.value, abs=1e-9)


def test_bad_input():
    assert_refused("earlier has 3 rows", jp.sequential_release, BIT, np.eye(3), 1 - np.eye(2), budget=0.1)
    assert_refused("earlier: row 0 sums to", jp.sequential_release, BIT, 0.4 * np.eye(2), 1 - np.eye(2), budget=0.1)
    traced = jax.jit(lambda joint: jp.sequential_release(joint, FLIP, 1 - np.eye(2), budget=0.1).joints)
    assert_refused("outside of jit and vmap", traced, BIT)
