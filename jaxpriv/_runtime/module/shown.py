"""Printing for a person: a few aligned lines, and the same as a table in a notebook."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from jaxpriv.verifier.logarithms import upper

# More numbers than these are printed as a range: a line stays short.
_FEW = 4


class Shown(ABC):
    """What prints as lines `name  text`; its `repr` stays that of all fields. No line holds a count of records."""

    @abstractmethod
    def _shown(self) -> Mapping[str, str]:
        """The lines: the text of each name."""

    def __str__(self) -> str:
        return f"{type(self).__name__}\n" + aligned({f"  {name}": text for name, text in self._shown().items()})[:-1]

    def _repr_html_(self) -> str:
        left = 'style="text-align:left"'
        rows = "".join(
            f'<tr><th scope="row" {left}>{escape(name)}</th><td {left}>{escape(text)}</td></tr>\n'
            for name, text in self._shown().items()
        )
        return f"<table>\n<caption {left}>{escape(type(self).__name__)}</caption>\n{rows}</table>"


def aligned(lines: Mapping[str, str]) -> str:
    """A line for each entry, the values below each other."""
    width = max(map(len, lines))
    return "".join(f"{name:<{width}}  {value}".rstrip() + "\n" for name, value in lines.items())


def tally(names: object) -> str:
    """One name as it is, several with how often each occurs."""
    import numpy as np

    listed = np.ravel(np.asarray(names)).tolist()
    return listed[0] if len(listed) == 1 else ", ".join(f"{count} {name}" for name, count in Counter(listed).items())


def width(value: float) -> str:
    """At least the width of an interval, to two significant digits."""
    return upper(value, 2)


def nearest(value: float) -> str:
    """To six significant digits."""
    return f"{value:.6g}"


def numbers(values: Any, rounded: Callable[[float], str] = upper) -> str:  # noqa: ANN401 (a number or an array)
    """A few numbers one by one, more as a range; of a trace, whose values are unknown, dtype and shape.

    `rounded`: `upper` or `lower` of the verifier, which round against what is claimed, or `nearest`.
    """
    from jaxpriv._runtime.validation import is_traced  # it brings JAX in, which tables are read without

    if is_traced(values):
        return f"{values.dtype}{list(values.shape)}"
    import numpy as np

    flat = np.ravel(np.asarray(values, dtype=float))
    if len(flat) <= _FEW:
        return ", ".join(map(rounded, flat)) or "none"
    return f"{rounded(np.fmin.reduce(flat))} to {rounded(np.fmax.reduce(flat))}"


def sizes(**symbols: int) -> str:
    """`S=2, X=8` as "|S| = 2, |X| = 8"."""
    return ", ".join(f"|{name}| = {count}" for name, count in symbols.items())
