"""`jaxpriv release`, records released by a design, with a receipt; `jaxpriv report`, a page about a design."""

from pathlib import Path
from typing import Annotated

import typer

from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonOption
from jaxpriv.cli._tables import ReadOption, table_file
from jaxpriv.cli._work import working
from jaxpriv.cli.fit import Unseen


def release(
    table: Annotated[
        Path,
        typer.Argument(metavar="TABLE.csv", help="A table of records: .csv, .tsv or .parquet.", show_default=False),
    ],
    design: Annotated[Path, typer.Option(metavar="DESIGN.zip", help="What `jaxpriv fit` wrote.", show_default=False)],
    out: Annotated[
        Path, typer.Option(metavar="RELEASED.csv", help="The released file: .csv or .parquet.", show_default=False)
    ],
    receipt: Annotated[
        Path, typer.Option(metavar="RECEIPT.json", help="Names the design and the released file.", show_default=False)
    ],
    read: ReadOption = None,
    unseen: Annotated[
        Unseen | None,
        typer.Option(
            help="Records with a combination of classes that no record of the fit had: release nothing, release a "
            "symbol independent of the record, or release the combination that differs in the fewest columns. The "
            "default is set by the design.",
            show_default=False,
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="LEDGER",
            help="A file of what was released for whom (mode 0600): a record in it gets the same draw again.",
        ),
    ] = None,
    identity: Annotated[
        list[str] | None,
        typer.Option(
            "--id", metavar="COL", help="Column that identifies a record in the ledger; by default table and row."
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COL", help="A further column that goes into the file as it is; no audit covers it."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that exist, though they may have been published.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Release every record by one draw from the design, with random numbers of the operating system.

    All or nothing: if a record cannot be released, none is. The receipt is written last. A second draw for the same
    records would reveal more about them: it is refused, or, with --ledger, repeats the first draw.
    """
    from jaxpriv import mechanism

    inputs = {"TABLE": table, "--design": design}
    outputs = {"--out": out, "--receipt": receipt, "--ledger": ledger, "--json": json}
    _output.check_outputs(outputs, inputs)
    source = table_file(table, read)

    def work(_: object) -> mechanism.Released:
        return mechanism.release(
            source,
            mechanism.Mechanism.load(design),
            out,
            receipt,
            unseen=None if unseen is None else str(unseen),
            ledger=ledger,
            identity=identity or (),
            keep=keep or (),
            force=force,
        )

    found = working("Releasing", work)
    record = {
        "receipt": dict(found.receipt),
        "rows": len(found.outputs),
        "unseen": found.unseen,
        "served": found.served,
        "escaped": found.escaped,
    }
    lines = [f"{len(found.outputs)} records released; receipt in {receipt}"]
    if found.served:
        lines.append(f"{found.served} records were in the ledger and keep their earlier draw")
    if found.unseen:
        lines.append(f"{found.unseen} records combine classes as none of the fit did: {found.receipt['unseen']}")
    if found.escaped:
        lines.append(f"{found.escaped} cells got an apostrophe: spreadsheets would have taken them for formulas")
    if keep:
        lines.append(f"not covered by any audit: {', '.join(keep)}")
    _output.deliver(record, json, "".join(f"{line}\n" for line in lines), private=True)


def report(
    design: Annotated[Path, typer.Argument(metavar="DESIGN.zip", help="What `jaxpriv fit` wrote.", show_default=False)],
    out: Annotated[
        Path, typer.Option(metavar="REPORT.html", help="One page; it needs no network.", show_default=False)
    ],
    private: Annotated[
        Path | None,
        typer.Option(
            metavar="AUDIT.zip",
            help="Counts and certificate: adds what the release reveals about each private class, the certified curve "
            "and bounds for the population. The page then holds shares of private classes (mode 0600).",
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Confidence of all bounds for the population simultaneously.")
    ] = 0.95,
) -> None:
    """Write a page about a release: what it reveals about each private class, what is proved, what is not covered."""
    from jaxpriv.mechanism import Evidence, Mechanism
    from jaxpriv.report import report as page

    inputs = {"DESIGN.zip": design, **({} if private is None else {"--private": private})}
    _output.check_outputs({"--out": out}, inputs)
    mechanism = Mechanism.load(design)
    evidence = None if private is None else Evidence.load(private, mechanism)
    text = working("Reporting", lambda _: page(mechanism, evidence, confidence=confidence))
    secret = [] if evidence is None else [out]
    _output.deliver({}, None, f"report in {out}\n", {out: text.encode()}, private_files=secret)
