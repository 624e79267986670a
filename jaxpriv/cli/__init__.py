"""The command `jaxpriv`: one file for each command, named like it, all registered here.

    0  done                      4  a valid result, not certified to the tolerance
    2  bad input                 5  a file is damaged or unsafe
    3  infeasible, proved        6  resources or I/O          130  interrupted

Errors are one line on stderr (`--debug` shows the traceback). Files appear whole or not at all, and
only after the work is done. Command modules import JAX and the like inside their functions.
"""

from importlib import import_module
from typing import Annotated

import typer

from jaxpriv._runtime import importing
from jaxpriv.cli import _app, _output
from jaxpriv.cli._commands import COMMANDS

app = typer.Typer(
    cls=_app.CommandGroup,
    help="Design, measure and certify information-theoretic privacy mappings.",
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for panel, names in COMMANDS.items():
    for name in names:
        command = getattr(import_module(f"{__name__}.{name}"), name)
        app.command(cls=_app.Command, rich_help_panel=panel)(_app.grouped(command))


def _show_version(asked: bool) -> bool:
    if asked:
        from jaxpriv import __version__

        _output.emit(f"jaxpriv {__version__}\n")
        raise typer.Exit()
    return asked


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; anywhere in the line.")
    ] = False,
) -> None:
    # Both have been dealt with: `--debug` by `Program.main`, so that it may stand behind a command too.
    del version, debug


def main() -> None:
    """The console entry: run the command line and exit with its code."""
    importing.listen()
    _app.silence_backends()
    app(prog_name="jaxpriv")
