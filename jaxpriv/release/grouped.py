"""Mechanisms of several groups of columns as one public file that releases all columns, and their evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from jaxpriv._runtime.files import FilePath, atomic_write, write_together
from jaxpriv._runtime.module import Shown, summary
from jaxpriv._runtime.validation import instance
from jaxpriv.errors import IntegrityError
from jaxpriv.release.joint_leakage import joint_leakage
from jaxpriv.release.mechanism import Evidence, Mechanism, guaranteed, hashes, members_of, packed, values_of
from jaxpriv.statistics.tables import Codebook
from jaxpriv.verifier import archive
from jaxpriv.verifier.archive import Json, read_file
from jaxpriv.verifier.claims import Claim
from jaxpriv.verifier.designs import (
    GroupsFile,
    commitment,
    group_names,
    holds_groups,
    of_groups,
    read_groups,
    read_groups_audit,
)
from jaxpriv.verifier.records import GROUPS, GROUPS_AUDIT


@dataclass(frozen=True, eq=False)
class GroupedMechanism(Shown):
    """Mechanisms W_g of disjoint groups of columns: P(y_1, ..., y_k | x) = prod_g W_g(y_g | x_g).

    Attributes:
        parts: the mechanism of each group, with the same private columns and rule for unseen combinations.
        commitment: keyed hash of the records that all groups were designed on (`GroupedEvidence`).
    """

    parts: tuple[Mechanism, ...]
    commitment: str

    __repr__ = summary

    def _shown(self) -> dict[str, str]:
        groups = {f"group {place}": ", ".join(part.codebook.useful) for place, part in enumerate(self.parts, 1)}
        return {**groups, "unseen": self.unseen, **guaranteed(self.guarantees)}

    @property
    def unseen(self) -> str:
        """What a combination of classes of a group without a symbol comes to."""
        return self.parts[0].unseen

    @property
    def released_columns(self) -> tuple[str, ...]:
        """The columns of all groups, in their order."""
        return tuple(name for part in self.parts for name in part.released_columns)

    @property
    def codebook(self) -> Codebook:
        """The classes of the columns of all groups."""
        return side_by_side([part.codebook for part in self.parts])

    @property
    def guarantees(self) -> dict[str, Claim]:
        """What holds for every population of all columns together: the sums of the groups' guarantees, at most."""
        return of_groups([part.guarantees for part in self.parts])

    def apply(self, frame: Any, unseen: str | None = None) -> Any:
        """The released columns of all groups side by side: `Mechanism.apply` of each mechanism, all or nothing."""
        parts = [part.apply(frame, unseen) for part in self.parts]
        if isinstance(frame, Mapping):
            return {name: values for part in parts for name, values in part.items()}
        import narwhals as nw  # an extra, and there: the frame was read with it

        return nw.concat([nw.from_native(part, eager_only=True) for part in parts], how="horizontal").to_native()

    def to_bytes(self) -> bytes:
        """The file: a record and the files of the mechanisms; equal mechanisms give equal bytes."""
        members = dict(zip(group_names(len(self.parts)), (part.to_bytes() for part in self.parts), strict=True))
        guarantees = {name: claim.record for name, claim in self.guarantees.items()}
        record: dict[str, Json] = {
            "tool": self.parts[0].tool,
            "guarantees": guarantees,
            "commitment": self.commitment,
        }
        return packed("groups.json", GROUPS, record, members)

    def save(self, path: FilePath) -> None:
        """Write the file, whole or not at all."""
        atomic_write(path, self.to_bytes())

    @classmethod
    def load(cls, path: FilePath) -> "GroupedMechanism":
        """The mechanisms of a file that `save` wrote, everything in it computed again. Errors as `Mechanism.load`."""
        return cls.from_bytes(read_file(path), str(path))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "the design") -> "GroupedMechanism":
        """The inverse of `to_bytes`; `IntegrityError` naming the file `name`."""
        stated = read_groups(data, name)
        members = zip(group_names(len(stated.parts)), stated.parts, strict=True)
        parts = tuple(Mechanism.of_file(part, f"{name}: {member}") for member, part in members)
        return cls(parts, stated.record["commitment"])

    def verify(self) -> GroupsFile:
        """Everything that the file states, computed again with whole numbers."""
        return read_groups(self.to_bytes(), "the mechanism")

    @cached_property
    def sha256(self) -> str:
        """Of the file."""
        return archive.digest(self.to_bytes())


def side_by_side(books: Sequence[Codebook]) -> Codebook:
    """The classes of the useful columns of several codebooks with the same private columns."""
    rules = dict(books[0].rules)
    for book in books:  # a private column may withhold its values where it is not useful
        rules |= {name: book.rules[name] for name in book.useful}
    return replace(books[0], useful=tuple(name for book in books for name in book.useful), rules=rules)


def load_mechanism(path: FilePath) -> Mechanism | GroupedMechanism:
    """The design of a file, of one mechanism or of several groups. Errors as `Mechanism.load`."""
    data, name = read_file(path), str(path)
    return (GroupedMechanism if holds_groups(data, name) else Mechanism).from_bytes(data, name)


@dataclass(frozen=True, eq=False)
class GroupedEvidence:
    """What proves the numbers of the mechanisms of several groups. It holds counts of people: for their owner only.

    Attributes:
        parts: the evidence of each group.
        records: (r, k + 3) int64, the different records: s, x_1, ..., x_k, how many are of the design and held out.
        key: of the commitment in the mechanism, 64 hexadecimal digits.
    """

    parts: tuple[Evidence, ...]
    records: np.ndarray
    key: str = field(repr=False)

    __repr__ = summary

    def commitment(self) -> str:
        """The keyed hash by which a mechanism names these records."""
        return commitment(self.key, hashes(members_of(records=self.records)), [])

    def leakage(self, mechanism: GroupedMechanism, *, held_out: bool = False) -> tuple[Claim, bool]:
        """I(S; Y_1, ..., Y_k) on the records of the design, or on those `held_out`: `joint_leakage`."""
        counts = self.records[:, -1 if held_out else -2]
        some = counts > 0
        s, symbols = self.records[some, 0], self.records[some, 1:-2]
        return joint_leakage(s, symbols, counts[some], [part.table for part in mechanism.parts])

    def to_bytes(self, mechanism: GroupedMechanism) -> bytes:
        """The file; `mechanism` is the one whose `commitment` names these records."""
        files = (part_evidence.to_bytes(part) for part_evidence, part in zip(self.parts, mechanism.parts, strict=True))
        members = dict(zip(group_names(len(self.parts)), files, strict=True)) | members_of(records=self.records)
        return packed("audit.json", GROUPS_AUDIT, {"design": mechanism.sha256, "key": self.key}, members)

    def save(self, path: FilePath, mechanism: GroupedMechanism) -> None:
        """Write the file, whole or not at all; a new one can be read by its owner only."""
        write_together({path: self.to_bytes(mechanism)}, private=[path])

    @classmethod
    def load(cls, path: FilePath, mechanism: GroupedMechanism) -> "GroupedEvidence":
        """The evidence of a file that `save` wrote for this mechanism. Errors as `Evidence.load`."""
        audit = read_groups_audit(read_file(path), mechanism.verify(), str(path))
        parts = tuple(Evidence.of_file(part) for part in audit.parts)
        return cls(parts, values_of(audit.records, np.int64), audit.record["key"])


def check_evidence(evidence: Evidence | GroupedEvidence, mechanism: Mechanism | GroupedMechanism) -> None:
    """`IntegrityError` unless the evidence is that of the mechanism, `InputError` for what is none."""
    instance(evidence, "evidence", Evidence, GroupedEvidence, hint="; fit(...).evidence is one")
    if evidence.commitment() != mechanism.commitment:
        raise IntegrityError("evidence: it is that of another mechanism")


def load_evidence(path: FilePath, mechanism: Mechanism | GroupedMechanism) -> Evidence | GroupedEvidence:
    """The evidence of a file for the mechanism of `load_mechanism`. Errors as `Evidence.load`."""
    if isinstance(mechanism, GroupedMechanism):
        return GroupedEvidence.load(path, mechanism)
    return Evidence.load(path, mechanism)
