"""What `jaxpriv compare` prints: of finished designs, and of a table and its release."""

import jaxpriv as jp
from jaxpriv.cli import _output

# Claims of a design in its table: the name, what it says, and whether its lower end is meant.
_CLAIMS = (
    ("distortion", "mean distortion at most", False),
    ("disclosure", "I(X;Y) at least", True),
    ("lower_bound", "optimum of its objective at least", True),
)
# The longest bar of a table of shares.
_BAR = 20


def designs_text(comparison: "jp.report.DesignComparison") -> str:
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


def tables_text(comparison: "jp.report.Comparison") -> str:
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
