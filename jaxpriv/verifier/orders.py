"""Which record each row of a released file is of.

Rows are released in a random order. The owner has the order in a file: an archive of `order.json`, which names the
released file by its hash, and `order.npy`, (n,) whole numbers, the record of each row. Without that file rows are
paired with records by a column that was kept, if it has another value in every row. Standard library only.
"""

from jaxpriv.errors import InputError, IntegrityError, JaxprivError
from jaxpriv.verifier.archive import array, digest, unpack, unsealed
from jaxpriv.verifier.releases import escaped, records_of

ORDER = "jaxpriv-order"


def read_order(data: bytes, name: str, released: bytes, rows: int) -> list[int]:
    """The record of each of the `rows` of a released file; `IntegrityError` if damaged, or of another released file."""
    members = unpack(data, name)
    record = unsealed(members.get("order.json", b""), f"{name}: order.json", ORDER, ("tool", "released", "members"))
    if list(members) != ["order.json", "order.npy"] or record["members"] != {"order.npy": digest(members["order.npy"])}:
        raise IntegrityError(f"{name}: order.npy is missing, or is not the one that order.json names")
    if record["released"] != digest(released):
        raise IntegrityError(f"{name} is the order of another released file")
    order = list(array(members["order.npy"], f"{name}: order.npy", "<i8", 1).numbers)
    if sorted(order) != list(range(rows)):
        raise IntegrityError(f"{name}: order.npy does not hold each record once")
    return order


def order_by_column(released: bytes, name: str, records: bytes, records_name: str, column: str) -> list[int]:
    """The record of each released row by a column of both tables, which has another value in every row.

    Raises `InputError` if the records have no such column, `IntegrityError` if the released file has other values in
    it than the records.
    """
    own = _column(records, records_name, column, InputError)
    place = {escaped(value): row for row, value in enumerate(own)}
    if len(place) < len(own):
        raise InputError(f"{records_name}: column {column!r} has a value twice: it does not identify a record")
    order = [place.get(value, -1) for value in _column(released, name, column, IntegrityError)]
    if sorted(order) != list(range(len(own))):
        raise IntegrityError(f"{name}: column {column!r} does not hold the value of each record once")
    return order


def _column(data: bytes, name: str, column: str, error: type[JaxprivError]) -> list[str]:
    rows = records_of(data, name, error)
    header = next(rows)
    heading = column if error is InputError else escaped(column)
    if header.count(heading) != 1:
        raise InputError(f"{name} does not have exactly one column {column!r}, by which rows are paired")
    place = header.index(heading)
    return [fields[place] for fields in rows]
