"""The useful symbol of every record of a CSV table, by the classes that a design states.

The rules are those of `jaxpriv.statistics.tables`, written again from what they say; what a text means, a number or a
boolean, is defined here for both. Standard library only.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from jaxpriv.errors import InputError
from jaxpriv.verifier.csv_text import Columns
from jaxpriv.verifier.designs import DesignFile
from jaxpriv.verifier.records import edge_of

NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)
# From here on float64 does not hold every whole number: one that is this large may have been rounded.
EXACT = 2**53
# The spellings of a boolean that readers of CSV files know (pandas, polars, Arrow), with its one text form.
BOOLEANS = {spelling: form for form in ("false", "true") for spelling in (form, form.capitalize(), form.upper())}

# Stands for a record that is released independently of what it is.
SUPPRESSED = -1


def symbols_of(design: DesignFile, columns: Columns, name: str, unseen: str) -> list[int]:
    """The row x for every record; SUPPRESSED where the rule `unseen` is "suppress" and there is none.

    Raises `InputError` for a table without the useful columns, a value without a class, or with "refuse" a combination
    without a symbol, naming the row.
    """
    coded = []
    for entry in design.record["codebook"]["useful"]:
        texts = [values for column, values in columns if column == entry["column"]]
        if len(texts) != 1:
            raise InputError(f"{name} does not have exactly one column {entry['column']!r}")
        coded.append(map(_coder(entry["rule"], entry["labels"]), texts[0]))
    place: dict[tuple[int, ...], int] = {tuple(codes): x for x, codes in enumerate(design.useful)}
    numbers = []
    for row, codes in enumerate(zip(*coded, strict=True)):
        if -1 in codes:
            raise InputError(f"{name}, row {row} (from 0): a value has no class in the design")
        if codes not in place:
            if unseen == "refuse":
                raise InputError(f"{name}, row {row} (from 0): a combination of classes without a symbol")
            place[codes] = SUPPRESSED if unseen == "suppress" else _nearest(design, codes)
        numbers.append(place[codes])
    return numbers


def _nearest(design: DesignFile, codes: tuple[int, ...]) -> int:
    def apart(x: int) -> int:
        return sum(code != released for code, released in zip(design.useful[x], codes, strict=True))

    return min(range(len(design.useful)), key=apart)


def number_of(text: str) -> float | Decimal:
    """The number of a text: float64, exact from 2^53 on where all digits are given; NaN if it is no decimal number.

    Below 2^53 a whole number is a float64. The others are rounded to the nearest one, as edges are, and so are those
    with an exponent, which states no digit beyond its own.
    """
    if not NUMBER.fullmatch(text):
        return math.nan
    value = float(text)
    if -EXACT < value < EXACT or math.isinf(value) or "e" in text.lower():
        return value
    return Decimal(text)


def codes_by_text(values: Sequence[str]) -> dict[str, int]:
    """The place of every value, and for the other spellings of a boolean that of the only value that is one of them."""
    codes = {value: code for code, value in enumerate(values)}
    forms = [BOOLEANS.get(value) for value in values]
    for spelling, form in BOOLEANS.items():
        if spelling not in codes and forms.count(form) == 1:
            codes[spelling] = forms.index(form)
    return codes


def _coder(rule: Mapping[str, Any], labels: list[str]) -> Callable[[str], int]:
    """A text as its code; -1 without one. Classes for other and missing values come last, in that order."""
    extras = [name for name in ("other", "missing") if rule[name] is not None]
    first = len(labels) - len(extras)
    extra = {name: first + place for place, name in enumerate(extras)}
    tokens = set(rule["tokens"])
    if rule["kind"] == "categories":
        codes = codes_by_text(rule["values"])

        def classed(text: str) -> int:
            return codes.get(text[: rule.get("first")], extra.get("other", -1))
    else:
        edges = [edge_of(edge) for edge in rule["edges"]]

        def classed(text: str) -> int:
            value = number_of(text)
            if not math.isfinite(value):
                return -1
            if not edges[0] <= value <= edges[-1]:
                return extra.get("other", -1)
            return min(bisect_right(edges, value) - 1, len(edges) - 2)

    cache: dict[str, int] = {}

    def code(text: str) -> int:
        if text not in cache:
            cache[text] = extra.get("missing", -1) if text in tokens else classed(text)
        return cache[text]

    return code
