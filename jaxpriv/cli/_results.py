"""What several commands print of a result, and how they end when it is not certified."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonRecord, Units
from jaxpriv.errors import NotCertifiedError

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from jaxpriv._runtime.clock import Clock
    from jaxpriv.program.solution import SearchResult


def solved(solution: "jp.Solution | jp.FunnelSolution", *names: str) -> JsonRecord:
    """The JSON of a result with these of its numbers."""
    head, last = {"status": solution.status}, {"iterations": solution.steps, "seconds": solution.seconds}
    return {**head, **_output.record_of(solution, *names, "solver"), **last}


def searched(
    result: "SearchResult", *names: str, clock: "Clock", solver: str, iterations: int | None = None
) -> JsonRecord:
    """The same of a search on the host, with its steps where they are counted."""
    steps = {} if iterations is None else {"iterations": iterations}
    head, seconds = {"status": result.status}, {"compile": 0.0, "solve": clock.seconds}
    return {**head, **_output.record_of(result, *names), "solver": solver, **steps, "seconds": seconds}


def infeasible(*names: str, worst: float = math.inf, seconds: float = 0.0) -> JsonRecord:
    """The same where there is no mapping: the optimum of an infeasible problem is infinite."""
    return {
        "status": "infeasible",
        **{name: worst if name in ("value", "lower_bound", "upper_bound") else None for name in names},
        "solver": "none",
        "iterations": 0,
        "seconds": {"compile": 0.0, "solve": seconds},
    }


def in_units(unit: str) -> dict[str, str]:
    """`units` of a record is that of logarithms; a measure in another unit has it in `leakage_units`."""
    return {"units": "nats"} | ({} if unit == "nats" else {"leakage_units": unit})


def uncertified(reason: int, tol: float, gap: float, advice: str) -> NotCertifiedError:
    """The error after a result above the tolerance; `advice` is for a solve that ended by itself."""
    from jaxpriv._runtime.clock import Stop

    advices = {Stop.NONE: advice, Stop.TIME_LIMIT: "Allow more --time-limit", Stop.INTERRUPTED: "Let it run longer"}
    return NotCertifiedError(
        f"{_output.stopped(reason)}not certified to --tol {tol:g}: the gap is {_output.upper(gap, 2)}. The mapping "
        f"and its interval are valid. {advices[Stop(int(reason))]}"
    )


def result_text(record: JsonRecord, best: str, unit: str, shown: Mapping[str, str], units: Units) -> str:
    """The lines of a result: the value, which is `best`, and its interval, all in `unit`; what else is `shown`."""
    (per, name), proved = units.of(unit), "upper_bound" in record
    least = record["value"] == record.get("upper_bound", record["value"])
    numbers = {best: (_output.upper if least else _output.lower)(record["value"] * per)}
    numbers["lower bound"] = _output.lower(record["lower_bound"] * per)
    if proved:
        numbers["upper bound"] = _output.upper(record["upper_bound"] * per)
    numbers["proved gap" if proved else "certified gap"] = _output.upper(record["gap"] * per, 2)
    seconds = record["seconds"]
    lines = {
        "status": record["status"].replace("_", " "),
        **{line: f"{number} {name}" for line, number in numbers.items()},
        **shown,
        "solver": record["solver"] + (f", {int(record['iterations'])} iterations" if "iterations" in record else ""),
        "time": f"{seconds['compile']:.2f} s to compile, {seconds['solve']:.2f} s to solve",
    }
    return _output.aligned(lines)


def targets_table(
    records: Sequence[JsonRecord], targets: Sequence[float], form: str, leaked: str, valued: str, units: Units
) -> str:
    """The results of funnels, a row for each target; `leaked`, `valued`: the units of leakages and of values."""
    (scale, unit), (per, _) = units.of(leaked), units.of(valued)
    rows = (
        (
            f"{target:g}",
            f"{record['disclosure'] * units.per_nat:.6f}",
            _output.upper_fixed(record["leakage"] * scale),
            _output.lower_fixed(record["lower_bound"] * per),
            _output.upper_fixed(record["upper_bound"] * per),
            str(record["iterations"]),
            record["status"].replace("_", " "),
        )
        for target, record in zip(targets, records, strict=True)
    )
    headings = (form.replace("_", " "), f"I(X;Y) ({units})", f"leakage ({unit})", "lower bound", "upper bound", "steps")
    return _output.rendered(_output.table_of(rows, headings))


def curve_table(curve: "jp.Frontier | jp.FunnelFrontier", units: Units) -> "RichTable":
    """The points of a curve, a row for each."""
    numbers, (_, unit) = curve.points(units), units.of(curve.problem.leakage.unit)
    across = f"I(X;Y) ({units})" if curve.spent == "disclosure" else "distortion"
    # A price of I(X;Y) may make an objective negative; a bound below 0 on any other one says no more than 0 does.
    least = -math.inf if curve.form == "multiplier" else 0.0
    names = ("target", curve.spent, "leakage", "lower_bound", "gap", "status")
    rows = (
        (
            f"{target:.6g}",
            *(
                (
                    f"{spent:.6f}",
                    _output.upper_fixed(leakage),
                    _output.lower_fixed(max(bound, least)),
                    _output.upper(gap, 2),
                )
                if math.isfinite(leakage)
                else "----"
            ),
            status.replace("_", " "),
        )
        for target, spent, leakage, bound, gap, status in zip(*(numbers[name] for name in names), strict=True)
    )
    headings = [curve.form.replace("_", " "), across, f"leakage ({unit})", "lower bound", "gap"]
    return _output.table_of(rows, headings)
