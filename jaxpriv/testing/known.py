"""Problems whose optimum is known in closed form, in every form and at every boundary.

h(p) is the binary entropy in nats and a * b = a(1 - b) + b(1 - a) the crossover of two binary
symmetric channels in a row.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from jaxpriv import distortion as distortions
from jaxpriv.problems import DistortionProblem, NoiseProblem, rate_distortion
from jaxpriv.solution import Solution


@dataclass(frozen=True)
class KnownProblem:
    """A problem whose optimal value lies in `[lower, upper]` (equal where it is known exactly).

    Attributes:
        name: unique in the library.
        problem: what to solve.
        lower, upper: the optimal value, in units of the problem's objective.
        source: where the value comes from.
    """

    name: str
    problem: DistortionProblem | NoiseProblem
    lower: float
    upper: float
    source: str

    def agrees(self, solution: Solution, rounding: float = 1e-14) -> bool:
        """Whether the interval of `solution` can hold the optimum. `rounding` is that of the closed form."""
        return bool(solution.lower_bound <= self.upper + rounding and solution.value >= self.lower - rounding)


def binary_entropy(p: float) -> float:
    """h(p) = -p ln p - (1 - p) ln(1 - p)."""
    return -sum(q * math.log(q) for q in (p, 1.0 - p) if q > 0)


def cascade(a: float, b: float) -> float:
    """a * b = a(1 - b) + b(1 - a)."""
    return a * (1 - b) + b * (1 - a)


def _uniform_rate(m: int, budget: float) -> float:
    """R(D) of m equally likely symbols under Hamming distortion, D <= 1 - 1/m."""
    return math.log(m) - binary_entropy(budget) - budget * math.log(m - 1)


def _bsc(delta: float) -> np.ndarray:
    """P(S,X) of a fair bit S and its image X under a binary symmetric channel."""
    return np.array([[1 - delta, delta], [delta, 1 - delta]]) / 2


def crossover_with_entropy(entropy: float) -> float:
    """The p <= 1/2 with h(p) = `entropy`, by bisection to the last bit."""
    low, high = 0.0, 0.5
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if binary_entropy(middle) < entropy else (low, middle)
    return high


def known_problems() -> list[KnownProblem]:
    """All of them: small, exact, and of few different shapes."""
    exact = [*_rate_distortion(), *_binary_channel(), *_without_leakage(), *_boundary(), *_noise()]
    return [KnownProblem(name, problem, value, value, source) for name, problem, value, source in exact]


_Row = tuple[str, DistortionProblem | NoiseProblem, float, str]


def _rate_distortion() -> Iterator[_Row]:
    m, hamming = 5, distortions.hamming(5)
    uniform = np.full(m, 1 / m)
    shannon = "Shannon 1959: R(D) = ln m - h(D) - D ln(m - 1)"
    for budget in (1e-6, 0.05, 0.2, 0.5, 0.79):
        problem = rate_distortion(uniform, hamming, budget=budget)
        yield f"uniform source, Hamming, D = {budget}", problem, _uniform_rate(m, budget), shannon
    for price in (0.5, 3.0):
        problem = rate_distortion(uniform, hamming, multiplier=price)
        value = math.log(m) - math.log1p((m - 1) * math.exp(-price))
        yield f"uniform source, Hamming, multiplier {price}", problem, value, f"{shannon}, minimised over D"
    for p, budget in ((0.3, 0.1), (0.1, 0.099)):
        problem = rate_distortion([p, 1 - p], distortions.hamming(2), budget=budget)
        value = binary_entropy(p) - binary_entropy(budget)
        yield f"Bernoulli({p}) source, Hamming, D = {budget}", problem, value, "R(D) = h(p) - h(D)"

    # A query X = f(S): the private states of one answer share its mass unevenly.
    shares = np.array([0.5, 0.3, 0.2])
    joint = np.zeros((3 * m, m))
    for x in range(m):
        joint[3 * x : 3 * x + 3, x] = shares / m
    problem = DistortionProblem(joint, hamming, budget=0.2)
    yield "X = f(S), uniform X, Hamming", problem, _uniform_rate(m, 0.2), "Calmon-Fawaz Corollary 1"


def _binary_channel() -> Iterator[_Row]:
    hamming = distortions.hamming(2)
    source = "I(S;Y) = ln 2 - h(D * delta): the best test channel is symmetric"
    for delta, budget in ((0.1, 0.1), (0.25, 0.01), (0.01, 0.45)):
        problem = DistortionProblem(_bsc(delta), hamming, budget=budget)
        value = math.log(2) - binary_entropy(cascade(budget, delta))
        yield f"binary symmetric channel {delta}, D = {budget}", problem, value, source
    for delta, limit in ((0.1, 0.05), (0.25, 1e-3)):
        problem = DistortionProblem(_bsc(delta), hamming, leakage_budget=limit)
        value = (crossover_with_entropy(math.log(2) - limit) - delta) / (1 - 2 * delta)
        yield f"binary symmetric channel {delta}, leakage {limit}", problem, value, f"{source}, solved for D"
    problem = DistortionProblem([_bsc(0.1), _bsc(0.3)], hamming, budget=0.1)
    value = math.log(2) - binary_entropy(cascade(0.1, 0.1))
    yield "two binary symmetric channels", problem, value, f"{source}, for the cleaner channel"


def _without_leakage() -> Iterator[_Row]:
    joint = np.outer([0.1, 0.2, 0.3, 0.4], [0.05, 0.1, 0.15, 0.2, 0.2, 0.3])
    problem = DistortionProblem(joint, distortions.absolute(np.arange(6)), budget=0.2)
    yield "independent S and X", problem, 0.0, "I(S;Y) <= I(S;X) = 0"
    problem = DistortionProblem(_bsc(0.1), distortions.hamming(2), budget=0.5)
    yield "binary symmetric channel, D = 1/2", problem, 0.0, "a constant release meets the budget"
    problem = DistortionProblem(_bsc(0.1), distortions.hamming(2), leakage_budget=0.0)
    yield "binary symmetric channel, no leakage", problem, 0.5, "Y independent of X"
    pairs = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    joint = np.repeat(np.eye(2), 2, axis=1) / 4  # S is the first of two fair bits
    problem = DistortionProblem(joint, distortions.changed_attributes(pairs), leakage_budget=0.0)
    yield "one private bit of two, no leakage", problem, 0.5, "the second bit is free, the first is a guess"
    problem = DistortionProblem(_bsc(0.1), distortions.hamming(2), leakage_budget=1.0)
    yield "binary symmetric channel, any leakage", problem, 0.0, "the identity, I(S;X) < ln 2 < 1"


def _boundary() -> Iterator[_Row]:
    m = 5
    problem = rate_distortion(np.full(m, 1 / m), distortions.hamming(m), budget=0.0)
    yield "uniform source, D = 0", problem, math.log(m), "the identity"
    # One more output that costs nothing for three of the symbols: they are released as one.
    ties = np.concatenate([1 - np.eye(m), np.array([[0.0], [0.0], [0.0], [1.0], [1.0]])], axis=1)
    problem = rate_distortion(np.full(m, 1 / m), ties, budget=0.0)
    yield "uniform source, D = 0 with ties", problem, math.log(m) - 0.6 * math.log(3), "H(X) - 3/5 ln 3"
    problem = rate_distortion([1.0], [[0.3, 0.1]], budget=0.1)
    yield "alphabets of one symbol", problem, 0.0, "nothing to leak"


def _noise() -> Iterator[_Row]:
    m = 5
    cost = np.minimum(np.arange(m), 1.0)
    problem = NoiseProblem(np.eye(m) / m, cost, budget=0.2)
    yield "cyclic noise, uniform X, Hamming", problem, _uniform_rate(m, 0.2), "Calmon-Fawaz Corollary 1: ln m - H(Z)"
    problem = NoiseProblem(np.eye(m) / m, cost, budget=0.0)
    yield "cyclic noise, uniform X, D = 0", problem, math.log(m), "Z = 0"
