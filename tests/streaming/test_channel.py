"""Mechanisms as operators: rows, tables, samples and push-forwards agree."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv import channel
from jaxpriv.data.joints import Stored
from jaxpriv.solvers.two_grid import coarsen
from tests.cases import further, raised, refused

from .conftest import line, smooth_joint, stated

RNG = np.random.default_rng(1)
SIZE, PRIVATE = 24, 3
JOINT = smooth_joint(SIZE, PRIVATE)
COST = jp.distortion.absolute(line(SIZE))
RARE = np.diag([1e-9, 1.5, 1.5]) @ JOINT
RARE = RARE / RARE.sum()


def gibbs(joint=JOINT, cost=COST):
    outputs = cost.shape[1]
    scores = RNG.normal(size=(outputs, joint.shape[0])) / joint.sum(axis=1)
    return channel.Gibbs(Stored(joint), (cost,), joint.sum(axis=1), scores, np.array([3.0]))


def coset(size, width, values=None, other=None):
    """A coset mechanism with random moves on `size` symbols at `values`, released on `other`."""
    values = line(size) if values is None else values
    cost = jp.distortion.absolute(values, other)
    joint = smooth_joint(size, PRIVATE)
    coarse = coarsen(stated(jp.DistortionProblem(joint, cost, multiplier=1.0)), width, None)
    moves = RNG.dirichlet(np.ones(len(coarse.y.centres)), len(coarse.x.centres))
    return coarse.lift(moves), joint, cost


UNEVEN = np.sort(RNG.uniform(0, 1, 22))
CASES = {
    "gibbs, a rare private symbol": lambda: (gibbs(RARE), RARE, COST),
    "deterministic": lambda: (channel.Deterministic(RNG.integers(0, SIZE, SIZE), SIZE), JOINT, COST),
    "mixture": lambda: (
        channel.Mixture(gibbs(), channel.Deterministic(np.arange(SIZE), SIZE), np.asarray(0.3)),
        JOINT,
        COST,
    ),
    "shifted coset": lambda: coset(24, 4),
    "shifted coset, last cell not full": lambda: coset(22, 4),
    "shifted coset, shuffled": lambda: coset(24, 4, RNG.permutation(line(24))),
    "shifted coset, Y in another order": lambda: coset(22, 4, line(22), RNG.permutation(line(22))),
    "nearest coset, uneven": lambda: coset(22, 4, UNEVEN),
    "nearest coset, two alphabets": lambda: coset(22, 4, UNEVEN, np.linspace(-0.1, 1.2, 17)),
}


# Every case is compiled; what these do is a part of what others do.
_FURTHER = {"shifted coset", "shifted coset, shuffled", "nearest coset, uneven"}


@pytest.fixture(params=further(CASES, CASES.keys() - _FURTHER), ids=str)
def case(request):
    return CASES[request.param]()


def test_rows_are_distributions_and_blocks_of_the_table(case):
    mechanism, _, cost = case
    table = mechanism.matrix()
    assert table.shape == mechanism.shape == cost.shape
    assert table.dtype == np.float64
    assert (table >= 0).all()
    assert_allclose(table.sum(axis=1), 1.0, atol=1e-13)
    assert_allclose(mechanism.rows([5, 0, 5]), table[[5, 0, 5]], atol=1e-15)
    assert_array_equal(np.asarray(mechanism), table)


def test_the_push_forward_is_that_of_the_table(case, own_settings):
    mechanism, joint, cost = case
    pushed = jax.jit(lambda m, j, d: m.push(j, (d,), None))(mechanism, Stored(joint), cost)
    table = mechanism.matrix()
    assert_allclose(pushed.columns, (joint @ table).T, atol=1e-14)
    assert_allclose(pushed.distortions, [(joint.sum(axis=0) @ (table * cost.matrix())).sum()], atol=1e-14)
    assert 0 <= pushed.rounding < 1e-11


def test_samples_follow_the_rows(case):
    """A chi-square test at level 1e-9 on every row that is drawn."""
    from scipy.stats import chi2

    mechanism, _, _ = case
    draws, symbols = 4000, [0, 7, 21]
    drawn = mechanism.sample(jax.random.key(3), np.repeat(symbols, draws)).reshape(len(symbols), draws)
    for x, ys in zip(symbols, drawn, strict=True):
        row = mechanism.rows([x])[0]
        counts = np.bincount(ys, minlength=len(row))
        assert counts[row == 0].sum() == 0
        common = row * draws >= 5
        expected = np.append(row[common] * draws, row[~common].sum() * draws)
        seen = np.append(counts[common], counts[~common].sum())
        keep = expected > 0
        statistic = ((seen[keep] - expected[keep]) ** 2 / expected[keep]).sum()
        assert statistic < chi2.ppf(1 - 1e-9, max(keep.sum() - 1, 1)) + 1e-9


def test_a_second_call_compiles_nothing():
    traced = []

    def rule(x, y):
        traced.append(x)
        return abs(x - y)[0]

    mechanism = gibbs(cost=jp.distortion.from_function(rule, line(SIZE), line(SIZE)))
    for call in (lambda: mechanism.rows([0, 1]), lambda: mechanism.sample(jax.random.key(0), [0, 1])):
        call()
        before = len(traced)
        call()
        assert len(traced) == before > 0


def test_a_coset_mechanism_keeps_the_place_in_the_cell():
    mechanism, _, _ = coset(24, 4)
    table = mechanism.matrix()
    x, y = np.nonzero(table)
    assert ((x - y) % 4 == 0).all()
    moves = table[0::4, 0::4]
    for k in range(1, 4):
        assert_array_equal(table[k::4, k::4], moves)


def test_the_two_coset_rules_agree_where_both_apply():
    """With cells of one size, spreading a place over the same places is keeping it."""
    shifted, _, _ = coset(24, 4)
    symbols, starts = np.arange(24), np.arange(7) * 4
    spread = channel.SpreadCoset(shifted.moves, symbols // 4, symbols % 4, np.full(6, 4), starts, symbols, 3)
    assert_allclose(spread.matrix(), shifted.matrix(), atol=1e-15)


def test_a_spread_place_tells_nothing_about_its_cell():
    """Equal masses in a cell of any size become equal masses in a cell of any other size."""
    rng = np.random.default_rng(0)
    sizes, starts = np.array([3, 5, 1, 4]), np.array([0, 2, 9, 10])
    cell, place = np.repeat(np.arange(4), sizes), np.concatenate([np.arange(k) for k in sizes])
    moves, order = rng.dirichlet(np.ones(3), 4), rng.permutation(10)
    spread = channel.SpreadCoset(moves, cell, place, sizes, starts, order, 9)
    table = spread.matrix()
    assert_allclose(table.sum(axis=1), 1.0, atol=1e-15)
    for i in range(4):
        released = table[cell == i].mean(axis=0)[order]
        assert_allclose(released, np.repeat(moves[i] / np.diff(starts), np.diff(starts)), atol=1e-15)
        ranks = (table[cell == i][:, order] * np.arange(10)).sum(axis=1)
        assert (np.diff(ranks) >= 0).all()  # in their order


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([0, 24], r"^index\[1\] is not one of the 24 useful symbols"),
        ([-1], r"^index\[0\] is not one of"),
        ([0.5], r"^index must be an integer"),
        ([[0]], r"^index must be an integer"),
    ],
)
def test_wrong_symbols_are_named(index, message):
    for method in (gibbs().rows, lambda i: gibbs().sample(jax.random.key(0), i)):
        with refused(message):
            method(index)


def test_a_table_that_does_not_fit_is_refused_with_the_alternative(free_memory):
    free_memory(100.0)
    for method in (gibbs().matrix, lambda: np.asarray(gibbs()), lambda: gibbs().rows([0, 1])):
        with raised(jp.ResourceError, r"needs 0.0 GiB and .* are free; use rows\(index\)"):
            method()


def test_an_operator_is_no_view_of_a_table():
    with raised(ValueError, "cannot be viewed"):
        np.asarray(gibbs(), copy=False)


def test_no_symbols_no_samples():
    assert gibbs().sample(jax.random.key(0), np.zeros(0, int)).shape == (0,)
