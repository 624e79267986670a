"""`jaxpriv watchdog`: release what tells little about S, merge the rest; from a joint or from a table of records."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonOption, Units, UnitsOption
from jaxpriv.cli._tables import BinsOption, MissingOption, is_table, rules_of
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError


class Merge(StrEnum):
    """What is done to the symbols that are not released."""

    marginal = "marginal"
    uniform = "uniform"
    single = "single"
    subsets = "subsets"
    randomised_response = "randomised-response"


def watchdog(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="PROBLEM.npz|TABLE.csv",
            help="`joint` (S,X) in an .npz, or a table of records (.csv, .parquet): then --private and --useful.",
        ),
    ],
    private: Annotated[
        list[str] | None,
        typer.Option(metavar="COL", help="Private column of a table; the option again for another."),
    ] = None,
    useful: Annotated[
        list[str] | None,
        typer.Option(metavar="COL", help="Useful column of a table; the option again for another."),
    ] = None,
    shared: Annotated[
        list[str] | None,
        typer.Option(metavar="COL", help="Declare that this private column is released all the same."),
    ] = None,
    bins: BinsOption = None,
    missing: MissingOption = None,
    codebook: Annotated[
        Path | None, typer.Option(metavar="BOOK.json", help="Columns and classes as stored by --codebook-out.")
    ] = None,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="Allow fewer than five rows for each useful symbol.")
    ] = False,
    epsilon: Annotated[
        float | None, typer.Option(metavar="E", help="Release x where |ln P(s|x)/P(s)| <= E for all s (nats).")
    ] = None,
    target_leakage: Annotated[
        float | None,
        typer.Option(metavar="L", help="Release as much as possible with a lift leakage of at most L nats."),
    ] = None,
    target_utility: Annotated[
        float | None, typer.Option(metavar="U", help="Leak as little as possible with I(X;Y) of at least U nats.")
    ] = None,
    merge: Annotated[
        Merge,
        typer.Option(
            help="The others are replaced by a draw from P(x), rounded so that no count follows from the mapping, an "
            "even draw, or one further output; or merged in subsets, or kept as often as the leakage allows."
        ),
    ] = Merge.marginal,
    measures: Annotated[
        bool, typer.Option("--measures", help="Add every leakage measure of the mapping to the JSON; takes seconds.")
    ] = False,
    units: UnitsOption = Units.nats,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="MECH.npz",
            help="Write the mapping: `mechanism` (X,Y), P(y|x); of a table also `attributes`, the classes of each x, "
            "and `classes`, a fingerprint of the codebook.",
        ),
    ] = None,
    codebook_out: Annotated[
        Path | None, typer.Option(metavar="BOOK.json", help="Write the columns and classes of a table, without counts.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Release the symbols whose score max |ln P(s|x)/P(s)| is small, and hide which of the others it was.

    Leakage and utility are exact on the joint as given; of a table that is the joint of its records,
    which says nothing certain about a population. Beside the exact leakage: what the threshold alone
    proves (the bound of the paper, gamma, and a tighter one). Symbols are named by their index. The mapping
    tells which symbols are released and, rounded, how frequent the others are; the JSON holds exact numbers
    of the joint, and is for its owner. Exit code 3: no mapping has that utility.
    """
    from jaxpriv.watchdog import watchdog as find

    _output.check_outputs(
        {"--out": out, "--codebook-out": codebook_out, "--json": json},
        {"TABLE": data, **({} if codebook is None else {"--codebook": codebook})},
    )
    options = {"epsilon": epsilon, "target_leakage": target_leakage, "target_utility": target_utility}
    if sum(value is not None for value in options.values()) != 1:
        raise InputError("give exactly one of --epsilon, --target-leakage and --target-utility")
    _check_numbers(options)
    columns = {"--private": private, "--useful": useful, "--shared": shared, "--bins": bins, "--missing": missing}
    if is_table(data):
        table = _table(data, columns, codebook, sparse)
        joint, book = table.dataset.joint, table.codebook
        symbols = {"attributes": table.dataset.useful_attributes, "classes": book.fingerprint}
        source = {"rows": int(table.dataset.counts.sum()), "sparse": table.sparse}
    else:
        for name, value in columns.items():
            if value:
                raise InputError(f"{name} is for tables; {data} is read as an .npz with `joint`")
        if codebook is not None or codebook_out is not None:
            raise InputError(f"codebooks are for tables; {data} is read as an .npz with `joint`")
        joint, book, symbols, source = _joint(data), None, {}, {}
    found = working("Scoring", lambda _: find(joint, perturbation=_asked(merge), **options))
    record = {**_record(found, merge), **source}
    if measures:
        record["measures"] = working("Measuring", lambda _: _measures(found))
    files: dict[Path, bytes] = {}
    if out is not None:
        files[out] = _output.npz_bytes(mechanism=found.mechanism(), **symbols)
    if codebook_out is not None and book is not None:
        files[codebook_out] = book.to_json().encode()
    text = "" if _output.is_stdout(json) else _text(record, units) + ("" if out is None else _reveals(merge))
    _output.deliver(record, json, text, files, private=True)


def _check_numbers(options: dict[str, float | None]) -> None:
    from jaxpriv._validation import scalar

    for name, value in options.items():
        if value is not None:
            scalar(value, f"--{name.replace('_', '-')}", low=0.0, infinite=name != "target_utility")


def _joint(path: Path) -> np.ndarray:
    from jaxpriv._files import load_npz_safely
    from jaxpriv._validation import joint_array

    return joint_array(load_npz_safely(path, ["joint"])["joint"])


def _table(path: Path, columns: dict[str, list[str] | None], codebook: Path | None, sparse: bool) -> Any:
    from jaxpriv.estimation.tables import Codebook, count_table

    if codebook is not None:
        if any(columns.values()):
            raise InputError(f"--codebook has its own columns and classes: leave out {', '.join(columns)}")
        return count_table(path, codebook=Codebook.load(codebook), sparse=sparse)
    private, useful, shared = (columns[name] or [] for name in ("--private", "--useful", "--shared"))
    if not private or not useful:
        raise InputError(f"{path} is a table: name its columns with --private and --useful")
    rules = rules_of(columns["--bins"], columns["--missing"], [*private, *useful])
    return count_table(path, private=private, useful=useful, rules=rules, shared=shared, sparse=sparse)


def _asked(merge: Merge) -> Any:
    from jaxpriv.watchdog import CompleteMerging, RandomisedResponse, SubsetMerging

    if merge is Merge.subsets:
        return SubsetMerging()
    if merge is Merge.randomised_response:
        return RandomisedResponse()
    return CompleteMerging(str(merge))


def _measures(found: Any) -> list[dict[str, Any]]:
    names = ("name", "form", "order", "divergence", "value", "units")
    return [{name: getattr(row, name) for name in names} for row in found.report().rows]


def _reveals(merge: Merge) -> str:
    """What the mapping itself tells about the joint."""
    others = {
        Merge.marginal: "rounded shares of the others, from which no count follows",
        Merge.subsets: "which of the others are merged, with rounded shares, from which no count follows",
        Merge.randomised_response: "how often the others are kept, a number computed from the joint",
    }
    also = others.get(merge, "nothing about how frequent the others are")
    return f"--out tells whoever has it: which symbols are released, and {also}\n"


def _record(found: Any, merge: Merge) -> dict[str, Any]:
    bounds = found.bounds
    return {
        "epsilon": found.epsilon,
        "merge": str(merge),
        "leakage": found.leakage,
        "leakage_released": found.leakage_released,
        "leakage_complement": found.leakage_complement,
        "bounds": None
        if bounds is None
        else {"tight": bounds.tight, "gamma": bounds.gamma, "explanation": bounds.explanation},
        "information": found.information,
        "utility": found.utility,
        "entropy": found.entropy,
        "released_mass": found.released_mass,
        "released": found.released,
        "scores": found.scores,
        "group": found.group,
        "keep": found.keep,
        "units": "nats",
    }


def _text(record: dict[str, Any], units: Units) -> str:
    per, unit = units.per_nat, str(units)

    def most(value: float) -> str:
        return f"{_output.upper(value * per)} {unit}"

    released = record["released"]
    # Given by the user, not a bound: shown as it is.
    lines = {"epsilon": f"{record['epsilon'] * per:.6g} {unit}"}
    if "rows" in record:
        lines["joint of"] = f"{record['rows']} records{', too few for its symbols' if record['sparse'] else ''}"
    lines |= {
        "released": f"{int(released.sum())} of {len(released)} symbols, {record['released_mass']:.2%} of the mass",
        "lift leakage, exact": most(record["leakage"]),
        "  released symbols": most(record["leakage_released"]),
        "  the others": most(record["leakage_complement"]),
    }
    bounds = record["bounds"]
    if bounds is not None:
        lines |= {"bound from epsilon": most(bounds["tight"]), "gamma of the paper": most(bounds["gamma"])}
    lines["utility I(X;Y)"] = (
        f"{_output.lower(record['utility'] * per)} of H(X) = {_output.lower(record['entropy'] * per)} {unit}"
    )
    lines["average leakage I(S;Y)"] = most(record["information"])
    width = max(map(len, lines))
    text = "".join(f"{name:<{width}}  {value}\n" for name, value in lines.items())
    if bounds is not None and bounds["explanation"] is not None:
        text += f"gamma: {bounds['explanation']}\n"
    return text
