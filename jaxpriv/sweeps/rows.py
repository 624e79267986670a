"""The rows of a study: what each problem was and what is proved about it, as Parquet.

A file holds no seconds and nothing of the machine: equal chunks give equal bytes.
"""

import io
import math
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from jaxpriv.errors import IntegrityError, ResourceError
from jaxpriv.solution import Solution, Status
from jaxpriv.sweeps.cases import Config

if TYPE_CHECKING:
    import polars

# Columns of the configuration, and of what was found, with polars' names of their types.
_ASKED = {
    "index": "Int64",
    "joint": "String",
    "seed": "Int64",
    "concentration": "Float64",
    "zeros": "Float64",
    "correlation": "Float64",
    "private": "Int64",
    "useful": "Int64",
    "released": "Int64",
    "distortion": "String",
    "distortion_seed": "Int64",
    "measure": "String",
    "form": "String",
    "target": "Float64",
    "asked_solver": "String",
    "tol": "Float64",
    "rtol": "Float64",
    "max_steps": "Int64",
}
_FOUND = {
    "status": "String",
    "value": "Float64",
    "lower_bound": "Float64",
    "gap": "Float64",
    "leakage": "Float64",
    "cost": "Float64",
    "steps": "Int64",
    "solver": "String",
    "notes": "String",
}
# What proves the rows: the arrays of a `Solution`, flat, with their shapes.
_ARRAYS = ("mechanism", "scores", "weights", "multipliers")
CERTIFICATE = tuple(f"{name}{end}" for name in _ARRAYS for end in ("", "_shape"))
COLUMNS = (*_ASKED, *_FOUND)

# What rounding makes of a gap that is 0, relative to 1 + the value.
_ROUNDING = 1e-9


def polars_or_refuse() -> ModuleType:
    """The module, or a `ResourceError` with the command that installs it."""
    try:
        import polars  # an extra
    except ImportError as error:
        raise ResourceError("sweeps keep their rows with polars: pip install 'jaxpriv[tables]'") from error
    return polars


def asked(index: int, case: Config) -> dict[str, object]:
    """The columns of a case."""
    joint, distortion = case["joint"], case["distortion"]
    return {
        "index": index,
        "joint": joint.get("file", joint.get("family")),
        **{name: joint.get(name) for name in ("seed", "concentration", "zeros", "correlation", "private", "useful")},
        "released": distortion["released"],
        "distortion": distortion.get("file", distortion.get("name")),
        "distortion_seed": distortion.get("seed"),
        "measure": ":".join(str(value) for value in case["leakage"].values()),
        "form": case["form"],
        "target": case["target"],
        "asked_solver": case["solver"],
        **{name: case[name] for name in ("tol", "rtol", "max_steps")},
    }


def found(solution: Solution) -> dict[str, object]:
    """The columns of a result."""
    return {
        "status": str(solution.status),
        "value": float(solution.value),
        "lower_bound": float(solution.lower_bound),
        "gap": float(solution.gap),
        "leakage": float(solution.leakage),
        "cost": float(np.ravel(solution.distortion)[0]),
        "steps": int(solution.steps),
        "solver": solution.solver,
        "notes": "; ".join(solution.notes),
        **{name: np.asarray(getattr(solution, name), dtype=np.float64) for name in _ARRAYS},
    }


def refused(why: str) -> dict[str, object]:
    """The columns of a case that no solver takes."""
    numbers = dict.fromkeys(("value", "lower_bound", "gap", "leakage", "cost"), math.nan)
    return {"status": "refused", **numbers, "steps": 0, "solver": "none", "notes": why}


def frame(rows: Sequence[Config], certificates: bool = True) -> "polars.DataFrame":
    """The rows as a polars frame with the columns of every chunk, made by columns: by rows it takes much longer."""
    pl = polars_or_refuse()
    plain = {name: [row[name] for row in rows] for name in (COLUMNS if "status" in rows[0] else _ASKED)}
    table = pl.DataFrame(plain, schema={name: _schema(False)[name] for name in plain})
    if not certificates:
        return table
    for name in _ARRAYS:
        arrays = [row[name] for row in rows]
        shapes = [np.array(array.shape) for array in arrays]
        table = table.with_columns(_lists(name, arrays), _lists(f"{name}_shape", shapes))
    return table


def empty() -> "polars.DataFrame":
    """No rows."""
    return polars_or_refuse().DataFrame(schema=_schema(False))


def _lists(name: str, arrays: Sequence[np.ndarray]) -> "polars.Series":
    """A column of flat arrays: cut from rows of one length."""
    pl = polars_or_refuse()
    sizes = [array.size for array in arrays]
    wide = np.zeros((len(arrays), max(1, *sizes)), dtype=arrays[0].dtype)
    for row, array in zip(wide, arrays, strict=True):
        row[: array.size] = array.ravel()
    both = pl.DataFrame({name: wide, "size": sizes})
    return both.select(pl.col(name).arr.to_list().list.head(pl.col("size")))[name]


def solution_of(row: Config) -> Solution:
    """The solution that a row with its certificate holds."""
    arrays = {
        name: np.asarray(row[name], dtype=np.float64).reshape([int(size) for size in row[f"{name}_shape"]])
        for name in _ARRAYS
    }
    mechanism, scores, weights, multipliers = (arrays[name] for name in _ARRAYS)
    return Solution(
        value=np.float64(row["value"]),
        lower_bound=np.float64(row["lower_bound"]),
        leakage=np.float64(row["leakage"]),
        distortion=np.array([row["cost"]]),
        code=np.int32(Status[row["status"].upper()]),
        steps=np.int32(row["steps"]),
        solver=row["solver"],
        notes=tuple(row["notes"].split("; ")) if row["notes"] else (),
        mechanism=mechanism,
        scores=scores,
        weights=weights,
        multipliers=multipliers,
    )


def encoded(table: "polars.DataFrame") -> bytes:
    """The bytes of a Parquet file."""
    stream = io.BytesIO()
    table.write_parquet(stream, compression="zstd", statistics=False)
    return stream.getvalue()


def decoded(content: bytes, positions: Sequence[int], cases: Sequence[Config]) -> "polars.DataFrame":
    """The frame in a Parquet file, if it holds results of exactly these cases.

    Raises:
        IntegrityError: what is wrong with it.
    """
    pl = polars_or_refuse()
    try:
        table = pl.read_parquet(io.BytesIO(content), use_pyarrow=False)
    except (Exception, pl.exceptions.PanicException) as error:  # it has many, and panics
        raise IntegrityError("the rows are not a complete Parquet file") from error
    if dict(table.schema) != _schema(True):
        raise IntegrityError("the rows have other columns than a study")
    expected = frame([asked(i, case) for i, case in zip(positions, cases, strict=True)], False)
    if not table.select(list(_ASKED)).equals(expected):
        raise IntegrityError("the rows are not those of the problems that were asked")
    numbers = table.select("value", "lower_bound", "gap").to_numpy()
    value, bound, gap = numbers.T
    named = set(table["status"].to_list()) <= {one.label for one in Status}
    with np.errstate(invalid="ignore"):
        crossed = value < bound - _ROUNDING * (1.0 + abs(value))
        wrong = np.isfinite(value) & ~(abs(gap - (value - bound)) <= _ROUNDING * (1.0 + abs(value)))
    optimal = (table["status"] == "optimal").to_numpy()
    if not named or np.isnan(value).any() or wrong.any() or (optimal & (crossed | ~np.isfinite(value))).any():
        raise IntegrityError("the rows hold numbers that are no results")
    return table


def _schema(certificates: bool) -> "dict[str, polars.DataType]":
    pl = polars_or_refuse()
    plain = {name: getattr(pl, kind)() for name, kind in {**_ASKED, **_FOUND}.items()}
    if not certificates:
        return plain
    arrays = {name: pl.List(pl.Int64() if name.endswith("_shape") else pl.Float64()) for name in CERTIFICATE}
    return {**plain, **arrays}
