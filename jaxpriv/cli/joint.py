"""`jaxpriv joint`: the joint distribution and the distortion of a table of records, as other commands read them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from jaxpriv.cli import _output
from jaxpriv.cli._output import CodebookOutOption, JsonOption
from jaxpriv.cli._tables import CostOptions, arrays_of_table, book_file


@dataclass(frozen=True)
class SurveyOptions(CostOptions):
    """Options about records that have weights, too."""

    survey_weight: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="Survey weights of the records (numbers >= 0): the joint is that of weighted records; bounds for a "
            "population from counts do not apply to it.",
        ),
    ] = None


def joint(
    *,
    table: Annotated[
        Path,
        typer.Argument(metavar="TABLE.csv", help="A table of records: .csv, .tsv or .parquet.", show_default=False),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="PROBLEM.npz",
            help="Write `joint` (S,X), `counts` (S,X), `distortion` (X,X), `attributes` (X,b), the classes of each x, "
            "and `classes`, a fingerprint of the codebook.",
            show_default=False,
        ),
    ],
    columns: SurveyOptions,
    codebook_out: CodebookOutOption = None,
    json: JsonOption = None,
) -> None:
    """Count a table of records: the joint distribution of its private and useful columns, and their distortion.

    S and X are the combinations of classes that occur, in the order of their codes. PROBLEM.npz holds counts of
    people: a new one can be read by its owner only.
    """
    outputs = {"--out": out, "--codebook-out": codebook_out, "--json": json}
    _output.check_outputs(outputs, {"TABLE": table, **columns.inputs})
    arrays, counted = arrays_of_table(table, columns, costs=True)
    states, symbols = arrays["joint"].shape
    record = {
        "records": int(arrays["counts"].sum()),
        "private": {"columns": list(counted.codebook.private), "symbols": states},
        "useful": {"columns": list(counted.codebook.useful), "symbols": symbols},
        "least_private": int(arrays["counts"].sum(axis=1).min()),
        "least_useful": int(arrays["counts"].sum(axis=0).min()),
        "empty_cells": int((arrays["counts"] == 0).sum()),
        "largest_distortion": float(arrays["distortion"].max()),
        "sparse": counted.sparse,
    }
    files = {out: _output.npz_bytes(**arrays), **book_file(codebook_out, counted)}
    text = (
        f"{record['records']} records, |S| = {states}, |X| = {symbols}, at least {record['least_private']} records for "
        f"each s and {record['least_useful']} for each x, {record['empty_cells']} of {states * symbols} cells empty\n"
    )
    _output.deliver(record, json, text, files, private=True, private_files=[out])
