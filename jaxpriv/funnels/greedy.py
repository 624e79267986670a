"""Greedy merging of outputs: Algorithms 1 and 2 of Makhdoumi et al. (2014), whole curves, and time sharing.

    run = greedy(joint, disclosure=1.5)                   # run.labels, run.mechanism, run.leakage, run.ties
    runs = greedy_curve(joint, disclosures=targets)       # every target, the pair table made once

`merging` has the decreases of a merge and the algorithm, which is deterministic and local: its releases are measured,
without a lower bound. A switch appended to Y releases one mechanism with probability t and another one otherwise.
I(X;Y) and the sum of column(w) of an average measure are then linear in t, so every point of the lower (or upper)
convex hull of the points (I(X;Y), total) of some releases can be had: nothing but X itself and a constant are added to
them here.

As solvers of funnel and bottleneck problems: where the algorithms have the target of the problem (R for the funnel, a
relevance for the bottleneck) the release is theirs, deterministic. Any other target is met on that hull.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.divergences import entropy
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import (
    COUNT,
    check_fields,
    finite,
    flag,
    is_traced,
    joint_array,
    nonnegative,
    real_array,
    scalar,
)
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.funnels.hull import Target, crossing_at
from jaxpriv.funnels.merge_losses import leakages_of, total_at
from jaxpriv.funnels.merging import TOLERANCE, Merging, PairTable, Rule
from jaxpriv.funnels.solution import AbstractFunnelSolver, FunnelGoal, PosteriorMeasure
from jaxpriv.leakage import AbstractAverageLeakage, AbstractLeakage, MutualInformation
from jaxpriv.problems.funnel import BottleneckProblem, FunnelOrBottleneck, FunnelProblem


def greedy(
    joint: ArrayLike,
    *,
    disclosure: float | None = None,
    relevance: float | None = None,
    ratio: bool = False,
    leakage: AbstractLeakage | None = None,
) -> Merging:
    """Merge useful symbols greedily, from Y = X on, as far as one target allows.

    Args:
        joint: P(S,X), shape (S, X), total one; symbols without mass are allowed.
        disclosure: R, nats: keep I(X;Y) >= R, take the largest decrease of the leakage (Algorithm 1).
        relevance: D, in the measure's unit: keep L(S->Y) >= D, take the largest decrease of I(X;Y) (Algorithm 2).
        ratio: with `disclosure`, take the largest decrease of leakage per decrease of I(X;Y) instead.
        leakage: an average measure; mutual information by default.

    Raises:
        InputError: an argument is wrong, by name.
        InfeasibleError: R above H(X), or D above the leakage of X itself.
        ResourceError: the table of pairs does not fit into memory.

    Makhdoumi et al. 2014, Algorithms 1 and 2.
    """
    name, target = _one("disclosure", disclosure, "relevance", relevance)
    value = scalar(target, name, low=0.0) if not is_traced(target) else target
    return _sweep(joint, name, [value], ratio, leakage)[0]


def greedy_curve(
    joint: ArrayLike,
    *,
    disclosures: ArrayLike | None = None,
    relevances: ArrayLike | None = None,
    ratio: bool = False,
    leakage: AbstractLeakage | None = None,
) -> tuple[Merging, ...]:
    """`greedy` at many targets, shape (B,), in their order. The table of all pairs is computed once.

    Neither algorithm is monotone in its target: plot the envelope.
    """
    name, targets = _one("disclosures", disclosures, "relevances", relevances)
    if is_traced(targets):
        points: Arr = jnp.asarray(targets)
    else:
        points = nonnegative(finite(real_array(targets, name, ndim=1), name), name)
    return _sweep(joint, name, points, ratio, leakage)


V = TypeVar("V")


def _one(name: str, value: V | None, other: str, other_value: V | None) -> tuple[str, V]:
    if value is not None and other_value is None:
        return name, value
    if other_value is not None and value is None:
        return other, other_value
    raise InputError(f"give exactly one of {name} and {other}")


def _sweep(
    joint: ArrayLike,
    name: str,
    targets: Sequence[ScalarLike] | Arr,
    ratio: bool,
    leakage: AbstractLeakage | None,
) -> tuple[Merging, ...]:
    if is_traced(joint, targets):
        raise InputError("joint: greedy merging runs on the host, outside of jit, vmap and grad")
    leakage = MutualInformation() if leakage is None else leakage
    if not isinstance(leakage, AbstractAverageLeakage):
        raise InputError(f"leakage must be an average measure, not {type(leakage).__name__}")
    of_leakage = name.startswith("relevance")
    if flag(ratio, "ratio") and of_leakage:
        raise InputError("ratio: the ratio rule keeps a disclosure, not a relevance")
    table = PairTable(joint_array(joint), leakage)
    most = table.most_leakage if of_leakage else entropy(table.clusters.masses)
    for position, target in enumerate(targets):
        if not target <= most + TOLERANCE:
            where = name if np.ndim(targets) == 1 and len(targets) == 1 else f"{name}[{position}]"
            limit = "the leakage of X itself" if of_leakage else "H(X)"
            raise InfeasibleError(
                f"{where} is above {limit}, the most that any mechanism reaches",
                {name: float(target), "largest": most},
            )
    rule = Rule.RELEVANCE if of_leakage else Rule.RATIO if ratio else Rule.PRIVACY
    return tuple(table.run(rule, float(target)) for target in targets)


def posteriors_of(source: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(posteriors (Y, X), masses (Y,)) of a deterministic release under P_X = `source`."""
    joint = (labels == np.arange(labels.max() + 1)[:, None]) * source
    masses = joint.sum(axis=1)
    return joint / masses[:, None], masses


def _on_hull(
    source: np.ndarray, table: PairTable, runs: Sequence[Merging], target: Target, sign: float
) -> tuple[np.ndarray, np.ndarray]:
    """(posteriors (K, X), masses (K,)) at the target on the hull of a constant and all releases on the way of `runs`.

    Costs are sums of column(w), at a price the leakages themselves, of a bottleneck with `sign` -1.
    """
    points = [(run, k) for run in runs for k in range(len(run.totals))]
    totals = np.array([table.nothing, *(run.totals[k] for run, k in points)])
    costs = leakages_of(table.measure, totals) if target.form == "price" else totals
    edge = crossing_at(np.array([0.0, *(run.disclosures[k] for run, k in points)]), sign * costs, target)
    ends = []
    for point, share in ((edge.first, 1.0 - edge.share), (edge.second, edge.share)):
        labels = np.zeros(len(source), dtype=int)
        if point > 0:
            run, merges = points[point - 1]
            labels = run.after(merges)
        posteriors, masses = posteriors_of(source, labels)
        ends.append((posteriors, share * masses))
    posteriors, masses = (np.concatenate(parts) for parts in zip(*ends, strict=True))
    return posteriors[masses > 0], masses[masses > 0]


@dataclass(frozen=True)
class Greedy(AbstractFunnelSolver):
    """Algorithm 1 of Makhdoumi et al. (2014) for funnel problems; with `ratio`, by leakage per disclosure.

    A leakage budget or a multiplier takes the best point of the lower hull of all releases on the way from X itself
    to a constant.
    """

    ratio: bool = False

    def __post_init__(self) -> None:
        check_fields(self, flag, "ratio")

    def find(self, problem: FunnelOrBottleneck, goal: FunnelGoal) -> PosteriorMeasure:
        if not isinstance(problem, FunnelProblem):
            raise InputError("solver: greedy is for funnel problems; greedy-bottleneck is the one for bottlenecks")
        return _released(problem, Rule.RATIO if self.ratio else Rule.PRIVACY, [0.0])


@dataclass(frozen=True)
class GreedyBottleneck(AbstractFunnelSolver):
    """Algorithm 2 of Makhdoumi et al. (2014) for bottleneck problems.

    A disclosure or a multiplier takes the best point of the upper hull of the releases for `points` relevances, evenly
    spaced up to I(S;X), and of those on their ways.
    """

    points: int = 24

    def __post_init__(self) -> None:
        check_fields(self, COUNT, "points")

    def find(self, problem: FunnelOrBottleneck, goal: FunnelGoal) -> PosteriorMeasure:
        if not isinstance(problem, BottleneckProblem):
            raise InputError("solver: greedy-bottleneck is for bottleneck problems; greedy is the one for funnels")
        return _released(problem, Rule.RELEVANCE, [k / self.points for k in range(self.points)])


def _released(problem: FunnelOrBottleneck, rule: Rule, shares: list[float]) -> PosteriorMeasure:
    """The release of a run to the target of `problem`, or on the hull of runs to these shares of the most leakage."""
    core, measure, form = problem.reduction, problem.leakage, problem.form
    assert isinstance(measure, AbstractAverageLeakage)  # `pick_funnel_solver` asked
    table, sign = PairTable(core.joint, measure), 1.0 if problem.minimises_leakage else -1.0
    if form == ("disclosure" if sign > 0 else "relevance"):
        runs = [table.run(rule, problem.target)]
        release = posteriors_of(core.source, runs[0].labels)
    else:
        runs = [table.run(rule, share * table.most_leakage) for share in shares]
        if form == "disclosure":
            target = Target("disclosure", problem.target)
        elif form == "multiplier":
            target = Target("price", sign * problem.target)
        else:
            target = Target("cost", total_at(measure, problem.target))
        release = _on_hull(core.source, table, runs, target, sign)
    return PosteriorMeasure(*release, steps=sum(len(run.merges) for run in runs), notes=_notes(runs))


def _notes(runs: list[Merging]) -> tuple[str, ...]:
    ties = sum(run.ties for run in runs)
    return (f"{ties} merges were ties, decided by the order of the symbols",) if ties else ()
