"""`release` makes a released file and its receipt: one secure draw for each record, recorded in a ledger.

The order of what reaches the disk: the ledger with the draws, then the order of the rows, the released file and the
receipt. A run that is killed at any moment leaves nothing half-written. With a ledger the next run writes the same file
again; without one a file without a receipt stands in its way until somebody has decided what it is.
"""

import contextlib
import io
import itertools
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b, shake_256
from pathlib import Path

import numpy as np

from jaxpriv._runtime.files import FilePath, same_file, write_together
from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import flag, instance, listed, scalar, texts
from jaxpriv.errors import InputError, IntegrityError, ResourceError
from jaxpriv.release import table as tables
from jaxpriv.release.grouped import GroupedEvidence, GroupedMechanism, check_evidence
from jaxpriv.release.ledger import DESIGNS, RULES, Ledger, fresh_key, locked
from jaxpriv.release.mechanism import MADE_BY_FIT, Evidence, Mechanism, members_of, packed, rule_for, this_version
from jaxpriv.statistics.tables import TableFile
from jaxpriv.statistics.tables.readers import Column, Source, read_columns, row_text
from jaxpriv.verifier import archive
from jaxpriv.verifier.archive import Json
from jaxpriv.verifier.csv_text import column_names, csv_line, escaped
from jaxpriv.verifier.designs import disclosed as disclosed_by
from jaxpriv.verifier.records import ORDER, RECEIPT, VERSIONS
from jaxpriv.verifier.releases import Receipt, unkeepable
from jaxpriv.verifier.sequences import Disclosed, rounded_rows

# How the coalitions of `Disclosed` are called.
RECEIVERS = {
    "earlier": "receivers of the earlier release",
    "alone": "receivers of this release alone",
    "together": "receivers of both",
}
_LEDGER = "private-ledger-"
_FORMATS: Mapping[str, str] = {".csv": "csv", ".parquet": "parquet"}


@dataclass(frozen=True, eq=False)
class Released:
    """What `release` did.

    Attributes:
        outputs: the symbol y of every record, int64 (n,), in the order of the table; of k groups of columns (n, k).
        order: the record that each released row is of, int64 (n,); None if rows are in the order of the table.
        unseen: records whose combination of classes has no symbol.
        served: records that were in a ledger: they keep their earlier draw.
        elsewhere: records that the ledger of a design that is not stated holds, in one of the private folders.
        unread: ledgers of other designs in these folders, or folders, that could not be read: `elsewhere` is without
            their records.
        escaped: cells of a CSV that got an apostrophe, because a spreadsheet would have computed them.
        singled_out: rows whose kept columns no other row has: who knows those of a record finds its row in any order.
        receipt: what the receipt states.
        ledgers: the files in which the draws are recorded; none without a ledger.
        order_file: where `order` was written, None with it.
        earlier: whether a ledger held draws before; False of a design that looks at them: it finds its records there.
        disclosed: what the receivers of an earlier release and of this one have; None without one.
        fresh: records without a draw of the earlier design that this one looks at: one was drawn and recorded.
        identified: whether columns identify the records in the ledgers.
    """

    outputs: np.ndarray
    order: np.ndarray | None
    unseen: int
    served: int
    elsewhere: int
    unread: tuple[Path, ...]
    escaped: int
    singled_out: int
    receipt: Mapping[str, Json]
    ledgers: tuple[Path, ...]
    order_file: Path | None
    earlier: bool
    disclosed: Disclosed | None
    fresh: int
    identified: bool

    __repr__ = summary

    @property
    def sentences(self) -> list[str]:
        """What is to be noted of the release, in words and without a full stop; for the owner alone.

        Bounds are on the records of the design. An argument of `release` that helps is named in backquotes.
        """
        stated, lines = Receipt(self.receipt), []
        kept = stated.record["kept"]
        if self.order_file is not None:
            lines.append(f"rows are in a random order, for the owner alone in {self.order_file}")
        lines += [f"draws are recorded, for the owner alone, in {path}" for path in self.ledgers]
        lines += [f"stated in the receipt: {sentence}" for sentence in stated.departures]
        for name, claim in ({} if self.disclosed is None else self.disclosed.leakage).items():
            lines.append(f"{RECEIVERS[name]} have at most {claim.end()} on the records of the design")
        if self.served:
            lines.append(f"{self.served} records were in the ledger and keep their earlier draw")
        if self.served and not self.identified:
            lines.append(
                "they are the same rows of an equal table; if they are other people, name a column that says so: "
                "`identity`"
            )
        elif self.earlier and not self.identified:
            lines.append(
                "the ledger has releases of other tables; without `identity` it does not notice a person who is in "
                "several"
            )
        elif self.earlier and not self.served:
            lines.append(
                "the ledger has other records and none of these; if they were released before, `identity` was written "
                "otherwise then (blanks, leading zeros, capital letters), and this is a second draw"
            )
        if self.elsewhere:
            lines.append(
                f"{self.elsewhere} records were released by another design before: receivers of both releases can put "
                "them together, and no number here is about that; before publishing, state that design and a limit: "
                "`after`, `limit`"
            )
        lines += [unread_sentence(path) for path in self.unread]
        if self.fresh:
            lines.append(
                f"{self.fresh} records had no draw by the earlier design: one was drawn, recorded, and not released"
            )
        if self.unseen:
            lines.append(f"{self.unseen} records combine classes as none of the fit did: {stated.record['unseen']}")
        if self.escaped:
            lines.append(f"{self.escaped} cells got an apostrophe: spreadsheets would have taken them for formulas")
        if kept:
            lines.append(f"not covered by any audit: {', '.join(kept)}")
        if self.singled_out:
            lines.append(
                f"kept columns single out {self.singled_out} of {stated.rows} rows: who knows them for a record finds "
                "its row in any order"
            )
        return lines


def release(
    source: Source,
    mechanism: Mechanism | GroupedMechanism,
    out: FilePath,
    receipt: FilePath,
    *,
    unseen: str | None = None,
    ledger: FilePath | None = None,
    no_ledger: bool = False,
    private_folder: FilePath | Sequence[FilePath] | None = None,
    identity: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    keep_order: bool = False,
    order_out: FilePath | None = None,
    force: bool = False,
    after: Mechanism | GroupedMechanism | None = None,
    evidence: Evidence | GroupedEvidence | None = None,
    limit: float | None = None,
) -> Released:
    """Release the records of a table by a mechanism, into a file.

    Every release is recorded in a ledger, and a record that is in it keeps its draw: two independent draws for one
    record reveal more about it than one. Rows are released in a random order (from 248 random bits of the operating
    system), because the order of a table may depend on private columns.

    The ledger of a mechanism lies in `private_folder`, under a name that follows from its table; it sees what was
    released with the same ledger. Without `identity` a record is identified by all useful classes of the table and
    its row, so a table with rows added, removed, changed or in another order is a new one.

    The mechanisms of several groups of columns draw independently of each other, and all columns go into one file.

    Args:
        source: the table: a frame, columns by name, or a .csv or .parquet file.
        out: the released file, .csv or .parquet: the columns of the mechanism, one row for each record.
        receipt: the file, written last, of what was released by which design.
        unseen: what a combination of classes without a symbol comes to; by default as the mechanism states. In two
            releases of which the receivers of both are stated it has to be the same rule, which the ledger records;
            `suppress` is refused with
            `after` for such records, unless the mechanism looks at the earlier draws.
        ledger: a further ledger, which several mechanisms may share. Where the private folder cannot be written it is
            the only one.
        no_ledger: record nothing; refused for records that a ledger in `private_folder` has. The receipt states it.
        private_folder: the folder of the ledger and the order of the rows, files that are not published; by default
            that of the receipt. Of several folders it is the first one; ledgers in the others are kept, too.
        identity: the columns that identify a record in the ledgers.
        keep: further columns, which go into the file as they are. No audit covers them. Private columns and what the
            mechanism releases cannot be kept.
        keep_order: release the rows in the order of the table. The receipt states it.
        order_out: the file of the order of the rows, for `verify`; by default in `private_folder` (where that cannot
            be written, beside `ledger`), named by the hash of the released file. A new file is for its owner only.
        force: replace files that exist: without a ledger that is a second draw for the same records.
        after: another design of the same useful symbols, by which these records were or will be released too,
            independently given the record; a design that looks at earlier draws holds its own. The receipt states what
            its receivers have, those of this release, and both together: maximal leakage and LDP, and from `evidence`,
            the counts of `mechanism`, its measure. A ledger that holds draws by both designs is accepted.
        limit: what any of them may have at most, in the unit of the measure; needed with `after`.

    A warning names a ledger of another design, or a folder, that cannot be read: whether it holds these records is not
    known.

    Raises `InputError` for what cannot be released (naming column and row) or has been, `IntegrityError` and
    `EntropyError` if the self-test fails or there is no randomness, `ResourceError` if a file cannot be written. In all
    cases nothing is released.
    """
    instance(mechanism, "mechanism", Mechanism, GroupedMechanism, hint=MADE_BY_FIT)
    for name, value in {"no_ledger": no_ledger, "keep_order": keep_order, "force": force}.items():
        flag(value, name)
    _check_files(source, {"out": out, "receipt": receipt, "order_out": order_out, "ledger": ledger})
    target, proof = Path(out), Path(receipt)
    identity, keep = (texts(column_names(names), name) for name, names in {"identity": identity, "keep": keep}.items())
    kind = _FORMATS.get(target.suffix.lower())
    if kind is None:
        raise InputError(f"{target}: tables are released as .csv and .parquet files")
    rule = rule_for(mechanism.unseen, unseen)
    if no_ledger and (ledger is not None or identity):
        raise InputError("no_ledger goes without `ledger` and `identity`, which are about one")
    if keep_order and order_out is not None:
        raise InputError("order_out goes without `keep_order`: the order is that of the table")
    _check_columns(mechanism, keep)
    disclosed = _disclosed(mechanism, after, evidence, limit)
    if no_ledger and mechanism.parts[0].earlier is not None:
        raise InputError("no_ledger: the design looks at the draws of an earlier one, which a ledger holds")
    new = [proof, target, *([] if order_out is None else [Path(order_out)])]
    if not force:
        _refuse_second(new)
    folders = _folders(private_folder, proof)
    of_mechanism = ledger_names(mechanism, folders)
    paths = [] if no_ledger else _ledger_files(of_mechanism, ledger)
    followed = mechanism.parts[0].chain[:-1]
    real_paths = [os.path.realpath(path) for path in paths]
    others = [path for design in followed for path in ledger_names(design, folders) if path.exists()]
    others = [path for path in others if os.path.realpath(path) not in real_paths]
    paths = [*others, *paths]
    names = list(dict.fromkeys((*mechanism.codebook.useful, *identity, *keep)))
    columns = read_columns(source, names)
    codes = mechanism.codebook.encode_useful(columns)
    unknown, symbols = _located(mechanism, codes, rule)
    suppressed = unknown & (rule == "suppress")
    if after is not None and not followed:
        _need_one_symbol(after.parts[0], codes, symbols[0], suppressed, rule)
    _self_test(mechanism, followed, symbols, bool(suppressed.any()))
    kept = {name: columns[name] for name in keep}
    with contextlib.ExitStack() as locks:
        # In one order, so that two processes do not wait for each other: a release into the same files comes later.
        for path in sorted({Path(os.path.realpath(path)) for path in new}):
            locks.enter_context(locked(path, wait=True))
        if not force:
            _refuse_second(new)  # another release may have ended since
        read = [path for path in of_mechanism if path.exists()] if no_ledger and not force else paths
        for path in sorted(read):
            locks.enter_context(locked(path, wait=path in of_mechanism or path in others))
        books = {path: Ledger.load(path) for path in read}
        held = not followed and any(len(book.entries) for book in books.values())
        chain = [*(followed or (() if after is None else after.parts[0].chain)), mechanism]
        designs = [_digest(design) for design in chain]
        shared = None if ledger is None else os.path.realpath(ledger)
        _enter(books, [path for path in of_mechanism if os.path.realpath(path) != shared], designs)
        if unknown.any():
            names = {design: ledger_names(design, folders) for design in chain[:-1]}
            _one_rule(books, names, [*followed, mechanism], rule, unknown)
        looked_up = _Looked(books, codes, [columns[name] for name in identity], designs)
        before, fresh = _earlier_draws(looked_up, followed, symbols[0], suppressed)
        pairs = [_pair(part, own_symbols, before) for part, own_symbols in zip(mechanism.parts, symbols, strict=True)]
        outputs, served = looked_up.drawn(mechanism, pairs)
        stated = [path for design in chain for path in ledger_names(design, folders)]
        elsewhere, unread = looked_up.elsewhere(folders, [*stated, *paths])
        for path in unread:
            warnings.warn(unread_sentence(path), stacklevel=2)
        if no_ledger and served:
            raise InputError(
                f"no_ledger: {served} of these records are in {' and '.join(map(str, read))}: they were released "
                "before, and a second draw reveals more about them; with the ledger they keep their draw"
            )
        order = None if keep_order else _permutation(books[paths[-1]].key if paths else fresh_key(), outputs, kept)
        content, marked = _content(kind, mechanism, outputs, kept, order)
        record: dict[str, Json] = {
            "format": RECEIPT,
            "version": 2,
            "tool": this_version(),
            "design": mechanism.sha256,
            "unseen": rule,
            "columns": list(mechanism.released_columns),
            "kept": list(keep),
            "ledger": "used" if paths else "none",
            "order": "kept" if order is None else "permuted",
            "released": {
                "sha256": archive.digest(content),
                "bytes": len(content),
                "rows": len(outputs),
                "format": kind,
            },
        }
        if disclosed is not None:
            record |= {"version": VERSIONS[RECEIPT], "after": disclosed.record(chain[-2].sha256, limit)}
        files: dict[FilePath, bytes] = {target: content, proof: archive.sealed(record)}
        order_file = None
        if order is not None:
            beside = paths[-1].parent if paths else folders[0]
            named = beside / f"private-order-{archive.digest(content)[:16]}.zip"
            order_file = named if order_out is None else Path(order_out)
            files = {order_file: _order_bytes(order, content), **files}
        if paths:
            write_together({path: book.to_bytes() for path, book in books.items()}, private=paths)
        write_together(files, private=[] if order_file is None else [order_file])
    rows = Counter(zip(*map(_texts, kept.values()), strict=True))
    return Released(
        outputs if isinstance(mechanism, GroupedMechanism) else outputs[:, 0],
        order,
        int(unknown.sum()),
        served,
        elsewhere,
        unread,
        marked,
        sum(count == 1 for count in rows.values()),
        record,
        tuple(paths),
        order_file,
        bool(paths) and held,
        disclosed,
        fresh,
        bool(identity),
    )


def _located(
    mechanism: Mechanism | GroupedMechanism, codes: np.ndarray, rule: str
) -> tuple[np.ndarray, list[np.ndarray]]:
    """(which records (n,) combine classes as no symbol does, the symbols (n,) of each group of columns)."""
    unknown, symbols = np.zeros(len(codes), dtype=bool), []
    ends = np.cumsum([len(part.codebook.useful) for part in mechanism.parts])[:-1]
    for part, own_codes in zip(mechanism.parts, np.split(codes, ends, axis=1), strict=True):
        unknown |= part.unknown(own_codes)
        symbols.append(part.locate_codes(own_codes, rule))
    return unknown, symbols


def _need_one_symbol(
    after: Mechanism, codes: np.ndarray, symbols: np.ndarray, suppressed: np.ndarray, rule: str
) -> None:
    """Refuse records without a symbol for which an independent earlier release has taken another one."""
    if suppressed.any():
        raise InputError(
            f"unseen: {row_text(np.flatnonzero(suppressed)[0])} has no symbol (such rows: {suppressed.sum()}), and one "
            "that is drawn evenly is not that of the earlier release: receivers of both would learn more than is "
            "stated; choose 'nearest', if that was the rule of the earlier release, or leave these records out"
        )
    moved = np.flatnonzero(after.locate_codes(codes, rule) != symbols) if rule == "nearest" else np.zeros(0)
    if moved.size:
        raise InputError(
            f"unseen: {row_text(moved[0])} has no symbol (such rows: {moved.size}), and the earlier release takes "
            "another one for the nearest: receivers of both would learn more than is stated; leave these records out"
        )


def _self_test(
    mechanism: Mechanism | GroupedMechanism, followed: Sequence[Mechanism], symbols: Sequence[np.ndarray], again: bool
) -> None:
    """Test the rows of all tables that are drawn from; those of every symbol where symbols are drawn `again`."""
    used = [*((design, symbols[0]) for design in followed), *zip(mechanism.parts, symbols, strict=True)]
    for part, own_symbols in used:
        draws = np.arange(len(part.table) // len(part.useful))  # of the earlier designs
        # The symbols of suppressed records are drawn again where there are earlier draws.
        tested = np.arange(len(part.useful)) if followed and again else np.unique(own_symbols)
        tables.self_test(part.table, (tested[:, None] * len(draws) + draws).ravel())


def _enter(books: Mapping[Path, Ledger], of_design: Sequence[Path], designs: Sequence[str]) -> None:
    """Record in each ledger the digests of the designs that the release states, of which the last one is its own.

    `IntegrityError` where a ledger `of_design`, of the last one alone, holds draws of other designs alone.
    """
    for path, book in books.items():
        if path in of_design and len(book.entries) and book.version > DESIGNS and designs[-1] not in book.designs:
            raise IntegrityError(f"{path} is the ledger of another design under the name of this one's")
        book.designs.update(designs)


def _earlier_draws(
    looked_up: "_Looked", followed: Sequence[Mechanism], symbols: np.ndarray, suppressed: np.ndarray
) -> tuple[np.ndarray, int]:
    """(the draw of each record (n,) by the designs that this one looks at, as one number, how many had none before).

    Suppressed records get new `symbols`, from what their draws tell.
    """
    before, fresh = np.zeros(len(symbols), dtype=np.int64), 0
    for design in followed:
        drawn, drawn_before = looked_up.drawn(design, [_pair(design, symbols, before)])
        if not drawn_before and len(symbols):
            raise InputError(
                "ledger: no ledger has a draw of these records by the earlier design, which this one looks at; "
                "name the one that it was released with"
            )
        before = before * len(design.released) + drawn[:, 0]
        if suppressed.any():
            symbols[suppressed] = _evenly_given(design, before[suppressed])
        fresh = max(fresh, len(symbols) - drawn_before)
    return before, fresh


def _one_rule(
    books: Mapping[Path, Ledger],
    earlier: Mapping[Mechanism, Sequence[Path]],
    drawn: Sequence[Mechanism | GroupedMechanism],
    rule: str,
    unknown: np.ndarray,
) -> None:
    """Record by which rule the designs that are drawn from release records without a symbol.

    Of two rules the pairs of draws are none that what is stated covers. So `InputError` where an `earlier` design, each
    with the names of its ledgers, released such records by another one, or no ledger that has its rule is there: its
    own, or a shared one.
    """
    where = f"unseen: {row_text(np.flatnonzero(unknown)[0])} has no symbol (such rows: {unknown.sum()}), and"
    for earlier_design, names in earlier.items():
        design = _digest(earlier_design)
        unread = [path for path in names if path.exists() and path not in books]
        ledgers = [*books.values(), *map(Ledger.load, unread)]
        if not unread and earlier_design not in drawn and not any(design in book.unseen for book in ledgers):
            raise InputError(
                f"{where} the ledger of the earlier release, which has the rule for such records, is not in the "
                "private folder; name that too, or leave these records out"
            )
        # A ledger of an earlier version has no rules: that of the design is taken.
        rules = {book.unseen.get(design, rule) if book.version > RULES else earlier_design.unseen for book in ledgers}
        if rules - {rule}:
            raise InputError(
                f"{where} the earlier release has {min(rules - {rule})!r} for such records: choose the same rule, or "
                "leave these records out"
            )
    for book in books.values():
        for digest in map(_digest, drawn):  # of two rules neither is that of all records: no release follows
            book.unseen[digest] = rule if book.unseen.get(digest, rule) == rule else "refuse"


def _pair(part: Mechanism, symbols: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The row of the table for each record: of x, or of x and the earlier draws."""
    return symbols if part.earlier is None else symbols * len(part.earlier.drawn[0]) + before


def _evenly_given(earlier: Mechanism, before: np.ndarray) -> np.ndarray:
    """A symbol x for every draw of a chain (n,): from the posterior of one that was drawn evenly, to 2^-62.

    A suppressed record then has a mixture of the rows P(z, y | x), so bounds for every population hold for it. A symbol
    that did not depend on z would give pairs (z, y) that no row has.
    """
    drawn, index = np.unique(before, return_inverse=True)
    posteriors = rounded_rows([[row[z] for row in earlier.drawn] for z in drawn.tolist()])
    sums = tables.cumulative(np.array(posteriors, dtype=np.uint64))
    return tables.draw(sums, index)


def ledger_names(mechanism: Mechanism | GroupedMechanism, folders: Sequence[Path]) -> list[Path]:
    """The names of the ledger of a design in these folders."""
    return [folder / f"{_LEDGER}{_digest(mechanism)[:16]}" for folder in folders]


def _disclosed(
    mechanism: Mechanism | GroupedMechanism,
    after: Mechanism | GroupedMechanism | None,
    evidence: Evidence | GroupedEvidence | None,
    limit: float | None,
) -> Disclosed | None:
    """What receivers of both releases have, None without an earlier one; `InputError` where it is above the limit.

    A design that looks at earlier draws has its own limit, so that a further one and the evidence may be left out.
    """
    looks = mechanism.parts[0].earlier is not None
    if after is None and not looks:
        if evidence is not None or limit is not None:
            raise InputError(
                "limit and the evidence (on the command line `private`) go with `after`, an earlier design"
            )
        return None
    if not isinstance(mechanism, Mechanism) or isinstance(after, GroupedMechanism):
        raise InputError("after is about designs that are not of groups of columns")
    if (evidence is None and not (looks and limit is None)) or (limit is None and not looks):
        raise InputError("after needs a `limit` and the evidence of the design (on the command line `private`)")
    if evidence is not None:
        check_evidence(evidence, mechanism)
    if after is not None:
        instance(after, "after", Mechanism, hint=MADE_BY_FIT)
        if _digest(after) == _digest(mechanism):
            raise InputError("after: it is the design itself, by which a record has one draw")
    counts = None if evidence is None else tables.as_table(evidence.parts[0].counts)
    disclosed = disclosed_by(mechanism.verify(), None if after is None else after.verify(), counts)
    over = None if limit is None else disclosed.above(scalar(limit, "limit", low=0.0))
    if over is not None:
        most = disclosed.upper[over] or "inf"
        raise InputError(f"limit: {RECEIVERS[over]} would have {most}, more than {limit:g}; nothing was released")
    return disclosed


def unread_sentence(path: Path) -> str:
    """What is to be said of a ledger of another design, or of a folder of ledgers, that could not be read."""
    return (
        f"{path} could not be read: whether another design released these records before is not known from it; "
        "receivers of both releases could put them together"
    )


def _check_files(source: Source, outputs: Mapping[str, FilePath | None]) -> None:
    """`InputError` for a name that is none, and for two names of one file, which would lose one of them."""
    for name, path in outputs.items():
        if path is not None or name in ("out", "receipt"):
            instance(path, name, str, os.PathLike)
    given = {name: path for name, path in outputs.items() if path is not None}
    for name, path in given.items():
        if os.path.isdir(path):
            raise InputError(f"{name}: {path} is a folder; name a file")
    table = source.path if isinstance(source, TableFile) else source
    read = {"source": table} if isinstance(table, (str, os.PathLike)) else {}
    for (first, path), (second, other) in itertools.combinations({**read, **given}.items(), 2):
        if same_file(path, other):
            raise InputError(f"{second} is the same file as {first}; name another one")


def _refuse_second(files: Sequence[Path]) -> None:
    for path in files:
        if path.exists():
            raise InputError(
                f"{path} exists: these records may have been released. A second draw for the same records reveals more "
                "about them; name other files (with a ledger the draws are repeated), or `force` if nothing was "
                "published"
            )


def _digest(mechanism: Mechanism | GroupedMechanism) -> str:
    """What makes two mechanisms one to a ledger: the probabilities and what is released."""
    content = b"".join(part.table.tobytes() + part.released.tobytes() for part in mechanism.parts)
    before = [_digest(part.earlier).encode() for part in mechanism.parts if part.earlier is not None]
    return archive.digest(b"".join([content, *before]))


def _folders(given: FilePath | Sequence[FilePath] | None, proof: Path) -> list[Path]:
    """The private folders by their real names, each once."""
    several = [proof.parent] if given is None else [given] if isinstance(given, (str, os.PathLike)) else given
    several = listed(several, "private_folder")
    if not several:
        raise InputError("private_folder must be one or more folders")
    for folder in several:
        instance(folder, "private_folder", str, os.PathLike)
    return list(dict.fromkeys(Path(os.path.realpath(folder)) for folder in several))


def _ledger_files(of_mechanism: Sequence[Path], named: FilePath | None) -> list[Path]:
    """The ledgers to keep: the one that is named, those there are of the mechanism, and the one that it shall have.

    Beside a named one that is left out where its folder cannot be written: later a release that names none ends there
    with an error and not with a second draw.
    """
    present = [path for path in of_mechanism[1:] if path.exists()]
    if named is not None:
        present = [Path(named), *(path for path in present if os.path.realpath(path) != os.path.realpath(named))]
        if os.path.realpath(named) == os.path.realpath(of_mechanism[0]):
            return [*present[1:], of_mechanism[0]]
        if not of_mechanism[0].exists() and not os.access(of_mechanism[0].parent, os.W_OK):
            return present
    return [*present, of_mechanism[0]]


def _check_columns(mechanism: Mechanism | GroupedMechanism, keep: Sequence[str]) -> None:
    book = mechanism.codebook
    for place, name in enumerate(keep):
        reason = unkeepable(name, book.private, book.useful, mechanism.released_columns)
        if reason is not None:
            raise InputError(f"keep: column {name!r} {reason}")
        if name in keep[:place]:
            raise InputError(f"keep: column {name!r} is named twice")


@dataclass(frozen=True, eq=False)
class _Looked:
    """The records of a table in some ledgers.

    A record is looked up as a row of its table and, with columns that identify it, by these: both are recorded, so a
    later release of the same table finds it with and without them. The draw by identity goes before that of an earlier
    row with the same identity, and this before that of the row. The draw of every group but the first has an entry of
    its own, whose name ends with the number of the group.

    Attributes:
        codes: the useful classes of the records.
        identity: the columns that identify them.
        designs: the digests of all designs that the release states: draws by them are accepted.
    """

    books: Mapping[Path, Ledger]
    codes: np.ndarray
    identity: Sequence[Column]
    designs: Sequence[str]

    @cached_property
    def table(self) -> str:
        """The digest of the records."""
        return archive.digest(np.ascontiguousarray(self.codes).tobytes())

    def drawn(self, mechanism: Mechanism | GroupedMechanism, symbols: Sequence[np.ndarray]) -> tuple[np.ndarray, int]:
        """(a draw of each group for each record (n, k), from rows `symbols` of its table, how many had one before).

        Draws of then take the place of new ones, which are added to the books.
        """
        outputs = np.stack(
            [part.sample(symbols_of_part) for part, symbols_of_part in zip(mechanism.parts, symbols, strict=True)],
            axis=1,
        )
        if not self.books:
            return outputs, 0
        digest = _digest(mechanism)
        designs = [digest, *(design for design in self.designs if design != digest)]
        served = np.zeros(len(outputs), dtype=bool)
        keys = []
        first = {path: book for path, book in self.books.items() if book.version == 1}
        contents = [row.tobytes() for row in self.codes] if first or self.identity else []

        def named(who: Sequence[bytes]) -> Callable[[Ledger, bytes], np.ndarray]:
            return lambda book, design: book.keyed(who, [design + content for content in contents])

        def look_up(books: Mapping[Path, Ledger], group: int, keyed: Callable[[Ledger, bytes], np.ndarray]) -> None:
            for path, book in reversed(list(books.items())):  # the first one has the last word
                asked, *stated = (keyed(book, design.encode()) for design in designs)
                keys.append((book, asked, group))
                before = book.recorded(asked, stated)
                if (before >= len(mechanism.parts[group].released)).any():
                    raise IntegrityError(f"{path} holds a symbol that the design does not release")
                outputs[before >= 0, group] = before[before >= 0]
                served[before >= 0] = True

        groups = [(group, f" group {group + 1}".encode() if group else b"") for group in range(len(mechanism.parts))]
        for group, end in groups:
            rows = [f"{self.table} {row}".encode() + end for row in range(len(outputs))] if first else []
            look_up(first, group, named(rows))
            name = self.table.encode() + end
            look_up(self.books, group, lambda book, design, name=name: book.keyed_rows(name, design, len(outputs)))
        if self.identity:
            spellings = _who(self.identity)
            first_rows: dict[bytes, int] = {}
            for row, person in enumerate(spellings[-1]):
                other = first_rows.setdefault(person, row)
                if contents[other] != contents[row]:
                    raise InputError(f"ledger: {row_text(row)} has the identity of {row_text(other)} and other values")
                outputs[row] = outputs[other]
            for who in spellings:
                for group, end in groups:
                    look_up(self.books, group, named([person + end for person in who]))
        for book, asked, group in keys:
            book.add(asked, outputs[:, group])
        return outputs, int(served.sum())

    def elsewhere(self, folders: Sequence[Path], stated: Sequence[Path]) -> tuple[int, tuple[Path, ...]]:
        """(how many of the records the ledgers in these folders hold, but for those that are `stated`, which of these
        ledgers and folders cannot be read)."""
        own_paths = set(map(os.path.realpath, stated))
        recorded = np.zeros(len(self.codes), dtype=bool)
        unread = [folder for folder in folders if folder.exists() and not os.access(folder, os.R_OK | os.X_OK)]
        for path in (path for folder in folders for path in folder.glob(f"{_LEDGER}*[0-9a-f]")):
            if os.path.realpath(path) in own_paths:
                continue
            try:
                book = Ledger.load(path)
            except (InputError, IntegrityError, ResourceError):  # damaged, of a later version or of another owner
                unread.append(path)
                continue
            names = [book.keyed_rows(self.table.encode(), b"", len(self.codes))]
            names += [book.keyed(who, [b""] * len(who)) for who in (_who(self.identity) if self.identity else ())]
            for asked in names:
                recorded |= np.isin(asked["who"], book.entries["who"])
        return int(recorded.sum()), tuple(unread)


def _who(identity: Sequence[Column]) -> list[list[bytes]]:
    """Who each record is, in both spellings where floats are whole numbers: 1.0 (as a file has it), and then 1."""
    for column in identity:
        if column.missing.any():
            raise InputError(f"{column.where(np.flatnonzero(column.missing)[0])} is missing: it identifies a record")
    spellings = [[column.texts for column in identity]]
    if any(column.kind == "number" for column in identity):
        spellings.insert(0, [[str(value) for value in column.values.tolist()] for column in identity])
    # Lengths before the texts: no two records share an encoding.
    return [
        [b"".join(b"%d:%s" % (len(cell), cell) for cell in map(str.encode, row)) for row in zip(*texts, strict=True)]
        for texts in spellings
    ]


def _permutation(key: bytes, outputs: np.ndarray, kept: Mapping[str, Column]) -> np.ndarray:
    """The records in a random order, int64 (n,), expanded from `key` and all that the file will hold.

    The same draws and kept columns have the same order under one key: a run after one that was killed writes the same
    file. A release that differs in anything has an independent order, so its rows are not matched by their places.
    """
    seed = blake2b(outputs.tobytes(), key=key, person=b"order of rows")
    for name, column in kept.items():
        for text in (name, *_texts(column)):
            encoded = text.encode()
            seed.update(b"%d:%s" % (len(encoded), encoded))
    numbers = shake_256(seed.digest()).digest(16 * len(outputs))
    return np.lexsort(np.frombuffer(numbers, dtype="<u8").reshape(2, -1))


def _order_bytes(order: np.ndarray, content: bytes) -> bytes:
    """The file of `jaxpriv.verifier.orders`."""
    members = members_of(order=order.astype(np.int64))
    return packed("order.json", ORDER, {"released": archive.digest(content)}, members)


def _content(
    kind: str,
    mechanism: Mechanism | GroupedMechanism,
    outputs: np.ndarray,
    kept: Mapping[str, Column],
    order: np.ndarray | None,
) -> tuple[bytes, int]:
    """(the file, cells with an apostrophe); rows in the `order` of records, or in that of the table."""
    if order is not None:
        outputs, kept = outputs[order], {name: column.part(order) for name, column in kept.items()}
    drawn = list(zip(mechanism.parts, outputs.T, strict=True))
    if kind == "parquet":
        return _parquet(drawn, kept), 0
    names = [*mechanism.released_columns, *kept]
    safe = [escaped(name) for name in names]
    marked, written = sum(map(str.__ne__, safe, names)), []
    symbols = (
        (zip(*part.labels_of(np.arange(len(part.released))).values(), strict=True), places) for part, places in drawn
    )
    for rows, places in (*symbols, *map(_different, kept.values())):
        pairs = [(row, [escaped(cell) for cell in row]) for row in rows]
        marked += int(np.array([sum(map(str.__ne__, *pair)) for pair in pairs])[places].sum())
        cells = np.array([csv_line([*row, ""])[:-2] for _, row in pairs], dtype=object)  # as before further ones
        written.append(cells[places].tolist())
    lines = [",".join(row) or csv_line([""])[:-1] for row in zip(*written, strict=True)]
    return "\n".join([csv_line(safe)[:-1], *lines, ""]).encode(), marked


def _texts(column: Column) -> list[str]:
    return ["" if gap else str(value) for value, gap in zip(column.values.tolist(), column.missing, strict=True)]


def _different(column: Column) -> tuple[Iterable[Sequence[str]], np.ndarray]:
    """The different texts of a column, as rows of one cell, and the place of each row's among them."""
    texts = _texts(column)
    place = {text: k for k, text in enumerate(dict.fromkeys(texts))}
    return zip(place), np.array([place[text] for text in texts])


def _parquet(drawn: Sequence[tuple[Mechanism, np.ndarray]], kept: Mapping[str, Column]) -> bytes:
    try:
        import polars as pl  # an extra
    except ImportError as error:
        raise ResourceError("Parquet files need polars: pip install 'jaxpriv[tables]'") from error
    data: dict[str, list[object]] = {
        name: values.tolist() for part, places in drawn for name, values in part.labels_of(places).items()
    }
    for name, column in kept.items():
        data[name] = np.where(column.missing, None, column.values.astype(object)).tolist()
    stream = io.BytesIO()
    pl.DataFrame(data).write_parquet(stream)
    return stream.getvalue()
