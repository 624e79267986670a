"""A mechanism that meets its limits exactly, from posteriors and weights that do so up to rounding."""

import math

import numpy as np

from jaxpriv.extremal.limits import Limits
from jaxpriv.leakage import exact_values

# Mixed with a release that discloses nothing, by as little as brings the measured leakage within the limit.
_MIXTURES = (0.0, *(10.0**power for power in range(-15, -4)))
# At eps = 0 no mixture helps: lifts that are one up to rounding are accepted.
_POSTERIOR_ROUNDING = 1e-12


def mechanism_of(lifts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """P(y|x) = P(y) q_y(x)/p(x), shape (X, Y), rows divided by their sums, which differ from one by rounding."""
    mechanism = lifts.T * weights
    return mechanism / mechanism.sum(axis=1, keepdims=True)


def within_limits(
    mechanism: np.ndarray, joint: np.ndarray, limits: Limits
) -> tuple[np.ndarray, tuple[float, ...]] | None:
    """(mechanism, measured leakages), each at most its eps as `jaxpriv.leakage.evaluate` measures it; None if not.

    `mechanism` (X, Y) without empty outputs, `joint` (S, X).
    """
    measures = tuple(measure for measure, _ in limits.pairs)
    prior, source = joint.sum(axis=1, keepdims=True), joint.sum(axis=0)
    seen = prior[:, 0] > 0
    forward = joint[seen] / prior[seen]  # P(x|s)
    masses = source @ mechanism
    lifts = mechanism / masses if _is_diagonal(forward) else forward @ mechanism / masses
    for share in _MIXTURES:
        if not _met(share + (1.0 - share) * lifts, limits):
            continue
        mixed = (1.0 - share) * mechanism + share * masses
        leakages = exact_values(measures, joint, mixed)
        if all(value <= eps for value, (_, eps) in zip(leakages, limits.pairs, strict=True)):
            return mixed, leakages
    leakages = exact_values(measures, joint, mechanism)
    met = all(value <= eps + _POSTERIOR_ROUNDING for value, (_, eps) in zip(leakages, limits.pairs, strict=True))
    return (mechanism, leakages) if met else None


def _is_diagonal(forward: np.ndarray) -> bool:
    return forward.shape[0] == forward.shape[1] and bool(np.all(np.diagonal(forward) == 1.0))


def _met(lifts: np.ndarray, limits: Limits) -> bool:
    """Whether the lifts (S, Y) keep every bound, in logarithms as the measures take them."""
    most, least = lifts.max(axis=0), lifts.min(axis=0)
    raised = float(np.log(most.max()))
    lowered = -math.log(least.min()) if least.min() > 0 else math.inf
    with np.errstate(divide="ignore"):
        spread = float((np.log(most) - np.log(least)).max())
    return raised <= limits.raised and lowered <= limits.lowered and spread <= limits.spread
