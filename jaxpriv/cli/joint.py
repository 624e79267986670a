"""`jaxpriv joint`: the joint distribution and the distortion of a table of records, as other commands read them."""

from pathlib import Path
from typing import Annotated

import typer

from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonOption
from jaxpriv.cli._tables import (
    NO_TABLE,
    BinsOption,
    CodebookOption,
    CodebookOutOption,
    ColumnOptions,
    DistortionOption,
    MissingOption,
    PrivateOption,
    ReadOption,
    SharedOption,
    SparseOption,
    UsefulOption,
    WeightOption,
    book_file,
    is_table,
    problem_of,
)
from jaxpriv.errors import InputError


def joint(
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
    private: PrivateOption = None,
    useful: UsefulOption = None,
    shared: SharedOption = None,
    bins: BinsOption = None,
    missing: MissingOption = None,
    codebook: CodebookOption = None,
    read: ReadOption = None,
    survey_weight: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="Survey weights of the records (numbers >= 0): the joint is that of weighted records; bounds for a "
            "population from counts do not apply to it.",
        ),
    ] = None,
    sparse: SparseOption = False,
    distortion: DistortionOption = None,
    weight: WeightOption = None,
    codebook_out: CodebookOutOption = None,
    json: JsonOption = None,
) -> None:
    """Count a table of records: the joint distribution of its private and useful columns, and their distortion.

    S and X are the combinations of classes that occur, in the order of their codes. PROBLEM.npz holds counts of
    people: a new one can be read by its owner only.
    """
    columns = ColumnOptions(
        private,
        useful,
        shared,
        bins,
        missing,
        codebook,
        sparse,
        distortion,
        weight,
        read=read,
        survey_weight=survey_weight,
    )
    outputs = {"--out": out, "--codebook-out": codebook_out, "--json": json}
    _output.check_outputs(outputs, {"TABLE": table, **columns.inputs})
    if not is_table(table):
        raise InputError(f"{table}: {NO_TABLE}")
    arrays, counted = problem_of(table, columns, ["joint", "distortion"])
    assert counted is not None
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
