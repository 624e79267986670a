"""The state of a streaming solve in a file, from which a later process goes on.

A solve is a sequence of runs of the accelerated method (on cells, in float32, in float64). The file holds the best
candidate of every run that is complete and the whole state of the one under way: 5 |Y| |S| numbers, and 2 |Y| |S| for
each complete run. Everything else, certificates above all, is computed again from the problem.
"""

import dataclasses
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import jax
import numpy as np
from jaxtyping import PyTree

from jaxpriv._files import atomic_write, load_npz_safely
from jaxpriv.errors import InputError, IntegrityError, JaxprivError, ResourceError
from jaxpriv.problems.streamed import StreamedProgram
from jaxpriv.solvers import AcceleratedGradient, Goal, TwoGrid
from jaxpriv.solvers.accelerated import AcceleratedState, StreamedCandidate

# Seconds between two files, and the share of the time that writing may take.
_SECONDS, _SHARE = 10.0, 0.05
_FORMAT = 1
_MOST_RUNS = 48
# What an operator computes is sampled at so many useful symbols, with so many released ones each.
_SAMPLED_X, _SAMPLED_Y = 64, 8


class Checkpoint:
    """The file of one solve: what it held at the start, and when it is written next.

    Raises `InputError` if the file is of another problem, other settings or another version, or lies in no folder,
    `IntegrityError` if it is damaged, `ResourceError` if its folder cannot be written. The file is then left as it is.
    """

    def __init__(self, path: Path, identity: str, most_bytes: int):
        self.path, self._identity = path, identity
        self._complete: dict[str, tuple[np.ndarray, int]] = {}
        self._current: tuple[str, np.ndarray, int] | None = None
        self._writes = True
        self._written = time.perf_counter()
        self._pause = _SECONDS
        if not path.parent.is_dir():
            raise InputError(f"checkpoint: {path.parent} is not a folder")
        if path.exists():
            self._read(most_bytes)
        self._stamp = self._present()
        try:
            with tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(path))):
                pass
        except OSError as error:
            raise ResourceError(f"checkpoint: cannot write into the folder of {path}: {error.strerror}") from error

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
        except (InputError, IntegrityError, ResourceError) as error:
            raise type(error)(f"checkpoint: {error}; nothing was changed there") from error
        kept = f"{self.path} (nothing was changed there)"
        version = _text(arrays["version"])
        if arrays["format"].shape != () or int(arrays["format"]) != _FORMAT or version != _version():
            raise InputError(
                f"checkpoint: another version of jaxpriv wrote {kept}; this is {_version()}: name another file"
            )
        if _text(arrays["identity"]) != self._identity:
            raise InputError(
                f"checkpoint: another problem, solver setting or tolerance belongs to {kept}; name another file"
            )
        try:
            head = json.loads(_text(arrays["head"]))
            complete = {str(label): (arrays[f"run_{i}"], int(n)) for i, (label, n) in enumerate(head["complete"])}
            self._current = str(head["label"]), arrays["state"], int(head["steps"])
        except (ValueError, KeyError, TypeError) as error:
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
    path: str | os.PathLike[str], program: StreamedProgram, solver: AcceleratedGradient | TwoGrid, goal: Goal
) -> Checkpoint:
    """The checkpoint of a solve; errors as those of `Checkpoint`."""
    private, outputs = program.joint.shape[0], program.shape[1]
    room = 8 * (5 + 2 * _MOST_RUNS) * (outputs + 1) * (private + len(program.distortions) + 1) + 2**20
    return Checkpoint(Path(path), _identity(program, solver, goal), room)


def _identity(program: StreamedProgram, solver: AcceleratedGradient | TwoGrid, goal: Goal) -> str:
    """SHA-256 of all arrays of the problem, of samples of what its operators compute, and of the settings.

    A function of the user's cannot be hashed, so its values are, at 64 useful symbols and rounded to 20 bits, since
    machines differ in the last ones. `max_steps`, the time limit and the devices may change from one process to the
    next.
    """
    digest = hashlib.sha256()
    settings = [(f.name, getattr(solver, f.name)) for f in dataclasses.fields(solver) if f.name != "mesh"]
    names = [type(part).__qualname__ for part in (program.joint, *program.distortions)]
    facts = (type(solver).__qualname__, settings, float(goal.tol), float(goal.rtol), program.shape, names)
    digest.update(repr(facts).encode())
    budgets = ("multipliers", program.prices) if program.budgets is None else ("budgets", program.budgets)
    for leaf in jax.tree.leaves((budgets[0], budgets[1], program.joint, program.distortions)):
        if isinstance(leaf, str):
            digest.update(leaf.encode())
            continue
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(array)
    inputs, outputs = program.shape
    index = np.unique(np.linspace(0, inputs - 1, _SAMPLED_X).astype(int))
    x = np.repeat(index, _SAMPLED_Y)
    y = (x + np.tile(np.arange(_SAMPLED_Y) * outputs // _SAMPLED_Y, len(index))) % outputs
    for values in (program.joint.columns(index), *(d.pairs(x, y) for d in program.distortions)):
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
