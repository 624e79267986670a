"""Options of the commands that solve: the leakage measure by its name, and when a solve ends."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import jaxpriv as jp
from jaxpriv._runtime.near import near
from jaxpriv.cli import _complete, _output
from jaxpriv.errors import InputError
from jaxpriv.verifier.claims import MEASURES, Measure

if TYPE_CHECKING:
    import numpy as np

    from jaxpriv._runtime.clock import Clock
    from jaxpriv.solving.choice import Request

T = TypeVar("T")
# Arrays by their names in a file.
Arrays: TypeAlias = "Mapping[str, np.ndarray]"


def filled_in(text: str) -> str:
    """A help text with the names that measures have entered for {measures}, {order} and {divergences}."""
    if not any(place in text for place in ("{measures}", "{order}", "{divergences}")):
        return text
    from jaxpriv.leakage import DIVERGENCES, NAMES
    from jaxpriv.leakage.registry import names_with

    lists = {"measures": tuple(NAMES), "order": names_with("order"), "divergences": DIVERGENCES}
    for key, names in lists.items():
        text = text.replace(f"{{{key}}}", f"{', '.join(names[:-1])} or {names[-1]}")
    return text


class MeasureForm(StrEnum):
    """How a measure combines the outcomes."""

    average = "average"
    worst = "worst"


@dataclass(frozen=True)
class MeasureOption:
    """A measure as an option of the command line states it; `value` is its limit, `beta` a further parameter of it."""

    option: str
    stated: Measure
    value: float = 0.0
    beta: float | None = None

    def check_stated(self) -> None:
        """Refuse, before JAX is imported, a measure that no design can state."""
        name = self.stated.name
        if name not in MEASURES:
            listed = ", ".join(MEASURES)
            raise InputError(f"{self.option}: {name!r} is no measure; known: {listed}{near(name, MEASURES)}")
        if self.stated.fault is not None:
            self.measure({})  # the message that names the parameter

    def measure(self, arrays: Arrays) -> "jp.leakage.AbstractLeakage":
        """The measure, with the `neighbours` or `scales` of the file where it takes them; an `InputError` names the
        option."""
        from jaxpriv.leakage.registry import names_with

        name = self.stated.name
        scaled = {"ldp": jp.leakage.MetricPrivacy, "max-lift": jp.leakage.SymbolMaxLift}
        try:
            related = arrays.get("neighbours") if name in names_with("neighbours") else None
            if "scales" in arrays and name in scaled:
                if related is not None:
                    raise InputError("give scales without neighbours; pairs that are not compared have the scale inf")
                return scaled[name](arrays["scales"])
            return jp.leakage.by_name(**vars(self.stated), beta=self.beta, neighbours=related)
        except InputError as error:
            message = re.sub(r"(^|\b(?:needs|takes|takes no) )(order|divergence|gamma)\b", r"\1--\2", str(error))
            if re.search(r"\bform\b", message):  # not f-information
                message = f"--form: {message}"
            raise InputError(f"{self.option} {name}: {message}") from error


@dataclass(frozen=True)
class LeakageOptions:
    """The options that name the measure of a problem."""

    leakage: str = "mutual-information"
    order: float | None = None
    divergence: str | None = None
    gamma: float | None = None
    # An option of some commands, below.
    form = None

    @property
    def option(self) -> MeasureOption:
        """The measure that they name."""
        form = None if self.form is None else str(self.form)
        return MeasureOption("--leakage", Measure(self.leakage, form, self.order, self.divergence, self.gamma))


@dataclass(frozen=True)
class FormOptions(LeakageOptions):
    """The same, and how the measure combines the outcomes."""

    form: MeasureForm | None = None


@dataclass(frozen=True)
class TimeOptions:
    """When the work ends, and what it prints until then."""

    tol: float = 1e-6
    time_limit: float | None = None
    progress: bool = False
    # An option of some commands, below.
    max_steps = None

    def check(self) -> None:
        """Refuse, before a file is read, numbers that no solve takes."""
        from jaxpriv._runtime.validation import scalar, whole

        scalar(self.tol, "--tol", low=0.0, open_low=True)
        if self.max_steps is not None:
            whole(self.max_steps, "--max-steps", low=1.0)
        if self.time_limit is not None:
            scalar(self.time_limit, "--time-limit", low=0.0)

    def clock(self) -> "Clock":
        """The clock of the solve, which begins now."""
        from jaxpriv._runtime.clock import clock_of

        return clock_of(self.time_limit, self.progress)


@dataclass(frozen=True)
class RunOptions(TimeOptions):
    """The same, and how many steps a solver may take."""

    max_steps: int | None = None

    def request(self, solver: str, rtol: float = 0.0, **further: Any) -> "Request":  # noqa: ANN401 (fields of it)
        """How a problem is solved; the clock begins now."""
        from jaxpriv.solvers import Goal
        from jaxpriv.solving.choice import Request

        return Request(self.clock(), Goal(self.tol, rtol), solver, self.max_steps, **further)


def known_solver(name: str, funnel: bool = False, kind: str = "solver") -> None:
    """Refuse a solver (or method) that there is none of, with those that there are."""
    names = _complete.methods() if funnel else _complete.solvers()
    if name not in names:
        raise InputError(f"--{kind} {name!r} is not a {kind}'s name; known: {', '.join(names)}{near(name, names)}")


def measures_of(measure: LeakageOptions, limit: list[str] | None) -> list[MeasureOption]:
    """The measure that is minimised, then those of --limit; refused where there is no such measure."""
    measure.option.measure({})
    return [measure.option, *map(parsed_limit, limit or ())]


def parsed_limit(text: str) -> MeasureOption:
    """`NAME[:PARAMETER...]=VALUE`; a parameter is a form, a divergence or a number (order, or gamma)."""
    from jaxpriv._runtime.validation import scalar

    option = f"--limit {text!r}"
    name, _, number = text.rpartition("=")
    try:
        value = float(number) if name else None
    except ValueError:
        value = None
    if value is None:
        raise InputError(f"{option} is not NAME[:PARAMETER]=VALUE, as in lift=1 or sibson:2=0.3")
    scalar(value, option, low=0.0, infinite=True)
    try:
        parameters = jp.leakage.parameters_of(name)
    except InputError as error:
        raise InputError(f"--limit {name}: {error} (write NAME:PARAMETER=VALUE, as in sibson:2=0.3)") from error
    beta = parameters.pop("beta", None)
    return MeasureOption("--limit", Measure(**parameters), value, beta)


def distortion_problem(
    arrays: Arrays,
    measures: list[MeasureOption],
    **targets: Any,  # noqa: ANN401 (numbers, or lists of them)
) -> "jp.DistortionProblem":
    """The problem of a joint, a distortion, and measures as `measures_of` gives them; a mechanism of it has a row more
    with a limit on maximal alpha-leakage."""
    leakage, *limited = [measure.measure(arrays) for measure in measures]
    limits: list[Any] = []
    of_every_prior: list[Any] = []
    for given, measure in zip(measures[1:], limited, strict=True):
        alone = given.stated.name == "maximal-alpha-leakage" and not measure.designable
        (of_every_prior if alone else limits).append((measure, given.value))
    if len(of_every_prior) > 1:
        raise InputError("--limit: give one limit on maximal-alpha-leakage")
    data, form = (arrays["joint"], arrays["distortion"]), {**targets, "leakage": leakage, "limits": limits}
    if of_every_prior:
        return jp.with_maximal_alpha(*data, *of_every_prior[0], **form)
    return jp.DistortionProblem(*data, **form)


def funnel_problem(
    arrays: Arrays,
    measure: MeasureOption,
    bottleneck: bool,
    **target: Any,  # noqa: ANN401 (one number)
) -> "jp.FunnelProblem | jp.BottleneckProblem":
    """The funnel or bottleneck of a joint at one target; a bottleneck is about mutual information only."""
    if not bottleneck:
        leakage: Any = measure.measure(arrays)
        return jp.FunnelProblem(arrays["joint"], leakage=leakage, **target)
    if measure.stated.certified_as != "mutual-information":
        raise InputError("--leakage: a bottleneck is about mutual information only")
    return jp.BottleneckProblem(arrays["joint"], **target)


def near_marginal(arrays: Arrays, stated: "jp.DistortionProblem", limit: str) -> "jp.DistortionProblem":
    """The problem with P_Y within a total variation, `DIVERGENCE=` or `transport=` of P(X) or the file's marginal."""
    from jaxpriv._runtime.validation import scalar

    name, _, number = limit.rpartition("=")
    try:
        within = float(number)
    except ValueError:
        raise InputError(f"--marginal {limit!r} must be V or DIVERGENCE=V, such as 0.02 or kl=0.01") from None
    scalar(within, "--marginal", low=0.0)
    joint = arrays["joint"]
    if stated.budget is None or joint.ndim != 2 or stated.shape[0] > joint.shape[1]:
        raise InputError("--marginal goes with --budget and one joint (S,X), without --limit maximal-alpha-leakage")
    divergence = cost = None
    if name == "transport":
        if "cost" not in arrays:
            raise InputError(f"--marginal {limit!r} needs `cost` (Y,Y) in PROBLEM.npz")
        cost = arrays["cost"]
    elif name not in ("", "total-variation"):
        try:
            divergence = jp.leakage.by_name("f-information", divergence=name).divergence
        except InputError as error:
            raise InputError(f"--marginal {limit!r}: {error}") from error
    target = arrays.get("marginal", joint.sum(axis=0))
    given = {"budget": stated.budget, "leakage": stated.leakage, "limits": stated.limits}
    return jp.with_marginal(joint, stated.distortions, target, within=within, cost=cost, divergence=divergence, **given)


class Unseen(StrEnum):
    """What a record comes to whose classes combine as in no record of the fit."""

    refuse = "refuse"
    suppress = "suppress"
    nearest = "nearest"


def checked_targets(form: str, values: Sequence[float] | None, low: float = -math.inf) -> list[float]:
    """The values of the option of a target, each checked by option and position."""
    from jaxpriv._runtime.validation import scalar

    numbers = list(values or ())
    for position, value in enumerate(numbers):
        option = f"--{form.replace('_', '-')}"
        scalar(value, option if len(numbers) == 1 else f"{option}[{position}]", low=low)
    return numbers


@dataclass(frozen=True)
class SplitOptions:
    """Which records a design is made of and which it is audited on, and with which confidence."""

    split: float = 0.5
    seed: int = 0
    confidence: float = 0.95

    def check_split(self) -> None:
        """Refuse what is about records that are held out, where none are."""
        if self.split == 1:
            _output.refuse(
                "is about held-out records; --split 1 holds out none", **changed_of(self, "seed", "confidence")
            )


@dataclass(frozen=True)
class TargetOptions:
    """The target of a design: one of them."""

    budget: float | None = None
    leakage_budget: float | None = None
    disclosure: float | None = None
    target_leakage: float | None = None


@dataclass(frozen=True)
class DesignOptions(SplitOptions):
    """What is asked of a design beside its target and its measure."""

    leakage_tolerance: float | None = None
    alone: float | None = None
    marginal: float | None = None
    population: bool = False
    unseen: Unseen = Unseen.refuse
    resolution: int = 32


def given_of(options: object) -> dict[str, Any]:
    """The options of a group that were given, as arguments of the library, which have the same names."""
    return {
        name: str(value) if isinstance(value, StrEnum) else value
        for name, value in vars(options).items()
        if value is not None
    }


def changed_of(options: Any, *names: str) -> dict[str, object]:  # noqa: ANN401 (a group of options)
    """Those of these options of a group whose values are not the defaults."""
    usual = {option.name: option.default for option in fields(options)}
    return {name: value for name in names if (value := getattr(options, name)) != usual[name]}


def request_of(kind: Callable[..., T], given: Mapping[str, object]) -> T:
    """A request of the library, whose fields have the names of options; other options are left out."""
    made: Any = kind
    names = [option.name for option in fields(made) if option.name in given]
    return kind(**{name: str(given[name]) if isinstance(given[name], StrEnum) else given[name] for name in names})
