"""Problems with known answers, and random and degenerate instances, to test solvers and certificates with.

For tests and experiments; nothing else in the library imports it. All values in nats.

h(p) is the binary entropy in nats and a * b = a(1 - b) + b(1 - a) the crossover of two binary symmetric channels in a
row. The known optima are closed forms, at every boundary.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import scalar
from jaxpriv.data import distortion as distortions
from jaxpriv.errors import InputError
from jaxpriv.problems import DistortionProblem, NoiseProblem, rate_distortion
from jaxpriv.program.solution import Solution

__all__ = [
    "DEGENERATE",
    "BinaryFunnel",
    "KnownProblem",
    "binary_bottleneck",
    "binary_entropy",
    "binary_funnel",
    "binary_funnel_at",
    "degenerate",
    "gaussian_bottleneck",
    "gaussian_funnel",
    "heart_disease",
    "known_problems",
    "random_joint",
    "random_mechanisms",
]
__dir__ = names_of(__name__)


def random_joint(
    seed: int | np.random.Generator, private: int, useful: int, *, zeros: float = 0.0, concentration: float = 1.0
) -> np.ndarray:
    """A Dirichlet joint (s, x) with each cell emptied with probability `zeros`; every row and column keeps mass.

    A cell of each row and column is never emptied, so that the shape of a problem does not shrink.
    """
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(private * useful, concentration)).reshape(private, useful)
    present = rng.random((private, useful)) >= zeros
    cell = np.arange(max(private, useful))
    present[rng.permutation(private)[cell % private], rng.permutation(useful)[cell % useful]] = True
    # A cell that a small concentration rounded to nothing would lose its symbol.
    table = np.maximum(table, 1e-6) * present
    return table / table.sum()


def random_mechanisms(seed: int | np.random.Generator, count: int, useful: int, released: int) -> np.ndarray:
    """Mechanisms (count, x, y): dense, sparse, nearly deterministic and deterministic rows in turn."""
    rng = np.random.default_rng(seed)
    sharpness = np.array([1.0, 0.3, 0.05, 8.0])[np.arange(count) % 4]
    # Gumbel noise at low temperature is a random vertex, and never 0/0 as a tiny Dirichlet is.
    logits = rng.gumbel(size=(count, useful, released)) / sharpness[:, None, None]
    rows = np.exp(logits - logits.max(axis=2, keepdims=True))
    rows[::8] = rows[::8] == 1.0
    return rows / rows.sum(axis=2, keepdims=True)


def _ring(useful: int, released: int | None = None) -> np.ndarray:
    return abs(np.subtract.outer(np.arange(useful), np.arange(released or useful))).astype(float)


def _budgeted(joint: np.ndarray, distortion: np.ndarray, share: float = 0.3) -> DistortionProblem:
    """The budget `share` of the way from the least distortion to that of the best constant."""
    cost = joint.sum(axis=0)[:, None] * distortion
    least, idle = cost.min(axis=1).sum(), cost.sum(axis=0).min()
    return DistortionProblem(joint, distortion, budget=least + share * (idle - least))


def _zeros(n: int, rng: np.random.Generator) -> DistortionProblem:
    joint = rng.dirichlet(np.ones(n * n)).reshape(n, n) * (rng.random((n, n)) < 0.3)
    joint[np.arange(n), np.arange(n)] += 1e-3
    return _budgeted(joint / joint.sum(), _ring(n))


def _private_is_useful(n: int, rng: np.random.Generator) -> DistortionProblem:
    return _budgeted(np.diag(rng.dirichlet(np.ones(n))), _ring(n))


def _labels(n: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    classes = max(n // 4, 2)
    return np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)]), classes


def _useful_of_private(n: int, rng: np.random.Generator) -> DistortionProblem:
    labels, classes = _labels(n, rng)
    joint = np.zeros((n, classes))
    joint[np.arange(n), labels] = rng.dirichlet(np.ones(n))
    return _budgeted(joint, _ring(classes, n))


def _private_of_useful(n: int, rng: np.random.Generator) -> DistortionProblem:
    labels, classes = _labels(n, rng)
    joint = np.zeros((classes, n))
    joint[labels, np.arange(n)] = rng.dirichlet(np.ones(n))
    return _budgeted(joint, _ring(n))


def _independent(n: int, rng: np.random.Generator) -> DistortionProblem:
    return _budgeted(np.outer(rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n))), _ring(n))


def _tiny_masses(n: int, rng: np.random.Generator) -> DistortionProblem:
    joint = rng.dirichlet(np.ones(n * n)).reshape(n, n) * 10.0 ** -rng.uniform(0, 10, n)
    return _budgeted(joint / joint.sum(), _ring(n))


def _twins(n: int, rng: np.random.Generator) -> DistortionProblem:
    half = rng.dirichlet(np.ones(n * (n // 2))).reshape(n, n // 2) / 2
    return _budgeted(np.concatenate([half, half], axis=1), _ring(2 * (n // 2)))


# Every family by its name: (n, generator) -> a problem of about n symbols.
DEGENERATE: Mapping[str, Callable[[int, np.random.Generator], DistortionProblem]] = {
    "zeros": _zeros,
    "S=X": _private_is_useful,
    "X=f(S)": _useful_of_private,
    "S=f(X)": _private_of_useful,
    "independent": _independent,
    "tiny masses": _tiny_masses,
    "twins": _twins,
}


def degenerate(name: str, n: int, seed: int = 0) -> DistortionProblem:
    """An instance of a family of `DEGENERATE` with about n >= 4 symbols, absolute distortion, budget form.

    Raises `InputError` for an unknown `name` and for n below 4.
    """
    if name not in DEGENERATE:
        raise InputError(f"name {name!r} is unknown; known: {', '.join(DEGENERATE)}")
    if not n >= 4:
        raise InputError("n must be at least 4")
    return DEGENERATE[name](n, np.random.default_rng(seed))


# A small joint from medical data, for comparisons with published privacy-funnel solvers.


# P(x|s), rounded to four digits.
_GIVEN = (
    (0.1926, 0.2685, 0.1516, 0.2004),
    (0.0574, 0.3796, 0.0665, 0.4159),
    (0.0034, 0.0463, 0.0133, 0.0366),
    (0.0034, 0.1574, 0.0027, 0.0711),
    (0.6115, 0.0833, 0.5027, 0.2004),
    (0.0439, 0.0093, 0.0878, 0.0366),
    (0.0709, 0.0463, 0.1622, 0.0194),
    (0.0169, 0.0093, 0.0133, 0.0194),
)
# P(s), rounded in the same way.
_PRIVATE = (0.2379, 0.0868, 0.3023, 0.3730)


def heart_disease() -> np.ndarray:
    """P(S,X), shape (4, 8), of the UCI heart disease data, as a public code for privacy funnels has it.

    The published digits do not add up to one: the product P(x|s) P(s) is normalised. Source of the digits: the
    repository `drs-pfib` (Douglas-Rachford splitting for privacy funnel and information bottleneck, arXiv:2203.07527).
    Perfect privacy, I(S;Y) = 0, allows I(X;Y) = 0.701802363 bits.
    """
    joint = (np.array(_GIVEN) * _PRIVATE).T
    return joint / joint.sum()


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
    """The crossover a(1 - b) + b(1 - a) of two binary symmetric channels in a row, written a * b."""
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


# Privacy funnels and information bottlenecks in closed form: oracles for solvers. All values in nats.
#
# They share no code with the library's own methods. h is the binary entropy and a * b = a(1 - b) + b(1 - a).


@dataclass(frozen=True)
class BinaryFunnel:
    """An optimal mapping of a binary pair.

    Attributes:
        joint: P(s, x), (2, 2).
        mechanism: P(y|x), (2, 3): the outputs mean X = 0, something between, X = 1; some may have no mass.
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
    sure = p - alpha * posterior  # P(Y is the output that means X = 1)
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
        root: Any = brentq(lambda a: most - a * binary_entropy(p / a) - rate, 2 * p, 1.0, xtol=1e-16)
        alpha = float(root)  # SciPy annotates the pair that other arguments give
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
