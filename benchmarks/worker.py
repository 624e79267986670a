"""One solver on one case in a process of its own: set-up, warm-up, repeats, judgement.

Started by `run.py` with a job as JSON on the command line; answers with JSON lines on standard output, one
when it is ready and one for each accuracy, so that what was finished survives when the process is killed.
Whatever a solver prints goes to standard error.
"""

import json
import os
import re
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.cases import Case, Instance
from benchmarks.memory import Meter
from benchmarks.objective import Refused
from benchmarks.solvers import SOLVERS, Accuracy, Run, Solver, Unable

# A first call beyond this many seconds is the measurement, unless the solver compiles in it.
SLOW = 2.0
# Repeats stop after this many seconds or calls, whichever comes first; those of milliseconds, slower at first, go on
# to so many calls or seconds.
REPEAT_SECONDS, REPEATS = 2.0, 7
STEADY_SECONDS, STEADY_REPEATS = 0.5, 50


@dataclass(frozen=True)
class Outcome:
    """One accuracy of one solver on one case, before it is compared with anything.

    `values` and `bounds` hold one number for each point of a curve, one otherwise. `values` are the
    judge's; where a mechanism is too large for the judge (`judged` is False) they are the solver's own,
    from its certificate. `peak_mib`: memory above what the process held before the problem was stated,
    the largest since then, the compiler's included.
    """

    accuracy: str
    status: str
    reason: str = ""
    seconds: dict[str, float] | None = None
    repeats: int = 0
    own_clock: float | None = None
    compile_seconds: float | None = None
    steps: int | None = None
    values: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    judged: bool = False
    repair: float | None = None
    peak_mib: float | None = None


def repeat(solver: Solver, prepared: Any, accuracy: Accuracy, cold: bool) -> tuple[Run, list[Run]]:
    """The first call, and the calls that count: the later ones; the first alone if it is long and compiled nothing.

    A call that compiled a part (a tighter accuracy may need other precisions) compiled more than was recorded.
    """
    first = solver.run(prepared, accuracy)
    if first.seconds > SLOW and not (solver.compiles and (cold or first.compile_seconds > 0)):
        return first, [first]
    counted: list[Run] = []

    def another() -> bool:
        seconds = sum(run.seconds for run in counted)
        few = len(counted) < REPEATS and seconds < REPEAT_SECONDS
        return few or (len(counted) < STEADY_REPEATS and seconds < STEADY_SECONDS)

    while another():
        counted.append(solver.run(prepared, accuracy))
    return first, counted


def measure(solver: Solver, prepared: Any, accuracy: Accuracy, instance: Instance, meter: Meter, cold: bool) -> Outcome:
    """Warm-up and repeats, then memory, and only then the judge. `cold`: nothing has run in this process yet."""
    try:
        first, counted = repeat(solver, prepared, accuracy, cold)
    except Unable as error:
        return Outcome(accuracy.label, "failed", without_paths(str(error)), peak_mib=meter.read())
    used, last = meter.read(), counted[-1]
    verdict = judge(instance, last)
    meter.forget()
    clocks = [run.own_clock for run in counted if run.own_clock is not None]
    times = [run.seconds for run in counted]
    return Outcome(
        accuracy=accuracy.label,
        seconds={"median": statistics.median(times), "min": min(times), "max": max(times)},
        repeats=len(counted),
        own_clock=statistics.median(clocks) if clocks else None,
        compile_seconds=first.compile_seconds if cold and solver.compiles else None,
        steps=last.steps,
        bounds=list(last.bounds),
        peak_mib=used,
        **verdict,
    )


def judge(instance: Instance, run: Run) -> dict[str, Any]:
    """The fields of an outcome that the judge fills in."""
    try:
        objective = instance.objective()
    except Refused as refusal:  # too large: the solver's certificate is all there is
        status = "ok" if run.values else "failed"
        return {"status": status, "reason": f"not judged: {refusal}", "values": list(run.values)}
    try:
        score = objective.score(run.candidate)
    except Refused as refusal:
        return {"status": "failed", "reason": f"refused: {refusal}"}
    return {"status": "ok", "values": list(score.values), "repair": score.repair, "judged": True}


def without_paths(text: str) -> str:
    """A message without absolute paths: results leave this machine."""
    return re.sub(r"(?<![\w.])/[\w.+-]+(?:/[\w.+-]*)+", "<path>", " ".join(text.split()))[:300]


def main() -> None:
    """Do the job of the command line."""
    # Times are those of a solve that is repeated, compiled from the first one on; compiling is reported apart.
    os.environ.setdefault("JAXPRIV_COMPILE", "always")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=answers, flush=True)

    job = json.loads(sys.argv[1])
    solver, case = SOLVERS[job["solver"]], Case.of(job["family"], **job["parameters"])
    solver.load()
    instance = case.build()
    meter = Meter()
    begun = time.perf_counter()
    prepared = solver.prepare(instance)
    setup = time.perf_counter() - begun
    say({"baseline_mib": meter.baseline, "setup_seconds": setup})
    chosen = [rung for rung in solver.ladder(job["targets"]) if rung.label in job["only"]]
    for i, accuracy in enumerate(chosen):
        say(asdict(measure(solver, prepared, accuracy, instance, meter, cold=i == 0)))


if __name__ == "__main__":
    main()
