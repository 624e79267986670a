"""`jaxpriv leakage`: every measure of one mapping."""

from pathlib import Path
from typing import TYPE_CHECKING

from jaxpriv.cli import _output
from jaxpriv.cli._output import Units
from jaxpriv.cli._tables import (
    SYMBOLS,
    ColumnOptions,
    counted_like,
    is_table,
    problem_of,
)
from jaxpriv.cli._work import working

if TYPE_CHECKING:
    from jaxpriv.leakage.evaluation import Witness


def leakage(
    *,
    mechanism: Path,
    joint: Path,
    columns: ColumnOptions,
    order: list[float] | None = None,
    envelope: list[float] | None = None,
    units: Units = Units.nats,
    json: Path | None = None,
) -> None:
    """Evaluate every leakage measure of a mapping, on the joint as given.

    Beside a worst outcome or an infinite value stand the output and the private symbols (by index) where it
    is attained. The cap in the last line needs no joint: it holds for every population.
    """
    from jaxpriv._runtime.files import load_npz_safely
    from jaxpriv._runtime.validation import joint_array, mechanism_array, real_array, scalar
    from jaxpriv.leakage import LeakageEnvelope, evaluate_all, report
    from jaxpriv.release.matching import counts_by_symbols

    curve = tuple(LeakageEnvelope(scalar(delta, "--envelope", low=0.0, high=1.0)) for delta in envelope or ())
    stored = load_npz_safely(mechanism, ["mechanism"], SYMBOLS)
    channel = stored["mechanism"]
    if is_table(joint):
        counted = counted_like(joint, columns, stored)
        records = counts_by_symbols(counted, stored["attributes"], "joint")
        table = records.counts / records.counts.sum()
    else:
        table = problem_of(joint, columns, ["joint"])[0]["joint"]
    single = real_array(table, "joint", ndim=(1, 2, 3)).ndim < 3
    joints = [joint_array(table)] if single else [joint_array(entry, f"joint[{k}]") for k, entry in enumerate(table)]
    mechanism_array(channel, inputs=table.shape[-1])
    reports, envelopes = working(
        "Measuring",
        lambda _: (
            [report(joint, channel, orders=order or ()) for joint in joints],
            [evaluate_all(curve, joint, channel) for joint in joints],
        ),
    )
    parts: list[object] = []
    for k, of_joint in enumerate(reports):
        cells = [
            (_output.measure_label(row), _output.upper(row.value * scale), unit, _place(row.witness))
            for row in of_joint.rows
            for scale, unit in [units.of(row.units)]
        ]
        cells += [
            (measure.label, _output.upper(point.value * units.per_nat), units.value, "")
            for measure, point in zip(curve, envelopes[k], strict=True)
        ]
        title = None if single else f"joint {k}"
        parts.append(
            _output.table_of(cells, ["value"], before=["measure"], after=["units", "attained at"], title=title)
        )
        places = {
            "private symbols without mass": of_joint.absent_private,
            "outputs never released": of_joint.unused_outputs,
        }
        parts += [f"{what}: {', '.join(map(str, where))}" for what, where in places.items() if where]
    cap = reports[0].prior_free_cap
    parts.append(
        f"prior-free cap: {units.most(cap)}. Whatever the joint is, maximal, min-entropy, "
        "Sibson and Arimoto leakage\nand mutual information stay below it."
    )
    record = {
        "units": "nats",
        "prior_free_cap": cap,
        "measures": [
            {"joint": k, **_output.record_of(row)} for k, of_joint in enumerate(reports) for row in of_joint.rows
        ],
        "envelopes": [
            {"joint": k, "delta": measure.delta, "value": point.value}
            for k, points in enumerate(envelopes)
            for measure, point in zip(curve, points, strict=True)
        ],
        "absent_private": [of_joint.absent_private for of_joint in reports],
        "unused_outputs": [of_joint.unused_outputs for of_joint in reports],
    }
    _output.deliver(record, json, _output.rendered(*parts))


def _place(witness: "Witness | None") -> str:
    if witness is None:
        return ""
    symbols = [f"s={symbol}" for symbol in (witness.raised, witness.lowered) if symbol is not None]
    return f"y={witness.output}" + (f", {' over '.join(symbols)}" if symbols else "")
