"""`jaxpriv funnel`: the least (privacy funnel) or the most (bottleneck) leakage about S at a disclosure of X."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxpriv.cli import _output
from jaxpriv.cli._measures import LeakageOptions
from jaxpriv.cli._output import JsonRecord, MappingOptions, Units
from jaxpriv.cli._tables import CountOptions, book_file, problem_of, symbols_of
from jaxpriv.cli._work import RunOptions, working
from jaxpriv.errors import InfeasibleError, InputError, NotCertifiedError

if TYPE_CHECKING:
    from jaxpriv.funnels import FunnelSolution

# Methods for the bottleneck only; all others take --bottleneck.
_OF_BOTTLENECKS = ("greedy-bottleneck", "bottleneck-iteration")
# Methods that prove what they find; the others are asked by name for what they are.
_CERTIFYING = ("auto", "column-generation", "vertex-generation")
_NUMBERS = ("value", "lower_bound", "upper_bound", "gap", "leakage", "disclosure")


def funnel(
    *,
    problem: Annotated[
        Path,
        typer.Argument(
            metavar="PROBLEM.npz|TABLE.csv",
            help="`joint` (S,X), or a table of records (.csv, .tsv, .parquet) with --private and --useful.",
        ),
    ],
    columns: CountOptions,
    disclosure: Annotated[
        list[float] | None,
        typer.Option(
            metavar="R ...",
            help="Least leakage with I(X;Y) >= R (most with I(X;Y) <= R for --bottleneck), in nats; several: a curve.",
        ),
    ] = None,
    leakage_budget: Annotated[
        list[float] | None, typer.Option(metavar="D ...", help="Largest I(X;Y) with at most this leakage.")
    ] = None,
    relevance: Annotated[
        list[float] | None, typer.Option(metavar="D ...", help="Bottleneck: least I(X;Y) with I(S;Y) >= D, in nats.")
    ] = None,
    multiplier: Annotated[
        list[float] | None,
        typer.Option(metavar="LAMBDA ...", help="Minimise leakage - LAMBDA I(X;Y) (maximise with --bottleneck)."),
    ] = None,
    bottleneck: Annotated[
        bool, typer.Option("--bottleneck", help="The other boundary: the most that can leak; implied where needed.")
    ] = False,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto (column-generation, and vertex-generation for guesses and other measures of finitely many "
            "actions, which prove their values; difference-of-convex for other measures), greedy, greedy-ratio, "
            "greedy-bottleneck, difference-of-convex, alternating, bottleneck-iteration.",
        ),
    ] = "auto",
    measure: LeakageOptions,
    run: RunOptions,
    results: MappingOptions,
) -> None:
    """Design the mapping P(y|x) with the least leakage of S at a prescribed information about X, or the reverse.

    Prints the value, a proved interval that contains the optimum, and its width, the gap. With several targets
    the JSON holds a list for each number. Exit code 3: a target that no mapping reaches. Exit code 4: the
    gap of auto, column-generation or vertex-generation is above --tol, or the time limit (of all targets
    together) or Ctrl-C came first; mapping and interval are valid and written all the same. The other methods
    are local and prove nothing: their status is `best_known` or `stationary`, with exit code 0.
    """
    from jaxpriv._validation import joint_array
    from jaxpriv.funnels import FunnelSolution
    from jaxpriv.funnels.solve import FUNNEL_SOLVERS
    from jaxpriv.problems import BottleneckProblem, FunnelProblem
    from jaxpriv.solvers import Goal
    from jaxpriv.solving.solve import solve_within

    leakage = measure.option.measure(None)
    if method not in ("auto", *FUNNEL_SOLVERS):
        raise InputError(f"--method {method!r} is not a method's name; known: auto, {', '.join(FUNNEL_SOLVERS)}")
    bottleneck = bottleneck or bool(relevance) or method in _OF_BOTTLENECKS
    given = {"disclosure": disclosure, "leakage_budget": leakage_budget, "relevance": relevance}
    form, targets = _target({**given, "multiplier": multiplier})
    _check_form(form, bottleneck, method, measure.leakage)
    run.check()
    if results.out is not None and len(targets) > 1:
        raise InputError("--out: one mapping is written; give one target")
    results.check({"PROBLEM.npz": problem, **columns.inputs})
    arrays, table = problem_of(problem, columns, ["joint"])
    joint = joint_array(arrays["joint"])
    files = book_file(results.codebook_out, table)

    def work(report: Callable[[int, int], None]) -> "list[FunnelSolution | InfeasibleError]":
        solved: list[FunnelSolution | InfeasibleError] = []
        for position, target in enumerate(targets):
            wanted: dict[str, Any] = {form: target} if bottleneck else {form: target, "leakage": leakage}
            try:
                asked = BottleneckProblem(joint, **wanted) if bottleneck else FunnelProblem(joint, **wanted)
                one = solve_within(clock, asked, method, Goal(run.tol, 0.0), run.max_steps)
                assert isinstance(one, FunnelSolution)
                solved.append(one)
            except InfeasibleError as error:
                solved.append(error)  # it names the target
            report(position + 1, len(targets))
        return solved

    clock = run.clock()
    found = working("Solving", work, clock)
    least = (not bottleneck and form != "leakage_budget") or form == "relevance"
    records = [_infeasible(one, least) if isinstance(one, InfeasibleError) else _record(one) for one in found]
    own = {} if leakage.unit == "nats" else {"leakage_units": leakage.unit}
    record = {**_together(records, method), "units": "nats", **own}
    first = found[0]
    if not isinstance(first, InfeasibleError):
        files |= results.files(lambda: first.mechanism, symbols_of(arrays))
    unreachable = next((one for one in found if isinstance(one, InfeasibleError)), None)
    if unreachable is not None:
        text = ""
    elif len(targets) == 1:
        text = _summary(record, form, bottleneck, results.units)
    else:
        text = _table(records, targets, form, own, results.units)
    _output.deliver(record, results.json, text, {} if unreachable is not None else files)
    if unreachable is not None:
        raise unreachable
    open_gaps = [one["gap"] for one in records if one["status"] != "optimal"]
    if open_gaps and (method in _CERTIFYING or clock.stop):
        raise NotCertifiedError(
            f"{_output.stopped(clock.stop)}not certified to --tol {run.tol:g}: the gap is "
            f"{_output.upper(max(open_gaps), 3)}. The mapping and its interval are valid. "
            f"{_output.advice(clock.stop, 'Allow more --max-steps, or raise --tol')}"
        )


def _target(forms: Mapping[str, list[float] | None]) -> tuple[str, list[float]]:
    """The one form that is given and its values, each checked by option and position."""
    from jaxpriv._validation import scalar

    form = _output.only_one(forms)
    values = forms[form] or []
    for position, value in enumerate(values):
        option = f"--{form.replace('_', '-')}"
        scalar(value, option if len(values) == 1 else f"{option}[{position}]", low=0.0)
    return form, values


def _check_form(form: str, bottleneck: bool, method: str, leakage: str) -> None:
    if not bottleneck:
        return
    why = f"--method {method}" if method in _OF_BOTTLENECKS else "--bottleneck"
    if form == "leakage_budget":
        raise InputError(f"--leakage-budget is for the funnel, not for {why}; use --relevance or --disclosure")
    if leakage != "mutual-information":
        raise InputError(f"--leakage: a bottleneck ({why}) is about mutual information only")


def _record(solution: "FunnelSolution") -> JsonRecord:
    return {
        "status": solution.status,
        **{name: float(getattr(solution, name)) for name in _NUMBERS},
        "solver": solution.solver,
        "iterations": int(solution.steps),
        "seconds": dict(solution.seconds),
    }


def _infeasible(error: InfeasibleError, least: bool) -> JsonRecord:
    """The same fields where there is no mapping: the optimum of an infeasible problem is infinite."""
    worst = float("inf") if least else -float("inf")
    return {
        "status": "infeasible",
        **dict.fromkeys(("value", "lower_bound", "upper_bound"), worst),
        **dict.fromkeys(("gap", "leakage", "disclosure")),
        "solver": "none",
        "iterations": 0,
        "seconds": {"compile": 0.0, "solve": 0.0},  # the problem was refused as it was stated
        "proof": error.proof,
    }


def _together(records: list[JsonRecord], method: str) -> JsonRecord:
    """The JSON of one result, or the lists of several; `solver` and `seconds` are of the whole."""
    if len(records) == 1:
        return records[0]
    names = [name for name in records[0] if name not in ("solver", "seconds", "proof")]
    solvers = dict.fromkeys(one["solver"] for one in records if one["solver"] != "none")
    lists = {name: [one[name] for one in records] for name in names}
    iterations = lists.pop("iterations")
    return {
        **lists,
        "solver": next(iter(solvers), method),
        "iterations": iterations,
        "seconds": {key: sum(one["seconds"][key] for one in records) for key in ("compile", "solve")},
    }


def _scale(own: JsonRecord, units: Units) -> tuple[float, str]:
    return (1.0, str(own["leakage_units"])) if "leakage_units" in own else (units.per_nat, str(units))


def _summary(record: JsonRecord, form: str, bottleneck: bool, units: Units) -> str:
    scale, unit = _scale(record, units)
    # A disclosure is in nats, whatever the leakage is in.
    per, name = (units.per_nat, str(units)) if form in ("leakage_budget", "relevance") else (scale, unit)
    best = {
        "disclosure": "most relevance" if bottleneck else "least leakage",
        "leakage_budget": "most disclosure",
        "relevance": "least disclosure",
        "multiplier": "best objective",
    }[form]
    least = record["value"] == record["upper_bound"]
    rounded = _output.upper if least else _output.lower
    lines = {
        "status": record["status"].replace("_", " "),
        best: f"{rounded(record['value'] * per)} {name}",
        "lower bound": f"{_output.lower(record['lower_bound'] * per)} {name}",
        "upper bound": f"{_output.upper(record['upper_bound'] * per)} {name}",
        "proved gap": f"{_output.upper(record['gap'] * per, 3)} {name}",
        **({} if best == "least leakage" else {"leakage": f"{record['leakage'] * scale:.6g} {unit}"}),
        "disclosure": f"{record['disclosure'] * units.per_nat:.6g} {units}",
        "solver": f"{record['solver']}, {record['iterations']} iterations",
        "time": f"{record['seconds']['compile']:.2f} s to compile, {record['seconds']['solve']:.2f} s to solve",
    }
    return _output.aligned(lines)


def _table(records: list[JsonRecord], targets: list[float], form: str, own: JsonRecord, units: Units) -> str:
    scale, unit = _scale(own, units)
    per = units.per_nat if form in ("leakage_budget", "relevance") else scale
    headings = (form.replace("_", " "), f"I(X;Y) ({units})", f"leakage ({unit})", "lower bound", "upper bound", "steps")
    table = _output.empty_table(headings)
    for target, one in zip(targets, records, strict=True):
        table.add_row(
            f"{target:g}",
            f"{one['disclosure'] * units.per_nat:.6f}",
            f"{one['leakage'] * scale:.6f}",
            _output.lower_fixed(one["lower_bound"] * per),
            _output.upper_fixed(one["upper_bound"] * per),
            str(one["iterations"]),
            one["status"].replace("_", " "),
        )
    return _output.rendered(table)
