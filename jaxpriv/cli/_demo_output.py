"""What `jaxpriv demo` prints and draws."""

from typing import TYPE_CHECKING, TypeAlias

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonRecord, Units
from jaxpriv.cli._results import curve_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What hiding columns costs: distortion, leakage, the columns.
Hidden: TypeAlias = list[tuple[float, float, tuple[str, ...]]]


def drawn(
    data: "jp.datasets.Dataset",
    curve: "jp.Frontier",
    shown: int,
    free: float,
    others: Hidden,
    funnel: JsonRecord,
    boundaries: "list[jp.FunnelFrontier]",
    tol: float,
    units: Units,
) -> "dict[str, Figure]":
    """The figures by the names of their files: the frontier, its mapping at the place `shown`, both boundaries.

    `free`: the least distortion at which nothing leaks.
    """
    leaks = " of ".join(f"{leakage * units.per_nat:.2f}" for leakage in (curve.value[shown], others[0][1]))
    title = f"Optimal mapping: {curve.distortion[shown, 0]:.2f} attributes changed\nper person, {leaks} {units} leak"
    return {
        "frontier.png": jp.plotting.plot_frontier(
            curve,
            tol=tol,
            units=units.value,
            others=[(spent, leaked, ",\n".join(hidden) or "none") for spent, leaked, hidden in others],
            others_label="hidden attributes instead",
            free=free,
            xlabel="budget: mean number of changed attributes",
            ylabel=f"leakage of {' and '.join(data.private_names)}",
        ),
        "mapping.png": jp.plotting.plot_mapping(curve.solutions.mechanism[shown], data, title=title),
        "funnel.png": jp.plotting.plot_frontier(
            *boundaries,
            units=units.value,
            labels=("least: privacy funnel", "most: information bottleneck"),
            others=[(spent, leaked, "") for spent, leaked in zip(funnel["disclosure"], funnel["greedy"], strict=True)],
            others_label="greedy merging",
            title="Every release lies between the boundaries",
        ),
    }


def demo_text(curve: "jp.Frontier", record: JsonRecord, others: Hidden, units: Units) -> str:
    """The frontier, what nothing leaks from, hidden attributes for comparison, the funnel, and the files."""
    compiling, solving = (record["seconds"][key] for key in ("compile", "solve"))
    free = record["least_distortion_without_leakage"]
    lines = [
        f"time: {solving:.2f} s to solve {len(record['budget'])} budgets, after {compiling:.2f} s to compile",
        f"nothing leaks from a distortion of {_output.upper(free['value'])} on "
        f"(less than {_output.lower(free['lower_bound'])} is proved impossible)",
        "for comparison, attributes hidden instead (filled with the value that changes least):",
        *(
            f"  {' and '.join(hidden) or 'none':<21}  {leaked * units.per_nat:.4f} {units} at distortion {spent:.4f}"
            for spent, leaked, hidden in others
        ),
        _funnel_text(record["funnel"], units),
        *(f"wrote {path}" for path in record["files"].values()),
        f"next: jaxpriv leakage {record['files']['mapping.npz']} --joint {record['files']['census.npz']}",
    ]
    return _output.rendered(curve_table(curve, units)) + "".join(f"{line}\n" for line in lines)


def _funnel_text(funnel: dict[str, object], units: Units) -> str:
    scale = units.per_nat
    columns = ("disclosure", "value", "lower_bound", "greedy", "greedy_ratio", "status")
    rows = (
        (
            f"{disclosure * scale:.2f}",
            _output.upper_fixed(value * scale),
            _output.lower_fixed(max(bound * scale, 0.0)),
            f"{greedy * scale:.4f}",
            f"{ratio * scale:.4f}",
            status.replace("_", " "),
        )
        for disclosure, value, bound, greedy, ratio, status in zip(*(funnel[name] for name in columns), strict=True)
    )
    headings = (f"disclosed of X ({units})", f"leakage ({units})", "lower bound", "greedy", "greedy by ratio")
    table = _output.table_of(rows, headings)
    heading = f"\nthe privacy funnel: least leakage where so much of X is disclosed ({funnel['seconds']:.2f} s)\n"
    return heading + _output.rendered(table).removesuffix("\n")
