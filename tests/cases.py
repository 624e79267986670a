"""Further cases of a claim, joints, values, refusals, and files that are not part of the repository."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxpriv import InputError, leakage


def thorough(*cases: Any) -> list[Any]:
    """Cases that run only with `-m thorough`; a tuple holds the arguments of one case."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.thorough) for case in cases]


def further(cases: Iterable[str], always: Collection[str]) -> list[Any]:
    """All cases, of which those that are not among `always` run only with `-m thorough`."""
    return [case if case in always else thorough(case)[0] for case in cases]


def assert_values(
    expected: Mapping[leakage.AbstractLeakage, float], joint: np.ndarray, mechanism: np.ndarray, **accuracy: float
) -> None:
    """The measures have these values, by `evaluate` and called with arrays; `accuracy` is that of `pytest.approx`."""
    for measure, value in expected.items():
        assert leakage.evaluate(measure, joint, mechanism).value == pytest.approx(value, **accuracy), measure
        assert float(measure(joint, mechanism)) == pytest.approx(value, **accuracy), measure


def drawn_joint(
    seed: int | list[int] | np.random.Generator, private: int, useful: int, concentration: float = 1.0
) -> np.ndarray:
    """A joint (S, X) from a Dirichlet distribution, without zeros."""
    masses = np.random.default_rng(seed).dirichlet(np.full(private * useful, concentration))
    return masses.reshape(private, useful)


def assert_refused(message: str, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> None:
    """The call raises an `InputError` whose text matches `message`."""
    with pytest.raises(InputError, match=message):
        function(*arguments, **named)


def raw(shared: Path, name: str) -> Path:
    """A raw file of the census or of COMPAS; skips where it is absent."""
    path = shared / "data" / name
    if not path.exists():
        pytest.skip(f"{name} is not in {path.parent}")
    return path
