"""`jaxpriv advise`: which designs a table allows, and the command that fits one."""

import shlex
from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._advice_text import SHOWN, advice_text
from jaxpriv.cli._fit_line import command_line, in_groups, with_rules, words_of
from jaxpriv.cli._options import FormOptions, SplitOptions, TimeOptions, request_of
from jaxpriv.cli._output import Units
from jaxpriv.cli._tables import CostOptions, records_and_measure
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError, NotCertifiedError


def advise(
    *,
    table: Path,
    columns: CostOptions,
    measure: FormOptions,
    symbols: int = 128,
    split: SplitOptions,
    run: TimeOptions,
    picture: Path | None = None,
    units: Units = Units.nats,
    json: Path | None = None,
) -> None:
    """Compare eight designs for a table, from almost as it is to one that reveals nothing, with hiding whole columns.

    At each the certified least leakage, what is changed, how often a guess of the private class is right, and a bound
    for the population from the records that were held out (all bounds hold together). Columns that keep the table from
    having a design get classes, which are named. The last line is the command that fits one of the designs.
    """
    _output.need_picture("--picture", picture)
    split.check_split()
    source, of_records = records_and_measure(table, columns, measure)
    run.check()
    clock = run.clock()
    from jaxpriv.release.advising import advise_within

    further: dict[str, object] = {**vars(measure), **vars(split)}
    asked = {**further, **of_records, "symbols": symbols, "tol": run.tol}
    request = request_of(jp.release.AdviseRequest, asked)
    try:
        advice = working("Advising", lambda _: advise_within(source, request, clock), clock)
    except InputError as error:
        tenth = f"{len(columns.useful or ()) / 10:g}"  # of the columns of a record, on average
        raise in_groups(error, table, columns, {**further, "budget": tenth, "out": "design.zip"}) from None
    chosen = with_rules(columns, {obstacle.column: obstacle.rule for obstacle in advice.obstacles})
    further |= {"budget": f"{advice.designs[SHOWN].budget:.4g}", "out": "design.zip"}
    command = command_line("fit", table, {**vars(chosen), **further})
    record = {**advice.record, "command": command}
    for place, obstacle in enumerate(advice.obstacles):
        record["obstacles"][place]["options"] = list(map(shlex.quote, words_of(obstacle.column, obstacle.rule)))
    files = _output.picture(picture, lambda: advice.plot(units=units.value))
    _output.deliver(record, json, advice_text(advice, command, measure, units), files, private=True)
    if not all(design.status == "optimal" for design in advice.designs):
        raise NotCertifiedError(
            f"{_output.stopped(clock.stop)}some designs are not certified to --tol {run.tol:g}; what is printed of "
            "them is valid"
        )
