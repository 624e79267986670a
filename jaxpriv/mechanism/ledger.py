"""What was released for whom: a second release of a record gives what the first one gave, not a second draw.

Fresh randomness at every release lets a reader average it away: two independent draws leak up to twice as much. A
ledger holds for every released record a keyed hash of who it is, one of what it was and by which design, and the
symbol that was drawn. Without the key, which is in the file too, nothing can be looked up by guessing; the file is for
its owner only.
"""

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np

from jaxpriv.errors import InputError, IntegrityError, ResourceError
from jaxpriv.estimation.tables.border import row_text
from jaxpriv.verifier import archive
from jaxpriv.verifier.archive import read_file

_FORMAT = "jaxpriv-ledger"
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
                f"({len(changed)} such rows): another draw would tell more about the same record; leave it out"
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
        header = {"format": _FORMAT, "version": 1, "key": self.key.hex(), "entries": len(self.entries)}
        return archive.sealed({**header, "payload": archive.digest(payload)}) + payload

    @classmethod
    def load(cls, path: Path) -> "Ledger":
        """The ledger of a file, or a new one with a key of its own; `IntegrityError` if the file is damaged."""
        if not path.exists():
            return cls(os.urandom(32))
        data = read_file(path)
        line, newline, payload = data.partition(b"\n")
        record = archive.unsealed(line + newline, str(path), _FORMAT, ("key", "entries", "payload"))
        if archive.digest(payload) != record["payload"] or len(payload) != record["entries"] * _ENTRIES.itemsize:
            raise IntegrityError(f"{path} is damaged: its entries are not those that it states")
        layout = struct.Struct(f"<{_WHO}s{_WHAT}sI")
        entries = {who: (what, symbol) for who, what, symbol in layout.iter_unpack(payload)}
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
