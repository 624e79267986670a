"""Results as data: one JSON file for each run of a suite. `run.py` writes it, `report.py` only reads it."""

import dataclasses
import json
import math
import os
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxpriv._runtime.files import atomic_write

SCHEMA = 1
STATUSES = ("ok", "failed", "time limit", "skipped", "unavailable")
# The reason of what is skipped because of the limit on a smaller case.
TOO_SLOW = "a smaller case exceeded the time limit"


@dataclass(frozen=True)
class Row:
    """One solver on one case at one accuracy.

    Attributes:
        case, solver, accuracy: which.
        status, reason: `ok`, or what happened instead: `failed` (no usable mechanism), `time limit`,
            `skipped` (what a looser accuracy or a smaller case had already shown, or the time budget),
            `unavailable` (not installed).
        seconds, seconds_min, seconds_max, repeats: median and range of the repeats, compile time apart.
        own_clock: by the solver's own clock, where it has one.
        setup_seconds: stating the problem. compile_seconds: compiling, once for a shape.
        steps: iterations, where they are counted.
        value: objective of the repaired mechanism, nats (the mean over the points of a curve).
        lower_bound: certified by this solver (mean likewise); None for those that certify nothing.
        gap: value minus the case's best certified bound (the largest over the points of a curve).
        judged: whether the value is the judge's (False: too large, the solver's own certificate).
        repair: share of the least-distortion map that the judge had to mix in.
        peak_mib: peak memory above the process's size before the problem was stated; on `time limit`
            what it had reached when it was stopped.
        baseline_mib: that size, mostly imports.
    """

    case: str
    solver: str
    accuracy: str
    status: str
    reason: str = ""
    seconds: float | None = None
    seconds_min: float | None = None
    seconds_max: float | None = None
    repeats: int = 0
    own_clock: float | None = None
    setup_seconds: float | None = None
    compile_seconds: float | None = None
    steps: int | None = None
    value: float | None = None
    lower_bound: float | None = None
    gap: float | None = None
    judged: bool = False
    repair: float | None = None
    peak_mib: float | None = None
    baseline_mib: float | None = None


@dataclass(frozen=True)
class CaseRecord:
    """A case, its sizes, and the best certified bound on it (mean over the points of a curve)."""

    name: str
    family: str
    parameters: dict[str, Any]
    sizes: dict[str, int]
    bound: float | None
    bound_by: str


@dataclass(frozen=True)
class PartRecord:
    """Cases that belong together; `axis` is the parameter that grows along them, if one does."""

    title: str
    axis: str | None
    cases: list[str]
    targets: list[float]
    limit_seconds: float


@dataclass(frozen=True)
class Results:
    """A run of a suite."""

    schema: int
    suite: str
    seed: int
    date: str
    seconds: float
    versions: dict[str, str | None]
    machine: dict[str, Any]
    parts: list[PartRecord]
    cases: list[CaseRecord]
    rows: list[Row] = field(default_factory=list)

    def case(self, name: str) -> CaseRecord:
        """A case by its name."""
        return next(case for case in self.cases if case.name == name)

    def has(self, name: str) -> bool:
        """Whether the case was run: an interrupted run has fewer than its parts name."""
        return any(case.name == name for case in self.cases)

    def rows_of(self, case: str, solver: str | None = None) -> list[Row]:
        """The rows of a case, of one solver if given."""
        return [row for row in self.rows if row.case == case and solver in (None, row.solver)]


def write(path: str | os.PathLike[str], results: Results) -> None:
    """Write the file, whole or not at all; one line for each row. Numbers that are not finite are refused."""
    document = dataclasses.asdict(results)
    rows = document.pop("rows")
    head = json.dumps(document, indent=1, allow_nan=False)
    lines = ",\n".join(json.dumps(_brief(row), allow_nan=False) for row in rows)
    atomic_write(path, f'{head[:-2]},\n "rows": [\n{lines}\n]\n}}\n'.encode())


def _brief(row: dict[str, Any]) -> dict[str, Any]:
    """A row without the fields that say nothing, numbers to ten digits."""
    rounded = {k: float(f"{v:.10g}") if isinstance(v, float) else v for k, v in row.items()}
    defaults = {f.name: f.default for f in dataclasses.fields(Row)}
    return {k: v for k, v in rounded.items() if v != defaults[k]}


def read(path: str | os.PathLike[str]) -> Results:
    """Read and check a file. Raises `ValueError` naming the field that does not fit the schema."""
    document = json.loads(Path(path).read_text())
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"not a results file of schema {SCHEMA}")
    results = _record(Results, document, "results")
    known = {case.name for case in results.cases}
    for i, row in enumerate(results.rows):
        if row.status not in STATUSES:
            raise ValueError(f"rows[{i}].status: {row.status!r} is not one of {', '.join(STATUSES)}")
        if row.case not in known:
            raise ValueError(f"rows[{i}].case: {row.case!r} is not among the cases")
    return results


def _record(kind: Any, data: Any, place: str) -> Any:
    """`data` as the dataclass `kind`, every field checked."""
    if not isinstance(data, dict):
        raise ValueError(f"{place}: an object is needed")
    hints = typing.get_type_hints(kind)
    unknown = sorted(set(data) - set(hints))
    if unknown:
        raise ValueError(f"{place}.{unknown[0]}: unknown field")
    required = {f.name for f in dataclasses.fields(kind) if f.default is f.default_factory is dataclasses.MISSING}
    missing = sorted(required - set(data))
    if missing:
        raise ValueError(f"{place}.{missing[0]}: missing")
    return kind(**{name: _checked(hints[name], value, f"{place}.{name}") for name, value in data.items()})


def _checked(hint: Any, value: Any, place: str) -> Any:
    """`value` if it is of the annotated type (an integer will do for a float)."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        if value is None and type(None) in inner:
            return None
        return _checked(next(one for one in inner if one is not type(None)), value, place)
    if origin is list:
        if not isinstance(value, list):
            raise ValueError(f"{place}: a list is needed")
        return [_checked(inner[0], item, f"{place}[{i}]") for i, item in enumerate(value)]
    if dataclasses.is_dataclass(hint):
        return _record(hint, value, place)
    wanted = (int, float) if hint is float else (origin or hint,)
    if hint is not Any and (not isinstance(value, wanted) or (isinstance(value, bool) and hint is not bool)):
        raise ValueError(f"{place}: {value!r} is not of type {getattr(hint, '__name__', hint)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place}: not finite")
    return value
