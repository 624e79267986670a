"""Privacy funnels and information bottlenecks in closed form: oracles for solvers. All values in nats.

They share no code with the library's own methods. h is the binary entropy and a * b = a(1 - b) + b(1 - a).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from jaxpriv._repr import summary
from jaxpriv._validation import scalar
from jaxpriv.errors import InputError
from jaxpriv.testing.known import binary_entropy, cascade, crossover_with_entropy


@dataclass(frozen=True)
class BinaryFunnel:
    """An optimal mapping of a binary pair.

    Attributes:
        joint: P(s, x), (2, 2).
        mechanism: P(y|x), (2, 3): the outputs say X = 0, something between, X = 1; some may have no mass.
        disclosure, leakage: I(X;Y) and I(S;Y), nats, by the closed form: leakage = PF(disclosure).
    """

    joint: np.ndarray
    mechanism: np.ndarray
    disclosure: float
    leakage: float

    __repr__ = summary


def binary_funnel(p: float, delta: float, alpha: float) -> BinaryFunnel:
    """The point alpha in [0, 1] of the funnel of X ~ Bernoulli(p), p <= 1/2, and S = X xor Bernoulli(delta).

        z = max(alpha, 2p),     R = h(p) - alpha h(p/z),
        PF(R) = h(p * delta) - alpha h(delta * (p/z)) - (1 - alpha) h(delta)

    alpha is the mass of the output between, whose posterior is P(X=1|y) = p/z; R falls from h(p) at alpha = 0 to 0 at
    alpha = 1. At p = 1/2 the curve is the straight line R (1 - h(delta)/ln 2) of an erasure channel.

    "Mr. Gerber's Lemma", Asoodeh et al., arXiv:1802.05861. Raises `InputError` for p outside (0, 1/2], delta or alpha
    outside [0, 1].
    """
    p, delta = _binary(p, delta)
    alpha = float(scalar(alpha, "alpha", low=0.0, high=1.0))
    posterior = p / max(alpha, 2 * p)
    sure = p - alpha * posterior  # P(Y says X = 1)
    channel = np.array([[1 - delta, delta], [delta, 1 - delta]])
    outputs = np.array([[1 - alpha - sure, alpha * (1 - posterior), 0.0], [0.0, alpha * posterior, sure]])
    return BinaryFunnel(
        joint=channel * [1 - p, p],
        mechanism=outputs / outputs.sum(axis=1, keepdims=True),
        disclosure=binary_entropy(p) - alpha * binary_entropy(posterior),
        leakage=binary_entropy(cascade(p, delta))
        - alpha * binary_entropy(cascade(delta, posterior))
        - (1 - alpha) * binary_entropy(delta),
    )


def binary_funnel_at(p: float, delta: float, disclosure: float) -> BinaryFunnel:
    """The point of `binary_funnel` with I(X;Y) = `disclosure`, by root finding in alpha (R is monotone in it).

    Raises `InputError` for a disclosure outside [0, h(p)].
    """
    p, delta = _binary(p, delta)
    most = binary_entropy(p)
    rate = float(scalar(disclosure, "disclosure", low=0.0, high=most))
    if rate >= most - 2 * p * math.log(2):
        alpha = (most - rate) / math.log(2)  # the straight part, p/z = 1/2
    elif rate == 0:
        alpha = 1.0
    else:
        found: Any = brentq(lambda a: most - a * binary_entropy(p / a) - rate, 2 * p, 1.0, xtol=1e-16)
        alpha = float(found)
    return binary_funnel(p, delta, alpha)


def binary_bottleneck(delta: float, disclosure: float) -> float:
    """max I(S;Y) over I(X;Y) <= R for a fair bit X and S = X xor Bernoulli(delta): ln 2 - h(delta * h^-1(ln 2 - R)).

    Mrs. Gerber's Lemma (Wyner and Ziv 1973) bounds H(S|Y) from below by h(delta * h^-1(H(X|Y))), and a binary
    symmetric Y attains it. Raises `InputError` for a disclosure outside [0, ln 2].
    """
    delta = float(scalar(delta, "delta", low=0.0, high=1.0))
    rate = float(scalar(disclosure, "disclosure", low=0.0, high=math.log(2)))
    return math.log(2) - binary_entropy(cascade(delta, crossover_with_entropy(math.log(2) - rate)))


def gaussian_funnel(eigenvalues: Sequence[float] | np.ndarray, rate: float) -> float:
    """min I(S;Y) over ONE linear release with I(X;Y) >= R: R - 1/2 ln(1 + lambda_max (e^2R - 1)), 0 <= R <= 300.

    `eigenvalues` in [0, 1] of Sx^-1/2 Sx|s Sx^-1/2. Makhdoumi et al. 2014, section V, corrected. Plain: digits are lost
    where the leakage is tiny.
    """
    largest, rate = max(_eigenvalues(eigenvalues)), float(scalar(rate, "rate", low=0.0, high=300.0))
    return rate - 0.5 * math.log1p(largest * math.expm1(2 * rate))


def gaussian_bottleneck(eigenvalues: Sequence[float] | np.ndarray, rate: float) -> float:
    """max I(S;Y) over linear releases with I(X;Y) <= R, 0 <= R <= 300: every direction at the same slope beta.

    r_i = 1/2 max(0, ln((1 - lambda_i)(1 - beta)/(lambda_i beta))), beta found by bisection in its logit.
    Chechik et al. 2005.
    """
    values, rate = _eigenvalues(eigenvalues), float(scalar(rate, "rate", low=0.0, high=300.0))
    if min(values) == 0:
        return rate
    levels = [math.log1p(-value) - math.log(value) for value in values if value < 1]
    if not levels:
        return 0.0

    def shared(theta: float) -> list[float]:
        return [max(level - theta, 0.0) / 2 for level in levels]

    low, high = min(levels) - 2 * rate - 1, max(levels) + 1
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if sum(shared(middle)) > rate else (low, middle)
    return sum(
        r - 0.5 * math.log1p(math.expm1(2 * r) / (1 + math.exp(level)))
        for r, level in zip(shared(high), levels, strict=True)
    )


def _binary(p: float, delta: float) -> tuple[float, float]:
    p = float(scalar(p, "p", low=0.0, high=0.5, open_low=True))
    return p, float(scalar(delta, "delta", low=0.0, high=1.0))


def _eigenvalues(eigenvalues: Sequence[float] | np.ndarray) -> list[float]:
    values = [float(value) for value in eigenvalues]
    for i, value in enumerate(values):
        if not 0 <= value <= 1:
            raise InputError(f"eigenvalues[{i}] must be in [0, 1]")
    if not values:
        raise InputError("eigenvalues is empty")
    return values
