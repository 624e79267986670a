"""`jaxpriv verify`: the verifier's own command line, as one of the commands.

`python -m jaxpriv verify` and the installed script do not even come here: they start the verifier without the libraries
that the other commands need (`jaxpriv.__main__`).
"""

import typer

from jaxpriv.verifier.__main__ import run


def verify(context: typer.Context) -> None:
    """Check a design, its audit, a receipt and a released file, with Python's standard library alone."""
    raise typer.Exit(run(context.args))
