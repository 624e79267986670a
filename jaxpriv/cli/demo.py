"""`jaxpriv demo`: optimal mappings of a census table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonRecord, Units
from jaxpriv.cli._results import curve_table
from jaxpriv.cli._work import working
from jaxpriv.errors import NotCertifiedError

# Certified gap of every point, in nats.
_TOLERANCE = 1e-6
# The mapping that is drawn: about one attribute changed for every second person.
_DRAWN = 0.5
# Nats of X to disclose, of 3.6, that are printed: at the first nothing has to leak, then little, then more.
_PRINTED = (1.4, 1.75, 2.1, 2.8)
# Those and others are drawn: closer to each other where the leakage starts.
_DISCLOSED = (*_PRINTED, 0.5, 1.0, 1.6, 1.9, 2.4, 3.2, 3.5)


def demo(
    out: Path = Path("out/demo"),
    points: int = 24,
    units: Units = Units.nats,
    json: Path | None = None,
) -> None:
    """Design optimal privacy mappings for a census table, and draw them.

    48842 people: S = (age, income) is private, X = (age, gender, education) is to be released. The
    distortion is the mean number of attributes that the release changes. For budgets from nearly 0
    to beyond the distortion of a constant release: the least leakage, what is proved about it, and
    two figures. Then the privacy funnel: the least leakage where much of X is disclosed, and a figure of all that a
    release can do.
    """
    import numpy as np

    from jaxpriv.release.advising import hidings

    jp.plotting.require_matplotlib()
    files = {name: out / name for name in ("frontier.png", "mapping.png", "funnel.png", "census.npz", "mapping.npz")}
    _output.make_folder(out)
    _output.check_outputs({f"--out {name}": path for name, path in files.items()}, {})

    data = jp.datasets.census()
    distances = np.asarray(jp.distortion.dense(jp.distortion.changed_attributes(data.useful_attributes)))
    curve, free = _design(data, distances, points)
    funnel, boundaries = _funnel(data)
    shown = int(np.abs(curve.targets - _DRAWN).argmin())
    mechanism = curve.solutions.mechanism[shown]
    names = data.useful_names
    hidden = hidings(
        names, data.useful_attributes, data.joint, distances, jp.leakage.MutualInformation(), range(len(names))
    )
    others = [(spent, leaked, columns) for columns, _, spent, leaked in hidden]
    ends = (one * units.per_nat for one in (curve.value[shown], others[0][1]))
    title = f"Optimal mapping: {curve.distortion[shown, 0]:.2f} attributes changed\nper person, "
    title += "{:.2f} of {:.2f} {} leak".format(*ends, units)
    figures = {
        files["frontier.png"]: jp.plotting.plot_frontier(
            curve,
            tol=_TOLERANCE,
            units=units.value,
            others=[(spent, leaked, ",\n".join(hidden) or "none") for spent, leaked, hidden in others],
            others_label="hidden attributes instead",
            free=float(free.value),
            xlabel="budget: mean number of changed attributes",
            ylabel=f"leakage of {' and '.join(data.private_names)}",
        ),
        files["mapping.png"]: jp.plotting.plot_mapping(mechanism, data, title=title),
    }
    figures[files["funnel.png"]] = jp.plotting.plot_frontier(
        *boundaries,
        units=units.value,
        labels=("least: privacy funnel", "most: information bottleneck"),
        others=[(spent, leaked, "") for spent, leaked in zip(funnel["disclosure"], funnel["greedy"], strict=True)],
        others_label="greedy merging",
        title="Every release lies between the boundaries",
    )
    contents = {path: jp.plotting.image_bytes(figure) for path, figure in figures.items()}
    contents[files["census.npz"]] = _output.npz_bytes(joint=data.joint, distortion=distances)
    contents[files["mapping.npz"]] = _output.npz_bytes(mechanism=mechanism)
    record = {**_record(curve, free, shown, files), "funnel": funnel}
    _output.deliver(record, json, _text(curve, record, others, units), contents)
    if not all(status == "optimal" for status in [*record["status"], free.status, *funnel["status"]]):
        raise NotCertifiedError(f"some point is not certified to {_TOLERANCE:g} nats; see its status and gap")


def _design(data: "jp.datasets.Dataset", distances: object, points: int) -> "tuple[jp.Frontier, jp.Solution]":
    """The frontier, and the least distortion at which the release is independent of S."""
    import numpy as np

    constant = float((data.joint.sum(axis=0) @ distances).min())
    # Closer together where the curve is steep; the last one is beyond the cheapest constant release.
    budgets = 1.1 * constant * np.linspace(0, 1, points + 1)[1:] ** 1.5
    problem = jp.DistortionProblem(data.joint, distances, budget=constant)
    private = jp.DistortionProblem(data.joint, distances, leakage_budget=0.0)

    def work(report: Callable[[int, int], None]) -> "tuple[jp.Frontier, jp.Solution]":
        curve = jp.frontier(problem, budgets=budgets, tol=_TOLERANCE, progress=lambda at: report(at.done, at.total))
        return curve, jp.solve(private, tol=_TOLERANCE)

    return working(f"Designing {points} optimal mappings", work)


def _funnel(data: "jp.datasets.Dataset") -> "tuple[JsonRecord, list[jp.FunnelFrontier]]":
    """The privacy funnel at a few disclosures: its certified value, and what greedy merging leaks there; and both
    boundaries.
    """
    import numpy as np

    problems = [jp.FunnelProblem(data.joint, disclosure=target) for target in _PRINTED]

    def work(_: object) -> tuple[list[Any], ...]:
        boundaries = [
            jp.funnel_frontier(kind(data.joint, disclosure=1.0), disclosures=np.array(_DISCLOSED), tol=_TOLERANCE)
            for kind in (jp.FunnelProblem, jp.BottleneckProblem)
        ]
        merged, ratio = ([jp.solve(one, method) for one in problems] for method in ("greedy", "greedy-ratio"))
        return boundaries, merged, ratio

    boundaries, merged, ratio = working("Solving privacy funnels", work)
    best = boundaries[0].points()
    record = {
        "disclosure": list(_PRINTED),
        **{name: best[name][: len(_PRINTED)] for name in ("value", "lower_bound", "gap", "status")},
        "greedy": [one.value for one in merged],
        "greedy_ratio": [one.value for one in ratio],
        "seconds": sum(sum(boundaries[0][k].seconds.values()) for k in range(len(_PRINTED))),
    }
    return record, boundaries


def _record(curve: "jp.Frontier", free: "jp.Solution", shown: int, files: dict[str, Path]) -> dict[str, object]:
    both = [one.seconds or {} for one in (curve.solutions, free)]
    return {
        "budget": curve.targets,
        "distortion": curve.distortion[:, 0],
        **_output.record_of(curve, "value", "lower_bound", "gap", "status"),
        "iterations": curve.solutions.steps,
        "solver": curve.solutions.solver,
        "least_distortion_without_leakage": _output.record_of(free, "value", "lower_bound"),
        "drawn_budget": curve.targets[shown],
        "seconds": {key: sum(one[key] for one in both) for key in ("compile", "solve")},
        "units": "nats",
        "files": files,
    }


def _text(
    curve: "jp.Frontier", record: JsonRecord, others: list[tuple[float, float, tuple[str, ...]]], units: Units
) -> str:
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
