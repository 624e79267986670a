"""`jaxpriv compare`: what a release lost."""

from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._tables import RecordOptions, table_file
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError

# The longest bar of a table of shares.
_BAR = 20


def compare(
    original: Path,
    released: Path,
    design: Path | None = None,
    useful: list[str] | None = None,
    bins: list[str] | None = None,
    row_order: Path | None = None,
    identity: str | None = None,
    same_order: bool = False,
    target: str | None = None,
    read: list[str] | None = None,
    json: Path | None = None,
) -> None:
    """Show what a release lost: each column, pairs of columns, and predictions from them, before and after.

    Rows are compared with their own records where --row-order, --id or --same-order says which these are; otherwise
    only distributions are compared. What is printed is about the original records: it is for their owner.
    """
    if sum((row_order is not None, identity is not None, same_order)) > 1:
        raise InputError("give one of --row-order, --id and --same-order")
    if row_order is None and identity is None and not same_order:
        _output.refuse("needs paired rows; give --row-order, --id or --same-order", target=target)
    if (design is None) == (not useful):
        raise InputError("give the --design, or name the columns of both tables with --useful")
    before, after = table_file(original, read), table_file(released, None)
    rules = RecordOptions(bins=bins).rules(useful or [])
    if design is not None and rules:
        raise InputError("--bins: a design has its own classes")
    from jaxpriv.release.grouped import load_mechanism
    from jaxpriv.release.matching import records_of_rows
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
            order=records_of_rows(row_order, released, size) if same_order or row_order is not None else None,
            identity=identity,
            target=target,
        )

    comparison = working("Comparing", work)
    columns = [{**_output.record_of(column), "variation": column.variation} for column in comparison.columns]
    _output.deliver({**_output.record_of(comparison), "columns": columns}, json, _text(comparison), private=True)


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _text(comparison: "jp.report.Comparison") -> str:
    before, after = comparison.rows
    paired = (
        "each with its own record" if comparison.paired else "distributions alone (--row-order, --id or --same-order)"
    )
    parts = [f"{before} records, {after} released rows, compared {paired}\n"]
    parts += [_column_text(column) for column in comparison.columns]
    if comparison.pairs:
        rows = (
            (
                ", ".join(pair.names),
                *(f"{number:.3f}" for number in (pair.variation, pair.association_before, pair.association_after)),
            )
            for pair in comparison.pairs
        )
        headings = ["total variation", "Cramer's V before", "after"]
        parts.append("\n" + _output.rendered(_output.table_of(rows, headings, before=["pair of columns"], after=())))
    if comparison.prediction is not None:
        prediction = comparison.prediction
        parts.append(
            f"{prediction.target} is predicted rightly for {_share(prediction.before)} of the records from the "
            f"original columns, for {_share(prediction.after)} from the released ones, for "
            f"{_share(prediction.constant)} from none\n"
        )
    return "".join(parts)


def _column_text(column: "jp.report.ColumnChange") -> str:
    longest = max(float(column.before.max()), float(column.after.max()))
    shares = list(zip(column.before.tolist(), column.after.tolist(), strict=True))
    unmoved = None if column.unmoved is None else column.unmoved.tolist()
    rows = (
        (
            column.labels[place],
            *map(_share, pair),
            *([] if unmoved is None else [_share(unmoved[place] / pair[0]) if pair[0] else ""]),
            *("█" * round(_BAR * share / longest) for share in pair),
        )
        for place, pair in enumerate(shares)
    )
    headings = ["before", "after", *([] if unmoved is None else ["kept"])]
    table = _output.table_of(rows, headings, before=["class"], after=("", ""))
    changed = "" if column.changed is None else f"changed in {_share(column.changed)} of the records, "
    return f"\n{column.name}: {changed}total variation {column.variation:.3f}\n" + _output.rendered(table)
