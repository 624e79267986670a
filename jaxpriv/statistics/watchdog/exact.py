"""The watchdog of a joint, by a threshold or a target, with what is exact about it."""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import entr

from jaxpriv import leakage
from jaxpriv._runtime.importing import renamed
from jaxpriv._runtime.module import Shown, summary
from jaxpriv._runtime.module.shown import nearest
from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.types import Joint
from jaxpriv._runtime.validation import scalar
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.statistics.audit._information import mutual_information
from jaxpriv.statistics.watchdog.bounds import Bounds, bounds_of
from jaxpriv.statistics.watchdog.perturbation import (
    CompleteMerging,
    Perturbation,
    Perturbed,
    RandomisedResponse,
    SubsetMerging,
    perturbed,
)
from jaxpriv.statistics.watchdog.scoring import host_joint, log_lift_of, need_one, scores_of
from jaxpriv.statistics.watchdog.thresholds import Staircase, steps
from jaxpriv.verifier.logarithms import lower, upper

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
