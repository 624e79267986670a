"""What a mechanism shows of S beside the measures: its posteriors, guesses, and how far it contracts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import mechanism_array, on_host
from jaxpriv.leakage.evaluation import checked_pair
from jaxpriv.leakage.rule_sets import classes

__all__ = ["HyperDistribution", "contraction_coefficient", "guesswork", "hyper_distribution", "maximal_correlation"]

# Halvings of the interval of the weight of a pair of rows: 2^-60 is below a rounding.
_HALVINGS = 60


@dataclass(frozen=True)
class HyperDistribution:
    """The distribution of the posterior of S: mechanisms with the same one leak the same, by every measure.

    Attributes:
        posteriors: (K, S), each once, the most probable first; zeros for symbols without mass.
        masses: (K,), their probabilities.
        outputs: (Y,) the number of the posterior of each output, -1 for outputs without mass.
    """

    posteriors: np.ndarray
    masses: np.ndarray
    outputs: np.ndarray

    __repr__ = summary


def hyper_distribution(joint: ArrayLike, mechanism: object) -> HyperDistribution:
    """The distinct posteriors P(S|y) of a mechanism with their masses; entries equal to 14 digits are equal.

    Errors as of `evaluate`. McIver, Morgan, Smith, Espinoza and Meinicke 2014 (hyper-distributions).
    """
    joint, mechanism = checked_pair(joint, mechanism)
    columns = (joint @ mechanism).T
    masses = columns.sum(axis=1)
    used = np.flatnonzero(masses > 0)
    numbers = classes(columns[used] / masses[used, None])
    each = np.bincount(numbers, weights=masses[used])
    order = np.argsort(-each, kind="stable")
    sums = np.zeros((len(each), len(joint)))
    np.add.at(sums, numbers, columns[used])
    outputs = np.full(len(masses), -1)
    outputs[used] = np.argsort(order)[numbers]
    return HyperDistribution((sums / each[:, None])[order], each[order], outputs)


def guesswork(joint: ArrayLike, mechanism: object) -> float:
    """The mean number of guesses, one symbol at a time, until S is found from Y, in the best order: at least 1.

        sum_y sum_k k w_y(k),   w_y(1) >= w_y(2) >= ...

    Without a release, for one output, it is that of an adversary who knows the prior. Errors as of `evaluate`.
    Massey 1994; Arikan 1996.
    """
    joint, mechanism = checked_pair(joint, mechanism)
    columns = -np.sort(-(joint @ mechanism), axis=0)
    return float(np.arange(1, len(columns) + 1) @ columns.sum(axis=1))


def maximal_correlation(joint: ArrayLike, mechanism: object) -> float:
    """The largest correlation of a function of S and a function of Y, the second singular value of
    P(s,y)/sqrt(P(s)P(y)); 0 if and only if S and Y are independent.

    Its square is the share of chi-squared, and at least that of I(U;S), that U - S - Y keeps under this prior. Errors
    as of `evaluate`. Hirschfeld 1935, Gebelein 1941, Renyi 1959.
    """
    joint, mechanism = checked_pair(joint, mechanism)
    w = joint @ mechanism
    product = np.sqrt(np.outer(w.sum(axis=1), w.sum(axis=0)))
    excess = np.divide(w - product**2, product, out=np.zeros_like(w), where=product > 0)
    return float(min(np.linalg.norm(excess, 2), 1.0))


def contraction_coefficient(channel: ArrayLike) -> float:
    """The largest share of I(U;S) that the outputs of `channel[s, y]` = P(y|s) keep, over all priors and U - S - Y.

    I(U;Y) <= eta I(U;S), for chi-squared and relative entropy alike; eta is the largest squared maximal correlation
    over priors. Two symbols with the weights b and 1 - b attain it,

        eta = max over s, s', b of 1 - sum_y P(y|s) P(y|s') / ( b P(y|s) + (1-b) P(y|s') ) ,

    which is concave in b: the root of its slope is bisected. Raises `InputError` for rows that are no distributions.
    Ordentlich and Polyanskiy 2021, "Strong data processing constant is achieved by binary inputs".
    """
    on_host(channel)
    rows = mechanism_array(channel, "channel")
    first, second = np.triu_indices(len(rows), 1)
    if not len(first):
        return 0.0
    p, q = rows[first], rows[second]
    both = (p > 0) & (q > 0)
    low, high = np.zeros((len(p), 1)), np.ones((len(p), 1))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        mixture = np.where(both, middle * p + (1.0 - middle) * q, 1.0)
        rising = np.where(both, p * q * (p - q) / mixture**2, 0.0).sum(axis=1, keepdims=True) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    kept = np.where(both, p * q / np.where(both, low * p + (1.0 - low) * q, 1.0), 0.0).sum(axis=1)
    return float(np.clip(1.0 - kept, 0.0, 1.0).max())
