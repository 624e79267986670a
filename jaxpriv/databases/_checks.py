"""Checks of single arguments that this package needs beside those of `jaxpriv._validation`."""

import math
import operator
from typing import SupportsIndex

from jaxpriv._validation import scalar
from jaxpriv.errors import InputError


def whole(value: SupportsIndex, name: str, *, low: int, high: int | None = None) -> int:
    """A whole number in [low, high]; bools and floats are refused."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < low or (high is not None and number > high):
        raise InputError(f"{name} must be a whole number >= {low}{'' if high is None else f' and <= {high}'}")
    return number


def privacy_parameter(value: object, name: str = "eps") -> float:
    """An eps > 0, finite: 0 asks for noise without a distribution, infinity for no noise."""
    number = float(scalar(value, name, low=0.0, open_low=True))
    if math.exp(-number) == 1.0:
        raise InputError(f"{name} is too small: e^-{name} rounds to 1")
    return number
