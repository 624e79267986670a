"""`jaxpriv utility`: the mapping that discloses most of X within limits on every outcome."""

from pathlib import Path

from jaxpriv.cli import _output
from jaxpriv.cli._options import TimeOptions, parsed_limit
from jaxpriv.cli._output import MappingOptions
from jaxpriv.cli._results import in_units, result_text, searched, uncertified
from jaxpriv.cli._tables import CountOptions, book_file, problem_of, symbols_of
from jaxpriv.cli._work import working


def utility(
    *,
    data: Path,
    columns: CountOptions,
    limit: list[str],
    confidence: float | None = None,
    run: TimeOptions,
    results: MappingOptions,
) -> None:
    """Design the mapping P(y|x) with the largest I(X;Y) whose every outcome is within limits on lifts.

    Of a joint (S,X) the limits are about S, of P(X) alone about X itself. With --confidence the records are a sample:
    the limits hold for the population behind the counts with that probability, although the mapping was designed on
    them. Prints I(X;Y), a proved upper bound on that of any mapping within the limits, and the gap. Exit code 4: the
    gap is above --tol (or the time limit or Ctrl-C came first); mapping and interval are valid and written.
    """
    columns.check(data)
    asked = [parsed_limit(text) for text in limit]
    run.check()
    results.check()
    from jaxpriv.extremal.utility import stated, utility_within

    named = "joint" if confidence is None else "counts"
    arrays, table = problem_of(data, columns, [named], ["neighbours"])
    files = book_file(results.codebook_out, table)
    given = stated(arrays[named], [(option.measure(arrays), option.value) for option in asked], confidence, named)
    clock, units = run.clock(), results.units
    design = working("Designing", lambda _: utility_within(*given, run.tol, clock), clock)
    numbers = ("value", "upper_bound", "gap", "leakage")
    record = {**searched(design, *numbers, clock=clock, solver=design.method), **in_units("nats")}
    record |= {"lower_bound": design.value} | ({} if confidence is None else {"confidence": confidence})
    whose = "" if confidence is None else f", population, confidence {confidence:g}"
    shown = {
        f"{text.rpartition('=')[0]}{whose}": units.most(leakage)
        for text, leakage in zip(limit, design.leakage, strict=True)
    }
    files |= results.files(lambda: design.mechanism, symbols_of(arrays))
    _output.deliver(record, results.json, result_text(record, "most disclosure", "nats", shown, units), files)
    if design.status != "optimal":
        raise uncertified(design.stopped, run.tol, design.gap, "Raise --tol")
