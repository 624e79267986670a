"""`jaxpriv report`: a page about a release."""

from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError

# Confidence of the bounds for the population, which need the counts.
_CONFIDENCE = 0.95


def report(
    design: Path,
    out: Path,
    private: Path | None = None,
    receipt: Path | None = None,
    confidence: float = _CONFIDENCE,
) -> None:
    """Write a page about a release: what it reveals about each private class, what is proved, what is not covered."""
    _output.need_ending("--out", out, ".html", ".htm")
    if private is None and confidence != _CONFIDENCE:
        raise InputError("--confidence goes with --private: it is about bounds for the population")
    from jaxpriv.release.grouped import load_evidence, load_mechanism
    from jaxpriv.verifier.archive import read_file
    from jaxpriv.verifier.releases import read_receipt

    release = load_mechanism(design)
    evidence = None if private is None else load_evidence(private, release)
    stated = None if receipt is None else read_receipt(read_file(receipt), str(receipt))
    text = working("Reporting", lambda _: jp.report.report(release, evidence, receipt=stated, confidence=confidence))
    secret = [] if evidence is None else [out]
    _output.deliver({}, None, f"report in {out}\n", {out: text.encode()}, private_files=secret)
