"""Write the numbers of docs/explanation/speed.md, start.md and two-grids.md again: `python -m benchmarks.speed_page`.

A block of a page begins with a comment that names its results file, `<!-- short.json -->`, or a part of what is in it,
`<!-- short.json: source -->`, and ends with `<!-- end -->`. Nothing is measured here. A file that does not exist leaves
its block as it is.
"""

import json
import re
import statistics
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

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
_BLOCK = re.compile(
    r"(?P<head><!-- (?P<block>(?P<name>[a-z0-9-]+)\.json(: [a-z]+)?) -->\n\n).*?(?P<foot>\n\n<!-- end -->)", re.DOTALL
)


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
    return f"{_measured(document.versions, options)},\n[all cases]({PUBLISHED}/{name}.md)"


def _measured(versions: Mapping[str, str | None], command: str) -> str:
    return f"Version {versions['jaxpriv']} with JAX {versions['jax']}, `{command}`"


def _numbers(name: str) -> str:
    return f"[numbers]({PUBLISHED}/{name}.json)"


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


_PEERS = {
    "interior-point": "jaxpriv", "clarabel": "Clarabel", "moreau": "Moreau", "dnlp-ipopt": "Ipopt", "qics": "QICS",
}  # fmt: skip


def peers(document: Results) -> str:
    """The cubes beside solvers that are called through cvxpy or have a cone for the leakage."""
    command = f"python -m benchmarks.run --suite peers --seed {document.seed} --sizes 8 16 32 --limit 40"
    rows = {
        case.sizes["X"]: [reading.to_gap(document, case.name, solver, 1e-6) for solver in _PEERS]
        for case in document.cases
    }
    ran = [place for place in range(len(_PEERS)) if any(found[place] for found in rows.values())]
    heads = [name for place, name in enumerate(_PEERS.values()) if place in ran]
    lines = [f"{_source(document, 'peers', command)}:", "", _line(["n", *heads]), "|---" * (len(ran) + 1) + "|"]
    for size, found in sorted(rows.items()):
        lines.append(_line([str(size), *("-" if (row := found[place]) is None else _seconds(row) for place in ran)]))
    return "\n".join(lines)


def worst(document: Results) -> str:
    """A limit on the worst outcome, at the two largest sizes."""
    command = f"python -m benchmarks.run --suite worst --seed {document.seed}"
    ours: dict[int, list[float]] = {}
    ratios: dict[int, list[float]] = {}
    for one in reading.comparisons(document):
        ours.setdefault(one.size, []).extend(row.seconds or 0.0 for row in one.ours)
        ratios.setdefault(one.size, []).extend(one.ratios)
    lines = [f"{_source(document, 'worst', command)}:", "", "| n | jaxpriv | fastest cvxpy solver |", "|---|---|---|"]
    for size, seconds in sorted(ours.items()):
        slower = f"{_span(ratios[size])} times slower ({len(ratios[size])} instances)" if ratios[size] else "-"
        lines.append(_line([str(size), _range(seconds), slower]))
    return "\n".join(lines)


def source(document: Results) -> str:
    """S = X, beside the Blahut-Arimoto iteration of qif."""
    cases = sorted((case for case in document.cases if case.family == "source"), key=lambda case: case.sizes["X"])
    names = {"interior-point": "jaxpriv", "qif": "qif's Blahut-Arimoto iteration"}
    lines = [f"{_source(document, 'short', 'make bench')}:", "", _line(["n", *names.values()]), "|---|---|---|"]
    for case in cases:
        rows = [reading.to_gap(document, case.name, solver, 1e-6) for solver in names]
        lines.append(_line([str(case.sizes["X"]), *("-" if row is None else _seconds(row) for row in rows)]))
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _range(seconds: Iterable[float]) -> str:
    ordered = sorted(seconds)
    low, high = time(ordered[0]), time(ordered[-1])
    number, _, unit = low.partition(" ")
    return low if low == high else f"{number if high.endswith(f' {unit}') else low} to {high}"


def _read(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def _power(value: float) -> str:
    return f"{value:.1e}".replace("e-0", "e-")


def _plain(value: float) -> str:
    return f"{value:g}".replace("e-0", "e-")


def _digits(value: float) -> str:
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def dense_limits(folder: Path) -> str:
    """The two largest problems whose tables fit into memory."""
    texts = []
    for name in ("dense-4096", "dense-1024"):
        one = _read(folder, name)
        private, inputs, outputs = one["sizes"]
        command = f"python -m benchmarks.dense_limits --private {private} --symbols {inputs}"
        took = f"{one['all_seconds']:.0f} s in {one['peak_gib']:.1f} GiB, to a gap of {_power(one['gap'])}"
        where = f"({_measured(one['versions'], command)},\n{_numbers(name)})"
        texts.append(f"|S| = {private}, |X| = |Y| = {outputs} took {took}\n{where}.")
    return "\n".join(texts)


def sweeps(folder: Path) -> str:
    """Many problems of one size in one call."""
    small, large = _read(folder, "sweeps"), _read(folder, "sweeps-32")
    lines = [
        "| problems | mutual information | mixed shapes | Sibson's information | one by one |",
        "|---|---|---|---|---|",
    ]
    for document in (small, large):
        (one,), measures = document["milliseconds"], document.get("measures")
        wall, n = one["wall_milliseconds"], one["size"]
        sibson = _digits(measures["wall"]["sibson:2"]) if measures else ""
        together = f"{_digits(wall['many'])} ({_digits(one['many'])})"
        cells = [f"{one['problems']:,} of {n} x {n} x {n} symbols", together, _digits(wall["mixed"]), sibson]
        lines.append(_line([*cells, _digits(wall["single"])]))
    command = "python -m benchmarks.sweeps --size 8 --problems 1024 --repeats 3 --measures mutual-information sibson:2"
    measured = _measured(small["versions"], command)
    also = f"`--size 32 --problems 1000 --repeats 1`, {_numbers('sweeps-32')}"
    return "\n".join([*lines, "", f"{measured},\n{_numbers('sweeps')}, and {also}."])


def batches(folder: Path) -> str:
    """`solve_many` beside a batch call of Moreau and a pool of processes."""
    document = _read(folder, "batches")
    lines = [
        "| n | problems | `solve_many`, first | later | Moreau, first | later | pool of Clarabel |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in document["rows"]:
        ours, moreau, pool = (row["milliseconds"][name] for name in ("solve_many", "moreau", "cvxpy_pool"))
        slower = [
            f"{_digits(late)}, {_digits(late / ours['later'])} times slower"
            for late in (moreau["later"], pool["later"])
        ]
        cells = [str(row["size"]), str(ours["problems"]), _digits(ours["first"]), _digits(ours["later"])]
        lines.append(_line([*cells, _digits(moreau["first"]), *slower]))
    command = "python -m benchmarks.batches --size 8 32 --problems 512 64 --cvxpy 64"
    return "\n".join([*lines, "", f"{_measured(document['versions'], command)},\n{_numbers('batches')}."])


def robustness(folder: Path) -> str:
    """How many random instances reached the tolerance."""
    texts = []
    for name, what in (("robustness", "random instances"), ("robustness-worst", "with a limit on the worst outcome")):
        one = _read(folder, name)
        count, missed = one["instances"], one["missed"]
        gaps = ", ".join(map(_power, sorted(miss["gap"] for miss in missed)))
        kinds = ", ".join(sorted({f"{miss['family']} with {miss['form']}" for miss in missed}))
        rest = f" (the others: {kinds}; gaps {gaps})" if missed else ""
        met = f"{count - len(missed)} reached a certified gap of {_plain(one['tol'])} by the interior-point method"
        texts.append(
            f"Of {count} {what} {met}{rest}.\n{_measured(one['versions'], one['command'])},\n{_numbers(name)}."
        )
    return "\n".join(texts)


def first(folder: Path) -> str:
    """New processes to their first answer, and many different problems in one process."""
    document = _read(folder, "first")
    fresh, versions = document["fresh"], document["versions"]
    kinds = list(dict.fromkeys((row["size"], row["measure"]) for row in fresh))
    heads = (f"n = {n}, {measure.replace('-', ' ')}" for n, measure in kinds)
    lines = [_line(["", *heads]), "|---" * (len(kinds) + 1) + "|"]
    for name in ("jaxpriv", "`jaxpriv solve`", "cvxpy with Clarabel", "import jax"):
        least = {(row["size"], row["measure"]): row["wall"]["least"] for row in fresh if row["kind"] == name}
        said = f"`{name}` alone" if name.startswith("import") else name
        lines.append(_line([said, *(f"{least[kind]:.2f}" for kind in kinds)]))
    ours, theirs = document["many"]["jaxpriv"], document["many"]["clarabel"]
    third, last = ours[len(ours) // 3], ours[-1]
    command = f"python -m benchmarks.first --repeats {document['repeats']} --limit 120"
    return "\n".join(
        [
            f"{_measured(versions, command)},\n[page]({PUBLISHED}/first.md); Python {versions['python']},",
            "two shared cores, seconds of whole processes by the clock, the least of all repeats:",
            "",
            *lines,
            "",
            f"No executable was loaded there: problems of these sizes are not compiled at first. {len(ours)} problems",
            f"of random shapes up to {document['largest']} in one process took {last['seconds']:.1f} s;",
            f"{_solved(ours)} were certified to 1e-6. The process held {last['mib']:.0f} MiB in the end,",
            f"and {third['mib']:.0f} MiB after a third of them. Clarabel had solved {_solved(theirs)} of the first "
            f"{len(theirs)} after {theirs[-1]['seconds']:.0f} s.",
        ]
    )


def _solved(said: Iterable[Mapping[str, Any]]) -> int:
    return sum(one["gap"] <= 1e-6 if "gap" in one else one["solved"] for one in said)


Maker = Callable[[Path], str]


def _of_suite(maker: Callable[[Results], str], name: str) -> Maker:
    return lambda folder: maker(results.read(folder / f"{name}.json"))


# For each page its blocks, by what they begin with.
PAGES: dict[str, dict[str, Maker]] = {
    "speed.md": {
        "short.json": _of_suite(short, "short"),
        "dense.json": _of_suite(dense, "dense"),
        "dense-4096.json": dense_limits,
        "peers.json": _of_suite(peers, "peers"),
        "worst.json": _of_suite(worst, "worst"),
        "large.json": _of_suite(large, "large"),
        "short.json: source": _of_suite(source, "short"),
        "sweeps.json": sweeps,
        "batches.json": batches,
        "funnel.json": _of_suite(funnel, "funnel"),
        "robustness.json": robustness,
    },
    "start.md": {"first.json": first},
    "two-grids.md": {"large.json": _of_suite(large_table, "large")},
}


def renewed(page: str, makers: Mapping[str, Maker], folder: Path = RESULTS) -> str:
    """A page with its blocks made again from the results files of a folder."""

    def block(found: re.Match[str]) -> str:
        source = folder / f"{found['name']}.json"
        if not source.exists():
            return found[0]
        return f"{found['head']}{makers[found['block']](folder)}{found['foot']}"

    return _BLOCK.sub(block, page)


if __name__ == "__main__":
    for name, makers in PAGES.items():
        path = EXPLANATION / name
        path.write_text(renewed(path.read_text(encoding="utf-8"), makers), encoding="utf-8")
