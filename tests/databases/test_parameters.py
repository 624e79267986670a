"""The parameters of Wu, Xia and He, section 4: extent of dependence, number and entropy of uncertain records."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import entr

from jaxpriv import databases as db
from tests.cases import assert_refused

from .conftest import random_mechanism

BITS = [(2, 2), (2, 2, 2), (2, 2, 2, 2)]


def marginal(prior, sizes, i):
    return prior.reshape(sizes).sum(axis=tuple(j for j in range(len(sizes)) if j != i))


@pytest.mark.parametrize("sizes", [*BITS, (3, 2)])
def test_no_prior_within_the_extent_leaks_more(sizes):
    """Random priors near to independent ones, their extent from its definition, against the bound."""
    rng = np.random.default_rng(len(sizes))
    mechanism = db.perturbed_records(sizes, 0.8) if sizes != (3, 2) else random_mechanism(3, 6, 3)
    near = 0
    for share in (0.0, 1e-3, 1e-2, 0.1, 0.3):
        for _ in range(4):
            independent = db.independent_prior([rng.dirichlet(np.ones(size)) for size in sizes])
            prior = (1 - share) * independent + share * rng.dirichlet(np.full(len(independent), 0.3))
            extent = db.dependence_extent(prior, sizes)
            for i in range(len(sizes)):
                table = np.moveaxis(prior.reshape(sizes), i, 0).reshape(sizes[i], -1)
                apart = np.log(table / np.outer(table.sum(axis=1), table.sum(axis=0))).max()
                assert extent.per_record[i] == pytest.approx(max(apart, 0.0), abs=1e-12)
            limited = db.dependent_records_privacy(mechanism, sizes, len(sizes), extent.value).per_record
            assert (db.information_privacy(mechanism, prior, sizes).per_record <= limited + 1e-12).all()
            near += (limited < db.dependent_records_privacy(mechanism, sizes, len(sizes)).per_record - 1e-3).all()
    assert near > 5


def test_the_extent_adds_in_full():
    """One of two records determines the other as far as the extent lets it: eps + d is approached for a large eps."""
    eps, extent = 12.0, 2.0
    mechanism = np.exp(eps * (db.counts((2, 2)) - 2.0))[:, None] * np.array([0.5, 0.0])
    mechanism[:, 1] = 1.0 - mechanism[:, 0]
    second = math.exp(-extent)
    raised = np.array([0.0, 1.0])  # x_2 given x_1 = 1
    rare = 1e-12
    prior = np.concatenate([(np.array([1 - second, second]) - rare * raised), rare * raised])
    assert db.dependence_extent(prior, (2, 2)).per_record[0] == pytest.approx(extent, abs=1e-6)
    bound = db.dependent_records_privacy(mechanism, (2, 2), 2, extent).per_record[0]
    assert bound == pytest.approx(eps + extent)
    assert bound - 1e-3 <= db.information_privacy(mechanism, prior, (2, 2)).per_record[0] <= bound + 1e-6


def listed(mechanism, uncertain, entropy):
    """The largest log-lift of each record over products of the point masses and a grid of distributions."""
    count = int(math.log2(len(mechanism)))
    grid = np.concatenate([[1e-9], np.linspace(0.0005, 0.9995, 2000), [1 - 1e-9]])
    allowed = grid[entr(grid) + entr(1 - grid) >= entropy]
    ends = [1e-9, 1 - 1e-9]
    best = np.zeros(count)
    for group in itertools.combinations(range(count), uncertain):
        choices = [[allowed[0], allowed[-1], 0.5] if i in group else ends for i in range(count)]
        for heads in itertools.product(*choices):
            prior = db.independent_prior([[1 - p, p] for p in heads])
            found = db.information_privacy(mechanism, prior, (2,) * count)
            best = np.maximum(best, found.per_record)
    return best


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("entropy", [0.3, 0.6])
def test_uncertain_records_by_brute_force(count, entropy):
    mechanism = random_mechanism(count, 2**count, 2)
    for uncertain in range(count + 1):
        found = db.uncertain_records_privacy(mechanism, (2,) * count, uncertain, entropy).per_record
        brute = listed(mechanism, uncertain, entropy)
        assert (brute <= found + 1e-9).all()
        assert (brute >= found - 5e-3).all()  # the grid has not the entropy itself


def test_uncertain_records_between_differential_privacy_and_the_uniform_prior():
    sizes, mechanism = (2,) * 4, random_mechanism(7, 16, 3, zeros=True)
    plain = db.dependent_records_privacy(mechanism, sizes).per_record
    assert_allclose(db.uncertain_records_privacy(mechanism, sizes, 0, 0.5).per_record, plain)
    assert_allclose(db.uncertain_records_privacy(mechanism, sizes, 4, 0.0).per_record, plain)
    uniform = db.information_privacy(mechanism, np.full(16, 1 / 16), sizes).per_record
    assert_allclose(db.uncertain_records_privacy(mechanism, sizes, 4, math.log(2)).per_record, uniform)
    values = [db.uncertain_records_privacy(mechanism, sizes, m, 0.5).value for m in range(5)]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((3,), 1, 0.1), "sizes must all be 2"),
        (((2,), 2, 0.1), "uncertain"),
        (((2,), 1, 0.7), "entropy"),
    ],
)
def test_wrong_parameters_are_named(arguments, message):
    assert_refused(message, db.uncertain_records_privacy, np.eye(arguments[0][0]), *arguments)
    assert_refused("extent", db.dependent_records_privacy, np.eye(2), (2,), 1, -0.1)
    assert_refused("extent", db.dependent_records_privacy, np.eye(2), (2,), 1, math.nan)
    assert_refused("prior is not a rectangular", db.dependence_extent, [[0.5, 0.5], [0.5]], (2,))
