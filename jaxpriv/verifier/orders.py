"""Which record each row of a released file is of.

Rows are released in a random order. The owner has the order in a file: an archive of `order.json`, which names the
released file by its hash, and `order.npy`, (n,) whole numbers, the record of each row. Without that file rows are
paired with records by columns that were kept and identify a record. Standard library only.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from jaxpriv.errors import InputError, IntegrityError
from jaxpriv.verifier.archive import array, digest, unpack
from jaxpriv.verifier.records import ORDER, member_record


def read_order(data: bytes, name: str, released: bytes, rows: int) -> list[int]:
    """The record of each of the `rows` of a released file; `IntegrityError` if damaged, or of another released file."""
    members = unpack(data, name)
    record = member_record(members, "order.json", name, ORDER)
    if list(members) != ["order.json", "order.npy"] or record["members"] != {"order.npy": digest(members["order.npy"])}:
        raise IntegrityError(f"{name}: order.npy is missing, or is not the one that order.json names")
    if record["released"] != digest(released):
        raise IntegrityError(f"{name} is the order of another released file")
    order = list(array(members["order.npy"], f"{name}: order.npy", "<i8", 1).numbers)
    if sorted(order) != list(range(rows)):
        raise IntegrityError(f"{name}: order.npy does not hold each record once")
    return order


def rows_by_identity(
    unreleased: Mapping[str, Sequence[str]], written: Mapping[str, Sequence[str]], identity: Sequence[str], name: str
) -> list[int]:
    """The released row of each record, by columns that identify it; of equal ones in any order.

    `unreleased` and `written` are the kept columns of the file `name` and of the records, which hold the same rows.

    Raises `InputError` for a column that was not kept.
    """
    for column in identity:
        if column not in unreleased:
            raise InputError(f"{name}: column {column!r} was not kept, so it pairs no rows with records")
    rows = defaultdict(list)
    for row, key in enumerate(zip(*(unreleased[column] for column in identity), strict=True)):
        rows[key].append(row)
    return [rows[key].pop() for key in zip(*(written[column] for column in identity), strict=True)]


def first_of_each(
    columns: Sequence[Sequence[str]],
    symbols: Sequence[tuple[int, ...]],
    outputs: Sequence[tuple[int, ...]],
    names: tuple[str, str],
) -> list[int]:
    """The first record of each identity: records with one identity in a ledger share a draw, which counts once.

    Args:
        columns: what identifies a record.
        symbols, outputs: x and y of every record, of each group of columns.
        names: those of the files of the records and of the release.

    Raises `InputError` for records with one identity that are not alike, `IntegrityError` for two draws for one.
    """
    first: dict[tuple[str, ...], int] = {}
    for record, key in enumerate(zip(*columns, strict=True)):
        before = first.setdefault(key, record)
        both = f"rows {before} and {record} (from 0) have one identity"
        if symbols[before] != symbols[record]:
            raise InputError(f"{names[0]}: {both} and other useful classes: the columns of --id identify no record")
        if outputs[before] != outputs[record]:
            raise IntegrityError(f"{names[1]}: {both} in {names[0]} and two draws, which reveal more than one")
    return list(first.values())
