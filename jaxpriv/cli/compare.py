"""`jaxpriv compare`: what a release lost, and which of several designs to take."""

from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._audit_options import is_design
from jaxpriv.cli._tables import RecordOptions, table_file
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError

# Claims of a design in its table: the name, what it says, and whether its lower end is meant.
_CLAIMS = (
    ("distortion", "mean distortion at most", False),
    ("disclosure", "I(X;Y) at least", True),
    ("lower_bound", "optimum of its objective at least", True),
)
# The longest bar of a table of shares.
_BAR = 20


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
            order=records_of_rows(row_order, released[0], size) if same_order or row_order is not None else None,
            identity=identity,
            target=target,
        )

    comparison = working("Comparing", work)
    columns = [{**_output.record_of(column), "variation": column.variation} for column in comparison.columns]
    _output.deliver({**_output.record_of(comparison), "columns": columns}, json, _text(comparison), private=True)


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
    _output.deliver(comparison.record, json, _designs_text(comparison), private=True)


def _designs_text(comparison: "jp.report.DesignComparison") -> str:
    designs, right = list(comparison.designs.values()), comparison.guesses
    rows: dict[str, list[str | None]] = {
        "target": [f"{design.asked.problem} {design.asked.target:g}" for design in designs]
    }
    for column in dict.fromkeys(name for design in designs for name in design.changed):
        rows[f"{column} changed"] = [_share(d.changed[column]) if d.changed else None for d in designs]
    rows["all useful columns kept"] = [None if design.unmoved is None else _share(design.unmoved) for design in designs]
    for key, title, down in _CLAIMS:
        claims = [design.claims.get(key) for design in designs]
        rows[title] = [claim and claim.end(down=down, digits=4) for claim in claims]
    for label, unit in comparison.units.items():
        claims = [design.leakages[label] for design in designs]
        rows[f"{label} at most"] = [claim and claim.end(digits=4) for claim in claims]
        bounds = [design.population[label] for design in designs]
        rows[f"{label} in the population at most"] = [
            None if bound is None else f"{_output.upper(bound, 4)} {unit}" for bound in bounds
        ]
    rows["best guess right at most"] = [_output.percent(d.correct_guess.most, up=True) for d in designs]
    lines = ((title, *(cell or "-" for cell in cells)) for title, cells in rows.items() if any(cells))
    return _output.rendered(
        f"{len(designs)} designs, all made on {comparison.records} records. The best guess of the private class is "
        f"right in {_output.percent(right['without'])} of these without a release, in "
        f"{_output.percent(right['unchanged'])} with the useful columns unchanged.",
        _output.table_of(lines, list(comparison.designs), before=["on these records"], after=()),
        f"population: all bounds hold together, with confidence {comparison.confidence:g}",
        *comparison.verdicts,
    )


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
