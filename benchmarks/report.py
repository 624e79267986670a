"""One page from a results file: tables with the gap beside every time, plots, growth exponents.

    python -m benchmarks.report RESULTS.json

writes `NAME.md` and its plots `NAME-*.png` beside `NAME.json`. Nothing is measured here.
"""

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import growth, plots, reading, results
from benchmarks.results import PartRecord, Results, Row
from benchmarks.solvers import SOLVERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The plots compare at the first of these that two solvers reached, or else at the last.
GAPS = (1e-6, 1e-4, 1e-2)


def summary(document: Results) -> list[str]:
    """The lines printed at the end of a run."""
    lines = reading.cube_summary(document)
    for one in reading.exponents(document):
        if one.quantity == "seconds per step":
            lines.append(
                f"{one.part}, {one.solver}: {one.quantity} ~ {one.axis}^{_law(one.measured)}, {_expected(one)}"
            )
    return lines


def _expected(one: reading.Exponent) -> str:
    return "nothing predicted" if one.predicted is None else f"predicted {one.predicted:.2f}"


def _law(law: growth.PowerLaw | None) -> str:
    if law is None:
        return "-"
    error = "" if law.error is None else f" ± {law.error:.2f}"
    return f"{law.exponent:.2f}{error}"


def write(document: Results, source: str | os.PathLike[str]) -> Path:
    """Write the page and its plots beside the results file `source`; the path of the page."""
    from jaxpriv._files import atomic_write
    from jaxpriv.plotting import save

    source = Path(source)
    page = source.with_suffix(".md")
    figures = _figures(document)
    for name, (_, figure) in figures.items():
        save(figure, source.with_name(f"{source.stem}-{name}.png"))
    links = [f"![{caption}]({source.stem}-{name}.png)\n\n*{caption}*\n" for name, (caption, _) in figures.items()]
    atomic_write(page, "\n".join([*_head(document, source.name), *links, *_tables(document)]).encode())
    return page


def _figures(document: Results) -> dict[str, tuple[str, "Figure"]]:
    """Name in the file -> caption and figure; what has no data is left out."""
    drawn: dict[str, tuple[str, Figure | None]] = {}
    sweeps = [part for part in document.parts if part.axis is not None]
    for part in (part for part in sweeps if not part.title.startswith("growth")):
        cases = [case.name for case in document.cases if case.name in part.cases]
        if len({reading.size_along(document, part, case) for case in cases}) < 2:
            continue
        reached = {gap: reading.reaching(document, cases, gap) for gap in GAPS}
        gap = next((gap for gap in GAPS if len(reached[gap]) > 1), GAPS[-1])
        name = re.sub("[^a-z0-9]+", "-", part.title.lower())
        missing = [solver for solver in reading.solvers_of(document, part) if solver not in reached[gap]]
        caption = f"{part.title}: time to a certified gap of {gap:g} and peak memory against size."
        caption += f" Never reached by {', '.join(missing)}." if missing else ""
        drawn[name] = caption, plots.time_and_memory(document, part, gap)
        if part.title in ("cube, absolute", "S = X, absolute"):
            caption = f"{part.title}: what more accuracy costs, at the largest size."
            drawn[f"{name}-accuracy"] = caption, plots.gap_over_time(document, cases[-1:])
    grown = [part for part in sweeps if part.title.startswith("growth")]
    drawn["growth"] = (
        "Seconds per step as one alphabet grows; what exceeded the time limit is missing.",
        plots.steps_along_axes(document, grown),
    )
    return {name: (caption, figure) for name, (caption, figure) in drawn.items() if figure is not None}


def _head(document: Results, source: str) -> list[str]:
    known = ", ".join(f"{name} {version}" for name, version in document.versions.items() if version)
    box = document.machine
    return [
        f"# Benchmark: suite {document.suite}\n",
        f"{document.date}, seed {document.seed}, {document.seconds:.0f} s in all. {box['processor']}, "
        f"{box['cores']} cores, {box['memory_gib']} GiB, accelerator: {box['accelerator']}. {known}. "
        f"Made from `{source}` by `python -m benchmarks.report`.\n",
        "Every solver is judged alike: its mechanism is clipped, normalised and mixed with the least-distortion map "
        "until the budget holds; the gap is the value of what remains minus the best lower bound certified for the "
        "case. Times are medians after a warm-up, compile time apart; each solver runs alone in its own process. "
        "Memory is the peak above the process's size after its imports, compiling included.\n",
        *(f"    {line}" for line in summary(document)),
        "",
    ]


def _tables(document: Results) -> list[str]:
    lines = ["## Exponents\n", *_exponent_table(document), ""]
    lines += ["## Every case\n", "Seconds (gap) for the accuracy asked; what did not run says why.\n"]
    for part in document.parts:
        lines += [f"### {part.title}\n", *_part_table(document, part), ""]
    lines += ["## What the times contain\n"]
    names = dict.fromkeys(row.solver for row in document.rows)
    lines += [f"* {name}: {SOLVERS[name].timed}" for name in names if name in SOLVERS]
    return [*lines, ""]


def _exponent_table(document: Results) -> list[str]:
    found = reading.exponents(document)
    if not found:
        return ["No sweep has two sizes that were solved."]
    rows = [
        f"| {_escaped(one.part)} | {one.solver} | {one.quantity} | {_law(one.measured)} | "
        f"{'-' if one.predicted is None else f'{one.predicted:.2f}'} | "
        f"{', '.join(f'{size:g}' for size in one.measured.sizes) if one.measured else ''} |"
        for one in found
    ]
    return [
        "Least-squares slope of log quantity on log size over the (at most three) largest sizes of the sweep, ± its "
        "standard error. Seconds: to the tightest target, where it was reached; per step: of the longest run, "
        "preparation and certificate included; memory: the compiler's share hides the growth at small sizes. "
        "Predicted: the slope of the operation count of one step, or of the numbers held, over the same sizes.\n",
        "| sweep | solver | quantity | measured | predicted | sizes |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def _escaped(text: str) -> str:
    """Text for a cell of a table, whose borders are bars."""
    return text.replace("|", "\\|")


def _part_table(document: Results, part: PartRecord) -> list[str]:
    lines = [
        "| case | solver | accuracy: seconds (gap) | compile s | steps | peak MiB |",
        "|---|---|---|---|---|---|",
    ]
    for case in (case for case in document.cases if case.name in part.cases):
        for solver in dict.fromkeys(row.solver for row in document.rows_of(case.name)):
            rows = document.rows_of(case.name, solver)
            cells = "; ".join(_cell(row) for row in rows)
            compiling = max((row.compile_seconds or 0.0 for row in rows), default=0.0)
            steps = "/".join(str(row.steps) for row in rows if row.steps is not None)
            peak = max((row.peak_mib or 0.0 for row in rows), default=0.0)
            lines.append(f"| {case.name} | {solver} | {cells} | {_short(compiling)} | {steps} | {_short(peak)} |")
    return lines


def _cell(row: Row) -> str:
    if row.seconds is None:
        return f"{row.accuracy}: {row.status} ({_escaped(row.reason)})"
    gap = "no bound" if row.gap is None else f"{row.gap:.1e}"
    return f"{row.accuracy}: **{_short(row.seconds)}** ({gap}{'' if row.judged else ', own certificate'})"


def _short(number: Any) -> str:
    return f"{number:.3g}" if number else "-"


def main() -> None:
    """Read, write, say where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    args = parser.parse_args()
    print(f"report: {write(results.read(args.results), args.results)}")


if __name__ == "__main__":
    main()
