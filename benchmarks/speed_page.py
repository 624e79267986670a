"""Write the numbers of docs/explanation/speed.md and two-grids.md again: `python -m benchmarks.speed_page`.

A block of a page begins with a comment that names its results file, `<!-- short.json -->`, and ends with
`<!-- end -->`. Nothing is measured here. A file that does not exist leaves its block as it is.
"""

import re
import statistics
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from benchmarks import reading, results
from benchmarks.results import CaseRecord, Results, Row

ROOT = Path(__file__).parents[1]
EXPLANATION = ROOT / "docs" / "explanation"
RESULTS = ROOT / "benchmarks" / "results"
PUBLISHED = "https://github.com/jaxpriv/jaxpriv/blob/main/benchmarks/results"
_NAMES = {
    "clarabel": "Clarabel",
    "ecos": "ECOS",
    "scs": "SCS",
    "paper-dca": "difference of convex functions, as in its paper",
    "paper-splitting": "splitting, as in its paper",
}
_BLOCK = re.compile(r"(?P<head><!-- (?P<name>[a-z]+)\.json -->\n\n).*?(?P<foot>\n\n<!-- end -->)", re.DOTALL)


def time(seconds: float) -> str:
    """Two digits, in ms below 0.1 s; the tens of seconds in full."""
    value, unit = (1e3 * seconds, "ms") if seconds < 0.0995 else (seconds, "s")
    return f"{value:.0f} {unit}" if value >= 9.95 else f"{value:.2g} {unit}"


def _span(values: Iterable[float]) -> str:
    """The range of some numbers, or the one number, in two digits."""
    ordered = sorted(values)
    low, high = (f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" for value in (ordered[0], ordered[-1]))
    return low if low == high else f"{low} to {high}"


def _named(row: Row) -> str:
    return _NAMES.get(row.solver, row.solver)


def _source(document: Results, name: str, options: str) -> str:
    version, jax = document.versions["jaxpriv"], document.versions["jax"]
    return f"Version {version} with JAX {jax}, `{options}`,\n[all cases]({PUBLISHED}/{name}.md)"


def cubes(document: Results) -> list[str]:
    """The table of cubes: ours beside the fastest conic solver that is good enough."""
    lines = [
        "| n | jaxpriv | fastest equally accurate cvxpy solver | cost of 1e-8 in place of 1e-6 |",
        "|---|---|---|---|",
    ]
    for one in reading.cubes(document):
        if not one.ratios or not one.dearer:
            continue
        peer = time(statistics.median(row.seconds or 0.0 for row in one.peers))
        who = ", ".join(dict.fromkeys(_named(row) for row in one.peers))
        slower = f"{peer} ({who}), {_span(one.ratios)} times slower"
        if len(one.ratios) > 1:
            slower += f" ({len(one.ratios)} instances)"
        ours, dearer = statistics.median(one.ours), statistics.median(one.dearer)
        lines.append(f"| {one.n} | {time(ours)} | {slower} | {dearer:.2f} times |")
    return lines


def _only(document: Results, family: str, solver: str, **parameters: object) -> tuple[CaseRecord, Row]:
    """The case of a family with these parameters, and a solver's time to a gap of 1e-6 on it, or its last accuracy."""
    for case in document.cases:
        if case.family == family and parameters.items() <= case.parameters.items():
            rows = [row for row in document.rows_of(case.name, solver) if row.seconds is not None]
            if rows:
                return case, reading.to_gap(document, case.name, solver, 1e-6) or rows[-1]
    raise ValueError(f"no result of {solver} on {family} {parameters}")


def _seconds(row: Row) -> str:
    return time(row.seconds or 0.0)


def short(document: Results) -> str:
    """One instance of each size."""
    source = _source(document, "short", "make bench")
    return "\n".join([f"{source}; one instance where no number is given:", "", *cubes(document)])


def dense(document: Results) -> str:
    """Several instances of each size, a curve, and two large shapes."""
    command = f"python -m benchmarks.run --suite dense --seed {document.seed}"
    points = [_only(document, "curve", solver)[1] for solver in ("frontier", "single-solves")]
    few = _only(document, "shape", "interior-point", S=16)[1]
    large = _only(document, "cube", "interior-point", n=256)[1]
    return "\n".join(
        [
            f"{_source(document, 'dense', command)}; medians:",
            "",
            *cubes(document),
            "",
            f"A frontier of 200 points with 20 x 60 x 60 symbols took {_seconds(points[0])} in batches,",
            f"{_seconds(points[1])} as single solves. |S| = 16, |X| = |Y| = 512 took {_seconds(few)}; n = 256 took",
            f"{_seconds(large)}.",
        ]
    )


def large(document: Results) -> str:
    """Alphabets that no table is made for."""
    command = f"python -m benchmarks.run --suite large --seed {document.seed}"
    ordered, two_grid = _only(document, "ordered", "two-grid", n=65536)
    rough, accelerated = _only(document, "shape", "accelerated", X=8192)
    texts = []
    for case, row in ((ordered, two_grid), (rough, accelerated)):
        relative = f"{(row.gap or 0.0) / (case.bound or 1.0):.0e}".replace("e-0", "e-")
        memory = f"{(row.peak_mib or 0.0) / 1024:.1f} GiB"
        texts.append(f"to a certified relative gap of {relative}: {_seconds(row)}, {memory}")
    return (
        f"|S| = 64. 65 536 by 65 536 ordered symbols {texts[0]}.\n8192 by 8192 without structure {texts[1]}.\n"
        f"{_source(document, 'large', command)}, [](two-grids.md)."
    )


def funnel(document: Results) -> str:
    """The census funnel: the certified optimum beside the other methods."""
    command = f"python -m benchmarks.run --suite funnel --seed {document.seed}"
    case, proved = _only(document, "funnel-census", "column-generation", table="full")
    others = [row for row in document.rows_of(case.name) if row.value is not None and row.seconds is not None]
    local = [row for row in others if row.solver not in ("column-generation", "greedy")]
    best = min(local, key=lambda row: row.value or 0.0)
    quick = min(local, key=lambda row: row.seconds or 0.0)
    greedy = next(row for row in others if row.solver == "greedy")
    return (
        f"The census funnel (14 x 55) at I(X;Y) = {case.parameters['nats']:.4f} nats: the certified optimum is\n"
        f"{proved.value:.4f} nats ({_seconds(proved)}). Of the local methods the best reached {best.value:.4f} "
        f"({_named(best)}, {_seconds(best)})\nand the quickest {quick.value:.4f} ({_named(quick)}, {_seconds(quick)}); "
        f"greedy merging reached {greedy.value:.4f}.\n{_source(document, 'funnel', command)}, [](funnel.md)."
    )


def _pair(values: Iterable[str]) -> str:
    """Numbers of two accuracies; the one unit of both stands once."""
    first, *rest = dict.fromkeys(values)
    if not rest:
        return first
    number, _, unit = first.partition(" ")
    return f"{number if rest[0].partition(' ')[2] == unit else first} / {rest[0]}"


def large_table(document: Results) -> str:
    """Every size and accuracy of the streaming methods."""
    lines = [
        "| symbols of X and Y | method | requested gap | certified, relative | time | peak memory |",
        "|---|---|---|---|---|---|",
    ]
    for case in document.cases:
        solver, kind = ("two-grid", "smooth, ordered") if case.family == "ordered" else ("accelerated", "no structure")
        rows = [row for row in document.rows_of(case.name, solver) if row.seconds is not None]
        asked = _pair(f"{float(row.accuracy):.0e}".replace("e-0", "e-") for row in rows)
        reached = _pair(f"{(row.gap or 0.0) / (case.bound or 1.0):.0e}".replace("e-0", "e-") for row in rows)
        memory = _pair(f"{(row.peak_mib or 0.0) / 1024:.2f} GiB" for row in rows)
        cells = [f"{case.sizes['X']}, {kind}", solver, asked, reached, _pair(map(_seconds, rows)), memory]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


Maker = Callable[[Results], str]
PAGES: dict[str, dict[str, Maker]] = {
    "speed.md": {"short": short, "dense": dense, "large": large, "funnel": funnel},
    "two-grids.md": {"large": large_table},
}


def renewed(page: str, makers: Mapping[str, Maker], folder: Path = RESULTS) -> str:
    """A page with its blocks made again from the results files of a folder."""

    def block(found: re.Match[str]) -> str:
        source = folder / f"{found['name']}.json"
        if not source.exists():
            return found[0]
        return f"{found['head']}{makers[found['name']](results.read(source))}{found['foot']}"

    return _BLOCK.sub(block, page)


if __name__ == "__main__":
    for name, makers in PAGES.items():
        path = EXPLANATION / name
        path.write_text(renewed(path.read_text(encoding="utf-8"), makers), encoding="utf-8")
