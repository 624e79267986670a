"""`jaxpriv leakage`: every measure of one mapping."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonRecord, Units
from jaxpriv.cli._tables import (
    SYMBOLS,
    ColumnOptions,
    counts_by_attributes,
    is_table,
    problem_of,
)
from jaxpriv.cli._work import working

if TYPE_CHECKING:
    import numpy as np

    from jaxpriv._runtime.types import Arr
    from jaxpriv.leakage import AbstractLeakage


def leakage(
    *,
    mechanism: Path,
    joint: Path,
    columns: ColumnOptions,
    order: list[float] | None = None,
    units: Units = Units.nats,
    json: Path | None = None,
) -> None:
    """Evaluate every leakage measure of a mapping, on the joint as given.

    Beside a worst outcome or an infinite value stand the output and the private symbols (by index) where it
    is attained. The cap in the last line needs no joint: it holds for every population.
    """
    from jaxpriv._runtime.files import load_npz_safely
    from jaxpriv._runtime.validation import joint_array, mechanism_array, real_array
    from jaxpriv.leakage import by_name

    extra = [by_name(name, order=value) for name in ("sibson", "arimoto") for value in order or ()]
    stored = load_npz_safely(mechanism, ["mechanism", *(SYMBOLS if is_table(joint) else ())])
    channel = stored["mechanism"]
    if is_table(joint):
        records, _ = counts_by_attributes(joint, columns, stored["attributes"], stored["classes"], "--joint")
        table = records.counts / records.counts.sum()
    else:
        table = problem_of(joint, columns, ["joint"])[0]["joint"]
    single = real_array(table, "joint", ndim=(1, 2, 3)).ndim < 3
    joints = [joint_array(table)] if single else [joint_array(one, f"joint[{k}]") for k, one in enumerate(table)]
    mechanism_array(channel, inputs=table.shape[-1])
    records = working(
        "Measuring", lambda _: [_measure(k, one, channel, order or [], extra) for k, one in enumerate(joints)]
    )
    record = {
        "units": "nats",
        "prior_free_cap": records[0]["prior_free_cap"],
        "measures": [row for one in records for row in one["measures"]],
        "absent_private": [one["absent_private"] for one in records],
        "unused_outputs": [one["unused_outputs"] for one in records],
    }
    _output.deliver(record, json, _text(records, single, units))


def _measure(
    number: int, joint: "Arr", channel: "np.ndarray", orders: list[float], extra: "list[AbstractLeakage]"
) -> JsonRecord:
    """One joint: rows in nats, with the indices where a value is attained."""
    from jaxpriv.leakage import evaluate_all, report

    found = report(joint, channel)
    rows = [(row.name, row.form, row.order, row.divergence, row) for row in found.rows]
    labels = [(name, "average", order, None) for name in ("sibson", "arimoto") for order in orders]
    rows += [(*label, one) for label, one in zip(labels, evaluate_all(tuple(extra), joint, channel), strict=True)]
    return {
        "measures": [
            {
                "joint": number,
                "name": name,
                "form": form,
                "order": order,
                "divergence": divergence,
                "value": one.value,
                "units": one.units,
                "witness": None if one.witness is None else asdict(one.witness),
            }
            for name, form, order, divergence, one in rows
        ],
        "prior_free_cap": found.prior_free_cap,
        "absent_private": found.absent_private,
        "unused_outputs": found.unused_outputs,
    }


def _text(records: list[JsonRecord], single: bool, units: Units) -> str:
    parts: list[object] = []
    for k, one in enumerate(records):
        title = None if single else f"joint {k}"
        table = _output.empty_table(["value"], before=["measure"], after=["units", "attained at"], title=title)
        for row in one["measures"]:
            scale, unit = units.of(row["units"])
            table.add_row(_output.measure_label(row), _output.upper(row["value"] * scale), unit, _place(row))
        parts.append(table)
        for what, where in (
            ("private symbols without mass", "absent_private"),
            ("outputs never released", "unused_outputs"),
        ):
            if one[where]:
                parts.append(f"{what}: {', '.join(map(str, one[where]))}")
    cap = _output.upper(records[0]["prior_free_cap"] * units.per_nat)
    parts.append(
        f"prior-free cap: {cap} {units}. Whatever the joint is, maximal, min-entropy, Sibson and Arimoto leakage\n"
        "and mutual information stay below it."
    )
    return _output.rendered(*parts)


def _place(row: JsonRecord) -> str:
    witness = row["witness"]
    if witness is None:
        return ""
    symbols = [f"s={witness[key]}" for key in ("raised", "lowered") if witness[key] is not None]
    return f"y={witness['output']}" + (f", {' over '.join(symbols)}" if symbols else "")
