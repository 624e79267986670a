"""Divergences on the host that keep their digits when a mechanism leaks next to nothing."""

import numpy as np

from jaxpriv._runtime.numerics import kl_excess, xlogx

_EPS = float(np.finfo(np.float64).eps)


def divergence(lifts: np.ndarray, source: np.ndarray) -> np.ndarray:
    """D(q || p) in nats for each row t = q/p of `lifts` (n, X)."""
    return np.asarray(kl_excess(lifts) @ source)


def entropy(source: np.ndarray) -> float:
    """H(p) in nats of a distribution without zeros."""
    return max(0.0, float(-source @ np.log(source)))


def information_below(mechanism: np.ndarray, source: np.ndarray) -> float:
    """I(X;Y) of a mechanism (X, Y) under p = `source` > 0, nats, rounded down by more than the error of the sum."""
    masses = source @ mechanism
    used = masses > 0
    lifts, masses = mechanism[:, used] / masses[used], masses[used]
    joint = source[:, None] * masses
    value = float((joint * kl_excess(lifts)).sum())
    # A relative error of a few eps in t moves t ln t - t + 1 by |t ln t| times as much.
    moved = abs(xlogx(lifts))
    error = _EPS * (16.0 * value + 8.0 * float((joint * moved).sum()))
    return max(0.0, value - error)


def information_interval(joint: np.ndarray, mechanism: np.ndarray) -> tuple[float, float, float]:
    """(lower, nearest, upper): I(A;Y) in nats between two bounds that float64 rounding cannot cross.

    Args:
        joint: P(A, X), shape (A, X); `np.diag(p)` for I(X;Y).
        mechanism: P(y|x), shape (X, Y), rows sum to one.

    Every entry of w = joint @ mechanism is a sum of non-negative terms, so it has a small relative error. A
    relative error of k eps in a lift t moves t ln t - t + 1 by at most k eps |t ln t|.
    """
    outputs = joint @ mechanism
    outputs = outputs[:, outputs.sum(axis=0) > 0]
    prior, masses = joint.sum(axis=1), outputs.sum(axis=0)
    product = prior[:, None] * masses
    lifts = np.divide(outputs, product, out=np.zeros_like(outputs), where=product > 0)
    value = float((product * kl_excess(lifts)).sum())
    moved = abs(xlogx(lifts))
    terms = joint.shape[0] + 2.0 * joint.shape[1] + outputs.shape[1] + 16.0
    error = _EPS * terms * (value + float((product * moved).sum()))
    return max(0.0, value - error), value, value + error
