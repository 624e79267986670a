"""What tests share: further cases of a claim, instances, and what is asserted of solutions, refusals and processes."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import jaxpriv as jp
from jaxpriv import leakage
from jaxpriv.leakage import by_name
from jaxpriv.testing import random_joint

ROOT = Path(__file__).parents[1]


# Why a solve ended before its goal: `Solution.stopped`.
TIME_LIMIT, INTERRUPTED = 1, 2


class CompilerError(Exception):
    """In the place of compiling (the fixture `no_compiler`)."""


class Now:
    """The module `time` of a clock that stands still; every look at the processor time moves it on by `tick`."""

    def __init__(self) -> None:
        self.seconds = self.tick = 0.0

    def perf_counter(self) -> float:
        return self.seconds

    def thread_time(self) -> float:
        self.seconds += self.tick
        return self.seconds


# Parameters without which `by_name` refuses the name of a measure.
NEEDED = {"f-information": {"divergence": "chi-squared"}}
NEEDED |= {name: {"order": 2.0} for name in ("sibson", "arimoto", "maximal-alpha-leakage")}


def thorough(*cases: Any) -> list[Any]:
    """Cases that run only with `-m thorough`; a tuple holds the arguments of one case."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.thorough) for case in cases]


def further(cases: Iterable[str], always: Collection[str]) -> list[Any]:
    """All cases, of which those that are not among `always` run only with `-m thorough`."""
    return [case if case in always else thorough(case)[0] for case in cases]


def distances(inputs: int, outputs: int | None = None) -> np.ndarray:
    """|x - y| of the numbers of the symbols."""
    return np.abs(np.subtract.outer(np.arange(float(inputs)), np.arange(float(outputs or inputs))))


# Of S, X and Y; the first is the largest, and one has a single private symbol.
MIXED_SIZES = [(4, 4, 4), (3, 4, 2), (2, 3, 4), (4, 2, 3), (1, 4, 4)]


# Averages that a batch computes together, one of each kind of rules.
AVERAGES = [
    by_name("mutual-information"),
    by_name("sibson", order=2.0),
    by_name("sibson", order=0.5),
    by_name("arimoto", order=3.0),
    by_name("maximal-leakage"),
    by_name("min-entropy"),
    by_name("f-information", divergence="chi-squared"),
]


def budget_at(joint: np.ndarray, table: np.ndarray, share: float) -> float:
    """The least distortion, and a share of the way from it to that of a constant release."""
    costs = joint.sum(axis=0)[:, None] * table
    least, idle = costs.min(axis=1).sum(), costs.sum(axis=0).min()
    return float(least + share * (idle - least))


def spent(joint: np.ndarray, table: np.ndarray, mechanism: np.ndarray) -> float:
    """The distortion of a mechanism."""
    return float((joint.sum(axis=0)[:, None] * table * mechanism).sum())


def random_problem(
    seed: int, sizes: tuple[int, int, int] = (4, 4, 4), share: float = 0.4, **asked: Any
) -> jp.DistortionProblem:
    """A random joint with the distances of symbols, at a share of the budgets if no other form is asked for."""
    private, inputs, outputs = sizes
    joint, table = random_joint(seed, private, inputs), distances(inputs, outputs)
    if not asked.keys() & {"multiplier", "leakage_budget"}:
        asked = {"budget": budget_at(joint, table, share), **asked}
    return jp.DistortionProblem(joint, table, **asked)


def raised(error: type[Exception], message: str) -> Any:
    """The block raises this error with a message of this pattern."""
    return pytest.raises(error, match=message)


def refused(message: str) -> Any:
    """The block raises an `InputError` with a message of this pattern."""
    return raised(jp.InputError, message)


def assert_one_optimum(one: Any, other: Any, slack: float = 0.0) -> None:
    """The intervals [lower bound, value] of two solutions meet: both hold one optimum."""
    assert one.lower_bound <= other.value + slack
    assert other.lower_bound <= one.value + slack


def assert_certified(problem: Any, solution: Any) -> Any:
    """A certificate that is computed anew holds and agrees with the numbers of the solution; the certificate."""
    proof = jp.certify(problem, solution)
    assert proof.valid
    assert proof.agrees, proof.message
    return proof


def assert_proved(problem: Any, solution: Any, tol: float = 1e-6) -> None:
    """The solution is optimal, by a certificate that is computed anew too."""
    assert solution.status == "optimal"
    assert assert_certified(problem, solution).gap <= tol


def run_python(*arguments: str, **environment: str) -> str:
    """What a process of Python prints in the folder of the repository; it ends without an error."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def value_of(measure: leakage.AbstractLeakage, joint: ArrayLike, mechanism: Any) -> float:
    """What the measure is of S and Y, by `evaluate`."""
    return leakage.evaluate(measure, joint, mechanism).value


def assert_values(
    expected: Mapping[leakage.AbstractLeakage, float], joint: np.ndarray, mechanism: np.ndarray, **accuracy: float
) -> None:
    """The measures have these values, by `evaluate` and called with arrays; `accuracy` is that of `pytest.approx`."""
    for measure, value in expected.items():
        assert value_of(measure, joint, mechanism) == pytest.approx(value, **accuracy), measure
        assert float(measure(joint, mechanism)) == pytest.approx(value, **accuracy), measure


def drawn_joint(
    seed: int | list[int] | np.random.Generator, private: int, useful: int, concentration: float = 1.0
) -> np.ndarray:
    """A joint (S, X) from a Dirichlet distribution, without zeros."""
    masses = np.random.default_rng(seed).dirichlet(np.full(private * useful, concentration))
    return masses.reshape(private, useful)


def assert_refused(message: str, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> None:
    """The call raises an `InputError` whose text matches `message`."""
    with refused(message):
        function(*arguments, **named)


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """The system lets no file of this process grow beyond so many bytes, as where a disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def assert_refusals(function: Callable[..., Any], /, *cases: tuple[Any, ...]) -> None:
    """Each call raises an `InputError`; a case is the pattern of its text and the arguments."""
    for message, *arguments in cases:
        assert_refused(message, function, *arguments)


def raw(shared: Path, name: str) -> Path:
    """A raw file of the census or of COMPAS; skips where it is absent."""
    path = shared / "data" / name
    if not path.exists():
        pytest.skip(f"{name} is not in {path.parent}")
    return path
