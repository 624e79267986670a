"""Runs of the accelerated method on one streamed problem, in portions, and the checkpoint for a later process.

A solve is a sequence of runs (on cells, in float32, in float64). The checkpoint holds the best candidate of every run
that is complete and the whole state of the current one: 6 |Y| |S| numbers, and 2 |Y| |S| for each complete run.
Everything else, certificates above all, is computed again from the problem.
"""

import dataclasses
import hashlib
import io
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from jaxpriv._runtime.clock import Clock, Stop
from jaxpriv._runtime.compilation import compiled
from jaxpriv._runtime.files import atomic_write, load_npz_safely, need_writable
from jaxpriv._runtime.types import ScalarLike
from jaxpriv.data.joints import arrays_of
from jaxpriv.data.streaming import Survey, agreed, of_first, shared
from jaxpriv.errors import InputError, IntegrityError, JaxprivError, ResourceError
from jaxpriv.leakage._base import PLAIN
from jaxpriv.leakage.rule_sets import ENTROPIC
from jaxpriv.program.certificates import Certificate
from jaxpriv.program.certify import column_values
from jaxpriv.program.convex import Certified
from jaxpriv.program.streamed import StreamedProgram
from jaxpriv.solvers import AcceleratedMirrorDescent, Goal, TwoGrid, advance
from jaxpriv.solvers._base import SINGLE_ACCURACY, before_double
from jaxpriv.solvers.accelerated import AcceleratedState, Problem, StreamedCandidate

# Seconds between two files, and the share of the time that writing may take.
_SECONDS, _SHARE = 10.0, 0.05
# Of the file: a file of another one is refused.
_FORMAT = 2
# Complete runs that one file holds at most: grids of `TwoGrid`, and steps of the price of a leakage budget.
_MOST_RUNS = 48
# The errors of a file, in the order of the number that stands for each where processes share them.
_RAISED = (InputError, IntegrityError, ResourceError)
# What an operator computes is sampled at so many useful symbols, with so many released ones each.
_SAMPLED_X, _SAMPLED_Y = 64, 8


class Checkpoint:
    """The file of one solve: what it held at the start, and when it is written next.

    Raises `InputError` if the file is of another problem, other settings or another version, or lies in no folder,
    `IntegrityError` if it is damaged, `ResourceError` if its folder cannot be written. The file is then left as it is.
    Of the processes of a mesh the first alone reads and writes the file; the others receive what it has read, and its
    errors.
    """

    def __init__(self, path: Path, identity: str, most_bytes: int, mesh: Mesh | None):
        self.path, self._identity = path, identity
        self._complete: dict[str, tuple[np.ndarray, int]] = {}
        self._current: tuple[str, np.ndarray, int] | None = None
        self._stamp: tuple[int, int, int] | None = None
        # Of several processes, all with the same state, one has the file.
        self._writes = not shared(mesh) or jax.process_index() == 0
        self._written = time.perf_counter()
        self._pause = _SECONDS
        error = None
        if self._writes:
            try:
                self._open(most_bytes)
            except _RAISED as caught:
                error = caught
        if shared(mesh):
            error = self._share(mesh, error)
        if error is not None:
            raise error

    def _open(self, most_bytes: int) -> None:
        path = self.path
        if not path.parent.is_dir():
            raise InputError(f"checkpoint: {path.parent} is not a folder")
        if path.exists():
            self._read(most_bytes)
        self._stamp = self._present()
        need_writable(path, "checkpoint")

    def _share(self, mesh: Mesh | None, error: JaxprivError | None) -> JaxprivError | None:
        """Give all processes of `mesh` what the first has read, or the error that it met: they go on alike, or none."""
        content = b""
        if self._writes:
            head = {
                "identity": self._identity,
                "error": None if error is None else [_RAISED.index(type(error)), str(error)],
                "current": None if self._current is None else [self._current[0], self._current[2]],
                "complete": [[name, n] for name, (_, n) in self._complete.items()],
            }
            runs = [numbers for numbers, _ in self._complete.values()]
            states = [] if self._current is None else [self._current[1]]
            file = io.BytesIO()
            arrays = {f"part_{i}": numbers for i, numbers in enumerate(runs + states)}
            np.savez(file, allow_pickle=False, head=_bytes(json.dumps(head)), **arrays)
            content = file.getvalue()
        received = np.zeros(int(agreed(mesh, len(content))), np.uint8)
        received[: len(content)] = np.frombuffer(content, np.uint8)
        with np.load(io.BytesIO(np.asarray(of_first(mesh, received)).tobytes()), allow_pickle=False) as file:
            head = json.loads(_text(file["head"]))
            parts = [file[f"part_{i}"] for i in range(len(file.files) - 1)]
        # Compared by all, so that all refuse: a process that goes on alone waits for the others for ever.
        if agreed(mesh, float(head["identity"] != self._identity)):
            return InputError("checkpoint: the processes do not have the same problem, solver settings and tolerance")
        if head["error"] is not None:
            kind, text = head["error"]
            return error if error is not None else _RAISED[kind](text)
        if head["current"] is not None:
            label, steps = head["current"]
            self._current = label, parts.pop(), steps
        self._complete = {name: (numbers, n) for (name, n), numbers in zip(head["complete"], parts, strict=True)}
        return None

    def complete(self, label: str, shapes: StreamedCandidate) -> tuple[StreamedCandidate, int] | None:
        """The best candidate and the steps of a run that is complete; None where it is not."""
        if label not in self._complete:
            return None
        numbers, steps = self._complete[label]
        return self._unpacked(numbers, shapes), steps

    def state(self, label: str, shapes: Callable[[], AcceleratedState]) -> tuple[AcceleratedState, int] | None:
        """Where the run under way stood, and its steps; None if the file holds no state of this run."""
        if self._current is None or self._current[0] != label:
            return None
        return self._unpacked(self._current[1], shapes()), self._current[2]

    def note(self, label: str, best: StreamedCandidate, steps: int) -> None:
        """A run is complete; written with the next state."""
        self._complete[label] = (_packed(best), steps)

    def due(self) -> bool:
        """Whether it is time to write."""
        return self._writes and time.perf_counter() - self._written >= self._pause

    def save(self, label: str, state: AcceleratedState, steps: int) -> str:
        """Write the state of the run under way; what prevented it, empty if nothing did.

        A solve does not end because its checkpoint cannot be written. A file that another process has written since
        is left as it is, and no further one is written.
        """
        if not self._writes:
            return ""
        if self._present() != self._stamp:
            self._writes = False
            return f"checkpoint: another process has changed {self.path}; no further state is written"
        begun = time.perf_counter()
        head = {"steps": steps, "label": label, "complete": [[name, n] for name, (_, n) in self._complete.items()]}
        arrays = {
            "format": np.array(_FORMAT),
            "version": _bytes(_version()),
            "identity": _bytes(self._identity),
            "head": _bytes(json.dumps(head)),
            "state": _packed(state),
            **{f"run_{i}": numbers for i, (numbers, _) in enumerate(self._complete.values())},
        }

        def content(file: BinaryIO) -> None:
            np.savez(file, allow_pickle=False, **arrays)

        try:
            atomic_write(self.path, content)
        except JaxprivError as error:
            return f"checkpoint: {error}"
        finally:
            self._written = time.perf_counter()
            self._pause = max(_SECONDS, (self._written - begun) / _SHARE)
        self._stamp = self._present()
        return ""

    def remove(self) -> None:
        """After success: the file is deleted, unless another process has written it since."""
        if self._stamp is not None and self._present() == self._stamp:
            self.path.unlink(missing_ok=True)
        self._writes = False

    def _present(self) -> tuple[int, int, int] | None:
        """What identifies the file that is there; None where there is none."""
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read(self, most_bytes: int) -> None:
        names = [f"run_{i}" for i in range(_MOST_RUNS)]
        required = ["format", "version", "identity", "head", "state"]
        try:
            arrays = load_npz_safely(self.path, required, names, max_bytes=most_bytes)
        except _RAISED as error:
            raise type(error)(f"checkpoint: {error}; nothing was changed there") from error
        place = f"{self.path} (nothing was changed there)"
        version = _text(arrays["version"])
        if arrays["format"].shape != () or int(arrays["format"]) != _FORMAT or version != _version():
            raise InputError(
                f"checkpoint: version {version[:16]!r} of jaxpriv wrote {place}; this is {_version()}, which writes "
                f"format {_FORMAT}: name another file"
            )
        if _text(arrays["identity"]) != self._identity:
            raise InputError(
                f"checkpoint: another problem, solver setting or tolerance belongs to {place}; name another file"
            )
        try:
            head = json.loads(_text(arrays["head"]))
            complete = {str(label): (arrays[f"run_{i}"], int(n)) for i, (label, n) in enumerate(head["complete"])}
            self._current = str(head["label"]), arrays["state"], int(head["steps"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise IntegrityError(f"checkpoint: {self.path} is damaged: its arrays do not belong together") from error
        self._complete = complete

    def _unpacked(self, numbers: np.ndarray, shapes: PyTree) -> PyTree:
        leaves, structure = jax.tree.flatten(shapes)
        sizes = [int(np.prod(leaf.shape)) for leaf in leaves]
        if numbers.shape != (sum(sizes),):
            raise IntegrityError(f"checkpoint: {self.path} is damaged: a state does not have the size of its problem")
        parts = np.split(numbers, np.cumsum(sizes)[:-1])
        restored = [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in zip(parts, leaves, strict=True)]
        return jax.tree.unflatten(structure, restored)


def checkpoint_of(
    path: str | os.PathLike[str],
    program: StreamedProgram,
    solver: AcceleratedMirrorDescent | TwoGrid,
    goal: Goal,
    mesh: Mesh | None,
) -> Checkpoint:
    """The checkpoint of a solve on `mesh`; errors as those of `Checkpoint`."""
    rows, outputs = max(len(program.prior), len(program.term.reference)), program.shape[1]
    most_bytes = 8 * (6 + 2 * _MOST_RUNS) * (outputs + 1) * (rows + len(program.distortions) + 1) + 2**20
    return Checkpoint(Path(path), _identity(program, solver, goal), most_bytes, mesh)


def _identity(program: StreamedProgram, solver: AcceleratedMirrorDescent | TwoGrid, goal: Goal) -> str:
    """SHA-256 of all arrays of the problem, of samples of what its operators compute, and of the settings.

    A function of the user's cannot be hashed, so its values are, at 64 useful symbols and rounded to 20 bits, since
    machines differ in the last ones. `max_steps`, the time limit and the devices may change from one process to the
    next.
    """
    digest = hashlib.sha256()
    settings = [(f.name, getattr(solver, f.name)) for f in dataclasses.fields(solver) if f.name != "mesh"]
    names = [type(part).__qualname__ for part in (program.joint, *program.distortions)]
    kind = "TwoGrid" if isinstance(solver, TwoGrid) else "AcceleratedGradient"  # its name in the first files
    facts = (kind, settings, float(goal.tol), float(goal.rtol), program.shape, names)
    digest.update(repr(facts).encode())
    budgets = ("multipliers", program.prices) if program.budgets is None else ("budgets", program.budgets)
    data = jax.tree.leaves((*budgets, program.distortions))
    inputs, outputs = program.shape
    index = np.unique(np.linspace(0, inputs - 1, _SAMPLED_X).astype(int))
    columns, term = np.asarray(program.joint.columns(index)), program.term
    sampled = [columns]
    if program.transfer is not None or term.rule_set != ENTROPIC:  # the first files are of mutual information
        data += [type(term.rule_set).__qualname__, *jax.tree.leaves((term.reference, term.parameter, program.transfer))]
        sampled.append(np.asarray(column_values(term, program.rows(columns.T).T)))
    for leaf in itertools.chain(data, arrays_of(program.joint)):
        if isinstance(leaf, str):
            digest.update(leaf.encode())
            continue
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(array)
    x = np.repeat(index, _SAMPLED_Y)
    y = (x + np.tile(np.arange(_SAMPLED_Y) * outputs // _SAMPLED_Y, len(index))) % outputs
    for values in (*sampled, *(d.pairs(x, y) for d in program.distortions)):
        mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
        # The offset keeps numbers of few bits off the places at which rounding changes sides.
        rounded = np.floor(mantissa * 2**20 + 0.377).astype(np.int64)
        digest.update(rounded.tobytes() + exponent.astype(np.int64).tobytes())
    return digest.hexdigest()


def _packed(tree: PyTree) -> np.ndarray:
    """All numbers of a state as one float64 vector: its integers and flags are exact there."""
    return np.concatenate([np.ravel(np.asarray(leaf)).astype(np.float64) for leaf in jax.tree.leaves(tree)])


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _text(array: np.ndarray) -> str:
    return array.tobytes().decode("utf-8", errors="replace")


def _version() -> str:
    # The package imports what is above this module, so that no import of it may stand here; it is always loaded.
    return str(vars(sys.modules["jaxpriv"])["__version__"])


# The share of the allowed gap that an iteration stops at (the certificate differs from the solver's own view by
# rounding and by the repair of a budget).
MARGIN = 0.95
# Processor seconds that compiling takes at most: of the steps, and with the first ones of the certificate.
_COMPILING = {"first": 7.0, "float64": 4.0}
# The passes of a step and of the certificate that follows the last one, and the products |S| |X| |Y| of a second.
_PASSES, PRODUCTS = 3, 1e9
# Seconds that one portion of steps aims at: between two of them the time limit is checked.
_PORTION = 0.25
# Above this relative gap the float32 iterate is discarded, and float64 restarts.
_SINGLE_USEFUL = 0.1
# Costs of these sizes neither underflow nor overflow in float32, not even squared.
_SINGLE_RANGE = (1e-12, 1e12)


class Task:
    """One call of `solve`: what it asks, the steps it has left, what it has said so far, and its time."""

    def __init__(self, goal: Goal, limit: int, mesh: Mesh | None, said: list[str], clock: Clock):
        self.goal, self.mesh, self.said, self.clock = goal, mesh, said, clock
        self.left = self.limit = limit
        self.checkpoint: Checkpoint | None = None
        self.scale, self.shift = PLAIN, 0.0  # how the value follows from the total of the program
        self._value, self._bound = float("inf"), float("-inf")
        self.begun, self.compiling = time.perf_counter(), 0.0

    def run(self, function: Callable[..., PyTree], *args: PyTree) -> PyTree:
        """`function(*args)`, the seconds that its compilation takes kept apart."""
        run, spent = compiled(function, *args)
        self.compiling += spent
        return run()

    def expired(self, mesh: Mesh | None, coming: float = 0.0) -> bool:
        """Whether the work has to end here, or before a portion of `coming` seconds; processes that share `mesh` end it
        together.
        """
        if not self.clock.expired():
            self.clock.too_short_for(coming)
        self.clock.stop = Stop(int(agreed(mesh, self.clock.stop)))
        return self.clock.stop is not Stop.NONE

    def allows(self, precision: str, program: StreamedProgram, mesh: Mesh | None) -> bool:
        """Whether steps in a precision are compiled, or can be before the time limit, and one taken and certified; if
        not, the work ends here.
        """
        sizes = program.joint.shape[0], *program.shape
        passes = _PASSES * math.prod(sizes) / PRODUCTS
        if not self.clock.allows(_COMPILING[precision] + passes, ("accelerated", precision, sizes)):
            self.clock.stop = Stop.TIME_LIMIT
        return not self.expired(mesh, passes)

    def goes_on(self, certificate: Certified) -> bool:
        """Whether another method is to be tried after a result with this certificate."""
        return not self.goal.met(certificate) and not self.expired(self.mesh)

    def value(self, total: ScalarLike) -> float:
        """A total of the program in the unit of the measure."""
        return float(self.scale.outer(float(total) + self.shift))

    def in_totals(self, goal: Goal, best: StreamedCandidate) -> Goal:
        """The goal for totals of the program; of a logarithm that at the value of `best`."""
        if self.scale.proportional:
            tol, rtol, shift = self.scale.inner(goal.tol), goal.rtol, self.shift
        else:
            value = self.value(best.value)
            allowed = max(float(goal.tol), float(goal.rtol) * abs(value))
            apart = self.scale.inner(value) - self.scale.inner(value - allowed) if math.isfinite(value) else 0.0
            tol, rtol, shift = apart, 0.0, 0.0
        return Goal(*(np.asarray(part, np.float64) for part in (tol, rtol, shift)))

    def met(self, goal: Goal, best: StreamedCandidate) -> bool:
        """Whether a candidate, in totals, meets the goal."""
        return bool(self.in_totals(goal, best).met(best))

    def say(self, note: str) -> None:
        """Add a note, once."""
        if note and note not in self.said:
            self.said.append(note)

    def show(self, value: float, bound: float) -> None:
        """Numbers of the problem that earlier runs have reached: reports are never worse from then on."""
        self._value, self._bound = min(self._value, value), max(self._bound, bound)

    def report(self, best: StreamedCandidate, used: int) -> None:
        """Tell the progress function, if there is one, of the best so far."""
        if self.clock.reports:
            value, bound = min(self._value, self.value(best.value)), max(self._bound, self.value(best.bound))
            self.clock.report("accelerated", self.limit - self.left + used, value, bound)

    def seconds(self) -> dict[str, float]:
        return {"compile": self.compiling, "solve": time.perf_counter() - self.begun - self.compiling}


def _start(solver: AcceleratedMirrorDescent, problem: Problem) -> AcceleratedState:
    return solver.init(problem, 0, solver.blank(problem))


def _problem(program: StreamedProgram, surveyed: Survey, single: bool) -> Problem:
    dtype = np.dtype(np.float32 if single else np.float64)
    low = dataclasses.replace(
        program,
        joint=program.joint.as_dtype(dtype),
        distortions=tuple(d.as_dtype(dtype) for d in program.distortions),
        prior=program.prior.astype(dtype),
    )
    scales = np.maximum(surveyed.constant.min(axis=1), np.finfo(float).tiny)
    feasible_point = np.asarray(program.leakage(surveyed.columns))
    return Problem(program, low, np.asarray(surveyed.at_feasible_point), feasible_point, scales)


def iterate(
    task: Task,
    method: str,
    program: StreamedProgram,
    surveyed: Survey,
    solver: AcceleratedMirrorDescent,
    goal: Goal,
    prove: Callable[[StreamedCandidate], Certificate] | None = None,
) -> tuple[list[StreamedCandidate], int]:
    """Float32 passes first (unless the solver says which); when those get no further float64 ones, from where they
    are, and from the start if that gets nowhere. What each came to, the last one first.

    `method` names the runs in a checkpoint; `prove` computes a candidate's value and bound in float64, for reports that
    go on after the change of precision.
    """
    inner = Goal(np.asarray(MARGIN * goal.tol), np.asarray(MARGIN * goal.rtol), np.asarray(0.0))
    exact = dataclasses.replace(solver, single=bool(solver.single))
    scales = surveyed.constant.max(axis=1)
    small, large = _SINGLE_RANGE
    in_range = (scales == 0) | ((scales > small) & (scales < large))
    used, useful, float32, candidates = 0, False, None, []
    if solver.single is None and in_range.all():
        quick, coarser = before_double(dataclasses.replace(solver, single=True), inner)
        problem = _problem(program, surveyed, True)
        run = _run(task, f"{method}, float32", quick, problem, partial(task.run, _start, quick, problem), coarser, 0)
        used = run.steps
        candidates.append(jax.device_get(run.best))
        value = task.value(run.best.value)
        gap, value = value - task.value(run.best.bound), abs(value)
        met = task.met(inner, run.best) and gap > SINGLE_ACCURACY * value
        if met or used >= task.left or not task.allows("float64", program, solver.mesh):
            task.left -= used
            return candidates, used
        task.said.append(f"accelerated: float64 passes from step {used} on, because float32 got no further")
        useful, float32 = gap <= _SINGLE_USEFUL * value, run.state
        # What float32 claims is not reported beside float64: its rounding could hide all that is found later.
        if prove is not None and agreed(solver.mesh, task.clock.reports):
            certificate = prove(candidates[-1])
            task.show(float(certificate.value), float(certificate.lower_bound))
    problem, best = _problem(program, surveyed, bool(solver.single)), None
    if useful:
        start = partial(_continued, task, exact, problem, float32)
        run = _run(task, f"{method}, continued", exact, problem, start, inner, used)
        used, best = run.steps, run.best
        candidates.append(jax.device_get(best))
        task.show(task.value(best.value), task.value(best.bound))
    if best is None or not (task.met(inner, best) or used >= task.left or task.expired(solver.mesh)):
        start = partial(task.run, _start, exact, problem)
        run = _run(task, f"{method}, started again", exact, problem, start, inner, used)
        used = run.steps
        candidates.append(jax.device_get(run.best))
    task.left -= used
    return candidates[::-1], used


def _resumed(solver: AcceleratedMirrorDescent, problem: Problem, state: AcceleratedState) -> AcceleratedState:
    return solver.resume(problem, state)


def _continued(
    task: Task, solver: AcceleratedMirrorDescent, problem: Problem, state: AcceleratedState | None
) -> AcceleratedState:
    if state is None:  # a checkpoint that holds a complete run holds the state of the one after it
        raise IntegrityError(
            "checkpoint: the file is damaged: its runs do not belong together; nothing was changed there"
        )
    return task.run(_resumed, solver, problem, state)


class _PortionsResult(NamedTuple):
    """How a run ended. The state of one that a checkpoint holds as complete is known by its best candidate alone."""

    state: AcceleratedState | None
    best: StreamedCandidate
    steps: int


def _run(
    task: Task,
    label: str,
    solver: AcceleratedMirrorDescent,
    problem: Problem,
    start: Callable[[], AcceleratedState],
    goal: Goal,
    used: int,
) -> _PortionsResult:
    """Steps in short portions, so that a time limit or an interrupt can end them, from `start()` or a checkpoint."""
    file, portion, state = task.checkpoint, 1, None
    if file is not None:
        complete = file.complete(label, jax.eval_shape(solver.blank, problem))
        if complete is not None:
            return _PortionsResult(None, *complete)
        resumed = file.state(label, lambda: jax.eval_shape(_start, solver, problem))
        if resumed is not None:
            state, used = resumed
            task.said.append(f"checkpoint: went on from step {used} of {label}")
    state = start() if state is None else state
    begin, coming = used, 0.0

    def ended(state: AcceleratedState) -> bool:
        return task.met(goal, state.best) or bool(solver.terminate(problem, state))

    while not (ended(state) or used >= task.left or task.expired(solver.mesh, coming)):
        begun, compiling = time.perf_counter(), task.compiling
        until = min(used + min(portion, task.clock.every or portion), task.left)
        before = used
        with task.clock.held():
            goal_of_totals = task.in_totals(goal, state.best)
            new, count = task.run(advance, solver, problem, state, goal_of_totals, np.asarray(used), np.asarray(until))
            state, used = new, int(count)
            task.report(state.best, used)
        spent = time.perf_counter() - begun - (task.compiling - compiling)
        if file is not None and file.due():
            task.say(file.save(label, state, used))
        coming = _PASSES * spent / max(1, used - before)
        wanted = int(min(portion * min(_PORTION, task.clock.left) / max(spent, 1e-3), task.left))
        portion = int(agreed(solver.mesh, max(1, min(2 * portion, wanted))))
    if file is not None:
        if ended(state):
            file.note(label, state.best, used)
        elif used > begin:
            task.say(file.save(label, state, used))
    return _PortionsResult(state, state.best, used)
