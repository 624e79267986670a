"""Long work runs in a thread, so that Ctrl-C is heard while XLA computes; progress is shown on a terminal."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from jaxpriv._runtime.clock import Clock

T = TypeVar("T")

_TURN = 0.1  # seconds: how often a waiting main thread looks for an interrupt
_threads: list[threading.Thread] = []


def unfinished() -> bool:
    """Whether work that was given up (an interrupt) still runs."""
    return any(thread.is_alive() for thread in _threads)


@contextmanager
def _noted_interrupt(clock: "Clock | None") -> Iterator[threading.Event]:
    """Set by Ctrl-C; with a clock by the second one, while the first one makes the work end after its step.

    An exception raised by the signal itself is lost where Python ignores exceptions (finalisers, the callbacks of the
    garbage collector, of which JAX has one); a note is not.
    """
    noted = threading.Event()

    def note(*_: object) -> None:
        if clock is None or clock.interrupted:
            noted.set()
        else:
            clock.interrupt()

    if threading.current_thread() is not threading.main_thread():  # only that one may set handlers
        yield noted
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def working(what: str, work: Callable[[Callable[[int, int], None]], T], clock: "Clock | None" = None) -> T:
    """The result of `work(report)`; `report(done, total)` moves the bar.

    With `clock`, which the work reads between its steps, the first Ctrl-C makes it return what it has.

    Python hears a signal only between two instructions of its main thread, and one instruction of
    JAX can take minutes: so the main thread waits here, and the work runs beside it.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    outcome: Future[T] = Future()
    lines = clock is not None and clock.reports
    # Control characters go to a terminal only; stdout is left to the results.
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty() or lines)
    with _noted_interrupt(clock) as interrupt, bar as progress:
        task = progress.add_task(what, total=None)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        def run() -> None:
            try:
                outcome.set_result(work(report))
            except BaseException as error:
                outcome.set_exception(error)

        thread = threading.Thread(target=run, daemon=True)
        _threads[:] = [thread]
        thread.start()
        # Not one long wait: a signal that the system gave to another thread is seen at the next turn.
        while not wait([outcome], timeout=_TURN).done:
            if interrupt.is_set():
                raise KeyboardInterrupt
            if clock is not None and clock.stage:
                progress.update(task, description=f"{what}: {clock.stage}")
            if clock is not None and clock.interrupted:
                progress.update(task, description="Stopping (Ctrl-C again: at once)")
        thread.join()
        return outcome.result()
