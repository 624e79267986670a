"""Joints with known funnels, and independent formulas (plain sums, no cleverness)."""

import numpy as np
import pytest
from scipy.optimize import linprog

import jaxpriv as jp
from tests.cases import drawn_joint
from tests.information import information


def xlogx(x):
    return np.where(x > 0, x * np.log(np.where(x > 0, x, 1.0)), 0.0)


def entropy(p, axis=None):
    return -xlogx(np.asarray(p)).sum(axis=axis)


def h(p):
    return entropy(np.array([p, 1 - p]))


def source_of(joint):
    return joint.sum(axis=0)


def entropy_of(joint):
    """H(X)."""
    return entropy(source_of(joint))


def conditional_of(joint):
    """P(S|X)."""
    return joint / source_of(joint)


def released(joint, mechanism):
    """(I(X;Y), I(S;Y))."""
    return information(source_of(joint)[:, None] * mechanism), information(joint @ mechanism)


def proved(problem, *args, optimal=True, **options):
    """The solution: its numbers are those of its mechanism by these formulas, its bound that of its prices."""
    solution = jp.solve(problem, *args, **options)
    joint, mechanism = np.asarray(problem.joint), solution.mechanism
    np.testing.assert_allclose(mechanism.sum(axis=1), 1.0, atol=1e-14)
    assert mechanism.min() >= 0
    assert mechanism.shape[1] <= joint.shape[1] + 1
    disclosed, leaked = released(joint, mechanism)
    assert solution.disclosure == pytest.approx(disclosed, abs=1e-12)
    if problem.leakage == jp.leakage.MutualInformation():
        assert solution.leakage == pytest.approx(leaked, abs=1e-12)
    np.testing.assert_allclose(solution.masses @ solution.posteriors, source_of(joint), atol=1e-14)
    assert solution.lower_bound <= solution.upper_bound
    if optimal:
        assert solution.status == "optimal"
        assert solution.gap <= options.get("tol", 1e-6)
    found = jp.certify(problem, solution)
    assert found.valid, found.message
    assert found.agrees, found.message
    return solution


def binary_symmetric(p, delta):
    """X ~ Bern(p), S = X xor Bern(delta)."""
    return np.array([[(1 - p) * (1 - delta), p * delta], [(1 - p) * delta, p * (1 - delta)]])


def block_joint(seed, sizes):
    """A shared attribute: one block (private, useful) for each of its values, columns and rows shuffled."""
    rng = np.random.default_rng(seed)
    masses = rng.dirichlet(np.ones(len(sizes)))
    joint = np.zeros((sum(s for s, _ in sizes), sum(x for _, x in sizes)))
    row = column = 0
    for mass, (private, useful) in zip(masses, sizes, strict=True):
        part = drawn_joint(rng, private, useful)
        joint[row : row + private, column : column + useful] = mass * part
        row, column = row + private, column + useful
    return joint[rng.permutation(len(joint))][:, rng.permutation(joint.shape[1])]


def psi(posteriors, conditional, lam, prices=0.0):
    """-H(Tq) + lambda H(q) - nu.q for rows q."""
    free = np.broadcast_to(prices, conditional.shape[1:])
    return -entropy(posteriors @ conditional.T, axis=1) + lam * entropy(posteriors, axis=1) - posteriors @ free


def erasure(source, lost):
    """P(S,X): S is X, or an erasure with probability `lost` (a number, or one for each x)."""
    source = np.asarray(source)
    return np.vstack([np.diag(source * (1 - np.asarray(lost))), source * lost])


def _side_by_side(*parts):
    """Independent parts of equal mass, whose number S and X share."""
    whole = np.zeros((sum(len(part) for part in parts), sum(part.shape[1] for part in parts)))
    row = column = 0
    for part in parts:
        whole[row : row + len(part), column : column + part.shape[1]] = part / len(parts)
        row, column = row + len(part), column + part.shape[1]
    return whole


# Erasure channels from X to S, and others with an erasure in them.
CHANNELS = {
    "bit": erasure([0.5, 0.5], 0.3),
    "skewed bit": erasure([0.1, 0.9], 0.45),
    "three symbols": erasure([1 / 3, 1 / 3, 1 / 3], 0.3),
    "five symbols": erasure([0.1, 0.15, 0.2, 0.25, 0.3], 0.6),
    "unequal losses": erasure([0.4, 0.6], [0.2, 0.5]),
    "from S to X": erasure([0.3, 0.7], 0.4).T,
    "equal symbols": erasure([0.4, 0.6], 0.3)[:, [0, 0, 1, 1]] * [0.2, 0.8, 0.5, 0.5],
    "nearly equal symbols": erasure([0.4, 0.6], 0.3)[:, [0, 0, 1, 1]]
    * ([0.2, 0.8, 0.5, 0.5] * (1 + 1e-10 * np.array([[0, 1, 0, -1], [0, 0, 1, 0], [1, 0, 0, 0]]))),
    "a shared attribute": _side_by_side(erasure([0.5, 0.5], 0.3), erasure([0.2, 0.8], 0.6)),
    "noise and erasure": np.vstack([0.6 * binary_symmetric(0.4, 0.1), 0.4 * binary_symmetric(0.4, 0.1).sum(axis=0)]),
}
CHANNELS = {name: joint / joint.sum() for name, joint in CHANNELS.items()}


def mixtures_at(end, first):
    """Pairs of symbols (N, X) whose P(S = 0) is `end`, where `first` is that of each symbol alone."""
    one = np.eye(len(first))
    below, above = np.flatnonzero(first < end), np.flatnonzero(first > end)
    shares = {(i, j): (end - first[i]) / (first[j] - first[i]) for i in below for j in above}
    return np.array([(1 - share) * one[i] + share * one[j] for (i, j), share in shares.items()])


def most_told(source, posteriors):
    """The most that releases of these posteriors disclose, by a linear program over them."""
    return -linprog(entropy(posteriors, axis=1) - entropy(source), A_eq=posteriors.T, b_eq=source).fun
