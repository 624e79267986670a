"""Options about the columns of a table of records, the same in every command that reads one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer

from jaxpriv.errors import InputError

BinsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COL=RULE",
        help="Classes of a column: quantiles:4, edges:0,18,65,inf or categories (the default, except for real "
        "numbers); the option again for another column.",
    ),
]
MissingOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COL=LABEL",
        help="Empty cells of this column are a class of their own, with this label (no '='); otherwise an error.",
    ),
]


def is_table(path: Path) -> bool:
    """Whether a file is read as a table of records."""
    return path.suffix.lower() in (".csv", ".parquet")


def rules_of(bins: Sequence[str] | None, missing: Sequence[str] | None, columns: Sequence[str]) -> dict[str, Any]:
    """The rule of each column that --bins or --missing name; they must be among `columns`."""
    from jaxpriv.estimation.tables import Categories

    rules: dict[str, Any] = {}
    for text in bins or ():
        name, rule = _rule(text)
        _known("--bins", name, columns)
        if name in rules:
            raise InputError(f"--bins gives column {name!r} twice")
        rules[name] = rule
    labelled: set[str] = set()
    for text in missing or ():
        name, equals, label = text.rpartition("=")
        if not (equals and name and label):
            raise InputError("--missing must be COL=LABEL")
        if name in labelled:
            raise InputError(f"--missing gives column {name!r} twice")
        labelled.add(name)
        _known("--missing", name, columns)
        try:
            rules[name] = replace(rules.get(name, Categories()), missing=label)
        except InputError as error:
            raise InputError(f"--missing, column {name!r}: {error}") from None
    return rules


def _known(option: str, name: str, columns: Sequence[str]) -> None:
    if name not in columns:
        raise InputError(f"{option} is about column {name!r}, which no other option names")


def counts_by_attributes(path: Path, codebook: Path, attributes: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The records of a table as counts (S, X), the useful symbols being the rows of `attributes` (X, b).

    `classes` is the fingerprint of the codebook that the attributes belong to.
    """
    from jaxpriv.estimation.tables import Codebook, count_table
    from jaxpriv.estimation.tables.border import row_text

    book = Codebook.load(codebook)
    if not np.array_equal(classes, book.fingerprint):
        raise InputError(f"--codebook: {codebook} has other useful columns or classes than MECH.npz was made with")
    if attributes.ndim != 2 or attributes.shape[1] != len(book.useful) or attributes.dtype.kind not in "iu":
        raise InputError(
            f"MECH.npz: attributes must be whole numbers, one column for each of the {len(book.useful)} useful ones"
        )
    table = count_table(path, codebook=book, sparse=True)
    place = {row: x for x, row in enumerate(map(tuple, attributes.tolist()))}
    found = np.array([place.get(row, -1) for row in map(tuple, table.dataset.useful_attributes.tolist())])
    unknown = np.flatnonzero(found[table.useful_symbols] < 0)
    if unknown.size:
        raise InputError(
            f"--counts: {row_text(unknown[0])} combines classes as no symbol of the mapping does "
            f"({unknown.size} such rows)"
        )
    counts = np.zeros((len(table.dataset.counts), len(attributes)), dtype=np.int64)
    counts[:, found] = table.dataset.counts
    return counts


def _rule(text: str) -> tuple[str, Any]:
    """COL=quantiles:N, COL=edges:A,B,... or COL=categories; a name may hold "="."""
    from jaxpriv.estimation.tables import Categories, Edges, Quantiles

    option = f"--bins {text!r}"
    name, equals, rule = text.rpartition("=")
    kind, _, parameter = rule.partition(":")
    try:
        if not equals or not name:
            raise ValueError
        if kind == "categories" and not parameter:
            return name, Categories()
        if kind == "quantiles":
            return name, Quantiles(int(parameter))
        if kind == "edges":
            return name, Edges([float(edge) for edge in parameter.split(",")])
        raise ValueError
    except InputError as error:
        raise InputError(f"{option}: {error}") from error
    except ValueError:
        raise InputError(f"{option} is not COL=quantiles:N, COL=edges:A,B,... or COL=categories") from None
