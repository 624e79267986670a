"""`jaxpriv frontier`: one problem at many targets, every point certified."""

from pathlib import Path
from typing import Any

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._options import (
    Arrays,
    FormOptions,
    RunOptions,
    checked_targets,
    distortion_problem,
    known_solver,
    measures_of,
)
from jaxpriv.cli._output import Units
from jaxpriv.cli._results import in_units
from jaxpriv.cli._tables import CostOptions, problem_of
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError, NotCertifiedError


def frontier(
    *,
    problem: Path,
    columns: CostOptions,
    measure: FormOptions,
    limit: list[str] | None = None,
    budget: list[float] | None = None,
    leakage_budget: list[float] | None = None,
    multiplier: list[float] | None = None,
    disclosure: list[float] | None = None,
    bottleneck: bool = False,
    count: int | None = None,
    solver: str = "auto",
    run: RunOptions,
    units: Units = Units.nats,
    out: Path | None = None,
    picture: Path | None = None,
    line: bool = False,
    json: Path | None = None,
) -> None:
    """Solve one problem at many targets: a table of certified points, as a file and as a picture.

    Between the points the optimum lies in a band that is proved too. Targets that no mapping meets have the status
    `infeasible`. Exit code 4: the gap of some point is above --tol; all points and intervals are valid and written.
    """
    import numpy as np

    columns.check(problem)
    from jaxpriv.funnels.solve import funnel_frontier_within
    from jaxpriv.solvers import Goal
    from jaxpriv.solving.choice import Request
    from jaxpriv.solving.frontier import frontier_within, spread_targets

    measures = measures_of(measure, limit)
    run.check()
    targets = {"budget": budget, "leakage_budget": leakage_budget, "multiplier": multiplier, "disclosure": disclosure}
    name = _output.only_one({**targets, "count": count})
    values = checked_targets(name, targets.get(name))
    _output.need_ending("--out", out, ".csv", ".json", ".npz")
    _output.need_picture("--picture", picture)
    if line and picture is None:
        raise InputError("--line is about --picture")
    funnel = bottleneck or bool(disclosure)
    arrays = _arrays(problem, columns, funnel, bool(values))
    funnel = funnel or "distortion" not in arrays
    known_solver(solver, funnel)
    if not values:
        name = "disclosure" if funnel else "budget"
    if funnel and name != "disclosure":
        raise InputError("--bottleneck and problems without a distortion take --disclosure or --count")
    if funnel and limit:
        raise InputError("--limit is for curves over a distortion")
    points = (
        np.array(values)
        if values
        else spread_targets(arrays["joint"], None if funnel else arrays["distortion"], count or 0)
    )

    clock = run.clock()
    first: dict[str, Any] = {name: float(points[0])}
    if bottleneck:
        if measure.leakage != "mutual-information":
            raise InputError("--leakage: a bottleneck is about mutual information only")
        asked: Any = jp.BottleneckProblem(arrays["joint"], **first)
    elif funnel:
        leakage: Any = measures[0].measure(arrays.get("neighbours"))
        asked = jp.FunnelProblem(arrays["joint"], leakage=leakage, **first)
    else:
        asked = distortion_problem(arrays, measures, **first)

    def solved(_: object) -> Any:  # noqa: ANN401 (of a funnel or not)
        if funnel:
            return funnel_frontier_within(
                clock, asked, {name: points}, solver=solver, tol=run.tol, max_steps=run.max_steps
            )
        request = Request(clock, Goal(run.tol), solver, run.max_steps, throw=False)
        return frontier_within(asked, {name: points}, request)

    curve = working("Solving", solved, clock)
    numbers = arrays_of(curve)
    record = {"form": curve.form, **numbers, **in_units(curve.problem.leakage.unit)}
    files: dict[Path, bytes] = {}
    if out is not None:
        kind = out.suffix.lower()
        plain = (_output.json_text(record) if kind == ".json" else curve.to_csv()).encode()
        files[out] = _npz(numbers, curve) if kind == ".npz" else plain
    files |= _output.picture(picture, lambda: curve.plot(units=units.value, tol=run.tol, line=line))
    _output.deliver(record, json, _table(curve, units), files)
    open_gaps = numbers["gap"][(numbers["status"] != "optimal") & (numbers["status"] != "infeasible")]
    if len(open_gaps):
        raise NotCertifiedError(
            f"{_output.stopped(clock.stop)}{len(open_gaps)} of {len(points)} points are not certified to --tol "
            f"{run.tol:g}: the largest gap is "
            f"{_output.upper(open_gaps.max(), 2)}. All intervals are valid."
        )


def _arrays(path: Path, columns: CostOptions, funnel: bool, targets: bool) -> Arrays:
    """The arrays of the problem; of one without a distortion the joint alone, where no targets ask for one."""
    if not funnel:
        try:
            return problem_of(path, columns, ["joint", "distortion"], ["neighbours"])[0]
        except InputError:
            if targets or columns.given:
                raise
    return problem_of(path, columns, ["joint"], [] if funnel else ["neighbours"])[0]


def _npz(numbers: Arrays, curve: "jp.Frontier | jp.FunnelFrontier") -> bytes:
    """The numbers, the mappings where all have one shape, and the drawing."""
    import numpy as np

    arrays = {name: values for name, values in numbers.items() if name != "status"}
    arrays["status"] = np.array([jp.Status[str(one).upper()].value for one in numbers["status"]])
    mechanisms = [np.asarray(curve[k].mechanism) for k in range(len(curve))]
    if len({one.shape for one in mechanisms}) == 1:
        arrays["mechanism"] = np.stack(mechanisms)
    return _output.npz_bytes(**arrays, **jp.plotting.drawn_curve(curve).arrays())


def _table(curve: "jp.Frontier | jp.FunnelFrontier", units: Units) -> str:
    import numpy as np

    numbers, (_, unit) = arrays_of(curve, units), units.of(curve.problem.leakage.unit)
    across = f"I(X;Y) ({units})" if curve.spent == "disclosure" else "distortion"
    names = ("target", curve.spent, "leakage", "lower_bound", "gap", "status")
    rows = (
        (
            f"{target:.6g}",
            f"{spent:.6f}",
            *(
                (_output.upper_fixed(leakage), _output.lower_fixed(bound), _output.upper(gap, 2))
                if np.isfinite(leakage)
                else "---"
            ),
            status.replace("_", " "),
        )
        for target, spent, leakage, bound, gap, status in zip(*(numbers[name] for name in names), strict=True)
    )
    headings = [curve.form.replace("_", " "), across, f"leakage ({unit})", "lower bound", "gap"]
    return _output.rendered(_output.table_of(rows, headings))


def arrays_of(curve: "jp.Frontier | jp.FunnelFrontier", units: str = "nats") -> Arrays:
    """The numbers of every point: the target, and the further `columns` of a frontier."""
    (_, targets), *others = curve.columns(units).items()
    return {"target": targets, **dict(others)}
