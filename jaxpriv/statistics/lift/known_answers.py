"""Tasks whose mutual information is known: an estimator is checked on these first."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import jax
import numpy as np
from scipy.special import ndtr, ndtri, rel_entr

from jaxpriv.statistics.lift._base import AbstractLiftEstimator
from jaxpriv.statistics.lift.estimated_number import Estimate
from jaxpriv.statistics.lift.estimating import estimate
from jaxpriv.statistics.lift.samples import Samples, from_features, from_symbols

# Integration over a standard normal X: beyond 10 deviations there is less mass than rounding.
_GRID = np.linspace(-10.0, 10.0, 20_001)
# Weights of the integral: the density at the points of the grid, which sum to 1.
_MASS = np.exp(-0.5 * _GRID**2) / np.exp(-0.5 * _GRID**2).sum()


@dataclass(frozen=True)
class KnownTask:
    """A population with known I(S;X).

    Attributes:
        name: what it is.
        information: I(S;X) in nats, by a closed form or by integration to about 1e-9.
        prior: `(S,)` P(s).
        draw: `draw(rng, n)` gives n rows: (private codes, features or symbols).
        symbols: |X| of a finite alphabet, None for features.
        lift: the true log-lift `(n, S)` of rows.
    """

    name: str
    information: float
    prior: np.ndarray
    draw: Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
    symbols: int | None
    lift: Callable[[np.ndarray], np.ndarray]

    def samples(self, seed: int, n: int) -> Samples:
        """n rows drawn with a seed."""
        private, useful = self.draw(np.random.default_rng(seed), n)
        if self.symbols is None:
            return from_features(private, useful, private_size=len(self.prior))
        return from_symbols(private, useful, useful_size=self.symbols, private_size=len(self.prior))


@dataclass(frozen=True)
class Agreement:
    """One known answer beside its estimate."""

    task: str
    truth: float
    estimate: Estimate

    @property
    def errors(self) -> float:
        """The error in standard errors."""
        return (self.estimate.value - self.truth) / self.estimate.standard_error

    @property
    def agrees(self) -> bool:
        """Within two standard errors."""
        return self.estimate.agrees(self.truth)


def self_test(
    estimator: AbstractLiftEstimator,
    key: jax.Array,
    *,
    n: int = 6000,
    splits: int = 5,
    tasks: tuple[KnownTask, ...] | None = None,
) -> tuple[Agreement, ...]:
    """The estimator on tasks with known answers (default: all of `known_tasks`), n rows each.

    An estimator that fails here with the sample size at hand cannot be relied on for data. A few agreements out of
    many may fail by chance: two standard errors cover 95 %. For `PlugIn` pass the tasks with symbols.
    """
    agreements = []
    for number, task in enumerate(known_tasks() if tasks is None else tasks):
        report = estimate(estimator, jax.random.fold_in(key, number), task.samples(number, n), splits=splits)
        agreements.append(Agreement(task.name, task.information, report.information))
    return tuple(agreements)


def _information(mass: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, float]:
    """(prior, I(S;X)) of masses `(m,)` of X and P(s|x) `(m, S)`."""
    prior = mass @ shares
    return prior, float(mass @ rel_entr(shares, prior).sum(axis=1))


def _gaussian(
    name: str,
    rho: float,
    bins: int,
    unseen: Callable[[np.ndarray], np.ndarray] = lambda x: x[:, 0],
    seen: Callable[[np.ndarray], np.ndarray] = lambda hidden: hidden,
    width: int = 1,
) -> KnownTask:
    """S = the quantile bin (of `bins`) of Z; (Z, G) standard normal with correlation rho; X = seen(G, noise).

    P(s|g) is a difference of normal distribution functions. X is a one-to-one function of (G, noise), which
    `unseen` inverts for G.
    """
    edges = ndtri(np.arange(bins + 1) / bins)

    def shares(g: np.ndarray) -> np.ndarray:
        return np.diff(ndtr((edges - rho * g[:, None]) / math.sqrt(1.0 - rho**2)), axis=1)

    prior, information = _information(_MASS, shares(_GRID))

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        hidden = rng.normal(size=(n, width))
        z = rho * hidden[:, 0] + math.sqrt(1.0 - rho**2) * rng.normal(size=n)
        return np.clip(np.searchsorted(edges, z) - 1, 0, bins - 1), seen(hidden)

    def lift(x: np.ndarray) -> np.ndarray:
        return np.log(shares(unseen(x))) - np.log(prior)

    return KnownTask(name, information, prior, draw, None, lift)


def _mixture(name: str, prior: np.ndarray, centres: np.ndarray) -> KnownTask:
    """X|S=s an even mixture of unit Gaussians in the plane around `centres[s]` (S, k, 2), integrated on a grid."""

    def shares(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        far = ((x[:, None, None, :] - centres) ** 2).sum(axis=-1)
        densities = prior * np.exp(-0.5 * far).mean(axis=2) / (2.0 * np.pi)
        total = densities.sum(axis=1)
        return total, densities / total[:, None]

    side = np.linspace(-8.0, 8.0, 321)  # the trapezoidal rule is spectrally accurate for analytic integrands
    plane = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    total, posterior = shares(plane)
    _, information = _information(total / total.sum(), posterior)

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        s = rng.choice(len(prior), size=n, p=prior)
        return s, centres[s, rng.integers(centres.shape[1], size=n)] + rng.normal(size=(n, 2))

    return KnownTask(name, information, prior, draw, None, lambda x: np.log(shares(x)[1] / prior))


def _channel(name: str, joint: np.ndarray) -> KnownTask:
    """A table P(s, x)."""
    mass = joint.sum(axis=0)
    prior, information = _information(mass, (joint / mass).T)

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        cells = rng.choice(joint.size, size=n, p=joint.ravel())
        return cells // joint.shape[1], cells % joint.shape[1]

    table = np.log(joint / mass).T - np.log(prior)
    return KnownTask(name, information, prior, draw, joint.shape[1], lambda x: table[x])


@cache
def known_tasks() -> tuple[KnownTask, ...]:
    """Gaussian pairs, a heavy tail, many features, mixtures, a discrete channel, weak and no dependence."""
    angle = np.random.default_rng(7).normal(size=(10, 10))
    rotation = np.linalg.qr(angle)[0]
    weights = np.array([[8, 6, 4, 2, 1, 1, 2, 4], [2, 2, 4, 6, 8, 6, 4, 2], [1, 2, 2, 3, 4, 8, 9, 9]], dtype=float)
    weights *= np.array([[0.5], [0.3], [0.2]]) / weights.sum(axis=1, keepdims=True)
    three = np.array([[[0.0, 0.0]], [[2.0, 0.0]], [[0.0, 2.5]]])
    crossed = 1.5 * np.array([[[1.0, 1.0], [-1.0, -1.0]], [[1.0, -1.0], [-1.0, 1.0]]])
    return (
        _gaussian("Gaussian pair, sign", 0.75, 2),
        _gaussian("Gaussian pair, four bins", 0.75, 4),
        _gaussian("heavy tail", 0.6, 2, lambda x: np.arcsinh(x[:, 0]) / 2.0, lambda h: np.sinh(2.0 * h)),
        _gaussian("ten features", 0.6, 2, lambda x: x @ rotation[:, 0], lambda h: h @ rotation.T, width=10),
        _channel("channel, 3 x 8", weights),
        _mixture("three clusters", np.array([0.6, 0.3, 0.1]), three),
        _mixture("crossed clusters", np.array([0.5, 0.5]), crossed),
        _gaussian("weak dependence", 0.15, 2),
        _gaussian("independent", 0.0, 2, width=3),
    )
