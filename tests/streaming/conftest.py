"""Small problems that every streaming method is checked on, with their tables for comparison."""

from typing import Any

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import streaming
from jaxpriv.program.certificates import slopes
from jaxpriv.program.lower import streamed_program
from jaxpriv.program.streamed import StreamedProgram
from jaxpriv.solving import choice, streamed_runs
from tests.cases import drawn_joint


def smooth_joint(size: int, private: int) -> np.ndarray:
    """Classes at their own places of a line, with a floor: P(s|x) is smooth and does not depend on `size`."""
    rng, x = np.random.default_rng(0), line(size)
    place, width = np.sort(rng.uniform(0, 1, private)), rng.uniform(0.1, 0.3, private)
    likelihood = np.exp(-0.5 * ((x[:, None] - place) / width) ** 2) / width + 1e-3
    return (likelihood / likelihood.sum()).T.copy()


def stated(problem: jp.DistortionProblem) -> StreamedProgram:
    """The program that the streaming solvers iterate on."""
    return streamed_program(problem, *problem.operators(), problem.joints[0].sum(axis=1))[0]


def line(size: int) -> np.ndarray:
    return (np.arange(size) + 0.5) / size


def smooth_problem(size: int, private: int, kind: str = "absolute", **asked: Any) -> jp.DistortionProblem:
    """A smooth joint with a distortion of the places of the symbols."""
    return jp.DistortionProblem(smooth_joint(size, private), DISTORTIONS[kind](size), **asked)


@pytest.fixture(scope="session")
def rough() -> tuple[np.ndarray, np.ndarray]:
    """(joint, distortion): a random joint with zeros, an empty s, an empty x, and a random table of costs."""
    rng = np.random.default_rng(5)
    joint = drawn_joint(rng, 5, 23, 0.3)
    joint[joint < 1e-4] = 0.0
    joint[2] = 0.0
    joint[:, 7] = 0.0
    return joint / joint.sum(), rng.uniform(0, 1, (23, 19))


@pytest.fixture
def often(monkeypatch):
    """Checkpoints are written after every portion of steps."""
    monkeypatch.setattr(streamed_runs, "_SECONDS", 0.0)
    monkeypatch.setattr(streamed_runs, "_SHARE", 1e9)


@pytest.fixture
def few_cells(monkeypatch):
    """`auto` finds every problem large, and two-grid takes few cells of it."""
    monkeypatch.setattr(choice, "_LARGE_STEP", 0.0)
    monkeypatch.setitem(choice.SOLVERS, "two-grid", CELLS)


@pytest.fixture
def blocks_of(monkeypatch):
    """`blocks_of(size)`: so many symbols of X are taken together."""
    return lambda size: [monkeypatch.setattr(one, "block_size", lambda *_: size) for one in (streaming, slopes)]


# Every size of an alphabet and of its cells is compiled: one of each serves wherever no other is needed.
CELLS = jp.TwoGrid(cells=32, most_cells=64)
DISTORTIONS = {
    "absolute": lambda n: jp.distortion.absolute(line(n)),
    "squared": lambda n: jp.distortion.squared(line(n)),
    "hamming": jp.distortion.hamming,
}
