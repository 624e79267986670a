"""What keeps a table from having a design, and the rules of its columns that remove it.

A column of real numbers has no classes of its own, an empty cell has none, and where useful or private columns make
more combinations than there are records for, or more than a design may have, the column with the most classes gets
about half of them, as often as necessary: quantiles of numbers, the months or years of dates, the first digits of codes
of one length, and the frequent ones of other texts, while most records keep a class that says something. What looks
like an identifier, numbers that are written as texts, and numbers that look like codes of missing values are named.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jaxpriv.data.datasets._layout import distinct_rows
from jaxpriv.errors import InputError
from jaxpriv.release.counting import CrowdedError, Parts
from jaxpriv.statistics.tables import ROWS_PER_SYMBOL, Categories, Quantiles, Rule
from jaxpriv.statistics.tables.readers import Column, row_text
from jaxpriv.statistics.tables.rules import FittedRule, default_rule, missing_rows, unused_label
from jaxpriv.verifier.csv_text import column_names, number_form
from jaxpriv.verifier.symbols import NUMBER

_MISSING = "missing"
# Up to so many different real numbers are classes; so many different numbers among texts are no answers 1, 2, 3.
_FEW, _MANY = 8, 16
# A month, a day or a time, as ISO 8601 has it.
_DATE = re.compile("[0-9]{4}-[0-9]{2}(-[0-9]{2}([T ].*)?)?")
# The share of the records that may be of the class `other`.
MOST_OTHER = 2 / 3
# The ways to write numbers that a file may have, and how it is then read.
_MARKS = {(",", ""): ["decimal=,"], (",", "."): ["decimal=,", "thousands=."], (".", ","): ["thousands=,"]}


@dataclass(frozen=True)
class Obstacle:
    """One column that needs another rule: why, a sentence without values, and the rule."""

    column: str
    sentence: str
    rule: Rule


def remove_obstacles(parts: Parts, symbols: int) -> tuple[Obstacle, ...]:
    """The rules that a design of the columns of a request needs in place of its own, each column once.

    `symbols`: most combinations of useful classes, and of private ones. With `sparse` fewer than five records for a
    symbol are no obstacle.
    Raises `InputError` where the fewest classes are still too many, for texts that identify records, and for numbers
    that are written as texts.
    """
    asked = parts.request
    private, useful, rules = column_names(asked.private), column_names(asked.useful), asked.rules or {}
    without: dict[str, str] = {}
    crowded: dict[str, str] = {}
    chosen: dict[str, Rule] = {}
    single: set[str] = set()
    for name in dict.fromkeys((*private, *useful)):
        column, given = parts.columns[name], rules.get(name)
        if given is None and _real(column):
            given = Quantiles(4)
            without[name] = "holds real numbers"
        elif given is None and not _dated(column.values[~column.missing]) and identifies(column):
            single.add(name)
        rule = given or default_rule(column)
        empty = int(missing_rows(column, rule).sum())
        if empty and rule.missing is None:
            labels = {getattr(rule, "other", None), *column.values.astype(str).tolist()}
            rule = replace(rule, missing=unused_label(_MISSING, labels))
            without[name] = " and ".join([*filter(None, [without.get(name)]), f"has {empty} empty cells"])
        chosen[name] = rule
    fitted = {name: parts.fitted(name, rule) for name, rule in chosen.items()}
    first, classes = dict(chosen), {name: len(fitted[name].labels) for name in useful}
    codes = {name: rule.encode(parts.columns[name]) for name, rule in fitted.items()}
    rows = int(parts.first.sum())
    for side, names in (("private", private), ("useful", useful)):
        most = len(parts.first) if asked.sparse else rows // ROWS_PER_SYMBOL
        while (size := _combinations(names, fitted, codes)) > min(most, symbols):
            for name in sorted(names, key=lambda column: -len(fitted[column].labels)):
                coarser = _coarser(parts, name, chosen[name], fitted[name])
                if coarser is not None:
                    break
            else:
                message = f"{side}: with the fewest classes found for them the columns make {size} combinations, "
                message += (
                    f"too many for {rows} records of the design: name fewer {side} columns"
                    if size > most
                    else f"more than {symbols}: name fewer {side} columns, or allow more `symbols`"
                )
                if len(names) == 1 and size > most:
                    message = (
                        f"{side}: {rows} records of the design are too few for {size} classes of column {names[0]!r}, "
                        f"with {ROWS_PER_SYMBOL} each"
                    )
                if left := [name for name in names if len(fitted[name].labels) > _FEW]:
                    message += (
                        f"; merging rare texts would leave most records of {', '.join(map(repr, left))} in one class: "
                        "give them coarser classes (of dates and codes their first characters: --bins COL=first:4), or "
                        "make a coarser column in the table"
                    )
                if side == "private":
                    raise InputError(message)
                needed = {name: rule for name, rule in first.items() if name in without}
                raise CrowdedError(message, classes, most, needed)
            coded = isinstance(coarser, Quantiles) and _codes(getattr(fitted[name], "values", None) or ())
            crowded.setdefault(
                name,
                f"has {len(fitted[name].labels)} classes, "
                + "as many as an identifier has (leave it out if it is one), " * (name in single)
                + "some begin with 0, as those of codes (quantiles order them as numbers), " * coded
                + f"with which the {side} columns make {size} combinations, "
                + (f"too many for {rows} records of the design" if size > most else f"more than {symbols}"),
            )
            chosen[name], fitted[name] = coarser, parts.fitted(name, coarser)
            codes[name] = fitted[name].encode(parts.columns[name])
    far = {name: _far_number(parts.columns[name]) for name, rule in chosen.items() if isinstance(rule, Quantiles)}
    return tuple(
        Obstacle(name, f"column {name!r} {' and '.join(reasons)}", rule)
        for name, rule in chosen.items()
        for reasons in [[part[name] for part in (without, crowded, far) if part.get(name)]]
        if name in without or name in crowded
    )


def _real(column: Column) -> bool:
    """Whether a column holds numbers that are not all whole, more than a few; a CSV file has them as texts.

    `InputError` for numbers with other marks, and for numbers among which there are a few other texts.
    """
    if column.kind != "text":
        return column.kind == "number"
    texts = set(column.values[~column.missing].tolist()) - {""}
    words = {text for text in texts if not NUMBER.fullmatch(text)}
    if not words:
        return len(texts) > _FEW and not all(float(text).is_integer() for text in texts)
    ways = [read for marks, read in _MARKS.items() if all(map(number_form(*marks).fullmatch, texts))]
    if ways:
        line = " or ".join(
            f"with {' and '.join(way)} (on the command line --read {' --read '.join(way)})" for way in ways
        )
        raise InputError(
            f"column {column.name!r} holds numbers with a comma: read the table {line}, or give the column a rule "
            "(--bins COL=categories)"
        )
    if len(words) <= 3 and len(texts) > _MANY:
        rows = np.flatnonzero(column.mapped(words.__contains__, bool) & ~column.missing)
        raise InputError(
            f"column {column.name!r} holds numbers and {len(words)} other text{'s' * (len(words) > 1)} ({len(rows)} "
            f"rows, the first is {row_text(rows[0])}): if that means a missing value, read the table with empty=TEXT "
            "(on the command line --read empty=TEXT); otherwise give the column a rule (--bins COL=categories)"
        )
    return False


def identifies(column: Column) -> bool:
    """Whether nearly every record has its own of these whole numbers; `InputError` for such texts."""
    values = column.values[~column.missing].tolist()
    distinct = set(values) - {""}
    if len(distinct) <= _MANY or len(distinct) < 0.9 * len(values):
        return False
    if column.kind == "text" and not all(map(NUMBER.fullmatch, distinct)):
        raise InputError(
            f"column {column.name!r} has {len(distinct)} different texts in {len(values)} records, as names and "
            "identifiers have: leave it out, or give it a rule (on the command line --bins)"
        )
    return True


def _far_number(column: Column) -> str:
    """What is said of a number of several records that is as far from the next one as all others are from each other,
    or the only one below 0, as -99 and 9999 are among ages; empty where there is none.
    """
    texts = column.values[~column.missing].tolist()
    given = [float(text) for text in texts if not isinstance(text, str) or NUMBER.fullmatch(text)]
    numbers, records = np.unique(given, return_counts=True)
    if len(numbers) <= _FEW:
        return ""
    low = numbers[1] - numbers[0] > numbers[-1] - numbers[1] or numbers[0] < 0 <= numbers[1]
    high = numbers[-1] - numbers[-2] > numbers[-2] - numbers[0]
    for end, far in ((0, low), (-1, high)):
        if far and records[end] >= ROWS_PER_SYMBOL:
            return (
                f"in {records[end]} records a number apart from the others (if it means that there is none, read the "
                "table with empty=TEXT, on the command line --read empty=TEXT)"
            )
    return ""


def _codes(values: Sequence[str]) -> bool:
    """Whether there are whole numbers with a 0 in front."""
    return any(re.fullmatch("0[0-9]+", value) for value in values)


def _combinations(names: Sequence[str], fitted: Mapping[str, FittedRule], codes: Mapping[str, np.ndarray]) -> int:
    stacked = np.stack([codes[name] for name in names], axis=1)
    return len(distinct_rows(stacked, [len(fitted[name].labels) for name in names])[0])


def _dated(values: Iterable[object]) -> bool:
    """Whether all that is there are dates."""
    return all(isinstance(value, str) and (not value or _DATE.fullmatch(value)) for value in values)


def _beginnings(values: Sequence[str]) -> Sequence[int]:
    """How many first characters of dates (days, months, years) and of codes of one length mean something."""
    if values and _dated(values):
        return (10, 7, 4)
    codes = _codes(values) and len({len(text) for text in values}) == 1 and all(map(str.isdigit, values))
    return range(len(values[0]) - 1, 0, -1) if codes else ()


def _coarser(parts: Parts, name: str, rule: Rule, fitted: FittedRule) -> Rule | None:
    """A rule with about half the classes, two at least; None where there is none, or only one with most in `other`."""
    column, size = parts.columns[name], len(fitted.labels) - (rule.missing is not None)
    if size <= 2:
        return None
    values = (fitted.values or ()) if isinstance(fitted, Categories) else ()
    words = isinstance(fitted, Categories) and not all(map(NUMBER.fullmatch, values))
    beginnings = [
        length for length in _beginnings(values) if len({text[:length] for text in values}) <= (size + 1) // 2
    ]
    if beginnings:
        assert isinstance(rule, Categories)
        candidates = [replace(rule, values=None, first=length) for length in beginnings]
    elif not words:
        count = rule.count // 2 if isinstance(rule, Quantiles) else 2 ** ((size - 1).bit_length() - 1)
        candidates = [Quantiles(power, rule.missing, rule.tokens) for power in (count, 2) if power >= 2]
    else:
        assert isinstance(rule, Categories)
        plain = replace(rule, values=None, least=None).fit(column)
        records = np.sort(np.bincount(plain.encode(column), minlength=len(plain.labels)))[::-1]
        # All but the most frequent ones, so many that with "other" half are left.
        least = [int(records[max((size + 1) // 2 - 1, 1)]) + 1, int(records[1]) + 1]
        candidates = [replace(rule, values=None, least=number) for number in least]
    for candidate in candidates:
        try:
            refitted = parts.fitted(name, candidate)
        except InputError:  # all quantiles are the smallest value
            continue
        codes = refitted.encode(column)
        if isinstance(refitted, Categories) and np.mean(codes == len(refitted.values or ())) > MOST_OTHER:
            continue
        if 2 <= len(set(codes.tolist())) < size + (rule.missing is not None):
            return candidate
    return None
