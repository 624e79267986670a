"""For two private symbols and a fixed lambda the bottleneck is a convex program: its prices meet the line."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jaxpriv.funnels.atoms.parts import Part, first_atoms
from jaxpriv.funnels.atoms.stationary import bottleneck_prices
from jaxpriv.funnels.pricing import blocks_of, connected_pricer
from jaxpriv.funnels.pricing.binary import BinaryBottleneckPricer
from tests.cases import drawn_joint

from .cases import entropy, psi, turned

CLOSE = 1e-9


def part_of(joint):
    (block,) = blocks_of(joint)
    return Part(block, None, connected_pricer(block.joint, funnel=False))


def many_zeros(seed):
    joint = drawn_joint(seed, 2, 12)
    joint[1, :4], joint[0, 4:6] = 0.0, 0.0
    return joint / joint.sum()


@pytest.mark.parametrize("lam", [0.9, 0.3, 0.1, 0.02, 1e-3, 1e-5])
@pytest.mark.parametrize("joint", [drawn_joint(0, 2, 3), drawn_joint(1, 2, 20), many_zeros(2)])
def test_prices_meet_the_line_and_the_atoms_reach_it(joint, lam):
    part = part_of(joint)
    block = part.block
    start = first_atoms(block)
    weights = np.append(0.9 * block.source, 0.1)
    (prices,), (atoms,) = bottleneck_prices((part,), (start,), (weights,), lam, CLOSE)
    bound = part.sure.price(part.turned(prices, lam), lam, 1).bound
    assert -1e-12 <= bound <= 1.1 * CLOSE + 1e-10  # the tolerance of the search, 1e-11 times the size of the prices
    # a - lambda b of each atom at these prices is the line, 0.
    assert_allclose(psi(atoms, block.conditional, lam, turned(block.joint, prices, lam)), 0.0, atol=1e-4)


def test_a_known_attribute_costs_nothing():
    part = part_of(np.array([[0.5, 0.25, 0.25]]))
    (prices,), (atoms,) = bottleneck_prices((part,), (first_atoms(part.block),), (np.full(4, 0.25),), 0.2, CLOSE)
    assert_allclose(prices, 0.0, atol=1e-14)
    assert_allclose(atoms, [part.block.source], atol=1e-14)


def test_binary_pair_beside_the_closed_form():
    """Doubly symmetric: IB(R) = ln 2 - h( h^-1( ln 2 - R ) * delta ) (Witsenhausen, Wyner 1975), its dual on a grid."""
    delta, lam = 0.1, 0.2
    joint = 0.5 * np.array([[1 - delta, delta], [delta, 1 - delta]])
    part = part_of(joint)
    (prices,), _ = bottleneck_prices((part,), (first_atoms(part.block),), (np.array([0.4, 0.4, 0.2]),), lam, CLOSE)
    a = np.linspace(1e-9, 0.5, 200_001)
    noisy = a * (1 - delta) + (1 - a) * delta

    def h(p):
        return entropy(np.stack([p, 1 - p]), axis=0)

    best = (np.log(2) - h(noisy) - lam * (np.log(2) - h(a))).max()
    assert prices @ joint.sum(axis=0) == pytest.approx(best, abs=1e-8)


def test_the_search_over_one_number_is_tight_for_clustered_columns():
    """Columns near (1, 0) and (0, 1): r of many orders of magnitude, maxima next to the ends of wide intervals."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        useful = int(rng.integers(2, 40))
        conditional = rng.dirichlet(np.full(2, 0.05), useful).T.copy()
        conditional[:, 0] = rng.permutation([1.0, 0.0])
        lam, scale = float(10 ** rng.uniform(-6, 0)), rng.choice([0.001, 0.1, 2.0])
        prices = scale * rng.normal(size=useful)
        priced = BinaryBottleneckPricer(conditional).price(prices, lam, 5)
        best = psi(priced.posteriors, conditional, lam, prices).max()
        size = float(np.abs(prices).max()) + 2.0 + lam * np.log(useful)
        assert 0 <= priced.bound - best <= 1.2e-11 * size
