"""`jaxpriv verify` among the other commands: their help and completion, for the program of the verifier.

`jaxpriv.__main__` starts that program without the libraries of the others, but for its help.
"""

import inspect
from pathlib import Path
from typing import Annotated

import typer

from jaxpriv.verifier.__main__ import DESCRIPTION, FILE, FILES, JSON, REPEATED, run


def verify(**given: Path | str | list[str] | None) -> None:
    line = [str(given.pop("file"))]
    for name, values in given.items():
        line += [f"--{name}={value}" for value in (values if isinstance(values, list) else [values]) if value]
    raise typer.Exit(run(line))


def _declared() -> list[inspect.Parameter]:
    """The argument and the options of the verifier, as Typer has them."""
    annotations: dict[str, object] = {"file": Annotated[Path, typer.Argument(metavar=FILE[0], help=FILE[1])]}
    for name, (metavar, text) in {**FILES, **REPEATED, "json": JSON}.items():
        kind = list[str] | None if name in REPEATED else Path | None
        annotations[name] = Annotated[kind, typer.Option(f"--{name}", metavar=metavar, help=text)]
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=... if name == "file" else None, annotation=one)
        for name, one in annotations.items()
    ]


verify.__doc__ = DESCRIPTION
verify.__signature__ = inspect.Signature(_declared())  # pyright: ignore[reportFunctionMemberAccess]
