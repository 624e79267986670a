"""`jaxpriv counts`: how many records of each class the original table had, estimated from a release."""

from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._tables import table_file
from jaxpriv.cli._work import working


def counts(
    released: Path,
    design: Path,
    json: Path | None = None,
) -> None:
    """Estimate how many records of the original table each class had, from what was released.

    For users of a release: a count of the released table is biased, because the release moves records between classes.
    Each estimate has a range, the standard error of the random draws, and the largest systematic error that is possible
    where the design does not determine the count.
    """
    from jaxpriv.release.grouped import load_mechanism

    file, mechanism = table_file(released, None), load_mechanism(design)
    estimates = working("Estimating", lambda _: jp.release.estimate_counts(mechanism, file))
    tables = (
        _output.table_of(
            (
                (label, *(f"{number:.0f}" for number in numbers))
                for label, *numbers in zip(
                    estimate.labels,
                    estimate.count,
                    estimate.low,
                    estimate.high,
                    estimate.standard_error,
                    estimate.bias,
                    strict=True,
                )
            ),
            ["records", "from", "to", "standard error", "largest bias"],
            before=[name],
            after=(),
        )
        for name, estimate in estimates.items()
    )
    text = (
        "Records of each class in the original table, estimated: a count may be negative, and counts need not add up.\n"
        "In about 95 of 100 releases the count of the original table is in the range `from` to `to`.\n"
        "Where the largest bias is large, the design does not determine the count.\n"
    )
    text += _output.rendered(*tables)
    if any(estimate.doubtful for estimate in estimates.values()):
        text += "warning: a class has far fewer than no records: this is no table that the design released\n"
    _output.deliver({"columns": estimates}, json, text)
