"""`jaxpriv release`: every record of a table released by one draw from a design."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._app import in_options
from jaxpriv.cli._fit_line import command_line
from jaxpriv.cli._options import Unseen, given_of
from jaxpriv.cli._tables import table_file
from jaxpriv.cli._work import working


@dataclass(frozen=True)
class ReleaseOptions:
    """Arguments of `release` as they are."""

    unseen: Unseen | None = None
    limit: float | None = None
    ledger: Path | None = None
    no_ledger: bool = False
    identity: list[str] | None = None
    keep: list[str] | None = None
    keep_order: bool = False
    order_out: Path | None = None
    force: bool = False


def release(
    *,
    table: Path,
    design: Path,
    out: Path,
    receipt: Path,
    read: list[str] | None = None,
    private: Path | None = None,
    after: Path | None = None,
    options: ReleaseOptions,
    json: Path | None = None,
) -> None:
    """Release every record by one draw from the design, with random numbers of the operating system.

    All or nothing: if a record cannot be released, none is. The receipt is written last. A second draw for the same
    records would reveal more about them: the ledger, private-ledger-... in the folder of AUDIT.zip or else of
    DESIGN.zip, records every draw and repeats it, under other names of files too. It does not see releases from
    another folder (a copy of the design), with --no-ledger, or by other tools, nor without --id a table with other
    rows. Records that another design released are counted, where its ledger is in the same folder. Rows are released
    in a random order. Ledger and order are for the owner: do not publish them.
    """
    from jaxpriv.release.grouped import load_evidence, load_mechanism
    from jaxpriv.statistics.tables.readers import read_columns

    _output.need_ending("--order-out", options.order_out, ".zip")
    folders = [Path(os.path.realpath(path)).parent for path in (private, design) if path is not None]
    if options.ledger is None and not options.no_ledger:  # its name ends with what only the design tells
        _output.check_outputs({"--ledger": folders[0] / "private-ledger"}, {})
    source = table_file(table, read)

    def work(_: object) -> "tuple[jp.release.Released, list[jp.release.TableDrift]]":
        loaded, drifts, given = load_mechanism(design), [], given_of(options)
        needed = (*loaded.codebook.useful, *given.get("identity", ()), *given.get("keep", ()))
        columns = read_columns(source, list(dict.fromkeys(needed)))
        if private is not None:
            evidence = load_evidence(private, loaded)
            for part, part_evidence in zip(loaded.parts, evidence.parts, strict=True):
                by_rule = replace(part, unseen=given.get("unseen", part.unseen))
                drifts.append(jp.release.drift(by_rule, part_evidence, columns))
            if after is not None or loaded.parts[0].earlier is not None:
                given["evidence"] = evidence
        if after is not None:
            given["after"] = load_mechanism(after)
        return jp.release.release(columns, loaded, out, receipt, private_folder=folders, **given), drifts

    released, drifts = working("Releasing", work)
    record = {
        "receipt": released.receipt,
        "rows": len(released.outputs),
        **_output.record_of(released, "unseen", "served", "elsewhere", "unread", "escaped", "singled_out", "ledgers"),
        "order": released.order_file,
        "disclosed": None if released.disclosed is None else released.disclosed.leakage,
        "drift": (drifts[0] if len(drifts) == 1 else drifts) or None,
    }
    lines = [f"{len(released.outputs)} records released; receipt in {receipt}"]
    names = {"identity": "--id", "after": "--after", "limit": "--limit"}
    lines += [in_options(sentence, names) for sentence in released.sentences]
    checked = command_line("verify", receipt, {"design": design, "after": after, "released": out})
    lines += [f"For receivers: {out}, {receipt} and {design}. They check these by", f"  {checked}"]
    for place, drift in enumerate(drifts, 1):
        lines += [f"group {place}:"] if len(drifts) > 1 else []
        lines += drift.sentences
    _output.deliver(record, json, "".join(f"{line}\n" for line in lines), private=True)
