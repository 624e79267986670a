"""`jaxpriv advise`: which designs a table allows, and the command that fits one."""

import shlex
from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._fit_line import command_line, in_groups, with_rules, words_of
from jaxpriv.cli._options import FormOptions, SplitOptions, TimeOptions, request_of
from jaxpriv.cli._output import Units
from jaxpriv.cli._tables import CostOptions, records_and_measure
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError, NotCertifiedError

# A leakage on the records below this is rounding, and so is that part of a probability.
_ROUNDING = 1e-9
# The design whose command is printed: in the middle of the table.
_SHOWN = 3


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
    further |= {"budget": f"{advice.designs[_SHOWN].budget:.4g}", "out": "design.zip"}
    command = command_line("fit", table, {**vars(chosen), **further})
    record = {**advice.record, "command": command}
    for place, obstacle in enumerate(advice.obstacles):
        record["obstacles"][place]["options"] = list(map(shlex.quote, words_of(obstacle.column, obstacle.rule)))
    files = _output.picture(picture, lambda: advice.plot(units=units.value))
    _output.deliver(record, json, _text(advice, command, measure, units), files, private=True)
    if not all(design.status == "optimal" for design in advice.designs):
        raise NotCertifiedError(
            f"{_output.stopped(clock.stop)}some designs are not certified to --tol {run.tol:g}; what is printed of "
            "them is valid"
        )


def _text(advice: "jp.release.Advice", command: str, measure: FormOptions, units: Units) -> str:
    design, held_out = advice.records
    lines = [
        f"{design} records for the designs, {held_out} held out; {advice.private} private and {advice.useful} useful "
        "combinations",
        *(
            f"{obstacle.sentence}: {shlex.join(words_of(obstacle.column, obstacle.rule))}"
            for obstacle in advice.obstacles
        ),
        f"a guess of the private class is right in {_output.percent(advice.correct_guess)} of these "
        "records without a release",
        "",
        "Each line is a design: its budget is the mean distortion, and each column is changed in this share of the "
        "records",
    ]
    scale, unit = units.of(advice.frontier.problem.leakage.unit)

    def up(leakage: float) -> str:
        return _output.upper_fixed(leakage * scale if leakage * scale > _ROUNDING else 0.0, 4)

    def percent_up(share: float) -> str:
        return f"{_output.upper_fixed(100 * share - _ROUNDING, 1)} %"

    bounded = any(design.population is not None for design in advice.designs)
    rows = (
        (
            f"{design.budget:.4g}",
            *(f"{100 * share:.1f} %" for share in design.changed.values()),
            up(design.leakage),
            _output.lower_fixed(max(design.lower_bound * scale, 0.0), 4),
            percent_up(design.correct_guess),
            *["" if design.population is None else _output.upper_fixed(design.population * scale, 4)] * bounded,
        )
        for design in advice.designs
    )
    headings = ["budget", *advice.designs[0].changed, f"leakage\n({unit})", "optimum\nat least", "guess\nright"]
    designs = _output.table_of(rows, headings + [f"population\n{advice.confidence:g}"] * bounded, after=())
    rows = (
        (
            ", ".join(hidden.columns) or "nothing",
            f"{hidden.distortion:.4g}",
            up(hidden.leakage),
            percent_up(hidden.correct_guess),
            up(hidden.optimum[1]),
        )
        for hidden in advice.hidden
    )
    headings = ["distortion", f"leakage\n({unit})", "guess\nright", "optimum\nthere"]
    hidden = _output.table_of(rows, headings, before=["hidden instead"], after=())
    designs.collapse_padding = hidden.collapse_padding = True  # four columns of a table fit into 80 characters
    legend = [
        f"leakage: {_output.measure_label(measure.option.stated)} on the records of the designs; no mapping of this "
        "budget leaks less than 'optimum at least'",
        "guess right: the best guess of the private class from the release is right in at most this share of them",
        f"population: at most this leaks of people outside of the table, with confidence {advice.confidence:g} for all "
        "designs",
    ]
    legend = legend if bounded else legend[:-1]
    return (
        "".join(f"{line}\n" for line in lines)
        + _output.rendered(designs)
        + "Whole columns hidden, and what the best design leaks that changes as much\n"
        + _output.rendered(hidden)
        + "".join(f"{line}\n" for line in legend)
        + f"To fit one of them (here the design with budget {advice.designs[_SHOWN].budget:.4g}):\n  {command}\n"
    )
