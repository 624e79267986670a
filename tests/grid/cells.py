"""The axes of the grid, the problem of every cell, and what the documentation refuses."""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import jaxpriv as jp
from jaxpriv import leakage as lk
from tests.cases import distances

from .measures import INF, MARGINALS, MEASURES, Reference


class Cell(NamedTuple):
    """One value of every axis."""

    solver: str
    form: str
    also: str
    measure: str
    structure: str
    level: str
    transform: str

    def __str__(self) -> str:
        return "/".join(self)


AXES = Cell(
    solver=(
        "auto", "interior-point", "mirror-descent", "blahut-arimoto", "accelerated", "two-grid", "linear-program",
        "hybrid-gradient",
    ),
    # The last three: a budget, and a limit on the distance of P_Y from a marginal (`with_marginal`).
    form=("budget", "multiplier", "leakage-budget", *MARGINALS),
    also=("nothing", "limits", "distortions", "private-input", "joints"),
    measure=tuple(MEASURES),
    # zero-mass: symbols of S and X. equal: proportional rows, equal columns; near: columns equal to ten digits. less,
    # more: |Y| below and above |X|; single: one output. erasure: X is S, or nothing.
    structure=("dense", "zeros", "diagonal", "equal", "near", "zero-mass", "less", "more", "single", "erasure"),
    # least: the least distortion with ties, the least leakage, no slack. beyond: zero leakage, no limit.
    level=("inside", "least", "beyond"),
    transform=("host", "float32", "jit", "jit-float32", "vmap", "grad", "frontier"),
)  # type: ignore[arg-type]  # fmt: skip

# Worst-outcome measures whose least limit within budgets is refused.
UNBUDGETED = ("max-lift-by-symbol", "metric")
FIRST_ORDER = ("mirror-descent", "blahut-arimoto")
STREAMING = ("accelerated", "two-grid")
SINGLE = ("mirror-descent", "hybrid-gradient", "accelerated")  # take smooth averages in float32 inside of jit
TRACED = ("jit", "jit-float32", "vmap", "grad")


def measured(cell: Cell) -> bool:
    """Whether it asks for more than mutual information once: joints have a limit each, a divergence is one."""
    further = cell.also == "limits" or cell.form == "divergence" or cell[1:3] == ("leakage-budget", "joints")
    return cell.measure != "mutual-information" or further


def budgeted(form: str) -> bool:
    """Whether distortions have budgets, and the leakage is least."""
    return form not in ("multiplier", "leakage-budget")


def refusal(cell: Cell) -> str | None:
    """What the documentation refuses about a cell; None if it promises an answer."""
    reference = MEASURES[cell.measure]
    if cell.also == "joints" and cell.form == "multiplier":
        return "a set of joints has no multiplier form"
    if cell.also == "joints" and cell.form in MARGINALS and cell.form != "divergence":
        return "how y is moved is one rule for all joints"
    if cell.form == "divergence":
        if cell.transform in TRACED:
            return "what the further symbols forbid is found on the host"
        if cell.solver in (*STREAMING, "linear-program"):
            return "a divergence is a limit that is not piecewise linear"
    if measured(cell):
        if budgeted(cell.form) and cell.measure in UNBUDGETED:
            return "the least multiple of the scales of .* is no convex program"
        if cell.solver == "blahut-arimoto":
            return "solver takes mutual information without further limits only"
        if cell.solver == "mirror-descent" or cell.solver in STREAMING:
            ties = reference.linear and cell.solver != "two-grid"
            if cell.also == "limits" or ties or reference.worst or _own_loss(cell):
                return "solver takes averages whose decision rules (have no ties|are in closed form)"
            if cell.also == "joints" and not budgeted(cell.form):
                return "solver takes a set of joints with a budget"
        if cell.solver == "linear-program" and not reference.linear:
            return "solver takes linear programs only"
        if cell.measure == "sampled" and (cell.also == "joints" or cell.transform in ("jit", "jit-float32", "grad")):
            return "the frequencies of the samples are the prior of one joint"
        if cell.transform in TRACED and (refused := _untraceable(cell)) is not None:
            return refused
        if cell.transform == "frontier" and cell.form == "leakage-budget" and cell.level == "beyond":
            return "the points of a sweep are finite"
        if cell.form == "multiplier" and (reference.worst or reference.logarithm):
            return "multiplier needs an average that is not a logarithm"
    else:
        if cell.solver == "linear-program":
            return "solver takes linear programs only"
    if cell.solver in STREAMING and cell.transform in TRACED:
        if cell.solver == "two-grid":
            return "the gaps that it proves decide how many cells come next"
        if cell.form == "leakage-budget" or cell.also == "joints":
            return "streaming solvers take one joint, in budget or multiplier form"
    elif cell.solver in STREAMING:
        met = (cell.form, cell.level) == ("total-variation", "beyond") or (cell.form, cell.structure) == (
            "transport",
            "single",
        )
        if cell.form in MARGINALS and not met:
            return "streaming solvers meet several budgets by the nearest symbol only"
        if cell.form == "leakage-budget" or cell.also == "joints":
            return "streaming solvers take one joint, in budget or multiplier form"
        if cell.transform == "frontier":
            return "streaming solvers solve one point at a time"
        if cell.form == "budget" and cell.level == "least":
            if cell.also == "distortions":
                return "streaming solvers meet several budgets by the nearest symbol only"
            if least_support(data_of(*cell[1:6]).costs).sum(axis=1).max() > 1:
                return "streaming solvers need one cheapest symbol for each x at the least distortion"
        if cell.solver == "two-grid" and not ordered(cell) and cell.form not in MARGINALS:
            return "two-grid takes ordered symbols"
    if cell.form == "leakage-budget" and cell.also == "distortions":
        return "leakage_budget minimises one distortion"
    return None


def _own_loss(cell: Cell) -> bool:
    return cell.measure.endswith(("user-loss", "user-cubic"))


def _untraceable(cell: Cell) -> str | None:
    """Why a problem with any measures has no compiled form."""
    if cell.solver == "linear-program":
        return "it runs outside of jit, vmap and grad only"
    if cell.solver == "hybrid-gradient" and budgeted(cell.form) and MEASURES[cell.measure].worst:
        return "interior-point alone finds the least worst outcome inside of jit, vmap and grad"
    reference, one = MEASURES[cell.measure], cell.also not in ("limits", "joints")
    smooth = one and not (reference.linear or reference.worst)
    if cell.transform == "jit-float32" and not (smooth and cell.solver in (*SINGLE, "auto")):
        return "other measures than smooth averages, by methods of first order, need float64 inside of jit"
    if "user" in cell.measure:
        return "functions of one's own run outside of jit, vmap and grad only"
    return None


def without_slack(cell: Cell) -> bool:
    """Whether a limit leaves a compiled program no slack: its interval may stay open, its derivative be NaN."""
    return measured(cell) and cell.transform in TRACED and cell.level == "least"


def unreached(cell: Cell) -> bool:
    """Whether a marginal's equations leave a solver of vertices or first order, or budgets beside a divergence without
    slack leave any, or limits without slack on own losses of joints one of first order, short of its tolerance: the
    interval is proved, and wide.
    """
    if cell.also == "joints" and cell.solver == "hybrid-gradient" and cell.level == "least" and _own_loss(cell):
        return True
    short = cell.solver in (*FIRST_ORDER, "hybrid-gradient", "linear-program")
    return cell.form in MARGINALS and (short or (cell.form, cell.level) == ("divergence", "least"))


def ordered(cell: Cell) -> bool:
    """Whether the distortions are functions of ordered symbols: what two-grid takes."""
    return cell.level != "least" and cell.also not in ("distortions", "private-input")


def every() -> Iterator[Cell]:
    """The complete product."""
    yield from itertools.starmap(Cell, itertools.product(*AXES))


# -- data ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """The problem of a cell in plain numbers. A set of joints has a leading axis."""

    joints: np.ndarray  # (K, S, X), as the problem means them: of pairs for a private input
    given: np.ndarray  # what is passed to jaxpriv: (K, S, X), (S, X) of a private input without pairs
    tables: np.ndarray  # (M, X, Y)
    given_tables: np.ndarray
    name: str  # of the argument that states the form
    target: Any  # its value
    limits: tuple[tuple[Reference, Any, float], ...]  # (reference, jaxpriv's measure, value)
    marginal: np.ndarray | None = None  # q of a limit on the released marginal
    within: float = INF  # the largest distance of P_Y from q

    @property
    def costs(self) -> np.ndarray:
        """P(x) d_m(x, y) under every joint, (K, M, X, Y)."""
        return self.joints.sum(axis=1)[:, None, :, None] * self.tables[None]


_OUTPUTS = {
    "dense": 4, "zeros": 4, "diagonal": 4, "equal": 4, "near": 4, "zero-mass": 4, "less": 3, "more": 5, "single": 1,
    "erasure": 4,
}  # fmt: skip
# How far the columns of "near" are apart, relative to themselves.
_NEAR = 1e-10


def _joint(structure: str, pairs: bool, seed: int) -> np.ndarray:
    """Shapes 3 x 4, of which jaxpriv keeps 3 x 4 after its reductions; 2 x 3 where the pairs are the data."""
    rng = np.random.default_rng(seed)
    private, useful = (2, 3) if pairs else (3, 4)
    if structure == "diagonal":
        joint = np.diag(rng.dirichlet(np.full(useful, 8.0)))
    else:
        joint = rng.dirichlet(np.full(private * useful, 1.5)).reshape(private, useful) + 0.01
        joint *= (1.0 / joint.sum(axis=1, keepdims=True)) ** 0.7
    if structure == "zeros":
        joint *= 1.0 - np.eye(private, useful)
    if structure == "equal":
        joint = np.concatenate([joint, 0.5 * joint[-1:]])
        joint[:, 1] = joint[:, 0]
    if structure == "near":
        joint[:, 1] = joint[:, 0] * (1.0 + _NEAR * rng.normal(size=private))
    if structure == "erasure":
        # Numbers that float32 holds: rounded, what is released of an erasure would depend on S.
        prior = np.array([0.25, 0.5, 0.25] if private == 3 else [0.5, 0.5])
        joint = np.zeros((private, useful))
        joint[np.arange(private), np.arange(private)], joint[:, -1] = 0.75 * prior, 0.25 * prior
    if structure == "zero-mass":
        joint = np.pad(joint, ((0, 1), (0, 0)))
        joint = np.insert(joint, 1, 0.0, axis=1)
    return joint / joint.sum()


def ties(useful: int, released: int) -> np.ndarray:
    """Entries 0, 1 and 2, two cheapest outputs for some x, one output cheapest for none."""
    x, y = np.arange(useful)[:, None], np.arange(released)[None, :]
    table = np.minimum((x + y) % 3, 2).astype(float)
    table[0, :2] = 0.0
    table[:, -1] = 2.0
    table[-1, -1] = 1.0
    table[-1, 0] = 0.0
    return table


def _second(useful: int, released: int) -> np.ndarray:
    return (np.arange(useful)[:, None] % released != np.arange(released)[None, :]).astype(float)


@functools.cache
def data_of(form: str, also: str, measure: str, structure: str, level: str, rounded: bool = False) -> Data:
    """The problem in numbers; `rounded`: of a joint whose entries are float32."""
    pairs = also == "private-input"
    joint = _joint(structure, pairs, 3)
    given = joint[None]
    if also == "joints":
        other = _joint(structure, pairs, 4)
        given = np.stack([joint, 0.5 * joint + 0.5 * other])
        given /= given.sum(axis=(1, 2), keepdims=True)
    if rounded:
        given = given.astype(np.float32).astype(np.float64)
        given /= given.sum(axis=(1, 2), keepdims=True)
        joint = given[0]
    useful, released = joint.shape[1], max(_OUTPUTS[structure] - pairs, 1)
    given_tables = np.stack([(ties if level == "least" else distances)(useful, released)])
    if also == "distortions":
        given_tables = np.stack([given_tables[0], _second(useful, released)])
    joints, tables = given, given_tables
    if pairs:
        chosen = np.argwhere(joint > 0)
        joints = np.zeros((1, len(joint), len(chosen)))
        joints[0, chosen[:, 0], np.arange(len(chosen))] = joint[chosen[:, 0], chosen[:, 1]]
        tables = given_tables[:, chosen[:, 1]]
    reference = MEASURES[measure]
    costs = joints.sum(axis=1)[:, None, :, None] * tables[None]  # (K, M, X, Y)
    worst = costs.max(axis=0)
    cheapest = _one_hot(worst[0].argmin(axis=1), released)
    constant = _one_hot(np.full(tables.shape[1], worst[0].sum(axis=0).argmin()), released)
    # A mechanism that meets what is asked: it is the measure of budgets and limits.
    share = {"inside": 0.6, "least": 1.0, "beyond": 0.0}[level]
    near = share * cheapest + (1.0 - share) * (0.8 * constant + 0.2 / released)
    if level == "least" and form in MARGINALS:
        near = least_support(costs) / least_support(costs).sum(axis=1, keepdims=True)
    spent = (costs * near).sum(axis=(2, 3)).max(axis=0)  # (M,)
    if level == "least":
        spent = least_costs(costs)
    prior_of = [one[one.sum(axis=1) > 0] for one in joints]
    nothing = max(reference.of(one, np.full(near.shape, 1.0 / released)) for one in prior_of)
    leaks = max(reference.of(one, near) for one in prior_of)
    marginal, within = None, INF
    if budgeted(form):
        name, target = "budget", spent + (0.1 if level == "beyond" else 0.0)
        if form in MARGINALS:
            marginal, within = _near_marginal(form, level, joints.sum(axis=1) @ near)
    elif form == "multiplier":
        value = {"inside": 0.3, "least": 50.0, "beyond": 0.0}[level]
        name, target = "multiplier", np.full(len(tables), value)
    else:
        name = "leakage_budget"
        reachable = leaks if np.isfinite(leaks) else nothing + 0.5
        none = 10.0 if measure == "mutual-information" and also not in ("limits", "joints") else INF
        target = {"inside": nothing + 0.4 * (reachable - nothing), "least": max(nothing, 0.0), "beyond": none}[level]
    limits: tuple[tuple[Reference, Any, float], ...] = ()
    if also == "limits":
        lifts = MEASURES["max-lift"]
        level_of = max(lifts.of(one, near) for one in prior_of)
        bound = {"inside": 1.02 * level_of + 0.01, "least": 1.02 * level_of + 0.01, "beyond": INF}[level]
        if not budgeted(form) and level == "least":
            bound = 0.0
        limits = ((lifts, lk.MaxLift(), bound),)
    return Data(joints, given, tables, given_tables, name, target, limits, marginal, within)


def _near_marginal(form: str, level: str, own: np.ndarray) -> tuple[np.ndarray, float]:
    """(q, v): laws of Y that a mechanism within the budgets has, `own` (K, Y), are at most v from q."""
    released = own.shape[1]
    if level == "beyond" or released == 1:
        return np.full(released, 1.0 / released), 1e3
    # The least is P_Y = q of the first joint, the divergence of a q without zeros.
    share = 0.3 if level == "inside" else 0.1 * (form == "divergence")
    slack = 0.05 * (share > 0)
    q = (1.0 - share) * own[0] + share / released
    return q, (1.0 + slack) * max(MARGINALS[form](one, q)[0] for one in own)


def _one_hot(chosen: np.ndarray, size: int) -> np.ndarray:
    return np.eye(size)[chosen]


def least_support(costs: np.ndarray) -> np.ndarray:
    """Where a mechanism may be positive that meets `least_costs`, (X, Y)."""
    mass = costs.sum(axis=(1, 3))[0] >= 0
    support = np.broadcast_to(mass[:, None], costs.shape[2:]).copy()
    for table in costs.max(axis=0):
        masked = np.where(support, table, np.inf)
        support &= masked <= masked.min(axis=1, keepdims=True)
    return support


def least_costs(costs: np.ndarray) -> np.ndarray:
    """The least of the first distortion, then of the second at the least of the first, (M,), under every joint."""
    support = least_support(costs)
    least = [np.where(support, table, np.inf).min(axis=2).sum(axis=1).max() for table in costs.transpose(1, 0, 2, 3)]
    return np.array(least)


# -- problems --------------------------------------------------------------------------------------


def problem_of(cell: Cell, data: Data, joint: Any = None, tables: Any = None, target: Any = None) -> Any:
    """The cell's problem; joint, tables and target in place of the data's own (tracers, other precisions)."""
    joint = data.given if joint is None else joint
    joint = joint if cell.also == "joints" else joint[0]
    if tables is None:
        distortion = _distortion(cell, data)
    else:
        distortion = tables if len(data.given_tables) > 1 else tables[0]
    target = data.target if target is None else target
    form = {data.name: target if np.ndim(target) != 1 or len(data.tables) > 1 else target[0]}
    if measured(cell):
        form["leakage"] = MEASURES[cell.measure].asked(data.joints[0].sum(axis=1))
        form["limits"] = [(measure, bound) for _, measure, bound in data.limits]
    if cell.form in MARGINALS:
        form |= {"marginal": data.marginal, "within": data.within}
        if cell.form == "divergence":
            form["divergence"] = lk.ChiSquared()
        if cell.form == "transport":
            form["cost"] = distances(len(data.marginal), len(data.marginal))
        if cell.also == "private-input":
            joint, distortion = data.joints[0], list(data.tables)
        return jp.with_marginal(joint, distortion, **form)
    if cell.also == "private-input":
        return jp.with_private_input(joint, distortion, **form)
    return jp.DistortionProblem(joint, distortion, **form)


def _distortion(cell: Cell, data: Data) -> Any:
    useful, released = data.given_tables.shape[1:]
    if ordered(cell):
        return jp.distortion.absolute(np.arange(float(useful)), np.arange(float(released)))
    return data.given_tables if len(data.given_tables) > 1 else data.given_tables[0]
