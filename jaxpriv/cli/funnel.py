"""`jaxpriv funnel`: the least leakage at a prescribed information about X, each target with its certificate."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._options import LeakageOptions, RunOptions, checked_targets, known_solver
from jaxpriv.cli._output import JsonRecord, MappingOptions, Units
from jaxpriv.cli._results import in_units, infeasible, solved, uncertified, work_of
from jaxpriv.cli._tables import CountOptions, book_file, problem_of, symbols_of
from jaxpriv.cli._work import working
from jaxpriv.errors import InfeasibleError, InputError

# Methods for the bottleneck only; all others take --bottleneck.
_OF_BOTTLENECKS = ("greedy-bottleneck", "bottleneck-iteration")
# Forms whose value is a disclosure: it is in nats, whatever the leakage is in.
_IN_NATS = ("leakage_budget", "relevance")
# Methods that prove their results; the others are run only where the user names them.
_CERTIFYING = ("auto", "column-generation", "vertex-generation", "posterior-limit")
_NUMBERS = ("value", "lower_bound", "upper_bound", "gap", "leakage", "disclosure")


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
    from jaxpriv.solvers import Goal
    from jaxpriv.solving.choice import Request
    from jaxpriv.solving.solve import solve_within

    leakage = measure.option.measure(None)
    known_solver(method, True, "method")
    bottleneck = bottleneck or bool(relevance) or method in _OF_BOTTLENECKS
    given = {"disclosure": disclosure, "equivocation": equivocation, "leakage_budget": leakage_budget}
    given |= {"relevance": relevance, "multiplier": multiplier}
    form = _output.only_one(given)
    targets = checked_targets(form, given[form], low=0.0)
    why = f"--method {method}" if method in _OF_BOTTLENECKS else "--bottleneck"
    if bottleneck and form in ("equivocation", "leakage_budget"):
        option = form.replace("_", "-")
        raise InputError(f"--{option} is for the funnel, not for {why}; use --relevance or --disclosure")
    if bottleneck and measure.leakage != "mutual-information":
        raise InputError(f"--leakage: a bottleneck ({why}) is about mutual information only")
    run.check()
    if results.out is not None and len(targets) > 1:
        raise InputError("--out: one mapping is written; give one target")
    results.check()
    arrays, table = problem_of(problem, columns, ["joint"])
    joint = joint_array(arrays["joint"])
    files = book_file(results.codebook_out, table)

    kind = jp.BottleneckProblem if bottleneck else jp.FunnelProblem
    further: dict[str, Any] = {} if bottleneck else {"leakage": leakage}
    clock, found = run.clock(), []

    def work(report: Callable[[int, int], None]) -> None:
        for done, target in enumerate(targets, 1):
            try:
                asked = kind(joint, **{form: target}, **further)
                found.append(solve_within(asked, Request(clock, Goal(run.tol, 0.0), method, run.max_steps)))
            except InfeasibleError as error:
                found.append(error)  # it names the target
            report(done, len(targets))

    working("Solving", work, clock)
    least = (not bottleneck and form != "leakage_budget") or form == "relevance"
    worst = float("inf") if least else -float("inf")
    records: list[JsonRecord] = [
        infeasible(*_NUMBERS, worst=worst) | {"proof": one.proof}
        if isinstance(one, InfeasibleError)
        else solved(one, *_NUMBERS)
        for one in found
    ]
    record = {**_together(records, method), **in_units(leakage.unit)}
    unreachable = next((one for one in found if isinstance(one, InfeasibleError)), None)
    if unreachable is not None:
        _output.deliver(record, results.json, "")
        raise unreachable
    files |= results.files(lambda: found[0].mechanism, symbols_of(arrays))
    if len(targets) == 1:
        text = _summary(record, form, bottleneck, results.units)
    else:
        text = _table(records, targets, form, leakage.unit, results.units)
    _output.deliver(record, results.json, text, files)
    open_gaps = [one["gap"] for one in records if one["status"] != "optimal"]
    if open_gaps and (method in _CERTIFYING or clock.stop):
        raise uncertified(clock.stop, run.tol, max(open_gaps), "Allow more --max-steps, or raise --tol")


def _together(records: list[JsonRecord], method: str) -> JsonRecord:
    """The JSON of one result, or the lists of several; `solver` and `seconds` are of the whole."""
    if len(records) == 1:
        return records[0]
    lists = {name: [one[name] for one in records] for name in records[0] if name != "proof"}
    solver = next((one for one in lists["solver"] if one != "none"), method)
    seconds = {key: sum(one[key] for one in lists["seconds"]) for key in ("compile", "solve")}
    return lists | {"solver": solver, "seconds": seconds}


def _summary(record: JsonRecord, form: str, bottleneck: bool, units: Units) -> str:
    scale, unit = units.of(record.get("leakage_units", "nats"))
    per, name = (units.per_nat, str(units)) if form in _IN_NATS else (scale, unit)
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


def _table(records: list[JsonRecord], targets: list[float], form: str, leakage_unit: str, units: Units) -> str:
    scale, unit = units.of(leakage_unit)
    per = units.per_nat if form in _IN_NATS else scale
    rows = (
        (
            f"{target:g}",
            f"{one['disclosure'] * units.per_nat:.6f}",
            f"{one['leakage'] * scale:.6f}",
            _output.lower_fixed(one["lower_bound"] * per),
            _output.upper_fixed(one["upper_bound"] * per),
            str(one["iterations"]),
            one["status"].replace("_", " "),
        )
        for target, one in zip(targets, records, strict=True)
    )
    headings = (form.replace("_", " "), f"I(X;Y) ({units})", f"leakage ({unit})", "lower bound", "upper bound", "steps")
    return _output.rendered(_output.table_of(rows, headings))
