"""What several commands print of a result, and how they end when it is not certified."""

import math

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonRecord
from jaxpriv.errors import NotCertifiedError


def solved(found: "jp.Solution | jp.FunnelSolution", *names: str) -> JsonRecord:
    """The JSON of a result with these of its numbers."""
    head, last = {"status": found.status}, {"iterations": found.steps, "seconds": found.seconds}
    return {**head, **_output.record_of(found, *names, "solver"), **last}


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

    known = {Stop.NONE: advice, Stop.TIME_LIMIT: "Allow more --time-limit", Stop.INTERRUPTED: "Let it run longer"}
    return NotCertifiedError(
        f"{_output.stopped(reason)}not certified to --tol {tol:g}: the gap is {_output.upper(gap, 2)}. The mapping "
        f"and its interval are valid. {known[Stop(int(reason))]}"
    )


def work_of(record: JsonRecord) -> dict[str, str]:
    """The last lines of a result."""
    seconds = record["seconds"]
    return {
        "solver": f"{record['solver']}, {int(record['iterations'])} iterations",
        "time": f"{seconds['compile']:.2f} s to compile, {seconds['solve']:.2f} s to solve",
    }
