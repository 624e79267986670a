"""The log-lift i(s,x) = ln P(s|x)/P(s) of a joint, and the score max_s |i(s,x)| of every useful symbol."""

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.types import Joint
from jaxpriv._runtime.validation import is_traced, joint_array
from jaxpriv.errors import InputError


def log_lift(joint: Joint) -> np.ndarray:
    """i(s,x) `(s, x)` float64, in nats: -inf where x excludes s, NaN where s or x has no mass.

    Raises `InputError` as `jaxpriv.leakage.evaluate` does for a joint.

    Hsu, Asoodeh and Calmon 2019, eq. (1).
    """
    return log_lift_of(host_joint(joint))


def scores(joint: Joint) -> np.ndarray:
    """max_s |i(s,x)| `(x,)` over the s with mass: the least eps for which the watchdog releases x.

    Infinite where x excludes some s, and where x has no mass: nothing is known about such an x. A
    score of exactly 0 means that x is independent of S to the last bit of the joint.
    """
    return scores_of(log_lift(joint))


def host_joint(joint: ArrayLike) -> np.ndarray:
    """The checked joint; a watchdog is designed on the host."""
    if is_traced(joint):
        raise InputError("joint is traced; a watchdog is designed on the host, outside of jit, vmap and grad")
    return joint_array(joint)


def need_one(epsilon: float | None, target_leakage: float | None, target_utility: float | None) -> None:
    """`InputError` unless one choice of the threshold is given."""
    if sum(value is not None for value in (epsilon, target_leakage, target_utility)) != 1:
        raise InputError("give exactly one of epsilon, target_leakage and target_utility")


def log_lift_of(joint: np.ndarray) -> np.ndarray:
    """`log_lift` of an array that was checked."""
    private, useful = joint.sum(axis=1, keepdims=True), joint.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # The ratio before the logarithm: near independence a difference of logarithms would cancel.
        ratio = joint / useful / private
        # A private mass below the smallest normal number overflows the ratio, not its logarithm.
        log_ratio = np.where(np.isposinf(ratio), np.log(joint) - np.log(useful) - np.log(private), np.log(ratio))
    return np.where((private > 0) & (useful > 0), log_ratio, np.nan)


def scores_of(log_lifts: np.ndarray) -> np.ndarray:
    """`scores` of a log-lift `(s, x)`."""
    defined = ~np.isnan(log_lifts)
    return np.where(defined.any(axis=0), np.where(defined, np.abs(log_lifts), 0.0).max(axis=0), np.inf)
