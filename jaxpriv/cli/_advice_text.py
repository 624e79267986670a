"""What `jaxpriv advise` prints: the designs that a table allows, beside hiding whole columns."""

import shlex

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._fit_line import words_of
from jaxpriv.cli._options import FormOptions
from jaxpriv.cli._output import Units

# A leakage on the records below this is rounding, and so is that part of a probability.
_ROUNDING = 1e-9
# The design whose command is printed: in the middle of the table.
SHOWN = 3


def advice_text(advice: "jp.release.Advice", command: str, measure: FormOptions, units: Units) -> str:
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
        + f"To fit one of them (here the design with budget {advice.designs[SHOWN].budget:.4g}):\n  {command}\n"
    )
