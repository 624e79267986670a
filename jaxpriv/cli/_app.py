"""How a line is read and how a command ends: options of several numbers, exit codes, one line on stderr."""

import functools
import inspect
import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import typer
from typer.core import TyperCommand, TyperGroup

from jaxpriv._runtime.importing import INTERRUPTED
from jaxpriv.cli._commands import text_of
from jaxpriv.cli._help import declared, files_of, in_panels
from jaxpriv.cli._options import filled_in
from jaxpriv.cli._output import check_outputs
from jaxpriv.cli._work import unfinished
from jaxpriv.errors import JaxprivError
from jaxpriv.verifier.__main__ import DEBUG, complain, explain, in_options

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter  # click's own in older releases


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
        repeatable = {
            option for parameter in self.params if getattr(parameter, "multiple", False) for option in parameter.opts
        }
        return super().parse_args(ctx, _spread(args, repeatable))

    def invoke(self, ctx: typer.Context) -> object:
        """An error of the library names its arguments: here they are options."""
        try:
            return super().invoke(ctx)
        except JaxprivError as error:
            options = {
                str(parameter.name): parameter.opts[0]
                for parameter in self.params
                if parameter.opts[0].startswith("--")
            }
            # What may be given several times has a plural in Python; the weights of records are one column.
            options |= {
                f"{parameter.name}s": parameter.opts[0]
                for parameter in self.params
                if getattr(parameter, "multiple", False)
            }
            if "survey_weight" in options:
                options["weights"] = options["survey_weight"]
            if not (ctx.params.get("distortion") or ctx.params.get("weight")):
                options.pop("distortion", None)  # the message is about an array of the file
            error.args = (in_words(str(error), options), *error.args[1:])
            raise

    def format_help(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Lists of names come from the registry of measures: they are read when help is printed."""
        for parameter in self.params:
            text = filled_in(getattr(parameter, "help", None) or "")
            setattr(parameter, "help", text)  # noqa: B010 (options and arguments have it, their base class does not)
        super().format_help(ctx, formatter)
        formatter.write(text_of(self.name or ""))


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command for Typer, which has an option for each field of the parameters that are groups of options."""
    signature = inspect.signature(command)
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if is_dataclass(parameter.annotation)
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
    for parameter in signature.parameters.values():
        grouped = fields(parameter.annotation) if parameter.name in groups else ()
        flat += [
            inspect.Parameter(f.name, parameter.KEYWORD_ONLY, default=f.default, annotation=f.type) for f in grouped
        ]
        flat += [] if grouped else [parameter]
    flat = [declared(command.__name__, parameter) for parameter in flat]
    called.__signature__ = signature.replace(parameters=flat)  # pyright: ignore[reportAttributeAccessIssue]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return called


def in_words(message: str, options: Mapping[str, str]) -> str:
    """A message about arguments as one about options, and measures by their names here."""
    registry = sys.modules.get("jaxpriv.leakage.registry")  # not imported: no message has a name of its classes
    for kind, name in registry.names_of_classes().items() if registry else ():
        message = re.sub(rf"(?<!['\w.]){kind}(\(\))?(?!['\w(])", name, message)
    return in_options(message, options)


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
        return error.exit_code, _in_short(error.format_message()) + _elsewhere(error)
    if "RESOURCE_EXHAUSTED" in str(error) and not isinstance(error, JaxprivError):
        return 6, "the device ran out of memory; use a smaller problem or --solver mirror-descent"
    return explain(error)


def _elsewhere(error: _UsageError) -> str:
    """Which other commands have the option that is unknown."""
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if option is None or context is None or context.parent is None:
        return ""
    commands = context.parent.command.commands
    having = [f"jaxpriv {name}" for name, command in commands.items() if any(option in p.opts for p in command.params)]
    return f"; it is an option of {', '.join(having)}" if having else ""


def _in_short(message: str) -> str:
    """A message about a value of the line: the option and what it must be, in no words of the parser."""
    message = re.sub(r"^Invalid value for '([^']+)': (?:Value error, )?", r"\1: ", message)
    return re.sub(r"^(\S+): Input should be ([^,]+)(?:, .*)?$", r"\1 must be \2", message)
