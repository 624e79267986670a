"""Greedy merging as solvers of funnel and bottleneck problems, and as a start for column generation.

Where the algorithms have the target of the problem (R for the funnel, a relevance for the bottleneck) the release is
theirs, deterministic. Any other target is met on the hull of greedy releases, by time sharing.
"""

from dataclasses import dataclass

import numpy as np

from jaxpriv.errors import InputError
from jaxpriv.funnels.found import AbstractFunnelSolver, FunnelGoal, PosteriorMeasure
from jaxpriv.funnels.greedy.curves import Releases, posteriors_of
from jaxpriv.funnels.greedy.merging import Merging, PairTable, Rule
from jaxpriv.leakage import MutualInformation
from jaxpriv.problems.funnel import BottleneckProblem, FunnelProblem


@dataclass(frozen=True)
class Greedy(AbstractFunnelSolver):
    """Algorithm 1 of Makhdoumi et al. (2014) for funnel problems; with `ratio`, by leakage per disclosure.

    A leakage budget or a multiplier takes the best point of the lower hull of all releases on the way from X itself
    to a constant.
    """

    ratio: bool = False

    def find(self, problem: FunnelProblem | BottleneckProblem, goal: FunnelGoal) -> PosteriorMeasure:
        if not isinstance(problem, FunnelProblem):
            raise InputError("solver: greedy is for funnel problems; greedy-bottleneck is the one for bottlenecks")
        core = problem.reduction
        table = PairTable(core.joint, problem.leakage)
        rule = Rule.RATIO if self.ratio else Rule.PRIVACY
        if problem.form == "disclosure":
            return _alone(core.source, table.run(rule, problem.target))
        run = table.run(rule, 0.0)
        releases = Releases(core.source, [run], way=True, upper=False)
        if problem.form == "leakage_budget":
            release = releases.at(releases.totals, table.decrease.outer_inverse(problem.target))
        else:
            leakages = table.decrease.outer(releases.totals)
            release = releases.vertex(int(np.argmin(leakages - problem.target * releases.disclosures)))
        return PosteriorMeasure(*release, steps=len(run.merges), notes=_notes([run]))


@dataclass(frozen=True)
class GreedyBottleneck(AbstractFunnelSolver):
    """Algorithm 2 of Makhdoumi et al. (2014) for bottleneck problems.

    A disclosure or a multiplier takes the best point of the upper hull of the releases for `points` relevances, evenly
    spaced up to I(S;X), and of those on their ways.
    """

    points: int = 24

    def find(self, problem: FunnelProblem | BottleneckProblem, goal: FunnelGoal) -> PosteriorMeasure:
        if not isinstance(problem, BottleneckProblem):
            raise InputError("solver: greedy-bottleneck is for bottleneck problems; greedy is the one for funnels")
        core = problem.reduction
        table = PairTable(core.joint, problem.leakage)
        if problem.form == "relevance":
            return _alone(core.source, table.run(Rule.RELEVANCE, problem.target))
        runs = [table.run(Rule.RELEVANCE, k / self.points * table.most_leakage) for k in range(self.points)]
        releases = Releases(core.source, runs, way=True, upper=True)
        if problem.form == "disclosure":
            release = releases.at(releases.disclosures, problem.target)
        else:
            release = releases.vertex(int(np.argmax(releases.totals - problem.target * releases.disclosures)))
        return PosteriorMeasure(*release, steps=sum(len(run.merges) for run in runs), notes=_notes(runs))


def clusters(joint: np.ndarray, disclosure: float) -> np.ndarray:
    """Posteriors (K, X) to start column generation from: the clusters that Algorithm 1 forms on its way to R.

    R = `disclosure`, nats; `joint` (S, X) of total one. Clusters of one symbol, the vertices, are left out: for
    `ColumnGeneration(start=...)`, which has them.
    """
    run = PairTable(joint, MutualInformation()).run(Rule.PRIVACY, disclosure)
    source = joint.sum(axis=0)
    members = np.eye(len(source), dtype=bool)
    formed = np.zeros((len(run.merges), len(source)), dtype=bool)
    for number, (i, j) in enumerate(run.merges):
        members[i] |= members[j]
        formed[number] = members[i]
    joints = formed * source
    return joints / joints.sum(axis=1, keepdims=True)


def _alone(source: np.ndarray, run: Merging) -> PosteriorMeasure:
    return PosteriorMeasure(*posteriors_of(source, run.labels), steps=len(run.merges), notes=_notes([run]))


def _notes(runs: list[Merging]) -> tuple[str, ...]:
    ties = sum(run.ties for run in runs)
    return (f"{ties} merges were ties, decided by the order of the symbols",) if ties else ()
