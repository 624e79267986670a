"""Joints with known funnels, and independent formulas (plain sums, no cleverness)."""

import numpy as np


def xlogx(x):
    return np.where(x > 0, x * np.log(np.where(x > 0, x, 1.0)), 0.0)


def entropy(p, axis=None):
    return -xlogx(np.asarray(p)).sum(axis=axis)


def h(p):
    return entropy(np.array([p, 1 - p]))


def information(joint):
    """I(A;B) by three entropies."""
    return entropy(joint.sum(0)) + entropy(joint.sum(1)) - entropy(joint)


def source_of(joint):
    return joint.sum(axis=0)


def star(a, b):
    return a * (1 - b) + b * (1 - a)


def binary_symmetric(p, delta):
    """X ~ Bern(p), S = X xor Bern(delta)."""
    return np.array([[(1 - p) * (1 - delta), p * delta], [(1 - p) * delta, p * (1 - delta)]])


def binary_funnel(p, delta, alpha):
    """(R, PF(R)) in nats for p <= 1/2 (the closed form)."""
    z = max(alpha, 2 * p)
    return h(p) - alpha * h(p / z), h(star(p, delta)) - alpha * h(star(delta, p / z)) - (1 - alpha) * h(delta)


def random_joint(seed, private, useful):
    return np.random.default_rng(seed).dirichlet(np.ones(private * useful)).reshape(private, useful)


def block_joint(seed, sizes):
    """A shared attribute: one block (private, useful) for each of its values, columns and rows shuffled."""
    rng = np.random.default_rng(seed)
    masses = rng.dirichlet(np.ones(len(sizes)))
    joint = np.zeros((sum(s for s, _ in sizes), sum(x for _, x in sizes)))
    row = column = 0
    for mass, (private, useful) in zip(masses, sizes, strict=True):
        part = rng.dirichlet(np.ones(private * useful)).reshape(private, useful)
        joint[row : row + private, column : column + useful] = mass * part
        row, column = row + private, column + useful
    return joint[rng.permutation(len(joint))][:, rng.permutation(joint.shape[1])]


def psi(posteriors, conditional, lam):
    """-H(Tq) + lambda H(q) for rows q."""
    return -entropy(posteriors @ conditional.T, axis=1) + lam * entropy(posteriors, axis=1)


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
