"""The proved value of perfect privacy against the vertices of the fibre in exact arithmetic."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv._runtime.clock import Clock
from jaxpriv.funnels.atoms.perfect import perfect_release
from jaxpriv.funnels.bounds import silent_bound
from jaxpriv.funnels.pricing import blocks_of
from tests.cases import drawn_joint


def solved(table, right):
    """The solution of a square system of fractions by elimination; None if it is singular."""
    rows = [[*row, r] for row, r in zip(table, right, strict=True)]
    size = len(rows)
    for k in range(size):
        pivot = next((i for i in range(k, size) if rows[i][k] != 0), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        for i in range(size):
            if i != k:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]


def exact_vertices(joint):
    """All vertices of { q >= 0 : Tq = P_S }, rounded only at the end; `joint` (S, X) has full row rank."""
    table = [[Fraction(float(entry)) for entry in row] for row in joint]
    total = sum(map(sum, table))
    source = [sum(column) for column in zip(*table, strict=True)]
    prior = [sum(row) / total for row in table]
    found = []
    for chosen in combinations(range(len(source)), len(table)):
        weights = solved([[row[x] / source[x] for x in chosen] for row in table], prior)
        if weights is not None and min(weights) >= 0:
            q = np.zeros(len(source))
            q[list(chosen)] = [float(w) for w in weights]
            found.append(q)
    return np.array(found)


def ill_conditioned(seed, private, apart):
    """Conditionals P(S|X=x) that differ from one another by about `apart` in all directions but one."""
    rng = np.random.default_rng(seed)
    useful = private + 3
    centre = rng.dirichlet(np.full(private, 5.0))
    spread = rng.standard_normal((private, useful))
    spread -= spread.mean(axis=0)
    spread[:, 1::2] *= -1
    conditional = centre[:, None] * (1 + apart * spread)
    joint = conditional / conditional.sum(axis=0) * rng.dirichlet(np.full(useful, 5.0))
    return joint / joint.sum()


@pytest.mark.parametrize(("private", "apart"), [(2, 1.0), (2, 1e-6), (2, 1e-13), (3, 0.1), (3, 1e-5), (3, 1e-7)])
def test_perfect_privacy_is_proved_with_the_errors_of_its_vertices(private, apart):
    for seed in range(12):
        (block,) = blocks_of(ill_conditioned(seed, private, apart))
        found = perfect_release(block)
        vertices = exact_vertices(block.joint)
        value = np.where(vertices > 0, vertices * np.log(np.where(vertices > 0, vertices, 1) / block.source), 0).sum(1)
        needed = float(found.prices @ block.source + (value - vertices @ found.prices).max())
        assert found.bound >= needed
        if apart >= 0.1:
            assert found.bound - found.value <= 1e-6


def test_perfect_privacy_of_a_binary_s_is_the_monotone_transport():
    """The first linear program has the optimum: its duals prove it before a second one is asked for."""
    joint = drawn_joint(2, 2, 300, 0.7)
    joint[:, 1] = joint.sum(axis=1) * joint[:, 0].sum()  # a symbol that tells nothing about S
    (block,) = blocks_of(joint / joint.sum())
    found = perfect_release(block, Clock(0.0))
    assert found.bound - found.value <= 1e-9
    assert_allclose(found.weights @ found.posteriors, block.source, atol=1e-13)
    assert_allclose(found.posteriors @ block.conditional.T, np.tile(block.prior, (len(found.weights), 1)))


def test_perfect_privacy_of_a_rare_value_of_s_is_proved():
    (block,) = blocks_of(np.array([[8.0e-11, 7.1e-10, 9.6e-10], [0.28, 0.50, 0.22 - 1.75e-9]]))
    found = perfect_release(block)
    assert 0.1 < found.value <= found.bound <= found.value + 1e-9


@pytest.mark.parametrize("shape", [(2, 6), (3, 7), (4, 8)])
def test_what_is_told_without_leakage_is_below_the_elementary_bound(shape):
    for seed in range(4):
        joint = drawn_joint(seed, *shape, (0.3, 2.0)[seed % 2])
        (block,) = blocks_of(joint)
        value = perfect_release(block).value
        source, prior = joint.sum(axis=0), joint.sum(axis=1)
        hidden = -(joint * np.log(joint / prior[:, None])).sum()  # H(X|S)
        assert value <= silent_bound(joint) <= hidden + 1e-12
        if shape[0] == 2:
            assert silent_bound(joint) <= -(source @ np.log(source))


def test_a_large_table_tells_much_without_leakage():
    """Its vertices are too many to list; half of H(X) is known to be free of leakage from their search."""
    joint = drawn_joint(1, 8, 50)
    source = joint.sum(axis=0)
    solution = jp.solve(jp.FunnelProblem(joint, disclosure=-0.5 * float(source @ np.log(source))))
    assert solution.status == "optimal"
    assert solution.leakage < 1e-20
