"""One page from a results file: tables with the gap beside every time, plots, growth exponents.

    python -m benchmarks.report RESULTS.json

writes `NAME.md` and its plots `NAME-*.png` beside `NAME.json`. Nothing is measured here.
"""

import argparse
import os
import re
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import growth, plots, reading, results
from benchmarks.results import PartRecord, Results, Row
from benchmarks.solvers import SOLVERS
from benchmarks.suites import GIVEN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The plots compare at the first of these that two solvers reached, or else at the last.
GAPS = (1e-6, 1e-4, 1e-2)
# A sweep over fewer sizes is in the tables alone.
_DRAWN_FROM = 4
# Problems of the command line that are drawn.
_PANELS = 6
# A measured and a predicted exponent that differ by less agree.
_NEAR = 0.3


def summary(document: Results) -> list[str]:
    """The lines printed at the end of a run."""
    lines = reading.cube_summary(document) + [_compared(one) for one in reading.comparisons(document)]
    for one in reading.exponents(document):
        if one.quantity == "seconds per step":
            lines.append(
                f"{one.part}, {one.solver}: {one.quantity} ~ {one.axis}^{_law(one.measured)}, {_expected(one)}"
            )
    return lines


def _compared(one: reading.Comparison) -> str:
    text = f"{one.group}, n={one.size}: "
    if "interior-point" in one.absent:
        return f"{text}not run"
    if not one.ours:
        return f"{text}ours never within {one.gap:g}"
    median = statistics.median(row.seconds or 0.0 for row in one.ours)
    text += f"ours {1e3 * median:.1f} ms to {one.gap:g} (median of {len(one.ours)} of {one.cases})"
    if not one.ratios:
        return f"{text}; no peer that was run reached that"
    return f"{text}; fastest good peer ({', '.join(one.fastest)}) takes {_range(one.ratios)} as long"


def _range(ratios: tuple[float, ...]) -> str:
    text = f"{statistics.median(ratios):.2g}x"
    return text if len(ratios) == 1 else f"{text} ({min(ratios):.2g}x to {max(ratios):.2g}x, {len(ratios)} cases)"


def _expected(one: reading.Exponent) -> str:
    return "nothing predicted" if one.predicted is None else f"predicted {one.predicted:.2f}"


def _law(law: growth.PowerLaw | None) -> str:
    if law is None:
        return "-"
    error = "" if law.error is None else f" ± {law.error:.2f}"
    return f"{law.exponent:.2f}{error}"


def write(document: Results, source: str | os.PathLike[str]) -> Path:
    """Write the page and its plots beside the results file `source`; the path of the page."""
    from jaxpriv._runtime.files import atomic_write
    from jaxpriv.plotting import save

    source = Path(source)
    page = source.with_suffix(".md")
    figures = _figures(document)
    for name, (_, figure) in figures.items():
        save(figure, source.with_name(f"{source.stem}-{name}.png"))
    links = [f"![{caption}]({source.stem}-{name}.png)\n\n*{caption}*\n" for name, (caption, _) in figures.items()]
    text = [f"# Benchmark: suite {document.suite}\n", *links[:1], *_verdict(document), *links[1:]]
    atomic_write(page, "\n".join([*text, *_how(document, source.name), *_tables(document)]).encode())
    return page


def _figures(document: Results) -> dict[str, tuple[str, "Figure"]]:
    """Name in the file -> caption and figure; what has no data is left out."""
    drawn: dict[str, tuple[str, Figure | None]] = {}
    sweeps = [part for part in document.parts if part.axis is not None and reading.group_of(part) is None]
    for part in (part for part in sweeps if not part.title.startswith("growth")):
        cases = [case.name for case in document.cases if case.name in part.cases]
        ran = [row for row in document.rows if row.case in cases and row.status not in ("skipped", "unavailable")]
        if len({reading.size_along(document, part, row.case) for row in ran}) < _DRAWN_FROM:
            continue
        reached = {gap: reading.reaching(document, cases, gap) for gap in GAPS}
        gap = next((gap for gap in GAPS if len(reached[gap]) > 1), GAPS[-1])
        name = re.sub("[^a-z0-9]+", "-", part.title.lower())
        missing = [solver for solver in dict.fromkeys(row.solver for row in ran) if solver not in reached[gap]]
        absent = [solver for solver in reading.solvers_of(document, part) if all(row.solver != solver for row in ran)]
        at_gap = [row for row in document.rows if row.case in cases and row.accuracy == f"{gap:g}"]
        spared = {row.solver for row in at_gap} - {row.solver for row in at_gap if row.status != "skipped"}
        absent += [f"{solver} to this gap" for solver in missing if solver in spared]
        missing = [solver for solver in missing if solver not in spared]
        caption = f"{part.title}: time to a certified gap of {gap:g} and peak memory against size."
        caption += f" Never reached by {', '.join(missing)}." if missing else ""
        caption += f" Not run: {', '.join(absent)}." if absent else ""
        drawn[name] = caption, plots.time_and_memory(document, part, gap)
        if part.title in ("cube, absolute", "S = X, absolute"):
            caption = f"{part.title}: what more accuracy costs, at the largest size."
            drawn[f"{name}-accuracy"] = caption, plots.gap_over_time(document, cases[-1:])
    given = [case for part in document.parts if part.title == GIVEN for case in part.cases]
    drawn["problems"] = (
        "What more accuracy costs: the gap of every accuracy against its time.",
        plots.gap_over_time(document, given[:_PANELS]),
    )
    grown = [part for part in sweeps if part.title.startswith("growth")]
    drawn["growth"] = (
        "Seconds per step as one alphabet grows; what exceeded the time limit is missing.",
        plots.steps_along_axes(document, grown),
    )
    for kind in ("worst outcome", "linear"):
        groups = {name: parts for name, parts in reading.limited_groups(document).items() if name.startswith(kind)}
        cases = [
            case.name
            for parts in groups.values()
            for part in parts
            for case in document.cases
            if case.name in part.cases
        ]
        gap = next((gap for gap in GAPS if len(reading.reaching(document, cases, gap)) > 1), GAPS[-1])
        caption = f"Limits on leakage, {kind}: time to a certified gap of {gap:g} against size, compile time apart; "
        caption += "medians and ranges over the cases of a size. What never reached the gap is missing."
        drawn[kind.replace(" ", "-")] = caption, plots.times_by_group(document, groups, gap)
    return {name: (caption, figure) for name, (caption, figure) in drawn.items() if figure is not None}


def _verdict(document: Results) -> list[str]:
    """What the page says in a sentence: the largest size on which we are compared with others."""
    cubes = [reading.cube_line(one) for one in reading.cubes(document) if one.ratios]
    compared = cubes or [_compared(one) for one in reading.comparisons(document)]
    return [f"{'At ' if compared[-1].startswith('n=') else 'Under limits: '}{compared[-1]}.\n"] if compared else []


def _how(document: Results, source: str) -> list[str]:
    known = ", ".join(f"{name} {version}" for name, version in document.versions.items() if version)
    box = document.machine
    return [
        "## How it was measured\n",
        f"{document.date}, seed {document.seed}, {document.seconds:.0f} s in all. {box['processor']}, "
        f"{box['cores']} cores, {box['memory_gib']} GiB, accelerator: {box['accelerator']}. {known}. "
        f"Made from `{source}` by `python -m benchmarks.report`.\n",
        "Every solver is evaluated by the same function. Its mechanism is clipped, normalised, and mixed with another "
        "one as far as the limits require: the mechanism of least distortion under a budget, a release without "
        "information under a limit on leakage (the value is then the distortion), X itself in a funnel. The gap is the "
        "value of the result minus the best lower bound certified for the case. Times are "
        "medians after a warm-up, compile time apart; each solver runs alone in its "
        "own process. Memory is the peak above the process's size after its imports, compiling included.\n",
    ]


def _tables(document: Results) -> list[str]:
    lines = _comparison_table(document) + _funnel_table(document)
    lines += ["## Exponents\n", *_exponent_table(document), ""]
    lines += ["## Every case\n", "Seconds (gap) for the accuracy asked; what did not run says why.\n"]
    for part in document.parts:
        lines += [f"### {part.title}\n", *_part_table(document, part), ""]
    lines += ["## What the times contain\n"]
    names = dict.fromkeys(row.solver for row in document.rows)
    lines += [f"* {name}: {SOLVERS[name].timed}" for name in names if name in SOLVERS or ":" in name]
    return [*lines, ""]


def _comparison_table(document: Results) -> list[str]:
    """Time to a certified gap under limits on leakage; nothing if the suite has no such part."""
    found = [one for gap in (1e-6, 1e-4) for one in reading.comparisons(document, gap)]
    if not found:
        return []
    rows = []
    for one in found:
        seconds = [row.seconds or 0.0 for row in one.ours]
        steps = [row.steps or 0 for row in one.ours]
        cells = [
            _escaped(one.group),
            str(one.size),
            f"{one.gap:g}",
            f"{len(one.ours)}/{one.cases}",
            f"{_short(statistics.median(seconds))} ({_short(min(seconds))} to {_short(max(seconds))})"
            if seconds
            else "-",
            f"{min(steps)}-{max(steps)}" if steps else "-",
            f"{max(row.gap or 0.0 for row in one.ours):.1e}" if one.ours else "-",
            _short(one.compiling),
            ", ".join(one.fastest) or "none",
            _range(one.ratios) if one.ratios else "-",
            ", ".join(one.missing) or "-",
            ", ".join(one.absent) or "-",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return [
        "## Limits on leakage\n",
        "Least distortion under a limit. Ours is the interior-point method; a peer is as good if its repaired "
        "mechanism is within the same gap of the best certified bound. The accuracies that were not run are in the "
        "tables of every case below, with the reason.\n",
        "| limit | n | gap | ours reached | ours, seconds | steps | largest gap | compile s | fastest good peer | "
        "takes as long | never reached by | not run |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def _funnel_table(document: Results) -> list[str]:
    """Leakage at equal disclosure beside its certified bound; nothing if the suite has no such case."""
    cells = []
    for case in (case for case in document.cases if case.family.startswith("funnel")):
        bound = "none" if case.bound is None else f"{case.bound:.9f} ({case.bound_by})"
        for row in (row for row in document.rows_of(case.name) if row.seconds is not None and row.value is not None):
            gap = "no bound" if row.gap is None else f"{row.gap:.1e}"
            own = "-" if row.lower_bound is None else f"{row.value - row.lower_bound:.1e}"
            numbers = [f"{row.value:.9f}", gap, own, _short(row.seconds), _short(row.compile_seconds)]
            cells.append([_escaped(case.name), bound, row.solver, row.accuracy, *numbers])
    if not cells:
        return []
    return [
        "## Leakage at equal disclosure\n",
        "Nats of I(S;Y) at I(X;Y) >= R, as the judge measures them. The gap is to the best lower bound that any solver "
        "certified for the case; the gap certified by the solver itself is beside it, where it certifies anything.\n",
        "| case | certified bound | solver | effort | leakage | gap | own gap | seconds | compile s |",
        "|---|---|---|---|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in cells),
        "",
    ]


def _exponent_table(document: Results) -> list[str]:
    found = reading.exponents(document)
    if not found:
        return ["No sweep has two sizes that were solved."]
    rows = [
        f"| {_escaped(one.part)} | {one.solver} | {one.quantity} | {_law(one.measured)} | "
        f"{'-' if one.predicted is None else f'{one.predicted:.2f}'} | "
        f"{', '.join(f'{size:g}' for size in one.measured.sizes) if one.measured else ''} | "
        f"{', '.join(f'{slope:.2f}' for slope in one.local)} | {_reason(one)} |"
        for one in found
    ]
    return [
        "Least-squares slope of log quantity on log size over the (at most three) largest sizes of the sweep, ± its "
        "standard error. Seconds: to the tightest target, where it was reached; per step: of the longest run, "
        "preparation and certificate included; memory: the compiler's share hides the growth at small sizes. "
        "Predicted: the slope of the operation count of one step, or of the numbers held, over the same sizes.\n",
        "Local: the slope from each size to the next. Where it rises towards the prediction, costs that do not grow "
        "(calls, the certificate, preparation) still dominate the smaller sizes.\n",
        "| sweep | solver | quantity | measured | predicted | sizes | local | where they differ |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
    ]


def _reason(one: reading.Exponent) -> str:
    """Why the measured slope is not the predicted one, as far as the sizes that were run show it."""
    if one.measured is None or one.predicted is None:
        return ""
    apart = one.predicted - one.measured.exponent
    if abs(apart) <= max(_NEAR, 2 * (one.measured.error or 0.0)):
        return ""
    if apart < 0:
        return "grows faster than its operations"
    if one.quantity == "peak memory":
        return "the compiler's memory hides it"
    if len(one.local) < 2:
        return "two sizes do not show it"
    if one.local[-1] > one.local[0] + _NEAR / 2:
        return "rising: fixed costs dominate the smaller sizes"
    return "not explained by these sizes"


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
