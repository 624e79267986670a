"""What `jaxpriv audit` prints: tables of measures, what their columns mean, tests and assumptions."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._output import Units

if TYPE_CHECKING:
    from rich.table import Table as RichTable

# `lower` or `upper`: a number to so many digits.
_Rounding: TypeAlias = Callable[[float, int], str]
# A difference of probabilities below this is rounding.
_ROUNDING = 1e-12
# e^x for an x beyond this is no float64.
_LARGEST_POWER = 709.0
# What the columns of the table are.
_MEANING = {
    "stated_gap": "gap as stated: the gap in the file of --solution, not verified",
    "gap": "gap: to the optimum of the design problem, certified",
    "cap": "cap: whatever the population is",
    "bootstrap": "estimate: bootstrap, of how large the population's value may be; it is no bound",
}


def mechanism_text(audit: "jp.statistics.audit.MechanismAudit", units: Units) -> str:
    rows, tested = audit.rows, audit.conformity
    fitted = "joint" if audit.confidence is None else "sample"
    columns = {"fitted": fitted, "bootstrap": "estimate", "gap": "gap", "stated_gap": "gap as stated"}
    columns = _measured(rows, columns) | {"upper": "population <=", "cap": "cap"}
    parts: list[object] = [*_gains(rows, audit.confidence, units), _table(rows, columns, units)]
    utility = audit.utility
    lower = "" if utility.lower is None else f"; population >= {units.least(utility.lower)}"
    parts.append(f"utility I(X;Y): {units.least(utility.fitted)} on the {fitted}{lower}")
    parts += _notes(rows, columns)
    if audit.confidence is not None:
        parts.append(
            f"population: the whole column holds with confidence {audit.confidence:.6g}, for {audit.holds_for}"
        )
    parts += [text for key, text in _MEANING.items() if key in columns]
    if tested is not None:
        parts.append(
            f"releases: test of the claim that they come from this mapping: p = {tested.p_value:.3g} "
            f"({tested.tables} simulated releases; a large p is no proof)"
        )
        if tested.tail < tested.p_value:
            parts.append(f"  by a bound that needs no simulation, p is at most {_output.upper(tested.tail, 3)}")
        if tested.tables:
            parts.append(f"  that shares are no more exact than those of draws: p = {tested.regular:.3g}")
        if tested.unchanged is not None and tested.detectable is not None:
            share = f"if {_output.upper(100 * tested.detectable, 3)} % of them were, it would find it"
            if math.isinf(tested.detectable):
                share = "with so few records it would not find, if all of them were,"
            parts.append(
                f"  that no records were released unchanged: p = {tested.unchanged:.3g}; {share} in nine of ten "
                "cases (level 0.001)"
            )
        parts += [f"  released although impossible: x={x}, y={y}" for x, y in tested.impossible]
    return _output.rendered(*parts, *_assumptions(audit.assumptions))


def pairs_text(audit: "jp.statistics.audit.PairsAudit", units: Units) -> str:
    level, per = f"{audit.confidence:.6g}", units.per_nat
    columns = {"fitted": "sample", "bootstrap": "estimate", "lower": "population >=", "upper": "population <="}
    columns = _measured(audit.rows, columns)
    estimate, test = audit.estimate, audit.permutation
    line = "estimates: refused, undersampled (fewer than five pairs for each cell)"
    if estimate.plug_in is not None and estimate.miller_madow is not None:
        interval = "no interval so near independence"
        if estimate.interval is not None:
            low, high = estimate.interval
            interval = f"asymptotic {level} interval [{low * per:.5g}, {high * per:.5g}]"
        line = (
            f"estimates of I(S;Y), no bounds: plug-in {estimate.plug_in * per:.5g}, Miller-Madow "
            f"{estimate.miller_madow * per:.5g} {units}, {interval}"
        )
    return _output.rendered(
        *_gains(audit.rows, audit.confidence, units),
        _table(audit.rows, columns, units),
        *_notes(audit.rows, columns),
        line,
        f"independence: permutation test p = {_output.upper(test.p_value, 3)} ({test.permutations} permutations)"
        + ("" if audit.g_test is None else f", G-test p = {_small(audit.g_test)} (asymptotic)")
        + "; a large p is no evidence of privacy",
        f"population: all bounds of each of the two columns hold together with confidence {level}",
        *(_MEANING[key] for key in columns if key == "bootstrap"),
        *_assumptions(audit.assumptions),
    )


def attributes_text(audit: "jp.statistics.audit.AttributeAudit") -> str:
    columns = {"certain": "certain", "guess": "best guess", "lower": "population >=", "upper": "population <="}
    lines = [
        "certain: the share of these records whose private value follows from the columns",
        "best guess: the share of which the likeliest private value given the columns is right",
        f"population: all bounds of each of the two columns hold together with confidence {audit.confidence:.6g}",
    ]
    if audit.rows[0].least is not None:
        columns["least"] = "optimum >="
        lines.append("optimum: certified, no release of all columns with the same I(X;Y) has a smaller best guess here")
    rows = ((", ".join(map(str, row.columns)) or "(none)", *_cells(row, columns)) for row in audit.rows)
    table = _output.table_of(rows, [*columns.values()], before=["columns"], after=[])
    return _output.rendered(table, *lines, *_assumptions(audit.assumptions))


def _gains(rows: "Sequence[jp.statistics.audit.AuditRow]", confidence: float | None, units: Units) -> list[str]:
    """What an adversary gains, in sentences, and which rows say it; none without these rows."""
    by_label = {_output.measure_label(row): row for row in rows}
    guess, gain, lift = (by_label.get(label) for label in ("correct-guess", "gain-zero-one, average", "max-lift"))
    lines = []
    if guess is not None and gain is not None and guess.fitted is not None and gain.fitted is not None:
        more = "no more often with it"
        if gain.fitted > _ROUNDING:
            more = f"in at most {_percent(guess.fitted, _output.upper)} with it"
        lines.append(
            f"{'Under this joint' if confidence is None else 'On this sample'} the best guess of the private class is "
            f"right in {_output.percent(guess.fitted - gain.fitted)} of the cases without the release, and "
            f"{more}{_bounded(guess, confidence, _percent)} (row correct-guess; the difference is gain-zero-one, "
            "average)."
        )
    if lift is not None and lift.fitted is not None:
        lines.append(
            "After the output that raises a private class most, this class is at most "
            f"{_times(lift.fitted, _output.upper)} as likely as before{_bounded(lift, confidence, _times)} "
            f"({'e' if units is Units.nats else 2} to the number of {units} in row max-lift)."
        )
    return lines


def _bounded(
    row: "jp.statistics.audit.AuditRow",
    confidence: float | None,
    shown: Callable[[float, _Rounding], str],
) -> str:
    """The bounds of a row for the population as a part of a sentence; empty without any."""
    ends = {"at least ": (row.lower, _output.lower), "at most ": (row.upper, _output.upper)}
    parts = [words + shown(value, rounded) for words, (value, rounded) in ends.items() if value is not None]
    each = "each " if len(parts) > 1 else ""  # the two columns are two statements
    return f"; in the population this is {' and '.join(parts)}, {each}with confidence {confidence:.6g}" if parts else ""


def _percent(share: float, rounded: _Rounding) -> str:
    return f"{rounded(100 * min(share, 1.0), 4)} %"  # a bound on a chance may exceed one, by rounding too


def _times(power: float, rounded: _Rounding) -> str:
    return f"{rounded(math.exp(power) if power < _LARGEST_POWER else math.inf, 4)} times"


def _measured(rows: "Sequence[jp.statistics.audit.AuditRow]", columns: dict[str, str]) -> dict[str, str]:
    """The columns that have a number."""
    return {key: title for key, title in columns.items() if any(getattr(row, key) is not None for row in rows)}


def _table(rows: "Sequence[jp.statistics.audit.AuditRow]", columns: dict[str, str], units: Units) -> "RichTable":
    cells = (
        (_output.measure_label(row), *_cells(row, columns, scale), unit)
        for row in rows
        for scale, unit in [units.of(row.units)]
    )
    return _output.table_of(cells, [*columns.values()], before=["measure"], after=["units"])


def _cells(
    row: "jp.statistics.audit.AuditRow | jp.statistics.audit.AttributeRow", columns: dict[str, str], scale: float = 1.0
) -> list[str]:
    numbers = {key: getattr(row, key) for key in columns}
    return [
        "-" if value is None else (_output.lower if key in ("lower", "least") else _output.upper)(value * scale, 5)
        for key, value in numbers.items()
    ]


def _small(value: float) -> str:
    """A probability that floating-point numbers may have rounded to 0."""
    return f"{value:.3g}" if value > 0 else "0 (below the smallest floating-point number)"


def _notes(rows: "Sequence[jp.statistics.audit.AuditRow]", columns: dict[str, str]) -> list[str]:
    """Why numbers are missing: each reason once, with the column it is about."""
    reasons = {(columns[key], row.why[key]) for row in rows for key in columns if key in row.why}
    return [f"- in '{title}': {reason}" for title, reason in sorted(reasons)]


def _assumptions(assumptions: "jp.statistics.audit.Assumptions") -> list[str]:
    useful = [] if assumptions.useful is None else [f"|X| = {assumptions.useful}"]
    facts = ", ".join([f"|S| = {assumptions.private}", *useful, f"|Y| = {assumptions.released}"])
    if assumptions.records is not None:
        facts = (
            f"{assumptions.records} records, {facts}, at least {assumptions.least_private} records for each s, "
            f"{assumptions.empty_cells} of {assumptions.cells} cells empty"
        )
    if assumptions.records is not None and assumptions.unseen_private:
        facts += f", s without records: {', '.join(map(str, assumptions.unseen_private))}"
    return ["", f"assumptions ({facts})", *(f"  {line}" for line in assumptions.statements)]
