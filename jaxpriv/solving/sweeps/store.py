"""The folder of a study: the plan, one file for each chunk, and the table of all rows; what a row holds.

    study.json                     format, hashes, plan
    chunks/<key>-<digest>.parquet  key: hash of what was asked; digest: hash of the file itself
    table.parquet                  all rows without certificates, once every chunk is there

Every file is written under another name, flushed and renamed, so that a process that is killed at any moment leaves
whole files only. A chunk whose content does not match its name is damaged, and is computed again. A folder belongs to
one study, and to one process at a time, or to one for each part (advisory locks, which the system takes back when a
process ends).

Rows are kept as Parquet: what each problem was and what is proved about it. A file holds no seconds and nothing of the
machine: equal chunks give equal bytes.
"""

import contextlib
import hashlib
import io
import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from jaxpriv._runtime.files import atomic_write
from jaxpriv.errors import InputError, IntegrityError, ResourceError
from jaxpriv.program.solution import Solution, Status
from jaxpriv.solving.sweeps.declaration import FORMAT, Config, Study, digest
from jaxpriv.solving.sweeps.planning import Chunk, Plan, chunk_key, plan_of

if TYPE_CHECKING:
    import polars

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None

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


def asked_columns(index: int, case: Config) -> dict[str, object]:
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


def found_columns(solution: Solution) -> dict[str, object]:
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


def refused_columns(why: str) -> dict[str, object]:
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


def _lists(name: str, arrays: Sequence[np.ndarray]) -> "polars.Series":
    """A column of flat arrays: cut from rows of one length."""
    pl = polars_or_refuse()
    sizes = [array.size for array in arrays]
    wide = np.zeros((len(arrays), max(1, *sizes)), dtype=arrays[0].dtype)
    for row, array in zip(wide, arrays, strict=True):
        row[: array.size] = array.ravel()
    both = pl.DataFrame({name: wide, "size": sizes})
    return both.select(pl.col(name).arr.to_list().list.head(pl.col("size")))[name]


def solution_of(row: Config, units: tuple[str, str]) -> Solution:
    """The solution that a row with its certificate holds; `units` are those of its problem."""
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
        units=units,
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
    expected = frame([asked_columns(i, case) for i, case in zip(positions, cases, strict=True)], False)
    if not table.select(list(_ASKED)).equals(expected):
        raise IntegrityError("the rows are not those of the problems that were asked")
    numbers = table.select("value", "lower_bound", "gap").to_numpy()
    value, bound, gap = numbers.T
    named = set(table["status"].to_list()) <= {status.label for status in Status}
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


_STUDY, _TABLE, _LOCK, _CHUNKS = "study.json", "table.parquet", ".lock", "chunks"
_LETTERS = 32  # of each hash in a name
_TEMPORARY = ".tmp"


# (k, n): the k-th of n parts of the chunks, from 1 to n.
Part: TypeAlias = tuple[int, int]


class Store:
    """The results of one study in one folder."""

    def __init__(self, folder: Path, study: Study, plan: Plan) -> None:
        self.folder, self.study, self.plan = folder, study, plan

    @property
    def table_path(self) -> Path:
        """Where the table of all rows is once the study is complete."""
        return self.folder / _TABLE

    def valid(self, chunk: Chunk) -> "polars.DataFrame | None":
        """The rows of a chunk; None where there is no file, or none whose content matches its name."""
        for path in self._files(chunk):
            with contextlib.suppress(IntegrityError, OSError):  # one that cannot be read is computed again
                content = path.read_bytes()
                if _name(chunk, content) != path.name:
                    continue
                return decoded(content, chunk.positions, [self.study.cases[i] for i in chunk.positions])
        return None

    def missing(self) -> list[int]:
        """The numbers of the chunks without valid files."""
        return [number for number, chunk in enumerate(self.plan.chunks) if self.valid(chunk) is None]

    def damaged(self, chunk: Chunk) -> bool:
        """Whether there are files of this chunk, none of them valid."""
        return bool(self._files(chunk)) and self.valid(chunk) is None

    def keep(self, chunk: Chunk, content: bytes) -> None:
        """Write the file of a chunk; others of the same chunk, which are damaged, are removed."""
        path = self.folder / _CHUNKS / _name(chunk, content)
        atomic_write(path, content)
        for other in self._files(chunk):
            if other != path:
                other.unlink(missing_ok=True)

    def tables(self) -> Iterator["polars.DataFrame"]:
        """The rows of every chunk that is there, one chunk after another."""
        for chunk in self.plan.chunks:
            table = self.valid(chunk)
            if table is not None:
                yield table

    def table(self) -> "polars.DataFrame":
        """All rows that are there, in the order of the study, without certificates."""
        pl = polars_or_refuse()
        parts = [table.select(COLUMNS) for table in self.tables()]
        refused = self.plan.refused.items()
        if refused:
            parts.append(
                frame([{**asked_columns(i, self.study.cases[i]), **refused_columns(why)} for i, why in refused], False)
            )
        return pl.concat(parts).sort("index") if parts else pl.DataFrame(schema=_schema(False))

    def _files(self, chunk: Chunk) -> list[Path]:
        return sorted((self.folder / _CHUNKS).glob(f"{chunk.key[:_LETTERS]}-*.parquet"))


@contextlib.contextmanager
def opened(folder: Path, study: Study, part: Part | None = None) -> Iterator[Store]:
    """The store of `study` in a folder, which is made if need be, for this process alone; or for this one and those
    with other parts.

    Raises:
        InputError: the folder holds another study, or is no folder.
        ResourceError: another process is at work in it, or it cannot be written.
        IntegrityError: it was written by a version of the library that keeps its rows in another way.
    """
    try:
        (folder / _CHUNKS).mkdir(parents=True, exist_ok=True)
        locks = [_lock_file(folder / _LOCK)]
        if part is not None:
            locks.append(_lock_file(folder / f"{_LOCK}-{part[0]}-of-{part[1]}"))
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(f"{folder} is not a folder; name another one") from error
    except OSError as error:
        raise ResourceError(f"cannot write into {folder}: {error.strerror}") from error
    try:
        if fcntl is not None:
            try:
                fcntl.flock(locks[0], (fcntl.LOCK_EX if part is None else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                if part is not None:
                    fcntl.flock(locks[1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ResourceError(
                    f"another sweep is at work in {folder}; wait until it ends, or name another folder"
                ) from error
        if part is None:  # files that killed processes have left, for no other one is at work now
            for left in folder.rglob(f".*{_TEMPORARY}"):
                left.unlink(missing_ok=True)
        yield Store(folder, study, _planned(folder, study))
    finally:
        for lock in locks:
            os.close(lock)


def _lock_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)


def seen(folder: Path, study: Study) -> Store:
    """The store as `opened` would find it; nothing is written or locked. Raises as `opened`."""
    return Store(folder, study, plan_of(study, _known(folder, study)))


def _planned(folder: Path, study: Study) -> Plan:
    """The plan that the folder holds, and what of the study is not in it yet; written there where it is new."""
    planned = _known(folder, study)
    plan = plan_of(study, planned)
    if plan.chunks != planned:
        chunks = [
            {"key": chunk.key, "width": chunk.width, "bucket": list(chunk.bucket), "positions": list(chunk.positions)}
            for chunk in plan.chunks
        ]
        record = {"format": FORMAT, "study": study.hash, "name": study.name, "cases": len(study.cases)}
        content = {**record, "chunks": chunks, "plan": digest(chunks)}
        atomic_write(folder / _STUDY, (json.dumps(content) + "\n").encode())
    return plan


def _known(folder: Path, study: Study) -> tuple[Chunk, ...]:
    """The chunks of the plan in the folder; none where there is no plan, or a damaged one."""
    try:
        record = json.loads((folder / _STUDY).read_text(encoding="utf-8"))
        written, hashed = record["format"], record["study"]
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return ()
    except OSError as error:
        raise ResourceError(f"cannot read {folder / _STUDY}: {error.strerror}") from error
    if written != FORMAT:
        raise IntegrityError(
            f"{folder} was written in format {written!r}, this version reads {FORMAT}; name another folder (nothing "
            "was changed there)"
        )
    if hashed != study.hash:
        raise InputError(
            f"{folder} holds another study; a changed declaration is a new study: name another folder (nothing was "
            "changed there)"
        )
    try:
        chunks = tuple(
            Chunk(tuple(entry["positions"]), entry["width"], tuple(entry["bucket"]), entry["key"])
            for entry in record["chunks"]
        )
        sound = digest(record["chunks"]) == record["plan"]
        asked = ((chunk, (study.cases[i] for i in chunk.positions)) for chunk in chunks)
        sound = sound and all(chunk.key == chunk_key(cases, chunk.width, chunk.bucket) for chunk, cases in asked)
    except (KeyError, TypeError, IndexError):
        return ()
    return chunks if sound else ()


def _name(chunk: Chunk, content: bytes) -> str:
    return f"{chunk.key[:_LETTERS]}-{hashlib.sha256(content).hexdigest()[:_LETTERS]}.parquet"
