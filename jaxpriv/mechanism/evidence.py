"""The private part: the counts that a mechanism was designed on, those kept for its audit, and its certificate."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from jaxpriv._files import write_together
from jaxpriv._repr import summary
from jaxpriv.mechanism.mechanism import Mechanism, array_bytes
from jaxpriv.verifier import archive
from jaxpriv.verifier.archive import Json, Table, array, read_file
from jaxpriv.verifier.claims import Claim
from jaxpriv.verifier.designs import AUDIT, Audit, claims_of, commitment, read_audit, read_design


@dataclass(frozen=True, eq=False)
class Evidence:
    """What proves the numbers of a mechanism. It holds counts of people: files of it are for their owner only.

    Attributes:
        private: (S, a) int64, the codes of the private columns for each s.
        counts: (S, X) int64, the records that the mechanism was designed on.
        held_out: (S, X) int64, records that it does not depend on; None without a split.
        scores, weights, multipliers: the duals of the `Solution`, as it has them; None without a certificate.
        key: of the commitment in the mechanism, 64 hexadecimal digits.
    """

    private: np.ndarray
    counts: np.ndarray
    held_out: np.ndarray | None
    scores: np.ndarray | None
    weights: np.ndarray | None
    multipliers: np.ndarray | None
    key: str

    __repr__ = summary

    def _members(self) -> dict[str, bytes]:
        arrays = {"private.npy": self.private, "counts.npy": self.counts, "held_out.npy": self.held_out}
        arrays |= {"scores.npy": self.scores, "weights.npy": self.weights, "multipliers.npy": self.multipliers}
        return {name: array_bytes(values) for name, values in arrays.items() if values is not None}

    def commitment(self) -> str:
        """The keyed hash by which a mechanism names this evidence."""
        return commitment(self.key, _hashes(self._members()))

    def to_bytes(self, mechanism: Mechanism) -> bytes:
        """The file; `mechanism` is the one whose `commitment` names this evidence."""
        from jaxpriv import __version__

        members = self._members()
        claims = self.claims(mechanism)
        record: dict[str, Json] = {
            "format": AUDIT,
            "version": 1,
            "tool": f"jaxpriv {__version__}",
            "design": mechanism.sha256,
            "key": self.key,
            "claims": {name: claim.record for name, claim in claims.items()},
            "members": _hashes(members),
        }
        return archive.pack({"audit.json": archive.sealed(record), **members})

    def claims(self, mechanism: Mechanism) -> dict[str, Claim]:
        """The numbers of the mechanism on `counts`: see `jaxpriv.verifier.designs.claims_of`."""
        members = self._members()
        duals: dict[str, Table] = {
            name: array(members[name], name, "<f8", rank)
            for name, rank in (("scores.npy", 3), ("weights.npy", 2), ("multipliers.npy", 1))
            if name in members
        }
        counts = array(members["counts.npy"], "counts", "<i8", 2)
        return claims_of(read_design(mechanism.to_bytes(), "the mechanism"), counts, duals, "counts")

    def save(self, path: str | os.PathLike[str], mechanism: Mechanism) -> None:
        """Write the file, whole or not at all; a new one can be read by its owner only."""
        write_together({path: self.to_bytes(mechanism)}, private=[path])

    @classmethod
    def load(cls, path: str | os.PathLike[str], mechanism: Mechanism) -> "Evidence":
        """The evidence of a file that `save` wrote for this mechanism, everything in it computed again.

        Raises `InputError` if the file is absent, `IntegrityError` if it is damaged, altered or of another mechanism.
        """
        design = read_design(mechanism.to_bytes(), "the mechanism")
        audit = read_audit(read_file(path), design, str(path))
        return cls._of(audit)

    @classmethod
    def _of(cls, audit: Audit) -> "Evidence":
        def values(table: Table | None, kind: type) -> np.ndarray | None:
            return None if table is None else np.array(table.numbers, dtype=kind).reshape(table.shape)

        def dual(name: str) -> np.ndarray | None:
            return values(audit.duals.get(f"{name}.npy"), float)

        return cls(
            private=np.array(audit.private, dtype=np.int64),
            counts=np.array(audit.counts.numbers, dtype=np.int64).reshape(audit.counts.shape),
            held_out=values(audit.held_out, np.int64),
            scores=dual("scores"),
            weights=dual("weights"),
            multipliers=dual("multipliers"),
            key=audit.record["key"],
        )


def _hashes(members: Mapping[str, bytes]) -> dict[str, Json]:
    return {name: archive.digest(content) for name, content in members.items()}
