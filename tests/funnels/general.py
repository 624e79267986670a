"""Joints with a small S and no structure, and posteriors to try on them."""

import numpy as np

from tests.cases import drawn_joint

LAMBDAS = (0.0, 1e-6, 0.02, 0.3, 0.9)


def _zeros(rng):
    joint = drawn_joint(rng, 4, 7)
    joint[rng.random((4, 7)) < 0.4] = 0.0
    joint[0, joint.sum(axis=0) == 0] = 0.1
    return joint


def _cases():
    rng = np.random.default_rng(7)
    small = drawn_joint(rng, 3, 3)
    skew = drawn_joint(rng, 4, 6, 0.1)
    joints = {
        "generic": drawn_joint(rng, 3, 6),
        "four": drawn_joint(rng, 4, 7),
        "zeros": _zeros(rng),
        "X tells S": np.eye(3)[:, [0, 1, 2, 0, 1]] * rng.random(5),
        "repeated symbols": small[:, [0, 1, 2, 0, 1]],
        "nearly repeated symbols": small[:, [0, 1, 2, 0, 1]] * (1 + 1e-6 * rng.normal(size=(3, 5))),
        "fewer useful than private": drawn_joint(rng, 4, 3),
        "skew": skew,
        "erasure": np.vstack([0.6 * np.diag([0.2, 0.3, 0.5]), [0.08, 0.12, 0.2]]),
        "independent": np.outer([0.2, 0.3, 0.5], rng.dirichlet(np.ones(4))),
        "nearly independent": np.outer([0.2, 0.3, 0.5], rng.dirichlet(np.ones(4)))
        * (1 + 1e-3 * rng.normal(size=(3, 4))),
    }
    return {name: joint / joint.sum() for name, joint in joints.items()}


CASES = _cases()


def near_vertices(conditional, scale):
    """Prices that make all symbols alone about equally good: what linear programs ask."""
    masses = np.where(conditional > 0, conditional, 1.0)
    noise = np.random.default_rng(11).normal(size=conditional.shape[1])
    return (conditional * np.log(masses)).sum(axis=0) + scale * noise


def cloud(useful, count=20_000):
    """Posteriors spread out, near faces, on few symbols, on pairs of symbols on a fine grid, and symbols alone."""
    rng = np.random.default_rng(0)
    spread = [rng.dirichlet(np.full(useful, a), count) for a in (0.05, 0.1, 0.5, 2.0)]
    few = rng.dirichlet(np.ones(min(4, useful)), 2 * count)
    few[: count // 2, 2:] = 0.0
    few[count // 2 : count, 3:] = 0.0
    few /= few.sum(axis=1, keepdims=True)
    sparse = np.zeros((len(few), useful))
    where = rng.random((len(few), useful)).argsort(axis=1)[:, : few.shape[1]]
    np.put_along_axis(sparse, where, few, axis=1)
    one, w = np.eye(useful), np.linspace(0, 1, 801)[:, None]
    pairs = [(1 - w) * one[i] + w * one[j] for i in range(useful) for j in range(i)]
    return np.vstack([*spread, sparse, *pairs, one])
