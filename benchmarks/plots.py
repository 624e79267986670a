"""The report's plots, from results alone, at the width of one column."""

import textwrap
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.reading import longest, seconds_per_step, size_along, solvers_of, to_gap
from benchmarks.results import PartRecord, Results, Row
from jaxpriv.plotting import solver_style, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Letters of a legend's line that a column holds beside four marks.
_LEGEND = 40


def _columns(names: list[str]) -> int:
    """Of a legend over a figure of column width: four where the longest four names fit, else two."""
    return 4 if sum(sorted(map(len, names))[-4:]) <= _LEGEND else 2


def look(solver: str) -> dict[str, str | float]:
    """Colour, marker and line of a solver, the same in every figure of the project; the user's own differ by marker."""
    own = {"marker": "s^vDP*"[zlib.crc32(solver.encode()) % 6]} if ":" in solver else {}
    return {**solver_style(solver), "lw": 1.0, **own}


def time_and_memory(results: Results, part: PartRecord, gap: float) -> "Figure | None":
    """Along a sweep: seconds to a certified gap above, peak memory below. None if nothing reached it."""
    curves = {
        solver: _along(results, part, lambda case, s=solver: to_gap(results, case, s, gap))
        for solver in solvers_of(results, part)
    }
    curves = {solver: points for solver, points in curves.items() if points}
    if not curves:
        return None
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 3.9))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.3, 1))
        for solver, points in curves.items():
            sizes = [size for size, _ in points]
            above.plot(sizes, [row.seconds for _, row in points], label=solver, **look(solver))
            low, high = (np.array([getattr(row, f"seconds_{end}") for _, row in points]) for end in ("min", "max"))
            above.vlines(sizes, low, high, color=look(solver)["color"], lw=0.8)
            held = [(size, row.peak_mib) for size, row in points if row.peak_mib]
            if held:
                below.plot(*zip(*held, strict=True), **look(solver))
        _log_sizes(above, sorted({size for points in curves.values() for size, _ in points}))
        _log_values(above)
        above.set_ylabel(f"seconds to a certified\ngap of {gap:g} (median, range)")
        _log_values(below)
        below.set_ylabel("peak memory (MiB above\nimports, compiling included)")
        below.set_xlabel(_axis_label(results, part))
        figure.legend(*above.get_legend_handles_labels(), loc="outside upper center", ncols=_columns(list(curves)))
        figure.align_ylabels()
    return figure


def times_by_group(results: Results, groups: Mapping[str, Sequence[PartRecord]], gap: float) -> "Figure | None":
    """Seconds to a certified gap against |X|, one panel for each group of parts; median and range over its cases."""
    panels = {name: curves for name, parts in groups.items() if (curves := _curves(results, parts, gap))}
    if not panels:
        return None
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 0.5 + 1.6 * len(panels)))
        handles: dict[str, object] = {}
        for axes, (name, curves) in zip(np.atleast_1d(figure.subplots(len(panels), 1)), panels.items(), strict=True):
            for solver, points in curves.items():
                sizes = sorted(points)
                (line,) = axes.plot(sizes, [np.median(points[size]) for size in sizes], **look(solver))
                low, high = ([end(points[size]) for size in sizes] for end in (min, max))
                axes.vlines(sizes, low, high, color=look(solver)["color"], lw=0.8)
                handles.setdefault(solver, line)
            _log_sizes(axes, sorted({size for points in curves.values() for size in points}))
            _log_values(axes)
            axes.set_title(name)
            axes.set_ylabel(f"seconds to {gap:g}")
        axes.set_xlabel("|S| = |X| = |Y| = n")
        figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=3)
        figure.align_ylabels()
    return figure


def _curves(results: Results, parts: Sequence[PartRecord], gap: float) -> dict[str, dict[int, list[float]]]:
    """Solver -> size -> seconds of the cases on which it reached the gap."""
    curves: dict[str, dict[int, list[float]]] = {}
    for part in parts:
        for solver in solvers_of(results, part):
            for size, row in _along(results, part, lambda case, s=solver: to_gap(results, case, s, gap)):
                curves.setdefault(solver, {}).setdefault(size, []).append(row.seconds or 0.0)
    return curves


def gap_over_time(results: Results, cases: Sequence[str]) -> "Figure | None":
    """Judged gap of every accuracy of every solver against its time, one panel for each case."""
    cases = [case for case in cases if any(row.gap is not None for row in results.rows_of(case))]
    if not cases:
        return None
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 0.5 + 1.75 * len(cases)))
        handles: dict[str, object] = {}
        for axes, case in zip(np.atleast_1d(figure.subplots(len(cases), 1)), cases, strict=True):
            names = dict.fromkeys(row.solver for row in results.rows_of(case))
            for solver in names:
                rows = [r for r in results.rows_of(case, solver) if r.seconds is not None and r.gap is not None]
                if rows:
                    rows.sort(key=lambda row: row.gap or 0.0, reverse=True)
                    (line,) = axes.plot(
                        [row.seconds for row in rows],
                        [max(row.gap or 0.0, 1e-10) for row in rows],
                        **look(solver),
                    )
                    handles.setdefault(solver, line)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_title("\n".join(textwrap.wrap(_in_words(case), 44)))
            axes.set_ylabel("certified gap (nats)")
        axes.set_xlabel("seconds (median)")
        figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=_columns(list(handles)))
    return figure


def _in_words(case: str) -> str:
    """ "cube distortion=absolute n=64 seed=1" as "cube, absolute distortion, n = 64"."""
    family, *settings = case.split()
    values = dict(setting.split("=", 1) for setting in settings if "=" in setting)
    values.pop("seed", None)
    distortion = values.pop("distortion", None)
    texts = [family, *([f"{distortion} distortion"] if distortion else [])]
    return ", ".join([*texts, *(f"{name} = {value}" for name, value in values.items())])


def steps_along_axes(results: Results, parts: Sequence[PartRecord]) -> "Figure | None":
    """Seconds per step against each alphabet, one panel for each sweep."""
    if not parts:
        return None
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 0.5 + 1.6 * len(parts)))
        handles: dict[str, object] = {}
        for axes, part in zip(np.atleast_1d(figure.subplots(len(parts), 1)), parts, strict=True):
            sizes: set[int] = set()
            for solver in solvers_of(results, part):
                points = _along(results, part, lambda case, s=solver: longest(results, case, s))
                if points:
                    sizes |= {size for size, _ in points}
                    per_step = [(size, seconds_per_step(row)) for size, row in points]
                    (line,) = axes.plot(*zip(*per_step, strict=True), **look(solver))
                    handles.setdefault(solver, line)
            _log_sizes(axes, sorted(sizes))
            _log_values(axes)
            axes.set_xlabel(_axis_label(results, part))
            axes.set_ylabel("seconds per step")
        figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=_columns(list(handles)))
    return figure


def _along(results: Results, part: PartRecord, pick: Callable[[str], Row | None]) -> list[tuple[int, Row]]:
    points = [
        (size_along(results, part, case.name), pick(case.name)) for case in results.cases if case.name in part.cases
    ]
    return sorted(((size, row) for size, row in points if row is not None), key=lambda point: point[0])


def _axis_label(results: Results, part: PartRecord) -> str:
    if part.axis != "n":
        return f"|{part.axis}|, the others fixed"
    cubes = all(len(set(results.case(name).sizes.values())) == 1 for name in part.cases if results.has(name))
    return "|S| = |X| = |Y| = n" if cubes else "|X| = |Y| = n"


def _log_values(axes: "Axes") -> None:
    """A logarithmic axis, of whole decades where the values fill less than two: no zoom into noise."""
    from matplotlib.ticker import NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_minor_formatter(NullFormatter())
    low, high = axes.get_ylim()
    if high < 100 * low:
        axes.set_ylim(10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high)))


def _log_sizes(axes: "Axes", sizes: Sequence[int]) -> None:
    """A logarithmic axis whose ticks are the sizes that were run."""
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
