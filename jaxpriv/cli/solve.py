"""`jaxpriv solve` and `jaxpriv funnel`: one problem at one target, or a funnel at several, with its certificate."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxpriv._near import near
from jaxpriv.cli import _complete, _output
from jaxpriv.cli._app import working
from jaxpriv.cli._options import FORMS, FormOptions, LeakageOptions, MeasureOption, RunOptions
from jaxpriv.cli._output import JsonRecord, MappingOptions, Units
from jaxpriv.cli._tables import CostOptions, CountOptions, book_file, problem_of, symbols_of
from jaxpriv.errors import InfeasibleError, InputError, NotCertifiedError

if TYPE_CHECKING:
    import numpy as np

    from jaxpriv.funnels import FunnelSolution
    from jaxpriv.problems import DistortionProblem
    from jaxpriv.solution import Solution


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
    from jaxpriv._validation import scalar
    from jaxpriv.problems import LexicographicProblem
    from jaxpriv.solvers import Goal
    from jaxpriv.solving.solve import solve_within

    measures = measures_of(measure, limit)
    known_solver(solver)
    run.check()
    scalar(rtol, "--rtol", low=0.0)
    results.check()
    if leakage_tolerance is not None and not budget:
        raise InputError("--leakage-tolerance goes with --budget: it is above the least leakage that a budget allows")
    arrays, table = problem_of(problem, columns, ["joint", "distortion"], ["neighbours", "marginal"])
    files = book_file(results.codebook_out, table)
    stated = distortion_problem(
        arrays, measures, budget=budget or None, multiplier=multiplier or None, leakage_budget=leakage_budget
    )
    asked = stated if marginal is None else _near_marginal(arrays, stated, marginal)
    whole = asked if leakage_tolerance is None else LexicographicProblem(asked, tolerance=leakage_tolerance)
    begun = time.perf_counter()
    clock, goal = run.clock(), Goal(run.tol, rtol)
    try:
        solution = working(
            "Solving", lambda _: solve_within(clock, whole, solver, goal, run.max_steps, True, checkpoint), clock
        )
    except InfeasibleError as error:
        seconds = {"compile": 0.0, "solve": time.perf_counter() - begun}
        _output.deliver(_infeasible(error, len(stated.distortions), seconds), results.json, "")
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
        raise _uncertified(
            solution.stopped, run.tol, float(solution.gap), f"Allow more --max-steps, {other}or raise --tol"
        )


def _uncertified(reason: int, tol: float, gap: float, advice: str) -> NotCertifiedError:
    """The error after a result above the tolerance; `advice` is for a solve that ended by itself."""
    from jaxpriv._clock import Stop

    known = {Stop.NONE: advice, Stop.TIME_LIMIT: "Allow more --time-limit", Stop.INTERRUPTED: "Let it run longer"}
    return NotCertifiedError(
        f"{_output.stopped(reason)}not certified to --tol {tol:g}: the gap is {_output.upper(gap, 2)}. The mapping "
        f"and its interval are valid. {known[Stop(int(reason))]}"
    )


def known_solver(name: str, funnel: bool = False, kind: str = "solver") -> None:
    """Refuse a solver (or method) that there is none of, with those that there are."""
    known = _complete.methods() if funnel else _complete.solvers()
    if name not in known:
        raise InputError(f"--{kind} {name!r} is not a {kind}'s name; known: {', '.join(known)}{near(name, known)}")


def measures_of(measure: LeakageOptions, limit: list[str] | None) -> list[MeasureOption]:
    """The measure that is minimised, then those of --limit; refused where there is no such measure."""
    found = [measure.option, *map(parsed_limit, limit or ())]
    for one in found:
        one.measure(None)
    return found


def distortion_problem(
    arrays: "Mapping[str, np.ndarray]",
    measures: list[MeasureOption],
    **targets: Any,  # noqa: ANN401 (numbers, or lists of them)
) -> "DistortionProblem":
    """The problem of a joint, a distortion, and measures as `measures_of` gives them."""
    from jaxpriv.problems import DistortionProblem

    leakage, *limited = [one.measure(arrays.get("neighbours")) for one in measures]
    limits = [(one, given.value) for one, given in zip(limited, measures[1:], strict=True)]
    return DistortionProblem(arrays["joint"], arrays["distortion"], leakage=leakage, limits=limits, **targets)


def _near_marginal(arrays: "Mapping[str, np.ndarray]", stated: "DistortionProblem", limit: str) -> "DistortionProblem":
    """The problem with P_Y within a total variation or `DIVERGENCE=` of `marginal` in the file, or of P(X)."""
    from jaxpriv._validation import scalar
    from jaxpriv.leakage import by_name
    from jaxpriv.problems import with_marginal

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
        divergence = by_name("f-information", divergence=name).divergence
    target = arrays.get("marginal", joint.sum(axis=0))
    given = {"budget": stated.budget, "leakage": stated.leakage, "limits": stated.limits}
    return with_marginal(joint, stated.distortions, target, within=within, divergence=divergence, **given)


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
    if solution.least_leakage is not None:
        own["least_leakage"] = _record(solution.least_leakage, unit)
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
        **_work(record),
    }
    return _output.aligned(lines)


def _work(record: JsonRecord) -> dict[str, str]:
    """The last lines of a result."""
    seconds = record["seconds"]
    return {
        "solver": f"{record['solver']}, {int(record['iterations'])} iterations",
        "time": f"{seconds['compile']:.2f} s to compile, {seconds['solve']:.2f} s to solve",
    }


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
    from jaxpriv._validation import joint_array
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
        raise _uncertified(clock.stop, run.tol, max(open_gaps), "Allow more --max-steps, or raise --tol")


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
        **_work(record),
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
