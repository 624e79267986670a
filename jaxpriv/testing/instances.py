"""Random joints with zeros, random mechanisms, and the families that break fragile solvers."""

from collections.abc import Callable, Mapping

import numpy as np

from jaxpriv.errors import InputError
from jaxpriv.problems import DistortionProblem


def random_joint(
    seed: int | np.random.Generator, private: int, useful: int, *, zeros: float = 0.0, concentration: float = 1.0
) -> np.ndarray:
    """A Dirichlet joint (s, x) with each cell emptied with probability `zeros`; every row and column keeps mass.

    A cell of each row and column is never emptied, so that the shape of a problem does not shrink.
    """
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(private * useful, concentration)).reshape(private, useful)
    kept = rng.random((private, useful)) >= zeros
    cell = np.arange(max(private, useful))
    kept[rng.permutation(private)[cell % private], rng.permutation(useful)[cell % useful]] = True
    # A cell that a small concentration rounded to nothing would lose its symbol.
    table = np.maximum(table, 1e-6) * kept
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
    """An instance of a family of `DEGENERATE` with about n >= 4 symbols, absolute distortion, budget form."""
    if name not in DEGENERATE:
        raise InputError(f"name {name!r} is unknown; known: {', '.join(DEGENERATE)}")
    if not n >= 4:
        raise InputError("n must be at least 4")
    return DEGENERATE[name](n, np.random.default_rng(seed))
