"""A small table of people, a mechanism for it with every kind of target, and its files, forged and damaged."""

import csv
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jaxpriv.release import Evidence, Fitted, Mechanism, fit, release
from jaxpriv.statistics.tables import Quantiles
from jaxpriv.verifier import Findings, verify

COLUMNS = {"private": "income", "useful": ["age", "town"], "rules": {"age": Quantiles(3)}}
TARGETS = {
    "budget": {"budget": 0.15},
    "leakage-budget": {"leakage_budget": 0.005},
    "disclosure": {"disclosure": 0.8},
    "watchdog": {"target_leakage": 0.3},
}


def write(path: Path, columns: Mapping[str, Iterable]) -> Path:
    """A CSV file of these columns."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def people(records: int = 1200, seed: int = 3) -> dict[str, np.ndarray]:
    """Records in which income depends on age and town."""
    rng = np.random.default_rng(seed)
    age, town = rng.integers(18, 80, records), rng.choice(["north", "south", "=west"], records)
    rich = rng.random(records) < 0.15 + 0.4 * (age > 50) + 0.1 * (town == "north")
    return {"age": age, "town": town.astype(object), "income": np.where(rich, "high", "low").astype(object)}


def saved(fitted: Fitted, folder: Path) -> tuple[Path, Path]:
    """The files of a design and of its audit."""
    design, audit = folder / "design.zip", folder / "audit.zip"
    fitted.mechanism.save(design)
    fitted.evidence.save(audit, fitted.mechanism)
    return design, audit


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def npy(values: np.ndarray) -> bytes:
    """The bytes of an array in a file."""
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    """The members of a file, as every reader of zip archives has them."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(members: Mapping[str, bytes]) -> bytes:
    """The one file that has these members in this order."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name)
            entry.create_system = 0  # on every system the same bytes
            file.writestr(entry, content)
            entry.external_attr = 0
    return stream.getvalue()


def sealed(record: dict[str, object]) -> bytes:
    """The one text of a record, with its hash."""

    def text(record: dict[str, object]) -> bytes:
        return (json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n").encode()

    return text({**record, "sha256": digest(text(record))})


def order_file(place: np.ndarray, released: bytes) -> bytes:
    """The file that says of which record each row is."""
    order = npy(place.astype(np.int64))
    record = {"format": "jaxpriv-order", "version": 1, "tool": "jaxpriv 0.3", "released": digest(released)}
    return packed({"order.json": sealed({**record, "members": {"order.npy": digest(order)}}), "order.npy": order})


def csv_text(rows: Iterable[Iterable[str]]) -> str:
    """The one form of a released file: quotes where they are needed, and line feeds."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def resealed(data: bytes, change: Callable[[dict], object] = dict, **arrays: bytes) -> bytes:
    """A file as somebody would forge it: another record, other arrays, and hashes, seals and sizes that are right."""
    members = unpacked(data) if data[:2] == b"PK" else {".json": data}
    members |= {f"{name}.npy": content for name, content in arrays.items()}
    own = next(name for name in members if name.endswith(".json"))
    content, _, draws = members.pop(own).partition(b"\n")  # a ledger has its draws behind the record
    record = json.loads(content)
    del record["sha256"]
    change(record)
    if arrays:
        record["members"] = {name: digest(content) for name, content in members.items()}
    content = sealed(record) + draws
    return packed({own: content, **members}) if members else content


def forge(out: Path, receipt: Path, data: bytes, **fields: object) -> None:
    """A file in place of the released one, with a receipt that is about it."""

    def change(record: dict) -> None:
        record["released"] |= {"sha256": digest(data), "bytes": len(data)}
        record.update(fields)

    out.write_bytes(data)
    receipt.write_bytes(resealed(receipt.read_bytes(), change))


def shown(label: object) -> str:
    """A label of `people` as it stands in a released file: no spreadsheet computes it."""
    text = str(label)
    return f"'{text}" if text.startswith("=") else text


class Released:
    """A table, its design and audit, and one release of it as files."""

    def __init__(self, path: Path, table: Mapping[str, Iterable], fitted: Fitted, **options: object) -> None:
        self.mechanism = fitted.mechanism
        self.design, self.audit = saved(fitted, path)
        self.records = write(path / "records.csv", table)
        self.out, self.receipt = path / "out.csv", path / "receipt.json"
        self.done = release(self.records, self.mechanism, self.out, self.receipt, **options)
        self.order = self.done.order_file

    @property
    def rows(self) -> list[list[str]]:
        with self.out.open(newline="", encoding="utf-8") as file:
            return list(csv.reader(file))

    def forge(self, data: bytes, **fields: object) -> None:
        """Another file in place of the released one, with a receipt that is about it."""
        forge(self.out, self.receipt, data, **fields)

    def verify(self, **more: object) -> Findings:
        return verify(self.receipt, design=self.design, released=self.out, **more)


def flipped(data: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """The data with one bit that is another one."""
    for place in np.random.default_rng(seed).integers(0, 8 * len(data), count):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << (place % 8)
        yield bytes(changed)


@pytest.fixture(scope="session")
def table() -> dict[str, np.ndarray]:
    return people()


@pytest.fixture(scope="session")
def every(table) -> dict[str, Fitted]:
    return {name: fit(table, **COLUMNS, **target) for name, target in TARGETS.items()}


@pytest.fixture(scope="session")
def fitted(every) -> Fitted:
    return every["budget"]


@pytest.fixture(scope="session")
def excluding(table) -> tuple[Mechanism, Evidence]:
    """The identity under LDP, where an output excludes a private class: nothing is known of how far it is from best."""
    found = fit(table, **COLUMNS, budget=0.15, leakage="ldp", split=1.0)
    counts = found.evidence.counts.copy()
    counts[0], counts[0, 0] = 0, 9
    evidence = replace(found.evidence, counts=counts)
    identity = np.eye(len(found.mechanism.table), dtype=np.uint64) << np.uint64(62)
    return replace(found.mechanism, table=identity, commitment=evidence.commitment()), evidence
