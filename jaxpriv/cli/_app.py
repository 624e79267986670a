"""How a command runs and ends: work that Ctrl-C ends, exit codes, one line on stderr; options of several numbers."""

import functools
import inspect
import logging
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import typer
from typer.core import TyperCommand, TyperGroup

from jaxpriv._runtime.importing import INTERRUPTED
from jaxpriv.cli._help import declared, files_of, in_panels
from jaxpriv.cli._options import filled_in
from jaxpriv.cli._output import check_outputs
from jaxpriv.errors import JaxprivError
from jaxpriv.verifier.__main__ import DEBUG, complain, explain
from jaxpriv.verifier.__main__ import EXAMPLE as VERIFIED

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter  # click's own in older releases

    from jaxpriv._runtime.clock import Clock

T = TypeVar("T")

# The examples at the end of every help text. They are run, one after another in one folder, by the tests.


_PROBLEM = (
    "python -c \"import numpy as np; np.savez('problem.npz', joint=[[.3, .15, .05], [.05, .15, .3]], "
    'distortion=1 - np.eye(3))"'
)
_PEOPLE = (
    "python -c \"print('income,age,town'); [print(f'{int(i * 7 % 10 < 3 + 2 * (i % 3))},{i % 3},{i % 2}') "
    'for i in range(600)]" > people.csv'
)
_STUDY = (
    "python -c \"print('name = \\'small\\'\\n[[grid]]\\njoint = [{ family = \\'correlated\\', private = 3, useful = 3, "
    "seed = 0, correlation = [0.3, 0.6] }]\\ndistortion = \\'hamming\\'\\nbudget_share = [0.2, 0.5]')\" > study.toml"
)
_MAPPING = "jaxpriv solve problem.npz --budget 0.2 --out mapping.npz"
_COLUMNS = "--private income --useful age --useful town"
_FIT = f"jaxpriv fit people.csv {_COLUMNS} --budget 0.2 --out design.zip"
_RELEASE = "jaxpriv release people.csv --design design.zip --out released.csv --receipt receipt.json"

# Lines of a shell: what is typed after a fresh start, in an empty folder.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "solve": (_PROBLEM, "jaxpriv solve problem.npz --budget 0.2 --out mapping.npz --json -"),
    "frontier": (_PROBLEM, "jaxpriv frontier problem.npz --count 12 --out curve.csv --picture curve.png"),
    "plot": (_PROBLEM, _MAPPING, "jaxpriv plot mapping.npz --out mapping.png"),
    "funnel": (_PROBLEM, "jaxpriv funnel problem.npz --disclosure 0.7 0.9"),
    "leakage": (_PROBLEM, _MAPPING, "jaxpriv leakage mapping.npz --joint problem.npz"),
    "sweep": (_STUDY, "jaxpriv sweep study.toml --out results"),
    "watchdog": (_PEOPLE, f"jaxpriv watchdog people.csv {_COLUMNS} --target-leakage 0.5"),
    "joint": (_PEOPLE, f"jaxpriv joint people.csv {_COLUMNS} --out counted.npz"),
    "advise": (_PEOPLE, f"jaxpriv advise people.csv {_COLUMNS}"),
    "fit": (_PEOPLE, _FIT),
    "release": (_PEOPLE, _FIT, _RELEASE),
    "verify": (_PEOPLE, _FIT, _RELEASE, *VERIFIED),
    "report": (_PEOPLE, _FIT, "jaxpriv report design.zip --out report.html"),
    "compare": (_PEOPLE, _FIT, _RELEASE, "jaxpriv compare people.csv released.csv --design design.zip"),
    "counts": (_PEOPLE, _FIT, _RELEASE, "jaxpriv counts released.csv --design design.zip"),
    "audit": (
        _PROBLEM,
        _MAPPING,
        "python -c \"import numpy as np; np.savez('counts.npz', counts=[[60, 30, 10], [10, 30, 60]])\"",
        "jaxpriv audit mapping.npz --counts counts.npz",
    ),
    "excess": (
        "python -c \"print('income,age,reported'); "
        "[print(f'{i % 2},{i % 3 + i % 2},{(i % 3 + i % 2 if i % 5 else i % 4)}') for i in range(600)]\" "
        "> reported.csv",
        "jaxpriv excess reported.csv --private income --useful age --released reported",
    ),
    "reproduce": ("jaxpriv reproduce --list", "jaxpriv reproduce gaussian_funnel --out gaussian"),
    "info": ("jaxpriv info",),
    "cache": ("jaxpriv cache",),
    "demo": ("jaxpriv demo --out demo --points 6",),
}


def text_of(command: str) -> str:
    """The last lines of a help text: the command at work, then the lines that make what it reads."""
    lines = EXAMPLES.get(command, ())
    own = [line for line in lines if line.startswith(f"jaxpriv {command}")]
    parts = {"Example": own, "What it reads, for a first try in an empty folder": [x for x in lines if x not in own]}
    return "".join(f"\n{title}:\n\n" + "".join(f"  {line}\n" for line in part) for title, part in parts.items() if part)


@runtime_checkable
class _UsageError(Protocol):
    """ClickException, whose module is click's in older releases of Typer and a private copy in newer ones."""

    exit_code: int

    def format_message(self) -> str: ...


class CommandGroup(TyperGroup):
    """The group of all commands; turns every exception into an exit code and one line."""

    def get_params(self, ctx: Any) -> list[Any]:
        return in_panels("", super().get_params(ctx))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: object,
    ) -> object:
        line = sys.argv[1:] if args is None else list(args)
        rest_of_line = [word for word in line if word != DEBUG]
        parent = super().main
        code = _exit_code(
            lambda: parent(
                rest_of_line or ["--help"],
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            ),
            debug=len(rest_of_line) < len(line),
        )
        if not standalone_mode:
            return code
        if unfinished():  # XLA cannot be stopped, and would crash an interpreter that is torn down under it
            sys.stderr.flush()
            os._exit(code)
        sys.exit(code)


class Command(TyperCommand):
    """A command whose repeatable options take several values in a row: `--budget 0.1 0.2`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return in_panels(self.name or "", super().get_params(ctx))

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        repeatable = {option for one in self.params if getattr(one, "multiple", False) for option in one.opts}
        return super().parse_args(ctx, _spread(args, repeatable))

    def invoke(self, ctx: typer.Context) -> object:
        """An error of the library names its arguments: here they are options."""
        try:
            return super().invoke(ctx)
        except JaxprivError as error:
            options = {str(one.name): one.opts[0] for one in self.params if one.opts[0].startswith("--")}
            error.args = (in_options(str(error), options), *error.args[1:])
            raise

    def format_help(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Lists of names come from the registry of measures: they are read when help is printed."""
        for one in self.params:
            text = filled_in(getattr(one, "help", None) or "")
            setattr(one, "help", text)  # noqa: B010 (options and arguments have it, their base class does not)
        super().format_help(ctx, formatter)
        formatter.write(text_of(self.name or ""))


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command for Typer, which has an option for each field of the parameters that are groups of options."""
    signature = inspect.signature(command)
    groups: dict[str, Any] = {
        one.name: one.annotation for one in signature.parameters.values() if is_dataclass(one.annotation)
    }

    @functools.wraps(command)
    def called(**given: object) -> None:
        check_outputs(*files_of(command.__name__, given))
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    flat = []
    for one in signature.parameters.values():
        own = fields(one.annotation) if one.name in groups else ()
        flat += [inspect.Parameter(f.name, one.KEYWORD_ONLY, default=f.default, annotation=f.type) for f in own]
        flat += [] if own else [one]
    flat = [declared(command.__name__, one) for one in flat]
    called.__signature__ = signature.replace(parameters=flat)  # pyright: ignore[reportAttributeAccessIssue]
    called.__annotations__ = {one.name: one.annotation for one in flat}
    return called


def in_options(message: str, options: Mapping[str, str]) -> str:
    """A message about arguments as one about options: names that are no plain words, the first word, `name` in
    backquotes, and NAME=VALUE where the value is that of an option; and measures by their names here."""
    registry = sys.modules.get("jaxpriv.leakage.registry")  # not imported: no message has a name of its classes
    for kind, name in registry.names_of_classes().items() if registry else ():
        message = re.sub(rf"(?<!['\w.]){kind}(\(\))?(?!['\w(])", name, message)
    for argument, option in options.items():
        message = re.sub(rf"(?<!['\w-]){argument}=(?:'([^']*)'|(?=[\d.]))", rf"{option} \1", message)
        message = message.replace(f"`{argument}`", option)
        start = r"(?<!['\w-])" if "_" in argument else "^"
        message = re.sub(rf"{start}{argument}(?!['\w=-]|[./]\w)", option, message)
    return message


def silence_backends() -> None:
    """Keep JAX's notes about accelerators, and Python's warnings, off the one line of stderr."""
    if DEBUG not in sys.argv:
        logging.getLogger("jax").setLevel(logging.ERROR)
        warnings.simplefilter("ignore")


def _spread(args: Sequence[str], repeatable: set[str]) -> list[str]:
    """`--budget 0.1 0.2` as `--budget 0.1 --budget 0.2`: further numbers belong to the option before them."""
    result: list[str] = []
    option, first = None, False
    for word in args:
        if option and not first and _is_number(word):
            result.append(option)
        elif not first:
            option = word.split("=")[0] if word.split("=")[0] in repeatable else None
        # The value that an option without "=" is waiting for.
        first = not first and word == option
        result.append(word)
    return result


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _exit_code(command: Callable[[], object], *, debug: bool) -> int:
    try:
        code = command()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        code, message = _explain(error)
        complain(message)
        return code
    if code == INTERRUPTED:  # where Typer caught the interrupt itself
        complain("interrupted; no output file was written")
    return code if isinstance(code, int) else 0


def _explain(error: Exception) -> tuple[int, str]:
    if isinstance(error, _UsageError):
        return error.exit_code, _in_short(error.format_message())
    if "RESOURCE_EXHAUSTED" in str(error) and not isinstance(error, JaxprivError):
        return 6, "the device ran out of memory; use a smaller problem or --solver mirror-descent"
    return explain(error)


def _in_short(message: str) -> str:
    """A message about a value of the line: the option and what it must be, in no words of the parser."""
    message = re.sub(r"^Invalid value for '([^']+)': (?:Value error, )?", r"\1: ", message)
    return re.sub(r"^(\S+): Input should be ([^,]+)(?:, .*)?$", r"\1 must be \2", message)


# Long work runs in a thread, so that Ctrl-C is heard while XLA computes; progress is shown on a terminal.

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
