"""The privacy funnel and the information bottleneck: the two envelopes of one function.

    funnel       minimise L(S->Y)  subject to  I(X;Y) >= R          (Makhdoumi et al. 2014, eq 4)
    bottleneck   maximise I(S;Y)   subject to  I(X;Y) <= R          (Tishby, Pereira and Bialek 1999)

over all mechanisms P(Y|X), S - X - Y. Both are neither convex nor concave in the mechanism. A mechanism is a
measure over posteriors q of X with mean P_X, and in that view each is a linear program.

Problems are pytrees. On the host everything is checked and computed in float64 and nats; what is traced is taken as it
is, and only the form with a multiplier can be solved there.
"""

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.divergences import entropy, information_interval
from jaxpriv._runtime.module import Module, Shown, summary
from jaxpriv._runtime.module.shown import nearest, numbers, sizes
from jaxpriv._runtime.numerics import xlogx
from jaxpriv._runtime.resources import MERGE, need_memory
from jaxpriv._runtime.types import Arr, ArrayInput, ScalarLike
from jaxpriv._runtime.validation import is_traced, joint_array, scalar
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.leakage import (
    AbstractAverageLeakage,
    AbstractPointwiseLeakage,
    AbstractWorstOutcomeLeakage,
    MutualInformation,
)

# Useful symbols of less mass than this in all are not part of the core: what they could disclose is less than what
# float64 keeps of the rest. (Proofs and measured numbers count them.)
_RARE = 1e-13
# Conditional distributions that agree to this many decimals are one symbol; what that may change is accounted for.
_DECIMALS = 14
# Tables of X x X numbers that measuring a release takes.
_TABLES = 4
# A target this close above its largest possible value, relative and in nats, is that value, rounded.
_ROUNDED, _ROUNDED_NATS = 1e-12, 1e-15


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
    def rare(self) -> float:
        """The mass of the useful symbols that the core leaves out."""
        left = np.ones(self.everything.shape[1], dtype=bool)
        left[self.useful] = False
        return float(self.everything[:, left].sum())


# By joint, while it exists, and whether rows are merged. Equinox reads the dictionary of a problem where it flattens
# one: kept there, this would make another tree of it.
_CORES: dict[tuple[int, bool], tuple[weakref.ref[np.ndarray], Core]] = {}


def core_of(joint: np.ndarray, *, merge: bool) -> Core:
    """Leave out the rarest useful symbols; with `merge`, add up private rows of one P(X|S=s).

    Merged rows keep their share of every posterior of S, so I(S;Y) does not change. (Measures such as a
    guessing probability do: they keep their rows.) Private symbols that only rare useful ones show join the first row.
    """
    masses = joint.sum(axis=0)
    order = np.argsort(masses, kind="stable")
    useful = np.sort(order[np.cumsum(masses[order]) > _RARE])
    of_useful = joint[:, useful]
    seen = of_useful.sum(axis=1) > 0
    total = of_useful.sum(axis=1, keepdims=True)
    conditional = of_useful / np.where(total > 0, total, 1.0)
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


def _prepared(joint: ArrayInput, given: Mapping[str, ScalarLike | None]) -> tuple[Arr, str, ScalarLike]:
    """(the joint, the name of the one target, its value)."""
    named = [(name, value) for name, value in given.items() if value is not None]
    if len(named) != 1:
        names = list(given)
        raise InputError(f"give exactly one of {', '.join(names[:-1])} and {names[-1]}")
    joint = joint_array(joint)
    useful = joint.shape[1]
    need_memory(
        8.0 * _TABLES * useful**2, f"joint: a mechanism of {useful} x {useful} symbols, and its measures,", MERGE
    )
    form, value = named[0]
    return joint, form, scalar(value, form, low=0.0)


def _reachable(form: str, target: float, largest: float, name: str) -> float:
    """`target`, or the largest value where it is that but for rounding."""
    if target > largest * (1 + _ROUNDED) + _ROUNDED_NATS:
        proof = {form: target, "largest": largest}
        shown, most = (f"{target:.6g}", f"{largest:.6g}")
        if shown == most:
            shown, most = (f"{target:.16g}", f"{largest:.16g}")
        raise InfeasibleError(
            f"{form} {shown} is above {name} = {most} nats, the most that any mechanism reaches", proof
        )
    return min(target, largest)


class _AbstractFunnelProblem(Module, Shown):
    """What both problems have: a joint and one target, the one field among `forms` that is not None."""

    forms: ClassVar[tuple[str, ...]]

    joint: Any  # (S, X): of NumPy on the host, of JAX in a trace

    @property
    def form(self) -> str:
        """The name of the target that was given."""
        return next(name for name in self.forms if getattr(self, name) is not None)

    @property
    def limits_leakage(self) -> bool:
        """Whether the target limits the leakage of S, from above or below, and the disclosure is the objective."""
        return self.form in ("leakage_budget", "relevance")

    @property
    def target(self) -> Any:  # noqa: ANN401 (a number of the host or of a trace)
        """Its value."""
        return getattr(self, self.form)

    @property
    def reduction(self) -> Core:
        """The joint that solvers get on the host, and what it lacks."""
        merge = isinstance(self.leakage, MutualInformation)
        place = id(self.joint), merge
        joint, core = _CORES.get(place, (None, None))
        if core is None or joint is None or joint() is not self.joint:
            core = core_of(self.joint, merge=merge)
            _CORES[place] = weakref.ref(self.joint, lambda _: _CORES.pop(place, None)), core
        return core

    @property
    def core(self) -> np.ndarray:
        """The joint of `reduction`, (S', X')."""
        return self.reduction.joint

    @property
    def useful(self) -> np.ndarray:
        """Which useful symbols its columns are, (X',)."""
        return self.reduction.useful

    @property
    def units(self) -> tuple[str, str]:
        """What the numbers of a value and of a leakage mean, in words: `FunnelSolution.units`."""
        unit, measured = self.leakage.named_unit
        priced = " (leakage less priced I(X;Y))" if self.form == "multiplier" else ""
        return "nats, I(X;Y)" if self.limits_leakage else unit + priced, measured

    def _shown(self) -> dict[str, str]:
        private, useful = self.joint.shape
        return {
            "leakage": f"{self.leakage.label} ({self.leakage.unit})",
            self.form.replace("_", " "): numbers(self.target, nearest),
            "symbols": sizes(S=private, X=useful),
        }


class FunnelProblem(_AbstractFunnelProblem):
    """Leak as little about S as possible while disclosing enough of X: the privacy funnel.

    Exactly one target (nats):
        disclosure R        minimise L(S->Y)              subject to I(X;Y) >= R
        equivocation D      the same with R = H(X) - D, or 0 if that is less: H(X|Y) <= D, the mean of the log-loss
                            -ln P(X|Y) (Makhdoumi et al. 2014, section III.B); values stay those of the disclosure form
        leakage_budget D    maximise I(X;Y)               subject to L(S->Y) <= D
        multiplier l        minimise L(S->Y) - l I(X;Y)   (Hsu et al. 2019, eq 10)

    Args:
        joint: P(S,X), shape (S, X), total one, or P(X), shape (X,), where X itself is private (S = X); symbols
            without mass are allowed.
        leakage: L, an average measure; mutual information by default. Global optima are proved for it; for measures of
            finitely many actions: `CorrectGuess`, `MinEntropyLeakage`, `GainLeakage`, `MaximalLeakage`,
            `AverageCostGain` of `ZeroOneLoss` or a `LossMatrix`, `FInformation` of `TotalVariation` or `EGamma`; and
            for smooth ones: `FInformation` of other divergences, `Sibson`, `Arimoto`, `AverageCostGain` of `BrierLoss`.
            Without a multiplier also `Lift`, `MaxLift`, `MinLift`, `InferentialPrivacy`, `LocalDifferentialPrivacy`
            without neighbours, `MaxInformation`, `RelativeEntropyPrivacy`, and `MaxCostGain` of `LogLoss` or
            `BrierLoss`: of up to about four private symbols. The least leakage is that of a constant Y, max_s p_s for
            a correct guess.

    Raises:
        InputError: an argument is wrong (by name): a target that is negative, NaN or infinite, none or two of them.
        InfeasibleError: R above H(X).
    """

    leakage: AbstractAverageLeakage | AbstractWorstOutcomeLeakage
    disclosure: Any = None
    leakage_budget: Any = None
    multiplier: Any = None

    forms: ClassVar[tuple[str, ...]] = ("disclosure", "leakage_budget", "multiplier")
    minimises_leakage: ClassVar[bool] = True

    __repr__ = summary

    def __init__(
        self,
        joint: ArrayInput,
        *,
        disclosure: ScalarLike | None = None,
        equivocation: ScalarLike | None = None,
        leakage_budget: ScalarLike | None = None,
        multiplier: ScalarLike | None = None,
        leakage: AbstractAverageLeakage | AbstractWorstOutcomeLeakage | None = None,
    ) -> None:
        self.leakage = MutualInformation() if leakage is None else leakage
        on_lifts = isinstance(self.leakage, AbstractPointwiseLeakage) and bool(self.leakage.lift_ends)
        limited = isinstance(self.leakage, AbstractWorstOutcomeLeakage) and (on_lifts or self.leakage.smooth)
        if not (limited or isinstance(self.leakage, AbstractAverageLeakage)):
            kind = type(self.leakage).__name__
            raise InputError(
                f"leakage must be an average measure, a smooth one of the worst outcome, or a limit on lifts without "
                f"neighbours, not {kind}"
            )
        if limited and multiplier is not None:
            raise InputError("multiplier is for average measures: give a `disclosure` or a `leakage_budget`")
        given = {
            "disclosure": disclosure,
            "equivocation": equivocation,
            "leakage_budget": leakage_budget,
            "multiplier": multiplier,
        }
        self.joint, form, target = _prepared(joint, given)
        if form == "equivocation":
            form, target = "disclosure", xp.maximum(-xlogx(self.joint.sum(axis=0)).sum() - target, 0.0)
        if form == "disclosure" and not is_traced(self.joint, target):
            target = _reachable(form, float(target), whole_entropy(self.joint), "H(X)")
        setattr(self, form, target)


class BottleneckProblem(_AbstractFunnelProblem):
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

    disclosure: Any = None
    relevance: Any = None
    multiplier: Any = None

    forms: ClassVar[tuple[str, ...]] = ("disclosure", "relevance", "multiplier")
    minimises_leakage: ClassVar[bool] = False

    __repr__ = summary

    def __init__(
        self,
        joint: ArrayInput,
        *,
        disclosure: ScalarLike | None = None,
        relevance: ScalarLike | None = None,
        multiplier: ScalarLike | None = None,
        beta: ScalarLike | None = None,
    ) -> None:
        given = {"disclosure": disclosure, "relevance": relevance, "multiplier": multiplier, "beta": beta}
        self.joint, form, target = _prepared(joint, given)
        if form == "beta":
            form, target = "multiplier", 1.0 / scalar(target, "beta", low=0.0, open_low=True)
        if form == "relevance" and not is_traced(self.joint, target):
            _, most, _ = information_interval(self.joint, np.eye(self.joint.shape[1]))
            target = _reachable(form, float(target), most, "I(S;X)")
        setattr(self, form, target)

    @property
    def leakage(self) -> MutualInformation:
        """The measure of the leakage of Y about S."""
        return MutualInformation()


# What most functions of `jaxpriv.funnels` take.
FunnelOrBottleneck: TypeAlias = FunnelProblem | BottleneckProblem
