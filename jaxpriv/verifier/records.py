"""The useful symbol of every record of a CSV table, by the classes that a design states.

The rules are those of `jaxpriv.estimation.tables`, written again from what they say. Standard library only.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any

from jaxpriv.errors import InputError
from jaxpriv.verifier.designs import DesignFile
from jaxpriv.verifier.releases import records_of

_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)

# Stands for a record that is released independently of what it is.
SUPPRESSED = -1


def symbols_of(design: DesignFile, data: bytes, name: str, unseen: str) -> list[int]:
    """The row x for every record; SUPPRESSED where the rule `unseen` is "suppress" and there is none.

    Raises `InputError` for a table without the useful columns, a value without a class, or with "refuse" a combination
    without a symbol, naming the row.
    """
    entries = design.record["codebook"]["useful"]
    rows = records_of(data, name)
    header = next(rows)
    for entry in entries:
        if header.count(entry["column"]) != 1:
            raise InputError(f"{name} does not have exactly one column {entry['column']!r}")
    places = [header.index(entry["column"]) for entry in entries]
    code_of = [_coder(entry["rule"], entry["labels"]) for entry in entries]
    place: dict[tuple[int, ...], int] = {tuple(codes): x for x, codes in enumerate(design.useful)}
    found = []
    for row, fields in enumerate(rows):
        codes = tuple(code(fields[column]) for code, column in zip(code_of, places, strict=True))
        if -1 in codes:
            raise InputError(f"{name}, row {row} (from 0): a value has no class in the design")
        if codes not in place:
            if unseen == "refuse":
                raise InputError(f"{name}, row {row} (from 0): a combination of classes without a symbol")
            place[codes] = SUPPRESSED if unseen == "suppress" else _nearest(design, codes)
        found.append(place[codes])
    return found


def _nearest(design: DesignFile, codes: tuple[int, ...]) -> int:
    def apart(x: int) -> int:
        return sum(one != other for one, other in zip(design.useful[x], codes, strict=True))

    return min(range(len(design.useful)), key=apart)


def _coder(rule: Mapping[str, Any], labels: list[str]) -> Callable[[str], int]:
    """A text as its code; -1 without one. Classes for other and missing values come last, in that order."""
    extras = [name for name in ("other", "missing") if rule[name] is not None]
    first = len(labels) - len(extras)
    extra = {name: first + place for place, name in enumerate(extras)}
    tokens = set(rule["tokens"])
    if rule["kind"] == "categories":
        known = {value: code for code, value in enumerate(rule["values"])}

        def classed(text: str) -> int:
            return known.get(text, extra.get("other", -1))
    else:
        edges = [float(edge) for edge in rule["edges"]]

        def classed(text: str) -> int:
            if not _NUMBER.fullmatch(text):
                return -1
            value = float(text)
            if not edges[0] <= value <= edges[-1]:
                return extra.get("other", -1)
            return min(bisect_right(edges, value) - 1, len(edges) - 2)

    cache: dict[str, int] = {}

    def code(text: str) -> int:
        if text not in cache:
            cache[text] = extra.get("missing", -1) if text in tokens else classed(text)
        return cache[text]

    return code
