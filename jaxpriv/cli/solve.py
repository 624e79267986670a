"""`jaxpriv solve`: the least leakage within a distortion budget, with its certificate."""

import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonOption, Units, UnitsOption
from jaxpriv.cli._work import working
from jaxpriv.errors import InfeasibleError, InputError, NotCertifiedError


class Form(StrEnum):
    """How a measure combines the outcomes."""

    average = "average"
    worst = "worst"


def solve(
    problem: Annotated[
        Path,
        typer.Argument(
            metavar="PROBLEM.npz",
            help="`joint` (S,X) or (K,S,X) for a set of priors; `distortion` (X,Y), or (K,X,Y) with one budget each.",
        ),
    ],
    leakage: Annotated[str, typer.Option(metavar="NAME", help="The measure to minimise.")] = "mutual-information",
    form: Annotated[Form | None, typer.Option(help="Average or worst outcome; by default the measure's own.")] = None,
    budget: Annotated[
        list[float] | None,
        typer.Option(metavar="D ...", help="Largest expected distortion; several: in a row, or the option again."),
    ] = None,
    leakage_budget: Annotated[
        float | None, typer.Option(metavar="EPS", help="Minimise the distortion with at most this leakage (nats).")
    ] = None,
    multiplier: Annotated[
        list[float] | None,
        typer.Option(metavar="LAMBDA ...", help="Minimise leakage + LAMBDA * distortion (nats)."),
    ] = None,
    solver: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="auto, interior-point, mirror-descent, blahut-arimoto, accelerated or two-grid."
        ),
    ] = "auto",
    tol: Annotated[float, typer.Option(help="Largest certified gap that counts as optimal.")] = 1e-6,
    rtol: Annotated[float, typer.Option(help="The same relative to the value; the larger allowance holds.")] = 0.0,
    max_steps: Annotated[int | None, typer.Option(help="Most iterations.", show_default="the solver's own")] = None,
    units: UnitsOption = Units.nats,
    out: Annotated[
        Path | None, typer.Option(metavar="MECH.npz", help="Write the mapping: `mechanism` (X,Y), P(y|x).")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Design the mapping P(y|x) with the least leakage of S at a bounded distortion of X.

    Prints the leakage, a proved lower bound on what any mapping could reach, and the gap between
    them. Exit code 3: no mapping meets the budgets (the JSON holds the proof). Exit code 4: the gap
    is above --tol; mapping and interval are valid and written all the same.
    """
    from jaxpriv import problems
    from jaxpriv._files import load_npz_safely
    from jaxpriv._validation import scalar
    from jaxpriv.solve import solve as find
    from jaxpriv.solving.choice import SOLVERS

    _check_objective(leakage, form)
    if solver not in ("auto", *SOLVERS):
        raise InputError(f"--solver is unknown; known: auto, {', '.join(SOLVERS)}")
    scalar(tol, "--tol", low=0.0, open_low=True)
    scalar(rtol, "--rtol", low=0.0)
    if max_steps is not None:
        scalar(max_steps, "--max-steps", low=1.0)
    _output.check_outputs({"--out": out, "--json": json}, {"PROBLEM.npz": problem})
    arrays = load_npz_safely(problem, ["joint", "distortion"])
    asked = problems.DistortionProblem(
        arrays["joint"],
        arrays["distortion"],
        budget=budget or None,
        multiplier=multiplier or None,
        leakage_budget=leakage_budget,
    )
    begun = time.perf_counter()
    try:
        solution = working("Solving", lambda _: find(asked, solver, tol=tol, rtol=rtol, max_steps=max_steps))
    except InfeasibleError as error:
        seconds = {"compile": 0.0, "solve": time.perf_counter() - begun}
        _output.deliver(_infeasible(error, len(asked.distortions), seconds), json, "")
        raise
    record = _record(solution)
    objective = "distortion" if leakage_budget is not None else "objective" if multiplier else "leakage"
    mapping = {} if out is None else {out: _output.npz_bytes(mechanism=np.asarray(solution.mechanism))}
    _output.deliver(record, json, _summary(record, objective, units), mapping)
    if solution.status != "optimal":
        raise NotCertifiedError(
            f"not certified to --tol {tol:g}: the gap is {_output.upper(solution.gap, 3)}. The mapping and its "
            "interval are valid. Allow more --max-steps, use --solver interior-point, or raise --tol"
        )


def _check_objective(name: str, form: str | None) -> None:
    from jaxpriv.leakage import forms_of

    forms = forms_of(name)
    if form is not None and form not in forms:
        raise InputError(f"--form: {name} has no form {form}; it has: {', '.join(forms)}")
    if (name, form or forms[0]) != ("mutual-information", "average"):
        raise InputError(
            f"--leakage {name}{f' --form {form}' if form else ''} is not available as an objective yet; "
            "only mutual-information (average) is. `jaxpriv leakage` evaluates every measure of a mapping"
        )


def _record(solution: Any) -> dict[str, Any]:
    """The JSON of a result; `distortion` has one entry for each distortion of the problem."""
    return {
        "status": solution.status,
        "value": solution.value,
        "lower_bound": solution.lower_bound,
        "gap": solution.gap,
        "leakage": solution.leakage,
        "distortion": solution.distortion,
        "solver": solution.solver,
        "iterations": solution.steps,
        "seconds": solution.seconds,
        "units": "nats",
    }


def _infeasible(error: InfeasibleError, distortions: int, seconds: Mapping[str, float]) -> dict[str, Any]:
    """The same fields where there is no mapping: the optimum of an infeasible problem is +inf."""
    return {
        "status": "infeasible",
        "value": float("inf"),
        "lower_bound": float("inf"),
        "gap": None,
        "leakage": None,
        "distortion": [None] * distortions,
        "solver": "none",
        "iterations": 0,
        "seconds": seconds,
        "units": "nats",
        "proof": error.proof,
    }


def _summary(record: Mapping[str, Any], objective: str, units: Units) -> str:
    # A distortion has its own units; an objective with a multiplier is in those of its leakage.
    scale, name = (1.0, "") if objective == "distortion" else (units.per_nat, f" {units}")
    lines = {
        "status": record["status"].replace("_", " "),
        f"least {objective}": f"{_output.upper(record['value'] * scale)}{name}",
        "lower bound": f"{_output.lower(record['lower_bound'] * scale)}{name}",
        "certified gap": f"{_output.upper(record['gap'] * scale, 3)}{name}",
        "leakage": f"{_output.upper(record['leakage'] * units.per_nat)} {units}",
        "distortion": ", ".join(f"{value:.6g}" for value in record["distortion"]),
        "solver": f"{record['solver']}, {int(record['iterations'])} iterations",
        "time": f"{record['seconds']['compile']:.2f} s to compile, {record['seconds']['solve']:.2f} s to solve",
    }
    width = max(map(len, lines))
    return "".join(f"{name:<{width}}  {value}\n" for name, value in lines.items())
