"""`jaxpriv frontier`: one problem at many targets, every point certified."""

from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._options import (
    Arrays,
    FormOptions,
    RunOptions,
    checked_targets,
    distortion_problem,
    funnel_problem,
    known_solver,
    measures_of,
)
from jaxpriv.cli._output import Units
from jaxpriv.cli._results import curve_table, in_units
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
    `infeasible`; an I(X;Y) above H(X) is refused. Exit code 4: the gap of some point is above --tol; all points and
    intervals are valid and written.
    """
    import numpy as np

    columns.check(problem)
    from jaxpriv.funnels.frontier import funnel_frontier_within
    from jaxpriv.funnels.solve import FunnelGoal
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
    costs = None if funnel else arrays["distortion"]
    points = np.array(values) if values else spread_targets(arrays["joint"], costs, count or 0)
    request, first = run.request(solver, throw=False), float(points[0])

    def work(_: object) -> "jp.Frontier | jp.FunnelFrontier":
        if not funnel:
            return frontier_within(distortion_problem(arrays, measures, **{name: first}), {name: points}, request)
        goal = FunnelGoal(run.tol, run.max_steps, request.clock)
        asked = funnel_problem(arrays, measures[0], bottleneck, disclosure=first)
        return funnel_frontier_within(asked, {name: points}, solver, goal)

    curve = working("Solving", work, request.clock)
    numbers = curve.points()
    record = {"form": curve.form, **numbers, **in_units(curve.problem.leakage.unit)}
    files: dict[Path, bytes] = {}
    if out is not None:
        held, inputs = curve.arrays(), arrays["joint"].shape[-1]  # a limit on maximal alpha-leakage adds a row
        made = {
            ".csv": lambda: curve.to_csv().encode(),
            ".json": lambda: _output.json_text(record).encode(),
            ".npz": lambda: _output.npz_bytes(**{n: a[:, :inputs] if n == "mechanism" else a for n, a in held.items()}),
        }
        files[out] = made[out.suffix.lower()]()
    files |= _output.picture(picture, lambda: curve.plot(units=units.value, tol=run.tol, line=line))
    _output.deliver(record, json, _output.rendered(curve_table(curve, units)), files)
    open_gaps = numbers["gap"][(numbers["status"] != "optimal") & (numbers["status"] != "infeasible")]
    if len(open_gaps):
        raise NotCertifiedError(
            f"{_output.stopped(request.clock.stop)}{len(open_gaps)} of {len(points)} points are not certified to --tol "
            f"{run.tol:g}: the largest gap is {_output.upper(open_gaps.max(), 2)}. All intervals are valid."
        )


def _arrays(path: Path, columns: CostOptions, funnel: bool, targets: bool) -> Arrays:
    """The arrays of the problem; of one without a distortion the joint alone, where no targets ask for one."""
    if not funnel:
        try:
            return problem_of(path, columns, ["joint", "distortion"], ["neighbours", "scales"])[0]
        except InputError:
            if targets or columns.given:
                raise
    return problem_of(path, columns, ["joint"], ["neighbours", "scales"])[0]
