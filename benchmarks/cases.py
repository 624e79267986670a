"""Named families of cases. A case is a name and numbers; it builds the same instance wherever it is built.

Budgets are a share of what an independent release needs. Every random family takes an explicit seed,
which is part of the case's name and of the results.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.limits import LIMITS, Limit
from benchmarks.objective import (
    MOST_ENTRIES,
    CurveObjective,
    DistortionObjective,
    FunnelObjective,
    LimitObjective,
    Objective,
    Refused,
)
from benchmarks.robustness import joint_of

BUDGET_SHARE = 0.3
# Limits on leakage are this share of what a release of X as it is leaks, where a case does not say.
LIMIT_SHARE = 0.2


@dataclass(frozen=True)
class Instance:
    """The numbers of one case.

    Attributes:
        joint: P(S,X), shape (S, X).
        kind: distortion: `absolute` or `squared` of the features, `hamming` of symbols, `attributes` changed, `table`.
        x, y: features of the symbols (codes for `hamming` and `attributes`).
        budgets: E d <= budget; several numbers are the points of a curve.
        multiplier: instead of a budget.
        limit: instead of both: E d is minimised under a limit on leakage.
        disclosure: instead of all: I(S;Y) is minimised subject to I(X;Y) >= disclosure (nats); d plays no part.
        costs: d (X, Y) of the kind `table`, which has no features.
    """

    joint: np.ndarray
    kind: str
    x: np.ndarray
    y: np.ndarray
    budgets: tuple[float, ...] = ()
    multiplier: float | None = None
    limit: Limit | None = None
    disclosure: float | None = None
    costs: np.ndarray | None = None

    @functools.cached_property
    def table(self) -> np.ndarray:
        """d(x,y) as a matrix (X, Y), for solvers that need one."""
        return self.costs if self.costs is not None else distortion_table(self.kind, self.x, self.y)

    def objective(self) -> Objective:
        """The judge of this instance, holding nothing that a solver uses.

        Raises `Refused` if mechanisms are too large to write out.
        """
        if len(self.x) * len(self.y) > MOST_ENTRIES:
            raise Refused(f"a mechanism of {len(self.x)} x {len(self.y)} entries is too large to write out for judging")
        if self.disclosure is not None:
            return FunnelObjective(self.joint, self.disclosure)
        table = self.table
        if self.limit is not None:
            return LimitObjective(table, self.limit)
        if self.multiplier is not None:
            return DistortionObjective(self.joint, table, multiplier=self.multiplier)
        points = tuple(DistortionObjective(self.joint, table, budget=b) for b in self.budgets)
        return points[0] if len(points) == 1 else CurveObjective(points)


@dataclass(frozen=True)
class Case:
    """A family and its numbers; hashable, and plain data for the results file.

    `traits` say what a solver may rely on: `S = X`, `multiplier`, `budget`, `curve`, `ordered`,
    `limit` (on leakage, distortion minimised) and its kind: `worst outcome` (max-information) or `linear`;
    `funnel` (leakage minimised at a disclosure).
    """

    family: str
    parameters: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, family: str, **parameters: Any) -> "Case":
        """A case of a known family."""
        if family not in FAMILIES:
            raise ValueError(f"no family {family!r}; there are {', '.join(FAMILIES)}")
        return cls(family, tuple(sorted(parameters.items())))

    @property
    def name(self) -> str:
        """Family and every parameter, in one line."""
        return " ".join([self.family, *(f"{key}={value}" for key, value in self.parameters)])

    @property
    def traits(self) -> frozenset[str]:
        """What holds for every case of the family."""
        return FAMILIES[self.family].traits

    def __getitem__(self, key: str) -> Any:
        return dict(self.parameters)[key]

    def build(self) -> Instance:
        """The instance, the same for equal parameters."""
        return FAMILIES[self.family].build(**dict(self.parameters))


@dataclass(frozen=True)
class Family:
    """How to build the cases of one name, and what they have in common."""

    build: Callable[..., Instance]
    traits: frozenset[str]


def distortion_table(kind: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """d(x,y), shape (X, Y)."""
    if kind == "attributes":
        return (x[:, None, :] != y[None, :, :]).sum(axis=2).astype(np.float64)
    difference = x[:, None] - y[None, :]
    tables = {"absolute": abs, "squared": np.square, "hamming": lambda d: (d != 0).astype(np.float64)}
    return tables[kind](difference)


def budget_at(joint: np.ndarray, table: np.ndarray, share: float) -> float:
    """The distortion at `share` of the way from the least possible to the best release without information."""
    mass = joint.sum(axis=0)
    least, most = float(mass @ table.min(axis=1)), float((mass @ table).min())
    return least + share * (most - least)


def grid(kind: str, size: int) -> np.ndarray:
    """Features of `size` symbols: places on [0,1], or codes."""
    return np.arange(size, dtype=np.float64) if kind == "hamming" else np.linspace(0, 1, size)


def _dirichlet(S: int, X: int, Y: int, distortion: str, share: float, seed: int) -> Instance:
    joint = np.random.default_rng(seed).dirichlet(np.ones(S * X)).reshape(S, X)
    x, y = grid(distortion, X), grid(distortion, Y)
    budget = budget_at(joint, distortion_table(distortion, x, y), share)
    return Instance(joint, distortion, x, y, (budget,))


def _cube(n: int, distortion: str, seed: int, share: float = BUDGET_SHARE) -> Instance:
    return _dirichlet(n, n, n, distortion, share, seed)


def _penalty(n: int, distortion: str, multiplier: float, seed: int) -> Instance:
    joint = np.random.default_rng(seed).dirichlet(np.ones(n * n)).reshape(n, n)
    return Instance(joint, distortion, grid(distortion, n), grid(distortion, n), multiplier=multiplier)


def _source(n: int, distortion: str, multiplier: float, seed: int) -> Instance:
    joint = np.diag(np.random.default_rng(seed).dirichlet(np.ones(n)))
    return Instance(joint, distortion, grid(distortion, n), grid(distortion, n), multiplier=multiplier)


def _hard(kind: str, S: int, X: int, distortion: str, seed: int, share: float = BUDGET_SHARE) -> Instance:
    joint = joint_of(kind, (S, X), np.random.default_rng(seed))
    x = grid(distortion, X)
    return Instance(joint, distortion, x, x, (budget_at(joint, distortion_table(distortion, x, x), share),))


def _census(share: float = BUDGET_SHARE) -> Instance:
    from jaxpriv import datasets

    data = datasets.census()
    codes = np.asarray(data.useful_attributes)
    budget = budget_at(data.joint, distortion_table("attributes", codes, codes), share)
    return Instance(np.asarray(data.joint), "attributes", codes, codes, (budget,))


def _ordered(n: int, S: int, distortion: str, multiplier: float, seed: int) -> Instance:
    """A mixture of Gaussians on [0,1] whose parameters do not depend on n: finer n, the same problem."""
    rng = np.random.default_rng(seed)
    places, priors = rng.random(S), rng.dirichlet(np.ones(S))
    widths = rng.uniform(0.5, 1.5, S) * max(0.6 / S, 0.05)
    x = (np.arange(n) + 0.5) / n
    bumps = np.exp(-(((x[None, :] - places[:, None]) / widths[:, None]) ** 2) / 2) / widths[:, None]
    joint = priors[:, None] * (bumps + 1e-3)
    return Instance(joint / joint.sum(), distortion, x, x, multiplier=multiplier)


def _curve(S: int, X: int, Y: int, distortion: str, points: int, seed: int) -> Instance:
    joint = np.random.default_rng(seed).dirichlet(np.ones(S * X)).reshape(S, X)
    x, y = grid(distortion, X), grid(distortion, Y)
    table = distortion_table(distortion, x, y)
    shares = np.linspace(0.02, 0.98, points)
    return Instance(joint, distortion, x, y, tuple(budget_at(joint, table, share) for share in shares))


def _worst(n: int, distortion: str, share: float, seed: int) -> Instance:
    return _limited("max-information", n, distortion, share, seed)


def _linear(n: int, measure: str, distortion: str, seed: int, share: float = LIMIT_SHARE) -> Instance:
    return _limited(measure, n, distortion, share, seed)


def _limited(measure: str, n: int, distortion: str, share: float, seed: int) -> Instance:
    joint = np.random.default_rng(seed).dirichlet(np.ones(n * n)).reshape(n, n)
    whole = LIMITS[measure](joint, 0.0).leaked(np.eye(n))
    x = grid(distortion, n)
    return Instance(joint, distortion, x, x, limit=LIMITS[measure](joint, share * whole))


def _funnel_of(joint: np.ndarray, disclosure: float) -> Instance:
    symbols = grid("hamming", joint.shape[1])
    return Instance(np.asarray(joint), "hamming", symbols, symbols, disclosure=disclosure)


def _share_of_entropy(joint: np.ndarray, share: float) -> float:
    source = joint.sum(axis=0)
    return share * -float((source * np.log(source)).sum())


def _funnel_heart(bits: float) -> Instance:
    """The heart-disease table on which funnel solvers were compared before: 8 useful and 4 private symbols."""
    from jaxpriv.testing import heart_disease

    return _funnel_of(heart_disease(), bits * math.log(2.0))


def _funnel_census(table: str, nats: float) -> Instance:
    from jaxpriv import datasets

    data = {"full": datasets.census, "small": datasets.census_small}[table]()
    return _funnel_of(np.asarray(data.joint), nats)


def _funnel_random(S: int, X: int, share: float, seed: int) -> Instance:
    joint = np.random.default_rng(seed).dirichlet(np.ones(S * X)).reshape(S, X)
    return _funnel_of(joint, _share_of_entropy(joint, share))


def _file(path: str, **target: float) -> Instance:
    """A problem that `jaxpriv solve` takes: arrays `joint` (S, X) and `distortion` (X, Y) of an .npz file."""
    with np.load(path, allow_pickle=False) as arrays:
        joint, costs = (np.asarray(arrays[name], dtype=np.float64) for name in ("joint", "distortion"))
    if joint.ndim != 2 or costs.shape[:1] != joint.shape[1:]:
        raise ValueError(f"{path}: joint must be (S, X) and distortion (X, Y), not {joint.shape} and {costs.shape}")
    x, y = (np.arange(size) for size in costs.shape)
    budgets = (target["budget"],) if "budget" in target else ()
    return Instance(joint / joint.sum(), "table", x, y, budgets, target.get("multiplier"), costs=costs)


# Every family of cases by name; the one place to add another.
FAMILIES: dict[str, Family] = {
    "cube": Family(_cube, frozenset({"budget"})),
    "shape": Family(_dirichlet, frozenset({"budget"})),
    "penalty": Family(_penalty, frozenset({"multiplier"})),
    "source": Family(_source, frozenset({"multiplier", "S = X"})),
    "hard": Family(_hard, frozenset({"budget"})),
    "census": Family(_census, frozenset({"budget"})),
    "ordered": Family(_ordered, frozenset({"multiplier", "ordered"})),
    "worst": Family(_worst, frozenset({"limit", "worst outcome"})),
    "linear": Family(_linear, frozenset({"limit", "linear"})),
    "curve": Family(_curve, frozenset({"budget", "curve"})),
    "file": Family(_file, frozenset({"budget"})),
    "file-penalty": Family(_file, frozenset({"multiplier"})),
    "funnel-heart": Family(_funnel_heart, frozenset({"funnel"})),
    "funnel-census": Family(_funnel_census, frozenset({"funnel"})),
    "funnel-random": Family(_funnel_random, frozenset({"funnel"})),
}
