"""What a sealed record of each kind holds: every value of a file has its form before anything uses it.

A form is a function of a value and of its place, a text, which raises `IntegrityError` for any other value. Standard
library only.
"""

import itertools
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from jaxpriv.errors import IntegrityError
from jaxpriv.verifier.archive import Json, canonical, digest, strict
from jaxpriv.verifier.claims import Measure, number

DESIGN, AUDIT, RECEIPT = "jaxpriv-design", "jaxpriv-audit", "jaxpriv-receipt"
LEDGER, ORDER = "jaxpriv-ledger", "jaxpriv-order"
CODEBOOK = "jaxpriv-codebook"
GROUPS, GROUPS_AUDIT = "jaxpriv-groups", "jaxpriv-groups-audit"
PROBLEMS = ("budget", "leakage-budget", "disclosure", "watchdog")
UNSEEN = ("refuse", "suppress", "nearest")
FORMATS = ("csv", "parquet")

Form: TypeAlias = Callable[[Json, str], object]


def unsealed(content: bytes, name: str, kind: str) -> dict[str, Any]:
    """The record that `archive.sealed` encoded: of format `kind`, with exactly the fields of that kind and version.

    Raises `IntegrityError`, naming `name`, if anything differs: another encoding of the same record too.
    """
    record = strict(content, name)
    if not isinstance(record, dict) or record.get("format") != kind:
        raise IntegrityError(f"{name} is not a {kind} record")
    version, newest = record.get("version"), VERSIONS.get(kind, 1)
    if type(version) is not int or not 1 <= version <= newest:  # True == 1
        raise IntegrityError(f"{name} has a version of its format that this release does not read (1 to {newest})")
    absent = _ABSENT.get((kind, version), ())
    forms = {field: form for field, form in _RECORDS[kind].items() if field not in absent}
    stated = record.pop("sha256", None)
    if canonical({**record, "sha256": stated}) != content:
        raise IntegrityError(f"{name} is not in canonical form")
    if stated != digest(canonical(record)):
        raise IntegrityError(f"{name} does not have the hash that it states")
    _exactly(("format", "version", *forms), record, name)
    for field, form in forms.items():
        form(record[field], f"{name}: {field}")
    return record


# Files of several members, by the member that says what the others are.
FILES = {
    "design.json": "a design",
    "groups.json": "a design of groups of columns",
    "audit.json": "the audit of a design",
    "order.json": "an order of rows",
}


def member_record(members: Mapping[str, bytes], member: str, name: str, kind: str) -> dict[str, Any]:
    """`unsealed` of the member of a file that says what the others are; a file of another kind is named as such."""
    other = None if member in members else next((file for file in FILES if file in members), None)
    if other is not None:
        raise IntegrityError(f"{name} is {FILES[other]}, and {FILES[member]} ({member}) is needed here")
    return unsealed(members.get(member, b""), f"{name}: {member}", kind)


# No more digits than the largest float64 has: the time of a conversion grows with their square.
WHOLE = re.compile(r"-?[0-9]{1,309}", re.ASCII)


def edge_of(text: str) -> float:
    """The edge of a text: an int for a whole number without a point, which no float64 may be; otherwise float64."""
    return int(text) if WHOLE.fullmatch(text) else float(text)


def intervals(edges: Sequence[float]) -> tuple[str, ...]:
    """The labels of the intervals between rising edges."""
    shown = [f"{edge:.12g}" for edge in edges]
    if len(set(shown)) < len(shown):  # edges that differ beyond twelve digits
        shown = [repr(edge) for edge in edges]
    labels = []
    for place, (low, high) in enumerate(itertools.pairwise(shown)):
        if math.isinf(edges[place]) and math.isinf(edges[place + 1]):
            labels.append("any")
        elif math.isinf(edges[place]):
            labels.append(f"<{high}")
        elif math.isinf(edges[place + 1]):
            labels.append(f">={low}")
        else:
            labels.append(f"[{low}, {high}{']' if place == len(edges) - 2 else ')'}")
    return tuple(labels)


# -- forms -----------------------------------------------------------------------------------------


def _text(value: Json, place: str) -> None:
    if not isinstance(value, str):
        raise IntegrityError(f"{place} is not a text")


def _whole(value: Json, place: str) -> None:
    if type(value) is not int or value < 0:
        raise IntegrityError(f"{place} is not a whole number >= 0")


def _matching(pattern: re.Pattern[str], what: str) -> Form:
    def check(value: Json, place: str) -> None:
        if not (isinstance(value, str) and pattern.fullmatch(value)):
            raise IntegrityError(f"{place} is not {what}")

    return check


def _one_of(texts: Sequence[str]) -> Form:
    return _matching(re.compile("|".join(texts)), f"one of {', '.join(texts)}")


def _optional(form: Form) -> Form:
    def check(value: Json, place: str) -> None:
        if value is not None:
            form(value, place)

    return check


def _list(form: Form, least: int = 0) -> Form:
    def check(value: Json, place: str) -> None:
        if not isinstance(value, list) or len(value) < least:
            raise IntegrityError(f"{place} is not a list" + (f" of at least {least}" if least else ""))
        for position, item in enumerate(value):
            form(item, f"{place}[{position}]")

    return check


def _labels(least: int) -> Form:
    texts = _list(_text, least)

    def check(value: Json, place: str) -> None:
        texts(value, place)
        if len(set(value)) < len(value):  # type: ignore[arg-type]
            raise IntegrityError(f"{place} are not different texts")

    return check


def _map(form: Form) -> Form:
    def check(value: Json, place: str) -> None:
        if not isinstance(value, dict):
            raise IntegrityError(f"{place} is not a record")
        for key, item in value.items():
            form(item, f"{place}.{key}")

    return check


def _fields(**forms: Form) -> Form:
    """Exactly these fields."""

    def check(value: Json, place: str) -> None:
        if not isinstance(value, dict):
            raise IntegrityError(f"{place} is not a record")
        _exactly(forms, value, place)
        for field, form in forms.items():
            form(value[field], f"{place}.{field}")

    return check


def _exactly(fields: Collection[str], record: Mapping[str, Json], place: str) -> None:
    for field in fields:
        if field not in record:
            raise IntegrityError(f"{place} has no field {field!r}")
    if len(record) > len(fields):
        raise IntegrityError(f"{place} has {len(record) - len(fields)} unknown fields")


# -- forms of single fields ------------------------------------------------------------------------

_hash = _matching(re.compile(r"[0-9a-f]{64}"), "64 hexadecimal digits")
_tool = _matching(re.compile(r"jaxpriv [0-9][0-9A-Za-z.+!]{0,63}"), "the release that wrote it")  # a public version
_texts = _list(_text)


def _label(value: Json, place: str) -> None:
    """The label of a class for other or missing values."""
    if value is not None and not (isinstance(value, str) and value.strip() and value.isprintable()):
        raise IntegrityError(f"{place} is not the label of a class (one line of text, not blank)")


def _edges(value: Json, place: str) -> None:
    """At least two rising numbers, each the text of a float or of a whole number; the outer two may be infinite."""
    _texts(value, place)
    try:
        edges = [edge_of(str(edge)) for edge in value]  # type: ignore[union-attr]
    except ValueError:
        edges = []
    rising = all(low < high for low, high in itertools.pairwise(edges)) and all(map(math.isfinite, edges[1:-1]))
    if len(edges) < 2 or not rising or [repr(edge) for edge in edges] != value:
        raise IntegrityError(f"{place} are not at least two rising numbers")


_EXTRAS: Mapping[str, Form] = {"kind": _text, "other": _label, "missing": _label, "tokens": _texts}


def _beginnings(value: Json, place: str) -> None:
    """A rule of categories of which only the first characters count."""
    _fields(values=_optional(_labels(1)), first=_whole, **_EXTRAS)(value, place)
    rule: Any = value
    if not rule["first"] or any(len(text) > rule["first"] for text in rule["values"] or ()):
        raise IntegrityError(f"{place} has values with more characters than count")


# The fields of a rule by its kind; a rule of quantiles is one of edges once it is fitted.
_RULES: Mapping[str, Form] = {
    "categories": _fields(values=_optional(_labels(1)), **_EXTRAS),
    "edges": _fields(edges=_edges, names=_optional(_labels(1)), **_EXTRAS),
}


def _rule(value: Json, place: str) -> None:
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _RULES:
        raise IntegrityError(f"{place} has no known kind")
    form = _beginnings if kind == "categories" and "first" in value else _RULES[kind]  # type: ignore[operator]
    form(value, place)


def _column(*, private: bool) -> Form:
    """A column with the labels that its rule gives; a private one may withhold its values."""
    form = _fields(column=_text, labels=_labels(0 if private else 1), rule=_rule)

    def check(value: Json, place: str) -> None:
        form(value, place)
        column: Any = value
        rule, labels = column["rule"], column["labels"]
        if rule["kind"] == "categories":
            names = rule["values"] or ()
            good = bool(names) or private
        else:
            names = rule["names"] or intervals(tuple(map(edge_of, rule["edges"])))
            good = len(names) == len(rule["edges"]) - 1
        extras = (rule[name] for name in ("other", "missing") if rule[name] is not None)
        if not good or labels != [*names, *extras]:
            raise IntegrityError(f"{place}: the codebook states other labels than its rules give")

    return check


def _columns(column: Form) -> Form:
    """At least one column, and none of them twice."""
    form = _list(column, 1)

    def check(value: Json, place: str) -> None:
        form(value, place)
        columns: Any = value
        if len({column["column"] for column in columns}) < len(columns):
            raise IntegrityError(f"{place}: a column occurs twice")

    return check


def _codebook(value: Json, place: str) -> None:
    _fields(private=_columns(_column(private=True)), useful=_columns(_column(private=False)))(value, place)
    book: Any = value
    rules = {column["column"]: column["rule"] for column in book["private"]}
    if any(rules.get(column["column"], column["rule"]) != column["rule"] for column in book["useful"]):
        raise IntegrityError(f"{place}: a column that is private and useful has two rules")


def check_codebook(value: Json, place: str) -> None:
    """`IntegrityError` unless a record is that of a file of columns and classes, with edges as texts."""
    names = _labels(1)
    _fields(format=_one_of((CODEBOOK,)), version=_whole, private=names, useful=names, columns=_map(_rule))(value, place)
    book: Any = value
    if book["version"] != 1:
        raise IntegrityError(f"{place} has another version than 1")
    _exactly(dict.fromkeys((*book["private"], *book["useful"])), book["columns"], f"{place}: columns")
    if any(not book["columns"][name].get("values", True) for name in book["useful"]):
        raise IntegrityError(f"{place}: a useful column has no values")


def _private_labels(value: Json, place: str) -> None:
    try:
        _list(_labels(1), 1)(value, place)
    except IntegrityError:
        raise IntegrityError(f"{place} are not different texts for each private column") from None


_claims = _map(_fields(lower=_optional(_text), upper=_optional(_text), unit=_text))
_decimal = _matching(re.compile(r"[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,9})?", re.ASCII), "a decimal number")
_bounds = _fields(lower=_optional(_decimal), upper=_optional(_decimal), unit=_text)


def _by_coalition(form: Form) -> Form:
    """A value for the receivers of an earlier release, for those of a new one, and for both."""
    return _fields(earlier=form, alone=form, together=form)


# The newest versions of the formats; 1 where none is named. Those up to it are read.
VERSIONS = {DESIGN: 2, RECEIPT: 3, LEDGER: 4}
# Fields that a record of an earlier version does not have. Designs and receipts that need none of the fields of the
# newest version have the one before.
_ABSENT = {(DESIGN, 1): ("follows", "absent"), (RECEIPT, 1): ("ledger", "order", "after"), (RECEIPT, 2): ("after",)}
_ABSENT |= {(LEDGER, 1): ("unseen", "designs"), (LEDGER, 2): ("unseen", "designs"), (LEDGER, 3): ("designs",)}
# The fields of a record by its format, beside format, version and sha256.
_RECORDS: Mapping[str, Mapping[str, Form]] = {
    DESIGN: {
        "tool": _tool,
        "asked": _fields(problem=_one_of(PROBLEMS), target=number, leakage=Measure.of),
        "codebook": _codebook,
        "released": _columns(_fields(column=_text, labels=_labels(1))),
        "unseen": _one_of(UNSEEN),
        "guarantees": _claims,
        "commitment": _hash,
        "members": _map(_hash),
        "follows": _optional(_hash),
        "absent": _list(_whole),
    },
    AUDIT: {
        "tool": _tool,
        "design": _hash,
        "key": _hash,
        "claims": _claims,
        "private_labels": _private_labels,
        "members": _map(_hash),
    },
    RECEIPT: {
        "tool": _tool,
        "design": _hash,
        "unseen": _one_of(UNSEEN),
        "columns": _list(_text, 1),
        "kept": _texts,
        "ledger": _one_of(("used", "none")),
        "order": _one_of(("permuted", "kept")),
        "released": _fields(sha256=_hash, bytes=_whole, rows=_whole, format=_one_of(FORMATS)),
        "after": _fields(
            design=_hash,
            limit=_optional(number),
            guarantees=_by_coalition(_fields(**{"maximal-leakage": _bounds, "ldp": _bounds})),
            leakage=_optional(_by_coalition(_optional(_decimal))),
        ),
    },
    LEDGER: {
        "key": _hash,
        "entries": _whole,
        "unseen": _map(_one_of(UNSEEN)),
        "designs": _list(_hash),
        "payload": _hash,
    },
    ORDER: {"tool": _tool, "released": _hash, "members": _map(_hash)},
    GROUPS: {"tool": _tool, "guarantees": _claims, "commitment": _hash, "members": _map(_hash)},
    GROUPS_AUDIT: {"tool": _tool, "design": _hash, "key": _hash, "members": _map(_hash)},
}
