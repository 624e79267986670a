"""`jaxpriv release`: every record of a table released by one draw from a design."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._options import Unseen, given_of
from jaxpriv.cli._output import Units
from jaxpriv.cli._results import claim_text
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
    rows. Rows are released in a random order. Ledger and order are for the owner: do not publish them.
    """
    from jaxpriv.release.grouped import load_evidence, load_mechanism
    from jaxpriv.release.releasing import RECEIVERS
    from jaxpriv.statistics.tables.readers import read_columns
    from jaxpriv.verifier.releases import Receipt

    _output.need_ending("--order-out", options.order_out, ".zip")
    folders = [Path(os.path.realpath(path)).parent for path in (private, design) if path is not None]
    if options.ledger is None and not options.no_ledger:  # its name ends with what only the design tells
        _output.check_outputs({"--ledger": folders[0] / "private-ledger"}, {})
    source, kept, identity = table_file(table, read), options.keep or [], options.identity or []

    def work(_: object) -> "tuple[jp.release.Released, list[jp.release.TableDrift]]":
        loaded, drifts, given = load_mechanism(design), [], given_of(options)
        columns = read_columns(source, list(dict.fromkeys((*loaded.codebook.useful, *identity, *kept))))
        if private is not None:
            evidence = load_evidence(private, loaded)
            for part, own in zip(loaded.parts, evidence.parts, strict=True):
                by_rule = replace(part, unseen=given.get("unseen", part.unseen))
                drifts.append(jp.release.drift(by_rule, own, columns))
            if after is not None or loaded.parts[0].earlier is not None:
                given["evidence"] = evidence
        if after is not None:
            given["after"] = load_mechanism(after)
        return jp.release.release(columns, loaded, out, receipt, private_folder=folders, **given), drifts

    found, drifts = working("Releasing", work)
    rows = len(found.outputs)
    disclosed = None if found.disclosed is None else found.disclosed.leakage
    record = {
        "receipt": found.receipt,
        "rows": rows,
        **_output.record_of(found, "unseen", "served", "escaped", "singled_out", "ledgers"),
        "order": found.order_file,
        "disclosed": disclosed,
        "drift": (drifts[0] if len(drifts) == 1 else drifts) or None,
    }
    notes = (
        (True, f"{rows} records released; receipt in {receipt}"),
        (found.order_file, f"rows are in a random order, for the owner alone in {found.order_file}"),
        *((True, f"draws are recorded, for the owner alone, in {path}") for path in found.ledgers),
        *((True, f"stated in the receipt: {sentence}") for sentence in Receipt(found.receipt).departures),
        *(
            (True, f"{RECEIVERS[name]} have at most {claim_text(claim, Units.nats)} on the records of the design")
            for name, claim in (disclosed or {}).items()
        ),
        (found.served, f"{found.served} records were in the ledger and keep their earlier draw"),
        (
            found.served and not identity,
            "they are the same rows of an equal table; if they are other people, name a column that says so: --id",
        ),
        (
            found.earlier and not (identity or found.served),
            "the ledger has releases of other tables; without --id it does not notice a person who is in several",
        ),
        (
            found.fresh,
            f"{found.fresh} records had no draw by the earlier design: one was drawn, recorded, and not released",
        ),
        (
            found.unseen,
            f"{found.unseen} records combine classes as none of the fit did: {found.receipt.get('unseen')}",
        ),
        (
            found.escaped,
            f"{found.escaped} cells got an apostrophe: spreadsheets would have taken them for formulas",
        ),
        (kept, f"not covered by any audit: {', '.join(kept)}"),
        (
            found.singled_out,
            f"kept columns single out {found.singled_out} of {rows} rows: who knows them for a record finds its row in "
            "any order",
        ),
    )
    lines = [text for noted, text in notes if noted]
    for place, drift in enumerate(drifts, 1):
        lines += [f"group {place}:"] if len(drifts) > 1 else []
        lines += _differences(drift)
    _output.deliver(record, json, "".join(f"{line}\n" for line in lines), private=True)


def _differences(drift: "jp.release.TableDrift") -> list[str]:
    """How a table differs from the records of its design, in words."""
    lines = [f"compared with the {drift.design} records of the design:"]
    lines += [
        f"  {one.column or 'all useful columns together'}: total variation {one.variation:.3f}, p = {one.p_value:.2g} "
        f"(corrected {one.adjusted:.2g})"
        for one in drift.columns
    ]
    if drift.information is not None:
        lines.append(f"of these records I(S;Y) is at most I(X;Y), at most {claim_text(drift.information, Units.nats)}")
    if drift.drifted:
        lines.append(
            "warning: a corrected p is below 0.01, which is evidence that these records come from another population "
            "than those of the design: its bounds for the population may not hold for them; those for every "
            "population do"
        )
    return lines
