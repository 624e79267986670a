"""The privacy funnel and the information bottleneck: the two envelopes of one function.

    funnel       minimise L(S->Y)  subject to  I(X;Y) >= R          (Makhdoumi et al. 2014, eq 4)
    bottleneck   maximise I(S;Y)   subject to  I(X;Y) <= R          (Tishby, Pereira and Bialek 1999)

over all mechanisms P(Y|X), S - X - Y. Both are neither convex nor concave in the mechanism. A mechanism is a
measure over posteriors q of X with mean P_X, and in that view each is a linear program.

Everything here is checked and computed on the host, in float64 and nats.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxpriv._divergence import entropy, information_interval
from jaxpriv._validation import is_traced, joint_array, scalar
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.leakage import AbstractAverageLeakage, MutualInformation

# To the sums of this package a symbol of less mass is absent.
_NEGLIGIBLE = 1e-100
# Conditional distributions that agree to this many decimals are one symbol; what that may change is accounted for.
_DECIMALS = 14
# A target this close above its largest possible value (relative) is that value, rounded.
_ROUNDED = 1e-12


@dataclass(frozen=True)
class Core:
    """The joint that solvers see, and what it lacks.

    Attributes:
        joint: (S', X'), every row and every column has mass.
        useful: (X',) which useful symbols the columns are.
        lost: at most this many nats of I(S;Y) are invisible in the core: I(S;X) - I(S';X) of merged rows.
    """

    joint: np.ndarray
    useful: np.ndarray
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


def core_of(joint: np.ndarray, *, merge: bool) -> Core:
    """Drop symbols without mass; with `merge`, add up private rows of one P(X|S=s).

    Merged rows keep their share of every posterior of S, so I(S;Y) does not change. (Measures such as a
    guessing probability do: they keep their rows.)
    """
    seen = joint.sum(axis=1) > _NEGLIGIBLE
    useful = np.flatnonzero(joint[seen].sum(axis=0) > _NEGLIGIBLE)
    kept = joint[np.ix_(np.flatnonzero(seen), useful)]
    kept = kept / kept.sum()
    if not merge:
        return Core(kept, useful, 0.0)
    conditional = kept / kept.sum(axis=1, keepdims=True)
    _, first, group = np.unique(np.round(conditional, _DECIMALS), axis=0, return_index=True, return_inverse=True)
    if len(first) == len(kept):
        return Core(kept, useful, 0.0)
    order = np.argsort(np.argsort(first))  # classes in order of first appearance
    gather = np.zeros((len(first), len(kept)))
    gather[order[group.ravel()], np.arange(len(kept))] = 1.0
    merged = gather @ kept
    expected = (merged / merged.sum(axis=1, keepdims=True))[order[group.ravel()]]
    weight = kept.sum(axis=1, keepdims=True) * expected
    ratio = np.divide(conditional, expected, out=np.ones_like(expected), where=expected > 0)
    # D >= 0 of rows equal up to rounding: each term t ln t - t + 1 is at most (t - 1)^2.
    lost = float((weight * (ratio - 1.0) ** 2).sum()) * (1 + 1e-6)
    return Core(merged, useful, lost)


def _target(given: dict[str, Any]) -> tuple[str, float]:
    named = [(name, value) for name, value in given.items() if value is not None]
    if len(named) != 1:
        names = list(given)
        raise InputError(f"give exactly one of {', '.join(names[:-1])} and {names[-1]}")
    form, value = named[0]
    return form, float(scalar(value, form, low=0.0))


def _prepare(joint: Any, given: dict[str, Any]) -> tuple[np.ndarray, str, float]:
    if is_traced(joint, given):
        raise InputError("joint: funnel and bottleneck problems live on the host, outside of jit, vmap and grad")
    return joint_array(joint), *_target(given)


def _reachable(form: str, target: float, largest: float, name: str) -> float:
    """`target`, or the largest value where it is that but for rounding."""
    if target > largest * (1 + _ROUNDED):
        proof = {form: target, "largest": largest}
        raise InfeasibleError(f"{form} is above {name}, the most that any mechanism reaches", proof)
    return min(target, largest)


@dataclass(frozen=True, eq=False)
class FunnelProblem:
    """Release as little about S as possible while telling enough about X: the privacy funnel.

    Exactly one target (nats):
        disclosure R        minimise L(S->Y)              subject to I(X;Y) >= R
        leakage_budget D    maximise I(X;Y)               subject to L(S->Y) <= D
        multiplier l        minimise L(S->Y) - l I(X;Y)   (Hsu et al. 2019, eq 10)

    Args:
        joint: P(S,X), shape (S, X), total one; symbols without mass are allowed.
        leakage: L, an average measure; mutual information by default.

    Raises:
        InputError: an argument is wrong (by name): a target that is negative, NaN or infinite, none or two of them.
        InfeasibleError: R above H(X).
    """

    joint: Any
    disclosure: Any = field(default=None, kw_only=True)
    leakage_budget: Any = field(default=None, kw_only=True)
    multiplier: Any = field(default=None, kw_only=True)
    leakage: Any = field(default_factory=MutualInformation, kw_only=True)
    core: np.ndarray = field(init=False, repr=False)
    useful: np.ndarray = field(init=False, repr=False)
    reduction: Core = field(init=False, repr=False)
    form: str = field(init=False)
    target: float = field(init=False)

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
            target = _reachable(form, target, entropy(reduction.source), "H(X)")
        _settle(self, joint, form, target, reduction)


@dataclass(frozen=True, eq=False)
class BottleneckProblem:
    """Tell as much about S as possible while telling little about X: the information bottleneck.

    Exactly one target (nats):
        disclosure R    maximise I(S;Y)              subject to I(X;Y) <= R
        relevance D     minimise I(X;Y)              subject to I(S;Y) >= D
        multiplier l    maximise I(S;Y) - l I(X;Y)

    Args:
        joint: P(S,X), shape (S, X), total one; symbols without mass are allowed.

    Raises:
        InputError: an argument is wrong (by name): a target that is negative, NaN or infinite, none or two of them.
        InfeasibleError: D above I(S;X).
    """

    joint: Any
    disclosure: Any = field(default=None, kw_only=True)
    relevance: Any = field(default=None, kw_only=True)
    multiplier: Any = field(default=None, kw_only=True)
    core: np.ndarray = field(init=False, repr=False)
    useful: np.ndarray = field(init=False, repr=False)
    reduction: Core = field(init=False, repr=False)
    form: str = field(init=False)
    target: float = field(init=False)

    minimises_leakage = False

    def __post_init__(self) -> None:
        given = {"disclosure": self.disclosure, "relevance": self.relevance, "multiplier": self.multiplier}
        joint, form, target = _prepare(self.joint, given)
        reduction = core_of(joint, merge=True)
        if form == "relevance":
            _, most, _ = information_interval(reduction.joint, np.eye(reduction.joint.shape[1]))
            target = _reachable(form, target, most, "I(S;X)")
        _settle(self, joint, form, target, reduction)

    @property
    def leakage(self) -> MutualInformation:
        """The measure of what Y tells about S."""
        return MutualInformation()


def _settle(problem: Any, joint: np.ndarray, form: str, target: float, reduction: Core) -> None:
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
