"""The page of the command line is made from the commands themselves."""

import inspect
import re

import typer
from sphinx.application import Sphinx

from jaxpriv.cli import app as program
from jaxpriv.cli._commands import EXAMPLES
from jaxpriv.cli._options import filled_in

PAGE = "reference/command-line"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def sections() -> str:
    """One section for each command: what it does, how it is called, an example, and its arguments and options."""
    group = typer.main.get_command(program)
    text = ""
    for name, command in group.commands.items():
        rows, context, panel = [], typer.Context(command), None
        for param in command.get_params(context):
            if param.name == "help" or getattr(param, "hidden", False):
                continue
            if panel != (panel := param.rich_help_panel) and panel:
                rows.append(f"| **{panel}** | |")
            names, meaning = param.get_help_record(context)  # with what stands behind an option, its default, its range
            rows.append(f"| `{_cell(names)}` | {_cell(filled_in(meaning))} |")
        usage = " ".join(["jaxpriv", name, *command.collect_usage_pieces(context)])
        help_text = inspect.cleandoc(command.help or "").replace("\b\n", "")
        text += f"\n## {name}\n\n{help_text}\n\n```sh\n{usage}\n```\n\n"
        if name in EXAMPLES:
            text += "```sh\n" + "\n".join(EXAMPLES[name]) + "\n```\n\n"
        text += "\n".join(["| argument or option | meaning |", "|---|---|", *rows, ""]) if rows else ""
    return text


def add_sections(app: Sphinx, name: str, source: list[str]) -> None:
    """Called by Sphinx for every page that it reads."""
    if name == PAGE:
        source[0] += sections()


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", add_sections)
    return {"parallel_read_safe": True}
