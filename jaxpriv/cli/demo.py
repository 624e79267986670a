"""`jaxpriv demo`: optimal mappings of a census table."""

from collections.abc import Callable
from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._demo_output import demo_text, drawn
from jaxpriv.cli._output import JsonRecord, Units
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
    constant = float((data.joint.sum(axis=0) @ distances).min())
    # Closer together where the curve is steep; the last one is beyond the cheapest constant release.
    budgets = 1.1 * constant * np.linspace(0, 1, points + 1)[1:] ** 1.5
    problem = jp.DistortionProblem(data.joint, distances, budget=constant)
    private = jp.DistortionProblem(data.joint, distances, leakage_budget=0.0)

    def work(report: Callable[[int, int], None]) -> "tuple[jp.Frontier, jp.Solution]":
        curve = jp.frontier(problem, budgets=budgets, tol=_TOLERANCE, progress=lambda at: report(at.done, at.total))
        return curve, jp.solve(private, tol=_TOLERANCE)

    curve, free = working(f"Designing {points} optimal mappings", work)
    funnel, boundaries = working("Solving privacy funnels", lambda _: _funnel(data))
    shown = int(np.abs(curve.targets - _DRAWN).argmin())
    mechanism = curve.solutions.mechanism[shown]
    names, codes, measure = data.useful_names, data.useful_attributes, jp.leakage.MutualInformation()
    hidden = hidings(names, codes, data.joint, distances, measure, range(len(names)))
    others = [(spent, leaked, columns) for columns, _, spent, leaked in hidden]
    both = [solution.seconds or {} for solution in (curve.solutions, free)]
    record: JsonRecord = {
        "budget": curve.targets,
        "distortion": curve.distortion[:, 0],
        **_output.record_of(curve, "value", "lower_bound", "gap", "status"),
        "iterations": curve.solutions.steps,
        "solver": curve.solutions.solver,
        "least_distortion_without_leakage": _output.record_of(free, "value", "lower_bound"),
        "drawn_budget": curve.targets[shown],
        "seconds": {key: sum(seconds[key] for seconds in both) for key in ("compile", "solve")},
        "units": "nats",
        "files": files,
        "funnel": funnel,
    }
    contents = {
        files["census.npz"]: _output.npz_bytes(joint=data.joint, distortion=distances),
        files["mapping.npz"]: _output.npz_bytes(mechanism=mechanism),
    }
    figures = drawn(data, curve, shown, float(free.value), others, funnel, boundaries, _TOLERANCE, units)
    contents |= {files[name]: jp.plotting.image_bytes(figure) for name, figure in figures.items()}
    _output.deliver(record, json, demo_text(curve, record, others, units), contents)
    if not all(status == "optimal" for status in [*record["status"], free.status, *funnel["status"]]):
        raise NotCertifiedError(f"some point is not certified to {_TOLERANCE:g} nats; see its status and gap")


def _funnel(data: "jp.datasets.Dataset") -> "tuple[JsonRecord, list[jp.FunnelFrontier]]":
    """The privacy funnel at a few disclosures: its certified value, and what greedy merging leaks there; and both
    boundaries.
    """
    boundaries = [
        jp.funnel_frontier(kind(data.joint, disclosure=1.0), disclosures=_DISCLOSED, tol=_TOLERANCE)
        for kind in (jp.FunnelProblem, jp.BottleneckProblem)
    ]
    problems, count = [jp.FunnelProblem(data.joint, disclosure=target) for target in _PRINTED], len(_PRINTED)
    best = boundaries[0].points()
    record = {
        "disclosure": list(_PRINTED),
        **{name: best[name][:count] for name in ("value", "lower_bound", "gap", "status")},
        "greedy": [jp.solve(problem, "greedy").value for problem in problems],
        "greedy_ratio": [jp.solve(problem, "greedy-ratio").value for problem in problems],
        "seconds": sum(sum((boundaries[0][k].seconds or {}).values()) for k in range(count)),
    }
    return record, boundaries
