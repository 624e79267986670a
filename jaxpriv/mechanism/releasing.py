"""A table of records -> a released file and its receipt: one secure draw for each record, all or nothing.

The order of what reaches the disk: the ledger with the draws, then the released file, then the receipt. Killed at any
moment this leaves nothing half-written; with a ledger the next run writes the same draws, without one a file without a
receipt stands in its way until somebody has decided what it is.
"""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxpriv._files import atomic_write, write_together
from jaxpriv._repr import summary
from jaxpriv.datasets._layout import distinct_rows
from jaxpriv.errors import InputError, ResourceError
from jaxpriv.estimation.tables.border import Column, Source, read_columns, row_text
from jaxpriv.mechanism import draws
from jaxpriv.mechanism.ledger import Ledger, locked
from jaxpriv.mechanism.mechanism import Mechanism
from jaxpriv.verifier import archive
from jaxpriv.verifier.archive import Json
from jaxpriv.verifier.designs import UNSEEN
from jaxpriv.verifier.releases import RECEIPT, escaped

_FORMATS: Mapping[str, str] = {".csv": "csv", ".parquet": "parquet"}


@dataclass(frozen=True, eq=False)
class Released:
    """What `release` did.

    Attributes:
        outputs: the symbol y of every record, int64 (n,).
        unseen: records whose combination of classes has no symbol.
        served: records that a ledger knew: they have the draw of then.
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
        receipt: the file that says, last, what was released by which design.
        unseen: what a combination of classes without a symbol comes to; by default what the mechanism says.
        ledger: a file of what was released for whom: a record in it gets the draw that it got then.
        identity: the columns that say who a record is, for the ledger; by default the table itself and the row.
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
    for path in (proof, target):
        if path.exists() and not force:
            raise InputError(
                f"{path} exists: these records may have been released. A second draw for the same records tells more "
                "about them; use a ledger, or force if nothing was published"
            )
    names = list(dict.fromkeys((*mechanism.codebook.useful, *identity, *keep)))
    columns = read_columns(source, names)
    codes = mechanism.codebook.encode_useful(columns)
    new = int(mechanism.unknown(codes).sum())
    symbols = mechanism.locate_codes(codes, rule)
    draws.self_test(mechanism.table, np.unique(symbols))
    path = None if ledger is None else Path(ledger)
    with nullcontext() if path is None else locked(path):
        outputs = mechanism.sample(symbols)
        served = 0
        if path is not None:
            served = _recorded(path, mechanism, codes, [columns[name] for name in identity], outputs)
        kept = {name: columns[name] for name in keep}
        content, marked = _content(kind, mechanism, outputs, kept)
        record = _receipt(mechanism, rule, content, kind, len(outputs), keep)
        write_together({target: content, proof: archive.sealed(record)})
    return Released(outputs, new, served, marked, record)


def _check_columns(mechanism: Mechanism, identity: Sequence[str], keep: Sequence[str]) -> None:
    book = mechanism.codebook
    for place, name in enumerate(keep):
        if name in book.private:
            raise InputError(f"keep: column {name!r} is private")
        if name in book.useful or name in mechanism.released_columns:
            raise InputError(f"keep: column {name!r} is what the mechanism releases in another form")
        if name in keep[:place] or name in identity:
            raise InputError(f"keep: column {name!r} is named twice, or says who a record is")


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
            raise InputError(f"{column.where(np.flatnonzero(column.missing)[0])} is missing: it says who a record is")
    texts = [[str(value).encode() for value in column.values.tolist()] for column in identity]
    # Lengths before the texts: no two records share an encoding.
    return [b"".join(b"%d:%s" % (len(cell), cell) for cell in row) for row in zip(*texts, strict=True)]


def _content(kind: str, mechanism: Mechanism, outputs: np.ndarray, kept: Mapping[str, Column]) -> tuple[bytes, int]:
    """(the file, cells with an apostrophe)."""
    if kind == "parquet":
        return _parquet(mechanism, outputs, kept), 0
    names = [*mechanism.released_columns, *kept]
    symbols = mechanism.labels_of(np.arange(len(mechanism.released)))
    cells = [[str(label) for label in labels] for labels in symbols.values()]
    rows = [[escaped(cell) for cell in row] for row in zip(*cells, strict=True)]
    if len(set(map(tuple, rows))) < len(rows):
        raise InputError("two labels are the same text once an apostrophe stands before formulas; rename one")
    changed = np.array(
        [sum(map(str.__ne__, row, old)) for row, old in zip(rows, zip(*cells, strict=True), strict=True)]
    )
    marked = int(changed[outputs].sum()) + sum(escaped(name) != name for name in names)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(escaped, names))
    if not kept:
        lines = [_line(row) for row in rows]
        return (stream.getvalue() + "".join([lines[y] for y in outputs.tolist()])).encode(), marked
    texts = [_texts(column) for column in kept.values()]
    for y, *others in zip(outputs.tolist(), *texts, strict=True):
        safe = [escaped(text) for text in others]
        marked += sum(map(str.__ne__, safe, others))
        writer.writerow([*rows[y], *safe])
    return stream.getvalue().encode(), marked


def _line(row: Sequence[str]) -> str:
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n").writerow(row)
    return stream.getvalue()


def _texts(column: Column) -> list[str]:
    return ["" if gap else str(value) for value, gap in zip(column.values.tolist(), column.missing, strict=True)]


def _parquet(mechanism: Mechanism, outputs: np.ndarray, kept: Mapping[str, Column]) -> bytes:
    try:
        import polars as pl  # an extra
    except ImportError as error:
        raise ResourceError("Parquet files need polars: pip install 'jaxpriv[tables]'") from error
    data: dict[str, Any] = {name: values.tolist() for name, values in mechanism.labels_of(outputs).items()}
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
