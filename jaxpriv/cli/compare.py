"""`jaxpriv compare`: what a release lost, and which of several designs to take."""

from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._audit_options import is_design
from jaxpriv.cli._compare_text import designs_text, tables_text
from jaxpriv.cli._tables import RecordOptions, table_file
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError


def compare(
    original: Path,
    released: list[Path],
    design: Path | None = None,
    private: list[Path] | None = None,
    useful: list[str] | None = None,
    bins: list[str] | None = None,
    row_order: Path | None = None,
    identity: str | None = None,
    same_order: bool = False,
    target: str | None = None,
    read: list[str] | None = None,
    json: Path | None = None,
) -> None:
    """Show what a release lost: each column, pairs of columns, and predictions from them; or which design to take.

    Rows of two tables are compared with their own records where --row-order, --id or --same-order says which these are;
    otherwise only distributions are compared. Two or more designs of one table, with the --private file of each, are
    compared by what each loses and leaks, by how often a guess of the private class is right, and by which is safer for
    every average measure. What is printed is about the original records: it is for their owner.
    """
    if is_design(original):
        given = {"design": design, "useful": useful, "bins": bins, "row_order": row_order, "id": identity}
        _output.refuse("is about two tables", **given, same_order=same_order, target=target, read=read)
        _designs([original, *released], private or [], json)
        return
    _output.refuse("is about designs", private=private)
    if len(released) > 1:
        raise InputError("give one RELEASED table; several files are compared if all of them are designs")
    if sum((row_order is not None, identity is not None, same_order)) > 1:
        raise InputError("give one of --row-order, --id and --same-order")
    if row_order is None and identity is None and not same_order:
        _output.refuse("needs paired rows; give --row-order, --id or --same-order", target=target)
    if (design is None) == (not useful):
        raise InputError("give the --design, or name the columns of both tables with --useful")
    if design is not None:
        _output.refuse("goes without --design, which has its own classes", bins=bins)
    before, after = table_file(original, read), table_file(released[0], None)
    rules = RecordOptions(bins=bins).rules(useful or [])
    from jaxpriv.release.grouped import load_mechanism
    from jaxpriv.release.matching import records_in_order
    from jaxpriv.statistics.tables.readers import read_columns

    mechanism = None if design is None else load_mechanism(design)

    def work(_: object) -> "jp.report.Comparison":
        names = mechanism.codebook.useful if mechanism is not None else useful or ()
        columns = read_columns(before, list(dict.fromkeys((*names, *filter(None, (identity, target))))))
        size = len(next(iter(columns.values())).values)
        return jp.report.compare(
            columns,
            after,
            mechanism=mechanism,
            useful=useful or (),
            rules=rules or None,
            order=records_in_order(row_order, after, size) if same_order or row_order is not None else None,
            identity=identity,
            target=target,
        )

    comparison = working("Comparing", work)
    columns = [{**_output.record_of(column), "variation": column.variation} for column in comparison.columns]
    _output.deliver({**_output.record_of(comparison), "columns": columns}, json, tables_text(comparison), private=True)


def _designs(paths: list[Path], private: list[Path], json: Path | None) -> None:
    """The comparison of designs, each named by its file."""
    if len(private) != len(paths):
        raise InputError("--private: give the file of each design, in the order of the designs")

    def work(_: object) -> "jp.report.DesignComparison":
        mechanisms = [jp.Mechanism.load(path) for path in paths]
        evidence = [jp.release.Evidence.load(*pair) for pair in zip(private, mechanisms, strict=True)]
        return jp.report.compare_designs(
            dict(zip(map(str, paths), zip(mechanisms, evidence, strict=True), strict=True))
        )

    comparison = working("Comparing", work)
    _output.deliver(comparison.record, json, designs_text(comparison), private=True)
