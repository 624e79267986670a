"""What was released for whom: a second release of a record gives what the first one gave, not a second draw.

Fresh randomness at every release lets a reader average it away: two independent draws leak up to twice as much. A
ledger holds for every released record a keyed hash of who it is, one of what it was and by which design, and the
symbol that was drawn. Without the key, which is in the file too, nothing can be looked up by guessing; the file is for
its owner only.
"""

import contextlib
import fcntl
import hmac
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from jaxpriv.errors import InputError, IntegrityError, ResourceError
from jaxpriv.estimation.tables.border import row_text
from jaxpriv.mechanism.mechanism import read_file
from jaxpriv.verifier import archive

_FORMAT = "jaxpriv-ledger"
_WHO, _WHAT = 16, 8  # bytes kept of each hash: by chance two of 2^40 records share one with probability 2^-49
_ENTRY = struct.Struct(f"<{_WHO}s{_WHAT}sI")


@dataclass
class Ledger:
    """`entries`: hash of who -> (hash of what, symbol)."""

    key: bytes
    entries: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)

    def recorded(self, who: Sequence[bytes], what: Sequence[bytes]) -> np.ndarray:
        """The symbol of each record that was released before, int64 (n,); -1 for the others.

        Raises `InputError` for a record that was released before with other values or by another design.
        """
        found = np.full(len(who), -1, dtype=np.int64)
        changed = []
        for row, (one, content) in enumerate(zip(who, what, strict=True)):
            entry = self.entries.get(self._hash(one, _WHO))
            if entry is not None:
                found[row] = entry[1]
                if entry[0] != self._hash(one + b"\0" + content, _WHAT):
                    changed.append(row)
        if changed:
            raise InputError(
                f"--ledger: {row_text(changed[0])} was released before with other values or by another design "
                f"({len(changed)} such rows): another draw would tell more about the same record; leave it out"
            )
        return found

    def add(self, who: Sequence[bytes], what: Sequence[bytes], symbols: np.ndarray) -> None:
        """Record what is about to be released."""
        for one, content, symbol in zip(who, what, symbols.tolist(), strict=True):
            self.entries[self._hash(one, _WHO)] = (self._hash(one + b"\0" + content, _WHAT), symbol)

    def to_bytes(self) -> bytes:
        """The file, in the order of the hashes."""
        payload = b"".join(_ENTRY.pack(who, *entry) for who, entry in sorted(self.entries.items()))
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
        if archive.digest(payload) != record["payload"] or len(payload) != record["entries"] * _ENTRY.size:
            raise IntegrityError(f"{path} is damaged: its entries are not those that it states")
        entries = {who: (what, symbol) for who, what, symbol in _ENTRY.iter_unpack(payload)}
        return cls(bytes.fromhex(record["key"]), entries)

    def _hash(self, content: bytes, size: int) -> bytes:
        return hmac.digest(self.key, content, "sha256")[:size]


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
