"""`jaxpriv solve`: one problem at one target, with its certificate."""

import time
from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._options import Arrays, FormOptions, RunOptions, distortion_problem, known_solver, measures_of
from jaxpriv.cli._output import JsonRecord, MappingOptions, Units
from jaxpriv.cli._results import in_units, infeasible, solved, uncertified, work_of
from jaxpriv.cli._tables import CostOptions, book_file, problem_of, symbols_of
from jaxpriv.cli._work import working
from jaxpriv.errors import InfeasibleError, InputError, NotCertifiedError

_NUMBERS = ("value", "lower_bound", "gap", "leakage", "distortion")


def solve(
    *,
    problem: Path,
    columns: CostOptions,
    measure: FormOptions,
    limit: list[str] | None = None,
    marginal: str | None = None,
    budget: list[float] | None = None,
    leakage_budget: float | None = None,
    leakage_tolerance: float | None = None,
    multiplier: list[float] | None = None,
    solver: str = "auto",
    run: RunOptions,
    rtol: float = 0.0,
    checkpoint: Path | None = None,
    results: MappingOptions,
) -> None:
    """Design the mapping P(y|x) with the least leakage of S at a bounded distortion of X, or the reverse.

    Prints the leakage, a proved lower bound on what any mapping could reach, and the gap between
    them. Leakage may be any measure, in its own unit, and further measures may be limited. Exit code
    3: no mapping meets budgets and limits (the JSON holds the proof). Exit code 4: the gap is above
    --tol (or the time limit or Ctrl-C came first); mapping and interval are valid and written all the same.
    """
    import numpy as np

    columns.check(problem)
    from jaxpriv._runtime.validation import scalar
    from jaxpriv.solvers import Goal
    from jaxpriv.solving.choice import Request
    from jaxpriv.solving.solve import solve_within

    measures = measures_of(measure, limit)
    known_solver(solver)
    scalar(rtol, "--rtol", low=0.0)
    run.check()
    results.check()
    if leakage_tolerance is not None and not budget:
        raise InputError("--leakage-tolerance goes with --budget: it is above the least leakage that a budget allows")
    arrays, table = problem_of(problem, columns, ["joint", "distortion"], ["neighbours", "marginal"])
    files = book_file(results.codebook_out, table)
    stated = distortion_problem(
        arrays, measures, budget=budget or None, multiplier=multiplier or None, leakage_budget=leakage_budget
    )
    asked = stated if marginal is None else _near_marginal(arrays, stated, marginal)
    whole = asked if leakage_tolerance is None else jp.LexicographicProblem(asked, tolerance=leakage_tolerance)
    begun = time.perf_counter()
    clock, goal = run.clock(), Goal(run.tol, rtol)
    try:
        solution = working(
            "Solving",
            lambda _: solve_within(whole, Request(clock, goal, solver, run.max_steps, checkpoint=checkpoint)),
            clock,
        )
    except InfeasibleError as error:
        record = infeasible(*_NUMBERS, seconds=time.perf_counter() - begun)
        record |= {"distortion": [None] * len(stated.distortions), **in_units("nats"), "proof": error.proof}
        _output.deliver(record, results.json, "")
        raise
    record = {**_record(solution, asked.leakage.unit), "distortion": solution.distortion[: len(stated.distortions)]}
    of_distortion = leakage_budget is not None or leakage_tolerance is not None
    objective = "distortion" if of_distortion else "objective" if multiplier else "leakage"
    found = not np.isnan(solution.leakage)
    if found:
        inputs, outputs = stated.shape
        mapping = np.asarray(solution.mechanism)[:inputs].reshape(inputs, -1, outputs).sum(axis=1)
        files |= results.files(lambda: mapping, symbols_of(arrays))
    _output.deliver(record, results.json, _summary(record, objective, results.units), files)
    if not found:
        raise NotCertifiedError("no mapping was found that meets every limit; the lower bound is valid")
    if solution.status != "optimal":
        other = "" if "interior-point" in solution.solver else "use --solver interior-point, "
        raise uncertified(
            solution.stopped, run.tol, float(solution.gap), f"Allow more --max-steps, {other}or raise --tol"
        )


def _near_marginal(arrays: Arrays, stated: "jp.DistortionProblem", limit: str) -> "jp.DistortionProblem":
    """The problem with P_Y within a total variation or `DIVERGENCE=` of `marginal` in the file, or of P(X)."""
    from jaxpriv._runtime.validation import scalar

    name, _, number = limit.rpartition("=")
    try:
        within = float(number)
    except ValueError:
        raise InputError(f"--marginal {limit!r} must be V or DIVERGENCE=V, such as 0.02 or kl=0.01") from None
    scalar(within, "--marginal", low=0.0)
    joint = arrays["joint"]
    if stated.budget is None or joint.ndim != 2:
        raise InputError("--marginal goes with --budget and one joint (S,X)")
    divergence = None
    if name not in ("", "total-variation"):
        divergence = jp.leakage.by_name("f-information", divergence=name).divergence
    target = arrays.get("marginal", joint.sum(axis=0))
    given = {"budget": stated.budget, "leakage": stated.leakage, "limits": stated.limits}
    return jp.with_marginal(joint, stated.distortions, target, within=within, divergence=divergence, **given)


def _record(solution: "jp.Solution", unit: str) -> JsonRecord:
    """The JSON of a result; `distortion` has one entry for each distortion of the problem.

    Where `auto` went from one solver to another, `notes` has the reason.
    """
    further: JsonRecord = {"notes": list(solution.notes)} if solution.notes else {}
    if solution.least_leakage is not None:
        further["least_leakage"] = _record(solution.least_leakage, unit)
    return {**solved(solution, *_NUMBERS), **in_units(unit), **further}


def _summary(record: JsonRecord, objective: str, units: Units) -> str:
    # Only logarithms are converted. A distortion has its own units, an objective with a multiplier its leakage's.
    per, unit = units.of(record.get("leakage_units", "nats"))
    scale, name = (1.0, "") if objective == "distortion" else (per, f" {unit}")
    first = {}
    if (least := record.get("least_leakage")) is not None:
        ends = _output.lower(least["lower_bound"] * per), _output.upper(least["value"] * per)
        first["least leakage"] = f"{ends[0]} to {ends[1]} {unit}"
    lines = {
        "status": record["status"].replace("_", " "),
        f"least {objective}": f"{_output.upper(record['value'] * scale)}{name}",
        "lower bound": f"{_output.lower(record['lower_bound'] * scale)}{name}",
        "certified gap": f"{_output.upper(record['gap'] * scale, 2)}{name}",
        **({} if objective == "leakage" else {"leakage": f"{_output.upper(record['leakage'] * per)} {unit}"}),
        **first,
        "distortion": ", ".join(f"{value:.6g}" for value in record["distortion"]),
        **work_of(record),
    }
    return _output.aligned(lines)
