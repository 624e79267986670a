"""What `fit`, `fit_groups` and `advise` are asked for: one object each, which their keyword arguments make.

fit("people.csv", private="income", useful=["age"], budget=0.5)
fit("people.csv", FitRequest(private="income", useful=["age"], budget=0.5))     # the same
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from jaxpriv._runtime.clock import Clock, ProgressLike, clock_of
from jaxpriv._runtime.validation import by_column, flag, scalar
from jaxpriv.statistics.tables import Codebook, Rule, Source
from jaxpriv.statistics.tables.rules import Prices

P = ParamSpec("P")
R = TypeVar("R", contravariant=True)
T = TypeVar("T", covariant=True)
Names: TypeAlias = str | Sequence[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class TableRequest:
    """The columns of a table, their costs, and how the work is done: the arguments are described at `fit`."""

    private: Names = ()
    useful: Names = ()
    rules: Mapping[str, Rule | None] | None = None
    shared: Names = ()
    codebook: Codebook | None = None
    distortion: Prices | None = None
    weights: Prices | None = None
    split: float = 0.5
    seed: int = 0
    confidence: float = 0.95
    tol: float = 1e-6
    sparse: bool = False
    time_limit: float | None = None
    progress: ProgressLike = None

    def started(self) -> Clock:
        """The clock of the work, which begins now; `InputError` for rules, prices or a tolerance that are none."""
        for name in ("rules", "distortion", "weights"):
            by_column(getattr(self, name), name)
        flag(self.sparse, "sparse")
        scalar(self.tol, "tol", low=0.0, open_low=True)
        return clock_of(self.time_limit, self.progress)


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasureRequest(TableRequest):
    """The same, and a leakage measure."""

    leakage: str = "mutual-information"
    form: str | None = None
    order: float | None = None
    divergence: str | None = None
    gamma: float | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """Those of the measure, beside its name."""
        return {name: getattr(self, name) for name in ("form", "order", "divergence", "gamma")}


@dataclass(frozen=True, kw_only=True, eq=False)
class DesignRequest(TableRequest):
    """The same, a budget, and what the design states about later records."""

    budget: float | None = None
    leakage_budget: float | None = None
    unseen: str = "refuse"
    resolution: int = 32


# P could be any arguments, so for pyright the second overload takes every request that the first one does.
class Requested(Protocol[P, R, T]):  # pyright: ignore[reportInvalidTypeVarUse]
    """A function of a table and a request, or of the arguments that make one."""

    @overload
    def __call__(self, source: Source, request: R, /) -> T: ...
    @overload
    def __call__(self, source: Source, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def __call__(self, source: Source, *args: object, **kwargs: object) -> T: ...


def requested(kind: Callable[P, R]) -> Callable[[Callable[[Source, R], T]], Requested[P, R, T]]:
    """Let a function of a table and a request take the fields of the request as keyword arguments too."""

    def decorated(function: Callable[[Source, R], T]) -> Requested[P, R, T]:
        made: Any = kind

        @wraps(function)
        def called(source: Source, *given: R, **arguments: object) -> T:
            (request,) = given or [made(**arguments)]
            return function(source, request)

        first, _ = inspect.signature(function).parameters.values()
        rest = [
            inspect.Parameter(f.name, first.KEYWORD_ONLY, default=f.default, annotation=f.type) for f in fields(made)
        ]
        shown: Any = called
        shown.__signature__ = inspect.signature(function).replace(parameters=[first, *rest])
        return shown

    return decorated
