"""`jaxpriv envelope`: the least distortion under a limit on a leakage envelope."""

from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._options import RunOptions
from jaxpriv.cli._output import MappingOptions
from jaxpriv.cli._results import in_units, result_text, searched, uncertified
from jaxpriv.cli._tables import CostOptions, book_file, problem_of, symbols_of
from jaxpriv.cli._work import working


def envelope(
    *,
    problem: Path,
    columns: CostOptions,
    delta: float,
    leakage_budget: float,
    run: RunOptions,
    results: MappingOptions,
) -> None:
    """Design the mapping P(y|x) of least distortion for which no event of probability DELTA says much about S.

    The limit is on ln P(E|s)/P(E) for all events E of outcomes with at least that probability, the leakage envelope;
    with --delta 0 on every outcome. Such mappings are no convex set: branch and bound proves the distance from the best
    one, in the unit of the distortion. Exit code 4: the gap is above --tol (or the steps, the time limit or Ctrl-C came
    first); mapping and interval are valid and written all the same.
    """
    columns.check(problem)
    run.check()
    results.check()
    from jaxpriv.extremal.envelope import MOST_BOXES, design_within

    arrays, table = problem_of(problem, columns, ["joint", "distortion"])
    files = book_file(results.codebook_out, table)
    measure = jp.leakage.LeakageEnvelope(delta)
    asked = jp.DistortionProblem(arrays["joint"], arrays["distortion"], leakage=measure, leakage_budget=leakage_budget)
    clock, units = run.clock(), results.units
    design = working("Designing", lambda _: design_within(asked, run.tol, run.max_steps or MOST_BOXES, clock), clock)
    numbers = ("value", "lower_bound", "gap", "leakage")
    record = searched(design, *numbers, clock=clock, solver="branch-and-bound", iterations=design.boxes)
    record |= {"delta": delta, **in_units("nats")}
    shown = {"leakage envelope": units.most(design.leakage)}
    files |= results.files(lambda: design.mechanism, symbols_of(arrays))
    _output.deliver(record, results.json, result_text(record, "least distortion", "", shown, units), files)
    if design.status != "optimal":
        raise uncertified(design.stopped, run.tol, design.gap, "Allow more --max-steps, or raise --tol")
