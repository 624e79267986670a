"""The interface of a solver in the harness."""

import abc
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.cases import Case, Instance


class Unable(Exception):
    """The solver gave up on the case, for the reason in the message."""


@dataclass(frozen=True)
class Accuracy:
    """One rung of a solver's ladder: what its user would set, and a short name for it."""

    label: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One timed call.

    Attributes:
        candidate: what the case's objective can score.
        seconds: around the call that the solver's user makes.
        own_clock: the solver's own time, if it has a clock.
        compile_seconds: compiling within this call (not part of what is reported as its time).
        steps: iterations, if it counts them.
        values, bounds: proved by the solver's certificate, one each for every point (jaxpriv only).
    """

    candidate: Any
    seconds: float
    own_clock: float | None = None
    compile_seconds: float = 0.0
    steps: int | None = None
    values: tuple[float, ...] = ()
    bounds: tuple[float, ...] = ()


class Solver(abc.ABC):
    """A way to solve some of the cases. One object for each name of `--solvers`.

    Attributes:
        name: unique.
        timed: what its seconds contain, for the report.
        packages: what must be importable; absent ones make the solver unavailable, with that reason.
        compiles: whether a first call compiles, so that it never counts as a time.
    """

    name: str
    timed: str
    packages: tuple[str, ...] = ()
    compiles: bool = False

    def missing(self) -> str | None:
        """Why the solver cannot run in this environment, if so."""
        absent = [name for name in self.packages if importlib.util.find_spec(name) is None]
        return f"{', '.join(absent)} not installed" if absent else None

    @abc.abstractmethod
    def supports(self, case: Case) -> bool:
        """Whether it can be asked this case at all."""

    @abc.abstractmethod
    def ladder(self, targets: Sequence[float]) -> Sequence[Accuracy]:
        """Settings, loosest first, that should reach the certified gaps `targets`; the judge decides if they do."""

    @abc.abstractmethod
    def load(self) -> None:
        """Import what it needs (before memory is counted)."""

    @abc.abstractmethod
    def prepare(self, instance: Instance) -> Any:
        """State the problem in the solver's terms; reported as set-up."""

    @abc.abstractmethod
    def run(self, prepared: Any, accuracy: Accuracy) -> Run:
        """One call, as a user makes it, ready when it returns. Raises `Unable`."""


def by_tolerance(targets: Sequence[float], **settings: Any) -> list[Accuracy]:
    """The plain ladder: every target as `tol`."""
    return [Accuracy(f"{target:g}", {"tol": target, **settings}) for target in sorted(targets, reverse=True)]
