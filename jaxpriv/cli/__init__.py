"""The command `jaxpriv`: one file for each group of commands, all registered here.

    0  done                      4  a valid result, not certified to the tolerance
    2  bad input                 5  a file is damaged or unsafe
    3  infeasible, proved        6  resources or I/O          130  interrupted

Errors are one line on stderr (`--debug` shows the traceback). Files appear whole or not at all, and
only after the work is done. Command modules import JAX and the like inside their functions.
"""

from typing import Annotated

import typer

from jaxpriv import _importing
from jaxpriv.cli import _app, _output, audit, curves, demo, info, leakage, release, solve, sweep, watchdog
from jaxpriv.verifier.__main__ import run

app = typer.Typer(
    cls=_app.CommandGroup,
    help="Design, measure and certify information-theoretic privacy mappings.",
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    solve.solve,
    curves.frontier,
    solve.funnel,
    curves.plot,
    leakage.leakage,
    sweep.sweep,
    watchdog.watchdog,
    release.joint,
    release.fit,
    release.release,
    release.report,
    demo.reproduce,
    audit.audit,
    leakage.excess,
    info.info,
    info.cache,
    demo.demo,
):
    app.command(cls=_app.Command)(_app.grouped(command))


# Its options are those of a program of its own, which `jaxpriv.__main__` starts without the libraries of the others.
@app.command(
    cls=_app.Command,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def verify(context: typer.Context) -> None:
    """Check a design, its audit, a receipt and a released file, with Python's standard library alone."""
    raise typer.Exit(run(context.args))


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
    _importing.listen()
    _app.silence_backends()
    app(prog_name="jaxpriv")
