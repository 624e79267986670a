"""A binary distribution by its log odds, and its entropy."""

import numpy as np

from jaxpriv.funnels.pricing._base import xlogx

# The log-odds of the smallest weight that float64 distinguishes from 0.
_MOST_LOG_ODDS = 500.0


def binary_entropy(r: np.ndarray, complement: np.ndarray) -> np.ndarray:
    """h in nats of (`r`, `complement`), which add up to one."""
    return -(xlogx(r) + xlogx(complement))


def sigmoid(odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(w, 1 - w), both with small relative error."""
    small = np.exp(-np.abs(odds))
    large = 1.0 / (1.0 + small)
    small = small * large
    return np.where(odds > 0, large, small), np.where(odds > 0, small, large)


def log_odds(w: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """ln(w/(1 - w)), cut at +-500."""
    with np.errstate(divide="ignore"):
        return np.clip(np.log(w) - np.log(rest), -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
