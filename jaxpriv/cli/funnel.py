"""`jaxpriv funnel`: the least leakage at a prescribed information about X, each target with its certificate."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxpriv.cli import _output
from jaxpriv.cli._options import LeakageOptions, RunOptions, known_solver
from jaxpriv.cli._output import JsonRecord, MappingOptions, Units
from jaxpriv.cli._results import uncertified, work_of
from jaxpriv.cli._tables import CountOptions, book_file, problem_of, symbols_of
from jaxpriv.cli._work import working
from jaxpriv.errors import InfeasibleError, InputError

if TYPE_CHECKING:
    from jaxpriv.funnels import FunnelSolution


# Methods for the bottleneck only; all others take --bottleneck.
_OF_BOTTLENECKS = ("greedy-bottleneck", "bottleneck-iteration")
# Methods that prove their results; the others are run only where the user names them.
_CERTIFYING = ("auto", "column-generation", "vertex-generation", "posterior-limit")
_FUNNEL_NUMBERS = ("value", "lower_bound", "upper_bound", "gap", "leakage", "disclosure")


def funnel(
    *,
    problem: Path,
    columns: CountOptions,
    disclosure: list[float] | None = None,
    equivocation: list[float] | None = None,
    leakage_budget: list[float] | None = None,
    relevance: list[float] | None = None,
    multiplier: list[float] | None = None,
    bottleneck: bool = False,
    method: str = "auto",
    measure: LeakageOptions,
    run: RunOptions,
    results: MappingOptions,
) -> None:
    """Design the mapping P(y|x) with the least leakage of S at a prescribed information about X, or the reverse.

    Prints the value, a proved interval that contains the optimum, and its width, the gap. With several targets
    the JSON holds a list for each number. Exit code 3: a target that no mapping reaches. Exit code 4: the
    gap of auto, column-generation, vertex-generation or posterior-limit is above --tol, or the time limit (of all
    targets together) or Ctrl-C came first; mapping and interval are valid and written all the same. The other methods
    are local and prove nothing: their status is `best_known` or `stationary`, with exit code 0.
    """
    columns.check(problem)
    from jaxpriv._runtime.validation import joint_array
    from jaxpriv.funnels import FunnelSolution
    from jaxpriv.problems import BottleneckProblem, FunnelProblem
    from jaxpriv.solvers import Goal
    from jaxpriv.solving.solve import solve_within

    leakage = measure.option.measure(None)
    known_solver(method, True, "method")
    bottleneck = bottleneck or bool(relevance) or method in _OF_BOTTLENECKS
    given = {"disclosure": disclosure, "equivocation": equivocation, "leakage_budget": leakage_budget}
    form, targets = _target({**given, "relevance": relevance, "multiplier": multiplier})
    _check_form(form, bottleneck, method, measure.leakage)
    run.check()
    if results.out is not None and len(targets) > 1:
        raise InputError("--out: one mapping is written; give one target")
    results.check()
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
    records = [_no_funnel(one, least) if isinstance(one, InfeasibleError) else _funnel_record(one) for one in found]
    own = {} if leakage.unit == "nats" else {"leakage_units": leakage.unit}
    record = {**_together(records, method), "units": "nats", **own}
    first = found[0]
    if not isinstance(first, InfeasibleError):
        files |= results.files(lambda: first.mechanism, symbols_of(arrays))
    unreachable = next((one for one in found if isinstance(one, InfeasibleError)), None)
    if unreachable is not None:
        text = ""
    elif len(targets) == 1:
        text = _funnel_summary(record, form, bottleneck, results.units)
    else:
        text = _funnel_table(records, targets, form, leakage.unit, results.units)
    _output.deliver(record, results.json, text, {} if unreachable is not None else files)
    if unreachable is not None:
        raise unreachable
    open_gaps = [one["gap"] for one in records if one["status"] != "optimal"]
    if open_gaps and (method in _CERTIFYING or clock.stop):
        raise uncertified(clock.stop, run.tol, max(open_gaps), "Allow more --max-steps, or raise --tol")


def _target(forms: Mapping[str, list[float] | None]) -> tuple[str, list[float]]:
    """The one form that is given and its values, each checked by option and position."""
    from jaxpriv._runtime.validation import scalar

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
    if form in ("equivocation", "leakage_budget"):
        option = form.replace("_", "-")
        raise InputError(f"--{option} is for the funnel, not for {why}; use --relevance or --disclosure")
    if leakage != "mutual-information":
        raise InputError(f"--leakage: a bottleneck ({why}) is about mutual information only")


def _funnel_record(solution: "FunnelSolution") -> JsonRecord:
    return {
        "status": solution.status,
        **{name: float(getattr(solution, name)) for name in _FUNNEL_NUMBERS},
        "solver": solution.solver,
        "iterations": int(solution.steps),
        "seconds": dict(solution.seconds or {}),
    }


def _no_funnel(error: InfeasibleError, least: bool) -> JsonRecord:
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


def _funnel_summary(record: JsonRecord, form: str, bottleneck: bool, units: Units) -> str:
    scale, unit = units.of(record.get("leakage_units", "nats"))
    # A disclosure is in nats, whatever the leakage is in.
    per, name = (units.per_nat, str(units)) if form in ("leakage_budget", "relevance") else (scale, unit)
    best = {
        "disclosure": "most relevance" if bottleneck else "least leakage",
        "equivocation": "least leakage",
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
        "proved gap": f"{_output.upper(record['gap'] * per, 2)} {name}",
        **({} if best == "least leakage" else {"leakage": f"{record['leakage'] * scale:.6g} {unit}"}),
        "disclosure": f"{record['disclosure'] * units.per_nat:.6g} {units}",
        **work_of(record),
    }
    return _output.aligned(lines)


def _funnel_table(records: list[JsonRecord], targets: list[float], form: str, leakage_unit: str, units: Units) -> str:
    scale, unit = units.of(leakage_unit)
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
