"""Cases of a study: plain data (numbers and strings), the problems they stand for, and the hash that names them.

Random joints and distortions are named by family and seed: the same numbers on every machine with the same NumPy.
"""

import hashlib
import json
import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeAlias

import numpy as np

from jaxpriv.distortion import AbstractDistortion, as_distortion, dense
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractLeakage, by_name
from jaxpriv.problems.distortion import DistortionProblem

Config: TypeAlias = dict[str, Any]

# In place of the number in cases: TOML has it, strict JSON does not.
INFINITE = "inf"

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


def digest(value: object) -> str:
    """SHA-256 of plain data: of the JSON with sorted keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class CaseParts:
    """Joints, distortions and measures of cases, each made once."""

    def __init__(self, tables: Mapping[str, np.ndarray]) -> None:
        self._tables = tables
        self._joints: dict[Hashable, np.ndarray] = {}
        self._distortions: dict[Hashable, AbstractDistortion] = {}
        self._measures: dict[Hashable, AbstractLeakage] = {}
        self._ends: dict[Hashable, tuple[float, float]] = {}

    def problem(self, case: Config) -> DistortionProblem:
        """The problem of a case.

        A `budget_share` t stands for the budget a + t (b - a) between the least distortion a of any mechanism and that
        of the best constant release, b.
        """
        joint, distortion, measure = (tuple(case[part].items()) for part in ("joint", "distortion", "leakage"))
        if joint not in self._joints:
            self._joints[joint] = self._joint(case["joint"])
        table = self._joints[joint]
        cost = distortion, table.shape[-1]
        if cost not in self._distortions:
            self._distortions[cost] = self._distortion(case["distortion"], table.shape[-1])
        costs = self._distortions[cost]
        if measure not in self._measures:
            self._measures[measure] = _measure_of(case["leakage"])
        form, target = case["form"], case["target"]
        if form == "budget_share":
            if (joint, cost) not in self._ends:
                self._ends[joint, cost] = _ends(table, costs)
            least, idle = self._ends[joint, cost]
            form, target = "budget", least + target * (idle - least)
        return DistortionProblem(table, costs, leakage=self._measures[measure], **{form: target})

    def _joint(self, config: Config) -> np.ndarray:
        return self._tables[config["sha256"]] if "file" in config else joint_of(config)

    def _distortion(self, config: Config, useful: int) -> AbstractDistortion:
        return as_distortion(self._tables[config["sha256"]] if "file" in config else distortion_of(config, useful))


def _ends(table: np.ndarray, costs: AbstractDistortion) -> tuple[float, float]:
    """The least distortion of any mechanism, and of a constant release."""
    masses = table.sum(axis=-2) if table.ndim == 2 else table.sum(axis=1).mean(axis=0)
    weighted = masses[:, None] * dense(costs)
    return weighted.min(axis=1).sum(), weighted.sum(axis=0).min()


def _measure_of(config: Config) -> AbstractLeakage:
    given: Config = {key: math.inf if one == INFINITE else one for key, one in config.items()}
    return by_name(**given)
