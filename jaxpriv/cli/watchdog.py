"""`jaxpriv watchdog`: release what leaks little about S, merge the rest; from a joint or from a table of records."""

from enum import StrEnum
from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonRecord, MappingOptions, Units
from jaxpriv.cli._tables import CountOptions, book_file, problem_of, symbols_of
from jaxpriv.cli._work import working

_NUMBERS = (
    *("epsilon", "leakage", "leakage_released", "leakage_complement", "bounds", "information", "utility", "entropy"),
    *("released_mass", "released", "scores", "group", "keep"),
)
# How many causes of what is withheld are printed; the JSON has all.
_CAUSES = 3


class Merge(StrEnum):
    """What is done to the symbols that are not released."""

    marginal = "marginal"
    uniform = "uniform"
    single = "single"
    subsets = "subsets"
    randomised_response = "randomised-response"


def watchdog(
    *,
    data: Path,
    columns: CountOptions,
    epsilon: float | None = None,
    target_leakage: float | None = None,
    target_utility: float | None = None,
    merge: Merge = Merge.marginal,
    measures: bool = False,
    results: MappingOptions,
) -> None:
    """Release the symbols whose score max |ln P(s|x)/P(s)| is small, and hide which of the others it was.

    Leakage and utility are exact on the joint as given; of a table that is the joint of its records,
    which bounds nothing for a population. Also printed: the bounds that follow from the
    threshold alone (gamma of Hsu, Asoodeh and Calmon 2019, and a tighter one). Symbols are named by their index.
    The mapping shows which symbols are released and, rounded, how frequent the others are; the JSON holds exact numbers
    of the joint, and is for its owner. Exit code 3: no mapping has that utility.
    """
    columns.check(data)
    from jaxpriv._runtime.validation import joint_array

    results.check()
    options = {"epsilon": epsilon, "target_leakage": target_leakage, "target_utility": target_utility}
    _output.only_one(options)
    arrays, table = problem_of(data, columns, ["joint"])
    joint = joint_array(arrays["joint"])
    books = book_file(results.codebook_out, table)
    source = {} if table is None else {"rows": int(arrays["counts"].sum()), "sparse": table.sparse}
    design = working("Scoring", lambda _: jp.watchdog.watchdog(joint, perturbation=_asked(merge), **options))
    record = {**_output.record_of(design, *_NUMBERS), "merge": merge, "units": "nats", **source}
    causes = jp.watchdog.explain(design, counts=arrays.get("counts"), target_leakage=target_leakage)
    record["withheld"] = causes
    if measures:
        names = ("name", "form", "order", "divergence", "value", "units")
        rows = working("Measuring", lambda _: design.report().rows)
        record["measures"] = [_output.record_of(row, *names) for row in rows]
    files = {**results.files(lambda: design.mechanism, symbols_of(arrays)), **books}
    text = _text(design, source, results.units) + "".join(f"{cause.sentence}\n" for cause in causes[:_CAUSES])
    text += "" if results.out is None else _reveals(merge)
    _output.deliver(record, results.json, text, files, private=True)


def _asked(merge: Merge) -> "jp.watchdog.Perturbation":
    if merge is Merge.subsets:
        return jp.watchdog.SubsetMerging()
    if merge is Merge.randomised_response:
        return jp.watchdog.RandomisedResponse()
    return jp.watchdog.CompleteMerging(str(merge))


def _reveals(merge: Merge) -> str:
    """What the mapping itself reveals about the joint."""
    others = {
        Merge.marginal: "rounded shares of the others, from which no count follows",
        Merge.subsets: "which of the others are merged, with rounded shares, from which no count follows",
        Merge.randomised_response: "how often the others are kept, a number computed from the joint",
    }
    also = others.get(merge, "nothing about how frequent the others are")
    return f"--out shows whoever has it: which symbols are released, and {also}\n"


def _text(design: "jp.watchdog.Watchdog", source: JsonRecord, units: Units) -> str:
    released, bounds, most = design.released, design.bounds, units.most
    # Given by the user, not a bound: shown as it is.
    lines = {"epsilon": f"{design.epsilon * units.per_nat:.6g} {units}"}
    if source:
        lines["joint of"] = f"{source['rows']} records{', too few for its symbols' if source['sparse'] else ''}"
    lines |= {
        "released": f"{int(released.sum())} of {len(released)} symbols, {design.released_mass:.2%} of the mass",
        "lift leakage, exact": most(design.leakage),
        "  released symbols": most(design.leakage_released),
        "  the others": most(design.leakage_complement),
    }
    if bounds is not None:
        lines |= {"bound from epsilon": most(bounds.tight), "gamma of Hsu et al.": most(bounds.gamma)}
    lines["utility I(X;Y)"] = f"{_output.lower(design.utility * units.per_nat)} of H(X) = {units.least(design.entropy)}"
    lines["average leakage I(S;Y)"] = most(design.information)
    text = _output.aligned(lines)
    if bounds is not None and bounds.explanation is not None:
        text += f"gamma: {bounds.explanation}\n"
    return text
