"""`jaxpriv verify` among the other commands: their help and completion, for the program of the verifier.

`jaxpriv.__main__` starts that program without the libraries of the others, but for its help.
"""

import inspect
from pathlib import Path

import typer

from jaxpriv.verifier.__main__ import DESCRIPTION, FILES, REPEATED, run


def verify(**given: Path | str | list[str] | None) -> None:
    line = [str(given.pop("file"))]
    for name, values in given.items():
        line += [f"--{name}={value}" for value in (values if isinstance(values, list) else [values]) if value]
    raise typer.Exit(run(line))


verify.__doc__ = DESCRIPTION
# The argument and the options of the verifier.
_KINDS = {"file": Path, **dict.fromkeys((*FILES, "json"), Path | None), **dict.fromkeys(REPEATED, list[str] | None)}
_FORM = inspect.Parameter("file", inspect.Parameter.KEYWORD_ONLY)
verify.__signature__ = inspect.Signature(  # pyright: ignore[reportFunctionMemberAccess]
    [
        _FORM.replace(name=name, annotation=kind, default=_FORM.empty if kind is Path else None)
        for name, kind in _KINDS.items()
    ]
)
