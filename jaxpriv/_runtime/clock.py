"""When a computation ends before its goal: a time limit, an interrupt from the keyboard; and reports of progress.

One `Clock` belongs to one call of a public function and is passed to every loop below it. A loop calls `expired()`
between two portions of its work and then ends with the best that it has.
"""

import enum
import signal
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from time import process_time
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from jaxpriv._runtime.progress import History, Progress
from jaxpriv._runtime.types import ScalarLike
from jaxpriv._runtime.validation import is_traced, scalar
from jaxpriv.errors import InputError

T = TypeVar("T")

# Programs that this process has compiled, as far as `Clock.allows` was asked for them.
_COMPILED: set[Hashable] = set()
# Less processor time than this does not show how many others share the processors.
_MEASURABLE = 0.05
# Seconds by which a portion of work may end after the time limit.
_LATE = 1.0
# Lines of `progress=True` are at least this many seconds apart.
_LINES = 0.5


class Stop(enum.IntEnum):
    """Why a solve ended before its goal."""

    NONE = 0
    TIME_LIMIT = 1
    INTERRUPTED = 2

    @property
    def message(self) -> str:
        """The words for it in a result; empty for NONE."""
        return _MESSAGES[self]


_MESSAGES = {
    Stop.NONE: "",
    Stop.TIME_LIMIT: "Stopped by the time limit before the goal was met. ",
    Stop.INTERRUPTED: "Stopped by an interrupt before the goal was met. ",
}


class ProgressRecord(Protocol):
    """What `Lines` prints: `Progress` of a solve, `SweepProgress` of a sweep."""

    @property
    def seconds(self) -> float:
        """Since the call began."""
        ...

    @property
    def done(self) -> int:
        """How many of `total` are done."""
        ...

    @property
    def total(self) -> int:
        """How many there are."""
        ...


# What a caller may give as `progress`: True (lines on stderr), a function, or nothing.
ProgressLike: TypeAlias = bool | Callable[[Progress], object] | None


class Clock:
    """The time limit, the interrupt and the progress function of one call.

    As a context (`with clock:`) in the main thread it replaces Python's default handler of SIGINT by one that notes
    the first Ctrl-C and raises KeyboardInterrupt at the second. A handler of the caller's own stays in place. Where no
    loop took notice of a Ctrl-C (the work was done already), KeyboardInterrupt is raised on leaving.

    Attributes:
        stop: why a loop ended early, NONE so far.
        stage: what is done at present, where the work has stages.
    """

    def __init__(self, time_limit: float | None = None, progress: Callable[[Progress], object] | None = None):
        self._begun, self._worked = time.perf_counter(), process_time()
        self._limit = None if time_limit is None or time_limit == float("inf") else time_limit
        self._progress = progress
        self._noted = threading.Event()
        self._installed = False
        self.stop = Stop.NONE
        self.stage = ""

    @property
    def watched(self) -> bool:
        """Whether somebody asked for a time limit or for reports: work is then done in portions, however short."""
        return self._limit is not None or self._progress is not None

    @property
    def reports(self) -> bool:
        """Whether there is a progress function."""
        return self._progress is not None

    @property
    def every(self) -> int | None:
        """After how many steps a record is asked for at the latest; None: the work decides."""
        return self._progress.every if isinstance(self._progress, History) else None

    @property
    def interrupted(self) -> bool:
        """Whether a Ctrl-C was noted."""
        return self._noted.is_set()

    @property
    def seconds(self) -> float:
        """Since the call began."""
        return time.perf_counter() - self._begun

    @property
    def left(self) -> float:
        """Seconds until the time limit, at least 0; infinite without one."""
        return float("inf") if self._limit is None else max(0.0, self._limit - self.seconds)

    def allows(self, seconds: float, program: Hashable) -> bool:
        """Whether `program` was compiled in this process, or can be before the time limit, and then is.

        A compiler cannot be interrupted. `seconds` is the processor time that it takes at most. By the clock it takes
        as much longer as the work since the call began did, because others share the processors.
        """
        if program not in _COMPILED:
            used = process_time() - self._worked
            slow = max(1.0, self.seconds / used) if used > _MEASURABLE else 1.0
            if self.left < seconds * slow:
                return False
            _COMPILED.add(program)
        return True

    @contextmanager
    def quiet(self) -> Iterator["Clock"]:
        """No reports meanwhile: for a part of the work whose numbers are not those of the whole."""
        progress, self._progress = self._progress, None
        try:
            yield self
        finally:
            self._progress = progress

    @contextmanager
    def share(self, part: float) -> Iterator["Clock"]:
        """No more than this share of the time that is left, for work that other work can follow."""
        limit = self._limit
        if limit is not None:
            self._limit = self.seconds + part * self.left
        try:
            yield self
        finally:
            self._limit = limit
            if self.stop is Stop.TIME_LIMIT and self.left > 0:
                self.stop = Stop.NONE

    def expired(self) -> bool:
        """Whether the work has to end here; `stop` is the reason from then on."""
        if self.stop is Stop.NONE:
            if self._noted.is_set():
                self.stop = Stop.INTERRUPTED
            elif self._limit is not None and self.seconds >= self._limit:
                self.stop = Stop.TIME_LIMIT
        return self.stop is not Stop.NONE

    def too_short_for(self, seconds: float) -> bool:
        """Whether work that cannot be interrupted, of so many seconds, would end a second or more after the time limit;
        `stop` is TIME_LIMIT then.
        """
        if self.stop is Stop.NONE and self._limit is not None and self.seconds + seconds >= self._limit + _LATE:
            self.stop = Stop.TIME_LIMIT
        return self.stop is not Stop.NONE

    def interrupt(self) -> None:
        """Note a Ctrl-C; KeyboardInterrupt at the second one."""
        if self._noted.is_set():
            raise KeyboardInterrupt
        self._noted.set()

    @contextmanager
    def held(self) -> Iterator[None]:
        """A KeyboardInterrupt raised inside, by a handler of the caller's own, counts as a Ctrl-C.

        What the body would have assigned is then not assigned: it goes around one portion of a loop.
        """
        try:
            yield
        except KeyboardInterrupt:
            self.interrupt()

    def report(
        self,
        solver: str,
        step: ScalarLike,
        value: ScalarLike,
        bound: ScalarLike,
        done: int = 0,
        total: int = 1,
        distortion: np.ndarray | None = None,
        length: float | None = None,
        mechanism: object = None,
    ) -> None:
        """Call the progress function, if there is one."""
        if self._progress is None:
            return
        if not (isinstance(self._progress, History) and self._progress.mechanisms):
            mechanism = None
        value, bound = float(value), float(bound)
        gap = abs(value - bound)
        numbers = (value, bound, gap, self.seconds, done, total, distortion, length, mechanism)
        record = Progress(solver, int(step), *numbers)
        with self.held():
            self._progress(record)

    def begin(self, stage: str) -> None:
        """Report a stage of the work that has no numbers of its own."""
        self.stage = stage
        self.report(stage, 0, float("inf"), -float("inf"))

    def __enter__(self) -> "Clock":
        main = threading.current_thread() is threading.main_thread()  # only that one may set handlers
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, lambda *_: self.interrupt())
            self._installed = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._installed:
            self._installed = False
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if kind is None and self._noted.is_set() and self.stop is not Stop.INTERRUPTED:
            raise KeyboardInterrupt


# For work without a time limit: never interrupted, since it is not entered as a context.
ENDLESS = Clock()


def clock_of(time_limit: float | None, progress: ProgressLike) -> Clock:
    """The clock of a call with these arguments; InputError names the one that is wrong."""
    if time_limit is not None:
        if is_traced(time_limit):
            raise InputError("time_limit must be a number of the host: there is no clock inside of jit and vmap")
        time_limit = scalar(time_limit, "time_limit", low=0.0, infinite=True)
    return Clock(time_limit, listener(progress, "jaxpriv.Progress"))


def listener(progress: bool | Callable[[T], object] | None, record: str) -> "Callable[[T], object] | Lines | None":
    """The function that the argument `progress` stands for; `record`: the name of what it is called with."""
    if progress is None or progress is False:
        return None
    if progress is True:
        return Lines()
    if not callable(progress):
        raise InputError(f"progress must be True (lines on stderr) or callable: progress(record), a {record}")
    return progress


class Lines:
    """Prints records on stderr, at most two a second, and always the last one (`done` equal to `total`).

    A record has `seconds`, `done`, `total` and a text of one line.
    """

    def __init__(self) -> None:
        self._last = -_LINES

    def __call__(self, record: ProgressRecord) -> None:
        if record.seconds - self._last >= _LINES or record.done == record.total:
            self._last = record.seconds
            print(f"jaxpriv: {record}", file=sys.stderr, flush=True)
