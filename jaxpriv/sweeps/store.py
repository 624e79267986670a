"""The folder of a study: the plan, one file for each chunk, and the table of all rows.

    study.json                     format, hashes, plan
    chunks/<key>-<digest>.parquet  key: hash of what was asked; digest: hash of the file itself
    table.parquet                  all rows without certificates, once every chunk is there

Every file is written under another name, flushed and renamed, so that a process that is killed at any moment leaves
whole files only. A chunk whose content does not match its name is damaged, and is computed again. A folder belongs to
one study, and to one process at a time, or to one for each part (advisory locks, which the system takes back when a
process ends).
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from jaxpriv._files import atomic_write
from jaxpriv.errors import InputError, IntegrityError, ResourceError
from jaxpriv.sweeps import rows
from jaxpriv.sweeps.cases import digest
from jaxpriv.sweeps.declaration import FORMAT, Study
from jaxpriv.sweeps.planning import Chunk, Plan, chunk_key, plan_of

if TYPE_CHECKING:
    import polars

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None

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
            content = path.read_bytes()
            if _name(chunk, content) != path.name:
                continue
            with contextlib.suppress(IntegrityError):
                return rows.decoded(content, chunk.positions, [self.study.cases[i] for i in chunk.positions])
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
        pl = rows.polars_or_refuse()
        parts = [table.select(rows.COLUMNS) for table in self.tables()]
        refused = self.plan.refused.items()
        if refused:
            parts.append(
                rows.frame([{**rows.asked(i, self.study.cases[i]), **rows.refused(why)} for i, why in refused], False)
            )
        return pl.concat(parts).sort("index") if parts else rows.empty()

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
    known = _known(folder, study)
    plan = plan_of(study, known)
    if plan.chunks != known:
        chunks = [
            {"key": one.key, "width": one.width, "bucket": list(one.bucket), "positions": list(one.positions)}
            for one in plan.chunks
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
    except (FileNotFoundError, ValueError, KeyError, TypeError):
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
            Chunk(tuple(one["positions"]), one["width"], tuple(one["bucket"]), one["key"]) for one in record["chunks"]
        )
        sound = digest(record["chunks"]) == record["plan"]
        sound = sound and all(one.key == _key(study, one) for one in chunks)
    except (KeyError, TypeError, IndexError):
        return ()
    return chunks if sound else ()


def _key(study: Study, chunk: Chunk) -> str:
    return chunk_key((study.cases[i] for i in chunk.positions), chunk.width, chunk.bucket)


def _name(chunk: Chunk, content: bytes) -> str:
    return f"{chunk.key[:_LETTERS]}-{hashlib.sha256(content).hexdigest()[:_LETTERS]}.parquet"
