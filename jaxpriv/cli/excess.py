"""`jaxpriv excess`: the leakage of a release beside the certified optimum of the same utility."""

from enum import StrEnum
from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._output import Units
from jaxpriv.cli._tables import RecordOptions, table_file
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError, NotCertifiedError


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
    numbers are exact for these records; `jaxpriv audit --pairs` bounds the population. Exit code 4: the gap of the
    optimum is above --tol; the interval is valid and written all the same.
    """
    from jaxpriv.statistics.tables.readers import check_header

    if released_table is None:
        _output.refuse("is about --released-table", row_order=row_order)
    private, useful = columns.private, columns.useful
    if not private or not useful:
        raise InputError("name columns with --private and --useful")
    names = released or (useful if released_table is not None else [])
    if not names:
        raise InputError("name the released columns with --released, or their file with --released-table")
    source, rules = table_file(table, columns.read), columns.rules([*private, *useful])
    other = None if released_table is None else table_file(released_table, columns.read)
    check_header(source, [*private, *useful])  # a mistake costs no import of JAX
    check_header(other or source, names)
    counts, costs = jp.release.count_releases(
        source, private, useful, names, released_table=other, rules=rules, order=row_order
    )
    if at is SameUse.distortion and costs is None:
        raise InputError("--at distortion: the released columns have other classes than the useful ones")
    excess_of_release = working(
        "Comparing",
        lambda _: jp.statistics.audit.excess(
            counts, distortion=costs, at=None if at is None else at.value, tol=tol, time_limit=time_limit
        ),
    )
    record = {"units": "nats", **_output.record_of(excess_of_release)}
    _output.deliver(record, json, _comparison(excess_of_release, units), private=True)
    if excess_of_release.status != "optimal":
        raise NotCertifiedError(
            f"the optimum is not certified to --tol {tol:g}; what is printed is valid. Allow more --time-limit, or "
            "raise --tol"
        )


def _comparison(result: "jp.statistics.audit.ReleaseExcess", units: Units) -> str:
    per = units.per_nat

    def shown(value: float) -> str:
        return f"{value * per:.6g} {units}"

    same = f"{result.distortion:.6g} changed columns" if result.at == "distortion" else shown(result.disclosure)
    to = " to these combinations" if result.at == "distortion" else ""
    lines = {
        f"on {result.records} records": "",
        "leakage I(S;Y) of the release": shown(result.leakage),
        "disclosure I(X;Y)": shown(result.disclosure),
        **({} if result.distortion is None else {"mean changed columns": f"{result.distortion:.6g}"}),
        f"best mapping at the same {result.at}": units.most(result.optimum),
        f"no mapping{to} with {same} leaks less than": units.least(result.lower_bound),
        "excess over the optimum": f"{_output.lower(result.least * per)} to {units.most(result.most)}",
        "of Y on S beyond X, I(S;Y|X)": shown(result.direct),
    }
    return _output.aligned(lines)
