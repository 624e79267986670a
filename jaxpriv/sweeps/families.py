"""Random joints and distortions by name and seed: the same numbers on every machine with the same NumPy."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxpriv.errors import InputError

# Masses below this are raised to it: a small concentration would round symbols to nothing.
_LEAST = 1e-6


def _dirichlet(rng: np.random.Generator, private: int, useful: int, concentration: float, zeros: float) -> np.ndarray:
    """Dirichlet over all cells; each is emptied with probability `zeros`, but one of each row and column."""
    table = rng.dirichlet(np.full(private * useful, concentration)).reshape(private, useful)
    kept = rng.random((private, useful)) >= zeros
    cell = np.arange(max(private, useful))
    kept[rng.permutation(private)[cell % private], rng.permutation(useful)[cell % useful]] = True
    return np.maximum(table, _LEAST) * kept


def _correlated(
    rng: np.random.Generator, private: int, useful: int, concentration: float, correlation: float
) -> np.ndarray:
    """X = S with probability `correlation`, otherwise independent of S with the same law: a Dirichlet one."""
    if private != useful:
        raise InputError(f"joint: family 'correlated' has S = X, not {private} private and {useful} useful symbols")
    law = np.maximum(rng.dirichlet(np.full(private, concentration)), _LEAST)
    law = law / law.sum()
    return correlation * np.diag(law) + (1.0 - correlation) * np.outer(law, law)


# Every family: its function and its parameters beside the sizes and the seed, with (default, least, largest).
FAMILIES: Mapping[str, tuple[Callable[..., np.ndarray], Mapping[str, tuple[float, float, float]]]] = {
    "dirichlet": (_dirichlet, {"concentration": (1.0, 1e-3, 1e6), "zeros": (0.0, 0.0, 1.0)}),
    "correlated": (_correlated, {"concentration": (1.0, 1e-3, 1e6), "correlation": (0.5, 0.0, 1.0)}),
}


def joint_of(config: Mapping[str, Any]) -> np.ndarray:
    """The joint (S, X) of a family, total one."""
    function, parameters = FAMILIES[config["family"]]
    rng = np.random.default_rng(config["seed"])
    table = function(rng, config["private"], config["useful"], **{name: config[name] for name in parameters})
    return table / table.sum()


# Distortions between numbered symbols, x = 0, 1, ... and y = 0, 1, ...
DISTORTIONS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "absolute": lambda x, y: abs(x - y),
    "squared": lambda x, y: (x - y) ** 2,
    "hamming": lambda x, y: x != y,
}


def distortion_of(config: Mapping[str, Any], useful: int) -> np.ndarray:
    """The distortion (X, Y) of a name; `uniform` draws every cost from [0, 1) by its seed."""
    released = config["released"]
    if config["name"] == "uniform":
        return np.random.default_rng(config["seed"]).random((useful, released))
    x, y = np.arange(useful)[:, None], np.arange(released)[None, :]
    return DISTORTIONS[config["name"]](x, y).astype(np.float64)
