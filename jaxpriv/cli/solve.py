"""`jaxpriv solve`: the least leakage within a distortion budget, or the reverse, with its certificate."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from jaxpriv.cli import _output
from jaxpriv.cli._measures import FORMS, FormOptions, MeasureOption
from jaxpriv.cli._output import JsonRecord, MappingOptions, Units
from jaxpriv.cli._tables import CostOptions, book_file, problem_of, symbols_of
from jaxpriv.cli._work import RunOptions, working
from jaxpriv.errors import InfeasibleError, InputError, NotCertifiedError

if TYPE_CHECKING:
    from jaxpriv.solution import Solution


def solve(
    *,
    problem: Annotated[
        Path,
        typer.Argument(
            metavar="PROBLEM.npz|TABLE.csv",
            help="`joint` (S,X) or (K,S,X) for a set of priors; `distortion` (X,Y), or (K,X,Y) with one budget each; "
            "for ldp, optionally, `neighbours` (S,S), 0 or 1: the pairs to which it applies. Or a table of records "
            "(.csv, .tsv, .parquet) with --private and --useful.",
        ),
    ],
    columns: CostOptions,
    measure: FormOptions,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:PARAMETER]=VALUE",
            help="A further limit on a measure, in its own unit (logarithms in nats); repeat the option for several. "
            "Parameters stand behind colons: lift=1, sibson:2=0.3, f-information:chi-squared=0.1, "
            "f-information:e-gamma:1.5=0.1, gain-brier:worst=0.2.",
        ),
    ] = None,
    budget: Annotated[
        list[float] | None,
        typer.Option(
            metavar="D ...",
            help="Largest expected distortion; several: separated by blanks, or by repeating the option.",
        ),
    ] = None,
    leakage_budget: Annotated[
        float | None,
        typer.Option(metavar="EPS", help="Minimise the distortion with at most this leakage (logarithms in nats)."),
    ] = None,
    multiplier: Annotated[
        list[float] | None,
        typer.Option(
            metavar="LAMBDA ...",
            help="Minimise leakage + LAMBDA * distortion; for averages that are no logarithm, and mutual information.",
        ),
    ] = None,
    solver: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto, interior-point; mirror-descent, blahut-arimoto, accelerated, two-grid for mutual information; "
            "linear-program, hybrid-gradient for measures that are linear limits.",
        ),
    ] = "auto",
    run: RunOptions,
    rtol: Annotated[float, typer.Option(help="The same relative to the value; the looser tolerance applies.")] = 0.0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="STATE.npz",
            help="With --solver accelerated or two-grid: write the state of the solve to this file, and continue from "
            "it if it exists; removed once the result is optimal.",
        ),
    ] = None,
    results: MappingOptions,
) -> None:
    """Design the mapping P(y|x) with the least leakage of S at a bounded distortion of X, or the reverse.

    Prints the leakage, a proved lower bound on what any mapping could reach, and the gap between
    them. Leakage may be any measure, in its own unit, and further measures may be limited. Exit code
    3: no mapping meets budgets and limits (the JSON holds the proof). Exit code 4: the gap is above
    --tol (or the time limit or Ctrl-C came first); mapping and interval are valid and written all the same.
    """
    from jaxpriv import problems
    from jaxpriv._validation import scalar
    from jaxpriv.solvers import Goal
    from jaxpriv.solving.solve import solve_within

    asked_measures = [measure.option, *(parsed_limit(text) for text in limit or ())]
    for one in asked_measures:
        one.measure(None)
    known_solver(solver)
    run.check()
    scalar(rtol, "--rtol", low=0.0)
    results.check({"PROBLEM.npz": problem, **columns.inputs}, checkpoint=checkpoint)
    arrays, table = problem_of(problem, columns, ["joint", "distortion"], ["neighbours"])
    files = book_file(results.codebook_out, table)
    objective_measure, *limited = [one.measure(arrays.get("neighbours")) for one in asked_measures]
    asked = problems.DistortionProblem(
        arrays["joint"],
        arrays["distortion"],
        budget=budget or None,
        multiplier=multiplier or None,
        leakage_budget=leakage_budget,
        leakage=objective_measure,
        limits=[(one, given.value) for one, given in zip(limited, asked_measures[1:], strict=True)],
    )
    begun = time.perf_counter()
    clock, goal = run.clock(), Goal(run.tol, rtol)
    try:
        solution = working(
            "Solving", lambda _: solve_within(clock, asked, solver, goal, run.max_steps, True, checkpoint), clock
        )
    except InfeasibleError as error:
        seconds = {"compile": 0.0, "solve": time.perf_counter() - begun}
        _output.deliver(_infeasible(error, len(asked.distortions), seconds), results.json, "")
        raise
    record = _record(solution, objective_measure.unit)
    objective = "distortion" if leakage_budget is not None else "objective" if multiplier else "leakage"
    files |= results.files(lambda: np.asarray(solution.mechanism), symbols_of(arrays))
    _output.deliver(record, results.json, _summary(record, objective, results.units), files)
    if solution.status != "optimal":
        other = "" if "interior-point" in solution.solver else "use --solver interior-point, "
        advice = f"Allow more --max-steps, {other}or raise --tol"
        raise NotCertifiedError(
            f"{_output.stopped(solution.stopped)}not certified to --tol {run.tol:g}: the gap is "
            f"{_output.upper(solution.gap, 3)}. The mapping and its interval are valid. "
            f"{_output.advice(solution.stopped, advice)}"
        )


def known_solver(name: str, funnel: bool = False) -> None:
    """Refuse a solver that there is none of, with those that there are."""
    from jaxpriv.funnels.solve import FUNNEL_SOLVERS
    from jaxpriv.solving.choice import SOLVER_NAMES

    known = ("auto", *FUNNEL_SOLVERS) if funnel else SOLVER_NAMES
    if name not in known:
        raise InputError(f"--solver {name!r} is not a solver's name; known: {', '.join(known)}")


def parsed_limit(text: str) -> MeasureOption:
    """`NAME[:PARAMETER...]=VALUE`; a parameter is a form, a divergence or a number (order, or gamma)."""
    from jaxpriv._validation import scalar
    from jaxpriv.leakage import DIVERGENCES

    option = f"--limit {text!r}"
    name, equals, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = None
    if not equals or not name or value is None:
        raise InputError(f"{option} is not NAME[:PARAMETER]=VALUE, as in lift=1 or sibson:2=0.3")
    scalar(value, option, low=0.0, infinite=True)
    name, *parameters = name.split(":")
    given: dict[str, Any] = {}
    for parameter in parameters:
        if parameter in FORMS:
            key, item = "form", parameter
        elif parameter in DIVERGENCES:
            key, item = "divergence", parameter
        else:
            try:
                key, item = ("gamma" if name == "f-information" else "order"), float(parameter)
            except ValueError as error:
                raise InputError(
                    f"{option}: {parameter!r} is no parameter; known: a number, {', '.join((*FORMS, *DIVERGENCES))}"
                ) from error
        if key in given:
            raise InputError(f"{option} gives {key} twice")
        given[key] = item
    return MeasureOption("--limit", name, value=value, **given)


def _record(solution: "Solution", unit: str) -> dict[str, object]:
    """The JSON of a result; `distortion` has one entry for each distortion of the problem.

    `units` is that of logarithms; a measure in another unit has it in `leakage_units`. Where `auto` went from one
    solver to another, `notes` has the reason.
    """
    own: dict[str, object] = {} if unit == "nats" else {"leakage_units": unit}
    if solution.notes:
        own["notes"] = list(solution.notes)  # what `auto` did
    names = ("status", "value", "lower_bound", "gap", "leakage", "distortion", "solver")
    return {
        **{name: getattr(solution, name) for name in names},
        "iterations": solution.steps,
        "seconds": solution.seconds,
        "units": "nats",
        **own,
    }


def _infeasible(error: InfeasibleError, distortions: int, seconds: Mapping[str, float]) -> dict[str, object]:
    """The same fields where there is no mapping: the optimum of an infeasible problem is +inf."""
    return {
        "status": "infeasible",
        **dict.fromkeys(("value", "lower_bound"), float("inf")),
        **dict.fromkeys(("gap", "leakage")),
        "distortion": [None] * distortions,
        "solver": "none",
        "iterations": 0,
        "seconds": seconds,
        "units": "nats",
        "proof": error.proof,
    }


def _summary(record: JsonRecord, objective: str, units: Units) -> str:
    # Only logarithms are converted. A distortion has its own units, an objective with a multiplier its leakage's.
    own = record.get("leakage_units")
    per, unit = (units.per_nat, str(units)) if own is None else (1.0, own)
    scale, name = (1.0, "") if objective == "distortion" else (per, f" {unit}")
    lines = {
        "status": record["status"].replace("_", " "),
        f"least {objective}": f"{_output.upper(record['value'] * scale)}{name}",
        "lower bound": f"{_output.lower(record['lower_bound'] * scale)}{name}",
        "certified gap": f"{_output.upper(record['gap'] * scale, 3)}{name}",
        **({} if objective == "leakage" else {"leakage": f"{_output.upper(record['leakage'] * per)} {unit}"}),
        "distortion": ", ".join(f"{value:.6g}" for value in record["distortion"]),
        "solver": f"{record['solver']}, {int(record['iterations'])} iterations",
        "time": f"{record['seconds']['compile']:.2f} s to compile, {record['seconds']['solve']:.2f} s to solve",
    }
    return _output.aligned(lines)
