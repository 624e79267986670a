"""A mechanism as a public file that releases records (table, classes, alphabets, what was asked), and its evidence.

The evidence is private: the counts that the mechanism was designed on, those kept for its audit, and its certificate.
"""

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.files import FilePath, atomic_write, write_together
from jaxpriv._runtime.importing import renamed
from jaxpriv._runtime.module import Shown, summary
from jaxpriv._runtime.module.latex import mapping_table
from jaxpriv._runtime.module.shown import nearest, sizes
from jaxpriv._runtime.validation import instance
from jaxpriv.data.datasets._layout import distinct_rows, places_of
from jaxpriv.errors import InputError
from jaxpriv.leakage import forms_of
from jaxpriv.leakage.registry import reported_rows
from jaxpriv.release import table as tables
from jaxpriv.statistics.tables import Codebook, Source, rule_of, rule_record
from jaxpriv.statistics.tables.readers import row_text
from jaxpriv.verifier import archive
from jaxpriv.verifier.archive import Json, Table, array, read_file
from jaxpriv.verifier.claims import BITS, Claim, Matrix, Measure, without_counts
from jaxpriv.verifier.designs import (
    DUALS,
    EARLIER,
    PRICES,
    Audit,
    DesignFile,
    claims_of,
    commitment,
    read_audit,
    read_design,
)
from jaxpriv.verifier.records import AUDIT, DESIGN, UNSEEN, VERSIONS
from jaxpriv.verifier.sequences import by_coalition, joint_rows, rounded_rows

Labels: TypeAlias = tuple[tuple[str, ...], ...]


# How a mechanism for a table is made, where something else was given.
MADE_BY_FIT = "; fit(...).mechanism is one, and Mechanism.load reads one"


def guaranteed(claims: Mapping[str, Claim]) -> dict[str, str]:
    """What holds for every population, as lines."""
    return {f"{name}, any population": claim.end() for name, claim in claims.items()}


def combined(codes: np.ndarray, labels: Sequence[tuple[str, ...]], mark: str = ", ") -> list[str]:
    """The name of every combination of classes, codes (n, c) of the labels of each column."""
    return [mark.join(of_column[code] for of_column, code in zip(labels, row, strict=True)) for row in codes.tolist()]


def rule_for(of_design: str, unseen: str | None) -> str:
    """The rule for unseen combinations: that of a mechanism or, where it is given, another one."""
    if not (unseen is None or (isinstance(unseen, str) and unseen in UNSEEN)):
        raise InputError(f"unseen must be one of {', '.join(UNSEEN)}")
    return of_design if unseen is None else unseen


def this_version() -> str:
    """What files name as the tool that wrote them."""
    from jaxpriv import __version__

    return f"jaxpriv {__version__}"


def members_of(**arrays: np.ndarray | None) -> dict[str, bytes]:
    """The arrays that there are as members of a file, NAME.npy: version 1.0, little-endian, C order."""
    members = {}
    for name, values in arrays.items():
        if values is not None:
            stream = io.BytesIO()
            little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
            np.lib.format.write_array(stream, little, version=(1, 0), allow_pickle=False)
            members[f"{name}.npy"] = stream.getvalue()
    return members


def shares(rows: Matrix) -> np.ndarray:
    """Rows of whole numbers divided by their sums, float64, every entry correctly rounded."""
    return np.array([[entry / whole for entry in row] for row in rows for whole in [sum(row)]])


def values_of(table: Table | None, kind: type) -> Any:
    """A table of a file that was read, as an array."""
    return None if table is None else np.array(table.numbers, dtype=kind).reshape(table.shape)


def hashes(members: Mapping[str, bytes]) -> dict[str, Json]:
    """The SHA-256 of each member."""
    return {name: archive.digest(content) for name, content in members.items()}


def packed(
    name: str, kind: str, record: Mapping[str, Json], members: Mapping[str, bytes], *further: Mapping[str, bytes]
) -> bytes:
    """The file of a record and of members, whose hashes the record has (`further` ones it names itself)."""
    whole = {"format": kind, "version": 1, "tool": this_version(), "members": hashes(members), **record}
    return archive.pack({name: archive.sealed(whole), **members, **dict(*further)})


@dataclass(frozen=True)
class Asked:
    """What a mechanism was designed for.

    Attributes:
        problem: `budget` (least leakage at E d <= target), `leakage-budget` (least E d at leakage <= target),
            `disclosure` (least leakage at I(X;Y) >= target) or `watchdog` (lift leakage <= target).
        target: the number.
        leakage: the measure, as the arguments of `jaxpriv.leakage.by_name`.
    """

    problem: str
    target: float
    leakage: Mapping[str, str | float | None]

    @property
    def record(self) -> Json:
        measure: dict[str, Json] = {
            key: value if value is None or isinstance(value, str) else repr(float(value))
            for key, value in self.leakage.items()
        }
        return {"problem": self.problem, "target": repr(float(self.target)), "leakage": measure}

    @property
    def measure(self) -> Measure:
        """The measure as the verifier knows it."""
        return Measure(**dict[str, Any](self.leakage))

    @property
    def audited(self) -> list[str]:
        """What an audit bounds of a design: the measures of a report and its own, as NAME[:PARAMETER...]."""
        name = self.measure.certified_as
        stated = {key: value for key, value in self.leakage.items() if value is not None} | {"name": name}
        if stated.get("form") == forms_of(name)[0]:
            del stated["form"]
        return [":".join(map(str, row.values())) for row in (*reported_rows(), stated)]


@dataclass(frozen=True, eq=False)
class Mechanism(Shown):
    """W(y|x) = table / 2^62, with all that is needed to release records by it. It holds no count of a record.

    After an `earlier` mechanism with draws z it is W(y | x, z): `release.release` looks z up, `alone` is P(y|x).

    Attributes:
        table: T (X, Y) uint64, rows sum to 2^62. After an earlier mechanism (X Z, Y), row x Z + z for (x, z).
        codebook: the classes of the useful columns, and of the private ones what reveals no value
            (`Codebook.without_private_values`).
        useful: (X, b) int64, the codes of the useful columns for each x.
        released_columns, released_labels, released: names, labels and codes (Y, c) of what is released. With a
            distortion and for watchdogs these are the useful columns themselves.
        asked: what it was designed for.
        distortion: d (X, Y) float64, where it was designed with one.
        unseen: what a combination of classes without a symbol comes to: `refuse` (nothing is released), `suppress` (the
            release of a symbol drawn uniformly, independent of the record), `nearest` (the symbol that differs in the
            fewest columns, the first of several, of those that are not `absent`).
        commitment: keyed hash of the counts and the certificate, which are kept apart (`Evidence`).
        tool: the version of jaxpriv that designed it. Evidence, receipts and ledgers name the file by its hash, so a
            design of an earlier version keeps its bytes.
        earlier: the mechanism that released the same records before, and whose draws this one looks at.
        absent: the useful symbols that no record of the design has, only records held out, rising; after an earlier
            mechanism those of that one. `nearest` passes over them: what is released depends on no record held out.
    """

    table: np.ndarray
    codebook: Codebook
    useful: np.ndarray
    released_columns: tuple[str, ...]
    released_labels: Labels
    released: np.ndarray
    asked: Asked
    distortion: np.ndarray | None
    unseen: str
    commitment: str
    tool: str = field(default_factory=this_version)
    earlier: "Mechanism | None" = None
    absent: tuple[int, ...] = ()

    __repr__ = summary

    def _shown(self) -> dict[str, str]:
        return {
            "design": f"{self.asked.problem} {nearest(self.asked.target)}, {self.asked.leakage['name']}",
            "from": ", ".join(self.codebook.useful),
            "released": ", ".join(self.released_columns),
            "symbols": sizes(X=len(self.useful), Y=self.table.shape[1]),
            "unseen": self.unseen,
            **guaranteed(self.guarantees),
        }

    # -- files ---------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The file; equal mechanisms give equal bytes."""
        arrays = {name: getattr(self, name) for name in ("table", "useful", "released", "distortion")}
        entries = zip(self.released_columns, self.released_labels, strict=True)
        record: dict[str, Json] = {
            "tool": self.tool,
            "asked": self.asked.record,
            "codebook": _codebook_record(self.codebook),
            "released": [{"column": name, "labels": list(labels)} for name, labels in entries],
            "unseen": self.unseen,
            "guarantees": {name: claim.record for name, claim in self.guarantees.items()},
            "commitment": self.commitment,
        }
        before = {} if self.earlier is None else {EARLIER: self.earlier.to_bytes()}
        if before or self.absent:
            follows = archive.digest(before[EARLIER]) if before else None
            record |= {"version": VERSIONS[DESIGN], "follows": follows, "absent": list(self.absent)}
        return packed("design.json", DESIGN, record, members_of(**arrays), before)

    def save(self, path: FilePath) -> None:
        """Write the file, whole or not at all."""
        atomic_write(path, self.to_bytes())

    @classmethod
    def load(cls, path: FilePath) -> "Mechanism":
        """The mechanism of a file that `save` wrote.

        Everything that the file states is computed again and compared (`jaxpriv.verifier`). Raises `InputError` if the
        file is absent or holds the designs of several groups (`GroupedMechanism`), `IntegrityError` if it is damaged,
        altered or of another kind, `ResourceError` if it cannot be read.
        """
        return cls.from_bytes(read_file(path), str(path))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "the design") -> "Mechanism":
        """The inverse of `to_bytes`; `IntegrityError` naming the file `name`."""
        return cls.of_file(read_design(data, name), name)

    @classmethod
    def of_file(cls, design: DesignFile, name: str) -> "Mechanism":
        """What a file `name` that was checked holds."""
        released = design.record["released"]
        mechanism = cls(
            table=np.array([list(row) for row in design.rows], dtype=np.uint64),
            codebook=_codebook(design.record["codebook"], name),
            useful=np.array(design.useful, dtype=np.int64),
            released_columns=tuple(entry["column"] for entry in released),
            released_labels=tuple(tuple(entry["labels"]) for entry in released),
            released=np.array(design.released, dtype=np.int64),
            asked=Asked(design.problem, design.target, vars(design.measure)),
            distortion=values_of(design.costs, float),
            unseen=design.record["unseen"],
            commitment=design.record["commitment"],
            tool=design.record["tool"],
            earlier=None if design.earlier is None else cls.of_file(design.earlier, name),
            absent=tuple(design.absent),
        )
        for values in (mechanism.table, mechanism.useful, mechanism.released, mechanism.distortion):
            if values is not None:
                values.setflags(write=False)
        return mechanism

    def verify(self) -> DesignFile:
        """Everything that the file states, computed again with whole numbers: see `jaxpriv.verifier.Design`."""
        return read_design(self.to_bytes(), "the mechanism")

    @property
    def sha256(self) -> str:
        """Of the file."""
        return archive.digest(self.to_bytes())

    @property
    def parts(self) -> "tuple[Mechanism, ...]":
        """This mechanism alone, as `GroupedMechanism.parts` has those of several groups of columns."""
        return (self,)

    @cached_property
    def guarantees(self) -> dict[str, Claim]:
        """What holds for every population: `maximal-leakage` and `ldp` of W, or of all draws of a chain together."""
        return without_counts(self.drawn)

    @cached_property
    def drawn(self) -> Matrix:
        """The draws of the earlier mechanisms and of this one, (X, Z Y) whole numbers, rows with a common sum."""
        rows = self.table.tolist()
        return rows if self.earlier is None else joint_rows(self.earlier.drawn, rows)

    @property
    def chain(self) -> "list[Mechanism]":
        """The mechanisms that it follows, the first one first, and itself."""
        return [*([] if self.earlier is None else self.earlier.chain), self]

    @cached_property
    def alone(self) -> "Mechanism":
        """The mechanism of this release alone, P(y|x): itself, unless it looks at earlier draws."""
        if self.earlier is None:
            return self
        rows = rounded_rows(by_coalition(self.drawn, len(self.released))["alone"])
        return replace(self, table=np.array(rows, dtype=np.uint64), earlier=None)

    def matrix(self) -> np.ndarray:
        """P(y|x) (X, Y), float64, every entry correctly rounded."""
        return np.ldexp(self.alone.table.astype(np.float64), -BITS)

    def all_drawn(self) -> np.ndarray:
        """P(z, y | x) (X, Z Y) of a chain, float64; without an earlier mechanism that of `matrix`."""
        return shares(self.drawn)

    def to_latex(self, digits: int = 3) -> str:
        """W as a `tabular` environment in the style of booktabs, a row and a column for each combination of classes.

        As `Solution.to_latex`, with the names of the classes.
        """
        inputs, outputs = combined(self.useful, self._labels), combined(self.released, self.released_labels)
        return mapping_table(self.matrix(), inputs, outputs, digits)

    # -- records -------------------------------------------------------------------------------------

    def symbols(self, source: Source, unseen: str | None = None) -> np.ndarray:
        """The row x of the table for every record, int64 (n,): `locate_codes` of the codes of its useful columns."""
        return self.locate_codes(self.codebook.encode_useful(source), unseen)

    def locate_codes(self, codes: np.ndarray, unseen: str | None = None) -> np.ndarray:
        """The row x for codes (n, b) of the useful columns; by the rule `unseen` (default: its own) where there is
        none.

        With `suppress` that is a row drawn uniformly, anew for every such record. Raises `InputError` with `refuse`,
        naming the first such row.
        """
        rule = rule_for(self.unseen, unseen)
        distinct, index, places = self._found(codes)
        if rule == "nearest":
            seen = np.delete(np.arange(len(self.useful)), self.absent)
            for unknown in np.flatnonzero(places < 0):
                places[unknown] = seen[(self.useful[seen] != distinct[unknown]).sum(axis=1).argmin()]
        symbols = places[index]
        missing = np.flatnonzero(symbols < 0)
        if missing.size and rule == "refuse":
            names = ", ".join(map(repr, self.codebook.useful))
            raise InputError(
                f"{row_text(missing[0])} combines the classes of {names} as no symbol of the mechanism does "
                f"(such rows: {missing.size}); choose unseen='suppress' or 'nearest'"
            )
        if missing.size:
            symbols[missing] = tables.uniform(len(self.useful), missing.size)
        return symbols

    def unknown(self, codes: np.ndarray) -> np.ndarray:
        """Which rows of codes (n, b) have no symbol, (n,) truth values."""
        _, index, places = self._found(codes)
        return (places < 0)[index]

    def _found(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(the different codes, the place of each row among them, their symbols or -1)."""
        classes, codes = [len(labels) for labels in self._labels], np.asarray(codes)
        named = codes.dtype.kind in "iu" and codes.ndim == 2 and codes.shape[1] == len(classes)
        if not (named and ((codes >= 0) & (codes < classes)).all()):
            raise InputError(
                f"codes must be whole numbers (n, {len(classes)}), the class of each useful column in a row"
            )
        distinct, index = distinct_rows(codes, classes)
        return distinct, index, places_of(distinct, self.useful)

    def sample(self, symbols: ArrayLike) -> np.ndarray:
        """One released symbol y for every x in `symbols` (n,), int64 (n,), with randomness of the operating system.

        Equal x are independent draws. There is no seed. Raises `InputError` for a symbol that is none, `EntropyError`
        if the system gives no randomness.
        """
        index = np.atleast_1d(np.asarray(symbols))
        index = index.astype(np.int64) if index.size == 0 else index
        if index.ndim != 1 or index.dtype.kind not in "iu":
            raise InputError("symbols must be whole numbers, one axis")
        bad = np.flatnonzero((index < 0) | (index >= len(self.table)))
        if bad.size:
            raise InputError(f"symbols[{bad[0]}] is not one of the {len(self.table)} useful symbols")
        return tables.draw(self._sums, index)

    def apply(self, frame: Any, unseen: str | None = None) -> Any:
        """The released columns for the records of a frame: one fresh draw for each record, all or nothing.

        A pandas, polars or Arrow frame gives one of the same kind; columns by name give a dict. Rows keep the order of
        the frame, which may depend on private columns. For files, a self-test, a receipt, a random order and a ledger
        against second releases use `jaxpriv.release.release`. Errors as for `symbols` and `sample`.
        """
        if self.earlier is not None:
            raise InputError("this mechanism looks at earlier draws: release records with `jaxpriv.release.release`")
        if isinstance(frame, (str, os.PathLike)):
            raise InputError("frame must be a table, not a path; files are released by `jaxpriv.release.release`")
        released = self.labels_of(self.sample(self.symbols(frame, unseen)))
        if isinstance(frame, Mapping):
            return released
        import narwhals as nw  # an extra, and there: the frame was read with it

        native = nw.from_native(frame, eager_only=True)
        return nw.from_dict(
            {name: values.tolist() for name, values in released.items()}, backend=nw.get_native_namespace(native)
        ).to_native()

    def labels_of(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        """The labels of released symbols (n,): for each column an array of texts (n,)."""
        columns = {}
        for place, (name, labels) in enumerate(zip(self.released_columns, self.released_labels, strict=True)):
            columns[name] = np.array(labels, dtype=object)[self.released[:, place]][outputs]
        return columns

    @cached_property
    def _sums(self) -> np.ndarray:
        return tables.cumulative(self.table)

    @property
    def _labels(self) -> Labels:
        return tuple(self.codebook.rules[name].labels for name in self.codebook.useful)


def _codebook_record(book: Codebook) -> Json:
    """The classes without floats: edges are texts, which Python's `float` reads back exactly."""
    rules = {name: rule_record(rule) for name, rule in book.rules.items()}
    for rule in rules.values():
        if "edges" in rule:
            rule["edges"] = [edge if isinstance(edge, str) else repr(edge) for edge in rule["edges"]]
    return {
        side: [{"column": name, "labels": list(book.rules[name].labels), "rule": rules[name]} for name in names]
        for side, names in (("private", book.private), ("useful", book.useful))
    }


def _codebook(record: Mapping[str, Any], name: str) -> Codebook:
    """The inverse, of a record that the verifier has checked."""
    sides = {side: tuple(entry["column"] for entry in record[side]) for side in ("private", "useful")}
    every = [entry for side in sides for entry in record[side]]
    rules = {entry["column"]: rule_of(entry["rule"], f"{name}: the codebook") for entry in every}
    return Codebook(**sides, rules=rules)


def correct_guess(joint: np.ndarray, mapping: np.ndarray) -> float:
    """The chance that the likeliest private symbol given the output is right, of P(s, x) (S, X) and P(y|x) (X, Y)."""
    return float((joint @ mapping).max(axis=0).sum())


@dataclass(frozen=True, eq=False)
class Evidence:
    """What proves the numbers of a mechanism. It holds counts of people: files of it are for their owner only.

    Attributes:
        private: (S, a) int64, the codes of the private columns for each s.
        private_labels: for each private column the label of each code.
        counts: (S, X) int64, the records that the mechanism was designed on.
        held_out: (S, X) int64, records that it does not depend on; None without a split.
        key: of the commitment in the mechanism, 64 hexadecimal digits.
        duals: what proves the bound, none without a certificate: `scores`, `weights`, `multipliers` as the `Solution`
            has them, or for a target of disclosure `prices`, nu (X,), a price for each useful symbol, and `line`,
            (lambda, c) with I(S;Y) >= c + lambda I(X;Y) for every mapping, as the solver proved it.
    """

    private: np.ndarray
    private_labels: Labels = field(repr=False)
    counts: np.ndarray
    held_out: np.ndarray | None
    key: str = field(repr=False)
    duals: Mapping[str, np.ndarray] = field(default_factory=dict)

    __repr__ = summary

    def __getattr__(self, name: str) -> np.ndarray | None:
        if name not in ("scores", "weights", "multipliers", "prices", "line"):
            raise AttributeError(f"Evidence has no attribute {name!r}")
        renamed(f"Evidence.{name}", f"Evidence.duals[{name!r}]")
        return self.duals.get(name)

    @property
    def parts(self) -> "tuple[Evidence, ...]":
        """This evidence alone, as `GroupedEvidence.parts` has those of several groups of columns."""
        return (self,)

    def _members(self) -> dict[str, bytes]:
        return members_of(private=self.private, counts=self.counts, held_out=self.held_out, **self.duals)

    def commitment(self) -> str:
        """The keyed hash by which a mechanism names this evidence."""
        return commitment(self.key, hashes(self._members()), self.private_labels)

    def to_bytes(self, mechanism: Mechanism) -> bytes:
        """The file; `mechanism` is the one whose `commitment` names this evidence."""
        instance(mechanism, "mechanism", Mechanism, hint=MADE_BY_FIT)
        record: dict[str, Json] = {
            "design": mechanism.sha256,
            "key": self.key,
            "claims": {name: claim.record for name, claim in self.claims(mechanism).items()},
            "private_labels": [list(labels) for labels in self.private_labels],
        }
        return packed("audit.json", AUDIT, record, self._members())

    def claims(self, mechanism: Mechanism) -> dict[str, Claim]:
        """The numbers of the mechanism on `counts`: see `jaxpriv.verifier.designs.claims_of`."""
        members = self._members()
        duals: dict[str, Table] = {
            name: array(members[name], name, *kind) for name, kind in {**DUALS, **PRICES}.items() if name in members
        }
        counts = array(members["counts.npy"], "counts", "<i8", 2)
        return claims_of(read_design(mechanism.to_bytes(), "the mechanism"), counts, duals, "counts")

    def guesses(self, mechanism: Mechanism) -> dict[str, float]:
        """How often the best guess of the private class is right on `counts`, as a share of the records: `without` a
        release, `with` it, and with the useful columns `unchanged`.
        """
        n = self.counts.sum()
        return {
            "without": float(self.counts.sum(axis=1).max() / n),
            "with": correct_guess(self.counts / n, mechanism.all_drawn()),
            "unchanged": float(self.counts.max(axis=0).sum() / n),
        }

    def save(self, path: FilePath, mechanism: Mechanism) -> None:
        """Write the file, whole or not at all; a new one can be read by its owner only."""
        write_together({path: self.to_bytes(mechanism)}, private=[path])

    @classmethod
    def load(cls, path: FilePath, mechanism: Mechanism) -> "Evidence":
        """The evidence of a file that `save` wrote for this mechanism, everything in it computed again.

        Raises `InputError` if the file is absent, `IntegrityError` if it is damaged, altered or of another mechanism.
        """
        design = read_design(mechanism.to_bytes(), "the mechanism")
        audit = read_audit(read_file(path), design, str(path))
        return cls.of_file(audit)

    @classmethod
    def of_file(cls, audit: Audit) -> "Evidence":
        """What a file that was checked holds."""
        return cls(
            private=np.array(audit.private, dtype=np.int64),
            private_labels=tuple(tuple(labels) for labels in audit.record["private_labels"]),
            counts=values_of(audit.counts, np.int64),
            held_out=values_of(audit.held_out, np.int64),
            key=audit.record["key"],
            duals={name.removesuffix(".npy"): values_of(table, float) for name, table in audit.duals.items()},
        )
