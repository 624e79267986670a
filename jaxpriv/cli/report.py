"""`jaxpriv report`: a design as one page for people."""

from pathlib import Path
from typing import Annotated

import typer

from jaxpriv.cli import _output
from jaxpriv.cli._work import working


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
            "and "
            "bounds for the population. The page then holds shares of private classes (mode 0600).",
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
