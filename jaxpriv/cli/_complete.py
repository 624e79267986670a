"""The values that a shell completes: names of columns, of measures and of methods."""

from pathlib import Path

import typer

from jaxpriv.errors import JaxprivError


def columns(ctx: typer.Context) -> list[str]:
    """The columns of the table that stands in the line so far; nothing where it cannot be read."""
    from jaxpriv.statistics.tables.csv_files import TableFile, header_of
    from jaxpriv.verifier.csv_text import reading

    # Behind an option that has no value yet the parser leaves the arguments where they are.
    given = (value for value in (*ctx.params.values(), *ctx.args) if isinstance(value, str | Path))
    try:
        settings = reading(ctx.params.get("read") or ())
        tables = [file for file in (TableFile(path, **settings) for path in given) if file.kind == "csv"]
        return header_of(tables[0]) if tables else []
    except (JaxprivError, OSError):
        return []


def of_columns(ctx: typer.Context) -> list[str]:
    """COL=, before a value."""
    return [f"{column}=" for column in columns(ctx)]


def rules(ctx: typer.Context) -> list[str]:
    """COL=RULE."""
    return [
        f"{column}{rule}" for column in of_columns(ctx) for rule in ("categories", "quantiles:4", "edges:", "first:")
    ]


def prices(ctx: typer.Context) -> list[str]:
    """COL=KIND."""
    from jaxpriv.statistics.tables.rules import KINDS

    return [f"{column}{kind}" for column in of_columns(ctx) for kind in KINDS]


def settings() -> list[str]:
    """What --read takes."""
    marks = ["delimiter=", "encoding=", "names=", "decimal=,", "thousands=.", "thousands=,", "empty="]
    return [*marks, "blanks", "nfc"]


def measures() -> list[str]:
    """The names of measures."""
    from jaxpriv.verifier.claims import MEASURES  # those of `jaxpriv.leakage`, without JAX

    return list(MEASURES)


def divergences() -> list[str]:
    """The names of divergences."""
    from jaxpriv.verifier.claims import DIVERGENCES

    return list(DIVERGENCES)


def solvers() -> list[str]:
    """The names of solvers."""
    from jaxpriv.solving.choice import SOLVER_NAMES

    return list(SOLVER_NAMES)


def methods() -> list[str]:
    """The names of methods for funnels."""
    from jaxpriv.funnels.solve import FUNNEL_SOLVERS

    return ["auto", *FUNNEL_SOLVERS]
