"""The privacy watchdog of Hsu, Asoodeh and Calmon: release what leaks little about S, perturb the rest.

    found = watchdog(joint, target_leakage=0.5)        # or epsilon=..., or target_utility=...
    found.leakage, found.utility                       # exact on this joint
    found.bounds                                       # Proposition 2 and a tighter bound, beside it
    found.mechanism                                    # P(y|x)

The score of a symbol x is max_s |i(s,x)|, i(s,x) = ln P(s|x)/P(s) (`scores`). The watchdog releases
X_eps = { x : score <= eps } and perturbs the rest (`perturbation`); all thresholds at once are a
`staircase`. With scores that were estimated from samples the same numbers are estimates, in classes and
fields of their own. Logarithms are natural; everything runs on the host in float64.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from jaxpriv import leakage
from jaxpriv._runtime.counts import failure
from jaxpriv._runtime.importing import names_of, renamed
from jaxpriv._runtime.module import Shown, summary
from jaxpriv._runtime.module.shown import nearest
from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.types import Joint
from jaxpriv._runtime.validation import scalar
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.statistics.audit._information import mutual_information
from jaxpriv.statistics.watchdog.draw import BestDraw, best_draw
from jaxpriv.statistics.watchdog.perturbation import (
    CompleteMerging,
    Perturbation,
    Perturbed,
    RandomisedResponse,
    SubsetMerging,
    perturbed,
)
from jaxpriv.statistics.watchdog.staircase import (
    Bounds,
    EstimatedStaircase,
    EstimatedWatchdog,
    Staircase,
    bounds_of,
    estimated_staircase,
    estimated_watchdog,
    host_joint,
    log_lift,
    log_lift_of,
    need_one,
    proved_bounds,
    scores,
    scores_of,
    staircase,
    steps,
)
from jaxpriv.verifier.claims import lower, upper

__all__ = [
    "BestDraw",
    "Bounds",
    "Cause",
    "CompleteMerging",
    "EstimatedStaircase",
    "EstimatedWatchdog",
    "Perturbation",
    "RandomisedResponse",
    "Staircase",
    "SubsetMerging",
    "Watchdog",
    "best_draw",
    "compare",
    "estimated_staircase",
    "estimated_watchdog",
    "explain",
    "log_lift",
    "proved_bounds",
    "scores",
    "staircase",
    "watchdog",
]
__dir__ = names_of(__name__)


# Targets are met to this many nats: sums of masses are rounded.
_ROUNDING = 1e-12
# How far the running sums of the staircase may be from those; what is near a target is computed anew.
_NEAR = 1e-9
# How many thresholds are tried for subset merging and randomised response.
_TRIED = 64
# How many numbers that may cost: merging m symbols computes some m^2 |S|.
_WORK = 5e7


class _Mechanism(np.ndarray):
    """P(y|x) of a `Watchdog`: an array that may be called too, since `mechanism` was a method in version 0.1."""

    def __call__(self) -> np.ndarray:
        renamed("Watchdog.mechanism()", "Watchdog.mechanism")
        return np.asarray(self)


@dataclass(frozen=True, eq=False)
class Watchdog(Shown):
    """A watchdog and what is exact about it on the given joint; nothing here is a statement about a population.

    Attributes:
        epsilon: the threshold.
        scores: `(x,)` max_s |i(s,x)|.
        released: `(x,)` bool, X_eps.
        released_mass: P(X_eps).
        leakage: the exact lift leakage max_{s,y} |ln P(s|y)/P(s)|, in nats (`jaxpriv.leakage.Lift` of the
            mechanism): the larger of the next two.
        leakage_released: of the released symbols with mass.
        leakage_complement: of the outcomes that stand for the others.
        information: I(S;Y) in nats, the average leakage; at most `leakage`.
        utility: I(X;Y) in nats; at most `entropy`.
        entropy: H(X) in nats.
        bounds: what eps and P(X_eps) alone prove (complete merging only, otherwise None). Never below `leakage`.
        perturbation: what was asked for the complement.
        group, keep, draw: what that came to (`jaxpriv.watchdog.perturbation`).
        joint: what everything was computed from.
    """

    epsilon: float
    scores: np.ndarray
    released: np.ndarray
    released_mass: float
    leakage: float
    leakage_released: float
    leakage_complement: float
    information: float
    utility: float
    entropy: float
    bounds: Bounds | None
    perturbation: Perturbation
    group: np.ndarray
    keep: float
    draw: np.ndarray | None
    joint: np.ndarray

    __repr__ = summary

    def _shown(self) -> dict[str, str]:
        return {
            "threshold": f"{nearest(self.epsilon)} nats",
            "released": f"{int(self.released.sum())} of {len(self.released)} symbols, mass {lower(self.released_mass)}",
            "others": type(self.perturbation).__name__,
            "lift leakage": f"{upper(self.leakage)} nats",
            "I(S;Y)": f"{upper(self.information)} nats",
            "I(X;Y)": f"{lower(self.utility)} of {upper(self.entropy)} nats",
        }

    @property
    def mechanism(self) -> np.ndarray:
        """P(y|x) `(x, y)` float64. With draw "single" the outputs are the useful symbols and one for each group.

        A reader of it can infer which symbols are released, `keep` (computed from the joint, not rounded) and `draw`:
        of "marginal" the rounded shares (`CompleteMerging`), from which no count follows.
        """
        size = len(self.released)
        groups = 0 if self.draw is not None else int(self.group.max()) + 1
        table = self._identity(size + groups)
        hidden = np.flatnonzero(~self.released)
        if self.draw is None:
            table[hidden, size + self.group[hidden]] = 1.0
        else:
            same = self.group[hidden, None] == self.group[hidden]
            table[np.ix_(hidden, hidden)] = (1.0 - self.keep) * same * self.draw[hidden]
            table[hidden, hidden] += self.keep
        return table.view(_Mechanism)

    def report(self, units: str = "nats") -> leakage.Report:
        """Every measure of `jaxpriv.leakage` on the joint and the mechanism; in `rows`, "lift" is `leakage`."""
        if self.keep > 0.0:
            return leakage.report(self.joint, self.mechanism, units)
        # The outcomes of a group have one posterior: as one of its symbols it measures the same, without draws.
        table = self._identity(len(self.released))
        hidden = np.flatnonzero(~self.released)
        _, first = np.unique(self.group[hidden], return_index=True)
        table[hidden, hidden[first][self.group[hidden]]] = 1.0
        return leakage.report(self.joint, table, units)

    def lagrangian(self, multiplier: float) -> tuple[float, float]:
        """Upper bounds on F = min L(S->Y) - l I(X;Y) over all mechanisms, l = `multiplier` >= 0: ours and the printed.

        `leakage` - l `utility`, and `bounds.gamma` - l `utility` (NaN without bounds), in nats. They hold for every L
        that lift privacy bounds: mutual information, Sibson's and Arimoto's of any order, maximal and min-entropy
        leakage, the worst outcome's relative entropy and lift. Certified values of F: `jaxpriv.FunnelProblem`.

        Hsu, Asoodeh and Calmon 2019, after (11).
        """
        disclosed = scalar(multiplier, "multiplier", low=0.0) * self.utility
        return self.leakage - disclosed, (self.bounds.gamma if self.bounds else math.nan) - disclosed

    def _identity(self, outputs: int) -> np.ndarray:
        """The rows of the released symbols; the others are empty."""
        need_memory(16.0 * len(self.released) * outputs, "the mechanism as a table", "use released, group, keep, draw")
        table = np.zeros((len(self.released), outputs))
        inside = np.flatnonzero(self.released)
        table[inside, inside] = 1.0
        return table


def watchdog(
    joint: Joint,
    *,
    epsilon: float | None = None,
    target_leakage: float | None = None,
    target_utility: float | None = None,
    perturbation: Perturbation | None = None,
) -> Watchdog:
    """The watchdog with a threshold, or the best one with complete merging for a target.

    Args:
        joint: P(s, x) `(s, x)`.
        epsilon: release x with max_s |i(s,x)| <= epsilon, >= 0; inf releases everything.
        target_leakage: the largest X_eps with an exact leakage of at most this, >= 0. Unless rounding
            makes scores zero that are not, there is one at eps = 0: where nothing that depends on S is
            released nothing leaks. As leakage is no monotone function of eps, a smaller X_eps may leak more.
        target_utility: the least leakage with I(X;Y) of at least this, >= 0 and at most H(X).
        perturbation: of the symbols that are not released; by default `CompleteMerging()`. With a target
            the limit of `SubsetMerging` and `RandomisedResponse` is the target (of utility: the leakage
            that complete merging needs for it), and of up to 64 thresholds the most useful one is taken:
            to release less can leave a complement that is easier to merge.

    Exactly one of epsilon and the targets is given; targets are met to 1e-12 nats. Symbols without mass
    are released at eps = inf only.

    Raises `InputError` for a bad argument, naming it, and `InfeasibleError` if no mechanism has the
    utility (proof: H(X)), no perturbation the limit (proof: what complete merging leaks) or no X_eps the
    leakage (masses below 1e-16; proof: what X_0 leaks).

    Hsu, Asoodeh and Calmon 2019, Definition 2, eq. (9) and (11).
    """
    joint = host_joint(joint)
    need_one(epsilon, target_leakage, target_utility)
    asked = CompleteMerging() if perturbation is None else perturbation
    if not isinstance(asked, Perturbation):
        raise InputError("perturbation must be a CompleteMerging, a SubsetMerging or a RandomisedResponse")
    score = scores_of(log_lift_of(joint))
    if epsilon is not None:
        threshold = scalar(epsilon, "epsilon", low=0.0, infinite=True)
        return _built(joint, score, threshold, asked)
    if not isinstance(asked, CompleteMerging) and asked.limit is not None:
        raise InputError("limit is for a given epsilon; with a target it is the target")
    stairs = steps(score, joint, joint.sum(axis=0))
    if target_leakage is not None:
        target = scalar(target_leakage, "target_leakage", low=0.0, infinite=True)
        plain = _within(joint, score, stairs, target)
    else:
        plain = _reaching(joint, score, stairs, scalar(target_utility, "target_utility", low=0.0))
        target = plain.leakage
    if perturbation is None:
        return plain
    if isinstance(asked, CompleteMerging):
        return _built(joint, score, plain.epsilon, asked)
    return _most_useful(joint, score, stairs, plain, replace(asked, limit=max(target, plain.leakage)))


def compare(
    joint: Joint,
    *,
    epsilon: float | None = None,
    target_leakage: float | None = None,
    target_utility: float | None = None,
) -> dict[str, Watchdog]:
    """Three perturbations for the same choice: none leaks more than complete merging, or than the target.

    Keys are "complete merging", "subset merging" and "randomised response". Arguments and errors as
    for `watchdog`.
    """
    options = {"epsilon": epsilon, "target_leakage": target_leakage, "target_utility": target_utility}
    kinds = {
        "complete merging": CompleteMerging(),
        "subset merging": SubsetMerging(),
        "randomised response": RandomisedResponse(),
    }
    return {name: watchdog(joint, perturbation=kind, **options) for name, kind in kinds.items()}


def _built(joint: np.ndarray, score: np.ndarray, epsilon: float, asked: Perturbation) -> Watchdog:
    released, useful = score <= epsilon, joint.sum(axis=0)
    relevant = released & (useful > 0)
    leaking = float(score[relevant].max(initial=0.0))
    rest: Perturbed = perturbed(asked, joint, released, leaking)
    inside, outside = float(useful[released].sum()), float(useful[~released].sum())
    entropy = float(entr(useful).sum())
    utility = float(entr(useful[released]).sum()) + rest.utility
    return Watchdog(
        epsilon=float(epsilon),
        scores=score,
        released=released,
        released_mass=inside,
        leakage=max(leaking, rest.leakage),
        leakage_released=leaking,
        leakage_complement=rest.leakage,
        information=float(mutual_information(np.concatenate([joint[:, released], rest.outcomes], axis=1))),
        utility=min(max(utility, 0.0), entropy),
        entropy=entropy,
        bounds=bounds_of(epsilon, inside, outside) if isinstance(asked, CompleteMerging) else None,
        perturbation=asked,
        group=rest.group,
        keep=rest.keep,
        draw=rest.draw,
        joint=joint,
    )


def _within(joint: np.ndarray, score: np.ndarray, stairs: Staircase, target: float) -> Watchdog:
    """The last step whose leakage, computed anew, is at most the target; the first has but rounding to leak."""
    near = np.flatnonzero(stairs.leakage <= target + _NEAR)
    for step in near[near > 0][::-1]:
        plain = _built(joint, score, float(stairs.epsilon[step]), CompleteMerging())
        if plain.leakage <= target + _ROUNDING:
            return plain
    plain = _built(joint, score, 0.0, CompleteMerging())
    if not plain.leakage <= target + _ROUNDING:
        # Where masses below the last bit of the others decide: scores that are no zeros are rounded to zero.
        raise InfeasibleError(
            f"at eps = 0, where scores are zero to the last bit of the joint, {plain.leakage:.6g} nats leak; no X_eps "
            "is within target_leakage: leave out symbols with less than 1e-16 of the mass, or raise the target",
            {"target_leakage": target, "least": plain.leakage},
        )
    return plain


def _most_useful(
    joint: np.ndarray, score: np.ndarray, stairs: Staircase, plain: Watchdog, asked: SubsetMerging | RandomisedResponse
) -> Watchdog:
    """The most useful of several thresholds where complete merging is within the limit; that of `plain` is one."""
    limit = float("inf") if asked.limit is None else asked.limit
    within = stairs.epsilon[(stairs.leakage <= limit + _NEAR) & (stairs.epsilon != plain.epsilon)]
    work = joint.shape[0] * (joint.shape[1] ** 2 if isinstance(asked, SubsetMerging) else joint.shape[1])
    tried = min(len(within), int(min(_TRIED, _WORK // work)))
    places = np.unique(np.linspace(0, len(within) - 1, tried).round().astype(int)) if tried else []
    merged = [*(_built(joint, score, float(within[place]), CompleteMerging()) for place in places), plain]
    # The running sums of the staircase are rounded otherwise: what is within the limit is decided by the sums proper.
    epsilons = [dog.epsilon for dog in merged if dog.leakage <= limit]
    return max((_built(joint, score, epsilon, asked) for epsilon in epsilons), key=lambda dog: dog.utility)


def _reaching(joint: np.ndarray, score: np.ndarray, stairs: Staircase, target: float) -> Watchdog:
    """The step with the least leakage among those with the utility."""
    most = float(stairs.utility[-1])
    if not target <= most + _ROUNDING:
        raise InfeasibleError(
            f"target_utility is more than H(X) = {most:.6g} nats, and no mechanism has I(X;Y) > H(X)",
            {"target_utility": target, "entropy": most},
        )
    enough = np.flatnonzero(stairs.utility >= min(target, most))
    best = enough[::-1][np.argmin(stairs.leakage[enough[::-1]])]  # of equal leakage the most useful
    return _built(joint, score, float(stairs.epsilon[best]), CompleteMerging())


# Why a watchdog withholds symbols, and what would change that.


@dataclass(frozen=True)
class Cause:
    """What one private symbol s does: for the withheld symbols x whose score it attains.

    Attributes:
        private: s.
        symbols: how many x are withheld with max_s' |i(s',x)| attained at s.
        excluded: those of them where no record of x has s: the log-lift is -inf, whatever epsilon is.
        mass: P of the `symbols`.
        records: of s; None without counts.
        share_without: P of what would be released without s: by the same epsilon if s were not looked at (merged into
            another class, say), by the same target for the records of the other private symbols.
        records_needed: of each x, for a record of s to be expected in it with the confidence although P(s|x) is as
            small as epsilon (or the target) allows: below that, empty cells are no evidence about the population. None
            where epsilon is infinite or P(s) is zero.
        others: how many other private symbols have mass.
    """

    private: int
    symbols: int
    excluded: int
    mass: float
    records: int | None
    share_without: float
    records_needed: int | None
    others: int

    @property
    def sentence(self) -> str:
        """The cause in words; symbols are named by their index."""
        records = "" if self.records is None else f", which has {_counted(self.records)}"
        empty = f"; {self.excluded} of them in none of its records" if self.excluded else ""
        symbols = "1 symbol" if self.symbols == 1 else f"{self.symbols} symbols"
        text = (
            f"withheld: {symbols}, {self.mass:.2%} of the mass, because of private symbol {self.private} "
            f"(from 0){records}{empty}. "
        )
        if self.others < 2:  # merged into the other one, nothing private would be left
            return text + "A larger limit is needed, or coarser classes of the useful columns."
        text += f"Without that private symbol {self.share_without:.2%} of the mass would be released"
        if not self.share_without > 0:
            return text + ": the others withhold the same."
        text += ": merge it with another class"
        if self.excluded and self.records_needed is not None:
            text += (
                f", or take more records (an empty cell is evidence from {self.records_needed} records of a useful "
                "symbol on)"
            )
        return text + "."


def _counted(records: int) -> str:
    return "1 record" if records == 1 else f"{records} records"


def explain(
    watchdog: Watchdog,
    *,
    counts: ArrayLike | None = None,
    confidence: float = 0.95,
    target_leakage: float | None = None,
) -> tuple[Cause, ...]:
    """The causes of what is withheld, those with the largest mass first; empty if nothing with mass is.

    A score is the largest |ln P(s|x)/P(s)| over s: one rare private class withholds every x that none of its records
    has.

    Args:
        watchdog: what `watchdog` returned.
        counts: (S, X) records that the joint was counted from.
        confidence: of `records_needed`: ln(1 / (1 - confidence)) / (P(s) e^-epsilon) records of x.
        target_leakage: the target, if the watchdog was designed for one. Its epsilon is then a result: where nothing
            meets the target it is 0, and no symbol would be released by it without s either. The largest
            epsilon that a target allows is the target itself.

    Raises `InputError` for counts of another shape, a confidence outside of (0, 1) or a negative target.
    """
    level = failure(confidence, "confidence")
    most = watchdog.epsilon
    if target_leakage is not None:
        most = scalar(target_leakage, "target_leakage", low=0.0, infinite=True)
    joint = watchdog.joint
    if counts is not None and np.shape(counts) != joint.shape:
        raise InputError(f"counts has shape {np.shape(counts)}, the joint {joint.shape}")
    size = np.nan_to_num(np.abs(log_lift_of(joint)), nan=-1.0, posinf=np.inf)
    mass, prior = joint.sum(axis=0), joint.sum(axis=1)
    withheld = ~watchdog.released & (mass > 0)
    if not withheld.any():
        return ()
    worst = size.max(axis=0)
    causes = []
    for s in np.flatnonzero(prior > 0).tolist():
        caused = withheld & (size[s] == worst)
        if not caused.any():
            continue
        if target_leakage is None:
            without = (np.delete(size, s, axis=0).max(axis=0, initial=-1.0) <= most) & (mass > 0)
        else:
            without = _released_without(joint, s, most) & (mass > 0)
        causes.append(
            Cause(
                private=s,
                symbols=int(caused.sum()),
                excluded=int((caused & np.isinf(size[s])).sum()),
                mass=float(mass[caused].sum()),
                records=None if counts is None else int(np.asarray(counts)[s].sum()),
                share_without=min(float(mass[without].sum()), 1.0),
                records_needed=_needed(float(prior[s]), most, level),
                others=int(np.count_nonzero(prior > 0)) - 1,
            )
        )
    return tuple(sorted(causes, key=lambda cause: (-cause.mass, cause.private)))


def _released_without(joint: np.ndarray, s: int, target: float) -> np.ndarray:
    """What the target releases (X,) bool of the records of the other private symbols."""
    rest = np.delete(joint, s, axis=0)
    if np.count_nonzero(rest.any(axis=1)) < 2:  # one private symbol is no secret
        return np.ones(joint.shape[1], dtype=bool)
    return watchdog(rest / rest.sum(), target_leakage=target).released


def _needed(prior: float, epsilon: float, level: float) -> int | None:
    if math.isinf(epsilon):
        return None
    least = math.log(1.0 / (1.0 - level)) / prior * math.exp(min(epsilon, 700.0))
    return math.ceil(least) if least < 2.0**62 else None
