"""`jaxpriv compare`: what a release lost."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from jaxpriv.cli import _output
from jaxpriv.cli._tables import RecordOptions, records_of_rows, table_file
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError

if TYPE_CHECKING:
    from jaxpriv.release.report.comparison import ColumnChange, Comparison


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
    if (design is None) == (not useful):
        raise InputError("give the --design, or name the columns of both tables with --useful")
    before, after = table_file(original, read), table_file(released, None)
    rules = RecordOptions(bins=bins).rules(useful or [])
    if design is not None and rules:
        raise InputError("--bins: a design has its own classes")
    from jaxpriv.release.grouped import load_mechanism
    from jaxpriv.release.report import compare as compared
    from jaxpriv.statistics.tables.readers import read_columns

    mechanism = None if design is None else load_mechanism(design)

    def work(_: object) -> "Comparison":
        names = mechanism.codebook.useful if mechanism is not None else useful or ()
        columns = read_columns(before, list(dict.fromkeys((*names, *filter(None, (identity, target))))))
        size = len(next(iter(columns.values())).values)
        return compared(
            columns,
            after,
            mechanism=mechanism,
            useful=useful or (),
            rules=rules or None,
            order=records_of_rows(row_order, released, size) if same_order or row_order is not None else None,
            identity=identity,
            target=target,
        )

    found = working("Comparing", work)
    _output.deliver(_record(found), json, _text(found), private=True)


def _record(found: "Comparison") -> dict[str, object]:
    return {
        "rows": found.rows,
        "paired": found.paired,
        "columns": [{**asdict(one), "variation": one.variation} for one in found.columns],
        "pairs": [asdict(one) for one in found.pairs],
        "prediction": None if found.prediction is None else asdict(found.prediction),
    }


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _text(found: "Comparison") -> str:
    before, after = found.rows
    paired = "each with its own record" if found.paired else "distributions alone (--row-order, --id or --same-order)"
    parts = [f"{before} records, {after} released rows, compared {paired}\n"]
    parts += [_column_text(one) for one in found.columns]
    if found.pairs:
        headings = ["total variation", "Cramer's V before", "after"]
        table = _output.empty_table(headings, before=["pair of columns"], after=())
        for pair in found.pairs:
            numbers = pair.variation, pair.association_before, pair.association_after
            table.add_row(", ".join(pair.names), *(f"{number:.3f}" for number in numbers))
        parts.append("\n" + _output.rendered(table))
    if found.prediction is not None:
        one = found.prediction
        parts.append(
            f"{one.target} is predicted rightly for {_share(one.before)} of the records from the original columns, for "
            f"{_share(one.after)} from the released ones, for {_share(one.constant)} from none\n"
        )
    return "".join(parts)


def _column_text(one: "ColumnChange") -> str:
    table = _output.empty_table(["before", "after"], before=["class"], after=("", ""))
    longest = max(float(one.before.max()), float(one.after.max()))
    for label, before, after in zip(one.labels, one.before.tolist(), one.after.tolist(), strict=True):
        bars = ["█" * round(_BAR * share / longest) for share in (before, after)]
        table.add_row(label, _share(before), _share(after), *bars)
    changed = "" if one.changed is None else f"changed in {_share(one.changed)} of the records, "
    return f"\n{one.name}: {changed}total variation {one.variation:.3f}\n" + _output.rendered(table)
