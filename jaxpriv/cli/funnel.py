"""`jaxpriv funnel`: the least leakage at a prescribed information about X, each target with its certificate."""

from collections.abc import Callable
from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._options import LeakageOptions, RunOptions, checked_targets, funnel_problem, known_solver
from jaxpriv.cli._output import JsonRecord, MappingOptions
from jaxpriv.cli._results import in_units, infeasible, result_text, solved, targets_table, uncertified
from jaxpriv.cli._tables import CountOptions, book_file, problem_of, symbols_of
from jaxpriv.cli._work import working
from jaxpriv.errors import InfeasibleError, InputError

# Methods for the bottleneck only; all others take --bottleneck.
_OF_BOTTLENECKS = ("greedy-bottleneck", "bottleneck-iteration")
# Forms whose value is a disclosure: it is in nats, whatever the leakage is in.
_IN_NATS = ("leakage_budget", "relevance")
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
    solver: str = "auto",
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
    from jaxpriv.funnels.solve import FUNNEL_SOLVERS
    from jaxpriv.solving.solve import solve_within

    known_solver(solver, True, "method")
    bottleneck = bottleneck or bool(relevance) or solver in _OF_BOTTLENECKS
    given = {"disclosure": disclosure, "equivocation": equivocation, "leakage_budget": leakage_budget}
    given |= {"relevance": relevance, "multiplier": multiplier}
    form = _output.only_one(given)
    targets = checked_targets(form, given[form], low=0.0)
    why = f"--method {solver}" if solver in _OF_BOTTLENECKS else "--bottleneck"
    if bottleneck and form in ("equivocation", "leakage_budget"):
        option = form.replace("_", "-")
        raise InputError(f"--{option} is for the funnel, not for {why}; use --relevance or --disclosure")
    if bottleneck and measure.leakage != "mutual-information":
        raise InputError(f"--leakage: a bottleneck ({why}) is about mutual information only")
    run.check()
    if results.out is not None and len(targets) > 1:
        raise InputError("--out: one mapping is written; give one target")
    results.check()
    arrays, table = problem_of(problem, columns, ["joint"], ["neighbours", "scales"])
    leakage, files = measure.option.measure(arrays), book_file(results.codebook_out, table)
    kind = jp.BottleneckProblem if bottleneck else jp.FunnelProblem
    request, solutions = run.request(solver), []

    def work(report: Callable[[int, int], None]) -> None:
        for done, target in enumerate(targets, 1):
            try:
                asked = funnel_problem(arrays, measure.option, bottleneck, **{form: target})
                solutions.append(solve_within(asked, request))
            except InfeasibleError as error:  # it names the target
                solutions.append(error)
            report(done, len(targets))

    working("Solving", work, request.clock)
    least = kind.minimises_leakage != (form in _IN_NATS)
    worst = float("inf") if least else -float("inf")
    records: list[JsonRecord] = [
        infeasible(*_NUMBERS, worst=worst) | {"proof": solution.proof}
        if isinstance(solution, InfeasibleError)
        else solved(solution, *_NUMBERS)
        for solution in solutions
    ]
    record = {**_together(records, solver), **in_units(leakage.unit)}
    if unreachable := [solution for solution in solutions if isinstance(solution, InfeasibleError)]:
        _output.deliver(record, results.json, "")
        raise unreachable[0]
    files |= results.files(lambda: solutions[0].mechanism, symbols_of(arrays))
    units, value_unit = results.units, "nats" if form in _IN_NATS else leakage.unit
    if len(targets) == 1:
        what = "disclosure" if form in _IN_NATS else "relevance" if bottleneck else "leakage"
        best = "best objective" if form == "multiplier" else f"{'least' if least else 'most'} {what}"
        scale, unit = units.of(leakage.unit)
        shown = {} if best == "least leakage" else {"leakage": f"{_output.upper(record['leakage'] * scale)} {unit}"}
        shown["disclosure"] = f"{record['disclosure'] * units.per_nat:.6g} {units}"
        text = result_text(record, best, value_unit, shown, units)
    else:
        text = targets_table(records, targets, form, leakage.unit, value_unit, units)
    _output.deliver(record, results.json, text, files)
    open_gaps = [record["gap"] for record in records if record["status"] != "optimal"]
    if open_gaps and (solver == "auto" or FUNNEL_SOLVERS[solver].proves or request.clock.stop):
        raise uncertified(request.clock.stop, run.tol, max(open_gaps), "Allow more --max-steps, or raise --tol")


def _together(records: list[JsonRecord], method: str) -> JsonRecord:
    """The JSON of one result, or the lists of several; `solver` and `seconds` are of the whole."""
    if len(records) == 1:
        return records[0]
    lists = {name: [record[name] for record in records] for name in records[0] if name != "proof"}
    solver = next((name for name in lists["solver"] if name != "none"), method)
    seconds = {key: sum(seconds[key] for seconds in lists["seconds"]) for key in ("compile", "solve")}
    return lists | {"solver": solver, "seconds": seconds}
