"""`jaxpriv excess`: the leakage of a release beside the certified optimum of the same utility."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonRecord, Units
from jaxpriv.cli._tables import (
    RecordOptions,
    records_of_rows,
    table_file,
)
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from jaxpriv.statistics.tables import Rule


class SameUse(StrEnum):
    """What the optimum has in common with the release."""

    distortion = "distortion"
    disclosure = "disclosure"


def excess(
    *,
    table: Path,
    columns: RecordOptions,
    released: list[str] | None = None,
    released_table: Path | None = None,
    row_order: Path | None = None,
    at: SameUse | None = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    units: Units = Units.nats,
    json: Path | None = None,
) -> None:
    """Compare the leakage of a release with the certified optimum of the same utility.

    The release may come from any tool. The command needs records of the private, useful and released values. All
    numbers are exact for these records; `jaxpriv audit --pairs` bounds the population.
    """
    from jaxpriv.statistics.tables.readers import check_header

    other = table if released_table is None else released_table
    if row_order is not None and released_table is None:
        raise InputError("--row-order is about --released-table")
    private, useful = columns.private, columns.useful
    if not private or not useful:
        raise InputError("name columns with --private and --useful")
    names = released or (useful if released_table is not None else [])
    if not names:
        raise InputError("name the released columns with --released, or their file with --released-table")
    both = [name for name in names if name in (*private, *useful)] if released_table is None else []
    if both:
        raise InputError(f"column {both[0]!r} is released as it is: name the column that was released in its place")
    rules = columns.rules([*private, *useful])
    check_header(table_file(table, columns.read), [*private, *useful])
    check_header(table_file(other, columns.read), names)
    from jaxpriv.statistics.audit import excess as compared

    counts, costs = _counted(table, other, row_order, private, useful, names, rules, columns.read)
    if at is SameUse.distortion and costs is None:
        raise InputError("--at distortion: the released columns have other classes than the useful ones")
    found = working(
        "Comparing",
        lambda _: compared(
            counts, distortion=costs, at=None if at is None else at.value, tol=tol, time_limit=time_limit
        ),
    )
    record = {"units": "nats", **asdict(found)}
    _output.deliver(record, json, _comparison(record, units), private=True)


def _counted(
    table: Path,
    other: Path,
    order: Path | None,
    private: list[str],
    useful: list[str],
    released: list[str],
    rules: "dict[str, Rule]",
    read: list[str] | None,
) -> "tuple[np.ndarray, np.ndarray | None]":
    """Counts (S, X, Y), and the number of changed columns (X, Y) where released and useful classes are the same.

    A released column has the rule of the useful column that it stands for, if there are as many and all its values are
    of those classes; otherwise every value of it is a class.
    """
    import numpy as np

    from jaxpriv.data.datasets._layout import distinct_rows, places_of
    from jaxpriv.statistics.tables import Categories, count_table
    from jaxpriv.statistics.tables.readers import read_columns
    from jaxpriv.statistics.tables.rules import unused_label

    counted = count_table(table_file(table, read), private=private, useful=useful, rules=rules, sparse=True)
    columns = read_columns(table_file(other, read), released)
    size = len(columns[released[0]].values)
    if size != len(counted.useful_symbols):
        raise InputError(f"{other} has {size} rows, {table} has {len(counted.useful_symbols)}: they go row by row")
    own = None
    if len(released) == len(useful):
        try:
            fitted = [counted.codebook.rules[name] for name in useful]
            own = [rule.encode(columns[name]) for rule, name in zip(fitted, released, strict=True)]
            labels = [len(rule.labels) for rule in fitted]
        except InputError:
            own = None
    codes = own
    if codes is None:
        gaps = [unused_label("missing", columns[name].values.tolist()) for name in released]
        plain = [Categories(missing=gap).fit(columns[name]) for gap, name in zip(gaps, released, strict=True)]
        codes = [rule.encode(columns[name]) for rule, name in zip(plain, released, strict=True)]
        labels = [len(rule.labels) for rule in plain]
    symbols, y = distinct_rows(np.stack(codes, axis=1), labels)
    counts = np.zeros((*counted.dataset.counts.shape, len(symbols)), dtype=np.int64)
    place = records_of_rows(order, other, size)
    np.add.at(counts, (counted.private_symbols[place], counted.useful_symbols[place], y), 1)
    if own is None:
        return counts, None
    # Every useful symbol may be released by the optimum, also one that this release never drew.
    before = counted.dataset.useful_attributes
    extra = before[places_of(before, symbols) < 0]
    symbols = np.concatenate([symbols, extra])
    counts = np.concatenate([counts, np.zeros((*counts.shape[:2], len(extra)), dtype=np.int64)], axis=2)
    return counts, (before[:, None] != symbols[None]).sum(axis=2).astype(float)


def _comparison(record: JsonRecord, units: Units) -> str:
    per = units.per_nat

    def shown(value: float) -> str:
        return f"{value * per:.6g} {units}"

    same = (
        f"{record['distortion']:.6g} changed columns" if record["at"] == "distortion" else shown(record["disclosure"])
    )
    lines = {
        f"on {record['records']} records": "",
        "leakage I(S;Y) of the release": shown(record["leakage"]),
        "disclosure I(X;Y)": shown(record["disclosure"]),
        **({} if record["distortion"] is None else {"mean changed columns": f"{record['distortion']:.6g}"}),
        f"best mapping at the same {record['at']}": shown(record["optimum"]),
        f"no mapping with {same} leaks less than": f"{_output.lower(record['lower_bound'] * per)} {units}",
        "excess over the optimum": f"{shown(record['least'])} to {shown(record['most'])}",
        "of Y on S beyond X, I(S;Y|X)": shown(record["direct"]),
    }
    return _output.aligned(lines)
