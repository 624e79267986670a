"""`jaxpriv funnel`: the least (privacy funnel) or the most (bottleneck) leakage about S at a disclosure of X."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jaxpriv.cli import _output
from jaxpriv.cli._measures import DivergenceOption, GammaOption, LeakageOption, MeasureOption, OrderOption
from jaxpriv.cli._output import JsonOption, JsonRecord, Units, UnitsOption
from jaxpriv.cli._tables import (
    BinsOption,
    CodebookOption,
    CodebookOutOption,
    ColumnOptions,
    MissingOption,
    PrivateOption,
    ReadOption,
    SharedOption,
    SparseOption,
    UsefulOption,
    book_file,
    problem_of,
    symbols_of,
)
from jaxpriv.cli._work import ProgressOption, TimeLimitOption, working
from jaxpriv.errors import InfeasibleError, InputError, NotCertifiedError

if TYPE_CHECKING:
    from jaxpriv.funnels import FunnelSolution

# Methods for the bottleneck only; all others take --bottleneck.
_OF_BOTTLENECKS = ("greedy-bottleneck", "bottleneck-iteration")
# Methods that prove what they find; the others are asked by name for what they are.
_CERTIFYING = ("auto", "column-generation", "vertex-generation")
_NUMBERS = ("value", "lower_bound", "upper_bound", "gap", "leakage", "disclosure")


def funnel(
    problem: Annotated[
        Path,
        typer.Argument(
            metavar="PROBLEM.npz|TABLE.csv",
            help="`joint` (S,X), or a table of records (.csv, .tsv, .parquet) with --private and --useful.",
        ),
    ],
    private: PrivateOption = None,
    useful: UsefulOption = None,
    shared: SharedOption = None,
    bins: BinsOption = None,
    missing: MissingOption = None,
    codebook: CodebookOption = None,
    read: ReadOption = None,
    sparse: SparseOption = False,
    disclosure: Annotated[
        list[float] | None,
        typer.Option(
            metavar="R ...",
            help="Least leakage with I(X;Y) >= R (most with I(X;Y) <= R for --bottleneck), in nats; several: a curve.",
        ),
    ] = None,
    leakage_budget: Annotated[
        list[float] | None,
        typer.Option(metavar="D ...", help="Largest I(X;Y) with at most this leakage."),
    ] = None,
    relevance: Annotated[
        list[float] | None,
        typer.Option(metavar="D ...", help="Bottleneck: least I(X;Y) with I(S;Y) >= D, in nats."),
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
    leakage: LeakageOption = "mutual-information",
    order: OrderOption = None,
    divergence: DivergenceOption = None,
    gamma: GammaOption = None,
    tol: Annotated[float, typer.Option(help="Largest proved gap that counts as optimal.")] = 1e-6,
    max_steps: Annotated[int | None, typer.Option(help="Most rounds.", show_default="the method's own")] = None,
    time_limit: TimeLimitOption = None,
    progress: ProgressOption = False,
    units: UnitsOption = Units.nats,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="MECH.npz|csv",
            help="Write the mapping: `mechanism` (X,Y), P(y|x); of a table also `attributes`, the classes of each x, "
            "and `classes`, a fingerprint of the codebook. A .csv holds the mapping alone, one row for each x.",
        ),
    ] = None,
    codebook_out: CodebookOutOption = None,
    json: JsonOption = None,
) -> None:
    """Design the mapping P(y|x) with the least leakage of S at a prescribed information about X, or the reverse.

    Prints the value, a proved interval that contains the optimum, and its width, the gap. With several targets
    the JSON holds a list for each number. Exit code 3: a target that no mapping reaches. Exit code 4: the
    gap of auto, column-generation or vertex-generation is above --tol, or the time limit (of all targets
    together) or Ctrl-C came first; mapping and interval are valid and written all the same. The other methods
    are local and prove nothing: their status is `best_known` or `stationary`, with exit code 0.
    """
    from jaxpriv._clock import clock_of
    from jaxpriv._validation import joint_array, scalar
    from jaxpriv.funnels import FunnelSolution
    from jaxpriv.funnels.solve import FUNNEL_SOLVERS
    from jaxpriv.problems import BottleneckProblem, FunnelProblem
    from jaxpriv.solvers import Goal
    from jaxpriv.solving.solve import solve_within

    measure = MeasureOption("--leakage", leakage, None, order, divergence, gamma).measure(None)
    if method not in ("auto", *FUNNEL_SOLVERS):
        raise InputError(f"--method {method!r} is not a method's name; known: auto, {', '.join(FUNNEL_SOLVERS)}")
    bottleneck = bottleneck or bool(relevance) or method in _OF_BOTTLENECKS
    form, targets = _target(disclosure, leakage_budget, relevance, multiplier)
    _check_form(form, bottleneck, method, leakage)
    scalar(tol, "--tol", low=0.0, open_low=True)
    if max_steps is not None:
        scalar(max_steps, "--max-steps", low=1.0)
    if time_limit is not None:
        scalar(time_limit, "--time-limit", low=0.0)
    if out is not None and len(targets) > 1:
        raise InputError("--out: one mapping is written; give one target")
    columns = ColumnOptions(private, useful, shared, bins, missing, codebook, sparse, read=read)
    outputs = {"--out": out, "--codebook-out": codebook_out, "--json": json}
    _output.check_outputs(outputs, {"PROBLEM.npz": problem, **columns.inputs})
    _output.check_mapping(out)
    arrays, table = problem_of(problem, columns, ["joint"])
    joint = joint_array(arrays["joint"])
    files = book_file(codebook_out, table)

    def work(report: Callable[[int, int], None]) -> "list[FunnelSolution | InfeasibleError]":
        found: list[FunnelSolution | InfeasibleError] = []
        for position, target in enumerate(targets):
            given: object = {form: target}
            try:
                asked = (
                    BottleneckProblem(joint, **given)
                    if bottleneck
                    else FunnelProblem(joint, **{**given, "leakage": measure})
                )
                solved = solve_within(clock, asked, method, Goal(tol, 0.0), max_steps)
                assert isinstance(solved, FunnelSolution)
                found.append(solved)
            except InfeasibleError as error:
                found.append(error)  # it names the target
            report(position + 1, len(targets))
        return found

    clock = clock_of(time_limit, progress)
    results = working("Solving", work, clock)
    least = (not bottleneck and form != "leakage_budget") or form == "relevance"
    records = [_infeasible(one, least) if isinstance(one, InfeasibleError) else _record(one) for one in results]
    own = {} if measure.unit == "nats" else {"leakage_units": measure.unit}
    record = {**_together(records, method), "units": "nats", **own}
    if out is not None and not isinstance(results[0], InfeasibleError):
        files = {out: _output.mapping_bytes(out, results[0].mechanism, symbols_of(arrays)), **files}
    unreachable = next((one for one in results if isinstance(one, InfeasibleError)), None)
    if unreachable is not None:
        text = ""
    elif len(targets) == 1:
        text = _summary(record, form, bottleneck, units)
    else:
        text = _table(records, targets, form, own, units)
    _output.deliver(record, json, text, {} if unreachable is not None else files)
    if unreachable is not None:
        raise unreachable
    open_gaps = [one["gap"] for one in records if one["status"] != "optimal"]
    if open_gaps and (method in _CERTIFYING or clock.stop):
        raise NotCertifiedError(
            f"{_output.stopped(clock.stop)}not certified to --tol {tol:g}: the gap is "
            f"{_output.upper(max(open_gaps), 3)}. The mapping and its interval are valid. "
            f"{_output.advice(clock.stop, 'Allow more --max-steps, or raise --tol')}"
        )


def _target(
    disclosure: list[float] | None,
    leakage_budget: list[float] | None,
    relevance: list[float] | None,
    multiplier: list[float] | None,
) -> tuple[str, list[float]]:
    """The one form that is given and its values, each checked by option and position."""
    from jaxpriv._validation import scalar

    forms = {
        "disclosure": disclosure,
        "leakage_budget": leakage_budget,
        "relevance": relevance,
        "multiplier": multiplier,
    }
    given = [(name, values) for name, values in forms.items() if values]
    options = [f"--{name.replace('_', '-')}" for name in forms]
    if len(given) != 1:
        found = "none" if not given else "several"
        raise InputError(f"give exactly one of {', '.join(options[:-1])} and {options[-1]}; {found} given")
    form, values = given[0]
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
    width = max(map(len, lines))
    return "".join(f"{label:<{width}}  {value}\n" for label, value in lines.items())


def _table(records: list[JsonRecord], targets: list[float], form: str, own: JsonRecord, units: Units) -> str:
    from rich import box
    from rich.table import Table

    scale, unit = _scale(own, units)
    per = units.per_nat if form in ("leakage_budget", "relevance") else scale
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    target_name = form.replace("_", " ")
    headings = (target_name, f"I(X;Y) ({units})", f"leakage ({unit})", "lower bound", "upper bound", "steps")
    for heading in headings:
        table.add_column(heading, justify="right")
    table.add_column("status")
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
