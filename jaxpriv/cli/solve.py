"""`jaxpriv solve`: one problem at one target, with its certificate."""

from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._options import FormOptions, RunOptions, distortion_problem, known_solver, measures_of, near_marginal
from jaxpriv.cli._output import JsonRecord, MappingOptions, Units
from jaxpriv.cli._results import in_units, infeasible, result_text, solved, uncertified
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
    from jaxpriv.solving.solve import solve_within

    measures = measures_of(measure, limit)
    known_solver(solver)
    scalar(rtol, "--rtol", low=0.0)
    run.check()
    results.check()
    if leakage_tolerance is not None:
        scalar(leakage_tolerance, "--leakage-tolerance", low=0.0)
        if len(budget or ()) != 1 or marginal is not None:
            raise InputError(
                "--leakage-tolerance goes with --budget, with one distortion and without --marginal: it is above the "
                "least leakage that a budget allows"
            )
    arrays, table = problem_of(problem, columns, ["joint", "distortion"], ["neighbours", "scales", "marginal", "cost"])
    files = book_file(results.codebook_out, table)
    stated = distortion_problem(
        arrays, measures, budget=budget or None, multiplier=multiplier or None, leakage_budget=leakage_budget
    )
    asked = stated if marginal is None else near_marginal(arrays, stated, marginal)
    whole = asked if leakage_tolerance is None else jp.LexicographicProblem(asked, tolerance=leakage_tolerance)
    request = run.request(solver, rtol, checkpoint=checkpoint)
    try:
        solution = working("Solving", lambda _: solve_within(whole, request), request.clock)
    except InfeasibleError as error:
        record = infeasible(*_NUMBERS, seconds=request.clock.seconds)
        record |= {"distortion": [None] * len(stated.distortions), **in_units("nats"), "proof": error.proof}
        _output.deliver(record, results.json, "")
        raise
    # One distortion for each of the problem's: a limit on the marginal adds others.
    record = {**_record(solution, asked.leakage.unit), "distortion": solution.distortion[: len(stated.distortions)]}
    of_distortion = stated.form.limits_leakage or leakage_tolerance is not None
    objective = "distortion" if of_distortion else "objective" if multiplier else "leakage"
    text = _summary(record, objective, results.units)
    if np.isnan(solution.leakage):
        _output.deliver(record, results.json, text, files)
        raise NotCertifiedError("no mapping was found that meets every limit; the lower bound is valid")
    inputs, outputs = arrays["joint"].shape[-1], stated.shape[1]
    mapping = np.asarray(solution.mechanism)[:inputs].reshape(inputs, -1, outputs).sum(axis=1)
    _output.deliver(record, results.json, text, files | results.files(lambda: mapping, symbols_of(arrays)))
    if solution.status != "optimal":
        other = "" if "interior-point" in solution.solver else "use --solver interior-point, "
        advice = f"Allow more --max-steps, {other}or raise --tol"
        raise uncertified(solution.stopped, run.tol, float(solution.gap), advice)


def _record(solution: "jp.Solution", unit: str) -> JsonRecord:
    """The JSON of a result; `notes` has the reason where `auto` went from one solver to another."""
    further: JsonRecord = {"notes": list(solution.notes)} if solution.notes else {}
    if solution.least_leakage is not None:
        further["least_leakage"] = _record(solution.least_leakage, unit)
    return {**solved(solution, *_NUMBERS), **in_units(unit), **further}


def _summary(record: JsonRecord, objective: str, units: Units) -> str:
    # Only logarithms are converted. A distortion has its own units, an objective with a multiplier its leakage's.
    measured = record.get("leakage_units", "nats")
    per, unit = units.of(measured)
    shown = {} if objective == "leakage" else {"leakage": f"{_output.upper(record['leakage'] * per)} {unit}"}
    if (least := record.get("least_leakage")) is not None:
        ends = _output.lower(least["lower_bound"] * per), _output.upper(least["value"] * per)
        shown["least leakage"] = f"{ends[0]} to {ends[1]} {unit}"
    shown["distortion"] = ", ".join(f"{value:.6g}" for value in record["distortion"])
    return result_text(record, f"least {objective}", "" if objective == "distortion" else measured, shown, units)
