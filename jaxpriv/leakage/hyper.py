"""What a mechanism shows of S beside the measures: its posteriors, guesses, and how far it contracts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import mechanism_array, on_host
from jaxpriv.leakage.evaluation import checked_pair
from jaxpriv.leakage.rule_sets import classes

__all__ = ["HyperDistribution", "contraction_coefficient", "guesswork", "hyper_distribution", "maximal_correlation"]

# A contraction coefficient is computed to this, relative; halvings of an interval of t that bring it there at most.
_CONTRACTED, _HALVED = 1e-12, 60
# Entries of all pairs of columns up to which pairs are looked at; tables beyond have Doeblin's bound.
_PAIRED = 500_000_000
_EPS = float(np.finfo(np.float64).eps)


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

    which is concave in b: the root of its slope is bisected. Rounded up; of more than 5e8 entries of all pairs of rows
    it is Doeblin's bound, 1 - sum_y min_s P(y|s). Raises `InputError` for rows that are no distributions.
    Ordentlich and Polyanskiy 2021, "Strong data processing constant is achieved by binary inputs".
    """
    on_host(channel)
    conditional = mechanism_array(channel, "channel").T
    private, useful = conditional.shape
    if min(private, useful) == 1:
        return 0.0
    rounding = 8 * (private + 16) * _EPS
    ceiling = min(1.0, max(0.0, 1.0 - float(conditional.min(axis=1).sum())))
    if private * useful**2 > _PAIRED:
        return min(1.0, ceiling + rounding)
    least = most = 0.0
    for x in range(useful - 1):
        if least >= ceiling * (1 - _CONTRACTED):
            return min(1.0, ceiling + rounding)
        column, others = conditional[:, x : x + 1], conditional[:, x + 1 :]
        low, high = np.zeros(others.shape[1]), np.ones(others.shape[1])
        for _ in range(_HALVED):
            t = 0.5 * (low + high)
            apart, mean = column - others, t * column + (1 - t) * others
            ratio = np.divide(apart, mean, out=np.zeros_like(mean), where=mean > 0)
            square, cube = (apart * ratio).sum(axis=0), (apart * ratio**2).sum(axis=0)
            value, slope = t * (1 - t) * square, (1 - 2 * t) * square - t * (1 - t) * cube
            above = value + np.maximum(slope * (high - t), slope * (low - t))
            least = max(least, float(value.max()))
            open_ = above > least * (1 + _CONTRACTED)
            most = max(most, float(above[~open_].max(initial=0.0)))
            if not open_.any():
                break
            low, high = np.where(slope > 0, t, low)[open_], np.where(slope > 0, high, t)[open_]
            others, above = others[:, open_], above[open_]
        else:
            most = max(most, float(above.max()))
    return min(1.0, min(ceiling, most) + rounding)
