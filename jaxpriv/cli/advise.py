"""`jaxpriv advise`: which designs a table allows, and the command that fits one."""

import shlex
from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._fit_line import fit_command, in_groups, settings, with_rules
from jaxpriv.cli._options import FormOptions, SplitOptions, TimeOptions, request_of
from jaxpriv.cli._output import JsonRecord, Units
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
    if picture is not None:
        _output.picture_kind(picture, "--picture")
        jp.plotting.require_matplotlib()
    source, of_records = records_and_measure(table, columns, measure)
    run.check()
    clock = run.clock()
    further: dict[str, object] = {**vars(measure), **vars(split)}
    asked = {**further, **of_records, "symbols": symbols, "tol": run.tol, "clock": clock}
    request = request_of(jp.release.AdviseRequest, asked)
    try:
        advice = working("Advising", lambda _: jp.release.advise(source, request), clock)
    except InputError as error:
        tenth = f"{len(columns.useful or ()) / 10:g}"  # of the columns of a record, on average
        raise in_groups(error, table, columns, {**further, "budget": tenth, "out": "design.zip"}) from None
    chosen = with_rules(columns, {one.column: one.rule for one in advice.obstacles})
    further |= {"budget": f"{_shown(advice).budget:.4g}", "out": "design.zip"}
    command = fit_command(table, {**vars(chosen), **further})
    files = {} if picture is None else {picture: _picture(advice, _output.picture_kind(picture, "--picture"), units)}
    _output.deliver(_record(advice, command), json, _text(advice, command, measure, units), files, private=True)
    if not all(one.status == "optimal" for one in advice.designs):
        raise NotCertifiedError(
            f"{_output.stopped(clock.stop)}some designs are not certified to --tol {run.tol:g}; what is printed of "
            "them is valid"
        )


def _shown(advice: "jp.release.Advice") -> "jp.release.Advised":
    return advice.designs[min(_SHOWN, len(advice.designs) - 1)]


def _up(value: float) -> str:
    return _output.upper_fixed(value if value > _ROUNDING else 0.0, 4)


def _percent_up(share: float) -> str:
    return f"{_output.upper_fixed(100 * share - _ROUNDING, 1)} %"


def _text(advice: "jp.release.Advice", command: str, measure: FormOptions, units: Units) -> str:
    name = advice.frontier.problem.leakage.unit
    scale, unit = units.of(name)
    design, held_out = advice.records
    lines = [
        f"{design} records for the designs, {held_out} held out; {advice.private} private and {advice.useful} useful "
        "combinations",
        *(f"{one.sentence}: {' '.join(_option(one))}" for one in advice.obstacles),
        f"a guess of the private class is right in {_output.lower_fixed(100 * advice.correct_guess, 1)} % of these "
        "records without a release",
    ]
    bounded = any(one.population is not None for one in advice.designs)
    names = list(advice.designs[0].changed)
    headings = ["budget", *names, f"leakage\n({unit})", "optimum\nat least", "guess\nright"]
    headings += [f"population\n{advice.confidence:g}"] * bounded
    designs = (
        (
            f"{one.budget:.4g}",
            *(f"{100 * share:.1f} %" for share in one.changed.values()),
            _up(one.leakage * scale),
            _output.lower_fixed(max(one.lower_bound * scale, 0.0), 4),
            _percent_up(one.correct_guess),
            *["" if one.population is None else _output.upper_fixed(one.population * scale, 4)] * bounded,
        )
        for one in advice.designs
    )
    instead = (
        (
            ", ".join(one.columns) or "nothing",
            f"{one.distortion:.4g}",
            _up(one.leakage * scale),
            _percent_up(one.correct_guess),
            _up(one.optimum[1] * scale),
        )
        for one in advice.hidden
    )
    table = _output.table_of(designs, headings, after=())
    headings = ["distortion", f"leakage\n({unit})", "guess\nright", "optimum\nthere"]
    hidden = _output.table_of(instead, headings, before=["hidden instead"], after=())
    table.collapse_padding = hidden.collapse_padding = True  # four columns of a table fit into 80 characters
    return (
        "\n".join(lines)
        + f"\n\nDesigns: the mean distortion, the records in which a column is changed, {measure.leakage}\n"
        + _output.rendered(table)
        + "Whole columns hidden, and what the best design leaks that changes as much\n"
        + _output.rendered(hidden)
        + f"To fit one of them (here the design with budget {_shown(advice).budget:.4g}):\n  {command}\n"
    )


def _option(obstacle: "jp.release.Obstacle") -> list[str]:
    """The options of `fit` that remove an obstacle, as a shell takes them."""
    given = settings(obstacle.column, obstacle.rule)
    words = (word for name, text in given.items() for word in (f"--{name}", text))
    return [shlex.quote(word) for word in words]


def _picture(advice: "jp.release.Advice", kind: str, units: Units) -> bytes:
    unit = advice.frontier.problem.leakage.unit
    others = [
        (one.distortion, one.leakage, one.columns[0] if one.columns else "as it is")
        for one in advice.hidden
        if len(one.columns) < 2
    ]
    figure = jp.plotting.plot_frontier(
        advice.frontier,
        units=units.value if unit == "nats" else "nats",
        others=others,
        others_label="a column hidden instead",
        free=advice.designs[-1].distortion,
    )
    figure.axes[0].set_xlim(right=1.05 * max(spent for spent, _, _ in others))
    return jp.plotting.image_bytes(figure, kind)


def _record(advice: "jp.release.Advice", command: str) -> JsonRecord:
    return {
        "records": dict(zip(("design", "held_out"), advice.records, strict=True)),
        "alphabets": _output.record_of(advice, "private", "useful"),
        **_output.record_of(advice, "correct_guess", "confidence", "hidden"),
        "obstacles": [
            {**_output.record_of(one, "column", "sentence"), "options": _option(one)} for one in advice.obstacles
        ],
        "designs": [{**_output.record_of(one), "mean_changes": one.mean_changes} for one in advice.designs],
        "command": command,
        "units": advice.frontier.problem.leakage.unit,
    }
