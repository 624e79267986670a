"""The convex problems of the guard by name, what one gives now, and whether that is worse than what was frozen."""

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jaxpriv as jp
from jaxpriv.testing import known_problems
from tests.compiling import without_whole_solves
from tests.grid.cells import AXES, TRACED, Cell, measured, refusal
from tests.grid.covering import compiled, standard
from tests.grid.judge import Found, run
from tests.grid.measures import MEASURES

FILE = Path(__file__).with_suffix(".json")
# From best to worst.
_STATUSES = ("optimal", "best_known", "not_certified", "infeasible")
_PORTABLE = "portable/"  # without the kernels that solve a whole problem
_KNOWN = "known/"
# Measures whose whole solve is a kernel.
_KERNELS = ("mutual-information", "max-lift", "lift", "min-lift", "ldp", "inferential", "max-information")

# Losses of a user's whose best announcements lie on faces: the intervals stay open, and all steps are taken.
_KINKED = ("user-cubic", "user-loss", "max-user-loss")

# XLA and BLAS round differently on other processors, so a gap that rounding determines, and the iteration at which one
# falls below the tolerance, differ between machines: a gap is wider if it is by more than this factor.
_MACHINES = 1.5

Result = list[list[Any]]  # [status, value, bound] of every solution


def _every_measure() -> list[Cell]:
    cells = [Cell("auto", form, "nothing", name, "dense", "inside", "host") for name in MEASURES for form in AXES.form]
    return [cell for cell in cells if refusal(cell) is None]


def names() -> list[str]:
    """All of them. What the covering of the grid takes later is not added by itself: the file has the names."""
    cells = [cell for cell in (*standard(), *compiled()) if refusal(cell) is None]
    kernels = [
        Cell("auto", form, "nothing", name, structure, "inside", transform)
        for name in _KERNELS
        for form in ("budget", "leakage-budget")
        for structure, transform in (("dense", "host"), ("zeros", "host"), ("dense", "jit"), ("dense", "vmap"))
    ]
    kernels = [cell for cell in kernels if refusal(cell) is None]
    plain = [str(cell) for cell in (*cells, *_every_measure(), *kernels)]
    portable = [_PORTABLE + str(cell) for cell in kernels]
    return list(dict.fromkeys([*plain, *portable, *(_KNOWN + one.name for one in known_problems())]))


def takes_seconds(name: str) -> bool:
    """Whether a solve of this name compiles, or takes all steps with a user's loss."""
    if name.startswith(_KNOWN):
        return False
    cell = Cell(*name.removeprefix(_PORTABLE).split("/"))
    quick = cell.solver == "auto" and cell.transform not in TRACED
    return not quick or cell.measure in _KINKED or (measured(cell) and cell.also == "limits")


def results(name: str) -> list[Found]:
    """What the problem of this name gives now."""
    if name.startswith(_KNOWN):
        known = next(one for one in known_problems() if _KNOWN + one.name == name)
        solution = jp.solve(known.problem)
        return [Found(str(solution.status), float(solution.value), float(solution.lower_bound), None, 1e-6, 1e-9)]
    cell = Cell(*name.removeprefix(_PORTABLE).split("/"))
    with without_whole_solves() if name.startswith(_PORTABLE) else contextlib.nullcontext():
        return [found for _, found in run(cell)]


def as_json(found: list[Found]) -> Result:
    """Infinities are texts: the file is strict JSON."""
    number = lambda one: one if math.isfinite(one) else str(one)  # noqa: E731
    return [[one.status, number(one.value), number(one.bound)] for one in found]


def frozen() -> dict[str, Result]:
    """Every name and what it gave."""
    return json.loads(FILE.read_text())


def worse(before: Result, now: list[Found]) -> Iterator[str]:
    """In what `now` falls behind."""
    if len(before) != len(now):
        yield f"{len(now)} solutions in place of {len(before)}"
    for i, ((status, value, bound), one) in enumerate(zip(before, now, strict=False)):
        value, bound = float(value), float(bound)
        gap, gap_now = value - bound, one.value - one.bound
        slack = one.rounding * (1.0 + abs(value))
        wider = not gap_now <= _MACHINES * max(gap, one.tol) + slack
        missed = one.status == "not_certified" and gap_now > one.tol and not wider
        if _STATUSES.index(one.status) > _STATUSES.index(status) and not missed:
            yield f"[{i}] is {one.status}, was {status}"
        if not math.isfinite(value):
            if one.value != value and not (math.isnan(value) and math.isnan(one.value)):
                yield f"[{i}] value {one.value!r} in place of {value!r}"
            continue
        if wider:
            yield f"[{i}] has a gap of {gap_now:.2e}, had {gap:.2e}"
        if not abs(one.value - value) <= max(gap, gap_now) + slack:
            yield f"[{i}] value {one.value!r} is not within the gaps of {value!r}"
        if not (one.bound <= value + slack and bound <= one.value + slack):
            yield f"[{i}] the intervals [{bound!r}, {value!r}] and [{one.bound!r}, {one.value!r}] do not meet"
