"""A table of records -> a released file and its receipt: one secure draw for each record, all or nothing.

The order of what reaches the disk: the ledger with the draws, then the released file, then the receipt. Killed at any
moment this leaves nothing half-written; with a ledger the next run writes the same draws, without one a file without a
receipt stands in its way until somebody has decided what it is.
"""

import contextlib
import fcntl
import io
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np

from jaxpriv._files import atomic_write, write_together
from jaxpriv._module import summary
from jaxpriv.datasets._layout import distinct_rows
from jaxpriv.errors import InputError, IntegrityError, ResourceError
from jaxpriv.estimation.tables.readers import Column, Source, read_columns, row_text
from jaxpriv.mechanism import table as tables
from jaxpriv.mechanism.mechanism import Mechanism
from jaxpriv.verifier import archive
from jaxpriv.verifier.archive import Json, read_file
from jaxpriv.verifier.records import LEDGER, RECEIPT, UNSEEN, unsealed
from jaxpriv.verifier.releases import csv_line, escaped, unkeepable

# What was released for whom: a second release of a record gives what the first one gave, not a second draw.
#
# Fresh randomness at every release lets a reader average it away: two independent draws leak up to twice as much. A
# ledger holds for every released record a keyed hash of who it is, one of what it was and by which design, and the
# symbol that was drawn. Without the key, which is in the file too, nothing can be looked up by guessing; the file is
# for its owner only.


_WHO, _WHAT = 16, 8  # bytes kept of each hash: by chance two of 2^40 records share one with probability 2^-49
_ENTRIES = np.dtype([("who", f"V{_WHO}"), ("what", f"V{_WHAT}"), ("symbol", "<u4")])


@dataclass
class Ledger:
    """`entries`: hash of who -> (hash of what, symbol)."""

    key: bytes
    entries: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)

    def keyed(self, who: Sequence[bytes], what: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
        """The keyed hashes of who each record is, and of what it was and by which design."""
        one = [blake2b(name, key=self.key, digest_size=_WHO).digest() for name in who]
        both = [
            blake2b(name + content, key=self.key, digest_size=_WHAT).digest()
            for name, content in zip(one, what, strict=True)
        ]
        return one, both

    def recorded(self, who: Sequence[bytes], what: Sequence[bytes]) -> np.ndarray:
        """The symbol of each record that was released before, int64 (n,); -1 for the others. Hashes as `keyed` gives.

        Raises `InputError` for a record that was released before with other values or by another design.
        """
        found = np.full(len(who), -1, dtype=np.int64)
        changed = []
        for row, (one, content) in enumerate(zip(who, what, strict=True)):
            entry = self.entries.get(one)
            if entry is not None:
                found[row] = entry[1]
                if entry[0] != content:
                    changed.append(row)
        if changed:
            raise InputError(
                f"--ledger: {row_text(changed[0])} was released before with other values or by another design "
                f"(such rows: {len(changed)}): another draw would disclose more about the same record; leave it out"
            )
        return found

    def add(self, who: Sequence[bytes], what: Sequence[bytes], symbols: np.ndarray) -> None:
        """Record what is about to be released."""
        self.entries.update(zip(who, zip(what, symbols.tolist(), strict=True), strict=True))

    def to_bytes(self) -> bytes:
        """The file, in the order of the hashes."""
        table = np.zeros(len(self.entries), dtype=_ENTRIES)
        names = b"".join(self.entries)
        table["who"] = np.frombuffer(names, dtype=f"V{_WHO}")
        table["what"] = np.frombuffer(b"".join([entry[0] for entry in self.entries.values()]), dtype=f"V{_WHAT}")
        table["symbol"] = np.array([entry[1] for entry in self.entries.values()], dtype="<u4")
        parts = np.frombuffer(names, dtype=">u8").reshape(-1, 2)
        payload = table[np.lexsort((parts[:, 1], parts[:, 0]))].tobytes()
        header = {"format": LEDGER, "version": 1, "key": self.key.hex(), "entries": len(self.entries)}
        return archive.sealed({**header, "payload": archive.digest(payload)}) + payload

    @classmethod
    def load(cls, path: Path) -> "Ledger":
        """The ledger of a file, or a new one with a key of its own; `IntegrityError` if the file is damaged."""
        if not path.exists():
            return cls(os.urandom(32))
        data = read_file(path)
        line, newline, payload = data.partition(b"\n")
        record = unsealed(line + newline, str(path), LEDGER)
        layout = struct.Struct(f"<{_WHO}s{_WHAT}sI")
        whole = archive.digest(payload) == record["payload"] and len(payload) % layout.size == 0
        entries = {who: (what, symbol) for who, what, symbol in layout.iter_unpack(payload)} if whole else {}
        if not whole or len(payload) != record["entries"] * layout.size or len(entries) != record["entries"]:
            raise IntegrityError(f"{path} is damaged: its entries are not those that it states")
        return cls(bytes.fromhex(record["key"]), entries)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """No other release uses the ledger meanwhile; `ResourceError` if one does."""
    name = path.with_name(path.name + ".lock")
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ResourceError(f"cannot write {name}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ResourceError(f"{path} is in use by another release; wait for its end") from None
    finally:
        os.close(descriptor)


_FORMATS: Mapping[str, str] = {".csv": "csv", ".parquet": "parquet"}


@dataclass(frozen=True, eq=False)
class Released:
    """What `release` did.

    Attributes:
        outputs: the symbol y of every record, int64 (n,).
        unseen: records whose combination of classes has no symbol.
        served: records that were in the ledger: they keep their earlier draw.
        escaped: cells of a CSV that got an apostrophe, because a spreadsheet would have computed them.
        receipt: what the receipt states.
    """

    outputs: np.ndarray
    unseen: int
    served: int
    escaped: int
    receipt: Mapping[str, Json]

    __repr__ = summary


def release(
    source: Source,
    mechanism: Mechanism,
    out: str | os.PathLike[str],
    receipt: str | os.PathLike[str],
    *,
    unseen: str | None = None,
    ledger: str | os.PathLike[str] | None = None,
    identity: Sequence[str] = (),
    keep: Sequence[str] = (),
    force: bool = False,
) -> Released:
    """Release the records of a table by a mechanism, into a file.

    Args:
        source: the table: a frame, columns by name, or a .csv or .parquet file.
        out: the released file, .csv or .parquet: the columns of the mechanism, one row for each record, in their order.
        receipt: the file, written last, of what was released by which design.
        unseen: what a combination of classes without a symbol comes to; by default as the mechanism states.
        ledger: a file of what was released for whom: a record in it gets the draw that it got then.
        identity: the columns that identify a record, for the ledger; by default the table itself and the row.
        keep: further columns, which go into the file as they are. No audit covers them. Private columns and what the
            mechanism releases cannot be kept.
        force: replace `out` and `receipt` if they exist: without a ledger that is a second draw for the same records.

    Raises `InputError` for what cannot be released (naming column and row) or has been, `IntegrityError` and
    `EntropyError` if the self-test fails or there is no randomness, `ResourceError` if a file cannot be written. In all
    cases nothing is released.
    """
    target, proof = Path(out), Path(receipt)
    kind = _FORMATS.get(target.suffix.lower())
    if kind is None:
        raise InputError(f"{target}: tables are released as .csv and .parquet files")
    rule = mechanism.unseen if unseen is None else unseen
    if rule not in UNSEEN:
        raise InputError(f"unseen must be one of {', '.join(UNSEEN)}")
    if identity and ledger is None:
        raise InputError("identity is about a ledger; name one")
    _check_columns(mechanism, identity, keep)
    if not force:
        _refuse_second(proof, target)
    names = list(dict.fromkeys((*mechanism.codebook.useful, *identity, *keep)))
    columns = read_columns(source, names)
    codes = mechanism.codebook.encode_useful(columns)
    new = int(mechanism.unknown(codes).sum())
    symbols = mechanism.locate_codes(codes, rule)
    tables.self_test(mechanism.table, np.unique(symbols))
    path = None if ledger is None else Path(ledger)
    with nullcontext() if path is None else locked(path), _alone(proof, target):
        if not force:
            _refuse_second(proof, target)  # another release may have ended since
        outputs = mechanism.sample(symbols)
        served = 0
        if path is not None:
            served = _recorded(path, mechanism, codes, [columns[name] for name in identity], outputs)
        kept = {name: columns[name] for name in keep}
        content, marked = _content(kind, mechanism, outputs, kept)
        record = _receipt(mechanism, rule, content, kind, len(outputs), keep)
        write_together({target: content, proof: archive.sealed(record)})
    return Released(outputs, new, served, marked, record)


def _refuse_second(proof: Path, target: Path) -> None:
    for path in (proof, target):
        if path.exists():
            raise InputError(
                f"{path} exists: these records may have been released. A second draw for the same records reveals more "
                "about them; use a `ledger`, or `force` if nothing was published"
            )


@contextlib.contextmanager
def _alone(*files: Path) -> Iterator[None]:
    """No other release writes into the folders of these files meanwhile: one that comes later waits."""
    with contextlib.ExitStack() as open_folders:
        # In one order, so that two processes do not wait for each other.
        for folder in sorted({path.parent.resolve() for path in files}):
            try:
                descriptor = os.open(folder, os.O_RDONLY)
                open_folders.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError as error:
                raise ResourceError(f"cannot write into {folder} alone: {error.strerror}") from error
        yield


def _check_columns(mechanism: Mechanism, identity: Sequence[str], keep: Sequence[str]) -> None:
    book = mechanism.codebook
    for place, name in enumerate(keep):
        reason = unkeepable(name, book.private, book.useful, mechanism.released_columns)
        if reason is not None:
            raise InputError(f"keep: column {name!r} {reason}")
        if name in keep[:place] or name in identity:
            raise InputError(f"keep: column {name!r} is named twice, or identifies a record")


def _recorded(
    path: Path, mechanism: Mechanism, codes: np.ndarray, identity: Sequence[Column], outputs: np.ndarray
) -> int:
    """Put the draws of then into `outputs`, write the ledger with the new ones, and say how many there were."""
    book = Ledger.load(path)
    design = archive.digest(mechanism.table.tobytes() + mechanism.released.tobytes()).encode()
    sizes = [len(mechanism.codebook.rules[name].labels) for name in mechanism.codebook.useful]
    distinct, place = distinct_rows(codes, sizes)
    contents = [design + row.tobytes() for row in distinct]
    who, what = book.keyed(_who(identity, codes), [contents[x] for x in place.tolist()])
    before = book.recorded(who, what)
    if (before >= len(mechanism.released)).any():
        raise IntegrityError(f"{path} holds a symbol that the design does not release")
    outputs[before >= 0] = before[before >= 0]
    first: dict[bytes, int] = {}
    for row, one in enumerate(who):
        earlier = first.setdefault(one, row)
        if what[earlier] != what[row]:
            raise InputError(f"{row_text(row)} has the identity of {row_text(earlier)} and other values")
        outputs[row] = outputs[earlier]
    book.add(who, what, outputs)
    existed = path.exists()
    if existed:
        atomic_write(path, book.to_bytes())
    else:
        write_together({path: book.to_bytes()}, private=[path])
    return int((before >= 0).sum())


def _who(identity: Sequence[Column], codes: np.ndarray) -> list[bytes]:
    if not identity:
        table = archive.digest(np.ascontiguousarray(codes).tobytes())
        return [f"{table} {row}".encode() for row in range(len(codes))]
    for column in identity:
        if column.missing.any():
            raise InputError(f"{column.where(np.flatnonzero(column.missing)[0])} is missing: it identifies a record")
    texts = [[str(value).encode() for value in column.values.tolist()] for column in identity]
    # Lengths before the texts: no two records share an encoding.
    return [b"".join(b"%d:%s" % (len(cell), cell) for cell in row) for row in zip(*texts, strict=True)]


def _content(kind: str, mechanism: Mechanism, outputs: np.ndarray, kept: Mapping[str, Column]) -> tuple[bytes, int]:
    """(the file, cells with an apostrophe)."""
    if kind == "parquet":
        return _parquet(mechanism, outputs, kept), 0
    names = [*mechanism.released_columns, *kept]
    symbols = mechanism.labels_of(np.arange(len(mechanism.released)))
    cells = list(zip(*([str(label) for label in labels] for labels in symbols.values()), strict=True))
    rows = [[escaped(cell) for cell in row] for row in cells]
    changed = np.array([sum(map(str.__ne__, row, old)) for row, old in zip(rows, cells, strict=True)])
    marked = int(changed[outputs].sum()) + sum(escaped(name) != name for name in names)
    header = csv_line([escaped(name) for name in names])
    if not kept:
        lines = [csv_line(row) for row in rows]
        return (header + "".join([lines[y] for y in outputs.tolist()])).encode(), marked
    lines = [header]
    for y, *others in zip(outputs.tolist(), *map(_texts, kept.values()), strict=True):
        safe = [escaped(text) for text in others]
        marked += sum(map(str.__ne__, safe, others))
        lines.append(csv_line([*rows[y], *safe]))
    return "".join(lines).encode(), marked


def _texts(column: Column) -> list[str]:
    return ["" if gap else str(value) for value, gap in zip(column.values.tolist(), column.missing, strict=True)]


def _parquet(mechanism: Mechanism, outputs: np.ndarray, kept: Mapping[str, Column]) -> bytes:
    try:
        import polars as pl  # an extra
    except ImportError as error:
        raise ResourceError("Parquet files need polars: pip install 'jaxpriv[tables]'") from error
    data: dict[str, list[object]] = {name: values.tolist() for name, values in mechanism.labels_of(outputs).items()}
    for name, column in kept.items():
        values = column.values.tolist()
        data[name] = [None if gap else value for value, gap in zip(values, column.missing, strict=True)]
    stream = io.BytesIO()
    pl.DataFrame(data).write_parquet(stream)
    return stream.getvalue()


def _receipt(
    mechanism: Mechanism, rule: str, content: bytes, kind: str, rows: int, keep: Sequence[str]
) -> dict[str, Json]:
    from jaxpriv import __version__

    return {
        "format": RECEIPT,
        "version": 1,
        "tool": f"jaxpriv {__version__}",
        "design": mechanism.sha256,
        "unseen": rule,
        "columns": list(mechanism.released_columns),
        "kept": list(keep),
        "released": {"sha256": archive.digest(content), "bytes": len(content), "rows": rows, "format": kind},
    }
