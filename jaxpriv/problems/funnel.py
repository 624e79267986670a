"""The privacy funnel and the information bottleneck: the two envelopes of one function.

    funnel       minimise L(S->Y)  subject to  I(X;Y) >= R          (Makhdoumi et al. 2014, eq 4)
    bottleneck   maximise I(S;Y)   subject to  I(X;Y) <= R          (Tishby, Pereira and Bialek 1999)

over all mechanisms P(Y|X), S - X - Y. Both are neither convex nor concave in the mechanism. A mechanism is a
measure over posteriors q of X with mean P_X, and in that view each is a linear program.

Everything here is checked and computed on the host, in float64 and nats.
"""

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._module import Shown, summary
from jaxpriv._module.shown import nearest, sizes
from jaxpriv._numerics import entropy, information_interval
from jaxpriv._resources import MERGE, need_memory
from jaxpriv._types import ScalarLike
from jaxpriv._validation import is_traced, joint_array, scalar
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.leakage import AbstractAverageLeakage, MutualInformation

# Useful symbols of less mass than this in all are not part of the core: what they could disclose is less than what
# float64 keeps of the rest. (Proofs and measured numbers count them.)
_RARE = 1e-13
# Conditional distributions that agree to this many decimals are one symbol; what that may change is accounted for.
_DECIMALS = 14
# Tables of X x X numbers that measuring a release takes.
_TABLES = 4
# A target this close above its largest possible value (relative) is that value, rounded.
_ROUNDED = 1e-12


@dataclass(frozen=True, eq=False)
class Core:
    """The joint that solvers get, and what it lacks.

    Attributes:
        joint: (S', X'), total one; every row and every column has mass.
        useful: (X',) which useful symbols the columns are.
        everything: (S', X) the same private symbols, merged, with all useful symbols; total one.
        lost: at most this many nats of I(S;Y) are invisible in `everything`: I(S;X) - I(S';X).
    """

    joint: np.ndarray
    useful: np.ndarray
    everything: np.ndarray
    lost: float

    @property
    def source(self) -> np.ndarray:
        """P_X, shape (X',)."""
        return self.joint.sum(axis=0)

    @property
    def prior(self) -> np.ndarray:
        """P_S, shape (S',)."""
        return self.joint.sum(axis=1)

    @property
    def conditional(self) -> np.ndarray:
        """T = P(S|X), shape (S', X'); columns sum to one."""
        return self.joint / self.source

    @property
    def rare(self) -> float:
        """The mass of the useful symbols that the core leaves out."""
        left = np.ones(self.everything.shape[1], dtype=bool)
        left[self.useful] = False
        return float(self.everything[:, left].sum())


def core_of(joint: np.ndarray, *, merge: bool) -> Core:
    """Leave out the rarest useful symbols; with `merge`, add up private rows of one P(X|S=s).

    Merged rows keep their share of every posterior of S, so I(S;Y) does not change. (Measures such as a
    guessing probability do: they keep their rows.) Private symbols that only rare useful ones show join the first row.
    """
    masses = joint.sum(axis=0)
    order = np.argsort(masses, kind="stable")
    useful = np.sort(order[np.cumsum(masses[order]) > _RARE])
    kept = joint[:, useful]
    seen = kept.sum(axis=1) > 0
    total = kept.sum(axis=1, keepdims=True)
    conditional = kept / np.where(total > 0, total, 1.0)
    group = np.zeros(len(joint), dtype=int)
    group[seen] = _classes(conditional[seen]) if merge else np.arange(int(seen.sum()))
    gather = np.zeros((int(group.max()) + 1, len(joint)))
    gather[group, np.arange(len(joint))] = 1.0
    everything = gather @ joint
    core = everything[:, useful]
    return Core(core / core.sum(), useful, everything, _lost(joint, everything, group))


def _classes(conditional: np.ndarray) -> np.ndarray:
    """Class numbers of rows that are equal but for rounding, in order of first appearance."""
    rounded = np.round(conditional, _DECIMALS) + 0.0  # + 0.0: no negative zeros
    _, first, group = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group.ravel()]


def _lost(joint: np.ndarray, merged: np.ndarray, group: np.ndarray) -> float:
    """I(S;X) - I(S';X) = sum_s p_s D( P(X|s) || P(X|class of s) ), rounded up."""
    if len(merged) == len(joint):
        return 0.0
    lost = 0.0
    for number in range(len(merged)):
        rows = joint[group == number]
        mass = float(rows.sum())
        if len(rows) > 1 and mass > 0:
            lost += mass * information_interval(rows / mass, np.eye(joint.shape[1]))[2]
    return lost


def whole_entropy(joint: np.ndarray) -> float:
    """H(X) of a joint (S, X) that may have symbols without mass."""
    masses = joint.sum(axis=0)
    return entropy(masses[masses > 0])


def _target(given: Mapping[str, ScalarLike | None]) -> tuple[str, float]:
    named = [(name, value) for name, value in given.items() if value is not None]
    if len(named) != 1:
        names = list(given)
        raise InputError(f"give exactly one of {', '.join(names[:-1])} and {names[-1]}")
    form, value = named[0]
    return form, float(scalar(value, form, low=0.0))


def _prepare(joint: ArrayLike, given: Mapping[str, ScalarLike | None]) -> tuple[np.ndarray, str, float]:
    if is_traced(joint, given):
        raise InputError("joint: funnel and bottleneck problems live on the host, outside of jit, vmap and grad")
    joint = joint_array(joint)
    useful = joint.shape[1]
    need_memory(
        8.0 * _TABLES * useful**2, f"joint: a mechanism of {useful} x {useful} symbols, and its measures,", MERGE
    )
    return joint, *_target(given)


def _reachable(form: str, target: float, largest: float, name: str) -> float:
    """`target`, or the largest value where it is that but for rounding."""
    if target > largest * (1 + _ROUNDED):
        proof = {form: target, "largest": largest}
        raise InfeasibleError(
            f"{form} {target:.6g} is above {name} = {largest:.6g} nats, the most that any mechanism reaches", proof
        )
    return min(target, largest)


@dataclass(frozen=True, eq=False)
class FunnelProblem(Shown):
    """Leak as little about S as possible while disclosing enough of X: the privacy funnel.

    Exactly one target (nats):
        disclosure R        minimise L(S->Y)              subject to I(X;Y) >= R
        leakage_budget D    maximise I(X;Y)               subject to L(S->Y) <= D
        multiplier l        minimise L(S->Y) - l I(X;Y)   (Hsu et al. 2019, eq 10)

    Args:
        joint: P(S,X), shape (S, X), total one, or P(X), shape (X,), where X itself is private (S = X); symbols
            without mass are allowed.
        leakage: L, an average measure; mutual information by default. Global optima are proved for it, and for the
            measures of finitely many actions: `CorrectGuess`, `MinEntropyLeakage`, `GainLeakage`, `MaximalLeakage`,
            `AverageCostGain` of `ZeroOneLoss` or a `LossMatrix`, `FInformation` of `TotalVariation` or `EGamma`
            (those with a logarithm not with a multiplier). The least leakage is then that of a constant Y, max_s p_s
            for a correct guess.

    Raises:
        InputError: an argument is wrong (by name): a target that is negative, NaN or infinite, none or two of them.
        InfeasibleError: R above H(X).
    """

    joint: np.ndarray
    disclosure: float | None = field(default=None, kw_only=True)
    leakage_budget: float | None = field(default=None, kw_only=True)
    multiplier: float | None = field(default=None, kw_only=True)
    leakage: AbstractAverageLeakage = field(default_factory=MutualInformation, kw_only=True)
    core: np.ndarray = field(init=False, repr=False)
    useful: np.ndarray = field(init=False, repr=False)
    reduction: Core = field(init=False, repr=False)
    form: str = field(init=False)
    target: float = field(init=False)

    __repr__ = summary

    def _shown(self) -> dict[str, str]:
        return _shown(self)

    minimises_leakage = True

    def __post_init__(self) -> None:
        if not isinstance(self.leakage, AbstractAverageLeakage):
            raise InputError(f"leakage must be an average measure, not {type(self.leakage).__name__}")
        given = {
            "disclosure": self.disclosure,
            "leakage_budget": self.leakage_budget,
            "multiplier": self.multiplier,
        }
        joint, form, target = _prepare(self.joint, given)
        reduction = core_of(joint, merge=isinstance(self.leakage, MutualInformation))
        if form == "disclosure":
            target = _reachable(form, target, whole_entropy(joint), "H(X)")
        _settle(self, joint, form, target, reduction)


@dataclass(frozen=True, eq=False)
class BottleneckProblem(Shown):
    """Disclose as much about S as possible while disclosing little of X: the information bottleneck.

    Exactly one target (nats):
        disclosure R    maximise I(S;Y)              subject to I(X;Y) <= R
        relevance D     minimise I(X;Y)              subject to I(S;Y) >= D
        multiplier l    maximise I(S;Y) - l I(X;Y)
        beta b          the same with l = 1/b, b > 0: minimise I(X;Y) - b I(S;Y), the usual Lagrangian with S as the
                        relevant variable; values stay those of the multiplier form

    Args:
        joint: P(S,X), shape (S, X), total one, or P(X), shape (X,), where X itself is private (S = X); symbols
            without mass are allowed.

    Raises:
        InputError: an argument is wrong (by name): a target that is negative, NaN or infinite, none or two of them.
        InfeasibleError: D above I(S;X).
    """

    joint: np.ndarray
    disclosure: float | None = field(default=None, kw_only=True)
    relevance: float | None = field(default=None, kw_only=True)
    multiplier: float | None = field(default=None, kw_only=True)
    beta: InitVar[float | None] = field(default=None, kw_only=True)
    core: np.ndarray = field(init=False, repr=False)
    useful: np.ndarray = field(init=False, repr=False)
    reduction: Core = field(init=False, repr=False)
    form: str = field(init=False)
    target: float = field(init=False)

    __repr__ = summary

    def _shown(self) -> dict[str, str]:
        return _shown(self)

    minimises_leakage = False

    def __post_init__(self, beta: float | None) -> None:
        given = {"disclosure": self.disclosure, "relevance": self.relevance, "multiplier": self.multiplier}
        joint, form, target = _prepare(self.joint, given | {"beta": beta})
        if form == "beta":
            form, target = "multiplier", 1.0 / float(scalar(target, "beta", low=0.0, open_low=True))
        reduction = core_of(joint, merge=True)
        if form == "relevance":
            _, most, _ = information_interval(joint, np.eye(joint.shape[1]))
            target = _reachable(form, target, most, "I(S;X)")
        _settle(self, joint, form, target, reduction)

    @property
    def leakage(self) -> MutualInformation:
        """The measure of the leakage of Y about S."""
        return MutualInformation()


def _shown(problem: FunnelProblem | BottleneckProblem) -> dict[str, str]:
    private, useful = problem.joint.shape
    return {
        "leakage": f"{problem.leakage.label} ({problem.leakage.unit})",
        problem.form.replace("_", " "): nearest(problem.target),
        "symbols": sizes(S=private, X=useful),
    }


def _settle(
    problem: FunnelProblem | BottleneckProblem, joint: np.ndarray, form: str, target: float, reduction: Core
) -> None:
    """Fill in the derived fields of a frozen problem."""
    values = {
        "joint": joint,
        form: target,
        "core": reduction.joint,
        "useful": reduction.useful,
        "reduction": reduction,
        "form": form,
        "target": target,
    }
    for name, value in values.items():
        object.__setattr__(problem, name, value)
