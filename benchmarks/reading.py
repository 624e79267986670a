"""The numbers of a report, from a results file: times to a gap, ratios between solvers, exponents."""

import statistics
from dataclasses import dataclass, replace

from benchmarks import growth
from benchmarks.results import TOO_SLOW, PartRecord, Results, Row

# A certified gap of 1e-8 that comes out as 1.0000003e-8 by rounding is not missed.
_ROUNDING = 1 + 1e-6


@dataclass(frozen=True)
class Exponent:
    """Measured and predicted growth of one solver along one axis; None where too few points were solved."""

    part: str
    axis: str
    solver: str
    quantity: str
    measured: growth.PowerLaw | None
    predicted: float | None
    local: tuple[float, ...] = ()  # between each size and the next


def to_gap(results: Results, case: str, solver: str, gap: float) -> Row | None:
    """The fastest row of a solver on a case whose judged gap is within `gap`."""
    good = [
        row
        for row in results.rows_of(case, solver)
        if row.seconds is not None and row.gap is not None and row.gap <= gap * _ROUNDING
    ]
    return min(good, key=lambda row: row.seconds or 0.0, default=None)


def reaching(results: Results, cases: list[str], gap: float) -> set[str]:
    """The solvers that came within the gap on at least one of the cases."""
    return {row.solver for case in cases for row in results.rows_of(case) if to_gap(results, case, row.solver, gap)}


def solvers_of(results: Results, part: PartRecord) -> list[str]:
    """The solvers that have rows in a part, in the order of the file; the reference alone does not count."""
    names = [row.solver for row in results.rows if row.case in part.cases]
    return list(dict.fromkeys(names))


def size_along(results: Results, part: PartRecord, case: str) -> int:
    """The size of a case along the part's axis (|X| where all grow together)."""
    sizes = results.case(case).sizes
    return sizes["X"] if part.axis in (None, "n") else sizes[part.axis]


def longest(results: Results, case: str, solver: str) -> Row | None:
    """The row with the most steps, over which fixed costs are spread thinnest; None if steps are not counted."""
    rows = [row for row in results.rows_of(case, solver) if row.seconds is not None and row.steps]
    return max(rows, key=lambda row: row.steps or 0, default=None)


def seconds_per_step(row: Row) -> float:
    """Of a row that has both; preparation and certificate are in it."""
    return (row.seconds or 0.0) / (row.steps or 1)


def exponents(results: Results) -> list[Exponent]:
    """For every sweep and solver: seconds to the tightest target, seconds per step, peak memory."""
    found = []
    for part in results.parts:
        cases = [case.name for case in results.cases if case.name in part.cases]
        if part.axis is None or len({size_along(results, part, case) for case in cases}) < 2:
            continue
        for solver in solvers_of(results, part):
            reached = {case: to_gap(results, case, solver, min(part.targets)) for case in cases}
            ran = {case: longest(results, case, solver) for case in cases}
            quantities = {
                "seconds": {case: row.seconds for case, row in reached.items() if row is not None},
                "seconds per step": {case: seconds_per_step(row) for case, row in ran.items() if row is not None},
                "peak memory": {case: _peak(results.rows_of(case, solver)) for case in cases},
            }
            found += [_exponent(results, part, solver, name, values) for name, values in quantities.items()]
    return [one for one in found if one.measured is not None]


def _peak(rows: list[Row]) -> float | None:
    return max((row.peak_mib for row in rows if row.status == "ok" and row.peak_mib), default=None)


def _exponent(
    results: Results, part: PartRecord, solver: str, quantity: str, values: dict[str, float | None]
) -> Exponent:
    assert part.axis is not None
    points = [(case, value) for case, value in values.items() if value]
    law = growth.fit([size_along(results, part, case) for case, _ in points], [value for _, value in points])
    cases = [results.case(case) for case, _ in points]
    diagonal = all(case.family == "source" for case in cases)
    slope = growth.predicted(quantity, solver, [case.sizes for case in cases], part.axis, diagonal=diagonal)
    local = growth.local([size_along(results, part, case) for case, _ in points], [value for _, value in points])
    return Exponent(part.title, part.axis, solver, quantity, law, slope, local)


@dataclass(frozen=True)
class Comparison:
    """Ours against its peers on the cases of one size under limits on leakage, at one certified gap.

    Attributes:
        group: the parts that were taken together. size: |X|.
        ours: our fastest row within the gap, for each case that has one. cases: how many there are.
        ratios: time of the fastest peer within the gap over ours, for each case where there is one.
        fastest: the peers that these were. missing: those that reached the gap on no case.
        absent: those of all, ours included, of which nothing was run (not installed, or the time budget).
    """

    group: str
    size: int
    gap: float
    cases: int
    ours: tuple[Row, ...]
    ratios: tuple[float, ...]
    fastest: tuple[str, ...]
    missing: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def compiling(self) -> float:
        """The longest time spent compiling before one of ours."""
        return max((row.compile_seconds or 0.0 for row in self.ours), default=0.0)


def group_of(part: PartRecord) -> str | None:
    """The name that parts under limits on leakage are taken together by; None for other parts."""
    limited = part.title.startswith(("worst outcome", "linear"))
    return part.title.split(", limit")[0] if limited else None


def limited_groups(results: Results) -> dict[str, list[PartRecord]]:
    """The parts under limits on leakage, those together that differ in the limit alone."""
    groups: dict[str, list[PartRecord]] = {}
    for part in results.parts:
        name = group_of(part)
        if name is not None:
            groups.setdefault(name, []).append(part)
    return groups


def comparisons(results: Results, gap: float = 1e-6, ours: str = "interior-point") -> list[Comparison]:
    """One for each group of parts under limits on leakage and each size."""
    found = []
    for group, parts in limited_groups(results).items():
        cases = [case for case in results.cases if any(case.name in part.cases for part in parts)]
        peers = dict.fromkeys(name for part in parts for name in solvers_of(results, part) if name != ours)
        for size in sorted({case.sizes["X"] for case in cases}):
            names = [case.name for case in cases if case.sizes["X"] == size]
            found.append(_comparison(results, group, size, gap, names, ours, list(peers)))
    return found


def _comparison(
    results: Results, group: str, size: int, gap: float, cases: list[str], ours: str, peers: list[str]
) -> Comparison:
    mine: list[Row] = []
    ratios: list[float] = []
    fastest: list[str] = []
    for case in cases:
        own = to_gap(results, case, ours, gap)
        good = [row for row in (to_gap(results, case, name, gap) for name in peers) if row is not None]
        best = min(good, key=lambda row: row.seconds or 0.0, default=None)
        if own is not None:
            # Compiling is noted in the first row of a solver, which need not be the one that is compared.
            compiling = max((row.compile_seconds or 0.0 for row in results.rows_of(case, ours)), default=0.0)
            mine.append(replace(own, compile_seconds=compiling))
        if own is not None and best is not None and own.seconds and best.seconds:
            ratios.append(best.seconds / own.seconds)
            fastest.append(best.solver)
    absent = tuple(name for name in (ours, *peers) if not any(_tried(results, case, name) for case in cases))
    missing = tuple(
        name for name in peers if name not in absent and not any(to_gap(results, case, name, gap) for case in cases)
    )
    return Comparison(
        group, size, gap, len(cases), tuple(mine), tuple(ratios), tuple(dict.fromkeys(fastest)), missing, absent
    )


def _tried(results: Results, case: str, solver: str) -> bool:
    """Whether it ran, or is known to be too slow from smaller cases."""
    return any(
        row.status in ("ok", "failed", "time limit") or row.reason == TOO_SLOW for row in results.rows_of(case, solver)
    )


@dataclass(frozen=True)
class Cubes:
    """The cubes of one size: ours beside the fastest conic solver that is good enough; one entry for each instance.

    Attributes:
        n: the size. ours: seconds. dearer: factor of a gap of 1e-8, where it was run.
        peers: rows of the fastest good conic solver. ratios, clocks: its time over ours, by our clock and by its own.
    """

    n: int
    ours: tuple[float, ...]
    dearer: tuple[float, ...]
    peers: tuple[Row, ...]
    ratios: tuple[float, ...]
    clocks: tuple[float, ...]


def cubes(results: Results, tol: float = 1e-6) -> list[Cubes]:
    """One for each size at which ours reached the tolerance."""
    found = []
    cases = [case for case in results.cases if case.family == "cube"]
    for n in sorted({case.sizes["X"] for case in cases}):
        mine, dearer, fastest, ratios, clocks = [], [], [], [], []
        for case in (case.name for case in cases if case.sizes["X"] == n):
            ours = _at(results, case, f"{tol:g}")
            if ours is None or ours.seconds is None:
                continue
            mine.append(ours.seconds)
            fine = _at(results, case, "1e-08")
            if fine is not None and fine.seconds is not None:
                dearer.append(fine.seconds / ours.seconds)
            peers = [to_gap(results, case, name, tol) for name in ("clarabel", "ecos", "scs")]
            good = [row for row in peers if row is not None and row.seconds]
            if good:
                fastest.append(min(good, key=lambda row: row.seconds or 0.0))
                ratios.append((fastest[-1].seconds or 0.0) / ours.seconds)
            known = [row.own_clock for row in good if row.own_clock]
            if known:
                clocks.append(min(known) / ours.seconds)
        if mine:
            found.append(Cubes(n, tuple(mine), tuple(dearer), tuple(fastest), tuple(ratios), tuple(clocks)))
    return found


def cube_summary(results: Results, tol: float = 1e-6) -> list[str]:
    """One line for each size of the cubes: ours against the fastest conic solver that is good enough."""
    return [cube_line(one) for one in cubes(results, tol)]


def _at(results: Results, case: str, accuracy: str) -> Row | None:
    rows = results.rows_of(case, "interior-point")
    return next((row for row in rows if row.accuracy == accuracy and row.status == "ok"), None)


def cube_line(one: Cubes) -> str:
    """One size in words."""
    text = f"n={one.n}: ours {1e3 * statistics.median(one.ours):.1f} ms (median of {len(one.ours)})"
    if one.dearer:
        text += f", 1e-8 costs {statistics.median(one.dearer):.2f}x"
    if not one.ratios:
        return f"{text}; no conic solver within that gap"
    text += f"; fastest good conic solver takes {statistics.median(one.ratios):.0f}x (from {min(one.ratios):.0f}x to "
    text += f"{max(one.ratios):.0f}x, {len(one.ratios)} instances)"
    return f"{text}, by its own clock {statistics.median(one.clocks):.0f}x" if one.clocks else text
