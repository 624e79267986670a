"""What was released for whom: a second release of a record gives what the first one gave, not a second draw.

Fresh randomness at every release lets a reader average it away: two independent draws may leak more than twice as
much as one. A ledger holds for every released record a keyed hash of who it is, one of what it was and by which
design, and the symbol that was drawn. A record has one draw by a design, and draws by several designs only where
every release states the designs before it. Without the key, which is in the file too, nothing can be looked up by
guessing; the file is for its owner only.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b, shake_256
from pathlib import Path

import numpy as np
from numpy.lib.recfunctions import repack_fields

from jaxpriv.errors import InputError, IntegrityError, ResourceError
from jaxpriv.release import table as tables
from jaxpriv.statistics.tables.readers import row_text
from jaxpriv.verifier import archive
from jaxpriv.verifier.archive import read_file
from jaxpriv.verifier.records import LEDGER, VERSIONS, unsealed

try:
    import fcntl
except ImportError:  # Windows: `locked` creates its lock file exclusively there
    fcntl = None


_WHO, _WHAT = 16, 8  # bytes kept of each hash: by chance two of 2^40 records share one with probability 2^-49
# Texts of fixed length: NumPy sorts and searches them as bytes.
_ENTRIES = np.dtype([("who", f"S{_WHO}"), ("what", f"S{_WHAT}"), ("symbol", "<u4")])


# The newest versions of ledgers that do not record the rule for records without a symbol, and the designs.
RULES, DESIGNS = 2, 3


@dataclass
class Ledger:
    """The draws that were made so far, so that no record is drawn for a second time.

    `entries`: hash of who, hash of what, symbol; in the order of the first two, no two of which are equal.

    `version` is 1 if the ledger began in a file of version 1: rows have other hashes there, see `keyed_rows`. In files
    of version 1 and 2 that were written before version 3 no two hashes of who are equal. `unseen`: for the digest of a
    design the rule by which it released records without a symbol, `refuse` where it was more than one. `designs`: the
    digests of those that released with it since version 4.
    """

    key: bytes = field(repr=False)
    entries: np.ndarray = field(default_factory=lambda: np.zeros(0, _ENTRIES))
    version: int = VERSIONS[LEDGER]
    unseen: dict[str, str] = field(default_factory=dict)
    designs: set[str] = field(default_factory=set)

    def keyed(self, who: Sequence[bytes], what: Sequence[bytes]) -> np.ndarray:
        """Entries without symbols: the keyed hashes of who each record is, and of what it was and by which design."""
        hashes = [blake2b(name, key=self.key, digest_size=_WHO).digest() for name in who]
        both = [
            blake2b(name + content, key=self.key, digest_size=_WHAT).digest()
            for name, content in zip(hashes, what, strict=True)
        ]
        return _hashed(b"".join(hashes), b"".join(both))

    def keyed_rows(self, table: bytes, design: bytes, count: int) -> np.ndarray:
        """The same of the `count` rows of a table, by hashes of the whole table and of the design.

        Version 1 has `keyed` of "DIGEST ROW", with the digest of the table in hexadecimal.
        """
        seeds = [
            blake2b(content, key=self.key, person=b"rows of a table").digest() for content in (table, table + design)
        ]
        return _hashed(shake_256(seeds[0]).digest(_WHO * count), shake_256(seeds[1]).digest(_WHAT * count))

    def recorded(self, asked: np.ndarray, others: Sequence[np.ndarray] = ()) -> np.ndarray:
        """The symbol of each record that was released before, int64 (n,); -1 for the others. Hashes as `keyed` gives.

        `others` are the same records by the earlier designs that the release states. Raises `InputError` for a record
        without a draw by this design that was released with other values or by a design that is none of these.
        """
        symbols = np.full(len(asked), -1, dtype=np.int64)
        if not len(self.entries):
            return symbols
        order = np.argsort(asked["who"], kind="stable")  # so that the searches go through the ledger once
        who = np.ascontiguousarray(self.entries["who"])
        unstated = np.zeros(len(asked), dtype=np.int64)
        first, last = (np.searchsorted(who, asked["who"][order], side) for side in ("left", "right"))
        unstated[order] = last - first
        keys = _keys(self.entries)
        for place, some in enumerate((asked, *others)):
            wanted = _keys(some)[order]
            at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            present = keys[at] == wanted
            unstated[order[present]] -= 1
            if not place:
                symbols[order[present]] = self.entries["symbol"][at[present]]
        changed = np.flatnonzero((unstated > 0) & (symbols < 0))
        if changed.size:
            raise InputError(
                f"ledger: {row_text(changed[0])} was released before with other values or by another design "
                f"(such rows: {changed.size}): another draw would disclose more about the same record; leave it out, "
                "or state the earlier design as `after` and as `limit` what both releases may disclose together (what "
                "they disclose: `jaxpriv audit --again`)"
            )
        return symbols

    def add(self, released: np.ndarray, symbols: np.ndarray) -> None:
        """Record what is about to be released; the last entry of a record by a design counts."""
        released["symbol"] = symbols
        entries = np.concatenate([self.entries, released])
        keys = _keys(entries)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        self.entries = entries[order[np.append(keys[1:] != keys[:-1], True)[: len(keys)]]]

    def to_bytes(self) -> bytes:
        """The file."""
        payload = self.entries.tobytes()
        version = 1 if self.version == 1 else VERSIONS[LEDGER]
        header = {"format": LEDGER, "version": version, "key": self.key.hex(), "entries": len(self.entries)}
        if version > 1:
            header |= {"unseen": self.unseen, "designs": sorted(self.designs)}
        return archive.sealed({**header, "payload": archive.digest(payload)}) + payload

    @classmethod
    def load(cls, path: Path) -> "Ledger":
        """The ledger of a file, or a new one with a key of its own; `IntegrityError` if the file is damaged."""
        if not path.exists():
            return cls(fresh_key())
        data = read_file(path)
        line, newline, payload = data.partition(b"\n")
        record = unsealed(line + newline, str(path), LEDGER)
        whole = archive.digest(payload) == record["payload"] and len(payload) == record["entries"] * _ENTRIES.itemsize
        entries = np.frombuffer(payload, _ENTRIES) if whole else np.zeros(0, _ENTRIES)
        keys = _keys(entries)
        if not whole or not (keys[1:] > keys[:-1]).all():
            raise IntegrityError(f"{path} is damaged: its entries are not those that it states")
        rules, designs = dict(record.get("unseen", {})), set(record.get("designs", ()))
        return cls(bytes.fromhex(record["key"]), entries, record["version"], rules, designs)


def _hashed(who: bytes, what: bytes) -> np.ndarray:
    entries = np.zeros(len(who) // _WHO, _ENTRIES)
    entries["who"], entries["what"] = np.frombuffer(who, f"S{_WHO}"), np.frombuffer(what, f"S{_WHAT}")
    return entries


def _keys(entries: np.ndarray) -> np.ndarray:
    """Who and what of each entry as one text."""
    return repack_fields(entries[["who", "what"]]).view(f"S{_WHO + _WHAT}")


def fresh_key() -> bytes:
    return tables.fresh(4).tobytes()  # 248 random bits in 32 bytes


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """No other release uses the file meanwhile; `ResourceError` if one does, or with `wait` after its end.

    Where the system has no `flock` the lock is the existence of its file: a process that is killed leaves it behind, so
    `wait` is without effect there.
    """
    name = path.with_name(path.name + ".lock")
    try:
        descriptor = _lock_file(name, wait)
    except (BlockingIOError, FileExistsError):
        left = "" if fcntl else f"; if none runs, one was killed: remove {name}"
        raise ResourceError(f"{path} is in use by another release; wait for its end{left}") from None
    except OSError as error:
        raise ResourceError(f"cannot write {name}: {error.strerror}") from error
    try:
        yield
    finally:
        if fcntl is None:  # Windows removes no file that is open
            os.close(descriptor)
        try:
            with contextlib.suppress(OSError):
                name.unlink()
        finally:
            if fcntl is not None:  # the lock ends after its name, so nobody else locks the file that is removed
                os.close(descriptor)


def _lock_file(name: Path, wait: bool) -> int:
    """The descriptor of the locked file `name`; `BlockingIOError` or `FileExistsError` if another process has it."""
    if fcntl is None:
        return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    while True:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(name)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the process that had the lock has removed the file meanwhile
